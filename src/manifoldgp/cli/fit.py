"""``mgp fit``: from a table to a model file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from manifoldgp._system.plain_text import argument, counted, verb
from manifoldgp._system.torchrun import is_first, launched
from manifoldgp.cli._fit_arguments import FitOptions
from manifoldgp.cli._fitted import (
    Fitted,
    checked_places,
    end_interrupted,
    end_interrupted_after_fit,
    few_points_afterwards,
    refuse_unfinished,
    save_fitted,
)
from manifoldgp.cli._interruption import Interruption
from manifoldgp.cli._messages import Messages, in_options, print_json, size_in_words
from manifoldgp.cli._options import (
    TABLE_HELP,
    Averaging,
    DroppedColumns,
    Group,
    InputColumns,
    Json,
    Method,
    Missing,
    MissingInputs,
    NumberColumns,
    Ordered,
    Quiet,
    column_names,
)
from manifoldgp.cli._training_table import Training, read_training, warn_of_targets_unlike_a_gaussian


def fit(
    files: Annotated[
        list[str], typer.Argument(help=f"One table, or several with the same columns. {TABLE_HELP}", metavar="TABLE")
    ],
    target: Annotated[list[str], typer.Option("--target", "-t", help="Column to predict; can be repeated.", metavar="COLUMN")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Model file to write; a finished fit replaces an existing one.", metavar="FILE")
    ],
    group: Group = None,
    ordered: Ordered = False,
    averaging: Annotated[
        Averaging,
        typer.Option(
            metavar="NAME",
            help="stack: many models, weighted by held-out rows. fast: fixed weights. restarts, nuts: other averages. single: one model. plain: a GP of the inputs themselves.",
        ),
    ] = Averaging.stack,
    kernel: Annotated[
        str | None,
        typer.Option(
            help="Kernel: se (the default), matern12, matern32, matern52, rq, nn, additive, oak, linear, periodic or sm; "
            "with --averaging plain also auto, which tries several on held-out rows.",
            metavar="NAME",
        ),
    ] = None,
    target_warping: Annotated[
        str | None,
        typer.Option(
            help="tanh: learn a scale of the target, for one with a long tail such as a price or a duration. mgp predict then starts with PyTorch, seconds later.",
            metavar="NAME",
        ),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            metavar="NAME",
            help="exact, local (predicts a point from the rows near it), sparse (inducing points: any number of rows), or auto: exact up to 3,000 rows, local up to 1,000,000, then sparse "
            "(averages other than the stack: exact up to 5,000, then sparse where they can).",
        ),
    ] = Method.auto,
    hidden: Annotated[
        str | None,
        typer.Option(help="Layer sizes of the network, 6,2 by default; the last one is the number of features.", metavar="SIZES"),
    ] = None,
    activation: Annotated[
        str | None,
        typer.Option(
            help="Transfer function of the network, sigmoid by default, or one a layer: tanh,tanh,identity.", metavar="NAMES"
        ),
    ] = None,
    restarts: Annotated[
        int | None,
        typer.Option(
            help="Starts of --averaging single, restarts and nuts (20), or plain (5).",
            min=1,
            metavar="N",
        ),
    ] = None,
    max_iter: Annotated[
        int | None, typer.Option(help="Iterations of each of these starts, 500 by default.", min=0, metavar="N")
    ] = None,
    inducing: Annotated[
        int | None, typer.Option(help="Inducing points of --method sparse, at most 512 by default.", min=1, metavar="N")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="File in which --method sparse keeps where it stands; under torchrun by default the model file's name and .checkpoint.",
            metavar="FILE",
        ),
    ] = None,
    time_budget: Annotated[
        float | None, typer.Option(help="Seconds after which training stops and keeps what it has.", metavar="SECONDS")
    ] = None,
    more: Annotated[
        Path | None,
        typer.Option(
            help="Train more members of this model, fitted to the same rows with the same options; both predict together.",
            metavar="MODEL",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other starts and folds.", min=0, max=2**32 - 1, metavar="N")] = 0,
    features: InputColumns = None,
    drop: DroppedColumns = None,
    numbers: NumberColumns = None,
    noise_column: Annotated[
        str | None,
        typer.Option(
            help="Column with the known standard deviation of each row's noise, in the units of the target.", metavar="COLUMN"
        ),
    ] = None,
    input_std: Annotated[
        list[str] | None,
        typer.Option(
            help="Standard deviation of the errors of an input column, in its units: speed=0.1; can be repeated. Trains several times.",
            metavar="COLUMN=NUMBER",
        ),
    ] = None,
    missing: MissingInputs = Missing.error,
    cyclic: Annotated[
        list[str] | None,
        typer.Option(
            help="Of dates also the place in these periods: day, week, month, year; a,b or repeated.", metavar="PERIODS"
        ),
    ] = None,
    replace_if_interrupted: Annotated[
        bool,
        typer.Option(
            "--replace-if-interrupted",
            help="A fit that is interrupted replaces an existing model too, instead of writing MODEL.unfinished.mgp beside it.",
        ),
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, or cuda (under torchrun one GPU a process).", metavar="NAME")] = "cpu",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a table and write it to a file.

    Text becomes one 0/1 column for each category, or, of more than ten, the effect of each; true and false 1 and 0; dates the time since the first.

    Constant columns and rows without target are left out; missing inputs are errors, unless --missing says otherwise.

    The model file knows all this: other commands need nothing else. Ctrl-C, SIGTERM and SIGHUP stop training early and keep the best so far, a second Ctrl-C ends at once.

    An option that the chosen --averaging and --method do not obey is refused; --group and --ordered bring a warning where no rows are held out.

    Under torchrun all processes share one fit to Parquet or CSV files of numbers. A sparse one that is stopped writes no model, and goes on from its --checkpoint.
    """
    from manifoldgp._system.memory import refuse_next_to_no_memory

    refuse_next_to_no_memory()
    if group is not None and ordered:
        raise typer.BadParameter("--group and --ordered are two ways to hold rows out. Choose one.")
    if time_budget is not None and not time_budget > 0:
        raise typer.BadParameter(f"--time-budget must be a positive number of seconds; got {time_budget:g}.")
    options = FitOptions(
        str(averaging),
        kernel,
        target_warping,
        str(method),
        hidden,
        activation,
        restarts,
        max_iter,
        inducing,
        checkpoint,
        time_budget,
        seed,
        device,
    )
    options.refuse_what_has_no_effect(launched())
    noise_of_inputs = _noise_of_inputs(input_std)
    unfinished = checked_places(out, replace_if_interrupted, files, more)
    if more is not None and input_std is not None:
        raise typer.BadParameter(
            "--more cannot go on with noisy inputs: they are trained in rounds of their own. Leave out --input-std or --more."
        )
    if launched():
        instead = {"--group": ". Name the inputs with --features", "--drop": ". Name the inputs with --features"}
        for name, given in (("--group", group), ("--drop", drop), ("--numbers", numbers), ("--more", more)):
            if given is not None:
                raise typer.BadParameter(f"{name} cannot be used under torchrun{instead.get(name, '')}.")
        if cyclic is not None or missing is not Missing.error:
            raise typer.BadParameter("--missing and --cyclic cannot be used under torchrun, which fits numbers without gaps.")
        if input_std is not None:
            raise typer.BadParameter("--input-std cannot be used under torchrun: noisy inputs need all rows in one memory.")
        if replace_if_interrupted:
            raise typer.BadParameter(
                "--replace-if-interrupted has no effect under torchrun: a job that is stopped goes on from its --checkpoint."
            )
        inputs = column_names(features, []) or None
        _fit_shared(files, target, out, inputs, noise_column, ordered, options.arguments(True), json, quiet)
        return
    messages = Messages(quiet)
    with Interruption() as interruption:
        try:
            training = read_training(
                files,
                target,
                features,
                drop,
                noise_column,
                group,
                messages,
                str(missing),
                column_names(cyclic, []),
                ordered,
                numbers,
            )
            if target_warping is None:
                warn_of_targets_unlike_a_gaussian(training, messages)
            arguments = options.arguments(False)  # brings PyTorch, seconds that a table with faults does not wait for
            fitted = fit_table(training, messages, interruption, ordered, arguments, noise_of_inputs, more)
            say_how_long(fitted, messages)
            place = unfinished if fitted.interrupted and out.exists() else out
            remarks = save_fitted(fitted, place, messages, interruption)
        except KeyboardInterrupt:
            typer.echo("mgp: Interrupted: no model was written.", err=True)
            raise typer.Exit(interruption.exit_code) from None
    say_what_was_fitted(fitted, remarks, len(training.X), training.without_target, place, messages, json)
    if fitted.interrupted:
        end_interrupted(place, out, interruption)
    if interruption.wanted:
        end_interrupted_after_fit(place, interruption)


