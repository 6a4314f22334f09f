"""Torch modules called with values of ours, and as programs: linear layers and transfer functions, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.func import functional_call

from manifoldgp.errors import InputError
from manifoldgp.parameters import Tree
from manifoldgp.predictor.rows import Rows

_IN_USE = threading.RLock()


def called_with(
    module: nn.Module, values: Mapping[str, Tensor], inputs: tuple[Any, ...], named: Mapping[str, Any] | None = None
) -> Any:
    """module(*inputs) with these values in place of its parameters. PyTorch puts them into the module while it is called, so that threads take turns."""
    with _IN_USE:
        return functional_call(module, dict(values), inputs, dict(named or {}))


def module_rows(module: nn.Module, values: Tree, X: Rows) -> Rows:
    """module(X), for values with leaves (R, *shape) under the module's own names."""
    if type(module) is nn.Sequential:
        for name, part in module.named_children():
            X = module_rows(part, values.get(name, {}), X)
        return X
    if type(module) is nn.Linear:
        H = X.times(np.swapaxes(values["weight"], -1, -2))
        return H.shifted(values["bias"]) if "bias" in values else H
    translate = _LAYERS.get(type(module))
    if translate is None:
        known = ", ".join(sorted({"Sequential", "Linear", *(layer.__name__ for layer in _LAYERS)}))
        raise InputError(
            f"A predictor cannot express the torch module {type(module).__name__}. It knows {known}; build the features from these, use "
            "MLP(...), or predict with the model itself."
        )
    return translate(module, X)


def _softplus(module: Any, X: Rows) -> Rows:
    if (module.beta, module.threshold) != (1, 20):
        raise InputError(
            f"A predictor knows Softplus with beta=1 and threshold=20 only; got {module!r}. Use that, or another transfer function."
        )
    return X.through("softplus")


_LAYERS: dict[type[nn.Module], Callable[[Any, Rows], Rows]] = {
    nn.Identity: lambda module, X: X,
    nn.Dropout: lambda module, X: X,  # features hold it in eval mode only, where it does nothing
    nn.Tanh: lambda module, X: X.through("tanh"),
    nn.Sigmoid: lambda module, X: X.through("sigmoid"),
    nn.ReLU: lambda module, X: X.through("relu"),
    nn.SiLU: lambda module, X: X.through("silu"),
    nn.LeakyReLU: lambda module, X: X.through("leaky_relu", slope=float(module.negative_slope)),
    nn.ELU: lambda module, X: X.through("elu", alpha=float(module.alpha)),
    nn.Softplus: _softplus,
}
