"""Few points in place of all rows: what exact members predict, through some of their rows' features, at a stated loss.

The exact mean m(x) + k(x, H) alpha goes through N rows, and a variance costs N² operations. Here the mean goes through M of the rows, and the variance
through the first J of these:

    mean(x) ~ m(x) + k(x, H_M) w,   w the least squares fit to the exact mean at all rows and at as many probes
    var(x)  ~ k(x, x) − |T k(H_J, x)|²,   T of the sparse posterior with the inducing points H_J (Titsias 2009)

How many are enough is measured at *probes*, rows that no member has seen: each column comes from one of two training rows, and half of them are moved away
from the middle of the data. So they lie among the data, beside them and outside. What is lost is KL(exact || few points) there, in nats a row. Where the most
points that are tried lose too much, the mean goes through all rows, or the member stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeGuard

import torch
from torch import Tensor

from manifoldgp._system.linalg import cholesky_with_jitter, solve_lower
from manifoldgp.errors import NotPositiveDefiniteError
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import BLOCK_ROWS, Posterior
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.inference.sparse_posterior import SparsePosterior, condition_sparse
from manifoldgp.parameters import Tree, map_leaves
from manifoldgp.training.inducing_placement import greedy_inducing_points

_FEWEST, _STEP = 16, 16
"""The fewest points, and the steps in which there are more."""

_ATTEMPTS = 4
"""How often members are asked to lose half as much, before all rows are kept."""

_STAGES = 256, 1024
"""Points that are tried first, and the most that are tried; up to half of the rows."""

_HOPELESS = 30.0
"""Where the first stage loses so many times what may be lost, the second is not tried."""

_PROBES = 200
"""Probes to choose by, and as many to report on."""

_RIDGE = 1e-10
"""Share of the mean diagonal that is added to the least squares equations."""

_Found = tuple[Tensor, Tensor]
"""A moment (n,) at the probes, and the array that gives it."""


@dataclass(frozen=True)
class FewPoints:
    """What predictions of one member need: points (M, Q) with weights alpha (M,) for the mean, and T (J, J) on the first J of them for the variance."""

    points: Tensor
    alpha: Tensor
    whitener: Tensor


@dataclass(frozen=True)
class PointsLoss:
    """What few points lose, at ``rows`` probes. nats: the larger one of a bound of the mixtures' KL a row, and of that of Gaussians with their moments, which is all that some programs tell.

    mean, std: the largest deviations of the mixture's mean and standard deviation, as shares of the latter. compressed: members that have few points.
    """

    nats: float
    mean: float
    std: float
    rows: int
    compressed: int


def compressible(ensemble: Ensemble) -> bool:
    """Whether some member is exact and has rows enough."""
    return any(_worth_it(block) for block in ensemble.blocks)


def _worth_it(block: Conditioned) -> TypeGuard[Posterior]:
    return isinstance(block, Posterior) and block.rows >= 4 * _FEWEST


@torch.no_grad()
def with_few_points(
    ensemble: Ensemble, tolerance: float, time_is_up: Callable[[], bool] = lambda: False
) -> tuple[list[list[FewPoints | None]], PointsLoss]:
    """Few points of each member of each block, None of one that stays as it is; together they lose at most ``tolerance`` nats a row.

    time_is_up: asked before everything that takes a second or so; once it is, members that have no few points yet keep all rows.
    A mixture loses at most the weighted sum of what its members lose (KL is convex), and where weights follow variances what these lose beside it. Each member may bring the same
    to that sum, so that one of little weight may lose more.
    """
    X = probes(ensemble.blocks[0].data.X, 2 * _PROBES, torch.Generator().manual_seed(0))
    exact = [block.mean_and_variance(X) for block in ensemble.blocks]
    weights = ensemble.member_weights()
    members = {
        (b, r): _Member.of(ensemble, b, r, X, exact[b], time_is_up)
        for b, block in enumerate(ensemble.blocks)
        for r in range(block.members)
        if _worth_it(block) and float(weights[b][r]) > 0
    }
    for share in (*(tolerance * 0.5**attempt for attempt in range(_ATTEMPTS)), 0.0):  # of nothing, everyone keeps all rows
        for member in members.values():
            member.choose(share / (member.weight * len(members)))
        loss = _loss(ensemble, exact, members)
        if loss.nats <= tolerance:
            break
    found: list[list[FewPoints | None]] = [[None] * block.members for block in ensemble.blocks]
    for (b, r), member in members.items():
        found[b][r] = member.few_points()
    return found, loss


def probes(X: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Rows (count, D) beside those of X (N, D): each column from one of two rows, in a proportion drawn for each; every other one up to twice as far from the mean."""
    one, other = (torch.randint(len(X), (count,), generator=generator).to(X.device) for _ in range(2))
    share, away = torch.rand(2, count, 1, generator=generator)
    mixed = torch.where((torch.rand(count, X.shape[1], generator=generator) < share).to(X.device), X[one], X[other])
    away[::2] = 0.0
    return mixed + (mixed - X.mean(0)) * away.to(X)


