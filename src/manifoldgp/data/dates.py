"""Dates and durations as numbers: the time since the first one, and on request the place in a day, a week, a month or a year."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from pandas import Series

UNITS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}
"""Units of elapsed time, in seconds."""

PERIODS = ("day", "week", "month", "year")
"""What dates can be repeated by."""

_ISO = re.compile(r"\s*(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)(.*)")
_YEAR_LAST = re.compile(r"\s*(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(?!\d),?(.*)")
_SHORT_YEAR = re.compile(r"\s*(?:0?[1-9]|[12]\d|3[01])([-/.])(?:0?[1-9]|[12]\d|3[01])\1\d{2}(?:,?\s+\d{1,2}:\d{2}.*)?\s*")
_TWELVE_HOURS = re.compile(r"\s*(\d{1,2})(:\d{2}.*?)\s*([AaPp])\.?[Mm]\.?\s*")
_ZONE = re.compile(r":\d{2}(\.\d+)?\s*(Z|[-+]\d{2}(:?\d{2})?)\s*$")
_TIME_OF_DAY = re.compile(r"\s*\d{1,2}:\d{2}(:\d{2})?(\.\d+)?\s*")

_MONTHS = {
    "jan": 1, "jän": 1, "feb": 2, "mar": 3, "mär": 3, "mae": 3, "mrz": 3, "apr": 4, "may": 5, "mai": 5, "jun": 6, "jul": 7, "aug": 8,
    "sep": 9, "oct": 10, "okt": 10, "nov": 11, "dec": 12, "dez": 12,
}  # fmt: skip
"""Months by the first letters of their English and German names."""

_NAME = (
    r"(?P<name>jan(?:uary?)?|jän(?:ner)?|feb(?:ruary?|er)?|mar(?:ch)?|märz?|maerz|mrz|apr(?:il)?|may|mai|jun[ei]?|jul[yi]?|aug(?:ust)?|"
    r"sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)\.?"
)
_YEAR, _MONTH = r"(?P<year>(?:1[89]|2[01])\d\d)", r"(?P<month>0?[1-9]|1[0-2])"
_CLOCK = r"(?P<rest>,?\s+\d{1,2}:\d{2}.*)?"


def _forms(*texts: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(rf"\s*{text}\s*", re.IGNORECASE) for text in texts)


_SPANS = _forms(
    r"(?P<year>\d{4})[\s/.-]?Q(?P<quarter>[1-4])",
    r"Q(?P<quarter>[1-4])[\s/-]?(?P<year>\d{4})",
    rf"(?P<quarter>[1-4])(?:Q|\.\s*Q(?:uartal)?)[\s/]?{_YEAR}",
    rf"{_YEAR}[-/M]{_MONTH}",
    rf"{_MONTH}[-/]{_YEAR}",
)
"""Quarters and months in numbers, which are clear without being dates with all their numbers: 1974Q1, Q1 1974, 1. Quartal 1974, 1974-03, 1974M3, 3/1974."""

_POINTED = re.compile(r"\s*(?P<month>0[1-9]|1[0-2])\.(?P<year>(?:1[89]|2[01])\d\d)\s*")
"""Months such as 03.1974, and numbers such as 12.1974: see `are_months`."""

_SPELLED = (
    *_SPANS,
    *_forms(
        rf"(?P<day>\d{{1,2}})[-.\s]+{_NAME}[-.,\s]+(?P<year>\d{{4}}){_CLOCK}",
        rf"{_NAME}\s+(?P<day>\d{{1,2}}),?\s+(?P<year>\d{{4}}){_CLOCK}",
        rf"{_NAME}[-.,/\s]+(?P<year>\d{{4}})",
        rf"{_YEAR}[-/\s]{_NAME}",
    ),
)
"""Clear dates, these and those with the month by its name: 5-Jan-2026, Jan 5, 2026, January 2026, 2026 Jan, 5. März 2026; a span counts from its first day."""

ORDERS = ("day first", "month first")
"""How dates are written whose year stands last: 31.12.2026 or 12/31/2026."""

MONTHS = "month and year"
"""How months are written with a point: 12.2026."""


def pandas() -> Any:
    """The module pandas."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("Tables need pandas, which is not installed. Run: pip install 'manifoldgp[data]'") from error
    return pandas


def _is_date(text: object) -> bool:
    """Whether a text is a date in ISO format; files may hold anything."""
    try:
        return isinstance(text, str) and datetime.datetime.fromisoformat(text) is not None
    except ValueError:
        return False


