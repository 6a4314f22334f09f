"""What every feature map is: a description that names its parameters and computes H from their values."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.parameter_arrays import Values
from manifoldgp.parameters import Layout, Prior, Tree
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import overridden


class Pullback(Protocol):
    """The closed form of a feature map at work: H = M(X) of R members and, from dNLML/dH, the gradient of their parameters, all in reused memory.

    H: (R, Q, N), or (Q, N) where no parameter takes part. trained: whether there are parameters.
    Inputs come as rows with a row of ones below them, [Xᵀ; 1] (D + 1, N) or (R, D + 1, N), so that W and b of a layer are one matrix and one product,
    U = [W; b]ᵀ [Xᵀ; 1].
    """

    H: np.ndarray
    trained: bool

    def forward(self) -> None:
        """Compute H from values and inputs as they are now."""
        ...

    def backward(self, dH: np.ndarray) -> None:
        """Write the parameters' gradient, given dNLML/dH (R, Q, N), which may be overwritten."""
        ...


ClosedForm = Callable[[Values, np.ndarray], Pullback]
"""Makes the pullback of R members from their values and the inputs ([R,] D + 1, N)."""

_FREE = ("parameters", "bind", "already_learnt", "priors_beside", "uses_unlabelled", "penalty")
"""Methods that a subclass may override without changing what H, and so its program and its closed form, are."""


class Features(ABC):
    """A deterministic map M from inputs X (N, D) to features H (N, Q), row by row (eq. 9).

    Subclasses are frozen dataclasses of plain data. Their life in a model: ``bound = features.bind(X)`` once, then
    ``tree = bound.parameters(X)`` for the names and the initial law, then ``H = bound(values, X)`` as often as needed.
    ``first >> second`` composes: H = second(first(X)).

    A new feature map implements ``parameters`` and ``__call__``; for predictors ``_program``; for fast training, if it is worth it, ``_closed_form``.
    ``@register`` lets files name it.
    """

    @property
    def uses_unlabelled(self) -> bool:
        """Whether ``bind`` learns from inputs, so that rows without targets help it."""
        return False

    def penalty(self, values: Tree, X: Tensor) -> Tensor | None:
        """What training adds to the NLML for each row (*B, N), beside what the kernel sees of it; None for nothing, as almost all features have it."""
        return None

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

    def already_learnt(self) -> Features:
        """The features of a file, which has all values: ``bind`` learns nothing from inputs any more."""
        return self

    def priors_beside(self) -> Mapping[str, Prior]:
        """Priors that these features need on other parameters of their model, by pattern; most need none. The user's own come before them."""
        return {}

    def program(self, values: Tree, X: Rows) -> Rows:
        """H = M(X) as part of a predictor's program, for values with leaves (R, *shape)."""
        stale = overridden(type(self), "_program", _FREE)
        if stale and type(self)._program is not Features._program:
            raise InputError(
                f"A predictor cannot express {self!r}: {type(self).__name__} has a {stale} of its own and inherits the program of other features. "
                "Give it a _program(values, X) that computes the same."
            )
        return self._program(values, X)

    def closed_form(self, layout: Layout, prefix: str) -> ClosedForm | None:
        """How H and its pullback are computed without autograd, or None. The parameters are called ``prefix.name`` in the layout."""
        return None if overridden(type(self), "_closed_form", _FREE) else self._closed_form(layout, prefix)

    def _program(self, values: Tree, X: Rows) -> Rows:
        raise InputError(
            f"A predictor cannot express {self!r}: these features have no program. Write {type(self).__name__}._program(values, X), which returns Rows "
            "(docs/guide/own-parts.md shows one); or predict with the model itself."
        )

    def _closed_form(self, layout: Layout, prefix: str) -> ClosedForm | None:
        return None

    def __rshift__(self, other: Any) -> Features:
        from manifoldgp.features.composition import Chain  # a chain is made of features: importing it above would be circular

        return Chain(self, other)

    def __rrshift__(self, other: Any) -> Features:
        from manifoldgp.features.composition import Chain

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
