"""Rows without targets: features that learn from inputs alone learn from them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from manifoldgp._system.plain_text import counted, verb
from manifoldgp.data import inputs
from manifoldgp.data.scaling import Standardizer, canonical_rows
from manifoldgp.errors import InputError, warn
from manifoldgp.estimators import tables
from manifoldgp.estimators.targets import bound_model
from manifoldgp.features import Features
from manifoldgp.model import Model

if TYPE_CHECKING:
    from manifoldgp.data.inputs import Table, TrainingTable
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


def refuse_unused(unlabelled: Table | None, features: Features, streamed: bool) -> None:
    """Refuse rows without targets that nothing would learn from."""
    if unlabelled is None:
        return
    if streamed:
        raise InputError("unlabelled goes with arrays in memory; a source of rows cannot have it. Leave it out, or fit arrays.")
    if not features.uses_unlabelled:
        raise InputError(
            f"Nothing in this model learns from rows without targets: {features!r} does not, and a chain does where its first part does. "
            "Use features such as AutoEncoder((50, 10)) or MLP((50, 10)).pretrained(), or leave out unlabelled."
        )


def unlabelled_inputs(
    estimator: ManifoldGPRegressor, unlabelled: Table | None, table: TrainingTable, features: Features
) -> np.ndarray:
    """Inputs (M, D) that only features learn from: of rows whose target is missing, and those of ``unlabelled``; M is 0 where nothing uses them."""
    if not features.uses_unlabelled:
        return table.X[:0]
    if unlabelled is None:
        return table.without_target
    encoded = hasattr(estimator, "table_encoding_")
    more = inputs.more_inputs(estimator, tables.query_rows(estimator, unlabelled, tell=False).X, allow_missing=encoded)
    known = np.asarray(~np.isnan(more).any(1))
    if not known.all():
        out = int((~known).sum())
        warn(
            f"{out} of {counted(len(known), 'row')} of unlabelled {verb(out, 'has', 'have')} missing inputs or unknown categories, and {verb(out, 'is', 'are')} left out."
        )
    return np.concatenate([table.without_target, more[known]])


def bound_on(model: Model, X: np.ndarray, scaler: Standardizer, device: str) -> Model:
    """The model with features that have learnt from all rows X (n, D), whatever the order they came in."""
    U = scaler.learnt(scaler.apply(X))
    ordered = U[canonical_rows(U, np.empty((len(U), 0)), None)]
    return bound_model(model, torch.as_tensor(ordered, device=device))
