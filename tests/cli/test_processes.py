"""The command line as a shell sees it: pipes, exit codes, interrupts, what goes to which stream."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import manifoldgp
from command_line import ENVIRONMENT, mgp, process
from manifoldgp._system.model_header import read_header
from manifoldgp.cli import main
from manifoldgp.dynamics import DynamicsModel
from manifoldgp.errors import InputError


def test_a_table_goes_through_a_pipe_and_nothing_else_goes_to_standard_output(folder):
    table = (folder / "new.csv").read_text()
    done = process("predict", folder / "model.mgp", "-", stdin=table)
    assert done.code == 0
    predictions = pd.read_csv(io.StringIO(done.out))
    assert list(predictions.columns) == ["mean", "std", "q05", "q50", "q95"]
    assert len(predictions) == 25
    model = manifoldgp.load(folder / "model.mgp")
    new = pd.read_csv(folder / "new.csv")
    mean, std = model.predict(model.table_encoding_.inputs(new), return_std=True)
    pd.testing.assert_series_equal(predictions["mean"], pd.Series(mean, name="mean"), rtol=1e-9)
    pd.testing.assert_series_equal(predictions["std"], pd.Series(std, name="std"), rtol=1e-9)


def test_a_reader_that_has_seen_enough_causes_no_traceback(folder):
    big = pd.concat([pd.read_csv(folder / "new.csv")] * 400)
    big.to_csv(folder / "big.csv", index=False)
    command = f"{sys.executable} -m manifoldgp predict model.mgp big.csv | head -2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=folder, env=ENVIRONMENT, timeout=200)
    assert done.stdout.startswith("mean,std,q05")
    assert done.stderr == ""


def test_wrong_usage_is_told_in_one_line_with_exit_code_2(folder):
    done = process("fit", "data.csv", "--out", "m.mgp", cwd=folder)
    assert done == (2, "", "mgp fit: Missing option '--target' / '-t'. See: mgp fit --help\n")


def test_bad_data_is_told_in_one_line_with_exit_code_1(folder, monkeypatch):
    fit = ("fit", "data.csv", "--target", "why", "--out", "m.mgp")
    done = process(*fit, cwd=folder)
    assert done == (1, "", "mgp: The table has no column 'why'. It has: x1, x2, surface, run, y.\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["mgp", *fit, "--debug"])
    with pytest.raises(InputError, match="has no column 'why'"):  # of which Python shows the traceback
        main()


def _interrupt(arguments, folder, said, *numbers):
    started = subprocess.Popen(
        [sys.executable, "-m", "manifoldgp", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=ENVIRONMENT,
    )  # fmt: skip
    assert started.stderr is not None
    for line in started.stderr:
        if said in line:
            break
    time.sleep(0.2)
    for number in numbers or [signal.SIGINT]:
        started.send_signal(number)
    out, err = started.communicate(timeout=100)
    return started.returncode, out, err


ENDING = "mgp: Interrupted: training is ending, which takes some seconds.{}\n"  # said at once
AGAIN = ENDING.format(" Ctrl-C again ends at once.")  # to who can
ENDLESS = ["--averaging", "single", "--max-iter", "1000000", "--restarts", "200", "--drop", "run"]


def test_an_interrupt_keeps_the_best_model_so_far(folder):
    code, out, err = _interrupt(
        ["fit", "data.csv", "--target", "y", *ENDLESS, "--out", "early.mgp"], folder, "training 1/1 starts"
    )
    assert (code, out) == (130, "")
    assert err == AGAIN + "mgp: Interrupted. The best model so far is in early.mgp; the same command fits it to the end.\n"
    early = manifoldgp.load(folder / "early.mgp")
    assert "stopped by callback" in set(early.starts_["status"])
    assert {"summary", "program"} <= set(read_header(folder / "early.mgp"))  # so that what follows needs no PyTorch
    mgp("predict", folder / "early.mgp", folder / "new.csv")
    assert "Training was interrupted: this is the best model" in " ".join(mgp("inspect", folder / "early.mgp").out.split())


@pytest.mark.parametrize(("numbers", "code"), [([signal.SIGTERM, signal.SIGTERM], 143), ([signal.SIGHUP, signal.SIGHUP], 129)])
def test_other_signals_keep_the_best_model_too_and_spare_an_older_one(folder, numbers, code):
    older = folder / f"older-{code}.mgp"
    older.write_bytes((folder / "model.mgp").read_bytes())
    fit = ["fit", "data.csv", "--target", "y", *ENDLESS, "--out", older.name]
    ended, out, err = _interrupt(fit, folder, "training 1/1 starts", *numbers)
    assert (ended, out) == (code, "")
    assert (
        err
        == ENDING.format("")
        + f"mgp: Interrupted. The best model so far is in older-{code}.unfinished.mgp; older-{code}.mgp is as it was.\n"
    )
    assert older.read_bytes() == (folder / "model.mgp").read_bytes()
    early = manifoldgp.load(folder / f"older-{code}.unfinished.mgp")
    assert "stopped by callback" in set(early.starts_["status"])


def test_an_interrupted_fit_replaces_an_older_model_if_asked(folder):
    older = folder / "replaced.mgp"
    older.write_bytes((folder / "model.mgp").read_bytes())
    fit = ["fit", "data.csv", "--target", "y", *ENDLESS, "--out", older.name, "--replace-if-interrupted"]
    code, _, err = _interrupt(fit, folder, "training 1/1 starts")
    assert code == 130
    assert err == AGAIN + "mgp: Interrupted. The best model so far is in replaced.mgp; the same command fits it to the end.\n"
    assert "stopped by callback" in set(manifoldgp.load(older).starts_["status"])
    assert not (folder / "replaced.unfinished.mgp").exists()


def test_a_terminal_that_is_closed_takes_no_model_with_it(folder):
    """The fit has a terminal of its own, which goes away under the progress bar: messages fail from then on."""
    terminal, end = os.openpty()
    code = (
        "import fcntl, runpy, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); runpy.run_module('manifoldgp', run_name='__main__')"
    )
    fit = ["fit", "data.csv", "--target", "y", *ENDLESS, "--out", "closed.mgp"]
    started = subprocess.Popen(
        [sys.executable, "-c", code, *fit],
        stdin=end, stdout=end, stderr=end, start_new_session=True, cwd=folder, env=ENVIRONMENT,
    )  # fmt: skip
    os.close(end)
    said = b""
    while b"starts" not in said:
        said += os.read(terminal, 1000)
    time.sleep(0.3)
    os.close(terminal)
    assert started.wait(timeout=100) == 129
    assert "stopped by callback" in set(manifoldgp.load(folder / "closed.mgp").starts_["status"])


def test_dynamics_that_are_interrupted_keep_the_best_so_far_and_an_older_model(folder):
    """Ctrl-C had lost everything."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=300), "v": rng.normal(size=300)})
    table.to_csv(folder / "runs.csv", index=False)
    (folder / "moves.mgp").write_bytes(b"older")
    fit = ["dynamics", "fit", "runs.csv", "--states", "x,v", "--rate", "x=v", "--out", "moves.mgp"]
    code, out, err = _interrupt(fit, folder, "nested on folds")
    assert (code, out) == (130, "")
    assert err.endswith("mgp: Interrupted. The best model so far is in moves.unfinished.mgp; moves.mgp is as it was.\n")
    assert (folder / "moves.mgp").read_bytes() == b"older"
    assert DynamicsModel.load(folder / "moves.unfinished.mgp").space_.state_names == ("x", "v")


