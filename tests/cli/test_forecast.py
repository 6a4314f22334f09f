"""``mgp forecast``: a table with a series in, its next values out."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from command_line import fails, mgp
from manifoldgp.data.series import even_series, short_gaps_filled, usual_step


@pytest.fixture
def months(tmp_path, monkeypatch):
    """Five years of months with a season, as a CSV in an empty folder."""
    monkeypatch.chdir(tmp_path)
    t = np.arange(60)
    sales = (50 + 0.4 * t + 8 * np.sin(2 * np.pi * t / 12)).round(3)
    pd.DataFrame({"month": pd.date_range("2015-01-01", periods=60, freq="MS").strftime("%Y-%m-%d"), "sales": sales}).to_csv(
        "sales.csv", index=False
    )
    return tmp_path


def test_the_next_year_by_month_with_a_picture(months):
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    places = ("--out", "next.csv", "--picture", "next.png")
    settings = ("--time", "month", "--horizon", "6", "--period", "12", "--lags", "3")
    done = mgp("forecast", "sales.csv", "--target", "sales", *settings, *places, "--json")
    assert "zone" not in done.err
    table = pd.read_csv("next.csv")
    assert list(table.columns) == ["month", "mean", "std", "lower", "upper"]
    assert table["month"][0].startswith("2020-01-01")
    truth = 50 + 0.4 * np.arange(60, 66) + 8 * np.sin(2 * np.pi * np.arange(60, 66) / 12)
    assert np.abs(table["mean"] - truth).max() < 3
    assert json.loads(done.out)["period"] == 12
    assert (months / "next.png").stat().st_size > 1000


@pytest.mark.parametrize(("freq", "form", "following"), [
    ("QS", None, ["1992-Q3", "1992-Q4", "1993-Q1"]),
    ("MS", "%YM%m", ["1981M07", "1981M08", "1981M09"]),
    ("D", "%d.%m.%Y", ["01.07.1977", "02.07.1977", "03.07.1977"]),
])  # fmt: skip
def test_dates_are_written_as_the_table_does(freq, form, following, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    last = {"QS": "1992-04-01", "MS": "1981-06-01", "D": "1977-06-30"}[freq]
    dates = pd.date_range(end=last, periods=40, freq=freq)
    written = dates.strftime(form) if form else [f"{date.year}-Q{date.quarter}" for date in dates]
    pd.DataFrame({"when": written, "y": np.sin(np.arange(40.0))}).to_csv("data.csv", index=False)
    mgp("forecast", "data.csv", "--target", "y", "--time", "when", "--horizon", "3", "--lags", "2", "--out", "next.csv")
    assert pd.read_csv("next.csv")["when"].tolist() == following


@pytest.mark.parametrize(("form", "words", "following"), [
    ("%d/%m/%Y", "when is read with the day first (01/01/2000): only so its steps are even.", ["01/05/2003", "01/06/2003"]),
    ("%m/%d/%Y", "when is read with the month first (01/01/2000): only so its steps are even.", ["05/01/2003", "06/01/2003"]),
])  # fmt: skip
def test_even_steps_tell_the_day_from_the_month(form, words, following, tmp_path, monkeypatch):
    """The first days of months, in either order: "could not convert string to float" came."""
    monkeypatch.chdir(tmp_path)
    written = pd.date_range("2000-01-01", periods=40, freq="MS").strftime(form)
    table = pd.DataFrame({"when": written, "y": np.sin(np.arange(40.0))})
    table.to_csv("data.csv", index=False)
    asked = ("forecast", "data.csv", "--target", "y", "--horizon", "2", "--lags", "2", "--out", "next.csv")
    assert words in mgp(*asked, "--time", "when").err
    assert pd.read_csv("next.csv")["when"].tolist() == following
    assert "--time when goes on by it" in mgp(*asked).err
    with pytest.warns(UserWarning, match="only so its steps are even"):
        assert even_series(table).step.freqstr == "MS"


@pytest.mark.parametrize(("written", "words"), [
    ([f"01/{month:02d}/2000" for month in range(1, 13)], "day and month could be either ('01/01/2000')"),  # or twelve days of January
    ([f"0{1 + k % 3}/{1 + k:02d}/2000" for k in range(12)], "day and month could be either ('01/01/2000')"),
    ([f"{k // 60 + 8}:{k % 60:02d}" for k in range(12)], "times of day"),
    (list("abcdefghijkl"), "must be dates or numbers; the first here is 'a'"),
])  # fmt: skip
def test_times_that_nobody_can_tell_are_refused_in_words(written, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"when": written, "y": np.sin(np.arange(12.0))}).to_csv("data.csv", index=False)
    assert words in fails("forecast", "data.csv", "--target", "y", "--time", "when", "--horizon", "2")


def test_rows_that_are_counted_are_told_where_times_stand_in_the_table(months):
    done = mgp("forecast", "sales.csv", "--target", "sales", "--horizon", "2", "--lags", "2")
    assert "Rows are counted from 0. month looks like the time: --time month goes on by it." in done.err
    assert [line.split(",")[0] for line in done.out.split()] == ["step", "60", "61"]
    pd.read_csv("sales.csv").assign(month=1950.0 + np.arange(60)).to_csv("years.csv", index=False)
    done = mgp("forecast", "years.csv", "--target", "sales", "--horizon", "2", "--lags", "2", "--time", "month")
    assert "looks like" not in done.err
    assert [line.split(",")[0] for line in done.out.split()] == ["month", "2010", "2011"]


def test_uneven_times_are_brought_to_even_steps_on_request(tmp_path, monkeypatch):
    """A log has a row every 50 to 70 seconds; rows are counted from 1, as everywhere."""
    monkeypatch.chdir(tmp_path)
    seconds = np.cumsum(np.random.default_rng(0).uniform(50, 70, 80)).round()
    when = pd.Timestamp("2025-01-06 08:00") + pd.to_timedelta(seconds, unit="s")
    pd.DataFrame({"when": when, "y": np.sin(seconds / 600)}).to_csv("log.csv", index=False)
    asked = ("forecast", "log.csv", "--target", "y", "--time", "when", "--horizon", "2", "--lags", "3")
    message = fails(*asked)
    assert "row 2 (" in message
    assert "--every min takes means over even steps of dates (10s, 15min, h, D, W, MS for months)" in message
    done = mgp(*asked, "--every", "2min")
    assert "80 rows become 41 steps of 2min." in done.err
    first = pd.Timestamp(done.out.splitlines()[1].split(",")[0])
    assert first == when[-1].floor("2min") + pd.Timedelta("2min")
    assert "--time" in fails("forecast", "log.csv", "--target", "y", "--horizon", "2", "--every", "2min", code=2)
    for wrong in ("quick", "0h", "-1h"):
        assert f"got '{wrong}'" in fails(*asked, "--every", wrong, code=2)
    pd.read_csv("log.csv").astype({"y": str}).replace({"y": {pd.read_csv("log.csv")["y"].astype(str)[4]: "soon"}}).to_csv(
        "text.csv", index=False
    )
    assert "'soon' (row 5)" in fails("forecast", "text.csv", *asked[2:], "--every", "2min")


def test_dates_with_a_time_zone_are_told_to_be_in_utc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    when = pd.date_range("2026-03-28", periods=48, freq="h", tz="Europe/Berlin")
    pd.DataFrame({"when": [time.isoformat() for time in when], "y": np.sin(np.arange(48.0) / 4)}).to_csv("log.csv", index=False)
    done = mgp("forecast", "log.csv", "--target", "y", "--time", "when", "--horizon", "2", "--lags", "2")
    assert "when has a time zone: its dates are taken and written in UTC." in done.err
    first = done.out.splitlines()[1].split(",")[0]
    assert first.endswith("+00:00")
    assert pd.Timestamp(first) == when[-1] + pd.Timedelta("1h")


def test_a_value_that_stands_for_nothing_is_told(months):
    table = pd.read_csv("sales.csv")
    table.loc[[5, 17], "sales"] = -999.9
    table.to_csv("gaps.csv", index=False)
    told = mgp("forecast", "gaps.csv", "--target", "sales", "--horizon", "2", "--out", "next.csv").err
    assert "warning: -999.9 (2 rows of sales) lies far from all other values there" in told


def test_the_time_of_the_draws_is_told_beside_that_of_the_training(months):
    """Three seconds were announced, and it took twenty: functions are drawn for longer than the model is trained."""
    told = mgp("forecast", "sales.csv", "--target", "sales", "--horizon", "2", "--lags", "2", "--out", "next.csv").err
    assert re.search(r"^Training on 60 values: (about \d+ s|a second or less)", told, re.MULTILINE)
    assert re.search(r"^Drawing 300 futures of 2 steps: (about \d+ s|a second or less)$", told, re.MULTILINE)


def test_uneven_numbers_are_not_advised_to_go_by_dates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"t": np.arange(30.0) ** 1.5, "y": np.arange(30.0)}).to_csv("log.csv", index=False)
    message = fails("forecast", "log.csv", "--target", "y", "--time", "t", "--horizon", "2")
    assert "numpy.interp at even times" in message
    assert "--every" not in message


@pytest.mark.parametrize(("arguments", "code", "words"), [
    (("--target", "sale"), 1, "no column 'sale'"),
    (("--target", "sales", "--period", "year"), 2, "learned"),
    (("--target", "sales", "--json"), 2, "--out"), (("--target", "sales", "--picture", "next.csv"), 2, ".png, .svg or .pdf"),
    (("--target", "sales", "--picture", "nowhere/next.png"), 1, "does not exist"),
])  # fmt: skip
def test_what_makes_no_sense_is_told_in_one_line(months, arguments, code, words):
    assert words in fails("forecast", "sales.csv", "--horizon", "3", *arguments, code=code)


def test_a_log_of_some_weekdays_goes_on_by_weekdays(tmp_path, monkeypatch):
    """A bakery that is closed on Sundays and some days more: rows were counted, weekdays lost, and bands of two weeks ahead were as wide as twice the spread of all sales."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=200, freq="D")
    usual = np.array([60, 65, 70, 72, 95, 140, 0])[days.day_of_week]
    sold = pd.DataFrame({"date": days.strftime("%Y-%m-%d"), "sales": (usual + 5 * rng.normal(size=200)).round(1)})
    sold[(days.day_of_week != 6) & (rng.uniform(size=200) > 0.05)].to_csv("sales.csv", index=False)
    asked = ("forecast", "sales.csv", "-t", "sales", "-n", "12", "--out", "next.csv")
    told = mgp(*asked).err
    assert "date has uneven steps" in told
    assert "--time date --every D goes by the dates." in told
    counted = pd.read_csv("next.csv")["std"]
    told = mgp(*asked, "--time", "date", "--every", "D").err
    assert "Nothing was recorded on any Sunday: these days are no steps." in told
    assert re.search(r"(\d+) of them without a value \(\1 filled in from those around them\)", told)
    found = pd.read_csv("next.csv")
    dates = pd.DatetimeIndex(found["date"])
    assert 6 not in dates.day_of_week
    truth = np.array([60, 65, 70, 72, 95, 140, 0])[dates.day_of_week]
    assert np.abs(found["mean"] - truth).max() < 12
    assert found["std"].max() < 15 < counted.max()


