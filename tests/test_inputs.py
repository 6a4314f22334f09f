"""What users hand in: every mistake has one clear error, and a fit that fails loses nothing."""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.exceptions import NotFittedError

from manifoldgp import (
    MLP,
    NUTS,
    PCA,
    Fast,
    GPRegressor,
    LogNormal,
    Normal,
    Residual,
    Restarts,
    Sparse,
    SquaredExponential,
    Stack,
    StudentT,
    metrics,
)
from manifoldgp._system import memory
from manifoldgp.data import ArrayRows, inputs
from manifoldgp.errors import FitWarning, InputError, ManifoldGPError, TrainingFailedError
from short_fits import manifold

X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.sin(X[:, 0])
DATES = np.arange("2024-01-01", "2024-01-13", dtype="datetime64[D]")


def mgp(**arguments):
    starts = {} if "averaging" in arguments and not isinstance(arguments["averaging"], str) else {"restarts": 2, "max_iter": 10}
    return manifold(**{"features": None if isinstance(arguments.get("averaging"), Fast) else (3, 1), **starts, **arguments})


def gp(**arguments):
    return GPRegressor(**{"restarts": 2, "max_iter": 10, **arguments})


@pytest.fixture(scope="module")
def fitted():
    return gp().fit(X, Y)


def with_entry(A, value):
    changed = np.array(A, dtype=float)
    changed[(3,) * changed.ndim if changed.ndim == 1 else (3, 1)] = value
    return changed


@pytest.mark.parametrize(("bad", "message"), [
    (X[:, 0], "Expected 2D array, got 1D array instead"),
    (X[None], "Found array with dim 3"),
    (X[:1], "Found array with 1 sample.* while a minimum of 2 is required"),
    (X[:0], "Found array with 0 sample"),
    (X[:, :0], "0 feature"),
    (with_entry(X, np.nan), "Input X contains NaN"),
    (with_entry(X, np.inf), "Input X contains infinity"),
    (np.where(X > 9, "a", "b"), "X must hold numbers, and it has text .*Encode it as numbers first"),
    (np.array([["a", 1.0]] * 12, dtype=object), "X must hold numbers, and it has text"),
    (X + 1j, "Complex data not supported"),
    ([[1.0, 2.0], [3.0]] * 6, "inhomogeneous"),
    (with_entry(X, 1e200), r"X has values up to 1.0e\+200; beyond 1e\+150 arithmetic overflows. Change its units"),
    (X * 1e-200, "A column of X varies by .* only; below 1e-150 arithmetic underflows. Change its units"),
    (pd.DataFrame({"a": [f"n{i}" for i in range(24)]}), "There is no input column"),
    (pd.DataFrame({"a": ["12:30"] * 6 + ["12:31"] * 6, "b": Y}), r"Column 'a' holds times of day \('12:30'\)\. Turn them into numbers"),
    (pd.DataFrame({"a": pd.array([1, None] * 6, dtype="Int64"), "b": Y}), "Input X contains NaN"),
    (pd.DataFrame(X, columns=["a", "a"]), "Column names must differ; these occur more than once: a. Rename"),
    (pd.DataFrame(X, columns=["a", 1]), "Feature names are only supported if all input features have string names"),
    (pl.DataFrame({"a": ["x"] * 12, "c": ["y"] * 12}), "There is no input column"),
    (pl.DataFrame({"a": [1.0, None] * 6, "b": Y}), "Input X contains NaN"),
    (DATES[:, None], r"X holds dates, times or durations. Turn them into numbers .*hours since the start"),
    ((DATES - DATES[0])[:, None], "X holds dates, times or durations"),
    (np.where(DATES[3] < DATES, DATES, np.datetime64("NaT", "D"))[:, None], "X holds dates, times or durations"),
    ([[day, day] for day in DATES], "X holds dates, times or durations"),
    (np.array([[day, 1.0] for day in DATES.tolist()], dtype=object), "X holds dates, times or durations"),
    (np.ma.masked_greater(X, 1.0), "X has [0-9]+ masked entries. Fill them in, or leave these rows out"),
    (pl.LazyFrame({"a": Y, "b": Y}), r"X is a lazy polars frame.* Pass X.collect\(\)"),
])  # fmt: skip
def test_unusable_inputs(bad, message):
    with pytest.raises((ValueError, TypeError), match=message):
        gp().fit(bad, np.resize(Y, len(bad)) if hasattr(bad, "__len__") else Y)


