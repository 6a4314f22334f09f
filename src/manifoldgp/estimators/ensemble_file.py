"""An ensemble to named tensors and back: training data, learnt values, factors, weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Any

import torch
from torch import Tensor

from manifoldgp._system.tensor_file import FINITE, LOG_VARIANCE, LOGARITHM, MODERATE, NOT_NEGATIVE, NUMBER, POSITIVE, take
from manifoldgp.errors import FileFormatError
from manifoldgp.estimators.descriptions import ModulesError, describe, rebuild
from manifoldgp.inference.certainty import Certainty
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.inference.local_posterior import FIRST_FEATURES, LocalPosterior, condition_locally
from manifoldgp.inference.neighbourhoods import MOST_NEAR, Nearness
from manifoldgp.inference.sparse_posterior import SparsePosterior
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Parameter, Tree, constant_law, leaves, nest
from manifoldgp.predictor.operations_mixtures import MOST_CERTAIN

_FIELDS: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Posterior: (("H", "z", "alpha", "jitter"), ("L",)),
    LocalPosterior: (("first_features",), ()),
    SparsePosterior: (("Z", "a", "alpha", "jitter", "bound"), ("L", "LB")),
}
"""Tensors of a block that a file holds: as they are, and as lower triangles."""

_ROUNDING = 1e-6


def pack(ensemble: Ensemble, name: str, tensors: dict[str, Tensor], factors: torch.dtype = torch.float64) -> dict[str, Any]:
    """Put the tensors of an ensemble into ``tensors``, under names that begin with ``name``; returns the rest, as plain data.

    factors: how the N x N factors of exact members are rounded; nothing else is.
    """
    data = ensemble.blocks[0].data
    tensors[f"{name}.X"], tensors[f"{name}.y"] = data.X, data.y
    if data.known_noise is not None:
        tensors[f"{name}.known_noise"] = data.known_noise
    for b, (block, log_weights) in enumerate(zip(ensemble.blocks, ensemble.log_weights, strict=True)):
        prefix = f"{name}.block{b}"
        whole, triangles = _FIELDS[type(block)]
        for field in triangles:
            rows, columns = _triangle(block.points.shape[-2])
            packed = getattr(block, field)[:, rows, columns]
            tensors[f"{prefix}.{field}"] = packed.to(factors) if isinstance(block, Posterior) else packed
        for field in whole:
            tensors[f"{prefix}.{field}"] = getattr(block, field)
        for leaf, value in leaves(block.values):
            tensors[f"{prefix}.values.{leaf}"] = value
        tensors[f"{prefix}.log_weights"] = log_weights
        if ensemble.certainty is not None:
            tensors[f"{prefix}.usual"] = ensemble.certainty.usual[b]
    nearness = [list(astuple(b.nearness)) if isinstance(b, LocalPosterior) else None for b in ensemble.blocks]
    return {
        "models": [describe(block.model) for block in ensemble.blocks],
        "rows": [
            block.rows if isinstance(block, SparsePosterior) else None for block in ensemble.blocks
        ],  # None: exact, or in cells
        "bound_rows": [block.bound_rows if isinstance(block, SparsePosterior) else None for block in ensemble.blocks],
        **({} if factors == torch.float64 else {"rounded": True}),
        **({"nearness": nearness} if any(nearness) else {}),
        **({} if ensemble.certainty is None else {"certainty": [ensemble.certainty.exponent, ensemble.certainty.share]}),
        "variance_factors": list(ensemble.variance_factors),
        "offset": ensemble.offset,
        "scale": ensemble.scale,
    }


def _certainty_of(plain: Any) -> tuple[float, float] | None:
    """By which exponent, and in which share, weights follow how sure members are, as a file says it."""
    if plain is None:
        return None
    numbers = isinstance(plain, list) and len(plain) == 2 and all(type(number) in (int, float) for number in plain)
    if not (numbers and 0.0 < plain[0] <= MOST_CERTAIN and 0.0 < plain[1] <= 1.0):
        raise FileFormatError(
            f"Weights follow how sure members are by a power between 0 and {MOST_CERTAIN:g}, in a share of at most 1; the file says {plain!r}."
        )
    return float(plain[0]), float(plain[1])


@torch.no_grad()
def rounding_loss(ensemble: Ensemble, factors: torch.dtype, rows: int = 200) -> tuple[float, float]:
    """By how much means of y change where factors are rounded, and its standard deviations, as shares of the latter: at most over some of the training rows.

    Means do where they depend on variances, by weights that follow them or by a warped target.
    """
    blocks = [
        replace(block, L=block.L.to(factors).to(block.L.dtype)) if isinstance(block, Posterior) else block
        for block in ensemble.blocks
    ]
    X = ensemble.blocks[0].data.X
    X = X[:: -(-len(X) // rows)]
    (mean, variance), (moved, other) = (e.predict(X).moments() for e in (ensemble, replace(ensemble, blocks=blocks)))
    changes = (moved - mean) / variance.sqrt(), (other / variance).sqrt() - 1.0
    of_means, of_stds = (float(torch.nan_to_num(change.abs(), nan=math.inf).max()) for change in changes)
    return of_means, of_stds


def unpack(plain: Any, name: str, tensors: Mapping[str, Tensor], modules: Mapping[str, torch.nn.Module], inputs: int) -> Ensemble:
    """The ensemble that :func:`pack` packed, every shape and dtype checked. modules: torch modules by place. inputs: D."""
    X = take(tensors, f"{name}.X", (-1, inputs))
    N = len(X)
    known = take(tensors, f"{name}.known_noise", (N,), domain=NOT_NEGATIVE) if f"{name}.known_noise" in tensors else None
    data = Data(X, take(tensors, f"{name}.y", (N,)), known)
    factors = tuple(map(float, plain["variance_factors"]))
    offset, scale = float(plain["offset"]), float(plain["scale"])
    if not (factors and math.isfinite(offset) and all(0.0 < number < math.inf for number in (scale, *factors))):
        raise FileFormatError(
            f"Scale and variance factors should be positive, and offsets finite; the file has {scale}, {factors} and {offset}."
        )
    certain = _certainty_of(plain.get("certainty"))
    blocks, log_weights, usual = [], [], []
    for b, described in enumerate(plain["models"]):
        model = rebuild(described, modules)
        prefix = f"{name}.block{b}."
        part = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        model = _bound(model, X) if modules else model
        rows, nearness = plain["rows"][b], plain["nearness"][b] if "nearness" in plain else None
        if nearness is not None:
            blocks.append(_unpack_local(model, part, data, nearness))
        elif rows is None:
            blocks.append(_unpack_block(model, part, data, plain.get("rounded") is True))
        else:
            blocks.append(_unpack_sparse(model, part, data, int(rows), int(plain["bound_rows"][b])))
        log_weights.append(take(part, "log_weights", (len(factors), blocks[-1].members), domain=LOGARITHM))
        if certain is not None:
            usual.append(take(part, "usual", (blocks[-1].members,), domain=LOG_VARIANCE))
    total = sum(float(block.exp().sum()) for block in log_weights)
    if not abs(total - 1.0) < _ROUNDING:
        raise FileFormatError(f"The weights of all members should sum to one; the file's sum to {total}.")
    certainty = None if certain is None else Certainty(certain[0], certain[1], usual)
    ensemble = Ensemble(blocks, log_weights, factors, offset, scale, certainty)
    _refuse_other_than_numbers(ensemble, X[:2])
    return ensemble


@torch.no_grad()
def _refuse_other_than_numbers(ensemble: Ensemble, X: Tensor) -> None:
    """Refuse values that overflow where the model was fitted: each of them may be a number, and what they give together none."""
    mean, variance = ensemble.predict(X).moments()
    if not bool((torch.isfinite(mean) & torch.isfinite(variance) & (variance > 0)).all()):
        raise FileFormatError(
            "The file's model does not predict finite numbers at its own training rows. The file is damaged or forged."
        )


def _unpack_block(model: Model, part: Mapping[str, Tensor], data: Data, rounded: bool) -> Posterior:
    N = len(data.y)
    alpha = take(part, "alpha", (-1, N), domain=MODERATE)
    R = len(alpha)
    H = take(part, "H", (R, N, -1))
    values = _unpack_values(model, part, data, H, {})
    Q = model.features_at(values, data.X[:1]).shape[-1]
    packed = take(part, "L", (R, N * (N + 1) // 2), torch.float32 if rounded else torch.float64, MODERATE)
    L = _from_triangle(packed.to(torch.float64), N)
    _refuse_other_numbers(model, values, data.X, H, L, tolerance=1e-5 if rounded else 1e-8)
    jitter = take(part, "jitter", (R,), domain=NOT_NEGATIVE)
    return Posterior(model, values, data, take(part, "H", (R, N, Q)), L, take(part, "z", (R, N)), alpha, jitter)


@torch.no_grad()
def _refuse_other_numbers(
    model: Model, values: Tree, X: Tensor, H: Tensor, L: Tensor | None = None, few: int = FIRST_FEATURES, tolerance: float = 1e-8
) -> None:
    """Refuse features or a kernel that do not compute here what they computed where the model was fitted: code of the user's that has changed since, say."""
    compared: list[tuple[object, Tensor, Tensor]] = [
        (model.features, model.features_at(values, X[:few]).expand(len(H), -1, -1), H[:, :few])
    ]
    if L is not None:
        corner = L[:, :few, :few]
        compared.append((model.kernel, model.matrix(values, H[:, :few]).tril(-1), (corner @ corner.mT).tril(-1)))
    for part, found, stored in compared:
        if not torch.allclose(found, stored, rtol=100 * tolerance, atol=tolerance * (1.0 + float(stored.abs().max()))):
            raise FileFormatError(
                f"{part!r} gives other numbers here than where the model was fitted. Its code has changed since, or it holds a torch module with "
                "other weights than then: load the model with those it was fitted with, or fit it again."
            )


