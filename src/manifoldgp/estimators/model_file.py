"""Fitted estimators in files: tensors and plain data, without pickle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.plain_text import counted
from manifoldgp._system.tensor_file import read, take, write
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.errors import FileFormatError, InputError, ManifoldGPError, MissingExtraError, warn
from manifoldgp.estimators.arguments import Draws, require_device
from manifoldgp.estimators.column_file import pack_scaler, unpack_levels, unpack_scaler, unpack_switched_off
from manifoldgp.estimators.descriptions import ModulesError, describe, place_modules, rebuild
from manifoldgp.estimators.ensemble_file import pack, rounding_loss, unpack
from manifoldgp.estimators.held_out_file import pack_report, unpack_report
from manifoldgp.estimators.kernel_choice import KernelChoice
from manifoldgp.estimators.noisy_inputs import InputNoise
from manifoldgp.estimators.size_limit import SizeLimit
from manifoldgp.features import Features, Identity, Nested, as_features
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.means import as_mean
from manifoldgp.predictor import Predictor
from manifoldgp.predictor.file import plain_program
from manifoldgp.structure.search import SearchReport
from manifoldgp.training.settings import METHODS, Options
from manifoldgp.training.trained import START_FIELDS

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

Kind = TypeVar("Kind", bound=type)

_KINDS: dict[str, tuple[type[ManifoldGPRegressor], Callable[..., Any], Callable[..., Any]]] = {}
"""The estimators that a file can hold, by name, and how what predicts a target becomes named tensors and comes back."""

_WITH_EXTRAS = {"DeepGPRegressor": "manifoldgp.integrations.deep_gp"}
"""Estimators of modules that are imported when a file names one."""

_MOST_FITS = 10_000
"""Fits to the same rows that a file may tell of: each takes some random numbers."""

_NOT_STORED = ("callback", "warm_start_from", "device", "checkpoint", "cache")
"""Arguments of the estimators, and of their settings objects, that have no meaning elsewhere."""

_DTYPES = {"float64": torch.float64, "float32": torch.float32}
"""How factors can be written."""

_TOLD_LOSS = 1e-3
"""Share of standard deviations by which these or means change from which on a warning says so."""


def storable(cls: Kind, to_tensors: Callable[..., Any] = pack, from_tensors: Callable[..., Any] = unpack) -> Kind:
    """Decorates an estimator that a file can hold."""
    _KINDS[cls.__name__] = cls, to_tensors, from_tensors
    return cls


def save(
    estimator: ManifoldGPRegressor,
    path: str | Path,
    summary: dict[str, Any] | None = None,
    predictor: Predictor | None = None,
    dtype: str = "float64",
) -> None:
    """Write a fitted estimator to ``path``. What it predicts after :func:`load` is the same to the last bit.

    dtype: "float32" rounds the factors of exact members, which are most of a file; a warning says what standard deviations lose, and means that depend on them.
    summary: plain data about it, predictor: the same model as a program. Both can be read from the file without PyTorch; load and save forget them, for the
    model may change in between.
    """
    if dtype not in _DTYPES:
        raise InputError(f"dtype must be 'float64' or 'float32'; got {dtype!r}.")
    if dtype == "float32" and not any(isinstance(block, Posterior) for e in estimator.ensembles_ for block in e.blocks):
        raise InputError("dtype='float32' rounds the factors of exact members, and this model has none. Save it without dtype.")
    if dtype == "float32":
        _tell_loss(estimator)
    header, tensors = packed(estimator, _DTYPES[dtype])
    if summary is not None:
        header["summary"] = summary
    if predictor is not None:
        header["program"] = plain_program(predictor.program) | {"facts": predictor.facts() | {"table": None}}  # which is above
        constants = predictor.program.constants.items()
        tensors |= {f"program.{slot}": torch.from_numpy(np.ascontiguousarray(constant)) for slot, constant in constants}
    write(path, header, tensors)


def _tell_loss(estimator: ManifoldGPRegressor) -> None:
    """Warn where rounded factors change predictions: with very little noise standard deviations hold on to their last digits."""
    means, stds = (max(losses) for losses in zip(*(rounding_loss(e, torch.float32) for e in estimator.ensembles_), strict=True))
    if max(means, stds) > _TOLD_LOSS:
        of_means = f"means by up to {100 * means:.2g} % of these" if means else "means do not"
        warn(
            f"With dtype='float32' standard deviations change by up to {100 * stds:.2g} %, and {of_means} (at 200 training rows at most). "
            "Save with dtype='float64' to keep them."
        )


def packed(estimator: ManifoldGPRegressor, factors: torch.dtype = torch.float64) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a fitted estimator. factors: how those of exact members are rounded."""
    if type(estimator) not in (kind for kind, _, _ in _KINDS.values()):
        raise InputError(
            f"Only {' and '.join(_KINDS)} can be saved; a {type(estimator).__name__} is code that a file cannot hold."
        )
    tensors: dict[str, Tensor] = {}
    _, to_tensors, _ = _KINDS[type(estimator).__name__]
    rounded = (factors,) if to_tensors is pack else ()  # other posteriors have no such factors
    pack_scaler(estimator.x_scaler_, "x", tensors)
    pack_scaler(estimator.y_scaler_, "y", tensors)
    header = {
        "estimator": type(estimator).__name__,
        "settings": _settings(estimator),
        "flat": estimator._flat,
        "method": estimator.method_,
        "nlml": estimator.nlml_,
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", [])],
        "starts": estimator.starts_.tolist(),
        "histories": [h.tolist() for h in estimator.histories_],
        "ensembles": [to_tensors(e, f"ensemble{o}", tensors, *rounded) for o, e in enumerate(estimator.ensembles_)],
        "held_out": [pack_report(r, f"held_out{o}", tensors) for o, r in enumerate(estimator.held_out_)],
    }
    if estimator.interrupted_:
        header["interrupted"] = True
    if hasattr(estimator, "_draws"):
        header["draws"] = [estimator._draws.seed, estimator._draws.earlier]
    if hasattr(estimator, "search_"):
        header["search"] = [report.to_plain() for report in estimator.search_]
    encoding = getattr(estimator, "table_encoding_", None)
    if encoding is not None:
        header["table"] = encoding.to_plain()
    if hasattr(estimator, "target_names_"):
        header["target_names"] = [str(name) for name in estimator.target_names_]
    if hasattr(estimator, "group_column_"):
        header["group_column"] = estimator.group_column_
    for o, levels in enumerate(getattr(estimator, "_row_levels", ())):
        tensors[f"ensemble{o}.levels"] = torch.from_numpy(np.ascontiguousarray(levels))
    input_noise: InputNoise | None = getattr(estimator, "input_noise_", None)
    if input_noise is not None:
        header["input_noise"] = input_noise.to_plain()
    if hasattr(estimator, "switched_off_"):
        header["switched_off"] = estimator.switched_off_.tolist()
    choice: KernelChoice | None = getattr(estimator, "kernel_choice_", None)
    if choice is not None:
        header["kernel_choice"] = choice.to_plain()
    return header, tensors


