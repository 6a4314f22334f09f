"""Folds as one batch: training sets of (almost) equal size, and what members predict on the rows they have not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.linalg import cholesky_with_jitter, solve_lower
from manifoldgp._system.threads import Workers
from manifoldgp.errors import NotPositiveDefiniteError
from manifoldgp.evidence import isolate_masked_rows
from manifoldgp.inference.cells import Cells, nearest
from manifoldgp.inference.exact_posterior import BLOCK_ROWS
from manifoldgp.inference.local_posterior import conditioned
from manifoldgp.inference.mixtures import Predictive, Warp
from manifoldgp.inference.neighbourhoods import Nearness
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, map_leaves

_ENTRIES_AT_ONCE = 2**22
_LOG_2PI = math.log(2 * math.pi)
_IMPOSSIBLE = -1e6

DECIDED_TOGETHER = 64
"""Held-out rows that are predicted from the same training rows, about, while it is decided who is trained on."""

_ROWS_SIDE_BY_SIDE = 3000
"""Rows up to which several members predict side by side, each with matrices of its own."""


@dataclass(frozen=True)
class Folds:
    """K folds: training rows (K, n, ·) with masks where folds differ in size, and held-out rows (K, m, ·).

    where: (K, m) the row of the whole data set that each held-out row is, −1 for padding. N: rows of the whole data set.
    """

    train: Data
    X: Tensor
    y: Tensor
    known_noise: Tensor | None
    where: np.ndarray
    N: int

    @property
    def count(self) -> int:
        return len(self.where)

    def for_members(self, members: int) -> Folds:
        """Each fold ``members`` times in a row; a single fold, which may have very many rows, without copies."""

        def repeated(rows: Tensor) -> Tensor:
            return rows.expand(members, *rows.shape[1:]) if self.count == 1 else rows.repeat_interleave(members, 0)

        X, y, noise, mask = self.train.X, self.train.y, self.train.known_noise, self.train.mask
        known, present = (None if part is None else repeated(part) for part in (noise, mask))
        train = Data(repeated(X), repeated(y), known, present, batched=True)
        noise = None if self.known_noise is None else repeated(self.known_noise)
        return Folds(train, repeated(self.X), repeated(self.y), noise, self.where[self._of(members)], self.N)

    def part(self, number: int, parts: int) -> Folds:
        """One of so many equal runs of folds."""
        if parts == 1:
            return self
        size = self.count // parts
        run = slice(number * size, (number + 1) * size)
        noise = None if self.known_noise is None else self.known_noise[run]
        return Folds(self.train.rows(torch.arange(self.count)[run]), self.X[run], self.y[run], noise, self.where[run], self.N)

    def learning(self, members: int, rows: int, rng: np.random.Generator) -> Data:
        """What ``members`` of every fold learn from: its training rows, or a sample of so many of them, another one for each member."""
        if self.train.y.shape[-1] <= rows:
            return self.for_members(members).train
        of, present = self._of(members), _present(self.train)
        fewest = min(rows, int(present.sum(1).min()))
        drawn = [np.sort(rng.choice(np.flatnonzero(present[k]), fewest, replace=False)) for k in of]
        return _chosen(self.train, of, np.stack(drawn))

    def neighbourhoods(self, members: int, rows: int, most: int, scale: np.ndarray, rng: np.random.Generator) -> tuple[Data, int]:
        """What ``members`` of every fold learn from where it has many rows: all of them, or about ``most``, in neighbourhoods of about ``rows``; and how many these are.

        A neighbourhood is as dense as the whole, so that it shows the noise and the short length-scales that a sample hides. Of very many rows it is as dense as twice
        ``most`` of them, so that all neighbourhoods together cover half of the space at least. Every member has other borders.
        scale (K, D): how long each input is, for every fold.
        """
        of, present = self._of(members), _present(self.train)
        given = [np.flatnonzero(present[k]) for k in of]
        some = [own if len(own) <= 2 * most else np.sort(rng.choice(own, 2 * most, replace=False)) for own in given]
        parts = max(1, min(map(len, some)) // rows)
        scaled = [(self.train.X[k].cpu().numpy()[own] / scale[k]).astype(np.float32) for k, own in zip(of, some, strict=True)]
        dealt = [[own[part] for part in _halved(X, np.arange(len(own)), parts, rng)] for X, own in zip(scaled, some, strict=True)]
        parts = max(1, min(parts, most // rows))
        dealt = [[own[i] for i in rng.permutation(len(own))[:parts]] for own in dealt]
        size = min(len(part) for own in dealt for part in own)
        index = np.stack([np.concatenate([np.sort(rng.permutation(part)[:size]) for part in own]) for own in dealt])
        whole = _chosen(self.train, of, index)
        X, y = whole.X.reshape(-1, size, whole.X.shape[-1]), whole.y.reshape(-1, size)
        noise = None if whole.known_noise is None else whole.known_noise.reshape(-1, size)
        return Data(X, y, noise, None, batched=True), parts

    def _of(self, members: int) -> np.ndarray:
        """The fold of each of so many members of every fold."""
        return np.repeat(np.arange(self.count), members)

    def with_fewer_rows(self, rows: int, most: int, scale: np.ndarray, rng: np.random.Generator) -> Folds:
        """Some held-out rows of each fold, ``most`` at most, in cells of their own, each predicted from the ``rows`` training rows that are nearest. Every cell is a fold; those of
        one fold follow each other, and are as many for each.

        scale (D,): how long each input is.
        """
        cells = [self._cells_of(k, rows, most, scale, rng) for k in range(self.count)]
        fewest = min(map(len, cells))
        chosen = [(k, held, near) for k, own in enumerate(cells) for held, near in own[:fewest]]
        test, is_test = _padded([held for _, held, _ in chosen])
        of = np.array([k for k, _, _ in chosen])
        train = _chosen(self.train, of, np.stack([near for _, _, near in chosen]))
        at = torch.as_tensor(of[:, None], device=self.X.device), torch.as_tensor(test, device=self.X.device)
        noise = None if self.known_noise is None else self.known_noise[at]
        return Folds(train, self.X[at], self.y[at], noise, np.where(is_test, self.where[of[:, None], test], -1), self.N)

    def _cells_of(
        self, fold: int, rows: int, most: int, scale: np.ndarray, rng: np.random.Generator
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of one fold: held-out rows in cells, and the training rows nearest to each of these."""
        held = np.flatnonzero(self.where[fold] >= 0)
        held = np.sort(rng.choice(held, most, replace=False)) if len(held) > most else held
        given = np.flatnonzero(_present(self.train)[fold])
        theirs, ours = ((X[fold].cpu().numpy() / scale).astype(np.float32) for X in (self.X, self.train.X))
        cells = Cells(lambda rows: theirs[held[rows]], len(held), DECIDED_TOGETHER)
        found = [held[cells.rows(cell)] for cell in range(cells.count)]
        return [(own, np.sort(given[nearest(ours[given], theirs[own], min(rows, len(given)))])) for own in found]

    def by_row(self, held_out: np.ndarray) -> np.ndarray:
        """(..., K, m) by fold to (..., n), the rows that are held out in the order of the whole data set."""
        given = self.where >= 0
        return held_out[..., given][..., np.argsort(self.where[given])]


