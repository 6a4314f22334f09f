"""The predictor: a program, the columns it expects, and a call like that of ``predict``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.predictor.file import read, write
from manifoldgp.predictor.interpreter import runner
from manifoldgp.predictor.mixture import Mixture
from manifoldgp.predictor.operations_mixtures import certainty
from manifoldgp.predictor.program import COMPONENTS, VALUES, Program
from manifoldgp.predictor.query import Query
from manifoldgp.predictor.target_warping import Warp

if TYPE_CHECKING:
    from manifoldgp.predictor.c_source import CReport


class Predictor:
    """Mean and standard deviation of y at X (n, D), computed by NumPy alone; made by ``model.predictor()``.

    Parameters
    ----------
    program
        What is computed.
    n_outputs
        The number of targets.
    flat
        Whether there is a single target, without a dimension of its own.
    feature_names
        The columns of the training data, in order, if they had names; a table with named columns must have the same.
    x_offset, x_scale : (D,)
        Mean and spread of the training inputs.
    table
        The encoding of the table that the model was fitted on, if any, as ``TableEncoding.to_plain`` wrote it: the predictor takes frames with its columns.
    mixture
        For programs that give components: the target of each of the S members (``owner``), their weights (S, F) and the F variance factors; where weights follow
        variances, the ``exponents`` (O,) by which they do, in which share (``following``, (O,)), and the logarithms of usual variances (``log_usual``, (S,)). Where targets
        are warped, ``scales`` (S,), and ``height``, ``steepness`` and ``centre`` (S, terms) of the members' warpings, before which their components are.
    distilled
        What was left out of the fitted model, in a sentence; empty: nothing.
    target_names
        What the targets are called.
    holds
        What the program holds of the training rows, in a sentence; empty in files of earlier versions.
    """

    def __init__(
        self,
        program: Program,
        x_offset: np.ndarray,
        x_scale: np.ndarray,
        n_outputs: int = 1,
        flat: bool = True,
        feature_names: tuple[str, ...] = (),
        table: dict[str, Any] | None = None,
        mixture: dict[str, Any] | None = None,
        distilled: str = "",
        target_names: Sequence[str] = (),
        holds: str = "",
    ) -> None:
        self.program = program
        self.query = Query(x_offset, x_scale, tuple(feature_names), table)
        self._checked = self.query.checked
        self.x_offset, self.x_scale = x_offset, x_scale
        self.n_features = len(x_offset)
        self.n_outputs, self.flat = n_outputs, flat
        self.feature_names, self.target_names = tuple(feature_names), tuple(map(str, target_names))
        self.table, self._mixture, self.distilled, self.holds = table, mixture, distilled, holds
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

    def mixtures(self, X: np.ndarray, noise: np.ndarray | None = None) -> list[Mixture]:
        """The distribution of each target at X (n, D). noise: known variances (n,) that are added to the learned one; not of warped targets."""
        told = self._members()
        if noise is not None and "scales" in told:
            raise InputError("noise is noise of y, and a warped model adds its noise to g(y). Leave it out.")
        means, variances = (np.reshape(found, (-1, len(X))) for found in runner(self.program, COMPONENTS, axis=-1)(X))
        owner, weights, factors = np.array(told["owner"]), _floats(told["weights"]), _floats(told["factors"])
        variances = variances if noise is None else variances + noise
        shares = self._weights_at(variances, owner, weights)
        found = []
        for o, origin in enumerate(told["origins"]):
            own = np.flatnonzero(owner == o)
            warp = self._warp(own, origin)
            each = means[own] if warp else origin + means[own]
            spread = (variances[own, None] * factors[:, None]).reshape(-1, len(X))
            mixture = Mixture(np.repeat(each, len(factors), 0), spread, shares[own].reshape(-1, len(X)), warp)
            found.append(mixture.trimmed())
        return found

    def _members(self) -> dict[str, Any]:
        """What is told of the members of the mixtures."""
        if self._mixture is None:
            raise InputError(
                "This predictor is of an earlier version, which knew only the moments of warped targets: p(X, return_std=True). Make it anew with model.predictor()."
            )
        return self._mixture

    def _warp(self, members: np.ndarray, origin: float) -> Warp | None:
        """The warpings of these members (R,) of one target, each with all variance factors; None where there are none."""
        told = self._members()
        if "scales" not in told:
            return None
        height, steepness, centre = (_floats(told[name])[members, None] for name in ("height", "steepness", "centre"))
        if not height.any():
            return None
        each = np.repeat(np.arange(len(members)), len(told["factors"]))
        return Warp(each, height, steepness, centre, _floats(told["scales"])[members, None], origin)

    def _weights_at(self, variances: np.ndarray, owner: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Weights (S, F, n) of the components, whose members have these variances (S, n) of y."""
        each = np.repeat(weights[..., None], variances.shape[1], -1)
        told = self._members()
        if "exponents" not in told:
            return each
        exponents, following, usual = (_floats(told[name]) for name in ("exponents", "following", "log_usual"))
        own = np.where(owner == np.arange(len(exponents))[:, None], weights.sum(1), 0.0)
        return each * certainty.numpy(variances, usual[:, None], exponents, following, own, owner)[:, None]

    def facts(self) -> dict[str, Any]:
        """All but the program, as plain data."""
        return {
            "n_outputs": self.n_outputs, "flat": self.flat, "feature_names": list(self.feature_names),
            "x_offset": self.x_offset.tolist(), "x_scale": self.x_scale.tolist(), "table": self.table, "mixture": self._mixture,
            "distilled": self.distilled, "target_names": list(self.target_names), "holds": self.holds,
        }  # fmt: skip

    @classmethod
    def from_facts(cls, program: Program, facts: dict[str, Any]) -> Predictor:
        """The predictor of which `facts` told."""
        offset, scale = np.array(facts["x_offset"], dtype=np.float64), np.array(facts["x_scale"], dtype=np.float64)
        names, table, mixture = tuple(facts["feature_names"]), facts["table"], facts["mixture"]
        words = str(facts.get("distilled", ""))
        targets, holds = tuple(facts.get("target_names", ())), str(facts.get("holds", ""))  # earlier files lack them
        return cls(program, offset, scale, facts["n_outputs"], facts["flat"], names, table, mixture, words, targets, holds)

    def save(self, path: str | Path) -> None:
        """Write the predictor to one .npz file of arrays and JSON, without pickle."""
        write(path, self.program, self.facts())

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
        from manifoldgp.predictor.c_source import CModel, write_c  # what runs predictions starts without what writes code

        described = CModel(self.program, self.n_features, self.n_outputs, self.feature_names, self.distilled, self.target_names)
        return write_c(described, path, dtype, latent, gradient)

    def to_javascript(self) -> str:
        """The predictor as a JavaScript expression: a function that takes one row x (D,) and returns {mean, std, quantile}, in float64, without a library.

        quantile(o, z) is the y that target o stays below with the probability of a standard normal to stay below z; null where the predictor's file is of an
        earlier version, which knew only the moments of warped targets.
        """
        from manifoldgp.predictor.javascript import javascript

        return javascript(self.program, self.n_features, self.n_outputs, self._mixture)

    @classmethod
    def load(cls, path: str | Path) -> Predictor:
        """The predictor in ``path``."""
        program, facts = read(path)
        if VALUES in program.outputs:
            raise FileFormatError(f"{path} holds drawn functions. Read it with FunctionPredictor.load.")
        return cls.from_facts(program, facts)

    @property
    def nbytes(self) -> int:
        """Memory of all constants, in bytes."""
        return sum(constant.nbytes for constant in self.program.constants.values())

    def __repr__(self) -> str:
        plural = "s" if self.n_outputs > 1 else ""
        return f"Predictor({self.n_features} inputs, {self.n_outputs} target{plural}, {self.nbytes / 1e6:.2f} MB)"


def _floats(plain: Any) -> np.ndarray:
    """Numbers of a file, of which JSON may hold integers of any size."""
    return np.array(plain, dtype=np.float64)
