"""Relevance of inputs, and the learned features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from manifoldgp import inspection
from manifoldgp._system.plain_text import feature_name, without_formulas
from manifoldgp.errors import InputError
from manifoldgp.inspection.palette import BLUE, BROWN, GREEN, PURPLE, VERMILLION
from manifoldgp.plots.style import drawing_place, styled, target_label

if TYPE_CHECKING:
    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


@styled()
def plot_relevance(
    model: ManifoldGPRegressor, X: Table | None = None, *, output: int = 0, most: int = 20, ax: Axes | None = None
) -> Axes:
    """A bar for each input of the table, the strongest on top: by how much the prediction typically changes with it (`column_strengths`).

    Parameters
    ----------
    most
        Inputs that are shown.
    """
    columns = inspection.table_columns(inspection.input_names(model), getattr(model, "table_encoding_", None))
    strength = inspection.column_strengths(model, columns, inspection.chosen_inputs(model, X), output=output)
    order = np.argsort(-strength, kind="stable")[:most]
    names = [without_formulas(column.label) for column in columns]
    ax = drawing_place(ax, (5.2, 1.1 + 0.26 * len(order)))
    ax.barh(range(len(order)), strength[order], height=0.62, color=BLUE)
    ax.set_yticks(range(len(order)), [names[d] for d in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    name = target_label(model, output)
    ax.set_xlabel(f"typical change of {name} as the input varies by one standard deviation")
    return ax


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
        ax.plot(np.asarray(x, dtype=float), curve, color=color, linestyle=dash, label=feature_name(q))
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


_MOST_POINTS = 2000


@styled()
def plot_features(
    model: ManifoldGPRegressor,
    X: Table | None = None,
    y: ArrayLike | None = None,
    *,
    output: int = 0,
    dims: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The learned features at the rows X, y (by default those of training), coloured by the target.

    Parameters
    ----------
    dims
        1 shows the target over the one feature, 2 a plane, 3 a space (``ax`` needs projection="3d"); by default as many as there are features, at most 2.
        With more features than that, their widest principal directions. Features of the heaviest member that has learned any.
    """
    rows = inspection.chosen_rows(model, X, y, output, _MOST_POINTS)
    found = inspection.learned_features(model, rows.X, output=output)
    Q = found.H.shape[1]
    dims = min(Q, 2) if dims is None else dims
    if dims not in (1, 2, 3) or dims > Q:
        raise InputError(f"dims must be 1, 2 or 3, and at most the number of features, {Q}; got {dims!r}.")
    if dims == 3 and ax is not None and ax.name != "3d":
        raise InputError(
            'Three features need an Axes with three dimensions: figure.add_subplot(projection="3d"), or leave ax out.'
        )
    H, labels = found.H, list(map(feature_name, range(Q)))
    if dims < Q:
        H, share = inspection.widest_directions(found.H, dims)
        labels = [f"direction {q + 1} ({100 * s:.0f} % of the spread)" for q, s in enumerate(share)]
    ax = drawing_place(ax, (4.8, 3.8), **({"projection": "3d"} if dims == 3 else {}))
    name = target_label(model, output)
    if dims == 1:
        ax.scatter(H[:, 0], rows.y, c=rows.y, cmap="viridis", s=10, linewidths=0)
        ax.set(xlabel=labels[0], ylabel=name)
    elif dims == 2:
        plot_feature_plane(ax, H, rows.y, label=name)
        ax.set(xlabel=labels[0], ylabel=labels[1])
    else:
        space: Any = ax
        drawn = space.scatter(*H.T, c=rows.y, cmap="viridis", s=9, linewidths=0)
        space.set(xlabel=labels[0], ylabel=labels[1], zlabel=labels[2])
        ax.figure.colorbar(drawn, ax=ax, fraction=0.04, pad=0.1).set_label(name)
    ax.set_title(
        f"a member of the group {found.group}, weight {found.weight:.2f}" if found.weight < 1 else "",
        fontweight="normal",
        fontsize=8.5,
    )
    return ax
