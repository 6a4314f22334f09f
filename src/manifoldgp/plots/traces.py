"""How training went, and who carries the weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from manifoldgp import inspection
from manifoldgp.inspection.palette import FAINT, SEQUENCE
from manifoldgp.plots.style import drawing_place, styled

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

_DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
_FEW = 10


@styled()
def plot_starts(model: ManifoldGPRegressor, *, output: int = 0, ax: Axes | None = None) -> Axes:
    """The objective (NLML, with priors if there are any) of every start by iteration, lower is better; starts that carry no weight are grey.

    The vertical axis leaves out the first steps from poor starting values.
    """
    found = inspection.traces(model, output=output)
    ax = drawing_place(ax)
    groups = list(dict.fromkeys(trace.group for trace in found))
    labelled: set[str] = set()
    for trace in found:
        g = groups.index(trace.group)
        used = trace.weight > 0
        label = trace.group if used and trace.group not in labelled else None
        labelled |= {trace.group} if used else set()
        color = SEQUENCE[g % len(SEQUENCE)] if used else FAINT
        ax.plot(
            trace.objective,
            color=color,
            linestyle=_DASHES[g % len(_DASHES)],
            linewidth=1.2 if used else 0.7,
            label=label,
            zorder=3 if used else 2,
        )
    ends = np.array([trace.objective[-1] for trace in found if np.isfinite(trace.objective[-1])])
    whole = np.concatenate([trace.objective[np.isfinite(trace.objective)] for trace in found])
    if len(ends):
        low, usual = float(ends.min()), float(np.quantile(whole, 0.9))
        high = max(usual, low + 1.0)
        ax.set_ylim(low - 0.06 * (high - low), high)
    if labelled:
        ax.legend(loc="upper right", title="in the prediction" if len(labelled) < len(found) else None)
    ax.set(xlabel="iteration", ylabel="objective in nats, lower is better")
    return ax


@styled()
def plot_weights(model: ManifoldGPRegressor, *, output: int = 0, ax: Axes | None = None) -> Axes:
    """A bar for each group of an average (for each start where there is one group), split by the factor that multiplies its variances."""
    found = inspection.mixture_weights(model, output=output)
    names, weights = found.names[:_FEW], found.weights[:_FEW]
    ax = drawing_place(ax, (5.2, 1.2 + 0.28 * len(names)))
    left = np.zeros(len(names))
    for f, factor in enumerate(found.variance_factors):
        label = "as trained" if factor == 1.0 else f"variance × {factor:g}"
        ax.barh(range(len(names)), weights[:, f], left=left, height=0.62, color=SEQUENCE[f % len(SEQUENCE)], label=label)
        left = left + weights[:, f]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    hidden = len(found.names) - len(names)
    how = "found on held-out rows" if found.held_out else "in the prediction"
    ax.set(
        xlabel=f"weight {how}" + (f"; {hidden} lighter ones are not shown" if hidden else ""),
        xlim=(0, 1.0 if found.held_out else None),
    )
    if len(found.variance_factors) > 1:
        ax.legend(loc="lower right")
    return ax
