"""The sparse posterior of a batch of members: what J inducing points know of all rows (Titsias 2009, eqs. 6-8).

    mean*     = m(x*) + k_*Z alpha,          alpha = L⁻ᵀ (I + VV)⁻¹ a
    cov*      = k** − VᵀV + Vᵀ (I + VV)⁻¹ V,   V = L⁻¹ K_Z*

with L, VV, a of :mod:`manifoldgp.inference.sparse_bound`. Nothing in it grows with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from manifoldgp._system.linalg import cholesky_with_jitter, solve_lower
from manifoldgp.errors import NotPositiveDefiniteError
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.inference.sparse_bound import Statistics, collapsed_bound, factor_of_sums
from manifoldgp.inference.sparse_sums import Inducing, add_chunk_, forward, place_inducing
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, leaves, members_in, nest, of_members

KEPT_ROWS = 1000
"""Rows that a sparse posterior keeps, for diagnosis; predictions do not need them."""

_CHUNK = 2000

MOST_THROUGH = 100_000
"""Rows that inducing points stand for, at most: some hundred points know no more by more of them."""


@dataclass(frozen=True)
class SparsePosterior(Conditioned):
    """Members conditioned on N rows through their inducing points.

    Z: (R, J, Q). L: lower factor (R, J, J) of K_ZZ. LB: lower factor (R, J, J) of I + VV. a: Σ w r V (R, J).
    alpha: L⁻ᵀ (I + VV)⁻¹ a (R, J). bound: the collapsed bound on the NLML (R,), targets in the model's units. data: up to KEPT_ROWS of the rows.
    bound_rows: how many rows the bound is of; those that :meth:`condition` added are in N alone.
    """

    model: Model
    values: Tree
    data: Data
    Z: Tensor
    L: Tensor
    LB: Tensor
    a: Tensor
    alpha: Tensor
    jitter: Tensor
    bound: Tensor
    N: int
    bound_rows: int

    @property
    def points(self) -> Tensor:
        return self.Z

    @property
    def rows(self) -> int:
        return self.N

    def moments(self, X: Tensor, variance: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        H = self.transform(X)
        k = self.model.cross(self.values, self.Z, H)  # (R, J, n)
        mean = self.model.mean_at(self.values, X, H) + (self.alpha[:, None, :] @ k)[:, 0, :]
        if not variance:
            return mean, torch.zeros_like(mean), k
        V = solve_lower(self.L, k)
        learnt = solve_lower(self.LB, V)  # |LB⁻¹ v|² = vᵀ (I + VV)⁻¹ v
        prior = self.model.prior_diagonal(self.values, H)
        return mean, (prior - (V * V).sum(-2)).clamp_min(0.0) + (learnt * learnt).sum(-2), V

    def covariance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            mean, _, V = self.moments(X)
            learnt = solve_lower(self.LB, V)
            prior = self.model.matrix(self.values, self.transform(X))
            return mean, prior - V.mT @ V + learnt.mT @ learnt

    def whitener(self) -> Tensor:
        """cov* = k** − |T k|² with TᵀT = L⁻ᵀ (I − (I + VV)⁻¹) L⁻¹, so T = Sᵀ L⁻¹ for I − (I + VV)⁻¹ = S Sᵀ, S upper triangular."""
        identity = torch.eye(self.Z.shape[1], dtype=self.Z.dtype, device=self.Z.device)
        known = identity - torch.cholesky_inverse(self.LB)
        mirrored, _ = cholesky_with_jitter(known.flip(-1, -2).contiguous(), "what the rows say of the inducing points")
        return mirrored.flip(-1, -2).mT @ solve_lower(self.L, identity)

    def update_weights(self, f: Tensor, generator: torch.Generator) -> Tensor:
        """c = L⁻ᵀ (L⁻¹ f − e), e ~ N(0, (I + VV)⁻¹): the whitened inducing values of f, and what the posterior leaves open of them."""
        first, second = (torch.randn(f.shape, generator=generator, dtype=f.dtype).to(f.device).mT for _ in range(2))
        L, LB = self.L[0], self.LB[0]
        whitened = solve_lower(L, f.mT + self.jitter.sqrt() * first)
        return torch.linalg.solve_triangular(
            L.mT, whitened - torch.linalg.solve_triangular(LB.mT, second, upper=True), upper=True
        ).mT

    def left_out(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The factor N(z_i | g_i, noise_i) is taken out of the posterior N(g_i | m_i, s_i), g the part of f that goes through the inducing points:

        variance s / (1 − s / noise),  mean (m − z s / noise) / (1 − s / noise);   f = g + a rest of its own, z = f + noise
        """
        with torch.no_grad():
            mean, variance, V = self.moments(self.data.X[rows])
            s = (solve_lower(self.LB, V) ** 2).sum(-2)
            noise = self.noise_variance()[:, None] + (0.0 if self.data.known_noise is None else self.data.known_noise[rows])
            z, _ = self.model.warp(self.values, self.data.y[rows])
            kept = (1.0 - s / noise).clamp_min(1e-12)
            return (mean - z * s / noise) / kept, s / kept + (variance - s).clamp_min(0.0) + noise

    def only(self, members: Tensor | slice) -> SparsePosterior:
        picked = {name: getattr(self, name)[members] for name in ("Z", "L", "LB", "a", "alpha", "jitter", "bound")}
        return replace(self, values=self._values_of(members, self.values), **picked)

    def condition(self, X: Tensor, y: Tensor, known_noise: Tensor | None = None) -> SparsePosterior:
        """The posterior with n more rows, parameters and inducing points unchanged, in O(n J²): VV and a are sums over rows.

        The bound is left as training found it.
        """
        if not len(X):
            return self
        LB, a = [], []
        with torch.no_grad():
            for r in range(self.members):
                sums = Statistics.zeros(self.Z.shape[1], self.Z)
                sums.VV.add_(self.LB[r] @ self.LB[r].mT).diagonal().sub_(1.0)
                sums.a.add_(self.a[r])
                self._add_rows(sums, r, Data(X, y, known_noise))
                LB.append(_required_factor(sums))
                a.append(sums.a)
            factor, weights = torch.stack(LB), torch.stack(a)
            kept = (
                self.data.joined_by(X, y, known_noise) if len(self.data.y) >= self.N else self.data
            )  # all rows, or some for diagnosis
            return replace(self, data=kept, LB=factor, a=weights, alpha=_alpha(self.L, factor, weights), N=self.N + len(X))

    def _add_rows(self, sums: Statistics, member: int, rows: Data) -> None:
        values = of_members(self.values, self.members, member)
        identity = torch.eye(self.Z.shape[1], dtype=self.Z.dtype, device=self.Z.device)
        inverse = torch.linalg.solve_triangular(self.L[member], identity, upper=False)
        inducing = Inducing(self.Z[member], self.L[member], inverse, float(self.jitter[member]), 0)
        for chunk in split_rows(rows, _CHUNK):
            add_chunk_(sums, forward(self.model, values, inducing, chunk))


