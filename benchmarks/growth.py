"""How the cost of our evaluation grows with N, D, Q and the number of members: t = c size^p, p by least squares on logarithms; one thread."""

from __future__ import annotations

import numpy as np

from bars import number, table
from libraries import OURS
from problems import fixed_values, smooth
from processes import Worker

SWEEPS = {
    "N, rows (network [3-10-3])": ("rows", (200, 400, 800, 1600, 3200)),
    "D, inputs (plain GP, N = 400)": ("inputs", (2, 4, 8, 16, 32, 64, 128)),
    "Q, features (network [3-10-Q], N = 400)": ("features", (1, 2, 4, 8, 16, 32, 64)),
    "members in a batch (network [3-10-3], N = 100)": ("members", (1, 2, 4, 8, 16, 32, 64)),
}


def measure(quick: bool = False) -> dict:
    """{sweep: {"sizes", "ms", "exponent", "upper": the exponent of the upper half of the sizes}}"""
    worker, result = Worker(OURS), {}
    for name, (what, sizes) in SWEEPS.items():
        sizes = sizes[:3] if quick else sizes
        seen: list[list[float]] = [[] for _ in sizes]
        for _ in range(2 if quick else 3):
            for size, times in zip(sizes, seen, strict=True):
                times.append(_milliseconds(worker, what, size))
        ms = [float(np.median(times)) for times in seen]
        half = len(sizes) // 2
        result[name] = {
            "sizes": list(sizes),
            "ms": ms,
            "exponent": exponent(sizes, ms),
            "upper": exponent(sizes[half:], ms[half:]),
        }
    worker.close()
    return result


def _milliseconds(worker: Worker, what: str, size: int) -> float:
    rows, inputs, features, members = (
        size if what == name else default for name, default in (("rows", 400), ("inputs", 3), ("features", 3), ("members", 1))
    )
    rows = 100 if what == "members" else rows
    X, y = smooth(rows, inputs)
    values = fixed_values(inputs, () if what == "inputs" else (10, features))
    ready = worker.ask("prepare", X=X.tolist(), y=y.tolist(), values=values, members=members)
    count = int(np.clip(0.1 / ready["seconds"], 1, 30))
    return 1e3 * float(np.median(worker.ask("evaluations", count=count)["seconds"]))


def exponent(sizes, times) -> float:
    """p of t = c size^p.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def markdown(result: dict) -> str:
    rows = [
        [name, ", ".join(map(str, r["sizes"])), ", ".join(map(number, r["ms"])), f"{r['exponent']:.2f}", f"{r['upper']:.2f}"]
        for name, r in result.items()
    ]
    return table(["what grows", "sizes", "ms", "exponent", "of the upper half"], rows)
