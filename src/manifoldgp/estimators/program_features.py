"""One translation for each class of features."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from manifoldgp import features
from manifoldgp.errors import InputError
from manifoldgp.estimators.program_modules import module_rows
from manifoldgp.estimators.program_rows import Rows
from manifoldgp.parameters import Tree

ACTIVATIONS = {"sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu", "softplus": "softplus", "sine": "sine"}
"""Operations of the transfer functions by name; the identity is none."""


def feature_rows(description: features.Features, values: Tree, X: Rows) -> Rows:
    """H = M(X), for values with leaves (R, *shape)."""
    translate = _TRANSLATIONS.get(type(description))
    if translate is None:
        raise InputError(
            f"A predictor cannot express {description!r}. Use features of this package, a torch.nn.Sequential of linear layers and "
            "transfer functions, or an affine scikit-learn transformer; or predict with the model itself."
        )
    return translate(description, values, X)


def _identity(description: Any, values: Tree, X: Rows) -> Rows:
    return X


def _network(description: features.MLP, values: Tree, X: Rows) -> Rows:
    H = X
    for i, name in enumerate(description.activations):
        layer = values[str(i)]
        H = H.times(layer["weight"]) if "weight" in layer else H.times(layer["left"]).times(layer["right"])
        H = H.shifted(layer["bias"])
        if name != "identity":
            H = H.through(ACTIVATIONS[name])
    return H


def _linear(description: features.Linear, values: Tree, X: Rows) -> Rows:
    H = X.times(values["weight"])
    return H.shifted(values["bias"]) if "bias" in values else H


def _fixed(description: Any, values: Tree, X: Rows) -> Rows:
    H = X.times(values["matrix"])
    return H.shifted(values["offset"]) if "offset" in values else H


def _nested(description: features.Nested, values: Tree, X: Rows) -> Rows:
    root = math.sqrt(X.width)
    units = X.times(values["inner"] / root).shifted(values["bias"]).through("tanh")
    net = X.times(values["skip"] / root).plus(units.times(values["outer"] / math.sqrt(description.hidden)))
    return Rows.side_by_side([X.scaled(1.0 / values["lengthscale"]), net])


def _kumaraswamy(description: features.Kumaraswamy, values: Tree, X: Rows) -> Rows:
    low, width = values["low"], values["high"] - values["low"]
    a, b = (X.writer.constant(values[name][:, None, :]) for name in ("a", "b"))
    end = description.margin / (1 + 2 * description.margin)
    return X.shifted(-low).scaled(1.0 / width).through("kumaraswamy", a, b, end=end).scaled(width).shifted(low)


def _concatenate(description: features.Concatenate, values: Tree, X: Rows) -> Rows:
    return Rows.side_by_side([feature_rows(part, values.get(str(i), {}), X) for i, part in enumerate(description.parts)])


def _chain(description: features.Chain, values: Tree, X: Rows) -> Rows:
    H = X
    for i, part in enumerate(description.parts):
        H = feature_rows(part, values.get(str(i), {}), H)
    return H


def _residual(description: features.Residual, values: Tree, X: Rows) -> Rows:
    return X.plus(feature_rows(description.inner, values.get("inner", {}), X))


def _module(description: features.Module, values: Tree, X: Rows) -> Rows:
    return module_rows(description.module, values, X)


_TRANSLATIONS: dict[type, Callable[[Any, Tree, Rows], Rows]] = {
    features.Identity: _identity,
    features.MLP: _network,
    features.Linear: _linear,
    features.FixedLinear: _fixed,
    features.PCA: _fixed,
    features.RandomEmbedding: _fixed,
    features.Nested: _nested,
    features.Kumaraswamy: _kumaraswamy,
    features.Concatenate: _concatenate,
    features.Chain: _chain,
    features.Residual: _residual,
    features.Module: _module,
}
