"""``python -m paper`` as a user runs it; in processes of its own where that matters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paper.__main__ import main
from paper.plan import make_plan
from paper.run import write_result
from synthetic_outcome import made_up_result

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "200",
    "NO_COLOR": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
}


def paper(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paper", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, env=ENVIRONMENT, cwd=cwd)


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


def test_help_lists_the_options(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["paper", "reproduce", "--help"])
    with pytest.raises(SystemExit, match="0"):
        main()
    shown = capsys.readouterr().out
    for option in ("--quick", "--out", "--seeds", "--only", "--walk", "--data-dir", "--processes", "--fresh", "--readme"):
        assert option in shown


def test_errors_are_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["paper", "reproduce", "--only", "sine", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="1"):
        main()
    told = capsys.readouterr().err.strip()
    assert told == "paper: There is no experiment 'sine'; choose from step, bumps, walker, icub, recording, smooth."


def test_simulate_walker_writes_the_recording_that_ships(tmp_path):
    pytest.importorskip("mujoco", reason="needs the extra sim")
    done = paper("simulate-walker", "--seed", "0", "--out", "walk/new.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "python -m paper reproduce --only recording --walk walk/new.csv" in done.stdout
    shipped = ROOT / "src" / "manifoldgp" / "data" / "walker.csv"
    assert (tmp_path / "walk" / "new.csv").read_bytes() == shipped.read_bytes()


@pytest.mark.slow
def test_reproduce_is_interrupted_continued_and_reported(tmp_path):
    """One seed of the step with single starts: Ctrl-C after the first result, then the same command again.

    All but four are there already as if an earlier run had found them.
    """
    plan = make_plan(tmp_path / "report", only=("step",), seeds=1, restarts=1)
    slow = [config for config in plan.configs if config.method not in ("gp-se", "gp-nn", "mgp-sigmoid", "mgp-identity")]
    earlier = {write_result(tmp_path / "report", made_up_result(config)) for config in slow}
    arguments = ["reproduce", "--only", "step", "--seeds", "1", "--restarts", "1", "--processes", "1", "--out", "report"]
    process = subprocess.Popen(
        [sys.executable, "-m", "paper", *arguments],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    results = tmp_path / "report" / "results"
    end = time.monotonic() + 200
    while len(list(results.rglob("seed-*.json"))) <= len(earlier) and time.monotonic() < end and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes of the group
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "run the same command to continue" in errors
    assert "Traceback" not in errors
    assert gone(process.pid), "a process of the run is left"
    kept = {path: path.stat().st_mtime_ns for path in results.rglob("seed-*.json")}
    assert earlier < set(kept)
    done = paper(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{len(plan.configs)} fits" in done.stdout
    assert (tmp_path / "report" / "index.html").resolve().as_uri() in done.stdout
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())
    assert f"{len(plan.configs)}/{len(plan.configs)}" in done.stderr  # progress is told also where there is no terminal
    assert "<title>Manifold Gaussian Processes" in (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
