"""Categories with many levels: each becomes a few numbers that the training rows say, its effect on the target, instead of a column of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manifoldgp.errors import InputError

FOLDS = 5
"""Parts of the training rows; the effects that a row is trained with come from the other parts."""

KNOTS = (-1.5, -0.75, 0.0, 0.75, 1.5)
"""Where the lines bend, in standard deviations."""

ROUNDS = 10
"""How often the other columns and the levels take turns in explaining the target."""


MOST_CURVES = 3
"""Curves that the effect of a level may be made of, beside its shift."""

DIRECTIONS = 60
"""Directions of the other columns that curves are made of, at most."""


@dataclass(frozen=True)
class Effects:
    """What each level does to each target, shrunk towards nothing the more, the fewer rows a level has: a shift, and how much of a few curves it has.

    A curve is a function of the other columns that all levels share; levels between which a slope or a phase differs differ in how much of it they have.

    Parameters
    ----------
    targets
        Names of the O targets.
    shifts
        For each level, in the order of its column's categories: for each target its shift, in the units of the target, and then its parts of the curves.
    curves
        How many curves each target has.
    """

    targets: tuple[str, ...]
    shifts: tuple[tuple[float, ...], ...]
    curves: tuple[int, ...]

    def __post_init__(self) -> None:
        counted = len(self.curves) == len(self.targets) and all(type(count) is int and count >= 0 for count in self.curves)
        width = len(self.targets) + sum(self.curves) if counted else -1  # before anything of that size is made
        if not all(len(row) == width and all(isinstance(v, float) and math.isfinite(v) for v in row) for row in self.shifts):
            raise InputError("Effects have one finite number for each target and each curve, at every level.")

    def names(self, name: str) -> tuple[str, ...]:
        """Names of the columns that a column with these levels becomes."""
        named = []
        for target, curves in zip(self.targets, self.curves, strict=True):
            named += [f"{name}: effect on {target}", *(f"{name}: curve {k + 1} on {target}" for k in range(curves))]
        return tuple(named)


def learn_effects(levels: np.ndarray, count: int, Z: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """Shifts and parts of curves (count, K) of Y (n, O), NaN where a target is missing, at the levels (n,), numbers below ``count``, -1 where missing;
    and how many curves each target has.

    A mixed model, y = a + Σ f_p(z_p) + u_level + Σ_w e_level,w c_w(z) + noise: the other columns Z (n, P) explain their part by bent lines; NaN in Z counts as its mean.
    """
    Z, found, curves = _bent(_standardised(Z)), [], []
    for y in Y.T:
        of_target = _Rows(levels, count, Z, y)
        shared = of_target.chosen_curves()
        found.append(of_target.effects(shared))
        curves.append(0 if shared is None else shared.directions.shape[1])
    return np.concatenate(found, 1), tuple(curves)


def cross_fitted(levels: np.ndarray, count: int, Z: np.ndarray, Y: np.ndarray, curves: tuple[int, ...]) -> np.ndarray:
    """Effects (n, K) for training: those of a row are learnt from other rows, so that no row sees its own target. Curves are learnt from all of them."""
    fold, Z = _folds(len(levels)), _bent(_standardised(Z))
    columns = []
    for y, width in zip(Y.T, curves, strict=True):
        rows = _Rows(levels, count, Z, y)
        shared, found = rows.curves(width) if width else None, np.full((len(levels), 1 + width), np.nan)
        for k in range(FOLDS):
            mine, others = fold == k, fold != k
            if mine.any() and others.any():
                found[mine] = rows.only(others).effects(shared)[levels[mine]]
        columns.append(found)
    found = np.concatenate(columns, 1)
    found[levels < 0] = np.nan
    return found


def _folds(n: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(n) % FOLDS


@dataclass(frozen=True)
class _Curves:
    """directions (b, W): the curves, in the basis of the other columns. noise: variance around them."""

    directions: np.ndarray
    noise: float

    def parts(self, rows: _Rows, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How much of each curve the levels have, mean (count, W) and covariance (count, W, W), by residuals r (n,): e_l ~ N(0, 1) before any row is seen."""
        F = rows.basis @ self.directions
        W = F.shape[1]
        precision = (
            np.stack([rows.sums(F[:, v] * F[:, w]) for v in range(W) for w in range(W)], -1).reshape(-1, W, W) / self.noise
        )
        covariance = np.linalg.inv(precision + np.eye(W))
        pull = np.stack([rows.sums(F[:, w] * r) for w in range(W)], -1) / self.noise
        return np.einsum("lvw,lw->lv", covariance, pull), covariance


