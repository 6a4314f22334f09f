"""Features made of features: side by side, one after the other, and around the identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.features.convert import as_features
from manifoldgp.features.feature_map import Features
from manifoldgp.parameters import Layout, Prior, Tree, map_leaves
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register


@register("features.Concatenate")
@dataclass(frozen=True, init=False)
class Concatenate(Features):
    """H = [M_1(X), M_2(X), ...]: several features side by side, ``Concatenate(Identity(), MLP((6, 2)))`` for [x, net(x)].

    Its parameters: ``{"0": ..., "1": ...}``, one tree a part.

    Parameters
    ----------
    parts
        Features, or what `as_features` turns into features.
    """

    parts: tuple[Features, ...]

    def __init__(self, *args: Any, parts: Sequence[Any] | None = None) -> None:
        object.__setattr__(self, "parts", _parts("Concatenate", args, parts))

    def parameters(self, X: Tensor) -> Tree:
        return {str(i): part.parameters(X) for i, part in enumerate(self.parts)}

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        H = [part(values.get(str(i), {}), X) for i, part in enumerate(self.parts)]
        if any(h.ndim > 2 for h in H):
            batch = np.broadcast_shapes(*(h.shape[:-2] for h in H))
            H = [h.expand(*batch, *h.shape[-2:]) for h in H]
        return torch.cat(H, -1)

    def _program(self, values: Tree, X: Rows) -> Rows:
        return Rows.side_by_side([part.program(values.get(str(i), {}), X) for i, part in enumerate(self.parts)])

    def priors_beside(self) -> Mapping[str, Prior]:
        return {name: prior for part in self.parts for name, prior in part.priors_beside().items()}

    @property
    def uses_unlabelled(self) -> bool:
        return any(part.uses_unlabelled for part in self.parts)

    def bind(self, X: Tensor) -> Concatenate:
        return Concatenate(parts=tuple(part.bind(X) for part in self.parts))

    def already_learnt(self) -> Concatenate:
        return Concatenate(parts=tuple(part.already_learnt() for part in self.parts))


@register("features.Chain")
@dataclass(frozen=True, init=False)
class Chain(Features):
    """H = (M_l ∘ ... ∘ M_1)(X): each part works on the features before it. Also written ``PCA(3) >> MLP((6, 2))``.

    Its parameters: ``{"0": ..., "1": ...}``, one tree a part. What a later part takes from its inputs (its initial law, the matrix of a PCA) it takes
    from one draw of the starting values of the parts before it, always the same draw.

    Parameters
    ----------
    parts
        Features, or what `as_features` turns into features; chains inside are unrolled.
    """

    parts: tuple[Features, ...]

    def __init__(self, *args: Any, parts: Sequence[Any] | None = None) -> None:
        unrolled = (p.parts if isinstance(p, Chain) else (p,) for p in _parts("Chain", args, parts))
        object.__setattr__(self, "parts", tuple(part for group in unrolled for part in group))

    def parameters(self, X: Tensor) -> Tree:
        tree, H = {}, X
        for i, part in enumerate(self.parts):
            tree[str(i)] = part.parameters(H)
            if i + 1 < len(self.parts):
                H = _at_start(part, tree[str(i)], H)
        return tree

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        H = X
        for i, part in enumerate(self.parts):
            H = part(values.get(str(i), {}), H)
        return H

    def _program(self, values: Tree, X: Rows) -> Rows:
        H = X
        for i, part in enumerate(self.parts):
            H = part.program(values.get(str(i), {}), H)
        return H

    def priors_beside(self) -> Mapping[str, Prior]:
        return self.parts[-1].priors_beside()

    @property
    def uses_unlabelled(self) -> bool:
        return self.parts[0].uses_unlabelled  # later ones see features of the rows with targets

    def bind(self, X: Tensor) -> Chain:
        bound, H = [], X
        for i, part in enumerate(self.parts):
            bound.append(part.bind(H))
            if i + 1 < len(self.parts):
                H = _at_start(bound[i], bound[i].parameters(H), H)
        return Chain(parts=tuple(bound))

    def already_learnt(self) -> Chain:
        return Chain(parts=tuple(part.already_learnt() for part in self.parts))


@register("features.Residual")
@dataclass(frozen=True)
class Residual(Features):
    """H = X + M(X), for inner features with as many outputs as inputs. Its parameters: ``{"inner": ...}``."""

    inner: Features

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", _part("Residual", self.inner))

    def parameters(self, X: Tensor) -> Tree:
        return {"inner": self.inner.parameters(X)}

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        H = self.inner(values.get("inner", {}), X)
        if H.shape[-1] != X.shape[-1]:
            raise InputError(
                f"Residual adds features to inputs, so their numbers must agree: the inputs have {X.shape[-1]} columns, "
                f"{self.inner} gives {H.shape[-1]}. Change its last size to {X.shape[-1]}, or use Concatenate."
            )
        return X + H

    def _program(self, values: Tree, X: Rows) -> Rows:
        return X.plus(self.inner.program(values.get("inner", {}), X))

    def priors_beside(self) -> Mapping[str, Prior]:
        return self.inner.priors_beside()

    @property
    def uses_unlabelled(self) -> bool:
        return self.inner.uses_unlabelled

    def bind(self, X: Tensor) -> Residual:
        return Residual(self.inner.bind(X))

    def already_learnt(self) -> Residual:
        return Residual(self.inner.already_learnt())


def _parts(owner: str, args: tuple[Any, ...], parts: Sequence[Any] | None) -> tuple[Features, ...]:
    if args and parts is not None:
        raise InputError(f"Give the parts of {owner} as arguments or as parts=(...), not both.")
    given = args if parts is None else tuple(parts)
    if not given:
        raise InputError(f"{owner} needs at least one part.")
    return tuple(_part(owner, part) for part in given)


def _part(owner: str, given: Any) -> Features:
    part = as_features(given)
    if type(part).penalty is not Features.penalty:
        raise InputError(
            f"{part!r} adds a penalty of its own to what training minimises, which {owner} does not hand on. Use these features alone, or plain ones inside {owner}."
        )
    return part


def _at_start(features: Features, tree: Tree, X: Tensor) -> Tensor:
    """H (N, Q) at one draw of the starting values, the same in every call."""
    values = Layout(tree).draw(torch.Generator().manual_seed(0), 1)
    with torch.no_grad():
        return features(map_leaves(lambda value: value[0], values), X)
