"""Stationary kernels of T = H / lengthscale: the squared exponential and the Matern family."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from manifoldgp.kernels._profiles import MATERN12, MATERN32, MATERN52, SQUARED_EXPONENTIAL, Profile
from manifoldgp.kernels._radial import radial, radial_program
from manifoldgp.kernels.kernel import Kernel, constant_diagonal, positive_parameter, spread, variance_parameter
from manifoldgp.kernels.random_features import RandomFunctions, Randomness, waves
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import overridden, register


@dataclass(frozen=True)
class Stationary(Kernel):
    """k(h, h') = variance * k0(r) with r^2 = sum_q (h_q - h'_q)^2 / lengthscale_q^2; every subclass has its own profile k0.

    Its parameters: variance (), lengthscale (Q,) or (1,).

    Parameters
    ----------
    ard
        One length-scale for each feature (automatic relevance determination), or one for all.
    amplitude
        Whether there is a variance; without it k(h, h) = 1.
    scaled
        Whether there are length-scales; without them the features come with a scale of their own.
    """

    ard: bool = True
    amplitude: bool = True
    scaled: bool = True

    @property
    @abstractmethod
    def profile(self) -> Profile:
        """k0 and its slope."""

    def _parameters(self, H: Tensor) -> Tree:
        tree: Tree = {"variance": variance_parameter()} if self.amplitude else {}
        if self.scaled:
            scale = spread(H, self.ard)
            tree["lengthscale"] = positive_parameter(scale * math.sqrt(H.shape[-1]), scale.shape[-1:], sd=0.7)
        return tree

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        return radial(self._scale(values, H), None, values.get("variance"), self.profile)

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        return radial(self._scale(values, H1), self._scale(values, H2), values.get("variance"), self.profile)

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        return constant_diagonal(values.get("variance"), H, *([values["lengthscale"]] if self.scaled else []))

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        return radial_program(self.profile, values, H, new, values["lengthscale"] if self.scaled else np.ones((1, 1)))

    def _random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        if self.profile.smoothness is None:
            frequency, weight = random.directions(width)
        else:
            stretch, weight = random.heavy_tails(self.profile.smoothness)
            frequency = random.normal(random.draws, width, random.ridges) * stretch.unsqueeze(-2)
        frequency = frequency / values["lengthscale"].unsqueeze(-1) if self.scaled else frequency
        return [waves(frequency, weight, values.get("variance"), random)]

    def radial_profile(self) -> Profile | None:
        if (
            self.dims is not None
            or self.profile.kinked
            or overridden(type(self), "radial_profile", ("_parameters", "_random_functions"))
        ):
            return None
        return self.profile

    def _scale(self, values: Tree, H: Tensor) -> Tensor:
        """T = H / lengthscale."""
        return H / values["lengthscale"].unsqueeze(-2) if self.scaled else H


@register("kernels.SquaredExponential", shorthand="se")
@dataclass(frozen=True)
class SquaredExponential(Stationary):
    """k(h, h') = variance * exp(-r^2 / 2): infinitely smooth (the paper's eq. 5).

    Examples
    --------
    >>> import torch
    >>> values = {"variance": torch.tensor(2.0), "lengthscale": torch.tensor([1.0])}
    >>> SquaredExponential().matrix(values, torch.tensor([[0.0], [1.0]]))
    tensor([[2.0000, 1.2131],
            [1.2131, 2.0000]])
    """

    @property
    def profile(self) -> Profile:
        return SQUARED_EXPONENTIAL


@register("kernels.Matern12", shorthand="matern12")
@dataclass(frozen=True)
class Matern12(Stationary):
    """k(h, h') = variance * exp(-r): continuous, nowhere differentiable.

    At coincident points, where the slope is infinite, the gradient counts as zero.
    """

    @property
    def profile(self) -> Profile:
        return MATERN12


@register("kernels.Matern32", shorthand="matern32")
@dataclass(frozen=True)
class Matern32(Stationary):
    """k(h, h') = variance * (1 + a) exp(-a), a = sqrt(3) r: once differentiable."""

    @property
    def profile(self) -> Profile:
        return MATERN32


@register("kernels.Matern52", shorthand="matern52")
@dataclass(frozen=True)
class Matern52(Stationary):
    """k(h, h') = variance * (1 + a + a^2 / 3) exp(-a), a = sqrt(5) r: twice differentiable."""

    @property
    def profile(self) -> Profile:
        return MATERN52
