"""Numbers against mpmath with 50 digits: evidence, gradients and posteriors of ill-conditioned covariances, tails of densities, quantiles of mixtures."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import torch

from manifoldgp import MLP, GPRegressor, kernels
from manifoldgp._system.threads import Workers
from manifoldgp.evidence import nlml
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.inference.mixtures import Predictive, Warp
from manifoldgp.model import Data, Model
from manifoldgp.parameters import LARGEST_LOG, first_of
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.warping import NoWarping

DIGITS, EPS = 50, 2.0**-52
N = 8


def matrix(A):
    return mp.matrix([[mp.mpf(float(entry)) for entry in row] for row in np.atleast_2d(A)])


def problem(lengthscale, variance=1.0):
    """K (N, N) of a squared exponential that gets singular as the length-scale grows, and targets."""
    x = np.linspace(-1.0, 1.0, N)
    K = variance * np.exp(-0.5 * (x[:, None] - x[None]) ** 2 / lengthscale**2)
    return K, np.sin(3 * x)


CASES = [(0.2, 1.0, 1e-2), (1.0, 1.0, 1e-4), (1.0, 1.0, 1e-10), (3.0, 1.0, 1e-8), (10.0, 100.0, 1e-6), (3.0, 1e8, 1e-2)]
"""Length-scale, variance and noise variance; condition numbers from 1e3 to 1e11."""


@pytest.mark.parametrize(("lengthscale", "variance", "noise"), CASES)
def test_nlml_and_its_gradient_have_the_digits_that_the_condition_number_leaves(lengthscale, variance, noise):
    K, y = problem(lengthscale, variance)
    tensor = torch.from_numpy(K)[None].requires_grad_()
    value = nlml(tensor, torch.tensor([noise], dtype=torch.float64), torch.from_numpy(y)[None])
    value.sum().backward()
    with mp.workdps(DIGITS):
        A = matrix(K) + mp.mpf(noise) * mp.eye(N)
        r, inverse = matrix(y).T, A**-1
        alpha = inverse * r
        exact = float((r.T * alpha)[0] / 2 + mp.log(mp.det(A)) / 2 + mp.mpf(N) / 2 * mp.log(2 * mp.pi))
        slope = np.array(((inverse - alpha * alpha.T) / 2).tolist(), dtype=float)
    tolerance = 20 * N * EPS * np.linalg.cond(K + noise * np.eye(N))
    assert float(value.detach()) == pytest.approx(exact, rel=tolerance, abs=tolerance)
    assert tensor.grad is not None
    found = tensor.grad[0].numpy()  # a lower triangle that counts each pair once
    expected = np.tril(2 * slope) - np.diag(np.diag(slope))
    np.testing.assert_allclose(np.tril(found), expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize(("lengthscale", "variance", "noise"), CASES)
def test_posterior_moments_have_the_digits_that_the_condition_number_leaves(lengthscale, variance, noise):
    x, new = np.linspace(-1.0, 1.0, N), np.array([-1.5, -0.3, 0.05, 2.0])
    _, y = problem(lengthscale)
    model = Model(kernel=kernels.SquaredExponential())
    data = Data(torch.from_numpy(x[:, None]), torch.from_numpy(y))
    values = {
        "kernel": {"variance": torch.tensor([variance], dtype=torch.float64), "lengthscale": torch.tensor([[lengthscale]], dtype=torch.float64)},
        "noise": {"scale": torch.tensor([np.sqrt(max(noise - model.noise.floor**2, 1e-300))], dtype=torch.float64)},
    }  # fmt: skip
    actual = float(model.learned_noise(values, data.y)[0])
    posterior = condition(model, values, data)
    assert float(posterior.jitter[0]) == 0.0
    mean, var = posterior.mean_and_variance(torch.from_numpy(new[:, None]))
    with mp.workdps(DIGITS):

        def k(a, b):
            return mp.mpf(variance) * mp.exp(-((mp.mpf(float(a)) - mp.mpf(float(b))) ** 2) / (2 * mp.mpf(lengthscale) ** 2))

        A = mp.matrix(N, N)
        for i in range(N):
            for j in range(N):
                A[i, j] = k(x[i], x[j]) + (mp.mpf(actual) if i == j else 0)
        inverse, r = A**-1, matrix(y).T
        cross = [mp.matrix([k(x[i], point) for i in range(N)]) for point in new]
        exact_mean = np.array([float((c.T * inverse * r)[0]) for c in cross])
        exact_variance = np.array([float(mp.mpf(variance) - (c.T * inverse * c)[0]) for c in cross])
        K = np.array(A.tolist(), dtype=float)
    tolerance = 50 * N * EPS * np.linalg.cond(K)
    np.testing.assert_allclose(mean[0].numpy(), exact_mean, rtol=tolerance, atol=tolerance * np.abs(y).max())
    np.testing.assert_allclose(var[0].numpy(), exact_variance, rtol=tolerance, atol=50 * N * EPS * variance)
    assert (var >= 0).all()


@pytest.mark.parametrize(("lengthscale", "variance", "noise"), [(1.0, 1.0, 1e-4), (3.0, 1e8, 1e-2), (1.0, 1e8, 1e-4)])
def test_a_predictor_has_the_standard_deviations_of_its_model_at_any_ratio_of_variance_and_noise(lengthscale, variance, noise):
    x, new = np.linspace(-1.0, 1.0, 25), np.array([[-0.97], [-0.3], [0.05], [0.66]])
    estimator = GPRegressor(restarts=1, max_iter=0, standardize=False).fit(x[:, None], np.sin(3 * x))
    block = estimator.ensembles_[0].blocks[0]
    values = {
        "kernel": {"variance": torch.tensor([variance], dtype=torch.float64), "lengthscale": torch.tensor([[lengthscale]], dtype=torch.float64)},
        "noise": {"scale": torch.tensor([noise**0.5], dtype=torch.float64)},
    }  # fmt: skip
    estimator.ensembles_[0].blocks[0] = condition(block.model, values, block.data)
    expected = estimator.predict(new, return_std=True)[1]
    np.testing.assert_allclose(estimator.predictor()(new, return_std=True)[1], expected, rtol=5e-4)


def mixture(seed, n=6, components=3):
    rng = np.random.default_rng(seed)
    means, variances = rng.normal(size=(components, n)) * 2, np.exp(rng.normal(size=(components, n)) * 2)
    weights = np.log(rng.dirichlet(np.ones(components)))
    tensors = [torch.from_numpy(a) for a in (means, variances, weights)]
    return Predictive(*tensors, Warp([(NoWarping(), {}, components)]), offset=1.5, scale=2.5)


@pytest.mark.parametrize("away", [0.0, 1.0, -5.0, 20.0, -40.0])
def test_log_densities_keep_their_digits_to_forty_standard_deviations(away):
    p = mixture(0)
    mean, variance = p.moments()
    y = mean + away * variance.sqrt()
    found = p.log_density(y).numpy()
    with mp.workdps(DIGITS):
        for i in range(len(y)):
            t = (mp.mpf(float(y[i])) - mp.mpf(p.offset)) / mp.mpf(p.scale)
            total = mp.mpf(0)
            for m, v, w in zip(p.means[:, i], p.variances[:, i], p.log_weights, strict=True):
                m, v, w = (mp.mpf(float(number)) for number in (m, v, w))
                total += mp.exp(w) * mp.exp(-((t - m) ** 2) / (2 * v)) / mp.sqrt(2 * mp.pi * v)
            assert found[i] == pytest.approx(float(mp.log(total / mp.mpf(p.scale))), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_of_mixtures_are_inverted_to_ten_digits_and_rise(seed):
    p, levels = mixture(seed), [1e-6, 1e-3, 0.05, 0.25, 0.5, 0.75, 0.95, 0.999, 1 - 1e-6]
    quantiles = [p.quantile(q) for q in levels]
    for q, y in zip(levels, quantiles, strict=True):
        np.testing.assert_allclose(p.cdf(y).numpy(), q, rtol=1e-10, atol=1e-12)
    assert (torch.stack(quantiles).diff(dim=0) > 0).all()


@pytest.mark.parametrize("kernel", ["se", "matern12", "matern32", "matern52", "rq", "nn", "periodic", "sm", "linear"])
@pytest.mark.parametrize("features", [None, MLP((3, 2))], ids=["inputs", "network"])
def test_gradients_are_finite_wherever_the_objective_is(kernel, features):
    """At parameters far beyond all data: a minimiser that meets them backs away, and is not led astray by a gradient that is no number."""
    rng = np.random.default_rng(0)
    data = Data(torch.from_numpy(rng.normal(size=(10, 2))), torch.from_numpy(rng.normal(size=10)))
    model = Model(kernel=kernels.as_kernel(kernel), **({} if features is None else {"features": features}))
    layout, drawn = model.draw(data, torch.Generator().manual_seed(0), 1)
    theta = layout.flatten(drawn).numpy()
    points = [theta]
    for name in layout.names:
        for far in (-LARGEST_LOG - 1, -30.0, -12.0, 12.0, 30.0, LARGEST_LOG + 1):
            point = theta.copy()
            point[:, layout.slices[name]] = far
            points.append(point)
    objective = TrainingObjective(model, layout, first_of(layout.constants(drawn)), data, Workers(1))
    for point in points:
        value, gradient = objective(point, np.arange(1))
        assert not np.isnan(value).any()
        assert np.isfinite(gradient[np.isfinite(value)]).all(), point
