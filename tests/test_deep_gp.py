"""Deep GPs on GPyTorch's layers: their predictions, training, files, and their place in comparisons."""

from __future__ import annotations

import csv
import math
import re
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone

import manifoldgp
from manifoldgp import DeepGPRegressor, metrics
from manifoldgp.comparison import candidates
from manifoldgp.errors import FileFormatError, InputError, MissingExtraError

pytest.importorskip("gpytorch", reason="needs the extra [gpytorch]")

from manifoldgp.integrations._deep_gp_layers import DeepPosterior, normal_draws
from manifoldgp.integrations._deep_gp_training import _handed_on, begun, train
from manifoldgp.integrations.deep_gp import DeepSettings

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (80, 2))
Y = 10.0 + 3.0 * np.sign(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=80)
SHORT = {"inducing": 15, "batch": 40, "max_iter": 40}


@pytest.fixture(scope="module", params=[2, 3])
def deep(request) -> DeepGPRegressor:
    return DeepGPRegressor(request.param, **SHORT).fit(X, Y)


def test_predictions_are_one_mixture(deep):
    mean, std = deep.predict(X, return_std=True)
    assert metrics.rmse(Y, mean) < 0.5 * Y.std()
    parts = deep.ensembles_[0].predict(torch.as_tensor(deep.x_scaler_.apply(X)))
    assert parts.means.shape == (100, 80)
    np.testing.assert_allclose(mean, 10 + (Y.mean() - 10) + Y.std() * parts.means.mean(0).numpy(), rtol=1e-12)
    spread = parts.variances.mean(0) + parts.means.var(0, unbiased=False)
    np.testing.assert_allclose(std, Y.std() * spread.sqrt().numpy(), rtol=1e-12)
    quantiles = deep.predict_quantiles(X, (0.1, 0.9))
    np.testing.assert_allclose(deep.predict_cdf(X, quantiles[:, 0]), 0.1, atol=1e-9)
    normal = torch.distributions.Normal(parts.means, parts.variances.sqrt())
    density = normal.log_prob(torch.as_tensor((Y - Y.mean()) / Y.std())).logsumexp(0) - math.log(100) - math.log(Y.std())
    np.testing.assert_allclose(deep.log_predictive_density(X, Y), density.numpy(), rtol=1e-9)
    assert (deep.predict(X, return_std=True, latent=True)[1] < std).all()
    assert deep.predict_interval(X, 0.9).shape == (80, 2)
    assert (deep.predict_crps(X, Y) > 0).all()


def test_a_prediction_is_a_function_of_its_row_alone(deep, monkeypatch):
    mean, std = deep.predict(X, return_std=True)
    monkeypatch.setattr("manifoldgp.integrations._deep_gp_layers._AT_ONCE", 1)  # one row at a time
    alone = deep.predict(X[5:8], return_std=True)
    np.testing.assert_allclose(alone, (mean[5:8], std[5:8]), rtol=1e-9)


def test_joint_draws_have_the_moments_of_predictions(deep):
    mean, std = deep.predict(X[:4], return_std=True)
    draws = deep.sample_y(X[:4], 1000)
    np.testing.assert_allclose(draws.mean(1), mean, atol=5 * std.max() / math.sqrt(1000))
    np.testing.assert_allclose(draws.std(1), std, rtol=0.15)
    np.testing.assert_array_equal(draws[:, :3], deep.sample_y(X[:4], 1000)[:, :3])


def test_a_file_holds_it_without_pickle(deep, tmp_path):
    deep.save(tmp_path / "deep.mgp")
    again = manifoldgp.load(tmp_path / "deep.mgp")
    assert type(again) is DeepGPRegressor
    assert again.get_params() == deep.get_params()
    np.testing.assert_array_equal(again.predict(X, return_std=True), deep.predict(X, return_std=True))
    assert str(again.diagnose()) == str(deep.diagnose())


