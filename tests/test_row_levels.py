"""Training rows are shown with their own categories, though the effects that they were trained with do not tell these."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import manifoldgp
from command_line import mgp
from manifoldgp import GPRegressor, Single, Sparse
from manifoldgp._system import tensor_file
from manifoldgp.errors import FileFormatError
from manifoldgp.inspection.page import write_model_report
from manifoldgp.inspection.page_errors import cells
from manifoldgp.inspection.page_view import view_of


def cities(rows=200):
    """Numbers, and two columns of many categories, many of which occur in few rows; some rows have no target, some no category."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "x": rng.normal(size=rows),
        "city": [f"town {k}" for k in (rng.random(rows) ** 2 * 40).astype(int)],
        "floor": [f"level {k}" for k in rng.integers(0, 12, rows)],
        "y": rng.normal(size=rows),
    })  # fmt: skip
    table.loc[rng.choice(rows, 10, replace=False), "y"] = np.nan
    table.loc[rng.choice(rows, 10, replace=False), "city"] = None
    return table


def shown(view) -> list[list[str]]:
    """City and floor of the rows that a model keeps, as its page has them."""
    target, found = view.targets[0], view.targets[0].left_out
    every = list(range(len(found.observed)))
    levels = view.levels_of(target, found, np.array(every))
    columns = {column.label: cells(column, found.X, every, levels) for column in view.columns}
    return [list(pair) for pair in zip(columns["city"], columns["floor"], strict=True)]


def given(table) -> list[list[str]]:
    return table[["city", "floor"]].fillna("missing").to_numpy().tolist()


@pytest.mark.filterwarnings("ignore::manifoldgp.errors.FitWarning")
@pytest.mark.parametrize("missing", ["impute", "drop"])
def test_rows_are_shown_with_their_own_categories(tmp_path, missing):
    table = cities()
    model = GPRegressor(restarts=1, max_iter=3, missing=missing).fit(table.drop(columns="y"), table["y"])
    model.save(tmp_path / "m.mgp")
    kept = table[table["y"].notna() & (table["city"].notna() | (missing == "impute"))].reset_index()
    for same in (model, manifoldgp.load(tmp_path / "m.mgp")):
        view = view_of(same, None, None, None)
        assert shown(view) == given(kept)
        np.testing.assert_array_equal(view.numbers_of(view.targets[0].left_out), kept["index"] + 1)
    more = table.dropna().head(5)
    at = view_of(model.update(more.drop(columns="y"), more["y"]), None, None, None)
    assert shown(at)[-5:] == given(more)


@pytest.mark.filterwarnings("ignore::manifoldgp.errors.FitWarning")
def test_a_sample_of_rows_is_shown_with_its_own_categories():
    table = cities(1300).dropna().assign(z=lambda t: 2.0 * t["y"])
    model = manifoldgp.ManifoldGPRegressor((2,), averaging=Single(restarts=1, max_iter=2), method=Sparse(6), random_state=0).fit(
        table[["x", "city", "floor"]], table[["y", "z"]]
    )
    view = view_of(model, None, None, None)
    for target in view.targets:
        found = target.left_out
        rows = [int(np.abs(table["x"] - x).argmin()) for x in found.X[:, 0]]
        assert len(rows) == 1000
        levels = view.levels_of(target, found, np.arange(1000))
        assert view.columns[1].words(found.X, levels) == table["city"].iloc[rows].tolist()


def test_the_page_names_the_categories_of_the_rows_that_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cities().dropna().to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "-t", "y", "--averaging", "plain", "--restarts", "1", "--max-iter", "3", "--out", "m.mgp")
    mgp("report", "m.mgp", "--out", "m.html")
    page, table = (tmp_path / "m.html").read_text("utf-8"), pd.read_csv("data.csv")
    worst = page[page.index("The rows with the largest errors") :]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", worst)[:11]]
    found = pd.DataFrame(rows[1:], columns=rows[0]).set_index("row")
    own = table.set_axis(map(str, range(1, len(table) + 1))).loc[found.index]
    assert found[["city", "floor"]].to_numpy().tolist() == own[["city", "floor"]].to_numpy().tolist()
    start = re.search(r'"name":\s*"city".*?"start":\s*"(.*?)"', page)
    assert start is not None
    view = view_of(manifoldgp.load("m.mgp"), None, None, None)
    assert start[1] == table["city"][view.central_row]


def test_files_of_earlier_versions_name_no_wrong_categories(tmp_path):
    table = cities(60).dropna()
    GPRegressor(restarts=1, max_iter=1).fit(table.drop(columns="y"), table["y"]).save(tmp_path / "m.mgp")
    header, tensors = tensor_file.read(tmp_path / "m.mgp")
    del tensors["ensemble0.levels"]
    tensor_file.write(tmp_path / "m.mgp", header, tensors)
    model = manifoldgp.load(tmp_path / "m.mgp")
    assert {cell for row in shown(view_of(model, None, None, None)) for cell in row} == {"not known: fit anew"}
    write_model_report(model, tmp_path / "m.html")
    assert re.search(r'"start":\s*"town \d+"', (tmp_path / "m.html").read_text("utf-8"))


def test_categories_of_rows_in_a_forged_file_are_those_of_its_table(tmp_path):
    table = cities(60).dropna()
    GPRegressor(restarts=1, max_iter=1).fit(table.drop(columns="y"), table["y"]).save(tmp_path / "m.mgp")
    header, tensors = tensor_file.read(tmp_path / "m.mgp")
    tensors["ensemble0.levels"][3, 0] = 400
    tensor_file.write(tmp_path / "m.mgp", header, tensors)
    with pytest.raises(FileFormatError, match="categories that its table does not know"):
        manifoldgp.load(tmp_path / "m.mgp")


def test_a_category_of_rows_that_are_left_out_is_none(tmp_path, monkeypatch):
    """The table's encoding had it, and the model had been fitted without: the file could not predict."""
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"x": np.arange(30.0), "floor": ["ice", "sand"] * 15, "y": np.sin(np.arange(30.0))})
    table.loc[3, ["x", "floor"]] = np.nan, "mud"
    table.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "-t", "y", "--missing", "drop", "--averaging", "plain", "--restarts", "1", "--max-iter", "3", "--out", "m.mgp")  # fmt: skip
    mgp("predict", "m.mgp", "data.csv", "--out", "p.csv")
    assert pd.read_csv("p.csv").iloc[:, -1].notna().sum() >= 1
    assert manifoldgp.load("m.mgp").table_encoding_.names == ("x", "floor=ice", "floor=sand")
