"""The stack: the plain GP and groups of mGPs, weighted by what they predict on held-out folds.

    p(y* | x*) = Σ_g Σ_f w_gf (1/R_g) Σ_r N(y* | m_gr, f · v_gr)

over groups g, their members r and variance factors f. The weights maximise the held-out log density of this very mixture, found
with members trained on folds; the members that predict are then trained on all rows, and only those of groups that carry weight.
A member on all rows that is stopped on its way (by the deadline, or by the one who watches) is not what its fellows on the folds were:
its weight goes to the plain GP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr

from manifoldgp.averaging.heldout import Folds, HeldOut, make_batch, predict_held_out
from manifoldgp.averaging.members import Batch, Trainer, nested_gp, pick, plain_gp, warm_and_cold
from manifoldgp.averaging.weights import doubt, log_mixture, stacking_weights, tempered_weights
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree
from manifoldgp.train import LOST_MARGIN

GROUPS = ("plain GP", "warm", "cold", "own")
"""plain GP: Identity features. warm: nested mGPs that start at the plain GP and stop early. cold: nested mGPs that start far from it.
own: the features and kernel that the user chose (by default the paper's log-sigmoid network)."""

LOST_AFTER = 5.0
"""Temperatures behind the best after which a member's weight, e⁻⁵ of the best one's, is not worth training for."""


@dataclass(frozen=True)
class StackSettings:
    """Sizes of a stack. *_members: trained on all rows, fold_members: trained on each fold, for each group.

    gp_prior: pseudo-rows, as a fraction of N, that vote for the plain GP; fewer where held-out rows speak against it (see :func:`doubt`).
    spread_prior: pseudo-rows, as a fraction of N, that vote equally for every component.
    own_rows: up to so many rows all own_members are trained, if they carry the weight; beyond, in inverse proportion to the rows.
    keep: a group with less weight is not trained on all rows; the others share its weight.
    """

    gp_starts: int = 3
    warm_members: int = 5
    cold_members: int = 6
    own_members: int = 20
    fold_members: int = 3
    hidden: int = 8
    q: int = 2
    gp_iterations: int = 200
    warm_iterations: int = 25
    cold_iterations: int = 80
    own_iterations: int = 100
    temperature: float = 10.0
    variance_factors: tuple[float, ...] = (1.0, 4.0, 16.0)
    gp_prior: float = 0.05
    spread_prior: float = 0.02
    own_rows: int = 150
    keep: float = 0.02


@dataclass(frozen=True)
class HeldOutReport:
    """What the n held-out rows say: log densities (n,) of groups, of the control (the plain GP with variance-scaled copies) and of the stack; PIT (n,) of the stack.

    weights: (G, F) by group and variance factor.
    """

    groups: tuple[str, ...]
    variance_factors: tuple[float, ...]
    weights: np.ndarray
    log_density: dict[str, np.ndarray]
    pit: np.ndarray


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


@dataclass(frozen=True)
class Candidates:
    """Groups, the plain GP first: mixture log densities (G, F, N) and CDFs (G, F, N) of held-out rows; NaN in rows that nobody held out."""

    names: list[str]
    log_density: np.ndarray
    cdf: np.ndarray


def fit_stack(template: Model, data: Data, folds: list[np.ndarray], settings: StackSettings, trainer: Trainer) -> Averaged:
    """Weights from the folds (held-out rows of each), members from all rows."""
    gp = trainer.fit("plain GP", plain_gp(template), data, settings.gp_starts, settings.gp_iterations, margin=LOST_MARGIN)
    gp_values = gp.values(np.array([gp.best()]))
    candidates = _on_folds(template, make_batch(data, folds), gp_values, settings, trainer)
    weights, report = weigh(candidates, settings.variance_factors, settings.gp_prior, settings.spread_prior)
    weights = without_light_groups(weights, settings.keep)
    share = dict(zip(candidates.names, weights, strict=True))

    is_best = np.arange(settings.gp_starts) == gp.best()
    batches, member_weights = [gp], [share["plain GP"][:, None] * is_best]
    warm = settings.warm_members if share["warm"].any() else 0
    cold = settings.cold_members if share["cold"].any() else 0
    if warm + cold:
        is_warm = np.arange(warm + cold) < warm
        full = _nested(template, data, pick(gp_values, np.zeros(warm + cold, dtype=int)), is_warm, settings, trainer, "nested")
        equal = [_equal(full, is_warm), _equal(full, ~is_warm)]
        batches.append(full)
        member_weights.append(share["warm"][:, None] * equal[0] + share["cold"][:, None] * equal[1])
    if share["own"].any():
        count = _own_count(share["own"].sum(), len(data.y), settings)
        full = trainer.fit("own", template, data, count, settings.own_iterations, margin=LOST_AFTER * settings.temperature)
        batches.append(full)
        finished = np.where(full.cut_short, np.inf, full.objective)
        inner = tempered_weights(finished, settings.temperature) * ~full.cut_short
        member_weights.append(share["own"][:, None] * inner)
    member_weights[0] += (weights.sum(0) - sum(w.sum(1) for w in member_weights))[:, None] * is_best
    return Averaged(batches, member_weights, settings.variance_factors, report)


def _nested(
    template: Model, data: Data, gp: Tree, is_warm: np.ndarray, settings: StackSettings, trainer: Trainer, phase: str
) -> Batch:
    """Warm and cold members in one batch: the same architecture, different starts and iteration limits."""
    model = nested_gp(template, settings.hidden, settings.q)
    limits = np.where(is_warm, settings.warm_iterations, settings.cold_iterations)
    return trainer.fit(
        phase,
        model,
        data,
        len(is_warm),
        limits,
        lambda drawn: warm_and_cold(drawn, model.features.width, gp, is_warm),  # type: ignore[attr-defined]
    )


def _on_folds(template: Model, folds: Folds, gp_values: Tree, settings: StackSettings, trainer: Trainer) -> Candidates:
    """Train every group on every fold; each fold's warm members start at that fold's own GP."""
    K, members = folds.count, settings.fold_members
    gp_model = plain_gp(template)
    started = pick(gp_values, np.zeros(K, dtype=int))
    gp = trainer.fit("plain GP on folds", gp_model, folds.train, K, 50, lambda _: started)
    parts = {
        "plain GP": _group(predict_held_out(gp_model, gp.values(), folds, settings.variance_factors), folds, np.ones((K, 1)))
    }

    twice = folds.for_members(2 * members)
    is_warm = np.tile(np.arange(2 * members) < members, K)
    fold_gp = pick(gp.values(), np.repeat(np.arange(K), 2 * members))
    nested = _nested(template, twice.train, fold_gp, is_warm, settings, trainer, "nested on folds")
    held_out = predict_held_out(nested.model, nested.values(), twice, settings.variance_factors)
    for name, chosen in (("warm", is_warm), ("cold", ~is_warm)):
        inner = np.where(np.isfinite(nested.objective[chosen]), 1.0, 1e-12).reshape(K, members)
        parts[name] = _group(held_out.only(chosen), folds, inner / inner.sum(1, keepdims=True))

    several = folds.for_members(members)
    own = trainer.fit("own on folds", template, several.train, K * members, settings.own_iterations)
    inner = np.stack([tempered_weights(o, settings.temperature) for o in own.objective.reshape(K, members)])
    parts["own"] = _group(predict_held_out(own.model, own.values(), several, settings.variance_factors), folds, inner)
    names = list(parts)
    return Candidates(names, np.stack([parts[n][0] for n in names]), np.stack([parts[n][1] for n in names]))


def _group(held_out: HeldOut, folds: Folds, inner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mixture log density and CDF (F, N) of a group's members with inner weights (K, members)."""
    K, members = inner.shape
    shape = (len(held_out.log_density), K, members, -1)
    w = inner[None, :, :, None]
    log_density = np.asarray(logsumexp(held_out.log_density.reshape(shape), axis=2, b=w))
    return folds.by_row(log_density), folds.by_row((w * ndtr(held_out.score.reshape(shape))).sum(2))


def weigh(
    candidates: Candidates, variance_factors: tuple[float, ...], gp_prior: float, spread_prior: float
) -> tuple[np.ndarray, HeldOutReport]:
    """Stacking weights (G, F), and the report of held-out densities. gp_prior, spread_prior: as in :class:`StackSettings`."""
    seen = np.isfinite(candidates.log_density).all((0, 1))  # rows that some fold held out
    held_out, cdf = candidates.log_density[..., seen], candidates.cdf[..., seen]
    G, F, N = held_out.shape
    prior = np.full((G, F), spread_prior * N / (G * F))
    table = held_out.reshape(G * F, N)
    unaided = log_mixture(table, stacking_weights(table, prior.ravel()))
    prior[0, 0] += gp_prior * N * doubt(unaided - held_out[0, 0])
    weights = stacking_weights(table, prior.ravel()).reshape(G, F)
    control = stacking_weights(held_out[0], prior[0])
    log_density = {name: held_out[g, 0] for g, name in enumerate(candidates.names)}
    log_density["control"] = log_mixture(held_out[0], control)
    log_density["stack"] = log_mixture(table, weights.ravel())
    pit = (weights[..., None] * cdf).sum((0, 1))
    return weights, HeldOutReport(tuple(candidates.names), variance_factors, weights.copy(), log_density, pit)


def without_light_groups(weights: np.ndarray, keep: float) -> np.ndarray:
    """Weights (G, F) without the groups that carry less than ``keep``: the others share it. The plain GP, the first, always stays."""
    kept = np.where(weights.sum(1, keepdims=True) < keep, 0.0, weights)
    kept[0] += 1e-9
    return kept / kept.sum()


def _own_count(share: float, N: int, settings: StackSettings) -> int:
    """How many members of the user's own architecture: fewer where they carry less weight, or where many rows tell them apart anyway."""
    count = 2.0 * share * settings.own_members * min(1.0, settings.own_rows / N)
    return int(np.clip(np.ceil(count), settings.fold_members, settings.own_members))


def _equal(batch: Batch, chosen: np.ndarray) -> np.ndarray:
    """Equal weights (R,) over the chosen members that were trained to their end; zeros where there is none."""
    usable = chosen & np.isfinite(batch.objective) & ~batch.cut_short
    return usable / max(usable.sum(), 1)


def fit_fast(template: Model, data: Data, settings: StackSettings, trainer: Trainer) -> Averaged:
    """Fixed weights, no folds: one third for the plain GP, for warm and for cold members; the plain GP has what those leave that were cut short."""
    gp = trainer.fit("plain GP", plain_gp(template), data, settings.gp_starts, settings.gp_iterations, margin=LOST_MARGIN)
    best = gp.best()
    warm, cold = settings.warm_members, settings.cold_members
    is_warm = np.arange(warm + cold) < warm
    start = pick(gp.values(np.array([best])), np.zeros(warm + cold, dtype=int))
    nested = _nested(template, data, start, is_warm, settings, trainer, "nested")
    weights = (_equal(nested, is_warm) + _equal(nested, ~is_warm)) / 3.0
    gp_weight = np.where(np.arange(settings.gp_starts) == best, 1.0 - weights.sum(), 0.0)
    return Averaged([gp, nested], [gp_weight[None], weights[None]], (1.0,))


def fit_restarts(template: Model, data: Data, restarts: int, max_iter: int, temperature: float, trainer: Trainer) -> Averaged:
    """The restarts of one architecture, weighted by exp(−objective / temperature)."""
    batch = trainer.fit("restarts", template, data, restarts, max_iter, margin=LOST_AFTER * temperature)
    batch.best()
    return Averaged([batch], [tempered_weights(batch.objective, temperature)[None]], (1.0,))
