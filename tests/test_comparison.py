"""compare(): honest folds, honest densities, paired differences, a verdict that follows from the numbers, and what is kept when it is stopped."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_info

from command_line import fails, mgp
from manifoldgp import GPRegressor, compare, metrics
from manifoldgp.averaging.folds import make_folds
from manifoldgp.chance.differences import paired
from manifoldgp.comparison import candidates, comparing, peers
from manifoldgp.comparison.held_out import OWN_GAUSSIAN, OWN_MIXTURE, RESIDUALS, RowScores
from manifoldgp.comparison.result import Comparison, Row
from manifoldgp.errors import InputError
from manifoldgp.kernels import Kernel
from manifoldgp.registry import shorthands

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + 0.3 * RNG.normal(size=60)
GROUPS = np.repeat(list("abcdef"), 10)


class Memory(RegressorMixin, BaseEstimator):
    """Knows the rows that it was trained on, and predicts the mean of all others; notes what it saw."""

    seen: list[np.ndarray] = []  # noqa: RUF012 - clones share it on purpose

    def fit(self, X, y):
        self.rows_ = X[:, 0].copy()
        type(self).seen.append(self.rows_)
        self.mean_ = y.mean()
        return self

    def predict(self, X):
        assert not np.isin(X[:, 0], self.rows_).any(), "a row that is predicted was trained on"
        return np.full(len(X), self.mean_)


class Slow(Memory):
    clock = 0.0

    def __init__(self, seconds=0.3):
        self.seconds = seconds

    def fit(self, X, y):
        Slow.clock += self.seconds
        return super().fit(X, y)


class Stopped(Memory):
    def fit(self, X, y):
        raise KeyboardInterrupt


class Broken(Memory):
    def fit(self, X, y):
        raise ValueError("no luck")


def test_every_row_is_predicted_once_by_a_model_that_has_not_seen_it():
    found = compare(X, Y, models={"memory": Memory()}, folds=4)
    means = np.empty(60)
    for rows in make_folds(60, 4, np.random.default_rng(0)):
        means[rows] = np.delete(Y, rows).mean()
    np.testing.assert_allclose(found.best.scores.mean, means)
    assert found.held_out == "4 folds of random rows"


def test_groups_stay_together_in_outer_and_inner_folds():
    Memory.seen.clear()
    compare(X, Y, models={"memory": Memory()}, groups=GROUPS, folds=3)
    assert Memory.seen
    for rows in Memory.seen:
        inside = np.isin(X[:, 0], rows)
        assert all(inside[label == GROUPS].all() or not inside[label == GROUPS].any() for label in "abcdef")


def test_stretches_of_time_are_held_out_whole():
    Memory.seen.clear()
    found = compare(X, Y, models={"memory": Memory()}, ordered=True, folds=3)
    outer = [rows for rows in Memory.seen if len(rows) == 40]
    assert [np.flatnonzero(~np.isin(X[:, 0], rows)).tolist() for rows in outer] == [list(range(a, a + 20)) for a in (0, 20, 40)]
    assert len(np.unique(found.units)) == 8  # stretches of about sqrt(60) rows count as one piece of evidence


def test_a_model_without_a_distribution_gets_one_as_wide_as_its_errors_on_inner_folds():
    found = compare(X, Y, models={"least squares": LinearRegression()}, folds=3)
    (row,) = found.rows
    assert row.density == RESIDUALS
    rows = make_folds(60, 3, np.random.default_rng(0))[0]
    A, b = np.delete(X, rows, 0), np.delete(Y, rows)
    errors = np.empty(len(b))
    for inner in make_folds(len(b), 5, np.random.default_rng(0)):
        fitted = LinearRegression().fit(np.delete(A, inner, 0), np.delete(b, inner))
        errors[inner] = b[inner] - fitted.predict(A[inner])
    expected = metrics.gaussian_crps(Y[rows], LinearRegression().fit(A, b).predict(X[rows]), np.sqrt(np.mean(errors**2)))
    np.testing.assert_allclose(row.scores.crps[rows], expected)


def test_models_that_state_a_distribution_are_judged_by_it():
    found = compare(X, Y, models=["mean", "linear", "gp:linear"], folds=2)
    assert [row.density for row in found.rows] == [RESIDUALS, OWN_GAUSSIAN, OWN_MIXTURE]
    rows = make_folds(60, 2, np.random.default_rng(0))[0]
    gp = GPRegressor("linear", random_state=0).fit(np.delete(X, rows, 0), np.delete(Y, rows))
    np.testing.assert_allclose(found.rows[2].scores.log_density[rows], gp.log_predictive_density(X[rows], Y[rows]))
    assert found.difference(found.rows[0], found.rows[1]).clear
    assert all(0.8 <= found.numbers(row)["coverage_95"] <= 1.0 for row in found.rows)


def test_every_registered_kernel_can_be_compared():
    names = [f"gp:{word}" for word in shorthands(Kernel)]
    assert [c.build(0).kernel for c in candidates.chosen(names)] == list(shorthands(Kernel))
    assert {"mean", "linear", "gp:se", "gp:auto", "forest", "boosting", "mgp:stack"} <= set(candidates.default_names())
    order = candidates.default_names()
    assert order.index("mgp:stack") < order.index("gp:auto")  # what takes longest comes last, where a budget may end it
    assert not any(name.startswith("deepgp") for name in candidates.default_names())  # minutes, for a hundred rows


def test_text_columns_become_numbers():
    kind = np.where(X[:, 0] > 0, "ice", "sand")
    table = pd.DataFrame({"kind": kind, "speed": X[:, 1]})
    found = compare(table, (kind == "ice") + 0.01 * X[:, 1], models=["mean", "linear"], folds=3)
    assert found.numbers(found.rows[1])["r2"] > 0.99


def test_effects_of_many_categories_are_learnt_without_the_held_out_rows():
    """Labels that mean nothing: effects that had seen the held-out targets would look as if they did."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"label": [f"l{i}" for i in rng.permutation(np.arange(240) % 80)], "x": rng.normal(size=240)})
    found = compare(table, rng.normal(size=240), models=["mean", "linear", "gp:se"], folds=3)
    assert [row.status for row in found.rows] == ["done"] * 3
    assert all(found.numbers(row)["r2"] < 0.05 for row in found.rows)


