"""What a fit goes through: its phases with the work that is expected in each, and the N x N matrices that live at once."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from manifoldgp._system.linalg import factor_in_place, factor_solve_invert

LEAST_KEPT = 0.6
"""Seconds of a time budget that are kept for weighing and conditioning at least, or a third of a very short one: on a busy machine they take as long."""

_TRIED, _TRIES = 500, 5
"""Rows of the matrices whose factors tell how quick a machine is, and how many of them."""


@dataclass(frozen=True)
class Phase:
    """A phase of training one target. name: what a callback is told. iterations: what a start takes as a rule. most: its limit.

    work: starts x iterations x the cost of one, in the units of :func:`cost`. chance: how often it is taken; held-out rows may find it of no use.
    """

    name: str
    iterations: float
    work: float
    most: int
    chance: float = 1.0

    @property
    def expected(self) -> float:
        """Work that is to be expected of it before it is known whether it is taken."""
        return self.chance * self.work


_FOLLOWS = 0.05
"""Share of the work that is to be expected of later phases that follows even where none of them is sure."""


def likely_work(phases: Sequence[Phase], one_by_one: bool = False) -> float:
    """That phases take as a rule. Of those that may be left out most are, or hardly any: it lies halfway, as factors go, between what is sure and what is to be expected on average.

    one_by_one: whether each may be left out by itself, so that the average is what is to be expected.

    >>> some = [Phase("all", 9, 10.0, 9), Phase("some", 9, 60.0, 9, 0.5)]
    >>> likely_work(some[:1]), round(likely_work(some), 1), likely_work(some, one_by_one=True)
    (10.0, 21.9, 40.0)
    """
    expected = sum(phase.expected for phase in phases)
    if one_by_one:
        return expected
    sure = sum(phase.work for phase in phases if phase.chance == 1.0)
    return math.sqrt(expected * min(expected, sure + _FOLLOWS * expected))


@dataclass(frozen=True)
class Plan:
    """The phases of one target's training, in order. An average leaves out later phases where held-out rows show that their members would get no weight.

    at_once: starts that are trained side by side where there are threads enough. kept: for each architecture, how many members are conditioned on all rows.
    title: what is trained, in words; budget: what limits its seconds is called. slower: how many times longer than usual an iteration should take.
    one_by_one: whether phases are left out each by itself, as in `likely_work`. points: rows that each kept member is conditioned on, all at once; 0: not known.
    """

    phases: tuple[Phase, ...]
    at_once: int = 1
    kept: Sequence[int] = (1,)
    title: str = ""
    budget: str = "time_budget"
    slower: float = 1.0
    one_by_one: bool = False
    points: int = 0

    @property
    def work(self) -> float:
        """That is to be expected of all phases."""
        return sum(phase.expected for phase in self.phases)

    @property
    def likely(self) -> float:
        """Work that all phases take as a rule."""
        return self.likely_from(0)

    def likely_from(self, number: int) -> float:
        """Work that the phases from this one on take as a rule."""
        return likely_work(self.phases[number:], self.one_by_one)

    @property
    def span(self) -> tuple[float, float]:
        """Work of the phases that are always taken, and of all of them."""
        return sum(phase.work for phase in self.phases if phase.chance == 1.0), sum(phase.work for phase in self.phases)

    def matrices(self, outputs: int, threads: int, shared: bool = False) -> int:
        """How many N x N matrices a fit of so many targets holds at its peak: three for each start or member in work, one factor for each member that is kept.

        One architecture is conditioned at a time, all its members together. shared: whether targets are trained together, on shared features.

        >>> Plan((), at_once=20).matrices(outputs=1, threads=2), Plan((), 20, kept=(1, 11, 20)).matrices(outputs=2, threads=2)
        (6, 66)
        """
        training = 3 * min(self.at_once, threads) * (outputs if shared else 1)
        before, conditioning = 0, 0
        for members in self.kept:
            conditioning = max(conditioning, before + members + 2)
            before += members
        return max(training, conditioning) + (outputs - 1) * before


def until_convergence(most: int, usual: int = 230) -> float:
    """Iterations that a start takes as a rule where it may take ``most``: it converges before, or is clearly lost."""
    return max(min(most, usual), 1)


def cost(N: int) -> float:
    """One exact iteration of one start on N rows: an overhead, and the growth of the factor."""
    return 0.1 + 3.4 * (N / 400) ** 2.5


def slower_by_inputs(N: int, inputs: int) -> float:
    """How many times longer than :func:`cost` says an exact iteration takes with many inputs, about: of few rows, distances by input are most of the work.

    Measured with 2 to 96 inputs and 44 to 450 rows, where a fit takes between a half and two times what this makes of it as a rule; what is left is whether features pay.
    """
    return 1.0 + inputs / 25 * (150 / N) ** 0.5


def sparse_cost(N: int, inducing: int) -> float:
    """One iteration of one start on N rows with inducing points, in the units of :func:`cost`: an overhead, covariances, and products of them."""
    return 5.0 + 7e-8 * N * (inducing**2 + 480.0 * inducing)


def sparse_operations(N: int, inducing: int) -> float:
    """What an iteration grows by with the rows and the inducing points; the same on every machine, so that a stack can be limited by it."""
    return N * (inducing**2 + 50.0 * inducing)


def seconds_to_factor(N: int) -> float:
    """Seconds that this machine, as busy as it is, takes for the factor of an N x N matrix, about: by small ones."""
    K, begin = torch.eye(_TRIED, dtype=torch.float64) + 1.0 / _TRIED, time.perf_counter()
    for _ in range(_TRIES):
        factor_in_place(K[None].clone())
    return (time.perf_counter() - begin) / _TRIES * (N / _TRIED) ** 3


def seconds_a_unit() -> float:
    """Processor seconds that this machine takes for a unit of work: by a factor and an inverse on 400 rows, the most of what an iteration does there."""
    K, r = torch.eye(400, dtype=torch.float64) + 1.0 / 400, torch.ones(1, 400, dtype=torch.float64)
    taken = []
    for _ in range(3):
        A, begin = K[None].clone(), time.thread_time()
        factor_solve_invert(A, r, True)
        taken.append(time.thread_time() - begin)
    return 1.6 * min(taken) / cost(400)
