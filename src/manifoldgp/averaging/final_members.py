"""The members of a stack that predict: trained anew on all rows where these are few, else those of the folds.

A member on all rows that is stopped on its way (by the deadline, or by the one who watches) is not what its fellows on the folds were: where no member of a group came to its
end, those of the folds predict.
A member of the folds is the very one that was weighed, however far it came; it is conditioned on all rows, and no parameter changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import logsumexp

from manifoldgp.averaging.fold_groups import Group
from manifoldgp.averaging.fold_steps import GP_FOLD_ITERATIONS
from manifoldgp.averaging.kinds import ADDITIVE_GP, COLD, OWN, PLAIN, ROUGH, ROUGH_GP, SEARCHED_GP, WARM
from manifoldgp.averaging.members import nested_gp, nested_start, pick
from manifoldgp.averaging.restarts import LOST_AFTER
from manifoldgp.averaging.searched_gp import FOR_SEARCH, searched
from manifoldgp.averaging.stacking import tempered_weights
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, leaves, nest
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Trainer

if TYPE_CHECKING:
    from manifoldgp.averaging.stack import Stack

RETRAINED_BELOW = 600
"""Rows below which members are trained anew on all of them once their weights are known."""

SAME_OPTIMUM = 0.01
"""Nats by which the objectives of two starts differ at most that ended at the same optimum."""


@dataclass(frozen=True)
class Share:
    """What a group counts: its weights (F,) under every variance factor, and the log variance at which its members count so where weights follow it."""

    weights: np.ndarray
    usual: float = 0.0


@dataclass(frozen=True)
class Weighted:
    """Architectures, weights (F, R) of their members under every variance factor, and the log variances (R,) at which these count so."""

    batches: list[Trained]
    weights: list[np.ndarray]
    usual: list[np.ndarray]

    def add(self, batch: Trained, inner: Mapping[str, np.ndarray], share: Mapping[str, Share]) -> None:
        """One architecture with the weights (R,) of its members in each group, by name."""
        self.batches.append(batch)
        self.weights.append(np.zeros((len(next(iter(share.values())).weights), len(batch.objective))))
        self.usual.append(np.zeros(len(batch.objective)))
        self.also(len(self.batches) - 1, inner, share)

    def also(self, place: int, inner: Mapping[str, np.ndarray], share: Mapping[str, Share]) -> None:
        """Members of further groups among those of an architecture that is there."""
        for name, own in inner.items():
            self.weights[place] += share[name].weights[:, None] * own
            self.usual[place][own > 0] = share[name].usual


def conditioned(groups: dict[str, Group], share: Mapping[str, Share]) -> Weighted:
    """The members of the folds, with what their groups count."""
    found = Weighted([], [], [])
    each = [(name, part, len(group.further) + 1) for name, group in groups.items() for part in group.by_architecture()]
    for name, group, architectures in each:
        inner = {name: group.weights() / architectures}
        same = next((b for b, batch in enumerate(found.batches) if batch.result is group.batch.result), None)
        if same is None:
            found.add(replace(group.batch, group=name), inner, share)
        else:  # warm and cold members are one batch
            found.batches[same] = replace(found.batches[same], group="nested")
            found.also(same, inner, share)
    return found


def retrained(
    template: Model,
    data: Data,
    plain: dict[str, Trained],
    groups: dict[str, Group],
    share: Mapping[str, Share],
    settings: Stack,
    trainer: Trainer,
) -> Weighted:
    """Members trained on all rows, of the groups that carry weight.

    plain: the plain and the searched GP of all rows, as far as they are trained; all deals share them.
    """
    if PLAIN not in plain:
        plain[PLAIN] = _plain(data, groups[PLAIN], settings.starts_for(len(data.y)), trainer)
    gp = plain[PLAIN]
    best = gp.best() if len(gp.order) else None
    found = Weighted([], [], [])
    left = {name: of_group for name, of_group in share.items() if name != PLAIN and of_group.weights.any()}
    if best is None or gp.cut_short[best]:  # those of the folds went on from it, or could be trained
        left[PLAIN] = share[PLAIN]
        found.add(gp, {}, share)
    else:
        found.add(gp, {PLAIN: _of_optima(gp)}, share)
    base = pick(groups[PLAIN].values, np.zeros(1, dtype=int)) if best is None else gp.values(np.array([best]))

    def wanted(*names: str) -> bool:
        return any(name in left for name in names) and not trainer.late

    def add(batch: Trained, inner: dict[str, np.ndarray]) -> None:
        """A batch with the weights (R,) of its members in each group, by name; a group none of whose members came to its end has only zeros."""
        ended = {name: own for name, own in inner.items() if name in left and own.any()}
        found.add(batch, ended, share)
        for name in ended:
            del left[name]

    for name in (ROUGH_GP, ADDITIVE_GP):
        if wanted(name):
            full = _of_each_fold(name, data, groups[name], settings, trainer)
            add(full, {name: _by_evidence(full, settings)})
    if wanted(SEARCHED_GP) and SEARCHED_GP not in plain:
        assert settings.search is not None
        kernel = searched(settings.search, template, data, trainer.within(FOR_SEARCH))
        plain |= {} if kernel is None else {SEARCHED_GP: kernel}
    if SEARCHED_GP in left and SEARCHED_GP in plain:
        add(plain[SEARCHED_GP], {SEARCHED_GP: _by_evidence(plain[SEARCHED_GP], settings)})
    if wanted(WARM, COLD):
        warm, cold = settings.warm_members * (WARM in left), settings.cold_members * (COLD in left)
        is_warm = np.arange(warm + cold) < warm
        full = _nested(template, data, base, is_warm, settings, trainer, groups[COLD])
        add(full, {WARM: equal_weights(full, is_warm), COLD: equal_weights(full, ~is_warm)})
    if wanted(ROUGH):
        full = _rough(data, groups[ROUGH], groups.get(ROUGH_GP, groups[PLAIN]), settings, trainer)
        add(full, {ROUGH: equal_weights(full, np.ones(settings.cold_members, dtype=bool))})
    if wanted(OWN):
        full = _own(template, data, _own_count(left[OWN].weights.sum(), len(data.y), settings), settings, trainer, groups[OWN])
        add(full, {OWN: _by_evidence(full, settings)})
    of_folds = conditioned({name: groups[name] for name in left}, left)
    return Weighted(found.batches + of_folds.batches, found.weights + of_folds.weights, found.usual + of_folds.usual)


def mixed(stacks: Sequence[Weighted], exponent: float = 0.0) -> Weighted:
    """The equal mixture of several stacks of the same rows. exponent: of variances, by which weights may follow them."""
    found = Weighted([], [], [])
    each = [part for stack in stacks for part in zip(stack.batches, stack.weights, stack.usual, strict=True)]
    for batch, weights, usual in each:
        own = weights / len(stacks)
        same = next((b for b, other in enumerate(found.batches) if batch.is_like(other)), None)
        if same is None:
            found.batches.append(batch)
            found.weights.append(own)
            found.usual.append(usual)
        elif batch.result is found.batches[same].result:
            both = np.stack([found.weights[same].sum(0), own.sum(0)])
            share = both / np.maximum(both.sum(0), 1e-300)
            log_counts = logsumexp(exponent * np.stack([found.usual[same], usual]), axis=0, b=np.maximum(share, 1e-300))
            found.weights[same] = found.weights[same] + own
            found.usual[same] = log_counts / exponent if exponent else found.usual[same]
        else:
            found.batches[same] = found.batches[same].joined_by(batch)
            found.weights[same] = np.concatenate([found.weights[same], own], axis=1)
            found.usual[same] = np.concatenate([found.usual[same], usual])
    return found


def _plain(data: Data, group: Group, starts: int, trainer: Trainer) -> Trained:
    """The plain GP of all rows, from where the one of the first fold ended; where that start fails, from those of the other folds and so many drawn ones."""
    model, K = group.batch.model, group.batch.objective.size
    first, others = pick(group.values, np.zeros(1, dtype=int)), pick(group.values, np.arange(1, K))
    trained = trainer.fit(PLAIN, model, data, 1, GP_FOLD_ITERATIONS, lambda _: first)
    if len(trained.order):
        return trained
    again = np.arange(K - 1)
    return trainer.fit(PLAIN, model, data, len(again) + starts, GP_FOLD_ITERATIONS, lambda drawn: _replaced(drawn, again, others))


def _of_each_fold(name: str, data: Data, group: Group, settings: Stack, trainer: Trainer) -> Trained:
    """Further plain GPs of all rows, one from where that of each fold ended: one alone would be a matter of chance, since its evidence has several optima."""
    values, iterations = group.values, max(settings.polish, group.iterations // 4)
    return trainer.fit(name, group.batch.model, data, group.inner.size, iterations, lambda _: values)


def _rough(data: Data, group: Group, base: Group, settings: Stack, trainer: Trainer) -> Trained:
    """Rough members: those that start afresh do so around the plain GP ``base`` of the first fold."""
    model, count = group.batch.model, settings.cold_members
    afresh = nested_start(model, pick(base.values, np.zeros(count, dtype=int)), np.zeros(count, dtype=bool))
    limits, start = _as_on_folds(np.arange(count), group, len(data.y), settings)
    return trainer.fit(ROUGH, model, data, count, limits, lambda drawn: start(afresh(drawn)))


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
    limits[cold], start = _as_on_folds(cold, cold_on_folds, len(data.y), settings)
    return trainer.fit("nested", model, data, len(is_warm), limits, lambda drawn: start(afresh(drawn)))


def _own(template: Model, data: Data, count: int, settings: Stack, trainer: Trainer, on_folds: Group) -> Trained:
    """Members of the user's own architecture."""
    limits, start = _as_on_folds(np.arange(count), on_folds, len(data.y), settings)
    return trainer.fit("own", template, data, count, limits, start, margin=LOST_AFTER * settings.temperature)


