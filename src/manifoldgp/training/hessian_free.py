"""Hessian-free optimisation over a batch (Martens 2010): damped Newton steps by conjugate gradients, H only ever as H v.

    (H + λ I) d = −g,     H v = (g(θ + h v) − g(θ)) / h

A product is a difference of gradients, which costs one evaluation, and all starts share one call for it. Conjugate gradients stop
early: when the residual is small enough, after a number of products, or at a direction of negative curvature. The damping λ follows how well the quadratic model foretold what a step gained
(Levenberg and Marquardt); a step that gains nothing is halved before λ grows.
"""

from __future__ import annotations

import time

import numpy as np

from manifoldgp.training.optimizer import (
    CONVERGED,
    INVALID_START,
    ITERATION_LIMIT,
    LOST,
    STALLED,
    TIME_LIMIT,
    Monitor,
    Objective,
    OptimizeResult,
)

_PRODUCTS, _HALVINGS = 40, 6
_DIFFERENCE = 1e-5
"""Length of the step in θ between the two gradients of a product, for θ of size one: truncation and rounding of closed-form gradients are then about equal."""

_FIRST_DAMPING = 0.3  # of the length of the gradient: a first step is no longer than three
_LEAST_DAMPING, _MOST_DAMPING = 1e-8, 1e12


def minimize_hessian_free(
    objective: Objective,
    theta: np.ndarray,
    monitor: Monitor | None = None,
    *,
    gradient_tolerance: float = 1e-5,
    value_tolerance: float = 2.2e-9,
) -> OptimizeResult:
    """Minimise every row of theta (R, P). Converged: max|g| <= gradient_tolerance, or a relative gain of a full step below value_tolerance."""
    begin = time.perf_counter()
    monitor = monitor or Monitor()
    run = _Run(objective, np.array(theta, dtype=float), monitor, gradient_tolerance, value_tolerance)
    while (active := np.flatnonzero(run.status == "")).size:
        run.step(active)
        reason = monitor.verdict(run.iterations, run.value)
        if reason is not None:
            run.status[run.status == ""] = reason
    return OptimizeResult(
        run.theta, run.value, run.gradient, run.status, run.iterations, run.evaluations, run.history, time.perf_counter() - begin
    )


