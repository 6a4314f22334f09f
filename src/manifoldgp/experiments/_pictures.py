"""What figures need of a fitted model, as plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def band(model: Any, X: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Predictive mean and 95 % bounds of y at X (n, D): each (n,)."""
    lower, upper = model.predict_quantiles(X, (0.025, 0.975)).T
    return {"mean": model.predict(X), "lower": lower, "upper": upper}


def scaled_features(model: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Features H = M(X) divided by the kernel's length-scales (n, Q): the distances that the kernel sees. For a single SE model."""
    block, member = model.ensembles_[0].heaviest()
    lengthscale = block.values["kernel"]["lengthscale"][member].detach().cpu().numpy()
    return model.transform(X) / lengthscale


def plain(value: Any, digits: int = 6) -> Any:
    """Arrays as lists of numbers with this many significant digits, for JSON; dictionaries and lists all the way down."""
    if isinstance(value, dict):
        return {name: plain(v, digits) for name, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), digits)
    if isinstance(value, (list, tuple)):
        return [plain(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
