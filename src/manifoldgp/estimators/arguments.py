"""From an estimator's arguments, checked, to the model and to how it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manifoldgp.averaging.methods import AVERAGINGS
from manifoldgp.averaging.settings import StackSettings
from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.estimators.exact_fit import Settings
from manifoldgp.estimators.units import WARPED_NOISE
from manifoldgp.features import MLP, Features, as_features
from manifoldgp.kernels import as_kernel
from manifoldgp.means import as_mean
from manifoldgp.model import Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import LogNormal, Normal, Prior, StudentT
from manifoldgp.warping import NoWarping, as_warping


def model_of(estimator: Any, known_noise: bool) -> Model:
    """The model that the arguments describe. known_noise: whether fit was given the noise of the rows."""
    if estimator.noise not in ("learned", "known"):
        raise InputError(f"noise must be 'learned' or 'known' (given to fit as noise_std); got {estimator.noise!r}.")
    if estimator.noise == "known" and not known_noise:
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
    floor = inputs.positive_number(estimator.noise_floor, "noise_floor (relative to sd(y))")
    return Model(
        features=_features(estimator),
        kernel=as_kernel(estimator.kernel),
        mean=as_mean(estimator.mean),
        noise=GaussianNoise(estimator.noise == "learned", floor),
        warping=warping,
        priors=_priors(estimator),
    )


def settings_of(estimator: Any) -> Settings:
    """How to train, as the arguments say."""
    averaging = estimator.averaging
    if not isinstance(averaging, StackSettings) and averaging not in AVERAGINGS:
        names = ", ".join(map(repr, AVERAGINGS))
        raise InputError(f"Unknown averaging {averaging!r}; choose one of {names}, or give a StackSettings.")
    if estimator.shared_features and averaging != "none":
        raise InputError("shared_features=True learns one map for all targets and needs averaging='none'.")
    if as_mean(estimator.mean).on == "features" and averaging not in ("none", "restarts", "nuts"):
        raise InputError(
            f"mean={estimator.mean!r} is a function of the features, and averaging={averaging!r} has members with other features than yours "
            "(the plain GP has none). Use a mean on the inputs, such as mean='linear' or Module(module, on='inputs'); or averaging='none', "
            "'restarts' or 'nuts'."
        )
    if estimator.warm_start_from is not None and averaging != "none":
        raise InputError("warm_start_from replaces the first start of a single model and needs averaging='none'.")
    return Settings(
        restarts=estimator.restarts,
        optimizer=estimator.optimizer,
        max_iter=estimator.max_iter,
        time_budget=estimator.time_budget,
        shared_features=estimator.shared_features,
        warm_start_from=estimator.warm_start_from,
        random_state=estimator.random_state,
        device=estimator.device,
        verbose=estimator.verbose,
        averaging=averaging,
        callback=estimator.callback,
        levels=estimator.levels,
    )


def _features(estimator: Any) -> Features:
    if estimator.features is not None:
        return as_features(estimator.features)
    if estimator.activation is None:
        raise InputError("activation must be a name such as 'sigmoid', or one for each layer; got None.")
    return MLP(estimator.hidden, estimator.activation)


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
