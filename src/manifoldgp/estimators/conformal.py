"""Intervals: those of the predictive distribution, or conformal ones, whose coverage is guaranteed whatever the model.

split        scores s_i = |y_i − m(x_i)| / σ(x_i) of n rows that the model has not seen; m(x) ± σ(x) times the ⌈level (n + 1)⌉-th smallest score.
jackknife+   R_i = |y_i − m₋ᵢ(x_i)| of the N training rows, each left out; between the ⌊(1 − level) (N + 1)⌋-th smallest m₋ᵢ(x) − R_i and the
             ⌈level (N + 1)⌉-th smallest m₋ᵢ(x) + R_i (Barber et al. 2021). In closed form, m₋ᵢ(x) = m(x) − (A⁻¹ k(x))ᵢ αᵢ / (A⁻¹)ᵢᵢ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.estimators import predictions
from manifoldgp.estimators.units import as_columns, model_inputs
from manifoldgp.inference.ensemble import Ensemble, TargetPredictor
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.warping import NoWarping

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.units import Predicting

WAYS = ("split", "jackknife+")
NEEDS_EXACT = "conformal='jackknife+' needs the closed form of an exact model without target warping. Use conformal='split' with calibration=(X, y)."
_CHUNK, _NUMBERS = 64, 2**24
"""Rows of X at a time, fewer where members and training rows are so many that each of them with every other would be more numbers."""


def intervals(
    estimator: Predicting, X: Table, level: float, conformal: str | None, calibration: tuple[Table, ArrayLike] | None
) -> np.ndarray:
    """Lower and upper bounds at X: (n, 2), or (n, 2, O)."""
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, such as 0.95; got {level!r}.")
    if conformal not in (None, *WAYS):
        raise InputError(f"conformal must be None or one of {', '.join(map(repr, WAYS))}; got {conformal!r}.")
    if (conformal == "split") != (calibration is not None):
        raise InputError(
            "conformal='split' needs calibration=(X, y), rows that the model was not fitted on; and calibration is for conformal='split' only."
        )
    if conformal is None:
        return predictions.quantiles(estimator, X, (0.5 - level / 2, 0.5 + level / 2), False, None)
    return _split(estimator, X, level, calibration) if calibration is not None else _jackknife(estimator, X, level)


def _split(estimator: Predicting, X: Table, level: float, calibration: tuple[Table, ArrayLike]) -> np.ndarray:
    seen, observed = calibration
    outputs = estimator.n_outputs_
    mean, std = (np.asarray(a).reshape(-1, outputs) for a in predictions.moments(estimator, seen, True, False, None))
    scores = np.sort(np.abs(inputs.target_table(estimator, observed, len(mean)) - mean) / std, axis=0)
    width = scores[_rank(len(scores), level, "calibration rows") - 1]
    mean, std = (np.asarray(a).reshape(-1, outputs) for a in predictions.moments(estimator, X, True, False, None))
    bounds = np.stack([mean - width * std, mean + width * std], 1)
    return bounds[..., 0] if estimator._flat else bounds


def _jackknife(estimator: Predicting, X: Table, level: float) -> np.ndarray:
    U = model_inputs(estimator, X)
    return as_columns(estimator, [_jackknife_of(ensemble, U, level) for ensemble in estimator.ensembles_])


def _jackknife_of(ensemble: TargetPredictor, U: Tensor, level: float) -> Tensor:
    """Bounds (n, 2) of one target."""
    if not isinstance(ensemble, Ensemble):
        raise InputError(NEEDS_EXACT)
    blocks = [_exact(block) for block in ensemble.blocks]
    N = blocks[0].rows
    rank = _rank(N, level, "training rows")
    y = blocks[0].data.y
    ensemble = replace(ensemble, blocks=blocks)
    precisions = [torch.linalg.solve_triangular(block.L, _unit(block), upper=False).square().sum(-2) for block in blocks]
    # m₋ᵢ(x_i) = z_i − α_i / (A⁻¹)_ii with the variance 1 / (A⁻¹)_ii, averaged over the members
    weights = ensemble.member_weights_at([1.0 / p for p in precisions])
    left_out = torch.stack([(w * (b.z - b.alpha / p)).sum(0) for w, b, p in zip(weights, blocks, precisions, strict=True)]).sum(0)
    error = (y - left_out).abs()[:, None]
    bounds = []
    for part in U.split(max(1, min(_CHUNK, _NUMBERS // (N * sum(block.members for block in blocks))))):
        means = _left_out_means(ensemble, [_left_out(b, p, part) for b, p in zip(blocks, precisions, strict=True)])
        low, high = (means - error).sort(0).values[N - rank], (means + error).sort(0).values[rank - 1]
        bounds.append(torch.stack([low, high], -1))
    return ensemble.offset + ensemble.scale * torch.cat(bounds)


def _left_out(block: Posterior, precision: Tensor, U: Tensor) -> tuple[Tensor, Tensor]:
    """m₋ᵢ(x) and v₋ᵢ(x) (R, N, n) of a block's members: mean and variance of f at x without row i."""
    with torch.no_grad():
        mean, variance, V = block.moments(U)
        solved = torch.linalg.solve_triangular(block.L.mT, V, upper=True)  # A⁻¹ k(x)
        missed = solved / precision[:, :, None]
        return mean[:, None, :] - block.alpha[:, :, None] * missed, variance[:, None, :] + missed * solved


def _left_out_means(ensemble: Ensemble, found: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Σ_s w_s m₋ᵢ(x) (N, n), with the weights of the ensemble without row i at x. found: m₋ᵢ(x) and v₋ᵢ(x) of each block."""
    shape = found[0][0].shape[1:]
    flat = [(mean.flatten(1), variance.flatten(1)) for mean, variance in found]
    weights = ensemble.member_weights_at(ensemble.observed([variance for _, variance in flat]))
    return torch.stack([(w * mean).sum(0) for w, (mean, _) in zip(weights, flat, strict=True)]).sum(0).unflatten(0, shape)


def _unit(block: Posterior) -> Tensor:
    return torch.eye(block.rows, dtype=block.L.dtype, device=block.L.device).expand_as(block.L)


def _exact(block: Conditioned) -> Posterior:
    block = block.whole()
    if not isinstance(block, Posterior) or not isinstance(block.model.warping, NoWarping):
        raise InputError(NEEDS_EXACT)
    return block


def _rank(n: int, level: float, rows: str) -> int:
    """⌈level (n + 1)⌉, or an error where n rows are too few for this level."""
    rank = math.ceil(level * (n + 1) - 1e-9)
    if rank > n:
        raise InputError(
            f"Intervals of level {level:g} need at least {math.ceil(level / (1 - level) - 1e-9)} {rows}; there are {n}. Use a lower level."
        )
    return rank
