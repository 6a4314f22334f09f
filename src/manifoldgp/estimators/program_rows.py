"""Features on their way through a program: sums of linear maps that are not yet carried out.

Scalings, offsets, projections, concatenations and sums only change matrices here; a product is written when a nonlinear operation
needs the numbers. So the standardisation of inputs ends up in the first layer's weights, and length-scales in the last one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manifoldgp.estimators.program_writer import Writer


@dataclass(frozen=True)
class Rows:
    """Σ_slot slot · matrix + shift: (R, n, width).

    terms: slot -> matrix (R, P, width), or the diagonal (R, width) of one. shift (R, width). R may be 1 anywhere.
    """

    writer: Writer
    terms: dict[int, np.ndarray]
    shift: np.ndarray

    @classmethod
    def of(cls, writer: Writer, slot: int, width: int) -> Rows:
        """The rows of a slot as they are."""
        return cls(writer, {slot: np.ones((1, width))}, np.zeros((1, width)))

    @property
    def width(self) -> int:
        return self.shift.shape[-1]

    def scaled(self, factors: np.ndarray) -> Rows:
        """Columns times factors (R, width)."""
        terms = {slot: A * (factors if A.ndim == 2 else factors[:, None, :]) for slot, A in self.terms.items()}
        return Rows(self.writer, terms, self.shift * factors)

    def shifted(self, offset: np.ndarray) -> Rows:
        """Plus offset (R, width)."""
        return Rows(self.writer, self.terms, self.shift + offset)

    def times(self, W: np.ndarray) -> Rows:
        """Rows W, for W (R, width, Q)."""
        K, Q = W.shape[-2:]
        dense = [A.shape[-2] for A in self.terms.values() if A.ndim == 3]
        if any(P * Q > 2 * (P * K + K * Q) for P in dense):
            return Rows.of(self.writer, self.slot(), K).times(W)  # of low rank: two thin products are cheaper than a full one
        terms = {slot: A[..., None] * W if A.ndim == 2 else A @ W for slot, A in self.terms.items()}
        return Rows(self.writer, terms, (self.shift[:, None, :] @ W)[:, 0, :])

    def columns(self, dims: Sequence[int] | None) -> Rows:
        """Some columns, in the given order; None: all."""
        return self if dims is None else self.times(np.eye(self.width)[None, :, list(dims)])

    def plus(self, other: Rows) -> Rows:
        terms = dict(self.terms)
        for slot, A in other.terms.items():
            terms[slot] = _sum(terms[slot], A) if slot in terms else A
        return Rows(self.writer, terms, self.shift + other.shift)

    @staticmethod
    def side_by_side(parts: Sequence[Rows]) -> Rows:
        """[H_1, H_2, ...]."""
        width, first = sum(part.width for part in parts), 0
        total: Rows | None = None
        for part in parts:
            placed = part.times(np.eye(width)[None, first : first + part.width])
            total, first = placed if total is None else total.plus(placed), first + part.width
        assert total is not None
        return total

    def slot(self) -> int:
        """The slot where the numbers are, (R, n, width): writes the product, if there is one left to do."""
        (first, A), *others = self.terms.items()
        if not others and A.ndim == 2:
            if not self.shift.any() and (A == 1.0).all():
                return first
            d, e = self.writer.constant(A[:, None, :]), self.writer.constant(self.shift[:, None, :])
            return self.writer.do("scale_shift", first, d, e)
        arguments = [a for slot, A in self.terms.items() for a in (slot, self.writer.constant(_dense(A)))]
        if self.shift.any():
            arguments.append(self.writer.constant(self.shift[:, None, :]))
        return self.writer.do("affine", *arguments)

    def weighted(self, w: np.ndarray) -> int:
        """The slot of Σ_q h_q w_q (R, n), for w (R, width)."""
        return self.writer.do("weighted", self.slot(), self.writer.vector(w))

    def through(self, operation: str, *constants: int, width: int | None = None, **settings: float) -> Rows:
        """The rows that an operation makes of these."""
        slot = self.writer.do(operation, self.slot(), *constants, **settings)
        return Rows.of(self.writer, slot, self.width if width is None else width)


def _dense(A: np.ndarray) -> np.ndarray:
    return A if A.ndim == 3 else A[..., None] * np.eye(A.shape[-1])


def _sum(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return A + B if A.ndim == B.ndim else _dense(A) + _dense(B)
