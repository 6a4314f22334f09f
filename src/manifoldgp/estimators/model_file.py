"""Fitted estimators in files: one container of tensors and JSON, without pickle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from manifoldgp._system.bounded_json import dump, parse_table
from manifoldgp._system.files import written_whole
from manifoldgp._system.model_header import (
    FORMAT,
    MOST_TENSORS,
    VERSION,
    Part,
    checked_metadata,
    checksum,
    existing,
    refuse_other_checksum,
)
from manifoldgp._system.plain_text import counted
from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.data.encoding import TableEncoding
from manifoldgp.data.scaling import Standardizer
from manifoldgp.errors import FileFormatError, InputError, ManifoldGPError, MissingExtraError, warn
from manifoldgp.estimators.arguments import Draws, require_device
from manifoldgp.estimators.descriptions import ModulesError, describe, place_modules, rebuild
from manifoldgp.estimators.ensemble_file import LOGARITHM, NOT_NEGATIVE, POSITIVE, PROBABILITY, pack, rounding_loss, take, unpack
from manifoldgp.estimators.kernel_choice import KernelChoice
from manifoldgp.estimators.noisy_inputs import InputNoise
from manifoldgp.estimators.size_limit import SizeLimit
from manifoldgp.features import Features, Identity, Nested, as_features
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.means import as_mean
from manifoldgp.predictor import Predictor
from manifoldgp.predictor.file import plain_program
from manifoldgp.predictor.operations_mixtures import MOST_CERTAIN
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


def storable(cls: Kind, to_tensors: Callable[..., Any] = pack, from_tensors: Callable[..., Any] = unpack) -> Kind:
    """Decorates an estimator that a file can hold."""
    _KINDS[cls.__name__] = cls, to_tensors, from_tensors
    return cls


def write(path: str | Path, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write header and tensors, with format, version and a checksum of both. An existing file is replaced at once or not at all."""
    stored = {name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    try:
        text = dump(header)
    except (ValueError, TypeError) as error:
        wrong = error if isinstance(error, ValueError) else f"a value that JSON does not know ({error})"
        raise InputError(
            f"This model cannot be written to a file: its description has {wrong}. Use joblib.dump(estimator, path)."
        ) from error
    metadata = {"format": FORMAT, "version": str(VERSION), "checksum": _checksum(text, stored), "header": text}
    with written_whole(path) as partial:
        try:
            save_file(stored, partial, metadata)
        except SafetensorError as error:
            raise OSError(f"{path} could not be written: {error}") from error


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file; refuses one that is damaged, foreign, or of another version."""
    path = existing(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            text = checked_metadata(path, metadata)
            names = list(file.keys())
            if len(names) > MOST_TENSORS:
                raise FileFormatError(f"{path} has {len(names)} tensors; no model has more than {MOST_TENSORS}.")
            tensors = {name: file.get_tensor(name) for name in names}
        refuse_other_checksum(path, metadata, _checksum(text, tensors))
        return parse_table(text), tensors
    except (SafetensorError, OSError, ValueError, OverflowError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} is not a model file, or it is damaged ({error}).") from error


def _checksum(text: str, tensors: dict[str, Tensor]) -> str:
    return checksum(
        text, (Part(name, tuple(tensor.shape), str(tensor.dtype), _bytes(tensor)) for name, tensor in tensors.items())
    )


def _bytes(tensor: Tensor) -> bytes:
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


_MOST_FITS = 10_000
"""Fits to the same rows that a file may tell of: each takes some random numbers."""

_NOT_STORED = ("callback", "warm_start_from", "device", "checkpoint", "cache")
"""Arguments of the estimators, and of their settings objects, that have no meaning elsewhere."""


_DTYPES = {"float64": torch.float64, "float32": torch.float32}
"""How factors can be written."""

_TOLD_LOSS = 1e-3
"""Share of standard deviations by which these or means change from which on a warning says so."""


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
    if not estimator.x_scaler_.sees_columns_as_they_are:
        tensors["x.place"] = torch.from_numpy(estimator.x_scaler_.place)
    for axis, scaler in (("x", estimator.x_scaler_), ("y", estimator.y_scaler_)):
        tensors[f"{axis}.offset"], tensors[f"{axis}.scale"] = torch.from_numpy(scaler.offset), torch.from_numpy(scaler.scale)
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
        "held_out": [_pack_report(r, f"held_out{o}", tensors) for o, r in enumerate(estimator.held_out_)],
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
    estimator.x_scaler_, estimator.y_scaler_ = _unpack_scaler(tensors, "x", D), _unpack_scaler(tensors, "y", targets)
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
    estimator._flat, estimator.nlml_, estimator.method_ = header["flat"], float(header["nlml"]), header["method"]
    if estimator.method_ not in METHODS or not isinstance(estimator._flat, bool) or (estimator._flat and targets > 1):
        raise FileFormatError(
            f"The file's method {estimator.method_!r}, or its shape of targets {estimator._flat!r}, is unknown."
        )
    estimator.starts_ = np.array([tuple(row) for row in header["starts"]], dtype=START_FIELDS)
    estimator.histories_ = [np.array(h, dtype=np.float64).reshape(-1) for h in header["histories"]]
    estimator.sampling_ = [None] * targets  # a file does not hold the draws of the chains
    estimator.held_out_ = [_unpack_report(plain, f"held_out{o}", tensors) for o, plain in enumerate(header["held_out"])]
    estimator.interrupted_ = header.get("interrupted") is True
    if "draws" in header:
        estimator._draws = _unpack_draws(header["draws"])
    if "kernel_choice" in header:
        estimator.kernel_choice_ = KernelChoice(**header["kernel_choice"])  # pyright: ignore[reportAttributeAccessIssue]
    if "input_noise" in header:
        estimator.input_noise_ = InputNoise.from_plain(header["input_noise"], D, targets)
    if "switched_off" in header:
        estimator.switched_off_ = _unpack_switched_off(header["switched_off"], estimator.x_scaler_)
    if "search" in header:
        estimator.search_ = [SearchReport.from_plain(plain) for plain in header["search"]]
    if "table" in header:
        estimator.table_encoding_ = _unpack_encoding(header["table"], header["feature_names"], D, targets)
        if "ensemble0.levels" in tensors:  # earlier files lack them
            counts = [len(column.categories) for column in estimator.table_encoding_.level_columns]
            estimator._row_levels = [_unpack_levels(tensors, f"ensemble{o}.levels", counts) for o in range(targets)]
    return estimator


def _unpack_levels(tensors: dict[str, Tensor], name: str, counts: list[int]) -> np.ndarray:
    """Which categories (n, C) rows have, of so many in each column."""
    levels = take(tensors, name, (-1, len(counts)), torch.int32).cpu().numpy()
    if ((levels < -1) | (levels >= counts)).any():
        raise FileFormatError("The file's rows have categories that its table does not know. The file is damaged or forged.")
    return levels


def _unpack_names(plain: Any, targets: int) -> np.ndarray:
    if not isinstance(plain, list) or len(plain) != targets or not all(isinstance(name, str) for name in plain):
        raise FileFormatError(f"The file's names of targets, {plain!r}, are not those of {counted(targets, 'target')}.")
    return np.array(plain, dtype=object)


def _unpack_draws(plain: Any) -> Draws:
    seed, earlier = plain
    if not (isinstance(seed, int) and isinstance(earlier, int) and 0 <= seed < 2**31 and 0 <= earlier < _MOST_FITS):
        raise FileFormatError(f"The file's seed and number of fits, {plain!r}, are none.")
    return Draws(seed, earlier)


def _unpack_switched_off(plain: list[int], scaler: Standardizer) -> np.ndarray:
    unseen = np.flatnonzero(scaler.place < 0).tolist()
    if not set(plain) <= set(unseen):
        raise FileFormatError(f"The file's columns that are switched off, {plain}, are not among those without effect, {unseen}.")
    return np.array(plain, dtype=np.int64)


def _stored_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The arguments without those that no file holds: a forged one must not name a file to write to."""
    kept = {name: value for name, value in settings.items() if name not in _NOT_STORED}
    return {name: _without_places(value) if isinstance(value, Options) else value for name, value in kept.items()}


def _without_places(options: Options) -> Options:
    return type(options)(**_stored_settings(options.get_params(deep=False)))


def _unpack_scaler(tensors: dict[str, Tensor], axis: str, columns: int) -> Standardizer:
    offset, scale = take(tensors, f"{axis}.offset", (columns,)), take(tensors, f"{axis}.scale", (columns,), domain=POSITIVE)
    if f"{axis}.place" not in tensors:
        return Standardizer(offset.cpu().numpy(), scale.cpu().numpy())
    place = take(tensors, f"{axis}.place", (columns,), torch.int64).cpu().numpy()
    seen = np.unique(place[place >= 0])
    if place.min() < -1 or not len(seen) or not np.array_equal(seen, np.arange(len(seen))):
        raise FileFormatError(f"The file's places of columns, {place.tolist()}, do not number the inputs of its model.")
    return Standardizer(offset.cpu().numpy(), scale.cpu().numpy(), place)


def _unpack_encoding(plain: Any, names: list[str], D: int, targets: int) -> TableEncoding:
    encoding = TableEncoding.from_plain(plain)
    if len(encoding.names) != D or len(encoding.targets) != targets:
        raise FileFormatError(
            f"The file's table has {counted(len(encoding.names), 'input')} and {counted(len(encoding.targets), 'target')}; its model has {D} and {targets}."
        )
    if names and tuple(names) != encoding.names:
        raise FileFormatError("The file's table becomes other columns than those that its model was fitted to.")
    if encoding.donors is not None and any(len(row) != D for row in encoding.donors.rows):
        raise FileFormatError(f"The rows that the file's table takes values from do not have {counted(D, 'column')}.")
    return encoding


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


def _pack_report(report: HeldOutReport | None, name: str, tensors: dict[str, Tensor]) -> Any:
    if report is None:
        return None
    tensors[f"{name}.weights"], tensors[f"{name}.pit"] = torch.from_numpy(report.weights), torch.from_numpy(report.pit)
    for key, value in report.log_density.items():
        tensors[f"{name}.log_density.{key}"] = torch.from_numpy(value)
    if report.together is not None:
        tensors[f"{name}.together"] = torch.from_numpy(report.together)
    if report.mean is not None and report.observed is not None:
        tensors[f"{name}.mean"], tensors[f"{name}.observed"] = torch.from_numpy(report.mean), torch.from_numpy(report.observed)
    return {
        "means": report.mean is not None and report.observed is not None,
        "cut_short": list(report.cut_short),
        "left_out": list(report.left_out),
        "ordered": report.ordered,
        "together": report.together is not None,
        "following": [report.exponent, report.following],
        "groups": list(report.groups),
        "variance_factors": list(report.variance_factors),
        "densities": list(report.log_density),
    }


def _unpack_report(plain: Any, name: str, tensors: dict[str, Tensor]) -> HeldOutReport | None:
    if plain is None:
        return None
    pit = take(tensors, f"{name}.pit", (-1,), domain=PROBABILITY).cpu().numpy()
    shape = len(plain["groups"]), len(plain["variance_factors"])
    weights = take(tensors, f"{name}.weights", shape, domain=NOT_NEGATIVE).cpu().numpy()
    log_density = {
        key: take(tensors, f"{name}.log_density.{key}", (len(pit),), domain=LOGARITHM).cpu().numpy() for key in plain["densities"]
    }
    means = [
        take(tensors, f"{name}.{part}", (len(pit),)).cpu().numpy() if plain["means"] else None for part in ("mean", "observed")
    ]
    groups, factors, cut_short = (tuple(plain[part]) for part in ("groups", "variance_factors", "cut_short"))
    ordered, left_out = plain.get("ordered", False) is True, tuple(plain.get("left_out", ()))  # earlier files do not say
    together = None
    if plain.get("together", False) is True:
        together = take(tensors, f"{name}.together", (len(pit),), torch.int64, NOT_NEGATIVE).cpu().numpy()
    exponent, following = map(float, plain.get("following", (0.0, 0.0)))
    if not (0.0 <= exponent <= MOST_CERTAIN and 0.0 <= following <= 1.0):
        raise FileFormatError(
            f"Weights should follow a power of variances from 0 to {MOST_CERTAIN:g} in a share from 0 to 1; the file says {exponent} and {following}."
        )
    return HeldOutReport(
        groups,
        factors,
        weights,
        log_density,
        pit,
        means[0],
        means[1],
        cut_short,
        ordered,
        together,
        exponent,
        following,
        left_out,
    )
