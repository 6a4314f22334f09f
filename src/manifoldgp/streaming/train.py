"""Training a sparse mGP: starts are screened on few rows, the best goes on with more of them, and ends on all.

On few rows the joint optimisation of features, kernel and inducing points is cheap and easy; on all rows it stops overfitting.
Whenever the rows or the features have changed, inducing points are chosen anew, and kept if the bound says so.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from manifoldgp.errors import FitWarning, InputError, ManifoldGPError, TrainingFailedError
from manifoldgp.model import Data, Model
from manifoldgp.objective import first_of
from manifoldgp.optimize import Monitor, OptimizeResult, minimize_lbfgs
from manifoldgp.parameters import Layout, Parameter, Tree, constant_law, map_leaves, nest
from manifoldgp.sparse.greedy import greedy_inducing_points
from manifoldgp.sparse.posterior import KEPT_ROWS, SparsePosterior, from_sums
from manifoldgp.streaming.checkpoint import Checkpoint, Saved
from manifoldgp.streaming.objective import BoundObjective
from manifoldgp.streaming.ranks import Ranks
from manifoldgp.streaming.rows import MemoryRows, ModelRows
from manifoldgp.threads import Workers
from manifoldgp.train import warm_theta

Watch = Callable[[str, np.ndarray, np.ndarray], object]

_CANDIDATES = 4000
"""Rows, at least, whose features can become inducing points."""


@dataclass(frozen=True)
class Stage:
    """One stage of training. rows: at most this many (None: all). inducing: share of the inducing points. until: share of the time budget,
    since the beginning, at which it ends. max_iter: its own limit, beside the one that was asked for."""

    rows: int | None
    inducing: float
    until: float
    max_iter: int | None = None

    def left_out(self, N: int) -> bool:
        """Whether N rows are too few for this stage to be worth its while."""
        return self.rows is not None and 1.5 * self.rows >= N

    def inducing_of(self, inducing: int) -> int:
        return max(1, math.ceil(self.inducing * inducing))


@dataclass(frozen=True)
class Schedule:
    """How training goes. screen_*: each start on few rows with few inducing points; stages: what the best start goes through.

    Few rows make the joint optimisation easy; half the inducing points make an evaluation four times cheaper while features still move
    far. rechoose: iterations after which inducing points are chosen anew. memory: pairs that L-BFGS remembers.
    """

    screen_rows: int = 1000
    screen_inducing: int = 100
    screen_iterations: int = 30
    screen_until: float = 0.05
    stages: tuple[Stage, ...] = (Stage(4000, 0.5, 0.1, 150), Stage(None, 0.5, 0.6), Stage(None, 1.0, 1.0))
    rechoose: int = 150
    memory: int = 20

    def plan(self, N: int, inducing: int, restarts: int, max_iter: int) -> list[PlannedPhase]:
        """The phases on N rows, in their order; early convergence may end each before its last iteration."""
        few = min(self.screen_rows, N)
        starts = [
            PlannedPhase(start_phase(r, restarts), few, min(self.screen_inducing, inducing), self.screen_iterations)
            for r in range(restarts if restarts > 1 else 0)
        ]
        return starts + [
            PlannedPhase(stage_phase(rows, M), rows, M, min(max_iter, stage.max_iter or max_iter))
            for stage in self.stages
            if not stage.left_out(N)
            for rows, M in [(stage.rows or N, stage.inducing_of(inducing))]
        ]


@dataclass(frozen=True)
class PlannedPhase:
    """What a callback is told (name), and the size of the work: iterations at most, each over so many rows and inducing points."""

    name: str
    rows: int
    inducing: int
    max_iter: int


def start_phase(number: int, starts: int) -> str:
    """The name of the phase that screens a start."""
    return f"start {number + 1} of {starts}"


def stage_phase(rows: int, inducing: int) -> str:
    """The name of a stage's phase."""
    return f"{rows:,} rows, {inducing} inducing points"


@dataclass
class SparseTrained:
    """The model that was found, as a posterior of one member, and the table of all starts. value: F + negative log prior, nlml: F.

    rows, history_rows (R,): how many rows each start's value and history are of; all of them for the chosen start's value.
    stopped: whether somebody, not a limit, ended training.
    """

    posterior: SparsePosterior
    result: OptimizeResult
    nlml: np.ndarray
    rows: np.ndarray
    history_rows: np.ndarray
    chosen: int
    stopped: bool


