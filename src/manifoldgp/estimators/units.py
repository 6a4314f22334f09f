"""Between the user's units and the model's: checked inputs, known noise, tensors on the model's device, and the shape of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from manifoldgp._system.plain_text import counted, verb
from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.estimators.tables import query_rows
from manifoldgp.inference.ensemble import TargetPredictor

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.data.inputs import Table
    from manifoldgp.data.scaling import Standardizer


class Predicting(inputs.Fitted, Protocol):
    """What predictions need to know of a fitted estimator: its scales, and what predicts each target."""

    y_scaler_: Standardizer
    _flat: bool  # whether y was (N,)

    @property
    def ensembles_(self) -> Sequence[TargetPredictor]:
        """What it predicts with, one for each target."""
        ...


WARPED_NOISE = "noise_std is noise of y, and a warped model adds its noise to g(y). Leave out noise_std or target_warping."


def model_inputs(estimator: Predicting, X: Table) -> Tensor:
    """X (n, D) as the fitted model sees it: encoded, checked and standardised, every value known."""
    points = model_points(estimator, X)
    if points.every_row_is_known:
        return points.known
    lacking = points.rows - len(points.known)
    raise InputError(
        f"{lacking} of {counted(points.rows, 'row')} {verb(lacking, 'has', 'have')} missing inputs or unknown categories. predict, predict_quantiles, predict_cdf and "
        "log_predictive_density can do with them; this cannot. Leave these rows out, or fill them in."
    )


def conditioning_inputs(estimator: Predicting, X: Table) -> Tensor:
    """X (n, D) to condition on: as in a fit, what is missing is the mean of what rows that are alike have there."""
    points = model_points(estimator, X)
    if points.every_row_is_known:
        return points.known
    if len(points.known) + len(points.drawn) < points.rows:
        raise InputError("Some rows have missing inputs, and this model was fitted with missing='drop'. Leave them out.")
    U = points.known.new_empty(points.rows, points.known.shape[1])
    U[points.known_rows], U[points.drawn_rows] = points.known, points.drawn[:, -1]
    return U


@dataclass(frozen=True)
class Points:
    """Where to predict, in the model's units.

    Parameters
    ----------
    rows
        How many rows were asked for, n.
    known : (a, D)
        Those of which every value is known.
    drawn : (b, draws + 1, D)
        Those with missing values or unknown categories, filled in several times, and last with their mean.
    known_rows, drawn_rows : (a,), (b,)
        Their numbers among the n. What is in neither is not predicted.
    recentred : (b,)
        Whether the draws of a row only say how far it spreads around the prediction at their mean.
    """

    rows: int
    known: Tensor
    drawn: Tensor
    known_rows: np.ndarray
    drawn_rows: np.ndarray
    recentred: np.ndarray

    @property
    def every_row_is_known(self) -> bool:
        return len(self.known) == self.rows


def model_points(estimator: Predicting, X: Table) -> Points:
    """X as points of the fitted model; what is missing is taken from the training rows that its encoding keeps."""
    check_is_fitted(estimator)
    query = query_rows(estimator, X)
    A = inputs.query_table(estimator, query.X, fills_in(estimator) or query.left_out is not None)
    return points_at(estimator, A, query.left_out)


def fills_in(estimator: object) -> bool:
    """Whether the model has rows from which it takes what is missing."""
    encoding: TableEncoding | None = getattr(estimator, "table_encoding_", None)
    return encoding is not None and encoding.donors is not None


def points_at(estimator: Predicting, A: np.ndarray, left_out: np.ndarray | None = None) -> Points:
    """Checked inputs A (n, D), NaN where one is missing, as points of the fitted model. left_out (n,): rows that are not predicted."""
    encoding: TableEncoding | None = getattr(estimator, "table_encoding_", None)
    unknown = np.asarray(np.isnan(A).any(1))
    draw = unknown if left_out is None else unknown & ~left_out
    known = on_device(estimator, estimator.x_scaler_.apply(A if not unknown.any() else A[~unknown]))
    if not draw.any():
        return Points(len(A), known, known[:0, None], np.flatnonzero(~unknown), np.flatnonzero(draw), draw[draw])
    assert encoding is not None  # else a missing value was refused, or its row left out
    filled, recentred = encoding.filled_in(A[draw])
    drawn = on_device(estimator, estimator.x_scaler_.apply(filled))
    return Points(len(A), known, drawn, np.flatnonzero(~unknown), np.flatnonzero(draw), recentred)


def scaled_tensor(scaler: Standardizer, X: Tensor, like: Tensor) -> Tensor:
    """X (..., D) as the model sees it (..., C), differentiable in X."""
    columns, offset, scale = (torch.as_tensor(a, device=like.device) for a in (scaler.columns, scaler.offsets, scaler.scales))
    return (X.to(like)[..., columns] - offset) / scale


def model_noise(estimator: Predicting, noise_std: ArrayLike | None, rows: int) -> Tensor | None:
    """Variances (n, O) of the known noise in the model's units; None where there is none."""
    variances = inputs.query_noise(noise_std, rows, estimator.n_outputs_)
    if variances is not None and estimator.ensembles_[0].warped:
        raise InputError(WARPED_NOISE)
    return None if variances is None else on_device(estimator, variances / estimator.y_scaler_.scale**2)


def on_device(estimator: Predicting, A: np.ndarray) -> Tensor:
    """An array as a tensor where the model is."""
    device = estimator.ensembles_[0].device
    # pandas hands out arrays that must not be written to, and PyTorch has no such tensors
    return torch.as_tensor(np.require(A, np.float64, ("C", "W")), device=device)


def as_columns(estimator: Predicting, outputs: Sequence[Tensor]) -> np.ndarray:
    """One target: as it is; several: stacked along a last axis."""
    return outputs[0].cpu().numpy() if estimator._flat else torch.stack(list(outputs), -1).cpu().numpy()
