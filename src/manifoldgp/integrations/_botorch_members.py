"""Posterior members with BoTorch's batches: t-batches of q points, and fantasies, all differentiable in the inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.linalg import PIVOT_ERROR, cholesky_with_jitter, pivot_error, solve_lower
from manifoldgp.errors import InputError
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.model import Model
from manifoldgp.parameters import Tree, map_leaves

_RUNGS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)
"""Jitter tried in turn, relative to the prior variance; the last one is the bound."""


@dataclass(frozen=True)
class Members:
    """R members of one architecture, conditioned on data that may have batch dimensions *B of their own (fantasies).

    H: (R, *B, N, Q). noise: variances (R, *B, N). L: lower factor (R, *B, N, N) of K + noise + jitter. jitter: (R, *B).
    residual: z − m (R, *B', N), and alpha: (K + noise + jitter)⁻¹ residual, where B' is B or has further leading dimensions: several
    sets of targets at the same inputs share one factor.
    """

    model: Model
    values: Tree
    H: Tensor
    noise: Tensor
    L: Tensor
    jitter: Tensor
    residual: Tensor
    alpha: Tensor

    @classmethod
    def of(cls, posterior: Conditioned) -> Members:
        """The members of a fitted estimator's block."""
        posterior = posterior.whole()
        if not isinstance(posterior, Posterior):
            raise InputError(
                f"ManifoldGPModel needs exact posteriors; this estimator has a {type(posterior).__name__}. Fit it on fewer rows."
            )
        mean = posterior.model.mean_at(posterior.values, posterior.data.X, posterior.H)
        known = posterior.data.known_noise
        noise = (posterior.noise_variance()[:, None] + (0.0 if known is None else known)).expand(posterior.z.shape)
        factor = posterior.L, posterior.jitter
        return cls(posterior.model, posterior.values, posterior.H, noise, *factor, posterior.z - mean, posterior.alpha)

    @property
    def count(self) -> int:
        return self.H.shape[0]

    @property
    def batch_shape(self) -> torch.Size:
        return self.alpha.shape[1:-1]

    def noise_variance(self) -> Tensor:
        """Learned noise variance (R,), or the floor."""
        return self.model.learned_noise(self.values, self.alpha).expand(self.count)

    def moments(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean (R, *S, q), joint covariance (R, *S, q, q) and prior variance (R, *S, q) of f at X (*T, q, D).

        *S is *T and the batch of the data, broadcast.
        """
        H = self._features(X)
        T, q = X.shape[:-2], X.shape[-2]
        prior = self.model.matrix(self._values(len(T)), H)
        prior_mean = self._mean(X, H)
        if not self.batch_shape:  # one factor for all points: one solve with T·q right-hand sides
            k = self.model.cross(self.values, self.H, H.reshape(self.count, -1, H.shape[-1]))
            mean = prior_mean + (self.alpha[:, None, :] @ k).reshape(self.count, *T, q)
            V = solve_lower(self.L, k).reshape(self.count, -1, *T, q).movedim(1, -2)
            return mean, prior - V.mT @ V, prior.detach().diagonal(dim1=-2, dim2=-1)
        size = max(len(T), len(self.batch_shape))
        k = self.model.cross(self._values(size), _padded(self.H, size, 2), _padded(H, size, 2))  # (R, *S, N, q)
        mean = _padded(prior_mean, size, 1) + (_padded(self.alpha, size, 1).unsqueeze(-2) @ k).squeeze(-2)
        V = solve_lower(_padded(self.L, size, 2), k)
        prior = _padded(prior, size, 2)
        C = (prior - V.mT @ V).expand(*mean.shape, q)
        return mean, C, prior.detach().diagonal(dim1=-2, dim2=-1).expand(mean.shape)

    def condition(self, X: Tensor, y: Tensor, known_noise: Tensor | None) -> Members:
        """The members with n more rows at X (*T, n, D), targets y (*T', n) in the model's units; gradients flow into both.

        [L 0; Bᵀ C] with B = L⁻¹ K(H, H_new) and C the factor of K_new + noise − Bᵀ B. Where that is not accurate, the factor is computed
        anew from all rows, as :meth:`manifoldgp.inference.exact_posterior.Posterior.condition` does.
        """
        H_new = self._features(X)
        mean = self._mean(X, H_new)
        size = max(X.ndim - 2, self.L.ndim - 3)
        values, H, H_new = self._values(size), _padded(self.H, size, 2), _padded(H_new, size, 2)
        L = _padded(self.L, size, 2)
        B = solve_lower(L, self.model.cross(values, H, H_new))
        added = self.noise_variance().reshape(-1, *[1] * (size + 1))
        added = added if known_noise is None else added + known_noise
        batch = B.shape[:-2]
        added = added.expand(*batch, B.shape[-1])
        C, failed = torch.linalg.cholesky_ex(self.model.matrix(values, H_new) - B.mT @ B + torch.diag_embed(added))
        L = torch.cat([torch.cat([L.expand(*batch, *L.shape[-2:]), torch.zeros_like(B)], -1), torch.cat([B.mT, C], -1)], -2)
        H = torch.cat([H.expand(*batch, *H.shape[-2:]), H_new.expand(*batch, *H_new.shape[-2:])], -2)
        noise = torch.cat([_padded(self.noise, size, 1).expand(*batch, -1), added], -1)
        jitter = torch.zeros(batch, dtype=L.dtype, device=L.device)
        if bool(self.jitter.any()) or bool(failed.any()) or not bool((pivot_error(L) <= PIVOT_ERROR).all()):
            L, jitter = _factored(self.model.matrix(values, H) + torch.diag_embed(noise))
        residual = self._joined(self._warped(y), mean, batch[1:])
        return replace(self, H=H, noise=noise, L=L, jitter=jitter, residual=residual, alpha=_solve(L, residual))

    def _joined(self, z: Tensor, mean: Tensor, batch: torch.Size) -> Tensor:
        """The residuals of the old rows and of new ones with z (R, *T', n) and prior mean (R, *T, n)."""
        batch = torch.Size(np.broadcast_shapes(batch, z.shape[1:-1], self.residual.shape[1:-1]))
        size = len(batch)
        new = _padded(z, size, 1) - _padded(mean, size, 1)
        old = _padded(self.residual, size, 1)
        return torch.cat([part.expand(self.count, *batch, part.shape[-1]) for part in (old, new)], -1)

    def _features(self, X: Tensor) -> Tensor:
        """M(X) (R, *T, q, Q): rows are rows, whatever batch they come from."""
        H = self.model.features_at(self.values, X.reshape(-1, X.shape[-1]))
        H = H.expand(self.count, *H.shape[-2:])
        return H.reshape(self.count, *X.shape[:-1], H.shape[-1])

    def _mean(self, X: Tensor, H: Tensor) -> Tensor:
        """The prior mean (R, *T, q) at X (*T, q, D) with features H (R, *T, q, Q)."""
        rows, features = X.reshape(-1, X.shape[-1]), H.reshape(self.count, -1, H.shape[-1])
        mean = self.model.mean_at(self.values, rows, features)
        return mean.expand(self.count, len(rows)).reshape(H.shape[:-1])

    def _warped(self, y: Tensor) -> Tensor:
        """g(y) (R, *T', n)."""
        z, _ = self.model.warp(self.values, y.reshape(-1))
        return z.expand(self.count, y.numel()).reshape(self.count, *y.shape)

    def _values(self, size: int) -> Tree:
        """The values with leaves (R, 1, ..., 1, *shape): ``size`` dimensions for batches of rows."""
        return map_leaves(lambda leaf: leaf.reshape(len(leaf), *[1] * size, *leaf.shape[1:]), self.values)


def _factored(A: Tensor) -> tuple[Tensor, Tensor]:
    """The lower factor of A (*B, N, N) and the jitter (*B,) it needed, as a posterior's; the factor's first derivative is right too."""
    factor, jitter = cholesky_with_jitter(A.detach().reshape(-1, *A.shape[-2:]))
    L, jitter = factor.reshape(A.shape), jitter.reshape(A.shape[:-2])
    if not A.requires_grad:
        return L, jitter
    # dL = L Φ(L⁻¹ dA L⁻ᵀ), Φ: the lower triangle with half of the diagonal. The difference is zero and has the derivative dA.
    change = solve_lower(L, solve_lower(L, A - A.detach()).mT)
    return L + L @ (change.tril() - 0.5 * torch.diag_embed(change.diagonal(dim1=-2, dim2=-1))), jitter


def root(C: Tensor, prior_variance: Tensor) -> Tensor:
    """The lower factor of covariances C (..., q, q), which are differences of matrices with the diagonal prior_variance (..., q)."""
    return torch.linalg.cholesky(C + jitter(C, prior_variance))


def jitter(C: Tensor, prior_variance: Tensor) -> Tensor:
    """A multiple of the identity (..., q, q): the smallest of a few jitters, relative to the prior variance, that gives each C a factor."""
    with torch.no_grad():
        unit = torch.eye(C.shape[-1], dtype=C.dtype, device=C.device)
        scale = prior_variance.mean(-1)[..., None, None].expand(*C.shape[:-2], 1, 1)
        size = torch.zeros_like(scale)
        for rung in _RUNGS:
            _, info = torch.linalg.cholesky_ex(C + size * unit)
            failed = (info != 0)[..., None, None]
            if not bool(failed.any()):
                break
            size = torch.where(failed, _next(rung) * scale, size)
        return size * unit


def _next(rung: float) -> float:
    return _RUNGS[min(_RUNGS.index(rung) + 1, len(_RUNGS) - 1)]


def _padded(A: Tensor, size: int, last: int) -> Tensor:
    """A (R, *B, ...) with ``last`` dimensions after the batch as (R, 1, ..., *B, ...) with ``size`` batch dimensions."""
    return A.reshape(A.shape[0], *[1] * (size + 1 + last - A.ndim), *A.shape[1:])


def _solve(L: Tensor, r: Tensor) -> Tensor:
    """(L Lᵀ)⁻¹ r for L (R, *B, N, N) and r (R, *E, *B, N): further sets of targets E become columns of one solve."""
    extra = r.ndim - L.ndim + 1
    if r.shape[1 + extra : -1] != L.shape[1:-2]:
        return torch.cholesky_solve(r[..., None], _padded(L, r.ndim - 2, 2).expand(*r.shape, r.shape[-1]))[..., 0]
    E = r.shape[1 : 1 + extra]
    columns = r.reshape(r.shape[0], -1, *r.shape[1 + extra :]).movedim(1, -1)
    solved = torch.cholesky_solve(columns, L).movedim(-1, 1)
    return solved.reshape(r.shape[0], *E, *r.shape[1 + extra :])
