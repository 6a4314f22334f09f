"""The page of a fitted model: complete, self-contained, honest about its rows, and alive in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import escape
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from browser import browse, outcome_of, with_script
from fitted_models import AVERAGINGS, fitted, full_bayes, plain_gp, table
from manifoldgp import GPRegressor, ManifoldGPRegressor, inspection
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.errors import InputError
from manifoldgp.inspection import html_page
from manifoldgp.inspection.page import write_model_report
from manifoldgp.inspection.page_tables import linear_rmse
from short_fits import few_starts

SECTIONS = ("try", "predictions", "trust", "errors", "summary", "learned", "training", "data", "use")


def written(model, path: Path, **arguments) -> str:
    assert write_model_report(model, path, **arguments) == path
    return path.read_text(encoding="utf-8")


def charts_of(html: str) -> dict:
    embedded = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', html, re.S)
    return {chart["id"]: chart for chart in json.loads(embedded.group(1))["charts"]}  # pyright: ignore


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    """A stack of five named inputs, with test rows."""
    model = fitted("stack", 5, named=True)
    X, y = table(30, 5, seed=3)
    frame = pd.DataFrame(X, columns=model.feature_names_in_)
    return written(model, tmp_path_factory.mktemp("page") / "model.html", title="Knee <left>", X=frame, y=y)


def test_every_section_and_chart_is_there(page):
    assert re.findall(r'<section id="([a-z-]+)"', page) == list(SECTIONS)
    charts = charts_of(page)
    assert {"prediction", "map", "relevance", "observed", "residuals", "coverage", "pit", "weights", "starts"} <= set(charts)
    for name in charts:
        assert page.count(f'id="chart-{name}"') == 1
    assert page.count('<p class="caption"><b>') == len(charts)


def test_names_are_used_and_cannot_become_markup(page):
    assert "<title>Knee &lt;left&gt;</title>" in page
    assert "joint 1 &lt;rad&gt;" in page
    assert "<rad>" not in page.split('id="page-data"')[0]
    assert charts_of(page)["prediction"]["choices"][0]["options"][0] == "joint 0 <rad>"  # the strongest first


def test_the_page_says_which_rows_it_shows(page, tmp_path):
    assert "test rows, which the model has not seen" in page
    assert "training rows, held out" in page
    without = written(fitted("stack", 2), tmp_path / "a.html")
    assert "no model that predicts them has seen them" in without
    assert "Training rows (leave-one-out, not the fit to known values): each predicted from all the others, which is" in without
    assert "which the model has not seen" not in without
    easier = "which is easier than the held-out rows were whose typical error stands above"
    assert without.count(easier) == 3  # the largest errors were many times smaller than the typical one
    assert easier not in page
    single = written(fitted("single", 2), tmp_path / "b.html")
    assert "a little too kind" in single
    assert "training rows, held out" not in single


def test_rows_that_are_left_out_alone_say_who_of_their_own_was_known(tmp_path):
    """Beside "predicted against observed" nothing was said of the other rows of a child, which are nearly its own; beside the largest errors it was."""
    X, y = table(36, 1)
    frame = pd.DataFrame({"x": X[:, 0], "child": np.repeat(list("abcdef"), 6), "y": y})
    encoding = TableEncoding.learn(frame, ["y"], group="child")
    model = ManifoldGPRegressor((3, 2), averaging=few_starts("stack")).fit(frame[["x"]], y, groups=frame["child"])
    model.table_encoding_ = encoding
    easier = "which is easier than the held-out rows were whose typical error stands above"
    page = written(model, tmp_path / "a.html")
    assert page.count(f"each predicted from all the others, those of the same child among them, {easier}") == 3
    model.fit(X, y, ordered=True)
    assert f"those just before and after it among them, {easier}" in written(model, tmp_path / "b.html")
    single = GPRegressor(restarts=1, max_iter=3).fit(frame[["x"]], y)
    single.table_encoding_ = encoding
    assert "those of the same child among them, and new rows are harder." in written(single, tmp_path / "c.html")


def test_rows_of_the_fit_are_not_called_unseen(tmp_path):
    """Of a page with --test on the training table it was said that the model had not seen these rows."""
    model = fitted("single", 2)
    new, of_new = table(30, 2, seed=3)
    known = inspection.training_rows(model)
    assert inspection.rows_of_the_fit(model, known.X, known.y) == len(known.y)
    assert inspection.rows_of_the_fit(model, new, of_new) == 0
    assert inspection.rows_of_the_fit(model, known.X, known.y + 1.0) == 0
    both = np.r_[new, known.X[:4]], np.r_[of_new, known.y[:4]]
    html = written(model, tmp_path / "a.html", X=both[0], y=both[1])
    assert "test rows, 4 of which the model was fitted to (or to equal ones): errors on new rows are larger" in html
    assert "which the model has not seen" not in html


def test_it_says_how_to_use_the_model(page):
    for text in ("manifoldgp.load(", "mgp predict model.mgp", "mgp export model.mgp --to onnx", "joint 0 &lt;rad&gt;, joint 1"):
        assert text in page


def test_numbers_of_the_data_settings_and_starts_are_there(page):
    model = fitted("stack", 5, named=True)
    assert page.count("<td>input</td>") == 5
    assert page.count("<td>target</td>") == 1
    assert f"<b>{escape(repr(model.averaging))}</b>" in page  # settings that differ from the defaults
    assert page.split('class="sortable"')[1].split("</table>")[0].count("<tr>") == 1 + len(model.starts_)
    for name in model.diagnose().numbers:
        assert escape(name) in page


def test_what_the_charts_hold_is_what_the_model_says(page):
    model, (X, y) = fitted("stack", 5, named=True), table(30, 5, seed=3)
    frame = pd.DataFrame(X, columns=model.feature_names_in_)
    points = charts_of(page)["observed"]["specs"][0]["layers"][1]
    np.testing.assert_allclose(points["x"], y, rtol=1e-4)
    np.testing.assert_allclose(points["y"], model.predict(frame), rtol=1e-3, atol=1e-4)
    bounds = model.predict_quantiles(frame, (0.025, 0.975))
    np.testing.assert_allclose(np.stack([points["lower"], points["upper"]], 1), bounds, rtol=1e-3, atol=1e-3)
    rmse = float(np.sqrt(np.mean((model.predict(frame) - y) ** 2)))
    assert f"<td>{rmse:.4g}</td>" in page


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("averaging", AVERAGINGS)
def test_every_averaging_has_its_page(averaging, inputs, tmp_path):
    charts = charts_of(written(fitted(averaging, inputs), tmp_path / "model.html"))
    assert ("weights" in charts) == (averaging != "single")
    assert ("map" in charts) == (inputs > 1)
    assert "starts" in charts


def test_full_bayes_has_its_page(tmp_path):
    html = written(full_bayes(), tmp_path / "bayes.html")
    assert "draws from the posterior" in html
    assert "starts" not in charts_of(html)


def test_a_plain_gp_has_no_features(tmp_path):
    html = written(plain_gp(2), tmp_path / "gp.html")
    assert "This model has no learned features" in html
    assert "features" not in charts_of(html)


def test_several_targets_can_be_chosen(tmp_path):
    html = written(fitted("fast", 2, 2), tmp_path / "two.html", columns=["speed", "load", "torque", "heat"])
    charts = charts_of(html)
    assert "from <b>speed</b> and <b>load</b>" in html
    for chart in charts.values():
        assert chart["choices"][-1]["options"] == ["torque", "heat"]
        assert len(chart["specs"]) == np.prod([len(choice["options"]) for choice in chart["choices"]])
    titles = [spec["title"] for spec in charts["prediction"]["specs"]]
    assert titles[:2] == [
        f"Prediction of {t} along {charts['prediction']['choices'][0]['options'][0]}" for t in ("torque", "heat")
    ]


def test_pages_stay_small_and_say_what_is_left_out(tmp_path):
    """Many rows and inputs: at most a thousand rows are drawn, a dozen slices, and the page says so."""
    X, y = table(1300, 15)
    model = GPRegressor(restarts=1, max_iter=3).fit(X, y)
    html = written(model, tmp_path / "large.html", X=X[:800], y=y[:800])
    assert len(html) < 1_000_000 + 4 / 3 * model.predictor().nbytes  # the model itself, which the page computes with, in base64
    assert "The 12 inputs that matter most can be chosen." in html
    assert "At most 600 of 800 rows are drawn." in html
    assert len(charts_of(html)["observed"]["specs"][0]["layers"][1]["x"]) == 600
    one = GPRegressor(restarts=1, max_iter=3).fit(X[:, :1], y)
    assert "1,000 of 1,300 training rows are drawn." in written(one, tmp_path / "one.html")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": [[1.0]]}, "Test rows need both X and y"),
        ({"columns": ["a", "b", "c"]}, "columns must name the 1 input, or the 1 input and then the 1 target"),
        ({"columns": "x"}, "columns must name the 1 input"),
    ],
)
def test_wrong_arguments_are_refused_and_no_file_is_left(arguments, message, tmp_path):
    with pytest.raises(InputError, match=message):
        write_model_report(fitted("single"), tmp_path / "model.html", **arguments)
    assert not (tmp_path / "model.html").exists()


@pytest.mark.parametrize("given", [False, True])
def test_a_linear_model_is_the_one_that_scikit_learn_fits(given):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(30, 3)) * [1.0, 50.0, 0.0] + 7.0, rng.normal(size=(8, 3)) + 7.0
    y, observed = X @ [1.0, 0.1, 0.0] + rng.normal(size=30), rng.normal(size=8)
    linear = make_pipeline(StandardScaler(), Ridge(alpha=1.0))
    if given:
        error = linear.fit(X, y).predict(new) - observed
    else:  # each row left out, with the scales of all rows
        Z = StandardScaler().fit_transform(X)
        error = cross_val_predict(Ridge(alpha=1.0), Z, y, cv=LeaveOneOut()) - y
    found: Any = SimpleNamespace(X=new if given else X, observed=observed if given else y, left_out=not given)
    assert linear_rmse(found, X, y) == pytest.approx(np.sqrt(np.mean(error**2)))


def test_the_page_says_why_held_out_rows_have_no_linear_model(page):
    """It stood beside the rows that are left out one at a time alone, where everything errs less, and invited a comparison with those above."""
    shown = re.search(r"training rows, held out</td>(.*?)</tr>", page)
    assert shown is not None
    cells = re.findall(r"<td>(.*?)</td>", shown[1])
    assert cells[4] == "–"
    assert "It was not trained on the folds of the held-out rows (–)" in page


def test_data_cannot_end_the_script():
    html = html_page("t", "", [], {"evil": "</script><script>alert(1)</script>"})
    assert "</script><script>alert" not in html


def test_own_scripts_run_before_the_page_is_ready():
    html = html_page("t", "", [], {}, scripts=["drawn.push(mine);"])
    places = [html.index(text) for text in ("const drawn = []", "drawn.push(mine);", 'dataset.ready = "yes"')]
    assert places == sorted(places)


def test_the_page_needs_no_matplotlib():
    code = "import sys; sys.modules['matplotlib'] = None; from manifoldgp.inspection.page import write_model_report"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_the_page_needs_nothing_from_outside(page):
    assert re.findall(r'(?:src|href)\s*=\s*"(?!data:|#)[^"]*"', page) == []
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in page


def test_known_noise_is_mentioned(tmp_path):
    X, y = table(30, 1)
    model = GPRegressor(noise="known", restarts=1, max_iter=5).fit(X, y, noise_std=np.full(30, 0.1))
    assert "without the noise that was given for single rows at training" in written(model, tmp_path / "known.html")


# ---- in a real browser

POINT = """
  const plot = (name) => document.querySelector(`#chart-${name} svg`);
  const at = (name, x, y) => { const b = plot(name).getBoundingClientRect(); return {clientX: b.left + x * b.width, clientY: b.top + y * b.height, bubbles: true, cancelable: true}; };
  const point = (kind, name, x, y, more = {}) => plot(name).dispatchEvent(new PointerEvent(kind, {...at(name, x, y), pointerType: "mouse", pointerId: 1, ...more}));
  const said = (name) => document.querySelector(`#chart-${name} .readout`).textContent;
  const labels = (name) => [...plot(name).querySelectorAll("text")].map(t => t.textContent).join(" ");
  const wheel = (name, delta, more = {}) => plot(name).dispatchEvent(new WheelEvent("wheel", {...at(name, 0.5, 0.4), deltaY: delta, ...more}));
