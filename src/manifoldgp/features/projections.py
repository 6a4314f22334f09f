"""Features that are linear in the inputs: none at all, learnt, and given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.plain_text import counted
from manifoldgp.errors import InputError
from manifoldgp.features.feature_map import ClosedForm, Features, positive_integer
from manifoldgp.features.layers import adjacent, affine
from manifoldgp.parameter_arrays import Values
from manifoldgp.parameters import Layout, Parameter, Tree, constant_law, normal_law
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register


@register("features.Identity")
@dataclass(frozen=True)
class Identity(Features):
    """H = X: the plain GP."""

    def parameters(self, X: Tensor) -> Tree:
        return {}

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        return X

    def _program(self, values: Tree, X: Rows) -> Rows:
        return X

    def _closed_form(self, layout: Layout, prefix: str) -> ClosedForm:
        return lambda values, X: _Inputs(X)


class _Inputs:
    """H = X."""

    trained = False

    def __init__(self, X: np.ndarray) -> None:
        self.H = X[..., :-1, :]

    def forward(self) -> None:
        pass

    def backward(self, dH: np.ndarray) -> None:
        pass


@register("features.Linear")
@dataclass(frozen=True)
class Linear(Features):
    """H = X W (+ b), W (D, q) learnt: supervised dimensionality reduction (Snelson & Ghahramani, 2006).

    Initial law: W ~ N(0, 1/D), so that features of standardised inputs have unit variance; b = 0.

    Parameters
    ----------
    q
        Number of features.
    bias
        Adds b (q,). A stationary kernel does not see it, so it is off unless the kernel has an origin.
    """

    q: int
    bias: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", positive_integer(self.q, "The number of features q of Linear"))

    def parameters(self, X: Tensor) -> Tree:
        D = X.shape[-1]
        tree: Tree = {"weight": Parameter((D, self.q), normal_law((D, self.q), 1.0 / math.sqrt(D), like=X))}
        if self.bias:
            tree["bias"] = Parameter((self.q,), constant_law(X.new_zeros(self.q)))
        return tree

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        return affine(X, values["weight"], values.get("bias"))

    def _program(self, values: Tree, X: Rows) -> Rows:
        H = X.times(values["weight"])
        return H.shifted(values["bias"]) if self.bias else H

    def _closed_form(self, layout: Layout, prefix: str) -> ClosedForm | None:
        weight, bias = f"{prefix}.weight", f"{prefix}.bias" if self.bias else None
        if bias is not None and not adjacent(layout, weight, bias):
            return None
        return lambda values, X: _Projection(values, X, weight, bias)


class _Projection:
    """H = X W (+ b)."""

    trained = True

    def __init__(self, values: Values, X: np.ndarray, weight: str, bias: str | None) -> None:
        self._X = X[..., :-1, :] if bias is None else X
        self._W, self._dW = values[weight] if bias is None else values.joined(weight, bias)
        self.H = np.empty((len(self._W), self._W.shape[2], X.shape[-1]))

    def forward(self) -> None:
        np.matmul(self._W.mT, self._X, out=self.H)

    def backward(self, dH: np.ndarray) -> None:
        np.matmul(self._X, dH.mT, out=self._dW)


@register("features.FixedLinear")
@dataclass(frozen=True)
class FixedLinear(Features):
    """H = X A + b with a given matrix A (D, Q) and offset b (Q,): constants, not trained.

    matrix, offset: any array; kept as nested tuples of floats, so that the features compare and save like all others.
    Without an offset, b = 0. Affine scikit-learn transformers become this.
    """

    matrix: tuple[tuple[float, ...], ...]
    offset: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        A = _finite(self.matrix, "matrix")
        if A.ndim != 2 or 0 in A.shape:
            raise InputError(f"The matrix of FixedLinear must be (D, Q), got shape {tuple(A.shape)}.")
        b = torch.zeros(A.shape[1], dtype=torch.float64) if self.offset is None else _finite(self.offset, "offset")
        if b.shape != A.shape[1:]:
            raise InputError(
                f"The offset of FixedLinear must be ({A.shape[1]},), like the matrix's columns; got {tuple(b.shape)}."
            )
        object.__setattr__(self, "matrix", tuple(map(tuple, A.tolist())))
        object.__setattr__(self, "offset", tuple(b.tolist()))

    def parameters(self, X: Tensor) -> Tree:
        D, matrix = X.shape[-1], X.new_tensor(self.matrix)
        if len(matrix) != D:
            raise InputError(
                f"The matrix of FixedLinear has {counted(len(matrix), 'row')}, and the inputs have {counted(D, 'column')}; they must agree."
            )
        return constants(matrix=matrix, offset=X.new_tensor(self.offset))

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        return affine(X, values["matrix"], values["offset"])

    def _program(self, values: Tree, X: Rows) -> Rows:
        return X.times(values["matrix"]).shifted(values["offset"])


def constants(**values: Tensor) -> Tree:
    """A tree of parameters that are part of the model's state and not trained."""
    return {
        name: Parameter(tuple(value.shape), constant_law(value.detach()), trainable=False, dtype=value.dtype)
        for name, value in values.items()
    }


def _finite(values: Any, name: str) -> Tensor:
    try:
        tensor = torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"The {name} of FixedLinear must be an array of numbers: {error}.") from error
    if not bool(torch.isfinite(tensor).all()):
        raise InputError(f"The {name} of FixedLinear has entries that are not finite.")
    return tensor
