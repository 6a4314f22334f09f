"""Runs a program on NumPy: a list of bound functions, few Python steps each, rows in chunks."""

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


def runner(program: Program, names: Sequence[str]) -> Callable[[np.ndarray], list[np.ndarray]]:
    """A function of X (n, D) that gives the named outputs, and computes nothing else."""
    start: list[Any] = [None] * program.slots
    for slot, constant in program.constants.items():
        start[slot] = constant
    steps = [_bound(instruction) for instruction in program.needed(names)]
    wanted = [program.outputs[name] for name in names]
    chunk = max(FEWEST_ROWS, CHUNK_BYTES // program.row_bytes)

    def once(X: np.ndarray) -> list[np.ndarray]:
        slots = start.copy()
        slots[0] = X
        for function, inputs, output in steps:
            slots[output] = function(*inputs(slots))
        return [slots[i] for i in wanted]

    def run(X: np.ndarray) -> list[np.ndarray]:
        if len(X) <= chunk:
            return once(X)
        pieces = [once(X[i : i + chunk]) for i in range(0, len(X), chunk)]
        return [np.concatenate(parts) for parts in zip(*pieces, strict=True)]

    return run


def _bound(instruction: Instruction) -> tuple[Callable[..., Any], Callable[[list[Any]], tuple], int]:
    function: Callable[..., Any] = OPERATIONS[instruction.operation]
    if instruction.settings:
        function = partial(function, **instruction.settings)
    if len(instruction.inputs) == 1:  # itemgetter of one index gives the item, not a tuple
        only = instruction.inputs[0]
        return function, lambda slots: (slots[only],), instruction.output
    return function, itemgetter(*instruction.inputs), instruction.output
