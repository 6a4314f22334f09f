"""What a table may not have been meant to be: copies of rows, the target among the inputs, one category in two spellings, a total below. It is fitted all the same, and whoever fits hears of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp._system.plain_text import counted, listed_names, verb, without_columns
from manifoldgp.data.columns import Column, column_of, spellings_alike
from manifoldgp.data.dates import pandas
from manifoldgp.data.no_values import signs_of_nothing
from manifoldgp.data.summary_rows import summary_rows
from manifoldgp.errors import warn

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_REPEATED = 0.2
"""Share of the rows whose inputs stand in another row before them, from which on it is told."""


def warn_of_categories(columns: Sequence[Column]) -> None:
    """Categories that are hardly meant to be different ones, or to be any."""
    for column in columns:
        if alike := spellings_alike(column.categories):
            warn(
                f"{column.name}: categories that differ only in capitals or spaces count as different ones: {', '.join(alike[:3])}"
            )
        if blank := signs_of_nothing(column.categories):
            warn(
                f"{column.name}: {', '.join(map(repr, blank))} counts as a category like any other. If it means that nothing is known, leave these cells empty."
            )


def warn_of_copies(X: DataFrame, Y: DataFrame, grouped: bool) -> None:
    """Copies of rows and of the targets make a model look better on held-out rows than it is on new ones. grouped: whether rows that belong together are held out together."""
    copies = int(_beside(X, Y).duplicated().sum())
    if copies and not grouped:
        warn(
            f"{copies} of {len(X)} rows {verb(copies, 'is a copy of another', 'are copies of others')}, inputs and targets alike: a row whose copy is known is easy to predict, and held-out "
            f"errors are too small. Remove {verb(copies, 'it, unless it was', 'them, unless they were')} measured again."
        )
    different = len(X.drop_duplicates())
    if not grouped and len(X) - different - copies >= _REPEATED * len(X):
        warn(
            f"{len(X)} rows have {different} different inputs: errors that are told are those of rows whose inputs were measured before. If new rows have others, "
            "give rows of equal inputs a label of their own, and groups= holds them out together."
        )
    same = [str(name) for name in X if any(_same_numbers(column_of(X, name), column_of(Y, target)) for target in Y)]
    if same:
        warn(
            f"{', '.join(same)}: the same numbers as the target. If they are not known beforehand, leave them out: {without_columns(same)}"
        )


def warn_of_summaries(X: DataFrame, Y: DataFrame) -> None:
    """Totals and means below a frame, which nobody has left out; `read_table` leaves out those of files."""
    found = summary_rows(_beside(X, Y))
    if count := len(found.rows):
        names = f" ({listed_names(found.names)})" if found.names else ""
        warn(
            f"{counted(count, 'row')}{names} at the end of the table {verb(count, 'holds', 'hold')} sums or means of the rows above, and {verb(count, 'is', 'are')} learned from like any other. "
            f"Remove {verb(count, 'it, if it is no row of its', 'them, if they are no rows of their')} own."
        )


def _beside(X: DataFrame, Y: DataFrame) -> DataFrame:
    return X.assign(**{f"target {name}": Y[name] for name in Y})


def _same_numbers(column: Series, target: Series) -> bool:
    """Whether a column has the numbers of the target, whole ones or not."""
    numeric = pandas().api.types.is_numeric_dtype
    if not (numeric(column.dtype) and numeric(target.dtype)):
        return False
    ours, theirs = (values.to_numpy(dtype=np.float64, na_value=np.nan) for values in (column, target))
    return np.array_equal(ours, theirs, equal_nan=True)
