"""Radial profiles: k and its slope as functions of the squared distance, computed in place.

With s = scale r^2, a = sqrt(s) and dk/dr^2 = -c g / 2:

    profile               scale   k                          g              c
    squared distance      1       s                          1              -2
    squared exponential   -1/2    exp(s)                     k              1
    Matern 1/2            1       exp(-a)                    exp(-a) / a    1
    Matern 3/2            3       (1 + a) exp(-a)            exp(-a)        3
    Matern 5/2            5       (1 + a + s/3) exp(-a)      (1 + a) exp(-a)   5/3

So the slope of a Matern profile is the next rougher Matern profile at the same s, and the family differentiates itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Profile(NamedTuple):
    """One radial function.

    evaluate: (K, G, factor). K holds s on entry; K becomes factor * k and, if ``slope`` is "matrix", G becomes factor * g.
        factor is the signal variance, (R, 1, 1), or None for 1.
    scale: s = scale r^2.
    steepness: c / scale.
    slope: what g is: "k" itself, "one", or a "matrix" of its own.
    kinked: k is not smooth at r = 0, so that rounding of r^2 would show: distances come from differences.
    rougher: the profile whose values are g, if it has one.
    """

    evaluate: Callable[[Tensor, Any, Tensor | None], object]
    scale: float
    steepness: float
    slope: str = "matrix"
    kinked: bool = False
    rougher: Profile | None = None


def _squared_distance(K: Tensor, G: Any, factor: Tensor | None) -> None:
    K.clamp_min_(0.0)


def _squared_exponential(K: Tensor, G: Any, factor: Tensor | None) -> None:
    _scaled(K.exp_(), factor)


def _matern12(K: Tensor, G: Any, factor: Tensor | None) -> None:
    torch.sqrt(K, out=G)
    _scaled(torch.neg(G, out=K).exp_(), factor)
    # The slope is infinite at r = 0; there, the gradient counts as zero (its mean over directions).
    torch.div(K, G, out=G).nan_to_num_(nan=torch.nan, posinf=0.0)


def _matern32(K: Tensor, G: Any, factor: Tensor | None) -> None:
    K.clamp_min_(0.0).sqrt_()
    _scaled(torch.neg(K, out=G).exp_(), factor)
    K.add_(1.0).mul_(G)


def _matern52(K: Tensor, G: Any, factor: Tensor | None) -> None:
    torch.sqrt(K.clamp_min_(0.0), out=G)
    decay = _scaled(torch.neg(G).exp_(), factor)
    G.add_(1.0).mul_(decay)
    torch.add(G, K.mul_(decay), alpha=1 / 3, out=K)


def _scaled(A: Tensor, factor: Tensor | None) -> Tensor:
    return A if factor is None else A.mul_(factor)


SQUARED_DISTANCE = Profile(_squared_distance, scale=1.0, steepness=-2.0, slope="one")
SQUARED_EXPONENTIAL = Profile(_squared_exponential, scale=-0.5, steepness=-2.0, slope="k")
MATERN12 = Profile(_matern12, scale=1.0, steepness=1.0, kinked=True)
MATERN32 = Profile(_matern32, scale=3.0, steepness=1.0, rougher=MATERN12)
MATERN52 = Profile(_matern52, scale=5.0, steepness=1 / 3, rougher=MATERN32)
