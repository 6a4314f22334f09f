"""The predictive distribution of y as a mixture of (warped) Gaussians, in NumPy: what ``inference.mixtures`` computes with PyTorch, for start-up without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist

import numpy as np

from manifoldgp.predictor.target_warping import Warp, bracketed_step

_SAME, _MOST_STEPS = 1e-13, 100
"""A quantile's step that shows no longer, as a share; and steps at most, by then bisections."""

_AT_ONCE = 2**17
"""Numbers of which quantiles are looked for in one call: as many as the cache holds."""

_CRPS_QUANTILES = 100
"""Quantiles that the score of a warped target is computed from, as of ``inference.mixtures``."""


@dataclass(frozen=True)
class Mixture:
    """Σ_s w_s N(z_s(y) | m_s, v_s) dz_s/dy at n points: means, variances and weights (S, n); z_s(y) = y where there is no warp."""

    means: np.ndarray
    variances: np.ndarray
    weights: np.ndarray
    warp: Warp | None = None

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (n,) and variance (n,)."""
        means, variances = (self.means, self.variances) if self.warp is None else self.warp.moments(self.means, self.variances)
        mean = (self.weights * means).sum(0)
        return mean, (self.weights * (variances + (means - mean) ** 2)).sum(0)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """log p(y_i) (n,)."""
        z, slope = (y, 1.0) if self.warp is None else self.warp.forward(y)
        distances = (z - self.means) ** 2 / self.variances + np.log(2 * np.pi * self.variances)
        terms = np.log(np.maximum(self.weights, 1e-300)) + np.log(slope) - 0.5 * distances
        largest = terms.max(0)
        return largest + np.log(np.exp(terms - largest).sum(0))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """P(Y_i <= y_i) (n,)."""
        z = y if self.warp is None else self.warp.forward(y)[0]
        below = 0.5 * _erfc((self.means - z) / np.sqrt(2.0 * self.variances))
        return np.clip((self.weights * below).sum(0), 0.0, 1.0)

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Continuous ranked probability score (n,): E|Y − y| − ½ E|Y − Y'|, or by quantiles where the target is warped."""
        from manifoldgp.metrics import midpoint_levels, mixture_spread, quantile_crps

        if self.warp is not None:
            quantiles = self.quantiles(midpoint_levels(_CRPS_QUANTILES).tolist())
            # neighbours may be in the wrong order by one rounding
            return quantile_crps(y, np.maximum.accumulate(quantiles.T, axis=1))
        miss = (self.weights * _expected_size(y - self.means, self.variances)).sum(0)
        return miss - mixture_spread(self.means, self.variances, self.weights, _spread_by_pairs)

    def quantile(self, q: float) -> np.ndarray:
        """y with P(Y_i <= y) = q (n,)."""
        return self.quantiles([q])[0]

    def quantiles(self, levels: Sequence[float]) -> np.ndarray:
        """y with P(Y_i <= y) = q of all levels q (Q, n), some at a time; of warped targets y − offset is looked for, whose digits a large offset would hide."""
        if self.warp is not None and self.warp.offset != 0.0:
            return self.warp.offset + replace(self, warp=replace(self.warp, offset=0.0)).quantiles(levels)
        S, n = self.means.shape
        q, u = (np.repeat(each, n) for each in (levels, [NormalDist().inv_cdf(level) for level in levels]))
        row, together = np.tile(np.arange(n), len(levels)), max(1, _AT_ONCE // S)
        pieces = [slice(i, i + together) for i in range(0, max(len(row), 1), together)]
        return np.concatenate([self._quantiles(q[piece], u[piece], row[piece]) for piece in pieces]).reshape(len(levels), n)

    def _quantiles(self, q: np.ndarray, normal: np.ndarray, row: np.ndarray) -> np.ndarray:
        """y with P(Y <= y) = q at these points (k,): Newton's steps from between the components' quantiles, bisection where one leaves that bracket or is no shorter than half the last.

        A number is found when its step no longer shows beside it or its widest component; only the others go on. normal: the same quantiles of a standard normal.
        """
        means, stds, weights = self.means[:, row], np.sqrt(self.variances[:, row]), self.weights[:, row]
        each = means + stds * normal
        if self.warp is None:
            low, high, found = each.min(0), each.max(0), (weights * each).sum(0)
        else:
            low, high, found = self.warp.between(each, weights)
        unit = 1.0 if self.warp is None else self.warp.scale[self.warp.member]
        open_rows, y, move, smallest = np.arange(len(found)), found, high - low, _SAME * (unit * stds).max(0)
        for _ in range(_MOST_STEPS):
            z, steepness = (y, 1.0) if self.warp is None else self.warp.forward(y)
            u = (z - means) / stds
            off = (weights * (0.5 * _erfc(-u / math.sqrt(2.0)))).sum(0) - q
            slope = (weights * (np.exp(-0.5 * u * u) * steepness / stds)).sum(0) / math.sqrt(2.0 * math.pi)
            shown = np.maximum(smallest, _SAME * np.abs(y))
            following, low, high, move = bracketed_step(y, off, np.maximum(slope, 1e-300), low, high, move, shown)
            moving = move > shown
            found[open_rows] = following
            if not moving.any():
                break
            open_rows, y, q, move, low, high, smallest = (a[moving] for a in (open_rows, following, q, move, low, high, smallest))
            means, stds, weights = means[:, moving], stds[:, moving], weights[:, moving]
        return found

    def trimmed(self) -> Mixture:
        """Without components of no weight, whose logarithm would be none either."""
        kept = np.flatnonzero((self.weights > 0).any(1))
        warp = None if self.warp is None else self.warp.only(kept)
        return Mixture(self.means[kept], self.variances[kept], self.weights[kept], warp)

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
        warp = None if self.warp is None else self.warp.repeated(draws)
        return Mixture(means, of_draws(self.variances), of_draws(self.weights / draws), warp)


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
