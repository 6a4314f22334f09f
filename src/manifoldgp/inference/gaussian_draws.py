"""Functions drawn from the posterior of plain GPs, all targets in few calls, with their slopes: what particles of a policy search ask for, step after step.

As in `function_draws`, with ridges from the spectral measure of the squared exponential in t = Aᵀ z + offset:

    f(z) = m(z) + Σ_i (alpha_i − c_i) k(t, t_i) + Σ_s a_s cos(omega_s · t + phase_s)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from manifoldgp.inference.gaussian_outputs import GaussianOutputs


@dataclass(frozen=True)
class GaussianDraws:
    """P functions of O targets; in the units of y and of z.

    weights (O, P, N), alpha − c; omega (O, P, Q, S), phase (O, P, 1, S) and size (O, P, S, 1) of the ridges.
    """

    outputs: GaussianOutputs
    weights: Tensor
    omega: Tensor
    phase: Tensor
    size: Tensor

    def __call__(self, Z: Tensor) -> Tensor:
        """f (P, n, O) at Z (P, n, D), each function at inputs of its own; differentiable once."""
        found: Tensor = _WithSlopes.apply(Z, self)  # pyright: ignore[reportAssignmentType]
        return found

    def __len__(self) -> int:
        return self.weights.shape[1]

    def noise_std(self) -> Tensor:
        """Standard deviation of the noise around each function (P, O)."""
        return self.outputs.noise.sqrt().expand(len(self), -1)

    @cached_property
    def _lifted(self) -> Tensor:
        """[t_i, 1, log variance − ½ |t_i|²] as columns (O, Q + 2, N)."""
        level = self.outputs.variance.log().unsqueeze(-1) - 0.5 * self.outputs.points.square().sum(-1)
        return torch.cat([self.outputs.points.mT, torch.stack([torch.ones_like(level), level], -2)], -2)

    def with_slopes(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """f (P, n, O), and df/dz (O, P, n, D)."""
        o = self.outputs
        t = Z @ o.matrix.unsqueeze(1) + o.offset[:, None, None]
        flat = t.flatten(1, 2)
        # log k = t · t_i − ½ |t|² − ½ |t_i|² + log variance, as one product
        half = -0.5 * flat.square().sum(-1, keepdim=True)
        log_k = torch.cat([flat, half, torch.ones_like(half)], -1) @ self._lifted
        weighted = log_k.exp_().view(*t.shape[:-1], -1).mul_(self.weights.unsqueeze(-2))
        data = weighted.sum(-1, keepdim=True)
        pull = (weighted.flatten(1, 2) @ o.points).view_as(t) - data * t
        angle = torch.matmul(t, self.omega).add_(self.phase)
        wave = angle.sin().mul_(self.size.mT)
        f = data + angle.cos_() @ self.size
        slopes = (pull - wave @ self.omega.mT) @ o.matrix.mT.unsqueeze(1) + o.slope[:, None, None]
        return f.squeeze(-1).movedim(0, -1) + o.constant + Z @ o.slope.mT, slopes


class _WithSlopes(torch.autograd.Function):
    """Values, which keep their slopes for the gradient."""

    @staticmethod
    def forward(ctx: FunctionCtx, Z: Tensor, draws: GaussianDraws) -> Tensor:
        f, slopes = draws.with_slopes(Z)
        ctx.save_for_backward(slopes)
        return f

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (slopes,) = ctx.saved_tensors  # pyright: ignore[reportAttributeAccessIssue]
        return (grad.movedim(-1, 0).unsqueeze(-1) * slopes).sum(0), None


def gaussian_draws(outputs: GaussianOutputs, count: int, ridges: int, generator: torch.Generator) -> GaussianDraws:
    """Draw functions of all targets, which are independent."""
    targets, N, Q = outputs.points.shape

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=outputs.points.dtype).to(outputs.points.device)

    omega, a = normal(targets, count, Q, ridges), normal(targets, count, ridges, 1)
    phase = 2 * math.pi * torch.rand((targets, count, 1, ridges), generator=generator, dtype=omega.dtype).to(omega.device)
    # a cos + b sin with independent a and b has the size of two normal numbers
    size = ((a.square() + normal(*a.shape).square()) * outputs.variance[:, None, None, None] / ridges).sqrt()
    prior = ((outputs.points.unsqueeze(1) @ omega + phase).cos() @ size).squeeze(-1)
    noisy = prior + outputs.noise.sqrt()[:, None, None] * normal(targets, count, N)
    T = outputs.whitener.unsqueeze(1)
    update = (T.mT @ (T @ noisy.unsqueeze(-1))).squeeze(-1)
    return GaussianDraws(outputs, outputs.alpha.unsqueeze(1) - update, omega, phase, size)
