"""`make faults`: kill -9, full disks, quotas, no memory, signals, two writers, processes and threads. A file is the old one or the new one, and never a part."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
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

import manifoldgp
from command_line import ENVIRONMENT
from manifoldgp import GPRegressor, ManifoldGPRegressor, Predictor, Single, Sparse
from manifoldgp.errors import ManifoldGPError
from programmes.cases import Case, ForbiddenError, command_line

_FIT = ["fit", "data.csv", "--target", "y", "--out", "model.mgp"]
_SPARSE = [
    "--method",
    "sparse",
    "--averaging",
    "single",
    "--restarts",
    "2",
    "--inducing",
    "20",
    "--max-iter",
    "40",
    "--checkpoint",
    "progress",
]


def _table(folder: Path, rows: int = 300) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.05 * rng.normal(size=rows)
    np.savetxt(folder / "data.csv", np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="")


def _start(folder: Path, *arguments: str, limit: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "manifoldgp", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=limit
    )


def _finish(job: subprocess.Popen[str], seconds: float = 300.0) -> str:
    out, err = job.communicate(timeout=seconds)
    if "Traceback" in err:
        raise ForbiddenError(f"a traceback: {err[-300:]}")
    return out + err


@cache
def _seconds_of_a_fit() -> tuple[float, np.ndarray]:
    """How long the sparse fit takes alone, and what it predicts."""
    with tempfile.TemporaryDirectory() as name:
        folder, begin = Path(name), time.perf_counter()
        _table(folder)
        job = _start(folder, *_FIT, *_SPARSE, "--quiet")
        _finish(job)
        if job.returncode:
            raise ForbiddenError("the fit fails without any fault")
        return time.perf_counter() - begin, _predicted(folder / "model.mgp")


def _predicted(path: Path) -> np.ndarray:
    return np.concatenate(manifoldgp.load(path).predict(np.array([[0.3, -0.2]]), return_std=True))


def killed_fit(rng: np.random.Generator) -> str:
    """kill -9 of `mgp fit` at a random moment; the same command typed again ends with the same model to the last bit."""
    whole, expected = _seconds_of_a_fit()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _table(folder)
        job = _start(folder, *_FIT, *_SPARSE, "--quiet")
        time.sleep(float(rng.uniform(0.2, 1.0)) * whole)
        job.kill()
        job.wait()
        job.communicate()
        if (folder / "model.mgp").exists():
            _predicted(folder / "model.mgp")
        said = _finish(_start(folder, *_FIT, *_SPARSE))
        if not np.array_equal(_predicted(folder / "model.mgp"), expected):
            raise ForbiddenError("a resumed fit ends with another model")
        left = sorted(path.name for path in folder.iterdir())
        if left != ["data.csv", "model.mgp"]:
            raise ForbiddenError(f"files are left: {left}")
        return "resumed" if "going on from the checkpoint" in said else "anew"


_SAVING = """
import sys
import manifoldgp
from manifoldgp.inspection.page import write_model_report
model = manifoldgp.load("old.mgp")
model.update([[0.1, 0.2]], [0.3])
predictor = model.predictor()
print("ready", flush=True)
while True:
    model.save("model.mgp")
    predictor.save("predictor.npz")
    write_model_report(model, "page.html")
