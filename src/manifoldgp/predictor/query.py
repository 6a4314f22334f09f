"""What a predictor accepts as X: numbers, with the columns of the training data, not absurdly far from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldgp._system.real_numbers import as_meant
from manifoldgp.errors import InputError

_FARTHEST = 1e100
"""Numbers up to this size are taken without a second look; beyond, squares may overflow."""


@dataclass(frozen=True, eq=False)
class Query:
    """Columns by name, if they had names, and mean and spread (D,) of the training inputs.

    table: the encoding of the table that the model was fitted on, if any, as ``TableEncoding.to_plain`` wrote it: frames with its columns are taken too.
    """

    x_offset: np.ndarray
    x_scale: np.ndarray
    feature_names: tuple[str, ...] = ()
    table: dict[str, Any] | None = None

    @property
    def n_features(self) -> int:
        return len(self.x_offset)

    def checked(self, X: Any) -> np.ndarray:
        """X as an array (n, D) of finite numbers."""
        if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2 or X.shape[1] != len(self.x_offset) or not len(X):
            X = self._table(X)
        flat = X.ravel()
        if not flat.dot(flat) < _FARTHEST:  # also true of NaN; one product instead of two passes over X
            self.refuse_unusable(X)
        return X

    def _table(self, X: Any) -> np.ndarray:
        names = _names(X)
        if names is not None and self.table is not None and tuple(map(str, names)) != self.feature_names:
            from manifoldgp.data.encoding import TableEncoding  # needs pandas, and whoever hands in a table has that
            from manifoldgp.data.frames import as_frame

            frame = as_frame(X)
            return X if frame is None else TableEncoding.from_plain(self.table).inputs(frame).to_numpy()
        if names is not None and self.feature_names and tuple(map(str, names)) != self.feature_names:
            X = self._named(X)
        try:
            table = np.asarray(as_meant(X, "X"), dtype=np.float64)
        except InputError:
            raise
        except (TypeError, ValueError) as error:
            raise InputError(f"X must be numbers, shape (n, {self.n_features}); {error}.") from error
        if table.ndim != 2 or table.shape[1] != self.n_features or not len(table):
            raise InputError(
                f"X must have shape (n, {self.n_features}), n >= 1; got {table.shape}. A single point x is x[None] or [[...]]."
            )
        return table

    def _named(self, X: Any) -> Any:
        """A frame without the columns beside those of the training data."""
        from manifoldgp.data.frames import without_others  # of frames alone, as above

        known = without_others(X, self.feature_names)
        if tuple(map(str, _names(known))) != self.feature_names:
            raise InputError(
                f"The columns must be those of the training data, in this order: {', '.join(self.feature_names)}; "
                f"got {', '.join(map(str, _names(known)))}."
            )
        return known

    def refuse_unusable(self, X: np.ndarray) -> None:
        """Refuse inputs that are no numbers, or so far away that arithmetic overflows."""
        bad = ~np.isfinite(X)
        if bad.any():
            row, column = np.argwhere(bad)[0].tolist()
            raise InputError(f"X[{row}, {column}] is {X[row, column]}; all inputs must be finite numbers.")
        with np.errstate(over="ignore"):
            largest = float(np.abs((X - self.x_offset) / self.x_scale).max())
        if largest > _FARTHEST:
            raise InputError(
                f"X lies up to {largest:.1e} standard deviations from the training data: arithmetic overflows there."
            )


def _names(X: Any) -> Any:
    """What the columns of a frame are called; None for an array. A table of Arrow calls its columns themselves so."""
    return getattr(X, "column_names", getattr(X, "columns", None))
