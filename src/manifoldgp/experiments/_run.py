"""Runs Configs side by side, one process each, and keeps every result at once: an interrupted run continues where it stopped."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from manifoldgp.experiments._catalogue import experiment_of
from manifoldgp.experiments._experiment import Config, Result
from manifoldgp.experiments._one import read_result, run_one, write_result

_THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Failure:
    """A Config that ended in an error, and its message."""

    config: Config
    message: str


def expected_seconds(config: Config) -> float:
    """Rough time of a Config, for the order of the work and the time left."""
    experiment = experiment_of(config.experiment)
    return experiment.method(config.method).expected_seconds * config.restarts / experiment.restarts


def run(
    configs: Sequence[Config],
    folder: Path,
    *,
    processes: int | None = None,
    fresh: bool = False,
    done: Callable[[Config, float | None], None] = lambda config, seconds: None,
) -> tuple[list[Result], list[Failure]]:
    """Results of all Configs, in their order, found or read from ``folder``, and the failures.

    processes: how many at once, by default one a core; each keeps to one thread. fresh: do not read earlier results.
    done: called after each Config with the seconds of its fit, None if it was read or failed. Interrupting stops the processes and keeps what is finished.
    """
    results: dict[Config, Result] = {}
    for config in configs:
        if not fresh and (found := read_result(folder, config)) is not None:
            results[config] = found
            done(config, None)
    # The longest first: otherwise one long fit at the end keeps a single core busy.
    waiting = sorted((c for c in configs if c not in results), key=expected_seconds, reverse=True)
    failures: list[Failure] = []
    with _one_thread_each(), _workers(min(processes or os.cpu_count() or 1, max(len(waiting), 1))) as pool:
        with _interrupts_ignored():  # processes start here, and inherit it: Ctrl-C is for this one, which ends the others
            futures = {pool.submit(_find, config, folder): config for config in waiting}
        for future in as_completed(futures):
            config = futures[future]
            error = future.exception()
            if error is None:
                results[config] = future.result()
                done(config, results[config].seconds)
            else:
                failures.append(Failure(config, f"{type(error).__name__}: {error}"))
                done(config, None)
    return [results[c] for c in configs if c in results], failures


def _find(config: Config, folder: Path) -> Result:
    result = run_one(config)
    write_result(folder, result)
    return result


@contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes are ended at once when the block is left by an exception such as Ctrl-C."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()


def _start_worker() -> None:
    import torch

    torch.set_num_threads(1)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set, and gets, signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started inside read these limits when they load their BLAS libraries."""
    before = {name: os.environ.get(name) for name in _THREAD_LIMITS}
    os.environ.update(dict.fromkeys(_THREAD_LIMITS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
