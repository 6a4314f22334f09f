"""Weights that follow how sure members are: where a member knows little, others count more.

    w_s(x) ∝ w_s (u_s / v_s(x))^β

v_s(x) is the variance of y under member s at x, u_s its usual one, at which it counts as its weight w_s says. With β = 0 weights are the same everywhere. A constant weight lets a member that
says itself that it is guessing, say between neighbourhoods that it has learnt, pull the mean as much as where it knows the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MOST_CERTAIN = 8.0
"""The largest exponent: beyond, the surest member alone would count, right or wrong."""


@dataclass(frozen=True)
class Certainty:
    """How weights follow variances. exponent: β > 0. usual: log u_s (R_b,) of the members of every block."""

    exponent: float
    usual: Sequence[Tensor]

    def log_weights(self, log_weights: Sequence[Tensor], variances: Sequence[Tensor]) -> Tensor:
        """log w_s(x) (S, n) of all components, block by block and factor by factor. log_weights: (F, R_b). variances: (R_b, n) of y, before any factor."""
        parts = []
        for own, usual, variance in zip(log_weights, self.usual, variances, strict=True):
            sure = self.exponent * (usual[:, None] - variance.clamp_min(1e-300).log())
            parts.append((own[:, :, None] + sure).flatten(0, 1))
        every = torch.cat(parts)
        return every - every.logsumexp(0)
