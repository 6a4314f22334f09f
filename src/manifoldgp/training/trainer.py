"""The trainer of exact models: draws starts, minimises them in one batch, on all rows or from few rows to all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from manifoldgp._system.threads import Workers
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, Tree, first_of
from manifoldgp.training.coarse_to_fine import has_levels, minimize_on_levels
from manifoldgp.training.minimizers import MINIMIZERS
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.optimizer import CONVERGED, ITERATION_LIMIT, STALLED, Monitor, Objective, OptimizeResult
from manifoldgp.training.progress import Watch, nobody
from manifoldgp.training.trained import Earlier, Trained, warm_theta

LOST_MARGIN = 10.0
"""Nats by which a restart must be out of reach of the best one to stop early. Measured on 16 problems with 20 restarts: 44 % of the
iterations are saved, and the same restart wins."""


@dataclass(frozen=True)
class Trainer:
    """What all trainings of one target share: the generator of starts, the workers, the deadline and who watches.

    output: the number of the target. earlier: what a fit to the same rows left before this one.
    """

    generator: torch.Generator
    workers: Workers
    deadline: float = math.inf
    watch: Watch = nobody
    output: int = 0
    earlier: Earlier | None = None

    def within(self, share: float, kept: float = 0.0) -> Trainer:
        """The same with a deadline after a share of the time that is left. kept: seconds that are left then at least, or a third of the time if that is less."""
        if self.deadline == math.inf:
            return self
        left = self.deadline - time.perf_counter()
        return replace(self, deadline=self.deadline - max((1.0 - share) * left, min(kept, left / 3.0)))

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() > self.deadline

    def fit(
        self,
        phase: str,
        model: Model,
        data: Data,
        count: int,
        max_iter: int | np.ndarray,
        start: Callable[[Tree], Tree] = lambda drawn: drawn,
        *,
        group: str | None = None,
        margin: float = math.inf,
        optimizer: str = "l-bfgs",
        levels: bool = False,
        warm: Tree | None = None,
        relaid: Callable[[Layout], Layout] = lambda layout: layout,
        parts: int = 1,
    ) -> Trained:
        """Minimise NLML (plus the negative log prior) from ``count`` drawn starts, all in one batch; each redraws network and kernel.

        start: what becomes of the drawn values. warm: values of a fitted model with the same names, without batch dimension, that replace the first start.
        group: the name of the members in tables, that of the phase if left out. relaid: what becomes of the layout of parameters (further priors, say).
        margin: nats behind the best by which a start is clearly lost and stops early.
        parts: data sets of every start, one after another, where its rows come in parts that are taken as independent of each other.
        levels: from :data:`manifoldgp.training.coarse_to_fine.LEAST_ROWS` rows on, starts are trained on few rows first, and only the best one on all of them;
        max_iter then limits each level. A warm start does not go back to few rows: it enters where all rows are compared.
        """
        layout, drawn = model.draw(data, self.generator, count)
        layout = relaid(layout)
        constants = first_of(layout.constants(drawn))
        theta = layout.flatten(start(drawn)).cpu().numpy() if layout.size else np.zeros((count, 0))
        if warm is not None and layout.size:
            theta[0] = warm_theta(layout, warm)
        phases = [phase]
        callback = None if self.watch is nobody else (lambda iterations, values: self.watch(phases[-1], iterations, values))
        monitor = Monitor(max_iter, self.deadline, callback, margin)

        def objective_of(rows: Data) -> TrainingObjective:
            return TrainingObjective(model, layout, constants, rows, self.workers, parts)

        straight = 0 if warm is None else 1
        if levels and np.max(max_iter) > 0 and layout.size and count > straight and has_levels(data):
            result = minimize_on_levels(
                objective_of, data, theta, MINIMIZERS[optimizer], monitor, self.generator, straight=straight, enter=phases.append
            )
        else:
            objective = objective_of(data)
            objective.refuse_disconnected(theta)
            result = MINIMIZERS[optimizer](objective, theta, monitor)
        if layout.group_terms:
            switch_off(result, layout, objective_of(data), MINIMIZERS[optimizer], monitor)
        return Trained.on(data, group or phase, model, layout, constants, result, parts)


_ROUNDS = 4
"""How often groups are switched off: each time what is left is trained on, and more may become negligible."""

_FORGIVEN = 1.0
"""Nats of the objective that a start may lose by what is switched off."""

Minimizer = Callable[[Objective, np.ndarray, Monitor], OptimizeResult]


def switch_off(result: OptimizeResult, layout: Layout, objective: Objective, minimize: Minimizer, monitor: Monitor) -> None:
    """Set groups that a sparse prior has made negligible to zero, and train what is left of each start that came to its end, within its iterations; in place.

    So what is switched off is off exactly, and what is left makes up for it. Where it does not, and the objective is worse by more than ``_FORGIVEN``, the data ask for
    those groups, small as they are: the start stays as it was.
    """
    off, tried = (np.zeros(result.theta.shape, dtype=bool) for _ in range(2))
    for _ in range(_ROUNDS):
        found = layout.negligible(result.theta) & ~tried
        starts = np.flatnonzero(found.any(-1) & np.isin(result.status.astype(str), (CONVERGED, ITERATION_LIMIT, STALLED)))
        if not starts.size or monitor.late():
            return
        tried[starts] |= found[starts]
        held = off[starts] | found[starts]
        theta = np.where(held, 0.0, result.theta[starts])
        again = minimize(_Held(objective, starts, held), theta, _for_some(monitor, result, starts))
        taken = _take_over(result, again, starts)
        off[taken] |= found[taken]


class _Held:
    """The objective of some starts (A,), with the parameters ``off`` (A, P) held where they are."""

    def __init__(self, objective: Objective, starts: np.ndarray, off: np.ndarray) -> None:
        self._objective, self._starts, self._off = objective, starts, off

    def __call__(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = self._objective(theta, self._starts[rows])
        return value, np.where(self._off[rows], 0.0, gradient)


def _for_some(monitor: Monitor, result: OptimizeResult, starts: np.ndarray) -> Monitor:
    """What is left of the limits for some starts, who are watched among all of them."""

    def watched(iterations: np.ndarray, values: np.ndarray) -> object:
        everyone, all_values = result.iterations.copy(), result.value.copy()
        everyone[starts] += iterations
        all_values[starts] = values
        return None if monitor.callback is None else monitor.callback(everyone, all_values)

    limit = np.broadcast_to(monitor.max_iter, len(result.value))[starts] - result.iterations[starts]
    return replace(monitor, max_iter=np.maximum(limit, 0), callback=watched)


def _take_over(result: OptimizeResult, again: OptimizeResult, starts: np.ndarray) -> np.ndarray:
    """Put what some starts reached in a second run in the place of the first, where it is about as good; which starts these are."""
    result.evaluations[starts] += again.evaluations
    result.seconds += again.seconds
    taken = np.flatnonzero(again.value <= result.value[starts] + _FORGIVEN)
    for i, r in zip(taken, starts[taken], strict=True):
        result.theta[r], result.value[r], result.gradient[r] = again.theta[i], again.value[i], again.gradient[i]
        result.status[r], result.history[r] = again.status[i], result.history[r] + again.history[i][1:]
        result.iterations[r] += again.iterations[i]
    return starts[taken]
