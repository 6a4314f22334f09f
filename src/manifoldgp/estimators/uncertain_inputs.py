"""Predictions of a fitted estimator at inputs that are known only up to a Gaussian, in the user's units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from manifoldgp._system.real_numbers import as_numbers
from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.estimators.units import model_inputs, on_device, scaled_tensor
from manifoldgp.inference.uncertain_inputs import CLOSED_FORM, MATCHED, SAMPLE_POINTS, SAMPLES, MomentsOfTargets, UncertainInputs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table
    from manifoldgp.data.scaling import Standardizer
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

Numbers = TypeVar("Numbers", np.ndarray, Tensor)

_METHODS = {"auto": None, **{name: name for name in (CLOSED_FORM, MATCHED, SAMPLES)}}


@dataclass(frozen=True)
class PredictedMoments(Generic[Numbers]):
    """Moments of y at n uncertain inputs x, by ``model.predict_moments``; arrays, or tensors where X was one.

    Parameters
    ----------
    mean, variance : (n,) or (n, O)
        Of y.
    input_covariance : (n, D) or (n, D, O)
        cov(x, y).
    output_covariance : (n, O, O)
        Of the targets, which depend on the same x; (n, 1, 1) for one.
    method
        "closed form" (exact), "moment matching" (through a Gaussian in place of what goes round a circle) or "samples".
    """

    mean: Numbers
    variance: Numbers
    input_covariance: Numbers
    output_covariance: Numbers
    method: str


def predict_moments(
    estimator: ManifoldGPRegressor, X: Table | Tensor, input_cov: ArrayLike | Tensor, latent: bool, method: str, samples: int
) -> PredictedMoments:
    """The moments at x ~ N(X, input_cov)."""
    check_is_fitted(estimator)
    if method not in _METHODS:
        raise InputError(f"method must be one of {', '.join(map(repr, _METHODS))}; got {method!r}.")
    scaler = estimator.x_scaler_
    ready = UncertainInputs(estimator.ensembles_, _METHODS[method], _sample_count(samples, len(scaler.scales)))
    if isinstance(X, Tensor):
        mu = scaled_tensor(scaler, X, on_device(estimator, scaler.scale))
        return _moments(ready, mu, covariances(input_cov, mu, len(scaler.place)), scaler, latent, estimator._flat)
    mu = model_inputs(estimator, X)
    with torch.no_grad():
        named = _moments(ready, mu, covariances(input_cov, mu, len(scaler.place)), scaler, latent, estimator._flat)
    arrays = (getattr(named, name).cpu().numpy() for name in ("mean", "variance", "input_covariance", "output_covariance"))
    return PredictedMoments(*arrays, method=named.method)


def mean_and_std(
    estimator: ManifoldGPRegressor,
    X: Table,
    input_cov: ArrayLike,
    return_std: bool,
    return_cov: bool,
    latent: bool,
    noise_std: ArrayLike | None,
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """What predict answers when input_cov is given."""
    if return_cov or noise_std is not None:
        raise InputError(
            f"{'return_cov' if return_cov else 'noise_std'} does not go together with input_cov. Leave one of them out."
        )
    found = predict_moments(estimator, X, input_cov, latent, "auto", SAMPLE_POINTS)
    return (found.mean, np.sqrt(found.variance)) if return_std else found.mean


def _moments(
    ready: UncertainInputs, mu: Tensor, Sigma: Tensor, scaler: Standardizer, latent: bool, flat: bool
) -> PredictedMoments[Tensor]:
    """Of x with the covariance Sigma (n, D, D), and mu (n, C) of the columns that the model sees."""
    seen, scale = torch.as_tensor(scaler.columns, device=mu.device), torch.as_tensor(scaler.scales, device=mu.device)
    S = Sigma[:, seen[:, None], seen]
    scaled = S / (scale[:, None] * scale)
    found = ready(mu, scaled, latent)
    covariance = found.input_covariance * scale[:, None]
    if len(scaler.dropped) == 0:
        spread = covariance[:, torch.as_tensor(scaler.place, device=mu.device)]
    else:  # y depends on the seen columns c alone: cov(x, y) = Σ_xc E[∂f/∂c] and cov(c, y) = Σ_cc E[∂f/∂c]
        spread = Sigma[..., seen] @ torch.linalg.pinv(S, hermitian=True) @ covariance
    return _named(found, spread, flat, ready.method_at(scaled))


def _named(found: MomentsOfTargets, covariance: Tensor, flat: bool, method: str) -> PredictedMoments[Tensor]:
    """Without the dimension of targets where there is only one. covariance (n, D, O): of x and y, in the units of X."""
    variance = found.output_covariance.diagonal(dim1=-2, dim2=-1)
    if flat:
        return PredictedMoments(found.mean[:, 0], variance[:, 0], covariance[..., 0], found.output_covariance, method)
    return PredictedMoments(found.mean, variance, covariance, found.output_covariance, method)


def covariances(given: ArrayLike | Tensor, mu: Tensor, D: int, name: str = "input_cov") -> Tensor:
    """One argument's covariances as (n, D, D), one for each row of mu, checked: symmetric, and no variance negative."""
    n = len(mu)
    Sigma = (given if isinstance(given, Tensor) else torch.as_tensor(as_numbers(given, name))).to(mu)
    if Sigma.shape not in ((D, D), (n, D, D)):
        raise InputError(
            f"{name} must be ({D}, {D}) for all rows, or ({n}, {D}, {D}); got {tuple(Sigma.shape)}. Of variances v: numpy.diag(v)."
        )
    with torch.no_grad():
        if not bool(torch.isfinite(Sigma).all()):
            raise InputError(f"{name} has entries that are not finite.")
        size = Sigma.abs().amax((-1, -2))
        uneven = (Sigma - Sigma.mT).abs().amax((-1, -2)) > 1e-8 * size
        smallest = torch.linalg.eigvalsh(Sigma)[..., 0]
        if bool(uneven.any()) or bool((smallest < -1e-8 * size).any()):
            raise InputError(f"{name} must hold covariances: symmetric matrices without negative eigenvalues.")
    return Sigma.expand(n, D, D)


def _sample_count(samples: int, D: int) -> int:
    count = inputs.whole_number(samples, "samples")
    if count <= D:
        raise InputError(f"samples must be more than the number of inputs, {D}; got {count}.")
    return count
