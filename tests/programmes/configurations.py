"""Random combinations of kernel, mean, features, noise, warping, targets, method and average: each fits and predicts usable numbers, or refuses in words."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import manifoldgp
from manifoldgp import (
    NUTS,
    Fast,
    GaussianNoise,
    Local,
    ManifoldGPRegressor,
    Restarts,
    Single,
    Sparse,
    Stack,
    TanhWarping,
    features,
    kernels,
    means,
)

from .cases import ALLOWED, Case, ForbiddenError, require_usable

KERNELS: dict[str, Any] = {
    "se": kernels.SquaredExponential(), "se without amplitude": kernels.SquaredExponential(ard=False, amplitude=False), "matern12": kernels.Matern12(),
    "matern32": kernels.Matern32(), "matern52": kernels.Matern52(), "rq": kernels.RationalQuadratic(), "nn": kernels.NeuralNetwork(),
    "periodic": kernels.Periodic(), "sm": kernels.SpectralMixture(2), "linear": kernels.Linear() + kernels.Constant(),
    "first feature": kernels.Matern32(dims=(0,)), "sum": kernels.SquaredExponential() + kernels.Linear(),
    "product": kernels.Matern52() * kernels.Periodic(amplitude=False),
}  # fmt: skip
MEANS: dict[str, Any] = {
    "zero": "zero",
    "constant": "constant",
    "linear": "linear",
    "linear on features": means.Linear(on="features"),
}
FEATURES: dict[str, Any] = {
    "default": None, "sizes": (3, 2), "identity": features.Identity(), "linear": features.Linear(2), "pca": features.PCA(1),
    "random": features.RandomEmbedding(3), "kumaraswamy": features.Kumaraswamy(), "nested": features.Nested(3, 1),
    "auto-encoder": features.AutoEncoder((2,), steps=5), "pretrained": features.MLP((3, 1)).pretrained(steps=5), "guided": features.MLP((3, 1)).guided(),
    "residual": features.Residual(features.MLP((2,))), "concatenate": features.Concatenate(features.Identity(), features.MLP((2,))),
    "chain": features.PCA(2) >> features.MLP((2, 1)), "deep": features.MLP((4, 3, 2), "relu"), "low rank": features.MLP((6, 6, 2), rank=1),
    "module": torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh()),
}  # fmt: skip
NOISES: dict[str, Any] = {"learned": "learned", "floor": GaussianNoise(floor=1e-3), "known": "known", "given": "learned"}
WARPINGS: dict[str, Any] = {"none": None, "tanh": TanhWarping(2)}
TARGETS = ("one", "one column", "two", "missing", "constant")
METHODS: dict[str, Any] = {"auto": "auto", "exact": "exact", "local": Local(cell=3, near=6), "sparse": Sparse(inducing=6)}
SMALL = {"warm_members": 1, "cold_members": 1, "own_members": 1, "fold_members": 1, "hidden": 2, "q": 1, "warm_iterations": 2, "steps": (2,), "variance_factors": (1.0, 4.0)}  # fmt: skip
"""Settings of a stack that trains every group for a moment; sparse stacks obey them too."""
SMALL_STACK = Stack(**SMALL, gp_starts=1, deals=1, gp_iterations=5, polish=2)
AVERAGES: dict[str, Any] = {
    "single": Single(restarts=1, max_iter=3), "shared": Single(restarts=2, max_iter=2, shared_features=True), "restarts": Restarts(2, 2),
    "stack": SMALL_STACK, "sparse stack": Stack(**SMALL), "fast": Fast(1, 5, 1, 2, 1, 2), "nuts": NUTS(1, 2, chains=2, tune=4, draws=4, thin=2, depth=2),
    "newton": Single(restarts=1, max_iter=2, optimizer="hessian-free"), "l-bfgs-b": Single(restarts=1, max_iter=2, optimizer="l-bfgs-b"),
}  # fmt: skip

CHOICES: dict[str, list[str]] = {
    "kernel": list(KERNELS), "mean": list(MEANS), "features": list(FEATURES), "noise": list(NOISES), "warping": list(WARPINGS), "targets": list(TARGETS),
    "method": list(METHODS), "average": list(AVERAGES), "standardize": ["True", "False", "X"],
}  # fmt: skip

ROWS = 16


def configuration(rng: np.random.Generator) -> dict[str, str]:
    """One choice of each. How many are the usual ones, which stand first, differs from case to case: a fit is refused more often the more of them are not."""
    usual = rng.random()
    average = CHOICES["average"][rng.integers(len(AVERAGES))]
    drawn = {name: choices[rng.integers(len(choices)) if rng.random() > usual else 0] for name, choices in CHOICES.items()}
    return drawn | {"average": average} | ({"method": "sparse"} if average == "sparse stack" else {})


def estimator_of(chosen: dict[str, str]) -> ManifoldGPRegressor:
    """The estimator with these arguments."""
    standardize: Any = {"True": True, "False": False}.get(chosen["standardize"], chosen["standardize"])
    return ManifoldGPRegressor(
        FEATURES[chosen["features"]], kernel=KERNELS[chosen["kernel"]], mean=MEANS[chosen["mean"]], noise=NOISES[chosen["noise"]],
        target_warping=WARPINGS[chosen["warping"]], method=METHODS[chosen["method"]], averaging=AVERAGES[chosen["average"]], standardize=standardize,
    )  # fmt: skip


def run(chosen: dict[str, str], rng: np.random.Generator, stored: bool = True) -> str:
    """Fit, predict, update, save and load; "answered", or "refused" where fit says why not."""
    X = rng.normal(size=(ROWS, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * rng.normal(size=ROWS)
    Y: Any = {"one": y, "one column": y[:, None], "two": np.stack([y, -(y**2)], 1), "constant": np.full(ROWS, 3.0)}.get(
        chosen["targets"], y.copy()
    )
    if chosen["targets"] == "missing":
        Y[3] = np.nan
    noise = {"noise_std": np.full(np.shape(Y), 0.1)} if chosen["noise"] in ("known", "given") else {}
    model = estimator_of(chosen)
    try:
        model.fit(X, Y, **noise)
    except ALLOWED as error:
        if not str(error).strip():
            raise ForbiddenError("a refusal without a word") from error
        return "refused"
    new = rng.normal(size=(5, 2)) * 3
    mean, std = model.predict(new, return_std=True)
    require_usable(mean, std)
    _quantiles_rise(model, new)
    if stored:
        _same_from_a_file(model, new, mean, std)
        _updated(model, new, Y, noise)
    return "answered"


def _updated(model: ManifoldGPRegressor, new: np.ndarray, Y: np.ndarray, noise: dict[str, np.ndarray]) -> None:
    """Rows that come later leave a model that answers, or are refused in words."""
    given = {name: np.asarray(value)[:2] for name, value in noise.items()}
    try:
        model.update(new[:2], Y[:2], **given)
    except ALLOWED as error:
        if not str(error).strip():
            raise ForbiddenError("an update that is refused without a word") from error
    require_usable(*model.predict(new, return_std=True))


def _quantiles_rise(model: ManifoldGPRegressor, X: np.ndarray) -> None:
    quantiles = np.asarray(model.predict_quantiles(X, (0.05, 0.5, 0.95)))
    if not np.isfinite(quantiles).all() or (np.diff(quantiles, axis=1) <= 0).any():
        raise ForbiddenError("quantiles that do not rise, or are not finite")


def _same_from_a_file(model: ManifoldGPRegressor, X: np.ndarray, mean: np.ndarray, std: np.ndarray) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mgp"
        try:
            model.save(path)
            loaded = manifoldgp.load(path, modules=[FEATURES["module"]] if isinstance(model.features, torch.nn.Module) else [])
        except ALLOWED as error:
            raise ForbiddenError(f"a model that is fitted and cannot be saved and loaded: {error}") from error
        again = loaded.predict(X, return_std=True)
    if not (np.array_equal(again[0], mean) and np.array_equal(again[1], std)):
        raise ForbiddenError("other predictions after a file")


def random_configuration(rng: np.random.Generator, **given: str) -> str:
    """A configuration drawn at random, apart from what is given; the message of a failure names it."""
    chosen = configuration(rng) | given
    try:
        return run(chosen, rng)
    except Exception as error:
        raise ForbiddenError(f"{chosen}: {type(error).__name__}: {error}") from error


def local_configuration(rng: np.random.Generator) -> str:
    """One of a stack whose members predict from the rows near a point."""
    return random_configuration(rng, method="local", average="stack")


AREAS: dict[str, Case] = {"configurations": random_configuration, "local-configurations": local_configuration}