"""


def test_the_page_lives_in_a_browser(chromium, page, tmp_path):
    code = (
        POINT
        + """
      const marks = "svg.plot path, svg.plot rect.bar, svg.plot circle, svg.plot image";
      const found = {ready: document.documentElement.dataset.ready, drawn: [...document.querySelectorAll("[id^=chart-]")].map(c => c.querySelectorAll(marks).length)};
      point("pointermove", "prediction", 0.5, 0.5); found.slice = said("prediction");
      point("pointermove", "map", 0.5, 0.5); found.map = said("map");
      point("pointermove", "relevance", 0.4, 0.1); found.relevance = said("relevance");
      point("pointermove", "pit", 0.5, 0.5); found.pit = said("pit");
      point("pointermove", "coverage", 0.5, 0.5); found.coverage = said("coverage");
      const dot = plot("observed").querySelector("circle.dot").getBoundingClientRect(), whole = plot("observed").getBoundingClientRect();
      point("pointermove", "observed", (dot.left + 2 - whole.left) / whole.width, (dot.top + 2 - whole.top) / whole.height); found.observed = said("observed");
      const select = document.querySelector("#chart-prediction select"); select.value = 1; select.dispatchEvent(new Event("change")); found.second = labels("prediction");
      const chips = document.querySelectorAll("#chart-weights .chip"), bars = () => plot("weights").querySelectorAll("rect.bar").length;
      found.bars = [bars()]; chips[1].click(); found.bars.push(bars());
      found.requests = performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"));
      found.wide = document.documentElement.scrollWidth > innerWidth;
      return found;
    """
    )
    dom, console = browse(chromium, with_script(page, code, tmp_path / "page.html"), tmp_path / "profile")
    assert console == []
    found = outcome_of(dom)
    assert isinstance(found, dict), found
    assert found["ready"] == "yes"
    assert len(found["drawn"]) == len(charts_of(page))
    assert min(found["drawn"]) >= 1
    assert re.fullmatch(r"joint 0 <rad> = [−\d.]+[−\d.]+ \[[−\d.]+, [−\d.]+\]", found["slice"]), found["slice"]
    assert re.search(r"joint . <rad> [−\d.]+joint . <rad> [−\d.]+predicted y [−\d.]+", found["map"])
    assert found["relevance"].startswith(" joint 0 <rad> ")
    assert re.search(r"40 to 50 %|50 to 60 %", found["pit"])
    assert re.search(r"should hold = 0\.\d+holds 0\.\d+", found["coverage"])
    assert re.search(r"row \d+observed [−\d.]+predicted [−\d.]+95 % interval from [−\d.]+to [−\d.]+", found["observed"])
    assert charts_of(page)["prediction"]["choices"][0]["options"][1] in found["second"]
    layers = charts_of(page)["weights"]["specs"][0]["layers"]  # one for each variance factor, with a bar for each group
    assert found["bars"] == [len(shown) * len(layers[0]["label"]) for shown in (layers, layers[1:])]
    assert found["requests"] == []
    assert found["wide"] is False


@pytest.mark.parametrize(("scale", "told"), [(2e5, "150000"), (1.2e-4, "1.25e-4")])
def test_ticks_of_prices_and_of_small_numbers_can_be_told_apart(chromium, scale, told, tmp_path):
    """An axis of prices read 1e+5, 2e+5, 2e+5, 3e+5, 3e+5."""
    X = np.linspace(0, 1, 30)[:, None]
    model = GPRegressor(restarts=1, max_iter=20).fit(X, scale * (1 + 0.9 * np.sin(6 * X[:, 0])))
    text = written(model, tmp_path / "model.html", columns=["x", "price (€)"])
    assert re.search(r"<dt>typical error \(rows left out\)</dt><dd>[^<]+ €</dd>", text)
    code = (
        POINT
        + """
      const ticks = [...plot("observed").querySelectorAll("text")].map(t => t.textContent);
      return {ticks};
    """
    )
    dom, console = browse(chromium, with_script(text, code, tmp_path / "page.html"), tmp_path / "profile")
    assert console == []
    ticks = outcome_of(dom)["ticks"]
    assert told in ticks
    assert max(map(ticks.count, ticks)) == 2  # once on either axis


def test_zoom_move_pinch_and_reset(chromium, page, tmp_path):
    code = (
        POINT
        + """
      const first = labels("prediction");
      const found = {};
      wheel("prediction", -300); found.unasked = labels("prediction") === first;            // the page scrolls until the picture is clicked
      plot("prediction").focus(); wheel("prediction", -300); const near = labels("prediction"); found.wheel = near !== first;
      point("pointerdown", "prediction", 0.5, 0.5, {buttons: 1}); point("pointermove", "prediction", 0.4, 0.5, {buttons: 1}); point("pointerup", "prediction", 0.4, 0.5);
      const moved = labels("prediction"); found.drag = moved !== near;
      plot("prediction").dispatchEvent(new MouseEvent("dblclick", {bubbles: true})); found.reset = labels("prediction") === first;
      const touch = {pointerType: "touch"};
      point("pointerdown", "prediction", 0.45, 0.5, {...touch, pointerId: 11}); point("pointerdown", "prediction", 0.55, 0.5, {...touch, pointerId: 12});
      point("pointermove", "prediction", 0.85, 0.5, {...touch, pointerId: 12});
      for (const id of [11, 12]) point("pointerup", "prediction", 0.85, 0.5, {...touch, pointerId: id});
      found.pinch = labels("prediction") !== first;
      const tools = document.querySelectorAll("#chart-prediction .tool"); tools[2].click(); found.button = labels("prediction") === first;
      tools[1].click(); found.closer = labels("prediction") !== first; tools[0].click(); tools[0].click(); found.farther = labels("prediction") === first;
      plot("prediction").dispatchEvent(new KeyboardEvent("keydown", {key: "+", bubbles: true})); found.key = labels("prediction") !== first;
      plot("prediction").dispatchEvent(new KeyboardEvent("keydown", {key: "0", bubbles: true})); found.zero = labels("prediction") === first;
      for (let k = 0; k < 60; k++) wheel("prediction", -1000, {ctrlKey: true}); found.deep = plot("prediction").querySelectorAll("text").length;
      for (let k = 0; k < 60; k++) wheel("prediction", 1000, {ctrlKey: true}); found.back = labels("prediction") === first;
      return found;
    """
    )
    dom, console = browse(chromium, with_script(page, code, tmp_path / "page.html"), tmp_path / "profile")
    assert console == []
    found = outcome_of(dom)
    assert isinstance(found, dict), found
    assert found.pop("deep") > 4
    assert found == dict.fromkeys(found, True)
    assert len(found) == 11


@pytest.mark.parametrize("named", [True, False])
def test_the_page_fits_a_phone(chromium, page, named, tmp_path):
    """In a frame of 375 pixels nothing but the tables' own scroll boxes is wider than the screen."""
    html = page if named else written(fitted("fast", 2, 2), tmp_path / "two.html")
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    frame = '<!doctype html><html><body><iframe id="phone" src="page.html" width="375" height="700" style="border:0"></iframe></body></html>'
    code = """
      const inner = document.getElementById("phone").contentDocument, root = inner.documentElement;
      inner.querySelectorAll("details").forEach(d => d.open = true);
      const plots = [...inner.querySelectorAll("svg.plot")].map(s => s.getBoundingClientRect());
      return {width: root.scrollWidth, ready: root.dataset.ready, font: parseFloat(getComputedStyle(inner.body).fontSize),
              boxes: [...inner.querySelectorAll(".scroll")].every(b => b.clientWidth <= 375), plots: plots.every(p => p.left >= 0 && p.right <= 375 && p.width > 250)};
    """
    dom, console = browse(chromium, with_script(frame, code, tmp_path / "frame.html"), tmp_path / "profile")
    assert console == []
    found = outcome_of(dom)
    assert found["width"] <= 375  # less by the width of a scroll bar
    assert (found["ready"], found["font"], found["boxes"], found["plots"]) == ("yes", 16, True, True)


