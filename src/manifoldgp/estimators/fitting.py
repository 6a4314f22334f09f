"""From data to what a fitted estimator keeps: exact, sparse in memory, or sparse chunk by chunk; and online updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldgp.data import inputs
from manifoldgp.data.scaling import Standardizer
from manifoldgp.data.sources import RowSource
from manifoldgp.errors import InputError
from manifoldgp.estimators.arguments import model_of, settings_of, sparse_settings_of, standardized
from manifoldgp.estimators.combinations import partly_obeyed, refuse_unobeyed, unheeded_folds, warn_about, why_exact
from manifoldgp.estimators.exact_fit import FittedOutput, FoldChoice, Settings, fit_outputs
from manifoldgp.estimators.method_choice import chosen_method, fit_sparse_source, fit_sparse_table, row_source, surveyed
from manifoldgp.estimators.units import model_inputs, model_noise, on_device
from manifoldgp.inference.ensemble import prediction_threads
from manifoldgp.training.processes import current_ranks
from manifoldgp.training.settings import Exact, Sparse, as_method


def fit(estimator: Any, X: Any, y: Any, noise_std: Any, groups: Any, ordered: bool) -> None:
    """Train by the method that the arguments and the data ask for, and keep the result in the estimator."""
    settings, method = settings_of(estimator), as_method(estimator.method)
    if method is not None:
        method.check()
    averaging = settings.averaging
    refuse_unobeyed(estimator, averaging, method)
    outputs = y.shape[1] if isinstance(y, np.ndarray) and y.ndim == 2 else 1
    source = row_source(X, y, noise_std, method, why_exact(averaging, outputs))
    if source is not None:
        _fit_source(estimator, source, settings, method, groups, ordered)
        return
    table = inputs.training_table(estimator, X, y, noise_std)
    outputs = table.Y.shape[1]
    model = model_of(estimator, noise_std is not None)
    method = chosen_method(method, len(table.X), why_exact(averaging, outputs), calls=3)
    warn_about(partly_obeyed(model, averaging, method) + unheeded_folds(averaging, groups, ordered), calls=3)
    folds = FoldChoice(inputs.group_labels(groups, table.given, table.kept), ordered)
    of_X, of_y = standardized(estimator)
    scalers = Standardizer.fit(table.X, of_X), Standardizer.fit(table.Y, of_y)
    estimator.x_scaler_, estimator.y_scaler_ = scalers
    estimator.method_, estimator.n_outputs_, estimator._flat = method.shorthand(), outputs, table.flat
    if isinstance(method, Sparse):
        settings, sparse = sparse_settings_of(settings, method)
        _keep(estimator, fit_sparse_table(model, table, *scalers, settings, sparse, folds))
    else:
        inputs.refuse_too_many_rows(len(table.X), settings.matrices_at_once(len(table.X), outputs))
        _keep(estimator, fit_outputs(model, table, *scalers, settings, folds))


def _fit_source(
    estimator: Any, source: RowSource, settings: Settings, method: Exact | Sparse | None, groups: Any, ordered: bool
) -> None:
    """Train on rows that need not fit into memory, together with the other processes that torchrun started."""
    because = why_exact(settings.averaging, source.outputs)
    if because is not None and not isinstance(method, Exact):
        raise InputError(because)
    ranks = current_ranks()
    seen = surveyed(source, ranks)
    method = chosen_method(method, seen.rows, None, calls=4)
    if isinstance(method, Exact):
        raise InputError("A source of rows is read by the sparse method only. Say method='sparse', or fit arrays in memory.")
    model = model_of(estimator, source.has_noise)
    if ranks.first:
        warn_about(
            partly_obeyed(model, settings.averaging, method) + unheeded_folds(settings.averaging, groups, ordered), calls=4
        )
    estimator.method_, estimator.n_outputs_, estimator._flat = method.shorthand(), source.outputs, source.flat
    estimator.n_features_in_ = source.inputs
    if source.names is not None:
        estimator.feature_names_in_ = np.array(source.names, dtype=object)
    scalers = seen.standardizers(source.inputs, *standardized(estimator))
    estimator.x_scaler_, estimator.y_scaler_ = scalers
    settings, sparse = sparse_settings_of(settings, method, ranks)
    folds = FoldChoice(inputs.group_labels(groups, source.total), ordered)
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
