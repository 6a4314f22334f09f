"""Whether intervals hold, by the PIT values P(Y_i <= y_i) of rows that a model has not seen: on the average over all of them, and where predictions are low or high.

What is told is more than chance explains, rows that err together counting for fewer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manifoldgp.chance.differences import paired, units_of
from manifoldgp.chance.laws import binomial_tails, student_limit

FEWEST_ROWS = 20
"""Held-out rows from which on it is said that intervals hold, and what features add: of fewer, intervals of 95 % should miss less than one."""

_LEVELS = (0.5, 0.9, 0.95)

_OFF = {0.95: 0.03, 0.5: 0.1}
"""By how much the share of rows that intervals of a level hold must differ from it to be told; the level that counts most comes first."""

_UNEVEN = {0.95: 0.05, 0.5: 0.2}
"""The same for the difference between the third of the rows with the lowest predictions and that with the highest."""

_UNEVEN_ROWS = 60
"""Rows from which on a third of them says whether intervals hold there."""

_UNLIKELY = 0.01
"""What happens to so many calibrated models is no chance."""


@dataclass(frozen=True)
class OffLevel:
    """Intervals of a level that hold another share of the rows."""

    level: float
    share: float

    @property
    def word(self) -> str:
        return "too narrow" if self.share < self.level else "too wide"


@dataclass(frozen=True)
class Uneven:
    """The shares that intervals of a level hold of the third of the rows with the lowest predictions, and of the third with the highest."""

    level: float
    low: float
    high: float

    @property
    def grows(self) -> bool:
        """Whether errors grow with the target, where they do not shrink."""
        return self.low > self.high


@dataclass(frozen=True)
class IntervalCheck:
    """What rows that a model has not seen say of its intervals, found once and told wherever it is asked for.

    rows: how many. off, uneven: where intervals do not hold, on the average or in a third of the predictions; None where they do, as far as these rows tell.
    """

    rows: int
    off: OffLevel | None
    uneven: Uneven | None

    @classmethod
    def of(cls, pit: np.ndarray, mean: np.ndarray | None = None, together: np.ndarray | None = None) -> IntervalCheck:
        """pit, mean: PIT and predicted mean (n,) of the rows. together: (n,) labels of rows that are alike."""
        return cls(len(pit), off_level(pit, together), uneven_intervals(pit, mean, together))

    def remarks(self) -> list[str]:
        """Sentences where intervals do not hold.

        >>> IntervalCheck.of(np.r_[np.linspace(0.03, 0.97, 18), 0.0, 0.0]).remarks()  # 18 of 20 rows
        []
        """
        said, off, uneven = [], self.off, self.uneven
        if off is not None:
            said.append(
                f"The {100 * off.level:g} % intervals hold {100 * off.share:.1f} % of {self.rows:,} held-out rows: they are {off.word}."
            )
        if uneven is not None:
            said.append(
                f"The {100 * uneven.level:g} % intervals hold {100 * uneven.low:.0f} % of the third of the held-out rows with the lowest predictions and {100 * uneven.high:.0f} % "
                f"of the third with the highest: errors {'grow' if uneven.grows else 'shrink'} with the target more than the intervals do."
            )
        return said


def off_level(pit: np.ndarray, together: np.ndarray | None = None) -> OffLevel | None:
    """The first level whose intervals hold another share of the rows than they say, by more than is to be told and more than chance explains; None where there is none.

    Chance: what happens to one calibrated model in a hundred, at either level (binomial law). together: (n,) labels of rows that are alike, which count for fewer rows
    as far as their misses come together.

    >>> off_level(np.full(400, 0.5)), off_level(np.linspace(0.2, 0.8, 400))
    (OffLevel(level=0.95, share=1.0), OffLevel(level=0.95, share=1.0))
    >>> off_level(np.r_[np.linspace(0.3, 0.7, 95), np.full(5, 0.0)])
    OffLevel(level=0.5, share=0.95)
    """
    for level, by in _OFF.items():
        inside = _inside(pit, level)
        n, share = len(pit), float(inside.mean())
        independent = n if together is None else _independent_rows(inside, together)
        held = share * independent
        chance = 2.0 * min(binomial_tails(math.ceil(held), math.floor(held), independent, level))
        if abs(share - level) > by and chance < _UNLIKELY:
            return OffLevel(level, share)
    return None


def uneven_intervals(pit: np.ndarray, mean: np.ndarray | None, together: np.ndarray | None = None) -> Uneven | None:
    """What intervals hold of rows with low and with high predictions, where this differs clearly: errors follow the target. Else None.

    Clearly: the ranks of |PIT − ½| and of the means go together by three standard errors (rows of one label in ``together`` count as one, and more where labels are few), and the shares
    differ by as much as is to be told.

    >>> place = np.linspace(0.01, 0.99, 50)
    >>> pit = np.r_[0.5 + 0.2 * (place - 0.5), place, np.clip(0.5 + 3 * (place - 0.5), 0, 1)]
    >>> uneven_intervals(pit, np.repeat([0.0, 1.0, 2.0], 50))
    Uneven(level=0.95, low=1.0, high=0.32)
    >>> print(uneven_intervals(np.tile(place, 3), np.repeat([0.0, 1.0, 2.0], 50)))
    None
    """
    n = len(pit)
    if mean is None or n < _UNEVEN_ROWS:
        return None
    distance, place = (_standardised_ranks(values) for values in (np.abs(pit - 0.5), mean))
    units = units_of(n, together, False)
    found = paired(distance * place, units)
    if abs(found.value) <= student_limit(max(int(units.max()), 1)) * found.error:
        return None
    order, third = np.argsort(mean, kind="stable"), n // 3
    for level, by in _UNEVEN.items():
        inside = _inside(pit, level)[order]
        low, high = float(inside[:third].mean()), float(inside[-third:].mean())
        if abs(low - high) >= by and (low > high) == (found.value > 0):
            return Uneven(level, low, high)
    return None


def _inside(pit: np.ndarray, level: float) -> np.ndarray:
    """Which rows (n,) the central interval of a level holds."""
    return np.abs(pit - 0.5) <= 0.5 * level


def _standardised_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks, equal ones of equal values, with mean zero and variance one; zero where all are equal."""
    ranks = np.unique(values, return_inverse=True)[1].astype(float)
    return (ranks - ranks.mean()) / max(float(ranks.std()), 1e-300)


def _independent_rows(inside: np.ndarray, together: np.ndarray) -> int:
    """How many independent rows tell the share that is inside as well as these, some of which belong together: Kish's design effect.

    >>> told = np.array([True, True, True, False] * 5)
    >>> _independent_rows(told, np.arange(20)), _independent_rows(np.sort(told), np.arange(20) // 5)
    (19, 3)
    """
    n, units = len(inside), units_of(len(inside), together, False)
    share, error = paired(inside.astype(float), units)
    if share in (0.0, 1.0) or math.isinf(error):
        return int(units.max()) + 1  # as if each were one row: how alike their rows are is not known
    return max(1, min(n, round(share * (1.0 - share) / max(error**2, 1e-300))))


def coverage(pit: np.ndarray) -> dict[float, float]:
    """Share of rows inside the central interval of each level, from PIT values (N,).

    >>> coverage(np.array([0.5, 0.01]))
    {0.5: 0.5, 0.9: 0.5, 0.95: 0.5}
    """
    return {level: float(_inside(pit, level).mean()) for level in _LEVELS}
