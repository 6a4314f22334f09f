"""Rollouts as fans: means, bands and drawn trajectories of each state over time, with what happened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manifoldgp._system.plain_text import without_formulas
from manifoldgp.errors import InputError
from manifoldgp.inspection.palette import BLUE
from manifoldgp.plots.bands import plot_band, plot_observations
from manifoldgp.plots.style import Style, new_figure, styled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.dynamics import Rollout

_THREADS = 20
"""Drawn trajectories that are shown."""


@styled()
def plot_rollout(
    rollout: Rollout,
    truth: ArrayLike | None = None,
    *,
    states: Sequence[str] | None = None,
    level: float = 0.95,
    columns: int = 2,
) -> Figure:
    """The rollout of one start, a picture for each state: mean, band, some of the trajectories that were drawn, and what happened.

    Parameters
    ----------
    rollout
        From ``model.rollout`` of one state.
    truth : (H + 1, S)
        Recorded states, from the start on.
    states
        Names of the states to show; all where it is not given.
    level
        The share of the bands.
    columns
        Pictures side by side.
    """
    if rollout.mean.ndim != 2:
        raise InputError(f"plot_rollout shows one start; this rollout has {len(rollout.mean)}. Roll out one state (S,).")
    names = list(rollout.state_names)
    unknown = [name for name in states or () if name not in names]
    if unknown:
        raise InputError(f"There is no state {unknown[0]!r}; there are {', '.join(map(repr, names))}.")
    happened = None if truth is None else np.asarray(truth, dtype=float)
    if happened is not None and happened.shape != rollout.mean.shape:
        raise InputError(f"truth must be {rollout.mean.shape}, states from the start on; got {happened.shape}.")
    shown = [names.index(name) for name in (names if states is None else states)]
    across = min(columns, len(shown))
    down = math.ceil(len(shown) / across)
    figure, axes = new_figure(down, across, size=(3.9 * across, 2.2 * down))
    for ax, i in zip(axes, shown, strict=False):
        _draw(ax, rollout, i, None if happened is None else happened[:, i], level)
    for ax in axes[len(shown) :]:
        ax.set_axis_off()
    axes[0].legend(loc="best")
    return figure


def _draw(ax: Axes, rollout: Rollout, i: int, truth: np.ndarray | None, level: float) -> None:
    lower, upper = rollout.interval(level)
    if rollout.particles is not None:
        ax.plot(rollout.time, rollout.particles[:_THREADS, :, i].T, color=BLUE, linewidth=0.4, alpha=0.4, zorder=1)
    plot_band(ax, rollout.time, rollout.mean[:, i], lower[:, i], upper[:, i], style=Style(BLUE), label="mean")
    ax.collections[-1].set_label(f"{100 * level:g} % band")
    if truth is not None:
        plot_observations(ax, rollout.time, truth, label="recorded")
    ax.set(xlabel="steps" if rollout.dt is None else "seconds", ylabel=without_formulas(rollout.state_names[i]))
