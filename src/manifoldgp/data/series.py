"""Series: values at even steps of time, and how the times go on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp._system.plain_text import counted
from manifoldgp._system.real_numbers import as_numbers
from manifoldgp.data.columns import unclear_time
from manifoldgp.data.dates import ORDERS, ambiguous_times, as_times, day_order, holds_times, pandas
from manifoldgp.data.frames import as_frame, column_names, is_series
from manifoldgp.data.uneven_steps import UNEVEN, first_uneven_step, months_apart
from manifoldgp.errors import InputError, warn

if TYPE_CHECKING:
    from pandas import DataFrame, Index, Series


@dataclass(frozen=True)
class EvenSeries:
    """Values of one or several series at even steps of time.

    Parameters
    ----------
    values : (N, O)
        NaN where a value is missing.
    times : (N,)
        An index of pandas, or numbers; 0, 1, 2, ... where none were given.
    step
        The step: an offset of pandas, or a number.
    names
        Of the series, where they have names.
    flat
        Whether it was one series, (N,).
    """

    values: np.ndarray
    times: Index | np.ndarray
    step: Any
    names: tuple[str, ...] | None
    flat: bool

    def __len__(self) -> int:
        return len(self.values)

    def following(self, count: int) -> Index | np.ndarray:
        """The next times."""
        if isinstance(self.times, np.ndarray):
            return self.times[-1] + self.step * np.arange(1, count + 1)
        if hasattr(self.times, "asfreq"):  # periods
            return pandas().period_range(self.times[-1] + 1, periods=count, freq=self.step)
        return pandas().date_range(self.times[-1], periods=count + 1, freq=self.step)[1:]

    def extended(self, more: EvenSeries) -> EvenSeries:
        """The series with more values after its last; those that bring times along must begin at the next step."""
        if more.values.shape[1] != self.values.shape[1]:
            raise InputError(
                f"The series has {counted(self.values.shape[1], 'column')}; the new values have {more.values.shape[1]}."
            )
        expected: Any = self.following(len(more))
        dated = not isinstance(more.times, np.ndarray)
        if dated != (not isinstance(self.times, np.ndarray)):
            raise InputError("Give new values as the series was given: with dates, or without.")
        if dated and not bool((more.times == expected).all()):
            raise InputError(
                f"New values must go on where the series ends: {expected[0]} was expected, and {more.times[0]} came."
            )
        times = np.concatenate([self.times, expected]) if isinstance(self.times, np.ndarray) else self.times.append(expected)
        return replace(self, values=np.concatenate([self.values, more.values]), times=times)

    def to_plain(self) -> dict[str, Any]:
        """As plain data, for a file: None where a value is missing; of dates and periods the first and the step, and refused where these do not say it all."""
        values = [[None if np.isnan(value) else float(value) for value in row] for row in self.values]
        plain = {"values": values, "names": self.names, "flat": self.flat}
        if isinstance(self.times, np.ndarray):
            return plain | {"kind": "numbers", "times": self.times.tolist(), "step": float(self.step)}
        kind = "periods" if hasattr(self.times, "asfreq") else "dates"
        zone = getattr(self.times, "tz", None)  # periods have none
        plain |= {
            "kind": kind,
            "first": str(self.times[0]),
            "zone": None if zone is None else str(zone),
            "step": self.step.freqstr,
        }
        if not self._has_times_of(plain):
            raise InputError(
                f"These times cannot be written to a file, which holds the first one and the name of their step ({self.step.freqstr!r}, zone {zone}) and would give "
                "others back. Use a frequency with a name, by y.asfreq('MS') for example, without holidays of your own, and a zone such as 'Europe/Berlin'."
            )
        return plain

    def _has_times_of(self, plain: dict[str, Any]) -> bool:
        """Whether the same times and step come back from plain data: holidays, for example, have no place in a frequency's name."""
        try:
            again = EvenSeries.from_plain(plain)
        except (ValueError, TypeError, KeyError, AttributeError):
            return False
        zones = [str(getattr(series.times, "tz", None)) for series in (self, again)]
        return bool(again.step == self.step and (again.times == self.times).all() and zones[0] == zones[1])

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> EvenSeries:
        """From a file, which may be damaged or forged."""
        values = _numbers(plain["values"], "The file's series")
        names = None if plain["names"] is None else tuple(map(str, plain["names"]))
        flat = bool(plain["flat"])
        if (names is not None and len(names) != values.shape[1]) or (flat and values.shape[1] > 1):
            raise ValueError("other names than series")
        if plain["kind"] == "numbers":
            times, step = np.array(plain["times"], dtype=np.float64), float(plain["step"])
            if times.shape != values.shape[:1] or not np.isfinite([*times, step]).all() or step <= 0:
                raise ValueError("other times than values")
            return cls(values, times, step, names, flat)
        pd, count, step = pandas(), len(values), pandas().tseries.frequencies.to_offset(str(plain["step"]))
        if step.n < 1:
            raise ValueError(f"a step of {step.freqstr}, which does not go on")
        if plain["kind"] == "periods":
            periods = pd.period_range(str(plain["first"]), periods=count, freq=step)
            return cls(values, periods, periods.freq, names, flat)
        first = pd.Timestamp(str(plain["first"]))
        first = first if plain["zone"] is None else first.tz_convert(str(plain["zone"]))
        return cls(values, pd.date_range(first, periods=count, freq=step), step, names, flat)


