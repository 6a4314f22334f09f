"""Weights of members: stacking of predictive densities, and tempered evidence."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, ndtr


def stacking_weights(log_density: np.ndarray, prior_counts: np.ndarray | float = 0.0, iterations: int = 500) -> np.ndarray:
    """Weights w (S,) that maximise Σ_i log Σ_s w_s p_s(y_i) + Σ_s a_s log w_s, by EM (Yao et al. 2018, with a Dirichlet(1 + a) prior).

    log_density: (S, n), of held-out rows under each of S candidates. prior_counts: a (S,), pseudo-rows that each candidate is sure of.

    >>> stacking_weights(np.log([[0.9, 0.9], [0.1, 0.1]])).round(3)
    array([1., 0.])
    """
    S, n = log_density.shape
    counts = np.broadcast_to(np.asarray(prior_counts, dtype=float), (S,))
    density = np.exp(np.maximum(log_density - log_density.max(0), -500.0))  # of the likeliest candidate's; 1e-217 at least
    weights = np.full(S, 1.0 / S)
    for _ in range(iterations):
        responsible = weights * (density @ (1.0 / (weights @ density)))  # rows that each candidate answers for
        updated = (responsible + counts) / (n + counts.sum())
        moved = np.abs(updated - weights).max()
        weights = updated
        if moved < 1e-7:
            break
    return weights


def tempered_weights(objective: np.ndarray, temperature: float = 10.0) -> np.ndarray:
    """w_r ∝ exp(−(objective_r − min) / temperature) (R,); starts that are not finite get zero, unless none is finite.

    >>> tempered_weights(np.array([0.0, 10.0, np.inf])).round(3)
    array([0.731, 0.269, 0.   ])
    """
    finite = np.isfinite(objective)
    if not finite.any():
        return np.full(len(objective), 1.0 / len(objective))
    raw = np.where(finite, np.exp(-(np.where(finite, objective, np.inf) - objective[finite].min()) / temperature), 0.0)
    return raw / raw.sum()


def doubt(gain: np.ndarray) -> float:
    """How well gains (n,) of held-out log densities agree with no gain at all: min(1, 2 Φ(−mean / standard error)).

    One where there is none or a loss; near zero where the gain is many standard errors large.

    >>> doubt(np.zeros(10)), doubt(np.array([1.0, 1.1, 0.9, 1.0])) < 1e-6
    (1.0, True)
    """
    error = gain.std() / np.sqrt(len(gain))
    if error == 0.0:
        return 0.0 if gain.mean() > 0 else 1.0
    return float(min(1.0, 2.0 * ndtr(-gain.mean() / error)))


def log_mixture(log_density: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """log Σ_s w_s p_s (n,) for log p (S, n)."""
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(np.log(weights)[:, None] + log_density, axis=0))
