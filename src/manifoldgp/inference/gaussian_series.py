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

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from manifoldgp.inference.gaussian_outputs import GaussianOutputs, OutputMoments

Array = TypeVar("Array", Tensor, np.ndarray)

_LONG = 2**18
"""Multiplications from which on OpenBLAS shares a product among its threads, which PyTorch's settings do not reach."""

_UNSEEN = 1e-3
"""Variance, in units of the noise, that may remain unexplained at the points for a shorter whitener: far below what a band shows."""


@dataclass(frozen=True)
class SeriesOutputs:
    """The targets of `exact` made ready. whitener (O, R, N): the R directions of TᵀT that the points see, others have been left out."""

    exact: GaussianOutputs
    whitener: Tensor

    def __call__(self, mu: Tensor, Sigma: Tensor, latent: bool = False, judged: bool = True) -> OutputMoments:
        """The moments at mu (n, D), Sigma (n, D, D), differentiable in both; latent: of f, without noise; judged: with the share of the last terms.

        Most of the time of a rollout, step after step, is the calls. Where no gradient is asked for they are NumPy's, of which each takes a third of the time, unless products are long.
        """
        gradient_wanted = torch.is_grad_enabled() and (mu.requires_grad or Sigma.requires_grad)
        if gradient_wanted or mu.device.type != "cpu" or self._known.longest_product > _LONG:
            return OutputMoments(*_moments(torch, self._known, mu, Sigma, latent, judged))
        with np.errstate(all="ignore"):  # a rollout that runs away says so by its numbers
            *found, last = _moments(np, self._known_to_numpy, mu.detach().numpy(), Sigma.detach().numpy(), latent, judged)
        mean, covariance, gradient = map(torch.from_numpy, found)
        return OutputMoments(mean, covariance, gradient, None if last is None else torch.from_numpy(last))

    @cached_property
    def _known(self) -> _Known[Tensor]:
        of, targets = self.exact, len(self.exact.alpha)
        t = of.points.mT
        points, unit = torch.cat([torch.ones_like(t[:, :1]), t], -2), torch.eye(of.matrix.shape[-1]).to(t)
        one, other = torch.triu_indices(points.shape[1], points.shape[1])
        return _Known(
            matrix=of.matrix,
            flat=-of.matrix.transpose(0, 1).flatten(1),
            shift=-of.offset.flatten(),
            variance=of.variance,
            log_variance=of.variance.log(),
            noise=of.noise,
            slope=of.slope,
            constant=of.constant,
            points=points,
            pairs=torch.where(one == other, -0.5, -1.0).to(t)[:, None] * points[:, one] * points[:, other],
            pair=one * points.shape[1] + other,
            seen=torch.cat([self.whitener, points * of.alpha.unsqueeze(-2)], -2).mT.contiguous(),
            unit=unit,
            units=unit.expand(targets, *unit.shape).contiguous(),
            targets=torch.eye(targets).to(t),
            once_and_twice=t.new_tensor([1.0, 2.0])[:, None, None, None],
        )

    @cached_property
    def _known_to_numpy(self) -> _Known[np.ndarray]:
        return _Known(**{name: value.detach().numpy() for name, value in vars(self._known).items() if name != "spare"})


@dataclass(frozen=True)
class _Known(Generic[Array]):
    """What is known of O targets before any input is, as arrays of PyTorch or of NumPy.

    flat: all matrices side by side, negative (D, O Q). points: (1, t_i), as (O, 1 + Q, N), so that products over the points run along memory.
    pairs: products of two entries of a point, such that −½ pᵀFp is the sum of the upper triangle of F times them (O, (1 + Q)(2 + Q) / 2, N); pair: where these are in a flat F.
    seen: Tᵀ and alpha_i (1, t_i) side by side (O, N, R + 1 + Q). targets: the unit matrix of their number. spare: memory for calls to come.
    """

    matrix: Array
    flat: Array
    shift: Array
    variance: Array
    log_variance: Array
    noise: Array
    slope: Array
    constant: Array
    points: Array
    pairs: Array
    pair: Array
    seen: Array
    unit: Array
    units: Array
    targets: Array
    once_and_twice: Array
    spare: list[Array] = field(default_factory=list)

    @property
    def longest_product(self) -> int:
        """Multiplications in the longest product of a target: of the points with what is seen."""
        return math.prod(self.points.shape[1:]) * self.seen.shape[-1]


