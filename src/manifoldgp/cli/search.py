"""``mgp search``: from a table to the structure of its data, in words."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from manifoldgp._system.plain_text import argument, counted
from manifoldgp.cli._fitted import Fitted, checked_places, end_interrupted_after_fit, refuse_unfinished, save_fitted
from manifoldgp.cli._interruption import Interruption
from manifoldgp.cli._messages import Messages, output, print_json, size_in_words
from manifoldgp.cli._options import (
    TABLE_HELP,
    Criterion,
    DroppedColumns,
    Group,
    InputColumns,
    Json,
    Missing,
    MissingInputs,
    NumberColumns,
    Quiet,
    pictures_of,
    refuse_overwriting,
)
from manifoldgp.cli._training_table import Training, read_training


def search(
    files: Annotated[
        list[str], typer.Argument(help=f"One table, or several with the same columns. {TABLE_HELP}", metavar="TABLE")
    ],
    target: Annotated[list[str], typer.Option("--target", "-t", help="Column to explain; can be repeated.", metavar="COLUMN")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Model file to write, as mgp fit does.", metavar="FILE")] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Picture of all parts with their bands: .png, .svg or .pdf. Needs the extra plots.", metavar="FILE"),
    ] = None,
    depth: Annotated[int, typer.Option(help="Steps of the search, at most.", min=1, metavar="N")] = 4,
    beam: Annotated[int, typer.Option(help="Expressions that each step grows from.", min=1, metavar="N")] = 2,
    budget: Annotated[
        float | None, typer.Option(help="Seconds after which the search stops and keeps the best so far.", metavar="SECONDS")
    ] = None,
    criterion: Annotated[
        Criterion,
        typer.Option(
            metavar="NAME", help="bic: the evidence with a penalty. held-out: the density of a quarter of the rows, held out."
        ),
    ] = Criterion.bic,
    kernels: Annotated[
        str | None,
        typer.Option(help="Base kernels: se,rq,periodic,linear,... By default all that the guide names.", metavar="NAMES"),
    ] = None,
    rows: Annotated[int, typer.Option(help="Rows that candidates are compared on, at most.", min=10, metavar="N")] = 500,
    cache: Annotated[
        Path | None,
        typer.Option(help="File that keeps what was tried: a search that was killed goes on from it.", metavar="FILE"),
    ] = None,
    group: Group = None,
    ordered: Annotated[bool, typer.Option("--ordered", help="Rows are in order of time: the last ones are held out.")] = False,
    seed: Annotated[int, typer.Option(help="Another seed draws other rows.", min=0, max=2**32 - 1, metavar="N")] = 0,
    features: InputColumns = None,
    drop: DroppedColumns = None,
    numbers: NumberColumns = None,
    missing: MissingInputs = Missing.error,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say in words what structure a table has: trends, periods, interactions, changes.

    A search over sums and products of kernels; the winner is an ordinary model, which --out writes for the other commands.

    Ctrl-C stops the search and keeps the best so far; with --cache the same command goes on later.
    """
    from manifoldgp.data.table_files import table_names

    if budget is not None and not budget > 0:
        raise typer.BadParameter(f"--budget must be a positive number of seconds; got {budget:g}.")
    if group is not None and ordered:
        raise typer.BadParameter("--group and --ordered are two ways to hold rows out. Choose one.")
    unfinished = None if out is None else checked_places(out, False, files)
    pictures = pictures_of(picture, len(target))
    refuse_overwriting([*(place for place in (out, cache) if place is not None), *pictures], table_names(files))
    settings = {
        "depth": depth, "beam": beam, "budget": budget, "criterion": str(criterion), "rows": rows, "cache": cache, "random_state": seed,
        "kernels": None if kernels is None else tuple(name.strip() for name in kernels.split(",")),
    }  # fmt: skip
    messages = Messages(quiet)
    with Interruption() as interruption:
        try:
            # a series against time may have one row after the other as its input
            training = read_training(
                files, target, features, drop, None, group, messages, str(missing), ordered=True, numbers=numbers
            )
            fitted = _searched(training, messages, interruption, ordered, settings)
            place = unfinished if out is not None and fitted.interrupted and out.exists() else out
            if place is not None:
                save_fitted(fitted, place, messages, interruption)
        except KeyboardInterrupt:
            typer.echo("mgp: Interrupted: nothing was found yet.", err=True)
            raise typer.Exit(interruption.exit_code) from None
    _say(fitted, training, place, pictures, messages, json)
    if fitted.interrupted:
        typer.echo("mgp: Interrupted. This is the best so far.", err=True)
        raise typer.Exit(interruption.exit_code)
    if interruption.wanted and place is not None:
        end_interrupted_after_fit(place, interruption)


def _searched(
    training: Training, messages: Messages, interruption: Interruption, ordered: bool, settings: dict[str, Any]
) -> Fitted:
    """Search, with a progress bar, until somebody interrupts. The model carries the table's encoding."""
    from manifoldgp import KernelSearch
    from manifoldgp.cli._fit_progress import FitProgress

    begin, outputs = time.perf_counter(), len(training.encoding.targets)
    progress = FitProgress(outputs, messages, interruption, budget=settings["budget"])
    with messages.warnings_as_messages(), progress, progress.interruptible():
        model = KernelSearch(**settings, missing=training.encoding.missing, callback=progress)
        model.fit(training.X, training.y, groups=training.groups, ordered=ordered)
    refuse_unfinished(progress, outputs, interruption.exit_code)
    model.table_encoding_ = training.encoding  # pyright: ignore[reportAttributeAccessIssue]
    return Fitted(model, time.perf_counter() - begin, progress.stop)


def _say(fitted: Fitted, training: Training, place: Path | None, pictures: list[Path], messages: Messages, as_json: bool) -> None:
    found = [fitted.model.describe(o) for o in range(len(training.encoding.targets))]
    with messages.warnings_as_messages():
        _draw(fitted.model, pictures)
    if as_json:
        print_json({
            "model": None if place is None else str(place),
            "rows": len(training.X),
            "seconds": round(fitted.seconds, 3),
            "interrupted": fitted.interrupted,
            "targets": {structure.target: _plain(structure, report) for structure, report in zip(found, fitted.model.search_, strict=True)},
        })  # fmt: skip
    else:
        for structure in found:
            output().print(str(structure), soft_wrap=True)
    for report in fitted.model.search_:
        messages.note(
            f"{counted(len(report.candidates), 'expression')} in {fitted.seconds:.1f} s; the search ended because {report.ended}."
        )
    if pictures:
        messages.note(f"The parts: {', '.join(map(str, pictures))}")
    if place is not None:
        written = argument(place)
        messages.note(f"Wrote {place} ({size_in_words(place.stat().st_size)}). Next: mgp predict {written} new.csv")


def _plain(structure: Any, report: Any) -> dict[str, Any]:
    return {
        "words": str(structure),
        "expression": structure.expression,
        "parts": [{"words": p.words, "share": p.share, "expression": p.expression, "inputs": p.inputs} for p in structure.parts],
        "noise_share": structure.noise_share,
        "noise_std": structure.noise_std,
        "unused": structure.unused,
        "ended": report.ended,
        "candidates": [vars(candidate) for candidate in report.candidates],
    }


def _draw(model: Any, pictures: list[Path]) -> None:
    from manifoldgp._system.files import written_whole
    from manifoldgp.plots import plot_components

    for o, place in enumerate(pictures):
        with written_whole(place) as partial:
            plot_components(model, output=o).savefig(partial, format=place.suffix.lstrip(".").lower(), dpi=150)
