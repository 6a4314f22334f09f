"""The posterior of many rows, cell by cell: what the rows near a point say about it.

The rows of a member are cut in two in its feature space, again and again, until cells of some hundred rows are left. A point is predicted by the exact posterior given the rows of its cell and those
nearest to them, some hundred in all: with a stationary kernel, rows far away add next to nothing to what those say. So no N x N matrix exists, and factors are computed where points
are. Between cells the prediction may jump, by a small part of its standard deviation.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.linalg import cholesky_with_jitter, factor_in_place, solve_lower
from manifoldgp._system.threads import Workers, training_threads
from manifoldgp.inference.cells import Cells, nearest
from manifoldgp.inference.exact_posterior import Posterior, condition, precision
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.inference.sparse_posterior import SparsePosterior, condition_sparse
from manifoldgp.kernels.stationary import Stationary
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, leaves, map_leaves, nest

Result = TypeVar("Result")

KEPT_BYTES = 2**28
"""Memory for the factors that the members of a posterior have computed last, shared by them evenly; one each at least."""

KEPT_FEATURES = 2**26
"""Memory for the features of all rows of a posterior's members; where they take more, they are computed where they are needed, cell by cell."""

FIRST_FEATURES = 4
"""Rows whose features a file keeps, so that its reader sees whether they are computed as they were."""

_COLUMNS = 128

_SIDE_BY_SIDE = 2**28
"""Operations with factors that are there from which on cells are dealt to the cores; one of them takes about 10 ms for as many."""

_AT_ONCE = 2**16
"""Rows whose features are computed at once."""

JOINT_ROWS = 4000
"""Rows that several points are predicted from together, at most."""

MOST_NEAR = 10_000
"""Rows near a point, at most: a factor of more of them takes too much memory."""

TOLD_CELLS = 40
"""Cells by which the NLML of all rows is told, at most."""

WHOLE_ROWS = 5000
"""Rows up to which one exact posterior takes the place of all cells where something needs one; beyond, inducing points do."""

WHOLE_POINTS = 1500

MOST_THROUGH = 100_000
"""Rows that inducing points stand for, at most: some hundred points know no more by more of them."""

_IN_CELLS = "A posterior in cells has other weights in every cell. Ask its whole()."


@dataclass(frozen=True)
class Nearness:
    """How many rows a cell has, and how many are near a point of it. Beyond ``above`` rows members are conditioned in cells."""

    above: int = 3000
    cell: int = 200
    near: int = 800


@dataclass(frozen=True)
class _Factor:
    """Of the rows near a cell: which they are, their features H (n, Q), the lower factor L (n, n) of K + noise, and (K + noise)⁻¹ (z − m)."""

    rows: Tensor
    H: Tensor
    L: Tensor
    alpha: Tensor


class _Kept:
    """The factors of one member that were computed last, as many as there is room for (bytes), and the largest jitter of any."""

    def __init__(self, room: float, jitter: float = 0.0) -> None:
        self.factors: OrderedDict[int, _Factor] = OrderedDict()
        self.jitter, self._room, self._bytes, self._lock = jitter, room, 0, threading.Lock()

    def __reduce__(self) -> tuple[type[_Kept], tuple[float, float]]:
        return _Kept, (self._room, self.jitter)  # factors are computed again where a copy needs them

    def get(self, cell: int) -> _Factor | None:
        with self._lock:
            found = self.factors.get(cell)
            if found is not None:
                self.factors.move_to_end(cell)
            return found

    def put(self, cell: int, factor: _Factor, jitter: float) -> None:
        with self._lock:
            self.jitter = max(self.jitter, jitter)
            if cell not in self.factors:
                self.factors[cell] = factor
                self._bytes += 8 * factor.L.numel()
            while self._bytes > self._room and len(self.factors) > 1:
                self._bytes -= 8 * self.factors.popitem(last=False)[1].L.numel()


