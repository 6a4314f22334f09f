"""Policies that improve by gradients through predicted rollouts, and the loop around it (PILCO: Deisenroth and Rasmussen 2011).

    J(policy) = mean over steps h of E[cost(x_h)]

by one of two methods. "moments": x_h is Gaussian, with the mean and the covariance that the model implies, step by step; J is smooth, and its gradient reaches over the whole
horizon. "particles", for every regressor: x_p,h+1 = f_p(x_ph, policy(x_ph)) + noise, where each particle p follows a function f_p drawn from the posterior of the dynamics, so that a
policy has to work for every system that the recordings leave possible. One improvement keeps its draws (common random numbers): J is a smooth function of the policy's
parameters either way, its gradient is exact, and L-BFGS minimises it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from scipy.optimize import minimize
from sklearn.base import clone
from torch import Tensor, nn

from manifoldgp._system.real_numbers import as_numbers
from manifoldgp.data import inputs
from manifoldgp.dynamics.dynamics_model import DynamicsModel
from manifoldgp.dynamics.steps import ParticleStep, Policy
from manifoldgp.dynamics.trajectories import Trajectories
from manifoldgp.errors import InputError
from manifoldgp.estimators.units import on_device

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

PARTICLES = 20
"""Systems that a policy has to work for, at once."""

RIDGES = 256
"""Random ridges of a drawn function: a quarter of what a single draw has; over many steps they are most of the work."""

Cost = Callable[[Tensor], Tensor]
"""Costs (...) of states (..., S), of tensors."""

Clouds = Callable[[Policy], Iterator[Tensor]]
"""States (..., S) that stand for where a policy leads, step after step."""

Trial = Callable[[nn.Module], "tuple[ArrayLike, ArrayLike]"]
"""Applies a policy to the real system: the states (T + 1, S) and the actions (T, A) that were recorded."""


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


@dataclass(frozen=True)
class Improvement:
    """Predicted costs of a policy before and after it was improved, and at every evaluation on the way."""

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
    particles: int | None = None,
    evaluations: int = 40,
    random_state: int = 0,
) -> Improvement:
    """Change the parameters of a policy so that rollouts of the model cost less.

    Parameters
    ----------
    policy
        A torch module, states (..., S) to actions (..., A): `NetworkPolicy`, or your own.
    dynamics
        The fitted model; every regressor will do.
    cost
        Costs (...) of states (..., S), on tensors: `SaturatingCost`, or your own.
    starts : (n, S)
        Where trials begin; particles take them in turn, moments their mean and covariance.
    horizon
        Steps of a rollout.
    method
        "particles", or "moments", which is for plain GPs: quicker there, and its cost is smoother.
    particles
        Drawn functions, each with a trajectory of its own; None: 20. Moments have none, and refuse a number.
    evaluations
        Rollouts with their gradient, at most.
    random_state
        Draws functions and noise of particles, the same for all evaluations; moments draw nothing.
    """
    rolled = PredictedCost(dynamics, cost, starts, horizon, method, particles, random_state)
    parameters, costs, best = list(policy.parameters()), [], (np.inf, _flat(policy.parameters()))

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        nn.utils.vector_to_parameters(torch.tensor(theta), parameters)
        J = rolled(policy)
        gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(J, parameters)]).numpy()
        costs.append(float(J.detach()))
        if costs[-1] < best[0]:
            best = (costs[-1], theta.copy())
        return costs[-1], gradient

    most = inputs.whole_number(evaluations, "evaluations")
    # Saturated costs have small slopes, which SciPy would take for the end.
    options = {"maxfun": most, "maxiter": most, "maxcor": 50, "ftol": 1e-12, "gtol": 1e-10}
    minimize(evaluate, best[1], jac=True, method="L-BFGS-B", options=options)
    nn.utils.vector_to_parameters(torch.tensor(best[1]), parameters)  # a line search that was cut short may end elsewhere
    return Improvement(costs[0], best[0], np.array(costs))


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
        return torch.stack([self._cost(states).mean() for states in islice(self._clouds(policy), self._horizon)]).mean()


def _particles(dynamics: DynamicsModel, starts: Tensor, particles: int, random_state: int) -> Clouds:
    """Particles (P, 1, S) after 1, 2, ... steps, with the same functions and the same noise for every policy."""
    P = inputs.whole_number(particles, "particles")
    functions = dynamics.regressor_.sample_functions(P, random_state, ridges=RIDGES)
    noise = on_device(dynamics.regressor_, functions.noise_std().reshape(P, -1))
    first = starts[torch.arange(P) % len(starts)].unsqueeze(1)

    def clouds(policy: Policy) -> Iterator[Tensor]:
        step, states = ParticleStep(dynamics.space_, functions, noise, torch.Generator().manual_seed(random_state)), first
        while True:
            states = step(states, policy)
            yield states

    return clouds


def _moments(dynamics: DynamicsModel, starts: Tensor) -> Clouds:
    """Points (1, P, S) that have the mean and the covariance of the states after 1, 2, ... steps."""
    step, centre = dynamics.moment_step(method="auto"), starts.mean(0, keepdim=True)
    spread = ((starts - centre).mT @ (starts - centre) / len(starts)).unsqueeze(0)

    def clouds(policy: Policy) -> Iterator[Tensor]:
        mean, cov = centre, spread
        while True:
            mean, cov = step(mean, cov, policy)
            yield step.spread(mean, cov)[0]

    return clouds


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
    particles: int | None = None,
    evaluations: int = 40,
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
    policy, cost, starts, method, particles, evaluations, random_state
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


def _flat(parameters: Iterator[nn.Parameter]) -> np.ndarray:
    return nn.utils.parameters_to_vector(parameters).detach().numpy().copy()
