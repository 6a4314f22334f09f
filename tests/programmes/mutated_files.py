"""Model and predictor files that were damaged or forged: refused by a FileFormatError, or as good as others, within 2 seconds and 1 GiB beyond their size."""

from __future__ import annotations

import copy
import io
import json
import resource
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save

import manifoldgp
from manifoldgp import (
    DeepGPRegressor,
    Forecaster,
    GPRegressor,
    KernelSearch,
    Local,
    ManifoldGPRegressor,
    Predictor,
    Single,
    Sparse,
    Stack,
    TanhWarping,
    features,
    kernels,
)
from manifoldgp._system import tensor_file
from manifoldgp._system.model_header import FORMAT, VERSIONS
from manifoldgp.dynamics import DynamicsModel, Trajectories
from manifoldgp.errors import FileFormatError, ManifoldGPError
from manifoldgp.estimators.descriptions import ModulesError
from manifoldgp.inference.certainty import Certainty

from .cases import Case, ForbiddenError, require_usable
from .configurations import SMALL_STACK

MOST_SECONDS, MOST_BYTES = 2.0, 2**30

_NASTY: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, -(2**31), 2**31, 2**63, 2**64, 400_000_000, 10**30, 10**400, 0.0, -0.0, 0.5, -1.5, 1e-320, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"), "", "a", "se", "stack", "\x00", "<script>", "../../etc/passwd", "os.system", "kernels.SquaredExponential",
    "kernels.SpectralMixture", "features.MLP", "features.RandomEmbedding", "warping.TanhWarping", "method.Sparse", "model.Model", [], {}, [[]], [0] * 1000,
    {"class": "kernels.SpectralMixture", "fields": {"components": 400_000_000}}, {"class": "features.RandomEmbedding", "fields": {"q": 400_000_000}},
    {"class": "warping.TanhWarping", "fields": {"terms": 400_000_000}}, {"class": "features.MLP", "fields": {"sizes": [10**9, 10**9]}},
    {"class": "features.PCA", "fields": {"q": 10**9}}, {"class": "method.Sparse", "fields": {"checkpoint": "forged"}},
    {"class": "features.Concatenate", "fields": {"parts": [{"class": "features.Identity", "fields": {}}] * 50}},
    {"torch_module": "Linear", "where": ""}, {"items": {}},
]  # fmt: skip


_DEEP = "@deep"
"""Stands for a thousand or a hundred thousand lists inside each other, which Python's own functions could not copy."""


def _text(plain: Any) -> str:
    text = json.dumps(plain)
    for levels in (100, 1000, 100_000):
        text = text.replace(f'"{_DEEP}{levels}"', "[" * levels + "]" * levels)
    return text


def _doubling(levels: int) -> Any:
    """Features without parameters whose width doubles with each part of a chain."""
    two = {"class": "features.Concatenate", "fields": {"parts": [{"class": "features.Identity", "fields": {}}] * 2}}
    return {"class": "features.Chain", "fields": {"parts": [two] * levels}}


