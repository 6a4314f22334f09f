"""Inputs that come round again: the circle, by which the squared exponential becomes the periodic kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp.errors import InputError
from manifoldgp.features.feature_map import Features, positive_number
from manifoldgp.parameters import Parameter, Tree, log_normal_law
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register

_WIDE, _NARROW = 0.7, 0.05
"""Standard deviation of the logarithm of a period at the start: of one that nobody knows, and of one that was given."""


@register("features.Circle")
@dataclass(frozen=True)
class Circle(Features):
    """H = [other inputs, cos phi, sin phi] with phi = 2 pi x / period: some inputs go round a circle, the period is learned (MacKay 1998).

    On the circle |u - u'|^2 = 4 sin^2(pi (x - x') / period), so that a squared exponential with one length-scale for both is the periodic kernel, exactly.
    A trend beside it, or a product with a kernel of the other inputs, sees the features by their numbers (``dims``).

    Its parameters: "period" (C,), positive, one for each column that goes round; in units of the inputs as the model sees them, standardised as a rule.

    Parameters
    ----------
    columns
        The inputs that go round, by number; None for all of them.
    period
        Where learning begins, one number or one a column. None: from a few periods in the data to one longer than they are.
    """

    columns: tuple[int, ...] | None = None
    period: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.columns is not None:
            object.__setattr__(self, "columns", _different(self.columns))
        if self.period is not None:
            given: Sequence[Any] = self.period if isinstance(self.period, (tuple, list)) else (self.period,)
            object.__setattr__(self, "period", tuple(positive_number(p, "The period of Circle") for p in given))

    def parameters(self, X: Tensor) -> Tree:
        chosen, _ = self.split(X.shape[-1])
        spread = X[:, chosen].detach().std(0, correction=0).clamp(min=1e-3)
        if self.period is not None and len(self.period) not in (1, len(chosen)):
            raise InputError(
                f"Circle has {len(chosen)} columns that go round, and {len(self.period)} periods. Give one, or one a column."
            )
        centre = 2 * spread if self.period is None else X.new_tensor(self.period).expand(len(chosen)).clone()
        sd = _WIDE if self.period is None else _NARROW
        return {"period": Parameter((len(chosen),), log_normal_law(centre, sd), positive=True)}

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        chosen, others = self.split(X.shape[-1])
        phase = X[..., chosen] * (2 * math.pi / values["period"]).unsqueeze(-2)
        kept = X[..., others]
        kept = kept.expand(*np.broadcast_shapes(kept.shape[:-2], phase.shape[:-2]), *kept.shape[-2:])
        return torch.cat([kept, phase.cos(), phase.sin()], -1)

    def split(self, D: int) -> tuple[list[int], list[int]]:
        """Of D inputs, the columns that go round and the others."""
        chosen = list(range(D)) if self.columns is None else list(self.columns)
        if max(chosen) >= D:
            raise InputError(
                f"Circle turns the columns {tuple(chosen)}, but there are only {D}, numbered from 0. Change columns."
            )
        return chosen, [d for d in range(D) if d not in chosen]

    def _program(self, values: Tree, X: Rows) -> Rows:
        chosen, others = self.split(X.width)
        circle = X.columns(chosen).scaled(2 * math.pi / values["period"]).through("circle", width=2 * len(chosen))
        return Rows.side_by_side([X.columns(others), circle]) if others else circle


def _different(columns: Any) -> tuple[int, ...]:
    given = tuple(columns) if isinstance(columns, (tuple, list)) else (columns,)
    if (
        not given
        or len(set(given)) < len(given)
        or not all(isinstance(c, int) and not isinstance(c, bool) and c >= 0 for c in given)
    ):
        raise InputError(
            f"columns of Circle must be different numbers of inputs, counted from 0; got {columns!r}. Leave it out for all inputs."
        )
    return given
