"""input_std as users hand it in: the standard deviation of the error of each input, for all rows or row by row, checked and as a table (N, D)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from manifoldgp._system.real_numbers import as_meant
from manifoldgp.errors import InputError

if TYPE_CHECKING:
    from manifoldgp.data.encoding import TableEncoding
    from manifoldgp.data.inputs import Fitted
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

InputStd = ArrayLike | Mapping[str, ArrayLike]
"""A number for all columns, one for each column, an (N, D) table, or numbers or (N,) arrays by column name."""

_LARGEST = 1e100
"""Squares of numbers beyond this, divided by a scale, could leave the range of floating-point numbers."""


def of_rows(input_std: InputStd, kept: np.ndarray) -> Any:
    """input_std of the rows that are kept; what holds for all rows stays as it is."""
    if isinstance(input_std, Mapping):
        return {name: _of_kept(value, kept, 1) for name, value in input_std.items()}
    return _of_kept(input_std, kept, 2)


def _of_kept(values: ArrayLike, kept: np.ndarray, by_row: int) -> ArrayLike:
    return np.asarray(values)[kept] if np.ndim(values) == by_row and len(np.asarray(values)) == len(kept) else values


def input_std_table(estimator: ManifoldGPRegressor, input_std: InputStd, rows: int) -> np.ndarray:
    """Standard deviations (N, D) in the units of X; zero for inputs that are exact, such as the 0/1 columns of text."""
    places = _places(estimator)
    table = np.zeros((rows, estimator.n_features_in_))
    if isinstance(input_std, Mapping):
        for name, value in input_std.items():
            table[:, _place(places, str(name))] = _numbers(value, [(), (rows,)], f"input_std[{name!r}]")
        return table
    unnumbered = [name for name, place in places.items() if place is None]
    if unnumbered:
        raise InputError(
            f"Some columns are not numbers ({', '.join(unnumbered)}), and have no input_std. Say by name which inputs are noisy: "
            f"input_std={{{_example(places)!r}: 0.1}}."
        )
    C = len(places)
    table[:, [place for place in places.values() if place is not None]] = _numbers(input_std, [(), (C,), (rows, C)], "input_std")
    return table


def noisy_columns(estimator: ManifoldGPRegressor, X: np.ndarray) -> np.ndarray:
    """Which of the D inputs X (N, D) can have an error that is to be learned: numbers with more than two values."""
    numbers = {place for place in _places(estimator).values() if place is not None}
    return np.array([d in numbers and len(np.unique(X[:, d])) > 2 for d in range(X.shape[1])])


def input_names(estimator: Fitted) -> list[str]:
    """Names of the D inputs, x0, x1, ... where X had none."""
    return [str(name) for name in getattr(estimator, "feature_names_in_", [f"x{d}" for d in range(estimator.n_features_in_)])]


def _places(estimator: ManifoldGPRegressor) -> dict[str, int | None]:
    """The columns of X, and where each is among the D inputs; None for those that are not numbers."""
    encoding: TableEncoding | None = getattr(estimator, "table_encoding_", None)
    if encoding is None:
        return {name: d for d, name in enumerate(input_names(estimator))}
    places, first = {}, 0
    for column in encoding.columns:
        places[column.name] = first if column.kind == "number" else None
        first += len(column.names)
    return places


def _place(places: dict[str, int | None], name: str) -> int:
    if name not in places:
        raise InputError(f"input_std names {name!r}, which is no input. There are: {', '.join(places)}.")
    place = places[name]
    if place is None:
        raise InputError(f"input_std names {name!r}, which is no column of numbers: its values have no error in this sense.")
    return place


def _example(places: dict[str, int | None]) -> str:
    return next((name for name, place in places.items() if place is not None), "a column of numbers")


def _numbers(given: ArrayLike, shapes: list[tuple[int, ...]], name: str) -> np.ndarray:
    try:
        values = np.asarray(as_meant(given, name), dtype=np.float64)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers: standard deviations in the units of X ({error}).") from error
    if values.shape not in shapes:
        allowed = " or ".join(str(shape) if shape else "one number" for shape in shapes)
        raise InputError(
            f"{name} must be {allowed}, standard deviations in the units of X; got shape {values.shape}. By name: "
            "input_std={'column': 0.1}."
        )
    if not ((values >= 0) & (values <= _LARGEST)).all():
        raise InputError(f"{name} must be finite and not negative: standard deviations in the units of X.")
    return values
