"""What chance explains: laws of probability without SciPy, and what is said of intervals where rows err together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import bdtr, bdtrc, ndtr, stdtrit

from manifoldgp.chance.interval_checks import IntervalCheck, off_level
from manifoldgp.chance.laws import binomial_tails, student_limit


@pytest.mark.parametrize("n", [1, 19, 400, 30_000, 2_000_000])
@pytest.mark.parametrize("p", [0.5, 0.95])
def test_tails_are_those_of_the_binomial_law(n, p):
    spread = np.sqrt(n * p * (1 - p))
    for k in np.unique(np.clip(n * p + spread * np.linspace(-6, 6, 13), 0, n).astype(int)).tolist():
        found = binomial_tails(k, k, n, p)
        assert found == pytest.approx((bdtr(k, n, p), bdtrc(k - 1, n, p) if k else 1.0), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 25, 199, 200, 201, 5000])
def test_limits_are_those_of_students_law(freedom):
    assert student_limit(freedom) == pytest.approx(stdtrit(freedom, ndtr(3.0)), rel=2e-6)


EVEN = np.linspace(0.002, 0.998, 300)


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (None, "intervals hold"),
        (1, "intervals of 95 % hold 95 % of 300 rows, as far as 1 group by run can tell"),
        (3, "intervals of 95 % hold 95 % of 300 rows, as far as 3 groups by run can tell"),
        (9, "intervals of 95 % hold 95 % of 300 rows, as far as 9 groups by run can tell"),
        (10, "intervals hold"),
        (300, "intervals hold"),
    ],
)
def test_that_intervals_hold_is_said_without_reserve_of_enough_groups_only(groups, said):
    """Sixty rows of three runs were enough for it: which runs these are is a matter of chance."""
    together = None if groups is None else np.arange(300) % groups
    assert str(IntervalCheck.of(EVEN, None, together).in_words("run")) == said


def test_stretches_of_time_are_called_so():
    check = IntervalCheck.of(EVEN[::5], None, np.arange(60) // 8, ordered=True)
    assert str(check.in_words()).endswith("hold 95 % of 60 rows, as far as 8 stretches of time can tell")
    assert check.remarks() == []  # of so few rows in order of time there is a remark of its own


def test_too_few_groups_are_a_remark():
    check = IntervalCheck.of(EVEN, None, np.arange(300) % 3)
    assert check.remarks("run") == ["The 95 % intervals hold 95 % of 300 held-out rows, as far as 3 groups by run can tell."]


def test_of_rows_that_the_model_knows_nothing_is_said_of_others():
    assert str(IntervalCheck.of(EVEN).in_words(kind=True)) == "intervals hold on these rows"
    off = IntervalCheck.of(np.full(400, 0.5)).in_words(kind=True)
    assert str(off) == "intervals are too wide on these rows: those of 95 % hold 100 %"


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_intervals_of_calibrated_models_are_seldom_called_off_where_groups_are_few(groups):
    """How alike the rows of a group are is found from few groups with a large error: of models that are right a quarter had intervals that were "too narrow" or "too wide"."""
    rng = np.random.default_rng(1)
    together, told = np.repeat(np.arange(groups), 60), 0
    for _ in range(300):
        shared = np.repeat(rng.normal(size=groups), 60)
        told += off_level(ndtr(np.sqrt(0.7) * shared + np.sqrt(0.3) * rng.normal(size=60 * groups)), together) is not None
    assert told <= 12
