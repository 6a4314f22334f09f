"""Radial functions of all pairs of rows, as one autograd function with a closed-form backward.

For scaled features T (N, Q), K_ij = k(|t_i - t_j|^2) with dk/dr^2 = -c g / 2 (see the profiles), and an incoming gradient W
that need not be symmetric:

    E  = W o g                                                          (N, N), elementwise
    dT = c sum_j (E + Eᵀ)_ij (t_j - t_i) = c [(E + Eᵀ) T - diag((E + Eᵀ) 1) T]

so no N x N x Q tensor exists. Large matrices are worked on block by block: temporaries stay in the processor's cache, and
nothing of size N x N is allocated but K and, for the Matern family, g. A column of ones beside T makes E T and E 1 one product;
it is taken as Tᵀ Eᵀ, which is up to three times faster than E T for a wide E and a thin T.

Small matrices cost less than the calls that build them, so the calls are few: hence the checks of ndim below.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.kernels._profiles import SQUARED_DISTANCE, Profile
from manifoldgp.kernels.kernel import resolved
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.rows import Rows

BLOCK = 2**18
"""Entries worked on at a time."""

NEAR, FAR = 1e2, 1e4
"""Squared norms |t|^2 up to which |t|^2 + |t'|^2 - 2 t.t' is exact enough as it is, and after centring (about 2e-16 |t|^2)."""


def radial(T1: Tensor, T2: Tensor | None, variance: Tensor | None, profile: Profile) -> Tensor:
    """variance * k(|t1_i - t2_j|^2) `(*B, N1, N2)`, differentiable any number of times.

    T1: `(*B, N1, Q)`. T2: `(*B, N2, Q)`, or None for the rows of T1. variance: `(*B,)`, or None for 1. Their batches broadcast.
    """
    batch = T1.shape[:-2]
    if not ((T2 is None or T2.shape[:-2] == batch) and (variance is None or variance.shape == batch)):
        batch = np.broadcast_shapes(batch, () if T2 is None else T2.shape[:-2], () if variance is None else variance.shape)
        T1 = T1.expand(*batch, -1, -1)
        T2 = None if T2 is None else T2.expand(*batch, -1, -1)
        variance = None if variance is None else variance.expand(batch)
    if T1.numel() == 0 or (T2 is not None and T2.numel() == 0):
        return T1 @ (T1 if T2 is None else T2).mT
    if torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in (T1, T2, variance)):
        return _Radial.apply(T1, T2, variance, profile)  # type: ignore[return-value]
    return _evaluate(T1, T2, variance, profile, keep_slope=False)[0]


def squared_distances(H1: Tensor, H2: Tensor | None = None) -> Tensor:
    """|h1_i - h2_j|^2 `(*B, N1, N2)` for H1 `(*B, N1, Q)` and H2 `(*B, N2, Q)`, or the rows of H1; differentiable any number of times."""
    return radial(H1, H2, None, SQUARED_DISTANCE)


def radial_program(profile: Profile, values: Tree, H: np.ndarray, new: Rows, lengthscale: np.ndarray) -> Covariance:
    """variance * k(|h - h'|^2 / lengthscale^2) in a program; lengthscale (R, Q) or (R, 1)."""
    if profile.operation is None:
        raise InputError(
            "A predictor cannot express this kernel: its profile names no operation of programs. Write the kernel's _program(values, H, new)."
        )
    scale = math.sqrt(abs(profile.scale)) / resolved(lengthscale, H)
    K = new.scaled(scale).of_distances(profile.operation, H * scale[:, None, :], exact=profile.kinked)
    return Covariance.of(K, variance=values.get("variance"))


class _Radial(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, T1: Tensor, T2: Tensor | None, variance: Tensor | None, profile: Profile) -> Tensor:  # type: ignore[override]
        needs1, needs2, needs_variance, _ = ctx.needs_input_grad
        keep_slope = (needs1 or needs2) and profile.slope == "matrix"
        K, slope, A1, A2 = _evaluate(T1, T2, variance, profile, keep_slope)
        ctx.save_for_backward(T1, T2, variance, K if needs_variance or profile.slope == "k" else None, slope, A1, A2)
        ctx.profile = profile
        return K

    @staticmethod
    def backward(ctx: Any, W: Tensor):  # type: ignore[override]
        T1, T2, variance, K, slope, A1, A2 = ctx.saved_tensors
        needs1, needs2, needs_variance, _ = ctx.needs_input_grad
        profile: Profile = ctx.profile
        if torch.is_grad_enabled():  # create_graph=True: the gradient itself is going to be differentiated
            return *_differentiable_gradient(W, T1, T2, variance, K, profile, needs_variance), None
        shape = A1.shape[0], A1.shape[-2], A2.shape[-2]
        W = W if W.ndim == 3 else W.reshape(shape)
        dT1 = dT2 = dvariance = total = None
        if needs1 or needs2:
            g = K if profile.slope == "k" else slope
            P1, P2 = _pull(W, g if g is None or g.ndim == 3 else g.view(shape), A1.mT, A2.mT, needs1, needs2, same=T2 is None)
            if P1 is not None:
                dT1 = _gradient(P1, A1.mT, profile).view_as(T1)
                if profile.slope == "k":  # the sum of W o K is at hand: of E + Eᵀ, if the rows are the same
                    total = P1[:, -1].sum(-1)
                    total = total.mul_(0.5) if T2 is None else total
            if P2 is not None and T2 is not None:
                dT2 = _gradient(P2, A2.mT, profile).view_as(T2)
        if needs_variance:
            if total is None:
                total = torch.bmm(W.reshape(shape[0], 1, -1), K.view(shape[0], -1, 1))
            dvariance = total.view_as(variance).div_(variance)
        return dT1, dT2, dvariance, None


def _evaluate(T1: Tensor, T2: Tensor | None, variance: Tensor | None, profile: Profile, keep_slope: bool):
    """K `(*B, N1, N2)`, its slope g (R, N1, N2) if it is to be kept, and A1, A2 = [T 1] (R, N, Q+1) for the way back."""
    A1 = torch.constant_pad_nd(T1 if T1.ndim == 3 else T1.reshape(-1, *T1.shape[-2:]), (0, 1), 1.0)
    A2 = None if T2 is None else torch.constant_pad_nd(T2 if T2.ndim == 3 else T2.reshape(-1, *T2.shape[-2:]), (0, 1), 1.0)
    K = A1.new_empty(A1.shape[0], A1.shape[1], (A1 if A2 is None else A2).shape[1])
    half1 = half2 = None
    largest = math.inf
    if not profile.kinked:
        half1, half2, largest = _multiply(A1, A2, profile.scale, K)
    if largest > NEAR:  # only differences matter: around their centre, vectors are shorter and fewer digits are lost
        centre = A1.mean(-2, keepdim=True)
        centre[..., -1] = 0.0
        A1, A2 = A1 - centre, None if A2 is None else A2 - centre
        if not profile.kinked:
            half1, half2, largest = _multiply(A1, A2, profile.scale, K)
    A2 = A1 if A2 is None else A2
    if largest > FAR:
        half1 = half2 = None
    slope = torch.empty_like(K) if keep_slope else None
    factor = None if variance is None else variance.reshape(-1, 1, 1)
    if K.numel() <= BLOCK:
        _fill(profile, K, slope, A1, A2, half1, half2, factor)
    else:
        for r, i in _blocks(*K.shape):
            halves = (None, None) if half1 is None or half2 is None else (half1[r, i], half2[r])
            part = None if slope is None else slope[r, i]
            _fill(profile, K[r, i], part, A1[r, i], A2[r], *halves, None if factor is None else factor[r])
    return K if T1.ndim == 3 else K.view(*T1.shape[:-1], K.shape[-1]), slope, A1, A2


def _multiply(A1: Tensor, A2: Tensor | None, scale: float, K: Tensor) -> tuple[Tensor, Tensor, float]:
    """Overwrite K with -2 scale (t.t' + 1); return scale (|t|^2 + 1) of either side, (R, N1) and (R, N2), and the largest of them
    without the scale.

    The three add up to scale |t - t'|^2, for a row and itself exactly to zero.
    """
    left = A1 if scale == -0.5 else A1 * (-2.0 * scale)
    torch.bmm(left, (A1 if A2 is None else A2).mT, out=K)
    if A2 is None:
        half = K.diagonal(dim1=-2, dim2=-1) * -0.5
        return half, half, float(half.min() if scale < 0 else half.max()) / scale
    square1, square2 = (A1 * A1).sum(-1), (A2 * A2).sum(-1)
    largest = max(float(square1.max()), float(square2.max()))
    return square1.mul_(scale), square2.mul_(scale), largest


def _fill(
    profile: Profile,
    K: Tensor,
    slope: Tensor | None,
    A1: Tensor,
    A2: Tensor,
    half1: Tensor | None,
    half2: Tensor | None,
    factor: Tensor | None,
) -> None:
    """Turn the products in K (R, n1, N2) into k, and overwrite the slope if it is kept. A1: (R, n1, Q+1), A2: (R, N2, Q+1).

    Without halves, K means nothing yet, and the squared distances are summed from differences.
    """
    if slope is None and (half1 is None or profile.slope == "matrix"):
        slope = torch.empty_like(K)  # room to work in
    if half1 is None or half2 is None:
        K.zero_()
        for q in range(A1.shape[-1] - 1):
            gap = torch.sub(A1[..., q].unsqueeze(-1), A2[..., q].unsqueeze(-2), out=slope)
            K.addcmul_(gap, gap, value=profile.scale)
    else:
        K.add_(half1.unsqueeze(-1)).add_(half2.unsqueeze(-2))
    profile.evaluate(K, slope, factor)


def _blocks(R: int, N1: int, N2: int) -> Iterator[tuple[slice, slice]]:
    """Several small matrices at a time, or some rows of a large one: about BLOCK entries each."""
    members, rows = max(1, BLOCK // (N1 * N2)), max(1, BLOCK // N2)
    for r in range(0, R, members):
        for i in range(0, N1, rows):
            yield slice(r, r + members), slice(i, i + rows)


def _pull(W: Tensor, g: Tensor | None, A1: Tensor, A2: Tensor, needs1: bool, needs2: bool, same: bool):
    """P1 = A2 Eᵀ (R, Q+1, N1) and P2 = A1 E (R, Q+1, N2) with E = W o g, if needed; one sum of both if the rows are the same.

    A1, A2: [T 1]ᵀ (R, Q+1, N).
    """
    if W.numel() <= BLOCK:
        E = W if g is None else W * g
        P1 = torch.bmm(A2, E.mT) if needs1 else None
        if P1 is not None and same:
            P1.baddbmm_(A1, E)
        return P1, torch.bmm(A1, E) if needs2 else None
    P1 = A1.new_zeros(A1.shape) if needs1 else None
    P2 = A2.new_zeros(A2.shape) if needs2 else None
    transposed = P1 if same else P2
    for r, i in _blocks(*W.shape):
        E = W[r, i] if g is None else W[r, i] * g[r, i]
        if P1 is not None:
            P1[r, :, i].baddbmm_(A2[r], E.mT)
        if transposed is not None:
            transposed[r].baddbmm_(A1[r, :, i], E)
    return P1, P2


def _gradient(P: Tensor, A: Tensor, profile: Profile) -> Tensor:
    """c [E T' - diag(E 1) T] (R, N, Q) from P = [T' 1]ᵀ Eᵀ and A = [T 1]ᵀ."""
    gradient = torch.addcmul(P, P[:, -1:], A, value=-1.0)[:, :-1].mT
    c = profile.steepness * profile.scale
    return gradient if c == 1.0 else gradient.mul_(c)


def _differentiable_gradient(
    W: Tensor, T1: Tensor, T2: Tensor | None, variance: Tensor, K: Tensor, profile: Profile, of_variance: bool
):
    """The same gradient in differentiable operations. K, an output of the function, brings its own history."""
    centre = T1.detach().mean(-2, keepdim=True)  # the result does not depend on it
    X1 = T1 - centre
    X2 = X1 if T2 is None else T2 - centre
    E = W if profile.slope == "one" else W * (K if profile.slope == "k" else _slope(T1, T2, variance, profile))
    c = profile.steepness * profile.scale
    dT1 = c * (E @ X2 - E.sum(-1).unsqueeze(-1) * X1)
    dT2 = c * (E.mT @ X1 - E.sum(-2).unsqueeze(-1) * X2)
    dvariance = (W * K).sum((-2, -1)) / variance if of_variance else None
    return (dT1 + dT2, None, dvariance) if T2 is None else (dT1, dT2, dvariance)


def _slope(T1: Tensor, T2: Tensor | None, variance: Tensor | None, profile: Profile) -> Tensor:
    """variance * g as a differentiable matrix."""
    if profile.rougher is not None:
        return radial(T1, T2, variance, profile.rougher._replace(scale=profile.scale))
    # Matern 1/2: g = exp(-a) / a, and zero where rows coincide.
    s = torch.zeros((), dtype=T1.dtype, device=T1.device)
    for t1, t2 in zip(T1.unbind(-1), (T1 if T2 is None else T2).unbind(-1), strict=True):
        s = s + profile.scale * (t1.unsqueeze(-1) - t2.unsqueeze(-2)) ** 2
    apart = s > 0
    a = torch.where(apart, s, 1.0).sqrt()
    g = torch.where(apart, torch.exp(-a) / a, 0.0)
    return g if variance is None else variance[..., None, None] * g
