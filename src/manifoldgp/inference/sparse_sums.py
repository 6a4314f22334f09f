"""What a chunk of rows adds to the sums of the bound (first pass), and what it pulls back to the parameters (second pass).

With E = L⁻ᵀ ((I + VV)⁻¹ − I + ββᵀ) and γ = L⁻ᵀ β (:mod:`manifoldgp.inference.sparse_bound`), the rows of a chunk with whitened V = L⁻¹ K_ZH receive

    dF/dK_ZH = (E V − γ rᵀ) diag(w),   dF/dr_i = w_i (r_i − β·V_i),   dF/dk_i = ½ w_i,
    dF/dw_i  = ½ [(V_i·of_sums V_i) + k_i + r_i² − ν_i] − r_i β·V_i

and the chain rule through kernel, features, mean, warping and noise is autograd's. V is recomputed rather than multiplied into one
matrix L⁻ᵀ ... L⁻¹, whose entries lose as many digits as K_ZZ has, not half of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from manifoldgp._system.linalg import factor_in_place
from manifoldgp.inference.sparse_bound import Bound, Statistics
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree
from manifoldgp.warping import NoWarping

JITTER_LADDER = (1e-12, 1e-10, 1e-8, 1e-6)
"""Jitter of K_ZZ, relative to the mean of its diagonal. The first rung is always added: pivots of the size of rounding errors would
turn V into noise, and the bound would no longer bound. The last rung is the limit."""

_BLOCKS = 4
"""Blocks of rows in products with a triangular factor or result: with four, 5/8 of the full product is computed."""


@dataclass(frozen=True)
class Inducing:
    """Z (J, Q), the factor L of K_ZZ + jitter, L⁻¹, and the rung of the ladder that it took."""

    Z: Tensor
    L: Tensor
    inverse: Tensor
    jitter: float
    rung: int


def place_inducing(model: Model, values: Tree, first_rung: int = 0) -> Inducing | None:
    """Factor K_ZZ at values (without batch; Z is values["inducing"]["Z"]); None where it has no factor on any rung."""
    Z = values["inducing"]["Z"].detach()
    with torch.no_grad():
        K = model.matrix(values, Z)
        size = float(K.diagonal().mean())
        for rung in range(first_rung, len(JITTER_LADDER)):
            L = K.clone()[None]
            L.diagonal(dim1=-2, dim2=-1).add_(JITTER_LADDER[rung] * size)
            if not bool(factor_in_place(L)):
                L = L[0].tril_()
                identity = torch.eye(len(Z), dtype=L.dtype, device=L.device)
                inverse = torch.linalg.solve_triangular(L, identity, upper=False)
                return Inducing(Z, L, inverse, JITTER_LADDER[rung] * size, rung)
    return None


@dataclass
class Forward:
    """One chunk at some values. K: K_ZH (J, n). k: prior variances (n,). r: z − m (n,). w: 1/noise (n,). log_slope: log g'(y) (n,). V: L⁻¹ K."""

    K: Tensor
    k: Tensor
    r: Tensor
    w: Tensor
    log_slope: Tensor | None
    V: Tensor


def forward(model: Model, values: Tree, inducing: Inducing, rows: Data) -> Forward:
    """Everything the bound needs of a chunk; differentiable in the values where they require a gradient, except V."""
    n = rows.X.shape[-2]
    H = model.features_at(values, rows.X)
    K = model.cross(values, values["inducing"]["Z"], H)
    warped = not isinstance(model.warping, NoWarping)
    z, log_slope = model.warp(values, rows.y) if warped else (rows.y, None)
    r = z - model.mean_at(values, rows.X, H)
    w = (1.0 / model.noise_variance(values, rows)).expand(n)
    V = lower_times(inducing.inverse, K.detach())
    return Forward(K, model.prior_diagonal(values, H).expand(n), r, w, log_slope, V)


