"""Charts of how a model was trained, and of how far it can be trusted."""

from __future__ import annotations

import numpy as np

from manifoldgp import inspection, metrics
from manifoldgp.errors import InputError
from manifoldgp.inspection.page_tables import ending
from manifoldgp.inspection.page_view import (
    BAR,
    BLUE,
    GREY,
    INK,
    POINT,
    SERIES,
    ModelView,
    Spec,
    axis,
    chart,
    chip,
    numbers,
    padded,
    rows_of_bars,
)

_MOST_STARTS = 60


def weights_chart(view: ModelView) -> Spec | None:
    specs, legend = [], []
    for target in view.targets:
        try:
            found = inspection.mixture_weights(view.model, output=target.output)
        except InputError:
            return None
        names, weights = found.names[:12], found.weights[:12]
        layers, left = [], np.zeros(len(names))
        for f, factor in enumerate(found.variance_factors):
            label = "as trained" if factor == 1.0 else f"variance × {factor:g}"
            bars = rows_of_bars(left, weights[:, f])
            texts = {"name": label, "label": names, "value": [f"{100 * w:.1f} %" for w in weights[:, f]]}
            layers.append({**bars, **texts, "key": label, "color": SERIES[f], "tell": [["", "label"], ["weight", "value"]]})
            left = left + weights[:, f]
        legend = [chip(layer["key"], layer["color"]) for layer in layers] if len(layers) > 1 else []
        specs.append(
            {
                "title": f"Weights in the prediction of {target.name}",
                "hover": "nearest",
                "height": 60 + 30 * len(names),
                "x": axis("weight", (0.0, max(1.0 if found.held_out else 0.0, 1.05 * float(left.max()))), fixed=True),
                "y": {"range": [0.5 - len(names), 0.5], "fixed": True, "ticks": [[-k, name] for k, name in enumerate(names)]},
                "layers": layers,
                "idle": BAR,
            }
        )
    return chart("weights", specs, view.target_choice, legend)


def starts_chart(view: ModelView) -> Spec | None:
    specs, groups = [], []
    for target in view.targets:
        try:
            found = inspection.traces(view.model, output=target.output)
        except InputError:
            return None
        found = sorted(found, key=lambda t: -t.weight)[:_MOST_STARTS]
        groups = list(dict.fromkeys([*groups, *(t.group for t in found)]))
        layers = []
        for trace in reversed(found):
            layers += _way_and_end(trace, SERIES[groups.index(trace.group) % len(SERIES)] if trace.weight > 0 else GREY)
        specs.append(
            {
                "title": f"Training of every start for {target.name}",
                "hover": "nearest",
                "x": axis("iteration", (0.0, max(len(t.objective) for t in found) * 1.03)),
                "y": axis("objective in nats, lower is better", _useful_range(found)),
                "layers": layers,
                "idle": "The dot at the end of each line tells about that start.",
            }
        )
    legend = [chip(group, SERIES[g % len(SERIES)]) for g, group in enumerate(groups)]
    return chart("starts", specs, view.target_choice, legend if len(groups) > 1 else [])


def _way_and_end(trace: inspection.Trace, color: str) -> list[Spec]:
    """A start's line, and a dot at its end that tells about it."""
    steps = np.unique(np.linspace(0, len(trace.objective) - 1, 120).round().astype(int))
    way = {
        "kind": "line",
        "key": trace.group,
        "color": color,
        "width": 1.6 if trace.weight > 0 else 1,
        "opacity": 0.8,
        "x": steps.tolist(),
        "y": numbers(trace.objective[steps], 7),
    }
    end = {
        "kind": "points",
        "key": trace.group,
        "name": trace.group,
        "color": color,
        "size": 3,
        "x": [int(steps[-1])],
        "y": numbers(trace.objective[-1:], 7),
        "start": [str(trace.start)],
        "status": [ending(trace.status)],
        "weight": [f"{100 * trace.weight:.1f} %"],
        "tell": [["start", "start"], ["objective", "y"], ["iterations", "x"], ["", "status"], ["weight", "weight"]],
    }
    return [way, end]


def _useful_range(found: list[inspection.Trace]) -> list[float]:
    """From the best end to where most iterations are: the first steps from poor starts would flatten the rest."""
    whole = np.concatenate([t.objective[np.isfinite(t.objective)] for t in found])
    if not len(whole):
        return [0.0, 1.0]
    low, high = float(whole.min()), float(np.quantile(whole, 0.9))
    return padded([low, max(high, low + 1.0)])


