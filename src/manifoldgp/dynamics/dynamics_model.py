"""DynamicsModel: from recordings to a one-step model, and from that to rollouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from manifoldgp._system.real_numbers import as_numbers
from manifoldgp.data import inputs
from manifoldgp.data.columns import Column
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.dynamics.horizon_scores import HorizonScores, score_rollout, spread_of, starts_of
from manifoldgp.dynamics.rolling import act_of, roll
from manifoldgp.dynamics.rollout import Rollout
from manifoldgp.dynamics.state_space import Rates, StateSpace, state_space
from manifoldgp.dynamics.steps import MeanStep, MomentStep, ParticleStep, Policy, Regression
from manifoldgp.dynamics.trajectories import Trajectories, Transitions
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.estimators import model_file
from manifoldgp.estimators.arguments import generator_of
from manifoldgp.estimators.forecasting import model_that_goes_on
from manifoldgp.estimators.function_draws import SampledFunctions
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.estimators.uncertain_inputs import covariances
from manifoldgp.estimators.units import on_device
from manifoldgp.inference.gaussian_draws import GaussianDraws, gaussian_draws
from manifoldgp.inference.gaussian_outputs import GaussianOutputs, gaussian_outputs
from manifoldgp.inference.gaussian_series import SeriesOutputs, series_outputs
from manifoldgp.inference.uncertain_inputs import normal_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import RandomState

PARTICLES = 200
"""Trajectories that a rollout draws."""

_MOMENT_METHODS = {"auto": 0.05, "moments": 0.0, "series": math.inf}
"""Ways to moments, and how large a share of a variance the last terms of a series may be."""

POINTS = 128
"""Points that stand for an uncertain state, where its moments have no closed form."""


class DynamicsModel(BaseEstimator):
    """A one-step model of a system, learnt from recordings: all changes of its state, given state and action.

    Parameters
    ----------
    regressor
        Learns the changes: `ManifoldGPRegressor` (the default, with its default settings), `GPRegressor` or `KernelSearch`.
    angles
        Names of states in radians; they enter as sine and cosine, and may jump by whole turns.
    flags
        Names of states that are 0 or 1, such as contacts; they are learnt as next values.
    rates
        Positions that follow from their rates and need not be learnt, ``{"x": "v"}``; and quaternions, real part first, with the three rates of a turn,
        ``{("qw", "qx", "qy", "qz"): ("wx", "wy", "wz")}``. How rates add up over a step is fitted to the recordings.

    Attributes
    ----------
    regressor_ : ManifoldGPRegressor
        The fitted regression.
    space_ : StateSpace
        The columns and their roles.

    Examples
    --------
    >>> from manifoldgp import GPRegressor
    >>> t = 0.1 * np.arange(40)
    >>> recorded = Trajectories.from_arrays(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1)
    >>> model = DynamicsModel(GPRegressor(restarts=1)).fit(recorded)
    >>> ahead = model.rollout([0.0, 1.0], horizon=10)
    >>> ahead.mean.shape, bool(abs(ahead.mean[-1, 0] - np.sin(1.0)) < 0.01)
    ((11, 2), True)
    """

    regressor_: ManifoldGPRegressor
    space_: StateSpace
    _closed: GaussianOutputs | None = None
    _series: SeriesOutputs | None = None

    def __init__(
        self,
        regressor: ManifoldGPRegressor | None = None,
        *,
        angles: Sequence[str] = (),
        flags: Sequence[str] = (),
        rates: Rates | None = None,
    ) -> None:
        self.regressor = regressor
        self.angles = angles
        self.flags = flags
        self.rates = rates

    def fit(self, trajectories: Trajectories) -> DynamicsModel:
        """Learn from recorded runs; held-out folds of a stack keep whole runs together."""
        rows = trajectories.transitions()
        space = self._space_of(trajectories, rows)
        Z = space.inputs(torch.as_tensor(rows.states), torch.as_tensor(rows.actions)).numpy()
        Y = space.outputs(rows.states, rows.next_states)
        table = _table_of(space)
        regressor = ManifoldGPRegressor() if self.regressor is None else model_that_goes_on(self.regressor, "A rollout")
        groups = rows.runs if _holds_out_rows(regressor) and len(trajectories) > 1 else None
        self.regressor_ = regressor.fit(Z, Y, groups=groups)
        _name(self.regressor_, table)
        self.space_ = space
        self._closed = self._series = None
        return self

    def learnt_states(self, trajectories: Trajectories) -> int:
        """How many states `fit` would learn from these recordings, each with a model of its own: those that follow from their rates are not learnt."""
        return len(self._space_of(trajectories, trajectories.transitions()).learnt)

    def _space_of(self, recorded: Trajectories, rows: Transitions) -> StateSpace:
        return state_space(recorded.state_names, recorded.action_names, rows, self.angles, self.flags, self.rates, recorded.dt)

    def predict(self, states: ArrayLike, actions: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (n, S) of the next states of known states (n, S) under actions (n, A)."""
        X = self._states(states)
        U = self._actions(actions, len(X), ())
        step = self.moment_step()
        with torch.no_grad():
            mean, cov = step(X, X.new_zeros(*X.shape, X.shape[-1]), U)
        return mean.cpu().numpy(), np.sqrt(np.diagonal(cov.cpu().numpy(), axis1=-2, axis2=-1).clip(0.0))

    def rollout(
        self,
        state: ArrayLike,
        actions: ArrayLike | None = None,
        *,
        policy: Policy | None = None,
        horizon: int | None = None,
        method: str = "auto",
        state_cov: ArrayLike | None = None,
        particles: int | None = None,
        random_state: RandomState = 0,
    ) -> Rollout:
        """Where the system goes from a state, step by step on its own predictions.

        Parameters
        ----------
        state : (S,), or (n, S)
            Where it starts; several starts are rolled out at once.
        actions : (H, A), or (n, H, A)
            What is done, one row a step.
        policy
            Instead of actions: a function of states (..., S) that gives actions (..., A), on tensors.
        horizon
            Steps; as many as actions where it is not given.
        method
            "moments": a Gaussian with the right mean and covariance at each step. "series": the same, with covariances by a series in derivatives, for plain GPs with the
            squared exponential: N exponentials instead of N². "particles": trajectories with a function drawn from the posterior each. "mean": predicted means alone.
            "auto": the series where there is one, with exact moments at steps where its last terms are more than 5 % of a variance; else particles.
        state_cov : (S, S), or (n, S, S)
            Covariance of the start, where it is not known exactly.
        particles
            How many trajectories are drawn, 200 where it is not given; of methods that may draw some.
        random_state
            Draws them.
        """
        check_is_fitted(self)
        single, X = np.ndim(state) == 1, self._states(np.atleast_2d(as_numbers(state, "state")))
        act, H = act_of(actions, policy, horizon, len(X), len(self.space_.action_names))
        S = X.shape[-1]
        cov = X.new_zeros(len(X), S, S) if state_cov is None else covariances(state_cov, X, S, "state_cov")
        ready = self._step(method, particles, random_state)
        with torch.no_grad():
            found = roll(ready, X, cov, act.to(X) if isinstance(act, Tensor) else act, H, generator_of(random_state))
        ahead = found.rollout(self.space_, single)
        if not np.isfinite(ahead.mean).all():
            raise InputError(
                "The rollout grows beyond all numbers. Roll out fewer steps, or look whether start, actions and recordings are right."
            )
        return ahead

    def score(
        self,
        trajectories: Trajectories,
        horizon: int,
        *,
        every: int | None = None,
        method: str = "auto",
        particles: int | None = None,
        random_state: RandomState = 0,
    ) -> HorizonScores:
        """How good rollouts of recorded runs are after 1, ..., horizon steps: RMSE, NLPP, and coverage of 95 % bands.

        Parameters
        ----------
        trajectories
            Runs that the model was not fitted on.
        horizon
            Steps of each rollout.
        every
            A rollout begins at every so many rows of a run; at every ``horizon`` rows where it is not given.
        method, particles, random_state
            As in `rollout`.
        """
        check_is_fitted(self)
        names = self.space_.state_names, self.space_.action_names
        if (trajectories.state_names, trajectories.action_names) != names:
            raise InputError(f"The model knows states {names[0]} and actions {names[1]}; these recordings have other columns.")
        horizon = inputs.whole_number(horizon, "horizon")
        given = starts_of(trajectories, horizon, horizon if every is None else inputs.whole_number(every, "every"))
        actions = given.actions if names[1] else None
        found = self.rollout(
            given.states, actions, horizon=horizon, method=method, particles=particles, random_state=random_state
        )
        return score_rollout(found, given.truth, self.space_, spread_of(trajectories))

    def moment_step(self, points: int = POINTS, *, method: str = "moments") -> MomentStep:
        """Mean and covariance of a state to those of the next, as a function of tensors: differentiable, for policy search.

        points: how many stand for an uncertain state where there is no closed form, and where a policy acts. method: "moments", "series" or "auto", as in `rollout`.
        """
        check_is_fitted(self)
        if method not in _MOMENT_METHODS:
            raise InputError(f"method must be {', '.join(map(repr, _MOMENT_METHODS))}; got {method!r}.")
        closed = self._closed_form()
        if method == "series" and closed is None:
            raise InputError(
                "A series takes plain GPs, with the squared exponential on inputs or linear features, and states without quaternions. Use method='moments' or 'particles'."
            )
        width = len(self.space_.state_names) + len(self.space_.learnt)
        stand_ins = normal_points(inputs.whole_number(points, "points", width + 1), width)
        step = MomentStep(self.space_, self._regression(), closed, stand_ins)
        if method == "moments" or closed is None:
            return step
        self._series = self._series or series_outputs(closed)  # an N x N eigenproblem a target
        return replace(step, series=self._series, tolerance=_MOMENT_METHODS[method])

    def particle_step(self, particles: int = PARTICLES, random_state: RandomState = 0) -> ParticleStep:
        """States of particles to their next states, a drawn function each, as a function of tensors: differentiable, for policy search."""
        check_is_fitted(self)
        functions = self.regressor_.sample_functions(particles, random_state)
        noise = on_device(self.regressor_, functions.noise_std().reshape(len(functions), -1))
        return ParticleStep(self.space_, functions, noise, generator_of(random_state))

    def drawn_functions(self, count: int, ridges: int, random_state: int) -> tuple[SampledFunctions | GaussianDraws, Tensor]:
        """Functions of the regression's inputs z for particles, and the noise around each (count, O): quicker ones, with fewer ridges, where there is a closed form."""
        check_is_fitted(self)
        closed = self._closed_form()
        if closed is not None:
            quick = gaussian_draws(closed, count, ridges, generator_of(random_state))
            return quick, quick.noise_std()
        functions = self.regressor_.sample_functions(count, random_state, ridges=ridges)
        return functions, on_device(self.regressor_, functions.noise_std().reshape(count, -1))

    def mean_step(self) -> MeanStep:
        """States to the means of their next states, as a function of tensors."""
        check_is_fitted(self)
        return MeanStep(self.space_, self._regression())

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file that `DynamicsModel.load` reads; no pickle. ``manifoldgp.load`` gives its regression alone."""
        check_is_fitted(self)
        plain = {"space": self.space_.to_plain(), "default_regressor": self.regressor is None}
        model_file.save_with_part(self.regressor_, path, "dynamics", plain)

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> DynamicsModel:
        """The fitted model in a file; device: where it is to predict."""
        regressor, plain = model_file.load_with_part(path, "dynamics", "dynamics", device)
        try:
            space, default = StateSpace.from_plain(plain["space"]), bool(plain["default_regressor"])
            table = _table_of(space)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FileFormatError(f"{path} is incomplete or inconsistent ({error}).") from error
        if (len(space.input_names), len(space.learnt)) != (regressor.n_features_in_, regressor.n_outputs_):
            raise FileFormatError(f"{path} is inconsistent: its regression has other columns than its dynamics.")
        names = [[space.state_names[i] for i in places] for places in (space.angles, space.flags)]
        copied: Any = None if default else clone(regressor)
        model = cls(copied, angles=names[0], flags=names[1], rates=space.rates or None)
        _name(regressor, table)  # which files of earlier versions lack
        model.regressor_, model.space_ = regressor, space
        return model

    def _step(self, method: str, particles: int | None, random_state: RandomState) -> MeanStep | MomentStep | ParticleStep:
        if method not in (*_MOMENT_METHODS, "particles", "mean"):
            raise InputError(f"method must be 'auto', 'moments', 'series', 'particles' or 'mean'; got {method!r}.")
        if particles is not None and method not in ("auto", "particles"):
            raise InputError(f"method={method!r} draws no particles. Leave out particles={particles}, or use method='particles'.")
        if method == "mean":
            return self.mean_step()
        if method in ("moments", "series") or (method == "auto" and self._closed_form() is not None):
            return self.moment_step(method=method)
        return self.particle_step(
            PARTICLES if particles is None else inputs.whole_number(particles, "particles", 2), random_state
        )

    def _closed_form(self) -> GaussianOutputs | None:
        """The targets as functions of z at uncertain inputs, where there is a closed form; made ready once."""
        if self._closed is None:
            found = gaussian_outputs(self.regressor_.ensembles_) if self.space_.affine else None
            if found is None:
                return None
            regression, D = self._regression(), len(self.space_.input_names)
            zero = regression.seen(regression.scale.new_zeros(D))
            self._closed = found.of_columns(regression.seen(torch.eye(D).to(zero)) - zero, zero)
        return self._closed

    def _regression(self) -> Regression:
        fitted = self.regressor_
        scaler = fitted.x_scaler_
        scale = on_device(fitted, scaler.scales)
        return Regression(fitted.ensembles_, scaler, torch.as_tensor(scaler.columns, device=scale.device), scale)

    def _states(self, states: ArrayLike) -> Tensor:
        check_is_fitted(self)
        X = as_numbers(states, "states")
        S = len(self.space_.state_names)
        if X.ndim != 2 or X.shape[1] != S or not np.isfinite(X).all():
            raise InputError(
                f"States must be finite numbers (n, {S}): {', '.join(self.space_.state_names)}; got shape {X.shape}."
            )
        return on_device(self.regressor_, X)

    def _actions(self, actions: ArrayLike | None, n: int, steps: tuple[int, ...]) -> Tensor:
        A = len(self.space_.action_names)
        U = np.zeros((n, *steps, 0)) if actions is None else as_numbers(actions, "actions")
        if U.shape != (n, *steps, A) or not np.isfinite(U).all():
            raise InputError(f"Actions must be finite numbers {(n, *steps, A)}; got shape {U.shape}.")
        return on_device(self.regressor_, U)

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_closed", "_series")}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "space_")


def _table_of(space: StateSpace) -> TableEncoding:
    """What the regression sees and predicts, as columns of numbers with names."""
    return TableEncoding(tuple(Column(name) for name in space.input_names), tuple(space.output_names))


def _name(regressor: ManifoldGPRegressor, table: TableEncoding) -> None:
    """Tell a regression that was fitted on arrays the names of their columns, for words, pictures and exported files."""
    regressor.table_encoding_ = table
    regressor.feature_names_in_ = np.array(table.names, dtype=object)


def _holds_out_rows(regressor: ManifoldGPRegressor) -> bool:
    """Whether groups of rows mean anything to its fit."""
    from manifoldgp.averaging import Stack, as_averaging

    return isinstance(as_averaging(regressor.averaging), Stack)
