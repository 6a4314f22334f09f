"""Small fitted models for the tests of pictures and report pages, each fitted once."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

from manifoldgp import GPRegressor, ManifoldGPRegressor
from manifoldgp.errors import FitWarning
from short_fits import few_starts

AVERAGINGS = ("stack", "fast", "restarts", "single")


def table(rows: int, inputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of which the first matters most and the last but one not at all (for three or more), and a noisy target."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (rows, inputs))
    y = 3.0 * np.tanh(2 * X[:, 0]) + (X[:, -1] if inputs > 1 else 0.0) + 0.1 * rng.normal(size=rows)
    return X, y


@cache
def fitted(
    averaging: str = "stack", inputs: int = 1, targets: int = 1, named: bool = False, rows: int = 40
) -> ManifoldGPRegressor:
    X, y = table(rows, inputs)
    Y = y if targets == 1 else np.stack([y, *(np.cos(X[:, 0] + o) for o in range(1, targets))], 1)
    data = pd.DataFrame(X, columns=[f"joint {d} <rad>" for d in range(inputs)]) if named else X
    model = ManifoldGPRegressor(None if averaging == "fast" else (3, 2), averaging=few_starts(averaging))
    return model.fit(data, Y)


@cache
def plain_gp(inputs: int = 1) -> GPRegressor:
    return GPRegressor(restarts=2, max_iter=20).fit(*table(40, inputs))


@cache
def full_bayes() -> ManifoldGPRegressor:
    """A fit with NUTS whose chains are so short that they cannot mix."""
    pytest.importorskip("nutpie", reason="needs the extra bayes")
    model = ManifoldGPRegressor(features=(2, 1), averaging=few_starts("nuts"))
    with pytest.warns(FitWarning, match="mix badly"):
        model.fit(*table(20, 1))
    return model
