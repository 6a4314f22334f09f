"""Starting values of a network: it is trained by small steps on few rows at a time to predict the targets itself, before a GP takes over its features.

Adam on minibatches finds good features of many rows for the price of a few evaluations of the bound. The network's outputs go through a head,

    ŷ = v · tanh(U H + c) + d,

which is thrown away: without it one feature would do for ŷ, and the others would learn nothing that a GP could use.
"""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor

from manifoldgp.features import MLP
from manifoldgp.model import Data
from manifoldgp.parameters import Tree, leaves, nest

BATCH, HEAD = 256, 32
RATE, DECAY = 5e-3, 1e-4
MOST_ROWS = 50_000


def pretrained(network: MLP, start: Tree, rows: Data, epochs: int, seed: int, deadline: float = math.inf) -> Tree:
    """Values of the network (without batch) after Adam has seen every row ``epochs`` times, in minibatches and single precision; its rate rises and falls once."""
    steps = max(1, epochs * len(rows.y) // BATCH)
    generator = torch.Generator(device=rows.X.device).manual_seed(seed)
    X, y = rows.X.float(), rows.y.float()
    named = {name: leaf.detach().float().clone().requires_grad_() for name, leaf in leaves(start)}
    head = _head(network.sizes[-1], X, generator)
    weights = [*named.values(), *head]
    minimiser = torch.optim.AdamW(weights, RATE, weight_decay=DECAY)
    cycle = torch.optim.lr_scheduler.OneCycleLR(minimiser, RATE, total_steps=steps + 1)
    with torch.enable_grad():
        for _ in range(steps):
            chosen = torch.randint(len(y), (min(BATCH, len(y)),), generator=generator, device=X.device)
            H = network(nest(named), X[chosen])
            predicted = torch.tanh(H @ head[0] + head[1]) @ head[2] + head[3]
            loss = ((predicted - y[chosen]) ** 2).mean()
            minimiser.zero_grad()
            loss.backward()
            minimiser.step()
            cycle.step()
            if time.perf_counter() > deadline:
                break
    return nest({name: leaf.detach().double() for name, leaf in named.items()})


def _head(width: int, X: Tensor, generator: torch.Generator) -> list[Tensor]:
    U = torch.randn(width, HEAD, generator=generator, device=X.device) / math.sqrt(width)
    v = torch.randn(HEAD, generator=generator, device=X.device) / math.sqrt(HEAD)
    return [weight.requires_grad_() for weight in (U, X.new_zeros(HEAD), v, X.new_zeros(()))]
