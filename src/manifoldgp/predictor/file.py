"""Programs in a file: an .npz archive of arrays and one JSON header; nothing in it is ever unpickled, and no text of it is run."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from manifoldgp._system.files import written_whole
from manifoldgp.errors import FileFormatError
from manifoldgp.predictor.operations import OPERATIONS
from manifoldgp.predictor.program import COMPONENTS, OUTPUTS, Instruction, Program

FORMAT, VERSION = "manifoldgp-predictor", 2


def write(path: str | Path, program: Program, facts: dict[str, Any]) -> None:
    """Write a program and facts about it, plain data. The file is called exactly ``path``; an existing one is replaced at once or not at all."""
    header = {"format": FORMAT, "version": VERSION, "facts": facts, **plain_program(program)}
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
            Instruction(str(name), tuple(map(int, inputs)), int(output), dict(settings))
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
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop("header").tobytes())
        if header["format"] != FORMAT:
            raise FileFormatError(f"{path} is not a predictor of this package.")
        if header["version"] != VERSION:
            raise FileFormatError(f"{path} has format version {header['version']}; this package reads version {VERSION}.")
        program = program_from_plain(header, {int(name.removeprefix("slot")): array for name, array in arrays.items()})
        facts = header["facts"]
        if missing := {"n_outputs", "flat", "feature_names", "x_offset", "x_scale", "table", "mixture"} - set(facts):
            raise FileFormatError(f"{path} lacks {', '.join(sorted(missing))}.")
        return program, facts
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise FileFormatError(
            f"{path} is not a predictor file, or it is damaged ({type(error).__name__}: {error}). Save it again with p.save(path)."
        ) from error


def _check(program: Program) -> None:
    """Every operation is known, and reads only what was made before it."""
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
        set(program.outputs) - set(COMPONENTS) != set(OUTPUTS)
        or not known.issuperset(program.outputs.values())
        or program.row_bytes < 1
    ):
        raise FileFormatError("The file's program lacks outputs.")
