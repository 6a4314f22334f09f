"""What the page of a model looks at, and the JSON that its charts are drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp import inspection
from manifoldgp._system.plain_text import counted, one_line
from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.errors import InputError
from manifoldgp.inspection.table_columns import TableColumn, column_strengths, table_columns

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

Spec = dict[str, Any]


BLUE, INK, GREY, VERMILLION, SKY = "var(--blue)", "var(--ink)", "var(--grey)", "var(--vermillion)", "var(--sky)"
SERIES = (
    "var(--blue)",
    "var(--vermillion)",
    "var(--green)",
    "var(--purple)",
    "var(--orange)",
    "var(--sky)",
    "var(--brown)",
    "var(--grey)",
)
"""Colours by their names in the style sheet, which knows lighter ones for a dark page."""

POINT = "Point at the picture to read values."
BAR = "Point at a bar to read its value."


def numbers(values: ArrayLike, digits: int = 5) -> list[float | None]:
    """An array (n,) as numbers with this many significant digits; None where it is not finite.

    >>> numbers(np.array([1.23456789, np.inf]))
    [1.2346, None]
    """
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float).ravel().tolist()]


def padded(*values: ArrayLike, share: float = 0.05) -> list[float]:
    """A range that holds all finite values, and a little more."""
    every = np.concatenate([np.asarray(v, dtype=float).ravel() for v in values])
    every = every[np.isfinite(every)]
    if not len(every):
        return [0.0, 1.0]
    low, high = float(every.min()), float(every.max())
    margin = share * (high - low) if high > low else 0.5 * max(abs(low), 1.0)
    return [low - margin, high + margin]


def axis(label: str, limits: Sequence[float], quantity: str | None = None, **more: object) -> Spec:
    """quantity: the name in a label of several words, which is all that is shortened where they do not fit."""
    named = {} if quantity is None else {"quantity": quantity}
    return {"label": label, "name": label, "range": [float(v) for v in limits], **named, **more}


def choice(label: str, options: Iterable[str], *, buttons: bool = False) -> Spec:
    """One of several options, the first one chosen."""
    return {"label": label, "options": list(options), "shown": True, "buttons": buttons}


def input_axis(column: TableColumn, X: np.ndarray, limits: Sequence[float]) -> Spec:
    """An axis along which an input runs, with dates where it holds dates; X (n, D): rows that are shown."""
    clock = column.clock(X)
    return axis(column.axis_label, limits) if clock is None else axis(column.axis_label, limits, date=clock)


def word_axis(label: str, words: Sequence[str]) -> Spec:
    """An axis with words at 0, 1, and so on."""
    return axis(label, (-0.5, len(words) - 0.5), fixed=True, ticks=[[k, word] for k, word in enumerate(words)])


def chip(key: str, color: str, label: str | None = None) -> Spec:
    """A legend entry that hides the layers with its key."""
    return {"key": key, "label": label or key, "color": color}


def chart(key: str, specs: Sequence[Spec], choices: Sequence[Spec] = (), legend: Sequence[Spec] = ()) -> Spec:
    """specs: one for each combination of choices, the last choice fastest."""
    return {"id": key, "choices": list(choices), "legend": list(legend), "specs": list(specs)}


def rows_of_bars(start: np.ndarray, length: np.ndarray) -> Spec:
    """Horizontal bars from top to bottom, the k-th around −k."""
    k = np.arange(len(length))
    return {"kind": "bars", "along": "y", "x0": numbers(start), "x1": numbers(start + length), "y0": numbers(-k - 0.32), "y1": numbers(-k + 0.32)}  # fmt: skip


MOST_ROWS = 1000
"""Rows that one picture shows."""

MOST_TARGETS = 6
MOST_SLICES = MOST_WORDS = 12
"""Inputs that can be chosen, and categories that have a place beside each other."""

_WORK = 5e10
"""Multiplications that one picture may take: some ten seconds on one core."""


@dataclass(frozen=True)
class TargetView:
    """One target: its name, training rows, strength of the table's inputs (C,), and predictions: of test rows if there are any, else leave-one-out.

    held_out: what the rows say that a stack held out.
    """

    output: int
    name: str
    rows: inspection.Rows
    strength: np.ndarray
    left_out: inspection.Predictions
    test: inspection.Predictions | None
    calibration: inspection.Calibration
    held_out: HeldOutReport | None

    @property
    def shown(self) -> inspection.Predictions:
        """The predictions to judge the model by."""
        return self.left_out if self.test is None else self.test


@dataclass(frozen=True)
class ModelView:
    """A fitted model with the names of its inputs as the page shows them, on one line each, its targets, and how many rows predictions of it can be asked for at once.

    columns: the inputs as the table has them. test_numbers: how the test rows are counted in their table. of_the_fit: how many of them the model was fitted to.
    """

    model: ManifoldGPRegressor
    inputs: list[str]
    columns: list[TableColumn]
    targets: list[TargetView]
    X: np.ndarray
    affordable: int
    test_numbers: np.ndarray | None = None
    of_the_fit: int = 0

    def levels_of(self, target: TargetView, found: inspection.Predictions, some: np.ndarray) -> np.ndarray | None:
        """Which categories some of the rows that are looked at have in columns with many of them, as `inspection.row_levels` says it of training rows; else None."""
        return inspection.row_levels(self.model, target.output, found.place[some]) if found.left_out else None

    def numbers_of(self, found: inspection.Predictions) -> np.ndarray:
        """What rows that are looked at are called: their numbers in the table that they came from, counted from 1."""
        encoding: TableEncoding | None = getattr(self.model, "table_encoding_", None)
        if not found.left_out:
            return found.place + 1 if self.test_numbers is None else self.test_numbers[found.place]
        return found.place + 1 if encoding is None else encoding.row_numbers(found.place)

    @property
    def trained_rows(self) -> int:
        """Rows that the model was trained on; a sparse model keeps only some of them, X."""
        return self.model.ensembles_[0].blocks[0].rows

    @property
    def sampled(self) -> bool:
        """Whether X is a sample of the training rows."""
        return len(self.X) < self.trained_rows

    @property
    def encoding(self) -> TableEncoding | None:
        """How tables become inputs, if the page shows the columns by the names of the model's own table."""
        return _encoding(self.model, self.inputs)

    @property
    def detail(self) -> float:
        """1, or less for models that are slow to ask: the share of points that curves and maps can have."""
        return float(np.clip(self.affordable / 5000, 0.25, 1.0)) ** 0.5

    @property
    def target_choice(self) -> list[Spec]:
        """The choice of a target, where there are several."""
        return [choice("Target", [t.name for t in self.targets])] if len(self.targets) > 1 else []

    @property
    def strongest(self) -> list[TableColumn]:
        """The inputs, the one that matters most to any target first."""
        strength = np.max([t.strength / max(float(t.strength.max()), 1e-300) for t in self.targets], axis=0)
        return [self.columns[c] for c in np.argsort(-strength, kind="stable")]

    @property
    def central_row(self) -> int:
        """The training row nearest to the middle of all, one without gaps if there is one: medians of all inputs together may lie where nothing was ever seen."""
        spread = self.X.std(0)
        varying = spread > 1e-12 * np.abs(self.X).max(0)
        scaled = self.X[:, varying] / spread[varying]
        gaps = np.any([column.is_missing(self.X) for column in self.columns], axis=0)
        distances = ((scaled - np.median(scaled, 0)) ** 2).sum(1)
        return int(np.where(gaps & ~gaps.all(), np.inf, distances).argmin())