@pytest.mark.parametrize(("bad", "message"), [
    (None, "requires y to be passed, but the target y is None"),
    (3.0, r"y must have one entry for each row of X, shape \(N,\) or \(N, outputs\); got 3.0"),
    (np.array(3.0), "y must have one entry for each row of X"),
    (Y[:5], r"inconsistent numbers of samples: \[12, 5\]"),
    (Y[:, None, None], r"y must have shape \(N,\) or \(N, outputs\); got \(12, 1, 1\)"),
    (np.zeros((12, 0)), "0 feature"),
    (with_entry(Y, np.inf), "Input y contains infinity"),
    (np.array(["a"] * 12), "y must hold numbers, and it has text"),
    (pl.Series(["a"] * 12), "y must hold numbers, and it has text"),
    (Y + 1j, "Complex data not supported"),
    (DATES, "y holds dates, times or durations"),
    (pd.Series(DATES), "y holds dates, times or durations"),
    (np.full(12, np.nan), "At least 2 rows with a target are needed; there are 0"),
    (np.r_[1.0, np.full(11, np.nan)], "At least 2 rows with a target are needed; there is 1"),
    (Y * 1e200, "y has values up to .* Change its units"),
    (Y * 1e-200, "A column of y varies by .* Change its units"),
])  # fmt: skip
def test_unusable_targets(bad, message):
    with pytest.raises((ValueError, TypeError), match=message):
        gp().fit(X, bad)


@pytest.mark.parametrize(("bad", "message"), [
    (-1.0, "noise_std must be finite and not negative: it is the standard deviation of the noise, in the units of y"),
    (np.nan, "noise_std must be finite and not negative"),
    (np.full(12, np.inf), "noise_std must be finite and not negative"),
    (np.ones(5), r"noise_std must be one number, or shaped like y \(12, 1\); got shape \(5,\)"),
    (np.ones((12, 2)), r"got shape \(12, 2\)"),
    (np.ones((12, 1, 1)), r"got shape \(12, 1, 1\)"),
    ("wide", "noise_std must be numbers"),
    (np.ma.array(np.ones(12), mask=[True] + [False] * 11), "noise_std has 1 masked entries"),
    ([None] * 12, "noise_std must be"),
])  # fmt: skip
def test_wrong_noise_std(fitted, bad, message):
    with pytest.raises(InputError, match=message):
        gp().fit(X, Y, noise_std=bad)
    for call in (
        lambda: fitted.predict(X, noise_std=bad),
        lambda: fitted.predict(X, return_std=True, noise_std=bad),
        lambda: fitted.predict_quantiles(X, noise_std=bad),
        lambda: fitted.log_predictive_density(X, Y, noise_std=bad),
        lambda: fitted.update(X, Y, noise_std=bad),
    ):
        with pytest.raises(InputError, match=message):
            call()


