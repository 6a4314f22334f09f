"""The averages, as arguments of the estimators: each with exactly the arguments that it obeys."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from manifoldgp.averaging.stacking import Weighing
from manifoldgp.data.inputs import positive_number, whole_number
from manifoldgp.errors import InputError
from manifoldgp.training.minimizers import MINIMIZERS
from manifoldgp.training.settings import Options

GROUPS = ("plain GP", "warm", "cold", "own")
"""plain GP: Identity features. warm: nested mGPs that start at the plain GP and stop early. cold: nested mGPs that start far from it.
own: the features and kernel that the user chose (by default the paper's log-sigmoid network)."""

STEPPED = ("cold", "own")
"""Groups that are trained in steps. Warm members stop early by their nature."""

_MANY_ROWS = 1200
"""Rows from which on a stack has one warm and one cold member less: each is expensive."""


@dataclass(repr=False)
class Stack(Options):
    """The plain GP and many mGPs, weighted by what they predict on held-out folds (the default).

    Four groups: the plain GP; warm and cold members, mGPs on a small network that contains the plain GP; and members of your own features and kernel.

    Parameters
    ----------
    gp_starts
        Starts of the plain GP.
    warm_members
        Members, trained on all rows, that start at the plain GP and stop early. None: 5, or 4 from 1,200 rows on.
    cold_members
        Members, trained on all rows, that start far from the plain GP. None: 6, or 5 from 1,200 rows on.
    own_members
        Members of your own features, trained on all rows, at most.
    fold_members
        Members of each of these groups on each fold.
    hidden
        Units of the network of warm and cold members.
    q
        Features that this network adds.
    gp_iterations
        Iterations of the plain GP, at most.
    warm_iterations
        Iterations of warm members.
    steps
        Iterations in all, after which held-out rows decide whether cold and own members are trained on: to the second step unless they add next to nothing
        (half of ``keep``) and are no better than the plain GP, further if the last step gained ``go_on``.
    polish
        Iterations of a member on all rows that goes on where one of a fold ended; a quarter of those it had there if that is more.
    temperature
        Nats of the objective by which an own member must be worse to lose a factor e of weight.
    variance_factors
        Each member predicts once for each of these factors of its variance, with a weight of its own.
    gp_prior
        Pseudo-rows, as a fraction of N, that vote for the plain GP; fewer where held-out rows speak against it.
    spread_prior
        Pseudo-rows, as a fraction of N, that vote equally for every component.
    own_rows
        Up to so many rows all own members are trained, if they carry the weight; beyond, in inverse proportion to the rows.
    keep
        Nats a row of the held-out log density: groups that together add less are not trained on all rows.
    go_on
        Nats a row of the held-out log density that a step must gain for the next one to be taken.

    Examples
    --------
    >>> from manifoldgp import ManifoldGPRegressor
    >>> ManifoldGPRegressor(averaging=Stack(warm_members=12))
    ManifoldGPRegressor(averaging=Stack(warm_members=12))
    """

    gp_starts: int = 5
    warm_members: int | None = None
    cold_members: int | None = None
    own_members: int = 20
    fold_members: int = 2
    hidden: int = 8
    q: int = 2
    gp_iterations: int = 200
    warm_iterations: int = 25
    steps: tuple[int, ...] = (25, 80, 200)
    polish: int = 25
    temperature: float = 10.0
    variance_factors: tuple[float, ...] = (1.0, 4.0, 16.0)
    gp_prior: float = 0.05
    spread_prior: float = 0.02
    own_rows: int = 150
    keep: float = 0.005
    go_on: float = 0.05

    def check(self) -> None:
        for name in ("gp_starts", "own_members", "fold_members", "hidden", "q", "own_rows"):
            whole_number(getattr(self, name), name)
        for name in ("warm_members", "cold_members"):
            if getattr(self, name) is not None:
                whole_number(getattr(self, name), name)
        for name in ("gp_iterations", "warm_iterations", "polish"):
            whole_number(getattr(self, name), name, least=0)
        steps = _sequence(self.steps, "steps", "iteration counts that grow, such as (25, 80, 200)")
        growing = all(np.ndim(s) == 0 and isinstance(s, (int, np.integer)) for s in steps) and all(
            a < b for a, b in pairwise(steps)
        )
        if not growing or steps[0] < 1:
            raise InputError(f"steps must be iteration counts that grow, such as (25, 80, 200); got {self.steps!r}.")
        positive_number(self.temperature, "temperature")
        for factor in _sequence(self.variance_factors, "variance_factors", "positive numbers such as (1.0, 4.0, 16.0)"):
            positive_number(factor, "Each of variance_factors")
        for name in ("gp_prior", "spread_prior"):
            if not _number(getattr(self, name)) >= 0:
                raise InputError(f"{name} must be a fraction of the rows, zero or more; got {getattr(self, name)!r}.")
        for name in ("keep", "go_on"):
            if math.isnan(_number(getattr(self, name))):
                raise InputError(f"{name} must be a number, in nats a row; got {getattr(self, name)!r}.")

    def nested_members(self, rows: int) -> tuple[int, int]:
        """How many warm and cold members are trained on so many rows.

        >>> Stack().nested_members(1000), Stack().nested_members(1200), Stack(cold_members=9).nested_members(1200)
        ((5, 6), (4, 5), (4, 9))
        """
        less = int(rows >= _MANY_ROWS)
        return (
            5 - less if self.warm_members is None else self.warm_members,
            6 - less if self.cold_members is None else self.cold_members,
        )

    @property
    def weighing(self) -> Weighing:
        """How the groups are weighed."""
        return Weighing(tuple(self.variance_factors), self.gp_prior, self.spread_prior)


@dataclass(repr=False)
class Fast(Options):
    """A third of the weight for the plain GP, for warm and for cold members each; no folds. Your own features are no part of it.

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

    def check(self) -> None:
        for name in ("gp_starts", "warm_members", "cold_members", "hidden", "q", "cold_iterations"):
            whole_number(getattr(self, name), name)
        for name in ("gp_iterations", "warm_iterations"):
            whole_number(getattr(self, name), name, least=0)

    def as_stack(self) -> Stack:
        """The stack that has these groups at these sizes."""
        return Stack(
            gp_starts=self.gp_starts,
            gp_iterations=self.gp_iterations,
            warm_members=self.warm_members,
            warm_iterations=self.warm_iterations,
            cold_members=self.cold_members,
            steps=(self.cold_iterations,),
            hidden=self.hidden,
            q=self.q,
        )


@dataclass(repr=False)
class Restarts(Options):
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

    def check(self) -> None:
        whole_number(self.restarts, "restarts")
        whole_number(self.max_iter, "max_iter", least=0)
        positive_number(self.temperature, "temperature")


@dataclass(repr=False)
class NUTS(Options):
    """Full Bayes over network and hyperparameters: draws of the No-U-Turn Sampler, all with the same weight (extra ``[bayes]``).

    Parameters
    ----------
    restarts
        Starts of the search for the best points; the chains begin at the best of them.
    max_iter
        Iterations of each start, at most.
    chains
        Chains, at least two: whether they agree says whether they mixed.
    tune
        Draws of each chain, at its beginning, that only tune the sampler.
    draws
        Draws of each chain after these.
    thin
        Every so-many-th draw becomes a member.
    depth
        Largest depth of the sampler's trees: at most 2^depth gradients a draw.
    target_accept
        Acceptance that the step size is tuned to, between 0 and 1.
    """

    restarts: int = 20
    max_iter: int = 500
    chains: int = 2
    tune: int = 200
    draws: int = 200
    thin: int = 8
    depth: int = 7
    target_accept: float = 0.8

    def check(self) -> None:
        for name in ("restarts", "tune", "draws", "thin", "depth"):
            whole_number(getattr(self, name), name)
        whole_number(self.chains, "chains", least=2)
        whole_number(self.max_iter, "max_iter", least=0)
        if not 0 < _number(self.target_accept) < 1:
            raise InputError(f"target_accept must lie between 0 and 1; got {self.target_accept!r}.")


@dataclass(repr=False)
class Single(Options):
    """No average: of all starts the one with the best evidence, the paper's method.

    Parameters
    ----------
    restarts
        Independent starts; each redraws network and kernel.
    optimizer
        "l-bfgs" (all starts in one batch), "l-bfgs-b" (SciPy's, one after another) or "newton-cg".
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


Averaging = Stack | Fast | Restarts | NUTS | Single
AVERAGINGS: dict[str, type[Averaging]] = {cls.shorthand(): cls for cls in (Stack, Fast, Restarts, NUTS, Single)}
"""The averages by their shorthands."""


def as_averaging(given: Any) -> Averaging:
    """An average from its object or its shorthand.

    >>> as_averaging("stack"), as_averaging(Fast(hidden=4))
    (Stack(), Fast(hidden=4))
    """
    if isinstance(given, Averaging):
        return given
    if isinstance(given, str) and given in AVERAGINGS:
        return AVERAGINGS[given]()
    names = ", ".join(map(repr, AVERAGINGS))
    raise InputError(f"Unknown averaging {given!r}; choose one of {names}, or give an object such as Stack(warm_members=12).")


def _number(value: Any) -> float:
    with suppress(TypeError, ValueError):
        return float(value)
    return math.nan


def _sequence(value: Any, name: str, expected: str) -> tuple[Any, ...]:
    with suppress(TypeError):
        if len(value := tuple(value)):
            return value
    raise InputError(f"{name} must be {expected}; got {value!r}.")
