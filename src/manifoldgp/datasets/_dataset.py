"""A regression task: rows to train on, rows to test on, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from manifoldgp.errors import InputError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test rows of one task, float64, in the units of ``description``.

    X_train (N, D), y_train (N,), X_test (N*, D), y_test (N*,); ``input_names`` has one name per column of X.
    """

    name: str
    X_train: NDArray[np.float64] = field(repr=False)
    y_train: NDArray[np.float64] = field(repr=False)
    X_test: NDArray[np.float64] = field(repr=False)
    y_test: NDArray[np.float64] = field(repr=False)
    input_names: tuple[str, ...]
    target_name: str
    description: str

    def __post_init__(self) -> None:
        columns = len(self.input_names)
        for part in ("train", "test"):
            X = np.asarray(getattr(self, f"X_{part}"), dtype=np.float64)
            y = np.asarray(getattr(self, f"y_{part}"), dtype=np.float64)
            if X.ndim != 2 or X.shape[1] != columns or y.shape != X.shape[:1] or not len(y):
                raise InputError(
                    f"Data set {self.name!r} needs X_{part} of shape (N, {columns}), one column per input name, and y_{part} of "
                    f"shape (N,) with N > 0; got {X.shape} and {y.shape}. Reshape them or correct input_names."
                )
            if not (np.isfinite(X).all() and np.isfinite(y).all()):
                raise InputError(
                    f"Data set {self.name!r} needs finite numbers; X_{part} or y_{part} has NaN or infinity. Remove those rows."
                )
            object.__setattr__(self, f"X_{part}", X)
            object.__setattr__(self, f"y_{part}", y)
