"""Who watches a training: the user's callback, and a progress line on standard error that follows the plan of the fit."""

from __future__ import annotations

import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import numpy as np

from manifoldgp.training.plan import Phase, Plan

Callback = Callable[[np.ndarray, np.ndarray], object]
"""Called after every round with iterations (R,) and objective values (R,) of all starts; a true answer stops training."""

Watch = Callable[[str, np.ndarray, np.ndarray], bool]
"""Called as watch(phase, iterations, objective values) after every round; a true answer stops training."""


def nobody(phase: str, iterations: np.ndarray, values: np.ndarray) -> bool:
    """The watch of a training that nobody watches."""
    return False


class PhaseWatcher(ABC):
    """An estimator's callback that is also told what is planned and what is being trained, so that it can say how much is left."""

    @abstractmethod
    def begin(self, output: int, plan: Plan) -> None:
        """Training of the target number ``output`` begins."""

    @abstractmethod
    def enter(self, phase: str) -> None:
        """Training enters a phase, such as "own on folds"."""

    @abstractmethod
    def __call__(self, iterations: np.ndarray, values: np.ndarray) -> object:
        """After every round of a phase, like every callback."""


class Position:
    """Where a training stands in its plan, in units of work."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.number = plan, 0

    @property
    def phase(self) -> Phase:
        return self.plan.phases[self.number]

    def enter(self, phase: str) -> None:
        """Move to the phase of that name. A name that is not in the plan is taken for the next phase that differs from it in its number of rows only
        (held-out groups may leave more or fewer rows than planned); where there is none, the present phase goes on."""
        names = [planned.name for planned in self.plan.phases]
        later = range(self.number + 1, len(names))
        like = next((i for i in later if _without_rows(names[i]) == _without_rows(phase)), self.number)
        self.number = names.index(phase) if phase in names else like

    @property
    def before(self) -> float:
        """Work of the phases before this one."""
        return sum(phase.work for phase in self.plan.phases[: self.number])

    def reached(self, iterations: np.ndarray) -> float:
        """Work that is done after so many iterations (R,) of this phase."""
        share = min(float(iterations.mean()) / self.phase.iterations, 1.0) if self.phase.iterations else 1.0
        return self.before + share * self.phase.work


def _without_rows(phase: str) -> str:
    """The name of a phase without its number of rows: groups that are held out may leave more or fewer than planned.

    >>> _without_rows("nested, 9,000 rows, 256 inducing points")
    'nested, rows, 256 inducing points'
    """
    return re.sub(r"[\d,]+ rows", "rows", phase)


class ProgressLines:
    """A line for each phase, redrawn while it lasts: starts, iterations, best objective a row, time spent, and time left of the whole plan.

    rows: of the target. seconds: time that is left for everything, if it is limited.
    """

    def __init__(self, plan: Plan, rows: int, seconds: float | None = None, stream: TextIO | None = None) -> None:
        self._position, self._rows, self._seconds = Position(plan), rows, seconds
        self._stream = sys.stderr if stream is None else stream
        self._begin, self._drawn = time.perf_counter(), -1.0
        self._phase = ""
        self._state: tuple[np.ndarray, np.ndarray] | None = None

    def __call__(self, phase: str, iterations: np.ndarray, values: np.ndarray) -> None:
        if phase != self._phase:
            self.close()
            self._position.enter(phase)
            self._phase = phase
        self._state = iterations.copy(), values.copy()
        if time.perf_counter() - self._drawn >= 0.1:
            self._draw()

    def close(self) -> None:
        """Show how the phase ended, and leave its line."""
        if self._state is not None:
            self._draw()
            self._stream.write("\n")
            self._stream.flush()
        self._state = None

    def _draw(self) -> None:
        if self._state is None:
            return
        self._drawn = time.perf_counter()
        iterations, values = self._state
        done, most = int(iterations.max(initial=0)), max(self._position.phase.most, int(iterations.max(initial=0)))
        bar = "█" * int(20 * done / max(most, 1))
        label = "" if self._phase == "starts" else f"{self._phase}: "
        self._stream.write(
            f"\r{label}{len(values)} starts |{bar:<20}| iteration {done}/{most}, best NLML {values.min(initial=np.inf) / self._rows:.3f} a row, "
            f"{self._drawn - self._begin:.1f} s{self._left(iterations)} "
        )
        self._stream.flush()

    def _left(self, iterations: np.ndarray) -> str:
        """What is left of the plan at the pace so far, and never more than the limit."""
        spent, reached = self._drawn - self._begin, self._position.reached(iterations)
        limits = [spent * (self._position.plan.work - reached) / reached] if reached > 0 else []
        limits += [] if self._seconds is None else [self._seconds - spent]
        return f", about {max(min(limits), 0.0):.0f} s left" if limits else ""


@contextmanager
def watched(
    callback: Callback | None, verbose: bool, output: int, plan: Plan, rows: int, seconds: float | None = None
) -> Iterator[Watch]:
    """The watch of one target's training: a progress line for each phase if verbose, and the user's own callback."""
    if isinstance(callback, PhaseWatcher):
        callback.begin(output, plan)
    lines = ProgressLines(plan, rows, seconds) if verbose else None
    if callback is None and lines is None:
        yield nobody
        return
    entered = ""

    def watch(phase: str, iterations: np.ndarray, values: np.ndarray) -> bool:
        nonlocal entered
        if lines is not None:
            lines(phase, iterations, values)
        if callback is None:
            return False
        if phase != entered and isinstance(callback, PhaseWatcher):
            callback.enter(phase)
        entered = phase
        return bool(callback(iterations, values))

    try:
        yield watch
    finally:
        if lines is not None:
            lines.close()
