"""Tables as people have them, text, dates and gaps included, on their way into an estimator: by its encoding, the same at every prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from manifoldgp._system.plain_text import counted, verb
from manifoldgp.data import inputs
from manifoldgp.data.columns import Column, refuse_codes
from manifoldgp.data.dates import pandas
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.frames import as_frame, column_names
from manifoldgp.data.table_checks import MISSING
from manifoldgp.data.table_remarks import warn_of_categories, warn_of_copies, warn_of_summaries
from manifoldgp.errors import InputError, warn
from manifoldgp.estimators.input_std import of_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from pandas import DataFrame

    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.input_std import InputStd
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


class ReadsTables(Protocol):
    """What an estimator is told about tables, and where it keeps how they were encoded."""

    missing: str
    cyclic: Sequence[str]
    table_encoding_: TableEncoding
    target_names_: np.ndarray


@dataclass(frozen=True)
class TrainingRows:
    """What to train on: as it was given, or encoded as numbers and without the rows that missing='drop' leaves out.

    levels (n, C): which of their categories the rows have in columns with many of them.
    """

    X: Any
    y: Any
    noise_std: Any
    groups: Any
    input_std: Any = None
    levels: np.ndarray | None = None


def _refuse_codes(y: np.ndarray, named: Sequence[str] | None) -> None:
    """Texts such as 01067 among targets, whatever holds them."""
    if y.dtype.kind not in "OUT" or not y.size:  # neither objects nor texts
        return
    columns = y.reshape(len(y), -1).T
    for name, cells in zip(named or inputs.numbered_targets(len(columns)), columns, strict=True):
        refuse_codes(name, cells, "hand in y.astype(float)")


def training_rows(
    estimator: ReadsTables,
    X: Table,
    y: ArrayLike | None,
    noise_std: ArrayLike | None,
    groups: ArrayLike | None,
    input_std: InputStd | None = None,
) -> TrainingRows:
    """The rows of a fit. A table that is not all numbers is encoded, and the estimator keeps how; it keeps the names of the targets, too."""
    if estimator.missing not in MISSING:
        raise InputError(f"missing must be one of {', '.join(map(repr, MISSING))}; got {estimator.missing!r}.")
    given = TrainingRows(X, y, noise_std, groups, input_std)
    frame = as_frame(X)
    plain = estimator.missing == "error" and not estimator.cyclic
    named = column_names(y)
    if named:
        estimator.target_names_ = np.array(named, dtype=object)
    if named or isinstance(y, (list, tuple, np.ndarray)) or hasattr(y, "to_numpy"):
        _refuse_codes(np.asarray(y), named)
    if y is None or (plain and (frame is None or inputs.holds_numbers_only(X))):
        return given
    Y, _ = inputs.targets(y)
    names = named or inputs.numbered_targets(Y.shape[1])
    table = _named_columns(X) if frame is None else frame
    if len(table) != len(Y):
        raise InputError(f"X has {counted(len(table), 'row')} and y has {len(Y)}. They must have as many.")
    if frame is None and estimator.cyclic:
        raise InputError("cyclic is about columns of dates, and X is an array of numbers. Hand in a frame, or leave cyclic out.")
    encoding = _of_array(table, names, estimator.missing) if frame is None else _of_frame(estimator, table, names, Y)
    encoded, kept = encoding.training_inputs(table, Y)
    if frame is not None:
        _warn_of_oddities(table, Y, kept & ~np.isnan(Y).any(1), encoding, groups is not None)
    estimator.table_encoding_ = encoding.without_rows(~kept | np.isnan(Y).any(1))
    levels = encoding.level_numbers(table)[kept] if encoding.level_columns else None
    numbers = encoded if frame is not None else encoded.to_numpy()
    rows = TrainingRows(numbers, _chosen(y, kept), noise_std, groups, input_std, levels)
    if kept.all():
        return rows
    if kept.sum() < 2:
        raise InputError(
            f"{int(kept.sum())} of {counted(len(kept), 'row')} {verb(int(kept.sum()), 'has', 'have')} all inputs; at least 2 are needed. Use missing='impute'."
        )
    out = int((~kept).sum())
    warn(
        f"{out} of {counted(len(kept), 'row')} {verb(out, 'has', 'have')} missing inputs and {verb(out, 'is', 'are')} left out of the fit (missing='drop')."
    )
    std = None if input_std is None else of_rows(input_std, kept)
    return replace(rows, noise_std=_chosen(noise_std, kept), groups=_chosen(groups, kept), input_std=std)


def keep_group_name(estimator: ManifoldGPRegressor, groups: ArrayLike | None) -> None:
    """What the labels of groups are called, and which there are, kept in the encoding of the table where there is one."""
    named, encoding = column_names(groups), getattr(estimator, "table_encoding_", None)
    if named and encoding is not None:
        estimator.table_encoding_ = encoding.with_groups(named[0], np.asarray(groups))
    elif named:
        estimator.group_column_ = named[0]


def refuse_for_source(estimator: ManifoldGPRegressor) -> None:
    """Arguments about tables, refused where rows come from a source, which is all numbers."""
    for name, usual in (("missing", "error"), ("cyclic", ())):
        if getattr(estimator, name) != usual:
            raise InputError(
                f"{name}={getattr(estimator, name)!r} has no effect on a source of rows, which holds numbers only. Leave it out."
            )


@dataclass(frozen=True)
class QueryRows:
    """Rows to predict at: X as numbers, with NaN where a value is missing or a category unknown; left_out (n,): rows that are not predicted."""

    X: Any
    left_out: np.ndarray | None = None


def query_rows(estimator: object, X: Table, tell: bool = True) -> QueryRows:
    """X as the estimator's encoding reads it, if it has one and X is not encoded already. tell: whether unknown categories are warned about."""
    encoding: TableEncoding | None = getattr(estimator, "table_encoding_", None)
    if encoding is None:
        return QueryRows(X)
    frame = as_frame(X)
    if frame is not None and not _is_encoded(frame, encoding):
        return _encoded(encoding, frame, tell)
    if frame is None and not hasattr(estimator, "feature_names_in_"):
        table = _named_columns(X)
        if table.shape[1] == len(encoding.columns):
            encoded = _encoded(encoding, table, tell)
            return QueryRows(encoded.X.to_numpy(), encoded.left_out)
    return QueryRows(X)


