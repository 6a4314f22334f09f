"""Drawn functions as a predictor's program: all functions of all targets, member by member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from manifoldgp.errors import InputError
from manifoldgp.estimators.program_targets import standardised
from manifoldgp.inference.function_draws import EnsembleDraws, MemberDraws
from manifoldgp.parameters import map_leaves
from manifoldgp.predictor import FunctionPredictor
from manifoldgp.predictor.program import VALUES
from manifoldgp.predictor.query import Query
from manifoldgp.predictor.rows import Rows
from manifoldgp.predictor.writer import Writer
from manifoldgp.warping import NoWarping, TanhWarping

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


def to_function_predictor(draws: Sequence[EnsembleDraws], estimator: ManifoldGPRegressor) -> FunctionPredictor:
    """The functions of all targets as one program; refuses parts that only code can express."""
    writer, scaler = Writer(), estimator.x_scaler_
    X = standardised(writer, scaler)
    slots, alone, orders, first = [], [], [], 0
    for target in draws:
        for part in target.parts:
            slots.append(_in_units_of_y(target, _values(part, X), writer))
            alone.append(len(part.which) == 1)
        order = torch.cat([part.which for part in target.parts]).argsort()
        orders.append(first + order.cpu().numpy())
        first += target.count
    values = writer.do("transpose", writer.do("members", *slots, lift=alone))
    program = writer.program({VALUES: values}, max(part.row_bytes for target in draws for part in target.parts))
    names = tuple(str(name) for name in getattr(estimator, "feature_names_in_", ()))
    encoding = getattr(estimator, "table_encoding_", None)
    query = Query(scaler.offset.copy(), scaler.scale.copy(), names, None if encoding is None else encoding.to_plain(rows=False))
    return FunctionPredictor(program, query, np.stack(orders), estimator._flat)


def _values(part: MemberDraws, X: Rows) -> int:
    """The slot of y = g⁻¹(f) in the model's units: (k, n), or (n,) for k = 1."""
    model, writer = part.model, X.writer
    values = map_leaves(lambda leaf: leaf.cpu().numpy(), part.values)
    H = model.features.program(values.get("features", {}), X)
    k = model.kernel.program(values.get("kernel", {}), part.points.cpu().numpy(), H)
    weights = writer.vector(k.factor[:, None] * part.weights.cpu().numpy(), keep_members=True)
    f = writer.do("add", writer.do("weighted", k.slot, weights), part.prior.program(H).slot)
    moving, constant = model.mean.program(values.get("mean", {}), H if model.mean.on == "features" else X).column()
    if moving is not None:
        f = writer.do("add", f, moving.slot)
    if constant.any():
        f = writer.do("add", f, writer.plain(constant))
    if isinstance(model.warping, NoWarping):
        return f
    if not isinstance(model.warping, TanhWarping):
        raise InputError(f"A predictor cannot express the target warping {model.warping!r}. Use None or 'tanh'.")
    shape = [writer.constant(values["warping"][name][:, None, :]) for name in ("height", "steepness", "centre")]
    certain, zero, one = writer.plain(np.zeros(1)), writer.plain(np.zeros(1)), writer.plain(np.ones(1))
    return writer.do("pick", writer.do("warped_moments", f, certain, *shape, zero, one), index=0)


def _in_units_of_y(target: EnsembleDraws, slot: int, writer: Writer) -> int:
    return writer.do("scale_shift", slot, writer.plain(np.array([target.scale])), writer.plain(np.array([target.offset])))
