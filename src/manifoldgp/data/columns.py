"""Columns of tables: what kind of values each holds, and how it becomes numbers."""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from manifoldgp._system.plain_text import NO_NAME, counted, without_columns
from manifoldgp.data.codes import are_codes
from manifoldgp.data.dates import (
    MONTHS,
    ORDERS,
    TimeScale,
    ambiguous_times,
    are_months,
    as_times,
    day_order,
    has_short_year,
    has_zone,
    holds_times,
    is_clear_date,
    learn_time_scale,
    pandas,
)
from manifoldgp.data.decimal_signs import looks_like_number
from manifoldgp.data.levels import Effects
from manifoldgp.data.written_numbers import read_known_numbers, read_numbers
from manifoldgp.errors import InputError, SeveralFaults

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def column_of(table: DataFrame, name: str) -> Series:
    """The column of that name; names occur once."""
    column: Any = table[name]  # pandas says that it could be a table
    return column


UNNAMED = re.compile(rf"{NO_NAME.pattern}|__index_level_\d+__")
"""What pandas calls a column without a name: as a rule the row numbers of whoever wrote the file."""

KINDS = ("number", "flag", "category", "levels", "date", "duration")
ONE_HOT = 10
"""Up to this many categories become 0/1 columns, more become a number each, their effect on the target."""

_FLAGS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
_READ_TABLE_ADVICE = "manifoldgp.data.read_table reads such files with units, currencies and thousands separators as numbers."

_DATE_ADVICE = "Write dates as 2026-12-31 or 2026-12-31 23:59, or with points, 31.12.2026, the day first."
_MONTH_FIRST_ADVICE = "Write dates as 2026-12-31 or 2026-12-31 23:59, or as they were written then, 12/31/2026, the month first."


class UnusableColumn(InputError):  # noqa: N818 - what it is, not that something failed
    """A column that cannot be an input; reason: why."""

    def __init__(self, reason: str, name: str) -> None:
        super().__init__(f"{reason} Correct or remove these rows, or leave the column out: {without_columns([name])}")
        self.reason = reason


class UnusableCells(UnusableColumn):
    """A column that can be an input once some of its cells have been corrected."""


class RowNames(UnusableColumn):
    """A column of texts that occur once in most rows: it says which row this is, and nothing about other rows."""


class UnusableTable(SeveralFaults):
    """Columns that cannot be inputs, all of a table's at once: a reason for each, and what to do, last."""

    def __init__(self, reasons: Sequence[str], advice: str) -> None:
        super().__init__((*reasons, advice) if len(reasons) > 1 else (f"{reasons[0]} {advice}",))


