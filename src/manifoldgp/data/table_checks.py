"""What is refused in tables, by column and row: lacking and repeated columns, missing values, words that mean nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
