"""Noisy inputs in training: models that know the noise of their inputs, or learn it, beside the same models that take them as exact.

    python benchmarks/robots_noisy_inputs.py                     # the plain GP on the six functions, 10 data sets each
    python benchmarks/robots_noisy_inputs.py --stack --seeds 5   # the default stack instead, on the sine and the near-square wave

The functions are those of McHutchon and Rasmussen (2011): 60 rows, x uniform over [-10, 10], errors of x with standard deviation 0.3 and of y with 0.05.
Scored is the function itself, without noise, at 400 exact inputs: RMSE, and the mean negative log density of f (NLPP). ± are standard errors over data sets; differences are
taken data set by data set, and below zero noisy inputs are better.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from manifoldgp import GPRegressor, ManifoldGPRegressor

FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sin(x)": np.sin,
    "near-square wave": lambda x: np.tanh(5 * np.cos(x)),
    "exp(-0.2 x) sin(x)": lambda x: np.exp(-0.2 * x) * np.sin(x),
    "tan(0.15 x) sin(x)": lambda x: np.tan(0.15 * x) * np.sin(x),
    "0.2 x² tanh(cos x)": lambda x: 0.2 * x**2 * np.tanh(np.cos(x)),
    "0.5 log(x² (sin 2x + 2) + 1)": lambda x: 0.5 * np.log(x**2 * (np.sin(2 * x) + 2) + 1),
}
ROWS, REACH, INPUT_STD, NOISE_STD = 60, 10.0, 0.3, 0.05
MODELS = ("exact", "known", "learned")
WITH_STACK = ("sin(x)", "near-square wave")
"""Functions that the stack is tried on: it takes some seconds a training."""


def rows_of(function: Callable[[np.ndarray], np.ndarray], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N, 1) with errors, and targets (N,)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-REACH, REACH, ROWS)
    y = function(x) + NOISE_STD * rng.normal(size=ROWS)
    return (x + INPUT_STD * rng.normal(size=ROWS))[:, None], y


def fitted(kind: str, X: np.ndarray, y: np.ndarray, stack: bool) -> Any:
    """The model that takes its inputs as exact, knows their noise, or learns it."""
    input_noise = "learned" if kind == "learned" else None
    model = ManifoldGPRegressor(input_noise=input_noise) if stack else GPRegressor(input_noise=input_noise)
    return model.fit(X, y, input_std=INPUT_STD if kind == "known" else None)


def scores(model: Any, function: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """RMSE and NLPP of the function itself."""
    x = np.linspace(-REACH, REACH, 400)
    mean, std = model.predict(x[:, None], return_std=True, latent=True)
    error = function(x) - mean
    nlpp = 0.5 * np.log(2 * np.pi * std**2) + 0.5 * (error / std) ** 2
    return float(np.sqrt(np.mean(error**2))), float(nlpp.mean())


def measured(name: str, seeds: int, stack: bool) -> tuple[np.ndarray, np.ndarray]:
    """Scores (seeds, models, 2) of one function, and the learned standard deviations (seeds,)."""
    found, learned = np.empty((seeds, len(MODELS), 2)), np.empty(seeds)
    for seed in range(seeds):
        X, y = rows_of(FUNCTIONS[name], seed)
        for m, kind in enumerate(MODELS):
            model = fitted(kind, X, y, stack)
            found[seed, m] = scores(model, FUNCTIONS[name])
        learned[seed] = model.input_noise_.std[0]
    return found, learned


def mean_and_error(values: np.ndarray) -> str:
    """The mean over data sets and its standard error."""
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="data sets of each function")
    parser.add_argument("--stack", action="store_true", help="the default stack instead of the plain GP")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # optimisers that stopped early
    print(
        f"{'the default stack' if given.stack else 'plain GP'}, {ROWS} rows, input noise {INPUT_STD}, {given.seeds} data sets\n"
    )
    print(
        "| function | RMSE, exact | known − exact | learned − exact | NLPP, exact | known − exact | learned − exact | learned std |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in WITH_STACK if given.stack else FUNCTIONS:
        found, learned = measured(name, given.seeds, given.stack)
        cells = [
            mean_and_error(found[:, m, score] - (found[:, 0, score] if m else 0.0))
            for score in (0, 1)
            for m in range(len(MODELS))
        ]
        print(f"| {name} | {' | '.join(cells)} | {np.median(learned):.2f} |", flush=True)


if __name__ == "__main__":
    main()
