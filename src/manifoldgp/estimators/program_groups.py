"""Members of one architecture, of all targets: they are computed together, as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.model import Model
from manifoldgp.parameters import Tree, leaves, nest


@dataclass(frozen=True)
class Group:
    """R members with the same model, posterior arrays stacked.

    values: leaves (R, *shape). points (R, N, Q), alpha (R, N), whitener (R, N, N), noise (R,): of the posteriors, exact or sparse.
    factor (R, N, N): the inverse of the whitener, L; None of sparse posteriors.
    owner (R,): the target of each. weights (R, F) and factors (F,): of its components. scale (R,): sd of its target.
    """

    model: Model
    values: Tree
    points: np.ndarray
    alpha: np.ndarray
    whitener: np.ndarray
    factor: np.ndarray | None
    noise: np.ndarray
    owner: np.ndarray
    weights: np.ndarray
    factors: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True)
class _Part:
    """The members of one block that carry weight."""

    block: Conditioned
    weights: np.ndarray
    target: int
    ensemble: Ensemble


def grouped(ensembles: Sequence[Ensemble]) -> list[Group]:
    """All members that carry weight, by architecture, in the order in which architectures first occur."""
    kinds: list[list[_Part]] = []
    for target, ensemble in enumerate(ensembles):
        for block, log_weights in zip(ensemble.blocks, ensemble.log_weights, strict=True):
            weights = log_weights.exp().cpu().numpy().T
            kept = np.flatnonzero(weights.sum(1) > 0)
            if not len(kept):
                continue
            part = _Part(block.only(torch.as_tensor(kept, device=block.alpha.device)), weights[kept], target, ensemble)
            for kind in kinds:
                if _same_architecture(kind[0], part):
                    kind.append(part)
                    break
            else:
                kinds.append([part])
    return [_stacked(kind) for kind in kinds]


def _same_architecture(one: _Part, other: _Part) -> bool:
    a, b = one.block.model, other.block.model
    return (
        (a.features, a.kernel, a.mean, a.warping) == (b.features, b.kernel, b.mean, b.warping)
        and one.block.points.shape[1:] == other.block.points.shape[1:]
        and one.ensemble.variance_factors == other.ensemble.variance_factors
    )


def _stacked(parts: Sequence[_Part]) -> Group:
    named = [dict(leaves(part.block.values)) for part in parts]
    values = nest({name: np.concatenate([_numpy(own[name]) for own in named]) for name in named[0]})
    counts = [len(part.weights) for part in parts]
    return Group(
        model=parts[0].block.model,
        values=values,
        points=np.concatenate([_numpy(part.block.points) for part in parts]),
        alpha=np.concatenate([_numpy(part.block.alpha) for part in parts]),
        whitener=np.concatenate([_numpy(part.block.whitener()) for part in parts]),
        factor=_factors([part.block for part in parts]),
        noise=np.concatenate([_numpy(part.block.noise_variance()) for part in parts]),
        owner=np.repeat([part.target for part in parts], counts),
        weights=np.concatenate([part.weights for part in parts]),
        factors=np.array(parts[0].ensemble.variance_factors),
        scale=np.repeat([part.ensemble.scale for part in parts], counts),
    )


def _factors(blocks: Sequence[Conditioned]) -> np.ndarray | None:
    exact = [_numpy(block.L) for block in blocks if isinstance(block, Posterior)]
    return np.concatenate(exact) if len(exact) == len(blocks) else None


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()