@dataclass(frozen=True)
class TimeScale:
    """How dates or durations become numbers.

    Parameters
    ----------
    unit
        What elapsed time is counted in: "seconds", "minutes", "hours" or "days".
    origin
        The date from which it is counted, in ISO format and UTC; None for durations.
    cyclic
        Periods whose sine and cosine are columns too, out of "day", "week", "month" and "year".
    order
        How texts were written whose year stands last, "day first" or "month first", or that have a "month and year" alone; None: there were none. New rows are
        read the same way.
    zoned
        Whether the dates said their time zone, so that the UTC in which they are counted may be another time of day than the table's.
    """

    unit: str
    origin: str | None = None
    cyclic: tuple[str, ...] = ()
    order: str | None = None
    zoned: bool = False

    def __post_init__(self) -> None:
        dated = bool(self.cyclic) or self.order is not None
        if (
            self.unit not in UNITS
            or not set(self.cyclic) <= set(PERIODS)
            or self.order not in (None, *ORDERS, MONTHS)
            or (dated and self.origin is None)
        ):
            raise InputError(
                f"A scale of time has a unit out of {', '.join(UNITS)} and periods out of {', '.join(PERIODS)}; got {self!r}."
            )
        if self.origin is not None and not _is_date(self.origin):
            raise InputError(f"A scale of time begins at a date in ISO format; got {self.origin!r}.")

    def names(self, name: str) -> tuple[str, ...]:
        """Names of the columns that a column of times becomes."""
        return (
            f"{name} [{self.unit}]",
            *(f"{name}: {wave} of {period}" for period in self.cyclic for wave in ("sine", "cosine")),
        )

    def numbers(self, times: Series) -> np.ndarray:
        """Times (n,) as numbers (n, columns)."""
        if self.origin is None:
            return (_seconds(times) / UNITS[self.unit])[:, None]
        elapsed = _seconds(times - pandas().Timestamp(self.origin)) / UNITS[self.unit]
        turns = [2 * np.pi * _phase(times, period) for period in self.cyclic]
        return np.stack([elapsed, *(wave(turn) for turn in turns for wave in (np.sin, np.cos))], 1)

    def date_in_words(self, elapsed: float) -> str:
        """The date at so much time after the origin.

        >>> TimeScale("days", "2026-01-01").date_in_words(2.0), TimeScale("hours", "2026-01-01").date_in_words(2.5)
        ('2026-01-03', '2026-01-01 02:30')
        """
        date = pandas().Timestamp(self.origin) + pandas().Timedelta(seconds=round(elapsed * UNITS[self.unit]))
        return date.strftime("%Y-%m-%d" if date == date.normalize() else "%Y-%m-%d %H:%M")


def learn_time_scale(times: Series, cyclic: tuple[str, ...] = (), order: str | None = None, zoned: bool = False) -> TimeScale:
    """The scale that suits dates or durations: counted from the first, in the largest unit of which they span two. order: of their texts; zoned: whether these said a zone."""
    durations = pandas().api.types.is_timedelta64_dtype(times.dtype)
    span = float(np.ptp(_seconds(times if durations else times - times.min())))
    unit = next((unit for unit in reversed(UNITS) if span >= 2 * UNITS[unit]), "seconds")
    return TimeScale(unit) if durations else TimeScale(unit, times.min().isoformat(), cyclic, order, zoned)


def holds_times(values: Series) -> bool:
    """Whether values (none of them missing) are dates or durations by their type, or texts that say year, month and day, in an order that can be told."""
    types = pandas().api.types
    if types.is_datetime64_any_dtype(values.dtype) or types.is_timedelta64_dtype(values.dtype):
        return True
    if isinstance(values.dtype, pandas().PeriodDtype):
        return True
    sample = list(values.iloc[:50])
    if not sample or not all(isinstance(v, (str, datetime.date)) for v in sample):
        return False
    if any(isinstance(v, str) and _YEAR_LAST.fullmatch(v) for v in sample):
        return all(_YEAR_LAST.fullmatch(str(v)) for v in sample) and day_order(values) is not None
    return are_months(values) or all(isinstance(v, datetime.date) or is_clear_date(v) for v in sample)


def are_months(texts: Iterable[object]) -> bool:
    """Whether all of these are months such as 03.1974, one of them with a zero in front, which no number such as 12.1974 has.

    >>> are_months(["12.1999", "01.2000"]), are_months(["12.1999", "11.2000"]), are_months(["12.1999", "01.200"]), are_months([])
    (True, False, False, False)
    """
    zeros = False
    for text in texts:
        if not (isinstance(text, str) and _POINTED.fullmatch(text)):
            return False
        zeros = zeros or text.lstrip().startswith("0")
    return zeros


def without_months(cells: Sequence[str]) -> list[str]:
    """Cells of a line with nothing in place of what may be a month such as 03.1974: its point is no decimal point."""
    return ["" if _POINTED.fullmatch(cell) else cell for cell in cells]


