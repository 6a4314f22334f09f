"""The methods of the paper's tables, ours beside them, and what figures need of their fitted models."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldgp import MLP, PCA, AutoEncoder, GPRegressor, KernelSearch, ManifoldGPRegressor, RandomEmbedding, Restarts, Single
from manifoldgp.inspection import learned_features
from paper.experiment import Config, Method


def gp_se(expected_seconds: float = 1.0) -> Method:
    """A plain GP with the squared exponential kernel and a length-scale for each input (eq. 5)."""
    return Method("gp-se", "GP SE-ARD", lambda c: _gp(c, "se"), expected_seconds=expected_seconds)


def gp_nn(expected_seconds: float = 1.0) -> Method:
    """A plain GP with the neural network (arcsine) kernel (eq. 6)."""
    return Method("gp-nn", "GP NN", lambda c: _gp(c, "nn"), expected_seconds=expected_seconds)


def mgp_sigmoid(sizes: tuple[int, ...], expected_seconds: float = 1.0) -> Method:
    """The paper's model: a log-sigmoid network trained by marginal likelihood, the best of several starts."""
    return Method("mgp-sigmoid", "mGP (log-sigmoid)", lambda c: _mgp(c, sizes), expected_seconds=expected_seconds)


def mgp_identity(sizes: tuple[int, ...], expected_seconds: float = 1.0) -> Method:
    """The paper's linear variant: the same network without transfer functions."""
    return Method(
        "mgp-identity",
        "mGP (identity)",
        lambda c: _mgp(c, MLP(sizes, "identity")),
        expected_seconds=expected_seconds,
    )


def random_embedding(q: int, expected_seconds: float = 1.0) -> Method:
    """A random linear map to q features, drawn with the seed, then a plain GP."""
    return Method(
        "random-embedding",
        "RandEmb + GP SE-ARD",
        lambda c: _mgp(c, RandomEmbedding(q, seed=c.seed)),
        expected_seconds=expected_seconds,
    )


def pca(q: int, expected_seconds: float = 1.0) -> Method:
    """The first q principal components, then a plain GP."""
    return Method("pca", "PCA + GP SE-ARD", lambda c: _mgp(c, PCA(q)), expected_seconds=expected_seconds)


SEARCH = "kernel-search"

NAMED_NOTE = (
    "Three rows are named by the paper and not tabulated there. Auto-encoder + GP (Vincent et al. 2008): the code of an auto-encoder of the inputs, then a plain GP. "
    "Pre-trained mGP (Salakhutdinov and Hinton 2007): the paper's network, started as such a code and then trained on the evidence. "
    "Kernel search (Duvenaud et al. 2013), the introduction's other way beyond a fixed covariance: "
    "sums and products of kernels of single inputs, found by the evidence with a penalty for each parameter."
)
"""Under every table."""


def kernel_search(expected_seconds: float = 10.0) -> Method:
    """What the paper names beside its own way and does not try: a plain GP whose kernel is searched for, three steps deep, candidates compared on 200 rows."""
    return Method(
        SEARCH,
        "Kernel search",
        lambda c: KernelSearch(min(3, c.restarts), beam=1, rows=200, max_iter=min(100, c.max_iter), random_state=c.seed),
        expected_seconds=expected_seconds,
    )


def autoencoder(sizes: tuple[int, ...], expected_seconds: float = 3.0) -> Method:
    """The paper's first example of features without targets: an auto-encoder with the paper's layers, learnt from the inputs alone, then a plain GP."""
    return Method(
        "autoencoder",
        "Auto-encoder + GP SE-ARD",
        lambda c: _mgp(c, AutoEncoder(sizes, seed=c.seed, steps=_steps(c))),
        expected_seconds=expected_seconds,
    )


def mgp_pretrained(sizes: tuple[int, ...], expected_seconds: float = 5.0) -> Method:
    """The paper's model, started as the encoder of an auto-encoder instead of at random."""
    return Method(
        "mgp-pretrained",
        "mGP, pre-trained",
        lambda c: _mgp(c, MLP(sizes).pretrained(seed=c.seed, steps=_steps(c))),
        expected_seconds=expected_seconds,
    )


def _steps(config: Config) -> int:
    """Steps of an auto-encoder: the package's default, fewer in runs that are cut short."""
    return min(3000, 6 * config.max_iter)


def mgp_restarts(sizes: tuple[int, ...], expected_seconds: float = 1.0) -> Method:
    """Ours: all starts of the paper's model, weighted by tempered evidence, instead of the best one."""
    return Method(
        "mgp-restarts",
        "mGP, averaged restarts",
        lambda c: _mgp(c, sizes, Restarts),
        average=True,
        expected_seconds=expected_seconds,
    )


def stack(sizes: tuple[int, ...], expected_seconds: float = 5.0) -> Method:
    """Ours: the plain GP and many mGPs, the paper's network among them, weighted by their predictions of held-out folds.

    How many members and starts there are is the estimator's own default.
    """
    return Method(
        "stack",
        "mGP stack (our default)",
        lambda c: ManifoldGPRegressor(sizes, averaging="stack", random_state=c.seed),
        average=True,
        expected_seconds=expected_seconds,
    )


def _gp(config: Config, kernel: str) -> GPRegressor:
    return GPRegressor(kernel, restarts=config.restarts, max_iter=config.max_iter, random_state=config.seed)


def _mgp(config: Config, features: Any, kind: type[Single] | type[Restarts] = Single) -> ManifoldGPRegressor:
    averaging = kind(restarts=config.restarts, max_iter=config.max_iter)
    return ManifoldGPRegressor(features, averaging=averaging, random_state=config.seed)


def band(model: Any, X: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Predictive mean and 95 % bounds of y at X (n, D): each (n,)."""
    lower, upper = model.predict_quantiles(X, (0.025, 0.975)).T
    return {"mean": model.predict(X), "lower": lower, "upper": upper}


def scaled_features(model: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Features H = M(X) divided by the kernel's length-scales (n, Q): the distances that the kernel sees. For a single SE model."""
    learned = learned_features(model, X)
    assert learned.lengthscales is not None  # the SE kernel has one for each feature
    return learned.H / learned.lengthscales
