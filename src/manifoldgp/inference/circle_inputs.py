"""Periodic members at uncertain inputs (HajiGhassemi and Deisenroth 2014): what goes round a circle is matched by a Gaussian with its mean and covariance.

A periodic kernel of an angle phi is a squared exponential of (cos phi, sin phi). For phi ~ N(m, V) these have, in closed form,

    E[cos phi_i] = exp(−½ V_ii) cos m_i,   cov(cos phi_i, cos phi_j) = ½ exp(−½ (V_ii + V_jj)) [(e^V_ij − 1) cos(m_i − m_j) + (e^−V_ij − 1) cos(m_i + m_j)]

and so on for sines, and cov(x, cos phi) = −cov(x, phi) E[sin phi]. Then v = (x, cos phi, sin phi) is taken as Gaussian, and a member is one of `gaussian_inputs`, on v.
Where the angles are certain, as time is in a forecast, nothing is approximated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from manifoldgp.features import Circle
from manifoldgp.inference.gaussian_inputs import GaussianMember, affine, prior_mean
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.kernels import Kernel, Periodic, Product, SquaredExponential
from manifoldgp.parameters import Tree
from manifoldgp.warping import NoWarping


@dataclass(frozen=True)
class Circles:
    """Inputs with what goes round beside them, v = (x, cos phi, sin phi), phi = x speed + phase: speed (D, C), phase (C,)."""

    speed: Tensor
    phase: Tensor

    def certain(self, Sigma: Tensor) -> bool:
        """Whether no angle is uncertain at inputs with covariances Sigma (n, D, D)."""
        return not bool((Sigma.detach() @ self.speed).any())

    def __call__(self, mu: Tensor, Sigma: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (n, D + 2 C) and covariance (n, D + 2 C, D + 2 C) of v for x ~ N(mu, Sigma)."""
        m, across = mu @ self.speed + self.phase, Sigma @ self.speed
        V = self.speed.T @ across
        damped = torch.exp(-0.5 * V.diagonal(dim1=-2, dim2=-1))
        cos, sin = damped * m.cos(), damped * m.sin()
        apart, along = m.unsqueeze(-1) - m.unsqueeze(-2), m.unsqueeze(-1) + m.unsqueeze(-2)
        plus, minus = _grown(V, damped), _grown(-V, damped)
        cc = 0.5 * (plus * apart.cos() + minus * along.cos())
        ss = 0.5 * (plus * apart.cos() - minus * along.cos())
        sc = 0.5 * (plus * apart.sin() + minus * along.sin())  # cov(sin phi_i, cos phi_j)
        xc, xs = -across * sin.unsqueeze(-2), across * cos.unsqueeze(-2)
        rows = [torch.cat([Sigma, xc, xs], -1), torch.cat([xc.mT, cc, sc.mT], -1), torch.cat([xs.mT, sc, ss], -1)]
        return torch.cat([mu, cos, sin], -1), torch.cat(rows, -2)


def _grown(V: Tensor, damped: Tensor) -> Tensor:
    """exp(−½ (V_ii + V_jj)) (exp(±V_ij) − 1) without overflow, and with all digits where V is small; damped: exp(−½ V_ii)."""
    both = damped.unsqueeze(-1) * damped.unsqueeze(-2)
    half = 0.5 * V.diagonal(dim1=-2, dim2=-1).abs()
    total = half.unsqueeze(-1) + half.unsqueeze(-2)
    return torch.where(V < 1, both * torch.expm1(V.clamp(max=1.0)), torch.exp(V - total) - both)


@dataclass(frozen=True)
class CircleMember:
    """A member on its own v: matrix and slope have a row for each entry of v."""

    member: GaussianMember
    circles: Circles


def on_common_circles(members: Sequence[CircleMember]) -> tuple[Circles, list[GaussianMember]]:
    """The circles of all members side by side, and the members on the v that has them all."""
    circles, places = _side_by_side([m.circles for m in members])
    found = [
        replace(m.member, matrix=_placed(m.member.matrix, at, circles), slope=_placed(m.member.slope, at, circles))
        for m, at in zip(members, places, strict=True)
    ]
    return circles, found


def circle_members(posterior: Conditioned) -> list[CircleMember] | None:
    """The members of a block one by one; None where the kernel is no product of squared exponentials and periodic kernels, or the features are neither linear nor a circle."""
    factors = _factors(posterior.model.kernel, posterior.values.get("kernel", {}))
    if posterior.in_cells or factors is None or not isinstance(posterior.model.warping, NoWarping):
        return None
    D = posterior.data.X.shape[-1]
    with torch.no_grad():
        mean = affine(lambda X: prior_mean(posterior, X)[..., None], D, posterior.alpha)
        features = _around(posterior, D) if type(posterior.model.features) is Circle else _straight(posterior, D)
        turned = type(posterior.model.features) is Circle and any(type(kernel) is Periodic for kernel, _ in factors)
        if mean is None or features is None or turned:
            return None
        T = posterior.whitener()
        return [_member(posterior, r, features[r], factors, (mean[0][r], mean[1][r]), T[r]) for r in range(posterior.members)]


@dataclass(frozen=True)
class _Columns:
    """Some coordinates t (q) of a member: t = v matrix + offset, the points' own (N, q), and the circles of v."""

    matrix: Tensor
    offset: Tensor
    points: Tensor
    circles: Circles