class Neighbourhoods:
    """One member's rows in cells, with the factors of those that were asked for last. values: without batch. z (N,). members: that share the room for what is kept."""

    def __init__(self, model: Model, values: Tree, data: Data, z: Tensor, nearness: Nearness, members: int) -> None:
        self.model, self.values, self.data, self.z, self.nearness = model, values, data, z, nearness
        self.kept = _Kept(KEPT_BYTES / members)
        Q = model.features_at(values, data.X[:1]).shape[-1]
        self._keep = 8 * members * len(z) * Q <= KEPT_FEATURES

    @cached_property
    def cells(self) -> Cells:
        return Cells(self._places, len(self.z), self.nearness.cell)

    @cached_property
    def _features(self) -> Tensor:
        """Of all rows (N, Q)."""
        return self._computed(self.data.X)

    @torch.no_grad()
    def _computed(self, X: Tensor) -> Tensor:
        return torch.cat([self.model.features_at(self.values, part) for part in X.split(_AT_ONCE)])

    def features(self, rows: Tensor) -> Tensor:
        """Of some rows (n,): (n, Q)."""
        return self._features[rows] if self._keep else self._computed(self.data.X[rows])

    def _places(self, rows: np.ndarray) -> np.ndarray:
        """Where rows (n,) lie, in length-scales: (n, Q)."""
        parts = [rows[first : first + _AT_ONCE] for first in range(0, len(rows), _AT_ONCE)]
        return np.concatenate([self._scaled(self.features(self._index(part))).astype(np.float32) for part in parts])

    def _index(self, rows: np.ndarray) -> Tensor:
        return torch.as_tensor(rows, dtype=torch.long, device=self.z.device)

    def _scaled(self, H: Tensor) -> np.ndarray:
        """Features (n, Q) in length-scales: those that the kernel sees."""
        dims, scale = self.model.kernel.dims, self.values.get("kernel", {}).get("lengthscale")
        H = H.detach() if dims is None else H.detach()[..., list(dims)]
        return (H if scale is None else H / scale).cpu().numpy()

    def split(self, H: Tensor) -> list[tuple[int, Tensor]]:
        """The cells in which points H (n, Q) lie, and which points lie in each."""
        return self._by_cell(self.cells.of(self._scaled(H)))

    def split_rows(self, rows: Tensor) -> list[tuple[int, Tensor]]:
        """The cells that training rows (n,) were put into, and which of them are in each."""
        return self._by_cell(self.cells.cell_of[rows.cpu().numpy()])

    def _by_cell(self, where: np.ndarray) -> list[tuple[int, Tensor]]:
        order = np.argsort(where, kind="stable")
        borders = np.flatnonzero(np.diff(where[order])) + 1
        parts = [part for part in np.split(order, borders) if len(part)]
        return [(int(where[part[0]]), self._index(part)) for part in parts]

    def factor(self, cell: int) -> _Factor:
        """Of the rows near a cell."""
        found = self.kept.get(cell)
        if found is None:
            rows = self._index(self.cells.near(cell, self.nearness.near))
            found, jitter = self._factored(rows)
            self.kept.put(cell, found, jitter)
        return found

    @torch.no_grad()
    def _factored(self, rows: Tensor) -> tuple[_Factor, float]:
        H, jitter = self.features(rows), 0.0
        L = self._noisy(self._lower_part(H), rows)[None]
        if bool(factor_in_place(L)):
            L, needed = cholesky_with_jitter(self._noisy(self.model.matrix(self.values, H), rows)[None])
            jitter = float(needed)
        residual = self.z[rows] - self.model.mean_at(self.values, self.data.X[rows], H)
        L = L[0].tril_()
        alpha = torch.linalg.solve_triangular(L.mT, solve_lower(L, residual[:, None]), upper=True)[:, 0]
        return _Factor(rows, H, L, alpha), jitter

    def _lower_part(self, H: Tensor) -> Tensor:
        """K (n, n) of features H (n, Q) without what is above its diagonal, column by column as caches have room; the rest is anything."""
        K = H.new_empty(len(H), len(H))
        for first in range(0, len(H), _COLUMNS):
            K[first:, first : first + _COLUMNS] = self.model.cross(self.values, H[first:], H[first : first + _COLUMNS])
        K.diagonal().copy_(self.model.prior_diagonal(self.values, H))
        return K

    def _noisy(self, K: Tensor, rows: Tensor) -> Tensor:
        """K + noise of these rows, in place."""
        noise = self.model.learned_noise(self.values, self.z)
        K.diagonal().add_(noise if self.data.known_noise is None else noise + self.data.known_noise[rows])
        return K

    def moments(self, cell: int, X: Tensor, H: Tensor, variance: bool) -> Tensor:
        """Mean and variance (2, n) of f at points X (n, D) of one cell, with features H (n, Q); differentiable in both."""
        own = self.factor(cell)
        k = self.model.cross(self.values, own.H, H)
        mean = self.model.mean_at(self.values, X, H) + own.alpha @ k
        if not variance:
            return torch.stack([mean, torch.zeros_like(mean)])
        V = solve_lower(own.L, k)
        return torch.stack([mean, (self.model.prior_diagonal(self.values, H) - (V * V).sum(0)).clamp_min(0.0)])

    @torch.no_grad()
    def left_out(self, cell: int, rows: Tensor) -> Tensor:
        """Mean and variance (2, n) of z of training rows (n,) of one cell, each predicted from the others near it."""
        own = self.factor(cell)
        place = torch.searchsorted(own.rows, rows).clamp_max(len(own.rows) - 1)
        p = precision(own.L, place)
        found = torch.stack([self.z[rows] - own.alpha[place] / p, 1.0 / p])
        unseen = own.rows[place] != rows  # of a cell with more rows than are near
        if bool(unseen.any()):
            away, known = rows[unseen], self.data.known_noise
            mean, variance = self.moments(cell, self.data.X[away], self.features(away), variance=True)
            noise = self.model.learned_noise(self.values, self.z) + (0.0 if known is None else known[away])
            found[:, unseen] = torch.stack([mean, variance + noise])
        return found

    def near(self, H: Tensor) -> Tensor:
        """Rows near any of the points H (n, Q): those of their cells; of more than JOINT_ROWS the nearest."""
        found = [self.cells.near(cell, self.nearness.near) for cell, _ in self.split(H)]
        rows = self._index(np.unique(np.concatenate(found)))
        if len(rows) <= JOINT_ROWS:
            return rows
        chosen = nearest(self._scaled(self.features(rows)), self._scaled(H), JOINT_ROWS)
        return rows[self._index(np.sort(chosen))]

    @torch.no_grad()
    def nlml(self, cell: int) -> float:
        """−log p(z) of the rows of one cell, whatever the others say; of a cell with more rows than are near, by so many of them."""
        own_rows = self.cells.rows(cell)
        chosen = own_rows if len(own_rows) <= self.nearness.near else self.cells.near(cell, self.nearness.near)
        rows = self._index(chosen)
        own, _ = self._factored(rows)
        residual = self.z[rows] - self.model.mean_at(self.values, self.data.X[rows], own.H)
        total = float(0.5 * residual @ own.alpha + own.L.diagonal().log().sum()) + 0.5 * len(rows) * math.log(2 * math.pi)
        return len(own_rows) / len(rows) * total