@pytest.mark.parametrize(("arguments", "message"), [
    ({"features": "mlp"}, "Features, layer sizes such as .6, 2., a torch.nn.Module, a scikit-learn transformer or None expected, got 'mlp'"),
    ({"features": torch.nn.Linear(7, 2)}, "The features cannot be computed for inputs with 2 columns: .*shapes cannot be multiplied"),
    ({"features": MLP}, r"Did you mean an instance, MLP\(...\)\?"),
    ({"features": PCA(5)}, r"PCA\(q=5\) needs at least 5 rows and columns; the inputs have 12 rows and 2"),
    ({"features": Residual(MLP((3,)))}, "their numbers must agree: the inputs have 2 columns"),
    ({"features": ()}, r"MLP needs the outputs of at least one layer, such as sizes=\(6, 2\); got \(\)"),
    ({"features": 6}, r"Features, layer sizes such as \(6, 2\), .* expected, got 6"),
    ({"features": (3, 0)}, "Each size of an MLP must be a positive integer, got 0"),
    ({"kernel": "rbf"}, "A kernel is expected, or one of the shorthands .*'se'.*got 'rbf'"),
    ({"kernel": SquaredExponential}, "A kernel is expected"),
    ({"kernel": SquaredExponential(dims=(4,))}, r"uses the features \(4,\), but there are only 1"),
    ({"mean": "quadratic"}, "A mean is expected, a torch.nn.Module, or one of 'zero', 'constant', 'linear'.*; got 'quadratic'"),
    ({"noise": "none"}, "noise must be 'learned', 'known' .*got 'none'"),
    ({"noise": "known"}, r"noise='known' needs the noise of the rows: fit\(X, y, noise_std=...\)"),
    ({"standardize": "both"}, "standardize must be True .X and y., False, 'X' or 'y'; got 'both'"),
    ({"standardize": None}, "standardize must be True .*got None"),
    ({"method": "dense"}, "method must be one of 'auto', 'exact', 'local', 'sparse', or an object .*; got 'dense'"),
    ({"method": Sparse(inducing=0)}, "inducing must be a whole number of at least 1; got 0"),
    ({"method": Sparse(checkpoint=3)}, "checkpoint must be the name of a file, or None; got 3"),
    ({"shared_features": 1}, "shared_features must be True or False; got 1"),
    ({"target_warping": "log"}, "Unknown target warping 'log'; use None, 'tanh' or a warping"),
    ({"target_warping": 5}, "target_warping must be None, 'tanh' or a warping such as .*; got 5"),
    ({"priors": [LogNormal()]}, "priors must map patterns of parameter names to LogNormal, Normal, StudentT or GroupSparse"),
    ({"priors": {"kernel.variance": 3.0}}, "priors must map patterns .*got {'kernel.variance': 3.0}"),
    ({"priors": {"kernel.variance": LogNormal(0, 0)}}, r"The width of the prior LogNormal\(mean=0, sd=0\) must be a positive number"),
    ({"priors": {"noise.*": StudentT(scale=-1)}}, "The width of the prior StudentT.* must be a positive number; got -1"),
    ({"priors": {"kernel.scale": Normal()}}, "No trainable parameter matches the prior's pattern 'kernel.scale'. There are: features.0.weight"),
    ({"priors": {"features.*": LogNormal()}}, "A LogNormal prior needs a positive parameter"),
    ({"restarts": 0}, "restarts must be a whole number of at least 1; got 0"),
    ({"restarts": 2.5}, "restarts must be a whole number of at least 1; got 2.5"),
    ({"restarts": None}, "restarts must be a whole number of at least 1; got None"),
    ({"max_iter": -1}, "max_iter must be a whole number of at least 0; got -1"),
    ({"max_iter": 1.5}, "max_iter must be a whole number of at least 0; got 1.5"),
    ({"time_budget": 0}, r"time_budget \(seconds\) must be a positive number; got 0"),
    ({"time_budget": "1 min"}, "time_budget .* must be a positive number; got '1 min'"),
    ({"optimizer": "adam"}, "Unknown optimizer 'adam'; choose one of 'l-bfgs', 'l-bfgs-b', 'hessian-free'"),
    ({"optimizer": None}, "Unknown optimizer None"),
    ({"averaging": Stack(hidden=0)}, "hidden must be a whole number of at least 1; got 0"),
    ({"averaging": Fast(cold_members=1.5)}, "cold_members must be a whole number of at least 1; got 1.5"),
    ({"averaging": Restarts(temperature=0)}, "temperature must be a positive number; got 0"),
    ({"averaging": NUTS(target_accept=2)}, "target_accept must lie between 0 and 1; got 2"),
    ({"device": "gpu"}, r"The device 'gpu' cannot be used \(.*\). Use 'cpu', or 'cuda' where PyTorch sees a GPU"),
    ({"device": "meta"}, "The device 'meta' cannot be used"),
    ({"callback": 3}, r"callback must be a function of \(iterations, objective values\), or None; got 3"),
    ({"random_state": "x"}, "'x' cannot be used to seed"),
    ({"warm_start_from": "model"}, "warm_start_from must be a fitted estimator of this package"),
    ({"warm_start_from": GPRegressor()}, "warm_start_from must be a fitted estimator of this package"),
])  # fmt: skip
def test_wrong_arguments(arguments, message):
    model = mgp(**arguments)  # arguments are checked by fit, as scikit-learn asks
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "ensembles_")


