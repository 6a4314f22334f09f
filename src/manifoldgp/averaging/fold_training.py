"""Groups on folds: their members trained on the rows of each fold, and what they predict on the rows held out.

Cold and own members are trained in steps, and after each of them held-out rows decide: a group that adds next to nothing and is no better than the plain GP goes no
further, one that a step made worse stays as it was before that step (early stopping), and one that gains much goes on for longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, ndtr

from manifoldgp.averaging.fold_predictions import Folds, HeldOut, held_out_means, predict_held_out
from manifoldgp.averaging.members import nested_gp, pick, plain_gp, warm_and_cold
from manifoldgp.averaging.stacking import Candidates, HeldOutReport, tempered_weights
from manifoldgp.model import Model
from manifoldgp.parameters import Tree
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Trainer

if TYPE_CHECKING:
    from manifoldgp.averaging.stack import Stack

GROUPS = ("plain GP", "warm", "cold", "own")
"""plain GP: Identity features. warm: nested mGPs that start at the plain GP and stop early. cold: nested mGPs that start far from it.
own: the features and kernel that the user chose (by default the paper's log-sigmoid network)."""

STEPPED = ("cold", "own")
"""Groups that are trained in steps. Warm members stop early by their nature."""

GP_ON_FOLDS, NESTED_ON_FOLDS, OWN_ON_FOLDS = "plain GP on folds", "nested on folds", "own on folds"
"""Phases, by name."""

GP_FOLD_ITERATIONS = 50


def step_phase(group: str, iterations: int) -> str:
    """The name of the phase that trains a group on, to so many iterations in all."""
    return f"{group} on folds, to {iterations}"


@dataclass(frozen=True)
class Group:
    """One group's members on K folds, fold by fold, and the inner weights (K, members) of their mixture; iterations: that each was given."""

    batch: Trained
    chosen: np.ndarray
    inner: np.ndarray
    iterations: int

    @property
    def values(self) -> Tree:
        """Of its members, fold by fold, leaves (K · members, *shape)."""
        return self.batch.values(self.chosen)

    def across_folds(self) -> Tree:
        """The values with the heaviest member of every fold first, then the second of every fold, and so on."""
        K, members = self.inner.shape
        ranked = np.argsort(-self.inner, axis=1, kind="stable") + members * np.arange(K)[:, None]
        return pick(self.values, ranked.T.ravel())


def weigh_on_folds(
    template: Model, folds: Folds, gp_values: Tree, settings: Stack, trainer: Trainer
) -> tuple[np.ndarray, HeldOutReport, dict[str, Group]]:
    """Train every group on every fold, each fold's warm members from that fold's own GP; weights (G, F), their report, and the groups.

    gp_values: the plain GP of all rows, leaves (1, *shape), where those of the folds start.
    """
    groups = _first_step(template, folds, gp_values, settings, trainer)
    predicted = {name: _predicted(group, folds, settings) for name, group in groups.items()}
    for name in STEPPED:
        for iterations in settings.steps[1:]:
            candidates = Candidates.of(predicted)
            if not candidates.better_than_gp(name) and name not in settings.weighing.needed(
                candidates, STEPPED, 0.5 * settings.keep
            ):
                break
            further = _further(groups[name], name, iterations, folds, settings, trainer)
            later = {**predicted, name: _predicted(further, folds, settings)}
            gain = settings.weighing.value(Candidates.of(later)) - settings.weighing.value(candidates)
            if gain > 0.0:
                groups[name], predicted = further, later
            if gain < settings.go_on:
                break
    candidates = Candidates.of(predicted)
    weights, report = settings.weighing.weights(candidates, settings.weighing.needed(candidates, GROUPS[1:], settings.keep))
    return weights, _with_means(report, groups, folds, settings), groups


def _with_means(report: HeldOutReport, groups: dict[str, Group], folds: Folds, settings: Stack) -> HeldOutReport:
    """The report with the stack's means of the held-out rows, their targets, and the groups that were stopped on their way."""
    mean = np.zeros(folds.N)
    for group, weights in zip(groups.values(), report.weights, strict=True):
        if weights.any():
            K, members = group.inner.shape
            each = held_out_means(group.batch.model, group.values, folds.for_members(members), settings.variance_factors)
            mixed = (group.inner[None, :, :, None] * each.reshape(len(weights), K, members, -1)).sum(2)
            mean += np.tensordot(weights, folds.by_row(mixed), 1)
    observed = folds.by_row(folds.y.cpu().numpy())
    seen = np.isfinite(observed)
    stopped = tuple(name for name, group in groups.items() if group.batch.cut_short[group.chosen].any())
    return replace(report, mean=mean[seen], observed=observed[seen], cut_short=stopped)


def _first_step(template: Model, folds: Folds, gp_values: Tree, settings: Stack, trainer: Trainer) -> dict[str, Group]:
    K, members, first = folds.count, settings.fold_members, settings.steps[0]
    started = pick(gp_values, np.zeros(K, dtype=int))
    gp = trainer.fit(GP_ON_FOLDS, plain_gp(template), folds.train, K, GP_FOLD_ITERATIONS, lambda _: started)

    model, is_warm = nested_gp(template, settings.hidden, settings.q), np.tile(np.arange(2 * members) < members, K)
    start = nested_start(model, pick(gp.values(), np.repeat(np.arange(K), 2 * members)), is_warm)
    limits = np.where(is_warm, settings.warm_iterations, first)
    nested = trainer.fit(NESTED_ON_FOLDS, model, folds.for_members(2 * members).train, len(is_warm), limits, start)
    own = trainer.fit(OWN_ON_FOLDS, template, folds.for_members(members).train, K * members, first)
    return {
        "plain GP": Group(gp, np.arange(K), np.ones((K, 1)), GP_FOLD_ITERATIONS),
        "warm": Group(nested, np.flatnonzero(is_warm), _equal(nested.objective[is_warm], K), settings.warm_iterations),
        "cold": Group(nested, np.flatnonzero(~is_warm), _equal(nested.objective[~is_warm], K), first),
        "own": Group(own, np.arange(K * members), _tempered(own.objective, K, settings.temperature), first),
    }


def _further(group: Group, name: str, iterations: int, folds: Folds, settings: Stack, trainer: Trainer) -> Group:
    """The group trained on, to so many iterations in all."""
    K, members = group.inner.shape
    train, values = folds.for_members(members).train, group.values
    batch = trainer.fit(
        step_phase(name, iterations),
        group.batch.model,
        train,
        K * members,
        iterations - group.iterations,
        lambda _: values,
    )
    inner = _tempered(batch.objective, K, settings.temperature) if name == "own" else _equal(batch.objective, K)
    return Group(batch, np.arange(K * members), inner, iterations)


def _equal(objective: np.ndarray, K: int) -> np.ndarray:
    """Equal inner weights (K, members), next to none for a member that could not be trained."""
    inner = np.where(np.isfinite(objective), 1.0, 1e-12).reshape(K, -1)
    return inner / inner.sum(1, keepdims=True)


def _tempered(objective: np.ndarray, K: int, temperature: float) -> np.ndarray:
    return np.stack([tempered_weights(of_fold, temperature) for of_fold in objective.reshape(K, -1)])


def nested_start(model: Model, gp: Tree, is_warm: np.ndarray) -> Callable[[Tree], Tree]:
    """From drawn values to those of warm and cold starts around the plain GPs ``gp``."""
    return lambda drawn: warm_and_cold(drawn, model.features.width, gp, is_warm)  # type: ignore[attr-defined]


def _predicted(group: Group, folds: Folds, settings: Stack) -> tuple[np.ndarray, np.ndarray]:
    """Mixture log density and CDF (F, N) of a group's members."""
    K, members = group.inner.shape
    held_out: HeldOut = predict_held_out(group.batch.model, group.values, folds.for_members(members), settings.variance_factors)
    shape = (len(held_out.log_density), K, members, -1)
    w = group.inner[None, :, :, None]
    log_density = np.asarray(logsumexp(held_out.log_density.reshape(shape), axis=2, b=w))
    return folds.by_row(log_density), folds.by_row((w * ndtr(held_out.score.reshape(shape))).sum(2))
