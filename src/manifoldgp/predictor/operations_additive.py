"""Covariances of additive kernels: w_0 + Σ_r w_r e_r(z_1, …, z_Q), with one covariance z_q of every feature and e_r the sum of all products of r of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.predictor.backends import OPERATIONS, operation
from manifoldgp.predictor.operations_covariances import squared_exponential

if TYPE_CHECKING:
    from manifoldgp.predictor.onnx_graph import Graph

DEFAULT = squared_exponential.name
"""The operation that makes one-dimensional covariances if no other is named."""


@operation
def additive(Z: np.ndarray, T: np.ndarray, weights: np.ndarray, *means: np.ndarray, base: str = DEFAULT) -> np.ndarray:
    """K (..., n, N) for Z (..., n, Q), T (..., Q, N) and weights (..., orders + 1), from order 0 on.

    means: a (..., n, Q) of the new rows and a' (..., Q, N) of the training rows, of which z_q loses a_q a'_q. base: the operation that makes z_q of distances.
    """
    polynomials = _Polynomials(weights)
    for q in range(T.shape[-2]):
        z = OPERATIONS[base].numpy(Z[..., q : q + 1], T[..., q : q + 1, :], _UNUSED, False)
        if means:
            z = z - means[0][..., q : q + 1] * means[1][..., q : q + 1, :]
        polynomials.take(z)
    return polynomials.total(axes=2)


@additive.backend("onnx")
def _(g: Graph, Z: str, T: str, weights: str, *means: str, base: str = DEFAULT) -> str:
    columns, w = g.initializers[T], g.initializers[weights]
    found = []
    for q in range(columns.shape[-2]):
        column = g.constant(columns[..., q : q + 1, :])
        z = g.do(OPERATIONS[base], g.columns(Z, q, q + 1), column, column, expand=False)
        if means:
            overlap = g.node("Mul", g.columns(means[0], q, q + 1), g.constant(g.initializers[means[1]][..., q : q + 1, :]))
            z = g.node("Sub", z, overlap)
        found.append(z)
    # One weight for each training row: onnxruntime moves the product with a single number into the next one of matrices, where it has seven digits.
    rows = np.ones((1, columns.shape[-1]))
    return _total_in_onnx(g, found, [g.constant(w[..., r, None, None] * rows) for r in range(w.shape[-1])])


@operation
def gaussian_bumps(A: np.ndarray, height: np.ndarray) -> np.ndarray:
    """height exp(−a²)."""
    S = A * A
    np.negative(S, out=S)
    return height * np.exp(S, out=S)


@gaussian_bumps.backend("onnx")
def _(g: Graph, A: str, height: str) -> str:
    return g.node("Mul", height, g.node("Exp", g.node("Neg", g.node("Mul", A, A))))


@operation
def additive_diagonal(means: np.ndarray, weights: np.ndarray, features: int) -> np.ndarray:
    """The same sum (..., n) of z_q = 1 − a_q², for means a (..., n, Q) and weights (..., orders + 1); features: Q."""
    polynomials = _Polynomials(weights)
    for q in range(features):
        polynomials.take(1.0 - means[..., q] ** 2)
    return polynomials.total(axes=1)


@additive_diagonal.backend("onnx")
def _(g: Graph, means: str, weights: str, features: int) -> str:
    w, rest = g.initializers[weights], g.node("Sub", g.constant(1.0), g.node("Mul", means, means))
    found = [g.node("Squeeze", g.columns(rest, q, q + 1), g.axes(-1)) for q in range(features)]
    return _total_in_onnx(g, found, [g.constant(w[..., r, None]) for r in range(w.shape[-1])])


class _Polynomials:
    """The elementary symmetric polynomials of the numbers taken so far, up to the order that there are weights for."""

    def __init__(self, weights: np.ndarray) -> None:
        self._weights = weights
        self._found: list[np.ndarray] = []

    def take(self, z: np.ndarray) -> None:
        """One more number: e_r becomes e_r + z e_(r−1)."""
        e, orders = self._found, self._weights.shape[-1] - 1
        if e and len(e) < orders:
            e.append(z * e[-1])
            known = len(e) - 1
        else:
            known = len(e)
        for r in range(known - 1, 0, -1):
            e[r] += z * e[r - 1]
        if e:
            e[0] += z
        else:
            e.append(z)

    def total(self, axes: int) -> np.ndarray:
        """w_0 + Σ_r w_r e_r; axes: the dimensions after those of the members."""
        w = self._weights.reshape(*self._weights.shape, *[1] * axes)
        weight = [w.take(r, -1 - axes) for r in range(self._weights.shape[-1])]
        K = self._found[0] * weight[1]
        for r in range(1, len(self._found)):
            K += self._found[r] * weight[r + 1]
        return K + weight[0]


def _total_in_onnx(g: Graph, z: list[str], weights: list[str]) -> str:
    e = [z[0]]
    for z_q in z[1:]:
        longer = [g.node("Mul", z_q, e[-1])] if len(e) < len(weights) - 1 else []
        raised = [g.node("Add", e[r], g.node("Mul", z_q, e[r - 1])) for r in range(1, len(e))]
        e = [g.node("Add", e[0], z_q), *raised, *longer]
    total = weights[0]
    for w_r, e_r in zip(weights[1:], e, strict=True):
        total = g.node("Add", total, g.node("Mul", w_r, e_r))
    return total


_UNUSED = np.zeros(1)
