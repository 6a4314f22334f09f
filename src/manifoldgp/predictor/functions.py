"""Functions drawn from a model, without PyTorch: a program that gives the values of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from manifoldgp.errors import FileFormatError
from manifoldgp.predictor.file import read, write
from manifoldgp.predictor.interpreter import runner
from manifoldgp.predictor.program import VALUES, Program
from manifoldgp.predictor.query import Query


class FunctionPredictor:
    """Draws from the posterior of f as functions of X, computed by NumPy alone; made by ``model.sample_functions(n).predictor()``.

    Parameters
    ----------
    program
        What is computed: the values (n, functions of all targets).
    query
        Which X it accepts.
    order : (O, functions)
        The column of each function of each target.
    flat
        Whether there is a single target, without a dimension of its own.
    """

    def __init__(self, program: Program, query: Query, order: np.ndarray, flat: bool = True) -> None:
        self.program, self.query, self.order, self.flat = program, query, order, flat
        self._values = runner(program, [VALUES])

    def __call__(self, X: Any) -> np.ndarray:
        """Values (functions, n), or (functions, n, O) of several targets, at X (n, D)."""
        (values,) = self._values(self.query.checked(X))
        picked = values.T[self.order]  # (O, functions, n)
        return picked[0] if self.flat else np.moveaxis(picked, 0, -1)

    def __len__(self) -> int:
        return self.order.shape[1]

    def save(self, path: str | Path) -> None:
        """Write the functions to one .npz file of arrays and JSON, without pickle."""
        write(path, self.program, {
            "n_outputs": len(self.order), "flat": self.flat, "feature_names": list(self.query.feature_names), "order": self.order.tolist(), "table": self.query.table, "mixture": None,
            "x_offset": self.query.x_offset.tolist(), "x_scale": self.query.x_scale.tolist(),
        })  # fmt: skip

    @classmethod
    def load(cls, path: str | Path) -> FunctionPredictor:
        """The functions in ``path``."""
        program, facts = read(path)
        if VALUES not in program.outputs:
            raise FileFormatError(f"{path} holds a predictor of mean and standard deviation. Read it with Predictor.load.")
        offset, scale = np.array(facts["x_offset"], dtype=np.float64), np.array(facts["x_scale"], dtype=np.float64)
        return cls(
            program, Query(offset, scale, tuple(facts["feature_names"]), facts["table"]), np.array(facts["order"]), facts["flat"]
        )
