"""Honest folds: random rows, contiguous stretches of a time series, or whole groups."""

from __future__ import annotations

import numpy as np

from manifoldgp.errors import InputError


def make_folds(
    N: int, count: int, rng: np.random.Generator, groups: np.ndarray | None = None, ordered: bool = False
) -> list[np.ndarray]:
    """Held-out rows of each fold, every row in exactly one.

    groups: (N,) labels; rows of one group stay together (the largest groups are dealt first, each to the smallest fold).
    ordered: contiguous stretches, for rows in order of time. Otherwise random.
    """
    if groups is not None:
        return _grouped(np.asarray(groups), count, rng)
    order = np.arange(N) if ordered else rng.permutation(N)
    return [np.sort(part) for part in np.array_split(order, min(count, N))]


def _grouped(groups: np.ndarray, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    labels, members, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(labels) < 2:
        raise InputError(
            "groups holds one label only; held-out folds need at least two groups. Leave groups out, or pass ordered=True."
        )
    count = min(count, len(labels))
    filled, fold_of = np.zeros(count, dtype=int), np.zeros(len(labels), dtype=int)
    shuffled = rng.permutation(len(labels))
    for label in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        fold_of[label] = filled.argmin()
        filled[fold_of[label]] += sizes[label]
    return [np.flatnonzero(fold_of[members] == f) for f in range(count)]
