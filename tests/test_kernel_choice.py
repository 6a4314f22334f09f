"""kernel="auto": the kernel of a plain GP, chosen by held-out rows; and plain GPs from the command line."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest

from command_line import mgp
from manifoldgp import GPRegressor, ManifoldGPRegressor, inspection, load
from manifoldgp.data import ArrayRows
from manifoldgp.errors import InputError
from manifoldgp.estimators import kernel_choice
from manifoldgp.inspection.page_view import view_of
from manifoldgp.inspection.page_words import headline
from manifoldgp.metrics import rmse
from manifoldgp.training.progress import PhaseWatcher

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def chosen():
    X = RNG.uniform(-2, 2, size=(60, 3))
    y = np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + 0.05 * RNG.normal(size=60)
    return X, y, GPRegressor(kernel="auto", restarts=1, max_iter=30).fit(X, y)


def test_auto_takes_the_kernel_with_the_best_held_out_density(chosen):
    X, y, model = chosen
    choice = model.kernel_choice_
    assert choice.density[choice.kernel] == max(choice.density.values())
    assert set(choice.density) == set(kernel_choice.CANDIDATES)
    assert choice.rows == len(X)
    named = GPRegressor(kernel=choice.kernel, restarts=1, max_iter=30).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), named.predict(X))


def test_the_choice_is_told_and_kept(chosen, tmp_path):
    _, _, model = chosen
    diagnosis = model.diagnose()
    assert f"took {model.kernel_choice_.kernel!r}" in diagnosis.remarks[0]
    assert diagnosis.numbers["held-out negative log density per row, kernel se"] == -model.kernel_choice_.density["se"]
    model.save(tmp_path / "model.mgp")
    again = load(tmp_path / "model.mgp")
    assert again.kernel_choice_ == model.kernel_choice_
    assert again.kernel == "auto"


def test_errors_of_the_kernel_are_those_of_held_out_stretches(tmp_path):
    """A plain GP of rows in order of time had no other error than that of rows left out one at a time, the easy test."""
    rng = np.random.default_rng(3)
    walk = np.cumsum(rng.normal(size=80))
    frame = pd.DataFrame({"t": np.arange(80.0), "x": rng.normal(size=80)})
    model = GPRegressor(kernel="auto", restarts=1, max_iter=30).fit(frame, walk, ordered=True)
    (errors,) = model.kernel_choice_.errors
    assert errors["RMSE"] > 2 * rmse(walk, inspection.predictions(model).mean)
    words = f"On 80 held-out rows, whole stretches of time at a time, the typical error (RMSE) with {model.kernel_choice_.kernel!r} is"
    assert any(remark.startswith(words) for remark in model.diagnose().remarks)
    assert "on held-out stretches of time, where the kernel was chosen, the error was" in headline(
        view_of(model, None, None, None)
    )
    plain = model.kernel_choice_.to_plain()
    del plain["errors"], plain["together"]  # as earlier versions wrote it
    assert kernel_choice.KernelChoice(**plain).errors == ()
    vars(model.kernel_choice_).pop("errors")  # as a pickle of theirs comes back
    assert "held-out rows" in str(pickle.loads(pickle.dumps(model)).diagnose())


class Listener(PhaseWatcher):
    """Keeps what it is told, and stops after so many rounds."""

    def __init__(self, rounds: float = np.inf) -> None:
        self.plans, self.phases, self.rounds = [], [], rounds

    def begin(self, output, plan):
        self.plans.append(plan)

    def enter(self, phase):
        self.phases.append(phase)

    def __call__(self, iterations, values):
        self.rounds -= 1
        return self.rounds < 0


@pytest.mark.parametrize("few", [True, False])
def test_the_trials_are_announced_with_their_work_before_the_fit(chosen, few, monkeypatch):
    X, y, _ = chosen
    monkeypatch.setattr(kernel_choice, "SCREEN_ROWS", 400 if few else 30)
    listener = Listener()
    GPRegressor(kernel="auto", restarts=1, max_iter=5, callback=listener).fit(X, y)
    trials, fit = listener.plans
    assert trials.title.startswith("60 rows, 6 kernels of a plain GP on held-out rows")
    assert fit.title == "60 rows, a plain GP, method='exact'"
    assert trials.work > 3 * fit.work
    assert listener.phases == [*(phase.name for phase in trials.phases), "starts"]
    assert len(trials.phases) == (1 if few else 2)


def test_who_stops_the_trials_gets_no_model(chosen):
    X, y, _ = chosen
    model = GPRegressor(kernel="auto", restarts=1, callback=Listener(rounds=3))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "kernel_choice_")


@pytest.mark.filterwarnings("ignore:6 of 40 rows have missing inputs")
@pytest.mark.parametrize("missing", ["error", "drop", "impute"])
def test_tables_with_text_dates_and_gaps_are_tried_as_they_are_fitted(missing):
    frame = pd.DataFrame({
        "x": RNG.normal(size=40), "floor": np.array(["ice", "sand"])[np.arange(40) % 2], "day": pd.date_range("2026-01-01", periods=40),
    })  # fmt: skip
    y = frame["x"] + (frame["floor"] == "ice")
    if missing != "error":
        frame.loc[::7, "x"] = np.nan
    model = GPRegressor(kernel="auto", restarts=1, max_iter=5, missing=missing, cyclic=("week",)).fit(frame, y)
    assert model.kernel_choice_.rows == (frame["x"].notna().sum() if missing == "drop" else 40)
    assert np.isfinite(model.predict(frame.dropna())).all()


def test_many_rows_are_screened_first(monkeypatch):
    monkeypatch.setattr(kernel_choice, "SCREEN_ROWS", 30)
    monkeypatch.setattr(kernel_choice, "CANDIDATES", ("se", "matern32", "matern52", "additive"))
    monkeypatch.setattr(kernel_choice, "FINALISTS", 2)
    X = RNG.normal(size=(50, 2))
    model = GPRegressor(kernel="auto", restarts=1, max_iter=5).fit(X, np.sin(X[:, 0]))
    assert (len(model.kernel_choice_.density), len(model.kernel_choice_.screened)) == (2, 2)


@pytest.mark.parametrize(("groups", "ordered"), [(np.arange(40) // 4, False), (None, True)])
def test_groups_and_stretches_are_held_out_whole(groups, ordered, monkeypatch):
    seen = []
    monkeypatch.setattr(
        kernel_choice._Trials, "_on_fold", lambda self, kernel, fold, *_: seen.append(fold) or np.zeros(len(fold))
    )
    X = RNG.normal(size=(40, 1))
    GPRegressor(kernel="auto", restarts=1, max_iter=1).fit(X, X[:, 0], groups=groups, ordered=ordered)
    assert seen
    for fold in seen:
        if ordered:
            assert (np.diff(fold) == 1).all()
        else:
            assert np.isin(groups, groups[fold]).sum() == len(fold)


def test_auto_is_refused_where_it_means_nothing():
    X = RNG.normal(size=(20, 2))
    with pytest.raises(InputError, match="GPRegressor\\(kernel='auto'\\)"):
        ManifoldGPRegressor(kernel="auto").fit(X, X[:, 0])
    with pytest.raises(InputError, match="too few"):
        GPRegressor(kernel="auto").fit(X[:3], X[:3, 0])
    with pytest.raises(InputError, match="source of rows"):
        GPRegressor(kernel="auto").fit(ArrayRows(X, X[:, 0]))


@pytest.fixture
def table(tmp_path):
    X = RNG.normal(size=(40, 2))
    rows = np.column_stack([X, np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    path = tmp_path / "table.csv"
    path.write_text("a,b,y\n" + "\n".join(",".join(f"{v:.6f}" for v in row) for row in rows))
    return path


def test_a_plain_gp_from_the_command_line(table, tmp_path):
    out = tmp_path / "model.mgp"
    mgp("fit", table, "-t", "y", "-o", out, "--averaging", "plain", "--kernel", "additive", "--restarts", 1, "-q")
    model = load(out)
    assert (type(model), model.kernel) == (GPRegressor, "additive")
    found = json.loads(mgp("inspect", out, "--sensitivity", "--json").out)["sensitivity"]["y"]
    assert found["names"] == ["a", "b"]
    assert found["total"][0] > found["total"][1]
    assert "first order" in mgp("inspect", out, "--sensitivity").out


def test_the_kernel_is_chosen_from_the_command_line(table, tmp_path):
    """Settings were copied for every trial, and the command line's progress cannot be."""
    out = tmp_path / "model.mgp"
    mgp("fit", table, "-t", "y", "-o", out, "--averaging", "plain", "--kernel", "auto", "--restarts", 1, "--max-iter", 5, "-q")
    assert load(out).kernel == "auto"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kernel", "auto"), "--averaging plain"),
        (("--kernel", "cubic"), "must be one of"),
        (("--averaging", "plain", "--hidden", "3,2"), "no network"),
        (("--averaging", "plain", "--inducing", "5"), "--method sparse"),
    ],
)
def test_options_that_have_no_effect_are_refused(table, tmp_path, arguments, words):
    said = mgp("fit", table, "-t", "y", "-o", tmp_path / "model.mgp", *arguments, code=2).err
    assert words in " ".join(said.replace("│", " ").split())
