"""The estimators among scikit-learn's: its own checks, cloning, pickling, searches, pipelines, frames."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn import decomposition
from sklearn.base import clone, is_regressor
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from manifoldgp import MLP, PCA, GPRegressor, KernelSearch, LogNormal, ManifoldGPRegressor, Restarts, Single, SquaredExponential
from manifoldgp.kernels import Matern32, Periodic

CHEAP = {"restarts": 2, "max_iter": 15}
SINGLE = Single(**CHEAP)


@pytest.fixture(scope="module")
def rows():
    """X (24, 3) and a smooth y (24,)."""
    X = np.random.default_rng(0).normal(size=(24, 3))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1]


@parametrize_with_checks([
    ManifoldGPRegressor(features=(3, 1), averaging=Single(restarts=1, max_iter=10)),
    ManifoldGPRegressor(features=(3, 1), averaging=Restarts(restarts=2, max_iter=10)),
    GPRegressor(),
    KernelSearch(1, kernels=("linear",), max_iter=2),
])  # fmt: skip
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [
    ManifoldGPRegressor(features=MLP((4, 2), "tanh"), kernel=Matern32() * Periodic(amplitude=False), priors={"kernel.*": LogNormal()}),
    ManifoldGPRegressor(features=PCA(2) >> MLP((3, 1)), mean="linear", target_warping="tanh"),
    ManifoldGPRegressor(features=decomposition.PCA(2), random_state=3),
    GPRegressor(kernel=SquaredExponential(ard=False), noise="known"),
])  # fmt: skip
def test_clones_have_the_same_arguments_and_no_fit(estimator):
    copy = clone(estimator)
    assert copy is not estimator
    assert repr(copy.get_params()) == repr(estimator.get_params())
    assert not hasattr(copy, "ensembles_")


def test_a_clone_keeps_the_fitted_estimator_to_start_from(rows):
    first = GPRegressor(**CHEAP).fit(*rows)
    second = clone(GPRegressor(**CHEAP, warm_start_from=first))
    assert second.warm_start_from is first
    second.fit(*rows)
    assert second.nlml_ <= first.nlml_ + 1e-9


@pytest.mark.parametrize("features", [
    None,
    torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)),
    StandardScaler(),
])  # fmt: skip
def test_pickled_models_predict_the_same(rows, features):
    X, y = rows
    model = ManifoldGPRegressor((3, 2) if features is None else features, averaging=SINGLE).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X, return_std=True), model.predict(X, return_std=True))
    assert copy.diagnose().numbers["rows"] == 24


def test_grid_search_over_kernels_features_and_nested_arguments(rows):
    grid = {"kernel": ["se", Matern32()], "features": [(2, 1), MLP((2,))]}
    search = GridSearchCV(ManifoldGPRegressor(averaging=Single(restarts=1, max_iter=5)), grid, cv=2, error_score="raise").fit(
        *rows
    )
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.predict(rows[0]).shape == (24,)
    inner = GridSearchCV(
        ManifoldGPRegressor(features=decomposition.PCA(1), averaging=Single(restarts=1, max_iter=5)),
        {"features__n_components": [1, 2]},
        cv=2,
        error_score="raise",
    ).fit(*rows)
    assert inner.best_estimator_.transform(rows[0]).shape[1] == inner.best_params_["features__n_components"]


def test_pipelines_at_the_end_and_in_the_middle(rows):
    X, y = rows
    last = make_pipeline(StandardScaler(), decomposition.PCA(2), GPRegressor(**CHEAP)).fit(X, y)
    mean, std = last.predict(X, return_std=True)
    assert mean.shape == std.shape == (24,)
    middle = make_pipeline(ManifoldGPRegressor((3, 2), averaging=SINGLE), LinearRegression()).fit(X, y)
    assert middle[0].transform(X).shape == (24, 2)
    assert middle.score(X, y) > 0.5


def test_regressor_tags_scores_and_bagging(rows):
    X, y = rows
    assert is_regressor(GPRegressor())
    model = GPRegressor(restarts=2).fit(X, y)
    residual = y - model.predict(X)
    assert model.score(X, y) == pytest.approx(1 - (residual**2).sum() / ((y - y.mean()) ** 2).sum())
    assert (cross_val_score(GPRegressor(**CHEAP), X, y, cv=2, error_score="raise") > 0.3).all()
    bag = BaggingRegressor(GPRegressor(restarts=1, max_iter=5), n_estimators=2, random_state=0).fit(X, y)
    assert bag.predict(X).shape == (24,)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_keep_their_names_and_refuse_others(rows, frame):
    X, y = rows
    named = frame({"speed": X[:, 0], "load": X[:, 1], "heat": X[:, 2]})
    model = GPRegressor(**CHEAP).fit(named, y)
    assert list(model.feature_names_in_) == ["speed", "load", "heat"]
    plain = GPRegressor(**CHEAP).fit(X, y)
    np.testing.assert_array_equal(model.predict(named), plain.predict(X))
    assert not hasattr(plain, "feature_names_in_")
    swapped = frame({"load": X[:, 1], "speed": X[:, 0], "heat": X[:, 2]})
    for call in (model.predict, model.transform, model.predict_gradient, lambda X: model.log_predictive_density(X, y)):
        with pytest.raises(ValueError, match="must be in the same order"):
            call(swapped)
    with pytest.raises(ValueError, match=r"Feature names unseen at fit time:\n- cold"):
        model.predict(frame({"speed": X[:, 0], "load": X[:, 1], "cold": X[:, 2]}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, pl.DataFrame, lambda columns: pl.DataFrame(columns).to_arrow()], ids=["pandas", "polars", "arrow"]
)
def test_columns_beside_those_of_the_fit_are_ignored(rows, frame):
    """As in tables with text or dates: a table still has its target, and the runs that were no input, when a model is asked about it."""
    X, y = rows
    named = {"speed": X[:, 0], "load": X[:, 1], "heat": X[:, 2]}
    table = frame({"run": ["a", "b"] * 12, "heat": X[:, 2], "y": y, "load": X[:, 1], "speed": X[:, 0]})
    model = GPRegressor(**CHEAP).fit(frame(named), y)
    for call in (model.predict, model.transform, model.predict_gradient, model.predictor(), lambda X: model.score(X, y)):
        np.testing.assert_array_equal(call(table), call(frame(named)))
    lacking = frame({"run": ["a", "b"] * 12, "speed": X[:, 0], "heat": X[:, 2]})
    with pytest.raises(ValueError, match="missing:\n- load"):
        model.predict(lacking)
    with pytest.raises(ValueError, match="These columns are not numbers, and were when the model was fitted: load\\."):
        model.predict(frame({**named, "load": ["low", "high"] * 12, "run": ["a", "b"] * 12}))


@pytest.mark.parametrize("series", [pd.Series, pl.Series, list, torch.tensor], ids=["pandas", "polars", "list", "torch"])
def test_targets_of_many_kinds(rows, series):
    X, y = rows
    expected = GPRegressor(**CHEAP).fit(X, y).predict(X)
    np.testing.assert_array_equal(GPRegressor(**CHEAP).fit(X, series(y)).predict(X), expected)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_frame_of_targets_is_several_targets(rows, frame):
    X, y = rows
    model = GPRegressor(**CHEAP).fit(X, frame({"a": y, "b": -y}))
    assert model.predict(X).shape == (24, 2)


def test_transform_as_a_frame_with_names(rows):
    X, y = rows
    model = ManifoldGPRegressor((3, 2), averaging=SINGLE).set_output(transform="pandas")
    H = model.fit_transform(X, y)
    assert isinstance(H, pd.DataFrame)
    assert list(H.columns) == list(model.get_feature_names_out()) == ["manifoldgpregressor0", "manifoldgpregressor1"]
    np.testing.assert_array_equal(H.to_numpy(), model.transform(X).to_numpy())