def even_series(y: Any, step: Any = None) -> EvenSeries:
    """A series from numbers (N,) or (N, O), or from a Series or a frame whose index, or one column, holds the times.

    step: where it is known already, as of values that continue a series; a single value has none.
    """
    flat = is_series(y)
    frame = y.to_frame() if flat else as_frame(y)
    if frame is None:
        return _of_array(y)
    frame, times = _split_times(frame)
    values = _numbers(frame.to_numpy(), "The series")
    found, taken = _step(times, step)
    names = column_names(y) if flat else [str(name) for name in frame.columns]
    return EvenSeries(values, found, taken, None if names is None else tuple(names), flat)


def _of_array(y: Any) -> EvenSeries:
    values = _numbers(y, "The series")
    return EvenSeries(values, np.arange(float(len(values))), 1.0, None, np.ndim(y) == 1)


def _numbers(y: Any, name: str) -> np.ndarray:
    values = as_numbers(y, name, mask_is_missing=True)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.size:
        raise InputError(f"{name} must be numbers, (N,) or (N, series), at least one; got shape {values.shape}.")
    if np.isinf(values).any():
        raise InputError(f"{name} has infinite values. Replace them, by NaN where they are not known.")
    return values


def _split_times(frame: Any) -> tuple[Any, Any]:
    """Columns of values and the times: the index if it holds any, otherwise the one column of dates."""
    dated = [name for name in frame.columns if holds_series_times(frame[name].dropna())] if _counts(frame.index) else []
    if len(dated) > 1:
        raise InputError(f"Several columns hold dates: {', '.join(map(repr, dated))}. Keep one, or make one the index.")
    if not dated:
        return frame, frame.index
    dates, told = series_times(dated[0], frame[dated[0]])
    if told:
        warn(told)
    return frame.drop(columns=dated), pandas().DatetimeIndex(dates)


def series_day_order(values: Series) -> str | None:
    """Which of ORDERS the dates of a series (none of them missing) have: as `day_order` tells, and where day and month could be either, the one reading with even steps.

    >>> import pandas as pd
    >>> series_day_order(pd.Series([f"01/{month:02d}/2026" for month in range(1, 13)] + ["01/01/2027"]))
    'day first'
    >>> series_day_order(pd.Series(["01/01/2026", "01/02/2026", "01/03/2026"])) is None  # three months, or three days
    True
    """
    if holds_times(values) or not ambiguous_times(values):
        return day_order(values)
    even = [order for order in ORDERS if has_even_steps(as_times(values, order)[0])]
    return even[0] if len(even) == 1 else None


def holds_series_times(values: Series) -> bool:
    """Whether values (none of them missing) are dates or durations, those included of which even steps tell the day from the month."""
    return holds_times(values) or series_day_order(values) is not None


def series_times(name: str, values: Series) -> tuple[Any, str]:
    """The dates or numbers of a column as times of a series, dates in UTC and without their zone; and in words how they were read, where only their even steps tell."""
    present = values.dropna()
    if not holds_series_times(present):
        if ambiguous_times(present):
            raise InputError(unclear_time(name, present))
        return values, ""
    order = series_day_order(present)
    times, wrong = as_times(values, order)
    if wrong.any():
        raise InputError(f"Column {name!r} has no date in row {int(wrong.argmax()) + 1}. Fill it in, or drop the row.")
    told = f"{name} is read with the {order} ({present.iloc[0]}): only so its steps are even."
    return times.dt.tz_localize(None), "" if holds_times(present) else told


def _counts(index: Any) -> bool:
    """Whether an index only counts rows."""
    return isinstance(index, pandas().RangeIndex)


def _step(index: Any, step: Any) -> tuple[Any, Any]:
    """The times of an index and their step; refused where steps are not even."""
    pd = pandas()
    if isinstance(index, pd.PeriodIndex):
        if len(index) > 1 and not bool((pd.period_range(index[0], periods=len(index), freq=index.freq) == index).all()):
            raise _uneven(index)
        return index, index.freq
    if isinstance(index, pd.DatetimeIndex):
        return index, _frequency(index, step)
    try:
        times = np.array(index, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The times of a series must be dates or numbers; the first here is {index[0]!r}. In Python, pandas.to_datetime makes dates of texts."
        ) from error
    if len(times) == 1:
        return times, 1.0 if step is None else step
    steps = np.diff(times)
    even = float(np.median(steps))
    if not (even > 0 and bool((np.abs(steps - even) <= UNEVEN * even).all())):
        raise _uneven(pd.Index(times))
    return times, even


