"""Where times leave their step: the row, what happens there, and what helps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from manifoldgp._system.plain_text import counted, verb
from manifoldgp.data.dates import pandas

UNEVEN = 0.02
"""Steps of time may differ by this share of their median, as clocks do."""

_DAY = 86_400.0
_SHORTEST_MONTH = 28 * _DAY
_NEAR = 3
"""Days by which first and last working days of a month move."""

_THREE_WEEKS = 21
"""Days that show on which weekdays nothing is ever recorded."""

_ONE_SERIES = "Several series? Give one at a time, or as columns side by side."


def months_apart(dates: Any) -> int | None:
    """After how many months dates follow each other, always at the same time of a day that every month has; None where they do not.

    >>> import pandas as pd
    >>> months_apart(pd.DatetimeIndex(["2026-01-15", "2026-02-15", "2026-03-15"])), months_apart(pd.DatetimeIndex(["2026-01-15", "2026-02-15", "2026-03-16"]))
    (1, None)
    """
    steps, within = np.unique(np.diff(_months(dates))), (dates - dates.normalize()) + pandas().to_timedelta(dates.day, "D")
    return int(steps[0]) if len(steps) == 1 and steps[0] > 0 and within.nunique() == 1 and dates[0].day <= 28 else None


def first_uneven_step(times: Any, remedy: str) -> str:
    """Which row is the first out of step, and what to do. times: an index of pandas whose steps are not even; remedy: how gaps are filled.

    >>> import pandas as pd
    >>> first_uneven_step(pd.Index([2000.0, 2001.0, 2002.0, 2004.0]), "Fill it in.")
    'row 4 (2004) comes 2 steps after row 3 (2002). Fill it in.'
    >>> first_uneven_step(pd.Index([2000.0, 2001.0, 2002.0, 2000.0, 2001.0, 2002.0]), "Fill it in.")
    'time starts again at row 4 (2000), after row 3 (2002). Several series? Give one at a time, or as columns side by side.'
    """
    if times.hasnans:
        return f"row {int(np.argmax(times.isna())) + 1} has no time. Drop the row, or fill it in."
    elapsed = _elapsed(times)
    steps = np.diff(elapsed)
    if len(steps) and np.median(steps) < 0:
        return f"the newest row stands first: {_row(times, 0)}, {_row(times, len(times) - 1)}. Sort the rows by time."
    if (steps < 0).any():
        row = int(np.argmax(steps < 0)) + 1
        again = elapsed[row - 1] - elapsed[row] > 0.5 * (elapsed[row - 1] - elapsed[0])
        where = f"{_row(times, row)}, after {_row(times, row - 1)}"
        return f"time starts again at {where}. {_ONE_SERIES}" if again else f"time goes back at {where}. Sort the rows by time."
    if (steps == 0).any():
        row, often = int(np.argmax(steps == 0)) + 1, np.mean(steps == 0) > 0.3
        return f"{_row(times, row)} has the time of row {row}. {_ONE_SERIES if often else 'Keep one of them, or their mean.'}"
    for places in _ways_to_count(times, elapsed):
        share = np.diff(places) / np.median(np.diff(places))
        off = np.abs(share - 1.0) > UNEVEN
        off = off if off.any() else share != 1.0
        if off.any():
            row = int(np.argmax(off)) + 1
            count = round(share[row - 1])
            gap = count > 1 and abs(share[row - 1] - count) < UNEVEN
            how = f"comes {count} steps after {_row(times, row - 1)}" if gap else "is out of step"
            return f"{_row(times, row)} {how}. {remedy}"
    return f"{counted(len(times), 'row')} {verb(len(times), 'does', 'do')} not tell which step they have. {remedy}"


def _elapsed(times: Any) -> np.ndarray:
    """Times as numbers: seconds of dates, as clocks show them where steps are days or more; steps of periods."""
    pd = pandas()
    if isinstance(times, pd.PeriodIndex):
        return times.asi8.astype(float)
    if not isinstance(times, pd.DatetimeIndex):
        return times.to_numpy(dtype=np.float64)
    clock = times.tz_localize(None)
    seconds = np.asarray((clock - clock.min()).total_seconds())
    if times.tz is None or abs(np.median(np.diff(seconds))) >= _DAY:
        return seconds
    return np.asarray((times - times.min()).total_seconds())


def _ways_to_count(times: Any, elapsed: np.ndarray) -> Iterator[np.ndarray]:
    """Places of dates in order of time, in which even steps are equal: months and weekdays where they go by these, and what has elapsed."""
    if len(times) < 3:
        return
    if isinstance(times, pandas().DatetimeIndex):
        dates, usual = times.tz_localize(None), np.median(np.diff(elapsed))
        if usual >= _SHORTEST_MONTH:
            for day in (dates.day, dates.day - dates.days_in_month):
                moved = np.asarray(day - np.median(day), dtype=float)
                far = np.abs(moved) > _NEAR
                if far.mean() < 0.2:
                    yield _months(dates) + np.where(far, moved, 0.0) / 31.0
                    break
        open_days = "".join("01"[int(day in dates.day_of_week)] for day in range(7))
        if usual == _DAY and len(dates) >= _THREE_WEEKS and "0" in open_days:
            days = dates.to_numpy().astype("datetime64[D]")
            yield np.busday_count(days[0], days, weekmask=open_days).astype(float)
    yield elapsed


def _months(dates: Any) -> np.ndarray:
    """Months of dates, counted from the year 0."""
    return np.asarray(12 * dates.year + dates.month)


def _row(times: Any, row: int) -> str:
    """A row by its number and its time."""
    time = times[row]
    if isinstance(time, (float, int, np.number)):
        return f"row {row + 1} ({time:.10g})"
    return f"row {row + 1} ({str(time).removesuffix(' 00:00:00')})"
