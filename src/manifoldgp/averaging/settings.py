"""The sizes of a stack."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from manifoldgp.averaging.stacking import Weighing
from manifoldgp.errors import InputError

GROUPS = ("plain GP", "warm", "cold", "own")
"""plain GP: Identity features. warm: nested mGPs that start at the plain GP and stop early. cold: nested mGPs that start far from it.
own: the features and kernel that the user chose (by default the paper's log-sigmoid network)."""

STEPPED = ("cold", "own")
"""Groups that are trained in steps. Warm members stop early by their nature."""


@dataclass(frozen=True)
class StackSettings:
    """Sizes of a stack. *_members: trained on all rows, fold_members: trained on each fold, for each group.

    gp_prior: pseudo-rows, as a fraction of N, that vote for the plain GP; fewer where held-out rows speak against it (see :func:`doubt`).
    spread_prior: pseudo-rows, as a fraction of N, that vote equally for every component.
    own_rows: up to so many rows all own_members are trained, if they carry the weight; beyond, in inverse proportion to the rows.
    steps: iterations in all, after which held-out rows decide whether cold and own members are trained on: to the second step unless they add
    next to nothing (half of ``keep``) and are no better than the plain GP, further if the last step gained ``go_on``.
    polish: iterations of a member on all rows that goes on where one of a fold ended; a quarter of those it had there if that is more.
    keep, go_on: nats a row of the held-out log density. Groups that together add less than ``keep`` are not trained on all rows.
    """

    gp_starts: int = 5
    warm_members: int = 5
    cold_members: int = 6
    own_members: int = 20
    fold_members: int = 2
    hidden: int = 8
    q: int = 2
    gp_iterations: int = 200
    warm_iterations: int = 25
    steps: tuple[int, ...] = (25, 80, 200)
    polish: int = 25
    temperature: float = 10.0
    variance_factors: tuple[float, ...] = (1.0, 4.0, 16.0)
    gp_prior: float = 0.05
    spread_prior: float = 0.02
    own_rows: int = 150
    keep: float = 0.005
    go_on: float = 0.05

    def __post_init__(self) -> None:
        if not self.steps or self.steps[0] < 1 or any(to <= since for since, to in pairwise(self.steps)):
            raise InputError(f"steps must be iteration counts that grow, such as (25, 80, 200); got {self.steps!r}.")

    @property
    def weighing(self) -> Weighing:
        """How the groups are weighed."""
        return Weighing(self.variance_factors, self.gp_prior, self.spread_prior)

    def fast(self) -> StackSettings:
        """The sizes of averaging="fast": few starts and members, trained briefly."""
        return replace(self, gp_starts=3, warm_members=3, warm_iterations=15, cold_members=3, steps=(25,))
