"""A program as loops for one row of X: a function body, and how much workspace it needs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from manifoldgp.predictor import loops_additive, loops_covariances, loops_elementwise, loops_mixtures, loops_rows
from manifoldgp.predictor.loops import Array, Constants, Dialect, Loops
from manifoldgp.predictor.operations import OPERATIONS
from manifoldgp.predictor.program import Instruction, Program

__all__ = [
    "Body",
    "gradient_body",
    "loops_additive",
    "loops_covariances",
    "loops_elementwise",
    "loops_mixtures",
    "loops_rows",
    "values_body",
]


@dataclass(frozen=True)
class Body:
    """Lines of a function, and the numbers that its workspace must hold."""

    lines: list[str]
    workspace: int


def values_body(program: Program, outputs: dict[str, str], D: int, dialect: Dialect, constants: Constants) -> Body:
    """Code that fills arrays, called as the keys of ``outputs``, with the program's outputs of these names, from x (D,)."""
    names = list(outputs.values())
    code = _Writing(program, program.needed(names), Loops(dialect, constants), Array("x", 0, (1, D)))
    code.write_all([program.outputs[name] for name in names])
    for target, name in outputs.items():
        code.copy(code.arrays[program.outputs[name]], target)
    return Body(code.c.lines, code.c.memory.size)


def gradient_body(program: Program, output: str, D: int, dialect: Dialect, constants: Constants) -> Body:
    """Code that fills ``mean`` (O,) with an output, and ``gradient`` (O, D) with its derivatives by x (D,), going through the program backwards."""
    c = Loops(dialect, constants, keep=True)
    x = c.new((1, D))
    with c.loop("d", D) as d:
        c.line(f"{x.at(d)} = x[{d}];")
    code = _Writing(program, program.needed([output]), c, x)
    code.write_all([program.outputs[output]])
    result = code.arrays[program.outputs[output]]
    code.copy(result, "mean")
    with c.loop("target", result.size) as target:
        with c.loop("i", c.memory.size) as i:
            c.line(f"{c.slope(Array(x.name, 0, (1,))).at(i)} = 0;")
        c.line(f"{c.slope(result).at(target)} = 1;")
        code.write_slopes()
        with c.loop("d", D) as d:
            c.line(f"gradient[{target} * {D} + {d}] = {c.slope(x).at(d)};")
    return Body(c.lines, 2 * c.memory.size)


class _Writing:
    """A program on its way into loops: the array of every slot."""

    def __init__(self, program: Program, instructions: Sequence[Instruction], c: Loops, x: Array) -> None:
        self.instructions, self.c = instructions, c
        used = {slot for instruction in instructions for slot in instruction.inputs}
        self.shapes = _shapes(program, instructions, x.size)
        self.arrays = {slot: c.constant(values) for slot, values in _floats(program, used).items()} | {0: x}

    def write_all(self, outputs: Sequence[int]) -> None:
        """The loops of all instructions; places in the workspace are given back after the last one that reads them."""
        last = {slot: step for step, instruction in enumerate(self.instructions) for slot in instruction.inputs}
        last |= dict.fromkeys(outputs, len(self.instructions))
        owner: dict[int, int] = {}
        until: dict[int, int] = {}
        for step, instruction in enumerate(self.instructions):
            if self._write(instruction):
                owner[instruction.output] = owner.get(instruction.inputs[0], instruction.inputs[0])
            root = owner.setdefault(instruction.output, instruction.output)
            until[root] = max(until.get(root, 0), last.get(instruction.output, step))
            for slot in [slot for slot, end in until.items() if end == step]:
                array = self.arrays[slot]
                self.c.memory.give_back(array.first, array.size)
                del until[slot]

    def write_slopes(self) -> None:
        for instruction in reversed(self.instructions):
            operation = OPERATIONS[instruction.operation]
            if "view" not in operation.forms:
                with self._block(instruction):
                    operation.form("slopes")(self.c, *self._operands(instruction), **instruction.settings)

    def copy(self, array: Array, target: str) -> None:
        with self.c.loop("i", array.size) as i:
            self.c.line(f"{target}[{i}] = {array.at(i)};")

    def _write(self, instruction: Instruction) -> bool:
        """Whether the result is a view of the first input."""
        operation, shape = OPERATIONS[instruction.operation], self.shapes[instruction.output]
        if view := operation.forms.get("view"):
            self.arrays[instruction.output] = view(self.arrays[instruction.inputs[0]], shape, **instruction.settings)
            return True
        self.arrays[instruction.output] = self.c.new(shape)
        with self._block(instruction):
            operation.form("loops")(self.c, *self._operands(instruction), **instruction.settings)
        self.c.end_of_operation()
        return False

    def _operands(self, instruction: Instruction) -> list[Array]:
        return [self.arrays[instruction.output], *(self.arrays[slot] for slot in instruction.inputs)]

    def _block(self, instruction: Instruction) -> AbstractContextManager[None]:
        return self.c.block(f"{{ /* {instruction.operation} */")


def _shapes(program: Program, instructions: Sequence[Instruction], D: int) -> dict[int, tuple[int, ...]]:
    """The shape of every slot for one row of X, found by running the program on zeros."""
    slots: dict[int, np.ndarray] = {0: np.zeros((1, D)), **program.constants}
    with np.errstate(all="ignore"):
        for instruction in instructions:
            inputs = [slots[slot] for slot in instruction.inputs]
            slots[instruction.output] = np.asarray(OPERATIONS[instruction.operation](*inputs, **instruction.settings))
    return {slot: values.shape for slot, values in slots.items()}


def _floats(program: Program, used: set[int]) -> dict[int, np.ndarray]:
    return {slot: np.asarray(values, dtype=np.float64) for slot, values in program.constants.items() if slot in used}
