"""Totals and means below a table: no command takes them for rows of their own."""

from __future__ import annotations

import io
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import manifoldgp
from command_line import fails, mgp
from manifoldgp.cli._messages import Messages
from manifoldgp.cli.report import _test_rows
from manifoldgp.data.decimal_signs import KnownSigns
from manifoldgp.data.number_columns import Reading, signs_of
from manifoldgp.data.summary_rows import summary_rows
from manifoldgp.data.table_files import read_table, read_tables
from manifoldgp.errors import FitWarning

FAST = ("--averaging", "single", "--restarts", "1", "--max-iter", "5")
OUT = "of the rows above, and is left out."


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def cars(rows: int = 30) -> pd.DataFrame:
    """A table whose last column is a ratio, which nobody sums up, as is its category."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "car": [f"p{k}" for k in range(rows)],
        "gear": rng.choice(["hand", "auto"], rows),
        "hp": rng.integers(60, 300, rows),
        "wt": rng.normal(2, 0.3, rows).round(3),
        "ratio": rng.normal(50, 9, rows).round(2),
    })  # fmt: skip
    return table.assign(mpg=(30 - 0.05 * table["hp"] - 2 * table["wt"]).round(1))


def with_rows(table: pd.DataFrame, *below: dict[str, object]) -> pd.DataFrame:
    return pd.concat([table, pd.DataFrame(below, columns=table.columns)], ignore_index=True)


def summed(table: pd.DataFrame, name: str = "Total", without: tuple[str, ...] = ("ratio",)) -> dict[str, object]:
    return {"car": name, **table[["hp", "wt", "ratio", "mpg"]].sum().round(3).drop(list(without))}


def remarks(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The table as it is read from a file, and what is said about its end."""
    table.to_csv("t.csv", index=False)
    with Messages(quiet=True).warnings_as_messages(), pytest.MonkeyPatch.context() as patch:
        told: list[str] = []
        patch.setattr(Messages, "warn", lambda self, text: told.append(text))
        read = read_table("t.csv")
    return read, told


def test_sums_and_means_below_a_table_are_left_out_and_told():
    """A total was trained on like any other row; it has a word in the first cell and numbers in all others."""
    rows = cars().drop(columns="gear")
    numbers = rows.drop(columns="car")
    below = [{"car": "Total", **numbers.sum()}, {"car": "Mean", **numbers.mean().round(2)}]
    with_rows(rows, *below).to_csv("data.csv", index=False)
    said = "warning: Rows 31, 32 at the end of data.csv (Total, Mean) hold sums or means of the rows above, and are left out."
    assert said in mgp("fit", "data.csv", "-t", "mpg", "--out", "m.mgp", *FAST).err
    assert manifoldgp.load("m.mgp").ensembles_[0].blocks[0].rows == 30
    told = mgp("score", "m.mgp", "data.csv").err
    assert said in told
    assert "The model was fitted to these rows" in told
    rows.to_csv("data.csv", index=False)
    assert "sums or means" not in mgp("fit", "data.csv", "-t", "mpg", "--out", "m.mgp", *FAST).err
    assert "sums or means" not in mgp("score", "m.mgp", "data.csv").err


def test_a_total_is_found_among_rows_without_target():
    """One row without a target was enough for the total to be trained on: it was left out before the sums were taken."""
    rows = cars().astype({"mpg": float})
    rows.loc[[3, 7], "mpg"] = np.nan
    with_rows(rows, summed(rows)).to_csv("data.csv", index=False)
    told = mgp("fit", "data.csv", "-t", "mpg", "--missing", "impute", "--out", "m.mgp", *FAST).err
    assert f"Row 31 at the end of data.csv (Total) holds sums or means {OUT}" in told
    assert "2 of 30 rows have no target" in told
    assert manifoldgp.load("m.mgp").ensembles_[0].blocks[0].rows == 28


