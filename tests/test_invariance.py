"""A fit depends on the data, not on how they lie in a table: order of rows and columns, columns that say nothing new, and units change no prediction."""

import numpy as np
import pytest
import torch

import manifoldgp
from manifoldgp import GPRegressor, ManifoldGPRegressor, Stack, kernels
from manifoldgp.data.scaling import Standardizer, canonical_rows
from manifoldgp.errors import InputError
from manifoldgp.estimators.canonical_data import treats_columns_alike
from manifoldgp.features import MLP, Module, Residual
from manifoldgp.inspection.chosen_rows import training_rows
from manifoldgp.model import Model

N = 24
SHORT = Stack(
    gp_starts=2, warm_members=1, cold_members=2, own_members=2, fold_members=1, gp_iterations=30, warm_iterations=5, steps=(5, 8), polish=3
)  # fmt: skip


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + 15, 3)) * [1.0, 3.0, 0.2] + [0.0, 30.0, 1.0]
    y = np.sin(2 * X[:, 0]) + 0.3 * (X[:, 1] > 30) + 0.1 * rng.normal(size=len(X))
    return X[:N], y[:N], X[N:]


def predicted(X, y, new):
    return ManifoldGPRegressor(averaging=SHORT).fit(X, y).predict(new, return_std=True)


def assert_same(one, other):
    """Means to 1e-6 standard deviations, and standard deviations to 1e-6 of themselves."""
    np.testing.assert_allclose((other[0] - one[0]) / one[1], 0.0, atol=1e-6)
    np.testing.assert_allclose(other[1] / one[1], 1.0, atol=1e-6)


@pytest.fixture(scope="module")
def first():
    return predicted(*table())


def constant(A):
    return np.column_stack([np.full(len(A), 3.7), A])


@pytest.mark.parametrize(
    "columns",
    [lambda A: A[:, [2, 0, 1]], lambda A: A[:, [0, 1, 1, 2]], constant, lambda A: A * [4.0, 0.5, 1024.0], lambda A: A * [1000.0, 1 / 2.54, 1.8] + [0, 0, 32]],
    ids=["other order", "one twice", "one constant", "powers of two", "units"],
)  # fmt: skip
def test_columns_in_other_orders_and_units_and_columns_without_news_change_no_prediction(first, columns):
    X, y, new = table()
    assert_same(first, predicted(columns(X), y, columns(new)))


def test_the_order_of_rows_and_the_units_of_targets_change_no_prediction(first):
    X, y, new = table()
    shuffled = np.random.default_rng(1).permutation(N)
    mean, std = predicted(X[shuffled], 0.3048 * y[shuffled] + 2.0, new)
    assert_same(first, ((mean - 2.0) / 0.3048, std / 0.3048))


def test_groups_go_with_their_rows_and_rows_in_order_of_time_stay_in_it():
    X, y, new = table()
    groups, shuffled = np.arange(N) // 4, np.random.default_rng(1).permutation(N)
    model = ManifoldGPRegressor(averaging=SHORT)
    one = model.fit(X, y, groups=groups).predict(new, return_std=True)
    assert_same(one, model.fit(X[shuffled], y[shuffled], groups=groups[shuffled]).predict(new, return_std=True))
    in_time = model.fit(X, y, ordered=True).held_out_[0].observed
    np.testing.assert_allclose(in_time, (y - y.mean()) / y.std(), atol=1e-8)


@pytest.fixture(scope="module")
def doubled():
    """A model of columns x0, x1, x1 again, x2 and a constant; the rows it predicts."""
    X, y, new = table()
    wide = [np.column_stack([A[:, [0, 1, 1, 2]], np.full(len(A), 5.0)]) for A in (X, new)]
    return GPRegressor(restarts=1, max_iter=20).fit(wide[0], y), wide[0], wide[1]


def test_all_that_a_model_offers_is_about_the_columns_of_the_user(doubled, tmp_path):
    model, X, new = doubled
    mean, std = model.predict(new, return_std=True)
    steps = 1e-4 * np.eye(5)
    slopes = model.predict_gradient(new[:1])[0][0]
    differences = [(model.predict(new[:1] + step) - model.predict(new[:1] - step))[0] / 2e-4 for step in steps]
    np.testing.assert_allclose(slopes, differences, atol=1e-5)
    assert slopes[2] == slopes[4] == 0.0
    assert model.sensitivity(samples=64).total.shape == (5,)
    assert {row.input for row in model.parameters()} == {"", "x0", "x1", "x3"}
    told = " ".join(model.diagnose().remarks)
    assert "so without information: input 4. The model leaves it out" in told
    assert "The same column again, and left out of the model: input 2 (that of 1)." in told
    found = model.predictor()(new, return_std=True)
    np.testing.assert_allclose(found, (mean, std), rtol=1e-9)
    model.save(tmp_path / "model.mgp")
    np.testing.assert_array_equal(manifoldgp.load(tmp_path / "model.mgp").predict(new), mean)
    np.testing.assert_allclose(training_rows(model).X, X, rtol=1e-12)
    functions = model.sample_functions(2)
    np.testing.assert_allclose(functions(new), functions(torch.from_numpy(new)).numpy(), rtol=1e-12)


