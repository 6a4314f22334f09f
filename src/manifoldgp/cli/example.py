"""``mgp example``: a small table to try the other commands on."""

from __future__ import annotations

from typing import Annotated

import typer

from manifoldgp._system.plain_text import argument, counted
from manifoldgp.cli._messages import Messages
from manifoldgp.cli._options import Quiet


def example(
    out: Annotated[
        str, typer.Argument(help="Table to write, format by its ending; - is CSV on standard output.", metavar="TABLE")
    ],
    rows: Annotated[int, typer.Option(help="How many rows.", min=2)] = 120,
    seed: Annotated[int, typer.Option(help="Another seed is another draw of the same kind.", min=0)] = 0,
    quiet: Quiet = False,
) -> None:
    """Write a small table to try the other commands on.

    Numbers x1 and x2, a text column surface, labels run, and a target y with noise of sd 0.02.
    """
    from manifoldgp.data import example_table
    from manifoldgp.data.columns import pandas
    from manifoldgp.data.table_files import write_table

    write_table(pandas().DataFrame(example_table(rows, seed)), out)
    if out != "-":
        Messages(quiet).note(
            f"Wrote {counted(rows, 'row')} to {out}. Next: mgp fit {argument(out)} --target y --group run --out model.mgp"
        )