@pytest.mark.parametrize("missing", ["error", "impute"])
@pytest.mark.parametrize("without", [(), ("ratio",), ("ratio", "mpg"), ("ratio", "mpg", "wt")])
def test_a_total_with_empty_cells_is_left_out_and_refused_for_nothing(missing, without):
    """A ratio has no sum, and a category none either: the row was trained on with --missing impute, and without it the table was refused for its gaps."""
    rows = cars()
    with_rows(rows, summed(rows, without=without)).to_csv("data.csv", index=False)
    told = mgp("fit", "data.csv", "-t", "mpg", "--missing", missing, "--out", "m.mgp", *FAST).err
    assert f"Row 31 at the end of data.csv (Total) holds sums or means {OUT}" in told
    assert "30 rows; inputs" in told
    assert "missing" not in told
    assert "no target" not in told


@pytest.mark.parametrize("how", ["rounded", "copies", "other rows", "averages beside"])
def test_a_row_that_is_called_a_total_and_is_about_one_is_left_out(how):
    rows = cars()
    total: dict[str, object]
    if how == "rounded":
        total = summed(rows) | {"hp": round(rows["hp"].sum(), -2)}
    elif how == "copies":
        total = summed(rows)
        rows = pd.concat([rows, rows.iloc[:1]], ignore_index=True)
    elif how == "other rows":
        total, rows = summed(rows), rows.iloc[:12]
    else:
        total = summed(rows) | {"ratio": rows["ratio"].mean().round(1)}
    read, told = remarks(with_rows(rows, total))
    assert len(read) == len(rows)
    assert told == [f"Row {len(rows) + 1} at the end of t.csv (Total) holds sums or means {OUT}"]


def test_a_row_that_is_called_a_total_and_is_none_is_told():
    """Nothing was said of a row with the name Summe whose numbers are others."""
    rows = cars()
    read, told = remarks(with_rows(rows, {**rows.iloc[3].to_dict(), "car": "Summe:"}))
    assert len(read) == 31
    assert told == [
        "Row 31 at the end of t.csv is called 'Summe:', and is kept, as its numbers are neither sums nor means of the rows above. Remove it from the table if it is no row of its own."
    ]
    cereal = {**rows.iloc[3].to_dict(), "car": "Total Raisin Bran"}
    for row in (cereal, rows.iloc[3].to_dict(), {**cereal, "car": "totally"}):
        assert remarks(with_rows(rows, row))[1] == []
    assert (
        remarks(with_rows(rows.replace({"car": {"p3": "total"}}), {**cereal, "car": "total"}))[1] == []
    )  # a row above has it, too


def test_other_statistics_go_with_a_mean_beside_them():
    rows, numbers = cars(), ["hp", "wt", "mpg"]
    each = {"Mean": rows[numbers].mean().round(2), "SD": rows[numbers].std().round(2), "n": rows[numbers].count()}
    read, told = remarks(with_rows(rows, *({"car": name, **values} for name, values in each.items())))
    assert len(read) == 30
    assert "(Mean, SD, n) hold sums or means" in told[0]
    for row in (rows.iloc[3], rows[numbers].mean().round()):  # an answer, yes or no, say
        assert remarks(with_rows(rows, {**row.to_dict(), "car": "n"}))[1] == []


def test_what_a_total_did_to_its_columns_is_undone():
    """A word among numbers made texts of them, and an empty cell made fractions of whole numbers and texts of true and false."""
    rows = cars().assign(flag=[True, False] * 15, year=range(1990, 2020), price="1.250,50 €")
    rows.loc[::2, "price"] = "999,00 €"
    table = with_rows(rows, {"year": "Summe", "hp": rows["hp"].sum(), "mpg": f"{rows['mpg'].sum():.1f}"})
    table["mpg"] = table["mpg"].astype(str).str.replace(".", ",")
    table.drop(columns=["wt", "ratio"]).to_csv("t.csv", index=False, sep=";")
    with pytest.warns(FitWarning, match=r"Row 31 at the end of t.csv \(Summe\) holds"), pytest.warns(FitWarning, match="read as"):
        read = read_table("t.csv")
    kinds = {name: kind.kind for name, kind in read.dtypes.items()}
    assert {name: kinds[name] for name in ("hp", "flag", "year", "price", "mpg")} == {
        "hp": "i", "flag": "b", "year": "i", "price": "f", "mpg": "f",
    }  # fmt: skip
    assert read.attrs["units"] == {"price": "€"}


