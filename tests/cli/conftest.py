"""A small table and a small model of it, made by the commands themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import mgp

QUICK = ("--averaging", "single", "--restarts", "2", "--max-iter", "15", "--quiet")


@pytest.fixture(autouse=True)
def wide_screen(monkeypatch) -> None:
    """Lines of 100 characters without colour, wherever the tests run."""
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """data.csv and new.csv of the example, and model.mgp, fitted to data.csv with the runs as groups."""
    folder = tmp_path_factory.mktemp("table")
    mgp("example", folder / "data.csv", "--rows", "60", "--quiet")
    mgp("example", folder / "new.csv", "--rows", "25", "--seed", "1", "--quiet")
    done = mgp("fit", folder / "data.csv", "--target", "y", "--group", "run", "--out", folder / "model.mgp", *QUICK)
    assert done == (0, "", "")
    return folder
