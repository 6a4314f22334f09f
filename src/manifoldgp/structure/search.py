"""Beam search over expressions: which sum of products of base kernels explains the rows with the fewest numbers (Duvenaud et al. 2013)."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manifoldgp._system.plain_text import feature_name
from manifoldgp.averaging.averages import Averaged, Averaging, FoldChoice
from manifoldgp.averaging.folds import make_folds
from manifoldgp.averaging.single import alone
from manifoldgp.data.inputs import whole_number
from manifoldgp.errors import InputError, TrainingFailedError, warn
from manifoldgp.features import Identity
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.means import Constant, Zero
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Tree, map_leaves
from manifoldgp.structure.base_kernels import InputFacts, checked_names, periods_in, without_aliases, without_trend
from manifoldgp.structure.contest import SCREENING, Contest, Entry
from manifoldgp.structure.expansions import Candidates, Grammar, reduced
from manifoldgp.structure.expressions import degrees, text_of
from manifoldgp.structure.record import Record, fingerprint
from manifoldgp.training.plan import Phase, Plan, cost
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Trainer

CRITERIA = ("bic", "held-out")

_KEEP = 8
"""Candidates of a step that are trained to the end, at least, for each of the beam."""

_SCREENING_ROWS = 200
"""Rows on which all candidates are screened, at most."""

_TO_THE_END = 0.85
"""Share of the budget after which the search stops, so that the winner can be trained on all rows."""

_FIRST_STARTS, _LATER_STARTS = 20, 90
"""Starts of all candidates that a plan counts with: in the first step, and in later ones for each of the beam. With one input; some steps have half or twice as many."""

_DEEPER = 0.9
"""How often a depth finds something better, so that another follows."""

_SLOWER = 5
"""Iterations of the usual models, whose gradients have a closed form, that one of a sum or a product of kernels takes as long as."""

_FEATURE_STARTS = 5
"""Starts of features that are learnt before a search; the best one is searched on."""


@dataclass(frozen=True)
class Candidate:
    """A line of a search: the step at which an expression was tried, its parameters, NLML and score (lower is better)."""

    depth: int
    expression: str
    parameters: int
    nlml: float
    score: float


@dataclass(frozen=True)
class SearchReport:
    """What a search tried, best first, how its candidates were compared, and why it ended, in words."""

    candidates: tuple[Candidate, ...]
    criterion: str
    rows: int
    ended: str

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> SearchReport:
        return SearchReport(
            tuple(Candidate(**line) for line in plain["candidates"]), plain["criterion"], plain["rows"], plain["ended"]
        )


@dataclass(frozen=True)
class Searched(Averaged):
    """The winner, alone, and what was tried on the way."""

    search: SearchReport | None = None


@dataclass(repr=False)
class Search(Averaging):
    """How a stack searches for kernels, ``Stack(search=Search(depth=3, beam=1))``, and how `KernelSearch` does, which says it by arguments of its own.

    Parameters
    ----------
    depth
        Steps, at most; an expression of depth 4 has four base kernels, or eight with a change-point.
    beam
        How many of the best expressions each step grows from.
    criterion
        "bic": the evidence with half a log N for each parameter. `KernelSearch` also has "held-out".
    kernels
        Base kernels by name, as in `KernelSearch`. None: all but the Matern kernels 1/2 and 5/2.
    rows
        Candidates are compared on at most so many rows, drawn at random.
    max_iter
        Iterations of a candidate that is trained to the end, at most.
    cache
        A file that keeps what candidates reached. Searches that find their own results there go on where they stood.
    on_features
        Whether kernels see features that are learnt first, which `KernelSearch` says; None in a stack, where they see the inputs.

    Examples
    --------
    >>> from manifoldgp import ManifoldGPRegressor, Stack
    >>> ManifoldGPRegressor(averaging=Stack(search=Search(depth=3, beam=1)))
    ManifoldGPRegressor(averaging=Stack(search=Search(beam=1, depth=3)))
    """

    depth: int = 4
    beam: int = 2
    criterion: str = "bic"
    kernels: Any = None
    rows: int = 500
    max_iter: int = 100
    cache: str | Path | None = None
    on_features: bool | None = None

    in_words = (
        "The prediction comes from a single model, whose kernel was found by a search over sums and products of base kernels."
    )

    def check(self) -> None:
        for name in ("depth", "beam"):
            whole_number(getattr(self, name), name)
        whole_number(self.rows, "rows", least=10)
        whole_number(self.max_iter, "max_iter", least=0)
        checked_names(self.kernels)
        if not isinstance(self.criterion, str) or self.criterion not in CRITERIA:
            raise InputError(
                f"criterion must be 'bic' (evidence with a penalty) or 'held-out' (density of held-out rows); got {self.criterion!r}."
            )
        if self.cache is not None and not isinstance(self.cache, (str, Path)):
            raise InputError(f"cache must be the name of a file, or None; got {self.cache!r}.")

    def check_as_search(self) -> None:
        self.check()
        if self.criterion != "bic":
            raise InputError(
                f"criterion={self.criterion!r} has no place in a stack, whose own held-out rows weigh what was found: leave it out. KernelSearch has it."
            )
        if self.on_features is not None:
            raise InputError(
                f"on_features={self.on_features!r} has no place in a stack, where kernels are searched for on the inputs: leave it out."
            )

    def plan(self, N: int) -> Plan:
        work = _SLOWER * cost(min(N, self.rows))
        learning = Phase("features", 0.5 * self.max_iter, 0.5 * _FEATURE_STARTS * self.max_iter * cost(N), self.max_iter)
        phases = [learning] if self.on_features else []
        for depth in range(1, self.depth + 1):
            starts = _FIRST_STARTS if depth == 1 else _LATER_STARTS * self.beam
            screening = starts * SCREENING * _SLOWER * cost(min(N, self.rows, _SCREENING_ROWS))
            chance = _DEEPER ** (depth - 1)
            phases.append(Phase(f"depth {depth}, all", SCREENING, screening, SCREENING, chance))
            best = 0.5 * self.beam * _KEEP * self.max_iter * work
            phases.append(Phase(f"depth {depth}, best", 0.5 * self.max_iter, best, self.max_iter, chance))
        return Plan(
            (*phases, Phase("winner", self.max_iter, self.max_iter * cost(N), self.max_iter)),
            at_once=2,
            title=f"{N:,} rows, a search for kernels",
            budget="budget",
            one_by_one=True,
        )

    def slower(self, N: int, inputs: int) -> float:
        """Every input brings candidates of its own: 5 inputs had 4 times as many starts to screen, and as many to train to their end."""
        return inputs**0.6

    def fit(self, model: Model, data: Data, trainer: Trainer, folds: FoldChoice) -> Searched:
        begin = time.perf_counter()
        left = trainer.deadline - begin
        searching = replace(trainer, deadline=math.inf if math.isinf(left) else begin + _TO_THE_END * max(left, 0.0))
        seed = int(torch.randint(2**31, (1,), generator=trainer.generator))
        kept, held = self._rows_of(len(data.X), folds, seed)
        seen = _seen_by_kernels(model, data, np.setdiff1d(np.arange(len(data.X)), held), searching, self.max_iter)
        training, held_out = _chosen(seen.data, kept), _chosen(seen.data, held) if len(held) else None
        settings = {"model": repr(replace(model, kernel=None)), "criterion": self.criterion, "max_iter": self.max_iter}  # type: ignore[arg-type]
        settings["held out"] = 0 if held_out is None else fingerprint(held_out, {})
        record = Record(self.cache, fingerprint(training, settings))
        contest = Contest(
            seen.model, training, _chosen(training, _some(len(training.X), seed)), held_out, searching, record, self.max_iter
        )
        walk = _Walk(self, contest)
        try:
            ended = walk.go()
        except KeyboardInterrupt:
            if not (walk.entries or contest.screened):
                raise
            warn("The search was interrupted. It keeps the best kernel so far.")
            trainer.stopped.set()  # a stack, of which this may be a part, ends too
            ended = "it was interrupted"
        finally:
            record.write()
        if not (walk.entries or contest.screened):
            raise TrainingFailedError(
                "The search found no kernel that could be trained. Give it more time (budget), or rescale the data."
            )
        best = without_aliases(walk.best().valued, seen.data.X.cpu().numpy())
        warm = {**walk.best().reached.values, "kernel": best.values, **seen.values}
        winner = _winner(replace(model, kernel=walk.best().kernel), data, trainer, warm, self.max_iter)
        return Searched(**vars(alone(winner)), search=walk.report(self.criterion, ended))

    def _rows_of(self, N: int, folds: FoldChoice, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Which of N rows candidates are trained on, at most ``rows`` of them, and which are held out: a quarter if that is the criterion, else none."""
        rng, kept, held = np.random.default_rng(seed), np.arange(N), np.arange(0)
        if self.criterion == "held-out":
            held = make_folds(N, 4, rng, folds.groups, folds.ordered)[-1]
            kept = np.setdiff1d(kept, held)
        if len(kept) > self.rows:
            kept = np.sort(rng.choice(kept, self.rows, replace=False))
        return kept, held


