"""``mgp report``: a page about a model, with pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from manifoldgp.cli._messages import Messages
from manifoldgp.cli._options import TABLE_HELP, AllowUnknown, ModelFile, Quiet, refuse_overwriting


def report(
    model_file: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.", metavar="FILE")] = Path("report.html"),
    test: Annotated[
        str | None,
        typer.Option(
            "--test", help=f"Rows with targets that the model has not seen, to judge it by. {TABLE_HELP}", metavar="TABLE"
        ),
    ] = None,
    allow_unknown: AllowUnknown = False,
    title: Annotated[str | None, typer.Option(help="Heading of the page.", metavar="TEXT")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a page with pictures about a model.

    How large are its errors, are the intervals right, which inputs matter, where does it err. One HTML file that needs no network.

    --test judges the model by new rows; without it by rows that were held out or left out of the training rows.
    """
    from manifoldgp._system.files import refuse_unwritable
    from manifoldgp._system.model_header import read_header
    from manifoldgp.cli._models import open_manifold_gp, refuse_dynamics, tell_rows_of_the_fit
    from manifoldgp.inspection import fit_rows
    from manifoldgp.inspection.page import write_model_report

    if allow_unknown and test is None:
        raise typer.BadParameter("--allow-unknown is about the rows of --test. Give them, or leave it out.")
    refuse_overwriting([out], [model_file, *([test] if test else [])])
    refuse_unwritable(out)
    refuse_dynamics(model_file, read_header(model_file))
    messages = Messages(quiet)
    with messages.warnings_as_messages(), messages.working("Judging the model and drawing its pictures ..."):
        model = open_manifold_gp(model_file)
        X, y, numbers, groups = (None,) * 4 if test is None else _test_rows(model, test, allow_unknown, messages)
        if X is not None and y is not None:
            tell_rows_of_the_fit(fit_rows(model), X.to_numpy(), y, groups, messages)
        write_model_report(model, out, title=title, X=X, y=y, row_numbers=numbers, groups=groups, model_file=model_file)
    messages.note(f"The report: {out.resolve().as_uri()}")
    messages.note("The page holds training rows, as points of its pictures, and the model.")
    if show:
        typer.launch(str(out.resolve()))


def _test_rows(model: Any, file: str, allow_unknown: bool, messages: Messages) -> tuple[Any, Any, Any, Any]:
    """Inputs and targets of a table, as the model takes them, which rows they are, counted from 1, and which of them belong together; rows without target are left out."""
    import numpy as np

    from manifoldgp.cli._models import (
        encoding_of,
        known_columns,
        labels_of_rows,
        prepare,
        reading_of,
        tell_rows_left_out,
        tell_rows_without_target,
    )
    from manifoldgp.data.table_files import read_table
    from manifoldgp.errors import InputError

    inputs, targets = known_columns(model)
    table = read_table(file, wanted=[*inputs, *targets], like=reading_of(model))
    encoding = encoding_of(model, table)
    Y = encoding.target_values(table)
    missing = np.isnan(Y.reshape(len(table), -1)).any(1)
    if missing.all():
        raise InputError(f"No row of {file} has a value in {', '.join(encoding.targets)}: there is nothing to compare with.")
    tell_rows_without_target(int(missing.sum()), len(table), messages)
    table = table[~missing]
    query = prepare(encoding, table, allow_unknown, messages)
    tell_rows_left_out(query, messages)
    labels = labels_of_rows(encoding, table, messages)
    known = query.reasons == ""
    rows = table.index[known].to_numpy()
    return query.X, Y[rows], 1 + rows, None if labels is None else labels[known]