class _Run:
    """Where every start is, and its damping."""

    def __init__(
        self, objective: Objective, theta: np.ndarray, monitor: Monitor, gradient_tolerance: float, value_tolerance: float
    ) -> None:
        R = len(theta)
        self._objective, self._monitor = objective, monitor
        self._gradient_tolerance, self._value_tolerance = gradient_tolerance, value_tolerance
        self._limit = np.broadcast_to(monitor.max_iter, R)
        self.theta, self.iterations, self.evaluations = theta, np.zeros(R, dtype=int), np.zeros(R, dtype=int)
        self.value, self.gradient = self._evaluate(theta, np.arange(R))
        self.history = [[float(v)] for v in self.value]
        self.damping = np.maximum(_FIRST_DAMPING * np.linalg.norm(self.gradient, axis=-1), _LEAST_DAMPING)
        self.status = np.full(R, "", dtype=object)
        self.status[np.isinf(self.value)] = INVALID_START
        self.status[(self.status == "") & self._flat(np.arange(R))] = CONVERGED
        self.status[(self.status == "") & (self._limit <= 0)] = ITERATION_LIMIT
        if monitor.late():
            self.status[self.status == ""] = TIME_LIMIT

    def step(self, active: np.ndarray) -> None:
        """One damped Newton step of the starts ``active`` (A,)."""
        direction, foretold = self._solve(active)
        if self._monitor.late():
            return
        before, searching, size = self.value[active], np.ones(len(active), dtype=bool), np.ones(len(active))
        for _ in range(_HALVINGS):
            some = np.flatnonzero(searching)
            rows = active[some]
            trial = self.theta[rows] + size[some, None] * direction[some]
            f, g = self._evaluate(trial, rows)
            better = f < self.value[rows]
            moved = rows[better]
            self.theta[moved], self.value[moved], self.gradient[moved] = trial[better], f[better], g[better]
            searching[some[better]] = False
            size[some[~better]] *= 0.5
            if not searching.any():
                break
        gain = before - self.value[active]
        self._adapt(active, np.where(size == 1.0, gain / np.maximum(foretold, 1e-300), 0.0))
        self._judge(active, gain, size, searching)

    def _adapt(self, active: np.ndarray, ratio: np.ndarray) -> None:
        factor = np.where(ratio > 0.75, 1.0 / 3.0, np.where(ratio < 0.25, 4.0, 1.0))
        self.damping[active] = np.maximum(self.damping[active] * factor, _LEAST_DAMPING)

    def _judge(self, active: np.ndarray, gain: np.ndarray, size: np.ndarray, failed: np.ndarray) -> None:
        """Note what the starts gained, and who has come to an end."""
        moved = active[~failed]
        self.iterations[moved] += 1
        for r in moved:
            self.history[r].append(float(self.value[r]))
        little = gain <= self._value_tolerance * np.maximum(np.abs(self.value[active]), 1.0)
        free = (size == 1.0) & (self.damping[active] <= 1.0)  # a step that damping made short gains little anywhere
        done = self._flat(active) | (~failed & little & free)
        self.status[active[done]] = CONVERGED
        self.status[active[~done & (self.damping[active] > _MOST_DAMPING)]] = STALLED
        going = moved[self.status[moved] == ""]
        self.status[going[self.iterations[going] >= self._limit[going]]] = ITERATION_LIMIT
        going = going[self.status[going] == ""]
        if going.size:
            self.status[going[self._monitor.lost(going, self.iterations, self.value, self.history)]] = LOST

    def _solve(self, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Directions d (A, P) by conjugate gradients, and the decrease −gᵀd − ½ dᵀ(H + λ)d (A,) that each foretells."""
        g, damping = self.gradient[active], self.damping[active, None]
        d = np.zeros_like(g)
        residual, p = -g, -g.copy()
        squares = np.vecdot(residual, residual)
        target = np.minimum(0.25, np.sqrt(np.sqrt(squares))) ** 2 * squares
        going = np.arange(len(active))
        foretold = np.zeros(len(active))
        for k in range(_PRODUCTS):
            rows, direction = active[going], p[going]
            Ap = self._product(rows, direction) + damping[going] * direction
            curvature = np.vecdot(direction, Ap)
            down = np.isfinite(curvature) & (curvature > 1e-12 * np.vecdot(direction, direction))
            if k == 0:  # not even the gradient has curvature: go along it as far as the damping says
                flat = going[~down]
                d[flat] = p[flat] / damping[flat]
                foretold[flat] = 0.5 * squares[flat] / damping[flat, 0]
            going, direction, Ap, curvature = going[down], direction[down], Ap[down], curvature[down]
            if not going.size or self._monitor.late():
                break
            length = squares[going] / curvature
            d[going] += length[:, None] * direction
            foretold[going] += 0.5 * length * squares[going]  # each step of conjugate gradients lowers the model by ½ length |r|²
            residual[going] -= length[:, None] * Ap
            new = np.vecdot(residual[going], residual[going])
            p[going] = residual[going] + (new / squares[going])[:, None] * p[going]
            squares[going] = new
            going = going[new > target[going]]
            if not going.size:
                break
        return d, foretold

    def _product(self, rows: np.ndarray, v: np.ndarray) -> np.ndarray:
        """H v (A, P) of the starts ``rows`` (A,)."""
        h = _DIFFERENCE * (1.0 + np.linalg.norm(self.theta[rows], axis=-1)) / np.maximum(np.linalg.norm(v, axis=-1), 1e-300)
        f, g = self._evaluate(self.theta[rows] + h[:, None] * v, rows)
        return np.where(np.isfinite(f)[:, None], (g - self.gradient[rows]) / h[:, None], np.nan)

    def _evaluate(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients; +inf and zero where they are not finite."""
        f, g = self._objective(theta, rows)
        self.evaluations[rows] += 1
        finite = np.isfinite(f) & np.isfinite(g).all(-1)
        return np.where(finite, f, np.inf), np.where(finite[:, None], g, 0.0)

    def _flat(self, rows: np.ndarray) -> np.ndarray:
        return np.isfinite(self.value[rows]) & (np.abs(self.gradient[rows]).max(-1, initial=0.0) <= self._gradient_tolerance)
