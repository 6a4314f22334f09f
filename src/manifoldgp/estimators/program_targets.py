"""A fitted estimator as a predictor: all targets, all members, one program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from manifoldgp._system.threads import one_thread
from manifoldgp.data.inputs import target_names
from manifoldgp.data.scaling import Standardizer
from manifoldgp.estimators.distillation import Distilled, distilled, in_words
from manifoldgp.estimators.few_points import FewPoints
from manifoldgp.estimators.program_groups import Group, grouped, program_bytes, rows_in_words
from manifoldgp.estimators.program_members import Components, Moments, components_of, rows_in_work
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.local_posterior import WHOLE_ROWS
from manifoldgp.predictor import Predictor
from manifoldgp.predictor.rows import Rows
from manifoldgp.predictor.writer import Writer
from manifoldgp.warping import TanhWarping

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

SEARCH_SECONDS = 10.0
"""Of processor time that few members and few points of all targets are looked for where nobody asked for them."""

_WHOLE_WORK = 1e11
"""N³ of all members up to which those in cells are conditioned on all rows at once to look for few points: some ten seconds of processor time."""

_TRIED = 500
"""Rows by which it is told what a program loses."""

_FARTHEST_ORIGIN = 4.0
"""Up to this many standard deviations from zero, the mean of the inputs is folded into weights; beyond, (x − mean) comes first."""


def to_predictor(estimator: ManifoldGPRegressor, max_members: int | None = None, tolerance: float | None = None) -> Predictor:
    """The predictor of a fitted estimator, distilled if that is asked for; refuses parts that only code can express."""
    ensembles, words = _whole(estimator.ensembles_)
    if max_members is None and tolerance is None:
        return _predictor(estimator, ensembles, words=words)
    return _distilled_predictor(estimator, distilled(ensembles, max_members, tolerance), words)


def small_predictor(
    estimator: ManifoldGPRegressor,
    most_bytes: int,
    tolerance: float | None,
    searching: Callable[[], object] = lambda: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Predictor | None:
    """The predictor if it is small, else one of a quarter of that size at most that loses at most ``tolerance`` nats a row and says so (None: there is no other one); else None.

    searching: called before few points are looked for, which takes some ten seconds of processor time, on one core: on a busy machine several would wait for each other, product by product.
    Members in cells for which it would take more have no small predictor. stopped: whether somebody wants the search to end.
    """
    in_cells = [block for ensemble in estimator.ensembles_ for block in ensemble.blocks if block.in_cells]
    if (
        any(block.rows > WHOLE_ROWS for block in in_cells)
        or sum(block.members * block.rows**3 for block in in_cells) > _WHOLE_WORK
    ):
        return None
    ensembles, words = _whole(estimator.ensembles_)
    if program_bytes(ensembles) <= most_bytes:
        return _predictor(estimator, ensembles, words=words)
    if tolerance is None:
        return None
    searching()
    with one_thread():
        smaller = distilled(ensembles, None, tolerance, SEARCH_SECONDS / len(ensembles), stopped)
    if program_bytes([d.ensemble for d in smaller], [d.few for d in smaller]) > most_bytes // 4:
        return None
    return _distilled_predictor(estimator, smaller, words)


def _whole(ensembles: Sequence[Ensemble]) -> tuple[list[Ensemble], str]:
    """Ensembles with one set of points for all of the input space, which is what a program can say; and in words what is lost where members are in cells."""
    whole = [ensemble.whole() for ensemble in ensembles]
    changed = [(a, b) for a, b in zip(ensembles, whole, strict=True) if any(block.in_cells for block in a.blocks)]
    if not changed:
        return whole, ""
    lost = max(_lost(*pair) for pair in changed)
    rows = changed[0][0].blocks[0].rows
    points = changed[0][1].blocks[0].points.shape[-2]
    through = "all rows at once" if points == rows else f"{points:,} points of each member"
    return (
        whole,
        f"The {rows:,} rows, which the model sees cell by cell, are seen through {through}: {lost:.2g} nats lost a row (at {_TRIED} training rows, each left out).",
    )


@torch.no_grad()
def _lost(ensemble: Ensemble, whole: Ensemble) -> float:
    """Nats a row by which training rows that are left out have a lower density in ``whole``."""
    data = ensemble.blocks[0].data
    rows = np.unique(np.linspace(0, len(data.y) - 1, _TRIED).astype(int))
    y = ensemble.offset + ensemble.scale * data.y[torch.as_tensor(rows, device=data.y.device)]
    before, after = (float(e.left_out(rows).log_density(y).mean()) for e in (ensemble, whole))
    return before - after


def _distilled_predictor(estimator: ManifoldGPRegressor, smaller: Sequence[Distilled], words: str = "") -> Predictor:
    ensembles, few = [d.ensemble for d in smaller], [d.few for d in smaller]
    said = in_words([d.loss for d in smaller])
    return _predictor(estimator, ensembles, few, f"{words} {said}" if words else said)


def _predictor(
    estimator: ManifoldGPRegressor,
    ensembles: Sequence[Ensemble],
    few: Sequence[Sequence[Sequence[FewPoints | None]] | None] | None = None,
    words: str = "",
) -> Predictor:
    writer, groups = Writer(), grouped(ensembles, few)
    scaler = estimator.x_scaler_
    X = standardised(writer, scaler)
    brought = [components_of(group, X) for group in groups]
    components = [found for each in brought for found in each]
    origins = np.array([ensemble.offset for ensemble in ensembles])
    follows = [(0.0, 0.0) if e.followed is None else (e.followed.exponent, e.followed.share) for e in ensembles]
    exponents, shares = np.array(follows).T
    outputs = {}
    for prefix, moments in (("", [c.observed for c in components]), ("latent_", [c.latent for c in components])):
        mean, std = _mixture(writer, components, moments, origins, exponents, shares)
        for name, slot in ((f"{prefix}mean", mean), (f"{prefix}std", std)):
            outputs[name] = slot if estimator._flat else writer.do("transpose" if len(origins) > 1 else "column", slot)
    mixture = _members(writer, groups, [each[0] for each in brought], origins, exponents, shares, outputs)
    program = writer.program(outputs, 8 * max(rows_in_work(group) for group in groups))
    names = tuple(str(name) for name in getattr(estimator, "feature_names_in_", ()))
    encoding = getattr(estimator, "table_encoding_", None)
    table = None if encoding is None else encoding.to_plain(rows=False)
    offset, scale = scaler.offset.copy(), scaler.scale.copy()
    targets = target_names(estimator)
    return Predictor(
        program, offset, scale, len(origins), estimator._flat, names, table, mixture, words, targets, rows_in_words(groups)
    )


def _members(
    writer: Writer,
    groups: Sequence[Group],
    components: Sequence[Components],
    origins: np.ndarray,
    exponents: np.ndarray,
    shares: np.ndarray,
    outputs: dict[str, int],
) -> dict[str, Any]:
    """Add the outputs of all members, and tell whose they are, what they weigh and how their targets are warped. components: the first ones of each group."""
    lift = [len(c.owner) == 1 for c in components]
    outputs["component_means"] = _joined(writer, [c.members.mean for c in components], lift)
    outputs["component_variances"] = _joined(writer, [c.members.variance for c in components], lift)
    owner, factors = np.concatenate([g.owner for g in groups]), sorted({f for g in groups for f in g.factors.tolist()})
    weights = np.concatenate([g.weights @ (g.factors[:, None] == factors) for g in groups])
    told = {"owner": owner.tolist(), "weights": weights.tolist(), "factors": factors, "origins": origins.tolist()}
    if any(isinstance(g.model.warping, TanhWarping) for g in groups):
        told |= _warpings(groups)
    if not exponents.any():
        return told
    usual = np.concatenate([c.log_usual for c in components])
    return told | {"exponents": exponents.tolist(), "following": shares.tolist(), "log_usual": usual.tolist()}


def _warpings(groups: Sequence[Group]) -> dict[str, Any]:
    """The scale and the terms of every member's warping; those without one have no height, and their moments are in the units of y."""
    terms = max(g.model.warping.terms for g in groups if isinstance(g.model.warping, TanhWarping))
    scales, shape = [], {name: [] for name in ("height", "steepness", "centre")}
    for g in groups:
        warped = isinstance(g.model.warping, TanhWarping)
        scales.append(g.scale if warped else np.ones(len(g.owner)))
        for name, found in shape.items():
            own = g.values["warping"][name] if warped else np.empty((len(g.owner), 0))
            found.append(np.pad(own, ((0, 0), (0, terms - own.shape[1])), constant_values=float(name == "steepness")))
    return {"scales": np.concatenate(scales).tolist()} | {name: np.concatenate(found).tolist() for name, found in shape.items()}


