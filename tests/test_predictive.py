"""The predictive mixture against SciPy's distributions, quadrature, sampling, and finite differences of its moments."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import reference
from manifoldgp import means
from manifoldgp.errors import InputError
from manifoldgp.features import MLP
from manifoldgp.inference import mixtures
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.inference.mixtures import Predictive, Warp
from manifoldgp.kernels import Matern32, SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.parameters import leaves
from manifoldgp.warping import NoWarping, TanhWarping, as_warping

S, POINTS = 3, 4
OFFSET, SCALE = 2.0, 3.0


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def warp_values(members, terms=2, seed=3):
    return {
        "height": normal(members, terms, seed=seed).exp(),
        "steepness": (0.5 * normal(members, terms, seed=seed + 1)).exp(),
        "centre": normal(members, terms, seed=seed + 2),
    }


WARPS = {
    "none": Warp([(NoWarping(), {}, S)]),
    "each its own": Warp([(TanhWarping(2), warp_values(S), S)]),
    "some": Warp([(NoWarping(), {}, 1), (TanhWarping(1), warp_values(2, 1), 2)]),
}


def mixture(warp="none", components=S, seed=0):
    weights = torch.log_softmax(normal(components, seed=seed + 2), 0)
    spread = 0.1 + 0.5 * normal(components, POINTS, seed=seed + 1) ** 2
    return Predictive(2 * normal(components, POINTS, seed=seed), spread, weights, WARPS[warp], OFFSET, SCALE)


def component_warp(warp, s):
    """The warping of component s and its values as NumPy arrays."""
    for warping, values, count in warp.blocks:
        if s < count:
            return warping, {name: leaf[s].numpy() for name, leaf in leaves(values)}
        s -= count
    raise IndexError(s)


def slow_density(p, i, y):
    """p(y) at point i: Σ w N(g(t) | m, v) g'(t) / c, one number at a time."""
    total = 0.0
    for s in range(len(p.means)):
        warping, values = component_warp(p.warp, s)
        z, slope = reference.warped(warping, values, [(y - p.offset) / p.scale])
        bell = stats.norm.pdf(z[0], float(p.means[s, i]), math.sqrt(float(p.variances[s, i])))
        total += math.exp(float(p.log_weights[s])) * bell * slope[0] / p.scale
    return total


def slow_cdf(p, i, y):
    total = 0.0
    for s in range(len(p.means)):
        warping, values = component_warp(p.warp, s)
        z, _ = reference.warped(warping, values, [(y - p.offset) / p.scale])
        total += math.exp(float(p.log_weights[s])) * stats.norm.cdf(
            z[0], float(p.means[s, i]), math.sqrt(float(p.variances[s, i]))
        )
    return total


def integral(function, p, i):
    """∫ function(y) dy over all y where point i of p has any mass."""
    low, high = (float(p.quantile(q)[i]) for q in (1e-12, 1 - 1e-12))
    edges = np.linspace(low - 1.0, high + 1.0, 25)
    return sum(integrate.quad(function, a, b, epsabs=1e-10, epsrel=1e-10, limit=200)[0] for a, b in pairwise(edges))


def at(i, y):
    """y at point i of all points, zero at the others."""
    every = torch.zeros(POINTS, dtype=torch.float64)
    every[i] = y
    return every


@pytest.fixture(params=WARPS)
def predicted(request):
    return mixture(request.param)


def test_density_and_cdf_are_the_references(predicted):
    y = OFFSET + SCALE * 2 * normal(POINTS, seed=8)
    density, below = predicted.log_density(y), predicted.cdf(y)
    for i in range(POINTS):
        assert float(density[i]) == pytest.approx(math.log(slow_density(predicted, i, float(y[i]))), rel=1e-9)
        assert float(below[i]) == pytest.approx(slow_cdf(predicted, i, float(y[i])), rel=1e-9)


