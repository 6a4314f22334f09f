"""From rows to fitted ensembles: one for each target, in the units of y, exact or sparse."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.memory import available_bytes
from manifoldgp._system.plain_text import counted
from manifoldgp._system.threads import threads_for, training_threads
from manifoldgp.averaging import Averaging, Single, Stack
from manifoldgp.averaging.averages import Averaged, FoldChoice, SamplingReport
from manifoldgp.averaging.single import member_values
from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.data.inputs import TrainingTable, refuse_too_many_rows
from manifoldgp.data.scaling import Standardizer
from manifoldgp.errors import InputError, warn
from manifoldgp.estimators.arguments import RunSettings
from manifoldgp.features import Identity
from manifoldgp.inference.certainty import Certainty
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import Posterior, condition
from manifoldgp.inference.local_posterior import LocalPosterior
from manifoldgp.inference.neighbourhoods import Nearness
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.inference.sparse_posterior import SparsePosterior
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, leaves, map_leaves, nest
from manifoldgp.structure.search import Searched, SearchReport
from manifoldgp.training.checkpoint import Checkpoints
from manifoldgp.training.model_rows import CHUNK_ROWS, ModelRows
from manifoldgp.training.plan import Plan
from manifoldgp.training.processes import ALONE, Ranks
from manifoldgp.training.progress import shown, watching
from manifoldgp.training.settings import Sparse
from manifoldgp.training.sparse_trainer import SparseTrainer
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Trainer

LIGHTEST = 1e-4
"""Members of an average with less weight are dropped; their weight goes to others of the same architecture, so that all of these count for what held-out rows gave them."""

SAMPLE_ROWS = 12_000
"""Rows that features without targets (PCA, a scikit-learn transformer) are fitted on, and starting values are drawn from, where a model is sparse."""


@dataclass(frozen=True)
class FittedTarget:
    """One target's ensemble with the table and the histories of its starts, and its total NLML, in the units of y.

    interrupted: whether somebody, by Ctrl-C or a callback, ended its training.
    """

    ensemble: Ensemble
    starts: np.ndarray
    histories: list[np.ndarray]
    nlml: float
    report: HeldOutReport | None = None
    sampling: SamplingReport | None = None
    search: SearchReport | None = None
    interrupted: bool = False


def fit_exact(
    model: Model,
    data: list[Data],
    learnt: list[Data],
    y_scaler: Standardizer,
    averaging: Averaging,
    run: RunSettings,
    folds: FoldChoice,
    ranks: Ranks = ALONE,
    nearness: Nearness | None = None,
) -> list[FittedTarget]:
    """Train one model (or average) a target, or one with shared features for all of them. data: of each target. learnt: the same as they are learnt from.

    ranks: processes that all make this fit, and share the members of a stack; any other average each of them trains by itself.
    nearness: how members of a stack are conditioned on many rows; None: exactly.
    """
    ranks = ranks if isinstance(averaging, Stack) else ALONE
    rows = len(data[0].X)
    X, outputs = learnt[0].X, len(data)
    plan = titled(averaging.plan(rows), rows, model, averaging, "exact" if nearness is None else "local", run.part)
    whole = nearness is None or rows <= nearness.above
    plan = replace(plan, slower=averaging.slower(rows, X.shape[-1]), points=rows if whole else 0)
    shared = averaging if isinstance(averaging, Single) and averaging.shared_features and outputs > 1 else None
    if whole:
        refuse_too_many_rows(len(X), plan.matrices(outputs, torch.get_num_threads(), shared is not None))
    model = bound_model(model, X)
    generator, clock = run.draws.generator(), _Clock(run.time_budget)
    if shared is not None:
        with shown(run.verbose, 1, run.time_budget) as progress, training_threads() as workers:
            watch = watching(run.callback, progress, 0, plan, len(X) * outputs)
            return _on_shared_features(model, data, learnt, y_scaler, shared, Trainer(generator, workers, clock.deadline, watch))
    fitted = []
    with shown(run.verbose and ranks.first, outputs, run.time_budget) as progress:
        for o in range(outputs):
            seconds = clock.share(outputs - o)
            with training_threads() as workers:
                deadline = math.inf if seconds is None else ranks.agreed(time.perf_counter() + seconds)
                watch = watching(run.callback if ranks.first else None, progress, o, plan, len(X))
                trainer = Trainer(generator, workers, deadline, watch, o, run.earlier_of(o), ranks, nearness=nearness)
                average = averaging.fit(model, learnt[o], trainer, folds)
            with threads_for(rows):
                fitted.append(replace(_fitted(average, data[o], o, y_scaler), interrupted=trainer.stopped.is_set()))
    return fitted


def titled(plan: Plan, rows: int, model: Model, averaging: Averaging, method: str, part: str = "") -> Plan:
    """The plan with what is trained, in words, unless it says that itself. part: of what that is a part, if of anything."""
    if plan.title:
        return plan
    plain = isinstance(averaging, Single) and isinstance(model.features, Identity)
    trained = "a plain GP" if plain else f"averaging={averaging.shorthand()!r}"
    return replace(plan, title=f"{counted(rows, 'row')}, {trained}, method={method!r}" + (f", {part}" if part else ""))


def fit_sparse(
    model: Model,
    rows_of: Callable[[int], ModelRows],
    x_scaler: Standardizer,
    y_scaler: Standardizer,
    averaging: Averaging,
    method: Sparse,
    run: RunSettings,
    folds: FoldChoice,
    ranks: Ranks,
) -> list[FittedTarget]:
    """Train one sparse model (or stack) a target. rows_of(o): the rows of target o, in the model's units."""
    refuse_too_little_memory(method.most_inducing)
    outputs, generator, clock = len(y_scaler.scale), run.draws.generator(), _Clock(run.time_budget)
    seeds = run.draws.seeds(outputs)
    checkpoints = None if method.checkpoint is None else Checkpoints(method.checkpoint, _scales(x_scaler, y_scaler))
    fitted, stopped = [], False
    with shown(run.verbose and ranks.first, outputs, run.time_budget) as progress:
        for o in range(outputs):
            rows, seconds = rows_of(o), clock.share(outputs - o)
            plan = titled(averaging.plan_sparse(rows.count, method), rows.count, model, averaging, "sparse", run.part)
            with training_threads() as workers:
                watch = watching(run.callback, progress, o, plan, rows.count)
                trainer = SparseTrainer(
                    method, generator, workers, seed=seeds[o], earlier=run.earlier_of(o), seconds=seconds, watch=watch, output=o, device=run.device, checkpoints=checkpoints, stopped=stopped,
                )  # fmt: skip
                bound = bound_model(model, rows.sample(SAMPLE_ROWS, trainer.seed).X)
                average, stopped = averaging.fit_sparse(bound, rows, trainer, folds), trainer.stopped
            fitted.append(replace(_fitted(average, None, o, y_scaler), interrupted=stopped))
    if checkpoints is not None and ranks.first:
        if stopped:
            warn(
                f"Training was stopped: the same fit goes on from the checkpoint {checkpoints.path}. Remove its files to start anew."
            )
        else:
            checkpoints.remove()
    return fitted


