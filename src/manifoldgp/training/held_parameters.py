"""Minimisations that hold some parameters where they are: groups that a sparse prior has made negligible are switched off, and what is left of a model is trained on;
a network that was learnt before is tuned after everything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from manifoldgp.parameters import Layout
from manifoldgp.training.optimizer import CONVERGED, ITERATION_LIMIT, STALLED, STOPPED, Monitor, Objective, OptimizeResult

_ROUNDS = 4
"""How often groups are switched off: each time what is left is trained on, and more may become negligible."""

_FORGIVEN = 1.0
"""Nats of the objective that a start may lose by what is switched off."""


class Minimizer(Protocol):
    """Minimises from every row of theta (R, P)."""

    def __call__(self, objective: Objective, theta: np.ndarray, monitor: Monitor, /, **more: Any) -> OptimizeResult: ...


def switch_off(result: OptimizeResult, layout: Layout, objective: Objective, minimize: Minimizer, monitor: Monitor) -> None:
    """Set groups that a sparse prior has made negligible to zero, and train what is left of each start that came to its end, within its iterations; in place.

    So what is switched off is off exactly, and what is left makes up for it. Where it does not, and the objective is worse by more than ``_FORGIVEN``, the data ask for
    those groups, small as they are: the start stays as it was.
    """
    off, tried = (np.zeros(result.theta.shape, dtype=bool) for _ in range(2))
    for _ in range(_ROUNDS):
        found = layout.negligible(result.theta) & ~tried
        starts = np.flatnonzero(found.any(-1) & np.isin(result.status.astype(str), (CONVERGED, ITERATION_LIMIT, STALLED)))
        if not starts.size or monitor.late():
            return
        tried[starts] |= found[starts]
        held = off[starts] | found[starts]
        theta = np.where(held, 0.0, result.theta[starts])
        again = minimize(_Held(objective, starts, held), theta, _for_some(monitor, result.iterations, result.value, starts))
        taken = _take_over(result, again, starts)
        off[taken] |= found[taken]


class _Held:
    """The objective of some starts (A,), with the parameters ``off`` (A, P) held where they are."""

    def __init__(self, objective: Objective, starts: np.ndarray, off: np.ndarray) -> None:
        self._objective, self._starts, self._off = objective, starts, off

    def __call__(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = self._objective(theta, self._starts[rows])
        return value, np.where(self._off[rows], 0.0, gradient)


def _for_some(monitor: Monitor, taken: np.ndarray, values: np.ndarray, starts: np.ndarray) -> Monitor:
    """What is left of the limits for some starts, who are watched among all of them. taken, values (R,): the iterations and values of all so far."""

    def watched(iterations: np.ndarray, found: np.ndarray) -> object:
        everyone, all_values = taken.copy(), values.copy()
        everyone[starts] += iterations
        all_values[starts] = found
        return None if monitor.callback is None else monitor.callback(everyone, all_values)

    limit = np.broadcast_to(monitor.max_iter, len(values))[starts] - taken[starts]
    return replace(monitor, max_iter=np.maximum(limit, 0), callback=watched)


def _take_over(result: OptimizeResult, again: OptimizeResult, starts: np.ndarray) -> np.ndarray:
    """Put what some starts reached in a second run in the place of the first, where it is about as good; which starts these are."""
    result.evaluations[starts] += again.evaluations
    result.seconds += again.seconds
    taken = np.flatnonzero(again.value <= result.value[starts] + _FORGIVEN)
    for i, r in zip(taken, starts[taken], strict=True):
        result.theta[r], result.value[r], result.gradient[r] = again.theta[i], again.value[i], again.gradient[i]
        result.status[r], result.history[r] = again.status[i], result.history[r] + again.history[i][1:]
        result.iterations[r] += again.iterations[i]
    return starts[taken]


def tuned_last(minimize: Minimizer, tuned: np.ndarray, drawn: np.ndarray) -> Minimizer:
    """A minimiser for networks that were learnt before. Which parameters these are, ``tuned`` (P,) says; where starts were drawn, ``drawn`` (R, P).

    A start that is still where it was drawn learns kernel and noise first, in at most half of its iterations, while the network stays as it is: it has not seen the targets
    yet, so that what is left over beside its features is what new rows will have. Then kernel and noise are held and the network is tuned. Tuned together, a large network
    explains few targets without any noise, and is sure of what it does not know.
    """

    def minimized(objective: Objective, theta: np.ndarray, monitor: Monitor, /, **more: Any) -> OptimizeResult:
        theta, everyone = np.array(theta, dtype=float), np.arange(len(theta))
        taken, values = np.zeros(len(theta), dtype=int), np.full(len(theta), np.inf)
        fresh = np.flatnonzero((theta[:, None] == drawn).all(-1).any(-1))
        first = None
        if fresh.size:
            half = replace(monitor, max_iter=np.broadcast_to(monitor.max_iter, len(theta)) // 2, margin=np.inf)
            held = _Held(objective, fresh, np.broadcast_to(tuned, (len(fresh), len(tuned))))
            first = minimize(held, theta[fresh], _for_some(half, taken, values, fresh))
            theta[fresh], taken[fresh], values[fresh] = first.theta, first.iterations, first.value
            if (first.status == STOPPED).any():
                monitor = replace(monitor, max_iter=0)
        held = _Held(objective, everyone, np.broadcast_to(~tuned, theta.shape))
        result = minimize(held, theta, _for_some(monitor, taken, values, everyone), **more)
        if first is not None:
            _count_in(result, first, fresh)
        return result

    return minimized


def _count_in(result: OptimizeResult, first: OptimizeResult, starts: np.ndarray) -> None:
    """Add to a result what some starts did before it; in place."""
    result.iterations[starts] += first.iterations
    result.evaluations[starts] += first.evaluations
    result.seconds += first.seconds
    for i, r in enumerate(starts):
        result.history[r] = first.history[i] + result.history[r][1:]
        if first.status[i] == STOPPED:
            result.status[r] = STOPPED
