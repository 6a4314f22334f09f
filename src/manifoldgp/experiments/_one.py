"""One method on one draw of the data: a Config in, a Result out."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from manifoldgp import metrics
from manifoldgp._system.files import write_whole
from manifoldgp.datasets import Dataset
from manifoldgp.errors import InputError
from manifoldgp.experiments._catalogue import experiment_of
from manifoldgp.experiments._experiment import Config, Experiment, Method, Result
from manifoldgp.experiments._pictures import plain


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
