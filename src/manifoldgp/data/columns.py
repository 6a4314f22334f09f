"""Columns of tables: what kind of values each holds, and how it becomes numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from manifoldgp._system.plain_text import option
from manifoldgp.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def pandas() -> Any:
    """The module pandas."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("Tables need pandas, which is not installed. Run: pip install 'manifoldgp[data]'") from error
    return pandas


def column_of(table: DataFrame, name: str) -> Series:
    """The column of that name; names occur once."""
    column: Any = table[name]  # pandas says that it could be a table
    return column


KINDS = ("number", "flag", "category")
MOST_CATEGORIES = 100
"""A text column with more different values is refused: it is a label of rows, not a kind of row."""

_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b.*|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}\b.*|\d{1,2}:\d{2}(:\d{2})?(\.\d+)?")
_FLAGS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
_DATE_ADVICE = "Turn them into numbers that mean something for your task: hours since the start, hour of the day."


class UnusableColumn(InputError):  # noqa: N818 - what it is, not that something failed
    """A column that cannot be an input; reason: why."""

    def __init__(self, reason: str, name: str) -> None:
        super().__init__(f"{reason} Correct or remove these rows, or leave the column out: {option('--drop', name)}")
        self.reason = reason


@dataclass(frozen=True)
class Column:
    """An input column.

    Parameters
    ----------
    name
        Its name in the table.
    categories
        The values that a category can have.
    kind
        "number", "flag" (true or false, becomes 1 or 0) or "category" (one 0/1 column for each of ``categories``).
    """

    name: str
    kind: str = "number"
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS or (self.kind == "category") != bool(self.categories):
            raise InputError(
                f"A column is one of {', '.join(KINDS)}, and only a category has categories; got {self.kind!r} with {self.categories!r}."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of numbers that it becomes: its own, or name=value for each category."""
        return tuple(f"{self.name}={category}" for category in self.categories) or (self.name,)

    def numbers(self, values: Series, allow_unknown: bool = False) -> np.ndarray:
        """The values (a pandas Series without missing entries) as numbers (n, len(names)).

        A category that was not there when the column was learnt is refused; with allow_unknown it is zero in every column.
        """
        if self.kind == "category":
            return self._one_hot(values, allow_unknown)
        if self.kind == "flag":
            return self._flags(values)[:, None]
        return _numbers(values, self.name)[:, None]

    def unknown(self, values: Series) -> list[str]:
        """Categories among the values that the column does not have."""
        return sorted(set(map(text, values)) - set(self.categories)) if self.kind == "category" else []

    def _one_hot(self, values: Series, allow_unknown: bool) -> np.ndarray:
        unknown = self.unknown(values)
        if unknown and not allow_unknown:
            known = ", ".join(self.categories[:8]) + (", ..." if len(self.categories) > 8 else "")
            where = rows_where(np.array([text(value) in unknown for value in values]), values.index)
            raise InputError(
                f"Column {self.name!r} has values that the model has not seen: {_quoted(unknown)} ({where}); it knows {known}. "
                "Correct or remove these rows, fit again with rows of that kind, or pass --allow-unknown (allow_unknown=True) to predict "
                "them with zeros in that column."
            )
        index = {category: k for k, category in enumerate(self.categories)}
        chosen = np.array([index.get(text(value), -1) for value in values], dtype=int)
        return (chosen[:, None] == np.arange(len(index))).astype(np.float64)

    def _flags(self, values: Series) -> np.ndarray:
        flags = np.array([_FLAGS.get(text(value).lower(), math.nan) for value in values])
        wrong = np.isnan(flags)
        if wrong.any():
            raise InputError(
                f"Column {self.name!r} was true or false when the model was fitted; now it has {_quoted(values[wrong])} "
                f"({rows_where(wrong, values.index)}). Write true or false, or 1 or 0."
            )
        return flags


def learn_column(name: str, values: Series) -> Column:
    """What kind of column this is, from its values (a pandas Series without missing entries); dates and labels of rows are refused."""
    types = pandas().api.types
    if types.is_bool_dtype(values.dtype) or (values.dtype == object and all(isinstance(v, (bool, np.bool_)) for v in values)):
        return Column(name, "flag")
    if isinstance(values.dtype, pandas().CategoricalDtype):
        return Column(name, "category", _categories(name, values))
    if _has_numbers(values):
        return Column(name)
    refuse_dates(name, values)
    readable = _readable(values)
    if readable.all() and len(values):
        return Column(name)
    if readable.mean() > 0.5:
        raise UnusableColumn(
            f"Column {name!r} holds numbers, and text in {(~readable).sum()} of {len(values)} rows: {_quoted(values[~readable])} "
            f"({rows_where(~readable, values.index)}).",
            name,
        )
    return Column(name, "category", _categories(name, values))


def refuse_dates(name: str, values: Series) -> None:
    """Dates, times and durations are refused: as numbers they would count in units nobody asked for."""
    types = pandas().api.types
    dated = types.is_datetime64_any_dtype(values.dtype) or types.is_timedelta64_dtype(values.dtype)
    dated = dated or isinstance(values.dtype, pandas().PeriodDtype)
    if not dated and len(values):
        sample = [text(value) for value in values.iloc[:50]]
        dated = all(_DATE.fullmatch(value.strip()) for value in sample)
    if dated:
        raise UnusableColumn(f"Column {name!r} holds dates or times ({_quoted(values.iloc[:1])}). {_DATE_ADVICE}", name)


def target_numbers(name: str, values: Series) -> np.ndarray:
    """A target (n,), NaN where it is missing; text and dates are refused."""
    present: Any = values[~values.isna()]
    if not _has_numbers(values):
        refuse_dates(name, present)
    numbers = np.full(len(values), np.nan)
    numbers[~values.isna().to_numpy()] = _numbers(present, name)
    return numbers


def text(value: object) -> str:
    """A value as a category's name: a whole number without its point, so that 1, 1.0 and "1" are one category."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def rows_where(chosen: np.ndarray, index: ArrayLike, most: int = 3) -> str:
    """ "rows 2, 5, 9 and 4 more", counted from 1 at the first row below the header; index: positions in the table.

    >>> rows_where(np.array([False, True]), [0, 1])
    'row 2'
    """
    rows = [int(row) + 1 for row in np.asarray(index)[chosen]]
    listed = ", ".join(map(str, rows[:most])) + (f" and {len(rows) - most} more" if len(rows) > most else "")
    return f"{'row' if len(rows) == 1 else 'rows'} {listed}"


def _categories(name: str, values: Series) -> tuple[str, ...]:
    categories = sorted(set(map(text, values)))
    if len(categories) > MOST_CATEGORIES or (len(categories) > 0.5 * len(values) and len(values) >= 20):
        raise UnusableColumn(
            f"Column {name!r} has {len(categories)} different texts in {len(values)} rows, such as {_quoted(categories)}: a name of each row, "
            "or free text, not a category.",
            name,
        )
    return tuple(categories)


def _numbers(values: Series, name: str) -> np.ndarray:
    if _has_numbers(values):
        return values.to_numpy(dtype=np.float64)
    readable = _readable(values)
    if not readable.all():
        raise InputError(
            f"Column {name!r} must hold numbers; it has {_quoted(values[~readable])} ({rows_where(~readable, values.index)}). "
            "Correct or remove these rows."
        )
    return np.array([float(value) for value in values], dtype=np.float64)


def _has_numbers(values: Series) -> bool:
    types = pandas().api.types
    return types.is_numeric_dtype(values.dtype) and not types.is_complex_dtype(values.dtype)


def _readable(values: Series) -> np.ndarray:
    """Which values (n,) can be read as numbers."""

    def reads(value: Any) -> bool:
        try:
            float(value)
        except (TypeError, ValueError):
            return False
        return True

    return np.fromiter(map(reads, values), dtype=bool, count=len(values))


def _quoted(values: Iterable[object], most: int = 3) -> str:
    different = list(dict.fromkeys(map(text, values)))
    return ", ".join(map(repr, different[:most])) + (", ..." if len(different) > most else "")
