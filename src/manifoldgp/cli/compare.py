"""``mgp compare``: which model to use for a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manifoldgp._system.plain_text import counted, digits
from manifoldgp.cli._interruption import Interruption
from manifoldgp.cli._messages import Messages, output, print_json
from manifoldgp.cli._options import (
    TABLE_HELP,
    DroppedColumns,
    Group,
    InputColumns,
    Json,
    Missing,
    MissingInputs,
    NumberColumns,
    Ordered,
    Quiet,
    column_names,
    refuse_overwriting,
)

if TYPE_CHECKING:
    from manifoldgp.cli._training_table import Training
    from manifoldgp.comparison import Comparison


def compare(
    files: Annotated[
        list[str], typer.Argument(help=f"One table, or several with the same columns. {TABLE_HELP}", metavar="TABLE")
    ],
    target: Annotated[str, typer.Option("--target", "-t", help="Column to predict.", metavar="COLUMN")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="HTML page to write, with pictures; needs no network.", metavar="FILE")
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            help="Models, a,b,c or repeated: mean, linear, gp:KERNEL, forest, boosting, lightgbm, catboost, ngboost, tabpfn, deepgp:LAYERS, mgp:AVERAGING; "
            "by default all that are installed, without deep GPs.",
            metavar="NAMES",
        ),
    ] = None,
    group: Group = None,
    ordered: Ordered = False,
    folds: Annotated[int, typer.Option(help="Parts that the rows are dealt to.", min=2, metavar="N")] = 5,
    budget: Annotated[
        float | None,
        typer.Option(
            help="Seconds for everything. Ours stop training when their share is up; others, that theirs does not suffice for, are left out.",
            metavar="SECONDS",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other folds and starts.", min=0, max=2**32 - 1, metavar="N")] = 0,
    features: InputColumns = None,
    drop: DroppedColumns = None,
    numbers: NumberColumns = None,
    missing: MissingInputs = Missing.error,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare models on the same held-out rows, and say which one to use.

    Every row is predicted once, by models that have not seen it: the mean, a linear model, plain GPs, trees, and ours. RMSE, MAE, CRPS, NLPP, coverage, time.

    Differences are paired, row by row, and come with two standard errors. Ctrl-C keeps the models that are finished.
    """
    from manifoldgp._system.files import refuse_unwritable
    from manifoldgp.cli._training_table import read_training
    from manifoldgp.data.table_files import table_names

    if group is not None and ordered:
        raise typer.BadParameter("--group and --ordered are two ways to hold rows out. Choose one.")
    if budget is not None and not budget > 0:
        raise typer.BadParameter(f"--budget must be a positive number of seconds; got {budget:g}.")
    if out is not None:
        refuse_overwriting([out], table_names(files))
        refuse_unwritable(out)
    messages = Messages(quiet)
    with Interruption() as interruption:
        training = read_training(
            files, [target], features, drop, None, group, messages, str(missing), ordered=ordered, numbers=numbers
        )
        found = _compared(training, column_names(models, []) or None, ordered, folds, budget, seed, target, messages)
    if json:
        print_json({"rows": len(found.y), "held_out": found.held_out, "models": found.table(), "verdict": found.verdict})
    else:
        _show(found)
    if out is not None:
        found.write(out)
        messages.note(f"The page: {out.resolve().as_uri()}")
    if found.interrupted:
        typer.echo("mgp: Interrupted. Models that were not finished are left out.", err=True)
        raise typer.Exit(interruption.exit_code)


def _compared(
    training: Training,
    models: list[str] | None,
    ordered: bool,
    folds: int,
    budget: float | None,
    seed: int,
    target: str,
    messages: Messages,
) -> Comparison:
    """Run the comparison under a progress bar; away from a terminal there is a line for each model."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from manifoldgp import comparison
    from manifoldgp.comparison.comparing import Standing
    from manifoldgp.training.progress import about
    from manifoldgp.training.rich_bar import TimeLeft

    left, terminal = TimeLeft(), messages.console.is_terminal
    columns = (TextColumn("[bold]{task.description}"), BarColumn(bar_width=None), TimeElapsedColumn(), left)
    with Progress(*columns, console=messages.console, disable=messages.quiet or not terminal, expand=True, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def tell(standing: Standing) -> None:
            left.set(standing.seconds_left)
            words = f"{standing.title}, fold {standing.fold}/{standing.folds}"
            bar.update(task, completed=standing.share, description=f"{words:<44}")
            if not terminal and standing.fold == 1:
                messages.note(f"training {standing.title}, {about(standing.seconds_left)} left")

        return comparison.compare(
            training.X,
            training.y,
            models=models,
            groups=training.groups,
            ordered=ordered,
            folds=folds,
            budget=budget,
            random_state=seed,
            target=target,
            missing=training.encoding.missing,
            progress=tell,
        )


def _show(found: Comparison) -> None:
    from rich.table import Table

    from manifoldgp.chance.differences import CLEAR

    console = output()
    table = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        title=f"{counted(len(found.y), 'row')}; {found.held_out}",
        title_justify="left",
    )
    table.add_column("model", no_wrap=True)
    for name in ("RMSE", "MAE", "CRPS", "above the best", "NLPP", "in 95 %", "s a fold"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found.ranked:
        n, apart = found.numbers(row), found.difference(row, found.best)
        above = "" if row is found.best else f"{digits(apart.value, 2)} ± {digits(CLEAR * apart.error, 2)}"
        cells = (*(digits(n[k]) for k in ("rmse", "mae", "crps")), above, f"{n['nlpp']:.3g}", f"{100 * n['coverage_95']:.0f} %")
        mark = "" if row.status == "done" else " (cut short)"
        table.add_row(row.name + mark, *cells, f"{row.seconds:.2g}")
    narrow, whole = console.width, console.measure(table, options=console.options.update(max_width=1000)).maximum
    console.width = max(narrow, whole)  # a narrow terminal breaks lines, and cuts no names or numbers
    console.print(table)
    console.width = narrow
    for row in found.rows:
        if not row.done:
            console.print(f"{row.name}: {row.status}")
    console.print()
    console.print(found.verdict if found.ranked else "No model was finished.")
