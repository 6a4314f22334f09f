"""What every posterior of a batch of members offers, exact or sparse; the rest of the package asks for nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, of_members
from manifoldgp.warping import TargetWarping

CHUNK_BYTES = 2**25
"""Working memory for one chunk of predictions."""

_SMALLEST_WIDTH = 256

_FEW_ROWS = 512
"""Rows of a chunk below which members are taken one by one instead of all together."""


class Conditioned(ABC):
    """Members (a leading dimension R of all values) conditioned on data, in the model's units.

    data: rows it was conditioned on: all of them (exact, or in cells), or a few for diagnosis (sparse). points: features that predictions go
    through, (R, N, Q) or (R, J, Q). alpha: their weights in the mean, (R, N) or (R, J). jitter: (R,).
    A posterior in cells has other weights in every cell: it has no alpha, whitener or update_weights, but :meth:`whole`, which has.
    """

    in_cells: ClassVar[bool] = False
    """Whether every cell of the input space has weights of its own."""

    ENTRY: ClassVar[int] = 50
    """Operations that an entry of K(points, H*) costs, about, the features included."""

    model: Model
    values: Tree
    data: Data
    alpha: Tensor
    jitter: Tensor

    @property
    @abstractmethod
    def points(self) -> Tensor: ...

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many rows it was conditioned on."""

    @abstractmethod
    def moments(self, X: Tensor, variance: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Mean (R, n), variance (R, n) and V = L⁻¹ K(points, H*) of f at X (n, D), differentiable in X, without chunks."""

    @abstractmethod
    def covariance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (R, n) and joint covariance (R, n, n) of f at X (n, D)."""

    @abstractmethod
    def whitener(self) -> Tensor:
        """T (R, N, N) or (R, J, J), lower triangular: the data explain |T k*|² of the prior variance of f*, k* = K(points, h*)."""

    @abstractmethod
    def update_weights(self, f: Tensor, generator: torch.Generator) -> Tensor:
        """c (k, N) or (k, J) for functions f (k, N) or (k, J) drawn from the prior at ``points``, of a single member (pathwise conditioning).

        mean(x) + f(x) − k(x, points) c are draws from the posterior of f(x), for all x together.
        """

    @abstractmethod
    def left_out(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (R, n) of z = g(y) of some of ``data``'s rows (n,), each predicted from all others."""

    @abstractmethod
    def only(self, members: Tensor | slice) -> Conditioned:
        """The posterior of some members, in the given order; of a slice of them without copies."""

    @abstractmethod
    def condition(self, X: Tensor, y: Tensor, known_noise: Tensor | None = None) -> Conditioned:
        """The posterior with n more rows, parameters unchanged."""

    def whole(self) -> Conditioned:
        """The same members with one set of points, weights and factors for all of the input space: themselves, unless they are conditioned in cells."""
        return self

    def operations(self, rows: int, variance: bool = True, joint: bool = False) -> float:
        """About how many operations it takes to predict so many rows: N n (50 + N) a member, without variance N n 50, with a joint covariance N n (50 + N + n)."""
        N = self.width
        return self.members * N * rows * (self.ENTRY + (N if variance else 0) + (rows if joint else 0))

    @property
    def width(self) -> int:
        """How many rows or inducing points a new point is compared with."""
        return self.points.shape[-2]

    @property
    def features(self) -> int:
        """How many features a row has."""
        return self.points.shape[-1]

    @property
    def members(self) -> int:
        return self.jitter.shape[0]

    @property
    def device(self) -> torch.device:
        return self.jitter.device

    @property
    def warping(self) -> tuple[TargetWarping, Tree, int]:
        """The warping g of the targets, its values, and the number of members."""
        return self.model.warping, self.values.get("warping", {}), self.members

    def noise_variance(self) -> Tensor:
        """Learned noise variance (R,)."""
        return self.model.learned_noise(self.values, self.jitter).expand(self.members)

    def transform(self, X: Tensor) -> Tensor:
        """Features M(X) (R, n, Q)."""
        H = self.model.features_at(self.values, X)
        return H.expand(self.members, *H.shape[-2:])

    def mean_and_variance(self, X: Tensor, variance: bool = True) -> tuple[Tensor, Tensor]:
        """Mean (R, n) and variance (R, n) of f at X (n, D) (eqs. 11-13); in bounded memory. variance=False leaves zeros."""
        if self.members > 1 and self._rows_at_once < min(len(X), _FEW_ROWS):  # a factor is best used for many rows at a time
            each = [self.only(slice(r, r + 1)).mean_and_variance(X, variance) for r in range(self.members)]
            return torch.cat([mean for mean, _ in each]), torch.cat([var for _, var in each])
        means, variances = [], []
        with torch.no_grad():
            for chunk in X.split(self._rows_at_once) if len(X) else [X]:
                mean, var, _ = self.moments(chunk, variance)
                means.append(mean)
                variances.append(var)
        return torch.cat(means, -1), torch.cat(variances, -1)

    def prior_variance(self, X: Tensor) -> Tensor:
        """k(h, h) (R, n) at the features of X (n, D)."""
        return self.model.prior_diagonal(self.values, self.transform(X))

    def unwarped(self, z: Tensor, members: Tensor) -> Tensor:
        """g⁻¹(z) (k, n); row i of z belongs to the member members[i]."""
        warping, values, _ = self.warping
        return warping.inverse(self._values_of(members, values), z)

    def _values_of(self, members: Tensor | slice, tree: Tree) -> Tree:
        return of_members(tree, self.members, members)

    @property
    def _rows_at_once(self) -> int:
        # Features have widths of their own: with few points, chunks stop growing.
        return max(1, CHUNK_BYTES // (8 * self.members * max(self.width, _SMALLEST_WIDTH)))
