"""The factor of additive kernels: lower triangles of K from scaled features T, and gradients from dNLML/dK.

The polynomials of a block of pairs are computed twice, for K and again for its gradient, and never kept: beside the workspace there is nothing of
size N × N. Distances come from differences, so that no digits are lost far from the origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from manifoldgp.kernels._polynomials import BLOCK, AdditiveForm, Room, Side, Stack, fill_pairs, polynomials, pull_pairs
from manifoldgp.kernels.additive import counts
from manifoldgp.parameter_arrays import Values
from manifoldgp.training.closed_form_kernel import Workspace


class AdditivePairs:
    """The pairs of a kernel Σ_r variance_r · mean of products over all sets of r features. T and a: (R, Q, N), as tensors on the same memory (Q, R, N)."""

    trained = True

    def __init__(self, workspace: Workspace, values: Values, R: int, Q: int, form: AdditiveForm) -> None:
        N, orders = workspace.A.shape[-1], form.order_of(Q)
        self._form, self._workspace = form, workspace
        self._lengthscale, self._variance = values["kernel.lengthscale"], values["kernel.variance"]
        self._lowest = orders + 1 - self._variance[0].shape[1]
        self._sets = counts(Q, orders)[self._lowest :]
        self._H = np.empty((R, Q, N))
        self._T, self._dT = np.empty((R, Q, N)), np.empty((R, Q, N))
        self._a = self._da = np.empty((R, Q, N if form.orthogonal else 0))
        if form.orthogonal:
            self._da = np.empty((R, Q, N))
        self._weights, self._of_weights = np.zeros((R, orders + 1)), np.empty((R, orders + 1))
        self._absent: np.ndarray | None = None
        self._room = Room()

    def prepare(self, H: np.ndarray, absent: np.ndarray | None) -> np.ndarray | None:
        lengthscale = self._lengthscale[0][:, :, None]
        self._H[...] = H
        np.divide(H, lengthscale, out=self._T)
        np.divide(self._variance[0], self._sets, out=self._weights[:, self._lowest :])
        if self._form.orthogonal:
            self._a[...] = orthogonal_means(self._H, lengthscale)
        self._absent = None if absent is None else np.broadcast_to(absent, self._T[:, 0].shape)
        for gradient in (self._dT, self._da, self._of_weights):
            gradient[...] = 0.0
        return None

    def diagonal(self) -> np.ndarray | float:
        if not self._form.orthogonal:
            return self._variance[0].sum(-1, keepdims=True)
        z = torch.from_numpy(1.0 - self._a**2).transpose(0, 1)
        e = self._room.take("diagonal", self._weights.shape[1] - 1, *z.shape[1:])
        polynomials(Stack(z, z.unbind()), e)
        return self._weights[:, :1] + np.einsum("rmn,mr->mn", e.all.numpy(), self._weights[:, 1:])

    def lots(self) -> list[slice]:
        R, lot = len(self._T), self._workspace.lot
        return [slice(first, min(first + lot, R)) for first in range(0, R, lot)]

    def fill(self, number: int) -> None:
        members, side, weights = self._lot(number)
        for i, j in self._blocks(members):
            A = self._workspace.A[: members.stop - members.start, i, j]
            K = torch.from_numpy(A)
            fill_pairs(self._form, weights, side.rows(i), side.rows(j), K, self._room)
            if self._absent is not None:
                A[self._absent[members, i]] = 0.0
                A.swapaxes(-1, -2)[self._absent[members, j]] = 0.0

    def pull(self, number: int) -> None:
        members, side, weights = self._lot(number)
        dT, da = self._sides(members, self._dT, self._da)
        of_weights = torch.from_numpy(self._of_weights[members])
        for i, j in self._blocks(members):
            V = self._block_of_slopes(members, i, j)
            pulled = pull_pairs(self._form, weights, side.rows(i), side.rows(j), V, self._room)
            for found, rows in ((pulled.one, i), (pulled.other, j)):
                dT[..., rows] += found.T
                if found.a is not None:
                    da[..., rows] += found.a
            of_weights += pulled.weights.mT

    def write_gradients(self, total: np.ndarray, features: bool) -> np.ndarray | None:
        lengthscale, gradient = self._lengthscale
        np.divide(self._of_weights[:, self._lowest :], self._sets, out=self._variance[1])
        np.divide(np.vecdot(self._dT, self._T), -lengthscale, out=gradient)
        dH = np.divide(self._dT, lengthscale[:, :, None], out=self._dT) if features else None
        if self._form.orthogonal:
            self._da *= self._a  # dNLML/d log a
            b = lengthscale**2 + 1
            gradient += self._da.sum(-1) / (lengthscale * (b + 1) * b)
            gradient += np.vecdot(self._da, self._H**2) * lengthscale / b**2
            if dH is not None:
                dH -= self._da * self._H / b[:, :, None]
        return dH

    def _lot(self, number: int) -> tuple[slice, Side, Sequence[Tensor]]:
        """The members of a lot, their rows, and the weights (m, 1, 1) of every order."""
        members = self.lots()[number]
        T, a = self._sides(members, self._T, self._a)
        weights = torch.from_numpy(self._weights[members])[..., None, None].unbind(1)
        return members, Side(T, a if self._form.orthogonal else None), weights

    @staticmethod
    def _sides(members: slice, *arrays: np.ndarray) -> list[Tensor]:
        return [torch.from_numpy(array[members]).transpose(0, 1) for array in arrays]

    def _blocks(self, members: slice) -> list[tuple[slice, slice]]:
        """Rows of the lower triangle with the columns that they need."""
        N = self._T.shape[-1]
        count = -(-N // max(_FEWEST_ROWS, BLOCK // ((members.stop - members.start) * N)))
        edges = [round(k * N / count) for k in range(count + 1)]
        return [(slice(start, stop), slice(0, stop)) for start, stop in pairwise(edges)]

    def _block_of_slopes(self, members: slice, i: slice, j: slice) -> Tensor:
        """dNLML/dK of the pairs of a block that lie in the lower triangle, the diagonal by half: it is there from both sides."""
        A = self._workspace.A[: members.stop - members.start, i, j]
        V = self._room.take("V", 1, *A.shape).each[0]
        V.copy_(torch.from_numpy(A))
        square = V[..., i]
        square.tril_()
        diagonal = square.diagonal(dim1=-2, dim2=-1)
        diagonal.mul_(0.5)
        if self._absent is not None:
            diagonal.numpy()[self._absent[members, i]] = 0.0
        return V


_FEWEST_ROWS = 4


def orthogonal_means(H: np.ndarray, lengthscale: np.ndarray) -> np.ndarray:
    """a(h) of :class:`manifoldgp.kernels.OrthogonalAdditive`."""
    b = lengthscale**2 + 1
    return np.exp(0.25 * np.log1p(-(b**-2.0)) - H * H / (2 * b))