def test_moments_at_uncertain_inputs_know_what_columns_that_were_left_out_have_in_common_with_the_others(doubled):
    model, _, new = doubled
    cov = np.diag([0.01, 0.04, 0.04, 0.01, 1.0])
    cov[1, 2] = cov[2, 1] = 0.04  # a column and its copy are known alike
    cov[0, 4] = cov[4, 0] = 0.05
    found = model.predict_moments(new[:2], cov).input_covariance
    np.testing.assert_allclose(found[:, 2], found[:, 1], rtol=1e-9)
    np.testing.assert_allclose(found[:, 4], 5.0 * found[:, 0], rtol=1e-9)


def test_new_rows_are_conditioned_on_without_the_columns_that_were_left_out(doubled):
    model, _X, new = doubled
    before = model.ensembles_
    model.update(new[:1], [3.0])
    updated = model.predict(new[:1])[0]
    model.ensembles_ = before
    assert abs(updated - 3.0) < abs(model.predict(new[:1])[0] - 3.0)


def test_parts_that_know_columns_by_their_number_see_all_of_them_as_they_are():
    X, y, _new = table()
    alike = [Model(), Model(MLP((3, 2))), Model(kernel=kernels.SquaredExponential() + kernels.Additive())]
    by_number = [
        Model(kernel=kernels.SquaredExponential(dims=(1,))), Model(kernel=kernels.Linear() + kernels.Matern32(dims=(0,))),
        Model(Residual(MLP((3, 3)))), Model(Module(torch.nn.Linear(3, 2))), Model(kernel=kernels.ChangePoint(kernels.Linear(), kernels.Linear())),
    ]  # fmt: skip
    assert all(map(treats_columns_alike, alike))
    assert not any(map(treats_columns_alike, by_number))
    kept = GPRegressor(kernels.SquaredExponential(dims=(1,)), restarts=1, max_iter=5).fit(X[:, [0, 1, 1]], y)
    assert kept.x_scaler_.sees_columns_as_they_are


def test_a_warm_start_has_the_columns_of_the_model_it_starts_from():
    X, y, _new = table()
    before = GPRegressor(restarts=1, max_iter=15).fit(X[:18], y[:18])
    after = GPRegressor(restarts=1, max_iter=0, warm_start_from=before).fit(X, y)
    np.testing.assert_array_equal(after.x_scaler_.place, before.x_scaler_.place)
    one, other = (dict(m.ensembles_[0].blocks[0].values["kernel"]) for m in (before, after))
    np.testing.assert_allclose(other["lengthscale"], one["lengthscale"])
    without = GPRegressor(restarts=1, max_iter=5).fit(X[:, [0, 1, 1]], y)
    with pytest.raises(InputError, match="Warm start: the other model was fitted on data in which column 2 .* here it is not"):
        GPRegressor(restarts=1, max_iter=5, warm_start_from=without).fit(X, y)


def test_places_follow_from_what_columns_hold():
    X, y, _ = table()
    wide = np.column_stack([X[:, 1], np.ones(N), X, X[:, 0]])
    scaler = Standardizer.fit(wide).ordered_by_content(wide, y[:, None])
    assert scaler.place[1] == -1
    assert scaler.place[0] == scaler.place[3]
    assert scaler.place[2] == scaler.place[5]
    assert sorted(set(scaler.place.tolist())) == [-1, 0, 1, 2]
    np.testing.assert_allclose(scaler.undo(scaler.apply(wide)), wide, rtol=1e-13)
    narrow = Standardizer.fit(X).ordered_by_content(X, y[:, None])
    np.testing.assert_array_equal(scaler.apply(wide), narrow.apply(X))
    alone = Standardizer.fit(np.ones((5, 2))).ordered_by_content(np.ones((5, 2)), y[:5, None])
    assert alone.columns.tolist() == [0]


def test_rows_are_sorted_by_what_they_hold():
    X, y, _ = table()
    U, Y, shuffled = X, y[:, None], np.random.default_rng(2).permutation(N)
    one, other = canonical_rows(U, Y, None), canonical_rows(U[shuffled], Y[shuffled], None)
    np.testing.assert_array_equal(U[one], U[shuffled][other])
    assert not (np.diff(Y[one, 0]) >= 0).all()  # nothing that takes the first rows gets the smallest targets


def test_values_that_are_not_standardised_keep_all_their_digits():
    tiny = 1e-14 * np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_array_equal(Standardizer.fit(tiny, active=False).learnt(tiny), tiny)
