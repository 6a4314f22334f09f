"""The section of a page that shows where a model errs: residuals against every input and against the order of rows, and the worst rows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from manifoldgp import inspection
from manifoldgp.inspection.page_tables import say, say_input, table
from manifoldgp.inspection.page_view import (
    BLUE,
    INK,
    MOST_SLICES,
    MOST_WORDS,
    POINT,
    ModelView,
    Spec,
    TargetView,
    axis,
    chart,
    choice,
    input_axis,
    numbers,
    padded,
    word_axis,
)
from manifoldgp.inspection.table_columns import TableColumn

_WORST = 10
_MOST_INPUTS = 8
ORDER = "order of rows"


def residuals_chart(view: ModelView) -> Spec:
    """Observed less predicted, against the order of rows and against each of the strongest inputs."""
    shown = view.strongest[:MOST_SLICES]
    specs = []
    for column in (None, *shown):
        specs += [_residuals(view, target, column) for target in view.targets]
    return chart("residuals", specs, [choice("Against", [ORDER, *(column.label for column in shown)]), *view.target_choice])


def _residuals(view: ModelView, target: TargetView, column: TableColumn | None) -> Spec:
    found = target.shown
    some = inspection.thinned(len(found.observed), 600)
    error = (found.observed - found.mean)[some]
    rows = view.numbers_of(found)[some]
    words = None if column is None else column.words(found.X[some], view.levels_of(target, found, some))
    known = sorted(set(words or ()))
    if words is not None:
        x = np.array([known.index(word) for word in words], dtype=float)
    else:
        x = rows.astype(float) if column is None else found.X[some, column.places[0]]
    name, limits = ORDER if column is None else column.axis_label, padded(x)
    if words is not None and len(known) <= MOST_WORDS:
        along = word_axis(name, known)
    else:
        along = axis(name, limits) if column is None or words is not None else input_axis(column, found.X, limits)
    points = {
        "kind": "points",
        "color": BLUE,
        "x": numbers(x, 10),
        "y": numbers(error),
        "row": [str(i) for i in rows],
        **({} if words is None else {"label": words}),
    }
    value = [] if column is None else [[name, "x" if words is None else "label"]]
    points |= {"tell": [["row", "row"], *value, ["observed less predicted", "y"]]}
    zero = {"kind": "line", "x": limits, "y": [0.0, 0.0], "color": INK, "width": 1.2, "dash": "5 4"}
    return {
        "title": f"Errors of {target.name} against {name}",
        "hover": "nearest",
        "height": 320,
        "x": along,
        "y": axis(f"{target.name}: observed less predicted", padded(error, [0.0]), target.name),
        "layers": [zero, points],
        "idle": POINT,
    }


def worst_rows(view: ModelView) -> str:
    """The rows with the largest errors as tables, one a target: what was observed, predicted and expected, and the strongest inputs."""
    return "".join(_worst_of(view, target) for target in view.targets)


def _worst_of(view: ModelView, target: TargetView) -> str:
    found, shown = target.shown, view.strongest[:_MOST_INPUTS]
    error = found.observed - found.mean
    numbers_of_rows = view.numbers_of(found)
    worst: list[int] = np.argsort(-np.abs(error), kind="stable")[:_WORST].tolist()
    heads = ("row", "observed", "predicted", "error", "95 % interval", *(escape(column.label) for column in shown))
    levels = view.levels_of(target, found, np.array(worst))
    inputs = [cells(column, found.X, worst, levels) for column in shown]
    rows = []
    for k, i in enumerate(worst):
        outside = not found.lower[i] <= found.observed[i] <= found.upper[i]
        interval = f"{say(found.lower[i])} to {say(found.upper[i])}" + (" (outside)" if outside else "")
        told = [say(found.observed[i]), say(found.mean[i]), say(error[i]), interval]
        rows.append([str(numbers_of_rows[i]), *told, *(column[k] for column in inputs)])
    of = f" of {escape(target.name)}" if len(view.targets) > 1 else ""
    return f"<h3>The rows with the largest errors{of}</h3>{table(heads, rows)}"


def cells(column: TableColumn, X: np.ndarray, rows: Sequence[int], levels: np.ndarray | None = None) -> list[str]:
    """What a table shows of an input in some rows of X (n, D), as HTML: a category by its name, a date as a date. levels: of these rows, as in `TableColumn.words`."""
    some = X[rows]
    words = column.words(some, levels)
    if words is not None:
        shown = list(map(escape, words))
    elif column.column.kind == "date":
        shown = column.dates(some[:, column.places[0]])
    else:
        shown = [say_input(x) for x in _with_zeros(X)[rows, column.places[0]]]
    return ["missing" if gap else text for text, gap in zip(shown, column.is_missing(some), strict=True)]


def _with_zeros(X: np.ndarray) -> np.ndarray:
    """X (n, D) with zeros where scaling back and forth has left almost nothing.

    >>> _with_zeros(np.array([[1.7e-18, 3e-20], [1.0, 1e-20]])).tolist()
    [[0.0, 3e-20], [1.0, 1e-20]]
    """
    largest = np.abs(X).max(0, initial=0.0)
    return np.where(np.abs(X) < 1e-12 * largest, 0.0, X)
