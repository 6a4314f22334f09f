"""Where inducing points go: among the features that the rows have now, and only if the bound gains by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from manifoldgp._system.threads import Workers
from manifoldgp.inference.inducing import greedy_inducing_points
from manifoldgp.model import Model
from manifoldgp.parameters import Layout, Parameter, Tree, constant_law
from manifoldgp.training.rows import ModelRows
from manifoldgp.training.sparse_objective import BoundObjective

_CANDIDATES = 4000
"""Rows, at least, whose features can become inducing points."""


@dataclass(frozen=True)
class Placement:
    """Inducing points for one model. parameters, constants: of the model, without inducing points."""

    model: Model
    parameters: Tree
    constants: Tree
    workers: Workers
    seed: int
    device: torch.device | str

    def layout(self, Z: torch.Tensor) -> Layout:
        """theta of the model with inducing points like Z (M, Q)."""
        return Layout({**self.parameters, "inducing": {"Z": Parameter(tuple(Z.shape), constant_law(Z))}})

    def best(self, values: Tree, source: ModelRows, count: int, first: bool) -> tuple[Layout, np.ndarray, BoundObjective]:
        """Layout, theta and objective with inducing points chosen anew; unless those at hand, and as many more as may be, give a better bound."""
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
        if len(made) == 1:
            return made[0]
        bounds = [objective.value(theta) for _, theta, objective in made]
        return made[int(np.argmin(bounds))]

    def at(self, plain: Tree, Z: torch.Tensor, source: ModelRows) -> tuple[Layout, np.ndarray, BoundObjective]:
        """Layout, theta and objective with the inducing points Z (M, Q), the same in all processes."""
        Z = Z.detach().clone()
        source.ranks.follow_first_(Z)
        layout = self.layout(Z)
        theta = layout.flatten({**plain, "inducing": {"Z": Z}}).detach()
        source.ranks.follow_first_(theta)
        objective = BoundObjective(self.model, layout, self.constants, source, self.device, self.workers)
        return layout, theta.cpu().numpy(), objective
