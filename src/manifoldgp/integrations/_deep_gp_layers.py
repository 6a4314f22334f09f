"""A deep Gaussian process on GPyTorch's layers, and what a trained one predicts: a mixture over draws that went through its layers.

    h₀ = x,   h_l = W_l h_{l−1} + g_l(h_{l−1}),   y = g_L(h_{L−1}) + noise,   g_l ~ GP, sparse by inducing points

The linear maps W are fixed (Salimbeni and Deisenroth 2017): an inner layer begins as one that hands its inputs on, so that depth never begins with less than a single GP has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from manifoldgp._system.linalg import cholesky_with_jitter
from manifoldgp.errors import MissingExtraError
from manifoldgp.inference.mixtures import Predictive, Warp
from manifoldgp.warping import NoWarping

try:
    import gpytorch
    from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
    from gpytorch.variational import CholeskyVariationalDistribution, NaturalVariationalDistribution, VariationalStrategy
    from linear_operator.utils.errors import NanError, NotPSDError
except ImportError as error:
    raise MissingExtraError(
        f"DeepGPRegressor needs GPyTorch ({error}). Install it with: pip install 'manifoldgp[gpytorch]'"
    ) from error

__all__ = ["DeepPosterior", "Layers", "NanError", "NotPSDError", "gpytorch", "normal_draws"]

_JITTER = 1e-6
_SURE = 1e-5
"""Standard deviation that the inner layers' values at inducing points begin with: the linear map, and next to no noise around it."""

_LEAST_NOISE = 1e-6
"""Smallest variance of the noise of standardised y."""

_AT_ONCE = 2**22
"""Numbers of the largest array that a prediction makes; rows are predicted in parts that stay below."""


class Layer(DeepGPLayer):
    """GPs side by side that share a kernel and inducing points. weights: of the fixed linear mean, (inputs, outputs); None: the last layer, one GP without mean."""

    def __init__(self, Z: Tensor, weights: Tensor | None) -> None:
        inputs, outputs = Z.shape[1], None if weights is None else weights.shape[1]
        several = torch.Size([] if outputs is None else [outputs])
        values = _natural(len(Z)) if outputs is None else _nearly_certain(len(Z), several)
        super().__init__(VariationalStrategy(self, Z, values, learn_inducing_locations=True, jitter_val=_JITTER), inputs, outputs)
        self.variational_strategy.variational_params_initialized.fill_(1)  # as they are here, not anew at the first call
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=inputs)).double()
        self.kernel.initialize(outputscale=1.0)
        self.kernel.base_kernel.initialize(lengthscale=math.sqrt(inputs))
        self.mean = gpytorch.means.ZeroMean() if weights is None else _fixed_linear(weights)

    def forward(self, x: Tensor, diag: bool = True) -> gpytorch.distributions.MultivariateNormal:
        """The prior at x (..., n, D), or (..., outputs, n, D) with the same rows for every output: the covariance is computed for one of them."""
        once = x if self.output_dims is None else x[..., :1, :, :]
        mean: Any = self.mean(x)
        return gpytorch.distributions.MultivariateNormal(mean, self.kernel(once))


def _natural(count: int) -> NaturalVariationalDistribution:
    return NaturalVariationalDistribution(count).double()


def _nearly_certain(count: int, several: torch.Size) -> CholeskyVariationalDistribution:
    values = CholeskyVariationalDistribution(count, batch_shape=several).double()
    root: Any = values.chol_variational_covar
    root.data.mul_(_SURE)
    return values


def _fixed_linear(weights: Tensor) -> gpytorch.means.LinearMean:
    with torch.random.fork_rng(devices=[]):  # it draws weights that nobody uses
        mean = gpytorch.means.LinearMean(weights.shape[0], batch_shape=torch.Size([weights.shape[1]]), bias=False)
    mean.weights = torch.nn.Parameter(weights.T[..., None].clone(), requires_grad=False)
    return mean


class Layers(DeepGP):
    """Layers one after another, and the noise of y."""

    layers: Any  # a ModuleList of Layer, which PyTorch's annotations do not tell
    likelihood: Any  # a GaussianLikelihood, the same

    def __init__(self, inducing: Sequence[Tensor], weights: Sequence[Tensor]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(Z, W) for Z, W in zip(inducing, [*weights, None], strict=True))
        noise = gpytorch.constraints.GreaterThan(_LEAST_NOISE)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=noise).double()
        self.widths = [W.shape[1] for W in weights]

    def forward(self, x: Tensor, noise: Sequence[Tensor]) -> gpytorch.distributions.MultivariateNormal:
        """f at x (n, D), one Gaussian for each of S draws through the inner layers. noise: standard normal numbers of each, (S, n, width) or (S, 1, width)."""
        h = x[None]
        for layer, z in zip(self.layers, noise, strict=False):  # the last layer has none
            inner = layer(h, are_samples=True)
            h = inner.mean + inner.variance.sqrt() * z
        return self.layers[-1](h, are_samples=True)


