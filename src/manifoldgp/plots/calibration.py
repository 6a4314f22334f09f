"""Predicted against observed values, PIT histograms and coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from manifoldgp import inspection, metrics
from manifoldgp.inspection.palette import BLUE, FAINT, INK
from manifoldgp.plots.style import drawing_place, styled, target_label

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


@styled()
def plot_predicted_observed(
    model: ManifoldGPRegressor,
    X: Table | None = None,
    y: ArrayLike | None = None,
    *,
    output: int = 0,
    noise_std: ArrayLike | None = None,
    most: int = 500,
    ax: Axes | None = None,
) -> Axes:
    """Predictive mean with its 95 % interval against what was observed; on the diagonal a prediction is exact.

    Parameters
    ----------
    X, y
        Test rows. Without them every training row is predicted from all the others (leave-one-out).
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
    name = target_label(model, output)
    how = "from all other rows" if found.left_out else "test rows"
    ax.set(xlabel=f"observed {name}", ylabel=f"predicted {name} ({how})", xlim=(low, high))
    return ax


@styled()
def plot_pit(
    model: ManifoldGPRegressor,
    X: Table | None = None,
    y: ArrayLike | None = None,
    *,
    output: int = 0,
    noise_std: ArrayLike | None = None,
    bins: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Histogram of P(Y <= y): flat if the model is calibrated, high at both ends if it is too sure, high in the middle if too cautious.

    Parameters
    ----------
    X, y
        Test rows. Without them: the rows that the folds of a stack held out, for other averagings leave-one-out values. Grey: what chance allows.
    """
    found = inspection.calibration(model, X, y, output=output, noise_std=noise_std)
    density = metrics.pit_histogram(found.pit, bins)
    ax = drawing_place(ax, (4.6, 3.0))
    ax.bar((np.arange(bins) + 0.5) / bins, density, width=0.92 / bins, color=BLUE, alpha=0.85)
    ax.axhspan(*inspection.histogram_band(len(found.pit), bins), color=FAINT, alpha=0.25, linewidth=0, zorder=0)
    ax.axhline(1.0, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    ax.set(xlabel=f"where y falls in its predicted distribution ({found.source})", ylabel="density, ideal: 1", xlim=(0, 1))
    return ax


@styled()
def plot_coverage(
    model: ManifoldGPRegressor,
    X: Table | None = None,
    y: ArrayLike | None = None,
    *,
    output: int = 0,
    noise_std: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Share of rows inside central intervals against the share that should be: on the diagonal if calibrated, below it if too sure.

    Rows as in `plot_pit`. Grey: what chance allows.
    """
    found = inspection.calibration(model, X, y, output=output, noise_std=noise_std)
    levels = np.linspace(0.02, 0.99, 98)
    observed = [row.observed for row in metrics.coverage_table(found.pit, levels.tolist())]
    ax = drawing_place(ax, (4.0, 3.6))
    low, high = inspection.coverage_band(len(found.pit), levels)
    ax.fill_between(levels, low, high, color=FAINT, alpha=0.25, linewidth=0)
    ax.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    ax.plot(levels, observed, color=BLUE)
    ax.set(
        xlabel="share that intervals should hold", ylabel=f"share that they hold ({found.source})", xlim=(0, 1), ylim=(0, 1.01)
    )
    return ax
