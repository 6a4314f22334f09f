"""Predicted curves with their bands, and observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from manifoldgp import inspection
from manifoldgp._system.plain_text import without_formulas
from manifoldgp.errors import InputError
from manifoldgp.inspection.palette import BLUE, INK, VERMILLION
from manifoldgp.plots.style import Style, drawing_place, input_labels, styled, target_label

if TYPE_CHECKING:
    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.forecaster import Forecaster
    from manifoldgp.estimators.forecasting import Forecast
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


def plot_band(
    ax: Axes,
    x: ArrayLike,
    mean: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    style: Style | None = None,
    label: str | None = None,
) -> Axes:
    """A predictive mean as a line and its bounds as a shaded band with thin edges, over x (n,)."""
    style = style or Style(INK)
    x, mean, lower, upper = (np.asarray(a, dtype=float) for a in (x, mean, lower, upper))
    ax.fill_between(x, lower, upper, color=style.color, alpha=0.16, linewidth=0, zorder=1)
    for edge in (lower, upper):
        ax.plot(x, edge, color=style.color, linewidth=0.6, alpha=0.7, zorder=2)
    ax.plot(x, mean, color=style.color, linestyle=style.dash, label=label, zorder=3)
    return ax


def plot_observations(
    ax: Axes, x: ArrayLike, y: ArrayLike, *, label: str | None = None, size: float = 7.0, **points: Any
) -> Axes:
    """Observed values as small points in ink."""
    settings = {"color": INK, "linewidths": 0.0, "alpha": 0.75, "zorder": 4} | points
    ax.scatter(np.asarray(x, dtype=float), np.asarray(y, dtype=float), s=size, label=label, **settings)
    return ax


_MOST_POINTS = 2000


@styled()
def plot_prediction(
    model: ManifoldGPRegressor,
    X: Table | None = None,
    y: ArrayLike | None = None,
    *,
    output: int = 0,
    level: float = 0.95,
    points: int = 400,
    ax: Axes | None = None,
) -> Axes:
    """A model of one input: predictive mean, the central interval that should hold a share ``level`` of observations, and the rows X, y.

    Rows are those of training unless given. For more inputs see `plot_slice`.
    """
    names = input_labels(model)
    if len(names) != 1:
        raise InputError(
            f"plot_prediction shows a model of one input; this one has {len(names)}. Use plot_slice(model, {names[0]!r})."
        )
    rows = inspection.chosen_rows(model, X, y, output, _MOST_POINTS)
    band = inspection.slice_band(model, 0, X=rows.X, output=output, level=level, points=points, margin=0.08)
    ax = _draw(model, drawing_place(ax), band, output, level)
    plot_observations(ax, rows.X[:, 0], rows.y, label="given rows" if rows.given else "training rows")
    ax.set(xlabel=names[0], ylabel=target_label(model, output), xlim=(band.x[0], band.x[-1]))
    ax.legend(loc="best")
    return ax


@styled()
def plot_slice(
    model: ManifoldGPRegressor,
    column: str | int = 0,
    *,
    X: Table | None = None,
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
    ax.set(xlabel=input_labels(model)[d], ylabel=target_label(model, output), xlim=(band.x[0], band.x[-1]))
    ax.legend(loc="best")
    return ax


@styled()
def plot_forecast(
    forecaster: Forecaster,
    forecast: Forecast,
    truth: ArrayLike | None = None,
    *,
    output: int = 0,
    level: float = 0.95,
    past: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A forecast after the series that it continues: mean, the intervals that should each hold a share ``level``, and what came, where it is known.

    past: how many of the last values are shown; None for three times as many as are forecast.
    """
    series, count = forecaster.series_, len(forecast.times)
    shown = slice(-min(len(series), 3 * count if past is None else past), None)
    mean, (lower, upper) = (
        forecast.mean.reshape(count, -1)[:, output],
        forecast.interval(level).reshape(count, 2, -1)[..., output].T,
    )
    before, after = _on_axis(series.times[shown]), _on_axis(forecast.times)
    ax = drawing_place(ax, (7.2, 3.0))
    ax.plot(before, series.values[shown, output], color=INK, linewidth=1.0, label="so far")
    ax.fill_between(after, lower, upper, color=BLUE, alpha=0.16, linewidth=0, label=f"{100 * level:g} % intervals")
    ax.plot(after, mean, color=BLUE, label="forecast")
    if truth is not None:
        ax.plot(
            after,
            np.asarray(truth, dtype=float).reshape(count, -1)[:, output],
            color=VERMILLION,
            linewidth=1.0,
            linestyle="--",
            label="what came",
        )
    ax.set(ylabel="y" if series.names is None else without_formulas(series.names[output]))
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderaxespad=0.2)  # above the axes, where no line is
    return ax


def _on_axis(times: Any) -> np.ndarray:
    """Times as matplotlib draws them: dates as dates, the others as numbers."""
    return np.asarray(times.to_timestamp() if hasattr(times, "to_timestamp") else times)


def _draw(model: ManifoldGPRegressor, ax: Axes, band: inspection.Band, output: int, level: float) -> Axes:
    plot_band(ax, band.x, band.mean, band.lower, band.upper, style=Style(BLUE), label="mean")
    ax.collections[-1].set_label(f"{100 * level:g} % interval")
    return ax
