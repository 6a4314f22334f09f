"""All operations of a program by name, as NumPy functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from manifoldgp.predictor import _covariances, _mixtures, _rows
from manifoldgp.predictor._covariances import LARGEST_SINE
from manifoldgp.predictor._mixtures import BISECTIONS, NEWTON_STEPS

__all__ = ["BISECTIONS", "LARGEST_SINE", "NEWTON_STEPS", "OPERATIONS"]

OPERATIONS: dict[str, Callable[..., Any]] = {
    "subtract": np.subtract,
    "add": np.add,
    "multiply": np.multiply,
    "square_root": np.sqrt,
    "tanh": np.tanh,
    "sine": np.sin,
    "pick": lambda A, index: A[index],
    "transpose": lambda A: A.T,
    "column": lambda A: A[..., None],
    **{
        function.__name__: function
        for function in (
            _rows.affine, _rows.scale_shift, _rows.sigmoid, _rows.relu, _rows.softplus, _rows.silu, _rows.leaky_relu, _rows.elu,
            _rows.kumaraswamy, _rows.circle, _rows.square_sum,
            _covariances.squared_exponential, _covariances.matern12, _covariances.matern32, _covariances.matern52,
            _covariances.rational_quadratic, _covariances.neural_network, _covariances.neural_network_diagonal,
            _covariances.spectral_mixture, _covariances.constant_covariance,
            _mixtures.weighted, _mixtures.explained, _mixtures.variance, _mixtures.members, _mixtures.mix, _mixtures.mixture_std,
            _mixtures.warped_moments,
        )
    },
}  # fmt: skip
