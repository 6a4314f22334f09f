"""What additive kernels cost: one exact evaluation, NLML and all gradients, against one of the squared exponential: 8 inputs, orders up to 4, one thread.

    python benchmarks/additive.py
    python benchmarks/additive.py --stack      # what a stack pays for rough and additive members where nobody needs them

The two kernels take turns in one process, in processor time; the ratio is the median over the turns.

``--stack`` fits functions that a squared exponential kernel explains, and two recorded sets, by the default and by the same stack without rough and additive members: the ratio of
their processor times, and the weight of these members.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from bars import Bar, bar_table, table
from manifoldgp import ManifoldGPRegressor
from manifoldgp.averaging import fold_training
from manifoldgp.averaging.kinds import ADDITIVE_GP, PLAIN, ROUGH, ROUGH_GP
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

NO_WEIGHT = 0.05
"""The weight below which rough and additive members are of no use."""


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


def print_stack(synthetic: tuple[int, ...] = (200, 500, 1000), names: tuple[str, ...] = ("elevators", "kin40k")) -> None:
    """What rough and additive members cost, set by set."""
    from further_members import rows_of

    cases = [("smooth, 3 inputs", smooth(rows, 3)) for rows in synthetic] + [("smooth, 8 inputs", smooth(500, 8))]
    cases += [(name, rows_of(name, 0, 500)[:4]) for name in names]
    print("| data | rows | processor s | without them | ratio | their weight | NLPP | without them |\n|" + "---|" * 8)
    bare: list[float] = []
    for name, (X, y, X_test, y_test) in cases:
        fits = [_costed(X, y, X_test, y_test, every) for every in (True, False)]
        (seconds, nlpp, weight), (less, nlpp_without, _) = fits
        bare += [seconds / less] if weight < NO_WEIGHT else []
        told = [f"{seconds:.1f}", f"{less:.1f}", f"{seconds / less:.2f}", f"{weight:.2f}", f"{nlpp:.3f}", f"{nlpp_without:.3f}"]
        print("| " + " | ".join([name, str(len(y)), *told]) + " |", flush=True)
    print(
        f"\nwhere they have less than {NO_WEIGHT:.0%} of the weight: {np.mean(bare):.2f} times the time on average, {max(bare):.2f} at most ({len(bare)} fits; bar 1.3)"
    )


def _costed(X, y, X_test, y_test, every: bool) -> tuple[float, float, float]:
    """Processor seconds and NLPP of a stack, with or without rough and additive members, and the weight of these."""
    whole = fold_training.plain_models
    if not every:
        fold_training.plain_models = lambda template, inputs: {PLAIN: whole(template, inputs)[PLAIN]}
    try:
        begin = time.process_time()
        model = ManifoldGPRegressor().fit(X, y)
        seconds = time.process_time() - begin
    finally:
        fold_training.plain_models = whole
    report = model.held_out_[0]
    weights = dict(zip(report.groups, report.weights.sum(1), strict=True))
    others = sum(weights.get(name, 0.0) for name in (ROUGH_GP, ADDITIVE_GP, ROUGH))
    return seconds, float(-model.log_predictive_density(X_test, y_test).mean()), float(others)


def smooth(rows: int, inputs: int):
    """A function drawn from a GP with a squared exponential kernel, and noise of sd 0.1; 500 rows to test on."""
    rng = np.random.default_rng(rows + inputs)
    X = rng.normal(size=(rows + 500, inputs))
    square = ((X[:, None] - X[None]) ** 2).sum(-1) / (2.0 * inputs)
    y = np.linalg.cholesky(np.exp(-0.5 * square) + 1e-8 * np.eye(len(X))) @ rng.normal(size=len(X)) + 0.1 * rng.normal(
        size=len(X)
    )
    return X[:rows], y[:rows], X[rows:], y[rows:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--stack", action="store_true", help="time stacks with and without rough and additive members instead")
    given = parser.parse_args()
    if given.stack:
        print_stack()
        return
    cells = measure(tuple(given.sizes), given.turns)
    rows = [[c["kernel"], str(c["rows"]), f"{c['ms']:.1f}", f"{c['se_ms']:.1f}", f"{c['ratio']:.2f}"] for c in cells]
    print(table(["kernel", "rows", "ms", "squared exponential, ms", "ratio"], rows))
    print(bar_table(bars(cells)))


if __name__ == "__main__":
    main()
