"""From data to what a fitted estimator keeps: exact, sparse in memory, or sparse chunk by chunk; and online updates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from manifoldgp.averaging import Averaging, as_averaging
from manifoldgp.averaging.averages import FoldChoice
from manifoldgp.data import inputs
from manifoldgp.data.inputs import TrainingTable
from manifoldgp.data.scaling import Standardizer
from manifoldgp.data.sources import RowSource
from manifoldgp.errors import InputError, warn
from manifoldgp.estimators import tables
from manifoldgp.estimators.arguments import RunSettings, estimator_features, model_of, standardized
from manifoldgp.estimators.canonical_data import input_scaler, learning_data, started_from
from manifoldgp.estimators.input_std import InputStd, input_std_table, noisy_columns
from manifoldgp.estimators.method import (
    chosen_method,
    has_penalty,
    partly_obeyed,
    refuse_sparse_penalty,
    refuse_unobeyed,
    row_source,
    surveyed,
    tell_method,
    unheeded_folds,
)
from manifoldgp.estimators.noisy_inputs import InputNoise, fit_noisy, refuse_without_slopes, slope_noise
from manifoldgp.estimators.targets import FittedTarget, bound_model, data_of_targets, fit_exact, fit_sparse
from manifoldgp.estimators.units import conditioning_inputs, model_noise, on_device
from manifoldgp.estimators.unlabelled_rows import bound_on, refuse_unused, unlabelled_inputs
from manifoldgp.inference.ensemble import prediction_threads
from manifoldgp.model import Data, Model
from manifoldgp.training.model_rows import MemoryRows, StreamedRows
from manifoldgp.training.processes import ALONE, current_ranks, sharing_ranks
from manifoldgp.training.settings import Exact, Local, Method, Sparse, as_method

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


FARTHEST = 1e8
"""Standard deviations from the targets of a fit beyond which new ones are refused: half of the digits of a prediction would be lost."""


def fit(
    estimator: ManifoldGPRegressor,
    X: Table | RowSource,
    y: ArrayLike | None,
    noise_std: ArrayLike | None,
    groups: ArrayLike | None,
    ordered: bool,
    input_std: InputStd | None = None,
    unlabelled: Table | None = None,
) -> None:
    """Train by the method that the arguments and the data ask for, and keep the result in the estimator."""
    begun = time.perf_counter()
    averaging, asked = as_averaging(estimator.averaging), as_method(estimator.method)
    for given in (averaging, asked):
        if given is not None:
            given.check()
    run, noisy = RunSettings.of(estimator), has_noisy_inputs(estimator, input_std)
    refuse_unobeyed(estimator, averaging, asked)
    source = row_source(X, y, noise_std, asked, averaging)
    refuse_unused(unlabelled, estimator_features(estimator), source is not None)
    if source is not None:
        tables.refuse_for_source(estimator)
        _refuse_for_source(noisy)
        _fit_source(estimator, source, averaging, asked, run, groups, ordered)
        return
    assert not isinstance(X, RowSource)  # row_source would have returned it
    rows = tables.training_rows(estimator, X, y, noise_std, groups, input_std)
    tables.keep_group_name(estimator, groups)
    groups = rows.groups
    model = model_of(estimator, noise_std is not None)
    table = inputs.training_table(estimator, rows.X, rows.y, rows.noise_std, model.features.uses_unlabelled)
    more = unlabelled_inputs(estimator, unlabelled, table, model.features)
    N, outputs = table.Y.shape
    seconds = None if has_penalty(model) else run.time_budget  # for want of time nobody is refused
    method = chosen_method(asked, N, averaging, outputs, seconds)
    refuse_sparse_penalty(model, method)
    tell_method(asked, method, N, averaging, outputs, run.time_budget)
    folds = FoldChoice(inputs.group_labels(groups, table.given, table.kept), ordered)
    of_X, of_y = standardized(estimator.standardize)
    of_targets = Standardizer.fit(table.Y, of_y)
    seen = np.concatenate([table.X, more])
    learnt_targets = of_targets.learnt(of_targets.apply(table.Y))
    of_inputs = input_scaler(Standardizer.fit(seen, of_X), table, learnt_targets, model, averaging, method, not len(more))
    model = bound_on(model, seen, of_inputs, run.device) if len(more) else model
    scalers = of_inputs, of_targets
    _tell_what_is_not_obeyed(estimator, model, averaging, method, len(scalers[0].columns), groups, ordered)
    _keep_shape(estimator, method, scalers, outputs, table.flat)
    data = data_of_targets(table, *scalers, run.device)
    levels = None if rows.levels is None else rows.levels[table.kept]
    run = run.after(time.perf_counter() - begun)

    def train(data: list[Data], run: RunSettings) -> list[FittedTarget]:
        if isinstance(method, Sparse):
            return fit_sparse(model, lambda o: MemoryRows(data[o]), *scalers, averaging, method, run, folds, ALONE)
        learnt, dealt = learning_data(data, folds, *scalers)
        return fit_exact(model, data, learnt, scalers[1], averaging, run, dealt, ranks, nearness)

    nearness = method.nearness if isinstance(method, Local) else None
    ranks = ALONE if noisy else sharing_ranks()
    run = run.shared_by(ranks)
    if not noisy:
        _keep(estimator, train(data, run), run)
        _keep_levels(estimator, levels, data)
        return
    _refuse_for_noisy_inputs(method, model, data)
    known, columns = _known_and_noisy(estimator, table, rows.input_std, run.device)
    fitted, found = fit_noisy(train, data, known, columns, run)
    _keep(estimator, fitted, run)
    _keep_levels(estimator, levels, data)
    estimator.input_noise_ = replace(found, std=scalers[0].of_columns(found.std * scalers[0].scales))


def has_noisy_inputs(estimator: ManifoldGPRegressor, input_std: InputStd | None) -> bool:
    """Whether the inputs are noisy, by arguments that make sense together."""
    given = estimator.input_noise
    if given is not None and not (isinstance(given, str) and given == "learned"):
        raise InputError(
            f"input_noise must be None or 'learned'; got {given!r}. Known input noise goes to fit(X, y, input_std=...)."
        )
    if given is not None and input_std is not None:
        raise InputError("input_noise='learned' learns what input_std says. Leave out one of them.")
    if (given is not None or input_std is not None) and estimator.target_warping is not None:
        raise InputError(
            "Noisy inputs make noise in the units of y, and a warped model adds its noise to g(y). Leave out target_warping."
        )
    return given is not None or input_std is not None


def _refuse_for_source(noisy: bool) -> None:
    if noisy:
        raise InputError(
            "Noisy inputs need the slopes at all rows, in memory: a source of rows cannot have them. Fit arrays, or leave out input_std and input_noise."
        )


def _refuse_for_noisy_inputs(method: Method, model: Model, data: list[Data]) -> None:
    if isinstance(method, Sparse) and method.checkpoint is not None:
        raise InputError("A checkpoint is of one training, and noisy inputs take several. Leave out Sparse(checkpoint=...).")
    refuse_without_slopes(bound_model(model, data[0].X), data[0])


def _known_and_noisy(
    estimator: ManifoldGPRegressor, table: TrainingTable, input_std: InputStd | None, device: str
) -> tuple[torch.Tensor | None, np.ndarray]:
    """Variances (N, D) of the inputs in the model's units, None where they are to be learned; and of which columns (D,)."""
    scaler = estimator.x_scaler_
    columns = noisy_columns(estimator, table.X)[scaler.columns]
    if input_std is None:
        if not columns.any():
            raise InputError("input_noise='learned' needs a column of numbers with more than two values; there is none.")
        return None, columns
    std = input_std_table(estimator, input_std, table.given)[table.kept][:, scaler.columns] / scaler.scales
    return torch.as_tensor(std**2, device=device), columns