@pytest.mark.parametrize("like", [None, Reading({"km": "", "price": "€"}, KnownSigns(","))])
def test_a_total_changes_no_decimal_signs(like):
    """Texts became numbers with points before a total was left out, and 1.125 was then read as 1125 where the table has decimal commas."""
    rows = [f"{k},125;{2 + k}.250,5 €" for k in range(12)]
    Path("t.csv").write_text("\n".join(["km;price", *rows, "Summe;61.500 €"]), "utf-8")
    with pytest.warns(FitWarning) as told:
        read = read_table("t.csv", like=like)
    assert [str(line.message) for line in told] == [
        "Texts in t.csv are read as numbers: price ('2.250,5 €' is 2250.5).",
        "Row 13 at the end of t.csv (Summe) holds sums or means of the rows above, and is left out.",
    ]
    assert read["km"].tolist() == [k + 0.125 for k in range(12)]
    assert read["price"].tolist() == [2250.5 + 1000 * k for k in range(12)]
    assert read.attrs["units"] == {"price": "€"}
    assert signs_of(read) == KnownSigns(",", (("km", ","), ("price", ",")))


def test_rows_below_a_mean_that_is_left_out_are_counted_on():
    """The row below it, which is kept, had a number beyond their count."""
    rows = cars().drop(columns="gear")
    means = rows.drop(columns="car").mean().round(3)
    read, told = remarks(with_rows(rows, {"car": "Mean", **means}, {"car": "p31", **means}))
    assert "and is left out" in told[0]
    assert "and is kept" in told[1]
    assert read.index.tolist() == list(range(31))


def test_every_file_of_several_may_end_in_a_total():
    rows = cars()
    for k, part in enumerate((rows[:15], rows[15:])):
        with_rows(part, summed(part)).to_csv(f"{k}.csv", index=False)
    with (
        pytest.warns(FitWarning, match="Row 16 at the end of 0.csv"),
        pytest.warns(FitWarning, match="Row 16 at the end of 1.csv"),
    ):
        read = read_tables(["0.csv", "1.csv"])
    assert read["car"].tolist() == rows["car"].tolist()


def test_a_total_is_not_predicted():
    """There is one row for each row of the table, and it says why it is empty."""
    rows = cars()
    rows.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "-t", "mpg", "--out", "m.mgp", *FAST)
    with_rows(rows, summed(rows, without=())).assign(gear="hand").to_csv("new.csv", index=False)
    done = mgp("predict", "m.mgp", "new.csv")
    assert "1 of 31 rows cannot be predicted (row 31); the first: it holds sums or means of the rows above." in done.err
    found = pd.read_csv(io.StringIO(done.out))
    assert found["mean"].isna().tolist() == [False] * 30 + [True]
    assert found["reason"].iloc[-1] == "it holds sums or means of the rows above"


def test_a_comparison_leaves_totals_out():
    rows = cars()
    with_rows(rows, summed(rows)).to_csv("data.csv", index=False)
    done = mgp("compare", "data.csv", "-t", "mpg", "--models", "mean,linear", "--json")
    assert f"(Total) holds sums or means {OUT}" in done.err
    assert '"rows": 30' in done.out


def test_a_total_without_any_row_is_no_table():
    cars(1).to_csv("data.csv", index=False)
    assert "sums" not in fails("fit", "data.csv", "-t", "mpg", "--out", "m.mgp", *FAST)


def test_ordinary_rows_are_no_sums():
    rng = np.random.default_rng(0)
    tables = [rng.integers(0, 5, (rng.integers(4, 30), rng.integers(2, 6))).astype(float) for _ in range(500)]
    tables += [rng.normal(size=(rng.integers(2, 12), 3)).round(1) for _ in range(500)]
    tables += [np.where(rng.random(A.shape) < 0.6, np.nan, A) for A in tables]
    assert not any(any(summary_rows(pd.DataFrame(A))) for A in tables)


