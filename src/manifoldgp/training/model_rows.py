"""Rows in the model's units, chunk by chunk, as every pass over the data asks for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from manifoldgp.data.scaling import Standardizer
from manifoldgp.data.sources import Block, RowSource, arrays_of, block_of, joined
from manifoldgp.model import Data
from manifoldgp.training.processes import ALONE, Ranks, slots_of

CHUNK_ROWS = 2000


class ModelRows(ABC):
    """The rows of one target, dealt to slots (see :func:`slots_of`). Each process reads the chunks of its own slots; samples and single rows are the same in all.

    count: rows with a target. total: numbers that rows can have, 0 to total − 1.
    """

    ranks: Ranks

    @property
    @abstractmethod
    def count(self) -> int: ...

    @property
    @abstractmethod
    def total(self) -> int: ...

    @abstractmethod
    def chunks(self, slot: int) -> Iterator[Data]:
        """The rows of one slot, once through."""

    @property
    def slots(self) -> list[int]:
        """The slots that this process works on."""
        return slots_of(self.total, self.ranks)[1]

    def span(self, slot: int) -> tuple[int, int]:
        """First and last (exclusive) number of a slot's rows."""
        slots = slots_of(self.total, self.ranks)[0]
        return self.total * slot // slots, self.total * (slot + 1) // slots

    def my_span(self) -> tuple[int, int]:
        """First and last (exclusive) number of this process's rows."""
        return (self.span(self.slots[0])[0], self.span(self.slots[-1])[1]) if self.slots else (0, 0)

    @abstractmethod
    def take(self, numbers: np.ndarray) -> Data:
        """The rows with these sorted numbers, of all processes, in memory; those without a target are left out."""

    @abstractmethod
    def without(self, numbers: np.ndarray) -> ModelRows:
        """All rows but these."""

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
    def count(self) -> int:
        return len(self.data.y)

    @property
    def total(self) -> int:
        return len(self.data.y)

    def chunks(self, slot: int) -> Iterator[Data]:
        first, last = self.span(slot)
        pieces = -(-(last - first) // self.size)
        for start, stop in pairwise(first + (last - first) * i // max(pieces, 1) for i in range(pieces + 1)):
            yield self.data.only(slice(start, stop))

    def take(self, numbers: np.ndarray) -> Data:
        return self.data.only(torch.from_numpy(numbers).to(self.data.X.device))

    def without(self, numbers: np.ndarray) -> MemoryRows:
        kept = np.setdiff1d(np.arange(self.count), numbers, assume_unique=True)
        return MemoryRows(self.take(kept), self.ranks, self.size)

    def sample(self, count: int, seed: int) -> Data:
        return self.data if count >= self.count else self.take(sampled(self.count, count, seed))


@dataclass(frozen=True)
class StreamedRows(ModelRows):
    """Rows of a source, read again for every pass. rows: how many have a target. excluded: sorted numbers that are left out."""

    source: RowSource
    x_scaler: Standardizer
    y_scaler: Standardizer
    rows: int
    output: int = 0
    device: str = "cpu"
    ranks: Ranks = ALONE
    size: int = CHUNK_ROWS
    excluded: np.ndarray | None = None

    @property
    def count(self) -> int:
        return self.rows

    @property
    def total(self) -> int:
        return self.source.total

    def chunks(self, slot: int) -> Iterator[Data]:
        for block in self.source.blocks(*self.span(slot), self.size):
            kept = block if self.excluded is None else block[~np.isin(block.number, self.excluded, assume_unique=True)]
            if len(kept.number):
                yield self._data(kept)

    def take(self, numbers: np.ndarray) -> Data:
        mine = self.source.take(numbers, *self.my_span(), 32 * self.size)
        return self._data(joined([block_of(arrays) for _, arrays in self.ranks.gather(arrays=arrays_of(mine))]))

    def without(self, numbers: np.ndarray) -> StreamedRows:
        excluded = numbers if self.excluded is None else np.union1d(self.excluded, numbers)
        missing = len(self.take(numbers).y)
        return replace(self, rows=self.rows - missing, excluded=excluded)

    def sample(self, count: int, seed: int) -> Data:
        numbers = sampled(self.total, count, seed)
        return self.take(numbers if self.excluded is None else np.setdiff1d(numbers, self.excluded, assume_unique=True))

    def _data(self, block: Block) -> Data:
        X = torch.as_tensor(self.x_scaler.apply(block.X), device=self.device)
        Y = self.y_scaler.apply(block.Y)[:, self.output]
        noise = None
        if block.noise is not None:
            noise = torch.as_tensor(block.noise[:, self.output] / self.y_scaler.scale[self.output] ** 2, device=self.device)
        return Data(X, torch.as_tensor(np.ascontiguousarray(Y), device=self.device), noise)


def sampled(N: int, count: int, seed: int) -> np.ndarray:
    """``count`` different rows of N, in order.

    >>> sampled(10, 3, seed=0)
    array([2, 4, 6])
    """
    rng = np.random.default_rng(seed)
    if count >= N:
        return np.arange(N)
    if 20 * count > N:
        return np.sort(rng.permutation(N)[:count])
    drawn = np.unique(rng.integers(N, size=2 * count))  # N is large: hardly any row comes twice
    return np.sort(rng.permutation(drawn)[:count])
