"""The kernel's factor: lower triangles of K and of its slope g from scaled features Z, and dZ from dNLML/dK.

    K_ij = k(|z_i − z_j|²),   dk/dr² = −c g / 2                             (see the profiles of the kernels)
    dZ   = c [(M ∘ g) Z − diag((M ∘ g) 1) Z],   M = 2 dNLML/dK = A⁻¹ − alpha alphaᵀ

One product of thin matrices gives s = scale |z_i − z_j|² whole:

    [−2 scale Z, scale |z|², 1] [Z, 1, scale |z|²]ᵀ

so that no pass over K adds norms; the logarithm of the variance rides along for the squared exponential, whose K is then one exponential of
the product. A row that does not take part gets a norm so large that its covariance with every other row is exactly zero.

Only lower triangles exist: blocks of rows, each as wide as its last row needs, worked on while they are in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from manifoldgp._system import lapack
from manifoldgp.kernels import Kernel, Matern32, Matern52, SquaredExponential
from manifoldgp.kernels._profiles import MATERN32, MATERN52, SQUARED_EXPONENTIAL, Profile
from manifoldgp.kernels._radial import FAR, NEAR
from manifoldgp.training.closed_form_arrays import Block, Workspace

_ABSENT = 1e6
"""|scale| |z|² of a row that does not take part: exp(−sqrt(1e6)) is zero."""


def profile_of(kernel: Kernel) -> Profile | None:
    """The profile of a kernel that has a closed form here, or None."""
    if kernel.dims is not None or type(kernel) not in (SquaredExponential, Matern32, Matern52):
        return None
    return kernel.profile  # type: ignore[attr-defined]


class _Lot(NamedTuple):
    """Members that are worked on together, and the views it takes: [−2 scale Z, ...] by rows of each block, [Z, 1, ...] by its columns."""

    members: slice
    blocks: list[Block]
    left: list[np.ndarray]
    right: list[np.ndarray]
    log_variance: np.ndarray
    Z1: list[int]
    product: list[int]


class Pairs:
    """All pairs of rows of R members, computed in a workspace a lot at a time.

    Z: (R, Q, N), to be written before :meth:`prepare`. log_variance: (R,), zero for no variance. dZ: (R, Q, N), the result.
    """

    def __init__(self, workspace: Workspace, R: int, Q: int, profile: Profile) -> None:
        N = workspace.A.shape[-1]
        self.profile, self._workspace = profile, workspace
        self._left, self._right = np.ones((R, Q + 2, N)), np.ones((R, Q + 2, N))
        self.Z, self._scaled_Z, self._ones = self._right[:, :Q], self._left[:, :Q], self._right[:, Q : Q + 1]
        self._square, self.dZ = np.empty((R, Q, N)), np.empty((R, Q, N))
        self.log_variance, self._norm = np.zeros(R), np.empty((R, N))
        self._product = np.empty((R, Q + 1, N))
        self._evaluate = _PROFILES[profile.scale]
        self._lots = [self._lot(first, min(first + workspace.lot, R)) for first in range(0, R, workspace.lot)]

    def _lot(self, first: int, stop: int) -> _Lot:
        members, blocks = slice(first, stop), self._workspace.blocks(stop - first)
        left = [self._left[members, :, b.start : b.stop].mT for b in blocks]
        right = [self._right[members, :, : b.stop] for b in blocks]
        Z1, product = ([matrix.ctypes.data for matrix in side[members]] for side in (self._right, self._product))
        return _Lot(members, blocks, left, right, self.log_variance[members, None, None], Z1, product)

    def prepare(self, absent: np.ndarray | None) -> np.ndarray | None:
        """Take Z as it is now; absent (R, N) marks rows that do not take part. Returns which members (R,) lose too many digits here, if any."""
        far = None
        if self._norms() > NEAR:  # only differences matter: around their centre, vectors are shorter and fewer digits are lost
            self.Z -= self.Z.mean(-1, keepdims=True)
            if self._norms() > FAR:
                far = self._norm.max(-1) > FAR
        np.multiply(self._norm, self.profile.scale, out=self._norm)
        if absent is not None:
            self._norm[absent] = np.copysign(_ABSENT, self.profile.scale)
        self._right[:, -1] = self._norm
        np.multiply(self.Z, -2.0 * self.profile.scale, out=self._scaled_Z)
        if self.profile is SQUARED_EXPONENTIAL:
            self._norm += self.log_variance[:, None]
        self._left[:, -2] = self._norm
        return far

    def _norms(self) -> float:
        """Overwrite the squared norms (R, N); returns the largest."""
        np.multiply(self.Z, self.Z, out=self._square)
        return float(np.add.reduce(self._square, 1, out=self._norm).max())

    def lots(self) -> list[slice]:
        return [lot.members for lot in self._lots]

    def fill(self, number: int) -> None:
        """Write K to A and g to G, lower triangles of a lot's members; A's diagonal is left to the caller."""
        lot = self._lots[number]
        for block, left, right in zip(lot.blocks, lot.left, lot.right, strict=True):
            np.matmul(left, right, out=block.G if self.profile is SQUARED_EXPONENTIAL else block.A)
            self._evaluate(block, lot.log_variance)

    def pull(self, number: int) -> None:
        """Write dNLML/dZ of a lot's members from M in A's lower triangles, which are used up."""
        lot = self._lots[number]
        for block in lot.blocks:
            np.multiply(block.A, block.G, out=block.A)
        for square, Z1, product in zip(self._workspace.squares, lot.Z1, lot.product, strict=False):
            lapack.symm(square, Z1, product, self._product.shape[1])

    def finish(self) -> None:
        """Complete dZ (R, Q, N) once all lots are through."""
        np.multiply(self._product[:, -1:], self.Z, out=self.dZ)
        np.subtract(self._product[:, :-1], self.dZ, out=self.dZ)
        c = self.profile.steepness * self.profile.scale
        if c != 1.0:
            self.dZ *= c


def _squared_exponential(block: Block, log_variance: np.ndarray) -> None:
    torch.exp(block.tensor, out=block.tensor)
    np.copyto(block.A, block.G)


def _matern32(block: Block, log_variance: np.ndarray) -> None:
    a = np.sqrt(np.maximum(block.A, 0.0, out=block.A), out=block.A)
    np.subtract(log_variance, a, out=block.G)
    torch.exp(block.tensor, out=block.tensor)  # variance exp(−a)
    a += 1.0
    a *= block.G


def _matern52(block: Block, log_variance: np.ndarray) -> None:
    s = np.maximum(block.A, 0.0, out=block.A)
    a = np.sqrt(s, out=block.G)
    decay = np.subtract(log_variance, a)
    torch.from_numpy(decay).exp_()
    a += 1.0
    a *= decay
    decay *= 1.0 / 3.0
    s *= decay
    s += a


_PROFILES: dict[float, Callable[[Block, np.ndarray], None]] = {
    SQUARED_EXPONENTIAL.scale: _squared_exponential,
    MATERN32.scale: _matern32,
    MATERN52.scale: _matern52,
}
