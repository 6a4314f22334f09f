"""Several processes, started by torchrun: the same model however many there are, and one that goes on when a process is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import manifoldgp
from command_line import mgp
from manifoldgp import Single, Sparse, Stack
from manifoldgp.errors import InputError
from manifoldgp.training.processes import _store

pyarrow = pytest.importorskip("pyarrow", reason="files are read by pyarrow, which is not installed")
N = 6000
_SECONDS = 240


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=N)
    for i, rows in enumerate(np.array_split(np.arange(N), 3)):
        columns = {f"x{d}": X[rows, d] for d in range(3)}
        parquet.write_table(pyarrow.table({**columns, "y": y[rows]}), folder / f"part{i}.parquet", row_group_size=700)
    return folder


def torchrun(processes: int, files: Path, out: Path, *more: str, restarts: int = 0) -> subprocess.Popen:
    """The documented command, in the folder of the files."""
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", f"--max-restarts={restarts}"]
    command = [
        *launcher,
        "-m",
        "manifoldgp",
        "fit",
        "part*.parquet",
        "--target",
        "y",
        "--out",
        str(out),
        "--averaging",
        "single",
        *more,
    ]
    source = str(Path(manifoldgp.__file__).parents[1])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": source, "MASTER_PORT": str(20_000 + os.getpid() % 20_000)}
    return subprocess.Popen(command, cwd=files, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen) -> str:
    output, errors = process.communicate(timeout=_SECONDS)
    assert process.returncode == 0, errors
    return output + errors


@pytest.fixture(scope="module")
def alone(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("alone") / "model.mgp"
    finished(torchrun(1, files, out, "--max-iter", "10", "--restarts", "2", "--inducing", "40"))
    return manifoldgp.load(out)


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_any_number_of_processes_gives_the_same_model(processes, files, alone, tmp_path):
    out = tmp_path / "model.mgp"
    said = finished(torchrun(processes, files, out, "--max-iter", "10", "--restarts", "2", "--inducing", "40"))
    assert said.count("6,000 rows, NLML at most") == 1  # one process speaks for all
    model = manifoldgp.load(out)
    X = np.random.default_rng(1).normal(size=(50, 3))
    with pytest.warns(UserWarning, match="feature names"):
        pairs = list(zip(model.predict(X, return_std=True), alone.predict(X, return_std=True), strict=True))
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)
    assert model.nlml_ == pytest.approx(alone.nlml_, abs=1e-8 * N)


def test_a_single_process_without_torchrun_gives_the_same_model(files, alone):
    from manifoldgp.estimators.fit_files import fit_files

    out = files / "single.mgp"
    model = fit_files(files / "part*.parquet", "y", out, averaging=Single(restarts=2, max_iter=10), method=Sparse(inducing=40))
    assert model.nlml_ == pytest.approx(alone.nlml_, abs=1e-8 * N)


_STACK = """
import sys
from manifoldgp import Sparse, Stack
from manifoldgp.estimators.fit_files import fit_files

sizes = Stack(steps=(2, 4), warm_iterations=2, fold_members=1, warm_members=1, cold_members=2, own_members=1)
fit_files("few.parquet", "y", sys.argv[1], averaging=sizes, method=Sparse(inducing=12))
"""


@pytest.mark.slow
def test_two_processes_take_the_same_decisions_about_a_stack_as_one(tmp_path):
    from pyarrow import parquet

    X = np.random.default_rng(0).normal(size=(300, 2))
    parquet.write_table(
        pyarrow.table({"x0": X[:, 0], "x1": X[:, 1], "y": np.sin(2 * X[:, 0]) + X[:, 1] ** 2}), tmp_path / "few.parquet"
    )
    (tmp_path / "stack.py").write_text(_STACK)
    models = []
    for processes in (1, 2):
        launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
        out, source = tmp_path / f"{processes}.mgp", str(Path(manifoldgp.__file__).parents[1])
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": source,
            "MASTER_PORT": str(20_000 + os.getpid() % 20_000),
        }
        command = [*launcher, str(tmp_path / "stack.py"), str(out)]
        finished(
            subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        models.append(manifoldgp.load(out))
    one, two = models
    assert two.starts_["group"].tolist() == one.starts_["group"].tolist()
    assert two.starts_["iterations"].tolist() == one.starts_["iterations"].tolist()
    np.testing.assert_allclose(two.held_out_[0].weights, one.held_out_[0].weights, atol=1e-6)
    assert not list(tmp_path.glob("*.checkpoint*"))


_FEW = """
import sys
from manifoldgp import Stack
from manifoldgp.estimators.fit_files import fit_files

