"""A round of training: members side by side in threads, and one who watches all of them from the thread that began the fit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

import numpy as np

from manifoldgp._system.threads import Workers
from manifoldgp.training.progress import Watch, nobody

Result = TypeVar("Result")

INTERRUPTED = "Training was interrupted; the best model so far is kept."
"""What a fit says that Ctrl-C has ended."""


class Round:
    """Where each member stands, until when they may go on, and whether somebody wants all of them to stop.

    Callbacks run in the thread that began the fit, whichever thread a member is trained in: a member tells where it stands and waits for the answer.
    labels: of the members, each its own. interrupted: by Ctrl-C. resumed: some member went on from a checkpoint.
    """

    def __init__(self, phase: str, labels: Sequence[str], watch: Watch, deadline: float, stopped: bool = False) -> None:
        self.phase, self.labels, self.watch, self.deadline, self.stopped = phase, labels, watch, deadline, stopped
        self.iterations, self.values = np.zeros(len(labels), dtype=int), np.full(len(labels), np.inf)
        self.interrupted = self.resumed = False
        self._home = threading.current_thread()
        self._questions: SimpleQueue[Future[bool] | None] = SimpleQueue()  # None: a member has come to its end

    @property
    def late(self) -> bool:
        return time.perf_counter() > self.deadline

    def tell(self, number: int | slice, iterations: int | np.ndarray, value: float | np.ndarray) -> bool:
        """A member (or several, one after another) stands here now; whether it has to stop."""
        self.iterations[number], self.values[number] = iterations, value
        if self.stopped or self.watch is nobody:
            return self.stopped
        if threading.current_thread() is self._home:
            return self._asked()
        question: Future[bool] = Future()
        self._questions.put(question)
        while not self.stopped:
            with suppress(TimeoutError):  # an interrupt may come between a question and its answer
                return question.result(timeout=1.0)
        return True

    def _asked(self) -> bool:
        self.stopped = self.watch(self.phase, self.iterations.copy(), self.values.copy()) or self.stopped
        return self.stopped

    def run(self, function: Callable[[int], Result], numbers: Sequence[int], workers: Workers) -> list[Result]:
        """[function(number) for number in numbers], side by side; questions of members are answered meanwhile."""

        def until_somebody_fails(number: int) -> Result:
            try:
                return function(number)
            except BaseException:
                self.stopped = True
                raise

        futures = workers.begin(until_somebody_fails, numbers)
        for future in futures:
            future.add_done_callback(lambda _: self._questions.put(None))
        error = None
        while not all(future.done() for future in futures):
            try:
                self._answer()
            except KeyboardInterrupt:
                self.interrupted = self.stopped = True
            except BaseException as failed:  # of the callback: it ends the fit as soon as nobody is at work
                error, self.stopped = failed, True
        if error is not None:
            raise error
        return [future.result() for future in futures]

    def _answer(self) -> None:
        """Wait for the next question, or for a member that comes to its end."""
        with suppress(Empty):
            question = self._questions.get(timeout=1.0)
            if question is not None:
                question.set_result(self._asked())
