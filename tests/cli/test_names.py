"""Names from data are text wherever they arrive: on a terminal, in a page and its scripts, in tables, in pictures, in exported models."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shlex
import warnings
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import manifoldgp
from browser import browse, outcome_of, with_script
from command_line import fails, mgp
from manifoldgp import GPRegressor, KernelSearch
from manifoldgp._system.plain_text import one_line, visible
from manifoldgp.cli._messages import Messages
from manifoldgp.data import read_table, write_table
from manifoldgp.data.inputs import group_column
from manifoldgp.errors import FitWarning
from manifoldgp.inspection.page import write_model_report

FAST = ("--averaging", "single", "--restarts", "1", "--max-iter", "2", "--quiet")
ORDERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

nasty = st.text(
    st.sampled_from("[]()/$<>!-=+@&'\"\\;:,{}%|`~#^_ x\t\n\r\x00\x07\x1b\x7f\x9b\u2028\u202eé汉")
    | st.characters(exclude_categories=["Cs"]),
    min_size=1,
    max_size=12,
).filter(lambda name: name.strip() != "")


def table(inputs: list[str], targets: list[str], category: str = "[/b]") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    numbers = dict(zip([*inputs, *targets], rng.normal(size=(len(inputs) + len(targets), 24)), strict=True))
    return pd.DataFrame(numbers | {f"kind {inputs[0]}": rng.choice([category, "other"], 24)})


class Scripts(HTMLParser):
    """The scripts of a page, as a browser's parser would separate them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.inside, self.texts = False, []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "script":
            self.inside = True
            self.texts.append("")

    def handle_endtag(self, tag):
        self.inside &= tag != "script"

    def handle_data(self, data):
        if self.inside:
            self.texts[-1] += data


@settings(max_examples=2, phases=[Phase.explicit, Phase.generate])
@given(st.lists(nasty, min_size=5, max_size=5, unique_by=str.strip))
@example(["<!--<script>", "a\x1b[31mred", "$x", "force [/N]", "mpg [mi/gal]"])
@example(["i", "two\nlines", "\x81", "a\tb", "top\nbottom"])
@example(["</script>", "[bold]", ":warning:", "=cmd|' /C calc'!A0", "@SUM(1)"])
def test_any_name_goes_through_every_command(tmp_path_factory, names):
    names = [name.strip() for name in names]
    here: Path = tmp_path_factory.mktemp("names")
    data, model, out = here / "t.parquet", here / "m.mgp", here / "p.csv"
    table(names[:3], names[3:], category=names[0]).to_parquet(data)
    said = []

    def run(*arguments: str | Path) -> str:
        done = mgp(*arguments)
        said.append(done.out + done.err)
        return done.out

    run("fit", data, *(f"--target={name}" for name in names[3:]), "--out", model, *FAST[:-1])
    run("predict", model, data, "--with-inputs", "--out", out)
    with out.open(newline="", encoding="utf-8") as file:
        header = next(csv.reader(file))
    assert [name.removeprefix("'") for name in header[:5]] == [name.removeprefix("'") for name in names]
    assert not [name for name in header if name.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert all(name in json.loads(run("score", model, data, "--json"))["scores"] for name in names[3:])
    assert visible(names[4])[:4].strip() in run("score", model, data)
    shown = "".join(run("inspect", model).split())
    assert all("".join(visible(name).split()) in shown for name in names)
    assert json.loads(run("inspect", model, "--json"))["targets"] == names[3:]
    run("report", model, "--out", here / "r.html")
    page = (here / "r.html").read_text(encoding="utf-8")
    found = Scripts(page)
    assert len(found.texts) == 2
    assert "<" not in found.texts[0]
    charts = {chart["id"]: chart for chart in json.loads(found.texts[0])["charts"]}
    assert [choice["options"] for choice in charts["observed"]["choices"]] == [[one_line(name) for name in names[3:]]]
    assert page.count("<!--") == 0
    run("export", model, "--to", "onnx", "--out", here / "m.onnx")
    properties = {p.key: p.value for p in onnx.load(here / "m.onnx").metadata_props}
    assert json.loads(properties["columns"])[:3] == names[:3]
    run("export", model, "--to", "numpy", "--out", here / "m.npz")
    assert not [text for text in said if ORDERS.search(text)]


@settings(phases=[Phase.explicit, Phase.generate])
@given(nasty)
def test_wrong_columns_are_named_without_orders(name):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO("a,y\n1,2\n3,4\n"))
        told = fails("fit", "-", f"--target={name}", "--out", "m.mgp")
    assert not ORDERS.search(told)
    assert "The table has no column" in told


