"""A fitted estimator to a file and back: description, learnt values, factor, training data and scaling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp.ensemble import Ensemble
from manifoldgp.errors import FileFormatError
from manifoldgp.estimation import START_FIELDS
from manifoldgp.features import Features
from manifoldgp.model import Data
from manifoldgp.parameters import leaves, nest
from manifoldgp.persistence.container import read, write
from manifoldgp.persistence.descriptions import describe, rebuild
from manifoldgp.posterior import Posterior
from manifoldgp.scaling import Standardizer

_NOT_STORED = ("callback", "warm_start_from")


def save(estimator: Any, path: str | Path) -> None:
    """Write a fitted estimator to ``path``. What it predicts after :func:`load` is the same to the last bit."""
    tensors: dict[str, Tensor] = {
        "x.offset": torch.from_numpy(estimator.x_scaler_.offset),
        "x.scale": torch.from_numpy(estimator.x_scaler_.scale),
        "y.offset": torch.from_numpy(estimator.y_scaler_.offset),
        "y.scale": torch.from_numpy(estimator.y_scaler_.scale),
    }
    header = {
        "estimator": type(estimator).__name__,
        "settings": _settings(estimator),
        "flat": estimator._flat,
        "nlml": estimator.nlml_,
        "feature_names": list(map(str, getattr(estimator, "feature_names_in_", []))),
        "starts": [[describe(v) for v in row] for row in estimator.starts_],
        "histories": [h.tolist() for h in estimator.histories_],
        "ensembles": [_pack_ensemble(e, f"ensemble{o}", tensors) for o, e in enumerate(estimator.ensembles_)],
    }
    write(path, header, tensors)


def load(path: str | Path, modules: Sequence[torch.nn.Module] = ()) -> Any:
    """The fitted estimator in ``path``. modules: your own torch modules, if the model's features or mean use any."""
    from manifoldgp import regressor

    header, tensors = read(path)
    try:
        kinds = {cls.__name__: cls for cls in (regressor.ManifoldGPRegressor, regressor.GPRegressor)}
        supply = iter(modules)
        estimator = kinds[header["estimator"]](**rebuild(header["settings"], supply))
        estimator.x_scaler_ = Standardizer(tensors["x.offset"].numpy(), tensors["x.scale"].numpy())
        estimator.y_scaler_ = Standardizer(tensors["y.offset"].numpy(), tensors["y.scale"].numpy())
        estimator.ensembles_ = [
            _unpack_ensemble(plain, f"ensemble{o}", tensors, iter(modules)) for o, plain in enumerate(header["ensembles"])
        ]
        estimator.n_features_in_, estimator.n_outputs_ = len(estimator.x_scaler_.scale), len(estimator.y_scaler_.scale)
        estimator._flat, estimator.nlml_ = header["flat"], header["nlml"]
        if header["feature_names"]:
            estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
        estimator.starts_ = np.array([tuple(row) for row in header["starts"]], dtype=START_FIELDS)
        estimator.histories_ = [np.array(h) for h in header["histories"]]
    except (KeyError, IndexError, RuntimeError) as error:
        raise FileFormatError(f"{path} is incomplete or inconsistent ({type(error).__name__}: {error}).") from error
    return estimator


def _settings(estimator: Any) -> Any:
    settings = {k: v for k, v in estimator.get_params(deep=False).items() if k not in _NOT_STORED}
    block = estimator.ensembles_[0].blocks[0]
    if "features" in settings and not isinstance(settings["features"], (Features, torch.nn.Module, type(None))):
        settings["features"] = block.model.features  # a scikit-learn transformer: what it became when it was fitted
    if not isinstance(settings["random_state"], (int, type(None))):
        settings["random_state"] = None
    return describe(settings)


def _pack_ensemble(ensemble: Ensemble, name: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    data = ensemble.blocks[0].data
    tensors[f"{name}.X"], tensors[f"{name}.y"] = data.X, data.y
    if data.known_noise is not None:
        tensors[f"{name}.known_noise"] = data.known_noise
    models = []
    for b, (block, log_weights) in enumerate(zip(ensemble.blocks, ensemble.log_weights, strict=True)):
        prefix = f"{name}.block{b}"
        rows, columns = _triangle(block.L.shape[-1])
        tensors[f"{prefix}.L"] = block.L[:, rows, columns]
        for field in ("H", "z", "alpha", "jitter"):
            tensors[f"{prefix}.{field}"] = getattr(block, field)
        for leaf, value in leaves(block.values):
            tensors[f"{prefix}.values.{leaf}"] = value
        tensors[f"{prefix}.log_weights"] = log_weights
        models.append(describe(block.model))
    return {
        "models": models,
        "variance_factors": list(ensemble.variance_factors),
        "offset": ensemble.offset,
        "scale": ensemble.scale,
    }


def _unpack_ensemble(plain: dict[str, Any], name: str, tensors: dict[str, Tensor], modules: Iterator[torch.nn.Module]) -> Ensemble:
    data = Data(tensors[f"{name}.X"], tensors[f"{name}.y"], tensors.get(f"{name}.known_noise"))
    N = len(data.y)
    rows, columns = _triangle(N)
    blocks, log_weights = [], []
    for b, model in enumerate(plain["models"]):
        prefix = f"{name}.block{b}."
        part = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        R = len(part["alpha"])
        _expect(part, {"alpha": (R, N), "z": (R, N), "L": (R, len(rows)), "jitter": (R,)})
        L = torch.zeros(R, N, N, dtype=torch.float64)
        L[:, rows, columns] = part["L"]
        values = nest({key.removeprefix("values."): value for key, value in part.items() if key.startswith("values.")})
        blocks.append(Posterior(rebuild(model, modules), values, data, part["H"], L, part["z"], part["alpha"], part["jitter"]))
        log_weights.append(part["log_weights"])
    return Ensemble(blocks, log_weights, tuple(plain["variance_factors"]), plain["offset"], plain["scale"])


def _triangle(N: int) -> tuple[Tensor, Tensor]:
    """Rows and columns of the lower triangle, which is all that a factor has."""
    rows, columns = torch.tril_indices(N, N)
    return rows, columns


def _expect(part: dict[str, Tensor], shapes: dict[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        if tuple(part[name].shape) != shape or part[name].dtype != torch.float64:
            raise FileFormatError(
                f"The tensor {name!r} should be float64 of shape {shape}; the file has {part[name].dtype} of shape {tuple(part[name].shape)}."
            )
