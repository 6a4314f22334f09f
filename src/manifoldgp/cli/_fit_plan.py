"""The phases of a fit, with the work that is expected in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manifoldgp.averaging.settings import Averaging
    from manifoldgp.training.settings import Sparse
    from manifoldgp.training.sparse_schedule import PlannedPhase


@dataclass(frozen=True)
class Phase:
    """iterations: what a start takes on average. work: starts x iterations x cost of one, in arbitrary units."""

    name: str
    iterations: float
    work: float


def plan_phases(averaging: Averaging, N: int) -> list[Phase]:
    """Phases of training one target on N rows, in their order. A stack leaves out the later ones of groups that held-out rows do not want.

    >>> from manifoldgp import Fast, Single
    >>> [phase.name for phase in plan_phases(Fast(), 100)]
    ['plain GP', 'nested']
    >>> [phase.name for phase in plan_phases(Single(), 4000)]
    ['500 of 4,000 rows', '1,000 of 4,000 rows', '2,000 of 4,000 rows', 'all 4,000 rows']
    """
    from manifoldgp.averaging.methods import folds_for
    from manifoldgp.averaging.settings import STEPPED, Fast, Single, Stack
    from manifoldgp.training.coarse_to_fine import level_rows

    if not isinstance(averaging, (Stack, Fast)):
        if isinstance(averaging, Single) and averaging.levels and averaging.max_iter > 0 and level_rows(N):
            return _levels(N, averaging.restarts, averaging.max_iter)
        name = {"single": "starts", "restarts": "restarts", "nuts": "MAP starts"}[averaging.shorthand()]
        return [Phase(name, max(averaging.max_iter, 1), averaging.restarts * max(averaging.max_iter, 1))]
    s, whole = averaging.as_stack() if isinstance(averaging, Fast) else averaging, _cost(N)
    warm, cold = s.nested_members(N)
    plain = Phase("plain GP", 60, s.gp_starts * 60 * whole)  # 200 at most; about 60 as a rule
    if isinstance(averaging, Fast):
        iterations = warm * s.warm_iterations + cold * s.steps[0]
        return [plain, Phase("nested", iterations / (warm + cold), iterations * whole)]
    count, used = folds_for(N)
    part = used * _cost(N * (count - 1) // count)
    first, second = s.steps[0], s.steps[min(1, len(s.steps) - 1)]
    further = [
        Phase(f"{name} on folds, to {to}", to - since, (1.0 if since == first else 0.3) * s.fold_members * part * (to - since))
        for name in STEPPED
        for since, to in pairwise(s.steps)
    ]  # steps after the second one are taken by few
    on_folds, members = 0.5 * (s.warm_iterations + first), warm + cold
    each = s.fold_members * part
    return [
        plain,
        Phase("plain GP on folds", 25, 25 * part),
        Phase("nested on folds", on_folds, 2 * each * on_folds),
        Phase("own on folds", first, each * first),
        *further,
        Phase("nested", s.polish, members * s.polish * whole),
        Phase("own", second, 0.5 * s.own_members * min(1.0, s.own_rows / N) * second * whole),
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


def plan_sparse_phases(averaging: Averaging, N: int, method: Sparse) -> list[Phase]:
    """Phases of training one target on N rows with inducing points, in their order; those of a stack for each member.

    >>> from manifoldgp import Single, Sparse
    >>> [phase.name for phase in plan_sparse_phases(Single(restarts=2), 9000, Sparse())]
    ['start 1 of 2', 'start 2 of 2', '4,000 rows, 256 inducing points', '9,000 rows, 256 inducing points', '9,000 rows, 512 inducing points']
    """
    from manifoldgp.averaging.settings import Single
    from manifoldgp.averaging.sparse_stack import SHARES, held_out_count
    from manifoldgp.training.sparse_schedule import Schedule

    if isinstance(averaging, Single):
        return _sparse_member("", Schedule().plan(N, method.inducing, averaging.restarts, averaging.max_iter))
    planned = Schedule().plan(N - held_out_count(N), method.inducing, method.restarts, method.max_iter)
    return [phase for group in SHARES for phase in _sparse_member(f"{group}, ", planned)]


def _sparse_member(group: str, planned: Sequence[PlannedPhase]) -> list[Phase]:
    return [
        Phase(group + p.name, max(p.max_iter, 1), max(p.max_iter, 1) * p.rows * (p.inducing**2 + 50.0 * p.inducing))
        for p in planned
    ]


def _cost(N: int) -> float:
    """One iteration of one start on N rows: an overhead, and the growth of the factor."""
    return 0.1 + 3.4 * (N / 400) ** 2.5
