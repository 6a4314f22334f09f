"""The rational quadratic kernel: a mixture of squared exponentials of many length-scales."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manifoldgp.kernels._radial import squared_distances
from manifoldgp.kernels.kernel import Kernel, constant_diagonal, positive_parameter, spread, variance_parameter
from manifoldgp.kernels.random_features import RandomFunctions, Randomness, waves
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register


@register("kernels.RationalQuadratic", shorthand="rq")
@dataclass(frozen=True)
class RationalQuadratic(Kernel):
    """k(h, h') = variance * (1 + r^2 / (2 shape))^(-shape), r^2 = sum_q (h_q - h'_q)^2 / lengthscale_q^2.

    ``shape`` is often written alpha, a letter that means something else here. For shape -> inf it is the squared exponential.

    Its parameters: variance (), lengthscale (Q,) or (1,), shape ().

    Parameters
    ----------
    ard
        One length-scale for each feature, or one for all.
    amplitude
        Whether there is a variance.
    """

    ard: bool = True
    amplitude: bool = True

    def _parameters(self, H: Tensor) -> Tree:
        scale = spread(H, self.ard)
        return ({"variance": variance_parameter()} if self.amplitude else {}) | {
            "lengthscale": positive_parameter(scale * math.sqrt(H.shape[-1]), scale.shape[-1:], sd=0.7),
            "shape": positive_parameter(scale.new_ones(()), (), sd=0.5),
        }

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        return self._of_distance(values, squared_distances(H / values["lengthscale"].unsqueeze(-2)))

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        lengthscale = values["lengthscale"].unsqueeze(-2)
        return self._of_distance(values, squared_distances(H1 / lengthscale, H2 / lengthscale))

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        return constant_diagonal(values.get("variance"), H, values["lengthscale"])

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        shape = values["shape"]
        scale = 1.0 / (values["lengthscale"] * np.sqrt(2 * shape)[:, None])
        exponent = new.writer.constant(shape[:, None, None])
        K = new.scaled(scale).of_distances("rational_quadratic", H * scale[:, None, :], exponent)
        return Covariance.of(K, variance=values.get("variance"))

    def _random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        # a squared exponential whose precision is drawn from Gamma(shape, rate shape)
        precision = random.gamma(values["shape"]) / values["shape"].unsqueeze(-1)
        direction, weight = random.directions(width)
        frequency = direction * precision.sqrt().unsqueeze(-2) / values["lengthscale"].unsqueeze(-1)
        return [waves(frequency, weight, values.get("variance"), random)]

    def _of_distance(self, values: Tree, r2: Tensor) -> Tensor:
        shape = values["shape"][..., None, None]
        K = torch.exp(-shape * torch.log1p(r2 / (2 * shape)))
        return K * values["variance"][..., None, None] if self.amplitude else K
