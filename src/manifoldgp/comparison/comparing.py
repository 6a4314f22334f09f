"""Train every candidate on the same folds, one candidate after the other, until all are done, time is up, or somebody stops it."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from manifoldgp.chance.differences import units_of
from manifoldgp.comparison.candidates import Candidate, chosen
from manifoldgp.comparison.held_out import RowScores, Split, density_of, scores_on
from manifoldgp.comparison.peers import on_tables
from manifoldgp.comparison.result import Comparison, Row
from manifoldgp.data.dates import pandas
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.frames import as_frame
from manifoldgp.data.table_checks import refuse_unknown_words
from manifoldgp.errors import InputError
from manifoldgp.estimators.early_end import OUT_OF_TIME

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table


_LENIENT = 1.5
"""Shares of a budget that a model may take which cannot be stopped: how long it takes is known about."""

_GUESS = 0.2
"""Share of the work for which the pace of a usual core counts as much as the one that there is."""


@dataclass(frozen=True)
class Standing:
    """How far a comparison is: what is being trained, the share of the work that is done, and seconds left, about."""

    title: str
    fold: int
    folds: int
    share: float
    seconds_left: float


def compare(
    X: Table,
    y: ArrayLike,
    *,
    models: Sequence[str] | Mapping[str, BaseEstimator] | None = None,
    groups: ArrayLike | None = None,
    ordered: bool = False,
    folds: int = 5,
    budget: float | None = None,
    random_state: int = 0,
    target: str = "y",
    missing: str = "error",
    progress: Callable[[Standing], object] | None = None,
) -> Comparison:
    """Compare models on the same held-out rows: every row is predicted once, by models that have not seen it.

    Ctrl-C (KeyboardInterrupt) ends it and keeps the models that are finished.

    Parameters
    ----------
    X : (N, D)
        Inputs: numbers, or a frame of pandas or polars with text, dates and gaps (`TableEncoding`). What a category with many values becomes, and what takes the place
        of a missing value, is learnt from the training rows of each fold.
    y : (N,)
        The target.
    models
        Names, ``["mean", "linear", "gp:se", "forest", "boosting", "mgp:stack"]``, or scikit-learn estimators by name; by default all that are installed but deep GPs.
        ``gp:WORD`` is ``GPRegressor(kernel=WORD)``, ``mgp:WORD`` is ``ManifoldGPRegressor(averaging=WORD)``, ``deepgp:2`` is ``DeepGPRegressor(2)``.
    groups : (N,)
        Rows with one label (a run, a patient) are held out together.
    ordered
        Rows are in order of time; whole stretches are held out.
    folds
        How many parts the rows are dealt to.
    budget
        Seconds for everything. Models of this package stop training when their share of it is up and keep what they have; others, that theirs does not suffice for, are left out.
    random_state
        Draws folds and starts.
    target
        The name of the target, for tables and pages.
    missing
        What happens to missing inputs, as in the estimators: "error", "drop" (rows with one are left out) or "impute".
    progress
        Called with a `Standing` before every fit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> found = compare(X, X[:, 0] + 0.1 * rng.normal(size=60), models=["mean", "linear"])
    >>> found.best.name
    'linear'
    """
    rows = _rows(X, y, groups, ordered, missing)
    if budget is not None and not budget > 0:
        raise InputError(f"budget must be a positive number of seconds; got {budget!r}.")
    if not 2 <= folds <= len(rows.y):
        raise InputError(f"folds must be at least 2 and at most the number of rows, {len(rows.y)}; got {folds!r}.")
    run = _Run(rows, rows.folds(folds, random_state), chosen(models), random_state, budget, progress, missing)
    found, interrupted = run.all()
    return Comparison(
        rows.y,
        tuple(found),
        units_of(len(rows.y), rows.groups, rows.ordered),
        how_held_out(rows, len(run.folds)),
        target,
        interrupted,
    )


class _Run:
    """One comparison: its folds, its clock, and what has been spent on which candidate."""

    def __init__(
        self,
        rows: Split,
        folds: list[np.ndarray],
        candidates: list[Candidate],
        seed: int,
        budget: float | None,
        progress: Callable[[Standing], object] | None,
        missing: str,
    ) -> None:
        self.rows, self.folds, self.candidates, self.seed = rows, folds, candidates, seed
        self._missing = missing
        self._begin = time.perf_counter()
        self._deadline = math.inf if budget is None else self._begin + budget
        self._progress = progress
        self._work = sum(map(self._seconds, candidates)) * len(folds)
        self._done = 0.0

    def _seconds(self, candidate: Candidate) -> float:
        """That one fold should take."""
        return candidate.seconds(len(self.rows.y) - len(self.rows.y) // len(self.folds))

    def all(self) -> tuple[list[Row], bool]:
        """A row for every candidate, and whether somebody stopped it."""
        found: list[Row] = []
        for waiting, candidate in zip(reversed(range(len(self.candidates))), self.candidates, strict=True):
            try:
                found.append(self._row(candidate, waiting))
            except KeyboardInterrupt:
                if not any(row.done for row in found):
                    raise
                rest = self.candidates[len(found) :]
                return found + [Row(c.name, c.title, "", "interrupted" if c is rest[0] else "not begun") for c in rest], True
        return found, False

    def _row(self, candidate: Candidate, waiting: int) -> Row:
        """Train and score a candidate on all folds; it leaves their share of the budget to those that are still waiting. One that cannot be stopped is left out once it is
        clear that its own does not suffice."""
        model, each = candidate.build(self.seed), self._seconds(candidate)
        how, begin, stops, tried = density_of(model), time.perf_counter(), _stops_in_time(model), list[Any]()
        scores = RowScores.empty(len(self.rows.y))
        for number, held_out in enumerate(self.folds):
            left = self._deadline - time.perf_counter()
            if left <= 0:
                return Row(candidate.name, candidate.title, how, "the budget was used up")
            share = left / (len(self.folds) * (1 + waiting) - number)
            if not stops and each > _LENIENT * share:
                self._done += self._seconds(candidate) * (len(self.folds) - number)
                return Row(candidate.name, candidate.title, how, "its share of the budget does not suffice")
            self._tell(candidate, number)
            known, fit_begin = self.rows.without(held_out), time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")

                    def build(share: float = share) -> BaseEstimator:
                        tried.append(self._built(candidate, share))
                        return tried[-1]

                    scores.put(held_out, scores_on(build, known, self.rows.inputs(held_out), self.rows.y[held_out], self.seed))
            except Exception as error:
                self._done += self._seconds(candidate) * (len(self.folds) - number)
                return Row(candidate.name, candidate.title, how, f"failed: {error}")
            each = time.perf_counter() - fit_begin
            self._done += self._seconds(candidate)
        seconds = (time.perf_counter() - begin) / len(self.folds)
        cut = self._deadline < math.inf and any(map(_out_of_time, tried))
        return Row(candidate.name, candidate.title, how, "cut short by the budget" if cut else "done", seconds, scores)

    def _built(self, candidate: Candidate, seconds: float) -> BaseEstimator:
        """An unfitted estimator; ours stop training in time."""
        estimator: Any = candidate.build(self.seed)
        if seconds < math.inf and _stops_in_time(estimator) and estimator.time_budget is None:
            estimator.set_params(time_budget=seconds)
        return estimator if isinstance(self.rows.X, np.ndarray) else on_tables(estimator, self._missing)

    def _tell(self, candidate: Candidate, fold: int) -> None:
        if self._progress is None:
            return
        spent, guessed = time.perf_counter() - self._begin, _GUESS * self._work
        pace = (spent + guessed) / (self._done + guessed)
        left = max(0.0, min(pace * (self._work - self._done), self._deadline - time.perf_counter()))
        self._progress(Standing(candidate.title, fold + 1, len(self.folds), self._done / self._work, left))


def _stops_in_time(estimator: BaseEstimator) -> bool:
    """Whether it is one of this package's, which keep to a time budget."""
    return hasattr(estimator, "log_predictive_density")


