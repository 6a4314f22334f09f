"""Runs a program on NumPy: as straight-line Python, rows in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from manifoldgp.predictor.operations import OPERATIONS
from manifoldgp.predictor.program import Program

CHUNK_BYTES, FEWEST_ROWS = 2**20, 64
"""Working memory for one chunk of rows, about what the caches hold; with many members, rows that make a product worth its while."""


def runner(program: Program, names: Sequence[str], axis: int = 0) -> Callable[[np.ndarray], Sequence[np.ndarray]]:
    """A function of X (n, D) that gives the named outputs, whose rows are along ``axis``, and computes nothing else."""
    once = _straight_line(program, names)
    chunk = max(FEWEST_ROWS, CHUNK_BYTES // program.row_bytes)

    def run(X: np.ndarray) -> Sequence[np.ndarray]:
        if len(X) <= chunk:
            return once(X)
        pieces = [once(X[i : i + chunk]) for i in range(0, len(X), chunk)]
        return [np.concatenate(parts, axis) for parts in zip(*pieces, strict=True)]

    return run


def _straight_line(program: Program, names: Sequence[str]) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
    """The instructions as one Python function, ``s5 = f0(s0, s3, s4)`` and so on: a tenth faster at one point than a loop over them.

    Its text consists of numbers only; operations and constants are handed in as objects.
    """
    objects: dict[str, Any] = {f"s{slot:d}": constant for slot, constant in program.constants.items()}
    lines = ["def once(s0):"]
    for step, instruction in enumerate(program.needed(names)):
        function = OPERATIONS[instruction.operation].numpy
        objects[f"f{step}"] = partial(function, **instruction.settings) if instruction.settings else function
        arguments = ", ".join(f"s{slot:d}" for slot in instruction.inputs)
        lines.append(f"    s{instruction.output:d} = f{step}({arguments})")
    lines.append(f"    return ({', '.join(f's{program.outputs[name]:d}' for name in names)},)")
    exec("\n".join(lines), objects)
    return objects["once"]
