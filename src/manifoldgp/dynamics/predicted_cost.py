"""What a policy costs, by rollouts of a fitted model:

    J(policy) = mean over steps h of E[cost(x_h)]

by one of two methods. "particles", for every regressor: x_p,h+1 = f_p(x_ph, policy(x_ph)) + noise, where each particle p follows a function f_p drawn from the posterior of the
dynamics, so that a policy has to work for every system that the recordings leave possible. "moments": x_h is Gaussian, with the mean and the covariance that the model implies, step
by step. Draws are kept (common random numbers): J is a smooth function of the policy's parameters either way, and its gradient is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from manifoldgp._system.real_numbers import as_numbers
from manifoldgp.data import inputs
from manifoldgp.dynamics.dynamics_model import DynamicsModel
from manifoldgp.dynamics.policy_team import PolicyTeam
from manifoldgp.dynamics.steps import ParticleStep, Policy
from manifoldgp.errors import InputError
from manifoldgp.estimators.units import on_device

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

PARTICLES = 24
"""Systems that a policy has to work for, at once."""

RIDGES = 32
"""Random ridges of a drawn function: far fewer than a single draw has; over many steps they would be most of the work."""

Cost = Callable[[Tensor], Tensor]
"""Costs (...) of states (..., S), of tensors."""

Clouds = Callable[[Policy, int], Iterator[Tensor]]
"""States (P, R, S) that stand for where each of R policies leads, step after step; the policies are one function, states (P, R, S) to actions (P, R, A)."""


@dataclass(frozen=True)
class SaturatingCost:
    """1 − exp(−|z − target|² / (2 width²)): 0 at the target, 1 wherever it is far, so that one bad particle does not outweigh the others.

    Parameters
    ----------
    target : (K,)
        Where z should be.
    width
        A distance that matters; half of the cost is reached at 1.2 times it.
    of
        What z (..., K) is of states (..., S), on tensors, such as the place of a tip; None: the states themselves.

    Examples
    --------
    >>> cost = SaturatingCost(target=[1.0], width=0.5, of=lambda states: states[..., :1])
    >>> [round(float(c), 2) for c in cost(torch.tensor([[1.0, 7.0], [1.5, 7.0], [9.0, 7.0]]))]
    [0.0, 0.39, 1.0]
    """

    target: ArrayLike
    width: float
    of: Callable[[Tensor], Tensor] | None = None

    def __call__(self, states: Tensor) -> Tensor:
        z = states if self.of is None else self.of(states)
        away = (z - torch.as_tensor(np.asarray(self.target), dtype=z.dtype)) / self.width
        return -torch.expm1(-0.5 * away.square().sum(-1))


class PredictedCost:
    """The cost of a policy over rollouts of a model, as a differentiable function of its parameters; the arguments are those of `improve`."""

    def __init__(
        self,
        dynamics: DynamicsModel,
        cost: Cost,
        starts: ArrayLike,
        horizon: int,
        method: str = "particles",
        particles: int | None = None,
        random_state: int = 0,
    ) -> None:
        given, S = as_numbers(starts, "starts"), len(dynamics.space_.state_names)
        if given.ndim != 2 or given.shape[1] != S or not len(given):
            raise InputError(f"starts must be states (n, {S}), a row for each start; got shape {given.shape}.")
        if method not in ("particles", "moments"):
            raise InputError(f"method must be 'particles' or 'moments'; got {method!r}.")
        if method == "moments" and particles is not None:
            raise InputError(f"particles={particles} has no effect on method='moments'. Leave it out, or use method='particles'.")
        self._cost, self._horizon = cost, inputs.whole_number(horizon, "horizon")
        states = on_device(dynamics.regressor_, given)
        self._clouds = (
            _moments(dynamics, states)
            if method == "moments"
            else _particles(dynamics, states, PARTICLES if particles is None else particles, random_state)
        )

    def __call__(self, policy: nn.Module) -> Tensor:
        """The mean over what stands for the states, and over steps."""
        return self._each(policy, 1)[0]

    def of_team(self, team: PolicyTeam) -> Tensor:
        """The cost of each policy (R,)."""
        return self._each(team, len(team))

    def _each(self, policy: Policy, R: int) -> Tensor:
        return torch.stack([self._cost(states).mean(0) for states in islice(self._clouds(policy, R), self._horizon)]).mean(0)


def _particles(dynamics: DynamicsModel, starts: Tensor, particles: int, random_state: int) -> Clouds:
    """Particles after 1, 2, ... steps, with the same functions and the same noise whenever it is asked."""
    P = inputs.whole_number(particles, "particles")
    functions, noise = dynamics.drawn_functions(P, RIDGES, random_state)
    first = starts[torch.arange(P) % len(starts)].unsqueeze(1)

    def clouds(policy: Policy, R: int) -> Iterator[Tensor]:
        step = ParticleStep(dynamics.space_, functions, noise, torch.Generator().manual_seed(random_state), shared=True)
        states = first.expand(-1, R, -1)
        while True:
            states = step(states, policy)
            yield states

    return clouds


def _moments(dynamics: DynamicsModel, starts: Tensor) -> Clouds:
    """Points that have the mean and the covariance of the states after 1, 2, ... steps."""
    step, centre = dynamics.moment_step(method="auto"), starts.mean(0, keepdim=True)
    spread = ((starts - centre).mT @ (starts - centre) / len(starts)).unsqueeze(0)

    def clouds(policy: Policy, R: int) -> Iterator[Tensor]:
        def act(states: Tensor) -> Tensor:  # moments have the dimension of policies first
            return policy(states.transpose(0, 1)).transpose(0, 1)

        mean, cov = centre.expand(R, -1), spread.expand(R, -1, -1)
        while True:
            mean, cov = step(mean, cov, act)
            yield step.spread(mean, cov)[0].transpose(0, 1)

    return clouds