@cache
def model_files() -> list[bytes]:
    """Files of small models with all kinds of parts."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        return [_written(model.save, Path(folder) / str(i)) for i, model in enumerate(_fitted())]


def _fitted() -> list[ManifoldGPRegressor]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 3))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
    quick = Single(restarts=1, max_iter=2)
    return [
        ManifoldGPRegressor((3, 2), averaging=quick).fit(X, y),
        ManifoldGPRegressor(
            features.RandomEmbedding(2), kernel=kernels.SpectralMixture(2), target_warping=TanhWarping(2), averaging=quick
        ).fit(X, y),
        ManifoldGPRegressor(features.PCA(2) >> features.MLP((2,)), mean="linear", averaging=quick).fit(X, np.stack([y, -y], 1)),
        _by_certainty(
            ManifoldGPRegressor(features.Kumaraswamy(), kernel="nn", averaging=Stack(own_members=1, deals=1)).fit(
                X, y, noise_std=0.1
            )
        ),
        ManifoldGPRegressor((2,), method=Sparse(inducing=4), averaging=quick).fit(X, y),
        GPRegressor(kernel=kernels.Matern32(dims=(0, 2)) + kernels.Linear() * kernels.Constant(), restarts=1, max_iter=2).fit(
            X, y
        ),
        ManifoldGPRegressor(averaging=SMALL_STACK, method=Local(cell=3, near=6)).fit(X, y),
    ]


def _by_certainty(model: ManifoldGPRegressor) -> ManifoldGPRegressor:
    """The model with weights that follow how sure its members are."""
    (ensemble,) = model.ensembles_
    usual = [torch.linspace(-2.0, 0.0, block.members, dtype=torch.float64) for block in ensemble.blocks]
    model.ensembles_ = [replace(ensemble, certainty=Certainty(0.7, 0.8, usual))]
    return model


@cache
def predictor_files() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path, kept = Path(folder) / "file", []
        for data in model_files():
            path.write_bytes(data)
            kept.append(_written(manifoldgp.load(path).predictor().save, Path(folder) / "predictor"))
        return kept


def _written(write: Callable[[Path], None], path: Path) -> bytes:
    write(path)
    return path.read_bytes()


def mutated_model(rng: np.random.Generator) -> str:
    """A model file with bytes, or header and tensors, changed; predictions at its own rows are numbers if it loads."""
    data = model_files()[rng.integers(len(model_files()))]
    changed = _damaged(data, rng) if rng.random() < 0.2 else _forged_model(data, rng)
    return _outcome(changed, _predict_by_model)


def mutated_predictor(rng: np.random.Generator) -> str:
    """The same for a predictor file."""
    data = predictor_files()[rng.integers(len(predictor_files()))]
    changed = _damaged(data, rng) if rng.random() < 0.2 else _forged_predictor(data, rng)
    return _outcome(changed, _predict_by_predictor)


@dataclass(frozen=True)
class _Whole:
    """A file of something larger than a regression: its bytes, the part of the header that is its own, and how it is read and used."""

    data: bytes
    part: str
    use: Callable[[Path], None]


@cache
def whole_files() -> list[_Whole]:
    """Files of forecasters, dynamics, kernel searches, deep GPs, auto-encoders, tables with text and dates, and of a fit that went on."""
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(14, 3)), np.arange(40)
    y, quick = np.sin(X[:, 0]) + 0.3 * X[:, 1], Single(restarts=1, max_iter=2)
    gp = GPRegressor(restarts=1, max_iter=2)
    months = pd.Series(np.sin(t / 3), index=pd.date_range("2020-01-01", periods=40, freq="MS"))
    runs = Trajectories.from_arrays(
        [np.stack([np.sin(t / 5), np.cos(t / 5)], 1)[i : i + 14] for i in (0, 14)], dt=0.1, state_names=["angle", "rate"]
    )
    table = pd.DataFrame(
        {
            "kind": list("abc" * 14),
            "place": [f"p{i % 12}" for i in range(42)],
            "day": pd.date_range("2020-01-01", periods=42),
            "x": np.arange(42.0),
        }
    )
    table.loc[3, "x"] = np.nan
    stack = ManifoldGPRegressor(
        (2,), averaging=Stack(own_members=1, deals=1, gp_starts=1, warm_members=1, cold_members=1, steps=(2, 4))
    )
    made: list[tuple[Any, str, Callable[[Path], None]]] = [
        (Forecaster(gp, lags=3).fit(months), "forecast", _forecast),
        (DynamicsModel(gp, angles=["angle"], rates={"angle": "rate"}).fit(runs), "dynamics", _roll_out),
        (KernelSearch(1, kernels=("linear", "se")).fit(X, y), "search", _predict_by_model),
        (ManifoldGPRegressor(features.AutoEncoder((2,), steps=3), averaging=quick).fit(X, y), "settings", _predict_by_model),
        (DeepGPRegressor(inducing=6, batch=14, max_iter=3).fit(X, y), "ensembles", _predict_rows),
        (ManifoldGPRegressor((2,), averaging=quick, missing="impute").fit(table, np.sin(np.arange(42.0))), "table", _predict_rows),
        (stack.fit(X, y).fit_more(X, y, seconds=0.5), "held_out", _predict_by_model),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        return [_Whole(_written(model.save, Path(folder) / str(i)), part, use) for i, (model, part, use) in enumerate(made)]


@contextmanager
def _may_be_refused() -> Iterator[None]:
    """A forged file may hold data, a scale or a table that is whole and far from what it is asked; that is told in words, as it would be of any model."""
    try:
        yield
    except ManifoldGPError as error:
        raise FileFormatError(str(error)) from error


def _forecast(path: Path) -> None:
    model = Forecaster.load(path)
    with _may_be_refused():
        forecast = model.forecast(3, draws=5)
        require_usable(forecast.mean, forecast.std)


def _roll_out(path: Path) -> None:
    model = DynamicsModel.load(path)
    with _may_be_refused():
        ahead = model.rollout([0.1, 0.9], horizon=3, particles=5)
        if not np.isfinite(ahead.mean).all():
            raise ForbiddenError("a rollout that is no number")


def _predict_rows(path: Path) -> None:
    """Of a model of arrays, or of the table below."""
    model = manifoldgp.load(path)
    row = {"kind": "a", "place": "p3", "day": pd.Timestamp("2020-01-03"), "x": np.nan}
    with _may_be_refused():
        known = getattr(model, "table_encoding_", None) is None
        require_usable(
            *model.predict(np.zeros((2, model.n_features_in_)) if known else pd.DataFrame([row, row]), return_std=True)
        )


def mutated_whole(rng: np.random.Generator) -> str:
    """The same for files of larger wholes; every other forgery is of what is their own."""
    whole = whole_files()[rng.integers(len(whole_files()))]
    part = whole.part if rng.random() < 0.5 else None
    return _outcome(_damaged(whole.data, rng) if rng.random() < 0.2 else _forged_model(whole.data, rng, part), whole.use)


AREAS: dict[str, Case] = {"model-files": mutated_model, "predictor-files": mutated_predictor, "whole-files": mutated_whole}


def _outcome(data: bytes, use: Callable[[Path], None]) -> str:
    """Reads and uses a file: it is refused by a FileFormatError, or what was read answers; `use` says which other refusals are right."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        before, begin = _peak_bytes(), time.process_time()
        try:
            use(path)
            outcome = "loaded"
        except (FileFormatError, ModulesError):  # a file may ask for modules, which nobody brings here
            outcome = "refused"
        seconds, grown = time.process_time() - begin, _peak_bytes() - before
    if seconds > MOST_SECONDS or grown > MOST_BYTES + len(data):
        raise ForbiddenError(f"{seconds:.1f} s and {grown / 2**20:.0f} MiB for a file of {len(data)} bytes that was {outcome}")
    return outcome


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _predict_by_model(path: Path) -> None:
    model = manifoldgp.load(path)
    X = model.x_scaler_.offset + model.x_scaler_.scale * model.ensembles_[0].blocks[0].data.X[:2].numpy()
    with _may_be_refused():
        require_usable(*model.predict(X, return_std=True))


