"""Commands that need no PyTorch do without it, and answer soon; what they read from the file is what the model says."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

import manifoldgp
from command_line import ENVIRONMENT, fails, mgp
from manifoldgp._system import tensor_file
from manifoldgp._system.model_header import read_header
from manifoldgp.cli._summary import summary_of
from manifoldgp.errors import FileFormatError

HEAVY = ("torch", "sklearn", "scipy", "pandas", "matplotlib")


def test_inspect_needs_neither_pytorch_nor_scikit_learn(folder):
    code = (
        "import sys; sys.argv = ['mgp', 'inspect', 'model.mgp', '--json']\n"
        "from manifoldgp.cli import main\n"
        "try: main()\n"
        f"except SystemExit: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=ENVIRONMENT, timeout=60)
    assert ran.stderr.strip() == "[]"
    assert json.loads(ran.stdout)["rows"] == 60


def loaded_after(command, modules, folder):
    """What mgp printed, and in the last line of its errors which of the modules it had loaded."""
    code = (
        f"import sys; sys.argv = ['mgp', *{command}]\n"
        "from manifoldgp.cli import main\n"
        "try: main()\n"
        f"except SystemExit: print([m for m in {modules} if m in sys.modules], file=sys.stderr)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=ENVIRONMENT, timeout=60)


@pytest.mark.parametrize(
    "command", [("predict", "model.mgp", "new.csv"), ("score", "model.mgp", "new.csv", "--json")], ids=["predict", "score"]
)
def test_predictions_need_neither_pytorch_nor_scikit_learn(folder, command):
    ran = loaded_after(command, ("torch", "sklearn", "scipy", "matplotlib", "manifoldgp.predictor.c_source"), folder)
    assert ran.stderr.strip().splitlines()[-1] == "[]"
    assert len(ran.stdout.splitlines()) > 10


@pytest.mark.parametrize("command", [("predict",), ("score", "--json")], ids=["predict", "score"])
@pytest.mark.parametrize("warping", [(), ("--target-warping", "tanh")], ids=["plain", "warped"])
def test_rows_with_gaps_need_neither_pytorch_nor_scikit_learn(tmp_path, command, warping):
    """Nor do warped targets, which started PyTorch; both say what the model says."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)}).assign(y=lambda t: np.sin(t.a) + t.b)
    table.loc[::5, "b"] = np.nan
    table.to_csv(tmp_path / "data.csv", index=False)
    model = tmp_path / "model.mgp"
    mgp("fit", tmp_path / "data.csv", "--target", "y", "--missing", "impute", "--averaging", "plain", *warping, "--out", model)
    ran = loaded_after((command[0], "model.mgp", "data.csv", *command[1:]), ("torch", "sklearn", "scipy", "matplotlib"), tmp_path)
    assert ran.stderr.strip().splitlines()[-1] == "[]"
    fitted = manifoldgp.load(model)
    X, y = table[["a", "b"]], table["y"].to_numpy()
    if command[0] == "score":
        scores = json.loads(ran.stdout)["scores"]["y"]
        assert scores["crps"] == pytest.approx(fitted.predict_crps(X, y).mean(), rel=1e-6)
        assert scores["nlpp"] == pytest.approx(-fitted.log_predictive_density(X, y).mean(), rel=1e-6)
    else:
        said = pd.read_csv(io.StringIO(ran.stdout))
        np.testing.assert_allclose(said[["mean", "std"]], np.stack(fitted.predict(X, return_std=True), 1), rtol=1e-5)