def _unpack_local(model: Model, part: Mapping[str, Tensor], data: Data, plain: Any) -> LocalPosterior:
    H = take(part, "first_features", (-1, min(FIRST_FEATURES, len(data.y)), -1))
    values = _unpack_values(model, part, data, H, {})
    nearness = Nearness(*map(int, plain))
    if not 2 <= nearness.cell <= nearness.near <= MOST_NEAR:
        raise FileFormatError(
            f"Cells should have at least two rows, and no more than are near, {MOST_NEAR:,} at most; the file says {nearness}."
        )
    Q = model.features_at(values, data.X[:1]).shape[-1]
    _refuse_other_numbers(model, values, data.X, take(part, "first_features", (*H.shape[:2], Q)))
    return condition_locally(model, values, data, nearness)


def _unpack_sparse(model: Model, part: Mapping[str, Tensor], data: Data, rows: int, bound_rows: int) -> SparsePosterior:
    alpha = take(part, "alpha", (-1, -1), domain=MODERATE)
    R, J = alpha.shape
    Z = take(part, "Z", (R, J, -1))
    inducing = {"inducing": {"Z": Parameter(tuple(Z.shape[1:]), constant_law(Z[0]))}}
    values = _unpack_values(model, part, data, Z, inducing)
    Q = model.features_at(values, data.X[:1]).shape[-1]
    L, LB = (_from_triangle(take(part, field, (R, J * (J + 1) // 2), domain=MODERATE), J) for field in ("L", "LB"))
    jitter, bound = take(part, "jitter", (R,), domain=NOT_NEGATIVE), take(part, "bound", (R,))
    if rows < 1 or bound_rows < 1:
        raise FileFormatError(f"A sparse posterior is of at least one row; the file says {rows} and {bound_rows}.")
    a, Z = take(part, "a", (R, J), domain=MODERATE), take(part, "Z", (R, J, Q))
    return SparsePosterior(model, values, data, Z, L, LB, a, alpha, jitter, bound, rows, bound_rows)


def _unpack_values(model: Model, part: Mapping[str, Tensor], data: Data, H: Tensor, more: Tree) -> Tree:
    """Learnt values with the names, shapes and dtypes that the model says it has, and ``more``."""
    expected = dict(leaves({
        "features": model.features.parameters(data.X),
        "kernel": model.kernel.parameters(H[0]),
        "mean": model.mean.parameters(model.mean_points(data.X, H[0])),
        "noise": model.noise.parameters(data.X),
        "warping": model.warping.parameters(data.y),
        **more,
    }))  # fmt: skip
    surplus = {key for key in part if key.startswith("values.")} - {f"values.{name}" for name in expected}
    if surplus:
        raise FileFormatError(f"The file has tensors that its model does not know: {', '.join(sorted(surplus))}.")
    named = {}
    for name, parameter in expected.items():
        domain = POSITIVE if parameter.positive else FINITE if parameter.trainable else NUMBER
        named[name] = take(part, f"values.{name}", (len(H), *parameter.shape), parameter.dtype, domain)
    return nest(named)


def _bound(model: Model, X: Tensor) -> Model:
    """The model with modules tried on X; whatever else ``bind`` would learn is among the file's values."""
    try:
        return replace(model, features=model.features.already_learnt()).bind(X)
    except RuntimeError as error:  # PyTorch's way to say that sizes do not fit
        raise ModulesError(f"A module given to load does not accept this model's inputs: {error}") from error


def _triangle(N: int) -> tuple[Tensor, Tensor]:
    """Rows and columns of the lower triangle, which is all that a factor has."""
    rows, columns = torch.tril_indices(N, N)
    return rows, columns


def _from_triangle(packed: Tensor, N: int) -> Tensor:
    """Lower factors (R, N, N) from their packed triangles."""
    rows, columns = _triangle(N)
    factor = packed.new_zeros(len(packed), N, N)
    factor[:, rows, columns] = packed
    if not bool((factor.diagonal(dim1=-2, dim2=-1) > 0).all()):
        raise FileFormatError(
            "A factor of a covariance should have a positive diagonal, and the file's has not. It is damaged or forged."
        )
    return factor
