"""The page that computes: JavaScript equals NumPy in a real browser, controls move the prediction, tables are predicted where they are dropped."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from importlib import resources
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas._libs.parsers import STR_NA_VALUES

from browser import browse, outcome_of, with_script
from drawn_estimators import drawn_estimator, every_part, make_inputs, rounding
from manifoldgp import GPRegressor, ManifoldGPRegressor, Predictor, inspection
from manifoldgp.data.decimal_signs import decimal_sign
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.no_values import ERROR_CELLS, NO_VALUE
from manifoldgp.data.table_files import read_table, write_table
from manifoldgp.data.units import units_row
from manifoldgp.data.written_numbers import read_numbers
from manifoldgp.inspection import page_live
from manifoldgp.inspection.page import write_model_report
from manifoldgp.model import Model
from manifoldgp.predictor.program import COMPONENTS, Program
from manifoldgp.warping import TanhWarping
from short_fits import SHORT_STACK

ROWS = 1000


def test_javascript_equals_numpy(chromium, tmp_path):
    X, estimators = make_inputs(ROWS, seed=1), list(every_part())
    rows = [ROWS if e.ensembles_[0]._warp().trivial else 20 for e in estimators]  # a warped target takes 41 solutions a component
    models = ",\n".join(e.predictor().to_javascript() for e in estimators)
    code = f"""
      const X = {json.dumps(X.tolist())}, rows = {rows}, models = [{models}];
      const both = (p, o) => [-1.959963984540054, 0.3].map((z) => p.quantile(o, z));
      return models.map((model, k) => X.slice(0, rows[k]).map((x) => {{ const p = model(x); return [...p.mean, ...p.std, ...[...p.mean].flatMap((_, o) => both(p, o))]; }}));"""
    dom, console = browse(chromium, with_script("<html><body></body></html>", code, tmp_path / "m.html"), tmp_path / "profile")
    assert not console
    for estimator, n, found in zip(estimators, rows, outcome_of(dom), strict=True):
        moments = np.array(found, dtype=float)
        mean, std = (a.reshape(n, -1) for a in estimator.predictor()(X[:n], return_std=True))
        mean_atol, variance_atol = rounding(estimator, X[:n])
        np.testing.assert_allclose(moments[:, : mean.shape[1]], mean, rtol=1e-9, atol=mean_atol)
        outputs = mean.shape[1]
        np.testing.assert_allclose(moments[:, outputs : 2 * outputs] ** 2, std**2, rtol=1e-9, atol=variance_atol)
        mixtures = estimator.predictor().mixtures(X[:n])
        quantiles = [mixture.quantile(q) for mixture in mixtures for q in (0.025, NormalDist().cdf(0.3))]
        deviations = (moments[:, 2 * outputs :] - np.array(quantiles).T) / np.repeat(std, 2, 1)
        np.testing.assert_allclose(deviations, 0.0, atol=1e-9)


def test_a_warped_predictor_of_an_earlier_version_has_moments_in_javascript(chromium, tmp_path):
    """Its file tells nothing of members: quantile is null, as that version gave it."""
    p = drawn_estimator([(Model(warping=TanhWarping(2)), 2)]).predictor()
    outputs = {name: slot for name, slot in p.program.outputs.items() if name not in COMPONENTS}
    program = Program(p.program.constants, p.program.instructions, outputs, p.program.row_bytes)
    earlier = Predictor.from_facts(program, p.facts() | {"mixture": None})
    X = make_inputs(3, seed=1)
    code = f"const model = {earlier.to_javascript()}; return {json.dumps(X.tolist())}.map((x) => {{ const p = model(x); return [p.mean[0], p.std[0], p.quantile]; }});"
    dom, console = browse(chromium, with_script("<html><body></body></html>", code, tmp_path / "m.html"), tmp_path / "profile")
    assert not console
    mean, std, quantile = zip(*outcome_of(dom), strict=True)
    np.testing.assert_allclose([mean, std], p(X, return_std=True), rtol=1e-9)
    assert quantile == (None, None, None)


@pytest.fixture(scope="module")
def model():
    """Of a table with a text column, with the names of people who write markup."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"speed <m/s>": rng.normal(size=40), "floor": rng.choice(["ice", "sand"], 40)})
    table["grip"] = np.sin(table["speed <m/s>"]) + (table["floor"] == "ice") + 0.1 * rng.normal(size=40)
    encoding = TableEncoding.learn(table, ["grip"])
    model = GPRegressor(restarts=1, max_iter=10).fit(encoding.inputs(table), encoding.target_values(table))
    model.table_encoding_ = encoding
    return model