def test_long_gaps_stay_empty():
    values = pd.DataFrame({"y": np.arange(20.0)}, index=pd.date_range("2024-01-01", periods=20, freq="D"))
    values.iloc[[3, 8, 9, 10, 11, 19]] = np.nan
    found = short_gaps_filled(values, None)["y"]
    assert found.iloc[3] == 3.0
    assert found.isna().to_numpy().nonzero()[0].tolist() == [8, 9, 10, 11, 19]  # a long one, and the end
    assert np.isnan(short_gaps_filled(values, 2)["y"].iloc[19])


@pytest.mark.parametrize("missing", [1, 2, 15, 16, 27, 28])
@pytest.mark.parametrize("turn", [None, 7, 8, 12])
def test_a_short_gap_in_a_line_is_filled_with_the_line(missing, turn):
    """Near either end one turn before or after alone stood in it: 500 between 560 and 580."""
    line = pd.DataFrame({"y": 10.0 * np.arange(30)}, index=pd.date_range("2024-01-01", periods=30, freq="D"))
    found = short_gaps_filled(line.mask(line == 10.0 * missing), turn)
    np.testing.assert_allclose(found, line, rtol=1e-12)


@pytest.mark.parametrize("missing", [4, 5, 75, 200, 396])
def test_a_short_gap_is_filled_with_the_ups_and_downs_of_its_turn(missing):
    """Those of a year's beginning, not of its mean, where they grow."""
    days = np.arange(400)
    sold = pd.DataFrame({"y": (1.0 + days / 200) * np.array([60, 65, 70, 72, 95, 140, 80])[days % 7] + days})
    found = short_gaps_filled(sold.drop(missing).reindex(days), 7)
    np.testing.assert_allclose(found, sold, rtol=0.04)


