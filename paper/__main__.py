"""``python -m paper reproduce`` runs the paper's experiments and writes a report of them; ``simulate-walker`` writes another walk,
``embedding`` tries why one row of Table II stands elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from manifoldgp.errors import ManifoldGPError
from paper.experiment import Config

_DATA_BESIDE = Path("../shared/data")

app = typer.Typer(
    help="The experiments of Manifold Gaussian Processes for Regression.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run a command and leave with its exit code; what goes wrong is told in one line."""
    try:
        app(prog_name="python -m paper")
    except ManifoldGPError as error:
        print(f"paper: {error}", file=sys.stderr)
        raise SystemExit(1) from None


@app.command()
def reproduce(
    quick: Annotated[bool, typer.Option("--quick", help="A few minutes: 1 to 5 draws of the data instead of 20.")] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the report; finished results in it are not computed again.")
    ] = Path("report"),
    seeds: Annotated[int | None, typer.Option(help="Draws of the data for each experiment.", min=1)] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only this experiment (step, bumps, walker, icub, recording, smooth); can be repeated."),
    ] = None,
    restarts: Annotated[
        int | None, typer.Option(help="Starts of the optimiser, instead of each experiment's own.", min=1)
    ] = None,
    walk: Annotated[
        Path | None,
        typer.Option(help="CSV of your robot's walk, for one more experiment: simulate-walker writes one with its columns."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help=f"Folder with the iCub's recording; by default {_DATA_BESIDE} where that exists.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Fits at once, each on one core; by default as many as there are cores.", min=1)
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute everything again.")] = False,
    readme: Annotated[
        Path | None, typer.Option(help="Markdown file whose marked part gets the headline rows and the step figure.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the report in the browser at the end.")] = False,
) -> None:
    """Run every experiment of the paper and write a report.

    Ctrl-C interrupts; the same command continues.
    """
    from manifoldgp.data import refuse_overwriting
    from paper.outcome import gather, update_readme
    from paper.page import FILES, write_reproduction
    from paper.plan import make_plan
    from paper.run import expected_seconds, run

    begin = time.perf_counter()
    if data_dir is None and _DATA_BESIDE.is_dir():
        data_dir = _DATA_BESIDE
    written = [*(out / name for name in FILES), *([] if readme is None else [readme])]
    refuse_overwriting(written, [] if walk is None else [walk])
    if readme is not None:
        update_readme(readme, None, out)  # refuse a file without marks now, not after an hour
    out.mkdir(parents=True, exist_ok=True)
    plan = make_plan(out, quick=quick, seeds=seeds, only=only or (), restarts=restarts, data_dir=data_dir, walk=walk)
    for remark in plan.remarks:
        typer.echo(remark)
    try:
        with WorkProgress({config: expected_seconds(config) for config in plan.configs}, processes) as progress:
            results, failures = run(plan.configs, out, processes=processes, fresh=fresh, done=progress.done)
        outcome = gather(plan, results, failures, time.perf_counter() - begin)
        page = write_reproduction(outcome, out)
    except KeyboardInterrupt:
        typer.echo(f"\nInterrupted. What is finished is kept in {out}: run the same command to continue.", err=True)
        raise typer.Exit(130) from None
    if readme is not None:
        update_readme(readme, outcome, out)
    for failure in failures:
        typer.echo(
            f"failed: {failure.config.experiment}, {failure.config.method}, seed {failure.config.seed}: {failure.message}",
            err=True,
        )
    bars = [check for check in outcome.checks if check.kind == "bar"]
    typer.echo(f"{len(results)} fits, {sum(check.held is True for check in bars)} of {len(bars)} bars reached.")
    typer.echo(f"The report: {page.resolve().as_uri()}")
    if show:
        typer.launch(str(page.resolve()))
    if failures:
        raise typer.Exit(1)


@app.command()
def simulate_walker(
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV file to write.")] = Path("walker.csv"),
    seed: Annotated[int, typer.Option(help="Another seed is another walk; 0 is the one that ships with manifoldgp.", min=0)] = 0,
) -> None:
    """Simulate a walking biped and write its recording.

    900 samples at 80 Hz as CSV: hip and knee angles in degrees, ground contacts. Needs the extra "sim".
    """
    from paper.walker_simulation import write_walker_csv

    out.parent.mkdir(parents=True, exist_ok=True)
    typer.echo(f"Wrote {write_walker_csv(out, seed)}. To use it: python -m paper reproduce --only recording --walk {out}")


@app.command()
def embedding(
    seeds: Annotated[int, typer.Option(help="Draws of data, embedding and starts.", min=1)] = 5,
) -> None:
    """Try why the random embedding is third in our Table II and last in the paper's: other dimensions, other optimisers."""
    from paper.embedding import lines

    for line in lines(seeds):
        typer.echo(line)


class WorkProgress:
    """Shows how many Configs are done and how long the rest will take, by the expected seconds of each.

    On a terminal a bar; elsewhere a line for every finished Config.
    """

    def __init__(self, expected: Mapping[Config, float], processes: int | None = None) -> None:
        self._expected = dict(expected)
        self._processes = processes or os.cpu_count() or 1
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("[bold]{task.description:<28}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> WorkProgress:
        self._count = 0
        self._waiting = sum(self._expected.values())
        self._fitted_expected = 0.0
        self._fitted_seconds = 0.0
        self._bar.start()
        self._task = self._bar.add_task("starting", total=len(self._expected), left="estimating time left")
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def done(self, config: Config, seconds: float | None) -> None:
        """Note that a Config is finished; seconds: what its fit took, None if there was none."""
        self._count += 1
        self._waiting -= self._expected[config]
        if seconds is not None:
            self._fitted_expected += self._expected[config]
            self._fitted_seconds += seconds
        left = ""
        if self._fitted_expected > 0:
            pace = self._fitted_seconds / self._fitted_expected
            left = f"about {_clock(max(self._waiting, 0.0) * pace / self._processes)} left"
        name = f"{config.experiment} {config.method}"
        self._bar.update(self._task, advance=1, description=name, left=left)
        if not self._console.is_terminal:
            line = f"{self._count}/{len(self._expected)} {name} seed {config.seed}" + (f", {left}" if left else "")
            self._console.print(line, highlight=False)


def _clock(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


if __name__ == "__main__":
    main()
