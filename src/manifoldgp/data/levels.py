"""Categories with many levels: each becomes a number that the training rows say, its effect on the target, instead of a column of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FOLDS = 5
"""Parts of the training rows; the effects that a row is trained with come from the other parts."""

KNOTS = (-1.5, -0.75, 0.0, 0.75, 1.5)
"""Where the lines bend, in standard deviations."""

ROUNDS = 10
"""How often the other columns and the levels take turns in explaining the target."""


@dataclass(frozen=True)
class Effects:
    """By how much each level shifts each target, shrunk towards no shift the more, the fewer rows a level has.

    Parameters
    ----------
    targets
        Names of the O targets.
    shifts
        For each level, in the order of its column's categories, O numbers in the units of the targets.
    """

    targets: tuple[str, ...]
    shifts: tuple[tuple[float, ...], ...]

    def names(self, name: str) -> tuple[str, ...]:
        """Names of the columns that a column with these levels becomes."""
        return tuple(f"{name}: effect on {target}" for target in self.targets)


def learn_effects(levels: np.ndarray, count: int, Z: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Shifts (count, O) of Y (n, O), NaN where a target is missing, at the levels (n,), numbers below ``count``, -1 where missing.

    An additive mixed model, y = a + Σ f_p(z_p) + u_level + e: the other columns Z (n, P) explain their part by bent lines; NaN in Z counts as its mean.
    """
    Z = _bent(_standardised(Z))
    return np.stack([_shifts(levels, count, Z, y) for y in Y.T], 1)


def cross_fitted(levels: np.ndarray, count: int, Z: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Effects (n, O) for training: those of a row are learnt from other rows, so that no row sees its own target."""
    fold = np.random.default_rng(0).permutation(len(levels)) % FOLDS
    found = np.full(Y.shape, np.nan)
    for k in range(FOLDS):
        mine, others = fold == k, fold != k
        if mine.any() and others.any():
            found[mine] = learn_effects(levels[others], count, Z[others], Y[others])[levels[mine]]
    found[levels < 0] = np.nan
    return found


def _shifts(levels: np.ndarray, count: int, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    used = ~np.isnan(y) & (levels >= 0)
    shift = np.zeros(count)
    if not used.any():
        return shift
    levels, Z, y = levels[used], Z[used], y[used]
    A = np.concatenate([np.ones((len(y), 1)), Z], 1)
    normal = A.T @ A + np.diag([0.0] + [1.0] * Z.shape[1])
    for _ in range(ROUNDS):
        explained = A @ np.linalg.solve(normal, A.T @ (y - shift[levels]))
        shift = _shrunken(levels, count, y - explained)
    return shift


def _shrunken(levels: np.ndarray, count: int, r: np.ndarray) -> np.ndarray:
    """n_l (m_l − m) / (n_l + s²/t²): m_l the mean of the n_l rows of a level, s² the variance of r inside levels, t² that between them."""
    rows = np.bincount(levels, minlength=count)
    total, seen = float(r.mean()), int((rows > 0).sum())
    mean = np.where(rows > 0, np.bincount(levels, r, count) / np.maximum(rows, 1), total)
    # a row for each level says nothing about how rows of a level differ: as if all difference were of that kind
    inside = float(np.sum((r - mean[levels]) ** 2)) / (len(r) - seen) if len(r) > seen else float(r.var())
    # E[Σ n_l (m_l − m)²] = (seen − 1) s² + (n − Σ n_l² / n) t²
    spread = float(np.sum(rows * (mean - total) ** 2)) - (seen - 1) * inside
    between = max(spread / max(len(r) - float(np.sum(rows**2)) / len(r), 1.0), 1e-6 * float(r.var()) + 1e-300)
    return rows * (mean - total) / np.maximum(rows + inside / between, 1e-300)


def _bent(Z: np.ndarray) -> np.ndarray:
    """Z and, of every column that has more than two values, what exceeds each of the knots: sums of these are bent lines."""
    several = Z[:, [len(np.unique(column)) > 2 for column in Z.T]]
    return np.concatenate([Z, *(np.maximum(several - knot, 0.0) for knot in KNOTS)], 1)


def _standardised(Z: np.ndarray) -> np.ndarray:
    known = ~np.isnan(Z)
    count = np.maximum(known.sum(0), 1)
    centred = np.where(known, Z - np.where(known, Z, 0.0).sum(0) / count, 0.0)
    spread = np.sqrt((centred**2).sum(0) / count)
    return centred / np.where(spread > 0, spread, 1.0)
