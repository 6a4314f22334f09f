"""Any scikit-learn transformer as fixed features."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.features.feature_map import Features
from manifoldgp.features.projections import FixedLinear
from manifoldgp.parameters import Tree
from manifoldgp.predictor.rows import Rows

_AFFINE_TOLERANCE = 1e-9  # relative to the largest output on the probes
_PROBES = 64


@dataclass(frozen=True, eq=False)
class Transformer(Features):
    """H = transformer.transform(X), fitted without targets and not trained: ICA, Isomap, LLE, a scaler.

    ``bind(X)`` returns `FixedLinear` when the transform turns out to be affine (PCA, ICA, scalers; tried on points in
    and around the training inputs): differentiable, and saved like any other features. Otherwise it returns a
    Transformer that holds the fitted clone: no gradients with respect to X, no saving without pickle.

    Parameters
    ----------
    transformer
        Any object with scikit-learn's ``fit(X)`` and ``transform(X)``. It is never changed: ``bind`` fits a clone.
    fitted
        True takes the transformer as it is, fitted elsewhere.
    """

    transformer: Any
    fitted: bool = False
    training: tuple[Tensor, Tensor] | None = field(default=None, repr=False)
    """X and transform(X) of the training inputs, kept by ``bind`` because training asks for them again and again."""

    def __post_init__(self) -> None:
        if not hasattr(self.transformer, "transform"):
            raise InputError(
                f"{type(self.transformer).__name__} has no transform method, so it cannot place new points. "
                "Choose a transformer that can, such as Isomap or LocallyLinearEmbedding."
            )

    def bind(self, X: Tensor) -> Features:
        inputs = X.detach().cpu().numpy()
        fitted = self.transformer if self.fitted else _fit(self.transformer, inputs)
        affine = _as_affine(fitted, inputs)
        if affine is not None:
            return affine
        return Transformer(fitted, fitted=True, training=(X.detach().clone(), _transform(fitted, X)))

    def parameters(self, X: Tensor) -> Tree:
        self._require_fitted()
        return {}

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        self._require_fitted()
        if X.requires_grad:
            raise InputError(
                f"{type(self.transformer).__name__} is not differentiable, and a gradient with respect to its inputs is needed. "
                "Put it before all trained features, and do not ask for derivatives of the prediction."
            )
        if self.training is not None and torch.equal(X, self.training[0]):
            return self.training[1]
        return _transform(self.transformer, X)

    def _program(self, values: Tree, X: Rows) -> Rows:
        raise InputError(
            f"A predictor cannot express {self!r}, which is scikit-learn's code. Use an affine scikit-learn transformer, features of this package or a "
            "torch.nn.Sequential of linear layers and transfer functions; or predict with the model itself."
        )

    def __eq__(self, other: object) -> bool:
        # Estimators compare by identity only. Unfitted ones are what their class and parameters say.
        if not isinstance(other, Transformer) or self.fitted != other.fitted:
            return False
        if self.transformer is other.transformer:
            return True
        return not self.fitted and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.fitted, type(self.transformer)))

    def _key(self) -> tuple[type, str]:
        thing = self.transformer
        return type(thing), repr(sorted(thing.get_params().items()) if hasattr(thing, "get_params") else vars(thing))

    def _require_fitted(self) -> None:
        if not self.fitted:
            raise InputError(f"{self} is not fitted. Call features.bind(X) with the training inputs, and use what it returns.")


def _fit(transformer: Any, inputs: np.ndarray) -> Any:
    copy: Any = clone(transformer, safe=False)
    try:
        return copy.fit(inputs)
    except TypeError as error:
        raise InputError(
            f"{type(transformer).__name__} could not be fitted to inputs alone ({error}). Features never see the targets."
        ) from error


def _transform(transformer: Any, X: Tensor) -> Tensor:
    """transform(X) (*B, N, Q) as float64, row by row over any batch of X (*B, N, D)."""
    N, D = X.shape[-2:]
    outputs = transformer.transform(X.detach().reshape(-1, D).cpu().numpy())
    H = torch.as_tensor(np.array(outputs.toarray() if hasattr(outputs, "toarray") else outputs, dtype=np.float64))
    if H.ndim != 2 or H.shape[0] != X.shape[:-1].numel():
        raise InputError(
            f"{type(transformer).__name__}.transform must give one row of features per input; "
            f"got shape {tuple(H.shape)} for {X.shape[:-1].numel()} inputs."
        )
    return H.reshape(*X.shape[:-2], N, H.shape[-1]).to(X.device)


def _as_affine(transformer: Any, inputs: np.ndarray) -> FixedLinear | None:
    """transform(X) = X A + b as FixedLinear, or None where that does not hold."""
    rng = np.random.default_rng(0)
    centre, spread = inputs.mean(0), inputs.std(0)
    spread[spread == 0] = 1.0
    D = len(centre)
    rows = rng.choice(inputs, min(_PROBES, len(inputs)), replace=False)
    clouds = [centre + width * spread * rng.standard_normal((_PROBES, D)) for width in (1.0, 5.0)]
    probes = np.concatenate([centre[None], centre + np.diag(spread), rows, *clouds])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # probes lie outside the training inputs on purpose
            outputs = _transform(transformer, torch.from_numpy(probes)).numpy()
    except ValueError:  # a transformer may refuse points outside its domain
        return None
    if not np.isfinite(outputs).all():
        return None
    # A from steps of one standard deviation along each input, b from the centre; all other probes are the test.
    matrix = (outputs[1 : D + 1] - outputs[0]) / spread[:, None]
    offset = outputs[0] - centre @ matrix
    error = np.abs(probes @ matrix + offset - outputs).max()
    if error > _AFFINE_TOLERANCE * np.abs(outputs).max():
        return None
    return FixedLinear(matrix, offset)  # pyright: ignore[reportArgumentType]
