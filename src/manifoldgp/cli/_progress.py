"""A bar with the time left for work whose pieces take different times."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from manifoldgp.experiments import Config


class WorkProgress:
    """Shows how many Configs are done and how long the rest will take, by the expected seconds of each.

    On a terminal a bar; elsewhere a line for every finished Config.
    """

    def __init__(self, expected: Mapping[Config, float], processes: int | None = None, console: Console | None = None) -> None:
        self._expected = dict(expected)
        self._processes = processes or os.cpu_count() or 1
        self._console = console or Console(stderr=True)
        self._time_left = TimeLeft()
        self._bar = Progress(
            TextColumn("[bold]{task.description:<28}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            self._time_left,
            console=self._console,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> WorkProgress:
        self._waiting, self._count = sum(self._expected.values()), 0
        self._fitted_expected, self._fitted_seconds = 0.0, 0.0
        self._bar.start()
        self._task = self._bar.add_task("starting", total=len(self._expected))
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def done(self, config: Config, seconds: float | None) -> None:
        """Note that a Config is finished; seconds: what its fit took, None if there was none."""
        self._waiting -= self._expected[config]
        self._count += 1
        if seconds is not None:
            self._fitted_expected += self._expected[config]
            self._fitted_seconds += seconds
        left = None
        if self._fitted_expected > 0:
            left = max(self._waiting, 0.0) * self._fitted_seconds / self._fitted_expected / self._processes
        self._time_left.set(left)
        name = f"{config.experiment} {config.method}"
        self._bar.update(self._task, advance=1, description=name)
        if not self._console.is_terminal:
            remaining = "" if left is None else f", about {clock(left)} left"
            self._console.print(f"{self._count}/{len(self._expected)} {name} seed {config.seed}{remaining}", highlight=False)


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
