"""The parts of the page: tables and verdicts as HTML, and the data of what moves, curves to explore and the scores of every seed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from paper import charts
from paper.checks import VERDICTS, Check
from paper.experiment import METRICS, Experiment, Result, plain
from paper.figures import sample_rate
from paper.functions import SMOOTH_GRID, STEP_GRID
from paper.outcome import Outcome
from paper.tables import HEADINGS, Row, Table, show

_CLASSES = {True: "held", False: "missed", None: "open"}


def table_html(table: Table) -> str:
    """The paper's value beside ours, which is a median over seeds with the worst below it; the columns sort."""
    heads = ["Method"]
    for metric in METRICS:
        name = HEADINGS[metric].replace(" ", "<br>")
        heads += [f"{name}<br>paper", f"{name}<br>ours"]
    heads += ["inside<br>95 %<br>bounds", "re-<br>starts", "seeds", "seconds<br>to fit"]
    best = {m: min((v for row in table.rows if (v := row.median(m)) is not None), default=None) for m in METRICS}
    head = "".join(f'<th scope="col"><button type="button">{text}</button></th>' for text in heads)
    body = "".join(_row(row, best) for row in table.rows)
    return f'<div class="scroll"><table class="sortable" id="table-{table.experiment}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(row: Row, best: dict[str, float | None]) -> str:
    color = charts.style_of(row.method).color
    cells = [
        f'<th scope="row" data-value="{escape(row.label)}"><span class="swatch" style="background:{color}"></span>{escape(row.label)}</th>'
    ]
    for metric, cell in row.cells.items():
        printed = ""
        if cell.printed is not None and cell.printed != cell.paper:
            printed = f'<span class="worst">printed {minus(f"{cell.printed:.2e}".replace("e-0", "e-"))}</span>'
        cells.append(f'<td class="paper" data-value="{_data(cell.paper)}">{minus(show(cell.paper, metric))}{printed}</td>')
        worst = "" if cell.worst is None or row.seeds < 2 else f'<span class="worst">{minus(show(cell.worst, metric))}</span>'
        bold = ' class="best"' if cell.median is not None and cell.median == best[metric] else ""
        cells.append(f'<td{bold} data-value="{_data(cell.median)}">{minus(show(cell.median, metric))}{worst}</td>')
    covered = "–" if row.coverage is None else f"{100 * row.coverage:.0f} %"
    failed = f" ({row.failed} failed)" if row.failed else ""
    cells += [
        f'<td data-value="{_data(row.coverage)}">{covered}</td>',
        f'<td data-value="{_data(row.restarts)}">{"–" if row.restarts is None else row.restarts}</td>',
        f'<td data-value="{row.seeds}">{row.seeds}{failed}</td>',
        f'<td data-value="{_data(row.seconds)}">{"–" if row.seconds is None else f"{row.seconds:.1f}"}</td>',
    ]
    return ('<tr class="ours">' if row.ours else "<tr>") + "".join(cells) + "</tr>"


def checks_html(checks: Sequence[Check]) -> str:
    """Each check with its verdict, what was expected, and the numbers."""
    items = "".join(
        f'<li class="{_CLASSES[c.held]}"><span class="verdict">{VERDICTS[c.kind][c.held]}</span><span class="what">{escape(c.text)}</span>'
        f'<span class="numbers">{escape(minus(c.observed))} · expected: {escape(minus(c.expected))} · {escape(c.reference)}</span></li>'
        for c in checks
    )
    return f'<ul class="checks">{items}</ul>'


def _data(value: float | None) -> str:
    return "" if value is None else repr(value)


def minus(text: str) -> str:
    """A minus sign instead of a hyphen in front of numbers, but not in exponents and ranges.

    >>> minus("median -3.1, 2e-05")
    'median −3.1, 2e-05'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


# ---- what moves

_STRIP_METRICS = (
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
            key: {"label": label, "color": charts.style_of(key).color, "dash": _dash(charts.style_of(key).dash)}
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
            return {"x": STEP_GRID, "views": views, "xlabel": "x", "xname": "x", "ylabel": "y"}
        case "smooth":
            views = [{"name": "one period", "x": [-np.pi, np.pi], "y": [-0.012, 0.012]}]
            return {"x": SMOOTH_GRID, "views": views, "xlabel": "x", "xname": "x", "ylabel": "prediction − sin(x)"}
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
                "values": {m["key"]: [r.scores[m["key"]] for r in results] for m in _STRIP_METRICS},
                "paper": {metric: cell.paper for metric, cell in row.cells.items()},
            }
        )
    return plain({"id": experiment.key, "metrics": list(_STRIP_METRICS), "start": 0, "rows": rows}, 5)