def test_advice_can_be_pasted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = table(["x", "force [N]", "-v"], ["y"])
    frame.loc[3, "force [N]"], frame.loc[5, "-v"] = np.nan, np.inf
    frame.to_parquet("my table.parquet")
    told = fails("fit", "my table.parquet", "--target", "y", "--out", "m.mgp")
    advice = shlex.split(told.split("or without: ")[1])
    done = mgp("fit", "my table.parquet", "--target", "y", "--out", "my model.mgp", *advice, *FAST[:-1])
    assert "mgp inspect 'my model.mgp', mgp predict 'my model.mgp' new.csv" in done.err


NAMES = ["=cmd|' /C calc'!A0", "+x", "-v", "@y", "'quoted'", 'beta,gain "hFE"']


@pytest.mark.parametrize("file", ["t.csv", "t.tsv", "t.csv.gz"])
def test_names_that_are_written_are_read_again(tmp_path, file):
    """An apostrophe keeps a spreadsheet from computing a name, and is no part of it: what was written had other columns."""
    frame = pd.DataFrame({**{name: [0.5, 1.5] for name in NAMES}, "text": ["=1+1", "'=1"]})
    write_table(frame, tmp_path / file)
    pd.testing.assert_frame_equal(read_table(tmp_path / file), frame, check_dtype=False)


def test_suggestions_go_back_into_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = table(NAMES[:3], ["=y"])
    frame.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "--target", "=y", "--out", "m.mgp", *FAST)
    mgp("suggest", "m.mgp", "--maximize", "--batch", "2", "--like", "data.csv", "--out", "next.csv")
    assert Path("next.csv").read_text().startswith("'=cmd|' /C calc'!A0,'+x,'-v,")
    mgp("predict", "m.mgp", "next.csv", "--out", "p.csv")
    assert read_table("p.csv")["mean"].notna().all()


def test_a_table_on_a_terminal_holds_no_orders_and_in_a_pipe_holds_what_is_there(capsys, monkeypatch):
    frame = pd.DataFrame({"a\x1b[31m": ["\x9b5m", "b"], "=1+1": [1, 2]})
    write_table(frame, "-")
    assert capsys.readouterr().out == "a\x1b[31m,'=1+1\n\x9b5m,1\nb,2\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    write_table(frame, "-")
    assert capsys.readouterr().out == "a\\x1b[31m,'=1+1\n\\x9b5m,1\nb,2\n"


def test_parquet_keeps_names_as_they_are(tmp_path):
    write_table(pd.DataFrame({"=1+1": [1.0]}), tmp_path / "t.parquet")
    assert list(read_table(tmp_path / "t.parquet").columns) == ["=1+1"]


def test_a_dollar_in_a_name_is_no_formula():
    from manifoldgp import plots

    frame = table(["cost [$]", r"$\frac$"], ["y"])[["cost [$]", r"$\frac$"]]
    model = GPRegressor(restarts=1, max_iter=2).fit(frame, np.sin(frame["cost [$]"]))
    for ax in (plots.plot_slice(model, 1), plots.plot_slice(model, 1), plots.plot_relevance(model)):
        ax.figure.savefig(io.BytesIO(), format="png")
        texts = [ax.get_xlabel(), ax.get_ylabel(), *(label.get_text() for label in ax.get_yticklabels())]
        assert r"\$\frac\$" in texts


def test_charts_are_drawn_whatever_columns_are_called(chromium, tmp_path):
    frame = table(["<!--<script>", "</script>"], ["y"])[["<!--<script>", "</script>"]]
    model = GPRegressor(restarts=1, max_iter=2).fit(frame, np.sin(frame["</script>"]))
    write_model_report(model, tmp_path / "model.html")
    code = "return [document.documentElement.dataset.ready, document.querySelectorAll('svg.plot').length, document.body.textContent.includes('\\x3c!--\\x3cscript>')];"
    page = with_script((tmp_path / "model.html").read_text(encoding="utf-8"), code, tmp_path / "scripted.html")
    dom, console = browse(chromium, page, tmp_path / "profile")
    ready, drawn, named = outcome_of(dom)
    assert (ready, named, console) == ("yes", True, [])
    assert drawn >= 6


