"""The part of a model's page that computes: the predictor as JavaScript, and what its controls need to know."""

from __future__ import annotations

from html import escape
from importlib import resources

import numpy as np

from manifoldgp import inspection
from manifoldgp._system.plain_text import one_line
from manifoldgp.data.decimal_signs import NO_SIGNS, KnownSigns
from manifoldgp.errors import InputError
from manifoldgp.inspection.chosen_rows import FORGOTTEN
from manifoldgp.inspection.page_view import ModelView, Spec, numbers
from manifoldgp.inspection.table_columns import TableColumn
from manifoldgp.predictor import Predictor

MOST_BYTES = 24_000_000
"""Constants of a model that a page carries, at most; base64 makes a third more of them. The default stack has 5 to 14 MB at N = 400."""

_MOST_NEIGHBOURS = 2000

_WORDS = "Move the inputs and see what the model says. The computation happens in this page: nothing leaves your machine, and no network is needed."
_TABLE_WORDS = (
    "Paste a table with a header row, or drop a CSV file here; columns are found by name. "
    "The result has the mean, the standard deviation and an interval of about 95 % of every target: "
    "the quantiles 0.025 and 0.975, as <code>mgp predict --quantiles 0.025,0.975</code> writes them."
)
_GAPS = " This page predicts complete rows only; <code>mgp predict</code> fills gaps in."


def live_section(view: ModelView) -> tuple[str, Spec, list[str]]:
    """HTML, data and scripts; where the model cannot be on a page, a sentence that says why."""
    try:
        p = view.model.predictor()
    except InputError as error:
        return _without(f"This model cannot compute inside a page. {escape(str(error))}"), {}, []
    if p.nbytes > MOST_BYTES:
        reason = f"The model has {p.nbytes / 1e6:.1f} MB of numbers, and a page carries at most {MOST_BYTES / 1e6:.1f} MB: use <code>mgp predict</code>."
        return _without(reason), {}, []
    about = _TABLE_WORDS + _GAPS * _fills_gaps(view)
    html = f'<h2>Try it</h2><p class="soft">{_WORDS}</p><div id="live"></div><h3>A table</h3><p class="soft">{about}</p><div id="live-table"></div>'
    script = (resources.files("manifoldgp.inspection") / "live.js").read_text(encoding="utf-8")
    return html, {"live": _facts(view, p)}, [f"const model = {p.to_javascript()};", script]


def _without(reason: str) -> str:
    return f"<h2>Try it</h2><p>{reason}</p>"


def _fills_gaps(view: ModelView) -> bool:
    """Whether the model predicts rows with missing values, by many rows in place of one: more than the page's script does."""
    encoding = getattr(view.model, "table_encoding_", None)
    return encoding is not None and encoding.missing == "impute"


def _facts(view: ModelView, p: Predictor) -> Spec:
    rows = view.X[np.linspace(0, len(view.X) - 1, min(len(view.X), _MOST_NEIGHBOURS)).astype(int)]
    scaled = (rows - p.x_offset) / p.x_scale
    spread = [target.rows.y for target in view.targets]
    return {
        "columns": _columns(view, view.central_row),
        "targets": [target.name for target in view.targets],
        "ranges": [[float(np.min(y)), float(np.max(y))] for y in spread],
        "offset": p.x_offset.tolist(),
        "scale": p.x_scale.tolist(),
        "rows": numbers(scaled, 7),
        "typical": _typical_gap(scaled),
        "fills": _fills_gaps(view),
        "decimal": _signs(view).plain,
    }


def _signs(view: ModelView) -> KnownSigns:
    """The decimal signs of the training table, as far as it showed any."""
    encoding = getattr(view.model, "table_encoding_", None)
    return NO_SIGNS if encoding is None else encoding.signs


def _columns(view: ModelView, begin: int) -> list[Spec]:
    """The inputs as people have them: numbers and dates with a range, one choice for all numbers of a category. begin: the row whose values are shown first."""
    found = []
    for shown in view.columns:
        spec = _column(shown, view.X, begin, inspection.row_levels(view.model, 0, np.array([begin])))
        sign = _signs(view).of(shown.column.name)
        found.append(spec | {"shown": one_line(spec["name"]), "label": shown.axis_label, "decimal": sign})
    return found


def _column(shown: TableColumn, X: np.ndarray, begin: int, levels: np.ndarray | None) -> Spec:
    """What a control for a column has to know; X (n, D): training rows, which say the range; levels (1, C): of the row that is shown first, as in `row_levels`."""
    column, x = shown.column, X[:, shown.places[0]]
    spec: Spec = {
        "name": column.name,
        "kind": column.kind,
        "low": float(x.min()),
        "high": float(x.max()),
        "start": float(x[begin]),
        "indicator": column.indicator,
    }
    if column.categories:
        known = levels if levels is not None and levels.min() > FORGOTTEN else None
        start = shown.categories(X[[begin]], known)[0]
        return spec | {"kind": "category", "categories": list(column.categories), "codes": shown.codes.tolist(), "start": start}
    if column.time is None:
        return spec
    if column.time.origin is None:  # a length of time is a number in its unit
        return spec | {"kind": "number", "name": column.names[0]}
    clock = shown.clock(X)
    assert clock is not None
    places = {name: clock["origin"] + clock["unit"] * spec[name] for name in ("low", "high", "start")}
    return spec | places | clock | {"cyclic": list(column.time.cyclic), "order": column.time.order}


def _typical_gap(scaled: np.ndarray) -> float:
    """The median distance from a training row to the nearest other one."""
    some = scaled[:: max(1, len(scaled) // 200)]
    squares = ((some[:, None, :] - scaled[None]) ** 2).sum(-1)
    squares[squares < 1e-24] = np.inf
    nearest = np.sqrt(squares.min(1))
    return float(np.median(nearest[np.isfinite(nearest)])) if np.isfinite(nearest).any() else 0.0
