"""Members with weights: blocks of posteriors of one architecture each, and the mixture they predict."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.linalg import cholesky_with_jitter
from manifoldgp._system.threads import SMALL_WORK, TORCH
from manifoldgp.errors import InputError
from manifoldgp.inference.certainty import Certainty
from manifoldgp.inference.mixtures import Predictive, Warp
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.warping import NoWarping

_AS_IT_IS = nullcontext()

_SMALL = 2**29
"""Operations up to which threads cost more than they save; one thread takes about 50 ms for them."""


class TargetPredictor(Protocol):
    """What predicts one target: an `Ensemble`, or another model whose predictions are mixtures."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        ...

    @property
    def warped(self) -> bool:
        """Whether its target is warped."""
        ...

    def operations(self, rows: int, variance: bool = True, joint: bool = False) -> float:
        """About how many operations it takes to predict so many rows."""
        ...

    def predict(self, X: Tensor, latent: bool = False, known_noise: Tensor | None = None) -> Predictive:
        """The mixture of observations y (or of f, latent=True) at X (n, D). known_noise: variances (n,) in model units."""
        ...

    def mean(self, X: Tensor) -> Tensor:
        """Mean of y (n,) at X (n, D)."""
        ...

    def sample(self, X: Tensor, count: int, generator: torch.Generator, latent: bool = False) -> Tensor:
        """Joint draws (count, n) at X (n, D)."""
        ...


def prediction_threads(
    ensembles: Sequence[TargetPredictor], rows: int, variance: bool = True, joint: bool = False
) -> AbstractContextManager[None]:
    """One thread of PyTorch while it predicts few rows, all that it is allowed for many."""
    if TORCH.needless():
        return _AS_IT_IS
    operations = sum(ensemble.operations(rows, variance, joint) for ensemble in ensembles)
    return SMALL_WORK if operations < _SMALL else _AS_IT_IS


