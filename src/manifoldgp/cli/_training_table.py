"""The table that a command learns from: what is read, what is left out, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from manifoldgp._system.plain_text import counted, digits, listed_names, option, verb
from manifoldgp.cli._messages import Messages
from manifoldgp.cli._models import tell_rows_without_target
from manifoldgp.cli._options import column_names

if TYPE_CHECKING:
    from manifoldgp.data.encoding import TableEncoding


@dataclass(frozen=True)
class Training:
    """Rows with a target: X a DataFrame with the input columns, y a Series or DataFrame, noise (N,) and groups (N,) or None; without_target: rows left out.

    gaps: of the rows that were left out for missing inputs, how many lack each column; left_out: how many rows these are. empty: the numbers, from 1 on, of those
    that were left out because they have no input at all.
    """

    X: Any
    y: Any
    noise: Any
    groups: Any
    encoding: TableEncoding
    without_target: int
    gaps: Mapping[str, int]
    left_out: int
    empty: tuple[int, ...]


def read_training(
    files: list[str],
    targets: list[str],
    features: list[str] | None,
    drop: list[str] | None,
    noise: str | None,
    group: str | None,
    messages: Messages,
    missing: str = "error",
    cyclic: Sequence[str] = (),
    ordered: bool = False,
    numbers: list[str] | None = None,
) -> Training:
    """Read the tables, leave out rows without target, learn the encoding, and say what was done.

    ordered: whether rows are in order of time. numbers: columns that look like codes and are none.
    """
    import numpy as np

    from manifoldgp.data.columns import pandas, target_numbers
    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.data.table_checks import refuse_missing_columns
    from manifoldgp.data.table_files import read_tables
    from manifoldgp.errors import InputError

    with messages.warnings_as_messages():
        further = [name for name in (noise, group) if name is not None]
        table = read_tables(files, wanted=[*targets, *further])
    columns = list(table.columns)
    refuse_missing_columns([*targets, *further, *column_names(features, columns), *column_names(drop, columns)], columns)
    padded = column_names(numbers, columns)
    refuse_missing_columns(padded, columns)
    table = table.assign(**{name: target_numbers(name, table[name]) for name in padded})
    rows = len(table)
    without = column_names(drop, columns)
    learn = partial(
        TableEncoding.learn,
        targets=targets,
        features=None if features is None else column_names(features, columns),
        drop=without,
        noise=noise,
        group=group,
        missing=missing,
        cyclic=cyclic,
    )
    unlabelled = np.isnan(_targets(table, targets, partial(learn, drop=[*without, *targets]))).any(1)
    if unlabelled.all():
        raise InputError(f"No row has a value in {', '.join(targets)}: there is nothing to learn from.")
    table = table[~unlabelled]
    encoding = learn(table)
    empty = _without_input(table, encoding)
    if empty.any():
        table, encoding = table[~empty], learn(table[~empty])
    table, gaps, left_out = _without_gaps(table, encoding)
    if left_out:
        encoding = learn(table)  # as the fit learns it: a category of these rows alone is none
    groups = None
    if group is not None:
        if table[group].isna().any():
            raise InputError(f"The group column {group!r} has {int(table[group].isna().sum())} missing labels. Fill them in.")
        groups = table[group].astype(str).to_numpy()
    left = np.ones(rows, dtype=bool)
    left[table.index] = False
    y = table[targets].apply(lambda column: target_numbers(str(column.name), column))
    X = table[[column.name for column in encoding.columns]]
    numeric = [column.name for column in encoding.columns if column.kind == "number"]
    training = Training(
        X.assign(**{name: pandas().to_numeric(X[name]) for name in numeric}),  # those written as text too
        y[targets[0]] if len(targets) == 1 else y,
        encoding.noise_values(table),
        groups,
        encoding.without_rows(left).with_groups(group, None if group is None else table[group]),
        int(unlabelled.sum()),
        gaps,
        left_out,
        tuple(int(row) + 1 for row in np.flatnonzero(~unlabelled)[empty]),
    )
    _say_what_was_read(training, rows, messages, ordered)
    if not (ordered or group):
        _tell_order(table.drop(columns=targets), messages)
    return training


def _targets(table: Any, targets: list[str], learn: Callable[..., object]) -> Any:
    """The targets (n, O). Where one cannot be read, what is wrong with the inputs, which learn(table, y=...) tells, is told in one go."""
    import numpy as np

    from manifoldgp.data.columns import refuse_codes, target_numbers
    from manifoldgp.errors import Faults

    faults, found = Faults(), []
    for name in targets:
        with faults.noted():
            refuse_codes(name, table[name], f"say so: {option('--numbers', name)}")
            found.append(target_numbers(name, table[name]))
    known = table[~table[targets].isna().any(axis=1)]
    if faults.told and len(known):
        with faults.noted():
            learn(known, y=np.zeros((len(known), len(targets))))
    faults.refuse()
    return np.stack(found, 1)


def _without_gaps(table: Any, encoding: TableEncoding) -> tuple[Any, dict[str, int], int]:
    """The table without the rows that --missing drop leaves out, how many lack each column, and how many they are."""
    import numpy as np

    from manifoldgp.errors import InputError

    found = encoding.missing_rows(table)
    if encoding.missing != "drop" or not found:
        return table, {}, 0
    lacking = np.any(list(found.values()), axis=0)
    if lacking.all():
        raise InputError("Every row has a missing input. Use --missing impute, or leave columns out with --drop.")
    return table[~lacking], {name: int(rows.sum()) for name, rows in found.items()}, int(lacking.sum())


def _without_input(table: Any, encoding: TableEncoding) -> Any:
    """Which rows (n,) have a target and none of several inputs, as that of means below a sheet has."""
    import numpy as np

    found = encoding.missing_rows(table)
    if encoding.missing != "impute" or not 1 < len(found) == len(encoding.columns):
        return np.zeros(len(table), dtype=bool)
    return np.all(list(found.values()), axis=0)


def _say_what_was_read(training: Training, rows: int, messages: Messages, ordered: bool) -> None:
    from manifoldgp.data.codes import are_codes
    from manifoldgp.data.columns import UNNAMED, pandas
    from manifoldgp.data.table_remarks import warn_of_categories, warn_of_copies

    encoding = training.encoding
    inputs, several = listed_names([column.name for column in encoding.columns]), len(encoding.targets)
    messages.note(
        f"{counted(rows, 'row')}; inputs: {inputs}; {verb(several, 'target', 'targets')}: {listed_names(list(map(encoding.label, encoding.targets)))}"
    )
    tell_rows_without_target(training.without_target, rows, messages)
    _tell_gaps(training, rows - training.without_target, messages)
    if empty := training.empty:
        which = f"{verb(len(empty), 'row', 'rows')} {listed_names(list(map(str, empty)), 4)}"
        messages.warn(
            f"{len(empty)} of {counted(rows, 'row')} {verb(len(empty), 'has a target but no input and is', 'have a target but no input and are')} left out ({which}): "
            f"such {verb(len(empty), 'a row holds', 'rows hold')} a mean or a sum as a rule."
        )
    numeric = training.X[[column.name for column in encoding.columns if column.kind == "number"]]
    warn_of_nines(pandas().concat([training.y, numeric], axis=1), messages)
    for column in encoding.columns:
        cells = list(training.X[column.name].dropna())
        way_out = (
            f" ({option('--numbers', column.name)} if they are numbers)" if all(str(cell).isdigit() for cell in cells) else ""
        )
        what = f"codes with leading zeros, taken as text{way_out}" if are_codes(cells) else "text"
        if column.kind == "category":
            names = listed_names(column.categories, 6)
            each = f"one 0/1 column for each of {len(column.categories)} categories ({names})"
            messages.note(f"{column.name}: {what}, {each if len(column.categories) > 1 else f'with a single category ({names})'}")
        elif column.kind == "levels":
            names = listed_names(column.categories, 6)
            messages.note(
                f"{column.name}: {what}, becomes the effect of each of {len(column.categories)} categories ({names}) on the target"
            )
        elif column.kind == "flag":
            messages.note(f"{column.name}: true or false, becomes 1 or 0")
        elif column.time is not None:
            written = f" written with the {column.time.order}" if column.time.order else ""
            zone = ", with a time zone, taken in UTC" if column.time.zoned else ""
            messages.note(f"{column.name}: {column.kind}s{written}{zone}, become {', '.join(column.time.names(column.name))}")
    if filled := [column.name for column in encoding.columns if column.indicator]:
        messages.note(f"{listed_names(filled)}: missing values are taken from rows that are alike; a column says where")
    targets = training.y.to_frame() if training.y.ndim == 1 else training.y
    with messages.warnings_as_messages():  # before PyTorch is there; the fit says the same
        warn_of_categories(encoding.columns)
        warn_of_copies(training.X, targets, training.groups is not None)
    if not ordered:
        _warn_of_row_numbers(training.X, messages)
    if encoding.group:
        messages.note(
            f"{encoding.group}: {counted(len(set(training.groups)), 'label')} of rows that belong together; not an input"
        )
    if encoding.constant:
        messages.note(f"Left out, because they have one value at most: {listed_names(encoding.constant)}")
    if encoding.row_names:
        messages.note(f"Left out, because most texts there occur once: {listed_names(encoding.row_names)}")
    unnamed = [name for name in encoding.ignored if UNNAMED.fullmatch(name)]
    if unnamed:
        messages.note(f"Left out, because a column without a name numbers or names the rows as a rule: {listed_names(unnamed)}")
    if others := [name for name in encoding.ignored if name not in unnamed]:
        messages.note(f"Left out: {listed_names(others)}")
    if ordered and all(column.time is not None and not column.time.cyclic for column in encoding.columns):
        messages.note(f"Dates alone are the inputs: {_repeating(training.X)}mgp forecast goes on from the last values.")


def _repeating(dates: Any) -> str:
    """What lets a model of dates repeat: the seasons where there is more than a year of them, else the days of the week, or of some days the hours."""
    from manifoldgp.data.dates import as_times, holds_times

    times = [as_times(column.dropna())[0].dropna().sort_values() for _, column in dates.items() if holds_times(column.dropna())]
    days = [(t.iloc[-1] - t.iloc[0]).total_seconds() / 86_400 for t in times if len(t) > 1]
    if days and max(days) > 400:
        return "mgp fit --cyclic year lets a model repeat with the seasons, and "
    step = max((t.diff().median().total_seconds() / 86_400 for t in times if len(t) > 1), default=0.0)
    period = "day" if step < 1 else "week"
    if not days or max(days) < 2 or step > 2:
        return ""
    return f"mgp fit --cyclic {period} lets a model repeat every {period}, and "


def warn_of_nines(table: Any, messages: Messages) -> None:
    """-999 where nothing was measured is a number to the model, and outweighs all that was: among targets even more than among inputs. table: columns of numbers."""
    from manifoldgp.data.no_values import numbers_for_nothing

    found = numbers_for_nothing(
        {str(name): column.to_numpy(dtype=float, na_value=float("nan")) for name, column in table.items()}
    )
    for nothing, rows in found.items():
        where = ", ".join(f"{counted(count, 'row')} of {name}" for name, count in rows.items())
        messages.warn(
            f"{nothing:g} ({where}) lies far from all other values there, or alone below 0. If it means that nothing is known, leave these cells empty."
        )


_SKEWED = 2.0
"""Skewness from which on a positive target is told; that of an exponential law is 2."""


def warn_of_targets_unlike_a_gaussian(training: Training, messages: Messages) -> None:
    """Durations and prices have a long tail on one side, which Gaussian intervals have not, and yes or no is no number at all: intervals reach beyond both."""
    targets = training.y.to_frame() if training.y.ndim == 1 else training.y
    for name in targets:
        y = targets[name]
        if y.nunique() == 1:
            messages.warn(f"{name} is {digits(y.min())} in every row: there is nothing to learn.")
        elif y.nunique() == 2 < len(y):
            messages.warn(
                f"{name} has two values only, {digits(y.min())} and {digits(y.max())}: the mean lies between them, nearer to the likelier one, and intervals reach beyond both. "
                "If they stand for yes and no, a classifier is made for it."
            )
        elif y.min() > 0 and y.skew() > _SKEWED:
            messages.warn(
                f"{name}: always above 0, with few very large values (median {digits(y.median(), 3)}, largest {digits(y.max(), 3)}): intervals may reach "
                "below 0. --target-warping tanh learns a scale on which they seldom do."
            )


def _tell_gaps(training: Training, rows: int, messages: Messages) -> None:
    """How many rows --missing drop left out, and for want of what; a warning where few are left."""
    if not training.left_out:
        return
    worst = sorted(training.gaps, key=lambda name: -training.gaps[name])
    each = ", ".join(f"{name} in {training.gaps[name]}" for name in worst[:4]) + (", ..." if len(worst) > 4 else "")
    lacking = f"{training.left_out} of {counted(rows, 'row')} {verb(training.left_out, 'has', 'have')} missing inputs"
    told = f"{lacking} and {verb(training.left_out, 'is', 'are')} left out ({each})."
    if 2 * training.left_out < rows:
        messages.note(told)
    else:
        messages.warn(f"{told} More rows stay with --missing impute, or without a column: {option('--drop', worst[0])}")


_NAMES_OF_ROW_NUMBERS = frozenset(
    ("id", "index", "no", "no.", "nr", "nr.", "number", "obs", "row", "rowid", "row_id", "rownames")
)
"""What software and people call a column that numbers the rows, in small letters; one without a name is left out anyway."""


def _warn_of_row_numbers(inputs: Any, messages: Messages) -> None:
    """The number of a row tells where it stands in the file, which new rows have nothing to do with."""
    found = [str(name) for name in inputs if _numbers_the_rows(str(name), inputs[name])]
    if found:
        without = " ".join(option("--drop", name) for name in found)
        messages.warn(
            f"{', '.join(found)}: seems to be the number of the row, and is an input here. If it says nothing about new rows, leave it out: {without}"
        )


_FEWEST_DATES = 20
"""Different dates from which on it is told that the rows stand in their order."""


def _tell_order(table: Any, messages: Messages) -> None:
    """Errors on rows between known ones say little of rows that come later: of sea temperatures they were a fifth of what those of whole stretches are. Dates tell it that are no inputs, too."""
    from manifoldgp.data.dates import as_times, holds_times

    dates = {str(name): as_times(column.dropna())[0].dropna() for name, column in table.items() if holds_times(column.dropna())}
    growing = [
        name
        for name, times in dates.items()
        if times.nunique() >= _FEWEST_DATES and (times.is_monotonic_increasing or times.is_monotonic_decreasing)
    ]
    if growing:
        messages.warn(
            f"The rows stand in order of {growing[0]}: errors that are told are those of rows between known ones, which may resemble them. If later rows are to be predicted, "
            "--ordered holds out whole stretches of time, with the default average."
        )


def _numbers_the_rows(name: str, column: Any) -> bool:
    """Whether a column counts from row to row; or only grows, by whole numbers, and is called as such columns are."""
    import numpy as np
    from pandas.api.types import is_integer_dtype

    if not is_integer_dtype(column.dtype) or len(column) < 3:
        return False
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    called = name.strip().lower() in _NAMES_OF_ROW_NUMBERS
    return bool(np.ptp(values - column.index.to_numpy()) == 0.0 or (called and (np.diff(values) > 0).all()))
