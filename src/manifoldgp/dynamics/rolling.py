"""Step after step: what acts on the system, and the loop over the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.real_numbers import as_numbers
from manifoldgp.data import inputs
from manifoldgp.dynamics.rollout import Rollout
from manifoldgp.dynamics.state_space import StateSpace
from manifoldgp.dynamics.steps import MeanStep, MomentStep, ParticleStep, Policy
from manifoldgp.errors import InputError
from manifoldgp.inference.uncertain_inputs import root

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Rolled:
    """States of all steps: mean (n, H + 1, S), covariance (n, H + 1, S, S), particles (P, n, H + 1, S) or None, actions (n, H, A)."""

    mean: Tensor
    covariance: Tensor
    particles: Tensor | None
    actions: Tensor
    method: str

    def rollout(self, space: StateSpace, single: bool) -> Rollout:
        """As arrays; single: without the dimension of starts."""
        parts = [self.mean, self.covariance, self.actions]
        mean, covariance, actions = (part.cpu().numpy()[0] if single else part.cpu().numpy() for part in parts)
        drawn = None if self.particles is None else self.particles.cpu().numpy()
        drawn = drawn[:, 0] if single and drawn is not None else drawn
        return Rollout(mean, covariance, drawn, actions, space.state_names, space.dt, self.method)


def act_of(actions: ArrayLike | None, policy: Policy | None, horizon: int | None, n: int, A: int) -> tuple[Tensor | Policy, int]:
    """What acts: tensors (n, H, A) or the policy, and the horizon H."""
    H = None if horizon is None else inputs.whole_number(horizon, "horizon")
    if policy is not None:
        if actions is not None or H is None or not A:
            raise InputError("A policy needs a horizon and a system with actions, and goes without actions.")
        return policy, H
    if actions is None:
        if H is None or A:
            raise InputError("Give actions or a policy." if A else "Give a horizon: this system has no actions.")
        return torch.zeros(n, H, 0, dtype=torch.float64), H
    U = as_numbers(actions, "actions")
    U = np.broadcast_to(U, (n, *U.shape)) if U.ndim == 2 else U
    H = U.shape[1] if H is None and U.ndim == 3 else H
    if U.ndim != 3 or U.shape[::2] != (n, A) or H is None or U.shape[1] < H or not np.isfinite(U).all():
        raise InputError(
            f"actions must be finite numbers (H, {A}), or ({n}, H, {A}), with a row for each of {H} steps; got shape {U.shape}."
        )
    return torch.tensor(U[:, :H]), H


def roll(
    step: MeanStep | MomentStep | ParticleStep,
    states: Tensor,
    cov: Tensor,
    act: Tensor | Policy,
    H: int,
    generator: torch.Generator,
) -> Rolled:
    """H steps from states (n, S) with covariances (n, S, S)."""
    if isinstance(step, MomentStep):
        return _by_moments(step, states, cov, act, H)
    if isinstance(step, MeanStep):
        return _by_means(step, states, act, H)
    return _by_particles(step, states, cov, act, H, generator)


def _by_moments(step: MomentStep, mean: Tensor, cov: Tensor, act: Tensor | Policy, H: int) -> Rolled:
    means, covs = [mean], [cov]
    for h in range(H):
        mean, cov = step(mean, cov, act if callable(act) else act[:, h])
        means.append(mean)
        covs.append(cov)
    mean = torch.stack(means, 1)
    return Rolled(mean, torch.stack(covs, 1), None, _done(act, mean), step.method)


def _by_means(step: MeanStep, states: Tensor, act: Tensor | Policy, H: int) -> Rolled:
    means = [states]
    for h in range(H):
        means.append(step(means[-1], act if callable(act) else act[:, h]))
    mean = torch.stack(means, 1)
    return Rolled(mean, mean.new_zeros(*mean.shape, mean.shape[-1]), None, _done(act, mean), "mean")


def _by_particles(
    step: ParticleStep, states: Tensor, cov: Tensor, act: Tensor | Policy, H: int, generator: torch.Generator
) -> Rolled:
    P = len(step.functions)
    shock = torch.randn(P, *states.shape, generator=generator, dtype=states.dtype).to(states)
    away = (root(cov) @ shock.unsqueeze(-1)).squeeze(-1) if bool(cov.any()) else torch.zeros_like(shock)
    drawn = [step.space.proper(states + away)]
    for h in range(H):
        drawn.append(step(drawn[-1], act if callable(act) else act[:, h]))
    particles = torch.stack(drawn, -2)
    mean = step.space.proper(particles.mean(0))
    deviation = particles - mean
    covariance = torch.einsum("pnhi,pnhj->nhij", deviation, deviation) / (P - 1)
    return Rolled(mean, covariance, particles, _done(act, mean), "particles")


def _done(act: Tensor | Policy, mean: Tensor) -> Tensor:
    return act(mean[:, :-1]) if callable(act) else act
