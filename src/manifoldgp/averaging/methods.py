"""From the settings of an average to trained, weighted members."""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from manifoldgp._system.threads import training_threads
from manifoldgp.averaging.folds import make_folds
from manifoldgp.averaging.members import Trainer, Watch
from manifoldgp.averaging.settings import NUTS, Averaging, Fast, Restarts, Stack
from manifoldgp.averaging.stack import Averaged, fit_fast, fit_restarts, fit_stack
from manifoldgp.model import Data, Model


def folds_for(N: int) -> tuple[int, int]:
    """How many folds the rows are dealt to, and how many of them are held out in turn.

    Few rows need all of them for their weights, and small held-out parts; with many rows a part of them says enough.

    >>> [folds_for(N) for N in (50, 300, 800, 2000)]
    [(5, 5), (3, 3), (3, 2), (5, 1)]
    """
    if N < 60:
        return 5, 5
    return (3, 3) if N < 600 else (3, 2) if N < 1200 else (5, 1)


def fit_average(
    averaging: Averaging,
    model: Model,
    data: Data,
    *,
    generator: torch.Generator,
    time_budget: float | None = None,
    watch: Watch | None = None,
    groups: np.ndarray | None = None,
    ordered: bool = False,
) -> Averaged:
    """Members and weights of one target; groups and ordered choose the folds of a stack."""
    deadline = math.inf if time_budget is None else time.perf_counter() + time_budget
    if isinstance(averaging, NUTS):
        from manifoldgp.averaging.nuts import fit_nuts

        return fit_nuts(model, data, averaging, generator=generator, deadline=deadline, watch=watch)
    with training_threads() as workers:
        trainer = Trainer(generator, workers, deadline, watch)
        if isinstance(averaging, Restarts):
            return fit_restarts(model, data, averaging, trainer)
        if isinstance(averaging, Fast):
            return fit_fast(model, data, averaging, trainer)
        if not isinstance(averaging, Stack):
            raise TypeError(f"{averaging!r} is no average: a single model is trained by itself.")
        # The seed itself: nothing is drawn from the generator, so that the plain GP (of the first target) has the very starts of a GPRegressor.
        folds = _held_out_in_turn(len(data.y), np.random.default_rng(generator.initial_seed()), groups, ordered)
        return fit_stack(model, data, folds, averaging, trainer)


def _held_out_in_turn(N: int, rng: np.random.Generator, groups: np.ndarray | None, ordered: bool) -> list[np.ndarray]:
    """The folds that are used: the last ones of rows in order of time, else those of the most usual size (groups may be large)."""
    count, used = folds_for(N)
    folds = make_folds(N, count, rng, groups, ordered)
    if ordered and groups is None:
        return folds[-used:]
    return sorted(folds, key=lambda fold: abs(len(fold) - N / len(folds)))[:used]
