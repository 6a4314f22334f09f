"""How far a fit is, how long the rest will take, and the wish to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from manifoldgp.cli._interruption import Interruption
from manifoldgp.cli._messages import Messages, in_options
from manifoldgp.training.plan import Plan
from manifoldgp.training.progress import Course, PhaseWatcher, about, in_advance
from manifoldgp.training.rich_bar import RichBar


def can_be_watched(averaging: Any) -> bool:
    """Whether all of a training can be seen and stopped; that of a sampler cannot."""
    from manifoldgp.averaging import NUTS, as_averaging

    return not isinstance(as_averaging(averaging), NUTS)


_ANSWER = "mgp: Interrupted: training is ending, which takes some seconds."


class FitProgress(PhaseWatcher):
    """The estimator's callback: draws the bar, and answers true once somebody wants training to stop.

    On a terminal a bar; elsewhere a line for every phase.
    watched: whether all of the training can be seen (`can_be_watched`). title: what is trained, in words; None: as the plan says it, by options of ``mgp fit``.
    afterwards: what else is to come after the training of so many targets by a plan.
    """

    def __init__(
        self,
        outputs: int,
        messages: Messages,
        interruption: Interruption,
        *,
        watched: bool = True,
        budget: float | None = None,
        title: str | None = None,
        afterwards: Callable[[Plan, int], str] = lambda plan, outputs: "",
    ) -> None:
        self.output = -1  # the last target that had begun before somebody stopped training
        self.course = Course(outputs, budget)
        self._interruption, self._messages, self._watched, self._budget = interruption, messages, watched, budget
        self._words, self._title, self._afterwards = "starting", title, afterwards

    @property
    def stop(self) -> bool:
        """Whether somebody wants training to stop."""
        return self._interruption.wanted

    def __enter__(self) -> FitProgress:
        console = self._messages.console
        self.bar = RichBar(console, disable=self._messages.quiet or not console.is_terminal)
        return self

    def __exit__(self, *_: Any) -> None:
        self.bar.stop()

    def begin(self, output: int, plan: Plan) -> None:
        self.course.begin(output, plan)
        plan = plan if self._title is None else replace(plan, title=self._title)
        if output == 0 and self._watched and plan.title:
            told = in_advance(plan, self.course.seconds_left, self._budget) + self._afterwards(plan, self.course.outputs)
            self._messages.note(in_options(told))
        if not self.stop:
            self.output = output
        self._interruption.listening = self._watched
        if not (self._messages.quiet or self._messages.console.is_terminal):  # on a terminal the bar says so
            self._interruption.answer = _ANSWER

    def enter(self, phase: str) -> None:
        self.course.position.enter(phase)
        self._words = f"{self.course.words} {phase}"
        if not (self._messages.console.is_terminal or self.stop):
            left = self._seconds_left()
            self._messages.note(f"training {self._words}" + ("" if left is None else f", {about(left)} left"))

    def __call__(self, iterations: np.ndarray, values: np.ndarray) -> bool:
        self.course.position.tell(iterations)
        self.bar.show("stopping" if self.stop else self._words, (), self.course.share, self._seconds_left())
        return self.stop

    def _seconds_left(self) -> float | None:
        if self._watched:
            return self.course.seconds_left
        return None if self._budget is None else max(self._budget - self.course.spent, 0.0)

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
