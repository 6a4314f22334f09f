"""Groups of sparse members: what they predict on held-out rows, and how much each member of a group counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import ndtr

from manifoldgp.averaging.sparse_kinds import Kind
from manifoldgp.averaging.stacking import stacking_weights
from manifoldgp.averaging.sure_members import Followed, followed_weights
from manifoldgp.inference.mixtures import Predictive, Warp
from manifoldgp.inference.sparse_posterior import SparsePosterior, joined
from manifoldgp.model import Data
from manifoldgp.training.sparse_members import Member, table_of
from manifoldgp.training.trained import Trained

_EQUAL = 0.1
"""Pseudo-rows, as a fraction of the held-out ones, that vote for equal members of a group."""

_LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Scored:
    """A member, what it knows of its rows, and what it predicts: log densities and CDFs (F, n) of held-out targets under the variance factors, and its variances (n,) of these."""

    member: Member
    posterior: SparsePosterior
    log_density: np.ndarray
    cdf: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class Group:
    """The members of one kind. step: how many of the stack's steps they have taken."""

    kind: Kind
    scored: tuple[Scored, ...]
    step: int = 0

    @property
    def members(self) -> list[Member]:
        return [scored.member for scored in self.scored]

    def joined(self, more: Group) -> Group:
        """With the members of another group of the same kind."""
        return replace(self, scored=self.scored + more.scored)

    def inner(self) -> np.ndarray:
        """Weights (R,) of the members: those of their stack, drawn towards equal ones. One that is better beyond doubt gets most of the weight."""
        log_density = np.stack([scored.log_density[0] for scored in self.scored])
        R, n = log_density.shape
        return stacking_weights(log_density, _EQUAL * n / R)

    def mixture(self, exponent: float = 0.0) -> Followed:
        """The members' mixture. exponent: of their variances, in which they count."""
        log_density, cdf = (np.stack(said, axis=-2) for said in zip(*((s.log_density, s.cdf) for s in self.scored), strict=True))
        return Followed.of(log_density, cdf, self._variance(), self.inner(), exponent)

    def _variance(self) -> np.ndarray:
        return np.stack([s.variance for s in self.scored])

    def means(self, held: Data, factors: Sequence[float], exponent: float) -> np.ndarray:
        """Means of held-out targets (F, n) under the variance factors, in the model's units."""
        each = np.stack([member_means(scored.posterior, held, factors) for scored in self.scored], axis=-2)
        return (followed_weights(self._variance(), self.inner(), exponent)[0] * each).sum(-2)

    def trained(self, held: Data, used: bool) -> list[tuple[Trained, np.ndarray]]:
        """Tables of the members with their inner weights (R,); members of one model and number of inducing points are together.

        used: whether they predict, and are conditioned on the held-out rows too.
        """
        inner, tables = self.inner(), []
        for alike in self._alike():
            posterior = joined([self.scored[i].posterior for i in alike])
            if used:
                posterior = posterior.condition(held.X, held.y, held.known_noise)
            tables.append((table_of(self.kind.name, [self.members[i] for i in alike], posterior), inner[alike]))
        return tables

    def _alike(self) -> list[list[int]]:
        """The members by model and number of parameters."""
        kinds: list[tuple[Member, list[int]]] = []
        for i, member in enumerate(self.members):
            same = (each for first, each in kinds if first.theta.size == member.theta.size and first.model == member.model)
            if (known := next(same, None)) is not None:
                known.append(i)
            else:
                kinds.append((member, [i]))
        return [each for _, each in kinds]


def scored(member: Member, posterior: SparsePosterior, held: Data, factors: Sequence[float]) -> Scored:
    """The member with what it predicts on held-out rows, in the model's units."""
    mean, variance = _predicted(posterior, held)
    with torch.no_grad():
        z, log_slope = posterior.model.warp(posterior.values, held.y)
    factor = torch.tensor(list(factors), dtype=mean.dtype, device=mean.device)[:, None]
    score = (z - mean) / (factor * variance).sqrt()
    log_density = -0.5 * (score**2 + (factor * variance).log() + _LOG_2PI) + log_slope
    return Scored(member, posterior, log_density.cpu().numpy(), ndtr(score.cpu().numpy()), variance[0].cpu().numpy().copy())


@torch.no_grad()
def member_means(posterior: SparsePosterior, held: Data, factors: Sequence[float]) -> np.ndarray:
    """Means of held-out targets (F, n) under the variance factors: a warping makes them depend on the variance."""
    mean, variance = _predicted(posterior, held)
    warp = Warp([posterior.warping])
    each = [Predictive(mean, factor * variance, mean.new_zeros(1), warp).component_means() for factor in factors]
    return torch.cat(each).cpu().numpy()


def _predicted(posterior: SparsePosterior, held: Data) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance (1, n) of held-out targets, noise included."""
    mean, variance = posterior.mean_and_variance(held.X)
    return mean, variance + posterior.noise_variance()[:, None] + (0.0 if held.known_noise is None else held.known_noise)
