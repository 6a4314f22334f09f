"""What is shipped: the version, the contents of a wheel, the lock, and the commands that continuous integration runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import manifoldgp

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
    for name in ("src", "paper", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path / "dist"), str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.name == "manifoldgp-0.1.0.dev0-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    sources = {
        str(p.relative_to(ROOT / "src")) for p in (ROOT / "src").rglob("*") if p.is_file() and "__pycache__" not in p.parts
    }
    assert sources <= set(names)
    assert "manifoldgp/py.typed" in names
    assert not [name for name in names if name.startswith(("tests", "docs", "examples", "paper"))]


def test_the_source_archive_has_every_folder_with_code():
    included = SETTINGS["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {f"/{folder}" for folder in ("src", "paper", "tests", "benchmarks", "examples")} <= set(included)


def test_the_lock_pins_what_the_locked_extras_ask_for():
    (listed,) = re.findall(r"^LOCKED_EXTRAS := (.*)$", MAKEFILE, re.M)
    extras = PROJECT["optional-dependencies"]
    assert set(listed.split(",")) == set(extras)
    wanted = [*PROJECT["dependencies"], *(requirement for name in listed.split(",") for requirement in extras[name])]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pinned = {normalised(line) for line in lock}
    assert {normalised(requirement) for requirement in wanted} - {"manifoldgp"} <= pinned
    assert all(re.fullmatch(r"[\w.-]+==[\w.!]+", line) for line in lock)


def test_continuous_integration_runs_targets_that_exist():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    ran = set(re.findall(r"run: make (\w+)", workflow))
    assert {"test", "docs", "build"} <= ran
    assert all(re.search(rf"^{target}:", MAKEFILE, re.M) for target in ran)
