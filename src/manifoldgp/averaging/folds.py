"""Honest folds: random rows, contiguous stretches of a time series, or whole groups."""

from __future__ import annotations

import numpy as np

from manifoldgp.errors import InputError
from manifoldgp.inference.cells import Cells

HELD_OUT_ROWS = 2000
"""Rows that say enough about weights; of many rows no more are held out."""

HELD_OUT_CELLS, CELL_ROWS = 100, 100
"""Of very many rows those held out lie in so many cells, each of about so many rows. Scattered over all rows, every one of them would need a factor of its own from every member."""

IN_CELLS_FROM = 40_000
"""Rows beyond which that is done."""

SHORT_STRETCH = 100
"""Rows in order of time below which each half is predicted from the other: shorter stretches have neighbours on both sides, and say nothing of what comes after all rows."""


def folds_for(N: int) -> tuple[int, int]:
    """How many folds the rows are dealt to, and how many of them are held out in turn.

    Few rows need all of them for their weights, and small held-out parts; with many rows a part of them says enough.

    >>> [folds_for(N) for N in (50, 300, 800, 2000, 40_000)]
    [(5, 5), (3, 3), (5, 2), (5, 1), (20, 1)]
    """
    if N < 60:
        return 5, 5
    return (3, 3) if N < 600 else (5, 2) if N < 900 else (max(5, N // HELD_OUT_ROWS), 1)


def held_out_in_turn(X: np.ndarray, rng: np.random.Generator, groups: np.ndarray | None, ordered: bool) -> list[np.ndarray]:
    """The folds of rows X (N, D) that are used: the last ones of rows in order of time, else those of the most usual size (groups may be large).

    Where all of them are used, borders between stretches of time are drawn, so that every deal has others.
    """
    N = len(X)
    count, used = folds_for(N)
    if groups is None and not ordered and N > IN_CELLS_FROM:
        return [_in_cells(X, rng)]
    if ordered and groups is None and used == count:
        return _stretches(N, 2 if N < SHORT_STRETCH else count, rng)
    folds = make_folds(N, count, rng, groups, ordered)
    if ordered and groups is None:
        return folds[-used:]
    if used < count:  # members of the folds predict: a large group is not held out from one that would learn from a few rows only
        smaller = [fold for fold in folds if 2 * len(fold) <= N]
        folds = smaller or folds
    return sorted(folds, key=lambda fold: (abs(len(fold) - N / count), len(fold)))[:used]


def _in_cells(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows to hold out: a few of each of some cells, which are drawn; more of each where rows lie at few places, half of its rows at most."""
    cells = Cells(lambda rows: X[rows], len(X), CELL_ROWS)
    chosen = [rng.permutation(cells.rows(cell)) for cell in rng.permutation(cells.count)[:HELD_OUT_CELLS]]
    each = HELD_OUT_ROWS // len(chosen)
    return np.sort(np.concatenate([rows[: min(each, -(-len(rows) // 2))] for rows in chosen]))


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


def _stretches(N: int, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Contiguous stretches with borders drawn around those of equal ones, at most a sixth of a stretch away."""
    borders = (np.arange(1, count) + rng.uniform(-1 / 6, 1 / 6, count - 1)) * N / count
    return [part for part in np.split(np.arange(N), np.round(borders).astype(int)) if len(part)]


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
