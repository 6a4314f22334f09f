"""Rows at the end of a table that sum up those above: totals and means, which are no rows of their own."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manifoldgp.data.columns import column_of, missing_in
from manifoldgp.data.dates import pandas

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from manifoldgp.data.encoding import TableEncoding

_MOST_SUMMARIES = 4
"""Rows of sums and means that a table ends in, at most."""

_BY_CHANCE = 1e-3
"""A row that is the mean of the others to so many digits that one in a thousand would be by chance is no row of its own."""

_NAMES = frozenset((
    "average", "avg", "durchschnitt", "mean", "media", "mittel", "mittelwert", "moyenne", "promedio", "ø",
    "gesamt", "somme", "sum", "suma", "summe", "total", "totale", "totals", "σ",
))  # fmt: skip
"""Words that such a row has in a column of texts, in small letters."""


class SummaryRows(NamedTuple):
    """Rows by their names in the table's index, and whether they are certainly no rows of their own: a centre point of an experiment is the mean of all others, too."""

    rows: tuple[Any, ...]
    certain: bool


def summary_rows(table: DataFrame, encoding: TableEncoding) -> SummaryRows:
    """The rows at the end that are sums or means of all rows above, in all inputs and targets that are numbers.

    Means alone are certain where each of these rows says what it is, or has an empty cell where no row above has one.
    """
    names = [*encoding.targets, *(column.name for column in encoding.columns if column.kind == "number")]
    kinds = summaries_below(np.stack([_numbers(column_of(table, name)) for name in names if name in table.columns], 1))
    above, below = table.iloc[: len(table) - len(kinds)], table.iloc[len(table) - len(kinds) :]
    certain = "sum" in kinds or all(_is_described(row, above) for _, row in below.iterrows())
    return SummaryRows(tuple(below.index), certain)


def _numbers(column: Series) -> np.ndarray:
    """Numbers (n,), NaN where a cell holds none."""
    numbers: Any = pandas().to_numeric(column, errors="coerce")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def _is_described(row: Any, above: DataFrame) -> bool:
    """Whether a row says that it sums up those above: by a word that none of them has, or a cell that is empty where none of them is, in a column of texts or dates."""
    numeric = pandas().api.types.is_numeric_dtype
    return any(_describes(row[name], column_of(above, name)) for name in above if not numeric(above[name].dtype))


def _describes(cell: Any, above: Series) -> bool:
    if missing_in(pandas().Series([cell])).any():
        return not missing_in(above).any()
    words = re.findall(r"\w+", cell.casefold()) if isinstance(cell, str) else []
    return not _NAMES.isdisjoint(words) and not (above == cell).any()


def summaries_below(A: np.ndarray) -> tuple[str, ...]:
    """Of the rows at the end of numbers A (N, C) that are sums or means of all rows above, in every column that varies, two or more: which they are.

    >>> A = np.random.default_rng(0).normal(5.0, 2.0, (20, 3)).round(2)
    >>> summaries_below(A), summaries_below(np.r_[A, A.sum(0)[None], A.mean(0).round(2)[None]])
    ((), ('sum', 'mean'))
    """
    for count in range(min(_MOST_SUMMARIES, len(A) // 2), 0, -1):
        kinds: list[str] = []
        for row in A[-count:]:
            if not (kind := _kind(row, A[:-count])):
                break
            kinds.append(kind)
        else:
            return tuple(kinds)
    return ()


@np.errstate(all="ignore")  # sums of the largest numbers
def _kind(row: np.ndarray, rows: np.ndarray) -> str:
    """What a row (C,) is of rows (n, C), "mean" or "sum", as far as its digits tell, and hardly by chance; "" for neither. Most rows are neither by the first column."""
    kinds, by_chance, varying = {"mean": np.mean, "sum": np.sum}, 1.0, 0
    for value, column in zip(row.tolist(), rows.T, strict=True):
        known = column[np.isfinite(column)]
        if not len(known) or known.min() == known.max():
            continue
        if not math.isfinite(value):
            return ""
        digit = 0.5 * _last_digit(value)
        kinds = {kind: f for kind, f in kinds.items() if abs(value - f(known)) <= 1.01 * digit + 1e-9 * abs(f(known))}
        if not kinds:
            return ""
        by_chance *= min(1.0, 2.0 * digit / max(float(known.std()), digit))
        varying += 1
    return next(iter(kinds)) if varying > 1 and by_chance < _BY_CHANCE else ""


def _last_digit(value: float) -> float:
    """What one more in the last digit of a number is.

    >>> _last_digit(12.25), _last_digit(300.0)
    (0.01, 1.0)
    """
    return 1.0 if value.is_integer() else float(Decimal(1).scaleb(int(Decimal(repr(value)).as_tuple().exponent)))