def test_a_single_gaussian_is_the_normal_distribution():
    p = mixture(components=1)
    p = Predictive(p.means, p.variances, torch.zeros(1, dtype=torch.float64), Warp([(NoWarping(), {}, 1)]), OFFSET, SCALE)
    exact = stats.norm(OFFSET + SCALE * p.means[0].numpy(), SCALE * np.sqrt(p.variances[0].numpy()))
    y = torch.tensor([-3.0, 0.0, 2.0, 40.0], dtype=torch.float64)
    np.testing.assert_allclose(p.log_density(y), exact.logpdf(y.numpy()), rtol=1e-11)
    np.testing.assert_allclose(p.cdf(y), exact.cdf(y.numpy()), rtol=1e-9)
    np.testing.assert_allclose(p.quantile(0.03), exact.ppf(0.03), rtol=1e-11)
    np.testing.assert_allclose(p.moments()[0], exact.mean(), rtol=1e-12)
    np.testing.assert_allclose(p.moments()[1], exact.var(), rtol=1e-12)


def test_the_cdf_is_a_probability_whatever_the_weights_round_to():
    ones, far = torch.ones(3, 2, dtype=torch.float64), torch.tensor([1e9, -1e9], dtype=torch.float64)
    log_weights = torch.full((3,), 1 / 3, dtype=torch.float64).log() + 1e-15
    assert Predictive(0 * ones, ones, log_weights, Warp([(NoWarping(), {}, 3)])).cdf(far).tolist() == [1.0, 0.0]


def test_the_density_integrates_to_one_and_its_mean_is_the_mean(predicted):
    mean, variance = predicted.moments()
    # The moments of a warped component come from 40 nodes: exact without warping, and good to a few digits with it.
    relative = 1e-8 if predicted.warp.trivial else 2e-3
    for i in range(2):

        def density(y, i=i):
            return math.exp(float(predicted.log_density(at(i, y))[i]))

        assert integral(density, predicted, i) == pytest.approx(1.0, abs=1e-8)
        m = integral(lambda y: y * density(y), predicted, i)
        assert float(mean[i]) == pytest.approx(m, abs=relative * float(variance[i]) ** 0.5)
        assert float(variance[i]) == pytest.approx(integral(lambda y, m=m: (y - m) ** 2 * density(y), predicted, i), rel=relative)


