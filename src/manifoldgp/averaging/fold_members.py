"""The members of groups on folds: which rows they learn from, where they begin, how they go on, and how much each of them counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manifoldgp.averaging.fold_contest import FoldContest
from manifoldgp.averaging.fold_groups import Group, equal_weights_of, tempered_weights_of
from manifoldgp.averaging.fold_predictions import Folds
from manifoldgp.averaging.fold_steps import (
    FINE_STEPS_FROM,
    GP_FOLD_ITERATIONS,
    NEARBY_ROWS,
    SCREEN_FROM,
    fine_phase,
    first_rows,
    fold_phase,
    many_rows,
    parted,
)
from manifoldgp.averaging.kinds import COLD, LARGE, OWN, PLAIN, large, rough_nested
from manifoldgp.averaging.members import nested_gp, nested_start, pick
from manifoldgp.averaging.searched_gp import trained_further
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, leaves, members_in
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Start, Trainer, Training

if TYPE_CHECKING:
    from manifoldgp.averaging.stack import Stack


class FoldMembers:
    """Makes members of every kind for the folds of a stack. contest: the groups so far, whose plain GPs others start around.

    size: hidden units and features of the networks that go on. rough_base: plain GPs of the folds that rough members start around.
    """

    def __init__(self, template: Model, folds: Folds, settings: Stack, rng: np.random.Generator, contest: FoldContest) -> None:
        self.template, self.folds, self.settings, self.rng, self.contest = template, folds, settings, rng, contest
        self.size = settings.hidden, settings.q
        self.rough_base: Tree | None = None
        self.first = settings.steps_for(folds.N)[0]
        self.remembers = folds.N >= FINE_STEPS_FROM

    @property
    def part(self) -> int:
        """Training rows of a fold."""
        return self.folds.train.y.shape[-1]

    @property
    def few(self) -> bool:
        """Whether the folds have so few rows that nothing is tried on a part of them, and cores gain nothing by more trainings at once."""
        return self.part <= SCREEN_FROM and not self.many

    @property
    def many(self) -> bool:
        """Whether the folds have clearly more rows than the sample that members learn from at first."""
        return many_rows(self.part, self.settings.learn_rows)

    @property
    def rows(self) -> int:
        """How many rows a member learns from at first."""
        return self.settings.learn_rows if self.many else self.part

    def learning(self, members: int) -> Data:
        """What so many members of every fold learn from."""
        return self.folds.learning(members, self.rows, self.rng)

    def _nearby(self, members: int, rows: int) -> tuple[Data, int]:
        """Neighbourhoods of about so many rows among all of them, near in terms of the plain GP's length-scales, for so many members of every fold."""
        return self.folds.neighbourhoods(members, rows, NEARBY_ROWS, self.scale_of(self._plain_values), self.rng)

    def scale_of(self, values: Tree) -> np.ndarray:
        """How long each input is (K, D), in terms of the length-scales of plain GPs; the same for all folds of one GP, or of one without length-scales."""
        found = dict(leaves(values)).get("kernel.lengthscale")
        shape = self.folds.count, self.folds.X.shape[-1]
        return np.ones(shape) if found is None else np.broadcast_to(found.cpu().numpy() * np.ones(shape[1]), shape)

    @property
    def _plain_values(self) -> Tree:
        return self.contest.groups[PLAIN].values

    def start_at(self, values: Tree, folds: int = 0) -> Start:
        """Where the plain GP of each fold starts. values: of one GP, or of one for every fold. folds: how many; all by default."""
        started = pick(values, np.arange(folds or self.folds.count) % members_in(values))
        return lambda drawn: started

    def plain(self, name: str, model: Model, data: Data, start: Start) -> Training:
        """Of a plain GP: one member for every fold."""
        return Training(fold_phase(name), model, data, self.folds.count, GP_FOLD_ITERATIONS, start, remembers=self.remembers)

    def nested(self) -> tuple[Training, np.ndarray]:
        """The first step of warm and cold members together, and which of them (K · 2 members,) are warm."""
        K, s, members = self.folds.count, self.settings, self.settings.fold_members
        is_warm = np.tile(np.arange(2 * members) < members, K)
        model, data = nested_gp(self.template, s.hidden, s.q), self.learning(2 * members)
        base = pick(self._plain_values, np.repeat(np.arange(K), 2 * members))
        limits = np.where(is_warm, s.warm_iterations, self.first)
        start = nested_start(model, base, is_warm)
        return Training(fold_phase("nested"), model, data, len(is_warm), limits, start, remembers=self.remembers), is_warm

    def begun(self, name: str) -> Training:
        """The first step of cold, large, rough or own members."""
        K, s, members = self.folds.count, self.settings, self.settings.fold_members
        data, first = self.learning(members), self.first
        if name == OWN:
            return Training(fold_phase(OWN), self.template, data, K * members, first, remembers=self.remembers)
        if name == COLD:
            model, base = nested_gp(self.template, s.hidden, s.q), self._plain_values
        elif name == LARGE:
            model, base = nested_gp(self.template, *large(s.hidden, s.q)), self._plain_values
        else:
            assert self.rough_base is not None
            model, base = rough_nested(self.template, *self.size), self.rough_base
        gp = pick(base, np.repeat(np.arange(K), members))
        start = nested_start(model, gp, np.zeros(K * members, dtype=bool))
        return Training(fold_phase(name), model, data, K * members, first, start, remembers=self.remembers)

    def one_each(self, training: Training, batch: Trained) -> Group:
        """A group with one member for every fold."""
        K = self.folds.count
        return Group(batch, np.arange(K), np.ones((K, 1)), int(np.max(training.max_iter)), training.data)

    def whole_batch(self, name: str, training: Training, batch: Trained) -> Group:
        """A group that is this whole batch, after its first step."""
        return Group(batch, np.arange(len(batch.objective)), self._inner(name, batch), self.first, training.data)

    def further(self, group: Group, name: str, phase: str, iterations: int, trainer: Trainer) -> Group:
        """The group after so many more iterations: on the same rows, or on all of them where there are many, the last iterations with more rows at once."""
        learn_rows = self.settings.learn_rows
        if group.further:
            return trained_further(group, *self._nearby(1, learn_rows), phase, iterations, trainer)
        if not self.many:
            return self._trained_on(group, name, phase, iterations, trainer, group.data, 1)
        members = group.inner.shape[1]
        first, last = parted(iterations, self.part, learn_rows)
        if first:
            group = self._trained_on(
                group, name, phase, first, trainer, *self._nearby(members, first_rows(self.part, learn_rows))
            )
            if trainer.late or not np.isfinite(group.batch.objective).all():
                return group
            phase = fine_phase(phase)
        fine = self._trained_on(group, name, phase, last, trainer, *self._nearby(members, learn_rows))
        return group if first and not np.isfinite(fine.batch.objective).all() else fine

    def _trained_on(
        self, group: Group, name: str, phase: str, iterations: int, trainer: Trainer, data: Data, parts: int
    ) -> Group:
        """The group after so many more iterations on these rows, which are so many data sets for each member."""
        K, members = group.inner.shape
        values = group.values
        given = {"parts": parts, "curvature": group.curvature(parts * data.y.shape[-1]), "remembers": self.remembers}
        batch = trainer.fit(phase, group.batch.model, data, K * members, iterations, lambda _: values, **given)
        return Group(batch, np.arange(K * members), self._inner(name, batch), group.iterations + iterations, data, whole=True)

    def _inner(self, name: str, batch: Trained) -> np.ndarray:
        """Inner weights (K, members) of a group that is this whole batch: own members count by their objectives, since some of them fail; others the same."""
        K = self.folds.count
        return (
            tempered_weights_of(batch.objective, K, self.settings.temperature)
            if name == OWN
            else equal_weights_of(batch.objective, K)
        )
