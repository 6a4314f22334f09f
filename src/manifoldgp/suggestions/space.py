"""The experiments that are possible: for every input a range, a list of values, or one value; and conditions on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import qmc

from manifoldgp._system.plain_text import digits, option, verb
from manifoldgp.data.columns import pandas, text
from manifoldgp.errors import Faults, InputError, warn
from manifoldgp.suggestions.constraints import Constraint
from manifoldgp.suggestions.domains import Choice, Dates, Domain, Range, Value

if TYPE_CHECKING:
    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

Values = dict[str, np.ndarray]
"""Columns of experiments by name, each (n,)."""

_MOST_DRAWS = 2**17

_SWEEPS, _SECANTS = 6, 12
"""Turns of several equations, and steps of one that is not linear."""


@dataclass(frozen=True)
class Space:
    """All experiments that are possible with a model."""

    model: ManifoldGPRegressor
    inputs: Mapping[str, Domain]
    constraints: tuple[Constraint, ...] = ()
    levels: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Numbers that have few values in the training rows, which nobody said more of: these values alone are possible."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Inputs that the model takes for another one, because they were the same numbers in all training rows: they follow that one."""

    def draw(self, count: int, rng: np.random.Generator) -> Values:
        """About ``count`` possible experiments, spread evenly; fewer where conditions leave little, and an error where they leave nothing."""
        sobol, found, drawn = qmc.Sobol(len(self.inputs), rng=rng), [], 0
        while drawn < _MOST_DRAWS and sum(len(next(iter(part.values()))) for part in found) < count:
            values = self.settled(self.at(sobol.random(count)), rng)
            drawn += count
            found.append(_chosen(values, self.possible(values)))
        values = {name: np.concatenate([part[name] for part in found])[:count] for name in self.inputs}
        if not len(next(iter(values.values()))):
            conditions = ", ".join(repr(c.text) for c in self.constraints)
            raise InputError(
                f"None of {drawn:,} experiments within the bounds satisfies {conditions}. Widen the bounds, or the conditions."
            )
        return values

    def near(self, values: Values, count: int, width: float, rng: np.random.Generator) -> Values:
        """Possible experiments in the neighbourhood of given ones, ``count`` in all; width: as a share of the ranges."""
        shares = np.stack([domain.share(values[name]) for name, domain in self.inputs.items()], 1)
        shares = shares[rng.integers(len(shares), size=count)] + width * rng.normal(size=(count, shares.shape[1]))
        moved = [i for i, domain in enumerate(self.inputs.values()) if isinstance(domain, Choice)]
        switched = rng.uniform(size=(count, len(moved))) < 0.1
        shares[:, moved] = np.where(switched, rng.uniform(size=switched.shape), shares[:, moved])
        found = self.settled(self.at(shares), rng)
        return _chosen(found, self.possible(found))

    def at(self, shares: np.ndarray) -> Values:
        """Experiments at shares (n, number of inputs) of the way through every input."""
        return {name: domain.at(shares[:, i]) for i, (name, domain) in enumerate(self.inputs.items())}

    def settled(self, values: Values, rng: np.random.Generator) -> Values:
        """The experiments with one number of every equation, another one in each, as the others demand: chance satisfies no a + b + c == 1."""
        values = {name: column.astype(float) if name in self._numbers else column for name, column in values.items()}
        equations = [constraint for constraint in self.constraints if constraint.excess(values) is not None]
        for constraint in equations * min(len(equations), _SWEEPS):  # the next one may move what this one has settled
            movable = [name for name in constraint.named() if name in self._numbers]
            moved = rng.integers(max(len(movable), 1), size=len(next(iter(values.values()))))
            for i, name in enumerate(movable):
                solved = self._solved(constraint, name, values)
                values[name] = np.where((moved == i) & self.inputs[name].holds(solved), solved, values[name])
        return values | {name: _as_copy(self.inputs[name], self.inputs[of], values[of]) for name, of in self.copies.items()}

    @property
    def _numbers(self) -> list[str]:
        """Inputs that can be any of several numbers."""
        ranges = (name for name, domain in self.inputs.items() if isinstance(domain, Range) and domain.high > domain.low)
        several = (name for name, domain in self.inputs.items() if isinstance(domain, Choice) and domain.of_numbers)
        return [name for name in (*ranges, *several) if name not in self.copies]

    def _solved(self, equation: Constraint, name: str, values: Values) -> np.ndarray:
        """The numbers (n,) of one input with which an equation holds, by secants: at once where it is linear."""
        domain = self.inputs[name]
        assert isinstance(domain, (Range, Choice))

        def excess(x: np.ndarray) -> np.ndarray:
            return np.asarray(equation.excess(values | {name: x}))

        before = values[name]
        at = before + 0.25 * np.ptp([domain.at(np.array([share]))[0] for share in (0.0, 1.0)])
        with np.errstate(all="ignore"):
            for _ in range(_SECANTS):
                left, right = excess(before), excess(at)
                following = at - right * (at - before) / (right - left)
                before, at = at, np.where((right == left) | (right == 0.0), at, following)
        return domain.nearest(at)

    def possible(self, values: Values) -> np.ndarray:
        """Which experiments (n,) satisfy all conditions."""
        holds = [constraint.holds(values) for constraint in self.constraints]
        return np.all(holds, axis=0) if holds else np.ones(len(next(iter(values.values()))), dtype=bool)

    def encoded(self, values: Values) -> np.ndarray:
        """Experiments as the model's inputs (n, D)."""
        encoding = getattr(self.model, "table_encoding_", None)
        if encoding is None:
            return np.stack([values[name].astype(float) for name in self.inputs], 1)
        return encoding.inputs(pandas().DataFrame(values)).to_numpy()

    def holds_rows(self, X: np.ndarray) -> np.ndarray:
        """Which of the model's inputs X (n, D), such as its training rows, are possible experiments."""
        values = self._decoded(X)
        inside = np.ones(len(X), dtype=bool)
        for name, column in values.items():
            inside &= self.inputs[name].holds(column)
        return inside & self.possible(values) if len(values) == len(self.inputs) else inside

    def _decoded(self, X: np.ndarray) -> Values:
        """The model's inputs (n, D) as columns of the table, those that can be read back: numbers, dates, and categories from their 0/1 columns."""
        names, found = model_columns(self.model), {}
        for name, domain in self.inputs.items():
            parts = [d for d, column in enumerate(names) if column.startswith(f"{name}=")]
            if isinstance(domain, Dates):
                found[name] = domain.texts(X[:, names.index(domain.scale.names(name)[0])])
            elif name in names:
                found[name] = X[:, names.index(name)]
            elif parts:
                labels = np.array([names[d].removeprefix(f"{name}=") for d in parts], dtype=object)
                found[name] = labels[X[:, parts].argmax(1)]
        return found


