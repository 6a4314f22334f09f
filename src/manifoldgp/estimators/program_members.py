"""Mean and variance of the members of a group, and the components they bring to the mixtures."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from manifoldgp.errors import InputError
from manifoldgp.estimators.program_groups import BLOCK_ROWS, Group
from manifoldgp.parameters import Tree
from manifoldgp.predictor.covariance import Covariance
from manifoldgp.predictor.rows import Rows
from manifoldgp.predictor.target_warping import hermite
from manifoldgp.predictor.writer import Writer
from manifoldgp.warping import NoWarping, TanhWarping

_LOST = 1e-2
"""The share of the noise variance that rounding may change, by a bound that it stays far below, before products are improved."""


@dataclass(frozen=True)
class Moments:
    """Slots of mean and variance (R, n), or (n,) for R = 1; in the units of y, less the target's offset."""

    mean: int
    variance: int


@dataclass(frozen=True)
class Components:
    """R components of the targets' mixtures: with noise, and without. owner, weights, spreads (R,): target, w, w times variance factor.

    members: with noise, without a factor and before a target is unwarped; weights may follow the variance there. log_usual (R,): of its usual size.
    """

    observed: Moments
    latent: Moments
    owner: np.ndarray
    weights: np.ndarray
    spreads: np.ndarray
    members: Moments
    log_usual: np.ndarray


def components_of(group: Group, X: Rows) -> list[Components]:
    """What a group brings: its members; or, where targets are warped, its members once for each variance factor."""
    warping = group.model.warping
    if not isinstance(warping, (NoWarping, TanhWarping)):
        raise InputError(f"A predictor cannot express the target warping {warping!r}. Use None or 'tanh'.")
    warped = isinstance(warping, TanhWarping)
    scale = np.ones(1) if warped else group.scale
    observed, latent = _moments(group, X, scale)
    usual = group.log_usual + np.log(scale**2)
    if not warped:
        weights, spreads = group.weights.sum(1), group.weights @ group.factors
        return [Components(observed, latent, group.owner, weights, spreads, observed, usual)]
    found = []
    for factor, weights in zip(group.factors, group.weights.T, strict=True):
        if weights.any():
            with_noise, without = (_unwarped(group, X, moments, float(factor)) for moments in (observed, latent))
            found.append(Components(with_noise, without, group.owner, weights, weights, observed, usual))
    return found


def _moments(group: Group, X: Rows, scale: np.ndarray) -> tuple[Moments, Moments]:
    """scale · p(f | D) with noise and without; scale (R,) is folded into the weights."""
    model, values, writer = group.model, group.values, X.writer
    H = model.features.program(values.get("features", {}), X)
    k = model.kernel.program(values.get("kernel", {}), group.points, H)
    factor = scale * k.factor
    mean = writer.do("weighted", k.slot, writer.vector(factor[:, None] * group.alpha, keep_members=True))
    points = H if model.mean.on == "features" else X
    added, constant = model.mean.program(values.get("mean", {}), points).scaled(scale[:, None]).column()
    if added is not None:
        mean = writer.do("add", mean, added.slot)
    if constant.any():
        mean = writer.do("add", mean, writer.constant(constant[:, None]))
    explained, prior = _explained(group, k, factor, writer), k.diagonal.slot_of(writer, scale**2)
    noise = writer.constant((scale**2 * group.noise)[:, None]), writer.plain(np.zeros(1))
    observed, latent = (Moments(mean, writer.do("variance", explained, prior, added)) for added in noise)
    return observed, latent


def _explained(group: Group, k: Covariance, factor: np.ndarray, writer: Writer) -> int:
    """The slot of |T (factor · k)|² (R, n), T = L⁻¹.

    Where covariances are far larger than the noise, products with T lose the digits that the variance is made of. Then v = T k is improved once, v + T (k − L v), which
    has them, at three times the cost.
    """
    T, L, N = factor[:, None, None] * group.whitener, group.factor, group.whitener.shape[-1]
    if L is None or (_rounding(group.whitener, L, k.factor, group.noise) <= _LOST).all():
        blocks = [writer.constant(block, keep_members=True) for block in _row_blocks(group.whitener, factor)]
        return writer.do("explained", k.slot, *blocks)
    K, T, back = Rows.of(writer, k.slot, N), np.swapaxes(T, -1, -2), np.swapaxes(L / factor[:, None, None], -1, -2)
    v = Rows.of(writer, K.times(T).slot(), N)
    missed = Rows.of(writer, K.plus(v.times(-back)).slot(), N)
    return v.plus(missed.times(T)).square_sum().slot


def _rounding(T: np.ndarray, L: np.ndarray, size: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """A bound (R,) of what rounding adds to |T k|² near training rows, relative to the noise variance: 2 ε Σ_i |v_i| Σ_j |T_ij| |k_j|, v about a row of L, |k_j| up to ``size``."""
    sums = np.abs(T).sum(-1, keepdims=True)
    return 2 * np.finfo(float).eps * size * (np.abs(L) @ sums)[..., 0].max(-1) / noise


def _row_blocks(whitener: np.ndarray, factor: np.ndarray) -> list[np.ndarray]:
    """factor · T, lower triangular, as blocks of rows without the zeros beyond the diagonal, transposed: (R, columns, rows)."""
    N = whitener.shape[-1]
    edges = np.linspace(0, N, 1 + max(1, round(N / BLOCK_ROWS))).astype(int)
    blocks = []
    for first, last in pairwise(edges):
        rows = np.ascontiguousarray(factor[:, None, None] * whitener[:, first:last, :last])
        blocks.append(np.swapaxes(rows, -1, -2))
    return blocks


def _unwarped(group: Group, X: Rows, moments: Moments, factor: float) -> Moments:
    """Moments of scale · g⁻¹(z)."""
    writer, warping = X.writer, group.values["warping"]
    shape = [writer.constant(warping[name][:, None, :]) for name in ("height", "steepness", "centre")]
    nodes, weights = map(writer.plain, hermite())
    variance = moments.variance
    if factor != 1.0:
        variance = writer.do("multiply", variance, writer.plain(np.array([factor])))
    both = writer.do("warped_moments", moments.mean, variance, *shape, nodes, weights)
    scale = group.scale[:, None]
    first, spread = (writer.do("multiply", writer.do("pick", both, index=i), writer.constant(scale ** (i + 1))) for i in (0, 1))
    return Moments(first, spread)


def rows_in_work(group: Group) -> int:
    """Numbers (about) that one row of X needs while a group is worked on."""
    return group.alpha.size * max(1, _components(group.values.get("kernel", {})))


def _components(tree: Tree) -> int:
    """The largest number of components of a spectral mixture in a kernel's values."""
    own = tree["weights"].shape[-1] if "frequency" in tree else 1
    return max([own, *(_components(value) for value in tree.values() if isinstance(value, dict))])