def test_tables_with_gaps_are_compared_where_somebody_says_what_they_become():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"a": rng.normal(size=90), "kind": np.array(["u", "v"])[rng.integers(2, size=90)]})
    y = table["a"] + 2.0 * (table["kind"] == "v") + 0.1 * rng.normal(size=90)
    table.loc[::9, "a"] = np.nan
    table.loc[4::20, "kind"] = None
    with pytest.raises(InputError, match="missing='impute'"):
        compare(table, y, models=["linear"])
    for given in (table, pl.from_pandas(table)):
        found = compare(given, y, models=["linear", "gp:linear"], missing="impute", folds=3)
        assert all(found.numbers(row)["r2"] > 0.6 for row in found.rows)
        assert len(found.y) == 90
    assert len(compare(table, y, models=["linear"], missing="drop", folds=3).y) == 90 - 10 - 5
    gaps = np.where(rng.uniform(size=(60, 2)) < 0.1, np.nan, X)
    assert compare(gaps, Y, models=["linear"], missing="impute").rows[0].status == "done"


# ------------------------------------------------------------------------------------------ what is kept when it is stopped


def test_an_interrupt_keeps_what_is_finished():
    found = compare(X, Y, models={"first": Memory(), "second": Stopped(), "third": Memory()})
    assert found.interrupted
    assert [row.status for row in found.rows] == ["done", "interrupted", "not begun"]
    assert "first" in found.verdict
    with pytest.raises(KeyboardInterrupt):
        compare(X, Y, models={"first": Stopped()})


def test_a_model_that_fails_is_a_row_and_not_the_end():
    found = compare(X, Y, models={"broken": Broken(), "memory": Memory()})
    assert [row.status for row in found.rows] == ["failed: no luck", "done"]
    assert "broken: failed: no luck" in str(found)


