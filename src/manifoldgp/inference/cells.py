"""Many points in cells: cut in two across their longest direction again and again, so that a new point finds its cell, and a cell the points near it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_SAMPLE = 1000
"""Points by which the longest direction of a part is found, at most."""

_CANDIDATES = 12
"""How many times as many points as are asked for are looked at: those of the cells whose centres are nearest."""

_ASKED = 64
"""Points of a cell, at most, from which it is measured how far others are."""

_ENTRIES = 2**22


@dataclass(frozen=True)
class _Part:
    """Points on both sides of a cut, or (direction None) those of the cell with this number."""

    number: int = 0
    direction: np.ndarray | None = None
    cut: float = 0.0
    sides: tuple[_Part, ...] = ()


class Cells:
    """Points 0 to N − 1 in cells of about ``size`` points. A cell is known by its number, 0 to ``count`` − 1.

    places: where some points (n,) lie, (n, Q); asked again where points near a cell are looked for, so that not all places have to be kept.
    """

    def __init__(self, places: Callable[[np.ndarray], np.ndarray], N: int, size: int) -> None:
        self._places = places
        self._borders, self._centres = [0], []
        order = np.arange(N, dtype=np.int32)
        self._whole = self._cut(self._at(order), order, size)
        self._order, self._middle = order, np.stack(self._centres)

    @property
    def count(self) -> int:
        return len(self._middle)

    @property
    def cell_of(self) -> np.ndarray:
        """The cell (N,) that each point was put into; rounding may find one that lies at a cut on its other side."""
        found = np.empty(len(self._order), dtype=int)
        found[self._order] = np.repeat(np.arange(self.count), np.diff(self._borders))
        return found

    def rows(self, cell: int) -> np.ndarray:
        """The points of a cell."""
        return self._order[self._borders[cell] : self._borders[cell + 1]]

    def near(self, cell: int, count: int) -> np.ndarray:
        """The points of a cell and those nearest to any of them, in order, ``count`` together (or all); of a cell that has more, as many that are spread over it."""
        own = self.rows(cell)
        if len(own) >= count:
            return np.sort(own)[np.linspace(0, len(own) - 1, count).astype(int)]
        if self.count == 1:
            return np.sort(own)
        asked = self._at(_spread(own, _ASKED))
        around = self._cells_around(cell, asked, _CANDIDATES * count)
        others = np.concatenate([self.rows(other) for other in around])
        chosen = nearest(self._at(others), asked, count - len(own))
        return np.sort(np.concatenate([own, others[chosen]]))

    def _cells_around(self, cell: int, points: np.ndarray, enough: int) -> np.ndarray:
        """The cells whose centres are nearest to any of these points of one cell, that one left out, until they have enough points together."""
        away = _distance(self._middle, points)
        away[cell] = np.inf
        order = np.argsort(away, kind="stable")[:-1]
        sizes = np.diff(self._borders)[order]
        return order[: 1 + int(np.searchsorted(np.cumsum(sizes), enough))]

    def of(self, G: np.ndarray) -> np.ndarray:
        """The cell (n,) that each of these places (n, Q) is in."""
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

    def _at(self, rows: np.ndarray) -> np.ndarray:
        return self._places(rows).astype(np.float32)

    def _cut(self, G: np.ndarray, rows: np.ndarray, size: int) -> _Part:
        """Cells of about that size of points that lie at G; ``rows`` is sorted by them in place. Points that lie at one place stay together, however many they are."""
        cells = round(len(rows) / size)
        if cells > 1:
            direction = _longest(_spread(G, _SAMPLE))
            along = G @ direction
            place = len(rows) * (cells // 2) // cells - 1
            cut = float(np.partition(along, place)[place])
            if cut == along.max():  # many points lie there: those that do not are cut off
                cut = float(along[along < cut].max(initial=-np.inf))
            beyond = along > cut
            if beyond.any() and not beyond.all():
                sides = [(G[chosen], rows[chosen]) for chosen in (~beyond, beyond)]
                here = len(sides[0][1])
                rows[:here], rows[here:] = sides[0][1], sides[1][1]
                parts = (self._cut(sides[0][0], rows[:here], size), self._cut(sides[1][0], rows[here:], size))
                return _Part(0, direction, cut, parts)
        self._borders.append(self._borders[-1] + len(rows))
        self._centres.append(G.mean(0))
        return _Part(len(self._centres) - 1)


def nearest(G: np.ndarray, points: np.ndarray, count: int) -> np.ndarray:
    """Which of G (N, Q), so many of them, are nearest to any of the points (n, Q)."""
    return np.arange(len(G)) if count >= len(G) else np.argpartition(_distance(G, points), count)[:count]


def _distance(G: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Squared distances (N,) of G (N, Q) from the nearest of the points (n, Q)."""
    away = np.empty(len(G), dtype=np.float32)
    squares, step = (points**2).sum(1), max(1, _ENTRIES // len(points))
    for first in range(0, len(G), step):
        part = G[first : first + step]
        away[first : first + step] = (part**2).sum(1) + (squares - 2 * (part @ points.T)).min(1)
    return away


def _spread(rows: np.ndarray, most: int) -> np.ndarray:
    """Every second, third, ... so that there are not more than that."""
    return rows[:: -(-len(rows) // most)]


def _longest(G: np.ndarray) -> np.ndarray:
    """The direction (Q,) along which these points vary most."""
    _, directions = np.linalg.eigh(np.atleast_2d(np.cov(G.astype(np.float64), rowvar=False)))
    return directions[:, -1].astype(np.float32)
