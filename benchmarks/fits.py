"""Whole fits from the same starts, one thread: a plain SE-ARD GP with 3 restarts in every library, and the paper's step experiment.

Libraries take turns; peer / ours is the median of the ratios of one turn. Quality is the NLML per row of the parameters that a library ends
with, computed by one NumPy formula for all. Time to quality is when a fit first came within 0.01 of the best NLML that any library found.
"""

from __future__ import annotations

import numpy as np

from bars import Bar, number, table
from libraries import LIBRARIES, OURS, PLAIN_FITS
from problems import STEP_NETWORK, reference_nlml, smooth, starts, step
from processes import Crew, NotMeasured

MAX_ITER = 500
RESTARTS, STEP_RESTARTS = 3, 20
SLACK = 0.01  # nats a row
LIMIT = 240.0  # seconds for one fit
STEP = "step experiment"
POINTS_KEPT = 40  # of a trace
PLAIN_TURNS = {200: 3, 500: 2, 1000: 1}
STEP_TURNS = 3


def measure(quick: bool = False) -> dict:
    """{"cells": [{library, task, rows, seconds, over_ours, nlml, reached, trace}], "reasons", "versions"}"""
    cells: list[dict] = []
    with Crew(tuple(LIBRARIES)) as crew:
        reasons, versions = dict(crew.reasons), crew.versions()
        for rows, turns in ({100: 1} if quick else PLAIN_TURNS).items():
            X, y = smooth(rows)
            names = tuple(name for name in PLAIN_FITS if name in crew.workers)
            cells += compare(crew, names, f"plain GP, N = {rows}", X, y, starts(X, y, RESTARTS), turns, reasons)
        X, y = step()
        names = tuple(name for name in crew.workers if LIBRARIES[name].network_fit)
        count = 2 if quick else STEP_RESTARTS
        task = f"{STEP} [1-6-2], {count} restarts"
        cells += compare(crew, names, task, X, y, starts(X, y, count, STEP_NETWORK), 1 if quick else STEP_TURNS, reasons)
    return {"cells": cells, "reasons": reasons, "versions": versions, "restarts": {"plain": RESTARTS, "step": count}}


def compare(crew: Crew, names, task: str, X, y, begin: list[dict], turns: int, reasons: dict[str, str]) -> list[dict]:
    """One cell a library that finished."""
    seen: dict[str, list[dict]] = {name: [] for name in names}
    warm_up = {"X": X[:20].tolist(), "y": y[:20].tolist(), "starts": begin[:1], "max_iter": 5}
    whole = {"X": X.tolist(), "y": y.tolist(), "starts": begin, "max_iter": MAX_ITER}
    for options in (warm_up, *[whole] * turns):  # the first fit of a process loads code: it is not counted
        for name in names:
            if f"{name}, {task}" in reasons:
                continue
            try:
                answer = crew.workers[name].ask("fit", LIMIT, **options)
            except NotMeasured as reason:
                reasons[f"{name}, {task}"] = str(reason)
                continue
            if options is whole:
                seen[name].append(answer)
    cells = [_cell(name, task, X, y, answers, seen[OURS]) for name, answers in seen.items() if answers]
    best = min((c["nlml"] for c in cells if c["nlml"] is not None), default=float("nan"))
    for cell in cells:
        cell["reached"] = reached(cell, best + SLACK)
        every = max(1, -(-len(cell["trace"]) // POINTS_KEPT))
        cell["trace"] = [*cell["trace"][:-1:every], *cell["trace"][-1:]]
    return cells


def reached(cell: dict, target: float) -> float | None:
    """Seconds until the trace was at the target; None for a fit that did not end there."""
    if cell["nlml"] is None or cell["nlml"] > target:
        return None
    return next((s for s, nlml in cell["trace"] if nlml <= target), cell["seconds"])


def _cell(name: str, task: str, X, y, answers: list[dict], ours: list[dict]) -> dict:
    values = answers[0]["values"]
    ratios = [a["seconds"] / o["seconds"] for a, o in zip(answers, ours, strict=False)]
    return {
        "library": name,
        "task": task,
        "rows": len(y),
        "seconds": float(np.median([a["seconds"] for a in answers])),
        "over_ours": float(np.median(ratios)),
        "nlml": None if values is None else reference_nlml(X, y, values) / len(y),
        "trace": [[s, nlml / len(y)] for s, nlml in answers[0]["trace"]],
    }


def bars(result: dict) -> list[Bar]:
    cells = {c["library"]: c for c in result["cells"] if c["task"].startswith(STEP)}
    peer = cells.get("GPyTorch")
    share = 1 / peer["over_ours"] if peer else None
    return [Bar("fit of the step experiment, share of GPyTorch's time", share, 0.2, "x")]


def markdown(result: dict) -> str:
    parts = []
    for task in dict.fromkeys(c["task"] for c in result["cells"]):
        cells = [c for c in result["cells"] if c["task"] == task]
        rows = [
            [
                c["library"],
                number(c["seconds"]),
                "" if c["library"] == OURS else f"{number(c['over_ours'], 2)}x",
                "–" if c["nlml"] is None else f"{c['nlml']:.4f}",
                ("–" if c["nlml"] is None else "never") if c["reached"] is None else f"{number(c['reached'])} s",
            ]
            for c in cells
        ]
        header = ["library", "seconds", "against ours", "NLML per row", f"within {SLACK} of the best after"]
        parts.append(f"**{task[0].upper()}{task[1:]}**\n\n" + table(header, rows))
    return "\n".join(parts)
