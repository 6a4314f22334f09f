"""L-BFGS over a batch: every start takes its own steps, and one batched call evaluates all pending points.

Each start is a small state machine (direction, bracket of its line search, history). A round evaluates the trial point of every
active start together; a start whose trial satisfies the weak Wolfe conditions moves on, the others refine their step. So no
start waits for another one's line search, and a start that has converged leaves the batch.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from manifoldgp.training.optimizer import (
    CONVERGED,
    INVALID_START,
    ITERATION_LIMIT,
    LOST,
    STALLED,
    TIME_LIMIT,
    Curvature,
    Monitor,
    Objective,
    OptimizeResult,
)

_ARMIJO, _CURVATURE, _MAX_TRIALS = 1e-4, 0.9, 25

_TRIALS_EACH, _TRIALS_FREE = 3, 25
"""A start may take so many evaluations for each iteration of its limit, and so many beside: as a rule an iteration takes one, in the valleys of data without noise up to twenty that lead nowhere."""


class _History:
    """The last m pairs (s, y) of every start, and the direction −H g from the compact form of the inverse Hessian.

    With S, Y (m, P) oldest first, R = triu(S Yᵀ), D = diag(S Yᵀ), γ = sᵀy / yᵀy of the newest pair
    (Byrd, Nocedal and Schnabel 1994, eq. 3.1):

        H g = γ g + Sᵀ p − γ Yᵀ q,   q = R⁻¹ S g,   p = R⁻ᵀ [(D + γ Y Yᵀ) q − γ Y g]

    An empty or refused pair is a zero row with R_ii = 1: it contributes nothing. R⁻¹, D and Y Yᵀ follow each new pair: without the oldest one
    they lose their first row and column, and with the new one

        R⁻¹ becomes [R⁻¹  −R⁻¹ v / ρ; 0  1 / ρ],   v = S y,  ρ = sᵀy
    """

    def __init__(self, starts: int, size: int, memory: int) -> None:
        self.S, self.Y = np.zeros((starts, memory, size)), np.zeros((starts, memory, size))
        self.inverse, self.YY = np.zeros((starts, memory, memory)), np.zeros((starts, memory, memory))
        self.D, self.gamma = np.zeros((starts, memory, 1)), np.ones((starts, 1, 1))
        self.empty = np.ones(starts, dtype=bool)
        self.inverse[...] = np.eye(memory)

    def push(self, rows: np.ndarray, s: np.ndarray, y: np.ndarray) -> None:
        sy, yy = np.vecdot(s, y), np.vecdot(y, y)
        good = sy > 1e-10 * np.maximum(yy, 1e-300)
        if not _all(good):
            rows, s, y, sy, yy = rows[good], s[good], y[good], sy[good], yy[good]
        if not len(rows):
            return
        at = _where(rows)
        for pairs, newest in ((self.S, s), (self.Y, y)):
            pairs[at, :-1] = pairs[at, 1:]
            pairs[at, -1] = newest
        for square in (self.inverse, self.YY):
            square[at, :-1, :-1] = square[at, 1:, 1:]
        column = y[:, :, None]
        Yy = self.Y[at] @ column
        self.YY[at, :, -1:], self.YY[at, -1, :] = Yy, Yy[:, :, 0]
        rho = sy[:, None, None]
        v = self.S[at, :-1] @ column
        self.inverse[at, :-1, -1:] = self.inverse[at, :-1, :-1] @ v / -rho
        self.inverse[at, -1, :-1], self.inverse[at, -1:, -1:] = 0.0, 1.0 / rho
        self.D[at, :-1] = self.D[at, 1:]
        self.D[at, -1:] = rho
        self.gamma[at] = rho / yy[:, None, None]
        self.empty[at] = False

    def forget(self, rows: np.ndarray) -> None:
        for array in (self.S, self.Y, self.YY, self.D):
            array[rows] = 0.0
        self.inverse[rows] = np.eye(self.inverse.shape[-1])
        self.gamma[rows], self.empty[rows] = 1.0, True

    def direction(self, rows: np.ndarray, g: np.ndarray) -> np.ndarray:
        at = _where(rows)
        S, Y, inverse, gamma = self.S[at], self.Y[at], self.inverse[at], self.gamma[at]
        g = g[:, :, None]
        q = inverse @ (S @ g)
        p = inverse.mT @ (self.D[at] * q + gamma * (self.YY[at] @ q - Y @ g))
        return -(gamma * (g - Y.mT @ q) + S.mT @ p)[:, :, 0]


def _any(flags: np.ndarray) -> bool:
    """flags.any(), at a tenth of its cost for a few flags; so is :func:`_all`."""
    return bool(np.count_nonzero(flags))


def _all(flags: np.ndarray) -> bool:
    return bool(np.count_nonzero(flags) == flags.size)


def _where(rows: np.ndarray) -> Any:
    """Increasing rows as a slice, if they are adjacent: views cost less than copies, and often one start or all of them are active."""
    first, last = int(rows[0]), int(rows[-1]) + 1
    return slice(first, last) if last - first == len(rows) else rows


def minimize_lbfgs(
    objective: Objective,
    theta: np.ndarray,
    monitor: Monitor | None = None,
    *,
    memory: int = 10,
    gradient_tolerance: float = 1e-5,
    value_tolerance: float = 2.2e-9,
    curvature: Curvature | None = None,
) -> OptimizeResult:
    """Minimise every row of theta (R, P). Converged: max|g| <= gradient_tolerance, or a relative gain below value_tolerance.

    curvature: what is known about the Hessians beforehand. A start that needs three evaluations an iteration and more ends before its limit of iterations, by the same name.
    """
    begin = time.perf_counter()
    monitor = monitor or Monitor()
    theta = np.array(theta, dtype=float)
    R, P = theta.shape
    everyone = np.arange(R)
    limit = np.broadcast_to(monitor.max_iter, R)
    allowed = _TRIALS_EACH * limit.astype(float) + _TRIALS_FREE
    value, gradient = objective(theta, everyone)
    status = np.full(R, "", dtype=object)
    iterations, evaluations = np.zeros(R, dtype=int), np.ones(R, dtype=int)
    valid = np.isfinite(value) & np.isfinite(gradient).all(-1)
    value = np.where(valid, value, np.inf)
    status[~valid] = INVALID_START
    status[valid & (np.abs(gradient).max(-1, initial=0.0) <= gradient_tolerance)] = CONVERGED
    status[(status == "") & (limit <= 0)] = ITERATION_LIMIT
    if monitor.late():
        status[status == ""] = TIME_LIMIT
    past = [[float(v)] for v in value]
    history = _History(R, P, memory)
    if curvature is not None:
        for pair in range(curvature.steps.shape[1]):
            history.push(everyone, curvature.steps[:, pair], curvature.changes[:, pair])

    direction = np.zeros_like(theta)
    slope, step, low, high = np.zeros(R), np.ones(R), np.zeros(R), np.full(R, np.inf)
    trials = np.zeros(R, dtype=int)

    def aim(rows: np.ndarray) -> None:
        """A new search direction and its first trial step."""
        at = _where(rows)
        g = gradient[at]
        d = history.direction(rows, g)
        m = np.vecdot(d, g)
        descends = m < 0.0
        if not _all(descends):
            bad = ~descends
            history.forget(rows[bad])
            d[bad] = -g[bad]
            m[bad] = -np.vecdot(d[bad], d[bad])
        direction[at], slope[at], step[at] = d, m, 1.0
        low[at], high[at], trials[at] = 0.0, np.inf, 0
        if _any(history.empty[at]):
            fresh = rows[history.empty[at]]
            norm = np.linalg.norm(direction[fresh], axis=-1)
            step[fresh] = np.minimum(1.0, 1.0 / np.maximum(norm, 1e-300))

    active = everyone[status == ""]
    if active.size:
        aim(active)
    while active.size:
        at = _where(active)
        t, f0, m0, d = step[at], value[at], slope[at], direction[at]
        trial = theta[at] + t[:, None] * d
        f, g = objective(trial, active)
        evaluations[at] += 1
        trials[at] += 1
        if not (_all(np.isfinite(f)) and _all(np.isfinite(g))):
            finite = np.isfinite(f) & np.isfinite(g).all(-1)
            f, g = np.where(finite, f, np.inf), np.where(finite[:, None], g, 0.0)
        m1 = np.vecdot(g, d)
        # Rounding in f is about 1e-16 of its terms: close to the optimum a flat trial counts as a decrease.
        enough = f <= f0 + _ARMIJO * t * m0 + 1e-13 * np.abs(f0)
        out_of_trials = trials[at] >= _MAX_TRIALS
        accept = enough & ((m1 >= _CURVATURE * m0) | out_of_trials)
        stopped = False

        if _any(accept):
            moved, f_new, g_new = active, f, g
            if not _all(accept):
                moved, trial, f_new, g_new = active[accept], trial[accept], f[accept], g[accept]
            to = _where(moved)
            history.push(moved, trial - theta[to], g_new - gradient[to])
            before = value[to]
            gain = (before - f_new) / np.maximum(np.maximum(np.abs(before), np.abs(f_new)), 1.0)
            theta[to], value[to], gradient[to] = trial, f_new, g_new
            iterations[to] += 1
            for r, v in zip(moved.tolist(), f_new.tolist(), strict=True):
                past[r].append(v)
            done = (np.abs(g_new).max(-1) <= gradient_tolerance) | (gain <= value_tolerance)
            capped = ~done & (iterations[to] >= limit[to])
            lost = ~done & ~capped & monitor.lost(moved, iterations, value, past)
            onward = moved
            stopped = _any(done | capped | lost)
            if stopped:
                status[moved[done]] = CONVERGED
                status[moved[capped]] = ITERATION_LIMIT
                status[moved[lost]] = LOST
                onward = moved[status[moved] == ""]
            if onward.size:
                aim(onward)

        if not _all(accept):
            rest = ~accept
            rows = active[rest]
            _refine(rows, enough[rest], f[rest] - f0[rest], m0[rest], m1[rest], step, low, high)
            failed = rows[out_of_trials[rest]]
            if failed.size:
                fresh = history.empty[failed]
                status[failed[fresh]] = STALLED
                stopped = True
                again = failed[~fresh]
                if again.size:
                    history.forget(again)
                    aim(again)

        spent = active[evaluations[active] >= allowed[active]]
        if spent.size:
            status[spent[status[spent] == ""]] = ITERATION_LIMIT
            stopped = True
        reason = monitor.verdict(iterations, value)
        if reason is not None:
            status[status == ""] = reason
        if stopped or reason is not None:
            active = active[status[active] == ""]
    kept = Curvature(history.S, history.Y)
    return OptimizeResult(theta, value, gradient, status, iterations, evaluations, past, time.perf_counter() - begin, kept)


def _refine(
    rows: np.ndarray,
    enough: np.ndarray,
    rise: np.ndarray,
    m0: np.ndarray,
    m1: np.ndarray,
    step: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> None:
    """The next trial step of line searches that go on, in place: expand, or interpolate inside the bracket [low, high]."""
    t = step[rows]
    high[rows] = np.where(enough, high[rows], t)
    low[rows] = np.where(enough, t, low[rows])
    a, b = low[rows], high[rows]
    open_ended = np.isinf(b)
    with np.errstate(all="ignore"):
        # Too short a step: the secant of the slopes says how far to go. Too long: the parabola through f0, m0 and f(t).
        secant = t * m0 / (m0 - m1)
        parabola = -0.5 * m0 * t * t / (rise - m0 * t)
        inside = np.where(enough, secant, parabola)
        wide = np.where(np.isfinite(b), b - a, 1.0)
        inside = np.where(np.isfinite(inside), inside, a + 0.2 * wide)
        inside = np.clip(inside, a + 0.1 * wide, a + 0.9 * wide)
        outward = np.clip(np.where(np.isfinite(secant) & (secant > 0), secant, 4.0 * t), 2.0 * t, 10.0 * t)
    step[rows] = np.where(open_ended, outward, inside)
