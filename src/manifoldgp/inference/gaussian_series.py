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

    def __call__(self, mu: Tensor, Sigma: Tensor, latent: bool = False) -> OutputMoments:
        """The moments at mu (n, D), Sigma (n, D, D), differentiable in both; latent: of f, without noise."""
        of, wide = self.exact, Sigma.unsqueeze(1)
        A, d = of.matrix, self._points - (mu @ self._flat + self._shift).unflatten(-1, of.offset.shape).unsqueeze(-1)
        S = A.mT @ wide @ A
        factors = torch.linalg.cholesky_ex(self._unit + torch.stack([S, 2 * S]))[0]
        inverse = torch.linalg.solve_triangular(factors, self._unit.expand_as(factors), upper=False)
        roots = factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        AR = A @ inverse[0].mT
        y, g = (torch.cat([inverse[0], AR @ inverse[0]], -2) @ d).split(
            [len(self._unit), mu.shape[-1]], -2
        )  # |y_i|² = d_iᵀ P d_i
        q = torch.exp(-0.5 * y.square().sum(-2) + (self._log_variance - roots[0]).unsqueeze(-1))
        both = torch.cat([torch.ones_like(g[..., :1, :]), g], -2)
        expected = both * q.unsqueeze(-2)  # E[k] and E[∇k], (n, O, 1 + D, N)
        sums = (expected * of.alpha.unsqueeze(-2)) @ both.mT  # of alpha_i q_i times 1, g_i and g_i g_iᵀ
        total, slope = sums[..., 0, 0], sums[..., 0, 1:] + of.slope
        curved = (sums[..., 1:, 1:] - total[..., None, None] * (AR @ AR.mT)) @ wide  # E[∇²m] Sigma
        second = 0.5 * curved.flatten(-2) @ curved.mT.flatten(-2).mT
        # prior_0 = variance |I + 2 S|^(−½), and with B = S (I + 2 S)⁻¹ = ½ (I − (I + 2 S)⁻¹): prior_1 = prior_0 tr B, prior_2 = prior_0 (½ (tr B)² + tr B²)
        B = 0.5 * (self._unit - inverse[1].mT @ inverse[1])
        trace, prior = B.diagonal(dim1=-2, dim2=-1).sum(-1), torch.exp(self._log_variance - roots[1])
        first, beyond = prior * trace, (of.variance - prior * (1.0 + trace)).clamp_min(0.0)
        level, slopes = self._explained(expected, wide)
        unexplained = (first - slopes).clamp_min(0.0) / (
            first + 1e-9 * of.variance
        )  # of the higher orders, of which data explain less, as of the first
        certain = (prior + first - level - slopes).clamp_min(0.0) + unexplained * beyond
        covariance = slope @ Sigma @ slope.mT + second + torch.diag_embed(certain if latent else certain + of.noise)
        third = (beyond - prior * (0.5 * trace.square() + B.square().sum((-1, -2)))).clamp_min(0.0)  # prior_3 + prior_4 + ...
        last = ((second.diagonal(dim1=-2, dim2=-1) + third) / covariance.diagonal(dim1=-2, dim2=-1)).detach()
        return OutputMoments(of.constant + mu @ of.slope.mT + total, covariance, slope.mT, last)

    def _explained(self, expected: Tensor, Sigma: Tensor) -> tuple[Tensor, Tensor]:
        """What the data explain of the prior's variance (n, O), of order zero and one: |T E[k]|² and tr(Sigma E[∇k]ᵀ TᵀT E[∇k])."""
        seen = expected @ self.whitener.mT  # (n, O, 1 + D, R)
        slopes = seen[..., 1:, :]
        return seen[..., 0, :].square().sum(-1), (Sigma @ slopes * slopes).sum((-1, -2))

    @cached_property
    def _points(self) -> Tensor:
        """(O, Q, N): products over the points run along memory."""
        return self.exact.points.mT.contiguous()

    @cached_property
    def _flat(self) -> Tensor:
        """All matrices side by side (D, O Q)."""
        return self.exact.matrix.transpose(0, 1).flatten(1).contiguous()

    @cached_property
    def _shift(self) -> Tensor:
        return self.exact.offset.flatten()

    @cached_property
    def _log_variance(self) -> Tensor:
        return self.exact.variance.log()

    @cached_property
    def _unit(self) -> Tensor:
        return torch.eye(self.exact.matrix.shape[-1], dtype=self._shift.dtype, device=self._shift.device)


def series_outputs(exact: GaussianOutputs) -> SeriesOutputs:
    """The same targets, with the directions of the whitener left out that matter to none of the points."""
    t = exact.points
    K = exact.variance[:, None, None] * torch.exp(-0.5 * torch.cdist(t, t).square())
    size, U = torch.linalg.eigh(exact.whitener @ K @ (exact.whitener @ K).mT / t.shape[-2])  # ascending
    unseen = size.clamp_min(0.0).cumsum(-1) < _UNSEEN * exact.noise[:, None]
    first = int(unseen.sum(-1).min())
    return SeriesOutputs(exact, U[..., first:].mT @ exact.whitener)
