"""The quick average: fixed weights for the plain GP, warm and cold members, and no folds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldgp.averaging.averages import Averaged, Averaging, Fitted, FoldChoice
from manifoldgp.averaging.final_members import equal_weights
from manifoldgp.averaging.kinds import COLD, PLAIN, WARM
from manifoldgp.averaging.members import nested_gp, nested_start, pick, plain_gp, plain_phase
from manifoldgp.data.inputs import whole_number
from manifoldgp.model import Data, Model
from manifoldgp.training.plan import Phase, Plan, cost
from manifoldgp.training.settings import Method
from manifoldgp.training.trainer import LOST_MARGIN, Trainer

_WIDEST = 4.0


def widening(parameters: int, rows: int) -> float:
    """By how much the variance of new rows exceeds what a model says that was trained on few: Akaike's final prediction error (1970), at most 4.

    Of N rows that p parameters were fitted to, the residuals are smaller than the noise by (N - p) / N, and those of new rows larger by (N + p) / N.

    >>> [round(widening(4, N), 2) for N in (3, 25, 100, 1000)]
    [4.0, 1.38, 1.08, 1.01]
    """
    return min(_WIDEST, (rows + parameters) / (rows - parameters)) if rows > parameters else _WIDEST


@dataclass(repr=False)
class Fast(Averaging):
    """A third of the weight for the plain GP, for warm and for cold members each; no folds. Your own features are no part of it.

    Variances are widened by (N + p) / (N - p) for N rows and the p parameters of the plain GP: few rows leave the parameters uncertain too.

    Parameters
    ----------
    gp_starts
        Starts of the plain GP.
    gp_iterations
        Iterations of the plain GP, at most.
    warm_members
        mGPs that start at the plain GP and stop early.
    warm_iterations
        Iterations of warm members.
    cold_members
        mGPs that start far from the plain GP.
    cold_iterations
        Iterations of cold members.
    hidden
        Units of the network of warm and cold members.
    q
        Features that this network adds.
    """

    gp_starts: int = 3
    gp_iterations: int = 200
    warm_members: int = 3
    warm_iterations: int = 15
    cold_members: int = 3
    cold_iterations: int = 25
    hidden: int = 8
    q: int = 2

    in_words = "The prediction is an average with fixed weights: one third a plain Gaussian process, two thirds models with learned features."

    def check(self) -> None:
        for name in ("gp_starts", "warm_members", "cold_members", "hidden", "q", "cold_iterations"):
            whole_number(getattr(self, name), name)
        for name in ("gp_iterations", "warm_iterations"):
            whole_number(getattr(self, name), name, least=0)

    def models(self, template: Model, inputs: int, method: Method) -> dict[str, Model]:
        nested = nested_gp(template, self.hidden, self.q)
        return {PLAIN: plain_gp(template), WARM: nested, COLD: nested}

    def plan(self, N: int) -> Plan:
        members = self.warm_members + self.cold_members
        iterations = self.warm_members * self.warm_iterations + self.cold_members * self.cold_iterations
        most = max(self.warm_iterations, self.cold_iterations)
        nested = Phase("nested", iterations / members, iterations * cost(N), most)
        return Plan((plain_phase(self.gp_starts, self.gp_iterations, N), nested), max(self.gp_starts, members), kept=(1, members))

    def fit(self, model: Model, data: Data, trainer: Trainer, folds: FoldChoice) -> Averaged:
        gp = trainer.fit(PLAIN, plain_gp(model), data, self.gp_starts, self.gp_iterations, margin=LOST_MARGIN)
        best = gp.best()
        is_warm = np.arange(self.warm_members + self.cold_members) < self.warm_members
        nested = nested_gp(model, self.hidden, self.q)
        start = nested_start(nested, pick(gp.values(np.array([best])), np.zeros(len(is_warm), dtype=int)), is_warm)
        limits = np.where(is_warm, self.warm_iterations, self.cold_iterations)
        members = trainer.fit("nested", nested, data, len(is_warm), limits, start)
        weights = (equal_weights(members, is_warm) + equal_weights(members, ~is_warm)) / 3.0
        # The plain GP has what those leave that were cut short.
        gp_weight = np.where(np.arange(self.gp_starts) == best, 1.0 - weights.sum(), 0.0)
        return Averaged([gp, members], [gp_weight[None], weights[None]], (widening(gp.layout.size, data.y.shape[-1]),))

    def share_of_earlier(self, earlier: Fitted, later: Fitted) -> float:
        """By the numbers of members with learned features that were finished: all of them count the same."""
        counts = [int((f.starts["chosen"] & (f.starts["group"] != PLAIN)).sum()) for f in (earlier, later)]
        return counts[0] / sum(counts) if sum(counts) else 0.5
