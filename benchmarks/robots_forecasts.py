"""Long-term forecasts: RMSE and coverage of 95 % bands over several origins, beside repeating the last period.

    python benchmarks/robots_forecasts.py                          # every series
    python benchmarks/robots_forecasts.py passengers walker        # some of them
    python benchmarks/robots_forecasts.py --data-dir ../shared/data
    python benchmarks/robots_forecasts.py passengers --pictures docs/images   # draws the first origin of each, too

A model is fitted once, on the first part; at each origin it is conditioned on what came until then (`update`), and forecasts one horizon. passengers: the airline's,
as logarithms (Box and Jenkins 1976). co2 and sunspots: recorded where the package statsmodels is installed, otherwise generated. walker: a knee of the simulated biped that ships
with the package, a stride ahead; icub: a real one, where its recording is in the folder. "last period" repeats it, with the change since the one before.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bars import number, table
from manifoldgp import Forecaster
from manifoldgp.data import walker

PASSENGERS = """
112 118 132 129 121 135 148 148 136 119 104 118 115 126 141 135 125 149 170 170 158 133 114 140 145 150 178 163 172 178 199 199 184 162 146 166
171 180 193 181 183 218 230 242 209 191 172 194 196 196 236 235 229 243 264 272 237 211 180 201 204 188 235 227 234 264 302 293 259 229 203 229
242 233 267 269 270 315 364 347 312 274 237 278 284 277 317 313 318 374 413 405 355 306 271 306 315 301 356 348 355 422 465 467 404 347 305 336
340 318 362 348 363 435 491 505 404 359 310 337 360 342 406 396 420 472 548 559 463 407 362 405 417 391 419 461 472 535 622 606 508 461 390 432
"""
"""Thousands a month, January 1949 to December 1960."""

STRIDE = (1, 2, 3)
"""The nearest lags of a walk; the others are spread over a stride."""


@dataclass(frozen=True)
class Task:
    """A series, what is known of it in words, rows to learn from, horizon, steps between origins, the period for the naive forecast, and the forecaster's arguments."""

    values: np.ndarray
    words: str
    learn: int
    horizon: int
    every: int
    period: int
    arguments: dict[str, Any]


def _passengers(given: argparse.Namespace) -> Task:
    y = np.log(np.array(PASSENGERS.split(), dtype=float))
    return Task(y, "recorded, logarithms", 84, 24, 12, 12, {"period": 12})


def _co2(given: argparse.Namespace) -> Task:
    frame, where = _example().co2()
    return Task(_even(frame), where, 360, 60, 30, 12, {"period": 12})


def _sunspots(given: argparse.Namespace) -> Task:
    frame, where = _example().sunspots()
    return Task(frame["sunspots"].to_numpy(), where, 220, 22, 11, 11, {"lags": 12})


def _walker(given: argparse.Namespace) -> Task:
    data = walker()
    y = np.concatenate([data.y_train, data.y_test])
    return Task(y, "simulated, degrees", 400, 65, 45, 65, {"lags": (*STRIDE, *range(8, 73, 8))})


def _icub(given: argparse.Namespace) -> Task | None:
    path = given.data_dir / "icub_walking_only_100Hz.csv"
    if not path.is_file():
        return None
    with path.open(encoding="utf-8") as file:
        recorded = np.genfromtxt(file, delimiter=",", names=True)
    return Task(
        np.degrees(recorded["q_l_knee"]), "recorded, degrees", 400, 102, 29, 102, {"lags": (*STRIDE, *range(10, 111, 10))}
    )


TASKS: dict[str, Callable[[argparse.Namespace], Task | None]] = {
    "passengers": _passengers, "co2": _co2, "sunspots": _sunspots, "walker": _walker, "icub": _icub,
}  # fmt: skip


def _even(frame: Any) -> np.ndarray:
    """CO2 at every month: months without a record are interpolated."""
    months = np.round((frame["year"] - frame["year"].iloc[0]) * 12)
    return np.interp(np.arange(months.iloc[-1] + 1), months, frame["co2"])


