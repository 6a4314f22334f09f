"""libKriging's Kriging with a nugget: SE-ARD, zero mean, the variance profiled out of the likelihood."""

from __future__ import annotations

import numpy as np
import pylibkriging

from libraries.trace import Best, Trace


def _parameters(values: dict) -> dict:
    return {"theta": np.array([values["lengthscale"]]), "sigma2": float(values["variance"]), "nugget": float(values["noise"])}


def evaluation(X: np.ndarray, y: np.ndarray, values: dict):
    model = pylibkriging.Kriging("gauss", "nugget")
    model.fit(y, X, "none", False, "none", "LL", _parameters(values))
    point = np.array([*values["lengthscale"], values["variance"] / (values["variance"] + values["noise"])])
    return lambda: -float(model.logLikelihoodFun(point, True)[0])


def fit(X: np.ndarray, y: np.ndarray, starts: list[dict], max_iter: int):
    """max_iter cannot be handed over: its BFGS has a limit of its own."""
    trace, best = Trace(), Best()
    for values in starts:
        model = pylibkriging.Kriging("gauss", "nugget")
        model.fit(y, X, "none", False, "BFGS", "LL", _parameters(values))
        nlml = -float(model.logLikelihood())
        trace.seen(nlml)
        fitted = {"lengthscale": model.theta().ravel().tolist(), "variance": model.sigma2(), "noise": model.nugget()}
        best.offer(nlml, fitted)
    return best.values, trace.points
