"""How sparse training goes: which starts and stages, on how many rows, with how many inducing points; and what its phases are called."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manifoldgp.training.plan import Phase, sparse_cost


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

    def phases(self, N: int, inducing: int, restarts: int, max_iter: int, prefix: str = "") -> list[Phase]:
        """The phases on N rows, in their order; early convergence may end each before its last iteration. prefix: of their names.

        >>> [phase.name for phase in Schedule().phases(9000, 512, restarts=1, max_iter=500)]
        ['4,000 rows, 256 inducing points', '9,000 rows, 256 inducing points', '9,000 rows, 512 inducing points']
        """
        few, J = min(self.screen_rows, N), min(self.screen_inducing, inducing)
        sizes = [(start_phase(r, restarts), few, J, self.screen_iterations) for r in range(restarts if restarts > 1 else 0)]
        for stage in self.stages:
            if not stage.left_out(N):
                rows, J = stage.rows or N, stage.inducing_of(inducing)
                sizes.append((stage_phase(rows, J), rows, J, min(max_iter, stage.max_iter or max_iter)))
        return [Phase(prefix + name, max(most, 1), max(most, 1) * sparse_cost(rows, J), most) for name, rows, J, most in sizes]


def start_phase(number: int, starts: int) -> str:
    """The name of the phase that screens a start."""
    return f"start {number + 1} of {starts}"


def stage_phase(rows: int, inducing: int) -> str:
    """The name of a stage's phase."""
    return f"{rows:,} rows, {inducing} inducing points"
