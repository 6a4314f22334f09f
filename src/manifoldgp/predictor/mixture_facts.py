"""What a predictor's file tells of the members of its mixtures, checked: whose they are, what they weigh, how their weights follow variances, and how their targets are warped."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldgp.errors import FileFormatError
from manifoldgp.predictor.operations_mixtures import MOST_CERTAIN

_ALWAYS, _FOLLOWING = {"owner", "weights", "factors", "origins"}, {"exponents", "following", "log_usual"}
_WARPED = {"scales", "height", "steepness", "centre"}

MOST_TERMS, MOST_FACTORS = 100, 1000
"""Terms of a warping, and variance factors: each costs a pass over all members at every row."""

_ROUNDING = 1e-6
"""By how much the weights of a target may miss one."""

_LARGEST_LOG = 2100.0
"""Size of the logarithm of a usual variance: those of model files are below 600, and beside them is the square of a scale, which is a number."""

_STEEPEST, _LARGEST_SCALE = 1e50, 1e150
"""Heights and steepnesses up to which a slope is a number by any scale; and the scale up to which its square is one, as that of one divided by it."""


def check_mixture(mixture: dict[str, Any], outputs: int) -> None:
    """Refuse members without a target or weights of their own, targets without members, and weights that follow variances, or warpings, in no way that a fit finds."""
    told = set(mixture)
    if not told >= _ALWAYS or told - _ALWAYS not in (set(), _FOLLOWING, _WARPED, _FOLLOWING | _WARPED):
        raise FileFormatError(
            f"The file's mixture should have {', '.join(sorted(_ALWAYS))}, and all or none of {', '.join(sorted(_FOLLOWING))}, and of {', '.join(sorted(_WARPED))}; "
            f"it has {', '.join(sorted(mixture))}. It is damaged or forged."
        )
    owner, members = mixture["owner"], len(mixture["owner"])
    if not all(type(target) is int and 0 <= target < outputs for target in owner) or len(set(owner)) < outputs:
        raise FileFormatError(
            f"The file's members should be of {outputs} targets, counted from 0, and each target should have some. It is damaged or forged."
        )
    count = len(mixture["factors"])
    if count > MOST_FACTORS:
        raise FileFormatError(
            f"The file has {count} variance factors; no model has more than {MOST_FACTORS}. It is damaged or forged."
        )
    weights, factors = _numbers(mixture["weights"], members, count), _numbers(mixture["factors"], count)
    _numbers(mixture["origins"], outputs)
    totals = np.bincount(owner, weights.sum(1))
    if not ((weights >= 0.0).all() and (factors > 0.0).all() and (np.abs(totals - 1.0) < _ROUNDING).all()):
        raise FileFormatError(
            "The file's members should have weights that sum to one for each target, and positive factors. It is damaged or forged."
        )
    if "exponents" in mixture:
        _check_following(mixture, outputs, members)
    if "scales" in mixture:
        _check_warpings(mixture, members)


def _check_following(mixture: dict[str, Any], outputs: int, members: int) -> None:
    exponents, shares = (_numbers(mixture[name], outputs) for name in ("exponents", "following"))
    usual = _numbers(mixture["log_usual"], members)
    powers = (exponents >= 0.0).all() and (exponents <= MOST_CERTAIN).all()
    if not (powers and (shares >= 0.0).all() and (shares <= 1.0).all() and (np.abs(usual) <= _LARGEST_LOG).all()):
        raise FileFormatError(
            f"The file's weights should follow powers of variances from 0 to {MOST_CERTAIN:g} in shares from 0 to 1, beside variances that are numbers. It is damaged or forged."
        )


def _check_warpings(mixture: dict[str, Any], members: int) -> None:
    """Of functions that grow everywhere, by slopes that are numbers."""
    terms = len(mixture["height"][0])
    if terms > MOST_TERMS:
        raise FileFormatError(
            f"The file's warpings have {terms} terms; none has more than {MOST_TERMS}. It is damaged or forged."
        )
    scales = _numbers(mixture["scales"], members)
    height, steepness, _ = (_numbers(mixture[name], members, terms) for name in ("height", "steepness", "centre"))
    squares = (scales >= 1.0 / _LARGEST_SCALE).all() and (scales <= _LARGEST_SCALE).all()
    grows = (height >= 0.0).all() and (height <= _STEEPEST).all() and (steepness > 0.0).all() and (steepness <= _STEEPEST).all()
    if not (squares and grows):
        raise FileFormatError(
            f"The file's warpings should have positive scales whose squares are numbers, heights from 0 to {_STEEPEST:g}, and positive steepnesses up to that. It is damaged or forged."
        )


def _numbers(plain: Any, *shape: int) -> np.ndarray:
    """Finite numbers of a file, which must have this shape."""
    array = np.array(plain, dtype=object)
    if array.shape != shape or any(type(number) not in (int, float) for number in array.flat):
        raise FileFormatError(
            f"The file's members should have numbers of shape {shape}, which do not fit. It is damaged or forged."
        )
    found = array.astype(np.float64)
    if not np.isfinite(found).all():
        raise FileFormatError("The file's members should have finite numbers, which do not fit. It is damaged or forged.")
    return found
