"""The stack: the plain GP and groups of mGPs, weighted by what they predict on held-out folds.

    p(y* | x*) = Σ_g Σ_f w_gf (1/R_g) Σ_r N(y* | m_gr, f · v_gr)

over groups g, their members r and variance factors f. The weights maximise the held-out log density of this very mixture, found
with members trained on folds; the members that predict are then trained on all rows, and only those of groups that carry weight.
A member on all rows that is stopped on its way (by the deadline, or by the one who watches) is not what its fellows on the folds were:
its weight goes to the plain GP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from manifoldgp.averaging.fold_predictions import make_batch
from manifoldgp.averaging.fold_training import Group, nested_start, weigh_on_folds
from manifoldgp.averaging.members import Batch, Trainer, nested_gp, pick, plain_gp
from manifoldgp.averaging.settings import Fast, Restarts, Stack
from manifoldgp.averaging.stacking import HeldOutReport, tempered_weights
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, leaves, nest
from manifoldgp.training.train import LOST_MARGIN

LOST_AFTER = 5.0
"""Temperatures behind the best after which a member's weight, e⁻⁵ of the best one's, is not worth training for."""


@dataclass(frozen=True)
class SamplingReport:
    """How well NUTS chains mixed: worst R-hat and smallest bulk ESS over all parameters, share of divergent draws; draws as ArviZ InferenceData."""

    worst_rhat: float
    smallest_ess: float
    divergent: float
    draws: Any


@dataclass(frozen=True)
class Averaged:
    """Trained batches, the weights (F, R_b) of their members under each variance factor, and what held-out rows said (if asked)."""

    batches: list[Batch]
    weights: list[np.ndarray]
    variance_factors: tuple[float, ...]
    report: HeldOutReport | None = None
    sampling: SamplingReport | None = None


def fit_stack(template: Model, data: Data, folds: list[np.ndarray], settings: Stack, trainer: Trainer) -> Averaged:
    """Weights from the folds (held-out rows of each), members from all rows."""
    gp = trainer.fit("plain GP", plain_gp(template), data, settings.gp_starts, settings.gp_iterations, margin=LOST_MARGIN)
    gp_values = gp.values(np.array([gp.best()]))
    weights, report, groups = weigh_on_folds(template, make_batch(data, folds), gp_values, settings, trainer)
    share = dict(zip(groups, weights, strict=True))

    is_best = np.arange(settings.gp_starts) == gp.best()
    batches, member_weights = [gp], [share["plain GP"][:, None] * is_best]
    warm, cold = settings.nested_members(len(data.y))
    warm, cold = warm if share["warm"].any() else 0, cold if share["cold"].any() else 0
    if warm + cold:
        is_warm = np.arange(warm + cold) < warm
        full = _nested(template, data, gp_values, is_warm, settings, trainer, groups["cold"])
        batches.append(full)
        member_weights.append(share["warm"][:, None] * _equal(full, is_warm) + share["cold"][:, None] * _equal(full, ~is_warm))
    if share["own"].any():
        count = _own_count(share["own"].sum(), len(data.y), settings)
        full = _own(template, data, count, settings, trainer, groups["own"])
        batches.append(full)
        finished = np.where(full.cut_short, np.inf, full.objective)
        inner = tempered_weights(finished, settings.temperature) * np.isfinite(finished)
        member_weights.append(share["own"][:, None] * inner)
    member_weights[0] += (weights.sum(0) - sum(w.sum(1) for w in member_weights))[:, None] * is_best
    return Averaged(batches, member_weights, tuple(settings.variance_factors), report)


def _nested(
    template: Model,
    data: Data,
    gp: Tree,
    is_warm: np.ndarray,
    settings: Stack,
    trainer: Trainer,
    cold_on_folds: Group | None = None,
) -> Batch:
    """Warm and cold members (R,) in one batch: the same architecture, different starts and iteration limits; warm ones start at the plain GP ``gp``."""
    model = nested_gp(template, settings.hidden, settings.q)
    afresh = nested_start(model, pick(gp, np.zeros(len(is_warm), dtype=int)), is_warm)
    cold = np.flatnonzero(~is_warm)
    limits = np.full(len(is_warm), settings.warm_iterations)
    limits[cold], start = _as_on_folds(cold, cold_on_folds, settings)
    return trainer.fit("nested", model, data, len(is_warm), limits, lambda drawn: start(afresh(drawn)))


def _own(template: Model, data: Data, count: int, settings: Stack, trainer: Trainer, on_folds: Group) -> Batch:
    """Members of the user's own architecture."""
    limits, start = _as_on_folds(np.arange(count), on_folds, settings)
    return trainer.fit("own", template, data, count, limits, start, margin=LOST_AFTER * settings.temperature)


def _as_on_folds(members: np.ndarray, group: Group | None, settings: Stack) -> tuple[np.ndarray, Callable[[Tree], Tree]]:
    """Iteration limits of some members, and what becomes of their starts.

    Members of a group that held-out rows stopped after the first step start afresh and stop there too. Those of another go on where members of
    the folds ended, and as many start afresh as are missing; all of them do where features have constants of the rows.
    """
    if group is None or group.iterations <= settings.steps[0]:
        return np.full(len(members), settings.steps[0]), lambda drawn: drawn
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


def _equal(batch: Batch, chosen: np.ndarray) -> np.ndarray:
    """Equal weights (R,) over the chosen members that were trained to their end; zeros where there is none."""
    usable = chosen & np.isfinite(batch.objective) & ~batch.cut_short
    return usable / max(usable.sum(), 1)


def fit_fast(template: Model, data: Data, fast: Fast, trainer: Trainer) -> Averaged:
    """Fixed weights, no folds: one third for the plain GP, for warm and for cold members; the plain GP has what those leave that were cut short."""
    settings = fast.as_stack()
    gp = trainer.fit("plain GP", plain_gp(template), data, settings.gp_starts, settings.gp_iterations, margin=LOST_MARGIN)
    best = gp.best()
    is_warm = np.arange(fast.warm_members + fast.cold_members) < fast.warm_members
    nested = _nested(template, data, gp.values(np.array([best])), is_warm, settings, trainer)
    weights = (_equal(nested, is_warm) + _equal(nested, ~is_warm)) / 3.0
    gp_weight = np.where(np.arange(settings.gp_starts) == best, 1.0 - weights.sum(), 0.0)
    return Averaged([gp, nested], [gp_weight[None], weights[None]], (1.0,))


def fit_restarts(template: Model, data: Data, settings: Restarts, trainer: Trainer) -> Averaged:
    """The restarts of one architecture, weighted by exp(−objective / temperature)."""
    margin = LOST_AFTER * settings.temperature
    batch = trainer.fit("restarts", template, data, settings.restarts, settings.max_iter, margin=margin)
    batch.best()
    return Averaged([batch], [tempered_weights(batch.objective, settings.temperature)[None]], (1.0,))