def month_text(value: object) -> object:
    """A month that was read as a number as it was written, everything else as it is.

    >>> month_text(10.2), month_text(10.2001), month_text(10.5), month_text("10.2000")
    ('10.2000', '10.2001', 10.5, '10.2000')
    """
    text = f"{value:07.4f}" if isinstance(value, float) else ""
    return text if _POINTED.fullmatch(text) and float(text) == value else value


def ambiguous_times(values: Series) -> bool:
    """Whether values are times of day, or dates of which nobody can tell day from month, or the century; beside such texts clear dates may stand."""
    sample = list(values.iloc[:50])
    unclear = [v for v in sample if not is_clear_date(v)]
    forms = (_YEAR_LAST, _SHORT_YEAR) if len(unclear) < len(sample) else (_YEAR_LAST, _SHORT_YEAR, _TIME_OF_DAY)
    return bool(unclear) and all(
        isinstance(v, datetime.time) or (isinstance(v, str) and any(form.fullmatch(v) for form in forms)) for v in unclear
    )


def is_clear_date(value: object) -> bool:
    """Whether a cell holds a date, or a text with the year first or the month by its name, or a month or quarter that is no number."""
    return _is_date_cell(value) or (isinstance(value, str) and any(form.fullmatch(value) for form in (_ISO, *_SPELLED)))


def _spelled(text: str) -> str | None:
    """A date of _SPELLED or _POINTED in ISO format.

    >>> _spelled("1974Q2"), _spelled("1974-3"), _spelled("5-Jan-2026 7:30"), _spelled("Sept 2026"), _spelled("rock 2026")
    ('1974-04-01', '1974-03-01', '2026-01-05 7:30', '2026-09-01', None)
    """
    found = next((match.groupdict() for form in (*_SPELLED, _POINTED) if (match := form.fullmatch(text))), None)
    if found is None:
        return None
    if "name" in found:
        month = _MONTHS[found["name"][:3].lower()]
    else:
        month = int(found["month"]) if "month" in found else 3 * int(found["quarter"]) - 2
    return f"{found['year']}-{month:02d}-{int(found.get('day', 1)):02d}{(found.get('rest') or '').removeprefix(',')}"


def has_short_year(text: str) -> bool:
    """Whether a text is a date whose year has two digits, such as 31.12.26."""
    return _SHORT_YEAR.fullmatch(text) is not None


def _is_date_cell(value: object) -> bool:
    return isinstance(value, datetime.date) and value == value  # which NaT is not


def day_order(values: Series) -> str | None:
    """Which of ORDERS texts such as 31.12.2026 have; None where there are no such texts, or where nobody can tell.

    A number above 12 is a day. Where there is none, points say it (nobody writes them behind a month), and slashes and dashes do not. Texts with points beside others come from two hands,
    and cells that hold dates beside texts from a spreadsheet that took days for months: neither says anything of the other.

    >>> import pandas as pd
    >>> day_order(pd.Series(["03/01/2026", "03/31/2026"])), day_order(pd.Series(["03.01.2026"])), day_order(pd.Series(["03/01/2026"]))
    ('month first', 'day first', None)
    """
    found = _year_last(values)
    points = {match[2] == "." for match in found}
    if len(points) != 1 or _mixes_cells(values, found):
        return None
    first, second = (sum(int(match[place]) > 12 for match in found) for place in (1, 3))
    if True in points:
        return ORDERS[0] if first >= second else None
    return None if first == second else ORDERS[0] if first > second else ORDERS[1]


def has_zone(values: Series) -> bool:
    """Whether dates say their time zone: 2026-03-29T10:15:00+02:00.

    >>> import pandas as pd
    >>> has_zone(pd.Series(["2026-03-29T10:15:00+02:00"])), has_zone(pd.Series(["2026-03-29 10:15Z"])), has_zone(pd.Series(["2026-03-29"]))
    (True, True, False)
    """
    if pandas().api.types.is_datetime64_any_dtype(values.dtype):
        return values.dt.tz is not None
    return any(_ZONE.search(value) if isinstance(value, str) else getattr(value, "tzinfo", None) for value in values)


def written_like(dates: Series, texts: Series, order: str | None = None) -> Series:
    """Dates in ISO format (n,) with day, month and year in the order of other texts, and with their sign, or as quarters or months where these are; else as they are.

    order: that of the texts, where it is known by more than themselves.

    >>> import pandas as pd
    >>> written_like(pd.Series(["2026-12-31 23:59:00"]), pd.Series(["24/12/2026", None])).tolist()
    ['31/12/2026 23:59:00']
    >>> written_like(pd.Series(["1999-04-01"]), pd.Series(["1998-Q4"])).tolist(), written_like(pd.Series(["1999-04-01"]), pd.Series(["1999M03"])).tolist()
    (['1999-Q2'], ['1999M04'])
    """
    forms = (*_SPANS, _POINTED)
    spans = [match for text in texts.dropna() if isinstance(text, str) for form in forms if (match := form.fullmatch(text))]
    if spans and len(spans) == len(texts.dropna()):
        like = min(spans, key=lambda match: len(match.string))  # in which a month has a zero in front if it has one in all
        return dates.map(lambda date: _span_like(date, like))
    order = order or day_order(texts)
    if order is None:
        return dates
    sign = _year_last(texts)[0][2]
    form = sign.join(("%d", "%m", "%Y") if order == ORDERS[0] else ("%m", "%d", "%Y"))
    return pandas().to_datetime(dates.str[:10]).dt.strftime(form) + dates.str[10:]


