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
from typing import NamedTuple

import torch
from torch import Tensor


class Profile(NamedTuple):
    """One radial function.

    evaluate: (K, G, factor). K holds s on entry; K becomes factor * k and, if ``slope`` is "matrix", G becomes factor * g.
        factor is the signal variance, (R, 1, 1), or None for 1. Whole matrices of autograd and blocks of the closed form come here alike.
    scale: s = scale r^2.
    steepness: c / scale.
    slope: what g is: "k" itself, as only the exponential has it, "one", or a "matrix" of its own.
    kinked: k is not smooth at r = 0, so that rounding of r^2 would show: distances come from differences.
    rougher: the profile whose values are g, if it has one.
    operation: the operation of programs that computes k from |s|.
    smoothness: of a Matern profile nu, which its spectral measure depends on; None for the squared exponential.
    """

    evaluate: Callable[[Tensor, Tensor | None, Tensor | None], object]
    scale: float
    steepness: float
    slope: str = "matrix"
    kinked: bool = False
    rougher: Profile | None = None
    operation: str | None = None
    smoothness: float | None = None


def _squared_distance(K: Tensor, G: Tensor | None, factor: Tensor | None) -> None:
    K.clamp_min_(0.0)


def _squared_exponential(K: Tensor, G: Tensor | None, factor: Tensor | None) -> None:
    K.exp_()
    if factor is not None:
        K.mul_(factor)


def _matern12(K: Tensor, G: Tensor | None, factor: Tensor | None) -> None:
    a = torch.sqrt(K, out=G)
    _decay(a, factor, out=K)
    # The slope is infinite at r = 0; there, the gradient counts as zero (its mean over directions).
    torch.div(K, a, out=a).nan_to_num_(nan=torch.nan, posinf=0.0)


def _matern32(K: Tensor, G: Tensor | None, factor: Tensor | None) -> None:
    a = K.clamp_min_(0.0).sqrt_()
    decay = _decay(a, factor, out=G)
    torch.addcmul(decay, a, decay, out=K)  # decay + a decay: one pass instead of two


def _matern52(K: Tensor, G: Tensor | None, factor: Tensor | None) -> None:
    a = torch.sqrt(K.clamp_min_(0.0), out=G)
    decay = _decay(a, factor)
    g = torch.addcmul(decay, a, decay, out=a)
    torch.addcmul(g, K, decay, value=1 / 3, out=K)


def _decay(a: Tensor, factor: Tensor | None, out: Tensor | None = None) -> Tensor:
    """factor exp(-a), in two passes: exp(log factor - a)."""
    return (torch.neg(a, out=out) if factor is None else torch.sub(factor.log(), a, out=out)).exp_()


SQUARED_DISTANCE = Profile(_squared_distance, scale=1.0, steepness=-2.0, slope="one", operation="squared_distances")
SQUARED_EXPONENTIAL = Profile(_squared_exponential, scale=-0.5, steepness=-2.0, slope="k", operation="squared_exponential")
MATERN12 = Profile(_matern12, scale=1.0, steepness=1.0, kinked=True, operation="matern12", smoothness=0.5)
MATERN32 = Profile(_matern32, scale=3.0, steepness=1.0, rougher=MATERN12, operation="matern32", smoothness=1.5)
MATERN52 = Profile(_matern52, scale=5.0, steepness=1 / 3, rougher=MATERN32, operation="matern52", smoothness=2.5)
