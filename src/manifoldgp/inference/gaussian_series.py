"""All targets of plain GPs at one uncertain input z ~ N(mu, Sigma), by a series in derivatives: N exponentials a target instead of the N² of `gaussian_outputs`.

For a Gaussian z and smooth functions a and b (Hermite expansion; every term of a variance is positive),

    cov(a(z), b(z)) = E[∇a]ᵀ Sigma E[∇b] + ½ tr(E[∇²a] Sigma E[∇²b] Sigma) + ...

and the expected derivatives of a squared exponential are its own: with q_i = E[k(z, z_i)], E[∇k] = q_i g_i and E[∇²k] = q_i (g_i g_iᵀ − A P Aᵀ), g_i = A P d_i, P = (I + AᵀSigma A)⁻¹.
Means and cov(z, f) are exact. The covariance of the posterior means stops after the second order; of the mean of the posterior variance, data are taken to explain the same share of all
orders after the first as of the first:

    E[v] ≈ Σ_(k ≤ 1) (prior_k − explained_k) + (1 − explained_1 / prior_1) Σ_(k > 1) prior_k,        prior_0 + prior_1 + ... = variance,        every term positive.

Terms fall like powers of Sigma over squared length-scales. A term may vanish where later ones do not (the second of an odd function): `OutputMoments.last` is the second order of each
variance and the prior's of all later ones, as a share of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from manifoldgp.inference.gaussian_outputs import GaussianOutputs, OutputMoments

_UNSEEN = 1e-3
"""Variance, in units of the noise, that may remain unexplained at the points for a shorter whitener: far below what a band shows."""


@dataclass(frozen=True)
class SeriesOutputs:
    """The targets of `exact` made ready. whitener (O, R, N): the R directions of TᵀT that the points see, others have been left out."""

    exact: GaussianOutputs
    whitener: Tensor

    def __call__(self, mu: Tensor, Sigma: Tensor, latent: bool = False, judged: bool = True) -> OutputMoments:
        """The moments at mu (n, D), Sigma (n, D, D), differentiable in both; latent: of f, without noise; judged: with the share of the last terms.

        Inputs and targets are one dimension, of size n O: few calls of few kinds, since a rollout makes them step after step and most of its time would be the calls.
        """
        of, n, targets = self.exact, len(mu), len(self.exact.alpha)
        A, D, Q = self._of_each(of.matrix, n), mu.shape[-1], of.matrix.shape[-1]
        wide = Sigma.unsqueeze(1).expand(n, targets, D, D).reshape(-1, D, D)
        S = torch.bmm(torch.bmm(A.mT, wide), A)
        factors = torch.linalg.cholesky_ex(torch.addcmul(self._unit, S, self._once_and_twice))[0]
        P, P2 = torch.cholesky_inverse(factors)
        root, root2 = factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        log_variance, variance = self._of_each(self._log_variance, n), self._of_each(of.variance, n)
        # d = J (1, t) with J = (−E[t], I), so that dᵀ P d is a quadratic form of what is known before, and g = G (1, t)
        J = torch.cat([torch.addmm(self._shift, mu, self._flat).view(-1, Q, 1), self._of_each(self._units, n)], -1)
        PJ = torch.bmm(P, J)
        G, points = torch.bmm(A, PJ), self._of_each(self._points, n)
        square = (torch.bmm(torch.bmm(J.mT, PJ), points) * points).sum(-2)
        q = torch.exp(torch.sub((log_variance - root).unsqueeze(-1), square, alpha=0.5))
        seen, weighted = torch.bmm(points * q.unsqueeze(-2), self._of_each(self._seen, n)).split(
            [len(self.whitener[0]), Q + 1], -1
        )
        total, Gw = weighted[:, 0, 0], torch.bmm(G, weighted)
        slope = (Gw[..., 0] + self._of_each(of.slope, n)).view(n, targets, D)
        curvature = torch.addcmul(torch.bmm(Gw, G.mT), total[:, None, None], torch.bmm(torch.bmm(A, P), A.mT), value=-1.0)
        curved = torch.bmm(curvature, wide)  # E[∇²m] Sigma
        second = 0.5 * torch.bmm(curved.view(n, targets, -1), curved.mT.reshape(n, targets, -1).mT)
        # prior_0 = variance |I + 2 S|^(−½), and with B = S (I + 2 S)⁻¹ = ½ (I − (I + 2 S)⁻¹): prior_1 = prior_0 tr B, prior_2 = prior_0 (½ (tr B)² + tr B²)
        traced = P2.diagonal(dim1=-2, dim2=-1).sum(-1)
        trace, prior = 0.5 * (Q - traced), torch.exp(log_variance - root2)
        first = prior * trace
        beyond = (variance - prior - first).clamp_min(0.0)
        level, slopes = self._explained(seen, G, wide)
        unexplained = (first - slopes).clamp_min(0.0) / (
            first + 1e-9 * variance
        )  # of the higher orders, of which data explain less, as of the first
        certain = (prior + first - level - slopes).clamp_min(0.0) + unexplained * beyond
        certain = (certain if latent else certain + self._of_each(of.noise, n)).view(n, targets)
        covariance = torch.baddbmm(second, torch.bmm(slope, Sigma), slope.mT) + torch.diag_embed(certain)
        mean = torch.addmm(of.constant, mu, of.slope.mT) + total.view(n, targets)
        if not judged:
            return OutputMoments(mean, covariance, slope.mT)
        squared = 0.25 * (Q - 2 * traced + P2.square().sum((-1, -2)))  # tr B²
        third = (beyond - prior * (0.5 * trace.square() + squared)).clamp_min(0.0).view(n, targets)  # prior_3 + prior_4 + ...
        last = ((second.diagonal(dim1=-2, dim2=-1) + third) / covariance.diagonal(dim1=-2, dim2=-1)).detach()
        return OutputMoments(mean, covariance, slope.mT, last)

    def _explained(self, seen: Tensor, G: Tensor, Sigma: Tensor) -> tuple[Tensor, Tensor]:
        """What the data explain of the prior's variance (n O,), of order zero and one: |T E[k]|² and tr(Sigma E[∇k]ᵀ TᵀT E[∇k]). seen: T of q_i (1, t_i), (n O, 1 + Q, R)."""
        products = torch.bmm(seen, seen.mT)
        return products[:, 0, 0], (Sigma * torch.bmm(torch.bmm(G, products), G.mT)).sum((-1, -2))

    def _of_each(self, constant: Tensor, n: int) -> Tensor:
        """A number of each target (O, ...), for n inputs (n O, ...)."""
        return constant if n == 1 else constant.repeat(n, *[1] * (constant.ndim - 1))

    @cached_property
    def _seen(self) -> Tensor:
        """Tᵀ and alpha_i (1, t_i) side by side (O, N, R + 1 + Q)."""
        return torch.cat([self.whitener, self._points * self.exact.alpha.unsqueeze(-2)], -2).mT.contiguous()

    @cached_property
    def _points(self) -> Tensor:
        """(1, t_i), as (O, 1 + Q, N): products over the points run along memory."""
        t = self.exact.points.mT
        return torch.cat([torch.ones_like(t[:, :1]), t], -2)

    @cached_property
    def _units(self) -> Tensor:
        return self._unit.expand(len(self.exact.alpha), *self._unit.shape)

    @cached_property
    def _flat(self) -> Tensor:
        """All matrices side by side, negative (D, O Q)."""
        return -self.exact.matrix.transpose(0, 1).flatten(1)

    @cached_property
    def _shift(self) -> Tensor:
        return -self.exact.offset.flatten()

    @cached_property
    def _log_variance(self) -> Tensor:
        return self.exact.variance.log()

    @cached_property
    def _unit(self) -> Tensor:
        return torch.eye(self.exact.matrix.shape[-1], dtype=self._shift.dtype, device=self._shift.device)

    @cached_property
    def _once_and_twice(self) -> Tensor:
        return self._shift.new_tensor([1.0, 2.0])[:, None, None, None]


def series_outputs(exact: GaussianOutputs) -> SeriesOutputs:
    """The same targets, with the directions of the whitener left out that matter to none of the points."""
    t = exact.points
    K = exact.variance[:, None, None] * torch.exp(-0.5 * torch.cdist(t, t).square())
    size, U = torch.linalg.eigh(exact.whitener @ K @ (exact.whitener @ K).mT / t.shape[-2])  # ascending
    unseen = size.clamp_min(0.0).cumsum(-1) < _UNSEEN * exact.noise[:, None]
    first = int(unseen.sum(-1).min())
    return SeriesOutputs(exact, U[..., first:].mT @ exact.whitener)
