"""One process a library, with its threads capped; they take turns, so that a slow minute of the machine hits all of them alike."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from libraries import LIBRARIES

HERE = Path(__file__).resolve().parent
PEERS_PYTHON = HERE.parent / ".venv-peers" / "bin" / "python"
THREAD_POOLS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS",
)  # fmt: skip
IMPORT_LIMIT = 180.0


class NotMeasured(Exception):  # noqa: N818 - an outcome that the tables show, not a fault
    """Why a library has no number here."""


class Worker:
    """A library in its process. ``ask`` waits for the answer; a worker that fails or takes too long is ended and says why from then on."""

    def __init__(self, name: str, threads: int | None = 1) -> None:
        library = LIBRARIES[name]
        python = str(PEERS_PYTHON) if library.peers else sys.executable
        if library.peers and not PEERS_PYTHON.exists():
            raise NotMeasured("not installed: the peers' environment is missing; `make bench` makes it")
        self._noise = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [python, str(HERE / "worker.py"), library.module, library.package],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._noise, text=True, env=environment(threads),
        )  # fmt: skip
        try:
            self.about = self._answer(IMPORT_LIMIT)
        except NotMeasured as reason:
            self.close()
            raise NotMeasured(f"not installed: {reason}") from None

    def ask(self, task: str, limit: float = 300.0, **options: Any) -> dict:
        if self._process.poll() is not None:
            raise NotMeasured("its process has ended") if self._noise.closed else self._ended()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"task": task, **options}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        return self._answer(limit)

    def _ended(self) -> NotMeasured:
        """What is known about a process that has gone."""
        self._process.wait()
        self._noise.seek(0)
        last = (self._noise.read().strip().splitlines() or ["no message"])[-1]
        return NotMeasured(f"process ended with code {self._process.returncode}: {last[:200]}")

    def _answer(self, limit: float) -> dict:
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], limit)[0]:
            self.close()
            raise NotMeasured(f"stopped after {limit:.0f} s")
        line = stdout.readline()
        if not line:
            raise self._ended()
        answer = json.loads(line)
        if "error" in answer:
            raise NotMeasured(answer["error"].splitlines()[0][:200])
        return answer

    def close(self) -> None:
        """End the process; a second time does nothing."""
        if not self._noise.closed:
            self._process.kill()
            with contextlib.suppress(BrokenPipeError):
                self._process.communicate()
            self._noise.close()


class Crew:
    """Workers of several libraries at once. ``reasons`` says, by name, why a library is not (or no longer) among them."""

    def __init__(self, names: tuple[str, ...], threads: int | None = 1) -> None:
        self.workers: dict[str, Worker] = {}
        self.reasons: dict[str, str] = {}
        for name in names:
            try:
                self.workers[name] = Worker(name, threads)
            except NotMeasured as reason:
                self.reasons[name] = str(reason)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.close()

    def versions(self) -> dict[str, str]:
        return {name: worker.about["version"] for name, worker in self.workers.items()}


def environment(threads: int | None) -> dict[str, str]:
    """The environment with every pool capped to ``threads``, or (None) as a user would have it.

    Python may keep bytecode, as pip leaves it for an installed package: else every process would compile these sources anew.
    """
    free = {name: value for name, value in os.environ.items() if name not in (*THREAD_POOLS, "PYTHONDONTWRITEBYTECODE")}
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return {**free, **quiet, **({} if threads is None else dict.fromkeys(THREAD_POOLS, str(threads)))}
