"""The predictive distribution of y as a mixture of Gaussians, in NumPy: what ``inference.mixtures`` computes with PyTorch, for start-up without it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

_SAME, _MOST_STEPS = 1e-13, 100
"""A quantile's step that shows no longer, as a share; and steps at most, by then bisections."""


@dataclass(frozen=True)
class Mixture:
    """Σ_s w_s N(y | m_s, v_s) at n points: means, variances and weights (S, n)."""

    means: np.ndarray
    variances: np.ndarray
    weights: np.ndarray

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (n,) and variance (n,)."""
        mean = (self.weights * self.means).sum(0)
        return mean, (self.weights * (self.variances + (self.means - mean) ** 2)).sum(0)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """log p(y_i) (n,)."""
        terms = np.log(np.maximum(self.weights, 1e-300)) - 0.5 * (
            (y - self.means) ** 2 / self.variances + np.log(2 * np.pi * self.variances)
        )
        largest = terms.max(0)
        return largest + np.log(np.exp(terms - largest).sum(0))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """P(Y_i <= y_i) (n,)."""
        below = 0.5 * _erfc((self.means - y) / np.sqrt(2.0 * self.variances))
        return np.clip((self.weights * below).sum(0), 0.0, 1.0)

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Continuous ranked probability score (n,): E|Y − y| − ½ E|Y − Y'|."""
        from manifoldgp.metrics import mixture_spread

        miss = (self.weights * _expected_size(y - self.means, self.variances)).sum(0)
        return miss - mixture_spread(self.means, self.variances, self.weights, _spread_by_pairs)

    def quantile(self, q: float) -> np.ndarray:
        """y with P(Y_i <= y) = q (n,): Newton's steps from between the components' quantiles, bisection where one leaves that bracket or is no shorter than half the last.

        A row is done when its step no longer shows beside y or its widest component; only the others go on.
        """
        stds = np.sqrt(self.variances)
        each = self.means + stds * NormalDist().inv_cdf(q)
        low, high, found = each.min(0), each.max(0), (self.weights * each).sum(0)
        weights = self.weights
        open_rows, y, means, move, smallest = np.arange(len(found)), found, self.means, high - low, _SAME * stds.max(0)
        for _ in range(_MOST_STEPS):
            u = (y - means) / stds
            off = (weights * (0.5 * _erfc(-u / math.sqrt(2.0)))).sum(0) - q
            slope = (weights * (np.exp(-0.5 * u * u) / stds)).sum(0) / math.sqrt(2.0 * math.pi)
            low, high = np.where(off < 0, y, low), np.where(off < 0, high, y)
            step = y - off / np.maximum(slope, 1e-300)
            shown = np.maximum(smallest, _SAME * np.abs(y))
            good = (step >= low) & (step <= high) & (np.abs(step - y) <= np.maximum(0.5 * move, shown))
            following = np.where(good, step, 0.5 * (low + high))
            move = np.abs(following - y)
            moving = move > shown
            found[open_rows] = following
            if not moving.any():
                break
            open_rows, y, move, low, high, smallest = (a[moving] for a in (open_rows, following, move, low, high, smallest))
            means, stds, weights = means[:, moving], stds[:, moving], weights[:, moving]
        return found

    def trimmed(self) -> Mixture:
        """Without components of no weight, whose logarithm would be none either."""
        kept = (self.weights > 0).any(1)
        return self if kept.all() else Mixture(self.means[kept], self.variances[kept], self.weights[kept])

    def over_draws(self, draws: int, recentred: np.ndarray) -> Mixture:
        """The mixture at points of which the input is uncertain; as of ``inference.mixtures.Predictive``."""
        S = len(self.means)

        def of_draws(each: np.ndarray, own: np.ndarray | float = 0.0) -> np.ndarray:
            """What the draws have, and points that are recentred what the last column has; as (S · draws, n)."""
            each = each.reshape(S, -1, draws + 1)
            found = np.where(recentred[:, None], each[..., -1:] + own, each[..., :-1])
            return np.swapaxes(found, 1, 2).reshape(S * draws, -1)

        around = self.means.reshape(S, -1, draws + 1)[..., :-1]
        means = of_draws(self.means, around - around.mean(-1, keepdims=True))
        return Mixture(means, of_draws(self.variances), of_draws(self.weights / draws))


