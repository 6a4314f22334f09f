"""One exact evaluation, NLML and all gradients, against the LAPACK floor and every peer; SE-ARD, 3 inputs, float64, one thread.

    python benchmarks/evaluation.py                                  # all libraries, N = 100 to 2000
    python benchmarks/evaluation.py --sizes 100 400 --libraries manifoldgp GPyTorch

Each library has a process of its own. The floor (potrf + potri of the same N) runs in every process beside every evaluation: ratios to
the floor are medians of those pairs. The libraries take turns, and peer / ours is the median of the ratios of one turn.
"""

from __future__ import annotations

import argparse

import numpy as np

from bars import Bar, number, table
from libraries import LIBRARIES, OURS, WITHOUT_EVALUATION
from problems import NETWORK, fixed_values, reference_nlml, smooth
from processes import Crew, NotMeasured

SIZES = (100, 400, 1000, 2000)
MEMBERS = 20
SECONDS_A_TURN = 0.3
PLAIN, NET, BATCH = "plain GP", "with a network [3-10-3]", f"a member in a batch of {MEMBERS}, with the network"
WITH_NETWORK = (OURS, "GPyTorch", "libKriging MLP")


def measure(quick: bool = False) -> dict:
    return measure_sizes((100, 400) if quick else SIZES, 3 if quick else 7)


def measure_sizes(sizes: tuple[int, ...], turns: int, libraries: tuple[str, ...] = tuple(LIBRARIES)) -> dict:
    """{"cells": [{library, model, rows, ms, floor_ms, floor_ratio, over_ours, nlml_error}], "reasons", "versions"}"""
    names = tuple(name for name in libraries if name not in WITHOUT_EVALUATION)
    cells = []
    with Crew(names) as crew:
        reasons, versions = dict(crew.reasons), crew.versions()
        for rows in sizes:
            for model in (PLAIN, NET, BATCH):
                cells += _one_size(crew, model, rows, turns, reasons)
    return {"cells": cells, "reasons": reasons, "versions": versions}


def _one_size(crew: Crew, model: str, rows: int, turns: int, reasons: dict[str, str]) -> list[dict]:
    X, y = smooth(rows)
    values = fixed_values(3, () if model == PLAIN else NETWORK)
    members = MEMBERS if model == BATCH else 1
    extra = {"members": members} if members > 1 else {}
    prepared = {}
    for name in _takes_part(model, crew):
        try:
            prepared[name] = crew.workers[name].ask("prepare", X=X.tolist(), y=y.tolist(), values=values, **extra)
        except NotMeasured as reason:
            reasons[f"{name}, {model}, N = {rows}"] = str(reason)
    counts = {name: int(np.clip(SECONDS_A_TURN / answer["seconds"], 1, 50)) for name, answer in prepared.items()}
    seen: dict[str, list[dict]] = {name: [] for name in prepared}
    for _ in range(turns if rows <= 500 else min(turns, 5)):
        for name in list(prepared):
            try:
                seen[name].append(crew.workers[name].ask("evaluations", count=counts[name]))
            except NotMeasured as reason:
                reasons[f"{name}, {model}, N = {rows}"] = str(reason)
                del prepared[name]
    reference = reference_nlml(X, y, values)
    return [_cell(name, model, rows, members, seen, answer["nlml"] - reference) for name, answer in prepared.items()]


def _takes_part(model: str, crew: Crew) -> list[str]:
    wanted = {PLAIN: [n for n in crew.workers if n != "libKriging MLP"], NET: WITH_NETWORK, BATCH: (OURS,)}[model]
    return [name for name in wanted if name in crew.workers]


def _cell(name: str, model: str, rows: int, members: int, seen: dict, error: float) -> dict:
    pairs = np.concatenate([[turn["seconds"], turn["floor"]] for turn in seen[name]], axis=1)
    ratio = [np.median(t["seconds"]) / np.median(o["seconds"]) for t, o in zip(seen[name], seen.get(OURS, []), strict=False)]
    return {
        "library": name,
        "model": model,
        "rows": rows,
        "ms": 1e3 * float(np.median(pairs[0])) / members,
        "floor_ms": 1e3 * float(np.median(pairs[1])),
        "floor_ratio": float(np.median(pairs[0] / pairs[1])) / members,
        "over_ours": float(np.median(ratio)) if ratio else None,
        "nlml_error": error,
    }


def bars(result: dict) -> list[Bar]:
    ours = {(c["model"], c["rows"]): c for c in result["cells"] if c["library"] == OURS}
    limits = {400: 1.6, 1000: 1.25, 2000: 1.25}
    found = [
        Bar(f"one evaluation, {model}, N = {rows}, against potrf + potri", ours[model, rows]["floor_ratio"], limit, "x")
        for model in (PLAIN, NET)
        for rows, limit in limits.items()
        if (model, rows) in ours
    ]
    for model, limit in ((PLAIN, 0.35), (NET, 0.35), (BATCH, 0.15)):
        if (model, 100) in ours:
            found.append(Bar(f"one evaluation, {model}, N = 100", ours[model, 100]["ms"], limit, "ms"))
    return found


def markdown(result: dict) -> str:
    sizes = sorted({c["rows"] for c in result["cells"]})
    parts = []
    for model in (PLAIN, NET, BATCH):
        cells = {(c["library"], c["rows"]): c for c in result["cells"] if c["model"] == model}
        names = list(dict.fromkeys(name for name, _ in cells))
        if not names:
            continue
        floor = [
            "LAPACK potrf + potri",
            *(number(cells[names[0], n]["floor_ms"]) if (names[0], n) in cells else "–" for n in sizes),
        ]
        rows = [[name, *(_text(cells.get((name, n)), name) for n in sizes)] for name in names]
        parts.append(f"**{model[0].upper()}{model[1:]}**\n\n" + table(["library", *(f"N = {n}" for n in sizes)], [floor, *rows]))
    return "\n".join(parts)


def _text(cell: dict | None, name: str) -> str:
    if cell is None:
        return "–"
    against = "" if name == OURS or cell["over_ours"] is None else f"; **{number(cell['over_ours'], 2)}x ours**"
    return f"{number(cell['ms'])} ({number(cell['floor_ratio'])}x{against})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--libraries", nargs="+", choices=list(LIBRARIES), default=list(LIBRARIES))
    arguments = parser.parse_args()
    result = measure_sizes(tuple(arguments.sizes), arguments.turns, tuple(arguments.libraries))
    print("Milliseconds (ratio to the floor in the same process; ratio to ours)\n\n" + markdown(result))
    for what, reason in result["reasons"].items():
        print(f"{what}: {reason}")


if __name__ == "__main__":
    main()
