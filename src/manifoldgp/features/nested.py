"""Features around a plain GP: the inputs as they are, and a small network beside them that can be switched off."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manifoldgp.features.feature_map import ClosedForm, Features, positive_integer
from manifoldgp.features.joint_law import JointLaw
from manifoldgp.features.layers import ClosedFormLayer, adjacent, affine
from manifoldgp.parameter_arrays import Values
from manifoldgp.parameters import Layout, LogNormal, Parameter, StudentT, Tree
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register


@register("features.Nested")
@dataclass(frozen=True)
class Nested(Features):
    """H = [x / lengthscale, x B / √D + tanh(x W / √D + b) V / √hidden]: Q = D + q features that contain the plain GP.

    With B = V = 0 a kernel without length-scales of its own (``SquaredExponential(scaled=False)``) sees x / lengthscale only: the plain
    SE-ARD GP. With V = 0 it is a GP on x and a linear projection. So training can start at a fitted GP and add what the data ask for.

    Its parameters: lengthscale (D,), skip B (D, q), inner W (D, hidden), bias (hidden,), outer V (hidden, q); heavy-tailed priors keep most of the
    network near zero and let a few weights grow (MAP training).

    Parameters
    ----------
    hidden
        Units of the network.
    q
        Its outputs.
    width
        How far from zero B and V start.
    """

    hidden: int = 8
    q: int = 2
    width: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", positive_integer(self.hidden, "The number of hidden units of Nested"))
        object.__setattr__(self, "q", positive_integer(self.q, "The number of features q of Nested"))

    def parameters(self, X: Tensor) -> Tree:
        D, hidden, q = X.shape[-1], self.hidden, self.q
        joint = JointLaw(lambda generator, count: self._start(X, generator, count))
        narrow, wide = StudentT(2.0, 0.0, 0.3), StudentT(2.0, 0.0, 1.0)
        return {
            "lengthscale": Parameter((D,), joint.law("lengthscale"), positive=True, prior=LogNormal(0.5 * math.log(D), 3.0)),
            "skip": Parameter((D, q), joint.law("skip"), prior=narrow),
            "inner": Parameter((D, hidden), joint.law("inner"), prior=wide),
            "bias": Parameter((hidden,), joint.law("bias"), prior=wide),
            "outer": Parameter((hidden, q), joint.law("outer"), prior=narrow),
        }

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        D = X.shape[-1]
        units = torch.tanh(affine(X, values["inner"] / math.sqrt(D), values["bias"]))
        net = affine(X, values["skip"] / math.sqrt(D)) + affine(units, values["outer"] / math.sqrt(self.hidden))
        scaled = X / values["lengthscale"].unsqueeze(-2)
        batch = net.shape[:-2]
        return torch.cat([scaled.expand(*batch, *scaled.shape[-2:]), net], -1)

    def _program(self, values: Tree, X: Rows) -> Rows:
        root = math.sqrt(X.width)
        units = X.times(values["inner"] / root).shifted(values["bias"]).through("tanh")
        net = X.times(values["skip"] / root).plus(units.times(values["outer"] / math.sqrt(self.hidden)))
        return Rows.side_by_side([X.scaled(1.0 / values["lengthscale"]), net])

    def _closed_form(self, layout: Layout, prefix: str) -> ClosedForm | None:
        if not adjacent(layout, f"{prefix}.inner", f"{prefix}.bias"):
            return None
        return lambda values, X: _ClosedFormNested(values, X, prefix)

    def _start(self, X: Tensor, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """W ~ N(0, 4) with each unit's transition at a random training row; B and V ~ N(0, width²); length-scales around e √D."""
        rows, D = X.detach().cpu(), X.shape[-1]

        def normal(*shape: int) -> Tensor:
            return torch.randn((count, *shape), generator=generator, dtype=torch.float64)

        inner = 2.0 * normal(D, self.hidden)
        centres = rows[torch.randint(len(rows), (count, self.hidden), generator=generator)]
        values = {
            "lengthscale": math.e * math.sqrt(D) * torch.exp(0.3 * normal(D)),
            "skip": self.width * normal(D, self.q),
            "inner": inner,
            "bias": -torch.einsum("cdh,chd->ch", inner, centres) / math.sqrt(D),
            "outer": self.width * normal(self.hidden, self.q),
        }
        return {name: value.to(X.device) for name, value in values.items()}


class _ClosedFormNested:
    """H = [x / lengthscale, x B / √D + tanh(x W / √D + b) V / √hidden]."""

    trained = True

    def __init__(self, values: Values, X: np.ndarray, prefix: str) -> None:
        (B, self._dB), (V, self._dV), (lengthscale, self._d_lengthscale) = (
            values[f"{prefix}.{name}"] for name in ("skip", "outer", "lengthscale")
        )
        (R, D, q), N, hidden = B.shape, X.shape[-1], V.shape[1]
        self._B, self._V, self._lengthscale, self._X = B.mT, V, lengthscale[:, :, None], X
        self._size, self._shrink = 1.0 / math.sqrt(D), 1.0 / math.sqrt(hidden)
        self._inputs = np.ones_like(X)
        self._x, self._scaled_inputs = X[..., :-1, :], self._inputs[..., :-1, :]
        W, dW = values.joined(f"{prefix}.inner", f"{prefix}.bias")
        self._layer = ClosedFormLayer(W, dW, self._inputs, "tanh", extended=False)
        self.H = np.empty((R, D + q, N))
        self._scaled, self._net, self._part = self.H[:, :D], self.H[:, D:], np.empty((R, q, N))
        self._outer = np.empty_like(V)

    def forward(self) -> None:
        np.multiply(self._x, self._size, out=self._scaled_inputs)
        np.multiply(self._V, self._shrink, out=self._outer)
        np.divide(self._x, self._lengthscale, out=self._scaled)
        self._layer.forward()
        np.matmul(self._B, self._scaled_inputs, out=self._net)
        np.matmul(self._outer.mT, self._layer.H, out=self._part)
        self._net += self._part

    def backward(self, dH: np.ndarray) -> None:
        D = self._scaled.shape[1]
        net = dH[:, D:]
        # d/dlengthscale = −Σ dH H / lengthscale
        np.vecdot(dH[:, :D], self._scaled, out=self._d_lengthscale)
        self._d_lengthscale /= -self._lengthscale[:, :, 0]
        np.matmul(self._scaled_inputs, net.mT, out=self._dB)
        np.matmul(self._layer.H, net.mT, out=self._dV)
        self._dV *= self._shrink
        self._layer.backward(self._outer @ net, further=False)
