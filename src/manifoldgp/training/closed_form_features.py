"""The features' factor: H = M(X) and, from dNLML/dH, the gradient of the features' parameters.

One class a feature map. Inputs come as rows with a row of ones below them, [Xᵀ; 1] (D + 1, N) or (R, D + 1, N), so that W and b of a layer are one
matrix and one product: Z = [W; b]ᵀ [Xᵀ; 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch

from manifoldgp.features import MLP, Features, Identity, Linear, Nested
from manifoldgp.parameters import Layout
from manifoldgp.training.closed_form_arrays import Values


class Mapping(Protocol):
    """A feature map with the values of R members and room for its results: H (R, Q, N), or (Q, N) where no parameter takes part."""

    H: np.ndarray
    trained: bool

    def forward(self) -> None:
        """Compute H from values and inputs as they are now."""
        ...

    def backward(self, dH: np.ndarray) -> None:
        """Write the parameters' gradient, given dNLML/dH (R, Q, N), which may be overwritten."""
        ...


def mapping_of(features: Features, layout: Layout) -> Callable[[Values, np.ndarray], Mapping] | None:
    """The closed form of the features as a function of values and inputs ([R,] D + 1, N), or None for those that have none."""
    if type(features) is Identity:
        return lambda values, X: Inputs(X)
    if type(features) is Linear and (not features.bias or _adjacent(layout, "features.weight", "features.bias")):
        return lambda values, X: Projection(values, X, features.bias)
    if type(features) is Nested and _adjacent(layout, "features.inner", "features.bias"):
        return lambda values, X: NestedNetwork(values, X)
    if type(features) is MLP and all(
        _adjacent(layout, f"features.{i}.weight", f"features.{i}.bias") for i in range(len(features.sizes))
    ):
        return lambda values, X: Network(values, X, features.activations)
    return None


def _adjacent(layout: Layout, weight: str, bias: str) -> bool:
    slices = layout.slices
    return weight in slices and bias in slices and slices[weight].stop == slices[bias].start


class Inputs:
    """H = X."""

    trained = False

    def __init__(self, X: np.ndarray) -> None:
        self.H = X[..., :-1, :]

    def forward(self) -> None:
        pass

    def backward(self, dH: np.ndarray) -> None:
        pass


class Projection:
    """H = X W (+ b)."""

    trained = True

    def __init__(self, values: Values, X: np.ndarray, bias: bool) -> None:
        self._X = X if bias else X[..., :-1, :]
        self._W, self._dW = values.joined("features.weight", "features.bias") if bias else values["features.weight"]
        self.H = np.empty((len(self._W), self._W.shape[2], X.shape[-1]))

    def forward(self) -> None:
        np.matmul(self._W.mT, self._X, out=self.H)

    def backward(self, dH: np.ndarray) -> None:
        np.matmul(self._X, dH.mT, out=self._dW)


class Network:
    """H = σ_l(... σ_1(X W_1 + b_1) ...): :class:`MLP`, with full-rank layers."""

    trained = True

    def __init__(self, values: Values, X: np.ndarray, activations: tuple[str, ...]) -> None:
        self._layers: list[_Layer] = []
        inputs, last = X, len(activations) - 1
        for i, name in enumerate(activations):
            layer = _Layer(*values.joined(f"features.{i}.weight", f"features.{i}.bias"), inputs, name, extended=i < last)
            self._layers.append(layer)
            inputs = layer.outputs
        self.H = inputs

    def forward(self) -> None:
        for layer in self._layers:
            layer.forward()

    def backward(self, dH: np.ndarray) -> None:
        for layer in reversed(self._layers[1:]):
            dH = layer.backward(dH)
        self._layers[0].backward(dH, further=False)


