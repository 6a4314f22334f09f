"""Covariances with the training rows: (..., n, N), and k(h, h) where it is not constant. Training features come transposed, (..., Q, N)."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldgp.predictor._rows import product, square_sum

SMALL = 2**14
"""Differences of up to this many numbers are formed at once."""

MANY_ROWS = 16
"""Rows from which on two more columns of a product cost less than two more passes over its result."""

LARGEST_SINE = 1.0 - 1e-15


def squared_distances(Z: Any, T: Any, norms: Any, expand: bool) -> np.ndarray:
    """|z_i − t_j|² (..., n, N) for Z (..., n, Q) and T (..., Q, N), with norms = |t_j|² (..., 1, N).

    expand: |z|² + |t|² − 2 z·t, where that is exact enough; otherwise from differences: all at once if they are few, or feature by feature.
    """
    if expand:
        S = _negative_expansion(Z, T, norms)
        np.negative(S, out=S)
        return np.maximum(S, 0.0, out=S)
    if Z.shape[-2] * T.size <= SMALL:
        G = T[..., None, :, :] - Z[..., None]
        G *= G
        return np.add.reduce(G, -2)
    S = Z[..., 0, None] - T[..., None, 0, :]
    S *= S
    for q in range(1, T.shape[-2]):
        gap = Z[..., q, None] - T[..., None, q, :]
        gap *= gap
        S += gap
    return S


def _negative_expansion(Z: Any, T: Any, norms: Any) -> np.ndarray:
    """2 z·t − |t|² − |z|² (..., n, N); for many rows as one product [z, 1, |z|²] [2t, −|t|², −1]ᵀ, so that the matrix is written once."""
    if Z.shape[-2] < MANY_ROWS:
        S = product(Z + Z, T)
        S -= norms
        S -= square_sum(Z)[..., None]
        return S
    squares = square_sum(Z)[..., None]
    left = np.concatenate([Z, np.ones_like(squares), squares], -1)
    below = np.broadcast_to(norms, (*T.shape[:-2], 1, T.shape[-1]))
    return product(left, np.concatenate([T + T, -below, np.full_like(below, -1.0)], -2))


def squared_exponential(Z: Any, T: Any, norms: Any, expand: bool) -> np.ndarray:
    """exp(−s), s = |z − t|²."""
    if expand:  # −s right away, and no square root that would mind a rounded s below zero
        S = _negative_expansion(Z, T, norms)
        return np.exp(S, out=S)
    S = squared_distances(Z, T, norms, expand)
    np.negative(S, out=S)
    return np.exp(S, out=S)


def matern12(Z: Any, T: Any, norms: Any, expand: bool) -> np.ndarray:
    """exp(−a), a = √s."""
    A = squared_distances(Z, T, norms, expand)
    np.sqrt(A, out=A)
    np.negative(A, out=A)
    return np.exp(A, out=A)


def matern32(Z: Any, T: Any, norms: Any, expand: bool) -> np.ndarray:
    """(1 + a) exp(−a)."""
    A = squared_distances(Z, T, norms, expand)
    np.sqrt(A, out=A)
    E = np.negative(A)
    np.exp(E, out=E)
    A += 1.0
    A *= E
    return A


def matern52(Z: Any, T: Any, norms: Any, expand: bool) -> np.ndarray:
    """(1 + a + s/3) exp(−a)."""
    S = squared_distances(Z, T, norms, expand)
    A = np.sqrt(S)
    E = np.negative(A)
    np.exp(E, out=E)
    S *= 1.0 / 3.0
    S += A
    S += 1.0
    S *= E
    return S


def rational_quadratic(Z: Any, T: Any, norms: Any, shape: Any, expand: bool) -> np.ndarray:
    """(1 + s)^(−shape); shape (..., 1, 1)."""
    S = squared_distances(Z, T, norms, expand)
    np.log1p(S, out=S)
    return np.exp(S * -shape)


def neural_network(A: Any, U: Any, u: Any, one_plus_bias: Any) -> np.ndarray:
    """arcsin((A U + u) / √(1 + bias + |a|²)) for A = h √weights (..., n, Q); U (..., Q, N) and u (..., 1, N): the training side."""
    S = product(A, U) + u
    S = S / np.sqrt(square_sum(A) + one_plus_bias)[..., None]
    return np.arcsin(np.clip(S, -LARGEST_SINE, LARGEST_SINE))


def neural_network_diagonal(A: Any, one_plus_bias: Any) -> np.ndarray:
    """arcsin(p / (1 + p)) (..., n), p = bias + |a|²."""
    q = square_sum(A) + one_plus_bias
    return np.arcsin(np.minimum((q - 1.0) / q, LARGEST_SINE))


def spectral_mixture(H: Any, width: Any, speed: Any, T: Any, norms: Any, cosines: Any, sines: Any, weights: Any, expand: bool):
    """Σ_m weights_m exp(−|width_m (h − h')|²) Π_q cos(speed_mq (h_q − h'_q)).

    width, speed (..., M, 1, Q); T (..., M, Q, N) and norms (..., M, 1, N) of the scaled training rows, cosines and sines
    (..., M, Q, N) of their phases; weights (..., M, 1, 1).
    """
    G = H[..., None, :, :]
    K = squared_exponential(G * width, T, norms, expand)
    P = G * speed
    C, S = np.cos(P), np.sin(P)
    for q in range(P.shape[-1]):
        K *= C[..., q, None] * cosines[..., None, q, :] + S[..., q, None] * sines[..., None, q, :]
    K *= weights
    return np.add.reduce(K, -3)


def constant_covariance(X: Any, c: Any) -> np.ndarray:
    """c (..., 1, N) for every row of X (n, D)."""
    return c + np.zeros((len(X), 1))
