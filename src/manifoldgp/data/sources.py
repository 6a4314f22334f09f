"""Rows that need not fit into memory: what every source of rows offers, rows in arrays, and a survey of their columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from manifoldgp._system.real_numbers import as_meant
from manifoldgp.data.scaling import Standardizer
from manifoldgp.errors import InputError


@dataclass(frozen=True)
class Block:
    """Some rows, in the user's units: X (n, D), Y (n, O), known noise variances (n, O) or None, and their numbers (n,) in the source."""

    X: np.ndarray
    Y: np.ndarray
    noise: np.ndarray | None
    number: np.ndarray

    def __getitem__(self, index: np.ndarray | slice) -> Block:
        noise = None if self.noise is None else self.noise[index]
        return Block(self.X[index], self.Y[index], noise, self.number[index])


def arrays_of(block: Block) -> list[np.ndarray]:
    """A block as arrays alone, to be sent to other processes; :func:`block_of` is the way back."""
    return [block.X, block.Y, block.number, *([] if block.noise is None else [block.noise])]


def block_of(arrays: Sequence[np.ndarray]) -> Block:
    """The block that :func:`arrays_of` took apart."""
    X, Y, number, *noise = arrays
    return Block(X, Y, noise[0] if noise else None, number)


class RowSource(ABC):
    """Rows numbered 0 to total − 1, read a block at a time.

    Rows without a target (NaN) are left out; a row without an input is refused.

    Attributes
    ----------
    total
        How many rows there are, with and without a target.
    inputs, outputs
        How many columns X and Y have.
    names, target_names
        Names of these columns, where they have names.
    flat
        Whether y is one column (N,), not a table (N, O).
    has_noise
        Whether the noise of the rows is known.
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
    missing = np.asarray(np.isnan(block.Y).any(1))
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


class ArrayRows(RowSource):
    """X (N, D), y (N,) or (N, O), and known noise standard deviations shaped like y, any of them memory-mapped.

    Examples
    --------
    >>> rows = ArrayRows(np.zeros((5, 2)), np.arange(5.0))
    >>> [len(block.number) for block in rows.blocks(0, 5, size=2)]
    [2, 2, 1]
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, noise_std: np.ndarray | None = None) -> None:
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

    def _rows(self, number: np.ndarray, index: np.ndarray | slice) -> Block:
        X = np.asarray(as_meant(self.X[index], "X"), dtype=np.float64)
        Y = np.asarray(as_meant(self.y[index], "y", mask_is_missing=True), dtype=np.float64).reshape(len(X), self.outputs)
        noise = None
        if self.noise_std is not None:
            noise = np.asarray(as_meant(self.noise_std[index], "noise_std"), dtype=np.float64).reshape(len(X), self.outputs) ** 2
        return Block(X, Y, noise, number)


@dataclass(frozen=True)
class Survey:
    """rows: those with a target. left_out: those without. mean, squares: of the columns [X, Y] (D + O,), Σ (v − mean)²."""

    rows: int
    left_out: int
    mean: np.ndarray
    squares: np.ndarray

    def merged(self, other: Survey) -> Survey:
        """The survey of both sets of rows (Chan, Golub and LeVeque 1983)."""
        if not self.rows or not other.rows:
            kept = self if self.rows else other
            return Survey(kept.rows, self.left_out + other.left_out, kept.mean, kept.squares)
        rows = self.rows + other.rows
        gap = other.mean - self.mean
        mean = self.mean + gap * (other.rows / rows)
        squares = self.squares + other.squares + gap**2 * (self.rows * other.rows / rows)
        return Survey(rows, self.left_out + other.left_out, mean, squares)

    def standardizers(self, inputs: int, of_x: bool = True, of_y: bool = True) -> tuple[Standardizer, Standardizer]:
        """Of X and of Y; a constant column keeps scale 1."""
        spread = np.sqrt(self.squares / max(self.rows, 1))
        spread = np.where(spread <= 1e-12 * np.abs(self.mean), 0.0, spread)
        scale = np.where(spread == 0.0, 1.0, spread)
        pairs = []
        for part, active in ((slice(None, inputs), of_x), (slice(inputs, None), of_y)):
            pairs.append(
                Standardizer(self.mean[part].copy(), scale[part].copy())
                if active
                else Standardizer(np.zeros_like(self.mean[part]), np.ones_like(scale[part]))
            )
        return pairs[0], pairs[1]


def survey(source: RowSource, first: int, last: int, size: int = 65_536) -> Survey:
    """The survey of the rows first <= number < last."""
    width = source.inputs + source.outputs
    total, seen = Survey(0, 0, np.zeros(width), np.zeros(width)), 0
    for block in source.blocks(first, last, size):
        seen += len(block.number)
        if not len(block.number):
            continue
        table = np.concatenate([block.X, block.Y], 1)
        mean = table.mean(0)
        total = total.merged(Survey(len(table), 0, mean, ((table - mean) ** 2).sum(0)))
    return Survey(total.rows, last - first - seen, total.mean, total.squares)
