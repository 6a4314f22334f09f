"""The command that repeats the tests as other kinds of CPU says what failed where, and fails with it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import cpus


def test_a_run_that_fails_is_told_with_its_tests(tmp_path):
    file = tmp_path / "test_threads.py"
    file.write_text("import os\ndef test_one():\n    assert os.environ['OMP_NUM_THREADS'] == '1'\n", encoding="utf-8")
    asked = ["--cpu", "default", "--threads", "1", "2", "--out", str(tmp_path), "--", "-n0", str(file)]
    done = subprocess.run([sys.executable, Path(cpus.__file__), *asked], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert re.search(r"^default +1  ok +1 passed$", done.stdout, re.M)
    assert re.search(r"^default +2  FAILED +1 failed$", done.stdout, re.M)
    assert re.search(r"test_threads.py::test_one: default \(2\)$", done.stdout, re.M)


def test_a_kind_with_the_digits_of_another_is_left_out(monkeypatch):
    monkeypatch.setitem(cpus.CPUS, "twin", {})
    assert cpus.reasons_to_skip(["default", "twin"]) == {"twin": "it computes the same digits as default"}
