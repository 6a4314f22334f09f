"""From an estimator's arguments, checked, to the model and to how it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from manifoldgp.averaging.settings import Averaging, Fast, Single, Stack, as_averaging
from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.estimators.exact_fit import Settings
from manifoldgp.estimators.sparse_fit import SparseSettings
from manifoldgp.estimators.units import WARPED_NOISE
from manifoldgp.features import as_features
from manifoldgp.kernels import as_kernel
from manifoldgp.means import as_mean
from manifoldgp.model import Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import LogNormal, Normal, Prior, StudentT
from manifoldgp.training.processes import ALONE, Ranks
from manifoldgp.training.settings import Sparse
from manifoldgp.warping import NoWarping, as_warping

DEFAULT_FEATURES = (6, 2)
"""Layer sizes of the network that features=None stands for: the paper's."""


def model_of(estimator: Any, known_noise: bool) -> Model:
    """The model that the arguments describe. known_noise: whether fit was given the noise of the rows."""
    noise = _noise(estimator.noise)
    if not noise.learned and not known_noise:
        raise InputError(
            "noise='known' needs the noise of the rows: fit(X, y, noise_std=...). Use noise='learned' to estimate it."
        )
    warping = as_warping(estimator.target_warping)
    if not hasattr(warping, "inverse"):
        raise InputError(
            f"target_warping must be None, 'tanh' or a warping such as TanhWarping(3); got {estimator.target_warping!r}."
        )
    if known_noise and not isinstance(warping, NoWarping):
        raise InputError(WARPED_NOISE)
    return Model(
        features=as_features(DEFAULT_FEATURES if estimator.features is None else estimator.features),
        kernel=as_kernel(estimator.kernel),
        mean=as_mean(estimator.mean),
        noise=noise,
        warping=warping,
        priors=_priors(estimator),
    )


def settings_of(estimator: Any) -> Settings:
    """How to train, as the arguments say; sparse_settings_of says what the sparse method changes and adds."""
    averaging = as_averaging(estimator.averaging)
    averaging.check()
    single = averaging if isinstance(averaging, Single) else Single()
    restarts, max_iter = _starts_and_iterations(averaging)
    return Settings(
        restarts=restarts,
        optimizer=single.optimizer,
        max_iter=max_iter,
        time_budget=estimator.time_budget,
        shared_features=single.shared_features,
        warm_start_from=single.warm_start_from,
        random_state=estimator.random_state,
        device=estimator.device,
        verbose=estimator.verbose,
        averaging=averaging,
        callback=estimator.callback,
        levels=single.levels,
    )


def sparse_settings_of(settings: Settings, method: Sparse, ranks: Ranks = ALONE) -> tuple[Settings, SparseSettings]:
    """The settings of a sparse fit: the members of a stack have the starts and iterations that the method says."""
    if isinstance(settings.averaging, Stack):
        settings = replace(settings, restarts=method.restarts, max_iter=method.max_iter)
    checkpoint = None if method.checkpoint is None else str(method.checkpoint)
    return settings, SparseSettings(method.inducing, ranks, checkpoint)


def standardized(estimator: Any) -> tuple[bool, bool]:
    """Whether the columns of X, and those of y, are standardised."""
    given = estimator.standardize
    if isinstance(given, (bool, np.bool_)):
        return bool(given), bool(given)
    if isinstance(given, str) and given in ("X", "y"):
        return given == "X", given == "y"
    raise InputError(f"standardize must be True (X and y), False, 'X' or 'y'; got {given!r}.")


def _starts_and_iterations(averaging: Averaging) -> tuple[int, int]:
    """Starts of the user's own architecture, and the largest number of iterations."""
    if isinstance(averaging, Stack):
        return averaging.own_members, max(averaging.gp_iterations, *averaging.steps)
    if isinstance(averaging, Fast):
        return averaging.gp_starts, max(averaging.gp_iterations, averaging.warm_iterations, averaging.cold_iterations)
    return averaging.restarts, averaging.max_iter


def _noise(given: Any) -> GaussianNoise:
    if isinstance(given, GaussianNoise):
        return given
    if isinstance(given, str) and given in ("learned", "known"):
        return GaussianNoise(given == "learned")
    raise InputError(f"noise must be 'learned', 'known' (given to fit as noise_std) or GaussianNoise(floor=...); got {given!r}.")


def _priors(estimator: Any) -> dict[str, Prior]:
    """The priors by pattern, checked: a prior of another kind would be passed over in silence."""
    priors = {} if estimator.priors is None else estimator.priors
    if not isinstance(priors, Mapping) or not all(isinstance(p, (LogNormal, Normal, StudentT)) for p in priors.values()):
        raise InputError(
            "priors must map patterns of parameter names to LogNormal, Normal or StudentT, such as "
            f"{{'kernel.lengthscale': LogNormal(0, 1)}}; got {priors!r}."
        )
    for prior in priors.values():
        inputs.positive_number(prior.scale if isinstance(prior, StudentT) else prior.sd, f"The width of the prior {prior!r}")
    return dict(priors)
