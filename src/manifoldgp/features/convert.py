"""From what people have at hand to features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from manifoldgp.errors import InputError
from manifoldgp.features.feature_map import Features
from manifoldgp.features.module import Module
from manifoldgp.features.network import MLP
from manifoldgp.features.projections import Identity
from manifoldgp.features.transformer import Transformer
from manifoldgp.registry import shorthands


def as_features(thing: Any) -> Features:
    """Features as they are; None as :class:`Identity`; layer sizes as an :class:`MLP`; a ``torch.nn.Module`` as :class:`Module`;
    a scikit-learn transformer as :class:`Transformer`.

    >>> as_features((6, 2))
    MLP(sizes=(6, 2), activation='sigmoid', rank=None, scale=2.0, sparsity=None)

    >>> as_features(torch.nn.Linear(3, 2))
    Module(module=Linear(in_features=3, out_features=2, bias=True), restarts='reset', batching='auto')
    """
    if isinstance(thing, Features):
        return thing
    if thing is None:
        return Identity()
    if isinstance(thing, str) and thing in (known := shorthands(Features)):
        return known[thing]()
    if isinstance(thing, (tuple, list, np.ndarray)):
        return MLP(tuple(thing))
    if isinstance(thing, torch.nn.Module):
        return Module(thing)
    if not isinstance(thing, type) and hasattr(thing, "fit") and (hasattr(thing, "transform") or hasattr(thing, "fit_transform")):
        return Transformer(thing)
    hint = f" Did you mean an instance, {thing.__name__}(...)?" if isinstance(thing, type) else ""
    raise InputError(
        f"Features, layer sizes such as (6, 2), a torch.nn.Module, a scikit-learn transformer or None expected, got {thing!r}.{hint}"
    )