@dataclass(frozen=True)
class DeepPosterior:
    """A trained deep GP of one target: what the predictions of an estimator ask for. y = offset + scale t.

    samples: draws through the layers that a prediction is a mixture of. They are the same at every row and every time, so that predictions are functions of x.
    """

    layers: Layers
    samples: int
    offset: float
    scale: float

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        noise: Tensor = self.layers.likelihood.noise
        return noise.device

    @property
    def warped(self) -> bool:
        """Whether targets are warped: never."""
        return False

    def operations(self, rows: int, variance: bool = True, joint: bool = False) -> float:
        """About how many operations a prediction of so many rows takes."""
        return self.samples * rows * sum(len(Z) * (50 + width * len(Z)) for Z, width in self._sizes())

    @torch.no_grad()
    def predict(self, X: Tensor, latent: bool = False, known_noise: Tensor | None = None) -> Predictive:
        """The mixture of observations y (or of f, latent=True) at X (n, D). known_noise: variances (n,) in model units."""
        parts = [self._moments(part) for part in X.split(self._rows_at_once())]
        means, variances = (torch.cat(each, -1) for each in zip(*parts, strict=True))
        if not latent:
            variances = variances + self.layers.likelihood.noise + (0.0 if known_noise is None else known_noise)
        S = len(means)
        weights = torch.full((S,), -math.log(S), dtype=X.dtype, device=X.device)
        return Predictive(means, variances, weights, Warp([(NoWarping(), {}, S)]), self.offset, self.scale)

    def mean(self, X: Tensor) -> Tensor:
        """Mean of y (n,) at X (n, D)."""
        return self.predict(X, latent=True).moments()[0]

    @torch.no_grad()
    def sample(self, X: Tensor, count: int, generator: torch.Generator, latent: bool = False) -> Tensor:
        """Joint draws (count, n) at X (n, D): each is one function, drawn at all rows together, layer by layer."""
        self.layers.eval()
        widest = max(width for _, width in self._sizes())
        size = len(X) + max(len(Z) for Z, _ in self._sizes())  # GPyTorch takes rows and inducing points together
        at_once = max(1, _AT_ONCE // (widest * size * size))
        parts = [self._draws(X, min(at_once, count - first), generator) for first in range(0, count, at_once)]
        draws = torch.cat(parts)
        if not latent:
            draws = draws + self.layers.likelihood.noise.sqrt() * _randn(draws.shape, generator, X)
        return self.offset + self.scale * draws

    def _draws(self, X: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """f (count, n) of functions in the model's units."""
        h = X.expand(count, -1, -1)
        for layer in self.layers.layers:
            width = layer.output_dims
            joint = layer.variational_strategy(h if width is None else h[:, None].expand(-1, width, -1, -1), diag=False)
            shape = (count, width or 1, len(X), 1)
            mean, C = joint.mean.reshape(shape), joint.covariance_matrix.reshape(*shape[:3], len(X))
            L, _ = cholesky_with_jitter(
                C.flatten(0, 1),
                "the covariance of a layer at the points to sample",
                C.diagonal(dim1=-2, dim2=-1).mean(-1).flatten(),
            )
            drawn = mean + L.view_as(C) @ _randn(shape, generator, X)
            h = drawn[..., 0].mT
        return h[..., 0]

    def _moments(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances (S, n) of f in the model's units."""
        self.layers.eval()
        h, mean, variance = X[None], X, X
        for layer, z in zip(self.layers.layers, [*normal_draws(self.samples, self.layers.widths, X.device), None], strict=True):
            f = layer(
                h.reshape(1, -1, h.shape[-1]), are_samples=True
            )  # draws as rows: inducing points have one factor for all of them
            mean, variance = (t.reshape(len(h), len(X), -1) for t in (f.mean, f.variance))
            h = h if z is None else mean + variance.sqrt() * z[:, None, :]
        return mean[..., 0], variance[..., 0].clamp_min(1e-12)

    def _rows_at_once(self) -> int:
        return max(1, _AT_ONCE // (self.samples * max(len(Z) * width for Z, width in self._sizes())))

    def _sizes(self) -> list[tuple[Tensor, int]]:
        """Inducing points and number of GPs of each layer."""
        return [(layer.variational_strategy.inducing_points, layer.output_dims or 1) for layer in self.layers.layers]


def normal_draws(count: int, widths: Sequence[int], device: torch.device) -> list[Tensor]:
    """Quasi-random standard normal numbers (count, width) for each inner layer, the same ones every time."""
    if not widths:
        return []
    uniform = torch.quasirandom.SobolEngine(sum(widths), scramble=True, seed=1).draw(count, dtype=torch.float64)
    return list(torch.special.ndtri(uniform.clamp(1e-12, 1 - 1e-12)).to(device).split(list(widths), 1))


def _randn(shape: Sequence[int], generator: torch.Generator, like: Tensor) -> Tensor:
    return torch.randn(tuple(shape), generator=generator, dtype=like.dtype).to(like.device)
