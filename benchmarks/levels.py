"""What cheap levels save: exact fits with 3 restarts, with levels and with every start on all rows, in turns, one thread; and the memory of 10,000 rows.

Time to quality is when a fit first came within 0.01 nats a row of the NLML that all starts on all rows end with. Only values on all rows count: those on a part of them are none.
"""

from __future__ import annotations

from bars import Bar, number, table
from libraries import OURS
from problems import NETWORK, smooth
from processes import Worker

RESTARTS = 3
SLACK = 0.01  # nats a row
SHARE = 1 / 3
PLAIN, NET = "plain GP", f"network 3-{'-'.join(map(str, NETWORK))}"
TASKS = ((PLAIN, 2000, 500), (NET, 2000, 100), (PLAIN, 4000, 500))
"""Model, rows, max_iter: a network never converges here, and 4,000 rows with one would take most of an hour."""

LARGEST, LARGEST_MB, LARGEST_ITERATIONS = 10_000, 24 * 1024**3 / 1e6, 1


def measure(quick: bool = False) -> dict:
    """{"cells": [{model, rows, max_iter, levels: {...}, everyone: {...}}], "largest": {rows, peak_mb, seconds}}, each {seconds, reached, nlml}."""
    cells = [compare(model, rows, max_iter) for model, rows, max_iter in ([(PLAIN, 2000, 8)] if quick else TASKS)]
    return {"cells": cells, "largest": largest(LARGEST if not quick else 2000)}


def compare(model: str, rows: int, max_iter: int) -> dict:
    """One fit of each kind in a fresh process, after a short one: the first fit of a process is slower."""
    X, y = smooth(rows)
    options = {"network": list(NETWORK) if model == NET else [], "restarts": RESTARTS}
    worker = Worker(OURS)
    worker.ask("levelled", X=X[:30].tolist(), y=y[:30].tolist(), levels=False, max_iter=5, **options)
    data = {"X": X.tolist(), "y": y.tolist(), "max_iter": max_iter}
    fits = {kind: worker.ask("levelled", 3600.0, levels=kind == "levels", **data, **options) for kind in ("levels", "everyone")}
    worker.close()
    target = fits["everyone"]["nlml"] / rows + SLACK
    return {
        "model": model,
        "rows": rows,
        "max_iter": max_iter,
        **{kind: summary(fit, rows, target) for kind, fit in fits.items()},
    }


def summary(fit: dict, rows: int, target: float) -> dict:
    """Seconds of the whole fit and until the trace was at the target (None: never), NLML a row at the end."""
    reached = next((seconds for seconds, nlml in fit["trace"] if nlml / rows <= target), None)
    return {"seconds": fit["seconds"], "reached": reached, "nlml": fit["nlml"] / rows}


def largest(rows: int) -> dict:
    """A short fit, with levels, of as many rows as exact fits are meant for."""
    X, y = smooth(rows)
    worker = Worker(OURS)
    fit = worker.ask(
        "levelled", 3600.0, X=X.tolist(), y=y.tolist(), levels=True, network=[], restarts=RESTARTS, max_iter=LARGEST_ITERATIONS
    )
    worker.close()
    return {"rows": rows, "peak_mb": fit["peak_mb"], "seconds": fit["seconds"]}


def share(cell: dict) -> float | None:
    """Time to quality with levels, as a share of that of every start on all rows."""
    with_levels, without = cell["levels"]["reached"], cell["everyone"]["reached"]
    return None if with_levels is None or without is None else with_levels / without


def bars(result: dict) -> list[Bar]:
    found = []
    for c in result["cells"]:
        where = f"{c['model']}, N = {c['rows']}"
        found.append(Bar(f"levels, {where}: time to quality against every start on all rows", share(c), SHARE, "x"))
        worse = max(c["levels"]["nlml"] - c["everyone"]["nlml"], 0.0)
        found.append(Bar(f"levels, {where}: NLML worse than without, nats a row", worse, SLACK, ""))
    largest = result["largest"]
    return [*found, Bar(f"levels, N = {largest['rows']}: peak memory", largest["peak_mb"], LARGEST_MB, "MB")]


def markdown(result: dict) -> str:
    rows = []
    for c in result["cells"]:
        cells = [c["model"], str(c["rows"]), str(c["max_iter"])]
        for kind in ("levels", "everyone"):
            fit = c[kind]
            cells += [f"{number(fit['reached'])} s", f"{number(fit['seconds'])} s", f"{fit['nlml']:.4f}"]
        rows.append([*cells, f"{number(share(c))}x"])
    kinds = [f"{what}, {kind}" for kind in ("levels", "all starts") for what in ("to quality", "whole fit", "NLML a row")]
    text = table(["model", "N", "max_iter", *kinds, "to quality, share"], rows)
    largest = result["largest"]
    return text + (
        f"\n{RESTARTS} restarts on {largest['rows']:,} rows, {LARGEST_ITERATIONS} iteration a level: {largest['peak_mb']:.0f} MB at the peak, "
        f"{number(largest['seconds'])} s.\n"
    )
