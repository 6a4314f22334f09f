"""Tables: what columns become, what is refused and how it is said, files there and back, and the encoding inside a model file."""

from __future__ import annotations

import datetime
import io
import json
import math
import re
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import manifoldgp
from manifoldgp import ManifoldGPRegressor, Single, TableEncoding
from manifoldgp._system import tensor_file
from manifoldgp.data.columns import Column, learn_column, target_numbers
from manifoldgp.data.dates import as_times
from manifoldgp.data.number_columns import Reading
from manifoldgp.data.table_files import read_table, read_tables, write_table
from manifoldgp.data.units import units_of
from manifoldgp.data.written_numbers import read_numbers
from manifoldgp.errors import FileFormatError, FitWarning, InputError, MissingExtraError


def table(**changes):
    columns = {
        "speed": [1.0, 2.0, 3.5, 4.0],
        "floor": ["ice", "sand", "ice", "mud"],
        "wet": [True, False, True, True],
        "site": ["A"] * 4,
        "run": ["r1", "r1", "r2", "r2"],
        "sd": [0.1, 0.2, 0.1, 0.1],
        "y": [0.1, 0.4, 0.2, 0.9],
    }
    return pd.DataFrame(columns | changes)


def test_every_kind_of_column_becomes_numbers():
    encoding = TableEncoding.learn(table(), ["y"], noise="sd", group="run")
    assert encoding.names == ("speed", "floor=ice", "floor=mud", "floor=sand", "wet")
    assert encoding.constant == ("site",)
    X = encoding.inputs(table())
    assert list(X.columns) == list(encoding.names)
    np.testing.assert_array_equal(X, [[1, 1, 0, 0, 1], [2, 0, 0, 1, 0], [3.5, 1, 0, 0, 1], [4, 0, 1, 0, 1]])
    np.testing.assert_array_equal(encoding.target_values(table()), table()["y"])
    np.testing.assert_array_equal(encoding.noise_values(table()), table()["sd"])
    assert encoding.noise_values(table().drop(columns="sd")) is None


def test_features_drop_and_several_targets():
    encoding = TableEncoding.learn(table(), ["y", "sd"], features=["speed", "wet"])
    assert encoding.names == ("speed", "wet")
    assert encoding.ignored == ("floor", "site", "run")
    assert encoding.target_values(table()).shape == (4, 2)
    assert TableEncoding.learn(table(), ["y"], drop=["floor", "run"]).names == ("speed", "wet", "sd")


def test_a_column_without_a_name_is_left_out():
    written = pd.read_csv(io.StringIO(table().to_csv()))
    assert "Unnamed: 0" in written.columns
    assert TableEncoding.learn(written, ["y"], drop=["run"]).names[0] == "speed"


def test_dates_without_a_name_are_an_input():
    """As pandas writes a series with an index of dates."""
    series = pd.DataFrame({"y": [1.0, 2.0, 3.0]}, index=pd.date_range("2026-01-01", periods=3))
    written = pd.read_csv(io.StringIO(series.to_csv()))
    assert TableEncoding.learn(written, ["y"]).names == ("Unnamed: 0 [days]",)


def test_the_same_row_is_the_same_numbers_in_every_guise():
    encoding = TableEncoding.learn(table(), ["y"], group="run")
    expected = encoding.inputs(table()).to_numpy()
    for guise in (
        table(speed=["1", "2.0", "3.5", "4"]),
        table(wet=[1, 0, 1, 1]),
        table(wet=["true", "FALSE", "True", "TRUE"]),
        table(floor=pd.Categorical(["ice", "sand", "ice", "mud"])),
        table().convert_dtypes(),
        table()[list(reversed(table().columns))],
    ):
        np.testing.assert_array_equal(encoding.inputs(guise).to_numpy(), expected)


def test_numbers_as_categories_keep_their_names():
    given = table(floor=pd.Categorical([1, 2, 1, 3]))
    encoding = TableEncoding.learn(given, ["y"], features=["floor", "speed"])
    assert encoding.columns[0].categories == ("1", "2", "3")
    for floors in ([1, 2, 1, 3], [1.0, 2.0, 1.0, 3.0], ["1", "2", "1", "3"]):
        np.testing.assert_array_equal(encoding.inputs(table(floor=floors)), encoding.inputs(given))


def test_unknown_categories_are_refused_by_column_and_value_or_left_open():
    encoding = TableEncoding.learn(table(), ["y"], features=["speed", "floor"])
    new = table(floor=["ice", "lava", "lava", "snow"])
    with pytest.raises(InputError, match=r"Column 'floor' .* not seen: 'lava', 'snow' \(rows 2, 3, 4\); it knows ice, mud, sand"):
        encoding.inputs(new)
    assert encoding.unknown(new) == {"floor": ["lava", "snow"]}
    X = encoding.inputs(new, allow_unknown=True).to_numpy()
    np.testing.assert_array_equal(X[:, 1:], [[1, 0, 0]] + [[np.nan] * 3] * 3)


@pytest.mark.parametrize(("changes", "message"), [
    ({"speed": [1.0, None, 3.0, np.inf]}, r"missing or infinite in column 'speed' in 2 of 4 rows \(rows 2, 4\)\. .* X\.drop\(columns=\['speed'\]\)"),
    ({"floor": ["ice", None, "ice", "mud"]}, r"missing or infinite in column 'floor' in 1 of 4 rows \(row 2\)"),
    ({"wet": [True, None, True, False]}, r"missing or infinite in column 'wet'"),
    ({"speed": ["01/02/2026", "02/02/2026", "03/02/2026", "04/02/2026"]}, r"dates in which day and month could be either \('01/02/2026'\)\. Write dates as 2026-12-31"),
    ({"speed": ["30.01.2026", "31.01.2026", "32.01.2026", "1.2.2026"]}, r"holds dates, and in 1 of 4 rows something else: '32.01.2026' \(row 3\)"),
    ({"speed": ["30/01/2026", "31/01/2026", "28/01/2026", "01/31/2026"]}, r"holds dates, and in 1 of 4 rows something else: '01/31/2026' \(row 4\)"),
    ({"speed": ["03/31/2026", "04.03.2026", "03/30/2026", "1.2.2026"]}, r"day and month could be either"),
    ({"speed": ["02.03.2026", "01.31.2026", "01.02.2026", "1.2.2026"]}, r"day and month could be either"),
    ({"speed": ["31.12.26", "30.12.26", "30.12.26", "30.12.26 14:05"]}, r"year has two digits \('31.12.26'\)\. Write dates as 2026-12-31"),
    ({"speed": ["12/13/26"] * 2 + ["1/2/26"] * 2}, r"year has two digits"),
    ({"speed": ["2026-12-31 13:05 AM", *["2026-12-31 1:05 AM"] * 3]}, r"in 1 of 4 rows something else: '2026-12-31 13:05 AM' \(row 1\)"),
    ({"speed": ["12:30", "12:31", "12:32", "12:33:01"]}, r"Column 'speed' holds times of day"),
    ({"speed": ["1:52.8", "1:48.4", "1:49.2", "2:01.0"]}, r"Column 'speed' holds minutes and seconds \('1:52.8'\)"),
    ({"speed": [datetime.time(h) for h in (1, 2, 3, 4)]}, r"Column 'speed' holds times of day"),
    ({"speed": ["2026-01-01", "2026-01-02", "2026-01-03", "2026-13-04"]}, r"holds dates, and in 1 of 4 rows something else: '2026-13-04' \(row 4\)"),
    ({"speed": ["1", "2", "n/a?", "4"]}, r"Column 'speed' holds numbers, and text in 1 of 4 rows: 'n/a\?' \(row 3\)"),
])  # fmt: skip
def test_inputs_that_cannot_be_used(changes, message):
    with pytest.raises(InputError, match=message):
        TableEncoding.learn(table(**changes), ["y"], drop=["run"])


def test_a_name_of_each_row_is_not_a_category():
    names = pd.DataFrame({"id": [f"s{i}" for i in range(40)], "x": range(40), "y": range(40)})
    found = TableEncoding.learn(names, ["y"])
    assert (found.names, found.row_names) == (("x",), ("id",))
    assert TableEncoding.from_plain(found.to_plain()) == found
    assert found.extra(names.assign(new=1)) == ["new"]
    with pytest.raises(
        InputError,
        match=r"'id' has 40 different texts in 40 rows, 40 of which occur once, such as 's0', .* X\.drop\(columns=\['id'\]\)",
    ):
        TableEncoding.learn(names, ["y"], features=["id", "x"])


def test_many_categories_most_of_which_are_shared_are_categories():
    """28 towns in 40 rows, 16 of which occur once: most rows have no text of their own."""
    towns = [f"t{i}" for i in range(16)] + [f"s{i // 2}" for i in range(24)]
    frame = pd.DataFrame({"town": towns, "x": range(40), "y": range(40)})
    assert TableEncoding.learn(frame, ["y"]).row_names == ()


@pytest.mark.parametrize(("values", "message"), [
    (["yes", "no", "yes", "no"], "Column 'y' must hold numbers; it holds text, such as 'yes', 'no'. Write 0 and 1 for them."),
    (["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"], "Column 'y' holds dates or times ('2026-01-01'). Turn them into numbers"),
    (["1", "2", "3", "soon"], "Column 'y' must hold numbers; it has 'soon' (row 4)."),
])  # fmt: skip
def test_targets_that_are_no_numbers_are_told(values, message):
    with pytest.raises(InputError, match=re.escape(message)) as told:
        TableEncoding.learn(table(), ["y"], drop=["run"]).target_values(table(y=values))
    assert "drop" not in str(told.value)