def test_targets_names_and_units_reach_title_axes_and_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = table(["speed [m/s]", "load (kg)"], ["force [N]"])
    frame.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "-t", "force [N]", "--out", "m.mgp", *FAST)
    mgp("report", "m.mgp", "--out", "r.html")
    page = Path("r.html").read_text(encoding="utf-8")
    assert "<h1>A model of force [N]</h1>" in page
    assert '<th scope="row">force [N]</th>' in page
    charts = {chart["id"]: chart["specs"] for chart in json.loads(Scripts(page).texts[0])["charts"]}
    assert {spec["y"]["label"] for spec in charts["prediction"]} == {"force [N]"}
    assert charts["observed"][0]["x"]["label"] == "observed force [N]"
    assert {"speed [m/s]", "load (kg)"} <= {spec["x"]["label"] for spec in charts["prediction"]}
    assert "y" not in {spec["y"].get("label") for specs in charts.values() for spec in specs}


def test_units_below_the_names_reach_title_axes_and_controls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = table(["speed", "load"], ["force"]).assign(when=[f"2026-03-{day + 1:02d}T10:00:00+02:00" for day in range(24)])
    names, rows = frame.to_csv(index=False).split("\n", 1)
    units = {"speed": "m/s", "load": "-", "force": "N"}
    Path("data.csv").write_text(
        f"{names}\n{','.join(units.get(name, '') for name in names.split(','))}\n{rows}", encoding="utf-8"
    )
    mgp("fit", "data.csv", "-t", "force", "--out", "m.mgp", *FAST)
    mgp("report", "m.mgp", "--out", "r.html")
    page = Path("r.html").read_text(encoding="utf-8")
    assert "<h1>A model of force [N]</h1>" in page
    assert "24 rows, 4 inputs (5 numbers), 1 target" in page  # four columns, as above; it had said five
    data = json.loads(Scripts(page).texts[0])
    charts = {chart["id"]: chart["specs"] for chart in data["charts"]}
    assert {spec["y"]["label"] for spec in charts["prediction"]} == {"force [N]"}
    assert {"speed [m/s]", "load"} <= {spec["x"]["label"] for spec in charts["prediction"]}
    columns = {column["name"]: column["label"] for column in data["live"]["columns"]}
    assert columns == {"speed": "speed [m/s]", "load": "load", "kind speed": "kind speed", "when": "when (UTC)"}
    table_of_scores, shown = mgp("score", "m.mgp", "data.csv").out, mgp("inspect", "m.mgp").out
    assert re.search(r"force \[N\]\s+standardised", table_of_scores)
    assert re.search(r"target\s+force \[N\]", shown)
    assert re.search(r"speed\s+number, in m/s", shown)
    assert "since 2026-03-01 08:00:00 UTC" in shown


def test_the_unit_below_the_target_reaches_what_a_fit_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, rows = table(["speed", "load"], ["force"]).to_csv(index=False).split("\n", 1)
    units = {"speed": "m/s", "load": "kg", "force": "N"}
    Path("data.csv").write_text(f"{names}\n{','.join(map(units.get, names.split(','), ['' for _ in names]))}\n{rows}", "utf-8")
    said = mgp("fit", "data.csv", "-t", "force", "--out", "m.mgp", "--averaging", "stack", "--time-budget", "3").err
    assert "target: force [N]" in said
    assert re.search(r"typical error \(RMSE\) is [\d.e-]+ N, the mean error \(MAE\) [\d.e-]+ N", said)


def test_a_name_that_ends_in_a_unit_or_a_zone_tells_it_once(tmp_path, monkeypatch):
    """Errors of `Price €` had no unit, and `time (UTC)` was called time (UTC) (UTC)."""
    monkeypatch.chdir(tmp_path)
    rows = [f"2026-03-{n % 28 + 1:02d}T{n % 24:02d}:00:00Z,{n % 9}.5,€ {n % 9 + 1}{n % 7}8" for n in range(40)]
    Path("data.csv").write_text("\n".join(["time (UTC),age,Price €", *rows]), "utf-8")
    mgp("fit", "data.csv", "-t", "Price €", "--out", "m.mgp", *FAST)
    mgp("report", "m.mgp", "--out", "r.html")
    page = Path("r.html").read_text("utf-8")
    assert re.search(r"Typical error <b>[\d.e-]+ €</b>", page)
    assert "<h1>A model of Price €</h1>" in page
    assert "time (UTC)" in page
    assert "(UTC) (UTC)" not in page
    Path("dollars.csv").write_text(Path("data.csv").read_text("utf-8").replace("€ ", "$ "), "utf-8")
    told = "warning: Price € is in $ here, and was in € at the fit: numbers are not converted."
    assert told in mgp("score", "m.mgp", "dollars.csv").err


