"""Training a sparse mGP: starts are screened on few rows, the best goes on with more of them, and ends on all.

On few rows the joint optimisation of features, kernel and inducing points is cheap and easy; on all rows it stops overfitting.
Whenever the rows or the features have changed, inducing points are chosen anew, and kept if the bound says so.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from manifoldgp._system.threads import Workers
from manifoldgp.errors import TrainingFailedError, warn
from manifoldgp.inference.sparse_posterior import KEPT_ROWS, from_sums
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, Tree, first_of, map_leaves, nest
from manifoldgp.training.checkpoint import Checkpoint, Checkpoints, fingerprint
from manifoldgp.training.inducing_placement import Placement
from manifoldgp.training.lbfgs import minimize_lbfgs
from manifoldgp.training.model_rows import MemoryRows, ModelRows
from manifoldgp.training.optimizer import Monitor, OptimizeResult
from manifoldgp.training.processes import Ranks
from manifoldgp.training.progress import Watch, nobody
from manifoldgp.training.replay import Replay
from manifoldgp.training.settings import Sparse
from manifoldgp.training.sparse_schedule import Schedule, stage_phase, start_phase
from manifoldgp.training.trained import Earlier, Trained, warm_theta


@dataclass
class Progress:
    """What training has reached: values without batch dimension (inducing points included), and the iterations in the present stage.

    rows: how many rows the objective values in ``history`` were computed on.
    """

    values: Tree
    iterations: int = 0
    history: list[float] = field(default_factory=list)
    status: str = ""
    evaluations: int = 0
    rows: int = 0


class SparseTrainer:
    """What all trainings of one target share: the method's settings, the generator of starts, the workers, the time and who watches.

    seconds: for the whole target, kept by the first process. seed: of all samples of rows. stopped: whether somebody, not a limit, wants training to end;
    from then on a member has one round.
    """

    def __init__(
        self,
        method: Sparse,
        generator: torch.Generator,
        workers: Workers,
        *,
        seed: int | None = None,
        earlier: Earlier | None = None,
        seconds: float | None = None,
        watch: Watch = nobody,
        output: int = 0,
        device: torch.device | str = "cpu",
        checkpoints: Checkpoints | None = None,
        schedule: Schedule | None = None,
        stopped: bool = False,
    ) -> None:
        self.method, self.generator, self.workers, self.seconds, self.watch = method, generator, workers, seconds, watch
        self.output, self.device, self.checkpoints, self.stopped = output, device, checkpoints, stopped
        self.schedule = schedule or Schedule()
        drawn = int(torch.randint(2**31 - 1, (), generator=generator))
        self.seed, self.earlier = drawn if seed is None else seed, earlier

    def fit(
        self,
        group: str,
        model: Model,
        rows: ModelRows,
        restarts: int,
        max_iter: int,
        *,
        share: float = 1.0,
        warm: Tree | None = None,
    ) -> Trained:
        """Screen ``restarts`` drawn starts on few rows and train the best one on all, within a share of the time.

        group: of an average; empty for a single model. warm: values of a fitted model that replace the first start.
        """
        checkpoint = None
        if self.checkpoints is not None:
            few = rows.sample(8, self.seed)
            details = {
                "rows": rows.count, "inducing": self.method.most_inducing, "seed": self.seed, "max_iter": max_iter, "restarts": restarts,
                "some rows of X": few.X.mean(-1).tolist(), "some rows of y": few.y.tolist(), "model": fingerprint(model),
            }  # fmt: skip
            checkpoint = self.checkpoints.of(group, self.output, details)

        def watch(phase: str, iterations: np.ndarray, values: np.ndarray) -> bool:
            return self.watch(f"{group}, {phase}" if group else phase, iterations, values) or self.stopped

        seconds = math.inf if self.seconds is None else share * self.seconds
        run = _Run(self, model, rows, max_iter, seconds, watch, checkpoint)
        trained = run.train(group or "own", restarts, warm)
        self.stopped = run.stopped
        return trained


class _Run:
    """The training of one model on one target."""

    def __init__(
        self,
        trainer: SparseTrainer,
        model: Model,
        rows: ModelRows,
        max_iter: int,
        seconds: float,
        watch: Watch,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.model, self.rows, self.inducing, self.generator = model, rows, trainer.method.most_inducing, trainer.generator
        self.max_iter, self.watch = max_iter, watch
        self.replay = Replay(checkpoint, rows.ranks)
        self.schedule, self.seed, self.device = trainer.schedule, trainer.seed, trainer.device
        self.begin, self.budget = time.perf_counter(), seconds
        self.placement = Placement(
            model, {}, {}, trainer.workers, self.seed, self.device, self.replay
        )  # parameters are known when starts are drawn
        self.rung = 0
        self.stopped = False

    @property
    def ranks(self) -> Ranks:
        return self.rows.ranks

    def train(self, group: str, restarts: int, warm_values: Tree | None = None) -> Trained:
        """Draw ``restarts`` starts (the first replaced by warm values), screen them, and train the best one on all rows."""
        sample = self.rows.sample(max(self._largest_subset(), 8 * self.inducing), self.seed)
        layout, drawn = self.model.draw(sample, self.generator, restarts)
        parameters, constants = nest(dict(layout.parameters)), first_of(layout.constants(drawn))
        self.placement = replace(self.placement, parameters=parameters, constants=constants)
        starts = [self._start(layout, drawn, r, warm_values) for r in range(restarts)]
        table = StartTable(restarts)
        best = Progress(starts[0])
        self.replay.begin()
        try:
            best = self._screen(starts, sample, table)
            self._stages(best, sample)
        except KeyboardInterrupt:
            if self.ranks.count > 1 or not best.history:
                raise
            best.status = "stopped by callback"
            self.stopped = True
            warn("Training was interrupted; the best model so far is kept.")
        finally:
            self.replay.end()
        return self._finish(group, best, table)

    def _start(self, layout: Layout, drawn: Tree, r: int, warm_values: Tree | None) -> Tree:
        if r == 0 and warm_values is not None and layout.size:
            theta = torch.as_tensor(warm_theta(layout, warm_values), device=self.device)
            return layout.unflatten(theta, self.placement.constants)
        return map_leaves(lambda leaf: leaf[r], drawn)

    def _largest_subset(self) -> int:
        return max([stage.rows or 0 for stage in self.schedule.stages] + [self.schedule.screen_rows])

    def _screen(self, starts: list[Tree], sample: Data, table: StartTable) -> Progress:
        """A few iterations of every start on few rows; the best one."""
        s = self.schedule
        few = _first_rows(sample, s.screen_rows)
        if len(starts) == 1:
            return Progress(starts[0])
        ends: list[Progress] = []
        for r, start in enumerate(starts):
            progress = Progress(start)
            share = s.screen_until * (r + 1) / len(starts)
            self._minimise(
                progress,
                few,
                min(s.screen_inducing, self.inducing),
                s.screen_iterations,
                share,
                start_phase(r, len(starts)),
            )
            table.record(r, progress)
            ends.append(progress)
            if self.stopped or self.ranks.decide(self._late(s.screen_until)):
                break
        values = [progress.history[-1] if progress.history else math.inf for progress in ends]
        if not np.isfinite(values).any():
            raise TrainingFailedError(
                f"None of the {len(ends)} starts gave a finite bound. Rescale the data, raise the noise floor, or start from another kernel."
            )
        table.chosen = int(np.argmin(values))
        return Progress(ends[table.chosen].values)

    def _stages(self, best: Progress, sample: Data) -> None:
        """Every stage of the schedule in turn."""
        N = self.rows.count
        for stage in self.schedule.stages:
            if stage.left_out(N):
                continue
            best.iterations, best.history = 0, []
            limit = min(self.max_iter, stage.max_iter or self.max_iter)
            subset = None if stage.rows is None else _first_rows(sample, stage.rows)
            inducing = stage.inducing_of(self.inducing)
            phase = stage_phase(N if subset is None else len(subset.y), inducing)
            self._stage(best, subset, inducing, limit, stage.until, phase)
            if self.stopped:
                return

    def _stage(self, best: Progress, subset: Data | None, inducing: int, limit: int, until: float, phase: str) -> None:
        """L-BFGS in stretches; inducing points are chosen anew between them."""
        left = limit
        while True:
            before = best.iterations
            stretch = min(left, self.schedule.rechoose)
            self._minimise(best, subset, inducing, stretch, until, phase)
            moved = best.iterations - before
            left -= moved
            if self.stopped or left <= 0 or moved < stretch or self.ranks.decide(self._late(until)):
                return

    def _minimise(self, progress: Progress, subset: Data | None, inducing: int, max_iter: int, share: float, phase: str) -> None:
        """L-BFGS from where ``progress`` stands, on a subset or on all rows, until the share of the time is spent; updates ``progress``."""
        source = self.rows if subset is None else MemoryRows(subset, self.ranks)
        N = source.count
        layout, theta, objective = self.placement.best(progress.values, source, inducing, first=not progress.history)
        before, progress.rows = list(progress.history), N
        scale = self.rows.count / N

        def after_round(iterations: np.ndarray, values: np.ndarray) -> bool:
            stop = self._late(share)
            if self.ranks.first and self.watch(phase, iterations + progress.iterations, values * scale):
                self.stopped = True
            stop, self.stopped = self.ranks.gather([stop, self.stopped])[0][0]
            if self.stopped:
                self.replay.close()
            return stop or self.stopped

        try:
            result = minimize_lbfgs(objective, theta[None], Monitor(max_iter, math.inf, after_round), memory=self.schedule.memory)
        finally:
            if objective.best is not None:
                progress.values = layout.unflatten(
                    torch.as_tensor(objective.best[1], device=self.device), self.placement.constants
                )
                progress.history = [*before, *([objective.best[0]] if not before else [])]
                self.rung = objective.rung
        progress.history = before + result.history[0][1 if before else 0 :]
        progress.iterations += int(result.iterations[0])
        progress.evaluations += int(result.evaluations[0])
        progress.status = (
            "time limit" if result.status[0] == "stopped by callback" and not self.stopped else str(result.status[0])
        )

    def _late(self, share: float) -> bool:
        late = time.perf_counter() - self.begin > share * self.budget
        return self.replay.decision(late) if self.budget < math.inf else late

    def _finish(self, group: str, best: Progress, table: StartTable) -> Trained:
        """Sums over all rows at the values found, and the posterior they give."""
        Z = best.values["inducing"]["Z"]
        full, theta, objective = self.placement.at({k: v for k, v in best.values.items() if k != "inducing"}, Z, self.rows)
        objective.rung = self.rung
        values, inducing, sums, bound = objective.sums(theta)
        posterior = from_sums(self.model, [values], [inducing], [sums], [bound], self.rows.sample(KEPT_ROWS, self.seed))
        prior = float(full.negative_log_prior(torch.as_tensor(theta, device=self.device))) if full.has_priors else 0.0
        table.finish(best, bound + prior, self.rows.count, theta)
        nlml = table.values - prior
        return Trained(
            group, self.model, full, self.placement.constants, table.result(), nlml, table.rows, table.history_rows,
            posterior.alpha.device, table.chosen, posterior,
        )  # fmt: skip


def _first_rows(data: Data, count: int) -> Data:
    """``count`` rows spread evenly over the sample, which is in the order of the data."""
    if count >= len(data.y):
        return data
    index = torch.linspace(0, len(data.y) - 1, count, dtype=torch.float64).round().long().to(data.X.device)
    return data.only(index)


class StartTable:
    """Every start: those that were only screened keep the value they had then, on few rows; it is not comparable with the chosen one's."""

    def __init__(self, restarts: int) -> None:
        self.values = np.full(restarts, np.inf)
        self.status = np.full(restarts, "not reached", dtype=object)
        self.iterations, self.evaluations = np.zeros(restarts, dtype=int), np.zeros(restarts, dtype=int)
        self.history: list[list[float]] = [[] for _ in range(restarts)]
        self.rows, self.history_rows = np.zeros(restarts, dtype=int), np.zeros(restarts, dtype=int)
        self.chosen = 0
        self.theta = np.zeros((restarts, 0))

    def record(self, r: int, progress: Progress) -> None:
        self.values[r] = progress.history[-1] if progress.history else np.inf
        self.status[r], self.iterations[r], self.evaluations[r] = "screened out", progress.iterations, progress.evaluations
        self.history[r] = list(progress.history)
        self.rows[r] = self.history_rows[r] = progress.rows

    def finish(self, best: Progress, value: float, rows: int, theta: np.ndarray) -> None:
        r = self.chosen
        self.rows[r], self.history_rows[r] = rows, best.rows
        self.values[r], self.status[r], self.history[r] = value, best.status or "iteration limit", list(best.history)
        self.iterations[r] += best.iterations
        self.evaluations[r] += best.evaluations
        self.theta = np.broadcast_to(theta, (len(self.values), len(theta)))

    def result(self) -> OptimizeResult:
        gradient = np.zeros_like(self.theta)
        return OptimizeResult(self.theta, self.values, gradient, self.status, self.iterations, self.evaluations, self.history)
