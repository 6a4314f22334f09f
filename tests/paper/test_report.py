"""The report page: complete, self-contained, and alive in a real browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from browser import browse, outcome_of, with_script
from manifoldgp.data import rotated_bumps
from manifoldgp.errors import InputError
from paper import embedding, figures
from paper.charts import figure_bytes
from paper.experiment import Config
from paper.outcome import BEGIN, END, gather, update_readme
from paper.page import FILES, write_reproduction
from paper.plan import experiment_of
from paper.run import Failure
from synthetic_outcome import KEYS, made_up_outcome


@pytest.fixture(scope="module")
def outcome():
    return made_up_outcome()


@pytest.fixture(scope="module")
def report(tmp_path_factory, outcome) -> Path:
    folder = tmp_path_factory.mktemp("report")
    assert write_reproduction(outcome, folder) == folder / "index.html"
    return folder


@pytest.fixture(scope="module")
def html(report) -> str:
    return (report / "index.html").read_text(encoding="utf-8")


def test_every_file_is_written(report):
    assert {path.name for path in report.iterdir() if path.is_file()} == set(FILES)
    for name in FILES:
        assert (report / name).stat().st_size > 100, name
    pictures = {path.stem for path in (report / "figures").glob("*.png")}
    assert pictures >= {"step", "step-gap", "bumps", "bumps-errors", "walker", "walker-features"} | {
        f"{key}-scores" for key in KEYS
    }
    assert {path.stem for path in (report / "figures").glob("*.pdf")} == pictures
    run = json.loads((report / "run.json").read_text(encoding="utf-8"))
    assert run["setting"] == "quick"
    assert run["versions"]["torch"]
    assert len(run["configs"]) == sum(
        len(table["rows"]) * (1 if table["experiment"] == "walker" else 3)
        for table in json.loads((report / "tables.json").read_text())
    )


def test_the_page_needs_nothing_from_outside(html):
    outside = re.findall(r'(?:src|href)\s*=\s*"(?!data:|#)[^"]*"', html)
    assert outside == []
    assert "@import" not in html
    assert "url(" not in html.split("</style>")[0]
    assert 'name="viewport"' in html


def test_the_page_says_what_was_found(html):
    for text in (
        "Table I<",
        "Table II<",
        "Table III<",
        "Table IV<",
        "printed −6.34e-3",
        "reached",
        "does not hold here",
        "This is the quick setting",
        "A remark.",
    ):
        assert text in html, text
    assert "What this can and cannot show" in html
    assert html.count("<figure") == 6
    assert html.count('<table class="sortable"') == 4


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_the_same_figure_gives_the_same_bytes(outcome, kind):
    first, second = (figure_bytes(figures.step_models(outcome, 0), kind) for _ in range(2))
    assert first == second


def test_failures_are_shown_and_what_is_missing_is_left_out(tmp_path):
    outcome = made_up_outcome(keys=("step", "bumps"))
    lost = [r for r in outcome.results if r.config.method not in ("mgp-sigmoid", "stack")]
    failed = [Failure(r.config, "ValueError: <b>no</b>") for r in outcome.results if r.config.method == "stack"]
    html = write_reproduction(gather(outcome.plan, lost, failed, 1.0), tmp_path).read_text(encoding="utf-8")
    assert "What failed" in html
    assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in html
    assert "no result" in html
    assert "(3 failed)" in html


def test_readme_gets_the_headline_between_its_marks(outcome, report, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"# Name\n\n{BEGIN}\nold\n{END}\n\nafter\n", encoding="utf-8")
    update_readme(readme, None, report)
    assert "old" in readme.read_text(encoding="utf-8")
    update_readme(readme, outcome, report)
    update_readme(readme, outcome, report)
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("# Name")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.count("| Step function: NLPP, test | -3.17 |") == 1
    assert (tmp_path / "docs" / "images" / "step-gap.png").is_file()


@pytest.mark.parametrize("text", ["", f"{END} {BEGIN}", f"{BEGIN} {BEGIN} {END}"])
def test_a_readme_without_marks_is_refused(tmp_path, text):
    readme = tmp_path / "README.md"
    readme.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="needs the lines <!-- results: begin --> and"):
        update_readme(readme, None, tmp_path)


# ---- in a real browser


def test_the_page_lives_in_a_browser(chromium, html, tmp_path):
    code = """
      const images = [...document.querySelectorAll("figure img")].map(i => i.complete && i.naturalWidth > 100);
      const rows = [...document.querySelectorAll("table.sortable")].map(t => t.tBodies[0].rows.length);
      const step = document.getElementById("explorer-step");
      const bands = () => [...step.querySelectorAll("[data-band]")].map(p => p.dataset.band);
      const before = bands();
      step.querySelectorAll(".chip")[0].click();
      const after = bands();
      const seeds = step.querySelector("select");
      document.querySelector("#strip-step [data-seed='2']").dispatchEvent(new MouseEvent("click"));
      const svg = step.querySelector("svg"), box = svg.getBoundingClientRect();
      svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + 0.5 * box.width, clientY: box.top + 20}));
      const table = document.getElementById("table-step"), heads = table.querySelectorAll("th button");
      const names = () => [...table.tBodies[0].rows].map(r => r.cells[0].textContent);
      heads[6].click(); const up = names(); heads[6].click(); const down = names();
      heads[2].click(); const nlml = names();
      return {ready: document.documentElement.dataset.ready, images, rows, before, after, seed: seeds.value, readout: step.querySelector(".readout").textContent,
              up, down, nlml, dots: document.querySelectorAll("#strip-bumps [data-seed]").length,
              wide: document.documentElement.scrollWidth > innerWidth};
    """
    dom, console = browse(chromium, with_script(html, code, tmp_path / "page.html"), tmp_path / "profile")
    assert console == []
    found = outcome_of(dom)
    assert isinstance(found, dict), found
    assert found["ready"] == "yes"
    assert found["images"] == [True] * 6
    methods = [len(experiment_of(key).methods) for key in KEYS]
    assert found["rows"] == methods
    assert found["before"] == ["gp-se", "mgp-sigmoid", "stack"]
    assert found["after"] == ["mgp-sigmoid", "stack"]
    assert found["seed"] == "2"  # a click on a seed's dot shows that seed
    assert re.match(r"x = [−\d.]+.*\[.*, .*\]", found["readout"])
    # Test NLPP: made-up scores have the log-sigmoid network first.
    assert found["up"][0] == "mGP (log-sigmoid)"
    assert found["down"] == found["up"][::-1]
    assert set(found["nlml"][-2:]) == {"mGP, averaged restarts", "mGP stack (our default)"}  # without a value: last
    assert found["dots"] == 3 * methods[1]
    assert found["wide"] is False


def test_the_page_fits_a_phone(chromium, html, tmp_path):
    """In a frame of 375 pixels nothing but the tables' own scroll boxes is wider than the screen."""
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    frame = '<!doctype html><html><body><iframe id="phone" src="page.html" width="375" height="700" style="border:0"></iframe></body></html>'
    code = """
      const inner = document.getElementById("phone").contentDocument, root = inner.documentElement;
      return {width: root.scrollWidth, ready: root.dataset.ready, font: parseFloat(getComputedStyle(inner.body).fontSize),
              boxes: [...inner.querySelectorAll(".scroll")].every(b => b.clientWidth <= 375)};
    """
    dom, console = browse(chromium, with_script(frame, code, tmp_path / "frame.html"), tmp_path / "profile")
    assert console == []
    found = outcome_of(dom)
    assert found["width"] <= 375  # less by the width of a scroll bar
    assert (found["ready"], found["font"], found["boxes"]) == ("yes", 16, True)


