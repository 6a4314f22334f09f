"""Which rows and columns of a fitted model are looked at, and what they are called."""

from __future__ import annotations

import operator
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldgp._system.plain_text import unit_of
from manifoldgp.data import inputs
from manifoldgp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.averaging.stacking import HeldOutReport
    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


FORGOTTEN = -2
"""In place of a category's number: the model does not know it."""


def require_fitted(model: ManifoldGPRegressor) -> None:
    """Refuse what is not a fitted estimator of this package."""
    check_is_fitted(model)
    if not hasattr(model, "ensembles_"):
        raise InputError(
            f"Expected a fitted ManifoldGPRegressor or GPRegressor; got a {type(model).__name__}. Of a pipeline give the last step, "
            "pipeline[-1], and transformed inputs, X=pipeline[:-1].transform(X)."
        )


def input_names(model: ManifoldGPRegressor) -> list[str]:
    """The columns that the model was fitted on, by name; x0, x1, ... where it saw no names, x for a single one."""
    require_fitted(model)
    named = getattr(model, "feature_names_in_", None)
    if named is not None:
        return [str(name) for name in named]
    D = model.n_features_in_
    return ["x"] if D == 1 else [f"x{d}" for d in range(D)]


def target_name(model: ManifoldGPRegressor, output: int) -> str:
    """The target's name in the table that the model was fitted on; without a name y, or y0, y1, ... of several targets."""
    return inputs.target_names(model)[output]


def input_labels(model: ManifoldGPRegressor) -> list[str]:
    """The names of the inputs as pictures show them: with the unit that stood below a name in the table."""
    encoding = getattr(model, "table_encoding_", None)
    names = input_names(model)
    return names if encoding is None else [encoding.label(name) for name in names]


def target_label(model: ManifoldGPRegressor, output: int) -> str:
    """The name of a target as pictures show it, with its unit."""
    encoding = getattr(model, "table_encoding_", None)
    name = target_name(model, output)
    return name if encoding is None else encoding.label(name)


def target_unit(model: ManifoldGPRegressor, output: int) -> str:
    """The unit of a target, to be put behind a number."""
    encoding = getattr(model, "table_encoding_", None)
    name = target_name(model, output)
    return unit_of(name) if encoding is None else encoding.unit(name)


def input_index(model: ManifoldGPRegressor, column: str | int) -> int:
    """The number of an input that is given by its name or its number."""
    names = input_names(model)
    if isinstance(column, str):
        if column in names:
            return names.index(column)
    else:
        with suppress(TypeError):
            if -len(names) <= operator.index(column) < len(names):
                return operator.index(column) % len(names)
    raise InputError(f"There is no input {column!r}. Choose a number below {len(names)}, or a name: {', '.join(names)}.")


def output_index(model: ManifoldGPRegressor, output: int) -> int:
    """The number of a target, checked."""
    require_fitted(model)
    with suppress(TypeError):
        if 0 <= operator.index(output) < model.n_outputs_:
            return operator.index(output)
    raise InputError(f"output must be the number of a target, 0 to {model.n_outputs_ - 1}; got {output!r}.")


def held_out(model: ManifoldGPRegressor, output: int = 0) -> HeldOutReport | None:
    """What the rows say that a stack held out; None where there are none."""
    return model.held_out_[output_index(model, output)]


@dataclass(frozen=True)
class Rows:
    """Rows that are looked at, in the user's units.

    Attributes
    ----------
    X, y : (n, D), (n,)
        Inputs, and the target of one output. Where the user gave rows with gaps, X has what the model fills in on average.
    asked : (n, D)
        X with NaN in these gaps.
    place : (n,)
        Which of the ``total`` rows they are.
    total
        How many rows they were drawn from.
    given
        Whether the user gave them; else they are training rows.
    """

    X: np.ndarray
    y: np.ndarray
    asked: np.ndarray
    place: np.ndarray
    total: int
    given: bool


