"""What a minimiser returns, and what it tells while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

CONVERGED, ITERATION_LIMIT, TIME_LIMIT, STALLED, INVALID_START, STOPPED, LOST = (
    "converged",
    "iteration limit",
    "time limit",
    "line search stalled",
    "invalid start",
    "stopped by callback",
    "clearly lost",
)

CUT_SHORT = (TIME_LIMIT, STOPPED)
"""Why a start was stopped from outside, by the deadline or the callback, whatever it had reached."""

_LOOK_BACK, _HOPE = 10, 4.0


class Objective(Protocol):
    """A batch of functions of theta."""

    def __call__(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (A,) and gradients (A, P) of the starts ``rows`` (A,) at theta (A, P)."""
        ...


@dataclass(frozen=True)
class Curvature:
    """Pairs of L-BFGS: steps s and changes y of the gradient (R, m, P), oldest first; an empty one is zero."""

    steps: np.ndarray
    changes: np.ndarray

    def of(self, starts: np.ndarray | slice, scale: float) -> Curvature:
        """The pairs of some starts, for a function that is about ``scale`` times this one."""
        return Curvature(self.steps[starts], scale * self.changes[starts])

    def joined_by(self, other: Curvature) -> Curvature:
        """The pairs of these starts and of others with as many parameters."""
        return Curvature(np.concatenate([self.steps, other.steps]), np.concatenate([self.changes, other.changes]))


@dataclass
class OptimizeResult:
    """Every start: where it ended, its value, why it stopped, and its way there.

    theta (R, P), value (R,), gradient (R, P), status (R,) of words, iterations (R,), evaluations (R,).
    history: values after each iteration, the start first. curvature: the last pairs of steps and changes of the gradient, if the
    minimiser keeps some; another run, on a similar function, can begin with them.
    """

    theta: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    status: np.ndarray
    iterations: np.ndarray
    evaluations: np.ndarray
    history: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0
    curvature: Curvature | None = None

    def joined_by(self, other: OptimizeResult) -> OptimizeResult:
        """These starts and those of another run."""
        known = None if self.curvature is None or other.curvature is None else self.curvature.joined_by(other.curvature)
        changed = replace(self, history=self.history + other.history, seconds=self.seconds + other.seconds, curvature=known)
        for name in ("theta", "value", "gradient", "status", "iterations", "evaluations"):
            setattr(changed, name, np.concatenate([getattr(self, name), getattr(other, name)]))
        return changed


@dataclass
class Monitor:
    """Limits that hold while minimising, and the callback that watches.

    max_iter: one limit, or one for each start (R,).
    callback: called as callback(iterations (R,), values (R,)) after every round; a true answer stops the run, and the best so
    far is kept.
    margin: starts that minimise the same function are rivals, and one that is clearly lost stops early: four times its progress
    over the last ten iterations would leave it more than ``margin`` above the best. Infinite: nobody stops early.
    """

    max_iter: int | np.ndarray = 500
    deadline: float = np.inf
    callback: Callable[[np.ndarray, np.ndarray], object] | None = None
    margin: float = np.inf

    def lost(self, moved: np.ndarray, iterations: np.ndarray, values: np.ndarray, history: list[list[float]]) -> np.ndarray:
        """Which of the starts ``moved`` (A,), just moved, are clearly lost."""
        due = np.zeros(len(moved), dtype=bool)
        if self.margin == np.inf:
            return due
        due = (iterations[moved] > 0) & (iterations[moved] % _LOOK_BACK == 0)
        if not np.count_nonzero(due):
            return due
        progress = np.array([history[r][-1 - _LOOK_BACK] - history[r][-1] if d else 0.0 for r, d in zip(moved, due, strict=True)])
        return due & (values[moved] - _HOPE * progress > values.min() + self.margin)

    def verdict(self, iterations: np.ndarray, values: np.ndarray) -> str | None:
        """The reason to stop everything now, or None."""
        if self.callback is not None and self.callback(iterations, values):
            return STOPPED
        return TIME_LIMIT if self.late() else None

    def late(self) -> bool:
        """Whether the deadline has passed."""
        return time.perf_counter() > self.deadline
