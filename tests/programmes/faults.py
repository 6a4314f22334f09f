"""`make faults`: kill -9, full disks, quotas, no memory, signals, two writers, processes and threads. A file is the old one or the new one, and never a part."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pyarrow.csv  # noqa: F401  what a command imports when it is needed, children have from here: sympy by PyTorch
import rich.progress  # noqa: F401
import sympy  # noqa: F401
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import manifoldgp
import manifoldgp.cli
import manifoldgp.cli._app
import manifoldgp.cli._fitted
import manifoldgp.training.rich_bar
from manifoldgp import GPRegressor, ManifoldGPRegressor, Predictor, Single, Sparse
from manifoldgp.data import write_whole
from manifoldgp.data.table_files import write_table
from manifoldgp.errors import ManifoldGPError
from manifoldgp.inspection.page import write_model_report
from manifoldgp.predictor.onnx import export_onnx
from programmes.cases import Case, ForbiddenError, command_line

_FIT = ["fit", "data.csv", "--target", "y", "--out", "model.mgp"]
_SPARSE = [
    "--method", "sparse", "--averaging", "single", "--restarts", "2", "--inducing", "10", "--max-iter", "12", "--checkpoint", "progress",
]  # fmt: skip
_SMALL = ["--averaging", "single", "--restarts", "1", "--max-iter", "2", "--quiet"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_PATIENCE = 1800.0
"""Seconds after which a command hangs, on a machine with other work too."""


def _table(folder: Path, rows: int = 200) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.05 * rng.normal(size=rows)
    np.savetxt(folder / "data.csv", np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="")


class _Child:
    """A process of its own that runs a function; forked, so that it need not import anything first and many can be killed. What it prints goes to a file."""

    def __init__(self, folder: Path, function: Callable[[], object], limit: Callable[[], None] = lambda: None) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the child

        def run() -> None:
            for number in _SIGNALS:  # a programme in the background ignores some, and what it starts would too
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            os.chdir(folder)
            for stream in (1, 2):
                os.dup2(self._said.fileno(), stream)
            limit()
            sys.stdout, sys.stderr = (os.fdopen(stream, "w", buffering=1, closefd=False) for stream in (1, 2))
            function()

        self.process = multiprocessing.get_context("fork").Process(target=run)
        self.process.start()

    def killed_after(self, seconds: float) -> bool:
        """kill -9 after some time, and whether it was still running."""
        time.sleep(seconds)
        self.process.kill()
        self.ended()
        return self.process.exitcode == -signal.SIGKILL

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is so, or it is over."""
        end = time.perf_counter() + _PATIENCE
        while not reached() and self.process.is_alive() and time.perf_counter() < end:
            time.sleep(0.005)

    def ended(self, tracebacks: bool = False) -> str:
        """What it said, when it is over. tracebacks: whether it may show some, as torchrun does of a process that was killed."""
        self.process.join(_PATIENCE)
        with self._said:
            self._said.seek(0)
            said = self._said.read()
        if self.process.is_alive() or ("Traceback" in said and not tracebacks):
            raise ForbiddenError(f"it hangs, or a traceback: {said[-300:]}")
        return said


def _mgp(folder: Path, *arguments: str, limit: Callable[[], None] = lambda: None) -> _Child:
    """`mgp` as a child."""

    def command() -> None:
        sys.argv = ["mgp", *arguments]
        manifoldgp.cli.main()

    return _Child(folder, command, limit)


def _fitting(folder: Path, *options: str) -> _Child:
    """The sparse fit as a child."""
    return _mgp(folder, *_FIT, *_SPARSE, *options)


@cache
def _seconds_of_a_fit() -> tuple[float, np.ndarray]:
    """How long the sparse fit takes alone, and what it predicts."""
    with tempfile.TemporaryDirectory() as name:
        folder, begin = Path(name), time.perf_counter()
        _table(folder)
        said = _fitting(folder, "--quiet").ended()
        if not (folder / "model.mgp").exists():
            raise ForbiddenError(f"the fit fails without any fault: {said}")
        return time.perf_counter() - begin, _predicted(folder / "model.mgp")


