"""A comparison as one HTML page that needs no network: the verdict, the table, and pictures of differences, coverage and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp import inspection, metrics
from manifoldgp._system.files import refuse_unwritable, write_whole
from manifoldgp._system.plain_text import digits, explained_share, visible
from manifoldgp.chance.differences import CLEAR
from manifoldgp.inspection.html_page import html_page
from manifoldgp.inspection.page_tables import say, table
from manifoldgp.inspection.page_view import BLUE, GREY, INK, POINT, SERIES, Spec, axis, chart, chip, choice, numbers, padded

if TYPE_CHECKING:
    from manifoldgp.comparison.result import Comparison, Row

_HEADS = ("model", "typical error (RMSE)", "mean error (MAE)", "R²", "CRPS", "CRPS above the best", "NLPP", "90 % intervals hold", "95 % intervals hold", "seconds a fold")  # fmt: skip
_SCORES = (
    "<b>All scores are of held-out rows</b>, each predicted once, by a model that has not seen it. <b>CRPS</b> judges the whole predictive distribution in the units of the target: of a "
    "prediction without error bars it is the absolute error. <b>NLPP</b>: mean negative log density, in nats. Lower is better for both. <b>Above the best</b>: mean difference on the same rows "
    "± two standard errors; where the interval holds 0, chance explains the difference. The errors know the chance in the held-out rows, not that in the training rows, "
    "so differences near two standard errors deserve doubt. Every model has its default settings: one that is tuned may do better."
)


def write_comparison(found: Comparison, path: str | Path, title: str | None = None) -> Path:
    """Write the page; returns its path."""
    refuse_unwritable(path)
    name = visible(found.target)
    heading = visible(title) if title else f"Which model for {name}?"
    charts = [_differences(found), _coverage(found), _observed(found)]
    places = [
        f'<div class="chart"><div id="chart-{c["id"]}"></div><p class="caption">{caption}</p></div>'
        for c, caption in zip(charts, _captions(found), strict=True)
    ]
    sections = [
        ("scores", "Scores", f"<h2>Scores</h2>{table_html(found)}<p class='soft'>{_SCORES}</p>"),
        ("differences", "Differences", f"<h2>How sure the order is</h2>{places[0]}"),
        ("intervals", "Intervals", f"<h2>Whose error bars hold</h2>{places[1]}"),
        ("predictions", "Predictions", f"<h2>Predicted against observed</h2>{places[2]}"),
        ("models", "Models", f"<h2>The models</h2>{_models(found)}"),
    ]
    stopped = " It was interrupted; models that were not finished are left out." if found.interrupted else ""
    head = (
        f'<h1>{escape(heading)}</h1><p class="lead"><b>{escape(visible(found.verdict))}</b></p>'
        f'<p class="soft">{len(found.y):,} rows; held out: {escape(found.held_out)}.{stopped}</p>'
    )
    write_whole(path, html_page(heading, head, sections, {"charts": charts}))
    return Path(path)


def table_html(found: Comparison) -> str:
    """The table of scores as HTML, the best model on top."""
    rows = []
    for row in found.ranked:
        n, apart = found.numbers(row), found.difference(row, found.best)
        above = "–" if row is found.best else f"{digits(apart.value, 2)} ± {digits(CLEAR * apart.error, 2)}"
        mark = "" if row.status == "done" else f" <small>({escape(row.status)})</small>"
        name = f'<span style="white-space:nowrap">{escape(row.name)}</span><br><small>{escape(row.title)}</small>'
        cells = [
            say(n["rmse"]),
            say(n["mae"]),
            explained_share(n["r2"], 4).replace("-", "−"),
            say(n["crps"]),
            above,
            say(n["nlpp"]),
        ]
        rows.append([name + mark, *cells, *(f"{100 * n[k]:.0f} %" for k in ("coverage_90", "coverage_95")), f"{row.seconds:.2g}"])
    return table(_HEADS, rows)


def _captions(found: Comparison) -> Sequence[str]:
    return (
        f"<b>How much higher the CRPS of each model is than that of {escape(found.best.title)}</b>, in units of {escape(visible(found.target))}; bars are two standard errors. "
        "A bar that reaches the dashed line: not clearly worse.",
        "<b>An interval that should hold half of the rows should do so</b>, and likewise for every other share: lines should follow the diagonal. Below it a model is too sure. "
        "Grey: what chance allows. Names hide and show models.",
        "<b>Held-out rows of one model at a time.</b> On the dashed diagonal a prediction is exact.",
    )


def _differences(found: Comparison) -> Spec:
    ranked = found.ranked
    each = [found.difference(row, found.best) for row in ranked]
    value, error = np.array([d.value for d in each]), CLEAR * np.array([d.error for d in each])
    k, name = np.arange(len(ranked)), visible(found.target)
    layers: list[Spec] = [{"kind": "line", "x": [0.0, 0.0], "y": [0.5 - len(k), 0.5], "color": INK, "width": 1.2, "dash": "5 4"}]
    bars = {"kind": "bars", "along": "y", "color": BLUE, "opacity": 0.35}
    bars |= {"x0": numbers(value - error), "x1": numbers(value + error), "y0": numbers(-k - 0.18), "y1": numbers(-k + 0.18)}
    apart = [f"{digits(v)} ± {digits(e, 2)}" for v, e in zip(value, error, strict=True)]
    bars |= {"label": [row.title for row in ranked], "value": apart, "tell": [["", "label"], ["above the best", "value"]]}  # fmt: skip
    points = {"kind": "points", "color": BLUE, "size": 4, "x": numbers(value), "y": numbers(-k)}
    spec = {
        "title": "CRPS above that of the best model",
        "hover": "nearest",
        "height": 60 + 30 * len(ranked),
        "x": axis(f"CRPS above the best, in units of {name}", padded(value - error, value + error), name, fixed=True),
        "y": {
            "range": [0.5 - len(ranked), 0.5],
            "fixed": True,
            "ticks": [[-int(i), row.title] for i, row in zip(k, ranked, strict=True)],
        },
        "layers": [*layers, bars, points],
        "idle": POINT,
    }
    return chart("differences", [spec])


def _coverage(found: Comparison) -> Spec:
    levels = np.linspace(0.02, 0.98, 49)
    low, high = inspection.coverage_band(len(found.y), levels)
    layers: list[Spec] = [
        {"kind": "area", "color": GREY, "opacity": 0.25, "x": numbers(levels), "lower": numbers(low), "upper": numbers(high)},
        {"kind": "line", "color": INK, "width": 1.2, "dash": "5 4", "x": [0.0, 1.0], "y": [0.0, 1.0], "quiet": True},
    ]
    legend = []
    for i, row in enumerate(found.ranked):
        color = SERIES[i % len(SERIES)]
        holds = [r.observed for r in metrics.coverage_table(_scores(row).pit, levels.tolist())]
        layers.append(
            {"kind": "line", "key": row.name, "name": row.name, "color": color, "x": numbers(levels), "y": numbers(holds)}
        )
        legend.append(chip(row.name, color, row.title))
    spec = {
        "title": "Coverage of the intervals",
        "hover": "x",
        "height": 420,
        "x": {**axis("share that the interval should hold", (0.0, 1.0)), "name": "should hold"},
        "y": axis("share that it holds", (0.0, 1.0)),
        "layers": layers,
        "idle": POINT,
    }
    return chart("coverage", [spec], legend=legend)


def _observed(found: Comparison) -> Spec:
    some = inspection.thinned(len(found.y), 600)
    name, y = visible(found.target), found.y[some]
    specs = []
    for row in found.ranked:
        mean = _scores(row).mean[some]
        limits = padded(y, mean)
        points = {"kind": "points", "color": BLUE, "x": numbers(y), "y": numbers(mean), "row": [str(i) for i in some]}
        points |= {"tell": [["row", "row"], ["observed", "x"], ["predicted", "y"]]}
        diagonal = {"kind": "line", "x": limits, "y": limits, "color": INK, "width": 1.2, "dash": "5 4"}
        specs.append(
            {
                "title": f"Held-out predictions of {row.title}",
                "hover": "nearest",
                "height": 420,
                "x": axis(f"observed {name}", limits, name),
                "y": axis(f"predicted {name}", limits, name),
                "layers": [diagonal, points],
                "idle": POINT,
            }
        )
    return chart("observed", specs, [choice("Model", [row.title for row in found.ranked])])


def _models(found: Comparison) -> str:
    """What every model is, where its distribution comes from, and how it ended."""
    rows = [[escape(r.title), escape(r.name), escape(r.density), escape(visible(r.status))] for r in found.rows]
    return table(("model", "name", "predictive distribution", "ended"), rows)


def _scores(row: Row) -> Any:
    assert row.scores is not None
    return row.scores
