"""L-BFGS over a batch: every start takes its own steps, and one batched call evaluates all pending points.

Each start is a small state machine (direction, bracket of its line search, history). A round evaluates the trial point of every
active start together; a start whose trial satisfies the weak Wolfe conditions moves on, the others refine their step. So no
start waits for another one's line search, and a start that has converged leaves the batch.
"""

from __future__ import annotations

import time

import numpy as np

from manifoldgp.optimize._result import (
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

_ARMIJO, _CURVATURE, _MAX_TRIALS = 1e-4, 0.9, 25


class _History:
    """The last m pairs (s, y) of every start, and the direction −H g from the compact form of the inverse Hessian.

    With S, Y (m, P) oldest first, R = triu(S Yᵀ), D = diag(S Yᵀ), γ = sᵀy / yᵀy of the newest pair
    (Byrd, Nocedal and Schnabel 1994, eq. 3.1):

        H g = γ g + Sᵀ p − γ Yᵀ q,   q = R⁻¹ S g,   p = R⁻ᵀ [(D + γ Y Yᵀ) q − γ Y g]

    An empty or refused pair is a zero row with R_ii = 1: it contributes nothing.
    """

    def __init__(self, starts: int, size: int, memory: int) -> None:
        self.S = np.zeros((starts, memory, size))
        self.Y = np.zeros((starts, memory, size))
        self.gamma = np.ones(starts)
        self._triangle = np.triu(np.ones((memory, memory), dtype=bool))

    def push(self, rows: np.ndarray, s: np.ndarray, y: np.ndarray) -> None:
        sy, yy = np.einsum("ap,ap->a", s, y), np.einsum("ap,ap->a", y, y)
        good = sy > 1e-10 * np.maximum(yy, 1e-300)
        rows, s, y = rows[good], s[good], y[good]
        for pairs, newest in ((self.S, s), (self.Y, y)):
            pairs[rows, :-1] = pairs[rows, 1:]
            pairs[rows, -1] = newest
        self.gamma[rows] = sy[good] / yy[good]

    def forget(self, rows: np.ndarray) -> None:
        self.S[rows] = 0.0
        self.Y[rows] = 0.0
        self.gamma[rows] = 1.0

    def is_empty(self, rows: np.ndarray) -> np.ndarray:
        return ~self.S[rows, -1].any(-1)

    def direction(self, rows: np.ndarray, g: np.ndarray) -> np.ndarray:
        S, Y, gamma = self.S[rows], self.Y[rows], self.gamma[rows, None, None]
        g = g[:, :, None]
        SY, YY = S @ Y.mT, Y @ Y.mT
        D = SY.diagonal(0, 1, 2)[:, :, None]
        R = np.where(self._triangle, SY, 0.0)
        diagonal = np.einsum("aii->ai", R)
        diagonal[diagonal == 0.0] = 1.0
        q = np.linalg.solve(R, S @ g)
        p = np.linalg.solve(R.mT, D * q + gamma * (YY @ q - Y @ g))
        return -(gamma * (g - Y.mT @ q) + S.mT @ p)[:, :, 0]


def minimize_lbfgs(
    objective: Objective,
    theta: np.ndarray,
    monitor: Monitor | None = None,
    *,
    memory: int = 10,
    gradient_tolerance: float = 1e-5,
    value_tolerance: float = 2.2e-9,
) -> OptimizeResult:
    """Minimise every row of theta (R, P). Converged: max|g| <= gradient_tolerance, or a relative gain below value_tolerance."""
    begin = time.perf_counter()
    monitor = monitor or Monitor()
    theta = np.array(theta, dtype=float)
    R, P = theta.shape
    everyone = np.arange(R)
    limit = np.broadcast_to(monitor.max_iter, R)
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

    direction = np.zeros_like(theta)
    slope, step, low, high = np.zeros(R), np.ones(R), np.zeros(R), np.full(R, np.inf)
    trials = np.zeros(R, dtype=int)

    def aim(rows: np.ndarray) -> None:
        """A new search direction and its first trial step."""
        d = history.direction(rows, gradient[rows])
        m = np.einsum("ap,ap->a", d, gradient[rows])
        bad = ~(m < 0.0)
        if bad.any():
            history.forget(rows[bad])
            d[bad] = -gradient[rows[bad]]
            m[bad] = -np.einsum("ap,ap->a", d[bad], d[bad])
        first = history.is_empty(rows)
        norm = np.sqrt(np.einsum("ap,ap->a", d, d))
        direction[rows], slope[rows] = d, m
        step[rows] = np.where(first, np.minimum(1.0, 1.0 / np.maximum(norm, 1e-300)), 1.0)
        low[rows], high[rows], trials[rows] = 0.0, np.inf, 0

    active = everyone[status == ""]
    aim(active)
    while active.size:
        trial = theta[active] + step[active, None] * direction[active]
        f, g = objective(trial, active)
        evaluations[active] += 1
        trials[active] += 1
        finite = np.isfinite(f) & np.isfinite(g).all(-1)
        f = np.where(finite, f, np.inf)
        t, f0, m0 = step[active], value[active], slope[active]
        m1 = np.einsum("ap,ap->a", np.where(finite[:, None], g, 0.0), direction[active])
        # Rounding in f is about 1e-16 of its terms: close to the optimum a flat trial counts as a decrease.
        enough = f <= f0 + _ARMIJO * t * m0 + 1e-13 * np.abs(f0)
        steep = m1 < _CURVATURE * m0
        accept = enough & ~steep & finite
        out_of_trials = trials[active] >= _MAX_TRIALS
        accept |= enough & finite & out_of_trials

        moved = active[accept]
        if moved.size:
            s, y = trial[accept] - theta[moved], g[accept] - gradient[moved]
            history.push(moved, s, y)
            gain = (value[moved] - f[accept]) / np.maximum(np.maximum(np.abs(value[moved]), np.abs(f[accept])), 1.0)
            theta[moved], value[moved], gradient[moved] = trial[accept], f[accept], g[accept]
            iterations[moved] += 1
            for r in moved:
                past[r].append(float(value[r]))
            done = (np.abs(gradient[moved]).max(-1) <= gradient_tolerance) | (gain <= value_tolerance)
            status[moved[done]] = CONVERGED
            capped = ~done & (iterations[moved] >= limit[moved])
            status[moved[capped]] = ITERATION_LIMIT
            lost = ~done & ~capped & monitor.lost(moved, iterations, value, past)
            status[moved[lost]] = LOST
            onward = moved[~done & ~capped & ~lost]
            if onward.size:
                aim(onward)

        rest = ~accept
        if rest.any():
            rows = active[rest]
            _refine(rows, enough[rest], f[rest] - f0[rest], m0[rest], m1[rest], step, low, high)
            failed = rows[out_of_trials[rest]]
            if failed.size:
                fresh = history.is_empty(failed)
                status[failed[fresh]] = STALLED
                again = failed[~fresh]
                if again.size:
                    history.forget(again)
                    aim(again)

        reason = monitor.verdict(iterations, value)
        if reason is not None:
            status[status == ""] = reason
        active = active[status[active] == ""]
    return OptimizeResult(theta, value, gradient, status, iterations, evaluations, past, time.perf_counter() - begin)


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
