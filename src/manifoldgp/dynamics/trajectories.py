"""Recorded runs of a system: states and actions, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp._system.plain_text import counted
from manifoldgp._system.real_numbers import as_numbers
from manifoldgp.data.frames import as_frame
from manifoldgp.data.table_files import read_table
from manifoldgp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from pandas import DataFrame

_UNEVEN = 0.05
"""Time steps may differ by this share of the median: more than clocks jitter, less than a lost row leaves."""


@dataclass(frozen=True)
class Run:
    """One uninterrupted recording. states: (T, S). actions: (T, A), row t is what was done between rows t and t + 1; the last row does nothing."""

    label: str
    states: np.ndarray
    actions: np.ndarray

    def __len__(self) -> int:
        return len(self.states)


@dataclass(frozen=True)
class Transitions:
    """Pairs of rows that follow each other: states (N, S), actions (N, A), next_states (N, S), and the label of the run (N,)."""

    states: np.ndarray
    actions: np.ndarray
    next_states: np.ndarray
    runs: np.ndarray


@dataclass(frozen=True)
class Trajectories:
    """Runs of one system, all with the same columns and the same time step.

    Parameters
    ----------
    runs
        The recordings, in order.
    state_names, action_names
        Names of their columns.
    dt
        Seconds between two rows, where times were given.

    Examples
    --------
    >>> recorded = Trajectories.from_arrays([np.zeros((5, 2)), np.ones((4, 2))], state_names=["x", "v"])
    >>> len(recorded), recorded.transitions().states.shape
    (2, (7, 2))
    """

    runs: tuple[Run, ...]
    state_names: tuple[str, ...]
    action_names: tuple[str, ...] = ()
    dt: float | None = None

    @classmethod
    def from_arrays(
        cls,
        states: ArrayLike | Sequence[ArrayLike],
        actions: ArrayLike | Sequence[ArrayLike] | None = None,
        runs: ArrayLike | None = None,
        *,
        time: ArrayLike | None = None,
        dt: float | None = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> Trajectories:
        """Runs from arrays.

        Parameters
        ----------
        states : (T, S), or a list of them
            One run; several below each other, told apart by ``runs``; or a list with one array a run.
        actions : (T, A), or a list of them
            What was done between a row and the next; the last row of a run may be left out. None: nothing acts on the system.
        runs : (T,)
            Labels of the runs, for one long array. A label that comes back later is refused.
        time : (T,)
            Seconds, for one long array: steps must be even within each run, and the same in all.
        dt
            Seconds between two rows, where there is no time.
        state_names, action_names
            Names of the columns; "x0", "x1", ... and "u0", "u1", ... where there are none.
        """
        parts = _split(states, actions, runs, time, dt)
        S, A = parts[0].states.shape[1], parts[0].actions.shape[1]
        names = _names(state_names, S, "x", "state_names"), _names(action_names, A, "u", "action_names")
        _refuse_repeated([*names[0], *names[1]])
        for part in parts:
            _check(part, S, A)
        steps = dt if time is None else _time_step(parts, as_numbers(time, "time"))
        return cls(tuple(parts), *names, dt=steps)

    @classmethod
    def from_frame(
        cls,
        frame: DataFrame,
        states: Sequence[str],
        actions: Sequence[str] = (),
        *,
        run: str | None = None,
        time: str | None = None,
        dt: float | None = None,
    ) -> Trajectories:
        """Runs from a frame of pandas, polars or Arrow, whose rows are in order: the columns of states and actions, and those that hold labels of runs and seconds."""
        table = as_frame(frame)
        if table is None:
            raise InputError(f"from_frame takes a frame of pandas, polars or Arrow; got {type(frame).__name__}. Use from_arrays.")
        wanted = [*states, *actions, *(name for name in (run, time) if name is not None)]
        missing = [name for name in wanted if name not in table.columns]
        if missing:
            raise InputError(f"There is no column {missing[0]!r}; the table has {', '.join(map(repr, table.columns))}.")
        return cls.from_arrays(
            table[list(states)].to_numpy(),
            table[list(actions)].to_numpy() if actions else None,
            None if run is None else table[run].to_numpy(),
            time=None if time is None else table[time].to_numpy(),
            dt=dt,
            state_names=states,
            action_names=actions,
        )

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        states: Sequence[str],
        actions: Sequence[str] = (),
        *,
        run: str | None = None,
        time: str | None = None,
        dt: float | None = None,
    ) -> Trajectories:
        """Runs from a file, CSV, Parquet or Excel, as `from_frame` takes them from a frame."""
        table = read_table(path, wanted=[*states, *actions, *(name for name in (run, time) if name is not None)])
        return cls.from_frame(table, states, actions, run=run, time=time, dt=dt)

    def transitions(self) -> Transitions:
        """Every row that has a next one, run by run."""
        return Transitions(
            np.concatenate([run.states[:-1] for run in self.runs]),
            np.concatenate([run.actions[:-1] for run in self.runs]),
            np.concatenate([run.states[1:] for run in self.runs]),
            np.concatenate([np.full(len(run) - 1, i) for i, run in enumerate(self.runs)]),
        )

    @property
    def labels(self) -> list[str]:
        """Of the runs, in order."""
        return [run.label for run in self.runs]

    def only(self, places: Iterable[int]) -> Trajectories:
        """Some of the runs, by their places, counted from 0."""
        chosen = tuple(self.runs[place] for place in places)
        if not chosen:
            raise InputError("No run is left. Choose at least one.")
        return replace(self, runs=chosen)

    def __len__(self) -> int:
        return len(self.runs)

    def __add__(self, other: Trajectories) -> Trajectories:
        """The runs of both, for a system that is recorded again and again."""
        same = (self.state_names, self.action_names) == (other.state_names, other.action_names)
        if not same or (self.dt and other.dt and abs(self.dt - other.dt) > _UNEVEN * self.dt):
            raise InputError("Recordings can be joined if they have the same columns and the same time step; these do not.")
        return replace(self, runs=self.runs + other.runs)


def _split(
    states: ArrayLike | Sequence[ArrayLike],
    actions: ArrayLike | Sequence[ArrayLike] | None,
    runs: ArrayLike | None,
    time: ArrayLike | None,
    dt: float | None,
) -> list[Run]:
    """The runs that were handed in, one way or the other."""
    if dt is not None and (time is not None or not (np.isfinite(dt) and dt > 0)):
        raise InputError(f"dt must be a positive number, and goes without time; got dt={dt!r}.")
    if isinstance(states, (list, tuple)) and len(states) and np.ndim(states[0]) == 2:
        if runs is not None or time is not None:
            raise InputError("A list has one array a run: runs and time go with one long array. Leave them out, and give dt.")
        if actions is not None and (not isinstance(actions, (list, tuple)) or len(actions) != len(states)):
            raise InputError(f"states are those of {counted(len(states), 'run')}; actions must be a list of as many arrays.")
        given = [None] * len(states) if actions is None else list(actions)
        return [_run(str(i), x, u) for i, (x, u) in enumerate(zip(states, given, strict=True))]
    X = _table(states, "states")
    U = np.zeros((len(X), 0)) if actions is None else _table(actions, "actions")
    if runs is None:
        return [_run("0", X, U)]
    labels = np.asarray(runs).reshape(-1)
    if len(labels) != len(X) or len(U) != len(X):
        raise InputError(f"states, actions and runs must have equally many rows; they have {len(X)}, {len(U)} and {len(labels)}.")
    begins = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
    pieces = [slice(a, b) for a, b in zip(begins, [*begins[1:], len(X)], strict=True)]
    names = [str(labels[piece.start]) for piece in pieces]
    if len(set(names)) < len(names):
        again = next(name for i, name in enumerate(names) if name in names[:i])
        raise InputError(f"Rows of run {again!r} are not together. Sort the table by run and time.")
    return [_run(name, X[piece], U[piece]) for name, piece in zip(names, pieces, strict=True)]


def _run(label: str, states: ArrayLike, actions: ArrayLike | None) -> Run:
    X = _table(states, "states")
    U = np.zeros((len(X), 0)) if actions is None else _table(actions, "actions")
    if len(U) == len(X) - 1:
        U = np.concatenate([U, U[-1:]])  # nothing follows the last row, so that its action does nothing
    if len(U) != len(X):
        raise InputError(
            f"Run {label!r} has {counted(len(X), 'state')} and {counted(len(U), 'action')}; one action a state was expected."
        )
    return Run(label, X, U)


def _table(given: ArrayLike | Sequence[ArrayLike], name: str) -> np.ndarray:
    A = as_numbers(given, name)
    A = A[:, None] if A.ndim == 1 else A
    if A.ndim != 2 or (not A.shape[1] and name == "states"):
        raise InputError(f"{name} must be a table (rows, columns); got shape {A.shape}.")
    return A


def _check(run: Run, S: int, A: int) -> None:
    if len(run) < 2:
        raise InputError(f"Run {run.label!r} has one row, and no next state to learn from. Leave it out.")
    if (run.states.shape[1], run.actions.shape[1]) != (S, A):
        raise InputError(
            f"Run {run.label!r} has {counted(run.states.shape[1], 'state')} and {counted(run.actions.shape[1], 'action')}; the first one has {S} and {A}."
        )
    bad = np.array(~np.isfinite(run.states).all(1))
    bad[:-1] |= ~np.isfinite(run.actions[:-1]).all(1)
    if bad.any():
        raise InputError(
            f"Run {run.label!r} has values that are missing or infinite in row {int(np.flatnonzero(bad)[0])}. Fill them in, or split the run there."
        )


def _time_step(runs: Sequence[Run], time: np.ndarray) -> float:
    """The seconds of a step, the same everywhere."""
    if time.shape != (sum(map(len, runs)),):
        raise InputError(f"time must have one entry a row, {sum(map(len, runs))}; got shape {time.shape}.")
    steps = [np.diff(part) for part in np.split(time, np.cumsum([len(run) for run in runs])[:-1])]
    median = float(np.median(np.concatenate(steps)))
    if not np.isfinite(median) or median <= 0:
        raise InputError("time must increase from row to row in every run. Sort the table by run and time.")
    for run, step in zip(runs, steps, strict=True):
        off = ~(np.abs(step - median) <= _UNEVEN * median)
        if off.any():
            row = int(np.flatnonzero(off)[0])
            raise InputError(
                f"Steps of time must be even: row {row} of run {run.label!r} is followed after {step[row]:.6g} s, most after {median:.6g} s. "
                "Resample the run, or split it where rows are missing."
            )
    return median


def _names(given: Sequence[str] | None, count: int, letter: str, argument: str) -> tuple[str, ...]:
    names = tuple(f"{letter}{i}" for i in range(count)) if given is None else tuple(map(str, given))
    if len(names) != count:
        raise InputError(f"{argument} must be {count} names, one a column; got {len(names)}.")
    return names


def _refuse_repeated(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise InputError(
            f"Names of states and actions must differ; {next(n for n in names if names.count(n) > 1)!r} occurs twice."
        )
