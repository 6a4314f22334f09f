"""The starts of sparse training: where each stands, the table of all of them, and the model that was found."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from manifoldgp.inference.sparse_posterior import SparsePosterior
from manifoldgp.parameters import Tree
from manifoldgp.training.optimizer import OptimizeResult


@dataclass
class Progress:
    """Where training stands: values without batch (inducing points included), iterations, and the stage. rows: those of the history."""

    values: Tree
    stage: int = 0
    iterations: int = 0
    history: list[float] = field(default_factory=list)
    status: str = ""
    evaluations: int = 0
    rows: int = 0


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
