"""Fit, update, predict, save, load, clone, pickle and set_params in any order: whatever was done before, answers are usable and refusals clear."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

import manifoldgp
from manifoldgp import Fast, GPRegressor, Local, ManifoldGPRegressor, Single

from .cases import ALLOWED, Case, ForbiddenError, require_usable
from .configurations import SMALL_STACK

_KINDS: list[Any] = [
    GPRegressor(restarts=1, max_iter=3), ManifoldGPRegressor((2,), averaging=Single(restarts=1, max_iter=3)), ManifoldGPRegressor(averaging=Fast(1, 5, 1, 2, 1, 2)),
    ManifoldGPRegressor((2,), averaging=SMALL_STACK, method=Local(cell=3, near=6)),
]  # fmt: skip
_PARAMETERS = [
    {"kernel": "matern52"},
    {"kernel": "nonsense"},
    {"mean": "linear"},
    {"random_state": 1},
    {"standardize": "nonsense"},
    {"noise": "learned"},
]


class Calls(RuleBasedStateMachine):
    """One estimator, and what a user may do with it."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)
        self.model: Any = clone(_KINDS[0])
        self.fitted = False

    @rule(kind=st.integers(0, len(_KINDS) - 1))
    def begin(self, kind: int) -> None:
        self.model, self.fitted = clone(_KINDS[kind]), False

    @rule(rows=st.sampled_from([0, 1, 2, 6, 12]))
    def fit(self, rows: int) -> None:
        X = self.rng.normal(size=(rows, 2))
        try:
            self.model.fit(X, np.sin(X[:, 0]))
            self.fitted = True
        except ALLOWED:  # whatever was fitted before may be there or not, but what is there must answer
            self.fitted = self._answers()

    @precondition(lambda self: self.fitted)
    @rule(rows=st.integers(1, 3), noisy=st.booleans())
    def update(self, rows: int, noisy: bool) -> None:
        X = self.rng.normal(size=(rows, 2))
        self.model.update(X, np.sin(X[:, 0]) + (self.rng.normal(size=rows) if noisy else 0.0))
        self.predict()

    @precondition(lambda self: self.fitted)
    @rule()
    def predict(self) -> None:
        require_usable(*self.model.predict(self.rng.normal(size=(3, 2)), return_std=True))

    @precondition(lambda self: self.fitted)
    @rule()
    def file(self) -> None:
        X = self.rng.normal(size=(3, 2))
        before = self.model.predict(X)
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(Path(folder) / "m")
            self.model = manifoldgp.load(Path(folder) / "m")
        self._same(before, X)

    @precondition(lambda self: self.fitted)
    @rule()
    def pickled(self) -> None:
        X = self.rng.normal(size=(3, 2))
        before = self.model.predict(X)
        self.model = pickle.loads(pickle.dumps(self.model))
        self._same(before, X)

    @rule()
    def cloned(self) -> None:
        self.model, self.fitted = clone(self.model), False

    @rule(parameters=st.sampled_from(_PARAMETERS))
    def set_params(self, parameters: dict[str, Any]) -> None:
        self.model.set_params(**parameters)

    def _same(self, before: np.ndarray, X: np.ndarray) -> None:
        if not np.array_equal(before, self.model.predict(X)):
            raise ForbiddenError("other predictions than before")

    def _answers(self) -> bool:
        try:
            check_is_fitted(self.model)
        except ALLOWED:
            return False
        self.predict()
        return True


def calls_in_any_order(rng: np.random.Generator) -> str:
    """Twenty sequences of up to fifteen calls; Hypothesis shortens those that fail."""
    settings = hypothesis.settings(
        max_examples=20, stateful_step_count=15, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    machine = hypothesis.seed(int(rng.integers(2**31)))(type("Calls", (Calls,), {}))
    run_state_machine_as_test(machine, settings=settings)
    return "answered"


AREAS: dict[str, Case] = {"call-sequences": calls_in_any_order}