def test_an_interrupt_before_the_last_target_writes_nothing(folder):
    code, out, err = _interrupt(
        ["fit", "data.csv", "-t", "y", "-t", "x1", *ENDLESS, "--out", "half.mgp"], folder, "training target 1/2"
    )
    assert (code, out) == (130, "")
    assert err == AGAIN + "mgp: Interrupted at target 1 of 2: no model was written.\n"
    assert not [path.name for path in folder.iterdir() if path.name.startswith(("half", ".", "partial"))]


@pytest.mark.parametrize("arguments", [("--help",), ("fit", "--help"), ("--version",)])
def test_help_and_version_load_nothing_heavy(arguments):
    code = (
        "import sys, atexit; atexit.register(lambda: print('heavy:', [m for m in ('torch', 'numpy', 'pandas', 'sklearn', 'matplotlib') "
        "if m in sys.modules])); from manifoldgp.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_exit_codes_are_in_the_help():
    done = process("--help")
    words = " ".join(done.out.split())
    assert (
        "Exit codes: 0 done, 1 something is wrong with the data, the model or a file, 2 wrong usage, 130 interrupted, 143 by SIGTERM, 129 by SIGHUP."
        in words
    )
    for command in (
        "example",
        "compare",
        "fit",
        "search",
        "forecast",
        "inspect",
        "report",
        "predict",
        "score",
        "suggest",
        "export",
        "bench",
    ):
        assert f" {command} " in words


def test_the_shell_completes_commands_and_options():
    shown = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m manifoldgp --show-completion; exit $?"],
        capture_output=True, text=True, env=ENVIRONMENT, timeout=60,
    )  # fmt: skip
    assert shown.returncode == 0
    assert "complete -o default -F _mgp_completion mgp" in shown.stdout
    environment = ENVIRONMENT | {"_MGP_COMPLETE": "complete_bash", "COMP_WORDS": "mgp pre", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-m", "manifoldgp"], capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout.split() == ["predict"]
    environment |= {"COMP_WORDS": "mgp fit --aver", "COMP_CWORD": "2"}
    done = subprocess.run([sys.executable, "-m", "manifoldgp"], capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout.split() == ["--averaging"]