@pytest.mark.parametrize("warp", ["each its own", "some"])
def test_moments_of_few_points_and_of_many_are_the_same(warp, monkeypatch):
    together = mixture(warp).moments()
    monkeypatch.setattr(mixtures, "_AT_ONCE", 1)  # as if there were very many points
    for found, expected in zip(mixture(warp).moments(), together, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_the_density_is_the_slope_of_the_cdf(predicted):
    y = (OFFSET + SCALE * normal(POINTS, seed=8)).requires_grad_()
    (slope,) = torch.autograd.grad(predicted.cdf(y).sum(), y)
    torch.testing.assert_close(slope, predicted.log_density(y).exp().detach(), rtol=1e-9, atol=1e-12)


@given(q=st.floats(1e-6, 1 - 1e-6), warp=st.sampled_from(list(WARPS)), seed=st.integers(0, 1000))
def test_quantiles_invert_the_cdf(q, warp, seed):
    p = mixture(warp, seed=seed)
    y = p.quantile(q)
    torch.testing.assert_close(p.cdf(y), torch.full((POINTS,), q, dtype=torch.float64), rtol=1e-9, atol=1e-12)


def test_quantiles_keep_to_one_thread(predicted, monkeypatch):
    """PyTorch shares out even a thousand erfc, and sixty steps wait for each other on a busy machine: a page took 20 s in place of 8."""
    seen, cdf = set(), Predictive.cdf
    monkeypatch.setattr(Predictive, "cdf", lambda self, y: (seen.add(torch.get_num_threads()), cdf(self, y))[1])
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        predicted.quantile(0.1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen <= {1}  # none where there is one component


def test_quantiles_grow_and_a_weightless_component_does_not_count(predicted):
    levels = torch.stack([predicted.quantile(q) for q in (0.01, 0.25, 0.5, 0.75, 0.99)])
    assert bool((levels.diff(dim=0) > 0).all())
    alone = torch.tensor([-torch.inf, 0.0, -torch.inf], dtype=torch.float64)
    p = Predictive(predicted.means, predicted.variances, alone, predicted.warp, OFFSET, SCALE)
    warping, values = component_warp(predicted.warp, 1)
    y = (p.quantile(0.2) - OFFSET) / SCALE
    z, _ = reference.warped(warping, values, y.numpy())
    np.testing.assert_allclose(z, predicted.means[1] + predicted.variances[1].sqrt() * stats.norm.ppf(0.2), rtol=1e-9, atol=1e-10)
    assert torch.isfinite(p.log_density(y)).all()


def test_draws_have_the_moments_and_the_quantiles(predicted):
    draws = predicted.sample(20_000, generator(4))
    assert draws.shape == (20_000, POINTS)
    mean, variance = predicted.moments()
    error = (draws.mean(0) - mean) / (variance / 20_000).sqrt()
    assert float(error.abs().max()) < 4.5
    assert float((draws.var(0) / variance - 1).abs().max()) < 0.08
    for q in (0.05, 0.5, 0.95):
        below = (draws <= predicted.quantile(q)).double().mean(0)
        assert float((below - q).abs().max()) < 4.5 * math.sqrt(q * (1 - q) / 20_000)
    # points are drawn independently
    assert float(draws.T.corrcoef().fill_diagonal_(0.0).abs().max()) < 0.04


def test_densities_far_out_do_not_underflow():
    p = mixture()
    far = p.log_density(torch.full((POINTS,), 1e6, dtype=torch.float64))
    assert torch.isfinite(far).all()
    assert float(far.max()) < -1e6


# --------------------------------------------------------------------------------------------------------------- the warping


@given(
    terms=st.integers(1, 4),
    height=st.floats(-3, 3),
    steepness=st.floats(-3, 4),
    seed=st.integers(0, 10**4),
)
def test_the_warping_is_monotone_and_its_inverse_inverts(terms, height, steepness, seed):
    warping, values = TanhWarping(terms), warp_values(2, terms, seed)
    values["height"], values["steepness"] = values["height"] * 10**height, values["steepness"] * 10**steepness
    y = torch.sort(3 * normal(2, 20, seed=seed)).values
    z, log_slope = warping.forward(values, y)
    for r in range(2):
        slow_z, slow_slope = reference.warped(
            warping, {k: v[r].numpy() for k, v in values.items()}, y[r].clamp(-300, 300).numpy()
        )
        np.testing.assert_allclose(z[r], slow_z, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(log_slope[r], np.log(slow_slope), rtol=1e-6, atol=1e-9)
    assert bool((z.diff(dim=-1) > 0).all())
    back = warping.inverse(values, z)
    torch.testing.assert_close(back, y, rtol=1e-7, atol=1e-7 * float(values["height"].sum(-1).max() + 1))


def test_a_few_slow_roots_keep_no_others_waiting(monkeypatch):
    """All values had taken the steps of the slowest one, 16 here and 31 after a fit: 8 seconds for 960 predictions."""
    draw = torch.Generator().manual_seed(0)
    height, steepness, centre = (torch.randn(40, 3, generator=draw, dtype=torch.float64) for _ in range(3))
    values, z = (
        {"height": height.exp(), "steepness": steepness.exp(), "centre": centre},
        3.0 * torch.randn(40, 500, generator=draw, dtype=torch.float64),
    )
    plain, computed = TanhWarping.forward, []
    monkeypatch.setattr(TanhWarping, "forward", lambda self, v, y: (computed.append(y.numel()), plain(self, v, y))[1])
    y = TanhWarping().inverse(values, z)
    assert sum(computed) < 12 * z.numel()
    torch.testing.assert_close(plain(TanhWarping(), values, y)[0], z, rtol=0, atol=1e-12)


def test_shorthands_of_the_warping():
    assert as_warping(None) == NoWarping()
    assert as_warping("tanh") == TanhWarping()
    assert as_warping(TanhWarping(2)) == TanhWarping(2)
    with pytest.raises(InputError, match="Unknown target warping 'log'"):
        as_warping("log")
    with pytest.raises(InputError, match="at least one term"):
        TanhWarping(0)


# ----------------------------------------------------------------------------------------- derivatives with respect to inputs

PLAIN, NETWORK = Model(kernel=SquaredExponential()), Model(MLP((4, 2)), Matern32(), means.Linear())
WARPED = Model(MLP((3, 2), "tanh"), mean=means.Constant(), warping=TanhWarping(2))


@pytest.mark.parametrize(
    "models",
    [[PLAIN], [NETWORK], [WARPED], [PLAIN, NETWORK], [NETWORK, WARPED]],
    ids=["plain", "network", "warped", "mixture", "both"],
)
def test_slopes_of_mean_and_variance_against_finite_differences(models):
    data = Data(normal(8, 2, seed=1), normal(8, seed=2))
    blocks = []
    for i, model in enumerate(models):
        _, values = model.draw(data, generator(i), 2)
        values["noise"]["scale"] = 0.2 + 0 * values["noise"]["scale"]
        blocks.append(condition(model, values, data))
    weights = torch.log_softmax(normal(len(blocks) * 2 * 2, seed=4), 0).reshape(len(blocks), 2, 2)
    ensemble = Ensemble(blocks, list(weights), (1.0, 4.0), OFFSET, SCALE)
    X, eps = normal(20 if WARPED in models else 300, 2, seed=5), 1e-5  # 300 are more than one chunk
    d_mean, d_variance = ensemble.gradients(X)
    assert d_mean.shape == d_variance.shape == X.shape
    for d in range(2):
        step = torch.zeros(2, dtype=torch.float64)
        step[d] = eps
        up, down = (ensemble.predict(X + sign * step, latent=True).moments() for sign in (1, -1))
        for slope, a, b in ((d_mean, up[0], down[0]), (d_variance, up[1], down[1])):
            torch.testing.assert_close(slope[:, d], (a - b) / (2 * eps), rtol=1e-5, atol=1e-6)


def test_known_noise_of_new_points_adds_to_their_variance():
    data = Data(normal(8, 2, seed=1), normal(8, seed=2))
    _, values = PLAIN.draw(data, generator(), 1)
    ensemble = Ensemble([condition(PLAIN, values, data)], [torch.zeros(1, 1, dtype=torch.float64)], (1.0,), OFFSET, SCALE)
    X, known = normal(3, 2, seed=3), torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64)
    (mean, variance), (same_mean, more) = ensemble.predict(X).moments(), ensemble.predict(X, known_noise=known).moments()
    torch.testing.assert_close(mean, same_mean)
    torch.testing.assert_close(more - variance, SCALE**2 * known, rtol=1e-9, atol=1e-12)
    latent = ensemble.predict(X, latent=True).moments()[1]
    learned = float(values["noise"]["scale"]) ** 2 + PLAIN.noise.floor**2
    torch.testing.assert_close(variance - latent, torch.full((3,), SCALE**2 * learned, dtype=torch.float64))


def test_blocks_of_one_kind_are_warped_together():
    warping, values = TanhWarping(2), [warp_values(3), warp_values(1, seed=4), warp_values(2, seed=5)]
    apart = Warp([(warping, values[0], 3), (warping, values[1], 1), (NoWarping(), {}, 1), (warping, values[2], 2)])
    joined = Warp.of(apart.blocks)
    assert [count for _, _, count in joined.blocks] == [4, 1, 2]
    t = normal(7, 9)
    for mine, other in zip(joined.forward(t), apart.forward(t), strict=True):
        torch.testing.assert_close(mine, other)
    torch.testing.assert_close(joined.inverse(t), apart.inverse(t))