@dataclass
class _Progress:
    """Where training stands: values without batch (inducing points included), iterations, and the stage. rows: those of the history."""

    values: Tree
    stage: int = 0
    iterations: int = 0
    history: list[float] = field(default_factory=list)
    status: str = ""
    evaluations: int = 0
    rows: int = 0


class SparseTrainer:
    """Trains one model on one target. deadline: on the clock of time.perf_counter, kept by the first process."""

    def __init__(
        self,
        model: Model,
        rows: ModelRows,
        inducing: int,
        workers: Workers,
        *,
        max_iter: int = 500,
        time_budget: float | None = None,
        watch: Watch | None = None,
        schedule: Schedule | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.model, self.rows, self.inducing, self.workers = model, rows, inducing, workers
        self.max_iter, self.watch, self.seed, self.device = max_iter, watch, seed, device
        self.schedule = schedule or Schedule()
        self.begin = time.perf_counter()
        self.budget = math.inf if time_budget is None else time_budget
        self.checkpoint = checkpoint
        self.parameters: Tree = {}
        self.constants: Tree = {}
        self.rung = 0
        self.stopped = False

    @property
    def ranks(self) -> Ranks:
        return self.rows.ranks

    def train(self, generator: torch.Generator, restarts: int, warm_values: Tree | None = None) -> SparseTrained:
        """Draw ``restarts`` starts (the first replaced by warm values), screen them, and train the best one on all rows."""
        sample = self.rows.sample(max(self._largest_subset(), 8 * self.inducing), self.seed)
        layout, drawn = self.model.draw(sample, generator, restarts)
        self.parameters = nest(dict(layout.parameters))
        self.constants = first_of(layout.constants(drawn))
        starts = [self._start(layout, drawn, r, warm_values) for r in range(restarts)]
        table = _Table(restarts)
        best = _Progress(starts[0])
        saved = self._saved()
        try:
            if saved is not None:
                best = self._resume(saved)
            else:
                best = self._screen(starts, sample, table)
            self._stages(best, sample)
        except KeyboardInterrupt:
            if self.ranks.count > 1 or not best.history:
                raise
            best.status = "stopped by callback"
            self.stopped = True
            warnings.warn("Training was interrupted; the best model so far is kept.", FitWarning, stacklevel=2)
        return self._finish(best, table)

    def _start(self, layout: Layout, drawn: Tree, r: int, warm_values: Tree | None) -> Tree:
        if r == 0 and warm_values is not None and layout.size:
            theta = torch.as_tensor(warm_theta(layout, warm_values), device=self.device)
            return layout.unflatten(theta, self.constants)
        return map_leaves(lambda leaf: leaf[r], drawn)

    def _largest_subset(self) -> int:
        return max([stage.rows or 0 for stage in self.schedule.stages] + [self.schedule.screen_rows])

    def _screen(self, starts: list[Tree], sample: Data, table: _Table) -> _Progress:
        """A few iterations of every start on few rows; the best one."""
        s = self.schedule
        few = _first_rows(sample, s.screen_rows)
        if len(starts) == 1:
            return _Progress(starts[0])
        ends: list[_Progress] = []
        for r, start in enumerate(starts):
            progress = _Progress(start)
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
        return _Progress(ends[table.chosen].values)

    def _stages(self, best: _Progress, sample: Data) -> None:
        """Every stage of the schedule in turn; one that a checkpoint has seen is not repeated."""
        N = self.rows.count
        for index, stage in enumerate(self.schedule.stages):
            if index < best.stage or stage.left_out(N):
                continue
            resumed = best.iterations if index == best.stage else 0
            best.stage, best.iterations, best.history = index, 0, []
            limit = min(self.max_iter, stage.max_iter or self.max_iter) - resumed
            subset = None if stage.rows is None else _first_rows(sample, stage.rows)
            inducing = stage.inducing_of(self.inducing)
            phase = stage_phase(N if subset is None else len(subset.y), inducing)
            self._stage(best, subset, inducing, limit, stage.until, phase)
            if self.stopped:
                return

    def _stage(self, best: _Progress, subset: Data | None, inducing: int, limit: int, until: float, phase: str) -> None:
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

    def _minimise(self, progress: _Progress, subset: Data | None, inducing: int, max_iter: int, share: float, phase: str) -> None:
        """L-BFGS from where ``progress`` stands, on a subset or on all rows, until the share of the time is spent; updates ``progress``."""
        source = self.rows if subset is None else MemoryRows(subset, self.ranks)
        N = source.count
        layout, theta, objective = self._placed(progress.values, source, inducing, first=not progress.history)
        before, progress.rows = list(progress.history), N
        scale = self.rows.count / N

        def after_round(iterations: np.ndarray, values: np.ndarray) -> bool:
            stop = self._late(share)
            if self.checkpoint is not None and self.ranks.first and objective.best is not None and self.checkpoint.due():
                self.checkpoint.write(
                    Saved(progress.stage, progress.iterations + int(iterations[0]), objective.best[1], layout.names)
                )
            if (
                self.watch is not None
                and self.ranks.first
                and self.watch(phase, iterations + progress.iterations, values * scale)
            ):
                self.stopped = True
            both = self.ranks.gather((stop, self.stopped))[0] if self.ranks.count > 1 else (stop, self.stopped)
            self.stopped = both[1]
            return both[0] or both[1]

        try:
            result = minimize_lbfgs(objective, theta[None], Monitor(max_iter, math.inf, after_round), memory=self.schedule.memory)
        finally:
            if objective.best is not None:
                progress.values = layout.unflatten(torch.as_tensor(objective.best[1], device=self.device), self.constants)
                progress.history = [*before, *([objective.best[0]] if not before else [])]
                self.rung = objective.rung
        progress.history = before + result.history[0][1 if before else 0 :]
        progress.iterations += int(result.iterations[0])
        progress.evaluations += int(result.evaluations[0])
        progress.status = (
            "time limit" if result.status[0] == "stopped by callback" and not self.stopped else str(result.status[0])
        )

    def _placed(self, values: Tree, source: ModelRows, count: int, first: bool) -> tuple[Layout, np.ndarray, BoundObjective]:
        """Layout, theta and objective with inducing points chosen anew; unless those at hand, and as many more as may be, give a better bound."""
        sample = source.sample(max(_CANDIDATES, 8 * count), self.seed)
        plain = {name: tree for name, tree in values.items() if name != "inducing"}
        kernel, count = plain.get("kernel", {}), min(count, source.count)
        with torch.no_grad():
            H = self.model.features(plain.get("features", {}), sample.X)
        candidates = [H[greedy_inducing_points(self.model.kernel, kernel, H, count)]]
        if "inducing" in values and len(values["inducing"]["Z"]) <= count:
            old = values["inducing"]["Z"].detach()
            candidates.append(torch.cat([old, H[greedy_inducing_points(self.model.kernel, kernel, H, count, old)]]))
        made = [self._with(plain, candidate, source) for candidate in candidates]
        if first:
            made[0][2].refuse_disconnected(made[0][1])
        if len(made) == 1:
            return made[0]
        bounds = [objective.value(theta) for _, theta, objective in made]
        return made[int(np.argmin(bounds))]

    def _with(self, plain: Tree, Z: torch.Tensor, source: ModelRows) -> tuple[Layout, np.ndarray, BoundObjective]:
        Z = Z.detach().clone()
        self.ranks.follow_first_(Z)
        layout = Layout({**self.parameters, "inducing": {"Z": Parameter(tuple(Z.shape), constant_law(Z))}})
        theta = layout.flatten({**plain, "inducing": {"Z": Z}}).detach()
        self.ranks.follow_first_(theta)
        objective = BoundObjective(self.model, layout, self.constants, source, self.device, self.workers)
        return layout, theta.cpu().numpy(), objective

    def _saved(self) -> Saved | None:
        """What the checkpoint holds, as the first process reads it."""
        mine: Saved | ManifoldGPError | None = None
        if self.checkpoint is not None and self.ranks.first:
            try:
                mine = self.checkpoint.read()
            except ManifoldGPError as error:  # all processes end, not the first alone
                mine = error
        saved = self.ranks.gather(mine)[0]
        if isinstance(saved, ManifoldGPError):
            raise saved
        return saved

    def _resume(self, saved: Saved) -> _Progress:
        """Where the checkpoint stands, on the stage it was written in."""
        Z_size = len(saved.theta) - Layout(self.parameters).size
        Q = self.model.features(self._any_values(saved).get("features", {}), self.rows.sample(2, self.seed).X).shape[-1]
        if Z_size <= 0 or Z_size % Q:
            raise InputError(
                "The checkpoint belongs to another model. Remove it, or continue with the arguments it was written with."
            )
        Z = torch.zeros(Z_size // Q, Q, dtype=torch.float64, device=self.device)
        layout = Layout({**self.parameters, "inducing": {"Z": Parameter(tuple(Z.shape), constant_law(Z))}})
        if list(saved.names) != list(layout.names):
            raise InputError(
                "The checkpoint belongs to another model. Remove it, or continue with the arguments it was written with."
            )
        values = layout.unflatten(torch.as_tensor(saved.theta, device=self.device), self.constants)
        if self.checkpoint is not None and self.ranks.first:
            done = saved.stage >= len(self.schedule.stages)
            words = "had ended" if done else f"had reached iteration {saved.iterations} of stage {saved.stage + 1}"
            message = f"Training is going on from the checkpoint {self.checkpoint.path}, where it {words}; remove the file to start anew."
            warnings.warn(message, FitWarning, stacklevel=3)
        return _Progress(values, saved.stage, saved.iterations)

    def _any_values(self, saved: Saved) -> Tree:
        layout = Layout(self.parameters)
        return layout.unflatten(torch.zeros(layout.size, dtype=torch.float64, device=self.device), self.constants)

    def _late(self, share: float) -> bool:
        return time.perf_counter() - self.begin > share * self.budget

    def _finish(self, best: _Progress, table: _Table) -> SparseTrained:
        """Sums over all rows at the values found, and the posterior they give."""
        Z = best.values["inducing"]["Z"]
        full, theta, objective = self._with({k: v for k, v in best.values.items() if k != "inducing"}, Z, self.rows)
        objective.rung = self.rung
        values, inducing, sums, bound = objective.sums(theta)
        posterior = from_sums(self.model, [values], [inducing], [sums], [bound], self.rows.sample(KEPT_ROWS, self.seed))
        prior = float(full.negative_log_prior(torch.as_tensor(theta, device=self.device))) if full.has_priors else 0.0
        table.finish(best, bound + prior, self.rows.count, theta)
        if self.checkpoint is not None and self.ranks.first:  # a fit of several members does not repeat this one
            self.checkpoint.write(Saved(len(self.schedule.stages), best.iterations, theta, full.names))
        nlml = table.values - prior
        return SparseTrained(posterior, table.result(), nlml, table.rows, table.history_rows, table.chosen, self.stopped)


class _Table:
    """Every start: those that were only screened keep the value they had then, on few rows; it is not comparable with the chosen one's."""

    def __init__(self, restarts: int) -> None:
        self.values = np.full(restarts, np.inf)
        self.status = np.full(restarts, "not reached", dtype=object)
        self.iterations, self.evaluations = np.zeros(restarts, dtype=int), np.zeros(restarts, dtype=int)
        self.history: list[list[float]] = [[] for _ in range(restarts)]
        self.rows, self.history_rows = np.zeros(restarts, dtype=int), np.zeros(restarts, dtype=int)
        self.chosen = 0
        self.theta = np.zeros((restarts, 0))

    def record(self, r: int, progress: _Progress) -> None:
        self.values[r] = progress.history[-1] if progress.history else np.inf
        self.status[r], self.iterations[r], self.evaluations[r] = "screened out", progress.iterations, progress.evaluations
        self.history[r] = list(progress.history)
        self.rows[r] = self.history_rows[r] = progress.rows

    def finish(self, best: _Progress, value: float, rows: int, theta: np.ndarray) -> None:
        r = self.chosen
        self.rows[r], self.history_rows[r] = rows, best.rows
        self.values[r], self.status[r], self.history[r] = value, best.status or "iteration limit", list(best.history)
        self.iterations[r] += best.iterations
        self.evaluations[r] += best.evaluations
        self.theta = np.broadcast_to(theta, (len(self.values), len(theta)))

    def result(self) -> OptimizeResult:
        gradient = np.zeros_like(self.theta)
        return OptimizeResult(self.theta, self.values, gradient, self.status, self.iterations, self.evaluations, self.history)


def _first_rows(data: Data, count: int) -> Data:
    """``count`` rows spread evenly over the sample, which is in the order of the data."""
    if count >= len(data.y):
        return data
    index = torch.linspace(0, len(data.y) - 1, count, dtype=torch.float64).round().long().to(data.X.device)
    return Data(data.X[index], data.y[index], None if data.known_noise is None else data.known_noise[index])