def test_warm_start_from_another_architecture_is_refused(fitted):
    with pytest.raises(InputError, match=r"Warm start: the other model has no parameter 'features.0.weight'"):
        mgp(warm_start_from=fitted).fit(X, Y)
    with pytest.raises(InputError, match=r"Warm start: 'kernel.lengthscale' has shape \(2,\) in the other model"):
        gp(warm_start_from=fitted).fit(X[:, :1], Y)
    with pytest.raises(InputError, match="warm_start_from has 1 target; this data has more"):
        gp(warm_start_from=fitted).fit(X, np.c_[Y, Y])


def test_known_noise_and_a_warped_target_do_not_go_together():
    with pytest.raises(InputError, match=r"noise_std is noise of y, and a warped model adds its noise to g\(y\)"):
        gp(target_warping="tanh").fit(X, Y, noise_std=0.1)
    model = gp(target_warping="tanh").fit(X, Y)
    for call in (lambda: model.predict(X, return_std=True, noise_std=0.1), lambda: model.update(X, Y, noise_std=0.1)):
        with pytest.raises(InputError, match="Leave out noise_std or target_warping"):
            call()


@pytest.mark.parametrize("call", [
    lambda m: m.predict(X), lambda m: m.predict_quantiles(X), lambda m: m.predict_cdf(X, Y), lambda m: m.log_predictive_density(X, Y),
    lambda m: m.sample_y(X), lambda m: m.predict_gradient(X), lambda m: m.transform(X), lambda m: m.update(X, Y), lambda m: m.score(X, Y),
    lambda m: m.diagnose(), lambda m: m.save("never_written.mgp"), lambda m: m.get_feature_names_out(), lambda m: m.n_iter_,
])  # fmt: skip
def test_nothing_works_before_fit(call):
    with pytest.raises(NotFittedError, match=r"This ManifoldGPRegressor instance is not fitted yet. Call 'fit'"):
        call(mgp())


@pytest.mark.parametrize(("call", "message"), [
    (lambda m: m.predict(X[:, :1]), "X has 1 features, but GPRegressor is expecting 2 features as input"),
    (lambda m: m.predict(with_entry(X, np.nan)), "Input X contains NaN"),
    (lambda m: m.predict(X[:0]), "Found array with 0 sample"),
    (lambda m: m.predict(X, return_std=True, return_cov=True), "Ask for return_std or for return_cov, not for both"),
    (lambda m: m.predict(np.full((1, 2), 1e200)), "standard deviations from the training data: arithmetic overflows there"),
    (lambda m: m.predict(np.array([["a", "b"]])), "X must hold numbers, and it has text"),
    (lambda m: m.predict_quantiles(X, [0.5, 1.0]), r"between 0 and 1, exclusively; got \[0.5, 1.0\]"),
    (lambda m: m.predict_quantiles(X, []), "Quantile levels must be one or several numbers"),
    (lambda m: m.predict_quantiles(X, [np.nan]), "Quantile levels must be"),
    (lambda m: m.predict_quantiles(X, "median"), "Quantile levels must be .*got 'median'"),
    (lambda m: m.predict_quantiles(X, [[0.5]]), "Quantile levels must be"),
    (lambda m: m.sample_y(X, 0), "n_samples must be a whole number of at least 1; got 0"),
    (lambda m: m.sample_y(X, 1.5), "n_samples must be a whole number of at least 1; got 1.5"),
    (lambda m: m.log_predictive_density(X, Y[:3]), r"Expected targets of shape \(12, 1\) for these inputs; got \(3, 1\)"),
    (lambda m: m.log_predictive_density(X, np.c_[Y, Y]), r"Expected targets of shape \(12, 1\) .* got \(12, 2\)"),
    (lambda m: m.log_predictive_density(X, with_entry(Y, np.nan)), r"1 of 12 targets is missing \(NaN\). Leave these rows out"),
    (lambda m: m.predict_cdf(X, with_entry(Y, np.nan)), "1 of 12 targets is missing"),
    (lambda m: m.update(X, with_entry(Y, np.nan)), "1 of 12 targets is missing"),
    (lambda m: m.update(X[:2], Y[:3]), r"Expected targets of shape \(2, 1\) for these inputs; got \(3, 1\)"),
])  # fmt: skip
def test_wrong_questions_to_a_fitted_model(fitted, call, message):
    before = fitted.predict(X)
    with pytest.raises(ValueError, match=message):
        call(fitted)
    np.testing.assert_array_equal(fitted.predict(X), before)


