"""Writes a program: constants, each stored once, and instructions in order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from manifoldgp.errors import InputError
from manifoldgp.predictor.operations import OPERATIONS
from manifoldgp.predictor.program import Instruction, Program, Setting

_SMALL = 2**14
"""Constants of up to this many entries are compared with those before them."""


class Writer:
    """Collects what a program consists of. All arrays handed in have a leading dimension of members, R or 1."""

    def __init__(self) -> None:
        self._constants: dict[int, np.ndarray] = {}
        self._instructions: list[Instruction] = []
        self._known: dict[tuple, int] = {}
        self._next = 1  # slot 0 is X

    def constant(self, A: np.ndarray, keep_members: bool = False) -> int:
        """The slot of a constant (R, ...). Members that are all equal, a single one always, lose their dimension.

        keep_members: several members keep it, equal or not.
        """
        A = np.asarray(A)
        if len(A) == 1 or (not keep_members and _all_equal(A)):
            A = A[0]
        return self.plain(A)

    def vector(self, w: np.ndarray, keep_members: bool = False) -> int:
        """The slot of weights (R, Q) for the operation ``weighted``: (Q,), or (R, Q, 1) for several members."""
        one = len(w) == 1 or (not keep_members and _all_equal(w))
        return self.plain(w[0] if one else w[..., None])

    def plain(self, A: np.ndarray) -> int:
        """The slot of a constant as it is. Small ones that occur again share a slot."""
        A = np.array(A, order="K")
        key = (A.shape, A.dtype.str, A.tobytes()) if A.size <= _SMALL else (object(),)
        if key not in self._known:
            self._known[key] = self._new()
            self._constants[self._known[key]] = A
        return self._known[key]

    def do(self, operation: str, *inputs: int, **settings: Setting) -> int:
        """The slot of a result; the same operation on the same inputs is done once."""
        if operation not in OPERATIONS:
            raise InputError(f"Programs have no operation {operation!r}. There are: {', '.join(sorted(OPERATIONS))}.")
        key = (operation, inputs, repr(sorted(settings.items())))
        if key not in self._known:
            self._known[key] = self._new()
            self._instructions.append(Instruction(operation, inputs, self._known[key], settings))
        return self._known[key]

    def program(self, outputs: Mapping[str, int], row_bytes: int) -> Program:
        return Program(self._constants, self._instructions, dict(outputs), row_bytes)

    def _new(self) -> int:
        self._next += 1
        return self._next - 1


def _all_equal(members: np.ndarray) -> bool:
    return all(np.array_equal(member, members[0]) for member in members[1:])
