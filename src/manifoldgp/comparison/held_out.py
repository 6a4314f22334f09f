"""Predictions of rows that a model has not seen, with a predictive distribution that is honest, whatever the model."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor
from sklearn.pipeline import Pipeline

from manifoldgp import metrics
from manifoldgp.averaging import as_averaging
from manifoldgp.averaging.folds import make_folds

if TYPE_CHECKING:
    from pandas import DataFrame

OWN_MIXTURE = "its own distribution"
OWN_GAUSSIAN = "its own Gaussian"
RESIDUALS = "a Gaussian as wide as its errors on inner folds"
"""Where the predictive distribution of a model comes from."""

_INNER_FOLDS = 5


@dataclass(frozen=True)
class RowScores:
    """Mean, log density, CRPS and PIT of n rows, each (n,)."""

    mean: np.ndarray
    log_density: np.ndarray
    crps: np.ndarray
    pit: np.ndarray

    @classmethod
    def empty(cls, n: int) -> RowScores:
        """Places for n rows."""
        return cls(*(np.full(n, np.nan) for _ in range(4)))

    def put(self, rows: np.ndarray, found: RowScores) -> None:
        """Write the scores of some rows."""
        for name in ("mean", "log_density", "crps", "pit"):
            getattr(self, name)[rows] = getattr(found, name)


@dataclass(frozen=True)
class Split:
    """Rows X (N, D), an array or a table that is encoded anew in every fold, y (N,), and how rows are kept together: groups (N,) or None, or in order of time."""

    X: np.ndarray | DataFrame
    y: np.ndarray
    groups: np.ndarray | None
    ordered: bool

    def folds(self, count: int, seed: int) -> list[np.ndarray]:
        """Held-out rows of each fold; every row is in exactly one."""
        return make_folds(len(self.y), count, np.random.default_rng(seed), self.groups, self.ordered)

    def without(self, rows: np.ndarray) -> Split:
        """All other rows."""
        kept = np.setdiff1d(np.arange(len(self.y)), rows)
        return Split(self.inputs(kept), self.y[kept], None if self.groups is None else self.groups[kept], self.ordered)

    def inputs(self, rows: np.ndarray) -> np.ndarray | DataFrame:
        """X of some rows."""
        return self.X[rows] if isinstance(self.X, np.ndarray) else self.X.iloc[rows]


def density_of(estimator: BaseEstimator) -> str:
    """Where the predictive distribution of an estimator comes from."""
    if hasattr(estimator, "log_predictive_density"):
        return OWN_MIXTURE
    last: Any = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    stated = "return_std" in inspect.signature(last.predict).parameters and not isinstance(last, DummyRegressor)
    return OWN_GAUSSIAN if stated else RESIDUALS  # a DummyRegressor has the argument, and always says 0


def scores_on(build: Callable[[], BaseEstimator], known: Split, X: np.ndarray | DataFrame, y: np.ndarray, seed: int) -> RowScores:
    """Train on the known rows, and score the predictions of X (n, D) against y (n,)."""
    fitted = _fitted(build(), known)
    how = density_of(fitted)
    if how == OWN_MIXTURE:
        return RowScores(
            fitted.predict(X), fitted.log_predictive_density(X, y), fitted.predict_crps(X, y), fitted.predict_cdf(X, y)
        )
    if how == OWN_GAUSSIAN:
        mean, std = fitted.predict(X, return_std=True)
        return _gaussian(y, mean, np.maximum(std, 1e-9 * _spread(known.y)))
    return _gaussian(y, fitted.predict(X), _residual_std(build, known, seed))


def _fitted(estimator: Any, known: Split) -> Any:
    """The estimator, fitted; ours are told which rows belong together, so that they hold them out together too."""
    if hasattr(estimator, "averaging") and as_averaging(estimator.averaging).shorthand() == "stack":
        return estimator.fit(known.X, known.y, groups=_several(known.groups), ordered=known.ordered and known.groups is None)
    return estimator.fit(known.X, known.y)


def _several(groups: np.ndarray | None) -> np.ndarray | None:
    """The labels, where there are at least two of them to hold one out."""
    return groups if groups is not None and len(np.unique(groups)) > 1 else None


def _residual_std(build: Callable[[], BaseEstimator], known: Split, seed: int) -> float:
    """Root mean squared error of predictions of inner folds, made as the outer ones are: how far the model is off on rows it has not seen."""
    inner = Split(known.X, known.y, _several(known.groups), known.ordered)
    errors = np.empty(len(inner.y))
    for rows in inner.folds(_INNER_FOLDS, seed):
        errors[rows] = inner.y[rows] - _fitted(build(), inner.without(rows)).predict(inner.inputs(rows))
    return max(float(np.sqrt(np.mean(errors**2))), 1e-9 * _spread(known.y))


def _gaussian(y: np.ndarray, mean: np.ndarray, std: np.ndarray | float) -> RowScores:
    return RowScores(
        mean, metrics.gaussian_log_density(y, mean, std), metrics.gaussian_crps(y, mean, std), metrics.gaussian_pit(y, mean, std)
    )


def _spread(y: np.ndarray) -> float:
    """The standard deviation of y, or one of a constant."""
    return float(np.std(y)) or 1.0
