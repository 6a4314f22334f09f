"""What an experiment is made of: data, methods, the paper's numbers, and the task of one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manifoldgp.data import Dataset

METRICS = ("nlml", "train_rmse", "nlpp", "test_rmse")
"""The columns of the paper's tables: NLML a training point, RMSE on the training set, NLPP a test point (eq. 17), RMSE on the test set."""


@dataclass(frozen=True)
class Config:
    """Everything that one result depends on: one method on one draw of the data.

    seed: of the data and of the starts. restarts, max_iter: of the optimiser.
    recording: a CSV of a walk, and its SHA-256, where the data are a recording; a moved file is still the same recording.
    """

    experiment: str
    method: str
    seed: int
    restarts: int
    max_iter: int = 500
    recording: str | None = None
    recording_sha256: str | None = None
    version: str = ""


@dataclass(frozen=True)
class Result:
    """What one process found. scores: METRICS (nlml is None for an average, which has none), "coverage" of 95 % intervals and others.

    seconds: time to fit. estimator: its settings in words. picture: plain lists by name, what the figures need.
    """

    config: Config
    scores: dict[str, float | None]
    seconds: float
    estimator: str
    picture: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """A row of a table. build: the unfitted estimator for a Config. average: a mixture of models, ours rather than the paper's.

    expected_seconds: rough time of one fit, for the order of the work, the time left, and what a quick run leaves out.
    cites: whose method it is, where the paper cites it and does not tabulate it.
    """

    key: str
    label: str
    build: Callable[[Config], Any]
    expected_seconds: float = 1.0
    average: bool = False
    cites: str = ""


@dataclass(frozen=True)
class PaperRow:
    """A method's row in a table of the paper, as printed; ``nlpp_factor`` turns the printed NLPP into a mean over test points."""

    nlml: float
    train_rmse: float
    nlpp: float
    test_rmse: float
    nlpp_factor: float = 1.0

    def value(self, metric: str) -> float:
        """The value to compare ours with."""
        printed = getattr(self, metric)
        return printed * self.nlpp_factor if metric == "nlpp" else printed


@dataclass(frozen=True)
class Experiment:
    """One table of the paper.

    dataset: the data of a Config. methods: in the paper's order, then ours. paper: rows of its table by method key.
    picture: what figures need of a fitted model, as arrays by name. standardised: scores in units of the training targets' sd.
    ordered: rows are in order of time. restarts: in the full setting. note: how to read the table, in plain words. caution: what it cannot show.
    """

    key: str
    title: str
    table: str
    methods: tuple[Method, ...]
    paper: dict[str, PaperRow]
    dataset: Callable[[Config], Dataset]
    picture: Callable[[Any, Dataset, Method], dict[str, Any]]
    restarts: int
    note: str
    caution: str = ""
    standardised: bool = False
    ordered: bool = False

    def method(self, key: str) -> Method:
        """The method with this key."""
        return next(method for method in self.methods if method.key == key)


def plain(value: Any, digits: int = 6) -> Any:
    """Arrays as lists of numbers with this many significant digits, for JSON; dictionaries and lists all the way down."""
    if isinstance(value, dict):
        return {name: plain(v, digits) for name, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), digits)
    if isinstance(value, (list, tuple)):
        return [plain(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
