"""Inducing points by greedy conditional variance (Burt, Rasmussen and van der Wilk 2020), in feature space."""

from __future__ import annotations

import torch
from torch import Tensor

from manifoldgp.kernels import Kernel
from manifoldgp.parameters import Tree

SMALLEST_VARIANCE = 1e-10
"""Points stop being added where the largest conditional variance falls below this share of the largest prior variance."""


@torch.no_grad()
def greedy_inducing_points(kernel: Kernel, values: Tree, H: Tensor, count: int) -> Tensor:
    """Rows (m,) of H (n, Q), each the one whose value is least known given those before it: the pivots of a Cholesky factor of K_HH.

    m = count, or fewer where all the other rows are known already (features with repeated rows, say).
    """
    variance = kernel.diagonal(values, H).clone().expand(len(H)).contiguous()
    smallest = SMALLEST_VARIANCE * float(variance.max())
    count = min(count, len(H))
    C = H.new_empty(count, len(H))  # row m: what point m adds, so that K_HH ~ Cᵀ C
    chosen: list[int] = []
    for m in range(count):
        pivot = int(variance.argmax())
        left = float(variance[pivot])
        if left <= smallest:
            break
        row = kernel.cross(values, H[pivot : pivot + 1], H)[0]
        if m:
            row = row - C[:m, pivot] @ C[:m]
        C[m] = row / left**0.5
        variance = (variance - C[m] ** 2).clamp_min_(0.0)
        variance[pivot] = 0.0
        chosen.append(pivot)
    return torch.tensor(chosen, dtype=torch.long, device=H.device)
