"""A function of two inputs as an intensity map."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from numpy.typing import ArrayLike


def plot_map(
    ax: Axes,
    field: ArrayLike,
    *,
    extent: tuple[float, float, float, float] = (0.0, 10.0, 0.0, 10.0),
    limits: tuple[float, float] | None = None,
    logarithmic: bool = False,
    label: str | None = None,
    colorbar: bool = True,
) -> Axes:
    """``field`` (n1, n2), index 0 along the horizontal axis. limits: of the colours. logarithmic: for positive fields such as errors."""
    field = np.asarray(field, dtype=float)
    low, high = limits or (float(field.min()), float(field.max()))
    norm = LogNorm(low, high, clip=True) if logarithmic else Normalize(low, high)
    image = ax.imshow(field.T, origin="lower", extent=extent, cmap="viridis", interpolation="bilinear", aspect="equal", norm=norm)
    ax.grid(False)
    if colorbar:
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.02)
        bar.outline.set_linewidth(0)  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
        if label:
            bar.set_label(label)
    return ax
