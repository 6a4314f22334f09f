"""The kernel's factor: lower triangles of K and of its slope g from scaled features T, and dT from dNLML/dK.

    K_ij = k(|t_i − t_j|²),   dk/dr² = −c g / 2                             (see the profiles of the kernels)
    dT   = c [(2W ∘ g) T − diag((2W ∘ g) 1) T],   2W = 2 dNLML/dK = A⁻¹ − alpha alphaᵀ

One product of thin matrices gives s = scale |t_i − t_j|² whole:

    [−2 scale T, scale |t|², 1] [T, 1, scale |t|²]ᵀ

so that no pass over K adds norms; the logarithm of the variance rides along for the squared exponential, whose K is then one exponential of
the product. The profiles themselves are those that autograd evaluates: PyTorch computes on NumPy's memory.
A row that does not take part gets a norm so large that its covariance with every other row is exactly zero.

Only lower triangles exist: blocks of rows, each as wide as its last row needs, worked on while they are in the processor's cache.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system import lapack
from manifoldgp._system.lapack import Square
from manifoldgp.kernels._profiles import Profile
from manifoldgp.kernels._radial import FAR, NEAR
from manifoldgp.parameter_arrays import Values

_ABSENT = 1e6
"""|scale| |t|² of a row that does not take part: exp(−sqrt(1e6)) is zero."""


_LOT_BYTES = 2**20
_BLOCK_ENTRIES = 2**15
_BLOCK_ROWS = 48


class Block(NamedTuple):
    """Rows [start, stop) of m matrices, up to column ``stop``: A and G (m, stop − start, stop), and both on the same memory in PyTorch."""

    start: int
    stop: int
    A: np.ndarray
    G: np.ndarray
    tensors: tuple[Tensor, Tensor]


class Workspace:
    """A and G (lot, N, N): covariance, factor, inverse and 2W in the first, the kernel's slope in the second.

    A lot is as many members as fit into about a megabyte, at least one, and no more than there are at ``most``.
    """

    def __init__(self, N: int, most: int) -> None:
        self.largest_lot = max(1, _LOT_BYTES // (16 * N * N))
        self.lot = min(most, self.largest_lot)
        self.A, self.G = np.empty((self.lot, N, N)), np.empty((self.lot, N, N))
        self.diagonal = self.A.reshape(self.lot, N * N)[:, :: N + 1]
        self.squares = [Square(matrix) for matrix in self.A]

    def blocks(self, members: int) -> list[Block]:
        """The lower triangles of the first ``members`` matrices, block by block."""
        N = self.A.shape[-1]
        count = -(-N // max(_BLOCK_ROWS, _BLOCK_ENTRIES // (members * N)))
        edges = [round(i * N / count) for i in range(count + 1)]
        blocks = []
        for start, stop in pairwise(edges):
            A, G = self.A[:members, start:stop, :stop], self.G[:members, start:stop, :stop]
            blocks.append(Block(start, stop, A, G, (torch.from_numpy(A), torch.from_numpy(G))))
        return blocks


class _Lot(NamedTuple):
    """Members that are worked on together, and the views it takes: [−2 scale T, ...] by rows of each block, [T, 1, ...] by its columns."""

    members: slice
    blocks: list[Block]
    left: list[np.ndarray]
    right: list[np.ndarray]
    variance: Tensor
    T1: list[int]
    product: list[int]


class Pairs(Protocol):
    """A kernel's closed form at work: the covariances of all pairs of rows of R members, computed in a workspace a lot at a time, and what is pulled back.

    trained: whether the kernel needs :meth:`pull` for parameters of its own, whatever the features need.
    """

    trained: bool

    def prepare(self, H: np.ndarray, absent: np.ndarray | None) -> np.ndarray | None:
        """Take the values and the features H (R, Q, N) or (Q, N) as they are now; absent (R, N) marks rows that do not take part.

        Returns which members (R,) lose too many digits here, if any.
        """
        ...

    def diagonal(self) -> np.ndarray | float:
        """k(h_i, h_i), that broadcasts with (R, N)."""
        ...

    def lots(self) -> list[slice]:
        """Members that are worked on together."""
        ...

    def fill(self, number: int) -> None:
        """Write K to the lower triangles of the workspace's A for a lot's members; A's diagonal is left to the caller."""
        ...

    def pull(self, number: int) -> None:
        """Collect what the gradient needs from 2W in A's lower triangles of a lot's members, which may be used up."""
        ...

    def write_gradients(self, total: np.ndarray, features: bool) -> np.ndarray | None:
        """Write the gradients of the kernel's parameters once all lots are through; returns dNLML/dH (R, Q, N) if ``features`` are trained.

        total (R,): Σ dNLML/dK ∘ K, which the evidence knows.
        """
        ...


