"""The batched L-BFGS against SciPy's, and the promises every minimiser makes."""

import time

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from manifoldgp.training.lbfgs import _History, minimize_lbfgs
from manifoldgp.training.minimizers import MINIMIZERS
from manifoldgp.training.optimizer import Monitor


class Rosenbrock:
    """Rosenbrock's function, scaled by start: start r minimises (r + 1) * rosen. Counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, theta, rows):
        self.calls += 1
        scale = rows + 1.0
        return scale * np.array([rosen(t) for t in theta]), scale[:, None] * np.array([rosen_der(t) for t in theta])


@pytest.fixture
def starts():
    return np.random.default_rng(0).normal(size=(6, 5))


@pytest.mark.parametrize("name", list(MINIMIZERS))
def test_every_start_reaches_a_minimum(name, starts):
    result = MINIMIZERS[name](Rosenbrock(), starts)
    assert set(result.status) == {"converged"}
    # Rosenbrock in 5 dimensions has a second minimum near 3.93.
    near = np.minimum(result.value, np.abs(result.value / np.arange(1, 7) - 3.930839))
    assert near.max() < 1e-4
    assert (result.iterations > 5).all()
    assert all(len(h) == i + 1 and h[-1] <= h[0] for h, i in zip(result.history, result.iterations, strict=True))


def test_batched_needs_about_as_many_evaluations_as_scipy(starts):
    ours = minimize_lbfgs(Rosenbrock(), starts).evaluations.sum()
    theirs = sum(minimize(rosen, x, jac=rosen_der, method="L-BFGS-B").nfev for x in starts)
    assert ours < 1.3 * theirs


def test_one_call_a_round_for_the_whole_batch(starts):
    objective = Rosenbrock()
    result = minimize_lbfgs(objective, starts)
    assert objective.calls == result.evaluations.max()


def test_starts_do_not_influence_each_other(starts):
    together = minimize_lbfgs(Rosenbrock(), starts)
    alone = minimize_lbfgs(Rosenbrock(), starts[:1])
    np.testing.assert_allclose(alone.theta[0], together.theta[0], rtol=1e-9)
    assert alone.evaluations[0] == together.evaluations[0]


def test_direction_equals_the_two_loop_recursion():
    rng = np.random.default_rng(1)
    history = _History(2, 7, 4)
    A = rng.normal(size=(7, 7))
    A = A @ A.T + np.eye(7)
    pairs = []
    for _ in range(6):  # more pairs than memory
        s = rng.normal(size=(2, 7))
        history.push(np.arange(2), s, s @ A)
        pairs.append((s, s @ A))
    g = rng.normal(size=(2, 7))
    ours = history.direction(np.arange(2), g)
    for r in range(2):
        recent = [(s[r], y[r]) for s, y in pairs[-4:]]
        q, coefficients = g[r].copy(), []
        for s, y in reversed(recent):
            a = s @ q / (s @ y)
            coefficients.append(a)
            q -= a * y
        s, y = recent[-1]
        q *= s @ y / (y @ y)
        for (s, y), a in zip(recent, reversed(coefficients), strict=True):
            q += s * (a - y @ q / (s @ y))
        np.testing.assert_allclose(ours[r], -q, rtol=1e-10)


@pytest.mark.parametrize("name", list(MINIMIZERS))
def test_an_invalid_start_is_marked_and_never_wins(name, starts):
    class Broken(Rosenbrock):
        def __call__(self, theta, rows):
            f, g = super().__call__(theta, rows)
            f[rows == 1] = np.nan
            return f, g

    result = MINIMIZERS[name](Broken(), starts[:3])
    assert result.status[1] == "invalid start"
    assert np.isinf(result.value[1])
    assert np.argmin(result.value) != 1


def test_a_wall_of_infinity_is_backed_away_from():
    class Walled:
        def __call__(self, theta, rows):
            x = theta[:, 0]
            inside = x < 1.0
            f = np.where(inside, -x - np.sqrt(np.maximum(1.0 - x, 0.0)), np.inf)
            slope = np.where(inside, -1.0 + 0.5 / np.sqrt(np.maximum(1.0 - x, 1e-300)), np.nan)
            return f, slope[:, None]

    result = minimize_lbfgs(Walled(), np.array([[-3.0]]))
    np.testing.assert_allclose(result.theta[0, 0], 0.75, atol=1e-4)


@pytest.mark.parametrize("name", list(MINIMIZERS))
def test_limits_hold(name, starts):
    limited = MINIMIZERS[name](Rosenbrock(), starts, Monitor(max_iter=3))
    assert (limited.iterations <= 3).all()
    assert "iteration limit" in limited.status
    late = MINIMIZERS[name](Rosenbrock(), starts, Monitor(deadline=time.perf_counter() - 1.0))
    assert "time limit" in late.status
    seen = []
    stopped = MINIMIZERS[name](Rosenbrock(), starts, Monitor(callback=lambda i, v: seen.append(v.copy()) or len(seen) >= 4))
    assert "stopped by callback" in stopped.status
    assert len(seen) >= 4


class _Bowls:
    """Start r minimises level_r + |theta|²: rivals of one function that end at different heights."""

    def __init__(self, levels):
        self.levels, self.calls = np.array(levels, dtype=float), np.zeros(len(levels), dtype=int)

    def __call__(self, theta, rows):
        self.calls[rows] += 1
        scale = np.linspace(1.0, 30.0, theta.shape[1])
        return self.levels[rows] + (scale * theta**2).sum(1) + (theta**4).sum(1), 2 * scale * theta + 4 * theta**3


def test_a_start_that_is_clearly_lost_stops_early_and_says_so():
    levels, theta = [0.0, 200.0, 5.0], np.random.default_rng(0).normal(size=(3, 40)) * 3
    patient, pruned = _Bowls(levels), _Bowls(levels)
    everyone = minimize_lbfgs(patient, theta, Monitor(500))
    result = minimize_lbfgs(pruned, theta, Monitor(500, margin=10.0))
    assert result.status.tolist() == ["converged", "clearly lost", "converged"]
    assert result.iterations[1] % 10 == 0
    assert pruned.calls[1] < patient.calls[1]
    np.testing.assert_allclose(result.value[[0, 2]], everyone.value[[0, 2]], atol=1e-8)


def test_nobody_is_lost_while_still_moving_fast():
    monitor = Monitor(margin=10.0)
    values, iterations = np.array([0.0, 500.0]), np.array([10, 10])
    falling = [[0.0] * 11, list(np.linspace(700.0, 500.0, 11))]
    level = [[0.0] * 11, list(np.linspace(520.0, 500.0, 11))]
    assert monitor.lost(np.array([0, 1]), iterations, values, falling).tolist() == [False, False]
    assert monitor.lost(np.array([0, 1]), iterations, values, level).tolist() == [False, True]
    assert Monitor().lost(np.array([0, 1]), iterations, values, level).tolist() == [False, False]


def test_the_direction_is_the_two_loop_recursions():
    """Against Nocedal and Wright, algorithm 7.4, after more pairs than are kept, refused ones among them, and with starts that differ."""
    rng = np.random.default_rng(0)
    starts, size, memory = 4, 7, 3
    history, kept = _History(starts, size, memory), [[] for _ in range(starts)]
    scales = rng.uniform(0.5, 5.0, size=(starts, size))
    for k in range(9):
        rows = np.array([0, 1, 2, 3] if k % 2 else [0, 2])
        s = rng.normal(size=(len(rows), size))
        y = scales[rows] * s * (-1.0 if k == 5 else 1.0)  # a pair without curvature is refused
        history.push(rows, s, y)
        if k == 7:
            history.forget(np.array([2]))
        for i, r in enumerate(rows):
            kept[r] = (kept[r] + [(s[i], y[i])] * (k != 5))[-memory:] if not (k == 7 and r == 2) else []
    rows, g = np.array([0, 2, 3]), rng.normal(size=(3, size))
    direction = history.direction(rows, g)
    for i, r in enumerate(rows):
        q, factors = g[i].copy(), []
        for s, y in reversed(kept[r]):
            factors.append(s @ q / (s @ y))
            q -= factors[-1] * y
        q *= kept[r][-1][0] @ kept[r][-1][1] / (kept[r][-1][1] @ kept[r][-1][1]) if kept[r] else 1.0
        for (s, y), factor in zip(kept[r], reversed(factors), strict=True):
            q += s * (factor - y @ q / (s @ y))
        np.testing.assert_allclose(direction[i], -q, rtol=1e-10, atol=1e-12)


def test_a_start_whose_steps_lead_nowhere_ends_before_its_limit_of_iterations():
    """Values and slopes that are mostly rounding, as in the valleys of data without noise: line searches took ten evaluations an iteration."""
    scale = np.array([1.0, 1e3, 1e6])

    def rounded(theta, rows):
        value = 0.5 * (scale * theta**2).sum(1)
        error = np.modf(np.abs(1e7 * theta).sum(1))[0] - 0.5
        return value + 0.9 * error * value, scale * theta * (1.0 + 0.9 * np.sin(1e6 * theta))

    start = np.array([[1.0, 1.0, 1.0]])
    found = minimize_lbfgs(rounded, start, Monitor(20))
    assert found.status[0] == "iteration limit"
    assert found.iterations[0] < 20
    assert found.evaluations[0] == 3 * 20 + 25
    assert found.value[0] < rounded(start, np.zeros(1))[0][0]


@pytest.mark.parametrize("limit", [2**63 - 1, np.array([2**31 - 1], dtype=np.int32)])
def test_the_largest_limit_is_none(limit):
    """Three times as many evaluations were fewer than none."""
    start = np.array([[-1.2, 1.0]])
    objective = lambda theta, rows: (np.array([rosen(t) for t in theta]), np.array([rosen_der(t) for t in theta]))  # noqa: E731
    assert minimize_lbfgs(objective, start, Monitor(limit)).status[0] == "converged"
