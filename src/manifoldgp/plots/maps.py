"""A function of two inputs as an intensity map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from numpy.typing import ArrayLike

from manifoldgp import inspection
from manifoldgp.plots.style import drawing_place, input_labels, styled, target_label

if TYPE_CHECKING:
    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


def plot_map(
    ax: Axes,
    field: ArrayLike,
    *,
    extent: tuple[float, float, float, float] = (0.0, 10.0, 0.0, 10.0),
    limits: tuple[float, float] | None = None,
    logarithmic: bool = False,
    label: str | None = None,
    colorbar: bool = True,
    aspect: Literal["equal", "auto"] = "equal",
) -> Axes:
    """An intensity map of ``field`` (n1, n2), index 0 along the horizontal axis.

    Parameters
    ----------
    limits
        Smallest and largest value of the colour scale; by default those of the field.
    logarithmic
        Whether colours follow the logarithm, for positive fields such as errors.
    aspect
        "equal" units along both axes, or "auto" to fill the Axes.
    """
    field = np.asarray(field, dtype=float)
    low, high = limits or (float(field.min()), float(field.max()))
    norm = LogNorm(low, high, clip=True) if logarithmic else Normalize(low, high)
    image = ax.imshow(field.T, origin="lower", extent=extent, cmap="viridis", interpolation="bilinear", aspect=aspect, norm=norm)
    ax.grid(False)
    if colorbar:
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.02)
        bar.outline.set_linewidth(0)  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
        if label:
            bar.set_label(label)
    return ax


@styled()
def plot_mean_map(
    model: ManifoldGPRegressor,
    columns: tuple[str | int, str | int] = (0, 1),
    *,
    X: Table | None = None,
    output: int = 0,
    points: int = 60,
    ax: Axes | None = None,
) -> Axes:
    """The predictive mean over two inputs, by name or number; others are at their medians. Dots: the rows, by default those of training."""
    return _surface_map(model, columns, "mean", X, output, points, ax)


@styled()
def plot_std_map(
    model: ManifoldGPRegressor,
    columns: tuple[str | int, str | int] = (0, 1),
    *,
    X: Table | None = None,
    output: int = 0,
    points: int = 60,
    ax: Axes | None = None,
) -> Axes:
    """The predictive standard deviation over two inputs: dark where the model is sure, light where it is not."""
    return _surface_map(model, columns, "std", X, output, points, ax)


def _surface_map(
    model: ManifoldGPRegressor,
    columns: tuple[str | int, str | int],
    what: str,
    X: Table | None,
    output: int,
    points: int,
    ax: Axes | None,
) -> Axes:
    s = inspection.surface(model, columns, X=X, output=output, points=points)
    d1, d2 = (inspection.input_index(model, column) for column in columns)
    ax = drawing_place(ax, (4.8, 3.9))
    name = target_label(model, output)
    label = f"predicted {name}" if what == "mean" else f"standard deviation of {name}"
    extent = (float(s.x1[0]), float(s.x1[-1]), float(s.x2[0]), float(s.x2[-1]))
    plot_map(ax, s.mean if what == "mean" else s.std, extent=extent, label=label, aspect="auto")
    rows = inspection.chosen_inputs(model, X)
    rows = rows[inspection.thinned(len(rows), 1000)]
    ax.scatter(rows[:, d1], rows[:, d2], s=6, c="white", edgecolors="#1b1f24", linewidths=0.4, zorder=3)
    names = input_labels(model)
    ax.set(xlabel=names[d1], ylabel=names[d2], xlim=extent[:2], ylim=extent[2:])
    if len(names) > 2:
        ax.set_title("other inputs at their medians", fontweight="normal", fontsize=8.5)
    return ax