def test_missing_targets_are_dropped_and_counted():
    y = Y.copy()
    y[[2, 5, 7]] = np.nan
    kept = ~np.isnan(y)
    with pytest.warns(FitWarning, match=r"3 of 12 rows have a missing target \(NaN\) and are left out of the fit") as caught:
        model = gp().fit(X, y)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(model.predict(X), gp().fit(X[kept], y[kept]).predict(X))


def test_masked_targets_are_missing_and_masks_of_queries_are_seen(fitted):
    with pytest.warns(FitWarning, match="2 of 12 rows have a missing target"):
        model = gp().fit(X, np.ma.array(Y, mask=np.arange(12) < 2))
    np.testing.assert_allclose(model.predict(X), gp().fit(X[2:], Y[2:]).predict(X), rtol=1e-6, atol=1e-6)
    whole = np.ma.array(X, mask=np.zeros_like(X, dtype=bool))
    np.testing.assert_array_equal(fitted.predict(whole), fitted.predict(X))
    some = np.ma.masked_greater(X, 1.0)
    for ask in (fitted.predict, fitted.predictor()):
        with pytest.raises(InputError, match="X has .* masked entries"):
            ask(some)
        with pytest.raises(InputError, match="X holds dates"):
            ask(np.stack([DATES, DATES], 1))
    with pytest.raises(InputError, match="X has .* masked entries"):
        list(ArrayRows(some, Y).blocks(0, 12, 5))


def test_missing_targets_take_their_noise_along():
    y, noise = Y.copy(), np.linspace(0.1, 0.3, 12)
    y[4], noise[4] = np.nan, np.nan
    kept = ~np.isnan(y)
    with pytest.warns(FitWarning, match="1 of 12 rows"):
        model = gp().fit(X, y, noise_std=noise)
    np.testing.assert_array_equal(model.predict(X), gp().fit(X[kept], y[kept], noise_std=noise[kept]).predict(X))


def test_a_row_is_dropped_if_any_of_its_targets_is_missing():
    Y2 = np.c_[Y, -Y]
    Y2[0, 0], Y2[1, 1] = np.nan, np.nan
    with pytest.warns(FitWarning, match="2 of 12 rows"):
        model = gp().fit(X, Y2)
    np.testing.assert_array_equal(model.predict(X), gp().fit(X[2:], Y2[2:]).predict(X))


def test_groups_follow_the_rows_that_are_kept():
    y = with_entry(Y, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        table = inputs.training_table(gp(), X, y)
    labels = inputs.group_labels(list(range(12)), table.given, table.kept)
    assert labels.tolist() == [0, 1, 2, *range(4, 12)]
    with pytest.raises(InputError, match=r"groups must hold one label a row, shape \(12,\); got \(11,\)"):
        inputs.group_labels(list(range(11)), table.given, table.kept)


# ------------------------------------------------------------------------------------------------------- data that work


def test_a_constant_column_harms_nothing():
    plain = gp(max_iter=100).fit(X, Y)
    padded = gp(max_iter=100).fit(np.c_[X, np.full(12, 0.1)], Y)
    np.testing.assert_allclose(padded.predict(np.c_[X, np.full(12, 0.1)]), plain.predict(X), atol=1e-3)
    assert mgp().fit(np.ones((12, 2)), Y).predict(X) == pytest.approx(np.full(12, Y.mean()), abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 3.3, -1e9])
