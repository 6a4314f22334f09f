"""Versions of what this project stands on: the locks, and tests with the lowest and the newest versions on every Python that can be had.

    python tests/versions.py lock                             # make lock: resolve requirements.lock and requirements-tools.lock anew, with hashes
    python tests/versions.py test                             # make test-versions: lowest on the oldest Python, newest on each
    python tests/versions.py test --only lowest-3.11 -- -x    # one of them; what follows -- goes to pytest
    python tests/versions.py wheel dist/*.whl                 # make check-build: the README's steps with the wheel alone, on each Python
    python tests/versions.py notes 0.2.0                      # make notes: what CHANGELOG.md says of a version

All but the last need uv beside the Python that runs it (requirements-tools.lock has it). uv asks the public index unless its own variables name another one: UV_INDEX_URL;
UV_TORCH_BACKEND=cpu takes PyTorch from its own index of builds without CUDA. A Python that is neither here nor to be downloaded is
told and left out. Ends with 1 if an environment could not be resolved or something failed in it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

LOCK_HEAD = """\
# Made by `make lock` from pyproject.toml: every package of every extra, for each Python and platform, with the hashes of all files of that version, so that
# `pip install --require-hashes` takes none that was changed since. It is complete: install with --no-deps.
# PyTorch is not here but in requirements-torch.lock, installed first; neither are the GPU libraries that its CUDA builds bring.
"""
TOOLS_HEAD = "# Made by `make lock` from the dependency group `release` of pyproject.toml: what `make lock`, `test-versions`, `check-build` and `audit` run.\n"
OF_TORCH = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)==")
REFUSED = {"lazy-importer": "it patches Python's own import; importlib-metadata 10.2 and later ask for it"}

USERS_EXTRAS = "plots,cli,bayes,onnx,botorch,gpytorch,data,excel,cluster"
FOR_TESTS = re.compile(r"(pytest|hypothesis|polars|importlib-metadata)\b")
QUICK = (
    "tests/cli/test_names.py",
    "tests/cli/test_tables_to_predictions.py",
    "tests/predictor/test_onnx.py",
    "tests/test_botorch.py",
    "tests/test_cluster.py",
    "tests/test_comparison.py",
    "tests/test_estimator_contract.py",
    "tests/test_frames.py",
    "tests/test_gpytorch_kernels.py",
    "tests/test_inputs.py",
    "tests/test_kernels.py",
    "tests/test_linalg.py",
    "tests/test_model_plots.py",
    "tests/test_persistence.py",
    "tests/test_plots.py",
    "tests/test_tables.py",
    "tests/test_train.py",
)
"""Tests that call each dependency, in a few minutes."""


class Environment(NamedTuple):
    """A Python, and which versions of the dependencies it gets."""

    python: str
    resolution: str

    @property
    def name(self) -> str:
        return f"{self.resolution.removesuffix('-direct')}-{self.python}"


ENVIRONMENTS = (Environment(PYTHONS[0], "lowest-direct"), *(Environment(python, "newest") for python in PYTHONS))


def uv(*arguments: str | Path) -> None:
    """Run uv here; what it says of a failure is raised."""
    ran = subprocess.run([UV, *arguments], cwd=ROOT, env=_with_all_pythons(), capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip())


def _with_all_pythons() -> dict[str, str]:
    """pyenv's command for a version runs only where that version was chosen, so uv is shown the interpreters behind it."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [str(folder) for folder in sorted(versions.glob("3.*/bin"))]
    return os.environ | {"PATH": os.pathsep.join((*folders, os.environ["PATH"]))}


def entries(resolved: str) -> Iterator[str]:
    """The requirements of a resolved file, each with its hashes and the comment that names who asked for it.

    >>> list(entries("a==1 \\\\\\n    --hash=sha256:0\\n    # via b\\nb==2\\n"))
    ['a==1 \\\\\\n    --hash=sha256:0\\n    # via b\\n', 'b==2\\n']
    """
    return (match.group() for match in re.finditer(r"^[^\s#].*\n(?:[ \t].*\n)*", resolved, re.M))


def checked(entry: str) -> str:
    """The entry, unless it is a package that we do not want."""
    name = entry.split("==")[0]
    if name in REFUSED:
        raise SystemExit(f"The resolved set has {name}, which is refused: {REFUSED[name]}. Find a set without it.")
    return entry


def lock() -> None:
    """Resolve both locks anew. To move PyTorch, edit its line in requirements-torch.lock first."""
    project = ("pyproject.toml", "--all-extras", "--constraint", "requirements-torch.lock")
    for name, head, source in (
        ("requirements.lock", LOCK_HEAD, project),
        ("requirements-tools.lock", TOOLS_HEAD, ("--group", "pyproject.toml:release")),
    ):
        resolved = _resolved(source)
        kept = [checked(entry) for entry in entries(resolved) if not OF_TORCH.match(entry)]
        (ROOT / name).write_text(head + "".join(kept), encoding="utf-8")
        print(f"{name}: {len(kept)} packages")


