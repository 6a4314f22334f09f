"""Arithmetic on arrays that a program will hold: numbers for every row (R, n), or for every pair of rows (R, n, N), written as formulas.

    s = new.squared_distances(H)            # |h − h'|², an Expression
    K = 1 / (1 + s / shape)                 # shape (R,): a number for each member
    K = (-s).exp() * (0.5 * s).cos()

Each step becomes an operation of the program. Nothing is computed here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldgp.errors import InputError
from manifoldgp.predictor.writer import Writer


@dataclass(frozen=True, eq=False)
class Expression:
    """An array of the program: (R, n) with ``axes`` 1, (R, n, N) with 2. A single member has no dimension of its own.

    ``+ - * / **`` take another expression, a number, or an array (R,) with one number for each member.
    """

    writer: Writer
    slot: int
    axes: int

    __array_ufunc__ = None  # so that an array on the left of an operator leaves the work to this class

    def __add__(self, other: Term) -> Expression:
        return self._do("add", self, other)

    def __sub__(self, other: Term) -> Expression:
        return self._do("subtract", self, other)

    def __mul__(self, other: Term) -> Expression:
        return self._do("multiply", self, other)

    def __truediv__(self, other: Term) -> Expression:
        return self._do("divide", self, other)

    def __pow__(self, other: Term) -> Expression:
        return self._do("power", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Term) -> Expression:
        return self._do("subtract", other, self)

    def __rtruediv__(self, other: Term) -> Expression:
        return self._do("divide", other, self)

    def __neg__(self) -> Expression:
        return self._do("negative", self)

    def __abs__(self) -> Expression:
        return self._do("absolute", self)

    def maximum(self, other: Term) -> Expression:
        return self._do("maximum", self, other)

    def minimum(self, other: Term) -> Expression:
        return self._do("minimum", self, other)

    def sqrt(self) -> Expression:
        return self._do("square_root", self)

    def exp(self) -> Expression:
        return self._do("exponential", self)

    def log(self) -> Expression:
        return self._do("logarithm", self)

    def log1p(self) -> Expression:
        return self._do("log1p", self)

    def expm1(self) -> Expression:
        return self._do("expm1", self)

    def sin(self) -> Expression:
        return self._do("sine", self)

    def cos(self) -> Expression:
        return self._do("cosine", self)

    def arcsin(self) -> Expression:
        return self._do("arcsine", self)

    def tanh(self) -> Expression:
        return self._do("tanh", self)

    def _do(self, operation: str, *terms: Term) -> Expression:
        return Expression(self.writer, self.writer.do(operation, *map(self._slot_of, terms)), self.axes)

    def _slot_of(self, term: Term) -> int:
        if not isinstance(term, Expression):
            return self.writer.constant(_for_members(term).reshape(-1, *[1] * self.axes))
        if term.axes == self.axes:
            return term.slot
        if term.axes == 1:  # a number for each row is the same for all pairs of it
            return self.writer.do("column", term.slot)
        raise InputError("A number for every row cannot hold one for every pair of rows: write the pairs on the left.")


Term = Expression | np.ndarray | float
"""What arithmetic takes: an expression, a number for each member (R,), or one number."""


def _for_members(number: np.ndarray | float) -> np.ndarray:
    numbers = np.atleast_1d(np.asarray(number, dtype=np.float64))
    if numbers.ndim != 1:
        raise InputError(
            f"Arithmetic in a program takes numbers, or an array (R,) with one for each member; got shape {numbers.shape}. "
            "Factors for each feature go to Rows.scaled, before distances are taken."
        )
    return numbers
