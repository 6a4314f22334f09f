"""From rows, in memory or streamed, to fitted sparse ensembles: one for each target, in the units of y."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from manifoldgp._system.threads import Workers, training_threads
from manifoldgp.averaging.settings import Stack
from manifoldgp.averaging.sparse_stack import VARIANCE_FACTORS, fit_sparse_stack, held_out_numbers_of
from manifoldgp.data.inputs import available_bytes
from manifoldgp.data.scaling import Standardizer
from manifoldgp.errors import InputError
from manifoldgp.estimators.exact_fit import START_FIELDS, FittedOutput, FoldChoice, Settings, bound_model, member_values
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.model import Model
from manifoldgp.training.checkpoint import Checkpoint
from manifoldgp.training.processes import ALONE, Ranks
from manifoldgp.training.progress import begin_output, watched_phases
from manifoldgp.training.rows import CHUNK_ROWS, ModelRows
from manifoldgp.training.sparse_schedule import Schedule
from manifoldgp.training.sparse_starts import SparseTrained
from manifoldgp.training.sparse_train import SparseTrainer

EXACT_UP_TO = 5_000
"""Rows up to which method="auto" is exact: beyond, one evaluation of the evidence takes seconds, and many are needed."""

SAMPLE_ROWS = 12_000
"""Rows that features without targets (PCA, a scikit-learn transformer) are fitted on, and starting values are drawn from."""


@dataclass(frozen=True)
class SparseSettings:
    """What the sparse method adds to Settings. inducing: M. checkpoint: a file's name, or None."""

    inducing: int
    ranks: Ranks = ALONE
    checkpoint: str | None = None
    schedule: Schedule | None = None


def refuse_too_little_memory(inducing: int) -> None:
    """The M x M matrices of the bound, and chunk x M ones for each thread, must fit."""
    threads = torch.get_num_threads()
    needed, available = 8 * (14 * inducing**2 + 6 * threads * CHUNK_ROWS * inducing), available_bytes()
    if needed > 0.9 * available:
        raise InputError(
            f"{inducing:,} inducing points need {needed / 2**30:.1f} GiB of memory; {available / 2**30:.1f} GiB are free. "
            "Use fewer inducing points: the number of rows does not matter."
        )


def fit_sparse_outputs(
    model: Model,
    rows_of: Callable[[int], ModelRows],
    x_scaler: Standardizer,
    y_scaler: Standardizer,
    settings: Settings,
    sparse: SparseSettings,
    folds: FoldChoice,
) -> list[FittedOutput]:
    """Train one sparse model (or stack) a target. rows_of(o): the rows of target o, in the model's units."""
    outputs = len(y_scaler.scale)
    refuse_too_little_memory(sparse.inducing)
    generator = Settings.generator(settings.random_state)
    begin = time.perf_counter()
    fitted: list[FittedOutput] = []
    checkpoints: list[Checkpoint] = []
    stopped = False
    with training_threads() as workers:
        for o in range(outputs):
            begin_output(settings.callback, o)
            rows = rows_of(o)
            left = (
                None
                if settings.time_budget is None
                else max(settings.time_budget - (time.perf_counter() - begin), 1e-9) / (outputs - o)
            )
            shown = settings.verbose and sparse.ranks.first
            with watched_phases(settings.callback, shown, settings.max_iter, rows.count, left) as watch:
                fit = _Fit(settings, sparse, workers, generator, watch, left, o, stopped, x_scaler, y_scaler)
                bound = bound_model(model, rows.sample(SAMPLE_ROWS, fit.seed).X)
                if isinstance(settings.averaging, Stack):
                    fitted.append(fit.stack(bound, rows, folds))
                else:
                    fitted.append(fit.single(bound, rows))
                checkpoints += fit.checkpoints
                stopped = fit.stopped
    for checkpoint in checkpoints if sparse.ranks.first else ():
        checkpoint.remove()
    return fitted


