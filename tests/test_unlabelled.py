"""Rows without targets: who learns from them, in whatever way they come, and who refuses them."""

import numpy as np
import pandas as pd
import pytest

from manifoldgp import MLP, PCA, AutoEncoder, Chain, GPRegressor, ManifoldGPRegressor, Single, Sparse, Stack, load
from manifoldgp.data import ArrayRows
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.parameters import leaves

ENCODER = AutoEncoder((4, 2), steps=20)
NETWORK = MLP((3, 1)).pretrained(steps=20)
QUICK = Single(restarts=1, max_iter=3)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3)) @ RNG.standard_normal((3, 4))
Y = np.sin(X[:, 0])
KNOWN = slice(0, 20)


def mgp(features, **settings):
    return ManifoldGPRegressor(features, **{"averaging": QUICK, **settings})


def learnt(model):
    return dict(leaves(model.ensembles_[0].blocks[0].values["features"]))


def same_predictions(one, other, rows=X):
    np.testing.assert_array_equal(one.predict(rows), other.predict(rows))


@pytest.mark.parametrize("features", [ENCODER, NETWORK], ids=["fixed", "pretrained"])
def test_missing_targets_and_unlabelled_rows_are_the_same_in_any_order(features):
    Y_some = np.where(np.arange(60) < 20, Y, np.nan)
    with pytest.warns(FitWarning, match=r"40 of 60 rows have a missing target \(NaN\) and only inform the features"):
        missing = mgp(features).fit(X, Y_some)
    more = mgp(features).fit(X[KNOWN], Y[KNOWN], unlabelled=X[:19:-1])
    same_predictions(missing, more)
    alone = mgp(features).fit(X[KNOWN], Y[KNOWN])
    assert not np.allclose(alone.predict(X), more.predict(X))


def test_columns_that_only_vary_where_there_is_no_target_count():
    flat = X.copy()
    flat[KNOWN, 1] = 0.5
    model = mgp(ENCODER).fit(flat[KNOWN], Y[KNOWN], unlabelled=flat[20:])
    assert model.x_scaler_.sees_columns_as_they_are
    moved = flat[:1] + np.array([0.0, 1.0, 0.0, 0.0])
    assert not np.allclose(model.transform(flat[:1]), model.transform(moved))


def test_the_features_are_those_of_a_loaded_model_and_of_its_predictor(tmp_path):
    model = mgp(ENCODER >> MLP((2,))).fit(X[KNOWN], Y[KNOWN], unlabelled=X[20:])
    model.save(tmp_path / "model.mgp")
    loaded = load(tmp_path / "model.mgp")
    same_predictions(model, loaded)
    np.testing.assert_allclose(model.predictor()(X), model.predict(X), rtol=1e-9, atol=1e-12)
    same_predictions(model, loaded.fit(X[KNOWN], Y[KNOWN], unlabelled=X[20:]))


def test_the_default_average_has_members_of_pretrained_networks():
    stack = Stack(deals=1, steps=(2, 3), warm_iterations=2, warm_members=2, cold_members=2, own_members=2)
    model = mgp(NETWORK, averaging=stack).fit(X[:40], np.sign(X[:40, 0]) + 0.1 * X[:40, 1], unlabelled=X[40:])
    assert "own" in set(model.held_out_[0].groups)
    assert np.isfinite(model.predict(X)).all()


def test_sparse_models_and_sources_of_rows_learn_features_too():
    method = Sparse(inducing=5)
    in_memory = mgp(ENCODER, method=method).fit(X, Y)
    streamed = mgp(ENCODER, method=method).fit(ArrayRows(X, Y))
    for name, leaf in learnt(in_memory).items():
        np.testing.assert_allclose(leaf, learnt(streamed)[name], rtol=1e-6, atol=1e-6)
    with_more = mgp(ENCODER, method=method).fit(X[KNOWN], Y[KNOWN], unlabelled=X[20:])
    assert np.isfinite(with_more.predict(X)).all()
    with pytest.raises(InputError, match="unlabelled goes with arrays in memory"):
        mgp(ENCODER, method=method).fit(ArrayRows(X, Y), unlabelled=X)


def test_tables_with_text_and_gaps():
    table = pd.DataFrame(X, columns=list("abcd")).assign(floor=np.where(X[:, 1] > 0, "ice", "sand"))
    more = table[20:].copy()
    more.iloc[0, 0] = np.nan
    model = mgp(ENCODER, missing="impute").fit(table[KNOWN], Y[KNOWN], unlabelled=more[1:])
    with pytest.warns(FitWarning, match="1 of 40 rows of unlabelled has missing inputs or unknown categories, and is left out"):
        same_predictions(model, mgp(ENCODER, missing="impute").fit(table[KNOWN], Y[KNOWN], unlabelled=more), table)
    more.iloc[0, [0, 4]] = 1.0, "lava"
    with pytest.warns(FitWarning, match="unknown categories, and is left out") as told:
        mgp(ENCODER, missing="impute").fit(table[KNOWN], Y[KNOWN], unlabelled=more)
    assert not [str(one.message) for one in told if "are predicted as" in str(one.message)]


@pytest.mark.parametrize("features", [None, PCA(2), Chain(PCA(2), NETWORK)], ids=["network", "pca", "after-pca"])
def test_rows_that_nothing_learns_from_are_refused(features):
    with pytest.raises(
        InputError, match=r"Nothing in this model learns from rows without targets.*MLP\(\(50, 10\)\)\.pretrained\(\)"
    ):
        mgp(features).fit(X, Y, unlabelled=X)


def test_a_plain_gp_refuses_them_and_so_does_a_table_of_another_width():
    with pytest.raises(InputError, match="Nothing in this model learns from rows without targets"):
        GPRegressor().fit(X, Y, unlabelled=X)
    with pytest.raises(ValueError, match="X has 3 features, but ManifoldGPRegressor is expecting 4"):
        mgp(ENCODER).fit(X, Y, unlabelled=X[:, :3])
