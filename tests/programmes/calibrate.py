"""`make calibrate`: data sets drawn from known laws; how often intervals hold new targets, and whether the PIT is uniform, with confidence intervals."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

import manifoldgp
from manifoldgp import NUTS, ManifoldGPRegressor

LEVELS = (0.5, 0.9, 0.95)
NEW_ROWS = 20
"""Rows of each data set that are predicted; coverage is averaged over them, and the data sets are the sample."""

Law = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def _gp(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A draw from a GP with a squared exponential kernel of random length-scales, and noise."""
    lengthscale = np.exp(rng.normal(0.3, 0.5, size=X.shape[1]))
    Z = X / lengthscale
    K = np.exp(-0.5 * ((Z[:, None] - Z[None]) ** 2).sum(-1))
    return np.linalg.cholesky(K + 1e-9 * np.eye(len(X))) @ rng.normal(size=len(X)) + rng.uniform(0.05, 0.3) * rng.normal(
        size=len(X)
    )


def _network(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A network of ten tanh units with random weights, and noise."""
    W, b, v = rng.normal(size=(X.shape[1], 10)) * 2, rng.normal(size=10), rng.normal(size=10) / 3
    return np.tanh(X @ W + b) @ v + 0.1 * rng.normal(size=len(X))


def _step(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A step at a random place, on a slope, and noise."""
    return 2.0 * (X[:, 0] > rng.normal()) + 0.3 * X[:, -1] + 0.1 * rng.normal(size=len(X))


def _heavy_tails(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A smooth function with noise of Student's t with three degrees of freedom."""
    return np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] + 0.2 * rng.standard_t(3, size=len(X))


LAWS: dict[str, Law] = {"gp": _gp, "network": _network, "step": _step, "heavy tails": _heavy_tails}
AVERAGES: dict[str, Any] = {"stack": "stack", "fast": "fast", "nuts": NUTS(2, 100, chains=2, tune=100, draws=100, thin=5)}


def data_set(law: str, rows: int, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of one data set, new rows last."""
    rng = np.random.default_rng([seed, list(LAWS).index(law), rows, number])
    X = rng.normal(size=(rows + NEW_ROWS, 2))
    return X, LAWS[law](X, rng)


def transforms(average: str, law: str, rows: int, number: int, seed: int) -> np.ndarray:
    """The probability integral transforms of the new rows."""
    X, y = data_set(law, rows, number, seed)
    model = ManifoldGPRegressor(averaging=AVERAGES[average]).fit(X[:rows], y[:rows])
    return model.predict_cdf(X[rows:], y[rows:])


class Found:
    """Transforms of all data sets so far, in a file with one line for each: a run that is stopped goes on from it. A line of other code or another seed is not read."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.head = path, {"version": manifoldgp.__version__, "seed": seed, "new_rows": NEW_ROWS}
        self.pits: dict[tuple[str, str, int], dict[int, list[float]]] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            plain = json.loads(line)
            if self.head.items() <= plain.items():
                self.pits.setdefault((plain["averaging"], plain["law"], plain["rows"]), {})[plain["number"]] = plain["pit"]

    def add(self, average: str, law: str, rows: int, number: int, pit: np.ndarray) -> None:
        plain = {**self.head, "averaging": average, "law": law, "rows": rows, "number": number, "pit": pit.tolist()}
        self.pits.setdefault((average, law, rows), {})[number] = plain["pit"]
        with self.path.open("a") as file:
            file.write(json.dumps(plain) + "\n")

    def table(self) -> str:
        """One line for each average, law and number of rows; then all laws together."""
        lines = ["| averaging | law | rows | sets | 50 % | 90 % | 95 % | uniform PIT, p |", "|---|---|---|---|---|---|---|---|"]
        for (average, law, rows), sets in sorted(
            self.pits.items(),
            key=lambda item: [list(d).index(k) for d, k in zip((AVERAGES, LAWS), item[0], strict=False)] + [item[0][2]],
        ):
            lines.append(f"| {average} | {law} | {rows} | {len(sets)} | {summary(np.array(list(sets.values())))} |")
        for average in AVERAGES:
            every = [(rows, np.array(list(sets.values()))) for (name, _, rows), sets in self.pits.items() if name == average]
            for size in sorted({rows for rows, _ in every}):
                of_size = np.concatenate([pits for rows, pits in every if rows == size])
                lines.append(f"| {average} | all | {size} | {len(of_size)} | {summary(of_size)} |")
            if every:
                pits = np.concatenate([pits for _, pits in every])
                lines.append(f"| {average} | all | all | {len(pits)} | {summary(pits)} |")
        return "\n".join(lines)


def summary(pit: np.ndarray) -> str:
    """Coverage of central intervals with 95 % confidence intervals over data sets, and the p-value of a uniform PIT. pit: (sets, new rows)."""
    words = []
    for level in LEVELS:
        covered = (np.abs(pit - 0.5) <= level / 2).mean(1)
        half = stats.t.ppf(0.975, len(covered) - 1) * covered.std(ddof=1) / np.sqrt(len(covered)) if len(covered) > 1 else np.nan
        words.append(f"{100 * covered.mean():.1f} ± {100 * half:.1f}")
    uniform = stats.kstest(pit[:, 0], "uniform").pvalue  # one row of each set: rows of a set are not independent
    return " | ".join([*words, f"{uniform:.3f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=400, help="data sets of each kind")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="stop after so many, with as many sets of each kind as there was time for"
    )
    parser.add_argument("--rows", type=int, nargs="*", default=[25, 50, 100, 400])
    parser.add_argument("--law", nargs="*", default=list(LAWS), choices=list(LAWS))
    parser.add_argument("--averaging", nargs="*", default=list(AVERAGES), choices=list(AVERAGES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results/calibration.jsonl"), help="what was found; a run goes on from it"
    )
    parser.add_argument("--table", action="store_true", help="print the table of what was found, run nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    found, end = Found(options.out, options.seed), time.perf_counter() + 60.0 * options.minutes
    print(f"programmes.calibrate: seed {options.seed}, {NEW_ROWS} new rows of each data set\n", flush=True)
    # One set of every kind, then the next of every kind: whenever it ends, laws and sizes have had the same.
    for number, rows, law, average in itertools.product(
        range(0 if options.table else options.sets), options.rows, options.law, options.averaging
    ):
        if number in found.pits.get((average, law, rows), {}):
            continue
        if time.perf_counter() > end:
            break
        found.add(average, law, rows, number, transforms(average, law, rows, number, options.seed))
    print(found.table())


if __name__ == "__main__":
    main()
