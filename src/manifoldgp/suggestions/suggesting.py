"""The next experiments, one after the other: each is the best of many possible ones, given those that are already chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldgp._system.plain_text import counted
from manifoldgp._system.threads import threads_for
from manifoldgp.data.columns import pandas
from manifoldgp.errors import InputError
from manifoldgp.suggestions.gains import Improvement, Knowledge, region
from manifoldgp.suggestions.space import Space, Value, Values, space_of, training_inputs

if TYPE_CHECKING:
    from pandas import DataFrame

    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

Goal = Literal["maximize", "minimize", "learn"]
GOALS = ("maximize", "minimize", "learn")
Worth = Callable[[np.ndarray, np.ndarray], np.ndarray]

_CANDIDATES = 1024
_WIDTHS = (0.1, 0.03, 0.01)
_NEAR = 256
_KEPT, _LATER = 8, 256


@dataclass(frozen=True)
class Suggestions:
    """Experiments to do next.

    Attributes
    ----------
    columns
        Their inputs by name, in the terms of the table that the model was fitted on, each (q,).
    X : (q, D)
        The same as the model's inputs.
    mean, std : (q,)
        What the model expects to observe there.
    worth : (q,)
        The log of the improvement that is expected of this one beyond those before it; or the expected reduction of the mean variance over the region of the data
        by it, given those before it.
    goal
        "maximize", "minimize" or "learn".
    best
        The best mean among the training rows that are possible (where none is, among the experiments that were drawn), which is to be improved on; None for "learn".
    compared
        Where that is, in words; empty for "learn".
    levels
        Numbers by name that have a few values in the training rows, and were suggested at these only, because neither bounds nor a step were given.
    """

    columns: Values
    X: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    worth: np.ndarray
    goal: str
    best: float | None
    compared: str
    levels: Mapping[str, tuple[float, ...]]

    def frame(self) -> DataFrame:
        """The inputs as a pandas DataFrame."""
        return pandas().DataFrame(self.columns)


def suggest(
    model: ManifoldGPRegressor,
    goal: Goal = "maximize",
    *,
    batch: int = 4,
    bounds: Mapping[str, Sequence[Value]] | None = None,
    fixed: Mapping[str, Value] | None = None,
    steps: Mapping[str, float] | None = None,
    constraints: Sequence[str] = (),
    output: int = 0,
    random_state: int = 0,
) -> Suggestions:
    """Suggest a batch of experiments.

    Parameters
    ----------
    model
        A fitted estimator. Fitted on a table (`mgp fit`, or with ``table_encoding_``), it has text columns as categories.
    goal
        "maximize" or "minimize" the target, by expected improvement (needs the extra ``botorch``); or "learn": make the prediction as sure as possible in the
        region of the training rows.
    batch
        How many experiments, to be done at the same time.
    bounds
        Of inputs by name: (low, high) of a number, or a list of the values that are possible. By default the range of the training rows, or
        their values where these are few and repeated, and all categories.
    fixed
        Inputs by name that have this one value.
    steps
        Numbers by name that come in such steps, from their lower bound on. A number that is whole in all training rows stays whole.
    constraints
        Conditions such as ``"x1 + 2 * x2 <= 10"`` or ``'surface != "ice"'``; a name that is no word stands in backticks.
    output
        Which of several targets.
    random_state
        Draws the experiments among which the best are chosen.

    Examples
    --------
    >>> from manifoldgp import GPRegressor
    >>> x = np.array([[0.0], [0.3], [0.6], [2.9]])
    >>> model = GPRegressor(restarts=2).fit(x, np.sin(x[:, 0]))
    >>> found = suggest(model, "learn", batch=1, bounds={"x": (0.0, 3.0)})
    >>> bool(0.6 < found.columns["x"][0] < 2.9)
    True
    """
    check_is_fitted(model)
    if goal not in GOALS:
        raise InputError(f"goal must be one of {', '.join(map(repr, GOALS))}; got {goal!r}.")
    if not 1 <= batch <= 100:
        raise InputError(f"batch must be a number of experiments from 1 to 100; got {batch!r}.")
    if not 0 <= output < model.n_outputs_:
        raise InputError(f"output must be the number of a target, 0 to {model.n_outputs_ - 1}; got {output!r}.")
    space = space_of(model, bounds or {}, fixed or {}, steps or {}, constraints)
    rng = np.random.default_rng(random_state)
    first = _different(space, space.draw(_CANDIDATES, rng))
    with threads_for(model.ensembles_[output].blocks[0].rows):
        worth, best, compared = _worth(model, goal, output, space, first, random_state)
        rows, values = _greedy(worth, space, first, batch, rng)
        X = space.encoded(rows)
        mean, std = (np.asarray(part).reshape(len(X), -1)[:, output] for part in _predicted(model, X))
    return Suggestions(rows, X, mean, std, values, goal, best, compared, space.levels)


def _worth(
    model: ManifoldGPRegressor, goal: str, output: int, space: Space, candidates: Values, seed: int
) -> tuple[Worth, float | None, str]:
    """What experiments are worth, the value that is to be improved on, and where that is."""
    rows = training_inputs(model, output)
    if goal == "learn":
        return Knowledge(model, output, region(model, space.holds_rows(rows), seed)), None, ""
    sign = 1.0 if goal == "maximize" else -1.0
    inside = rows[space.holds_rows(rows)]
    # the best mean, not the best observation: noise would set a mark that no experiment can reach
    known = inside if len(inside) else space.encoded(candidates)
    mean = np.asarray(_predicted(model, known)[0]).reshape(len(known), -1)[:, output]
    best = float(sign * np.max(sign * mean))
    return Improvement(model, output, sign, best, seed), best, _where(len(inside), len(rows))


def _where(inside: int, rows: int) -> str:
    """Where the value is that is to be improved on, if so many of the training rows are possible.

    >>> _where(7, 7), _where(3, 7), _where(0, 7)
    ('in the training rows', 'in the 3 of 7 training rows that are possible', 'among possible experiments, which no training row is,')
    """
    if inside == rows:
        return "in the training rows"
    return (
        f"in the {inside} of {counted(rows, 'training row')} that are possible"
        if inside
        else "among possible experiments, which no training row is,"
    )


def _greedy(worth: Worth, space: Space, first: Values, batch: int, rng: np.random.Generator) -> tuple[Values, np.ndarray]:
    """The experiments that are worth most, each given those before it, and their worth."""
    chosen: list[Values] = []
    values = []
    X = np.empty((0, space.encoded({name: column[:1] for name, column in first.items()}).shape[1]))
    alone = worth(space.encoded(first), X)
    for _ in range(batch):
        row, value = _best(worth, space, first, alone if not len(X) else worth(space.encoded(first), X), X, rng)
        if not len(X):  # what is worth little alone is worth no more beside others
            first = _top(first, alone, _LATER)[0]
        chosen.append(row)
        values.append(value)
        X = np.concatenate([X, space.encoded(row)])
    return {name: np.concatenate([row[name] for row in chosen]) for name in first}, np.array(values)


def _best(
    worth: Worth, space: Space, rows: Values, values: np.ndarray, chosen: np.ndarray, rng: np.random.Generator
) -> tuple[Values, float]:
    """The experiment that is worth most: the best of those drawn everywhere, and then of those drawn ever nearer to the best."""
    for width in _WIDTHS:
        rows, values = _top(rows, values)
        near = space.near(rows, _NEAR, width, rng)
        if len(near[next(iter(near))]):
            rows = {name: np.concatenate([column, near[name]]) for name, column in rows.items()}
            values = np.concatenate([values, worth(space.encoded(near), chosen)])
    rows, values = _top(rows, values)
    return {name: column[:1] for name, column in rows.items()}, float(values[0])


def _different(space: Space, rows: Values) -> Values:
    """Each of the experiments once: among few that are possible, the best ones drawn would all be the same."""
    once = np.sort(np.unique(space.encoded(rows), axis=0, return_index=True)[1])
    return {name: column[once] for name, column in rows.items()}


def _top(rows: Values, values: np.ndarray, count: int = _KEPT) -> tuple[Values, np.ndarray]:
    order = np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")[:count]
    return {name: column[order] for name, column in rows.items()}, values[order]


def _predicted(model: ManifoldGPRegressor, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation at encoded inputs, whose names the model knows."""
    named = getattr(model, "feature_names_in_", None)
    return model.predict(X if named is None else pandas().DataFrame(X, columns=list(named)), return_std=True)