@pytest.mark.parametrize(("named", "message"), [
    ({"targets": ["z"]}, r"no column 'z'\. It has: speed, floor"),
    ({"targets": ["y"], "drop": ["colour"]}, r"no column 'colour'"),
    ({"targets": ["y", "y"]}, "a target only once"),
    ({"targets": ["y"], "group": "y"}, "only one of target, noise and group"),
    ({"targets": ["y"], "features": ["y", "speed"]}, "y cannot be an input and a target"),
    ({"targets": ["y"], "features": ["site"]}, "no input column"),
])  # fmt: skip
def test_columns_that_cannot_be_chosen(named, message):
    with pytest.raises(InputError, match=message):
        TableEncoding.learn(table(), **named)


@pytest.mark.parametrize(("new", "message"), [
    (table().drop(columns=["speed", "floor"]), r"no columns 'speed', 'floor'\. It has: wet"),
    (table(speed=["fast", "2", "3", "slow"]), r"Column 'speed' must hold numbers; it has 'fast', 'slow' \(rows 1, 4\)"),
    (table(wet=["yes", "no", "1", "0"]), r"'wet' was true or false when the model was fitted; now it has 'yes', 'no' \(rows 1, 2\)"),
    (table()[:0], "has no rows"),
])  # fmt: skip
def test_new_tables_that_do_not_fit(new, message):
    encoding = TableEncoding.learn(table(), ["y"], drop=["run"])
    with pytest.raises(InputError, match=message):
        encoding.inputs(new)


def test_targets_must_be_numbers():
    encoding = TableEncoding.learn(table(), ["y"], drop=["run"])
    values = encoding.target_values(table(y=[1.0, None, 2.0, 3.0]))
    np.testing.assert_array_equal(values, [1.0, np.nan, 2.0, 3.0])
    with pytest.raises(InputError, match=r"Column 'y' must hold numbers; it has 'high' \(row 2\)"):
        encoding.target_values(table(y=["1", "high", "2", None]))
    with pytest.raises(InputError, match=r"Column 'y' holds dates"):
        encoding.target_values(table(y=pd.to_datetime(["2026-01-01"] * 4)))


def test_extra_columns_are_named_and_known_ones_are_not_extra():
    encoding = TableEncoding.learn(table(), ["y"], noise="sd", group="run", drop=["wet"])
    assert encoding.extra(table()) == []
    assert encoding.extra(table(colour=["red"] * 4)) == ["colour"]


def test_two_columns_with_one_name_after_encoding_are_refused():
    clash = pd.DataFrame({"a": ["b", "c", "b"], "a=b": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match="same name: a=b"):
        TableEncoding.learn(clash, ["y"])


def test_plain_data_there_and_back():
    encoding = TableEncoding.learn(table(), ["y"], noise="sd", group="run")
    assert TableEncoding.from_plain(json.loads(json.dumps(encoding.to_plain()))) == encoding
    with pytest.raises(InputError, match="only a category has categories"):
        Column("x", "number", ("a",))


# ------------------------------------------------------------------------------------------------------- in a model file


@pytest.fixture
def saved(tmp_path):
    encoding = TableEncoding.learn(table(), ["y"], drop=["run", "sd"])
    model = ManifoldGPRegressor(features=(2, 1), averaging=Single(restarts=1, max_iter=2))
    model.fit(encoding.inputs(table()), encoding.target_values(table()))
    model.table_encoding_ = encoding
    model.save(tmp_path / "model.mgp")
    return model, tmp_path / "model.mgp"


def test_a_model_file_carries_the_encoding(saved):
    model, path = saved
    loaded = manifoldgp.load(path)
    assert loaded.table_encoding_ == model.table_encoding_
    X = loaded.table_encoding_.inputs(table())
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    loaded.save(path)
    assert manifoldgp.load(path).table_encoding_ == model.table_encoding_


def test_another_fit_forgets_the_encoding(saved):
    model, path = saved
    model.fit(np.arange(8.0).reshape(4, 2) % 5, [1.0, 2.0, 3.0, 4.5])
    model.save(path)
    assert not hasattr(manifoldgp.load(path), "table_encoding_")


def test_an_encoding_that_does_not_fit_the_model_is_refused(saved, tmp_path):
    header, tensors = tensor_file.read(saved[1])
    header["table"]["columns"].pop()
    tensor_file.write(tmp_path / "changed.mgp", header, tensors)
    with pytest.raises(FileFormatError, match="table has 4 inputs and 1 target; its model has 5 and 1"):
        manifoldgp.load(tmp_path / "changed.mgp")
    header["table"].pop("columns")
    tensor_file.write(tmp_path / "changed.mgp", header, tensors)
    with pytest.raises(FileFormatError, match="'columns'.*another version"):
        manifoldgp.load(tmp_path / "changed.mgp")


# ----------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "txt", "parquet", "tsv.xz"])
def test_tables_there_and_back(tmp_path, ending):
    write_table(table(), tmp_path / f"a.{ending}")
    pd.testing.assert_frame_equal(read_table(tmp_path / f"a.{ending}"), table())
    assert [path.name for path in tmp_path.iterdir()] == [f"a.{ending}"]


def test_the_table_of_a_spreadsheet_with_semicolons_and_decimal_commas(tmp_path):
    (tmp_path / "a.csv").write_text("\ufeffspeed; floor;y\n1,5;ice;0,25\n2;sand;3\n", encoding="utf-8")
    read = read_table(tmp_path / "a.csv")
    assert list(read.columns) == ["speed", "floor", "y"]
    assert read["speed"].tolist() == [1.5, 2.0]
    assert read["y"].tolist() == [0.25, 3.0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_text_is_read_in_the_encoding_it_has(tmp_path, encoding):
    (tmp_path / "a.csv").write_bytes("temperature [°C],y\n1.5,2\n2.5,3\n".encode(encoding))
    read = read_table(tmp_path / "a.csv")
    assert list(read.columns) == ["temperature [°C]", "y"]
    assert read.to_numpy().tolist() == [[1.5, 2.0], [2.5, 3.0]]


def test_western_european_text_is_read_with_a_warning_wherever_it_differs(tmp_path):
    rows = "\n".join(["plain,1"] * 200_000)  # the first letter that is no ASCII comes after megabytes
    (tmp_path / "a.csv").write_bytes(f"floor,y\n{rows}\ngrün,2\n".encode("latin-1"))
    with pytest.warns(FitWarning, match=r"a.csv is not UTF-8; it is read as Windows-1252"):
        read = read_table(tmp_path / "a.csv")
    assert read["floor"].iloc[-1] == "grün"


@pytest.mark.parametrize(("text", "columns", "rows"), [
    ("# rig 3, second day\n# speed in m/s\nx,y\n1,2\n3,4\n", ["x", "y"], [[1, 2], [3, 4]]),
    ("# rig 3, second day\nx,y\n1,2\n# paused here\n3,4\n", ["x", "y"], [[1, 2], [3, 4]]),
    ("# x,y\n1,2\n3,4\n", ["x", "y"], [[1, 2], [3, 4]]),  # as NumPy writes it
    ("# rig 3\n# x;y\n1,5;2\n3;4\n", ["x", "y"], [[1.5, 2], [3, 4]]),
    ("#kind,y\na,2\n#b,4\n", ["kind", "y"], [["a", 2], ["#b", 4]]),
    ("\nx\n1\n# why\n", ["x"], [[1], ["# why"]]),  # one column: nothing tells a comment from a value
])  # fmt: skip
def test_lines_with_a_hash_are_comments(tmp_path, text, columns, rows):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    read = read_table(tmp_path / "a.csv")
    assert list(read.columns) == columns
    assert read.map(lambda v: v if isinstance(v, str) and not v.isdigit() else float(v)).to_numpy().tolist() == rows


def test_the_first_sheet_of_an_excel_file_is_read(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl", reason="needs the extra excel")
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        table().to_excel(book, sheet_name="runs", index=False)
        table()[:1].to_excel(book, sheet_name="notes", index=False)
    with pytest.warns(FitWarning, match=r"a.xlsx has 2 sheets: runs, notes. The first one is read. For another one, save it"):
        read = read_table(tmp_path / "a.xlsx")
    pd.testing.assert_frame_equal(read, table(), check_dtype=False)
    (tmp_path / "b.xlsx").write_bytes(b"no book")
    with pytest.raises(InputError, match=r"b.xlsx cannot be read as Excel"):
        read_table(tmp_path / "b.xlsx")


def test_a_row_of_units_leaves_whole_numbers_whole(tmp_path):
    """Patient 1001 came back as 1001.0 from mgp predict --with-inputs."""
    (tmp_path / "dose.csv").write_text("patient,dose,weight\n,mg,kg\n1001,0,80.5\n1002,10,\n1003,30,72\n", encoding="utf-8")
    with pytest.warns(FitWarning, match="dose.csv holds units"):
        read = read_table(tmp_path / "dose.csv")
    assert read.to_csv(index=False).split()[1:] == ["1001,0,80.5", "1002,10,", "1003,30,72.0"]


def test_percent_in_excel_is_the_unit_of_its_column(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra excel")
    book = openpyxl.Workbook()
    for row in (["air", "strength"], [0.031, 31.5], [0.042, 29.5], [0.055, 28.0]):
        book.active.append(row)
    for cell in book.active["A"][1:]:
        cell.number_format = "0.0%"
    book.save(tmp_path / "cores.xlsx")
    with pytest.warns(FitWarning, match="in percent"):
        assert units_of(read_table(tmp_path / "cores.xlsx")) == {"air": "%"}


def test_percent_in_excel_is_read_as_it_is_shown(tmp_path):
    """A cell that shows 10 % holds 0.1: the same sheet saved as CSV was another table, by a factor of 100, and the page said 0.1 [%]."""
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra excel")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["Mixes of May"], [], ["ash", "water", "part", "strength"], ["%", "%", "-", "MPa"]):
        sheet.append(row)
    for ash in (0.1, 0.07, None, 0):
        sheet.append([ash, 40, 0.5, 31.5])
    for cells in sheet.iter_rows(min_row=5):
        for place, form in enumerate(("0%", '0"%"', "0.0")):
            cells[place].number_format = form
    sheet["C5"].number_format = "0%"  # one cell of many says nothing about the others
    book.save(tmp_path / "mixes.xlsx")
    with pytest.warns(FitWarning) as told:
        read = read_table(tmp_path / "mixes.xlsx")
    assert any("shows in percent are read as they are shown (10 % is 10, not 0.1): ash." in str(w.message) for w in told)
    assert read["ash"].dropna().tolist() == [10.0, 7.0, 0.0]
    assert read[["water", "part"]].drop_duplicates().to_numpy().tolist() == [[40, 0.5]]


@pytest.mark.parametrize(
    ("name", "text", "columns", "rows"),
    [
        ("a.csv", "id;x;y\n1;2,5;3\n2;3,5;4\n3;4,5;5\n", ["id", "x", "y"], 3),
        ("a.csv", "Datum;Temp;Ort\n01.02.2020;2,5;Ulm\n02.02.2020;3,5;Bonn\n", ["Datum", "Temp", "Ort"], 2),
        ("a.csv", "id,tags,z\n1,a;b,2\n2,c;d,3\n", ["id", "tags", "z"], 2),
        ("a.csv", ";x;y\n0;1,5;2\n1;2,5;3\n", ["x", "y"], 2),
        ("a.tsv", "place\tx\nUlm, A\t1\nBonn, B\t2\n", ["place", "x"], 2),
    ],
)
def test_names_are_no_title_whatever_else_could_separate_cells(tmp_path, name, text, columns, rows):
    (tmp_path / name).write_text(text, encoding="utf-8")
    read = read_table(tmp_path / name)
    assert ([name for name in read.columns if not name.startswith("Unnamed")], len(read)) == (columns, rows)


def test_commas_in_names_and_texts_separate_no_cells_where_semicolons_do(tmp_path):
    """As Excel and pandas write it: nothing but a semicolon needs quotes."""
    lines = ["area;rooms;street, number;rent", *(f"{60 + k},5;{k};Main St., {k};{500 + k},25" for k in range(8))]
    (tmp_path / "rents.csv").write_text("\n".join(lines) + "\n")
    table = read_table(tmp_path / "rents.csv")
    assert list(table.columns) == ["area", "rooms", "street, number", "rent"]
    assert table["rent"].tolist() == [500.25 + k for k in range(8)]
    (tmp_path / "notes.csv").write_text("x,note;s,y\n1.5,a;b,2\n2.5,c,3\n3.5,d,4\n")
    assert list(read_table(tmp_path / "notes.csv").columns) == ["x", "note;s", "y"]


@pytest.mark.filterwarnings("ignore:Commas in")
@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1;2;3\n1,250;2,125;3,375\n", [1.25]),  # numbers as names
        ("pH;t\n7,123;1\n-999;2\n7,456;3\n", [7.123, -999.0, 7.456]),  # a number for "no value"
        ("x\n0,5\n0,7\n", [0.5, 0.7]),  # a single column, which commas seemed to split
        ("x;note\n0,5;a\n0,7;" + "b" * 140_000 + "\n", [0.5, 0.7]),  # a cell that is longer than Python's reader takes
    ],
)
def test_decimal_commas_stay_decimal_commas(tmp_path, text, numbers):
    (tmp_path / "data.csv").write_text(text)
    assert read_table(tmp_path / "data.csv").iloc[:, 0].tolist() == numbers


def test_rows_are_written_as_in_a_table_of_tabs_with_decimal_commas(tmp_path):
    (tmp_path / "data.tsv").write_text("x\ty\n0,5\t1,5\n")
    write_table(pd.DataFrame({"x": [0.25]}), tmp_path / "more.tsv", like=tmp_path / "data.tsv")
    assert (tmp_path / "more.tsv").read_text() == "x\n0,25\n"


def test_rows_that_were_left_out_are_kept_in_order_or_not_at_all(tmp_path):
    encoding = TableEncoding.learn(pd.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0]}), ["y"])
    assert encoding.without_rows(np.ones(20_000)).rows_left_out is None  # a header is no place for millions of numbers
    for wrong in ([5, 2], [-1], [1e30], ["x"]):
        with pytest.raises(FileFormatError):
            TableEncoding.from_plain(encoding.to_plain() | {"rows_left_out": wrong})


