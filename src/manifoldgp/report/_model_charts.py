"""The charts of a model's page. Each function gives one chart, or None where there is nothing to show."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from manifoldgp import inspection, metrics
from manifoldgp.errors import InputError
from manifoldgp.palette import NAMED
from manifoldgp.report._chart_data import Spec, axis, chart, chip, choice, numbers, padded
from manifoldgp.report._model_view import MOST_SLICES, ModelView, TargetView

BLUE, INK, GREY, VERMILLION = "var(--blue)", "var(--ink)", "var(--grey)", "var(--vermillion)"
_SERIES = [f"var(--{name})" for name in ("blue", "vermillion", "green", "purple", "orange", "sky", "brown", "grey") if name in NAMED]
_ZOOM = "Move over the picture to read values. Click it, then turn the wheel to zoom; drag to move; double click to reset."
_MOST_STARTS = 60


def prediction_chart(view: ModelView) -> Spec:
    """One input: band and rows. Several: a slice for each of the strongest ones."""
    if len(view.inputs) == 1:
        specs = [_curve(view, target) for target in view.targets]
        legend = [chip("band", BLUE, "mean and 95 % interval"), chip("training rows", INK)]
        if view.targets[0].test is not None:
            legend.append(chip("test rows", VERMILLION))
        return chart("prediction", specs, _targets(view), legend)
    shown = view.by_strength[:MOST_SLICES]
    specs = []
    for target in view.targets:
        slices = [inspection.slice_band(view.model, d, output=target.output, points=100) for d in shown]
        y = padded(*(s.lower for s in slices), *(s.upper for s in slices))
        specs.append([_slice(view, target, d, band, y) for d, band in zip(shown, slices, strict=True)])
    flat = [specs[t][k] for k in range(len(shown)) for t in range(len(view.targets))]
    return chart("prediction", flat, [choice("Input that varies", [view.inputs[d] for d in shown]), *_targets(view)])


def _curve(view: ModelView, target: TargetView) -> Spec:
    band = inspection.slice_band(view.model, 0, output=target.output, points=240, margin=0.1)
    layers = [_band(band), _points(target.rows.X[:, 0], target.rows.y, "training rows", INK, view.inputs[0], target.name)]
    if target.test is not None:
        some = inspection.thinned(len(target.test.observed), 500)
        layers.append(
            _points(target.test.X[some, 0], target.test.observed[some], "test rows", VERMILLION, view.inputs[0], target.name)
        )
    y = padded(band.lower, band.upper, target.rows.y)
    return {
        "title": f"Prediction of {target.name}",
        "hover": "x",
        "x": axis(view.inputs[0], (band.x[0], band.x[-1])),
        "y": axis(target.name, y),
        "layers": layers,
        "idle": _ZOOM,
    }


def _slice(view: ModelView, target: TargetView, d: int, band: inspection.Band, y: list[float]) -> Spec:
    ticks = view.X[inspection.thinned(len(view.X), 300), d]
    return {
        "title": f"Prediction of {target.name} along {view.inputs[d]}",
        "hover": "x",
        "x": axis(view.inputs[d], (band.x[0], band.x[-1])),
        "y": axis(target.name, y),
        "layers": [{"kind": "rug", "x": numbers(ticks), "color": INK}, _band(band)],
        "idle": _ZOOM,
    }


def _band(band: inspection.Band) -> Spec:
    parts = {name: numbers(getattr(band, name)) for name in ("x", "mean", "lower", "upper")}
    return {"kind": "band", "key": "band", "color": BLUE, **parts}


def _points(x: np.ndarray, y: np.ndarray, key: str, color: str, x_name: str, y_name: str) -> Spec:
    return {"kind": "points", "key": key, "x": numbers(x), "y": numbers(y), "color": color, "size": 2.4, "tell": [[x_name, "x"], [y_name, "y"]]}  # fmt: skip


def map_chart(view: ModelView) -> Spec | None:
    """Mean and standard deviation over pairs of the strongest inputs."""
    if len(view.inputs) < 2:
        return None
    pairs = list(combinations(view.by_strength[:3], 2))
    points = 40 if view.affordable >= 2500 else 24
    some = inspection.thinned(len(view.X), 400)
    specs = []
    for d1, d2 in pairs:
        surfaces = [inspection.surface(view.model, (d1, d2), output=t.output, points=points) for t in view.targets]
        for what in ("mean", "std"):
            for target, surface in zip(view.targets, surfaces, strict=True):
                values = getattr(surface, what)
                label = f"predicted {target.name}" if what == "mean" else f"standard deviation of {target.name}"
                x, y = (numbers((a[0], a[-1])) for a in (surface.x1, surface.x2))
                cells = {"kind": "cells", "x": x, "y": y, "n": [points, points], "values": numbers(values, 4)}
                rows = {"kind": "points", "key": "rows", "x": numbers(view.X[some, d1], 4), "y": numbers(view.X[some, d2], 4), "color": "#ffffff", "size": 2.0}  # fmt: skip
                specs.append(
                    {
                        "title": f"{label} over {view.inputs[d1]} and {view.inputs[d2]}",
                        "hover": "cell",
                        "height": 400,
                        "x": axis(view.inputs[d1], (surface.x1[0], surface.x1[-1])),
                        "y": axis(view.inputs[d2], (surface.x2[0], surface.x2[-1])),
                        "scale": {"label": label, "low": float(values.min()), "high": float(values.max())},
                        "layers": [cells, rows],
                        "idle": _ZOOM,
                    }
                )
    choices = [
        choice("Inputs", [f"{view.inputs[a]} and {view.inputs[b]}" for a, b in pairs]),
        choice("Show", ["prediction", "uncertainty"], buttons=True),
        *_targets(view),
    ]
    return chart("map", specs, choices, [chip("rows", "#ffffff", "training rows")])


def relevance_chart(view: ModelView) -> Spec | None:
    if len(view.inputs) < 2:
        return None
    order = view.by_strength[:20]
    specs = []
    for target in view.targets:
        values = target.strength[order]
        bars = _rows_of_bars(np.zeros(len(order)), values)
        bars |= {"color": BLUE, "label": [view.inputs[d] for d in order], "value": numbers(values), "tell": [["", "label"], ["", "value"]], "last": True}
        specs.append(
            {
                "title": f"How much {target.name} changes with each input",
                "hover": "nearest",
                "height": 60 + 26 * len(order),
                "x": axis(f"typical change of {target.name}", (0.0, 1.04 * float(values.max()) or 1.0), fixed=True),
                "y": {"range": [0.5 - len(order), 0.5], "fixed": True, "ticks": [[-k, view.inputs[d]] for k, d in enumerate(order)]},
                "layers": [bars],
                "idle": "Move over a bar to read its value.",
            }
        )
    return chart("relevance", specs, _targets(view))


def _rows_of_bars(start: np.ndarray, length: np.ndarray) -> Spec:
    """Horizontal bars from top to bottom, the k-th around −k."""
    k = np.arange(len(length))
    return {"kind": "bars", "along": "y", "x0": numbers(start), "x1": numbers(start + length), "y0": numbers(-k - 0.32), "y1": numbers(-k + 0.32)}  # fmt: skip


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
            "row": [str(i) for i in found.place[some]],
            "tell": [["row", "row"], ["observed", "x"], ["predicted", "y"], ["95 % interval from", "lower"], ["to", "upper"]],
        }
        diagonal = {"kind": "line", "x": limits, "y": limits, "color": INK, "width": 1.2, "dash": "5 4"}
        how = "test rows" if found.left_out is False else "each training row predicted from all the others"
        specs.append(
            {
                "title": f"Predicted against observed {target.name}",
                "hover": "nearest",
                "height": 420,
                "x": axis(f"observed {target.name}", limits),
                "y": axis(f"predicted {target.name}", padded(limits, np.clip(found.lower[some], limits[0], None), np.clip(found.upper[some], None, limits[1]), share=0.02)),
                "layers": [diagonal, points],
                "idle": f"Points: {how}. {_ZOOM}",
            }
        )  # fmt: skip
    return chart("observed", specs, _targets(view))


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
            "count": [str(int(round(v * len(pit) / bins))) for v in density],
            "tell": [["place in the predicted distribution", "label"], ["rows", "count"], ["density", "y1"]],
        }
        chance = {"kind": "area", "color": GREY, "opacity": 0.25, "x": [0.0, 1.0], "lower": [low, low], "upper": [high, high]}
        ideal = {"kind": "line", "color": INK, "width": 1.2, "dash": "5 4", "x": [0.0, 1.0], "y": [1.0, 1.0]}
        specs.append(
            {
                "title": f"Where observations of {target.name} fall in their predicted distributions",
                "hover": "nearest",
                "height": 300,
                "x": axis(f"place in the predicted distribution of {target.name}", (0.0, 1.0), fixed=True),
                "y": axis("density, ideal: 1", (0.0, 1.1 * max(2.0, float(density.max()), high)), fixed=True),
                "layers": [chance, bars, ideal],
                "idle": "Move over a bar to read its value.",
            }
        )
    return chart("pit", specs, _targets(view))


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
                "idle": _ZOOM,
            }
        )  # fmt: skip
    return chart("coverage", specs, _targets(view))


def features_chart(view: ModelView) -> Spec | None:
    """Features as functions of a single input, and in the plane; None without learned features."""
    specs, names = [], []
    for target in view.targets:
        try:
            found = inspection.learned_features(view.model, target.rows.X, output=target.output)
        except InputError:
            return None
        Q, mine, labels = found.H.shape[1], [], []
        if len(view.inputs) == 1:
            x = np.linspace(*inspection.span(target.rows.X[:, 0], 0.05), 200)
            H = inspection.learned_features(view.model, x[:, None], output=target.output).H
            mine.append(_feature_curves(view, x, H))
            labels.append(f"as functions of {view.inputs[0]}")
        if Q == 1:
            mine.append(_feature_plane(target, found.H[:, 0], target.rows.y, "feature 1", target.name))
            labels.append("against the target")
        elif Q == 2:
            mine.append(_feature_plane(target, *found.H.T, "feature 1", "feature 2"))
            labels.append("plane of both features")
        else:
            H, share = inspection.widest_directions(found.H, 3)
            axes = [f"direction {q + 1} ({100 * s:.0f} % of the spread)" for q, s in enumerate(share)]
            for a, b in combinations(range(3), 2):
                mine.append(_feature_plane(target, H[:, a], H[:, b], axes[a], axes[b]))
                labels.append(f"directions {a + 1} and {b + 1}")
        specs.append(mine)
        names = labels
    if len({len(mine) for mine in specs}) > 1:  # members of different groups won: show what they have in common
        specs, names = [mine[:1] for mine in specs], names[:1]
    flat = [specs[t][k] for k in range(len(names)) for t in range(len(specs))]
    return chart("features", flat, [choice("Show", names), *_targets(view)])


def _feature_curves(view: ModelView, x: np.ndarray, H: np.ndarray) -> Spec:
    layers = [
        {"kind": "line", "name": f"feature {q + 1}", "color": _SERIES[q % len(_SERIES)], "x": numbers(x), "y": numbers(h)}
        for q, h in enumerate(H.T[:8])
    ]
    return {
        "title": "Learned features",
        "hover": "x",
        "x": axis(view.inputs[0], (x[0], x[-1])),
        "y": axis("feature", padded(H)),
        "layers": layers,
        "idle": _ZOOM,
    }


def _feature_plane(target: TargetView, a: np.ndarray, b: np.ndarray, a_label: str, b_label: str) -> Spec:
    y = target.rows.y
    points = {"kind": "points", "color": BLUE, "size": 3.2, "opacity": 0.9, "x": numbers(a), "y": numbers(b), "values": numbers(y), "tell": [[a_label.split(" (")[0], "x"], [b_label.split(" (")[0], "y"], [f"observed {target.name}", "values"]]}  # fmt: skip
    return {
        "title": f"Learned features, coloured by {target.name}",
        "hover": "nearest",
        "height": 400,
        "x": axis(a_label, padded(a)),
        "y": axis(b_label, padded(b)),
        "scale": {"label": f"observed {target.name}", "low": float(y.min()), "high": float(y.max())},
        "layers": [points],
        "idle": _ZOOM,
    }


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
            bars = _rows_of_bars(left, weights[:, f])
            layers.append({**bars, "key": label, "color": _SERIES[f], "name": label, "label": names, "value": [f"{100 * w:.1f} %" for w in weights[:, f]], "tell": [["", "label"], ["weight", "value"]]})  # fmt: skip
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
                "idle": "Move over a bar to read its value.",
            }
        )
    return chart("weights", specs, _targets(view), legend)


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
            color = _SERIES[groups.index(trace.group) % len(_SERIES)] if trace.weight > 0 else GREY
            steps = np.unique(np.linspace(0, len(trace.objective) - 1, 120).round().astype(int))
            layers.append({"kind": "line", "key": trace.group, "color": color, "width": 1.6 if trace.weight > 0 else 1, "opacity": 0.8, "x": steps.tolist(), "y": numbers(trace.objective[steps], 7)})  # fmt: skip
            layers.append({"kind": "points", "key": trace.group, "name": trace.group, "color": color, "size": 3, "x": [int(steps[-1])], "y": numbers(trace.objective[-1:], 7), "start": [str(trace.start)], "status": [trace.status], "weight": [f"{100 * trace.weight:.1f} %"], "tell": [["start", "start"], ["objective", "y"], ["iterations", "x"], ["", "status"], ["weight", "weight"]]})  # fmt: skip
        specs.append(
            {
                "title": f"Training of every start for {target.name}",
                "hover": "nearest",
                "x": axis("iteration", (0.0, max(len(t.objective) for t in found) * 1.03)),
                "y": axis("objective in nats, lower is better", _useful_range(found)),
                "layers": layers,
                "idle": f"The dot at the end of each line tells about that start. {_ZOOM}",
            }
        )
    legend = [chip(group, _SERIES[g % len(_SERIES)]) for g, group in enumerate(groups)]
    return chart("starts", specs, _targets(view), legend if len(groups) > 1 else [])


def _useful_range(found: list[inspection.Trace]) -> list[float]:
    """From the best end to where most iterations are: the first steps from poor starts would flatten the rest."""
    whole = np.concatenate([t.objective[np.isfinite(t.objective)] for t in found])
    if not len(whole):
        return [0.0, 1.0]
    low, high = float(whole.min()), float(np.quantile(whole, 0.9))
    return padded([low, max(high, low + 1.0)])


def _targets(view: ModelView) -> list[Spec]:
    return [choice("Target", [t.name for t in view.targets])] if len(view.targets) > 1 else []