@dataclass(frozen=True)
class Column:
    """An input column.

    Parameters
    ----------
    name
        Its name in the table.
    kind
        "number", "flag" (true or false, becomes 1 or 0), "category" (one 0/1 column for each of ``categories``), "levels" (more categories: the
        effect of each on the target), "date" (elapsed time, and where asked for the place in a period) or "duration".
    categories
        The values that a category can have.
    time
        How dates and durations become numbers.
    effects
        What levels become.
    indicator
        Whether a further column says where the value is missing: 1 there, else 0.
    """

    name: str
    kind: str = "number"
    categories: tuple[str, ...] = ()
    time: TimeScale | None = None
    effects: Effects | None = None
    indicator: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS or (self.kind in ("category", "levels")) != bool(self.categories):
            raise InputError(
                f"A column is one of {', '.join(KINDS)}, and only a category has categories; got {self.kind!r} with {self.categories!r}."
            )
        if (self.kind in ("date", "duration")) != (self.time is not None) or (self.kind == "levels") != (
            self.effects is not None
        ):
            raise InputError(
                f"Dates and durations have a scale of time, levels have effects, and nothing else has; got {self!r}."
            )
        if self.effects is not None and len(self.effects.shifts) != len(self.categories):
            raise InputError(f"{len(self.categories)} levels have as many effects; got {len(self.effects.shifts)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of numbers that it becomes: its own, or name=value for each category, and so on."""
        if self.time is not None:
            own = self.time.names(self.name)
        elif self.effects is not None:
            own = self.effects.names(self.name)
        else:
            own = tuple(f"{self.name}={category}" for category in self.categories) or (self.name,)
        return (*own, f"{self.name} is missing") if self.indicator else own

    def numbers(self, values: Series, allow_unknown: bool = False) -> np.ndarray:
        """The values (a pandas Series) as numbers (n, len(names)); NaN where they are missing.

        A category that was not there when the column was learnt is refused; with allow_unknown it is NaN too, for nothing is known about it.
        """
        missing = missing_in(values)
        present: Any = values[~missing]
        found = np.full((len(values), len(self.names)), np.nan)
        found[~missing, : found.shape[1] - self.indicator] = self._present(present, allow_unknown)
        if self.indicator:
            found[:, -1] = missing
        return found

    def _present(self, values: Series, allow_unknown: bool) -> np.ndarray:
        if self.time is not None:
            return self._times(values)
        if self.kind == "flag":
            return self._flags(values)[:, None]
        if not self.categories:
            return _numbers(values, self.name)[:, None]
        table = np.eye(len(self.categories)) if self.effects is None else np.array(self.effects.shifts)
        level = self.level_numbers(values, allow_unknown)
        return np.where(level[:, None] >= 0, table[level], np.nan)

    def unknown(self, values: Series) -> list[str]:
        """Categories among the values that the column does not have."""
        if not self.categories:
            return []
        places = self._places()
        return sorted(value for value in set(map(text, values[~missing_in(values)])) if _place(value, places) < 0)

    def level_numbers(self, values: Series, allow_unknown: bool = False) -> np.ndarray:
        """The number (n,) of each value's category; -1 where it is missing or, if that is allowed, unknown."""
        unknown = set(self.unknown(values))
        if unknown and not allow_unknown:
            known = ", ".join(self.categories[:8]) + (", ..." if len(self.categories) > 8 else "")
            where = rows_where(np.array([text(value) in unknown for value in values]), values.index)
            raise InputError(
                f"Column {self.name!r} has values that the model has not seen: {_quoted(sorted(unknown))} ({where}); it knows {known}. "
                "Correct or remove these rows, fit again with rows of that kind, or pass allow_unknown=True to predict "
                "them as rows of any kind that it knows, with intervals as wide as that makes them."
            )
        places = self._places()
        found = np.array([_place(text(value), places) for value in values], dtype=int)
        return np.where(missing_in(values), -1, found)

    def _places(self) -> dict[str, int]:
        """The number of each category by its name, and by its name with single blanks, where these leave no doubt."""
        plain = {" ".join(category.split()): k for k, category in reversed(list(enumerate(self.categories)))}
        return plain | {category: k for k, category in enumerate(self.categories)}

    def unreadable(self, values: Series) -> np.ndarray:
        """Which values (n,) are there and are not what the column held when it was learnt: no number, no date, neither true nor false."""
        missing = missing_in(values)
        present: Any = values[~missing]
        found = np.zeros(len(values), dtype=bool)
        if self.time is not None:
            found[~missing] = self._as_times(present)[1]
        elif self.kind == "flag":
            found[~missing] = np.isnan(_as_flags(present))
        elif not self.categories:
            found[~missing] = ~np.isfinite(_numbers_or_nan(present))
        return found

    @property
    def lacking(self) -> str:
        """What a value is that cannot be read, in words."""
        kinds = {"flag": "neither true nor false", "date": "no date", "duration": "no duration"}
        return kinds.get(self.kind, "no number")

    def _flags(self, values: Series) -> np.ndarray:
        flags = _as_flags(values)
        wrong = np.isnan(flags)
        if wrong.any():
            raise InputError(
                f"Column {self.name!r} was true or false when the model was fitted; now it has {_quoted(values[wrong])} "
                f"({rows_where(wrong, values.index)}). Write true or false, or 1 or 0."
            )
        return flags

    def _times(self, values: Series) -> np.ndarray:
        assert self.time is not None
        times, wrong = self._as_times(values)
        if wrong.any():
            raise InputError(
                f"Column {self.name!r} held {self.kind}s when the model was fitted; now it has {_quoted(values[wrong])} "
                f"({rows_where(wrong, values.index)}). {_MONTH_FIRST_ADVICE if self.time.order == ORDERS[1] else _DATE_ADVICE}"
            )
        return self.time.numbers(times)

    def _as_times(self, values: Series) -> tuple[Series, np.ndarray]:
        """The values as dates or durations, and which of them (n,) are none: all where one was learnt and the other is there."""
        assert self.time is not None
        times, wrong = as_times(values, self.time.order)
        if not wrong.any() and pandas().api.types.is_timedelta64_dtype(times.dtype) != (self.kind == "duration"):
            wrong = np.ones(len(values), dtype=bool)
        return times, wrong


def _as_flags(values: Series) -> np.ndarray:
    """1 and 0 for true and false in their spellings (n,), NaN for everything else."""
    return np.array([_FLAGS.get(text(value).lower(), math.nan) for value in values])


def learn_column(name: str, values: Series, cyclic: tuple[str, ...] = (), rows: int | None = None) -> Column:
    """What kind of column this is, from its values (a pandas Series without missing entries); labels of rows and times of day are refused.

    rows: of the table, where some lack a value.
    """
    rows = len(values) if rows is None else rows
    types = pandas().api.types
    if holds_containers(values):
        raise UnusableColumn(f"Column {name!r} holds lists or arrays. Make a column of each of their numbers.", name)
    if types.is_bool_dtype(values.dtype) or (values.dtype == object and all(isinstance(v, (bool, np.bool_)) for v in values)):
        return Column(name, "flag")
    if isinstance(values.dtype, pandas().CategoricalDtype):
        return _category(name, values, rows)
    if _has_numbers(values):
        return Column(name)
    if holds_times(values):
        return _time_column(name, values, cyclic, rows)
    if ambiguous_times(values):
        raise UnusableColumn(unclear_time(name, values), name)
    if are_codes(list(values)):
        return _category(name, values, rows)
    readable = _readable(values)
    if readable.all() and len(values):
        return Column(name)
    if readable.mean() > 0.5:
        raise _texts_among_numbers(name, values, ~readable, rows)
    return _category(name, values, rows)


def unclear_time(name: str, values: Series) -> str:
    """Why values for which `ambiguous_times` holds are no dates, and what helps."""
    clear = [value for value in values if is_clear_date(value)]
    first = next(value for value in values if not is_clear_date(value))
    if clear:
        return (
            f"Column {name!r} holds clear dates ({_quoted(clear[:1])}) beside texts such as {first!r}. A spreadsheet that takes "
            f"days for months leaves such columns, and then the clear ones are wrong: look at where they come from. {_DATE_ADVICE}"
        )
    if re.fullmatch(r"\s*\d+:\d{1,2}[.,]\d+\s*", str(first)):
        return f"Column {name!r} holds minutes and seconds ({str(first)!r}). Turn them into numbers, such as seconds."
    if isinstance(first, datetime.time) or ":" in str(first)[:3]:
        return f"Column {name!r} holds times of day ({str(first)!r}). Turn them into numbers that mean something for your task, such as hours, or add the date."
    if has_short_year(str(first)):
        return f"Column {name!r} holds dates whose year has two digits ({first!r}). {_DATE_ADVICE}"
    return (
        f"Column {name!r} holds dates in which day and month could be either ({first!r}). {_DATE_ADVICE} "
        "In Python, pandas.to_datetime(..., dayfirst=True), or False, says which is meant."
    )


def holds_containers(values: Series) -> bool:
    """Whether cells hold several values each."""
    return values.dtype == object and any(isinstance(v, (list, tuple, dict, set, np.ndarray)) for v in values)


def _time_column(name: str, values: Series, cyclic: tuple[str, ...], rows: int) -> Column:
    order = MONTHS if are_months(values) else day_order(values)
    times, wrong = as_times(values, order)
    if (
        order is None and wrong.any() and ambiguous_times(pandas().concat([values.iloc[:1], values[wrong]]))
    ):  # beside a clear date
        raise UnusableColumn(unclear_time(name, values), name)
    if wrong.any():
        raise UnusableCells(
            f"Column {name!r} holds dates, and in {wrong.sum()} of {counted(rows, 'row')} something else: {_quoted(values[wrong])} "
            f"({rows_where(wrong, values.index)}).",
            name,
        )
    scale = learn_time_scale(times, cyclic, order, has_zone(values))
    return Column(name, "date" if scale.origin is not None else "duration", time=scale)


def missing_in(values: Series) -> np.ndarray:
    """Which values (n,) are missing, nothing but blanks, or infinite."""
    missing = values.isna().to_numpy()
    if pandas().api.types.is_float_dtype(values.dtype):
        missing = missing | np.isinf(values.to_numpy(dtype=np.float64, na_value=np.nan))
    elif values.dtype == object or pandas().api.types.is_string_dtype(values.dtype):
        missing = missing | np.array([isinstance(value, str) and value.isspace() for value in values], dtype=bool)
    return missing


def refuse_dates(name: str, values: Series) -> None:
    """Dates, times and durations are no targets: as numbers they would count in units nobody asked for."""
    if len(values) and (holds_times(values) or ambiguous_times(values)):
        raise InputError(
            f"Column {name!r} holds dates or times ({_quoted(values.iloc[:1])}). Turn them into numbers that mean something for your task: "
            "hours since the start, hour of the day."
        )


def refuse_codes(name: str, values: Iterable[object], way_out: str) -> None:
    """Codes are no target: as numbers they lose their zeros, and are learnt as if their size meant something. way_out: what to do where they are numbers."""
    cells = [value for value in values if isinstance(value, str)]
    if cells and are_codes(cells):
        raise InputError(
            f"Column {name!r} holds codes with leading zeros, such as {_quoted(sorted(cells)[:1])}: their size means nothing that could be predicted. "
            f"Choose another target; if they are numbers, {way_out}."
        )


def target_numbers(name: str, values: Series) -> np.ndarray:
    """A target (n,), NaN where it is missing; text, dates and infinite values are refused."""
    present: Any = values[~values.isna()]
    if not _has_numbers(values):
        refuse_dates(name, present)
        readable = _readable(present)
        if len(present) and 2 * readable.sum() <= len(present):
            advice = f" {_READ_TABLE_ADVICE}" if read_numbers(list(present)) else ""
            flags = " Write 0 and 1 for them." if not readable.any() and len(set(map(text, present))) == 2 else ""
            raise InputError(
                f"Column {name!r} must hold numbers; it holds text, such as {_quoted(present[~readable])}.{flags or advice}"
            )
    numbers = np.full(len(values), np.nan)
    numbers[~values.isna().to_numpy()] = _numbers(present, name)
    infinite = np.isinf(numbers)
    if infinite.any():
        raise InputError(
            f"Column {name!r} is infinite in {int(infinite.sum())} of {counted(len(values), 'row')} ({rows_where(infinite, values.index)}). "
            "Correct or remove these rows."
        )
    return numbers


def text(value: object) -> str:
    """A value as a category's name: without blanks around it, and a whole number without its point, so that 1, 1.0 and " 1" are one category."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _place(category: str, places: Mapping[str, int]) -> int:
    """The number of a category, else of the one that differs from it in blanks and line breaks alone; -1: there is none."""
    return places.get(category, places.get(" ".join(category.split()), -1))


def rows_where(chosen: np.ndarray, index: ArrayLike, most: int = 3) -> str:
    """ "rows 2, 5, 9 and 4 more", counted from 1 at the first row below the header; index: positions in the table, or names of rows.

    >>> rows_where(np.array([False, True]), [0, 1]), rows_where(np.array([False, True]), ["ann", "bob"])
    ('row 2', "row 'bob'")
    """
    labels = np.asarray(index)[chosen].tolist()
    rows = [label + 1 if isinstance(label, int) else repr(label) for label in labels]
    listed = ", ".join(map(str, rows[:most])) + (f" and {len(rows) - most} more" if len(rows) > most else "")
    return f"{'row' if len(rows) == 1 else 'rows'} {listed}"


def _category(name: str, values: Series, rows: int) -> Column:
    """A category; one with more than ONE_HOT of them still lacks its effects, which need the targets."""
    count = Counter(map(text, values))
    categories, once = tuple(sorted(count)), sum(times == 1 for times in count.values())
    if once > 0.5 * len(values) and len(values) >= 20:
        others = np.array([not looks_like_number(text(value)) for value in values])
        if 0.0 < others.mean() < 0.5:
            raise _texts_among_numbers(name, values, others, rows)
        raise RowNames(
            f"Column {name!r} has {len(categories)} different texts in {counted(len(values), 'row')}, {once} of which occur once, such as {_quoted(categories)}: "
            "a name of each row, or free text, not a category.",
            name,
        )
    return Column(name, "category", categories)


def _texts_among_numbers(name: str, values: Series, others: np.ndarray, rows: int) -> UnusableCells:
    """others: which of the values (n,) are no numbers. rows: of the table."""
    return UnusableCells(
        f"Column {name!r} holds numbers, and text in {others.sum()} of {counted(rows, 'row')}: {_quoted(values[others])} "
        f"({rows_where(others, values.index)}).",
        name,
    )


def spellings_alike(categories: Iterable[str]) -> list[str]:
    """Categories that differ only in capitals and spaces, which are learnt as different ones and seldom meant so.

    >>> spellings_alike(["dry", "Dry", "rain"])
    ["'dry' and 'Dry'"]
    """
    spellings: dict[str, list[str]] = {}
    for category in categories:
        spellings.setdefault(" ".join(category.split()).casefold(), []).append(category)
    return [" and ".join(map(repr, same)) for same in spellings.values() if len(same) > 1]


def _numbers(values: Series, name: str) -> np.ndarray:
    if _has_numbers(values):
        return values.to_numpy(dtype=np.float64)
    wrong = ~_readable(values)
    if wrong.any():
        odd = wrong & _odd(values)
        shown = odd if odd.any() else wrong
        advice = ["Correct or remove these rows."] * bool(odd.any()) + [_READ_TABLE_ADVICE] * bool((wrong & ~odd).any())
        raise InputError(
            f"Column {name!r} must hold numbers; it has {_quoted(values[shown])} ({rows_where(shown, values.index)}). {' '.join(advice)}"
        )
    return np.array([float(value) for value in values], dtype=np.float64)


def _odd(values: Series) -> np.ndarray:
    """Which values (n,) are no numbers with units, currencies or thousands separators either."""
    found = read_numbers(list(values)) or read_known_numbers(list(values))
    odd = np.full(len(values), found is None)
    odd[list(found.odd) if found else []] = True
    return odd


def _has_numbers(values: Series) -> bool:
    types = pandas().api.types
    return types.is_numeric_dtype(values.dtype) and not types.is_complex_dtype(values.dtype)


def _readable(values: Series) -> np.ndarray:
    """Which values (n,) can be read as numbers."""
    return np.fromiter((_number(value) is not None for value in values), dtype=bool, count=len(values))


def _numbers_or_nan(values: Series) -> np.ndarray:
    """The values (n,) as numbers, NaN where they are none."""
    if _has_numbers(values):
        return values.to_numpy(dtype=np.float64)
    return np.array([math.nan if (number := _number(value)) is None else number for value in values])


def _number(value: Any) -> float | None:
    if isinstance(value, str) and "_" in value:
        return None  # 1_000 is a number in Python's own files alone
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _quoted(values: Iterable[object], most: int = 3) -> str:
    different = list(dict.fromkeys(map(text, values)))
    return ", ".join(map(repr, different[:most])) + (", ..." if len(different) > most else "")