def test_claims_are_told_with_their_verdicts(report, outcome):
    claims = [check for check in outcome.checks if check.kind == "claim"]
    rows = (report / "claims.md").read_text(encoding="utf-8").splitlines()[2:]
    assert len(rows) == len(claims)
    for check, row in zip(claims, rows, strict=True):
        assert check.text in row
        assert {True: "**holds here**", False: "**does not hold here**", None: "**no result**"}[check.held] in row


def test_the_random_embedding_is_tried_in_several_settings(monkeypatch):
    settings = (embedding.Setting(1, 1, 3), embedding.Setting(3, 1, 3, raw=True))
    monkeypatch.setattr(embedding, "SETTINGS", settings)
    small = rotated_bumps(0)
    few = replace(
        small, X_train=small.X_train[:25], y_train=small.y_train[:25], X_test=small.X_test[:30], y_test=small.y_test[:30]
    )
    monkeypatch.setattr(embedding, "BUMPS", replace(embedding.BUMPS, dataset=lambda config: few, restarts=1))
    printed = list(embedding.lines(1))
    assert printed[4].startswith("| paper: RandEmb | -0.47 | -1.29 |")
    assert [line.split(" | ")[0] for line in printed[5:]] == [
        "| GP SE-ARD",
        "| GP NN",
        "| RandEmb, 1 feature, one start of 3 steps",
        "| RandEmb, 3 features, one start of 3 steps, not standardised",
    ]
    features = settings[1].build(Config("bumps", "embedding", 7, 1)).features
    assert (features.q, features.seed) == (3, 7)
