"""Cheap levels first: many starts on few rows, a few of them on more, and only the winner on all of them.

One evaluation costs O(n³). With n₁ = 500 < n₂ < ... < N, each level at most twice the one before, nearly all iterations are taken where they cost next to
nothing, and what is left for all rows is one start, close to its optimum. On few rows networks overfit, so who goes on is decided on the rows of the next level, by one evaluation
each. The minimiser begins every level with the curvature that it has learnt on fewer rows: an NLML is about proportional to the number of rows, so its Hessian is too.

The levels are nested samples of the rows, without replacement, from the generator of the fit. The winner is minimised on the exact NLML of all rows until the usual tolerances:
levels change the way to the optimum, not the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import torch

from manifoldgp.model import Data
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.optimizer import (
    CUT_SHORT,
    INVALID_START,
    ITERATION_LIMIT,
    LOST,
    Curvature,
    Monitor,
    Objective,
    OptimizeResult,
)

LEAST_ROWS = 2000
"""Fits on fewer rows have no levels."""

FIRST_ROWS = 500
"""Rows of the first level."""

COMPARED = "compared on all rows"
"""The status of a start that entered on all rows, without levels before, and was not the best there."""

_GROWTH = 2.0
_LEAST_KEPT = 2
_ITERATIONS = (200, 60)
"""Of a start on the first level, and on those between it and the last: later digits on a part of the rows are not those on all rows."""


def level_rows(N: int) -> list[int]:
    """Rows of the levels before the last one, which has all N; none where N is small.

    >>> level_rows(1999), level_rows(2000), level_rows(4000), level_rows(10_000)
    ([], [500, 1000], [500, 1000, 2000], [500, 910, 1657, 3017, 5493])
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

    >>> phase_names(2000), phase_names(100)
    (['500 of 2,000 rows', '1,000 of 2,000 rows', 'all 2,000 rows'], ['starts'])
    """
    rows = level_rows(N)
    return [*(f"{n:,} of {N:,} rows" for n in rows), f"all {N:,} rows"] if rows else ["starts"]


def level_iterations(number: int, max_iter: int) -> int:
    """The limit of the level with this number, before the last one."""
    return min(max_iter, _ITERATIONS[min(number, len(_ITERATIONS) - 1)])


def starts_on(number: int, starts: int) -> int:
    """How many of so many starts are trained on the level with this number, before the last one: all on the first, then half as many on each.

    >>> [starts_on(k, 20) for k in range(5)], [starts_on(k, 3) for k in range(3)]
    ([20, 10, 5, 3, 2], [3, 2, 2])
    """
    return min(starts, max(_LEAST_KEPT, math.ceil(starts / 2**number)))


def lost_on(rows: int) -> str:
    """The status of a start that others had left behind on a level: nobody knows its NLML on all rows."""
    return f"lost on {rows:,} rows"


def trained_on(rows: int) -> str:
    """The status of a start that was compared on all rows, with what it had learnt on fewer, and was not the best."""
    return f"trained on {rows:,} rows"


def on_a_level(status: Iterable[str]) -> np.ndarray:
    """Marks (R,) the statuses of starts that were left behind on a level: others were better, and only the best goes on to all rows."""
    return np.array([str(s).startswith(("lost on ", "trained on ", COMPARED)) for s in status], dtype=bool)


def minimize_on_levels(
    objective_of: Callable[[Data], TrainingObjective],
    data: Data,
    theta: np.ndarray,
    minimizer: Callable[..., OptimizeResult],
    monitor: Monitor,
    generator: torch.Generator,
    *,
    straight: int = 0,
    enter: Callable[[str], object] = lambda phase: None,
) -> OptimizeResult:
    """Minimise from theta (R, P) over the levels of data, which has some; the result says of every start how far it came.

    value, gradient, history: on all rows, +inf, zero and empty for starts that never got there. iterations, evaluations: over all levels.
    monitor: max_iter limits each level; the callback sees the starts in work, their values scaled to all rows. enter: told the name of each level when it begins.
    straight: how many of the first starts skip the levels and enter where all rows are compared; a warm start knows more than few rows would teach it.
    Where training is stopped on a level, the best start so far has its value on all rows.
    """
    N = _count(data)
    shuffled = torch.randperm(N, generator=generator)
    climb = _Climb(theta, monitor, N, straight)
    *phases, last = phase_names(N)
    for number, (n, phase) in enumerate(zip(level_rows(N), phases, strict=True)):
        if len(climb.alive) and climb.reason is None:
            enter(phase)
            climb.level(number, objective_of(_some_rows(data, shuffled[:n])), minimizer, n)
    if climb.reason is None:
        enter(last)
    objective = objective_of(data)
    climb.compare(objective)
    if not np.isfinite(climb.result.value).any() and (climb.result.status != INVALID_START).any():
        # What was learnt on few rows has no factor on all of them: begin again there.
        found = minimizer(objective, theta, replace(monitor, max_iter=monitor.max_iter if climb.reason is None else 0))
        if climb.reason is not None:
            found.status[found.status == ITERATION_LIMIT] = climb.reason
        return found
    if climb.reason is None and np.isfinite(climb.result.value).any():
        climb.polish(objective, minimizer)
    return climb.result


class _Climb:
    """The starts on their way up the levels. alive: those that go on, best first. reason: why training was cut short (time, callback), if it was."""

    def __init__(self, theta: np.ndarray, monitor: Monitor, N: int, straight: int) -> None:
        R = len(theta)
        status = np.full(R, "", dtype=object)
        counts = np.zeros(R, dtype=int), np.zeros(R, dtype=int)
        self.result = OptimizeResult(
            np.array(theta, dtype=float), np.full(R, np.inf), np.zeros(theta.shape), status, *counts, [[] for _ in range(R)]
        )
        self.alive, self._straight, self.reason = np.arange(straight, R), np.arange(straight), None
        self._monitor, self._N, self._rows = monitor, N, 0
        self._curvature: Curvature | None = None  # of all starts, for one row

    def level(self, number: int, objective: TrainingObjective, minimizer: Callable[..., OptimizeResult], rows: int) -> None:
        """Train the starts that are alive on one level; from the second level on, only those that are the best on its rows."""
        whole, self._rows = self.result, rows
        if number == 0:
            objective.refuse_disconnected(whole.theta[self.alive])
        elif len(self.alive) > _LEAST_KEPT:
            value, _ = objective(whole.theta[self.alive], self.alive)
            whole.evaluations[self.alive] += 1
            self._keep(value, starts_on(number, len(whole.value) - len(self._straight)))
        if not len(self.alive):
            return
        found = self._run(objective, minimizer, self.alive, rows, level_iterations(number, int(self._monitor.max_iter)))
        whole.status[self.alive] = found.status
        self._keep(np.where(found.status == LOST, np.inf, found.value), len(self.alive))

    def _keep(self, value: np.ndarray, most: int) -> None:
        """Keep the ``most`` living starts with the lowest values (A,); the others are marked as lost on this level, or keep the reason why they never began."""
        ranked = np.argsort(value, kind="stable")
        kept = ranked[: min(most, np.count_nonzero(np.isfinite(value)))]
        left = self.alive[np.setdiff1d(ranked, kept)]
        ended = self.result.status[left]
        lost = (ended == LOST) if self.reason is not None else (ended != INVALID_START)
        self.result.status[left[lost]] = lost_on(self._rows)
        self.alive = self.alive[kept]

    def compare(self, objective: TrainingObjective) -> None:
        """Evaluate the starts that are still alive on all rows: which of them is the best is decided there.

        One start at a time, because several N x N matrices may not fit into memory. Where training was stopped on a level, the first start with a
        finite value is enough.
        """
        whole, stopped = self.result, self.reason is not None
        whole.status[self.alive] = self.reason or lost_on(self._N)
        whole.status[self._straight] = self.reason or COMPARED
        tried = np.concatenate([self._straight, self.alive])
        for r in tried:
            value, gradient = objective(whole.theta[[r]], np.array([0]))
            whole.evaluations[r] += 1
            if np.isfinite(value[0]) and np.isfinite(gradient[0]).all():
                whole.value[r], whole.gradient[r], whole.history[r] = value[0], gradient[0], [float(value[0])]
                if not stopped and r in self.alive:
                    whole.status[r] = trained_on(self._rows)
                if stopped and r in self.alive:
                    return
            if not stopped:
                self.reason = self._monitor.verdict(np.zeros(len(tried), dtype=int), whole.value[tried])
                stopped = self.reason is not None
                if stopped:
                    whole.status[tried] = self.reason
                    if np.isfinite(whole.value).any():
                        return

    def polish(self, objective: TrainingObjective, minimizer: Callable[..., OptimizeResult]) -> None:
        """Minimise the best start on all rows until the usual tolerances."""
        whole, best = self.result, int(np.argmin(self.result.value))
        first = _Remembering(objective, whole.theta[best], whole.value[best], whole.gradient[best])
        found = self._run(first, minimizer, np.array([best]), self._N, int(self._monitor.max_iter))
        whole.evaluations[best] -= 1  # the first one was remembered
        whole.value[best], whole.gradient[best] = found.value[0], found.gradient[0]
        whole.status[best], whole.history[best] = found.status[0], found.history[0]

    def _run(
        self, objective: Objective, minimizer: Callable[..., OptimizeResult], starts: np.ndarray, rows: int, max_iter: int
    ) -> OptimizeResult:
        whole, scale, watch = self.result, self._N / rows, self._monitor.callback
        callback = None if watch is None else (lambda iterations, values: watch(iterations, scale * values))
        carried = {} if self._curvature is None else {"curvature": self._curvature.of(starts, rows)}
        limits = replace(self._monitor, max_iter=max_iter, callback=callback)
        found = minimizer(objective, whole.theta[starts], limits, **carried)
        whole.theta[starts] = found.theta
        whole.iterations[starts] += found.iterations
        whole.evaluations[starts] += found.evaluations
        whole.seconds += found.seconds
        if found.curvature is not None:
            self._remember(starts, found.curvature.of(slice(None), 1.0 / rows))
        self.reason = next((reason for reason in CUT_SHORT if (found.status == reason).any()), None)
        return found

    def _remember(self, starts: np.ndarray, one_row: Curvature) -> None:
        if self._curvature is None:
            shape = (len(self.result.value), *one_row.steps.shape[1:])
            self._curvature = Curvature(np.zeros(shape), np.zeros(shape))
        self._curvature.steps[starts], self._curvature.changes[starts] = one_row.steps, one_row.changes


class _Remembering:
    """The objective of one start, with its value and gradient at one theta (P,) remembered: :meth:`_Climb.compare` has paid for them."""

    def __init__(self, objective: TrainingObjective, theta: np.ndarray, value: float, gradient: np.ndarray) -> None:
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
    return data.only(index.sort().values.to(data.X.device))
