"""GPRegressor: the plain Gaussian process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.features import Identity
from manifoldgp.kernels import Kernel
from manifoldgp.means import Mean
from manifoldgp.noise import DEFAULT_FLOOR
from manifoldgp.parameters import Prior
from manifoldgp.warping import TargetWarping


class GPRegressor(ManifoldGPRegressor):
    """A plain Gaussian process: ManifoldGPRegressor with Identity features.

    >>> import numpy as np
    >>> x = np.linspace(0, 6, 20)[:, None]
    >>> model = GPRegressor(restarts=2).fit(x, np.sin(x[:, 0]))
    >>> bool(abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 1e-3)
    True
    """

    def __init__(
        self,
        kernel: Kernel | str = "se",
        *,
        mean: Mean | torch.nn.Module | str = "zero",
        noise: str = "learned",
        noise_floor: float = DEFAULT_FLOOR,
        target_warping: TargetWarping | str | None = None,
        priors: Mapping[str, Prior] | None = None,
        restarts: int = 5,
        optimizer: str = "l-bfgs",
        max_iter: int = 500,
        time_budget: float | None = None,
        levels: bool = True,
        method: str = "auto",
        inducing: int = 512,
        checkpoint: str | None = None,
        standardize_X: bool = True,
        standardize_y: bool = True,
        warm_start_from: Any = None,
        random_state: Any = 0,
        device: str = "cpu",
        verbose: bool = False,
        callback: Callable[[np.ndarray, np.ndarray], object] | None = None,
    ) -> None:
        self.kernel = kernel
        self.mean = mean
        self.noise = noise
        self.noise_floor = noise_floor
        self.target_warping = target_warping
        self.priors = priors
        self.restarts = restarts
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.time_budget = time_budget
        self.levels = levels
        self.method = method
        self.inducing = inducing
        self.checkpoint = checkpoint
        self.standardize_X = standardize_X
        self.standardize_y = standardize_y
        self.warm_start_from = warm_start_from
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.callback = callback

    features = Identity()
    averaging = "none"
    shared_features = False
