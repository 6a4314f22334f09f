"""Charts of training: every start, and the weights of the members."""

from __future__ import annotations

import numpy as np

from manifoldgp import inspection
from manifoldgp.errors import InputError
from manifoldgp.report._chart_data import BAR, GREY, SERIES, Spec, axis, chart, chip, numbers, padded, rows_of_bars
from manifoldgp.report._endings import ending
from manifoldgp.report._model_view import ModelView

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
