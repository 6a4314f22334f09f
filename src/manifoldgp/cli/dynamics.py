"""``mgp dynamics``: a model of a system that moves, from recorded runs: fit, rollout, score."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manifoldgp._system.plain_text import counted
from manifoldgp.cli._fitted import checked_places, end_interrupted, refuse_unfinished
from manifoldgp.cli._interruption import Interruption
from manifoldgp.cli._messages import Messages, output, print_json
from manifoldgp.cli._options import TABLE_HELP, Averaging, Json, Quiet, column_names, refuse_overwriting

if TYPE_CHECKING:
    from manifoldgp.dynamics import DynamicsModel, Trajectories
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

dynamics = typer.Typer(help="Learn how a system moves from recorded runs, and say where it goes.", no_args_is_help=True)

DynamicsFile = Annotated[Path, typer.Argument(help="Model file that mgp dynamics fit wrote.", metavar="MODEL")]
Recordings = Annotated[str, typer.Argument(help=f"Table of recorded runs, rows in order of time. {TABLE_HELP}", metavar="TABLE")]
RunColumn = Annotated[str | None, typer.Option("--run", help="Column of labels, one for each run.", metavar="COLUMN")]
TimeColumn = Annotated[
    str | None, typer.Option("--time", help="Column of seconds; steps must be even in every run.", metavar="COLUMN")
]
Particles = Annotated[
    int | None,
    typer.Option(help="Trajectories that are drawn, 200 by default, where moments have no closed form.", min=2, metavar="N"),
]


@dynamics.command()
def fit(
    table_file: Recordings,
    states: Annotated[list[str], typer.Option("--states", help="Columns of the state, a,b,c or repeated.", metavar="COLUMNS")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.", metavar="FILE")],
    actions: Annotated[
        list[str] | None, typer.Option("--actions", help="Columns of what is done, a,b,c or repeated.", metavar="COLUMNS")
    ] = None,
    run: RunColumn = None,
    time: TimeColumn = None,
    angles: Annotated[list[str] | None, typer.Option(help="States in radians, a,b,c or repeated.", metavar="COLUMNS")] = None,
    flags: Annotated[list[str] | None, typer.Option(help="States that are 0 or 1, such as contacts.", metavar="COLUMNS")] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option(
            help="A position that follows from its rate, x=v, or a quaternion, qw,qx,qy,qz=wx,wy,wz; can be repeated.",
            metavar="STATES=RATES",
        ),
    ] = None,
    averaging: Annotated[Averaging, typer.Option(help="How many models are averaged; plain is a plain GP.")] = Averaging.stack,
    seed: Annotated[int, typer.Option(help="Draws starts and folds.", min=0, max=2**32 - 1, metavar="N")] = 0,
    quiet: Quiet = False,
) -> None:
    """Learn the next state from state and action, for all states at once."""
    from manifoldgp.data.table_files import read_table
    from manifoldgp.dynamics import DynamicsModel, Trajectories

    unfinished = checked_places(out, False, [table_file])
    messages = Messages(quiet)
    with Interruption() as interruption:
        try:
            with messages.warnings_as_messages():
                table: Any = read_table(table_file)
                columns = list(table.columns)
                recorded = Trajectories.from_frame(
                    table, column_names(states, columns), column_names(actions, columns), run=run, time=time
                )
            model = DynamicsModel(
                _regressor(averaging, seed),
                angles=column_names(angles, columns),
                flags=column_names(flags, columns),
                rates=dict(_rate(text) for text in rate or ()) or None,
            )
            interrupted = _fit_watched(model, averaging, recorded, messages, interruption)
            place = unfinished if interrupted and out.exists() else out
            model.save(place)
        except KeyboardInterrupt:
            typer.echo("mgp: Interrupted: no model was written.", err=True)
            raise typer.Exit(interruption.exit_code) from None
    rows = sum(map(len, recorded.runs)) - len(recorded)
    learnt, runs = len(model.space_.learnt), len(recorded)
    told = f"{counted(learnt, 'state')} from {counted(rows, 'step')} of {counted(runs, 'run')}"
    messages.note(f"Learnt {told}; wrote {place}")
    if interrupted:
        end_interrupted(place, out, interruption)


@dynamics.command()
def rollout(
    model_file: DynamicsFile,
    table_file: Annotated[
        str,
        typer.Argument(help=f"Table: its first row is the start, its actions are what is done. {TABLE_HELP}", metavar="TABLE"),
    ],
    horizon: Annotated[
        int | None, typer.Option(help="Steps; as many as there are rows of actions by default.", min=1, metavar="N")
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="Table to write; - is CSV on standard output.", metavar="FILE")] = "-",
    level: Annotated[float, typer.Option(help="Share of the bands.", min=0.01, max=0.999)] = 0.95,
    method: Annotated[str, typer.Option(help="auto, moments, particles or mean.")] = "auto",
    particles: Particles = None,
    seed: Annotated[int, typer.Option(help="Draws particles.", min=0, max=2**32 - 1, metavar="N")] = 0,
    quiet: Quiet = False,
) -> None:
    """Say where the system goes from the first row of a table, with bands around every state."""
    import pandas as pd

    from manifoldgp.data.table_checks import refuse_missing_columns
    from manifoldgp.data.table_files import check_writable, read_table, write_table

    refuse_overwriting([out], [model_file, table_file], standard_output=True)
    check_writable(out)
    messages = Messages(quiet)
    model = _open(model_file)
    states, actions = (list(part) for part in (model.space_.state_names, model.space_.action_names))
    table = read_table(table_file, wanted=[*states, *actions])
    refuse_missing_columns([*states, *actions], list(map(str, table.columns)))
    start: Any = table[states].to_numpy()[0]
    done: Any = table[actions].to_numpy()[:horizon] if actions else None
    steps = horizon if horizon is not None or actions else len(table) - 1
    found = model.rollout(start, done, horizon=steps, method=method, particles=particles, random_state=seed)
    lower, upper = found.interval(level)
    parts: dict[str, Any] = {"step": range(len(found)), "time": _without_traces(found.time)}
    for i, name in enumerate(states):
        columns = {name: found.mean, f"{name}_lower": lower, f"{name}_upper": upper}
        parts |= {column: _without_traces(values[:, i]) for column, values in columns.items()}
    write_table(pd.DataFrame(parts), out)
    messages.note(f"{counted(found.horizon, 'step')} by {found.method}" + ("" if out == "-" else f"; wrote {out}"))


@dynamics.command()
def score(
    model_file: DynamicsFile,
    table_file: Recordings,
    horizon: Annotated[int, typer.Option(help="Steps of each rollout.", min=1, metavar="N")],
    run: RunColumn = None,
    time: TimeColumn = None,
    every: Annotated[
        int | None,
        typer.Option(help="A rollout begins at every so many rows; by default as many as it has steps.", min=1, metavar="N"),
    ] = None,
    method: Annotated[str, typer.Option(help="auto, moments, particles or mean.")] = "auto",
    particles: Particles = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare rollouts with runs that the model was not fitted on: RMSE, NLPP and coverage of 95 % bands after every step."""
    messages = Messages(quiet)
    model = _open(model_file)
    with messages.warnings_as_messages(), messages.working("Rolling out ..."):
        found = model.score(_recorded(model, table_file, run, time), horizon, every=every, method=method, particles=particles)
    if json:
        print_json(
            {
                "rollouts": found.starts,
                "states": list(found.state_names),
                "rmse": found.rmse.tolist(),
                "nlpp": found.nlpp.tolist(),
                "coverage_95": found.coverage.tolist(),
            }
        )
    else:
        output().print(str(found))


