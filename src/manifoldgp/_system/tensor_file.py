"""One file of named tensors and a header of plain data: written whole, read against its checksum, and each tensor checked as it is taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from manifoldgp._system.bounded_json import dump, parse_table
from manifoldgp._system.files import written_whole
from manifoldgp._system.model_header import (
    FORMAT,
    MOST_TENSORS,
    Part,
    checked_metadata,
    checksum,
    existing,
    refuse_other_checksum,
    version_of,
)
from manifoldgp.errors import FileFormatError, InputError

FINITE = "finite"
MODERATE = "below 1e50 in size"
POSITIVE = "finite and positive"
NOT_NEGATIVE = "finite and not negative"
PROBABILITY = "between 0 and 1"
LOGARITHM = "logarithms of weights or densities"
LOG_VARIANCE = "logarithms of variances"
NUMBER = "numbers"
"""What the values of a tensor must be."""

_HOLDS: dict[str, Callable[[Tensor], Tensor]] = {
    FINITE: torch.isfinite,
    MODERATE: lambda t: t.abs() < 1e50,  # in the model's units: products of what they give are finite too
    POSITIVE: lambda t: torch.isfinite(t) & (t > 0),
    NOT_NEGATIVE: lambda t: torch.isfinite(t) & (t >= 0),
    PROBABILITY: lambda t: (t >= 0) & (t <= 1),
    LOGARITHM: lambda t: t < math.inf,  # minus infinity: a weight of zero
    LOG_VARIANCE: lambda t: t.abs() < 600,  # the variance and its inverse are numbers
    NUMBER: lambda t: ~t.isnan(),  # a module's buffer may hold an infinite bound
}


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
    metadata = {"format": FORMAT, "version": version_of(header), "checksum": checksum_of(text, stored), "header": text}
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
        refuse_other_checksum(path, metadata, checksum_of(text, tensors))
        return parse_table(text), tensors
    except (SafetensorError, OSError, ValueError, OverflowError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} is not a model file, or it is damaged ({error}).") from error


def checksum_of(text: str, tensors: dict[str, Tensor]) -> str:
    """The digest of a header and its tensors."""
    return checksum(
        text, (Part(name, tuple(tensor.shape), str(tensor.dtype), _bytes(tensor)) for name, tensor in tensors.items())
    )


def _bytes(tensor: Tensor) -> bytes:
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def take(
    tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float64, domain: str = FINITE
) -> Tensor:
    """A tensor of the file, which must have this shape (−1: any size but zero), this dtype, and values of this domain."""
    if name not in tensors:
        raise FileFormatError(f"The file has no tensor {name!r}.")
    tensor = tensors[name]
    fits = len(shape) == tensor.ndim and all(t == s or (s == -1 and t > 0) for s, t in zip(shape, tensor.shape, strict=True))
    if not fits or tensor.dtype != dtype:
        raise FileFormatError(
            f"The tensor {name!r} should be {dtype} of shape {shape}; the file has {tensor.dtype} of shape {tuple(tensor.shape)}. "
            "The file is damaged, or a module given to load differs from the one that was saved."
        )
    if not bool(_HOLDS[domain](tensor).all()):
        raise FileFormatError(
            f"The values of the tensor {name!r} should be {domain}, and some are not. The file is damaged or forged."
        )
    return tensor
