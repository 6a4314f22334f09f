"""``mgp`` for tests: inside this process, where most is fast, and as a process of its own, as a user runs it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import manifoldgp
from manifoldgp.cli import main

SOURCES = str(Path(manifoldgp.__file__).parents[1])
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": SOURCES}


class Done(NamedTuple):
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def mgp(*arguments: str | Path, code: int = 0) -> Done:
    """Call main() with these arguments, which must leave with this exit code."""
    out, err = io.StringIO(), io.StringIO()
    with patch.object(sys, "argv", ["mgp", *map(str, arguments)]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            raise AssertionError("main() leaves with an exit code")
        except SystemExit as end:
            done = Done(int(end.code or 0), out.getvalue(), err.getvalue())
    assert done.code == code, f"exit code {done.code} instead of {code}: {done.err}"
    assert "Traceback" not in done.err
    return done


def fails(*arguments: str | Path, code: int = 1) -> str:
    """The one line that a command says that cannot do its work; notes before it are left out."""
    done = mgp(*arguments, code=code)
    assert done.out == ""
    return done.err.strip().splitlines()[-1]


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
