"""The stack for many rows: sparse members, weighted by what they predict on one held-out part of the rows.

Groups: the plain sparse GP, mGPs on [x, network(x)] whose network grows with the rows, and the features that the user chose. Every
member is trained on the rows that are not held out; the held-out ones give the weights, as in the stack of exact members, and are then
conditioned on: parameters stay, and no row is lost to predictions.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from scipy.special import ndtr

from manifoldgp.averaging.averages import Averaged, FoldChoice
from manifoldgp.averaging.folds import make_folds
from manifoldgp.averaging.members import on_all_features, plain_gp
from manifoldgp.averaging.stacking import Candidates, Weighing
from manifoldgp.errors import InputError
from manifoldgp.features import MLP, Concatenate, Identity
from manifoldgp.inference.mixtures import Predictive, Warp
from manifoldgp.inference.sparse_posterior import SparsePosterior
from manifoldgp.model import Data, Model
from manifoldgp.training.model_rows import ModelRows, sampled
from manifoldgp.training.plan import Plan
from manifoldgp.training.settings import Sparse
from manifoldgp.training.sparse_schedule import Schedule
from manifoldgp.training.sparse_trainer import SparseTrainer
from manifoldgp.training.trained import Trained

VARIANCE_FACTORS = (1.0, 4.0, 16.0)
_WEIGHING = Weighing(VARIANCE_FACTORS, gp_prior=0.002, spread_prior=0.001)
_KEEP = 0.002
"""Nats a row: groups that together add less predict nothing."""

SHARES = {"plain GP": 0.2, "nested": 0.5, "own": 0.3}
"""Groups in the order of their training, with their shares of the time."""

_LARGEST_PART = 10_000
_LOG_2PI = math.log(2 * math.pi)


def network_for(N: int) -> MLP:
    """A tanh network whose weights number about a quarter of the rows, at most 128 and 64 units wide.

    >>> [network_for(N).sizes for N in (5_000, 36_000, 1_000_000)]
    [(48, 24, 4), (120, 60, 8), (128, 64, 8)]
    """
    width = int(np.clip(8 * round(math.sqrt(N / 2.5) / 8), 16, 128))
    return MLP((width, width // 2, 2 if width < 32 else 4 if width <= 64 else 8), ("tanh", "tanh", "identity"))


def nested_network(template: Model, N: int) -> Model:
    """The mGP on [x, network(x)] with the template's kernel, mean, noise and warping: it contains the plain GP."""
    return replace(template, features=Concatenate(Identity(), network_for(N)), kernel=on_all_features(template.kernel), priors={})


def held_out_count(total: int) -> int:
    """How many of so many rows are held out."""
    return min(_LARGEST_PART, max(1, total // 10))


def held_out_numbers_of(rows: ModelRows, seed: int, ordered: bool, groups: np.ndarray | None = None) -> np.ndarray:
    """The rows that are held out: a tenth, at most 10,000; random, the last ones of rows in order of time, or whole groups (labels (total,)).

    Groups come as near to that number as they can; a large one may be more.
    """
    count = held_out_count(rows.total)
    if groups is not None:
        parts = make_folds(rows.total, max(2, round(rows.total / count)), np.random.default_rng(seed + 1), groups)
        return min(parts, key=lambda part: abs(len(part) - count))
    return np.arange(rows.total - count, rows.total) if ordered else sampled(rows.total, count, seed + 1)


def plan_sparse_stack(N: int, method: Sparse) -> Plan:
    """The phases of all groups, each with its own starts and stages."""
    seen = N - held_out_count(N)
    phases = [Schedule().phases(seen, method.inducing, method.restarts, method.max_iter, f"{group}, ") for group in SHARES]
    return Plan(tuple(phase for of_group in phases for phase in of_group))


def fit_sparse_stack(template: Model, rows: ModelRows, trainer: SparseTrainer, folds: FoldChoice) -> Averaged:
    """Train every group on the rows that are not held out, each within its share of the time, and weigh them on those that are.

    Groups after one that somebody stopped are left out: the one that was stopped is weighed as it is.
    """
    held_numbers = held_out_numbers_of(rows, trainer.seed, folds.ordered, folds.groups)
    held = rows.take(held_numbers)
    if not len(held.y):
        raise InputError(
            f"None of the {len(held_numbers):,} rows that a stack holds out has a target, so that nothing could be weighed. "
            "Leave out rows without a target, other groups or ordered=True, or say averaging='single'."
        )
    seen, method = rows.without(held_numbers), trainer.method
    groups = {"plain GP": plain_gp(template), "nested": nested_network(template, rows.count), "own": template}
    posteriors: dict[str, SparsePosterior] = {}
    trained: list[Trained] = []
    for name, model in groups.items():
        member = trainer.fit(name, model, seen, method.restarts, method.max_iter, share=SHARES[name])
        assert member.posterior is not None
        posteriors[name] = member.posterior
        trained.append(replace(member, posterior=member.posterior.condition(held.X, held.y, held.known_noise)))
        if trainer.stopped:
            break
    candidates = Candidates.of({name: _predict(posterior, held) for name, posterior in posteriors.items()})
    weights, report = _WEIGHING.weights(candidates, _WEIGHING.needed(candidates, ("nested", "own"), _KEEP))
    shares = dict(zip(posteriors, weights, strict=True))
    report = replace(
        report,
        mean=sum(np.tensordot(shares[name], _means(posterior, held), 1) for name, posterior in posteriors.items()),
        observed=held.y.cpu().numpy(),
        cut_short=tuple(member.group for member in trained if member.cut_short.any()),
    )
    of_starts = [
        weight[:, None] * (np.arange(len(member.objective)) == member.best())
        for member, weight in zip(trained, weights, strict=True)
    ]
    return Averaged(trained, of_starts, VARIANCE_FACTORS, report)


@torch.no_grad()
def _means(posterior: SparsePosterior, held: Data) -> np.ndarray:
    """Means of held-out targets (F, n) under the variance factors, in the model's units."""
    mean, variance = posterior.mean_and_variance(held.X)
    variance = variance + posterior.noise_variance()[:, None] + (0.0 if held.known_noise is None else held.known_noise)
    warp = Warp([posterior.warping])
    each = [Predictive(mean, factor * variance, mean.new_zeros(1), warp).component_means() for factor in VARIANCE_FACTORS]
    return torch.cat(each).cpu().numpy()


def _predict(posterior: SparsePosterior, held: Data) -> tuple[np.ndarray, np.ndarray]:
    """Log densities and CDFs (F, n) of held-out targets under the variance factors, in the model's units."""
    mean, variance = posterior.mean_and_variance(held.X)
    variance = variance + posterior.noise_variance()[:, None] + (0.0 if held.known_noise is None else held.known_noise)
    with torch.no_grad():
        z, log_slope = posterior.model.warp(posterior.values, held.y)
    factors = torch.tensor(VARIANCE_FACTORS, dtype=mean.dtype, device=mean.device)[:, None]
    score = (z - mean) / (factors * variance).sqrt()
    log_density = -0.5 * (score**2 + (factors * variance).log() + _LOG_2PI) + log_slope
    return log_density.cpu().numpy(), ndtr(score.cpu().numpy())
