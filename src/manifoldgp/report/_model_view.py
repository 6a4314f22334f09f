"""Everything that the page of a model shows, computed once and within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldgp import inspection
from manifoldgp.errors import InputError
from manifoldgp.report._chart_data import Spec, choice

MOST_ROWS = 1000
"""Rows that one picture shows."""

MOST_TARGETS = 6
MOST_SLICES = 12
_WORK = 5e10
"""Multiplications that one picture may take: some ten seconds on one core."""


@dataclass(frozen=True)
class TargetView:
    """One target: its name, training rows, strength of the inputs (D,), and predictions: of test rows if there are any, else leave-one-out."""

    output: int
    name: str
    rows: inspection.Rows
    strength: np.ndarray
    left_out: inspection.Predictions
    test: inspection.Predictions | None
    calibration: inspection.Calibration

    @property
    def shown(self) -> inspection.Predictions:
        """The predictions to judge the model by."""
        return self.left_out if self.test is None else self.test


@dataclass(frozen=True)
class ModelView:
    """A fitted model with the names of its inputs, its targets, and how many rows predictions of it can be asked for at once."""

    model: Any
    inputs: list[str]
    targets: list[TargetView]
    X: np.ndarray
    affordable: int

    @property
    def trained_rows(self) -> int:
        """Rows that the model was trained on; a sparse model keeps only some of them, X."""
        return self.model.ensembles_[0].blocks[0].rows

    @property
    def sampled(self) -> bool:
        """Whether X is a sample of the training rows."""
        return len(self.X) < self.trained_rows

    @property
    def detail(self) -> float:
        """1, or less for models that are slow to ask: the share of points that curves and maps can have."""
        return float(np.clip(self.affordable / 5000, 0.25, 1.0)) ** 0.5

    @property
    def target_choice(self) -> list[Spec]:
        """The choice of a target, where there are several."""
        return [choice("Target", [t.name for t in self.targets])] if len(self.targets) > 1 else []

    @property
    def by_strength(self) -> list[int]:
        """Inputs, the one that matters most to any target first."""
        strongest = np.max([t.strength / max(float(t.strength.max()), 1e-300) for t in self.targets], axis=0)
        return [int(d) for d in np.argsort(-strongest, kind="stable")]


def view_of(model: Any, columns: Sequence[str] | None, X: Any, y: Any) -> ModelView:
    """Look at a fitted model; columns: names of the inputs, or of the inputs and then the targets. X, y: test rows, or neither."""
    inputs, targets = _names(model, columns)
    ensemble = model.ensembles_[0]
    members = sum(block.members for block in ensemble.blocks)
    N = len(ensemble.blocks[0].alpha[0])
    affordable = int(np.clip(_WORK / (float(N) ** 2 * members), 300, 5000))
    views = []
    for o in range(min(model.n_outputs_, MOST_TARGETS)):
        left_out = inspection.predictions(model, output=o, most=min(affordable, MOST_ROWS))
        test = None if X is None and y is None else inspection.predictions(model, X, y, output=o, most=affordable)
        found = inspection.calibration(model, X, y, output=o, known=left_out if test is None else test)
        strength = inspection.sensitivities(model, output=o, most=min(affordable // 4, 400))
        views.append(TargetView(o, targets[o], inspection.training_rows(model, o, MOST_ROWS), strength, left_out, test, found))
    return ModelView(model, inputs, views, inspection.chosen_inputs(model, None), affordable)


def _names(model: Any, columns: Sequence[str] | None) -> tuple[list[str], list[str]]:
    D, outputs = model.n_features_in_, model.n_outputs_
    known = [*inspection.input_names(model), *(inspection.target_name(model, o) for o in range(outputs))]
    if columns is not None:
        if isinstance(columns, str) or len(columns) not in (D, D + outputs):
            raise InputError(
                f"columns must name the {D} inputs, or the {D} inputs and then the {outputs} targets; got {columns!r}."
            )
        known[: len(columns)] = [str(name) for name in columns]
    return known[:D], known[D:]
