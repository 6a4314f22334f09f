"""The spectral mixture kernel: any stationary kernel, by a mixture of Gaussians for its spectral density."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.kernels._profiles import SQUARED_EXPONENTIAL
from manifoldgp.kernels._radial import radial
from manifoldgp.kernels.kernel import Kernel, constant_diagonal, positive_parameter, spread, variance_parameter
from manifoldgp.kernels.random_features import RandomFunctions, Randomness, waves
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.expression import Expression
from manifoldgp.predictor.rows import LARGEST_NORM, Rows
from manifoldgp.registry import register


@register("kernels.SpectralMixture", shorthand="sm")
@dataclass(frozen=True)
class SpectralMixture(Kernel):
    """k(h, h') = sum_m weights_m prod_q exp(-2 pi^2 t_q^2 bandwidth_mq^2) cos(2 pi t_q frequency_mq), t = h - h'.

    Wilson and Adams (2013), eq. 12: component m of the spectral density has mean ``frequency_m`` and standard deviation
    ``bandwidth_m`` in every dimension.

    Its parameters: weights (C,), frequency (C, Q) or (C, 1), bandwidth (C, Q) or (C, 1); variance () if asked for.

    Parameters
    ----------
    components
        How many components the mixture has.
    ard
        Frequencies and bandwidths for each feature, or one of each for all.
    amplitude
        The weights carry the variance already, k(h, h) = sum_m weights_m; True multiplies by one more.
    """

    components: int = 4
    ard: bool = True
    amplitude: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.components, int) or self.components < 1:
            raise InputError(f"SpectralMixture needs a whole number of components, at least 1; got {self.components!r}.")

    def _parameters(self, H: Tensor) -> Tree:
        C, scale = self.components, spread(H, self.ard)
        per_component = (1 / scale).unsqueeze(-2).expand(*scale.shape[:-1], C, scale.shape[-1])
        shape = (C, scale.shape[-1])
        # Bandwidth 1 / (2 pi l) is a squared exponential of length-scale l = spread sqrt(Q); frequencies scatter around a
        # quarter of a period per spread, widely, so that the components differ.
        return ({"variance": variance_parameter()} if self.amplitude else {}) | {
            "weights": positive_parameter(scale.new_full((C,), 1 / C), (C,), sd=0.5),
            "frequency": positive_parameter(per_component / 4, shape, sd=1.0),
            "bandwidth": positive_parameter(per_component / (2 * math.pi * math.sqrt(H.shape[-1])), shape, sd=0.7),
        }

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        return self._mixture(values, H, None)

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        return self._mixture(values, H1, H2)

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        total = values["weights"].sum(-1)
        return constant_diagonal(total * values["variance"] if self.amplitude else total, H)

    def _program(self, values: Tree, H: np.ndarray, new: Rows) -> Covariance:
        centre, Q, weights = H.mean(-2), H.shape[-1], values["weights"]
        C = weights.shape[-1]
        width = math.sqrt(0.5) * 2 * math.pi * np.broadcast_to(values["bandwidth"], (len(values["bandwidth"]), C, Q))
        speed = 2 * math.pi * np.broadcast_to(values["frequency"], (len(values["frequency"]), C, Q))
        T = np.ascontiguousarray(np.swapaxes((H - centre[:, None, :])[:, None], -1, -2))  # (R, 1, Q, N)
        scaled, phase = T * width[..., None], T * speed[..., None]
        norms = (scaled**2).sum(-2, keepdims=True)
        arrays = (
            width[..., None, :], speed[..., None, :], scaled, norms, np.cos(phase), np.sin(phase), weights[..., None, None],
        )  # fmt: skip
        writer = new.writer
        constants = [writer.constant(array) for array in arrays]
        K = writer.do("spectral_mixture", new.shifted(-centre).slot(), *constants, expand=bool(norms.max() <= LARGEST_NORM))
        return Covariance.of(Expression(writer, K, axes=2), weights.sum(-1), values.get("variance"))

    def _random_functions(self, values: Tree, width: int, random: Randomness) -> list[RandomFunctions]:
        k, S, total = random.draws, random.ridges, values["weights"].sum(-1)
        edges = (values["weights"].cumsum(-1) / total.unsqueeze(-1)).expand(k, -1).contiguous()
        component = torch.searchsorted(edges, random.uniform(k, S)).clamp_max(
            self.components - 1
        )  # (k, S), with the probabilities weights_m / Σ weights
        sign = torch.where(random.uniform(k, width, S) < 0.5, -1.0, 1.0).to(total)  # a product of cosines: any signs
        chosen = component.unsqueeze(-2).expand(k, width, S)
        centre, sd = (values[name].expand(k, -1, width).mT.gather(-1, chosen) for name in ("frequency", "bandwidth"))
        direction, weight = random.directions(width)
        frequency = 2 * math.pi * (sign * centre + sd * direction)
        return [waves(frequency, weight, total * values["variance"] if self.amplitude else total, random)]

    def _mixture(self, values: Tree, H1: Tensor, H2: Tensor | None) -> Tensor:
        centre = H1.detach().mean(-2, keepdim=True)  # phases are more exact near zero
        H1 = (H1 - centre).unsqueeze(-3)  # (*B, 1, N1, Q): components are one more batch dimension
        H2 = None if H2 is None else (H2 - centre).unsqueeze(-3)
        width = (2 * math.pi * values["bandwidth"]).unsqueeze(-2)  # (*B, C, 1, Q)
        speed = (2 * math.pi * values["frequency"]).unsqueeze(-2)
        K = radial(H1 * width, None if H2 is None else H2 * width, values["weights"], SQUARED_EXPONENTIAL)
        phase1 = H1 * speed
        phase2 = phase1 if H2 is None else H2 * speed
        for q in range(H1.shape[-1]):
            K = K * (_on_circle(phase1[..., q]) @ _on_circle(phase2[..., q]).mT)
        K = K.sum(-3)
        return K * values["variance"][..., None, None] if self.amplitude else K


def _on_circle(phase: Tensor) -> Tensor:
    """u = (cos, sin) (*B, N, 2), so that cos(phase - phase') = u . u'."""
    return torch.stack([phase.cos(), phase.sin()], -1)
