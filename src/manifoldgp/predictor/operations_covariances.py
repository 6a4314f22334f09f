"""Covariances with the training rows, (..., n, N), and k(h, h) where it is not constant. Training features come transposed, (..., Q, N).

Squared distances are a primitive (differences are ``subtract``, inner products ``affine``). The kernels of this package have operations of their own,
which do several steps in one piece of memory: a prediction of one row costs calls rather than arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.predictor.backends import operation
from manifoldgp.predictor.operations_elementwise import arcsine, cosine, log1p
from manifoldgp.predictor.operations_rows import product
from manifoldgp.predictor.operations_rows import square_sum as _square_sum

if TYPE_CHECKING:
    from manifoldgp.predictor.onnx_graph import Graph

SMALL = 2**14
"""Differences of up to this many numbers are formed at once."""

MANY_ROWS = 16
"""Rows from which on two more columns of a product cost less than two more passes over its result."""

LARGEST_SINE = 1.0 - 1e-15

square_sum = _square_sum.numpy


def _distances(Z: np.ndarray, T: np.ndarray, norms: np.ndarray, expand: bool) -> np.ndarray:
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


def _negative_expansion(Z: np.ndarray, T: np.ndarray, norms: np.ndarray) -> np.ndarray:
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


@operation
def squared_distances(Z: np.ndarray, T: np.ndarray, norms: np.ndarray, expand: bool) -> np.ndarray:
    """|z_i − t_j|² (..., n, N) for Z (..., n, Q) and T (..., Q, N), with norms = |t_j|² (..., 1, N).

    expand: |z|² + |t|² − 2 z·t, where that is exact enough; otherwise from differences: all at once if they are few, or feature by feature.
    """
    return _distances(Z, T, norms, expand)


@squared_distances.backend("onnx")
def _distances_in_onnx(g: Graph, Z: str, T: str, norms: str, expand: bool) -> str:
    """From differences feature by feature, so that no (n, N, Q) tensor exists."""
    if expand:
        cross = g.node("MatMul", g.node("Mul", Z, g.constant(-2.0)), T)
        total = g.node("Add", g.node("Add", cross, norms), g.square_sum(Z, keep=True))
        return g.node("Max", total, g.constant(0.0))
    total = ""
    for q in range(g.initializers[T].shape[-2]):
        gap = g.node("Sub", g.columns(Z, q, q + 1), g.columns(T, q, q + 1, axis=-2))
        square = g.node("Mul", gap, gap)
        total = g.node("Add", total, square) if total else square
    return total


@operation
def squared_exponential(Z: np.ndarray, T: np.ndarray, norms: np.ndarray, expand: bool) -> np.ndarray:
    """exp(−s), s = |z − t|²."""
    if expand:  # −s right away, and no square root that would mind a rounded s below zero
        S = _negative_expansion(Z, T, norms)
        return np.exp(S, out=S)
    S = _distances(Z, T, norms, expand)
    np.negative(S, out=S)
    return np.exp(S, out=S)


@squared_exponential.backend("onnx")
def _(g: Graph, Z: str, T: str, norms: str, expand: bool) -> str:
    return g.node("Exp", g.node("Neg", _distances_in_onnx(g, Z, T, norms, expand)))


@operation
def matern12(Z: np.ndarray, T: np.ndarray, norms: np.ndarray, expand: bool) -> np.ndarray:
    """exp(−a), a = √s."""
    A = _distances(Z, T, norms, expand)
    np.sqrt(A, out=A)
    np.negative(A, out=A)
    return np.exp(A, out=A)


@matern12.backend("onnx")
def _(g: Graph, Z: str, T: str, norms: str, expand: bool) -> str:
    return g.node("Exp", g.node("Neg", g.node("Sqrt", _distances_in_onnx(g, Z, T, norms, expand))))


@operation
def matern32(Z: np.ndarray, T: np.ndarray, norms: np.ndarray, expand: bool) -> np.ndarray:
    """(1 + a) exp(−a)."""
    A = _distances(Z, T, norms, expand)
    np.sqrt(A, out=A)
    E = np.negative(A)
    np.exp(E, out=E)
    A += 1.0
    A *= E
    return A


@matern32.backend("onnx")
def _(g: Graph, Z: str, T: str, norms: str, expand: bool) -> str:
    a = g.node("Sqrt", _distances_in_onnx(g, Z, T, norms, expand))
    return g.node("Mul", g.node("Add", a, g.constant(1.0)), g.node("Exp", g.node("Neg", a)))


@operation
def matern52(Z: np.ndarray, T: np.ndarray, norms: np.ndarray, expand: bool) -> np.ndarray:
    """(1 + a + s/3) exp(−a)."""
    S = _distances(Z, T, norms, expand)
    A = np.sqrt(S)
    E = np.negative(A)
    np.exp(E, out=E)
    S *= 1.0 / 3.0
    S += A
    S += 1.0
    S *= E
    return S


@matern52.backend("onnx")
def _(g: Graph, Z: str, T: str, norms: str, expand: bool) -> str:
    s = _distances_in_onnx(g, Z, T, norms, expand)
    a = g.node("Sqrt", s)
    polynomial = g.node("Add", g.node("Add", g.node("Mul", s, g.constant(1.0 / 3.0)), a), g.constant(1.0))
    return g.node("Mul", polynomial, g.node("Exp", g.node("Neg", a)))


@operation
def rational_quadratic(Z: np.ndarray, T: np.ndarray, norms: np.ndarray, shape: np.ndarray, expand: bool) -> np.ndarray:
    """(1 + s)^(−shape); shape (..., 1, 1)."""
    S = _distances(Z, T, norms, expand)
    np.log1p(S, out=S)
    return np.exp(S * -shape)


@rational_quadratic.backend("onnx")
def _(g: Graph, Z: str, T: str, norms: str, shape: str, expand: bool) -> str:
    s = _distances_in_onnx(g, Z, T, norms, expand)
    return g.node("Exp", g.node("Mul", g.do(log1p, s), g.node("Neg", shape)))


@operation
def neural_network(A: np.ndarray, U: np.ndarray, u: np.ndarray, one_plus_bias: np.ndarray) -> np.ndarray:
    """arcsin((A U + u) / √(1 + bias + |a|²)) for A = h √weights (..., n, Q); U (..., Q, N) and u (..., 1, N): the training side."""
    S = product(A, U) + u
    S = S / np.sqrt(square_sum(A) + one_plus_bias)[..., None]
    return np.arcsin(np.clip(S, -LARGEST_SINE, LARGEST_SINE))


@neural_network.backend("onnx")
def _(g: Graph, A: str, U: str, u: str, one_plus_bias: str) -> str:
    size = g.node("Sqrt", g.node("Add", g.square_sum(A), one_plus_bias))
    sine = g.node("Div", g.node("Add", g.node("MatMul", A, U), u), g.node("Unsqueeze", size, g.axes(-1)))
    return g.do(arcsine, g.node("Clip", sine, g.constant(-LARGEST_SINE), g.constant(LARGEST_SINE)))


@operation
def neural_network_diagonal(A: np.ndarray, one_plus_bias: np.ndarray) -> np.ndarray:
    """arcsin(p / (1 + p)) (..., n), p = bias + |a|²."""
    q = square_sum(A) + one_plus_bias
    return np.arcsin(np.minimum((q - 1.0) / q, LARGEST_SINE))


@neural_network_diagonal.backend("onnx")
def _(g: Graph, A: str, one_plus_bias: str) -> str:
    q = g.node("Add", g.square_sum(A), one_plus_bias)
    sine = g.node("Div", g.node("Sub", q, g.constant(1.0)), q)
    return g.do(arcsine, g.node("Min", sine, g.constant(LARGEST_SINE)))


@operation
def spectral_mixture(
    H: np.ndarray, width: np.ndarray, speed: np.ndarray, T: np.ndarray, norms: np.ndarray,
    cosines: np.ndarray, sines: np.ndarray, weights: np.ndarray, expand: bool,
) -> np.ndarray:  # fmt: skip
    """Σ_m weights_m exp(−|width_m (h − h')|²) Π_q cos(speed_mq (h_q − h'_q)).

    width, speed (..., M, 1, Q); T (..., M, Q, N) and norms (..., M, 1, N) of the scaled training rows, cosines and sines
    (..., M, Q, N) of their phases; weights (..., M, 1, 1).
    """
    G = H[..., None, :, :]
    K = squared_exponential.numpy(G * width, T, norms, expand)
    P = G * speed
    C, S = np.cos(P), np.sin(P)
    for q in range(P.shape[-1]):
        K *= C[..., q, None] * cosines[..., None, q, :] + S[..., q, None] * sines[..., None, q, :]
    K *= weights
    return np.add.reduce(K, -3)


@spectral_mixture.backend("onnx")
def _(g: Graph, H: str, width: str, speed: str, T: str, norms: str, cosines: str, sines: str, weights: str, expand: bool) -> str:
    G = g.node("Unsqueeze", H, g.axes(-3))
    K = g.do(squared_exponential, g.node("Mul", G, width), T, norms, expand=expand)
    phase = g.node("Mul", G, speed)
    C, S = g.do(cosine, phase), g.node("Sin", phase)
    for q in range(g.initializers[T].shape[-2]):
        both = [
            g.node("Mul", g.columns(new, q, q + 1), g.columns(old, q, q + 1, axis=-2)) for new, old in ((C, cosines), (S, sines))
        ]
        K = g.node("Mul", K, g.node("Add", *both))
    return g.sum_over(g.node("Mul", K, weights), -3)
