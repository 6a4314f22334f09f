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
from manifoldgp.training.optimizer import Monitor
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
        return Trained.on(data, group or phase, model, layout, constants, result, parts)
