"""How far a fit is, how long the rest will take, and the wish to stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from manifoldgp.cli._interruption import Interruption
from manifoldgp.cli._messages import Messages
from manifoldgp.training.plan import Plan
from manifoldgp.training.progress import PhaseWatcher, Position


class FitProgress(PhaseWatcher):
    """The estimator's callback: draws the bar, and answers true once somebody wants training to stop.

    On a terminal a bar; elsewhere a line for every phase.
    watched: whether all of the training can be seen; sampling cannot.
    """

    def __init__(
        self, outputs: int, messages: Messages, interruption: Interruption, *, watched: bool = True, budget: float | None = None
    ) -> None:
        self.output = -1  # the last target that had begun before somebody stopped training
        self._interruption, self._outputs, self._messages = interruption, outputs, messages
        self._output, self._words, self._width = 0, "starting", 0
        self._position: Position | None = None
        self._watched, self._budget = watched, budget
        self._left = TimeLeft("about")
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            self._left,
            console=messages.console,
            disable=messages.quiet or not messages.console.is_terminal,
            expand=True,
            transient=True,
        )

    @property
    def stop(self) -> bool:
        """Whether somebody wants training to stop."""
        return self._interruption.wanted

    def __enter__(self) -> FitProgress:
        self._begin = time.perf_counter()
        self._bar.start()
        self._task = self._bar.add_task("starting", total=None)
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def begin(self, output: int, plan: Plan) -> None:
        self._output, self._position = output, Position(plan)
        longest = max(len(phase.name) for phase in plan.phases)
        self._width = longest + 4 + (len(self._target()) if self._outputs > 1 else 0)
        self._left.word = "about" if len(plan.phases) > 1 else "at most"  # starts that converge early make a lone phase shorter
        self._bar.update(self._task, total=plan.work * self._outputs)
        if not self.stop:
            self.output = output
        self._interruption.listening = self._watched

    def enter(self, phase: str) -> None:
        position = self._standing()
        position.enter(phase)
        self._words = f"{self._target()}{position.number + 1}/{len(position.plan.phases)} {phase}"
        if not (self._messages.console.is_terminal or self.stop):
            left = self._seconds_left(position.before)
            self._messages.note(f"training {self._words}" + ("" if left is None else f", about {clock(left)} left"))

    def __call__(self, iterations: np.ndarray, values: np.ndarray) -> bool:
        position = self._standing()
        reached = position.reached(iterations)
        self._left.set(self._seconds_left(reached))
        words = "stopping" if self.stop else self._words
        done = self._output * position.plan.work + reached
        self._bar.update(self._task, completed=done, description=f"{words:<{self._width}}")
        return self.stop

    def _standing(self) -> Position:
        assert self._position is not None, "training tells what it plans before it begins"
        return self._position

    def _target(self) -> str:
        return f"target {self._output + 1}/{self._outputs}, " if self._outputs > 1 else ""

    def _seconds_left(self, reached: float) -> float | None:
        """By the work that is done and the time it took, where that says something; never beyond the budget."""
        each = self._standing().plan.work
        total, done, spent = each * self._outputs, self._output * each + reached, time.perf_counter() - self._begin
        budget = None if self._budget is None else max(self._budget - spent, 0.0)
        if not self._watched or done < 0.02 * total or spent < 0.5:
            return budget
        left = spent * (total - done) / done
        return left if budget is None else min(left, budget)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """A signal asks training to stop and to keep the best so far; one while nobody listens ends everything at once."""
        try:
            yield
        except Exception:
            if self.stop:  # what failed was left half done by the one who stopped it
                raise KeyboardInterrupt from None
            raise
        finally:
            self._interruption.listening = False
        if self.stop and not self._watched:  # the sampler keeps an interrupt to itself and returns the draws it has
            raise KeyboardInterrupt


class TimeLeft(ProgressColumn):
    """Counts down from the last estimate between two finished pieces."""

    max_refresh = 0.5

    def __init__(self, word: str = "about") -> None:
        super().__init__()
        self.word = word
        self._end: float | None = None

    def set(self, seconds: float | None) -> None:
        """A new estimate."""
        self._end = None if seconds is None else time.perf_counter() + seconds

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text("")
        if self._end is None:
            return Text("estimating time left", style="dim")
        return Text(f"{self.word} {clock(max(self._end - time.perf_counter(), 0.0))} left")


def clock(seconds: float) -> str:
    """Seconds as a person says them.

    >>> clock(42.0), clock(200.0), clock(8000.0)
    ('42 s', '3 min 20 s', '2 h 13 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
