"""Columns of months and quarters, in the ways that tables write them; and numbers that look like months and are none."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import manifoldgp
from command_line import mgp
from manifoldgp.data.columns import Column, learn_column
from manifoldgp.data.dates import written_like
from manifoldgp.data.table_files import read_table, read_tables

DAYS = pd.date_range("1999-01-01", periods=30, freq="MS")
GERMAN = ["Jän", "Feb", "Mär", "Apr", "Mai", "Jun", "Jul", "Aug", "Sep", "Okt", "Nov", "Dez"]
IN_FULL = ["Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November", "Dezember"]
MONTHS: dict[str, Callable[[pd.Timestamp], str]] = {
    "01.2000": lambda d: f"{d:%m.%Y}",
    "01/2000": lambda d: f"{d:%m/%Y}",
    "1/2000": lambda d: f"{d.month}/{d.year}",
    "01-2000": lambda d: f"{d:%m-%Y}",
    "2000/01": lambda d: f"{d:%Y/%m}",
    "2000M1": lambda d: f"{d.year}M{d.month}",
    "Jan 2000": lambda d: f"{d:%b %Y}",
    "Jan/2000": lambda d: f"{d:%b/%Y}",
    "2000 Jan": lambda d: f"{d:%Y %b}",
    "Jän 2000": lambda d: f"{GERMAN[d.month - 1]} {d.year}",
    "Jan. 2000": lambda d: f"{GERMAN[d.month - 1].replace('ä', 'a')}. {d.year}",
    "Januar 2000": lambda d: f"{IN_FULL[d.month - 1]} {d.year}",
    "1. Januar 2000": lambda d: f"{d.day}. {IN_FULL[d.month - 1]} {d.year}",
}
QUARTERS: dict[str, Callable[[pd.Timestamp], str]] = {
    "2000Q1": lambda d: f"{d.year}Q{d.quarter}",
    "Q1 2000": lambda d: f"Q{d.quarter} {d.year}",
    "1Q2000": lambda d: f"{d.quarter}Q{d.year}",
    "1. Quartal 2000": lambda d: f"{d.quarter}. Quartal {d.year}",
}


def written(column: list[str], separator: str = ",", name: str = "t.csv") -> None:
    """A table with a column of months, whole numbers and a few decimals."""
    sign = "." if separator == "," else ","
    rows = [separator.join((cell, str(1250 + 7 * k), f"{k / 4:g}".replace(".", sign))) for k, cell in enumerate(column)]
    with open(name, "w", encoding="utf-8") as file:
        file.write("\n".join([separator.join(("month", "sold", "load")), *rows]))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def days(column: Column, values: pd.Series) -> list[float]:
    return column.numbers(values)[:, 0].tolist()


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("form", MONTHS)
def test_months_are_dates(form, separator):
    """01.2000 was the number 1.2, ten months before 10.2000, which was 10.2; 01/2000 was left out as a name of its row."""
    written(list(map(MONTHS[form], DAYS)), separator)
    read = read_table("t.csv")
    assert days(learn_column("month", read["month"]), read["month"]) == (DAYS - DAYS[0]).days.tolist()
    np.testing.assert_array_equal(read["load"], np.arange(30) / 4)
    assert read["sold"].tolist() == [1250 + 7 * k for k in range(30)]


@pytest.mark.parametrize("form", QUARTERS)
def test_quarters_are_dates(form):
    starts = DAYS[::3]
    written(list(map(QUARTERS[form], starts)))
    read = read_table("t.csv")
    assert days(learn_column("month", read["month"]), read["month"]) == (starts - starts[0]).days.tolist()


@pytest.mark.parametrize("cells", [
    ["12.1999", "11.2000", "10.1850"],  # no zero in front
    ["01.2000", "02.2000", "02.25"],
    ["01.2000", "02.2000", "13.2000"],
    ["1.2000", "2.2000", "12.1999"],
    ["01.2000", "2.2000", "12.1999"],
    ["01.2500", "02.2000", "12.1999"],
])  # fmt: skip
def test_numbers_that_look_like_months_stay_numbers(cells):
    written(cells * 3)
    assert read_table("t.csv")["month"].tolist() == [float(cell) for cell in cells * 3]


def test_months_in_an_excel_file_and_beside_gaps_and_a_total_are_read():
    pytest.importorskip("openpyxl")
    cells = [MONTHS["01.2000"](day) for day in DAYS]
    table = pd.DataFrame({"month": cells, "sold": range(30), "load": np.arange(30) / 4})
    table.to_excel("t.xlsx", index=False)
    assert read_table("t.xlsx")["month"].tolist() == cells
    table.loc[3, "month"] = "?"
    table.loc[30] = ["Summe", table["sold"].sum(), table["load"].sum()]
    table.to_csv("t.csv", index=False)
    with pytest.warns(manifoldgp.errors.FitWarning, match="Summe"):
        read = read_table("t.csv")
    assert read["month"].drop(3).tolist() == cells[:3] + cells[4:]
    assert read["month"].isna()[3]


def test_a_model_of_months_reads_those_that_look_like_numbers():
    """October to December alone have no zero in front, and stand in a file as numbers."""
    written([MONTHS["01.2000"](day) for day in DAYS])
    told = mgp("fit", "t.csv", "-t", "load", "--averaging", "plain", "--out", "m.mgp").err
    assert "month: dates written with the month and year, become month [days]" in told
    written(["10.2001", "11.2001", "12.2001"], name="new.csv")
    assert read_table("new.csv")["month"].tolist() == [10.2001, 11.2001, 12.2001]
    found = pd.read_csv(io.StringIO(mgp("predict", "m.mgp", "new.csv").out))
    expected = manifoldgp.load("m.mgp").predict(
        pd.DataFrame({"month": ["2001-10", "2001-11-01", "Dec 2001"], "sold": [1250, 1257, 1264]})
    )
    np.testing.assert_allclose(found["mean"], expected, atol=1e-4)
    column = manifoldgp.load("m.mgp").table_encoding_.columns[0]
    assert column.unreadable(pd.Series([10.2001, 10.5, 13.2, 0.2])).tolist() == [False, True, True, True]
    mixed = pd.Series(["01.2000", "31.12.2000", "2001-03-04"])
    assert not column.unreadable(mixed).any()
    assert column.unreadable(pd.Series(["01/02/2000"])).all()  # as without these months
    written([MONTHS["01.2000"](day) for day in DAYS[:12]], name="0.csv")
    assert read_tables(["0.csv", "new.csv"])["month"].tolist()[-3:] == ["10.2001", "11.2001", "12.2001"]


def test_a_frame_of_such_texts_alone_is_not_taken_for_numbers():
    """NumPy makes a number of each of them."""
    texts = pd.DataFrame({"month": [MONTHS["01.2000"](day) for day in DAYS]})
    model = manifoldgp.GPRegressor(restarts=1, max_iter=3).fit(texts, np.sin(np.arange(30.0)))
    assert list(model.feature_names_in_) == ["month [days]"]


@pytest.mark.parametrize(("like", "expected"), [
    (["11.1999", "09.1999"], "04.2000"), (["9/1999", "11/1999"], "4/2000"), (["09/1999", "11/1999"], "04/2000"), (["3. Quartal 1999"], "2. Quartal 2000"),
])  # fmt: skip
def test_the_next_months_are_written_like_those_before(like, expected):
    assert written_like(pd.Series(["2000-04-01"]), pd.Series(like)).tolist() == [expected]