"""


def killed_save(rng: np.random.Generator) -> str:
    """kill -9 of a process that saves again and again: model, predictor and page are whole."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _small_model().save(folder / "old.mgp")
        job = subprocess.Popen([sys.executable, "-c", _SAVING], cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        assert job.stdout is not None
        job.stdout.readline()
        time.sleep(float(rng.uniform(0.0, 1.0)))
        job.kill()
        job.wait()
        job.stdout.close()
        if (folder / "model.mgp").exists():
            _predicted(folder / "model.mgp")
        if (folder / "predictor.npz").exists():
            Predictor.load(folder / "predictor.npz")
        if (folder / "page.html").exists() and not (folder / "page.html").read_text().rstrip().endswith("</html>"):
            raise ForbiddenError("half a page")
        _small_model().save(folder / "model.mgp")  # whoever writes next sweeps up
        if [path for path in folder.iterdir() if path.name.startswith(".partial") and path.name.endswith("model.mgp")]:
            raise ForbiddenError("partial files stay")
        return "whole"


@cache
def _small_model() -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    return GPRegressor(restarts=1, max_iter=5).fit(X, np.sin(X[:, 0]))


def killed_rank(rng: np.random.Generator) -> str:
    """kill -9 of one process of torchrun: the job goes on from its checkpoint and ends."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _table(folder, 2000)
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
            "--max-restarts=2",
            "-m",
            "manifoldgp",
        ]
        arguments = [*_FIT, "--averaging", "single", "--restarts", "1", "--inducing", "60", "--max-iter", "60"]
        job = subprocess.Popen(
            command + arguments, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        end = time.perf_counter() + 60.0
        while job.poll() is None and time.perf_counter() < end and not list(folder.glob("model.mgp.checkpoint.*")):
            time.sleep(0.05)
        time.sleep(float(rng.uniform(0.0, 2.0)))
        children = (
            [int(pid) for pid in Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()]
            if job.poll() is None
            else []
        )
        if children:
            os.kill(children[rng.integers(len(children))], signal.SIGKILL)
        out, _ = job.communicate(timeout=300)
        if job.returncode or not np.isfinite(_predicted(folder / "model.mgp")).all():
            raise ForbiddenError(f"exit code {job.returncode}: {out[-500:]}")
        return "resumed" if "going on from the checkpoint" in out else "ended"


def signalled_fit(rng: np.random.Generator) -> str:
    """SIGTERM, SIGINT and SIGHUP at a random moment: one line, no traceback, an older model stays whole."""
    whole, _ = _seconds_of_a_fit()
    number = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP][rng.integers(3)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _table(folder)
        _small_model().save(folder / "model.mgp")
        before = (folder / "model.mgp").read_bytes()
        job = _start(folder, *_FIT, "--averaging", "single", "--max-iter", "100000", "--restarts", "3")
        time.sleep(float(rng.uniform(0.3, 1.5)) * whole)
        job.send_signal(number)
        _finish(job)
        if job.returncode not in (0, 128 + number, -number):
            raise ForbiddenError(f"exit code {job.returncode} after signal {number}")
        if job.returncode and (folder / "model.mgp").read_bytes() != before:
            raise ForbiddenError("an unfinished model took the place of a finished one")
        return f"ended by {signal.Signals(number).name}" if job.returncode else "finished before"


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
        amount = int(rng.integers(0, 60)) * 1024
        job = _start(
            folder,
            *_FIT,
            "--averaging",
            "single",
            "--max-iter",
            "2",
            "--restarts",
            "1",
            "--quiet",
            limit=_limited(resource.RLIMIT_FSIZE, amount),
        )
        said = _finish(job)
        left = sorted(path.name for path in folder.iterdir())
        if job.returncode and ((folder / "model.mgp").read_bytes() != before or left != ["data.csv", "model.mgp"]):
            raise ForbiddenError(f"a full disk left {left}, or another model")
        if job.returncode and len(said.strip().splitlines()) != 1:
            raise ForbiddenError(f"not one line: {said[-300:]}")
        return "told" if job.returncode else "written"


def no_memory(rng: np.random.Generator) -> str:
    """A limit on memory (`ulimit -v`): the fit ends, or says in its last line that memory is short."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _table(folder, 3000)
        amount = int(rng.integers(2500, 4500)) * 2**20
        job = _start(
            folder,
            *_FIT,
            "--averaging",
            "single",
            "--method",
            "exact",
            "--max-iter",
            "1",
            "--restarts",
            "1",
            "--quiet",
            limit=_limited(resource.RLIMIT_AS, amount),
        )
        said = _finish(job)
        if job.returncode == 0:
            return "fitted"
        last = said.strip().splitlines()[-1] if said.strip() else ""
        if job.returncode != 1 or "memory" not in last:
            raise ForbiddenError(f"exit code {job.returncode}: {said[-300:]}")
        return "told"


def read_only_folder(rng: np.random.Generator) -> str:
    """A folder that may not be written to is refused before any work; root may write everywhere."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _table(folder)
        folder.chmod(0o500)
        try:
            job = _start(folder, *_FIT, "--averaging", "single", "--max-iter", "1", "--restarts", "1", "--quiet")
            said = _finish(job)
        finally:
            folder.chmod(0o700)
        if job.returncode == 0 and os.geteuid() != 0:
            raise ForbiddenError("a file in a folder that may not be written to")
        if job.returncode and len(said.strip().splitlines()) != 1:
            raise ForbiddenError(f"not one line: {said[-300:]}")
        return "told" if job.returncode else "written, as root may"


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


def damaged_checkpoint(rng: np.random.Generator) -> str:
    """A checkpoint with changed bytes, or of another fit: refused, or computed anew, and the model is that of an uninterrupted fit."""

    def fit(path: Path | None, stop_at: int = 10**9, seed: int = 0) -> Any:
        calls = [0]

        def callback(iterations: np.ndarray, values: np.ndarray) -> bool:
            calls[0] += 1
            if calls[0] > stop_at:
                raise InterruptedError
            return False

        X = np.random.default_rng(seed).normal(size=(80, 2))
        average = Single(restarts=2, max_iter=10)
        model = ManifoldGPRegressor((2,), averaging=average, method=Sparse(inducing=8, checkpoint=path), callback=callback)
        return model.fit(X, np.sin(X[:, 0]))

    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(name) / "c"
        with suppress(InterruptedError):
            fit(path, stop_at=int(rng.integers(1, 60)))
        files = list(Path(name).iterdir())
        if not files:
            return "finished before"
        data = bytearray(files[0].read_bytes())
        for position in rng.integers(len(data), size=rng.integers(0, 4)):
            data[position] ^= 1 << int(rng.integers(8))
        files[0].write_bytes(bytes(data[: int(rng.integers(len(data) // 2, len(data) + 1))]))
        other = int(rng.random() < 0.2)
        try:
            found = fit(path, seed=other)
        except ManifoldGPError:
            return "refused"
        if not np.array_equal(found.predict(np.zeros((1, 2))), fit(None, seed=other).predict(np.zeros((1, 2)))):
            raise ForbiddenError("a damaged checkpoint led to another model")
        return "the same model"


AREAS: dict[str, Case] = {
    "killed-fit": killed_fit, "killed-save": killed_save, "killed-rank": killed_rank, "signals": signalled_fit, "full-disk": full_disk, "no-memory": no_memory,
    "read-only": read_only_folder, "two-writers": two_writers, "processes": processes_and_threads, "checkpoints": damaged_checkpoint,
}  # fmt: skip

if __name__ == "__main__":
    command_line(__doc__ or "", "programmes.faults", AREAS, minutes=30)