def _predicted(path: Path) -> np.ndarray:
    return np.concatenate(manifoldgp.load(path).predict(np.array([[0.3, -0.2]]), return_std=True))


def _until_killed(rng: np.random.Generator, whole: float, attempt: Callable[[Path, bool, float], str | None]) -> str:
    """What an attempt to kill in the middle comes to. Half of them wait until there is a checkpoint to go on from; one that comes too late is tried again, earlier."""
    begun, seconds = rng.random() < 0.5, float(rng.uniform(0.0, 1.0)) * whole
    for _ in range(20):
        with tempfile.TemporaryDirectory() as name:
            _table(Path(name))
            if outcome := attempt(Path(name), begun, seconds):
                return outcome
        seconds *= 0.7
    raise ForbiddenError("no kill fell inside the fit")


def _has_begun(folder: Path) -> bool:
    """Whether a fit there has written a checkpoint."""
    return any(path.name.startswith("progress") for path in folder.iterdir())


def killed_fit(rng: np.random.Generator) -> str:
    """kill -9 of `mgp fit` at a random moment; the same command typed again ends with the same model to the last bit."""
    whole, expected = _seconds_of_a_fit()

    def attempt(folder: Path, begun: bool, seconds: float) -> str | None:
        child = _fitting(folder, "--quiet")
        if begun:
            child.until(lambda: _has_begun(folder))
        if not child.killed_after(seconds):
            return None
        if (folder / "model.mgp").exists():
            _predicted(folder / "model.mgp")
        said = _fitting(folder).ended()
        if not np.array_equal(_predicted(folder / "model.mgp"), expected):
            raise ForbiddenError("a resumed fit ends with another model")
        left = sorted(path.name for path in folder.iterdir())
        if left != ["data.csv", "model.mgp"]:
            raise ForbiddenError(f"files are left: {left}")
        return "killed, resumed" if "going on from the checkpoint" in said else "killed, anew"

    return _until_killed(rng, whole, attempt)


def _saving() -> None:
    """Write every kind of file, again and again."""
    model = manifoldgp.load("old.mgp")
    model.update([[0.1, 0.2]], [0.3])
    predictor, table = model.predictor(), pd.DataFrame({"a": np.arange(2000.0), "b": "text"})
    while True:
        for _ in range(10):  # a page takes longer to compute than all others to write
            model.save("model.mgp")
            predictor.save("predictor.npz")
            export_onnx(predictor, "model.onnx")
            predictor.to_c("robot.c")
            write_table(table, "table.csv")
        write_model_report(model, "page.html")


def _require_whole(folder: Path) -> None:
    """Every file that is there is whole."""
    readers: dict[str, Callable[[Path], object]] = {
        "model.mgp": _predicted, "predictor.npz": Predictor.load, "model.onnx": lambda path: onnx.checker.check_model(onnx.load(path)),
        "table.csv": lambda path: _require(len(pd.read_csv(path)) == 2000, "a table in part"),
        "page.html": lambda path: _require(path.read_text().rstrip().endswith("</html>"), "half a page"),
        "robot.c": lambda path: _require(path.read_text().rstrip().endswith("}"), "half a program"),
        "robot.h": lambda path: _require(path.read_text().rstrip().endswith("#endif"), "half a header"),
    }  # fmt: skip
    for name, read in readers.items():
        if (folder / name).exists():
            read(folder / name)


def _require(condition: bool, words: str) -> None:
    if not condition:
        raise ForbiddenError(words)


