"""``mgp fit``: from a table to a model file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manifoldgp.cli._interruption import Interruption
from manifoldgp.cli._messages import Messages, print_json
from manifoldgp.cli._options import TABLE_HELP, Averaging, Json, Method, Quiet, column_names, refuse_overwriting

if TYPE_CHECKING:
    from manifoldgp.cli._fit_plan import Phase
    from manifoldgp.cli._fit_progress import FitProgress
    from manifoldgp.data.encoding import TableEncoding


def fit(
    files: Annotated[
        list[str], typer.Argument(help=f"One table, or several with the same columns. {TABLE_HELP}", metavar="TABLE")
    ],
    target: Annotated[list[str], typer.Option("--target", "-t", help="Column to predict; can be repeated.", metavar="COLUMN")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Model file to write; a finished fit replaces an existing one.", metavar="FILE")
    ],
    group: Annotated[
        str | None,
        typer.Option(
            help="Column of labels (a run, a patient): rows with one label are held out together. Not an input.", metavar="COLUMN"
        ),
    ] = None,
    ordered: Annotated[bool, typer.Option("--ordered", help="Rows are in order of time: whole stretches are held out.")] = False,
    averaging: Annotated[
        Averaging,
        typer.Option(
            metavar="NAME",
            help="stack: many models, weighted by held-out rows. fast: fixed weights. restarts, nuts, none: other averages, or a single model.",
        ),
    ] = Averaging.stack,
    method: Annotated[
        Method,
        typer.Option(
            metavar="NAME",
            help="exact, sparse (inducing points: any number of rows), or auto: exact up to 5,000 rows, and beyond them sparse where it can.",
        ),
    ] = Method.auto,
    inducing: Annotated[int, typer.Option(help="Inducing points of the sparse method.", min=1, metavar="N")] = 512,
    restarts: Annotated[int, typer.Option(help="Starts of the network.", min=1, metavar="N")] = 20,
    max_iter: Annotated[
        int | None,
        typer.Option(
            help="Iterations of each start, 500 by default; stack and fast of exact models have their own limits.",
            min=0,
            metavar="N",
        ),
    ] = None,
    time_budget: Annotated[
        float | None, typer.Option(help="Seconds after which training stops and keeps what it has.", metavar="SECONDS")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other starts and folds.", min=0, max=2**32 - 1, metavar="N")] = 0,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Input columns, a,b,c or repeated; by default all that have no other use.", metavar="COLUMNS"),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Columns that are no inputs, a,b,c or repeated.", metavar="COLUMNS")
    ] = None,
    noise_column: Annotated[
        str | None,
        typer.Option(
            help="Column with the known standard deviation of each row's noise, in the units of the target.", metavar="COLUMN"
        ),
    ] = None,
    replace_if_interrupted: Annotated[
        bool,
        typer.Option(
            "--replace-if-interrupted",
            help="A fit that is interrupted replaces an existing model too, instead of writing MODEL.unfinished.mgp beside it.",
        ),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a table and write it to a file.

    Text becomes one 0/1 column for each category, true and false 1 and 0; constant columns and rows without target are left out; missing inputs and dates are errors.

    The model file knows all this: other commands need nothing else. Ctrl-C, SIGTERM and SIGHUP stop training early and keep the best so far, a second Ctrl-C ends at once.
    """

    messages = Messages(quiet)
    if group is not None and ordered:
        raise typer.BadParameter("--group and --ordered are two ways to hold rows out. Choose one.")
    if time_budget is not None and not time_budget > 0:
        raise typer.BadParameter(f"--time-budget must be a positive number of seconds; got {time_budget:g}.")
    unfinished = _checked_places(out, replace_if_interrupted, files)
    with Interruption() as interruption:
        try:
            training = read_training(files, target, features, drop, noise_column, group, messages)
            own_limits = averaging in (Averaging.stack, Averaging.fast) and not _is_sparse(training, str(averaging), str(method))
            if max_iter is not None and own_limits:
                messages.warn(
                    f"--max-iter has no effect on --averaging {averaging}, which has limits of its own. --time-budget has."
                )
            fitted = fit_table(
                training,
                messages,
                interruption,
                ordered=ordered,
                averaging=str(averaging),
                method=str(method),
                inducing=inducing,
                restarts=restarts,
                max_iter=500 if max_iter is None else max_iter,
                time_budget=time_budget,
                random_state=seed,
            )
            place = unfinished if fitted.interrupted and out.exists() else out
            fitted.model.save(place)
        except KeyboardInterrupt:
            typer.echo("mgp: Interrupted: no model was written.", err=True)
            raise typer.Exit(interruption.exit_code) from None
    _say_what_was_fitted(fitted, training, place, messages, json)
    if fitted.interrupted:
        kept = "the same command fits it to the end" if place == out else f"{out} is as it was"
        typer.echo(f"mgp: Interrupted. The best model so far is in {place}; {kept}.", err=True)
        raise typer.Exit(interruption.exit_code)