class _Rows:
    """The rows of one target that have it and a level. basis (n, b): the other columns as orthogonal directions of variance one."""

    def __init__(self, levels: np.ndarray, count: int, Z: np.ndarray, y: np.ndarray, basis: np.ndarray | None = None) -> None:
        basis = _orthogonal(Z) if basis is None else basis
        used = ~np.isnan(y) & (levels >= 0)
        self.given = levels, count, Z, y, basis
        self.levels, self.count, self.Z, self.y, self.basis = levels[used], count, Z[used], y[used], basis[used]

    def only(self, chosen: np.ndarray) -> _Rows:
        """Some of the rows that were given, in the same basis."""
        levels, count, Z, y, basis = self.given
        return _Rows(levels[chosen], count, Z[chosen], y[chosen], basis[chosen])

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Over the rows of each level (count,)."""
        return np.bincount(self.levels, values, self.count)

    def shifts(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each level (count,), and what the other columns' bent lines are multiplied with."""
        A, shift = np.concatenate([np.ones((len(self.y), 1)), self.Z], 1), np.zeros(self.count)
        normal = A.T @ A + np.diag([0.0] + [1.0] * self.Z.shape[1])
        slopes = np.zeros(A.shape[1])
        for _ in range(ROUNDS if len(self.y) else 0):
            slopes = np.linalg.solve(normal, A.T @ (self.y - shift[self.levels]))
            shift = _shrunken(self.levels, self.count, self.y - A @ slopes)
        return shift, slopes

    def residuals(self, of: _Rows | None = None) -> np.ndarray:
        """What shifts and bent lines leave, of these rows, or of others."""
        of = self if of is None else of
        shift, slopes = self.shifts()
        return of.y - slopes[0] - of.Z @ slopes[1:] - shift[of.levels]

    def effects(self, curves: _Curves | None) -> np.ndarray:
        """Shift and parts of the curves of each level (count, 1 + W)."""
        shift = self.shifts()[0][:, None]
        return shift if curves is None else np.concatenate([shift, curves.parts(self, self.residuals())[0]], 1)

    def curves(self, width: int, rounds: int = 30) -> _Curves:
        """The curves that explain the residuals best, r = Σ_w e_level,w c_w(z) + noise, by EM: probabilistic principal components of the levels."""
        B, r = self.basis, self.residuals()
        variance = float(r.var()) + 1e-300
        by_level = np.stack([self.sums(column * r) for column in B.T], 1)
        first = np.linalg.svd(by_level, full_matrices=False)[2][:width].T
        found = _Curves(first * np.sqrt(0.5 * variance / width), 0.5 * variance)
        for _ in range(rounds):
            mean, covariance = found.parts(self, r)
            second = (mean[:, :, None] * mean[:, None, :] + covariance)[self.levels]
            blocks = [[B.T @ (second[:, v, w, None] * B) for w in range(width)] for v in range(width)]
            right = np.concatenate([B.T @ (r * mean[self.levels, w]) for w in range(width)])
            solved = np.linalg.solve(np.block(blocks) + np.eye(len(right)), right).reshape(width, -1).T
            F = B @ solved
            left = (r - np.sum(F * mean[self.levels], 1)) ** 2 + np.einsum("nv,nvw,nw->n", F, covariance[self.levels], F)
            found = _Curves(solved, max(float(left.mean()), 1e-6 * variance))
        return found

    def chosen_curves(self) -> _Curves | None:
        """As many curves as rows that they were not learnt from want, beyond doubt: the squared error falls by more than three standard errors each."""
        fold, width, before = _folds(len(self.given[0])), 0, None
        most = min(MOST_CURVES, self.basis.shape[1], self.count - 1)
        while width < most:
            errors = self._squared_errors(fold, width + 1)
            gain = (self._squared_errors(fold, 0) if before is None else before) - errors
            if not len(gain) or gain.mean() <= 3.0 * gain.std() / np.sqrt(len(gain)):
                break
            width, before = width + 1, errors
        return self.curves(width) if width else None

    def _squared_errors(self, fold: np.ndarray, width: int) -> np.ndarray:
        """Of rows that neither shifts nor curves were learnt from."""
        errors = []
        for k in range(FOLDS):
            mine, others = self.only(fold == k), self.only(fold != k)
            left = others.residuals(mine)
            if width and len(mine.y) and len(others.y):
                curves = others.curves(width, rounds=15)
                part = curves.parts(others, others.residuals())[0]
                left = left - np.sum((mine.basis @ curves.directions) * part[mine.levels], 1)
            errors.append(left**2)
        return np.concatenate(errors)


def _orthogonal(Z: np.ndarray) -> np.ndarray:
    """Directions (n, b) of variance one in the space of Z's columns, the strongest ones first."""
    if not Z.shape[1] or len(Z) < 2:
        return np.zeros((len(Z), 0))
    centred = Z - Z.mean(0)
    size, axes = np.linalg.eigh(centred.T @ centred / len(Z))
    kept = np.flatnonzero(size > 1e-4 * size[-1])[::-1][:DIRECTIONS]
    return centred @ axes[:, kept] / np.sqrt(np.maximum(size[kept], 1e-300))


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
