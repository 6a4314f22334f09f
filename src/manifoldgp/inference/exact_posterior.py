"""The posterior p(f* | D) of a batch of members: mean, variance, covariance, samples, derivatives, conditioning on new rows.

All in the model's units: inputs standardised, z = g(y) standardised and warped. Members (a leading dimension R) may have
different parameters; a single model has R = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from manifoldgp._system.linalg import PIVOT_ERROR, cholesky_with_jitter, factor_in_place, pivot_error, solve_lower
from manifoldgp.errors import InputError
from manifoldgp.evidence import LeaveOneOut, leave_one_out
from manifoldgp.inference.posterior import CHUNK_BYTES, Conditioned
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, members_in, of_members

BLOCK_ROWS = 1024
"""Rows of a covariance that are computed at once where there are more."""


@dataclass(frozen=True)
class Posterior(Conditioned):
    """Members conditioned on data.

    H: (R, N, Q). L: lower factor (R, N, N) of K + noise. z: (R, N). alpha: (K + noise)⁻¹ (z − m) (R, N). jitter: (R,).
    """

    model: Model
    values: Tree
    data: Data
    H: Tensor
    L: Tensor
    z: Tensor
    alpha: Tensor
    jitter: Tensor

    @property
    def points(self) -> Tensor:
        return self.H

    @property
    def rows(self) -> int:
        return self.alpha.shape[-1]

    def moments(self, X: Tensor, variance: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Mean (R, n), variance (R, n) and V = L⁻¹ K(H, H*) (R, N, n), differentiable in X (n, D), without chunks."""
        H = self.transform(X)
        k = self.model.cross(self.values, self.H, H)  # (R, N, n)
        mean = self.model.mean_at(self.values, X, H) + (self.alpha[:, None, :] @ k)[:, 0, :]
        if not variance:
            return mean, torch.zeros_like(mean), k
        V = solve_lower(self.L, k)
        var = self.model.prior_diagonal(self.values, H) - (V * V).sum(-2)
        return mean, var.clamp_min(0.0), V

    def covariance(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (R, n) and joint covariance (R, n, n) of f at X (n, D)."""
        with torch.no_grad():
            mean, _, V = self.moments(X)
            prior = self.model.matrix(self.values, self.transform(X))
            return mean, prior - V.mT @ V

    def whitener(self) -> Tensor:
        """T = L⁻¹, row by row from T L = 1: what is multiplied by it, k = L v, then loses no digits that v has; columns from L T = 1 would."""
        return torch.linalg.solve_triangular(self.L, torch.eye(self.L.shape[-1]).to(self.L), upper=False, left=False)

    def update_weights(self, f: Tensor, generator: torch.Generator) -> Tensor:
        """c = (K + noise)⁻¹ (f + w), w drawn from the noise: what the rows would have said of this f."""
        noise = self.noise_variance() + self.jitter + (0.0 if self.data.known_noise is None else self.data.known_noise)
        w = torch.randn(f.shape, generator=generator, dtype=f.dtype).to(f.device) * noise.sqrt()
        return torch.cholesky_solve((f + w).mT, self.L[0]).mT

    def left_out(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """mean_i = z_i − alpha_i / p_i,  variance_i = 1 / p_i,  p_i = (A⁻¹)_ii = |L⁻¹ e_i|²      (Rasmussen and Williams, eq. 5.12)"""
        p = torch.stack([precision(L, rows) for L in self.L])
        return self.z[:, rows] - self.alpha[:, rows] / p, 1.0 / p

    def only(self, members: Tensor | slice) -> Posterior:
        """The posterior of some members, in the given order."""
        picked = {name: getattr(self, name)[members] for name in ("H", "L", "z", "alpha", "jitter")}
        return replace(self, values=self._values_of(members, self.values), **picked)

    def nlml(self) -> Tensor:
        """−log p(y | values) of all rows (R,), from the same factor."""
        with torch.no_grad():
            residual = self.z - self.model.mean_at(self.values, self.data.X, self.H)
            _, log_slope = self.model.warp(self.values, self.data.y)
            half_log_det = self.L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
            quadratic = 0.5 * (residual * self.alpha).sum(-1)
            return quadratic + half_log_det + 0.5 * self.rows * math.log(2 * math.pi) - log_slope.expand_as(self.z).sum(-1)

    def leave_one_out(self) -> LeaveOneOut:
        """Leave-one-out predictions of z, from the same factor."""
        return leave_one_out(self.L, self.alpha, self.z)

    def condition(self, X: Tensor, y: Tensor, known_noise: Tensor | None = None) -> Posterior:
        """The posterior with n more rows, parameters unchanged: what :func:`condition` gives for all rows, to 1e-6 sd(y).

        In O(N² n) where the factor can grow; a factor that has lost its digits is computed anew from all rows, in O(N³).
        """
        if not len(X):
            return self
        with torch.no_grad():
            joined = self.data.joined_by(X, y, known_noise)
            H = self.transform(X)
            L = self._grown_factor(H, known_noise)
            if L is None:
                return condition(self.model, self.values, joined)
            H, z = torch.cat([self.H, H], -2), torch.cat([self.z, self._warped(y)], -1)
            alpha = _weights(self.model, self.values, joined.X, H, L, z)
            return replace(self, data=joined, H=H, L=L, z=z, alpha=alpha)

    def _grown_factor(self, H: Tensor, known_noise: Tensor | None) -> Tensor | None:
        """[L 0; Bᵀ C] with B = L⁻¹ K(H, H_new) and C the factor of K_new + noise − Bᵀ B; None where that is not accurate.

        Jitter belongs to a whole matrix: a factor that needs some, or already has some, does not grow.
        """
        if bool(self.jitter.any()):
            return None
        B = solve_lower(self.L, self.model.cross(self.values, self.H, H))
        corner = self.model.matrix(self.values, H) - B.mT @ B
        corner.diagonal(dim1=-2, dim2=-1).add_(self.noise_variance()[:, None] + (0.0 if known_noise is None else known_noise))
        if bool(factor_in_place(corner).any()):
            return None
        L = torch.cat([torch.cat([self.L, torch.zeros_like(B)], -1), torch.cat([B.mT, corner.tril_()], -1)], -2)
        return L if bool((pivot_error(L) <= PIVOT_ERROR).all()) else None

    def _warped(self, y: Tensor) -> Tensor:
        z, _ = self.model.warp(self.values, y)
        return z.expand(self.members, y.shape[-1])


def precision(L: Tensor, rows: Tensor) -> Tensor:
    """(A⁻¹)_ii (n,) of the chosen rows, for A = L Lᵀ (N, N), in bounded memory: O(N² n)."""
    parts = []
    for chunk in rows.split(max(1, CHUNK_BYTES // (8 * len(L)))):
        unit = torch.zeros(len(L), len(chunk), dtype=L.dtype, device=L.device)
        unit[chunk, torch.arange(len(chunk), device=L.device)] = 1.0
        parts.append((solve_lower(L, unit) ** 2).sum(0))
    return torch.cat(parts)


def condition(model: Model, values: Tree, data: Data) -> Posterior:
    """Members with these values (leaves (R, *shape)) conditioned on data that they all share; masked rows are dropped."""
    if model.outputs or data.batched:
        raise InputError(
            "condition() takes one target and data that all members share. Condition each output by itself, with outputs=0 and "
            "its own values; and each data set by itself."
        )
    data = data.without_masked()
    with torch.no_grad():
        members = members_in(values)
        N, noise = data.X.shape[0], model.noise_variance(values, data)
        noise = (noise if data.known_noise is not None else noise.reshape(-1, 1)).expand(members, N)
        if N <= BLOCK_ROWS:
            K, H = model.covariance(values, data.X)
            K, H = K.expand(members, N, N).clone(), H.expand(members, *H.shape[-2:])
            K.diagonal(dim1=-2, dim2=-1).add_(noise)
            L, jitter = cholesky_with_jitter(K)
        else:
            H = model.features_at(values, data.X)
            H = H.expand(members, *H.shape[-2:])
            L, jitter = _factors_in_blocks(model, values, H, noise)
        z = model.warp(values, data.y)[0].expand(members, N).contiguous()
        return Posterior(model, values, data, H, L, z, _weights(model, values, data.X, H, L, z), jitter)


def _factors_in_blocks(model: Model, values: Tree, H: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Lower factors (R, N, N) of K + noise and the jitter (R,) of each, in little more memory than the factors need: member by member, and K by blocks of rows."""
    members, N = H.shape[:2]
    L, jitter = H.new_empty(members, N, N), H.new_zeros(members)
    for r in range(members):
        own = of_members(values, members, r)
        _fill_with_covariance(L[r], model, own, H[r], noise[r])
        if bool(factor_in_place(L[r : r + 1])):
            K = torch.empty_like(L[r])
            _fill_with_covariance(K, model, own, H[r], noise[r])
            factor, needed = cholesky_with_jitter(K[None])
            L[r], jitter[r] = factor[0], needed[0]
        L[r].tril_()
    return L, jitter


def _fill_with_covariance(K: Tensor, model: Model, values: Tree, H: Tensor, noise: Tensor) -> None:
    """Overwrite K (N, N) with K(H, H) + noise, for values and H without batch."""
    for start in range(0, len(H), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        K[block] = model.cross(values, H[block], H)
    K.diagonal().copy_(model.prior_diagonal(values, H) + noise)


def _weights(model: Model, values: Tree, X: Tensor, H: Tensor, L: Tensor, z: Tensor) -> Tensor:
    """alpha = (L Lᵀ)⁻¹ (z − m) (R, N)."""
    residual = z - model.mean_at(values, X, H)
    return torch.cholesky_solve(residual[..., None], L)[..., 0]
