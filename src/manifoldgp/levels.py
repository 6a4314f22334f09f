"""Cheap levels first: many starts on few rows, a few of them on more, and only the winner on all of them.

One evaluation costs O(n³). With n₁ = 500 < n₂ < ... < N, each level at most four times the one before, nearly all iterations are taken where they cost next to
nothing, and what is left for all rows is one start, close to its optimum. Its minimiser begins with the curvature that it has learnt on fewer rows:
an NLML is about proportional to the number of rows, so its Hessian is too.

The levels are nested samples of the rows, without replacement, from the generator of the fit. The winner is minimised on the exact NLML of all rows until the usual tolerances:
levels change the way to the optimum, not the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from manifoldgp.model import Data
from manifoldgp.objective import TrainingObjective
from manifoldgp.optimize import CUT_SHORT, LOST, Curvature, Monitor, OptimizeResult

LEAST_ROWS = 2000
"""Fits on fewer rows have no levels."""

FIRST_ROWS = 500
"""Rows of the first level."""

FINALISTS = 3
"""Starts, at most, that are compared on all rows. A level keeps a quarter of its starts, and no fewer than these."""

MOST_ITERATIONS = 200
"""Of a start on a level, at most: the last digits on a few rows are not those on all rows."""

_GROWTH = 4


def level_rows(N: int) -> list[int]:
    """Rows of the levels before the last one, which has all N; none where N is small.

    >>> level_rows(1999), level_rows(2000), level_rows(4000), level_rows(10_000)
    ([], [500], [500, 1414], [500, 1357, 3684])
    """
    if N < LEAST_ROWS or N <= FIRST_ROWS:
        return []
    count = math.ceil(math.log(N / FIRST_ROWS, _GROWTH) - 1e-9)
    return [round(FIRST_ROWS * (N / FIRST_ROWS) ** (k / count)) for k in range(count)]


def has_levels(data: Data) -> bool:
    """Whether these data are trained on levels: enough rows, and the same ones for all starts."""
    return not data.batched and bool(level_rows(_count(data)))


def _count(data: Data) -> int:
    """Rows that take part."""
    return data.y.shape[-1] if data.mask is None else int(data.mask.sum())


def phase_names(N: int) -> list[str]:
    """What a callback is told of the levels, the last one included.

    >>> phase_names(4000), phase_names(100)
    (['500 of 4,000 rows', '1,414 of 4,000 rows', 'all 4,000 rows'], ['starts'])
    """
    rows = level_rows(N)
    return [*(f"{n:,} of {N:,} rows" for n in rows), f"all {N:,} rows"] if rows else ["starts"]


def level_iterations(max_iter: int) -> int:
    """The limit of a level before the last one."""
    return min(max_iter, MOST_ITERATIONS)


def starts_kept(starts: int) -> int:
    """How many of these starts go on to the next level, at most."""
    return min(starts, max(FINALISTS, math.ceil(starts / _GROWTH)))


def lost_on(rows: int) -> str:
    """The status of a start that others had left behind on a level: nobody knows its NLML on all rows."""
    return f"lost on {rows:,} rows"


def trained_on(rows: int) -> str:
    """The status of a start that was compared on all rows, with what it had learnt on fewer, and was not the best."""
    return f"trained on {rows:,} rows"


def on_a_level(status: Iterable[str]) -> np.ndarray:
    """Which statuses (R,) of a table of starts are those of starts that were not trained on all rows."""
    return np.array([str(s).startswith(("lost on ", "trained on ")) for s in status], dtype=bool)


def minimize_on_levels(
    objective_of: Callable[[Data], TrainingObjective],
    data: Data,
    theta: np.ndarray,
    minimizer: Callable[..., OptimizeResult],
    monitor: Monitor,
    generator: torch.Generator,
    enter: Callable[[str], object] = lambda phase: None,
) -> OptimizeResult:
    """Minimise from theta (R, P) over the levels of data, which has some; the result says of every start how far it came.

    value, gradient, history: on all rows, +inf, zero and empty for starts that never got there. iterations, evaluations: over all levels.
    monitor: max_iter limits each level, and MOST_ITERATIONS those before the last. The callback sees the starts in work, their values scaled to all rows.
    enter: told the name of each level when it begins. A start that is stopped on a level is compared on all rows, if it is the best of them.
    """
    N = _count(data)
    shuffled = torch.randperm(N, generator=generator)
    climb = _Climb(theta, monitor, N)
    *phases, last = phase_names(N)
    for n, phase in zip(level_rows(N), phases, strict=True):
        enter(phase)
        climb.level(objective_of(_some_rows(data, shuffled[:n])), minimizer, n)
        if climb.reason is not None or not len(climb.alive):
            break
    if not len(climb.alive):  # without a factor on few rows there is none on all
        return climb.result
    if climb.reason is None:
        enter(last)
    objective = objective_of(data)
    climb.compare(objective)
    if not np.isfinite(climb.result.value).any():  # what was learnt on few rows has no factor on all of them: begin again
        return minimizer(objective, theta, replace(monitor, max_iter=monitor.max_iter if climb.reason is None else 0))
    if climb.reason is None:
        climb.polish(objective, minimizer)
    return climb.result


class _Climb:
    """Where the starts stand. alive: those that go on, best first. reason: why somebody's patience ended, if it did."""

    def __init__(self, theta: np.ndarray, monitor: Monitor, N: int) -> None:
        R = len(theta)
        status = np.full(R, "", dtype=object)
        counts = np.zeros(R, dtype=int), np.zeros(R, dtype=int)
        self.result = OptimizeResult(
            np.array(theta, dtype=float), np.full(R, np.inf), np.zeros(theta.shape), status, *counts, [[] for _ in range(R)]
        )
        self.alive, self.reason = np.arange(R), None
        self._monitor, self._N, self._rows = monitor, N, 0
        self._curvature: Curvature | None = None  # of all starts, for one row

    def level(self, objective: TrainingObjective, minimizer: Callable[..., OptimizeResult], rows: int) -> None:
        """Train the starts that are alive on so many rows, and leave the worst of them behind."""
        if not self._rows:
            objective.refuse_disconnected(self.result.theta)
        found = self._run(objective, minimizer, self.alive, rows, level_iterations(int(self._monitor.max_iter)))
        whole, self._rows = self.result, rows
        usable, ranked = np.isfinite(found.value), np.argsort(found.value, kind="stable")
        ranked = ranked[usable[ranked]]
        whole.status[self.alive[~usable]] = found.status[~usable]
        if self.reason is None:
            kept = ranked[found.status[ranked] != LOST][: starts_kept(len(ranked))]
            whole.status[self.alive[np.setdiff1d(ranked, kept)]] = lost_on(rows)
            ranked = kept
        self.alive = self.alive[ranked]

    def compare(self, objective: TrainingObjective) -> None:
        """The finalists on all rows, one at a time, as memory wants it; those of a training that was cut short until one is usable."""
        whole, stopped = self.result, self.reason is not None
        whole.status[self.alive] = self.reason if stopped else lost_on(self._rows)
        tried = self.alive if stopped else self.alive[:FINALISTS]
        for r in tried:
            value, gradient = objective(whole.theta[[r]], np.array([0]))
            whole.evaluations[r] += 1
            if np.isfinite(value[0]) and np.isfinite(gradient[0]).all():
                whole.value[r], whole.gradient[r], whole.history[r] = value[0], gradient[0], [float(value[0])]
                whole.status[r] = self.reason or trained_on(self._rows)
                if stopped:
                    break
            if not stopped:
                self.reason = self._monitor.verdict(np.zeros(len(tried), dtype=int), whole.value[tried])
                if self.reason is not None and np.isfinite(whole.value).any():
                    whole.status[tried] = self.reason
                    break

    def polish(self, objective: TrainingObjective, minimizer: Callable[..., OptimizeResult]) -> None:
        """The best on all rows goes on there, until the end."""
        whole, best = self.result, int(np.argmin(self.result.value))
        first = _Remembering(objective, whole.theta[best], whole.value[best], whole.gradient[best])
        found = self._run(first, minimizer, np.array([best]), self._N, int(self._monitor.max_iter))
        whole.evaluations[best] -= 1  # the first one was remembered
        whole.value[best], whole.gradient[best] = found.value[0], found.gradient[0]
        whole.status[best], whole.history[best] = found.status[0], found.history[0]

    def _run(
        self, objective: Any, minimizer: Callable[..., OptimizeResult], starts: np.ndarray, rows: int, max_iter: int
    ) -> OptimizeResult:
        scale, watch = self._N / rows, self._monitor.callback
        callback = None if watch is None else (lambda iterations, values: watch(iterations, scale * values))
        carried = {} if self._curvature is None else {"curvature": self._curvature.of(starts, rows)}
        limits = replace(self._monitor, max_iter=max_iter, callback=callback)
        whole = self.result
        found = minimizer(objective, whole.theta[starts], limits, **carried)
        whole.theta[starts] = found.theta
        whole.iterations[starts] += found.iterations
        whole.evaluations[starts] += found.evaluations
        whole.seconds += found.seconds
        if found.curvature is not None:
            one_row = found.curvature.of(slice(None), 1.0 / rows)
            if self._curvature is None:  # the first level, of all starts
                self._curvature = one_row
            self._curvature.steps[starts], self._curvature.changes[starts] = one_row.steps, one_row.changes
        self.reason = next((reason for reason in CUT_SHORT if (found.status == reason).any()), None)
        return found


class _Remembering:
    """An objective of one start whose value and gradient at one theta (P,) are known."""

    def __init__(self, objective: TrainingObjective, theta: np.ndarray, value: float, gradient: np.ndarray) -> None:
        self.hessian_vector = objective.hessian_vector
        self._objective, self._theta = objective, theta.copy()
        self._known = np.array([value]), gradient[None].copy()

    def __call__(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if np.array_equal(theta[0], self._theta):
            return self._known[0].copy(), self._known[1].copy()
        return self._objective(theta, rows)


def _some_rows(data: Data, index: torch.Tensor) -> Data:
    """The data of some of the rows that take part (numbers among those), in their order."""
    if data.mask is not None:
        index = torch.nonzero(data.mask > 0).flatten()[index]
    index = index.sort().values.to(data.X.device)
    known = None if data.known_noise is None else data.known_noise[..., index]
    return Data(data.X[index], data.y[..., index], known)
