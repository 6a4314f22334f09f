"""The bar of a training on terminals and in notebooks, by rich."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from manifoldgp.training.progress import about


class RichBar:
    """A bar that is redrawn: phase, share of the work, time spent, time left, and the last of the details.

    console: standard error if left out. disable: nothing is drawn.
    """

    def __init__(self, console: Console | None = None, disable: bool = False) -> None:
        self._left = TimeLeft()
        self._console = Console(stderr=True, markup=False, highlight=False) if console is None else console
        self.progress = Progress(
            _text("{task.description}", "bold"), BarColumn(bar_width=None), _text("{task.percentage:>3.0f} %"), TimeElapsedColumn(), self._left,
            _text("{task.fields[detail]}", "dim"), console=self._console, disable=disable, expand=True, transient=True,
        )  # fmt: skip
        self.progress.start()
        self._task, self._widest = self.progress.add_task("starting", total=None, detail=""), 0

    def note(self, text: str) -> None:
        self._console.print(Text(text))

    def show(self, words: str, details: Sequence[str], share: float, seconds_left: float | None) -> None:
        self._left.set(seconds_left)
        self._widest = max(self._widest, len(words))
        self.progress.update(
            self._task, completed=share, total=1.0, description=f"{words:<{self._widest}}", detail="".join(details[-1:])
        )

    def stop(self) -> None:
        self.progress.stop()


def _text(template: str, style: str = "none") -> TextColumn:
    return TextColumn(template, style=style, markup=False, table_column=Column(no_wrap=True))


class TimeLeft(ProgressColumn):
    """Counts down from the last estimate between two finished pieces."""

    max_refresh = 0.5

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True))
        self._end: float | None = None

    def set(self, seconds: float | None) -> None:
        """A new estimate."""
        self._end = None if seconds is None else time.perf_counter() + seconds

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text("")
        if self._end is None:
            return Text("estimating time left", style="dim")
        return Text(f"{about(max(self._end - time.perf_counter(), 0.0))} left")
