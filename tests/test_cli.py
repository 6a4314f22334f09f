"""The command line, as a user runs it: in processes of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from manifoldgp.cli import _explained, main

pytest.importorskip("typer", reason="needs the extra cli")

RUN = "import sys; from manifoldgp.cli import main; main()"


def mgp(*arguments: str, code: str = RUN, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=280, env=environment, cwd=cwd
    )


def test_help_answers_without_torch():
    code = (
        "import sys, atexit; atexit.register(lambda: print('heavy:', [m for m in ('torch', 'numpy', 'matplotlib') if m in sys.modules]));"
        + RUN
    )
    done = mgp("--help", code=code)
    assert done.returncode == 0
    for word in ("fit", "example", "--debug"):
        assert word in done.stdout
    assert "heavy: []" in done.stdout


def test_help_of_a_command_lists_its_options():
    done = mgp("fit", "--help")
    assert done.returncode == 0
    for option in ("--target", "--out", "--group", "--averaging", "--restarts"):
        assert option in done.stdout


def test_without_the_extra_it_says_what_to_install():
    done = mgp("--help", code="import sys; sys.modules['typer'] = None;" + RUN)
    assert done.returncode == 1
    assert "pip install 'manifoldgp[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_are_one_line_and_debug_shows_the_place(tmp_path, monkeypatch, capsys):
    arguments = ["inspect", str(tmp_path / "none.mgp")]
    monkeypatch.setattr(sys, "argv", ["mgp", *arguments])
    with pytest.raises(SystemExit, match="1"):
        main()
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("mgp: ")
    assert "none.mgp" in line
    monkeypatch.setattr(sys, "argv", ["mgp", "--debug", *arguments])
    with pytest.raises(FileNotFoundError, match=r"none\.mgp"):
        main()


@pytest.mark.parametrize("error", [
    MemoryError("Unable to allocate 8 TiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 72000000 bytes."),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
])  # fmt: skip
def test_memory_that_runs_out_is_told_as_such(error):
    error.add_note("The table has 3,000,000 rows.")
    assert re.match(
        r"Not enough memory: (8 TiB|72\.0 MB|2\.00 GiB) more were wanted\. The table has 3,000,000 rows\. ", _explained(error)
    )
    assert "Use fewer rows, --method sparse" in _explained(error)


def test_another_runtime_error_is_unexpected():
    assert _explained(RuntimeError("shapes do not fit")).startswith("Unexpected RuntimeError")
    assert _explained(ImportError("a.so: failed to map segment from shared object")).startswith("Not enough memory")
    assert _explained(ImportError("No module named 'a'")).startswith("Unexpected ImportError")
