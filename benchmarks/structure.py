"""Kernel search beside published numbers: 10-fold negative log density and squared error of standardised targets.

    python benchmarks/structure.py --out benchmarks/results/structure            # finished folds are not run again
    python benchmarks/structure.py --only housing --folds 3 --budget 60          # a part of it

Duvenaud et al. (2013, tables 2 and 3) report, for structure search and for an additive GP, concrete 0.065 and 0.114, housing 0.059 and 0.194 nats. Their folds are
not published; these are drawn with a fixed seed. The data are read from ../shared/data beside the repository (boston.npz is their housing), and a set that
is not there is skipped.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = {"housing": "boston.npz", "concrete": "concrete.npz"}
PUBLISHED = {
    "housing": {"structure search": 0.059, "additive GP": 0.194},
    "concrete": {"structure search": 0.065, "additive GP": 0.114},
}
FOLDS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/structure"))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", nargs="+", choices=list(FILES), default=list(FILES))
    parser.add_argument("--folds", type=int, default=FOLDS, help="how many of the ten folds to run")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of a search")
    parser.add_argument("--rows", type=int, default=300, help="rows that candidates are compared on")
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--table", action="store_true", help="print the table of finished folds, run nothing")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        path = given.data / FILES[name]
        if not path.exists():
            print(f"{name}: skipped, needs {path}")
            continue
        for fold in range(0 if given.table else given.folds):
            run(name, path, fold, given)
        print_table(name, given.out)


def run(name: str, path: Path, fold: int, given: argparse.Namespace) -> None:
    """One fold: a plain GP with an SE-ARD kernel, and the search."""
    target = given.out / f"{name}-{fold}.json"
    if target.exists():
        return
    from manifoldgp import GPRegressor, KernelSearch

    table = np.load(path)
    X, y = table["X"], table["y"]
    fold_of = np.random.default_rng(0).permutation(len(y)) % FOLDS
    test = fold_of == fold
    models = {
        "plain GP": GPRegressor(),
        "kernel search": KernelSearch(
            given.depth, beam=1, budget=given.budget, rows=given.rows, kernels=("se", "rq", "periodic", "linear", "constant")
        ),
    }
    found: dict[str, object] = {}
    for label, model in models.items():
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X[~test], y[~test])
        found[label] = score(model, X[test], y[test], y[~test]) | {"processor seconds": round(time.process_time() - begin, 1)}
    search = models["kernel search"]
    assert isinstance(search, KernelSearch)
    found["words"], found["expression"] = str(search.describe()), search.search_[0].candidates[0].expression
    target.write_text(json.dumps(found, indent=1))
    print(name, fold, found["plain GP"], found["kernel search"], found["expression"], flush=True)


def score(model, X: np.ndarray, y: np.ndarray, training: np.ndarray) -> dict[str, float]:
    """NLL a row and mean squared error, of targets that are standardised by the training rows."""
    scale = training.std()
    density = float(model.log_predictive_density(X, y).mean()) + float(np.log(scale))
    return {"nll": round(-density, 4), "mse": round(float(np.mean(((model.predict(X) - y) / scale) ** 2)), 4)}


def print_table(name: str, out: Path) -> None:
    folds = [json.loads(path.read_text()) for path in sorted(out.glob(f"{name}-*.json"))]
    if not folds:
        return
    print(f"{name}, {len(folds)} of {FOLDS} folds: NLL a row (standard error), mean squared error")
    for label in ("plain GP", "kernel search"):
        nll, mse = (np.array([fold[label][key] for fold in folds]) for key in ("nll", "mse"))
        print(f"  {label:<28} {nll.mean():7.3f} ({nll.std() / max(len(nll) - 1, 1) ** 0.5:.3f})  {mse.mean():.3f}")
    for label, value in PUBLISHED[name].items():
        print(f"  {label + ' (published)':<28} {value:7.3f}")


if __name__ == "__main__":
    main()
