"""What is refused in tables, by column and row: lacking and repeated columns, missing values, words that mean nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp._system.plain_text import counted, listed_names, verb, without_columns
from manifoldgp.data.columns import column_of, missing_in, rows_where
from manifoldgp.data.dates import PERIODS
from manifoldgp.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

MISSING = ("error", "drop", "impute")
"""What can be done about missing inputs."""

_TOLD_ONE_BY_ONE = 8

_MOST_SUMMARIES = 4
"""Rows of sums and means that a table ends in, at most."""

_BY_CHANCE = 1e-3
"""A row that is the mean of the others to so many digits that one in a thousand would be by chance is no row of its own."""


def gaps_in_words(gaps: Mapping[str, np.ndarray], index: Any) -> list[str]:
    """Which rows (n,) of each column have no value; many columns in one sentence."""
    if len(gaps) <= _TOLD_ONE_BY_ONE:
        return [
            f"Values are missing or infinite in column {name!r} in {int(missing.sum())} of {counted(len(missing), 'row')} ({rows_where(missing, index)})."
            for name, missing in gaps.items()
        ]
    rows = len(next(iter(gaps.values())))
    each = ", ".join(f"{name!r} in {int(missing.sum())}" for name, missing in gaps.items())
    return [f"Values are missing or infinite in {counted(len(gaps), 'column')}, of {counted(rows, 'row')}: {each}."]


def refuse_missing_values(table: DataFrame, columns: Sequence[str]) -> None:
    """Missing or infinite inputs are refused, with their columns and first rows."""
    found = {name: missing for name in columns if (missing := missing_in(column_of(table, name))).any()}
    if found:
        reasons = " ".join(gaps_in_words(found, table.index))
        raise InputError(
            f"{reasons} Fill them in, remove these rows, fit with missing='impute', or without: {without_columns(found)}"
        )


def refuse_repeated_columns(names: Sequence[str]) -> None:
    """Refuse a table in which a name occurs twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"Column names must differ; these occur more than once: {', '.join(repeated)}. Rename or drop them.")


def refuse_missing_columns(wanted: Sequence[str], names: Sequence[str]) -> None:
    """Refuse a table that lacks some of the columns."""
    missing = [name for name in dict.fromkeys(wanted) if name not in names]
    if missing:
        listed = listed_names(names, 20)
        raise InputError(
            f"The table has no {verb(len(missing), 'column', 'columns')} {', '.join(map(repr, missing))}. It has: {listed or 'none'}."
        )


def refuse_unknown_words(missing: str, cyclic: Sequence[str]) -> None:
    """Refuse words for missing values and for periods that nobody knows."""
    if missing not in MISSING:
        raise InputError(f"missing must be one of {', '.join(map(repr, MISSING))}; got {missing!r}.")
    if isinstance(cyclic, str) or not set(cyclic) <= set(PERIODS) or len(set(cyclic)) < len(cyclic):
        raise InputError(f"cyclic must be some of {PERIODS}, each once; got {cyclic!r}.")


def summaries_below(A: np.ndarray) -> int:
    """How many rows at the end of numbers A (N, C) are sums or means of all rows above, in every column that varies, two or more.

    >>> A = np.random.default_rng(0).normal(5.0, 2.0, (20, 3)).round(2)
    >>> summaries_below(A), summaries_below(np.r_[A, A.sum(0)[None], A.mean(0).round(2)[None]])
    (0, 2)
    """
    for count in range(min(_MOST_SUMMARIES, len(A) // 2), 0, -1):
        rows, below = A[:-count], A[-count:]
        varies = np.nanstd(rows, 0) > 0.0 if len(rows) else np.zeros(0, dtype=bool)
        if varies.sum() > 1 and all(_summarises(row[varies], rows[:, varies]) for row in below):
            return count
    return 0


def _summarises(row: np.ndarray, rows: np.ndarray) -> bool:
    """Whether a row (C,) is the sum or the mean of rows (n, C), as far as its digits tell, and hardly by chance."""
    if not np.isfinite(row).all():
        return False
    digit = np.array([0.5 * _last_digit(value) for value in row.tolist()])
    by_chance = np.prod(np.minimum(1.0, 2.0 * digit / np.nanstd(rows, 0)))
    found = (np.nansum(rows, 0), np.nanmean(rows, 0))
    near = [bool((np.abs(row - value) <= 1.01 * digit + 1e-9 * np.abs(value)).all()) for value in found]
    return bool(by_chance < _BY_CHANCE) and any(near)


def _last_digit(value: float) -> float:
    """What one more in the last digit of a number is.

    >>> _last_digit(12.25), _last_digit(300.0)
    (0.01, 1.0)
    """
    return 1.0 if value.is_integer() else float(Decimal(1).scaleb(int(Decimal(repr(value)).as_tuple().exponent)))
