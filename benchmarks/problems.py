"""Data, starting values and the reference NLML of the benchmarks, as plain NumPy; standardised, so that every library sees the same numbers.

Parameter values are dicts: lengthscale (Q,), variance, noise (a variance), and layers [(W, b), ...] of a log-sigmoid network, empty for a plain GP.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

NETWORK = (10, 3)
STEP_NETWORK = (6, 2)


def smooth(rows: int, inputs: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """X (N, D) and y (N,): a smooth function of the first inputs with noise of sd 0.1, standardised."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, inputs))
    A, B, C = (X[:, i % inputs] for i in range(3))
    y = np.sin(2 * A) + 0.5 * B + 0.3 * A * C + 0.1 * rng.normal(size=rows)
    return standardized(X), standardized(y)


def step(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The paper's step experiment: 100 rows, one input; standardised."""
    from manifoldgp.data import step_function

    data = step_function(seed)
    return standardized(data.X_train), standardized(data.y_train)


def standardized(table: np.ndarray) -> np.ndarray:
    return (table - table.mean(0)) / table.std(0)


def fixed_values(inputs: int = 3, network: tuple[int, ...] = (), seed: int = 0) -> dict:
    """One point of parameter space for the timing of single evaluations."""
    rng = np.random.default_rng(seed)
    sizes = (inputs, *network)
    layers = [[rng.normal(size=(n, m)).tolist(), rng.normal(size=m).tolist()] for n, m in pairwise(sizes)]
    return {"lengthscale": [1.5 if not network else 0.5] * sizes[-1], "variance": 1.0, "noise": 0.1, "layers": layers}


def starts(X: np.ndarray, y: np.ndarray, count: int, network: tuple[int, ...] = ()) -> list[dict]:
    """The very starting values that manifoldgp's estimators draw with random_state=0; every library begins there."""
    import torch

    from manifoldgp.averaging.averages import FoldChoice
    from manifoldgp.data.scaling import Standardizer
    from manifoldgp.estimators.arguments import generator_of
    from manifoldgp.estimators.canonical_data import learning_data
    from manifoldgp.features import MLP, Identity
    from manifoldgp.model import Data, Model

    model = Model(features=MLP(network) if network else Identity())
    as_they_are = Standardizer.fit(X, False), Standardizer.fit(y[:, None], False)
    (data,), _ = learning_data([Data(torch.from_numpy(X), torch.from_numpy(y))], FoldChoice(), *as_they_are)
    _, drawn = model.draw(data, generator_of(0), count)
    return [plain_values(drawn, i) for i in range(count)]


def plain_values(tree: dict, member: int) -> dict:
    """One member of manifoldgp's tree of values as the plain dict of this module."""
    features, kernel = tree.get("features", {}), tree["kernel"]
    layers = [[features[i]["weight"][member].tolist(), features[i]["bias"][member].tolist()] for i in sorted(features, key=int)]
    noise = float(tree["noise"]["scale"][member]) ** 2
    lengthscale = kernel["lengthscale"][member].tolist()
    return {"lengthscale": lengthscale, "variance": float(kernel["variance"][member]), "noise": noise, "layers": layers}


def reference_nlml(X: np.ndarray, y: np.ndarray, values: dict) -> float:
    """-log N(y | 0, K + noise I), from the definition."""
    H = np.asarray(X)
    for W, b in values.get("layers", []):
        H = 0.5 + 0.5 * np.tanh(0.5 * (H @ np.array(W) + np.array(b)))  # the log-sigmoid, without overflow
    Z = H / np.array(values["lengthscale"])
    square = (Z**2).sum(1)
    K = values["variance"] * np.exp(-0.5 * np.maximum(square[:, None] + square - 2 * Z @ Z.T, 0))
    K[np.diag_indices(len(y))] = values["variance"] + values["noise"]
    sign, log_determinant = np.linalg.slogdet(K)
    if sign <= 0:
        return float("nan")
    return float(0.5 * (y @ np.linalg.solve(K, y) + log_determinant + len(y) * np.log(2 * np.pi)))