def killed_save(rng: np.random.Generator) -> str:
    """kill -9 of a process that writes files of every kind again and again: model, predictor, page, ONNX, C and table are whole, and what comes next sweeps up."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _small_model().save(folder / "old.mgp")
        child = _Child(folder, _saving)
        child.until(lambda: (folder / "table.csv").exists())
        child.killed_after(float(rng.uniform(0.0, 0.5)))
        _require((folder / "table.csv").exists(), "nothing was written")
        _require_whole(folder)
        partial = [path.name for path in folder.iterdir() if path.name.startswith(".partial")]
        for file in (
            folder / "model.mgp",
            folder / "predictor.npz",
            *(folder / n for n in ("page.html", "model.onnx", "robot.c", "robot.h", "table.csv")),
        ):
            write_whole(file, b"whoever writes next sweeps up")
        _require(not [path for path in folder.iterdir() if path.name.startswith(".partial")], "partial files stay")
        return "whole, cut off while writing" if partial else "whole"


@cache
def _small_model() -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    return GPRegressor(restarts=1, max_iter=5).fit(X, np.sin(X[:, 0]))


def _shared_fit() -> None:
    """`mgp fit` as one of several processes."""
    sys.argv = ["mgp", *_FIT, *_SPARSE]
    try:
        manifoldgp.cli.main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"exit code {end.code}") from end


def _launched() -> None:
    """What `torchrun --standalone --nproc-per-node=2 --max-restarts=2` does, by the function that it calls; its processes are forked and need not import anything first."""
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=2, max_restarts=2, start_method="fork", rdzv_backend="c10d", rdzv_endpoint="localhost:0", run_id=str(os.getpid()),
        monitor_interval=0.2, logs_specs=DefaultLogsSpecs(),
    )  # fmt: skip
    elastic_launch(config, _shared_fit)()


def _children(pid: int) -> list[int]:
    """Processes that any thread of a process started."""
    with suppress(OSError):
        return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return []


def killed_rank(rng: np.random.Generator) -> str:
    """kill -9 of one of the processes that torchrun started: the job goes on from its checkpoint, and ends with the model of one that nobody disturbed."""
    alone, expected = _seconds_of_a_shared_fit()

    def attempt(folder: Path, begun: bool, seconds: float) -> str | None:
        child = _Child(folder, _launched)
        child.until(lambda: _has_begun(folder) if begun else len(_children(child.process.pid or 0)) >= 2)
        time.sleep(seconds)
        killed = _kill_one(_children(child.process.pid or 0), rng)
        said = child.ended(tracebacks=True)
        if not (folder / "model.mgp").exists():
            raise ForbiddenError(f"no model: {said[-500:]}")
        if not np.array_equal(_predicted(folder / "model.mgp"), expected):
            raise ForbiddenError("a resumed fit ends with another model")
        if not (killed and "SIGKILL" in said):  # torchrun tells of a process that was killed; else the job was over
            return None
        return "killed, resumed" if "going on from the checkpoint" in said else "killed, anew"

    return _until_killed(rng, 0.5 * alone, attempt)  # the other half is the launcher's


def _kill_one(ranks: list[int], rng: np.random.Generator) -> bool:
    """Whether there was a process to kill."""
    with suppress(ProcessLookupError):
        if ranks:
            os.kill(ranks[rng.integers(len(ranks))], signal.SIGKILL)
            return True
    return False


@cache
def _seconds_of_a_shared_fit() -> tuple[float, np.ndarray]:
    """How long a fit that two processes share takes when nobody disturbs it, and what it predicts."""
    with tempfile.TemporaryDirectory() as name:
        folder, begin = Path(name), time.perf_counter()
        _table(folder)
        said = _Child(folder, _launched).ended(tracebacks=True)
        if not (folder / "model.mgp").exists():
            raise ForbiddenError(f"the fit fails without any fault: {said[-500:]}")
        return time.perf_counter() - begin, _predicted(folder / "model.mgp")


def signalled_fit(rng: np.random.Generator) -> str:
    """SIGTERM, SIGINT and SIGHUP at a random moment: no traceback, an older model stays whole, and what was trained so far is kept beside it."""
    whole, _ = _seconds_of_a_fit()
    number = _SIGNALS[rng.integers(3)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _table(folder)
        _small_model().save(folder / "model.mgp")
        before = (folder / "model.mgp").read_bytes()
        child = _mgp(folder, *_FIT, "--averaging", "single", "--max-iter", "100000", "--restarts", "3")
        time.sleep(float(rng.uniform(0.1, 2.0)) * whole)
        os.kill(child.process.pid or 0, number)
        child.ended()
        code, kept = child.process.exitcode, folder / "model.unfinished.mgp"
        if code not in (0, 128 + number, -number):
            raise ForbiddenError(f"exit code {code} after signal {number}")
        if code and (folder / "model.mgp").read_bytes() != before:
            raise ForbiddenError("an unfinished model took the place of a finished one")
        if kept.exists():
            _predicted(kept)
        if not code:
            return "finished before"
        return (
            f"ended by {signal.Signals(number).name}, {'the best so far is kept' if kept.exists() else 'nothing was trained yet'}"
        )


def _limited(kind: int, amount: int) -> Callable[[], None]:
    def limit() -> None:
        if kind == resource.RLIMIT_FSIZE:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing then fails as on a full disk
        resource.setrlimit(kind, (amount, amount))

    return limit


def full_disk(rng: np.random.Generator) -> str:
    """A quota (`ulimit -f`) of some kilobytes: one line says so, the old model is whole, nothing partial is left."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _table(folder)
        _small_model().save(folder / "model.mgp")
        before = (folder / "model.mgp").read_bytes()
        amount = int(rng.integers(1, 60)) * 1024  # what it says goes to a file too
        child = _mgp(folder, *_FIT, *_SMALL, limit=_limited(resource.RLIMIT_FSIZE, amount))
        said, code = child.ended(), child.process.exitcode
        left = sorted(path.name for path in folder.iterdir())
        if code and ((folder / "model.mgp").read_bytes() != before or left != ["data.csv", "model.mgp"]):
            raise ForbiddenError(f"a full disk left {left}, or another model")
        if code and len(said.strip().splitlines()) != 1:
            raise ForbiddenError(f"not one line: {said[-300:]}")
        return "told" if code else "written"


