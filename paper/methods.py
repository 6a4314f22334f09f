"""The methods of the paper's tables, ours beside them, and what figures need of their fitted models."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldgp import (
    MLP,
    PCA,
    AutoEncoder,
    GPRegressor,
    KernelSearch,
    Kumaraswamy,
    Linear,
    ManifoldGPRegressor,
    RandomEmbedding,
    Restarts,
    Single,
)
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


OTHER_STARTS = ("stack", "kernel-search", "deep-gp")
"""Methods that choose their starts themselves, whatever a Config says."""


def named(sizes: tuple[int, ...], inputs: int) -> tuple[Method, ...]:
    """Every method that the paper cites and that predicts, for a table with so many inputs and the network ``sizes``; those of its own tables are elsewhere.

    A linear map of a single input, and a dimension taken away from it, leave a plain GP: these need two inputs. The deep GP is left out where GPyTorch is not installed.
    """
    q = max(1, min(3, inputs - 1))
    several = (
        Method("ica", "ICA + GP SE-ARD", lambda c: _mgp(c, _ica(q, c.seed)), 1, cites="Hyvärinen and Oja 2000"),
        Method("isomap", "Isomap + GP SE-ARD", lambda c: _mgp(c, _isomap(q)), 1, cites="Tenenbaum et al. 2000"),
        Method("lle", "LLE + GP SE-ARD", lambda c: _mgp(c, _lle(q, c.seed)), 1, cites="Roweis and Saul 2000"),
        Method("linear", "Linear projection", lambda c: _mgp(c, Linear(q)), 5, cites="Snelson and Ghahramani 2006"),
    )
    any_number = (
        Method("autoencoder", "Auto-encoder + GP SE-ARD", lambda c: _mgp(c, AutoEncoder(sizes, seed=c.seed, steps=_steps(c))), 4, cites="Vincent et al. 2008"),
        Method("mgp-pretrained", "mGP, pre-trained", lambda c: _mgp(c, MLP(sizes).pretrained(seed=c.seed, steps=_steps(c))), 10, cites="Salakhutdinov and Hinton 2007"),
        Method("mgp-guided", "mGP, guided", lambda c: _mgp(c, MLP(sizes).guided()), 25, cites="Snoek et al. 2012"),
        Method("warped-inputs", "Warped inputs", lambda c: _mgp(c, Kumaraswamy()), 5, cites="Snoek et al. 2014"),
        Method("warped-outputs", "Warped outputs", lambda c: _gp(c, "se", target_warping="tanh"), 5, cites="Snelson et al. 2004"),
        Method("noisy-inputs", "GP with noisy inputs", lambda c: _gp(c, "se", input_noise="learned"), 5, cites="McHutchon and Rasmussen 2011"),
        Method("periodic", "GP periodic", lambda c: _gp(c, "periodic"), 3, cites="MacKay 1998; HajiGhassemi and Deisenroth 2014"),
        Method("spectral-mixture", "GP spectral mixture", lambda c: _gp(c, "sm", max_iter=min(150, c.max_iter)), 10, cites="Wilson and Adams 2013"),
        Method("kernel-search", "Kernel search", _search, 10 + 13 * inputs, cites="Duvenaud et al. 2013"),
    )  # fmt: skip
    deep = Method("deep-gp", "Deep GP, 2 layers", _deep, 60, cites="Damianou and Lawrence 2013")
    found = (*(several if inputs > 1 else ()), *any_number)
    return (*found, deep) if find_spec("gpytorch") is not None else found


def note_on_named(methods: Sequence[Method]) -> str:
    """What stands under a table of the rows that the paper cites and does not tabulate."""
    rows = ", ".join(f"{method.label} ({method.cites})" for method in methods if method.cites)
    remarks = (
        "The codes are learnt from the inputs alone, then a plain GP is fitted on them; the pre-trained mGP starts as such a code. "
        "Kernel search finds sums and products of kernels of single inputs by the evidence with a penalty for each parameter, three steps deep."
    )
    if any(method.key == "deep-gp" for method in methods):
        remarks += " Deep GPs are trained by doubly stochastic variational inference; in place of their NLML stands its bound, which lies above it."
    return f"Cited by the paper and not tabulated there: {rows}. {remarks}" if rows else ""


def _ica(q: int, seed: int) -> Any:
    from sklearn.decomposition import FastICA

    return FastICA(q, random_state=seed, max_iter=2000)


def _isomap(q: int) -> Any:
    from sklearn.manifold import Isomap

    return Isomap(n_neighbors=10, n_components=q)


def _lle(q: int, seed: int) -> Any:
    from sklearn.manifold import LocallyLinearEmbedding

    return LocallyLinearEmbedding(n_neighbors=15, n_components=q, random_state=seed)


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


def _deep(config: Config) -> Any:
    from manifoldgp import DeepGPRegressor

    return DeepGPRegressor(
        max_iter=6 * config.max_iter, random_state=config.seed
    )  # its steps are smaller than the iterations of the others


def _search(config: Config) -> KernelSearch:
    return KernelSearch(min(3, config.restarts), beam=1, rows=200, max_iter=min(100, config.max_iter), random_state=config.seed)


def _gp(config: Config, kernel: str, **more: Any) -> GPRegressor:
    settings: dict[str, Any] = {"restarts": config.restarts, "max_iter": config.max_iter, "random_state": config.seed} | more
    return GPRegressor(kernel, **settings)


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
