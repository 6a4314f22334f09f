"""A feature map that the package does not have: the one new file of a new feature map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from manifoldgp.features.feature_map import Features
from manifoldgp.parameters import Parameter, Tree, log_normal_law
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register


@register("features.Stretched")
@dataclass(frozen=True)
class Stretched(Features):
    """h_d = stretch_d x_d: each input with a learnt factor."""

    def parameters(self, X: Tensor) -> Tree:
        D = X.shape[-1]
        return {"stretch": Parameter((D,), log_normal_law(torch.ones(D, dtype=X.dtype, device=X.device), 0.3), positive=True)}

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        return X * values["stretch"].unsqueeze(-2)

    def _program(self, values: Tree, X: Rows) -> Rows:
        return X.scaled(values["stretch"])
