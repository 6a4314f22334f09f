"""The commands of ``mgp``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

_SUMMARY = "Gaussian-process regression that learns its own features: from a table to predictions with error bars."
_EPILOG = (
    "First steps: mgp example data.csv, then mgp fit data.csv --target y --out model.mgp, then mgp predict model.mgp new.csv. "
    "Exit codes: 0 done, 1 something is wrong with the data, the model or a file, 2 wrong usage, 130 interrupted, 143 by SIGTERM, 129 by SIGHUP."
)

_TABLE = ("example", "compare", "fit", "search", "forecast", "inspect", "report", "predict", "score", "suggest", "export")
_PANELS = dict.fromkeys(_TABLE, "Your table") | {"dynamics": "A system that moves", "bench": "This machine"}
"""Commands, each a module's function of the same name, and the panel of ``mgp --help`` that it stands in."""


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line with the command that is called, or with all of them where the first argument names none: to build all takes a tenth of a second."""
    app = typer.Typer(
        name="mgp",
        help=_SUMMARY,
        epilog=_EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_every_command)
    called = [name for name in arguments[:1] if name in _PANELS]
    for name in called or _PANELS:
        command = getattr(import_module(f"manifoldgp.cli.{name}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=_PANELS[name])
        else:
            app.command(rich_help_panel=_PANELS[name])(command)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"mgp {version('manifoldgp')}")
        except PackageNotFoundError:
            typer.echo("mgp, run from its sources: the package is not installed, so it has no version")
        raise typer.Exit


def _every_command(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error happened. Can stand anywhere.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass
