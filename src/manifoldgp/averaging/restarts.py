"""The average of all starts of one architecture, weighted by their evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldgp.averaging.averages import Averaged, Averaging, Fitted, FoldChoice
from manifoldgp.averaging.stacking import tempered_weights
from manifoldgp.data.inputs import positive_number, whole_number
from manifoldgp.model import Data, Model
from manifoldgp.training.plan import Phase, Plan, cost, until_convergence
from manifoldgp.training.trainer import Trainer

LOST_AFTER = 5.0
"""Temperatures behind the best after which a member's weight, e⁻⁵ of the best one's, is not worth training for."""


@dataclass(repr=False)
class Restarts(Averaging):
    """All starts of your own features and kernel, weighted by their evidence, exp(−objective / temperature).

    Parameters
    ----------
    restarts
        Independent starts; each redraws network and kernel.
    max_iter
        Iterations of each start, at most.
    temperature
        Nats of the objective by which a start must be worse to lose a factor e of weight.
    """

    restarts: int = 20
    max_iter: int = 500
    temperature: float = 10.0

    in_words = "The prediction is an average over the restarts of one kind of model, weighted by how well each explains the training rows."

    def check(self) -> None:
        whole_number(self.restarts, "restarts")
        whole_number(self.max_iter, "max_iter", least=0)
        positive_number(self.temperature, "temperature")

    def plan(self, N: int) -> Plan:
        iterations = until_convergence(self.max_iter)
        phase = Phase("restarts", iterations, self.restarts * iterations * cost(N), self.max_iter)
        return Plan((phase,), at_once=self.restarts, kept=(self.restarts,))

    def fit(self, model: Model, data: Data, trainer: Trainer, folds: FoldChoice) -> Averaged:
        trained = trainer.fit("restarts", model, data, self.restarts, self.max_iter, margin=LOST_AFTER * self.temperature)
        trained.best()  # refuses when no start could be trained
        return Averaged([trained], [tempered_weights(trained.objective, self.temperature)[None]])

    def share_of_earlier(self, earlier: Fitted, later: Fitted) -> float:
        """By their evidence, as if all had been started together."""
        both = np.concatenate([earlier.starts["objective"], later.starts["objective"]])
        return float(tempered_weights(both, self.temperature)[: len(earlier.starts)].sum())
