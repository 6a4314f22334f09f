"""``mgp inspect``: what is in a model file, and what its fit looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from manifoldgp._system.plain_text import digits, listed_names, named_number, visible
from manifoldgp.cli._messages import Messages, output, plain_data, print_json, size_in_words
from manifoldgp.cli._options import Json, ModelFile


def inspect(
    model_file: ModelFile,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Also compute which inputs matter: Sobol indices with their errors.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what a model is and how its fit went.

    Rows, columns, categories, settings; whether the features helped, whether intervals can be trusted.
    """
    from manifoldgp._system.model_header import read_header
    from manifoldgp.data.encoding import TableEncoding

    header = read_header(model_file)
    found = header.get("summary")
    if found is None:  # saved from Python, or a dynamics model: look at the model itself
        from manifoldgp.cli._summary import summary_of

        found = summary_of(_opened(model_file, header))
    about = {"model": str(model_file), **{name: found[name] for name in _ABOUT}, "bytes": model_file.stat().st_size}
    if "dynamics" in header:
        about["dynamics"] = {name: header["dynamics"]["space"][name] for name in ("state_names", "action_names", "dt")}
    indices = {}
    if sensitivity:
        with Messages(False).working("Predicting tens of thousands of rows for the Sobol indices: seconds to some minutes ..."):
            indices = _sensitivities(_opened(model_file, header), found["targets"])
    if json:
        more = {"sensitivity": {name: plain_data(vars(one)) for name, one in indices.items()}} if sensitivity else {}
        print_json(about | {name: found[name] for name in ("table", "settings", "numbers", "remarks")} | more)
        return
    whose = found.get("whose", "")  # earlier files lack it
    _show(about, TableEncoding.from_plain(found["table"]), found["changed"], found["numbers"], whose, found["remarks"])
    for name, one in indices.items():
        output().print(f"Which inputs {name} depends on (Sobol indices)", style="bold cyan", markup=False, highlight=False)
        output().print(str(one), markup=False, highlight=False)


def _opened(model_file: Path, header: dict[str, Any]) -> Any:
    """The estimator in a file; of a dynamics model its regression, with the names of states and actions."""
    if "dynamics" in header:
        from manifoldgp.dynamics import DynamicsModel

        return DynamicsModel.load(model_file).regressor_
    from manifoldgp.cli._models import open_manifold_gp

    return open_manifold_gp(model_file)


def _sensitivities(model: Any, targets: list[str]) -> dict[str, Any]:
    """The indices of every target by its name."""
    return {name: model.sensitivity(output=o) for o, name in enumerate(targets)}


_ABOUT = ("estimator", "rows", "targets", "members")


def _kind_in_words(column: Any, unit: str | None) -> str:
    """What a column holds and becomes."""
    words = {
        "number": "number" if unit is None else f"number, in {unit}",
        "flag": "true or false",
        "category": "text: " + listed_names(column.categories),
        "levels": f"text with {len(column.categories)} levels, becomes the effect of each on the target",
        "date": f"date{_order(column.time)}, {_since(column.time)}",
        "duration": f"duration in {column.time.unit}" if column.time else "",
    }[column.kind]
    return f"{words}; some missing" if column.indicator else words


def _system_in_words(dynamics: dict[str, Any]) -> str:
    """What moves, by what, and how long a step is."""
    acted = f", acted on by {', '.join(dynamics['action_names'])}" if dynamics["action_names"] else ""
    step = "" if dynamics["dt"] is None else f"; a step is {digits(dynamics['dt'])} s"
    return f"one step of {', '.join(dynamics['state_names'])}{acted}{step}"


def _order(time: Any) -> str:
    """Which of day and month stands first, where that had to be found out."""
    return "" if time is None or time.order is None else f" written with the {time.order}"


def _since(time: Any) -> str:
    if time is None:
        return ""
    periods = f", and its place in the {', '.join(time.cyclic)}" if time.cyclic else ""
    since = time.origin.removesuffix("+00:00").removesuffix("T00:00:00").replace("T", " ")
    zone = " UTC" if time.zoned else ""
    return f"becomes {time.unit} since {since}{zone}{periods}"


def _show(
    about: dict[str, Any], encoding: Any, settings: dict[str, Any], numbers: dict[str, Any], whose: str, remarks: list[str]
) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = output()

    def heading(text: str) -> None:
        console.print(Text(text, style="bold cyan"))

    def pairs(entries: dict[str, str]) -> None:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim")
        table.add_column(overflow="fold")
        for name, value in entries.items():
            table.add_row(visible(name), visible(value))
        console.print(Padding(table, (0, 0, 1, 2), expand=False))

    heading("Model")
    pairs({
        "file": f"{about['model']} ({size_in_words(about['bytes'])})",
        **({"dynamics": _system_in_words(about["dynamics"])} if "dynamics" in about else {}),
        "target": ", ".join(map(encoding.label, about["targets"])),
        "rows": str(about["rows"]),
        "models in the average": ", ".join(map(str, about["members"])),
    } | {name: str(value) for name, value in settings.items()})  # fmt: skip
    heading("Columns")
    units = dict(encoding.units)
    inputs = {column.name: _kind_in_words(column, units.get(column.name)) for column in encoding.columns}
    labels = "labels of rows that belong together"
    together = f"{inputs[encoding.group]}; {labels}" if encoding.group in inputs else f"{labels}; not an input"
    pairs(
        inputs
        | ({encoding.noise: "known noise (standard deviation)"} if encoding.noise else {})
        | ({encoding.group: together} if encoding.group else {})
        | dict.fromkeys(encoding.constant, "left out: one value at most")
        | dict.fromkeys(encoding.row_names, "left out: most texts there occur once")
        | dict.fromkeys(encoding.ignored, "left out")
    )
    heading("What the fit looks like")
    for remark in remarks:
        row = Table.grid(padding=(0, 1))
        row.add_row("-", visible(remark))
        console.print(Padding(row, (0, 0, 0, 2), expand=False))
    console.print()
    heading("Numbers")
    if whose:
        console.print(Padding(Text(visible(whose), style="dim"), (0, 0, 0, 2), expand=False))
    pairs({name: _in_words(value, name) for name, value in numbers.items()})


def _in_words(value: Any, name: str = "") -> str:
    """A number, of this name, or a list of them as a person reads it."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_in_words, value[:12])) + (", ..." if len(value) > 12 else "") + "]"
    return named_number(name, value) if isinstance(value, float) else "-" if value is None else str(value)
