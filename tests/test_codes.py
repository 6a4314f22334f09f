"""Codes with leading zeros: read as they are written, learnt as categories, and written again unchanged."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import polars as pl
import pytest

from command_line import mgp
from manifoldgp import GPRegressor, TableEncoding
from manifoldgp.data.columns import learn_column
from manifoldgp.data.table_files import read_table, read_tables
from manifoldgp.errors import InputError

POST = ["01067", "45127", "80331", "04109"]


@pytest.fixture
def shops() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"post": rng.choice(POST, 40), "part": [f"{k:04d}" for k in range(7, 47)], "x": rng.normal(size=40)})
    return rows.assign(y=rows["x"] + 3.0 * (rows["post"] == "01067"))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_codes_are_read_as_they_are_written(tmp_path, shops, separator):
    shops.to_csv(tmp_path / "shops.csv", index=False, sep=separator)
    found = read_table(tmp_path / "shops.csv")
    assert found["post"].tolist() == shops["post"].tolist()
    assert found["part"].tolist() == shops["part"].tolist()
    assert found["x"].dtype == float


@pytest.mark.parametrize("signs", ["", "n/a", "?", "-"])
def test_codes_with_gaps_and_blanks(tmp_path, signs):
    (tmp_path / "gaps.csv").write_text(f'post,x\n 01067,1\n{signs},2\n"45127",3\n01067,4\n')
    found = read_table(tmp_path / "gaps.csv")["post"]
    assert found.dropna().tolist() == ["01067", "45127", "01067"]
    assert found.isna().tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    "cells", [["07", "12", "11"], ["007", "12", "5"], ["0", "10", "20"], ["0.5", "00.7", "1"], ["100", "200", "120"]]
)
def test_other_numbers_stay_numbers(tmp_path, cells):
    (tmp_path / "numbers.csv").write_text("a,b\n" + "".join(f"{cell},1\n" for cell in cells))
    assert read_table(tmp_path / "numbers.csv")["a"].tolist() == [float(cell) for cell in cells]


def test_a_file_whose_codes_have_no_zeros_goes_with_one_whose_have(tmp_path):
    (tmp_path / "a.csv").write_text("post,y\n01067,1\n04109,2\n")
    (tmp_path / "b.csv").write_text("post,y\n45127,1\n,2\n")
    found = read_tables([tmp_path / "a.csv", tmp_path / "b.csv"])["post"]
    assert found.dropna().tolist() == ["01067", "04109", "45127"]
    assert found.isna().sum() == 1


def test_a_sheet_keeps_codes(tmp_path, shops):
    shops.to_excel(tmp_path / "shops.xlsx", index=False)
    assert read_table(tmp_path / "shops.xlsx")["post"].tolist() == shops["post"].tolist()


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["01067", "45127", "04109"] * 2, "category"),
        (["01", "2A", "02"] * 2, "category"),  # letters beside them: no hours
        (["01", "12", "02"] * 2, "number"),
        (["0512", "0033", "1207", "0999"], "number"),  # counts that an instrument pads
        ([f"{k:04d}" for k in range(300)] * 3, "number"),  # more of them, which come again
        ([f"{k:05d}" for k in np.random.default_rng(0).choice(100_000, 300, replace=False)] * 3, "category"),
        (["1_000", "2_000"] * 3, "category"),
        (["0512", "1033", "1207", "1033", "1207"], "number"),  # zeros of one cell
    ],
)
def test_what_padded_texts_become(cells, kind):
    assert learn_column("c", pd.Series(cells)).kind == kind


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_of_codes_alone_are_encoded(shops, frame):
    X = frame({"post": shops["post"].tolist(), "x": shops["x"].tolist()})
    model = GPRegressor(restarts=1).fit(X, shops["y"])
    assert list(model.feature_names_in_) == ["post=01067", "post=04109", "post=45127", "post=80331", "x"]
    new = frame({"post": ["01067", "45127"], "x": [0.0, 0.0]})
    np.testing.assert_allclose(np.subtract(*model.predict(new)), 3.0, atol=0.2)


def test_the_command_line_says_and_keeps_codes(tmp_path, monkeypatch, shops):
    monkeypatch.chdir(tmp_path)
    shops.to_csv("shops.csv", index=False)
    told = mgp("fit", "shops.csv", "-t", "y", "--averaging", "plain", "--restarts", "1", "-o", "shops.mgp").err
    assert (
        "post: codes with leading zeros, taken as text (--numbers post if they are numbers), one 0/1 column for each of 4 categories (01067, 04109"
        in told
    )
    assert "part: seems to be the number of the row" in told
    (tmp_path / "new.csv").write_text("post,part,x\n01067,0007,0.5\n")
    (row,) = csv.DictReader(mgp("predict", "shops.mgp", "new.csv", "--with-inputs").out.splitlines())
    assert (row["post"], row["part"]) == ("01067", "0007")
    assert float(row["mean"]) == pytest.approx(3.5, abs=0.3)


def test_codes_that_are_numbers_are_said_to_be(tmp_path, monkeypatch, shops):
    monkeypatch.chdir(tmp_path)
    shops.to_csv("shops.csv", index=False)
    fit = ("fit", "shops.csv", "-t", "y", "--averaging", "plain", "--restarts", "1", "-o", "shops.mgp")
    assert "(--numbers post if they are numbers)" in mgp(*fit).err
    assert "post: " not in mgp(*fit, "--numbers", "post").err
    assert "post number" in " ".join(mgp("inspect", "shops.mgp").out.split())
    assert "wrong" in mgp(*fit, "--numbers", "wrong", code=1).err


def test_codes_are_no_target(tmp_path, monkeypatch, shops):
    """As an input they are recognised; as a target 01067 had become 1,067 without a word."""
    monkeypatch.chdir(tmp_path)
    shops.to_csv("shops.csv", index=False)
    fit = ("fit", "shops.csv", "-t", "post", "--drop", "part", "--averaging", "plain", "--restarts", "1", "-o", "shops.mgp")
    told = mgp(*fit, code=1).err
    assert (
        "Column 'post' holds codes with leading zeros, such as '01067': their size means nothing that could be predicted." in told
    )
    assert "if they are numbers, say so: --numbers post." in told
    mgp(*fit, "--numbers", "post")
    for y in (shops["post"], pl.Series("post", shops["post"].to_list()), shops[["post"]]):
        with pytest.raises(InputError, match=r"'post' holds codes .* if they are numbers, hand in y.astype\(float\)."):
            GPRegressor(restarts=1, max_iter=2).fit(shops[["x"]], y)
    for y in (shops["post"].to_list(), shops["post"].to_numpy(), shops["post"].rename(None)):
        with pytest.raises(InputError, match="'y' holds codes"):
            GPRegressor(restarts=1, max_iter=2).fit(shops[["x"]].to_numpy(), y)
    GPRegressor(restarts=1, max_iter=2).fit(shops[["x"]], shops["post"].astype(float))


def test_numbers_as_text_of_a_parquet_file_are_fitted(tmp_path, monkeypatch, shops):
    """What is said of the table looks at numbers, not at their texts."""
    monkeypatch.chdir(tmp_path)
    shops.assign(x=shops["x"].map(str)).to_parquet("shops.parquet")
    mgp("fit", "shops.parquet", "-t", "y", "--drop", "part", "--averaging", "plain", "--restarts", "1", "-o", "shops.mgp")


def test_an_encoding_of_codes_knows_numbers_of_other_readers(shops):
    encoding = TableEncoding.learn(shops.drop(columns="part"), ["y"])
    assert encoding.inputs(pd.DataFrame({"post": [45127], "x": [0.0]})).iloc[0].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_rows_that_begin_with_a_name_keep_their_columns(tmp_path):
    """R's write.table writes no name above the names of rows."""
    (tmp_path / "r.csv").write_text('"post","y"\n"1","01067",1.5\n"2","04109",2.5\n')
    found = read_table(tmp_path / "r.csv")
    assert found["post"].tolist() == ["01067", "04109"]
    assert found["y"].tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    "cells",
    [
        [f"{hour:02d}{minute:02d}" for hour in range(6, 18) for minute in (0, 15, 30, 45)] * 3,
        [f"{angle:03d}" for angle in range(0, 360, 10)] * 3,
        [f"{share:03d}" for share in np.random.default_rng(0).integers(0, 101, 200)],
        ["01012024", "15012024", "01022024"] * 3,
    ],
)
def test_padded_times_angles_shares_and_dates_are_no_codes(cells):
    assert learn_column("a", pd.Series(cells), ()).kind != "category"
    assert learn_column("a", pd.Series(cells), ()).kind != "levels"
