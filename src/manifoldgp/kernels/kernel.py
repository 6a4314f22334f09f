"""What every kernel is: its numbers, its program for predictors, and the choice of the features it sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.parameters import Parameter, Tree, log_normal_law
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import overridden

if TYPE_CHECKING:
    from manifoldgp.kernels._polynomials import AdditiveForm
    from manifoldgp.kernels._profiles import Profile
    from manifoldgp.kernels.random_features import RandomFunctions, Randomness
    from manifoldgp.kernels.sums_and_products import Product, Sum


@dataclass(frozen=True)
class Kernel(ABC):
    """A covariance function k(h, h') on features: a description without state, its values handed in at each call.

    ``k1 + k2`` and ``k1 * k2`` are kernels again.

    A new kernel is a frozen dataclass that implements ``_parameters``, ``_cross`` and ``_diagonal``, for predictors ``_program``, for function draws
    ``_random_functions``, and, where it has something better than ``_cross(H, H)``, ``_matrix``. They receive the chosen features only. ``@register`` lets files name it.

    Parameters
    ----------
    dims
        The features this kernel sees, by index; None for all of them.
    """

    dims: tuple[int, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.dims is None:
            return
        dims = tuple(self.dims)
        if not dims or len(set(dims)) < len(dims) or not all(isinstance(d, int) and d >= 0 for d in dims):
            raise InputError(
                f"dims must name different features by their index, counted from 0; got {self.dims!r}. "
                "Leave it out to use all of them."
            )
        object.__setattr__(self, "dims", dims)

    def parameters(self, H: Tensor) -> Tree:
        """The kernel's parameters; their initial laws follow the features H `(*B, N, Q)` at the starting values."""
        return self._parameters(self._select(H))

    def matrix(self, values: Tree, H: Tensor) -> Tensor:
        """K `(*B, N, N)` with K_ij = k(h_i, h_j), symmetric up to rounding, for H `(*B, N, Q)`."""
        return self._matrix(values, self._select(H))

    def cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        """K `(*B, N1, N2)` with K_ij = k(h1_i, h2_j), for H1 `(*B, N1, Q)` and H2 `(*B, N2, Q)`."""
        return self._cross(values, self._select(H1), self._select(H2))

    def diagonal(self, values: Tree, H: Tensor) -> Tensor:
        """k(h_i, h_i) `(*B, N)`, for H `(*B, N, Q)`."""
        return self._diagonal(values, self._select(H))

    def program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        """K(new, H) and k(new, new) as part of a predictor's program, for values with leaves (R, *shape) and training features H (R, N, Q)."""
        stale = overridden(type(self), "_program", _FREE)
        if stale and type(self)._program is not Kernel._program:
            raise InputError(
                f"A predictor cannot express the kernel {self!r}: {type(self).__name__} has a {stale} of its own and inherits the program of another "
                "kernel. Give it a _program(values, H, new) that computes the same."
            )
        chosen = H if self.dims is None else H[..., list(self.dims)]
        return self._program(values, chosen, new.columns(self.dims))

    def random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        """Random functions of features (·, width) whose covariances add up to this kernel, for values with leaves (1, *shape) or (k, *shape)."""
        own = type(self)._random_functions is not Kernel._random_functions
        if own and (stale := overridden(type(self), "_random_functions", _FREE)):
            raise InputError(
                f"Functions cannot be drawn with the kernel {self!r}: {type(self).__name__} has a {stale} of its own and inherits the random functions of "
                "another kernel. Give it a _random_functions(values, width, random) with the same covariance."
            )
        chosen = width if self.dims is None else len(self.dims)
        return [functions.restricted(self.dims) for functions in self._random_functions(values, chosen, random)]

    def radial_profile(self) -> Profile | None:
        """The profile k0 of a kernel variance · k0(|h − h'|² / lengthscale²) of all features, by which training has a closed form; otherwise None."""
        return None

    def additive_form(self) -> AdditiveForm | None:
        """How a sum over sets of features is made of one-dimensional kernels, by which training has a closed form; otherwise None."""
        return None

    def __add__(self, other: Kernel) -> Sum:
        from manifoldgp.kernels.sums_and_products import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Product:
        from manifoldgp.kernels.sums_and_products import Product

        return Product(self, other) if isinstance(other, Kernel) else NotImplemented

    @abstractmethod
    def _parameters(self, H: Tensor) -> Tree: ...

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        return self._cross(values, H, H)

    @abstractmethod
    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor: ...

    @abstractmethod
    def _diagonal(self, values: Tree, H: Tensor) -> Tensor: ...

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        raise InputError(
            f"A predictor cannot express the kernel {self!r}: it has no program. Write {type(self).__name__}._program(values, H, new), which returns a "
            "Covariance (docs/guide/own-parts.md shows one); or predict with the model itself."
        )

    def _random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        raise InputError(
            f"Functions cannot be drawn with the kernel {self!r}: it has no random functions. Write {type(self).__name__}._random_functions(values, width, "
            "random) (docs/guide/own-parts.md shows one); or draw at given points with sample_y."
        )

    def _select(self, H: Tensor) -> Tensor:
        if self.dims is None:
            return H
        if max(self.dims) >= H.shape[-1]:
            raise InputError(
                f"{type(self).__name__} uses the features {self.dims}, but there are only {H.shape[-1]}, numbered from 0. "
                "Change dims, or give the features more outputs."
            )
        first, count = self.dims[0], len(self.dims)
        if self.dims == tuple(range(first, first + count)):
            return H.narrow(-1, first, count)
        return H.index_select(-1, torch.tensor(self.dims, device=H.device))


_FREE = ("parameters", "_parameters", "_program", "_random_functions")
"""Methods that a subclass may override without changing what its numbers, and so its program and its random functions, are."""


def variance_parameter(centre: float = 1.0) -> Parameter:
    """The signal variance sigma_f^2: targets are standardised, so it starts around 1."""
    return Parameter((), log_normal_law(torch.tensor(centre, dtype=torch.float64), 0.5), positive=True)


def positive_parameter(centre: Tensor, shape: tuple[int, ...], sd: float) -> Parameter:
    """A positive parameter that starts around ``centre``: (*shape,), or (count, *shape) with one centre a start."""

    def draw(generator: torch.Generator, count: int) -> Tensor:
        batch = tuple(centre.shape[: centre.ndim - len(shape)])
        if batch not in ((), (1,), (count,)):
            raise InputError(
                f"The kernel saw features of {batch} starts, and {count} starts are drawn. "
                "Hand parameters(H) either one set of features or one for every start."
            )
        return log_normal_law(centre.expand(count, *shape), sd, per_start=True)(generator, count)

    return Parameter(shape, draw, positive=True)


def location_parameter(H: Tensor) -> Parameter:
    """A place in feature space, one number a feature, that starts somewhere among the features H (*B, N, Q)."""
    centre, width = H.detach().mean(-2), spread(H)

    def draw(generator: torch.Generator, count: int) -> Tensor:
        scatter = torch.randn((count, H.shape[-1]), generator=generator, dtype=torch.float64).to(H.device)
        return (centre + 0.7 * width * scatter).expand(count, H.shape[-1]).clone()

    return Parameter((H.shape[-1],), draw)


def spread(H: Tensor, ard: bool = True) -> Tensor:
    """Standard deviation of every feature (*B, Q), or with ``ard=False`` their root mean square (*B, 1); at least 1e-3.

    A feature that does not vary keeps a usable scale that way.
    """
    sd = H.detach().std(-2, correction=0)
    if not ard:
        sd = sd.square().mean(-1, keepdim=True).sqrt()
    return sd.clamp(min=1e-3)


def resolved(lengthscale: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Length-scales (R, Q), or (R, 1), of a program for the training features H (R, N, Q): a hundred-millionth of the spread of a feature at least.

    By shorter ones two rows are equal or have nothing to do with each other, and a longer one says the same. A program brings new rows to their scale in one step with
    whatever comes before, so that their last digits are others than those of training rows: beyond that length an equal row would be a different one.
    """
    reach = np.maximum(np.abs(H - H.mean(-2, keepdims=True)).max(-2), 1e-3)
    return np.maximum(lengthscale, 1e-8 * (reach if lengthscale.shape[-1] > 1 else reach.max(-1, keepdims=True)))


def constant_diagonal(variance: Tensor | None, H: Tensor, *others: Tensor) -> Tensor:
    """``variance`` (None: 1) for every row of H (*B, N, Q); others: parameters (*B, C) whose batch takes part."""
    value = H.new_ones(()) if variance is None else variance
    batch = np.broadcast_shapes(value.shape, H.shape[:-2], *(other.shape[:-1] for other in others))
    return value.unsqueeze(-1).expand(*batch, H.shape[-2])
