"""How good predictions are: accuracy, density, calibration. NumPy arrays in, plain numbers or arrays out.

Point-wise functions (log density, PIT, CRPS) return one value a test point, so that differences between models can be
paired; take their mean for a score. y, mean, std have one shape; a scalar mean or std stands for all points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manifoldgp._system.real_numbers import as_numbers
from manifoldgp.errors import InputError

Array = NDArray[np.float64]


class CoverageRow(NamedTuple):
    """Of central intervals that should hold a share ``expected`` of the test points: the share ``observed``."""

    expected: float
    observed: float


def nlpp(log_density: ArrayLike) -> float:
    """Mean negative log predictive density: -1/N* sum_i log p(y*_i | x*_i, D), eq. (17) averaged over the test points.

    Lower is better. Infinite where a test point had density 0.

    >>> nlpp([-1.0, -3.0])
    2.0
    """
    log_density = _array("log_density", log_density, allow_infinite=True)
    return float(-log_density.mean())


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root of the mean squared error.

    >>> rmse([0.0, 0.0], [3.0, 4.0]) == 12.5**0.5
    True
    """
    y, mean = _paired(y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def mae(y: ArrayLike, mean: ArrayLike) -> float:
    """Mean absolute error.

    >>> mae([0.0, 0.0], [3.0, -4.0])
    3.5
    """
    y, mean = _paired(y, mean=mean)
    return float(np.mean(np.abs(y - mean)))


def r2(y: ArrayLike, mean: ArrayLike) -> float:
    """Share of the variance of y that the predictions explain: 1 is perfect, 0 no better than the test targets' own mean.

    >>> r2([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]), r2([1.0, 2.0, 3.0], 2.0)
    (1.0, 0.0)
    """
    return 1.0 - nmse(y, mean)


def nmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Mean squared error over the variance of y: 0 is perfect, 1 is no better than the test targets' own mean."""
    y, mean = _paired(y, mean=mean)
    variance = y.var()
    if variance == 0:
        raise InputError("The normalised error needs targets that vary; all are equal. Use rmse instead.")
    return float(np.mean((y - mean) ** 2) / variance)


def coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """The share of targets inside [lower, upper], ends included.

    >>> coverage([0.0, 1.0, 2.0, 3.0], 0.5, 3.0)
    0.75
    """
    y, lower, upper = _paired(y, allow_infinite=True, lower=lower, upper=upper)
    if (lower > upper).any():
        raise InputError("Expected lower <= upper for every interval; some are reversed. Swap the bounds.")
    return float(np.mean((lower <= y) & (y <= upper)))


def gaussian_log_density(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> NDArray[np.float64]:
    """log N(y | mean, std^2), point by point."""
    z, std = _standardised(y, mean, std)
    return -0.5 * z**2 - np.log(std) - 0.5 * math.log(2 * math.pi)


def gaussian_pit(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> NDArray[np.float64]:
    """Probability integral transform Phi((y - mean) / std): uniform on [0, 1] if the predictions are calibrated."""
    z, _ = _standardised(y, mean, std)
    return _normal_cdf(z)


def gaussian_crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> NDArray[np.float64]:
    """Continuous ranked probability score of N(mean, std^2), point by point, in the units of y; lower is better.

    With z = (y - mean) / std: std (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)).
    """
    z, std = _standardised(y, mean, std)
    phi = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return std * (z * (2 * _normal_cdf(z) - 1) + 2 * phi - 1 / math.sqrt(math.pi))


def mixture_crps(y: ArrayLike, means: ArrayLike, stds: ArrayLike, weights: ArrayLike) -> NDArray[np.float64]:
    """Continuous ranked probability score of mixtures of Gaussians, point by point, in the units of y; lower is better.

    With A(d, s) = 2 s phi(d / s) + d (2 Phi(d / s) - 1), the expected |d + s Z| of a standard normal Z:
    sum_i w_i A(y - m_i, s_i) - 1/2 sum_ij w_i w_j A(m_i - m_j, sqrt(s_i^2 + s_j^2)).

    Parameters
    ----------
    y : (n,)
        What was observed.
    means, stds : (S, n)
        Of the S components at each point.
    weights : (S,) or (S, n)
        Of the components, the same at all points or at each its own; they sum to one.

    Examples
    --------
    >>> one = mixture_crps([0.3], [[0.0]], [[2.0]], [1.0])
    >>> bool(np.isclose(one, gaussian_crps([0.3], 0.0, 2.0))[0])
    True
    """
    y, means, stds, weights = (_array(name, a) for name, a in (("y", y), ("means", means), ("stds", stds), ("weights", weights)))
    fits = means.ndim == 2 and means.shape[1:] == y.shape and weights.shape in (means.shape, means.shape[:1])
    if not fits or stds.shape != means.shape:
        raise InputError(
            f"Expected y (n,), means and stds (S, n) and weights (S,) or (S, n); got {y.shape}, {means.shape}, {stds.shape} and {weights.shape}."
        )
    if (stds <= 0).any() or (weights < 0).any() or not np.isclose(weights.sum(0), 1.0).all():
        raise InputError("Expected positive standard deviations, and weights that are not negative and sum to one.")
    weights = np.broadcast_to(weights.reshape(len(means), -1), means.shape)
    return (weights * _mean_distance(y - means, stds)).sum(0) - mixture_spread(means, stds**2, weights, _spread_by_pairs)


def mixture_spread(means: Array, variances: Array, weights: Array, by_pairs: Callable[[Array, Array, Array], Array]) -> Array:
    """Half the expected distance of two draws from a mixture of Gaussians, at each of n points: by pairs of its S components, or quicker where these are many.

    A row with gaps has thousands of components, and 30 million pairs. means, variances, weights: (S, n). by_pairs: the same from these.
    """
    if len(weights) < _MANY:
        return _spread_in_blocks(means, variances, weights, by_pairs)
    alike = [_joined(*row) for row in zip(means.T, variances.T, weights.T, strict=True)]
    classes = np.ceil(4.0 * np.log2([len(m) for m, _, _ in alike]))
    found = np.empty(len(alike))
    for each in np.unique(classes):  # rows of about as many components get one length
        rows = np.flatnonzero(classes == each)
        found[rows] = _spread_in_blocks(*_of_one_length([alike[i] for i in rows]), by_pairs)
    return found


def _joined(means: Array, variances: Array, weights: Array) -> tuple[Array, Array, Array]:
    """A mixture (S,) with components that are nearly alike made one, of their weight, mean and variance: those of members that a gap says nothing to are, by the dozen.

    What moves by a thousandth of a component's own standard deviation, and leaves mean and variance as they are, changes its distance to any other by less than a 1e-8 of it.
    """
    there = weights > 0
    means, variances, weights = means[there], variances[there], weights[there]
    width = np.round(np.log(variances) / (2.0 * _ALIKE))
    place = np.round((means - means[0]) / (_ALIKE * np.exp(_ALIKE * width)))
    order = np.lexsort((place, width))
    new = np.concatenate([[True], (np.diff(place[order]) != 0) | (np.diff(width[order]) != 0)])
    first, one = np.flatnonzero(new), np.cumsum(new) - 1
    m, v, w = means[order], variances[order], weights[order]
    weight, origin = np.add.reduceat(w, first), m[first]  # differences from one of them: far from zero squares lose all digits
    shift = np.add.reduceat(w * (m - origin[one]), first) / weight
    spread = np.add.reduceat(w * (v + (m - origin[one] - shift[one]) ** 2), first) / weight
    return origin + shift, spread, weight


def _of_one_length(mixtures: list[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array]:
    """Means, variances and weights (S, n) of n mixtures; shorter ones end with copies of a component, of weight zero."""
    size = max(len(weights) for _, _, weights in mixtures)
    added = [np.arange(size) * (np.arange(size) < len(weights)) for _, _, weights in mixtures]
    means, variances = (np.stack([row[k][a] for row, a in zip(mixtures, added, strict=True)], 1) for k in (0, 1))
    return means, variances, np.stack([np.pad(weights, (0, size - len(weights))) for _, _, weights in mixtures], 1)


def _spread_in_blocks(means: Array, variances: Array, weights: Array, by_pairs: Callable[[Array, Array, Array], Array]) -> Array:
    """As mixture_spread, from all components, for as many rows at once as the cache holds."""
    size = len(weights)
    together, found = max(1, _NUMBERS_AT_ONCE // size), []
    for first in range(0, max(means.shape[1], 1), together):
        m, v, w = (A[:, first : first + together] for A in (means, variances, weights))
        m, stds = m - m[:1], np.sqrt(v)  # far from zero standard deviations would be lost in means
        covered = (m + _FAR * stds).max(0) - (m - _FAR * stds).min(0)
        steps = (covered / stds.min(0)).max(initial=0.0)  # about as many as there are
        few = steps < size * size * m.shape[1] / _PAIRS_A_STEP
        found.append(_spread_by_waves(m, v, w, covered) if few else by_pairs(m, v, w))
    return np.concatenate(found)


_MANY, _ALIKE = 500, 1e-3
"""Components from which on a search for equal ones pays, and differences of those, in their standard deviations."""

_NUMBERS_AT_ONCE, _PAIRS_A_STEP, _FAR = 2**15, 4000, 8.0
"""Numbers of a block of rows; pairs that take as long as a step of the sum over waves, in NumPy's calls; standard deviations beyond which nothing is."""

_NOTHING = 1e-10
"""Share of a mixture that is no longer seen in a square."""


def _spread_by_waves(means: Array, variances: Array, weights: Array, covered: Array) -> Array:
    """½ E|Y − Y'| (n,) from the characteristic function φ of Y − E Y: 1/π ∫ (1 − |φ(t)|²) / t² dt over t > 0.

    The trapezoidal rule is exact to rounding with steps of 2π over what the mixture covers, because |Y − Y'| has nothing beyond. Each component's wave goes from
    one step to the next by a product, and leaves the sum when it has died away: wide ones do so soon.
    """
    mean = (weights * means).sum(0)
    step = 2.0 * np.pi / covered
    damping = 0.5 * variances * step**2
    waves = weights.astype(complex)
    turns, brakes = np.exp(1j * (means - mean) * step - damping), np.exp(-2.0 * damping)
    squares, k = np.zeros_like(mean), 0
    while len(waves):
        k += 1
        waves *= turns
        turns *= brakes
        phi = waves.sum(0)
        squares += (phi.real**2 + phi.imag**2) / k**2
        if k % 8 == 0:
            alive = (np.abs(waves) > _NOTHING / len(weights)).any(1)
            if not alive.all():
                waves, turns, brakes = waves[alive], turns[alive], brakes[alive]
    variance = (weights * (variances + (means - mean) ** 2)).sum(0)
    return variance / covered + (np.pi**2 / 6.0 - squares) / (np.pi * step)


def _spread_by_pairs(means: Array, variances: Array, weights: Array) -> Array:
    spread = np.zeros(means.shape[1])
    for weight, mean, variance in zip(
        weights, means, variances, strict=True
    ):  # one component against all: never S x S x n at once
        spread += weight * (weights * _mean_distance(mean - means, np.sqrt(variance + variances))).sum(0)
    return 0.5 * spread


def quantile_crps(y: ArrayLike, quantiles: ArrayLike) -> NDArray[np.float64]:
    """Continuous ranked probability score of any predictive law from its quantiles, point by point, in the units of y; lower is better.

    Twice the mean pinball loss: the midpoint rule for 2 times the integral over q of max(q (y - Q(q)), (q - 1) (y - Q(q))).

    Parameters
    ----------
    y : (n,)
        What was observed.
    quantiles : (n, m)
        Quantiles of the levels (k + 1/2) / m for k = 0 ... m - 1 (`midpoint_levels`); a hundred of them give two to three digits.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> found = quantile_crps([0.7], norm.ppf(midpoint_levels(1000))[None])
    >>> bool(abs(found - gaussian_crps([0.7], 0.0, 1.0))[0] < 1e-4)
    True
    """
    y, quantiles = _array("y", y), _array("quantiles", quantiles)
    if y.ndim != 1 or quantiles.ndim != 2 or len(quantiles) != len(y):
        raise InputError(f"Expected y (n,) and quantiles (n, m); got {y.shape} and {quantiles.shape}.")
    if (np.diff(quantiles, axis=1) < 0).any():
        raise InputError("Expected quantiles in order of their levels; some decrease. Sort them.")
    above, levels = y[:, None] - quantiles, midpoint_levels(quantiles.shape[1])
    return 2.0 * np.mean(np.maximum(levels * above, (levels - 1.0) * above), axis=1)


def midpoint_levels(count: int) -> NDArray[np.float64]:
    """The levels whose quantiles `quantile_crps` takes.

    >>> midpoint_levels(4).tolist()
    [0.125, 0.375, 0.625, 0.875]
    """
    if count < 1:
        raise InputError(f"Expected at least one level, got {count}.")
    return (np.arange(count) + 0.5) / count


def _mean_distance(d: NDArray[np.float64], s: NDArray[np.float64]) -> NDArray[np.float64]:
    """E|d + s Z| of a standard normal Z."""
    z = d / s
    return 2 * s * np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) + d * (2 * _normal_cdf(z) - 1)


def pit_histogram(pit: ArrayLike, bins: int = 10) -> NDArray[np.float64]:
    """Density of PIT values in equal bins over [0, 1]: about 1 everywhere if calibrated.

    High at both ends: too confident. High in the middle: too cautious. Leaning to one side: biased.
    """
    if bins < 1:
        raise InputError(f"Expected at least one bin, got {bins}.")
    counts, _ = np.histogram(_pit(pit), bins=bins, range=(0.0, 1.0))
    return counts * bins / counts.sum()


def coverage_table(pit: ArrayLike, levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95, 0.99)) -> list[CoverageRow]:
    """Expected and observed coverage of central predictive intervals, whatever the predictive law.

    The central interval of level c runs from the (1-c)/2 to the (1+c)/2 quantile; y lies in it if |PIT - 1/2| <= c/2.

    >>> coverage_table([0.05, 0.3, 0.5, 0.9], levels=[0.5])
    [CoverageRow(expected=0.5, observed=0.5)]
    """
    distance = np.abs(_pit(pit) - 0.5)
    wrong = [level for level in levels if not 0 < level < 1]
    if wrong:
        raise InputError(f"Expected levels between 0 and 1, got {wrong[0]:g}. Write 95 % as 0.95.")
    return [CoverageRow(float(level), float(np.mean(distance <= level / 2))) for level in levels]


def _pit(pit: ArrayLike) -> NDArray[np.float64]:
    pit = _array("pit", pit)
    if (pit < 0).any() or (pit > 1).any():
        raise InputError("Expected PIT values in [0, 1], the predictive distribution function at y; some are outside.")
    return pit


def _standardised(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    y, mean, std = _paired(y, mean=mean, std=std)
    if (std <= 0).any():
        raise InputError(f"Expected positive standard deviations, got {std.min():g}. Is a variance of zero meant?")
    return (y - mean) / std, std


def _paired(y: ArrayLike, allow_infinite: bool = False, **others: ArrayLike) -> list[NDArray[np.float64]]:
    """All arguments as arrays of the shape of y. (N,) against (N, 1) is refused: broadcasting would make it N x N."""
    y = _array("y", y)
    arrays = [y]
    for name, other in others.items():
        array = _array(name, other, allow_infinite)
        if array.shape not in (y.shape, ()):
            raise InputError(f"Expected {name} of shape {y.shape} like y, or a scalar; got {array.shape}.")
        arrays.append(np.broadcast_to(array, y.shape))
    return arrays


def _array(name: str, values: ArrayLike, allow_infinite: bool = False) -> NDArray[np.float64]:
    array = as_numbers(values, name)
    if not array.size:
        raise InputError(f"Expected at least one value in {name}, got none.")
    if np.isnan(array).any() or not (allow_infinite or np.isfinite(array).all()):
        raise InputError(f"Expected {'numbers' if allow_infinite else 'finite numbers'} in {name}, got NaN or infinity.")
    return array


def _normal_cdf(z: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import ndtr  # loaded where it is needed: `mgp score` does without

    return ndtr(z)