@pytest.mark.parametrize("command", [("fit", "--out", "other.mgp"), ("compare",)], ids=["fit", "compare"])
def test_a_bad_table_is_told_before_pytorch_is_there(tmp_path, command):
    (tmp_path / "data.csv").write_text("x,y\n1,2\n2,many\n3,4\n", encoding="utf-8")
    ran = loaded_after((command[0], "data.csv", "--target", "y", *command[1:]), ("torch", "sklearn"), tmp_path)
    told, modules = ran.stderr.strip().splitlines()[-2:]
    assert "Column 'y' must hold numbers; it has 'many'" in told
    assert modules == "[]"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--restarts", "9"), "--restarts has no effect on"),
        (("--averaging", "plain", "--inducing", "9"), "--inducing has no effect on"),
        (("--method", "local", "--averaging", "fast"), "--method local is for --averaging stack"),
        (("--kernel", "cubic"), "--kernel must be one of"),
        (("--target-warping", "log"), "--target-warping must be tanh"),
        (("--hidden", "4,two"), "--hidden must be layer sizes"),
    ],
)
def test_options_without_effect_are_told_before_pytorch_is_there(folder, options, told):
    """They waited for PyTorch, ten seconds on a busy machine, and for the table."""
    ran = loaded_after(
        ("fit", "data.csv", "--target", "y", "--out", "other.mgp", *options), ("torch", "sklearn", "pandas"), folder
    )
    assert told in ran.stderr
    assert ran.stderr.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "command",
    [("predict", "model.mgp", "new.csv"), ("score", "model.mgp", "new.csv"), ("inspect", "model.mgp")],
    ids=lambda c: c[0],
)
def test_nothing_is_collected_at_the_end(folder, command):
    """Python looked for cycles once more among a hundred thousand objects of pandas, a tenth of such a command's time."""
    code = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(len(gc.get_objects()), file=sys.stderr))\n"  # the last to be called
        f"sys.argv = ['mgp', *{command}]\n"
        "from manifoldgp.cli import main\n"
        "main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=ENVIRONMENT, timeout=60)
    assert int(ran.stderr.strip().splitlines()[-1]) < 1000


def test_a_program_and_the_model_say_the_same(folder, tmp_path):
    manifoldgp.load(folder / "model.mgp").save(tmp_path / "model.mgp")  # without the program
    assert "program" in read_header(folder / "model.mgp")
    assert "program" not in read_header(tmp_path / "model.mgp")
    new = pd.read_csv(folder / "new.csv")
    new.loc[3:6, "surface"] = "lava"
    new.to_csv(tmp_path / "new.csv", index=False)
    quick, slow = (
        [
            mgp(*command, "--allow-unknown", "--quiet").out
            for command in (("predict", model, tmp_path / "new.csv"), ("score", model, tmp_path / "new.csv", "--json"))
        ]
        for model in (folder / "model.mgp", tmp_path / "model.mgp")
    )
    one, other = (pd.read_csv(io.StringIO(answers[0])) for answers in (quick, slow))
    np.testing.assert_allclose(one, other, rtol=1e-7)
    scores = [json.loads(answers[1])["scores"]["y"] for answers in (quick, slow)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-7)


def test_inspect_costs_at_most_1_2_seconds_of_processor_time(folder):
    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    command, taken = [sys.executable, "-m", "manifoldgp", "inspect", "model.mgp"], []
    for _ in range(3):
        before = spent()
        subprocess.run(command, capture_output=True, cwd=folder, env=ENVIRONMENT, timeout=60, check=True)
        taken.append(spent() - before)
    assert min(taken) <= 1.2


def test_what_inspect_reads_is_what_the_model_says(folder, tmp_path):
    model = manifoldgp.load(folder / "model.mgp")
    kept, computed = read_header(folder / "model.mgp")["summary"], summary_of(model)
    numbers, again = kept.pop("numbers"), computed.pop("numbers")
    assert kept == json.loads(json.dumps(computed))
    assert numbers.keys() == again.keys()
    for name in numbers:
        np.testing.assert_allclose(np.array(numbers[name], float), np.array(again[name], float), rtol=1e-6, atol=1e-12)
    model.update(model.table_encoding_.inputs(manifoldgp.data.read_table(folder / "new.csv")), np.zeros(25))
    model.save(tmp_path / "more.mgp")  # another model now: the summary of the old one must not come along
    assert "summary" not in read_header(tmp_path / "more.mgp")
    assert json.loads(mgp("inspect", tmp_path / "more.mgp", "--json").out)["rows"] == 60 + 25


def test_a_header_is_what_the_loader_reads(folder):
    header, _ = tensor_file.read(folder / "model.mgp")
    assert read_header(folder / "model.mgp") == header


def test_damage_anywhere_is_seen_without_pytorch(folder, tmp_path):
    whole = (folder / "model.mgp").read_bytes()
    rng = np.random.default_rng(0)
    places = [0, 7, 8, 9, len(whole) - 1, *rng.integers(8, len(whole), 60).tolist()]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "m.mgp").write_bytes(damaged)
        with pytest.raises(FileFormatError):
            read_header(tmp_path / "m.mgp")
    for size in (0, 5, 8, 100, len(whole) - 1):
        (tmp_path / "m.mgp").write_bytes(whole[:size])
        with pytest.raises(FileFormatError, match="is not a model file, or it is damaged"):
            read_header(tmp_path / "m.mgp")
    save_file({"a": torch.zeros(2)}, tmp_path / "foreign.mgp")
    assert "but not a model of this package" in fails("inspect", tmp_path / "foreign.mgp")
