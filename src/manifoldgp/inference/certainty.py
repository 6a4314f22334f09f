"""Weights that follow how sure members are: where a member knows little, others count more.

    w_s(x) = (1 − a) w_s + a r_s(x),      r_s(x) ∝ w_s (u_s / v_s(x))^β

v_s(x) is the variance of the target under member s at x (before a target is unwarped), u_s its usual one, at which it counts as its weight w_s says. A weight that is the same everywhere lets a member
that says itself that it is guessing, say between neighbourhoods that it has learnt, pull the mean as much as where it knows the answer. But the surest member is not always right, least of all
where no rows are: so the share 1 − a of the prediction keeps the weights as they are, and no point is ever less likely than by that share of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_NO_WEIGHT = -1e3
"""Logarithm of a weight of nothing, whose derivative is a number."""


@dataclass(frozen=True)
class Certainty:
    """How weights follow variances. exponent: β > 0. share: a, above 0 and at most 1. usual: log u_s (R_b,) of the members of every block."""

    exponent: float
    share: float
    usual: Sequence[Tensor]

    def log_weights(self, log_weights: Sequence[Tensor], variances: Sequence[Tensor]) -> Tensor:
        """log w_s(x) (S, n) of all components, block by block and factor by factor. log_weights: (F, R_b). variances: (R_b, n), before any factor."""
        parts = []
        for own, usual, variance in zip(log_weights, self.usual, variances, strict=True):
            sure = self.exponent * (usual[:, None] - variance.clamp_min(1e-300).log())
            parts.append((own[:, :, None] + sure).flatten(0, 1))
        following = torch.cat(parts)
        following = (following - following.logsumexp(0)).clamp_min(_NO_WEIGHT)
        if self.share == 1.0:
            return following
        same = torch.cat([own.flatten() for own in log_weights]).clamp_min(_NO_WEIGHT)[:, None].expand_as(following)
        part = following.new_tensor([1.0 - self.share, self.share]).log()
        return torch.logaddexp(part[0] + same, part[1] + following)
