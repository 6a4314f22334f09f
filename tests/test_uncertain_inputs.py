"""Predictions at uncertain inputs: the closed form against draws, samples against it, gradients, units, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from drawn_estimators import drawn_certainty
from fitted_models import fitted
from manifoldgp import PCA, GaussianNoise, GPRegressor, Linear, ManifoldGPRegressor, Restarts, Single, Sparse, means
from manifoldgp.errors import InputError
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.inference.gaussian_inputs import _coupling, _mirrored, gaussian_members
from manifoldgp.inference.gaussian_outputs import gaussian_outputs
from manifoldgp.kernels import SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.parameters import map_leaves

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (50, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 0.0]
Y = np.stack([np.sin(2 * X[:, 0]) + 0.1 * X[:, 1], X[:, 2] * X[:, 0] * 30 + 7], 1) + 0.1 * RNG.normal(size=(50, 2))
MU = np.array([[0.3, 6.0, 0.02], [-1.5, -2.0, 0.1]])
FACTOR = 0.3 * RNG.normal(size=(2, 3, 3)) * np.array([1.0, 10.0, 0.1])[:, None]
SIGMA = FACTOR @ FACTOR.transpose(0, 2, 1)

MODELS = {
    "plain": lambda: GPRegressor(restarts=1, max_iter=30),
    "linear mean": lambda: GPRegressor(mean="linear", restarts=1, max_iter=30),
    "some inputs, equal": lambda: GPRegressor(SquaredExponential(dims=(0, 2), ard=False), restarts=1, max_iter=30),
    "linear features": lambda: ManifoldGPRegressor(Linear(2), averaging=Restarts(restarts=2, max_iter=15)),
    "mean of features": lambda: ManifoldGPRegressor(
        PCA(2), mean=means.Linear(on="features"), averaging=Single(restarts=1, max_iter=15)
    ),
    "sparse": lambda: GPRegressor(restarts=1, max_iter=10, method=Sparse(inducing=12)),
}
"""Models with a closed form."""


def drawn_moments(model, i, count=10_000):
    """Moments at input i by draws of x, each with its standard error: mean, output covariance, input covariance."""
    x = np.random.default_rng(5).multivariate_normal(MU[i], SIGMA[i], count)
    mean, std = model.predict(x, return_std=True)
    away, out = x - MU[i], mean - mean.mean(0)
    products = out[:, :, None] * out[:, None, :] + np.eye(out.shape[1]) * (std**2)[:, :, None]
    crossed = away[:, :, None] * out[:, None, :]
    return [(sample.mean(0), sample.std(0) / np.sqrt(count)) for sample in (mean, products, crossed)]


@pytest.mark.parametrize("name", MODELS)
def test_the_closed_form_agrees_with_draws(name):
    model = MODELS[name]().fit(X, Y)
    moments = model.predict_moments(MU, SIGMA)
    assert moments.method == "closed form"
    for i in range(2):
        found = (moments.mean[i], moments.output_covariance[i], moments.input_covariance[i])
        for ours, (theirs, error) in zip(found, drawn_moments(model, i), strict=True):
            assert (np.abs(ours - theirs) < 5 * error + 1e-9).all()
    np.testing.assert_allclose(moments.variance, np.diagonal(moments.output_covariance, axis1=1, axis2=2))


def test_unequal_weights_and_variance_factors_follow_the_law_of_total_variance():
    from dataclasses import replace

    model = MODELS["linear features"]().fit(X, Y)
    for o, ensemble in enumerate(model.ensembles_):
        weights = torch.tensor([[0.5, 0.1], [0.3, 0.1]], dtype=torch.float64).log()
        model.ensembles_[o] = replace(ensemble, log_weights=[weights], variance_factors=(1.0, 4.0))
    moments = model.predict_moments(MU, SIGMA)
    for ours, (theirs, error) in zip((moments.mean[0], moments.output_covariance[0]), drawn_moments(model, 0), strict=False):
        assert (np.abs(ours - theirs) < 5 * error + 1e-9).all()


@pytest.mark.parametrize("averaging", ["stack", "fast", "restarts", "single"])
def test_samples_are_taken_elsewhere_and_agree_with_draws(averaging):
    model = fitted(averaging, inputs=2)
    mu, Sigma = np.array([[0.1, 0.5]]), np.array([[0.2, 0.1], [0.1, 0.3]])
    moments = model.predict_moments(mu, Sigma)
    assert moments.method == "samples"
    x = np.random.default_rng(5).multivariate_normal(mu[0], Sigma, 10_000)
    mean, std = model.predict(x, return_std=True)
    total = np.sqrt(mean.var() + (std**2).mean())
    error = mean.std() / np.sqrt(10_000)
    assert abs(moments.mean[0] - mean.mean()) < 0.02 * total + 5 * error
    assert abs(np.sqrt(moments.variance[0]) - total) < 0.02 * total + 5 * error
    crossed = (x - mu).T @ (mean - mean.mean()) / 10_000
    np.testing.assert_allclose(moments.input_covariance[0], crossed, atol=0.02 * total + 5 * error)
    again = model.predict(mu, return_std=True, input_cov=Sigma)
    np.testing.assert_array_equal(again, (moments.mean, np.sqrt(moments.variance)))
    np.testing.assert_array_equal(model.predict(mu, input_cov=Sigma), moments.mean)


def test_samples_agree_with_the_closed_form():
    model = MODELS["linear mean"]().fit(X, Y)
    exact, sampled = (model.predict_moments(MU, SIGMA, method=method) for method in ("closed form", "samples"))
    std = np.sqrt(exact.variance)
    assert (np.abs(sampled.mean - exact.mean) < 0.02 * std).all()
    assert np.abs(np.sqrt(sampled.variance) / std - 1).max() < 0.02


@pytest.mark.parametrize("method", ["closed form", "samples"])
def test_certain_inputs_give_the_plain_prediction(method):
    model = MODELS["linear mean"]().fit(X, Y)
    mean, std = model.predict(MU, return_std=True)
    latent_std = model.predict(MU, return_std=True, latent=True)[1]
    moments = model.predict_moments(MU, np.zeros((3, 3)), method=method)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(moments.variance), std, rtol=1e-4)
    latent = model.predict_moments(MU, np.zeros((3, 3)), method=method, latent=True)
    np.testing.assert_allclose(np.sqrt(latent.variance), latent_std, rtol=1e-3)
    assert np.abs(moments.input_covariance).max() < 1e-6


def followed(model, exponent=1.5):
    """The same model with unequal weights that follow how sure its members are."""
    for o, ensemble in enumerate(model.ensembles_):
        weights = torch.tensor([[0.3, 0.2], [0.1, 0.4]], dtype=torch.float64).log()
        certainty = drawn_certainty(ensemble.blocks, exponent, seed=o)
        model.ensembles_[o] = replace(ensemble, log_weights=[weights], variance_factors=(1.0, 4.0), certainty=certainty)
    return model


@pytest.mark.parametrize("method", ["closed form", "samples"])
def test_weights_that_follow_variances_are_those_of_plain_predictions_at_certain_inputs(method):
    model = followed(MODELS["linear features"]().fit(X, Y))
    for latent in (False, True):
        mean, std = model.predict(MU, return_std=True, latent=latent)
        moments = model.predict_moments(MU, np.zeros((3, 3)), method=method, latent=latent)
        np.testing.assert_allclose(moments.mean, mean, rtol=1e-6)
        np.testing.assert_allclose(np.sqrt(moments.variance), std, rtol=1e-3)
    blind = replace(model.ensembles_[0], certainty=None)
    assert abs(float(blind.mean(torch.as_tensor(model.x_scaler_.apply(MU)))[0]) - mean[0, 0]) > 1e-3


def test_weights_at_uncertain_inputs_follow_what_each_member_expects_there():
    """The mixture of members that were asked one by one, with their own variances of y."""
    model = followed(MODELS["linear features"]().fit(X, Y))
    found = model.predict_moments(MU, SIGMA, method="closed form")
    ensembles = model.ensembles_

    def member(ensemble, r, factors):
        one = ensemble.log_weights[0].new_tensor(factors) / sum(factors)
        log_weights, blocks = [one.log()[:, None]], [b.only(torch.tensor([r])) for b in ensemble.blocks]
        return replace(ensemble, blocks=blocks, log_weights=log_weights, certainty=None)

    for o, ensemble in enumerate(ensembles):
        means, variances, weights, same, share = [], [], [], [], ensemble.certainty.share
        for r in range(2):
            w = ensemble.log_weights[0][:, r].exp().tolist()
            model.ensembles_ = [member(e, r, w) for e in ensembles]
            alone, latent = (model.predict_moments(MU, SIGMA, method="closed form", latent=latent) for latent in (False, True))
            factor = (w[0] + 4.0 * w[1]) / sum(w)
            noise = float(ensemble.blocks[0].noise_variance()[r])
            own = latent.variance[:, o] / factor / ensemble.scale**2 + noise
            means.append(alone.mean[:, o])
            variances.append(alone.variance[:, o])
            same.append(sum(w))
            weights.append(sum(w) * (float(ensemble.certainty.usual[0][r].exp()) / own) ** 1.5)
        weights = (1.0 - share) * np.array(same)[:, None] + share * np.stack(weights) / np.sum(weights, 0)
        mean = (weights * means).sum(0)
        np.testing.assert_allclose(found.mean[:, o], mean, rtol=1e-9)
        expected = (weights * (np.stack(variances) + (np.stack(means) - mean) ** 2)).sum(0)
        np.testing.assert_allclose(found.variance[:, o], expected, rtol=1e-7)


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("method", ["closed form", "samples"])
def test_moments_are_differentiable(method, follows):
    noise = GaussianNoise(floor=0.3)  # weights that hardly cancel, so that differences have digits
    model = GPRegressor(mean="linear", noise=noise, restarts=1, max_iter=30).fit(X, Y)
    if follows:
        two = Restarts(restarts=2, max_iter=15)
        model = followed(ManifoldGPRegressor(Linear(2), noise=noise, averaging=two).fit(X, Y))

    def moments(mu, factor):
        found = model.predict_moments(mu, factor @ factor.mT, method=method, samples=16)
        return found.mean, found.output_covariance, found.input_covariance

    arguments = [torch.as_tensor(A).requires_grad_() for A in (MU, FACTOR)]
    assert torch.autograd.gradcheck(moments, arguments, eps=1e-5, atol=1e-4, rtol=1e-3)
    np.testing.assert_allclose(
        moments(*arguments)[0].detach().numpy(), model.predict_moments(MU, SIGMA, method=method, samples=16).mean, rtol=1e-10
    )


@pytest.mark.parametrize("size", [1e-3, 0.03, 1.0])
def test_moments_have_the_same_slopes_where_only_the_mean_asks_for_them(size):
    model = MODELS["plain"]().fit(X, Y)
    slopes = []
    for both in (True, False):
        mu, Sigma = torch.as_tensor(MU).requires_grad_(), torch.as_tensor(size * SIGMA).requires_grad_(both)
        model.predict_moments(mu, Sigma).output_covariance.sum().backward()
        slopes.append(mu.grad)
    torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-12)


def test_one_target_has_no_dimension_of_its_own():
    model = GPRegressor(restarts=1, max_iter=10).fit(X, Y[:, 0])
    moments = model.predict_moments(MU, SIGMA[0])
    shapes = [A.shape for A in (moments.mean, moments.variance, moments.input_covariance, moments.output_covariance)]
    assert shapes == [(2,), (2,), (2, 3), (2, 1, 1)]


def test_what_cannot_be_predicted_is_said():
    model = fitted("single", inputs=2)
    mu, Sigma = np.zeros((1, 2)), np.eye(2)
    for changed, message in (
        ({"input_cov": np.eye(3)}, r"\(2, 2\) for all rows"), ({"input_cov": -np.eye(2)}, "negative eigenvalues"),
        ({"input_cov": np.array([[1.0, 0.5], [0.0, 1.0]])}, "symmetric"), ({"input_cov": np.full((2, 2), np.nan)}, "not finite"),
        ({"method": "closed form"}, "no closed form"), ({"method": "sigma"}, "method must be"), ({"samples": 2}, "more than the number of inputs"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            model.predict_moments(mu, **{"input_cov": Sigma, **changed})
    with pytest.raises(InputError, match="return_cov does not go"):
        model.predict(mu, return_cov=True, input_cov=Sigma)
    with pytest.raises(InputError, match="noise_std does not go"):
        model.predict(mu, noise_std=0.1, input_cov=Sigma)


def test_moments_that_would_be_rounding_errors_have_no_closed_form():
    x = torch.linspace(-2, 2, 200, dtype=torch.float64)[:, None]
    for noise, closed in ((1e-3, True), (1e-4, False)):
        values = {
            "kernel": {"variance": torch.tensor([100.0]), "lengthscale": torch.tensor([[0.7]])},
            "noise": {"scale": torch.tensor([noise])},
        }
        values = map_leaves(lambda leaf: leaf.double(), values)
        posterior = condition(Model(noise=GaussianNoise(floor=1e-9)), values, Data(x, torch.sin(2 * x[:, 0])))
        assert (gaussian_members(posterior) is not None) is closed


@pytest.mark.parametrize("factor", [1.0, 1.3])
@pytest.mark.parametrize("size", [1.0, 0.03, 1e-3, 1e-6, 0.0])
def test_sums_over_pairs_keep_their_digits_whether_inputs_are_nearly_certain_or_not(size, factor):
    """Σ_ij C_ij (Q_ij − p_i p_j) against the same in long doubles, relative to what rounding may do; Q against the formula for two members."""
    model = GPRegressor(restarts=1, max_iter=30).fit(X, Y[:, 0])
    (member,) = gaussian_members(model.ensembles_[0].blocks[0])
    member = replace(member, factor=factor)
    mu, Sigma = torch.tensor([[0.3, 0.2, -0.4], [2.5, 0.0, 1.0]]).double(), size * torch.eye(3).double().expand(2, 3, 3)
    one = member.at(mu, Sigma)
    mirrored, pair = _mirrored(one, Sigma), _coupling(one, one, Sigma)
    w = mirrored.left.mT @ member.centred
    log_Q = mirrored.log_p[:, :, None] + w + mirrored.log_p[:, None]
    torch.testing.assert_close(
        log_Q, one.log_q[:, :, None] + pair.left @ pair.right.mT + one.log_q[:, None], rtol=1e-10, atol=1e-10
    )
    C = torch.outer(member.alpha, member.alpha) - factor * member.whitener.T @ member.whitener
    p, exact = mirrored.p.numpy().astype(np.longdouble), np.expm1(w.numpy().astype(np.longdouble))
    terms = C.numpy() * exact * p[:, :, None] * p[:, None]
    found = mirrored.summed().numpy()
    assert (np.abs(found - terms.sum((1, 2))) <= 1e-11 * np.abs(terms).sum((1, 2)) + 1e-300).all()
    wanted = replace(mirrored, left=mirrored.left.requires_grad_()).summed()
    np.testing.assert_allclose(wanted.detach().numpy(), found, rtol=1e-8, atol=1e-11 * np.abs(terms).sum())


def test_many_inputs_at_once_are_each_as_alone():
    model = GPRegressor(restarts=1, max_iter=20).fit(X, Y)
    rng = np.random.default_rng(3)
    mu, sizes = X[rng.integers(len(X), size=70)], 10.0 ** rng.uniform(-6, 0.5, 70)
    Sigma = sizes[:, None, None] * np.diag(np.square([1.0, 10.0, 0.1]))
    together = model.predict_moments(mu, Sigma)
    for i in (0, 33, 69):
        alone = model.predict_moments(mu[i : i + 1], Sigma[i : i + 1])
        for name in ("mean", "variance", "input_covariance", "output_covariance"):
            np.testing.assert_allclose(getattr(together, name)[i], getattr(alone, name)[0], rtol=1e-8)


def test_far_from_the_data_nothing_is_known_and_that_is_a_number():
    """Beside points whose share is zero, an exponential beyond all numbers made no number of a variance."""
    x = np.linspace(0, 1, 40)[:, None]
    models = [GPRegressor(restarts=1).fit(x, np.sin(12 * x[:, 0] + k) + 0.1 * RNG.normal(size=40)) for k in range(2)]
    mean, std = models[0].predict([[200.0]], return_std=True)
    sizes = np.array([0.01, 0.03, 0.1, 0.3, 1.0])
    found = models[0].predict_moments(np.full((5, 1), 200.0), input_cov=sizes[:, None, None] ** 2)
    np.testing.assert_allclose(found.mean, np.repeat(mean, 5))
    np.testing.assert_allclose(found.variance, np.repeat(std**2, 5))
    outputs = gaussian_outputs([model.ensembles_[0] for model in models])
    assert outputs is not None
    together = outputs(torch.full((5, 1), 200.0, dtype=torch.float64), torch.as_tensor(sizes)[:, None, None] ** 2)
    np.testing.assert_allclose(together.covariance[:, 0, 0], found.variance, rtol=1e-6)
    np.testing.assert_allclose(together.covariance[:, 0, 1], 0.0, atol=1e-12)
