"""Every Python block of the README and of the documentation runs as written; what they name exists; the site builds without a warning.

The blocks of one page share one namespace and run one after the other, in a folder of their own. A block that must not run is marked
```python {.no-run reason="..."}; so far none is.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pandas as pd
import pytest

from manifoldgp import data, plots
from manifoldgp.errors import FitWarning
from short_fits import shorten_stacks

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
DRAWING_PARTS = {"plot_band", "plot_feature_curves", "plot_feature_plane", "plot_observations"}
"""Pictures of arrays, not of models: parts of the others."""

FENCE = re.compile(r"^(?P<indent> *)```python(?P<mark>[^\n]*)\n(?P<code>.*?)^(?P=indent)```", re.S | re.M)


def blocks(page: Path) -> list[tuple[int, str, str]]:
    """Line number, mark after ```python, and code of every Python block of a page."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start("code")) + 1, m["mark"].strip(), m["code"]) for m in FENCE.finditer(text)]


ELSEWHERE = {
    "command-line.md": "tests/cli/test_documents.py",
    "compare.md": "tests/cli/test_documents.py",
    "suggest.md": "tests/cli/test_documents.py",
    "scale.md": "tests/test_scale_docs.py",
}
"""Pages whose Python needs what their commands have made: these tests run both, in order."""
HALF_A_MINUTE = ("noisy-inputs.md",)
WITH_CODE = [
    pytest.param(page, marks=pytest.mark.slow) if page.name in HALF_A_MINUTE else page
    for page in PAGES
    if blocks(page) and page.name not in ELSEWHERE
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, with the table that the README's second block reads."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(data.example_table(60, 0)).to_csv("data.csv", index=False)  # what mgp example writes, with text and labels
    return tmp_path


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run_as_written(page, folder, capsys, monkeypatch):
    """With short stacks; `make docs` runs the guides with those that users have."""
    shorten_stacks(monkeypatch)
    names: dict = {"__name__": "page"}
    with warnings.catch_warnings():
        # Fits of a page are small on purpose, and other libraries comment on optimisations cut short; a page is not a test of those.
        warnings.simplefilter("ignore", FitWarning)
        warnings.filterwarnings("ignore", category=UserWarning, module="botorch|sklearn|gpytorch")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="botorch")
        for line, mark, code in blocks(page):
            if mark:
                assert "no-run" in mark, f"{page.name}:{line}: unknown mark {mark!r}"
                assert "reason=" in mark, f"{page.name}:{line}: a block that does not run needs a reason"
                continue
            padded = "\n" * (line - 1) + code  # so that errors name the page's own line
            exec(compile(padded, str(page), "exec", dont_inherit=True), names)  # without the annotations of this file
    if page == README:
        assert "of the weight" in capsys.readouterr().out
        assert (folder / "step.mgp").is_file()


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_pages_that_are_run_elsewhere_are_run_there(page, test):
    assert page in (ROOT / test).read_text(encoding="utf-8")


def test_pages_with_code_are_found():
    assert README in WITH_CODE
    assert len(WITH_CODE) >= 10


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    for page in PAGES[1:]:
        name = str(page.relative_to(ROOT / "docs"))
        assert name.startswith("benchmarks/") or name in navigation, page  # pages of benchmarks are written by `make bench`


def test_the_reference_knows_what_the_pages_use():
    reference = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "reference").glob("*.md")))
    described = set(re.findall(r"^::: [\w.]+\.(\w+)$", reference, re.M))
    named = {
        "NUTS",
        "Exact",
        "Fast",
        "Predictor",
        "Restarts",
        "Single",
        "Sparse",
        "Stack",
        "TableEncoding",
        "export_onnx",
        "fit_files",
        "write_model_report",
    }
    pictures = {name for name in plots.__all__ if name.startswith("plot_")} - DRAWING_PARTS
    assert (
        described
        >= named
        | set(data.__all__)
        - {"Column", "Survey", "read_table", "read_tables", "refuse_overwriting", "survey", "write_table", "write_whole"}
        | pictures
    )


def test_the_first_page_names_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    table = "\n".join(re.findall(r"^\|.*$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.M))
    assert [extra for extra in extras if extra not in ("dev", "docs") and f"`{extra}`" not in table] == []


def test_make_targets_named_in_the_pages_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in set(re.findall(r"(?:^ {4}|`)make ([\w-]+)", page.read_text(encoding="utf-8"), re.M)):
            assert re.search(rf"^{target}:", makefile, re.M), f"{page.name} names make {target}"


def test_the_site_builds_without_a_warning(tmp_path):
    """With the tutorials' text, but without running them: `make docs` does."""
    for module in ("zensical", "mkdocstrings", "jupytext", "nbclient"):
        pytest.importorskip(module, reason="needs the extra [docs]")
    command = [
        sys.executable,
        "docs/make_site.py",
        "--without-running",
        "--work",
        str(tmp_path / "work"),
        "--site",
        str(tmp_path / "site"),
    ]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "fonts.googleapis" not in home
    assert not re.findall(r'<(?:script|link)[^>]+(?:src|href)="https?://', home)  # nothing is fetched from elsewhere
    reference = (tmp_path / "site" / "reference" / "estimators.html").read_text(encoding="utf-8")
    assert "predict_quantiles" in reference
    assert "warm_members" in reference
    assert "----------" not in reference  # sections of docstrings are tables, not underlined words
    for name in ("start.html", "start.ipynb"):
        assert (tmp_path / "site" / "tutorials" / name).is_file()
