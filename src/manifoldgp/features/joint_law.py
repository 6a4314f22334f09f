"""Draws that several parameters of a feature map make together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from manifoldgp.parameters import Law


class JointLaw:
    """Hands out the parts of one joint draw to the laws of several parameters.

    ``draw(generator, count)`` returns all values by name, leaves (count, *shape). The first law that is called makes the draw,
    the others take their part of it; a law called a second time starts a new draw. So one pass over all parameters
    sees one joint draw, whatever the order.
    """

    def __init__(self, draw: Callable[[torch.Generator, int], dict[str, Tensor]]) -> None:
        self._draw = draw
        self._pending: dict[str, Tensor] = {}
        self._source: tuple[torch.Generator, int] | None = None

    def law(self, name: str) -> Law:
        """The initial law of the parameter ``name``."""

        def take(generator: torch.Generator, count: int) -> Tensor:
            same = self._source is not None and self._source[0] is generator and self._source[1] == count
            if not same or name not in self._pending:
                self._pending, self._source = self._draw(generator, count), (generator, count)
            value = self._pending.pop(name)
            if not self._pending:
                self._source = None
            return value

        return take
