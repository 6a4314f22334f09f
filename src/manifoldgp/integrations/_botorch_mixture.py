"""A mixture of (warped) Gaussians as a BoTorch posterior, with any weights and exact under Monte-Carlo acquisition functions."""

from __future__ import annotations

from functools import cached_property

import torch
from botorch.posteriors.posterior import Posterior
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import SobolQMCNormalSampler
from torch import Tensor

from manifoldgp.inference.mixtures import Predictive, Warp
from manifoldgp.integrations._botorch_members import root


class MixturePosterior(Posterior):
    """p(f) = Σ_s w_s N(f | m_s, f_s C_s) at q points, jointly, in the units of y; components s are members with a variance factor.

    Weights may differ from point to point. A draw then takes a component by their average over its q points, which is exact for q = 1, and its gradient
    is that of the component, without what other points would do to the weights; moments, quantiles and densities have all of it.

    A draw takes one component for all q points. It is chosen by one more base sample u beside the q normal ones, through the inverse of
    the cumulated weights at Φ(u): with fixed base samples draws are differentiable in X, quasi-Monte-Carlo points stratify the
    components, and an acquisition value is the weighted average of the members' values. BoTorch's own convention, an ensemble dimension
    whose entries all count the same, could do so only for equal weights.

    ``mean`` and ``variance`` are those of the mixture, so analytic acquisition functions see the Gaussian with the same moments.

    Parameters
    ----------
    means, covariances : `(R, *T, q)`, `(R, *T, q, q)`
        Of the members, in model units.
    prior_variance : `(R, *T, q)`
        The size of the numbers that the covariances are differences of.
    member, factor : (S,)
        The components: which member, times which variance factor.
    log_weights : (S,) or `(S, *T, q)`
        Of the components, everywhere or at each point.
    warp
        The target warpings of the components.
    offset, scale
        From model units to those of y.
    """

    def __init__(
        self,
        means: Tensor,
        covariances: Tensor,
        prior_variance: Tensor,
        member: Tensor,
        factor: Tensor,
        log_weights: Tensor,
        warp: Warp,
        offset: float,
        scale: float,
    ) -> None:
        self.means = means
        self.covariances = covariances
        self.prior_variance = prior_variance
        self.member = member
        self.factor = factor
        self.log_weights = log_weights
        self.warp = warp
        self.offset = offset
        self.scale = scale

    @property
    def device(self) -> torch.device:
        return self.means.device

    @property
    def dtype(self) -> torch.dtype:
        return self.means.dtype

    @property
    def event_shape(self) -> torch.Size:
        """`(*T, q, 1)`."""
        return torch.Size([*self.means.shape[1:], 1])

    @property
    def base_sample_shape(self) -> torch.Size:
        """`(*T, q + 1)`: a normal number for each point, and one that chooses the component."""
        return torch.Size([*self.means.shape[1:-1], self.means.shape[-1] + 1])

    @property
    def batch_range(self) -> tuple[int, int]:
        """The t-batches among the dimensions of a base sample."""
        return (0, -1)

    def _extended_shape(self, sample_shape: torch.Size = torch.Size()) -> torch.Size:  # noqa: B008 - BoTorch's signature
        return sample_shape + self.event_shape

    @cached_property
    def marginals(self) -> Predictive:
        """The mixture at every point by itself, the points of all batches in one row."""
        variances = self.covariances.diagonal(dim1=-2, dim2=-1).clamp_min(1e-300).flatten(1)
        means = self.means.flatten(1)[self.member]
        variances = self.factor[:, None] * variances[self.member]
        log_weights = self.log_weights if self.log_weights.ndim == 1 else self.log_weights.flatten(1)
        return Predictive(means, variances, log_weights, self.warp, self.offset, self.scale)

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        return self.marginals.moments()

    @property
    def mean(self) -> Tensor:
        """`(*T, q, 1)`."""
        return self._moments[0].reshape(self.event_shape)

    @property
    def variance(self) -> Tensor:
        """`(*T, q, 1)`."""
        return self._moments[1].reshape(self.event_shape)

    @property
    def covariance_matrix(self) -> Tensor:
        """Joint covariance `(*T, q, q)`: Σ w (f C + (m − mean)(m − mean)ᵀ), where points differ with √(w w') for w; of targets without a warping."""
        if not self.warp.trivial:
            raise NotImplementedError("The joint covariance of a warped target has no closed form; draw samples instead.")
        each = self.log_weights.exp().reshape(len(self.member), *(self.log_weights.shape[1:] or [1] * (self.means.ndim - 1)))
        factor = self.factor.reshape(-1, *[1] * (each.ndim - 1))
        zero = torch.zeros_like(each[: len(self.means)])
        member, spread = (zero.index_add(0, self.member, part).expand_as(self.means) for part in (each, each * factor))
        root, wide = (part.clamp_min(1e-300).sqrt() for part in (member, spread))
        deviation = root * (self.means - (member * self.means).sum(0))
        between = torch.einsum("r...i,r...j->...ij", deviation, deviation)
        return self.scale**2 * (torch.einsum("r...i,r...ij,r...j->...ij", wide, self.covariances, wide) + between)

    def quantile(self, value: Tensor) -> Tensor:
        """Quantiles of the points' own distributions: `(*T, q, 1)`, or `(len(value), *T, q, 1)`."""
        rows = [self.marginals.quantile(float(v)).reshape(self.event_shape) for v in value.reshape(-1)]
        return torch.stack(rows) if value.numel() > 1 else rows[0]

    def density(self, value: Tensor) -> Tensor:
        """Densities of the points' own distributions at values that broadcast to `(*T, q, 1)`."""
        flat = value.expand(self.event_shape).reshape(-1)
        return self.marginals.log_density(flat).exp().reshape(self.event_shape)

    def rsample(self, sample_shape: torch.Size | None = None) -> Tensor:
        """Joint draws `(*sample_shape, *T, q, 1)`, without fixed base samples."""
        shape = torch.Size([1]) if sample_shape is None else sample_shape
        base = torch.randn(*shape, *self.base_sample_shape, dtype=self.dtype, device=self.device)
        return self.rsample_from_base_samples(shape, base)

    def rsample_from_base_samples(self, sample_shape: torch.Size, base_samples: Tensor) -> Tensor:
        """Joint draws `(*sample_shape, *T, q, 1)` from normal numbers `(*sample_shape, *T, q + 1)`."""
        T, q = self.means.shape[1:-1], self.means.shape[-1]
        base = base_samples.reshape(sample_shape.numel(), T.numel(), q + 1)
        component = self._chosen(base[..., -1])
        means, roots = self.means.reshape(-1, T.numel(), q), self._roots.reshape(-1, T.numel(), q, q)
        if bool((component == component[:, :1]).all()):
            z = _same_for_all_batches(component[:, 0], self.member, self.factor, means, roots, base[..., :-1])
        else:
            batch = torch.arange(T.numel(), device=self.device)
            member, sd = self.member[component], self.factor[component].sqrt()
            z = means[member, batch] + sd[..., None] * (roots[member, batch] @ base[..., :-1, None])[..., 0]
        if not self.warp.trivial:
            z = self._unwarped(z, component)
        return (self.offset + self.scale * z).reshape(*sample_shape, *T, q, 1)

    @cached_property
    def _roots(self) -> Tensor:
        return root(self.covariances, self.prior_variance)

    def _chosen(self, u: Tensor) -> Tensor:
        """The component of each normal number u (n, t)."""
        weights = self.log_weights.detach().exp()
        if weights.ndim > 1:  # of each batch
            weights = weights.mean(-1).reshape(len(weights), -1).T
        edges = weights.cumsum(-1)
        uniform = torch.special.ndtr(u)
        found = torch.searchsorted(
            edges / edges[..., -1:], uniform.contiguous() if weights.ndim == 1 else uniform.T.contiguous()
        ).clamp_max(edges.shape[-1] - 1)
        return found if weights.ndim == 1 else found.T

    def _unwarped(self, z: Tensor, component: Tensor) -> Tensor:
        """g_s⁻¹(z) (n, t, q) with s = component (n, t)."""
        out = torch.zeros_like(z)
        for s in component.unique().tolist():
            mine = component == s
            out = out.index_put((mine,), self.warp.inverse_of(s, z[mine].reshape(-1)).reshape(-1, z.shape[-1]))
        return out


def _same_for_all_batches(
    component: Tensor, member: Tensor, factor: Tensor, means: Tensor, roots: Tensor, normal: Tensor
) -> Tensor:
    """Draws (n, t, q): draw i has the component[i] in all batches, so that no root is copied for each draw."""
    order, parts = component.argsort(stable=True), []
    for s in component.unique().tolist():
        r, mine = int(member[s]), component == s
        parts.append(means[r] + factor[s].sqrt() * torch.einsum("tij,ntj->nti", roots[r], normal[mine]))
    return torch.cat(parts)[order.argsort()]


@GetSampler.register(MixturePosterior)
def _mixture_sampler(posterior: MixturePosterior, sample_shape: torch.Size, *, seed: int | None = None, **_: object):
    """Quasi-random normal numbers."""
    return SobolQMCNormalSampler(sample_shape=sample_shape, seed=seed)
