"""The steps of a stack on its folds: under which names they are told and planned, how long they are, and from how many rows on they are taken."""

from __future__ import annotations

import math

from manifoldgp.averaging.kinds import LARGE, OWN, ROUGH

GP_FOLD_ITERATIONS = 50

MORE_FROM = 3000
"""Groups get further members from twice as many rows on, once more from four times as many, and so on."""

MOST_ROUNDS = 4
"""Rounds of further members, at most."""

NEARBY_ROWS = 4000
"""Rows in neighbourhoods, at most, that a member goes on with; where there are more, every member has others."""

NEARBY_ITERATIONS = 30
"""Iterations on all rows, in neighbourhoods, of members that learnt from a sample and went no further."""

_FINE_ITERATIONS = 12
"""The last iterations of a step on many rows, in neighbourhoods of ``learn_rows`` rows; all before are in smaller ones, which cost a fraction and lead nearly as far."""

_FIRST_SHARE, _FIRST_DENSITY = 5 / 9, 1000
"""Share of ``learn_rows`` that a member sees at once at first, and rows of a fold up to which it is that."""

PATIENT_BELOW = 300
"""Rows below which every group takes the second step: training costs next to nothing there, and few held-out rows misjudge a network that has just begun."""

STEPS, FINE_STEPS = (25, 80, 200), (25, 80, 120, 200)
"""Iterations in all after which held-out rows are asked, by default."""

FINE_STEPS_FROM = 600
"""Rows from which the finer steps are taken, and members keep their curvature between them. Fewer rows end training too early by small differences, and overfit sooner with it."""

SCREEN_ROWS, SCREEN_ITERATIONS = 250, 30
"""Rows on which starts of the plain GP, and further plain GPs, are compared first, and iterations of the latter there."""

SCREEN_FROM = 300
"""Rows beyond which that is done."""


def many_rows(rows: int, learn_rows: int) -> bool:
    """Whether a fold with so many rows has clearly more than the sample that members learn from at first, so that they go on with all of them."""
    return rows > 1.25 * learn_rows


def first_rows(rows: int, learn_rows: int) -> int:
    """How many rows of a neighbourhood a member sees at first, before it sees ``learn_rows``, where a fold has so many: the denser they lie, the finer the structure that they show.

    >>> [first_rows(rows, 450) for rows in (800, 2400, 6880, 28_800)]
    [250, 387, 450, 450]
    """
    return min(learn_rows, int(_FIRST_SHARE * learn_rows * max(1.0, (rows / _FIRST_DENSITY) ** 0.5)))


def parted(iterations: int, rows: int, learn_rows: int) -> tuple[int, int]:
    """So many iterations on a fold of so many rows, as those that see fewer than ``learn_rows`` at once, and those that see as many.

    >>> parted(55, 800, 450), parted(10, 800, 450), parted(55, 28_800, 450)
    ((43, 12), (0, 10), (0, 55))
    """
    fine = iterations if first_rows(rows, learn_rows) == learn_rows else min(iterations, _FINE_ITERATIONS)
    return iterations - fine, fine


def fold_phase(group: str) -> str:
    """The name of the phase that trains a group on the folds."""
    return f"{group} on folds"


def screen_phase(group: str) -> str:
    """The name of the phase that tries a plain GP on few rows."""
    return f"{group} on few rows"


def nearby_phase(group: str) -> str:
    """The name of the phase in which a group learns from all rows."""
    return f"{group} on all rows"


def more_phase(group: str) -> str:
    """The name of the phase that trains further members of a group."""
    return f"more {group} members"


def fine_phase(phase: str) -> str:
    """The name of the phase that ends another one, with more rows at once."""
    return f"{phase}, more rows at once"


def rounds_of_more(N: int) -> int:
    """How often the groups that carry a stack may get further members: of many rows, one costs less than what held-out rows gain by it.

    >>> [rounds_of_more(N) for N in (5000, 9000, 40_000, 1_000_000)]
    [0, 1, 3, 4]
    """
    return min(MOST_ROUNDS, max(0, int(math.log2(max(N, 1) / MORE_FROM))))


def step_phase(group: str, iterations: int) -> str:
    """The name of the phase that trains a group on, to so many iterations in all."""
    return f"{group} on folds, to {iterations}"


def network_order(few: bool, many: bool) -> tuple[str, ...]:
    """In which order networks begin: rough members may have to wait for the rough GP, and of many rows until small and large networks have been compared."""
    return ("nested", ROUGH, OWN) if few else ("nested", LARGE, OWN) if many else ("nested", OWN, ROUGH)
