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

import numpy as np
import torch

from manifoldgp import lapack
from manifoldgp.closed_form.workspace import Block, Workspace
from manifoldgp.kernels import Kernel, Matern32, Matern52, SquaredExponential
from manifoldgp.kernels._profiles import MATERN32, MATERN52, SQUARED_EXPONENTIAL, Profile
from manifoldgp.kernels._radial import FAR, NEAR

_ABSENT = 1e6
"""|scale| |z|² of a row that does not take part: exp(−sqrt(1e6)) is zero."""


def profile_of(kernel: Kernel) -> Profile | None:
    """The profile of a kernel that has a closed form here, or None."""
    if kernel.dims is not None or type(kernel) not in (SquaredExponential, Matern32, Matern52):
        return None
    return kernel.profile  # type: ignore[attr-defined]


class Pairs:
    """What all pairs of rows are computed from: Z, its norms, and the logarithms of the variances, for R members.

    Z: (R, Q, N). log_variance: (R,) or None for 0. absent: (R, N), true for rows that do not take part, or None.
    ``far`` (R,) marks members whose squared norms lose too many digits here.
    """

    def __init__(self, Z: np.ndarray, log_variance: np.ndarray | None, absent: np.ndarray | None, profile: Profile) -> None:
        R, Q, N = Z.shape
        self.profile, self.log_variance = profile, log_variance
        self.right = np.empty((R, Q + 2, N))  # [Z; 1; scale |z|²]
        self.right[:, Q] = 1.0
        self.Z = self.right[:, :Q]
        self.Z[...] = Z
        square = self._square()
        self.far = None
        if square.max(initial=0.0) > NEAR:  # only differences matter: around their centre, vectors are shorter and fewer digits are lost
            self.Z -= self.Z.mean(-1, keepdims=True)
            square = self._square()
            far = square.max(-1, initial=0.0) > FAR
            self.far = far if far.any() else None
        half = np.multiply(square, profile.scale, out=square)
        if absent is not None:
            half[absent] = np.copysign(_ABSENT, profile.scale)
        self.right[:, Q + 1] = half
        self.left = np.empty_like(self.right)
        np.multiply(self.Z, -2.0 * profile.scale, out=self.left[:, :Q])
        if log_variance is not None and profile is SQUARED_EXPONENTIAL:
            half += log_variance[:, None]
        self.left[:, Q], self.left[:, Q + 1] = half, 1.0

    def _square(self) -> np.ndarray:
        return np.einsum("rqn,rqn->rn", self.Z, self.Z)

    def fill(self, workspace: Workspace, members: slice) -> None:
        """Write K to A and g to G, lower triangles of the members; A's diagonal is left to the caller."""
        evaluate = _PROFILES[self.profile.scale]
        left, right = self.left[members].mT, self.right[members]
        log_variance = None if self.log_variance is None else self.log_variance[members, None, None]
        for block in workspace.blocks(len(right)):
            product = block.G if self.profile is SQUARED_EXPONENTIAL else block.A
            np.matmul(left[:, block.start : block.stop], right[:, :, : block.stop], out=product)
            evaluate(block, log_variance)

    def pull(self, workspace: Workspace, members: slice, dZ: np.ndarray) -> None:
        """Write dNLML/dZ (m, Q, N) of the members from M in A's lower triangles, which are used up."""
        right = self.right[members]
        count, Q, N = len(right), right.shape[1] - 2, right.shape[2]
        for block in workspace.blocks(count):
            np.multiply(block.A, block.G, out=block.A)
        P = np.empty((count, Q + 1, N))
        for A, Z1, product in zip(workspace.A, right, P, strict=False):
            lapack.symm(A, Z1[: Q + 1], product)
        np.multiply(P[:, Q:], right[:, :Q], out=dZ)
        np.subtract(P[:, :Q], dZ, out=dZ)
        c = self.profile.steepness * self.profile.scale
        if c != 1.0:
            dZ *= c


def _squared_exponential(block: Block, log_variance: np.ndarray | None) -> None:
    torch.exp(block.tensor_G, out=block.tensor_G)
    np.copyto(block.A, block.G)


def _matern32(block: Block, log_variance: np.ndarray | None) -> None:
    a = np.sqrt(np.maximum(block.A, 0.0, out=block.A), out=block.A)
    _decay(a, log_variance, block.G)
    torch.exp(block.tensor_G, out=block.tensor_G)
    a += 1.0
    a *= block.G


def _matern52(block: Block, log_variance: np.ndarray | None) -> None:
    s = np.maximum(block.A, 0.0, out=block.A)
    a = np.sqrt(s, out=block.G)
    decay = _decay(a, log_variance, np.empty_like(a))
    torch.from_numpy(decay).exp_()
    a += 1.0
    a *= decay
    decay *= 1.0 / 3.0
    s *= decay
    s += a


def _decay(a: np.ndarray, log_variance: np.ndarray | None, out: np.ndarray) -> np.ndarray:
    """log(variance) − a, whose exponential is variance exp(−a)."""
    return np.negative(a, out=out) if log_variance is None else np.subtract(log_variance, a, out=out)


_PROFILES: dict[float, Callable[[Block, np.ndarray | None], None]] = {
    SQUARED_EXPONENTIAL.scale: _squared_exponential,
    MATERN32.scale: _matern32,
    MATERN52.scale: _matern52,
}
