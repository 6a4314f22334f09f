"""From checked data to fitted ensembles: one for each target, in the units of y."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from manifoldgp.ensemble import Ensemble
from manifoldgp.errors import InputError
from manifoldgp.inputs import TrainingTable
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, leaves, map_leaves, nest
from manifoldgp.posterior import condition
from manifoldgp.progress import ProgressLine
from manifoldgp.scaling import Standardizer
from manifoldgp.train import Trained, train

START_FIELDS = np.dtype(
    [
        ("output", "i4"),
        ("start", "i4"),
        ("nlml", "f8"),
        ("objective", "f8"),
        ("status", "U24"),
        ("iterations", "i4"),
        ("evaluations", "i4"),
        ("chosen", "?"),
    ]
)
"""The table of all starts. nlml and objective (nlml minus log prior) are totals, in the units of y."""


@dataclass(frozen=True)
class Settings:
    """How to train; the names are those of the estimators' arguments."""

    restarts: int
    optimizer: str
    max_iter: int
    time_budget: float | None
    shared_features: bool
    warm_start_from: Any
    random_state: Any
    device: str
    verbose: bool
    callback: Callable[[np.ndarray, np.ndarray], object] | None

    @staticmethod
    def generator(random_state: Any) -> torch.Generator:
        """An explicit generator from whatever scikit-learn accepts as random_state."""
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        return torch.Generator().manual_seed(int(seed))


@dataclass(frozen=True)
class FittedOutput:
    """One target's ensemble with the table and the histories of its starts, and its total NLML, in the units of y."""

    ensemble: Ensemble
    starts: np.ndarray
    histories: list[np.ndarray]
    nlml: float


def fit_outputs(
    model: Model, table: TrainingTable, x_scaler: Standardizer, y_scaler: Standardizer, settings: Settings
) -> list[FittedOutput]:
    """Train one model a target, or one with shared features for all of them."""
    X = torch.as_tensor(x_scaler.apply(table.X), device=settings.device)
    Y = torch.as_tensor(y_scaler.apply(table.Y), device=settings.device)
    noise = None if table.known_noise is None else torch.as_tensor(table.known_noise / y_scaler.scale**2, device=settings.device)
    model = model.bind(X)
    generator = Settings.generator(settings.random_state)
    outputs = Y.shape[1]
    data = [Data(X, Y[:, o].contiguous(), None if noise is None else noise[:, o].contiguous()) for o in range(outputs)]
    if settings.shared_features and outputs > 1:
        joint = Data(X, Y.T.contiguous(), None if noise is None else noise.T.contiguous())
        warm = None if settings.warm_start_from is None else _joined_values(settings.warm_start_from, outputs)
        trained = _train(replace(model, outputs=outputs), joint, settings, generator, warm)
        rows = len(X) * np.log(y_scaler.scale).sum()
        return [
            _fitted(trained, model, _output_values(trained, o), data[o], o, y_scaler, rows, 1.0 / outputs) for o in range(outputs)
        ]
    fitted = []
    for o in range(outputs):
        warm = None if settings.warm_start_from is None else _member_values(settings.warm_start_from, o)
        trained = _train(model, data[o], settings, generator, warm)
        values = trained.values(trained.order[:1])
        fitted.append(_fitted(trained, model, values, data[o], o, y_scaler, len(X) * np.log(y_scaler.scale[o])))
    return fitted


def _train(model: Model, data: Data, settings: Settings, generator: torch.Generator, warm: Tree | None) -> Trained:
    line = ProgressLine(settings.max_iter, data.y.numel()) if settings.verbose else None

    def watch(iterations: np.ndarray, values: np.ndarray) -> bool:
        if line is not None:
            line(iterations, values)
        return settings.callback is not None and bool(settings.callback(iterations, values))

    trained = train(
        model,
        data,
        restarts=settings.restarts,
        generator=generator,
        optimizer=settings.optimizer,
        max_iter=settings.max_iter,
        time_budget=settings.time_budget,
        callback=watch,
        warm_values=warm,
    )
    if line is not None:
        line.close()
    return trained


def _fitted(
    trained: Trained,
    model: Model,
    values: Tree,
    data: Data,
    output: int,
    y_scaler: Standardizer,
    log_units: float,
    share: float = 1.0,
) -> FittedOutput:
    """Condition the best start; log_units = Σ log sd(y) turns an NLML of standardised targets into one in the units of y."""
    result = trained.result
    starts = np.zeros(len(result.value), dtype=START_FIELDS)
    starts["output"], starts["start"] = output, np.arange(len(starts))
    starts["nlml"], starts["objective"] = trained.nlml + log_units, result.value + log_units
    starts["status"], starts["iterations"], starts["evaluations"] = result.status, result.iterations, result.evaluations
    best = trained.order[0]
    starts["chosen"][best] = True
    ensemble = Ensemble(
        [condition(model, values, data)],
        [torch.zeros(1, 1, dtype=torch.float64, device=data.X.device)],
        offset=float(y_scaler.offset[output]),
        scale=float(y_scaler.scale[output]),
    )
    histories = [np.array(h) + log_units for h in result.history]
    return FittedOutput(ensemble, starts, histories, share * float(starts["nlml"][best]))


def _output_values(trained: Trained, output: int) -> Tree:
    """Values of one target of a model with shared features: its own kernel, mean and noise, the common features."""
    values = trained.values(trained.order[:1])
    own = {k: map_leaves(lambda leaf: leaf[:, output], v) for k, v in values.items() if k != "features"}
    return {**own, **({"features": values["features"]} if "features" in values else {})}


def _member_values(estimator: Any, output: int) -> Tree:
    """The heaviest member of a fitted estimator, without batch dimension."""
    ensembles = getattr(estimator, "ensembles_", None)
    if ensembles is None:
        raise InputError("warm_start_from must be a fitted estimator of this package.")
    if output >= len(ensembles):
        raise InputError(f"warm_start_from has {len(ensembles)} targets; this data has more.")
    block, member = ensembles[output].heaviest()
    return map_leaves(lambda leaf: leaf[member], block.values)


def _joined_values(estimator: Any, outputs: int) -> Tree:
    """Values of a model with shared features from those of its targets."""
    each = [dict(leaves(_member_values(estimator, o))) for o in range(outputs)]
    named: dict[str, Tensor] = {}
    for name, leaf in each[0].items():
        named[name] = leaf if name.startswith("features.") else torch.stack([values[name] for values in each])
    return nest(named)
