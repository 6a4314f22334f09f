"""``mgp inspect``: what is in a model file, and what its fit looks like."""

from __future__ import annotations

from typing import Any

from manifoldgp.cli._messages import output, print_json, size_in_words
from manifoldgp.cli._options import Json, ModelFile


def inspect(model_file: ModelFile, json: Json = False) -> None:
    """Show what a model is and how its fit went.

    Rows, columns, categories, settings; whether the features helped, whether intervals can be trusted.
    """
    from manifoldgp.cli._models import encoding_of, open_model, with_names

    model = open_model(model_file)
    encoding = encoding_of(model)
    diagnosis = model.diagnose()
    about = {
        "model": str(model_file),
        "estimator": type(model).__name__,
        "rows": model.ensembles_[0].blocks[0].rows,
        "targets": list(encoding.targets),
        "members": [sum(block.members for block in e.blocks) for e in model.ensembles_],
        "bytes": model_file.stat().st_size,
    }
    # programs get the settings inside averaging and method one by one, people as they are written in Python
    params = model.get_params(deep=json)
    settings = {name: _setting(value) for name, value in params.items() if name.split("__")[-1] not in _NOT_SHOWN}
    numbers = {with_names(name, encoding.targets): value for name, value in diagnosis.numbers.items()}
    remarks = [with_names(remark, encoding.targets) for remark in diagnosis.remarks]
    if json:
        print_json(about | {"table": encoding.to_plain(), "settings": settings, "numbers": numbers, "remarks": remarks})
    else:
        _show(about, encoding, _changed(model, settings), numbers, remarks)


_NOT_SHOWN = ("callback", "warm_start_from", "device", "verbose")
_KINDS = {"number": "number", "flag": "true or false", "category": "text"}


def _setting(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _changed(model: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that differ from the defaults, and the averaging, which matters most."""
    usual = {name: _setting(value) for name, value in type(model)().get_params(deep=False).items()}
    always = ("averaging", "restarts", "random_state")
    return {name: value for name, value in settings.items() if name in always or value != usual[name]}


def _show(about: dict[str, Any], encoding: Any, settings: dict[str, Any], numbers: dict[str, Any], remarks: list[str]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from manifoldgp.estimators.diagnosis import show_value

    console = output()

    def heading(text: str) -> None:
        console.print(Text(text, style="bold cyan"))

    def pairs(entries: dict[str, str]) -> None:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim")
        table.add_column(overflow="fold")
        for name, value in entries.items():
            table.add_row(name, value)
        console.print(Padding(table, (0, 0, 1, 2), expand=False))

    heading("Model")
    pairs({
        "file": f"{about['model']} ({size_in_words(about['bytes'])})",
        "target": ", ".join(about["targets"]),
        "rows": str(about["rows"]),
        "models in the average": ", ".join(map(str, about["members"])),
    } | {name: str(value) for name, value in settings.items()})  # fmt: skip
    heading("Columns")
    pairs(
        {
            column.name: _KINDS[column.kind] + (": " + ", ".join(column.categories) if column.categories else "")
            for column in encoding.columns
        }
        | ({encoding.noise: "known noise (standard deviation)"} if encoding.noise else {})
        | ({encoding.group: "labels of rows that belong together; not an input"} if encoding.group else {})
        | dict.fromkeys(encoding.constant, "left out: one value only")
        | dict.fromkeys(encoding.ignored, "left out")
    )
    heading("What the fit looks like")
    for remark in remarks:
        row = Table.grid(padding=(0, 1))
        row.add_row("-", remark)
        console.print(Padding(row, (0, 0, 0, 2), expand=False))
    console.print()
    heading("Numbers")
    pairs({name: show_value(value) for name, value in numbers.items()})
