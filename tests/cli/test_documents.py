"""Every command of the pages runs as written, and says what they say it says, up to numbers."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import manifoldgp
from command_line import ENVIRONMENT, mgp
from manifoldgp import ManifoldGPRegressor
from results import PAGES, compared, rewritten, said, stale, steps

ROOT = Path(__file__).resolve().parents[2]


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


def run(command: str, folder: Path) -> str:
    """What a command prints; alone it runs in this process, which is faster, with pipes and the like in a shell."""
    words = shlex.split(command)
    if words[0] == "mgp" and not set(words) & {"|", "||", ">"}:
        done = mgp(*words[1:])
        return done.err + done.out
    return said(command, folder, ENVIRONMENT)


def half_a_minute(page):
    return pytest.param(page, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "page", ["README.md", "docs/suggest.md", half_a_minute("docs/command-line.md"), half_a_minute("docs/compare.md")]
)
def test_every_command_runs_and_says_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    assert page in PAGES
    assert len(steps(text)) >= 2
    left_out = []

    def run_or_leave_out(command: str) -> str:
        if missing := lacking(command):
            left_out.append(f"{command!r} needs {missing}")
        return "" if missing else run(command, tmp_path)

    for command, _, line, printed in compared(text, run_or_leave_out):
        if lacking(command):
            continue
        assert printed is not None, f"{command!r} should print {line!r}"
        assert not stale(line, printed), f"{command!r} prints {printed!r}, the page says {line!r}: run make results"
    for block in re.findall(r"```python\n(.*?)```", text, re.S) if page.startswith("docs") else ():
        exec(compile(block, page, "exec"), {})
    if left_out:
        pytest.skip("the rest ran; " + "; ".join(left_out))


PAGE = "Text 0.5\n```console\n$ mgp score\nRMSE   0.02516       0.08215\n...\nrows 300\n$ ls\nmany ...\n```\nRMSE 0.02516\n"


def test_stale_numbers_are_found_and_replaced():
    printed = {"mgp score": "note\nRMSE   0.08432   0.2753\nMAE 1.0\nrows 300\n", "ls": "many files\n"}
    found = list(compared(PAGE, printed.__getitem__))
    assert [stale(f.expected, f.printed) for f in found] == [True, False, False]
    assert rewritten(PAGE, printed.__getitem__) == PAGE.replace("RMSE   0.02516       0.08215", "RMSE   0.08432   0.2753")
    assert not stale("in the 90 % interval   98.0 %", "in the 90 % interval   98.7 %")
    assert stale("in the 90 % interval   98.0 %", "in the 90 % interval   80.7 %")
    assert next(compared(PAGE.replace("RMSE", "MSE"), printed.__getitem__)).printed is None


@pytest.mark.parametrize(("to", "name"), [("onnx", "model.onnx"), ("numpy", "model.npz")])
def test_exports_write_one_file_and_name_the_inputs(folder, tmp_path, to, name):
    if missing := lacking(f"mgp export --to {to}"):
        pytest.skip(f"needs {missing}")
    done = mgp("export", folder / "model.mgp", "--to", to, "--out", tmp_path / name)
    assert "Its inputs, in this order: x1, x2, surface=hard, surface=soft" in done.err
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(("to", "name"), [("onnx", "m.onnx"), ("numpy", "m.npz"), ("c", "m.c")])
def test_an_export_says_which_training_rows_it_holds_and_has_none_to_fill_gaps_with(tmp_path, to, name):
    """It held rows as they stood in the table, which nothing that reads it needs, and nobody was told."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"load": rng.normal(size=60).round(5), "kind": rng.choice(["a", "b"], 60)})
    table["y"] = table["load"] + 0.1 * rng.normal(size=60)
    table.loc[::7, "load"] = np.nan
    table.to_csv(tmp_path / "data.csv", index=False)
    model, plain = tmp_path / "m.mgp", ("--averaging", "plain", "--restarts", "1", "--quiet")
    mgp("fit", tmp_path / "data.csv", "-t", "y", "--missing", "impute", *plain, "--out", model)
    rows = [f"{value:.6g}" for value in manifoldgp.load(model).table_encoding_.donors._table[:, 0] if abs(value) > 0.1]
    assert sum(row in model.read_bytes().decode("latin-1") for row in rows) == len(rows)  # it fills gaps with them
    done = mgp("export", model, "--to", to, "--out", tmp_path / name)
    assert "Holds the inputs (standardised) of all 60 training rows, and weights from which their targets follow." in done.err
    text = (tmp_path / name).read_bytes().decode("latin-1")
    assert sum(row in text for row in rows) <= 2  # the ends of the column's range


def test_a_page_says_that_it_holds_training_rows(folder, tmp_path):
    done = mgp("report", folder / "model.mgp", "--out", tmp_path / "report.html")
    assert "The page holds training rows, as points of its pictures, and the model." in done.err


def test_an_export_as_c_says_what_it_needs(folder, tmp_path):
    done = mgp(
        "export",
        folder / "model.mgp",
        "--to",
        "c",
        "--gradient",
        "--dtype",
        "float32",
        "--max-members",
        1,
        "--out",
        tmp_path / "arm.c",
    )
    assert {path.name for path in tmp_path.iterdir()} == {"arm.c", "arm.h"}
    assert "of constants in flash" in done.err
    assert "Workspace, on the caller's stack or static" in done.err
    assert re.search(r"Distilled: 1 of \d+ members; [\d.e-]+ nats lost a row", done.err)
    header = (tmp_path / "arm.h").read_text()
    assert "x: x1, x2, surface=hard, surface=soft" in header
    assert "void arm_gradient(const float *x, float *mean, float *gradient, float *w);" in header


@pytest.mark.parametrize("option", [("--gradient",), ("--dtype", "float32")])
def test_options_that_a_format_does_not_have_are_refused(folder, tmp_path, option):
    done = mgp("export", folder / "model.mgp", "--to", "numpy", *option, "--out", tmp_path / "model.npz", code=2)
    assert "is for --to" in done.err


def test_the_snippets_of_a_page_name_the_model_as_it_is_called(folder, tmp_path):
    """They said model.mgp whatever the file was called, and had two names for a table of new rows."""
    shutil.copy(folder / "model.mgp", tmp_path / "left knee.mgp")
    mgp("report", tmp_path / "left knee.mgp", "--out", tmp_path / "report.html")
    text = unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert 'manifoldgp.load("left knee.mgp")' in text
    assert "mgp predict 'left knee.mgp' new.csv" in text
    assert "mgp export 'left knee.mgp' --to onnx --out 'left knee.onnx'" in text
    assert 'read_table("new.csv")' in text
    assert "model.mgp" not in text


def test_a_report_is_one_page_with_the_columns_names(folder, tmp_path):
    done = mgp("report", folder / "model.mgp", "--out", tmp_path / "report.html", "--title", "Hard and soft ground")
    assert (tmp_path / "report.html").resolve().as_uri() in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Hard and soft ground" in page
    assert "surface=hard" in page
