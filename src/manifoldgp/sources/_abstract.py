"""What every source of rows offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldgp.errors import InputError


@dataclass(frozen=True)
class Block:
    """Some rows, in the user's units: X (n, D), Y (n, O), known noise variances (n, O) or None, and their numbers (n,) in the source."""

    X: np.ndarray
    Y: np.ndarray
    noise: np.ndarray | None
    number: np.ndarray

    def __getitem__(self, index: Any) -> Block:
        noise = None if self.noise is None else self.noise[index]
        return Block(self.X[index], self.Y[index], noise, self.number[index])


class RowSource(ABC):
    """Rows numbered 0 to total − 1. names, target_names: of the columns, where they have names. flat: y is one column, not a table.
    has_noise: the noise of the rows is known.

    Rows without a target (NaN) are left out; a row without an input is refused.
    """

    total: int
    inputs: int
    outputs: int
    names: Sequence[str] | None = None
    target_names: Sequence[str] | None = None
    flat: bool = True
    has_noise: bool = False

    @abstractmethod
    def read(self, first: int, last: int, size: int) -> Iterator[Block]:
        """Rows first <= number < last as they are, at most ``size`` at a time."""

    def blocks(self, first: int, last: int, size: int) -> Iterator[Block]:
        """The same rows, checked, those without a target left out."""
        for block in self.read(first, last, size):
            yield checked(block)

    def take(self, numbers: np.ndarray, first: int, last: int, size: int) -> Block:
        """The rows with these sorted numbers that lie between first and last, in memory."""
        wanted = numbers[(numbers >= first) & (numbers < last)]
        noise = None
        found = [Block(np.empty((0, self.inputs)), np.empty((0, self.outputs)), noise, np.empty(0, dtype=np.int64))]
        for block in self.blocks(first, last, size) if len(wanted) else ():
            found.append(block[np.isin(block.number, wanted, assume_unique=True)])
        return joined(found)


def checked(block: Block) -> Block:
    """The block without the rows whose target is missing; an input that is not finite is refused, by row."""
    missing = np.isnan(block.Y).any(1)
    block = block[~missing] if missing.any() else block
    bad = ~np.isfinite(block.X).all(1) | ~np.isfinite(block.Y).all(1)
    if bad.any():
        row = int(block.number[bad][0])
        raise InputError(
            f"Row {row:,} (counted from 0) has an input or a target that is not a finite number. Fill it in or leave the row out."
        )
    return block


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks one below the other."""
    with_rows = [b for b in blocks if len(b.number)] or list(blocks[:1])
    noise = None if with_rows[0].noise is None else np.concatenate([b.noise for b in with_rows if b.noise is not None])
    X, Y = np.concatenate([b.X for b in with_rows]), np.concatenate([b.Y for b in with_rows])
    return Block(X, Y, noise, np.concatenate([b.number for b in with_rows]))
