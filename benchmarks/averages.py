"""What averaging costs: averaging="stack" and "fast" with default settings against a plain GP with 3 starts, all ours, in turns."""

from __future__ import annotations

import numpy as np

from bars import Bar, number, table
from libraries import OURS
from problems import smooth
from processes import Worker

AVERAGINGS = ("gp", "fast", "stack")
LIMITS = {"stack": 8.0, "fast": 3.0}
THREADS = {"one thread": 1, "default threads": None}


def measure(quick: bool = False) -> dict:
    """{"cells": [{threads, rows, averaging, seconds, over_gp}]}"""
    cells = []
    for label, threads in THREADS.items() if not quick else [("one thread", 1)]:
        worker = Worker(OURS, threads)
        for rows, turns in ({60: 1} if quick else {200: 3, 500: 2}).items():
            X, y = smooth(rows)
            worker.ask("averaged", X=X[:30].tolist(), y=y[:30].tolist(), averaging="gp")  # the first fit of a process is slower
            taken = {
                kind: np.array(seconds)
                for kind, seconds in zip(AVERAGINGS, zip(*(_turn(worker, X, y) for _ in range(turns)), strict=True), strict=True)
            }
            for kind in AVERAGINGS:
                cells.append(
                    {
                        "threads": label,
                        "rows": rows,
                        "averaging": kind,
                        "seconds": float(np.median(taken[kind])),
                        "over_gp": float(np.median(taken[kind] / taken["gp"])),
                    }
                )
        worker.close()
    return {"cells": cells}


def _turn(worker: Worker, X: np.ndarray, y: np.ndarray) -> list[float]:
    data = {"X": X.tolist(), "y": y.tolist()}
    return [worker.ask("averaged", 900.0, averaging=kind, **data)["seconds"] for kind in AVERAGINGS]


def bars(result: dict) -> list[Bar]:
    return [
        Bar(
            f'averaging="{c["averaging"]}" against a plain GP with 3 starts, N = {c["rows"]}, {c["threads"]}',
            c["over_gp"],
            LIMITS[c["averaging"]],
            "x",
        )
        for c in result["cells"]
        if c["averaging"] in LIMITS
    ]


def markdown(result: dict) -> str:
    cells = {(c["threads"], c["rows"], c["averaging"]): c for c in result["cells"]}
    rows = []
    for threads, n in dict.fromkeys((t, n) for t, n, _ in cells):
        found = [cells[threads, n, kind] for kind in AVERAGINGS]
        plain = f"{number(found[0]['seconds'])} s"
        rows.append([str(n), threads, plain, *(f"{number(c['seconds'])} s ({number(c['over_gp'])}x)" for c in found[1:])])
    return table(["N", "threads", "plain GP, 3 starts", 'averaging="fast"', 'averaging="stack"'], rows)
