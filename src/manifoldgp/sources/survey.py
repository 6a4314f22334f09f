"""One pass over a source before training: how many rows have a target, and mean and spread of every column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldgp.scaling import Standardizer
from manifoldgp.sources._abstract import RowSource


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
