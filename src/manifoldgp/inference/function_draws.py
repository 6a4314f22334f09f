"""Functions drawn from the posterior, which can be evaluated anywhere, again and again (pathwise conditioning, Wilson et al. 2020).

    f(x) | D = m(x) + k(x, points) alpha + √F (f₀(x) − k(x, points) c)

f₀ is drawn from the prior as a sum of random ridges, c is what the data take back of it, and F is the variance factor of the component.
A draw takes one member of the ensemble, with the probability of its weight, for all points. Where weights follow variances that is its average share: a whole
function has no other. Functions together then have members' shares everywhere, and `Ensemble.sample`, which draws at given points, those of each point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.posterior import CHUNK_BYTES, Conditioned
from manifoldgp.kernels.random_features import PriorDraws, Randomness, weighted_draws
from manifoldgp.model import Model
from manifoldgp.parameters import Tree


@dataclass(frozen=True)
class MemberDraws:
    """k functions of one member, in the model's units.

    which: (k,), their places among all draws. weights: (k, N), alpha − √F c. points: (1, N, Q). noise: (k,), √F times the noise's standard deviation.
    """

    model: Model
    values: Tree
    points: Tensor
    prior: PriorDraws
    weights: Tensor
    noise: Tensor
    which: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        """y = g⁻¹(f) (k, n) at X (n, D), or each function at inputs of its own, X (k, n, D)."""
        rows = X.reshape(-1, X.shape[-1])
        H = self.model.features_at(self.values, rows)
        H = H.expand(1, *H.shape[-2:])
        K = self.model.cross(self.values, self.points, H)[0]  # (N, n), or (N, k n)
        own = X.ndim == 3
        data = (self.weights.unsqueeze(-2) @ K.unflatten(-1, X.shape[:2]).movedim(0, 1)).squeeze(-2) if own else self.weights @ K
        mean = self.model.mean_at(self.values, rows, H).expand(1, len(rows)).reshape(X.shape[:-1])
        f = mean + data + self.prior(H.reshape(*X.shape[:-1], H.shape[-1]) if own else H)
        return self.model.warping.inverse(self.values.get("warping", {}), f)

    def only(self, place: int) -> MemberDraws:
        """The function with this place among all draws, which becomes the only one."""
        mine = torch.nonzero(self.which == place)[0]
        return replace(
            self, prior=self.prior.only(mine), weights=self.weights[mine], noise=self.noise[mine], which=torch.zeros_like(mine)
        )

    @property
    def row_bytes(self) -> int:
        """Memory that one row of X needs, about."""
        ridges = sum(weights.numel() for _, weights in self.prior.terms)
        return 8 * (2 * ridges + self.points.shape[-2])


@dataclass(frozen=True)
class EnsembleDraws:
    """Functions of one target, in the units of y: member by member, with the affine map from model units to y."""

    parts: Sequence[MemberDraws]
    count: int
    offset: float
    scale: float

    def __call__(self, X: Tensor) -> Tensor:
        """(count, n) at X (n, D), or at X (count, n, D), each function at its own inputs; in chunks of rows."""
        size = max(1, CHUNK_BYTES // max(part.row_bytes for part in self.parts))
        return torch.cat([self._at(chunk) for chunk in X.split(size, -2)], -1)

    def only(self, place: int) -> EnsembleDraws:
        """One of the functions."""
        part = next(part for part in self.parts if bool((part.which == place).any()))
        return replace(self, parts=[part.only(place)], count=1)

    def _at(self, X: Tensor) -> Tensor:
        values = [part(X[part.which] if X.ndim == 3 else X) for part in self.parts]
        return self.offset + self.scale * torch.cat(values)[self._order()]

    def noise(self) -> Tensor:
        """Standard deviation (count,) of the noise around each function; of a warped target in the units of g(y)."""
        return self.scale * torch.cat([part.noise for part in self.parts])[self._order()]

    def _order(self) -> Tensor:
        return torch.cat([part.which for part in self.parts]).argsort()


def draw_functions(ensemble: Ensemble, count: int, ridges: int, generator: torch.Generator) -> EnsembleDraws:
    """``count`` functions of an ensemble; each takes a component with the probability of its weight, or of its average share where weights differ from point to point."""
    ensemble = ensemble.whole()
    flat = torch.cat([w.reshape(-1) for w in ensemble.log_weights]).exp().cpu()
    chosen, parts, first = torch.multinomial(flat, count, True, generator=generator), [], 0
    factors = torch.tensor(ensemble.variance_factors, dtype=torch.float64)
    with torch.no_grad():
        for block, log_weights in zip(ensemble.blocks, ensemble.log_weights, strict=True):
            place = torch.nonzero((chosen >= first) & (chosen < first + log_weights.numel()))[:, 0]
            component, first = chosen[place] - first, first + log_weights.numel()
            member = component % block.members
            for r in torch.unique(member):
                mine, one = member == r, block.only(r[None].to(block.device))
                parts.append(_member_draws(one, place[mine], factors[component[mine] // block.members].sqrt(), ridges, generator))
    return EnsembleDraws(parts, count, ensemble.offset, ensemble.scale)


def _member_draws(posterior: Conditioned, which: Tensor, root: Tensor, ridges: int, generator: torch.Generator) -> MemberDraws:
    """The functions of one member. root: (k,), the roots of their variance factors."""
    model, values, points = posterior.model, posterior.values, posterior.points
    which, root = which.to(points.device), root.to(points)
    random = Randomness(len(which), ridges, generator, points)
    prior = weighted_draws(model.kernel.random_functions(values.get("kernel", {}), points.shape[-1], random), random)
    update = posterior.update_weights(prior(points), generator)
    weights, noise = posterior.alpha - root[:, None] * update, root * posterior.noise_variance().sqrt()
    return MemberDraws(model, values, points, prior.scaled(root), weights, noise, which)
