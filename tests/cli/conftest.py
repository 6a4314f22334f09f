"""A small table and a small model of it, made by the commands themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import InProcess, process

QUICK = ("--averaging", "none", "--restarts", "2", "--max-iter", "15", "--quiet")


@pytest.fixture
def mgp(monkeypatch, capsys) -> InProcess:
    return InProcess(monkeypatch, capsys)


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """data.csv and new.csv of the example, and model.mgp, fitted to data.csv without the runs."""
    folder = tmp_path_factory.mktemp("table")
    assert process("example", "data.csv", "--rows", "60", "--quiet", cwd=folder) == (0, "", "")
    assert process("example", "new.csv", "--rows", "25", "--seed", "1", "--quiet", cwd=folder) == (0, "", "")
    done = process("fit", "data.csv", "--target", "y", "--group", "run", "--out", "model.mgp", *QUICK, cwd=folder)
    assert done == (0, "", "")
    return folder