def test_a_constant_target_is_predicted(value):
    mean, std = mgp().fit(X, np.full(12, value)).predict(X + 1, return_std=True)
    np.testing.assert_allclose(mean, value, rtol=1e-12, atol=1e-6)
    assert (std > 0).all()
    assert (std < 1e-3).all()


def test_duplicate_rows_with_different_targets_are_noise():
    model = gp(max_iter=200).fit(np.r_[X, X], np.r_[Y + 0.5, Y - 0.5])
    mean, std = model.predict(X, return_std=True)
    assert np.abs(mean - Y).max() < 0.3
    assert std == pytest.approx(np.full(12, 0.5), rel=0.3)
    exact = gp(noise="known").fit(np.r_[X, X], np.r_[Y + 0.5, Y - 0.5], noise_std=0.0)  # contradictory: only the floor is left
    np.testing.assert_allclose(exact.predict(X), Y, atol=0.05)


def test_two_rows_are_enough():
    mean, std = mgp().fit(X[:2], Y[:2]).predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


@pytest.mark.parametrize("convert", [
    lambda A: A.astype(np.float32), lambda A: A.tolist(), lambda A: torch.tensor(A), lambda A: pd.DataFrame(A, columns=["a", "b"]),
    lambda A: pl.DataFrame({"a": A[:, 0], "b": A[:, 1]}), lambda A: A.astype(object), lambda A: np.asfortranarray(A), lambda A: A > 0,
    lambda A: pd.DataFrame({"a": pd.array(np.arange(len(A)), dtype="Int64"), "b": pd.Categorical(np.arange(len(A)))}),
    lambda A: pd.DataFrame({"a": [str(v) for v in A[:, 0]], "b": A[:, 1]}, dtype=object),
])  # fmt: skip
def test_inputs_of_many_kinds_work(convert):
    given = convert(X)
    prediction = gp().fit(given, Y).predict(given)
    assert prediction.dtype == np.float64
    assert np.isfinite(prediction).all()


# ------------------------------------------------------------------------------------------------------- memory


def test_more_rows_than_memory_are_refused_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr(inputs, "available_bytes", lambda: 3 * 8 * 100)  # three matrices of 10 x 10
    with pytest.raises(
        InputError,
        match=r"12 rows at once need .* MiB of memory; .* MiB are free. Use at most 9 rows at once, or fit with method='sparse'",
    ):
        gp(restarts=1).fit(X, Y)
    model = gp(restarts=1).fit(X[:9], Y[:9])
    assert model.predict(X, return_std=True)[0].shape == (12,)  # chunks: no limit
    for call in (lambda: model.predict(X, return_cov=True), lambda: model.sample_y(X)):
        with pytest.raises(InputError, match="12 rows at once need"):
            call()
    with pytest.raises(InputError, match="12 rows at once need"):
        model.update(X[9:], Y[9:])


def test_an_average_needs_memory_for_all_its_members(monkeypatch):
    monkeypatch.setattr(inputs, "available_bytes", lambda: 10 * 8 * 12**2)
    gp(restarts=1).fit(X, Y)
    with pytest.raises(InputError, match="12 rows at once need"):
        mgp(averaging="restarts", restarts=20).fit(X, Y)


@pytest.mark.parametrize(("left", "said"), [(10 * 2**20, r"10\.0 MiB are left to this process"), (2**25, None)])
def test_next_to_no_memory_is_told_before_libraries_fall(left, said, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: left)
    with nullcontext() if said is None else pytest.raises(InputError, match=said):
        memory.refuse_next_to_no_memory()


