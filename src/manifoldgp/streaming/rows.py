"""Rows in the model's units, chunk by chunk, as every pass over the data asks for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from manifoldgp.model import Data
from manifoldgp.streaming.ranks import ALONE, Ranks

CHUNK_ROWS = 2000


class ModelRows(ABC):
    """Rows of one target. Each process sees its own part in ``chunks``; ``N`` and ``sample`` are the same for all of them."""

    N: int
    ranks: Ranks

    @abstractmethod
    def chunks(self) -> Iterator[Data]:
        """This process's rows, once through."""

    @abstractmethod
    def sample(self, count: int, seed: int) -> Data:
        """Up to ``count`` random rows of all processes, in memory, the same for the same seed however many processes there are."""


@dataclass(frozen=True)
class MemoryRows(ModelRows):
    """Rows that fit into memory; every process holds all of them and works on its own part."""

    data: Data
    ranks: Ranks = ALONE
    size: int = CHUNK_ROWS

    @property
    def N(self) -> int:  # type: ignore[override]
        return len(self.data.y)

    def chunks(self) -> Iterator[Data]:
        first, last = (self.N * (self.ranks.rank + i) // self.ranks.count for i in (0, 1))
        # Equal chunks in pairs: with two worker threads nobody waits for a short one.
        count = max(1, 2 * -(-(last - first) // (2 * self.size))) if last - first > self.size // 4 else 1
        edges = [first + (last - first) * i // count for i in range(count + 1)]
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            if stop > start:
                yield self.only(slice(start, stop))

    def only(self, index: slice | torch.Tensor) -> Data:
        """Some of the rows."""
        known = self.data.known_noise
        return Data(self.data.X[index], self.data.y[index], None if known is None else known[index])

    def sample(self, count: int, seed: int) -> Data:
        return self.data if count >= self.N else self.only(torch.from_numpy(sampled(self.N, count, seed)).to(self.data.X.device))


def sampled(N: int, count: int, seed: int) -> np.ndarray:
    """``count`` different rows of N, in order.

    >>> sampled(10, 3, seed=0)
    array([2, 6, 8])
    """
    rng = np.random.default_rng(seed)
    if count >= N:
        return np.arange(N)
    if 20 * count > N:
        return np.sort(rng.permutation(N)[:count])
    drawn = np.unique(rng.integers(N, size=2 * count))  # N is large: hardly any row comes twice
    return np.sort(rng.permutation(drawn)[:count])
