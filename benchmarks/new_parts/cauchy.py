"""A kernel that the package does not have: the one new file of a new kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from manifoldgp.kernels._radial import squared_distances
from manifoldgp.kernels.kernel import Kernel, constant_diagonal, positive_parameter, spread
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register


@register("kernels.Cauchy", shorthand="cauchy")
@dataclass(frozen=True)
class Cauchy(Kernel):
    """k(h, h') = 1 / (1 + r²), r² = Σ_q (h_q − h'_q)² / lengthscale_q²."""

    def _parameters(self, H: Tensor) -> Tree:
        scale = spread(H)
        return {"lengthscale": positive_parameter(scale, scale.shape[-1:], sd=0.5)}

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        lengthscale = values["lengthscale"].unsqueeze(-2)
        return 1.0 / (1.0 + squared_distances(H1 / lengthscale, H2 / lengthscale))

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        return constant_diagonal(None, H, values["lengthscale"])

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        scale = 1.0 / values["lengthscale"]
        return Covariance.of(1.0 / (1.0 + new.scaled(scale).squared_distances(H * scale[:, None, :])))
