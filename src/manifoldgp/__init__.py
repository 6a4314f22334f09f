"""Gaussian-process regression that learns its own features.

Names are loaded when they are first used, so that the command line answers without importing PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manifoldgp.averaging import NUTS, Fast, Restarts, Single, Stack
    from manifoldgp.comparison import compare
    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.estimators.forecaster import Forecaster
    from manifoldgp.estimators.kernel_search import KernelSearch
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
    from manifoldgp.estimators.model_file import load
    from manifoldgp.estimators.plain_gp import GPRegressor
    from manifoldgp.features import (
        MLP,
        PCA,
        AutoEncoder,
        Chain,
        Concatenate,
        Identity,
        Kumaraswamy,
        Linear,
        RandomEmbedding,
        Residual,
    )
    from manifoldgp.integrations.deep_gp import DeepGPRegressor
    from manifoldgp.kernels import SquaredExponential
    from manifoldgp.noise import GaussianNoise
    from manifoldgp.parameters import GroupSparse, LogNormal, Normal, StudentT
    from manifoldgp.predictor import Predictor
    from manifoldgp.registry import register
    from manifoldgp.structure.search import Search
    from manifoldgp.suggestions import suggest
    from manifoldgp.training.settings import Exact, Local, Sparse
    from manifoldgp.warping import TanhWarping

_HOME = {
    "MLP": "features",
    "NUTS": "averaging",
    "PCA": "features",
    "AutoEncoder": "features",
    "Chain": "features",
    "Concatenate": "features",
    "DeepGPRegressor": "integrations.deep_gp",
    "Exact": "training.settings",
    "Fast": "averaging",
    "Forecaster": "estimators",
    "GPRegressor": "estimators",
    "GaussianNoise": "noise",
    "GroupSparse": "parameters",
    "Identity": "features",
    "KernelSearch": "estimators",
    "Kumaraswamy": "features",
    "Linear": "features",
    "Local": "training.settings",
    "LogNormal": "parameters",
    "ManifoldGPRegressor": "estimators",
    "Normal": "parameters",
    "Predictor": "predictor",
    "RandomEmbedding": "features",
    "Residual": "features",
    "Restarts": "averaging",
    "Search": "structure.search",
    "Single": "averaging",
    "Sparse": "training.settings",
    "SquaredExponential": "kernels",
    "Stack": "averaging",
    "StudentT": "parameters",
    "TableEncoding": "data",
    "TanhWarping": "warping",
    "compare": "comparison",
    "load": "estimators.model_file",
    "register": "registry",
    "suggest": "suggestions",
}

__all__ = [
    "MLP",
    "NUTS",
    "PCA",
    "AutoEncoder",
    "Chain",
    "Concatenate",
    "DeepGPRegressor",
    "Exact",
    "Fast",
    "Forecaster",
    "GPRegressor",
    "GaussianNoise",
    "GroupSparse",
    "Identity",
    "KernelSearch",
    "Kumaraswamy",
    "Linear",
    "Local",
    "LogNormal",
    "ManifoldGPRegressor",
    "Normal",
    "Predictor",
    "RandomEmbedding",
    "Residual",
    "Restarts",
    "Search",
    "Single",
    "Sparse",
    "SquaredExponential",
    "Stack",
    "StudentT",
    "TableEncoding",
    "TanhWarping",
    "compare",
    "load",
    "register",
    "suggest",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _HOME:
        raise AttributeError(f"module 'manifoldgp' has no attribute {name!r}")
    value = getattr(import_module(f"manifoldgp.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def _version() -> str:
    """The version of the installed package; a source tree that was never installed has none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("manifoldgp")
    except PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted(__all__)
