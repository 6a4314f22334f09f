"""Warped targets in NumPy, z = g(t) = t + Σ_i a_i tanh(b_i (t + c_i)): what ``manifoldgp.warping`` and ``inference.mixtures.Warp`` compute with PyTorch.

Heights a >= 0, steepnesses b and centres c come as (..., 1, terms), for t and z (..., n).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

_SAME, _MOST_STEPS = 1e-12, 60
"""A step that shows no longer, relative to standardised targets; and steps at most."""

_FEW = 0.3
"""Share of roots that go on alone: gathering them costs about a step."""

_AT_ONCE = 2**15
"""Numbers of which the warping is inverted in one call: as many as the cache holds."""


@dataclass(frozen=True)
class Warp:
    """The warpings of S components of one target: component s has that of member[s], z = g((y − offset) / scale).

    member (S,), in order. height, steepness, centre (R, 1, terms) and scale (R, 1): of the members.
    """

    member: np.ndarray
    height: np.ndarray
    steepness: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    offset: float

    def forward(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """z and dz/dy of each component (S, n), for y (n,)."""
        z, slope = warped((y - self.offset) / self.scale, self.height, self.steepness, self.centre)
        return z[self.member], (slope / self.scale)[self.member]

    def between(self, z: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bounds (n,) of the y that any component has at its z (S, n), and about their mean: of the members' mean z, because unwarping that of every component would take longer."""
        first = np.flatnonzero(np.diff(self.member, prepend=-1))
        own = self.member[first]
        height, steepness, centre, scale = (each[own] for each in (self.height, self.steepness, self.centre, self.scale))
        reach, share = height.sum(-1), np.add.reduceat(weights, first)
        low = (self.offset + scale * (np.minimum.reduceat(z, first) - reach)).min(0)
        high = (self.offset + scale * (np.maximum.reduceat(z, first) + reach)).max(0)
        middle = np.add.reduceat(weights * z, first) / np.maximum(share, 1e-300)
        y = (share * (self.offset + scale * unwarped(middle, height, steepness, centre))).sum(0)
        return low, high, np.clip(y, low, high)

    def moments(self, means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y (S, n) where z has these."""
        height, steepness, centre, scale = (each[self.member] for each in (self.height, self.steepness, self.centre, self.scale))
        nodes, weights = hermite()
        together = max(1, _AT_ONCE // (len(means) * len(nodes)))
        pieces = [slice(i, i + together) for i in range(0, max(means.shape[1], 1), together)]
        found = [
            unwarped_moments(means[:, piece], variances[:, piece], height, steepness, centre, nodes, weights) for piece in pieces
        ]
        first, spread = np.concatenate(found, -1)
        return self.offset + scale * first, scale**2 * spread

    def only(self, kept: np.ndarray) -> Warp:
        """Of some components."""
        return replace(self, member=self.member[kept])

    def repeated(self, times: int) -> Warp:
        """With every component so many times, one after the other."""
        return replace(self, member=np.repeat(self.member, times))


@cache
def hermite() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Hermite quadrature with the standard normal density."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    return nodes, weights / np.sqrt(2 * np.pi)


def unwarped_moments(
    m: np.ndarray,
    v: np.ndarray,
    height: np.ndarray,
    steepness: np.ndarray,
    centre: np.ndarray,
    nodes: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """E[t] and var[t] (2, ..., n) of t = g⁻¹(z), z ~ N(m, v): Gauss-Hermite quadrature around t(m). nodes, weights: of the standard normal density."""
    column = (-1, *[1] * m.ndim)
    t = unwarped(m + np.sqrt(v) * nodes.reshape(column), height, steepness, centre)
    middle = unwarped(m, height, steepness, centre)
    away = t - middle
    w = weights.reshape(column)
    first, second = (w * away).sum(0), (w * away**2).sum(0)
    return np.stack([middle + first, np.maximum(second - first**2, 0.0)])


def warped(t: np.ndarray, height: np.ndarray, steepness: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """z = g(t) and g'(t)."""
    z, slope = t, np.ones_like(t)
    for i in range(height.shape[-1]):
        a, b, c = height[..., i], steepness[..., i], centre[..., i]
        bent = np.tanh(b * (t + c))
        z, slope = z + a * bent, slope + a * b * (1.0 - bent * bent)
    return z, slope


def unwarped(z: np.ndarray, height: np.ndarray, steepness: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """t with g(t) = z: Newton's steps within |g(t) − t| <= Σ a, which brackets the root."""
    reach = height.sum(-1)
    low, high = z - reach, z + reach
    z = z + np.zeros_like(low)
    return _roots(z, height, steepness, centre, z, low, high, high - low)


def _roots(
    z: np.ndarray,
    height: np.ndarray,
    steepness: np.ndarray,
    centre: np.ndarray,
    t: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    move: np.ndarray,
) -> np.ndarray:
    """t with g(t) = z between low and high, from t on. Most are there after a few steps: where few are left they go on alone."""
    for _ in range(_MOST_STEPS):
        value, slope = warped(t, height, steepness, centre)
        smallest = _SAME * (1.0 + np.abs(t))
        t, low, high, move = bracketed_step(t, value - z, slope, low, high, move, smallest)
        going = move > smallest
        left = np.count_nonzero(going)
        if left == 0:
            break
        if left < _FEW * t.size:
            own = (np.broadcast_to(each, (*t.shape, each.shape[-1]))[going] for each in (height, steepness, centre))
            found = t.copy()
            found[going] = _roots(z[going], *own, *(each[going] for each in (t, low, high, move)))
            return found
    return t


def bracketed_step(
    t: np.ndarray,
    off: np.ndarray,
    slope: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    move: np.ndarray,
    smallest: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """As of ``manifoldgp.warping``: the next places where increasing functions may be zero, their brackets low and high, and how far the places moved.

    Newton's step from t, where they have these values and slopes; the middle of the bracket where the step leaves it, or is neither shorter than half the last move nor below smallest.
    """
    low, high = np.where(off < 0, t, low), np.where(off < 0, high, t)
    step = t - off / slope
    good = (step >= low) & (step <= high) & (np.abs(step - t) <= np.maximum(0.5 * move, smallest))
    following = np.where(good, step, 0.5 * (low + high))
    return following, low, high, np.abs(following - t)