def no_memory(rng: np.random.Generator) -> str:
    """A limit on memory (`ulimit -v`): the fit ends, or says in its last line that memory is short."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _table(folder, 1000)
        beyond = int(rng.integers(256, 80 * 1024)) * 1024  # about half of it is enough: libraries are loaded already

        def limit() -> None:
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            resource.setrlimit(resource.RLIMIT_AS, (taken + beyond, taken + beyond))

        child = _mgp(folder, *_FIT, *_SMALL, "--method", "exact", limit=limit)
        said, code = child.ended(), child.process.exitcode
        if code == 0:
            return "fitted"
        if code != 1 or "memory" not in said or len(said.strip().splitlines()) != 1:
            raise ForbiddenError(f"{beyond >> 10} KiB beyond, exit code {code}: {said[-300:]}")
        return "told in one line"


def read_only_folder(rng: np.random.Generator) -> str:
    """A folder that may not be written to is refused before any work; root may write everywhere."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _table(folder)
        folder.chmod(0o500)
        try:
            child = _mgp(folder, *_FIT, *_SMALL)
            said, code = child.ended(), child.process.exitcode
        finally:
            folder.chmod(0o700)
        if code == 0 and os.geteuid() != 0:
            raise ForbiddenError("a file in a folder that may not be written to")
        if code and len(said.strip().splitlines()) != 1:
            raise ForbiddenError(f"not one line: {said[-300:]}")
        return "told" if code else "written, as root may"


def two_writers(rng: np.random.Generator) -> str:
    """Several threads write one file while another reads it: every reader sees a whole model."""
    with tempfile.TemporaryDirectory() as name:
        path, models = Path(name) / "model.mgp", [_small_model(), _small_model()]
        models[0].save(path)
        with ThreadPoolExecutor(4) as pool:
            writing = [pool.submit(lambda m=model: [m.save(path) for _ in range(5)]) for model in models]
            reading = pool.submit(lambda: [_predicted(path) for _ in range(5)])
            for future in (*writing, reading):
                future.result()
        if [p for p in Path(name).iterdir() if p != path]:
            raise ForbiddenError("partial files stay")
        return "whole"


