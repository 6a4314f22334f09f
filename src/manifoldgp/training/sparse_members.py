"""Sparse members of an average on their way: each begins on few rows, and goes on with more of them, step by step.

A member that has taken steps of 25 and 55 iterations stands where one that took 80 at once stands: what L-BFGS has learnt goes along. So an average can
train many members briefly, look at what they predict, and go on with those that are worth it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from manifoldgp._system.threads import Workers
from manifoldgp.errors import NotPositiveDefiniteError
from manifoldgp.inference.sparse_posterior import KEPT_ROWS, SparsePosterior, from_sums
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, Tree, nest
from manifoldgp.training.checkpoint import Checkpoint, Checkpoints, fingerprint
from manifoldgp.training.inducing_placement import Placement
from manifoldgp.training.lbfgs import minimize_lbfgs
from manifoldgp.training.member_round import Round
from manifoldgp.training.model_rows import MemoryRows, ModelRows
from manifoldgp.training.optimizer import STOPPED, TIME_LIMIT, Curvature, Monitor, OptimizeResult
from manifoldgp.training.replay import Replay
from manifoldgp.training.sparse_objective import BoundObjective
from manifoldgp.training.trained import Trained

MEMORY = 30
"""Pairs that L-BFGS remembers."""


@dataclass(frozen=True)
class Member:
    """One sparse model on its way.

    layout, theta (P,): its parameters, inducing points included. value: its objective on ``rows`` rows. iterations, history: on these rows; evaluations: in all.
    rung: of the jitter ladder. A member whose covariance has no factor has the value +inf, and takes no further steps.
    """

    model: Model
    constants: Tree
    layout: Layout
    theta: np.ndarray
    value: float = math.inf
    rows: int = 0
    iterations: int = 0
    evaluations: int = 0
    history: tuple[float, ...] = ()
    status: str = "not reached"
    rung: int = 0
    curvature: Curvature | None = None

    @property
    def usable(self) -> bool:
        """Whether it can go on: it has not been trained yet, or has a finite objective."""
        return not self.rows or math.isfinite(self.value)

    @property
    def all_values(self) -> Tree:
        """Natural values without batch, inducing points included."""
        return self.layout.unflatten(torch.as_tensor(self.theta), self.constants)

    @property
    def values(self) -> Tree:
        """Natural values without batch, inducing points left out."""
        return {name: tree for name, tree in self.all_values.items() if name != "inducing"}

    @property
    def inducing(self) -> int:
        """Its inducing points."""
        return self.layout.parameters["inducing.Z"].shape[0]

    def negative_log_prior(self) -> float:
        return float(self.layout.negative_log_prior(torch.as_tensor(self.theta))) if self.layout.has_priors else 0.0

    def conditioned(self, posterior: SparsePosterior) -> Member:
        """The member with the value and the rows of its posterior, where these are others than it was trained on."""
        if self.rows == posterior.bound_rows:
            return self
        value = float(posterior.bound[0]) + self.negative_log_prior()
        return replace(self, value=value, rows=posterior.bound_rows, history=(), status=self.status if self.rows else STOPPED)


@dataclass(frozen=True)
class MemberTrainer:
    """Trains members, side by side where one process has all rows, one after another where processes share them.

    rows: all that members may be trained on. checkpoints, output: where members are kept on their way, and of which target.
    """

    rows: ModelRows
    workers: Workers
    seed: int
    device: torch.device | str = "cpu"
    checkpoints: Checkpoints | None = None
    output: int = 0

    @property
    def alone(self) -> bool:
        """Whether this process has all rows."""
        return self.rows.ranks.count == 1

    def begin(
        self, model: Model, starts: Sequence[Tree], sample: Data, layout: Layout, constants: Tree, inducing: int
    ) -> list[Member]:
        """Members at starting values (without batch), with inducing points among the features of a sample of the rows."""
        source = MemoryRows(sample, self.rows.ranks)
        placement = Placement(model, nest(dict(layout.parameters)), constants, self.workers, self.seed, self.device)
        return [self._placed(placement, start, source, inducing) for start in starts]

    def placed_anew(self, members: Sequence[Member], source: ModelRows, inducing: int) -> list[Member]:
        """The members with other inducing points, chosen among the features of these rows; they forget their curvature and how far they came."""
        return [self._placed(self._placement(m), m.values, source, inducing) if m.usable else m for m in members]

    def filled_up(self, members: Sequence[Member], source: ModelRows, inducing: int) -> list[Member]:
        """The members with more inducing points, beside those that they have or anew, whichever gives the better bound; not trained with them."""
        placed = []
        for member in members:
            layout, theta, _ = self._placement(member).best(member.all_values, source, inducing, first=False)
            placed.append(replace(member, layout=layout, theta=theta, curvature=None))
        return placed

    def _placed(self, placement: Placement, values: Tree, source: ModelRows, inducing: int) -> Member:
        layout, theta, _ = placement.best(values, source, inducing, first=True)
        return Member(placement.model, placement.constants, layout, theta)

    def _placement(self, member: Member) -> Placement:
        parameters = {name: p for name, p in member.layout.parameters.items() if not name.startswith("inducing.")}
        return Placement(member.model, nest(parameters), member.constants, self.workers, self.seed, self.device)

    def further(self, members: Sequence[Member], iterations: Sequence[int], round_: Round, source: ModelRows) -> list[Member]:
        """Every member after so many more iterations on these rows, or on fewer if the round was stopped."""

        def train(number: int) -> Member:
            member, limit = members[number], iterations[number]
            if limit <= 0 or not member.usable or round_.stopped or (self.alone and round_.late):
                return member
            return self._trained(member, limit, round_, number, source)

        if not self._side_by_side(len(members)):
            return [train(i) for i in range(len(members))]
        # The longest first, so that no core waits for long at the end.
        order = sorted(range(len(members)), key=lambda i: -iterations[i] * members[i].theta.size)
        done = dict(zip(order, round_.run(train, order, self.workers), strict=True))
        return [done[i] for i in range(len(members))]

    def _side_by_side(self, members: int) -> bool:
        """Whether so many members are trained in threads of their own; otherwise one after another, each with all threads for its rows."""
        return self.alone and self.workers.count > 1 and members > 1

    def _trained(self, member: Member, limit: int, round_: Round, number: int, source: ModelRows) -> Member:
        """One member after up to ``limit`` more iterations; answers that its checkpoint knows cost nothing."""
        replay = Replay(self._checkpoint(member, limit, round_, number, source), self.rows.ranks)
        replay.begin(tell=False)
        round_.resumed = round_.resumed or replay.replaying
        objective = self._objective(member, source, self._side_by_side(len(round_.iterations)), replay)

        def after_round(done: np.ndarray, values: np.ndarray) -> bool:
            stop = self.rows.ranks.first and round_.tell(number, int(done[0]), float(values[0]) * self.rows.count / source.count)
            return self.rows.ranks.decide(stop or (not self.alone and round_.late))

        # Ranks must agree on the time: the first one asks its clock, in after_round.
        monitor = Monitor(limit, round_.deadline if self.alone else math.inf, after_round)
        known = member.curvature
        if known is not None and member.rows != source.count:
            known = known.of(slice(None), source.count / member.rows)
        try:
            result = minimize_lbfgs(objective, member.theta[None], monitor, memory=MEMORY, curvature=known)
        except KeyboardInterrupt:
            if not self.alone:
                raise
            round_.interrupted = round_.stopped = True
            return member if objective.best is None else _stopped(member, objective, source.count)
        finally:
            replay.end()
        return _after(member, result, objective, source.count, round_)

    def _checkpoint(self, member: Member, limit: int, round_: Round, number: int, source: ModelRows) -> Checkpoint | None:
        if self.checkpoints is None:
            return None
        few = self.rows.sample(8, self.seed)
        details: Mapping[str, object] = {
            "rows": self.rows.count, "seed": self.seed, "some rows of X": few.X.mean(-1).tolist(), "some rows of y": few.y.tolist(),
            "model": fingerprint(member.model),
        }  # fmt: skip
        # What the time decides is part of the name, not of what a checkpoint is refused for.
        name = f"{round_.phase} {round_.labels[number]} {source.count} rows {member.inducing} points {limit} iterations"
        return self.checkpoints.of(re.sub(r"\W+", "-", name), self.output, details)

    def _objective(self, member: Member, source: ModelRows, side_by_side: bool, replay: Replay | None = None) -> BoundObjective:
        """The member's bound on these rows. Members side by side have one thread each, and share the memory that a pass may keep."""
        workers, sharing = (None, self.workers.count) if side_by_side else (self.workers, 1)
        objective = BoundObjective(
            member.model, member.layout, member.constants, source, self.device, workers, replay=replay, sharing=sharing
        )
        objective.rung = member.rung
        return objective

    def posteriors(self, members: Sequence[Member], source: ModelRows) -> list[SparsePosterior | None]:
        """What every member knows of these rows; None for one that has no factor."""
        kept, side_by_side = source.sample(KEPT_ROWS, self.seed), self._side_by_side(len(members))

        def conditioned(member: Member) -> SparsePosterior | None:
            if not member.usable:
                return None
            try:
                values, inducing, sums, bound = self._objective(member, source, side_by_side).sums(member.theta)
                return from_sums(member.model, [values], [inducing], [sums], [bound], kept)
            except NotPositiveDefiniteError:
                return None

        if side_by_side:
            return self.workers.map(conditioned, list(members), large=False)
        return [conditioned(member) for member in members]


