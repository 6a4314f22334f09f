"""Predictions along one axis: mean, bounds, and what was observed."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from manifoldgp.palette import INK
from manifoldgp.plots.style import Style


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
