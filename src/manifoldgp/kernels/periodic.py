"""The periodic kernel: a squared exponential around the circle."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy import special
from torch import Tensor

from manifoldgp.kernels._profiles import SQUARED_EXPONENTIAL
from manifoldgp.kernels._radial import radial, radial_program
from manifoldgp.kernels.kernel import Kernel, constant_diagonal, positive_parameter, spread, variance_parameter
from manifoldgp.kernels.random_features import RandomFunctions, Randomness, waves
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register

_LONGEST = 100.0
"""Length-scale from which on a centred kernel stays as it is, a cosine to 1e-4: (k - c) / (1 - c) has lost its digits where k is nearly one everywhere."""


@register("kernels.Periodic", shorthand="periodic")
@dataclass(frozen=True)
class Periodic(Kernel):
    """k(h, h') = variance * exp( -2 sum_q sin^2(pi (h_q - h'_q) / period_q) / lengthscale_q^2 ).

    With u_q = (cos phi_q, sin phi_q), phi_q = 2 pi h_q / period_q, this is exp(-|u - u'|^2 / (2 lengthscale^2)):
    the squared exponential of 2 Q features, and computed as such.

    Its parameters: variance (), period (Q,) or (1,), lengthscale (Q,) or (1,), the latter relative to the unit circle.

    Parameters
    ----------
    ard
        A period and a length-scale for each feature, or one of each for all.
    amplitude
        Whether there is a variance.
    centred
        Whether functions have mean zero over a period: (k - c) / (1 - c) instead of k, with c the mean of k over all distances, prod_q I0(a_q) exp(-a_q)
        for a = 1 / lengthscale^2. Without it a part of every function is a constant, and a sum or product with other kernels says less. Length-scales beyond 100 count as 100.
    """

    ard: bool = True
    amplitude: bool = True
    centred: bool = False

    def _parameters(self, H: Tensor) -> Tree:
        scale = spread(H, self.ard)
        # From a few periods in the data to one period longer than they are.
        return ({"variance": variance_parameter()} if self.amplitude else {}) | {
            "period": positive_parameter(2 * scale, scale.shape[-1:], sd=0.7),
            "lengthscale": positive_parameter(torch.full_like(scale, math.sqrt(H.shape[-1])), scale.shape[-1:], sd=0.7),
        }

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        values = self._bounded(values)
        return self._of_circle(values, _around_circle(values, H), None)

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        values = self._bounded(values)
        return self._of_circle(values, _around_circle(values, H1), _around_circle(values, H2))

    def _bounded(self, values: Tree) -> Tree:
        return {**values, "lengthscale": values["lengthscale"].clamp_max(_LONGEST)} if self.centred else values

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        return constant_diagonal(values.get("variance"), H, values["lengthscale"], values["period"])

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        Q = H.shape[-1]
        speed = np.broadcast_to(2 * math.pi / values["period"], (len(values["period"]), Q))
        phase = H * speed[:, None, :]
        around = np.concatenate([np.cos(phase), np.sin(phase)], -1)
        lengthscale = np.broadcast_to(values["lengthscale"], (len(values["lengthscale"]), Q))
        circle = new.scaled(speed).through("circle", width=2 * Q)
        if not self.centred:
            return radial_program(SQUARED_EXPONENTIAL, values, around, circle, np.concatenate([lengthscale, lengthscale], -1))
        lengthscale = np.minimum(lengthscale, _LONGEST)
        scale = math.sqrt(0.5) / np.concatenate([lengthscale, lengthscale], -1)
        K = circle.scaled(scale).of_distances("squared_exponential", around * scale[:, None, :])
        c = np.prod(special.i0e(lengthscale**-2.0), -1)
        return Covariance.of(K - c, 1 - c, values.get("variance", 1.0) / (1 - c))  # a factor aside is folded into weights

    def _of_circle(self, values: Tree, T1: Tensor, T2: Tensor | None) -> Tensor:
        if not self.centred:
            return radial(T1, T2, values.get("variance"), SQUARED_EXPONENTIAL)
        K = radial(T1, T2, None, SQUARED_EXPONENTIAL)
        lengthscale = values["lengthscale"]
        c = torch.special.i0e(lengthscale.expand(*lengthscale.shape[:-1], T1.shape[-1] // 2) ** -2).prod(-1)
        factor = (values["variance"] if self.amplitude else 1.0) / (1 - c)
        return (K - c[..., None, None]) * factor[..., None, None]

    def _random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        if self.centred:  # the waves below have a constant, which this kernel lacks
            return super()._random_functions(values, width, random)
        speed = (2 * math.pi / values["period"]).expand(-1, width)
        lengthscale = values["lengthscale"].expand(-1, width).repeat(1, 2)
        direction, weight = random.directions(2 * width)
        return [waves(direction / lengthscale.unsqueeze(-1), weight, values.get("variance"), random, speed)]


def _around_circle(values: Tree, H: Tensor) -> Tensor:
    """(cos phi, sin phi) / lengthscale (*B, N, 2 Q)."""
    phase = H * (2 * math.pi / values["period"]).unsqueeze(-2)
    lengthscale = values["lengthscale"].unsqueeze(-2)
    return torch.cat([phase.cos() / lengthscale, phase.sin() / lengthscale], -1)