def _frequency(index: Any, step: Any) -> Any:
    """The frequency of dates: first days of months, Mondays, 10 minutes, and so on."""
    pd = pandas()
    if step is not None:
        return step
    rising = index.is_monotonic_increasing and index.is_unique
    found = index.freq if rising else None
    if found is None and rising and len(index) >= 3:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas 3 announces another type of the answer
            found = pd.infer_freq(index)
        months = months_apart(index) if found is None else None
        found = found if months is None else pd.DateOffset(months=months)
    if found is None:
        raise _uneven(index)
    return pd.tseries.frequencies.to_offset(found)


_LONG_GAP = 4
"""Steps without a value that are not filled in."""

_MOST_FILLED = 0.1
"""Values that are filled in, at most, as a share of those that were recorded."""

_TURNS_ALIKE = 9
"""Turns, four before and four after, over which their ups and downs are averaged: these grow and shrink in the course of years."""

_DAY = 86_400.0
_UNITS = {
    "YS": 365.25 * _DAY,
    "QS": 91.3 * _DAY,
    "MS": 30.44 * _DAY,
    "W": 7 * _DAY,
    "D": _DAY,
    "h": 3600.0,
    "min": 60.0,
    "s": 1.0,
}
"""Steps of time by their names in pandas, in seconds, about: months and years have no one length."""

_LONGER = 1.2
"""A unit may be longer by this factor than most steps, as a month is than those from its end to the beginning of the next."""


def has_even_steps(times: Series) -> bool:
    """Whether dates follow each other at even steps."""
    try:
        even_series(pandas().Series(0.0, index=pandas().DatetimeIndex(times).tz_localize(None)))
    except InputError:
        return False
    return True


def usual_step(times: Series) -> str | None:
    """The step of time that uneven dates go by, as pandas writes it: 10min, D, MS. None where more than half of such steps would have no date.

    >>> import pandas as pd
    >>> usual_step(pd.Series(pd.to_datetime(["2026-01-03", "2026-02-01", "2026-03-05", "2026-04-02"])))
    'MS'
    """
    seconds = np.unique((times - times.min()).dt.total_seconds())
    if len(seconds) < 2:
        return None
    apart = float(np.median(np.diff(seconds)))
    unit = next((unit for unit, length in _UNITS.items() if length <= _LONGER * apart), "s")
    count = max(round(apart / _UNITS[unit]), 1)
    places = np.floor(seconds / (count * _UNITS[unit]))
    return f"{count if count > 1 else ''}{unit}" if 2 * len(np.unique(places)) > places[-1] else None


def without_closed_days(table: DataFrame) -> tuple[DataFrame, list[str]]:
    """A table of days without those days of the week on which it has no value in three weeks or more, and their names: no step of time goes there."""
    pd = pandas()
    days: Any = table.index
    if days.freqstr != "D" or len(table) < 21:
        return table, []
    open_days = days[table.notna().any(axis=1)].day_name()
    week = pd.date_range("2024-01-01", periods=7).day_name()
    closed = [day for day in week if day not in open_days]
    if not closed:
        return table, []
    mask = " ".join(day[:3] for day in week if day not in closed)
    step = pd.offsets.CustomBusinessDay(weekmask=mask)
    return table.set_axis(days).loc[~days.day_name().isin(closed)].asfreq(step), closed


def short_gaps_filled(table: DataFrame, turn: int | None) -> DataFrame:
    """Gaps of a few steps filled in: on the line between their ends, with the ups and downs that a turn (a week, say) has there. Where many values would be invented all gaps stay."""
    found = {}
    for name, values in table.items():
        missing: Any = values.isna()
        length: Any = missing.groupby((~missing).cumsum()).transform("sum")
        ups = _ups_and_downs(values, turn)
        line = (values - ups).interpolate(limit_area="inside") + ups
        short = missing & (length < _LONG_GAP) & line.notna()
        found[name] = values.mask(short, line) if short.sum() <= _MOST_FILLED * values.notna().sum() else values
    return pandas().DataFrame(found, index=table.index)


def _ups_and_downs(values: Any, turn: int | None) -> Any:
    """How far values lie from the mean of the turn around them, at the same place of some turns before and after; 0 where there are not two turns."""
    none = pandas().Series(0.0, index=values.index)
    if turn is None or turn < 2:
        return none
    deviation = values - values.interpolate(limit_area="inside").rolling(turn, center=True).mean()
    at_one_place = deviation.groupby(np.arange(len(values)) % turn)
    found = at_one_place.transform(lambda x: x.rolling(_TURNS_ALIKE, center=True, min_periods=1).mean())
    return found if found.notna().all() else none


def _uneven(index: Any) -> InputError:
    """What is wrong with the times of a series, and what helps."""
    if isinstance(index, pandas().DatetimeIndex):
        step = usual_step(index.dropna().to_series()) or "D"
        remedy = f"y.resample({step!r}).mean() leaves NaN where nothing was recorded, which is allowed."
    else:
        remedy = "Add rows without a value (NaN) for times that are missing, or use numpy.interp at even times."
    return InputError(f"The steps of time must be even, and {first_uneven_step(index, remedy)}")
