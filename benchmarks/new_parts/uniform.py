"""An average that the package does not have: the one new file of a new averaging method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldgp.averaging.averages import Averaged, Averaging, FoldChoice
from manifoldgp.data.inputs import whole_number
from manifoldgp.model import Data, Model
from manifoldgp.training.plan import Phase, Plan
from manifoldgp.training.trainer import Trainer


@dataclass(repr=False)
class Uniform(Averaging):
    """Every start with the same weight."""

    restarts: int = 3
    max_iter: int = 20
    in_words = "The prediction is an average over all starts of one kind of model, with equal weights."

    def check(self) -> None:
        whole_number(self.restarts, "restarts")
        whole_number(self.max_iter, "max_iter", least=0)

    def plan(self, N: int) -> Plan:
        phase = Phase("uniform", self.max_iter, self.restarts * self.max_iter, self.max_iter)
        return Plan((phase,), at_once=self.restarts, kept=(self.restarts,))

    def fit(self, model: Model, data: Data, trainer: Trainer, folds: FoldChoice) -> Averaged:
        trained = trainer.fit("uniform", model, data, self.restarts, self.max_iter)
        usable = np.isfinite(trained.objective).astype(float)
        return Averaged([trained], [usable[None] / usable.sum()])
