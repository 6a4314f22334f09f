"""Charts of a model's predictions and of its features."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np

from manifoldgp import inspection
from manifoldgp._system.plain_text import feature_name
from manifoldgp.errors import InputError
from manifoldgp.inspection.page_view import (
    BLUE,
    INK,
    MOST_SLICES,
    MOST_WORDS,
    POINT,
    SERIES,
    VERMILLION,
    ModelView,
    Spec,
    TargetView,
    axis,
    chart,
    chip,
    choice,
    input_axis,
    numbers,
    padded,
    word_axis,
)
from manifoldgp.inspection.table_columns import TableColumn


def prediction_chart(view: ModelView) -> Spec:
    """One input: band and rows. Several: the effect of each of the strongest ones along the data."""
    if len(view.inputs) == 1:
        specs = [_curve(view, target) for target in view.targets]
        legend = [chip("band", BLUE, "mean and 95 % interval"), chip("training rows", INK)]
        if view.targets[0].test is not None:
            legend.append(chip("test rows", VERMILLION))
        return chart("prediction", specs, view.target_choice, legend)
    shown = view.strongest[:MOST_SLICES]
    specs = []
    for target in view.targets:
        most = min(view.affordable // 4, 400)
        slices = [_effect(view, target, column, most) for column in shown]
        y = padded(*(band.lower for band, _ in slices), *(band.upper for band, _ in slices))
        specs.append(
            [
                _slice(view, target, column, band, y) if words is None else _of_words(target, column, band, words, y)
                for column, (band, words) in zip(shown, slices, strict=True)
            ]
        )
    flat = [specs[t][k] for k in range(len(shown)) for t in range(len(view.targets))]
    return chart("prediction", flat, [choice("Input that varies", [column.label for column in shown]), *view.target_choice])


def _effect(view: ModelView, target: TargetView, column: TableColumn, most: int) -> tuple[inspection.Band, list[str] | None]:
    """What an input does along the data; of a category the mean prediction and interval of the rows of each of the most frequent ones, and what these are called."""
    place = inspection.thinned(len(view.X), most)
    rows = view.X[place]
    words = column.words(rows, inspection.row_levels(view.model, 0, place))
    if words is None:
        return inspection.effect_band(view.model, column.places[0], output=target.output, most=most), None
    usual = [word for word, _ in Counter(words).most_common(MOST_WORDS)]
    found = inspection.predicted_band(view.model, rows, np.zeros(len(rows)), target.output)
    of_word = [np.array(words) == word for word in sorted(usual)]
    parts = (np.array([part[chosen].mean() for chosen in of_word]) for part in (found.mean, found.lower, found.upper))
    return inspection.Band(np.arange(len(usual), dtype=float), *parts), sorted(usual)


def _of_words(target: TargetView, column: TableColumn, band: inspection.Band, words: list[str], y: list[float]) -> Spec:
    points = {
        "kind": "points", "color": BLUE, "size": 4, "x": numbers(band.x), "y": numbers(band.mean), "lower": numbers(band.lower), "upper": numbers(band.upper),
        "label": words, "tell": [[column.label, "label"], ["mean", "y"], ["95 % interval from", "lower"], ["to", "upper"]],
    }  # fmt: skip
    return {
        "title": f"Prediction of {target.name} for each {column.label}",
        "hover": "nearest",
        "x": word_axis(column.label, words),
        "y": axis(target.name, y),
        "layers": [points],
        "idle": POINT,
    }


def _curve(view: ModelView, target: TargetView) -> Spec:
    band = inspection.slice_band(view.model, 0, output=target.output, points=240, margin=0.1)
    name = view.columns[0].axis_label
    layers = [_band(band), _points(target.rows.X[:, 0], target.rows.y, "training rows", INK, name, target.name)]
    if target.test is not None:
        some = inspection.thinned(len(target.test.observed), 500)
        layers.append(_points(target.test.X[some, 0], target.test.observed[some], "test rows", VERMILLION, name, target.name))
    y = padded(band.lower, band.upper, target.rows.y)
    return {
        "title": f"Prediction of {target.name}",
        "hover": "x",
        "x": input_axis(view.columns[0], view.X, (band.x[0], band.x[-1])),
        "y": axis(target.name, y),
        "layers": layers,
        "idle": POINT,
    }


def _slice(view: ModelView, target: TargetView, column: TableColumn, band: inspection.Band, y: list[float]) -> Spec:
    ticks = view.X[inspection.thinned(len(view.X), 300), column.places[0]]
    return {
        "title": f"Prediction of {target.name} along {column.label}",
        "hover": "x",
        "x": input_axis(column, view.X, (band.x[0], band.x[-1])),
        "y": axis(target.name, y),
        "layers": [{"kind": "rug", "x": numbers(ticks), "color": INK}, _band(band)],
        "idle": POINT,
    }


def _band(band: inspection.Band) -> Spec:
    parts = {name: numbers(getattr(band, name), 10 if name == "x" else 5) for name in ("x", "mean", "lower", "upper")}
    return {"kind": "band", "key": "band", "color": BLUE, **parts}


def _points(x: np.ndarray, y: np.ndarray, key: str, color: str, x_name: str, y_name: str) -> Spec:
    return {"kind": "points", "key": key, "x": numbers(x, 10), "y": numbers(y), "color": color, "size": 2.4, "tell": [[x_name, "x"], [y_name, "y"]]}  # fmt: skip


def map_chart(view: ModelView) -> Spec | None:
    """Mean and standard deviation over pairs of the strongest inputs that are numbers; None without two of these."""
    numeric = [column for column in view.strongest if column.is_number]
    if len(numeric) < 2:
        return None
    pairs = list(combinations(numeric[:3], 2))
    points = round(40 * view.detail)
    some = inspection.thinned(len(view.X), 400)
    specs = []
    for first, second in pairs:
        d1, d2 = first.places[0], second.places[0]
        surfaces = [
            inspection.surface(view.model, (d1, d2), output=t.output, points=points, others=view.X[view.central_row])
            for t in view.targets
        ]
        for what in ("mean", "std"):
            for target, surface in zip(view.targets, surfaces, strict=True):
                values = getattr(surface, what)
                label = f"predicted {target.name}" if what == "mean" else f"standard deviation of {target.name}"
                x, y = (numbers((a[0], a[-1])) for a in (surface.x1, surface.x2))
                cells = {"kind": "cells", "x": x, "y": y, "n": [points, points], "values": numbers(values, 4)}
                rows = {"kind": "points", "key": "rows", "x": numbers(view.X[some, d1], 4), "y": numbers(view.X[some, d2], 4), "color": "#ffffff", "size": 2.0}  # fmt: skip
                specs.append(
                    {
                        "title": f"{label} over {first.label} and {second.label}",
                        "hover": "cell",
                        "height": 400,
                        "x": input_axis(first, view.X, (surface.x1[0], surface.x1[-1])),
                        "y": input_axis(second, view.X, (surface.x2[0], surface.x2[-1])),
                        "scale": {"label": label, "low": float(values.min()), "high": float(values.max())},
                        "layers": [cells, rows],
                        "idle": POINT,
                    }
                )
    choices = [
        choice("Inputs", [f"{first.label} and {second.label}" for first, second in pairs]),
        choice("Show", ["prediction", "uncertainty"], buttons=True),
        *view.target_choice,
    ]
    return chart("map", specs, choices, [chip("rows", "#ffffff", "training rows")])


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
            labels.append(f"as functions of {view.columns[0].label}")
        if Q == 1:
            mine.append(_feature_plane(target, found.H[:, 0], target.rows.y, feature_name(0), f"observed {target.name}"))
            labels.append("against the target")
        elif Q == 2:
            mine.append(_feature_plane(target, found.H[:, 0], found.H[:, 1], feature_name(0), feature_name(1)))
            labels.append("plane of both features")
        else:
            H, share = inspection.widest_directions(found.H, 3)
            axes = [f"direction {q + 1} ({100 * s:.0f} % of the spread)" for q, s in enumerate(share)]
            for a, b in combinations(range(3), 2):
                mine.append(
                    _feature_plane(target, H[:, a], H[:, b], axes[a], axes[b], (f"direction {a + 1}", f"direction {b + 1}"))
                )
                labels.append(f"directions {a + 1} and {b + 1}")
        specs.append(mine)
        names = labels
    if len({len(mine) for mine in specs}) > 1:  # members of different groups won: show what they have in common
        specs, names = [mine[:1] for mine in specs], names[:1]
    flat = [specs[t][k] for k in range(len(names)) for t in range(len(specs))]
    return chart("features", flat, [choice("Show", names), *view.target_choice])


def _feature_curves(view: ModelView, x: np.ndarray, H: np.ndarray) -> Spec:
    layers = [
        {
            "kind": "line",
            "name": feature_name(q),
            "label": 10 + 40 * (q % 4),  # names stand apart where lines meet
            "color": SERIES[q % len(SERIES)],
            "x": numbers(x, 10),
            "y": numbers(h),
        }
        for q, h in enumerate(H.T[:8])
    ]
    return {
        "title": "Learned features",
        "hover": "x",
        "x": input_axis(view.columns[0], view.X, (x[0], x[-1])),
        "y": axis("feature", padded(H, share=0.12)),
        "layers": layers,
        "idle": POINT,
    }


def _feature_plane(
    target: TargetView, a: np.ndarray, b: np.ndarray, a_label: str, b_label: str, names: tuple[str, str] | None = None
) -> Spec:
    """Two features of the rows, coloured by the target; names: of the axes where they are read, shorter than their labels."""
    y, (a_name, b_name) = target.rows.y, names or (a_label, b_label)
    points = {
        "kind": "points",
        "color": BLUE,
        "size": 3.2,
        "opacity": 0.9,
        "x": numbers(a),
        "y": numbers(b),
        "values": numbers(y),
        "tell": [[a_name, "x"], [b_name, "y"], [f"observed {target.name}", "values"]],
    }
    return {
        "title": f"Learned features, coloured by {target.name}",
        "hover": "nearest",
        "height": 400,
        "x": axis(a_label, padded(a)),
        "y": axis(b_label, padded(b)),
        "scale": {"label": f"observed {target.name}", "low": float(y.min()), "high": float(y.max())},
        "layers": [points],
        "idle": POINT,
    }
