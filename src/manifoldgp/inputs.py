"""What users hand in, checked and turned into float64 arrays; every mistake gets one clear error."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from manifoldgp.errors import FitWarning, InputError


@dataclass(frozen=True)
class TrainingTable:
    """Checked training data: X (N, D), Y (N, O), known noise variances (N, O) or None, kept rows (N,) of the input, y one-dimensional or not."""

    X: np.ndarray
    Y: np.ndarray
    known_noise: np.ndarray | None
    kept: np.ndarray
    flat: bool


def training_table(estimator: Any, X: Any, y: Any, noise_std: Any = None) -> TrainingTable:
    """Check X (N, D), y (N,) or (N, O) and noise_std (scalar, (N,) or (N, O)); rows whose y is NaN are dropped, with a warning that counts them."""
    if y is None:
        raise InputError(f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None.")
    refuse_text_columns(X)
    X = validate_data(estimator, X, dtype=np.float64, ensure_min_samples=2)
    Y = _targets(y)
    check_consistent_length(X, Y)
    noise = None if noise_std is None else _noise_variances(noise_std, Y.shape if Y.ndim == 2 else (len(Y), 1))
    flat = Y.ndim == 1
    Y = Y.reshape(len(Y), -1)
    kept = np.flatnonzero(~np.isnan(Y).any(1))
    if len(kept) < len(Y):
        message = f"{len(Y) - len(kept)} of {len(Y)} rows have a missing target (NaN) and are left out of the fit."
        warnings.warn(message, FitWarning, stacklevel=3)
    if len(kept) < 2:
        raise InputError(f"At least 2 rows with a target are needed; there {'is' if len(kept) == 1 else 'are'} {len(kept)}.")
    return TrainingTable(X[kept], Y[kept], None if noise is None else noise[kept], kept, flat)


def query_table(estimator: Any, X: Any) -> np.ndarray:
    """Check inputs to predict at, (n, D), against what the estimator was fitted on."""
    refuse_text_columns(X)
    return validate_data(estimator, X, dtype=np.float64, reset=False)


def target_table(estimator: Any, y: Any, rows: int) -> np.ndarray:
    """Targets (n, O) to score or to condition on, one row for each of the ``rows`` inputs."""
    Y = _targets(y)
    Y = Y.reshape(len(Y), -1)
    outputs = estimator.n_outputs_
    if Y.shape != (rows, outputs):
        raise InputError(f"Expected targets of shape ({rows}, {outputs}) for these inputs; got {Y.shape}.")
    return Y


def _targets(y: Any) -> np.ndarray:
    Y = check_array(y, dtype=np.float64, ensure_2d=False, ensure_all_finite="allow-nan", allow_nd=True, input_name="y")
    if Y.ndim > 2 or Y.ndim == 0:
        raise InputError(f"y must have shape (N,) or (N, outputs); got {Y.shape}.")
    if np.isinf(Y).any():
        raise InputError("Input y contains infinity. Remove or repair these rows, or mark missing targets with NaN.")
    return Y


def _noise_variances(noise_std: Any, shape: tuple[int, int]) -> np.ndarray:
    """Known noise standard deviations as variances of shape (N, O)."""
    noise = np.asarray(noise_std, dtype=np.float64)
    noise = noise[:, None] if noise.ndim == 1 else noise
    if noise.ndim and noise.shape not in (shape, (shape[0], 1)):
        raise InputError(f"noise_std must be one number, or shaped like y {shape}; got shape {np.shape(noise_std)}.")
    if not np.isfinite(noise).all() or (noise < 0).any():
        raise InputError("noise_std must be finite and not negative: it is the standard deviation of the noise, in the units of y.")
    return np.broadcast_to(noise**2, shape).copy()


def query_noise(noise_std: Any, rows: int, outputs: int) -> np.ndarray | None:
    """Known noise variances (n, O) of points to predict at, or None."""
    return None if noise_std is None else _noise_variances(noise_std, (rows, outputs))


def refuse_text_columns(X: Any) -> None:
    """A frame with columns that are not numbers is refused by name."""
    text: list[str] = []
    if "pandas" in sys.modules and isinstance(X, sys.modules["pandas"].DataFrame):
        numeric = sys.modules["pandas"].api.types.is_numeric_dtype
        text = [str(column) for column, dtype in X.dtypes.items() if not numeric(dtype) and not _all_numbers(X[column])]
    elif "polars" in sys.modules and isinstance(X, sys.modules["polars"].DataFrame):
        boolean = sys.modules["polars"].Boolean
        text = [name for name, dtype in X.schema.items() if not dtype.is_numeric() and dtype != boolean]
    if text:
        raise InputError(
            f"These columns are not numbers: {', '.join(text)}. Encode them first, for example with "
            "sklearn.preprocessing.OneHotEncoder in a pipeline, or drop them."
        )


def _all_numbers(column: Any) -> bool:
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def available_bytes() -> int:
    """Memory that this machine can still give, in bytes."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def refuse_too_many_rows(N: int) -> None:
    """An exact fit keeps three N x N matrices; refuse before the machine starts to swap."""
    needed, available = 3 * 8 * N * N, available_bytes()
    if needed > 0.9 * available:
        largest = int((0.9 * available / 24) ** 0.5)
        raise InputError(
            f"An exact fit of {N:,} rows needs {needed / 2**30:.1f} GiB of memory; {available / 2**30:.1f} GiB are free. "
            f"Fit a random subset of at most {largest:,} rows, or use a machine with more memory."
        )
