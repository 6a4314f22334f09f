"""The two N x N matrices a member needs, for a lot of members at a time, allocated once and used by one evaluation after another."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manifoldgp.lapack import Square

_LOT_BYTES = 2**20
_BLOCK_ENTRIES = 2**15
_BLOCK_ROWS = 48


class Block(NamedTuple):
    """Rows [start, stop) of m matrices, up to column ``stop``: A and G (m, stop − start, stop), and G on the same memory in PyTorch."""

    start: int
    stop: int
    A: np.ndarray
    G: np.ndarray
    tensor: Tensor


class Workspace:
    """A and G (lot, N, N): covariance, factor, inverse and M in the first, the kernel's slope in the second.

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
            blocks.append(Block(start, stop, A, G, torch.from_numpy(G)))
        return blocks
