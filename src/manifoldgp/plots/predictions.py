"""Predictions of a fitted model along one input: mean and the interval that holds a stated share of observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from manifoldgp import inspection
from manifoldgp.errors import InputError
from manifoldgp.palette import BLUE, INK
from manifoldgp.plots.bands import plot_band, plot_observations
from manifoldgp.plots.style import Style, drawing_place, styled

_MOST_POINTS = 2000


@styled()
def plot_prediction(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    output: int = 0,
    level: float = 0.95,
    points: int = 400,
    ax: Axes | None = None,
) -> Axes:
    """A model of one input: predictive mean, the central interval that should hold a share ``level`` of observations, and the rows X, y.

    Rows are those of training unless given. For more inputs see :func:`plot_slice`.
    """
    names = inspection.input_names(model)
    if len(names) != 1:
        raise InputError(
            f"plot_prediction shows a model of one input; this one has {len(names)}. Use plot_slice(model, {names[0]!r})."
        )
    rows = inspection.chosen_rows(model, X, y, output, _MOST_POINTS)
    band = inspection.slice_band(model, 0, X=rows.X, output=output, level=level, points=points, margin=0.08)
    ax = _draw(model, drawing_place(ax), band, output, level)
    plot_observations(ax, rows.X[:, 0], rows.y, label="given rows" if rows.given else "training rows")
    ax.set(xlabel=names[0], ylabel=inspection.target_name(model, output), xlim=(band.x[0], band.x[-1]))
    ax.legend(loc="best")
    return ax


@styled()
def plot_slice(
    model: Any,
    column: str | int = 0,
    *,
    X: Any = None,
    output: int = 0,
    level: float = 0.95,
    points: int = 200,
    ax: Axes | None = None,
) -> Axes:
    """The prediction when one input (by name or number) varies and the others stay at their medians.

    Ticks at the bottom show where the rows X (by default those of training) lie along this input.
    """
    d = inspection.input_index(model, column)
    band = inspection.slice_band(model, d, X=X, output=output, level=level, points=points)
    rows = inspection.chosen_inputs(model, X)
    ax = _draw(model, drawing_place(ax), band, output, level)
    ticks = rows[inspection.thinned(len(rows), 500), d]
    ax.plot(
        ticks, np.zeros(len(ticks)), "|", color=INK, alpha=0.5, markersize=5, transform=ax.get_xaxis_transform(), label="rows"
    )
    ax.set(xlabel=inspection.input_names(model)[d], ylabel=inspection.target_name(model, output), xlim=(band.x[0], band.x[-1]))
    ax.legend(loc="best")
    return ax


def _draw(model: Any, ax: Axes, band: inspection.Band, output: int, level: float) -> Axes:
    plot_band(ax, band.x, band.mean, band.lower, band.upper, style=Style(BLUE), label="mean")
    ax.collections[-1].set_label(f"{100 * level:g} % interval")
    return ax