def test_the_rows_of_a_report_leave_out_sums_as_those_of_a_score():
    """R² by a total, and a picture with one point far from all others."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(10, 2, (30, 3)).round(2), columns=["x", "z", "y"])
    rows.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "-t", "y", "--out", "m.mgp", *FAST)
    rows.loc[30] = rows.sum().round(2)
    rows.to_csv("new.csv", index=False)
    with Messages().warnings_as_messages():
        X, y, numbers, _ = _test_rows(manifoldgp.load("m.mgp"), "new.csv", False, Messages())
    assert len(X) == len(y) == 30
    assert numbers.tolist() == list(range(1, 31))


@pytest.mark.parametrize("seed", range(5))
def test_a_centre_point_is_kept_and_told(seed):
    """It is the mean of a factorial design in every input, and its response is near that of the others: a fifth of them and more were left out."""
    rng = np.random.default_rng(seed)
    design = pd.DataFrame([*itertools.product((20, 40), (1.0, 2.0), (10, 50)), (30, 1.5, 30)], columns=["temp", "press", "time"])
    effect = (design - design.iloc[-1]) @ [0.5, 8.0, 0.2]
    design["yield"] = (60 + effect + rng.normal(0, 0.3, 9)).round()
    design.loc[8, "yield"] = design["yield"][:8].mean().round()
    design.to_csv("doe.csv", index=False)
    found = summary_rows(design)
    assert (found.rows, found.means) == ((), (8,))
    if seed == 0:
        told = mgp("fit", "doe.csv", "-t", "yield", "--out", "m.mgp", *FAST).err
        assert "Row 9 at the end of doe.csv holds means of all rows above, and is kept" in told
        assert "If nothing was measured there, remove this row from the table." in told
        assert manifoldgp.load("m.mgp").ensembles_[0].blocks[0].rows == 9


def test_a_mean_below_a_centre_point_is_left_out_and_the_point_is_kept():
    design = pd.DataFrame([*itertools.product((20, 40), (1.0, 2.0), (10, 50)), (30, 1.5, 30)], columns=["temp", "press", "time"])
    design = design.assign(run=[f"r{k}" for k in range(9)], y=[60.1, 61.3, 59.2, 62.4, 60.8, 61.9, 58.7, 63.2, 60.95])
    found = summary_rows(with_rows(design, {"run": "Mean", **design.drop(columns="run").mean().round(2)}))
    assert (found.rows, found.means) == ((9,), (8,))


@pytest.mark.parametrize(("last", "certain"), [
    ("Mittelwert:", True), ("mean of all", True), (None, True), ("p7", False), ("meant", False), ("total", False),
])  # fmt: skip
def test_means_are_left_out_where_their_row_says_that_it_is_none(last, certain):
    """By a word that no other row has, or by an empty cell where no other row has one."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"what": ["total"] + [f"p{k % 9}" for k in range(29)], "x": rng.normal(10, 2, 30).round(2)})
    rows["y"] = (3 * rows["x"]).round(2)
    rows.loc[30] = [last, *rows[["x", "y"]].mean().round(2)]
    found = summary_rows(rows)
    assert (found.rows, found.means) == (((30,), ()) if certain else ((), (30,)))
    rows.loc[4, "what"] = None
    assert bool(summary_rows(rows).rows) == (certain and last is not None)


def test_means_below_dates_are_left_out():
    rows = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=20), "x": np.arange(20.0) ** 2, "y": np.arange(20.0)})
    rows.loc[20] = [pd.NaT, *rows[["x", "y"]].mean()]
    assert summary_rows(rows).rows == (20,)
    assert summary_rows(rows[["day", "x"]]).rows == (20,)


def test_empty_rows_around_a_total_and_numbers_of_rows_do_not_hide_it():
    """A spreadsheet leaves a line free above its totals, and rows below them that only look used; a program goes on numbering the rows."""
    rows = cars()
    total = summed(rows)
    assert summary_rows(with_rows(rows, {}, total, {})).rows == (31,)
    numbered = with_rows(rows, total).drop(columns=["car", "gear"])
    assert summary_rows(numbered.assign(nr=range(1, 32))).rows == (30,)
    assert summary_rows(numbered.assign(**{"Unnamed: 0": [*range(30), 0]})).rows == (30,)
    assert summary_rows(numbered.assign(other=[*range(30), 7])) == summary_rows(rows)


