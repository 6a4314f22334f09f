"""The file itself: named tensors and one JSON header, versioned and checked."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from manifoldgp.errors import FileFormatError
from manifoldgp.whole_files import written_whole

FORMAT, VERSION = "manifoldgp", 1


def write(path: str | Path, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write header and tensors, with format, version and a checksum of both. An existing file is replaced at once or not at all."""
    stored = {name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    text = json.dumps(header)
    metadata = {"format": FORMAT, "version": str(VERSION), "checksum": _checksum(text, stored), "header": text}
    with written_whole(path) as partial:
        try:
            save_file(stored, partial, metadata)
        except SafetensorError as error:
            raise OSError(f"{path} could not be written: {error}") from error


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file; refuses one that is damaged, foreign, or of another version."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise FileFormatError(f"{path} is a safetensors file, but not a model of this package.")
            if metadata.get("version") != str(VERSION):
                raise FileFormatError(
                    f"{path} has format version {metadata.get('version')}; this package reads version {VERSION}."
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError) as error:
        raise FileFormatError(f"{path} is not a model file, or it is damaged ({error}).") from error
    text = metadata.get("header", "")
    if _checksum(text, tensors) != metadata.get("checksum"):
        raise FileFormatError(
            f"{path} is damaged: its contents do not match their checksum. Copy it again, or save the model anew."
        )
    return json.loads(text), tensors


def _checksum(text: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return digest.hexdigest()
