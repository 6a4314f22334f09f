"""Who watches a training: the user's callback, and a bar that follows the plan of the fit and says how long the rest will take."""

from __future__ import annotations

import math
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, TextIO

import numpy as np
import torch

from manifoldgp.training.plan import Phase, Plan, seconds_a_unit

_STILL = 10
"""Rounds without an iteration after which a start has ended."""

_GUESS = 0.02
"""Share of the work for which the pace that a machine should have counts as much as the one it has."""

_REDRAWN = 0.1
"""Seconds between two pictures of a line."""

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

    def __deepcopy__(self, memo: object) -> PhaseWatcher:
        """Itself: clones of an estimator are watched by the same one."""
        return self


class Position:
    """Where a training stands in its plan, in units of work. done: so far, in phases that were taken. left: what the rest takes as a rule."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.number = plan, 0
        self._before = 0.0
        self._begin_phase()

    @property
    def phase(self) -> Phase:
        return self.plan.phases[self.number]

    def enter(self, phase: str) -> None:
        """Move to the next phase of that name, or to the first one. A name that is not in the plan is taken for the next phase that differs from it in its
        number of rows only (held-out groups may leave more or fewer rows than planned); where there is none, the present phase goes on."""
        names = [planned.name for planned in self.plan.phases]
        later = range(self.number + 1, len(names))
        like = next((i for i in later if _without_rows(names[i]) == _without_rows(phase)), self.number)
        again = next((i for i in (self.number, *later) if names[i] == phase), None)
        self._before = self.done
        self.number = again if again is not None else names.index(phase) if phase in names else like
        self._begin_phase()

    def _begin_phase(self) -> None:
        self._iterations, self._moved, self._round = np.zeros(1), np.zeros(1, dtype=int), 0

    def tell(self, iterations: np.ndarray) -> None:
        """So many iterations (R,) of the present phase are done. Starts that stand still while others move have come to their end."""
        if len(iterations) != len(self._iterations):
            self._iterations, self._moved = np.zeros(len(iterations)), np.full(len(iterations), self._round)
        self._round += 1
        self._moved = np.where(iterations != self._iterations, self._round, self._moved)
        self._iterations = iterations.astype(float)

    @property
    def done(self) -> float:
        return self._before + self._of_phase(self._iterations)

    @property
    def left(self) -> float:
        rest, most = self._iterations, max(self.phase.most, self.phase.iterations)
        # a start that goes on for longer than usual goes on for a while
        rest = np.clip(np.maximum(self.phase.iterations - rest, 0.3 * rest), 0.0, np.maximum(most - rest, 0.0))
        ended = (self._round - self._moved > _STILL) & (self._iterations > 0)
        return self._of_phase(np.where(ended, 0.0, rest)) + self.plan.likely_from(self.number + 1)

    def _of_phase(self, iterations: np.ndarray) -> float:
        return float(iterations.mean()) / self.phase.iterations * self.phase.work if self.phase.iterations else 0.0


class Course:
    """How far the training of all targets is, and how long the rest will take: by the plan, and by the time that its first parts took.

    outputs: targets. budget: seconds that all of it may take.
    """

    def __init__(self, outputs: int = 1, budget: float | None = None) -> None:
        self.outputs, self.output, self._budget = outputs, 0, budget
        self._earlier: list[float] = []  # work of the targets before
        self._position: Position | None = None
        self._shown = 0.0

    @property
    def position(self) -> Position:
        assert self._position is not None, "training tells what it plans before it begins"
        return self._position

    def begin(self, output: int, plan: Plan) -> None:
        """Training of a target begins."""
        if self._position is None:
            self._begin, self._unit = time.perf_counter(), plan.slower * seconds_a_unit() / torch.get_num_threads()
        else:
            self._earlier.append(self._position.done)
        self.output, self._position = output, Position(plan)

    @property
    def _work(self) -> tuple[float, float]:
        """Done and left."""
        done, left = self.position.done, self.position.left
        each = float(np.mean(self._earlier)) if self._earlier else done + left
        return sum(self._earlier) + done, left + (self.outputs - self.output - 1) * each

    @property
    def spent(self) -> float:
        """Seconds since training began."""
        return time.perf_counter() - self._begin

    @property
    def seconds_left(self) -> float:
        """At the pace so far, and before there is one at that which this machine should have; never beyond the budget."""
        done, left = self._work
        guessed = _GUESS * self.outputs * self.position.plan.work
        pace = (self.spent + guessed * self._unit) / max(done + guessed, 1e-300)
        return left * pace if self._budget is None else max(min(left * pace, self._budget - self.spent), 0.0)

    @property
    def share(self) -> float:
        """Of the work, from 0 to 1; it never goes back."""
        done, left = self._work
        self._shown = max(self._shown, done / max(done + left, 1e-300))
        return self._shown

    @property
    def words(self) -> str:
        """The target, if there are several, and the number of the phase."""
        target = f"target {self.output + 1}/{self.outputs}, " if self.outputs > 1 else ""
        return f"{target}{self.position.number + 1}/{len(self.position.plan.phases)}"


def _without_rows(phase: str) -> str:
    """The name of a phase without its number of rows: groups that are held out may leave more or fewer than planned.

    >>> _without_rows("nested, 9,000 rows, 256 inducing points")
    'nested, rows, 256 inducing points'
    """
    return re.sub(r"[\d,]+ rows", "rows", phase)


class Bar(Protocol):
    """What shows the course of a training to a person."""

    def note(self, text: str) -> None:
        """A line that stays."""
        ...

    def show(self, words: str, details: Sequence[str], share: float, seconds_left: float | None) -> None:
        """Where training stands: its phase, details of it (the last one is the one to show where there is little room), how much of the work is done, how long the rest takes."""
        ...

    def stop(self) -> None:
        """Nothing more will come."""
        ...


class Lines:
    """A bar of plain text: redrawn where that is possible, else a line for each phase."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._redrawn = self._stream.isatty() or in_notebook()
        self._begin, self._drawn, self._width, self._phase = time.perf_counter(), -math.inf, 0, ""

    def note(self, text: str) -> None:
        self.stop()
        self._stream.write(f"{text}\n")

    def show(self, words: str, details: Sequence[str], share: float, seconds_left: float | None) -> None:
        now = time.perf_counter()
        entered, self._phase = words != self._phase, words
        if not entered and (not self._redrawn or now - self._drawn < _REDRAWN):
            return
        self._drawn = now
        times = clock(now - self._begin) + ("" if seconds_left is None else f", {about(seconds_left)} left")
        if not self._redrawn:
            self._stream.write(f"training {words}, {times}\n")
            return
        line = f"{words} |{'█' * int(20 * share):<20}| {100 * share:.0f} %, {', '.join(details)}, {times}"
        self._stream.write(f"\r{line:<{self._width}}")
        self._stream.flush()
        self._width = len(line)

    def stop(self) -> None:
        """Leave the line."""
        self._stream.write("\n" * bool(self._width))
        self._stream.flush()
        self._width = 0


