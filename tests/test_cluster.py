"""Folds, grids and members over a real Dask cluster, through joblib's backends."""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor

from manifoldgp import GPRegressor, ManifoldGPRegressor, Single, Sparse, Stack
from manifoldgp.training.side_by_side import joblib_workers

distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'manifoldgp[cluster]'")


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask's own, about ports and its dashboard
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60)


def on(cluster):
    return joblib.parallel_config(backend="dask")


def test_folds_over_the_cluster_score_as_they_do_here(cluster, data):
    model = ManifoldGPRegressor(features=(3, 1), averaging=Single(restarts=2, max_iter=15))
    here = cross_val_score(model, *data, cv=3)
    with on(cluster):
        there = cross_val_score(model, *data, cv=3, n_jobs=-1)
    np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-4)


def test_a_grid_over_the_cluster_finds_what_it_finds_here(cluster, data):
    search = GridSearchCV(GPRegressor(restarts=2, max_iter=15), {"kernel": ["se", "linear"]}, cv=3, n_jobs=-1)
    with on(cluster):
        search.fit(*data)
    assert search.best_params_ == {"kernel": "se"}
    assert search.best_estimator_.score(*data) > 0.9


def test_sparse_members_and_targets_go_over_the_cluster(cluster, data):
    X, y = data
    sparse = ManifoldGPRegressor(features=(3, 1), averaging=Single(restarts=2, max_iter=15), method=Sparse(inducing=20))
    with on(cluster):
        models = MultiOutputRegressor(sparse, n_jobs=-1).fit(X, np.column_stack([y, -y]))
    assert models.predict(X).shape == (60, 2)
    assert all(model.method_ == "sparse" for model in models.estimators_)


_MEMBERS = Stack(
    deals=1, steps=(3, 6), warm_iterations=3, gp_starts=2, warm_members=1, cold_members=2, own_members=2, fold_members=1
)  # fmt: skip


def test_members_of_one_fit_go_over_the_cluster(cluster, data):
    told = []
    model = ManifoldGPRegressor(averaging=_MEMBERS, callback=lambda iterations, values: bool(told.append(len(iterations))))
    here = model.fit(*data).predict(data[0], return_std=True)
    before = len(told)
    with on(cluster):
        there = model.fit(*data).predict(data[0], return_std=True)
    assert before < len(told) < 2 * before  # whoever watches hears of every lot that comes back, not of every round
    for a, b in zip(there, here, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_a_fit_inside_a_parallel_loop_keeps_to_itself(cluster):
    with on(cluster):
        assert joblib_workers() == 2
        assert joblib.Parallel(n_jobs=2)(joblib.delayed(joblib_workers)() for _ in range(2)) == [1, 1]
