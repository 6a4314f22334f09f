"""Which columns of a table can be inputs, and what each of them holds; those that cannot are refused all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp._system.plain_text import without_columns
from manifoldgp.data.columns import (
    Column,
    RowNames,
    UnusableCells,
    UnusableColumn,
    UnusableTable,
    column_of,
    holds_containers,
    learn_column,
    missing_in,
)
from manifoldgp.data.table_checks import gaps_in_words

if TYPE_CHECKING:
    from pandas import DataFrame


def is_constant(table: DataFrame, name: str, missing: str) -> bool:
    """Whether a column has one value at most. Missing values beside it count as another one, if they are not refused or left out."""
    values = column_of(table, name)
    if holds_containers(values):
        return False  # said by the one who learns what it holds
    return values.nunique() <= 1 and (values.isna().all() or not values.isna().any() or missing == "drop")


def learn_columns(
    table: DataFrame, names: Sequence[str], missing: str, cyclic: tuple[str, ...], asked: bool
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """What kind of column each one is, and which are names of rows. All that cannot be used are refused at once, so that nobody has to try again for each of them.

    asked: whether somebody chose these columns; names of rows are refused then.
    """
    columns: list[Column] = []
    row_names: list[str] = []
    unusable: dict[str, str] = {}
    gaps: dict[str, np.ndarray] = {}
    for name in names:
        values = column_of(table, name)
        lacking = missing_in(values)
        try:
            present: Any = values[~lacking]
            column = learn_column(name, present, cyclic, len(values))
        except UnusableColumn as error:
            column = None
            if isinstance(error, RowNames) and not asked:
                row_names.append(name)
            else:
                unusable[name] = error.reason
            if not isinstance(error, UnusableCells):
                continue  # nobody has to fill in what is no input anyway
        if lacking.any() and missing == "error":
            gaps[name] = lacking
        if column is not None:
            columns.append(replace(column, indicator=bool(lacking.any()) and missing == "impute"))
    if unusable or gaps:
        reasons = (*unusable.values(), *gaps_in_words(gaps, table.index))
        raise UnusableTable(reasons, _advice(list(unusable), list(gaps)))
    return tuple(columns), tuple(row_names)


def _advice(unusable: Sequence[str], gaps: Sequence[str]) -> str:
    """What to do about columns that cannot be used, and about those with missing values."""
    without, fill = without_columns(unusable), without_columns(gaps)
    how = "missing='impute' or missing='drop'"
    if not gaps:
        return f"Correct or remove these rows, or fit without: {without}"
    if not unusable:
        return f"Fill them in, fit with {how}, or without: {fill}"
    return f"Correct what cannot be read, or fit without it ({without}). For missing values fit with {how}, or without: {fill}"
