"""The predictor: a program, the columns it expects, and a call like that of ``predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from manifoldgp._system.real_numbers import as_meant
from manifoldgp.errors import InputError
from manifoldgp.predictor.c_source import CModel, CReport, write_c
from manifoldgp.predictor.file import read, write
from manifoldgp.predictor.interpreter import runner
from manifoldgp.predictor.javascript import javascript
from manifoldgp.predictor.program import Program

_FARTHEST = 1e100
"""Numbers up to this size are taken without a second look; beyond, squares may overflow."""


class Predictor:
    """Mean and standard deviation of y at X (n, D), computed by NumPy alone; made by ``model.predictor()``.

    Parameters
    ----------
    program
        What is computed.
    n_features
        The number of inputs, D.
    n_outputs
        The number of targets.
    flat
        Whether there is a single target, without a dimension of its own.
    feature_names
        The columns of the training data, in order, if they had names; a table with named columns must have the same.
    x_offset, x_scale : (D,)
        Mean and spread of the training inputs.
    distilled
        What was left out of the fitted model, in a sentence; empty: nothing.
    """

    def __init__(
        self,
        program: Program,
        x_offset: np.ndarray,
        x_scale: np.ndarray,
        n_outputs: int = 1,
        flat: bool = True,
        feature_names: tuple[str, ...] = (),
        distilled: str = "",
    ) -> None:
        self.program = program
        self.x_offset, self.x_scale = x_offset, x_scale
        self.n_features = len(x_offset)
        self.n_outputs, self.flat = n_outputs, flat
        self.feature_names = tuple(feature_names)
        self.distilled = distilled
        self._mean = runner(program, ["mean"])
        self._latent_mean = runner(program, ["latent_mean"])
        self._moments = runner(program, ["mean", "std"])
        self._latent_moments = runner(program, ["latent_mean", "latent_std"])

    def __call__(self, X: Any, return_std: bool = False, latent: bool = False) -> Any:
        """Mean (n,) of y at X (n, D), or mean and standard deviation; latent=True: of f, without noise. Several targets: (n, O)."""
        if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2 or X.shape[1] != self.n_features or not len(X):
            X = self._table(X)
        flat = X.ravel()
        if not flat.dot(flat) < _FARTHEST:  # also true of NaN; one product instead of two passes over X
            self._refuse_unusable(X)
        if return_std:
            mean, std = (self._latent_moments if latent else self._moments)(X)
            return mean, std
        return (self._latent_mean if latent else self._mean)(X)[0]

    def save(self, path: str | Path) -> None:
        """Write the predictor to one .npz file of arrays and JSON, without pickle."""
        write(path, self.program, {
            "n_outputs": self.n_outputs, "flat": self.flat, "feature_names": list(self.feature_names),
            "x_offset": self.x_offset.tolist(), "x_scale": self.x_scale.tolist(),
            "distilled": self.distilled,
        })  # fmt: skip

    def to_c(self, path: str | Path, *, dtype: str = "float64", latent: bool = False, gradient: bool = False) -> CReport:
        """Write the predictor as one C99 file, ``path`` (.c), with a header beside it; returns what it needs on the robot, for printing.

        Functions are called after the file: model_mean(x, mean, w) and model_predict(x, mean, std, w) for one row x, w being a workspace.

        Parameters
        ----------
        dtype
            Of all arithmetic, "float64" or "float32"; float32 is half as large, and loses the standard deviation's digits where the noise is small.
        latent
            Whether moments are those of f, without noise.
        gradient
            Whether there is also model_gradient(x, mean, gradient, w), with the derivatives of the mean by x.
        """
        described = CModel(self.program, self.n_features, self.n_outputs, self.feature_names, self.distilled)
        return write_c(described, path, dtype, latent, gradient)

    def to_javascript(self) -> str:
        """The predictor as a JavaScript expression: a function that takes one row x (D,) and returns {mean, std}, in float64, without a library."""
        return javascript(self.program, self.n_features, self.n_outputs)

    @classmethod
    def load(cls, path: str | Path) -> Predictor:
        """The predictor in ``path``."""
        program, facts = read(path)
        offset, scale = np.array(facts["x_offset"], dtype=np.float64), np.array(facts["x_scale"], dtype=np.float64)
        return cls(
            program, offset, scale, facts["n_outputs"], facts["flat"], tuple(facts["feature_names"]), facts.get("distilled", "")
        )

    @property
    def nbytes(self) -> int:
        """Memory of all constants, in bytes."""
        return sum(constant.nbytes for constant in self.program.constants.values())

    def __repr__(self) -> str:
        plural = "s" if self.n_outputs > 1 else ""
        return f"Predictor({self.n_features} inputs, {self.n_outputs} target{plural}, {self.nbytes / 1e6:.2f} MB)"

    def _table(self, X: Any) -> np.ndarray:
        names = getattr(X, "columns", None)
        if names is not None and self.feature_names and tuple(map(str, names)) != self.feature_names:
            raise InputError(
                f"The columns must be those of the training data, in this order: {', '.join(self.feature_names)}; "
                f"got {', '.join(map(str, names))}."
            )
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

    def _refuse_unusable(self, X: np.ndarray) -> None:
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