class NestedNetwork:
    """H = [x / lengthscale, x B / √D + tanh(x W / √D + b) V / √hidden]: :class:`Nested`."""

    trained = True

    def __init__(self, values: Values, X: np.ndarray) -> None:
        (B, self._dB), (V, self._dV), (lengthscale, self._d_lengthscale) = (
            values[f"features.{name}"] for name in ("skip", "outer", "lengthscale")
        )
        (R, D, q), N, hidden = B.shape, X.shape[-1], V.shape[1]
        self._B, self._V, self._lengthscale, self._X = B.mT, V, lengthscale[:, :, None], X
        self._size, self._shrink = 1.0 / math.sqrt(D), 1.0 / math.sqrt(hidden)
        self._inputs = np.ones_like(X)
        self._x, self._scaled_inputs = X[..., :-1, :], self._inputs[..., :-1, :]
        W, dW = values.joined("features.inner", "features.bias")
        self._layer = _Layer(W, dW, self._inputs, "tanh", extended=False)
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


class _Layer:
    """H = σ([W; b]ᵀ inputs) (R, q, N). extended: ``outputs`` has a row of ones below H, for the next layer's bias."""

    def __init__(self, W: np.ndarray, dW: np.ndarray, inputs: np.ndarray, activation: str, extended: bool) -> None:
        (R, _, q), N = W.shape, inputs.shape[-1]
        self._W, self._weights, self._dW, self._inputs = W.mT, W[:, :-1], dW, inputs
        self.outputs = np.ones((R, q + extended, N))
        self.H = self.outputs[:, :q]
        self._tensor = torch.from_numpy(self.H)
        self._activate, self._slope = _ACTIVATIONS[activation]
        self._derivative = np.empty((R, q, N))

    def forward(self) -> None:
        np.matmul(self._W, self._inputs, out=self.H)
        self._activate(self._tensor, self._derivative)

    def backward(self, dH: np.ndarray, further: bool = True) -> np.ndarray:
        """Write d[W; b]; returns dNLML/dinputs, if it goes further."""
        dZ = self._slope(self.H, self._derivative)
        dZ = dH if dZ is None else np.multiply(dZ, dH, out=dZ)
        np.matmul(self._inputs, dZ.mT, out=self._dW)
        return np.matmul(self._weights, dZ) if further else dZ


def _sine(Z: torch.Tensor, derivative: np.ndarray) -> None:
    torch.cos(Z, out=torch.from_numpy(derivative))
    Z.sin_()


def _sigmoid_slope(h: np.ndarray, out: np.ndarray) -> np.ndarray:
    np.subtract(1.0, h, out=out)
    return np.multiply(out, h, out=out)


def _tanh_slope(h: np.ndarray, out: np.ndarray) -> np.ndarray:
    np.multiply(h, h, out=out)
    return np.subtract(1.0, out, out=out)


def _softplus_slope(h: np.ndarray, out: np.ndarray) -> np.ndarray:
    out[...] = np.where(h > _SOFTPLUS_LINEAR, 1.0, -np.expm1(-h))
    return out


_SOFTPLUS_LINEAR = 20.0
"""PyTorch's softplus is the identity from here on."""

_ACTIVATIONS: dict[
    str, tuple[Callable[[torch.Tensor, np.ndarray], object], Callable[[np.ndarray, np.ndarray], np.ndarray | None]]
] = {
    "sigmoid": (lambda Z, _: Z.sigmoid_(), _sigmoid_slope),
    "identity": (lambda Z, _: None, lambda h, out: None),
    "tanh": (lambda Z, _: Z.tanh_(), _tanh_slope),
    "relu": (lambda Z, _: Z.relu_(), lambda h, out: np.greater(h, 0.0, out=out, casting="unsafe")),
    "softplus": (lambda Z, _: Z.copy_(torch.nn.functional.softplus(Z)), _softplus_slope),
    "sine": (_sine, lambda h, out: out),
}
"""σ in place on Z, and dσ/dz written to ``out`` from h = σ(z) (None for 1); the sine's derivative is written on the way there.

PyTorch computes on NumPy's memory: its vectorised functions take a quarter of NumPy's time.
"""
