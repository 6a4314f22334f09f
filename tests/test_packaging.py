"""What is shipped: the version, the contents of a wheel, the lock, and the commands that continuous integration runs."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import manifoldgp
import versions

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def normalised(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement)[0]).lower()


def test_the_version_is_that_of_the_installed_package():
    assert manifoldgp.__version__ == metadata.version("manifoldgp")


def test_a_wheel_of_a_tree_without_git_has_everything_it_needs(tmp_path):
    pytest.importorskip("hatch_vcs", reason="needs the extra [dev]")
    for name in ("src", "paper", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path / "dist"), str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    fallback = SETTINGS["tool"]["hatch"]["version"]["fallback-version"]
    assert wheel.name == f"manifoldgp-{fallback}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    sources = {
        str(p.relative_to(ROOT / "src")) for p in (ROOT / "src").rglob("*") if p.is_file() and "__pycache__" not in p.parts
    }
    assert sources <= set(names)
    assert "manifoldgp/py.typed" in names
    (about,) = (name for name in names if name.endswith("/METADATA"))
    page = zipfile.ZipFile(wheel).read(about).decode("utf-8")
    assert "Description-Content-Type: text/markdown" in page
    assert "Gaussian-process regression that learns its own features" in page
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", page) == []  # a link to a file would lead nowhere from a package index
    assert not [name for name in names if name.startswith(("tests", "docs", "examples", "paper"))]


def test_the_source_archive_has_every_folder_with_code():
    included = SETTINGS["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {f"/{folder}" for folder in ("src", "paper", "tests", "benchmarks", "examples")} <= set(included)


def lock_entries(name: str) -> list[str]:
    return list(versions.entries((ROOT / name).read_text(encoding="utf-8")))


def test_the_lock_pins_what_every_extra_asks_for():
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *(requirement for extra in extras.values() for requirement in extra)]
    torch = [line for line in (ROOT / "requirements-torch.lock").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    assert [re.fullmatch(r"torch==[\d.]+", line) is not None for line in torch] == [True]
    pinned = {normalised(entry) for entry in [*lock_entries("requirements.lock"), *torch]}
    assert {normalised(requirement) for requirement in wanted} - {"manifoldgp"} <= pinned


def test_the_tools_lock_pins_the_group_release():
    pinned = {normalised(entry) for entry in lock_entries("requirements-tools.lock")}
    assert {normalised(requirement) for requirement in SETTINGS["dependency-groups"]["release"]} <= pinned


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-tools.lock"])
def test_every_locked_version_has_the_hashes_of_its_files_and_none_is_refused(name):
    entry_form = re.compile(r"[a-z\d.-]+==[\w.!]+( ; [^\\\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n(    # .*\n)*")
    entries = lock_entries(name)
    assert [entry for entry in entries if not entry_form.fullmatch(entry)] == []
    assert not {normalised(entry) for entry in entries} & set(versions.REFUSED)
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "index-url" not in text
    assert "".join(entries) == re.sub(r"\A(#.*\n)*", "", text), "nothing between the entries"


def test_a_refused_package_stops_the_lock():
    with pytest.raises(SystemExit, match="lazy-importer, which is refused"):
        versions.checked("lazy-importer==0.1.0 \\\n    --hash=sha256:0\n")


def test_versions_are_tested_with_every_extra_of_users():
    users = set(PROJECT["optional-dependencies"]) - {"dev", "docs", "sim"}
    assert set(versions.USERS_EXTRAS.split(",")) == users
    assert all((ROOT / file).is_file() for file in versions.QUICK)


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_workflows_run_targets_that_exist():
    ran = {
        workflow.stem: set(re.findall(r"run: make (?:--silent )?([\w-]+)", workflow.read_text("utf-8"))) for workflow in WORKFLOWS
    }
    assert {"test", "docs", "build", "audit", "test-versions"} <= ran["ci"]
    assert {"test", "docs", "build", "audit", "test-versions", "check-build", "notes"} <= ran["release"]
    assert all(re.search(rf"^{target}:", MAKEFILE, re.M) for target in set.union(*ran.values()))


def test_the_links_of_the_readme_lead_to_the_repository_that_releases():
    pytest.importorskip("hatchling", reason="needs the extra [dev]")
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))
    files = hook["address"]({"GITHUB_REPOSITORY": "who/what", "GITHUB_REF_NAME": "v0.2.0"})
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = hook["for_an_index"](readme, files)
    assert "](https://github.com/who/what/blob/v0.2.0/docs/compare.md)" in page
    assert "](https://github.com/who/what/raw/v0.2.0/docs/images/step-gap.png)" in page
    linked = re.findall(r"what/(?:blob|raw)/v0\.2\.0/([^)#]*)", page)
    assert [place for place in linked if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.stem)
def test_actions_of_others_are_pinned_by_commit(workflow):
    used = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", action)] == []


def test_the_released_version_is_one_everywhere():
    """The fallback is the next version; CITATION and the changelog have the one that is ready to be tagged, with an empty section above it."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d[\d.]*)\]", changelog, re.M)[0]
    assert f"\nversion: {released}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert SETTINGS["tool"]["hatch"]["version"]["fallback-version"] == f"{released}.dev0"
    assert versions.notes(changelog, released)
    with pytest.raises(SystemExit, match=r"no section \[9\.9\]"):
        versions.notes(changelog, "9.9")