def _span_like(date: str, like: re.Match[str]) -> str:
    """A quarter or month, by its first day in ISO format, in the form of another one."""
    year, month = date[:4], int(date[5:7])
    new = {"year": year, "quarter": str((month + 2) // 3), "month": str(month).zfill(len(like.groupdict().get("month", "")))}
    text = like.string
    for name in sorted(like.groupdict(), key=like.start, reverse=True):
        text = text[: like.start(name)] + new[name] + text[like.end(name) :]
    return text


def _year_last(values: Series) -> list[re.Match[str]]:
    types = pandas().api.types
    if types.is_datetime64_any_dtype(values.dtype) or types.is_timedelta64_dtype(values.dtype):
        return []  # at once
    return [match for value in values if isinstance(value, str) and (match := _YEAR_LAST.fullmatch(value))]


def _mixes_cells(values: Series, found: list[re.Match[str]]) -> bool:
    """Whether cells that hold dates stand beside texts whose year is last."""
    return bool(found) and any(map(_is_date_cell, values))


def as_times(values: Series, order: str | None = None) -> tuple[Series, np.ndarray]:
    """Dates in UTC, or durations, and which values (n,) are neither. A date without a zone counts as UTC. order: as in `day_order`, by default by the values."""
    pd = pandas()
    if pd.api.types.is_timedelta64_dtype(values.dtype):
        return values, np.zeros(len(values), dtype=bool)
    if isinstance(values.dtype, pd.PeriodDtype):
        values = values.dt.to_timestamp()
    if not pd.api.types.is_datetime64_any_dtype(values.dtype):
        order = _agreed(values, order)
        values = values.map(lambda value: _in_iso_format(value, order))
    dates = pd.to_datetime(values, utc=True, format="ISO8601", errors="coerce")
    return dates, dates.isna().to_numpy()


def _agreed(values: Series, order: str | None) -> str | None:
    """The given order, unless the values have another; without a given one theirs."""
    own = day_order(values)
    if order in (None, MONTHS):
        return own or order
    return order if own in (None, order) and not _mixes_cells(values, _year_last(values)) else None


def _in_iso_format(value: object, order: str | None) -> str:
    """A date's text with year, month and day in this order, and the hours of a day counted to 24; other texts as they are."""
    if order == MONTHS:
        value = month_text(value)
    if (found := _ISO.fullmatch(_spelled(str(value)) or str(value))) is not None:
        year, month, day, rest = found.groups()
    elif order in ORDERS and (found := _YEAR_LAST.fullmatch(str(value))) is not None:
        first, sign, second, year, rest = found.groups()
        if sign == "." and order == ORDERS[1]:
            return str(value)  # which stays no date: points say that the day is first
        day, month = (first, second) if order == ORDERS[0] else (second, first)
    else:
        return str(value)
    return f"{year}-{int(month):02d}-{int(day):02d}{_in_24_hours(rest.rstrip())}"


def _in_24_hours(rest: str) -> str:
    """What follows a date: 2:05 PM is 14:05, and an hour has two digits."""
    found = _TWELVE_HOURS.fullmatch(rest)
    if found is None:
        return re.sub(r"^(\s*|T)(\d:)", r"\g<1>0\2", rest)
    hour, minutes, afternoon = int(found[1]), found[2], found[3] in "pP"
    if hour > (23 if afternoon else 12):  # 13:05 PM says one thing twice, 13:05 AM says two
        return rest
    return f" {hour % 12 + 12 * afternoon:02d}{minutes}"


def _seconds(elapsed: Series) -> np.ndarray:
    return elapsed.dt.total_seconds().to_numpy(dtype=np.float64)


def _phase(dates: Series, period: str) -> np.ndarray:
    """How much of its day, week, month or year has passed at each date, 0 to 1."""
    calendar: Any = dates.dt
    day = _seconds(dates - calendar.normalize()) / UNITS["days"]
    if period == "day":
        return day
    if period == "week":
        return (calendar.day_of_week.to_numpy() + day) / 7.0
    if period == "month":
        return (calendar.day.to_numpy() - 1 + day) / calendar.days_in_month.to_numpy()
    return (calendar.day_of_year.to_numpy() - 1 + day) / np.where(calendar.is_leap_year, 366.0, 365.0)
