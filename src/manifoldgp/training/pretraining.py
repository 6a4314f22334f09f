"""Starting values of a network: it is trained by small steps on few rows at a time to predict the targets itself, before a GP takes over its features.

Adam on minibatches finds good features of many rows for the price of a few evaluations of the bound. The network's outputs go through a head,

    ŷ = v · tanh(U H + c) + d,

which is thrown away: without it one feature would do for ŷ, and the others would learn nothing that a GP could use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from manifoldgp.features import MLP
from manifoldgp.model import Data
from manifoldgp.parameters import Tree, leaves, nest

BATCH, HEAD = 256, 32
RATE, RISE = 5e-3, 0.3
"""The largest step of Adam, and the share of all steps at which it is reached."""

MOST_ROWS = 50_000
"""Rows that pretraining sees, at most."""

_DECAY, _MEAN, _SQUARE = 1e-4, 0.9, 0.999


def pretrained(network: MLP, start: Tree, rows: Data, epochs: int, seed: int, over: Callable[[], bool]) -> Tree:
    """Values of the network (without batch) after Adam has seen every row ``epochs`` times, in minibatches and single precision.

    over: asked after every step whether this was the last one.
    """
    generator = torch.Generator(device=rows.X.device).manual_seed(seed)
    X, y = rows.X.float(), rows.y.float()
    named = {name: leaf.detach().float() for name, leaf in leaves(start)} | _head(network.sizes[-1], X, generator)
    of_network = [name for name, _ in leaves(start)]
    theta = torch.cat([leaf.reshape(-1) for leaf in named.values()])
    ends = list(accumulate((leaf.numel() for leaf in named.values()), initial=0))

    def split(flat: Tensor) -> dict[str, Tensor]:
        return {name: flat[a:b].view(leaf.shape) for (name, leaf), (a, b) in zip(named.items(), pairwise(ends), strict=True)}

    mean, square, steps = torch.zeros_like(theta), torch.zeros_like(theta), max(1, epochs * len(y) // BATCH)
    for step in range(1, steps + 1):
        chosen = torch.randint(len(y), (min(BATCH, len(y)),), generator=generator, device=X.device)
        with torch.enable_grad():
            leaf = theta.detach().requires_grad_()
            values = split(leaf)
            H = network(nest({name: values[name] for name in of_network}), X[chosen])
            predicted = torch.tanh(H @ values["U"] + values["c"]) @ values["v"] + values["d"]
            (gradient,) = torch.autograd.grad(((predicted - y[chosen]) ** 2).mean(), leaf)
        mean.lerp_(gradient, 1 - _MEAN)
        square.mul_(_SQUARE).addcmul_(gradient, gradient, value=1 - _SQUARE)
        rate = _rate(step / steps)
        theta = theta * (1 - rate * _DECAY)
        theta.addcdiv_(mean, (square / (1 - _SQUARE**step)).sqrt_().add_(1e-8), value=-rate / (1 - _MEAN**step))
        if over():
            break
    found = split(theta)
    return nest({name: found[name].double() for name in of_network})


def _rate(share: float) -> float:
    """The step of Adam after a share of all steps: it rises to RATE and falls to nothing, each as half a cosine.

    >>> [round(_rate(share) / RATE, 3) for share in (0.0, RISE, 1.0)]
    [0.04, 1.0, 0.0]
    """
    low, way = (0.04, share / RISE) if share < RISE else (0.0, (1.0 - share) / (1.0 - RISE))
    return RATE * (low + (1.0 - low) * 0.5 * (1.0 - math.cos(math.pi * way)))


def _head(width: int, X: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    U = torch.randn(width, HEAD, generator=generator, device=X.device) / math.sqrt(width)
    v = torch.randn(HEAD, generator=generator, device=X.device) / math.sqrt(HEAD)
    return {"U": U, "c": X.new_zeros(HEAD), "v": v, "d": X.new_zeros(1)}