def _member(
    posterior: Conditioned, r: int, features: _Columns, factors: list[tuple[Kernel, Tree]], mean: tuple[Tensor, Tensor], T: Tensor
) -> CircleMember:
    own = posterior.only(torch.tensor([r], device=T.device))
    each = [{name: leaf.expand(posterior.members, *leaf.shape[1:])[r] for name, leaf in values.items()} for _, values in factors]
    parts = [_coordinates(kernel, values, features) for (kernel, _), values in zip(factors, each, strict=True)]
    circles, places = _side_by_side([part.circles for part in parts])
    slope = torch.cat([mean[0][:, 0], T.new_zeros(2 * circles.speed.shape[-1])])
    member = GaussianMember(
        points=torch.cat([part.points for part in parts], -1),
        matrix=torch.cat([_placed(part.matrix, at, circles) for part, at in zip(parts, places, strict=True)], -1),
        offset=torch.cat([part.offset for part in parts]),
        slope=slope,
        constant=mean[1][0],
        alpha=own.alpha[0],
        whitener=T,
        variance=torch.stack([values.get("variance", T.new_ones(())) for values in each]).prod(),
        noise=own.noise_variance()[0],
    )
    return CircleMember(member, circles)


def _coordinates(kernel: Kernel, values: dict[str, Tensor], features: _Columns) -> _Columns:
    """What a factor measures distances in: features, or angles of them as points on circles, over the length-scale."""
    dims = list(range(features.points.shape[-1]) if kernel.dims is None else kernel.dims)
    lengthscale = values.get("lengthscale", features.offset.new_ones(1)).expand(len(dims))
    A, b, points = features.matrix[:, dims], features.offset[dims], features.points[:, dims]
    if type(kernel) is not Periodic:
        return _Columns(A / lengthscale, b / lengthscale, points / lengthscale, features.circles)
    speed = 2 * math.pi / values["period"].expand(len(dims))
    both = torch.cat([lengthscale, lengthscale])
    matrix = torch.cat([A.new_zeros(len(A), 2 * len(dims)), torch.diag(1 / both)])
    around = torch.cat([(points * speed).cos(), (points * speed).sin()], -1) / both
    return _Columns(matrix, both.new_zeros(len(both)), around, Circles(A * speed, b * speed))


def _straight(posterior: Conditioned, D: int) -> list[_Columns] | None:
    """Features that are linear in x, of each member; they have no circles."""
    found = affine(posterior.transform, D, posterior.alpha)
    if found is None:
        return None
    none = Circles(found[0].new_zeros(D, 0), found[0].new_zeros(0))
    points = posterior.points.expand(posterior.members, *posterior.points.shape[-2:])
    return [_Columns(A, b, H, none) for A, b, H in zip(*found, points, strict=True)]


def _around(posterior: Conditioned, D: int) -> list[_Columns]:
    """The features of a `Circle`, h = (others, cos, sin), which are entries of v."""
    features, like = posterior.model.features, posterior.alpha
    assert isinstance(features, Circle)
    chosen, others = features.split(D)
    unit = torch.eye(D, dtype=like.dtype, device=like.device)
    matrix = torch.block_diag(unit[:, others], torch.eye(2 * len(chosen), dtype=like.dtype, device=like.device))
    periods = posterior.values["features"]["period"].expand(posterior.members, len(chosen))
    points = posterior.points.expand(posterior.members, *posterior.points.shape[-2:])
    circles = [Circles(unit[:, chosen] * (2 * math.pi / period), torch.zeros_like(period)) for period in periods]
    return [_Columns(matrix, like.new_zeros(matrix.shape[1]), H, c) for H, c in zip(points, circles, strict=True)]


def _factors(kernel: Kernel, values: Tree) -> list[tuple[Kernel, Tree]] | None:
    """The kernels that are multiplied, each with its values; None where one of them is of another kind."""
    if isinstance(kernel, Product) and kernel.dims is None:
        parts = [_factors(part, values.get(str(i), {})) for i, part in enumerate(kernel.parts)]
        return None if None in parts else [factor for part in parts if part is not None for factor in part]
    known = type(kernel) is SquaredExponential or (type(kernel) is Periodic and not kernel.centred)
    return [(kernel, values)] if known else None


def _side_by_side(each: Sequence[Circles]) -> tuple[Circles, list[Tensor]]:
    """Several circles as one, and for each of them where the entries of its v are in the v of all."""
    circles = Circles(torch.cat([c.speed for c in each], -1), torch.cat([c.phase for c in each]))
    D, total = circles.speed.shape
    return circles, list(_places([c.speed.shape[-1] for c in each], D, total))


def _places(counts: Sequence[int], D: int, total: int) -> Iterator[Tensor]:
    first = 0
    for C in counts:
        cosines = D + first + torch.arange(C)
        yield torch.cat([torch.arange(D), cosines, cosines + total])
        first += C


def _placed(A: Tensor, places: Tensor, circles: Circles) -> Tensor:
    """Rows of A at their places among those of v; others are zero."""
    D, total = circles.speed.shape
    return A.new_zeros(D + 2 * total, *A.shape[1:]).index_copy(0, places.to(A.device), A)
