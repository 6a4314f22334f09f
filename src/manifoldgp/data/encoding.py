"""From a table with names to the numbers that a model sees, the same way at every prediction as at the fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp._system.plain_text import counted, digits, unit_of
from manifoldgp.data.columns import ONE_HOT, UNNAMED, Column, column_of, missing_in, target_numbers, text
from manifoldgp.data.dates import holds_times, pandas
from manifoldgp.data.decimal_signs import NO_SIGNS, KnownSigns
from manifoldgp.data.donors import Donors
from manifoldgp.data.input_columns import is_constant, learn_columns
from manifoldgp.data.levels import Effects, cross_fitted, learn_effects
from manifoldgp.data.number_columns import Reading, signs_of
from manifoldgp.data.plain_columns import column_from_plain, column_to_plain, in_order
from manifoldgp.data.table_checks import (
    refuse_missing_columns,
    refuse_missing_values,
    refuse_repeated_columns,
    refuse_unknown_words,
)
from manifoldgp.data.units import tells, units_of
from manifoldgp.data.written_numbers import read_numbers
from manifoldgp.errors import FileFormatError, InputError, warn

if TYPE_CHECKING:
    from pandas import DataFrame

_MOST_LEFT_OUT = 10_000
"""Rows that were left out and are remembered, at most."""

_MOST_LABELS = 1_000
"""Labels of groups that are remembered, at most."""

_CLEARLY_OUTSIDE, _FAR_IN_TIME = 0.05, 0.1
"""Share of a column's range by which a value lies clearly beyond it: new rows of the same kind seldom go further, but come a little later as a rule."""


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
        Columns left out because they had one value at most.
    row_names
        Columns left out because most rows had a text of their own there: names and remarks, which say nothing about other rows.
    ignored
        Columns left out on request.
    missing
        What happens to missing inputs: "error" (they are refused), "drop" (rows with one are left out of the fit and predicted as NaN) or "impute" (the
        values of training rows that are alike take their place, and predictions are as wide as these differ).
    donors
        The training rows that such values are taken from, where they may be needed.
    units
        Names of inputs and targets, and the unit that stood below each in the table.
    rows_left_out
        Rows of the training table, in order and counted from 0, that the model has not seen: they lack the target or an input. None: they are too many to keep, or not known.
    ranges
        The least and the largest value that each number, date and duration had in the training rows, by the name that the model sees; empty where they are not known.
    signs
        The decimal signs of the file that the table was read from, as far as it showed any.
    group_labels
        The labels of the training rows' groups, each once. None: they are too many to keep, or not known.

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
    row_names: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    missing: str = "error"
    donors: Donors | None = None
    units: tuple[tuple[str, str], ...] = ()
    rows_left_out: tuple[int, ...] | None = ()
    ranges: tuple[tuple[str, float, float], ...] = ()
    signs: KnownSigns = NO_SIGNS
    group_labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError(
                "There is no input column: every column is a target, has one value only, has another text in most rows, has no name, or is left out."
            )
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
        missing: str = "error",
        cyclic: Sequence[str] = (),
        y: np.ndarray | None = None,
    ) -> TableEncoding:
        """The encoding of a pandas DataFrame.

        Columns without a name are left out, unless they hold dates: they are row numbers, as a rule. So are those with one value and those with a text of their own in most rows, unless
        ``features`` asks for the latter, which is refused.

        Parameters
        ----------
        features
            The inputs; by default all columns that have no other use and are not in ``drop``.
        missing
            What happens to missing inputs, "error", "drop" or "impute".
        cyclic
            Periods that dates are repeated by, out of "day", "week", "month" and "year": sine and cosine of each are columns too.
        y : (n, O)
            The targets, where they are no columns of the table; ``targets`` are their names.
        """
        refuse_unknown_words(missing, cyclic)
        names = list(map(str, table.columns))
        refuse_repeated_columns(names)
        special = [name for name in (*(targets if y is None else ()), noise, group) if name is not None]
        refuse_missing_columns([*special, *(features or ()), *drop], names)
        if len(set(special)) < len(special):
            raise InputError("A column can be only one of target, noise and group, and a target only once.")
        both = sorted(set(special) & set(features or ()))
        if both:
            raise InputError(f"{', '.join(both)} cannot be an input and a target, noise or group at the same time.")
        chosen = list(features) if features is not None else names
        unnamed = [name for name in names if UNNAMED.fullmatch(name) and name not in (features or ()) and not _dated(table, name)]
        inputs = [name for name in dict.fromkeys(chosen) if name not in (*special, *drop, *unnamed)]
        constant = tuple(name for name in inputs if is_constant(table, name, missing))
        inputs = [name for name in inputs if name not in constant]
        columns, row_names = learn_columns(table, inputs, missing, tuple(cyclic), asked=features is not None)
        if cyclic and not any(column.kind == "date" for column in columns):
            raise InputError(f"There is no column of dates that could be repeated by {', '.join(cyclic)}. Leave cyclic out.")
        encoding = cls(
            columns=columns,
            targets=tuple(targets),
            noise=noise,
            group=group,
            constant=constant,
            row_names=row_names,
            ignored=tuple(name for name in names if name not in (*special, *inputs, *constant)),
            missing=missing,
            units=tuple((name, unit) for name, unit in units_of(table).items() if name in (*inputs, *targets)),
            signs=signs_of(table).of_all((*inputs, *targets, noise)),
        )
        return encoding._with_effects(table, y)._with_ranges(table, y).with_donors(table)

    def warn_of_row_names(self) -> None:
        """Somebody who handed columns in hears which of them are left out because they name rows."""
        if self.row_names:
            warn(f"These columns are left out, because most texts there occur once: {', '.join(self.row_names)}.")

    def _with_effects(self, table: DataFrame, y: np.ndarray | None) -> TableEncoding:
        """The encoding in which columns with many categories have the effect of each."""
        if not any(column.kind == "category" and len(column.categories) > ONE_HOT for column in self.columns):
            return self
        Y = self.target_values(table).reshape(len(table), -1) if y is None else y
        Z, columns = self._other_numbers(table), []
        for column in self.columns:
            if column.kind == "category" and len(column.categories) > ONE_HOT:
                shifts, curves = learn_effects(column.level_numbers(column_of(table, column.name)), len(column.categories), Z, Y)
                column = replace(column, kind="levels", effects=Effects(self.targets, tuple(map(tuple, shifts.tolist())), curves))
            columns.append(column)
        return replace(self, columns=tuple(columns))

    def _with_ranges(self, table: DataFrame, y: np.ndarray | None) -> TableEncoding:
        """The encoding with the ranges of the rows that are trained on."""
        numbers = [column for column in self.columns if column.kind in ("number", "date", "duration")]
        kept = np.ones(len(table), dtype=bool) if y is None else ~np.isnan(y).any(1)
        for lacking in self.missing_rows(table).values() if self.missing == "drop" else ():
            kept &= ~lacking
        found = []
        for column in numbers:
            values = column.numbers(column_of(table, column.name))[kept, 0]
            if not np.isnan(values).all():
                found.append((column.names[0], float(np.nanmin(values)), float(np.nanmax(values))))
        return replace(self, ranges=tuple(found))

    def outside(self, X: DataFrame, clearly: bool = False) -> dict[str, np.ndarray]:
        """Which rows (n,) of encoded inputs lie outside the range of the training rows, for each column that has some.

        clearly: only those that lie a twentieth of the range or more beyond it, of dates a tenth.

        >>> encoding = TableEncoding((Column("x"),), ranges=(("x", 0.0, 10.0),))
        >>> X = pandas().DataFrame({"x": [-1.0, 5.0, 10.2]})
        >>> encoding.outside(X)["x"].tolist(), encoding.outside(X, clearly=True)["x"].tolist()
        ([True, False, True], [True, False, False])
        """
        found, dates = {}, {column.names[0] for column in self.columns if column.kind == "date"}
        for name, low, high in self.ranges:
            values, share = X[name].to_numpy(), _FAR_IN_TIME if name in dates else _CLEARLY_OUTSIDE
            margin = share * (high - low) if clearly else 0.0
            found[name] = (values < low - margin) | (values > high + margin)
        return {name: rows for name, rows in found.items() if rows.any()}

    def date_column(self, name: str) -> Column | None:
        """The column of dates whose elapsed time the model sees by this name; None: it sees no dates there."""
        return next((column for column in self.columns if column.kind == "date" and column.names[0] == name), None)

    def range_in_words(self, name: str) -> str:
        """A column, by the name that the model sees, and between which values its training rows are.

        >>> table = pandas().DataFrame({"when": ["2026-01-01", "2026-01-09"], "x [mm]": [0.5, 2.0], "y": [1.0, 2.0]})
        >>> encoding = TableEncoding.learn(table, ["y"])
        >>> encoding.range_in_words("when [days]"), encoding.range_in_words("x [mm]")
        ('when (2026-01-01 to 2026-01-09)', 'x [mm] (0.5 to 2)')
        """
        ends = next((low, high) for known, low, high in self.ranges if known == name)
        date = self.date_column(name)
        if date is None or date.time is None:
            return f"{self.label(name)} ({digits(ends[0])} to {digits(ends[1])})"
        return f"{date.name} ({date.time.date_in_words(ends[0])} to {date.time.date_in_words(ends[1])})"

    def _other_numbers(self, table: DataFrame) -> np.ndarray:
        """The columns that are not levels, or will not be, as numbers."""
        few = [column for column in self.columns if len(column.categories) <= ONE_HOT]
        return np.concatenate([np.empty((len(table), 0)), *(c.numbers(column_of(table, c.name)) for c in few)], axis=1)

    def with_donors(self, table: DataFrame) -> TableEncoding:
        """The encoding with training rows to take values from, where a value may be missing or a category unknown."""
        if self.missing != "impute" and not any(column.categories for column in self.columns):
            return self
        X = self._numbers(table, False)
        return replace(self, donors=Donors.of(X if self.missing == "impute" else X[~np.isnan(X).any(1)]))

    def training_inputs(self, table: DataFrame, y: np.ndarray | None = None) -> tuple[DataFrame, np.ndarray]:
        """The inputs (N, D) to train on, and which rows (n,) of the table they are; missing="drop" leaves some out.

        They differ from those of `inputs` in two ways: missing values are filled in, and the effect of a level does without the row's own target.
        y (n, O): the targets, where they are no columns of the table.
        """
        self._refuse_unusable(table)
        X = self._numbers(table, False)
        first, Z = 0, self._other_numbers(table)
        for column in self.columns:
            if column.effects is not None:
                Y = self.target_values(table).reshape(len(table), -1) if y is None else y
                levels = column.level_numbers(column_of(table, column.name))
                found = cross_fitted(levels, len(column.categories), Z, Y, column.effects.curves)
                X[:, first : first + found.shape[1]] = found
            first += len(column.names)
        kept = np.asarray(~np.isnan(X).any(1)) if self.missing == "drop" else np.ones(len(X), dtype=bool)
        if self.donors is not None and self.missing == "impute":
            X = self.donors.completed(X, self.names)
        return self._frame(X[kept], table.index[kept]), kept

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the D columns that the model sees."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def indicators(self) -> np.ndarray:
        """Which of the D columns say where a value is missing."""
        return np.array([last and column.indicator for column in self.columns for last in _last(len(column.names))])

    def without_rows(self, left_out: np.ndarray) -> TableEncoding:
        """With the rows (n,) of the training table that the model has not seen."""
        rows = np.flatnonzero(left_out)
        return replace(self, rows_left_out=tuple(rows.tolist()) if len(rows) <= _MOST_LEFT_OUT else None)

    def with_groups(self, group: str | None, labels: Iterable[object] | None) -> TableEncoding:
        """With the column whose labels (N,) kept the training rows together, and which labels there were."""
        found = None if labels is None else tuple(dict.fromkeys(map(text, labels)))
        return replace(self, group=group, group_labels=None if found is None or len(found) > _MOST_LABELS else found)

    def in_new_groups(self, labels: Iterable[object] | None, rows: int) -> np.ndarray:
        """Which rows (n,) are surely of no group of the training rows, by their labels (n,); none where labels are not known.

        >>> encoding = TableEncoding((Column("x"),)).with_groups("run", [1, 1, 2])
        >>> encoding.in_new_groups(["1", "3", None], 3).tolist(), encoding.in_new_groups([2.0, 4.0], 2).tolist(), encoding.in_new_groups(None, 2).tolist()
        ([False, True, False], [False, True], [False, False])
        """
        if labels is None or self.group_labels is None:
            return np.zeros(rows, dtype=bool)
        known = {*self.group_labels, *map(text, (None, np.nan))}  # a missing label may be any
        return np.array([text(label) not in known for label in labels], dtype=bool)

    def row_numbers(self, places: np.ndarray) -> np.ndarray:
        """Which rows of the training table, counted from 1, the rows at these places of the model are.

        >>> TableEncoding((Column("x"),)).without_rows(np.array([0, 1, 0, 1, 1, 0])).row_numbers(np.arange(3)).tolist()
        [1, 3, 6]
        """
        left_out = np.array(self.rows_left_out or (), dtype=np.int64)
        kept_before = left_out - np.arange(len(left_out))
        return 1 + places + np.searchsorted(kept_before, places, side="right")

    def label(self, name: str) -> str:
        """A column of the table or of the model as axes and tables show it: with the unit that stood below it, where its name does not tell it."""
        unit = dict(self.units).get(name)
        return name if unit is None or tells(name, unit) else f"{name} [{unit}]"

    def unit(self, name: str) -> str:
        """The unit of a column, to be put behind a number: that of the table, or the one that its name has in brackets.

        >>> encoding = TableEncoding((Column("x"),), units=(("Price €", "€"),))
        >>> encoding.label("Price €"), encoding.unit("Price €"), encoding.unit("length [m]"), encoding.unit("fat%")
        ('Price €', ' €', ' m', '')
        """
        unit = dict(self.units).get(name)
        return unit_of(name if unit is None else f"[{unit}]")

    @property
    def reading(self) -> Reading:
        """What other tables in files are read by, so that their columns become what they were at the fit: ``read_table(path, like=...)``."""
        inputs = (column.name for column in self.columns if column.kind == "number")
        numbers = (*inputs, *self.targets, *([] if self.noise is None else [self.noise]))
        categories = {column.name: column.categories for column in self.columns}
        return Reading({name: self.unit(name).strip() for name in numbers}, self.signs, categories)

    def inputs(self, table: DataFrame, allow_unknown: bool = False) -> DataFrame:
        """The inputs as a DataFrame of numbers (n, D) with the columns ``names``, from a DataFrame that has at least the input columns.

        NaN where a value is missing, unless that is refused, or, with allow_unknown, where a category is unknown. ``predict`` of a model with this
        encoding knows what to make of it.
        """
        self._refuse_unusable(table)
        return self._frame(self._numbers(table, allow_unknown), table.index)

    def filled_in(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """X (n, D) with NaN filled in several times and, last, by the mean of these: (n, draws + 1, D); and which rows (n,) to centre on the last.

        The draws are as rows are without a gap. Where the model was trained on such gaps, it knows its mean there by itself, and the draws only spread around it.
        """
        assert self.donors is not None
        draws, told = self.donors.draws(X, self.names), self.indicators
        middle = draws.mean(1, keepdims=True)
        draws[..., told] = 0.0
        return np.concatenate([draws, middle], 1), np.asarray((X[:, told] > 0).any(1))

    @property
    def level_columns(self) -> tuple[Column, ...]:
        """The columns with many categories, which become the effect of each."""
        return tuple(column for column in self.columns if column.effects is not None)

    def level_numbers(self, table: DataFrame) -> np.ndarray:
        """Which category of each of the `level_columns` the rows have (n, C), -1 where it is missing: effects that they are trained with do not tell."""
        found = [column.level_numbers(column_of(table, column.name)) for column in self.level_columns]
        return np.array(found, dtype=np.int32).reshape(len(found), len(table)).T

    def missing_rows(self, table: DataFrame) -> dict[str, np.ndarray]:
        """Input columns with missing values, and in which rows (n,) they are."""
        found = {column.name: missing_in(column_of(table, column.name)) for column in self.columns}
        return {name: missing for name, missing in found.items() if missing.any()}

    def why_not(self, table: DataFrame, allow_unknown: bool = False) -> np.ndarray:
        """For each row (n,) why it cannot be predicted, in words; "" where it can."""
        reasons: list[list[str]] = [[] for _ in range(len(table))]
        for column in self.columns:
            values = column_of(table, column.name)
            if self.missing != "impute":
                for row in np.flatnonzero(missing_in(values)):
                    reasons[row].append(f"{column.name} is missing")
            for row in np.flatnonzero(column.unreadable(values)):
                other = column.kind == "number" and read_numbers([values.iloc[row]]) is not None
                lacking = "in another unit than other rows" if other else column.lacking
                reasons[row].append(f"{column.name} is {text(values.iloc[row])!r}, {lacking}")
            unknown = set() if allow_unknown else set(column.unknown(values))
            for row, value in enumerate(map(text, values)) if unknown else ():
                if value in unknown:
                    reasons[row].append(f"{column.name} is {value!r}, which was not there at the fit (--allow-unknown)")
        return np.array(["; ".join(row) for row in reasons], dtype=object)

    def _refuse_unusable(self, table: DataFrame) -> None:
        wanted = [column.name for column in self.columns]
        refuse_missing_columns(wanted, list(map(str, table.columns)))
        if not len(table):
            raise InputError("The table has no rows.")
        if self.missing == "error":
            refuse_missing_values(table, wanted)

    def _numbers(self, table: DataFrame, allow_unknown: bool) -> np.ndarray:
        parts, wrong = [], []
        for column in self.columns:
            try:
                parts.append(column.numbers(column_of(table, column.name), allow_unknown))
            except InputError as error:
                wrong.append(str(error))
        if wrong:
            raise InputError("\n".join(wrong))
        return np.concatenate(parts, axis=1)

    def _frame(self, X: np.ndarray, index: Any) -> DataFrame:
        return pandas().DataFrame(X, columns=list(self.names), index=index)

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
        left_out = {*self.constant, *self.row_names, *self.ignored}
        known = {column.name for column in self.columns} | {self.noise, self.group, *self.targets} | left_out
        return [str(name) for name in table.columns if str(name) not in known]

    def unknown(self, table: DataFrame) -> dict[str, list[str]]:
        """Categories of a table that the encoding has never seen, by column."""
        found = {c.name: c.unknown(column_of(table, c.name)) for c in self.columns if c.categories and c.name in table.columns}
        return {name: values for name, values in found.items() if values}

    def to_plain(self, rows: bool = True) -> dict[str, Any]:
        """Plain data for JSON. rows: with the training rows that fill gaps, the numbers of those left out and the labels of groups, which whoever only reads tables by it does not need."""
        told = self if rows else replace(self, donors=None, rows_left_out=None, group_labels=None)
        return told._plain()

    def _plain(self) -> dict[str, Any]:
        return {
            "columns": list(map(column_to_plain, self.columns)),
            "targets": list(self.targets),
            "noise": self.noise,
            "group": self.group,
            "constant": list(self.constant),
            "row_names": list(self.row_names),
            "ignored": list(self.ignored),
            "missing": self.missing,
            "donors": None if self.donors is None else list(map(list, self.donors.rows)),
            "units": list(map(list, self.units)),
            "rows_left_out": None if self.rows_left_out is None else list(self.rows_left_out),
            "ranges": list(map(list, self.ranges)),
            "signs": self.signs.to_plain(),
            "group_labels": None if self.group_labels is None else list(self.group_labels),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TableEncoding:
        """The encoding that `to_plain` wrote."""
        try:
            donors, left_out, labels = plain["donors"], plain["rows_left_out"], plain.get("group_labels")
            return cls(
                columns=tuple(map(column_from_plain, plain["columns"])),
                targets=tuple(map(str, plain["targets"])),
                noise=None if plain["noise"] is None else str(plain["noise"]),
                group=None if plain["group"] is None else str(plain["group"]),
                constant=tuple(map(str, plain["constant"])),
                row_names=tuple(map(str, plain["row_names"])),
                ignored=tuple(map(str, plain["ignored"])),
                missing=str(plain["missing"]),
                donors=None if donors is None else Donors(tuple(map(tuple, donors))),
                units=tuple((str(name), str(unit)) for name, unit in plain["units"]),
                rows_left_out=None if left_out is None else in_order(left_out),
                ranges=tuple(
                    (str(name), float(low), float(high)) for name, low, high in plain.get("ranges", ())
                ),  # earlier files lack them, and signs and labels
                signs=KnownSigns.from_plain(plain["signs"]) if "signs" in plain else NO_SIGNS,
                group_labels=None if labels is None else tuple(map(str, labels)),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"How the model reads tables is not as this version writes it ({type(error).__name__}: {error}): the file is damaged, or of another version. Fit anew."
            ) from error

    @classmethod
    def of_model(cls, plain: Mapping[str, Any], names: Sequence[str], inputs: int, targets: int) -> TableEncoding:
        """The encoding of a model's file: the table's columns become so many inputs, of these names where it has any, and so many targets."""
        encoding = cls.from_plain(plain)
        if len(encoding.names) != inputs or len(encoding.targets) != targets:
            raise FileFormatError(
                f"The file's table has {counted(len(encoding.names), 'input')} and {counted(len(encoding.targets), 'target')}; its model has {inputs} and {targets}."
            )
        if names and tuple(names) != encoding.names:
            raise FileFormatError("The file's table becomes other columns than those that its model was fitted to.")
        if encoding.donors is not None and any(len(row) != inputs for row in encoding.donors.rows):
            raise FileFormatError(f"The rows that the file's table takes values from do not have {counted(inputs, 'column')}.")
        return encoding


def _dated(table: DataFrame, name: str) -> bool:
    """Whether a column holds dates, as an index of them does that was written without a name."""
    present: Any = column_of(table, name).dropna()
    return holds_times(present)


def _last(count: int) -> list[bool]:
    return [False] * (count - 1) + [True]