@dataclass(frozen=True)
class Ensemble:
    """Posterior blocks, the log weights of their components, and the affine map from model units to y.

    A component is a member together with a variance factor: log_weights[b] is (F, R_b) for the F variance factors and the R_b
    members of block b. All weights together sum to one. A single model is one block with one member and the factor 1.
    certainty: how weights follow how sure members are at a point; None: they are the same everywhere. A member alone has one too, for others that join it.
    """

    blocks: Sequence[Conditioned]
    log_weights: Sequence[Tensor]
    variance_factors: tuple[float, ...] = (1.0,)
    offset: float = 0.0
    scale: float = 1.0
    certainty: Certainty | None = None

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.blocks[0].device

    @property
    def warped(self) -> bool:
        """Whether its target is warped."""
        return any(not isinstance(block.model.warping, NoWarping) for block in self.blocks)

    @property
    def followed(self) -> Certainty | None:
        """How weights differ from point to point; None where they do not, as that of a member alone."""
        return None if sum(block.members for block in self.blocks) == 1 else self.certainty

    @property
    def _means_need_variances(self) -> bool:
        """Whether the mean of y depends on variances: by weights that follow them, or by a warped target."""
        return self.followed is not None or self.warped

    def operations(self, rows: int, variance: bool = True, joint: bool = False) -> float:
        """About how many operations it takes to predict so many rows. variance: whether variances are asked for; means may need them anyway."""
        needed = variance or self._means_need_variances
        return sum(block.operations(rows, needed, joint) for block in self.blocks)

    def whole(self) -> Ensemble:
        """The same members, each with one set of points for all of the input space; members in cells lose something by it."""
        return replace(self, blocks=[block.whole() for block in self.blocks])

    def predict(self, X: Tensor, latent: bool = False, known_noise: Tensor | None = None) -> Predictive:
        """The mixture of observations y (or of f, latent=True) at X (n, D). known_noise: variances (n,) in model units."""
        return self.mixture([block.mean_and_variance(X) for block in self.blocks], latent, known_noise)

    def differentiable(self, X: Tensor, latent: bool = False) -> Predictive:
        """The mixture at X (n, D), differentiable in X; all rows at once."""
        return self.mixture([block.moments(X)[:2] for block in self.blocks], latent)

    def gradients(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives of mean and variance of f, in the units of y, with respect to X (n, D): two tensors (n, D)."""
        pieces = []
        for chunk in X.split(self._differentiated):
            inputs = chunk.detach().clone().requires_grad_()
            with torch.enable_grad():
                mean, variance = self.differentiable(inputs, latent=True).moments()
            pieces.append((_slope(mean, inputs), _slope(variance, inputs)))
        return torch.cat([p[0] for p in pieces]), torch.cat([p[1] for p in pieces])

    def slopes(self, X: Tensor) -> Tensor:
        """Derivatives (n, D) of the mean of z with respect to X (n, D), in the model's units; without variances, which cost more, where weights do not follow them."""
        pieces = []
        for chunk in X.split(self._differentiated):
            inputs = chunk.detach().clone().requires_grad_()
            with torch.enable_grad():
                moments = [block.moments(inputs, variance=self.followed is not None)[:2] for block in self.blocks]
                weights = self.member_weights_at(self.observed([variance for _, variance in moments]))
                mean = torch.stack([(w * m).sum(0) for w, (m, _) in zip(weights, moments, strict=True)]).sum(0)
            pieces.append(_slope(mean, inputs))
        return torch.cat(pieces)

    @property
    def _differentiated(self) -> int:
        """Rows that are differentiated at once; every cell among them keeps a factor meanwhile."""
        return 16 if any(block.in_cells for block in self.blocks) else 256

    def covariance(self, X: Tensor, latent: bool = False, known_noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mean (n,) and joint covariance (n, n) of the mixture at X (n, D): Σ w (C_s + (m_s − m)(m_s − m)ᵀ). known_noise: variances (n,) in model units."""
        if self.warped:
            raise InputError("The joint covariance of a warped target has no closed form. Use sample_y for joint draws.")
        means, covariances, observed, spreads = [], [], [], []
        known = X.new_zeros(len(X)) if known_noise is None else known_noise
        factors = torch.tensor(self.variance_factors, dtype=X.dtype, device=X.device)
        for block, log_weights in zip(self.blocks, self.log_weights, strict=True):
            (mean, variance), C = block.mean_and_variance(X), block.covariance(X)[1]
            noise, diagonal = block.noise_variance()[:, None] + known, C.diagonal(dim1=-2, dim2=-1)
            diagonal.clamp_min_(variance)  # in cells, a point alone knows fewer rows than all points together
            observed.append(diagonal + noise)
            if not latent:
                diagonal.add_(noise)
            means.append(mean)
            covariances.append(C)
            w = log_weights.exp()
            spreads.append((factors @ w / w.sum(0).clamp_min(torch.finfo(w.dtype).tiny))[:, None])
        # Entry (i, j) of a member's covariance has the weight √(w(x_i) w(x_j)).
        roots = [w.sqrt().expand(len(w), len(X)) for w in self.member_weights_at(observed)]
        m, root = torch.cat(means), torch.cat(roots)
        centre = (root**2 * m).sum(0)
        deviation = (m - centre) * root
        total = deviation.T @ deviation
        for C, r, spread in zip(covariances, roots, spreads, strict=True):
            scaled = r * spread.sqrt()
            total += torch.einsum("ri,rij,rj->ij", scaled, C, scaled)
        return self.offset + self.scale * centre, self.scale**2 * total

    def sample(self, X: Tensor, count: int, generator: torch.Generator, latent: bool = False) -> Tensor:
        """Joint draws (count, n) at X (n, D): each draw takes one component for all points. Where weights differ from point to point it takes more than one: each at a point with
        the probability of its weight there, and mostly the same at points beside each other."""
        chosen = self._drawn_components(X, count, generator)
        draws = torch.empty(count, len(X), dtype=X.dtype, device=X.device)
        first = 0
        for block, log_weights in zip(self.blocks, self.log_weights, strict=True):
            mine = (chosen >= first) & (chosen < first + log_weights.numel())
            if bool(mine.any()):
                # A draw, and a component that it takes somewhere.
                pairs = torch.stack([torch.nonzero(mine)[:, 0], chosen[mine]], 1).unique(dim=0)
                z = self._sample_block(block, X, pairs[:, 1] - first, generator, latent)
                which, at = (chosen[pairs[:, 0]] == pairs[:, 1:]).nonzero(as_tuple=True)
                draws[pairs[which, 0], at] = z[which, at]
            first += log_weights.numel()
        return self.offset + self.scale * draws

    def _drawn_components(self, X: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """The components (count, n) of draws at X (n, D); where weights differ, that with the largest log w_s(x) + g_s, for Gumbel numbers g_s of each draw."""
        if self.followed is None:
            flat = torch.cat([w.reshape(-1) for w in self.log_weights]).exp()
            return torch.multinomial(flat, count, True, generator=generator)[:, None].expand(count, len(X))
        log_weights = self.predict(X).log_weights
        uniform = torch.rand(count, len(log_weights), generator=generator, dtype=X.dtype).to(X.device)
        gumbel = -(-uniform.clamp_min(1e-300).log()).log()
        return torch.stack([(log_weights + own[:, None]).argmax(0) for own in gumbel])

    def _sample_block(self, block: Conditioned, X: Tensor, component: Tensor, generator: torch.Generator, latent: bool) -> Tensor:
        """One joint draw (k, n) for each of k components, numbered factor by factor, of one block."""
        member = component % block.members
        factor = torch.tensor(self.variance_factors, dtype=X.dtype, device=X.device)[component // block.members]
        z = factor.sqrt()[:, None] * torch.randn(len(component), len(X), generator=generator, dtype=X.dtype).to(X.device)
        for r in torch.unique(member):
            posterior, mine = block.only(r[None]), member == r
            mean, C = posterior.covariance(X)
            if not latent:
                C.diagonal(dim1=-2, dim2=-1).add_(posterior.noise_variance()[:, None])
            size = posterior.prior_variance(X).mean(-1)
            L, _ = cholesky_with_jitter(C, "the posterior covariance of the points to sample", size)
            z[mine] = mean + z[mine] @ L[0].T
        return block.unwarped(z, member)

    def mean(self, X: Tensor) -> Tensor:
        """Mean of y (n,) at X (n, D), without variances where they are not needed."""
        if self._means_need_variances:
            return self.predict(X).moments()[0]
        total = torch.zeros(len(X), dtype=X.dtype, device=X.device)
        for block, log_weights in zip(self.blocks, self.log_weights, strict=True):
            mean, _ = block.mean_and_variance(X, variance=False)
            total = total + log_weights.exp().sum(0) @ mean
        return self.offset + self.scale * total

    def member_weights(self) -> list[Tensor]:
        """Weight of each member (R_b,), block by block, variance factors added up."""
        return [w.exp().sum(0) for w in self.log_weights]

    def member_weights_at(self, observed: Sequence[Tensor]) -> list[Tensor]:
        """Weight of each member (R_b, 1), or (R_b, n) where it follows the variances (R_b, n) of y, block by block."""
        if self.followed is None:
            return [w[:, None] for w in self.member_weights()]
        every = self.followed.log_weights(self.log_weights, observed).exp()
        parts = every.split([w.numel() for w in self.log_weights])
        return [part.unflatten(0, w.shape).sum(0) for part, w in zip(parts, self.log_weights, strict=True)]

    def observed(self, variances: Sequence[Tensor], known_noise: Tensor | float = 0.0) -> list[Tensor]:
        """The variances of y of members with these variances of f (R_b, n), block by block."""
        return [v + (block.noise_variance()[:, None] + known_noise) for block, v in zip(self.blocks, variances, strict=True)]

    def heaviest(self) -> tuple[Conditioned, int]:
        """The block and the member that carry the most weight."""
        weights = self.member_weights()
        b = max(range(len(weights)), key=lambda i: float(weights[i].max()))
        return self.blocks[b], int(weights[b].argmax())

    def transform(self, X: Tensor) -> Tensor:
        """Features M(X) (n, Q) of the member that carries the most weight."""
        block, member = self.heaviest()
        return block.transform(X)[member]

    def condition(self, X: Tensor, y: Tensor, known_noise: Tensor | None = None) -> Ensemble:
        """The ensemble with more rows, parameters and weights unchanged."""
        return replace(self, blocks=[block.condition(X, y, known_noise) for block in self.blocks])

    def mixture(
        self, moments: Sequence[tuple[Tensor, Tensor]], latent: bool = False, known_noise: Tensor | None = None
    ) -> Predictive:
        """The mixture whose members have these means and variances of f (R_b, n), block by block."""
        observed = self.observed([variance for _, variance in moments], 0.0 if known_noise is None else known_noise)
        variances = [variance for _, variance in moments] if latent else observed
        return self._mixture([mean for mean, _ in moments], variances, observed)

    def left_out(self, place: np.ndarray) -> Predictive:
        """The mixture at training rows ``place`` (n,), each row left out; parameters and weights unchanged."""
        rows = torch.as_tensor(place, device=self.device)
        found = [block.left_out(rows) for block in self.blocks]
        variances = [variance for _, variance in found]
        return self._mixture([mean for mean, _ in found], variances, variances)

    def _mixture(self, means: Sequence[Tensor], variances: Sequence[Tensor], observed: Sequence[Tensor]) -> Predictive:
        """The mixture of members with these means and variances (R_b, n), block by block. observed: their variances of y."""
        every_mean = torch.cat([mean for mean in means for _ in self.variance_factors])
        every_variance = torch.cat([factor * variance for variance in variances for factor in self.variance_factors])
        weights = (
            torch.cat([w.reshape(-1) for w in self.log_weights]).to(every_mean.device)
            if self.followed is None
            else self.followed.log_weights(self.log_weights, observed)
        )
        return Predictive(every_mean, every_variance.clamp_min(1e-300), weights, self._warp(), self.offset, self.scale)

    def _warp(self) -> Warp:
        blocks = []
        for block in self.blocks:
            blocks += [block.warping] * len(self.variance_factors)
        return Warp.of(blocks)


def _slope(outputs: Tensor, inputs: Tensor) -> Tensor:
    """d outputs_i / d inputs_i (n, D), each output depending on its own row only; zero where nothing depends on the inputs."""
    if not outputs.requires_grad:
        return torch.zeros_like(inputs)
    return torch.autograd.grad(outputs.sum(), inputs, retain_graph=True, materialize_grads=True)[0]
