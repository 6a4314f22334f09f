"""``mgp export``: a model for places without this package."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from manifoldgp.cli._messages import Messages
from manifoldgp.cli._options import ModelFile, Quiet, refuse_overwriting


class Format(StrEnum):
    """onnx: for ONNX Runtime, in any language. numpy: arrays and one small module, for Python without PyTorch."""

    onnx = "onnx"
    numpy = "numpy"


def export(
    model_file: ModelFile,
    to: Annotated[Format, typer.Option("--to", help="onnx: for ONNX Runtime, any language. numpy: Python without PyTorch.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.", metavar="FILE")],
    quiet: Quiet = False,
) -> None:
    """Export a model for a robot or a server.

    The NumPy predictor takes tables as mgp predict does. An ONNX model takes encoded inputs (a text column is one 0/1 column for each category) in the order
    that is printed; how a table becomes these is in the file's metadata under "table".
    """
    from manifoldgp._system.files import refuse_unwritable
    from manifoldgp.cli._models import encoding_of, open_model

    refuse_overwriting([out], [model_file])
    refuse_unwritable(out)
    messages = Messages(quiet)
    model = open_model(model_file)
    with messages.warnings_as_messages():
        if to is Format.onnx:
            from manifoldgp.predictor.onnx import export_onnx

            export_onnx(model, out)
        else:
            model.predictor().save(out)
    beside = ' How a table becomes these is in its metadata under "table".' if to is Format.onnx else ""
    messages.note(f"Wrote {out}. Its inputs, in this order: {', '.join(encoding_of(model).names)}.{beside}")