def test_models_that_take_long_leave_their_share_of_a_budget_to_others(monkeypatch):
    shares, built = {}, comparing._Run._built

    def spy(self, candidate, seconds):
        shares.setdefault(candidate.name, seconds)
        return built(self, candidate, seconds)

    monkeypatch.setattr(comparing._Run, "_built", spy)
    found = compare(X, Y, models=["gp:se", "gp:rq", "mean"], folds=2, budget=60.0)
    assert all(row.done for row in found.rows)
    assert shares["gp:se"] <= 10.0  # a sixth; what is not needed goes to those that follow
    assert shares["gp:se"] < shares["gp:rq"] < shares["mean"] <= 30.0


@pytest.fixture
def clock(monkeypatch):
    """Seconds that nothing but Slow takes."""
    Slow.clock = 0.0
    monkeypatch.setattr(comparing, "time", SimpleNamespace(perf_counter=lambda: Slow.clock))


@pytest.mark.usefixtures("clock")
def test_models_that_cannot_be_stopped_leave_their_share_to_others_too():
    """A forest took what was left of a budget, and the default was never tried."""
    models = {"slow": Slow(0.5), "linear": GPRegressor("linear", restarts=1), "plain": GPRegressor(restarts=1)}
    found = compare(X, Y, models=models, folds=5, budget=30.0)
    assert found.rows[0].status == "its share of the budget does not suffice"
    assert all(row.done for row in found.rows[1:])
    assert found.verdict.endswith(" Not judged, for want of time: slow.")
    forest = compare(X, Y, models=["mean", "forest"], folds=5, budget=1.0)
    assert [row.status for row in forest.rows] == ["done", "its share of the budget does not suffice"]  # known before it is tried


@pytest.mark.usefixtures("clock")
def test_what_cannot_be_stopped_is_not_called_cut_short():
    each = compare(X, Y, models={"slow": Slow(0.1)}, folds=2).rows[0].seconds
    assert compare(X, Y, models={"slow": Slow(0.1)}, folds=2, budget=2.01 * each).rows[0].status == "done"


class Timed(Slow):
    """One of this package's, as far as a comparison can see: it takes all of its time, and says whether that was up before its end."""

    def __init__(self, seconds=0.3, status="converged", time_budget=None):
        super().__init__(seconds)
        self.status, self.time_budget = status, time_budget

    def fit(self, X, y):
        self.starts_ = np.array([(self.status,)], dtype=[("status", "U20")])
        Slow.clock += self.time_budget or 0.0
        return super().fit(X, y)

    def predict_cdf(self, X, y):
        return np.full(len(X), 0.5)

    log_predictive_density = predict_crps = predict_cdf


@pytest.mark.usefixtures("clock")
def test_only_what_was_stopped_is_called_cut_short():
    """Whoever took nearly its share of the budget was called cut short, and so were models that had come to their end."""
    models = {status: Timed(0.0, status) for status in ("converged", "time limit", "not reached")}
    found = compare(X, Y, models=models, folds=2, budget=6.0)
    assert [row.status for row in found.rows] == ["done", "cut short by the budget", "cut short by the budget"]
    assert {row.status for row in compare(X, Y, models=models, folds=2).rows} == {"done"}  # nobody's budget of a comparison


def test_trials_of_kernels_that_time_ended_are_cut_short_too():
    short, whole = (GPRegressor("auto", restarts=1, time_budget=seconds).fit(X, Y) for seconds in (1e-3, None))
    assert comparing._out_of_time(short)
    assert not comparing._out_of_time(whole)


@pytest.mark.usefixtures("clock")
def test_time_left_is_about_what_is_left():
    """ "About 5 min left" was said where 38 s were, by the time that plain GPs had taken."""
    few, many = ({name: candidates.chosen([name])[0].seconds(rows) for name in ("gp:se", "forest")} for rows in (40, 800))
    assert few["forest"] > 10 * few["gp:se"]
    assert many["forest"] < many["gp:se"]
    told = []
    each = compare(X, Y, models={"one": Slow(0.1), "two": Slow(0.1)}, folds=2, progress=told.append).rows[0].seconds
    assert 0.8 * each < told[-1].seconds_left < 1.2 * each


def test_what_the_budget_does_not_suffice_for_is_left_out():
    found = compare(X, Y, models=["mean", "gp:se"], budget=1e-6)
    assert {row.status for row in found.rows} == {"the budget was used up"}
    with pytest.raises(InputError, match="No model was finished"):
        _ = found.best
    assert "No model was finished" in str(found)


