"""``mgp reproduce``: the paper's experiments, and a report of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from manifoldgp.cli._options import refuse_overwriting

_DATA_BESIDE = Path("../shared/data")


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
        typer.Option(help="CSV of your robot's walk, for one more experiment: see mgp simulate-walker for the columns."),
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
    from manifoldgp.cli._progress import WorkProgress
    from manifoldgp.experiments import expected_seconds, gather, make_plan, run
    from manifoldgp.report import update_readme, write_reproduction
    from manifoldgp.report.reproduction import FILES

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