def _spread_by_pairs(means: np.ndarray, variances: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """½ E|Y − Y'| (n,) of two draws from a mixture: of each pair of components once."""
    found = (weights**2 * np.sqrt(variances / np.pi)).sum(0)  # of a component with itself
    for s in range(len(means) - 1):
        apart = _expected_size(means[s] - means[s + 1 :], variances[s] + variances[s + 1 :])
        found += weights[s] * (weights[s + 1 :] * apart).sum(0)
    return found


def _expected_size(d: np.ndarray, v: np.ndarray) -> np.ndarray:
    """E|d + s Z| = |d| + s g(|d| / s) of a standard normal Z, with s² = v.

    CRPS asks it for every pair of components, where an exponential and an error function would take longer than all else: g comes from a table.
    """
    s, size = np.sqrt(v), np.abs(d)
    place = np.fmin(size / s, _ALONE)
    place *= _EXCESS_NODES
    node = np.rint(place)
    place -= node
    of_node = node.astype(np.intp)
    *terms, last = _excess()
    found = last[of_node]
    for term in terms[::-1]:
        found *= place
        found += term[of_node]
    found *= s
    found += size
    return found


_EXCESS_NODES, _ALONE = 2048, 9
"""Nodes of g on each unit: from the nearest, Taylor's terms up to the third leave less than a rounding of 1. And where g is smaller than that."""


@cache
def _excess() -> np.ndarray:
    """Taylor's coefficients of g(z) = √(2/π) exp(−z²/2) − z erfc(z/√2) at every node, in steps from one to the next (4, nodes)."""
    z = np.arange(_ALONE * _EXCESS_NODES + 1) / _EXCESS_NODES
    density, beyond = math.sqrt(2.0 / math.pi) * np.exp(-0.5 * z * z), _erfc(z / math.sqrt(2.0))
    derivatives = np.stack([density - z * beyond, -beyond, 0.5 * density, -z * density / 6.0])
    return derivatives * np.power(1.0 / _EXCESS_NODES, np.arange(4))[:, None]


_NODES = 512
"""Nodes of erfc on each unit: from the nearest, Taylor's terms up to the fourth leave less than a rounding of 1."""

_FAR = 27
"""Beyond, erfc is smaller than any number, or 2."""


def _erfc(x: np.ndarray) -> np.ndarray:
    """The complementary error function, to 5e-16 and to nine digits where it is small: SciPy's takes a quarter of a second to load, longer than most tables take to predict."""
    x = np.clip(x, -_FAR, _FAR)
    node = np.rint(np.nan_to_num(x) * _NODES)
    away, of_node = x - node / _NODES, node.astype(np.intp) + _FAR * _NODES
    found = np.zeros_like(x)
    for term in _taylor()[::-1]:
        found *= away
        found += term[of_node]
    return found


@cache
def _taylor() -> np.ndarray:
    """Taylor's coefficients of erfc at every node (5, nodes)."""
    x = np.arange(-_FAR * _NODES, _FAR * _NODES + 1) / _NODES
    above = np.array([math.erfc(place) for place in x[_FAR * _NODES :].tolist()])
    slope = -2.0 / math.sqrt(math.pi) * np.exp(-x * x)
    return np.stack([
        np.concatenate([2.0 - above[:0:-1], above]), slope, -x * slope, (2.0 * x * x - 1.0) / 3.0 * slope, x * (3.0 - 2.0 * x * x) / 6.0 * slope,
    ])  # fmt: skip
