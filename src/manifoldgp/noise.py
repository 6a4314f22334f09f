"""The noise w of y = F(x) + w: learned, known for each row, or both; never below a floor relative to sd(y)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.parameters import Parameter, Tree, log_normal_law
from manifoldgp.registry import register

DEFAULT_FLOOR = math.exp(-12.0)
"""Smallest noise standard deviation, in units of sd(y): 6.1e-6.

Noise-free data drives the noise to this floor. Lower floors buy a little density there (each factor e is one nat a point)
and cost the factorisation its digits: at 6e-6 a kernel matrix still has three significant digits left in the worst direction.
"""


@register("noise.GaussianNoise")
@dataclass(frozen=True)
class GaussianNoise:
    """Noise variance = scale² + floor² (+ the known variance of a row, when given).

    scale: learned standard deviation ("scale", in units of sd(y)). learned=False leaves only floor and known variances.
    """

    learned: bool = True
    floor: float = DEFAULT_FLOOR

    def __post_init__(self) -> None:
        if not (isinstance(self.floor, Real) and self.floor > 0 and math.isfinite(self.floor)):
            raise InputError(f"The noise floor must be a positive number (relative to sd(y)); it is {self.floor!r}.")

    def parameters(self, X: Tensor) -> Tree:
        if not self.learned:
            return {}
        centre = torch.tensor(0.1, dtype=torch.float64, device=X.device)
        return {"scale": Parameter((), log_normal_law(centre, 1.0), positive=True)}

    def variance(self, values: Tree, like: Tensor) -> Tensor:
        """Variance `(*B,)` shared by all rows, known variances not included."""
        if not self.learned:
            return torch.full((), self.floor**2, dtype=like.dtype, device=like.device)
        return values["scale"] ** 2 + self.floor**2
