"""Power by frequency."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from manifoldgp.inspection.palette import INK
from manifoldgp.plots.style import Style


def plot_spectrum(
    ax: Axes, frequency: ArrayLike, power: ArrayLike, *, bandwidth: float | None = None, style: Style | None = None
) -> Axes:
    """The share of power at each frequency as a filled curve; bandwidth: marks the frequency that 95 % of it lies below."""
    style = style or Style(INK)
    frequency, power = np.asarray(frequency, dtype=float), np.asarray(power, dtype=float)
    ax.fill_between(frequency, 0.0, power, color=style.color, alpha=0.2, linewidth=0)
    ax.plot(frequency, power, color=style.color, linewidth=1.4)
    if bandwidth is not None:
        ax.axvline(bandwidth, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
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
