"""Many points in cells: cut in two across their longest direction again and again, so that a new point finds its cell, and a cell the points near it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_SAMPLE = 1000
"""Points by which the longest direction of a part is found, at most."""

_CANDIDATES = 10_000
"""Points among which those near a cell are looked for: in the smallest part around it that has so many."""

_ENTRIES = 2**22


@dataclass(frozen=True)
class _Part:
    """Points on both sides of a cut, or (direction None) a cell. rows: of its points."""

    rows: np.ndarray
    direction: np.ndarray | None = None
    cut: float = 0.0
    sides: tuple[_Part, ...] = ()
    number: int = 0


class Cells:
    """Points G (N, Q) in cells of about ``size`` points. A cell is known by its number, 0 to ``count`` − 1."""

    def __init__(self, G: np.ndarray, size: int) -> None:
        self.G = G.astype(np.float32)
        self._cells: list[list[_Part]] = []  # of each cell the parts around it, from all points down to itself
        self.cell_of = np.empty(
            len(G), dtype=int
        )  # of the points themselves; rounding may find a point that lies at a cut on its other side
        self._whole = self._cut(np.arange(len(G)), size, [])

    @property
    def count(self) -> int:
        return len(self._cells)

    def rows(self, cell: int) -> np.ndarray:
        """The points of a cell."""
        return self._cells[cell][-1].rows

    def near(self, cell: int, count: int) -> np.ndarray:
        """The points of a cell and those nearest to any of them, in order, ``count`` together (or all); of a cell that has more, as many that are spread over it."""
        own, enough = self.rows(cell), max(_CANDIDATES, 4 * count)
        if len(own) >= count:
            return np.sort(own)[np.linspace(0, len(own) - 1, count).astype(int)]
        around = next((part.rows for part in reversed(self._cells[cell]) if len(part.rows) >= enough), self._whole.rows)
        if len(around) <= count:
            return np.sort(around)
        others = np.setdiff1d(around, own, assume_unique=True)
        chosen = nearest(self.G[others], self.G[own], max(count - len(own), 0))
        return np.sort(np.concatenate([own, others[chosen]]))

    def of(self, G: np.ndarray) -> np.ndarray:
        """The cell (n,) that each of these points (n, Q) is in."""
        found = np.empty(len(G), dtype=int)
        waiting = [(self._whole, np.arange(len(G)))]
        G = G.astype(np.float32)
        while waiting:
            part, here = waiting.pop()
            if part.direction is None:
                found[here] = part.number
                continue
            beyond = G[here] @ part.direction > part.cut
            waiting += [
                (side, chosen) for side, chosen in zip(part.sides, (here[~beyond], here[beyond]), strict=True) if len(chosen)
            ]
        return found

    def _cut(self, rows: np.ndarray, size: int, around: list[_Part]) -> _Part:
        """Cells of about that size; points that lie at one place stay together, however many they are."""
        cells = round(len(rows) / size)
        if cells > 1:
            direction = _longest(self.G[rows[:: -(-len(rows) // _SAMPLE)]])
            along = self.G[rows] @ direction
            place = len(rows) * (cells // 2) // cells - 1
            cut = float(np.partition(along, place)[place])
            beyond = along > cut
            if beyond.any():
                whole = [*around, _Part(rows)]
                return _Part(rows, direction, cut, tuple(self._cut(side, size, whole) for side in (rows[~beyond], rows[beyond])))
        cell = _Part(rows, number=len(self._cells))
        self._cells.append([*around, cell])
        self.cell_of[rows] = cell.number
        return cell


def nearest(G: np.ndarray, points: np.ndarray, count: int) -> np.ndarray:
    """Which of G (N, Q), so many of them, are nearest to any of the points (n, Q)."""
    if count >= len(G):
        return np.arange(len(G))
    away = np.empty(len(G), dtype=np.float32)
    squares, step = (points**2).sum(1), max(1, _ENTRIES // len(points))
    for first in range(0, len(G), step):
        part = G[first : first + step]
        away[first : first + step] = (part**2).sum(1) + (squares - 2 * (part @ points.T)).min(1)
    return np.argpartition(away, count)[:count]


def _longest(G: np.ndarray) -> np.ndarray:
    """The direction (Q,) along which these points vary most."""
    _, directions = np.linalg.eigh(np.atleast_2d(np.cov(G.astype(np.float64), rowvar=False)))
    return directions[:, -1].astype(np.float32)
