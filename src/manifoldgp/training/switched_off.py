"""Groups of parameters that a sparse prior has made negligible, switched off; what is left of a model is trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from manifoldgp.parameters import Layout
from manifoldgp.training.optimizer import CONVERGED, ITERATION_LIMIT, STALLED, Monitor, Objective, OptimizeResult

_ROUNDS = 4
"""How often groups are switched off: each time what is left is trained on, and more may become negligible."""

_FORGIVEN = 1.0
"""Nats of the objective that a start may lose by what is switched off."""

Minimizer = Callable[[Objective, np.ndarray, Monitor], OptimizeResult]


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
        again = minimize(_Held(objective, starts, held), theta, _for_some(monitor, result, starts))
        taken = _take_over(result, again, starts)
        off[taken] |= found[taken]


class _Held:
    """The objective of some starts (A,), with the parameters ``off`` (A, P) held where they are."""

    def __init__(self, objective: Objective, starts: np.ndarray, off: np.ndarray) -> None:
        self._objective, self._starts, self._off = objective, starts, off

    def __call__(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = self._objective(theta, self._starts[rows])
        return value, np.where(self._off[rows], 0.0, gradient)


def _for_some(monitor: Monitor, result: OptimizeResult, starts: np.ndarray) -> Monitor:
    """What is left of the limits for some starts, who are watched among all of them."""

    def watched(iterations: np.ndarray, values: np.ndarray) -> object:
        everyone, all_values = result.iterations.copy(), result.value.copy()
        everyone[starts] += iterations
        all_values[starts] = values
        return None if monitor.callback is None else monitor.callback(everyone, all_values)

    limit = np.broadcast_to(monitor.max_iter, len(result.value))[starts] - result.iterations[starts]
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
