"""``mgp report``: a page about a model, with pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manifoldgp.cli._messages import Messages
from manifoldgp.cli._options import ModelFile, Quiet, refuse_overwriting


def report(
    model_file: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.", metavar="FILE")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Heading of the page.", metavar="TEXT")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a page with pictures about a model.

    Did the features help, are the intervals right, which inputs matter. One HTML file that needs no network.
    """
    from manifoldgp._system.files import refuse_unwritable
    from manifoldgp.cli._models import open_model
    from manifoldgp.inspection.page import write_model_report

    refuse_overwriting([out], [model_file])
    refuse_unwritable(out)
    messages = Messages(quiet)
    model = open_model(model_file)
    with messages.warnings_as_messages():
        write_model_report(model, out, title=title)
    messages.note(f"The report: {out.resolve().as_uri()}")
    if show:
        typer.launch(str(out.resolve()))