def in_notebook() -> bool:
    """Whether a notebook shows what is written."""
    python: Any = sys.modules.get("IPython")  # one that was never imported runs no notebook
    shell = None if python is None else python.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


def bar_here() -> Bar:
    """The best bar that this place can show: rich's on terminals and, with ipywidgets, in notebooks; else lines."""
    able = find_spec("rich") is not None and (find_spec("ipywidgets") is not None if in_notebook() else sys.stderr.isatty())
    return import_module("manifoldgp.training.rich_bar").RichBar() if able else Lines()


class Progress(PhaseWatcher):
    """What ``verbose=True`` shows: how long the fit will take, then a bar with the phase, its details and the time left."""

    def __init__(self, outputs: int, budget: float | None = None, bar: Bar | None = None) -> None:
        self._course, self._bar, self._budget = Course(outputs, budget), bar_here() if bar is None else bar, budget
        self._rows, self._phase = 1, ""

    def begin(self, output: int, plan: Plan, rows: int = 1) -> None:
        self._course.begin(output, plan)
        self._rows = rows
        if output == 0:
            self._bar.note(in_advance(plan, self._course.seconds_left, self._budget))

    def enter(self, phase: str) -> None:
        self._course.position.enter(phase)
        self._phase = phase

    def __call__(self, iterations: np.ndarray, values: np.ndarray) -> None:
        course, most, at = self._course, self._course.position.phase.most, int(iterations.max(initial=0))
        course.position.tell(iterations)
        limit = f" of {most}" if at <= most else ""
        best = values.min(initial=np.inf) / self._rows
        details = f"starts: {len(values)}", f"iteration {at}{limit}", f"NLML {best:.3f} a row"
        self._bar.show(f"{course.words} {self._phase}", details, course.share, course.seconds_left)

    def stop(self) -> None:
        """Leave what was shown last."""
        self._bar.stop()