def _after(member: Member, result: OptimizeResult, objective: BoundObjective, rows: int, round_: Round) -> Member:
    """The member where the minimiser left it."""
    same = member.rows == rows
    before = member.history if same else ()
    status = str(result.status[0])
    return replace(
        member, theta=result.theta[0], value=float(result.value[0]), rows=rows, rung=objective.rung, curvature=result.curvature,
        iterations=(member.iterations if same else 0) + int(result.iterations[0]), evaluations=member.evaluations + int(result.evaluations[0]),
        history=(*before, *result.history[0][1 if before else 0 :]),
        status=TIME_LIMIT if status == STOPPED and not round_.stopped else status,
    )  # fmt: skip


def _stopped(member: Member, objective: BoundObjective, rows: int) -> Member:
    """The member at the best point that was seen before training was interrupted."""
    assert objective.best is not None
    value, theta = objective.best
    history = (*(member.history if member.rows == rows else ()), value)
    return replace(
        member, theta=theta, value=value, rows=rows, rung=objective.rung, curvature=None, history=history, status=STOPPED,
        evaluations=member.evaluations + objective.evaluations,
    )  # fmt: skip


def table_of(group: str, members: Sequence[Member], posterior: SparsePosterior) -> Trained:
    """Members of one shape as the starts of one architecture, with the posterior of all of them."""
    theta = np.stack([m.theta for m in members])
    result = OptimizeResult(
        theta, np.array([m.value for m in members]), np.zeros_like(theta), np.array([m.status for m in members], dtype=object),
        np.array([m.iterations for m in members]), np.array([m.evaluations for m in members]), [list(m.history) for m in members],
    )  # fmt: skip
    rows, nlml = np.array([m.rows for m in members]), np.array([m.value - m.negative_log_prior() for m in members])
    first = members[0]
    return Trained(
        group, first.model, first.layout, first.constants, result, nlml, rows, rows, posterior.alpha.device, None, posterior
    )
