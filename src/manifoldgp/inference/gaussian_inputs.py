"""One member at inputs x ~ N(mu, Sigma), in closed form: the squared exponential on affine features, h = A x + b (Girard et al. 2003; Deisenroth 2010).

With t = h / lengthscale, t_i those of the points, d_i = t_i − E[t] and S = cov(t):

    q_i  = E[k(t, t_i)]           = variance |I + S|^(−1/2) exp(−½ d_iᵀ (I + S)⁻¹ d_i)
    Q_ij = E[k(t, t_i) k'(t', t'_j)]  = variance variance' |I + C|^(−1/2) exp(−½ eᵀ (I + C)⁻¹ e),   e = (d_i, d'_j), C = cov((t, t'))

The second holds for two members with features of their own; a member with itself is a special case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor

from manifoldgp.inference.posterior import Conditioned
from manifoldgp.kernels import SquaredExponential
from manifoldgp.warping import NoWarping

_BLOCK = 64
"""Columns of Q in one product; the part above the diagonal block is left out."""

_DEGREES = {4e-4: 2, 5e-3: 3, 2.6e-2: 4}
"""Degree of the polynomial that stands for (exp(x) − 1) / x, by the largest |x|: its error |x|^(degree + 1) / (2^degree (degree + 2)!) is below 1e-12, and as smooth as the kernel,
so that it stays what it is in sums that amplify rounding."""

_LOST = 1e-6
"""Rounding in sums over pairs of rows, relative to the prior variance, from which on a closed form is none: where the noise is some 1e-9 of the prior variance."""

_CHUNK = 2**16
"""Entries of Q in work at a time: half a megabyte, which stays in the cache with what is made of it."""


_OVERFLOWS = 600.0
"""Where exponents log Q / (q q') end, a little before their exponentials are beyond all numbers beside a q of zero: Q = E[k k'] of kernels up to v is at most v q and v q', so
that Q <= v² exp(−600) there, which is nothing."""


@dataclass(frozen=True)
class GaussianMember:
    """A member of which the moments have a closed form.

    points: t_i (N, Q). matrix, offset: t = x matrix + offset, (D, Q) and (Q,). slope, constant: of the prior mean, (D,) and ().
    alpha: (N,). whitener: T (N, N), the data explain |T k*|² of the prior variance. variance, noise: (). factor: what posterior variances are multiplied by.
    """

    points: Tensor
    matrix: Tensor
    offset: Tensor
    slope: Tensor
    constant: Tensor
    alpha: Tensor
    whitener: Tensor
    variance: Tensor
    noise: Tensor
    factor: float = 1.0

    @property
    def rounding(self) -> float:
        """About how much rounding does to Σ_ij (TᵀT)_ij Q_ij, relative to the prior variance: Q_ij is at most its square."""
        return float(torch.finfo(self.whitener.dtype).eps * self.variance * (self.whitener.mT @ self.whitener).norm())

    @cached_property
    def counts(self) -> list[tuple[int, Tensor]]:
        """For each block of columns: the first, and what its entries from the diagonal block down count in alpha alphaᵀ − factor TᵀT, (rows, columns)."""
        whole, blocks = torch.outer(self.alpha, self.alpha) - self.factor * self.whitener.mT @ self.whitener, []
        for first in range(0, len(whole), _BLOCK):
            block = whole[first:, first : first + _BLOCK].clone()
            block[_BLOCK:] *= 2
            blocks.append((first, block))
        return blocks

    @cached_property
    def centred(self) -> Tensor:
        """The points less their mean, (Q, N)."""
        return (self.points - self.points.mean(0)).mT.contiguous()

    def reach(self, Sigma: Tensor) -> Tensor:
        """The largest of the exponents w_ii (n,) at inputs with these covariances, which is the largest of all w_ij."""
        S = self.matrix.T @ Sigma @ self.matrix
        W, products = torch.linalg.solve(_unit(S) + 2 * S, S), torch.einsum("in,jn->ijn", self.centred, self.centred)
        return (W.flatten(1) @ products.flatten(0, 1)).amax(-1)

    def at(self, mu: Tensor, Sigma: Tensor) -> Expected:
        """What the moments at mu (n, D), Sigma (n, D, D) are made of."""
        d, S = self.points.mT - (mu @ self.matrix + self.offset).unsqueeze(-1), self.matrix.T @ Sigma @ self.matrix
        P, root = _inverse(_unit(S) + S)
        Pd = P @ d
        log_q = self.variance.log() - 0.5 * (Pd * d).sum(-2) - root[:, None]
        q = log_q.exp()
        weighted = q * self.alpha
        # E[df/dx], so that cov(x, f) = Sigma E[df/dx]
        gradient = (Pd @ weighted.unsqueeze(-1)).squeeze(-1) @ self.matrix.T
        return Expected(self, d, P, root, log_q, q, weighted, gradient)


@dataclass(frozen=True)
class Expected:
    """A member at n uncertain inputs: d (n, Q, N), P = (I + S)⁻¹ with root = ½ log |I + S|, log q and q (n, N), q alpha, and E[df/dx] (n, D) less the prior mean's."""

    member: GaussianMember
    d: Tensor
    P: Tensor
    root: Tensor
    log_q: Tensor
    q: Tensor
    weighted: Tensor
    gradient: Tensor

    def moments(self, mu: Tensor, Sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean (n,), factor times the mean of the posterior variance and variance of the posterior mean together (n,), and cov(x, f) (n, D)."""
        member, mirrored = self.member, _mirrored(self, Sigma)
        # Q_ij = p_i p_j exp(w_ij), so that E|T k|² = |T p|² + Σ_ij (TᵀT)_ij p_i p_j (exp(w_ij) − 1), and (alpha · p)² − (alpha · q)² = alpha · (p − q) alpha · (p + q)
        certain = member.variance - (mirrored.p @ member.whitener.T).square().sum(-1)
        above = self.weighted * torch.expm1(mirrored.above.clamp_max(_OVERFLOWS))
        moved = above.sum(-1) * (above + 2 * self.weighted).sum(-1) + mirrored.summed()
        slope = Sigma @ member.slope
        spread = moved + (slope * (2 * self.gradient + member.slope)).sum(-1)
        mean = member.constant + mu @ member.slope + self.weighted.sum(-1)
        covariance = slope + (Sigma @ self.gradient.unsqueeze(-1)).squeeze(-1)
        return mean, (member.factor * certain + spread).clamp_min(0.0), covariance

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
        size = max(1, _CHUNK // (self.left.shape[-2] * self.right.shape[-2]))
        parts = zip(*(A.split(size) for A in (self.left, self.right, self.one.weighted, self.other.weighted)), strict=True)
        return torch.cat([_quadratic(torch.expm1((L @ R.mT).clamp_max_(_OVERFLOWS)), a, b) for L, R, a, b in parts])


@dataclass(frozen=True)
class _Mirrored:
    """A member with itself: Q_ij = p_i p_j exp(w_ij), w_ij = left_i · d_j, where d_i = t_i − centre are the same for all inputs, and Q the smaller exponents for it.

    left (n, Q, N). above: log p − log q (n, N), nothing where the input is certain, as w is.
    """

    one: Expected
    left: Tensor
    above: Tensor

    @cached_property
    def log_p(self) -> Tensor:
        return self.one.log_q + self.above

    @cached_property
    def p(self) -> Tensor:
        return self.log_p.exp()

    def summed(self) -> Tensor:
        """Σ_ij C_ij p_i p_j (exp(w_ij) − 1) (n,), with the counts C of the member."""
        degrees = _degrees_of((self.left * self.one.member.centred).sum(-2).amax(-1))
        sums = torch.zeros_like(self.one.root)
        for degree in degrees.unique().tolist():
            some = (degrees == degree).nonzero()[:, 0]
            of = (
                self._differentiable
                if self.left.requires_grad or self.log_p.requires_grad
                else self._small
                if degree
                else self._large
            )
            sums = sums.index_put((some,), of(some, degree))
        return sums

    def _differentiable(self, some: Tensor, degree: int) -> Tensor:
        sums, left, log_p, p, d = [], self.left[some].mT, self.log_p[some], self.p[some], self.one.member.centred
        for first, count in self.one.member.counts:
            j = slice(first, first + _BLOCK)
            w, both = left[:, first:] @ d[:, j], p[:, first:, None] * p[:, None, j]
            less = both * torch.expm1(w) if degree else torch.exp(log_p[:, first:, None] + w + log_p[:, None, j]) - both
            sums.append((less * count).sum((-1, -2)))
        return torch.stack(sums).sum(0)

    def _small(self, some: Tensor, degree: int) -> Tensor:
        """Of exp(w) − 1 = w times a polynomial; the factor w is put in as left_i · d_j again after the sum over i: a product in place of a pass over all pairs."""
        left, p, d = self.left[some], self.p[some], self.one.member.centred
        (highest, *others), summed = _polynomial(degree), torch.empty_like(left)
        coefficients = p.new_tensor(others).unbind()
        for first, count in self.one.member.counts:
            here, down = left[..., first:].mT.contiguous(), (left[..., first:] * p[:, None, first:])
            columns = d[:, first : first + _BLOCK].contiguous()
            for part, w, scratch in _pieces(here, count):
                torch.mm(here[part].flatten(0, 1), columns, out=w.flatten(0, 1))
                torch.add(coefficients[0], w, alpha=highest, out=scratch)
                for c in coefficients[1:]:
                    torch.addcmul(c, scratch, w, out=scratch)
                summed[part, :, first : first + _BLOCK] = torch.bmm(down[part], scratch.mul_(count))
        return ((summed * d).sum(-2) * p).sum(-1)

    def _large(self, some: Tensor, degree: int) -> Tensor:
        """Of Q itself, since p_i p_j may be zero where exp(w_ij) is beyond all numbers."""
        p, log_p = self.p[some], self.log_p[some].unsqueeze(-2)
        d, ones, sums = self.one.member.centred.expand(len(p), -1, -1), torch.ones_like(log_p), torch.zeros_like(p[:, 0])
        left, right = torch.cat([self.left[some], log_p, ones], -2).mT, torch.cat([d, ones, log_p], -2)
        for first, count in self.one.member.counts:
            sums -= (p[:, first:] @ count * p[:, first : first + _BLOCK]).sum(-1)
            for part, Q, _ in _pieces(left, count):
                torch.bmm(left[part, first:], right[part, :, first : first + _BLOCK], out=Q)
                sums[part] += Q.exp_().flatten(1) @ count.flatten()
        return sums


def _mirrored(one: Expected, Sigma: Tensor) -> _Mirrored:
    """With W = (I + 2 S)⁻¹ S and e = E[t] − centre, t_i − E[t] = d_i − e,

    log Q_ij / (q_i q_j) = (d_i − e) W (d_j − e) − ½ (d_i − e) W S P (d_i − e) − ½ (d_j − e) W S P (d_j − e) + ½ log |I + S|² / |I + 2 S|.
    """
    A, d = one.member.matrix, one.member.centred
    S = A.T @ Sigma @ A
    inverse, root = _inverse(_unit(S) + 2 * S)
    W = inverse @ S
    own = ((W @ S @ one.P @ one.d) * one.d).sum(-2)
    e = (d - one.d)[..., :1]
    We = (W @ e).mT
    above = -(We @ d).squeeze(-2) + 0.5 * ((We @ e).squeeze(-1) - own) + (one.root - 0.5 * root)[:, None]
    return _Mirrored(one, W @ d, above)


def _pieces(left: Tensor, count: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Some inputs at a time, and two pieces of memory (inputs, rows, columns) that stay in the cache: fresh memory would cost more than the arithmetic."""
    n, size = len(left), max(1, _CHUNK // count.numel())
    one, other = left.new_empty(2, min(n, size), *count.shape)
    for begin in range(0, n, size):
        some = min(size, n - begin)
        yield slice(begin, begin + some), one[:some], other[:some]


def less_one(x: Tensor) -> Tensor:
    """exp(x) − 1 in place, for no gradient: by a polynomial where all x are small and would lose their digits; expm1 takes several times as long."""
    degree = int(_degrees_of(x.abs().amax()))
    if not degree:
        return x.clamp_max_(_OVERFLOWS).exp_().sub_(1.0)
    highest, *others = _polynomial(degree)
    ratio = highest * x + others[0]
    for c in x.new_tensor(others[1:]):
        torch.addcmul(c, ratio, x, out=ratio)
    return x.mul_(ratio)


def _degrees_of(largest: Tensor) -> Tensor:
    """The degree of the polynomial for exponents up to the largest; 0 where these are too large for any."""
    ends, degrees = largest.new_tensor(list(_DEGREES)), torch.tensor([*_DEGREES.values(), 0], device=largest.device)
    return degrees[torch.searchsorted(ends, largest.detach())]


@cache
def _polynomial(degree: int) -> tuple[float, ...]:
    """Coefficients of (exp(x) − 1) / x, the highest first: through its values at Chebyshev's points as far as the degree reaches."""
    far = next(end for end, own in _DEGREES.items() if own == degree)
    x = far * np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    ratio = [math.fsum(t**k / math.factorial(k + 1) for k in range(12)) for t in x]
    return tuple(np.linalg.solve(np.vander(x / far), ratio) / far ** np.arange(degree, -1, -1.0))


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
    mine = -0.5 * ((one.P @ C12 @ W.mT @ one.d) * one.d).sum(-2) + (one.root + other.root - root)[:, None]
    theirs = -0.5 * ((other.P @ C12.mT @ W @ other.d) * other.d).sum(-2)
    ones = torch.ones_like(mine).unsqueeze(-1)
    left = torch.cat([one.d.mT @ W, mine.unsqueeze(-1), ones], -1)
    return _Coupling(one, other, left, torch.cat([other.d.mT, torch.ones_like(theirs).unsqueeze(-1), theirs.unsqueeze(-1)], -1))


def _unit(S: Tensor) -> Tensor:
    return torch.eye(S.shape[-1], dtype=S.dtype, device=S.device)


def gaussian_members(posterior: Conditioned) -> list[GaussianMember] | None:
    """The members of a block one by one, or None where their moments have no closed form."""
    model = posterior.model
    if posterior.in_cells or type(model.kernel) is not SquaredExponential or not isinstance(model.warping, NoWarping):
        return None
    D = posterior.data.X.shape[-1]
    with torch.no_grad():
        features = affine(posterior.transform, D, posterior.alpha)
        mean = affine(lambda X: prior_mean(posterior, X)[..., None], D, posterior.alpha)
        if features is None or mean is None:
            return None
        T = posterior.whitener()
        members = [_member(posterior, r, features, mean, T[r]) for r in range(posterior.members)]
        return None if any(member.rounding > _LOST for member in members) else members


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
