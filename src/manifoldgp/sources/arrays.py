"""Rows of NumPy arrays. A memory-mapped array (np.load(path, mmap_mode="r"), np.memmap) is read chunk by chunk and never copied as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from manifoldgp.errors import InputError
from manifoldgp.sources._abstract import Block, RowSource, checked


class ArrayRows(RowSource):
    """X (N, D), y (N,) or (N, O), and known noise standard deviations shaped like y, any of them memory-mapped.

    >>> rows = ArrayRows(np.zeros((5, 2)), np.arange(5.0))
    >>> [len(block.number) for block in rows.blocks(0, 5, size=2)]
    [2, 2, 1]
    """

    def __init__(self, X: Any, y: Any, noise_std: Any = None) -> None:
        if getattr(X, "ndim", 0) != 2 or getattr(y, "ndim", 0) not in (1, 2) or len(X) != len(y):
            raise InputError(
                f"X must have shape (N, D) and y (N,) or (N, outputs); got {getattr(X, 'shape', X)} and {getattr(y, 'shape', y)}."
            )
        if noise_std is not None and np.shape(noise_std) != np.shape(y):
            raise InputError(f"noise_std must be shaped like y, {np.shape(y)}; got {np.shape(noise_std)}.")
        self.X, self.y, self.noise_std = X, y, noise_std
        self.total, self.inputs = X.shape
        self.outputs = 1 if y.ndim == 1 else y.shape[1]
        self.flat, self.has_noise = y.ndim == 1, noise_std is not None

    def read(self, first: int, last: int, size: int) -> Iterator[Block]:
        for start in range(first, last, size):
            yield self._rows(np.arange(start, min(start + size, last)), slice(start, min(start + size, last)))

    def take(self, numbers: np.ndarray, first: int, last: int, size: int) -> Block:
        wanted = numbers[(numbers >= first) & (numbers < last)]
        return checked(self._rows(wanted, wanted))

    def _rows(self, number: np.ndarray, index: Any) -> Block:
        X = np.asarray(self.X[index], dtype=np.float64)
        Y = np.asarray(self.y[index], dtype=np.float64).reshape(len(X), self.outputs)
        noise = None
        if self.noise_std is not None:
            noise = np.asarray(self.noise_std[index], dtype=np.float64).reshape(len(X), self.outputs) ** 2
        return Block(X, Y, noise, number)