def _checked_places(out: Path, replace_if_interrupted: bool, files: list[str]) -> Path:
    """Where an unfinished model goes if ``out`` exists. Refuses places that cannot be written to, and those of the tables."""
    from manifoldgp._system.files import refuse_unwritable
    from manifoldgp.data.table_files import table_names

    tables = table_names(files)
    refuse_overwriting([out], tables)
    refuse_unwritable(out)
    unfinished = out if replace_if_interrupted else out.with_name(f"{out.stem}.unfinished{out.suffix}")
    refuse_overwriting([unfinished], tables)
    refuse_unwritable(unfinished)
    return unfinished


@dataclass(frozen=True)
class Training:
    """Rows with a target, encoded: X (N, D) a DataFrame, y (N,) or (N, O), noise (N,) and groups (N,) or None; without_target: rows left out."""

    X: Any
    y: Any
    noise: Any
    groups: Any
    encoding: TableEncoding
    without_target: int


@dataclass(frozen=True)
class Fitted:
    """A model, the seconds its training took, and whether somebody stopped it."""

    model: Any
    seconds: float
    interrupted: bool


def read_training(
    files: list[str],
    targets: list[str],
    features: list[str] | None,
    drop: list[str] | None,
    noise: str | None,
    group: str | None,
    messages: Messages,
) -> Training:
    """Read the tables, leave out rows without target, learn the encoding, and say what was done."""
    import numpy as np

    from manifoldgp.data.columns import target_numbers
    from manifoldgp.data.encoding import TableEncoding, refuse_missing_columns
    from manifoldgp.data.table_files import read_tables
    from manifoldgp.errors import InputError

    table = read_tables(files)
    columns = list(table.columns)
    refuse_missing_columns(targets, columns)
    rows = len(table)
    missing = np.isnan(np.stack([target_numbers(name, table[name]) for name in targets], 1)).any(1)
    if missing.all():
        raise InputError(f"No row has a value in {', '.join(targets)}: there is nothing to learn from.")
    table = table[~missing]
    chosen = None if features is None else column_names(features, columns)
    encoding = TableEncoding.learn(table, targets, features=chosen, drop=column_names(drop, columns), noise=noise, group=group)
    groups = None
    if group is not None:
        if table[group].isna().any():
            raise InputError(f"The group column {group!r} has {int(table[group].isna().sum())} missing labels. Fill them in.")
        groups = table[group].astype(str).to_numpy()
    training = Training(
        encoding.inputs(table), encoding.target_values(table), encoding.noise_values(table), groups, encoding, int(missing.sum())
    )
    _say_what_was_read(training, rows, messages)
    return training


def fit_table(training: Training, messages: Messages, interruption: Interruption, *, ordered: bool, **settings: Any) -> Fitted:
    """Train, with a progress bar, until somebody interrupts. The model carries the table's encoding."""
    from manifoldgp import ManifoldGPRegressor
    from manifoldgp.cli._fit_progress import FitProgress

    begin, outputs = time.perf_counter(), len(training.encoding.targets)
    phases = _phases(training, **settings)
    watched = settings["averaging"] != "nuts"
    progress = FitProgress(phases, outputs, messages, interruption, watched=watched, budget=settings["time_budget"])
    with messages.warnings_as_messages(), progress, progress.interruptible():
        model = ManifoldGPRegressor(**settings, callback=progress)
        model.fit(training.X, training.y, noise_std=training.noise, groups=training.groups, ordered=ordered)
    _refuse_unfinished(progress, outputs, interruption.exit_code)
    model.table_encoding_ = training.encoding  # pyright: ignore[reportAttributeAccessIssue]
    return Fitted(model, time.perf_counter() - begin, progress.stop)


