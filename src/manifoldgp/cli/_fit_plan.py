"""The phases of a fit, with the work that is expected in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manifoldgp.training.sparse_schedule import PlannedPhase


@dataclass(frozen=True)
class Phase:
    """iterations: what a start takes on average. work: starts x iterations x cost of one, in arbitrary units."""

    name: str
    iterations: float
    work: float


def plan_phases(averaging: str, N: int, restarts: int, max_iter: int) -> list[Phase]:
    """Phases of training one target on N rows, in their order. A stack leaves out the later ones of groups that held-out rows do not want.

    >>> [phase.name for phase in plan_phases("fast", 100, 20, 500)]
    ['plain GP', 'nested']
    >>> [phase.name for phase in plan_phases("none", 4000, 20, 500)]
    ['500 of 4,000 rows', '1,000 of 4,000 rows', '2,000 of 4,000 rows', 'all 4,000 rows']
    """
    from manifoldgp.averaging.methods import folds_for
    from manifoldgp.averaging.settings import STEPPED, StackSettings
    from manifoldgp.training.coarse_to_fine import level_rows

    if averaging == "none" and max_iter > 0 and level_rows(N):
        return _levels(N, restarts, max_iter)
    if averaging in ("none", "restarts", "nuts"):
        name = {"none": "starts", "restarts": "restarts", "nuts": "MAP starts"}[averaging]
        return [Phase(name, max(max_iter, 1), restarts * max(max_iter, 1))]
    s, whole = StackSettings(), _cost(N)
    plain = Phase("plain GP", 60, s.gp_starts * 60 * whole)  # 200 at most; about 60 as a rule
    if averaging == "fast":
        few = s.fast()
        iterations = few.warm_members * few.warm_iterations + few.cold_members * few.steps[0]
        return [plain, Phase("nested", iterations / (few.warm_members + few.cold_members), iterations * whole)]
    count, used = folds_for(N)
    part = used * _cost(N * (count - 1) // count)
    first, second = s.steps[:2]
    further = [
        Phase(f"{name} on folds, to {to}", to - since, (1.0 if since == first else 0.3) * s.fold_members * part * (to - since))
        for name in STEPPED
        for since, to in pairwise(s.steps)
    ]  # steps after the second one are taken by few
    on_folds, members = 0.5 * (s.warm_iterations + first), s.warm_members + s.cold_members
    each = s.fold_members * part
    return [
        plain,
        Phase("plain GP on folds", 25, 25 * part),
        Phase("nested on folds", on_folds, 2 * each * on_folds),
        Phase("own on folds", first, each * first),
        *further,
        Phase("nested", s.polish, members * s.polish * whole),
        Phase("own", second, 0.5 * restarts * min(1.0, s.own_rows / N) * second * whole),
    ]


def _levels(N: int, restarts: int, max_iter: int) -> list[Phase]:
    """A single model on many rows: fewer starts from level to level, one on all rows."""
    from manifoldgp.training.coarse_to_fine import level_iterations, level_rows, phase_names, starts_on

    *names, last = phase_names(N)
    phases = []
    for k, (name, n) in enumerate(zip(names, level_rows(N), strict=True)):
        iterations = level_iterations(k, max_iter)
        phases.append(Phase(name, iterations, starts_on(k, restarts) * iterations * _cost(n)))
    return [*phases, Phase(last, max_iter, max_iter * _cost(N))]


def plan_sparse_phases(averaging: str, N: int, restarts: int, max_iter: int, inducing: int) -> list[Phase]:
    """Phases of training one target on N rows with inducing points, in their order; those of a stack for each member.

    >>> [phase.name for phase in plan_sparse_phases("none", 9000, 2, 500, 512)]
    ['start 1 of 2', 'start 2 of 2', '4,000 rows, 256 inducing points', '9,000 rows, 256 inducing points', '9,000 rows, 512 inducing points']
    """
    from manifoldgp.averaging.sparse_stack import SHARES, held_out_count
    from manifoldgp.estimators.sparse_fit import STACK_RESTARTS
    from manifoldgp.training.sparse_schedule import Schedule

    if averaging == "none":
        return _sparse_member("", Schedule().plan(N, inducing, restarts, max_iter))
    seen = N - held_out_count(N)
    planned = Schedule().plan(seen, inducing, min(restarts, STACK_RESTARTS), max_iter)
    return [phase for group in SHARES for phase in _sparse_member(f"{group}, ", planned)]


def _sparse_member(group: str, planned: Sequence[PlannedPhase]) -> list[Phase]:
    return [
        Phase(group + p.name, max(p.max_iter, 1), max(p.max_iter, 1) * p.rows * (p.inducing**2 + 50.0 * p.inducing))
        for p in planned
    ]


def _cost(N: int) -> float:
    """One iteration of one start on N rows: an overhead, and the growth of the factor."""
    return 0.1 + 3.4 * (N / 400) ** 2.5