class _Clock:
    """The time that a fit has for all its targets, from now on."""

    def __init__(self, budget: float | None) -> None:
        self.deadline = math.inf if budget is None else time.perf_counter() + budget

    def share(self, targets: int) -> float | None:
        """Seconds for the first of so many targets: an equal part of what is left."""
        return None if self.deadline == math.inf else max(self.deadline - time.perf_counter(), 1e-9) / targets


def data_of_targets(table: TrainingTable, x_scaler: Standardizer, y_scaler: Standardizer, device: str) -> list[Data]:
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
        raise InputError(f"The features cannot be computed for inputs with {counted(X.shape[1], 'column')}: {error}") from error


def refuse_too_little_memory(inducing: int) -> None:
    """The J x J matrices of the bound, and chunk x J ones for each thread, must fit."""
    threads = torch.get_num_threads()
    needed, available = 8 * (14 * inducing**2 + 6 * threads * CHUNK_ROWS * inducing), available_bytes()
    if needed > 0.9 * available:
        raise InputError(
            f"{inducing:,} inducing points need {needed / 2**30:.1f} GiB of memory; {available / 2**30:.1f} GiB are free. "
            "Use fewer inducing points: the number of rows does not matter."
        )


def _fitted(average: Averaged, data: Data | None, output: int, y_scaler: Standardizer) -> FittedTarget:
    """Drop members that carry next to no weight, and condition the others on all rows."""
    offset, scale = float(y_scaler.offset[output]), float(y_scaler.scale[output])
    log_scale = float(np.log(scale))
    blocks, log_weights, usual, tables, histories = [], [], [], [], []
    for place, (trained, weights) in enumerate(zip(average.trained, average.weights, strict=True)):
        kept, weights = without_lightest(weights)
        table = trained.table(weights.sum(0), kept, output, log_scale)
        tables.append(table)
        histories += trained.histories(log_scale)
        if len(kept):
            blocks.append(trained.conditioned(kept, data, average.nearness))
            if trained.posterior is None and blocks[-1].rows != trained.rows[0]:
                _tell_of_all_rows(table, kept, blocks[-1], int(trained.rows[0]), log_scale)
            log_weights.append(np.log(np.maximum(weights[:, kept], 1e-300)))
            if average.following is not None:
                usual.append(torch.as_tensor(average.following.usual[place][kept], device=blocks[-1].device))
    total = np.logaddexp.reduce(np.concatenate([w.ravel() for w in log_weights]))
    on_device = [torch.as_tensor(w - total, device=block.device) for w, block in zip(log_weights, blocks, strict=True)]
    starts = np.concatenate(tables)
    follows = average.following
    certainty = None if follows is None else Certainty(follows.exponent, follows.share, usual)
    ensemble = Ensemble(blocks, on_device, average.variance_factors, offset, scale, certainty)
    heaviest = float(starts["nlml"][np.argmax(starts["weight"])])
    search = average.search if isinstance(average, Searched) else None
    return FittedTarget(ensemble, starts, histories, heaviest, average.report, average.sampling, search)