_SHORT = 1.5
"""Seconds of which no estimate is right to a second."""


def in_advance(plan: Plan, seconds: float, budget: float | None) -> str:
    """What a fit says before it begins.

    >>> in_advance(Plan((), title="900 rows, averaging='stack'"), 75.0, None)
    "900 rows, averaging='stack': about 1 min 15 s"
    >>> in_advance(Plan((Phase("screen", 9, 2.0, 9), Phase("rest", 9, 10.0, 9, 0.5)), title="25 rows"), 4.0, None)
    '25 rows: about 4 s, or 2 to 12 s as the data decide'
    >>> in_advance(Plan((), title="25 rows"), 0.5, 0.5)
    '25 rows: a second or less, at most 0.5 s (time_budget)'
    >>> in_advance(Plan((Phase("screen", 9, 2.0, 9), Phase("rest", 9, 10.0, 9, 0.5)), title="25 rows"), 1.4, None)
    '25 rows: a second or less'
    >>> in_advance(Plan((Phase("screen", 9, 2.0, 9), Phase("rest", 9, 20.0, 9, 0.1)), title="25 rows"), 1.4, None)
    '25 rows: 1 to 10 s as the data decide'
    """
    least, most = (seconds * work / plan.likely if plan.work else seconds for work in plan.span)
    if budget is not None:
        limits = f", at most {f'{budget:g} s' if budget < 10.0 else clock(budget)} ({plan.budget})"
    elif most > 2.0 * least and most >= 5.0:
        least = max(least, 1.0)
        span = f"{clock(least).removesuffix(' s') if most < 59.5 else clock(least)} to {clock(most)} as the data decide"
        if seconds < _SHORT:  # a second or less, and its span says so too
            return f"{plan.title}: {span}"
        limits = f", or {span}"
    else:
        limits = ""
    return f"{plan.title}: {about(seconds)}{limits}"


def about(seconds: float) -> str:
    """An estimate of seconds, as a person says it; of short times none is right to a second.

    >>> about(0.1), about(1.4), about(42.0)
    ('a second or less', 'a second or less', 'about 42 s')
    """
    return "a second or less" if seconds < _SHORT else f"about {clock(seconds)}"


def clock(seconds: float) -> str:
    """Seconds as a person says them.

    >>> clock(0.4), clock(42.0), clock(200.0), clock(8000.0)
    ('0 s', '42 s', '3 min 20 s', '2 h 13 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


@contextmanager
def shown(verbose: bool, outputs: int, budget: float | None) -> Iterator[Progress | None]:
    """What ``verbose`` shows of the training of all targets, until it ends or fails."""
    progress = Progress(outputs, budget) if verbose else None
    try:
        yield progress
    finally:
        if progress is not None:
            progress.stop()


def watching(callback: Callback | None, progress: Progress | None, output: int, plan: Plan, rows: int) -> Watch:
    """The watch of one target's training: what is shown of it, and the user's own callback."""
    if isinstance(callback, PhaseWatcher):
        callback.begin(output, plan)
    if progress is not None:
        progress.begin(output, plan, rows)
    if callback is None and progress is None:
        return nobody
    entered = ""

    def watch(phase: str, iterations: np.ndarray, values: np.ndarray) -> bool:
        nonlocal entered
        if phase != entered:
            for watcher in (progress, callback):
                if isinstance(watcher, PhaseWatcher):
                    watcher.enter(phase)
        entered = phase
        if progress is not None:
            progress(iterations, values)
        return callback is not None and bool(callback(iterations, values))

    return watch
