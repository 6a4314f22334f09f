"""What one input does to the prediction, along the data: accumulated local effects, which never ask for rows far from those that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.errors import InputError
from manifoldgp.inspection.chosen_rows import chosen_inputs, input_index, output_index, thinned
from manifoldgp.inspection.curves import Band, predictive

if TYPE_CHECKING:
    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


def effect_band(
    model: ManifoldGPRegressor,
    column: str | int,
    *,
    X: Table | None = None,
    output: int = 0,
    level: float = 0.95,
    bins: int = 24,
    most: int = 400,
) -> Band:
    """The mean prediction when one input varies and the others go along as they do in the data (accumulated local effects).

    Rows are sorted into bins of the input. Inside a bin each row is moved to its two edges; the mean change of the prediction is the slope there, and slopes are added up.
    Edges are values that rows have. So a row is never moved farther than its bin, and inputs that move together stay together.
    The line is shifted so that its mean over the rows is that of the predictions.
    The band is the central interval of ``level`` of single rows near that value, around the line: mean distances of its bounds from the prediction.

    An input with two values has no way between them: there it is the mean prediction of the rows with either value.

    Parameters
    ----------
    X : (n, D)
        The rows, by default the training rows; at most ``most`` of them.
    bins
        How many bins with about equally many rows the input's values are sorted into.
    """
    d, output = input_index(model, column), output_index(model, output)
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, such as 0.95; got {level!r}.")
    if bins < 1:
        raise InputError(f"Expected at least one bin, got {bins}.")
    rows = chosen_inputs(model, X)
    rows = rows[thinned(len(rows), most)]
    values = np.unique(rows[:, d])
    if len(values) <= 2:
        return _of_few_values(model, rows, d, values, output, level)
    shares = np.linspace(0, 1, min(bins, max(len(rows) // 4, 2)) + 1)
    edges = np.unique(np.quantile(rows[:, d], shares, method="inverted_cdf"))  # values of rows: between settings there are none
    place = np.clip(np.searchsorted(edges, rows[:, d], side="right") - 1, 0, len(edges) - 2)
    at_low, at_high = (_moved(model, rows, d, edges[place + side], output, level) for side in (0, 1))
    count = np.bincount(place, minlength=len(edges) - 1)
    slope = np.bincount(place, at_high[0] - at_low[0], len(edges) - 1) / np.maximum(count, 1)
    line = np.concatenate([[0.0], np.cumsum(slope)])
    line += _mean(model, rows, output) - float(np.interp(rows[:, d], edges, line).mean())
    near = np.bincount(place, minlength=len(edges)) + np.bincount(place + 1, minlength=len(edges))
    below, above = (
        (np.bincount(place, at_low[side], len(edges)) + np.bincount(place + 1, at_high[side], len(edges))) / np.maximum(near, 1)
        for side in (1, 2)
    )
    return Band(edges, line, line - below, line + above)


def _moved(
    model: ManifoldGPRegressor, rows: np.ndarray, d: int, to: np.ndarray, output: int, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of the prediction (n,) with input d moved to (n,), and how far the bounds of its interval lie below and above it."""
    moved = rows.copy()
    moved[:, d] = to
    found = predictive(model, moved, output)
    mean, low, high = (
        part.cpu().numpy() for part in (found.moments()[0], found.quantile(0.5 - level / 2), found.quantile(0.5 + level / 2))
    )
    return mean, mean - low, high - mean


def _mean(model: ManifoldGPRegressor, rows: np.ndarray, output: int) -> float:
    return float(predictive(model, rows, output).moments()[0].mean())


def _of_few_values(model: ManifoldGPRegressor, rows: np.ndarray, d: int, values: np.ndarray, output: int, level: float) -> Band:
    """The mean prediction, and its mean interval, of the rows with each value."""
    found = [_moved(model, rows[rows[:, d] == v], d, np.full(int((rows[:, d] == v).sum()), v), output, level) for v in values]
    mean, below, above = (np.array([part[k].mean() for part in found]) for k in range(3))
    return Band(values, mean, mean - below, mean + above)
