"""``mgp export``: a model for places without this package."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manifoldgp.cli._messages import Messages
from manifoldgp.cli._options import ModelFile, Quiet, refuse_overwriting

if TYPE_CHECKING:
    from manifoldgp.predictor import Predictor


class Format(StrEnum):
    """onnx: for ONNX Runtime, in any language. numpy: arrays and one small module, for Python without PyTorch. c: a C99 file and its header."""

    onnx = "onnx"
    numpy = "numpy"
    c = "c"


class Precision(StrEnum):
    """The type of all numbers."""

    float64 = "float64"
    float32 = "float32"


def export(
    model_file: ModelFile,
    to: Annotated[
        Format,
        typer.Option(
            "--to", help="onnx: for ONNX Runtime, any language. numpy: Python without PyTorch. c: C99, without libraries."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write; c: ends in .c, a header goes beside it.", metavar="FILE")
    ],
    dtype: Annotated[Precision, typer.Option("--dtype", help="onnx, c: the type of all numbers.")] = Precision.float64,
    gradient: Annotated[bool, typer.Option("--gradient", help="c: also the derivatives of the mean.")] = False,
    max_members: Annotated[
        int | None, typer.Option("--max-members", help="Distil an average into at most so many members; the loss is printed.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option("--tolerance", help="Distil it into as few members and points as lose at most so many nats a row."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Export a model for a robot or a server.

    The NumPy predictor takes tables as mgp predict does. An ONNX model takes encoded inputs (a text column is one 0/1 column for each category) in the order
    that is printed; how a table becomes these is in the file's metadata under "table".
    """
    from manifoldgp._system.files import refuse_unwritable
    from manifoldgp.cli._models import encoding_of, open_manifold_gp

    _refuse_without_effect(to, dtype, gradient)
    if to is Format.c and out.suffix != ".c":
        raise typer.BadParameter(f"A C file ends in .c; got --out {out}.")
    outputs = [out, out.with_suffix(".h")] if to is Format.c else [out]
    refuse_overwriting(outputs, [model_file])
    for output in outputs:
        refuse_unwritable(output)
    messages = Messages(quiet)
    distilling = max_members is not None or tolerance is not None
    doing = "Looking for a smaller model" if distilling else "Writing the model as a program"
    with messages.warnings_as_messages(), messages.working(f"{doing} ..."):
        model = open_manifold_gp(model_file)
        predictor = model.predictor(max_members, tolerance)
        said = _write(predictor, to, out, dtype, gradient)
    for line in [*said, predictor.holds]:
        messages.note(line)
    beside = ' How a table becomes these is in its metadata under "table".' if to is Format.onnx else ""
    messages.note(f"Wrote {out}. Its inputs, in this order: {', '.join(encoding_of(model).names)}.{beside}")


def _refuse_without_effect(to: Format, dtype: Precision, gradient: bool) -> None:
    if gradient and to is not Format.c:
        raise typer.BadParameter(f"--gradient is for --to c; {to.value} files have no derivatives.")
    if dtype is not Precision.float64 and to is Format.numpy:
        raise typer.BadParameter("--dtype is for --to onnx and --to c; NumPy computes in float64.")


def _write(predictor: Predictor, to: Format, out: Path, dtype: Precision, gradient: bool) -> list[str]:
    """Writes the file; returns what there is to say about it."""
    if to is Format.c:
        return str(predictor.to_c(out, dtype=dtype.value, gradient=gradient)).splitlines()
    if to is Format.onnx:
        from manifoldgp.predictor.onnx import export_onnx

        export_onnx(predictor, out, dtype=dtype.value)
    else:
        predictor.save(out)
    return [predictor.distilled] * bool(predictor.distilled)