def refuse_unsupported(named: Mapping[str, object]) -> None:
    """Refuse arguments of fit that other estimators have and this one has not."""
    if named.get("sample_weight") is not None:
        raise InputError(
            "sample_weight has no meaning of its own in a Gaussian process: a row counts as much as its noise says. Give the noise of each row instead, "
            "fit(X, y, noise_std=...): a row that counts w times has noise_std = sigma / sqrt(w), with sigma the noise of a row that counts once."
        )
    if named.get("unlabelled") is not None:
        raise InputError(
            "Nothing in this model learns from rows without targets. Use ManifoldGPRegressor with features such as AutoEncoder((50, 10)) or "
            "MLP((50, 10)).pretrained(), or leave out unlabelled."
        )
    unknown = [name for name in named if name not in ("sample_weight", "unlabelled")]
    if unknown:
        raise TypeError(f"fit() got an unexpected keyword argument {unknown[0]!r}")


def _fit_source(
    estimator: ManifoldGPRegressor,
    source: RowSource,
    averaging: Averaging,
    asked: Method | None,
    run: RunSettings,
    groups: ArrayLike | None,
    ordered: bool,
) -> None:
    """Train on rows that need not fit into memory, together with the other processes that torchrun started."""
    if isinstance(asked, (Exact, Local)):
        raise InputError("A source of rows is read by the sparse method only. Say method='sparse', or fit arrays in memory.")
    ranks, begun = current_ranks(), time.perf_counter()
    seen = surveyed(source, ranks)
    run = run.after(time.perf_counter() - begun)
    method = chosen_method(Sparse() if asked is None else asked, seen.rows, averaging, source.outputs)
    assert isinstance(method, Sparse)
    model = model_of(estimator, source.has_noise)
    refuse_sparse_penalty(model, method)
    if ranks.first:
        _tell_what_is_not_obeyed(estimator, model, averaging, method, source.inputs, groups, ordered)
    estimator.n_features_in_ = source.inputs
    if source.names is not None:
        estimator.feature_names_in_ = np.array(source.names, dtype=object)
    if source.target_names is not None:
        estimator.target_names_ = np.array(source.target_names, dtype=object)
    of_inputs, of_targets = seen.standardizers(source.inputs, *standardized(estimator.standardize))
    scalers = started_from(averaging, of_inputs, of_inputs.columns), of_targets
    _keep_shape(estimator, method, scalers, source.outputs, source.flat)
    tables.keep_group_name(estimator, groups)
    folds = FoldChoice(inputs.group_labels(groups, source.total), ordered)

    def rows_of(output: int) -> StreamedRows:
        return StreamedRows(source, *scalers, seen.rows, output, run.device, ranks)

    _keep(estimator, fit_sparse(model, rows_of, *scalers, averaging, method, run, folds, ranks), run)


