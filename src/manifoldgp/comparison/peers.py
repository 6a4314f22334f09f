"""How the models of a comparison are made: each with the settings its authors chose, and a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin, clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from manifoldgp.data.encoding import TableEncoding


class TableNumbers(TransformerMixin, BaseEstimator):
    """The numbers of a table, for models that know nothing else: gaps and unknown categories have the mean of what similar training rows have there."""

    def __init__(self, missing: str = "error") -> None:
        self.missing = missing

    def fit_transform(self, X: Any, y: np.ndarray) -> np.ndarray:
        """The numbers (N, D) of training rows: the effect of a category does without the row's own target."""
        table = X.reset_index(drop=True)
        self.encoding_ = TableEncoding.learn(table, ["y"], missing=self.missing, y=y[:, None])
        return self.encoding_.training_inputs(table, y[:, None])[0].to_numpy()

    def transform(self, X: Any) -> np.ndarray:
        """The numbers (n, D) of other rows."""
        numbers = self.encoding_.inputs(X.reset_index(drop=True), allow_unknown=True).to_numpy()
        donors = self.encoding_.donors
        return numbers if donors is None else donors.completed(numbers, self.encoding_.names)


def on_tables(estimator: Any, missing: str) -> BaseEstimator:
    """The estimator for tables with text and gaps: ours read them by themselves, and are as unsure as gaps make them."""
    if hasattr(estimator, "log_predictive_density") and "missing" in estimator.get_params():
        return estimator.set_params(missing=missing)
    steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    return make_pipeline(TableNumbers(missing), *steps)


def mean(seed: int) -> BaseEstimator:
    """Always the mean of the training rows."""
    return DummyRegressor()


def linear(seed: int) -> BaseEstimator:
    """A linear model with a Gaussian predictive distribution of its own."""
    return make_pipeline(StandardScaler(), BayesianRidge())


def forest(seed: int) -> BaseEstimator:
    """A random forest of 200 trees."""
    return RandomForestRegressor(n_estimators=200, random_state=seed, n_jobs=1)


class Boosting(HistGradientBoostingRegressor):
    """Histogram gradient boosting on one thread: on a busy machine the threads of a small table wait for each other a hundred times longer than they work."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Boosting:
        """Train."""
        with threadpool_limits(1, "openmp"):
            return super().fit(X, y)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The mean (n,)."""
        with threadpool_limits(1, "openmp"):
            return super().predict(X)


def boosting(seed: int) -> BaseEstimator:
    """Histogram gradient boosting; leaves may hold fewer rows than usual, because tables with few rows have no others."""
    return Boosting(min_samples_leaf=5, random_state=seed)


def lightgbm(seed: int) -> BaseEstimator:
    """LightGBM with its default settings."""
    from lightgbm import LGBMRegressor  # pyright: ignore[reportMissingImports]

    return LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1)


def tabpfn(seed: int) -> BaseEstimator:
    """TabPFN with its default settings."""
    from tabpfn import TabPFNRegressor  # pyright: ignore[reportMissingImports]

    return TabPFNRegressor(random_state=seed)


class CatBoost(RegressorMixin, BaseEstimator):
    """CatBoost with its default settings and a loss that learns a variance for every row."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> CatBoost:
        """Train."""
        from catboost import CatBoostRegressor  # pyright: ignore[reportMissingImports]

        settings = {"loss_function": "RMSEWithUncertainty", "random_seed": self.seed, "verbose": False, "thread_count": 1, "allow_writing_files": False}  # fmt: skip
        self.model_: Any = CatBoostRegressor(**settings).fit(X, y)
        return self

    def predict(self, X: np.ndarray, return_std: bool = False) -> Any:
        """Mean, and standard deviation on request."""
        mean, variance = self.model_.predict(X).T
        return (mean, np.sqrt(variance)) if return_std else mean


class NGBoost(RegressorMixin, BaseEstimator):
    """NGBoost with its default settings: boosted means and standard deviations of Gaussians."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> NGBoost:
        """Train."""
        from ngboost import NGBRegressor  # pyright: ignore[reportMissingImports]

        self.model_: Any = NGBRegressor(random_state=self.seed, verbose=False).fit(X, y)
        return self

    def predict(self, X: np.ndarray, return_std: bool = False) -> Any:
        """Mean, and standard deviation on request."""
        found = self.model_.pred_dist(X).params
        return (found["loc"], found["scale"]) if return_std else found["loc"]


@dataclass(frozen=True)
class Plain:
    """Makes plain GPs with a kernel that is named by a word."""

    kernel: str

    def __call__(self, seed: int) -> BaseEstimator:
        from manifoldgp.estimators import GPRegressor

        return GPRegressor(self.kernel, random_state=seed)


@dataclass(frozen=True)
class Manifold:
    """Makes manifold GPs with an average that is named by a word."""

    averaging: str

    def __call__(self, seed: int) -> BaseEstimator:
        from manifoldgp.estimators import ManifoldGPRegressor

        return ManifoldGPRegressor(averaging=self.averaging, random_state=seed)


@dataclass(frozen=True)
class Deep:
    """Makes deep GPs with so many layers."""

    layers: int

    def __call__(self, seed: int) -> BaseEstimator:
        from manifoldgp.integrations.deep_gp import DeepGPRegressor

        return DeepGPRegressor(self.layers, random_state=seed)


@dataclass(frozen=True)
class Given:
    """Makes copies of an estimator that the user gave."""

    estimator: BaseEstimator

    def __call__(self, seed: int) -> BaseEstimator:
        copy: Any = clone(self.estimator)
        return copy
