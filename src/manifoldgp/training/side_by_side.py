"""Trainings that know nothing of each other, side by side: in threads of this process, by the workers of joblib, or by the processes that torchrun started.

The starts of a training are dealt to lots. Where starts are rivals (one that is clearly lost stops early) they are one lot. Whoever minimises a lot, and whatever others do
meanwhile, it takes the same steps up to rounding.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import joblib
import numpy as np
import torch
from joblib.parallel import get_active_backend

from manifoldgp._system.threads import Workers, training_threads
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, Tree
from manifoldgp.training.held_parameters import Minimizer, switch_off, tuned_last
from manifoldgp.training.member_round import Round
from manifoldgp.training.minimizers import MINIMIZERS
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.optimizer import STOPPED, TIME_LIMIT, Curvature, Monitor, OptimizeResult
from manifoldgp.training.processes import Ranks
from manifoldgp.training.progress import Watch, nobody

_ROWS_WORTH_A_THREAD = 300
"""Rows of a start from which on threads gain: below, most of an iteration holds Python's lock."""

_ROWS_WORTH_A_LOT = 400
"""Rows from which on every start is a lot by itself, so that no core waits for long at the end. Of fewer rows an iteration of several starts costs little more than that of one."""


@dataclass(frozen=True)
class Lot:
    """Starts theta (R, P) of one training, with all that is needed to minimise them. limits (R,): of their iterations. The rest is as in ``Trainer.fit``.

    drawn: where starts of networks that were learnt before were drawn, whatever became of them; None for all other models.
    curvature: what earlier trainings of the same starts have learnt about the Hessians. remembers: whether the result keeps what this one has learnt.
    """

    model: Model
    layout: Layout
    constants: Tree
    data: Data
    theta: np.ndarray
    limits: np.ndarray
    optimizer: str = "l-bfgs"
    margin: float = math.inf
    parts: int = 1
    drawn: np.ndarray | None = None
    curvature: Curvature | None = None
    remembers: bool = False

    @property
    def minimizer(self) -> Minimizer:
        """Who minimises."""
        minimize = MINIMIZERS[self.optimizer]
        return minimize if self.drawn is None else tuned_last(minimize, self.layout.tuned, self.drawn)

    @property
    def rows(self) -> int:
        return self.data.y.shape[-1]

    def dealt(self, hands: int) -> list[Lot]:
        """The same starts, in order, in as many lots as so many hands want."""
        R = len(self.theta)
        count = R if self.rows >= _ROWS_WORTH_A_LOT else min(hands, R)
        if hands == 1 or R == 1 or self.margin < math.inf:
            return [self]
        return [self._only(starts) for starts in np.array_split(np.arange(R), count)]

    def _only(self, starts: np.ndarray) -> Lot:
        sets = (starts[:, None] * self.parts + np.arange(self.parts)).ravel()
        data = self.data.rows(torch.as_tensor(sets, device=self.data.y.device))
        known = None if self.curvature is None else self.curvature.of(starts, 1.0)
        return replace(self, data=data, theta=self.theta[starts], limits=self.limits[starts], curvature=known)

    def objective(self, workers: Workers | None = None) -> TrainingObjective:
        """What is minimised. workers: who may share the work of one evaluation."""
        return TrainingObjective(self.model, self.layout, self.constants, self.data, workers, self.parts)

    def minimised(
        self,
        deadline: float,
        callback: Callable[[np.ndarray, np.ndarray], object] | None = None,
        workers: Workers | None = None,
    ) -> OptimizeResult:
        """Where the starts end."""
        objective = self.objective(workers)
        monitor, minimize = Monitor(self.limits, deadline, callback, self.margin), self.minimizer
        known = {} if self.curvature is None else {"curvature": self.curvature}
        result = minimize(objective, self.theta, monitor, **known)
        if self.layout.group_terms:
            switch_off(result, self.layout, objective, minimize, monitor)
        return result if self.remembers else replace(result, curvature=None)

    def not_minimised(self, why: str) -> OptimizeResult:
        """The result of a lot that nobody came to: starts that have no value."""
        R, nothing = len(self.theta), np.zeros(len(self.theta), dtype=int)
        status, value = np.full(R, why, dtype=object), np.full(R, np.inf)
        return OptimizeResult(
            self.theta, value, np.zeros_like(self.theta), status, nothing, nothing.copy(), [[np.inf] for _ in range(R)]
        )


