"""Descriptions (features, kernels, means, noise, warpings, priors) to JSON and back.

Only classes of this package's own list are ever built, and only by their constructors, so that loading runs no foreign code.
A torch.nn.Module is code: the file holds its tensors, and whoever loads the model brings the module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch

from manifoldgp import features, kernels, means, noise, parameters, warping
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.model import Model


def _known_classes() -> dict[str, type]:
    known: dict[str, type] = {}
    for module in (features, kernels, means, noise, parameters, warping):
        for name, thing in vars(module).items():
            if isinstance(thing, type) and is_dataclass(thing) and not name.startswith("_"):
                known[f"{module.__name__.split('.')[-1]}.{name}"] = thing
    known["model.Model"] = Model
    return known


_CLASSES = _known_classes()
_NAMES = {cls: name for name, cls in reversed(_CLASSES.items())}


def describe(thing: Any) -> Any:
    """Plain JSON data for a description, a number, a string, or a collection of these."""
    if isinstance(thing, torch.nn.Module):
        return {"module": type(thing).__name__}
    if isinstance(thing, np.generic):
        return thing.item()
    if thing is None or isinstance(thing, (bool, int, float, str)):
        return thing
    if isinstance(thing, (tuple, list)):
        return [describe(item) for item in thing]
    if isinstance(thing, dict):
        return {"items": {str(key): describe(value) for key, value in thing.items()}}
    if type(thing) in _NAMES:
        if not getattr(thing, "serialisable", True) and not isinstance(thing, features.Module) and not hasattr(thing, "parts"):
            raise InputError(
                f"{thing!r} holds a fitted scikit-learn object, which only pickle can store. Use joblib.dump(estimator, path), or features "
                "that this package can describe (PCA, RandomEmbedding, an affine transformer)."
            )
        return {"class": _NAMES[type(thing)], "fields": {f.name: describe(getattr(thing, f.name)) for f in fields(thing)}}
    raise InputError(f"{thing!r} (a {type(thing).__name__}) cannot be written to a model file; only pickle can store it.")


def rebuild(plain: Any, modules: Iterator[torch.nn.Module]) -> Any:
    """The description that :func:`describe` wrote. modules: supplies the torch modules, in the order in which they appear."""
    if isinstance(plain, list):
        return tuple(rebuild(item, modules) for item in plain)
    if not isinstance(plain, dict):
        return plain
    if "module" in plain:
        module = next(modules, None)
        if module is None:
            raise InputError(
                f"This model uses your own torch module {plain['module']!r}. Give it to load: load(path, modules=[{plain['module']}(...)])."
            )
        if type(module).__name__ != plain["module"]:
            raise InputError(f"This model needs a module of class {plain['module']!r}; load got a {type(module).__name__!r}.")
        return module
    if "items" in plain:
        return {key: rebuild(value, modules) for key, value in plain["items"].items()}
    cls = _CLASSES.get(plain.get("class", ""))
    if cls is None:
        raise FileFormatError(f"The file names an unknown part {plain.get('class')!r}. It may come from a newer version.")
    try:
        return cls(**{name: rebuild(value, modules) for name, value in plain["fields"].items()})
    except TypeError as error:
        raise FileFormatError(f"The file's description of {plain['class']} does not fit this version: {error}") from error
