"""The paper's features: a multi-layer network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.features.feature_map import ClosedForm, Features, positive_integer, positive_number
from manifoldgp.features.joint_law import JointLaw
from manifoldgp.features.layers import ACTIVATIONS, ClosedFormLayer, adjacent, affine
from manifoldgp.parameter_arrays import Values
from manifoldgp.parameters import Layout, Parameter, Tree, nest
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register

_ROWS_AT_START = 256  # inputs that the initial law looks at, to centre the later layers


@register("features.MLP")
@dataclass(frozen=True)
class MLP(Features):
    """A multi-layer network, H_i = σ(H_i₋₁ W_i + b_i) from H_0 = X to the last layer's H, rows as data points (eq. 16).

    Its parameters: ``{"0": {"weight": (D, q_1), "bias": (q_1,)}, "1": ...}``; low-rank layers have "left" (in, rank) and
    "right" (rank, out) in place of "weight".

    Initial law, for standardised inputs: the first layer's weights are N(0, scale² / D), and each hidden unit has its
    transition at a random training input, b = -wᵀx_n. Later weights are N(0, gain² / fan-in), gain 3 for the sigmoid, 1 for
    the identity; their biases centre the pre-activations over the training inputs.

    Parameters
    ----------
    sizes
        The outputs of each layer; the paper's [1-6-2] on one input is ``MLP((6, 2))``.
    activation
        σ, one name for every layer (the last included) or one a layer: sigmoid, identity, tanh, relu, softplus, sine.
    rank
        Weight matrices are W = U V with this inner dimension wherever it is below both sides of W.
    scale
        Steepness of the first layer at the start.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    >>> net = MLP((6, 2))
    >>> [(name, tuple(p.shape)) for name, p in net.parameters(X)["0"].items()]
    [('weight', (1, 6)), ('bias', (6,))]
    """

    sizes: tuple[int, ...]
    activation: str | tuple[str, ...] = "sigmoid"
    rank: int | None = None
    scale: float = 2.0

    def __post_init__(self) -> None:
        try:
            sizes = tuple(self.sizes)
        except TypeError:
            sizes = ()
        if not sizes:
            raise InputError(f"MLP needs the outputs of at least one layer, such as sizes=(6, 2); got {self.sizes!r}.")
        object.__setattr__(self, "sizes", tuple(positive_integer(size, "Each size of an MLP") for size in sizes))
        if not isinstance(self.activation, str):
            object.__setattr__(self, "activation", tuple(self.activation))
        if len(self.activations) != len(sizes):
            raise InputError(
                f"MLP has {len(sizes)} layers and {len(self.activations)} activations; give one name for all, or one a layer."
            )
        for name in self.activations:
            if name not in ACTIVATIONS:
                raise InputError(f"Unknown activation {name!r}. There are: {', '.join(ACTIVATIONS)}.")
        if self.rank is not None:
            object.__setattr__(self, "rank", positive_integer(self.rank, "The rank of an MLP"))
        object.__setattr__(self, "scale", positive_number(self.scale, "The scale of an MLP"))

    @property
    def activations(self) -> tuple[str, ...]:
        """The name of each layer's transfer function."""
        return (self.activation,) * len(self.sizes) if isinstance(self.activation, str) else self.activation

    def pretrained(self, **settings: float | None) -> Features:
        """The network with another start, the encoder of an auto-encoder of the inputs; with the settings of `Pretrained`.

        Rows without targets help it to start, ``fit(X, y, unlabelled=X_more)``; training on the evidence then changes all of it.
        """
        from manifoldgp.features.autoencoder import Pretrained  # made of networks: importing it above would be circular

        return Pretrained(self, **settings)  # pyright: ignore[reportArgumentType]

    def guided(self, weight: float = 1.0) -> Features:
        """The network with features that must also give the inputs back, which counts ``weight``: `Guided`."""
        from manifoldgp.features.autoencoder import Guided

        return Guided(self, weight)

    def parameters(self, X: Tensor) -> Tree:
        joint = JointLaw(lambda generator, count: self._start(X, generator, count))
        named = {}
        for i, (fan_in, fan_out) in enumerate(pairwise((X.shape[-1], *self.sizes))):
            if self._is_low_rank(fan_in, fan_out):
                assert self.rank is not None
                shapes = {"left": (fan_in, self.rank), "right": (self.rank, fan_out), "bias": (fan_out,)}
            else:
                shapes = {"weight": (fan_in, fan_out), "bias": (fan_out,)}
            for name, shape in shapes.items():
                named[f"{i}.{name}"] = Parameter(shape, joint.law(f"{i}.{name}"))
        return nest(named)

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        H = X
        for i, name in enumerate(self.activations):
            layer = values[str(i)]
            if "weight" in layer:
                U = affine(H, layer["weight"], layer["bias"])
            else:
                U = affine(affine(H, layer["left"]), layer["right"], layer["bias"])
            H = ACTIVATIONS[name].function(U)
        return H

    def _program(self, values: Tree, X: Rows) -> Rows:
        H = X
        for i, name in enumerate(self.activations):
            layer, operation = values[str(i)], ACTIVATIONS[name].operation
            H = H.times(layer["weight"]) if "weight" in layer else H.times(layer["left"]).times(layer["right"])
            H = H.shifted(layer["bias"])
            H = H if operation is None else H.through(operation)
        return H

    def _closed_form(self, layout: Layout, prefix: str) -> ClosedForm | None:
        layers = [f"{prefix}.{i}" for i in range(len(self.sizes))]
        if not all(adjacent(layout, f"{layer}.weight", f"{layer}.bias") for layer in layers):
            return None
        return lambda values, X: _ClosedFormNetwork(values, X, layers, self.activations)

    def _is_low_rank(self, fan_in: int, fan_out: int) -> bool:
        return self.rank is not None and self.rank < min(fan_in, fan_out)

    def _start(self, X: Tensor, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """Starting values of all layers by name, leaves (count, *shape), by the law in the class's docstring."""
        inputs = X.detach().cpu()
        H = inputs[torch.randperm(len(inputs), generator=generator)[:_ROWS_AT_START]]
        values = {}
        for i, (name, fan_out) in enumerate(zip(self.activations, self.sizes, strict=True)):
            fan_in = H.shape[-1]
            has_centres = i == 0 and name != "identity"
            sd = (self.scale if has_centres else ACTIVATIONS[name].gain) / math.sqrt(fan_in)
            if self._is_low_rank(fan_in, fan_out):
                assert self.rank is not None
                left = sd * _standard_normal((count, fan_in, self.rank), generator)
                right = _standard_normal((count, self.rank, fan_out), generator) / math.sqrt(self.rank)
                weight = left @ right
                values |= {f"{i}.left": left, f"{i}.right": right}
            else:
                weight = sd * _standard_normal((count, fan_in, fan_out), generator)
                values[f"{i}.weight"] = weight
            if has_centres:
                centres = inputs[torch.randint(len(inputs), (count, fan_out), generator=generator)]  # (count, fan_out, D)
                bias = -torch.einsum("cdq,cqd->cq", weight, centres)
            else:
                bias = -torch.einsum("cdq,cd->cq", weight, H.mean(-2).expand(count, fan_in))
            values[f"{i}.bias"] = bias
            H = ACTIVATIONS[name].function(affine(H, weight, bias))
        return {name: value.to(X.device) for name, value in values.items()}


def _standard_normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


class _ClosedFormNetwork:
    """H = σ_l(... σ_1(X W_1 + b_1) ...), with layers of full rank."""

    trained = True

    def __init__(self, values: Values, X: np.ndarray, layers: list[str], activations: tuple[str, ...]) -> None:
        self._layers: list[ClosedFormLayer] = []
        inputs = X
        for layer, activation in zip(layers, activations, strict=True):
            weights = values.joined(f"{layer}.weight", f"{layer}.bias")
            self._layers.append(ClosedFormLayer(*weights, inputs, activation, extended=layer != layers[-1]))
            inputs = self._layers[-1].outputs
        self.H = inputs

    def forward(self) -> None:
        for layer in self._layers:
            layer.forward()

    def backward(self, dH: np.ndarray) -> None:
        for layer in reversed(self._layers[1:]):
            dH = layer.backward(dH)
        self._layers[0].backward(dH, further=False)
