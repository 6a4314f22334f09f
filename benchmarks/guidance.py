"""Does a network overfit less if its features must give the inputs back? Few rows of real tables, with the weight of the guidance chosen by held-out rows.

    python benchmarks/guidance.py [--data ../shared/data] [--rows 200] [--seeds 3] [--only boston concrete energy]

Mean held-out NLPP (lower is better) of a single network without guidance and with it, the weight found by GridSearchCV on the training rows alone, beside a plain GP and
a stack (one deal of the folds); in brackets the weights that were taken.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

from manifoldgp import MLP, GPRegressor, ManifoldGPRegressor, Single, Stack

NETWORK = MLP((10, 3), "tanh")
WEIGHTS = (0.0, 0.1, 1.0, 10.0)
MOST_TEST = 300


def single(features: object, seed: int) -> ManifoldGPRegressor:
    return ManifoldGPRegressor(features, averaging=Single(restarts=2, max_iter=60), random_state=seed)


def guided(seed: int) -> GridSearchCV:
    """The network with the weight, none among them, that predicts held-out rows best."""
    choices = [NETWORK.guided(weight) if weight else NETWORK for weight in WEIGHTS]
    folds = KFold(3, shuffle=True, random_state=seed)
    return GridSearchCV(single(NETWORK, seed), {"features": choices}, scoring=density, cv=folds, error_score="raise")


def density(model: ManifoldGPRegressor, X: np.ndarray, y: np.ndarray) -> float:
    return float(model.log_predictive_density(X, y).mean())


def scores(path: Path, rows: int, seed: int) -> tuple[dict[str, float], float]:
    """NLPP of every method on rows that it has not seen, and the weight that was taken."""
    table = np.load(path)
    order = np.random.default_rng(seed).permutation(len(table["y"]))
    X, y = table["X"][order].astype(float), table["y"][order].astype(float).ravel()
    train, test = slice(0, rows), slice(rows, rows + MOST_TEST)
    search = guided(seed).fit(X[train], y[train])
    models = {
        "plain GP": GPRegressor(restarts=3, random_state=seed).fit(X[train], y[train]),
        "network": single(NETWORK, seed).fit(X[train], y[train]),
        "guided": search.best_estimator_,
        "stack": ManifoldGPRegressor(averaging=Stack(deals=1), random_state=seed).fit(X[train], y[train]),
    }
    return {name: -density(model, X[test], y[test]) for name, model in models.items()}, getattr(
        search.best_params_["features"], "weight", 0.0
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[1] / ".." / "shared" / "data")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=["boston", "concrete", "energy"])
    arguments = parser.parse_args()
    lines = []
    for name in arguments.only:
        found = [scores(arguments.data / f"{name}.npz", arguments.rows, seed) for seed in range(arguments.seeds)]
        methods = list(found[0][0])
        cells = [f"{np.mean([nlpp[method] for nlpp, _ in found]):.2f}" for method in methods]
        if not lines:
            lines += [f"| {arguments.rows} rows | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
        lines.append(f"| {name} | {' | '.join(cells)} | ({', '.join(f'{weight:g}' for _, weight in found)})")
        print(lines[-1], flush=True)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
