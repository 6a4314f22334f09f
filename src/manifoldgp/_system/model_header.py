"""The header of a model file, checked against all of the file's bytes, without PyTorch.

A model file is a safetensors file: eight bytes that say how long its table is, the table as JSON, and the bytes of the tensors. Of the table's metadata,
``header`` is the plain data of the model and ``checksum`` the digest of header and tensors.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from manifoldgp._system.bounded_json import parse_table
from manifoldgp.errors import FileFormatError

FORMAT, VERSIONS = "manifoldgp", ("1", "2")
"""Version 2 is of files that a reader of version 1 would misread, see :func:`version_of`; all others are written as version 1."""

_LONGEST_TABLE = 100_000_000
"""Bytes; safetensors itself reads no longer one."""

_PIECE = 2**20
"""Bytes that are read at a time."""

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


def version_of(header: dict[str, Any]) -> str:
    """The version of a file with this header: the second where weights follow how sure members are, or where a program gives the components of warped targets.

    Readers of the first would take the weights as they are, and such components for those of y.
    """
    certain = any("certainty" in plain for plain in header.get("ensembles", ()))
    mixture = header["program"]["facts"]["mixture"] if "program" in header else None
    return VERSIONS[certain or bool(mixture and {"scales", "exponents"} & set(mixture))]


def checksum(text: str, parts: Iterable[Part]) -> str:
    """The digest of a header's text and of all tensors, whatever their order."""
    digest = hashlib.sha256(text.encode())
    for part in sorted(parts, key=lambda part: part.name):
        digest.update(_title(part))
        digest.update(part.data)
    return digest.hexdigest()


def _title(part: Part) -> bytes:
    """What stands before a tensor's bytes in the digest."""
    return f"{part.name} {part.shape} {part.dtype}".encode()


def checked_metadata(path: Path, metadata: dict[str, str]) -> str:
    """The text of the header; refuses metadata of a foreign file or of another version."""
    if metadata.get("format") != FORMAT:
        raise FileFormatError(f"{path} is a safetensors file, but not a model of this package.")
    if metadata.get("version") not in VERSIONS:
        raise FileFormatError(
            f"{path} has format version {metadata.get('version')}; this package reads versions {' and '.join(VERSIONS)}."
        )
    return metadata.get("header", "")


def refuse_other_checksum(path: Path, metadata: dict[str, str], found: str) -> None:
    """Refuse a file whose contents are not those that were written."""
    if found != metadata.get("checksum"):
        raise FileFormatError(
            f"{path} is damaged: its contents do not match their checksum. Copy it again, or save the model anew."
        )


def existing(path: str | Path) -> Path:
    """The path of a model file; refuses one that is not there."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    return Path(path)


def read_header(path: str | Path) -> dict[str, Any]:
    """The plain data of a model file; refuses one that is damaged, foreign, or of another version."""
    return read_parts(path, lambda name: False)[0]


def read_parts(path: str | Path, wanted: Callable[[str], bool]) -> tuple[dict[str, Any], list[Part]]:
    """The plain data of a model file, and the tensors whose names are wanted. All others are read too, for the checksum, but a little at a time."""
    path = existing(path)
    try:
        with path.open("rb") as file:
            metadata, parts = _table(file, os.fstat(file.fileno()).st_size)
            text = checked_metadata(path, metadata)
            digest = hashlib.sha256(text.encode())
            kept = []
            for part in sorted(parts, key=lambda part: part.name):
                digest.update(_title(part))
                pieces = []
                for piece in _pieces(file, *part.data):
                    digest.update(piece)
                    if wanted(part.name):
                        pieces.append(piece)
                if wanted(part.name):
                    kept.append(part._replace(data=b"".join(pieces)))
        header = parse_table(text)
    except FileFormatError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"{path} is not a model file, or it is damaged ({error}).") from error
    refuse_other_checksum(path, metadata, digest.hexdigest())
    return header, kept


def _pieces(file: BinaryIO, first: int, last: int) -> Iterator[bytes]:
    """The file's bytes between two places."""
    file.seek(first)
    while first < last:
        piece = file.read(min(_PIECE, last - first))
        if not piece:
            raise ValueError("it ends before its last tensor")
        first += len(piece)
        yield piece


def _table(file: BinaryIO, size: int) -> tuple[dict[str, str], list[Part]]:
    """Metadata of a safetensors file, and its tensors, with their places in the file as data."""
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, _LONGEST_TABLE):
        raise ValueError("its table is longer than the file")
    table = parse_table(file.read(length))
    metadata, begin = table.pop("__metadata__", {}), 8 + length
    parts = []
    for name, entry in table.items():
        first, last = entry["data_offsets"]
        if not 0 <= first <= last <= size - begin:
            raise ValueError(f"the tensor {name!r} lies outside of the file")
        shape = tuple(int(size) for size in entry["shape"])
        parts.append(Part(name, shape, f"torch.{_DTYPES[entry['dtype']]}", (begin + first, begin + last)))
    return metadata, parts
