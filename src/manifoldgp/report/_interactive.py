"""The data of what moves on the page: curves to explore, and the scores of every seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from manifoldgp import plots
from manifoldgp.experiments import Experiment, Outcome, Result
from manifoldgp.experiments import smooth as smooth_experiment
from manifoldgp.experiments._pictures import plain
from manifoldgp.experiments.step import GRID
from manifoldgp.report._figures import sample_rate

_METRICS = (
    {"key": "nlpp", "label": "test NLPP", "log": False},
    {"key": "nlml", "label": "train NLML", "log": False},
    {"key": "test_rmse", "label": "test RMSE", "log": True},
    {"key": "coverage", "label": "share inside 95 % bounds", "log": False},
)
_MOST_SEEDS = {"step": 20, "smooth": 3}  # the others: 4; each costs some 100 kB of page


def page_data(outcome: Outcome) -> dict[str, Any]:
    """Everything that the page's script draws."""
    methods = {m.key: m.label for e in outcome.plan.experiments for m in e.methods}
    explorers = [_explorer(outcome, e) for e in outcome.plan.experiments if e.key != "bumps" and outcome.of(e.key)]
    return {
        "methods": {
            key: {"label": label, "color": plots.style_of(key).color, "dash": _dash(plots.style_of(key).dash)}
            for key, label in methods.items()
        },
        "explorers": explorers,
        "strips": [_strip(outcome, e) for e in outcome.plan.experiments],
    }


def _dash(pattern: Any) -> str:
    return "none" if pattern == "-" else " ".join(f"{2 * length:g}" for length in pattern[1])


def _explorer(outcome: Outcome, experiment: Experiment) -> dict[str, Any]:
    key = experiment.key
    ranked = outcome.ranked_seeds(experiment) or sorted({r.config.seed for r in outcome.of(key)})
    # Step: all seeds, for the worst is the point of it. Others: the first few.
    seeds = sorted({r.config.seed for r in outcome.of(key)})[: _MOST_SEEDS.get(key, 4)]
    typical = ranked[(len(ranked) - 1) // 2]
    first = typical if typical in seeds else seeds[0]
    remarks = {ranked[-1]: "the mGP's worst", typical: "typical"} if len(ranked) > 1 else {}
    results = {seed: [r for r in outcome.of(key) if r.config.seed == seed] for seed in seeds}
    spec: dict[str, Any] = {
        "id": key,
        "title": f"{experiment.title}: predictions with 95 % bounds",
        "methods": [m.key for m in experiment.methods],
        "shown": ["gp-se", "mgp-sigmoid", "stack"],
        "start": seeds.index(first),
        "seeds": [
            {
                "seed": seed,
                "remark": remarks.get(seed, ""),
                "series": _series(results[seed]),
                **_points(experiment, results[seed]),
            }
            for seed in seeds
        ],
    }
    return plain(spec | _axes(experiment, spec["seeds"]), 5)


def _series(results: Sequence[Result]) -> dict[str, Any]:
    return {r.config.method: {name: r.picture[name] for name in ("mean", "lower", "upper")} for r in results}


def _points(experiment: Experiment, results: Sequence[Result]) -> dict[str, Any]:
    """What was observed, to draw beside the curves."""
    data = experiment.dataset(results[0].config)
    match experiment.key:
        case "step":
            near = np.abs(data.X_test[:, 0]) < 1.0
            return {
                "dots": {"x": data.X_train[:, 0], "y": data.y_train},
                "crosses": {"x": data.X_test[near, 0], "y": data.y_test[near]},
            }
        case "smooth":
            return {"dots": {"x": data.X_train[:, 0], "y": data.y_train - np.sin(data.X_train[:, 0])}}
        case _:
            time = np.arange(len(data.y_test)) / sample_rate(experiment.key)
            return {"dots": {"x": time, "y": data.y_test}, "observed": data.y_test, "x": time}


def _axes(experiment: Experiment, seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    match experiment.key:
        case "step":
            views = [
                {"name": "all of [−5, 5]", "x": [-5.0, 5.0], "y": [-1.2, 2.2]},
                {"name": "near the step", "x": [-0.4, 0.4], "y": [-0.8, 1.8]},
                {"name": "inside the gap", "x": [-0.1, 0.1], "y": [-0.8, 1.8]},
            ]
            return {"x": GRID, "views": views, "xlabel": "x", "xname": "x", "ylabel": "y"}
        case "smooth":
            views = [{"name": "one period", "x": [-np.pi, np.pi], "y": [-0.012, 0.012]}]
            return {"x": smooth_experiment.GRID, "views": views, "xlabel": "x", "xname": "x", "ylabel": "prediction − sin(x)"}
        case _:
            y = np.concatenate([seed["observed"] for seed in seeds])
            end = max(float(seed["x"][-1]) for seed in seeds)
            margin = 0.3 * (y.max() - y.min())
            limits = [float(y.min() - margin), float(y.max() + margin)]
            views = [
                {"name": name, "x": [a, b], "y": limits}
                for name, a, b in (("first 2 s", 0.0, 2.0), ("the whole test walk", 0.0, end))
            ]
            unit = "rad" if experiment.key == "icub" else "degrees"
            return {"views": views, "xlabel": "time in s", "xname": "t", "ylabel": f"left knee in {unit}"}


def _strip(outcome: Outcome, experiment: Experiment) -> dict[str, Any]:
    rows = []
    for row in outcome.table(experiment.key).rows:
        results = outcome.of(experiment.key, row.method)
        rows.append(
            {
                "method": row.method,
                "seeds": [r.config.seed for r in results],
                "values": {m["key"]: [r.scores[m["key"]] for r in results] for m in _METRICS},
                "paper": {metric: cell.paper for metric, cell in row.cells.items()},
            }
        )
    return plain({"id": experiment.key, "metrics": list(_METRICS), "start": 0, "rows": rows}, 5)
