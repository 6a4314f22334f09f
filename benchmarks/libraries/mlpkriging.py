"""libKriging's MLPKriging: a network below the kernel, no noise term; its weights are its own business.

Its likelihood function gives gradients of the length-scales only, so an evaluation here does less than everybody else's.
"""

from __future__ import annotations

import numpy as np
import pylibkriging

from libraries.trace import Trace


def _model(X: np.ndarray, y: np.ndarray, values: dict, parameters: dict[str, str]):
    *hidden, outputs = (len(b) for _, b in values["layers"])
    model = pylibkriging.MLPKriging(hidden, outputs, "sigmoid", "gauss")
    model.fit(y, X, "none", False, "BFGS+Adam", "LL", parameters)
    return model


def evaluation(X: np.ndarray, y: np.ndarray, values: dict):
    model = _model(X, y, values, {"max_iter_adam": "0", "max_iter_bfgs": "1"})
    point = np.array(values["lengthscale"])
    return lambda: -float(model.logLikelihoodFun(point, True)[0])


def fit(X: np.ndarray, y: np.ndarray, starts: list[dict], max_iter: int):
    trace = Trace()
    model = _model(X, y, starts[0], {})
    trace.seen(-float(model.logLikelihood()))
    return None, trace.points
