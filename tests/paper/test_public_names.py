"""paper/ stands on the public names of manifoldgp alone, and manifoldgp does not know it."""

from __future__ import annotations

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def imports(path: Path) -> list[tuple[int, str, str | None]]:
    """(line, module, name) of every import of a file, wherever it stands; name is None for ``import module``."""
    found: list[tuple[int, str, str | None]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, node.module or "", alias.name) for alias in node.names]
    return found


def is_public(module: str, name: str | None) -> bool:
    """Whether users of manifoldgp may rely on this import.

    They may on the package, on the rooms right below it, and on the names in their __all__; a room without __all__ is a module, and
    public in it is what it defines itself without an underscore.
    """
    parts = module.split(".")
    if len(parts) > 2 or any(part.startswith("_") for part in [*parts, name or ""]):
        return False
    if name is None:
        return True
    home = importlib.import_module(module)
    if module == "manifoldgp":
        return name in home.__all__ or find_spec(f"manifoldgp.{name}") is not None
    if hasattr(home, "__all__"):
        return name in home.__all__
    return getattr(getattr(home, name), "__module__", None) == module


@pytest.mark.parametrize(
    ("module", "name", "public"),
    [
        ("manifoldgp", None, True),
        ("manifoldgp", "GPRegressor", True),
        ("manifoldgp", "metrics", True),
        ("manifoldgp", "_system", False),
        ("manifoldgp.errors", "InputError", True),
        ("manifoldgp.metrics", "np", False),
        ("manifoldgp.inspection", "html_page", True),
        ("manifoldgp.inspection.html_page", "html_page", False),
        ("manifoldgp._system.files", "written_whole", False),
        ("manifoldgp.data", "columns", False),
    ],
)
def test_what_is_public(module, name, public):
    assert is_public(module, name) is public


def test_the_paper_imports_public_names_only():
    files = sorted((ROOT / "paper").glob("*.py"))
    used = [(path, *found) for path in files for found in imports(path) if found[1].split(".")[0] == "manifoldgp"]
    assert len({path for path, *_ in used}) > 5
    assert [f"{path.name}:{line}: {module} {name}" for path, line, module, name in used if not is_public(module, name)] == []


def test_the_package_does_not_import_the_paper():
    files = sorted((ROOT / "src").rglob("*.py"))
    assert [str(path) for path in files for _, module, _ in imports(path) if module.split(".")[0] == "paper"] == []
