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

from manifoldgp.closed_form.flat import Values
from manifoldgp.features import MLP, Features, Identity, Linear, Nested
from manifoldgp.parameters import Layout

Backward = Callable[[np.ndarray], None]
"""Writes the gradient of the parameters, given dNLML/dH (R, Q, N)."""


class Forward(Protocol):
    """A feature map in this form."""

    def __call__(self, values: Values, X: np.ndarray) -> tuple[np.ndarray, Backward | None]:
        """H (R, Q, N), or (Q, N) if no parameter takes part, of X ([R,] D + 1, N), and its backward if there is anything to train."""
        ...


def forward_of(features: Features, layout: Layout) -> Forward | None:
    """The features in closed form, or None for those that have none."""
    if type(features) is Identity:
        return identity
    if type(features) is Linear:
        return LinearForward(features.bias)
    if type(features) is Nested and _adjacent(layout, "features.inner", "features.bias"):
        return NestedForward(features.hidden)
    if type(features) is MLP and all(_adjacent(layout, f"features.{i}.weight", f"features.{i}.bias") for i in range(len(features.sizes))):
        return NetworkForward(features.activations)
    return None


def _adjacent(layout: Layout, weight: str, bias: str) -> bool:
    slices = layout.slices
    return weight in slices and bias in slices and slices[weight].stop == slices[bias].start


def identity(values: Values, X: np.ndarray) -> tuple[np.ndarray, Backward | None]:
    """H = X."""
    return X[..., :-1, :], None


class LinearForward:
    """H = X W (+ b). A stationary kernel does not see b, so its gradient stays zero up to rounding."""

    def __init__(self, bias: bool) -> None:
        self._bias = bias

    def __call__(self, values: Values, X: np.ndarray) -> tuple[np.ndarray, Backward | None]:
        if self._bias:
            (W, dW), inputs = values.joined("features.weight", "features.bias"), X
        else:
            W, dW, inputs = values["features.weight"], values.of("features.weight"), X[..., :-1, :]

        def backward(dH: np.ndarray) -> None:
            dW[...] = inputs @ dH.mT

        return W.mT @ inputs, backward


class NetworkForward:
    """H = σ_l(... σ_1(X W_1 + b_1) ...): :class:`MLP`, with full-rank layers."""

    def __init__(self, activations: tuple[str, ...]) -> None:
        self._activations = activations

    def __call__(self, values: Values, X: np.ndarray) -> tuple[np.ndarray, Backward | None]:
        layers, inputs = [], X
        last = len(self._activations) - 1
        for i, name in enumerate(self._activations):
            W, dW = values.joined(f"features.{i}.weight", f"features.{i}.bias")
            R, q = W.shape[0], W.shape[2]
            # Room for the row of ones that the next layer multiplies with its bias.
            outputs = np.empty((R, q + (i < last), X.shape[-1]))
            H = outputs[:, :q]
            np.matmul(W.mT, inputs, out=H)
            layers.append((W, dW, inputs, H, _activate(name, H)))
            if i < last:
                outputs[:, q] = 1.0
            inputs = outputs

        def backward(dH: np.ndarray) -> None:
            for i in range(last, -1, -1):
                W, dW, inputs, H, slope = layers[i]
                dZ = dH if slope is None else np.multiply(dH, slope(H), out=dH)
                np.matmul(inputs, dZ.mT, out=dW)
                if i:
                    dH = W[:, :-1] @ dZ

        return inputs, backward


class NestedForward:
    """H = [x / lengthscale, x B / √D + tanh(x W / √D + b) V / √hidden]: :class:`Nested`."""

    def __init__(self, hidden: int) -> None:
        self._hidden = hidden

    def __call__(self, values: Values, X: np.ndarray) -> tuple[np.ndarray, Backward | None]:
        (W, dW), lengthscale = values.joined("features.inner", "features.bias"), values["features.lengthscale"][:, :, None]
        B, V = values["features.skip"], values["features.outer"] / math.sqrt(self._hidden)
        (R, D, q), N = B.shape, X.shape[-1]
        x, inputs = X[..., :-1, :], X / math.sqrt(D)
        inputs[..., -1, :] = 1.0
        H = np.empty((R, D + q, N))
        np.divide(x, lengthscale, out=H[:, :D])
        units = W.mT @ inputs
        slope = _activate("tanh", units)
        assert slope is not None
        np.matmul(B.mT, inputs[..., :-1, :], out=H[:, D:])
        H[:, D:] += V.mT @ units

        def backward(dH: np.ndarray) -> None:
            net = dH[:, D:]
            values.of("features.lengthscale")[...] = -np.einsum("rdn,rdn->rd", dH[:, :D], H[:, :D]) / lengthscale[:, :, 0]
            values.of("features.skip")[...] = inputs[..., :-1, :] @ net.mT
            values.of("features.outer")[...] = (units @ net.mT) / math.sqrt(self._hidden)
            dZ = V @ net
            dZ *= slope(units)
            np.matmul(inputs, dZ.mT, out=dW)

        return H, backward


def _activate(name: str, Z: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """Overwrite Z by h = σ(Z); returns dσ/dz as a function of h, or None for 1.

    PyTorch computes on NumPy's memory: its vectorised functions take a quarter of NumPy's time.
    """
    match name:
        case "identity":
            return None
        case "sigmoid":
            torch.from_numpy(Z).sigmoid_()
            return lambda h: h * (1.0 - h)
        case "tanh":
            torch.from_numpy(Z).tanh_()
            return lambda h: 1.0 - h * h
        case "relu":
            np.maximum(Z, 0.0, out=Z)
            return lambda h: (h > 0.0).astype(float)
        case "softplus":
            Z[...] = torch.nn.functional.softplus(torch.from_numpy(Z)).numpy()
            return lambda h: np.where(h > _SOFTPLUS_LINEAR, 1.0, -np.expm1(-h))
        case "sine":
            slope = torch.from_numpy(Z).cos().numpy()
            torch.from_numpy(Z).sin_()
            return lambda h: slope
    raise AssertionError(name)


_SOFTPLUS_LINEAR = 20.0
"""PyTorch's softplus is the identity from here on."""
