"""Which row of a series is named as out of step, and what is said of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from manifoldgp.data.series import even_series
from manifoldgp.errors import InputError

MONTHS = pd.date_range("2000-01-01", periods=60, freq="MS")
YEARS = pd.Index(np.linspace(2000.0, 2005.0, 61)[:-1])  # decimal years, rounded as 2000.0833333333333
OPEN = pd.date_range("2024-01-01", periods=70)
OPEN = OPEN[OPEN.day_of_week != 6]


def refusal(times):
    with pytest.raises(InputError) as told:
        even_series(pd.Series(0.0, index=times))
    return str(told.value)


@pytest.mark.parametrize(("times", "words"), [
    (MONTHS.delete(40), r"row 41 (2003-06-01) comes 2 steps after row 40 (2003-04-01). y.resample('MS').mean()"),
    (pd.date_range("2000-01-31", periods=60, freq="ME").delete(40), "row 41 (2003-06-30) comes 2 steps after row 40"),
    (pd.date_range("2000-01-01", periods=60, freq="BMS").delete(40), "row 41 (2003-06-02) comes 2 steps after row 40"),
    (pd.date_range("2000-01-01", periods=40, freq="QS").delete([20, 21]), "row 21 (2005-07-01) comes 3 steps after row 20"),
    (pd.date_range("1950-07-01", periods=60, freq="YS-JUL").delete(9), "row 10 (1960-07-01) comes 2 steps after row 9"),
    (MONTHS.where(np.arange(60) != 30, MONTHS + pd.Timedelta("16D")), "row 31 (2002-07-17) is out of step."),
    (OPEN.delete(20), "row 21 (2024-01-25) comes 2 steps after row 20 (2024-01-23)."),
    (pd.date_range("2024-01-01", periods=60, freq="h", tz="Europe/Berlin").delete(50), "row 51 (2024-01-03 03:00:00+01:00) comes 2 steps"),
    (pd.period_range("2000-01", periods=60, freq="M").delete(40), "row 41 (2003-06) comes 2 steps after row 40 (2003-04)."),
    (YEARS.delete(10), "row 11 (2000.916667) comes 2 steps after row 10 (2000.75). Add rows without a value (NaN)"),
    (YEARS.insert(60, 2000.0), "time starts again at row 61 (2000), after row 60 (2004.916667). Several series?"),
    (MONTHS.append(MONTHS), "time starts again at row 61 (2000-01-01), after row 60 (2004-12-01). Several series?"),
    (MONTHS.repeat(2), "row 2 (2000-01-01) has the time of row 1. Several series?"),
    (MONTHS.append(MONTHS[-1:]), "row 61 (2004-12-01) has the time of row 60. Keep one of them"),
    (MONTHS[[*range(30), 31, 30, *range(32, 60)]], "time goes back at row 32 (2002-07-01), after row 31 (2002-08-01). Sort"),
    (MONTHS[::-1], "the newest row stands first: row 1 (2004-12-01), row 60 (2000-01-01). Sort the rows by time."),
    (YEARS[::-1], "the newest row stands first: row 1 (2004.916667), row 60 (2000). Sort the rows by time."),
    (MONTHS.where(np.arange(60) != 7), "row 8 has no time."), (pd.DatetimeIndex(["2000-01-01", "2000-02-01"]), "2 rows do not tell which step they have."),
])  # fmt: skip
def test_the_row_that_leaves_the_step_is_named(times, words):
    """Every series of months was told that its third row is out of step: the second month has other days than most."""
    assert f"The steps of time must be even, and {words}" in refusal(times)


def test_months_on_any_day_go_on_by_months():
    times = pd.date_range("2000-01-15 12:00", periods=30, freq=pd.DateOffset(months=3))
    series = even_series(pd.Series(0.0, index=pd.DatetimeIndex(times.to_numpy())))
    assert series.following(2).strftime("%Y-%m-%d %H").tolist() == ["2007-07-15 12", "2007-10-15 12"]
    assert "is out of step" in refusal(times.where(np.arange(30) != 12, times + pd.Timedelta("9D")))