def load(path: str | Path, modules: Sequence[torch.nn.Module] = (), device: str = "cpu") -> ManifoldGPRegressor:
    """The fitted estimator in ``path``.

    Parameters
    ----------
    path
        A file that ``estimator.save`` wrote. Loading it runs no code of the file.
    modules
        Your own torch modules, if the model's features or mean use any.
    device
        Where it is to predict.
    """
    return load_with_header(path, modules, device)[0]


def load_with_header(
    path: str | Path, modules: Sequence[torch.nn.Module] = (), device: str = "cpu"
) -> tuple[ManifoldGPRegressor, dict[str, Any]]:
    """The same, with the file's header: whoever keeps an estimator in a larger whole has written more there."""
    require_device(device)
    header, tensors = read(path)
    tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
    try:
        with SizeLimit(sum(tensor.numel() for tensor in tensors.values())):
            return _unpack(header, tensors, place_modules(header.get("settings"), list(modules)), device), header
    except ManifoldGPError as error:
        if isinstance(error, (FileFormatError, ModulesError, MissingExtraError)):
            raise
        raise FileFormatError(f"{path} is inconsistent: {error}") from error
    except Exception as error:  # whatever a forged file leads to, it is the file that is wrong
        raise FileFormatError(f"{path} is incomplete or inconsistent ({type(error).__name__}: {error}).") from error


def save_with_part(estimator: ManifoldGPRegressor, path: str | Path, part: str, plain: dict[str, Any]) -> None:
    """Write a fitted estimator, and under a name what the larger whole that keeps it has to say: :func:`load` gives the estimator alone."""
    header, tensors = packed(estimator)
    write(path, header | {part: plain}, tensors)


def load_with_part(path: str | Path, part: str, whole: str, device: str = "cpu") -> tuple[ManifoldGPRegressor, Any]:
    """The estimator in a file, and what the larger whole that keeps it has written there under a name; refuses a file without it."""
    regressor, header = load_with_header(path, device=device)
    if part not in header:
        raise FileFormatError(f"{path} holds a {type(regressor).__name__} and no {whole}. Use manifoldgp.load.")
    return regressor, header[part]


