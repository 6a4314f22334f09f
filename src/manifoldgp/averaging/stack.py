"""The stack: the plain GP and groups of mGPs, weighted by what they predict on held-out folds.

    p(y* | x*) = Σ_g Σ_f w_gf (1/R_g) Σ_r N(y* | m_gr, f · v_gr)

over groups g, their members r and variance factors f. The weights maximise the held-out log density of this very mixture, found
with members trained on folds; the members that predict are then trained on all rows, and only those of groups that carry weight.
A member on all rows that is stopped on its way (by the deadline, or by the one who watches) is not what its fellows on the folds were:
its weight goes to the plain GP.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from manifoldgp.averaging.averages import Averaged, Averaging, FoldChoice, number_of
from manifoldgp.averaging.fold_predictions import make_batch
from manifoldgp.averaging.fold_training import (
    GP_FOLD_ITERATIONS,
    GP_ON_FOLDS,
    NESTED_ON_FOLDS,
    OWN_ON_FOLDS,
    STEPPED,
    Group,
    nested_start,
    step_phase,
    weigh_on_folds,
)
from manifoldgp.averaging.folds import folds_for, held_out_in_turn
from manifoldgp.averaging.members import nested_gp, pick, plain_gp, plain_phase
from manifoldgp.averaging.restarts import LOST_AFTER
from manifoldgp.averaging.sparse_stack import fit_sparse_stack, plan_sparse_stack
from manifoldgp.averaging.stacking import Weighing, tempered_weights
from manifoldgp.data.inputs import positive_number, whole_number
from manifoldgp.errors import InputError
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, leaves, nest
from manifoldgp.training.model_rows import ModelRows
from manifoldgp.training.plan import Phase, Plan, cost
from manifoldgp.training.settings import Sparse
from manifoldgp.training.sparse_trainer import SparseTrainer
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import LOST_MARGIN, Trainer

_MANY_ROWS = 1200
"""Rows from which on a stack has one warm and one cold member less: each is expensive."""


@dataclass(repr=False)
class Stack(Averaging):
    """The plain GP and many mGPs, weighted by what they predict on held-out folds (the default).

    Four groups: the plain GP; warm and cold members, mGPs on a small network that contains the plain GP; and members of your own features and kernel.

    Parameters
    ----------
    gp_starts
        Starts of the plain GP.
    warm_members
        Members, trained on all rows, that start at the plain GP and stop early. None: 5, or 4 from 1,200 rows on.
    cold_members
        Members, trained on all rows, that start far from the plain GP. None: 6, or 5 from 1,200 rows on.
    own_members
        Members of your own features, trained on all rows, at most.
    fold_members
        Members of each of these groups on each fold.
    hidden
        Units of the network of warm and cold members.
    q
        Features that this network adds.
    gp_iterations
        Iterations of the plain GP, at most.
    warm_iterations
        Iterations of warm members.
    steps
        Iterations in all, after which held-out rows decide whether cold and own members are trained on: to the second step unless they add next to nothing
        (half of ``keep``) and are no better than the plain GP, further if the last step gained ``go_on``.
    polish
        Iterations of a member on all rows that goes on where one of a fold ended; a quarter of those it had there if that is more.
    temperature
        Nats of the objective by which an own member must be worse to lose a factor e of weight.
    variance_factors
        Each member predicts once for each of these factors of its variance, with a weight of its own.
    gp_prior
        Pseudo-rows, as a fraction of N, that vote for the plain GP; fewer where held-out rows speak against it.
    spread_prior
        Pseudo-rows, as a fraction of N, that vote equally for every component.
    own_rows
        Up to so many rows all own members are trained, if they carry the weight; beyond, in inverse proportion to the rows.
    keep
        Nats a row of the held-out log density: groups that together add less are not trained on all rows.
    go_on
        Nats a row of the held-out log density that a step must gain for the next one to be taken.

    Examples
    --------
    >>> from manifoldgp import ManifoldGPRegressor
    >>> ManifoldGPRegressor(averaging=Stack(warm_members=12))
    ManifoldGPRegressor(averaging=Stack(warm_members=12))
    """

    gp_starts: int = 5
    warm_members: int | None = None
    cold_members: int | None = None
    own_members: int = 20
    fold_members: int = 2
    hidden: int = 8
    q: int = 2
    gp_iterations: int = 200
    warm_iterations: int = 25
    steps: tuple[int, ...] = (25, 80, 200)
    polish: int = 25
    temperature: float = 10.0
    variance_factors: tuple[float, ...] = (1.0, 4.0, 16.0)
    gp_prior: float = 0.05
    spread_prior: float = 0.02
    own_rows: int = 150
    keep: float = 0.005
    go_on: float = 0.05

    def check(self) -> None:
        for name in ("gp_starts", "own_members", "fold_members", "hidden", "q", "own_rows"):
            whole_number(getattr(self, name), name)
        for name in ("warm_members", "cold_members"):
            if getattr(self, name) is not None:
                whole_number(getattr(self, name), name)
        for name in ("gp_iterations", "warm_iterations", "polish"):
            whole_number(getattr(self, name), name, least=0)
        steps = _sequence(self.steps, "steps", "iteration counts that grow, such as (25, 80, 200)")
        growing = all(np.ndim(s) == 0 and isinstance(s, (int, np.integer)) for s in steps) and all(
            a < b for a, b in pairwise(steps)
        )
        if not growing or steps[0] < 1:
            raise InputError(f"steps must be iteration counts that grow, such as (25, 80, 200); got {self.steps!r}.")
        positive_number(self.temperature, "temperature")
        for factor in _sequence(self.variance_factors, "variance_factors", "positive numbers such as (1.0, 4.0, 16.0)"):
            positive_number(factor, "Each of variance_factors")
        for name in ("gp_prior", "spread_prior"):
            if not number_of(getattr(self, name)) >= 0:
                raise InputError(f"{name} must be a fraction of the rows, zero or more; got {getattr(self, name)!r}.")
        for name in ("keep", "go_on"):
            if math.isnan(number_of(getattr(self, name))):
                raise InputError(f"{name} must be a number, in nats a row; got {getattr(self, name)!r}.")

    def nested_members(self, rows: int) -> tuple[int, int]:
        """How many warm and cold members are trained on so many rows.

        Examples
        --------
        >>> Stack().nested_members(1000), Stack().nested_members(1200), Stack(cold_members=9).nested_members(1200)
        ((5, 6), (4, 5), (4, 9))
        """
        less = int(rows >= _MANY_ROWS)
        return (
            5 - less if self.warm_members is None else self.warm_members,
            6 - less if self.cold_members is None else self.cold_members,
        )

    in_words = (
        "The prediction is a weighted average of several models. "
        "Weights were found on held-out rows: whoever predicts those best counts most, and copies with wider intervals are in the choice."
    )
    sparse_obeys = (
        "warm_members", "cold_members", "own_members", "fold_members", "hidden", "q", "warm_iterations", "steps", "variance_factors", "gp_prior",
        "spread_prior", "keep", "go_on",
    )  # fmt: skip
    sparse_words = (
        "the members of a sparse stack go on from step to step on the same rows, and are weighed by held-out rows alone."
    )

    @property
    def weighing(self) -> Weighing:
        """How the groups are weighed."""
        return Weighing(tuple(self.variance_factors), self.gp_prior, self.spread_prior)

    def plan(self, N: int) -> Plan:
        whole, (count, used) = cost(N), folds_for(N)
        part = used * cost(N * (count - 1) // count)
        each = self.fold_members * part
        first, second = self.steps[0], self.steps[min(1, len(self.steps) - 1)]
        on_folds, members = 0.5 * (self.warm_iterations + first), sum(self.nested_members(N))
        further = [
            Phase(step_phase(name, to), to - since, (1.0 if since == first else 0.3) * each * (to - since), to - since)
            for name in STEPPED
            for since, to in pairwise(self.steps)
        ]  # steps after the second one are taken by few
        own = 0.5 * self.own_members * min(1.0, self.own_rows / N) * second * whole
        limit = max(self.steps)
        return Plan(
            (
                plain_phase(self.gp_starts, self.gp_iterations, N),
                Phase(GP_ON_FOLDS, 25, 25 * part, GP_FOLD_ITERATIONS),
                Phase(NESTED_ON_FOLDS, on_folds, 2 * each * on_folds, max(self.warm_iterations, first)),
                Phase(OWN_ON_FOLDS, first, each * first, first),
                *further,
                Phase("nested", self.polish, members * self.polish * whole, max(self.warm_iterations, limit)),
                Phase("own", second, own, limit),
            ),
            at_once=max(self.gp_starts, members, self.own_members),
            kept=(1, members, self.own_members),
        )

    def fit(self, model: Model, data: Data, trainer: Trainer, folds: FoldChoice) -> Averaged:
        # The seed itself: nothing is drawn from the generator, so that the plain GP (of the first target) has the very starts of a GPRegressor.
        rng = np.random.default_rng(trainer.generator.initial_seed())
        return fit_stack(model, data, held_out_in_turn(len(data.y), rng, folds.groups, folds.ordered), self, trainer)

    def plan_sparse(self, N: int, method: Sparse) -> Plan:
        return plan_sparse_stack(N, method, self)

    def fit_sparse(self, model: Model, rows: ModelRows, trainer: SparseTrainer, folds: FoldChoice) -> Averaged:
        return fit_sparse_stack(model, rows, trainer, folds, self)


def _sequence(value: Any, name: str, expected: str) -> tuple[Any, ...]:
    with suppress(TypeError):
        if len(value := tuple(value)):
            return value
    raise InputError(f"{name} must be {expected}; got {value!r}.")


def fit_stack(template: Model, data: Data, folds: list[np.ndarray], settings: Stack, trainer: Trainer) -> Averaged:
    """Weights from the folds (held-out rows of each), members from all rows."""
    gp = trainer.fit("plain GP", plain_gp(template), data, settings.gp_starts, settings.gp_iterations, margin=LOST_MARGIN)
    gp_values = gp.values(np.array([gp.best()]))
    weights, report, groups = weigh_on_folds(template, make_batch(data, folds), gp_values, settings, trainer)
    share = dict(zip(groups, weights, strict=True))

    is_best = np.arange(settings.gp_starts) == gp.best()
    batches, member_weights = [gp], [share["plain GP"][:, None] * is_best]
    warm, cold = settings.nested_members(len(data.y))
    warm, cold = warm if share["warm"].any() else 0, cold if share["cold"].any() else 0
    if warm + cold:
        is_warm = np.arange(warm + cold) < warm
        full = _nested(template, data, gp_values, is_warm, settings, trainer, groups["cold"])
        batches.append(full)
        member_weights.append(
            share["warm"][:, None] * equal_weights(full, is_warm) + share["cold"][:, None] * equal_weights(full, ~is_warm)
        )
    if share["own"].any():
        count = _own_count(share["own"].sum(), len(data.y), settings)
        full = _own(template, data, count, settings, trainer, groups["own"])
        batches.append(full)
        finished = np.where(full.cut_short, np.inf, full.objective)
        inner = tempered_weights(finished, settings.temperature) * np.isfinite(finished)
        member_weights.append(share["own"][:, None] * inner)
    member_weights[0] += (weights.sum(0) - sum(w.sum(1) for w in member_weights))[:, None] * is_best
    return Averaged(batches, member_weights, tuple(settings.variance_factors), report)


def _nested(
    template: Model,
    data: Data,
    gp: Tree,
    is_warm: np.ndarray,
    settings: Stack,
    trainer: Trainer,
    cold_on_folds: Group | None = None,
) -> Trained:
    """Warm and cold members (R,) in one batch: the same architecture, different starts and iteration limits; warm ones start at the plain GP ``gp``."""
    model = nested_gp(template, settings.hidden, settings.q)
    afresh = nested_start(model, pick(gp, np.zeros(len(is_warm), dtype=int)), is_warm)
    cold = np.flatnonzero(~is_warm)
    limits = np.full(len(is_warm), settings.warm_iterations)
    limits[cold], start = _as_on_folds(cold, cold_on_folds, settings)
    return trainer.fit("nested", model, data, len(is_warm), limits, lambda drawn: start(afresh(drawn)))


def _own(template: Model, data: Data, count: int, settings: Stack, trainer: Trainer, on_folds: Group) -> Trained:
    """Members of the user's own architecture."""
    limits, start = _as_on_folds(np.arange(count), on_folds, settings)
    return trainer.fit("own", template, data, count, limits, start, margin=LOST_AFTER * settings.temperature)


