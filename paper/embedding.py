"""Why the random embedding is not last here, as it is in Table II: the same row with other dimensions and other optimisers, by trying them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from manifoldgp import ManifoldGPRegressor, RandomEmbedding, Single, metrics
from manifoldgp.data import Dataset
from paper import methods
from paper.experiment import Config
from paper.functions import BUMPS, TABLE_II

COLUMNS = ("nlml", "nlpp", "test_rmse")


@dataclass(frozen=True)
class Setting:
    """One way to train a GP on a random embedding with q features; raw: inputs and targets in their own units, with a prior mean of zero."""

    q: int
    restarts: int = 5
    max_iter: int = 500
    raw: bool = False

    def __str__(self) -> str:
        starts = "best of 5 starts" if self.restarts == 5 else "one start"
        length = "" if self.max_iter == 500 else f" of {self.max_iter} steps"
        return f"RandEmb, {self.q} feature{'s' * (self.q > 1)}, {starts}{length}{', not standardised' * self.raw}"

    def build(self, config: Config) -> ManifoldGPRegressor:
        """The unfitted estimator; the seed draws data, embedding and starts, as in the tables."""
        averaging = Single(restarts=self.restarts, max_iter=self.max_iter)
        return ManifoldGPRegressor(
            RandomEmbedding(self.q, seed=config.seed), averaging=averaging, standardize=not self.raw, random_state=config.seed
        )


SETTINGS = tuple(
    Setting(q, *how) for q in (3, 2, 1) for how in ((5, 500, False), (1, 500, False), (1, 10, False), (5, 500, True))
)
"""Three features, the paper's network's, as our table has it; two, as many as inputs; one. Each with the best optimiser, and with poorer ones."""


def tried(seeds: int) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """What is compared, row by row: its name and its scores for each seed."""
    yield "GP SE-ARD", _scores(methods.gp_se().build, seeds)
    yield "GP NN", _scores(methods.gp_nn().build, seeds)
    for setting in SETTINGS:
        yield str(setting), _scores(setting.build, seeds)


def _scores(build: Callable[[Config], Any], seeds: int) -> dict[str, list[float]]:
    configs = [Config("bumps", "embedding", seed, BUMPS.restarts) for seed in range(seeds)]
    found = [_one(build(config), BUMPS.dataset(config)) for config in configs]
    return {name: [scores[name] for scores in found] for name in COLUMNS}


def _one(model: Any, data: Dataset) -> dict[str, float]:
    model.fit(data.X_train, data.y_train)
    return {
        "nlml": model.nlml_ / len(data.y_train),
        "nlpp": -float(model.log_predictive_density(data.X_test, data.y_test).mean()),
        "test_rmse": metrics.rmse(data.y_test, model.predict(data.X_test)),
    }


def lines(seeds: int) -> Iterator[str]:
    """A markdown table, a line at a time as it is found: medians over the seeds, and the range of the NLPP."""
    yield "| | NLML | NLPP, test | of the seeds | RMSE, test |"
    yield "|---|---|---|---|---|"
    for name, key in (("paper: GP SE-ARD", "gp-se"), ("paper: GP NN", "gp-nn"), ("paper: RandEmb", "random-embedding")):
        row = TABLE_II[key]
        yield f"| {name} | {row.nlml:.2f} | {row.nlpp:.2f} | | {row.test_rmse:.1e} |"
    for name, scores in tried(seeds):
        nlml, nlpp, error = (statistics.median(scores[column]) for column in COLUMNS)
        yield f"| {name} | {nlml:.2f} | {nlpp:.2f} | {min(scores['nlpp']):.2f} to {max(scores['nlpp']):.2f} | {error:.1e} |"
