"""Frames of pandas, polars and Arrow as pandas DataFrames with text for names."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from manifoldgp.data.dates import pandas
from manifoldgp.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame


def as_frame(X: object) -> DataFrame | None:
    """X as a pandas DataFrame, if it is a frame of any kind; None for arrays and lists."""
    found: Any = X
    if _is(found, "pandas", "DataFrame"):
        return found.set_axis([_name(column) for column in found.columns], axis=1)
    if _is(found, "polars", "LazyFrame"):
        raise InputError("X is a lazy polars frame, which holds no data yet. Pass X.collect().")
    if _is(found, "polars", "DataFrame"):
        return pandas().DataFrame({name: _from_polars(found[name]) for name in found.columns})
    return found.to_pandas().rename(columns=str) if _is(found, "pyarrow", "Table") else None


def column_names(y: object) -> list[str] | None:
    """The names that targets bring along: of a series, or of a frame's columns. None where one is missing, or is no text: numbers count what has no name."""
    found: Any = y
    if _is(found, "pandas", "DataFrame") or _is(found, "polars", "DataFrame"):
        names = list(found.columns)
    elif _is(found, "pandas", "Series") or _is(found, "polars", "Series"):
        names = [found.name]
    else:
        return None
    named = all(isinstance(name, (str, tuple)) and _name(name).strip() for name in names)
    return [_name(name) for name in names] if named else None


def without_others(X: Any, names: Collection[str]) -> Any:
    """A frame with the columns of these names alone, where it has all of them and others beside; everything else as it is.

    A frame with these columns in another order stays so too: scikit-learn's contract is that estimators refuse it.
    """
    kinds = ("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")
    if not names or not any(_is(X, *kind) for kind in kinds):
        return X
    there = list(X.column_names if _is(X, "pyarrow", "Table") else X.columns)
    if not set(names) < set(there):
        return X
    return X[list(names)] if _is(X, "pandas", "DataFrame") else X.select(list(names))


def is_series(y: object) -> bool:
    """Whether y is a Series of pandas."""
    return _is(y, "pandas", "Series")


def _name(column: object) -> str:
    """The name of a column as text; of a column below headings, all of them."""
    return " ".join(map(str, column)) if isinstance(column, tuple) else str(column)


def _is(X: object, package: str, kind: str) -> bool:
    """Whether X is of a class of a package; one that was never imported made nothing."""
    return package in sys.modules and isinstance(X, getattr(sys.modules[package], kind, ()))


def _from_polars(column: Any) -> Any:
    """A column as pandas holds it; without Arrow, which polars' own way needs."""
    polars = sys.modules["polars"]
    if column.dtype in (polars.Categorical, polars.Enum):
        return pandas().Categorical(column.to_list())
    if column.dtype == polars.String or (column.dtype == polars.Boolean and column.null_count()):
        return pandas().Series(column.to_list(), dtype=object)
    return column.to_numpy()
