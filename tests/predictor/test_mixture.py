"""Mixtures of (warped) Gaussians in NumPy against those of PyTorch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import special

from manifoldgp.inference.mixtures import Predictive, Warp
from manifoldgp.predictor import mixture as numpy_mixture
from manifoldgp.predictor import target_warping
from manifoldgp.predictor.mixture import Mixture
from manifoldgp.warping import NoWarping, TanhWarping

RNG = np.random.default_rng(0)


def both(S=5, n=12, everywhere=True, warped=False):
    """The same mixtures twice. everywhere: whether weights are the same at all points. warped: whether each two components are warped by a member."""
    means, variances = RNG.normal(size=(S, n)), np.exp(RNG.normal(size=(S, n)))
    weights = RNG.dirichlet(np.ones(S)) if everywhere else RNG.dirichlet(np.ones(S), size=n).T
    tensors = [torch.from_numpy(A) for A in (means, variances, np.log(weights))]
    if not warped:
        return Mixture(means, variances, at_all_points(weights, n)), Predictive(*tensors, Warp([(NoWarping(), {}, S)]))
    R, offset, scale = (S + 1) // 2, 7.0, 0.3
    shape = [np.exp(RNG.normal(size=(R, 2))), np.exp(RNG.normal(size=(R, 2))), RNG.normal(size=(R, 2))]
    member = np.arange(S) // 2
    values = {name: torch.from_numpy(A[member]) for name, A in zip(("height", "steepness", "centre"), shape, strict=True)}
    warp = target_warping.Warp(member, *(A[:, None] for A in shape), np.full((R, 1), scale), offset)
    theirs = Predictive(*tensors, Warp([(TanhWarping(2), values, S)]), offset, scale)
    return Mixture(means, variances, at_all_points(weights, n), warp), theirs


def at_all_points(weights, n):
    return np.broadcast_to(weights.reshape(len(weights), -1), (len(weights), n))


@pytest.mark.parametrize("warped", [False, True])
@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize("S", [1, 5])
def test_numpy_says_what_pytorch_says(S, everywhere, warped):
    ours, theirs = both(S, everywhere=everywhere, warped=warped)
    y = theirs.offset + theirs.scale * RNG.normal(size=12)
    np.testing.assert_allclose(ours.moments(), [a.numpy() for a in theirs.moments()], rtol=1e-10)
    np.testing.assert_allclose(ours.log_density(y), theirs.log_density(torch.from_numpy(y)).numpy(), rtol=1e-10)
    np.testing.assert_allclose(ours.cdf(y), theirs.cdf(torch.from_numpy(y)).numpy(), rtol=1e-10)
    np.testing.assert_allclose(ours.crps(y), theirs.crps(torch.from_numpy(y)).numpy(), rtol=1e-10)
    for q in (0.001, 0.05, 0.5, 0.95, 0.999):
        np.testing.assert_allclose(ours.quantile(q), theirs.quantile(q).numpy(), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(ours.cdf(ours.quantile(q)), q, rtol=1e-9)


@pytest.mark.parametrize("warped", [False, True])
@pytest.mark.parametrize("everywhere", [True, False])
def test_draws_of_an_uncertain_input_are_one_mixture(everywhere, warped):
    ours, theirs = both(everywhere=everywhere, warped=warped)
    recentred = np.array([True, False, True])
    drawn, same = ours.over_draws(3, recentred), theirs.over_draws(3, torch.from_numpy(recentred))
    assert drawn.means.shape == (15, 3)
    np.testing.assert_allclose(drawn.means, same.means.numpy())
    np.testing.assert_allclose(drawn.variances, same.variances.numpy())
    np.testing.assert_allclose(drawn.weights, at_all_points(same.log_weights.exp().numpy(), 3))
    np.testing.assert_allclose(drawn.weights.sum(0), 1.0)
    mean, variance = drawn.moments()
    np.testing.assert_allclose((mean, variance), [a.numpy() for a in same.moments()], rtol=1e-10)
    for q in (0.05, 0.5):
        np.testing.assert_allclose(drawn.quantile(q), same.quantile(q).numpy(), rtol=1e-10)
        np.testing.assert_allclose(drawn.crps(mean), same.crps(torch.from_numpy(mean)).numpy(), rtol=1e-9)
    if not warped:
        whole = ours.moments()[0].reshape(3, 4)
        np.testing.assert_allclose(mean, np.where(recentred, whole[:, 3], whole[:, :3].mean(1)))  # the last column is the middle


def test_components_without_weight_leave_with_their_place_among_the_warped():
    ours, _ = both(warped=True)
    weights = ours.weights.copy()
    weights[[0, 1, 3]] = 0.0
    whole = Mixture(ours.means, ours.variances, weights / weights.sum(0), ours.warp)
    kept = whole.trimmed()
    y = whole.quantile(0.3)
    assert len(kept.means) == 2
    np.testing.assert_allclose(kept.quantile(0.3), y, rtol=1e-11)
    np.testing.assert_allclose(kept.moments(), whole.moments(), rtol=1e-11)
    np.testing.assert_allclose(kept.log_density(y), whole.log_density(y), rtol=1e-10)


@pytest.mark.parametrize("steepness", [1e-3, 1.0, 1e3, 1e9])
def test_the_warping_is_inverted_wherever_it_is_steep(steepness):
    """From far outside to the middle of its steps."""
    z = np.concatenate([np.linspace(-6, 6, 2001), [-1e6, 1e6, 0.0]])
    shape = np.array([[2.0, 0.0, 0.5]]), np.array([[steepness, 1.0, 2.0]]), np.array([[0.3, 0.0, -1.0]])
    t = target_warping.unwarped(z, *shape)
    back, slope = target_warping.warped(t, *shape)
    np.testing.assert_array_less(np.abs(back - z) / slope, 2e-12 * (1.0 + np.abs(t)))


def test_components_of_two_modes_have_quantiles_between_them():
    two = Mixture(np.array([[-5.0], [5.0]]), np.full((2, 1), 1e-4), np.array([[0.3], [0.7]]))
    assert two.quantile(0.2)[0] == pytest.approx(-5.0, abs=0.05)
    assert two.quantile(0.4)[0] == pytest.approx(5.0, abs=0.05)
    assert -5.0 < two.quantile(0.3)[0] < 5.0


def test_quantiles_far_from_zero_keep_the_digits_that_they_have_there():
    """Steps were held against y, and thus given up where they showed no longer beside the offset."""
    ours, _ = both(warped=True)
    near, far = (replace(ours, warp=replace(ours.warp, offset=offset)) for offset in (0.0, 1e9))
    for q in (0.001, 0.3, 0.999):
        np.testing.assert_array_equal(far.quantile(q), 1e9 + near.quantile(q))
    unit = replace(
        near, warp=replace(near.warp, scale=near.warp.scale / 3e4)
    )  # 1e-5 beside an offset of 1e9: 1e-13 of it is more
    np.testing.assert_allclose(
        replace(unit, warp=replace(unit.warp, offset=1e9)).quantile(0.3) - 1e9, unit.quantile(0.3), atol=1e-7
    )


def test_quantiles_take_few_steps(monkeypatch):
    """A step that ends where it began is the last, not one that left the bracket: it took 50 rounds of bisection."""
    rounds, erfc = [], numpy_mixture._erfc
    monkeypatch.setattr(numpy_mixture, "_erfc", lambda x: rounds.append(x.shape[1]) or erfc(x))
    ours, _ = both(S=60, n=200)
    ours.quantile(0.05)
    assert len(rounds) <= 15
    assert sum(rounds) <= 8 * 200


def test_erfc_is_scipys():
    x = np.concatenate([np.linspace(-30, 30, 100_001), RNG.normal(size=1000)])
    np.testing.assert_allclose(numpy_mixture._erfc(x), special.erfc(x), rtol=1e-8, atol=5e-16)
    np.testing.assert_allclose(numpy_mixture._erfc(x[x < 6]), special.erfc(x[x < 6]), rtol=1e-11)
    np.testing.assert_array_equal(np.isnan(numpy_mixture._erfc(np.array([np.nan, np.inf, -np.inf]))), [True, False, False])


def test_the_expected_size_is_that_of_a_normal_law():
    d, v = np.concatenate([np.linspace(-12, 12, 50_001), [0.0]]), np.concatenate([np.exp(RNG.normal(size=50_001)), [2.0]])
    z = d / np.sqrt(v)
    exact = np.sqrt(v) * np.sqrt(2 / np.pi) * np.exp(-0.5 * z**2) + d * special.erf(z / np.sqrt(2))
    np.testing.assert_allclose(numpy_mixture._expected_size(d, v), exact, rtol=1e-13)


def test_crps_of_thousands_of_components_asks_for_no_pairs(monkeypatch):
    """A row with gaps has as many, and 300 rows took two minutes."""
    S, n = 3000, 3
    means, variances, weights = RNG.normal(size=(S, n)), np.exp(RNG.normal(size=(S, n)) - 4), RNG.dirichlet(np.ones(S), size=n).T
    y, slow = RNG.normal(size=n), numpy_mixture._spread_by_pairs(means, variances, weights)
    monkeypatch.setattr(numpy_mixture, "_spread_by_pairs", None)
    mixture = Mixture(means, variances, weights)
    miss = (weights * numpy_mixture._expected_size(y - means, variances)).sum(0)
    np.testing.assert_allclose(mixture.crps(y), miss - slow, rtol=1e-11)


@pytest.mark.parametrize(("narrow", "far"), [(1e-9, 1.0), (1.0, 1e9)])
def test_crps_of_narrow_or_far_components_goes_by_pairs(narrow, far):
    """The sum over waves would take as many steps as the narrowest component goes into the range."""
    S, n = 300, 2
    means, variances, weights = RNG.normal(size=(S, n)), np.exp(RNG.normal(size=(S, n))), np.full((S, n), 1 / S)
    means[0] *= far
    variances[1] *= narrow**2
    mixture, y = Mixture(means, variances, weights), RNG.normal(size=n)
    miss = (weights * numpy_mixture._expected_size(y - means, variances)).sum(0)
    np.testing.assert_allclose(mixture.crps(y), miss - numpy_mixture._spread_by_pairs(means, variances, weights), rtol=1e-11)
