"""The command line ``mgp``. Commands import what they need when they run: ``mgp --help`` answers without PyTorch."""

from __future__ import annotations

import sys

_MISSING = "mgp: the command line needs typer and rich, which are not installed. Run: pip install 'manifoldgp[cli]'"


def main() -> None:
    """Run ``mgp``. What goes wrong for a known reason is told in one line; ``--debug`` shows where it happened."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        print(_MISSING, file=sys.stderr)
        raise SystemExit(1) from None
    from manifoldgp.cli._app import app
    from manifoldgp.errors import ManifoldGPError

    try:
        app()
    except ManifoldGPError as error:
        if "--debug" in sys.argv:
            raise
        print(f"mgp: {error}", file=sys.stderr)
        raise SystemExit(1) from None