class _Walk:
    """One search: what was tried, and what was already grown from."""

    def __init__(self, search: Search, contest: Contest) -> None:
        self._search, self._contest = search, contest
        self._X, self._y = contest.data.X.cpu().numpy(), contest.data.y.cpu().numpy()
        facts = [InputFacts.of(column, d) for d, column in enumerate(self._X.T)]
        varying = [fact for fact in facts if fact.distinct > 1] or facts[:1]
        self._grammar = Grammar(checked_names(search.kernels), varying, all_vary=len(varying) == len(facts))
        self._trend_free = [without_trend(x, self._y) if len(np.unique(x)) > 3 else self._y for x in self._X.T]
        self.entries: dict[str, tuple[int, Entry]] = {}
        self._grown: set[str] = set()

    def go(self) -> str:
        """Grow to the depth that is asked for, or until nothing gets better, then leave out what is superfluous; returns why it ended."""
        ended = self._grow()
        while not self._contest.stopped and self._simplify():
            pass
        if not self._contest.stopped:
            return ended
        late = time.perf_counter() > self._contest.trainer.deadline
        return "time was up (the last part of it is kept to train the winner on all rows)" if late else "somebody stopped it"

    def _grow(self) -> str:
        for depth in range(1, self._search.depth + 1):
            candidates = self._first() if depth == 1 else self._next()
            if not candidates:
                return "no further step made it better"
            self._compare(f"depth {depth}", candidates, depth)
            if self._contest.stopped:
                break
        return f"it had reached its depth of {self._search.depth}"

    def _simplify(self) -> bool:
        """Try the best expression without each of its parts; returns whether one of these is better."""
        best = self.best()
        candidates = reduced(best.valued, _rest(best))
        if candidates:
            self._compare(f"without a part of {text_of(best.kernel)}", candidates, self._search.depth)
        return self.best().kernel != best.kernel

    def _compare(self, phase: str, candidates: Candidates, depth: int) -> None:
        for entry in self._contest.run(phase, candidates, self._search.beam * _KEEP):
            known = self.entries.get(text_of(entry.kernel))
            if known is None or entry.score < known[1].score:
                self.entries[text_of(entry.kernel)] = (depth if known is None else known[0], entry)

    def best(self) -> Entry:
        """The best that was trained to its end; where time was up before, the best that was screened."""
        return (self._ranked() or self._contest.screened)[0]

    def report(self, criterion: str, ended: str) -> SearchReport:
        tried = list(self.entries.values()) or [(1, entry) for entry in self._contest.screened]
        seen = self._X.shape[1]
        names = list(map(feature_name, range(seen))) if self._search.on_features else None
        lines = [
            Candidate(depth, text_of(e.kernel, names), sum(degrees(e.valued)), e.reached.nlml, e.score) for depth, e in tried
        ]
        return SearchReport(tuple(sorted(lines, key=lambda line: line.score)), criterion, len(self._y), ended)

    def _first(self) -> Candidates:
        return self._grammar.first([self._periods(d, []) for d in range(self._X.shape[1])])

    def _next(self) -> Candidates:
        """Whatever is one step away from the best that were not grown from yet."""
        found: Candidates = {}
        for entry in self._ungrown():
            self._grown.add(text_of(entry.kernel))
            residual, variance = self._unexplained(entry)
            periods = [self._periods(d, [residual]) for d in range(self._X.shape[1])]
            for kernel, starts in self._grammar.grown(entry.valued, _rest(entry), variance, periods).items():
                if text_of(kernel) not in self.entries:
                    found.setdefault(kernel, []).extend(starts)
        return found

    def _ranked(self) -> list[Entry]:
        return sorted((entry for _, entry in self.entries.values()), key=lambda entry: entry.score)

    def _ungrown(self) -> list[Entry]:
        """Those of the best ``beam`` that were not grown from yet."""
        return [entry for entry in self._ranked()[: self._search.beam] if text_of(entry.kernel) not in self._grown]

    def _periods(self, d: int, residuals: list[np.ndarray]) -> tuple[float, ...]:
        if "periodic" not in self._grammar.names:
            return ()
        return periods_in(self._X[:, d], [*residuals, self._trend_free[d]])

    def _unexplained(self, entry: Entry) -> tuple[np.ndarray, float]:
        """What the expression leaves of y at its rows (N,), and the variance that a new part starts with."""
        model = replace(self._contest.template, kernel=entry.kernel)
        posterior = condition(model, map_leaves(lambda leaf: leaf[None], entry.reached.values), self._contest.data)
        with torch.no_grad():
            mean = posterior.moments(self._contest.data.X, variance=False)[0][0]
        residual = (posterior.z[0] - mean).cpu().numpy()
        return residual, float(np.clip(residual.var(), 0.02, 0.5))