def without_lightest(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The members of one architecture that predict, and weights (F, R) in which the others have none; every variance factor counts for what it did.

    >>> kept, weights = without_lightest(np.array([[0.5, 0.3, 4e-5], [0.1, 0.0, 4e-5]]))
    >>> kept.tolist(), weights.round(6).tolist()
    ([0, 1], [[0.500025, 0.300015, 0.0], [0.10004, 0.0, 0.0]])
    >>> without_lightest(np.full((1, 50), 5e-5))[0].tolist(), without_lightest(np.array([[5e-5]]))[0].tolist()
    ([0], [])
    """
    each = weights.sum(0)
    if each.sum() < LIGHTEST:
        return np.zeros(0, dtype=int), np.zeros_like(weights)
    kept = np.flatnonzero(each >= LIGHTEST) if (each >= LIGHTEST).any() else each.argmax()[None]
    left = np.zeros_like(weights)
    left[:, kept] = weights[:, kept]
    gone = left.sum(1) == 0.0  # of a factor that only light members had
    left[np.ix_(gone, kept)] = each[kept]
    return kept, left * (weights.sum(1) / left.sum(1))[:, None]


def _tell_of_all_rows(table: np.ndarray, kept: np.ndarray, posterior: Conditioned, learnt_from: int, log_scale: float) -> None:
    """Rows of the table of starts that learnt from some of the rows: totals over all of them for those that are kept, and of the others nobody knows any."""
    prior = table["objective"] - table["nlml"]
    table["nlml"] = np.inf
    assert isinstance(posterior, (Posterior, LocalPosterior, SparsePosterior))
    nlml = posterior.bound if isinstance(posterior, SparsePosterior) else posterior.nlml()
    table["nlml"][kept] = nlml.cpu().numpy() + posterior.rows * log_scale
    table["objective"] = table["nlml"] + np.nan_to_num(prior)
    table["status"][kept] = f"learnt from {counted(learnt_from, 'row')}"


def _on_shared_features(
    model: Model, data: list[Data], learnt: list[Data], y_scaler: Standardizer, single: Single, trainer: Trainer
) -> list[FittedTarget]:
    """One model of all targets together: common features, and for each target its own kernel, mean, noise and warping."""
    outputs = len(data)
    known = [d.known_noise for d in learnt if d.known_noise is not None]
    joint = Data(learnt[0].X, torch.stack([d.y for d in learnt]), torch.stack(known) if known else None)
    warm = (
        None
        if single.warm_start_from is None
        else _joined_values([member_values(single.warm_start_from, o) for o in range(outputs)])
    )
    trained = single.train(replace(model, outputs=outputs), joint, trainer, warm)
    best, log_scale = trained.best(), float(np.log(y_scaler.scale).sum())
    weight, kept, fitted = (np.arange(len(trained.objective)) == best).astype(float), np.array([best]), []
    for o in range(outputs):
        starts = trained.table(weight, kept, o, log_scale)
        posterior = condition(model, _values_of_target(trained, o), data[o])
        one = torch.zeros(1, 1, dtype=torch.float64, device=posterior.alpha.device)
        ensemble = Ensemble([posterior], [one], offset=float(y_scaler.offset[o]), scale=float(y_scaler.scale[o]))
        nlml = float(starts["nlml"][best]) / outputs
        fitted.append(FittedTarget(ensemble, starts, trained.histories(log_scale), nlml, interrupted=trainer.stopped.is_set()))
    return fitted


def _values_of_target(trained: Trained, output: int) -> Tree:
    """The best start's values for one target: its own parts, and the common features."""
    values = trained.values(np.array([trained.best()]))
    own = {k: map_leaves(lambda leaf: leaf[:, output], v) for k, v in values.items() if k != "features"}
    return {**own, **({"features": values["features"]} if "features" in values else {})}


def _joined_values(each: list[Tree]) -> Tree:
    """Values of a model with shared features from those of its targets."""
    named = [dict(leaves(values)) for values in each]
    joined = {
        name: leaf if name.startswith("features.") else torch.stack([values[name] for values in named])
        for name, leaf in named[0].items()
    }
    return nest(joined)


def _scales(x_scaler: Standardizer, y_scaler: Standardizer) -> dict[str, list[float]]:
    """Scales and offsets of X and y as plain data, by which a checkpoint tells that it was written for other data."""
    return {
        "scale of X": x_scaler.scale.tolist(),
        "offset of X": (x_scaler.offset / x_scaler.scale).tolist(),
        "scale of y": y_scaler.scale.tolist(),
        "offset of y": (y_scaler.offset / y_scaler.scale).tolist(),
    }
