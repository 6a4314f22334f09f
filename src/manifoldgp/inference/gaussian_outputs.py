"""All targets of plain GPs at one uncertain input z ~ N(mu, Sigma), in closed form and few calls: what a rollout by moment matching asks for, step after step.

As in `gaussian_inputs`, t = Aᵀ z + offset, d_i = t_i − E[t], u_i = A d_i, and for two targets with A and B

    G = A Aᵀ + B Bᵀ,   M = (I + Sigma G)⁻¹ Sigma,   log Q_ij / (q_i q'_j) = u_i M u'_j + ½ u_i (M − M_A) u_i + ½ u'_j (M − M_B) u'_j + constant,

so that inverses are of the size of z, and every pair of targets is one product and one exponential.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.gaussian_inputs import GaussianMember, gaussian_members

_CHUNK = 2**17
"""Entries of Q in work at a time: a megabyte, which stays in the cache."""


@dataclass(frozen=True)
class OutputMoments:
    """At n uncertain inputs: mean (n, O) of the targets, covariance (n, O, O), and E[df/dz] (n, D, O), so that cov(x, f) = cov(x, z) E[df/dz] for whatever is jointly Gaussian with z."""

    mean: Tensor
    covariance: Tensor
    gradient: Tensor


@dataclass(frozen=True)
class GaussianOutputs:
    """The targets side by side, each a single model with a closed form and N points; in the units of y and of z.

    points (O, N, Q), matrix (O, D, Q), offset (O, Q), slope (O, D), constant (O,), alpha (O, N), whitener (O, N, N), counts (O, N, N) = alpha alphaᵀ − TᵀT, variance (O,), noise (O,).
    """

    points: Tensor
    matrix: Tensor
    offset: Tensor
    slope: Tensor
    constant: Tensor
    alpha: Tensor
    whitener: Tensor
    counts: Tensor
    variance: Tensor
    noise: Tensor

    def __call__(self, mu: Tensor, Sigma: Tensor, latent: bool = False) -> OutputMoments:
        """The moments at mu (n, D), Sigma (n, D, D), differentiable in both; latent: of f, without noise."""
        n, O, A = len(mu), len(self.alpha), self.matrix
        d = self.points - (torch.einsum("nd,odq->noq", mu, A) + self.offset).unsqueeze(-2)  # (n, O, N, Q)
        u = d @ A.mT  # (n, O, N, D)
        G = A @ A.mT
        a, b = torch.tril_indices(O, O)
        every = torch.cat([G, G[a] + G[b]])  # of each target, then of each pair
        unit = torch.eye(mu.shape[-1], dtype=mu.dtype, device=mu.device)
        factor = unit + Sigma.unsqueeze(1) @ every
        M = torch.linalg.solve(factor, Sigma.unsqueeze(1).expand_as(factor))
        root = 0.5 * torch.linalg.slogdet(factor)[1]
        single, root_single = M[:, :O], root[:, :O]
        uM = u @ single
        q = self.variance[:, None] * torch.exp(-0.5 * d.square().sum(-1) + 0.5 * (uM * u).sum(-1) - root_single[..., None])
        weighted = q * self.alpha
        # E[df/dz] = Σ_i alpha_i q_i (I + G Sigma)⁻¹ u_i, and (I + G Sigma)⁻¹ = I − G M
        pull = (weighted.unsqueeze(-2) @ u).squeeze(-2)
        gradient = pull - (G @ (single @ pull.unsqueeze(-1))).squeeze(-1)
        mean = self.constant + mu @ self.slope.T + weighted.sum(-1)
        sums = self._pairs(u, q, weighted, M[:, O:], single, root[:, O:], root_single, a, b)
        certain = self.variance - (q.unsqueeze(-2) @ self.whitener.mT).square().sum((-1, -2))
        between = torch.zeros(n, O, O, dtype=mu.dtype, device=mu.device).index_put((torch.arange(n)[:, None], a, b), sums)
        between = between + between.mT - torch.diag_embed(between.diagonal(dim1=-2, dim2=-1))
        linear = gradient @ Sigma @ self.slope.T
        between = between + linear + linear.mT + self.slope @ Sigma @ self.slope.T
        inside = certain + (0.0 if latent else self.noise)
        return OutputMoments(mean, between + torch.diag_embed(inside), (gradient + self.slope).mT)

    def _pairs(self, u, q, weighted, M, single, root, root_single, a, b) -> Tensor:
        """Σ_ij of the pairs (n, P): alpha_i q_i alpha'_j q'_j (Q_ij / (q_i q'_j) − 1), and for a target with itself less what the data explain."""
        uM = u[:, a] @ M
        mine = 0.5 * (u[:, a] * (uM - u[:, a] @ single[:, a])).sum(-1, keepdim=True)
        theirs = 0.5 * (u[:, b] * (u[:, b] @ (M - single[:, b]))).sum(-1, keepdim=True)
        mine = mine + (root_single[:, a] + root_single[:, b] - root)[..., None, None]
        left = torch.cat([uM, mine, torch.ones_like(mine)], -1)
        right = torch.cat([u[:, b], torch.ones_like(theirs), theirs], -1)
        out = []
        for p, (i, j) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
            X = torch.expm1(left[:, p] @ right[:, p].mT)
            if i == j:
                out.append((q[:, i].unsqueeze(-2) @ (self.counts[i] * X) @ q[:, i].unsqueeze(-1)).squeeze(-1).squeeze(-1))
            else:
                out.append((weighted[:, i].unsqueeze(-2) @ X @ weighted[:, j].unsqueeze(-1)).squeeze(-1).squeeze(-1))
        return torch.stack(out, -1)


def gaussian_outputs(ensembles: Sequence[Ensemble]) -> GaussianOutputs | None:
    """The targets in this form; None where one of them is an average, or has no closed form."""
    members: list[GaussianMember] = []
    for ensemble in ensembles:
        if sum(block.members for block in ensemble.blocks) != 1 or ensemble.variance_factors != (1.0,):
            return None
        found = gaussian_members(ensemble.blocks[0])
        if found is None:
            return None
        members += found
    if len({member.points.shape for member in members}) > 1:
        return None
    return _stacked(members, [e.offset for e in ensembles], [e.scale for e in ensembles])


def _stacked(members: Sequence[GaussianMember], offsets: Sequence[float], scales: Sequence[float]) -> GaussianOutputs:
    """In the units of y: a kernel's variance, and all that follows from it, carries their square."""
    of = {name: torch.stack([getattr(m, name) for m in members]) for name in GaussianMember.__dataclass_fields__}
    offset, scale = of["alpha"].new_tensor(offsets), of["alpha"].new_tensor(scales)
    alpha, T = of["alpha"] / scale[:, None], of["whitener"] / scale[:, None, None]
    return GaussianOutputs(
        of["points"],
        of["matrix"],
        of["offset"],
        of["slope"] * scale[:, None],
        of["constant"] * scale + offset,
        alpha,
        T,
        alpha.unsqueeze(-1) * alpha.unsqueeze(-2) - T.mT @ T,
        of["variance"] * scale**2,
        of["noise"] * scale**2,
    )
