"""A model file and the tables it is used on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manifoldgp._system.plain_text import argument, counted, listed_names, unit_of, verb
from manifoldgp.cli._messages import Messages

if TYPE_CHECKING:
    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.data.fit_rows import FitRows
    from manifoldgp.data.number_columns import Reading
    from manifoldgp.data.summary_rows import SummaryRows


@dataclass(frozen=True)
class Query:
    """Rows of a table that a model can predict: inputs X (n, D) as a DataFrame, known noise (n,) or None; reasons (rows,): why not, "" where it can.

    numbers (rows,): where each row stands in its file, the first at 0.
    """

    X: Any
    noise: Any
    reasons: Any
    numbers: Any


def open_model(path: Path) -> Any:
    """The estimator in a file."""
    import manifoldgp

    return manifoldgp.load(path)


def refuse_dynamics(path: Path, header: dict[str, Any]) -> None:
    """Rows of a table are no steps of a recording: commands about rows name those that roll a dynamics model out. header: of the file."""
    from manifoldgp.errors import InputError

    if "dynamics" in header:
        file = argument(path)
        raise InputError(
            f"{path} holds a dynamics model, which predicts how a state changes over one step. mgp dynamics rollout {file} TABLE says where the system goes, "
            f"mgp dynamics score {file} TABLE --horizon N how good that is on runs that it has not seen, and mgp inspect {file} what it has learnt."
        )


def open_manifold_gp(path: Path) -> Any:
    """The same, for commands that look into the posteriors of Gaussian processes, which a deep GP has not."""
    from manifoldgp.errors import InputError

    model = open_model(path)
    if not hasattr(model, "predictor"):
        raise InputError(
            f"{path} holds a {type(model).__name__}, which can be used by mgp predict and mgp score; in Python its diagnose() says how the fit went."
        )
    return model


def known_columns(model: Any) -> tuple[list[str], list[str]]:
    """The columns that a model reads and its targets, by name; none where it was fitted in Python on what has no names."""
    encoding = getattr(model, "table_encoding_", None)
    if encoding is not None:
        return [column.name for column in encoding.columns], list(encoding.targets)
    inputs, targets = (getattr(model, names, []) for names in ("feature_names_in_", "target_names_"))
    return list(map(str, inputs)), list(map(str, targets))


def reading_of(model: Any) -> Reading:
    """By what tables in files are read for a model."""
    from manifoldgp.data.number_columns import Reading

    encoding = getattr(model, "table_encoding_", None)
    if encoding is not None:
        return encoding.reading
    inputs, targets = known_columns(model)
    return Reading(dict.fromkeys((*inputs, *targets), ""))


def encoding_of(model: Any, table: Any = None, targets: Sequence[str] = ()) -> TableEncoding:
    """How the model reads tables. A model saved from Python takes columns of numbers with the names that it was fitted on.

    Fitted on a bare array, it takes the columns of ``table`` in their order, if there are as many as it has inputs.
    targets: what they are called in the table, where that is another name than at the fit, or the model knows none.
    """
    from manifoldgp.data.columns import Column
    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.data.inputs import group_column, target_names
    from manifoldgp.errors import InputError

    encoding = getattr(model, "table_encoding_", None)
    if encoding is not None:
        return encoding
    names, known = known_columns(model)
    known, group = list(targets) or known, group_column(model)
    if not names and table is None:
        names = [f"x{d}" for d in range(model.n_features_in_)]
    elif not names:
        names = [str(name) for name in table.columns if name not in known]
        if group in names and len(names) > model.n_features_in_:
            names.remove(group)
        if len(names) != model.n_features_in_:
            raise InputError(
                f"The model was fitted on an array with {counted(model.n_features_in_, 'column')}, and the table has {counted(len(names), 'input')}: "
                f"{', '.join(names[:12])}. Hand in a table with these inputs only, in the same order."
            )
    columns = tuple(Column(name) for name in names)
    return TableEncoding(columns, tuple(known or target_names(model)), group=group)


def with_names(text: str, targets: Sequence[str]) -> str:
    """A remark or a number's name of diagnose() with the target's name instead of its number.

    >>> with_names("output 1: rows", ["y", "force"]), with_names("rows", ["y"])
    ('force: rows', 'rows')
    """
    number, colon, rest = text.removeprefix("output ").partition(": ")
    numbered = text.startswith("output ") and colon and number.isdigit() and int(number) < len(targets)
    return f"{targets[int(number)]}: {rest}" if numbered else text


def prepare(
    encoding: TableEncoding, table: Any, allow_unknown: bool, messages: Messages, end: SummaryRows | None = None
) -> Query:
    """Encode the rows that can be predicted, and say what is ignored, unknown or lacking. end: sums, means and notes that the table ends in."""
    from manifoldgp.data.table_checks import refuse_missing_columns
    from manifoldgp.errors import InputError

    extra = encoding.extra(table)
    if extra:
        messages.note(f"Ignored, because the model does not use them: {listed_names(extra)}")
    refuse_missing_columns([column.name for column in encoding.columns], list(map(str, table.columns)))
    if not len(table):
        raise InputError("The table has no rows.")
    _warn_of_other_units(encoding, table, messages)
    reasons = encoding.why_not(table, allow_unknown)
    if end is not None:
        reasons[table.index.isin(list(end.rows))] = "it holds sums or means of the rows above"
        reasons[table.index.isin([row for row, _ in end.notes])] = "it is a note below the table"
    good = reasons == ""
    if not good.any():
        if len(set(reasons)) == 1:
            encoding.inputs(table, allow_unknown)  # says what can be done about it, where it is an error
        told = "; ".join(f"row {row + 1}: {reason}" for row, reason in zip(table.index[:5], reasons, strict=False))
        raise InputError(f"No row can be predicted ({told}{'; ...' if len(table) > 5 else ''}).")
    X = encoding.inputs(table[good], allow_unknown)
    _warn_of_rows_outside(encoding, X, messages)
    for name, values in encoding.unknown(table[good]).items():
        listed = ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
        messages.warn(
            f"Column {name!r} has values that the model has not seen: {listed}. They are predicted as any that it knows, with wide intervals."
        )
    noise = encoding.noise_values(table[good])
    if encoding.noise is not None and noise is None:
        messages.warn(f"There is no column {encoding.noise!r} with the known noise: intervals hold the learned noise only.")
    return Query(X, noise, reasons, table.index)


def _warn_of_other_units(encoding: TableEncoding, table: Any, messages: Messages) -> None:
    """Numbers are read without their unit: 80 lb are no 80 kg. At the fit the name may have told it."""
    from manifoldgp.data.units import units_of

    here, known = units_of(table), dict(encoding.units)
    for name in (*(column.name for column in encoding.columns), *encoding.targets):
        unit = known.get(name, unit_of(name).strip())
        if unit and here.get(name, unit) != unit:
            messages.warn(f"{name} is in {here[name]} here, and was in {unit} at the fit: numbers are not converted.")


_NOTABLE, _MOST_NAMED = 0.05, 3
"""Share of the rows from which on it is told that they lie outside in a column, and columns that are named."""


def _warn_of_rows_outside(encoding: TableEncoding, X: Any, messages: Messages) -> None:
    """Intervals hold where the model has seen rows: beyond them it goes on as its kernel does. Single rows among many are not told, nor are dates that are a little later.

    Rows that lie clearly outside decide whether a column is told; the sentence counts all rows outside the range that it names.
    """
    import numpy as np

    clear = {name for name, rows in encoding.outside(X, clearly=True).items() if rows.mean() >= _NOTABLE}
    if not clear:
        return
    found = {name: rows for name, rows in encoding.outside(X).items() if name in clear}
    worst = sorted(found, key=lambda name: -found[name].sum())
    named = [encoding.range_in_words(name) for name in worst[:_MOST_NAMED]]
    if len(worst) > _MOST_NAMED:
        more = len(worst) - _MOST_NAMED
        named.append(f"{more} more {verb(more, 'column', 'columns')}")
    listed = " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
    count = int(np.any(list(found.values()), axis=0).sum())
    messages.warn(
        f"{count} of {counted(len(X), 'row')} {verb(count, 'lies', 'lie')} outside the training rows in {listed}: predictions there are extrapolations."
    )


def labels_of_rows(encoding: TableEncoding, table: Any, messages: Messages) -> Any:
    """The labels (n,) of rows that belong together, in the column that had them at the fit; None where there was none, or the table lacks it."""
    import numpy as np

    from manifoldgp.data.columns import text

    if encoding.group is None:
        return None
    if encoding.group not in table.columns:
        messages.note(f"There is no column {encoding.group!r}, whose rows belong together: each row is judged for itself.")
        return None
    labels = table[encoding.group]
    return np.array([text(label) for label in labels.astype(object).where(labels.notna(), None)])  # those without one are a group


def tell_what_is_lost(lost: str, messages: Messages) -> None:
    """That predictions come from a program that is quicker than the model, where it loses anything."""
    if lost:
        messages.note(
            "Predicted by a quick approximation, usually within hundredths of a standard deviation; --exact takes the model itself."
        )


def tell_rows_without_target(count: int, rows: int, messages: Messages) -> None:
    """How many rows of a table cannot be learned from or compared with."""
    if count:
        messages.note(
            f"{count} of {counted(rows, 'row')} {verb(count, 'has', 'have')} no target and {verb(count, 'is', 'are')} left out."
        )


def tell_rows_of_the_fit(kept: FitRows | None, A: Any, Y: Any, labels: Any, messages: Messages, more: str = "") -> int:
    """How many of the rows A (n, D), Y (n,) or (n, O), with labels (n,) of groups or None, the model was fitted to; they are told, with what there is to know more."""
    seen = 0 if kept is None else kept.among(A, Y, labels)
    if kept is not None and seen:
        messages.warn(kept.in_words(seen, len(A)) + more)
    return seen


def tell_rows_left_out(query: Query, messages: Messages) -> None:
    """Which rows have no prediction, and why the first one has none."""
    from manifoldgp.data.columns import rows_where

    bad = query.reasons != ""
    if bad.any():
        where = rows_where(bad, query.numbers)
        messages.warn(
            f"{int(bad.sum())} of {counted(len(bad), 'row')} cannot be predicted ({where}); the first: {query.reasons[bad][0]}."
        )
