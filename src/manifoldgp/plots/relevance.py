"""Which inputs the prediction depends on."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from manifoldgp import inspection
from manifoldgp.palette import BLUE
from manifoldgp.plots.style import drawing_place, styled


@styled()
def plot_relevance(model: Any, X: Any = None, *, output: int = 0, most: int = 20, ax: Axes | None = None) -> Axes:
    """A bar for each input, the strongest on top: by how much the prediction typically changes with it (:func:`~manifoldgp.inspection.sensitivities`).

    most: inputs that are shown.
    """
    strength = inspection.sensitivities(model, X, output=output)
    order = np.argsort(-strength, kind="stable")[:most]
    names = inspection.input_names(model)
    ax = drawing_place(ax, (5.2, 1.1 + 0.26 * len(order)))
    ax.barh(range(len(order)), strength[order], height=0.62, color=BLUE)
    ax.set_yticks(range(len(order)), [names[d] for d in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    name = inspection.target_name(model, output)
    ax.set_xlabel(f"typical change of {name} as the input varies by one standard deviation")
    return ax
