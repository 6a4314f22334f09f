"""Values for inputs that are missing: those of training rows that are alike in all other columns.

The spread of these values is how little is known about a missing one. A prediction is the mixture over them, so its intervals are as wide as that makes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manifoldgp.errors import InputError

POOL = 256
"""Training rows that are kept to take values from."""

DRAWS = 20
"""Rows that a missing value is taken from: the nearest ones."""


@dataclass(frozen=True)
class Donors:
    """Some training rows in the columns that a model sees; None where a value was missing there too."""

    rows: tuple[tuple[float | None, ...], ...]

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.rows}
        if len(widths) > 1 or not all(v is None or (isinstance(v, float) and math.isfinite(v)) for row in self.rows for v in row):
            raise InputError("Rows to take values from have the same columns, of finite numbers or None.")

    @classmethod
    def of(cls, X: np.ndarray) -> Donors:
        """Rows of X (N, D), evenly through the table. Six digits are enough to draw from."""
        chosen = X[np.unique(np.linspace(0, len(X) - 1, POOL).astype(int))] if len(X) > POOL else X
        return cls(tuple(tuple(None if np.isnan(value) else float(f"{value:.6g}") for value in row) for row in chosen))

    @cached_property
    def _table(self) -> np.ndarray:
        return np.array(self.rows, dtype=np.float64)

    @cached_property
    def _scaled(self) -> np.ndarray:
        return self._table / self._scale

    @cached_property
    def _scale(self) -> np.ndarray:
        spread = np.array([np.nanstd(column) if np.isfinite(column).any() else 0.0 for column in self._table.T])
        return np.where(spread > 0, spread, 1.0)

    def draws(self, X: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """X (n, D) with NaN filled in, DRAWS times: (n, DRAWS, D). names: of the columns, for messages."""
        found = np.repeat(X[:, None, :], DRAWS, 1)
        for row, draws in zip(X, found, strict=True):
            lacking = np.flatnonzero(np.isnan(row))
            together = self._nearest(row, lacking)
            if together is not None:
                draws[:, lacking] = self._table[together][:, lacking]
                continue
            for column in lacking.tolist():  # no training row has all of them
                alone = self._nearest(row, np.array([column]))
                if alone is None:
                    raise InputError(
                        f"{names[column]} has no value in the training rows to take the place of a missing one. Leave it out."
                    )
                draws[:, column] = self._table[alone, column]
        return found

    def completed(self, X: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """X (n, D) with NaN replaced by the mean of what training rows like it have there."""
        X = np.array(X)
        rows = np.flatnonzero(np.isnan(X).any(1))
        if len(rows):
            X[rows] = self.draws(X[rows], names).mean(1)
        return X

    def _nearest(self, row: np.ndarray, lacking: np.ndarray) -> np.ndarray | None:
        """Numbers (DRAWS,) of the rows that are nearest in what is there, among those that have what is lacking."""
        able = np.flatnonzero(~np.isnan(self._table[:, lacking]).any(1))
        if not len(able):
            return None
        away = (self._scaled[able] - row / self._scale) ** 2
        known = ~np.isnan(away)
        distance = np.where(known, away, 0.0).sum(1) / np.maximum(known.sum(1), 1)
        return np.resize(able[np.argsort(distance, kind="stable")][:DRAWS], DRAWS)
