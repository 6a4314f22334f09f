"""``python -m paper``: what it refuses before it runs for an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from manifoldgp.errors import InputError
from paper.__main__ import reproduce
from paper.outcome import BEGIN, END


def test_the_report_spares_the_walk_and_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("report").mkdir()
    for name, marks in (("tables.csv", ""), ("headline.md", f"{BEGIN}\n{END}\n")):
        Path("report", name).write_text(marks)
    with pytest.raises(InputError, match="report/tables.csv is one of the inputs: writing there would destroy it."):
        reproduce(out=Path("report"), walk=Path("report/tables.csv"))
    with pytest.raises(InputError, match="are the same file, and both would be written. Name two different files."):
        reproduce(out=Path("report"), readme=Path("./report/../report/headline.md"))
