"""manifoldgp."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache

import numpy as np
import torch

from libraries.trace import Trace
from manifoldgp import GPRegressor, ManifoldGPRegressor, Single
from manifoldgp._system.threads import Workers, training_threads
from manifoldgp.features import MLP, Identity
from manifoldgp.model import Data, Model
from manifoldgp.parameters import first_of
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.plan import Plan
from manifoldgp.training.progress import PhaseWatcher
from problems import plain_values

_PROCESS = ExitStack()


def evaluation(X: np.ndarray, y: np.ndarray, values: dict, members: int = 1):
    """The batch that training evaluates; members > 1 are slightly different copies, and the first one's NLML is returned."""
    layers = values["layers"]
    model = Model(features=MLP(tuple(len(b) for _, b in layers)) if layers else Identity())
    data = Data(torch.from_numpy(X), torch.from_numpy(y))
    layout, drawn = model.draw(data, torch.Generator().manual_seed(0), members)
    constants = first_of(layout.constants(drawn))
    tree = {
        "features": {str(i): {"weight": _leaf(W, members), "bias": _leaf(b, members)} for i, (W, b) in enumerate(layers)},
        "kernel": {"variance": _leaf(values["variance"], members), "lengthscale": _leaf(values["lengthscale"], members)},
        "noise": {"scale": _leaf(values["noise"] ** 0.5, members)},
    }
    theta, rows = layout.flatten(tree).numpy(), np.arange(members)
    theta[1:] += 0.01 * np.random.default_rng(0).normal(size=theta[1:].shape)
    objective = TrainingObjective(model, layout, constants, data, _training_conditions())
    return lambda: float(objective(theta, rows)[0][0])


@cache
def _training_conditions() -> Workers:
    """Threads and memory as every fit sets them, until this process ends."""
    return _PROCESS.enter_context(training_threads())


def _leaf(value, members: int) -> torch.Tensor:
    leaf = torch.tensor(value, dtype=torch.float64)
    return leaf.expand(members, *leaf.shape).clone()


def fit(X: np.ndarray, y: np.ndarray, starts: list[dict], max_iter: int):
    """The estimators draw their starts themselves: :func:`problems.starts` repeats their law and seed."""
    trace = Trace()

    def watch(iterations, objective) -> bool:
        trace.seen(float(np.nanmin(objective)))
        return False

    settings = {"restarts": len(starts), "max_iter": max_iter}
    if starts[0]["layers"]:
        sizes = tuple(len(b) for _, b in starts[0]["layers"])
        model = ManifoldGPRegressor(sizes, averaging=Single(**settings), callback=watch)
    else:
        model = GPRegressor(**settings, callback=watch)
    model.fit(X, y)
    trace.seen(model.nlml_)
    block, member = model.ensembles_[0].heaviest()
    return plain_values(block.values, member), trace.points


def averaged_fit(X: np.ndarray, y: np.ndarray, averaging: str) -> None:
    """averaging="gp": a plain GP with 3 starts; otherwise the averaged estimator with its default settings."""
    model = GPRegressor(restarts=3) if averaging == "gp" else ManifoldGPRegressor(averaging=averaging)
    model.fit(X, y)


class AllRows(PhaseWatcher):
    """The best objective over time, as far as it is one of all rows: values on levels of fewer rows are left out."""

    def __init__(self) -> None:
        self.trace, self._counts = Trace(), True

    def begin(self, output: int, plan: Plan) -> None:
        """There is one target only."""

    def enter(self, phase: str) -> None:
        self._counts = " of " not in phase

    def __call__(self, iterations: np.ndarray, values: np.ndarray) -> bool:
        if self._counts:
            self.trace.seen(float(np.nanmin(values)))
        return False


def levelled_fit(X: np.ndarray, y: np.ndarray, network: list[int], restarts: int, max_iter: int, levels: bool):
    """A single exact model, with levels or without: its NLML, and the trace of those on all rows."""
    watch = AllRows()
    settings = {"restarts": restarts, "max_iter": max_iter, "levels": levels}
    if network:
        model = ManifoldGPRegressor(tuple(network), averaging=Single(**settings), method="exact", callback=watch)
    else:
        model = GPRegressor(**settings, method="exact", callback=watch)
    model.fit(X, y)
    watch.trace.seen(model.nlml_)
    return model.nlml_, watch.trace.points
