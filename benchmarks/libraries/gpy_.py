"""GPy's GPRegression."""

from __future__ import annotations

import itertools

import GPy
import numpy as np

from libraries.trace import Best, Trace


def _model(X: np.ndarray, y: np.ndarray, values: dict):
    kernel = GPy.kern.RBF(X.shape[1], variance=values["variance"], lengthscale=values["lengthscale"], ARD=True)
    return GPy.models.GPRegression(X, y[:, None], kernel, noise_var=values["noise"])


def evaluation(X: np.ndarray, y: np.ndarray, values: dict):
    model = _model(X, y, values)
    theta = model.optimizer_array.copy()
    points = itertools.cycle([theta, theta * (1 + 1e-12)])  # at the same point it would answer from its cache

    def evaluate() -> float:
        model.optimizer_array = next(points)  # computes NLML and gradients
        return -float(model.log_likelihood())

    return evaluate


def fit(X: np.ndarray, y: np.ndarray, starts: list[dict], max_iter: int):
    trace, best = Trace(), Best()
    for values in starts:
        model = _model(X, y, values)
        model.add_observer(trace, lambda *_, model=model, **__: trace.seen(-float(model.log_likelihood())))
        model.optimize("lbfgsb", max_iters=max_iter)
        fitted = {
            "lengthscale": model.kern.lengthscale.values.tolist(),
            "variance": float(model.kern.variance[0]),
            "noise": float(model.likelihood.variance[0]),
        }
        best.offer(-float(model.log_likelihood()), fitted)
    return best.values, trace.points
