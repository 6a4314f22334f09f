"""The stack: the plain GP and groups of mGPs, weighted by what they predict on held-out folds.

    p(y* | x*) = Σ_g Σ_f w_gf (1/R_g) Σ_r N(y* | m_gr, f · v_gr)

over groups g, their members r and variance factors f; in a share of it members count more where they are surer (:mod:`manifoldgp.inference.certainty`).
The weights maximise the held-out log density of this very mixture, found
with members trained on folds (:mod:`manifoldgp.averaging.fold_training`). The members that predict (:mod:`manifoldgp.averaging.final_members`) are trained anew on
all rows where these are few; beyond, they are those of the folds, and know all rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from manifoldgp.averaging.averages import (
    RANDOM_ROWS,
    SEARCH_EXPECTED,
    Averaged,
    Averaging,
    Fitted,
    FoldChoice,
    Following,
    number_of,
)
from manifoldgp.averaging.final_members import RETRAINED_BELOW, Share, Weighted, conditioned, mixed, retrained
from manifoldgp.averaging.fold_predictions import make_batch, sample_of
from manifoldgp.averaging.fold_steps import FINE_STEPS, FINE_STEPS_FROM, SCREEN_FROM, SCREEN_ROWS, STEPS
from manifoldgp.averaging.fold_training import OnFolds
from manifoldgp.averaging.folds import SHORT_STRETCH, held_out_in_turn
from manifoldgp.averaging.kinds import PLAIN, models_of_groups
from manifoldgp.averaging.members import plain_gp
from manifoldgp.averaging.sparse_kinds import kinds_of
from manifoldgp.averaging.sparse_stack import fit_sparse_stack, plan_sparse_stack
from manifoldgp.averaging.stack_plan import plan_stack
from manifoldgp.averaging.stacking import PLAIN_GPS, HeldOutReport, Weighing, stacking_weights
from manifoldgp.data.inputs import positive_number, whole_number
from manifoldgp.errors import InputError
from manifoldgp.inference.neighbourhoods import Nearness
from manifoldgp.model import Data, Model
from manifoldgp.predictor.mixture_facts import MOST_FACTORS
from manifoldgp.predictor.operations_mixtures import LEAST_CERTAIN, MOST_CERTAIN
from manifoldgp.training.model_rows import ModelRows
from manifoldgp.training.plan import Plan, slower_by_inputs
from manifoldgp.training.settings import Method, Sparse
from manifoldgp.training.sparse_trainer import SparseTrainer
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import LOST_MARGIN, Trainer

FOR_PLAIN, FOR_FOLDS, FOR_RETRAINING = 0.25, 0.8, 0.85
"""Shares of what is left of a time budget: for the plain GP, for the folds where members are trained anew on all rows, and for that."""

DEALT_ROWS = 600
"""Rows in all deals together: few rows are dealt to folds several times, and a stack is learnt with each deal. One stack is a matter of chance there."""

NEGLIGIBLE = 0.01
"""Weight of all members with learned features, in two deals, below which further ones have plain GPs only."""

STARTED_ROWS = 1000
"""Rows in all starts of the plain GP together, where these are not chosen: the evidence of few rows has several optima."""

NARROW_ROWS = 6.25
"""Copies of a member with narrower intervals are in the choice from so many rows on, divided by the square of their factor: fewer held-out rows take them for better
than they are."""


@dataclass(repr=False)
class Stack(Averaging):
    """Plain GPs and many mGPs, weighted by what they predict on held-out folds (the default).

    Groups: the plain GP, and beside the default kernel a rough one (Matérn 3/2) and an additive one; warm, cold, large and rough members, mGPs on a network that contains
    a plain GP; and members of your own features and kernel. Held-out rows decide which of them are trained, how far, and what they count.

    Parameters
    ----------
    gp_starts
        Starts of the plain GP; None: 5, and up to 20 with fewer than 200 rows.
    warm_members
        Members that start at the plain GP and stop early; below 600 rows, where members are trained anew on all of them.
    cold_members
        Members that start far from the plain GP, and as many rough ones; below 600 rows too.
    own_members
        Members of your own features, at most; below 600 rows too.
    deals
        How often, at most, few rows are dealt to folds; the average holds a stack of each deal, so that chance has less say. Up to 100 rows six times, from
        301 rows on once.
    fold_members
        Members of each of these groups on each fold. From 600 rows on they are those that predict.
    hidden
        Units of the network of warm and cold members. Large ones have four times as many.
    q
        Features that this network adds. That of large members adds twice as many.
    gp_iterations
        Iterations of the plain GP, at most.
    warm_iterations
        Iterations of warm members.
    steps
        Iterations in all, after which held-out rows decide whether cold, large, rough and own members are trained on: to the second step unless they add next to nothing
        (half of ``keep``) and are no better than the plain GP, further if the last step gained ``go_on``. None: 25, 80 and 200, and from 600 rows on 120 too.
    polish
        Iterations of a member on all rows that goes on where one of a fold ended; a quarter of those it had there if that is more.
    temperature
        Nats of the objective by which an own member, or a rough or additive GP of all rows, must be worse to lose a factor e of weight.
    variance_factors
        Each member predicts once for each of these factors of its variance, with a weight of its own; the first is 1, the member as it is. Those below one count where
        rows are many enough: 1/4 from 100 on, 1/16 from 1,600.
    gp_prior
        Pseudo-rows, as a fraction of N, that vote for the plain GP; fewer where held-out rows speak against it.
    spread_prior
        Pseudo-rows, as a fraction of N, that vote equally for every component.
    own_rows
        Up to so many rows all own members are trained, if they carry the weight; beyond, in inverse proportion to the rows.
    learn_rows
        Rows that a member sees at once while it learns its parameters, where there are many: at first a sample of so many; then all (4,000 at most) in neighbourhoods, of about half as many
        up to 1,000 rows, and in the last iterations of each step of as many, or all of up to twice as many. It predicts with all rows.
    keep
        Nats a row of the held-out log density: groups that together add less are not trained on all rows.
    go_on
        Nats a row of the held-out log density that a step must gain for the next one to be taken.
    search
        How kernels are searched for, such as ``Search(depth=3, beam=1)``: one more plain GP, with a search on every fold and one on all rows, which takes minutes. Up to
        3,000 rows. None: nobody searches.
    certainty
        In a share of the stack, as large as held-out rows want it, members count at every point in proportion to their variances there to the power of −certainty. 0: weights are
        the same everywhere.

    Examples
    --------
    >>> from manifoldgp import ManifoldGPRegressor
    >>> ManifoldGPRegressor(averaging=Stack(warm_members=12))
    ManifoldGPRegressor(averaging=Stack(warm_members=12))
    """

    gp_starts: int | None = None
    warm_members: int = 5
    cold_members: int = 6
    own_members: int = 20
    deals: int = 6
    fold_members: int = 2
    hidden: int = 8
    q: int = 2
    gp_iterations: int = 200
    warm_iterations: int = 25
    steps: tuple[int, ...] | None = None
    polish: int = 25
    temperature: float = 10.0
    variance_factors: tuple[float, ...] = (1.0, 4.0, 16.0, 0.25, 0.0625)
    gp_prior: float = 0.05
    spread_prior: float = 0.02
    own_rows: int = 150
    learn_rows: int = 450
    keep: float = 0.005
    go_on: float = 0.02
    search: Averaging | None = None
    certainty: float = 1.0

    def check(self) -> None:
        if self.gp_starts is not None:
            whole_number(self.gp_starts, "gp_starts")
        for name in ("warm_members", "cold_members", "own_members", "deals", "fold_members", "hidden", "q", "own_rows"):
            whole_number(getattr(self, name), name)
        whole_number(self.learn_rows, "learn_rows", least=2)
        for name in ("gp_iterations", "warm_iterations", "polish"):
            whole_number(getattr(self, name), name, least=0)
        if self.steps is not None:
            _check_steps(self.steps)
        positive_number(self.temperature, "temperature")
        factors = _sequence(self.variance_factors, "variance_factors", "positive numbers such as (1.0, 4.0, 16.0)")
        for factor in factors:
            positive_number(factor, "Each of variance_factors")
        if float(factors[0]) != 1.0:
            raise InputError(f"variance_factors must begin with 1, the member as it is; got {self.variance_factors!r}.")
        if len(factors) >= MOST_FACTORS:
            raise InputError(f"variance_factors must be fewer than {MOST_FACTORS}; got {len(factors)}. Four suffice as a rule.")
        for name in ("gp_prior", "spread_prior"):
            if not number_of(getattr(self, name)) >= 0:
                raise InputError(f"{name} must be a fraction of the rows, zero or more; got {getattr(self, name)!r}.")
        for name in ("keep", "go_on"):
            if math.isnan(number_of(getattr(self, name))):
                raise InputError(f"{name} must be a number, in nats a row; got {getattr(self, name)!r}.")
        power = math.nan if isinstance(self.certainty, (bool, str)) else number_of(self.certainty)
        if power != 0.0 and not LEAST_CERTAIN <= power <= MOST_CERTAIN:
            raise InputError(
                f"certainty must be a power from {LEAST_CERTAIN:g} to {MOST_CERTAIN:g}, or 0; got {self.certainty!r}."
            )
        if self.search is not None:
            if not isinstance(self.search, Averaging):
                raise InputError(SEARCH_EXPECTED.format(self.search))
            self.search.check_as_search()

    in_words = (
        "The prediction is a weighted average of several models. "
        "Weights were found on held-out rows: whoever predicts those best counts most, and copies with wider or narrower intervals are in the choice."
    )
    exact_up_to = Nearness.above
    local_up_to = 1_000_000
    sparse_obeys = (
        "warm_members", "cold_members", "own_members", "fold_members", "hidden", "q", "warm_iterations", "steps", "variance_factors", "gp_prior",
        "spread_prior", "keep", "go_on", "certainty",
    )  # fmt: skip
    sparse_words = (
        "the members of a sparse stack go on from step to step on the same rows, and are weighed by held-out rows alone."
    )

    @property
    def weighing(self) -> Weighing:
        """How the groups are weighed."""
        return Weighing(tuple(self.variance_factors), self.gp_prior, self.spread_prior)

    def why_not_local(self) -> str | None:
        words = "what a searched kernel knows of a point, a period or a trend, lies far from it."
        return None if self.search is None else f"search={self.search!r} needs method='exact': {words}"

    def models(self, template: Model, inputs: int, method: Method) -> dict[str, Model]:
        if isinstance(method, Sparse):
            return {name: kind.model(1) for name, kind in kinds_of(template, self).items()}
        return models_of_groups(template, inputs, self.hidden, self.q)

    def deals_for(self, N: int) -> int:
        """How often so many rows are dealt to folds.

        >>> Stack().deals_for(100), Stack().deals_for(120), Stack().deals_for(300), Stack().deals_for(301)
        (6, 5, 2, 1)
        """
        return max(1, min(self.deals, DEALT_ROWS // N))

    def starts_for(self, N: int) -> int:
        """How many starts the plain GP has with so many rows.

        >>> Stack().starts_for(40), Stack().starts_for(100), Stack().starts_for(200), Stack(gp_starts=3).starts_for(40)
        (20, 10, 5, 3)
        """
        return max(5, min(20, STARTED_ROWS // N)) if self.gp_starts is None else self.gp_starts

    def steps_for(self, N: int) -> tuple[int, ...]:
        """Iterations in all after which held-out rows are asked, of so many rows in memory.

        >>> Stack().steps_for(500), Stack().steps_for(600), Stack(steps=(5, 10)).steps_for(600)
        ((25, 80, 200), (25, 80, 120, 200), (5, 10))
        """
        return (FINE_STEPS if N >= FINE_STEPS_FROM else STEPS) if self.steps is None else tuple(self.steps)

    @property
    def sparse_steps(self) -> tuple[int, ...]:
        """The same of sparse members, which keep no curvature from one step to the next."""
        return STEPS if self.steps is None else tuple(self.steps)

    def plan(self, N: int) -> Plan:
        return plan_stack(N, self)

    def slower(self, N: int, inputs: int) -> float:
        """As the work of all groups together, which learn from some of many rows: every input brings a search candidates of its own."""
        usual = slower_by_inputs(min(N, self.learn_rows), inputs)
        if self.search is None:
            return usual
        others, every = (replace(self, search=search).plan(N).work for search in (None, self.search))
        return (usual * others + self.search.slower(N, inputs) * (every - others)) / every

    def fit(self, model: Model, data: Data, trainer: Trainer, folds: FoldChoice) -> Averaged:
        if self.search is not None and trainer.ranks.count > 1:
            raise InputError(
                f"search={self.search!r} cannot be shared by the processes of torchrun. Leave it out, or fit in one process."
            )
        # The seed itself: nothing is drawn from the generator, so that the plain GP (of the first target) has the very starts of a GPRegressor.
        seed, N = trainer.generator.initial_seed(), len(data.y)
        settings = replace(self, certainty=float(self.certainty), variance_factors=_factors_for(N, tuple(self.variance_factors)))
        if folds.ordered and N < SHORT_STRETCH:
            settings = replace(settings, variance_factors=_wider(settings.variance_factors))
        rng = np.random.default_rng(seed if trainer.earlier is None else [seed, trainer.earlier.fits])
        # Another fit to many rows holds out the same ones; of few rows every one is held out, whatever the deal.
        dealer = rng if trainer.earlier is None or N < RETRAINED_BELOW else np.random.default_rng(seed)
        X = data.X.cpu().numpy()
        deals = [held_out_in_turn(X, dealer, folds.groups, folds.ordered) for _ in range(self.deals_for(N))]
        found = fit_stack(model, data, deals, settings, trainer, rng, folds)
        if found.report is None:
            return found
        return replace(found, report=replace(found.report, ordered=folds.ordered))

    def share_of_earlier(self, earlier: Fitted, later: Fitted) -> float:
        """By what each predicts on the held-out rows, which are the same."""
        reports = [fitted.report for fitted in (earlier, later) if fitted.report is not None]  # a stack has held-out rows
        table = np.stack([report.log_density["stack"] for report in reports])
        return float(stacking_weights(table, 0.5 * self.spread_prior * table.shape[1])[0])

    def plan_sparse(self, N: int, method: Sparse) -> Plan:
        return plan_sparse_stack(N, method, self)

    def fit_sparse(self, model: Model, rows: ModelRows, trainer: SparseTrainer, folds: FoldChoice) -> Averaged:
        return fit_sparse_stack(model, rows, trainer, folds, replace(self, certainty=float(self.certainty)))


def _factors_for(N: int, factors: tuple[float, ...]) -> tuple[float, ...]:
    """The variance factors that N rows can tell apart.

    >>> [len(_factors_for(N, Stack().variance_factors)) for N in (99, 100, 1600)]
    [3, 4, 5]
    """
    return tuple(factor for factor in factors if factor >= 1.0 or N * factor**2 >= NARROW_ROWS)


def _wider(factors: tuple[float, ...]) -> tuple[float, ...]:
    """With one that is four times the largest, unless there are no widened copies at all.

    >>> _wider((1.0, 4.0, 16.0)), _wider((1.0,))
    ((1.0, 4.0, 16.0, 64.0), (1.0,))
    """
    return (*factors, 4.0 * max(factors)) if max(factors) > 1.0 else factors


def _check_steps(given: Any) -> None:
    expected = "iteration counts that grow, such as (25, 80, 200), or None"
    steps = _sequence(given, "steps", expected)
    growing = all(np.ndim(s) == 0 and isinstance(s, (int, np.integer)) for s in steps) and all(a < b for a, b in pairwise(steps))
    if not growing or steps[0] < 1:
        raise InputError(f"steps must be {expected}; got {given!r}.")


def _sequence(value: Any, name: str, expected: str) -> tuple[Any, ...]:
    with suppress(TypeError):
        if len(value := tuple(value)):
            return value
    raise InputError(f"{name} must be {expected}; got {value!r}.")


def _learned(report: HeldOutReport) -> float:
    """The weight of all members with learned features."""
    return float(report.weights[[name not in PLAIN_GPS for name in report.groups]].sum())


def fit_stack(
    template: Model,
    data: Data,
    deals: Sequence[list[np.ndarray]],
    settings: Stack,
    trainer: Trainer,
    rng: np.random.Generator,
    choice: FoldChoice = RANDOM_ROWS,
) -> Averaged:
    """Weights from the folds, and the members that predict. deals: held-out rows of each fold, once or several times. choice: which rows may err together."""
    few = len(data.y) < RETRAINED_BELOW
    sample = data if len(data.y) <= SCREEN_FROM else sample_of(data, SCREEN_ROWS, rng)
    first, model = trainer.within(FOR_PLAIN), plain_gp(template)
    earlier = None if trainer.earlier is None else trainer.earlier.best_of(model)
    starts = settings.starts_for(len(sample.y)) if earlier is None else 1
    gp = first.fit(PLAIN, model, sample, starts, settings.gp_iterations, margin=LOST_MARGIN, warm=earlier)
    plain, stacks, reports, networks = {PLAIN: gp} if sample is data else {}, [], [], True
    begin = trainer.now()
    for held_out in deals:
        on_folds = trainer.within(FOR_FOLDS) if few else trainer
        course = OnFolds(template, make_batch(data, held_out), settings, on_folds, rng, networks, choice)
        try:
            weights, usual, report = course.weigh(gp.values(np.array([gp.best()])))
        except KeyboardInterrupt:
            if not stacks:
                raise
            trainer.interrupt()
            break
        share = {name: Share(own, float(at)) for name, own, at in zip(course.groups, weights, usual, strict=True)}
        found = _that_predict(template, data, plain, course, share, trainer) if few else conditioned(course.groups, share)
        finished = not report.cut_short and not any(batch.cut_short.any() for batch in found.batches)
        if stacks and not (
            finished and set(report.groups) == {name for name in reports[0].groups if networks or name in PLAIN_GPS}
        ):
            break  # those that came to their end before are better
        stacks.append(found)
        reports.append(report)
        now = trainer.now()
        each = (now - begin) / len(stacks)
        networks = len(stacks) == 1 or any(_learned(report) >= NEGLIGIBLE for report in reports)
        if not finished or trainer.late or now + 1.2 * each > trainer.deadline:
            break
    report = HeldOutReport.averaged(reports)
    whole = mixed(stacks, report.exponent)
    return Averaged(
        whole.batches,
        whole.weights,
        tuple(settings.variance_factors),
        report,
        nearness=trainer.nearness,
        following=Following(report.exponent, report.following, whole.usual) if report.following else None,
    )


def _that_predict(
    template: Model, data: Data, plain: dict[str, Trained], course: OnFolds, share: dict[str, Share], trainer: Trainer
) -> Weighted:
    """Members trained anew on all rows; those of the folds where Ctrl-C ends that."""
    try:
        return retrained(template, data, plain, course.groups, share, course.settings, trainer.within(FOR_RETRAINING))
    except KeyboardInterrupt:
        trainer.interrupt()
        return conditioned(course.groups, share)
