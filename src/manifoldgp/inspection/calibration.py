"""Where observations fall in their predictive distributions, and where these numbers come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from manifoldgp.inspection.predictions import Predictions, predictions
from manifoldgp.inspection.rows import output_index

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

Source = Literal["test rows", "held-out rows", "leave-one-out"]


@dataclass(frozen=True)
class Calibration:
    """PIT values (n,), P(Y_i <= y_i), uniform if the model is calibrated; and which rows they belong to."""

    pit: np.ndarray
    source: Source


def calibration(
    model: ManifoldGPRegressor,
    X: Table | None = None,
    y: ArrayLike | None = None,
    *,
    output: int = 0,
    noise_std: ArrayLike | None = None,
    known: Predictions | None = None,
) -> Calibration:
    """PIT values of the rows X, y; without them of the rows that the folds of a stack held out, else leave-one-out values of the training rows.

    known: predictions of these rows that were already computed.
    """
    output = output_index(model, output)
    report = model.held_out_[output]
    if X is None and y is None and report is not None:
        return Calibration(report.pit, "held-out rows")
    known = known or predictions(model, X, y, output=output, noise_std=noise_std)
    return Calibration(known.pit, "leave-one-out" if known.left_out else "test rows")


def coverage_band(n: int, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds that the observed coverage of n independent rows stays inside 95 times in 100 if the model is calibrated (binomial law).

    >>> low, high = coverage_band(100, np.array([0.5]))
    >>> float(low[0]), float(high[0])
    (0.4, 0.6)
    """
    from scipy.stats import binom

    return binom.ppf(0.025, n, levels) / n, binom.ppf(0.975, n, levels) / n


def histogram_band(n: int, bins: int) -> tuple[float, float]:
    """Bounds of the bars of a PIT histogram (densities, 1 is ideal), 95 times in 100 for each bar."""
    low, high = coverage_band(n, np.array([1.0 / bins]))
    return float(low[0]) * bins, float(high[0]) * bins
