"""GPRegressor: the plain Gaussian process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from manifoldgp.averaging import Single
from manifoldgp.estimators.arguments import as_it_was_if_this_fails
from manifoldgp.estimators.fitting import refuse_unsupported
from manifoldgp.estimators.kernel_choice import KernelChoice, choose_kernel
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.estimators.model_file import storable
from manifoldgp.features import Identity
from manifoldgp.kernels import Kernel
from manifoldgp.means import Mean
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import Prior
from manifoldgp.training.settings import Method
from manifoldgp.warping import TargetWarping

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import RandomState, Table
    from manifoldgp.data.sources import RowSource
    from manifoldgp.estimators.input_std import InputStd


@storable
class GPRegressor(ManifoldGPRegressor):
    """A plain Gaussian process: the single model whose features are the inputs themselves.

    Parameters
    ----------
    kernel
        As in `ManifoldGPRegressor`; or "auto", which tries several kernels on held-out folds of the rows, and takes the one with the best density there.
    mean, noise, input_noise, target_warping, priors
        As in `ManifoldGPRegressor`.
    restarts, optimizer, max_iter, levels, warm_start_from
        As in `Single`; five starts are enough as a rule.
    method, time_budget, standardize, missing, cyclic, random_state, device, verbose, callback
        As in `ManifoldGPRegressor`.

    Attributes
    ----------
    kernel_choice_ : KernelChoice
        With kernel="auto" only: the kernel that was taken, and what held-out rows said of all that were tried.

    Examples
    --------
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
        noise: GaussianNoise | str = "learned",
        input_noise: str | None = None,
        target_warping: TargetWarping | str | None = None,
        priors: Mapping[str, Prior] | None = None,
        restarts: int = 5,
        optimizer: str = "l-bfgs",
        max_iter: int = 500,
        levels: bool = True,
        warm_start_from: ManifoldGPRegressor | None = None,
        method: Method | str = "auto",
        time_budget: float | None = None,
        standardize: bool | str = True,
        missing: str = "error",
        cyclic: Sequence[str] = (),
        random_state: RandomState = 0,
        device: str = "cpu",
        verbose: bool = False,
        callback: Callable[[np.ndarray, np.ndarray], object] | None = None,
    ) -> None:
        self.kernel = kernel
        self.mean = mean
        self.noise = noise
        self.input_noise = input_noise
        self.target_warping = target_warping
        self.priors = priors
        self.restarts = restarts
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.levels = levels
        self.warm_start_from = warm_start_from
        self.method = method
        self.time_budget = time_budget
        self.standardize = standardize
        self.missing = missing
        self.cyclic = cyclic
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.callback = callback

    features = Identity()
    kernel_choice_: KernelChoice  # only with kernel="auto"

    def fit(
        self,
        X: Table | RowSource,
        y: ArrayLike | None = None,
        *,
        noise_std: ArrayLike | None = None,
        input_std: InputStd | None = None,
        groups: ArrayLike | None = None,
        ordered: bool = False,
        **unsupported: object,
    ) -> GPRegressor:
        """Train on rows X with targets y, as `ManifoldGPRegressor.fit` does.

        With kernel="auto", ``groups`` and ``ordered`` say which rows are held out together while kernels are tried, with inputs taken as exact.
        """
        refuse_unsupported(unsupported)
        with as_it_was_if_this_fails(self):
            vars(self).pop("kernel_choice_", None)
            if isinstance(self.kernel, str) and self.kernel == "auto":
                self.kernel_choice_ = choose_kernel(self, X, y, noise_std, groups, ordered)
                super().fit(X, y, noise_std=noise_std, input_std=input_std, groups=groups)  # whose name it keeps
            else:
                super().fit(X, y, noise_std=noise_std, input_std=input_std, groups=groups, ordered=ordered)
        return self

    def _kernel_in_use(self) -> Kernel | str:
        choice = getattr(self, "kernel_choice_", None)
        return self.kernel if choice is None else choice.kernel

    def _seconds_left(self) -> float | None:
        choice = getattr(self, "kernel_choice_", None)
        used = 0.0 if choice is None else choice.seconds
        return None if self.time_budget is None else max(self.time_budget - used, 1e-9)

    @property
    def averaging(self) -> Single:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How it is trained: its own arguments, as those of a single model."""
        return Single(self.restarts, self.optimizer, self.max_iter, self.levels, warm_start_from=self.warm_start_from)

    def __sklearn_clone__(self) -> GPRegressor:
        copy: Any = super().__sklearn_clone__()
        copy.warm_start_from = self.warm_start_from  # a clone of it would have lost what it learnt
        return copy
