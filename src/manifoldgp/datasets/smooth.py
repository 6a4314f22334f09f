"""The smooth function: an easy task, on which learnt features should cost nothing (paper, section 4, "Smooth function" table)."""

from __future__ import annotations

import numpy as np

from manifoldgp.datasets._dataset import Dataset

NOISE_SD = 0.003


def smooth_function(seed: int = 0) -> Dataset:
    """y = sin(x) + w, w ~ N(0, 0.003^2), x uniform on [-pi, pi]: 400 training points, 500 test points in ascending order.

    The paper says "a sinusoidal function" and no more. Its RMSE of 2.9e-3 and NLPP of -4.42 imply the noise (the ideal NLPP is
    log(0.003 sqrt(2 pi e)) = -4.39), and its NLML of -4.30 per point the number of points: over one period a plain
    SE GP reaches about -4.00 with 100 points and -4.26 with 400, the size of the paper's other experiments.

    >>> smooth_function(0).y_test.shape
    (500,)
    """
    rng = np.random.default_rng(seed)
    x_train = rng.uniform(-np.pi, np.pi, 400)
    x_test = np.sort(rng.uniform(-np.pi, np.pi, 500))
    return Dataset(
        name="smooth function",
        X_train=x_train[:, None],
        y_train=np.sin(x_train) + NOISE_SD * rng.standard_normal(400),
        X_test=x_test[:, None],
        y_test=np.sin(x_test) + NOISE_SD * rng.standard_normal(500),
        input_names=("x",),
        target_name="y",
        description="One period of sin(x) with noise of sd 0.003.",
    )
