"""What a fitted estimator predicts: moments, quantiles, densities, joint draws, derivatives and features, in the units of y."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp.averaging import as_averaging
from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.estimators.arguments import generator_of
from manifoldgp.estimators.units import as_columns, model_inputs, model_noise, on_device
from manifoldgp.inference.ensemble import Ensemble, prediction_threads
from manifoldgp.inference.mixtures import Predictive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import RandomState, Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


def moments(
    estimator: ManifoldGPRegressor, X: Table, return_std: bool, return_cov: bool, latent: bool, noise_std: ArrayLike | None
) -> Any:
    """Mean of y at X, alone or with standard deviations or with the joint covariance."""
    if return_std and return_cov:
        raise InputError("Ask for return_std or for return_cov, not for both.")
    U = model_inputs(estimator, X)
    variances = return_std or return_cov or latent or noise_std is not None
    with prediction_threads(estimator.ensembles_, len(U), variances, return_cov):
        if not variances:
            return as_columns(estimator, [e.mean(U) for e in estimator.ensembles_])
        found = [p.moments() for p in _predictives(estimator, U, latent, noise_std)]
        mean = as_columns(estimator, [m for m, _ in found])
        if return_cov:
            inputs.refuse_too_many_rows(len(U), 3)
            covariances = [e.covariance(U, latent)[1] for e in estimator.ensembles_]
            for C, (_, variance) in zip(covariances, found, strict=True):
                C.diagonal().copy_(variance)  # with the known noise of these points
            return mean, as_columns(estimator, covariances)
        return (mean, as_columns(estimator, [v.sqrt() for _, v in found])) if return_std else mean


def quantiles(
    estimator: ManifoldGPRegressor, X: Table, q: Sequence[float], latent: bool, noise_std: ArrayLike | None
) -> np.ndarray:
    """Quantiles of y at X."""
    levels = inputs.quantile_levels(q)
    U = model_inputs(estimator, X)
    with prediction_threads(estimator.ensembles_, len(U)):
        predictives = _predictives(estimator, U, latent, noise_std)
        return as_columns(estimator, [torch.stack([p.quantile(float(level)) for level in levels], -1) for p in predictives])


def log_density(estimator: ManifoldGPRegressor, X: Table, y: ArrayLike, noise_std: ArrayLike | None) -> np.ndarray:
    """log p(y_i | x_i), summed over targets."""
    U = model_inputs(estimator, X)
    Y = on_device(estimator, inputs.target_table(estimator, y, len(U)))
    with prediction_threads(estimator.ensembles_, len(U)):
        predictives = _predictives(estimator, U, False, noise_std)
        return torch.stack([p.log_density(Y[:, o]) for o, p in enumerate(predictives)]).sum(0).cpu().numpy()


def cdf(estimator: ManifoldGPRegressor, X: Table, y: ArrayLike, noise_std: ArrayLike | None) -> np.ndarray:
    """P(Y_i <= y_i | x_i)."""
    U = model_inputs(estimator, X)
    Y = on_device(estimator, inputs.target_table(estimator, y, len(U)))
    with prediction_threads(estimator.ensembles_, len(U)):
        predictives = _predictives(estimator, U, False, noise_std)
        return as_columns(estimator, [p.cdf(Y[:, o]) for o, p in enumerate(predictives)])


def crps(estimator: ManifoldGPRegressor, X: Table, y: ArrayLike, noise_std: ArrayLike | None) -> np.ndarray:
    """Continuous ranked probability score of every row and target."""
    U = model_inputs(estimator, X)
    Y = on_device(estimator, inputs.target_table(estimator, y, len(U)))
    with prediction_threads(estimator.ensembles_, len(U)):
        predictives = _predictives(estimator, U, False, noise_std)
        return as_columns(estimator, [p.crps(Y[:, o].contiguous()) for o, p in enumerate(predictives)])


def joint_draws(estimator: ManifoldGPRegressor, X: Table, n_samples: int, random_state: RandomState, latent: bool) -> np.ndarray:
    """Joint draws of y at X."""
    U = model_inputs(estimator, X)
    n_samples = inputs.whole_number(n_samples, "n_samples")
    inputs.refuse_too_many_rows(len(U), 3)
    generator = generator_of(random_state)
    with prediction_threads(estimator.ensembles_, len(U), joint=True):
        draws = [e.sample(U, n_samples, generator, latent).T.cpu().numpy() for e in estimator.ensembles_]
    return draws[0] if estimator._flat else np.stack(draws, 1)


def gradients(estimator: ManifoldGPRegressor, X: Table) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of mean and variance of f with respect to X: the chain rule through its standardisation."""
    U = model_inputs(estimator, X)
    slopes = on_device(estimator, estimator.x_scaler_.scale)
    with prediction_threads(estimator.ensembles_, len(U)):
        pairs = [e.gradients(U) for e in estimator.ensembles_]
        mean, variance = [m / slopes for m, _ in pairs], [v / slopes for _, v in pairs]
        return as_columns(estimator, mean), as_columns(estimator, variance)


def features(estimator: ManifoldGPRegressor, X: Table) -> np.ndarray:
    """H = M(X); of several targets with their own features side by side."""
    U, ensembles = model_inputs(estimator, X), featured(estimator)
    with torch.no_grad(), prediction_threads(ensembles, len(U), variance=False):
        return torch.cat([e.transform(U) for e in ensembles], -1).cpu().numpy()


def featured(estimator: ManifoldGPRegressor) -> list[Ensemble]:
    """The ensembles that have features of their own."""
    shared = getattr(as_averaging(estimator.averaging), "shared_features", False)
    return estimator.ensembles_[:1] if shared else estimator.ensembles_


def _predictives(estimator: ManifoldGPRegressor, U: Tensor, latent: bool, noise_std: ArrayLike | None) -> list[Predictive]:
    noise = model_noise(estimator, noise_std, len(U))
    return [e.predict(U, latent, None if noise is None else noise[:, o]) for o, e in enumerate(estimator.ensembles_)]
