"""What training leaves: every start of one architecture, where it ended and why, and the table of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from manifoldgp.errors import InputError, TrainingFailedError
from manifoldgp.inference.local_posterior import conditioned
from manifoldgp.inference.neighbourhoods import Nearness
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.inference.sparse_posterior import SparsePosterior
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, Tree, leaves, map_leaves
from manifoldgp.training.optimizer import CUT_SHORT, OptimizeResult

START_FIELDS = np.dtype(
    [
        ("output", "i4"),
        ("start", "i4"),
        ("nlml", "f8"),
        ("objective", "f8"),
        ("status", "U24"),
        ("iterations", "i4"),
        ("evaluations", "i4"),
        ("chosen", "?"),
        ("group", "U16"),
        ("weight", "f8"),
    ]
)
"""The table of all starts. nlml and objective (nlml minus log prior, and what features add) are totals over all rows, in the units of y; +inf where they are not known. status: why
training ended; on levels also "lost on 500 rows" (never seen on all rows) and "trained on 500 rows" (nlml and objective of all rows, but not trained there). "learnt from 500 rows": a member that
predicts with all rows, and is trained to its end."""

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Trained:
    """Every start of one architecture.

    group: what the members are called in tables. nlml (R,): the objective without priors.
    rows, history_rows (R,): how many rows each start's value, and its history, are of.
    posterior: of sparse models, which training conditions. survivor: the only start that it is of, where the others were compared on few rows alone.
    """

    group: str
    model: Model
    layout: Layout
    constants: Tree
    result: OptimizeResult
    nlml: np.ndarray
    rows: np.ndarray
    history_rows: np.ndarray
    device: torch.device = CPU
    survivor: int | None = None
    posterior: SparsePosterior | None = None

    @staticmethod
    def on(
        data: Data, group: str, model: Model, layout: Layout, constants: Tree, result: OptimizeResult, parts: int = 1
    ) -> Trained:
        """Starts that were all trained on these data. parts: data sets of each of them."""
        prior = (
            layout.negative_log_prior(torch.as_tensor(result.theta, dtype=torch.float64)).numpy() if layout.has_priors else 0.0
        )
        if (penalty := _penalty(model, layout, constants, result.theta, data, parts)) is not None:
            prior = prior + penalty
        rows = np.full(len(result.value), parts * data.y.shape[-1])
        return Trained(group, model, layout, constants, result, result.value - prior, rows, rows, data.X.device)

    @property
    def objective(self) -> np.ndarray:
        """Final objective (R,), +inf for starts that could not be trained."""
        return self.result.value

    @property
    def cut_short(self) -> np.ndarray:
        """Starts (R,) that the deadline or the one who watches stopped on their way."""
        return np.isin(self.result.status.astype(str), CUT_SHORT)

    @property
    def order(self) -> np.ndarray:
        """Usable starts, the lowest objective first."""
        ranked = np.argsort(self.objective, kind="stable")
        return ranked[np.isfinite(self.objective[ranked])]

    def best(self) -> int:
        """The start with the lowest objective, or the survivor; refuses where there is none that could be trained."""
        if self.survivor is not None:
            return self.survivor
        if not len(self.order):
            status = self.result.status
            counts = ", ".join(f"{np.sum(status == s)} x {s}" for s in sorted(set(status)))
            whose = "" if self.group == "own" else f" of the {self.group}"
            raise TrainingFailedError(
                f"None of the {len(self.objective)} starts{whose} gave a positive definite covariance ({counts}). "
                "Rescale the data, raise the noise floor, or start from another kernel."
            )
        return int(self.order[0])

    def values(self, starts: np.ndarray | None = None) -> Tree:
        """Natural values of some starts (all of them by default), leaves (len(starts), *shape)."""
        theta = self.result.theta if starts is None else self.result.theta[starts]
        return self.layout.batch(torch.tensor(theta, dtype=torch.float64, device=self.device), self.constants)

    def conditioned(self, starts: np.ndarray, data: Data | None, nearness: Nearness | None = None) -> Conditioned:
        """The posterior of some starts given the data; of sparse models the one that training made, of the survivor or of all starts. nearness: of many rows."""
        if self.posterior is not None:
            return self.posterior if self.survivor is not None else self.posterior.only(torch.as_tensor(starts))
        assert data is not None
        return conditioned(self.model, self.values(starts), data, nearness)

    def joined_by(self, others: Trained) -> Trained:
        """These starts and others of the same architecture, trained on the same rows."""
        return replace(
            self,
            result=self.result.joined_by(others.result),
            nlml=np.concatenate([self.nlml, others.nlml]),
            rows=np.concatenate([self.rows, others.rows]),
            history_rows=np.concatenate([self.history_rows, others.history_rows]),
        )

    def is_like(self, other: Trained) -> bool:
        """Whether another one has the same name and architecture, learnt from as many rows and has the same constants of them, so that its starts can join these."""
        mine, others = (dict(leaves(constants)) for constants in (self.constants, other.constants))
        same = mine.keys() == others.keys() and all(torch.equal(leaf, others[name]) for name, leaf in mine.items())
        same = same and np.array_equal(np.unique(self.rows), np.unique(other.rows))  # totals of fewer rows are not of all
        same = same and self.model.kernel == other.model.kernel  # searched kernels have one name, and differ
        return same and self.group == other.group and self.posterior is None and other.posterior is None

    def table(self, weight: np.ndarray, kept: np.ndarray, output: int, log_scale: float) -> np.ndarray:
        """The rows of the table of starts. weight (R,); kept: starts that predict; log_scale: log sd(y), which turns values into the units of y."""
        starts = np.zeros(len(self.objective), dtype=START_FIELDS)
        starts["output"], starts["start"], starts["group"] = output, np.arange(len(starts)), self.group
        starts["nlml"], starts["objective"] = self.nlml + self.rows * log_scale, self.objective + self.rows * log_scale
        starts["status"] = self.result.status
        starts["iterations"], starts["evaluations"] = self.result.iterations, self.result.evaluations
        starts["chosen"][kept], starts["weight"] = True, weight
        return starts

    def histories(self, log_scale: float) -> list[np.ndarray]:
        """The objective of each start, iteration by iteration, in the units of y."""
        pairs = zip(self.result.history, self.history_rows, strict=True)
        return [np.array(history) + rows * log_scale for history, rows in pairs]


@dataclass(frozen=True)
class Earlier:
    """What fits of one target to the same rows left before this one: their number, the posteriors that predict, groups that were tried and found of no use, by which exponent of
    their variances members count, and in which share of the mixture."""

    fits: int
    blocks: Sequence[Conditioned]
    idle: frozenset[str] = frozenset()
    exponent: float = 0.0
    following: float = 0.0

    def best_of(self, model: Model) -> Tree | None:
        """The values, without batch, of the first member that is this very model; None where there is none."""
        block = next((block for block in self.blocks if block.model == model), None)
        return None if block is None else map_leaves(lambda leaf: leaf[0], block.values)


def warm_theta(layout: Layout, values: Tree) -> np.ndarray:
    """Flat theta (P,) of another model's values; refuses names or shapes that do not match."""
    named = dict(leaves(values))
    for name in layout.names:
        if name not in named:
            raise InputError(f"Warm start: the other model has no parameter {name!r}. It has: {', '.join(named)}.")
        if tuple(named[name].shape) != layout.parameters[name].shape:
            raise InputError(
                f"Warm start: {name!r} has shape {tuple(named[name].shape)} in the other model; "
                f"here it is {layout.parameters[name].shape}."
            )
    return layout.flatten(values).cpu().numpy()


@torch.no_grad()
def _penalty(model: Model, layout: Layout, constants: Tree, theta: np.ndarray, data: Data, parts: int) -> np.ndarray | None:
    """What features add to the objective (R,) of each start at the end; None for nothing."""
    each = torch.as_tensor(theta, dtype=torch.float64, device=data.X.device).repeat_interleave(parts, 0)
    found = model.penalty(layout.unflatten(each, constants), data) if layout.size else None
    return None if found is None else found.reshape(len(theta), parts).sum(1).cpu().numpy()
