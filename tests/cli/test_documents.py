"""Every command of the pages runs as written, and says what they say it says, up to numbers."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import ENVIRONMENT, mgp
from manifoldgp import ManifoldGPRegressor

ROOT = Path(__file__).resolve().parents[2]
_NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?")


def steps(page: str) -> list[tuple[str, list[str]]]:
    """Commands (after "$ ") in the console blocks of a page, each with the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.strip() and line.strip() != "...":
                found[-1][1].append(line)
    return found


def lacking(command: str) -> str | None:
    """What this installation lacks for a command, if it does."""
    if "--to numpy" in command and not hasattr(ManifoldGPRegressor, "predictor"):
        return "ManifoldGPRegressor.predictor"
    if "--to onnx" in command:
        try:
            importlib.import_module("manifoldgp.predictor.onnx")
        except ImportError:
            return "manifoldgp.predictor.onnx"
    return None


def said(command: str, folder: Path) -> str:
    """What a command prints on both streams; alone it runs in this process, with pipes and the like in a shell that knows mgp."""
    words = shlex.split(command)
    if words[0] == "mgp" and not set(words) & {"|", "||", ">"}:
        done = mgp(*words[1:])
        return done.err + done.out
    shell = f'mgp() {{ {shlex.quote(sys.executable)} -m manifoldgp "$@"; }}; {command}'
    ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, cwd=folder, env=ENVIRONMENT, timeout=200)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr + ran.stdout


def shape(line: str) -> str:
    """A line without its numbers and its spacing; "..." at its end stands for more."""
    return " ".join(_NUMBER.sub("#", line).split()).removesuffix("...").strip()


@pytest.mark.parametrize("page", ["docs/command-line.md", "README.md"])
def test_every_command_runs_and_says_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(steps(page)) >= 6
    left_out = []
    for command, expected in steps(page):
        if missing := lacking(command):
            left_out.append(f"{command!r} needs {missing}")
            continue
        printed = iter([shape(line) for line in said(command, tmp_path).splitlines()])
        for line in expected:
            assert any(shape(line) in actual for actual in printed), f"{command!r} should print {line!r}"
    if page.startswith("docs"):
        code = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
        for block in code:
            exec(compile(block, page, "exec"), {})
        assert code
    if left_out:
        pytest.skip("the rest ran; " + "; ".join(left_out))


@pytest.mark.parametrize(("to", "name"), [("onnx", "model.onnx"), ("numpy", "model.npz")])
def test_exports_write_one_file_and_name_the_inputs(folder, tmp_path, to, name):
    if missing := lacking(f"mgp export --to {to}"):
        pytest.skip(f"needs {missing}")
    done = mgp("export", folder / "model.mgp", "--to", to, "--out", tmp_path / name)
    assert "Its inputs, in this order: x1, x2, surface=hard, surface=soft" in done.err
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_report_is_one_page_with_the_columns_names(folder, tmp_path):
    done = mgp("report", folder / "model.mgp", "--out", tmp_path / "report.html", "--title", "Hard and soft ground")
    assert (tmp_path / "report.html").resolve().as_uri() in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Hard and soft ground" in page
    assert "surface=hard" in page
