"""Standardisation of inputs and targets, undone everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Standardizer:
    """u = (x − offset) / scale, column by column. A constant column keeps scale 1, so it becomes zero and harms nothing."""

    offset: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, A: np.ndarray, active: bool = True) -> Standardizer:
        """Mean and standard deviation of the columns of A (N, C); the identity when not active.

        >>> Standardizer.fit(np.array([[1.0, 5.0], [3.0, 5.0]]))
        Standardizer(offset=array([2., 5.]), scale=array([1., 1.]))
        """
        if not active:
            return cls(np.zeros(A.shape[1]), np.ones(A.shape[1]))
        # Divided by the largest deviation first: columns near 1e300 would overflow a plain sum of squares.
        offset = A.mean(0)
        deviation = A - offset
        largest = np.abs(deviation).max(0)
        safe = np.where(largest > 0, largest, 1.0)
        spread = safe * np.sqrt(np.mean((deviation / safe) ** 2, 0))
        constant = spread <= 1e-12 * np.abs(offset)
        return cls(offset, np.where(constant | (spread == 0), 1.0, spread))

    def apply(self, A: np.ndarray) -> np.ndarray:
        return (A - self.offset) / self.scale


def constant_columns(A: np.ndarray) -> np.ndarray:
    """Indices of the columns of A (N, C) that hold one value only."""
    return np.flatnonzero(np.ptp(A, axis=0) <= 1e-12 * np.abs(A).max(0, initial=0.0)) if len(A) else np.arange(A.shape[1])
