"""From checked data to fitted ensembles: one for each target, in the units of y."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from manifoldgp.averaging.members import Batch
from manifoldgp.averaging.methods import fit_average
from manifoldgp.averaging.settings import Averaging, Single
from manifoldgp.averaging.stack import SamplingReport
from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.data.inputs import TrainingTable, positive_number
from manifoldgp.data.scaling import Standardizer
from manifoldgp.errors import InputError
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, leaves, map_leaves, nest
from manifoldgp.training.coarse_to_fine import level_rows
from manifoldgp.training.progress import begin_output, watched_phases
from manifoldgp.training.train import Trained, train

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
        ("group", "U16"),
        ("weight", "f8"),
    ]
)
"""The table of all starts. nlml and objective (nlml minus log prior) are totals over all rows, in the units of y; +inf where they are not known. status: why
training ended; on levels also "lost on 500 rows" (never seen on all rows) and "trained on 500 rows" (nlml and objective of all rows, but not trained there)."""


LIGHTEST = 1e-4
"""Members of an average with less weight are dropped."""


OTHER_MEMBERS = 15
"""Members of a stack beside the restarts of the user's own architecture, about."""


@dataclass(frozen=True)
class FoldChoice:
    """How held-out folds are made: whole groups (labels (N,)), contiguous stretches, or (neither) random rows."""

    groups: np.ndarray | None = None
    ordered: bool = False


NO_CHOICE = FoldChoice()


def require_device(device: Any) -> None:
    """Refuse a device that does not exist here, or cannot compute in float64."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device).cpu()
    except (RuntimeError, AssertionError, TypeError) as error:  # RuntimeError: unknown; AssertionError: built without CUDA
        reason = str(error).splitlines()[0]
        raise InputError(
            f"The device {device!r} cannot be used ({reason}). Use 'cpu', or 'cuda' where PyTorch sees a GPU."
        ) from error


@dataclass(frozen=True)
class Settings:
    """How to train. estimators.arguments.settings_of makes it of the estimators' arguments."""

    restarts: int
    optimizer: str
    max_iter: int
    time_budget: float | None
    shared_features: bool
    warm_start_from: Any
    random_state: Any
    device: str
    verbose: bool
    averaging: Averaging
    callback: Callable[[np.ndarray, np.ndarray], object] | None
    levels: bool = True

    def __post_init__(self) -> None:
        if self.time_budget is not None:
            positive_number(self.time_budget, "time_budget (seconds)")
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback must be a function of (iterations, objective values), or None; got {self.callback!r}.")
        require_device(self.device)

    def matrices_at_once(self, rows: int, outputs: int) -> int:
        """How many N x N matrices a fit holds at the same time: three for each start or member in work, a factor for each member kept."""
        single = isinstance(self.averaging, Single)
        alone = self.levels and single and bool(level_rows(rows))  # only one start is trained on all rows
        starts = 1 if alone else min(self.restarts, torch.get_num_threads())
        starts *= outputs if self.shared_features else 1
        if single:
            return 3 * starts + outputs - 1
        together, members = (
            max(self.restarts, OTHER_MEMBERS),
            self.restarts + OTHER_MEMBERS,
        )  # one architecture is conditioned at a time
        return 3 * max(starts, together) + members * outputs - together

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
    report: HeldOutReport | None = None
    sampling: SamplingReport | None = None


def fit_outputs(
    model: Model,
    table: TrainingTable,
    x_scaler: Standardizer,
    y_scaler: Standardizer,
    settings: Settings,
    folds: FoldChoice = NO_CHOICE,
) -> list[FittedOutput]:
    """Train one model (or average) a target, or one with shared features for all of them."""
    data = data_of_outputs(table, x_scaler, y_scaler, settings.device)
    outputs, X = len(data), data[0].X
    model = bound_model(model, X)
    generator = Settings.generator(settings.random_state)
    if settings.shared_features and outputs > 1:
        known = [d.known_noise for d in data if d.known_noise is not None]
        joint = Data(X, torch.stack([d.y for d in data]), torch.stack(known) if known else None)
        warm = None if settings.warm_start_from is None else _joined_values(settings.warm_start_from, outputs)
        trained = _train(replace(model, outputs=outputs), joint, settings, generator, warm)
        rows = len(X) * np.log(y_scaler.scale).sum()
        return [
            _fitted(trained, model, _output_values(trained, o), data[o], o, y_scaler, rows, 1.0 / outputs) for o in range(outputs)
        ]
    fitted = []
    end = None if settings.time_budget is None else time.perf_counter() + settings.time_budget
    for o in range(outputs):
        begin_output(settings.callback, o)
        if end is not None:  # what is left is for this target and those after it
            settings = replace(settings, time_budget=max(end - time.perf_counter(), 1e-9) / (outputs - o))
        if not isinstance(settings.averaging, Single):
            fitted.append(_averaged(model, data[o], o, y_scaler, settings, generator, folds))
            continue
        warm = None if settings.warm_start_from is None else member_values(settings.warm_start_from, o)
        trained = _train(model, data[o], settings, generator, warm)
        values = trained.values(trained.order[:1])
        fitted.append(_fitted(trained, model, values, data[o], o, y_scaler, len(X) * np.log(y_scaler.scale[o])))
    return fitted


