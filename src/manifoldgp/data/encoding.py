"""From a table with names to the numbers that a model sees, the same way at every prediction as at the fit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp._system.plain_text import option
from manifoldgp.data.columns import Column, UnusableColumn, column_of, learn_column, pandas, rows_where, target_numbers
from manifoldgp.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_UNNAMED = re.compile(r"Unnamed: \d+|__index_level_\d+__|")
"""What pandas calls a column without a name: as a rule the row numbers of whoever wrote the file."""


@dataclass(frozen=True)
class TableEncoding:
    """Which columns of a table are inputs and how they become numbers, which are targets, and which are neither.

    All of it is plain data; as ``model.table_encoding_`` it is saved with the model.

    Parameters
    ----------
    columns
        The inputs.
    targets
        Names of the columns to predict.
    noise
        The column with the known standard deviation of each row's noise, if any.
    group
        The column whose labels keep rows together, if any.
    constant
        Columns left out because they had one value only.
    ignored
        Columns left out on request.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"speed": [1.0, 2.0, 3.0], "floor": ["ice", "sand", "ice"], "y": [0.1, 0.4, 0.2]})
    >>> encoding = TableEncoding.learn(table, ["y"])
    >>> encoding.names
    ('speed', 'floor=ice', 'floor=sand')
    >>> encoding.inputs(table).to_numpy()[1].tolist(), encoding.target_values(table).tolist()
    ([2.0, 0.0, 1.0], [0.1, 0.4, 0.2])
    """

    columns: tuple[Column, ...]
    targets: tuple[str, ...] = ()
    noise: str | None = None
    group: str | None = None
    constant: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError("There is no input column: every column is a target, constant or left out.")
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated:
            raise InputError(f"These input columns would have the same name: {', '.join(repeated)}. Rename one of them.")

    @classmethod
    def learn(
        cls,
        table: DataFrame,
        targets: Sequence[str],
        *,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        noise: str | None = None,
        group: str | None = None,
    ) -> TableEncoding:
        """The encoding of a pandas DataFrame.

        Columns without a name are left out: they are row numbers, as a rule.

        Parameters
        ----------
        features
            The inputs; by default all columns that have no other use and are not in ``drop``.
        """
        names = list(map(str, table.columns))
        _refuse_repeated(names)
        special = [name for name in (*targets, noise, group) if name is not None]
        refuse_missing_columns([*special, *(features or ()), *drop], names)
        if len(set(special)) < len(special):
            raise InputError("A column can be only one of target, noise and group, and a target only once.")
        both = sorted(set(special) & set(features or ()))
        if both:
            raise InputError(f"{', '.join(both)} cannot be an input and a target, noise or group at the same time.")
        chosen = list(features) if features is not None else names
        unnamed = [name for name in names if _UNNAMED.fullmatch(name) and name not in (features or ())]
        inputs = [name for name in dict.fromkeys(chosen) if name not in (*special, *drop, *unnamed)]
        varying = [name for name in inputs if column_of(table, name).nunique() > 1]
        constant = tuple(name for name in inputs if name not in varying and not column_of(table, name).isna().any())
        inputs = [name for name in inputs if name not in constant]
        return cls(
            columns=_learn_columns(table, inputs),
            targets=tuple(targets),
            noise=noise,
            group=group,
            constant=constant,
            ignored=tuple(name for name in names if name not in (*special, *inputs, *constant)),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the D columns that the model sees."""
        return tuple(name for column in self.columns for name in column.names)

    def inputs(self, table: DataFrame, allow_unknown: bool = False) -> DataFrame:
        """The inputs as a DataFrame of numbers (n, D) with the columns ``names``, from a DataFrame that has at least the input columns."""
        wanted = [column.name for column in self.columns]
        refuse_missing_columns(wanted, list(map(str, table.columns)))
        if not len(table):
            raise InputError("The table has no rows.")
        refuse_missing_values(table, wanted)
        blocks = [column.numbers(column_of(table, column.name), allow_unknown) for column in self.columns]
        numbers = np.concatenate(blocks, axis=1)
        return pandas().DataFrame(numbers, columns=list(self.names), index=table.index)

    def target_values(self, table: DataFrame) -> np.ndarray:
        """Targets (n,), or (n, O) where there are several; NaN where one is missing."""
        refuse_missing_columns(self.targets, list(map(str, table.columns)))
        columns = [target_numbers(name, column_of(table, name)) for name in self.targets]
        return columns[0] if len(columns) == 1 else np.stack(columns, 1)

    def noise_values(self, table: DataFrame) -> np.ndarray | None:
        """Known noise (n,), None where the model has no such column or the table lacks it."""
        if self.noise is None or self.noise not in table.columns:
            return None
        refuse_missing_values(table, [self.noise])
        return target_numbers(self.noise, column_of(table, self.noise))

    def extra(self, table: DataFrame) -> list[str]:
        """Columns of a table that the encoding has never seen."""
        known = {column.name for column in self.columns} | {self.noise, self.group, *self.targets, *self.constant, *self.ignored}
        return [str(name) for name in table.columns if str(name) not in known]

    def unknown(self, table: DataFrame) -> dict[str, list[str]]:
        """Categories of a table that the encoding has never seen, by column."""
        found = {
            c.name: c.unknown(column_of(table, c.name)) for c in self.columns if c.kind == "category" and c.name in table.columns
        }
        return {name: values for name, values in found.items() if values}

    def to_plain(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "columns": [{"name": c.name, "kind": c.kind, "categories": list(c.categories)} for c in self.columns],
            "targets": list(self.targets),
            "noise": self.noise,
            "group": self.group,
            "constant": list(self.constant),
            "ignored": list(self.ignored),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TableEncoding:
        """The encoding that `to_plain` wrote."""
        return cls(
            columns=tuple(Column(str(c["name"]), str(c["kind"]), tuple(map(str, c["categories"]))) for c in plain["columns"]),
            targets=tuple(map(str, plain["targets"])),
            noise=None if plain["noise"] is None else str(plain["noise"]),
            group=None if plain["group"] is None else str(plain["group"]),
            constant=tuple(map(str, plain["constant"])),
            ignored=tuple(map(str, plain["ignored"])),
        )


def _learn_columns(table: DataFrame, names: Sequence[str]) -> tuple[Column, ...]:
    """What kind of column each one is. All that cannot be used are refused at once, so that nobody has to try again for each of them."""
    columns, refused = [], {}
    for name in names:
        missing = _missing(column_of(table, name))
        if missing.any():
            refused[name] = _missing_in_words(name, missing, table.index)
            continue
        try:
            columns.append(learn_column(name, column_of(table, name)))
        except UnusableColumn as error:
            refused[name] = error.reason
    if not refused:
        return tuple(columns)
    reasons = " ".join(refused.values())
    without = " ".join(option("--drop", name) for name in refused)
    raise InputError(f"{reasons} Correct or remove these rows, or fit without: {without}")


def _missing(values: Series) -> np.ndarray:
    """Which values (n,) are missing or infinite."""
    missing = values.isna().to_numpy()
    if pandas().api.types.is_float_dtype(values.dtype):
        missing = missing | np.isinf(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return missing


def _missing_in_words(name: str, missing: np.ndarray, index: Any) -> str:
    return f"Values are missing or infinite in column {name!r} in {int(missing.sum())} of {len(missing)} rows ({rows_where(missing, index)})."


def refuse_missing_values(table: DataFrame, columns: Sequence[str]) -> None:
    """Missing or infinite inputs are refused, with their columns and first rows."""
    found = {name: missing for name in columns if (missing := _missing(column_of(table, name))).any()}
    if found:
        reasons = " ".join(_missing_in_words(name, missing, table.index) for name, missing in found.items())
        without = " ".join(option("--drop", name) for name in found)
        raise InputError(f"{reasons} Fill them in, remove these rows, or fit without: {without}")


def _refuse_repeated(names: Sequence[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"Column names must differ; these occur more than once: {', '.join(repeated)}. Rename or drop them.")


def refuse_missing_columns(wanted: Sequence[str], names: Sequence[str]) -> None:
    """Refuse a table that lacks some of the columns."""
    missing = [name for name in dict.fromkeys(wanted) if name not in names]
    if missing:
        listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise InputError(f"The table has no column {', '.join(map(repr, missing))}. It has: {listed or 'none'}.")
