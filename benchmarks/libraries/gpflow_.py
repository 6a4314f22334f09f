"""GPflow's GPR, compiled."""

from __future__ import annotations

import gpflow
import numpy as np
import tensorflow as tf

from libraries.trace import Best, Trace


def _model(X: np.ndarray, y: np.ndarray, values: dict):
    kernel = gpflow.kernels.SquaredExponential(variance=values["variance"], lengthscales=values["lengthscale"])
    noise = max(values["noise"], 1.1e-6)  # its own lower bound is 1e-6
    return gpflow.models.GPR((X, y[:, None]), kernel, noise_variance=noise)


def evaluation(X: np.ndarray, y: np.ndarray, values: dict):
    model = _model(X, y, values)
    loss = model.training_loss_closure(compile=False)

    @tf.function
    def value_and_gradients():
        with tf.GradientTape() as tape:
            value = loss()
        return value, tape.gradient(value, model.trainable_variables)

    return lambda: float(value_and_gradients()[0])


def fit(X: np.ndarray, y: np.ndarray, starts: list[dict], max_iter: int):
    trace, best = Trace(), Best()
    for values in starts:
        model = _model(X, y, values)
        loss, variables = model.training_loss_closure(), model.trainable_variables
        result = gpflow.optimizers.Scipy().minimize(loss, variables, options={"maxiter": max_iter})
        trace.seen(float(result.fun))  # traced at the end of each start: looking inside would cost another evaluation a step
        fitted = {
            "lengthscale": model.kernel.lengthscales.numpy().ravel().tolist(),
            "variance": float(model.kernel.variance.numpy()),
            "noise": float(model.likelihood.variance.numpy()),
        }
        best.offer(float(result.fun), fitted)
    return best.values, trace.points