@dataclass(frozen=True)
class Hands:
    """Who works on the lots. ranks: processes that all make the same calls with the same data. watch: who is told how far trainings are, in the thread of the fit."""

    workers: Workers
    ranks: Ranks
    watch: Watch = nobody

    def minimised(self, named: Sequence[tuple[str, Lot]], deadline: float) -> list[OptimizeResult]:
        """The results of trainings, each with the name of its phase. deadline: by the clock of this process."""
        jobs = joblib_workers() if self.ranks.count == 1 else 1
        dealt = [lot.dealt(self._count(lot, jobs)) for _, lot in named]
        whose = [t for t, lots in enumerate(dealt) for _ in lots]
        course = _Course([phase for phase, _ in named], dealt, self.watch)
        lots = [lot for lots in dealt for lot in lots]
        if self.ranks.count > 1:
            found = self._over_ranks(lots, course, deadline)
        elif jobs > 1 and len(lots) > 1:
            found = _over_joblib(lots, course, deadline, jobs)
        else:
            found = self._in_threads(lots, range(len(lots)), course, deadline)
        return [
            reduce(OptimizeResult.joined_by, [result for owner, result in zip(whose, found, strict=True) if owner == t])
            for t in range(len(named))
        ]

    def _count(self, lot: Lot, jobs: int) -> int:
        if max(self.ranks.count, jobs) > 1:
            return max(self.ranks.count, jobs)
        return self.workers.count if lot.rows >= _ROWS_WORTH_A_THREAD else 1

    def _in_threads(self, lots: Sequence[Lot], numbers: Sequence[int], course: _Course, deadline: float) -> list[OptimizeResult]:
        """Some lots, by their numbers: side by side where their rows make it worth while, else one after another, each with all workers."""
        round_ = Round("", course.starts, nobody if self.watch is nobody else course.told, deadline)

        def minimised(number: int, workers: Workers | None = None) -> OptimizeResult:
            span = course.span(number)
            if number and (round_.stopped or round_.late):
                return lots[number].not_minimised(STOPPED if round_.stopped else TIME_LIMIT)
            result = lots[number].minimised(deadline, lambda *where: round_.tell(span, *where), workers)
            course.finished(number)
            return result

        together = [number for number in numbers if lots[number].rows >= _ROWS_WORTH_A_THREAD]
        together = together if self.workers.count > 1 and len(together) > 1 else []
        found: dict[int, OptimizeResult] = {}
        for number in numbers:
            if number in together and number not in found:
                # The longest first, so that no core waits for long at the end.
                order = sorted(together, key=lambda i: -float(lots[i].limits.sum()) * lots[i].rows)
                found |= zip(order, round_.run(minimised, order, self.workers), strict=True)
                if round_.interrupted:
                    raise KeyboardInterrupt
            elif number not in found:
                found[number] = minimised(number, self.workers)
        return [found[number] for number in numbers]

    def _over_ranks(self, lots: Sequence[Lot], course: _Course, deadline: float) -> list[OptimizeResult]:
        """Each process takes every so manyth lot, and all get all results, as numbers and JSON."""
        mine = range(self.ranks.rank, len(lots), self.ranks.count)
        for number in set(range(len(lots))) - set(mine):
            course.finished(number)  # nobody here hears of them
        sent = self.ranks.gather(*_plain(self._in_threads(lots, mine, course, deadline)))
        theirs = [_results(*message) for message in sent]
        return [theirs[number % self.ranks.count][number // self.ranks.count] for number in range(len(lots))]


class _Course:
    """How far trainings side by side are: whoever watches hears of one of them at a time, in their order, until its lots are finished."""

    def __init__(self, phases: list[str], dealt: Sequence[Sequence[Lot]], watch: Watch) -> None:
        self._phases, self._watch = phases, watch
        sizes = [[len(lot.theta) for lot in lots] for lots in dealt]
        self._ends = np.cumsum([0, *(size for each in sizes for size in each)])
        self._training_ends = np.cumsum([0, *map(sum, sizes)])
        self._left = [len(each) for each in sizes]
        self._owner = [t for t, each in enumerate(sizes) for _ in each]
        self.starts = [""] * int(self._ends[-1])

    def span(self, number: int) -> slice:
        """Which of all starts are those of a lot."""
        return slice(int(self._ends[number]), int(self._ends[number + 1]))

    def finished(self, number: int) -> None:
        self._left[self._owner[number]] -= 1

    def told(self, _: str, iterations: np.ndarray, values: np.ndarray) -> bool:
        """Where all starts are now; whether training has to stop."""
        at = next((t for t, left in enumerate(self._left) if left), len(self._left) - 1)
        mine = slice(int(self._training_ends[at]), int(self._training_ends[at + 1]))
        return self._watch(self._phases[at], iterations[mine], values[mine])


def joblib_workers() -> int:
    """How many workers ``joblib.parallel_config`` gives this fit; one where there is none, inside another parallel loop, and where they would be threads: those it has anyway."""
    active: tuple[Any, Any] = get_active_backend()
    backend, jobs = active
    jobs = backend.default_n_jobs if jobs is None else jobs
    if backend.nesting_level or getattr(backend, "uses_threads", False) or _on_a_dask_worker():
        return 1
    return joblib.effective_n_jobs(jobs)


def _on_a_dask_worker() -> bool:
    """Whether a task of Dask is at work here: joblib does not count it as a loop around this one."""
    dask: Any = sys.modules.get("distributed")  # one that was never imported has no workers here
    with suppress(ValueError):
        return dask is not None and dask.get_worker() is not None
    return False


def _over_joblib(lots: Sequence[Lot], course: _Course, deadline: float, jobs: int) -> list[OptimizeResult]:
    """Lots by joblib's workers; whoever watches is told of each that comes back, and may leave out the rest."""
    until = time.time() + deadline - time.perf_counter()  # a clock that other machines have too
    tasks = (joblib.delayed(_elsewhere)(lot, until) for lot in lots)
    backend: Any = get_active_backend()[0]
    parallel: Any = joblib.Parallel(n_jobs=jobs, return_as="generator" if backend.supports_return_generator else "list")
    iterations, values = np.zeros(len(course.starts), dtype=int), np.full(len(course.starts), np.inf)
    results: list[OptimizeResult] = []
    for result in parallel(tasks):
        results.append(result)
        span = course.span(len(results) - 1)
        iterations[span], values[span] = result.iterations, result.value
        stop = course.told("", iterations, values)
        course.finished(len(results) - 1)
        if stop:
            break
    return results + [lot.not_minimised(STOPPED) for lot in lots[len(results) :]]


def _elsewhere(lot: Lot, until: float) -> OptimizeResult:
    """In a worker of joblib, with one thread."""
    with training_threads():
        return lot.minimised(time.perf_counter() + until - time.time())


_ARRAYS = ("theta", "value", "gradient", "iterations", "evaluations")


def _plain(results: Sequence[OptimizeResult]) -> tuple[list[Any], list[np.ndarray]]:
    """Results as plain data and arrays of numbers."""
    plain = [[r.status.tolist(), [len(h) for h in r.history], r.seconds, r.curvature is not None] for r in results]
    arrays = []
    for r in results:
        arrays += [*(getattr(r, name) for name in _ARRAYS), np.concatenate([np.asarray(h) for h in r.history])]
        arrays += [] if r.curvature is None else [r.curvature.steps, r.curvature.changes]
    return plain, arrays


def _results(plain: list[Any], arrays: list[np.ndarray]) -> list[OptimizeResult]:
    """What :func:`_plain` took apart."""
    found, left = [], iter(arrays)
    for status, lengths, seconds, curved in plain:
        named = {name: next(left) for name in _ARRAYS}
        histories = [part.tolist() for part in np.split(next(left), np.cumsum(lengths)[:-1])]
        curvature = Curvature(next(left), next(left)) if curved else None
        found.append(
            OptimizeResult(
                **named, status=np.array(status, dtype=object), history=histories, seconds=seconds, curvature=curvature
            )
        )
    return found
