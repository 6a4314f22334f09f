"""``mgp suggest``: the next experiments, as rows for the table."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manifoldgp._system.plain_text import digits, option
from manifoldgp.cli._messages import Messages, print_json
from manifoldgp.cli._options import Json, ModelFile, Quiet, refuse_overwriting
from manifoldgp.errors import Faults, InputError

if TYPE_CHECKING:
    from manifoldgp.suggestions import Suggestions


def suggest(
    model_file: ModelFile,
    maximize: Annotated[bool, typer.Option("--maximize", help="Look for larger values of the target.")] = False,
    minimize: Annotated[bool, typer.Option("--minimize", help="Look for smaller values of the target.")] = False,
    learn: Annotated[bool, typer.Option("--learn", help="Make the model surer in the region of the training rows.")] = False,
    batch: Annotated[int, typer.Option(help="Experiments to suggest.", min=1, max=100, metavar="N")] = 4,
    bounds: Annotated[
        list[str] | None,
        typer.Option(
            help="Range of a number, x=0:5, or of a date, day=2026-01-01:2026-12-31, or the values that are possible, surface=ice,sand; can be repeated.",
            metavar="COLUMN=VALUES",
        ),
    ] = None,
    fix: Annotated[
        list[str] | None, typer.Option(help="An input that has one value, x=2; can be repeated.", metavar="COLUMN=VALUE")
    ] = None,
    step: Annotated[
        list[str] | None, typer.Option(help="A number that comes in steps, x=0.5; can be repeated.", metavar="COLUMN=STEP")
    ] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            help="A condition, 'x1 + 2 * x2 <= 10'; names that are no words in backticks. Can be repeated.", metavar="CONDITION"
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Which target, of a model with several.", metavar="COLUMN")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            help="Table whose columns the suggestions get, in its order; those of one value are filled in.", metavar="TABLE"
        ),
    ] = None,
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="Table to write, format by its ending; - is CSV on standard output.", metavar="FILE"),
    ] = "-",
    seed: Annotated[int, typer.Option(help="Another seed looks among other experiments.", min=0, max=2**32 - 1, metavar="N")] = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Suggest the next experiments, as rows to paste into the table.

    --maximize and --minimize go by expected improvement, --learn by how much surer the model becomes in the region of the training rows.

    By default numbers and dates stay within the range of the training rows, whole ones stay whole, and all categories are possible.

    A number that has a few values, each in several rows, keeps to these. The target's column is left empty.
    """
    from manifoldgp import suggestions
    from manifoldgp._system.model_header import read_header
    from manifoldgp.cli._models import encoding_of, open_manifold_gp, refuse_dynamics
    from manifoldgp.data.table_files import check_writable, write_table
    from manifoldgp.suggestions.space import space_of

    goals = [name for name, wanted in (("maximize", maximize), ("minimize", minimize), ("learn", learn)) if wanted]
    if len(goals) != 1:
        raise typer.BadParameter("Say what the experiments are for: one of --maximize, --minimize and --learn.")
    if json and out == "-":
        raise typer.BadParameter("--json prints a summary on standard output, where the table goes too. Add --out next.csv.")
    refuse_overwriting([out], [model_file, *([like] if like else [])], standard_output=True)
    check_writable(out)
    refuse_dynamics(model_file, read_header(model_file))
    messages = Messages(quiet)
    with messages.warnings_as_messages():
        model = open_manifold_gp(model_file)
    encoding = encoding_of(model)
    targets = encoding.targets
    faults = Faults()
    possible = {
        "bounds": _read("--bounds", bounds, _values, faults),
        "fixed": _read("--fix", fix, lambda name, text: text, faults),
        "steps": _read("--step", step, lambda name, text: _number("--step", name, text), faults),
        "constraints": constraint or (),
    }
    output = _output(target, targets, faults)
    if faults.told:
        with faults.noted():
            space_of(model, **possible)  # what else is wrong is told in one go
        raise typer.BadParameter(" ".join(faults.told))
    with messages.warnings_as_messages(), messages.working("Searching for experiments ..."):
        found = suggestions.suggest(
            model,
            goals[0],  # pyright: ignore[reportArgumentType]
            batch=batch,
            **possible,
            output=output,
            random_state=seed,
        )
        dated = [column.name for column in encoding.columns if column.time is not None and column.time.order is not None]
        table = _laid_out(found, targets, like, dated)
        write_table(table, out, like)
    if dated and like is None:
        messages.note(f"Dates have the year first here; --like TABLE writes {' and '.join(dated)} as that table does.")
    _say(found, encoding.label(targets[output]), messages)
    if json:
        rows = [{name: column[i] for name, column in found.columns.items()} for i in range(len(found.X))]
        print_json(
            {"goal": found.goal, "best": found.best, "suggestions": rows, "mean": found.mean, "std": found.std, "out": out}
        )
    elif out != "-":
        messages.note(f"Wrote {len(table)} suggestions to {out}")