def space_of(
    model: ManifoldGPRegressor,
    bounds: Mapping[str, Sequence[Value]],
    fixed: Mapping[str, Value],
    steps: Mapping[str, float],
    constraints: Sequence[str],
) -> Space:
    """The space of a fitted model: by default every number and date within the range of the training rows, whole where all of them are, and every category.

    A number with at most ten values, each in three training rows or more and other than whole numbers without a gap, has these values only, unless bounds or a step are given.

    Parameters
    ----------
    bounds
        (low, high) of a number or a date, or the values that a category, a number or a date may have (three or more of the latter two).
    fixed
        Inputs that have one value.
    steps
        Numbers that come in steps.
    """
    usual, faults = _usual(model), Faults()
    for what, given in (("bounds", bounds), ("fixed", fixed), ("steps", steps)):
        if unknown := [name for name in given if name not in usual]:
            named = f"{', '.join(map(repr, unknown))}, which {verb(len(unknown), 'is no input', 'are no inputs')} of the model"
            faults.told.append(f"{what} names {named}. Inputs: {', '.join(usual)}.")
    inputs: dict[str, Domain] = {}
    levels: dict[str, tuple[float, ...]] = {}
    for name, domain in usual.items():
        with faults.noted():
            for given in (bounds, fixed):
                if name in given and given[name] is None:
                    raise InputError(f"{name!r} has None for its value. Give one, or leave it out.")
            inputs[name] = _possible(name, domain, bounds.get(name), fixed.get(name))
            if name in steps:
                inputs[name] = _stepped(name, inputs[name], steps[name], from_low=name in bounds)
            elif name not in bounds and isinstance(domain := inputs[name], Range) and domain.levels:
                inputs[name] = Choice(domain.levels)
                levels[name] = domain.levels
    conditions = []
    for condition in constraints:
        with faults.noted():
            conditions.append(Constraint.parse(condition, list(usual)))
    faults.refuse()
    asked = {*bounds, *fixed, *steps, *(name for condition in conditions for name in condition.named())}
    copies = _copies(model, inputs, asked)
    _warn_of_proportions(model, usual, {*fixed, *(name for condition in conditions for name in condition.named())})
    levels = {name: values for name, values in levels.items() if name not in copies}
    return Space(model, inputs, tuple(conditions), levels, copies)


