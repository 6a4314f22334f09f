"""A progress line on standard error while a model trains."""

from __future__ import annotations

import sys
import time
from typing import TextIO

import numpy as np


class ProgressLine:
    """Redraws one line: starts still running, iterations, best objective a row, time spent. Usable as an optimiser's callback."""

    def __init__(self, max_iter: int, rows: int, stream: TextIO | None = None, label: str = "") -> None:
        self.max_iter, self.rows = max_iter, rows
        self.label = f"{label}: " if label else ""
        self.stream = stream or sys.stderr
        self._begin, self._last = time.perf_counter(), 0.0

    def __call__(self, iterations: np.ndarray, values: np.ndarray) -> bool:
        now = time.perf_counter()
        if now - self._last >= 0.1:
            self._last = now
            done = iterations.max(initial=0)
            bar = "█" * int(20 * min(done / max(self.max_iter, 1), 1.0))
            best = values.min(initial=np.inf) / self.rows
            self.stream.write(
                f"\r{self.label}{len(values)} starts |{bar:<20}| iteration {done}/{self.max_iter}, best NLML {best:.3f} a row, {now - self._begin:.1f} s "
            )
            self.stream.flush()
        return False

    def close(self) -> None:
        self.stream.write("\n")
        self.stream.flush()
