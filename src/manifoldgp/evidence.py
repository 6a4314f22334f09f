"""The evidence: NLML from K, noise and residual, with the closed-form dNLML/dK; leave-one-out predictions from the same factor.

The first factor of the paper's chain rule. With A = K + diag(noise) = L Lᵀ and alpha = A⁻¹ r:

    NLML      = ½ rᵀ alpha + Σ log L_ii + (N/2) log 2π                                  (eq. 7, constant included)
    dNLML/dK  = ½ (A⁻¹ − alpha alphaᵀ)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.linalg import factor_solve_invert

_LOG_2PI = math.log(2 * math.pi)


def nlml(K: Tensor, noise: Tensor, residual: Tensor, mask: Tensor | None = None) -> Tensor:
    """Negative log marginal likelihood (*B,), total, constant included; +inf where K + noise has no Cholesky factor.

    K: (*B, N, N) symmetric. noise: variances (*B,), or (*B, N) for one a row. residual: y − m (*B, N).
    mask: (*B, N) of ones and zeros; rows with zero do not take part (they become independent of everything, exactly).

    >>> K = torch.eye(2, dtype=torch.float64)
    >>> round(float(nlml(K, torch.tensor(1.0), torch.zeros(2, dtype=torch.float64))), 6)  # ½·2·log 2 + log 2π
    2.531024
    """
    batch, N = K.shape[:-2], K.shape[-1]
    if residual.shape[:-1] != batch:
        batch = np.broadcast_shapes(batch, residual.shape[:-1])
        K, residual = K.expand(*batch, N, N), residual.expand(*batch, N)
    noise = noise.expand(batch).unsqueeze(-1) if noise.ndim <= len(batch) else noise.expand(*batch, N)
    mask = None if mask is None else mask.expand(*batch, N)
    if len(batch) != 1:
        K, noise, residual = K.reshape(-1, N, N), noise.reshape(-1, noise.shape[-1]), residual.reshape(-1, N)
        mask = None if mask is None else mask.reshape(-1, N)
    value = _NLML.apply(K, noise, residual, mask)
    return value if len(batch) == 1 else value.reshape(batch)


class _NLML(torch.autograd.Function):
    """NLML of a flat batch: K (B, N, N), noise (B, 1) or (B, N), residual (B, N), mask (B, N) or None."""

    @staticmethod
    def forward(ctx, K: Tensor, noise: Tensor, residual: Tensor, mask: Tensor | None) -> Tensor:
        A = K.detach().clone(memory_format=torch.contiguous_format)
        r = residual.detach()
        A.diagonal(dim1=-2, dim2=-1).add_(noise.detach())
        if mask is not None:
            r = r * mask
            isolate_masked_rows(A, mask)
        wanted = any(ctx.needs_input_grad)
        half_log_det, alpha, failed = factor_solve_invert(A, r, invert=wanted)
        count = K.shape[-1] if mask is None else mask.sum(-1)
        value = 0.5 * torch.linalg.vecdot(r, alpha) + half_log_det + (0.5 * _LOG_2PI) * count
        value.masked_fill_(failed, torch.inf)
        if wanted:
            ctx.save_for_backward(K, noise, residual, mask)
            ctx.alpha, ctx.inverse = alpha, A
        return value

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        K, noise, residual, mask = ctx.saved_tensors
        alpha, W = ctx.alpha, ctx.inverse
        if torch.is_grad_enabled() or W is None:
            # A graph of the gradient is wanted (Hessian-vector products), or the inverse was used up by an earlier call.
            return (*_differentiable_gradient(K, noise, residual, mask, grad), None)
        ctx.inverse = None  # W is overwritten below
        # dNLML/dK = ½ (A⁻¹ − alpha alphaᵀ), kept as a lower triangle: K is symmetric, so each off-diagonal entry stands for two.
        W.baddbmm_(alpha[:, :, None], alpha[:, None, :], alpha=-1.0)
        W.tril_()
        diagonal = W.diagonal(dim1=-2, dim2=-1)
        diagonal.mul_(0.5)
        if mask is not None:
            W.mul_(mask[:, :, None]).mul_(mask[:, None, :])
        if not bool((grad == 1.0).all()):
            W.mul_(grad[:, None, None])
            alpha = alpha * grad[:, None]
        d_noise = diagonal.sum(-1, keepdim=True) if noise.shape[-1] == 1 else diagonal.clone()
        return W, d_noise, alpha, None


def isolate_masked_rows(A: Tensor, mask: Tensor) -> None:
    """Turn masked rows and columns of A into those of the identity, in place."""
    A.mul_(mask[:, :, None]).mul_(mask[:, None, :])
    A.diagonal(dim1=-2, dim2=-1).add_(1.0 - mask)


def _differentiable_gradient(K: Tensor, noise: Tensor, residual: Tensor, mask: Tensor | None, grad: Tensor):
    """The same gradient from differentiable operations."""
    A = K + torch.diag_embed(noise.expand(residual.shape))
    if mask is not None:
        residual = residual * mask
        A = A * mask[:, :, None] * mask[:, None, :] + torch.diag_embed(1.0 - mask)
    A = 0.5 * (A + A.mT)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(A))
    alpha = (inverse @ residual[..., None])[..., 0]
    W = 0.5 * grad[:, None, None] * (inverse - alpha[:, :, None] * alpha[:, None, :])
    if mask is not None:
        W = W * mask[:, :, None] * mask[:, None, :]
    diagonal = W.diagonal(dim1=-2, dim2=-1)
    d_noise = diagonal.sum(-1, keepdim=True) if noise.shape[-1] == 1 else diagonal
    return W, d_noise, grad[:, None] * alpha


class LeaveOneOut(NamedTuple):
    """Predictions of each y_i from all the others: mean, variance (of y) and log density, each (*B, N)."""

    mean: Tensor
    variance: Tensor
    log_density: Tensor


def leave_one_out(L: Tensor, alpha: Tensor, y: Tensor) -> LeaveOneOut:
    """Leave-one-out predictions from the factor L (*B, N, N) of K + noise, alpha (*B, N) and targets y (*B, N).

    mean_i = y_i − alpha_i / (A⁻¹)_ii,  variance_i = 1 / (A⁻¹)_ii      (Rasmussen and Williams, eq. 5.12)
    """
    precision = torch.cholesky_inverse(L).diagonal(dim1=-2, dim2=-1)
    error, variance = alpha / precision, 1.0 / precision
    return LeaveOneOut(y - error, variance, -0.5 * (error * error * precision + variance.log() + _LOG_2PI))
