"""F = G ∘ M: features, kernel, mean, noise and target warping put together; a plain GP has Identity features."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from manifoldgp import evidence
from manifoldgp.features import Features, Identity
from manifoldgp.kernels import Kernel, SquaredExponential
from manifoldgp.means import Mean, Zero
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import Layout, Prior, Tree, leaves, map_leaves, repeated, with_priors
from manifoldgp.warping import NoWarping, TargetWarping


@dataclass(frozen=True)
class Data:
    """What a model is conditioned on, in the model's (standardised) units.

    X: (N, D). y: (N,), or (O, N) for several outputs on shared features. known_noise: variances known beforehand, shaped like y.
    mask: ones and zeros (N,); zero leaves a row out. With batched=True everything has a leading dimension: one data set a start.
    """

    X: Tensor
    y: Tensor
    known_noise: Tensor | None = None
    mask: Tensor | None = None
    batched: bool = False

    def rows(self, index: Tensor) -> Data:
        """The data of some starts; data that all starts share stay as they are."""
        if not self.batched:
            return self
        known = None if self.known_noise is None else self.known_noise[index]
        return Data(self.X[index], self.y[index], known, None if self.mask is None else self.mask[index], batched=True)

    def only(self, index: Tensor | slice) -> Data:
        """Some of the rows of one data set; its mask, if it has one, is left behind."""
        return Data(self.X[index], self.y[..., index], None if self.known_noise is None else self.known_noise[..., index])

    def without_masked(self) -> Data:
        """The rows that take part, of data that are not batched."""
        return self if self.mask is None else self.only(self.mask > 0)

    def joined_by(self, X: Tensor, y: Tensor, known_noise: Tensor | None) -> Data:
        """These rows (one data set, no mask) and more; where only some have known noise, that of the others is zero."""
        noise = None
        if self.known_noise is not None or known_noise is not None:
            old = torch.zeros_like(self.y) if self.known_noise is None else self.known_noise
            noise = torch.cat([old, torch.zeros_like(y) if known_noise is None else known_noise.expand(y.shape)])
        return Data(torch.cat([self.X, X]), torch.cat([self.y, y]), noise)

    def inputs(self) -> Tensor:
        """All inputs that take part, as one table (·, D)."""
        X = self.X.reshape(-1, self.X.shape[-1])
        return X if self.mask is None else X[self.mask.reshape(-1) > 0]


_ROWS_OF_A_WAVE = 14.0
"""Four rows times the width of an input, 3.5 standard deviations: divided by how many rows stand side by side on it, the shortest length-scale that is worth a start."""


@dataclass(frozen=True)
class Model:
    """The description of a manifold GP; its learnt state is a tree of values with the same names.

    priors: patterns of parameter names ("features.*.weight") to priors, for MAP training.
    outputs: 0 for one target; O > 0 for O targets on the same features, each with its own kernel, mean, noise and warping.
    """

    features: Features = field(default_factory=Identity)
    kernel: Kernel = field(default_factory=SquaredExponential)
    mean: Mean = field(default_factory=Zero)
    noise: GaussianNoise = field(default_factory=GaussianNoise)
    warping: TargetWarping = field(default_factory=NoWarping)
    priors: Mapping[str, Prior] = field(default_factory=dict)
    outputs: int = 0

    def bind(self, X: Tensor) -> Model:
        """The model with features that are fitted without targets (a scikit-learn transformer, say) fitted to X (N, D)."""
        return replace(self, features=self.features.bind(X))

    def draw(self, data: Data, generator: torch.Generator, count: int) -> tuple[Layout, Tree]:
        """The layout of all parameters and ``count`` starting values, leaves (count, *shape).

        Features are drawn first; the kernel's starting values follow the spread of the features they give.
        """
        X = data.inputs()
        features = self.features.parameters(X)
        drawn = Layout(features).draw(generator, count)
        H = self.features(drawn, X)
        rest = {
            "kernel": self.kernel.parameters(H),
            "mean": self.mean.parameters(self.mean_points(X, H)),
            "noise": self.noise.parameters(X),
            "warping": self.warping.parameters(data.y),
        }
        if self.outputs:
            rest = map_leaves(lambda parameter: repeated(parameter, self.outputs), rest)
        names = [name for name, _ in leaves(rest)]
        beside = {pattern: prior for pattern, prior in self.features.priors_beside().items() if fnmatch.filter(names, pattern)}
        layout = Layout(with_priors({"features": features, **rest}, beside | dict(self.priors)))
        values = {"features": drawn, **Layout(rest).draw(generator, count)}
        if isinstance(self.features, Identity) and count > 1:
            _shorten_the_last(values.get("kernel", {}), *X.shape)
        return layout, values

    def features_at(self, values: Tree, X: Tensor) -> Tensor:
        """H = M(X) (*B, N, Q) for X (N, D) or (*B, N, D); with several outputs (*B, 1, N, Q), for all of them."""
        H = self.features(values.get("features", {}), X)
        return H.unsqueeze(-3) if self.outputs else H

    def matrix(self, values: Tree, H: Tensor) -> Tensor:
        """K(H, H) (*B, N, N), without noise."""
        return self.kernel.matrix(values.get("kernel", {}), H)

    def cross(self, values: Tree, H: Tensor, H_other: Tensor) -> Tensor:
        """K(H, H_other) (*B, N, n) for H (*B, N, Q) and H_other (*B, n, Q)."""
        return self.kernel.cross(values.get("kernel", {}), H, H_other)

    def prior_diagonal(self, values: Tree, H: Tensor) -> Tensor:
        """k(h_i, h_i) (*B, N)."""
        return self.kernel.diagonal(values.get("kernel", {}), H)

    def mean_points(self, X: Tensor, H: Tensor) -> Tensor:
        """What the mean is a function of: the inputs X of some rows, or their features H."""
        if self.mean.on == "features":
            return H
        return X.unsqueeze(-3) if self.outputs else X

    def mean_at(self, values: Tree, X: Tensor, H: Tensor) -> Tensor:
        """m (*B, N) at rows with the inputs X and the features H = features_at(values, X); it may lack batches that it does not depend on."""
        return self.mean(values.get("mean", {}), self.mean_points(X, H))

    def warp(self, values: Tree, y: Tensor) -> tuple[Tensor, Tensor]:
        """z = g(y) and log g'(y), both (*B, N)."""
        return self.warping.forward(values.get("warping", {}), y)

    def covariance(self, values: Tree, X: Tensor) -> tuple[Tensor, Tensor]:
        """K (*B, N, N) without noise, and the features H (*B, N, Q) it was computed from (eq. 10)."""
        H = self.features_at(values, X)
        return self.matrix(values, H), H

    def learned_noise(self, values: Tree, like: Tensor) -> Tensor:
        """The noise variance (*B,) that all rows share, without known variances; B is empty if it does not depend on the values."""
        return self.noise.variance(values.get("noise", {}), like)

    def noise_variance(self, values: Tree, data: Data) -> Tensor:
        """Noise variance (*B,), or (*B, N) where known variances are given; B is empty if it does not depend on the values."""
        learned = self.learned_noise(values, data.y)
        return learned if data.known_noise is None else learned[..., None] + data.known_noise

    def penalty(self, values: Tree, data: Data) -> Tensor | None:
        """What the features ask training to add to the NLML (*B,), summed over the rows that take part; None for nothing."""
        of_rows = self.features.penalty(values.get("features", {}), data.X)
        if of_rows is None:
            return None
        return (of_rows if data.mask is None else of_rows * data.mask).sum(-1)

    def nlml(self, values: Tree, data: Data) -> Tensor:
        """NLML (*B,) of y in the model's units: evidence of z = g(y), and the Jacobian of g (eq. 7, on H); outputs add up."""
        K, H = self.covariance(values, data.X)
        warped = not isinstance(self.warping, NoWarping)
        z, log_slope = self.warp(values, data.y) if warped else (data.y, data.y)
        residual = z if isinstance(self.mean, Zero) else z - self.mean_at(values, data.X, H)
        mask = data.mask.unsqueeze(-2) if self.outputs and data.mask is not None else data.mask
        noise, rowwise = self.noise_variance(values, data), data.known_noise is not None
        batch = noise.shape[:-1] if rowwise else noise.shape
        if K.shape[:-2] != batch or rowwise:  # K, noise and targets that have no parameters have no batch
            batch = np.broadcast_shapes(K.shape[:-2], batch, residual.shape[:-1])
            K, noise = K.expand(*batch, *K.shape[-2:]), noise.expand(*batch, K.shape[-1]) if rowwise else noise.expand(batch)
        value = evidence.nlml(K, noise, residual, mask)
        if warped:
            value = value - (log_slope if mask is None else log_slope * mask).sum(-1)
        return value.sum(-1) if self.outputs else value


def _shorten_the_last(kernel: Tree, rows: int, inputs: int) -> None:
    """The last of several starts begins with the shortest length-scales that so many rows can show: from long ones a signal of many waves is taken for noise."""
    if "lengthscale" in kernel:
        kernel["lengthscale"][-1] *= min(1.0, _ROWS_OF_A_WAVE * rows ** (-1.0 / inputs) / inputs**0.5)
