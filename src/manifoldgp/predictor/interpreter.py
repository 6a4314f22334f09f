"""Runs a program on NumPy: one operation after another, rows in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from manifoldgp.predictor.operations import OPERATIONS
from manifoldgp.predictor.program import Instruction, Program

CHUNK_BYTES, FEWEST_ROWS = 2**20, 64
"""Working memory for one chunk of rows, about what the caches hold; with many members, rows that make a product worth its while."""


def runner(program: Program, names: Sequence[str], axis: int = 0) -> Callable[[np.ndarray], Sequence[np.ndarray]]:
    """A function of X (n, D) that gives the named outputs, whose rows are along ``axis``, and computes nothing else."""
    once = _all_steps(program, names)
    chunk = max(FEWEST_ROWS, CHUNK_BYTES // program.row_bytes)

    def run(X: np.ndarray) -> Sequence[np.ndarray]:
        if len(X) <= chunk:
            return once(X)
        pieces = [once(X[i : i + chunk]) for i in range(0, len(X), chunk)]
        return [np.concatenate(parts, axis) for parts in zip(*pieces, strict=True)]

    return run


def function_of(instruction: Instruction) -> Callable[..., Any]:
    """The NumPy function of an instruction, with its settings."""
    function = OPERATIONS[instruction.operation].numpy
    return partial(function, **instruction.settings) if instruction.settings else function


def _all_steps(program: Program, names: Sequence[str]) -> Callable[[np.ndarray], Sequence[np.ndarray]]:
    """A function of X that carries out all instructions. Slots are counted anew, so that those of the named outputs take no more places than needed."""
    instructions = program.needed(names)
    place = {slot: i for i, slot in enumerate([0, *program.constants, *(step.output for step in instructions)])}
    constants = [np.empty(0), *program.constants.values()]
    steps = [(function_of(step), _arguments([place[slot] for slot in step.inputs])) for step in instructions]
    results = _arguments([place[program.outputs[name]] for name in names])

    def once(X: np.ndarray) -> Sequence[np.ndarray]:
        arrays = constants.copy()
        arrays[0] = X
        for function, arguments in steps:
            arrays.append(function(*arguments(arrays)))
        return results(arrays)

    return once


def _arguments(places: Sequence[int]) -> Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]:
    """What takes the arrays at these places; a slice for a single one, of which itemgetter would make no tuple."""
    return itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))
