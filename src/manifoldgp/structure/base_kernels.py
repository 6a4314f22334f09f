"""Base kernels of one input with values to start from: what an expression is made of, and grows by.

Starting values decide what a search finds. Periods come from the periodogram of what is not explained yet, because the evidence has a maximum at every
wrong period too; length-scales from a long one and a short one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.signal import lombscargle

from manifoldgp.errors import InputError
from manifoldgp.kernels import (
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    NeuralNetwork,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)
from manifoldgp.parameters import Tree
from manifoldgp.structure.expressions import Valued, parts_of

_FINE = 5
"""Frequencies of a periodogram for each that the range of an input tells apart."""

_MOST_FREQUENCIES = 4000
_PEAKS = 2

_FEW_VALUES = 8
"""Different values of an input below which it has no period, no place of change and no saturation that could be seen."""


@dataclass(frozen=True)
class InputFacts:
    """What is known of one input beforehand, in the model's units: where its values lie and how many there are."""

    number: int
    low: float
    high: float
    spread: float
    distinct: int

    @staticmethod
    def of(x: np.ndarray, number: int) -> InputFacts:
        return InputFacts(number, float(x.min()), float(x.max()), max(float(x.std()), 1e-3), len(np.unique(x)))

    @property
    def range(self) -> float:
        return self.high - self.low


@dataclass(frozen=True)
class Growth:
    """What a new base kernel is for. variance: what it may explain. multiplies: whether it becomes a factor, which starts close to a constant."""

    variance: float
    multiplies: bool
    periods: tuple[float, ...] = ()


def periods_in(x: np.ndarray, residuals: list[np.ndarray]) -> tuple[float, ...]:
    """The periods of the strongest peaks in the periodograms of the residuals (N,) over x (N,), from two spacings to two thirds of the range.

    >>> t = np.linspace(0, 10, 200)
    >>> bool(abs(periods_in(t, [np.sin(2 * np.pi * t / 2.5)])[0] - 2.5) < 0.1)
    True
    """
    span, distinct = float(np.ptp(x)), len(np.unique(x))
    if distinct < _FEW_VALUES:
        return ()
    highest = 0.5 * (distinct - 1) / span
    lowest = 1.5 / span
    count = min(_MOST_FREQUENCIES, max(int(_FINE * (highest - lowest) * span), 8))
    frequencies = np.linspace(lowest, highest, count)
    found: list[float] = []
    for residual in residuals:
        centred = residual - residual.mean()
        if not np.any(centred):
            continue
        power = lombscargle(x, centred, 2 * np.pi * frequencies)
        found += [1.0 / float(frequencies[peak]) for peak in _highest_peaks(power)]
    return tuple(_different(found))


def _highest_peaks(power: np.ndarray) -> np.ndarray:
    inner = np.flatnonzero((power[1:-1] > power[:-2]) & (power[1:-1] >= power[2:])) + 1
    return inner[np.argsort(-power[inner], kind="stable")][:_PEAKS]


def _different(periods: list[float]) -> list[float]:
    """Without those within 3 % of an earlier one."""
    kept: list[float] = []
    for period in periods:
        if all(abs(period / other - 1) > 0.03 for other in kept):
            kept.append(period)
    return kept


