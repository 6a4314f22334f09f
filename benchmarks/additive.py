"""One exact evaluation, NLML and all gradients, of the additive kernels against one of the squared exponential: 8 inputs, orders up to 4, one thread.

    python benchmarks/additive.py

The two take turns in one process, in processor time; the ratio is the median over the turns.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from bars import Bar, bar_table, table
from manifoldgp.kernels import Additive, Kernel, OrthogonalAdditive, SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.parameters import first_of
from manifoldgp.training.objective import TrainingObjective

SIZES, INPUTS = (400, 1000), 8
KERNELS: dict[str, Kernel] = {
    "Additive()": Additive(),
    'Additive("matern32")': Additive("matern32"),
    "OrthogonalAdditive()": OrthogonalAdditive(),
}


def measure(sizes: tuple[int, ...] = SIZES, turns: int = 15) -> list[dict]:
    """[{kernel, rows, ratio, ms, se_ms}]"""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_cell(name, kernel, N, turns) for N in sizes for name, kernel in KERNELS.items()]
    finally:
        torch.set_num_threads(threads)


def _cell(name: str, kernel: Kernel, N: int, turns: int) -> dict:
    ours, plain = _evaluation(kernel, N), _evaluation(SquaredExponential(), N)
    pairs = np.array([(_seconds(ours), _seconds(plain)) for _ in range(turns + 1)])[1:]  # the first one makes the buffers
    ratio, (ms, se_ms) = float(np.median(pairs[:, 0] / pairs[:, 1])), 1e3 * np.median(pairs, 0)
    return {"kernel": name, "rows": N, "ratio": ratio, "ms": float(ms), "se_ms": float(se_ms)}


def _evaluation(kernel: Kernel, N: int):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(N, INPUTS, generator=generator, dtype=torch.float64)
    data, model = Data(X, torch.sin(X.sum(-1))), Model(kernel=kernel)
    layout, drawn = model.draw(data, generator, 1)
    objective = TrainingObjective(model, layout, first_of(layout.constants(drawn)), data)
    theta = layout.flatten(drawn).numpy()
    return lambda: objective(theta, np.array([0]))


def _seconds(evaluation) -> float:
    begin = time.process_time()
    evaluation()
    return time.process_time() - begin


def bars(cells: list[dict]) -> list[Bar]:
    return [
        Bar(f"one evaluation, {c['kernel']}, N = {c['rows']}, against the squared exponential", c["ratio"], 4.0, "x")
        for c in cells
        if c["kernel"] == "Additive()"
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    cells = measure(tuple(given.sizes), given.turns)
    rows = [[c["kernel"], str(c["rows"]), f"{c['ms']:.1f}", f"{c['se_ms']:.1f}", f"{c['ratio']:.2f}"] for c in cells]
    print(table(["kernel", "rows", "ms", "squared exponential, ms", "ratio"], rows))
    print(bar_table(bars(cells)))


if __name__ == "__main__":
    main()
