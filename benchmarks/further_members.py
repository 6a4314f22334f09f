"""Which further kinds of members would a stack want? Each is tried beside the default stack, and held-out rows weigh the two.

    python benchmarks/further_members.py --out benchmarks/results/further        # everything; finished fits are not run again
    python benchmarks/further_members.py --only boston concrete --rows 100       # a part of it
    python benchmarks/further_members.py --rows 3000 --kinds                     # no kind: what parts of the stack itself are worth
    python benchmarks/further_members.py --table                                 # print the tables of finished fits

What is tried (benchmarks/further_kinds.py): noise that follows the inputs within bounds, arcsine and linear kernels, Student-t noise, hyperparameters drawn from a Laplace approximation,
inputs and targets on learnt scales. A kind is trained on the folds of the stack's first deal; stacking gives it a weight beside the
whole stack, and test rows tell what that is worth: the difference of NLPP (standardised y, negative is better) and the ratio of RMSE. Beside them three things that
concern the stack itself: several deals of the rows (against one), weights that follow how sure members are (against constant ones), and, where it is asked for (``--search``),
a kernel search as one more group, with one deal of the rows.

Kinds are chosen by what they do on the CHOOSING sets, and the others tell whether that was right.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from further_kinds import KINDS, Tried
from honesty import recorded
from manifoldgp import ManifoldGPRegressor, Search, Stack
from manifoldgp.averaging import stack
from manifoldgp.averaging.fold_training import OnFolds
from manifoldgp.averaging.kinds import SEARCHED_GP
from manifoldgp.averaging.stacking import doubt, log_mixture, stacking_weights
from manifoldgp.model import Data
from study import CHOOSING, REPORTING, subset

MORE = ("airfoil", "bike", "elevators", "pol")
"""Further sets to report on."""

ROWS, MOST_DRAWN, MOST_DEALT = (100, 200, 500), 200, 300
"""Rows of the study; up to how many hyperparameters are drawn and rows dealt more than once."""

SEARCH = Search(depth=3, beam=1, kernels=("se", "linear"), max_iter=40)
"""The search that is tried as a group of the stack: of few kernels, since every input brings candidates of its own."""

IN_THE_STACK = ("several deals (in the stack)", "weights that follow certainty (in the stack)", "searched GP")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/further"))
    parser.add_argument("--only", nargs="+", choices=CHOOSING + REPORTING + MORE, default=list(CHOOSING + REPORTING + MORE))
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--splits", type=int, nargs="+", default=[0])
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--search", action="store_true", help="try a kernel search as a group of the stack, which takes minutes")
    parser.add_argument(
        "--cost", action="store_true", help="time the default with and without rough and additive members instead"
    )
    parser.add_argument("--table", action="store_true", help="print the tables of finished fits, run nothing")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.table:
        for rows in given.rows:
            for split in given.splits:
                for name in given.only:
                    run(name, rows, split, given)
    print_tables(given.out)


def run(name: str, rows: int, split: int, given: argparse.Namespace) -> None:
    """One set: the stack, and every kind beside it that was not tried before."""
    path = given.out / f"{name}-{rows}-{split}.json".replace(" ", "_")
    found = json.loads(path.read_text()) if path.exists() else {"name": name, "rows": rows, "split": split, "kinds": {}}
    kinds = [
        kind for kind in given.kinds if kind not in found["kinds"] and (rows <= MOST_DRAWN or not kind.startswith("Laplace"))
    ]
    try:
        searching = given.search and IN_THE_STACK[2] not in found["kinds"]
        data = rows_of(name, split, rows) if kinds or searching or "stack" not in found else None
    except FileNotFoundError as error:
        print(f"{name}: skipped, {error}")
        return
    if data is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial = Trial(*data)
        if "stack" not in found:
            found["kinds"] |= trial.parts_of_the_stack()
        for kind in kinds:
            found["kinds"][kind] = trial.beside(kind)
        if searching:
            found["kinds"][IN_THE_STACK[2]] = trial.with_search()
    found["stack"] = trial.score | {"processor seconds": round(trial.seconds, 1)}
    path.write_text(json.dumps(found, indent=1))
    print(f"{path.stem}: {found['stack']}", {kind: (v["d"], v["ratio"]) for kind, v in found["kinds"].items()}, flush=True)


def rows_of(name: str, split: int, rows: int):
    """As :func:`study.subset`, of the further sets too."""
    if name not in MORE:
        return subset(name, split, rows)
    table = np.load(recorded(f"{name}.npz"))
    X, y, test = table["X"].astype(float), table["y"].astype(float).ravel(), table["test_mask"][:, split].astype(bool)
    kept = np.random.default_rng(split).permutation(np.flatnonzero(~test))[:rows]
    offset, scale = y[kept].mean(), y[kept].std()
    unseen = np.flatnonzero(test)[:1500]
    return X[kept], (y[kept] - offset) / scale, X[unseen], (y[unseen] - offset) / scale, {}


class Watched(OnFolds):
    """The way of a stack through the folds, kept."""

    first: OnFolds | None = None

    def weigh(self, gp_values):
        Watched.first = Watched.first or self
        return super().weigh(gp_values)


class Trial:
    """The default stack on some rows, and what it says about its held-out rows and about test rows."""

    def __init__(self, X, y, X_test, y_test, options) -> None:
        self.given, Watched.first, stack.OnFolds = (X, y, X_test, y_test, options), None, Watched
        begin = time.process_time()
        self.model = ManifoldGPRegressor().fit(X, y, **options)
        self.seconds = time.process_time() - begin
        stack.OnFolds = OnFolds
        assert Watched.first is not None
        self.tried = Tried(Watched.first, _learnt(Watched.first))
        self.X_test = torch.as_tensor(self.model.x_scaler_.apply(X_test))
        self.y_test = torch.as_tensor(self.model.y_scaler_.apply(y_test[:, None])[:, 0])
        self.log_density, self.mean = self._said(self.model)
        self.score = self._scored(self.log_density, self.mean)

    def _said(self, model: ManifoldGPRegressor) -> tuple[np.ndarray, np.ndarray]:
        _, _, X_test, y_test, _ = self.given
        return model.log_predictive_density(X_test, y_test), model.predict(X_test)

    def _scored(self, log_density: np.ndarray, mean: np.ndarray) -> dict[str, float]:
        y_test = self.given[3]
        return {"nlpp": round(float(-log_density.mean()), 4), "rmse": round(float(np.sqrt(np.mean((mean - y_test) ** 2))), 5)}

    def beside(self, kind: str) -> dict[str, float]:
        """A kind beside the stack, with the weight that held-out rows give it."""
        begin, scale = time.process_time(), float(self.model.y_scaler_.scales[0])
        held_out = self.tried.held_out(KINDS[kind]).log_density
        seen = np.isfinite(held_out[0])
        of_stack = self.model.held_out_[0].log_density["stack"]
        table = np.concatenate([of_stack[None], held_out[:, seen]])
        prior = np.full(len(table), 0.02 * len(of_stack) / len(table))
        prior[0] += 0.05 * len(of_stack) * doubt(log_mixture(table, stacking_weights(table, prior)) - of_stack)
        weights = stacking_weights(table, prior)
        test = KINDS[kind](self.tried, self.tried.data, None, self.X_test, self.y_test)
        seconds = time.process_time() - begin
        mean = weights[0] * self.mean + weights[1:].sum() * (self._offset + scale * test.mean)
        both = np.concatenate([self.log_density[None], test.log_density - np.log(scale)])
        return self._against(self.score, self._scored(log_mixture(both, weights), mean), float(weights[1:].sum()), seconds)

    @property
    def _offset(self) -> float:
        return float(self.model.y_scaler_.apply(np.zeros((1, 1)))[0, 0]) * -float(self.model.y_scaler_.scales[0])

    def _against(self, before: dict, after: dict, weight: float, seconds: float) -> dict[str, float]:
        return {
            "d": round(after["nlpp"] - before["nlpp"], 4),
            "ratio": round(after["rmse"] / before["rmse"], 4),
            "weight": round(weight, 3),
            "time": round(seconds / self.seconds, 3),
        }

    def parts_of_the_stack(self) -> dict[str, dict[str, float]]:
        """What the stack would lose with one deal, and with constant weights."""
        found = {IN_THE_STACK[1]: self._gained_over(ManifoldGPRegressor(averaging=Stack(certainty=0.0)))}
        if len(self.given[1]) <= MOST_DEALT:
            found[IN_THE_STACK[0]] = self._gained_over(ManifoldGPRegressor(averaging=Stack(deals=1)))
        return found

    def with_search(self) -> dict[str, float]:
        """What a stack of one deal gains by a kernel search."""
        X, y, _, _, options = self.given
        scores, taken = [], []
        for search in (None, SEARCH):
            model, begin = ManifoldGPRegressor(averaging=Stack(deals=1, search=search)), time.process_time()
            model.fit(X, y, **options)
            taken.append(time.process_time() - begin)
            scores.append(self._scored(*self._said(model)))
        report = model.held_out_[0]
        weights = dict(zip(report.groups, report.weights.sum(1), strict=True))
        found = self._against(*scores, float(weights.get(SEARCHED_GP, 0.0)), 0.0)
        return found | {"time": round(taken[1] / taken[0] - 1.0, 2), "processor seconds": round(taken[1], 1)}

    def _gained_over(self, other: ManifoldGPRegressor) -> dict[str, float]:
        X, y, _, _, options = self.given
        begin = time.process_time()
        other.fit(X, y, **options)
        seconds = self.seconds - (time.process_time() - begin)
        return self._against(self._scored(*self._said(other)), self.score, 1.0, seconds)


def _learnt(course: OnFolds) -> Data:
    """All rows as the stack learnt them, from its first fold."""
    folds = course.folds
    held_out = folds.where[0][folds.where[0] >= 0]
    rest = np.setdiff1d(np.arange(folds.N), held_out)
    X, y = torch.empty(folds.N, folds.X.shape[-1], dtype=torch.float64), torch.empty(folds.N, dtype=torch.float64)
    X[held_out], y[held_out] = folds.X[0][: len(held_out)], folds.y[0][: len(held_out)]
    X[rest], y[rest] = folds.train.X[0][: len(rest)], folds.train.y[0][: len(rest)]
    return Data(X, y)


def print_tables(out: Path) -> None:
    results = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    columns = {f"choosing: {', '.join(CHOOSING)}": CHOOSING, f"reporting: {', '.join(REPORTING + MORE)}": REPORTING + MORE}
    print("\nmean / worst difference of NLPP, mean ratio of RMSE, mean weight (fits)\n")
    print("| kind | " + " | ".join(columns) + " | x the stack's time |\n|---|" + "---|" * (len(columns) + 1))
    for kind in (*IN_THE_STACK, *KINDS):
        cells = [
            _cell([r["kinds"][kind] for r in results if r["name"] in names and kind in r["kinds"]]) for names in columns.values()
        ]
        every = [r["kinds"][kind]["time"] for r in results if kind in r["kinds"]]
        if every:
            print(f"| {kind} | " + " | ".join(cells) + f" | {np.mean(every):+.2f} |")


def _cell(found: list[dict[str, float]]) -> str:
    if not found:
        return "–"
    d, ratio, weight = (np.array([f[key] for f in found]) for key in ("d", "ratio", "weight"))
    told = "–" if np.isnan(ratio).all() else f"{np.nanmean(ratio):.3f}"
    return f"{d.mean():+.3f} / {d.max():+.3f}, {told}, {weight.mean():.2f} ({len(found)})"


if __name__ == "__main__":
    main()
