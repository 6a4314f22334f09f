"""No command writes over what it reads, and an outlier stops none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import manifoldgp
from command_line import ENVIRONMENT, fails, mgp
from manifoldgp import GPRegressor
from manifoldgp.cli._messages import Messages
from manifoldgp.errors import FitWarning
from manifoldgp.inspection.page import write_model_report


@pytest.fixture
def here(folder, tmp_path, monkeypatch) -> Path:
    """A folder to work in with data.csv and model.mgp, and other names of both."""
    monkeypatch.chdir(tmp_path)
    for name in ("data.csv", "model.mgp"):
        shutil.copy(folder / name, name)
        os.link(name, f"hard-{name}")
        os.symlink(name, f"soft-{name}")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


FIT = ["fit", "data.csv", "-t", "y", "--drop", "run", "--averaging", "single", "--restarts", "1", "--max-iter", "1"]


@pytest.mark.parametrize("arguments", [
    [*FIT, "--out", "data.csv"],
    [*FIT, "--out", "./data.csv"],
    [*FIT, "--out", "soft-data.csv"],
    [*FIT, "--out", "hard-data.csv"],
    ["fit", "d*.csv", *FIT[2:], "--out", "data.csv"],
    ["predict", "model.mgp", "data.csv", "--out", "data.csv"],
    ["predict", "model.mgp", "soft-data.csv", "--out", "hard-data.csv"],
    ["predict", "hard-model.mgp", "data.csv", "--out", "soft-model.mgp"],
    ["report", "model.mgp", "--out", "model.mgp"],
    ["report", "model.mgp", "--out", "hard-model.mgp"],
    ["export", "model.mgp", "--to", "numpy", "--out", "soft-model.mgp"],
    ["export", "./model.mgp", "--to", "onnx", "--out", "model.mgp"],
])  # fmt: skip
def test_an_output_that_is_an_input_is_wrong_usage(here, arguments):
    before = contents(here)
    told = fails(*arguments, code=2)
    assert told.startswith(f"mgp {arguments[0]}: Invalid value: {Path(arguments[-1])} is ")
    assert told.endswith(f"would destroy it. Name another file to write to. See: mgp {arguments[0]} --help")
    assert contents(here) == before


def test_the_place_of_an_unfinished_model_is_no_input_either(here):
    shutil.copy("data.csv", "table.unfinished.csv")
    told = fails("fit", "table.unfinished.csv", *FIT[2:], "--out", "table.csv", code=2)
    assert "table.unfinished.csv is one of the inputs" in told
    mgp("fit", "table.unfinished.csv", *FIT[2:], "--out", "table.csv", "--replace-if-interrupted", "--quiet")
    assert Path("table.unfinished.csv").read_bytes() == Path("data.csv").read_bytes()


def test_standard_input_is_an_input_too(here):
    before = contents(here)
    command = [sys.executable, "-m", "manifoldgp", "fit", "-", *FIT[2:], "--out", "data.csv"]
    with open("data.csv") as table:
        done = subprocess.run(command, stdin=table, capture_output=True, text=True, env=ENVIRONMENT, timeout=100)
    assert done.returncode == 2
    assert "data.csv is the same file as the one on standard input: writing there would destroy it." in done.stderr
    assert contents(here) == before


def test_an_outlier_has_a_probability_whatever_the_weights_round_to(here):
    """Weights sum to one up to rounding; with a sum of 1 + 1e-15 the CDF of an outlier must still be a probability."""
    model = manifoldgp.load("model.mgp")
    for weights in model.ensembles_[0].log_weights:
        weights += 1e-15
    model.save("rounded.mgp")
    table = pd.read_csv("data.csv")
    table.loc[3, "y"], table.loc[4, "y"] = 1e6, -1e6
    table.to_csv("outlier.csv", index=False)
    X = model.table_encoding_.inputs(table)
    cdf = model.predict_cdf(X, table["y"])
    assert cdf[3] == 1.0
    assert cdf[4] == 0.0
    scores = json.loads(mgp("score", "rounded.mgp", "outlier.csv", "--json").out)["scores"]["y"]
    assert scores["coverage_95"] <= 58 / 60
    page = write_model_report(model, here / "page.html", X=X, y=table["y"])
    assert page.stat().st_size > 10_000


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "data.csv", "-t", "y", "-o", "-"),
        ("report", "m.mgp", "--out", "-"),
        ("export", "m.mgp", "--to", "numpy", "--out", "-"),
    ],
)
def test_commands_that_write_files_only_do_not_take_standard_output(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("x,y\n1,2\n2,3\n")
    (tmp_path / "m.mgp").write_bytes(b"")
    assert "this command writes files only" in " ".join(mgp(*arguments, code=2).err.replace("│", " ").split())
    assert not (tmp_path / "-").exists()


def test_warnings_are_shown_when_they_are_given_each_once(capsys):
    with Messages().warnings_as_messages():
        for _ in range(2):
            warnings.warn("this takes long", UserWarning, stacklevel=1)
        assert capsys.readouterr().err == "warning: this takes long\n"  # before the work that it is about
        warnings.warn("nobody's business", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == ""


def test_what_takes_seconds_says_what_it_does(here):
    """A page takes 6 to 18 s, and the terminal was silent meanwhile."""
    assert "drawing its pictures" in mgp("report", "model.mgp", "--out", "r.html").err
    assert mgp("report", "model.mgp", "--out", "r.html", "--quiet").err == ""
    assert "Searching for experiments" in mgp("suggest", "model.mgp", "--learn", "--out", "next.csv").err
    assert "Writing the model as a program" in mgp("export", "model.mgp", "--to", "c", "--out", "m.c").err
    assert "Looking for a smaller model" in mgp("export", "model.mgp", "--to", "c", "--max-members", "1", "--out", "m.c").err


def test_the_header_of_a_c_model_names_inputs_and_targets(here):
    mgp("export", "model.mgp", "--to", "c", "--out", "m.c")
    header = Path("m.h").read_text(encoding="utf-8")
    assert "   x: x1, x2, surface=hard, surface=soft\n" in header
    assert "   mean and std: y\n" in header


def test_one_thing_is_one(tmp_path, monkeypatch):
    """`1 rows`, `1 predictions`, `1 of 1 rows`: a table of one row is the commonest to predict."""
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame({"x": np.arange(30.0), "y": np.arange(30.0) ** 2})
    rows.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "-t", "y", "--out", "m.mgp", "--averaging", "single", "--restarts", "1", "--max-iter", "1")
    rows[:1].assign(x=99.0).to_csv("one.csv", index=False)
    told = mgp("predict", "m.mgp", "one.csv", "--out", "p.csv").err
    assert "1 of 1 row lies outside the training rows" in told
    assert "Wrote 1 prediction to p.csv" in told
    shown = mgp("score", "m.mgp", "one.csv").out
    assert shown.splitlines()[0].strip() == "1 row"
    told = mgp("forecast", "data.csv", "-t", "y", "-n", "1", "--lags", "1", "--out", "f.csv").err
    assert "Wrote 1 step to f.csv" in told
    with pytest.warns(FitWarning, match=r"1 of 30 rows has a missing target \(NaN\)"):
        GPRegressor(restarts=1, max_iter=2).fit(rows[["x"]], rows["y"].where(rows["x"] > 0))