@pytest.fixture(scope="module")
def page(model, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("live") / "model.html"
    write_model_report(model, path)
    return path.read_text(encoding="utf-8")


CODE = r"""
  const said = () => document.querySelector(".said").textContent, found = {};
  const set = (node, value, kind) => { node.value = value; node.dispatchEvent(new Event(kind, { bubbles: true })); };
  const slider = document.querySelector("#live input[type=range]"), field = document.querySelector("#live input[type=number]");
  found.labels = [...document.querySelectorAll("#live label")].map((l) => [l.textContent, document.getElementById(l.htmlFor).tagName]);
  set(slider, slider.max, "input"); found.slid = [said(), +field.value];
  set(field, "0.5", "input"); found.typed = [said(), +slider.value];
  set(document.querySelector("#live select"), "sand", "change"); found.chosen = said();
  set(field, "50", "input"); found.far = said();
  set(field, "", "input"); found.empty = said();
  const box = document.querySelector("#live-table textarea"), go = document.querySelector("#live-table button");
  const paste = (text) => { box.value = text; go.click(); };
  paste("speed,floor\n1,ice\n"); found.wrong = document.querySelector("#live-table [role=status]").textContent;
  paste("\ufefffloor;speed <m/s>;note\nice;0,5;\"a;b\"\nsand;-1;\nmud;1;\nice;x;\n");
  found.cells = [...document.querySelectorAll("#live-table tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
  paste("# a load cell\n# of 2026\nspeed <m/s>,floor\n0.5,ice\n"); found.commented = document.querySelectorAll("#live-table tbody tr").length;
  found.link = document.querySelector("#live-table a").download;
  found.wide = document.documentElement.scrollWidth <= innerWidth;
  return found;
"""


@pytest.mark.parametrize("size", ["1100,900", "500,800"])
def test_controls_and_tables(chromium, model, page, tmp_path, size):
    dom, console = browse(chromium, with_script(page, CODE, tmp_path / "page.html"), tmp_path / "profile", size)
    assert not console
    found = outcome_of(dom)
    assert found["labels"] == [["speed <m/s>", "INPUT"], ["floor", "SELECT"]]
    texts = [found["slid"][0], found["typed"][0], found["chosen"], found["far"], found["empty"]]
    assert len(set(texts)) == 5
    assert found["typed"][1] == pytest.approx(0.5, abs=0.01)
    assert "seen nothing near here" in found["far"]
    assert found["empty"] == "speed <m/s> is missing"
    assert found["wrong"] == "The table lacks these columns: speed <m/s>."
    assert found["link"] == "predictions.csv"
    assert found["commented"] == 1
    assert found["wide"]
    good, sand, mud, text = found["cells"]
    rows = [[0.5, 1.0, 0.0], [-1.0, 0.0, 1.0]]
    ends = np.array([[float(cell.replace("−", "-")) for cell in row[5:7]] for row in (good, sand)])
    np.testing.assert_allclose(
        ends, model.predict_quantiles(pd.DataFrame(rows, columns=model.feature_names_in_), [0.025, 0.975]), atol=6e-4
    )
    mean, std = model.predictor()(rows, return_std=True)
    shown = np.array([[float(cell.replace("−", "-")) for cell in row[3:5]] for row in (good, sand)])
    np.testing.assert_allclose(shown, np.stack([mean, std], 1), atol=6e-4)
    assert good[2] == "a;b"
    assert mud[3:7] == [""] * 4
    assert mud[7] == 'floor: "mud" is none of ice, sand'
    assert 'speed <m/s>: "x" is not a number' in text[7]


@pytest.mark.parametrize("size", ["1100,900", "500,800"])
def test_fields_show_all_digits_of_their_values(chromium, tmp_path, size):
    """A volume of 393,600,000 was shown as 39360000."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"volume [$]": rng.uniform(1e8, 9.9e8, 40), "depth": rng.uniform(-1e-3, -9e-4, 40), "floor": rng.normal(size=40)}
    )
    model = GPRegressor(restarts=1, max_iter=3).fit(table, table["floor"] + table["volume [$]"] / 1e9)
    write_model_report(model, tmp_path / "model.html")
    code = """
      const sizes = [], frames = document.documentElement;
      for (const slider of document.querySelectorAll("#live input[type=range]")) for (const end of [slider.min, slider.max, slider.value]) {
        const field = slider.nextElementSibling, style = getComputedStyle(field), paper = document.createElement("canvas").getContext("2d");
        slider.value = end; slider.dispatchEvent(new Event("input"));
        paper.font = style.font;
        sizes.push([field.value, paper.measureText(field.value).width, field.clientWidth - 16]); // an arrow stands at the end
      }
      return [sizes, frames.scrollWidth <= innerWidth];"""
    html = with_script((tmp_path / "model.html").read_text("utf-8"), code, tmp_path / "page.html")
    dom, console = browse(chromium, html, tmp_path / "profile", size)
    assert not console
    sizes, fits = outcome_of(dom)
    assert fits
    assert {len(value) for value, *_ in sizes} >= {9, 11}
    assert all(width < room for _, width, room in sizes), sizes


def test_the_name_in_a_label_is_shortened_and_never_its_words(chromium, tmp_path):
    """An axis was called "Reaktionszeit Ø [ms…rved less predicted"."""
    script = (resources.files("manifoldgp.inspection") / "drawing.js").read_text(encoding="utf-8")
    fitted = script[script.index("function fitted") : script.index("// As many digits")]
    code = f"""
      const name = "Reaktionszeit Ø [ms]", label = name + ": observed less predicted";
      {fitted}
      return [288, 400, 60].map((pixels) => fitted(label, pixels, name)).concat(fitted(name, 80), fitted("$& of a: share", 90, "$& of a"));"""
    dom, console = browse(chromium, with_script("<html><body></body></html>", code, tmp_path / "m.html"), tmp_path / "profile")
    assert not console
    words = ": observed less predicted"
    assert outcome_of(dom) == [
        "Reaktio…Ø [ms]" + words,
        "Reaktionszeit Ø [ms]" + words,
        "R…]" + words,
        "Reakt…[ms]",
        "$&…a: share",
    ]


def test_rows_that_cannot_be_predicted_are_no_predictions(chromium, page, tmp_path):
    code = """
      document.querySelector("#live-table textarea").value = "speed <m/s>,floor\\n0.5,ice\\n-1,snow\\n";
      document.querySelector("#live-table button").click();"""
    dom, console = browse(chromium, with_script(page, code, tmp_path / "page.html"), tmp_path / "profile")
    assert not console
    assert ">Download 1 prediction<" in dom


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8", "cp1252"])
def test_files_are_read_in_the_encodings_of_tables(chromium, page, tmp_path, encoding):
    text = "speed <m/s>,floor,Gerät\n0.5,ice,groß\n-1,sand,\n"
    data = ("\ufeff" + text if encoding == "utf-16-be" else text).encode(encoding)  # utf-16 brings its own mark
    code = f"""
      const files = new DataTransfer(), input = document.querySelector("#live-table input[type=file]");
      files.items.add(new File([new Uint8Array({list(data)})], "new.csv"));
      input.files = files.files;
      input.dispatchEvent(new Event("change"));"""
    dom, console = browse(chromium, with_script(page, code, tmp_path / "page.html"), tmp_path / "profile")
    assert not console
    table = dom[dom.index('id="live-table"') :]
    assert "Download 2 predictions" in table
    assert ">Gerät</th>" in table
    assert ">groß</td>" in table


@pytest.mark.parametrize("decimal", [".", ","])
def test_numbers_are_read_as_in_tables(chromium, tmp_path, decimal):
    signs = (
        ["", "-", "+", "−"],
        ["", "$", "€ "],
        ["0", "7", "12.5", "12,5", "1,250", "1.250", "1.234.567,8", "1 234", ".5", "3e4", "0,123"],
    )
    texts = ["".join(parts) for parts in itertools.product(*signs, ["", " kg", "%", " °C", " am", "e", " m/s²"])] + [
        "x",
        "1 2",
        "12:30",
    ]
    functions = (resources.files("manifoldgp.inspection") / "live.js").read_text(encoding="utf-8").split("// Distance from")[0]
    code = f"const data = {{}}; {functions} return {json.dumps(texts)}.map((text) => writtenNumber(text, {decimal!r}));"
    dom, console = browse(chromium, with_script("<html><body></body></html>", code, tmp_path / "m.html"), tmp_path / "profile")
    assert not console
    here = [read_numbers([text], decimal) for text in texts]
    expected = [math.nan if number is None else float(number.numbers[0]) for number in here]
    assert 0.3 < np.isfinite(expected).mean() < 0.9
    np.testing.assert_array_equal([math.nan if number is None else number for number in outcome_of(dom)], expected)


WHEN = {"day first": "%d/%m/%Y %H:%M", "month first": "%m/%d/%Y %I:%M %p"}


@pytest.mark.parametrize("written", WHEN)
def test_dates_many_categories_and_gaps_are_encoded_as_the_model_does(chromium, tmp_path, written):
    rng, n = np.random.default_rng(0), 60
    when = pd.date_range("2026-02-03", periods=n, freq="661min")
    table = pd.DataFrame(
        {"when": when.strftime(WHEN[written]), "site": [f"site {k % 12}" for k in range(n)], "load": rng.normal(size=n)}
    )
    table["grip"] = table["load"] + np.arange(n) % 12
    gaps = table.assign(load=table["load"].where(table.index > 5))
    model = GPRegressor(restarts=1, max_iter=3, missing="impute", cyclic=("day", "week", "month", "year"))
    model.fit(gaps.drop(columns="grip"), gaps["grip"])
    write_model_report(model, tmp_path / "model.html")
    new, encoding = table.iloc[[0, 1, 30, 59]], model.table_encoding_
    view: Any = SimpleNamespace(
        model=model,
        encoding=encoding,
        columns=inspection.table_columns(list(encoding.names), encoding),
        X=encoding.training_inputs(gaps, gaps[["grip"]].to_numpy())[0].to_numpy(),
    )
    functions = (resources.files("manifoldgp.inspection") / "live.js").read_text(encoding="utf-8").split("// Distance from")[0]
    code = f"""
      const data = {{ live: {{ columns: {json.dumps(page_live._columns(view, 30))} }} }};
      {functions}
      const rows = {json.dumps(new[["when", "site", "load"]].astype(str).to_numpy().tolist())};
      const labels = [...document.querySelectorAll("#live label")].map((l) => [l.textContent, document.getElementById(l.htmlFor).nextSibling?.type]);
      const said = document.querySelector("#live .said").textContent;
      const [none, order] = [[], data.live.columns[0].order], day = order === "month first" ? "12/30/2026" : "30/12/2026", number = {{ kind: "number", shown: "load" }};
      for (const text of ["2026-12-30 25:00", "2026-12-30 14:75", "2026-12-30 14:05:60", "2026-12-30 13:05 AM", "2026-12-30 25:05 PM", "30.12.26"]) none.push(instant(text, order));
      const points = instant("04.03.2026", order), same = [day, day + " 13:05 PM", day + " 0:05 am"].map((text) => new Date(instant(text, order)).toISOString());
      const april = ["1974Q2", "Q2 1974", "1974-04", "1974M4", "1-Apr-1974", "Apr 1, 1974 0:00", "April 1974", "04.1974", "4/1974", "1974 Apr", "1. April 1974", "2. Quartal 1974"];
      const spelt = [...april, "soil 1974", "4.1974"].map((text) => instant(text, order));
      const numbers = ["%", "0x10", "Infinity", "", "1e", "5 %", "-.5e1", "+2.", "#WERT!"].map((text) => numbersOf(number, text));
      return {{ none, points, same, spelt, numbers, x: rows.map(encoded), labels, said, wrong: [encoded(["31.02.2026", "site 1", "0"]), encoded([rows[0][0], "elsewhere", "0"])] }};"""
    dom, console = browse(
        chromium, with_script((tmp_path / "model.html").read_text("utf-8"), code, tmp_path / "page.html"), tmp_path / "profile"
    )
    assert not console
    found = outcome_of(dom)
    np.testing.assert_allclose(found["x"], encoding.inputs(new).to_numpy(), rtol=1e-12, atol=1e-12)
    assert found["labels"] == [["when", "datetime-local"], ["site", None], ["load", "number"]]
    assert "about 95 % between" in found["said"]
    assert found["none"] == [None] * 6  # which JSON has for NaN
    assert found["points"] == (None if written == "month first" else 1772582400000)
    assert found["same"] == [f"2026-12-30T{time}:00.000Z" for time in ("00:00", "13:05", "00:05")]
    assert found["spelt"] == [134006400000] * 12 + [None] * 2
    wrong = [f'load: "{text}" is not a number' for text in ("%", "0x10", "Infinity", "1e")]
    assert found["numbers"] == [*wrong[:3], "load is missing", wrong[3], [5], [-5], [2], "load is missing"]
    assert found["wrong"][0] == 'when: "31.02.2026" is not a date'
    assert found["wrong"][1].startswith('site: "elsewhere" is none of site 0, site 1, site 10')


def test_a_line_break_in_a_name_costs_no_control_and_no_table(chromium, tmp_path):
    """As headings in spreadsheets have it: every text column fell apart into 0-to-1 sliders, and no table could be pasted."""
    rng, n = np.random.default_rng(0), 48
    table = pd.DataFrame(
        {
            "Druck\n(bar)": rng.normal(size=n),
            "day\nof test": pd.date_range("2026-03-01", periods=n, freq="D").strftime("%Y-%m-%d"),
            "oil": rng.choice(["thin", "thick\ncold"], n),
            "test\nsite": [f"site {k % 12}" for k in range(n)],
        }
    )
    model = GPRegressor(restarts=1, max_iter=3).fit(
        table, pd.Series(table["Druck\n(bar)"] + rng.normal(size=n), name="flow\n(l/s)")
    )
    write_model_report(model, tmp_path / "model.html")
    own = table.to_csv(index=False, sep=";").replace("\n", "\r\n")
    blank = table.rename(columns=lambda name: name.replace("\n", " ")).replace("thick\ncold", "thick cold").to_csv(index=False)
    code = f"""
      const box = document.querySelector("#live-table textarea"), go = document.querySelector("#live-table button");
      const cells = (text) => {{ box.value = text; go.click(); return [...document.querySelectorAll("#live-table tbody tr")].map((row) => [...row.cells].slice(4).map((cell) => cell.textContent)); }};
      const said = (text) => {{ cells(text); return document.querySelector("#live-table [role=status]").textContent; }};
      return {{ own: cells({json.dumps(own)}), blank: cells({json.dumps(blank)}), lacks: said("oil,x\\nthin,1\\n"), asked: box.placeholder,
        labels: [...document.querySelectorAll("#live label")].map((l) => [l.textContent, document.getElementById(l.htmlFor).tagName]) }};"""
    page = with_script((tmp_path / "model.html").read_text("utf-8"), code, tmp_path / "page.html")
    dom, console = browse(chromium, page, tmp_path / "profile")
    assert not console
    found = outcome_of(dom)
    assert found["labels"] == [["Druck (bar)", "INPUT"], ["day of test", "INPUT"], ["oil", "SELECT"], ["test site", "SELECT"]]
    assert found["asked"] == "Druck (bar),day of test,oil,test site\n..."
    assert found["lacks"] == "The table lacks these columns: Druck (bar), day of test, test site."
    assert found["own"] == found["blank"]
    shown = np.array([[float(cell.replace("−", "-")) for cell in row[:2]] for row in found["own"]])
    np.testing.assert_allclose(shown, np.stack(model.predict(table[:20], return_std=True), 1), rtol=1e-3, atol=6e-4)
    assert {row[4] for row in found["own"]} == {""}


def test_cells_without_a_value_are_those_of_tables(chromium, tmp_path):
    texts = [*sorted({*STR_NA_VALUES, *NO_VALUE, *ERROR_CELLS}), "N.A.", "K.A.", "none", "0", "#", "<na>", "missing"]
    functions = (resources.files("manifoldgp.inspection") / "live.js").read_text(encoding="utf-8").split("// Distance from")[0]
    code = f"""
      const data = {{ live: {{}} }}; {functions}
      const columns = [{{ kind: "number" }}, {{ kind: "category" }}];
      return columns.map((column) => {json.dumps(texts)}.filter((text) => lacking(column, text)));"""
    dom, console = browse(chromium, with_script("<html><body></body></html>", code, tmp_path / "m.html"), tmp_path / "profile")
    assert not console
    among_numbers = [text for text in texts if text in STR_NA_VALUES or text.casefold() in NO_VALUE]
    assert outcome_of(dom) == [among_numbers, [text for text in texts if text in {*STR_NA_VALUES, *ERROR_CELLS}]]


def test_names_that_the_page_asks_for_are_those_that_it_reads(chromium, tmp_path):
    """Quotes inside of a name are doubled, and an apostrophe before what a spreadsheet would compute is none of it."""
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=['beta,gain "hFE"', "=V_m"])
    model = GPRegressor(restarts=1, max_iter=3).fit(table, table["=V_m"])
    write_model_report(model, tmp_path / "m.html")
    write_table(table.head(3), tmp_path / "t.csv")
    code = f"""
      const box = document.querySelector("#live-table textarea"), go = document.querySelector("#live-table button");
      const reasons = (text) => {{ box.value = text; go.click(); return [...document.querySelectorAll("#live-table tbody tr")].map((row) => row.lastChild.textContent); }};
      return [reasons(box.placeholder.replace("...", "1,2")), reasons({json.dumps((tmp_path / "t.csv").read_text())})];"""
    page = with_script((tmp_path / "m.html").read_text(encoding="utf-8"), code, tmp_path / "m2.html")
    dom, console = browse(chromium, page, tmp_path / "profile")
    assert not console
    assert outcome_of(dom) == [[""], ["", "", ""]]


@pytest.mark.parametrize("warping", [None, "tanh"])
def test_intervals_are_those_of_predict(chromium, tmp_path, warping):
    """They were 1.96 standard deviations to either side of a mixture with tails, and of warped targets longer than of others."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=40)})
    y = table["x"] + rng.standard_t(2, size=40)
    model = ManifoldGPRegressor((2,), averaging=SHORT_STACK, target_warping=warping).fit(table, y)
    write_model_report(model, tmp_path / "m.html")
    text = table.to_csv(index=False)
    code = f"""
      document.querySelector("#live-table textarea").value = {json.dumps(text)};
      document.querySelector("#live-table button").click();
      const body = [...document.querySelectorAll("#live-table tbody tr")].map((row) => [...row.cells].slice(1, 5).map((cell) => cell.textContent));
      return [body, document.querySelector("#live-table").previousElementSibling.textContent];"""
    page = with_script((tmp_path / "m.html").read_text(encoding="utf-8"), code, tmp_path / "m2.html")
    dom, console = browse(chromium, page, tmp_path / "profile")
    assert not console
    cells, words = outcome_of(dom)
    mean, std, low, high = np.array([[float(cell.replace("−", "-")) for cell in row] for row in cells]).T
    shown, predicted = np.stack([low, high], 1), model.predict_quantiles(table[:20], [0.025, 0.975])
    beside = np.stack([mean - 1.96 * std, mean + 1.96 * std], 1)
    np.testing.assert_allclose(shown, predicted, atol=3e-3, rtol=1e-3)
    assert np.abs(beside - predicted).max() > 0.05
    assert "the quantiles 0.025 and 0.975" in words


def test_a_flag_is_chosen_as_the_table_has_it(chromium, tmp_path):
    """It had a slider from 0 to 1."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"contact": rng.uniform(size=40) < 0.5, "day": pd.date_range("2026-01-01", periods=40), "x": rng.normal(size=40)}
    )
    model = GPRegressor(restarts=1, max_iter=30).fit(table, table["x"] + 3.0 * table["contact"])
    write_model_report(model, tmp_path / "m.html")
    code = """
      const box = document.querySelector("#live select"), said = () => document.querySelector(".said strong").textContent;
      const of = (value) => { box.value = value; box.dispatchEvent(new Event("change")); return +said().split(": ")[1].replace("−", "-"); };
      return [[...box.options].map((o) => o.textContent), of("true") - of("false"), document.querySelectorAll("#live input[type=range]").length];"""
    page = with_script((tmp_path / "m.html").read_text(encoding="utf-8"), code, tmp_path / "m2.html")
    dom, console = browse(chromium, page, tmp_path / "profile")
    assert not console
    options, difference, sliders = outcome_of(dom)
    assert (options, sliders) == (["false", "true"], 2)
    assert difference == pytest.approx(3.0, abs=0.5)


@pytest.mark.parametrize("missing", ["impute", "error"])
def test_rows_with_gaps_are_told_with_what_fills_them_in(chromium, tmp_path, missing):
    """A page said '"-" is not a number' of rows that mgp predict predicts."""
    rng, n = np.random.default_rng(0), 40
    table = pd.DataFrame({"Öl [°C]": rng.normal(size=n), "note": rng.choice(["wet", "dry"], n)})
    model = GPRegressor(restarts=1, max_iter=3, missing=missing)
    gaps = table["Öl [°C]"].where(table.index > (5 if missing == "impute" else -1))
    model.fit(table.assign(**{"Öl [°C]": gaps}), pd.Series(table["Öl [°C]"] + rng.normal(size=n), name="grip"))
    write_model_report(model, tmp_path / "model.html")
    code = """
      document.querySelector("#live-table textarea").value = "Öl [°C];note\\n0,5;wet\\n-;wet\\n;dry\\n0,25;\\n";
      document.querySelector("#live-table button").click();
      return [document.querySelector("#live-table").previousSibling.textContent, ...[...document.querySelectorAll("#live-table tbody tr")].map((row) => row.lastChild.textContent)];"""
    page = with_script((tmp_path / "model.html").read_text("utf-8"), code, tmp_path / "page.html")
    dom, console = browse(chromium, page, tmp_path / "profile")
    assert not console
    above, *reasons = outcome_of(dom)
    fills = missing == "impute"
    assert above.endswith("This page predicts complete rows only; mgp predict fills gaps in.") == fills
    more = ": this page predicts complete rows only, mgp predict fills gaps in" * fills
    assert reasons == ["", *(f"{name} is missing{more}" for name in ("Öl [°C]", "Öl [°C]", "note"))]


def test_the_controls_begin_at_a_training_row(chromium, tmp_path):
    """Two clusters: the medians of all inputs together, and the first category, lie where there is no row. Numbers far from zero have digits enough."""
    rng, n = np.random.default_rng(0), 40
    upper = np.arange(n) % 5 > 1
    day = (pd.Timestamp("2026-03-01") + pd.to_timedelta(np.where(upper, 300, 0) + rng.integers(0, 5, n), unit="D")).strftime(
        "%Y-%m-%d"
    )
    table = pd.DataFrame(
        {"day": day, "kind": np.where(upper, "z", "a"), "load": 54321.0 + 10.0 * upper + 0.1 * rng.normal(size=n)}
    )
    model = GPRegressor(restarts=1, max_iter=3).fit(table, pd.Series(table["load"] + rng.normal(size=n), name="grip"))
    write_model_report(model, tmp_path / "model.html")
    code = """return { said: document.querySelector("#live .said").textContent, kind: document.querySelector("#live select").value,
      day: [...document.querySelectorAll("#live input[type=date]")].map((field) => field.value) };"""
    page = with_script((tmp_path / "model.html").read_text("utf-8"), code, tmp_path / "page.html")
    found = outcome_of(browse(chromium, page, tmp_path / "profile")[0])
    assert found["said"].endswith("This is a training row.")
    assert found["kind"] == "z"
    assert found["day"][0] in set(day[upper])


def test_the_controls_begin_at_a_row_without_gaps(chromium, tmp_path):
    """Most rows have a gap; the controls have none, so that what they show of such a row would be another one."""
    rng, n = np.random.default_rng(0), 40
    table = pd.DataFrame({"load": rng.normal(size=n), "note": [None] * 32 + ["wet", "dry"] * 4})
    model = GPRegressor(restarts=1, max_iter=3, missing="impute").fit(
        table, pd.Series(table["load"] + rng.normal(size=n), name="grip")
    )
    write_model_report(model, tmp_path / "model.html")
    code = """return document.querySelector("#live .said").textContent;"""
    page = with_script((tmp_path / "model.html").read_text("utf-8"), code, tmp_path / "page.html")
    assert outcome_of(browse(chromium, page, tmp_path / "profile")[0]).endswith("This is a training row.")


def test_a_model_that_is_too_large_says_so(model, monkeypatch, tmp_path):
    monkeypatch.setattr(page_live, "MOST_BYTES", 1000)
    write_model_report(model, tmp_path / "model.html")
    html = (tmp_path / "model.html").read_text(encoding="utf-8")
    assert "a page carries at most 0.0 MB: use <code>mgp predict</code>" in html
    assert 'id="live"' not in html


@pytest.mark.parametrize(
    ("below", "units"),
    [("m;°C;\n", True), ("m;;\n", True), (";;m\n", False), ("m;20;\n", False), ("a long description;°C;\n", False), ("", False)],
)
def test_a_row_of_units_is_left_out_where_tables_leave_it_out(chromium, tmp_path, below, units):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"way": rng.normal(size=30), "heat": rng.normal(size=30), "floor": rng.choice(["ice", "sand"], 30)})
    model = GPRegressor(restarts=1, max_iter=3).fit(X, pd.Series(X["way"] + rng.normal(size=30), name="grip"))
    write_model_report(model, tmp_path / "model.html")
    text = f"way;heat;floor\n{below}0,5;1;ice\n1;2;ice\n1,5;-2;sand\n"
    (tmp_path / "new.csv").write_text(text, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = len(read_table(tmp_path / "new.csv"))
    code = f"""
      document.querySelector("#live-table textarea").value = {json.dumps(text)};
      document.querySelector("#live-table button").click();
      return [document.querySelectorAll("#live-table tbody tr").length, document.querySelector("#live-table [role=status]").textContent];"""
    page = with_script((tmp_path / "model.html").read_text("utf-8"), code, tmp_path / "page.html")
    dom, console = browse(chromium, page, tmp_path / "profile")
    assert not console
    rows, said = outcome_of(dom)
    assert rows == read == 3 + (below != "" and not units)
    assert ("The row of units below the names is left out." in said) == units


def test_controls_have_the_numbers_of_the_table():
    """The low end of a 0/1 column was 3.5e-18: what standardising leaves in the last digits."""
    X = np.c_[np.arange(34) == 3, np.linspace(-1, 1, 34).round(2)].astype(float)
    model = GPRegressor(restarts=1, max_iter=3).fit(X, X.sum(1))
    columns = inspection.table_columns(["wet", "speed"], None)
    view: Any = SimpleNamespace(model=model, encoding=None, columns=columns, X=inspection.chosen_inputs(model, None))
    ends = [(column["low"], column["high"], column["start"]) for column in page_live._columns(view, 33)]
    assert ends == [(0.0, 1.0, 0.0), (-1.0, 1.0, 1.0)]


def test_the_decimal_sign_of_a_pasted_table_is_that_of_its_file(chromium, tmp_path):
    rng = np.random.default_rng(0)
    cells = [
        "0",
        "120",
        "2500",
        "0,5",
        "1,250",
        "1.250",
        "1.5",
        "1,250.5",
        "1.250,5",
        "-1,250",
        "x",
        "",
        "1,250 kg",
        "1.250 kg",
        "1.250e3",
        "12 kg",
        "01.02.2026",
    ]
    tables = [rng.choice(cells, (rng.integers(1, 4), rng.integers(1, 4))).tolist() for _ in range(300)]
    thousands = ["1.250", "2.250 €", "12.500", "957", "0", "9999", ""]
    tables += [rng.choice(thousands, (rng.integers(3, 8), 2)).tolist() for _ in range(100)]
    tables += [rng.choice([*thousands, "1.250.000", "1,250,000", "1,250"], (rng.integers(1, 4), 2)).tolist() for _ in range(100)]
    tables += [[["1.250"]] * 300 + [["957"]]]
    functions = (resources.files("manifoldgp.inspection") / "live.js").read_text(encoding="utf-8").split("// Distance from")[0]
    known = [rng.choice(["", ".", ","], 4).tolist() for _ in tables]
    pairs = json.dumps(list(zip(tables, known, strict=True)))
    code = (
        f"const data = {{}}; {functions} return {pairs}.map(([rows, known]) => [decimalSign(rows)[0], decimalSign(rows, known)]);"
    )
    dom, console = browse(chromium, with_script("<html><body></body></html>", code, tmp_path / "m.html"), tmp_path / "profile")
    assert not console
    expected = [decimal_sign(table).sign for table in tables]
    assert 0.2 < expected.count(",") / len(expected) < 0.8
    with_known = [decimal_sign(table, known=dict(enumerate(signs))) for table, signs in zip(tables, known, strict=True)]
    assert outcome_of(dom) == [[sign, [found.sign, not found.unclear]] for sign, found in zip(expected, with_known, strict=True)]


@pytest.mark.filterwarnings("ignore:Texts in .* are read as numbers", "ignore:Commas in")
def test_a_pasted_table_that_leaves_its_decimal_sign_open_is_read_as_the_fit_was(chromium, tmp_path):
    (tmp_path / "data.csv").write_text("\n".join(["km;y", *(f"1.{100 + 37 * n};0,{n % 7}" for n in range(24))]) + "\n")
    encoded = read_table(tmp_path / "data.csv")
    assert encoded["km"].max() == 1951
    model = GPRegressor(restarts=1, max_iter=3).fit(encoded[["km"]], encoded["y"])
    model.table_encoding_ = TableEncoding.learn(encoded, ["y"])
    write_model_report(model, tmp_path / "model.html")
    tables = [
        "km;z\n1.250;3\n",
        "km\n1.250\n",
        "km,z\n1.250,3\n",
        "km;z\n1.250;0.5\n",
        "km\n1,250\n957\n",
        "km;z\n1.250;x\nn.a.;3\n",
    ]
    values = []
    for text in tables:
        (tmp_path / "new.csv").write_text(text)
        values.append([str(cell) for cell in read_table(tmp_path / "new.csv", like=model.table_encoding_.reading)["km"]])
    assert values == [["1250"], ["1250"], ["1250"], ["1.25"], ["1.25", "957.0"], ["1250.0", "nan"]]
    tables.append("km;z\n1250,0;3,5\n1,25;2,5\n957,0;2,5\n")
    code = f"""
      const box = document.querySelector("#live-table textarea"), go = document.querySelector("#live-table button");
      const means = (text) => {{ box.value = text; go.click(); return [...document.querySelectorAll("#live-table tbody tr")].map((row) => row.cells[row.cells.length - 5].textContent); }};
      return {json.dumps(tables)}.map(means);"""
    dom, console = browse(
        chromium, with_script((tmp_path / "model.html").read_text("utf-8"), code, tmp_path / "m.html"), tmp_path / "profile"
    )
    assert not console
    *found, (thousands, one, hundreds) = outcome_of(dom)
    assert found == [[thousands], [thousands], [thousands], [one], [one, hundreds], [thousands, ""]]


def test_units_are_found_on_the_page_where_tables_find_them(chromium, tmp_path):
    rng = np.random.default_rng(1)
    firsts = ["m", "°C", "1/s", "kg", "-", "na", "", "3", "10^6", "[10^3 t]", "10⁶", "x1000", "1e3", "1E-6 t", "1e+03"]
    others = ["0,5", "1", "", "-", "2 kg", "x", "2e3"]
    tables = []
    for _ in range(300):
        rows, columns = rng.integers(2, 5), rng.integers(2, 5)
        below = rng.choice(others, (rows, columns), p=[0.42, 0.42, 0.05, 0.05, 0.0, 0.03, 0.03])
        tables.append([rng.choice(firsts, columns).tolist(), *below.tolist()])
    tables += [[["m", "1/s", "K"], *[["1", cell, "2"]] * 3] for cell in ("2", "2/s")]
    tables += [[["m", "1e3 t", "K"], *[["1", cell, "2"]] * 3] for cell in ("2", "2 t", "2e3")]
    tables += [
        [[*first, "3"], *[["1"] * (1 + len(first))] * 3] for first in (["m"], ["m", "K"], ["m", "K", "s"], ["m", "5", "s", "K"])
    ]
    functions = (resources.files("manifoldgp.inspection") / "live.js").read_text(encoding="utf-8")
    functions = (
        functions.split("// Distance from")[0]
        + functions[functions.index("// Whether the first of these") : functions.index("// Predictions of a table")]
    )
    code = f"const data = {{}}; {functions} return {json.dumps(tables)}.map((rows) => unitsAbove(rows, ','));"
    dom, console = browse(chromium, with_script("<html><body></body></html>", code, tmp_path / "m.html"), tmp_path / "profile")
    assert not console
    expected = [bool(units_row(pd.DataFrame(table, dtype=object).replace("", np.nan), ",")) for table in tables]
    assert 0.03 < np.mean(expected) < 0.9
    assert outcome_of(dom) == expected
