"""A kernel, a feature map and a mean as users write them, registered when this module is imported."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from manifoldgp import register
from manifoldgp.features import Features
from manifoldgp.kernels import Covariance, Kernel, constant_diagonal, positive_parameter, spread, variance_parameter
from manifoldgp.means import Mean
from manifoldgp.parameters import Parameter, normal_law


@register("own_parts.Wiggle", shorthand="wiggle")
@dataclass(frozen=True)
class Wiggle(Kernel):
    """k(a, b) = variance (cos(t) exp(−t²/2) + tilt (1 + a·b) / √((1 + |a|²)(1 + |b|²))), t = a_0 − b_0, a = h / lengthscale.

    Not stationary, and in plain PyTorch: nothing in the package knows its numbers.
    """

    tilt: float = 0.5

    def _parameters(self, H):
        scale = spread(H)
        return {"variance": variance_parameter(), "lengthscale": positive_parameter(scale, scale.shape[-1:], sd=0.3)}

    def _cross(self, values, H1, H2):
        lengthscale = values["lengthscale"].unsqueeze(-2)
        A, B = H1 / lengthscale, H2 / lengthscale
        t = A[..., :1] - B[..., :1].mT
        wave = torch.cos(t) * torch.exp(-0.5 * t**2)
        sizes = torch.sqrt(1 + A.square().sum(-1, keepdim=True)) * torch.sqrt(1 + B.square().sum(-1, keepdim=True)).mT
        return values["variance"][..., None, None] * (wave + self.tilt * (1 + A @ B.mT) / sizes)

    def _diagonal(self, values, H):
        return (1 + self.tilt) * constant_diagonal(values["variance"], H, values["lengthscale"])

    def _program(self, values, H, new):
        scale = 1 / values["lengthscale"]
        A, T = new.scaled(scale), H * scale[:, None, :]
        t = A.differences(T, 0)
        wave = t.cos() * (-0.5 * t**2.0).exp()
        sizes = A.of_training_rows(np.sqrt(1 + (T * T).sum(-1))) * (1 + A.square_sum()).sqrt()
        return Covariance.of(wave + self.tilt * (1 + A.inner_products(T)) / sizes, 1 + self.tilt, values["variance"])


@register("own_parts.Bumps")
@dataclass(frozen=True)
class Bumps(Features):
    """H = exp(−(X W + b)²)."""

    q: int = 2

    def parameters(self, X):
        D = X.shape[-1]
        weight = Parameter((D, self.q), normal_law((D, self.q), 1 / math.sqrt(D), like=X))
        return {"weight": weight, "bias": Parameter((self.q,), normal_law((self.q,), 1.0, like=X))}

    def __call__(self, values, X):
        return torch.exp(-((X @ values["weight"] + values["bias"].unsqueeze(-2)) ** 2))

    def _program(self, values, X):
        Z = X.times(values["weight"]).shifted(values["bias"])
        return Z.multiplied(Z).scaled(-np.ones((1, self.q))).through("exponential")


@register("own_parts.Bowl", shorthand="bowl")
@dataclass(frozen=True)
class Bowl(Mean):
    """m(x) = Σ_d weights_d x_d²."""

    def parameters(self, points):
        D = points.shape[-1]
        return {"weights": Parameter((D,), normal_law((D,), 0.1, like=points))}

    def __call__(self, values, points):
        return (points**2 @ values["weights"].unsqueeze(-1)).squeeze(-1)

    def _program(self, values, points):
        return points.multiplied(points).times(values["weights"][..., None])
