"""Peak resident memory of one short fit (one start, a few iterations) against N: a fresh process for each library and size, one thread.

What the imports alone take is measured in the same process before the fit. libKriging's fits cannot be cut short, so there a single
evaluation with gradient stands for the fit, and its network is left out.
"""

from __future__ import annotations

from bars import number, table
from libraries import OURS, PLAIN_FITS
from problems import fixed_values, smooth
from processes import NotMeasured, Worker

SIZES = (500, 1000, 2000)
ITERATIONS = 3


def measure(quick: bool = False) -> dict:
    """{"cells": [{library, rows, peak_mb, above_mb}], "reasons"}: above_mb is what the fit added to the imports."""
    cells, reasons = [], {}
    for rows in (200,) if quick else SIZES:
        X, y = smooth(rows)
        for name in PLAIN_FITS:
            try:
                worker = Worker(name)
            except NotMeasured as reason:
                reasons[name] = str(reason)
                continue
            try:
                before = worker.about["peak_mb"]
                peak = _peak(worker, name, X.tolist(), y.tolist())
                cells.append({"library": name, "rows": rows, "peak_mb": peak, "above_mb": peak - before})
            except NotMeasured as reason:
                reasons[f"{name}, N = {rows}"] = str(reason)
            finally:
                worker.close()
    return {"cells": cells, "reasons": reasons}


def _peak(worker: Worker, name: str, X: list, y: list) -> float:
    values = fixed_values(len(X[0]))
    if name == "libKriging":
        worker.ask("evaluation_alone", X=X, y=y, values=values)
        return worker.ask("about")["peak_mb"]
    return worker.ask("fit", X=X, y=y, starts=[values], max_iter=ITERATIONS)["peak_mb"]


def markdown(result: dict) -> str:
    cells = {(c["library"], c["rows"]): c for c in result["cells"]}
    sizes = sorted({n for _, n in cells})
    rows = []
    for name in dict.fromkeys(name for name, _ in cells):
        found = [cells.get((name, n)) for n in sizes]
        rows.append(
            [
                name,
                *(
                    "–" if c is None else f"{c['peak_mb']:.0f} (+{number(max(c['above_mb'], 0))}{_against(cells, c)})"
                    for c in found
                ),
            ]
        )
    return table(["library", *(f"N = {n}" for n in sizes)], rows)


def _against(cells: dict, cell: dict) -> str:
    ours = cells.get((OURS, cell["rows"]))
    if ours is None or cell["library"] == OURS or ours["above_mb"] < 1:
        return ""
    return f"; {number(cell['above_mb'] / ours['above_mb'], 2)}x ours"