def _phases(
    training: Training, *, averaging: str, method: str, inducing: int, restarts: int, max_iter: int, **_: Any
) -> list[Phase]:
    """What training one target goes through, by the method it will take."""
    from manifoldgp.cli._fit_plan import plan_phases, plan_sparse_phases

    N = len(training.X)
    if _is_sparse(training, averaging, method):
        return plan_sparse_phases(averaging, N, restarts, max_iter, inducing)
    return plan_phases(averaging, N, restarts, max_iter)


def _is_sparse(training: Training, averaging: str, method: str) -> bool:
    from manifoldgp.estimators.method_choice import takes_sparse
    from manifoldgp.estimators.sparse_fit import why_exact

    return takes_sparse(method, len(training.X), why_exact(averaging))


def _refuse_unfinished(progress: FitProgress, outputs: int, exit_code: int) -> None:
    """Targets whose training had not begun when somebody stopped it have no model worth keeping."""
    if progress.stop and progress.output + 1 < outputs:
        typer.echo(f"mgp: Interrupted at target {progress.output + 1} of {outputs}: no model was written.", err=True)
        raise typer.Exit(exit_code)


def _say_what_was_read(training: Training, rows: int, messages: Messages) -> None:
    encoding = training.encoding
    inputs = ", ".join(column.name for column in encoding.columns)
    messages.note(f"{rows} rows; inputs: {inputs}; target: {', '.join(encoding.targets)}")
    if training.without_target:
        messages.note(f"{training.without_target} of {rows} rows have no target and are left out.")
    for column in encoding.columns:
        if column.kind == "category":
            names = ", ".join(column.categories[:6]) + (", ..." if len(column.categories) > 6 else "")
            messages.note(f"{column.name}: text, one 0/1 column for each of {len(column.categories)} categories ({names})")
        elif column.kind == "flag":
            messages.note(f"{column.name}: true or false, becomes 1 or 0")
    if encoding.group:
        messages.note(f"{encoding.group}: {len(set(training.groups))} labels; rows with one label are held out together")
    if encoding.constant:
        messages.note(f"Left out, because they have one value only: {', '.join(encoding.constant)}")
    if encoding.ignored:
        messages.note(f"Left out: {', '.join(encoding.ignored)}")


def _say_what_was_fitted(fitted: Fitted, training: Training, out: Path, messages: Messages, as_json: bool) -> None:
    remarks = fitted.model.diagnose().remarks
    members = [sum(block.members for block in e.blocks) for e in fitted.model.ensembles_]
    if as_json:
        encoding = training.encoding
        print_json({
            "model": str(out),
            "rows": len(training.X),
            "rows_without_target": training.without_target,
            "inputs": [column.name for column in encoding.columns],
            "targets": encoding.targets,
            "categories": {c.name: c.categories for c in encoding.columns if c.kind == "category"},
            "constant": encoding.constant,
            "averaging": fitted.model.averaging,
            "members": dict(zip(encoding.targets, members, strict=True)),
            "seconds": round(fitted.seconds, 3),
            "nlml": fitted.model.nlml_,
            "interrupted": fitted.interrupted,
            "remarks": remarks,
        })  # fmt: skip
    if fitted.interrupted:
        return
    count = ", ".join(map(str, members))
    messages.note(f"Fitted in {fitted.seconds:.1f} s; {count} {'model' if count == '1' else 'models'} in the average.")
    for remark in remarks:
        messages.note(f"- {remark}")
    messages.note(f"Wrote {out} ({out.stat().st_size / 1e6:.1f} MB). Next: mgp inspect {out}, mgp predict {out} new.csv")
