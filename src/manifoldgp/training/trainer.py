"""The trainer of exact models: draws starts, minimises them in one batch or side by side, on all rows or from few rows to all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

import numpy as np
import torch

from manifoldgp._system.threads import Workers
from manifoldgp.errors import warn
from manifoldgp.inference.neighbourhoods import Nearness
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, Tree, first_of
from manifoldgp.training.coarse_to_fine import has_levels, minimize_on_levels
from manifoldgp.training.held_parameters import switch_off
from manifoldgp.training.member_round import INTERRUPTED
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.optimizer import STOPPED, Curvature, Monitor, OptimizeResult
from manifoldgp.training.processes import ALONE, Ranks
from manifoldgp.training.progress import Watch, nobody
from manifoldgp.training.side_by_side import Hands, Lot
from manifoldgp.training.trained import Earlier, Trained, warm_theta

LOST_MARGIN = 10.0
"""Nats by which a restart must be out of reach of the best one to stop early. Measured on 16 problems with 20 restarts: 44 % of the
iterations are saved, and the same restart wins."""

Start = Callable[[Tree], Tree]
"""What becomes of drawn values, leaves (R, ...)."""


def as_drawn(drawn: Tree) -> Tree:
    """Starts stay where they were drawn."""
    return drawn


def as_laid(layout: Layout) -> Layout:
    """Parameters stay as they were laid out."""
    return layout


@dataclass(frozen=True)
class Training:
    """Minimising NLML (plus the negative log prior) from ``count`` drawn starts; each redraws network and kernel.

    start: what becomes of the drawn values. warm: values of a fitted model with the same names, without batch dimension, that replace the first start.
    group: the name of the members in tables, that of the phase if left out. relaid: what becomes of the layout of parameters (further priors, say).
    margin: nats behind the best by which a start is clearly lost and stops early.
    parts: data sets of every start, one after another, where its rows come in parts that are taken as independent of each other.
    levels: from :data:`manifoldgp.training.coarse_to_fine.LEAST_ROWS` rows on, starts are trained on few rows first, and only the best one on all of them;
    max_iter then limits each level. A warm start does not go back to few rows: it enters where all rows are compared.
    curvature: what earlier trainings of the same starts have learnt about the Hessians; for L-BFGS without levels. remembers: whether the result keeps that too,
    for a training that goes on from it; it takes twenty times the memory of the parameters.
    """

    phase: str
    model: Model
    data: Data
    count: int
    max_iter: int | np.ndarray
    start: Start = as_drawn
    group: str | None = None
    margin: float = math.inf
    optimizer: str = "l-bfgs"
    levels: bool = False
    warm: Tree | None = None
    relaid: Callable[[Layout], Layout] = as_laid
    parts: int = 1
    curvature: Curvature | None = None
    remembers: bool = False

    @property
    def straight(self) -> int:
        """Starts that do not go back to few rows."""
        return 0 if self.warm is None else 1

    def drawn(self, generator: torch.Generator) -> Lot:
        """All its starts."""
        layout, drawn = self.model.draw(self.data, generator, self.count)
        layout = self.relaid(layout)
        constants = first_of(layout.constants(drawn))
        theta = layout.flatten(self.start(drawn)).cpu().numpy() if layout.size else np.zeros((self.count, 0))
        where_drawn = layout.flatten(drawn).cpu().numpy() if layout.tuned.any() else None
        if self.warm is not None and layout.size:
            theta[0] = warm_theta(layout, self.warm)
        limits = np.broadcast_to(self.max_iter, self.count)
        return Lot(
            self.model, layout, constants, self.data, theta, limits, self.optimizer, self.margin, self.parts, where_drawn, self.curvature, self.remembers
        )  # fmt: skip

    def has_levels(self, lot: Lot) -> bool:
        wanted = self.levels and bool(np.max(self.max_iter) > 0) and lot.layout.size > 0 and self.count > self.straight
        return wanted and has_levels(self.data)


@dataclass(frozen=True)
class Trainer:
    """What all trainings of one target share: the generator of starts, the workers, the deadline and who watches.

    output: the number of the target. earlier: what a fit to the same rows left before this one. ranks: processes that all train this target, with the same rows.
    stopped: set once somebody wants training to end. nearness: how members are conditioned on many rows; None: exactly.
    """

    generator: torch.Generator
    workers: Workers
    deadline: float = math.inf
    watch: Watch = nobody
    output: int = 0
    earlier: Earlier | None = None
    ranks: Ranks = ALONE
    stopped: Event = field(default_factory=Event)
    nearness: Nearness | None = None

    def now(self) -> float:
        """Seconds on the clock of the deadline, that of the first process: all take the same decisions."""
        return self.ranks.agreed(time.perf_counter())

    def within(self, share: float, kept: float = 0.0) -> Trainer:
        """The same with a deadline after a share of the time that is left. kept: seconds that are left then at least, or a third of the time if that is less."""
        if self.deadline == math.inf:
            return self
        left = self.deadline - self.now()
        return replace(self, deadline=self.deadline - max((1.0 - share) * left, min(kept, left / 3.0)))

    @property
    def late(self) -> bool:
        """Whether the time is up, or somebody wants training to end."""
        return self.stopped.is_set() or (self.deadline < math.inf and self.now() > self.deadline)

    def interrupt(self) -> None:
        """Ctrl-C: training ends, and what there is is kept. One of several processes cannot end it for all of them."""
        if self.ranks.count > 1:
            raise KeyboardInterrupt
        self.stopped.set()
        warn(INTERRUPTED)

    def fit(
        self, phase: str, model: Model, data: Data, count: int, max_iter: int | np.ndarray, start: Start = as_drawn, **more: Any
    ) -> Trained:
        """One training; :class:`Training` says what its arguments are."""
        return self.fit_together([Training(phase, model, data, count, max_iter, start, **more)])[0]

    def fit_together(self, trainings: Sequence[Training]) -> list[Trained]:
        """Trainings that know nothing of each other, side by side. Their starts are drawn in order, whoever minimises them."""
        lots = [training.drawn(self.generator) for training in trainings]
        deadline = self.deadline if self.deadline == math.inf else time.perf_counter() + self.deadline - self.now()
        pairs = list(zip(trainings, lots, strict=True))
        straight = [(training, lot) for training, lot in pairs if not training.has_levels(lot)]
        for _, lot in straight:
            lot.objective().refuse_disconnected(lot.theta)
        hands = Hands(self.workers, self.ranks, self.watch)
        found = iter(hands.minimised([(training.phase, lot) for training, lot in straight], deadline))
        results = [self._on_levels(t, lot, deadline) if t.has_levels(lot) else next(found) for t, lot in pairs]
        if any((result.status == STOPPED).any() for result in results):
            self.stopped.set()
        return [
            Trained.on(t.data, t.group or t.phase, t.model, lot.layout, lot.constants, result, t.parts)
            for (t, lot), result in zip(pairs, results, strict=True)
        ]

    def _on_levels(self, training: Training, lot: Lot, deadline: float) -> OptimizeResult:
        """All starts on few rows first, and the best one on all of them."""
        phases, minimize = [training.phase], lot.minimizer
        callback = None if self.watch is nobody else (lambda iterations, values: self.watch(phases[-1], iterations, values))
        monitor = Monitor(training.max_iter, deadline, callback, lot.margin)

        def objective_of(rows: Data) -> TrainingObjective:
            return TrainingObjective(lot.model, lot.layout, lot.constants, rows, self.workers, lot.parts)

        result = minimize_on_levels(
            objective_of, lot.data, lot.theta, minimize, monitor, self.generator, straight=training.straight, enter=phases.append
        )
        if lot.layout.group_terms:
            switch_off(result, lot.layout, objective_of(lot.data), minimize, monitor)
        return result
