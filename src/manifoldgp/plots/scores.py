"""One score of several methods over seeds: every seed a point, the median a bar, the paper's value a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from manifoldgp.inspection.palette import INK
from manifoldgp.plots.style import Style


@dataclass(frozen=True)
class Scores:
    """The scores of one method: one a seed, and the paper's value where it has one."""

    label: str
    values: Sequence[float]
    paper: float | None
    style: Style


def plot_scores(ax: Axes, rows: Sequence[Scores], *, logarithmic: bool = False) -> Axes:
    """Methods from top to bottom, lower scores to the left. logarithmic: for positive scores that differ by factors.

    A score far above the others is drawn at the right edge with its value beside it, or it would flatten the rest.
    """
    everything = np.array([v for row in rows for v in (*row.values, row.paper) if v is not None])
    edge = np.inf
    if len(everything) and not logarithmic:
        low, middle = float(everything.min()), float(np.median(everything))
        edge = middle + 3.0 * max(middle - low, 0.5)
    for place, row in enumerate(rows):
        offsets = place + (0.16 * np.linspace(-1, 1, len(row.values)) if len(row.values) > 1 else np.zeros(len(row.values)))
        for value, offset in zip(row.values, offsets, strict=True):
            ax.plot(
                min(value, edge),
                offset,
                row.style.marker,
                color=row.style.color,
                markersize=4.5,
                alpha=0.75,
                markeredgewidth=0,
                zorder=3,
            )
        if row.values:
            median = min(float(np.median(row.values)), edge)
            ax.plot([median, median], [place - 0.3, place + 0.3], color=row.style.color, linewidth=2.2, zorder=4)
            if max(row.values) > edge:
                ax.annotate(
                    f"to {max(row.values):.3g} →",
                    (edge, place - 0.22),
                    xytext=(-4, 0),
                    textcoords="offset points",
                    ha="right",
                    va="bottom",
                    fontsize=7.5,
                )
        if row.paper is not None:
            ax.plot(
                row.paper, place, "o", markersize=9, markerfacecolor="none", markeredgecolor=INK, markeredgewidth=1.1, zorder=5
            )
    ax.plot([], [], "o", markersize=9, markerfacecolor="none", markeredgecolor=INK, markeredgewidth=1.1, label="paper")
    ax.plot([], [], "|", markersize=11, markeredgewidth=2.2, color="#5b636c", label="median")
    ax.plot([], [], "o", markersize=4.5, markeredgewidth=0, color="#5b636c", label="one seed")
    ax.set_yticks(range(len(rows)), [row.label for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    if logarithmic:
        ax.set_xscale("log")
    return ax
