"""The contest of groups on folds: what each says about held-out rows, and whom the stack would miss.

Training (:mod:`manifoldgp.averaging.fold_training`) brings groups here, and asks who is worth training on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from manifoldgp.averaging.averages import RANDOM_ROWS, FoldChoice
from manifoldgp.averaging.fold_groups import Group, Predicted, candidates_of
from manifoldgp.averaging.fold_predictions import Folds, HeldOut, predict_held_out
from manifoldgp.averaging.kinds import PLAIN
from manifoldgp.averaging.stacking import Candidates, Follow, FollowingWeights, HeldOutReport
from manifoldgp.training.trainer import Trainer

if TYPE_CHECKING:
    from manifoldgp.averaging.stack import Stack

DECIDE_ROWS, DECIDE_HELD_OUT = 600, 1024
"""Rows near a held-out one that members predict it with while it is decided who is trained on, and held-out rows that decide, both at most. Weights are found with all of them."""

DECIDE_ABOVE = 1500
"""Rows of a fold beyond which that is done."""

FACTOR_BYTES = 2**32
"""Memory that the factors of all members may take together; beyond, the groups that are missed least are left out."""


class FoldContest:
    """Groups by name, and what they say about held-out rows. folds: all held-out rows, which find the weights. deciding: those that decide who is trained on.

    late: whether there is no time left to ask whom the stack would miss. choice: which rows may err together.
    """

    def __init__(
        self, folds: Folds, settings: Stack, trainer: Trainer, late: Callable[[], bool], choice: FoldChoice = RANDOM_ROWS
    ) -> None:
        self.folds, self.deciding, self.settings, self._late = folds, folds, settings, late
        self.groups: dict[str, Group] = {}
        # Groups that were trained to their end, and that the held-out rows which decide did not miss.
        self.left_out: tuple[str, ...] = ()
        self._predicted: dict[str, Predicted] = {}
        self._choice, self._follow = choice, Follow.as_before(settings.certainty, settings.keep, trainer.earlier)
        self._workers, self._nearness, self._ranks = trainer.workers, trainer.nearness, trainer.ranks

    def decide_by_few(self, scale: np.ndarray, rng: np.random.Generator) -> None:
        """Let a part of the held-out rows decide, each predicted from the rows near it. scale: how long each input is (D,)."""
        self.deciding = self.folds.with_fewer_rows(DECIDE_ROWS, DECIDE_HELD_OUT, scale, rng)

    def decide_by_all(self) -> None:
        """Ask all held-out rows from now on, and every group anew."""
        self.deciding = self.folds
        self._predicted = {name: self.predict(group, self.folds) for name, group in self.groups.items()}

    @property
    def by_few(self) -> bool:
        """Whether a part of the held-out rows decides."""
        return self.deciding is not self.folds

    @property
    def local(self) -> bool:
        """Whether members predict from the rows near a point."""
        return self._nearness is not None and self._nearness.above < self.folds.N

    @property
    def candidates(self) -> Candidates:
        """What the groups say, side by side."""
        return candidates_of(self._predicted)

    def add(self, name: str, group: Group) -> None:
        """A group that takes part from now on."""
        self._predicted[name] = self.predict(group, self.deciding)
        self.groups[name] = group

    def keep(self, names: Sequence[str], needed: Sequence[str]) -> None:
        """Only these groups take part from now on. needed: those that held-out rows would miss, for some of whom time may be too short."""
        self.left_out = tuple(name for name, group in self.groups.items() if name not in needed and not group.cut_short)
        self.groups = {name: group for name, group in self.groups.items() if name in names}
        self._predicted = {name: self._predicted[name] for name in self.groups}

    def replace_if_better(self, name: str, further: Group) -> float:
        """Take another state of a group if the stack gains by it; what it gains, nats a row."""
        later = {**self._predicted, name: self.predict(further, self.deciding)}
        value = self.settings.weighing.value
        gain = value(candidates_of(later)) - value(self.candidates)
        if gain > 0.0:
            self.groups[name], self._predicted = further, later
        return gain

    def wanted(self, name: str, among: Candidates, optional: Sequence[str]) -> bool:
        """Whether a group is better than the plain GP, or adds more than next to nothing to the others."""
        return among.better_than_gp(name) or name in self.missed(among, optional)

    def missed(self, among: Candidates, optional: Sequence[str]) -> list[str]:
        """The groups without those of the optional ones that add next to nothing to the others."""
        return self.settings.weighing.needed(among, optional, 0.5 * self.settings.keep)

    def needed(self) -> list[str]:
        """The groups that are missed if they are left out; the plain GP is one of them. Where it is late, all of them."""
        weighing = self.settings.weighing
        kept = list(self.groups) if self._late() else weighing.needed(self.candidates, self._optional, self.settings.keep)
        return kept if self.local else self.at_most(max(3, int(FACTOR_BYTES / (8 * self.folds.N**2))), kept, least=2)

    def at_most(self, members: float, kept: list[str], least: int) -> list[str]:
        """Groups with so many members together, or so few groups: those that are missed least are left out; where it is late, those with the least weight, which is known at once."""
        while len(kept) > least and sum(self.groups[name].size for name in kept) > members:
            kept = self._without_lightest(kept) if self._late() else self._without_least_missed(kept)
        return kept

    def carrying(self, kept: list[str], least: float) -> list[str]:
        """Those of the groups that have so much weight, and the plain GP."""
        share = self.share(kept)
        return [name for name in kept if name == PLAIN or share[name] >= least]

    def share(self, kept: list[str]) -> dict[str, float]:
        """The weight of every group in a stack of these."""
        weights, _ = self.settings.weighing.weights(self.candidates, kept)
        return dict(zip(self.groups, weights.sum(1), strict=True))

    def _without_least_missed(self, kept: list[str]) -> list[str]:
        return self.settings.weighing.without_least_missed(self.candidates, kept, self._optional)[0]

    def _without_lightest(self, kept: list[str]) -> list[str]:
        share = self.share(kept)
        lightest = min((name for name in kept if name != PLAIN), key=share.__getitem__)
        return [name for name in kept if name != lightest]

    @property
    def _optional(self) -> list[str]:
        return [name for name in self.groups if name != PLAIN]

    def predict(self, group: Group, folds: Folds) -> Predicted:
        """What a group says about the held-out rows of these folds."""
        each = HeldOut.joined([self._said(part, theirs) for part, theirs in _with_folds(group, folds)])
        self._ranks.follow_first_(*map(torch.from_numpy, (each.score, each.log_density, each.variance)))  # one decision for all
        inner = [part.inner for part, _ in _with_folds(group, folds)]
        return Predicted.of(each, np.concatenate(inner), len(inner), folds.by_row)

    def _said(self, group: Group, folds: Folds) -> HeldOut:
        """What each member of one architecture says."""
        of_members = folds.for_members(group.inner.shape[1])
        factors = self.settings.variance_factors
        return predict_held_out(group.batch.model, group.values, of_members, factors, self._workers, self._nearness)

    def weights(self, kept: list[str]) -> tuple[np.ndarray, np.ndarray, HeldOutReport]:
        """Weights (G, F) of the groups, zero for those that are not kept, the log variances (G,) at which they count so, and what held-out rows say: with the stack's means of
        them, their targets, and the groups that were stopped on their way."""
        weights, report = self.settings.weighing.weights(self.candidates, kept)
        observed = self.deciding.by_row(self.deciding.y.cpu().numpy())
        stopped = tuple(name for name, group in self.groups.items() if group.cut_short)
        together, mean = self._choice.together(self._rows), self._mean(weights[..., None], 0.0)
        report = replace(report, mean=mean, observed=observed, cut_short=stopped, left_out=self.left_out, together=together)
        if self._follow is None:
            return weights, np.zeros(len(weights)), report
        found = self._following(self._follow, weights, report)
        return weights, found.usual, found.report

    def _following(self, asked: Follow, weights: np.ndarray, report: HeldOutReport) -> FollowingWeights:
        """Weights that follow how sure members are, as far as held-out rows want it."""
        units = np.arange(len(self._rows)) if report.together is None else report.together
        candidates = candidates_of(self._predicted, asked.exponent)
        return self.settings.weighing.following(candidates, weights, report, asked, units, self._mean)

    @property
    def _rows(self) -> np.ndarray:
        """The held-out rows (n,) that were asked, by number and in order."""
        where = self.deciding.where
        return np.sort(where[where >= 0])

    def _mean(self, at_rows: np.ndarray, exponent: float) -> np.ndarray:
        """For every held-out row (n,), of a stack in which groups count so much there (G, F, n), and members inside them by this exponent."""
        folds = self.deciding
        mean = np.zeros(folds.by_row(folds.y.cpu().numpy()).shape)
        for (name, group), own in zip(self.groups.items(), at_rows, strict=True):
            if own.any():
                predicted = self._predicted[name]
                parts = zip(_with_folds(group, folds), predicted.of_architectures(), strict=True)
                each = np.concatenate([self._means(part, said) for (part, _), said in parts], axis=1)
                mean += (own * folds.by_row((predicted.weights_inside(exponent) * each).sum(2))).sum(0)
        return mean

    def _means(self, group: Group, said: HeldOut) -> np.ndarray:
        """Means (F, K, members, m) of one architecture's members."""
        each = said.means(group.batch.model, group.values, self.settings.variance_factors)
        return each.reshape(len(each), *group.inner.shape, -1)


def _with_folds(group: Group, folds: Folds) -> list[tuple[Group, Folds]]:
    """The group's architectures, each with the folds that it is trained on."""
    parts = group.by_architecture()
    theirs = [folds.part(number, len(parts)) for number in range(len(parts))]
    return [(part.on(own.count), own) for part, own in zip(parts, theirs, strict=True)]