def observed_chart(view: ModelView) -> Spec:
    specs = []
    for target in view.targets:
        found = target.shown
        some = inspection.thinned(len(found.observed), 600)
        limits = padded(found.observed[some], found.mean[some])
        points = {
            "kind": "points",
            "color": BLUE,
            "x": numbers(found.observed[some]),
            "y": numbers(found.mean[some]),
            "lower": numbers(found.lower[some]),
            "upper": numbers(found.upper[some]),
            "row": [str(i) for i in view.numbers_of(found)[some]],
            "tell": [["row", "row"], ["observed", "x"], ["predicted", "y"], ["95 % interval from", "lower"], ["to", "upper"]],
        }
        diagonal = {"kind": "line", "x": limits, "y": limits, "color": INK, "width": 1.2, "dash": "5 4"}
        how = "test rows" if found.left_out is False else "each training row predicted from all the others"
        specs.append(
            {
                "title": f"Predicted against observed {target.name}",
                "hover": "nearest",
                "height": 420,
                "x": axis(f"observed {target.name}", limits, target.name),
                "y": axis(f"predicted {target.name}", padded(limits, np.clip(found.lower[some], limits[0], None), np.clip(found.upper[some], None, limits[1]), share=0.02), target.name),
                "layers": [diagonal, points],
                "idle": f"Points: {how}.",
            }
        )  # fmt: skip
    return chart("observed", specs, view.target_choice)


def pit_chart(view: ModelView) -> Spec:
    specs = []
    for target in view.targets:
        pit, bins = target.calibration.pit, 10
        density = metrics.pit_histogram(pit, bins)
        low, high = inspection.histogram_band(len(pit), bins)
        edges = np.arange(bins + 1) / bins
        bars = {
            "kind": "bars",
            "color": BLUE,
            "x0": numbers(edges[:-1] + 0.004),
            "x1": numbers(edges[1:] - 0.004),
            "y0": [0.0] * bins,
            "y1": numbers(density),
            "label": [f"{100 * a:.0f} to {100 * (a + 1 / bins):.0f} %" for a in edges[:-1]],
            "count": [str(round(v * len(pit) / bins)) for v in density],
            "tell": [["place in the predicted distribution", "label"], ["rows", "count"], ["density", "y1"]],
        }
        chance = {"kind": "area", "color": GREY, "opacity": 0.25, "x": [0.0, 1.0], "lower": [low, low], "upper": [high, high]}
        ideal = {"kind": "line", "color": INK, "width": 1.2, "dash": "5 4", "x": [0.0, 1.0], "y": [1.0, 1.0]}
        specs.append(
            {
                "title": f"Where observations of {target.name} fall in their predicted distributions",
                "hover": "nearest",
                "height": 300,
                "x": axis(f"place in the predicted distribution of {target.name}", (0.0, 1.0), target.name, fixed=True),
                "y": axis("density, ideal: 1", (0.0, 1.1 * max(2.0, float(density.max()), high)), fixed=True),
                "layers": [chance, bars, ideal],
                "idle": BAR,
            }
        )
    return chart("pit", specs, view.target_choice)


def coverage_chart(view: ModelView) -> Spec:
    levels = np.linspace(0.02, 0.98, 49)
    specs = []
    for target in view.targets:
        pit = target.calibration.pit
        observed = np.array([row.observed for row in metrics.coverage_table(pit, levels.tolist())])
        low, high = inspection.coverage_band(len(pit), levels)
        specs.append(
            {
                "title": f"Coverage of the intervals of {target.name}",
                "hover": "x",
                "height": 300,
                "x": {**axis("share that the interval should hold", (0.0, 1.0)), "name": "should hold"},
                "y": axis("share that it holds", (0.0, 1.0)),
                "layers": [
                    {"kind": "area", "color": GREY, "opacity": 0.25, "x": numbers(levels), "lower": numbers(low), "upper": numbers(high)},
                    {"kind": "line", "color": INK, "width": 1.2, "dash": "5 4", "x": [0.0, 1.0], "y": [0.0, 1.0], "quiet": True},
                    {"kind": "line", "color": BLUE, "name": "holds", "x": numbers(levels), "y": numbers(observed)},
                ],
                "idle": POINT,
            }
        )  # fmt: skip
    return chart("coverage", specs, view.target_choice)
