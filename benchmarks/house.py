"""How large the house is, and how many rooms a fit passes through: `make house`.

    python benchmarks/house.py [--tree DIR]

modules, packages, lines: of the package as the wheel holds it. hops: different calls from one file of the package to another while
a model is fitted or predicts, each pair of files counted once; deepest: the longest chain of such calls. Any: share of annotated parameters whose type is or contains Any.
source files that a new part touches: the parts of benchmarks/new_parts are put into a copy of the package and must work there; "-" where they do not, in revisions before
parts registered themselves.
--tree: a checkout of another revision, which is read and traced in a process of its own.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SMALL = 60
"""Lines below which a module with a single importer usually belongs into that importer."""


def files_of(package: Path) -> dict[str, Path]:
    """Every module of the package by its dotted name; a package by its own name."""
    names = {path: path.relative_to(package.parent).with_suffix("").parts for path in sorted(package.rglob("*.py"))}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in names.items()}


def sizes(package: Path) -> dict[str, Any]:
    """Modules, packages, lines; names that occur more than once; small modules with one importer; the share of Any."""
    files = files_of(package)
    modules = {name: path for name, path in files.items() if path.name != "__init__.py"}
    importers = _importers(files)
    names = Counter(path.name for path in modules.values())
    annotated, free = _annotations(files)
    return {
        "modules": len(modules),
        "packages": len(files) - len(modules),
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files.values()),
        "file names that occur more than once": sorted(name for name, count in names.items() if count > 1),
        "modules with one importer": sum(len(importers.get(name, ())) == 1 for name in modules),
        f"of these, fewer than {SMALL} lines": sorted(
            name
            for name, path in modules.items()
            if len(importers.get(name, ())) == 1 and len(path.read_text(encoding="utf-8").splitlines()) < SMALL
        ),
        "modules of more than 300 lines": sorted(
            name for name, path in modules.items() if len(path.read_text(encoding="utf-8").splitlines()) > 300
        ),
        "share of annotated parameters that are Any": round(free / max(annotated, 1), 4),
    }


def _importers(files: dict[str, Path]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    found.setdefault(whole if whole in files else node.module, set()).add(name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    found.setdefault(alias.name, set()).add(name)
    return found


def _annotations(files: dict[str, Path]) -> tuple[int, int]:
    """How many parameters have annotations, and how many of those contain Any."""
    annotated = free = 0
    for path in files.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
                for parameter in every:
                    if parameter is not None and parameter.annotation is not None:
                        annotated += 1
                        free += any(isinstance(part, ast.Name) and part.id == "Any" for part in ast.walk(parameter.annotation))
    return annotated, free


class Hops:
    """Calls between files of a package, in all threads that begin while the ``with`` block runs and in the one that runs it."""

    def __init__(self, package: Path) -> None:
        self._package = str(package) + os.sep
        self._mine = threading.local()
        self.pairs: set[tuple[str, str]] = set()
        self.files: set[str] = set()
        self.deepest = 0

    def __enter__(self) -> Hops:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event not in ("call", "return") or not file.startswith(self._package):
            return
        chain: list[str] = self._mine.__dict__.setdefault("chain", [])
        if event == "return":
            if chain:  # a function that was called before the block began returns in it
                chain.pop()
            return
        if chain and chain[-1] != file:
            self.pairs.add((chain[-1], file))
        self.files.add(file)
        chain.append(file)
        self.deepest = max(self.deepest, sum(a != b for a, b in pairwise(chain)))

    def counts(self) -> dict[str, int]:
        return {"files": len(self.files), "hops": len(self.pairs), "deepest chain": self.deepest}


def traced(package: Path) -> dict[str, dict[str, int]]:
    """Files and hops of the default fit, of a single model's, of a sparse one's, and of predictions."""
    sys.path.insert(0, str(package.parent))
    import warnings

    import numpy as np

    from manifoldgp import GPRegressor, ManifoldGPRegressor

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.sin(2 * X[:, 0]) + (X[:, 1] > 0) + 0.05 * rng.normal(size=60)
    GPRegressor().fit(X, y).predict(X, return_std=True)  # modules that are imported when they are first used are there now
    found = {}
    for name, estimator in (
        ("fit, the default", ManifoldGPRegressor()),
        ("fit, a plain GP", GPRegressor()),
        ("fit, sparse", ManifoldGPRegressor(method="sparse")),
    ):
        with Hops(package) as hops:
            estimator.fit(X, y)
        found[name] = hops.counts()
        if name == "fit, the default":
            with Hops(package) as hops:
                estimator.predict(X, return_std=True)
            found["predict, the default"] = hops.counts()
    return found


NEW_PARTS = {
    "kernel": (
        "cauchy.py",
        "kernels",
        [("from manifoldgp.errors", "from manifoldgp.kernels.cauchy import Cauchy\nfrom manifoldgp.errors")],
    ),
    "feature map": (
        "stretched.py",
        "features",
        [("\n__all__", "\nfrom manifoldgp.features.stretched import Stretched\n\n__all__")],
    ),
    "averaging method": (
        "uniform.py",
        "averaging",
        [
            ("\nAVERAGINGS", "\nfrom manifoldgp.averaging.uniform import Uniform\n\nAVERAGINGS"),
            ("NUTS, Single)}", "NUTS, Single, Uniform)}"),
        ],
    ),
}
"""New parts by kind: the file in benchmarks/new_parts, the room it goes to, and the edits of that room's __init__.py."""


