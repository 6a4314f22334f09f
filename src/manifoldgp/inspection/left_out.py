"""Leave-one-out predictions of a whole mixture, from the factors that its members keep."""

from __future__ import annotations

import numpy as np
import torch

from manifoldgp.ensemble import Ensemble
from manifoldgp.predictive import Predictive


def left_out_mixture(ensemble: Ensemble, place: np.ndarray) -> Predictive:
    """The mixture at training rows ``place`` (n,), each row left out; parameters and weights unchanged."""
    means, variances = [], []
    rows = torch.as_tensor(place, device=ensemble.blocks[0].alpha.device)
    for block in ensemble.blocks:
        mean, variance = block.left_out(rows)
        means += [mean] * len(ensemble.variance_factors)
        variances += [factor * variance for factor in ensemble.variance_factors]
    weights = torch.cat([w.reshape(-1) for w in ensemble.log_weights])
    return Predictive(torch.cat(means), torch.cat(variances), weights, ensemble._warp(), ensemble.offset, ensemble.scale)