def training_rows(model: ManifoldGPRegressor, output: int = 0, most: int | None = None) -> Rows:
    """The rows that a fitted model keeps; at most ``most`` of them, drawn evenly at random and kept in order."""
    output = output_index(model, output)
    try:
        data = model.ensembles_[output].blocks[0].data
        X, y = data.X.detach().cpu().numpy(), data.y.detach().cpu().numpy()
    except AttributeError as error:
        raise InputError(f"This {type(model).__name__} does not keep its training rows. Give rows: X=..., y=....") from error
    place = thinned(len(y), most)
    X, Y = model.x_scaler_.as_given(X[place]), np.zeros((len(place), model.n_outputs_))
    Y[:, output] = y[place]
    return Rows(X, model.y_scaler_.as_given(Y)[:, output], X, place, len(y), False)


def row_levels(model: ManifoldGPRegressor, output: int, place: np.ndarray) -> np.ndarray | None:
    """Which categories (n, C) training rows have in columns with many of them; None: there are no such columns.

    -1 where one was missing or the row was added later: the nearest one by its effect is it. FORGOTTEN: in files of earlier versions, which do not say it, and no effect does.
    place (n,): of the rows that the model keeps. What they were trained with does not tell, as their own target had no say in it.
    """
    encoding = getattr(model, "table_encoding_", None)
    if encoding is None or not encoding.level_columns:
        return None
    known: list[np.ndarray] | None = getattr(model, "_row_levels", None)
    if known is None:
        return np.full((len(place), len(encoding.level_columns)), FORGOTTEN)
    levels = known[output]
    found = np.full((len(place), levels.shape[1]), -1)
    found[place < len(levels)] = levels[place[place < len(levels)]]
    return found


def chosen_rows(
    model: ManifoldGPRegressor, X: Table | None, y: ArrayLike | None, output: int = 0, most: int | None = None
) -> Rows:
    """The user's rows X (n, D), y (n,) or (n, O), or the training rows where neither is given."""
    output = output_index(model, output)
    if X is None and y is None:
        return training_rows(model, output, most)
    if X is None or y is None:
        raise InputError("X and y belong together: give both, or neither to see the training rows.")
    asked = asked_inputs(model, X)
    y = inputs.target_table(model, y, len(asked))[:, output]
    place = thinned(len(y), most)
    return Rows(_filled_in(model, asked[place]), y[place], asked[place], place, len(y), True)


def chosen_inputs(model: ManifoldGPRegressor, X: Table | None) -> np.ndarray:
    """The user's inputs (n, D), or those of the training rows."""
    return training_rows(model).X if X is None else _filled_in(model, asked_inputs(model, X))


def asked_inputs(model: ManifoldGPRegressor, X: Table, left_out: bool = False) -> np.ndarray:
    """X (n, D) as numbers, NaN in gaps that the model can fill in. An array has the model's columns in the model's order; that it carries no names needs no warning.

    left_out: NaN also in rows that the model leaves out (missing="drop"), which are refused else.
    """
    from manifoldgp.estimators.tables import query_rows  # PyTorch, which drawing alone does not need
    from manifoldgp.estimators.units import fills_in

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names", category=UserWarning)
        query = query_rows(model, X)
        return inputs.query_table(model, query.X, fills_in(model) or (left_out and query.left_out is not None))


def _filled_in(model: ManifoldGPRegressor, X: np.ndarray) -> np.ndarray:
    """X (n, D) with the mean of rows that are alike in its gaps: where to draw a row, not how well it is known."""
    gaps = np.isnan(X).any(1)
    if not gaps.any():
        return X
    X = X.copy()
    X[gaps] = model.table_encoding_.filled_in(X[gaps])[0][:, -1]
    return X


def thinned(rows: int, most: int | None) -> np.ndarray:
    """Indices of at most ``most`` rows, in order; always the same ones.

    >>> thinned(3, 5), len(thinned(1000, 10))
    (array([0, 1, 2]), 10)
    """
    if most is None or rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
