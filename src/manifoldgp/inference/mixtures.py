"""The predictive distribution of y: a mixture of (warped) Gaussians, one component a member, in the units of y.

    p(y* | x*) = Σ_s w_s N(g_s(t) | m_s, v_s) g_s'(t) / c,   y* = a + c t

A single Gaussian is the mixture with one component. Densities are computed in log space; mean and variance follow from
the mixture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from manifoldgp import metrics
from manifoldgp._system.threads import SMALL_WORK
from manifoldgp.parameters import Tree, leaves, map_leaves, nest, of_members
from manifoldgp.warping import NoWarping, TargetWarping, bracketed_step

_LOG_2PI = math.log(2 * math.pi)
_HERMITE_NODES, _HERMITE_WEIGHTS = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(40))
_HERMITE_WEIGHTS = _HERMITE_WEIGHTS / math.sqrt(2 * math.pi)  # of the standard normal density

_AT_ONCE = 100_000
"""Numbers of which the warping is inverted in one call: few points take all nodes together, many points one node after the other."""

_SAME, _MOST_STEPS = 1e-13, 100
"""A quantile's step that shows no longer, as a share; and steps at most, by then bisections."""

_CRPS_QUANTILES = 100
"""Quantiles that the score of a warped target is computed from."""


@dataclass(frozen=True)
class Warp:
    """The target warpings of all components: blocks of (warping, its values, number of components)."""

    blocks: Sequence[tuple[TargetWarping, Tree, int]]

    @classmethod
    def of(cls, blocks: Sequence[tuple[TargetWarping, Tree, int]]) -> Warp:
        """With neighbours of the same kind in one block: many calls for few components each would take most of the time."""
        joined: list[tuple[TargetWarping, Tree, int]] = []
        for warping, values, count in blocks:
            values = map_leaves(lambda leaf, c=count: leaf.expand(c, *leaf.shape[1:]), values)
            if joined and joined[-1][0] == warping:
                _, before, earlier = joined.pop()
                count, values = earlier + count, nest(_stacked(dict(leaves(before)), dict(leaves(values))))
            joined.append((warping, values, count))
        return cls(joined)

    @property
    def trivial(self) -> bool:
        return all(isinstance(warping, NoWarping) for warping, _, _ in self.blocks)

    def forward(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """z = g_s(t) and log g_s'(t), (S, n), for t (n,) or (S, n)."""
        parts = []
        for (warping, values, count), piece in zip(self.blocks, self._pieces(t), strict=True):
            z, log_slope = warping.forward(values, piece)
            parts.append((z.expand(count, t.shape[-1]), log_slope.expand(count, t.shape[-1])))
        return torch.cat([z for z, _ in parts]), torch.cat([s for _, s in parts])

    def inverse(self, z: Tensor) -> Tensor:
        """t with g_s(t) = z, (S, n), for z (S, n)."""
        pieces = self._pieces(z)
        return torch.cat([w.inverse(values, piece) for (w, values, _), piece in zip(self.blocks, pieces, strict=True)])

    def inverse_of(self, component: int, z: Tensor) -> Tensor:
        """t with g_s(t) = z, (k,), of one component s, for z (k,)."""
        for warping, values, count in self.blocks:
            if component < count:
                own = of_members(values, count, slice(component, component + 1))
                return warping.inverse(own, z[None])[0]
            component -= count
        raise IndexError("There are fewer components.")

    def repeated(self, times: int) -> Warp:
        """The same with every component so many times, one after the other."""
        return Warp(
            [
                (
                    warping,
                    map_leaves(lambda leaf, c=count: leaf.expand(c, *leaf.shape[1:]).repeat_interleave(times, 0), values),
                    count * times,
                )
                for warping, values, count in self.blocks
            ]
        )

    def _pieces(self, t: Tensor) -> Sequence[Tensor]:
        return t.split([c for _, _, c in self.blocks]) if t.ndim == 2 else [t] * len(self.blocks)


def _stacked(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.cat([value, second[name]]) for name, value in first.items()}


@dataclass(frozen=True)
class Predictive:
    """Mixture at n points. means, variances (S, n) of z; log_weights (S,), or (S, n) where they differ from point to point; y = offset + scale * t.

    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> p = Predictive(0 * one, one, torch.zeros(1, dtype=torch.float64), Warp([(NoWarping(), {}, 1)]), offset=2.0, scale=3.0)
    >>> p.moments()
    (tensor([2.], dtype=torch.float64), tensor([9.], dtype=torch.float64))
    """

    means: Tensor
    variances: Tensor
    log_weights: Tensor
    warp: Warp
    offset: float = 0.0
    scale: float = 1.0

    @property
    def _weights(self) -> Tensor:
        """Of the components: (S, 1) or (S, n)."""
        return self.log_weights.exp().reshape(len(self.means), -1)

    def component_means(self) -> Tensor:
        """Mean of y under each component (S, n)."""
        return self.offset + self.scale * (self.means if self.warp.trivial else self._warped_moments()[0])

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean (n,) and variance (n,) of y."""
        w = self._weights
        if self.warp.trivial:
            first, spread = self.means, self.variances
        else:
            first, spread = self._warped_moments()
        mean = (w * first).sum(0)
        variance = (w * (spread + (first - mean) ** 2)).sum(0)
        return self.offset + self.scale * mean, self.scale**2 * variance

    def log_density(self, y: Tensor) -> Tensor:
        """log p(y_i | x_i) (n,)."""
        z, log_slope = self.warp.forward((y - self.offset) / self.scale)
        component = -0.5 * ((z - self.means) ** 2 / self.variances + self.variances.log() + _LOG_2PI) + log_slope
        return torch.logsumexp(self.log_weights.reshape(len(component), -1) + component, 0) - math.log(self.scale)

    def cdf(self, y: Tensor) -> Tensor:
        """P(Y_i <= y_i) (n,)."""
        z, _ = self.warp.forward((y - self.offset) / self.scale)
        # erfc keeps its digits in the lower tail, where ndtr rounds to zero
        below = 0.5 * torch.erfc((self.means - z) / (2.0 * self.variances).sqrt())
        # weights that sum to one up to rounding could give 1 + 2e-16, which is no probability
        return (self._weights * below).sum(0).clamp(0.0, 1.0)

    def crps(self, y: Tensor) -> Tensor:
        """Continuous ranked probability score (n,), in the units of y: in closed form, or by quantiles where the target is warped."""
        if self.warp.trivial:
            means, stds = self.offset + self.scale * self.means, self.scale * self.variances.sqrt()
            found = metrics.mixture_crps(*(part.cpu().numpy() for part in (y, means, stds, self.log_weights.exp())))
        else:
            quantiles = self.quantiles(metrics.midpoint_levels(_CRPS_QUANTILES).tolist())
            # neighbours may be in the wrong order by one rounding
            found = metrics.quantile_crps(y.cpu().numpy(), np.maximum.accumulate(quantiles.cpu().numpy().T, axis=1))
        return torch.as_tensor(found, device=y.device)

    def quantile(self, q: float) -> Tensor:
        """y with P(Y_i <= y) = q (n,)."""
        return self.quantiles([q])[0]

    def quantiles(self, levels: Sequence[float]) -> Tensor:
        """y with P(Y_i <= y) = q of all levels q (Q, n), some points at a time."""
        q = self.means.new_tensor(levels)
        together = max(1, _AT_ONCE // (len(self.means) * len(levels)))
        each = (self.means, self.variances, self._weights.expand_as(self.means))
        pieces = zip(*(part.split(together, -1) for part in each), strict=True)
        with SMALL_WORK:  # PyTorch shares out even a few hundred erfc, and on a busy machine each step would wait for a core
            return self.offset + self.scale * torch.cat([self._quantiles(q, *piece) for piece in pieces], -1)

    def _quantiles(self, q: Tensor, means: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
        """t with P(T_i <= t) = q (Q, n): Newton's steps from between the components' quantiles, bisection where one leaves that bracket or is no shorter than half the last.

        A number is found when its step no longer shows beside it or beside its widest component; only the others go on.
        """
        Q, n = len(q), means.shape[1]
        means, stds, q = means.repeat(1, Q), variances.sqrt().repeat(1, Q), q.repeat_interleave(n)
        each = self.warp.inverse(means + stds * torch.special.ndtri(q))
        if len(means) == 1:
            return each.reshape(Q, n)
        weights = weights.repeat(1, Q)
        low, high, found = each.amin(0), each.amax(0), (weights * each).sum(0)
        t, move, smallest, unfinished = found, high - low, _SAME * stds.amax(0), torch.arange(len(found), device=found.device)
        for _ in range(_MOST_STEPS):
            z, log_slope = self.warp.forward(t)
            u = (z - means) / stds
            off = (weights * (0.5 * torch.erfc(-u / math.sqrt(2.0)))).sum(0) - q
            slope = (weights * ((log_slope - 0.5 * u * u).exp() / stds)).sum(0) / math.sqrt(2.0 * math.pi)
            shown = torch.maximum(smallest, _SAME * t.abs())
            following, low, high, move = bracketed_step(t, off, slope.clamp_min(1e-300), low, high, move, shown)
            moving = move > shown
            found[unfinished] = following
            if not moving.any():
                break
            t, move, low, high, q, smallest, unfinished = (
                a[moving] for a in (following, move, low, high, q, smallest, unfinished)
            )
            means, stds, weights = means[:, moving], stds[:, moving], weights[:, moving]
        return found.reshape(Q, n)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Independent draws at each point (count, n)."""
        n = self.means.shape[1]
        chosen = self._drawn_components(count, generator)
        noise = torch.randn(count, n, generator=generator, dtype=self.means.dtype)
        picked = self.means.gather(0, chosen) + self.variances.sqrt().gather(0, chosen) * noise
        if self.warp.trivial:
            return self.offset + self.scale * picked
        for s in torch.unique(chosen).tolist():
            picked[chosen == s] = self.warp.inverse_of(s, picked[chosen == s])
        return self.offset + self.scale * picked

    def _drawn_components(self, count: int, generator: torch.Generator) -> Tensor:
        """Components (count, n), each drawn by its weight."""
        n = self.means.shape[1]
        if self.log_weights.ndim == 1:
            return torch.multinomial(self.log_weights.exp(), count * n, True, generator=generator).reshape(count, n)
        return torch.multinomial(self.log_weights.exp().T, count, True, generator=generator).T

    def over_draws(self, draws: int, recentred: Tensor) -> Predictive:
        """The mixture at points of which the input is uncertain: draws + 1 neighbouring columns are draws of one input, and last their mean.

        recentred (n,): points whose components have mean and variance of the last column, and only spread around it as the draws do.
        """
        S = len(self.means)

        def of_draws(each: Tensor, own: Tensor | float = 0.0) -> Tensor:
            """What the draws have, and points that are recentred what the last column has; as (S · draws, n)."""
            each = each.reshape(S, -1, draws + 1)
            found = torch.where(recentred[:, None], each[..., -1:] + own, each[..., :-1])
            return found.transpose(1, 2).reshape(S * draws, -1)

        around = self.means.reshape(S, -1, draws + 1)[..., :-1]
        means, variances = of_draws(self.means, around - around.mean(-1, keepdim=True)), of_draws(self.variances)
        weights = self.log_weights - math.log(draws)
        weights = weights.repeat_interleave(draws) if weights.ndim == 1 else of_draws(weights)
        return replace(self, means=means, variances=variances, log_weights=weights, warp=self.warp.repeated(draws))

    def _warped_moments(self) -> tuple[Tensor, Tensor]:
        """E[t] and var[t] of each component (S, n), t = g⁻¹(z), by Gauss-Hermite quadrature around t(m)."""
        sd, centre = self.variances.sqrt()[..., None], self.warp.inverse(self.means)
        first, second = torch.zeros_like(centre), torch.zeros_like(centre)
        together = max(1, _AT_ONCE // max(1, centre.numel()))
        nodes, weights = (a.to(centre).split(together) for a in (_HERMITE_NODES, _HERMITE_WEIGHTS))
        for node, weight in zip(nodes, weights, strict=True):
            z = self.means[..., None] + sd * node
            away = self.warp.inverse(z.flatten(1)).reshape(z.shape) - centre[..., None]
            first = first + away @ weight
            second = second + away**2 @ weight
        return centre + first, (second - first**2).clamp_min(0.0)
