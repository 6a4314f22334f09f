"""Training groups of sparse members: from their starts over few rows to many, within what a stack may spend."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from manifoldgp.averaging.kinds import PLAIN
from manifoldgp.averaging.sparse_groups import Group, scored
from manifoldgp.averaging.sparse_kinds import Kind, around_the_gp, kinds_of, pretrained_start
from manifoldgp.errors import warn
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, Tree, first_of, map_leaves
from manifoldgp.training.member_round import INTERRUPTED, Round
from manifoldgp.training.model_rows import MemoryRows, ModelRows
from manifoldgp.training.plan import LEAST_KEPT, sparse_operations
from manifoldgp.training.pretraining import MOST_ROWS
from manifoldgp.training.settings import Sparse
from manifoldgp.training.sparse_members import Member, MemberTrainer
from manifoldgp.training.sparse_trainer import SparseTrainer

if TYPE_CHECKING:
    from manifoldgp.averaging.stack import Stack

FEW_ROWS, FEW_ITERATIONS = 1000, 40
"""Rows on which members begin, and their iterations there: few rows make the joint optimisation of features, kernel and inducing points cheap and easy."""

PART_ROWS = 10_000
"""Rows on which kinds are compared where there are half as many again or more."""

INDUCING = 200
"""Inducing points of a member to begin with, where nobody asked for a number of them."""

ALLOWANCE = 1000.0
"""Evaluations on all rows (with as many inducing points as members begin with) that a stack may take in all."""

_EPOCH = 0.3
"""What an epoch of pretraining costs, in evaluations."""

_KEPT = 0.15, 0.35
"""Shares of a time budget that are kept for what comes after training, at least and at most."""

_FOR_FEW_ROWS = 0.3
"""Share of the time for training, at most, that members spend on few rows."""

_COMPARED = 700.0
"""Evaluations that the comparison of all kinds takes, about: what a time budget has to hold."""


def compared_rows(N: int) -> int:
    """On how many of N rows kinds are compared.

    >>> compared_rows(8_000), compared_rows(36_000)
    (8000, 10000)
    """
    return N if N <= 1.5 * PART_ROWS else PART_ROWS


def inducing_for(method: Sparse) -> int:
    """Inducing points that members of a stack begin with."""
    return INDUCING if method.inducing is None else method.inducing


class GroupTraining:
    """What trains the groups of one target.

    rows: all that are not held out. few, part: those on which members begin, and on which kinds are compared. gp: values (1, ...) of the plain GP, once it is known.
    inducing: points of a new member. spent: evaluations so far, in units of one on all rows. pace: seconds for one of them, members side by side as they are.
    """

    def __init__(self, template: Model, rows: ModelRows, held: Data, trainer: SparseTrainer, settings: Stack) -> None:
        self.rows, self.held, self.trainer, self.settings = rows, held, trainer, settings
        self.begun = time.perf_counter()
        self.end = math.inf if trainer.seconds is None else self.begun + trainer.seconds
        self.members = MemberTrainer(rows, trainer.workers, trainer.seed, trainer.device, trainer.checkpoints, trainer.output)
        idle = frozenset() if trainer.earlier is None else trainer.earlier.idle
        self.kinds = {name: kind for name, kind in kinds_of(template, settings).items() if name not in idle}
        self.few = rows.sample(FEW_ROWS, trainer.seed)
        self.part: ModelRows = rows
        if (part := compared_rows(rows.count)) < rows.count:
            self.part = MemoryRows(rows.sample(part, trainer.seed), rows.ranks)
        self.inducing = min(inducing_for(trainer.method), rows.count)
        self.gp: Tree = {}
        self.spent, self.pace = 0.0, 0.0
        self._told = False

    # ------------------------------------------------------------------------------------------------------------------------ accounts

    @property
    def deadline(self) -> float:
        """When training has to end: after it members are conditioned on all rows, each in less than an evaluation, and weighed."""
        if self.end == math.inf:
            return math.inf
        members, (least, most) = 2 * sum(kind.first for kind in self.kinds.values()), _KEPT
        seconds = self.end - self.begun
        return self.end - min(max(least * seconds, LEAST_KEPT) + members * self.pace, most * seconds)

    @property
    def late(self) -> bool:
        """Whether the time for training is up, as the first process sees it."""
        return self.rows.ranks.decide(time.perf_counter() > self.deadline)

    def over(self) -> bool:
        """Whether training has to end here."""
        return self.trainer.stopped or self.late

    def affordable(self, evaluations: float, share: float = 1.0) -> bool:
        """Whether so many more evaluations are within a share of what a stack may take, and within its time at the pace so far."""
        in_time = time.perf_counter() + self.pace * evaluations <= self.deadline
        return self.rows.ranks.decide(self.spent + evaluations <= share * ALLOWANCE and in_time)

    def cost(self, rows: int, inducing: int) -> float:
        """Of an evaluation, in units of one on all rows."""
        return sparse_operations(rows, inducing) / sparse_operations(self.rows.count, inducing_for(self.trainer.method))

    def member_cost(self, kind: Kind, step: int) -> float:
        """Evaluations that a new member takes to a step, pretraining included."""
        return self.iterations(kind, step) + (_EPOCH * self.epochs(step) if kind.grows else 0.0)

    def iterations(self, kind: Kind, step: int) -> int:
        """Iterations of a member that has taken so many steps; a pretrained network, which is near its end, goes half of the second step at most."""
        if kind.start == "warm":
            return self.settings.warm_iterations
        if kind.grows and step:
            return max(
                self.settings.sparse_steps[0], self.settings.sparse_steps[min(1, len(self.settings.sparse_steps) - 1)] // 2
            )
        return self.settings.sparse_steps[step]

    def epochs(self, step: int) -> int:
        """How often pretraining to a step sees every row; beyond the last step twice as often each time."""
        beyond = max(step - len(self.settings.sparse_steps) + 1, 0)
        return self.settings.sparse_steps[step - beyond] * 2**beyond

    # ------------------------------------------------------------------------------------------------------------------------ training

    def new(self, phase: str, wanted: Mapping[str, tuple[int, int]], source: ModelRows) -> dict[str, Group]:
        """New members {kind: (how many, to which step)}, begun on few rows or pretrained, and trained to their step; where time is up, as they are then."""
        pretrained = {name: each for name, each in wanted.items() if self.kinds[name].grows}
        others = {name: count for name, (count, _) in wanted.items() if name not in pretrained}
        members = self._on_few_rows(phase, others) | self._pretrained(pretrained, source)
        source = source if source is self.rows and self.part is not self.rows else self._affordable_part()
        if self.late:
            return self.scored(members, source, 0)
        members = {name: self.members.placed_anew(each, source, self.inducing) for name, each in members.items()}
        iterations = {name: self.iterations(self.kinds[name], wanted[name][1]) for name in members}
        found = self.trained(phase, members, iterations, source, 0)
        return {name: replace(group, step=wanted[name][1]) for name, group in found.items()}

    def _on_few_rows(self, phase: str, counts: Mapping[str, int]) -> dict[str, list[Member]]:
        inducing = max(1, min(self.inducing // 2, len(self.few.y) // 4))
        begun = {name: self._begun(self.kinds[name], count, inducing) for name, count in counts.items()}
        few = MemoryRows(self.few, self.rows.ranks)
        if not begun:
            return {}
        now = time.perf_counter()
        deadline = min(self.deadline, now + _FOR_FEW_ROWS * (self.deadline - now)) if self.end < math.inf else math.inf
        return self._minimised(f"{phase}, few rows", begun, dict.fromkeys(begun, FEW_ITERATIONS), few, deadline)

    def _begun(self, kind: Kind, count: int, inducing: int) -> list[Member]:
        model = kind.model(self.rows.count)
        layout, drawn = model.draw(self.few, self.trainer.generator, count)
        if kind.start in ("warm", "cold"):
            drawn = around_the_gp(kind, model, drawn, self.gp)
        return self._at(model, layout, drawn, _each(drawn, count), inducing)

    def _pretrained(self, wanted: Mapping[str, tuple[int, int]], source: ModelRows) -> dict[str, list[Member]]:
        """Members whose network has seen the rows (up to MOST_ROWS of them) before, as many times as their step has iterations."""
        made, deadline = {}, self.deadline

        def over() -> bool:
            return self.trainer.stopped or time.perf_counter() > deadline

        for name, (count, step) in wanted.items():
            epochs = self.epochs(step)
            model, rows = self.kinds[name].model(source.count), source.sample(MOST_ROWS, self.trainer.seed)
            layout, drawn = model.draw(self.few, self.trainer.generator, count)
            seeds = torch.randint(2**31 - 1, (count,), generator=self.trainer.generator).tolist()
            items = [(model, start, rows, epochs, seed, over) for start, seed in zip(_each(drawn, count), seeds, strict=True)]
            try:
                starts = self.trainer.workers.map(lambda item: pretrained_start(*item), items, large=False)
            except KeyboardInterrupt:
                if self.rows.ranks.count > 1:
                    raise
                self.trainer.stopped = True
                warn(INTERRUPTED)
                return {}
            made[name] = self._at(model, layout, drawn, starts, self.inducing)
            self.spent += count * _EPOCH * epochs * self.cost(source.count, self.inducing)
        return made

    def _at(self, model: Model, layout: Layout, drawn: Tree, starts: list[Tree], inducing: int) -> list[Member]:
        return self.members.begin(model, starts, self.few, layout, first_of(layout.constants(drawn)), inducing)

    def _affordable_part(self) -> ModelRows:
        """The rows on which kinds are compared: fewer where the time is short, as the first members on few rows show."""
        if self.end < math.inf and not self.gp and self.pace:
            rows = 0.4 * (self.end - self.begun) / (self.pace * _COMPARED) * self.rows.count
            rows = max(FEW_ROWS, self.rows.ranks.gather(int(rows))[0][0])
            if 1.5 * rows < self.part.count:
                self.part = MemoryRows(self.rows.sample(rows, self.trainer.seed), self.rows.ranks)
        return self.part

    def further(self, phase: str, groups: Mapping[str, Group], iterations: int, source: ModelRows) -> dict[str, Group]:
        """Groups trained on by so many iterations; each says how many steps it has taken as before."""
        if not groups:
            return {}
        members = {name: group.members for name, group in groups.items()}
        found = self.trained(phase, members, dict.fromkeys(members, iterations), source, 0)
        return {name: replace(group, step=groups[name].step) for name, group in found.items()}

    def trained(
        self, phase: str, members: Mapping[str, list[Member]], iterations: Mapping[str, int], source: ModelRows, step: int
    ) -> dict[str, Group]:
        """Groups of these members after so many more iterations; those that have no posterior are left out."""
        return self.scored(self._minimised(phase, members, iterations, source), source, step)

    def scored(self, members: Mapping[str, list[Member]], source: ModelRows, step: int) -> dict[str, Group]:
        """Groups of the members that were trained; the plain GP is there even if there was no time for that."""
        everyone = [(name, member) for name, each in members.items() for member in each if member.rows or name == PLAIN]
        found: dict[str, Group] = {}
        for (name, member), posterior in zip(everyone, self.members.posteriors([m for _, m in everyone], source), strict=True):
            if posterior is not None:
                one = scored(member.conditioned(posterior), posterior, self.held, self.settings.variance_factors)
                said = map(torch.from_numpy, (one.log_density, one.cdf, one.variance))
                self.rows.ranks.follow_first_(*said)  # one decision for all
                group = found.get(name, Group(self.kinds[name], (), step))
                found[name] = replace(group, scored=(*group.scored, one))
        return found

    def _minimised(
        self,
        phase: str,
        members: Mapping[str, list[Member]],
        iterations: Mapping[str, int],
        source: ModelRows,
        deadline: float | None = None,
    ) -> dict[str, list[Member]]:
        """All members side by side; keeps account of time and work, and of who wants training to end."""
        names = [name for name, each in members.items() for _ in each]
        everyone = [member for each in members.values() for member in each]
        labels = [f"{name} {number}" for name, each in members.items() for number in range(len(each))]
        round_ = Round(phase, labels, self.trainer.watch, deadline or self.deadline, self.trainer.stopped)
        before = time.perf_counter()
        trained = self.members.further(everyone, [iterations[name] for name in names], round_, source)
        self._account(names, everyone, trained, iterations, source, time.perf_counter() - before)
        self.trainer.stopped = self.rows.ranks.decide(round_.stopped)
        self._tell(round_)
        after: dict[str, list[Member]] = {name: [] for name in members}
        for name, member in zip(names, trained, strict=True):
            after[name].append(member)
        return after

    def _account(
        self,
        names: list[str],
        before: list[Member],
        after: list[Member],
        iterations: Mapping[str, int],
        source: ModelRows,
        seconds: float,
    ) -> None:
        """What was spent counts the iterations that were given, so that a fit that goes on from a checkpoint takes the same decisions; the pace counts evaluations."""
        work = 0.0
        for name, earlier, later in zip(names, before, after, strict=True):
            each = self.cost(source.count, later.inducing)
            self.spent += each * iterations[name]
            work += each * (later.evaluations - earlier.evaluations)
        self.pace = seconds / work if work > 0 else self.pace

    def _tell(self, round_: Round) -> None:
        """Warn of an interruption, and once of a checkpoint that training goes on from."""
        if round_.interrupted:
            warn(INTERRUPTED)
        if round_.resumed and not self._told and self.trainer.checkpoints is not None and self.rows.ranks.first:
            self._told = True
            warn(f"Training is going on from the checkpoint {self.trainer.checkpoints.path}; remove its files to start anew.")


def _each(values: Tree, count: int) -> list[Tree]:
    """The starts of a batch, without batch dimension."""
    return [map_leaves(lambda leaf, r=r: leaf[r], values) for r in range(count)]
