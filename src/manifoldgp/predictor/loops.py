"""Code of plain loops under construction: what a program computes for one row of X, in a language of the C family.

    with c.loop("j", 400):
        s = c.let("s", f"{x.at('j')} * {x.at('j')}")
        c.line(f"{out.at('j')} = m_exp(-{s});")

C and JavaScript share the text of loops and expressions; how a loop begins and a variable is declared is the dialect's. Numbers in
expressions are whole (``2 * a``), so that they take the type of what they meet; others come from ``number``. Functions are called m_exp, m_sqrt
and so on, which each dialect defines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from typing import Protocol

import numpy as np

WORK = "w"
"""The workspace, one array that holds everything that is not constant."""

FEW = 16
"""Sums of up to this many terms are written out."""


class Dialect(Protocol):
    """What differs between the languages."""

    def loop(self, variable: str, first: str, end: str, step: int) -> str: ...

    def declare(self, name: str, value: str, fixed: bool, whole: bool) -> str: ...

    def number(self, value: float) -> str: ...


@dataclass(frozen=True)
class Array:
    """Numbers that the code reads or writes: ``name[first + index]``, row-major. values: those of a constant."""

    name: str
    first: int
    shape: tuple[int, ...]
    values: np.ndarray | None = None
    literal: str = ""

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def constant(self) -> bool:
        return self.values is not None

    def at(self, index: str | int = 0) -> str:
        """The entry of an index; a constant of one entry is written as a number."""
        if self.literal:
            return self.literal
        terms = [str(term) for term in (self.first, index) if str(term) != "0"]
        return f"{self.name}[{' + '.join(terms) or '0'}]"

    def batch(self, inner: int) -> int:
        """How far the next member is, where the last ``inner`` dimensions belong to one; 0 if all members share these numbers."""
        members = math.prod(self.shape[:-inner] if inner else self.shape)
        return self.size // members if members > 1 else 0


class Memory:
    """Places in the workspace: what is given back is used again, unless everything has to be kept for derivatives."""

    def __init__(self, keep: bool) -> None:
        self.size = 0
        self.keep = keep
        self._free: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        for i, (first, room) in enumerate(self._free):
            if room >= size:
                self._free[i : i + 1] = [(first + size, room - size)] if room > size else []
                return first
        self.size += size
        return self.size - size

    def give_back(self, first: int, size: int) -> None:
        if self.keep:
            return
        merged: list[tuple[int, int]] = []
        for start, room in sorted([*self._free, (first, size)]):
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((start, room))
        self._free = merged


class Constants:
    """The constant arrays of a file, each once: names and numbers."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._known: dict[tuple, str] = {}

    def name(self, values: np.ndarray) -> str:
        values = np.ascontiguousarray(values, dtype=np.float64)
        key = (values.size, sha256(values.tobytes()).digest())
        if key not in self._known:
            self._known[key] = f"c{len(self.arrays)}"
            self.arrays[self._known[key]] = values
        return self._known[key]


class Loops:
    """Collects the lines of one function. keep: no place in the workspace is used twice, so that derivatives find all values."""

    def __init__(self, dialect: Dialect, constants: Constants, keep: bool = False) -> None:
        self.dialect, self.constants = dialect, constants
        self.memory = Memory(keep)
        self.lines: list[str] = []
        self._depth = 1
        self._numbers = count()
        self._scratch: dict[Array, Array] = {}

    # --- arrays

    def constant(self, values: np.ndarray, shape: tuple[int, ...] | None = None) -> Array:
        """A constant array; one number becomes part of the text."""
        shape = values.shape if shape is None else shape
        if values.size == 1:
            return Array("", 0, shape, values, self.number(float(values.ravel()[0])))
        return Array(self.constants.name(values), 0, shape, values)

    def new(self, shape: tuple[int, ...]) -> Array:
        return Array(WORK, self.memory.take(math.prod(shape)), shape)

    def scratch(self, out: Array, shape: tuple[int, ...]) -> Array:
        """An array that is used while ``out`` is computed; kept like all others where derivatives need it."""
        self._scratch[out] = self.new(shape)
        return self._scratch[out]

    def scratch_of(self, out: Array) -> Array:
        """What was used while ``out`` was computed."""
        return self._scratch[out]

    def end_of_operation(self) -> None:
        if not self.memory.keep:
            for array in self._scratch.values():
                self.memory.give_back(array.first, array.size)
            self._scratch = {}

    def slope(self, array: Array) -> Array:
        """The derivatives with respect to an array: they lie beyond all values, in the same order."""
        return replace(array, first=array.first + self.memory.size)

    # --- text

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str = "{") -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    @contextmanager
    def loop(self, variable: str, end: int | str, first: int = 0, step: int = 1) -> Iterator[str]:
        """A loop; one of a single step is only its body."""
        if end == 1:
            yield "0"
            return
        with self.block(self.dialect.loop(variable, str(first), str(end), step)):
            yield variable

    @contextmanager
    def members(self, out: Array, inner: int) -> Iterator[str]:
        """A loop over the members of an array whose last ``inner`` dimensions belong to one member."""
        with self.loop("r", math.prod(out.shape[:-inner] if inner else out.shape)) as r:
            yield r

    def number(self, value: float) -> str:
        return self.dialect.number(value)

    def let(self, value: str) -> str:
        """A number under a name of its own."""
        name = f"t{next(self._numbers)}"
        self.line(self.dialect.declare(name, value, fixed=True, whole=False))
        return name

    def sum_in(self, start: str = "0") -> str:
        """A variable that sums go to."""
        name = f"t{next(self._numbers)}"
        self.line(self.dialect.declare(name, start, fixed=False, whole=False))
        return name

    def place(self, start: str = "0") -> str:
        """A whole number that changes: an index."""
        name = f"p{next(self._numbers)}"
        self.line(self.dialect.declare(name, start, fixed=False, whole=True))
        return name

    def dot(self, n: int, left: tuple[Array, str], right: tuple[Array, str]) -> str:
        """Σ_i left_i right_i over n entries from the given indices on: four sums at a time, which do not wait for each other."""
        sums = [self.sum_in() for _ in range(4 if n >= 8 else 1)]

        def product(i: str) -> str:
            return f"{left[0].at(plus(left[1], i))} * {right[0].at(plus(right[1], i))}"

        whole = n - n % len(sums)
        with self.loop("i", whole, step=len(sums)) as i:
            for k, total in enumerate(sums):
                self.line(f"{total} += {product(plus(i, k))};")
        for rest in range(whole, n):
            self.line(f"{sums[0]} += {product(str(rest))};")
        return f"({' + '.join(sums)})"


def plus(index: str | int, more: str | int) -> str:
    """The sum of two indices, without zeros."""
    terms = [str(term) for term in (index, more) if str(term) != "0"]
    return " + ".join(terms) or "0"


def times(index: str | int, factor: int) -> str:
    """index · factor, without needless products."""
    if str(index) == "0" or factor == 0:
        return "0"
    return str(index) if factor == 1 else f"{index} * {factor}" if not str(index).isdigit() else str(int(index) * factor)
