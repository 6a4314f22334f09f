"""Input warping: a monotone change of scale, learnt for each input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from manifoldgp.features.feature_map import Features, positive_number
from manifoldgp.features.projections import constants
from manifoldgp.parameters import LogNormal, Parameter, Tree, normal_law
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register

_PRIOR_SD = 0.75  # of log a and log b, as Snoek et al. recommend for warpings near the identity
_START_SD = 0.2


@register("features.Kumaraswamy")
@dataclass(frozen=True)
class Kumaraswamy(Features):
    """Each input on its own learnt scale: the Beta warping of Snoek et al. (2014), with Kumaraswamy's closed form.

    u = (x - low) / (high - low),   w(u) = 1 - (1 - uᵃ)ᵇ,   h = low + (high - low) w(u)

    Beyond the training range (without the margin) h continues along its tangent: monotone, once differentiable
    at the ends, and never flat. A constant input keeps a range of one.

    Its parameters: "a" and "b" (D,), positive, with LogNormal(0, 0.75) priors, started near 1; a = b = 1 is the identity.

    Parameters
    ----------
    margin
        The constants "low" and "high" (D,) are the range of the training inputs, widened by this fraction on both sides.
    """

    margin: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "margin", positive_number(self.margin, "The margin of Kumaraswamy"))

    def parameters(self, X: Tensor) -> Tree:
        smallest, largest = X.amin(0), X.amax(0)
        width = largest - smallest
        # A column without spread has no scale of its own: give it the unit interval around its value.
        flat = width <= 1e-12 * torch.maximum(smallest.abs(), largest.abs())
        smallest, width = torch.where(flat, smallest - 0.5, smallest), torch.where(flat, torch.ones_like(width), width)
        low, high = smallest - self.margin * width, smallest + (1 + self.margin) * width
        D = X.shape[-1]
        log_start = normal_law((D,), _START_SD, like=X)

        def start(generator: torch.Generator, count: int) -> Tensor:
            return log_start(generator, count).exp()

        shape = Parameter((D,), start, positive=True, prior=LogNormal(0.0, _PRIOR_SD))
        return {"a": shape, "b": shape, **constants(low=low, high=high)}

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        a, b, low, high = (values[name].unsqueeze(-2) for name in ("a", "b", "low", "high"))
        u = (X - low) / (high - low)
        inside = u.clamp(self._end, 1 - self._end)
        log_u = inside.log()
        log_rest = torch.log(-torch.expm1(a * log_u))  # log(1 - uᵃ)
        w = -torch.expm1(b * log_rest)
        # w'(u) = a b uᵃ⁻¹ (1 - uᵃ)ᵇ⁻¹
        slope = a * b * torch.exp((a - 1) * log_u + (b - 1) * log_rest)
        return low + (high - low) * (w + slope * (u - inside))

    def _program(self, values: Tree, X: Rows) -> Rows:
        low, width = values["low"], values["high"] - values["low"]
        a, b = (X.writer.constant(values[name][:, None, :]) for name in ("a", "b"))
        u = X.shifted(-low).scaled(1.0 / width)
        return u.through("kumaraswamy", a, b, end=self._end).scaled(width).shifted(low)

    @property
    def _end(self) -> float:
        """u of the smallest training input; that of the largest is 1 - u."""
        return self.margin / (1 + 2 * self.margin)
