"""From data to what a fitted estimator keeps: exact, sparse in memory, or sparse chunk by chunk; and online updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldgp.data import inputs
from manifoldgp.data.scaling import Standardizer
from manifoldgp.data.sources import RowSource
from manifoldgp.errors import InputError
from manifoldgp.estimators.arguments import model_of, settings_of
from manifoldgp.estimators.exact_fit import FittedOutput, FoldChoice, Settings, fit_outputs
from manifoldgp.estimators.method_choice import chosen_method, fit_sparse_source, fit_sparse_table, row_source, surveyed
from manifoldgp.estimators.sparse_fit import SparseSettings, refuse_what_is_not_sparse, why_exact_for
from manifoldgp.estimators.units import model_inputs, model_noise, on_device
from manifoldgp.inference.ensemble import prediction_threads
from manifoldgp.training.processes import current_ranks


def fit(estimator: Any, X: Any, y: Any, noise_std: Any, groups: Any, ordered: bool) -> None:
    """Train by the method that the arguments and the data ask for, and keep the result in the estimator."""
    settings = settings_of(estimator)
    outputs = y.shape[1] if isinstance(y, np.ndarray) and y.ndim == 2 else 1
    source = row_source(X, y, noise_std, estimator.method, why_exact_for(settings, outputs))
    if source is not None:
        _fit_source(estimator, source, settings, groups, ordered)
        return
    table = inputs.training_table(estimator, X, y, noise_std)
    outputs = table.Y.shape[1]
    model, because = model_of(estimator, noise_std is not None), why_exact_for(settings, outputs)
    estimator.method_ = chosen_method(estimator.method, len(table.X), estimator.inducing, because, calls=3)
    folds = FoldChoice(inputs.group_labels(groups, table.given, table.kept), ordered)
    estimator.x_scaler_ = Standardizer.fit(table.X, estimator.standardize_X)
    estimator.y_scaler_ = Standardizer.fit(table.Y, estimator.standardize_y)
    estimator.n_outputs_, estimator._flat = outputs, table.flat
    scalers = estimator.x_scaler_, estimator.y_scaler_
    if estimator.method_ == "exact":
        inputs.refuse_too_many_rows(len(table.X), settings.matrices_at_once(len(table.X), outputs))
        _keep(estimator, fit_outputs(model, table, *scalers, settings, folds))
    else:
        sparse = SparseSettings(estimator.inducing, checkpoint=estimator.checkpoint)
        _keep(estimator, fit_sparse_table(model, table, *scalers, settings, sparse, folds))


def _fit_source(estimator: Any, source: RowSource, settings: Settings, groups: Any, ordered: bool) -> None:
    """Train on rows that need not fit into memory, together with the other processes that torchrun started."""
    ranks = current_ranks()
    if estimator.method != "exact":
        refuse_what_is_not_sparse(settings, source.outputs)
    seen = surveyed(source, ranks)
    estimator.method_ = chosen_method(estimator.method, seen.rows, estimator.inducing, None, calls=4)
    if estimator.method_ == "exact":
        raise InputError("A source of rows is read by the sparse method only. Say method='sparse', or fit arrays in memory.")
    estimator.n_features_in_, estimator.n_outputs_, estimator._flat = source.inputs, source.outputs, source.flat
    if source.names is not None:
        estimator.feature_names_in_ = np.array(source.names, dtype=object)
    scalers = seen.standardizers(source.inputs, estimator.standardize_X, estimator.standardize_y)
    estimator.x_scaler_, estimator.y_scaler_ = scalers
    sparse, folds = (
        SparseSettings(estimator.inducing, ranks, estimator.checkpoint),
        FoldChoice(inputs.group_labels(groups, source.total), ordered),
    )
    model = model_of(estimator, source.has_noise)
    _keep(estimator, fit_sparse_source(model, source, seen.rows, *scalers, settings, sparse, folds))


def _keep(estimator: Any, fitted: list[FittedOutput]) -> None:
    estimator.ensembles_ = [f.ensemble for f in fitted]
    estimator.starts_ = np.concatenate([f.starts for f in fitted])
    estimator.histories_ = [h for f in fitted for h in f.histories]
    estimator.held_out_ = [f.report for f in fitted]
    estimator.sampling_ = [f.sampling for f in fitted]
    estimator.nlml_ = float(sum(f.nlml for f in fitted))


def update(estimator: Any, X: Any, y: Any, noise_std: Any) -> None:
    """Condition on n more rows, parameters unchanged."""
    U = model_inputs(estimator, X)
    T = on_device(estimator, estimator.y_scaler_.apply(inputs.target_table(estimator, y, len(U))))
    first = estimator.ensembles_[0].blocks[0]
    if noise_std is None and not first.model.noise.learned:
        raise InputError("This model has noise='known': give the noise of the new rows too, update(X, y, noise_std=...).")
    noise = model_noise(estimator, noise_std, len(U))
    if estimator.method_ == "exact":
        inputs.refuse_too_many_rows(first.rows + len(U), 3)
    with prediction_threads(estimator.ensembles_, len(U), joint=True):
        estimator.ensembles_ = [
            e.condition(U, T[:, o], None if noise is None else noise[:, o]) for o, e in enumerate(estimator.ensembles_)
        ]
