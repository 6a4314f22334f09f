"""Every mean in every kind of fit: it is a function of the inputs, whatever features the members have, unless it says features."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import manifoldgp
from manifoldgp import NUTS, Fast, GPRegressor, ManifoldGPRegressor, Restarts, Single, Sparse, Stack
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.inference.sparse_posterior import condition_sparse
from manifoldgp.means import Linear, Module
from manifoldgp.model import Data

STACK = Stack(
    deals=1,
    gp_starts=1,
    warm_members=1,
    cold_members=1,
    own_members=1,
    fold_members=1,
    hidden=2,
    q=1,
    gp_iterations=8,
    warm_iterations=3,
    steps=(3,),
    polish=2,
    keep=-1.0,  # every group is kept
)
FAST = Fast(gp_starts=1, gp_iterations=8, warm_members=1, warm_iterations=3, cold_members=1, cold_iterations=3, hidden=2, q=1)
SHORT_CHAINS = NUTS(restarts=2, max_iter=4, chains=2, tune=12, draws=8, thin=4, depth=3)
SINGLE = Single(restarts=2, max_iter=4)
D, Q = 2, 3
"""Inputs and features differ in number, so that a mean on the wrong ones does not fit."""


def network(columns: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(columns, 2), nn.Tanh(), nn.Linear(2, 1))


MEANS = {
    "zero": lambda: "zero",
    "constant": lambda: "constant",
    "linear": lambda: "linear",
    "linear on features": lambda: Linear(on="features"),
    "module": lambda: network(D),
    "module on features": lambda: Module(network(Q), on="features"),
}
ON_FEATURES = [name for name in MEANS if name.endswith("on features")]
ON_INPUTS = [name for name in MEANS if name not in ON_FEATURES]


def make_data(N: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(N, D))
    return X, 3.0 * X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=N)


def estimator(mean: str, **settings) -> ManifoldGPRegressor:
    features = None if isinstance(settings["averaging"], Fast) else (3, Q)
    return ManifoldGPRegressor(features, mean=MEANS[mean](), **settings)


def fitted(model: ManifoldGPRegressor, X: np.ndarray, y: np.ndarray) -> ManifoldGPRegressor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # a few iterations are not enough, and it says so
        return model.fit(X, y)


def check(model: ManifoldGPRegressor, mean: str, path) -> None:
    """Predictions are sound, the same after save and load, the same by the predictor; derivatives are those of the mean that is predicted."""
    new = make_data(5, seed=1)[0]
    expected, std = model.predict(new, return_std=True)
    assert np.isfinite(expected).all()
    assert (std > 0).all()
    modules = [network(Q if mean in ON_FEATURES else D)] if mean.startswith("module") else []
    model.save(path)
    again = manifoldgp.load(path, modules=modules)
    assert np.array_equal(again.predict(new, return_std=True), (expected, std))
    assert [b.model.mean for e in again.ensembles_ for b in e.blocks] == [
        b.model.mean for e in model.ensembles_ for b in e.blocks
    ]
    np.testing.assert_allclose(model.predictor()(new, return_std=True), (expected, std), rtol=1e-6, atol=1e-6)
    slope, step = model.predict_gradient(new)[0], 1e-5
    for d in range(D):
        shift = step * np.eye(D)[d]
        difference = (model.predict(new + shift) - model.predict(new - shift)) / (2 * step)
        np.testing.assert_allclose(slope[:, d], difference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("averaging", [SINGLE, Restarts(restarts=2, max_iter=4)], ids=["single", "restarts"])
def test_members_with_the_features_that_were_chosen(mean, averaging, tmp_path):
    check(fitted(estimator(mean, averaging=averaging), *make_data()), mean, tmp_path / "model.mgp")


@pytest.mark.parametrize("mean", ON_INPUTS)
@pytest.mark.parametrize("averaging", [FAST, STACK], ids=["fast", "stack"])
def test_members_with_features_of_their_own(mean, averaging, tmp_path):
    model = fitted(estimator(mean, averaging=averaging), *make_data())
    assert len(model.ensembles_[0].blocks) > 1
    check(model, mean, tmp_path / "model.mgp")


@pytest.mark.parametrize("mean", ["linear", "module on features"])
def test_draws_from_the_posterior(mean, tmp_path):
    check(fitted(estimator(mean, averaging=SHORT_CHAINS), *make_data(16)), mean, tmp_path / "model.mgp")


@pytest.mark.parametrize("mean", MEANS)
def test_sparse_models(mean, tmp_path):
    model = fitted(estimator(mean, averaging=SINGLE, method=Sparse(inducing=6)), *make_data())
    check(model, mean, tmp_path / "model.mgp")


@pytest.mark.parametrize("mean", ["linear", "module"])
def test_a_sparse_stack(mean, tmp_path):
    every_group = Stack(steps=(4,), warm_iterations=4, fold_members=1, cold_members=1, warm_members=1, own_members=1, keep=-1.0)
    model = fitted(estimator(mean, averaging=every_group, method=Sparse(inducing=6)), *make_data(40))
    assert {type(b.model.features).__name__ for b in model.ensembles_[0].blocks} == {"Identity", "Nested", "Concatenate", "MLP"}
    check(model, mean, tmp_path / "model.mgp")


@pytest.mark.parametrize("mean", ON_FEATURES)
@pytest.mark.parametrize("averaging", ["stack", FAST], ids=["stack", "fast"])
@pytest.mark.parametrize("method", ["exact", "sparse"])
def test_a_mean_on_features_needs_members_that_have_them(mean, averaging, method):
    trained = []
    model = estimator(mean, averaging=averaging, method=method, callback=lambda *_: trained.append(1))
    with pytest.raises(
        InputError, match=r"(?s)mean=.*on='features'.* members with other features.*mean='linear'.*averaging='single'"
    ):
        model.fit(*make_data())
    assert not trained


def test_the_default_average_takes_a_linear_mean():
    X, y = make_data(12)
    model = fitted(ManifoldGPRegressor(mean="linear", time_budget=2.0), X, y)
    assert np.isfinite(model.predict(X)).all()


TRENDS = {
    "plain": lambda mean: GPRegressor(mean=mean, restarts=2, max_iter=60),
    "sparse": lambda mean: GPRegressor(mean=mean, restarts=2, max_iter=60, method=Sparse(inducing=25)),
    "stack": lambda mean: ManifoldGPRegressor(
        (3, 2), mean=mean, averaging=replace(STACK, gp_iterations=60, steps=(25,), cold_members=4)
    ),
}


@pytest.mark.parametrize("make", TRENDS.values(), ids=TRENDS.keys())
def test_a_linear_mean_goes_on_where_there_are_no_rows(make):
    rng, x = np.random.default_rng(0), np.linspace(-6, 6, 60)[:, None]
    y, far = 5 * x[:, 0] + np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=60), np.array([[-80.0], [80.0]])
    slope = {mean: np.diff(fitted(make(mean), x, y).predict(far))[0] / 160 for mean in ("zero", "linear")}
    assert abs(slope["linear"] - 5) < 1
    assert abs(slope["zero"] - 5) > 3


def test_the_plain_gp_has_inputs_for_features():
    X, y = make_data()
    found = [fitted(GPRegressor(mean=Linear(on=on), restarts=2, max_iter=5), X, y).predict(X) for on in ("inputs", "features")]
    np.testing.assert_allclose(*found, rtol=1e-9)


@pytest.mark.parametrize(
    ("method", "afresh"), [("exact", condition), (Sparse(inducing=6), condition_sparse)], ids=["exact", "sparse"]
)
def test_more_rows_see_the_mean_of_their_own_inputs(method, afresh):
    X, y = make_data(30)
    model = fitted(estimator("linear", averaging=SINGLE, method=method), X[:24], y[:24])
    (block,) = model.update(X[24:], y[24:]).ensembles_[0].blocks
    inputs, targets = model.x_scaler_.apply(X), model.y_scaler_.apply(y[:, None])[:, 0]
    whole = afresh(block.model, block.values, Data(torch.from_numpy(inputs), torch.from_numpy(targets)))
    new = torch.from_numpy(model.x_scaler_.apply(make_data(5, seed=1)[0]))
    for one, other in zip(block.mean_and_variance(new), whole.mean_and_variance(new), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_several_targets_on_shared_features():
    X, y = make_data()
    for mean in ("linear", "linear on features", "module", "module on features"):
        model = fitted(estimator(mean, averaging=replace(SINGLE, shared_features=True)), X, np.column_stack([y, -y]))
        assert np.isfinite(model.predict(X)).all()


def test_a_module_of_another_width_is_refused_before_training():
    X, y = make_data()
    with pytest.raises(InputError, match="a mean on the inputs, which have 2 columns here, and does not accept them"):
        ManifoldGPRegressor(mean=network(Q)).fit(X, y)
    with pytest.raises(InputError, match="a mean on the features, which have 3 columns here, and does not accept them"):
        estimator("zero", averaging=SINGLE).set_params(mean=Module(network(D), on="features")).fit(X, y)