def _output(target: str | None, targets: tuple[str, ...], faults: Faults) -> int:
    """The number of the target that is meant."""
    if target is None and len(targets) > 1:
        choices = ", ".join(option("--target", name) for name in targets)
        faults.told.append(f"The model has several targets. Choose one: {choices}.")
    if target is not None and target not in targets:
        faults.told.append(f"The model predicts {', '.join(targets)}; --target says {target}.")
    return targets.index(target) if target in targets else 0


def _read(option: str, given: list[str] | None, value_of: Callable[[str, str], Any], faults: Faults) -> dict[str, Any]:
    """Values by column, of options such as --fix x=2; the last = divides, because names may hold one."""
    found = {}
    for text in given or ():
        name, equals, value = text.rpartition("=")
        with faults.noted():
            if not (equals and name and value):
                raise InputError(f"{option} expects COLUMN=VALUE; got {text!r}.")
            found[name] = value_of(name, value)
    return found


def _values(name: str, text: str) -> list[Any]:
    """The bounds 0:5, or of dates 2026-01-01:2026-12-31, or the values a,b,c."""
    if text.count(":") == 1:
        ends = [part.strip() for part in text.split(":")]
        return ends if all(_is_day(end) for end in ends) else [_number("--bounds", name, end) for end in ends]
    if ":" in text:
        return [text]
    values: list[Any] = [part.strip() for part in text.split(",")]
    return (
        values * 3 if len(values) <= 2 and all(_is_number(v) for v in values) else values
    )  # two numbers with a comma are two values, not a range


def _is_day(text: str) -> bool:
    return re.fullmatch(r"\d+[-./]\d+[-./]\d+", text) is not None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(option: str, name: str, text: str) -> float:
    if not _is_number(text):
        raise InputError(f"{option} {name}=... expects a number; got {text!r}.")
    return float(text)


def _laid_out(found: Suggestions, targets: tuple[str, ...], like: str | None, dated: list[str]) -> Any:
    """The suggestions with the columns of the table: the inputs and empty targets, or all columns of ``like``, and its way of writing the dates of ``dated``."""
    from manifoldgp.data.dates import written_like
    from manifoldgp.data.table_files import read_table, with_whole_numbers

    table: Any = with_whole_numbers(found.frame())
    if like is None:
        return table.assign(**dict.fromkeys(targets, ""))
    known: Any = read_table(like, wanted=targets)
    for name in known.columns:
        if name in dated and name in table.columns:
            table[name] = written_like(table[name], known[name])
        if name not in table.columns:
            one = known[name].nunique() == 1 and not known[name].isna().any() and name not in targets
            table[name] = known[name].iloc[0] if one else ""
    return table[list(known.columns)]


def _say(found: Suggestions, target: str, messages: Messages) -> None:
    """What the model expects of every suggestion."""
    for name, levels in found.levels.items():
        *most, last = (f"{level:.10g}" for level in levels)
        between = option("--bounds", f"{name}={most[0]}:{last}")
        messages.note(f"{name}: only {', '.join(most)} and {last}, as in the training rows; {between} allows what is between")
    if found.best is not None:
        messages.note(
            f"The {'largest' if found.goal == 'maximize' else 'smallest'} {target} that the model sees {found.compared} is {digits(found.best)}"
        )
    for i, (mean, std) in enumerate(zip(found.mean, found.std, strict=True), 1):
        messages.note(f"{i}: expected {target} {digits(mean)} ± {digits(std, 2)}")
