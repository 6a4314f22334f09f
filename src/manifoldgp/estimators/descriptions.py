"""Descriptions (features, kernels, means, noise, warpings, priors) to JSON and back.

Only registered classes (:mod:`manifoldgp.registry`) and those listed here are ever built, and only by their constructors: loading runs no code that
the program did not bring along itself.
A torch.nn.Module is code: the file says where one belongs and holds its tensors, and whoever loads the model brings the module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

import numpy as np
import torch

from manifoldgp.averaging import AVERAGINGS
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.features import Features, Transformer
from manifoldgp.kernels import Kernel
from manifoldgp.means import Mean
from manifoldgp.model import Model
from manifoldgp.registry import defined_again, name_of, part_named
from manifoldgp.structure.search import Search
from manifoldgp.training.settings import METHODS

_SETTINGS: dict[str, type] = {
    "model.Model": Model,
    **{f"averaging.{cls.__name__}": cls for cls in AVERAGINGS.values()},
    "structure.Search": Search,
    **{f"method.{cls.__name__}": cls for cls in METHODS.values()},
}
"""What a file describes beside registered parts."""

_NAMES = {cls: name for name, cls in _SETTINGS.items()}
_OPTIONAL = {"integrations.GPyTorchKernel": "manifoldgp.integrations.gpytorch"}
"""Parts that need an extra: their module, which registers them, is imported when a file names one."""


def describe(thing: Any, where: str = "") -> Any:
    """Plain JSON data for a description, a number, a string, or a collection of these. where: its place, for the modules in it."""
    if thing is None or isinstance(thing, (bool, int, float, str)):
        return thing
    if isinstance(thing, (np.generic, np.ndarray)):
        return describe(thing.tolist(), where)
    if isinstance(thing, torch.nn.Module):
        return {"torch_module": type(thing).__name__, "where": where}
    if isinstance(thing, (tuple, list)):
        return [describe(item, f"{where}.{i}") for i, item in enumerate(thing)]
    if isinstance(thing, Mapping):
        if not all(isinstance(key, str) for key in thing):
            raise InputError(
                f"{thing!r} cannot be written to a model file: the keys of a dict must be text, and come back as it."
            )
        return {"items": {key: describe(value, f"{where}.{key}") for key, value in thing.items()}}
    if isinstance(thing, Transformer):
        raise InputError(
            f"{thing!r} holds a fitted scikit-learn object, which only pickle can store. Use joblib.dump(estimator, path), or features "
            "that this package can describe (PCA, RandomEmbedding, an affine transformer)."
        )
    name = _NAMES.get(type(thing)) or name_of(type(thing))
    if name is not None:
        named = {
            f.name: describe(getattr(thing, f.name), f"{where}.{f.name}")
            for f in fields(thing)
            if f.metadata.get("in_files", True)
        }
        return {"class": name, "fields": named}
    raise InputError(f"{thing!r} (a {type(thing).__name__}) cannot be written to a model file{_what_to_do(type(thing))}")


def _what_to_do(cls: type) -> str:
    if not issubclass(cls, (Features, Kernel, Mean)):
        return "; only pickle can store it."
    if defined_again(cls):
        return f": {cls.__name__} was defined again after this model was made. Fit the model again, with the class as it is now."
    return (
        f": files name registered parts only. Write @manifoldgp.register('yourproject.{cls.__name__}') above the @dataclass(frozen=True) of "
        f"{cls.__name__}; or use pickle."
    )


def rebuild(plain: Any, modules: Mapping[str, torch.nn.Module]) -> Any:
    """The thing that :func:`describe` described. modules: the torch modules by their place."""
    if isinstance(plain, list):
        return tuple(rebuild(item, modules) for item in plain)
    if not isinstance(plain, dict):
        return plain
    if "torch_module" in plain:
        return modules[plain["where"]]
    if "items" in plain:
        return {key: rebuild(value, modules) for key, value in plain["items"].items()}
    cls = _class_named(plain.get("class", ""))
    try:
        return cls(**{name: rebuild(value, modules) for name, value in plain["fields"].items()})
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"The file's description of {plain['class']} does not fit this version: {error}") from error


def _class_named(name: str) -> type:
    if name in _OPTIONAL:
        import_module(_OPTIONAL[name])
    cls = part_named(name) or _SETTINGS.get(name)
    if cls is None:
        raise FileFormatError(
            f"The file names an unknown part {name!r}. If it is a class of your own, import or define it before loading, with "
            f"@manifoldgp.register({name!r}) above it; otherwise the file may come from a newer version."
        )
    return cls


class ModulesError(InputError):
    """The modules given to load are not those that the file asks for: the call is wrong, not the file."""


def place_modules(plain: Any, given: list[torch.nn.Module]) -> dict[str, torch.nn.Module]:
    """The modules that whoever loads the model gave, by their place in the description; refuses others than those that belong there."""
    wanted = dict(_wanted_modules(plain))
    if [type(module).__name__ for module in given] != list(wanted.values()):
        needed = ", ".join(f"{name}(...)" for name in wanted.values())
        came = ", ".join(type(module).__name__ for module in given)
        raise ModulesError(
            f"This model {f'uses your own torch modules: load(path, modules=[{needed}])' if wanted else 'has no torch modules of yours'}; "
            f"load got modules=[{came}]."
        )
    return dict(zip(wanted, given, strict=True))


def _wanted_modules(plain: Any) -> Iterator[tuple[str, str]]:
    """Place and class name of every module in a description, in order."""
    if isinstance(plain, dict) and "torch_module" in plain:
        yield plain["where"], plain["torch_module"]
    elif isinstance(plain, (dict, list)):
        for part in plain.values() if isinstance(plain, dict) else plain:
            yield from _wanted_modules(part)