def test_columns_without_numbers_above_a_last_row_are_told_nothing_of():
    """Degrees of freedom <= 0 stood in the terminal: warnings are errors here."""

    def found(A: np.ndarray) -> tuple[int, ...]:
        return summary_rows(pd.DataFrame(A)).rows

    x = np.random.default_rng(0).normal(size=10)
    assert found(np.c_[x, np.r_[np.full(9, np.nan), 1.0]]) == ()
    assert found(np.c_[x, np.r_[np.inf, np.ones(9)]]) == ()
    assert found(np.c_[1e308 * x, x]) == ()
    assert found(np.zeros((0, 2))) == ()
    known = np.c_[x.round(2), x.round(1) + 1, np.r_[np.inf, np.nan, np.arange(8.0)]]
    assert found(np.r_[known, [[*known[:, :2].sum(0), 28.0]]]) == (10,)


def test_ordinary_rows_are_told_from_sums_by_their_first_columns(monkeypatch):
    """Moments of the whole table were computed up to ten times: a second for half a million rows."""
    seen = []
    monkeypatch.setattr("manifoldgp.data.summary_rows._last_digit", lambda value: seen.append(value) or 1e-4)
    assert summary_rows(pd.DataFrame(np.random.default_rng(0).normal(size=(50, 1000)))).rows == ()
    assert 0 < len(seen) < 20


def test_a_total_in_an_excel_file_is_left_out():
    """The sum of a formula has rounding errors, and the ratio's cell is empty."""
    pytest.importorskip("openpyxl")
    rows = cars()
    rows["wt"] += 0.1
    with_rows(rows, {**summed(rows), "wt": sum(rows["wt"].tolist())}).to_excel("t.xlsx", index=False)
    with pytest.warns(FitWarning, match=re.escape(f"Row 31 at the end of t.xlsx (Total) holds sums or means {OUT}")):
        assert len(read_table("t.xlsx")) == 30


@pytest.mark.parametrize("other", [
    "Std. dev.", "St. Dev.", "Standard deviation", "std. deviation", "S.D.", "Stdabw.", "Standardabweichung", "SE", "Std. error", "CV", "Variance",
    "Varianz", "Range", "Q1", "Q3", "25%",
])  # fmt: skip
@pytest.mark.parametrize("first", ["Mean", "Total"])
def test_other_statistics_below_a_mean_hide_neither_it_nor_themselves(first, other):
    """A last row with a word that was not known made the rows above it ordinary ones, and they were trained on, in silence."""
    rows, numbers = cars(), ["hp", "wt", "mpg"]
    above = rows[numbers].mean().round(2) if first == "Mean" else rows[numbers].sum().round(3)
    read, told = remarks(with_rows(rows, {"car": first, **above}, {"car": other, **rows[numbers].std().round(2)}))
    assert len(read) == 30
    assert told == [f"Rows 31, 32 at the end of t.csv ({first}, {other}) hold sums or means of the rows above, and are left out."]


def test_all_rows_of_a_description_are_left_out():
    rows, numbers = cars(), ["hp", "wt", "mpg"]
    below = rows[numbers].describe().rename_axis("car").reset_index()
    assert summary_rows(pd.concat([rows, below], ignore_index=True)).rows == tuple(range(30, 38))


def test_a_row_below_a_mean_that_is_none_hides_it_not_and_is_told():
    rows, numbers = cars(), ["hp", "wt", "mpg"]
    mean = {"car": "Mean", **rows[numbers].mean().round(2)}
    read, told = remarks(with_rows(rows, mean, {**rows.iloc[3].to_dict(), "car": "Gini"}))
    assert read["car"].tolist()[-2:] == ["p29", "Gini"]
    assert "Row 31 at the end of t.csv (Mean) holds" in told[0]
    assert "Row 32 at the end of t.csv is called 'Gini', and is kept" in told[1]


