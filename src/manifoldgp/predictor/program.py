"""A program: numbered arrays, of which the first is X, and operations that make further arrays from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

OUTPUTS = ("mean", "std", "latent_mean", "latent_std")
"""What the program of a predictor computes: of observations y, and of f without noise."""

VALUES = "values"
"""What the program of drawn functions computes: the value of each."""

COMPONENTS = ("component_means", "component_variances")
"""What programs compute too: mean and variance of y, or of g(y) where it is warped, under each of the S members, (S, n), or (n,) for one."""


Setting = bool | int | float | str | Sequence[bool]
"""What an operation may be told beside its arrays."""


class Instruction(NamedTuple):
    """slots[output] = operation(*slots[inputs], **settings)."""

    operation: str
    inputs: tuple[int, ...]
    output: int
    settings: Mapping[str, Setting]


class Program(NamedTuple):
    """Predictions as array operations. Slot 0 is X (n, D); constants fill slots of their own, instructions the others, in order.

    Arrays of several members have them in front: features (R, n, Q), covariances (R, n, N), means (R, n); a single member has no
    such dimension. outputs: the slots of the names in OUTPUTS, each (n,) or (n, O), and where there are any of those in COMPONENTS; or of VALUES alone.
    row_bytes: what one row of X needs while it is worked on; callers take rows in chunks.
    """

    constants: Mapping[int, np.ndarray]
    instructions: Sequence[Instruction]
    outputs: Mapping[str, int]
    row_bytes: int = 8

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return 1 + max([0, *self.constants, *(i.output for i in self.instructions)])

    def needed(self, names: Sequence[str]) -> list[Instruction]:
        """The instructions that the named outputs depend on, in order."""
        wanted = {self.outputs[name] for name in names}
        kept = []
        for instruction in reversed(self.instructions):
            if instruction.output in wanted:
                wanted.update(instruction.inputs)
                kept.append(instruction)
        return kept[::-1]
