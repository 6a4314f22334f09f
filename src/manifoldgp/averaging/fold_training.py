"""Groups on folds: their members trained on the rows of each fold, and what they predict on the rows held out.

A member learns its parameters from the rows of its fold, or from a sample of them where there are many, and predicts with all of them.
Some groups are trained in steps, and after each of them held-out rows decide: a group that adds next to nothing and is no better than the plain GP goes no
further, one that a step made worse stays as it was before that step (early stopping), and one that gains much goes on for longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from manifoldgp.averaging.averages import RANDOM_ROWS, FoldChoice
from manifoldgp.averaging.fold_contest import DECIDE_ABOVE, FoldContest
from manifoldgp.averaging.fold_groups import Group, candidates_of, equal_weights_of, tempered_weights_of
from manifoldgp.averaging.fold_predictions import Folds
from manifoldgp.averaging.fold_steps import (
    FINE_STEPS_FROM,
    GP_FOLD_ITERATIONS,
    NEARBY_ITERATIONS,
    NEARBY_ROWS,
    PATIENT_BELOW,
    SCREEN_FROM,
    SCREEN_ITERATIONS,
    SCREEN_ROWS,
    fold_phase,
    many_rows,
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
    OWN,
    PLAIN,
    ROUGH,
    ROUGH_GP,
    SEARCHED_GP,
    STEPPED,
    WARM,
    large,
    plain_models,
    rough_nested,
)
from manifoldgp.averaging.members import nested_gp, pick, warm_and_cold
from manifoldgp.averaging.searched_gp import search_on_folds, trained_further
from manifoldgp.averaging.stacking import PLAIN_GPS, HeldOutReport
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, leaves, members_in
from manifoldgp.training.plan import LEAST_KEPT
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Start, Trainer, Training, as_drawn

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

    rough_base: plain GPs of the folds that rough members start around. networks: whether there are members with learned features. choice: which rows may err together.
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
        self.rough_base: Tree | None = None
        self._end, self._conditioning = trainer.deadline, 0.0  # seconds for each member that predicts
        self.trainer = trainer.within(FOR_TRAINING, LEAST_KEPT)
        self.size = settings.hidden, settings.q
        self.steps, self.remembers = settings.steps_for(folds.N), folds.N >= FINE_STEPS_FROM
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
            self.contest.decide_by_few(self._scale_of(gp_values)[0], self.rng)
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
        if self.few or not networks:
            self._add_plain(further, self.trainer.fit_together(list(further.values())))
            further = {}
        if networks and not self.late:
            self.train_networks(further)
            if self.many:
                self.choose_size()
        for name in STEPPED:
            if name in self.groups:
                self.take_steps(name)
        if self.many and not self.late:
            self.learn_from_all_rows()
        for _ in range(rounds_of_more(self.folds.N)):
            if self.late or not self.train_more():
                return

    def _search(self) -> None:
        """A plain GP with a kernel that is searched for on every fold, where that is asked for."""
        if self.settings.search is None or self.late or SEARCHED_GP in self.idle:
            return
        rows = self.settings.learn_rows if self.many else self.folds.train.y.shape[-1]
        found = search_on_folds(self.settings.search, self.template, self.folds, rows, self.trainer)
        if found is not None:
            self._add(SEARCHED_GP, found)

    @property
    def few(self) -> bool:
        """Whether the folds have so few rows that nothing is tried on a part of them, and cores gain nothing by more trainings at once."""
        return self.folds.train.y.shape[-1] <= SCREEN_FROM and not self.many

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

    @property
    def many(self) -> bool:
        """Whether the folds have clearly more rows than the sample that members learn from at first."""
        return many_rows(self.folds.train.y.shape[-1], self.settings.learn_rows)

    def learn_from_all_rows(self) -> None:
        """Some iterations on all rows for the groups that count and have seen a sample of them only, which says less about noise and length-scales.

        Not for those whose step on all rows was taken back: held-out rows have said what they think of it.
        """
        share = self.contest.share(self.contest.needed())
        for name in [name for name, weight in share.items() if weight >= COUNTS and name not in self._taken_back]:
            group = self.groups[name]
            if not group.whole and not self.late:
                self.contest.replace_if_better(name, self._further(group, name, nearby_phase(name), NEARBY_ITERATIONS))

    def train_more(self) -> bool:
        """Further members for the groups that carry the stack, which go the way that the others went; whether the stack gains enough by them to ask for more."""
        share, gained = self.contest.share(self.contest.needed()), 0.0
        for name in [name for name in STEPPED if share.get(name, 0.0) >= CARRIES]:
            if not self.late:
                gained += max(0.0, self.contest.replace_if_better(name, self._with_more(name)))
        return gained >= self.settings.keep

    def _with_more(self, name: str) -> Group:
        """The group with as many members again as a fold has at first."""
        group, training = self.groups[name], replace(self._begun(name), phase=more_phase(name))
        new = self._one_group(name, training, self.trainer.fit_together([training])[0])
        if self.late or not np.isfinite(new.batch.objective).all():
            return group
        if group.iterations > new.iterations:
            new = self._further(new, name, more_phase(name), group.iterations - new.iterations)
        return group.joined_by(new)

    @property
    def late(self) -> bool:
        """Whether the time is up: what has not begun is left out."""
        return self.trainer.late

    def train_plain(self, gp_values: Tree) -> dict[str, Training]:
        """The plain GP on every fold, and trainings of those with other kernels, unless a sample of the rows says that they are not worth it."""
        models = plain_models(self.template, self.folds.X.shape[-1])
        data, others = self.learning(1), [name for name in models if name != PLAIN and name not in self.idle]
        screened_on = self._usual_fold()
        few = screened_on.learning(1, SCREEN_ROWS, self.rng) if others and not self.few else None
        start = self._start_at(gp_values)
        plain = self._plain(fold_phase(PLAIN), models[PLAIN], data, start, GP_FOLD_ITERATIONS)
        tried = {} if few is None else {
            name: Training(screen_phase(name), models[name], few, 1, SCREEN_ITERATIONS, self._start_at(gp_values, 1) if name in (PLAIN, ROUGH_GP) else as_drawn)
            for name in (PLAIN, *others)
        }  # fmt: skip
        batch, *screened = self.trainer.fit_together([plain, *tried.values()])
        self._add_plain({PLAIN: plain}, [batch])
        self.rough_base = self.groups[PLAIN].values if ROUGH_GP in models else None
        if few is not None:
            others = self._worth_it(dict(zip(tried, screened, strict=True)), replace(screened_on, train=few), others)
        start = self._start_at(self.groups[PLAIN].values)
        return {
            name: self._plain(fold_phase(name), models[name], data, start if name == ROUGH_GP else as_drawn, GP_FOLD_ITERATIONS)
            for name in others
        }

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

    def _start_at(self, values: Tree, folds: int = 0) -> Start:
        """Where the plain GP of each fold starts. values: of one GP, or of one for every fold. folds: how many; all by default."""
        started = pick(values, np.arange(folds or self.folds.count) % members_in(values))
        return lambda drawn: started

    def _plain(self, phase: str, model: Model, data: Data, start: Start, iterations: int) -> Training:
        """Of a plain GP: one member for every fold."""
        return Training(phase, model, data, self.folds.count, iterations, start, remembers=self.remembers)

    def _one_each(self, training: Training, batch: Trained) -> Group:
        """A group with one member for every fold."""
        K = self.folds.count
        return Group(batch, np.arange(K), np.ones((K, 1)), int(np.max(training.max_iter)), training.data)

    def _add_plain(self, trainings: dict[str, Training], batches: list[Trained]) -> None:
        for (name, training), batch in zip(trainings.items(), batches, strict=True):
            self._add(name, self._one_each(training, batch))
        if ROUGH_GP in self.groups:
            self.rough_base = self.groups[ROUGH_GP].values

    def train_networks(self, further: dict[str, Training]) -> None:
        """The first step of every group with learned features, side by side with further plain GPs. Rough members wait for the rough GP, which they start around."""
        K, s, members = self.folds.count, self.settings, self.settings.fold_members
        first = self.steps[0]
        is_warm = np.tile(np.arange(2 * members) < members, K)
        model, data = nested_gp(self.template, s.hidden, s.q), self.learning(2 * members)
        base = pick(self.groups[PLAIN].values, np.repeat(np.arange(K), 2 * members))
        limits = np.where(is_warm, s.warm_iterations, first)
        start = nested_start(model, base, is_warm)
        nested = Training(fold_phase("nested"), model, data, len(is_warm), limits, start, remembers=self.remembers)
        begun = {
            name: self._begun(name)
            for name in network_order(self.few, self.many)[1:]
            if self._possible(name) and (name != ROUGH or self.few)
        }
        found = self.trainer.fit_together([*further.values(), nested, *begun.values()])
        self._add_plain(further, found[: len(further)])
        batch, *batches = found[len(further) :]
        for name, chosen, iterations in ((WARM, is_warm, s.warm_iterations), (COLD, ~is_warm, first)):
            inner = equal_weights_of(batch.objective[chosen], K)
            self._add(name, Group(batch, np.flatnonzero(chosen), inner, iterations, data.rows(_index(chosen))))
        for (name, training), own in zip(begun.items(), batches, strict=True):
            self._add_begun(name, training, own)
        if ROUGH not in begun and not self.many:
            self._begin_rough()

    def _possible(self, name: str) -> bool:
        """Whether a group can be of use: rough members want a rough GP to start around, large ones many rows."""
        return name not in self.idle and (name != ROUGH or self.rough_base is not None) and (name != LARGE or self.many)

    def _add_begun(self, name: str, training: Training, batch: Trained) -> None:
        self._add(name, self._one_group(name, training, batch))

    def _one_group(self, name: str, training: Training, batch: Trained) -> Group:
        """A group that is this whole batch, after its first step."""
        return Group(batch, np.arange(len(batch.objective)), self._inner(name, batch), self.steps[0], training.data)

    def _begin_rough(self) -> None:
        """The first step of rough members, once it is known what they start around and how large they are: where a rough GP or learned features are worth something."""
        known = self.trainer.earlier is not None  # an earlier fit knows whether they are of use
        if self._possible(ROUGH) and not self.late and (known or ROUGH_GP in self.groups or self._features_pay()):
            training = self._begun(ROUGH)
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
            self.size = large(*self.size)
        self._begin_rough()

    def _begun(self, name: str) -> Training:
        """The first step of cold, large, rough or own members."""
        K, s, members = self.folds.count, self.settings, self.settings.fold_members
        data, first = self.learning(members), self.steps[0]
        if name == OWN:
            return Training(fold_phase(OWN), self.template, data, K * members, first, remembers=self.remembers)
        if name == COLD:
            model, base = nested_gp(self.template, s.hidden, s.q), self.groups[PLAIN].values
        elif name == LARGE:
            model, base = nested_gp(self.template, *large(s.hidden, s.q)), self.groups[PLAIN].values
        else:
            assert self.rough_base is not None
            model, base = rough_nested(self.template, *self.size), self.rough_base
        gp = pick(base, np.repeat(np.arange(K), members))
        start = nested_start(model, gp, np.zeros(K * members, dtype=bool))
        return Training(fold_phase(name), model, data, K * members, first, start, remembers=self.remembers)

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
            further = self._further(group, name, step_phase(name, iterations), iterations - group.iterations)
            self._gained[name] = self.contest.replace_if_better(name, further)
            if self._gained[name] <= 0.0:
                self._taken_back.add(name)

    def _further(self, group: Group, name: str, phase: str, iterations: int) -> Group:
        """The group after so many more iterations: on the same rows, or on all of them where there are many."""
        if group.further:
            return trained_further(group, *self._nearby(1), phase, iterations, self.trainer)
        K, members = group.inner.shape
        values = group.values
        data, parts = self._nearby(members) if self.many else (group.data, 1)
        given = {"parts": parts, "curvature": group.curvature(parts * data.y.shape[-1]), "remembers": self.remembers}
        batch = self.trainer.fit(phase, group.batch.model, data, K * members, iterations, lambda _: values, **given)
        return Group(batch, np.arange(K * members), self._inner(name, batch), group.iterations + iterations, data, whole=True)

    def _inner(self, name: str, batch: Trained) -> np.ndarray:
        """Inner weights (K, members) of a group that is this whole batch: own members count by their objectives, since some of them fail; others the same."""
        K = self.folds.count
        return (
            tempered_weights_of(batch.objective, K, self.settings.temperature)
            if name == OWN
            else equal_weights_of(batch.objective, K)
        )

    def _nearby(self, members: int) -> tuple[Data, int]:
        """Neighbourhoods among all rows, near in terms of the plain GP's length-scales, for so many members of every fold."""
        scale = self._scale_of(self.groups[PLAIN].values)
        return self.folds.neighbourhoods(members, self.settings.learn_rows, NEARBY_ROWS, scale, self.rng)

    def _scale_of(self, values: Tree) -> np.ndarray:
        """How long each input is (K, D), in terms of the length-scales of plain GPs; the same for all folds of one GP, or of one without length-scales."""
        found = dict(leaves(values)).get("kernel.lengthscale")
        shape = self.folds.count, self.folds.X.shape[-1]
        return np.ones(shape) if found is None else np.broadcast_to(found.cpu().numpy() * np.ones(shape[1]), shape)

    def learning(self, members: int) -> Data:
        """What so many members of every fold learn from."""
        rows = self.settings.learn_rows if self.many else self.folds.train.y.shape[-1]
        return self.folds.learning(members, rows, self.rng)

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


def nested_start(model: Model, gp: Tree, is_warm: np.ndarray) -> Callable[[Tree], Tree]:
    """From drawn values to those of warm and cold starts around the plain GPs ``gp``."""
    return lambda drawn: warm_and_cold(drawn, model.features.width, gp, is_warm)  # type: ignore[attr-defined]