def test_no_tenth_of_a_series_is_invented(tmp_path, monkeypatch):
    """A log of every third day had become one of every day, two thirds of it invented."""
    monkeypatch.chdir(tmp_path)
    log = pd.DataFrame({"y": np.where(np.arange(60) % 3, np.nan, np.arange(60.0))}, index=pd.date_range("2024-01-01", periods=60))
    pd.testing.assert_frame_equal(short_gaps_filled(log, 7), log)
    log.dropna().rename_axis("date").to_csv("log.csv")
    asked = ("forecast", "log.csv", "-t", "y", "-n", "2", "--time", "date", "--every", "D")
    told = mgp(*asked, code=1).err
    assert "20 rows become 58 steps of D, 38 of them without a value: a longer step than D leaves fewer." in told


@pytest.mark.parametrize(
    ("step", "days"), [("YS", 40), ("QS", 20), ("MS", 9), ("W", 2), ("3D", 0.9), ("D", 0.3), ("10min", 0.002)]
)
def test_uneven_dates_go_by_the_step_that_they_were_recorded_at(step, days):
    """Months with uneven days were advised to go by weeks, four of five without a value."""
    late = pd.to_timedelta(np.random.default_rng(0).uniform(0, days, 60), "D").round("s")
    assert usual_step(pd.Series(pd.date_range("2015-01-01", periods=60, freq=step) + late)) == step


def test_dates_that_no_step_fits_are_advised_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bursts = [pd.date_range(f"2024-01-{day:02}", periods=10, freq="min") for day in range(1, 7)]
    times = pd.Series(np.concatenate(bursts))
    assert usual_step(times) is None
    assert usual_step(times[:1]) is None
    pd.DataFrame({"date": times, "y": np.arange(60.0)}).to_csv("log.csv", index=False)
    told = mgp("forecast", "log.csv", "-t", "y", "-n", "1", "--lags", "1").err
    assert "date has uneven steps" in told
    assert "--every" not in told
