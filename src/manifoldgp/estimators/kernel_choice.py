"""Which kernel a plain GP is given, decided by rows that its candidates have not seen."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from manifoldgp.averaging.folds import held_out_in_turn
from manifoldgp.averaging.verdict import errors_of, said_errors
from manifoldgp.chance.differences import named_groups
from manifoldgp.data import inputs
from manifoldgp.data.sources import RowSource
from manifoldgp.errors import InputError, ManifoldGPError
from manifoldgp.estimators import tables
from manifoldgp.training.optimizer import TIME_LIMIT
from manifoldgp.training.plan import Phase, Plan, cost, slower_by_inputs
from manifoldgp.training.progress import Callback, PhaseWatcher, Watch, nobody, shown, watching

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table
    from manifoldgp.estimators.plain_gp import GPRegressor

CANDIDATES = ("se", "matern32", "matern52", "rq", "additive", "nn")
"""The kernels that "auto" chooses among, by their shorthands."""

SCREEN_ROWS, SCREEN_ITERATIONS = 400, 40
"""With more rows than this all candidates are tried on so many of them first, briefly, and the best go on."""

FINALISTS, FINAL_ROWS, FINAL_ITERATIONS = 3, 1500, 100
"""How many go on to all folds, with how many rows of each at most, and for how long."""

_IMPOSSIBLE = -1e6

_FIRST_TRIAL, _ALL_FOLDS = "kernels, first trial", "kernels, held-out rows"

_SLOWER = 1.5
"""How many times longer the iterations of these kernels take than those of the squared exponential, on average."""


@dataclass(frozen=True)
class KernelChoice:
    """What held-out rows said of the kernels that kernel="auto" tried.

    Attributes
    ----------
    kernel
        The one that was taken.
    density
        Mean log density of a held-out row, in units of y, by kernel, all on the same rows.
    error
        Standard error of the difference to the one that was taken.
    screened
        Kernels that only a first trial on few rows has seen, with their densities there.
    rows
        How many rows were held out.
    seconds
        How long the trials took.
    errors
        RMSE, MAE and R² of the one that was taken on the held-out rows, in units of y, by target.
    together
        What was held out whole: "stretches of time", "groups", or None, single rows.
    late
        Whether time was up for a trial before it was trained.
    """

    kernel: str
    density: dict[str, float]
    error: dict[str, float]
    screened: dict[str, float]
    rows: int
    seconds: float
    errors: Sequence[dict[str, float]] = ()
    together: str | None = None
    late: bool = False

    def numbers(self) -> dict[str, Any]:
        """For a diagnosis."""
        return {f"held-out negative log density per row, kernel {name}": -value for name, value in self.density.items()}

    def remark(self) -> str:
        """The choice in a sentence."""
        others = [name for name in self.density if name != self.kernel]
        words = ", ".join(
            f"{name} by {self.density[self.kernel] - self.density[name]:.3f} ± {self.error[name]:.3f}" for name in others
        )
        early = f" Out after a first trial on few rows: {', '.join(self.screened)}." if self.screened else ""
        ahead = f", ahead of {words}" if others else ""
        return (
            f"kernel='auto' took {self.kernel!r}: on {self.rows:,} held-out rows it has the best log density a row{ahead}.{early}"
        )

    def error_remark(self, output: int, unit: str) -> str:
        """The errors of the one that was taken in a sentence, for one target."""
        return said_errors(self.errors[output], self.rows, self.together, unit, f" with {self.kernel!r}")

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return dict(vars(self))


def _unfitted(estimator: GPRegressor) -> GPRegressor:
    """Another one with the same settings; not copies of these, as a callback may hold what cannot be copied."""
    return type(estimator)(**estimator.get_params(deep=False))


def choose_kernel(
    estimator: GPRegressor,
    X: Table | RowSource,
    y: ArrayLike | None,
    noise_std: ArrayLike | None,
    groups: ArrayLike | None,
    ordered: bool,
) -> KernelChoice:
    """Try the candidates on honest folds of the rows: whole groups, stretches of time, or random rows (of very many, those of random cells)."""
    if isinstance(X, RowSource):
        raise InputError(
            "kernel='auto' tries kernels on arrays in memory, not on a source of rows. Name a kernel, or fit arrays."
        )
    begin = time.perf_counter()
    blank = _unfitted(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit itself says what becomes of the table
        rows = tables.training_rows(blank, X, y, noise_std, groups)
        table = inputs.training_table(blank, rows.X, rows.y, rows.noise_std)
    noise = None if table.known_noise is None else np.sqrt(table.known_noise)
    rng = np.random.default_rng(check_random_state(estimator.random_state).randint(2**31))
    N, labels = len(table.X), inputs.group_labels(rows.groups, table.given, table.kept)
    if N < 4:
        raise InputError(f"kernel='auto' holds rows out, and {N} rows are too few for that. Name a kernel.")
    scaled = table.X / np.where((scale := table.X.std(0)) > 0, scale, 1.0)  # as other units give other cells
    trials = _Trials(estimator, table.X, table.Y, noise, held_out_in_turn(scaled, rng, labels, ordered), rng)
    names = [name for name in CANDIDATES if name != "additive" or table.X.shape[1] > 1]
    screened: dict[str, float] = {}
    with shown(estimator.verbose, 1, estimator.time_budget) as progress:
        told = estimator.callback if isinstance(estimator.callback, PhaseWatcher) else None
        trials.watch = watching(told, progress, 0, trials.plan(len(names)), N)
        if N > SCREEN_ROWS:
            tried = {name: float(trials.first_densities(name).mean()) for name in names}
            names = sorted(names, key=lambda name: -tried[name])[:FINALISTS]
            screened = {name: value for name, value in tried.items() if name not in names}
        found = {name: trials.densities(name) for name in names}
    best = max(found, key=lambda name: float(found[name].mean()))
    gaps = {name: found[best] - values for name, values in found.items()}
    return KernelChoice(
        best,
        {name: float(values.mean()) for name, values in found.items()},
        {name: float(gap.std() / np.sqrt(len(gap))) for name, gap in gaps.items()},
        screened,
        len(found[best]),
        time.perf_counter() - begin,
        trials.errors(best, len(found[best])),
        named_groups(ordered) if ordered or labels is not None else None,
        trials.late,
    )


class _Trials:
    """Plain GPs of several kernels, trained on the same rows and asked for the densities of the same held-out ones."""

    def __init__(
        self,
        estimator: GPRegressor,
        X: np.ndarray,
        Y: np.ndarray,
        noise: np.ndarray | None,
        folds: list[np.ndarray],
        rng: np.random.Generator,
    ) -> None:
        self._estimator, self._X, self._Y, self._noise, self._folds = estimator, X, Y, noise, folds
        self.watch: Watch = nobody
        self._starts, self._stopped, self._trained = min(2, estimator.restarts), False, Counter[str]()
        self.late = False
        self._order = rng.permutation(len(X))
        self._predicted: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        budget = estimator.time_budget  # half of it for all trials, if each of them needed its share
        self._seconds = None if budget is None else 0.5 * budget / (len(CANDIDATES) * (len(folds) + 1))

    def plan(self, kernels: int) -> Plan:
        """What trials of so many kernels take, about."""
        N, inputs = self._X.shape
        known = N - len(self._folds[0])
        last = self._phase(
            _ALL_FOLDS,
            len(self._folds) * min(kernels, FINALISTS if N > SCREEN_ROWS else kernels),
            known,
            FINAL_ROWS,
            FINAL_ITERATIONS,
        )
        first = self._phase(_FIRST_TRIAL, kernels, known, SCREEN_ROWS, SCREEN_ITERATIONS)
        return Plan(
            (first, last) if N > SCREEN_ROWS else (last,),
            at_once=self._starts,
            title=f"{N:,} rows, {kernels} kernels of a plain GP on held-out rows, before the best is trained",
            slower=slower_by_inputs(min(known, FINAL_ROWS), inputs),
        )

    def _phase(self, name: str, trials: int, known: int, rows: int, iterations: int) -> Phase:
        each = self._limit(iterations)
        return Phase(name, trials * each, _SLOWER * trials * each * self._starts * cost(min(known, rows)), trials * each)

    def _limit(self, iterations: int) -> int:
        """Iterations of one trial at most, all targets together."""
        return min(iterations, self._estimator.max_iter) * self._Y.shape[1]

    def first_densities(self, kernel: str) -> np.ndarray:
        """log p(y_i | x_i) of some rows of one fold, after little training on few others."""
        return self._on_fold(kernel, self._folds[0], SCREEN_ROWS, SCREEN_ITERATIONS, _FIRST_TRIAL)

    def densities(self, kernel: str) -> np.ndarray:
        """log p(y_i | x_i) of the held-out rows, a fold after another; FINAL_ROWS at most are trained on, and asked for, in each."""
        return np.concatenate([self._on_fold(kernel, fold, FINAL_ROWS, FINAL_ITERATIONS, _ALL_FOLDS) for fold in self._folds])

    def errors(self, kernel: str, rows: int) -> list[dict[str, float]]:
        """RMSE, MAE and R² of a kernel on so many held-out rows, by target; none where it could not be trained on a fold."""
        pairs = self._predicted.get(kernel, [])
        observed, mean = (np.concatenate(parts) for parts in zip(*pairs, strict=True)) if pairs else np.empty((2, 0, 0))
        return [errors_of(observed[:, o], mean[:, o]) for o in range(observed.shape[1])] if len(observed) == rows else []

    def _on_fold(self, kernel: str, fold: np.ndarray, rows: int, iterations: int, phase: str) -> np.ndarray:
        train, test = self._some(np.setdiff1d(np.arange(len(self._X)), fold), rows), self._some(fold, rows)
        model = _unfitted(self._estimator).set_params(
            kernel=kernel, restarts=self._starts, max_iter=min(iterations, self._estimator.max_iter), method="exact",
            time_budget=self._seconds, verbose=False, callback=self._watched(phase), warm_start_from=None, input_noise=None,
            missing="error", cyclic=(),
        )  # fmt: skip
        noise = [None if self._noise is None else self._noise[part] for part in (train, test)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they have to say is about a part of the rows
            try:
                model.fit(self._X[train], self._Y[train], noise_std=noise[0])
                self.late = self.late or bool(np.isin(model.starts_["status"], TIME_LIMIT).any())
                found = np.maximum(model.log_predictive_density(self._X[test], self._Y[test], noise_std=noise[1]), _IMPOSSIBLE)
                if phase == _ALL_FOLDS:
                    means = np.reshape(model.predict(self._X[test]), (len(test), -1))
                    self._predicted.setdefault(kernel, []).append((self._Y[test], means))
            except ManifoldGPError:  # a kernel that cannot be trained here is not chosen
                found = np.full(len(test), _IMPOSSIBLE)
        if self._stopped:  # nothing is trained yet that could be kept
            raise KeyboardInterrupt
        self._trained[phase] += self._limit(iterations)
        return found

    def _watched(self, phase: str) -> Callback:
        """The callback of a trial, which goes on where the trials before it ended."""

        def told(iterations: np.ndarray, values: np.ndarray) -> bool:
            self._stopped = self._stopped or self.watch(phase, self._trained[phase] + iterations, values)
            return self._stopped

        return told

    def _some(self, rows: np.ndarray, count: int) -> np.ndarray:
        """At most ``count`` of the rows, the same ones every time, in their order."""
        return rows if len(rows) <= count else np.sort(self._order[np.isin(self._order, rows)][:count])
