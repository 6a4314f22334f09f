"""What fitted estimators say: against slow references, in every unit, for one target and several."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from scipy.integrate import cumulative_trapezoid

import manifoldgp
from drawn_estimators import drawn_estimator, make_inputs
from manifoldgp import MLP, GPRegressor, LogNormal, ManifoldGPRegressor, Normal, metrics
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.model import Data, Model
from manifoldgp.noise import DEFAULT_FLOOR, GaussianNoise
from manifoldgp.parameters import map_leaves
from reference import kernel_matrix
from short_fits import few_starts, manifold

RNG = np.random.default_rng(1)
X = RNG.normal(size=(24, 2)) * [2.0, 0.5] + [10.0, -3.0]
Y = np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=24)
Y2 = np.c_[Y, 100.0 * np.cos(X[:, 0])]
NEW = RNG.normal(size=(5, 2)) * [2.0, 0.5] + [10.0, -3.0]
NEW_Y = np.sin(NEW[:, 0]) + NEW[:, 1] ** 2


def mgp(**arguments):
    return manifold(**{"features": (3, 2), "restarts": 2, "max_iter": 30, **arguments})


def gp(**arguments):
    return GPRegressor(**{"restarts": 2, "max_iter": 60, **arguments})


@pytest.fixture(scope="module")
def plain():
    return gp().fit(X, Y)


@pytest.fixture(scope="module")
def warped():
    """Skewed targets, warped."""
    return gp(target_warping="tanh").fit(X, np.exp(Y))


def values_of(model, output=0):
    """Learnt values as NumPy leaves, without the batch."""
    return map_leaves(lambda leaf: leaf[0].numpy(), model.ensembles_[output].blocks[0].values)


# ------------------------------------------------------------------------------------------------------- slow references


def slow_posterior(model, X, y, at, noise_variance):
    """Mean (n,), covariance (n, n) of f and NLML of y, in the units of y: textbook formulas on standardised data."""
    values, kernel = values_of(model), model.ensembles_[0].blocks[0].model.kernel
    x_scaler, y_scaler = model.x_scaler_, model.y_scaler_
    U, V, t = x_scaler.apply(X), x_scaler.apply(at), (y - y_scaler.offset[0]) / y_scaler.scale[0]
    A = kernel_matrix(kernel, values["kernel"], U, U) + np.diag(noise_variance / y_scaler.scale[0] ** 2)
    cross = kernel_matrix(kernel, values["kernel"], U, V)
    mean = cross.T @ np.linalg.solve(A, t)
    C = kernel_matrix(kernel, values["kernel"], V, V) - cross.T @ np.linalg.solve(A, cross)
    density = stats.multivariate_normal(np.zeros(len(t)), A).logpdf(t)
    scale = y_scaler.scale[0]
    return y_scaler.offset[0] + scale * mean, scale**2 * C, -density + len(t) * math.log(scale)


def learned_variance(model):
    noise = model.ensembles_[0].blocks[0].model.noise
    scale = values_of(model).get("noise", {}).get("scale", 0.0)
    return (scale**2 + noise.floor**2) * model.y_scaler_.scale[0] ** 2


@pytest.mark.parametrize(("noise", "known"), [
    ("learned", None), ("learned", 0.2), ("learned", np.linspace(0.05, 0.4, 24)), ("known", 0.2), ("known", np.linspace(0.05, 0.4, 24)),
])  # fmt: skip
def test_predictions_and_evidence_are_the_textbook_formulas(noise, known):
    model = gp(noise=noise).fit(X, Y, noise_std=known)
    own = learned_variance(model)
    if noise == "known":
        assert own == pytest.approx((DEFAULT_FLOOR * Y.std()) ** 2)
    rows = np.full(24, own) + (0.0 if known is None else known**2 * np.ones(24))
    mean, C, nlml = slow_posterior(model, X, Y, NEW, rows)
    assert model.nlml_ == pytest.approx(nlml, rel=1e-7)
    np.testing.assert_allclose(model.predict(NEW), mean, rtol=1e-6)
    latent_mean, latent_std = model.predict(NEW, return_std=True, latent=True)
    np.testing.assert_allclose(latent_mean, mean, rtol=1e-6)
    np.testing.assert_allclose(latent_std, np.sqrt(np.diag(C)), rtol=1e-5)
    np.testing.assert_allclose(model.predict(NEW, return_cov=True, latent=True)[1], C, rtol=1e-5, atol=1e-8)
    here = np.array([0.0, 0.1, 0.2, 0.3, 2.0])
    total = np.diag(C) + own + here**2
    np.testing.assert_allclose(model.predict(NEW, return_std=True, noise_std=here)[1], np.sqrt(total), rtol=1e-5)
    np.testing.assert_allclose(
        model.predict(NEW, return_cov=True, noise_std=here)[1], C + np.diag(own + here**2), rtol=1e-5, atol=1e-8
    )
    normal = stats.norm(mean, np.sqrt(total))
    np.testing.assert_allclose(
        model.log_predictive_density(NEW, NEW_Y, noise_std=here), normal.logpdf(NEW_Y), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(model.predict_cdf(NEW, NEW_Y, noise_std=here), normal.cdf(NEW_Y), rtol=1e-4, atol=1e-6)
    levels = [0.01, 0.3, 0.5, 0.99]
    np.testing.assert_allclose(
        model.predict_quantiles(NEW, levels, noise_std=here), np.stack([normal.ppf(q) for q in levels], -1), rtol=1e-5
    )


@pytest.mark.parametrize("latent", [True, False])
@pytest.mark.parametrize("targets", [1, 2])
def test_the_joint_covariance_is_one_where_weights_follow_variances_with_known_noise(latent, targets):
    """Which changes the weights, and with them every entry: of members that are as sure as usual without it, one counts alone."""
    parts, rows = [(Model(), 1), (Model(features=MLP((4, 2))), 8)], make_inputs(40, 3)
    model = drawn_estimator(parts, targets, factors=(1.0, 4.0), exponents=(4.0,) * targets)
    U = torch.from_numpy(model.x_scaler_.apply(rows))
    for o, ensemble in enumerate(model.ensembles_):
        variances = ensemble.observed([block.mean_and_variance(U)[1] for block in ensemble.blocks])
        usual = replace(ensemble.certainty, usual=[v.mean(1).log() for v in variances])
        model.ensembles_[o] = replace(ensemble, certainty=usual)
    for noise_std in (0.5, np.linspace(0.1, 30.0, 40)):
        mean, C = model.predict(rows, return_cov=True, latent=latent, noise_std=noise_std)
        alone, std = model.predict(rows, return_std=True, latent=latent, noise_std=noise_std)
        np.testing.assert_allclose(mean, alone, rtol=1e-12)
        for own, of_rows in zip(np.moveaxis(C.reshape(40, 40, -1), -1, 0), std.reshape(40, -1).T, strict=True):
            np.testing.assert_allclose(np.diag(own), of_rows**2, rtol=1e-9)
            assert np.linalg.eigvalsh(own).min() > -1e-9 * np.diag(own).max()


def test_noise_of_points_changes_no_mean(plain):
    np.testing.assert_allclose(plain.predict(NEW, noise_std=3.0), plain.predict(NEW), rtol=1e-12)
    np.testing.assert_allclose(plain.predict(NEW, latent=True), plain.predict(NEW), rtol=1e-12)


def test_draws_have_the_joint_moments(plain):
    for latent in (True, False):
        mean, C = plain.predict(NEW, return_cov=True, latent=latent)
        draws = plain.sample_y(NEW, 10_000, random_state=3, latent=latent)
        assert draws.shape == (5, 10_000)
        sd = np.sqrt(np.diag(C))
        np.testing.assert_allclose(draws.mean(1), mean, atol=5 * sd.max() / math.sqrt(10_000))
        np.testing.assert_allclose(np.cov(draws), C, atol=0.06 * sd.max() ** 2)
    np.testing.assert_array_equal(plain.sample_y(NEW, 2, random_state=7), plain.sample_y(NEW, 2, random_state=7))
    assert not np.array_equal(plain.sample_y(NEW, 2, random_state=7), plain.sample_y(NEW, 2, random_state=8))


@pytest.mark.parametrize("model", [gp(), mgp(), gp(mean="linear"), gp(kernel="matern52"), gp(target_warping="tanh")], ids=repr)
def test_gradients_are_finite_differences(model):
    model.fit(X, Y)
    d_mean, d_variance = model.predict_gradient(NEW)
    assert d_mean.shape == d_variance.shape == (5, 2)
    for d in range(2):
        step = np.zeros(2)
        step[d] = 1e-5 * X[:, d].std()
        (up, up_sd), (down, down_sd) = (model.predict(NEW + s * step, return_std=True, latent=True) for s in (1, -1))
        np.testing.assert_allclose(d_mean[:, d], (up - down) / (2 * step[d]), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(d_variance[:, d], (up_sd**2 - down_sd**2) / (2 * step[d]), rtol=1e-3, atol=1e-5)


# ------------------------------------------------------------------------------------------------------- units

S, T = 2.0**20, 2.0**-20  # powers of two: scaling by them is exact, and so is everything after standardisation


@pytest.mark.parametrize("model", [
    gp(), mgp(), mgp(target_warping="tanh", max_iter=10), mgp(mean="constant"), mgp(averaging="restarts"), gp(optimizer="l-bfgs-b"),
], ids=repr)  # fmt: skip
def test_other_units_change_nothing_but_the_units(model):
    small = {k: v for k, v in vars(model.fit(X, Y)).items() if k.endswith("_")}
    asked = [
        lambda m, s, t: np.array(m.predict(NEW * t, return_std=True)) / s,
        lambda m, s, t: m.predict(NEW * t, latent=True) / s,
        lambda m, s, t: m.predict_quantiles(NEW * t) / s,
        lambda m, s, t: m.sample_y(NEW * t, 3) / s,
        lambda m, s, t: m.predict_cdf(NEW * t, NEW_Y * s),
        lambda m, s, t: m.transform(NEW * t),
        lambda m, s, t: m.predict_gradient(NEW * t)[0] * t / s,
        lambda m, s, t: m.predict_gradient(NEW * t)[1] * t / s**2,
    ]
    before = [ask(model, 1.0, 1.0) for ask in asked]
    density = model.log_predictive_density(NEW, NEW_Y)
    model.fit(X * T, Y * S)
    for ask, expected in zip(asked, before, strict=True):
        np.testing.assert_array_equal(ask(model, S, T), expected)
    np.testing.assert_allclose(model.log_predictive_density(NEW * T, NEW_Y * S), density - math.log(S), rtol=0, atol=1e-12)
    assert model.nlml_ == pytest.approx(small["nlml_"] + 24 * math.log(S), abs=1e-9)
    for column in ("nlml", "objective"):
        np.testing.assert_allclose(model.starts_[column], small["starts_"][column] + 24 * math.log(S), atol=1e-9)
    np.testing.assert_allclose(model.histories_[0], small["histories_"][0] + 24 * math.log(S), atol=1e-9)


def test_decimal_units_and_offsets_agree_to_rounding():
    first, second = gp().fit(X, Y), gp().fit(X * 1e-6 + 3.0, Y * 1e6 - 5e6)
    np.testing.assert_allclose(second.predict(NEW * 1e-6 + 3.0), first.predict(NEW) * 1e6 - 5e6, rtol=1e-4)
    assert second.nlml_ == pytest.approx(first.nlml_ + 24 * math.log(1e6), abs=1e-3)


def test_known_noise_is_in_the_units_of_y():
    first = gp(noise="known").fit(X, Y, noise_std=0.3)
    second = gp(noise="known").fit(X, Y * S, noise_std=0.3 * S)
    np.testing.assert_array_equal(
        second.predict(NEW, return_std=True, noise_std=S), np.array(first.predict(NEW, return_std=True, noise_std=1.0)) * S
    )


def test_standardisation_can_be_switched_off():
    model = gp(standardize=False).fit(X, Y)
    np.testing.assert_array_equal(model.x_scaler_.undo(model.ensembles_[0].blocks[0].data.X.numpy()), X)
    np.testing.assert_array_equal(model.ensembles_[0].blocks[0].data.y, Y)
    assert model.predict(X + 1e6) == pytest.approx(np.zeros(24), abs=1e-9)  # the mean is zero, not that of y


# ------------------------------------------------------------------------------------------------------- warped targets


def test_a_warped_density_integrates_to_one_and_its_moments_are_those_predicted(warped):
    mean, std = warped.predict(NEW, return_std=True)
    for i in range(len(NEW)):
        grid = mean[i] + std[i] * np.linspace(-15, 15, 6_001)
        density = np.exp(warped.log_predictive_density(np.repeat(NEW[i : i + 1], len(grid), 0), grid))
        assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-5)
        assert np.trapezoid(density * grid, grid) == pytest.approx(mean[i], rel=1e-4)
        assert np.trapezoid(density * (grid - mean[i]) ** 2, grid) == pytest.approx(std[i] ** 2, rel=1e-2)
        cdf = warped.predict_cdf(np.repeat(NEW[i : i + 1], len(grid), 0), grid)
        np.testing.assert_allclose(cumulative_trapezoid(density, grid, initial=0.0), cdf, atol=1e-4)
        assert (np.diff(cdf) >= 0).all()


def test_quantiles_are_monotone_and_invert_the_cdf(warped, plain):
    levels = np.linspace(0.001, 0.999, 21)
    for model in (warped, plain, mgp(averaging="restarts").fit(X, Y)):
        quantiles = model.predict_quantiles(NEW, levels)
        assert quantiles.shape == (5, 21)
        assert (np.diff(quantiles, axis=1) > 0).all()
        for j, level in enumerate(levels):
            np.testing.assert_allclose(model.predict_cdf(NEW, quantiles[:, j]), level, atol=1e-6)


def test_draws_of_a_warped_target_follow_its_quantiles(warped):
    draws = warped.sample_y(NEW, 1_000, random_state=0)
    np.testing.assert_allclose(warped.predict_cdf(NEW, np.median(draws, 1)), 0.5, atol=0.06)
    np.testing.assert_allclose(warped.predict_cdf(NEW, np.quantile(draws, 0.9, axis=1)), 0.9, atol=0.04)


def test_the_latent_mean_of_a_warped_target_is_the_same_with_and_without_its_deviation(warped):
    np.testing.assert_array_equal(warped.predict(NEW, latent=True), warped.predict(NEW, return_std=True, latent=True)[0])
    np.testing.assert_allclose(warped.predict(NEW), warped.predict(NEW, return_std=True)[0], rtol=1e-12)
    assert (warped.predict(NEW, return_std=True)[1] > warped.predict(NEW, return_std=True, latent=True)[1]).all()
    with pytest.raises(ValueError, match=r"joint covariance of a warped target has no closed form. Use sample_y"):
        warped.predict(NEW, return_cov=True)


# ------------------------------------------------------------------------------------------------------- several targets


@pytest.mark.parametrize("shared", [False, True], ids=["own features", "shared features"])
def test_shapes_and_columns_of_several_targets(shared):
    # With the default floor K is nearly singular, for the second target has no noise: two ways to its NLML then agree to few digits.
    model = mgp(shared_features=shared, max_iter=100, noise=GaussianNoise(floor=0.05)).fit(X, Y2)
    mean, std = model.predict(NEW, return_std=True)
    assert mean.shape == std.shape == (5, 2)
    assert model.predict(NEW, return_cov=True)[1].shape == (5, 5, 2)
    assert model.predict_quantiles(NEW, (0.1, 0.2, 0.9)).shape == (5, 3, 2)
    assert model.sample_y(NEW, 4).shape == (5, 2, 4)
    assert [g.shape for g in model.predict_gradient(NEW)] == [(5, 2, 2), (5, 2, 2)]
    assert model.transform(NEW).shape == (5, 2 if shared else 4)
    assert len(model.get_feature_names_out()) == (2 if shared else 4)
    assert model.predict_cdf(X, Y2).shape == (24, 2)
    density = model.log_predictive_density(X, Y2)
    np.testing.assert_allclose(density, sum(p.logpdf(Y2[:, o]) for o, p in enumerate(_normals(model, X))), rtol=1e-9)
    assert model.score(X, Y2) > 0.9
    assert [np.corrcoef(model.predict(X)[:, o], Y2[:, o])[0, 1] > 0.9 for o in range(2)] == [True, True]
    chosen = model.starts_[model.starts_["chosen"]]
    assert chosen["output"].tolist() == [0, 1]
    total = chosen["nlml"][0] if shared else chosen["nlml"].sum()
    assert model.nlml_ == pytest.approx(total, rel=1e-12)
    assert model.nlml_ == pytest.approx(sum(_nlml(model, o) for o in range(2)), rel=1e-8)


def _normals(model, at):
    mean, std = model.predict(at, return_std=True)
    return [stats.norm(mean[:, o], std[:, o]) for o in range(mean.shape[1])]


def _nlml(model, output):
    """NLML of one target in its units, from its factor."""
    ensemble = model.ensembles_[output]
    block = ensemble.blocks[0]
    L, t = block.L[0].numpy(), block.z[0].numpy()
    return (
        0.5 * t @ block.alpha[0].numpy()
        + np.log(np.diag(L)).sum()
        + len(t) * (0.5 * math.log(2 * math.pi) + math.log(ensemble.scale))
    )


def test_shared_features_are_one_map_and_own_features_are_not():
    shared, own = mgp(shared_features=True).fit(X, Y2), mgp().fit(X, Y2)
    first, second = (e.blocks[0].H[0].numpy() for e in shared.ensembles_)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(shared.transform(X), first, rtol=1e-10, atol=1e-12)
    assert not np.array_equal(*(e.blocks[0].H[0].numpy() for e in own.ensembles_))
    np.testing.assert_allclose(own.predict(NEW)[:, 0], mgp().fit(X, Y).predict(NEW), rtol=1e-4)  # each target by itself


def test_known_noise_of_several_targets():
    noise = np.c_[np.full(24, 0.1), np.full(24, 30.0)]
    model = mgp(shared_features=True, noise="known").fit(X, Y2, noise_std=noise)
    std = model.predict(NEW, return_std=True, noise_std=[[0.1, 30.0]] * 5)[1]
    latent = model.predict(NEW, return_std=True, latent=True)[1]
    np.testing.assert_allclose(std**2 - latent**2, np.tile([0.01, 900.0], (5, 1)), rtol=1e-4)


def test_one_column_of_targets_stays_a_column():
    assert gp().fit(X, Y[:, None]).predict(NEW).shape == (5, 1)


# ------------------------------------------------------------------------------------------------------- update


@pytest.mark.parametrize(("model", "y", "new_y", "noise", "new_noise"), [
    pytest.param(gp(), Y, NEW_Y, None, None, id="gp"),
    pytest.param(mgp(), Y, NEW_Y, None, None, id="mgp"),
    pytest.param(mgp(mean="linear", target_warping="tanh", max_iter=10), Y, NEW_Y, None, None, id="warped"),
    pytest.param(gp(noise="known"), Y, NEW_Y, 0.2, 0.3, id="known noise"),
    pytest.param(gp(), Y, NEW_Y, None, 0.3, id="noise of the new rows"),
    pytest.param(gp(), Y, NEW_Y, 0.2, None, id="noise of the old rows"),
    pytest.param(mgp(shared_features=True), Y2, np.c_[NEW_Y, NEW_Y], None, None, id="shared features"),
    pytest.param(mgp(averaging="restarts", max_iter=5), Y, NEW_Y, None, None, id="average"),
])  # fmt: skip
def test_update_is_the_posterior_of_all_rows_with_the_same_parameters(model, y, new_y, noise, new_noise):
    model.fit(X, y, noise_std=noise)
    before, parameters = model.predict(X), [block.values for e in model.ensembles_ for block in e.blocks]
    assert model.update(NEW[:2], new_y[:2], noise_std=new_noise) is model
    model.update(NEW[2:], new_y[2:], noise_std=new_noise)
    assert not np.array_equal(model.predict(X), before)
    U = torch.from_numpy(model.x_scaler_.apply(np.r_[X, NEW]))
    T = torch.from_numpy(model.y_scaler_.apply(np.r_[y, new_y].reshape(29, -1)))
    known = None
    if noise or new_noise:
        known = torch.from_numpy((np.r_[np.full(24, noise or 0.0), np.full(5, new_noise or 0.0)] / model.y_scaler_.scale[0]) ** 2)
    for o, ensemble in enumerate(model.ensembles_):
        for block in ensemble.blocks:
            again = condition(block.model, block.values, Data(U, T[:, o].contiguous(), known))
            torch.testing.assert_close(block.alpha, again.alpha, rtol=1e-4, atol=1e-6)
            for a, b in zip(block.mean_and_variance(U), again.mean_and_variance(U), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-9)
    assert all(p is block.values for p, block in zip(parameters, (b for e in model.ensembles_ for b in e.blocks), strict=True))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("averaging", ["plain", "single", "restarts", "fast", "stack", "nuts"])
def test_many_updates_of_noise_free_rows_equal_conditioning_anew(averaging):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(160, 2))
    y = np.sin(2 * rows[:, 0]) + rows[:, 1] / 2
    if averaging == "plain":
        model = gp(noise="known")
    else:
        model = ManifoldGPRegressor(None if averaging == "fast" else (4, 2), noise="known", averaging=few_starts(averaging))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # short chains
        model.fit(rows[:40], y[:40], noise_std=0.0)
    for i in range(40, 160):
        model.update(rows[i : i + 1], y[i : i + 1], noise_std=0.0)
    at = rng.normal(size=(50, 2))
    mean, std = model.predict(at, return_std=True)
    blocks = model.ensembles_[0].blocks
    anew = [condition(block.model, block.values, block.data) for block in blocks]
    model.ensembles_ = [replace(model.ensembles_[0], blocks=anew)]
    expected, expected_std = model.predict(at, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-6 * y.std())
    np.testing.assert_allclose(std, expected_std, rtol=0, atol=1e-6 * y.std())
    assert all(torch.equal(a.jitter > 0, b.jitter > 0) for a, b in zip(blocks, anew, strict=True))


@pytest.mark.parametrize("warping", [None, "tanh"])
@pytest.mark.parametrize("far", [1e12, -1e149, 1e299])
def test_update_refuses_targets_far_from_all_others_and_stays_as_it_was(warping, far):
    X = np.random.default_rng(0).normal(size=(12, 2))
    model = GPRegressor(target_warping=warping, restarts=1, max_iter=5).fit(X, np.sin(2 * X[:, 0]))
    before = model.predict(X)
    with pytest.raises(InputError, match="standard deviations from those of the fit"):
        model.update(X[:2] + 0.1, [0.0, far])
    np.testing.assert_array_equal(model.predict(X), before)


def test_update_needs_the_noise_of_the_new_rows_where_noise_is_known():
    model = gp(noise="known").fit(X, Y, noise_std=0.1)
    with pytest.raises(
        ValueError, match=r"This model has noise='known': give the noise of the new rows too, update\(X, y, noise_std=...\)"
    ):
        model.update(NEW, NEW_Y)


# ------------------------------------------------------------------------------------------------------- training


def test_the_table_of_starts(plain):
    model = mgp(restarts=4).fit(X, Y)
    table = pd.DataFrame(model.starts_)
    assert len(table) == 4
    assert {"output", "start", "nlml", "objective", "status", "iterations", "evaluations", "chosen"} <= set(table.columns)
    best = table[table.chosen]
    assert len(best) == 1
    assert best.nlml.item() == model.nlml_ == table.nlml.min()
    assert [h[-1] for h in model.histories_] == pytest.approx(table.objective.tolist())
    assert all((np.diff(h) <= 1e-9).all() for h in model.histories_)
    assert model.n_iter_ == table.iterations.max()


def test_the_same_seed_gives_the_same_model_and_another_seed_another():
    first, again, other = (mgp(random_state=s).fit(X, Y).predict(NEW) for s in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    state = np.random.RandomState(0)
    assert not np.array_equal(*(mgp(random_state=state).fit(X, Y).predict(NEW) for _ in range(2)))


def test_refitting_forgets_the_earlier_fit():
    model = mgp().fit(X, Y2)
    np.testing.assert_array_equal(model.fit(X[:, :1], Y).predict(NEW[:, :1]), mgp().fit(X[:, :1], Y).predict(NEW[:, :1]))
    assert (model.n_features_in_, model.n_outputs_) == (1, 1)


@pytest.mark.parametrize("arguments", [{}, {"target_warping": "tanh"}, {"mean": "linear", "optimizer": "l-bfgs-b"}], ids=repr)
@pytest.mark.parametrize("targets", [Y, Y2], ids=["one", "two"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_warm_start_begins_where_the_other_model_ended(arguments, targets, shared):
    first = mgp(**arguments, max_iter=10, shared_features=shared).fit(X, targets)
    second = mgp(**arguments, max_iter=0, shared_features=shared, warm_start_from=first).fit(X, targets)
    warm, best = second.starts_[second.starts_["start"] == 0], first.starts_[first.starts_["chosen"]]
    np.testing.assert_allclose(warm["nlml"], best["nlml"], rtol=1e-9)
    assert second.nlml_ <= first.nlml_ + 1e-6 * abs(first.nlml_)


def test_priors_pin_parameters_and_enter_the_objective():
    model = mgp(priors={"kernel.lengthscale": LogNormal(math.log(3.0), 1e-3), "features.*.bias": Normal(0.5, 1e-3)}).fit(X, Y)
    values = values_of(model)
    np.testing.assert_allclose(values["kernel"]["lengthscale"], 3.0, rtol=0.02)
    np.testing.assert_allclose(values["features"]["0"]["bias"], 0.5, atol=0.02)
    best = model.starts_[model.starts_["chosen"]][0]
    log_prior = stats.norm(math.log(3.0), 1e-3).logpdf(np.log(values["kernel"]["lengthscale"])).sum()
    log_prior += sum(stats.norm(0.5, 1e-3).logpdf(values["features"][i]["bias"]).sum() for i in "01")
    assert best["objective"] == pytest.approx(best["nlml"] - log_prior, rel=1e-6)
    assert model.nlml_ == best["nlml"] == pytest.approx(_nlml(model, 0), rel=1e-6)


@pytest.mark.parametrize("optimizer", ["l-bfgs", "l-bfgs-b", "hessian-free"])
def test_a_callback_watches_and_stops(optimizer):
    calls = []

    def callback(iterations, values):
        calls.append((iterations.copy(), values.copy()))
        return len(calls) >= 3

    model = mgp(optimizer=optimizer, callback=callback, max_iter=500).fit(X, Y)
    assert len(calls) == 3
    assert all(i.shape == v.shape == (2,) for i, v in calls)
    assert "stopped by callback" in set(model.starts_["status"])
    assert model.n_iter_ <= 3
    assert np.isfinite(model.predict(NEW)).all()


@pytest.mark.parametrize("optimizer", ["l-bfgs", "l-bfgs-b", "hessian-free"])
def test_a_time_budget_ends_training(optimizer):
    model = mgp(optimizer=optimizer, time_budget=0.05, max_iter=100_000, restarts=50, features=(8, 3))
    begin = time.perf_counter()
    model.fit(X, Y)
    assert time.perf_counter() - begin < 5.0
    assert "time limit" in set(model.starts_["status"])
    assert np.isfinite(model.predict(NEW)).all()


def test_several_targets_share_the_time_budget():
    model = mgp(time_budget=0.3, max_iter=100_000, restarts=60, features=(8, 3))
    begin = time.perf_counter()
    model.fit(X, np.tile(Y[:, None], 8) + 0.1 * np.random.default_rng(0).normal(size=(24, 8)))
    assert time.perf_counter() - begin < 2.0  # with a budget for each of them it would be 2.4 s and more
    assert (model.starts_["status"] == "time limit").sum() > 60


@pytest.mark.parametrize("averaging", ["single", "restarts"])
def test_verbose_says_first_how_long_it_takes_then_a_line_for_each_phase(capsys, averaging):
    mgp(verbose=True, averaging=averaging).fit(X, np.c_[Y, Y])
    shown = capsys.readouterr()
    assert shown.out == ""
    first, *phases = shown.err.splitlines()
    assert re.match(rf"24 rows, averaging={averaging!r}, method='exact': (about \d|a second or less)", first)
    assert [re.split(r", \d+ s, (?:about|a second or less)", line)[0] for line in phases] == [
        f"training target {o}/2, 1/1 {'starts' if averaging == 'single' else 'restarts'}" for o in (1, 2)
    ]
    assert all(line.endswith((" s left", ", a second or less left")) for line in phases)
    mgp(averaging=averaging).fit(X, Y)
    assert capsys.readouterr().err == ""


def test_verbose_ends_its_line_when_training_fails(capsys):
    def fail(*_):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        mgp(verbose=True, callback=fail).fit(X, Y)
    assert capsys.readouterr().err.endswith("\n")


def test_features_given_in_full_are_those_of_the_shorthand():
    named = mgp(features=MLP((4, 2), ("tanh", "identity"))).fit(X, Y)
    full = mgp(features=MLP((4, 2), ("tanh", "identity"))).fit(X, Y)
    np.testing.assert_array_equal(named.predict(NEW), full.predict(NEW))


def test_arguments_changed_after_fit_do_not_change_what_was_fitted():
    model = gp().fit(X, Y)
    before = model.predict(NEW)
    model.set_params(kernel="nn", device="nowhere", standardize=False, noise="known")
    np.testing.assert_array_equal(model.predict(NEW), before)
    model.update(NEW, NEW_Y)


def test_public_names_load_when_they_are_used_and_the_package_alone_loads_no_torch():
    code = "import sys, manifoldgp; print('torch' in sys.modules); print([n for n in manifoldgp.__all__ if n not in dir(manifoldgp)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["False", "[]"]
    assert all(getattr(manifoldgp, name).__name__ == name for name in manifoldgp.__all__)
    with pytest.raises(AttributeError, match="module 'manifoldgp' has no attribute 'Regressor'"):
        _ = manifoldgp.Regressor


def test_the_crps_is_that_of_the_predictive_distribution(warped):
    average = mgp(averaging="restarts").fit(X, Y)
    for model, y in ((average, NEW_Y), (warped, np.exp(NEW_Y))):
        levels = metrics.midpoint_levels(400)
        quantiles = np.maximum.accumulate(model.predict_quantiles(NEW, levels.tolist()), axis=1)
        np.testing.assert_allclose(
            model.predict_crps(NEW, y), metrics.quantile_crps(y, quantiles), rtol=0.03, atol=1e-3 * np.std(y)
        )
    two = gp().fit(X, np.stack([Y, 2 * Y], 1))
    assert two.predict_crps(NEW, np.stack([NEW_Y, 2 * NEW_Y], 1)).shape == (len(NEW), 2)
