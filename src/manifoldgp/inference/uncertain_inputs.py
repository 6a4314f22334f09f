"""Mixtures at uncertain inputs x ~ N(mu, Sigma): mean, variance, covariances with x and between targets, in closed form or by samples.

    mean = Σ w m,   variance = Σ w (F E[v(x)] + var[m(x)] + (m − mean)²),   cov(x, f) = Σ w cov(x, m(x))

over components with weight w, variance factor F, and a posterior with mean m(x) and variance v(x). Weights that follow variances follow, at an uncertain
input, those that the members themselves expect of y there, E[v(x)] + var[m(x)] / F + noise; samples have those of each point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.inference.certainty import Certainty
from manifoldgp.inference.circle_inputs import CircleMember, Circles, circle_members, on_common_circles
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.gaussian_inputs import Expected, GaussianMember, gaussian_members
from manifoldgp.inference.posterior import CHUNK_BYTES, Conditioned

CLOSED_FORM, MATCHED, SAMPLES = "closed form", "moment matching", "samples"

Found = TypeVar("Found", GaussianMember, CircleMember)

_REFUSED = {
    CLOSED_FORM: "These moments have no closed form: it takes the squared exponential on features that are linear in the inputs, a mean that is too, no "
    "target warping, and noise that rounding does not reach; or a periodic kernel or a Circle of inputs that are certain. Use method='samples'.",
    MATCHED: "Moments are matched for products of squared exponentials and periodic kernels on features that are linear in the inputs, or on a Circle, with a mean that is "
    "linear too and without target warping. Use method='samples'.",
}
"""Why a method that was asked for cannot be had."""

SAMPLE_POINTS = 1024
"""Points that stand for the distribution of an uncertain input: errors of about 1 % of the standard deviation, also across steps."""

_AT_ONCE = 32
"""Uncertain inputs in work at a time, so that what is made of each and all rows stays near the processor."""


@dataclass(frozen=True)
class MomentsOfTargets:
    """At n uncertain inputs: mean (n, O), cov(x, f) (n, D, O), cov(f, f') (n, O, O) with the variances on its diagonal."""

    mean: Tensor
    input_covariance: Tensor
    output_covariance: Tensor

    def at(self, rows: Tensor) -> MomentsOfTargets:
        """Those of some inputs."""
        return MomentsOfTargets(self.mean[rows], self.input_covariance[rows], self.output_covariance[rows])


@dataclass(frozen=True)
class _Target:
    """The members of one target with a closed form, and their weights w (R,), which may follow variances."""

    members: Sequence[GaussianMember]
    weights: Tensor
    offset: float
    scale: float
    certainty: Certainty | None = None

    def weights_at(self, variances: Tensor) -> Tensor:
        """Weights (R, 1), or (R, n) where they follow the members' variances (R, n) of f, whose factors are taken out of them."""
        if self.certainty is None:
            return self.weights[:, None]
        factors, noise = zip(*((member.factor, member.noise) for member in self.members), strict=True)
        own = variances / variances.new_tensor(factors)[:, None] + torch.stack(noise)[:, None]
        return self.certainty.log_weights([self.weights.log()[None]], [own]).exp()


class UncertainInputs:
    """The ensembles of all targets, made ready for uncertain inputs; in the units of y, and of X as the model sees it.

    Parameters
    ----------
    ensembles
        One for each target.
    method
        "closed form", "moment matching", "samples", or None for a closed form where there is one.
    samples
        Quasi-random points in place of the distribution of x, where there is no closed form.
    """

    def __init__(self, ensembles: Sequence[Ensemble], method: str | None = None, samples: int = SAMPLE_POINTS) -> None:
        self._asked, self._ensembles, self._samples = method, ensembles, samples
        self._targets, self._circles = (None, None) if method == SAMPLES else _targets(ensembles)

    @property
    def by_hand(self) -> bool:
        """Whether the members have formulas, so that nothing needs to be sampled."""
        return self._targets is not None

    def method_at(self, Sigma: Tensor) -> str:
        """How the moments at inputs with covariances Sigma (n, D, D) are computed. With circles, only those of certain angles are exact."""
        exact = self._circles is None or self._circles.certain(Sigma)
        if self._targets is not None and (exact or self._asked == MATCHED):
            return CLOSED_FORM if exact else MATCHED
        if self._asked in (CLOSED_FORM, MATCHED):
            raise InputError(_REFUSED[self._asked])
        return SAMPLES

    def __call__(self, mu: Tensor, Sigma: Tensor, latent: bool = False) -> MomentsOfTargets:
        """The moments at mu (n, D) with covariances Sigma (n, D, D), differentiable in both; latent: of f, without noise."""
        if self.method_at(Sigma) == SAMPLES:
            return self._by_samples(mu, Sigma, latent)
        mine = (mu, Sigma) if self._circles is None else self._circles(mu, Sigma)
        order = self._by_reach(mine[1])
        found = _joined([self._in_closed_form(mine[0][some], mine[1][some], latent) for some in order.split(_AT_ONCE)])
        found = found.at(order.argsort())
        return replace(found, input_covariance=found.input_covariance[:, : mu.shape[-1]])  # x is the first part of v

    def _by_reach(self, Sigma: Tensor) -> Tensor:
        """The order of the inputs (n,) in which those with the same work to do are neighbours."""
        assert self._targets is not None
        return self._targets[0].members[0].reach(Sigma.detach()).argsort()

    def _in_closed_form(self, mu: Tensor, Sigma: Tensor, latent: bool) -> MomentsOfTargets:
        assert self._targets is not None
        at = [[member.at(mu, Sigma) for member in target.members] for target in self._targets]
        found = [_moments(target, expected, mu, Sigma, latent) for target, expected in zip(self._targets, at, strict=True)]
        mean, variance, covariance = (torch.stack(parts, -1) for parts in list(zip(*found, strict=True))[:3])
        output = torch.diag_embed(variance)
        for a, one in enumerate(self._targets):
            for b, other in enumerate(self._targets[:a]):
                between = _between((one, at[a], found[a][3]), (other, at[b], found[b][3]), Sigma)
                output[:, a, b] = output[:, b, a] = between
        return MomentsOfTargets(mean, covariance, output)

    def _by_samples(self, mu: Tensor, Sigma: Tensor, latent: bool) -> MomentsOfTargets:
        normal = normal_points(self._samples, mu.shape[-1]).to(mu)
        members = sum(block.members * block.width for ensemble in self._ensembles for block in ensemble.blocks)
        size = max(1, 4 * CHUNK_BYTES // (8 * len(normal) * members))
        parts = [self._sampled(m, S, normal, latent) for m, S in zip(mu.split(size), Sigma.split(size), strict=True)]
        return _joined(parts)

    def _sampled(self, mu: Tensor, Sigma: Tensor, normal: Tensor, latent: bool) -> MomentsOfTargets:
        away = normal @ root(Sigma).mT  # (n, S, D)
        X = (mu.unsqueeze(-2) + away).flatten(0, 1)
        found = [ensemble.differentiable(X, latent).moments() for ensemble in self._ensembles]
        means, variances = (torch.stack([f[i] for f in found], -1).unflatten(0, away.shape[:2]) for i in (0, 1))  # (n, S, O)
        mean = means.mean(1)
        deviation = means - mean.unsqueeze(1)
        output = deviation.mT @ deviation / len(normal) + torch.diag_embed(variances.mean(1))
        return MomentsOfTargets(mean, away.mT @ deviation / len(normal), output)


def _joined(parts: Sequence[MomentsOfTargets]) -> MomentsOfTargets:
    return MomentsOfTargets(*(torch.cat([getattr(part, name) for part in parts]) for name in MomentsOfTargets.__annotations__))


def _targets(ensembles: Sequence[Ensemble]) -> tuple[list[_Target] | None, Circles | None]:
    """Members with a closed form, and what goes round a circle before it; None where there is none."""
    straight = [_members(ensemble, gaussian_members) for ensemble in ensembles]
    if None not in straight:
        return [_target(e, members or []) for e, members in zip(ensembles, straight, strict=True)], None
    around = [_members(ensemble, circle_members) for ensemble in ensembles]
    if None in around:
        return None, None
    circles, members = on_common_circles([member for each in around for member in each or []])
    rest = iter(members)
    return [_target(e, [next(rest) for _ in each or []]) for e, each in zip(ensembles, around, strict=True)], circles


def _members(ensemble: Ensemble, of_block: Callable[[Conditioned], list[Found] | None]) -> list[Found] | None:
    """The members of all blocks, or None where one block has none."""
    found: list[Found] = []
    for block in ensemble.blocks:
        members = of_block(block)
        if members is None:
            return None
        found += members
    return found


def _target(ensemble: Ensemble, members: Sequence[GaussianMember]) -> _Target:
    factors = ensemble.log_weights[0].new_tensor(ensemble.variance_factors)
    weights = torch.cat([w.exp() for w in ensemble.log_weights], -1)  # (F, R)
    w = weights.sum(0)
    mean_factors = (factors @ weights / w.clamp_min(torch.finfo(w.dtype).tiny)).tolist()
    scaled = [replace(member, factor=factor) for member, factor in zip(members, mean_factors, strict=True)]
    certainty = (
        None if ensemble.certainty is None else replace(ensemble.certainty, usual=[torch.cat([*ensemble.certainty.usual])])
    )
    return _Target(scaled, w, ensemble.offset, ensemble.scale, certainty)


def _moments(
    target: _Target, expected: Sequence[Expected], mu: Tensor, Sigma: Tensor, latent: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean (n,), variance (n,) and cov(x, f) (n, D); and the members' weights (R, 1) or (R, n)."""
    found = [one.moments(mu, Sigma) for one in expected]
    means, variances, covariances = (torch.stack(parts) for parts in zip(*found, strict=True))
    w = target.weights_at(variances)
    if not latent:
        variances = variances + torch.stack([member.factor * member.noise for member in target.members])[:, None]
    mean = (w * means).sum(0)
    variance = (w * (variances + (means - mean) ** 2)).sum(0)
    return (
        target.offset + target.scale * mean,
        target.scale**2 * variance,
        target.scale * (w[..., None] * covariances).sum(0),
        w,
    )


def _between(
    one: tuple[_Target, Sequence[Expected], Tensor], other: tuple[_Target, Sequence[Expected], Tensor], Sigma: Tensor
) -> Tensor:
    """cov(f, f') (n,) of two targets at the same input, each with its members there and their weights: their posteriors are independent, their means move together."""
    (mine, at, weights), (theirs, there, others) = one, other
    pairs = [w * v * a.covariance(b, Sigma) for w, a in zip(weights, at, strict=True) for v, b in zip(others, there, strict=True)]
    return mine.scale * theirs.scale * torch.stack(pairs).sum(0)


def normal_points(count: int, D: int) -> Tensor:
    """Quasi-random N(0, I) points (count, D) with exactly this mean and covariance, so that affine functions have no error."""
    uniform = torch.quasirandom.SobolEngine(D, scramble=True, seed=1).draw(count, dtype=torch.float64)
    z = torch.special.ndtri(uniform.clamp(1e-12, 1 - 1e-12))
    z = z - z.mean(0)
    return torch.linalg.solve_triangular(torch.linalg.cholesky(z.T @ z / count), z.T, upper=False).T


def root(Sigma: Tensor) -> Tensor:
    """The lower factor of covariances (n, D, D), some of whose directions may be certain."""
    size = Sigma.detach().diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
    unit = torch.eye(Sigma.shape[-1], dtype=Sigma.dtype, device=Sigma.device)
    return torch.linalg.cholesky(Sigma + (1e-12 * size + 1e-30) * unit)