def _moments(xp: Any, of: _Known, mu: Any, Sigma: Any, latent: bool, judged: bool) -> tuple[Any, Any, Any, Any]:
    """What OutputMoments holds, with the functions of ``xp``, which is torch or numpy. Inputs and targets are one dimension, of size n O."""

    def each(constant: Any) -> Any:
        """A number of each target (O, ...), for n inputs (n O, ...)."""
        return constant if n == 1 else xp.tile(constant, (n, *[1] * (constant.ndim - 1)))

    times = torch.bmm if xp is torch else np.matmul  # the operator takes PyTorch several calls more, back and forth
    n, targets, D, Q = len(mu), len(of.targets), mu.shape[-1], len(of.unit)
    A = each(of.matrix)
    wide = Sigma if n == 1 and xp is np else xp.tile(Sigma[:, None], (1, targets, 1, 1)).reshape(-1, D, D)
    S = times(times(A.mT, wide), A)
    (P, P2), (root, root2) = _inverse(xp, of.unit + S * of.once_and_twice)
    log_variance, variance = each(of.log_variance), each(of.variance)
    # d = J (1, t) with J = (−E[t], I), so that dᵀ P d is a quadratic form of what is known before, and g = G (1, t)
    J = xp.concat([(of.shift + mu @ of.flat).reshape(-1, Q, 1), each(of.units)], -1)
    PJ = times(P, J)
    G = times(A, PJ)
    seen_by: Any = _seen_by_numpy if xp is np else _seen_by_torch
    found = seen_by(of, n, times(J.mT, PJ), (log_variance - root)[:, None])
    seen, weighted = found[..., : -Q - 1], found[..., -Q - 1 :]
    total, Gw = weighted[:, 0, 0], times(G, weighted)
    slope = (Gw[..., 0] + each(of.slope)).reshape(n, targets, D)
    curvature = times(Gw, G.mT) - total[:, None, None] * times(times(A, P), A.mT)
    curved = times(curvature, wide)  # E[∇²m] Sigma
    second = 0.5 * times(curved.reshape(n, targets, -1), curved.mT.reshape(n, targets, -1).mT)
    # prior_0 = variance |I + 2 S|^(−½), and with B = S (I + 2 S)⁻¹ = ½ (I − (I + 2 S)⁻¹): prior_1 = prior_0 tr B, prior_2 = prior_0 (½ (tr B)² + tr B²)
    traced = (P2 * of.unit).sum((-1, -2))
    trace, prior = 0.5 * (Q - traced), xp.exp(log_variance - root2)
    first = prior * trace
    beyond = _positive(variance - prior - first)
    # What the data explain of the prior's variance, of order zero and one: |T E[k]|² and tr(Sigma E[∇k]ᵀ TᵀT E[∇k])
    products = times(seen, seen.mT)
    level, slopes = products[:, 0, 0], (wide * times(times(G, products), G.mT)).sum((-1, -2))
    # Of the higher orders data explain less, but are taken to explain as much as of the first
    unexplained = _positive(first - slopes) / (first + 1e-9 * variance)
    certain = _positive(prior + first - level - slopes) + unexplained * beyond
    certain = (certain if latent else certain + each(of.noise)).reshape(n, targets)
    covariance = second + times(times(slope, Sigma), slope.mT) + certain[:, None] * of.targets
    mean = of.constant + mu @ of.slope.mT + total.reshape(n, targets)
    if not judged:
        return mean, covariance, slope.mT, None
    squared = 0.25 * (Q - 2 * traced + (P2 * P2).sum((-1, -2)))  # tr B²
    third = _positive(beyond - prior * (0.5 * trace * trace + squared)).reshape(n, targets)  # prior_3 + prior_4 + ...
    last = ((second * of.targets).sum(-1) + third) / (covariance * of.targets).sum(-1)
    return mean, covariance, slope.mT, last.detach() if xp is torch else last


def _seen_by_torch(of: _Known[Tensor], n: int, form: Tensor, largest: Tensor) -> Tensor:
    """Σ_i q_i (1, t_i) seen_i (n O, 1 + Q, R + 1 + Q), log q_i being ``largest`` (n O, 1) less half of the quadratic form (n O, 1 + Q, 1 + Q) of (1, t_i)."""
    points, seen = (part if n == 1 else part.tile(n, 1, 1) for part in (of.points, of.seen))
    return torch.bmm(points * torch.exp(largest - 0.5 * (torch.bmm(form, points) * points).sum(-2)).unsqueeze(-2), seen)


def _seen_by_numpy(of: _Known[np.ndarray], n: int, form: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """The same; forms by products that are known before, since products of small matrices are slow, and in memory that was used before: touching it first costs more than the arithmetic."""
    targets = len(of.targets)
    upper = form.reshape(n, targets, -1)[..., of.pair].swapaxes(0, 1)
    log_q = (upper @ of.pairs).swapaxes(0, 1).reshape(len(form), -1)
    log_q += largest
    q = np.exp(log_q, out=log_q).reshape(n, targets, 1, -1)
    shape = n, *of.points.shape
    work = of.spare.pop() if of.spare else np.empty(shape)  # a list's own calls: threads never get the same one
    weighted = np.multiply(of.points, q, out=work if work.shape == shape else None)
    found = (weighted @ of.seen).reshape(len(form), *form.shape[1:-1], -1)
    if n == 1:  # memory of many inputs is not held for calls that may never come
        of.spare.append(weighted)
    return found


def _positive(x: Any) -> Any:
    """x, or zero where it is negative."""
    return x * (x > 0)


def _inverse(xp: Any, M: Any) -> tuple[Any, Any]:
    """M⁻¹ and ½ log |M| of positive definite matrices; no numbers where one is not."""
    if xp is np:
        try:
            factors = np.linalg.cholesky(M)
        except np.linalg.LinAlgError:
            return np.full_like(M, np.nan), np.full(M.shape[:-2], np.nan)
        return np.linalg.inv(M), np.log(np.linalg.diagonal(factors)).sum(-1)
    factors = torch.linalg.cholesky_ex(M)[0]
    return torch.cholesky_inverse(factors), factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def series_outputs(exact: GaussianOutputs) -> SeriesOutputs:
    """The same targets, with the directions of the whitener left out that matter to none of the points."""
    t = exact.points
    K = exact.variance[:, None, None] * torch.exp(-0.5 * torch.cdist(t, t).square())
    size, U = torch.linalg.eigh(exact.whitener @ K @ (exact.whitener @ K).mT / t.shape[-2])  # ascending
    unseen = size.clamp_min(0.0).cumsum(-1) < _UNSEEN * exact.noise[:, None]
    first = int(unseen.sum(-1).min())
    return SeriesOutputs(exact, U[..., first:].mT @ exact.whitener)
