"""What users hand in, checked and turned into float64 arrays; every mistake gets one clear error."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from manifoldgp._system.memory import available_bytes, size_in_words
from manifoldgp._system.plain_text import counted, verb
from manifoldgp._system.real_numbers import as_meant
from manifoldgp.data.codes import are_codes
from manifoldgp.data.dates import are_months
from manifoldgp.data.frames import without_others
from manifoldgp.data.scaling import Standardizer
from manifoldgp.errors import InputError, warn

if TYPE_CHECKING:
    from pandas import Series

Table = ArrayLike
"""Rows as users hand them in: whatever NumPy reads as a table of numbers. Arrays, lists of lists, tensors, frames of pandas or polars, Arrow tables."""

RandomState = int | np.random.RandomState | None
"""What scikit-learn takes as a source of random numbers."""

_EXTREME = 1e150
"""Squares of numbers beyond this, or below its inverse, leave the range of floating-point numbers."""

_FARTHEST = 1e100
"""Standardised inputs to predict at; beyond, even divided by a length-scale, their squares overflow."""


class Fitted(Protocol):
    """What the checks of new rows need to know of a fitted estimator."""

    x_scaler_: Standardizer
    n_features_in_: int
    n_outputs_: int


@dataclass(frozen=True)
class TrainingTable:
    """Checked training data: X (N, D), Y (N, O), known noise variances (N, O) or None, kept rows (N,) of the ``given`` ones, y one-dimensional or not.

    without_target: inputs (M, D) of the rows that were not kept.
    """

    X: np.ndarray
    Y: np.ndarray
    known_noise: np.ndarray | None
    kept: np.ndarray
    given: int
    flat: bool
    without_target: np.ndarray


def training_table(
    estimator: BaseEstimator, X: Table, y: ArrayLike | None, noise_std: ArrayLike | None = None, uses_unlabelled: bool = False
) -> TrainingTable:
    """Check X (N, D), y (N,) or (N, O) and noise_std (scalar, (N,) or (N, O)); rows whose y is NaN are set aside, with a warning that counts them.

    uses_unlabelled: whether features learn from these all the same.
    """
    if y is None:
        raise InputError(f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None.")
    A = _numbers(estimator, X, ensure_min_samples=2)
    Y, flat = targets(y)
    check_consistent_length(A, Y)
    kept = np.flatnonzero(~np.isnan(Y).any(1))
    if len(kept) < 2:
        raise InputError(f"At least 2 rows with a target are needed; there {'is' if len(kept) == 1 else 'are'} {len(kept)}.")
    noise = None if noise_std is None else _variances(_noise_table(noise_std, Y.shape)[kept])
    _refuse_extreme_units(A[kept], "X")
    _refuse_extreme_units(Y[kept], "y")
    if len(kept) < len(Y):
        out = len(Y) - len(kept)
        informs, is_out = verb(out, "informs", "inform"), verb(out, "is", "are")
        fate = f"only {informs} the features" if uses_unlabelled else f"{is_out} left out of the fit"
        warn(f"{out} of {counted(len(Y), 'row')} {verb(out, 'has', 'have')} a missing target (NaN) and {fate}.")
    return TrainingTable(A[kept], Y[kept], noise, kept, len(Y), flat, np.delete(A, kept, 0))


def more_inputs(estimator: BaseEstimator, X: Table, allow_missing: bool) -> np.ndarray:
    """Check further inputs (M, D) with the columns that the estimator has seen already; NaN only where that is allowed."""
    A = _known_numbers(estimator, X, allow_missing)
    _refuse_extreme_units(np.nan_to_num(A), "unlabelled")
    return A


def group_labels(groups: ArrayLike | None, given: int, kept: np.ndarray | slice = slice(None)) -> np.ndarray | None:
    """Group labels of the rows that were kept among the given ones, or None."""
    if groups is None:
        return None
    if np.ma.is_masked(groups):
        raise InputError("groups has masked labels. Give every row a label.")
    labels = np.asarray(groups)
    if (labels != labels).any() or (labels.dtype.kind == "O" and any(label is None for label in labels.flat)):  # NaN and NaT
        raise InputError("groups has missing labels (None, NaN or NaT). Give every row a label.")
    if labels.shape != (given,):
        raise InputError(f"groups must hold one label a row, shape ({given},); got {labels.shape}.")
    return labels[kept]


def query_table(estimator: Fitted, X: Table, allow_missing: bool = False) -> np.ndarray:
    """Check inputs to predict at, (n, D), against what the estimator was fitted on; NaN only where that is allowed."""
    A = _known_numbers(estimator, X, allow_missing)
    with np.errstate(over="ignore"):
        largest = float(np.abs(np.nan_to_num(estimator.x_scaler_.apply(A), copy=False)).max())
    if largest > _FARTHEST:
        raise InputError(f"X lies up to {largest:.1e} standard deviations from the training data: arithmetic overflows there.")
    return A


def _known_numbers(estimator: object, X: Table, allow_missing: bool) -> np.ndarray:
    """X (n, D) with the columns that the estimator has seen already; a frame may have others beside them. NaN only where that is allowed."""
    seen = without_others(X, list(getattr(estimator, "feature_names_in_", ())))
    return _numbers(estimator, seen, reset=False, ensure_all_finite="allow-nan" if allow_missing else True)


def _numbers(estimator: object, X: Table, **how: bool | int | str) -> np.ndarray:
    """X (n, D) as scikit-learn checks it, with the columns that the estimator knows or will know."""
    refuse_unusable_frame(X, getattr(estimator, "feature_names_in_", None) if how.get("reset") is False else None)
    given: Any = as_meant(X, "X")  # scikit-learn's annotations are narrower than what it takes
    with _text_explained("X"):
        checked: Any = validate_data(estimator, given, dtype=np.float64, **how)  # pyright: ignore[reportArgumentType]
    return checked


def numbers_or_missing(X: Table) -> np.ndarray:
    """An array X (n, D) of numbers, NaN where one is missing."""
    given: Any = as_meant(X, "X", mask_is_missing=True)
    how: Any = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "input_name": "X"}
    with _text_explained("X"):
        checked: Any = check_array(given, **how)
    return checked


def target_table(estimator: Fitted, y: ArrayLike, rows: int) -> np.ndarray:
    """Targets (n, O) to score or to condition on, one row for each of the ``rows`` inputs, none of them missing."""
    Y, _ = targets(y)
    outputs = estimator.n_outputs_
    if Y.shape != (rows, outputs):
        raise InputError(f"Expected targets of shape ({rows}, {outputs}) for these inputs; got {Y.shape}.")
    missing = int(np.isnan(Y).any(1).sum())
    if missing:
        raise InputError(
            f"{missing} of {counted(rows, 'target')} {verb(missing, 'is', 'are')} missing (NaN). Leave these rows out."
        )
    return Y


def target_names(estimator: Fitted) -> list[str]:
    """What the targets of a fitted estimator are called in the table that it was fitted on; y, or y0, y1, ... of several, where they had no names."""
    encoding = getattr(estimator, "table_encoding_", None)
    if encoding is not None:
        return list(encoding.targets)
    return list(getattr(estimator, "target_names_", numbered_targets(estimator.n_outputs_)))


def group_column(estimator: Fitted) -> str | None:
    """The name of the column whose labels kept rows together at the fit; None where nothing did, or it had no name."""
    encoding = getattr(estimator, "table_encoding_", None)
    return getattr(estimator, "group_column_", None) if encoding is None else encoding.group


def numbered_targets(count: int) -> list[str]:
    """What so many targets without names are called.

    >>> numbered_targets(1), numbered_targets(2)
    (['y'], ['y0', 'y1'])
    """
    return ["y"] if count == 1 else [f"y{o}" for o in range(count)]


def targets(y: ArrayLike) -> tuple[np.ndarray, bool]:
    """y as (N, O), and whether it came as (N,)."""
    if isinstance(y, (str, Number)) or getattr(y, "shape", None) == ():
        raise InputError(f"y must have one entry for each row of X, shape (N,) or (N, outputs); got {y!r}.")
    y = as_meant(y, "y", mask_is_missing=True)
    with _text_explained("y"):
        # as Any: scikit-learn's annotations are narrower than what it takes
        allowed: Any = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        Y = check_array(y, **allowed, ensure_2d=False, allow_nd=True, input_name="y")
    if Y.ndim > 2:
        raise InputError(f"y must have shape (N,) or (N, outputs); got {Y.shape}.")
    return Y.reshape(len(Y), -1), Y.ndim == 1


@contextmanager
def _text_explained(name: str) -> Iterator[None]:
    """Says what to do about text, where NumPy only says that it cannot be converted."""
    try:
        yield
    except ValueError as error:
        if "setting an array element with a sequence" in str(error):
            raise InputError(f"{name} must hold one number in each place: {error}") from error
        if "contains NaN" in str(error):
            raise InputError(
                f"{str(error).splitlines()[0]} Values are missing. Fill them in, or fit with missing='impute' or missing='drop'."
            ) from error
        if "could not convert string to float" not in str(error):
            raise
        raise InputError(
            f"{name} must hold numbers, and it has text ({error}). Encode it as numbers first, or drop it."
        ) from error
    except TypeError as error:
        raise NotNumbersError(f"{name} must hold real numbers: {error}") from error


class NotNumbersError(InputError, TypeError):
    """Data hold objects that are no real numbers; a TypeError too, which scikit-learn's contract asks for."""