def _encoded(encoding: TableEncoding, table: DataFrame, tell: bool) -> QueryRows:
    encoded = encoding.inputs(table, allow_unknown=True)
    for name, values in encoding.unknown(table).items() if tell else ():
        listed = ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
        warn(
            f"Column {name!r} has values that were not there at the fit: {listed}. They are predicted as any that was, with wide intervals."
        )
    if encoding.missing != "drop":
        return QueryRows(encoded)
    missing = list(encoding.missing_rows(table).values())
    return QueryRows(encoded, np.any(missing, axis=0) if missing else None)


def _is_encoded(frame: DataFrame, encoding: TableEncoding) -> bool:
    """Whether a frame holds the numbers that the encoding makes, not the columns that it reads."""
    return tuple(frame.columns) == encoding.names != tuple(column.name for column in encoding.columns)


def _of_frame(estimator: ReadsTables, table: DataFrame, names: list[str], Y: np.ndarray) -> TableEncoding:
    leaked = [name for o, name in enumerate(names) if name in table.columns and _equal(table[name], Y[:, o])]
    if leaked:
        raise InputError(f"X holds the target itself: {', '.join(leaked)}. Leave it out: X.drop(columns=...).")
    encoding = TableEncoding.learn(table, names, missing=estimator.missing, cyclic=tuple(estimator.cyclic), y=Y)
    encoding.warn_of_row_names()
    return encoding


def _warn_of_oddities(table: DataFrame, Y: np.ndarray, seen: np.ndarray, encoding: TableEncoding, grouped: bool) -> None:
    """What the table may not have been meant to be. seen (n,): the rows that are learned from."""
    rows: Any = table[seen]  # pandas says that it could be a series
    targets = pandas().DataFrame(Y[seen], columns=list(encoding.targets), index=rows.index)
    warn_of_categories(encoding.columns)
    warn_of_copies(rows[[column.name for column in encoding.columns]], targets, grouped)
    warn_of_summaries(rows, targets)


def _of_array(table: DataFrame, names: list[str], missing: str) -> TableEncoding:
    """The encoding of an array: every column stays, in its place."""
    lacking = table.isna()
    if lacking.all().any():
        raise InputError(f"These columns of X have no value at all: {', '.join(table.columns[lacking.all()])}. Leave them out.")
    columns = tuple(Column(name, indicator=missing == "impute" and bool(lacking[name].any())) for name in table.columns)
    return TableEncoding(columns, tuple(names), missing=missing).with_donors(table)


def _named_columns(X: Table) -> DataFrame:
    """An array as a table with the columns x0, x1, ..."""
    A = inputs.numbers_or_missing(X)
    return pandas().DataFrame(A, columns=[f"x{d}" for d in range(A.shape[1])])


def _equal(column: Any, y: np.ndarray) -> bool:
    values = pandas().to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    return bool(np.array_equal(values, y, equal_nan=True))


def _chosen(values: Any, kept: np.ndarray) -> Any:
    """The chosen rows of what has one entry a row; one number for all rows stays as it is."""
    return values if values is None or kept.all() or np.ndim(values) == 0 else np.asarray(values)[kept]
