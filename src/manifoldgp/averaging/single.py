"""No average: the best start alone, the paper's method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldgp._system.plain_text import counted
from manifoldgp.averaging.averages import Averaged, Averaging, Fitted, FoldChoice
from manifoldgp.data.inputs import whole_number
from manifoldgp.errors import InputError
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, map_leaves
from manifoldgp.training.coarse_to_fine import level_iterations, level_rows, phase_names, starts_on
from manifoldgp.training.minimizers import MINIMIZERS
from manifoldgp.training.model_rows import ModelRows
from manifoldgp.training.plan import Phase, Plan, cost, until_convergence
from manifoldgp.training.settings import Sparse
from manifoldgp.training.sparse_schedule import Schedule
from manifoldgp.training.sparse_trainer import SparseTrainer
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import LOST_MARGIN, Trainer


@dataclass(repr=False)
class Single(Averaging):
    """No average: of all starts the one with the best evidence, the paper's method.

    Parameters
    ----------
    restarts
        Independent starts; each redraws network and kernel.
    optimizer
        "l-bfgs" or "hessian-free" (all starts in one batch), or "l-bfgs-b" (SciPy's, one after another).
    max_iter
        Iterations of each start, at most; on levels, of each level.
    levels
        Whether an exact model of 2,000 rows or more trains its starts on few rows first, and only the best one on all of them: the same optimum, several
        times sooner. ``starts_`` says how far each start came. False: every start on all rows.
    shared_features
        With several targets, whether they share one learned M; otherwise each has its own model.
    warm_start_from
        A fitted estimator whose parameters replace the first start.

    Examples
    --------
    >>> from manifoldgp import ManifoldGPRegressor
    >>> ManifoldGPRegressor(averaging=Single(restarts=5))
    ManifoldGPRegressor(averaging=Single(restarts=5))
    """

    restarts: int = 20
    optimizer: str = "l-bfgs"
    max_iter: int = 500
    levels: bool = True
    shared_features: bool = False
    warm_start_from: Any = None

    in_words = "The prediction comes from a single model: of all starts the one that explains the training rows best."
    sparse_obeys = ("restarts", "max_iter", "warm_start_from")
    sparse_words = "a sparse single model obeys restarts, max_iter and warm_start_from alone."

    def check(self) -> None:
        whole_number(self.restarts, "restarts")
        whole_number(self.max_iter, "max_iter", least=0)
        if not isinstance(self.optimizer, str) or self.optimizer not in MINIMIZERS:
            raise InputError(f"Unknown optimizer {self.optimizer!r}; choose one of {', '.join(map(repr, MINIMIZERS))}.")
        for name in ("levels", "shared_features"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InputError(f"{name} must be True or False; got {getattr(self, name)!r}.")
        if self.warm_start_from is not None and getattr(self.warm_start_from, "ensembles_", None) is None:
            raise InputError("warm_start_from must be a fitted estimator of this package.")

    def __sklearn_clone__(self) -> Single:
        copy: Any = super().__sklearn_clone__()
        copy.warm_start_from = self.warm_start_from  # a clone of it would have lost what it learnt
        return copy

    def plan(self, N: int) -> Plan:
        iterations = until_convergence(self.max_iter, usual=105)
        if not (self.levels and self.max_iter > 0 and level_rows(N)):
            starts = Phase("starts", iterations, self.restarts * iterations * cost(N), self.max_iter)
            return Plan((starts,), at_once=self.restarts)
        *names, last = phase_names(N)
        limits = [level_iterations(k, self.max_iter) for k in range(len(names))]
        phases = [
            Phase(name, limits[k], starts_on(k, self.restarts) * limits[k] * cost(n), limits[k])
            for k, (name, n) in enumerate(zip(names, level_rows(N), strict=True))
        ]
        return Plan((*phases, Phase(last, self.max_iter, self.max_iter * cost(N), self.max_iter)))

    def fit(self, model: Model, data: Data, trainer: Trainer, folds: FoldChoice) -> Averaged:
        warm = None if self.warm_start_from is None else member_values(self.warm_start_from, trainer.output)
        return alone(self.train(model, data, trainer, warm))

    def train(self, model: Model, data: Data, trainer: Trainer, warm: Tree | None) -> Trained:
        """All starts; of several targets on shared features, of all of them together."""
        return trainer.fit(
            "starts", model, data, self.restarts, self.max_iter, group="own", margin=LOST_MARGIN, optimizer=self.optimizer,
            levels=self.levels, warm=warm,
        )  # fmt: skip

    def share_of_earlier(self, earlier: Fitted, later: Fitted) -> float:
        """All or nothing: the better one of the two predicts."""
        best = [f.starts["objective"][f.starts["chosen"]].min() for f in (earlier, later)]
        return float(best[0] <= best[1])

    def plan_sparse(self, N: int, method: Sparse) -> Plan:
        return Plan(tuple(Schedule().phases(N, method.most_inducing, self.restarts, self.max_iter)))

    def fit_sparse(self, model: Model, rows: ModelRows, trainer: SparseTrainer, folds: FoldChoice) -> Averaged:
        warm = None if self.warm_start_from is None else member_values(self.warm_start_from, trainer.output)
        return alone(trainer.fit("", model, rows, self.restarts, self.max_iter, warm=warm))


def alone(trained: Trained) -> Averaged:
    """The best start with all the weight."""
    return Averaged([trained], [(np.arange(len(trained.objective)) == trained.best())[None].astype(float)])


def member_values(estimator: Any, output: int) -> Tree:
    """The heaviest member of a fitted estimator, without batch dimension."""
    if output >= len(estimator.ensembles_):
        raise InputError(f"warm_start_from has {counted(len(estimator.ensembles_), 'target')}; this data has more.")
    block, member = estimator.ensembles_[output].heaviest()
    return map_leaves(lambda leaf: leaf[member], block.values)
