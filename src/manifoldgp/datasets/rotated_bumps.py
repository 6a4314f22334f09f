"""The rotated two-bump function: several length-scales along directions that are not the axes (paper, eq. 19 and Table 2)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from manifoldgp.datasets._dataset import Dataset


def rotated_bumps_values(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Eq. (19) turned anti-clockwise by 45 degrees, at X (N, 2) -> (N,).

    The paper's function is f(u) = 1 - N(u2 | 3, 0.5^2) - N(u2 | -3, 0.5^2) + u1 / 100. Turning its graph anti-clockwise
    by 45 degrees means looking f up at the point turned back, clockwise:

        u1 = ( x1 + x2) / sqrt(2)        u2 = (-x1 + x2) / sqrt(2)

    On [0, 10]^2 u1 runs over [0, 14.1] and u2 over [-7.1, 7.1]: both valleys, u2 = 3 and u2 = -3, cross the square as
    bands along its diagonal. (Turned the other way u2 >= 0 everywhere, and the second valley would be outside.)

    >>> bool(rotated_bumps_values(np.array([[5.0, 5.0 + 3 * 2**0.5]])) < 0.4)
    True
    """
    u1 = (X[:, 0] + X[:, 1]) / math.sqrt(2)
    u2 = (X[:, 1] - X[:, 0]) / math.sqrt(2)
    return 1.0 - _normal_density(u2, 3.0, 0.5) - _normal_density(u2, -3.0, 0.5) + u1 / 100


def rotated_bumps(seed: int = 0) -> Dataset:
    """Noise-free values at 400 points uniform on [0, 10]^2 to train, and on a regular grid of 50 x 50 points to test.

    Test rows run over x2 first: ``y_test.reshape(50, 50)[i, j]`` belongs to x1 = 10 i / 49, x2 = 10 j / 49.
    """
    rng = np.random.default_rng(seed)
    X_train = rng.uniform(0.0, 10.0, (400, 2))
    axis = np.linspace(0.0, 10.0, 50)
    X_test = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    return Dataset(
        name="rotated bumps",
        X_train=X_train,
        y_train=rotated_bumps_values(X_train),
        X_test=X_test,
        y_test=rotated_bumps_values(X_test),
        input_names=("x1", "x2"),
        target_name="y",
        description="Two valleys of width 0.5 and a slight slope, turned by 45 degrees; no noise.",
    )


def _normal_density(x: NDArray[np.float64], mean: float, sd: float) -> NDArray[np.float64]:
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
