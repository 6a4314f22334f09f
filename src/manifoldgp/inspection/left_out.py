"""Leave-one-out predictions of a whole mixture, from the factors that its members keep."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from manifoldgp.ensemble import Ensemble
from manifoldgp.linalg import solve_lower
from manifoldgp.predictive import Predictive

_ENTRIES_AT_ONCE = 2**23


def left_out_mixture(ensemble: Ensemble, place: np.ndarray) -> Predictive:
    """The mixture at training rows ``place`` (n,), each row left out: from the members' factors, weights unchanged.

    mean_i = z_i − alpha_i / p_i,  variance_i = 1 / p_i,  p_i = (A⁻¹)_ii = |L⁻¹ e_i|²      (Rasmussen and Williams, eq. 5.12)
    """
    means, variances = [], []
    rows = torch.as_tensor(place, device=ensemble.blocks[0].alpha.device)
    for block in ensemble.blocks:
        precision = torch.stack([_precision(block.L[r], rows) for r in range(block.members)])
        means += [block.z[:, rows] - block.alpha[:, rows] / precision] * len(ensemble.variance_factors)
        variances += [factor / precision for factor in ensemble.variance_factors]
    weights = torch.cat([w.reshape(-1) for w in ensemble.log_weights])
    return Predictive(torch.cat(means), torch.cat(variances), weights, ensemble._warp(), ensemble.offset, ensemble.scale)


def _precision(L: Tensor, rows: Tensor) -> Tensor:
    """(A⁻¹)_ii (n,) of the chosen rows, for A = L Lᵀ (N, N), in bounded memory: O(N² n)."""
    parts = []
    for chunk in rows.split(max(1, _ENTRIES_AT_ONCE // len(L))):
        unit = torch.zeros(len(L), len(chunk), dtype=L.dtype, device=L.device)
        unit[chunk, torch.arange(len(chunk), device=L.device)] = 1.0
        parts.append((solve_lower(L[None], unit[None])[0] ** 2).sum(0))
    return torch.cat(parts)