@pytest.mark.parametrize("name", ["counts.csv", "counts.txt", "counts.tsv"])
def test_commas_of_thousands_are_no_decimal_commas(tmp_path, name):
    """Hourly counts of 1,250 became 1.25 in silence, beside a column of numbers with points: R² 0.65 in place of 0.97."""
    separator = ";" if name.endswith("csv") else "\t"
    lines = ["speed;lanes;count", "1.5;3;120", "2.5;4;1,250", "3.5;5;1,300", "4.1;6;900"]
    (tmp_path / name).write_text("\n".join(lines).replace(";", separator) + "\n")
    with pytest.warns(UserWarning, match="count \\('1,250' is 1250\\)"):
        table = read_table(tmp_path / name)
    assert table["count"].tolist() == [120, 1250, 1300, 900]
    (tmp_path / name).write_text(
        "\n".join(line.replace(",", "").replace(".", ",") for line in lines).replace(";", separator) + "\n"
    )
    assert read_table(tmp_path / name)["speed"].tolist() == [1.5, 2.5, 3.5, 4.1]
    thin = "a;b\n1,250;1\n1,300;2\n1,125;3\n".replace(
        ";", separator
    )  # three digits behind every comma: a gauge's, rather than thousands
    (tmp_path / name).write_text(thin)
    with pytest.warns(
        UserWarning, match="'1,250' is '?125" if name.endswith("tsv") else "'1,250' is 1.25, not 1250"
    ):  # told either way
        found = read_table(tmp_path / name)["a"].tolist()
    assert found == ([1250, 1300, 1125] if name.endswith("tsv") else [1.25, 1.3, 1.125])


_CARS = [
    "brand;km;year;price",
    "Vox;265.786;2005;1.298 €",
    "Cifa;213.011;2007;957 €",
    "Vora;33.676;2024;15.247 €",
    "Volt;104.211;2018;6.317 €",
]


@pytest.mark.parametrize(("name", "separator"), [("cars.csv", ";"), ("cars.csv", "\t"), ("cars.tsv", "\t")])
def test_points_of_thousands_are_no_decimal_points(tmp_path, name, separator):
    """265.786 km became 265.786 in silence: no cell of the table had a decimal comma. The 957 of one column tells the sign of both."""
    (tmp_path / name).write_text("\n".join(_CARS).replace(";", separator) + "\n", encoding="utf-8")
    with pytest.warns(FitWarning, match=r"km \('265.786' is 265786\), price \('1.298 €' is 1298\)"):
        table = read_table(tmp_path / name)
    assert table["km"].tolist() == [265786, 213011, 33676, 104211]
    assert table["price"].tolist() == [1298, 957, 15247, 6317]


def test_several_groups_of_three_tell_that_points_separate_thousands(tmp_path):
    (tmp_path / "a.csv").write_text("a;b\n1.250.000;1.500\n2.500;2.125\n")
    with pytest.warns(FitWarning, match=r"a \('1.250.000' is 1250000\), b \('1.500' is 1500\)"):
        assert read_table(tmp_path / "a.csv").to_numpy().tolist() == [[1250000, 1500], [2500, 2125]]


def test_thousands_are_told_by_rows_far_below(tmp_path):
    (tmp_path / "a.csv").write_text("\n".join(["a;b", *(f"{n % 9 + 1}.250;x" for n in range(400)), "957;x"]) + "\n")
    with pytest.warns(FitWarning, match="'1.250' is 1250"):
        assert read_table(tmp_path / "a.csv")["a"].max() == 9250


@pytest.mark.filterwarnings("ignore:Texts in .* are read as numbers")
def test_points_that_may_separate_thousands_are_told(tmp_path):
    lines = [line.replace("957 €", "9.057 €") for line in _CARS]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    said = r"Points in .*a.csv are taken for decimal points: km \('265.786' is 265.786, not 265786\), price \('1.298 €' is 1.298, not 1298\). If they separate thousands, leave them out"
    with pytest.warns(FitWarning, match=said):
        assert read_table(tmp_path / "a.csv")["km"].tolist() == [265.786, 213.011, 33.676, 104.211]


READ_AS_AT_THE_FIT = {
    "points of thousands": (
        "km;y\n1.298;0,5\n957;1,5\n2.265;2\n",
        "km;y\n1.250;1\n",
        1250,
        "as at the fit: km ('1.250' is 1250)",
    ),
    "a single column": ("km;y\n1.298;0,5\n957;1,5\n2.265;2\n", "km\n1.250\n", 1250, "as at the fit: km ('1.250' is 1250)"),
    "tabs": ("km;y\n1.298;0,5\n957;1,5\n2.265;2\n", "km\ty\n1.250\t1\n", 1250, "as at the fit: km ('1.250' is 1250)"),
    "commas between cells": (
        "km;y\n1.298;0,5\n957;1,5\n2.265;2\n",
        "km,y\n1.250,1\n",
        1250,
        "as at the fit: km ('1.250' is 1250)",
    ),
    "decimal commas": (
        "km;y\n1,5;1\n2,25;2\n",
        "km;y\n1,250;1\n957;2\n",
        1.25,
        "decimal commas, as at the fit: km ('1,250' is 1.25",
    ),
    "a single one of these": (
        "km;y\n1,5;1\n2,25;2\n",
        "km\n957\n1,250\n",
        957,
        "decimal commas, as at the fit: km ('1,250' is 1.25",
    ),
    "decimal points": (
        "km\ty\n1.5\t1\n2.25\t2\n",
        "km\ty\n1.250\t1\n957\t2\n1.500\t3\n2.500\t4\n",
        1.25,
        "points, as at the fit: km",
    ),
    "commas of thousands": ('km,y\n"1,298",1\n957,2\n', "km;y\n1,250;1\n", 1250, "as at the fit: km ('1,250' is 1250)"),
    "texts beside numbers": (
        'km,y\n"1.298,50 €",0.5\n957 €,1.5\n',
        "km,y\n1.250 €,2.5\n",
        1250,
        "as at the fit: km ('1.250 €' is 1250)",
    ),
    "the table tells it": ("km;y\n1.298;0,5\n957;1,5\n2.265;2\n", "km;y\n1.250;0.5\n", 1.25, ""),
    "nothing is known": ("km;y\n1298;1\n957;2\n", "km;y\n1.250;1\n", 1.25, "decimal points: km ('1.250' is 1.25, not 1250)"),
}


