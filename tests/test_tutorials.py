"""Tutorials are notebooks that run; pages show what their code prints and draws; versions of the site stand side by side.

`make docs` runs every tutorial, and fails where one does; here runs the shortest.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("jupytext", reason="needs the extra [docs]")
pytest.importorskip("nbclient", reason="needs the extra [docs]")

import make_site
from nbformat.v4 import new_output
from notebooks import guide, markdown, tutorial, without_links

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "docs" / "tutorials").glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_tutorial_is_a_notebook_whose_pictures_have_words(source):
    notebook = tutorial(source.read_text(encoding="utf-8"))
    assert re.match(r"# .+\n\n.+", notebook.cells[0].source)  # a title, and what it is about
    drawing = [cell for cell in notebook.cells if cell.cell_type == "code" and re.search(r"(^|\.)figure\Z", cell.source, re.M)]
    assert drawing, "the gallery shows the first picture"
    assert all(len(cell.metadata.get("alt", "")) > 20 for cell in drawing)
    assert not any("](" in cell.source and "http" not in cell.source for cell in without_links(notebook).cells)


def test_the_gallery_and_the_navigation_know_every_tutorial():
    gallery = (ROOT / "docs" / "tutorials" / "index.md").read_text(encoding="utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    assert [item["name"] for item in make_site._CARD.finditer(gallery)] == re.findall(r"tutorials/(?!index)(\w+)\.md", navigation)
    assert sorted(make_site.TUTORIALS) == sorted(item["name"] for item in make_site._CARD.finditer(gallery))


def test_the_shortest_tutorial_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = ROOT / "docs" / "tutorials" / "robot.py"
    exec(compile(source.read_text(encoding="utf-8"), str(source), "exec"), {"__name__": "tutorial"})
    assert (tmp_path / "arm.c").is_file()


PAGE = "# Title\n\n```python\nprint(1)  # one\n```\n\nWords.\n\n```text\nnot code\n```\n"


def test_a_page_shows_what_its_code_prints_and_draws(tmp_path):
    notebook = guide(PAGE)
    code = notebook.cells[1]
    code.outputs = [
        new_output("stream", name="stdout", text="\x1b[1m1\x1b[0m\n"),
        new_output("stream", name="stderr", text="a remark"),
        new_output("display_data", data={"text/html": "<p>\n\n  bold</p>", "text/plain": "p"}),
        new_output(
            "execute_result", data={"image/png": base64.b64encode(b"png").decode(), "text/plain": "<Figure>"}, execution_count=1
        ),
    ]
    shown = '``` { .text .output }\n1\n```\n\n<div class="output html">\n<p>\nbold</p>\n</div>\n\n![one](executed/page-1.png)\n'
    assert markdown(notebook, tmp_path / "executed" / "page") == PAGE.replace("\nWords", f"\n{shown}\nWords")
    assert (tmp_path / "executed" / "page-1.png").read_bytes() == b"png"
    assert markdown(guide(PAGE), tmp_path / "page") == PAGE


def test_versions_stand_side_by_side(tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("a page")
    for version in ("0.9.1", "0.10.0", "0.10.1", "0.11.0.dev3+g1"):
        monkeypatch.setattr("manifoldgp.__version__", version, raising=False)
        make_site.publish(tmp_path / "site", tmp_path / "public")
    listed = json.loads((tmp_path / "public" / "versions.json").read_text())
    assert [entry["version"] for entry in listed] == ["0.10", "0.9", "dev"]
    assert all((tmp_path / "public" / entry["version"] / "index.html").is_file() for entry in listed)
    assert "url=0.10/index.html" in (tmp_path / "public" / "index.html").read_text()
