"""BoTorch: GPyTorch's model, trained by fit_gpytorch_mll from each start."""

from __future__ import annotations

import numpy as np
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models.gpytorch import GPyTorchModel
from linear_operator.utils.errors import NotPSDError

from libraries.gpytorch_ import DeepKernelGP, exact, likelihood_of
from libraries.trace import Best, Trace


class BotorchGP(DeepKernelGP, GPyTorchModel):
    """GPyTorch's model as BoTorch's fitting wants it."""

    num_outputs = 1


def fit(X: np.ndarray, y: np.ndarray, starts: list[dict], max_iter: int):
    trace, best = Trace(), Best()

    def watch(parameters, result) -> None:
        trace.seen(float(result.fval) * len(y))

    # BoTorch takes a reached limit for a failure and begins anew, so only fits that are to be cut short get one
    options = {"options": {"maxiter": max_iter}} if max_iter < 100 else {}
    for values in starts:
        model, mll = likelihood_of(X, y, values, BotorchGP)
        try:
            with exact():
                fit_gpytorch_mll(mll, optimizer_kwargs={"callback": watch, **options})
                mll.train()
                loss = -float(mll(model(*model.train_inputs), model.train_targets)) * len(y)
        except (ModelFittingError, NotPSDError):
            continue  # a start that is lost
        trace.seen(loss)
        best.offer(loss, model.values())
    return best.values, trace.points
