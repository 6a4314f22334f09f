"""What the paper's figures need beyond manifoldgp.plots: a look for each method, scores over seeds, spectra, and figures as files."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import ArrayLike

from manifoldgp import plots
from manifoldgp.inspection import palette
from manifoldgp.plots import Style

METHOD_STYLES: dict[str, Style] = {
    "gp-se": Style(palette.BLUE, "-", "o"),
    "gp-nn": Style(palette.VERMILLION, (0, (1.2, 1.2)), "s"),
    "mgp-sigmoid": Style(palette.GREEN, (0, (5, 1.6)), "^"),
    "mgp-identity": Style(palette.SKY, (0, (5, 1.5, 1.2, 1.5)), "v"),
    "random-embedding": Style(palette.GREY, (0, (3, 2)), "D"),
    "pca": Style(palette.BROWN, (0, (1, 2)), "P"),
    "autoencoder": Style(palette.BROWN, (0, (6, 2, 1, 2)), "<"),
    "mgp-pretrained": Style(palette.GREEN, (0, (2, 1)), ">"),
    "kernel-search": Style(palette.INK, (0, (4, 1, 1, 1, 1, 1)), "p"),
    "mgp-restarts": Style(palette.PURPLE, "-", "X"),
    "stack": Style(palette.ORANGE, "-", "*"),
}
"""Solid blue, dotted red and dashed green are the paper's own choice for its three models."""


def style_of(method: str) -> Style:
    """The style of a method, ink where it has none."""
    return METHOD_STYLES.get(method, Style(palette.INK))


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
                row.paper,
                place,
                "o",
                markersize=9,
                markerfacecolor="none",
                markeredgecolor=palette.INK,
                markeredgewidth=1.1,
                zorder=5,
            )
    ax.plot([], [], "o", markersize=9, markerfacecolor="none", markeredgecolor=palette.INK, markeredgewidth=1.1, label="paper")
    ax.plot([], [], "|", markersize=11, markeredgewidth=2.2, color="#5b636c", label="median")
    ax.plot([], [], "o", markersize=4.5, markeredgewidth=0, color="#5b636c", label="one seed")
    ax.set_yticks(range(len(rows)), [row.label for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    if logarithmic:
        ax.set_xscale("log")
    return ax


def plot_spectrum(
    ax: Axes, frequency: ArrayLike, power: ArrayLike, *, bandwidth: float | None = None, style: Style | None = None
) -> Axes:
    """The share of power at each frequency as a filled curve; bandwidth: marks the frequency that 95 % of it lies below."""
    style = style or Style(palette.INK)
    frequency, power = np.asarray(frequency, dtype=float), np.asarray(power, dtype=float)
    ax.fill_between(frequency, 0.0, power, color=style.color, alpha=0.2, linewidth=0)
    ax.plot(frequency, power, color=style.color, linewidth=1.4)
    if bandwidth is not None:
        ax.axvline(bandwidth, color=palette.INK, linewidth=0.9, linestyle=(0, (4, 2)))
        ax.annotate(
            f"95 % below {bandwidth:.2f}",
            (bandwidth, 0.95),
            xycoords=("data", "axes fraction"),
            xytext=(5, 0),
            textcoords="offset points",
            fontsize=8,
            va="top",
        )
    ax.set_ylim(bottom=0.0)
    return ax


def figure_html(figure: Figure, name: str, caption: str) -> str:
    """A picture inside the page, as vector graphics. caption: HTML."""
    source = base64.b64encode(figure_bytes(figure, "svg")).decode("ascii")
    alternative = escape(_without_tags(caption), quote=True)
    return (
        f'<figure id="figure-{name}"><div class="frame"><img alt="{alternative}" src="data:image/svg+xml;base64,{source}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """The picture as a file: svg, pdf or png. The same figure gives the same bytes."""
    stream = io.BytesIO()
    dateless: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with plots.styled():
        if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):  # arrange once, for all kinds of files
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        figure.savefig(stream, format=kind, dpi=200, metadata=dateless or None)
    return stream.getvalue()


def _without_tags(text: str) -> str:
    kept, inside = [], False
    for letter in text:
        inside = letter == "<" or (inside and letter != ">")
        if not inside and letter != ">":
            kept.append(letter)
    return "".join(kept)
