"""Features on their way through a program: sums of linear maps that are not yet carried out.

Scalings, offsets, projections, concatenations and sums only change matrices here; a product is written when a nonlinear operation
needs the numbers. So the standardisation of inputs ends up in the first layer's weights, and length-scales in the last one's.

All arrays come with the members in front: factors (R, width), matrices (R, width, Q), training features (R, N, width). R may be 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manifoldgp.predictor.expression import Expression
from manifoldgp.predictor.writer import Writer

LARGEST_NORM = 1e2
"""Squared norms up to which |z|² + |t|² − 2 z·t is exact enough: its error is about 2e-16 of them."""


@dataclass(frozen=True)
class Rows:
    """Σ_slot slot · matrix + shift: (R, n, width).

    Parameters
    ----------
    terms
        For each slot its matrix (R, columns of the slot, width), or the diagonal (R, width) of one.
    shift : (R, width)
        What is added. R may be 1 anywhere.
    """

    writer: Writer
    terms: dict[int, np.ndarray]
    shift: np.ndarray

    @classmethod
    def of(cls, writer: Writer, slot: int, width: int) -> Rows:
        """The rows of a slot as they are."""
        return cls(writer, {slot: np.ones((1, width))}, np.zeros((1, width)))

    @classmethod
    def constant(cls, writer: Writer, values: np.ndarray) -> Rows:
        """The same values (R, width) in every row."""
        return cls(writer, {}, values)

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
        if not self.terms:
            return self.writer.do("constant_rows", 0, self.writer.constant(self.shift[:, None, :]))
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

    def column(self) -> tuple[Expression | None, np.ndarray]:
        """Rows of width 1 as numbers: those that differ between rows, (R, n), None if there are none; plus a constant (R,)."""
        do, vector = self.writer.do, self.writer.vector
        total: Expression | None = None
        for slot, A in self.terms.items():
            part = Expression(self.writer, do("weighted", slot, vector(_dense(A)[..., 0])), axes=1)
            total = part if total is None else total + part
        return total, self.shift[:, 0]

    def through(self, operation: str, *constants: int, width: int | None = None, **settings: float) -> Rows:
        """The rows that an operation makes of these."""
        slot = self.writer.do(operation, self.slot(), *constants, **settings)
        return Rows.of(self.writer, slot, self.width if width is None else width)

    def multiplied(self, other: Rows) -> Rows:
        """Two rows of the same width, entry by entry."""
        return Rows.of(self.writer, self.writer.do("multiply", self.slot(), other.slot()), self.width)

    def square_sum(self) -> Expression:
        """Σ_q h_q² of every row (R, n)."""
        return Expression(self.writer, self.writer.do("square_sum", self.slot()), axes=1)

    def feature(self, q: int) -> Expression:
        """h_q of every row (R, n)."""
        rows = Rows.of(self.writer, self.slot(), self.width).times(np.eye(self.width)[None, :, q : q + 1])
        moving, _ = rows.column()
        assert moving is not None
        return moving

    def inner_products(self, H: np.ndarray) -> Expression:
        """h · h' of all pairs (R, n, N), for the training features H (R, N, width)."""
        rows = Rows.of(self.writer, self.slot(), self.width)
        return self._pairs(rows.times(np.ascontiguousarray(np.swapaxes(H, -1, -2))).slot())

    def differences(self, H: np.ndarray, q: int) -> Expression:
        """h_q − h'_q of all pairs (R, n, N), for the training features H (R, N, width)."""
        one = self.times(np.eye(self.width)[None, :, q : q + 1]).slot()
        return self._pairs(self.writer.do("subtract", one, self.writer.constant(H[:, None, :, q])))

    def of_training_rows(self, numbers: np.ndarray) -> Expression:
        """Numbers of the training rows (R, N) as those of all pairs (R, n, N): the same for every new row."""
        return self._pairs(self.writer.constant(numbers[:, None, :]))

    def squared_distances(self, H: np.ndarray, exact: bool = False) -> Expression:
        """|h − h'|² of all pairs (R, n, N), for the training features H (R, N, width).

        Parameters
        ----------
        exact
            Small distances to their last digit, for kernels with a kink at zero; it takes longer.
        """
        return self.of_distances("squared_distances", H, exact=exact)

    def of_distances(self, operation: str, H: np.ndarray, *more: int, exact: bool = False) -> Expression:
        """What an operation makes of |h − h'|². Both sides are taken around the mean of H, where fewer digits are lost."""
        centre = H.mean(-2)
        T = np.ascontiguousarray(np.swapaxes(H - centre[:, None, :], -1, -2))
        norms = (T * T).sum(-2, keepdims=True)
        expand = not exact and bool(norms.max() <= LARGEST_NORM)
        constants = [self.writer.constant(T), self.writer.constant(norms), *more]
        return self._pairs(self.writer.do(operation, self.shifted(-centre).slot(), *constants, expand=expand))

    def _pairs(self, slot: int) -> Expression:
        return Expression(self.writer, slot, axes=2)


def _dense(A: np.ndarray) -> np.ndarray:
    return A if A.ndim == 3 else A[..., None] * np.eye(A.shape[-1])


def _sum(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return A + B if A.ndim == B.ndim else _dense(A) + _dense(B)
