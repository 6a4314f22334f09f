"""What every feature map is: a description that names its parameters and computes H from their values."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.parameters import Tree


class Features(ABC):
    """A deterministic map M from inputs X (N, D) to features H (N, Q), row by row (eq. 9).

    Subclasses are frozen dataclasses of plain data. Their life in a model: ``bound = features.bind(X)`` once, then
    ``tree = bound.parameters(X)`` for the names and the initial law, then ``H = bound(values, X)`` as often as needed.
    ``first >> second`` composes: H = second(first(X)).
    """

    @abstractmethod
    def parameters(self, X: Tensor) -> Tree:
        """The tree of parameters, given the (standardised) training inputs X (N, D); targets are never seen."""

    @abstractmethod
    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        """H (*B'', N, Q) of X (*B', N, D), with the leaves of ``values`` (*B, *shape); B and B' broadcast to B''."""

    def bind(self, X: Tensor) -> Features:
        """The features with everything fixed that has to be fixed on training inputs X (N, D) and is not a tensor.

        Most features return themselves. Only a bound object is asked for ``parameters``.
        """
        return self

    @property
    def serialisable(self) -> bool:
        """Whether the fields are plain data, so that the model can be saved without pickle."""
        return True

    def __rshift__(self, other: Any) -> Features:
        from manifoldgp.features.combine import Chain  # a chain is made of features: importing it above would be circular

        return Chain(self, other)

    def __rrshift__(self, other: Any) -> Features:
        from manifoldgp.features.combine import Chain

        return Chain(other, self)


def positive_integer(value: Any, name: str) -> int:
    """``value`` as an int of at least one; NumPy integers count."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise InputError(f"{name} must be a positive integer, got {value!r}.")
    return number


def positive_number(value: Any, name: str) -> float:
    """``value`` as a finite float above zero."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} must be a positive number, got {value!r}.")
    return number
