"""Frames in the estimator: text, categories, dates, gaps; what they become, what is predicted, and how wide."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import manifoldgp
from manifoldgp import GPRegressor, ManifoldGPRegressor, Single, TableEncoding
from manifoldgp.data.donors import DRAWS, POOL, Donors
from manifoldgp.data.frames import as_frame
from manifoldgp.data.levels import cross_fitted, learn_effects
from manifoldgp.errors import FileFormatError, FitWarning, InputError
from manifoldgp.inspection import sensitivities, target_name
from manifoldgp.predictor import Predictor

QUICK = {"restarts": 1, "max_iter": 40}


def frame(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "x": rng.normal(size=rows),
        "floor": rng.choice(["ice", "sand", "mud"], rows),
        "wet": rng.random(rows) < 0.5,
        "when": pd.date_range("2026-01-01", periods=rows, freq="7h"),
        "gear": pd.Categorical(rng.integers(1, 4, rows)),
    })  # fmt: skip


def force(table):
    numbers = np.sin(table["x"]) + 1.0 * (table["floor"] == "ice") + 0.5 * table["gear"].astype(float)
    return pd.Series(numbers + 0.05 * np.random.default_rng(9).normal(size=len(table)), name="force [N]")


@pytest.fixture(scope="module")
def fitted():
    return GPRegressor(**QUICK).fit(frame(), force(frame()))


def test_a_frame_goes_in_as_it_is(fitted):
    assert list(fitted.feature_names_in_) == [
        "x", "floor=ice", "floor=mud", "floor=sand", "wet", "when [days]", "gear=1", "gear=2", "gear=3",
    ]  # fmt: skip
    assert fitted.table_encoding_.targets == ("force [N]",)
    assert fitted.score(frame(40, 1), force(frame(40, 1))) > 0.9
    by_hand = TableEncoding.learn(frame().assign(y=force(frame())), ["y"])
    same = GPRegressor(**QUICK).fit(by_hand.inputs(frame()), force(frame()))
    np.testing.assert_allclose(fitted.predict(frame()), same.predict(by_hand.inputs(frame())), rtol=1e-8)


@pytest.mark.parametrize("guise", [
    lambda t: pl.from_pandas(t.assign(gear=t["gear"].astype(str))), lambda t: t[list(reversed(t.columns))], lambda t: t.assign(more=1),
    lambda t: t.assign(when=t["when"].dt.strftime("%Y-%m-%d %H:%M:%S"), wet=t["wet"].astype(int)), lambda t: t.convert_dtypes(),
    lambda t: t.assign(when=t["when"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")),
], ids=["polars", "reversed", "more columns", "as text", "nullable", "another zone"])  # fmt: skip
def test_the_same_rows_are_predicted_the_same_in_every_guise(fitted, guise):
    np.testing.assert_allclose(fitted.predict(guise(frame(10, 1))), fitted.predict(frame(10, 1)), rtol=1e-12)


def test_a_polars_frame_fits_as_a_pandas_frame_does(fitted):
    table = pl.from_pandas(frame().assign(gear=frame()["gear"].astype(str))).with_columns(pl.col("gear").cast(pl.Categorical))
    model = GPRegressor(**QUICK).fit(table, pl.Series("force [N]", force(frame()).to_numpy()))
    assert model.table_encoding_ == fitted.table_encoding_
    np.testing.assert_allclose(model.predict(table), fitted.predict(frame()), rtol=1e-8)


def test_encoded_numbers_are_taken_too(fitted):
    encoded = fitted.table_encoding_.inputs(frame(5, 1))
    for X in (encoded, encoded.to_numpy()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # scikit-learn's, about names
            np.testing.assert_array_equal(fitted.predict(X), fitted.predict(frame(5, 1)))


def test_the_encoding_is_in_the_model_file_and_in_exports(fitted, tmp_path):
    fitted.save(tmp_path / "m.mgp")
    loaded = manifoldgp.load(tmp_path / "m.mgp")
    assert loaded.table_encoding_ == fitted.table_encoding_
    np.testing.assert_array_equal(loaded.predict(frame(5, 1)), fitted.predict(frame(5, 1)))
    fitted.predictor().save(tmp_path / "p.npz")
    predictor = Predictor.load(tmp_path / "p.npz")
    np.testing.assert_allclose(predictor(frame(5, 1)), fitted.predict(frame(5, 1)), rtol=1e-9)
    with pytest.raises(InputError, match="no column 'x'"):
        predictor(frame(5, 1).drop(columns="x"))


def test_inspection_takes_the_same_frames(fitted):
    np.testing.assert_allclose(sensitivities(fitted, frame()), sensitivities(fitted, fitted.table_encoding_.inputs(frame())))


@pytest.mark.parametrize("make", [
    lambda t: t.assign(floor=t["floor"].astype("string[pyarrow]"), wet=t["wet"].astype("bool[pyarrow]"), x=t["x"].astype("double[pyarrow]")),
    lambda t: t.set_axis(t["when"].to_numpy(), axis=0),
    lambda t: pl.from_pandas(t.assign(gear=t["gear"].astype(str))).with_columns(pl.col("gear").cast(pl.Categorical), pl.col("when").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")),
    lambda t: pl.from_pandas(t.assign(gear=t["gear"].astype(str))).with_columns(pl.col("floor", "gear").cast(pl.Categorical)),
    lambda t: t.assign(when=t["when"].astype("datetime64[s]"), floor=t["floor"].astype(pd.CategoricalDtype(["mud", "sand", "ice", "none"]))),
], ids=["arrow", "dates as index", "polars in another zone", "polars category", "seconds and unused categories"])  # fmt: skip
def test_numbers_are_the_same_however_a_frame_holds_its_columns(fitted, make):
    same = fitted.table_encoding_.inputs(frame())
    found = TableEncoding.learn(as_frame(make(frame())), ["y"], y=force(frame()).to_numpy()[:, None])
    np.testing.assert_allclose(found.inputs(as_frame(make(frame()))), same, rtol=1e-12)


def test_headings_over_columns_are_part_of_their_names():
    table = pd.DataFrame({("in", "x"): frame()["x"], ("in", "floor"): frame()["floor"]})
    model = GPRegressor(**QUICK).fit(table, force(frame()))
    assert list(model.feature_names_in_)[:2] == ["in x", "in floor=ice"]
    assert model.predict(table).shape == (60,)


def test_columns_that_are_no_inputs_are_refused_by_name():
    with pytest.raises(InputError, match="Column 'more' holds lists or arrays. Make a column of each of their numbers."):
        GPRegressor(missing="impute").fit(frame().assign(more=[[1.0, 2.0]] * 60), force(frame()))


def test_names_of_rows_and_empty_columns_are_left_out_and_told():
    more = frame().assign(who=[f"robot {i}" for i in range(60)], empty=np.nan)
    with pytest.warns(FitWarning, match="left out, because most texts there occur once: who"):
        model = GPRegressor(**QUICK).fit(more, force(frame()))
    assert model.table_encoding_.row_names == ("who",)
    assert model.table_encoding_.constant == ("empty",)
    np.testing.assert_array_equal(model.predict(frame()), model.predict(more.assign(who="somebody else")))


def test_numbers_alone_are_taken_as_before():
    model = GPRegressor(**QUICK).fit(frame()[["x", "wet"]], force(frame()))
    assert not hasattr(model, "table_encoding_")
    with pytest.raises(InputError, match="not numbers, and were when the model was fitted: wet"):
        model.predict(frame()[["x"]].assign(wet="yes"))


def test_dates_become_elapsed_time_and_on_request_places_in_periods():
    table = frame()[["x", "when"]]
    model = GPRegressor(**QUICK, cyclic=("day", "year")).fit(table, force(frame()))
    X = model.table_encoding_.inputs(table)
    assert list(X.columns)[1:] == ["when [days]", *(f"when: {w} of {p}" for p in ("day", "year") for w in ("sine", "cosine"))]
    days = np.arange(60) * 7 / 24
    np.testing.assert_allclose(X["when [days]"], days)
    np.testing.assert_allclose(X["when: sine of day"], np.sin(2 * np.pi * days), atol=1e-9)
    np.testing.assert_allclose(X["when: cosine of year"], np.cos(2 * np.pi * days / 365), atol=1e-9)
    for cyclic, message in (
        ("day", "cyclic must be some of"),
        (("hour",), "cyclic must be some of"),
        (("day", "day"), "each once"),
    ):
        with pytest.raises(InputError, match=message):
            GPRegressor(cyclic=cyclic).fit(table, force(frame()))
    with pytest.raises(InputError, match="no column of dates"):
        GPRegressor(cyclic=("day",)).fit(table[["x"]], force(frame()))
    with pytest.raises(InputError, match="X is an array of numbers"):
        GPRegressor(cyclic=("day",)).fit(table[["x"]].to_numpy(), force(frame()))


@pytest.mark.parametrize(
    ("step", "name"), [("2s", "t [seconds]"), ("2min", "t [minutes]"), ("90min", "t [hours]"), ("3D", "t [days]")]
)
def test_elapsed_time_is_counted_in_a_unit_that_suits_it(step, name):
    for times in (pd.date_range("2026-05-01", periods=20, freq=step), pd.timedelta_range(0, periods=20, freq=step)):
        assert TableEncoding.learn(pd.DataFrame({"t": times, "y": range(20)}), ["y"]).names == (name,)


def test_a_target_among_the_inputs_is_refused():
    table = frame().assign(y=force(frame()))
    with pytest.raises(InputError, match="X holds the target itself: y"):
        GPRegressor().fit(table, table["y"])


# ------------------------------------------------------------------------------------------------------------------ gaps


def gaps(table):
    table = table.copy()
    table.loc[::6, "x"] = np.nan
    table.loc[3::9, "floor"] = None
    return table


def test_missing_inputs_are_refused_unless_told_otherwise():
    with pytest.raises(InputError, match=r"(?s)column 'x' in 10 of 60 rows .* column 'floor' in 7 of 60 .*missing='impute'"):
        GPRegressor().fit(gaps(frame()), force(frame()))
    with pytest.raises(InputError, match="Input X contains NaN.*missing='impute'"):
        GPRegressor().fit(gaps(frame())[["x"]], force(frame()))
    with pytest.raises(InputError, match="missing must be one of 'error', 'drop', 'impute'; got 'mean'"):
        GPRegressor(missing="mean").fit(frame(), force(frame()))


def test_rows_with_gaps_are_dropped_and_predicted_as_nan():
    table, y = gaps(frame()), force(frame())
    whole = table.notna().all(axis=1).to_numpy()
    with pytest.warns(FitWarning, match=f"{(~whole).sum()} of 60 rows have missing inputs"):
        model = GPRegressor(**QUICK, missing="drop").fit(table, y, noise_std=np.linspace(0.01, 0.02, 60))
    kept = GPRegressor(**QUICK).fit(table[whole], y[whole], noise_std=np.linspace(0.01, 0.02, 60)[whole])
    mean = model.predict(table)
    assert (np.isnan(mean) == ~whole).all()
    np.testing.assert_allclose(mean[whole], kept.predict(table[whole]), rtol=1e-6)
    assert np.isnan(model.predict_quantiles(table, [0.1, 0.9])).any(1).tolist() == (~whole).tolist()
    with pytest.raises(InputError, match="nothing to predict"):
        model.predict(table[~whole])


def test_intervals_are_as_wide_as_the_missing_value_makes_them():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 2))
    y = 2.0 * X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=300)
    X[:40, 0] = np.nan
    model = GPRegressor(**QUICK, missing="impute").fit(X[:200], y[:200])
    assert model.n_features_in_ == 3  # one more says where the first is missing
    new, there = X[200:], y[200:]
    gone = np.where([True, False], np.nan, new)
    std = model.predict(gone, return_std=True)[1]
    assert 1.5 < std.mean() < 3.5  # 2 x uniform on (-2, 2) has 2.3
    low, high = model.predict_quantiles(gone, [0.05, 0.95]).T
    assert 0.82 <= np.mean((low < there) & (there < high)) <= 0.98
    assert model.predict(new, return_std=True)[1].mean() < 0.5 * std.mean()
    inside = model.predict_cdf(gone, there)
    assert ((inside > 0) & (inside < 1)).all()
    assert np.isfinite(model.log_predictive_density(gone, there)).all()
    with pytest.raises(InputError, match="100 of 100 rows have missing inputs or unknown categories"):
        model.sample_y(gone)


def test_a_gap_that_others_tell_costs_little():
    rng = np.random.default_rng(1)
    a = rng.uniform(-2, 2, size=200)
    X = np.c_[a, a + 0.01 * rng.normal(size=200)]  # either column tells the other
    y = np.sin(a) + 0.1 * rng.normal(size=200)
    X[::10, 0] = np.nan
    model = GPRegressor(**QUICK, missing="impute").fit(X, y)
    assert model.predict(np.c_[np.full(50, np.nan), np.linspace(-1.5, 1.5, 50)], return_std=True)[1].mean() < 0.3


def test_a_gap_that_says_something_is_heard():
    rng = np.random.default_rng(2)
    x = rng.normal(size=200)
    gone = rng.random(200) < 0.3
    y = x + 3.0 * gone + 0.1 * rng.normal(size=200)
    X = np.where(gone, np.nan, x)[:, None]
    model = GPRegressor(**QUICK, missing="impute").fit(X, y)
    mean, std = model.predict([[np.nan]], return_std=True)
    assert mean[0] == pytest.approx(3.0, abs=0.5)
    assert 0.7 < std[0] < 1.8


def test_gaps_of_all_kinds_with_warped_and_several_targets(tmp_path):
    table, y = gaps(frame()), force(frame())
    Y = np.c_[y, np.exp(y)]
    model = ManifoldGPRegressor((2, 1), averaging=Single(restarts=1, max_iter=5), target_warping="tanh", missing="impute").fit(
        table, Y
    )
    mean, std = model.predict(table, return_std=True)
    assert mean.shape == std.shape == (60, 2)
    assert np.isfinite(mean).all()
    q = model.predict_quantiles(table, [0.1, 0.9])
    assert q.shape == (60, 2, 2)
    assert (q[:, 0] < q[:, 1]).all()
    model.save(tmp_path / "m.mgp")
    np.testing.assert_array_equal(manifoldgp.load(tmp_path / "m.mgp").predict(table), mean)
    model.update(table.head(5), Y[:5])
    assert model.ensembles_[0].blocks[0].rows == 65


def test_donors_are_rows_that_are_alike():
    X = np.c_[np.arange(1000.0), np.arange(1000.0) ** 2]
    donors = Donors.of(X)
    assert len(donors.rows) == POOL
    drawn = donors.draws(np.array([[500.0, np.nan]]), ["a", "b"])
    assert drawn.shape == (1, DRAWS, 2)
    assert np.abs(np.sqrt(drawn[0, :, 1]) - 500).max() < 1000 / POOL * DRAWS
    np.testing.assert_allclose(donors.completed(np.array([[500.0, np.nan]]), ["a", "b"])[0, 1], drawn[0, :, 1].mean())
    apart = Donors.of(np.array([[1.0, np.nan, 0.0], [np.nan, 5.0, 0.0]]))
    assert apart.completed(np.array([[np.nan, np.nan, 0.0]]), ["a", "b", "c"]).tolist() == [[1.0, 5.0, 0.0]]
    with pytest.raises(InputError, match="b has no value"):
        Donors.of(np.array([[1.0, np.nan]])).draws(np.array([[1.0, np.nan]]), ["a", "b"])


# ------------------------------------------------------------------------------------------------------ many categories


def cities(rows, levels, seed):
    rng = np.random.default_rng(seed)
    level, x = rng.integers(0, levels, rows), rng.normal(size=rows)
    shift = np.random.default_rng(99).normal(size=levels)
    return pd.DataFrame({"x": x, "city": [f"c{k}" for k in level]}), np.sin(2 * x) + shift[level] + 0.1 * rng.normal(size=rows)


def test_many_categories_become_one_column_and_predict_better_than_without():
    (table, y), (new, there) = cities(400, 40, 0), cities(300, 40, 1)
    model = GPRegressor(**QUICK).fit(table, y)
    assert list(model.feature_names_in_) == ["x", "city: effect on y"]
    without = GPRegressor(**QUICK).fit(table[["x"]], y)
    error, plain = (np.sqrt(np.mean((there - m.predict(X)) ** 2)) for m, X in ((model, new), (without, new[["x"]])))
    assert error < 0.25 < 0.9 < plain
    low, high = model.predict_quantiles(new, [0.05, 0.95]).T
    assert 0.82 <= np.mean((low < there) & (there < high)) <= 0.99


def test_an_unknown_category_is_predicted_with_wide_intervals_that_hold():
    (table, y), (new, there) = cities(400, 40, 0), cities(300, 40, 1)
    model = GPRegressor(**QUICK).fit(table, y)
    with pytest.warns(FitWarning, match="'city' has values that were not there at the fit: 'Ulm'"):
        low, high = model.predict_quantiles(new.assign(city="Ulm"), [0.05, 0.95]).T
    assert 0.8 <= np.mean((low < there) & (there < high)) <= 1.0
    known = model.predict_quantiles(new, [0.05, 0.95])
    assert (high - low).mean() > 3 * (known[:, 1] - known[:, 0]).mean()


def test_effects_of_training_rows_come_from_other_rows():
    rng = np.random.default_rng(0)
    levels, Z, Y = np.tile(np.arange(100), 2), rng.normal(size=(200, 1)), rng.normal(size=(200, 1))  # nothing to learn
    found, curves = learn_effects(levels, 100, Z, Y)
    seen = found[levels]
    assert curves == (0,)
    assert abs(np.corrcoef(cross_fitted(levels, 100, Z, Y, curves)[:, 0], Y[:, 0])[0, 1]) < 0.2
    strong, _ = learn_effects(levels, 100, Z, Y + 5.0 * levels[:, None])
    np.testing.assert_allclose(np.diff(strong[:, 0]), 5.0, atol=3.0)
    assert np.abs(seen).max() < 1.0  # shrunk


def slopes(rows, levels, seed):
    """Categories that set a slope, and shift nothing."""
    rng = np.random.default_rng(seed)
    level, x, z = rng.integers(0, levels, rows), rng.normal(size=rows), rng.normal(size=rows)
    slope = np.random.default_rng(99).normal(size=levels)
    table = pd.DataFrame({"x": x, "z": z, "tool": [f"t{k}" for k in level]})
    return table, np.sin(2 * x) + slope[level] * z + 0.1 * rng.normal(size=rows)


def test_categories_that_set_a_slope_are_told_apart_by_a_curve(tmp_path):
    (table, y), (new, there) = slopes(400, 30, 0), slopes(300, 30, 1)
    model = GPRegressor(**QUICK).fit(table, y)
    assert list(model.feature_names_in_) == ["x", "z", "tool: effect on y", "tool: curve 1 on y"]
    assert np.sqrt(np.mean((there - model.predict(new)) ** 2)) < 0.3  # sd(y) = 1.3
    low, high = model.predict_quantiles(new, [0.05, 0.95]).T
    assert 0.8 <= np.mean((low < there) & (there < high)) <= 0.99
    model.save(tmp_path / "model.mgp")
    np.testing.assert_array_equal(manifoldgp.load(tmp_path / "model.mgp").predict(new), model.predict(new))
    np.testing.assert_allclose(model.predictor()(new), model.predict(new), atol=1e-8)
    with pytest.warns(FitWarning, match="were not there"):
        low, high = model.predict_quantiles(new.assign(tool="new"), [0.05, 0.95]).T
    assert 0.8 <= np.mean((low < there) & (there < high)) <= 1.0


def test_curves_are_learnt_where_there_are_some_and_no_row_sees_its_own_target():
    table, y = slopes(600, 60, 0)
    levels, Z = table["tool"].str[1:].astype(int).to_numpy(), table[["x", "z"]].to_numpy()
    found, curves = learn_effects(levels, 60, Z, y[:, None])
    assert curves == (1,)
    slope = np.random.default_rng(99).normal(size=60)
    assert abs(np.corrcoef(found[:, 1], slope)[0, 1]) > 0.95
    assert abs(np.corrcoef(cross_fitted(levels, 60, Z, y[:, None], curves)[:, 1], slope[levels])[0, 1]) > 0.9
    noise = np.random.default_rng(1).normal(size=(600, 1))
    parts = cross_fitted(levels, 60, Z, noise, (1,))[:, 1]  # a curve where there is none
    assert abs(np.corrcoef(parts * Z[:, 1], noise[:, 0])[0, 1]) < 0.15


def test_thousands_of_categories():
    table, y = cities(3000, 1200, 0)
    encoding = TableEncoding.learn(table.assign(y=y), ["y"])
    X, kept = encoding.training_inputs(table.assign(y=y))
    assert X.shape == (3000, 2)
    assert kept.all()
    shift = np.random.default_rng(99).normal(size=1200)
    level = table["city"].str[1:].astype(int)
    assert np.corrcoef(X["city: effect on y"], shift[level])[0, 1] > 0.6


@pytest.mark.parametrize("named", [
    lambda y: pd.Series(y, name="force [N]"), lambda y: pl.Series("force [N]", y), lambda y: pd.DataFrame({"force [N]": y}),
    lambda y: pl.DataFrame({"force [N]": y}), lambda y: pd.DataFrame({("force", "[N]"): y}),
], ids=["pandas", "polars", "frame", "polars frame", "headings"])  # fmt: skip
def test_targets_of_numbers_keep_their_name(named, tmp_path):
    """Only tables with text, dates or gaps had told it: of all others pages and commands said y."""
    x = pd.DataFrame({"x": np.linspace(-1.0, 1.0, 20)})
    y = np.sin(3.0 * x["x"].to_numpy())
    model = GPRegressor(**QUICK).fit(x, named(y))
    assert not hasattr(model, "table_encoding_")
    model.save(tmp_path / "m.mgp")
    loaded = manifoldgp.load(tmp_path / "m.mgp")
    for known in (model, loaded):
        assert known.target_names_.tolist() == ["force [N]"]
        assert target_name(known, 0) == "force [N]"
    loaded.predictor().to_c(tmp_path / "m.c")
    assert "   mean and std: force [N]\n" in (tmp_path / "m.h").read_text(encoding="utf-8")
    model.fit(x, y)
    assert target_name(model, 0) == "y"  # of an array, whatever an earlier fit was told


def test_several_targets_keep_their_names_and_numbers_are_none():
    x = pd.DataFrame({"x": np.linspace(-1.0, 1.0, 20)})
    Y = np.c_[np.sin(3.0 * x["x"]), np.cos(3.0 * x["x"])]
    model = GPRegressor(**QUICK).fit(x, pd.DataFrame(Y, columns=["lift", "drag"]))
    assert [target_name(model, o) for o in range(2)] == ["lift", "drag"]
    model.fit(x, pd.DataFrame(Y))  # columns 0 and 1
    assert [target_name(model, o) for o in range(2)] == ["y0", "y1"]


def test_a_file_with_other_names_than_targets_is_refused(tmp_path):
    x = pd.DataFrame({"x": np.linspace(-1.0, 1.0, 20)})
    model = GPRegressor(**QUICK).fit(x, np.sin(3.0 * x["x"]).rename("lift"))
    model.target_names_ = np.array(["lift", "drag"], dtype=object)
    model.save(tmp_path / "m.mgp")
    with pytest.raises(FileFormatError, match=r"names of targets, \['lift', 'drag'\], are not those of 1 target"):
        manifoldgp.load(tmp_path / "m.mgp")
