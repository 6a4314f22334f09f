"""Between the user's units and the model's: checked inputs, known noise, tensors on the model's device, and the shape of answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.warping import NoWarping

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

WARPED_NOISE = "noise_std is noise of y, and a warped model adds its noise to g(y). Leave out noise_std or target_warping."


def model_inputs(estimator: ManifoldGPRegressor, X: Table) -> Tensor:
    """X (n, D) as the fitted model sees it: checked and standardised."""
    check_is_fitted(estimator)
    return on_device(estimator, estimator.x_scaler_.apply(inputs.query_table(estimator, X)))


def model_noise(estimator: ManifoldGPRegressor, noise_std: ArrayLike | None, rows: int) -> Tensor | None:
    """Variances (n, O) of the known noise in the model's units; None where there is none."""
    variances = inputs.query_noise(noise_std, rows, estimator.n_outputs_)
    if variances is not None and not isinstance(estimator.ensembles_[0].blocks[0].model.warping, NoWarping):
        raise InputError(WARPED_NOISE)
    return None if variances is None else on_device(estimator, variances / estimator.y_scaler_.scale**2)


def on_device(estimator: ManifoldGPRegressor, A: np.ndarray) -> Tensor:
    """An array as a tensor where the model is."""
    device = estimator.ensembles_[0].blocks[0].alpha.device
    # pandas hands out arrays that must not be written to, and PyTorch has no such tensors
    return torch.as_tensor(np.require(A, np.float64, ("C", "W")), device=device)


def as_columns(estimator: ManifoldGPRegressor, outputs: Sequence[Tensor]) -> np.ndarray:
    """One target: as it is; several: stacked along a last axis."""
    return outputs[0].cpu().numpy() if estimator._flat else torch.stack(list(outputs), -1).cpu().numpy()
