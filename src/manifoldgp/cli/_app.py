"""All commands of ``mgp``."""

from __future__ import annotations

from typing import Annotated

import typer

from manifoldgp.cli.bench import bench
from manifoldgp.cli.compare import compare
from manifoldgp.cli.dynamics import dynamics
from manifoldgp.cli.example import example
from manifoldgp.cli.export import export
from manifoldgp.cli.fit import fit
from manifoldgp.cli.inspect import inspect
from manifoldgp.cli.predict import predict
from manifoldgp.cli.report import report
from manifoldgp.cli.score import score
from manifoldgp.cli.search import search
from manifoldgp.cli.suggest import suggest

_SUMMARY = "Gaussian-process regression that learns its own features: from a table to predictions with error bars."
_EPILOG = (
    "First steps: mgp example data.csv, then mgp fit data.csv --target y --out model.mgp, then mgp predict model.mgp new.csv. "
    "Exit codes: 0 done, 1 something is wrong with the data, the model or a file, 2 wrong usage, 130 interrupted, 143 by SIGTERM, 129 by SIGHUP."
)

app = typer.Typer(
    name="mgp",
    help=_SUMMARY,
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"mgp {version('manifoldgp')}")
        except PackageNotFoundError:
            typer.echo("mgp, run from its sources: the package is not installed, so it has no version")
        raise typer.Exit


@app.callback()
def every_command(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error happened. Can stand anywhere.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


for command in (example, compare, fit, search, inspect, report, predict, score, suggest, export):
    app.command(rich_help_panel="Your table")(command)
app.add_typer(dynamics, name="dynamics", rich_help_panel="A system that moves")
app.command(rich_help_panel="This machine")(bench)
