"""The predictor: a program, the columns it expects, and a call like that of ``predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from manifoldgp.errors import FileFormatError
from manifoldgp.predictor.file import read, write
from manifoldgp.predictor.interpreter import runner
from manifoldgp.predictor.program import OUTPUTS, Program
from manifoldgp.predictor.query import Query


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
    """

    def __init__(
        self,
        program: Program,
        x_offset: np.ndarray,
        x_scale: np.ndarray,
        n_outputs: int = 1,
        flat: bool = True,
        feature_names: tuple[str, ...] = (),
    ) -> None:
        self.program = program
        self._checked = Query(x_offset, x_scale, tuple(feature_names)).checked
        self.x_offset, self.x_scale = x_offset, x_scale
        self.n_features = len(x_offset)
        self.n_outputs, self.flat = n_outputs, flat
        self.feature_names = tuple(feature_names)
        self._mean = runner(program, ["mean"])
        self._latent_mean = runner(program, ["latent_mean"])
        self._moments = runner(program, ["mean", "std"])
        self._latent_moments = runner(program, ["latent_mean", "latent_std"])

    def __call__(self, X: Any, return_std: bool = False, latent: bool = False) -> Any:
        """Mean (n,) of y at X (n, D), or mean and standard deviation; latent=True: of f, without noise. Several targets: (n, O)."""
        X = self._checked(X)
        if return_std:
            mean, std = (self._latent_moments if latent else self._moments)(X)
            return mean, std
        return (self._latent_mean if latent else self._mean)(X)[0]

    def save(self, path: str | Path) -> None:
        """Write the predictor to one .npz file of arrays and JSON, without pickle."""
        write(path, self.program, {
            "n_outputs": self.n_outputs, "flat": self.flat, "feature_names": list(self.feature_names),
            "x_offset": self.x_offset.tolist(), "x_scale": self.x_scale.tolist(),
        })  # fmt: skip

    @classmethod
    def load(cls, path: str | Path) -> Predictor:
        """The predictor in ``path``."""
        program, facts = read(path)
        if set(program.outputs) != set(OUTPUTS):
            raise FileFormatError(f"{path} holds drawn functions. Read it with FunctionPredictor.load.")
        offset, scale = np.array(facts["x_offset"], dtype=np.float64), np.array(facts["x_scale"], dtype=np.float64)
        return cls(program, offset, scale, facts["n_outputs"], facts["flat"], tuple(facts["feature_names"]))

    @property
    def nbytes(self) -> int:
        """Memory of all constants, in bytes."""
        return sum(constant.nbytes for constant in self.program.constants.values())

    def __repr__(self) -> str:
        plural = "s" if self.n_outputs > 1 else ""
        return f"Predictor({self.n_features} inputs, {self.n_outputs} target{plural}, {self.nbytes / 1e6:.2f} MB)"