def split_rows(rows: Data, size: int) -> Iterable[Data]:
    """The rows (one data set, one target) in chunks."""
    for start in range(0, len(rows.y), size):
        yield rows.only(slice(start, start + size))


def from_sums(
    model: Model,
    values: Sequence[Tree],
    inducing: Sequence[Inducing],
    sums: Sequence[Statistics],
    bound: Sequence[float],
    data: Data,
) -> SparsePosterior:
    """Members (values without batch) whose sums over all rows are known. data: some of the rows, kept for diagnosis."""
    Z, L = torch.stack([i.Z for i in inducing]), torch.stack([i.L for i in inducing])
    LB, a = torch.stack([_required_factor(s) for s in sums]), torch.stack([s.a for s in sums])
    named = [dict(leaves(v)) for v in values]
    joined = nest({name: torch.stack([member[name].detach() for member in named]) for name in named[0]})
    jitter = torch.tensor([i.jitter for i in inducing], dtype=Z.dtype, device=Z.device)
    bounds = torch.tensor(list(bound), dtype=Z.dtype, device=Z.device)
    kept = next(iter(split_rows(data, KEPT_ROWS)))
    N = int(sums[0].scalars[4])
    return SparsePosterior(model, joined, kept, Z, L, LB, a, _alpha(L, LB, a), jitter, bounds, N, bound_rows=N)


def joined(parts: Sequence[SparsePosterior]) -> SparsePosterior:
    """One posterior of the members of several, which have the same model, rows and number of inducing points."""
    stacked = {name: torch.cat([getattr(p, name) for p in parts]) for name in ("Z", "L", "LB", "a", "alpha", "jitter", "bound")}
    named = [dict(leaves(part.values)) for part in parts]
    values = nest({name: torch.cat([own[name] for own in named]) for name in named[0]})
    return replace(parts[0], values=values, **stacked)


def condition_sparse(model: Model, values: Tree, data: Data) -> SparsePosterior:
    """Members with these values (leaves (R, *shape), inducing points under "inducing.Z") conditioned on data in memory."""
    members = members_in(values)
    each, placed, sums, bounds = [], [], [], []
    with torch.no_grad():
        for r in range(members):
            own = of_members(values, members, r)
            inducing = place_inducing(model, own)
            if inducing is None:
                raise NotPositiveDefiniteError(
                    "The covariance of the inducing points is not positive definite, even with the largest jitter. "
                    "Use fewer inducing points, or give the length-scales a prior."
                )
            total = Statistics.zeros(len(inducing.Z), inducing.Z)
            for chunk in split_rows(data, _CHUNK):
                add_chunk_(total, forward(model, own, inducing, chunk))
            bound = collapsed_bound(total)
            bounds.append(float("inf") if bound is None else float(bound.value))
            each.append(own)
            placed.append(inducing)
            sums.append(total)
    return from_sums(model, each, placed, sums, bounds, data)


def through_points(model: Model, values: Tree, data: Data, points: int) -> SparsePosterior:
    """Members conditioned on data through so many inducing points, the features of rows that are spread over all of them; of very many rows,
    on every second, third, ... of them. All rows are kept, as other members keep them."""
    with torch.no_grad():
        chosen = torch.linspace(0, len(data.y) - 1, min(points, len(data.y)), device=data.X.device).round().long()
        members = members_in(values)
        H = model.features_at(values, data.X[chosen])
        named = dict(leaves(values)) | {"inducing.Z": H.expand(members, *H.shape[-2:]).contiguous()}
        some = data.only(slice(None, None, -(-len(data.y) // MOST_THROUGH)))
        return replace(condition_sparse(model, nest(named), some), data=data)


def _required_factor(sums: Statistics) -> Tensor:
    LB = factor_of_sums(sums)
    if LB is None:
        raise NotPositiveDefiniteError("The sums over the rows are not finite. Rescale the inputs, or check the features.")
    return LB


def _alpha(L: Tensor, LB: Tensor, a: Tensor) -> Tensor:
    """L⁻ᵀ (I + VV)⁻¹ a (R, J)."""
    solved = torch.cholesky_solve(a[..., None], LB)
    return torch.linalg.solve_triangular(L.mT, solved, upper=True)[..., 0]