class _Fit:
    """One target's training: what all its members share. stopped: whether somebody wants training to end; then a member has one round."""

    def __init__(
        self,
        settings: Settings,
        sparse: SparseSettings,
        workers: Workers,
        generator: torch.Generator,
        watch: Any,
        seconds: float | None,
        output: int,
        stopped: bool,
        x_scaler: Standardizer,
        y_scaler: Standardizer,
    ) -> None:
        self.settings, self.sparse, self.workers, self.generator, self.watch = settings, sparse, workers, generator, watch
        self.seconds, self.output, self.stopped = seconds, output, stopped
        self.x_scaler, self.y_scaler = x_scaler, y_scaler
        self.checkpoints: list[Checkpoint] = []
        self.seed = int(torch.randint(2**31 - 1, (), generator=generator))

    def single(self, model: Model, rows: ModelRows) -> FittedOutput:
        """The best start alone."""
        warm = None if self.settings.warm_start_from is None else member_values(self.settings.warm_start_from, self.output)
        warm = None if warm is None else {name: tree for name, tree in warm.items() if name != "inducing"}
        trained = self._train(model, rows, "", self.seconds, warm)
        log_scale = float(np.log(self.y_scaler.scale[self.output]))
        starts = self._table(trained, "own", 1.0, log_scale)
        device = trained.posterior.alpha.device
        ensemble = Ensemble(
            [trained.posterior], [torch.zeros(1, 1, dtype=torch.float64, device=device)],
            offset=float(self.y_scaler.offset[self.output]), scale=float(self.y_scaler.scale[self.output]),
        )  # fmt: skip
        return FittedOutput(ensemble, starts, _histories(trained, log_scale), float(starts["nlml"][trained.chosen]))

    def stack(self, model: Model, rows: ModelRows, folds: FoldChoice) -> FittedOutput:
        """Sparse members, weighted on one held-out part."""

        def member(own: Model, seen: ModelRows, group: str, share: float) -> SparseTrained:
            return self._train(own, seen, group, None if self.seconds is None else share * self.seconds, None)

        held = held_out_numbers_of(rows, self.seed, folds.ordered, folds.groups)
        stack = fit_sparse_stack(model, rows, held, member)
        kept = [g for g, weight in enumerate(stack.weights) if weight.sum() > 0]
        log_scale = float(np.log(self.y_scaler.scale[self.output]))
        device = stack.posteriors[0].alpha.device
        log_weights = np.log(np.maximum(stack.weights[kept], 1e-300))
        log_weights -= np.logaddexp.reduce(log_weights, axis=None)
        ensemble = Ensemble(
            [stack.posteriors[g] for g in kept], [torch.as_tensor(w[:, None], device=device) for w in log_weights], VARIANCE_FACTORS,
            float(self.y_scaler.offset[self.output]), float(self.y_scaler.scale[self.output]),
        )  # fmt: skip
        tables = [
            self._table(trained, group, float(weight.sum()), log_scale)
            for trained, group, weight in zip(stack.trained, stack.groups, stack.weights, strict=True)
        ]
        starts = np.concatenate(tables)
        histories = [history for trained in stack.trained for history in _histories(trained, log_scale)]
        heaviest = starts["nlml"][np.argmax(starts["weight"])]
        return FittedOutput(ensemble, starts, histories, float(heaviest), stack.report)

    def _train(self, model: Model, rows: ModelRows, group: str, seconds: float | None, warm: Any) -> SparseTrained:
        checkpoint = None
        if self.sparse.checkpoint is not None:
            name = ".".join([self.sparse.checkpoint, *([group.replace(" ", "-")] if group else []), str(self.output)])
            checkpoint = Checkpoint(name, fingerprint=self._fingerprint(model, rows))
            self.checkpoints.append(checkpoint)

        def watch(phase: str, iterations: np.ndarray, values: np.ndarray) -> bool:
            return bool(self.watch(f"{group}, {phase}" if group else phase, iterations, values)) or self.stopped

        trainer = SparseTrainer(
            model, rows, self.sparse.inducing, self.workers, max_iter=self.settings.max_iter, time_budget=seconds, watch=watch,
            schedule=self.sparse.schedule, seed=self.seed, device=self.settings.device, checkpoint=checkpoint,
        )  # fmt: skip
        trained = trainer.train(self.generator, self.settings.restarts, warm)
        self.stopped = trained.stopped
        return trained

    def _fingerprint(self, model: Model, rows: ModelRows) -> dict[str, Any]:
        """What tells this fit from others: data, model and settings."""
        few = rows.sample(8, self.seed)
        parts = re.sub(r" at 0x[0-9a-f]+", "", repr((model.features, model.kernel, model.mean, model.noise, model.warping)))
        return {
            "rows": rows.count,
            "inducing": self.sparse.inducing,
            "seed": self.seed,
            "max_iter": self.settings.max_iter,
            "restarts": self.settings.restarts,
            "scale of X": self.x_scaler.scale.tolist(),
            "offset of X": (self.x_scaler.offset / self.x_scaler.scale).tolist(),
            "scale of y": self.y_scaler.scale.tolist(),
            "offset of y": (self.y_scaler.offset / self.y_scaler.scale).tolist(),
            "some rows of X": few.X.mean(-1).tolist(),
            "some rows of y": few.y.tolist(),
            "model": hashlib.sha256(parts.encode()).hexdigest(),
        }

    def _table(self, trained: SparseTrained, group: str, weight: float, log_scale: float) -> np.ndarray:
        """Bounds in the units of y: log sd(y) for each of the rows that they are bounds of."""
        result, log_units = trained.result, trained.rows * log_scale
        starts = np.zeros(len(result.value), dtype=START_FIELDS)
        starts["output"], starts["start"], starts["group"] = self.output, np.arange(len(starts)), group
        starts["nlml"], starts["objective"] = trained.nlml + log_units, result.value + log_units
        starts["status"], starts["iterations"], starts["evaluations"] = result.status, result.iterations, result.evaluations
        starts["chosen"][trained.chosen], starts["weight"][trained.chosen] = weight > 0, weight
        return starts


def _histories(trained: SparseTrained, log_scale: float) -> list[np.ndarray]:
    pairs = zip(trained.result.history, trained.history_rows, strict=True)
    return [np.array(history) + rows * log_scale for history, rows in pairs]
