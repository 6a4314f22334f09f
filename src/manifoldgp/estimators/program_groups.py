"""Members of one architecture, of all targets: they are computed together, as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from manifoldgp.estimators.few_points import FewPoints
from manifoldgp.features import Identity
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.model import Model
from manifoldgp.parameters import Tree, leaves, nest

BLOCK_ROWS = 100
"""Rows of T in one product: fewer save more of the zeros beyond the diagonal, more save calls."""

_Few = Sequence[Sequence[Sequence[FewPoints | None]] | None] | None
"""Few points of each member of each block of each ensemble, where there are any."""


@dataclass(frozen=True)
class Group:
    """R members with the same model, posterior arrays stacked.

    values: leaves (R, *shape). points (R, N, Q), alpha (R, N), whitener (R, J, J) on the first J points, noise (R,): of the posteriors, exact (J = N), sparse, or with few points.
    factor (R, N, N): the inverse of the whitener, L; None of other than exact posteriors. of_rows: whether the points are features of training rows.
    owner (R,): the target of each. weights (R, F) and factors (F,): of its components. scale (R,): sd of its target. log_usual (R,): of its usual variance, where weights
    follow variances.
    """

    model: Model
    values: Tree
    points: np.ndarray
    alpha: np.ndarray
    whitener: np.ndarray
    factor: np.ndarray | None
    of_rows: bool
    noise: np.ndarray
    owner: np.ndarray
    weights: np.ndarray
    factors: np.ndarray
    scale: np.ndarray
    log_usual: np.ndarray


@dataclass(frozen=True)
class _Part:
    """Members of one block that carry weight: all that go through the rows they were conditioned on, or one that goes through few points."""

    block: Conditioned
    few: FewPoints | None
    weights: np.ndarray
    log_usual: np.ndarray
    target: int
    ensemble: Ensemble

    @property
    def points(self) -> torch.Tensor:
        return self.block.points if self.few is None else self.few.points[None]

    @property
    def alpha(self) -> torch.Tensor:
        return self.block.alpha if self.few is None else self.few.alpha[None]

    @property
    def whitener(self) -> torch.Tensor:
        return self.block.whitener() if self.few is None else self.few.whitener[None]

    @property
    def factor(self) -> torch.Tensor | None:
        return self.block.L if self.few is None and isinstance(self.block, Posterior) else None

    def like(self, other: _Part) -> bool:
        """Whether both can be computed together."""
        a, b = self.block.model, other.block.model
        sizes = [(part.points.shape[1:], None if part.few is None else len(part.few.whitener)) for part in (self, other)]
        return (
            (a.features, a.kernel, a.mean, a.warping) == (b.features, b.kernel, b.mean, b.warping)
            and sizes[0] == sizes[1]
            and self.ensemble.variance_factors == other.ensemble.variance_factors
        )


def grouped(ensembles: Sequence[Ensemble], few: _Few = None) -> list[Group]:
    """All members that carry weight, by architecture, in the order in which architectures first occur."""
    kinds: list[list[_Part]] = []
    for target, ensemble in enumerate(ensembles):
        points_of = None if few is None else few[target]
        for b, block in enumerate(ensemble.blocks):
            weights = ensemble.log_weights[b].exp().cpu().numpy().T
            usual = np.zeros(block.members) if ensemble.certainty is None else _numpy(ensemble.certainty.usual[b])
            kept: list[int] = np.flatnonzero(weights.sum(1) > 0).tolist()
            own = [None] * block.members if points_of is None else points_of[b]
            whole = [r for r in kept if own[r] is None]
            for rows, points in [(whole, None), *(([r], own[r]) for r in kept if own[r] is not None)]:
                if rows:
                    chosen = block.only(torch.as_tensor(rows, device=block.alpha.device))
                    _put(_Part(chosen, points, weights[rows], usual[rows], target, ensemble), kinds)
    return [_stacked(kind) for kind in kinds]


def rows_in_words(groups: Sequence[Group]) -> str:
    """What a program of these members holds of the training rows, in a sentence: who hands it on hands on that."""
    plain = [group for group in groups if isinstance(group.model.features, Identity)]
    told, of = (plain, "inputs (standardised)") if plain else (groups, "features")
    points = max(group.points.shape[1] for group in told)
    if any(group.factor is not None for group in told):
        return f"Holds the {of} of all {points:,} training rows, and weights from which their targets follow."
    if any(group.of_rows for group in told):
        return f"Holds the {of} of {points:,} training rows."
    return f"Holds the {of} of {points:,} points that stand for the training rows, and may be some of them."


def program_bytes(ensembles: Sequence[Ensemble], few: _Few = None) -> int:
    """About how large the program of these members is: T of each, in blocks of rows up to the diagonal, and its points."""
    total = 0
    for target, ensemble in enumerate(ensembles):
        points_of = None if few is None else few[target]
        for b, (block, weights) in enumerate(zip(ensemble.blocks, ensemble.member_weights(), strict=True)):
            for r in torch.nonzero(weights)[:, 0].tolist():
                own = None if points_of is None else points_of[b][r]
                M, Q = block.points.shape[1:] if own is None else own.points.shape
                J = M if own is None else len(own.whitener)
                total += member_bytes(J) + 8 * M * (Q + 1)
    return total


def member_bytes(points: int) -> int:
    """About how large T of one member is in a program, conditioned on so many points: blocks of rows up to the diagonal."""
    return 4 * points * (points + min(points, BLOCK_ROWS))


def _put(part: _Part, kinds: list[list[_Part]]) -> None:
    """Add a part to the kind that it is like, or begin another."""
    for kind in kinds:
        if kind[0].like(part):
            kind.append(part)
            return
    kinds.append([part])


def _stacked(parts: Sequence[_Part]) -> Group:
    named = [dict(leaves(part.block.values)) for part in parts]
    values = nest({name: np.concatenate([_numpy(own[name]) for own in named]) for name in named[0]})
    counts = [len(part.weights) for part in parts]
    factors = [part.factor for part in parts]
    return Group(
        model=parts[0].block.model,
        values=values,
        points=np.concatenate([_numpy(part.points) for part in parts]),
        alpha=np.concatenate([_numpy(part.alpha) for part in parts]),
        whitener=np.concatenate([_numpy(part.whitener) for part in parts]),
        factor=None if any(L is None for L in factors) else np.concatenate([_numpy(L) for L in factors if L is not None]),
        of_rows=any(isinstance(part.block, Posterior) for part in parts),
        noise=np.concatenate([_numpy(part.block.noise_variance()) for part in parts]),
        owner=np.repeat([part.target for part in parts], counts),
        weights=np.concatenate([part.weights for part in parts]),
        factors=np.array(parts[0].ensemble.variance_factors),
        scale=np.repeat([part.ensemble.scale for part in parts], counts),
        log_usual=np.concatenate([part.log_usual for part in parts]),
    )


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()