def test_draws_as_rows_of_a_layer_are_draws_side_by_side(deep):
    posterior, U = deep.ensembles_[0], torch.as_tensor(deep.x_scaler_.apply(X[:3]))
    draws = normal_draws(posterior.samples, posterior.layers.widths, U.device)
    with torch.no_grad():
        f = posterior.layers(U, [z[:, None, :] for z in draws])
        mean, variance = posterior._moments(U)
    torch.testing.assert_close(mean, f.mean, rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(variance, f.variance, rtol=1e-6, atol=1e-8)


def test_a_file_of_many_draws_is_read(tmp_path):
    deep = DeepGPRegressor(samples=3000, inducing=70, max_iter=1).fit(X, Y)
    deep.save(tmp_path / "deep.mgp")
    np.testing.assert_array_equal(manifoldgp.load(tmp_path / "deep.mgp").predict(X[:1]), deep.predict(X[:1]))


def test_functions_are_drawn_as_many_at_once_as_rows_and_inducing_points_allow(deep, monkeypatch):
    posterior, U, counts = deep.ensembles_[0], torch.as_tensor(deep.x_scaler_.apply(X[:1])), []
    drawn = DeepPosterior._draws
    monkeypatch.setattr(DeepPosterior, "_draws", lambda self, X, count, g: counts.append(count) or drawn(self, X, count, g))
    monkeypatch.setattr("manifoldgp.integrations._deep_gp_layers._AT_ONCE", 3 * 2 * 16**2)  # two GPs a layer; 15 points and a row
    assert posterior.sample(U, 7, torch.Generator().manual_seed(0)).shape == (7, 1)
    assert counts == [3, 3, 1]


@pytest.mark.parametrize("change", [{"samples": 10**9}, {"layers": 50}, {"layers": 1}, {"scale": 0.0}])
def test_a_forged_file_is_refused(deep, tmp_path, change):
    from manifoldgp._system import tensor_file
    from manifoldgp.estimators import model_file

    header, tensors = model_file.packed(deep)
    header["ensembles"][0] |= change
    tensor_file.write(tmp_path / "forged.mgp", header, tensors)
    with pytest.raises(FileFormatError):
        manifoldgp.load(tmp_path / "forged.mgp")


def test_values_that_are_no_covariance_are_refused(deep, tmp_path):
    from manifoldgp._system import tensor_file
    from manifoldgp.estimators import model_file

    header, tensors = model_file.packed(deep)
    name = next(name for name in tensors if name.endswith("natural_mat"))
    tensor_file.write(tmp_path / "forged.mgp", header, tensors | {name: -tensors[name].detach()})
    with pytest.raises(FileFormatError):
        manifoldgp.load(tmp_path / "forged.mgp")


def test_seeds_clones_and_several_targets():
    few = {**SHORT, "max_iter": 5}
    model = DeepGPRegressor(**few, random_state=3).fit(X, np.stack([Y, X[:, 1]], 1))
    again = clone(model).fit(X, np.stack([Y, X[:, 1]], 1))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not np.array_equal(DeepGPRegressor(**few, random_state=4).fit(X, Y).predict(X), model.predict(X)[:, 0])
    assert model.predict(X).shape == (80, 2)
    assert len(model.ensembles_) == len(model.starts_) == 2
    assert "output 1: steps" in model.diagnose().numbers


def test_training_starts_from_layers_that_hand_on_their_inputs():
    U = torch.as_tensor(X)
    layers = begun(U, DeepSettings(3, None, 10, 40, 1), torch.Generator().manual_seed(0))
    with torch.no_grad():
        inner = layers.eval().layers[0](U[None], are_samples=True)
    torch.testing.assert_close(inner.mean[0], U)
    assert _handed_on(torch.randn(20, 5).double(), 2).shape == (5, 2)
    torch.testing.assert_close(_handed_on(U, 3), torch.eye(2, 3, dtype=torch.float64))


def test_one_layer_on_all_rows_is_the_exact_gp_after_a_whole_natural_step(monkeypatch):
    monkeypatch.setattr("manifoldgp.integrations._deep_gp_training._RATE", 0.0)  # kernel, noise and inducing points stay
    monkeypatch.setattr("manifoldgp.integrations._deep_gp_training._NATURAL_RATE", 1.0)
    U, t = torch.as_tensor(X[:25]), torch.as_tensor((Y[:25] - 10) / 3)
    trained = train(U, t, DeepSettings(1, None, 25, 25, 2), torch.Generator().manual_seed(0), math.inf, lambda *_: False)
    (layer,), noise = trained.layers.layers, trained.layers.likelihood.noise.detach()
    with torch.no_grad():
        K = layer.kernel(U).to_dense()
        A = K + noise * torch.eye(25)
        found = DeepPosterior(trained.layers, 1, 0.0, 1.0).mean(U)
    torch.testing.assert_close(found, K @ torch.linalg.solve(A, t), atol=1e-3, rtol=0.0)
    exact = -torch.distributions.MultivariateNormal(torch.zeros(25).double(), A).log_prob(t)
    assert trained.history[-1] == pytest.approx(float(exact), abs=0.02)  # the bound is tight; both have a jitter of 1e-6


def test_training_ends_when_told_and_says_why():
    seen = []
    stopped = DeepGPRegressor(**SHORT, callback=lambda steps, values: seen.append(values) or len(seen) == 4).fit(X, Y)
    assert (stopped.n_iter_, str(stopped.starts_["status"][0])) == (4, "stopped by callback")
    assert all(np.isfinite(value).all() for value in seen)
    late = DeepGPRegressor(**SHORT, time_budget=1e-3).fit(X, Y)
    assert (late.n_iter_, str(late.starts_["status"][0])) == (1, "time limit")
    whole = DeepGPRegressor(**SHORT).fit(X, Y)
    assert (whole.n_iter_, str(whole.starts_["status"][0])) == (40, "iteration limit")
    assert "More steps" in str(whole.diagnose())


def test_training_ends_when_the_bound_rises_no_more(monkeypatch):
    monkeypatch.setattr("manifoldgp.integrations._deep_gp_training._WINDOW", 5)
    monkeypatch.setattr("manifoldgp.integrations._deep_gp_training._RISE", 100.0)
    model = DeepGPRegressor(**SHORT).fit(X, Y)
    assert str(model.starts_["status"][0]) == "converged"
    assert (
        model.n_iter_ == 15
    )  # the second window is no better than the first by 100 nats, and the rates fall for half as many steps


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layers": 0}, "layers must be a whole number"),
        ({"layers": 11}, "at most 10"),
        ({"samples": 10**6}, "at most 10,000"),
        ({"width": -1}, "width must be a whole number"),
        ({"layers": 3, "width": 10_601}, "width must be at most 10,600 with 3 layers"),
        ({"time_budget": -1.0}, "time_budget"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        DeepGPRegressor(**change).fit(X, Y)
    with pytest.raises(InputError, match="sample_weight"):
        DeepGPRegressor().fit(X, Y, sample_weight=np.ones(80))
    with pytest.raises(InputError, match="Nothing in this model learns from rows without targets"):
        DeepGPRegressor().fit(X, Y, unlabelled=X)


def test_jackknife_is_refused_and_split_is_not(deep):
    with pytest.raises(InputError, match="exact model"):
        deep.predict_interval(X, conformal="jackknife+")
    assert deep.predict_interval(X[:5], 0.8, conformal="split", calibration=(X[40:], Y[40:])).shape == (5, 2)


def test_it_is_a_model_of_comparisons():
    (two,) = candidates.chosen(["deepgp:2"])
    assert (two.title, two.build(5).get_params()["random_state"]) == ("deep GP, 2 layers", 5)
    assert "deepgp:2" not in candidates.default_names()  # by name only: it takes longer than all others together
    with pytest.raises(InputError, match="deepgp:LAYERS"):
        candidates.chosen(["deepgp:many"])
    found = manifoldgp.compare(X, Y, models={"deep": DeepGPRegressor(**{**SHORT, "max_iter": 3})}, folds=2)
    assert found.rows[0].density == "its own distribution"


def test_without_gpytorch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    for name in ("_deep_gp_layers", "_deep_gp_training"):
        monkeypatch.delitem(sys.modules, f"manifoldgp.integrations.{name}")
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'manifoldgp[gpytorch]'")):
        DeepGPRegressor().fit(X, Y)


def test_the_command_line_predicts_with_its_file_and_refuses_what_it_has_not(deep, tmp_path):
    pytest.importorskip("typer", reason="needs the extra [cli]")
    from command_line import fails, mgp

    deep.save(tmp_path / "deep.mgp")
    np.savetxt(tmp_path / "rows.csv", X[:3], delimiter=",", header="x0,x1", comments="")
    done = mgp("predict", tmp_path / "deep.mgp", tmp_path / "rows.csv")
    first = next(csv.DictReader(done.out.splitlines()))
    assert float(first["mean"]) == pytest.approx(deep.predict(X[:1])[0], rel=1e-4)
    assert "mgp predict and mgp score" in fails("inspect", tmp_path / "deep.mgp")
