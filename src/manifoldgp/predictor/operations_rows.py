"""Operations on features, row by row (..., n, Q): affine maps, the warping of inputs, the circle, norms; and on the shapes of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.predictor.backends import operation
from manifoldgp.predictor.operations_elementwise import cosine, expm1

if TYPE_CHECKING:
    from manifoldgp.predictor.onnx_graph import Graph


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B over any batch. For plain matrices ``dot``, which takes half the time of ``@`` when they are small."""
    return A.dot(B) if A.ndim == 2 and B.ndim <= 2 else A @ B


@operation
def affine(A: np.ndarray, W: np.ndarray, *more: np.ndarray) -> np.ndarray:
    """Σ_i A_i W_i (+ b), from A_1, W_1, A_2, W_2, ..., b; W_i (..., P_i, Q), b (..., 1, Q)."""
    H = product(A, W)
    for i in range(0, len(more) - 1, 2):
        H = H + product(more[i], more[i + 1])
    return H + more[-1] if len(more) % 2 else H


@affine.backend("onnx")
def _(g: Graph, *arguments: str) -> str:
    pairs = range(0, len(arguments) - 1, 2)
    parts = [g.node("MatMul", arguments[i], arguments[i + 1]) for i in pairs] + list(arguments[2 * len(pairs) :])
    total = parts[0]
    for part in parts[1:]:
        total = g.node("Add", total, part)
    return total


@operation
def kumaraswamy(U: np.ndarray, a: np.ndarray, b: np.ndarray, end: float) -> np.ndarray:
    """w(u) = 1 − (1 − uᵃ)ᵇ for u between end and 1 − end, and along its tangents outside."""
    inside = np.clip(U, end, 1.0 - end)
    log_u = np.log(inside)
    log_rest = np.log(-np.expm1(a * log_u))
    slope = a * b * np.exp((a - 1.0) * log_u + (b - 1.0) * log_rest)
    return -np.expm1(b * log_rest) + slope * (U - inside)


@kumaraswamy.backend("onnx")
def _(g: Graph, U: str, a: str, b: str, end: float) -> str:
    one = g.constant(1.0)
    inside = g.node("Clip", U, g.constant(end), g.constant(1.0 - end))
    log_u = g.node("Log", inside)
    log_rest = g.node("Log", g.node("Neg", g.do(expm1, g.node("Mul", a, log_u))))
    exponents = [g.node("Mul", g.node("Sub", power, one), log) for power, log in ((a, log_u), (b, log_rest))]
    slope = g.node("Mul", g.node("Mul", a, b), g.node("Exp", g.node("Add", *exponents)))
    w = g.node("Neg", g.do(expm1, g.node("Mul", b, log_rest)))
    return g.node("Add", w, g.node("Mul", slope, g.node("Sub", U, inside)))


@operation
def circle(A: np.ndarray) -> np.ndarray:
    """[cos a, sin a] (..., n, 2 Q) of phases a."""
    return np.concatenate([np.cos(A), np.sin(A)], -1)


@circle.backend("onnx")
def _(g: Graph, A: str) -> str:
    return g.node("Concat", g.do(cosine, A), g.node("Sin", A), axis=-1)


@operation
def square_sum(A: np.ndarray) -> np.ndarray:
    """Σ_q a_q² (..., n)."""
    if A.size == A.shape[-1]:  # a single row: a third of the time
        a = A.ravel()
        return a.dot(a).reshape(A.shape[:-1])
    return np.einsum("...q,...q->...", A, A)


@square_sum.backend("onnx")
def _(g: Graph, A: str) -> str:
    return g.square_sum(A)


@operation
def constant_rows(X: np.ndarray, c: np.ndarray) -> np.ndarray:
    """c (..., 1, Q) for every row of X (n, D)."""
    return c + np.zeros((len(X), 1))


@constant_rows.backend("onnx")
def _(g: Graph, X: str, c: str) -> str:
    return g.node("Add", c, g.sum_over(g.node("Mul", X, g.constant(0.0)), -1, keep=True))


@operation
def pick(A: np.ndarray, index: int) -> np.ndarray:
    """A[index]."""
    return A[index]


@pick.backend("onnx")
def _(g: Graph, A: str, index: int) -> str:
    return g.node("Squeeze", g.columns(A, index, index + 1, axis=0), g.axes(0))


@operation
def transpose(A: np.ndarray) -> np.ndarray:
    """(n, O) of (O, n)."""
    return A.T


@transpose.backend("onnx")
def _(g: Graph, A: str) -> str:
    return g.node("Transpose", A, perm=[1, 0])


@operation
def column(A: np.ndarray) -> np.ndarray:
    """(..., n, 1) of (..., n)."""
    return A[..., None]


@column.backend("onnx")
def _(g: Graph, A: str) -> str:
    return g.node("Unsqueeze", A, g.axes(-1))
