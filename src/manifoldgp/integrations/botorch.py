"""Bayesian optimisation with BoTorch: a fitted estimator as a BoTorch model (extra `[botorch]`)."""

from __future__ import annotations

from manifoldgp.errors import MissingExtraError

try:
    import botorch as _botorch  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        f"manifoldgp.integrations.botorch needs BoTorch ({error}). Install it with: pip install 'manifoldgp[botorch]'"
    ) from error

from manifoldgp.integrations._botorch_mixture import MixturePosterior
from manifoldgp.integrations._botorch_model import ManifoldGPModel
from manifoldgp.integrations._botorch_paths import FunctionPaths

__all__ = ["FunctionPaths", "ManifoldGPModel", "MixturePosterior"]