def _warn_of_proportions(model: ManifoldGPRegressor, inputs: Mapping[str, Domain | None], held: set[str]) -> None:
    """Proportions sum to one in every row of a mixture, and suggestions that nobody holds to it do not. held: inputs that a condition names, or that have one value."""
    names, X = model_columns(model), training_inputs(model)
    numbers = [name for name, domain in inputs.items() if isinstance(domain, Range) and name in names]
    found = _same_sum(X[:, [names.index(name) for name in numbers]])
    if found is None or held & {numbers[d] for d in found[0]}:
        return
    which, total = [numbers[d] for d in found[0]], found[1]
    condition = " + ".join(name if name.isidentifier() else f"`{name}`" for name in which) + f" == {digits(total)}"
    warn(
        f"{', '.join(which)} sum to {digits(total)} in every training row, and nothing holds suggestions to it. The condition {condition!r} does (constraints= in Python, --constraint)."
    )


def _same_sum(X: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Which columns of X (n, D), none of them negative, have the same sum in every row, and that sum; None where none do, or more than one set.

    >>> a, b, t = np.random.default_rng(0).dirichlet([1, 1, 1], 9).T[0:3]
    >>> which, total = _same_sum(np.column_stack([a, np.arange(9.0) ** 2, b, t]))
    >>> which, round(total, 9)
    (array([0, 2, 3]), 1.0)
    """
    spread = X.std(0) if len(X) else np.zeros(X.shape[1])
    if X.shape[1] < 2 or len(X) <= X.shape[1] or not spread.all():
        return None
    _, sizes, directions = np.linalg.svd((X - X.mean(0)) / spread, full_matrices=False)
    if sizes[-1] > 1e-6 * sizes[0] or sizes[-2] < 1e-4 * sizes[0]:
        return None
    slopes = directions[-1] / spread
    slopes = slopes / slopes[np.abs(slopes).argmax()]
    which = np.flatnonzero(np.abs(slopes) > 1e-5)
    if len(which) < 2 or np.abs(slopes[which] - 1.0).max() > 1e-5 or X[:, which].min() < 0.0:
        return None
    return which, float(X[:, which].sum(1).mean())


def _copies(model: ManifoldGPRegressor, inputs: Mapping[str, Domain], asked: set[str]) -> dict[str, str]:
    """Inputs that repeat another one, by name, and which one they follow: one that somebody said something of, else the first. What somebody said something of follows none."""
    names, alike = model_columns(model), dict[int, list[str]]()
    for name, domain in inputs.items():
        column = domain.scale.names(name)[0] if isinstance(domain, Dates) else name
        place = int(model.x_scaler_.place[names.index(column)]) if column in names else -1
        if place >= 0:
            alike.setdefault(place, []).append(name)
    found = {}
    for same in alike.values():
        first = next((name for name in same if name in asked), same[0])
        found |= {name: first for name in same if name != first and name not in asked}
    return found


def _as_copy(domain: Domain, followed: Domain, values: np.ndarray) -> np.ndarray:
    """The values (n,) of an input whose numbers are those of another one."""
    numbers = followed.elapsed(values) if isinstance(followed, Dates) else values.astype(float)
    if isinstance(domain, Dates):
        return domain.texts(numbers)
    return numbers.astype(bool) if isinstance(domain, Choice) and isinstance(domain.values[0], bool) else numbers


def _possible(name: str, domain: Domain | None, bounds: Sequence[Value] | None, fixed: Value | None) -> Domain:
    """The values of an input, by default all of its domain."""
    if bounds is not None and fixed is not None:
        raise InputError(f"{name!r} is fixed and has bounds. Give one of the two.")
    if fixed is not None:
        return Choice((_one_of(name, domain, fixed),))
    if domain is None:
        raise InputError(
            f"Input {name!r} is neither a number, a date nor a category: nobody can say which values are possible. Fix it: fixed={{{name!r}: ...}} "
            f"({option('--fix', f'{name}=...')})."
        )
    return domain if bounds is None else _bounded(name, domain, bounds)


def model_columns(model: ManifoldGPRegressor) -> list[str]:
    """Names of the D numbers that the model sees."""
    named = getattr(model, "feature_names_in_", None)
    D = model.n_features_in_
    return [str(name) for name in named] if named is not None else ["x"] if D == 1 else [f"x{d}" for d in range(D)]


def training_inputs(model: ManifoldGPRegressor, output: int = 0) -> np.ndarray:
    """The inputs (n, D) of the rows that the model keeps, in original units."""
    data = model.ensembles_[output].blocks[0].data
    return model.x_scaler_.as_given(data.X.detach().cpu().numpy())


def _usual(model: ManifoldGPRegressor) -> dict[str, Domain | None]:
    """Every input with the values that the training rows have; None for a duration, which tables write in too many ways."""
    X, names = training_inputs(model), model_columns(model)
    encoding: TableEncoding | None = getattr(model, "table_encoding_", None)
    if encoding is None:
        return {name: Range.of(X[:, d]) for d, name in enumerate(names)}
    found: dict[str, Domain | None] = {}
    for column in encoding.columns:
        known = X[X[:, names.index(column.names[-1])] < 0.5] if column.indicator else X  # what was filled in is a mean of others
        if column.categories:
            found[column.name] = Choice(tuple(column.categories))
        elif column.kind == "date" and column.time is not None:
            elapsed = known[:, names.index(column.names[0])]
            found[column.name] = Dates(column.name, column.time, Range.of(elapsed))
        elif column.kind == "flag":
            found[column.name] = Choice((False, True))
        else:
            found[column.name] = Range.of(known[:, names.index(column.name)]) if column.name in names else None
    return found


def _bounded(name: str, domain: Domain, given: Sequence[Value]) -> Domain:
    if isinstance(given, str) or not len(given):
        raise InputError(f"Bounds of {name!r} must be (low, high), or a list of values; got {given!r}.")
    if isinstance(domain, Choice):
        return Choice(tuple(_one_of(name, domain, value) for value in given))
    if isinstance(domain, Dates):
        elapsed = domain.elapsed(given).tolist()
        if len(elapsed) != 2:
            return Choice(tuple(domain.texts(np.unique(elapsed))))
        span = _bounded(name, domain.span, elapsed)
        assert isinstance(span, Range)
        return replace(domain, span=span)
    values = [_number(name, value) for value in given]
    if len(values) != 2:
        return Choice(tuple(sorted(set(values))))
    if not values[0] < values[1]:
        raise InputError(
            f"Bounds of {name!r} must be (low, high) with low below high; got {given!r}. One value is meant? Fix it."
        )
    whole = domain.step if domain.step == 1.0 and all(value.is_integer() for value in values) else None
    return Range(values[0], values[1], whole)


def _one_of(name: str, domain: Domain | None, value: Value) -> Value:
    """A value that the input can have."""
    if domain is None:
        return value
    if isinstance(domain, Dates):
        return str(domain.texts(domain.elapsed([value]))[0])
    if isinstance(domain, Range):
        return _number(name, value)
    known = {text(choice).lower() if isinstance(choice, bool) else text(choice): choice for choice in domain.values}
    given = str(value).lower() if isinstance(domain.values[0], bool) else text(value)
    given = {"1": "true", "0": "false"}.get(given, given) if isinstance(domain.values[0], bool) else given
    if given not in known:
        raise InputError(f"{name!r} can be {', '.join(known)}, which the model has seen; got {value!r}.")
    return known[given]


def _stepped(name: str, domain: Domain, step: float, from_low: bool) -> Domain:
    """The range in steps: from the lower bound on where somebody gave it, else multiples of the step."""
    if isinstance(domain, Dates):
        raise InputError(
            f"{name!r} is a date, which comes in the steps of the training rows. Leave its step out, or list the dates that are possible as bounds."
        )
    if not isinstance(domain, Range):
        raise InputError(f"{name!r} has given values, so a step has no effect on it. Leave one of the two out.")
    if not 0 < step <= domain.high - domain.low:
        raise InputError(f"A step of {name!r} must be positive and fit into {domain.low:g} to {domain.high:g}; got {step!r}.")
    low = domain.low if from_low else float(np.ceil(domain.low / step - 1e-9) * step)
    return replace(domain, low=low, step=float(step))


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"{name!r} is a number; got {value!r}.")
    return number


def _chosen(values: Values, rows: np.ndarray) -> Values:
    return {name: column[rows] for name, column in values.items()}