def view_of(
    model: ManifoldGPRegressor,
    columns: Sequence[str] | None,
    X: Table | None,
    y: ArrayLike | None,
    test_numbers: np.ndarray | None = None,
    groups: ArrayLike | None = None,
) -> ModelView:
    """Look at a fitted model; columns: names of the inputs, or of the inputs and then the targets. X, y: test rows, or neither; test_numbers: of them in their table; groups: labels of
    those that belong together."""
    inputs, targets = _names(model, columns)
    shown, X_known = table_columns(inputs, _encoding(model, inputs)), inspection.chosen_inputs(model, None)
    ensemble = model.ensembles_[0]
    affordable = int(np.clip(1000 * _WORK / ensemble.operations(1000), 300, 5000))
    views = []
    for o in range(min(model.n_outputs_, MOST_TARGETS)):
        left_out = inspection.predictions(model, output=o, most=min(affordable, MOST_ROWS))
        test = None if X is None and y is None else inspection.predictions(model, X, y, output=o, most=affordable)
        found = inspection.calibration(model, X, y, output=o, groups=groups, known=left_out if test is None else test)
        strength = column_strengths(model, shown, X_known, output=o, most=min(affordable // 4, 400))
        views.append(
            TargetView(
                o,
                targets[o],
                inspection.training_rows(model, o, MOST_ROWS),
                strength,
                left_out,
                test,
                found,
                inspection.held_out(model, o),
            )
        )
    of_the_fit = 0 if X is None or y is None else inspection.rows_of_the_fit(model, X, y, groups)
    return ModelView(model, inputs, shown, views, X_known, affordable, test_numbers, of_the_fit)


def _encoding(model: ManifoldGPRegressor, inputs: list[str]) -> TableEncoding | None:
    """How tables become inputs, if these are called as the model's own table has them."""
    encoding = getattr(model, "table_encoding_", None)
    if encoding is None or [one_line(encoding.label(name)) for name in encoding.names] != inputs:
        return None
    return encoding


def _names(model: ManifoldGPRegressor, columns: Sequence[str] | None) -> tuple[list[str], list[str]]:
    D, outputs = model.n_features_in_, model.n_outputs_
    known = [*inspection.input_labels(model), *(inspection.target_label(model, o) for o in range(outputs))]
    if columns is not None:
        if isinstance(columns, str) or len(columns) not in (D, D + outputs):
            raise InputError(
                f"columns must name the {counted(D, 'input')}, or the {counted(D, 'input')} and then the {counted(outputs, 'target')}; got {columns!r}."
            )
        known[: len(columns)] = [str(name) for name in columns]
    shown = [one_line(name) for name in known]
    return shown[:D], shown[D:]