def _tell_what_is_not_obeyed(
    estimator: ManifoldGPRegressor,
    model: Model,
    averaging: Averaging,
    method: Method,
    seen: int,
    groups: ArrayLike | None,
    ordered: bool,
) -> None:
    for words in partly_obeyed(model, averaging, method, seen) + unheeded_folds(estimator, averaging, groups, ordered):
        warn(words)


def _keep_shape(
    estimator: ManifoldGPRegressor, method: Method, scalers: tuple[Standardizer, Standardizer], outputs: int, flat: bool
) -> None:
    estimator.method_, estimator.n_outputs_, estimator._flat = method.shorthand(), outputs, flat
    estimator.x_scaler_, estimator.y_scaler_ = scalers


def _keep(estimator: ManifoldGPRegressor, fitted: list[FittedTarget], run: RunSettings) -> None:
    estimator._draws = run.draws
    estimator.ensembles_ = [f.ensemble for f in fitted]
    estimator.starts_ = np.concatenate([f.starts for f in fitted])
    estimator.histories_ = [h for f in fitted for h in f.histories]
    estimator.held_out_ = [f.report for f in fitted]
    estimator.sampling_ = [f.sampling for f in fitted]
    estimator.nlml_ = float(sum(f.nlml for f in fitted))
    estimator.interrupted_ = any(f.interrupted for f in fitted)
    searches = [f.search for f in fitted if f.search is not None]
    if searches:
        estimator.search_ = searches


