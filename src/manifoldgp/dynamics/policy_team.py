"""Policies of one kind that are improved side by side: one rollout of a model holds them all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

RATE = 0.03
"""Length of Adam's steps, in units of parameters."""

LAST_RATE = 0.05
"""Where steps are to become shorter, what is left of them in the end."""

STEEPEST = 1.0
"""Gradients are cut to this norm: those through a rollout that tips over are as large as they are useless."""


class PolicyTeam:
    """R policies, which differ in their parameters (R, ...) alone: states (P, R, S) to actions (P, R, A)."""

    def __init__(self, kind: nn.Module, parameters: dict[str, Tensor]) -> None:
        self.kind = kind
        self.parameters = parameters

    @classmethod
    def of(cls, policies: Sequence[nn.Module]) -> PolicyTeam:
        """From modules of the same shape."""
        named = [dict(policy.named_parameters()) for policy in policies]
        return cls(policies[0], {name: torch.stack([one[name].detach() for one in named]) for name in named[0]})

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def __call__(self, states: Tensor) -> Tensor:
        if len(self) == 1:  # of a module of the user's, which may hold what vmap does not know
            return self._one({name: value[0] for name, value in self.parameters.items()}, states)
        return torch.vmap(self._one, in_dims=(0, 1), out_dims=1)(self.parameters, states)

    def _one(self, parameters: dict[str, Tensor], states: Tensor) -> Tensor:
        return functional_call(self.kind, parameters, (states,))

    def only(self, places: Tensor) -> PolicyTeam:
        """Some of the policies."""
        return PolicyTeam(self.kind, {name: value[places].detach().clone() for name, value in self.parameters.items()})

    def __add__(self, other: PolicyTeam) -> PolicyTeam:
        return PolicyTeam(
            self.kind, {name: torch.cat([value, other.parameters[name]]) for name, value in self.parameters.items()}
        )

    def changed_copies(self, count: int, deviation: float, generator: torch.Generator) -> PolicyTeam:
        """Copies of random policies, with noise added to their parameters."""
        copies = self.only(torch.randint(len(self), (count,), generator=generator))
        for value in copies.parameters.values():
            value.add_(deviation * torch.randn(value.shape, generator=generator, dtype=value.dtype))
        return copies

    def write_to(self, policy: nn.Module) -> None:
        """Give a module the parameters of the first policy."""
        with torch.no_grad():
            for name, parameter in policy.named_parameters():
                parameter.copy_(self.parameters[name][0])


def improved(
    team: PolicyTeam, cost: Callable[[PolicyTeam], Tensor], evaluations: int, settle: bool
) -> tuple[PolicyTeam, Tensor, np.ndarray]:
    """Steps of Adam for all: each policy as it was at its lowest cost, these costs (R,), best first, and the lowest of all at each evaluation.

    settle: whether steps become shorter towards the end.
    """
    team = team.only(torch.arange(len(team)))
    values = [value.requires_grad_() for value in team.parameters.values()]
    adam = torch.optim.Adam(values, lr=RATE)
    lowest, best, costs = torch.full((len(team),), torch.inf, dtype=values[0].dtype), team.only(torch.arange(len(team))), []
    for n in range(evaluations):
        J = cost(team)
        here = J.detach() < lowest
        lowest = torch.where(here, J.detach(), lowest)
        for name, value in team.parameters.items():
            best.parameters[name][here] = value.detach()[here]
        costs.append(float(J.detach().min()))
        adam.param_groups[0]["lr"] = RATE * (_falling(n / evaluations) if settle else 1.0)
        _set_gradients(values, torch.autograd.grad(J.sum(), values))
        adam.step()
    order = lowest.argsort()
    return best.only(order), lowest[order], np.array(costs)


def _falling(part: float) -> float:
    """From 1 at the start to `LAST_RATE` at the end, along a cosine."""
    return LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * part))


def _set_gradients(values: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
    """Each policy's gradient, cut to a norm; that of a rollout that overflowed is left out."""
    clean = [torch.nan_to_num(g, 0.0, 0.0, 0.0) for g in gradients]
    norms = torch.stack([g.reshape(len(g), -1).square().sum(-1) for g in clean]).sum(0).sqrt()
    factor = STEEPEST / norms.clamp_min(STEEPEST)
    for value, g in zip(values, clean, strict=True):
        value.grad = g * factor.reshape(-1, *[1] * (g.ndim - 1))
