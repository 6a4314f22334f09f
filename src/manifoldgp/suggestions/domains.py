"""What one input of an experiment can be: a number or a date in a range, or one of several values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldgp.data.columns import pandas
from manifoldgp.data.dates import TimeScale, as_times
from manifoldgp.errors import InputError

Value = float | str | bool

_MOST_LEVELS, _OFTEN = 10, 3
"""A number with at most so many values, each in so many training rows, is a setting that has these values."""


@dataclass(frozen=True)
class Range:
    """A number between low and high, in multiples of ``step`` from low on if there is one."""

    low: float
    high: float
    step: float | None = None
    levels: tuple[float, ...] = ()
    """The few values that the training rows have, where they are settings rather than measurements."""

    @classmethod
    def of(cls, x: np.ndarray) -> Range:
        """From the smallest to the largest of the values x (n,); whole numbers where all of them are."""
        rounded = np.round(x)
        if np.abs(x - rounded).max() < 1e-9 * max(1.0, float(np.abs(x).max())):
            found = cls(float(rounded.min()), float(rounded.max()), 1.0)
        else:
            x = np.round(
                x, int(10 - np.ceil(np.log10(np.abs(x).max())))
            )  # standardising and back leaves a trace in the last digits
            found = cls(float(x.min()), float(x.max()))
        return replace(found, levels=found._levels(x if found.step is None else rounded))

    def _levels(self, x: np.ndarray) -> tuple[float, ...]:
        values, counts = np.unique(x, return_counts=True)
        every = (
            self.step is not None and len(values) == self.high - self.low + 1
        )  # whole numbers without a gap are no special ones
        few = len(values) <= _MOST_LEVELS and counts.min() >= _OFTEN
        return () if every or not few else tuple(values.tolist())

    def at(self, share: np.ndarray) -> np.ndarray:
        """Values at shares (n,) of the way from low to high."""
        values = self.low + np.clip(share, 0.0, 1.0) * (self.high - self.low)
        return self._readable(values) if self.step is None else self._on_grid(values, self.step)

    def _readable(self, values: np.ndarray) -> np.ndarray:
        """With as many digits as a person would set: a ten-thousandth of the range, or finer."""
        if self.high <= self.low:
            return values
        decimals = int(np.ceil(4 - np.log10(self.high - self.low)))
        return np.clip(np.round(values, decimals), self.low, self.high)

    def _on_grid(self, values: np.ndarray, step: float) -> np.ndarray:
        most = np.floor((self.high - self.low) / step + 1e-9)
        rounded = self.low + step * np.clip(np.round((values - self.low) / step), 0, most)
        return np.round(rounded, 12)

    def nearest(self, values: np.ndarray) -> np.ndarray:
        """The possible numbers next to these; without a step they are themselves, inside or not."""
        return np.round(values, 12) if self.step is None else self._on_grid(values, self.step)

    def share(self, values: np.ndarray) -> np.ndarray:
        return (values - self.low) / (self.high - self.low) if self.high > self.low else np.zeros(len(values))

    def holds(self, values: np.ndarray) -> np.ndarray:
        """Which values (n,) lie inside, up to rounding."""
        slack = 1e-9 * (abs(self.low) + abs(self.high))
        return (self.low - slack <= values) & (values <= self.high + slack)


@dataclass(frozen=True)
class Dates:
    """A date within a span of time, as exact as the training rows are; written as a text, which sorts by time."""

    name: str
    scale: TimeScale
    span: Range
    """In the scale's units since its origin."""

    def at(self, share: np.ndarray) -> np.ndarray:
        return self.texts(self.span.at(share))

    def share(self, values: np.ndarray) -> np.ndarray:
        return self.span.share(self.elapsed(values))

    def holds(self, values: np.ndarray) -> np.ndarray:
        """Which dates (n,) lie inside."""
        return self.span.holds(self.elapsed(values))

    def texts(self, elapsed: np.ndarray) -> np.ndarray:
        """Dates (n,) as texts: 2026-12-31, or 2026-12-31 23:59:00 where the training rows have times of day."""
        pd = pandas()
        origin = pd.Timestamp(self.scale.origin)
        times = pd.Series((origin + pd.to_timedelta(elapsed, unit=self.scale.unit)).round("s"))
        whole = self.span.step is not None and self.scale.unit == "days" and origin == origin.normalize()
        return times.dt.strftime("%Y-%m-%d" if whole else "%Y-%m-%d %H:%M:%S").to_numpy(dtype=object)

    def elapsed(self, values: Any) -> np.ndarray:
        """Dates (n,), as texts or otherwise, in units since the origin."""
        given = pandas().Series(list(values), dtype=object)
        times, wrong = as_times(given, self.scale.order)
        if wrong.any():
            raise InputError(f"{self.name!r} is a date, such as 2026-12-31; got {given[wrong].iloc[0]!r}.")
        return self.scale.numbers(times)[:, 0]


@dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Value, ...]

    def at(self, share: np.ndarray) -> np.ndarray:
        place = np.minimum((np.clip(share, 0.0, 1.0) * len(self.values)).astype(int), len(self.values) - 1)
        return np.array(self.values, dtype=object if isinstance(self.values[0], str) else None)[place]

    @property
    def of_numbers(self) -> bool:
        """Whether it is one of several numbers."""
        return len(self.values) > 1 and all(isinstance(value, float) for value in self.values)

    def nearest(self, values: np.ndarray) -> np.ndarray:
        """Of several numbers the ones next to these."""
        known = np.array(self.values, dtype=float)
        return known[np.abs(values[:, None] - known).argmin(1)]

    def share(self, values: np.ndarray) -> np.ndarray:
        place = {value: k for k, value in enumerate(self.values)}
        return np.array([(place[v] + 0.5) / len(self.values) for v in values.tolist()])

    def holds(self, values: np.ndarray) -> np.ndarray:
        """Which values (n,) are among them, numbers up to rounding."""
        if isinstance(self.values[0], str):
            return np.isin(values, self.values)
        return np.any(np.isclose(values[:, None], np.array(self.values, dtype=float)), axis=1)


Domain = Range | Dates | Choice