@dataclass
class _Member:
    """One exact member: what it predicts at the probes X (n, D), and what few points predict instead.

    mean, variance (n,): of f. noise: what y has beyond that. weight: in the mixture. steepness: Σ_f w_f / f over the variance factors f, what a shift of the mean costs.
    few_mean: None where the mean goes through all rows. few_variance: None where the member stays as it is.
    """

    posterior: Posterior
    X: Tensor
    mean: Tensor
    variance: Tensor
    noise: float
    weight: float
    steepness: float
    time_is_up: Callable[[], bool]
    few_mean: _Found | None = None
    few_variance: _Found | None = None
    _sparse: dict[int, SparsePosterior] = field(default_factory=dict)
    _equations: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, ensemble: Ensemble, b: int, r: int, X: Tensor, exact: tuple[Tensor, Tensor], time_is_up: Callable[[], bool]
    ) -> _Member:
        posterior = ensemble.blocks[b].only(slice(r, r + 1))
        assert isinstance(posterior, Posterior)
        w = ensemble.log_weights[b][:, r].exp()
        steepness = float((w / torch.tensor(ensemble.variance_factors).to(w)).sum() / w.sum())
        noise = float(posterior.noise_variance())
        return cls(posterior, X, exact[0][r], exact[1][r], noise, float(w.sum()), steepness, time_is_up)

    def choose(self, limit: float) -> None:
        """The fewest points whose mean and whose variance lose half of ``limit`` nats each, at the first half of the probes; all rows where nothing may be lost."""
        self.few_mean = self.few_variance = None
        if limit == 0.0:
            return
        with suppress(NotPositiveDefiniteError):  # what was found before it stays
            self.few_variance = self._fewest(self._variance_by, self._variance_losses, 0.5 * limit, _FEWEST)
            if self.few_variance is not None:
                self.few_mean = self._fewest(self._mean_by, self._mean_losses, 0.5 * limit, len(self.few_variance[1]))

    def _fewest(
        self, attempt: Callable[[int, int], _Found], losses: Callable[[Tensor], Tensor], limit: float, least: int
    ) -> _Found | None:
        """What the fewest points give that lose at most ``limit``, by bisection as far as there is time; None where there is no hope for that. attempt(points, most)."""

        def lost(found: _Found) -> float:
            return float(losses(found[0])[:_PROBES].mean())

        for most in sorted({min(stage, self.posterior.rows // 2) for stage in _STAGES}):
            if most < least:
                continue
            if self.time_is_up():
                return None
            best = attempt(most, most)
            if lost(best) <= limit:
                low, high = least - _STEP, most
                while high - low > _STEP and not self.time_is_up():
                    middle = low + max((high - low) // (2 * _STEP), 1) * _STEP  # the last step may be a shorter one
                    found = attempt(middle, most)
                    if lost(found) <= limit:
                        best, high = found, middle
                    else:
                        low = middle
                return best
            if not lost(best) <= _HOPELESS * limit:
                return None
        return None

    def _mean_losses(self, mean: Tensor) -> Tensor:
        """KL (n,) where the mean is another."""
        return 0.5 * self.steepness * (mean - self.mean) ** 2 / (self.variance + self.noise)

    def _variance_losses(self, variance: Tensor) -> Tensor:
        """KL (n,) where the variance of f is another."""
        ratio = (self.variance + self.noise) / (variance + self.noise)
        return 0.5 * (ratio - 1.0 - ratio.log())

    def losses(self) -> Tensor:
        """KL (n,) with the points that were chosen."""
        mean, variance = self.moments()
        ratio = (self.variance + self.noise) / (variance + self.noise)
        return self._variance_losses(variance) + ratio * self._mean_losses(mean)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance (n,) of f with the points that were chosen."""
        mean = self.mean if self.few_mean is None else self.few_mean[0]
        return mean, self.variance if self.few_variance is None else self.few_variance[0]

    def few_points(self) -> FewPoints | None:
        """The arrays behind :meth:`moments`."""
        if self.few_variance is None:
            return None
        H, T = self.posterior.H[0][self._order], self.few_variance[1]
        if self.few_mean is None:
            return FewPoints(H, self.posterior.alpha[0][self._order], T)
        w = self.few_mean[1]
        return FewPoints(H[: len(w)], w, T)

    def _variance_by(self, count: int, most: int) -> _Found:
        """k(x, x) − |T k|² at the probes, and T. The factors of ``count`` points are the corners of those of ``most``."""
        own, Z, H = self.posterior, self._points(most), self._features
        if most not in self._sparse:
            self._sparse[most] = condition_sparse(own.model, {**own.values, "inducing": {"Z": Z[None]}}, own.data)
        whole, J = self._sparse[most], slice(count)
        T = replace(whole, Z=whole.Z[:, J], L=whole.L[:, J, J], LB=whole.LB[:, J, J]).whitener()[0]
        explained = ((T @ own.model.cross(self._values, Z[J], H)) ** 2).sum(0)
        return (own.model.prior_diagonal(self._values, H) - explained).clamp_min(0.0), T

    def _mean_by(self, count: int, most: int) -> _Found:
        """The mean at the probes, and its weights: with V = L⁻¹ K(Z, ·), w = L⁻ᵀ (V Vᵀ + ridge)⁻¹ V f. The equations of ``count`` points are the corner of those of ``most``."""
        if most not in self._equations:
            self._equations[most] = self._least_squares(most)
        (L, G, b), M, own = self._equations[most], slice(count), self.posterior
        factor, _ = cholesky_with_jitter(G[None, M, M].clone(), "the least squares equations")
        w = torch.linalg.solve_triangular(L[M, M].mT, torch.cholesky_solve(b[M, None], factor[0]), upper=True)[:, 0]
        prior = own.model.mean_at(own.values, self.X, own.transform(self.X))[0]
        return prior + w @ own.model.cross(self._values, self._points(count), self._features), w

    def _least_squares(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """L (M, M), V Vᵀ + ridge (M, M) and V f (M,), over all rows and as many probes; f = k(x, H) alpha."""
        own, Z = self.posterior, self._points(count)
        L, _ = cholesky_with_jitter(own.model.matrix(self._values, Z)[None], "the covariance of the points")
        beside = probes(own.data.X, own.rows, torch.Generator().manual_seed(1))
        G, b = Z.new_zeros(len(Z), len(Z)), Z.new_zeros(len(Z))
        for rows in (*own.H[0].split(BLOCK_ROWS), *own.transform(beside)[0].split(BLOCK_ROWS)):
            V = solve_lower(L[0], own.model.cross(self._values, Z, rows))
            G.addmm_(V, V.mT)
            b.addmv_(V, own.model.cross(self._values, rows, own.H[0]) @ own.alpha[0])
        G.diagonal().add_(_RIDGE * G.diagonal().mean())
        return L[0], G, b

    def _points(self, count: int) -> Tensor:
        return self.posterior.H[0][self._order[:count]]

    @cached_property
    def _order(self) -> Tensor:
        """All rows: the first ones by greedy conditional variance, which spreads them out, the others as they come by lot."""
        H = self.posterior.H[0]
        first = greedy_inducing_points(self.posterior.model, self._values, H, min(_STAGES[0], len(H) // 2))
        lot = torch.randperm(len(H), generator=torch.Generator().manual_seed(2)).to(H.device)
        return torch.cat([first, lot[~torch.isin(lot, first)]])

    @cached_property
    def _features(self) -> Tensor:
        return self.posterior.transform(self.X)[0]

    @cached_property
    def _values(self) -> Tree:
        return map_leaves(lambda leaf: leaf[0], self.posterior.values)


def _moved(before: Tensor, after: Tensor) -> Tensor:
    """KL (n,) of weights (R, n) that follow variances where these are other ones: what a mixture may lose beyond what its members do."""
    return torch.where(before > 0.0, before * (before / after).log(), 0.0).sum(0)


def _loss(ensemble: Ensemble, exact: Sequence[tuple[Tensor, Tensor]], members: dict[tuple[int, int], _Member]) -> PointsLoss:
    """What was lost at the second half of the probes."""
    fewer = [(mean.clone(), variance.clone()) for mean, variance in exact]
    for (b, r), member in members.items():
        fewer[b][0][r], fewer[b][1][r] = member.moments()
    observed = [ensemble.observed([variance for _, variance in moments]) for moments in (exact, fewer)]
    before, after = map(ensemble.member_weights_at, observed)
    lost = _moved(torch.cat(before), torch.cat(after)) + torch.zeros_like(exact[0][0][0])
    for (b, r), member in members.items():
        lost += before[b][r] * member.losses()
    (mean, variance), (other, spread) = (ensemble.mixture(moments).moments() for moments in (exact, fewer))
    shift = ((other - mean).abs() / variance.sqrt())[_PROBES:]
    ratio = ((spread / variance).sqrt() - 1.0).abs()[_PROBES:]
    compressed = sum(member.few_variance is not None for member in members.values())
    of_moments = 0.5 * ((variance + (other - mean) ** 2) / spread - 1.0 + (spread / variance).log())
    nats = max(float(lost[_PROBES:].mean()), float(of_moments[_PROBES:].mean()))
    return PointsLoss(nats, float(shift.max()), float(ratio.max()), _PROBES, compressed)
