"""How far do predictions of few rows move for reasons that the data do not give: another order of rows or columns, other units, another seed?

    python benchmarks/invariance.py                     # the default stack at 40, 100 and 200 rows, four seeds
    python benchmarks/invariance.py --rows 40 --set own_members=40

A difference of two means is told in standard deviations of the first prediction: rms and largest over 200 new rows and over fits. The recorded data sets are
read from ../shared/data beside the repository; without that folder only the synthetic ones run.
"""

from __future__ import annotations

import argparse
import ast
import time
from collections.abc import Iterator

import numpy as np

from honesty import recorded
from manifoldgp import ManifoldGPRegressor, Stack

PROBLEMS = ("step", "smooth", "network", "contact", "heavy tails", "concrete", "airfoil", "energy")
NEW_ROWS = 200

Fitted = tuple[np.ndarray, np.ndarray]
"""Means and standard deviations of the new rows."""


def problem(name: str, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X, y, and the new rows."""
    rng = np.random.default_rng([PROBLEMS.index(name), rows])
    X = rng.normal(size=(rows + NEW_ROWS, 3))
    noise = 0.1 * rng.normal(size=len(X))
    if name == "step":
        y = 2.0 * (X[:, 0] > 0.3) + 0.3 * X[:, 1] + noise
    elif name == "smooth":
        y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + noise
    elif name == "network":
        y = np.tanh(X @ rng.normal(size=(3, 10)) * 2 + rng.normal(size=10)) @ rng.normal(size=10) / 3 + noise
    elif name == "contact":  # a leg that swings, and carries while it touches the ground
        phase = rng.uniform(0, 2 * np.pi, len(X))
        X = np.stack([np.sin(phase), np.cos(phase), (np.sin(phase) > 0.2).astype(float), X[:, 2]], 1)
        y = np.where(X[:, 2] > 0, 1.0 - X[:, 1] ** 2, 0.4 * X[:, 0]) + 0.1 * X[:, 3] + 0.3 * noise
    elif name == "heavy tails":
        y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 2] + 0.2 * rng.standard_t(3, size=len(X))
    else:
        table = np.load(recorded(f"{name}.npz"))
        some = rng.permutation(len(table["X"]))[: rows + NEW_ROWS]
        X, y = table["X"][some].astype(float), table["y"][some].astype(float).ravel()
    return X[:rows], y[:rows], X[rows:], y[rows:]


def fitted(settings: Stack, X: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int = 0) -> Fitted:
    """A stack's predictions of the new rows."""
    return ManifoldGPRegressor(averaging=settings, random_state=seed).fit(X, y).predict(new, return_std=True)


def presented_otherwise(settings: Stack, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Iterator[tuple[str, Fitted]]:
    """The same data in other orders and units, with a column twice, and with one that never changes."""
    rng, D = np.random.default_rng(0), X.shape[1]
    rows, columns = rng.permutation(len(X)), rng.permutation(D)
    yield "rows", fitted(settings, X[rows], y[rows], new)
    yield "columns", fitted(settings, X[:, columns], y, new[:, columns])
    yield "twice", fitted(settings, np.column_stack([X, X[:, 0]]), y, np.column_stack([new, new[:, 0]]))
    yield "constant", fitted(settings, np.column_stack([np.ones(len(X)), X]), y, np.column_stack([np.ones(len(new)), new]))
    scale, offset = np.exp(rng.normal(0, 3, D)), rng.normal(size=D) * X.std(0)
    mean, std = fitted(settings, (X + offset) * scale, 0.3048 * y, (new + offset) * scale)
    yield "units", (mean / 0.3048, std / 0.3048)


def moved(first: Fitted, other: Fitted) -> np.ndarray:
    """Differences of means, in standard deviations of the first prediction."""
    return (other[0] - first[0]) / first[1]


def nlpp(found: Fitted, y: np.ndarray) -> float:
    """Of a normal distribution with the mean and spread of the mixture, nats a row."""
    mean, std = found
    return float(np.mean(0.5 * ((y - mean) / std) ** 2 + np.log(std * np.sqrt(2 * np.pi))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[40, 100, 200])
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--presented", action="store_true", help="also other orders and units, which should change nothing")
    parser.add_argument("--set", nargs="*", default=[], help="settings of the stack, own_members=40")
    options = parser.parse_args()
    settings = Stack(**{name: ast.literal_eval(value) for name, value in (given.split("=") for given in options.set)})
    settings.check()
    print(
        "| rows | data | rms | worst | std, worst ratio | presented otherwise, worst | NLPP | seconds a fit |\n|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    for rows in options.rows:
        everything, spent, densities, others = [], [], [], []
        for name in options.only:
            try:
                X, y, new, y_new = problem(name, rows)
            except FileNotFoundError as error:
                print(f"{name}: skipped, {error}")
                continue
            scale = y.std()
            begin = time.process_time()
            found = [fitted(settings, X, y, new, seed) for seed in range(options.seeds)]
            seconds = (time.process_time() - begin) / options.seeds
            apart = np.concatenate([moved(a, b) for i, a in enumerate(found) for b in found[i + 1 :]])
            ratio = max(float(np.abs(np.log(b[1] / a[1])).max()) for i, a in enumerate(found) for b in found[i + 1 :])
            density = float(np.mean([nlpp(f, y_new) for f in found]) - np.log(scale))
            other = dict(presented_otherwise(settings, X, y, new)) if options.presented else {}
            worst = {how: float(np.abs(moved(found[0], f)).max()) for how, f in other.items()}
            told = ", ".join(f"{how} {value:.1e}" for how, value in worst.items()) or "-"
            print(f"| {rows} | {name} | {np.sqrt(np.mean(apart**2)):.3f} | {np.abs(apart).max():.2f} | {np.exp(ratio):.2f} | {told} | {density:.3f} | {seconds:.1f} |", flush=True)  # fmt: skip
            everything.append(apart)
            spent.append(seconds)
            densities.append(density)
            others += worst.values()
        every = np.concatenate(everything)
        largest = f"{max(others):.1e}" if others else "-"
        print(f"| {rows} | all | {np.sqrt(np.mean(every**2)):.3f} | {np.abs(every).max():.2f} | | {largest} | {np.mean(densities):.3f} | {np.mean(spent):.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
