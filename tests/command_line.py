"""``mgp`` for tests: inside this process, where most is fast, and as a process of its own, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import manifoldgp
from manifoldgp.cli import main

SOURCES = str(Path(manifoldgp.__file__).parents[1])
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": SOURCES}


class Done(NamedTuple):
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


class InProcess:
    """Calls main() with arguments; needs pytest's monkeypatch and capsys."""

    def __init__(self, monkeypatch, capsys) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setenv("COLUMNS", "100")

    def __call__(self, *arguments: str | Path, code: int = 0) -> Done:
        self._monkeypatch.setattr(sys, "argv", ["mgp", *map(str, arguments)])
        self._capsys.readouterr()
        try:
            main()
            raise AssertionError("main() leaves with an exit code")
        except SystemExit as end:
            done = Done(int(end.code or 0), *self._capsys.readouterr())
        assert done.code == code, f"exit code {done.code} instead of {code}: {done.err}"
        if done.code in (1, 2):
            assert len(done.err.strip().splitlines()) >= 1
            assert "Traceback" not in done.err
        return done

    def fails(self, *arguments: str | Path, code: int = 1) -> str:
        """The one line that a command that cannot work says; the notes before it are left out."""
        return self(*arguments, code=code).err.strip().splitlines()[-1]


def process(*arguments: str | Path, stdin: str | None = None, cwd: Path | None = None) -> Done:
    """Run ``python -m manifoldgp`` with these arguments."""
    done = subprocess.run(
        [sys.executable, "-m", "manifoldgp", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=280,
        env=ENVIRONMENT,
        cwd=cwd,
    )
    return Done(done.returncode, done.stdout, done.stderr)