def _refuse_extreme_units(A: np.ndarray, name: str) -> None:
    largest = float(np.abs(A).max())
    if largest > _EXTREME:
        raise InputError(f"{name} has values up to {largest:.1e}; beyond {_EXTREME:g} arithmetic overflows. Change its units.")
    spread = np.ptp(A, axis=0)
    tiny = spread[(spread > 0) & (spread < 1 / _EXTREME)]
    if len(tiny):
        raise InputError(
            f"A column of {name} varies by {tiny[0]:.1e} only; below {1 / _EXTREME:g} arithmetic underflows. Change its units."
        )


def query_noise(noise_std: ArrayLike | None, rows: int, outputs: int) -> np.ndarray | None:
    """Known noise variances (n, O) of points to predict at, or None."""
    return None if noise_std is None else _variances(_noise_table(noise_std, (rows, outputs)))


def _noise_table(noise_std: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """Known noise standard deviations as (N, O)."""
    try:
        noise = np.asarray(as_meant(noise_std, "noise_std"), dtype=np.float64)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            f"noise_std must be numbers: the standard deviation of the noise, in the units of y ({error})."
        ) from error
    noise = noise[:, None] if noise.ndim == 1 else noise
    if noise.ndim and noise.shape not in (shape, (shape[0], 1)):
        raise InputError(f"noise_std must be one number, or shaped like y {shape}; got shape {np.shape(noise_std)}.")
    return np.broadcast_to(noise, shape)


