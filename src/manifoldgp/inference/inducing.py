"""Inducing points by greedy conditional variance (Burt, Rasmussen and van der Wilk 2020), in feature space."""

from __future__ import annotations

import torch
from torch import Tensor

from manifoldgp._system.linalg import cholesky_with_jitter, solve_lower
from manifoldgp.model import Model
from manifoldgp.parameters import Tree

SMALLEST_VARIANCE = 1e-10
"""Points stop being added where the largest conditional variance falls below this share of the largest prior variance."""


@torch.no_grad()
def greedy_inducing_points(model: Model, values: Tree, H: Tensor, count: int, given: Tensor | None = None) -> Tensor:
    """Rows (m,) of H (n, Q), each the one whose value is least known given those before it: the pivots of a Cholesky factor of K_HH.

    m = count, or fewer where all the other rows are known already (features with repeated rows, say).
    given: points (g, Q) that are there already; m is at most count − g then.
    """
    variance = model.prior_diagonal(values, H).clone().expand(len(H)).contiguous()
    smallest = SMALLEST_VARIANCE * float(variance.max())
    known = 0 if given is None else len(given)
    count = min(count, known + len(H))
    C = H.new_empty(count, len(H))  # row m: what point m adds, so that K_HH ~ Cᵀ C
    if given is not None and known:
        L, _ = cholesky_with_jitter(model.matrix(values, given)[None], "the covariance of the inducing points")
        C[:known] = solve_lower(L[0], model.cross(values, given, H))
        variance = (variance - (C[:known] ** 2).sum(0)).clamp_min_(0.0)
    chosen: list[int] = []
    for m in range(known, count):
        pivot = int(variance.argmax())
        left = float(variance[pivot])
        if left <= smallest:
            break
        row = model.cross(values, H[pivot : pivot + 1], H)[0]
        if m:
            row = row - C[:m, pivot] @ C[:m]
        C[m] = row / left**0.5
        variance = (variance - C[m] ** 2).clamp_min_(0.0)
        variance[pivot] = 0.0
        chosen.append(pivot)
    return torch.tensor(chosen, dtype=torch.long, device=H.device)
