"""Real fits of every averaging, shared by the tests of predictors and of ONNX files."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from manifoldgp import ManifoldGPRegressor
from manifoldgp.averaging import nuts
from manifoldgp.errors import FitWarning


def make_data(rows=45, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2)) * [1.0, 4.0] + [0.0, 30.0]
    return X, np.sin(2 * X[:, 0]) + 0.2 * X[:, 1] + 0.2 * rng.normal(size=rows)


@pytest.fixture(scope="session")
def data():
    return make_data()


@pytest.fixture(scope="session", params=["none", "restarts", "fast", "stack", "nuts"])
def fitted(request, data):
    """A model fitted with each averaging; the chains of "nuts" are short, so that it takes seconds."""
    settings = {"hidden": (3, 1), "restarts": 2, "max_iter": 15, "averaging": request.param}
    if request.param != "nuts":
        return ManifoldGPRegressor(**settings).fit(*data)
    pytest.importorskip("nutpie", reason="averaging='nuts' needs the extra [bayes]")
    short = nuts.NutsSettings(chains=2, tune=16, draws=16, thin=4, depth=3)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(nuts, "NutsSettings", lambda: short)
        warnings.simplefilter("ignore", FitWarning)  # chains so short have not mixed
        return ManifoldGPRegressor(**settings).fit(*data)
