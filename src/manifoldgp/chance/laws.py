"""Two laws of probability, by NumPy alone: SciPy takes longer to start than what asks for them takes."""

from __future__ import annotations

import math

import numpy as np

_FAR = 40.0
"""Standard deviations from its mean beyond which a binomial law has no probability that a float can tell."""

_SERIES = 200
"""Degrees of freedom up to which Student's law is summed; beyond, an expansion around the Gaussian has eight digits."""


def binomial_tails(low: int, high: int, n: int, p: float) -> tuple[float, float]:
    """P(X <= low) and P(X >= high) of the number X of successes among n, each with probability p between 0 and 1.

    >>> [round(tail, 6) for tail in binomial_tails(1, 2, 3, 0.5)], binomial_tails(-1, 4, 3, 0.5)
    ([0.5, 0.5], (0.0, 0.0))
    """
    mean, reach = n * p, _FAR * math.sqrt(n * p * (1.0 - p))
    first, last = max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach))
    k = np.arange(first, last + 1)
    begin = math.lgamma(n + 1) - math.lgamma(first + 1) - math.lgamma(n - first + 1)
    begin += first * math.log(p) + (n - first) * math.log1p(-p)
    steps = np.log((n - k[:-1]) / (k[:-1] + 1.0)) + math.log(p) - math.log1p(-p)
    probability = np.exp(begin + np.concatenate([[0.0], np.cumsum(steps)]))
    return float(probability[k <= low].sum()), float(probability[k >= high].sum())


def student_limit(freedom: int) -> float:
    """What Student's t with so many degrees of freedom stays below as often as a Gaussian stays below three standard deviations.

    >>> [round(student_limit(freedom), 3) for freedom in (1, 2, 10, 1000)]
    [235.801, 19.207, 3.957, 3.008]
    """
    if freedom > _SERIES:
        z = 3.0
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    inside = math.erf(3.0 / math.sqrt(2.0))  # P(|t| < limit)
    low, high = 0.0, 0.5 * math.pi
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _within(middle, freedom) < inside else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """P(|t| < sqrt(freedom) tan(angle)) for a whole number of degrees of freedom, which is a finite sum."""
    odd, cosine = freedom % 2, math.cos(angle)
    term, total = (cosine if odd else 1.0), 0.0
    for power in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * power / (power + 1)
    return 2.0 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
