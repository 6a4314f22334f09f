"""A learned monotone warping of the targets (Warped GP, Snelson, Rasmussen and Ghahramani 2004): the GP models z = g(y)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.parameters import LogNormal, Normal, Parameter, Tree, log_normal_law, map_leaves, normal_law
from manifoldgp.predictor.mixture_facts import MOST_TERMS
from manifoldgp.registry import register

_SAME, _MOST_STEPS = 1e-12, 60
"""A step that shows no longer, relative to standardised targets; and steps at most."""

_FEW = 0.3
"""Share of roots that go on alone: gathering them costs about a step."""


class TargetWarping(Protocol):
    """g with its logarithmic slope and its inverse; leaves of values `(*B, *shape)`, y and z `(*B', n)`, broadcast."""

    def parameters(self, y: Tensor) -> Tree: ...
    def forward(self, values: Tree, y: Tensor) -> tuple[Tensor, Tensor]: ...
    def inverse(self, values: Tree, z: Tensor) -> Tensor: ...


@register("warping.NoWarping")
@dataclass(frozen=True)
class NoWarping:
    """g(y) = y."""

    def parameters(self, y: Tensor) -> Tree:
        return {}

    def forward(self, values: Tree, y: Tensor) -> tuple[Tensor, Tensor]:
        """z = y, log g'(y) = 0."""
        return y, torch.zeros_like(y)

    def inverse(self, values: Tree, z: Tensor) -> Tensor:
        return z


@register("warping.TanhWarping")
@dataclass(frozen=True)
class TanhWarping:
    """g(y) = y + Σ_i a_i tanh(b_i (y + c_i)) with a, b > 0, on standardised y (Snelson 2004, eq. 9); g' >= 1 everywhere."""

    terms: int = 3

    def __post_init__(self) -> None:
        if self.terms < 1:
            raise InputError(f"TanhWarping needs at least one term; got {self.terms}.")
        if self.terms > MOST_TERMS:
            raise InputError(f"TanhWarping takes at most {MOST_TERMS} terms; got {self.terms}. Three suffice as a rule.")

    def parameters(self, y: Tensor) -> Tree:
        shape = (self.terms,)
        small = torch.full(shape, 0.3, dtype=torch.float64, device=y.device)
        return {
            "height": Parameter(shape, log_normal_law(small, 0.5), positive=True, prior=LogNormal(-1.0, 1.5)),
            "steepness": Parameter(shape, log_normal_law(torch.ones_like(small), 0.5), positive=True, prior=LogNormal(0.0, 1.0)),
            "centre": Parameter(shape, normal_law(shape, 1.0, y), prior=Normal(0.0, 2.0)),
        }

    def forward(self, values: Tree, y: Tensor) -> tuple[Tensor, Tensor]:
        """z = g(y) and log g'(y), both `(*B'', n)`."""
        z, slope = y, torch.ones_like(y)
        for i in range(self.terms):  # a sum over a short last dimension would take longer than all that is summed
            a, b, c = (values[k][..., i, None] for k in ("height", "steepness", "centre"))
            T = torch.tanh(b * (y + c))
            z, slope = z + a * T, slope + a * b * (1.0 - T * T)
        return z, slope.log()

    def inverse(self, values: Tree, z: Tensor) -> Tensor:
        """y with g(y) = z: Newton's steps within |g(y) − y| <= Σ a, which brackets the root; bisection where one leaves it or is no shorter than half the last.

        The last two steps alone carry the derivative: dy = dz / g'(y).
        """
        with torch.no_grad():
            reach = values["height"].sum(-1, keepdim=True)
            low, high = z - reach, z + reach
            z_each = z + torch.zeros_like(low)
            y = self._roots(values, z_each, z_each, low, high, high - low)
        for _ in range(2):
            value, log_slope = self.forward(values, y)
            y = y - (value - z) / log_slope.exp()
        return y

    def _roots(self, values: Tree, z: Tensor, y: Tensor, low: Tensor, high: Tensor, move: Tensor) -> Tensor:
        """y with g(y) = z between low and high, all (*B, n), from y on. Most are there after a few steps: where few are left they go on alone."""
        for _ in range(_MOST_STEPS):
            value, log_slope = self.forward(values, y)
            smallest = _SAME * (1.0 + y.abs())
            y, low, high, move = bracketed_step(y, value - z, log_slope.exp(), low, high, move, smallest)
            going = move > smallest
            left = int(going.sum())
            if left == 0:
                break
            if left < _FEW * y.numel():
                own = map_leaves(lambda leaf, to=y.shape, at=going: leaf[..., None, :].expand(*to, leaf.shape[-1])[at], values)
                z, start, low, high, move = (part[going][:, None] for part in (z, y, low, high, move))
                return y.masked_scatter(going, self._roots(own, z, start, low, high, move))
        return y


def bracketed_step(
    t: Tensor, off: Tensor, slope: Tensor, low: Tensor, high: Tensor, move: Tensor, smallest: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The next places where increasing functions may be zero, their brackets low and high, and how far the places moved.

    Newton's step from t, where they have these values and slopes; the middle of the bracket where the step leaves it, or is neither shorter than half the last move nor below smallest.
    """
    low, high = torch.where(off < 0, t, low), torch.where(off < 0, high, t)
    step = t - off / slope
    good = (step >= low) & (step <= high) & ((step - t).abs() <= torch.maximum(0.5 * move, smallest))
    following = torch.where(good, step, 0.5 * (low + high))
    return following, low, high, (following - t).abs()


def as_warping(warping: TargetWarping | str | None) -> TargetWarping:
    """None -> no warping, "tanh" -> TanhWarping(), a warping -> itself."""
    if warping is None:
        return NoWarping()
    if warping == "tanh":
        return TanhWarping()
    if isinstance(warping, str):
        raise InputError(f"Unknown target warping {warping!r}; use None, 'tanh' or a warping such as TanhWarping(terms=3).")
    return warping
