"""One target's way through the stack of many rows: which kinds are trained, how far, on how many rows, and how many members they have."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from manifoldgp.averaging.sparse_groups import Group, scored
from manifoldgp.averaging.sparse_kinds import PLAIN, Kind, around_the_gp, kinds_of, pretrained_start
from manifoldgp.averaging.stacking import Candidates, Weighing
from manifoldgp.errors import TrainingFailedError, warn
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, Tree, map_leaves
from manifoldgp.training.member_round import Round
from manifoldgp.training.model_rows import MemoryRows, ModelRows
from manifoldgp.training.objective import first_of
from manifoldgp.training.plan import sparse_cost
from manifoldgp.training.pretraining import MOST_ROWS
from manifoldgp.training.settings import MOST_INDUCING, Sparse
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
"""Evaluations on all rows (of as many inducing points as members begin with) that a stack may take in all."""

_COMPARED = 700.0
"""Evaluations that the comparison of all kinds takes, about: what a time budget has to hold."""

_PRIOR_ROWS = 200
"""Held-out rows that the priors of the weights are fractions of, at most."""


class Phases:
    """The names of the phases."""

    PLAIN, ALL_ROWS, MORE_POINTS, MORE = "plain GPs", "on all rows", "more inducing points", "more members"

    @staticmethod
    def step(iterations: int) -> str:
        return f"all groups, to {iterations}"

    @staticmethod
    def few_rows(phase: str) -> str:
        return f"{phase}, few rows"


def inducing_for(method: Sparse) -> int:
    """Inducing points that members of a stack begin with."""
    return INDUCING if method.inducing is None else method.inducing


class Course:
    """The groups of one target and what is done with them.

    rows: all that are not held out. part: those on which kinds are compared. groups: by name, the plain GP first. spent: evaluations so far, in units of one on all rows.
    """

    def __init__(self, template: Model, rows: ModelRows, held: Data, trainer: SparseTrainer, settings: Stack) -> None:
        self.rows, self.held, self.trainer, self.settings = rows, held, trainer, settings
        self.begun = time.perf_counter()
        self.end = math.inf if trainer.seconds is None else self.begun + trainer.seconds
        self.training = MemberTrainer(
            rows, trainer.workers, trainer.seed, trainer.device, trainer.checkpoints, trainer.output
        )
        self.kinds = kinds_of(template, rows.count, settings)
        self.few = rows.sample(min(FEW_ROWS, rows.count), trainer.seed)
        self.part: ModelRows = rows
        if rows.count > 1.5 * PART_ROWS:
            self.part = MemoryRows(rows.sample(PART_ROWS, trainer.seed), rows.ranks)
        self.inducing = min(inducing_for(trainer.method), rows.count)
        self.groups: dict[str, Group] = {}
        self.spent, self.pace = 0.0, 0.0
        share = min(1.0, _PRIOR_ROWS / len(held.y))
        self.weighing = Weighing(tuple(settings.variance_factors), share * settings.gp_prior, share * settings.spread_prior)

    def run(self) -> None:
        """All phases, until nothing more pays, or the time is up, or somebody wants it to end."""
        for phase in (self._plain, self._first_step, self._later_steps, self._on_all_rows, self._more_points, self._more_members):
            phase()
            if self.over():
                break
        if self.part is not self.rows:
            self._condition_everyone()

    def over(self) -> bool:
        """Whether training has to end here."""
        return self.trainer.stopped or self.rows.ranks.decide(time.perf_counter() > self._deadline())

    def candidates(self, changed: Mapping[str, Group] | None = None) -> Candidates:
        """What all groups predict, some of them changed."""
        return Candidates.of({name: group.mixture() for name, group in {**self.groups, **(changed or {})}.items()})

    # ------------------------------------------------------------------------------------------------------------------------ phases

    def _plain(self) -> None:
        """The plain GPs, which all others are held against."""
        plain = {name: 1 for name, kind in self.kinds.items() if kind.plain}
        self.groups = self._new(Phases.PLAIN, plain, min(1, len(self.settings.steps) - 1), self.part)
        if PLAIN not in self.groups:
            raise TrainingFailedError(
                "The plain GP gave no finite bound. Rescale the data, raise the noise floor, or start from another kernel."
            )

    def _first_step(self) -> None:
        others = {name: kind.first for name, kind in self.kinds.items() if not kind.plain}
        self.groups |= self._new(Phases.step(self.settings.steps[0]), others, 0, self.part)

    def _later_steps(self) -> None:
        """Kinds that add something are trained on, step by step, while that pays; where a part of the rows was compared, to the second step only."""
        active = [name for name, group in self.groups.items() if not group.kind.plain and group.kind.start != "warm"]
        last = len(self.settings.steps) if self.part is self.rows else 2
        for step in range(1, min(last, len(self.settings.steps))):
            active = self._step(self._worth_it(active), step, self.part, Phases.step(self.settings.steps[step]))
            if not active or self.over():
                break

    def _on_all_rows(self) -> None:
        """The groups that are needed, on all rows; networks that grow with the rows begin anew, larger, and take further steps."""
        if self.part is self.rows:
            return
        needed = self._needed()
        stay = {name: self.settings.steps[0] for name in needed if not self.kinds[name].grows}
        grow = [name for name in needed if self.kinds[name].grows]
        changed = self._further(Phases.ALL_ROWS, stay, self.rows)
        self.groups |= changed
        self._condition_everyone()
        for step in range(1, len(self.settings.steps)):
            if not grow or self.over():
                break
            grow = self._step(grow, step, self.rows, f"{Phases.ALL_ROWS}, to {self.settings.steps[step]}")

    def _more_points(self) -> None:
        """Twice as many inducing points for the group with most weight, for as long as held-out rows want them."""
        while self.trainer.method.inducing is None and self.inducing < min(MOST_INDUCING, self.rows.count):
            name, more = self._heaviest(), min(2 * self.inducing, MOST_INDUCING)
            group, iterations = self.groups[name], self.settings.steps[0]
            if not self._affordable(len(group.scored) * iterations * self._share(self.rows.count, more)):
                break
            members = self.training.placed_anew(group.members, self.rows, more)
            later = self._trained(Phases.MORE_POINTS, {name: members}, {name: iterations}, self.rows, group.step)
            if not later or self._gain(later) < self.settings.keep:
                break
            self.groups |= later
            self.inducing = more
            if self.over():
                break

    def _more_members(self) -> None:
        """Further members for the groups that carry the weight; those that make the stack worse are not taken."""
        candidates = self.candidates()
        weights, _ = self.weighing.weights(candidates, self._needed())
        share = dict(zip(candidates.names, weights.sum(1), strict=True))
        for name in sorted(share, key=share.__getitem__, reverse=True):
            kind, group = self.kinds[name], self.groups[name]
            wanted = min(kind.most - len(group.scored), round(2.0 * share[name] * kind.most))
            each = self._iterations(kind, group.step) * self._share(self.rows.count, self.inducing)
            while wanted > 0 and not self._affordable(wanted * each):
                wanted -= 1
            if wanted <= 0:
                continue
            new = self._new(Phases.MORE, {name: wanted}, group.step, self.rows).get(name)
            if new is not None and self._gain({name: group.joined(new)}) > 0.0:
                self.groups[name] = group.joined(new)
            if self.over():
                break

    # ------------------------------------------------------------------------------------------------------------------------ decisions

    def _needed(self) -> list[str]:
        candidates = self.candidates()
        return self.weighing.needed(candidates, candidates.names[1:], self.settings.keep)

    def _heaviest(self) -> str:
        candidates = self.candidates()
        weights, _ = self.weighing.weights(candidates, self._needed())
        return candidates.names[int(np.argmax(weights.sum(1)))]

    def _worth_it(self, names: list[str]) -> list[str]:
        """The groups that add more than next to nothing, or are better than the plain GP alone."""
        candidates = self.candidates()
        needed = self.weighing.needed(candidates, names, 0.5 * self.settings.keep)
        return [name for name in names if name in needed or candidates.better_than_gp(name)]

    def _gain(self, changed: Mapping[str, Group]) -> float:
        """Nats a held-out row that the stack gains by a change of some groups."""
        return self.weighing.value(self.candidates(changed)) - self.weighing.value(self.candidates())

    def _step(self, names: list[str], step: int, source: ModelRows, phase: str) -> list[str]:
        """Train groups on to a step; each stays as it was unless that gains something. Those that gained enough to go on."""
        by_density = sorted(names, key=lambda name: -float(self.groups[name].mixture()[0][0].mean()))
        while by_density and not self._affordable(sum(self._step_cost(name, step, source) for name in by_density)):
            by_density.pop()
        anew = {name: len(self.groups[name].scored) for name in by_density if self.kinds[name].grows}
        on = {name: self.settings.steps[step] - self.settings.steps[step - 1] for name in by_density if name not in anew}
        later = self._further(phase, on, source, step) | self._new(phase, anew, step, source)
        still = []
        for name in by_density:
            gain = self._gain({name: later[name]}) if name in later else -math.inf
            if gain > 0.0:
                self.groups[name] = later[name]
            if gain > self.settings.go_on:
                still.append(name)
        return still

    def _step_cost(self, name: str, step: int, source: ModelRows) -> float:
        kind, steps = self.kinds[name], self.settings.steps
        iterations = self._iterations(kind, step) if kind.grows else steps[step] - steps[step - 1]
        return len(self.groups[name].scored) * iterations * self._share(source.count, self.inducing)

    def _iterations(self, kind: Kind, step: int) -> int:
        """Iterations of a member that has taken so many steps; pretrained networks need no more than the second step's."""
        if kind.start == "warm":
            return self.settings.warm_iterations
        return self.settings.steps[min(step, 1) if kind.grows else step]

    def _share(self, rows: int, inducing: int) -> float:
        """The cost of an evaluation, in units of one on all rows."""
        return sparse_cost(rows, inducing) / sparse_cost(self.rows.count, inducing_for(self.trainer.method))

    def _affordable(self, evaluations: float) -> bool:
        """Whether so many more evaluations are within what a stack may take, and within its time at the pace so far."""
        in_time = time.perf_counter() + self.pace * evaluations <= self._deadline()
        return self.rows.ranks.decide(self.spent + evaluations <= ALLOWANCE and in_time)

    def _deadline(self) -> float:
        """When training has to end: what is left after it is a pass over all rows for each member, which is half an evaluation at most."""
        members = sum(len(group.scored) for group in self.groups.values()) + 2
        return self.end - min(0.5 * members * self.pace, 0.3 * (self.end - self.begun)) if self.end < math.inf else math.inf

    # ------------------------------------------------------------------------------------------------------------------------ training

    def _new(self, phase: str, counts: Mapping[str, int], step: int, source: ModelRows) -> dict[str, Group]:
        """New members {kind: how many}, trained on few rows first and then to a step on these."""
        on_few = {name: count for name, count in counts.items() if not self.kinds[name].grows}
        members = self._on_few_rows(phase, on_few) | self._pretrained({n: counts[n] for n in counts if n not in on_few}, step, source)
        self._shrink_part()
        source = self.part if source is not self.rows else source
        members = {name: self.training.placed_anew(each, source, self.inducing) for name, each in members.items()}
        return self._trained(phase, members, {name: self._iterations(self.kinds[name], step) for name in members}, source, step)

    def _on_few_rows(self, phase: str, counts: Mapping[str, int]) -> dict[str, list[Member]]:
        inducing = max(1, min(self.inducing // 2, len(self.few.y) // 4))
        made = {}
        for name, count in counts.items():
            model, layout, starts = self._starts(self.kinds[name], count, self.rows.count)
            constants = first_of(layout.constants(starts))
            made[name] = self.training.begin(model, _each(starts, count), self.few, layout, constants, inducing)
        if not made:
            return {}
        few = MemoryRows(self.few, self.rows.ranks)
        return self._minimised(Phases.few_rows(phase), made, dict.fromkeys(made, FEW_ITERATIONS), few)

    def _pretrained(self, counts: Mapping[str, int], step: int, source: ModelRows) -> dict[str, list[Member]]:
        """Members whose network was trained on the rows (up to MOST_ROWS of them) before; as many epochs as iterations of the step."""
        made = {}
        for name, count in counts.items():
            rows = source.sample(MOST_ROWS, self.trainer.seed)
            model, layout, drawn = self._starts(self.kinds[name], count, source.count)
            seeds = torch.randint(2**31 - 1, (count,), generator=self.trainer.generator).tolist()
            epochs, deadline = self.settings.steps[step], self._deadline()

            def start(item: tuple[Tree, int], model: Model = model, rows: Data = rows, epochs: int = epochs, deadline: float = deadline) -> Tree:
                return pretrained_start(model, item[0], rows, epochs, item[1], deadline)

            starts = self.trainer.workers.map(start, list(zip(_each(drawn, count), seeds, strict=True)), large=False)
            constants = first_of(layout.constants(drawn))
            made[name] = self.training.begin(model, starts, self.few, layout, constants, self.inducing)
        return made

    def _starts(self, kind: Kind, count: int, rows: int) -> tuple[Model, Layout, Tree]:
        """The model of a kind on so many rows, its layout and starting values (count, ...)."""
        model = kind.model(rows)
        layout, drawn = model.draw(self.few, self.trainer.generator, count)
        if kind.start in ("warm", "cold"):
            drawn = around_the_gp(kind, model, drawn, self.groups[PLAIN].scored[0].posterior.values)
        return model, layout, drawn

    def _further(self, phase: str, iterations: Mapping[str, int], source: ModelRows, step: int | None = None) -> dict[str, Group]:
        """Groups trained on by so many iterations."""
        members = {name: self.groups[name].members for name in iterations}
        found = self._trained(phase, members, iterations, source, 0) if members else {}
        return {name: replace(group, step=self.groups[name].step if step is None else step) for name, group in found.items()}

    def _trained(
        self, phase: str, members: Mapping[str, list[Member]], iterations: Mapping[str, int], source: ModelRows, step: int
    ) -> dict[str, Group]:
        """Members {kind: members} after so many more iterations, scored; those that have no posterior are left out."""
        after = self._minimised(phase, members, iterations, source)
        return self._scored({name: each for name, each in after.items()}, source, step)

    def _scored(self, members: Mapping[str, list[Member]], source: ModelRows, step: int) -> dict[str, Group]:
        everyone = [(name, member) for name, each in members.items() for member in each if member.rows]
        found: dict[str, Group] = {}
        for (name, member), posterior in zip(everyone, self.training.posteriors([m for _, m in everyone], source), strict=True):
            if posterior is not None:
                one = scored(member, posterior, self.held, self.settings.variance_factors)
                group = found.get(name, Group(self.kinds[name], (), step))
                found[name] = replace(group, scored=(*group.scored, one))
        return found

    def _minimised(
        self, phase: str, members: Mapping[str, list[Member]], iterations: Mapping[str, int], source: ModelRows
    ) -> dict[str, list[Member]]:
        """All members side by side; keeps account of time and work, and of who wants training to end."""
        names = [name for name, each in members.items() for _ in each]
        everyone = [member for each in members.values() for member in each]
        round_ = Round(phase, len(everyone), self.trainer.watch, self._deadline(), self.trainer.stopped)
        before = time.perf_counter()
        trained = self.training.further(everyone, [iterations[name] for name in names], round_, source)
        self._account(everyone, trained, source, time.perf_counter() - before)
        self.trainer.stopped = self.rows.ranks.decide(round_.stopped)
        if round_.interrupted:
            warn("Training was interrupted; the best model so far is kept.")
        after: dict[str, list[Member]] = {name: [] for name in members}
        for name, member in zip(names, trained, strict=True):
            after[name].append(member)
        return after

    def _account(self, before: list[Member], after: list[Member], source: ModelRows, seconds: float) -> None:
        work = sum(
            (a.evaluations - b.evaluations) * self._share(source.count, a.inducing) for a, b in zip(after, before, strict=True)
        )
        self.spent += work
        if work > 0:
            self.pace = seconds / work  # of the last round: seconds an evaluation on all rows, side by side as they are

    def _shrink_part(self) -> None:
        """Compare kinds on fewer rows where the time is short."""
        if self.end == math.inf or self.groups or not self.pace:
            return
        rows = 0.4 * (self.end - self.begun) / (self.pace * _COMPARED) * self.rows.count
        rows = max(FEW_ROWS, self.rows.ranks.gather(int(rows))[0])
        if 1.5 * rows < self.part.count:
            self.part = MemoryRows(self.rows.sample(rows, self.trainer.seed), self.rows.ranks)

    def _condition_everyone(self) -> None:
        """Every group that may predict, conditioned on all rows; those that are not needed are left out."""
        partly = {name: group for name, group in self.groups.items() if any(s.posterior.bound_rows < self.rows.count for s in group.scored)}
        needed = self._needed() if len(partly) > 1 else list(self.groups)
        chosen = {name: group.members for name, group in partly.items() if name in needed or not self._large()}
        found = self._scored(chosen, self.rows, 0)
        changed = {name: replace(found[name], step=group.step) for name, group in partly.items() if name in found}
        self.groups = {name: changed.get(name, group) for name, group in self.groups.items() if name in changed or name not in partly}

    def _large(self) -> bool:
        """Whether a pass over all rows is dear."""
        return self.rows.count > 10 * PART_ROWS or self.end < math.inf


def _each(values: Tree, count: int) -> list[Tree]:
    return [map_leaves(lambda leaf, r=r: leaf[r], values) for r in range(count)]