def _fit_and_predict(seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ManifoldGPRegressor((2,), averaging=Single(restarts=2, max_iter=5)).fit(X, np.sin(X[:, 0]))
    return model.predict(X[:3]).tolist()


def processes_and_threads(rng: np.random.Generator) -> str:
    """Fits in forked and spawned processes and in threads give the numbers of a fit alone; one thread predicts while another fits."""
    seed = int(rng.integers(1000))
    alone = _fit_and_predict(seed)
    for way in ("fork", "spawn")[: 1 + int(rng.random() < 0.3)]:
        with multiprocessing.get_context(way).Pool(1) as pool:
            found = pool.apply_async(_fit_and_predict, (seed,)).get(timeout=200)
        if not np.allclose(found, alone, rtol=1e-9):
            raise ForbiddenError(f"other numbers by {way}")
    stop, model, wrong = threading.Event(), _small_model(), []
    expected = model.predict(np.zeros((1, 2)))

    def predict() -> None:
        while not stop.is_set():
            if not np.array_equal(model.predict(np.zeros((1, 2))), expected):
                wrong.append(1)

    thread = threading.Thread(target=predict)
    thread.start()
    try:
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(_fit_and_predict, [seed, seed]))
    finally:
        stop.set()
        thread.join()
    if wrong or not np.allclose(found, alone, rtol=1e-9):
        raise ForbiddenError("other numbers beside other threads")
    return "same"


def _fit_with_checkpoint(path: Path | None, stop_at: int = 10**9, seed: int = 0) -> np.ndarray:
    """What a small sparse fit predicts; it is interrupted when it has been asked so many times."""
    calls = [0]

    def callback(iterations: np.ndarray, values: np.ndarray) -> bool:
        calls[0] += 1
        if calls[0] > stop_at:
            raise InterruptedError
        return False

    X = np.random.default_rng(seed).normal(size=(80, 2))
    average = Single(restarts=2, max_iter=10)
    model = ManifoldGPRegressor((2,), averaging=average, method=Sparse(inducing=8, checkpoint=path), callback=callback)
    return model.fit(X, np.sin(X[:, 0])).predict(np.zeros((1, 2)))


@cache
def _uninterrupted(seed: int) -> np.ndarray:
    return _fit_with_checkpoint(None, seed=seed)


def damaged_checkpoint(rng: np.random.Generator) -> str:
    """A checkpoint with changed bytes, or of another fit: refused, or computed anew, and the model is that of an uninterrupted fit."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path, stop_at = Path(name) / "c", int(rng.integers(1, 60))
        while not (files := list(Path(name).iterdir())):
            with suppress(InterruptedError):
                _fit_with_checkpoint(path, stop_at)
            stop_at = 1 + stop_at // 2  # it was finished before
        data = bytearray(files[0].read_bytes())
        for position in rng.integers(len(data), size=rng.integers(0, 4)):
            data[position] ^= 1 << int(rng.integers(8))
        files[0].write_bytes(bytes(data[: int(rng.integers(len(data) // 2, len(data) + 1))]))
        other = int(rng.random() < 0.2)
        try:
            found = _fit_with_checkpoint(path, seed=other)
        except ManifoldGPError:
            return "refused"
        if not np.array_equal(found, _uninterrupted(other)):
            raise ForbiddenError("a damaged checkpoint led to another model")
        return "the same model"


AREAS: dict[str, Case] = {
    "killed-fit": killed_fit, "killed-save": killed_save, "killed-rank": killed_rank, "signals": signalled_fit, "full-disk": full_disk, "no-memory": no_memory,
    "read-only": read_only_folder, "two-writers": two_writers, "processes": processes_and_threads, "checkpoints": damaged_checkpoint,
}  # fmt: skip

if __name__ == "__main__":
    command_line(__doc__ or "", "programmes.faults", AREAS, minutes=30)
