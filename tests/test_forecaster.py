"""Forecasts: the circle is the periodic kernel, moments through it, windows, draws against moments, times, updates, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from manifoldgp import DeepGPRegressor, Forecaster, GPRegressor, LogNormal, ManifoldGPRegressor, Single
from manifoldgp._system import tensor_file
from manifoldgp.data.series import EvenSeries, even_series
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.estimators.forecasting import Windows
from manifoldgp.features import Circle
from manifoldgp.inference.circle_inputs import Circles
from manifoldgp.kernels import Periodic, SquaredExponential

RNG = np.random.default_rng(0)
T = np.arange(70)
SEASON = 0.05 * T + np.sin(2 * np.pi * T / 8) + 0.02 * RNG.normal(size=70)
QUICK = GPRegressor(restarts=1, max_iter=25)


@pytest.fixture(scope="module")
def fitted():
    return Forecaster(QUICK, lags=8).fit(SEASON[:60])


def tensor(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def test_the_squared_exponential_on_the_circle_is_the_periodic_kernel():
    X = torch.as_tensor(RNG.normal(size=(40, 2)))
    features = Circle()({"period": tensor(0.7, 2.1)}, X)
    ours = SquaredExponential(ard=False).matrix({"variance": tensor(1.3)[0], "lengthscale": tensor(0.6)}, features)
    periodic = Periodic().matrix({"variance": tensor(1.3)[0], "lengthscale": tensor(0.6, 0.6), "period": tensor(0.7, 2.1)}, X)
    assert (ours - periodic).abs().max() < 1e-10


def test_the_circle_keeps_other_inputs_and_refuses_columns_that_are_not_there():
    X = torch.as_tensor(RNG.normal(size=(5, 3)))
    H = Circle((1,))({"period": tensor(2.0)}, X)
    torch.testing.assert_close(H[:, :2], X[:, [0, 2]])
    torch.testing.assert_close(H[:, 2:].square().sum(1), torch.ones(5, dtype=torch.float64))
    with pytest.raises(InputError, match="only 3"):
        Circle((3,)).parameters(X)
    for wrong in ((), (0, 0), (-1,), "a"):
        with pytest.raises(InputError, match="columns"):
            Circle(wrong)
    with pytest.raises(InputError, match="period"):
        Circle((0,), -1.0)


def test_moments_of_the_circle_are_those_of_draws():
    mu, factor = tensor(0.3, -1.0), torch.as_tensor(RNG.normal(size=(2, 2)))
    circles = Circles(torch.as_tensor(RNG.normal(size=(2, 3))), tensor(0.2, 0.0, 1.0))
    mean, cov = circles(mu[None], (factor @ factor.T)[None])
    x = mu + torch.as_tensor(np.random.default_rng(1).normal(size=(100_000, 2))) @ factor.T
    phi = x @ circles.speed + circles.phase
    v = torch.cat([x, phi.cos(), phi.sin()], -1)
    torch.testing.assert_close(mean[0], v.mean(0), rtol=0, atol=0.02)
    torch.testing.assert_close(cov[0], torch.cov(v.T), rtol=0, atol=0.03)


def test_moments_of_the_circle_neither_overflow_nor_lose_digits():
    circles = Circles(tensor(1.0)[:, None], tensor(0.0))
    mean, cov = circles(tensor(0.5)[None], tensor(1e4)[None, None])
    torch.testing.assert_close(mean[0, 1:], torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close(cov[0, 1:, 1:], 0.5 * torch.eye(2, dtype=torch.float64))
    tiny = 1e-14
    _, cov = circles(tensor(0.5)[None], tensor(tiny)[None, None])  # var(cos x) = sin² x var(x), to first order
    torch.testing.assert_close(cov[0, 1, 1] / tiny, torch.sin(tensor(0.5))[0] ** 2, rtol=1e-9, atol=0)


@pytest.mark.parametrize("kind", ["periodic kernel", "circle"])
def test_moments_match_samples_of_periodic_models_and_are_exact_for_certain_angles(kind):
    """With the period of the data and a length-scale about as long: moment matching is for angles that are known much better than these."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (40, 2))
    y = np.sin(np.pi * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.05 * rng.normal(size=40)
    near = {"kernel.0.lengthscale": LogNormal(math.log(1.3), 1e-3)}
    period = LogNormal(math.log(2.0 / X[:, 0].std()), 1e-3)
    if kind == "circle":
        kernel = SquaredExponential(dims=(1, 2), ard=False) * SquaredExponential(dims=(0,), amplitude=False)
        priors = near | {"features.period": period}
        model = ManifoldGPRegressor(Circle((0,), 1.0), kernel, averaging=Single(restarts=1, max_iter=20), priors=priors).fit(X, y)
    else:
        kernel = Periodic(dims=(0,), amplitude=False) * SquaredExponential(dims=(1,))
        model = GPRegressor(kernel, restarts=1, max_iter=20, priors=near | {"kernel.0.period": period}).fit(X, y)
    small, certain = np.array([[0.004, 0.002], [0.002, 0.02]]), np.diag([0.0, 0.2])
    assert model.predict_moments(X[:3], small).method == "samples"
    assert model.predict_moments(X[:3], certain).method == "closed form"
    for Sigma, method, error in ((small, "moment matching", 0.03), (certain, "closed form", 1e-3)):
        ours = model.predict_moments(X[:3], Sigma, method=method)
        theirs = model.predict_moments(X[:3], Sigma, method="samples", samples=2**13)
        assert ours.method == method
        std = np.sqrt(theirs.variance)
        np.testing.assert_allclose(ours.mean / std, theirs.mean / std, atol=error)
        np.testing.assert_allclose(ours.variance, theirs.variance, rtol=error)
        scale = std[:, None] * np.sqrt(np.diag(Sigma) + 1e-12)
        np.testing.assert_allclose(ours.input_covariance / scale, theirs.input_covariance / scale, atol=error)
    with pytest.raises(InputError, match="certain"):
        model.predict_moments(X[:3], small, method="closed form")


def test_what_has_no_closed_form_is_not_matched():
    model = GPRegressor("matern32", restarts=1, max_iter=5).fit(SEASON[:20, None], SEASON[:20])
    with pytest.raises(InputError, match="samples"):
        model.predict_moments(SEASON[:2, None], np.eye(1), method="moment matching")


@pytest.mark.parametrize("differences", [True, False])
def test_windows_hold_the_values_before_each_step(differences):
    values = np.stack([T**2.0, 100.0 - T], 1)[:20]
    windows = Windows((1, 3), differences, period=4.0, clock=True)
    rows, changes = windows.rows(values, 10.0 * T[:20, None])
    assert windows.length == 3 + differences
    step = 9
    past = [values[step - lag] - (values[step - lag - 1] if differences else 0) for lag in (1, 3)]
    expected = [*past[0], *past[1], np.cos(np.pi * step / 2), np.sin(np.pi * step / 2), step, 10 * step]
    np.testing.assert_allclose(rows[step - windows.length], expected, atol=1e-12)
    np.testing.assert_allclose(changes[step - windows.length], values[step] - values[step - 1])


def test_windows_with_gaps_are_left_out():
    values = SEASON.copy()[:, None]
    values[30] = np.nan
    rows, changes = Windows((1, 2), True).rows(values, None)
    assert len(rows) == len(changes) == 70 - 3 - 4
    assert np.isfinite(rows).all()


def test_a_season_with_a_trend_goes_on(fitted):
    for method in ("draws", "moments"):
        forecast = fitted.forecast(10, method=method)
        assert forecast.mean.shape == forecast.std.shape == (10,)
        assert np.abs(forecast.mean - SEASON[60:]).max() < 0.3
        lower, upper = forecast.interval(0.99).T
        assert ((lower < SEASON[60:]) & (SEASON[60:] < upper)).all()
        np.testing.assert_array_equal(forecast.times, np.arange(60, 70))


def test_the_first_step_is_the_model_s_own_prediction(fitted):
    row, _ = Windows(tuple(range(1, 9)), True).rows(SEASON[:61, None], None, first=60)
    mean, std = fitted.regressor_.predict(row, return_std=True)
    forecast = fitted.forecast(1, method="moments")
    np.testing.assert_allclose(forecast.mean, SEASON[59] + mean)
    np.testing.assert_allclose(forecast.std, std)
    drawn = fitted.forecast(1, draws=400)
    assert abs(drawn.mean[0] - forecast.mean[0]) < 5 * std[0] / np.sqrt(400)
    assert abs(drawn.std[0] / std[0] - 1) < 0.2


def test_a_linear_model_has_the_moments_of_its_recursion():
    """y_t = y_(t-1) + a (y_(t-1) - y_(t-2)) + w, w ~ N(0, s²): the joint covariance is M Mᵀ s² with M the impulse responses."""
    rng, a, s = np.random.default_rng(3), 0.6, 0.1
    changes = [0.0]
    for w in s * rng.normal(size=300):
        changes.append(a * changes[-1] + w)
    y = np.cumsum(changes)
    model = Forecaster(GPRegressor("linear", restarts=1), lags=1).fit(y)
    forecast = model.forecast(6, method="moments")
    # of the fitted model: its slope and noise
    slope = model.regressor_.predict([[1.0]])[0] - model.regressor_.predict([[0.0]])[0]
    assert abs(slope - a) < 0.15
    noise = np.sqrt(model.regressor_.predict([[0.0]], return_std=True)[1][0] ** 2)
    impulse = np.cumsum(slope ** np.arange(6))
    M = np.array([[impulse[i - j] if i >= j else 0.0 for j in range(6)] for i in range(6)])
    expected = noise**2 * M @ M.T
    np.testing.assert_allclose(forecast.covariance, expected, rtol=0.05)


def test_draws_repeat_with_their_seed_and_differ_with_another(fitted):
    first, again, other = (fitted.forecast(4, draws=5, random_state=s).draws for s in (1, 1, 2))
    assert first.shape == (5, 4)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_several_series_are_forecast_together_with_what_is_known_beforehand():
    drive = np.sign(np.sin(T / 5))
    both = np.stack([np.cumsum(0.1 * drive), np.sin(2 * np.pi * T / 8)], 1) + 0.01 * RNG.normal(size=(70, 2))
    model = Forecaster(QUICK, lags=3).fit(pd.DataFrame(both[:60], columns=["level", "wave"]), X=drive[:60])
    for method in ("draws", "moments"):
        forecast = model.forecast(5, X=drive[60:65], method=method)
        assert forecast.mean.shape == (5, 2)
        assert np.abs(forecast.mean - both[60:65]).max() < 0.25
        assert forecast.interval().shape == (5, 2, 2)
    assert list(forecast.to_frame().columns[:2]) == ["level mean", "level std"]
    assert forecast.covariance.shape == (10, 10)
    with pytest.raises(InputError, match=r"X \(5, 1\)"):
        model.forecast(5)


def test_values_and_a_learned_period_find_the_season():
    model = Forecaster(period="learned", lags=2).fit(SEASON)
    assert abs(model.period_ - 8) < 0.2
    assert len(model.lags_) == 2
    forecast = model.forecast(8, method="moments")
    assert np.abs(forecast.mean - (0.05 * np.arange(70, 78) + np.sin(2 * np.pi * np.arange(70, 78) / 8))).max() < 0.5
    assert Forecaster(period=8.0, difference=False).fit(SEASON).lags_ == tuple(range(1, 10))


def test_an_update_goes_on_as_a_longer_series_would(fitted):
    model = Forecaster(QUICK, lags=8).fit(SEASON[:60])
    before = model.forecast(1, method="moments").mean[0]
    model.update(SEASON[60:62])
    row, _ = Windows(tuple(range(1, 9)), True).rows(SEASON[:63, None], None, first=62)
    after = model.forecast(1, method="moments")
    np.testing.assert_allclose(after.mean, SEASON[61] + model.regressor_.predict(row))
    assert after.times[0] == 62
    assert before == fitted.forecast(1, method="moments").mean[0]


@pytest.mark.parametrize("index", [
    pd.date_range("2020-01-01", periods=30, freq="MS"),
    pd.period_range("2020-01", periods=30, freq="M"),
    pd.date_range("2020-01-06", periods=30, freq="W-MON"),
    pd.Index(np.arange(30) * 0.02 + 5.0),
])  # fmt: skip
def test_times_go_on(index):
    whole = pd.Series(SEASON[:30], index=index, name="level")
    model = Forecaster(QUICK, lags=4).fit(whole[:26])
    forecast = model.forecast(4, method="moments")
    numbers = index.dtype == float
    expected = pytest.approx(list(index[26:])) if numbers else list(index[26:])
    assert list(forecast.times) == expected
    assert list(forecast.to_frame().columns) == ["mean", "std", "lower", "upper"]
    after = model.update(whole[26:28]).forecast(1, method="moments").times[0]
    assert after == (pytest.approx(index[28]) if numbers else index[28])


def test_a_column_of_dates_is_the_time():
    frame = pd.DataFrame({"month": pd.date_range("2020-01-01", periods=30, freq="MS").astype(str), "level": SEASON[:30]})
    forecast = Forecaster(QUICK, lags=4).fit(frame).forecast(2, method="moments")
    assert forecast.times[0] == pd.Timestamp("2022-07-01")
    assert forecast.mean.shape == (2, 1)


def test_uneven_steps_are_refused_with_a_remedy():
    days = pd.date_range("2020-01-01", periods=30, freq="D")
    for index, remedy in (
        (days.delete(7), r"y\.resample\('D'\)"),
        (pd.Index(np.delete(np.arange(30.0), 7)), r"numpy\.interp"),
        (days[::-1], "Sort"),
    ):
        with pytest.raises(InputError, match=f"even.*{remedy}"):
            Forecaster(QUICK).fit(pd.Series(SEASON[: len(index)], index=index))
    model = Forecaster(QUICK, lags=3).fit(pd.Series(SEASON[:30], index=days))
    with pytest.raises(InputError, match="2020-01-31"):
        model.update(pd.Series(SEASON[:1], index=pd.DatetimeIndex(["2020-02-02"])))
    with pytest.raises(InputError, match="with dates"):
        model.update(SEASON[:2])


@pytest.mark.parametrize(("arguments", "words"), [
    ({"lags": 0}, "lags"), ({"lags": (1, 1)}, "lags"), ({"lags": 60}, "fewer lags"), ({"period": "yearly"}, "period"), ({"period": -2}, "period"),
    ({"difference": "auto"}, "difference"), ({"regressor": QUICK, "period": "learned"}, "Circle"),
    ({"regressor": GPRegressor(target_warping="tanh")}, "log"), ({"regressor": DeepGPRegressor()}, "DeepGPRegressor"),
])  # fmt: skip
def test_arguments_that_make_no_sense_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        Forecaster(**arguments).fit(SEASON[:60])


@pytest.mark.parametrize(
    "y", [np.arange(60).astype("datetime64[D]"), np.arange(60).astype("timedelta64[h]"), SEASON[:60] + 1j, ["a"] * 60]
)
def test_what_means_no_numbers_is_no_series(y):
    with pytest.raises(InputError, match="dates, times or durations|real numbers"):
        Forecaster(QUICK, lags=3).fit(y)
    with pytest.raises(InputError, match="dates, times or durations|real numbers"):
        Forecaster(QUICK, lags=3).fit(SEASON[:60], X=y)


def test_masked_values_of_a_series_are_missing():
    masked = np.ma.masked_array(SEASON[:60], mask=np.arange(60) == 30)
    found = Forecaster(QUICK, lags=3).fit(masked)
    assert np.isnan(found.series_.values[30])
    with pytest.raises(InputError, match="masked"):
        Forecaster(QUICK, lags=3).fit(SEASON[:60], X=masked)


def test_the_legend_covers_no_line(fitted):
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    from manifoldgp.plots import plot_forecast

    axes = plot_forecast(fitted, fitted.forecast(3, draws=20))
    axes.figure.canvas.draw()
    assert axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1


def test_forecasts_that_make_no_sense_are_refused(fitted):
    for arguments, words in (((0,), "horizon"), ((2, np.zeros((2, 1))), "no X")):
        with pytest.raises(InputError, match=words):
            fitted.forecast(*arguments)
    with pytest.raises(InputError, match="moments"):
        fitted.forecast(2, method="mean")
    with pytest.raises(InputError, match="draws no futures"):
        fitted.forecast(2, method="moments", draws=50)
    gap = SEASON[:60].copy()
    gap[-1] = np.nan
    with pytest.raises(InputError, match="missing"):
        Forecaster(QUICK, lags=3).fit(gap).forecast(2)
    with pytest.raises(InputError, match="infinite"):
        Forecaster(QUICK).fit([1.0, np.inf] * 20)


def test_a_forecaster_clones_with_its_regressor():
    model = clone(Forecaster(QUICK, lags=(1, 4), period=8.0))
    assert model.get_params()["regressor__restarts"] == 1
    assert model.lags == (1, 4)
    assert not hasattr(model, "regressor_")


@pytest.mark.parametrize(
    "index",
    [
        None,
        pd.date_range("2020-01-01", periods=60, freq="MS"),
        pd.date_range("2020-01-01", periods=60, freq="h", tz="Europe/Berlin"),
        pd.period_range("2020-01", periods=60, freq="M"),
    ],
    ids=["numbers", "dates", "zone", "periods"],
)
def test_a_file_keeps_the_forecast_and_its_times(index, fitted, tmp_path):
    y = pd.Series(SEASON[:60], index=index, name="passengers") if index is not None else SEASON[:60]
    model = fitted if index is None else Forecaster(QUICK, lags=(1, 8), period=8.0, random_state=3).fit(y)
    model.save(tmp_path / "forecaster.mgp")
    again = Forecaster.load(tmp_path / "forecaster.mgp")
    before, after = model.forecast(5, draws=20), again.forecast(5, draws=20)
    np.testing.assert_array_equal(before.mean, after.mean)
    assert (np.asarray(before.times) == np.asarray(after.times)).all()
    assert (before.names, model.lags_, model.period_) == (after.names, again.lags_, again.period_)
    assert clone(again).get_params()["regressor__restarts"] == 1
    model_mean = clone(again).fit(SEASON[:60]).forecast(3, method="moments").mean
    np.testing.assert_allclose(model_mean, clone(model).fit(SEASON[:60]).forecast(3, method="moments").mean)


def test_a_file_keeps_gaps_and_what_is_known_beforehand_and_goes_on(tmp_path):
    y, X = SEASON[:60].copy(), np.cos(T)
    y[20] = np.nan
    model = Forecaster(QUICK, lags=4).fit(y, X[:60])
    model.save(tmp_path / "forecaster.mgp")
    again = Forecaster.load(tmp_path / "forecaster.mgp")
    for one in (model, again):
        one.update(SEASON[60:64], X[60:64])
    np.testing.assert_array_equal(*(one.forecast(3, X[64:67], method="moments").mean for one in (model, again)))


def test_a_series_that_ends_beyond_all_numbers_has_no_forecast():
    model = Forecaster(QUICK, lags=3).fit(SEASON[:40])
    model.series_.values[-1] = -1e308  # as a forged file may have it
    with pytest.raises(InputError, match="grows beyond all numbers"):
        model.forecast(3, draws=5)


def test_files_of_other_models_are_refused(tmp_path):
    GPRegressor(restarts=1, max_iter=5).fit(T[:20, None], SEASON[:20]).save(tmp_path / "model.mgp")
    with pytest.raises(FileFormatError, match="no forecaster"):
        Forecaster.load(tmp_path / "model.mgp")


def in_windows(**changes):
    return {"windows": lambda found: found | changes}


def in_series(**changes):
    return {"series": lambda found: found | changes}


@pytest.mark.parametrize(("change", "words"), [
    (in_windows(lags=[1, 2, 10**9]), "windows have 1,000,000,001 values"),
    (in_windows(lags=[1, 1, 2]), "lags"), (in_windows(lags="abc"), "lags"), (in_windows(lags=10**12), "iterable"),
    (in_windows(differences=2), "neither yes nor no"), (in_windows(clock=0), "neither yes nor no"), (in_windows(period=0.0), "period"),
    ({"lags": "abc"}, "lags"), ({"lags": [2, 2]}, "lags"), ({"period": "yearly"}, "period"), ({"period": 10**400}, "too large"), ({"difference": 1}, "difference"),
    ({"random_state": "x"}, "random_state"), ({"random_state": -1}, "random_state"), ({"windows": 3}, "windows|mapping"),
    (in_series(values=[[1.0], [2.0]], times=[0.0, 1.0]), "its series 2"),
    (in_series(kind="dates", first="2026-01-01", zone=None, step="-1D"), "-1D"),
    (in_series(kind="periods", first="2026-01-01", zone=None, step="0D"), "0D"),
    (in_series(kind="dates", first="2026-01-01", zone=None, step="99999999999D"), "."),
])  # fmt: skip
def test_forged_files_are_refused_when_they_are_loaded(change, words, fitted, tmp_path):
    """And before anything of their size is made: a billion lags would take all memory."""
    fitted.save(tmp_path / "forecaster.mgp")
    header, tensors = tensor_file.read(tmp_path / "forecaster.mgp")
    kept = header["forecast"]
    header["forecast"] = kept | {name: new(kept[name]) if callable(new) else new for name, new in change.items()}
    tensor_file.write(tmp_path / "forged.mgp", header, tensors)
    with pytest.raises(FileFormatError, match=words):
        Forecaster.load(tmp_path / "forged.mgp")


def test_a_long_argument_that_was_set_after_the_fit_does_not_take_memory(fitted, tmp_path):
    model = Forecaster(QUICK, lags=8).fit(SEASON[:60]).set_params(lags=10**12)
    model.save(tmp_path / "forecaster.mgp")
    assert Forecaster.load(tmp_path / "forecaster.mgp").lags_ == fitted.lags_


def test_a_file_with_another_kind_of_regression_is_refused(fitted, tmp_path):
    fitted.save(tmp_path / "forecaster.mgp")
    plain = tensor_file.read(tmp_path / "forecaster.mgp")[0]["forecast"]
    with pytest.raises(ValueError, match="draws no functions"):
        Forecaster._from_plain(plain, object())


@pytest.mark.parametrize("arguments", [
    {"lags": range(1, 4)}, {"lags": np.array([1, 3])}, {"lags": np.int64(3)}, {"lags": 3, "random_state": np.int64(3)},
    {"lags": 3, "period": np.float64(7)}, {"lags": 3, "difference": np.bool_(True)},
], ids=str)  # fmt: skip
def test_arguments_of_numpy_are_kept_in_files(arguments, tmp_path):
    model = Forecaster(GPRegressor(restarts=1, max_iter=2), **arguments).fit(SEASON[:30])
    model.save(tmp_path / "forecaster.mgp")
    again = Forecaster.load(tmp_path / "forecaster.mgp")
    assert (again.lags_, again.period_, again.random_state) == (model.lags_, model.period_, model.random_state)
    np.testing.assert_array_equal(*(one.forecast(2, draws=3).mean for one in (model, again)))


@pytest.mark.parametrize(("freq", "zone"), [
    (pd.offsets.CustomBusinessDay(holidays=["2020-01-08", "2020-03-04"]), None), (pd.DateOffset(months=1), None), ("D", "dateutil/Europe/Berlin"),
], ids=str)  # fmt: skip
def test_times_that_no_file_can_hold_are_not_saved(freq, zone, tmp_path):
    y = pd.Series(SEASON[:30], index=pd.date_range("2020-01-06", periods=30, freq=freq, tz=zone))
    series = even_series(y)
    with pytest.raises(InputError, match="asfreq.*Europe/Berlin"):
        series.to_plain()
    named = even_series(y.set_axis(pd.date_range("2020-01-06", periods=30, freq="C", tz="Europe/Berlin")))
    again = EvenSeries.from_plain(named.to_plain())
    assert again.step == named.step
    assert (again.times == named.times).all()


def test_the_default_model_is_watched_and_a_regressor_of_ones_own_by_itself():
    series, seen = np.sin(np.arange(40) / 3), []
    Forecaster(lags=3, callback=lambda iterations, values: seen.append(len(values))).fit(series)
    assert seen
    with pytest.raises(InputError, match="Give it to the regressor"):
        Forecaster(GPRegressor(), lags=3, callback=print).fit(series)
