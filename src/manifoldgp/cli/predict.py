"""``mgp predict``: mean, standard deviation and quantiles for new rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manifoldgp._system.plain_text import counted
from manifoldgp.cli._messages import Messages, print_json
from manifoldgp.cli._options import TABLE_HELP, AllowUnknown, Exact, Json, ModelFile, Quiet, refuse_overwriting

if TYPE_CHECKING:
    from manifoldgp.cli._answers import Answers

_USUAL = "0.05,0.5,0.95"


def predict(
    model_file: ModelFile,
    table_file: Annotated[str, typer.Argument(help=f"Table with the input columns. {TABLE_HELP}", metavar="TABLE")],
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="Table to write, format by its ending; - is CSV on standard output.", metavar="FILE"),
    ] = "-",
    quantiles: Annotated[
        str, typer.Option(help="Quantiles to write, numbers between 0 and 1 with commas.", metavar="LEVELS")
    ] = _USUAL,
    with_inputs: Annotated[
        bool, typer.Option("--with-inputs", help="Put the columns of the table in front, with their units.")
    ] = False,
    allow_unknown: AllowUnknown = False,
    exact: Exact = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict new rows: mean, standard deviation, quantiles.

    Columns mean, std, q05, q50, q95 (with several targets y_mean, ...), or the --quantiles that are asked for; one row for each row of the table.

    Rows with missing inputs (unless the model was fitted with --missing impute) or unknown categories are left empty, as are totals at the end, and a column reason says why.

    Extra columns are ignored; lacking ones are errors.

    Models of many rows predict by a quick program where it loses at most 0.001 nats a row, and say so; --exact takes the model itself.
    """
    from manifoldgp.cli._answers import open_answers
    from manifoldgp.cli._models import prepare, tell_rows_left_out, tell_what_is_lost
    from manifoldgp.data.summary_rows import summary_rows
    from manifoldgp.data.table_files import check_writable, read_as_written, write_table
    from manifoldgp.errors import InputError

    messages = Messages(quiet)
    if json and out == "-":
        raise typer.BadParameter(
            "--json prints a summary on standard output, where the table goes too. Add --out predictions.csv."
        )
    levels = _levels(quantiles)
    refuse_overwriting([out], [model_file, table_file], standard_output=True)
    check_writable(out)
    answers = open_answers(model_file, exact)
    with messages.warnings_as_messages():
        table, texts = read_as_written(table_file, wanted=answers.known_columns[0], like=answers.reading)
    encoding = answers.encoding(table)
    query = prepare(encoding, table, allow_unknown, messages, summary_rows(table, encoding.reading.categories))
    begin = time.perf_counter()
    with messages.warnings_as_messages():
        predictions = predicted_columns(answers, query.X, query.noise, encoding.targets, levels)
    tell_what_is_lost(answers.lost, messages)
    tell_rows_left_out(query, messages)
    good = query.reasons == ""
    if not good.all():
        predictions = predictions.reindex(table.index).assign(reason=query.reasons)
    seconds = time.perf_counter() - begin
    if with_inputs:
        taken = sorted(set(predictions.columns) & set(table.columns))
        if taken:
            raise InputError(
                f"The table has columns named like predictions: {', '.join(taken)}. Rename them, or omit --with-inputs."
            )
        attrs = table.attrs
        predictions = table.assign(**texts).join(predictions)
        predictions.attrs |= attrs
    write_table(predictions, out)
    if json:
        print_json({
            "rows": len(predictions), "rows_without_prediction": int((~good).sum()), "targets": encoding.targets, "out": out,
            "seconds": round(seconds, 4),
        })  # fmt: skip
    elif out != "-":
        messages.note(f"Wrote {counted(int(good.sum()), 'prediction')} to {out}")


def _levels(given: str) -> dict[str, float]:
    """Quantiles by the names of their columns.

    >>> _levels("0.025,0.05,0.5")
    {'q2.5': 0.025, 'q05': 0.05, 'q50': 0.5}
    """
    try:
        levels = [float(level) for level in given.split(",")]
    except ValueError:
        levels = []
    if not levels or not all(0 < level < 1 for level in levels):
        raise typer.BadParameter(f"--quantiles must be numbers between 0 and 1, such as {_USUAL}; got {given!r}.")
    return {f"q{f'{100 * level:g}'.zfill(2)}": level for level in levels}


def predicted_columns(answers: Answers, X: Any, noise: Any, targets: tuple[str, ...], levels: dict[str, float]) -> Any:
    """The predictions for X (n, D) as a DataFrame: mean, standard deviation and quantiles of each target."""
    import numpy as np
    import pandas as pd

    from manifoldgp.cli._answers import in_pieces

    def columns_of(part: slice) -> Any:
        columns: dict[str, np.ndarray] = {}
        found_there = answers.targets(X.iloc[part], None if noise is None else noise[part])
        for target, found in zip(targets, found_there, strict=True):
            prefix = f"{target}_" if len(targets) > 1 else ""
            mean, std = found.moments()
            columns |= {f"{prefix}mean": mean, f"{prefix}std": std}
            columns |= {f"{prefix}{name}": found.quantile(level) for name, level in levels.items()}
        return pd.DataFrame(columns, index=X.index[part])

    return pd.concat(in_pieces(answers, len(X), columns_of))
