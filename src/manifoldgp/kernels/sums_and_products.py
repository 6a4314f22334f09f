"""Sums and products of kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import TypeVar

import numpy as np
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.kernels.kernel import Kernel
from manifoldgp.kernels.random_features import RandomFunctions, Randomness
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register

Joined = TypeVar("Joined", Tensor, Covariance)
"""What sums and products join entry by entry: covariances as numbers, or on their way through a program."""


@dataclass(frozen=True, init=False)
class Combination(Kernel):
    """Several kernels joined entry by entry. Their parameters are named by position: "0.variance", "1.lengthscale", ...

    Made from the kernels one by one, or from a tuple: ``Sum(a, b)`` is ``Sum(parts=(a, b))``. A part of the same kind is
    dissolved into its own parts, unless it has dims.
    """

    parts: tuple[Kernel, ...]

    def __init__(self, *kernels: Kernel, parts: Iterable[Kernel] = (), dims: tuple[int, ...] | None = None) -> None:
        given = (*kernels, *parts)
        if not given or not all(isinstance(part, Kernel) for part in given):
            raise InputError(f"{type(self).__name__} joins kernels, at least one; got {given!r}.")
        object.__setattr__(self, "parts", tuple(leaf for part in given for leaf in self._dissolved(part)))
        object.__setattr__(self, "dims", dims)
        self.__post_init__()

    @staticmethod
    @abstractmethod
    def _join(first: Joined, second: Joined) -> Joined: ...

    def _dissolved(self, part: Kernel) -> tuple[Kernel, ...]:
        return part.parts if isinstance(part, Combination) and type(part) is type(self) and part.dims is None else (part,)

    def _parameters(self, H: Tensor) -> Tree:
        return {str(i): part.parameters(H) for i, part in enumerate(self.parts)}

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        return reduce(self._join, (part.matrix(values.get(str(i), {}), H) for i, part in enumerate(self.parts)))

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        return reduce(self._join, (part.cross(values.get(str(i), {}), H1, H2) for i, part in enumerate(self.parts)))

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        return reduce(self._join, (part.diagonal(values.get(str(i), {}), H) for i, part in enumerate(self.parts)))

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        return reduce(self._join, (part.program(values.get(str(i), {}), H, new) for i, part in enumerate(self.parts)))

    def _functions_of_parts(self, values: Tree, width: int, random: Randomness) -> list[list[RandomFunctions]]:
        return [part.random_functions(values.get(str(i), {}), width, random) for i, part in enumerate(self.parts)]


@register("kernels.Sum")
@dataclass(frozen=True, init=False)
class Sum(Combination):
    """k(h, h') = k_0(h, h') + k_1(h, h') + ...: a sum of independent functions.

    >>> from manifoldgp.kernels import Linear, SquaredExponential
    >>> kernel = SquaredExponential(dims=(0,)) + Linear(dims=(1,))
    >>> kernel == Sum(SquaredExponential(dims=(0,)), Linear(dims=(1,)))
    True
    """

    @staticmethod
    def _join(first: Joined, second: Joined) -> Joined:
        return first + second

    def _random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        return [functions for part in self._functions_of_parts(values, width, random) for functions in part]


@register("kernels.Product")
@dataclass(frozen=True, init=False)
class Product(Combination):
    """k(h, h') = k_0(h, h') k_1(h, h') ...

    Only the product of the parts' variances matters. Nothing is dropped by itself: give all parts but one ``amplitude=False``,
    as in ``SquaredExponential() * Periodic(amplitude=False)``.
    """

    @staticmethod
    def _join(first: Joined, second: Joined) -> Joined:
        return first * second

    def _random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        parts = self._functions_of_parts(values, width, random)
        return [reduce(RandomFunctions.times, chosen) for chosen in product(*parts)]
