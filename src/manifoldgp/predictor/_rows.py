"""Operations on features, row by row: affine maps, transfer functions, and the warping of inputs. Rows (..., n, Q)."""

from __future__ import annotations

from typing import Any

import numpy as np

_LARGEST_EXPONENT = 709.0  # exp of more is infinite
_SOFTPLUS_LINEAR = 20.0  # beyond, PyTorch's softplus is the identity


def product(A: Any, B: Any) -> np.ndarray:
    """A B over any batch. For plain matrices ``dot``, which takes half the time of ``@`` when they are small."""
    return A.dot(B) if A.ndim == 2 and B.ndim <= 2 else A @ B


def affine(A: Any, W: Any, *more: Any) -> np.ndarray:
    """Σ_i A_i W_i (+ b), from A_1, W_1, A_2, W_2, ..., b; W_i (..., P_i, Q), b (..., 1, Q)."""
    H = product(A, W)
    for i in range(0, len(more) - 1, 2):
        H = H + product(more[i], more[i + 1])
    return H + more[-1] if len(more) % 2 else H


def scale_shift(A: Any, d: Any, e: Any) -> np.ndarray:
    """A d + e, column by column."""
    H = A * d
    return H + e


def sigmoid(A: Any) -> np.ndarray:
    """1 / (1 + exp(−a)), exact in both tails."""
    T = np.negative(A)
    np.minimum(T, _LARGEST_EXPONENT, out=T)
    np.exp(T, out=T)
    T += 1.0
    return np.reciprocal(T, out=T)


def relu(A: Any) -> np.ndarray:
    return np.maximum(A, 0.0)


def softplus(A: Any) -> np.ndarray:
    """log(1 + exp(a)), and a itself from 20 on, as in PyTorch."""
    return np.where(A > _SOFTPLUS_LINEAR, A, np.log1p(np.exp(np.minimum(A, _SOFTPLUS_LINEAR))))


def silu(A: Any) -> np.ndarray:
    """a sigmoid(a)."""
    return A * sigmoid(A)


def leaky_relu(A: Any, slope: float) -> np.ndarray:
    return np.where(A > 0.0, A, slope * A)


def elu(A: Any, alpha: float) -> np.ndarray:
    return np.where(A > 0.0, A, alpha * np.expm1(np.minimum(A, 0.0)))


def kumaraswamy(U: Any, a: Any, b: Any, end: float) -> np.ndarray:
    """w(u) = 1 − (1 − uᵃ)ᵇ for u between end and 1 − end, and along its tangents outside."""
    inside = np.clip(U, end, 1.0 - end)
    log_u = np.log(inside)
    log_rest = np.log(-np.expm1(a * log_u))
    slope = a * b * np.exp((a - 1.0) * log_u + (b - 1.0) * log_rest)
    return -np.expm1(b * log_rest) + slope * (U - inside)


def circle(A: Any) -> np.ndarray:
    """[cos a, sin a] (..., n, 2 Q) of phases a."""
    return np.concatenate([np.cos(A), np.sin(A)], -1)


def square_sum(A: Any) -> np.ndarray:
    """Σ_q a_q² (..., n)."""
    if A.size == A.shape[-1]:  # a single row: a third of the time
        a = A.ravel()
        return a.dot(a).reshape(A.shape[:-1])
    return np.einsum("...q,...q->...", A, A)
