"""Starting values of a network: it is trained by small steps on few rows at a time to predict the targets itself, before a GP takes over its features.

Adam on minibatches finds good features of many rows for the price of a few evaluations of the bound. The network's outputs go through a head,

    ŷ = v · tanh(U H + c) + d,

which is thrown away: without it one feature would do for ŷ, and the others would learn nothing that a GP could use.
(Without targets, to reconstruct the inputs: features/autoencoder.py.)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from manifoldgp.features import MLP
from manifoldgp.features.minibatches import BATCH, Named, minimised
from manifoldgp.model import Data
from manifoldgp.parameters import Tree, leaves, nest

HEAD = 32

MOST_ROWS = 50_000
"""Rows that pretraining sees, at most."""


def pretrained_on_targets(network: MLP, start: Tree, rows: Data, epochs: int, seed: int, over: Callable[[], bool]) -> Tree:
    """Values of the network (without batch) after Adam has seen every row ``epochs`` times, in minibatches and single precision.

    over: asked after every step whether this was the last one.
    """
    generator = torch.Generator(device=rows.X.device).manual_seed(seed)
    X, y = rows.X.float(), rows.y.float()
    of_network = [name for name, _ in leaves(start)]

    def error(values: Named, chosen: Tensor) -> Tensor:
        H = network(nest({name: values[name] for name in of_network}), X[chosen])
        predicted = torch.tanh(H @ values["U"] + values["c"]) @ values["v"] + values["d"]
        return ((predicted - y[chosen]) ** 2).mean()

    named = {name: leaf.detach().float() for name, leaf in leaves(start)} | _head(network.sizes[-1], X, generator)
    found = minimised(named, error, len(y), max(1, epochs * len(y) // BATCH), generator, lambda step, values: over())
    return nest({name: found[name].double() for name in of_network})


def _head(width: int, X: Tensor, generator: torch.Generator) -> Named:
    U = torch.randn(width, HEAD, generator=generator, device=X.device) / math.sqrt(width)
    v = torch.randn(HEAD, generator=generator, device=X.device) / math.sqrt(HEAD)
    return {"U": U, "c": X.new_zeros(HEAD), "v": v, "d": X.new_zeros(1)}
