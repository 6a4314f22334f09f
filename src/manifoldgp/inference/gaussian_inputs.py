"""One member at inputs x ~ N(mu, Sigma), in closed form: the squared exponential on affine features, h = A x + b (Girard et al. 2003; Deisenroth 2010).

With t = h / lengthscale, t_i those of the points, d_i = t_i − E[t] and S = cov(t):

    q_i  = E[k(t, t_i)]           = variance |I + S|^(−1/2) exp(−½ d_iᵀ (I + S)⁻¹ d_i)
    Q_ij = E[k(t, t_i) k'(t', t'_j)]  = variance variance' |I + C|^(−1/2) exp(−½ eᵀ (I + C)⁻¹ e),   e = (d_i, d'_j), C = cov((t, t'))

The second holds for two members with features of their own; a member with itself is a special case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from manifoldgp._system.linalg import pivot_error
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.kernels import SquaredExponential
from manifoldgp.warping import NoWarping

_BLOCK = 64
"""Rows of Q in one product; the part beyond the diagonal is left out."""

_LARGE = 0.03
"""Largest exponent of a point from which exp(x) − 1 has digits enough."""

_TERMS = 8
"""Of the series of exp(x) − 1 below it: 0.03⁸ / 9! = 2e-18."""

_LOST = 1e-3
"""Rounding error of the smallest pivot, relative, from which on sums over pairs of rows keep too few digits for moments: where the noise is some 1e-12 of the prior variance."""

_CHUNK = 2**18
"""Entries of Q in work at a time: two megabytes."""


@dataclass(frozen=True)
class GaussianMember:
    """A member of which the moments have a closed form.

    points: t_i (N, Q). matrix, offset: t = x matrix + offset, (D, Q) and (Q,). slope, constant: of the prior mean, (D,) and ().
    alpha: (N,). whitener: T (N, N), the data explain |T k*|² of the prior variance. explained: TᵀT. variance, noise: ().
    """

    points: Tensor
    matrix: Tensor
    offset: Tensor
    slope: Tensor
    constant: Tensor
    alpha: Tensor
    whitener: Tensor
    explained: Tensor
    variance: Tensor
    noise: Tensor

    @cached_property
    def counts(self) -> list[tuple[int, Tensor]]:
        """For each block of rows: the first, and what its entries up to the diagonal block count in alpha alphaᵀ and in TᵀT, (2, rows · columns)."""
        both, blocks = torch.stack([torch.outer(self.alpha, self.alpha), self.explained]), []
        for first in range(0, len(self.alpha), _BLOCK):
            block = both[:, first : first + _BLOCK, : first + _BLOCK].clone()
            block[..., :first] *= 2
            blocks.append((first, block.flatten(1)))
        return blocks

    def at(self, mu: Tensor, Sigma: Tensor) -> Expected:
        """What the moments at mu (n, D), Sigma (n, D, D) are made of."""
        d, S = self.points - (mu @ self.matrix + self.offset).unsqueeze(-2), self.matrix.T @ Sigma @ self.matrix
        P, root = _inverse(_unit(S) + S)
        dP = d @ P
        q = self.variance * torch.exp(-0.5 * (dP * d).sum(-1) - root[:, None])
        weighted = q * self.alpha
        # E[df/dx], so that cov(x, f) = Sigma E[df/dx]
        gradient = (weighted.unsqueeze(-2) @ dP).squeeze(-2) @ self.matrix.T
        return Expected(self, d, P, root, q, weighted, gradient)


@dataclass(frozen=True)
class Expected:
    """A member at n uncertain inputs: d (n, N, Q), P = (I + S)⁻¹ with root = ½ log |I + S|, q (n, N), q alpha, and E[df/dx] (n, D) less the prior mean's."""

    member: GaussianMember
    d: Tensor
    P: Tensor
    root: Tensor
    q: Tensor
    weighted: Tensor
    gradient: Tensor

    def moments(self, mu: Tensor, Sigma: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Mean (n,), mean of the posterior variance (n,), variance of the posterior mean (n,), and cov(x, f) (n, D)."""
        member = self.member
        coupling = _coupling(self, self, Sigma)
        moved, explained = coupling.summed_with_itself()
        certain = member.variance - (self.q @ member.whitener.T).square().sum(-1)
        slope = Sigma @ member.slope
        spread = moved + (slope * (2 * self.gradient + member.slope)).sum(-1)
        mean = member.constant + mu @ member.slope + self.weighted.sum(-1)
        covariance = slope + (Sigma @ self.gradient.unsqueeze(-1)).squeeze(-1)
        return mean, (certain - explained).clamp_min(0.0), spread.clamp_min(0.0), covariance

    def covariance(self, other: Expected, Sigma: Tensor) -> Tensor:
        """cov(m(x), m'(x)) (n,) of the posterior means of two members at the same uncertain input."""
        mine, theirs = Sigma @ self.member.slope, Sigma @ other.member.slope
        linear = (mine * other.gradient).sum(-1) + (theirs * self.gradient).sum(-1) + theirs @ self.member.slope
        return _coupling(self, other, Sigma).summed() + linear


@dataclass(frozen=True)
class _Coupling:
    """Q_ij = q_i q'_j exp(left_i · right_j): what the common input adds to the product of two means, which is nothing where it is certain.

    left (n, N, Q' + 2), right (n, N', Q' + 2). Sums are of exp(...) − 1, small where Sigma is, so that no digits are lost in Q_ij − q_i q'_j.
    """

    one: Expected
    other: Expected
    left: Tensor
    right: Tensor

    def summed(self) -> Tensor:
        """cov(g, g') = Σ_ij alpha_i q_i alpha'_j q'_j (exp(...) − 1), (n,)."""
        parts = zip(*(A.split(self._size) for A in (self.left, self.right, self.one.weighted, self.other.weighted)), strict=True)
        return torch.cat([_quadratic(torch.expm1(L @ R.mT), a, b) for L, R, a, b in parts])

    def summed_with_itself(self) -> tuple[Tensor, Tensor]:
        """The same for one member twice, and Σ_ij (TᵀT)_ij q_i q_j (exp(...) − 1), (n,) each; entries beyond the diagonal count for those they mirror."""
        large = (self.left * self.right).detach().sum(-1).abs().amax(-1) > _LARGE
        both = torch.zeros(len(large), 2, dtype=self.left.dtype, device=self.left.device)
        for points, precise in ((large, False), (~large, True)):
            if bool(points.any()):
                both = both.index_put((points,), self._sums(points, precise))
        return both[:, 0], both[:, 1]

    def _sums(self, points: Tensor, precise: bool) -> Tensor:
        """Both sums (k, 2) at some of the points."""
        counts, N = self.one.member.counts, self.left.shape[-2]
        scratch = self.left.new_empty(0 if self.left.requires_grad else min(self._size, len(points)) * min(_BLOCK, N) * N)
        sums = []
        for L, R, q in zip(*(A[points].split(self._size) for A in (self.left, self.right, self.one.q)), strict=True):
            sums.append(torch.stack([_block_sums(L, R, q, first, count, scratch, precise) for first, count in counts]).sum(0))
        return torch.cat(sums)

    @property
    def _size(self) -> int:
        return max(1, _CHUNK // (min(_BLOCK, self.left.shape[-2]) * self.right.shape[-2]))


def _block_sums(L: Tensor, R: Tensor, q: Tensor, first: int, count: Tensor, scratch: Tensor, precise: bool) -> Tensor:
    """Sums (n, 2) over rows first, first + 1, ... of symmetric matrices q_i q_j (exp(...) − 1), up to their diagonal block, each entry counted (2, rows · columns).

    In the scratch memory where no gradient is wanted: fresh memory would cost more than the arithmetic.
    """
    last = min(first + _BLOCK, L.shape[-2])
    n, rows, L, R = len(L), last - first, L[:, first:last], R[:, :last].mT
    down, across = q[:, first:last, None], q[:, None, :last]
    if len(scratch):
        M = torch.bmm(L, R, out=scratch[: n * rows * last].view(n, rows, last))
        M = less_one(M, precise).mul_(down).mul_(across)
    else:
        M = torch.expm1(L @ R) * down * across
    return torch.stack([M.flatten(-2) @ c for c in count], -1)


def less_one(L: Tensor, precise: bool | None = None) -> Tensor:
    """exp(L) − 1 in place, for no gradient. Small numbers would lose their digits in a difference, and expm1 takes ten times as long: they have a series, x (1 + x/2 (1 + x/3 (...))).

    precise: whether digits matter where some numbers are large; None: they do only where all are small.
    """
    if precise is False or bool(L.abs().amax() > _LARGE):
        return L.expm1_() if precise else L.exp_().sub_(1.0)
    series = L / _TERMS + 1.0
    for term in range(_TERMS - 1, 1, -1):
        series.mul_(L).div_(term).add_(1.0)
    return L.mul_(series)


def _quadratic(M: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """aᵀ M b (n,)."""
    return (a * (M @ b.unsqueeze(-1)).squeeze(-1)).sum(-1)


def _coupling(one: Expected, other: Expected, Sigma: Tensor) -> _Coupling:
    """With P the blocks of (I + C)⁻¹ and W = P₁₁ C₁₂ (I + C₂₂)⁻¹,

    log Q_ij / (q_i q'_j) = d_i W d'_j − ½ d_i W C₂₁ (I + C₁₁)⁻¹ d_i − ½ d'_j Wᵀ C₁₂ (I + C₂₂)⁻¹ d'_j + ½ log |I + C₁₁| |I + C₂₂| / |I + C|
    """
    A, B = one.member.matrix, other.member.matrix
    Q, joint = A.shape[-1], torch.cat([A, B], -1)
    C = joint.T @ Sigma @ joint
    P, root = _inverse(_unit(C) + C)
    C12 = C[:, :Q, Q:]
    W = P[:, :Q, :Q] @ C12 @ other.P
    mine = -0.5 * ((one.d @ (W @ C12.mT @ one.P)) * one.d).sum(-1, keepdim=True)
    theirs = mine if one is other else -0.5 * ((other.d @ (W.mT @ C12 @ other.P)) * other.d).sum(-1, keepdim=True)
    mine = mine + (one.root + other.root - root)[:, None, None]
    left = torch.cat([one.d @ W, mine, torch.ones_like(mine)], -1)
    return _Coupling(one, other, left, torch.cat([other.d, torch.ones_like(theirs), theirs], -1))


def _unit(S: Tensor) -> Tensor:
    return torch.eye(S.shape[-1], dtype=S.dtype, device=S.device)


def gaussian_members(posterior: Conditioned) -> list[GaussianMember] | None:
    """The members of a block one by one, or None where their moments have no closed form."""
    model = posterior.model
    if posterior.in_cells or type(model.kernel) is not SquaredExponential or not isinstance(model.warping, NoWarping):
        return None
    if isinstance(posterior, Posterior) and bool((pivot_error(posterior.L) > _LOST).any()):
        return None
    D = posterior.data.X.shape[-1]
    with torch.no_grad():
        features = affine(posterior.transform, D, posterior.alpha)
        mean = affine(lambda X: prior_mean(posterior, X)[..., None], D, posterior.alpha)
        if features is None or mean is None:
            return None
        T = posterior.whitener()
        return [_member(posterior, r, features, mean, T[r]) for r in range(posterior.members)]


def _member(
    posterior: Conditioned, r: int, features: tuple[Tensor, Tensor], mean: tuple[Tensor, Tensor], T: Tensor
) -> GaussianMember:
    kernel, own = posterior.model.kernel, posterior.only(torch.tensor([r], device=T.device))
    values = own.values.get("kernel", {})
    dims = list(range(own.points.shape[-1]) if kernel.dims is None else kernel.dims)
    lengthscale = values["lengthscale"][0] if "lengthscale" in values else T.new_ones(1)
    variance = values["variance"][0] if "variance" in values else T.new_ones(())
    return GaussianMember(
        points=own.points[0][:, dims] / lengthscale,
        matrix=features[0][r][:, dims] / lengthscale,
        offset=features[1][r][dims] / lengthscale,
        slope=mean[0][r][:, 0],
        constant=mean[1][r][0],
        alpha=own.alpha[0],
        whitener=T,
        explained=T.mT @ T,
        variance=variance,
        noise=own.noise_variance()[0],
    )


def prior_mean(posterior: Conditioned, X: Tensor) -> Tensor:
    """The prior mean (R, n)."""
    return posterior.model.mean_at(posterior.values, X, posterior.transform(X)).expand(posterior.members, len(X))


def affine(function: Callable[[Tensor], Tensor], D: int, like: Tensor) -> tuple[Tensor, Tensor] | None:
    """Matrix (R, D, Q) and offset (R, Q) of a function (n, D) -> (R, n, Q) that turns out to be affine wherever one looks; None of another."""
    far = 10 * torch.randn(16, D, generator=torch.Generator().manual_seed(0), dtype=like.dtype).to(like.device)
    probe = torch.cat([torch.zeros_like(far[:1]), torch.eye(D, dtype=like.dtype, device=like.device), far, 0.1 * far])
    H = function(probe)
    offset = H[:, 0]
    matrix = H[:, 1 : D + 1] - offset[:, None]
    error = (H - (probe @ matrix + offset[:, None])).abs().max()
    return (matrix, offset) if bool(error <= 1e-9 * (1 + H.abs().max())) else None


def _inverse(A: Tensor) -> tuple[Tensor, Tensor]:
    """A⁻¹ and ½ log |A| of matrices A (n, P, P)."""
    return torch.linalg.inv(A), 0.5 * torch.linalg.slogdet(A)[1]