def _as_on_folds(members: np.ndarray, group: Group | None, settings: Stack) -> tuple[np.ndarray, Callable[[Tree], Tree]]:
    """Iteration limits of some members, and what becomes of their starts.

    Members of a group that held-out rows stopped after the first step start afresh and stop there too. Those of another go on where members of
    the folds ended, and as many start afresh as are missing; all of them do where features have constants of the rows.
    """
    if group is None or group.iterations <= settings.steps[0]:
        return np.full(len(members), settings.steps[0]), lambda drawn: drawn
    if (
        next(leaves(group.batch.constants), None) is not None
    ):  # a projection, say, of the rows of the folds: what was learnt on it fits no other
        return np.full(len(members), group.iterations), lambda drawn: drawn
    trained, going_on = group.across_folds(), members[: group.inner.size]
    limits = np.full(len(members), group.iterations)
    limits[: len(going_on)] = max(settings.polish, group.iterations // 4)
    return limits, lambda drawn: _replaced(drawn, going_on, trained)


def _replaced(drawn: Tree, members: np.ndarray, trained: Tree) -> Tree:
    """Drawn values (R, ...) with some members' replaced by the first of ``trained`` (at least as many)."""
    index, named = torch.as_tensor(members), dict(leaves(trained))
    changed = {name: leaf.index_copy(0, index.to(leaf.device), named[name][: len(members)]) for name, leaf in leaves(drawn)}
    return nest(changed)


def _own_count(share: float, N: int, settings: Stack) -> int:
    """How many members of the user's own architecture: fewer where they carry less weight, or where many rows tell them apart anyway."""
    count = 2.0 * share * settings.own_members * min(1.0, settings.own_rows / N)
    return int(np.clip(np.ceil(count), settings.fold_members, settings.own_members))


def equal_weights(batch: Trained, chosen: np.ndarray) -> np.ndarray:
    """Equal weights (R,) over the chosen members that were trained to their end; zeros where there is none."""
    usable = chosen & np.isfinite(batch.objective) & ~batch.cut_short
    return usable / max(usable.sum(), 1)
