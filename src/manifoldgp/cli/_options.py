"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


def _is_there(file: Path) -> Path:
    """A file that is not there is told at once, before PyTorch is loaded."""
    from manifoldgp._system.model_header import existing

    return existing(file)


ModelFile = Annotated[Path, typer.Argument(help="Model file that mgp fit wrote.", metavar="MODEL", callback=_is_there)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No messages and no progress, only errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
AllowUnknown = Annotated[
    bool,
    typer.Option(
        "--allow-unknown",
        help="Predict rows with a category that the model has not seen too, as any that it knows, with wide intervals.",
    ),
]
Exact = Annotated[
    bool,
    typer.Option("--exact", help="Predict with the model itself, not with the quick program that mgp fit left beside it."),
]
Group = Annotated[
    str | None,
    typer.Option(
        help="Column of labels (a run, a patient): rows with one label are held out together. Not an input.", metavar="COLUMN"
    ),
]
Ordered = Annotated[bool, typer.Option("--ordered", help="Rows are in order of time: whole stretches are held out.")]
InputColumns = Annotated[
    list[str] | None,
    typer.Option(help="Input columns, a,b,c or repeated; by default all that have no other use.", metavar="COLUMNS"),
]
DroppedColumns = Annotated[
    list[str] | None, typer.Option(help="Columns that are no inputs, a,b,c or repeated.", metavar="COLUMNS")
]
NumberColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--numbers",
        help="Columns that look like codes, with zeros in front (0071, 0532), and are numbers all the same; a,b,c or repeated.",
        metavar="COLUMNS",
    ),
]
TABLE_HELP = "CSV, TSV (also .gz), Parquet or Excel by the ending; - is CSV on standard input."


class Averaging(StrEnum):
    """How many models are averaged, docs/averaging.md says which to choose; plain is none of them, and has no features to learn."""

    stack = "stack"
    fast = "fast"
    restarts = "restarts"
    nuts = "nuts"
    single = "single"
    plain = "plain"


class Method(StrEnum):
    """How the evidence is computed; docs/scale.md says which to choose."""

    auto = "auto"
    exact = "exact"
    local = "local"
    sparse = "sparse"


class Missing(StrEnum):
    """What happens to missing inputs."""

    error = "error"
    drop = "drop"
    impute = "impute"


MissingInputs = Annotated[
    Missing,
    typer.Option(
        "--missing",
        metavar="NAME",
        help="Missing inputs: error; drop (rows with one are left out); impute (similar rows lend their values, and intervals grow).",
    ),
]


class Criterion(StrEnum):
    """How a search compares kernels; docs/guide/structure.md says which to choose."""

    bic = "bic"
    held_out = "held-out"


def refuse_overwriting(outputs: Iterable[str | Path], inputs: Iterable[str | Path], standard_output: bool = False) -> None:
    """Refuse, as wrong usage and before any work is done, an output that is one of the inputs or another output.

    standard_output: whether "-" is that; a command that writes files only refuses it.
    """
    from manifoldgp._system import files
    from manifoldgp.errors import InputError

    outputs = list(outputs)
    if not standard_output and any(str(output) == "-" for output in outputs):
        raise typer.BadParameter("- would be standard output, and this command writes files only. Name a file.")
    try:
        files.refuse_overwriting(outputs, inputs)
    except InputError as error:
        raise typer.BadParameter(str(error)) from None


def pictures_of(picture: Path | None, targets: int) -> list[Path]:
    """The files of a picture of each target, refused before any work is done for them if their ending is unknown or they cannot be written.

    >>> [str(place) for place in pictures_of(Path("parts.png"), 2)]
    ['parts-0.png', 'parts-1.png']
    """
    from manifoldgp._system.files import refuse_unwritable

    if picture is None:
        return []
    if picture.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"A picture ends in .png, .svg or .pdf; got {picture.name!r}.")
    places = [picture.with_name(f"{picture.stem}-{o}{picture.suffix}") for o in range(targets)] if targets > 1 else [picture]
    for place in places:
        refuse_unwritable(place)
    return places


def column_names(given: Sequence[str] | None, columns: Sequence[str]) -> list[str]:
    """Names of columns from an option that can be repeated and may hold several names with commas between them.

    >>> column_names(["a,b", "c,d"], ["a", "b", "c,d"])
    ['a', 'b', 'c,d']
    """
    names: list[str] = []
    for entry in given or ():
        names += [entry] if entry in columns else [name.strip() for name in entry.split(",") if name.strip()]
    return names
