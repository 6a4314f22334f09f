"""Learned features: as curves over one input, or as a plane coloured by something."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from manifoldgp.plots.style import BLUE, BROWN, GREEN, PURPLE, VERMILLION

_LINES = (
    (BLUE, "-"),
    (VERMILLION, (0, (5, 1.6))),
    (GREEN, (0, (1.2, 1.2))),
    (PURPLE, (0, (5, 1.5, 1.2, 1.5))),
    (BROWN, (0, (3, 2))),
)


def plot_feature_curves(ax: Axes, x: ArrayLike, features: ArrayLike) -> Axes:
    """Each feature (Q, n) as a function of the input x (n,)."""
    for q, curve in enumerate(np.asarray(features, dtype=float)):
        color, dash = _LINES[q % len(_LINES)]
        ax.plot(np.asarray(x, dtype=float), curve, color=color, linestyle=dash, label=f"feature {q + 1}")
    return ax


def plot_feature_plane(
    ax: Axes,
    plane: ArrayLike,
    values: ArrayLike,
    *,
    label: str,
    cyclic: bool = False,
    path: bool = False,
    size: float = 9.0,
    colorbar: bool = True,
) -> Axes:
    """Points (n, 2) of a feature plane coloured by ``values`` (n,). cyclic: values in [0, 1) whose ends meet, such as a phase.

    path: also join consecutive points by a faint line.
    """
    plane = np.asarray(plane, dtype=float)
    if path:
        ax.plot(plane[:, 0], plane[:, 1], color="#c9ced4", linewidth=0.35, zorder=1)
    limits = {"vmin": 0.0, "vmax": 1.0} if cyclic else {}
    drawn = ax.scatter(
        plane[:, 0],
        plane[:, 1],
        c=np.asarray(values, dtype=float),
        cmap="twilight_shifted" if cyclic else "viridis",
        s=size,
        linewidths=0.25 if cyclic else 0.0,
        edgecolors="#3c4249",
        zorder=2,
        rasterized=True,
        **limits,  # pyright: ignore[reportArgumentType]
    )
    if colorbar:
        bar = ax.figure.colorbar(drawn, ax=ax, fraction=0.046, pad=0.02)
        bar.set_label(label)
        bar.outline.set_linewidth(0)  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
    return ax