def _variances(noise: np.ndarray) -> np.ndarray:
    if not ((noise >= 0) & (noise <= _EXTREME)).all():
        raise InputError(
            "noise_std must be finite and not negative: it is the standard deviation of the noise, in the units of y."
        )
    return noise**2


def refuse_unusable_frame(X: Any, seen: Collection[str] | None = None) -> None:
    """A lazy frame, column names that occur twice, and columns that are not numbers are refused, by name. seen: the columns of the fit; None: those of X."""
    text = [name for name, numbers in _columns_with_numbers(X).items() if not numbers and (seen is None or name in seen)]
    if text:
        raise InputError(
            f"These columns are not numbers, and were when the model was fitted: {', '.join(text)}. Hand in numbers, or fit again."
        )


def holds_numbers_only(X: Any) -> bool:
    """Whether all columns of a frame are numbers, so that nothing has to be encoded; codes such as 01067 and months such as 03.1974 are none."""
    if not all(_columns_with_numbers(X).values()):
        return False
    texts = [name for name in X.columns if X[name].dtype.kind == "O"] if _is_pandas(X) else ()
    return not any(are_codes(cells) or are_months(cells) for cells in (list(X[name].dropna()) for name in texts))


def _is_pandas(X: Any) -> bool:
    return "pandas" in sys.modules and isinstance(X, sys.modules["pandas"].DataFrame)


