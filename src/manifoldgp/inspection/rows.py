"""The rows that pictures show: those that the model was trained on, or rows that the user gives, in original units."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldgp import inputs
from manifoldgp.errors import InputError
from manifoldgp.inspection.names import output_index


@dataclass(frozen=True)
class Rows:
    """X (n, D) and the target y (n,) of one output. place (n,): which of the ``total`` rows they are. given: by the user, not for training."""

    X: np.ndarray
    y: np.ndarray
    place: np.ndarray
    total: int
    given: bool


def training_rows(model: Any, output: int = 0, most: int | None = None) -> Rows:
    """The rows that a fitted model keeps; at most ``most`` of them, drawn evenly at random and kept in order."""
    output = output_index(model, output)
    try:
        data = model.ensembles_[output].blocks[0].data
        X, y = data.X.detach().cpu().numpy(), data.y.detach().cpu().numpy()
    except AttributeError as error:
        raise InputError(f"This {type(model).__name__} does not keep its training rows. Give rows: X=..., y=....") from error
    place = thinned(len(y), most)
    scale, offset = model.y_scaler_.scale[output], model.y_scaler_.offset[output]
    return Rows(X[place] * model.x_scaler_.scale + model.x_scaler_.offset, y[place] * scale + offset, place, len(y), False)


def chosen_rows(model: Any, X: Any, y: Any, output: int = 0, most: int | None = None) -> Rows:
    """The user's rows X (n, D), y (n,) or (n, O), or the training rows where neither is given."""
    output = output_index(model, output)
    if X is None and y is None:
        return training_rows(model, output, most)
    if X is None or y is None:
        raise InputError("X and y belong together: give both, or neither to see the training rows.")
    X = _checked(model, X)
    y = inputs.target_table(model, y, len(X))[:, output]
    place = thinned(len(y), most)
    return Rows(X[place], y[place], place, len(y), True)


def chosen_inputs(model: Any, X: Any) -> np.ndarray:
    """The user's inputs (n, D), or those of the training rows."""
    return training_rows(model).X if X is None else _checked(model, X)


def _checked(model: Any, X: Any) -> np.ndarray:
    """X (n, D) as numbers. An array has the model's columns in the model's order; that it carries no names needs no warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names", category=UserWarning)
        return inputs.query_table(model, X)


def thinned(rows: int, most: int | None) -> np.ndarray:
    """Indices of at most ``most`` rows, in order; always the same ones.

    >>> thinned(3, 5), len(thinned(1000, 10))
    (array([0, 1, 2]), 10)
    """
    if most is None or rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
