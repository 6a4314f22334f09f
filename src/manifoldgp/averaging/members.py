"""Members of an average: the models they are made of, where they start, and training them in batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from manifoldgp._system.threads import Workers
from manifoldgp.errors import TrainingFailedError
from manifoldgp.features import Identity, Nested
from manifoldgp.kernels import SquaredExponential
from manifoldgp.kernels.stationary import Stationary
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, LogNormal, Tree, leaves, map_leaves, nest
from manifoldgp.training.lbfgs import minimize_lbfgs
from manifoldgp.training.objective import TrainingObjective, first_of
from manifoldgp.training.optimizer import CUT_SHORT, Monitor, OptimizeResult

Watch = Callable[[str, np.ndarray, np.ndarray], object]
"""Called as watch(phase, iterations, objective values) after every round; a true answer stops training."""


@dataclass(frozen=True)
class Trainer:
    """What all batches of one fit share: the generator of starts, the workers, the deadline and who watches."""

    generator: torch.Generator
    workers: Workers
    deadline: float = math.inf
    watch: Watch | None = None

    def fit(
        self,
        phase: str,
        model: Model,
        data: Data,
        count: int,
        max_iter: int | np.ndarray,
        start: Callable[[Tree], Tree] = lambda drawn: drawn,
        margin: float = math.inf,
    ) -> Batch:
        """Draw ``count`` starts, change them by ``start``, and train them on ``data`` in one batch.

        margin: nats behind the best by which a member is clearly lost and stops early.
        """
        layout, drawn = model.draw(data, self.generator, count)
        constants = first_of(layout.constants(drawn))
        theta = layout.flatten(start(drawn)).cpu().numpy() if layout.size else np.zeros((count, 0))
        objective = TrainingObjective(model, layout, constants, data, self.workers)
        objective.refuse_disconnected(theta)
        callback = (
            None if self.watch is None else (lambda iterations, values: self.watch and self.watch(phase, iterations, values))
        )
        result = minimize_lbfgs(objective, theta, Monitor(max_iter, self.deadline, callback, margin))
        return Batch(phase, model, layout, constants, result)


@dataclass(frozen=True)
class Batch:
    """Trained members of one architecture."""

    phase: str
    model: Model
    layout: Layout
    constants: Tree
    result: OptimizeResult

    @property
    def objective(self) -> np.ndarray:
        """Final objective (R,), +inf for members that could not be trained."""
        return self.result.value

    @property
    def cut_short(self) -> np.ndarray:
        """Members (R,) that the deadline or the one who watches stopped on their way."""
        return np.isin(self.result.status.astype(str), CUT_SHORT)

    def values(self, members: np.ndarray | None = None) -> Tree:
        """Values of some members (all of them by default), leaves (len(members), *shape)."""
        theta = self.result.theta if members is None else self.result.theta[members]
        device = next((leaf.device for _, leaf in leaves(self.constants)), torch.device("cpu"))
        return self.layout.batch(torch.tensor(theta, dtype=torch.float64, device=device), self.constants)

    def best(self) -> int:
        """The member with the lowest objective."""
        if not np.isfinite(self.objective).any():
            raise TrainingFailedError(
                f"None of the {len(self.objective)} starts of the {self.phase} gave a positive definite covariance. "
                "Rescale the data, or raise the noise floor."
            )
        return int(np.argmin(self.objective))


def plain_gp(template: Model) -> Model:
    """The plain GP: the template's kernel on the inputs themselves."""
    return replace(template, features=Identity(), priors={})


def nested_gp(template: Model, hidden: int, q: int) -> Model:
    """The mGP that contains the plain GP (:class:`Nested`), with priors that keep its network small unless the data object."""
    kernel = template.kernel if isinstance(template.kernel, Stationary) else SquaredExponential()
    priors = {"kernel.variance": LogNormal(0.0, 3.0)} if kernel.amplitude else {}
    if template.noise.learned:
        priors["noise.scale"] = LogNormal(-2.0, 2.0)
    return replace(template, features=Nested(hidden, q), kernel=replace(kernel, scaled=False, dims=None), priors=priors)


def pick(values: Tree, members: np.ndarray) -> Tree:
    """Some members' values, in the given order, repetitions allowed."""
    index = torch.as_tensor(members)
    return map_leaves(lambda leaf: leaf[index], values)


def warm_and_cold(drawn: Tree, width: float, gp: Tree, warm: np.ndarray) -> Tree:
    """Starts of nested members (R, ...): where ``warm`` (R,), almost the trained plain GP ``gp`` (R, ...); elsewhere far from it.

    Warm: length-scales, variance, noise and mean of the GP, the network's outputs at ``width`` (exactly zero would be a stationary point).
    Cold: outer weights of size one, a skip of size one half, length-scales as drawn.
    """
    flag = torch.as_tensor(warm)
    named, trained = dict(leaves(drawn)), dict(leaves(gp))
    trained["features.lengthscale"] = trained.get("kernel.lengthscale", named["features.lengthscale"])
    if "noise.scale" in trained:
        trained["noise.scale"] = trained["noise.scale"].clamp_min(1e-4)
    started = {}
    for name, cold in named.items():
        if name == "features.outer":
            hot, cold = cold, cold / width
        elif name == "features.skip":
            hot, cold = cold, 0.5 * cold / width
        else:
            hot = trained[name].expand_as(cold) if name in trained else cold
        started[name] = torch.where(flag.reshape(-1, *([1] * (cold.ndim - 1))), hot, cold)
    return nest(started)
