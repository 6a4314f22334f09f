"""How good rollouts are, step by step: errors, densities and coverage on runs that the model has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from manifoldgp.data import inputs
from manifoldgp.dynamics.rollout import Rollout
from manifoldgp.dynamics.state_space import StateSpace
from manifoldgp.dynamics.trajectories import Trajectories
from manifoldgp.errors import InputError

if TYPE_CHECKING:
    from manifoldgp.data.inputs import RandomState
    from manifoldgp.dynamics.dynamics_model import DynamicsModel

BAND = 0.95
"""The share of the bands whose coverage is counted."""


@dataclass(frozen=True)
class Starts:
    """Where rollouts of recorded runs begin: states (n, S), actions (n, H, A) and what happened then, truth (n, H + 1, S)."""

    states: np.ndarray
    actions: np.ndarray
    truth: np.ndarray


@dataclass(frozen=True)
class HorizonScores:
    """Scores after 1, 2, ..., H steps; made by ``model.score``. Print it for a table.

    Parameters
    ----------
    rmse : (H, S)
        Errors of each state in its units.
    nlpp : (H, S)
        Mean negative log density of each state, in nats: of a Gaussian with the mean and the variance of the rollout.
    coverage : (H, S)
        Share of states inside their 95 % bands.
    scale : (S,)
        Standard deviations of the recorded states.
    state_names
        Names of the states.
    starts
        How many rollouts they are averages of.
    """

    rmse: np.ndarray
    nlpp: np.ndarray
    coverage: np.ndarray
    scale: np.ndarray
    state_names: tuple[str, ...]
    starts: int

    @property
    def horizon(self) -> int:
        """Steps H."""
        return len(self.rmse)

    @property
    def relative_rmse(self) -> np.ndarray:
        """Errors (H,) of all states together, each in units of its standard deviation."""
        return np.sqrt(np.mean((self.rmse / self.scale) ** 2, 1))

    def __str__(self) -> str:
        lines = [
            f"{self.starts} rollouts; RMSE in standard deviations of the states, NLPP in nats a state",
            "steps   RMSE   NLPP  coverage of 95 % bands",
        ]
        shown = sorted({1, *(round(self.horizon * share) for share in (0.1, 0.25, 0.5, 0.75)), self.horizon} - {0})
        for h in shown:
            nlpp, coverage = self.nlpp[h - 1].mean(), self.coverage[h - 1].mean()
            lines.append(f"{h:5d}  {self.relative_rmse[h - 1]:5.3f}  {nlpp:5.2f}  {100 * coverage:5.1f} %")
        return "\n".join(lines)


def starts_of(trajectories: Trajectories, horizon: int, every: int) -> Starts:
    """Rollouts from every so many rows of each run, as long as the whole horizon is recorded."""
    pieces = [(run, t) for run in trajectories.runs for t in range(0, len(run) - horizon, every)]
    if not pieces:
        longest = max(map(len, trajectories.runs))
        raise InputError(f"No run has {horizon + 1} rows; the longest has {longest}. Take a horizon of {longest - 1} or less.")
    truth = np.stack([run.states[t : t + horizon + 1] for run, t in pieces])
    actions = np.stack([run.actions[t : t + horizon] for run, t in pieces])
    return Starts(truth[:, 0], actions, truth)


def score_rollout(rollout: Rollout, truth: np.ndarray, space: StateSpace, scale: np.ndarray) -> HorizonScores:
    """Scores of a rollout of n starts against what happened, (n, H + 1, S)."""
    error = space.difference(truth, rollout.mean)[:, 1:]
    variance = rollout.std[:, 1:] ** 2 + (1e-9 * scale) ** 2
    nlpp = 0.5 * (error**2 / variance + np.log(2 * np.pi * variance))
    lower, upper = (space.difference(end, rollout.mean)[:, 1:] for end in rollout.interval(BAND))
    slack = 1e-9 * scale
    inside = (error >= lower - slack) & (error <= upper + slack)
    rmse = np.sqrt((error**2).mean(0))
    return HorizonScores(rmse, nlpp.mean(0), inside.mean(0), scale, space.state_names, len(truth))


def spread_of(trajectories: Trajectories) -> np.ndarray:
    """Standard deviations (S,) of the recorded states; 1 where nothing moves."""
    std = np.concatenate([run.states for run in trajectories.runs]).std(0)
    return np.where(std > 0, std, 1.0)


def cross_validate(
    model: DynamicsModel,
    trajectories: Trajectories,
    horizon: int,
    *,
    folds: int = 5,
    random_state: RandomState = 0,
    **scoring: object,
) -> HorizonScores:
    """Scores of rollouts in which no run was predicted by a model that had seen it.

    Parameters
    ----------
    model
        What to fit; it is cloned for each fold and stays as it is.
    trajectories
        Runs, dealt to the folds as wholes.
    horizon
        Steps of each rollout.
    folds
        How many models are fitted.
    random_state
        Deals the runs.
    scoring
        As in ``model.score``: every, method, particles.
    """
    folds = inputs.whole_number(folds, "folds", 2)
    if len(trajectories) < folds:
        raise InputError(f"{folds} folds need as many runs; there are {len(trajectories)}. Take fewer folds.")
    order = check_random_state(random_state).permutation(len(trajectories))
    scores = []
    for held_out in np.array_split(order, folds):
        rest = trajectories.only(np.setdiff1d(order, held_out))
        copied: Any = clone(model)
        part = copied.fit(rest).score(trajectories.only(np.sort(held_out)), horizon, **scoring)
        scores.append(replace(part, scale=spread_of(trajectories)))
    return _mean_of(scores)


def _mean_of(scores: Sequence[HorizonScores]) -> HorizonScores:
    """The scores of several folds as if all their rollouts were of one."""
    weights = np.array([s.starts for s in scores], dtype=np.float64)
    weights /= weights.sum()

    def averaged(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.tensordot(weights, np.stack(parts), 1)

    return replace(
        scores[0],
        rmse=np.sqrt(averaged([s.rmse**2 for s in scores])),
        nlpp=averaged([s.nlpp for s in scores]),
        coverage=averaged([s.coverage for s in scores]),
        starts=sum(s.starts for s in scores),
    )