sizes = Stack(deals=1, steps=(3, 6), warm_iterations=3, gp_starts=2, warm_members=1, cold_members=2, own_members=2, fold_members=1)
fit_files("few.csv", "y", sys.argv[1], averaging=sizes, time_budget=100.0)
"""


def test_two_processes_share_the_members_of_a_stack_of_few_rows(tmp_path):
    from manifoldgp.estimators.fit_files import fit_files

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    table = np.column_stack([X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=60)])
    np.savetxt(tmp_path / "few.csv", table, delimiter=",", header="x0,x1,y", comments="")
    (tmp_path / "few.py").write_text(_FEW)
    source = str(Path(manifoldgp.__file__).parents[1])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": source, "MASTER_PORT": str(20_000 + os.getpid() % 20_000)}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", str(tmp_path / "few.py"), "two.mgp"]
    finished(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    two, settings = manifoldgp.load(tmp_path / "two.mgp"), Stack(
        deals=1, steps=(3, 6), warm_iterations=3, gp_starts=2, warm_members=1, cold_members=2, own_members=2, fold_members=1
    )  # fmt: skip
    one = fit_files(tmp_path / "few.csv", "y", tmp_path / "one.mgp", averaging=settings, time_budget=100.0)
    assert two.method_ == one.method_ == "exact"
    assert two.starts_["group"].tolist() == one.starts_["group"].tolist()
    with pytest.warns(UserWarning, match="feature names"):
        pairs = list(zip(two.predict(X, return_std=True), one.predict(X, return_std=True), strict=True))
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert not list(tmp_path.glob("*.checkpoint*"))


def test_commands_know_the_columns_of_a_model_of_files(files, alone, tmp_path):
    model = tmp_path / "one.mgp"
    alone.save(model)
    assert alone.table_encoding_.targets == ("y",)
    scores = json.loads(mgp("score", model, files / "part0.parquet", "--json").out)["scores"]
    assert list(scores) == ["y"]
    mgp("predict", model, files / "part0.parquet", "--out", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text().startswith("mean,std")
    assert "x0" in mgp("inspect", model).out


def test_a_world_size_alone_is_no_torchrun(files, tmp_path, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")  # other launchers set it too
    options = (
        "--averaging",
        "single",
        "--restarts",
        "1",
        "--max-iter",
        "1",
        "--method",
        "sparse",
        "--inducing",
        "5",
        "--drop",
        "x2",
    )
    mgp(
        "fit", files / "part0.parquet", "--target", "y", "--out", tmp_path / "m.mgp", "--quiet", *options
    )  # --drop is not for torchrun
    assert manifoldgp.load(tmp_path / "m.mgp").n_features_in_ == 2


@pytest.mark.slow
def test_a_killed_process_makes_the_job_go_on_from_its_checkpoint(files, tmp_path):
    out = tmp_path / "model.mgp"
    job = torchrun(
        2, files, out, "--max-iter", "100000", "--time-budget", "15", "--restarts", "1", "--inducing", "150", restarts=2
    )
    try:
        found = tmp_path.glob
        checkpoint = _wait_for(lambda: next((p for p in found("model.mgp.checkpoint.*") if p.stat().st_size > 10_000), None), job)
        assert checkpoint
        children = _wait_for(lambda: _children(job.pid), job)
        os.kill(children[-1], signal.SIGKILL)
        said = finished(job)
    finally:
        if job.poll() is None:
            job.terminate()  # it ends its processes
            job.wait(60)
    assert "going on from the checkpoint" in said
    model = manifoldgp.load(out)
    assert model.ensembles_[0].blocks[0].rows == N
    assert not list(tmp_path.glob("*.checkpoint*"))


def test_what_is_wrong_is_told_in_one_line(files, tmp_path):
    job = torchrun(1, files, tmp_path / "model.mgp", "--features", "x9")
    _, errors = job.communicate(timeout=_SECONDS)
    assert job.returncode != 0
    assert "has no column x9" in errors


def test_a_model_is_not_written_over_the_rows_it_is_fitted_to(files):
    from manifoldgp.estimators.fit_files import fit_files

    before = {path.name: path.read_bytes() for path in files.iterdir()}
    with pytest.raises(InputError, match=r"is one of the inputs: writing there would destroy it"):
        fit_files(files / "part*.parquet", "y", sorted(files.glob("part*.parquet"))[-1])
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("needs /proc to find the processes that torchrun started")
    return [int(child) for child in path.read_text().split()]


def _wait_for(answer, job: subprocess.Popen):
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        if job.poll() is not None:
            raise AssertionError(f"the job ended too early: {job.communicate()[1]}")
        if found := answer():
            return found
        time.sleep(0.05)
    raise AssertionError("nothing happened")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems may have one loopback address only")
def test_processes_find_each_other_at_the_address_that_was_given_and_nowhere_else(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    first = _store()
    monkeypatch.setenv("RANK", "1")
    second = _store()
    first.set("greeting", "hello")
    assert second.get("greeting") == b"hello"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)