def add_chunk_(sums: Statistics, chunk: Forward) -> None:
    """Add a chunk to the sums, in place."""
    r, w, k = chunk.r.detach(), chunk.w.detach(), chunk.k.detach()
    if _uniform(w):  # the usual case, without a weighted copy of V
        add_lower_product_(sums.VV, chunk.V, chunk.V, float(w[0]))
    else:
        add_lower_product_(sums.VV, chunk.V * w, chunk.V)
    sums.a.addmv_(chunk.V, w * r)
    slope = r.new_zeros(()) if chunk.log_slope is None else chunk.log_slope.detach().sum()
    rows = torch.full((), float(len(r)), dtype=r.dtype, device=r.device)
    sums.scalars.add_(torch.stack([w @ k, (w * r) @ r, -w.log().sum(), slope, rows]))


@dataclass(frozen=True)
class Pull:
    """What all chunks need for the way back. E: L⁻ᵀ of_sums (J, J). gamma: L⁻ᵀ β (J,). beta: (J,)."""

    E: Tensor
    gamma: Tensor
    beta: Tensor

    @classmethod
    def of(cls, bound: Bound, inducing: Inducing) -> Pull:
        up = inducing.inverse.mT
        return cls(up @ bound.of_sums, up @ bound.beta, bound.beta)


def pull_back(chunk: Forward, pull: Pull) -> tuple[list[Tensor], list[Tensor]]:
    """Tensors of the chunk that depend on the parameters, and dF with respect to each of them."""
    V, K, k, r, w = chunk.V, chunk.K.detach(), chunk.k.detach(), chunk.r.detach(), chunk.w.detach()
    explained = pull.beta @ V  # (n,)
    if _uniform(w):
        # All rows share one weight: only the sum over them of dF/dw counts, and the weight goes into the product.
        weight = float(w[0])
        dK = torch.mm(pull.E, V).addr_(pull.gamma, r, alpha=-1.0).mul_(weight)
        quadratic = torch.dot(dK.reshape(-1), K.reshape(-1)) / (weight * len(r)) + (explained @ r) / len(r)
    else:
        dK = torch.mm(pull.E, V).addr_(pull.gamma, r, alpha=-1.0)
        quadratic = (dK * K).sum(0).add_(explained * r)
        dK.mul_(w)
    # K_i·(E V)_i = V_i·of_sums V_i, because K = L V
    dw = 0.5 * (quadratic + k + r * r - 1.0 / w) - explained * r
    pairs: list[tuple[Any, Tensor]] = [
        (chunk.K, dK),
        (chunk.k, 0.5 * w),
        (chunk.r, w * (r - explained)),
        (chunk.w, dw),
    ]
    if chunk.log_slope is not None:
        pairs.append((chunk.log_slope, -torch.ones_like(r)))
    connected = [(tensor, gradient) for tensor, gradient in pairs if tensor.requires_grad]
    return [tensor for tensor, _ in connected], [gradient for _, gradient in connected]


def inducing_gradient(bound: Bound, inducing: Inducing) -> Tensor:
    """dF/dK_ZZ (J, J), with the jitter's dependence on the mean of the diagonal."""
    up = inducing.inverse.mT
    gradient = 0.5 * (up @ bound.of_whitened @ inducing.inverse)
    gradient.diagonal().add_(JITTER_LADDER[inducing.rung] * gradient.diagonal().mean())
    return gradient


def lower_times(lower: Tensor, K: Tensor) -> Tensor:
    """lower @ K for a lower triangular matrix (J, J) and K (J, n), leaving out blocks of zeros."""
    product = torch.empty_like(K, memory_format=torch.contiguous_format)
    for start, stop in _spans(len(lower)):
        torch.mm(lower[start:stop, :stop], K[:stop], out=product[start:stop])
    return product


def add_lower_product_(VV: Tensor, left: Tensor, right: Tensor, factor: float = 1.0) -> None:
    """Add factor * left rightᵀ, which is symmetric, to the lower triangle of VV (J, J); what is above the diagonal means nothing."""
    for start, stop in _spans(len(VV)):
        VV[start:stop, :stop].addmm_(left[start:stop], right[:stop].mT, alpha=factor)


def _uniform(w: Tensor) -> bool:
    """Whether all rows share one weight: then it was expanded from a single number."""
    return len(w) > 0 and w.stride(0) == 0


def _spans(J: int) -> list[tuple[int, int]]:
    edges = [J * i // _BLOCKS for i in range(_BLOCKS + 1)]
    return [(a, b) for a, b in pairwise(edges) if b > a]