def _example() -> ModuleType:
    """examples/structure.py, which knows where the records are."""
    spec = importlib.util.spec_from_file_location("structure_example", Path(__file__).parents[1] / "examples" / "structure.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw(task: Task, name: str, draws: int, folder: Path) -> None:
    """The forecast from the first origin beside what came."""
    from manifoldgp.plots import plot_forecast, styled

    model = Forecaster(**task.arguments).fit(task.values[: task.learn])
    forecast = model.forecast(task.horizon, draws=draws)
    with styled():
        ax = plot_forecast(model, forecast, task.values[task.learn :][: task.horizon], past=2 * task.horizon)
        ax.set(xlabel="step", ylabel=name, title=f"{name}, {task.words}: {task.horizon} steps ahead")
        ax.get_figure().savefig(folder / f"forecast-{name}.png", dpi=120)


def study(task: Task, draws: int) -> tuple[list[tuple[str, float, float, float, float]], int, float]:
    """For each way to go on its name, RMSE, coverage, mean width of the band and milliseconds a forecast; how many origins; and seconds to fit."""
    begin = time.process_time()
    model = Forecaster(**task.arguments).fit(task.values[: task.learn])
    seconds = time.process_time() - begin
    origins = range(task.learn, len(task.values) - task.horizon + 1, task.every)
    errors: dict[str, list[np.ndarray]] = {"draws": [], "moments": [], "last period": []}
    inside: dict[str, list[np.ndarray]] = {"draws": [], "moments": []}
    widths: dict[str, list[float]] = {"draws": [], "moments": []}
    times: dict[str, list[float]] = {"draws": [], "moments": []}
    for origin in origins:
        if origin > len(model.series_):
            model.update(task.values[len(model.series_) : origin])
        truth = task.values[origin : origin + task.horizon]
        for method in ("draws", "moments"):
            begin = time.process_time()
            forecast = model.forecast(task.horizon, method=method, draws=draws if method == "draws" else None)
            times[method].append(time.process_time() - begin)
            lower, upper = forecast.interval(0.95).T
            errors[method].append(forecast.mean - truth)
            inside[method].append((lower <= truth) & (truth <= upper))
            widths[method].append(float(np.mean(upper - lower)))
        errors["last period"].append(_repeated(task.values[:origin], task.period, task.horizon) - truth)
    rows = [
        (name, _rms(errors[name]), *(float(np.mean(kept[name])) if name in kept else np.nan for kept in (inside, widths, times)))
        for name in errors
    ]
    return rows, len(origins), seconds


def _repeated(past: np.ndarray, period: int, horizon: int) -> np.ndarray:
    """The last period again and again, each time moved by what it moved since the one before."""
    step = np.arange(horizon)
    drift = past[-period:].mean() - past[-2 * period : -period].mean()
    return past[-period:][step % period] + drift * (1 + step // period)


def _rms(errors: list[np.ndarray]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def main(arguments: list[str] | None = None) -> None:
    """Print a row for each series and way to go on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("series", nargs="*", default=[], metavar="series", help=", ".join(TASKS))
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    given = parser.parse_args(arguments)
    rows = []
    for name in given.series or TASKS:
        if name not in TASKS:
            parser.error(f"unknown series {name}; there are {', '.join(TASKS)}")
        task = TASKS[name](given)
        if task is None:
            print(f"{name}: no recording in {given.data_dir}, left out")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, origins, seconds = study(task, given.draws)
            if given.pictures is not None:
                draw(task, name, given.draws, given.pictures)
        for method, rmse, coverage, width, spent in found:
            label = f"{name} ({task.words})" if method == "draws" else ""
            setting = f"{task.horizon} steps, {origins} origins" if label else ""
            covered = "–" if np.isnan(coverage) else f"{100 * coverage:.0f} %"
            fit = number(seconds) if label else ""
            rows.append([label, setting, method, number(rmse), covered, number(width), fit, number(1e3 * spent)])
    print(table(["series", "ahead", "by", "RMSE", "covered", "width", "fit, s", "forecast, ms"], rows))


if __name__ == "__main__":
    main()
