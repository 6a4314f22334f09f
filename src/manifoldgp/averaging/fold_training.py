"""Groups on folds: their members trained on the rows of each fold, and what they predict on the rows held out.

A member learns its parameters from the rows of its fold, or from a sample of them where there are many, and predicts with all of them.
Some groups are trained in steps, and after each of them held-out rows decide: a group that adds next to nothing and is no better than the plain GP goes no
further, one that a step made worse stays as it was before that step (early stopping), and one that gains much goes on for longer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import logsumexp, ndtr
from torch import Tensor

from manifoldgp.averaging.fold_groups import Group, Predicted, candidates_of, equal_weights_of, tempered_weights_of
from manifoldgp.averaging.fold_predictions import Folds, predict_held_out
from manifoldgp.averaging.kinds import COLD, OWN, PLAIN, ROUGH, ROUGH_GP, STEPPED, WARM, plain_models, rough_nested
from manifoldgp.averaging.members import nested_gp, pick, warm_and_cold
from manifoldgp.averaging.stacking import Candidates, HeldOutReport
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, leaves
from manifoldgp.training.plan import LEAST_KEPT
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Trainer

if TYPE_CHECKING:
    from manifoldgp.averaging.stack import Stack

GP_FOLD_ITERATIONS = 50

DECIDE_ROWS = 2500
"""Rows that members predict with, at most, while it is decided who is trained on. Weights are found with all rows."""

FACTOR_BYTES = 2**32
"""Memory that the factors of all members may take together; beyond, the groups that are missed least are left out."""

FOR_TRAINING = 0.85
"""Share of a time budget in which members are trained on the folds; the rest is for weighing and conditioning them."""

NEARBY_ITERATIONS = 30
"""Iterations on all rows, in neighbourhoods, of members that learnt from a sample and went no further."""

PATIENT_BELOW = 300
"""Rows below which every group takes the second step: it costs next to nothing there, and few held-out rows misjudge a network that has just begun."""

SCREEN_ROWS, SCREEN_ITERATIONS = 250, 30
"""Rows on which starts of the plain GP, and further plain GPs, are compared first, and iterations of the latter there."""

SCREEN_FROM = 300
"""Rows beyond which that is done."""


def many_rows(rows: int, learn_rows: int) -> bool:
    """Whether a fold with so many rows has clearly more than the sample that members learn from at first, so that they go on with all of them."""
    return rows > 1.5 * learn_rows


def fold_phase(group: str) -> str:
    """The name of the phase that trains a group on the folds."""
    return f"{group} on folds"


def screen_phase(group: str) -> str:
    """The name of the phase that tries a plain GP on few rows."""
    return f"{group} on few rows"


def nearby_phase(group: str) -> str:
    """The name of the phase in which a group learns from all rows."""
    return f"{group} on all rows"


def step_phase(group: str, iterations: int) -> str:
    """The name of the phase that trains a group on, to so many iterations in all."""
    return f"{group} on folds, to {iterations}"


class OnFolds:
    """The groups of one stack on their way through the folds. groups, predicted: so far, by name. rough_base: plain GPs of the folds that rough members start around."""

    def __init__(self, template: Model, folds: Folds, settings: Stack, trainer: Trainer, rng: np.random.Generator) -> None:
        self.template, self.folds, self.settings, self.rng = template, folds, settings, rng
        self.deciding = folds.with_fewer_rows(DECIDE_ROWS, rng)
        self.rough_base: Tree | None = None
        self._end, self._conditioning = trainer.deadline, 0.0  # seconds for each member that predicts
        self.trainer = trainer.within(FOR_TRAINING, LEAST_KEPT)
        self.groups: dict[str, Group] = {}
        self.predicted: dict[str, Predicted] = {}

    @property
    def idle(self) -> frozenset[str]:
        """Groups that an earlier fit to the same rows found of no use."""
        return frozenset() if self.trainer.earlier is None else self.trainer.earlier.idle

    @property
    def candidates(self) -> Candidates:
        return candidates_of(self.predicted)

    def weigh(self, gp_values: Tree) -> tuple[np.ndarray, HeldOutReport]:
        """Train every group on every fold; weights (G, F) and their report. gp_values: a plain GP, leaves (1, *shape), where those of the folds start."""
        self.train_plain(gp_values)
        if not self.late and not self.idle >= {WARM, *STEPPED}:
            self.train_networks()
        for name in STEPPED:
            if name in self.groups:
                self.take_steps(name)
        if self.many and not self.late:
            self.learn_from_all_rows()
        kept = self._in_time(self.needed())
        if self.deciding is not self.folds:
            self.groups = {name: group for name, group in self.groups.items() if name in kept}
            self.predicted = {name: self._predicted(group, self.folds) for name, group in self.groups.items()}
            kept = self._in_time(self.needed())
        weights, report = self.settings.weighing.weights(self.candidates, kept)
        return weights, self._with_means(report)

    def needed(self) -> list[str]:
        """The groups that are missed if they are left out; the plain GP is one of them. When time is up nobody asks: all of them."""
        weighing = self.settings.weighing
        kept = list(self.groups) if self.late else weighing.needed(self.candidates, self._optional, self.settings.keep)
        return self._at_most(max(3, int(FACTOR_BYTES / (8 * self.folds.N**2))), kept, least=2)

    def _in_time(self, kept: list[str]) -> list[str]:
        """Those of the groups that can be conditioned on all rows in the time that is left; the plain GP at least."""
        return self._at_most(self._time_left / self._conditioning, kept, least=1) if self._conditioning else kept

    def _at_most(self, members: float, kept: list[str], least: int) -> list[str]:
        """Groups with so many members together, or so few groups: those that are missed least are left out."""
        while len(kept) > least and sum(self.groups[name].inner.size for name in kept) > members:
            kept = self._without_lightest(kept) if self.late else self._without_least_missed(kept)
        return kept

    def _without_least_missed(self, kept: list[str]) -> list[str]:
        return self.settings.weighing.without_least_missed(self.candidates, kept, self._optional)[0]

    def _without_lightest(self, kept: list[str]) -> list[str]:
        """Without the group that has the least weight: known at once."""
        weights, _ = self.settings.weighing.weights(self.candidates, kept)
        share = dict(zip(self.groups, weights.sum(1), strict=True))
        lightest = min((name for name in kept if name != PLAIN), key=share.__getitem__)
        return [name for name in kept if name != lightest]

    @property
    def _optional(self) -> list[str]:
        return [name for name in self.groups if name != PLAIN]

    def _keep_time(self, seconds: float) -> None:
        """Training has to end before the deadline: every member that predicts needs a factor of its fold's rows, and one of all rows. seconds: that a first prediction took."""
        if self._end == math.inf:
            return
        (K, n), m, some = self.folds.train.y.shape, self.folds.X.shape[1], self.deciding.train.y.shape[1]
        work = n**3 / 3 + n * n * m + self.folds.N**3 / 3
        self._conditioning = seconds / K * work / (some**3 / 3 + some * some * m)
        members = K * (1 + 2 * self.settings.fold_members)
        kept = min(members * self._conditioning, 0.6 * self._time_left)
        self.trainer = replace(self.trainer, deadline=min(self._end - kept, self.trainer.deadline))

    @property
    def _time_left(self) -> float:
        return self._end - time.perf_counter()

    @property
    def many(self) -> bool:
        """Whether the folds have clearly more rows than the sample that members learn from at first."""
        return many_rows(self.folds.train.y.shape[-1], self.settings.learn_rows)

    def learn_from_all_rows(self) -> None:
        """Some iterations on all rows for the groups that count and have seen a sample of them only, which says less about noise and length-scales."""
        for name in self.needed():
            group = self.groups[name]
            if group.parts == 1 and not self.late:
                self._replace_if_better(name, self._further(group, name, nearby_phase(name), NEARBY_ITERATIONS))

    @property
    def late(self) -> bool:
        """Whether the time is up: what has not begun is left out."""
        return self.trainer.late

    def wanted(self, name: str, among: Candidates, optional: Sequence[str]) -> bool:
        """Whether a group is better than the plain GP, or adds more than next to nothing to the others."""
        return among.better_than_gp(name) or name in self.settings.weighing.needed(among, optional, 0.5 * self.settings.keep)

    def train_plain(self, gp_values: Tree) -> None:
        """The plain GP on every fold, and those with other kernels, unless a sample of the rows says that they are not worth it."""
        models = plain_models(self.template, self.folds.X.shape[-1])
        data = self.learning(1)
        self._add(PLAIN, self._plain(fold_phase(PLAIN), models[PLAIN], data, self._start_at(gp_values), GP_FOLD_ITERATIONS))
        self.rough_base = self.groups[PLAIN].values if ROUGH_GP in models else None
        for name in () if self.late else self._screened(models, gp_values):
            if self.late:
                break
            start = self._start_at(self.groups[PLAIN].values) if name == ROUGH_GP else None
            self._add(name, self._plain(fold_phase(name), models[name], data, start, GP_FOLD_ITERATIONS))
            if name == ROUGH_GP:
                self.rough_base = self.groups[name].values

    def _screened(self, models: dict[str, Model], gp_values: Tree) -> list[str]:
        """The further plain GPs that are worth training on all rows of the folds: all of them where rows are few, else those that do well on a sample."""
        others = [name for name in models if name != PLAIN and name not in self.idle]
        if self.folds.train.y.shape[-1] <= SCREEN_FROM or not others:
            return others
        few = self.folds.learning(1, SCREEN_ROWS, self.rng)
        on_few = replace(self.folds, train=few)
        found = {}
        for name, model in models.items():
            if name in self.idle:
                continue
            if self.late:
                return []
            start = None if name not in (PLAIN, ROUGH_GP) else self._start_at(gp_values)
            group = self._plain(screen_phase(name), model, few, start, SCREEN_ITERATIONS)
            found[name] = self._predicted(group, on_few)
        return [name for name in others if self.wanted(name, candidates_of(found), others)]

    def _start_at(self, values: Tree) -> Callable[[Tree], Tree]:
        started = pick(values, np.arange(self.folds.count) % max(leaf.shape[0] for _, leaf in leaves(values)))
        return lambda drawn: started

    def _plain(self, phase: str, model: Model, data: Data, start: Callable[[Tree], Tree] | None, iterations: int) -> Group:
        K = self.folds.count
        batch = self.trainer.fit(phase, model, data, K, iterations, start or (lambda drawn: drawn))
        return Group(batch, np.arange(K), np.ones((K, 1)), iterations, data)

    def train_networks(self) -> None:
        """The first step of every group with learned features."""
        K, s, members = self.folds.count, self.settings, self.settings.fold_members
        first = s.steps[0]
        is_warm = np.tile(np.arange(2 * members) < members, K)
        model, data = nested_gp(self.template, s.hidden, s.q), self.learning(2 * members)
        base = pick(self.groups[PLAIN].values, np.repeat(np.arange(K), 2 * members))
        limits = np.where(is_warm, s.warm_iterations, first)
        batch = self.trainer.fit(fold_phase("nested"), model, data, len(is_warm), limits, nested_start(model, base, is_warm))
        for name, chosen, iterations in ((WARM, is_warm, s.warm_iterations), (COLD, ~is_warm, first)):
            inner = equal_weights_of(batch.objective[chosen], K)
            self._add(name, Group(batch, np.flatnonzero(chosen), inner, iterations, data.rows(_index(chosen))))
        for name in (ROUGH, OWN):
            if (name == OWN or self.rough_base is not None) and name not in self.idle and not self.late:
                self._add(name, self._begun(name))

    def _begun(self, name: str) -> Group:
        """Rough or own members after the first step."""
        K, s, members = self.folds.count, self.settings, self.settings.fold_members
        data, first = self.learning(members), s.steps[0]
        if name == OWN:
            batch = self.trainer.fit(fold_phase(OWN), self.template, data, K * members, first)
        else:
            assert self.rough_base is not None
            model, gp = rough_nested(self.template, s.hidden, s.q), pick(self.rough_base, np.repeat(np.arange(K), members))
            start = nested_start(model, gp, np.zeros(K * members, dtype=bool))
            batch = self.trainer.fit(fold_phase(ROUGH), model, data, K * members, first, start)
        return Group(batch, np.arange(K * members), self._inner(name, batch), first, data)

    def take_steps(self, name: str) -> None:
        """Train a group on, step by step, while held-out rows want it."""
        for number, iterations in enumerate(self.settings.steps[1:]):
            patient = number == 0 and self.folds.N < PATIENT_BELOW
            if self.late or (
                not patient and not self.wanted(name, self.candidates, [other for other in STEPPED if other in self.groups])
            ):
                return
            group = self.groups[name]
            further = self._further(group, name, step_phase(name, iterations), iterations - group.iterations)
            gain = self._replace_if_better(name, further)
            if gain < self.settings.go_on:
                return

    def _replace_if_better(self, name: str, further: Group) -> float:
        """Take another state of a group if the stack gains by it; what it gains, nats a row."""
        later = {**self.predicted, name: self._predicted(further, self.deciding)}
        value = self.settings.weighing.value
        gain = value(candidates_of(later)) - value(self.candidates)
        if gain > 0.0:
            self.groups[name], self.predicted = further, later
        return gain

    def _further(self, group: Group, name: str, phase: str, iterations: int) -> Group:
        """The group after so many more iterations: on the same rows, or on all of them where there are many."""
        K, members = group.inner.shape
        values = group.values
        data, parts = self._nearby(members) if self.many else (group.data, 1)
        batch = self.trainer.fit(phase, group.batch.model, data, K * members, iterations, lambda _: values, parts=parts)
        return Group(batch, np.arange(K * members), self._inner(name, batch), group.iterations + iterations, data, parts)

    def _inner(self, name: str, batch: Trained) -> np.ndarray:
        """Inner weights (K, members) of a group that is this whole batch: own members count by their objectives, since some of them fail; others the same."""
        K = self.folds.count
        return (
            tempered_weights_of(batch.objective, K, self.settings.temperature)
            if name == OWN
            else equal_weights_of(batch.objective, K)
        )

    def _nearby(self, members: int) -> tuple[Data, int]:
        """Neighbourhoods of all rows, near in terms of the plain GP's length-scales, for so many members of every fold."""
        found = dict(leaves(self.groups[PLAIN].values)).get("kernel.lengthscale")
        D = self.folds.X.shape[-1]
        scale = np.ones((self.folds.count, D)) if found is None else found.cpu().numpy() * np.ones(D)
        return self.folds.neighbourhoods(members, self.settings.learn_rows // 2, scale, self.rng)

    def learning(self, members: int) -> Data:
        """What so many members of every fold learn from."""
        return self.folds.learning(members, self.settings.learn_rows, self.rng)

    def _add(self, name: str, group: Group) -> None:
        self.groups[name] = group
        begin = time.perf_counter()
        self.predicted[name] = self._predicted(group, self.deciding)
        if name == PLAIN:
            self._keep_time(time.perf_counter() - begin)

    def _predicted(self, group: Group, folds: Folds) -> Predicted:
        K, members = group.inner.shape
        factors = self.settings.variance_factors
        each = predict_held_out(group.batch.model, group.values, folds.for_members(members), factors, self.trainer.workers)
        shape = (len(each.log_density), K, members, -1)
        w = group.inner[None, :, :, None]
        log_density = np.asarray(logsumexp(each.log_density.reshape(shape), axis=2, b=w))
        return Predicted((folds.by_row(log_density), folds.by_row((w * ndtr(each.score.reshape(shape))).sum(2))), each)

    def _with_means(self, report: HeldOutReport) -> HeldOutReport:
        """The report with the stack's means of the held-out rows, their targets, and the groups that were stopped on their way."""
        folds, mean = self.folds, np.zeros(self.folds.N)
        for (name, group), weights in zip(self.groups.items(), report.weights, strict=True):
            if weights.any():
                K, members = group.inner.shape
                each = self.predicted[name].members.means(group.batch.model, group.values, self.settings.variance_factors)
                mixed = (group.inner[None, :, :, None] * each.reshape(len(weights), K, members, -1)).sum(2)
                mean += np.tensordot(weights, folds.by_row(mixed), 1)
        observed = folds.by_row(folds.y.cpu().numpy())
        seen = np.isfinite(observed)
        stopped = tuple(name for name, group in self.groups.items() if group.batch.cut_short[group.chosen].any())
        return replace(report, mean=mean[seen], observed=observed[seen], cut_short=stopped)


def _index(flags: np.ndarray) -> Tensor:
    return torch.as_tensor(np.flatnonzero(flags))


def nested_start(model: Model, gp: Tree, is_warm: np.ndarray) -> Callable[[Tree], Tree]:
    """From drawn values to those of warm and cold starts around the plain GPs ``gp``."""
    return lambda drawn: warm_and_cold(drawn, model.features.width, gp, is_warm)  # type: ignore[attr-defined]
