"""scikit-learn's GaussianProcessRegressor."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from libraries.trace import Best, Trace


def _kernel(values: dict):
    return ConstantKernel(values["variance"]) * RBF(values["lengthscale"]) + WhiteKernel(values["noise"])


def evaluation(X: np.ndarray, y: np.ndarray, values: dict):
    model = GaussianProcessRegressor(_kernel(values), optimizer=None).fit(X, y)
    theta = model.kernel_.theta
    return lambda: -model.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)[0]


def fit(X: np.ndarray, y: np.ndarray, starts: list[dict], max_iter: int):
    trace, best = Trace(), Best()

    def optimizer(objective, theta, bounds):
        def seen(point):
            value, gradient = objective(point)
            trace.seen(float(value))
            return value, gradient

        result = minimize(seen, theta, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": max_iter})
        return result.x, result.fun

    for values in starts:
        model = GaussianProcessRegressor(_kernel(values), optimizer=optimizer).fit(X, y)
        product, white = model.kernel_.k1, model.kernel_.k2
        fitted = {
            "lengthscale": product.k2.length_scale.tolist(),
            "variance": float(product.k1.constant_value),
            "noise": float(white.noise_level),
        }
        best.offer(-model.log_marginal_likelihood_value_, fitted)
    return best.values, trace.points
