"""What a fit looked like while it ran: the lowest NLML so far against seconds; and the best start."""

from __future__ import annotations

import time
from typing import Any

WORTH_A_POINT = 1e-3  # nats of the whole data set


class Trace:
    """Collects (seconds, lowest NLML so far) from the moment it is made."""

    def __init__(self) -> None:
        self.begin, self.points, self.best = time.perf_counter(), [], float("inf")

    def seen(self, nlml: float) -> None:
        """A value that the optimiser came across."""
        if nlml < self.best - WORTH_A_POINT:
            self.best = nlml
            self.points.append((time.perf_counter() - self.begin, nlml))


class Best:
    """The lowest NLML that was offered, and what came with it: a start's parameters, or a point theta."""

    def __init__(self) -> None:
        self.nlml, self.values = float("inf"), None

    def offer(self, nlml: float, values: Any) -> None:
        if nlml < self.nlml:
            self.nlml, self.values = nlml, values
