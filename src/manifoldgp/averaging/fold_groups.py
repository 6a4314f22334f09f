"""Groups on folds: the members of one kind, what they predict on held-out rows, and how much each of them counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from manifoldgp.averaging.fold_predictions import HeldOut
from manifoldgp.averaging.members import pick
from manifoldgp.averaging.stacking import Candidates, tempered_weights
from manifoldgp.averaging.sure_members import Followed, followed_weights
from manifoldgp.model import Data
from manifoldgp.parameters import Tree
from manifoldgp.training.optimizer import Curvature
from manifoldgp.training.trained import Trained


@dataclass(frozen=True)
class Group:
    """One group's members on K folds, fold by fold, and the inner weights (K, members) of their mixture.

    iterations: that each was given. data: what each learnt from last, (K · members, n, ·). whole: whether that was more than a sample of the rows.
    further: where every fold has an architecture of its own, such as a kernel that was searched for, this is the group of the first fold, and these are those of the others.
    """

    batch: Trained
    chosen: np.ndarray
    inner: np.ndarray
    iterations: int
    data: Data
    whole: bool = False
    further: tuple[Group, ...] = ()

    @property
    def values(self) -> Tree:
        """Of its members, fold by fold, leaves (K · members, *shape)."""
        return self.batch.values(self.chosen)

    def curvature(self, rows: int) -> Curvature | None:
        """What its members, fold by fold, have learnt about their Hessians, for an NLML of so many rows: it is about proportional to them."""
        known = self.batch.result.curvature
        return None if known is None else known.of(self.chosen, rows / float(self.batch.rows[0]))

    def by_architecture(self) -> tuple[Group, ...]:
        """Its members in groups of one architecture each."""
        return (replace(self, further=()), *self.further)

    @property
    def size(self) -> int:
        """How many members it has on all folds together."""
        return sum(group.inner.size for group in self.by_architecture())

    @property
    def cut_short(self) -> bool:
        """Whether any of its members was stopped on its way."""
        return any(bool(group.batch.cut_short[group.chosen].any()) for group in self.by_architecture())

    def across_folds(self) -> Tree:
        """The values with the heaviest member of every fold first, then the second of every fold, and so on."""
        K, members = self.inner.shape
        ranked = np.argsort(-self.inner, axis=1, kind="stable") + members * np.arange(K)[:, None]
        return pick(self.values, ranked.T.ravel())

    def joined_by(self, others: Group) -> Group:
        """With the members of another group of the same kind, each of whom counts as much as one of these; of one fold."""
        first, count = len(self.batch.objective), (self.inner.size, others.inner.size)
        inner = np.concatenate([self.inner * count[0], others.inner * count[1]], 1) / sum(count)
        batch = self.batch.joined_by(others.batch)
        return replace(self, batch=batch, chosen=np.concatenate([self.chosen, first + others.chosen]), inner=inner)

    def on(self, folds: int) -> Group:
        """The group on so many folds, as often as there are more of them than its own: the cells of a fold have the members of that fold."""
        K, members = self.inner.shape
        if folds == K:
            return self
        order = np.arange(K * members).reshape(K, members).repeat(folds // K, 0).ravel()
        return replace(self, chosen=self.chosen[order], inner=self.inner.repeat(folds // K, 0))

    def weights(self) -> np.ndarray:
        """Of all members of the batch (R,) in the group's mixture, every fold counting the same."""
        weights = np.zeros(len(self.batch.objective))
        weights[self.chosen] = self.inner.ravel() / len(self.inner)
        return weights


@dataclass(frozen=True)
class Predicted:
    """What a group says about held-out rows: its mixture with weights that are the same everywhere, and what each of its members says, fold by fold and the same on all ranks.

    inner: (K, members) their weights. architectures: of which each has as many folds. by_row: of the folds that were asked.
    """

    mixture: Followed
    each: HeldOut
    inner: np.ndarray
    architectures: int
    by_row: Callable[[np.ndarray], np.ndarray]

    @staticmethod
    def of(each: HeldOut, inner: np.ndarray, architectures: int, by_row: Callable[[np.ndarray], np.ndarray]) -> Predicted:
        """With the mixture that is made of them."""
        return Predicted(_followed(each, inner, by_row, 0.0), each, inner, architectures, by_row)

    def of_architectures(self) -> list[HeldOut]:
        """What the members of each architecture say."""
        return self.each.split(self.architectures)

    def following(self, exponent: float) -> Followed:
        """The mixture whose members count by how sure they are."""
        return _followed(self.each, self.inner, self.by_row, exponent) if exponent else self.mixture

    def weights_inside(self, exponent: float) -> np.ndarray:
        """Of the members in this mixture at every row of their folds (K, members, m)."""
        return followed_weights(self.each.variance.reshape(*self.inner.shape, -1), self.inner, exponent)[0]


def _followed(each: HeldOut, inner: np.ndarray, by_row: Callable[[np.ndarray], np.ndarray], exponent: float) -> Followed:
    shape = (len(each.log_density), *inner.shape, -1)
    log_density, cdf = each.log_density.reshape(shape), ndtr(each.score.reshape(shape))
    found = Followed.of(log_density, cdf, each.variance.reshape(shape[1:]), inner, exponent)
    return Followed(by_row(found.log_density), by_row(found.cdf), by_row(found.counts))


def candidates_of(predicted: dict[str, Predicted], exponent: float = 0.0) -> Candidates:
    """What the groups say, side by side."""
    return Candidates.of({name: found.following(exponent) for name, found in predicted.items()})


def equal_weights_of(objective: np.ndarray, K: int) -> np.ndarray:
    """Equal inner weights (K, members), next to none for a member that could not be trained."""
    inner = np.where(np.isfinite(objective), 1.0, 1e-12).reshape(K, -1)
    return inner / inner.sum(1, keepdims=True)


def tempered_weights_of(objective: np.ndarray, K: int, temperature: float) -> np.ndarray:
    """Inner weights (K, members) that follow the objectives."""
    return np.stack([tempered_weights(of_fold, temperature) for of_fold in objective.reshape(K, -1)])
