"""docs/architecture.md, the import contracts and the folders say the same; docs/notation.md gives a symbol one meaning."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "manifoldgp"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]


def layers_of(container: str) -> list[set[str]]:
    """The layers of a package, from the top, each with its modules."""
    (contract,) = [c for c in CONTRACTS if c["containers"] == [container]]
    return [{module.strip(" ()") for module in re.split("[|:]", layer)} for layer in contract["layers"]]


def modules_in(folder: Path) -> set[str]:
    """Modules and packages of a folder, by name."""
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return files | {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}


def rooms() -> list[str]:
    """The first column of the table of rooms, in order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("| room | what it does |\n|---|---|\n")[1].split("\n\n")[0]
    return [re.match(r"\| `(\w+)/?` \|", row)[1] for row in table.splitlines()]  # pyright: ignore[reportOptionalSubscript]


def test_every_room_has_a_row_and_every_row_a_room():
    assert sorted(rooms()) == sorted(modules_in(PACKAGE))


def test_a_slash_marks_the_packages():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room in rooms():
        assert (f"| `{room}/` |" in page) == (PACKAGE / room).is_dir()


def test_rows_are_in_the_order_of_the_layers():
    level = {module: i for i, layer in enumerate(layers_of("manifoldgp")) for module in layer}
    order = [level[room] for room in rooms()]
    assert order == sorted(order)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda c: c["name"])
def test_no_module_is_missing_from_a_contract(contract):
    """import-linter says so too; here it is told which one."""
    assert contract["exhaustive"]
    (container,) = contract["containers"]
    placed = [module for layer in layers_of(container) for module in layer]
    assert sorted(placed) == sorted(modules_in(PACKAGE.joinpath(*container.split(".")[1:])))


def test_files_that_the_page_names_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+\w+\.(?:py|js|toml))`", page))
    assert "training/lbfgs.py" in named
    for name in named:
        assert (PACKAGE / name).exists() or (ROOT / name).exists(), name


def test_a_symbol_has_one_meaning():
    """Each symbol stands in one row of the table, once."""
    page = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    rows = [row for row in page.splitlines() if row.startswith("| ") and not row.startswith("| symbol")]
    symbols = [symbol.strip() for row in rows for symbol in row.split("|")[1].split(",")]
    assert len(symbols) > 25
    assert sorted(symbols) == sorted(set(symbols))