def test_progress_tells_what_is_trained_and_when_it_ends():
    told = []
    compare(X, Y, models=["mean", "linear", "gp:linear"], folds=2, budget=100.0, progress=told.append)
    assert [(s.fold, s.folds) for s in told] == [(1, 2), (2, 2)] * 3
    assert all(b.share > a.share for a, b in itertools.pairwise(told))
    assert all(0 <= s.seconds_left <= 100 for s in told)


# ----------------------------------------------------------------------------------------------- differences, the verdict


def made(crps: dict[str, tuple[float, float]], noise: float = 0.01, n: int = 100) -> Comparison:
    """A comparison of models with these (mean CRPS, seconds), whose differences between rows have this spread."""
    rng = np.random.default_rng(1)
    rows = []
    for name, (value, seconds) in crps.items():
        scores = RowScores.empty(n)
        each = rng.normal(size=n)
        scores.put(np.arange(n), RowScores(np.zeros(n), -np.ones(n), value + noise * (each - each.mean()), np.full(n, 0.5)))
        rows.append(Row(name, name, RESIDUALS, "done", seconds, scores))
    return Comparison(rng.normal(size=n), tuple(rows), np.arange(n), "5 folds of random rows", "force")


@pytest.mark.parametrize(
    ("models", "noise", "sentence"),
    [
        ({"mean": (1.0, 0.01), "a": (0.5, 9.0), "b": (0.6, 1.0)}, 0.01, "Use a, because its CRPS, 0.5, is the lowest, and clearly so: that of b"),
        ({"mean": (1.0, 0.01), "a": (0.500, 1.1), "b": (0.501, 0.9)}, 0.1, "Use a, because its CRPS, 0.5, is the lowest; that of b is not clearly higher"),
        ({"mean": (1.0, 0.01), "a": (0.500, 9.0), "b": (0.501, 1.0)}, 0.1, "Use b, because it takes 9 times less time than a, and its CRPS is not clearly"),
        ({"mean": (0.52, 0.01), "a": (0.5, 9.0)}, 0.5, "Use the mean for now, because no model is clearly better: a has the lowest CRPS, 0.5,"),
        ({"mean": (0.5, 0.01), "a": (0.6, 9.0)}, 0.01, "Use the mean, because no other model that was tried predicts force better"),
    ],
)  # fmt: skip
def test_the_verdict_follows_from_the_numbers(models, noise, sentence):
    assert made(models, noise).verdict.startswith(sentence)


def test_all_models_that_are_not_clearly_worse_are_counted():
    """Only the next one was named, as if the others were clearly worse."""
    found = made({"mean": (1.0, 0.01), "a": (0.500, 1.1), "b": (0.501, 0.9), "c": (0.502, 0.9), "d": (0.9, 0.9)}, 0.1)
    assert found.verdict.endswith(", nor are those of 1 more.")


def test_models_that_were_stopped_are_named_as_not_judged():
    found = made({"mean": (0.5, 0.01), "linear": (0.6, 0.1)}, 0.01)
    late = Row("mgp:stack", "the default", RESIDUALS, "interrupted", 3.0, None)
    stopped = replace(found, rows=(*found.rows, late), interrupted=True)
    assert stopped.verdict.endswith(" from these inputs. Stopped before it could be judged: the default.")
    assert "judged" not in found.verdict


