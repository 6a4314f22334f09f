"""What is left of a sparse network: which inputs, units and features remain, and the smaller network that computes the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from manifoldgp.features.network import MLP
from manifoldgp.parameters import GroupSparse, Tree


@dataclass(frozen=True)
class Remaining:
    """Which inputs (R, D) of R members, and which units (R, q_i) of each layer, still have an effect; the units of the last layer are the features."""

    inputs: Tensor
    units: tuple[Tensor, ...]


def remaining(network: MLP, values: Tree, exactly: bool = False) -> Remaining:
    """What the sparse prior has left of a network; values with leaves (R, *shape). exactly: what is zero alone is off, not what is negligible.

    An input or a hidden unit is off when nothing goes out of it, a feature when nothing comes in; the largest of them always counts as left.
    """
    assert network.sparsity is not None
    least, weights = 0.0 if exactly else GroupSparse(network.sparsity).negligible, _weights(network, values)
    outgoing = [_above(W.norm(dim=-1), least) for W in weights]
    return Remaining(outgoing[0], (*outgoing[1:], _above(weights[-1].norm(dim=-2), least)))


def pruned(network: MLP, values: Tree, left: Remaining, features: bool) -> tuple[MLP, Tree, Tensor, Tensor]:
    """A smaller network with its values, and what it keeps: inputs (D',) that any member uses, and features (R, Q') of each member.

    Members with fewer units than others keep some that are off, with outgoing weights of zero; so do all of them where features are to stay.
    """
    inputs = left.inputs.any(0).nonzero()[:, 0]
    everything = torch.arange(left.units[-1].shape[-1], device=inputs.device).expand_as(left.units[-1])
    kept = [_largest(alive) for alive in left.units[:-1]]
    kept.append(_largest(left.units[-1]) if features else everything)
    before, alive_before = inputs.expand(len(kept[0]), -1), left.inputs
    smaller: Tree = {}
    for i, (units, alive) in enumerate(zip(kept, left.units, strict=True)):
        layer = dict(values[str(i)])
        first, last = ("weight", "weight") if "weight" in layer else ("left", "right")
        layer[first] = torch.where(alive_before[..., None], layer[first], 0.0)
        layer[first] = layer[first].gather(-2, before[..., None].expand(*before.shape, layer[first].shape[-1]))
        layer[last] = layer[last].gather(-1, units[:, None, :].expand(-1, layer[last].shape[-2], -1))
        layer["bias"] = layer["bias"].gather(-1, units)
        if first == "left" and not network.is_low_rank(before.shape[-1], units.shape[-1]):
            layer = {"weight": layer["left"] @ layer["right"], "bias": layer["bias"]}
        smaller[str(i)] = layer
        before, alive_before = units, alive
    return replace(network, sizes=tuple(units.shape[-1] for units in kept)), smaller, inputs, kept[-1]


def _weights(network: MLP, values: Tree) -> list[Tensor]:
    """The matrix W_i (R, q_i₋₁, q_i) of every layer."""
    layers = [values[str(i)] for i in range(len(network.sizes))]
    return [layer["weight"] if "weight" in layer else layer["left"] @ layer["right"] for layer in layers]


def _above(sizes: Tensor, least: float) -> Tensor:
    return (sizes > least) | (sizes == sizes.amax(-1, keepdim=True))


def _largest(alive: Tensor) -> Tensor:
    """The places (R, k) of what is alive (R, n), in their order, filled up with others to the number k of the member that has most."""
    k = int(alive.sum(-1).max())
    return torch.argsort(~alive, dim=-1, stable=True)[:, :k].sort(-1).values