def standardised(writer: Writer, scaler: Standardizer) -> Rows:
    """(X − offset) / scale of the columns that the model sees."""
    offset, scale = scaler.offset, scaler.scale
    seen = None if scaler.sees_columns_as_they_are else scaler.columns.tolist()
    if np.abs(scaler.offsets / scaler.scales).max() <= _FARTHEST_ORIGIN:
        return Rows.of(writer, 0, len(offset)).scaled(1.0 / scale[None]).shifted(-(offset / scale)[None]).columns(seen)
    # x / scale − offset / scale would lose the digits that x and offset have in common
    return Rows.of(writer, writer.do("subtract", 0, writer.plain(offset)), len(offset)).scaled(1.0 / scale[None]).columns(seen)


def _mixture(
    writer: Writer,
    components: Sequence[Components],
    moments: Sequence[Moments],
    origins: np.ndarray,
    exponents: np.ndarray,
    shares: np.ndarray,
) -> tuple[int, int]:
    """Slots of mean and standard deviation of the targets: (n,) for one, (O, n) for several. exponents, shares (O,): by which, and in which share, weights follow variances."""
    owner = np.concatenate([c.owner for c in components])
    weights, spreads = (np.concatenate([getattr(c, name) for c in components]) for name in ("weights", "spreads"))
    means, variances = [m.mean for m in moments], [m.variance for m in moments]
    targets = len(origins)
    origin = writer.plain(origins if targets == 1 else origins[:, None])
    alone = np.array_equal(owner, np.arange(targets)) and (weights == 1.0).all() and (spreads == 1.0).all()
    if alone and len(components) == 1:  # every target is a single Gaussian
        return writer.do("add", means[0], origin), writer.do("square_root", variances[0])
    M, V = (_joined(writer, slots, [len(c.owner) == 1 for c in components]) for slots in (means, variances))
    W, G = (w if targets == 1 else np.where(owner == np.arange(targets)[:, None], w, 0.0) for w in (weights, spreads))
    whose = [writer.plain(owner)] if targets > 1 else []
    if not exponents.any():
        mixed = writer.do("mix", M, writer.plain(W))
        std = writer.do("mixture_std", M, V, mixed, writer.plain(W), writer.plain(G), *whose)
        return writer.do("add", mixed, origin), std
    gate = _joined(writer, [c.members.variance for c in components], [len(c.owner) == 1 for c in components])
    usual = np.concatenate([c.log_usual for c in components])[:, None]
    A = writer.do("certainty", gate, writer.plain(usual), writer.plain(exponents), writer.plain(shares), writer.plain(W), *whose)
    mixed = writer.do("mix", writer.do("multiply", A, M), writer.plain(W))
    std = writer.do("certain_std", M, V, A, mixed, writer.plain(W), writer.plain(G), *whose)
    return writer.do("add", mixed, origin), std


def _joined(writer: Writer, slots: Sequence[int], lift: Sequence[bool]) -> int:
    """All members' values (S, n) in one slot; lift: those of a single member, (n,)."""
    return slots[0] if len(slots) == 1 and not lift[0] else writer.do("members", *slots, lift=list(lift))
