"""What chance explains: laws of probability without SciPy, and what is said of intervals where rows err together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import bdtr, bdtrc, ndtr, stdtrit

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
