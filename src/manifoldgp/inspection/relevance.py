"""How much the prediction changes with each input."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldgp.inspection.names import output_index
from manifoldgp.inspection.rows import chosen_inputs, thinned


def sensitivities(model: Any, X: Any = None, *, output: int = 0, most: int = 500) -> np.ndarray:
    """s_d = sd(x_d) · sqrt(mean_i (∂m(x_i) / ∂x_d)²) (D,), in the units of y: the typical change of the posterior mean m with input d.

    X (n, D): where derivatives are taken, by default the training rows; at most ``most`` of them.
    """
    output = output_index(model, output)
    X = chosen_inputs(model, X)
    from manifoldgp.regressor.units import on_device  # PyTorch, which drawing alone does not need

    U = on_device(model, model.x_scaler_.apply(X[thinned(len(X), most)]))
    slopes = model.ensembles_[output].gradients(U)[0].cpu().numpy() / model.x_scaler_.scale
    return X.std(axis=0) * np.sqrt(np.mean(slopes**2, axis=0))
