"""The rows of one member in cells of its feature space, and what the rows near a cell say about the points in it."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.linalg import cholesky_with_jitter, factor_in_place, solve_lower
from manifoldgp.inference.cells import Cells, nearest
from manifoldgp.inference.exact_posterior import precision
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree

KEPT_BYTES = 2**28
"""Memory for the factors that the members of a posterior have computed last, shared by them evenly; one each at least."""

KEPT_FEATURES = 2**26
"""Memory for the features of all rows of a posterior's members; where they take more, they are computed where they are needed, cell by cell."""

_COLUMNS = 128

_AT_ONCE = 2**16
"""Rows whose features are computed at once."""

JOINT_ROWS = 4000
"""Rows that several points are predicted from together, at most."""

MOST_NEAR = 10_000
"""Rows near a point, at most: a factor of more of them takes too much memory."""


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
