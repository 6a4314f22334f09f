"""``mgp simulate-walker``: a recording of a simulated walking robot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def simulate_walker(
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV file to write.")] = Path("walker.csv"),
    seed: Annotated[int, typer.Option(help="Another seed is another walk; 0 is the one that ships with the package.", min=0)] = 0,
) -> None:
    """Simulate a walking biped and write its recording.

    900 samples at 80 Hz as CSV: hip and knee angles in degrees, ground contacts. Needs the extra "sim".
    """
    from manifoldgp.datasets import write_walker_csv

    out.parent.mkdir(parents=True, exist_ok=True)
    typer.echo(f"Wrote {write_walker_csv(out, seed)}. To use it: mgp reproduce --only recording --walk {out}")