def _without_traces(values: Any) -> list[float]:
    """Numbers with ten digits: sums over particles and steps leave traces behind those, and a table has fewer.

    >>> _without_traces([-0.4938000000000002, 0.30000000000000004, 1234567.25])
    [-0.4938, 0.3, 1234567.25]
    """
    return [float(f"{value:.10g}") for value in values]


def _regressor(averaging: Averaging, seed: int) -> ManifoldGPRegressor:
    from manifoldgp import GPRegressor, ManifoldGPRegressor

    if averaging is Averaging.plain:
        return GPRegressor(random_state=seed)
    return ManifoldGPRegressor(averaging=averaging.value, random_state=seed)


def _fit_watched(
    model: DynamicsModel, averaging: Averaging, recorded: Trajectories, messages: Messages, interruption: Interruption
) -> bool:
    """Train with a progress bar; returns whether somebody interrupted it."""
    from manifoldgp.cli._fit_progress import FitProgress, can_be_watched

    outputs, rows = model.learnt_states(recorded), sum(map(len, recorded.runs)) - len(recorded)
    watched = averaging is Averaging.plain or can_be_watched(averaging.value)
    title = f"{counted(rows, 'step')}, --averaging {averaging.value}"
    progress = FitProgress(outputs, messages, interruption, watched=watched, title=title)
    regressor: Any = model.regressor
    with messages.warnings_as_messages(), progress, progress.interruptible():
        regressor.set_params(callback=progress)
        model.fit(recorded)
    refuse_unfinished(progress, outputs, interruption.exit_code)
    for one in (regressor, model.regressor_):
        one.set_params(callback=None)
    return progress.stop


def _rate(text: str) -> tuple[str | tuple[str, ...], str | tuple[str, ...]]:
    """A position and its rate, or four columns of a quaternion and three of its turn."""
    position, equals, of = text.partition("=")
    if not (equals and position and of):
        raise typer.BadParameter(f"--rate expects POSITION=RATE; got {text!r}.")
    several = [tuple(name.strip() for name in part.split(",")) for part in (position, of)]
    return several[0] if len(several[0]) > 1 else position, several[1] if len(several[1]) > 1 else of


def _open(path: Path) -> DynamicsModel:
    from manifoldgp.dynamics import DynamicsModel

    return DynamicsModel.load(path)


def _recorded(model: DynamicsModel, table_file: str, run: str | None, time: str | None) -> Trajectories:
    from manifoldgp.dynamics import Trajectories

    return Trajectories.from_csv(table_file, model.space_.state_names, model.space_.action_names, run=run, time=time)
