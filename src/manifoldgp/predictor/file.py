"""Programs in a file: an .npz archive of arrays and one JSON header; nothing in it is ever unpickled, and no text of it is run."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from manifoldgp._system.bounded_json import parse_table
from manifoldgp._system.files import written_whole
from manifoldgp.errors import FileFormatError
from manifoldgp.predictor.mixture_facts import check_mixture
from manifoldgp.predictor.operations import OPERATIONS
from manifoldgp.predictor.program import COMPONENTS, OUTPUTS, VALUES, Instruction, Program
from manifoldgp.predictor.trial import try_out

FORMAT, VERSIONS = "manifoldgp-predictor", (2, 3)
"""Version 3 is of files that a reader of version 2 would misread: components of warped targets are not in units of y, or weights follow variances. All others are written as version 2."""

MOST_ARRAYS = 100_000
_DTYPES = {"<f8", "<i8", "|u1"}
"""What constants and the header are made of, as NumPy writes it."""


def write(path: str | Path, program: Program, facts: dict[str, Any]) -> None:
    """Write a program and facts about it, plain data. The file is called exactly ``path``; an existing one is replaced at once or not at all."""
    newer = {"scales", "exponents"} & set(facts["mixture"] or ())
    header = {"format": FORMAT, "version": VERSIONS[bool(newer)], "facts": facts, **plain_program(program)}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    named: dict[str, Any] = {f"slot{slot}": constant for slot, constant in program.constants.items()}
    with written_whole(path) as partial, partial.open("wb") as file:  # a name would get .npz appended
        np.savez(file, header=text, **named)


def plain_program(program: Program) -> dict[str, Any]:
    """A program without its constants, as plain data."""
    return {
        "instructions": [[i.operation, list(i.inputs), i.output, dict(i.settings)] for i in program.instructions],
        "outputs": dict(program.outputs),
        "row_bytes": program.row_bytes,
    }


def program_from_plain(plain: Mapping[str, Any], constants: Mapping[int, np.ndarray]) -> Program:
    """The program that :func:`plain_program` described, with its constants by slot; refuses one that is inconsistent."""
    program = Program(
        dict(constants),
        [
            Instruction(str(name), tuple(map(int, inputs)), int(output), _settings(settings))
            for name, inputs, output, settings in plain["instructions"]
        ],
        {name: int(slot) for name, slot in plain["outputs"].items()},
        int(plain["row_bytes"]),
    )
    _check(program)
    return program


def read(path: str | Path) -> tuple[Program, dict[str, Any]]:
    """The program and the facts that :func:`write` wrote; a file that is damaged, foreign or of another version is refused."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no predictor file {path}.")
    try:
        arrays = _arrays(Path(path))
        header = parse_table(arrays.pop("header").tobytes())
        if header["format"] != FORMAT:
            raise FileFormatError(f"{path} is not a predictor of this package.")
        if header["version"] not in VERSIONS:
            raise FileFormatError(
                f"{path} has format version {header['version']}; this package reads versions {' and '.join(map(str, VERSIONS))}."
            )
        program = program_from_plain(header, {int(name.removeprefix("slot")): array for name, array in arrays.items()})
        return checked(program, header["facts"])
    except FileFormatError:
        raise
    except Exception as error:  # whatever a forged file leads to, it is the file that is wrong
        raise FileFormatError(
            f"{path} is not a predictor file, or it is damaged ({type(error).__name__}: {error}). Save it again with p.save(path)."
        ) from error


