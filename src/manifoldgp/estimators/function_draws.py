"""Functions drawn from a fitted estimator, callable on arrays and on tensors, in the user's units."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.estimators.arguments import generator_of
from manifoldgp.estimators.program_functions import to_function_predictor
from manifoldgp.estimators.units import model_inputs, scaled_tensor
from manifoldgp.inference.function_draws import EnsembleDraws, draw_functions

if TYPE_CHECKING:
    from manifoldgp.data.inputs import RandomState, Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
    from manifoldgp.predictor import FunctionPredictor

RIDGES = 1024
"""Random ridges that the prior part of a draw consists of."""


@dataclass(frozen=True)
class SampledFunctions:
    """Functions of x drawn from the posterior of f, in the units of y without noise; made by ``model.sample_functions(n)``.

    A function is a function: evaluated again, it gives the same numbers. On tensors it is differentiable in X.

    Examples
    --------
    >>> from manifoldgp import GPRegressor
    >>> x = np.linspace(0, 6, 20)[:, None]
    >>> functions = GPRegressor(restarts=1).fit(x, np.sin(x[:, 0])).sample_functions(3)
    >>> functions(x).shape, functions[0](x).shape
    ((3, 20), (20,))
    """

    draws: Sequence[EnsembleDraws]
    estimator: ManifoldGPRegressor
    single: bool = False

    @overload
    def __call__(self, X: Tensor) -> Tensor: ...

    @overload
    def __call__(self, X: Table) -> np.ndarray: ...

    def __call__(self, X: Table | Tensor) -> np.ndarray | Tensor:
        """Values (count, n), or (count, n, O) of several targets, at X (n, D); one function, ``functions[i]``, has no first dimension.

        X (count, n, D): each function at inputs of its own.
        """
        if isinstance(X, Tensor):
            return self._values(self._scaled(X))
        given = np.asarray(X) if isinstance(X, (np.ndarray, list, tuple)) else None
        if given is None or given.ndim != 3:
            U = model_inputs(self.estimator, X)
        else:
            self._refuse_other_count(given.shape)
            U = model_inputs(self.estimator, given.reshape(-1, given.shape[-1])).reshape(*given.shape[:2], -1)
        with torch.no_grad():
            return self._values(U).cpu().numpy()

    def noise_std(self) -> np.ndarray:
        """Standard deviation of the noise around each function, (count,), or (count, O) of several targets: what turns f into observations y."""
        noise = [draws.noise() for draws in self.draws]
        joined = noise[0] if self.estimator._flat else torch.stack(noise, -1)
        return (joined[0] if self.single else joined).cpu().numpy()

    def predictor(self) -> FunctionPredictor:
        """The same functions for NumPy alone, with save and load; not with the neural-network kernel, which needs an error function."""
        return to_function_predictor(self.draws, self.estimator)

    def __len__(self) -> int:
        return self.draws[0].count

    def __getitem__(self, place: int) -> SampledFunctions:
        if self.single or not -len(self) <= place < len(self):
            raise IndexError(
                f"There {'is one function' if self.single else f'are {len(self)} functions'}; there is no number {place}."
            )
        return replace(self, draws=[d.only(place % len(self)) for d in self.draws], single=True)

    def __iter__(self) -> Iterator[SampledFunctions]:
        return (self[place] for place in range(len(self)))

    def _values(self, U: Tensor) -> Tensor:
        values = [draws(U) for draws in self.draws]
        joined = values[0] if self.estimator._flat else torch.stack(values, -1)
        return joined[0] if self.single else joined

    def _scaled(self, X: Tensor) -> Tensor:
        if X.ndim not in (2, 3) or X.shape[-1] != self.estimator.n_features_in_:
            raise InputError(f"X must be (n, {self.estimator.n_features_in_}), or (functions, n, inputs); got {tuple(X.shape)}.")
        if X.ndim == 3:
            self._refuse_other_count(X.shape)
        return scaled_tensor(self.estimator.x_scaler_, X, self.draws[0].parts[0].points)

    def _refuse_other_count(self, shape: Sequence[int]) -> None:
        if shape[0] != len(self):
            raise InputError(f"X of shape {tuple(shape)} gives inputs for {shape[0]} functions; there are {len(self)}.")


def sample_functions(estimator: ManifoldGPRegressor, n: int, random_state: RandomState, ridges: int) -> SampledFunctions:
    """Draw n functions of all targets; those of different targets are independent."""
    check_is_fitted(estimator)
    n, ridges = inputs.whole_number(n, "n"), inputs.whole_number(ridges, "ridges")
    generator = generator_of(random_state)
    draws = [draw_functions(ensemble, n, ridges, generator) for ensemble in estimator.ensembles_]
    return SampledFunctions(draws, copy.copy(estimator))  # a later fit or update does not reach the copy