def _fit_shared(
    files: list[str],
    targets: list[str],
    out: Path,
    columns: list[str] | None,
    noise: str | None,
    ordered: bool,
    arguments: dict[str, Any],
    json: bool,
    quiet: bool,
) -> None:
    """The same fit, shared by the processes that torchrun started; the first one speaks for all."""
    from manifoldgp.estimators.fit_files import fit_files

    first, begin = is_first(), time.perf_counter()
    messages = Messages(quiet or not first)
    shown = messages.console.is_terminal and not messages.quiet
    with messages.warnings_as_messages():
        target = targets[0] if len(targets) == 1 else targets
        model = fit_files(files, target, out, columns=columns, noise_std=noise, ordered=ordered, verbose=shown, **arguments)
    if first:
        rows = model.ensembles_[0].blocks[0].rows
        messages.note(f"{counted(rows, 'row')}, NLML {'at most ' if model.method_ == 'sparse' else ''}{model.nlml_:.6g}")
        fitted = Fitted(model, time.perf_counter() - begin, False)
        say_how_long(fitted, messages)
        say_what_was_fitted(fitted, model.diagnose().remarks, rows, None, out, messages, json)


def _noise_of_inputs(given: list[str] | None) -> dict[str, float] | None:
    """--input-std as numbers by column; a name may hold an equals sign."""
    if given is None:
        return None
    noise: dict[str, float] = {}
    wrong: list[str] = []
    for words in given:
        name, _, number = words.rpartition("=")
        try:
            noise[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            wrong.append(words)
    if wrong:
        raise typer.BadParameter(f"--input-std must be COLUMN=NUMBER, such as speed=0.1; got {', '.join(map(repr, wrong))}.")
    return noise


def fit_table(
    training: Training,
    messages: Messages,
    interruption: Interruption,
    ordered: bool,
    arguments: dict[str, Any],
    input_std: dict[str, float] | None = None,
    more: Path | None = None,
) -> Fitted:
    """Train, with a progress bar, until somebody interrupts; more: the file of a model that goes on. The model carries the table's encoding."""
    from manifoldgp import GPRegressor, ManifoldGPRegressor
    from manifoldgp.cli._fit_progress import FitProgress, can_be_watched

    begin, outputs = time.perf_counter(), len(training.encoding.targets)
    plain = "averaging" not in arguments
    watched = plain or can_be_watched(arguments["averaging"])
    progress = FitProgress(
        outputs, messages, interruption, watched=watched, budget=arguments["time_budget"], afterwards=few_points_afterwards
    )
    with messages.warnings_as_messages(), progress, progress.interruptible():
        periods = next((column.time.cyclic for column in training.encoding.columns if column.time is not None), ())
        estimator = GPRegressor if plain else ManifoldGPRegressor
        model = estimator(**arguments, missing=training.encoding.missing, cyclic=periods, callback=progress)
        rows: dict[str, Any] = {"noise_std": training.noise, "groups": training.groups, "ordered": ordered}
        try:
            if more is None:
                model.fit(training.X, training.y, input_std=input_std, **rows)
            else:
                model = _earlier(more, model)
                model.fit_more(training.X, training.y, seconds=arguments["time_budget"], **rows)
        except (MemoryError, RuntimeError) as error:
            error.add_note(f"The table has {counted(len(training.X), 'row')}.")
            raise
    # The model is there: a signal ends what comes after it, and loses nothing.
    interruption.listening = True
    interruption.answer = ""
    refuse_unfinished(progress, outputs, interruption.exit_code)
    model.table_encoding_ = training.encoding  # pyright: ignore[reportAttributeAccessIssue]
    return Fitted(model, time.perf_counter() - begin, progress.stop)


def _earlier(path: Path, asked: Any) -> Any:
    """The fitted model of a file, with the callback and the place of another one; refuses one that was fitted with other options."""
    from manifoldgp import load
    from manifoldgp.errors import InputError

    model = load(path, device=asked.device)
    given = {name: (repr(value), repr(getattr(model, name, None))) for name, value in asked.get_params(deep=False).items()}
    other = [name for name, (here, there) in given.items() if here != there and name not in ("callback", "time_budget", "device")]
    if type(model) is not type(asked) or other:
        raise InputError(
            f"--more goes on with the options of the first fit, and {path} was fitted with other ones ({', '.join(other) or 'averaging'}). "
            "Give the same options, or fit without --more."
        )
    return model.set_params(callback=asked.callback)


def say_how_long(fitted: Fitted, messages: Messages) -> None:
    """Said before the model is looked at and written, which takes a while too."""
    if not fitted.interrupted:
        from manifoldgp.cli._models import encoding_of

        counts, targets = _members(fitted.model), encoding_of(fitted.model).targets
        if len(counts) == 1:
            averages = f"{counts[0]} {verb(counts[0], 'model', 'models')} in the average"
        else:
            averages = "models in the averages: " + ", ".join(
                f"{count} for {name}" for count, name in zip(counts, targets, strict=True)
            )
        messages.note(f"Fitted in {fitted.seconds:.1f} s; {averages}.")


def _members(model: Any) -> list[int]:
    """How many models each target's average has."""
    return [sum(block.members for block in e.blocks) for e in model.ensembles_]


def say_what_was_fitted(
    fitted: Fitted, remarks: list[str], rows: int, without_target: int | None, out: Path, messages: Messages, as_json: bool
) -> None:
    from manifoldgp.averaging import as_averaging
    from manifoldgp.cli._models import encoding_of, with_names

    targets = encoding_of(fitted.model).targets
    remarks = [in_options(with_names(remark, targets)) for remark in remarks]
    if as_json:
        encoding = fitted.model.table_encoding_
        print_json({
            "model": str(out),
            "rows": rows,
            "rows_without_target": without_target,
            "inputs": [column.name for column in encoding.columns],
            "targets": encoding.targets,
            "categories": {c.name: c.categories for c in encoding.columns if c.categories},
            "constant": encoding.constant,
            "row_names": encoding.row_names,
            "averaging": as_averaging(fitted.model.averaging).shorthand(),
            "members": dict(zip(encoding.targets, _members(fitted.model), strict=True)),
            "seconds": round(fitted.seconds, 3),
            "nlml": fitted.model.nlml_,
            "interrupted": fitted.interrupted,
            "remarks": remarks,
        })  # fmt: skip
    if fitted.interrupted:
        return
    for remark in remarks:
        messages.note(f"- {remark}")
    written = argument(out)
    messages.note(
        f"Wrote {out} ({size_in_words(out.stat().st_size)}). Next: mgp inspect {written}, mgp predict {written} new.csv"
    )
