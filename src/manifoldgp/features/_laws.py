"""Starting laws that feature maps share: affine layers, and draws that several parameters make together."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from manifoldgp.parameters import Law


def affine(X: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    """X W + b (*B'', N, Q) for X (*B', N, D), W (*B, D, Q) and b (*B, Q); the batches broadcast.

    One weight matrix for everything, batched or not, is a single two-dimensional product; otherwise the batch is flattened
    for one ``baddbmm``. Inputs shared over the batch are never copied.
    """
    (N, D), Q = X.shape[-2:], W.shape[-1]
    batch = _batch(X, W, b)
    if W.numel() == D * Q and (b is None or b.numel() == Q):
        rows, W2 = X.reshape(-1, D), W.reshape(D, Q)
        H = rows @ W2 if b is None else torch.addmm(b.reshape(Q), rows, W2)
        return H.reshape(*batch, N, Q) if batch else H
    count = math.prod(batch)
    X3, W3 = X.expand(*batch, N, D).reshape(count, N, D), W.expand(*batch, D, Q).reshape(count, D, Q)
    H = torch.bmm(X3, W3) if b is None else torch.baddbmm(b.expand(*batch, Q).reshape(count, 1, Q), X3, W3)
    return H if len(batch) == 1 else H.reshape(*batch, N, Q)


def _batch(X: Tensor, W: Tensor, b: Tensor | None) -> tuple[int, ...]:
    batch = W.shape[:-2]
    if X.shape[:-2] in ((), batch) and (b is None or b.shape[:-1] == batch):
        return batch  # the usual case; np.broadcast_shapes takes as long as a small product
    return np.broadcast_shapes(X.shape[:-2], batch, () if b is None else b.shape[:-1])


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
