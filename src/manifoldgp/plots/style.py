"""Colours, dashes and type of all pictures: legible in print, and told apart without seeing colours as most people do."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manifoldgp import inspection
from manifoldgp._system.plain_text import without_formulas
from manifoldgp.inspection.palette import INK

_SCREEN = 120
"""Dots an inch of pictures in notebooks."""

_RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.edgecolor": "#4a5159",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e6e8eb",
    "grid.linewidth": 0.7,
    "xtick.color": "#4a5159",
    "ytick.color": "#4a5159",
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "manifoldgp",
}


@dataclass(frozen=True)
class Style:
    """How one method looks everywhere: colour, dash pattern of lines, marker of points."""

    color: str
    dash: Any = "-"
    marker: str = "o"


def input_labels(model: Any) -> list[str]:
    """The names of a model's inputs, as text for pictures."""
    return [without_formulas(name) for name in inspection.input_labels(model)]


def target_label(model: Any, output: int) -> str:
    """The name of a model's target, as text for pictures."""
    return without_formulas(inspection.target_label(model, output))


def styled():
    """The style of this package as a context or decorator: titles, legends and saved files made inside have it."""
    return matplotlib.rc_context(_RC)  # pyright: ignore[reportArgumentType]


class Picture(Figure):
    """A figure that a notebook shows where it is the last line of a cell, without pyplot."""

    def _repr_png_(self) -> bytes:
        written = BytesIO()
        self.savefig(written, format="png", dpi=_SCREEN)
        return written.getvalue()


def new_figure(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] = (7.2, 3.0), **grid: Any
) -> tuple[Figure, list[Axes]]:
    """An empty figure of ``size`` inches and its Axes, row by row, in the style of this package; no pyplot, no global state."""
    with styled():
        figure = Picture(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **grid)
    return figure, list(axes.ravel())


def drawing_place(ax: Axes | None, size: tuple[float, float] = (5.2, 3.4), **axes: Any) -> Axes:
    """The Axes to draw on: the one that is given, or a new one in a figure of its own (``ax.figure.savefig`` writes it)."""
    if ax is not None:
        return ax
    with styled():
        return Picture(figsize=size, layout="constrained").add_subplot(**axes)
