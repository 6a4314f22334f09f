"""Questions that somebody will ask a fitted model, and rows that somebody will update it with: the data of `nasty_data`, to models that were fitted to good ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from manifoldgp import Fast, GPRegressor, Local, ManifoldGPRegressor, Single, Sparse, TanhWarping

from .cases import Case, ForbiddenError, refused_or, require_usable
from .configurations import SMALL_STACK
from .nasty_data import spoilt

_QUICK = Single(restarts=1, max_iter=5)
_MODELS: dict[str, Callable[[], Any]] = {
    "plain": lambda: GPRegressor(restarts=1, max_iter=5),
    "network": lambda: ManifoldGPRegressor((2,), averaging=_QUICK),
    "linear mean": lambda: ManifoldGPRegressor((2,), mean="linear", averaging=_QUICK),
    "warped": lambda: ManifoldGPRegressor((2,), target_warping=TanhWarping(2), averaging=_QUICK),
    "fast": lambda: ManifoldGPRegressor(averaging=Fast(1, 5, 1, 2, 1, 2)),
    "stack": lambda: ManifoldGPRegressor(averaging=SMALL_STACK),
    "local": lambda: ManifoldGPRegressor(averaging=SMALL_STACK, method=Local(cell=3, near=6)),
    "sparse": lambda: ManifoldGPRegressor((2,), averaging=_QUICK, method=Sparse(inducing=6)),
}


@cache
def _fitted(name: str) -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    return _MODELS[name]().fit(X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * rng.normal(size=20))


def _finite(answer: Any) -> None:
    for part in answer if isinstance(answer, tuple) else (answer,):
        if not np.isfinite(np.asarray(part)).all():
            raise ForbiddenError("an answer that is not finite")


def _updated(model: Any, X: Any, y: Any) -> None:
    """A model that took the rows answers as before, and one that refused them is as it was."""
    at = np.random.default_rng(1).normal(size=(3, 2))
    before, model = model.predict(at), copy.deepcopy(model)
    if refused_or(lambda: model.update(X, y)) == "answered":
        require_usable(*model.predict(at, return_std=True))
    elif not np.array_equal(before, model.predict(at)):
        raise ForbiddenError("a refused update changed the model")


def _probabilities(model: Any, X: Any, y: Any) -> None:
    cdf = np.asarray(model.predict_cdf(X, y))
    if not ((cdf >= 0.0) & (cdf <= 1.0)).all():
        raise ForbiddenError("a probability outside of 0 to 1")


def _rising(model: Any, X: Any, y: Any) -> None:
    quantiles = np.asarray(model.predict_quantiles(X))
    _finite(quantiles)
    if (np.diff(quantiles, axis=1) < 0).any():
        raise ForbiddenError("quantiles that fall")


def _density(model: Any, X: Any, y: Any) -> None:
    """-inf is right where a target is so far away that the square of its distance has no number."""
    if (~(np.asarray(model.log_predictive_density(X, y)) < np.inf)).any():
        raise ForbiddenError("a log density that is no number")


def _uncertain(model: Any, X: Any, y: Any) -> None:
    moments = model.predict_moments(X, 0.01 * np.eye(2))
    require_usable(moments.mean, moments.variance)


QUESTIONS: dict[str, Callable[[Any, Any, Any], object]] = {
    "predict": lambda model, X, y: require_usable(*model.predict(X, return_std=True)),
    "predictor": lambda model, X, y: require_usable(*model.predictor()(X, return_std=True)),
    "covariance": lambda model, X, y: _finite(model.predict(X, return_cov=True)),
    "quantiles": _rising,
    "cdf": _probabilities,
    "density": _density,
    "crps": lambda model, X, y: _finite(model.predict_crps(X, y)),
    "samples": lambda model, X, y: _finite(model.sample_y(X, 2)),
    "functions": lambda model, X, y: _finite(model.sample_functions(2)(np.asarray(X))),
    "gradient": lambda model, X, y: _finite(model.predict_gradient(X)),
    "uncertain": _uncertain,
    "update": _updated,
}


def nasty_question(rng: np.random.Generator) -> str:
    """One question with such rows; what is answered is usable."""
    name, question = str(rng.choice(list(_MODELS))), str(rng.choice(list(QUESTIONS)))
    rows = int(rng.choice([1, 2, 5]))
    X = rng.normal(size=(rows, 2))
    X, y = spoilt(X, np.sin(2 * X[:, 0]), rng)
    model = _fitted(name)
    try:
        return refused_or(lambda: QUESTIONS[question](model, X, y))
    except Exception as error:
        raise ForbiddenError(f"{question} of {name}: {type(error).__name__}: {error}") from error


AREAS: dict[str, Case] = {"nasty-questions": nasty_question}