def new_parts(tree: Path) -> dict[str, int | None]:
    """Source files that a new kernel, feature map and averaging method touch, in a copy of the tree where all three then work; None where they do not."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(tree / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        touched = {kind: _added(copy / "manifoldgp", *part) for kind, part in NEW_PARTS.items()}
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        check = [sys.executable, str(ROOT / "benchmarks" / "new_parts" / "check.py")]
        works = subprocess.run(check, env=environment, capture_output=True, check=False).returncode == 0
    return {f"source files that a new {kind} touches": count if works else None for kind, count in touched.items()}


def _added(package: Path, file: str, room: str, edits: list[tuple[str, str]]) -> int:
    """Put a new part into a copy of the package; how many files are new or changed."""
    before = {path: path.read_bytes() for path in package.rglob("*.py")}
    shutil.copy(ROOT / "benchmarks" / "new_parts" / file, package / room / file)
    init = package / room / "__init__.py"
    text = init.read_text(encoding="utf-8")
    for old, new in edits:
        text = text.replace(old, new, 1)
    init.write_text(text, encoding="utf-8")
    return sum(before.get(path) != path.read_bytes() for path in package.rglob("*.py"))


def measured(tree: Path) -> dict[str, Any]:
    """Everything about one checkout, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, __file__, "--one", str(tree)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _shown(value: list | float | int | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return str(len(value))
    return f"{value:.1%}" if isinstance(value, float) else f"{value:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, help="a checkout of another revision, to show beside this one")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        package = given.one.resolve() / "src" / "manifoldgp"
        calls = {f"{run}: {name}": count for run, counts in traced(package).items() for name, count in counts.items()}
        print(json.dumps({**sizes(package), **calls, **new_parts(given.one.resolve())}))
        return
    columns = {"this tree": measured(ROOT)}
    if given.tree is not None:
        columns = {given.tree.name: measured(given.tree.resolve()), **columns}
    print(f"{'':48}" + "".join(f"{name:>14}" for name in columns))
    for row in columns["this tree"]:
        values = [column[row] for column in columns.values()]
        print(f"{row:48}" + "".join(f"{_shown(value):>14}" for value in values))
        if isinstance(values[-1], list) and values[-1]:
            print("    " + ", ".join(str(item) for item in values[-1]))


if __name__ == "__main__":
    main()
