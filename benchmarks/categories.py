"""A column with many categories: what its encoding is worth, beside one-hot columns, no such column at all, and boosting.

    python benchmarks/categories.py                               # a plain GP in each encoding; finished runs are not run again
    python benchmarks/categories.py --model default --rows 300    # the default in each encoding
    python benchmarks/categories.py --table                       # the table of what is finished

Generated tables: two numbers and a category. The category does nothing ("none"), shifts the target ("shift"), sets the slope along one of the numbers ("slope"), or shifts
the target and the phase of a wave ("phase"). NLPP and RMSE are of 1,000 test rows with known categories, in units of sd(y); lower is better. CatBoost joins where it is installed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

KINDS, LEVELS, ROWS = ("none", "shift", "slope", "phase"), (12, 50, 300, 2000), (300, 1000, 3000)
ENCODINGS = ("ours", "one-hot", "dropped", "boosting", "catboost")
TEST_ROWS, MOST_ONE_HOT = 1000, 400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/categories"))
    parser.add_argument("--model", choices=("gp", "default"), default="gp")
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--levels", nargs="+", type=int, default=list(LEVELS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--encodings", nargs="+", choices=ENCODINGS, default=list(ENCODINGS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="print the table of finished runs, run nothing")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for kind, levels, rows, encoding, seed in () if arguments.table else runs(arguments):
        path = arguments.out / f"{arguments.model}-{kind}-{levels}-{rows}-{encoding}-{seed}.json"
        if not path.exists():
            found = result(arguments.model, kind, levels, rows, encoding, seed)
            if found is not None:
                path.write_text(json.dumps(found))
                print(path.stem, found, flush=True)
    print_table(arguments.out, arguments.model)


def runs(arguments: argparse.Namespace) -> Iterator[tuple[str, int, int, str, int]]:
    """What is run: a table whose categories are names of its rows is none."""
    for rows in arguments.rows:
        for levels in arguments.levels:
            for kind in arguments.kinds if 2 * levels < rows else ():
                for seed in range(arguments.seeds):
                    for encoding in arguments.encodings:
                        if encoding != "one-hot" or levels <= MOST_ONE_HOT:
                            yield kind, levels, rows, encoding, seed


def generated(kind: str, levels: int, rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """A table with so many rows for training and TEST_ROWS more, and its targets."""
    rng = np.random.default_rng(seed)
    N = rows + TEST_ROWS
    level = rng.integers(0, levels, N)
    level[:levels] = np.arange(levels)  # every category of a test row is known
    a, b = rng.uniform(-2, 2, (2, N))
    one, other = rng.normal(size=(2, levels))
    y = {
        "none": np.sin(2 * a) + 0.5 * b,
        "shift": np.sin(2 * a) + 0.5 * b + one[level],
        "slope": np.sin(2 * a) + 0.5 * b + one[level] * b,
        "phase": np.sin(2 * a + 1.5 * one[level]) + 0.5 * b + 0.5 * other[level],
    }[kind]
    table = pd.DataFrame({"a": a, "b": b, "category": [f"level {k}" for k in level]})
    return table, y + 0.3 * rng.normal(size=N)


def result(model: str, kind: str, levels: int, rows: int, encoding: str, seed: int) -> dict[str, float] | None:
    """NLPP, RMSE and processor seconds of one model; None where its package is missing."""
    table, y = generated(kind, levels, rows, seed)
    X = encoded(table, encoding)
    begin = time.process_time()
    found = predicted(model, encoding, X, y[:rows], rows)
    if found is None:
        return None
    seconds = time.process_time() - begin
    mean, log_density = found(y[rows:])
    sd = float(np.std(y))
    return {
        "rmse": float(np.sqrt(np.mean((mean - y[rows:]) ** 2))) / sd,
        "nlpp": float(-np.mean(log_density) - np.log(sd)) if log_density is not None else float("nan"),
        "seconds": seconds,
    }


def encoded(table: pd.DataFrame, encoding: str) -> pd.DataFrame:
    """The table as a model of this encoding takes it."""
    if encoding == "one-hot":
        return pd.get_dummies(table, columns=["category"], dtype=float)
    if encoding == "dropped":
        return table.drop(columns="category")
    return table.astype({"category": "category"}) if encoding == "boosting" else table


def predicted(model: str, encoding: str, X: pd.DataFrame, y: np.ndarray, rows: int) -> Any:
    """A function of test targets: mean and log density of each; None where the package is missing."""
    train, test = X.iloc[:rows], X.iloc[rows:]
    if encoding == "boosting":
        from sklearn.ensemble import HistGradientBoostingRegressor

        few = train["category"].nunique() <= 255  # it takes no more
        if not few:
            train, test = (part.assign(category=part["category"].cat.codes) for part in (train, test))
        settings: dict[str, Any] = {} if few else {"categorical_features": None}
        boosting = HistGradientBoostingRegressor(random_state=0, **settings).fit(train, y)
        return lambda _: (boosting.predict(test), None)
    if encoding == "catboost":
        try:
            from catboost import CatBoostRegressor  # pyright: ignore[reportMissingImports]
        except ImportError:
            return None
        trees = CatBoostRegressor(
            random_seed=0, verbose=False, thread_count=1, cat_features=["category"], allow_writing_files=False
        )
        trees.fit(train, y)
        return lambda _: (trees.predict(test), None)
    from manifoldgp import GPRegressor, ManifoldGPRegressor

    ours = (GPRegressor if model == "gp" else ManifoldGPRegressor)(random_state=0).fit(train, y)
    return lambda y_test: (ours.predict(test), ours.log_predictive_density(test, y_test))


def print_table(out: Path, model: str) -> None:
    """Means over seeds, a row for each table."""
    found: dict[tuple[str, int, int], dict[str, list[dict[str, float]]]] = {}
    for path in sorted(out.glob(f"{model}-*.json")):
        kind, levels, rows, encoding = path.stem.removeprefix(f"{model}-").replace("one-hot", "one_hot").split("-")[:4]
        found.setdefault((kind, int(levels), int(rows)), {}).setdefault(encoding, []).append(json.loads(path.read_text()))
    names = [name.replace("-", "_") for name in ENCODINGS]
    names = [name for name in names if any(name in each for each in found.values())]
    scores = [("nlpp", name) for name in names if name not in ("boosting", "catboost")] + [("rmse", name) for name in names]
    print("| effect | levels | rows | " + " | ".join(f"{name.replace('_', '-')} {score}" for score, name in scores) + " |")
    print("|---|---|---|" + "---|" * len(scores))
    order = {kind: k for k, kind in enumerate(KINDS)}
    for (kind, levels, rows), each in sorted(found.items(), key=lambda item: (order[item[0][0]], item[0][1:])):
        cells = [f"{np.mean([r[score] for r in each[name]]):.2f}" if name in each else "" for score, name in scores]
        print(f"| {kind} | {levels:,} | {rows:,} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
