"""One member at inputs x ~ N(mu, Sigma), in closed form: the squared exponential on affine features, h = A x + b (Girard et al. 2003; Deisenroth 2010).

With t = h / lengthscale, t_i those of the points, d_i = t_i − E[t] and S = cov(t):

    q_i  = E[k(t, t_i)]           = variance |I + S|^(−1/2) exp(−½ d_iᵀ (I + S)⁻¹ d_i)
    Q_ij = E[k(t, t_i) k'(t', t'_j)]  = variance variance' |I + C|^(−1/2) exp(−½ eᵀ (I + C)⁻¹ e),   e = (d_i, d'_j), C = cov((t, t'))

The second holds for two members with features of their own; a member with itself is a special case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from manifoldgp.inference.posterior import Conditioned
from manifoldgp.kernels import SquaredExponential
from manifoldgp.warping import NoWarping

_BLOCK = 128
"""Rows of Q in one product; the part beyond the diagonal is left out."""

_CHUNK = 2**18
"""Entries of Q in work at a time: what a cache holds."""


@dataclass(frozen=True)
class GaussianMember:
    """A member of which the moments have a closed form.

    points: t_i (N, Q). matrix, offset: t = x matrix + offset, (D, Q) and (Q,). slope, constant: of the prior mean, (D,) and ().
    alpha: (N,). explained: TᵀT (N, N), the data explain k*ᵀ TᵀT k* of the prior variance. variance, noise: ().
    """

    points: Tensor
    matrix: Tensor
    offset: Tensor
    slope: Tensor
    constant: Tensor
    alpha: Tensor
    explained: Tensor
    variance: Tensor
    noise: Tensor

    def moments(self, mu: Tensor, Sigma: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Mean (n,), mean of the posterior variance (n,), variance of the posterior mean (n,), and cov(x, f) (n, D), at mu (n, D), Sigma (n, D, D)."""
        d, S = self._centred(mu), self.matrix.T @ Sigma @ self.matrix
        unit = torch.eye(S.shape[-1], dtype=S.dtype, device=S.device)
        P, root = _inverse(unit + S)
        dP = d @ P
        q = self.variance * torch.exp(-0.5 * (dP * d).sum(-1) - root[:, None])
        weighted = q * self.alpha
        lift = weighted.sum(-1)
        gradient = (
            self.slope + (weighted.unsqueeze(-2) @ dP).squeeze(-2) @ self.matrix.T
        )  # E[df/dx], so that cov(x, f) = Sigma E[df/dx]
        covariance = (Sigma @ gradient.unsqueeze(-1)).squeeze(-1)
        squares = self._expected_squares(d, S)
        twice = 2 * covariance - (Sigma @ self.slope)
        spread = (squares[:, 0] - lift**2).clamp_min(0.0) + twice @ self.slope
        return (
            self.constant + mu @ self.slope + lift,
            (self.variance - squares[:, 1]).clamp_min(0.0),
            spread.clamp_min(0.0),
            covariance,
        )

    def product(self, other: GaussianMember, mu: Tensor, Sigma: Tensor) -> Tensor:
        """cov(m(x), m'(x)) (n,) of the posterior means of two members at the same uncertain input."""
        Q = self.points.shape[-1]
        joint = torch.cat([self.matrix, other.matrix], -1)
        C = joint.T @ Sigma @ joint
        P, root = _inverse(torch.eye(C.shape[-1], dtype=C.dtype, device=C.device) + C)
        left, right = self._centred(mu), other._centred(mu)
        a = torch.exp(-0.5 * ((left @ P[:, :Q, :Q]) * left).sum(-1)) * self.alpha
        b = torch.exp(-0.5 * ((right @ P[:, Q:, Q:]) * right).sum(-1)) * other.alpha
        between = torch.exp(-(left @ P[:, :Q, Q:]) @ right.mT)
        both = (a.unsqueeze(-2) @ between @ b.unsqueeze(-1)).squeeze((-1, -2))
        both = self.variance * other.variance * torch.exp(-root) * both
        means, gradients = zip(*(member._mean_and_gradient(mu, Sigma) for member in (self, other)), strict=True)
        linear = (Sigma @ other.slope * gradients[0]).sum(-1) + (Sigma @ self.slope * gradients[1]).sum(-1)
        return both - means[0] * means[1] + linear + ((Sigma @ other.slope) @ self.slope)

    def _mean_and_gradient(self, mu: Tensor, Sigma: Tensor) -> tuple[Tensor, Tensor]:
        """E[g] and E[dg/dx] of g = m − the prior mean."""
        d, S = self._centred(mu), self.matrix.T @ Sigma @ self.matrix
        P, root = _inverse(torch.eye(S.shape[-1], dtype=S.dtype, device=S.device) + S)
        dP = d @ P
        weighted = self.variance * torch.exp(-0.5 * (dP * d).sum(-1) - root[:, None]) * self.alpha
        return weighted.sum(-1), (weighted.unsqueeze(-2) @ dP).squeeze(-2) @ self.matrix.T

    def _centred(self, mu: Tensor) -> Tensor:
        return self.points - (mu @ self.matrix + self.offset).unsqueeze(-2)

    def _expected_squares(self, d: Tensor, S: Tensor) -> Tensor:
        """E[(k*ᵀ alpha)²] and E[k*ᵀ TᵀT k*] (n, 2).

        With P = (I + 2 S)⁻¹, Q_ij = c_ij variance² |I + 2 S|^(−1/2) exp(−¼ (d_i + d_j)ᵀ P (d_i + d_j)), c_ij = exp(−¼ |t_i − t_j|²): one product and one
        exponential an entry. Q is symmetric, so blocks beyond the diagonal are counted twice and not computed.
        """
        P, root = _inverse(torch.eye(S.shape[-1], dtype=S.dtype, device=S.device) + 2 * S)
        dP = d @ P
        quarter = -0.25 * (dP * d).sum(-1, keepdim=True)
        one = torch.ones_like(quarter)
        left, right = torch.cat([-0.5 * dP, quarter, one], -1), torch.cat([d, one, quarter], -1).mT
        total, size = [], max(1, _CHUNK // (_BLOCK * len(self.points)))
        scratch = left.new_empty(0 if left.requires_grad else min(size, len(left)) * _BLOCK * len(self.points))
        for L, R in zip(left.split(size), right.split(size), strict=True):
            sums = [_counted(L[:, a:b], R[..., :b], pairs, scratch) for a, b, pairs in self._pairs]
            total.append(torch.stack(sums).sum(0))
        return torch.cat(total) * (self.variance**2 * torch.exp(-root))[:, None]

    @property
    def _pairs(self) -> list[tuple[int, int, Tensor]]:
        """For each block of rows [a, b): what its entries up to column b count, two vectors (rows · b,)."""
        if "pairs" not in self.__dict__:
            squares = self.points.square().sum(-1)
            c = torch.exp(-0.25 * (squares[:, None] + squares - 2 * self.points @ self.points.T).clamp_min(0.0))
            both = torch.stack([torch.outer(self.alpha, self.alpha) * c, self.explained * c])
            blocks = []
            for a in range(0, len(c), _BLOCK):
                b = min(a + _BLOCK, len(c))
                block = both[:, a:b, :b].clone()
                block[..., :a] *= 2
                blocks.append((a, b, block.flatten(1)))
            self.__dict__["pairs"] = blocks
        return self.__dict__["pairs"]


def _counted(L: Tensor, R: Tensor, pairs: Tensor, scratch: Tensor) -> Tensor:
    """Σ exp(L R) pairs (n, 2), over the entries of blocks (n, rows, columns); in the scratch memory where no gradient is wanted."""
    if len(scratch):
        n, rows, columns = *L.shape[:2], R.shape[-1]
        E = torch.bmm(L, R, out=scratch[: n * rows * columns].view(n, rows, columns)).exp_()
    else:
        E = torch.exp(L @ R)
    return torch.stack([E.flatten(-2) @ count for count in pairs], -1)


def gaussian_members(posterior: Conditioned) -> list[GaussianMember] | None:
    """The members of a block one by one, or None where their moments have no closed form."""
    model = posterior.model
    if type(model.kernel) is not SquaredExponential or not isinstance(model.warping, NoWarping):
        return None
    D = posterior.data.X.shape[-1]
    with torch.no_grad():
        features = _affine(posterior.transform, D, posterior.alpha)
        mean = _affine(lambda X: _mean(posterior, X)[..., None], D, posterior.alpha)
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
        explained=T.mT @ T,
        variance=variance,
        noise=own.noise_variance()[0],
    )


