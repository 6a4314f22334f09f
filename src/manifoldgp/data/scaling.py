"""From the columns that users have to those that a model sees: which of them, in which order, and standardised; undone everywhere.

What a fit draws must belong to the data and not to how they lie in the table. So a model sees columns, and learns from rows, in an order that follows from their values alone,
and from numbers that do not tell in which units they came (:meth:`Standardizer.learnt`); what repeats another column or never changes is not shown to it at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

GRID = 2.0**-34
"""Standardised values are learnt from as multiples of this: far above what a change of units does to their last digits, far below what any model could tell apart."""


@dataclass(frozen=True)
class Standardizer:
    """u = (x − offset) / scale, column by column. A constant column keeps scale 1, so it becomes zero and harms nothing.

    place (D,): the input of the model that each column is. A repeated column has the place of the one it repeats; one that the model does not see has −1, and its offset is
    the value that it had.
    """

    offset: np.ndarray
    scale: np.ndarray
    place: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    active: bool = field(default=True, repr=False)

    def __post_init__(self) -> None:
        if len(self.place) != len(self.offset):
            object.__setattr__(self, "place", np.arange(len(self.offset)))

    @classmethod
    def fit(cls, A: np.ndarray, active: bool = True) -> Standardizer:
        """Mean and standard deviation of the columns of A (N, C); the identity when not active.

        >>> Standardizer.fit(np.array([[1.0, 5.0], [3.0, 5.0]]))
        Standardizer(offset=array([2., 5.]), scale=array([1., 1.]), place=array([0, 1]))
        """
        if not active:
            return cls(np.zeros(A.shape[1]), np.ones(A.shape[1]), active=False)
        # Sorted: a sum in another order would have other last digits. Divided by the largest deviation: columns near 1e300 would overflow a plain sum of squares.
        columns = np.sort(A.T, axis=1)
        offset = columns.mean(1)
        deviation = columns - offset[:, None]
        largest = np.abs(deviation).max(1)
        safe = np.where(largest > 0, largest, 1.0)
        spread = safe * np.sqrt(np.mean((deviation / safe[:, None]) ** 2, 1))
        constant = spread <= 1e-12 * np.abs(offset)
        return cls(offset, np.where(constant | (spread == 0), 1.0, spread))

    @cached_property
    def columns(self) -> np.ndarray:
        """The column (C,) that each input of the model is."""
        places, first = np.unique(self.place, return_index=True)
        return first[places >= 0]

    @property
    def sees_columns_as_they_are(self) -> bool:
        """Whether the model's inputs are the columns, all of them, in their order."""
        return np.array_equal(self.place, np.arange(len(self.place)))

    @property
    def dropped(self) -> np.ndarray:
        """Columns that the model does not see, or sees as another one."""
        return np.setdiff1d(np.arange(len(self.place)), self.columns)

    @cached_property
    def offsets(self) -> np.ndarray:
        """Of the model's inputs (C,)."""
        return self.offset[self.columns]

    @cached_property
    def scales(self) -> np.ndarray:
        """Of the model's inputs (C,)."""
        return self.scale[self.columns]

    def apply(self, A: np.ndarray) -> np.ndarray:
        """What the model sees (..., C) of columns A (..., D)."""
        return np.ascontiguousarray(
            (A[..., self.columns] - self.offsets) / self.scales
        )  # a choice of columns lies in memory column by column

    def learnt(self, U: np.ndarray) -> np.ndarray:
        """What a model learns from: standardised values as multiples of :data:`GRID`, the same numbers in whatever units they came. Others stay as they are."""
        return np.rint(U / GRID) * GRID + 0.0 if self.active else U

    def undo(self, U: np.ndarray) -> np.ndarray:
        """The columns (..., D) of what the model sees (..., C)."""
        known = U * self.scales + self.offsets
        return np.where(self.place >= 0, known[..., self.place], self.offset)

    def as_given(self, U: np.ndarray) -> np.ndarray:
        """The columns (..., D) for people: without what standardising and undoing it leave in the last digits, 0 and not 2.776e-17."""
        return self._without_trace(self.undo(U)) if self.active else self.undo(U)

    def _without_trace(self, A: np.ndarray) -> np.ndarray:
        """Numbers of columns A (..., D), where one of few digits is as near as the trace can be: that one."""
        trace = 8.0 * np.finfo(float).eps * (np.abs(self.offset) + self.scale + np.abs(A))
        places = -np.ceil(np.log10(1e3 * trace.reshape(-1, A.shape[-1]).max(0))).astype(int)
        short = np.stack([np.round(A[..., d], int(place)) for d, place in enumerate(places)], -1) + 0.0  # + 0.0: no −0.0
        return np.where(np.abs(A - short) <= trace, short, A)

    def of_columns(self, found: np.ndarray) -> np.ndarray:
        """What belongs to each input of the model (..., C), as what belongs to each column (..., D): zero where it has no effect."""
        spread = np.zeros((*found.shape[:-1], len(self.place)))
        spread[..., self.columns] = found
        return spread

    def ordered_by_content(self, A: np.ndarray, Y: np.ndarray) -> Standardizer:
        """The same for the different columns of A (N, D) that vary, in an order that does not depend on where they stand; Y (N, O): targets as they are learnt from.

        If no column varies, the first one stays.
        """
        constant = np.isin(np.arange(A.shape[1]), constant_columns(A))
        constant[0] &= not constant.all()
        first: dict[bytes, int] = {}
        kept = {d: first.setdefault((A[:, d] + 0.0).tobytes(), d) for d in np.flatnonzero(~constant).tolist()}  # + 0.0: no −0.0
        U = self.learnt((A - self.offset) / self.scale)
        order = sorted(first.values(), key=lambda d: U[np.lexsort((U[:, d], *Y.T[::-1])), d].tobytes())
        place = np.full(A.shape[1], -1)
        for d, original in kept.items():
            place[d] = order.index(original)
        return replace(self, offset=np.where(constant, A[0], self.offset), place=place)


def without_last_digits(positive: np.ndarray) -> np.ndarray:
    """Positive numbers without the digits that other units would change."""
    mantissa, exponent = np.frexp(positive)
    return np.ldexp(np.rint(mantissa / GRID) * GRID, exponent)


def canonical_rows(U: np.ndarray, Y: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
    """An order of rows (N,) that does not depend on the one they came in: sorted by what they hold, and then shuffled, always in the same way."""
    keys = [*Y.T, *U.T, *(() if noise is None else noise.T)]
    return np.lexsort(keys[::-1])[np.random.default_rng(len(U)).permutation(len(U))]


def constant_columns(A: np.ndarray) -> np.ndarray:
    """Indices of the columns of A (N, C) that hold one value only."""
    return np.flatnonzero(np.ptp(A, axis=0) <= 1e-12 * np.abs(A).max(0, initial=0.0)) if len(A) else np.arange(A.shape[1])
