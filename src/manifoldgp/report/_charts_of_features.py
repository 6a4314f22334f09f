"""Charts of what a model has learned: its features."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from manifoldgp import inspection
from manifoldgp.errors import InputError
from manifoldgp.report._chart_data import BLUE, POINT, SERIES, Spec, axis, chart, choice, numbers, padded
from manifoldgp.report._model_view import ModelView, TargetView


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
            mine.append(_feature_plane(target, found.H[:, 0], found.H[:, 1], "feature 1", "feature 2"))
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
    return chart("features", flat, [choice("Show", names), *view.target_choice])


def _feature_curves(view: ModelView, x: np.ndarray, H: np.ndarray) -> Spec:
    layers = [
        {
            "kind": "line",
            "name": f"feature {q + 1}",
            "label": 10 + 40 * (q % 4),  # names stand apart where lines meet
            "color": SERIES[q % len(SERIES)],
            "x": numbers(x),
            "y": numbers(h),
        }
        for q, h in enumerate(H.T[:8])
    ]
    return {
        "title": "Learned features",
        "hover": "x",
        "x": axis(view.inputs[0], (x[0], x[-1])),
        "y": axis("feature", padded(H, share=0.12)),
        "layers": layers,
        "idle": POINT,
    }


def _feature_plane(target: TargetView, a: np.ndarray, b: np.ndarray, a_label: str, b_label: str) -> Spec:
    y = target.rows.y
    points = {
        "kind": "points",
        "color": BLUE,
        "size": 3.2,
        "opacity": 0.9,
        "x": numbers(a),
        "y": numbers(b),
        "values": numbers(y),
        "tell": [[a_label.split(" (")[0], "x"], [b_label.split(" (")[0], "y"], [f"observed {target.name}", "values"]],
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