class RadialPairs:
    """The pairs of a kernel variance · k0(|h − h'|² / lengthscale²)."""

    def __init__(self, workspace: Workspace, values: Values, R: int, Q: int, profile: Profile) -> None:
        N = workspace.A.shape[-1]
        self._lengthscale, self._variance = values.find("kernel.lengthscale"), values.find("kernel.variance")
        self.trained = self._lengthscale is not None
        self.profile, self._workspace = profile, workspace
        self._left, self._right = np.ones((R, Q + 2, N)), np.ones((R, Q + 2, N))
        self.T, self._scaled_T, self._ones = self._right[:, :Q], self._left[:, :Q], self._right[:, Q : Q + 1]
        self._square, self._dT = np.empty((R, Q, N)), np.empty((R, Q, N))
        self._factor, self._norm = np.ones(R), np.empty((R, N))
        self._product = np.empty((R, Q + 1, N))
        self._exponential = profile.slope == "k"  # then k = exp(s), and the variance can be added to s as its logarithm
        self._lots = [self._lot(first, min(first + workspace.lot, R)) for first in range(0, R, workspace.lot)]

    def _lot(self, first: int, stop: int) -> _Lot:
        members, blocks = slice(first, stop), self._workspace.blocks(stop - first)
        left = [self._left[members, :, b.start : b.stop].mT for b in blocks]
        right = [self._right[members, :, : b.stop] for b in blocks]
        T1, product = ([matrix.ctypes.data for matrix in side[members]] for side in (self._right, self._product))
        return _Lot(members, blocks, left, right, torch.from_numpy(self._factor[members, None, None]), T1, product)

    def prepare(self, H: np.ndarray, absent: np.ndarray | None) -> np.ndarray | None:
        if self._lengthscale is None:
            self.T[...] = H
        else:
            np.divide(H, self._lengthscale[0][:, :, None], out=self.T)
        if self._variance is not None:
            self._factor[...] = self._variance[0]
        far = None
        if self._norms() > NEAR:  # only differences matter: around their centre, vectors are shorter and fewer digits are lost
            self.T -= self.T.mean(-1, keepdims=True)
            if self._norms() > FAR:
                far = self._norm.max(-1) > FAR
        np.multiply(self._norm, self.profile.scale, out=self._norm)
        if absent is not None:
            self._norm[absent] = np.copysign(_ABSENT, self.profile.scale)
        self._right[:, -1] = self._norm
        np.multiply(self.T, -2.0 * self.profile.scale, out=self._scaled_T)
        if self._exponential:
            self._norm += np.log(self._factor)[:, None]
        self._left[:, -2] = self._norm
        return far

    def _norms(self) -> float:
        """Overwrite the squared norms (R, N); returns the largest."""
        np.multiply(self.T, self.T, out=self._square)
        return float(np.add.reduce(self._square, 1, out=self._norm).max())

    def diagonal(self) -> np.ndarray | float:
        return 1.0 if self._variance is None else self._variance[0][:, None]

    def lots(self) -> list[slice]:
        return [lot.members for lot in self._lots]

    def fill(self, number: int) -> None:
        """Write K to A and g to G."""
        lot = self._lots[number]
        for block, left, right in zip(lot.blocks, lot.left, lot.right, strict=True):
            if self._exponential:  # g = k: one matrix, twice
                np.matmul(left, right, out=block.G)
                self.profile.evaluate(block.tensors[1], None, None)
                np.copyto(block.A, block.G)
            else:
                np.matmul(left, right, out=block.A)
                self.profile.evaluate(*block.tensors, lot.variance)

    def pull(self, number: int) -> None:
        """Use up 2W for the products that make dNLML/dT."""
        lot = self._lots[number]
        for block in lot.blocks:
            np.multiply(block.A, block.G, out=block.A)
        for square, T1, product in zip(self._workspace.squares, lot.T1, lot.product, strict=False):
            lapack.symm(square, T1, product, self._product.shape[1])

    def write_gradients(self, total: np.ndarray, features: bool) -> np.ndarray | None:
        if self._variance is not None:
            np.divide(total, self._variance[0], out=self._variance[1])
        if not (self.trained or features):
            return None
        dT = self._gradient()
        if self._lengthscale is not None:
            lengthscale, gradient = self._lengthscale
            per_feature = np.vecdot(dT, self.T)
            if lengthscale.shape[1] < per_feature.shape[1]:
                per_feature = per_feature.sum(-1, keepdims=True)
            np.divide(per_feature, -lengthscale, out=gradient)
            if features:
                dT /= lengthscale[:, :, None]
        return dT

    def _gradient(self) -> np.ndarray:
        """dT (R, Q, N) from the products of all lots."""
        np.multiply(self._product[:, -1:], self.T, out=self._dT)
        np.subtract(self._product[:, :-1], self._dT, out=self._dT)
        c = self.profile.steepness * self.profile.scale
        if c != 1.0:
            self._dT *= c
        return self._dT
