"""Members that count more where they are surer, on held-out rows: what their mixtures say, and how much of a stack held-out rows give to it.

A member counts in proportion to v^(−β), v being its variance at a row (:mod:`manifoldgp.inference.certainty`), inside its group and between groups. A mixture with weights that are the
same everywhere forgives a member that knows nothing of a row, if another one does: the row is likely enough. Its mean forgives nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

LEAST_VARIANCE, MOST_VARIANCE = 1e-300, 1e300
"""Variances whose logarithms are numbers; a member whose covariance has no factor knows nothing, which is the most."""


@dataclass(frozen=True)
class Followed:
    """The mixture of a group's members, each weighed by how sure it is: log densities and CDFs (F, ..., n), and log Σ_r w_r v_r^(−β) (..., n), what the group as a whole counts at a row."""

    log_density: np.ndarray
    cdf: np.ndarray
    counts: np.ndarray

    @staticmethod
    def of(log_density: np.ndarray, cdf: np.ndarray, variance: np.ndarray, inner: np.ndarray, exponent: float) -> Followed:
        """From what members say, log densities and CDFs (F, ..., R, n) and variances (..., R, n); inner: their weights (..., R)."""
        w, counts = followed_weights(variance, inner, exponent)
        return Followed(np.asarray(logsumexp(log_density, axis=-2, b=w)), (w * cdf).sum(-2), counts)


def followed_weights(variance: np.ndarray, inner: np.ndarray, exponent: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights (..., R, n) of members with these variances (..., R, n) and weights (..., R) that are proportional to v^(−exponent), and log Σ_r w_r v_r^(−exponent) (..., n)."""
    if not exponent:
        return np.broadcast_to(inner[..., None], variance.shape), np.zeros((*variance.shape[:-2], variance.shape[-1]))
    known = np.clip(np.nan_to_num(variance, nan=MOST_VARIANCE), LEAST_VARIANCE, MOST_VARIANCE)
    weights = np.log(np.maximum(inner, 1e-300))[..., None] - exponent * np.log(known)
    counts = np.asarray(logsumexp(weights, axis=-2))
    return np.exp(weights - counts[..., None, :]), counts