def _resolved(source: Iterable[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "resolved"
        every = ("--universal", "--python-version", PYTHONS[0], "--generate-hashes", "--no-header")
        uv("pip", "compile", "--quiet", *source, *every, "--output-file", out)
        return out.read_text(encoding="utf-8")


def for_tests() -> list[str]:
    """What the tests themselves need, of the extra dev."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [requirement for requirement in project["optional-dependencies"]["dev"] if FOR_TESTS.match(requirement)]


def in_each(environments: Iterable[Environment], wanted: list[str], run: Callable[[Environment, Path], bool]) -> int:
    """Make each environment, install what is wanted, run something with its Python; 1 if one failed."""
    outcomes = []
    for environment in environments:
        with tempfile.TemporaryDirectory(prefix=f"manifoldgp-{environment.name}-") as folder:
            outcomes.append((environment.name, _outcome(environment, Path(folder), wanted, run)))
            print(": ".join(outcomes[-1]), flush=True)
    print("\n" + "\n".join(f"{name:12s} {outcome}" for name, outcome in outcomes))
    return int(any(outcome.startswith("failed") for _, outcome in outcomes))


def _outcome(environment: Environment, folder: Path, wanted: list[str], run: Callable[[Environment, Path], bool]) -> str:
    python = folder / "bin" / "python"
    try:
        uv("venv", "--quiet", "--python", environment.python, "--allow-existing", folder)
    except RuntimeError as error:
        return f"left out, this Python cannot be had: {str(error).splitlines()[0]}"
    resolution = "highest" if environment.resolution == "newest" else environment.resolution
    try:
        uv("pip", "install", "--quiet", "--python", python, "--resolution", resolution, *wanted)
    except RuntimeError as error:
        return f"failed, no such set of versions: {error}"
    return "passed" if run(environment, python) else "failed"


def quick_tests(only: list[str], pytest: list[str]) -> int:
    """The quick tests in each environment, in this tree, with the package as it is installed there."""
    chosen = [environment for environment in ENVIRONMENTS if not only or environment.name in only]

    def run(environment: Environment, python: Path) -> bool:
        # Old libraries warn of what newer ones brought; that concerns nobody who updates. With the newest versions a warning is a change to come.
        # One stays an error: pytest's own, of a package that is installed and cannot be imported, whose tests would be skipped.
        lenient = (
            ["-o", "filterwarnings=default", "-W", "error::pytest.PytestDeprecationWarning"]
            if environment.resolution != "newest"
            else []
        )
        command = [python, "-m", "pytest", "-q", "--durations=0", "--durations-min=10", *lenient, *(pytest or QUICK)]
        return subprocess.run(command, cwd=ROOT, env=_without_this_environment()).returncode == 0

    return in_each(chosen, [f".[{USERS_EXTRAS}]", *for_tests()], run)


def wheel(file: Path) -> int:
    """The README's Python and commands, in an empty folder, with nothing but the wheel and the extras that the README names."""
    extras = re.search(r"pip install \"\.\[(.*?)\]\"", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert extras is not None, "README.md says how to install"

    def run(environment: Environment, python: Path) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            steps = [python, "-I", ROOT / "tests" / "readme_steps.py", ROOT / "README.md"]
            return subprocess.run(steps, cwd=folder, env=_without_this_environment()).returncode == 0

    environments = [environment for environment in ENVIRONMENTS if environment.resolution == "newest"]
    return in_each(environments, [f"manifoldgp[{extras[1]}] @ {file.resolve().as_uri()}"], run)


def notes(changelog: str, version: str) -> str:
    """What a changelog says of one version, without the heading.

    >>> notes("## [Unreleased]\\n\\n## [0.2.0] - 2026-11-17\\n\\nNew.\\n\\n## [0.1.0]\\n\\nFirst.\\n", "0.2.0")
    'New.\\n'
    """
    found = re.search(rf"^## \[{re.escape(version)}\].*\n(?P<text>(?:(?!## ).*\n?)*)", changelog, re.M)
    if found is None or not found["text"].strip():
        raise SystemExit(
            f"CHANGELOG.md has no section [{version}], or nothing in it. Rename [Unreleased] and begin a new one above it."
        )
    return found["text"].strip() + "\n"


def _without_this_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")} | {"NO_COLOR": "1"}


def main() -> None:
    ours, _, pytest = " ".join(sys.argv[1:]).partition(" -- ")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = parser.add_subparsers(dest="task", required=True)
    tasks.add_parser("lock")
    tasks.add_parser("test").add_argument("--only", nargs="+", default=[], choices=[one.name for one in ENVIRONMENTS])
    tasks.add_parser("wheel").add_argument("file", type=Path)
    tasks.add_parser("notes").add_argument("version")
    chosen = parser.parse_args(ours.split())
    if chosen.task == "notes":
        sys.stdout.write(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), chosen.version))
        return
    if not UV.exists():
        raise SystemExit(f"There is no uv beside {sys.executable}. Run this by make, or install requirements-tools.lock.")
    if chosen.task == "lock":
        lock()
    else:
        raise SystemExit(quick_tests(chosen.only, pytest.split()) if chosen.task == "test" else wheel(chosen.file))


if __name__ == "__main__":
    main()
