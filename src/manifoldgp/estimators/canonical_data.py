"""What a fit learns from: the same numbers in the same order, however the rows and the columns of a table lie and in whatever units they come.

Starts, folds and samples are drawn for rows and columns by their number, and training is not convex: another order, or another last digit, would end elsewhere. So every
training sees its data in an order that follows from their values, rounded far below what matters. Posteriors are those of the rows as they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from manifoldgp import features, kernels, means
from manifoldgp.averaging import Averaging
from manifoldgp.averaging.averages import FoldChoice
from manifoldgp.data.inputs import TrainingTable
from manifoldgp.data.scaling import Standardizer, canonical_rows, constant_columns, without_last_digits
from manifoldgp.errors import InputError
from manifoldgp.model import Data, Model
from manifoldgp.structure.search import Search
from manifoldgp.training.settings import Method, Sparse

_ALIKE: tuple[type, ...] = (
    features.Identity, features.MLP, features.Linear, features.Nested, features.Kumaraswamy, features.Concatenate, features.Chain,
    features.AutoEncoder, features.Pretrained, features.Guided,
    kernels.SquaredExponential, kernels.Matern12, kernels.Matern32, kernels.Matern52, kernels.RationalQuadratic, kernels.Periodic, kernels.SpectralMixture,
    kernels.Linear, kernels.Constant, kernels.NeuralNetwork, kernels.Additive, kernels.OrthogonalAdditive, kernels.Sum, kernels.Product,
    means.Zero, means.Constant, means.Linear,
)  # fmt: skip
"""Parts that take any number of columns and treat all of them alike. Others (a torch module, a kernel on chosen columns, parts of users) may know columns by their number."""


def treats_columns_alike(model: Model) -> bool:
    """Whether no part of a model knows columns by their number.

    >>> from manifoldgp.kernels import SquaredExponential
    >>> treats_columns_alike(Model()), treats_columns_alike(Model(kernel=SquaredExponential(dims=(1,))))
    (True, False)
    """
    return all(map(_alike, (model.features, model.kernel, model.mean)))


def _alike(part: object) -> bool:
    knows = any(getattr(part, name, None) is not None for name in ("dims", "learnt"))
    return type(part) in _ALIKE and not knows and all(map(_alike, getattr(part, "parts", ())))


def input_scaler(
    scaler: Standardizer,
    table: TrainingTable,
    Y: np.ndarray,
    model: Model,
    averaging: Averaging,
    method: Method,
    alone: bool,
) -> Standardizer:
    """The scaler of X with the columns that the model sees; Y (N, O): targets as they are learnt from; alone: without rows that have no target.

    All of them as they came where a part of the model, or what is found, tells them by their number, where rows without targets may vary in other columns, and in sparse models:
    arrays give the same one as files, which are not sorted.
    """
    if alone and not isinstance(method, Sparse) and not isinstance(averaging, Search) and treats_columns_alike(model):
        scaler = scaler.ordered_by_content(table.X, Y)
    return started_from(averaging, scaler, np.setdiff1d(scaler.columns, constant_columns(table.X)))


def started_from(averaging: Averaging, scaler: Standardizer, varying: np.ndarray) -> Standardizer:
    """With the columns of the model that training starts from, if any, whose parameters belong to them in that order; varying: columns that must be among them."""
    other = getattr(averaging, "warm_start_from", None)
    if other is None or len(other.x_scaler_.place) != len(scaler.place):
        return scaler  # parameters of another shape are refused where they are used
    newly = np.setdiff1d(varying, other.x_scaler_.columns)
    if len(newly):
        raise InputError(
            f"Warm start: the other model was fitted on data in which column {newly[0]} was constant or repeated another one, and here it is not. "
            "Fit without warm_start_from."
        )
    return replace(scaler, place=other.x_scaler_.place)


def learning_data(
    data: Sequence[Data], folds: FoldChoice, x_scaler: Standardizer, y_scaler: Standardizer
) -> tuple[list[Data], FoldChoice]:
    """The data of each target for training, and the groups of their rows. Rows in order of time stay in it."""
    X, Y = x_scaler.learnt(_array(data[0].X)), y_scaler.learnt(np.stack([_array(d.y) for d in data], 1))
    known = [_array(d.known_noise) for d in data if d.known_noise is not None]
    noise = without_last_digits(np.stack(known, 1)) if known else None
    order = np.arange(len(X)) if folds.ordered else canonical_rows(X, Y, noise)
    shared = _like(X[order], data[0].X)
    learnt = [
        Data(shared, _like(Y[order, o], d.y), None if noise is None else _like(noise[order, o], d.y)) for o, d in enumerate(data)
    ]
    return learnt, FoldChoice(None if folds.groups is None else folds.groups[order], folds.ordered)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _like(array: np.ndarray, other: Tensor) -> Tensor:
    return torch.as_tensor(np.ascontiguousarray(array), device=other.device)