def _unpack(
    header: dict[str, Any], tensors: dict[str, Tensor], placed: dict[str, torch.nn.Module], device: str
) -> ManifoldGPRegressor:
    if header["estimator"] in _WITH_EXTRAS:
        import_module(_WITH_EXTRAS[header["estimator"]])
    kind, _, from_tensors = _KINDS[header["estimator"]]
    estimator = kind(**_stored_settings(rebuild(header["settings"], placed)), device=device)
    D, targets = len(take(tensors, "x.scale", (-1,))), len(take(tensors, "y.scale", (-1,)))
    estimator.n_features_in_, estimator.n_outputs_ = D, targets
    estimator.x_scaler_, estimator.y_scaler_ = unpack_scaler(tensors, "x", D), unpack_scaler(tensors, "y", targets)
    inputs = len(estimator.x_scaler_.columns)
    if len(header["ensembles"]) != targets or len(header["feature_names"]) not in (0, D):
        raise FileFormatError(
            f"The file's targets or feature names do not match its {counted(targets, 'target')} and {counted(D, 'input')}."
        )
    estimator.ensembles_ = [
        from_tensors(plain, f"ensemble{o}", tensors, placed, inputs) for o, plain in enumerate(header["ensembles"])
    ]
    if header["feature_names"]:
        estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    if "target_names" in header:
        estimator.target_names_ = _unpack_names(header["target_names"], targets)
    if "group_column" in header:
        estimator.group_column_ = str(header["group_column"])
    estimator._flat, estimator.nlml_, estimator.method_ = header["flat"], float(header["nlml"]), header["method"]
    if estimator.method_ not in METHODS or not isinstance(estimator._flat, bool) or (estimator._flat and targets > 1):
        raise FileFormatError(
            f"The file's method {estimator.method_!r}, or its shape of targets {estimator._flat!r}, is unknown."
        )
    estimator.starts_ = np.array([tuple(row) for row in header["starts"]], dtype=START_FIELDS)
    estimator.histories_ = [np.array(h, dtype=np.float64).reshape(-1) for h in header["histories"]]
    estimator.sampling_ = [None] * targets  # a file does not hold the draws of the chains
    estimator.held_out_ = [unpack_report(plain, f"held_out{o}", tensors) for o, plain in enumerate(header["held_out"])]
    estimator.interrupted_ = header.get("interrupted") is True
    if "draws" in header:
        estimator._draws = _unpack_draws(header["draws"])
    if "kernel_choice" in header:
        estimator.kernel_choice_ = KernelChoice(**header["kernel_choice"])  # pyright: ignore[reportAttributeAccessIssue]
    if "input_noise" in header:
        estimator.input_noise_ = InputNoise.from_plain(header["input_noise"], D, targets)
    if "switched_off" in header:
        estimator.switched_off_ = unpack_switched_off(header["switched_off"], estimator.x_scaler_)
    if "search" in header:
        estimator.search_ = [SearchReport.from_plain(plain) for plain in header["search"]]
    if "table" in header:
        estimator.table_encoding_ = TableEncoding.of_model(header["table"], header["feature_names"], D, targets)
        if "ensemble0.levels" in tensors:  # earlier files lack them
            counts = [len(column.categories) for column in estimator.table_encoding_.level_columns]
            estimator._row_levels = [unpack_levels(tensors, f"ensemble{o}.levels", counts) for o in range(targets)]
    return estimator


def _unpack_names(plain: Any, targets: int) -> np.ndarray:
    if not isinstance(plain, list) or len(plain) != targets or not all(isinstance(name, str) for name in plain):
        raise FileFormatError(f"The file's names of targets, {plain!r}, are not those of {counted(targets, 'target')}.")
    return np.array(plain, dtype=object)


def _unpack_draws(plain: Any) -> Draws:
    seed, earlier = plain
    if not (isinstance(seed, int) and isinstance(earlier, int) and 0 <= seed < 2**31 and 0 <= earlier < _MOST_FITS):
        raise FileFormatError(f"The file's seed and number of fits, {plain!r}, are none.")
    return Draws(seed, earlier)


def _stored_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The arguments without those that no file holds: a forged one must not name a file to write to."""
    kept = {name: value for name, value in settings.items() if name not in _NOT_STORED}
    return {name: _without_places(value) if isinstance(value, Options) else value for name, value in kept.items()}


def _without_places(options: Options) -> Options:
    return type(options)(**_stored_settings(options.get_params(deep=False)))


def _settings(estimator: ManifoldGPRegressor) -> Any:
    """The estimator's arguments, as plain data."""
    settings = _stored_settings(estimator.get_params(deep=False))
    if not isinstance(settings["random_state"], (Integral, type(None))):
        settings["random_state"] = None
    if isinstance(settings.get("mean"), torch.nn.Module):
        settings["mean"] = as_mean(settings["mean"])
    if settings.get("features") is not None:
        settings["features"] = _describable(as_features(settings["features"]), estimator)
    return describe(settings)


def _describable(given: Features, estimator: ManifoldGPRegressor) -> Features:
    """The features as given, or, where they hold a scikit-learn transformer, as they were when they had been fitted."""
    try:
        describe(given)
    except InputError:
        used = [block.model.features for e in estimator.ensembles_ for block in e.blocks]
        return next((f for f in used if not isinstance(f, (Identity, Nested))), given)
    return given
