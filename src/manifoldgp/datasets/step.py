"""The step function: a discontinuity that stationary kernels cannot represent (paper, eq. 18 and Table 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from manifoldgp.datasets._dataset import Dataset

NOISE_SD = 0.01


def step_values(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """F(x) = 0 where x <= 0 and 1 where x > 0 (eq. 18, without noise).

    >>> step_values(np.array([-1.0, 0.0, 1e-9]))
    array([0., 0., 1.])
    """
    return np.where(x > 0, 1.0, 0.0)


def step_function(seed: int = 0) -> Dataset:
    """y = F(x) + w, w ~ N(0, 0.01^2): 100 training inputs from N(0, 1), 500 test inputs uniform on [-5, 5], in ascending order.

    Test targets carry the same noise, so no model can score a mean NLPP below log(0.01 sqrt(2 pi e)) = -3.19 on average.

    >>> step_function(0).X_train.shape
    (100, 1)
    """
    rng = np.random.default_rng(seed)
    x_train = rng.standard_normal(100)
    x_test = np.sort(rng.uniform(-5.0, 5.0, 500))
    return Dataset(
        name="step function",
        X_train=x_train[:, None],
        y_train=step_values(x_train) + NOISE_SD * rng.standard_normal(100),
        X_test=x_test[:, None],
        y_test=step_values(x_test) + NOISE_SD * rng.standard_normal(500),
        input_names=("x",),
        target_name="y",
        description="A unit step at x = 0 with noise of sd 0.01; trained near the step, tested on [-5, 5].",
    )
