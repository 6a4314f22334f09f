"""All commands of ``mgp``."""

from __future__ import annotations

from typing import Annotated

import typer

from manifoldgp.cli.reproduce import reproduce
from manifoldgp.cli.simulate_walker import simulate_walker

app = typer.Typer(
    name="mgp",
    help="Gaussian-process regression that learns its own features.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def every_command(debug: Annotated[bool, typer.Option("--debug", help="Show where an error happened.")] = False) -> None:
    """Gaussian-process regression that learns its own features."""


app.command()(reproduce)
app.command("simulate-walker")(simulate_walker)
