"""From covariances to moments: means and variances of members, of warped targets, and of their mixture."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldgp.predictor._rows import product

BISECTIONS, NEWTON_STEPS = 40, 2


def weighted(K: Any, a: Any) -> np.ndarray:
    """Σ_j K_ij a_j: (n,) for a (N,), (R, n) for a (R, N, 1)."""
    return product(K, a) if a.ndim == 1 else (K @ a)[..., 0]


def explained(K: Any, *blocks: Any) -> np.ndarray:
    """|L⁻¹ k|² (..., n), the variance that the data explain.

    L⁻¹ comes as blocks of its rows, transposed, without the zeros beyond the diagonal: (..., columns, rows).
    """
    if len(K) == 1 and K.ndim == blocks[0].ndim == 2:
        return np.array([_explained_row(K[0], blocks)])
    N = K.shape[-1]
    batch = blocks[0].shape[:-2] or K.shape[:-2]
    V = np.empty((*batch, K.shape[-2], N))
    first = 0
    for block in blocks:
        columns, rows = block.shape[-2:]
        np.matmul(K[..., :columns], block, out=V[..., first : first + rows])
        first += rows
    return np.einsum("...j,...j->...", V, V)


def _explained_row(k: Any, blocks: Any) -> float:
    """The same for one row of one member, where calls cost more than arithmetic."""
    total = 0.0
    for block in blocks:
        v = k[: len(block)].dot(block)
        total += v.dot(v)
    return total


def variance(e: Any, prior: Any, noise: Any) -> np.ndarray:
    """max(prior − explained, 0) + noise."""
    v = prior - e
    np.maximum(v, 0.0, out=v)
    v += noise
    return v


def members(*parts: Any, lift: Any) -> np.ndarray:
    """All members' values (S, n) from (n,) where ``lift`` says so, else (R, n)."""
    return np.concatenate([part[None] if alone else part for part, alone in zip(parts, lift, strict=True)])


def mix(M: Any, W: Any) -> np.ndarray:
    """W M: the means (n,) or (O, n) of the mixtures with weights W (S,) or (O, S)."""
    return W @ M


def mixture_std(M: Any, V: Any, mean: Any, W: Any, G: Any, owner: Any = None) -> np.ndarray:
    """√(Σ_s G_s v_s + W_s (m_s − mean)²); G: weights times variance factors. owner (S,): the target of each member."""
    D = M - (mean if owner is None else mean[owner])
    D *= D
    return np.sqrt(G @ V + W @ D)


def warped_moments(m: Any, v: Any, height: Any, steepness: Any, centre: Any, nodes: Any, weights: Any) -> np.ndarray:
    """E[t] and var[t] (2, ..., n) of t = g⁻¹(z), z ~ N(m, v): Gauss-Hermite quadrature around t(m).

    g(t) = t + Σ_i height_i tanh(steepness_i (t + centre_i)), each (..., 1, T). nodes, weights: of the standard normal density.
    """
    column = (-1, *[1] * m.ndim)
    t = _unwarp(m + np.sqrt(v) * nodes.reshape(column), height, steepness, centre)
    middle = _unwarp(m, height, steepness, centre)
    away = t - middle
    w = weights.reshape(column)
    first, second = (w * away).sum(0), (w * away**2).sum(0)
    return np.stack([middle + first, np.maximum(second - first**2, 0.0)])


def _unwarp(z: Any, a: Any, b: Any, c: Any) -> np.ndarray:
    """t with g(t) = z: bisection, then Newton."""
    reach = a.sum(-1)
    low, high = z - reach, z + reach
    for _ in range(BISECTIONS):
        t = 0.5 * (low + high)
        above = t + (a * np.tanh(b * (t[..., None] + c))).sum(-1) > z
        low, high = np.where(above, low, t), np.where(above, t, high)
    t = 0.5 * (low + high)
    for _ in range(NEWTON_STEPS):
        T = np.tanh(b * (t[..., None] + c))
        t = t - (t + (a * T).sum(-1) - z) / (1.0 + (a * b * (1.0 - T * T)).sum(-1))
    return t