def _as_on_folds(members: np.ndarray, group: Group | None, N: int, settings: Stack) -> tuple[np.ndarray, Callable[[Tree], Tree]]:
    """Iteration limits of some members, and what becomes of their starts. N: rows of the fit.

    Members of a group that held-out rows stopped after the first step start afresh and stop there too. Those of another go on where members of
    the folds ended, and as many start afresh as are missing; all of them do where features have constants of the rows.
    """
    first = settings.steps_for(N)[0]
    if group is None or group.iterations <= first:
        return np.full(len(members), first), lambda drawn: drawn
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


def _of_optima(batch: Trained) -> np.ndarray:
    """Weights (R,) of the optima that starts ended at, in proportion to their evidence: of few rows it says little about which is the right one. Starts with the same objective share an optimum, and
    the first of them stands for all."""
    finished = np.where(batch.cut_short, np.inf, batch.objective)
    ranked = np.argsort(finished, kind="stable")[: np.isfinite(finished).sum()]
    finished[ranked[1:][np.diff(finished[ranked]) < SAME_OPTIMUM]] = np.inf
    return tempered_weights(finished, 1.0) * np.isfinite(finished)


def _by_evidence(batch: Trained, settings: Stack) -> np.ndarray:
    """Weights (R,) that follow the objectives of members that were trained to their end; zeros where there is none."""
    finished = np.where(batch.cut_short, np.inf, batch.objective)
    return tempered_weights(finished, settings.temperature) * np.isfinite(finished)


def equal_weights(batch: Trained, chosen: np.ndarray) -> np.ndarray:
    """Equal weights (R,) over the chosen members that were trained to their end; zeros where there is none."""
    usable = chosen & np.isfinite(batch.objective) & ~batch.cut_short
    return usable / max(usable.sum(), 1)