def _keep_levels(estimator: ManifoldGPRegressor, levels: np.ndarray | None, data: list[Data]) -> None:
    """Keep which categories the rows (n, C) have that each target keeps: a sparse one keeps some of them, found again by their numbers."""
    if levels is None:
        return
    kept = [ensemble.blocks[0].data for ensemble in estimator.ensembles_]
    estimator._row_levels = [levels[_places(some, rows)] for some, rows in zip(kept, data, strict=True)]


def _places(some: Data, rows: Data) -> np.ndarray:
    """Where some of the rows are among all of them."""
    if len(some.y) == len(rows.y):
        return np.arange(len(rows.y))
    of_all, of_some = (np.column_stack([each.X.cpu().numpy(), each.y.cpu().numpy()]) for each in (rows, some))
    places = {row.tobytes(): n for n, row in enumerate(of_all)}
    return np.array([places[row.tobytes()] for row in of_some])


def update(
    estimator: ManifoldGPRegressor, X: Table, y: ArrayLike, noise_std: ArrayLike | None, input_std: InputStd | None = None
) -> None:
    """Condition on n more rows, parameters unchanged."""
    U = conditioning_inputs(estimator, X)
    T = on_device(estimator, estimator.y_scaler_.apply(inputs.target_table(estimator, y, len(U))))
    if not (farthest := float(T.abs().max())) <= FARTHEST:
        raise InputError(
            f"A new target lies {farthest:.0e} standard deviations from those of the fit, too far for this model to say anything about it. Correct it, or fit anew with all rows."
        )
    first = estimator.ensembles_[0].blocks[0]
    if noise_std is None and not first.model.noise.learned:
        raise InputError("This model has noise='known': give the noise of the new rows too, update(X, y, noise_std=...).")
    noise = _with_slopes(estimator, U, model_noise(estimator, noise_std, len(U)), input_std)
    if estimator.method_ == "exact":
        inputs.refuse_too_many_rows(first.rows + len(U), 3)
    with prediction_threads(estimator.ensembles_, len(U), joint=True):
        estimator.ensembles_ = [
            e.condition(U, T[:, o], None if noise is None else noise[:, o]) for o, e in enumerate(estimator.ensembles_)
        ]


def _with_slopes(
    estimator: ManifoldGPRegressor, U: torch.Tensor, noise: torch.Tensor | None, input_std: InputStd | None
) -> torch.Tensor | None:
    """Known noise variances (n, O) of new rows U (n, D), and what the noise of their inputs adds where the model is steep now."""
    found: InputNoise | None = getattr(estimator, "input_noise_", None)
    if input_std is not None:
        if estimator.target_warping is not None:
            raise InputError(
                "Noisy inputs make noise in the units of y, and a warped model adds its noise to g(y). Leave out input_std."
            )
        std = input_std_table(estimator, input_std, len(U))
    elif found is None:
        return noise
    elif found.learned:
        std = found.std[None]
    else:
        raise InputError(
            "This model was trained with input_std: give that of the new rows too, update(X, y, input_std=...), 0 where their inputs are exact."
        )
    variances = on_device(estimator, (std[:, estimator.x_scaler_.columns] / estimator.x_scaler_.scales) ** 2)
    added = torch.stack([slope_noise(e, U, variances) for e in estimator.ensembles_], -1)
    return added if noise is None else noise + added