def test_units_beside_numbers_reach_title_axes_and_what_is_said(tmp_path, monkeypatch):
    """Prices in euros were predicted with an error of 37.3, of nobody knew what; names that tell their unit keep it alone."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{n % 9}.5 kg,{n % 7} %,{30 * (n % 5)} mm,€{n % 9 + 3 * (n % 7)}.50" for n in range(40)]
    Path("data.csv").write_text("\n".join(["weight,fat %,length [mm],price", *rows]), "utf-8")
    said = mgp("fit", "data.csv", "-t", "price", "--out", "m.mgp", "--averaging", "stack", "--time-budget", "3").err
    assert "target: price [€]" in said
    assert re.search(r"typical error \(RMSE\) is [\d.e-]+ €, the mean error", said)
    assert re.search(r"weight\s+number, in kg", mgp("inspect", "m.mgp").out)
    mgp("report", "m.mgp", "--out", "r.html")
    page = Path("r.html").read_text("utf-8")
    assert "<h1>A model of price [€]</h1>" in page
    assert "weight [kg]" in page
    assert "fat % [" not in page
    assert "[mm] [" not in page
    told = "warning: weight is in lb here, and was in kg at the fit: numbers are not converted."
    Path("pounds.csv").write_text("\n".join(["weight,fat %,length [mm],price", *rows]).replace("kg", "lb"), "utf-8")
    assert told in mgp("predict", "m.mgp", "pounds.csv", "--out", "p.csv").err
    assert "not converted" not in mgp("predict", "m.mgp", "data.csv", "--out", "p.csv").err
    told = "warning: length [mm] is in cm here, and was in mm at the fit: numbers are not converted."
    Path("longer.csv").write_text("\n".join(["weight,fat %,length [mm],price", *rows]).replace(" mm,", " cm,"), "utf-8")
    assert told in mgp("predict", "m.mgp", "longer.csv", "--out", "p.csv").err
    pytest.importorskip("botorch", reason="needs the extra botorch")
    assert "1: expected price [€] " in mgp("suggest", "m.mgp", "--minimize", "--batch", "1", "--out", "next.csv").err


def test_the_pages_python_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = table(["speed", "load\n(kg)"], ["y"]).assign(sd=0.1)
    rows.to_csv("data.csv", index=False)
    rows[:10].to_csv("new.csv", index=False)
    rows[10:15].to_csv("more.csv", index=False)
    for noise in ([], ["--noise-column", "sd"]):
        mgp("fit", "data.csv", "-t", "y", "--out", "model.mgp", *noise, *FAST)
        mgp("report", "model.mgp", "--out", "r.html")
        snippet = re.search(r'<pre class="code">(import manifoldgp.*?)</pre>', Path("r.html").read_text(encoding="utf-8"), re.S)
        assert snippet
        names: dict = {}
        exec(compile(unescape(snippet.group(1)), "the page", "exec"), names)
        assert names["quantiles"].shape == (10, 3)
        mgp("predict", "model.mgp", "new.csv", "--out", "p.csv", "--quiet")
        np.testing.assert_allclose(names["mean"], pd.read_csv("p.csv")["mean"], rtol=1e-9)
        assert names["model"].ensembles_[0].blocks[0].rows == 24 + 5


@pytest.mark.parametrize(("missing", "learned"), [("drop", 22 + 3), ("impute", 23 + 4), ("error", 23 + 4)])
def test_the_pages_python_leaves_rows_with_gaps_out_where_the_fit_did(missing, learned, tmp_path, monkeypatch):
    """Rows without target had been refused by update() unless the page left out rows with any gap."""
    monkeypatch.chdir(tmp_path)
    rows = table(["speed", "load"], ["y"])
    rows.loc[12, "speed"] = rows.loc[12, "speed"] if missing == "error" else np.nan
    rows.loc[13, "y"] = np.nan
    for name, part in (("data", rows), ("new", rows[:10]), ("more", rows[10:15])):
        part.to_csv(f"{name}.csv", index=False)
    mgp("fit", "data.csv", "-t", "y", "--missing", missing, "--out", "model.mgp", *FAST)
    mgp("report", "model.mgp", "--out", "r.html")
    snippet = re.search(r'<pre class="code">(import manifoldgp.*?)</pre>', Path("r.html").read_text(encoding="utf-8"), re.S)
    assert snippet
    names: dict = {}
    exec(compile(unescape(snippet.group(1)), "the page", "exec"), names)
    assert names["model"].ensembles_[0].blocks[0].rows == learned


def test_letters_that_a_font_lacks_are_told_once(capsys):
    with Messages().warnings_as_messages():
        for glyph in (28201, 24230):
            warnings.warn(
                f"Glyph {glyph} (\\N{{CJK UNIFIED IDEOGRAPH}}) missing from font(s) DejaVu Sans.", UserWarning, stacklevel=1
            )
    assert capsys.readouterr().err == "warning: The font of pictures lacks letters of some names, which appear as boxes.\n"


def test_the_words_of_a_search_have_names_of_one_line():
    frame = pd.DataFrame({"line\nbreak": np.linspace(0, 1, 20)})
    found = KernelSearch(depth=1, kernels=("linear",), max_iter=3).fit(frame, frame["line\nbreak"])
    assert "line break" in str(found.describe())


def test_a_model_that_python_saved_knows_what_its_target_is_called(tmp_path, monkeypatch):
    """Its table being all numbers, the page had been of a model of y, and mgp score had looked for a column y."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"speed [m/s]": np.linspace(-1.0, 1.0, 24), "F_z [N]": np.sin(3.0 * np.linspace(-1.0, 1.0, 24))})
    frame.to_csv("data.csv", index=False)
    model = GPRegressor(restarts=1, max_iter=5).fit(frame[["speed [m/s]"]], frame["F_z [N]"])
    model.save("m.mgp")
    mgp("report", "m.mgp", "--out", "r.html")
    assert "<h1>A model of F_z [N]</h1>" in Path("r.html").read_text(encoding="utf-8")
    assert "target F_z [N]" in " ".join(mgp("inspect", "m.mgp").out.split())
    assert "F_z [N]" in mgp("score", "m.mgp", "data.csv").out
    frame.rename(columns={"F_z [N]": "again"}).to_csv("other.csv", index=False)
    assert "again" in mgp("score", "m.mgp", "other.csv", "--target", "again").out
    model.fit(frame[["speed [m/s]"]].to_numpy(), frame["F_z [N]"])  # the inputs are those columns that are no target
    model.save("array.mgp")
    assert "F_z [N]" in mgp("score", "array.mgp", "data.csv").out