def test_a_row_that_is_called_a_total_is_told_above_others_too():
    rows = cars()
    total = {**rows.iloc[3].to_dict(), "car": "Total"}
    read, told = remarks(with_rows(rows, total, {**total, "car": "x"}, {**total, "car": "y"}))
    assert len(read) == 33
    assert len(told) == 1
    assert "Row 31 at the end of t.csv is called 'Total', and is kept" in told[0]
    rows.loc[29, "car"] = "n"
    assert remarks(with_rows(rows, {**total, "car": "yes"}))[1] == []


@pytest.mark.parametrize("first", ["Mean", "Total", None])
def test_notes_below_a_table_are_left_out_and_told(first):
    """A source below a total made it a row like any other."""
    rows, numbers = cars(), ["hp", "wt", "mpg"]
    sums = rows[numbers].mean().round(2) if first == "Mean" else rows[numbers].sum().round(3)
    below = [{"car": first, **sums}] * bool(first)
    table = with_rows(rows, *below, {"car": "Source: Belsley (1980)"}, {"car": "* provisional"})
    read, told = remarks(table)
    assert len(read) == 30
    assert read["hp"].dtype == "int64"
    last = 32 if first else 31
    assert told[bool(first) :] == [
        f"Rows {last}, {last + 1} at the end of t.csv hold a text and nothing else ('Source: Belsley (1980)', '* provisional'), and are left out."
    ]
    assert len(told) == 1 + bool(first)


def test_names_without_values_are_no_notes():
    rows = cars()
    assert remarks(with_rows(rows, {"car": "p31"}, {"car": "p32"}))[1] == []
    assert len(remarks(with_rows(rows, {"car": "p31"}))[0]) == 31
    rows.loc[3, ["gear", "hp", "wt", "ratio", "mpg"]] = None
    assert len(remarks(with_rows(rows, {"car": "Sri Lanka"}))[0]) == 31


def test_a_note_is_not_predicted():
    rows = cars()
    rows.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "-t", "mpg", "--missing", "impute", "--out", "m.mgp", *FAST)
    with_rows(rows, {"gear": "Source: a book"}).to_csv("new.csv", index=False)
    found = pd.read_csv(io.StringIO(mgp("predict", "m.mgp", "new.csv").out))
    assert found["reason"].iloc[-1] == "it is a note below the table"


@pytest.mark.parametrize("labels", [["Q1", "Q2", "Q3", "Q4"], ["basic", "wide", "long", "Standard"]])
def test_labels_above_a_total_are_no_statistics(labels):
    rows = pd.DataFrame({"what": labels, "x": [3.25, 4.5, 8.75, 6.5], "y": [12.5, 11.25, 19.0, 13.75]})
    assert summary_rows(with_rows(rows, {"what": "Total", **rows[["x", "y"]].sum()})).rows == (4,)


def test_a_category_that_was_seen_at_the_fit_names_no_sum_and_is_no_note(tmp_path, monkeypatch):
    """Total is a company too: its row at the end of a new table had no prediction, nor had one that holds a category of two words and nothing else."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = ["Eni", "Total", "Shell", "green wood"]
    fitted = pd.DataFrame({"company": names * 10, "y": rng.normal(size=40)})
    fitted.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "--target", "y", "--out", "m.mgp", *FAST)
    new = pd.DataFrame({"company": ["Eni", "Shell", "Shell", "Total"], "y": [1.0, 2.0, 4.0, 7.0]})
    new.to_csv("new.csv", index=False)
    mgp("predict", "m.mgp", "new.csv", "--out", "p.csv")
    assert pd.read_csv("p.csv")["mean"].notna().all()
    assert json.loads(mgp("score", "m.mgp", "new.csv", "--json").out)["rows"] == 4
    (tmp_path / "notes.csv").write_text("company,y,z\nEni,1,2\nShell,2,3\ngreen wood,,\n")
    mgp("predict", "m.mgp", "notes.csv", "--out", "n.csv")
    assert pd.read_csv("n.csv")["mean"].notna().all()