@pytest.mark.parametrize("case", READ_AS_AT_THE_FIT)
def test_a_decimal_sign_that_a_table_leaves_open_is_that_of_the_fit(tmp_path, case):
    """A new table with 1.250 alone was read as 1.25, where the fit had read 1250."""
    fitted, new, number, said = READ_AS_AT_THE_FIT[case]
    (tmp_path / "fitted.csv").write_text(fitted, encoding="utf-8")
    (tmp_path / "new.csv").write_text(new, encoding="utf-8")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        learnt = TableEncoding.learn(read_table(tmp_path / "fitted.csv"), ["y"])
        encoding = TableEncoding.from_plain(json.loads(json.dumps(learnt.to_plain())))
        told.clear()
        assert read_table(tmp_path / "new.csv", like=encoding.reading)["km"].tolist()[0] == number
    assert encoding == learnt
    assert len(told) == (said != "")
    assert said in "".join(str(warning.message) for warning in told)


@pytest.mark.filterwarnings("ignore:Texts in .* are read as numbers")
def test_signs_of_several_files_are_kept_with_their_units(tmp_path):
    for name, rows in (("a.csv", "1,5 kg;1\n2 kg;2\n"), ("b.csv", "3 kg;1.250\n4 kg;957\n")):
        (tmp_path / name).write_text("x;y\n" + rows, encoding="utf-8")
    with pytest.warns(FitWarning, match="taken for decimal points"):
        table = read_tables([tmp_path / "a.csv", tmp_path / "b.csv"])
    encoding = TableEncoding.learn(table, ["y"])
    assert (encoding.units, encoding.signs.columns) == ((("x", "kg"),), (("x", ","),))
    earlier = {name: value for name, value in encoding.to_plain().items() if name != "signs"}
    assert not any(TableEncoding.from_plain(earlier).signs)
    for wrong in ({"plain": 3, "columns": {}}, {"plain": ",", "columns": {"x": ";"}}, ["."], {}):
        with pytest.raises(FileFormatError):
            TableEncoding.from_plain(encoding.to_plain() | {"signs": wrong})