def test_long_names_fit_their_axes(chromium, tmp_path):
    """The axis of residuals was cut: its label is longer than the picture is high."""
    X = np.random.default_rng(0).normal(size=(25, 1))
    model = GPRegressor(restarts=1, max_iter=10).fit(X, X[:, 0] ** 2)
    names = ["an input whose name goes on and on [mm]", "Gross investment in plant and equipment ($ m, at the prices of 1947)"]
    code = """
      document.querySelectorAll("details").forEach(d => d.open = true);
      const texts = [...document.querySelectorAll("svg.plot")].filter(s => s.getBoundingClientRect().width > 0).flatMap(s => {
        const whole = s.getBoundingClientRect();
        return [...s.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()])
          .filter(([, b]) => b.left < whole.left - 1 || b.right > whole.right + 1 || b.top < whole.top - 1 || b.bottom > whole.bottom + 1).map(([words]) => words);
      });
      return {outside: texts, cut: [...document.querySelectorAll("svg.plot text")].some(t => t.textContent.includes("…"))};
    """
    html = written(model, tmp_path / "m.html", columns=names)
    dom, console = browse(chromium, with_script(html, code, tmp_path / "page.html"), tmp_path / "profile")
    assert console == []
    assert outcome_of(dom) == {"outside": [], "cut": True}