def _rest(entry: Entry) -> Tree:
    """Values of noise and mean."""
    return {name: values for name, values in entry.reached.values.items() if name != "kernel"}


@dataclass(frozen=True)
class _Seen:
    """What kernels see: a model without features of its own, rows whose inputs are the inputs or their features, and the values of these features."""

    model: Model
    data: Data
    values: Tree


def _seen_by_kernels(model: Model, data: Data, rows: np.ndarray, trainer: Trainer, max_iter: int) -> _Seen:
    """The inputs, or features: those that have parameters are learnt first, from these rows and together with the model's own kernel, and then held."""
    if isinstance(model.features, Identity):
        return _Seen(model, data, {})
    if not isinstance(model.mean, (Zero, Constant)):
        raise InputError(
            f"A search on features has no mean of the inputs: use mean='zero' or 'constant', or leave out features; got {model.mean!r}."
        )
    some = _chosen(data, rows)
    layout, drawn = model.draw(some, torch.Generator().manual_seed(0), 1)
    if any(name.startswith("features.") for name in layout.names):
        trained = trainer.fit("features", model, some, _FEATURE_STARTS, max_iter, group="own")
        drawn = trained.values(np.array([trained.best()]))
    learnt = {"features": map_leaves(lambda leaf: leaf[0], drawn["features"])} if drawn.get("features") else {}
    with torch.no_grad():
        H = model.features_at(learnt, data.X)
    return _Seen(replace(model, features=Identity()), Data(H, data.y, data.known_noise), learnt)


def _winner(model: Model, data: Data, trainer: Trainer, warm: Tree, max_iter: int) -> Trained:
    """The best expression trained on all rows, features and all, from where it stands; somebody who interrupts gets it as it stands."""
    try:
        return trainer.fit("winner", model, data, 1, max_iter, warm=warm, group="own")
    except KeyboardInterrupt:
        return trainer.fit("winner", model, data, 1, 0, warm=warm, group="own")


def _some(N: int, seed: int) -> np.ndarray:
    """The rows on which candidates are screened."""
    return np.sort(np.random.default_rng(seed).permutation(N)[:_SCREENING_ROWS])


def _chosen(data: Data, rows: np.ndarray) -> Data:
    return data.only(torch.from_numpy(rows).to(data.X.device))
