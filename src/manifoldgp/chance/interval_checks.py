"""Whether intervals hold, by the PIT values P(Y_i <= y_i) of rows that a model has not seen: on the average over all of them, and where predictions are low or high.

What is told is more than chance explains, rows that err together counting for fewer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manifoldgp._system.plain_text import percent
from manifoldgp.chance.differences import named_groups, paired, units_of
from manifoldgp.chance.laws import binomial_tails, student_limit

FEWEST_ROWS = 20
"""Held-out rows from which on it is said that intervals hold, and what features add: of fewer, intervals of 95 % should miss less than one."""

TELLING_ROWS, TELLING_GROUPS = 60, 10
"""Rows, and groups of them, from which on it is said without reserve that intervals hold: how groups differ is known to a half of it by so many."""

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
class Statement:
    """Whether intervals hold, in words: what there is to know first, and the numbers or the reserve behind it. sure: whether it is said without reserve."""

    first: str
    rest: str = ""
    sure: bool = True

    def __str__(self) -> str:
        return self.first + self.rest


@dataclass(frozen=True)
class IntervalCheck:
    """What rows that a model has not seen say of its intervals, found once and told wherever it is asked for.

    rows, share: how many, and what intervals of 95 % hold of them. off, uneven: where intervals do not hold, on the average or in a third of the predictions; None where they do,
    as far as these rows tell. groups: of how many groups they are, or (ordered) of how many stretches of time; None: each row is for itself.
    """

    rows: int
    share: float
    off: OffLevel | None
    uneven: Uneven | None
    groups: int | None = None
    ordered: bool = False

    @classmethod
    def of(
        cls, pit: np.ndarray, mean: np.ndarray | None = None, together: np.ndarray | None = None, ordered: bool = False
    ) -> IntervalCheck:
        """pit, mean: PIT and predicted mean (n,) of the rows. together: (n,) labels of rows that are alike, those of stretches of time where rows are ordered."""
        groups = None if together is None else len(np.unique(together))
        off, uneven = off_level(pit, together), uneven_intervals(pit, mean, together)
        return cls(len(pit), float(_inside(pit, 0.95).mean()), off, uneven, groups, ordered)

    @property
    def few_groups(self) -> bool:
        """Whether it is chance which groups are among the rows, so that the share that intervals hold of them says little about others."""
        return self.groups is not None and self.groups < TELLING_GROUPS

    def in_words(self, column: str | None = None, kind: bool = False) -> Statement:
        """Whether intervals hold. column: the name of that with the groups' labels. kind: whether the model knows something of these rows, which says less of others.

        >>> even = np.linspace(0.02, 0.98, 120)
        >>> said = lambda *given: str(IntervalCheck.of(*given).in_words())
        >>> said(even), said(even[::4]), said(np.full(5, 0.5))
        ('intervals hold', 'intervals hold, as far as 30 rows can tell', 'too few rows to say whether intervals hold')
        >>> said(even, None, np.arange(120) % 3)
        'intervals of 95 % hold 98 % of 120 rows, as far as 3 groups can tell'
        >>> said(np.full(400, 0.5)), said(np.r_[np.full(419, 0.5), 0.0])
        ('intervals are too wide: those of 95 % hold 100 %', 'intervals are too wide: those of 95 % hold 99.8 %')
        >>> said(np.r_[np.linspace(0.3, 0.7, 95), np.full(5, 0.0)])
        'intervals are too wide: those of 50 % hold 95 %'
        """
        off, uneven, here = self.off, self.uneven, " on these rows" if kind else ""
        if uneven is not None:
            low, high = percent(uneven.low), percent(uneven.high)
            thirds = f"{low} of the third of the rows with the lowest predictions and {high} of the third with the highest"
            return Statement("intervals are not alike everywhere", f"{here}: those of {100 * uneven.level:g} % hold {thirds}")
        if off is not None:
            return Statement(f"intervals are {off.word}", f"{here}: those of {100 * off.level:g} % hold {percent(off.share)}")
        if self.rows < FEWEST_ROWS:
            return Statement("too few rows to say whether intervals hold", sure=False)
        if self.few_groups:
            return Statement(f"intervals of 95 % hold {percent(self.share)} of {self.rows:,} rows", self._reserve(column), False)
        if self.rows < TELLING_ROWS:
            return Statement("intervals hold", f", as far as {self.rows} rows can tell", False)
        return Statement("intervals hold", here, not kind)

    def remarks(self, column: str | None = None) -> list[str]:
        """Sentences where intervals do not hold, or where too few groups tell that they do; none where they do. column: the name of that with the groups' labels.

        >>> IntervalCheck.of(np.r_[np.linspace(0.03, 0.97, 18), 0.0, 0.0]).remarks()  # 18 of 20 rows
        []
        """
        said, off, uneven = [], self.off, self.uneven
        held = f"{self.rows:,} held-out rows"
        if off is not None:
            said.append(f"The {100 * off.level:g} % intervals hold {100 * off.share:.1f} % of {held}: they are {off.word}.")
        elif self.few_groups and not self.ordered and self.rows >= FEWEST_ROWS:
            said.append(f"The 95 % intervals hold {percent(self.share)} of {held}{self._reserve(column)}.")
        if uneven is not None:
            said.append(
                f"The {100 * uneven.level:g} % intervals hold {100 * uneven.low:.0f} % of the third of the held-out rows with the lowest predictions and {100 * uneven.high:.0f} % "
                f"of the third with the highest: errors {'grow' if uneven.grows else 'shrink'} with the target more than the intervals do."
            )
        return said

    def _reserve(self, column: str | None) -> str:
        count = self.groups or 0
        return f", as far as {count} {named_groups(self.ordered, column, count)} can tell"


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

    Of few groups it is found with an error of its own: fewer are counted, as Student's law has its limits farther out.

    >>> told = np.array([True, True, True, False] * 5)
    >>> _independent_rows(told, np.arange(20)), _independent_rows(np.sort(told), np.arange(20) // 5)
    (14, 1)
    """
    n, units = len(inside), units_of(len(inside), together, False)
    share, error = paired(inside.astype(float), units)
    if share in (0.0, 1.0) or math.isinf(error):
        return int(units.max()) + 1  # as if each were one row: how alike their rows are is not known
    error *= student_limit(int(units.max())) / 3.0
    return max(1, min(n, round(share * (1.0 - share) / max(error**2, 1e-300))))


def coverage(pit: np.ndarray) -> dict[float, float]:
    """Share of rows inside the central interval of each level, from PIT values (N,).

    >>> coverage(np.array([0.5, 0.01]))
    {0.5: 0.5, 0.9: 0.5, 0.95: 0.5}
    """
    return {level: float(_inside(pit, level).mean()) for level in _LEVELS}