@dataclass(frozen=True)
class LocalPosterior(Conditioned):
    """Members conditioned on data cell by cell. z: (R, N)."""

    model: Model
    values: Tree
    data: Data
    z: Tensor
    nearness: Nearness
    each: tuple[Neighbourhoods, ...]

    in_cells = True

    @property
    def points(self) -> Tensor:
        """The features of all rows (R, N, Q); computed where they are not kept."""
        return torch.stack([own.features(torch.arange(self.rows, device=self.device)) for own in self.each])

    @property
    def first_features(self) -> Tensor:
        """Of the first rows (R, 4, Q)."""
        return torch.stack([own.features(torch.arange(min(FIRST_FEATURES, self.rows), device=self.device)) for own in self.each])

    @property
    def features(self) -> int:
        return self.first_features.shape[-1]

    @property
    def rows(self) -> int:
        return self.z.shape[-1]

    @property
    def width(self) -> int:
        return min(self.nearness.near, self.rows)

    @property
    def members(self) -> int:
        return len(self.each)

    @property
    def jitter(self) -> Tensor:  # type: ignore[override]
        """The largest (R,) that any factor has needed so far."""
        return torch.tensor([own.kept.jitter for own in self.each], dtype=self.z.dtype, device=self.z.device)

    @property
    def device(self) -> torch.device:
        return self.z.device

    def operations(self, rows: int, variance: bool = True, joint: bool = False) -> float:
        near = self.width
        visited = min(rows, 1 + self.rows // self.nearness.cell)
        return self.members * (near * rows * (self.ENTRY + (near if variance else 0)) + visited * near**3 / 3)

    def moments(self, X: Tensor, variance: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Mean (R, n) and variance (R, n), differentiable in X (n, D); what is third for other posteriors differs from cell to cell, and is left empty."""
        H = self.transform(X)
        split = self._split(H)
        with nullcontext() if self._has_factors(split) else training_threads():
            found = [self.each[r].moments(cell, X[points], H[r][points], variance) for r, cell, points in split]
        mean, left = self._gathered(split, found, len(X))
        return mean, left, H.new_zeros(self.members, 0, len(X))

    def mean_and_variance(self, X: Tensor, variance: bool = True) -> tuple[Tensor, Tensor]:
        @torch.no_grad()
        def predict(r: int, cell: int, points: Tensor) -> Tensor:
            return self.each[r].moments(cell, X[points], H[r][points], variance)

        with torch.no_grad():
            H = self.transform(X)
            split = self._split(H)
            return self._gathered(split, self._side_by_side(predict, split), len(X))

    def _split(self, H: Tensor) -> list[tuple[int, int, Tensor]]:
        """Points H (R, n, Q) by member and cell."""
        return [(r, cell, points) for r, own in enumerate(self.each) for cell, points in own.split(H[r])]

    def _side_by_side(self, function: Callable[..., Result], split: Sequence[tuple[int, int, Tensor]]) -> list[Result]:
        """function(member, cell, points) for all cells, side by side on the cores where there is much to compute, factors above all; each with one thread of BLAS, which is
        quicker for them."""
        if self._has_factors(split) and self.width**2 * sum(len(points) for _, _, points in split) < _SIDE_BY_SIDE:
            return [function(*part) for part in split]
        with training_threads() as workers:
            return workers.map(lambda part: function(*part), split, large=False)

    def _has_factors(self, split: Sequence[tuple[int, int, Tensor]]) -> bool:
        """Whether all of these cells were asked for lately."""
        return all(cell in self.each[r].kept.factors for r, cell, _ in split)

    def _gathered(self, split: Sequence[tuple[int, int, Tensor]], found: Sequence[Tensor], n: int) -> tuple[Tensor, Tensor]:
        """What was found (2, ·) for each member and cell, as two tensors (R, n)."""
        if not n:
            return self.z[:, :0], self.z[:, :0]
        back = torch.argsort(torch.cat([r * n + points for r, _, points in split]))
        first, second = torch.cat(list(found), 1)[:, back]
        return first.reshape(self.members, n), second.reshape(self.members, n)

    def covariance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (R, n) and joint covariance (R, n, n) of f at X (n, D), given the rows near any of these points."""
        H = self.transform(X)
        found = [self._exact(r, own.near(H[r])).covariance(X) for r, own in enumerate(self.each)]
        return torch.cat([mean for mean, _ in found]), torch.cat([C for _, C in found])

    def _exact(self, member: int, rows: Tensor) -> Posterior:
        """One member conditioned on some of the rows."""
        return condition(self.model, self._values_of(slice(member, member + 1), self.values), self.data.only(rows))

    def left_out(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        split = [(r, cell, which) for r, own in enumerate(self.each) for cell, which in own.split_rows(rows)]
        found = self._side_by_side(lambda r, cell, which: self.each[r].left_out(cell, rows[which]), split)
        return self._gathered(split, found, len(rows))

    @property
    def alpha(self) -> Tensor:  # type: ignore[override]
        raise NotImplementedError(_IN_CELLS)

    def whitener(self) -> Tensor:
        raise NotImplementedError(_IN_CELLS)

    def update_weights(self, f: Tensor, generator: torch.Generator) -> Tensor:
        raise NotImplementedError(_IN_CELLS)

    def whole(self) -> Posterior | SparsePosterior:
        if self.rows <= WHOLE_ROWS:
            return condition(self.model, self.values, self.data)
        return through_points(self.model, self.values, self.data, WHOLE_POINTS)

    def only(self, members: Tensor | slice) -> LocalPosterior:
        chosen = np.arange(self.members)[members.cpu().numpy() if isinstance(members, Tensor) else members]
        each = tuple(self.each[r] for r in np.atleast_1d(chosen))
        return replace(self, values=self._values_of(members, self.values), z=self.z[members], each=each)

    def nlml(self) -> Tensor:
        """−log p(y | values) (R,), rows of different cells taken as independent; where there are many cells, by as many as TOLD_CELLS of them."""
        _, log_slope = self.model.warp(self.values, self.data.y)
        with training_threads() as workers:
            total = [self._nlml_of(own, workers) for own in self.each]
        return torch.tensor(total, dtype=self.z.dtype, device=self.z.device) - log_slope.expand_as(self.z).sum(-1)

    def _nlml_of(self, own: Neighbourhoods, workers: Workers) -> float:
        cells = np.unique(np.linspace(0, own.cells.count - 1, TOLD_CELLS).astype(int))
        rows = sum(len(own.cells.rows(cell)) for cell in cells)
        return self.rows / rows * sum(workers.map(own.nlml, cells.tolist(), large=False))

    def condition(self, X: Tensor, y: Tensor, known_noise: Tensor | None = None) -> LocalPosterior:
        """The posterior with n more rows: cells are made anew."""
        return (
            condition_locally(self.model, self.values, self.data.joined_by(X, y, known_noise), self.nearness) if len(X) else self
        )


@torch.no_grad()
def condition_locally(model: Model, values: Tree, data: Data, nearness: Nearness) -> LocalPosterior:
    """Members with these values (leaves (R, *shape)) conditioned on data that they all share, cell by cell."""
    data = data.without_masked()
    members = max((leaf.shape[0] for _, leaf in leaves(values)), default=1)
    z = model.warp(values, data.y)[0].expand(members, len(data.y))
    own = [map_leaves(lambda leaf, r=r: leaf.expand(members, *leaf.shape[1:])[r], values) for r in range(members)]
    each = tuple(Neighbourhoods(model, own[r], data, z[r], nearness, members) for r in range(members))
    return LocalPosterior(model, values, data, z, nearness, each)


def conditioned(model: Model, values: Tree, data: Data, nearness: Nearness | None) -> Conditioned:
    """Members conditioned on data: exactly; or, of many rows, cell by cell where the kernel is stationary, else (beyond WHOLE_ROWS) through inducing points."""
    if nearness is None or len(data.y) <= nearness.above:
        return condition(model, values, data)
    if isinstance(model.kernel, Stationary):
        return condition_locally(model, values, data, nearness)
    if len(data.y) <= WHOLE_ROWS:
        return condition(model, values, data)
    return through_points(model, values, data.without_masked(), nearness.near)


def through_points(model: Model, values: Tree, data: Data, points: int) -> SparsePosterior:
    """Members conditioned on data through so many inducing points, the features of rows that are spread over all of them; of very many rows,
    on every second, third, ... of them. All rows are kept, as other members keep them."""
    with torch.no_grad():
        chosen = torch.linspace(0, len(data.y) - 1, min(points, len(data.y)), device=data.X.device).round().long()
        members = max((leaf.shape[0] for _, leaf in leaves(values)), default=1)
        H = model.features_at(values, data.X[chosen])
        named = dict(leaves(values)) | {"inducing.Z": H.expand(members, *H.shape[-2:]).contiguous()}
        some = data.only(slice(None, None, -(-len(data.y) // MOST_THROUGH)))
        return replace(condition_sparse(model, nest(named), some), data=data)
