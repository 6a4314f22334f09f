"""A trial of a program from a file, with one row and with two, before anybody relies on it: shapes fit, sizes are those that its constants account for, results are numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from manifoldgp.errors import FileFormatError
from manifoldgp.predictor.interpreter import function_of
from manifoldgp.predictor.program import COMPONENTS, OUTPUTS, Instruction, Program

FREE_NUMBERS, TIMES_THE_CONSTANTS = 2**24, 16
"""Numbers that one result may have whatever the file's size, and beyond, how many times as many as all constants have together."""

Shape = tuple[int, ...]

_PRODUCTS = {
    "affine", "weighted", "neural_network", "squared_distances", "squared_exponential",
    "matern12", "matern32", "matern52", "rational_quadratic",
}  # fmt: skip
"""Operations whose result is (..., rows of the first, columns of the second)."""


def try_out(program: Program, x: np.ndarray, shape: Shape, members: int | None = None) -> None:
    """Refuse a program that fails at x (D,), or that gives other than finite numbers of the given shape there. members: of mixtures, which it has to give; None: of none."""
    if members is not None and not set(COMPONENTS) <= set(program.outputs):
        raise FileFormatError("The file tells of mixtures, and its program gives none. It is damaged or forged.")
    for rows in (1, 2):
        _try_rows(program, np.tile(x, (rows, 1)), shape, members)


def _try_rows(program: Program, X: np.ndarray, shape: Shape, members: int | None) -> None:
    arrays: dict[int, np.ndarray] = {0: X, **program.constants}
    most = FREE_NUMBERS + TIMES_THE_CONSTANTS * sum(constant.size for constant in program.constants.values())
    total, largest = 0, 1
    with np.errstate(all="ignore"):
        for instruction in program.needed(tuple(program.outputs)):
            inputs = [arrays[slot] for slot in instruction.inputs]
            _refuse_large(instruction, [array.shape for array in inputs], most)
            result = np.asarray(function_of(instruction)(*inputs))
            total, largest = total + result.size, max(largest, result.nbytes)
            if total > 4 * most:
                raise FileFormatError(
                    f"The file's program takes far more memory than its constants account for (beyond {4 * most} numbers)."
                )
            arrays[instruction.output] = result
    _refuse_results({name: arrays[slot] for name, slot in program.outputs.items()}, (len(X), *shape), members)
    if 64 * program.row_bytes * len(X) < largest - _constant_bytes(program):
        raise FileFormatError(
            f"The file says that a row takes {program.row_bytes} bytes while it is worked on; it takes {largest // len(X)}."
        )


def _refuse_results(results: dict[str, np.ndarray], shape: Shape, members: int | None) -> None:
    for name, result in results.items():
        if name in COMPONENTS and members is not None and result.size != members * shape[0]:
            raise FileFormatError(
                f"The file's program should give {name} of {members} members, and does not. It is damaged or forged."
            )
        along = result.shape[-1:] if name in COMPONENTS else result.shape[:1]  # members and functions may be any number
        fits = result.shape == shape if name in OUTPUTS else along == shape[:1]
        if not fits or result.dtype != np.float64 or not np.isfinite(result).all():
            raise FileFormatError(
                f"The file's program should give finite numbers as {name}, and does not. It is damaged or forged."
            )
        if name.endswith(("std", "variances")) and (result < 0.0).any():
            raise FileFormatError(f"The file's program gives a negative {name}. It is damaged or forged.")


def _refuse_large(instruction: Instruction, shapes: Sequence[Shape], most: int) -> None:
    """Refuse an operation that makes too many numbers, before it makes them."""
    numbers = _most_numbers(instruction.operation, shapes)
    if numbers > most:
        raise FileFormatError(
            f"The file's program makes up to {numbers} numbers by {instruction.operation!r}; its constants account for {most}."
        )


def _most_numbers(operation: str, shapes: Sequence[Shape]) -> int:
    """How many numbers an operation on arrays of these shapes makes at most; shapes that do not fit are refused by NumPy itself."""
    if operation in _PRODUCTS:
        factors = shapes if operation == "affine" else shapes[:2]
        pairs = [_product(factors[i], factors[i + 1]) for i in range(0, len(factors) - 1, 2)]
        return _broadcast([*pairs, *factors[2 * len(pairs) :]])
    if operation == "mix":
        return math.prod(_product(shapes[-1], shapes[0]))
    if operation == "explained":
        width = max(shapes[0][-1], sum(shape[-1] for shape in shapes[1:]))
        return math.prod(shapes[0][:-1]) * width * max(math.prod(shape[:-2]) for shape in shapes)
    if operation == "warped_moments":
        moments, *shape, nodes, weights = shapes[0], *shapes[2:]
        of_nodes = [(math.prod(each), *[1] * (len(moments) + 1)) for each in (nodes, weights)]
        return _broadcast([(*moments, 1), (*shapes[1], 1), *shape, *of_nodes])  # every node with every tanh
    if operation == "spectral_mixture":
        shapes = [(*shapes[0][:-2], 1, *shapes[0][-2:]), *shapes[1:]]
    return max(_broadcast(shapes), 2 * sum(math.prod(shape) for shape in shapes))


def _product(left: Shape, right: Shape) -> Shape:
    """The shape of left @ right, for arrays of two and more dimensions that of all batches."""
    if len(left) < 2 or len(right) < 2:
        return left[:-1] + right[1:]
    batch = left[:-2] if len(left) >= len(right) else right[:-2]
    other = right[:-2] if len(left) >= len(right) else left[:-2]
    sizes = [max(pair) for pair in zip(batch[len(batch) - len(other) :], other, strict=True)]
    return (*batch[: len(batch) - len(other)], *sizes, left[-2], right[-1])


def _broadcast(shapes: Sequence[Shape]) -> int:
    """Numbers of what broadcasts all shapes; shapes that do not fit give no less."""
    axes = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (axes - len(shape)) + tuple(shape) for shape in shapes]
    return math.prod(max(sizes) for sizes in zip(*padded, strict=True))


def _constant_bytes(program: Program) -> int:
    return sum(constant.nbytes for constant in program.constants.values())
