"""The stack for many rows: sparse members of several kinds, weighted by what they predict on one held-out part of the rows.

Every kind (plain GPs with a smooth and a rough kernel, small and larger networks around a plain GP, a deep network, the user's own features) begins with a few members,
trained briefly on rows that are not held out. Held-out rows then decide: kinds that add nothing stop, others are trained on for as long as that pays, and the best
ones get further members. The members that predict are the very ones that were weighed, conditioned on the held-out rows too: no parameter changes, no row is lost.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.averaging.averages import Averaged, FoldChoice, Following
from manifoldgp.averaging.folds import make_folds
from manifoldgp.averaging.sparse_course import ALL_ROWS, MORE_MEMBERS, MORE_POINTS, PLAIN_PHASE, Course, step_phase
from manifoldgp.averaging.sparse_training import FEW_ITERATIONS, FEW_ROWS, GroupTraining, compared_rows, inducing_for
from manifoldgp.averaging.stacking import Follow
from manifoldgp.errors import InputError
from manifoldgp.model import Model
from manifoldgp.training.model_rows import ModelRows, sampled
from manifoldgp.training.plan import Phase, Plan, sparse_cost
from manifoldgp.training.settings import Sparse
from manifoldgp.training.sparse_trainer import SparseTrainer

if TYPE_CHECKING:
    from manifoldgp.averaging.stack import Stack


def held_out_count(total: int) -> int:
    """How many of so many rows are held out: a fifth of 1,000, a tenth of 10,000, and 10,000 at most.

    >>> [held_out_count(N) for N in (10, 1_000, 10_000, 36_000, 1_000_000)]
    [2, 200, 1000, 2300, 10000]
    """
    return min(10_000, max(1, min(total // 5, 500 + total // 20)))


def held_out_numbers_of(rows: ModelRows, seed: int, ordered: bool, groups: np.ndarray | None = None) -> np.ndarray:
    """The rows that are held out: random, the last ones of rows in order of time, or whole groups (labels (total,)).

    Groups come as near to the number of :func:`held_out_count` as they can; a large one may be more.
    """
    count = held_out_count(rows.total)
    if groups is not None:
        parts = make_folds(rows.total, max(2, round(rows.total / count)), np.random.default_rng(seed + 1), groups)
        return min(parts, key=lambda part: abs(len(part) - count))
    return np.arange(rows.total - count, rows.total) if ordered else sampled(rows.total, count, seed + 1)


def fit_sparse_stack(template: Model, rows: ModelRows, trainer: SparseTrainer, folds: FoldChoice, settings: Stack) -> Averaged:
    """Train the kinds on the rows that are not held out, as far as those that are want it, and weigh them there."""
    held_numbers = held_out_numbers_of(rows, trainer.seed, folds.ordered, folds.groups)
    held = rows.take(held_numbers)
    if not len(held.y):
        raise InputError(
            f"None of the {len(held_numbers):,} rows that a stack holds out has a target, so that nothing could be weighed. "
            "Leave out rows without a target, other groups or ordered=True, or say averaging='single'."
        )
    course = Course(GroupTraining(template, rows.without(held_numbers), held, trainer, settings))
    course.run()
    together = folds.together(held_numbers)
    # rows without a target are held out by number, and say nothing
    return weighed(course, together if together is not None and len(together) == len(held.y) else np.arange(len(held.y)))


def weighed(course: Course, units: np.ndarray) -> Averaged:
    """The members of a course with their weights, conditioned on the held-out rows where they predict. units (n,): held-out rows that may err together."""
    settings, held = course.settings, course.training.held
    weights, report = course.weighing.weights(course.candidates(), course.needed())
    factors, groups = tuple(settings.variance_factors), list(course.groups.values())
    report = replace(report, mean=_mean(course, weights[..., None], 0.0), observed=held.y.cpu().numpy())
    asked, usual = Follow.as_before(settings.certainty, settings.keep, course.training.trainer.earlier), np.zeros(len(groups))
    if asked is not None:
        candidates, means = course.candidates(exponent=asked.exponent), partial(_mean, course)
        found = course.weighing.following(candidates, weights, report, asked, units, means)
        usual, report = found.usual, found.report
    trained, of_members, usual_of = [], [], []
    for group, weight, at in zip(groups, weights, usual, strict=True):
        for table, inner in group.trained(held, used=bool(weight.any())):
            trained.append(table)
            of_members.append(weight[:, None] * inner)
            usual_of.append(np.full(len(inner), at))
    report = replace(report, cut_short=tuple(dict.fromkeys(table.group for table in trained if table.cut_short.any())))
    following = Following(report.exponent, report.following, usual_of) if report.following else None
    return Averaged(trained, of_members, factors, report, following=following)


def _mean(course: Course, at_rows: np.ndarray, exponent: float) -> np.ndarray:
    """For every held-out row (n,), of a stack in which groups count so much there (G, F, n), and members inside them by this exponent."""
    held, factors = course.training.held, tuple(course.settings.variance_factors)
    used = [(group, own) for group, own in zip(course.groups.values(), at_rows, strict=True) if own.any()]
    each = [(own * group.means(held, factors, exponent)).sum(0) for group, own in used]
    return np.sum(each, axis=0)


def plan_sparse_stack(N: int, method: Sparse, settings: Stack) -> Plan:
    """The phases of a stack on N rows; later ones are left out where held-out rows see no use in them."""
    N, J = N - held_out_count(N), inducing_for(method)
    part = compared_rows(N)
    first, second = settings.sparse_steps[0], settings.sparse_steps[min(1, len(settings.sparse_steps) - 1)]
    each, few = settings.fold_members, min(FEW_ROWS, N)
    on_part = settings.sparse_steps[1:] if part == N else settings.sparse_steps[1:2]
    on_all = [] if part == N else [(ALL_ROWS, first), *[(step_phase(to, all_rows=True), to) for to in settings.sparse_steps]]

    def phase(name: str, members: float, iterations: int, rows: int, points: int = J) -> Phase:
        return Phase(name, max(iterations, 1), members * max(iterations, 1) * sparse_cost(rows, points), iterations)

    phases = [
        phase(f"{PLAIN_PHASE}, few rows", 2, FEW_ITERATIONS, few, J // 2),
        phase(PLAIN_PHASE, 2, second, part),
        phase(f"{step_phase(first)}, few rows", 5 * each, FEW_ITERATIONS, few, J // 2),
        phase(step_phase(first), 9 * each, max(first, settings.warm_iterations), part),
        *[
            phase(step_phase(to), (2 if to == second else 0.3) * each, to - since, part)
            for since, to in pairwise((first, *on_part))
        ],
        *[phase(name, each, to, N) for name, to in on_all],
        *([phase(MORE_POINTS, each, first, N, 2 * J)] if method.inducing is None else []),
        phase(f"{MORE_MEMBERS}, few rows", 2, FEW_ITERATIONS, few, J // 2),
        phase(MORE_MEMBERS, 2, second, N),
    ]
    return Plan(tuple(phases))
