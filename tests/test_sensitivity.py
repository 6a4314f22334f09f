"""Sobol indices of fitted models, against functions whose indices are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import qmc

from manifoldgp import GPRegressor, ManifoldGPRegressor, Single
from manifoldgp.errors import InputError
from manifoldgp.estimators.sensitivity import _analytic, _sampled, _standard_normal
from manifoldgp.kernels import OrthogonalAdditive

RNG = np.random.default_rng(0)


def ishigami(X):
    return np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])


def sobol_points(rows, columns, seed=0):
    return qmc.Sobol(columns, rng=np.random.default_rng(seed)).random(256)[:rows]


def test_ishigami_within_two_hundredths_from_two_hundred_runs():
    X = -np.pi + 2 * np.pi * sobol_points(200, 3, seed=2)
    found = GPRegressor(restarts=3).fit(X, ishigami(X)).sensitivity()
    np.testing.assert_allclose(found.first, [0.3139, 0.4424, 0.0], atol=0.02)
    np.testing.assert_allclose(found.total, [0.5576, 0.4424, 0.2437], atol=0.02)
    assert not found.analytic


def test_sampled_indices_of_the_g_function_are_the_analytic_ones():
    a = np.array([0.0, 1.0, 4.5, 9.0])
    parts = 1 / (3 * (1 + a) ** 2)
    V = np.prod(1 + parts) - 1
    total = [parts[d] * np.prod(np.delete(1 + parts, d)) / V for d in range(4)]
    found = _sampled(lambda X: np.prod((np.abs(4 * X - 2) + a) / (1 + a), 1), lambda u: u, 4, 2**15, 0)
    np.testing.assert_allclose(found[0], parts / V, atol=0.01)
    np.testing.assert_allclose(found[1], total, atol=0.01)
    assert found[2].max() < 0.01


@pytest.fixture(scope="module")
def orthogonal():
    X = RNG.normal(size=(120, 3))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 1] ** 2 + 0.1 * RNG.normal(size=120)
    return GPRegressor(OrthogonalAdditive(orders=3), restarts=2).fit(X, y)


def test_the_closed_form_of_the_orthogonal_kernel_is_what_sampling_finds(orthogonal):
    ensemble = orthogonal.ensembles_[0]
    first, total = _analytic(ensemble.blocks[0])
    sampled = _sampled(lambda U: ensemble.mean(torch.from_numpy(U)).numpy(), _standard_normal(np.zeros(1)), 3, 2**14, 0)
    np.testing.assert_allclose(first, sampled[0], atol=0.01)
    np.testing.assert_allclose(total, sampled[1], atol=0.01)
    found = orthogonal.sensitivity()
    assert found.analytic
    np.testing.assert_array_equal(found.first, orthogonal.x_scaler_.of_columns(first))


@pytest.mark.parametrize("law", ["uniform", "rows", "normal"])
def test_every_law_and_words(orthogonal, law):
    found = orthogonal.sensitivity(law, samples=512)
    assert ((found.total >= found.first - 4 * (found.first_error + found.total_error)) & (found.total_error >= 0)).all()
    assert "first order" in str(found)
    assert found.law in str(found)


def test_an_average_and_a_second_target():
    X = RNG.normal(size=(40, 2))
    model = ManifoldGPRegressor(averaging=Single(restarts=1, max_iter=10)).fit(X, np.stack([X[:, 0], np.sin(X[:, 1])], 1))
    assert model.sensitivity(samples=256).total.argmax() == 0
    assert model.sensitivity(samples=256, output=1).total.argmax() == 1
    with pytest.raises(InputError, match="2 targets"):
        model.sensitivity(output=2)
    with pytest.raises(InputError, match="law must be"):
        model.sensitivity("gauss")


@pytest.mark.parametrize("law", ["uniform", "rows"])
def test_a_category_is_one_input_that_has_one_value_at_a_time(law):
    """y = x + c with c in {0, 2, 4}, equally often: var x = 1/12 and var c = 8/3, and no interaction. Its 0/1 columns had varied apart, in rows that cannot be."""
    x, kind = sobol_points(90, 1)[:, 0], np.tile(["a", "b", "c"], 30)
    table = pd.DataFrame({"x": x, "kind": kind, "none": 1.0})
    model = GPRegressor(restarts=2).fit(table, x + 2.0 * (np.arange(90) % 3) + 0.01 * RNG.normal(size=90))
    found = model.sensitivity(law, samples=2048)
    assert found.names == ("x", "kind")
    share = (1 / 12) / (1 / 12 + 8 / 3)
    np.testing.assert_allclose(found.first, [share, 1 - share], atol=0.02)
    np.testing.assert_allclose(found.total, [share, 1 - share], atol=0.02)
    assert "such as" in found.law
