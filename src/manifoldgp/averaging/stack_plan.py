"""What a stack is going to do with so many rows, phase by phase, so that it can say at the start how long it will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from manifoldgp.averaging.final_members import RETRAINED_BELOW
from manifoldgp.averaging.fold_steps import (
    GP_FOLD_ITERATIONS,
    NEARBY_ITERATIONS,
    NEARBY_ROWS,
    PATIENT_BELOW,
    SCREEN_FROM,
    SCREEN_ITERATIONS,
    SCREEN_ROWS,
    fine_phase,
    first_rows,
    fold_phase,
    many_rows,
    more_phase,
    nearby_phase,
    network_order,
    parted,
    rounds_of_more,
    screen_phase,
    step_phase,
)
from manifoldgp.averaging.folds import folds_for
from manifoldgp.averaging.kinds import ADDITIVE_GP, COLD, LARGE, OWN, PLAIN, ROUGH, ROUGH_GP, WARM
from manifoldgp.averaging.searched_gp import search_phases
from manifoldgp.training.plan import Phase, Plan, cost

if TYPE_CHECKING:
    from manifoldgp.averaging.stack import Stack

ADDITIVE_COST = 5
"""Iterations of the plain GP that one of the additive GP takes as long as."""

_GP_ITERATIONS, _GP_FOLD_ITERATIONS = 45, 35
"""Iterations of a start of the plain GP, as a rule, and of the plain GP of a fold: those that are clearly lost stop early."""

_MORE_ITERATIONS = 55
"""Iterations of further members on all rows, as a rule."""


def plan_stack(N: int, settings: Stack) -> Plan:
    """The phases of an exact stack of N rows, and how many members it keeps."""
    few, (count, used), deals = N < RETRAINED_BELOW, folds_for(N), settings.deals_for(N)
    seen = N if N <= SCREEN_FROM else SCREEN_ROWS
    starts = settings.starts_for(seen) * _GP_ITERATIONS * cost(seen)
    deal = (*_phases_on_folds(N, settings), *(_phases_on_all_rows(N, settings) if few else ()))
    again = [replace(phase, chance=0.7 * phase.chance) for phase in deal] * (deals - 1)  # unless features do not pay
    phases = (Phase(PLAIN, _GP_ITERATIONS, starts, settings.gp_iterations), *deal, *again)
    if not few:
        return Plan(phases, at_once=1, kept=(3 * used, *[settings.fold_members * used] * 2))
    nested = settings.warm_members + settings.cold_members
    plain = settings.starts_for(N), 2 * deals * count, int(settings.search is not None)  # rough and additive ones of every fold
    kept = (*plain, deals * nested, deals * settings.cold_members, deals * settings.own_members)
    return Plan(phases, max(settings.starts_for(N), nested, settings.own_members), kept)


def _phases_on_folds(N: int, settings: Stack) -> list[Phase]:
    """Of all groups on the folds, in the order of :class:`manifoldgp.averaging.fold_training.OnFolds`."""
    count, used = folds_for(N)
    part, several, steps = N * (count - 1) // count, settings.fold_members, settings.steps_for(N)
    many = many_rows(part, settings.learn_rows)
    screen = many or part > SCREEN_FROM
    learnt_from = settings.learn_rows if many else part
    learn = used * cost(learnt_from)
    first, pairs = steps[0], list(pairwise(steps))

    def further(names: Sequence[str], between: Sequence[tuple[int, int]]) -> list[Phase]:
        return [
            phase
            for name in names
            for number, (since, to) in enumerate(pairs)
            if (since, to) in between
            for phase in _further(step_phase(name, to), to - since, several, _step_chance(name, number, N), N, settings)
        ]

    on_folds = 0.5 * (settings.warm_iterations + first)
    networks = {name: Phase(fold_phase(name), first, several * learn * first, first) for name in (LARGE, ROUGH, OWN)}
    if screen:
        networks[ROUGH] = replace(networks[ROUGH], chance=0.6)
    networks["nested"] = Phase(
        fold_phase("nested"), on_folds, 2 * several * learn * on_folds, max(settings.warm_iterations, first)
    )
    return [
        Phase(fold_phase(PLAIN), _GP_FOLD_ITERATIONS, _GP_FOLD_ITERATIONS * learn, GP_FOLD_ITERATIONS),
        *(_phases_on_few_rows() if screen else []),
        Phase(fold_phase(ROUGH_GP), _GP_FOLD_ITERATIONS, _GP_FOLD_ITERATIONS * learn, GP_FOLD_ITERATIONS, 0.5 if screen else 1.0),
        Phase(fold_phase(ADDITIVE_GP), 50, ADDITIVE_COST * 50 * learn, GP_FOLD_ITERATIONS, 0.3 if screen else 1.0),
        *search_phases(settings.search, learnt_from, used),
        *[networks[name] for name in network_order(not screen, many)],
        *([*further((COLD, LARGE), pairs[:1]), networks[ROUGH]] if many else []),
        *(further((COLD, LARGE), pairs[1:]) if many else further((COLD,), pairs)),
        *further((ROUGH, OWN), pairs),
        *(_phases_of_learning_from_all_rows(several, N, settings) if many else []),
        *[phase for _ in range(rounds_of_more(N)) for phase in _phases_of_more(first * learn, N, settings)],
    ]


def _further(name: str, iterations: int, members: int, chance: float, N: int, settings: Stack) -> list[Phase]:
    """Of so many members of every fold that go on for so many iterations: those with few rows at once and those with more of them, where there are many rows."""
    count, used = folds_for(N)
    part = N * (count - 1) // count
    if not many_rows(part, settings.learn_rows):
        return [Phase(name, iterations, members * used * cost(part) * iterations, iterations, chance)]
    first, last = parted(iterations, part, settings.learn_rows)
    sizes = (name, first, first_rows(part, settings.learn_rows)), (fine_phase(name) if first else name, last, settings.learn_rows)
    return [Phase(phase, own, members * used * _nearby_cost(part, rows) * own, own, chance) for phase, own, rows in sizes if own]


def _nearby_cost(part: int, rows: int) -> float:
    """What one evaluation of a member costs on a fold of so many rows, in neighbourhoods of so many."""
    parts = max(1, min(part, NEARBY_ROWS) // rows)
    return parts * cost(min(part, NEARBY_ROWS) // parts)


def _phases_of_more(begun: float, N: int, settings: Stack) -> list[Phase]:
    """Of further members of the groups that carry a stack. begun: what the first step of one member of every fold costs."""
    several, first = settings.fold_members, settings.steps_for(N)[0]
    found = []
    for name, chance in ((LARGE, 0.6), (ROUGH, 0.4)):
        begin = Phase(more_phase(name), first, several * begun, first, chance)
        on, *fine = _further(more_phase(name), _MORE_ITERATIONS, several, chance, N, settings)
        both = replace(begin, iterations=first + on.iterations, work=begin.work + on.work, most=max(settings.steps_for(N)))
        found += [both, *fine]
    return found


def _phases_on_few_rows() -> list[Phase]:
    """Of the plain GPs that are tried on few rows of one fold."""
    return [
        Phase(screen_phase(name), SCREEN_ITERATIONS, factor * SCREEN_ITERATIONS * cost(SCREEN_ROWS), SCREEN_ITERATIONS)
        for name, factor in ((PLAIN, 1), (ROUGH_GP, 1), (ADDITIVE_GP, ADDITIVE_COST))
    ]


def _phases_of_learning_from_all_rows(several: int, N: int, settings: Stack) -> list[Phase]:
    """Of groups that count and have seen a sample only. several: members of networks."""
    return [
        phase
        for name, members, chance in ((PLAIN, 1, 0.7), (ROUGH_GP, 1, 0.5), (WARM, several, 0.3), (OWN, several, 0.2))
        for phase in _further(nearby_phase(name), NEARBY_ITERATIONS, members, chance, N, settings)
    ]


def _phases_on_all_rows(N: int, settings: Stack) -> list[Phase]:
    """Of members that are trained anew on all rows."""
    whole, steps, polish = cost(N), settings.steps_for(N), settings.polish
    first, limit = steps[0], max(steps)
    own = settings.own_members * min(1.0, settings.own_rows / N) * first * whole
    nested = 0.8 * (settings.warm_members + settings.cold_members) * polish * whole
    each = folds_for(N)[0] * whole
    return [
        *([Phase(PLAIN, 20, 20 * whole, GP_FOLD_ITERATIONS)] if N > SCREEN_FROM else []),
        Phase(ROUGH_GP, polish, each * polish, polish, 0.2),
        Phase(ADDITIVE_GP, polish, ADDITIVE_COST * each * polish, polish, 0.3),
        *search_phases(settings.search, N),
        Phase("nested", polish, nested, max(settings.warm_iterations, limit), 0.7),
        Phase(ROUGH, polish, settings.cold_members * polish * whole, limit, 0.6),
        Phase("own", first, own, limit, 0.4),
    ]


def _step_chance(group: str, number: int, N: int) -> float:
    """How often a group takes a step, the second one being number zero: that one always where rows are few, and each after it less often than the one before."""
    second = 1.0 if N < PATIENT_BELOW else 0.5 if group == OWN else 0.8
    return second * 0.4**number