def _predict_by_predictor(path: Path) -> None:
    predictor = Predictor.load(path)
    mean, std = predictor(predictor.x_offset[None], return_std=True)
    if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std >= 0).all()):
        raise ForbiddenError("predictions that are no numbers")
    with _may_be_refused():  # of an earlier version, without members
        for mixture in predictor.mixtures(predictor.x_offset[None]):
            if np.isnan([*mixture.moments(), mixture.quantile(0.05)]).any():
                raise ForbiddenError("a distribution that is none")


def _damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Bits flipped, an end cut off, a piece taken out or doubled."""
    kind, at = rng.integers(4), int(rng.integers(len(data)))
    if kind == 0:
        changed = bytearray(data)
        for position in rng.integers(len(data), size=rng.integers(1, 20)):
            changed[position] ^= 1 << int(rng.integers(8))
        return bytes(changed)
    until = min(len(data), at + int(rng.integers(1, 200)))
    return [data[:at], data[:at] + data[until:], data[:until] + data[at:]][kind - 1]


def _forged_model(data: bytes, rng: np.random.Generator, part: str | None = None) -> bytes:
    """Header and tensors changed, with a checksum that fits. part: of the header, where changes are to be made."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        header, tensors = tensor_file.read(path)
        for _ in range(rng.integers(1, 4)):
            if part is not None and isinstance(header.get(part), (dict, list)):
                header = {**header, part: _changed_json(header[part], rng)}
            elif rng.random() < 0.5:
                header = _changed_json(header, rng)
            else:
                _change_tensor(tensors, rng)
    text = _text(header)
    return data if len(text) > 50_000_000 else with_checksum(text, tensors)  # which safetensors would not write: two such pieces


