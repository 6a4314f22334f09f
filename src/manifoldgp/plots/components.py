"""Every additive part of a kernel with its band."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from manifoldgp import inspection
from manifoldgp._system.plain_text import without_formulas
from manifoldgp.errors import InputError
from manifoldgp.inspection.palette import BLUE, INK
from manifoldgp.plots.bands import plot_band
from manifoldgp.plots.maps import plot_map
from manifoldgp.plots.style import Style, new_figure, styled, target_label

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


@styled()
def plot_components(
    model: ManifoldGPRegressor, *, output: int = 0, upto: ArrayLike | None = None, least: float = 0.001, columns: int = 2
) -> Figure:
    """The additive parts of a model's kernel, the largest first: curves with 95 % bands, maps for parts of two inputs.

    Each is shown around its own mean over the training rows. Of a part of more inputs the first two vary, the others stay at their medians.

    Parameters
    ----------
    upto
        How far curves go on beyond the training rows: one value for each input.
    least
        Parts with a smaller share of the variance are left out.
    columns
        Pictures side by side.
    """
    found = inspection.components(model, output=output, upto=upto)
    shown = [part for part in found if part.share >= least] or found[:1]
    if not shown:
        raise InputError("The kernel of this model is a constant: there is nothing to show.")
    across = min(columns, len(shown))
    down = math.ceil(len(shown) / across)
    figure, axes = new_figure(down, across, size=(3.9 * across, 2.7 * down))
    for ax, part in zip(axes, shown, strict=False):
        _draw(ax, part, model, output)
    for ax in axes[len(shown) :]:
        ax.set_axis_off()
    return figure


def _draw(ax: Axes, part: inspection.Component, model: ManifoldGPRegressor, output: int) -> None:
    title = f"{part.words} ({100 * part.share:.1f} %)"
    ax.set_title("\n".join(textwrap.wrap(without_formulas(title), 46)), fontsize=8.5)
    labels = [without_formulas(name) for name in part.names]
    ax.set_xlabel(labels[0])
    if part.x2 is None:
        lower, upper = part.bounds()
        plot_band(ax, part.x1, part.mean, lower, upper, style=Style(BLUE))
        if part.x1[-1] > part.known_to:
            ax.axvline(part.known_to, color=INK, linewidth=0.7, linestyle=":")
        ax.set(ylabel=f"adds to {target_label(model, output)}", xlim=(part.x1[0], part.x1[-1]))
    else:
        extent = (float(part.x1[0]), float(part.x1[-1]), float(part.x2[0]), float(part.x2[-1]))
        plot_map(ax, part.mean, extent=extent, label=f"adds to {target_label(model, output)}", aspect="auto")
        ax.set_ylabel(labels[1])
