"""The posterior of one additive part of a kernel, and what share of the variance of y each part explains.

With k = Σ_i k_i, A = K + noise and alpha = A⁻¹ (z − m), part i at new rows has

    mean        k_i(x, X) alpha
    covariance  k_i(x, x') − k_i(x, X) A⁻¹ k_i(X, x')

The data cannot tell a constant in one part from the same constant in another one. A *centred* part is what it adds to its own mean over the training rows,
and its band does not hold that indifference.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from manifoldgp._system.linalg import solve_lower
from manifoldgp.errors import InputError
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.parameters import Tree, map_leaves
from manifoldgp.structure.expressions import Valued
from manifoldgp.structure.normal_form import parts_in_normal_form


@dataclass(frozen=True)
class Decomposition:
    """A fitted model of one member and the parts of its kernel, multiplied out."""

    posterior: Posterior
    parts: tuple[Valued, ...]

    @staticmethod
    def of(block: Conditioned, member: int = 0) -> Decomposition:
        """That of one member of a fitted model; refuses one that is sparse."""
        posterior = block.only(torch.tensor([member]))  # type: ignore[attr-defined]
        if not isinstance(posterior, Posterior):
            raise InputError("The parts of a kernel are computed for exact models only: fit with method='exact'.")
        values = map_leaves(lambda leaf: leaf[0], posterior.values.get("kernel", {}))
        return Decomposition(posterior, tuple(parts_in_normal_form(Valued(posterior.model.kernel, values))))

    def component(self, part: Valued, X: Tensor, centred: bool = True) -> tuple[Tensor, Tensor]:
        """Mean and variance (n,) of one part at X (n, D), in the model's units."""
        return self.component_at(part, self.posterior.transform(X), centred)

    def component_at(self, part: Valued, H_new: Tensor, centred: bool = True) -> tuple[Tensor, Tensor]:
        """The same at rows with the features H_new (1, n, Q)."""
        posterior, values = self.posterior, _batch_of_one(part.values)
        with torch.no_grad():
            H = posterior.H
            k = part.kernel.cross(values, H, H_new)[0]
            variance = part.kernel.diagonal(values, H_new)[0]
            if centred:
                K = part.kernel.matrix(values, H)[0]
                variance = variance - 2 * k.mean(0) + K.mean()
                k = k - K.mean(1, keepdim=True)
            V = solve_lower(posterior.L, k[None])[0]
            return posterior.alpha[0] @ k, (variance - (V * V).sum(0)).clamp_min(0.0)

    def shares(self) -> list[float]:
        """cov(part, z) / var(z) over the training rows, for each part: with those of mean function and noise they add up to one."""
        z = self.posterior.z[0]
        deviation = z - z.mean()
        total = float(deviation @ deviation)
        found = []
        for part in self.parts:
            with torch.no_grad():
                fitted = part.kernel.matrix(_batch_of_one(part.values), self.posterior.H)[0] @ self.posterior.alpha[0]
            found.append(float(fitted @ deviation) / total if total > 0 else 0.0)
        return found

    def noise_share(self) -> float:
        """The same of what the model takes for noise, (A − K) alpha."""
        z, posterior = self.posterior.z[0], self.posterior
        deviation = z - z.mean()
        fitted = posterior.moments(posterior.data.X, variance=False)[0][0]
        total = float(deviation @ deviation)
        return float((z - fitted) @ deviation) / total if total > 0 else 0.0


def _batch_of_one(values: Tree) -> Tree:
    return map_leaves(lambda leaf: leaf[None], values)