@pytest.mark.parametrize(
    "inputs", [["x"], ["x", "kind"], ["x", "run"], "array"], ids=["numbers", "a table", "an input", "an array"]
)
@pytest.mark.parametrize("kernel", ["se", "auto"])
def test_a_model_that_python_saved_knows_what_its_groups_are_called(tmp_path, monkeypatch, inputs, kernel):
    """Its page, `mgp inspect` and `mgp score` said nothing of runs, which those of `mgp fit --group run` name."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "kind": rng.choice(["a", "b"], 60), "run": [f"r{k % 6}" for k in range(60)]})
    frame["y"] = np.sin(frame["x"]) + 0.1 * rng.normal(size=60)
    frame.to_csv("data.csv", index=False)
    X = frame[["x"]].to_numpy() if inputs == "array" else frame[inputs]
    model = GPRegressor(kernel, restarts=1, max_iter=5)
    unheeded = contextlib.nullcontext() if kernel == "auto" else pytest.warns(FitWarning, match="holds out none")
    with unheeded:
        model.fit(X, frame["y"], groups=frame["run"])
    model.save("m.mgp")
    assert group_column(manifoldgp.load("m.mgp")) == "run"
    shown = " ".join(mgp("inspect", "m.mgp").out.split())
    assert ("labels of rows that belong together; not an input" in shown) == ("run" not in inputs)
    assert "labels of rows that belong together" in shown
    kept = frame if inputs != "array" else frame.drop(columns="kind")
    kept[frame["run"] < "r3"].to_csv("few.csv", index=False)
    assert "as far as 3 groups by run can tell" in mgp("score", "m.mgp", "few.csv").out
    mgp("report", "m.mgp", "--out", "r.html")
    if kernel == "se":
        assert "the others of the same run known" in Path("r.html").read_text(encoding="utf-8")
    with unheeded:
        model.fit(X, frame["y"], groups=frame["run"].to_numpy())
    assert group_column(model) is None


def test_the_target_of_a_model_without_names_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-1.0, 1.0, 24)
    pd.DataFrame({"speed": x, "force": np.sin(3.0 * x)}).to_csv("data.csv", index=False)
    GPRegressor(restarts=1, max_iter=5).fit(pd.DataFrame({"speed": x}), np.sin(3.0 * x)).save("m.mgp")
    told = fails("score", "m.mgp", "data.csv")
    assert "has no column 'y'. Say which column holds the target: --target COLUMN. The table has: speed, force." in told
    assert "force" in mgp("score", "m.mgp", "data.csv", "--target", "force").out
