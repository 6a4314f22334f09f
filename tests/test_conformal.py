"""predict_interval: against leaving rows out by hand, and the guarantee of split intervals on repeated draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from drawn_estimators import drawn_certainty
from manifoldgp import GPRegressor, Single, Sparse
from manifoldgp.errors import InputError
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.model import Data
from short_fits import few_starts, manifold

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (30, 2))
Y = np.sin(2 * X[:, 0]) + 0.2 * RNG.normal(size=30)
NEW = RNG.uniform(-2, 2, (7, 2))


@pytest.fixture(scope="module")
def plain():
    return GPRegressor(restarts=2, max_iter=40).fit(X, Y)


@pytest.fixture(scope="module")
def average():
    return manifold((2,), averaging=few_starts("restarts")).fit(X, Y)


def test_by_default_they_are_quantiles(plain):
    np.testing.assert_array_equal(plain.predict_interval(NEW, 0.9), plain.predict_quantiles(NEW, (0.05, 0.95)))


@pytest.fixture(scope="module")
def followed():
    """Weights that follow how sure members are."""
    model = manifold((2,), averaging=few_starts("restarts")).fit(X, Y)
    (ensemble,) = model.ensembles_
    model.ensembles_ = [replace(ensemble, certainty=drawn_certainty(ensemble.blocks, 2.0))]
    return model


@pytest.mark.parametrize("kind", ["plain", "average", "followed"])
def test_jackknife_plus_is_what_leaving_out_row_by_row_gives(kind, request):
    model = request.getfixturevalue(kind)
    ensemble, scale = model.ensembles_[0], model.y_scaler_
    U, V = (np.ascontiguousarray(model.x_scaler_.apply(A)) for A in (X, NEW))
    means, errors = [], []
    for i in range(30):
        kept = np.delete(np.arange(30), i)
        blocks = [condition(b.model, b.values, Data(b.data.X[kept], b.data.y[kept], None)) for b in ensemble.blocks]
        without = replace(ensemble, blocks=blocks, offset=0.0, scale=1.0)
        means.append(without.mean(torch.as_tensor(V)).numpy())
        errors.append(abs(float(ensemble.blocks[0].data.y[i] - without.mean(torch.as_tensor(U[i : i + 1])))))
    low, high = (np.sort(np.array(means) + sign * np.array(errors)[:, None], axis=0) for sign in (-1, 1))
    expected = scale.offset[0] + scale.scale[0] * np.stack([low[3 - 1], high[28 - 1]], 1)  # floor(0.1 * 31) and ceil(0.9 * 31)
    np.testing.assert_allclose(model.predict_interval(NEW, 0.9, conformal="jackknife+"), expected, rtol=1e-5, atol=1e-6)


def test_split_intervals_hold_their_level_whatever_the_model():
    """A model that is far too sure of itself, fitted to rows with a 25th of the noise; 150 draws of calibration rows and a new row."""
    rng = np.random.default_rng(1)
    x = np.linspace(-2, 2, 25)[:, None]
    sure = GPRegressor(restarts=1, max_iter=30).fit(x, np.sin(x[:, 0]) + 0.02 * rng.normal(size=25))
    A = rng.uniform(-2, 2, (400, 20, 1))
    b = np.sin(A[..., 0]) + 0.5 * rng.normal(size=(400, 20))
    inside = []
    for rows, y in zip(A[:150], b[:150], strict=True):
        low, high = sure.predict_interval(rows[19:], 0.8, conformal="split", calibration=(rows[:19], y[:19]))[0]
        inside.append(low <= y[19] <= high)
    own = sure.predict_interval(A[:, 0], 0.8)
    assert np.mean((own[:, 0] <= b[:, 0]) & (b[:, 0] <= own[:, 1])) < 0.4
    assert 0.7 < np.mean(inside) < 0.9  # 0.8 exactly in the mean: 16 of 20 ranks


def test_several_targets_have_their_own():
    two = GPRegressor(restarts=1, max_iter=20).fit(X, np.stack([Y, 10 * Y], 1))
    for arguments in (
        {},
        {"conformal": "jackknife+"},
        {"conformal": "split", "calibration": (X[:20], np.stack([Y, 10 * Y], 1)[:20])},
    ):
        found = two.predict_interval(NEW, 0.8, **arguments)
        assert found.shape == (7, 2, 2)
        np.testing.assert_allclose(found[..., 1], 10 * found[..., 0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": 1.0}, "level must be between"),
        ({"conformal": "full"}, "conformal must be None or one of"),
        ({"conformal": "split"}, r"needs calibration=\(X, y\)"),
        ({"conformal": "jackknife+", "calibration": (X, Y)}, "calibration is for"),
        ({"conformal": "split", "calibration": (X[:5], Y[:5])}, "at least 19 calibration rows; there are 5"),
        ({"conformal": "jackknife+", "level": 0.99}, "at least 99 training rows; there are 30"),
    ],
)
def test_what_cannot_be_guaranteed_is_refused(plain, arguments, message):
    with pytest.raises(InputError, match=message):
        plain.predict_interval(NEW, **arguments)


def test_models_without_the_closed_form_are_sent_to_split():
    sparse = manifold((2,), averaging=Single(restarts=1, max_iter=3), method=Sparse(inducing=8)).fit(X, Y)
    warped = GPRegressor(restarts=1, max_iter=5, target_warping="tanh").fit(X, Y)
    for model in (sparse, warped):
        with pytest.raises(InputError, match="conformal='split'"):
            model.predict_interval(NEW, 0.8, conformal="jackknife+")
