"""The way of a stack through its folds: in which order groups are trained there, and who of them goes on.

A member learns its parameters from the rows of its fold, or from a sample of them where there are many, and predicts with all of them.
Some groups are trained in steps, and after each of them held-out rows decide: a group that adds next to nothing and is no better than the plain GP goes no
further, one that a step made worse stays as it was before that step (early stopping), and one that gains much goes on for longer.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from manifoldgp.averaging.averages import RANDOM_ROWS, FoldChoice
from manifoldgp.averaging.fold_contest import DECIDE_ABOVE, FoldContest
from manifoldgp.averaging.fold_groups import Group, candidates_of, equal_weights_of
from manifoldgp.averaging.fold_members import FoldMembers
from manifoldgp.averaging.fold_predictions import Folds
from manifoldgp.averaging.fold_steps import (
    NEARBY_ITERATIONS,
    PATIENT_BELOW,
    SCREEN_ITERATIONS,
    SCREEN_ROWS,
    more_phase,
    nearby_phase,
    network_order,
    rounds_of_more,
    screen_phase,
    step_phase,
)
from manifoldgp.averaging.kinds import (
    COLD,
    LARGE,
    PLAIN,
    ROUGH,
    ROUGH_GP,
    SEARCHED_GP,
    STEPPED,
    WARM,
    large,
    plain_models,
)
from manifoldgp.averaging.searched_gp import search_on_folds
from manifoldgp.averaging.stacking import PLAIN_GPS, HeldOutReport
from manifoldgp.model import Model
from manifoldgp.parameters import Tree
from manifoldgp.training.plan import LEAST_KEPT
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Trainer, Training, as_drawn

if TYPE_CHECKING:
    from manifoldgp.averaging.stack import Stack

FOR_TRAINING = 0.85
"""Share of a time budget in which members are trained on the folds; the rest is for weighing and conditioning them."""

COUNTS = 0.05
"""Weight of a group from which on it learns from all rows, where it has seen a sample of them so far, and from which on it predicts where somebody stops the training."""

CARRIES = 0.2
"""Weight of a group from which on it may get further members."""

SORTING = 60_000
"""Operations that take as long as finding the cell of a row, its features included, among the rows of a fold and again among all rows."""


class OnFolds:
    """The groups of one stack on their way through the folds. contest: those that have begun, and what held-out rows say.

    members: how those of every group begin and go on. networks: whether there are members with learned features. choice: which rows may err together.
    """

    def __init__(
        self,
        template: Model,
        folds: Folds,
        settings: Stack,
        trainer: Trainer,
        rng: np.random.Generator,
        networks: bool = True,
        choice: FoldChoice = RANDOM_ROWS,
    ) -> None:
        self.template, self.folds, self.settings, self.rng, self.networks = template, folds, settings, rng, networks
        self.contest = FoldContest(folds, settings, trainer, lambda: self.late, choice)
        self.members = FoldMembers(template, folds, settings, rng, self.contest)
        self._end, self._conditioning = trainer.deadline, 0.0  # seconds for each member that predicts
        self.trainer = trainer.within(FOR_TRAINING, LEAST_KEPT)
        self.steps = settings.steps_for(folds.N)
        self._gained: dict[str, float] = {}  # nats a row that the stack gained by the last step of a group
        self._taken_back: set[str] = set()  # groups that held-out rows prefer as they were before their last step

    @property
    def groups(self) -> dict[str, Group]:
        """The groups so far, by name."""
        return self.contest.groups

    @property
    def idle(self) -> frozenset[str]:
        """Groups that an earlier fit to the same rows found of no use."""
        return frozenset() if self.trainer.earlier is None else self.trainer.earlier.idle

    def weigh(self, gp_values: Tree) -> tuple[np.ndarray, np.ndarray, HeldOutReport]:
        """Train every group on every fold; weights (G, F), the log variances (G,) at which groups count so, and their report.

        gp_values: a plain GP, leaves (1, *shape), where those of the folds start.

        Ctrl-C ends training; groups that were finished are kept as far as they count, the plain GP at least.
        """
        if self.folds.train.y.shape[-1] > DECIDE_ABOVE:
            self.contest.decide_by_few(self.members.scale_of(gp_values)[0], self.rng)
        try:
            self.train(gp_values)
        except KeyboardInterrupt:
            if PLAIN not in self.groups:
                raise
            self.trainer.interrupt()
        contest, needed = self.contest, self.contest.needed()
        kept, stopped = self._in_time(needed), self.trainer.stopped.is_set()
        if contest.by_few:
            if stopped:  # somebody waits for what is done now
                kept = contest.carrying(kept, COUNTS)
            contest.keep(kept, needed)
            if not stopped and self._in_time(kept, skip=False) == kept:
                contest.decide_by_all()
                kept = self._in_time(self.contest.needed())
        return contest.weights(kept)

    def train(self, gp_values: Tree) -> None:
        """All groups, one step after another."""
        further = self.train_plain(gp_values)
        self._search()
        if self.late:
            return
        networks = [name for name in (WARM, *STEPPED) if self.networks and self._possible(name)]
        if self.members.few or not networks:
            self._add_plain(further, self.trainer.fit_together(list(further.values())))
            further = {}
        if networks and not self.late:
            self.train_networks(further)
            if self.members.many:
                self.choose_size()
        for name in STEPPED:
            if name in self.groups:
                self.take_steps(name)
        if self.members.many and not self.late:
            self.learn_from_all_rows()
        for _ in range(rounds_of_more(self.folds.N)):
            if self.late or not self.train_more():
                return

    def _search(self) -> None:
        """A plain GP with a kernel that is searched for on every fold, where that is asked for."""
        if self.settings.search is None or self.late or SEARCHED_GP in self.idle:
            return
        found = search_on_folds(self.settings.search, self.template, self.folds, self.members.rows, self.trainer)
        if found is not None:
            self._add(SEARCHED_GP, found)

    def _in_time(self, kept: list[str], skip: bool = True) -> list[str]:
        """Those of the groups that can be conditioned on all rows in the time that is left; the plain GP at least. skip: local members are conditioned where they predict, and
        may be weighed by what they said while it was decided who is trained on."""
        if not self._conditioning or (skip and self.contest.local):
            return kept
        return self.contest.at_most(self._time_left / self._conditioning, kept, least=1)

    def _keep_time(self, seconds: float) -> None:
        """Training has to end before the deadline: every member that predicts needs a factor of its fold's rows, and one of all rows; local ones
        can do without both, but sort all rows into cells. seconds: that a first prediction took."""
        if self._end == math.inf:
            return
        (K, n), m = self.folds.train.y.shape, self.folds.X.shape[1]
        cells, some = self.contest.deciding.train.y.shape
        pace = seconds / (cells * (some**3 / 3 + some * some * self.contest.deciding.X.shape[1]))
        self._conditioning = pace * (n**3 / 3 + n * n * m + self.folds.N**3 / 3)
        after = self._conditioning
        if self.contest.local:
            assert self.trainer.nearness is not None
            cell, near = self.trainer.nearness.cell, self.trainer.nearness.near
            self._conditioning = pace * (n / cell * near**3 / 3 + near * near * m)
            after = pace * SORTING * self.folds.N
        members = K * (1 + 2 * self.settings.fold_members)
        kept = min(members * after, 0.6 * self._time_left)
        self.trainer = replace(self.trainer, deadline=min(self._end - kept, self.trainer.deadline))

    @property
    def _time_left(self) -> float:
        return self._end - self.trainer.now()

    def learn_from_all_rows(self) -> None:
        """Some iterations on all rows for the groups that count and have seen a sample of them only, which says less about noise and length-scales.

        Not for those whose step on all rows was taken back: held-out rows have said what they think of it.
        """
        share = self.contest.share(self.contest.needed())
        for name in [name for name, weight in share.items() if weight >= COUNTS and name not in self._taken_back]:
            group = self.groups[name]
            if not group.whole and not self.late:
                self.contest.replace_if_better(
                    name, self.members.further(group, name, nearby_phase(name), NEARBY_ITERATIONS, self.trainer)
                )

    def train_more(self) -> bool:
        """Further members for the groups that carry the stack, which go the way that the others went; whether the stack gains enough by them to ask for more."""
        share, gained = self.contest.share(self.contest.needed()), 0.0
        for name in [name for name in STEPPED if share.get(name, 0.0) >= CARRIES]:
            if not self.late:
                gained += max(0.0, self.contest.replace_if_better(name, self._with_more(name)))
        return gained >= self.settings.keep

    def _with_more(self, name: str) -> Group:
        """The group with as many members again as a fold has at first."""
        group, training = self.groups[name], replace(self.members.begun(name), phase=more_phase(name))
        new = self.members.whole_batch(name, training, self.trainer.fit_together([training])[0])
        if self.late or not np.isfinite(new.batch.objective).all():
            return group
        if group.iterations > new.iterations:
            new = self.members.further(new, name, more_phase(name), group.iterations - new.iterations, self.trainer)
        return group.joined_by(new)

    @property
    def late(self) -> bool:
        """Whether the time is up: what has not begun is left out."""
        return self.trainer.late

    def train_plain(self, gp_values: Tree) -> dict[str, Training]:
        """The plain GP on every fold, and trainings of those with other kernels, unless a sample of the rows says that they are not worth it."""
        models = plain_models(self.template, self.folds.X.shape[-1])
        data, others = self.members.learning(1), [name for name in models if name != PLAIN and name not in self.idle]
        screened_on = self._usual_fold()
        few = screened_on.learning(1, SCREEN_ROWS, self.rng) if others and not self.members.few else None
        start = self.members.start_at(gp_values)
        plain = self.members.plain(PLAIN, models[PLAIN], data, start)
        tried = {} if few is None else {
            name: Training(screen_phase(name), models[name], few, 1, SCREEN_ITERATIONS, self.members.start_at(gp_values, 1) if name in (PLAIN, ROUGH_GP) else as_drawn)
            for name in (PLAIN, *others)
        }  # fmt: skip
        batch, *screened = self.trainer.fit_together([plain, *tried.values()])
        self._add_plain({PLAIN: plain}, [batch])
        self.members.rough_base = self.groups[PLAIN].values if ROUGH_GP in models else None
        if few is not None:
            others = self._worth_it(dict(zip(tried, screened, strict=True)), replace(screened_on, train=few), others)
        start = self.members.start_at(self.groups[PLAIN].values)
        return {name: self.members.plain(name, models[name], data, start if name == ROUGH_GP else as_drawn) for name in others}

    def _usual_fold(self) -> Folds:
        """The fold with the most usual number of held-out rows: one is enough to see who is far behind."""
        held_out = (self.folds.where >= 0).sum(1)
        return self.folds.part(int(np.argmin(np.abs(held_out - held_out.mean()))), self.folds.count)

    def _worth_it(self, tried: dict[str, Trained], fold: Folds, others: list[str]) -> list[str]:
        """Which of the further plain GPs, by what they and the plain GP learnt from few rows of one fold, are worth training on all rows of the folds."""
        if self.late:
            return []
        one = np.ones((1, 1))
        groups = {name: Group(batch, np.zeros(1, dtype=int), one, SCREEN_ITERATIONS, fold.train) for name, batch in tried.items()}
        found = {name: self.contest.predict(group, fold) for name, group in groups.items()}
        missed = self.contest.missed(candidates_of(found), others)
        return [name for name in others if name in missed]

    def _add_plain(self, trainings: dict[str, Training], batches: list[Trained]) -> None:
        for (name, training), batch in zip(trainings.items(), batches, strict=True):
            self._add(name, self.members.one_each(training, batch))
        if ROUGH_GP in self.groups:
            self.members.rough_base = self.groups[ROUGH_GP].values

    def train_networks(self, further: dict[str, Training]) -> None:
        """The first step of every group with learned features, side by side with further plain GPs. Rough members wait for the rough GP, which they start around."""
        nested, is_warm = self.members.nested()
        begun = {
            name: self.members.begun(name)
            for name in network_order(self.members.few, self.members.many)[1:]
            if self._possible(name) and (name != ROUGH or self.members.few)
        }
        found = self.trainer.fit_together([*further.values(), nested, *begun.values()])
        self._add_plain(further, found[: len(further)])
        batch, *batches = found[len(further) :]
        for name, chosen, iterations in ((WARM, is_warm, self.settings.warm_iterations), (COLD, ~is_warm, self.steps[0])):
            inner = equal_weights_of(batch.objective[chosen], self.folds.count)
            self._add(name, Group(batch, np.flatnonzero(chosen), inner, iterations, nested.data.rows(_index(chosen))))
        for (name, training), own in zip(begun.items(), batches, strict=True):
            self._add_begun(name, training, own)
        if ROUGH not in begun and not self.members.many:
            self._begin_rough()

    def _possible(self, name: str) -> bool:
        """Whether a group can be of use: rough members want a rough GP to start around, large ones many rows."""
        return (
            name not in self.idle
            and (name != ROUGH or self.members.rough_base is not None)
            and (name != LARGE or self.members.many)
        )

    def _add_begun(self, name: str, training: Training, batch: Trained) -> None:
        self._add(name, self.members.whole_batch(name, training, batch))

    def _begin_rough(self) -> None:
        """The first step of rough members, once it is known what they start around and how large they are: where a rough GP or learned features are worth something."""
        known = self.trainer.earlier is not None  # an earlier fit knows whether they are of use
        if self._possible(ROUGH) and not self.late and (known or ROUGH_GP in self.groups or self._features_pay()):
            training = self.members.begun(ROUGH)
            self._add_begun(ROUGH, training, self.trainer.fit_together([training])[0])

    def _features_pay(self) -> bool:
        """Whether the stack would miss members with learned features, as far as they are trained."""
        learned = [name for name in self.groups if name not in PLAIN_GPS]
        return any(name in learned for name in self.contest.missed(self.contest.candidates, learned))

    def choose_size(self) -> None:
        """Small and large networks take the second step; the size that held-out rows prefer goes further, and rough members have it too."""
        alone, plain = {}, [name for name in self.groups if name in PLAIN_GPS]
        for name in [name for name in (COLD, LARGE) if name in self.groups]:
            self.take_steps(name, self.steps[:2][-1])
            alone[name] = self.settings.weighing.value(self.contest.candidates, [*plain, name])
        best = max(alone, key=alone.__getitem__, default=COLD)
        self._gained |= {name: -math.inf for name in alone if name != best}
        if best == LARGE:
            self.members.size = large(*self.members.size)
        self._begin_rough()

    def take_steps(self, name: str, last: float = math.inf) -> None:
        """Train a group on, step by step, while held-out rows want it. last: iterations of the last step."""
        for iterations in self.steps[1:]:
            group = self.groups[name]
            if iterations <= group.iterations or iterations > last:
                continue
            patient = group.iterations == self.steps[0] and self.folds.N < PATIENT_BELOW
            others = [other for other in STEPPED if other in self.groups]
            if self.late or self._gained.get(name, math.inf) < self.settings.go_on:
                return
            if not patient and not self.contest.wanted(name, self.contest.candidates, others):
                return
            further = self.members.further(group, name, step_phase(name, iterations), iterations - group.iterations, self.trainer)
            self._gained[name] = self.contest.replace_if_better(name, further)
            if self._gained[name] <= 0.0:
                self._taken_back.add(name)

    def _add(self, name: str, group: Group) -> None:
        """A new group, unless nobody came to its members before the time was up."""
        if name != PLAIN and not np.isfinite(group.batch.objective[group.chosen]).any():
            return
        begin = self.trainer.now()
        self.contest.add(name, group)
        if name == PLAIN:
            self._keep_time(self.trainer.now() - begin)


def _index(flags: np.ndarray) -> Tensor:
    return torch.as_tensor(np.flatnonzero(flags))
