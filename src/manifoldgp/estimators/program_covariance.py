"""Covariances on their way through a program: constant factors are kept aside until they can be folded into weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldgp.estimators.program_writer import Writer


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
        zero = np.zeros(1)
        parts = [Diagonal(d.slot, d.factor, zero).slot_of(writer, np.ones(1)) for d in (self, other)]
        return Diagonal(writer.do("add", *parts), np.ones(1), constant)

    def times(self, other: Diagonal, writer: Writer) -> Diagonal:
        if self.slot is None or other.slot is None:
            still, moving = (self, other) if self.slot is None else (other, self)
            return Diagonal(moving.slot, moving.factor * still.constant, moving.constant * still.constant)
        parts = [d.slot_of(writer, np.ones(1)) for d in (self, other)]
        return Diagonal(writer.do("multiply", *parts), np.ones(1), np.zeros(1))


@dataclass(frozen=True)
class Covariance:
    """K(H*, H) = factor · slot (R, n, N), factor (R,), and k(h*, h*)."""

    slot: int
    factor: np.ndarray
    diagonal: Diagonal

    def plus(self, other: Covariance, writer: Writer) -> Covariance:
        slots = [_multiplied(c, writer) for c in (self, other)]
        return Covariance(writer.do("add", *slots), np.ones(1), self.diagonal.plus(other.diagonal, writer))

    def times(self, other: Covariance, writer: Writer) -> Covariance:
        slot = writer.do("multiply", self.slot, other.slot)
        return Covariance(slot, self.factor * other.factor, self.diagonal.times(other.diagonal, writer))


def _multiplied(covariance: Covariance, writer: Writer) -> int:
    if (covariance.factor == 1.0).all():
        return covariance.slot
    return writer.do("multiply", covariance.slot, writer.constant(covariance.factor[:, None, None]))
