"""Choosing inducing points among the features that the rows have under the present parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from manifoldgp._system.linalg import cholesky_with_jitter, solve_lower
from manifoldgp._system.threads import Workers
from manifoldgp.model import Model
from manifoldgp.parameters import Layout, Parameter, Tree, constant_law
from manifoldgp.training.model_rows import ModelRows
from manifoldgp.training.replay import PLACEMENT, Replay
from manifoldgp.training.sparse_objective import BoundObjective

_CANDIDATES = 4000
"""Rows, at least, whose features can become inducing points."""

SMALLEST_VARIANCE = 1e-10
"""Points stop being added where the largest conditional variance falls below this share of the largest prior variance."""


@dataclass(frozen=True)
class Placement:
    """Chooses inducing points for one model. parameters, constants: of the model, without inducing points."""

    model: Model
    parameters: Tree
    constants: Tree
    workers: Workers | None
    seed: int
    device: torch.device | str
    replay: Replay = field(default_factory=Replay)

    def layout(self, Z: torch.Tensor) -> Layout:
        """theta of the model with inducing points like Z (J, Q)."""
        return Layout({**self.parameters, "inducing": {"Z": Parameter(tuple(Z.shape), constant_law(Z))}})

    def best(self, values: Tree, source: ModelRows, count: int, first: bool) -> tuple[Layout, np.ndarray, BoundObjective]:
        """Choose ``count`` inducing points anew, or fill up the present ones to that number, whichever gives the better bound; layout, theta and objective.

        first: whether nothing was trained yet, which is when parameters without a gradient are refused.
        """
        answer = self.replay.numbers(PLACEMENT, lambda: self._chosen(values, source, count, first))
        (J, Q, rung), theta = (int(number) for number in answer[:3]), answer[3:]
        layout = self.layout(torch.zeros(J, Q, dtype=torch.float64, device=self.device))
        objective = self._objective(layout, source)
        objective.rung = rung
        return layout, theta, objective

    def _chosen(self, values: Tree, source: ModelRows, count: int, first: bool) -> np.ndarray:
        """Number and width of the inducing points, the rung of the jitter ladder, and theta with the points: (3 + P,)."""
        sample = source.sample(max(_CANDIDATES, 8 * count), self.seed)
        plain = {name: tree for name, tree in values.items() if name != "inducing"}
        count = min(count, source.count)
        with torch.no_grad():
            H = self.model.features_at(plain, sample.X)
        candidates = [H[greedy_inducing_points(self.model, plain, H, count)]]
        if "inducing" in values and len(values["inducing"]["Z"]) <= count:
            old = values["inducing"]["Z"].detach()
            candidates.append(torch.cat([old, H[greedy_inducing_points(self.model, plain, H, count, old)]]))
        made = [self.at(plain, candidate, source) for candidate in candidates]
        if first:
            made[0][2].refuse_disconnected(made[0][1])
        bounds = [objective.value(theta) for _, theta, objective in made] if len(made) > 1 else [0.0]
        best = int(np.argmin(bounds))
        _, theta, objective = made[best]
        return np.concatenate([[*candidates[best].shape, objective.rung], theta])

    def at(self, plain: Tree, Z: torch.Tensor, source: ModelRows) -> tuple[Layout, np.ndarray, BoundObjective]:
        """Layout, theta and objective with the inducing points Z (J, Q), the same in all processes."""
        Z = Z.detach().clone()
        source.ranks.follow_first_(Z)
        layout = self.layout(Z)
        theta = layout.flatten({**plain, "inducing": {"Z": Z}}).detach()
        source.ranks.follow_first_(theta)
        return layout, theta.cpu().numpy(), self._objective(layout, source)

    def _objective(self, layout: Layout, source: ModelRows) -> BoundObjective:
        return BoundObjective(self.model, layout, self.constants, source, self.device, self.workers, replay=self.replay)


@torch.no_grad()
def greedy_inducing_points(
    model: Model, values: Tree, H: torch.Tensor, count: int, given: torch.Tensor | None = None
) -> torch.Tensor:
    """Inducing points by greedy conditional variance (Burt, Rasmussen and van der Wilk 2020): rows (m,) of H (n, Q).

    Each is the row whose value is least known given those before it: the pivots of a Cholesky factor of K_HH.

    m = count, or fewer where all the other rows are known already (features with repeated rows, say).
    given: points (g, Q) that are there already; m is at most count − g then.
    """
    variance = model.prior_diagonal(values, H).clone().expand(len(H)).contiguous()
    smallest = SMALLEST_VARIANCE * float(variance.max())
    known = 0 if given is None else len(given)
    count = min(count, known + len(H))
    C = H.new_empty(count, len(H))  # row m: what point m adds, so that K_HH ~ Cᵀ C
    if given is not None and known:
        L, _ = cholesky_with_jitter(model.matrix(values, given)[None], "the covariance of the inducing points")
        C[:known] = solve_lower(L[0], model.cross(values, given, H))
        variance = (variance - (C[:known] ** 2).sum(0)).clamp_min_(0.0)
    chosen: list[int] = []
    for m in range(known, count):
        pivot = int(variance.argmax())
        left = float(variance[pivot])
        if left <= smallest:
            break
        row = model.cross(values, H[pivot : pivot + 1], H)[0]
        if m:
            row = row - C[:m, pivot] @ C[:m]
        C[m] = row / left**0.5
        variance = (variance - C[m] ** 2).clamp_min_(0.0)
        variance[pivot] = 0.0
        chosen.append(pivot)
    return torch.tensor(chosen, dtype=torch.long, device=H.device)
