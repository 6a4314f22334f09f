"""Estimators for tests, from flat names: each goes to the settings object that has it, or to the estimator."""

from __future__ import annotations

import math
import time
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from manifoldgp import NUTS, Fast, ManifoldGPRegressor, Restarts, Single, Sparse, Stack
from manifoldgp._system.threads import training_threads
from manifoldgp.averaging import AVERAGINGS
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree
from manifoldgp.training.progress import Callback, nobody
from manifoldgp.training.settings import METHODS
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Trainer


def manifold(features: Any = None, *, averaging: Any = "single", method: Any = "auto", **named: Any) -> ManifoldGPRegressor:
    """A ManifoldGPRegressor. named: fields of the average and of the method (in this order), and arguments of the estimator."""
    arguments = {"averaging": averaging, "method": method}
    for argument, ways in (("averaging", AVERAGINGS), ("method", METHODS)):
        if (way := ways.get(arguments[argument]) if isinstance(arguments[argument], str) else None) is not None:
            names = [field.name for field in fields(way) if field.name in named]
            arguments[argument] = way(**{name: named.pop(name) for name in names})
    return ManifoldGPRegressor(features, **arguments, **named)


SHORT_STACK = Stack(steps=(3, 6), warm_iterations=3, fold_members=1, warm_members=1, cold_members=2, own_members=1)
"""A stack whose sparse members are trained in seconds."""


def short_stack(
    inducing: int | None = 20, callback: Any = None, time_budget: float | None = None, checkpoint: str | None = None, **sizes: Any
) -> ManifoldGPRegressor:
    """A sparse stack that is fitted in seconds."""
    return ManifoldGPRegressor(
        (3, 2),
        averaging=replace(SHORT_STACK, **sizes),
        method=Sparse(inducing, checkpoint),
        callback=callback,
        time_budget=time_budget,
    )


def shorten_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make "stack" mean few members and one deal for the rest of a test: for code that is run as it is written, and not for what comes out of it."""
    shorter = {
        "gp_starts": 1,
        "warm_members": 1,
        "cold_members": 2,
        "own_members": 2,
        "deals": 1,
        "fold_members": 1,
        "steps": (10,),
    }
    for field in fields(Stack):
        monkeypatch.setattr(field, "default", shorter.get(field.name, field.default))
    names = [field.name for field in fields(Stack)]
    monkeypatch.setattr(
        Stack.__init__,
        "__defaults__",
        tuple(shorter.get(n, d) for n, d in zip(names, Stack.__init__.__defaults__ or (), strict=True)),
    )


def few_starts(averaging: str, restarts: int = 2, max_iter: int = 20) -> Any:
    """An average that is trained quickly: so many starts, or own members of a stack."""
    return {
        "stack": Stack(own_members=restarts, deals=1),
        "fast": Fast(),
        "restarts": Restarts(restarts, max_iter),
        "nuts": NUTS(restarts, max_iter, chains=2, tune=16, draws=16, thin=4, depth=3),
        "single": Single(restarts, max_iter=max_iter),
    }[averaging]


def train(
    model: Model,
    data: Data,
    *,
    restarts: int,
    generator: torch.Generator,
    time_budget: float | None = None,
    callback: Callback | None = None,
    warm_values: Tree | None = None,
    **settings: Any,
) -> Trained:
    """A single model's starts, without an estimator around it; refuses, as a fit does, when none could be trained."""
    deadline = math.inf if time_budget is None else time.perf_counter() + time_budget
    watch = nobody if callback is None else (lambda phase, iterations, values: bool(callback(iterations, values)))
    with training_threads() as workers:
        single = Single(restarts, **settings)
        single.check()
        trained = single.train(model, data, Trainer(generator, workers, deadline, watch), warm_values)
    trained.best()
    return trained