def _columns_with_numbers(X: Any) -> dict[str, bool]:
    """The columns of a frame, and whether they are numbers; nothing for what is no frame."""
    if _is_pandas(X):
        _refuse_repeated_names([str(name) for name in X.columns])
        return {str(name): _holds_numbers(X[name]) for name in X.columns}
    if "polars" in sys.modules:
        polars = sys.modules["polars"]
        if isinstance(X, polars.LazyFrame):
            raise InputError("X is a lazy polars frame, which holds no data yet. Pass X.collect().")
        if isinstance(X, polars.DataFrame):
            return {name: dtype.is_numeric() or dtype == polars.Boolean for name, dtype in X.schema.items()}
    if "pyarrow" in sys.modules and isinstance(X, sys.modules["pyarrow"].Table):
        types = sys.modules["pyarrow"].types
        return {f.name: types.is_integer(f.type) or types.is_floating(f.type) or types.is_boolean(f.type) for f in X.schema}
    return {}


def _refuse_repeated_names(names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"Column names must differ; these occur more than once: {', '.join(repeated)}. Rename or drop them.")


def _holds_numbers(column: Series) -> bool:
    """Whether a pandas column can be used: numbers of any dtype, objects that are numbers, but no dates and no text."""
    if sys.modules["pandas"].api.types.is_numeric_dtype(column.dtype):
        return True
    if isinstance(
        column.dtype, sys.modules["pandas"].CategoricalDtype
    ):  # also of numbers: whoever says so means kinds, not sizes
        return False
    if getattr(column.dtype, "kind", "O") in "mM":  # durations and dates convert to numbers, in units nobody asked for
        return False
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def quantile_levels(q: ArrayLike) -> np.ndarray:
    """Levels (n,) between 0 and 1, exclusively; one number is one level."""
    try:
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
    except (TypeError, ValueError):
        levels = np.array([])
    if levels.ndim != 1 or not levels.size or not ((levels > 0) & (levels < 1)).all():
        raise InputError(f"Quantile levels must be one or several numbers between 0 and 1, exclusively; got {q!r}.")
    return levels


def whole_number(value: Any, name: str, least: int = 1) -> int:
    """``value`` as an int of at least ``least``."""
    with suppress(TypeError):
        if operator.index(value) >= least:
            return operator.index(value)
    raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}.")


def positive_number(value: Any, name: str) -> float:
    """``value`` as a finite float above zero."""
    with suppress(TypeError, ValueError):
        if math.isfinite(value) and value > 0:
            return float(value)
    raise InputError(f"{name} must be a positive number; got {value!r}.")


def refuse_too_many_rows(N: int, matrices: int = 3) -> None:
    """Exact inference keeps some N x N matrices at once; refuse before the machine starts to swap."""
    needed, available = matrices * 8 * N * N, available_bytes()
    if needed > 0.9 * available:
        largest = int((0.9 * available / (8 * matrices)) ** 0.5)
        raise InputError(
            f"{counted(N, 'row')} at once need {size_in_words(needed)} of memory; {size_in_words(available)} are free. "
            f"Use at most {counted(largest, 'row')} at once, or fit with method='sparse', whose memory does not grow with the rows."
        )