def test_dates_are_dates_along_axes_and_in_tables(chromium, tmp_path):
    """They ran from 0 to 5082 days."""
    rng, n = np.random.default_rng(0), 60
    table = pd.DataFrame({"month": pd.date_range("1969-01-01", periods=n, freq="MS"), "x": rng.normal(size=n)})
    write_model_report(GPRegressor(restarts=1, max_iter=5).fit(table, table["x"] + np.arange(n)), tmp_path / "m.html")
    html = (tmp_path / "m.html").read_text("utf-8")
    summary = html[html.index('<th scope="col">smallest</th>') :]
    row = re.search(r'<th scope="row">month</th>(.*?)</tr>', summary)
    assert row is not None
    assert row[1] == "<td>input</td><td>1969-01-01</td><td>1971-06-16</td><td>1973-12-01</td><td>527.2 days</td>"
    charts = charts_of(html)
    axes = [spec["x"] for name in ("prediction", "residuals") for spec in charts[name]["specs"]]
    assert sum("date" in each and each["label"] == "month" for each in axes) == 2
    assert "date" in charts["map"]["specs"][0]["x"]
    assert "[days]" not in json.dumps(charts)
    drawing = (resources.files("manifoldgp.inspection") / "drawing.js").read_text("utf-8")
    functions = re.search(r"// A date as a table has it.*?(?=// A text that would not fit)", drawing, re.S)
    assert functions is not None
    code = (
        functions[0]
        + """
      const day = { origin: Date.UTC(1969, 0, 1), unit: 864e5, days: true }, second = { origin: Date.UTC(2026, 2, 1), unit: 1000, days: false };
      const texts = (...args) => dateTicks(...args).map(([, text]) => text), at = (...args) => dateTicks(...args).map(([v]) => v);
      const pick = document.querySelector("#chart-prediction select");
      pick.value = [...pick.options].findIndex((o) => o.textContent === "month"); pick.dispatchEvent(new Event("change"));
      const svg = document.querySelector("#chart-prediction svg"), r = svg.getBoundingClientRect();
      svg.dispatchEvent(new PointerEvent("pointermove", { clientX: r.left + 0.5 * r.width, clientY: r.top + 0.5 * r.height, pointerType: "mouse" }));
      return { axis: [...svg.querySelectorAll("text")].map((t) => t.textContent), read: document.querySelector("#chart-prediction .readout").textContent,
        ticks: [texts(day, 0, 5082, 7), texts(day, 0, 100, 7), texts(day, 0, 20, 7), texts(second, 0, 7000, 6), texts(second, 0, 30, 6)], at: at(day, 0, 1461, 4) };"""
    )
    dom, console = browse(chromium, with_script(html, code, tmp_path / "page.html"), tmp_path / "profile")
    assert not console
    found = outcome_of(dom)
    assert isinstance(found, dict), found
    years, months, days, minutes, seconds = found["ticks"]
    assert years == ["1970", "1972", "1974", "1976", "1978", "1980", "1982"]
    assert months == ["1969-01", "1969-02", "1969-03", "1969-04"]
    assert days[:2] == ["1969-01-06", "1969-01-13"]  # Mondays
    assert minutes == ["03-01 00:00", "03-01 00:30", "03-01 01:00", "03-01 01:30"]
    assert seconds == ["00:00:00", "00:00:05", "00:00:10", "00:00:15", "00:00:20", "00:00:25", "00:00:30"]
    assert found["at"] == [0.0, 365.0, 730.0, 1095.0, 1461.0]
    assert "month" in found["axis"]
    assert any(re.fullmatch(r"19\d\d(-\d\d)?", text) for text in found["axis"])
    assert re.match(r"month = 19\d\d-\d\d-\d\d", found["read"])