def _out_of_time(fitted: Any) -> bool:
    """Whether training, or the trials of kernels before it, says that time was up; that a fit took about as long as it was given says nothing."""
    starts, choice = getattr(fitted, "starts_", None), getattr(fitted, "kernel_choice_", None)
    late = starts is not None and bool(np.isin(starts["status"], OUT_OF_TIME).any())
    return late or getattr(choice, "late", False)


def _rows(X: Table, y: ArrayLike, groups: ArrayLike | None, ordered: bool, missing: str) -> Split:
    """What the user handed in; rows without target are left out, and with missing="drop" those without an input."""
    if groups is not None and ordered:
        raise InputError("groups and ordered are two ways to hold rows out. Choose one.")
    refuse_unknown_words(missing, ())
    frame, targets = as_frame(X), np.asarray(y, dtype=np.float64)
    inputs = np.asarray(X, dtype=np.float64) if frame is None else frame.reset_index(drop=True)
    if inputs.ndim != 2 or targets.shape != (len(inputs),):
        raise InputError(f"X must be (N, D) and y (N,), one target; got {inputs.shape} and {targets.shape}.")
    labels = None if groups is None else np.asarray(groups)
    if labels is not None and labels.shape != targets.shape:
        raise InputError(f"groups must be one label a row, {targets.shape}; got {labels.shape}.")
    there = ~np.isnan(targets)
    if there.sum() < 10:
        raise InputError(f"A comparison needs at least 10 rows with a target; got {int(there.sum())}.")
    known = Split(inputs, targets, labels, ordered).without(np.flatnonzero(~there))
    table = pandas().DataFrame(known.X).rename(columns=str) if isinstance(known.X, np.ndarray) and missing != "error" else known.X
    if isinstance(table, np.ndarray):
        if not np.isfinite(table).all():
            raise InputError(
                "X must be finite numbers; some are missing or infinite. Fill them in, remove these rows, or use missing='impute'."
            )
    else:
        known = _encoded(replace(known, X=table), missing)
    if not np.isfinite(known.y).all():
        raise InputError("y must be finite numbers; some are infinite. Remove these rows.")
    return known


def _encoded(rows: Split, missing: str) -> Split:
    """The rows of a table as numbers, where these are the same in all folds; else numbers beside texts, which become numbers in each fold."""
    table: Any = rows.X.reset_index(drop=True)  # pyright: ignore[reportAttributeAccessIssue]
    encoding = TableEncoding.learn(table, ["y"], missing=missing, y=rows.y[:, None])
    encoding.warn_of_row_names()
    lacking = np.any([np.zeros(len(table), dtype=bool), *encoding.missing_rows(table).values()], axis=0)
    if lacking.any() and missing == "drop":
        return _encoded(replace(rows, X=table).without(np.flatnonzero(lacking)), missing)
    if not lacking.any() and not any(column.effects for column in encoding.columns):
        return replace(rows, X=encoding.inputs(table).to_numpy())
    read = {
        c.name: table[c.name] if c.categories else replace(c, indicator=False).numbers(table[c.name])[:, 0]
        for c in encoding.columns
    }
    return replace(rows, X=pandas().DataFrame(read))


def how_held_out(rows: Split, folds: int) -> str:
    """In words, how rows were held out."""
    if rows.groups is not None:
        return f"{folds} folds of whole groups, {len(np.unique(rows.groups))} groups"
    return f"{folds} stretches of consecutive rows" if rows.ordered else f"{folds} folds of random rows"