def without_trend(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """y without the parabola in x that fits it best: a first guess at what a period has to explain."""
    return y - np.polynomial.Polynomial.fit(x, y, 2)(x)


def without_aliases(valued: Valued, X: np.ndarray) -> Valued:
    """The expression with periods of two spacings or more along inputs of X (N, D) that have equal ones: there 1/p turns a unit are the same numbers as 1/p − 1/spacing.

    Training may end at either, and a cycle of eleven years that yearly rows show would be called one of 1.1 years.
    """
    parts = {str(i): without_aliases(part, X).values for i, part in enumerate(parts_of(valued))}
    dims = valued.kernel.dims
    if not isinstance(valued.kernel, Periodic) or dims is None or len(dims) != 1:
        return Valued(valued.kernel, {**valued.values, **parts})
    spacing, period = _spacing(X[:, dims[0]]), valued.values["period"]
    turns = 0.0 if spacing is None else spacing / float(period)
    folded = abs(turns - round(turns))
    if spacing is None or turns <= 0.5 or folded < 1e-6:
        return valued
    return Valued(valued.kernel, {**valued.values, "period": torch.full_like(period, spacing / folded)})


def _spacing(x: np.ndarray) -> float | None:
    """The spacing that all values are whole multiples of; None where they are not.

    >>> _spacing(np.array([3.0, 1.0, 2.0, 6.0])), _spacing(np.array([1.0, 2.0, 3.3, 4.0]))
    (1.0, None)
    """
    values = np.unique(x)
    if len(values) < _FEW_VALUES // 2:
        return None
    steps = (values - values[0]) / float(np.diff(values).min())
    return float(np.diff(values).min()) if np.abs(steps - steps.round()).max() < 1e-3 else None


Starts = Callable[[InputFacts, Growth], list[Valued]]
"""The starting values of one base kernel on one input; an empty list where it makes no sense there."""


def _vector(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def _number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _scales(fact: InputFacts, growth: Growth) -> tuple[float, ...]:
    """Length-scales to start from: a factor begins as nearly a constant."""
    return tuple(s * fact.spread for s in ((3.0, 0.7) if growth.multiplies else (1.0, 0.2)))


def _stationary(cls: type[Stationary] | type[RationalQuadratic], more: Tree) -> Starts:
    def starts(fact: InputFacts, growth: Growth) -> list[Valued]:
        kernel: Any = cls(dims=(fact.number,))
        variance = {"variance": _number(growth.variance)}
        return [Valued(kernel, {**variance, "lengthscale": _vector(scale), **more}) for scale in _scales(fact, growth)]

    return starts


def _periodic(fact: InputFacts, growth: Growth) -> list[Valued]:
    kernel = Periodic(dims=(fact.number,), centred=True)
    fixed = {"variance": _number(growth.variance), "lengthscale": _vector(1.0)}
    return [Valued(kernel, {**fixed, "period": _vector(period)}) for period in growth.periods]


def _linear(fact: InputFacts, growth: Growth) -> list[Valued]:
    middle = 0.5 * (fact.low + fact.high)
    places = [fact.low - 0.3 * fact.range, fact.high + 0.3 * fact.range] if growth.multiplies else []
    starts = []
    for origin in [*places, middle]:
        weight = growth.variance / (fact.spread**2 + (middle - origin) ** 2)
        starts.append(Valued(Linear(dims=(fact.number,), origin=True), {"weights": _vector(weight), "origin": _vector(origin)}))
    return starts


def _neural_network(fact: InputFacts, growth: Growth) -> list[Valued]:
    if fact.distinct < _FEW_VALUES:
        return []
    fixed = {"variance": _number(growth.variance), "bias": _number(1.0)}
    kernel = NeuralNetwork(dims=(fact.number,))
    return [Valued(kernel, {**fixed, "weights": _vector(steep / fact.spread**2)}) for steep in (1.0, 30.0)]


BASE_KERNELS: dict[str, Starts] = {
    "se": _stationary(SquaredExponential, {}),
    "matern12": _stationary(Matern12, {}),
    "matern32": _stationary(Matern32, {}),
    "matern52": _stationary(Matern52, {}),
    "rq": _stationary(RationalQuadratic, {"shape": _number(1.0)}),
    "periodic": _periodic,
    "linear": _linear,
    "nn": _neural_network,
}
"""Base kernels of one input by their shorthands."""

OTHERS = ("constant", "changepoint")
"""What an expression also grows by, and is no kernel of one input."""

DEFAULT = ("se", "matern32", "rq", "periodic", "linear", "nn", *OTHERS)


def constant_start(variance: float) -> Valued:
    """A constant to begin with."""
    return Valued(Constant(), {"variance": _number(variance)})


def smooth_in_all(facts: list[InputFacts], all_vary: bool = True) -> list[Valued]:
    """The squared exponential of all inputs together, the kernel of a plain GP: two length-scales to start from. all_vary: whether these are all that there are."""
    kernel = SquaredExponential(dims=None if all_vary else tuple(fact.number for fact in facts))
    scale = torch.tensor([fact.spread for fact in facts], dtype=torch.float64) * len(facts) ** 0.5
    return [Valued(kernel, {"variance": _number(1.0), "lengthscale": times * scale}) for times in (1.0, 3.0)]


def change_places(fact: InputFacts) -> list[Tree]:
    """Where a change on an input may be: at a quarter, half and three quarters of its range; none where it has few values."""
    if fact.distinct < _FEW_VALUES:
        return []
    places = [fact.low + share * fact.range for share in (0.25, 0.5, 0.75)]
    return [{"location": _vector(place), "width": _vector(0.03 * fact.range)} for place in places]


def checked_names(given: object) -> tuple[str, ...]:
    """The names of base kernels that a user gave, or all."""
    if given is None:
        return DEFAULT
    known = (*BASE_KERNELS, *OTHERS)
    names = tuple(given) if isinstance(given, (tuple, list)) else ()
    if not set(names) & set(BASE_KERNELS) or not set(names) <= set(known):
        raise InputError(
            f"kernels must list base kernels by name, at least one of one input, such as ('se', 'periodic', 'linear'); got {given!r}. "
            f"There are: {', '.join(map(repr, known))}."
        )
    return names
