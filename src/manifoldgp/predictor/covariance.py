"""Covariances on their way through a program: constant factors are kept aside until they can be folded into weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldgp.predictor.expression import Expression
from manifoldgp.predictor.writer import Writer

_ONE, _ZERO = np.ones(1), np.zeros(1)


@dataclass(frozen=True)
class Diagonal:
    """k(h, h) = factor · slot + constant; slot (R, n), or None where it is constant. factor, constant: (R,)."""

    slot: int | None
    factor: np.ndarray
    constant: np.ndarray

    def slot_of(self, writer: Writer, scale: np.ndarray) -> int:
        """The slot of scale · k(h, h), scale (R,); constant, or (R, n)."""
        constant = writer.constant((scale * self.constant)[:, None])
        if self.slot is None:
            return constant
        return writer.do("scale_shift", self.slot, writer.constant((scale * self.factor)[:, None]), constant)

    def plus(self, other: Diagonal, writer: Writer) -> Diagonal:
        constant = self.constant + other.constant
        if self.slot is None or other.slot is None:
            moving = other if self.slot is None else self
            return Diagonal(moving.slot, moving.factor, constant)
        parts = [Diagonal(d.slot, d.factor, _ZERO).slot_of(writer, _ONE) for d in (self, other)]
        return Diagonal(writer.do("add", *parts), _ONE, constant)

    def times(self, other: Diagonal, writer: Writer) -> Diagonal:
        if self.slot is None or other.slot is None:
            still, moving = (self, other) if self.slot is None else (other, self)
            return Diagonal(moving.slot, moving.factor * still.constant, moving.constant * still.constant)
        parts = [d.slot_of(writer, _ONE) for d in (self, other)]
        return Diagonal(writer.do("multiply", *parts), _ONE, _ZERO)


@dataclass(frozen=True)
class Covariance:
    """K(H*, H) = factor · slot (R, n, N), factor (R,), and k(h*, h*). Made by `of`."""

    writer: Writer
    slot: int
    factor: np.ndarray
    diagonal: Diagonal

    @classmethod
    def of(cls, K: Expression, diagonal: Expression | np.ndarray | float = 1.0, variance: np.ndarray | None = None) -> Covariance:
        """variance · K(H*, H) with variance · diagonal = k(h*, h*).

        Parameters
        ----------
        K
            The covariances of all pairs (R, n, N), without the variance.
        diagonal
            k(h*, h*) without the variance: for every row (R, n), or a number where it is constant, one or (R,).
        variance
            One number for each member (R,), or None for 1.
        """
        factor = _ONE if variance is None else variance
        if isinstance(diagonal, Expression):
            return cls(K.writer, K.slot, factor, Diagonal(diagonal.slot, factor, _ZERO))
        return cls(K.writer, K.slot, factor, Diagonal(None, _ZERO, factor * diagonal))

    def __add__(self, other: Covariance) -> Covariance:
        slot = self.writer.do("add", self._multiplied(), other._multiplied())
        return Covariance(self.writer, slot, _ONE, self.diagonal.plus(other.diagonal, self.writer))

    def __mul__(self, other: Covariance) -> Covariance:
        slot = self.writer.do("multiply", self.slot, other.slot)
        return Covariance(self.writer, slot, self.factor * other.factor, self.diagonal.times(other.diagonal, self.writer))

    def _multiplied(self) -> int:
        if (self.factor == 1.0).all():
            return self.slot
        return self.writer.do("multiply", self.slot, self.writer.constant(self.factor[:, None, None]))
