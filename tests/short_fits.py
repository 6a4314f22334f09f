"""Estimators for tests, from flat names: each goes to the settings object that has it, or to the estimator."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from manifoldgp import NUTS, Fast, ManifoldGPRegressor, Restarts, Single, Stack
from manifoldgp.averaging import AVERAGINGS
from manifoldgp.training.settings import METHODS


def manifold(features: Any = None, *, averaging: Any = "single", method: Any = "auto", **named: Any) -> ManifoldGPRegressor:
    """A ManifoldGPRegressor. named: fields of the average and of the method (in this order), and arguments of the estimator."""
    arguments = {"averaging": averaging, "method": method}
    for argument, ways in (("averaging", AVERAGINGS), ("method", METHODS)):
        if (way := ways.get(arguments[argument]) if isinstance(arguments[argument], str) else None) is not None:
            names = [field.name for field in fields(way) if field.name in named]
            arguments[argument] = way(**{name: named.pop(name) for name in names})
    return ManifoldGPRegressor(features, **arguments, **named)


def few_starts(averaging: str, restarts: int = 2, max_iter: int = 20) -> Any:
    """An average that is trained quickly: so many starts, or own members of a stack."""
    return {
        "stack": Stack(own_members=restarts),
        "fast": Fast(),
        "restarts": Restarts(restarts, max_iter),
        "nuts": NUTS(restarts, max_iter, chains=2, tune=16, draws=16, thin=4, depth=3),
        "single": Single(restarts, max_iter=max_iter),
    }[averaging]
