"""The command line, as a user runs it: in processes of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manifoldgp.cli import main
from manifoldgp.errors import InputError
from manifoldgp.experiments import make_plan
from manifoldgp.experiments._one import write_result
from synthetic_outcome import made_up_result

pytest.importorskip("typer", reason="needs the extra cli")

RUN = "import sys; from manifoldgp.cli import main; main()"


def mgp(*arguments: str, code: str = RUN, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=280, env=environment, cwd=cwd
    )


def gone(group: int, seconds: float = 20.0) -> bool:
    """Whether a group of processes comes to an end within this time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_help_answers_without_torch():
    code = (
        "import sys, atexit; atexit.register(lambda: print('heavy:', [m for m in ('torch', 'numpy', 'matplotlib') if m in sys.modules]));"
        + RUN
    )
    done = mgp("--help", code=code)
    assert done.returncode == 0
    for word in ("reproduce", "simulate-walker", "--debug"):
        assert word in done.stdout
    assert "heavy: []" in done.stdout


def test_help_of_a_command_lists_its_options():
    done = mgp("reproduce", "--help")
    assert done.returncode == 0
    for option in ("--quick", "--out", "--seeds", "--only", "--walk", "--data-dir", "--processes", "--fresh"):
        assert option in done.stdout


def test_without_the_extra_it_says_what_to_install():
    done = mgp("--help", code="import sys; sys.modules['typer'] = None;" + RUN)
    assert done.returncode == 1
    assert "pip install 'manifoldgp[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_are_one_line_and_debug_shows_the_place(tmp_path, monkeypatch, capsys):
    arguments = ["reproduce", "--only", "sine", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["mgp", *arguments])
    with pytest.raises(SystemExit, match="1"):
        main()
    expected = "mgp: There is no experiment 'sine'; choose from step, bumps, walker, icub, recording, smooth."
    assert capsys.readouterr().err.strip() == expected
    monkeypatch.setattr(sys, "argv", ["mgp", "--debug", *arguments])
    with pytest.raises(InputError, match="no experiment 'sine'"):
        main()


def test_simulate_walker_writes_the_recording_that_ships(tmp_path):
    pytest.importorskip("mujoco", reason="needs the extra sim")
    done = mgp("simulate-walker", "--seed", "0", "--out", "walk/new.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mgp reproduce --only recording --walk walk/new.csv" in done.stdout
    shipped = Path(__file__).parents[1] / "src" / "manifoldgp" / "datasets" / "walker.csv"
    assert (tmp_path / "walk" / "new.csv").read_bytes() == shipped.read_bytes()


def test_reproduce_is_interrupted_continued_and_reported(tmp_path):
    """One seed of the step with single starts: Ctrl-C after the first result, then the same command again.

    The stack, which takes longest, is there already as if an earlier run had found it.
    """
    plan = make_plan(tmp_path / "report", only=("step",), seeds=1, restarts=1)
    found = made_up_result(next(config for config in plan.configs if config.method == "stack"))
    earlier = write_result(tmp_path / "report", found)
    arguments = ["reproduce", "--only", "step", "--seeds", "1", "--restarts", "1", "--processes", "1", "--out", "report"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    results = tmp_path / "report" / "results"
    end = time.monotonic() + 200
    while len(list(results.rglob("*.json"))) < 2 and time.monotonic() < end and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes of the group
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "run the same command to continue" in errors
    assert "Traceback" not in errors
    assert gone(process.pid), "a process of the run is left"
    kept = {path: path.stat().st_mtime_ns for path in results.rglob("*.json")}
    assert earlier in kept
    assert len(kept) >= 2
    done = mgp(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "7 fits" in done.stdout
    assert (tmp_path / "report" / "index.html").resolve().as_uri() in done.stdout
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())
    assert "7/7" in done.stderr  # progress is told also where there is no terminal
    assert "<title>Manifold Gaussian Processes" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