def checked(program: Program, facts: dict[str, Any]) -> tuple[Program, dict[str, Any]]:
    """A program and the facts of one file, which fit each other; others are refused, or raise what Python raises: whoever reads the file says that it is wrong."""
    if missing := {"n_outputs", "flat", "feature_names", "x_offset", "x_scale", "table", "mixture"} - set(facts):
        raise FileFormatError(f"The file lacks {', '.join(sorted(missing))}.")
    _check_facts(facts)
    members = None if facts["mixture"] is None else len(facts["mixture"]["owner"])
    try_out(program, np.array(facts["x_offset"], dtype=np.float64), () if facts["flat"] else (facts["n_outputs"],), members)
    return program, facts


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an archive whose parts are stored as they are: nothing in it is larger than the file."""
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if len(parts) > MOST_ARRAYS:
            raise FileFormatError(f"{path} has {len(parts)} arrays; no predictor has more than {MOST_ARRAYS}.")
        if (
            any(part.compress_type != zipfile.ZIP_STORED for part in parts)
            or sum(part.file_size for part in parts) > path.stat().st_size
        ):
            raise FileFormatError(
                f"{path} is compressed, or its parts claim more than the file holds; predictors are not compressed. It is damaged or forged."
            )
        return {part.filename.removesuffix(".npy"): _array(archive.read(part)) for part in parts}


def _array(data: bytes) -> np.ndarray:
    """An array in NumPy's own format; its shape must be that of the bytes that are there."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, fortran, dtype = reader(file)
    if dtype.str not in _DTYPES:
        raise ValueError(f"arrays of {dtype} are not read, whether pickled (allow_pickle) or not")
    if math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f"an array of shape {shape} was announced, and its bytes are not there")
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape, order="F" if fortran else "C")


def _settings(settings: Any) -> dict[str, Any]:
    """What an operation is told beside its arrays: words, with numbers, truth values or lists of these."""
    named = dict(settings)
    for value in named.values():
        word = isinstance(value, str) and value.isidentifier() and len(value) <= 40  # which function an operation is to take
        if not word and not all(isinstance(item, (bool, int, float)) for item in (value if isinstance(value, list) else [value])):
            raise ValueError(f"{value!r} is no setting of an operation")
    return named


def _check_facts(facts: dict[str, Any]) -> None:
    offset, scale = (np.array(facts[name], dtype=np.float64) for name in ("x_offset", "x_scale"))
    if not (offset.ndim == scale.ndim == 1 and 0 < len(offset) == len(scale) and np.isfinite(offset).all()):
        raise FileFormatError("The file's x_offset and x_scale should be one finite number for each input.")
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise FileFormatError("The file's x_scale should be finite and positive.")
    names, outputs = facts["feature_names"], facts["n_outputs"]
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names) and len(names) in (0, len(offset))):
        raise FileFormatError(f"The file's feature_names should be {len(offset)} names, or none.")
    if type(outputs) is not int or outputs < 1 or type(facts["flat"]) is not bool or (facts["flat"] and outputs > 1):
        raise FileFormatError(f"The file's number of targets should be at least 1; it has {outputs!r}, flat={facts['flat']!r}.")
    targets = facts.get("target_names", [])  # earlier files lack them
    if not (isinstance(targets, list) and all(isinstance(name, str) for name in targets) and len(targets) in (0, outputs)):
        raise FileFormatError(f"The file's target_names should be {outputs} names, or none.")
    if facts["mixture"] is not None:
        check_mixture(facts["mixture"], outputs)


def _check(program: Program) -> None:
    """Every operation is known, and reads only what was made before it; constants are numbers."""
    if min(program.constants, default=1) < 1:
        raise FileFormatError("The file's constants should be numbered from 1.")
    if not all(constant.dtype.str in _DTYPES and np.isfinite(constant).all() for constant in program.constants.values()):
        raise FileFormatError("The file's constants should be finite numbers; not all constants are finite.")
    known = {0, *program.constants}
    for instruction in program.instructions:
        if instruction.operation not in OPERATIONS:
            raise FileFormatError(
                f"The file uses an unknown operation {instruction.operation!r}. It may come from a newer version."
            )
        if not known.issuperset(instruction.inputs) or instruction.output in known or not instruction.inputs:
            raise FileFormatError(f"The file's program is inconsistent at slot {instruction.output}.")
        known.add(instruction.output)
    if (
        set(program.outputs) - set(COMPONENTS) not in (set(OUTPUTS), {VALUES})
        or not known.issuperset(program.outputs.values())
        or program.row_bytes < 1
    ):
        raise FileFormatError("The file's program lacks outputs.")
