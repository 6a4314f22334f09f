"""Predictions along one input, and over two of them, the others held at the centre of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.errors import InputError
from manifoldgp.inspection.chosen_rows import chosen_inputs, input_index, output_index

if TYPE_CHECKING:
    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
    from manifoldgp.inference.mixtures import Predictive


@dataclass(frozen=True)
class Band:
    """Mean and bounds of y, each (n,), at the values x (n,) of one input."""

    x: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True)
class Surface:
    """Mean and standard deviation of y (n1, n2) over values x1 (n1,) and x2 (n2,) of two inputs."""

    x1: np.ndarray
    x2: np.ndarray
    mean: np.ndarray
    std: np.ndarray


def predicted_band(model: ManifoldGPRegressor, X: np.ndarray, x: np.ndarray, output: int = 0, level: float = 0.95) -> Band:
    """Mean and the central interval that should hold a share ``level`` of observations, at X (n, D); x (n,): where to draw them."""
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, such as 0.95; got {level!r}.")
    found = predictive(model, X, output)
    bounds = (found.quantile(q).cpu().numpy() for q in (0.5 - level / 2, 0.5 + level / 2))
    return Band(x, found.moments()[0].cpu().numpy(), *bounds)


def slice_band(
    model: ManifoldGPRegressor,
    column: str | int,
    *,
    X: Table | None = None,
    output: int = 0,
    level: float = 0.95,
    points: int = 200,
    margin: float = 0.05,
) -> Band:
    """The prediction when one input runs over its range and the others stay at their medians; X: the rows they are taken from."""
    d, output = input_index(model, column), output_index(model, output)
    reference = chosen_inputs(model, X)
    x = np.linspace(*span(reference[:, d], margin), points)
    at = np.tile(np.median(reference, axis=0), (points, 1))
    at[:, d] = x
    return predicted_band(model, at, x, output, level)


def surface(
    model: ManifoldGPRegressor,
    columns: tuple[str | int, str | int],
    *,
    X: Table | None = None,
    output: int = 0,
    points: int = 60,
    margin: float = 0.02,
    others: np.ndarray | None = None,
) -> Surface:
    """The prediction over a grid of two inputs; others (D,): where the others stay, by default at their medians."""
    if len(columns) != 2:
        raise InputError(f"A map needs two inputs, such as columns=(0, 1); got {columns!r}.")
    d1, d2 = (input_index(model, column) for column in columns)
    if d1 == d2:
        raise InputError(f"A map needs two different inputs; got {columns!r}.")
    output = output_index(model, output)
    reference = chosen_inputs(model, X)
    x1, x2 = (np.linspace(*span(reference[:, d], margin), points) for d in (d1, d2))
    at = np.tile(np.median(reference, axis=0) if others is None else others, (points * points, 1))
    at[:, d1], at[:, d2] = np.repeat(x1, points), np.tile(x2, points)
    mean, variance = (part.cpu().numpy().reshape(points, points) for part in predictive(model, at, output).moments())
    return Surface(x1, x2, mean, np.sqrt(variance))


def span(values: np.ndarray, margin: float) -> tuple[float, float]:
    """The range of values (n,), wider by a share ``margin`` at either end; one unit around a constant.

    >>> span(np.array([0.0, 10.0]), 0.1)
    (-1.0, 11.0)
    """
    low, high = float(values.min()), float(values.max())
    extra = margin * (high - low) if high > low else 0.5
    return low - extra, high + extra


def predictive(model: ManifoldGPRegressor, X: np.ndarray, output: int, noise_std: np.ndarray | None = None) -> Predictive:
    """The predictive distribution of one target at X (n, D), checked inputs in original units. noise_std: known noise of these rows (n, O)."""
    from manifoldgp.estimators.units import model_noise, on_device  # PyTorch, which drawing alone does not need

    U = on_device(model, model.x_scaler_.apply(X))
    noise = model_noise(model, noise_std, len(U))
    known = None if noise is None else noise[:, output]
    return model.ensembles_[output].predict(U, False, known)
