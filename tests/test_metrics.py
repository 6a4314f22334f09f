"""metrics.py against scipy.stats, numerical integration and counting by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from manifoldgp import metrics
from manifoldgp.errors import InputError


@pytest.fixture
def predictions():
    rng = np.random.default_rng(1)
    mean, std = rng.normal(size=200), rng.uniform(0.1, 3.0, 200)
    return mean + std * rng.normal(size=200), mean, std


def test_nlpp_is_the_mean_of_negative_log_densities(predictions):
    y, mean, std = predictions
    expected = -sum(math.log(stats.norm.pdf(t, m, s)) for t, m, s in zip(y, mean, std, strict=True)) / len(y)
    assert metrics.nlpp(metrics.gaussian_log_density(y, mean, std)) == pytest.approx(expected, rel=1e-12)


def test_nlpp_is_infinite_where_a_density_is_zero():
    assert metrics.nlpp([0.0, -np.inf]) == np.inf


def test_rmse_and_nmse_by_hand():
    y, mean = [1.0, 2.0, 3.0, 6.0], [1.0, 0.0, 4.0, 6.0]
    assert metrics.rmse(y, mean) == pytest.approx(math.sqrt(5 / 4), rel=1e-14)
    assert metrics.nmse(y, mean) == pytest.approx(5 / 14, rel=1e-14)  # sum (y - 3)^2 = 14


def test_nmse_of_the_mean_is_one(predictions):
    y = predictions[0]
    assert metrics.nmse(y, y.mean()) == pytest.approx(1.0, rel=1e-12)


def test_coverage_counts_both_ends():
    y = [0.0, 1.0, 2.0, 3.0, 4.0]
    assert metrics.coverage(y, 1.0, 3.0) == 0.6
    assert metrics.coverage(y, -np.inf, np.inf) == 1.0
    assert metrics.coverage(y, [0.5] * 5, [0.9] * 5) == 0.0


def test_gaussian_log_density_against_scipy(predictions):
    y, mean, std = predictions
    np.testing.assert_allclose(metrics.gaussian_log_density(y, mean, std), stats.norm.logpdf(y, mean, std), rtol=1e-12)


def test_gaussian_log_density_stays_finite_far_out():
    assert metrics.gaussian_log_density([1e4], 0.0, 1.0)[0] == pytest.approx(stats.norm.logpdf(1e4), rel=1e-12)


def test_gaussian_pit_against_scipy(predictions):
    y, mean, std = predictions
    np.testing.assert_allclose(metrics.gaussian_pit(y, mean, std), stats.norm.cdf(y, mean, std), rtol=1e-12)


@given(y=st.floats(-5, 5), mean=st.floats(-5, 5), std=st.floats(0.2, 3))
def test_gaussian_crps_is_the_integral_it_stands_for(y, mean, std):
    # CRPS = integral of (F(t) - 1[t >= y])^2 dt, split at the jump
    law = stats.norm(mean, std)
    left = integrate.quad(lambda t: law.cdf(t) ** 2, min(y, mean) - 12 * std, y, points=[mean], limit=200)[0]
    right = integrate.quad(lambda t: law.sf(t) ** 2, y, max(y, mean) + 12 * std, points=[mean], limit=200)[0]
    assert metrics.gaussian_crps([y], mean, std)[0] == pytest.approx(left + right, rel=1e-6, abs=1e-8)


def test_gaussian_crps_is_smallest_for_the_true_law():
    y = np.random.default_rng(2).normal(1.0, 2.0, 20_000)
    best = metrics.gaussian_crps(y, 1.0, 2.0).mean()
    assert best == pytest.approx(2.0 / math.sqrt(math.pi), rel=0.02)  # the expected score of the true law
    assert all(metrics.gaussian_crps(y, m, s).mean() > best for m, s in [(1.0, 1.5), (1.0, 2.7), (0.6, 2.0), (1.4, 2.0)])


def test_pit_histogram_is_a_density():
    histogram = metrics.pit_histogram([0.0, 0.05, 0.5, 1.0], bins=4)
    np.testing.assert_allclose(histogram, [2.0, 0.0, 1.0, 1.0])
    assert histogram.mean() == pytest.approx(1.0)


def test_coverage_table_equals_coverage_of_gaussian_quantiles(predictions):
    y, mean, std = predictions
    table = metrics.coverage_table(metrics.gaussian_pit(y, mean, std))
    assert [row.expected for row in table] == [0.5, 0.8, 0.9, 0.95, 0.99]
    for expected, observed in table:
        lower, upper = stats.norm.interval(expected, mean, std)
        assert observed == metrics.coverage(y, lower, upper)
        # a binomial share of 200 points lies within 4 of its standard deviations
        assert abs(observed - expected) < 4 * math.sqrt(expected * (1 - expected) / 200)


def test_coverage_table_sees_overconfidence(predictions):
    y, mean, std = predictions
    (row,) = metrics.coverage_table(metrics.gaussian_pit(y, mean, std / 3), levels=[0.95])
    assert row.observed < 0.7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.nlpp([]), "at least one value in log_density"),
        (lambda: metrics.nlpp([0.0, np.nan]), "Expected numbers in log_density"),
        (lambda: metrics.rmse([1.0, np.inf], [1.0, 1.0]), "finite numbers in y"),
        (lambda: metrics.rmse(np.zeros(3), np.zeros((3, 1))), r"mean of shape \(3,\) like y.*got \(3, 1\)"),
        (lambda: metrics.nmse([2.0, 2.0], [1.0, 2.0]), "targets that vary"),
        (lambda: metrics.coverage([1.0], [2.0], [0.0]), "lower <= upper"),
        (lambda: metrics.coverage([1.0, 2.0], [0.0], [2.0]), r"lower of shape \(2,\)"),
        (lambda: metrics.gaussian_log_density([1.0], [1.0], [0.0]), "positive standard deviations, got 0"),
        (lambda: metrics.gaussian_crps([1.0], [1.0], [-2.0]), "positive standard deviations, got -2"),
        (lambda: metrics.gaussian_pit([1.0], [np.nan], [1.0]), "finite numbers in mean"),
        (lambda: metrics.pit_histogram([0.1, 1.5]), r"PIT values in \[0, 1\]"),
        (lambda: metrics.pit_histogram([0.1], bins=0), "at least one bin, got 0"),
        (lambda: metrics.coverage_table([0.5], levels=[95]), "levels between 0 and 1, got 95"),
    ],
)
def test_unusable_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_mae_and_r2_by_hand():
    y, mean = [1.0, 2.0, 3.0, 6.0], [1.0, 0.0, 4.0, 6.0]
    assert metrics.mae(y, mean) == 0.75
    assert metrics.r2(y, mean) == pytest.approx(1 - 5 / 14, rel=1e-14)
    with pytest.raises(InputError, match="targets that vary"):
        metrics.r2([1.0, 1.0], [0.0, 2.0])


@pytest.fixture
def mixture():
    """y (4,), means and stds (3, 4), weights (3,)."""
    rng = np.random.default_rng(2)
    return 2 * rng.normal(size=4), rng.normal(size=(3, 4)), rng.uniform(0.2, 2.0, (3, 4)), np.array([0.5, 0.3, 0.2])


def test_the_crps_of_a_mixture_is_the_integral_of_its_squared_distribution_function(mixture):
    y, means, stds, weights = mixture
    for i, found in enumerate(metrics.mixture_crps(*mixture)):
        cdf = lambda t, i=i: float(weights @ stats.norm.cdf(t, means[:, i], stds[:, i]))  # noqa: E731
        below, _ = integrate.quad(lambda t, cdf=cdf: cdf(t) ** 2, -30, y[i])
        above, _ = integrate.quad(lambda t, cdf=cdf: (1 - cdf(t)) ** 2, y[i], 30)
        assert found == pytest.approx(below + above, rel=1e-6)


def test_a_mixture_of_equal_components_has_the_crps_of_one(predictions):
    y, mean, std = predictions
    found = metrics.mixture_crps(y, np.stack([mean, mean]), np.stack([std, std]), [0.25, 0.75])
    np.testing.assert_allclose(found, metrics.gaussian_crps(y, mean, std), rtol=1e-9, atol=1e-12)


def test_the_crps_from_quantiles_approaches_the_closed_form(predictions):
    y, mean, std = predictions
    exact = metrics.gaussian_crps(y, mean, std)
    error = []
    for count in (50, 400):
        quantiles = mean[:, None] + std[:, None] * stats.norm.ppf(metrics.midpoint_levels(count))
        error.append(np.abs(metrics.quantile_crps(y, quantiles) - exact).max())
    assert error[1] < error[0] / 4
    assert error[1] < 2e-3 * std.max()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [0.5, 0.3, 0.3]}, "sum to one"),
        ({"stds": np.zeros((3, 4))}, "positive standard deviations"),
        ({"means": np.zeros((2, 4))}, r"means and stds \(S, n\)"),
    ],
)
def test_mixtures_that_are_none_are_refused(mixture, change, message):
    with pytest.raises(InputError, match=message):
        metrics.mixture_crps(**(dict(zip(("y", "means", "stds", "weights"), mixture, strict=True)) | change))


def test_quantiles_out_of_order_are_refused():
    with pytest.raises(InputError, match="in order"):
        metrics.quantile_crps([0.0], [[1.0, 0.0]])


@pytest.mark.parametrize("far", [0.0, 1e12, -4e29])
def test_the_crps_of_a_mixture_far_from_zero_is_that_of_one_at_zero(far):
    means, stds = np.full((3, 1), far), np.full((3, 1), 0.4)
    found = metrics.mixture_crps([far], means, stds, [0.2, 0.3, 0.5])
    np.testing.assert_allclose(found, metrics.gaussian_crps([0.0], 0.0, 0.4), rtol=1e-9)


def test_the_spread_of_a_mixture_joins_components_that_are_alike():
    """A row with gaps has every member once for each of its twenty fillings: 93 of them took 9 s, almost all of it pairs of equal ones."""
    rng = np.random.default_rng(0)
    few = rng.integers(40, 60, size=5)
    places = [rng.permutation(np.arange(900) % count) for count in few]  # each of few components many times, in any order
    means = np.stack([rng.normal(size=60)[p] for p in places], 1) + 1e6
    stds = np.stack([np.exp(rng.uniform(-12, 1, size=60))[p] for p in places], 1)
    means += 1e-5 * stds * rng.normal(size=means.shape)  # not to the last digit
    weights = rng.dirichlet(np.full(900, 0.3), size=5).T
    weights[::7] = 0.0
    weights /= weights.sum(0)
    seen = []

    def by_pairs(*mixture):
        seen.append(len(mixture[0]))
        return metrics._spread_by_pairs(*mixture)

    found = metrics.mixture_spread(means, stds**2, weights, by_pairs)
    assert seen
    assert max(seen) < 300
    np.testing.assert_allclose(found, metrics._spread_by_pairs(means - 1e6, stds**2, weights), rtol=1e-7)