def with_checksum(text: str, tensors: dict[str, torch.Tensor]) -> bytes:
    """A model file with this header, whatever it says, and a checksum that fits."""
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    metadata = {"format": FORMAT, "version": VERSIONS[-1], "checksum": tensor_file.checksum_of(text, tensors), "header": text}
    return save(tensors, metadata)


def _forged_predictor(data: bytes, rng: np.random.Generator) -> bytes:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes())
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.6:
            header = _changed_json(header, rng)
        else:
            _change_array(arrays, rng)
    text = _text(header).encode()
    file = io.BytesIO()
    write = np.savez_compressed if rng.random() < 0.05 else np.savez
    write(file, header=np.frombuffer(text, dtype=np.uint8), **arrays)
    if rng.random() < 0.05:
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(
                "slot999.npy",
                b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,)}".ljust(128) + b"\n",
            )
    return file.getvalue()


def _changed_json(plain: Any, rng: np.random.Generator) -> Any:
    """One value somewhere in plain data replaced, removed, doubled, or exchanged for another one."""
    plain = copy.deepcopy(plain)
    places = list(_places(plain))
    if not places:
        return plain
    owner, key = places[rng.integers(len(places))]
    kind = rng.random()
    if kind < 0.6:
        value = _NASTY[rng.integers(len(_NASTY))]
        owner[key] = (
            owner[key] * float(rng.choice([-1.0, 0.0, 1e6, 1e-6]))
            if _is_number(owner[key]) and abs(owner[key]) < 1e300 and kind < 0.2
            else copy.deepcopy(value)
        )
    elif kind < 0.7:
        other, name = places[rng.integers(len(places))]
        owner[key] = copy.deepcopy(other[name])
    elif kind < 0.8:
        del owner[key]
    elif kind < 0.9 and isinstance(owner, list):
        owner.append(copy.deepcopy(owner[key]))
    else:
        owner[key] = [
            f"{_DEEP}{rng.choice([100, 1000, 100_000])}",
            _doubling(int(rng.choice([3, 30, 70]))),
            [0] * 10_000,
            "x" * 10_000,
        ][rng.integers(4)]
    return plain


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _places(plain: Any) -> Any:
    for key, value in list(plain.items()) if isinstance(plain, dict) else enumerate(plain):
        yield plain, key
        if isinstance(value, (dict, list)):
            yield from _places(value)


def _change_tensor(tensors: dict[str, torch.Tensor], rng: np.random.Generator) -> None:
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    _change_array(arrays, rng)
    for name in set(tensors) - set(arrays):
        del tensors[name]
    tensors.update(
        {name: torch.from_numpy(np.array(array, order="C")) for name, array in arrays.items() if array.dtype != np.dtype(object)}
    )


def _change_array(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """One array with other values, another shape or another dtype; or gone, or under another name."""
    if not arrays:
        return
    names = list(arrays)
    name, other = names[rng.integers(len(names))], names[rng.integers(len(names))]
    array = np.array(arrays[name])
    kind = rng.integers(9)
    if kind == 0 and array.size:
        array.reshape(-1)[rng.integers(array.size)] = (
            rng.choice([0, 1, -1, 1e3, -1e3]) if array.dtype.kind in "iu" else _number(rng)
        )
        arrays[name] = array
    elif kind == 1:
        arrays[name] = array * (0 if array.dtype.kind in "iu" else rng.choice([-1.0, 0.0, 1e-200, 1e200]))
    elif kind == 2:
        del arrays[name]
    elif kind == 3:
        arrays[name] = arrays[other]
    elif kind == 4:
        arrays[name] = array.astype(rng.choice(["float32", "int64", "uint8", "float64", "bool"]))
    elif kind == 5:
        arrays[name] = array.reshape(-1)
    elif kind == 6:
        arrays[name] = array[..., None] if rng.random() < 0.5 or not array.ndim else array[:0]
    elif kind == 7:
        arrays[name] = np.concatenate([array, array], -1) if array.ndim else np.stack([array, array])
    else:
        arrays[f"{name}x" if rng.random() < 0.5 else "slot-5"] = array


def _number(rng: np.random.Generator) -> float:
    return float(rng.choice([np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, -1e308, 1e-320, 1e20, rng.normal()]))
