"""Predictions of training rows or of given ones, and what each row's own prediction is when it is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.inspection.curves import predictive
from manifoldgp.inspection.rows import chosen_rows, output_index


@dataclass(frozen=True)
class Predictions:
    """Observed y, predictive mean, bounds of the 95 % interval, log density and PIT of n rows, each (n,).

    left_out: training rows, each predicted from all the others; otherwise rows that the user gave. total: rows that n were drawn from.
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
    model: Any, X: Any = None, y: Any = None, *, output: int = 0, noise_std: Any = None, most: int = 1000
) -> Predictions:
    """Predictions of the rows X, y, or (without them) leave-one-out predictions of the training rows; of at most ``most`` rows.

    noise_std: known noise of the given rows, as in ``predict``. Leave-one-out keeps parameters and weights, which have seen all rows.
    """
    output = output_index(model, output)
    left_out = X is None and y is None
    if left_out and noise_std is not None:
        raise InputError(
            "noise_std is the noise of given rows; the training rows have theirs. Give X and y too, or leave it out."
        )
    rows = chosen_rows(model, X, y, output, most)
    if left_out:
        mixture = model.ensembles_[output].left_out(rows.place)
    else:
        known = inputs.query_noise(noise_std, rows.total, model.n_outputs_)
        mixture = predictive(model, rows.X, output, None if known is None else np.sqrt(known[rows.place]))
    from manifoldgp.estimators.units import on_device  # PyTorch, which drawing alone does not need

    seen = on_device(model, rows.y)
    parts = mixture.moments()[0], mixture.quantile(0.025), mixture.quantile(0.975), mixture.log_density(seen), mixture.cdf(seen)
    mean, lower, upper, log_density, pit = (part.cpu().numpy() for part in parts)
    return Predictions(rows.X, rows.y, mean, lower, upper, log_density, pit, rows.place, rows.total, left_out)
