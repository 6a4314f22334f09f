"""Policies that improve on a model of a system, and the loop around it (PILCO: Deisenroth and Rasmussen 2011).

The predicted cost of a policy has many poor minima, in which a pole hangs or a cart runs away: from a single start most searches end in one. Hence rivals: many random policies
are compared, the best are improved side by side, and in rounds all but the best of these are replaced by changed copies of them (an evolution whose individuals follow gradients).
The policy of the turn before joins in the end: if it were there from the beginning, its copies would soon be all, and one poor minimum would be searched again and again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from sklearn.base import clone
from torch import nn

from manifoldgp._system.real_numbers import as_numbers
from manifoldgp.data import inputs
from manifoldgp.dynamics.dynamics_model import DynamicsModel
from manifoldgp.dynamics.policy_team import PolicyTeam, improved
from manifoldgp.dynamics.predicted_cost import PARTICLES, Cost, PredictedCost
from manifoldgp.dynamics.trajectories import Trajectories

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

RIVALS = 256
"""Random policies that are compared before the first round."""

ROUNDS = 10
"""Rounds with rivals, which have five eighths of the evaluations together."""

TEAM, PARENTS = 48, 8
"""Policies in a round, and how many of them go on to the next."""

CHANGE = 0.15
"""Standard deviation of what is added to the parameters of a copy."""

FINALISTS = 3
"""Rivals that meet the given policy in the end, with all particles; rounds have a third of them."""

Trial = Callable[[nn.Module], "tuple[ArrayLike, ArrayLike]"]
"""Applies a policy to the real system: the states (T + 1, S) and the actions (T, A) that were recorded."""

Rivals = Callable[[int], nn.Module]
"""Makes a random policy from a seed."""


@dataclass(frozen=True)
class Improvement:
    """Predicted costs of a policy before and after it was improved, and the lowest at each evaluation of the last round; all by the same draws."""

    before: float
    after: float
    costs: np.ndarray


@dataclass(frozen=True)
class Attempt:
    """One turn of the loop: the trial with the improved policy, its cost, what was predicted, all recordings so far, and the model that the policy was improved on."""

    states: np.ndarray
    actions: np.ndarray
    cost: float
    improvement: Improvement
    recorded: Trajectories
    dynamics: DynamicsModel


def improve(
    policy: nn.Module,
    dynamics: DynamicsModel,
    cost: Cost,
    starts: ArrayLike,
    horizon: int,
    *,
    method: str = "particles",
    rivals: Rivals | None = None,
    particles: int | None = None,
    evaluations: int = 160,
    random_state: int = 0,
) -> Improvement:
    """Change the parameters of a policy so that rollouts of the model cost less.

    Parameters
    ----------
    policy
        A torch module, states (..., S) to actions (..., A): `RadialPolicy`, `NetworkPolicy`, or your own.
    dynamics
        The fitted model; every regressor will do.
    cost
        Costs (...) of states (..., S), on tensors: `SaturatingCost`, or your own.
    starts : (n, S)
        Where trials begin; particles take them in turn, moments their mean and covariance.
    horizon
        Steps of a rollout.
    method
        "particles", or "moments", which is for plain GPs.
    rivals
        Makes a random policy of the same kind from a seed, ``lambda seed: RadialPolicy(..., random_state=seed)``: 256 are compared, the best improved and bred, the last
        three improved beside the given one, and the winner's parameters end in it. None: the given one alone.
    particles
        Drawn functions, each with a trajectory of its own; None: 24. Moments have none, and refuse a number.
    evaluations
        Rollouts with their gradient, each a step of Adam; of all rounds together.
    random_state
        Draws rivals, functions and noise, the same for all evaluations of a round.
    """
    most = inputs.whole_number(evaluations, "evaluations")
    count = particles if method == "moments" else PARTICLES if particles is None else particles

    def predicted(fewer: int, seed: int) -> PredictedCost:
        few = count if count is None else math.ceil(inputs.whole_number(count, "particles") / fewer)
        return PredictedCost(dynamics, cost, starts, horizon, method, few, random_state + seed)

    team = PolicyTeam.of([policy])
    if rivals is not None:
        team = team + _after_rounds(rivals, predicted(3, 1), most * 5 // 8, random_state)
        most = most - most * 5 // 8
    rolled = predicted(1, 0)
    team, lowest, costs = improved(team, rolled.of_team, most, settle=True)
    with torch.no_grad():
        before = float(rolled(policy))
    if float(lowest[0]) < before:
        team.write_to(policy)
    return Improvement(before, min(before, float(lowest[0])), costs)


def _after_rounds(rivals: Rivals, predicted: PredictedCost, evaluations: int, random_state: int) -> PolicyTeam:
    """The best few rivals, after rounds of improvement."""
    seeds, generator = (
        np.random.default_rng(random_state).integers(2**31, size=RIVALS),
        torch.Generator().manual_seed(random_state),
    )
    team = PolicyTeam.of([rivals(int(seed)) for seed in seeds])
    with torch.no_grad():
        team = team.only(predicted.of_team(team).nan_to_num(torch.inf).argsort()[:TEAM])
    for _ in range(ROUNDS):
        parents = improved(team, predicted.of_team, math.ceil(evaluations / ROUNDS), settle=False)[0].only(torch.arange(PARENTS))
        team = parents + parents.changed_copies(TEAM - PARENTS, CHANGE, generator)
    return parents.only(torch.arange(FINALISTS))


def search(
    policy: nn.Module,
    trial: Trial,
    dynamics: DynamicsModel,
    cost: Cost,
    recorded: Trajectories,
    starts: ArrayLike,
    *,
    trials: int = 7,
    method: str = "particles",
    rivals: Rivals | None = None,
    particles: int | None = None,
    evaluations: int = 160,
    random_state: int = 0,
) -> Iterator[Attempt]:
    """Learn the dynamics, improve the policy on them, try it, add what was recorded, and so on; the policy is changed in place.

    It is a loop that you can leave: ``for attempt in search(...): if attempt.cost < 0.2: break``.

    Parameters
    ----------
    trial
        Applies a policy to the system: trial(policy) returns states (T + 1, S) and actions (T, A).
    dynamics
        The model to be fitted, again for each trial.
    recorded
        First recordings, of random actions for example. Rollouts are as long as the longest of them.
    trials
        Turns of the loop, at most.
    policy, cost, starts, method, rivals, particles, evaluations, random_state
        As in `improve`; each turn draws anew.
    """
    horizon = max(len(run) for run in recorded.runs) - 1
    for turn in range(inputs.whole_number(trials, "trials")):
        model = cast(DynamicsModel, clone(dynamics)).fit(recorded)
        found = improve(
            policy,
            model,
            cost,
            starts,
            horizon,
            method=method,
            rivals=rivals,
            particles=particles,
            evaluations=evaluations,
            random_state=random_state + turn,
        )
        states, actions = (as_numbers(part, "What a trial recorded") for part in trial(policy))
        run = Trajectories.from_arrays(
            [states], [actions], dt=recorded.dt, state_names=recorded.state_names, action_names=recorded.action_names
        )
        recorded = recorded + run
        yield Attempt(states, actions, float(cost(torch.as_tensor(states[1:])).mean()), found, recorded, model)
