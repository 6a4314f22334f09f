"""Differences between models on the same rows, shares of rows, and how far chance explains them where rows err together."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from manifoldgp._system.plain_text import verb

CLEAR = 2.0
"""A difference counts as clear beyond so many of its standard errors."""


class Difference(NamedTuple):
    """A mean difference of scores between two models on the same rows, and its standard error."""

    value: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether chance hardly explains it."""
        return abs(self.value) > CLEAR * self.error


def paired(difference: np.ndarray, units: np.ndarray) -> Difference:
    """The mean of differences (N,) and its standard error; rows of one unit (N,) are taken together, because their errors resemble each other.

    >>> paired(np.array([1.0, 3.0]), np.array([0, 1]))
    Difference(value=2.0, error=1.0)
    """
    n, mean = len(difference), float(difference.mean())
    count = int(units.max()) + 1
    if count < 2:
        return Difference(mean, math.inf)
    sums = np.bincount(units, weights=difference - mean, minlength=count)
    return Difference(mean, float(np.sqrt(np.sum(sums**2) * count / (count - 1)) / n))


def named_groups(ordered: bool, column: str | None = None, count: int = 2) -> str:
    """What rows are called that were kept together, so many: stretches of time where they are in order, else groups, by the column that has their labels if its name is known.

    >>> named_groups(True), named_groups(False), named_groups(False, "run", 1)
    ('stretches of time', 'groups', 'group by run')
    """
    if ordered:
        return verb(count, "stretch of time", "stretches of time")
    return verb(count, "group", "groups") + (f" by {column}" if column is not None else "")


def units_of(n: int, groups: np.ndarray | None, ordered: bool) -> np.ndarray:
    """Which of n rows (n,) count as one piece of evidence: those of a group (labels (n,)), those of a short stretch of time, or each its own.

    >>> units_of(3, np.array(["b", "a", "b"]), False).tolist(), units_of(5, None, True).tolist()
    ([1, 0, 1], [0, 0, 1, 1, 2])
    """
    if groups is not None:
        return np.unique(groups, return_inverse=True)[1]
    return np.arange(n) // max(round(n**0.5), 1) if ordered else np.arange(n)