def test_available_memory_is_a_number_of_bytes():
    assert 2**20 < memory.available_bytes() < 2**60


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="how much memory a process has is told in other ways here")
def test_the_limit_of_the_process_is_a_limit_of_memory():
    resource = pytest.importorskip("resource", reason="a system without limits of processes")
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + 2**26, before[1]))
    try:
        left = memory.available_bytes()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert left <= 2**26


# ------------------------------------------------------------------------------------------------------- failure loses nothing


class StopError(Exception):
    pass


def interrupt(*_):
    raise KeyboardInterrupt


def stop(*_):
    raise StopError("enough")


@pytest.mark.parametrize(("change", "data", "error"), [
    ({}, (with_entry(X, np.nan), Y), ValueError),
    ({}, (np.c_[X, X], Y[:5]), ValueError),
    ({}, (np.c_[X, X], np.full(12, np.nan)), InputError),
    ({}, (pd.DataFrame({"u": X[:, 0], "v": ["12:30"] * 11 + ["12:31"]}), Y), InputError),
    ({"kernel": "rbf"}, (np.c_[X, X], np.c_[Y, Y]), InputError),
    ({"device": "gpu"}, (X[:, :1], Y), InputError),
    ({"features": ()}, (X[:, :1], Y), InputError),
    ({"callback": stop}, (np.c_[X, X], np.c_[Y, Y]), StopError),
    ({"callback": interrupt}, (X[:, :1], np.c_[Y, Y]), KeyboardInterrupt),
])  # fmt: skip
def test_a_failed_fit_leaves_the_earlier_one(change, data, error):
    named = pd.DataFrame(X, columns=["a", "b"])
    model = mgp().fit(named, Y)
    before, state = model.predict(named, return_std=True), dict(vars(model))
    model.set_params(**change)
    with pytest.raises(error):
        model.fit(*data)
    np.testing.assert_array_equal(model.predict(named, return_std=True), before)
    assert {k: v for k, v in vars(model).items() if k not in change} == {k: v for k, v in state.items() if k not in change}
    assert list(model.feature_names_in_) == ["a", "b"]


def test_a_failed_first_fit_leaves_an_unfitted_estimator():
    model = mgp(kernel="rbf")
    with pytest.raises(InputError, match="A kernel is expected"):
        model.fit(X, Y)
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(X)


def test_training_that_fails_says_so():
    class NotFinite(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2, 1))

        def forward(self, X):
            return X @ self.weight / torch.zeros(())

    with pytest.raises(ManifoldGPError, match=r"finite|positive definite") as caught:
        mgp(features=NotFinite()).fit(X, Y)
    assert isinstance(caught.value, (TrainingFailedError, InputError))


@pytest.mark.parametrize("thing", [1j, [], {"a": 1}])
def test_objects_that_are_no_real_numbers_are_refused_in_words(thing):
    table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=object)
    table[1, 0] = thing
    with pytest.raises(InputError, match="X must hold"):
        GPRegressor(restarts=1, max_iter=1).fit(table, np.arange(3.0))
    with pytest.raises(InputError, match="y must hold"):
        GPRegressor(restarts=1, max_iter=1).fit(np.ones((3, 2)), table[:, 0])


@pytest.mark.parametrize(
    "groups",
    [
        np.array([0.0, np.nan] * 5),
        np.array(["2020-01-01", "NaT"] * 5, dtype="datetime64[D]"),
        np.array(["a", None] * 5, dtype=object),
    ],
)
def test_rows_without_a_label_are_in_no_group(groups):
    with pytest.raises(InputError, match="missing labels"):
        inputs.group_labels(groups, 10)


def test_scores_of_masked_targets_and_of_dates_are_refused():
    X = np.arange(10.0)[:, None]
    model = GPRegressor(restarts=1, max_iter=2).fit(X, np.sin(X[:, 0]))
    for y in (np.ma.masked_array(X[:, 0], mask=X[:, 0] == 3), X[:, 0].astype("timedelta64[h]")):
        with pytest.raises(InputError, match="masked|durations"):
            model.score(X, y)
    with pytest.raises(InputError, match="masked"):
        metrics.rmse(np.ma.masked_array(X[:, 0], mask=X[:, 0] == 3), X[:, 0])