def _present(train: Data) -> np.ndarray:
    """Which rows (R, n) of every training set take part."""
    return np.ones(train.y.shape, dtype=bool) if train.mask is None else train.mask.cpu().numpy() > 0


def _chosen(train: Data, of: np.ndarray, rows: np.ndarray) -> Data:
    """Training sets of rows (R, n), each of the fold ``of`` (R,)."""
    at = torch.as_tensor(of[:, None], device=train.y.device), torch.as_tensor(rows, device=train.y.device)
    return Data(train.X[at], train.y[at], None if train.known_noise is None else train.known_noise[at], None, batched=True)


def _halved(X: np.ndarray, rows: np.ndarray, parts: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Rows in so many parts of about equal size, by cuts across directions that are drawn."""
    if parts == 1:
        return [rows]
    along = X[rows] @ rng.standard_normal(X.shape[1]).astype(X.dtype)
    first = parts // 2
    rows = rows[np.argsort(along, kind="stable")]
    cut = len(rows) * first // parts
    return [*_halved(X, rows[:cut], first, rng), *_halved(X, rows[cut:], parts - first, rng)]


def sample_of(data: Data, count: int, rng: np.random.Generator) -> Data:
    """So many rows, in order; all where there are not more."""
    if len(data.y) <= count:
        return data
    index = torch.as_tensor(np.sort(rng.choice(len(data.y), count, replace=False)), device=data.y.device)
    return data.only(index)


def make_batch(data: Data, folds: Sequence[np.ndarray]) -> Folds:
    """The batch of all folds of ``data``; folds: held-out rows of each."""
    N, noise, device = len(data.y), data.known_noise, data.X.device
    train, train_mask = _padded([np.setdiff1d(np.arange(N), fold) for fold in folds])
    test, test_mask = _padded(folds)
    mask = None if train_mask.all() else torch.as_tensor(train_mask, dtype=torch.float64, device=device)
    return Folds(
        Data(data.X[train], data.y[train], None if noise is None else noise[train], mask, batched=True),
        data.X[test],
        data.y[test],
        None if noise is None else noise[test],
        np.where(test_mask, test, -1),
        N,
    )


def _padded(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Index arrays of different lengths as one matrix (first entry repeated where there is nothing), and where there is something."""
    longest = max(map(len, rows))
    padded = np.stack([np.pad(r, (0, longest - len(r)), constant_values=r[0]) for r in rows])
    return padded, np.arange(longest) < np.array([len(r) for r in rows])[:, None]


@dataclass(frozen=True)
class HeldOut:
    """Predictions of held-out rows by members r = 1..R, each of its own fold: z-scores and log densities, (F, R, m) for F variance factors.

    mean, variance: of z (R, m), before any factor; NaN of a member whose covariance has no factor.
    """

    score: np.ndarray
    log_density: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    @staticmethod
    def joined(parts: Sequence[HeldOut]) -> HeldOut:
        """The predictions of several lots of members, in order."""
        return HeldOut(
            np.concatenate([p.score for p in parts], 1),
            np.concatenate([p.log_density for p in parts], 1),
            np.concatenate([p.mean for p in parts]),
            np.concatenate([p.variance for p in parts]),
        )

    def split(self, parts: int) -> list[HeldOut]:
        """The predictions of so many equal lots of members."""
        lots = np.split(np.arange(len(self.mean)), parts)
        return [HeldOut(self.score[:, lot], self.log_density[:, lot], self.mean[lot], self.variance[lot]) for lot in lots]

    @torch.no_grad()
    def means(self, model: Model, values: Tree, variance_factors: Sequence[float]) -> np.ndarray:
        """Means of y (F, R, m); zero where a covariance has no factor. values: of the members, leaves (R, ...)."""
        found = np.zeros((len(variance_factors), *self.mean.shape))
        for r in np.flatnonzero(np.isfinite(self.mean).all(1)).tolist():
            own = map_leaves(lambda leaf, r=r: leaf[r : r + 1], values)
            mean, variance = (torch.from_numpy(moment[r : r + 1]) for moment in (self.mean, self.variance))
            warp, one = Warp([(model.warping, map_leaves(lambda leaf: leaf.cpu(), own.get("warping", {})), 1)]), mean.new_zeros(1)
            for f, factor in enumerate(variance_factors):
                found[f, r] = Predictive(mean, factor * variance, one, warp).component_means()[0].numpy()
        return found


def predict_held_out(
    model: Model,
    values: Tree,
    folds: Folds,
    variance_factors: Sequence[float],
    workers: Workers | None = None,
    nearness: Nearness | None = None,
) -> HeldOut:
    """Member r (values leaves (R, ...)), conditioned on folds.train[r], predicts folds.X[r]; R = folds.count. nearness: of many rows.

    A member whose covariance has no factor predicts nothing: its densities are those of an impossible event.
    """
    n, m = folds.train.X.shape[1], folds.X.shape[1]
    hands = 1 if workers is None else workers.count
    step = max(1, min(_ENTRIES_AT_ONCE // (n * (n + m)), math.ceil(folds.count / hands)))
    pieces = [np.arange(a, min(a + step, folds.count)) for a in range(0, folds.count, step)]
    factors = torch.tensor(variance_factors, dtype=torch.float64, device=folds.X.device)[:, None, None]

    def predict(piece: np.ndarray) -> HeldOut:
        return _held_out_part(model, values, folds, piece, factors, nearness)

    if workers is None:
        return HeldOut.joined([predict(piece) for piece in pieces])
    if n > _ROWS_SIDE_BY_SIDE and (
        nearness is None or n <= nearness.above
    ):  # one at a time, on all cores: memory for one is enough
        return HeldOut.joined([workers.map(predict, [piece], large=True)[0] for piece in pieces])
    return HeldOut.joined(workers.map(predict, pieces, large=False))


def _held_out_part(
    model: Model, values: Tree, folds: Folds, members: np.ndarray, factors: Tensor, nearness: Nearness | None
) -> HeldOut:
    part = torch.as_tensor(members, device=folds.X.device)
    try:
        mean, variance, z, log_slope = _predict(model, map_leaves(lambda leaf: leaf[part], values), folds, part, nearness)
    except NotPositiveDefiniteError:
        if len(members) == 1:
            shape = (len(factors), 1, folds.X.shape[1])
            unknown = np.full(shape[1:], np.nan)
            return HeldOut(np.zeros(shape), np.full(shape, _IMPOSSIBLE), unknown, unknown)
        return HeldOut.joined(
            [_held_out_part(model, values, folds, half, factors, nearness) for half in np.array_split(members, 2)]
        )
    score = (z - mean) / (factors * variance).sqrt()
    log_density = -0.5 * (score**2 + (factors * variance).log() + _LOG_2PI) + log_slope
    log_density = torch.nan_to_num(log_density, nan=_IMPOSSIBLE, neginf=_IMPOSSIBLE)
    return HeldOut(*(found.cpu().numpy() for found in (score, log_density, mean, variance)))


@torch.no_grad()
def _predict(
    model: Model, values: Tree, folds: Folds, part: Tensor, nearness: Nearness | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and variance of z at the held-out rows (r, m), their z = g(y), and log g'(y)."""
    if len(part) == 1 and folds.train.X.shape[1] > BLOCK_ROWS:
        return _predict_one(model, values, folds, int(part), nearness)
    data, X = folds.train.rows(part), folds.X[part]
    A, H = model.covariance(values, data.X)
    noise = model.noise_variance(values, data)
    A = A.clone()
    A.diagonal(dim1=-2, dim2=-1).add_(noise if data.known_noise is not None else noise.reshape(-1, 1))
    z_train, _ = model.warp(values, data.y)
    H_test = model.features_at(values, X)
    k = model.cross(values, H, H_test)
    residual = z_train - model.mean_at(values, data.X, H)
    if data.mask is not None:
        isolate_masked_rows(A, data.mask)
        k, residual = k * data.mask[:, :, None], residual * data.mask
    L, _ = cholesky_with_jitter(A, "the covariance of a fold")
    white = solve_lower(L, torch.cat([k, residual[..., None]], -1))
    V, w = white[..., :-1], white[..., -1:]
    mean = model.mean_at(values, X, H_test) + (V * w).sum(-2)
    variance = (model.prior_diagonal(values, H_test) - (V * V).sum(-2)).clamp_min(0.0)
    variance = variance + model.learned_noise(values, variance)[..., None]
    if folds.known_noise is not None:
        variance = variance + folds.known_noise[part]
    z, log_slope = model.warp(values, folds.y[part])
    return mean, variance, z, log_slope


def _predict_one(
    model: Model, values: Tree, folds: Folds, member: int, nearness: Nearness | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same of one member (values leaves (1, ...)), in memory for one factor."""
    train, mask, noise = folds.train, folds.train.mask, folds.train.known_noise
    rows = Data(
        train.X[member],
        train.y[member],
        None if noise is None else noise[member],
        None if mask is None else mask[member],
    )
    posterior = conditioned(model, values, rows, nearness)
    mean, variance = posterior.mean_and_variance(folds.X[member])
    variance = variance + posterior.noise_variance()[:, None]
    if folds.known_noise is not None:
        variance = variance + folds.known_noise[member]
    z, log_slope = model.warp(values, folds.y[member : member + 1])
    return mean, variance, z, log_slope
