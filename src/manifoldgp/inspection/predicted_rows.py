"""Predictions beside what was observed: of given rows, or of training rows that are left out one at a time; and where observations fall in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from manifoldgp.chance.interval_checks import IntervalCheck
from manifoldgp.data import inputs
from manifoldgp.data.fit_rows import FitRows
from manifoldgp.errors import InputError
from manifoldgp.inspection.chosen_rows import Rows, asked_inputs, chosen_rows, held_out, output_index, require_fitted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


@dataclass(frozen=True)
class Predictions:
    """Observed y, predictive mean, bounds of the 95 % interval, log density and PIT of n rows, each (n,).

    Attributes
    ----------
    X : (n, D)
        Their inputs.
    place : (n,)
        Which of the ``total`` rows they are.
    total
        How many rows they were drawn from.
    left_out
        Whether they are training rows, each predicted from all the others; else the user gave them.
    """

    X: np.ndarray
    observed: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    log_density: np.ndarray
    pit: np.ndarray
    place: np.ndarray
    total: int
    left_out: bool


def predictions(
    model: ManifoldGPRegressor,
    X: Table | None = None,
    y: ArrayLike | None = None,
    *,
    output: int = 0,
    noise_std: ArrayLike | None = None,
    most: int = 1000,
) -> Predictions:
    """Predictions of the rows X, y, or (without them) leave-one-out predictions of the training rows; of at most ``most`` rows.

    Parameters
    ----------
    noise_std
        Known noise of the given rows, as in ``predict``. Leave-one-out keeps parameters and weights, which have seen all rows.
    """
    output = output_index(model, output)
    left_out = X is None and y is None
    if left_out and noise_std is not None:
        raise InputError(
            "noise_std is the noise of given rows; the training rows have theirs. Give X and y too, or leave it out."
        )
    rows = chosen_rows(model, X, y, output, most)
    if left_out:
        from manifoldgp.estimators.units import on_device  # PyTorch, which drawing alone does not need

        mixture, seen = model.ensembles_[output].left_out(rows.place), on_device(model, rows.y)
        parts = (
            mixture.moments()[0],
            mixture.quantile(0.025),
            mixture.quantile(0.975),
            mixture.log_density(seen),
            mixture.cdf(seen),
        )
        found = [part.cpu().numpy() for part in parts]
    else:
        known = inputs.query_noise(noise_std, rows.total, model.n_outputs_)
        found = _of_given_rows(model, rows, output, None if known is None else np.sqrt(known[rows.place]))
    mean, lower, upper, log_density, pit = found
    return Predictions(rows.X, rows.y, mean, lower, upper, log_density, pit, rows.place, rows.total, left_out)


def _of_given_rows(model: ManifoldGPRegressor, rows: Rows, output: int, noise_std: np.ndarray | None) -> list[np.ndarray]:
    """Mean, bounds, log density and PIT (n,) of one target; rows with gaps are predicted as `predict` does it. noise_std: (n, O)."""
    from manifoldgp.estimators.predictions import distribution  # PyTorch, which drawing alone does not need
    from manifoldgp.estimators.units import points_at

    found = distribution(model, points_at(model, rows.asked), False, noise_std)
    Y = np.repeat(rows.y[:, None], model.n_outputs_, 1)
    mean, _ = found.moments()
    lower, upper = np.moveaxis(found.quantiles(np.array([0.025, 0.975])), 1, 0)
    parts = mean, lower, upper, found.log_densities(Y), found.cdf(Y)
    return [part.reshape(len(Y), -1)[:, output] for part in parts]


Source = Literal["test rows", "held-out rows", "leave-one-out"]


@dataclass(frozen=True)
class Calibration:
    """PIT values (n,), P(Y_i <= y_i), uniform if the model is calibrated; which rows they belong to; (n,) which of them may err together; their predicted means (n,); and whether
    those that may err together are stretches of time."""

    pit: np.ndarray
    source: Source
    together: np.ndarray | None = None
    mean: np.ndarray | None = None
    ordered: bool = False

    @cached_property
    def intervals(self) -> IntervalCheck:
        """Whether intervals hold on these rows."""
        return IntervalCheck.of(self.pit, self.mean, self.together, self.ordered)


def calibration(
    model: ManifoldGPRegressor,
    X: Table | None = None,
    y: ArrayLike | None = None,
    *,
    output: int = 0,
    noise_std: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    known: Predictions | None = None,
) -> Calibration:
    """PIT values of the rows X, y; without them of the rows that the folds of a stack held out, else leave-one-out values of the training rows.

    Parameters
    ----------
    groups
        Labels of the given rows: those with one label may err together, and say less than as many rows that do not.
    known
        Predictions of these rows that were already computed.
    """
    if groups is not None and y is None:
        raise InputError("groups are labels of given rows; those of the fit have theirs. Give X and y too, or leave it out.")
    output = output_index(model, output)
    report = held_out(model, output)
    if X is None and y is None and report is not None:
        return Calibration(report.pit, "held-out rows", report.together, report.mean, report.ordered)
    known = known or predictions(model, X, y, output=output, noise_std=noise_std)
    labels = inputs.group_labels(groups, known.total, known.place)
    return Calibration(known.pit, "leave-one-out" if known.left_out else "test rows", labels, known.mean)


def fit_rows(model: ManifoldGPRegressor) -> FitRows | None:
    """The rows of the fit that a model keeps; None of a model that keeps none."""
    require_fitted(model)
    try:
        data = [ensemble.blocks[0].data for ensemble in model.ensembles_]
    except AttributeError:
        return None
    kept = [(one.X.cpu().numpy(), one.y.cpu().numpy()) for one in data]
    units = [(ensemble.offset, ensemble.scale) for ensemble in model.ensembles_]
    encoding, rows = getattr(model, "table_encoding_", None), model.ensembles_[0].blocks[0].rows
    return FitRows.of_targets(kept, units, model.x_scaler_, encoding, rows)


def rows_of_the_fit(model: ManifoldGPRegressor, X: Table, y: ArrayLike, groups: ArrayLike | None = None) -> int:
    """How many of the rows X, y are rows that the model was fitted to, or equal to such: their errors are no test. Of a sparse model, among the rows that it keeps."""
    kept, A = fit_rows(model), asked_inputs(model, X, left_out=True)
    return (
        0
        if kept is None
        else kept.among(A, inputs.target_table(model, y, len(A)), None if groups is None else np.asarray(groups))
    )


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
