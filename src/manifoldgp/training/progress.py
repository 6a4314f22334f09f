"""A progress line on standard error while a model trains."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import numpy as np

Callback = Callable[[np.ndarray, np.ndarray], object]
"""Called after every round with iterations (R,) and objective values (R,) of all starts; a true answer stops training."""


class PhaseWatcher(ABC):
    """An estimator's callback that is also told what is being trained, so that it can say how much is left."""

    @abstractmethod
    def begin(self, output: int) -> None:
        """Training of the target number ``output`` begins."""

    @abstractmethod
    def enter(self, phase: str) -> None:
        """Training enters a phase, such as "own on folds"."""

    @abstractmethod
    def __call__(self, iterations: np.ndarray, values: np.ndarray) -> object:
        """After every round of a phase, like every callback."""


def begin_output(callback: Callback | None, output: int) -> None:
    """Tell the callback, if it wants to know, that training of this target begins."""
    if isinstance(callback, PhaseWatcher):
        callback.begin(output)


class PhaseTeller:
    """Hands the rounds of one target's training on to a callback, with the phases if it wants to know them."""

    def __init__(self, callback: Callback | None) -> None:
        self._callback, self._phase = callback, ""

    def __call__(self, phase: str, iterations: np.ndarray, values: np.ndarray) -> bool:
        if self._callback is None:
            return False
        if phase != self._phase and isinstance(self._callback, PhaseWatcher):
            self._callback.enter(phase)
        self._phase = phase
        return bool(self._callback(iterations, values))


class ProgressLine:
    """Redraws one line: starts still running, iterations, best objective a row, time spent and left. Usable as an optimiser's callback.

    seconds: time that is left for everything, if it is limited.
    """

    def __init__(
        self, max_iter: int, rows: int, stream: TextIO | None = None, label: str = "", seconds: float | None = None
    ) -> None:
        self.max_iter, self.rows, self.seconds = max_iter, rows, seconds
        self.label = f"{label}: " if label else ""
        self.stream = sys.stderr if stream is None else stream
        self._begin, self._last = time.perf_counter(), -1.0
        self._state: tuple[int, int, float] | None = None

    def __call__(self, iterations: np.ndarray, values: np.ndarray) -> bool:
        self._state = iterations.max(initial=0), len(values), values.min(initial=np.inf) / self.rows
        if time.perf_counter() - self._last >= 0.1:
            self._draw()
        return False

    def close(self) -> None:
        """Show how it ended, and leave the line."""
        self._draw()
        self.stream.write("\n")
        self.stream.flush()

    def _draw(self) -> None:
        if self._state is None:
            return
        self._last = time.perf_counter()
        done, starts, best = self._state
        bar = "█" * int(20 * min(done / max(self.max_iter, 1), 1.0))
        self.stream.write(
            f"\r{self.label}{starts} starts |{bar:<20}| iteration {done}/{self.max_iter}, best NLML {best:.3f} a row, "
            f"{self._last - self._begin:.1f} s{self._left(done)} "
        )
        self.stream.flush()

    def _left(self, done: int) -> str:
        """What is left at most, at the pace so far."""
        spent = self._last - self._begin
        limits = [spent * (self.max_iter - done) / done] if done else []
        limits += [] if self.seconds is None else [self.seconds - spent]
        return f", at most {max(min(limits), 0.0):.0f} s left" if limits else ""


class PhaseLines:
    """A progress line for each phase of a longer training, one below the other."""

    def __init__(self, max_iter: int, rows: int, seconds: float | None = None) -> None:
        self.max_iter, self.rows, self.seconds = max_iter, rows, seconds
        self._begin = time.perf_counter()
        self._phase: str | None = None
        self._line: ProgressLine | None = None

    def __call__(self, phase: str, iterations: np.ndarray, values: np.ndarray) -> None:
        if phase != self._phase:
            self.close()
            left = None if self.seconds is None else self.seconds - (time.perf_counter() - self._begin)
            self._phase, self._line = (
                phase,
                ProgressLine(self.max_iter, self.rows, label="" if phase == "starts" else phase, seconds=left),
            )
        assert self._line is not None
        self._line(iterations, values)

    def close(self) -> None:
        """Leave the line of the last phase."""
        if self._line is not None:
            self._line.close()
        self._phase = self._line = None


@contextmanager
def watched_phases(
    callback: Callback | None, verbose: bool, max_iter: int, rows: int, seconds: float | None = None
) -> Iterator[Callable[[str, np.ndarray, np.ndarray], bool]]:
    """Called as watch(phase, iterations, values) after every round: a progress line for each phase if verbose, and the user's own callback."""
    lines = PhaseLines(max_iter, rows, seconds) if verbose else None
    tell = PhaseTeller(callback)

    def watch(phase: str, iterations: np.ndarray, values: np.ndarray) -> bool:
        if lines is not None:
            lines(phase, iterations, values)
        return tell(phase, iterations, values)

    try:
        yield watch
    finally:
        if lines is not None:
            lines.close()
