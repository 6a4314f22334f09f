"""One target's way through the stack of many rows: which kinds are trained, how far, on how many rows, and how many members they have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from manifoldgp.averaging.kinds import PLAIN
from manifoldgp.averaging.sparse_groups import Group
from manifoldgp.averaging.sparse_training import PART_ROWS, GroupTraining
from manifoldgp.averaging.stacking import Candidates, Weighing
from manifoldgp.errors import TrainingFailedError
from manifoldgp.training.model_rows import ModelRows
from manifoldgp.training.settings import MOST_INDUCING

PLAIN_PHASE, ALL_ROWS, MORE_POINTS, MORE_MEMBERS = "plain GPs", "on all rows", "more inducing points", "more members"
"""Phases, by name."""

_DOUBLINGS = 2
"""How often the pretraining of a network may be doubled beyond the last step."""

_CLIMB = 0.8
"""Share of what a stack may spend that members get for going on; the rest is for further members."""

_DECIDING_ROWS = 2000
"""Held-out rows that decide who goes on; the weights come from all of them."""

_LIGHT = 0.01
"""Weight below which a group is not missed."""

_PRIOR_ROWS = 200
"""Held-out rows that the priors of the weights are fractions of, at most."""


def step_phase(iterations: int, all_rows: bool = False) -> str:
    """The name of the phase that trains groups on, to so many iterations in all; all_rows: after a comparison on a part of them."""
    return f"{ALL_ROWS if all_rows else 'all groups'}, to {iterations}"


class Course:
    """The groups of one target, by name, the plain GP first, and what is decided about them."""

    def __init__(self, training: GroupTraining) -> None:
        self.training, self.settings, self.rows = training, training.settings, training.rows
        self.groups: dict[str, Group] = {}
        self._gaining: list[str] = []
        share = min(1.0, _PRIOR_ROWS / len(training.held.y))
        factors = tuple(self.settings.variance_factors)
        self.weighing = Weighing(factors, share * self.settings.gp_prior, share * self.settings.spread_prior)

    def run(self) -> None:
        """All phases, until nothing more pays, or the time is up, or somebody wants it to end."""
        for phase in (self._plain, self._first_step, self._later_steps, self._on_all_rows, self._more_points, self._more_members):
            phase()
            if self.training.over():
                break
        self._condition_everyone()

    def candidates(self, changed: Mapping[str, Group] | None = None, exponent: float = 0.0) -> Candidates:
        """What all groups predict, some of them changed. exponent: of their variances, in which members count."""
        groups = {**self.groups, **(changed or {})}
        return Candidates.of({name: group.mixture(exponent) for name, group in groups.items()})

    def _some(self, changed: Mapping[str, Group] | None = None) -> Candidates:
        """The same for some of the held-out rows: enough for a decision."""
        whole = self.candidates(changed)
        every = -(-whole.log_density.shape[-1] // _DECIDING_ROWS)
        some = (part[..., ::every] for part in (whole.log_density, whole.cdf, whole.counts))
        return Candidates(whole.names, *some)

    # ------------------------------------------------------------------------------------------------------------------------ phases

    def _plain(self) -> None:
        """The plain GPs, which all others are held against."""
        second = min(1, len(self.settings.sparse_steps) - 1)
        plain = {name: (1, second) for name, kind in self.training.kinds.items() if kind.plain}
        self.groups = self.training.new(PLAIN_PHASE, plain, self.training.part)
        if PLAIN not in self.groups:
            raise TrainingFailedError(
                "The plain GP gave no finite bound. Rescale the data, raise the noise floor, or start from another kernel."
            )
        self.training.gp = self.groups[PLAIN].scored[0].posterior.values

    def _first_step(self) -> None:
        """A few members of every other kind."""
        others = {name: (kind.first, 0) for name, kind in self.training.kinds.items() if not kind.plain}
        self.groups |= self.training.new(step_phase(self.settings.sparse_steps[0]), others, self.training.part)

    def _later_steps(self) -> None:
        """Kinds that add something are trained on; where only a part of the rows is compared, to the second step."""
        self._gaining = self._climb(self._worth_it(), 1, self.training.part, None if self._whole else 1)

    def _on_all_rows(self) -> None:
        """The groups that are needed, on all rows; networks that grow with the rows begin anew, larger."""
        if self._whole:
            return
        needed, iterations = self.needed(), self.settings.sparse_steps[0]
        stay = {name: self.groups[name] for name in needed if not self.groups[name].kind.grows}
        grow = [name for name in needed if name not in stay]
        if self.training.affordable(sum(len(group.scored) for group in stay.values()) * iterations):
            self.groups |= self.training.further(ALL_ROWS, stay, iterations, self.rows)
        self._condition_everyone()
        reached = [self.groups[name].step + (name in self._gaining) for name in grow]
        self._climb(grow, max(reached, default=0), self.rows)

    def _more_points(self) -> None:
        """Twice as many inducing points for the group with most weight, while held-out rows want them: its best member tries them first."""
        training, most = self.training, min(MOST_INDUCING, self.rows.count)
        while training.trainer.method.inducing is None and training.inducing < most and not training.over():
            name, more = self._heaviest(), min(2 * training.inducing, most)
            group, each = self.groups[name], self.settings.sparse_steps[0] * training.cost(self.rows.count, more)
            first = int(np.argmax(group.inner()))
            tried = self._with_points(group, [first], more) if training.affordable(each) else None
            if tried is None or self._gain({name: tried}) < self.settings.keep:
                break
            others = [i for i in range(len(group.scored)) if i != first]
            if others and training.affordable(len(others) * each):
                tried = self._with_points(tried, others, more) or tried
            self.groups[name], training.inducing = tried, more

    def _with_points(self, group: Group, members: list[int], inducing: int) -> Group | None:
        """The group after some members have got so many inducing points and were trained on with them; None where that failed."""
        filled = self.training.members.filled_up([group.members[i] for i in members], self.rows, inducing)
        name, iterations = group.kind.name, self.settings.sparse_steps[0]
        found = self.training.trained(MORE_POINTS, {name: filled}, {name: iterations}, self.rows, group.step).get(name)
        if found is None or len(found.scored) < len(members):
            return None
        changed = dict(zip(members, found.scored, strict=True))
        return replace(group, scored=tuple(changed.get(i, scored) for i, scored in enumerate(group.scored)))

    def _more_members(self) -> None:
        """Further members for the groups that carry the weight; those that make the stack worse are not taken."""
        wanted = self._wanted()
        found = self.training.new(MORE_MEMBERS, wanted, self.rows) if wanted else {}
        for name, new in found.items():
            both = self.groups[name].joined(new)
            if self._gain({name: both}) > 0.0:
                self.groups[name] = both

    def _wanted(self) -> dict[str, tuple[int, int]]:
        """How many further members each group gets, and to which step: twice its share of as many as it may have, as far as the stack can afford them."""
        share, training = self._shares(), self.training
        wanted, cost = {}, 0.0
        for name in sorted(share, key=share.__getitem__, reverse=True):
            group = self.groups[name]
            count = min(group.kind.most - len(group.scored), round(2.0 * share[name] * group.kind.most))
            each = training.member_cost(group.kind, group.step) * training.cost(self.rows.count, training.inducing)
            while count > 0 and not training.affordable(cost + count * each):
                count -= 1
            if count > 0:
                wanted[name] = (count, group.step)
                cost += count * each
        return wanted

    def _condition_everyone(self) -> None:
        """Every group on all rows, where some know a part of them only; of very many rows, or in little time, those that are needed."""
        N = self.rows.count
        partly = {name: group for name, group in self.groups.items() if any(s.posterior.bound_rows < N for s in group.scored)}
        if not partly:
            return
        short = N > 10 * PART_ROWS or self.training.end < math.inf
        needed = self.needed() if short else list(self.groups)
        found = self.training.scored({name: group.members for name, group in partly.items() if name in needed}, self.rows, 0)
        whole = {name: group for name, group in self.groups.items() if name not in partly}
        known = whole | {name: replace(group, step=partly[name].step) for name, group in found.items()}
        self.groups = {name: known[name] for name in self.groups if name in known}

    # ------------------------------------------------------------------------------------------------------------------------ decisions

    @property
    def _whole(self) -> bool:
        """Whether kinds are compared on all rows."""
        return self.training.part is self.rows

    def _climb(self, active: list[str], step: int, source: ModelRows, last: int | None = None) -> list[str]:
        """Train groups on from step to step, while that pays; pretrained networks go on beyond the last step, twice as long each time.

        Returns those that gained enough by the last step that was taken.
        """
        last = len(self.settings.sparse_steps) + _DOUBLINGS - 1 if last is None else last
        while active and step <= last and not self.training.over():
            if step >= len(self.settings.sparse_steps):
                active = [name for name in active if self.groups[name].kind.grows]
            active = self._step(active, step, source)
            step += 1
        return active

    def _step(self, names: list[str], step: int, source: ModelRows) -> list[str]:
        """Train groups on to a step; each stays as it was unless that gains something. Those that gained enough to go on."""
        names = sorted(names, key=lambda name: -float(self.groups[name].mixture().log_density[0].mean()))
        while names and not self.training.affordable(
            sum(self._step_cost(self.groups[name], step, source) for name in names), _CLIMB
        ):
            names.pop()
        anew = {name: (len(self.groups[name].scored), step) for name in names if self.groups[name].kind.grows}
        on = {name: replace(self.groups[name], step=step) for name in names if name not in anew}
        phase = step_phase(self.training.epochs(step), all_rows=source is not self.training.part)
        later = self.training.new(phase, anew, source) if anew else {}
        if on:
            later |= self.training.further(
                phase, on, self.settings.sparse_steps[step] - self.settings.sparse_steps[step - 1], source
            )
        gains = {name: self._gain({name: group}) for name, group in later.items()}
        self.groups |= {name: group for name, group in later.items() if gains[name] > 0.0}
        return [name for name in names if gains.get(name, -math.inf) > self.settings.go_on]

    def _step_cost(self, group: Group, step: int, source: ModelRows) -> float:
        """Evaluations that the next step of a group takes."""
        steps, training = self.settings.sparse_steps, self.training
        each = training.member_cost(group.kind, step) if group.kind.grows else steps[step] - steps[step - 1]
        return len(group.scored) * each * training.cost(source.count, training.inducing)

    def needed(self) -> list[str]:
        """The groups that the stack would miss."""
        return self._missed(self.settings.keep)

    def _missed(self, keep: float) -> list[str]:
        """The plain GP and the groups without which the stack would lose ``keep`` nats a row; those with next to no weight are not asked about one by one."""
        candidates = self._some()
        if keep > 0.0:
            weights, _ = self.weighing.weights(candidates)
            heavy = [g for g, share in enumerate(weights.sum(1)) if g == 0 or share >= _LIGHT]
            candidates = candidates.only(np.isin(np.arange(len(candidates.names)), heavy))
        return self.weighing.needed(candidates, candidates.names[1:], keep)

    def _shares(self) -> dict[str, float]:
        """The weights of the groups."""
        candidates = self._some()
        weights, _ = self.weighing.weights(candidates, self.needed())
        return dict(zip(candidates.names, weights.sum(1).tolist(), strict=True))

    def _heaviest(self) -> str:
        share = self._shares()
        return max(share, key=share.__getitem__)

    def _worth_it(self) -> list[str]:
        """The groups that may be trained on: those that add more than next to nothing to the stack, and the one that is best alone."""
        names = [name for name, group in self.groups.items() if not group.kind.plain and group.kind.start != "warm"]
        needed = self._missed(0.5 * self.settings.keep)
        best = max(names, key=lambda name: float(self.groups[name].mixture().log_density[0].mean()), default="")
        return [name for name in names if name in needed or name == best]

    def _gain(self, changed: Mapping[str, Group]) -> float:
        """Nats a held-out row that the stack gains by a change of some groups."""
        return self.weighing.value(self._some(changed)) - self.weighing.value(self._some())