def _mean(posterior: Conditioned, X: Tensor) -> Tensor:
    """The prior mean (R, n)."""
    return posterior.model.mean_at(posterior.values, X, posterior.transform(X)).expand(posterior.members, len(X))


def _affine(function: Callable[[Tensor], Tensor], D: int, like: Tensor) -> tuple[Tensor, Tensor] | None:
    """Matrix (R, D, Q) and offset (R, Q) of a function (n, D) -> (R, n, Q) that turns out to be affine wherever one looks; None of another."""
    far = 10 * torch.randn(16, D, generator=torch.Generator().manual_seed(0), dtype=like.dtype).to(like.device)
    probe = torch.cat([torch.zeros_like(far[:1]), torch.eye(D, dtype=like.dtype, device=like.device), far, 0.1 * far])
    H = function(probe)
    offset = H[:, 0]
    matrix = H[:, 1 : D + 1] - offset[:, None]
    error = (H - (probe @ matrix + offset[:, None])).abs().max()
    return (matrix, offset) if bool(error <= 1e-9 * (1 + H.abs().max())) else None


def _inverse(A: Tensor) -> tuple[Tensor, Tensor]:
    """A⁻¹ and ½ log |A| of matrices (n, P, P) I + S with S of non-negative eigenvalues; not symmetric ones are meant too."""
    return torch.linalg.inv(A), 0.5 * torch.linalg.slogdet(A)[1]
