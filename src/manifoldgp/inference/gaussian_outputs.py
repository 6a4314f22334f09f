"""All targets of plain GPs at one uncertain input z ~ N(mu, Sigma), in closed form and few calls: what a rollout by moment matching asks for, step after step.

As in `gaussian_inputs`, t = Aᵀ z + offset, d_i = t_i − E[t], u_i = A d_i, and for two targets with A and B

    G = A Aᵀ + B Bᵀ,   M = (I + Sigma G)⁻¹ Sigma,   log Q_ij / (q_i q'_j) = u_i M u'_j + ½ u_i (M − M_A) u_i + ½ u'_j (M − M_B) u'_j + constant,

so that inverses are of the size of z, and every pair of targets is one product and one exponential.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.gaussian_inputs import GaussianMember, gaussian_members, less_one

_CHUNK = 2**17
"""Entries of Q in work at a time: a megabyte, which stays in the cache."""


@dataclass(frozen=True)
class OutputMoments:
    """At n uncertain inputs: mean (n, O) of the targets, covariance (n, O, O), and E[df/dz] (n, D, O), so that cov(x, f) = cov(x, z) E[df/dz] for whatever is jointly Gaussian with z.

    last: of a series, how large its last terms are (n, O), as a share of each variance; None of closed forms.
    """

    mean: Tensor
    covariance: Tensor
    gradient: Tensor
    last: Tensor | None = None


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
        targets, A = len(self.alpha), self.matrix
        d = self.points - (torch.einsum("nd,odq->noq", mu, A) + self.offset).unsqueeze(-2)  # (n, O, N, Q)
        u = d @ A.mT  # (n, O, N, D)
        M, root = _inverted(Sigma.unsqueeze(1), self._squares)
        own, roots = M[:, :targets], root[:, :targets]
        square = (u @ own * u).sum(-1)
        q = torch.exp(0.5 * (square - d.square().sum(-1)) + (self._log_variance - roots).unsqueeze(-1))
        weighted = q * self.alpha
        pull = weighted.unsqueeze(-2) @ u
        # E[df/dz] = (I + G Sigma)⁻¹ Σ_i alpha_i q_i u_i, and (I + G Sigma)⁻¹ = I − G M
        gradient = (pull - pull @ own @ self._squares[:targets]).squeeze(-2) + self.slope
        left, right = self._coupled(u, square, M[:, targets:], roots, root[:, targets:])
        moved = self._moved_together(left, right, q, weighted)
        linear = (gradient - 0.5 * self.slope) @ Sigma @ self.slope.mT
        certain = self.variance - (self.whitener @ q.unsqueeze(-1)).square().sum((-1, -2)) + (0.0 if latent else self.noise)
        mean = self.constant + mu @ self.slope.mT + weighted.sum(-1)
        return OutputMoments(mean, moved + linear + linear.mT + torch.diag_embed(certain), gradient.mT)

    def of_columns(self, W: Tensor, b: Tensor) -> GaussianOutputs:
        """The same targets as functions of x, of which z = x W + b: x (D', ) and W (D', D)."""
        offset, constant = self.offset + torch.einsum("d,odq->oq", b, self.matrix), self.constant + self.slope @ b
        return replace(self, matrix=W @ self.matrix, offset=offset, slope=self.slope @ W.mT, constant=constant)

    @cached_property
    def _pairs(self) -> tuple[Tensor, Tensor]:
        """Numbers of the first and the second target of every pair: each with itself, then all others."""
        each = torch.arange(len(self.alpha), device=self.alpha.device)
        first, second = torch.tril_indices(len(each), len(each), -1, device=each.device)
        return torch.cat([each, first]), torch.cat([each, second])

    @cached_property
    def _squares(self) -> Tensor:
        """G of each target by itself, A Aᵀ, and of the pairs, A Aᵀ + B Bᵀ."""
        G, (a, b) = self.matrix @ self.matrix.mT, self._pairs
        return torch.cat([G, G[a] + G[b]])

    @cached_property
    def _log_variance(self) -> Tensor:
        return self.variance.log()

    @cached_property
    def _places(self) -> Tensor:
        """From pairs to matrices: (P, O O), one where an entry is that of a pair."""
        (a, b), targets = self._pairs, len(self.alpha)
        places = self.alpha.new_zeros(len(a), targets, targets)
        places[torch.arange(len(a)), a, b] = places[torch.arange(len(a)), b, a] = 1.0
        return places.flatten(1)

    def _coupled(self, u: Tensor, square: Tensor, M: Tensor, roots: Tensor, root: Tensor) -> tuple[Tensor, Tensor]:
        """left and right (n, P, N, D + 2), whose products are log Q_ij / (q_i q'_j). square: u_i M_A u_i (n, O, N)."""
        a, b = self._pairs
        one, other = u[:, a], u[:, b]
        uM, constant = one @ M, roots[:, a] + roots[:, b] - root
        mine = 0.5 * ((uM * one).sum(-1) - square[:, a]) + constant.unsqueeze(-1)
        theirs = 0.5 * ((other @ M * other).sum(-1) - square[:, b])
        ones = torch.ones_like(mine)
        return torch.cat([uM, torch.stack([mine, ones], -1)], -1), torch.cat([other, torch.stack([ones, theirs], -1)], -1)

    def _moved_together(self, left: Tensor, right: Tensor, q: Tensor, weighted: Tensor) -> Tensor:
        """What the common input adds to the covariance of the targets (n, O, O), less what it takes from what the data explain of each."""
        a, b = (torch.cat([q, weighted[:, pair[len(self.alpha) :]]], 1) for pair in self._pairs)
        sums = [_sums(*parts, self.counts) for parts in zip(left, right, a, b, strict=True)]
        return (torch.stack(sums) @ self._places).unflatten(-1, (len(self.alpha), -1))


def _inverted(Sigma: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """M = (I + Sigma G)⁻¹ Sigma and ½ log |I + Sigma G|."""
    LU, pivots, _ = torch.linalg.lu_factor_ex(torch.eye(G.shape[-1], dtype=G.dtype, device=G.device) + Sigma @ G)
    M = torch.linalg.lu_solve(LU, pivots, Sigma.expand(*LU.shape))
    return M, 0.5 * LU.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)


def _sums(left: Tensor, right: Tensor, a: Tensor, b: Tensor, counts: Tensor) -> Tensor:
    """Σ_ij C_ij a_i b_j (exp(left_i · right_j) − 1) (P,): C = counts (O, N, N) for the first O pairs, and 1 for all others."""
    found: Tensor = _PairSums.apply(left, right, a, b, counts)  # pyright: ignore[reportAssignmentType]
    return found


class _PairSums(torch.autograd.Function):
    """The sums of `_sums`, some pairs at a time; the exponentials are computed anew for the gradient, so that a rollout keeps none of them."""

    @staticmethod
    def forward(context: FunctionCtx, left: Tensor, right: Tensor, a: Tensor, b: Tensor, counts: Tensor) -> Tensor:
        context.save_for_backward(left, right, a, b, counts)  # pyright: ignore[reportAttributeAccessIssue]
        sums = []
        for some, count in _chunks(left, counts):
            X = less_one(left[some] @ right[some].mT)
            X[: len(count)] *= count
            sums.append((a[some].unsqueeze(-2) @ X @ b[some].unsqueeze(-1)).flatten())
        return torch.cat(sums)

    @staticmethod
    def backward(context: FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        left, right, a, b, counts = context.saved_tensors  # pyright: ignore[reportAttributeAccessIssue]
        parts = []
        for some, count in _chunks(left, counts):
            L, R, g = left[some], right[some], gradients[0][some][:, None]
            down, across = g * a[some], b[some]
            X = less_one(L @ R.mT)
            E = X + 1.0
            X[: len(count)] *= count
            E[: len(count)] *= count
            E.mul_(down.unsqueeze(-1)).mul_(across.unsqueeze(-2))
            to_a, to_b = g * (X @ across.unsqueeze(-1)).squeeze(-1), (down.unsqueeze(-2) @ X).squeeze(-2)
            parts.append((E @ R, E.mT @ L, to_a, to_b))
        return (*(torch.cat(part) for part in zip(*parts, strict=True)), None)


def _chunks(left: Tensor, counts: Tensor) -> list[tuple[slice, Tensor]]:
    """Pairs in work at a time, and the counts of those that have some."""
    P, N = left.shape[:2]
    size = max(1, _CHUNK // N**2)
    return [(slice(first, first + size), counts[first : first + size]) for first in range(0, P, size)]


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
    of = {
        name: torch.stack([getattr(m, name) for m in members]) for name in GaussianMember.__dataclass_fields__ if name != "factor"
    }
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
