"""The minimisers by name; and SciPy's L-BFGS-B, one start after another."""

from __future__ import annotations

import time

import numpy as np
from scipy import optimize

from manifoldgp.training.hessian_free import minimize_hessian_free
from manifoldgp.training.lbfgs import minimize_lbfgs
from manifoldgp.training.optimizer import (
    CONVERGED,
    INVALID_START,
    ITERATION_LIMIT,
    STALLED,
    TIME_LIMIT,
    Monitor,
    Objective,
    OptimizeResult,
)

_HUGE = 1e100


def minimize_lbfgsb(objective: Objective, theta: np.ndarray, monitor: Monitor | None = None) -> OptimizeResult:
    """SciPy's L-BFGS-B from every row of theta (R, P)."""
    return _each_start(objective, theta, monitor or Monitor())


class _InterruptedError(Exception):
    """A limit was reached inside SciPy's loop, the one it names."""


def _each_start(objective: Objective, theta: np.ndarray, monitor: Monitor) -> OptimizeResult:
    begin = time.perf_counter()
    theta = np.array(theta, dtype=float)
    R = theta.shape[0]
    value, gradient = np.full(R, np.inf), np.zeros_like(theta)
    status = np.full(R, INVALID_START, dtype=object)
    iterations, evaluations = np.zeros(R, dtype=int), np.zeros(R, dtype=int)
    history: list[list[float]] = [[] for _ in range(R)]
    for r in range(R):
        stop = _one_start(objective, r, theta, value, gradient, status, iterations, evaluations, history[r], monitor)
        if stop is not None:  # for everyone: the starts that are left keep the value inf
            status[r + 1 :] = stop
            break
    return OptimizeResult(theta, value, gradient, status, iterations, evaluations, history, time.perf_counter() - begin)


def _one_start(objective, r, theta, value, gradient, status, iterations, evaluations, history, monitor):
    """Minimise from start r, which fills in its rows of the results; returns the reason to stop everything, or None."""
    row = np.array([r])

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        if evaluations[r]:
            mind_the_time()
        f, g = objective(x[None], row)
        evaluations[r] += 1
        if not (np.isfinite(f[0]) and np.isfinite(g[0]).all()):
            return _HUGE, np.zeros_like(x)
        if f[0] < value[r]:
            value[r], theta[r], gradient[r] = f[0], x, g[0]
        return float(f[0]), g[0].copy()

    def mind_the_time() -> None:
        # A line search can take very long between two iterations.
        if monitor.late():
            raise _InterruptedError(TIME_LIMIT)

    def after_iteration(intermediate_result: optimize.OptimizeResult) -> None:
        iterations[r] += 1
        history.append(float(intermediate_result.fun))
        reason = monitor.verdict(iterations, value)
        if reason is not None:
            raise _InterruptedError(reason)

    start = theta[r].copy()
    first, _ = evaluate(start)
    history.append(first if first < _HUGE else np.inf)
    if first >= _HUGE:
        value[r] = np.inf
        return None
    limit = int(np.broadcast_to(monitor.max_iter, len(theta))[r])
    if limit <= 0 or not start.size:
        status[r] = ITERATION_LIMIT if start.size else CONVERGED
        return None
    try:
        result = optimize.minimize(
            evaluate, start, jac=True, method="L-BFGS-B", callback=after_iteration,
            options={"maxcor": 10, "ftol": 2.2e-9, "gtol": 1e-5, "maxiter": limit},
        )  # fmt: skip
    except _InterruptedError as interrupted:
        status[r] = str(interrupted)
        return status[r]
    limited = iterations[r] >= limit
    status[r] = CONVERGED if result.success else ITERATION_LIMIT if limited else STALLED
    return None


MINIMIZERS = {"l-bfgs": minimize_lbfgs, "l-bfgs-b": minimize_lbfgsb, "hessian-free": minimize_hessian_free}
"""By the name used in the estimators."""
