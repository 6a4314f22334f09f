"""The posterior of many rows, cell by cell: what the rows near a point say about it.

The rows of a member are cut in two in its feature space, again and again, until cells of some hundred rows are left. A point is predicted by the exact posterior given the rows of its cell and those
nearest to them, some hundred in all: with a stationary kernel, rows far away add next to nothing to what those say. So no N x N matrix exists, and factors are computed where points
are. Between cells the prediction may jump, by a small part of its standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.threads import Workers, training_threads
from manifoldgp.inference.exact_posterior import Posterior, condition
from manifoldgp.inference.neighbourhoods import Nearness, Neighbourhoods
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.inference.sparse_posterior import SparsePosterior, through_points
from manifoldgp.kernels.stationary import Stationary
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, members_in, of_members

Result = TypeVar("Result")

FIRST_FEATURES = 4
"""Rows whose features a file keeps, so that its reader sees whether they are computed as they were."""

_SIDE_BY_SIDE = 2**28
"""Operations with factors that are there from which on cells are dealt to the cores; one of them takes about 10 ms for as many."""

TOLD_CELLS = 40
"""Cells by which the NLML of all rows is told, at most."""

WHOLE_ROWS = 5000
"""Rows up to which one exact posterior takes the place of all cells where something needs one; beyond, inducing points do."""

WHOLE_POINTS = 1500

_IN_CELLS = "A posterior in cells has other weights in every cell. Ask its whole()."


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
    members = members_in(values)
    z = model.warp(values, data.y)[0].expand(members, len(data.y))
    each = tuple(Neighbourhoods(model, of_members(values, members, r), data, z[r], nearness, members) for r in range(members))
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
