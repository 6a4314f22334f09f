"""The header of a model file, checked against all of the file's bytes, without PyTorch.

A model file is a safetensors file: eight bytes that say how long its table is, the table as JSON, and the bytes of the tensors. Of the table's metadata,
``header`` is the plain data of the model and ``checksum`` the digest of header and tensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from manifoldgp._system.bounded_json import parse_table
from manifoldgp.errors import FileFormatError

FORMAT, VERSION = "manifoldgp", 1
_LONGEST_TABLE = 100_000_000
"""Bytes; safetensors itself reads no longer one."""

MOST_TENSORS = 100_000
"""A block of members has about twenty. Each costs a kilobyte and some microseconds, however small it is."""

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool", "U8": "uint8",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
}  # fmt: skip


class Part(NamedTuple):
    """One tensor: its name, shape, dtype as PyTorch calls it, and bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: Any


def checksum(text: str, parts: Iterable[Part]) -> str:
    """The digest of a header's text and of all tensors, whatever their order."""
    digest = hashlib.sha256(text.encode())
    for part in sorted(parts, key=lambda part: part.name):
        digest.update(f"{part.name} {part.shape} {part.dtype}".encode())
        digest.update(part.data)
    return digest.hexdigest()


def checked_metadata(path: Path, metadata: dict[str, str]) -> str:
    """The text of the header; refuses metadata of a foreign file or of another version."""
    if metadata.get("format") != FORMAT:
        raise FileFormatError(f"{path} is a safetensors file, but not a model of this package.")
    if metadata.get("version") != str(VERSION):
        raise FileFormatError(f"{path} has format version {metadata.get('version')}; this package reads version {VERSION}.")
    return metadata.get("header", "")


def refuse_other_checksum(path: Path, metadata: dict[str, str], found: str) -> None:
    """Refuse a file whose contents are not those that were written."""
    if found != metadata.get("checksum"):
        raise FileFormatError(
            f"{path} is damaged: its contents do not match their checksum. Copy it again, or save the model anew."
        )


def read_header(path: str | Path) -> dict[str, Any]:
    """The plain data of a model file; refuses one that is damaged, foreign, or of another version."""
    return read_parts(path)[0]


def read_parts(path: str | Path) -> tuple[dict[str, Any], list[Part]]:
    """The plain data of a model file, and its tensors."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    try:
        metadata, parts = _table(memoryview(path.read_bytes()))
        text = checked_metadata(path, metadata)
        found, header = checksum(text, parts), parse_table(text)
    except FileFormatError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"{path} is not a model file, or it is damaged ({error}).") from error
    refuse_other_checksum(path, metadata, found)
    return header, parts


def _table(data: memoryview) -> tuple[dict[str, str], list[Part]]:
    """Metadata and tensors of a safetensors file."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, _LONGEST_TABLE):
        raise ValueError("its table is longer than the file")
    table = parse_table(bytes(data[8 : 8 + length]))
    metadata, begin = table.pop("__metadata__", {}), 8 + length
    parts = []
    for name, entry in table.items():
        first, last = entry["data_offsets"]
        if not 0 <= first <= last <= len(data) - begin:
            raise ValueError(f"the tensor {name!r} lies outside of the file")
        shape = tuple(int(size) for size in entry["shape"])
        parts.append(Part(name, shape, f"torch.{_DTYPES[entry['dtype']]}", data[begin + first : begin + last]))
    return metadata, parts
