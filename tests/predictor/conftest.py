"""Real fits of every averaging, shared by the tests of predictors and of ONNX files."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from manifoldgp import ManifoldGPRegressor
from manifoldgp.errors import FitWarning
from short_fits import few_starts


def make_data(rows=45, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2)) * [1.0, 4.0] + [0.0, 30.0]
    return X, np.sin(2 * X[:, 0]) + 0.2 * X[:, 1] + 0.2 * rng.normal(size=rows)


@pytest.fixture(scope="session")
def data():
    return make_data()


@pytest.fixture(scope="session", params=["single", "restarts", "fast", "stack", "nuts"])
def fitted(request, data):
    """A model fitted with each averaging; the chains of "nuts" are short, so that it takes seconds."""
    model = ManifoldGPRegressor(None if request.param == "fast" else (3, 1), averaging=few_starts(request.param, max_iter=15))
    if request.param != "nuts":
        return model.fit(*data)
    pytest.importorskip("nutpie", reason="averaging='nuts' needs the extra [bayes]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # chains so short have not mixed
        return model.fit(*data)
