"""One layer H = σ(X W + b): the affine map, the transfer functions, and both together in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manifoldgp.parameters import Layout


def affine(X: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    """X W + b (*B'', N, Q) for X (*B', N, D), W (*B, D, Q) and b (*B, Q); the batches broadcast.

    One weight matrix for everything, batched or not, is a single two-dimensional product; otherwise the batch is flattened
    for one ``baddbmm``. Inputs shared over the batch are never copied.
    """
    (N, D), Q = X.shape[-2:], W.shape[-1]
    batch = _batch(X, W, b)
    if W.numel() == D * Q and (b is None or b.numel() == Q):
        rows, W2 = X.reshape(-1, D), W.reshape(D, Q)
        H = rows @ W2 if b is None else torch.addmm(b.reshape(Q), rows, W2)
        return H.reshape(*batch, N, Q) if batch else H
    count = math.prod(batch)
    X3, W3 = X.expand(*batch, N, D).reshape(count, N, D), W.expand(*batch, D, Q).reshape(count, D, Q)
    H = torch.bmm(X3, W3) if b is None else torch.baddbmm(b.expand(*batch, Q).reshape(count, 1, Q), X3, W3)
    return H if len(batch) == 1 else H.reshape(*batch, N, Q)


def _batch(X: Tensor, W: Tensor, b: Tensor | None) -> tuple[int, ...]:
    batch = W.shape[:-2]
    if X.shape[:-2] in ((), batch) and (b is None or b.shape[:-1] == batch):
        return batch  # the usual case; np.broadcast_shapes takes as long as a small product
    return np.broadcast_shapes(X.shape[:-2], batch, () if b is None else b.shape[:-1])


@dataclass(frozen=True)
class Activation:
    """A transfer function σ.

    function: σ(U). gain: a weight of this size over the square root of its inputs keeps the spread of features of standardised inputs.
    in_place: the closed form's σ, which overwrites U; it may write dσ/du to the second array on the way.
    slope: dσ/du written to ``out`` from h = σ(u), None for 1.
    operation: its name in programs; None for the identity.
    """

    function: Callable[[Tensor], Tensor]
    gain: float
    in_place: Callable[[Tensor, np.ndarray], object]
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray | None]
    operation: str | None


def _sine(U: Tensor, derivative: np.ndarray) -> None:
    torch.cos(U, out=torch.from_numpy(derivative))
    U.sin_()


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

_SOFTPLUS = torch.nn.functional.softplus

# In closed forms, PyTorch computes on NumPy's memory: its vectorised functions take a quarter of NumPy's time.
ACTIVATIONS: dict[str, Activation] = {
    "sigmoid": Activation(torch.sigmoid, 3.0, lambda U, _: U.sigmoid_(), _sigmoid_slope, "sigmoid"),
    "identity": Activation(lambda U: U, 1.0, lambda U, _: None, lambda h, out: None, None),
    "tanh": Activation(torch.tanh, 1.5, lambda U, _: U.tanh_(), _tanh_slope, "tanh"),
    "relu": Activation(
        torch.relu, math.sqrt(2), lambda U, _: U.relu_(), lambda h, out: np.greater(h, 0.0, out=out, casting="unsafe"), "relu"
    ),
    "softplus": Activation(_SOFTPLUS, math.sqrt(2), lambda U, _: U.copy_(_SOFTPLUS(U)), _softplus_slope, "softplus"),
    "sine": Activation(torch.sin, 1.5, _sine, lambda h, out: out, "sine"),
}
"""Transfer functions by name; ``sigmoid`` is the paper's log-sigmoid 1 / (1 + exp(-z))."""


def adjacent(layout: Layout, weight: str, bias: str) -> bool:
    """Whether a layer's bias follows its weights in theta, so that [W; b] is one matrix there."""
    slices = layout.slices
    return weight in slices and bias in slices and slices[weight].stop == slices[bias].start


class ClosedFormLayer:
    """H = σ([W; b]ᵀ inputs) (R, q, N). extended: ``outputs`` has a row of ones below H, for the next layer's bias."""

    def __init__(self, W: np.ndarray, dW: np.ndarray, inputs: np.ndarray, activation: str, extended: bool) -> None:
        (R, _, q), N = W.shape, inputs.shape[-1]
        self._W, self._weights, self._dW, self._inputs = W.mT, W[:, :-1], dW, inputs
        self.outputs = np.ones((R, q + extended, N))
        self.H = self.outputs[:, :q]
        self._tensor = torch.from_numpy(self.H)
        self._activate, self._slope = ACTIVATIONS[activation].in_place, ACTIVATIONS[activation].slope
        self._derivative = np.empty((R, q, N))

    def forward(self) -> None:
        np.matmul(self._W, self._inputs, out=self.H)
        self._activate(self._tensor, self._derivative)

    def backward(self, dH: np.ndarray, further: bool = True) -> np.ndarray:
        """Write d[W; b]; returns dNLML/dinputs, if it goes further."""
        dU = self._slope(self.H, self._derivative)
        dU = dH if dU is None else np.multiply(dU, dH, out=dU)
        np.matmul(self._inputs, dU.mT, out=self._dW)
        return np.matmul(self._weights, dU) if further else dU
