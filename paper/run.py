"""Runs Configs side by side, one process each, and keeps every result at once: an interrupted run continues where it stopped."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manifoldgp import metrics
from manifoldgp.data import Dataset, write_whole
from manifoldgp.errors import InputError
from paper.experiment import Config, Experiment, Method, Result, plain
from paper.plan import experiment_of

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


# ---- one method on one draw of the data: a Config in, a Result out


def run_one(config: Config) -> Result:
    """Draw the data, fit the method, score it."""
    experiment = experiment_of(config.experiment)
    method = experiment.method(config.method)
    data = experiment.dataset(config)
    model = method.build(config)
    # Folds of a time series are stretches of it, or a held-out row is predicted by its neighbours.
    ordered = {"ordered": True} if experiment.ordered and method.key == "stack" else {}
    begin = time.perf_counter()
    model.fit(data.X_train, data.y_train, **ordered)
    seconds = time.perf_counter() - begin
    scores = _scores(model, data, experiment, method)
    return Result(config, plain(scores, 9), round(seconds, 3), _one_line(model), plain(experiment.picture(model, data, method)))


def _scores(model: Any, data: Dataset, experiment: Experiment, method: Method) -> dict[str, float | None]:
    unit = float(data.y_train.std()) if experiment.standardised else 1.0
    lower, upper = model.predict_quantiles(data.X_test, (0.025, 0.975)).T
    return {
        "nlml": None if method.average else model.nlml_ / len(data.y_train) - math.log(unit),
        "train_rmse": metrics.rmse(data.y_train, model.predict(data.X_train)) / unit,
        "nlpp": metrics.nlpp(model.log_predictive_density(data.X_test, data.y_test)) - math.log(unit),
        "test_rmse": metrics.rmse(data.y_test, model.predict(data.X_test)) / unit,
        "coverage": metrics.coverage(data.y_test, lower, upper),
        "width": float(np.mean(upper - lower)) / unit,
    }


def _one_line(model: Any) -> str:
    return " ".join(repr(model).split())


# ---- results as files


def result_path(folder: Path, config: Config) -> Path:
    """Where the result of a Config is kept."""
    return folder / "results" / config.experiment / config.method / f"seed-{config.seed:03d}.json"


def write_result(folder: Path, result: Result) -> Path:
    """Write a result; the file is there as a whole or not at all, also when the process is stopped."""
    path = result_path(folder, result.config)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(asdict(result)))
    return path


def read_result(folder: Path, config: Config) -> Result | None:
    """The result of exactly this Config, if it was found before: other settings, data or versions do not count."""
    path = result_path(folder, config)
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        result = Result(Config(**stored.pop("config")), **stored)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is not a result of this program ({error}). Remove it, or run with --fresh.") from error
    return result if _identity(result.config) == _identity(config) else None


def _identity(config: Config) -> dict[str, Any]:
    return {name: value for name, value in asdict(config).items() if name != "recording"}
