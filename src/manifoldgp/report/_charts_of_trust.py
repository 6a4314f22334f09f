"""Charts of how far a model can be trusted: predicted against observed, PIT histogram, coverage."""

from __future__ import annotations

import numpy as np

from manifoldgp import inspection, metrics
from manifoldgp.report._chart_data import BAR, BLUE, GREY, INK, POINT, Spec, axis, chart, numbers, padded
from manifoldgp.report._model_view import ModelView


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
                "x": axis(f"place in the predicted distribution of {target.name}", (0.0, 1.0), fixed=True),
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
