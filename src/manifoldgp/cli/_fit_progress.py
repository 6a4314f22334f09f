"""How far a fit is, how long the rest will take, and the wish to stop."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from manifoldgp.cli._fit_plan import Phase
from manifoldgp.cli._interruption import Interruption
from manifoldgp.cli._messages import Messages
from manifoldgp.training.progress import PhaseWatcher


class FitProgress(PhaseWatcher):
    """The estimator's callback: draws the bar, and answers true once somebody wants training to stop.

    On a terminal a bar; elsewhere a line for every phase. Starts that converge early make a lone phase shorter: its time left is "at most".
    watched: whether all of the training can be seen; sampling cannot.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        outputs: int,
        messages: Messages,
        interruption: Interruption,
        *,
        watched: bool = True,
        budget: float | None = None,
    ) -> None:
        self.output = -1  # the last target that had begun before somebody stopped training
        self._interruption = interruption
        self._phases, self._outputs, self._messages = list(phases), outputs, messages
        self._output, self._number, self._before, self._words = 0, 0, 0.0, "starting"
        self._watched, self._budget = watched, budget
        self._each = sum(phase.work for phase in phases)
        longest = max(len(phase.name) for phase in phases)
        self._width = longest + 4 + (len(f"target {outputs}/{outputs}, ") if outputs > 1 else 0)
        self._left = TimeLeft("about" if len(phases) > 1 else "at most")
        self._bar = Progress(
            TextColumn(f"[bold]{{task.description:<{self._width}}}"),
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
        self._task = self._bar.add_task("starting", total=self._each * self._outputs)
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def begin(self, output: int) -> None:
        self._output, self._number, self._before = output, 0, output * self._each
        if not self.stop:
            self.output = output
        self._interruption.listening = self._watched

    def enter(self, phase: str) -> None:
        """A phase that is not in the plan counts as the next one that differs from it in numbers of rows only, else as part of the one before it."""
        names = [planned.name for planned in self._phases]
        number = names.index(phase) if phase in names else self._like(phase)
        self._number = number
        self._before = self._output * self._each + sum(earlier.work for earlier in self._phases[:number])
        target = f"target {self._output + 1}/{self._outputs}, " if self._outputs > 1 else ""
        self._words = f"{target}{number + 1}/{len(self._phases)} {phase}"
        if not (self._messages.console.is_terminal or self.stop):
            left = self._seconds_left(self._before)
            self._messages.note(f"training {self._words}" + ("" if left is None else f", about {clock(left)} left"))

    def _like(self, phase: str) -> int:
        later = range(self._number + 1, len(self._phases))
        return next((i for i in later if _without_rows(self._phases[i].name) == _without_rows(phase)), self._number)

    def __call__(self, iterations: np.ndarray, values: np.ndarray) -> bool:
        phase = self._phases[self._number]
        share = min(float(iterations.mean()) / phase.iterations, 1.0)
        reached = self._before + share * phase.work
        self._left.set(self._seconds_left(reached))
        self._bar.update(self._task, completed=reached, description="stopping" if self.stop else self._words)
        return self.stop

    def _seconds_left(self, reached: float) -> float | None:
        """By the work that is done and the time it took, where that says something; never beyond the budget."""
        total, spent = self._each * self._outputs, time.perf_counter() - self._begin
        budget = None if self._budget is None else max(self._budget - spent, 0.0)
        if not self._watched or reached < 0.02 * total or spent < 0.5:
            return budget
        left = spent * (total - reached) / reached
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


def _without_rows(phase: str) -> str:
    """The name of a phase without its number of rows: groups that are held out may leave more or fewer than planned.

    >>> _without_rows("nested, 9,000 rows, 256 inducing points")
    'nested, rows, 256 inducing points'
    """
    return re.sub(r"[\d,]+ rows", "rows", phase)


class TimeLeft(ProgressColumn):
    """Counts down from the last estimate between two finished pieces."""

    max_refresh = 0.5

    def __init__(self, word: str = "about") -> None:
        super().__init__()
        self._word = word
        self._end: float | None = None

    def set(self, seconds: float | None) -> None:
        """A new estimate."""
        self._end = None if seconds is None else time.perf_counter() + seconds

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text("")
        if self._end is None:
            return Text("estimating time left", style="dim")
        return Text(f"{self._word} {clock(max(self._end - time.perf_counter(), 0.0))} left")


def clock(seconds: float) -> str:
    """Seconds as a person says them.

    >>> clock(42.0), clock(200.0), clock(8000.0)
    ('42 s', '3 min 20 s', '2 h 13 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