@pytest.mark.parametrize("shows", ["0.123", "-0.250", "1.5", "1.250e3"])
def test_measured_numbers_with_three_decimals_keep_their_points(tmp_path, shows):
    """One number that only a decimal point explains tells the sign of the table, whatever whole numbers there are."""
    (tmp_path / "a.csv").write_text(f"a;b\n1.234;1.500\n12.345;2.500\n3.250;3.500\n7;4.125\n8.125;{shows}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = read_table(tmp_path / "a.csv")
    assert table["a"].tolist() == [1.234, 12.345, 3.25, 7.0, 8.125]
    assert table["b"].iloc[-1] == float(shows)


def test_a_title_above_names_with_decimal_commas_below(tmp_path):
    (tmp_path / "a.csv").write_text("Messung 2020\nid;x;y\n1;2,5;3\n2;3,5;4\n", encoding="utf-8")
    with pytest.warns(FitWarning, match="is no row of the table"):
        read = read_table(tmp_path / "a.csv")
    assert (list(read.columns), len(read)) == (["id", "x", "y"], 2)


@pytest.fixture
def book(tmp_path):
    """A lookup, notes, and a sheet of readings, one of whose names stands over two columns."""
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra excel")
    found = openpyxl.Workbook()
    found.active.title = "Plants"
    for row in (["Plant", "Built"], ["north", 2001], ["south", 1984]):
        found.active.append(row)
    found.create_sheet("Notes").append(["see the readings"])
    readings = found.create_sheet("Readings")
    for row in (["Plant", "Energy, kWh", "load", None], [None, None, "mean", "peak"]):
        readings.append(row)
    for k in range(4):
        readings.append(["north", 170.5 + k, 0.5 * k, 0.7 * k])
    readings.merge_cells("C1:D1")
    found.create_sheet("Empty")
    found.save(tmp_path / "energy.xlsx")
    return tmp_path / "energy.xlsx"


@pytest.mark.filterwarnings("ignore:The names of")
@pytest.mark.parametrize("wanted", [["Energy, kWh"], ["Plant", "peak"]])
def test_the_sheet_with_the_wanted_columns_is_read(book, wanted):
    """The first sheet with numbers was read, and then it was said that the table lacks what the third one has."""
    with pytest.warns(FitWarning, match=r"4 sheets: .*Readings, which has ('Energy, kWh'|Plant, peak), is read. For another one"):
        found = read_table(book, wanted=wanted)
    assert found["Energy, kWh"].tolist() == [170.5, 171.5, 172.5, 173.5]


@pytest.mark.filterwarnings("ignore:The names of")
def test_an_empty_row_below_names_in_two_rows_hides_none_of_them(book):
    openpyxl = pytest.importorskip("openpyxl")
    found = openpyxl.load_workbook(book)
    found["Readings"].insert_rows(2)
    found.save(book)
    with pytest.warns(FitWarning, match="Readings, which has peak, is read"):
        assert "peak" in read_table(book, wanted=["peak"]).columns


def test_a_sheet_is_read_by_its_name(book):
    assert read_table(book, sheet="Plants")["Built"].tolist() == [2001, 1984]
    with pytest.raises(InputError, match=r"4 sheets: Plants, Notes, Readings, Empty. There is no sheet 'readings'. Correct its"):
        read_table(book, sheet="readings")
    (book.parent / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(InputError, match=r"sheet='Plants' has no effect on .*a.csv: only Excel files have sheets. Leave it out."):
        read_table(book.parent / "a.csv", sheet="Plants")


def test_columns_that_no_sheet_has_are_told_with_what_each_has(book):
    with pytest.raises(
        InputError,
        match=r"None of them has the column 'Energy': Plants has Plant, Built; Notes has see the readings; Readings has Plant, 'Energy, kWh', mean, peak; Empty has none.",
    ):
        read_table(book, wanted=["Energy"])


@pytest.mark.parametrize(
    "notes",
    [{"Measured by Anna": ["see the second sheet"]}, {"Item": ["who", "source"], "Note": ["Anna", "see the second sheet"]}],
)
def test_notes_on_the_first_sheet_are_passed_over(tmp_path, notes):
    pytest.importorskip("openpyxl", reason="needs the extra excel")
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        pd.DataFrame(notes).to_excel(book, sheet_name="notes", index=False)
        table().to_excel(book, sheet_name="runs", index=False)
    with pytest.warns(FitWarning, match=r"2 sheets: notes, runs. runs, the first one with two columns and numbers, is read."):
        read = read_table(tmp_path / "a.xlsx")
    pd.testing.assert_frame_equal(read, table(), check_dtype=False)


def test_units_below_the_names_stay_with_the_encoding(tmp_path):
    (tmp_path / "a.csv").write_text("time,share,force,floor\ns,-,N,\n1,2,3,ice\n2,3,4,ice\n3,5,5,mud\n", encoding="utf-8")
    with pytest.warns(FitWarning, match=r"holds units or words \(s, -, N\)"):
        read = read_table(tmp_path / "a.csv")
    encoding = TableEncoding.learn(read, ["force"])
    assert encoding.units == (("time", "s"), ("force", "N"))
    assert TableEncoding.from_plain(json.loads(json.dumps(encoding.to_plain()))) == encoding
    assert [encoding.label(name) for name in ("time", "share", "force")] == ["time [s]", "share", "force [N]"]


@pytest.mark.parametrize(("name", "unit", "label"), [
    ("Funding ($/pupil)", "$", "Funding ($/pupil)"),
    ("Funding ($/pupil)", "[$]", "Funding ($/pupil)"),
    ("Funding ($/pupil)", "$/pupil", "Funding ($/pupil)"),
    ("Funding $/pupil", "$", "Funding $/pupil"),
    ("Force (N)", "N", "Force (N)"),
    ("Force [N] (mean)", "N", "Force [N] (mean)"),
    ("Force (N)", "kN", "Force (N) [kN]"),
    ("Force (kN)", "N", "Force (kN) [N]"),
    ("Price (total)", "€", "Price (total) [€]"),
])  # fmt: skip
def test_a_unit_that_the_name_tells_is_not_told_again(tmp_path, name, unit, label):
    """`Funding ($/pupil) [$]` stood on every axis. Of two units the one below the names counts, which is told."""
    (tmp_path / "a.csv").write_text(f"{name},y\n{unit},m\n1,2\n3,4\n5,5\n", encoding="utf-8")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        encoding = TableEncoding.learn(read_table(tmp_path / "a.csv"), ["y"])
    assert encoding.label(name) == label
    differ = [str(warning.message) for warning in told if "other units below names than in these" in str(warning.message)]
    assert [said.split(": ")[1] for said in differ] == ([f"{label}."] if "N) [" in label else [])
    assert encoding.unit(name).strip() in (unit.strip("[]"), "$/pupil")


def test_a_scale_of_time_knows_whether_dates_said_their_zone():
    local = pd.Series(["2026-03-29T10:15:00+02:00", "2026-03-31T10:15:00+02:00"])
    rows = pd.DataFrame({"when": local, "x": [1.0, 2.0], "y": [1.0, 2.0]})
    for values, zoned in ((local, True), (pd.to_datetime(local), True), (local.str[:16], False)):
        encoding = TableEncoding.learn(rows.assign(when=values), ["y"])
        assert encoding.columns[0].time is not None
        assert encoding.columns[0].time.zoned is zoned
        assert TableEncoding.from_plain(json.loads(json.dumps(encoding.to_plain()))) == encoding


def test_a_title_above_a_sheet_is_left_out(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra excel")
    numbers = pd.DataFrame({"x": [1.5, 3.0, 5.0], "y": [2, 4, 6]})
    numbers.to_excel(tmp_path / "a.xlsx", startrow=2, index=False)
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    book.active["A1"] = "Report of line 3"
    book.save(tmp_path / "a.xlsx")
    with pytest.warns(
        FitWarning, match=r"The first line of .*a.xlsx is no row of the table and left out: the names stand below."
    ):
        read = read_table(tmp_path / "a.xlsx")
    pd.testing.assert_frame_equal(read, numbers, check_dtype=False)
    numbers.to_excel(tmp_path / "a.xlsx")  # the first column has no name, and its cells are numbers
    assert list(read_table(tmp_path / "a.xlsx").columns)[1:] == ["x", "y"]


@pytest.mark.filterwarnings("ignore:The first row of .* holds units")
def test_names_may_stand_in_two_rows(tmp_path):
    """A name in merged cells stands above several columns; all but the first of them had no name, and were left out of fits."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["day", "engine", None, "torque"], [None, "speed", "load", None], [None, "1/min", "%", "Nm"]):
        sheet.append(row)
    for k in range(5):
        sheet.append([f"2026-01-0{k + 1}", 100.5 * k, 10 * k, 3.0 + k])
    sheet.merge_cells("B1:C1")
    book.save(tmp_path / "a.xlsx")
    with pytest.warns(FitWarning, match=r"stand in two rows, one of them over several columns: day, speed, load, torque\."):
        read = read_table(tmp_path / "a.xlsx")
    assert read["load"].tolist() == [0, 10, 20, 30, 40]
    assert units_of(read) == {"speed": "1/min", "load": "%", "torque": "Nm"}

    (tmp_path / "a.csv").write_text("left;;right;;F\nx;y;x;y;\n" + "1,5;2;3;4;5,25\n" * 3)
    with pytest.warns(FitWarning, match=r": left x, left y, right x, right y, F\. Rows are counted below both\."):
        assert read_table(tmp_path / "a.csv").iloc[2].tolist() == [1.5, 2.0, 3.0, 4.0, 5.25]


def test_a_row_of_texts_below_a_column_without_a_name_is_a_row(tmp_path):
    (tmp_path / "a.csv").write_text("day,,y\n2026-01-01,dry,\n2026-01-02,wet,3.5\n2026-01-03,dry,4.5\n")
    assert read_table(tmp_path / "a.csv").shape == (3, 3)
    (tmp_path / "a.csv").write_text(",x,y\nfirst,1,2\nsecond,3,4\nthird,5,6\n")
    assert list(read_table(tmp_path / "a.csv").columns) == ["Unnamed: 0", "x", "y"]


@pytest.mark.parametrize("text", [
    "site,sensor,,y\nnorth,,k1,\nsouth,1,2,3\neast,2,3,4\nwest,3,4,5\n",
    "material,x,\nsteel,NA,b\nwood,1,2\nsteel,4,3\niron,5,2\n",
    "id,x,y,\nA1,n.a.,n.a.,note\nA2,1,2,\nA3,2,3,7\nA4,3,4,8\n",
])  # fmt: skip
def test_a_first_row_of_texts_and_gaps_is_a_row(tmp_path, text):
    """`site,sensor,,y` above `north,,k1,` had become a column named site north, and the row was lost."""
    (tmp_path / "a.csv").write_text(text)
    table = read_table(tmp_path / "a.csv")
    names, *rows = text.split()
    assert list(table.columns)[:2] == names.split(",")[:2]
    assert len(table) == len(rows)


def test_names_below_others_may_stand_above_texts(tmp_path):
    (tmp_path / "a.csv").write_text("sample,,oven,\nid,site,temp,time\nA1,north,200,5\nA2,south,220,6\nA3,west,240,7\n")
    with pytest.warns(FitWarning):
        table = read_table(tmp_path / "a.csv")
    assert list(table.columns) == ["id", "site", "temp", "time"]
    (tmp_path / "a.csv").write_text("sample,oven,\nid,temp,time\nA1,200,5\nA2,220,6\nA3,240,7\n")
    with pytest.warns(FitWarning, match="two rows"):
        assert list(read_table(tmp_path / "a.csv").columns) == ["sample id", "temp", "time"]


@pytest.mark.parametrize("above", [[], ["Report of line 3", None, None, None]])
@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_names_that_repeat_are_told_apart_by_those_above_them(tmp_path, ending, above):
    """The upper ones fill half of their line, and it was left out as words about the table: several columns named inlet, outlet."""
    rows = [above] * bool(above) + [
        ["temp", None, "press", None],
        ["inlet", "outlet"] * 2,
        *([k, k + 1, k + 2, k + 3] for k in range(3)),
    ]
    file, sheet = tmp_path / f"a.{ending}", pd.DataFrame(rows)
    if ending == "csv":
        sheet.to_csv(file, index=False, header=False)
    else:
        pytest.importorskip("openpyxl")
        sheet.to_excel(file, index=False, header=False)
    with pytest.warns(FitWarning) as told:
        table = read_table(file)
    assert list(table.columns) == ["temp inlet", "temp outlet", "press inlet", "press outlet"]
    np.testing.assert_array_equal(table, np.arange(3)[:, None] + np.arange(4))
    assert ["left out" in str(warning.message) for warning in told] == [True] * bool(above) + [False]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.xlsx"])
def test_errors_of_a_spreadsheet_are_gaps(name, tmp_path, monkeypatch):
    """Of #DIV/0! in a CSV it was said that the column holds texts, even with missing="impute"; in an Excel file the same cell was a gap."""
    monkeypatch.chdir(tmp_path)
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    errors = ["#DIV/0!", "#N/A", "#REF!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!", "#WERT!"]
    rows = pd.DataFrame({"ratio": [*errors, *np.arange(10) / 4], "floor": [*["ice", "sand"] * 8, "#REF!", "ice"], "n": range(18)})
    if name.endswith("xlsx"):
        rows.to_excel(name, index=False)
    else:
        rows.to_csv(name, index=False, sep="\t" if name.endswith("tsv") else ",")
    read = read_table(name)
    assert read["ratio"].isna().tolist() == [True] * 8 + [False] * 10
    assert read["ratio"].dtype == float
    assert read["floor"].isna().sum() == 1
    assert read_numbers(["1,5", " #div/0!", "2,5"], decimal=",").numbers[[0, 2]].tolist() == [1.5, 2.5]


def test_nothing_known_is_written_with_and_without_blanks():
    """k. A., as German offices write it, was a text among numbers."""
    found = read_numbers(["224,2", "k. A.", "k.A.", "n. a.", "108", "109", "110"], decimal=",")
    assert found is not None
    np.testing.assert_array_equal(found.numbers, [224.2, math.nan, math.nan, math.nan, 108.0, 109.0, 110.0])


def test_a_sheet_with_a_name_twice_is_refused_as_text_is(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["x", "x", "y"], [1, 2, 3], [4, 5, 6]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match=r"a.xlsx has several columns named x. Rename or remove them."):
        read_table(tmp_path / "a.xlsx")


def test_excel_files_need_their_extra_and_are_not_written(tmp_path, monkeypatch):
    (tmp_path / "a.xlsx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"need openpyxl.*pip install 'manifoldgp\[excel\]'"):
        read_table(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match="Excel files are read, not written"):
        write_table(table(), tmp_path / "b.xlsx")


def test_every_bad_column_is_named_at_once():
    bad = table().assign(when=["12:01"] * 3 + ["12:02"], speed=[1.0, np.nan, 2.0, np.inf], **{"the mix": ["1", "2", "3", "n/a"]})
    with pytest.raises(InputError) as refusal:
        TableEncoding.learn(bad, ["y"])
    for part in (
        "'when' holds times of day",
        "missing or infinite in column 'speed' in 2 of 4 rows",
        "'the mix' holds numbers, and text in 1 of 4",
    ):
        assert part in str(refusal.value)
    assert str(refusal.value).splitlines()[-1] == (
        "Correct what cannot be read, or fit without it (X.drop(columns=['when', 'the mix'])). For missing values fit with "
        "missing='impute' or missing='drop', or without: X.drop(columns=['speed'])"
    )


def test_text_and_gaps_of_one_column_are_told_together_and_count_the_rows_of_the_table():
    """Each took a run of its own, and text stood "in 1 of 3 rows" of a table with four."""
    bad = table().assign(speed=["1", None, "n/a?", "4"])
    with pytest.raises(InputError) as refusal:
        TableEncoding.learn(bad, ["y"])
    assert r"Column 'speed' holds numbers, and text in 1 of 4 rows: 'n/a?' (row 3)." in str(refusal.value)
    assert "Values are missing or infinite in column 'speed' in 1 of 4 rows (row 2)." in str(refusal.value)


def test_an_infinite_target_is_refused_by_column_and_row():
    """It had come to an unexpected error of scikit-learn's."""
    bad = table().assign(y=[1.0, np.inf, 2.0, np.nan])
    with pytest.raises(InputError, match=r"Column 'y' is infinite in 1 of 4 rows \(row 2\)\. Correct or remove these rows\."):
        TableEncoding.learn(table(), ["y"]).target_values(bad)


def test_a_column_with_gaps_that_is_no_input_anyway_is_told_before_the_gaps_are_filled():
    clocks = ["12:30"] * 20 + ["12:31"] * 20
    bad = pd.DataFrame({"x": [np.nan, *range(40)], "at": [None, *clocks], "empty": [None] * 41, "y": np.arange(41.0)})
    with pytest.raises(InputError) as refusal:
        TableEncoding.learn(bad, ["y"])
    assert "'at' holds times of day" in str(refusal.value)
    assert "'empty'" not in str(refusal.value)
    assert "fit without it (X.drop(columns=['at'])). For missing values" in str(refusal.value)
    assert str(refusal.value).endswith("or without: X.drop(columns=['x'])")
    assert TableEncoding.learn(bad, ["y"], drop=["at"], missing="impute").constant == ("empty",)


def test_many_columns_with_gaps_are_told_in_one_sentence():
    wide = pd.DataFrame({f"c{i}": [np.nan, 1.0, 2.0, float(i)] for i in range(12)} | {"y": range(4)})
    with pytest.raises(InputError, match=r"missing or infinite in 12 columns, of 4 rows: 'c0' in 1, 'c1' in 1, .* 'c11'\]\)$"):
        TableEncoding.learn(wide, ["y"])


WRITTEN_DATES = {
    "points": (["01.03.2026 06:00", "1.3.2026 7:30", "12.03.2026 18:00:30"], "day first"),
    "points, a comma": (["01.03.2026, 06:00", "01.03.2026, 07:30", "12.03.2026, 18:00:30"], "day first"),
    "slashes, a day above 12": (["01/03/2026 06:00", "13/03/2026 07:30", "12/03/2026 18:00:30"], "day first"),
    "American": (["3/1/2026 6:00 AM", "3/1/2026 7:30 am", "3/13/2026 12:00:30 PM"], "month first"),
    "dashes": (["01-03-2026", "31-03-2026", "12-03-2026"], "day first"),
}


@pytest.mark.parametrize("case", WRITTEN_DATES)
def test_dates_with_the_year_last_are_read_where_the_column_shows_the_day(case):
    texts, order = WRITTEN_DATES[case]
    given = table().iloc[:3].assign(when=texts)
    encoding = TableEncoding.learn(given, ["y"], features=["when", "speed"])
    expected = pd.to_datetime(pd.Series([text.replace(",", "") for text in texts]), format="mixed", dayfirst=order == "day first")
    assert encoding.columns[0].time is not None
    assert encoding.columns[0].time.order == order
    days = (expected - expected.min()).dt.total_seconds() / 86400
    np.testing.assert_allclose(encoding.inputs(given).to_numpy()[:, 0], days, rtol=1e-12)


SPELLED_DATES = {
    "quarters": ["1974Q1", "1974-Q2", "1975 q1"],
    "the quarter first": ["Q1 1974", "Q2/1974", "q1 1975"],
    "months": ["1974-01", "1974/4", "1975M01"],
    "months by name": ["Jan 1974", "April 1974", "jan-1975"],
    "days and months by name": ["1-Jan-1974", "1 April 1974", "01 jan. 1975"],
    "American, by name": ["Jan 1, 1974", "April 1 1974", "January 1, 1975 0:00"],
}


@pytest.mark.parametrize("case", SPELLED_DATES)
def test_quarters_months_and_names_of_months_are_dates(case):
    given = table().iloc[:3].assign(when=SPELLED_DATES[case])
    encoding = TableEncoding.learn(given, ["y"], features=["when", "speed"])
    assert encoding.inputs(given).to_numpy()[:, 0].tolist() == [0, 90, 365]


@pytest.mark.parametrize(
    "texts", [["2019-20", "2020-21", "2021-22"], ["Q1", "Q2", "Q3"], ["rock 2024", "soil 2024", "rock 2025"]]
)
def test_seasons_and_labels_are_no_dates(texts):
    given = pd.concat([table().iloc[:3]] * 3, ignore_index=True).assign(when=texts * 3)
    assert TableEncoding.learn(given, ["y"], features=["when", "speed"]).columns[0].kind == "category"


def test_a_model_reads_dates_as_it_learnt_them():
    given = table(when=["01/02/2026", "31/01/2026", "05/02/2026", "06/02/2026"])
    encoding = TableEncoding.learn(given, ["y"], features=["when", "speed"])
    encoding = TableEncoding.from_plain(json.loads(json.dumps(encoding.to_plain())))
    new = table(when=["03/02/2026", "2026-02-04", "04/02/2026", "05/02/2026"])  # alone these could be March
    assert encoding.inputs(new).to_numpy()[:, 0].tolist() == [3, 4, 4, 5]


MESS = [*pd.date_range("2026-01-01", periods=12, freq="MS"), *(f"{day}/01/2026" for day in range(13, 32))]
"""The days of January 2026, the day first, as a spreadsheet reads them that takes the month to be first."""


@pytest.mark.parametrize("cells", [
    MESS, MESS * 3, MESS[::-1], MESS[:12] * 5 + MESS[12:], MESS[12:] * 4 + MESS[:12], [str(cell) for cell in MESS] * 3, ["13.01.26", *MESS[:5]],
], ids=["once", "often", "texts first", "texts late", "dates late", "as text", "two digits"])  # fmt: skip
def test_dates_that_a_spreadsheet_took_for_others_are_refused(cells):
    with pytest.raises(InputError, match=r"clear dates \('2026-.*\) beside texts such as '.*/?01.*Write dates as 2026-12-31"):
        learn_column("when", pd.Series(cells, dtype=object))
    with pytest.raises(InputError, match="19 of 79 rows something else: '12:30'"):
        learn_column("when", pd.Series(MESS[:12] * 5 + ["12:30"] * 19, dtype=object))
    with pytest.raises(InputError, match="dates or times"):
        target_numbers("when", pd.Series(cells[:40], dtype=object))


def test_codes_that_are_no_dates_stay_categories():
    for codes in (["1.2.3", "10.2.30"], ["40.12.26", "31.12.26"], ["1-2/26", "a"]):
        assert learn_column("code", pd.Series(codes * 3)).kind == "category"


@pytest.mark.parametrize(
    "when", [["04.03.2026"], ["03/30/2026", "04.03.2026"], ["13/03/2026"], [pd.Timestamp("2026-03-30"), "03/30/2026"]], ids=str
)
def test_a_model_with_the_month_first_refuses_dates_that_say_otherwise(when):
    column = learn_column("when", pd.Series(["03/01/2026", "03/31/2026"]))
    assert column.numbers(pd.Series(["04/03/2026"])).tolist() == [[33]]
    with pytest.raises(InputError, match="Write dates as 2026-12-31.* or as they were written then"):
        column.numbers(pd.Series(when, dtype=object))


def test_a_clock_of_24_hours_may_say_that_it_is_afternoon():
    times, wrong = as_times(
        pd.Series(["2026-12-31 13:05 PM", "2026-12-31 00:05 AM", "2026-12-31 12:05 PM", "2026-12-31 25:05 PM"])
    )
    assert wrong.tolist() == [False, False, False, True]
    assert times.dt.hour.tolist()[:3] == [13, 0, 12]


def test_several_files_are_one_table(tmp_path):
    write_table(table()[:2], tmp_path / "a1.csv")
    write_table(table()[2:][list(reversed(table().columns))], tmp_path / "a2.parquet")
    whole = read_tables([tmp_path / "a1.csv", tmp_path / "a2.parquet"])
    assert whole.index.tolist() == [0, 1, 2, 3]
    pd.testing.assert_frame_equal(whole[list(table().columns)], table(), check_dtype=False)
    assert len(read_tables([str(tmp_path / "a*")])) == 4
    with pytest.raises(InputError, match="No file matches"):
        read_tables([str(tmp_path / "b*.csv")])
    write_table(table().drop(columns="wet").assign(dry=1), tmp_path / "a3.csv")
    with pytest.raises(InputError, match=r"same columns; compared with .*a1.csv, .*a3.csv lacks wet and adds dry"):
        read_tables([tmp_path / "a1.csv", tmp_path / "a3.csv"])


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.csv", b"", "is empty: a line with the names"),
    ("a.csv", b"a,b\n1,2\n1,2,3,4\n", "cannot be read as CSV: .*line 3"),
    ("a.csv", b"\xff\xfea", "cannot be read as CSV"),
    ("a.csv", b"a,b,a\n1,2,3\n", "several columns named a"),
    ("a.parquet", b"PAR0", "cannot be read as Parquet"),
    ("a.csv.gz", b"no gzip", "gz"),
    ("a.doc", b"", "the ending says the format, one of .csv, .txt, .tsv"),
    ("a.xls", b"", "spreadsheets are read from .xlsx, .xlsm only. Save it as one of these, or as CSV"),
    ("missing", None, "There is no file|the ending says"),
])  # fmt: skip
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((InputError, OSError), match=message):
        read_table(tmp_path / name)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    write_table(table(), tmp_path / "a.parquet")
    before = (tmp_path / "a.parquet").read_bytes()
    with pytest.raises(Exception, match="(?i)convert|mixed|expected"):
        write_table(pd.DataFrame({"a": [object(), 1]}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]
    with pytest.raises(InputError, match="folder .* does not exist"):
        write_table(table(), tmp_path / "none" / "a.csv")
    with pytest.raises(InputError, match="is a folder"):
        write_table(table(), tmp_path)


@pytest.mark.parametrize(("package", "use"), [
    ("pandas", lambda path: read_table(path / "a.csv")),
    ("pyarrow", lambda path: read_table(path / "a.parquet")),
])  # fmt: skip
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, package, use):
    write_table(table(), tmp_path / "a.csv")
    write_table(table(), tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"need {package}.*pip install 'manifoldgp\[data\]'"):
        use(tmp_path)


PEOPLES_NUMBERS = {
    "thousands": (["1,234", "80", "2,345,678"], [1234, 80, 2345678]),
    "currency": (["$1,234.50", "-$80.00", "$0.99"], [1234.5, -80, 0.99]),
    "after it": (["1 234,50 €", "80,00 €", "7 €"], [1234.5, 80, 7]),
    "percent": (["1.24%", "3 %", "100%"], [1.24, 3, 100]),
    "unit": (["97.9 kg", "80 kg", "-"], [97.9, 80, math.nan]),
    "unit left out": (["97.9 kg", "80 kg", "75"], [97.9, 80, 75]),
    "no value": (["?", "1.5", "2"], [math.nan, 1.5, 2]),
    "commas": (["0,123", "1,5", "2"], [0.123, 1.5, 2]),
}


TITLED = {
    "one line": "Report of line 3\n\nx;y\n1,5;2\n3;4\n",
    "several cells": "Report;;;\nby;Anna;;\nx;y;z;w\n1,5;2;0;0\n3;4;0;0\n",
    "comments too": "# exported\nReport of line 3\nx,y\n1.5,2\n# why\n3,4\n",
}


@pytest.mark.parametrize("case", TITLED)
def test_lines_above_the_names_are_left_out(tmp_path, case):
    (tmp_path / "a.csv").write_text(TITLED[case], encoding="utf-8")
    with pytest.warns(FitWarning, match="left out: the names stand below"):
        table = read_table(tmp_path / "a.csv")
    np.testing.assert_array_equal(table[["x", "y"]], [[1.5, 2], [3, 4]])


@pytest.mark.parametrize("text", [",a,b\n0,1,2\n1,3,4\n", "a,b,\n1,2,\n3,4,\n", "a\n1\n2\n", "a,b\nred,blue\nx,y\n", "a,b\n"])
def test_names_in_the_first_line_stay_names(tmp_path, text):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    assert "a" in read_table(tmp_path / "a.csv").columns


@pytest.mark.parametrize("case", PEOPLES_NUMBERS)
def test_numbers_are_read_as_people_write_them(case):
    texts, numbers = PEOPLES_NUMBERS[case]
    found = read_numbers(texts)
    assert found is not None
    np.testing.assert_array_equal(found.numbers, numbers)
    assert found.example in texts or case == "no value"


@pytest.mark.parametrize(
    "texts",
    [
        ["3 kg", "4 lb"],
        ["3 kg", "3 kg", "4 kg", "4 lb", "5"],
        ["4", "4b", "5", "6"],
        ["4", "4b"],
        ["$1", "€1"],
        ["10 am", "11 am"],
        ["A1", "A2"],
        ["1.2.2024", "3.4.2024"],
        ["12:30", "13:30"],
        ["1", "x"],
        ["?", "-"],
    ],
)
def test_what_is_no_column_of_numbers_stays_text(texts):
    assert read_numbers(texts) is None


def test_numbers_with_units_that_pandas_read_are_said_to_need_read_table():
    """`predict(pandas.read_csv(...))` had named the cell that is no number, and not what reads it as the fit had."""
    encoding = TableEncoding((Column("area"),), ("price",))
    with pytest.raises(
        InputError, match=r"'area' must hold numbers; it has '50 m²', '60 m²' .*\. manifoldgp.data.read_table reads"
    ):
        encoding.inputs(pd.DataFrame({"area": ["50 m²", "60 m²"]}))
    with pytest.raises(InputError, match=r"'price' must hold numbers; .* '€142,300'. manifoldgp.data.read_table reads"):
        encoding.target_values(pd.DataFrame({"price": ["€142,300"]}))
    with pytest.raises(InputError, match=r"it has 'large' \(row 1\). Correct or remove these rows.$"):
        encoding.inputs(pd.DataFrame({"area": ["large", 60.0]}))
    with pytest.raises(
        InputError, match=r"it has 'n.a. m²' \(row 2\). Correct or remove these rows. manifoldgp.data.read_table reads"
    ):
        encoding.inputs(pd.DataFrame({"area": ["50 m²", "n.a. m²", "60 m²"]}))


@pytest.mark.filterwarnings("ignore:Texts in .* are read as numbers")
def test_columns_that_held_numbers_are_read_as_numbers_again(tmp_path):
    """Rows of units, words and gaps leave the numbers beside them what they are, and other columns too."""
    encoding = TableEncoding((Column("a"), Column("b"), Column("kind", "category", ("1 %", "x"))), ("y",), units=(("a", "kg"),))
    (tmp_path / "new.csv").write_text("a;b;kind\nkg;%;\n1,5 kg;7;1 %\nn. b.;;x\n2,5;9;1 %\n3;1;1 %\n-;1;1 %\n", encoding="utf-8")
    with pytest.warns(FitWarning, match=r"holds units or words \(kg, %\)"):
        table = read_table(tmp_path / "new.csv", like=encoding.reading)
    assert table["a"].tolist()[:4] == ["1.5", "n. b.", "2.5", "3"]
    assert table["a"].isna().tolist() == [False, False, False, False, True]
    assert table["kind"].tolist() == ["1 %", "x", "1 %", "1 %", "1 %"]
    assert encoding.why_not(table).tolist() == ["", "a is 'n. b.', no number; b is missing", "", "", "a is missing"]


def test_a_table_from_a_spreadsheet_becomes_numbers_and_says_how(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("Preis;Anteil;Art\n1.158;95 %;gut\n701;3,5 %;gut\n2.400;7 %;schlecht\n", encoding="utf-8")
    with pytest.warns(FitWarning, match=r"read as numbers: Preis \('1\.158' is 1158\), Anteil \('95 %' is 95\)\."):
        table = read_table(file)
    assert table["Preis"].tolist() == [1158, 701, 2400]
    assert table["Anteil"].tolist() == [95, 3.5, 7]
    assert table["Art"].tolist() == ["gut", "gut", "schlecht"]


@pytest.mark.parametrize(("text", "said", "numbers"), [
    ('Revenue ($),Visits,y\n"11,903.02","12,345,678",1\n"1,080.50","1,000,001",2\n',
     r"Revenue \(\$\) \('11,903\.02' is 11903\.02\), Visits \('12,345,678' is 12345678\)\.", [11903.02, 1080.5]),
    ("prix;surface\n118\u202f136 €;75,5\n87\u00a0500 €;60\n", r"read as numbers: prix \('118 136 €' is 118136\)\.", [118136, 87500]),
])  # fmt: skip
def test_a_number_that_was_read_from_a_text_is_told_as_it_can_be_read(tmp_path, text, said, numbers):
    """'11,903.02' is 11903 stood there, with its decimals lost; and '118\\u202f136 €', with the narrow space that French spreadsheets write."""
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    with pytest.warns(FitWarning, match=said):
        assert read_table(tmp_path / "a.csv").iloc[:, 0].tolist() == numbers


def test_a_row_of_units_is_left_out_and_told(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("T,p,line\n°C,bar,-\n1.5,2,A\n2.5,3,B\n", encoding="utf-8")
    with pytest.warns(FitWarning, match=r"first row of .* holds units or words \(°C, bar, -\); it is left out"):
        table = read_table(file)
    assert table["T"].tolist() == [1.5, 2.5]
    file.write_text("word,T\nhard,error\nsoft,1\nsoft,2\n", encoding="utf-8")
    assert len(read_table(file)) == 3  # one bad value is no row of units


def test_a_row_with_a_single_unit_is_left_out(tmp_path):
    """`days` below Age alone was a row without a target, and one more in what mgp predict wrote."""
    file = tmp_path / "concrete.csv"
    file.write_text("Cement,Age,wet,Strength\n,days,,\n540,28,true,79\n332,270,false,40\n198,90,true,44\n", encoding="utf-8")
    with pytest.warns(FitWarning, match=r"holds units or words \(days\); it is left out"):
        table = read_table(file)
    assert table["Age"].tolist() == [28, 270, 90]
    assert [table[name].dtype.kind for name in table] == list("iibi")
    assert units_of(table) == {"Age": "days"}
    for first in ("?,", ",lost,"):
        file.write_text(f"a,b,c\n{first:,<3}\n1,x,2\n2,y,3\n3,z,4\n".replace(",,,", ",,"), encoding="utf-8")
        assert len(read_table(file)) == 4  # a sign for "no value" is no unit, nor is a word among words


def test_one_unit_of_a_row_may_be_a_number(tmp_path):
    """`1e-5` above a refractive index: the row was one of values, and eight columns held text."""
    file = tmp_path / "glass.csv"
    file.write_text("RI,Na,Mg,Al,kind\n1e-5,wt %,wt %,wt %,\n3.2,12.9,3.2,1.2,A\n-1.4,13.1,3.4,1.5,B\n", encoding="utf-8")
    with pytest.warns(FitWarning, match=r"holds units or words \(1e-5, wt %, wt %, wt %\); it is left out"):
        table = read_table(file)
    assert table[["RI", "Na"]].to_numpy().tolist() == [[3.2, 12.9], [-1.4, 13.1]]
    assert units_of(table)["Mg"] == "wt %"
    for values in ("5,off,off,,A", "5,off,off,1,A", "5,4,off,off,A"):
        file.write_text(f"a,b,c,d,kind\n{values}\n3.2,12.9,3.2,1.2,A\n-1.4,13.1,3.4,1.5,B\n", encoding="utf-8")
        assert len(read_table(file)) == 3


@pytest.mark.parametrize("first", ["m²;{};%", "m²;{};", ";{};", ";[{}];%"])
@pytest.mark.parametrize("unit", ["10^6", "10^3 m³", "1e3", "1E6 t", "x1000", "10⁶", "10⁶ kg"])
def test_a_power_of_ten_is_a_unit(tmp_path, unit, first):
    """10^6 was no unit of its column, and a row with 10⁶ or 1e3 was one of values, which made the columns beside text."""
    file = tmp_path / "towns.csv"
    file.write_text(f"area;people;share\n{first.format(unit)}\n1,5;23;4\n2,5;26;5\n3,5;4;6\n", encoding="utf-8")
    with pytest.warns(FitWarning, match=f"holds units or words .*{re.escape(unit)}"):
        table = read_table(file)
    assert table.to_numpy().tolist() == [[1.5, 23, 4], [2.5, 26, 5], [3.5, 4, 6]]
    assert units_of(table)["people"] == unit
    encoding = TableEncoding.learn(table, ["people"])
    assert encoding.label("people") == f"people [{unit}]"
    assert encoding.unit("people") == f" × {unit.removeprefix('x')}"


def test_a_power_of_ten_may_stand_beside_words_alone(tmp_path):
    (tmp_path / "a.csv").write_text("town,people\nname,10^6\nA,23\nB,4\nC,6\n", encoding="utf-8")
    with pytest.warns(FitWarning, match=r"holds units or words \(name, 10\^6\)"):
        assert read_table(tmp_path / "a.csv")["people"].tolist() == [23, 4, 6]


@pytest.mark.parametrize("text", [
    "dose,kind\n1e3,A\n2e3,B\n5,B\n",  # others have exponents too
    "dose,kind\n1e+05,A\n52000,B\n34000,B\n",  # as R writes 100000
    "dose,y\n1e+05,\n52000,\n34000,3\n",
    "dose,y\n1e3,1e6\n2000,5\n34000,3\n",
    "dose,kind\n1e3,A\n,B\n,B\n",
])  # fmt: skip
def test_a_power_of_ten_among_numbers_is_one_of_them(tmp_path, text):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    read = read_table(tmp_path / "a.csv")
    pd.testing.assert_frame_equal(read, pd.read_csv(tmp_path / "a.csv"))
    assert read["dose"].dtype.kind == "f"


def test_units_of_a_row_may_stand_in_brackets_and_begin_with_a_digit(tmp_path):
    """`[m]` had become `H [[m]]`, and a row with 1/min was taken for values."""
    file = tmp_path / "pump.csv"
    file.write_text("H,n,L\n[m],1/min,(dB(A))\n1.5,900,60\n2.5,950,61\n", encoding="utf-8")
    with pytest.warns(FitWarning, match=r"holds units or words \(m, 1/min, dB\(A\)\); it is left out"):
        table = read_table(file)
    assert table["n"].tolist() == [900, 950]
    assert units_of(table) == {"H": "m", "n": "1/min", "L": "dB(A)"}
    assert TableEncoding.learn(table, ["L"]).label("H") == "H [m]"
    file.write_text("state,n\nlow,1/min\nhigh,3/min\nhigh,4/min\n", encoding="utf-8")
    with pytest.warns(FitWarning, match="'1/min' is 1"):
        assert len(read_table(file)) == 3  # numbers of so many a minute are values


def test_numbers_with_the_decimal_sign_of_their_file_need_no_warning(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("T;p\n°C;bar\n1,5;2,25\n2,5;3,5\n", encoding="utf-8")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert read_table(file)["p"].tolist() == [2.25, 3.5]
    assert ["holds units" in str(warning.message) for warning in told] == [True]


@pytest.mark.parametrize("lost", ["units", "columns", "donors"])
def test_an_encoding_of_another_version_is_told(lost):
    """Of a file that an earlier version wrote it was an unexpected KeyError."""
    plain = TableEncoding.learn(pd.DataFrame({"a": [1.0, 2.0], "y": [0.0, 1.0]}), ["y"]).to_plain()
    assert TableEncoding.from_plain(plain).targets == ("y",)
    del plain[lost]
    with pytest.raises(FileFormatError, match=f"'{lost}'.*another version"):
        TableEncoding.from_plain(plain)


def test_ranges_are_those_of_rows_that_are_trained_on():
    """Files of earlier versions lack them."""
    given = pd.DataFrame({"a": [1.0, 9.0, 2.0, 3.0, 50.0], "b": [4.0, np.nan, 5.0, 6.0, 7.0], "floor": list("uvuvu")})
    encoding = TableEncoding.learn(given, ["y"], missing="drop", y=np.array([[0.0], [1.0], [2.0], [3.0], [np.nan]]))
    assert encoding.ranges == (("a", 1.0, 3.0), ("b", 4.0, 6.0))
    plain = encoding.to_plain()
    assert TableEncoding.from_plain(plain) == encoding
    del plain["ranges"]
    assert TableEncoding.from_plain(plain).ranges == ()


def test_blanks_around_texts_do_not_count():
    """Pages trimmed what is pasted there; tables did not, so that one row was predicted on the page and refused on the command line."""
    table = pd.DataFrame({"floor": [" ice", "ice", "sand ", "big  rock"] * 5, "x": np.arange(20.0), "y": np.arange(20.0)})
    encoding = TableEncoding.learn(table, ["y"])
    assert encoding.columns[0].categories == ("big  rock", "ice", "sand")
    new = pd.DataFrame({"floor": ["ice\t", "\n sand", "big rock", " "], "x": 0.0})
    assert encoding.unknown(new) == {}
    assert encoding.why_not(new).tolist()[:3] == ["", "", ""]
    assert encoding.why_not(new)[3] != ""  # nothing but blanks is missing, as it is there
    np.testing.assert_array_equal(encoding.inputs(new[:3]).to_numpy()[:, :3], [[0, 1, 0], [0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.xlsx"])
@pytest.mark.parametrize("word", ["None", "none", "NULL", "null"])
def test_none_is_a_category_among_words_and_a_gap_elsewhere(name, word, tmp_path, monkeypatch):
    """Cars without airbags, None, were rows with a gap, which Parquet files did not have."""
    monkeypatch.chdir(tmp_path)
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    rows = pd.DataFrame({
        "bags": [word, "driver", "both", "NA", "", word] * 3,
        "wheels": ["4", "6", word, "4", "6", "8"] * 3,
        "price": [word, "$1,200", "$900", "$1,300", "$700", "$650"] * 3,
        "day": [word, *(f"2026-01-0{k}" for k in range(1, 6))] * 3,
        "new": [word, "True", "False", "True", "False", "True"] * 3,
        "y": range(18),
    })  # fmt: skip

    def read(rows: pd.DataFrame, like: Reading | None = None) -> pd.DataFrame:
        if name.endswith("xlsx"):
            rows.to_excel(name, index=False)
        else:
            rows.to_csv(name, index=False, sep="\t" if name.endswith("tsv") else ",")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read_table(name, like=like)

    table = read(rows)
    assert table["bags"].isna().sum() == 6
    assert (table["bags"] == word).sum() == 6
    assert table[["wheels", "price", "day", "new"]].isna().sum().tolist() == [3] * 4
    assert table["price"].dtype == float
    encoding = TableEncoding.learn(table.dropna()[["bags", "y"]], "y")
    units = pd.DataFrame(
        {"t": ["°C", word, "2", "3", "4"], "p": ["bar", "2", "3", "4", "5"], "mixed": ["", "low", "7", word, "8"]}
    )
    assert read(units)["t"].isna().tolist() == [True, False, False, False]
    assert read(pd.DataFrame({"kind": ["7", word, "8", "9", "low"], "y": range(5)}))["kind"].isna().sum() == 0
    learnt = encoding.reading._replace(categories={"bags": (word,)})
    assert read(rows[["bags", "y"]].iloc[[0]], learnt)["bags"].tolist() == [word]
    assert read(rows[["bags", "y"]], learnt._replace(categories={"bags": ()}))["bags"].isna().sum() == 12


def test_a_model_that_learnt_none_knows_it(tmp_path):
    table = pd.DataFrame({"bags": ["None", "driver", "both"] * 4, "x": range(12), "y": range(12)})
    encoding = TableEncoding.learn(table, "y")
    assert encoding.reading.words == {"bags": True, "x": False}
    (tmp_path / "new.csv").write_text("bags,x\nNone,3\n", "utf-8")
    assert encoding.inputs(read_table(tmp_path / "new.csv", like=encoding.reading)).to_numpy().shape == (1, 4)


@pytest.mark.parametrize("titles", [["A title"], ["Savings", "averages"], ["Savings", "averages", ""]])
@pytest.mark.parametrize("units", [[], [["", "%", "%", "%", "US$"]]])
@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_names_in_two_rows_may_stand_below_a_title(tmp_path, ending, titles, units):
    """Title lines were found above one row of names, and names in two rows without a title; together, the title was the names."""
    names = [["country", "ratio", "population", "", "income"], ["", "", "under 15", "over 75", "dpi"]]
    rows = [[f"c{k}", k + 0.5, k + 20.25, k + 2.125, 100 * k] for k in range(4)]
    above = [[title, *[""] * 4] for title in titles]
    sheet = pd.DataFrame([*above, *names, *units, *rows]).replace("", None)
    file = tmp_path / f"a.{ending}"
    if ending == "csv":
        sheet.to_csv(file, index=False, header=False)
    else:
        pytest.importorskip("openpyxl")
        sheet.to_excel(file, index=False, header=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = read_table(file)
    assert list(read.columns) == ["country", "ratio", "under 15", "over 75", "income dpi"]
    assert read["over 75"].tolist() == [2.125, 3.125, 4.125, 5.125]
    assert units_of(read) == ({"ratio": "%", "under 15": "%", "over 75": "%", "income dpi": "US$"} if units else {})
