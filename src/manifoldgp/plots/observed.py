"""Predicted against observed."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from manifoldgp import inspection
from manifoldgp.palette import BLUE, INK
from manifoldgp.plots.style import drawing_place, styled


@styled()
def plot_predicted_observed(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    output: int = 0,
    noise_std: Any = None,
    most: int = 500,
    ax: Axes | None = None,
) -> Axes:
    """Predictive mean with its 95 % interval against what was observed; on the diagonal a prediction is exact.

    X, y: test rows. Without them every training row is predicted from all the others (leave-one-out).
    """
    found = inspection.predictions(model, X, y, output=output, noise_std=noise_std, most=most)
    ax = drawing_place(ax, (4.2, 4.0))
    reach = np.abs(np.stack([found.lower - found.mean, found.upper - found.mean]))
    ax.errorbar(
        found.observed, found.mean, yerr=reach, fmt="o", markersize=3.2, markeredgewidth=0, color=BLUE, ecolor=BLUE, elinewidth=0.7, alpha=0.6
    )  # fmt: skip
    both = np.concatenate([found.observed, found.mean])
    low, high = inspection.span(both, 0.05)
    ax.plot([low, high], [low, high], color=INK, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
    name = inspection.target_name(model, output)
    how = "from all other rows" if found.left_out else "test rows"
    ax.set(xlabel=f"observed {name}", ylabel=f"predicted {name} ({how})", xlim=(low, high))
    return ax
