"""The neural-network (arcsine) kernel: the covariance of an infinitely wide network with one hidden layer of error functions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manifoldgp.kernels.kernel import Kernel, positive_parameter, spread, variance_parameter
from manifoldgp.kernels.random_features import ERROR_FUNCTION, RandomFunctions, Randomness, Ridge
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.expression import Expression
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register

_LARGEST_SINE = 1.0 - 1e-15


@register("kernels.NeuralNetwork", shorthand="nn")
@dataclass(frozen=True)
class NeuralNetwork(Kernel):
    """k(h, h') = variance * arcsin( p(h, h') / sqrt((1 + p(h, h)) (1 + p(h', h'))) )     (the paper's eq. 6)

    with p(h, h') = bias + sum_q weights_q h_q h'_q: the paper's x^T P x' for the augmented x = (1, h) and
    P = diag(bias, weights). Rasmussen and Williams, eq. 4.29, is the same kernel with P = 2 Sigma and a variance of 2 / pi.
    Not stationary: it suits functions that are steep somewhere and flat elsewhere, but its origin matters.

    Its parameters: variance (), bias (), weights (Q,) or (1,).

    Parameters
    ----------
    ard
        One weight for each feature, or one for all.
    amplitude
        Whether there is a variance.
    """

    ard: bool = True
    amplitude: bool = True

    def _parameters(self, H: Tensor) -> Tree:
        scale = spread(H, self.ard)
        return ({"variance": variance_parameter()} if self.amplitude else {}) | {
            "bias": positive_parameter(scale.new_ones(()), (), sd=0.7),
            "weights": positive_parameter(scale**-2, scale.shape[-1:], sd=1.0),
        }

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        U = _normalised(values, H)
        return self._arcsine(values, U @ U.mT)

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        return self._arcsine(values, _normalised(values, H1) @ _normalised(values, H2).mT)

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        p = (H * H * values["weights"].unsqueeze(-2)).sum(-1) + values["bias"].unsqueeze(-1)
        angle = torch.arcsin((p / (1 + p)).clamp(max=_LARGEST_SINE))
        return angle * values["variance"].unsqueeze(-1) if self.amplitude else angle

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        root = np.broadcast_to(np.sqrt(values["weights"]), (len(values["weights"]), H.shape[-1]))
        A, bias = H * root[:, None, :], values["bias"][:, None]
        size = np.sqrt(1 + bias + (A * A).sum(-1))
        U, u = np.ascontiguousarray(np.swapaxes(A / size[..., None], -1, -2)), bias[..., None] / size[:, None, :]
        writer, rows = new.writer, new.scaled(root).slot()
        one_plus_bias = writer.constant(1 + bias)
        K = writer.do("neural_network", rows, writer.constant(U), writer.constant(u), one_plus_bias)
        diagonal = writer.do("neural_network_diagonal", rows, one_plus_bias)
        return Covariance.of(Expression(writer, K, axes=2), Expression(writer, diagonal, axes=1), values.get("variance"))

    def _random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        # E[erf(u · x) erf(u · x')] = (2 / pi) arcsin(...) for u ~ N(0, P / 2): the hidden units of the infinite network
        z, weight = random.directions(width + 1)
        direction = z[:, 1:] * (values["weights"] / 2).sqrt().unsqueeze(-1)
        phase = z[:, 0] * (values["bias"] / 2).sqrt().unsqueeze(-1)
        size = weight * values["variance"].unsqueeze(-1) if self.amplitude else weight
        return [RandomFunctions((Ridge(direction, phase, ERROR_FUNCTION),), (size * math.pi / 2).sqrt())]

    def _arcsine(self, values: Tree, sine: Tensor) -> Tensor:
        # |sine| < 1 but for rounding; where rounding reaches 1 the slope of arcsin is infinite, so it stops just before.
        angle = torch.arcsin(sine.clamp(-_LARGEST_SINE, _LARGEST_SINE))
        return angle * values["variance"][..., None, None] if self.amplitude else angle


def _normalised(values: Tree, H: Tensor) -> Tensor:
    """u = P^(1/2) (1, h) / sqrt(1 + p(h, h)) (*B, N, Q+1), so that the sine is u . u'."""
    scaled = H * values["weights"].sqrt().unsqueeze(-2)
    bias = values["bias"].sqrt()[..., None, None].expand(*scaled.shape[:-1], 1)
    augmented = torch.cat([bias, scaled], -1)
    return augmented / (1 + (augmented * augmented).sum(-1, keepdim=True)).sqrt()