def test_differences_are_paired_and_their_errors_know_what_belongs_together():
    rng = np.random.default_rng(3)
    each = np.repeat(rng.normal(size=20), 10)  # ten rows of a group err alike
    alone, together = paired(each, np.arange(200)), paired(each, np.arange(200) // 10)
    assert alone.value == together.value == pytest.approx(each.mean())
    assert together.error == pytest.approx(np.std(each[::10], ddof=1) / math.sqrt(20))
    assert together.error > 2.5 * alone.error
    assert paired(each, np.zeros(200, int)).error == math.inf  # one group says nothing about others


def test_a_difference_of_rmse_is_that_of_the_scores():
    found = compare(X, Y, models=["mean", "linear"])
    first, second = found.rows
    for score in ("rmse", "mae", "crps", "nlpp"):
        value = found.difference(first, second, score).value
        assert value == pytest.approx(found.numbers(first)[score] - found.numbers(second)[score], rel=1e-9)
    with pytest.raises(InputError, match="score must be one of"):
        found.difference(first, second, "r2")


# ------------------------------------------------------------------------------------------------------ refusals, outputs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": ["gpp"]}, "There is no model 'gpp'"),
        ({"models": ["gp:none"]}, "There is no model 'gp:none'"),
        ({"models": "linear"}, "list of names"),
        ({"models": ["mean", "mean"]}, "every model once"),
        ({"models": {"a": object()}}, "scikit-learn estimator"),
        ({"groups": GROUPS, "ordered": True}, "two ways"),
        ({"groups": GROUPS[:3]}, "one label a row"),
        ({"folds": 1}, "folds must be"),
        ({"budget": 0.0}, "positive number of seconds"),
        ({"y": np.full(60, np.nan)}, "at least 10 rows"),
        ({"X": np.full((60, 2), np.inf)}, "finite"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        compare(**({"X": X, "y": Y, "models": ["mean"]} | change))


def test_the_page_holds_the_verdict_and_names_are_text(tmp_path):
    found = made({"mean": (1.0, 0.01), "<script>": (0.5, 9.0)})
    page = found.write(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;, because its CRPS" in page
    assert "<script>, because" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "&lt;script&gt;" in found._repr_html_()


def test_the_page_draws_in_a_browser(chromium, tmp_path):
    from browser import browse

    page = made({"mean": (1.0, 0.01), "a": (0.5, 9.0), "b": (0.6, 1.0)}).write(tmp_path / "page.html")
    dom, console = browse(chromium, page, tmp_path / "profile")
    assert not console
    assert dom.count("<svg") == 3


def test_the_command_line_says_which_model_to_use(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": X[:, 0], "b [m/s]": X[:, 1], "run": GROUPS, "y": Y}).to_csv("data.csv", index=False)
    done = mgp(
        "compare", "data.csv", "--target", "y", "--group", "run", "--models", "mean,linear", "--folds", "3", "--out", "page.html"
    )
    assert "Use linear model (Bayesian ridge), because its CRPS" in " ".join(done.out.split())
    assert "training linear model" in done.err
    assert "Which model for y?" in (tmp_path / "page.html").read_text(encoding="utf-8")
    found = json.loads(
        mgp("compare", "data.csv", "-t", "y", "--models", "mean", "--models", "linear", "--drop", "run", "--json").out
    )
    assert [row["model"] for row in found["models"]] == ["linear", "mean"]
    assert found["models"][1]["crps_above_best"] > 0
    assert "There is no model 'x'" in fails("compare", "data.csv", "-t", "y", "--models", "x", "--drop", "run")
    large = pd.DataFrame({"a": X[:, 0], "y": 1e4 * Y + 25_000})
    large.to_csv("large.csv", index=False)
    shown = mgp("compare", "large.csv", "-t", "y", "--models", "mean,linear,gp:additive", "--budget", "0.5").out
    assert "…" not in shown  # a table of numbers that are cut says nothing
    monkeypatch.setenv("COLUMNS", "60")
    narrow = mgp("compare", "data.csv", "-t", "y", "--models", "mean,linear", "--drop", "run").out
    assert all(name in narrow for name in ("model", "s a fold", "above the best", "linear", "mean"))
    assert "…" not in narrow
    mgp("compare", "data.csv", "-t", "y", "--group", "run", "--ordered", code=2)
    mgp("compare", "data.csv", "-t", "y", "--out", "data.csv", code=2)
    mgp("compare", "data.csv", "-t", "y", "--budget", "0", code=2)


def test_boosting_keeps_to_one_thread(monkeypatch):
    """Threads that wait busily for each other took minutes for 200 rows where other processes had the cores."""
    seen = []
    train = HistGradientBoostingRegressor.fit

    def watched(self, X, y):
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
        return train(self, X, y)

    monkeypatch.setattr(HistGradientBoostingRegressor, "fit", watched)
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert peers.boosting(0).fit(X, X[:, 0]).predict(X).shape == (30,)
    assert set(seen) == {1}