def data_of_outputs(table: TrainingTable, x_scaler: Standardizer, y_scaler: Standardizer, device: Any) -> list[Data]:
    """The data of each target in the model's units; all share X."""
    X = torch.as_tensor(x_scaler.apply(table.X), device=device)
    Y = torch.as_tensor(y_scaler.apply(table.Y), device=device)
    noise = None if table.known_noise is None else torch.as_tensor(table.known_noise / y_scaler.scale**2, device=device)
    return [Data(X, Y[:, o].contiguous(), None if noise is None else noise[:, o].contiguous()) for o in range(Y.shape[1])]


def bound_model(model: Model, X: Tensor) -> Model:
    """The model with its features fitted to X, where they have to be."""
    try:
        return model.bind(X)
    except RuntimeError as error:  # PyTorch's way to say that sizes do not fit
        raise InputError(f"The features cannot be computed for inputs with {X.shape[1]} columns: {error}") from error


def _train(model: Model, data: Data, settings: Settings, generator: torch.Generator, warm: Tree | None) -> Trained:
    phases = ["starts"]
    with watched_phases(settings.callback, settings.verbose, settings.max_iter, data.y.numel()) as watch:
        return train(
            model,
            data,
            restarts=settings.restarts,
            generator=generator,
            optimizer=settings.optimizer,
            max_iter=settings.max_iter,
            time_budget=settings.time_budget,
            callback=lambda iterations, values: watch(phases[-1], iterations, values),
            warm_values=warm,
            levels=settings.levels,
            enter=phases.append,
        )


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
    starts["chosen"][best], starts["weight"][best], starts["group"] = True, 1.0, "own"
    ensemble = Ensemble(
        [condition(model, values, data)],
        [torch.zeros(1, 1, dtype=torch.float64, device=data.X.device)],
        offset=float(y_scaler.offset[output]),
        scale=float(y_scaler.scale[output]),
    )
    histories = [np.array(h) + log_units for h in result.history]
    return FittedOutput(ensemble, starts, histories, share * float(starts["nlml"][best]))


def _averaged(
    model: Model,
    data: Data,
    output: int,
    y_scaler: Standardizer,
    settings: Settings,
    generator: torch.Generator,
    folds: FoldChoice,
) -> FittedOutput:
    """Fit the members of an average, drop those that carry no weight, and condition the others on all rows."""
    with watched_phases(settings.callback, settings.verbose, settings.max_iter, len(data.y)) as watch:
        average = fit_average(
            settings.averaging,
            model,
            data,
            generator=generator,
            time_budget=settings.time_budget,
            watch=watch,
            groups=folds.groups,
            ordered=folds.ordered,
        )
    log_units = len(data.y) * float(np.log(y_scaler.scale[output]))
    blocks, log_weights, tables, histories = [], [], [], []
    for batch, weights in zip(average.batches, average.weights, strict=True):
        member_weight = weights.sum(0)
        kept = np.flatnonzero(member_weight >= LIGHTEST)
        tables.append(_start_table(batch, member_weight, kept, output, log_units))
        histories += [np.array(h) + log_units for h in batch.result.history]
        if len(kept):
            blocks.append(condition(batch.model, batch.values(kept), data))
            log_weights.append(np.log(np.maximum(weights[:, kept], 1e-300)))
    total = np.logaddexp.reduce(np.concatenate([w.ravel() for w in log_weights]))
    ensemble = Ensemble(
        blocks,
        [torch.as_tensor(w - total, device=data.X.device) for w in log_weights],
        average.variance_factors,
        float(y_scaler.offset[output]),
        float(y_scaler.scale[output]),
    )
    starts = np.concatenate(tables)
    heaviest = starts["nlml"][np.argmax(starts["weight"])]
    return FittedOutput(ensemble, starts, histories, float(heaviest), average.report, average.sampling)


def _start_table(batch: Batch, weight: np.ndarray, kept: np.ndarray, output: int, log_units: float) -> np.ndarray:
    """The rows of starts_ for one batch of members. Their nlml is the objective less the negative log prior."""
    result = batch.result
    starts = np.zeros(len(result.value), dtype=START_FIELDS)
    theta = torch.as_tensor(result.theta, dtype=torch.float64)
    prior = batch.layout.negative_log_prior(theta).numpy()
    starts["output"], starts["start"] = output, np.arange(len(starts))
    starts["nlml"], starts["objective"] = result.value - prior + log_units, result.value + log_units
    starts["status"], starts["iterations"], starts["evaluations"] = result.status, result.iterations, result.evaluations
    starts["chosen"][kept] = True
    starts["group"], starts["weight"] = batch.phase, weight
    return starts


def _output_values(trained: Trained, output: int) -> Tree:
    """Values of one target of a model with shared features: its own kernel, mean and noise, the common features."""
    values = trained.values(trained.order[:1])
    own = {k: map_leaves(lambda leaf: leaf[:, output], v) for k, v in values.items() if k != "features"}
    return {**own, **({"features": values["features"]} if "features" in values else {})}


def member_values(estimator: Any, output: int) -> Tree:
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
    each = [dict(leaves(member_values(estimator, o))) for o in range(outputs)]
    named: dict[str, Tensor] = {}
    for name, leaf in each[0].items():
        named[name] = leaf if name.startswith("features.") else torch.stack([values[name] for values in each])
    return nest(named)
