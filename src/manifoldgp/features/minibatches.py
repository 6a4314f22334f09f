"""Adam on minibatches in single precision: how a network learns from many rows for the price of a few evaluations, before a GP takes over its features."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import accumulate, pairwise

import torch
from torch import Tensor

BATCH = 256
RATE, RISE = 5e-3, 0.3
"""The largest step of Adam, and the share of all steps at which it is reached."""

_DECAY, _MEAN, _SQUARE = 1e-4, 0.9, 0.999

Named = dict[str, Tensor]
"""Values by their dotted names."""


def minimised(
    start: Mapping[str, Tensor],
    loss: Callable[[Named, Tensor], Tensor],
    rows: int,
    steps: int,
    generator: torch.Generator,
    over: Callable[[int, Named], bool],
) -> Named:
    """Values (float32) after so many steps of Adam.

    loss(values, chosen): of the rows with these numbers. over(step, values): asked after every step whether it was the last one.
    """
    theta = torch.cat([leaf.reshape(-1) for leaf in start.values()])
    ends = list(accumulate((leaf.numel() for leaf in start.values()), initial=0))

    def split(flat: Tensor) -> Named:
        return {name: flat[a:b].view(leaf.shape) for (name, leaf), (a, b) in zip(start.items(), pairwise(ends), strict=True)}

    mean, square = torch.zeros_like(theta), torch.zeros_like(theta)
    for step in range(1, steps + 1):
        chosen = torch.randint(rows, (min(BATCH, rows),), generator=generator, device=generator.device).to(theta.device)
        with torch.enable_grad():
            leaf = theta.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(loss(split(leaf), chosen), leaf)
        mean.lerp_(gradient, 1 - _MEAN)
        square.mul_(_SQUARE).addcmul_(gradient, gradient, value=1 - _SQUARE)
        rate = _rate(step / steps)
        theta = theta * (1 - rate * _DECAY)
        theta.addcdiv_(mean, (square / (1 - _SQUARE**step)).sqrt_().add_(1e-8), value=-rate / (1 - _MEAN**step))
        if over(step, split(theta)):
            break
    return split(theta)


def _rate(share: float) -> float:
    """The step of Adam after a share of all steps: it rises to RATE and falls to nothing, each as half a cosine.

    >>> [round(_rate(share) / RATE, 3) for share in (0.0, RISE, 1.0)]
    [0.04, 1.0, 0.0]
    """
    low, way = (0.04, share / RISE) if share < RISE else (0.0, (1.0 - share) / (1.0 - RISE))
    return RATE * (low + (1.0 - low) * 0.5 * (1.0 - math.cos(math.pi * way)))
