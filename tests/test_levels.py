"""Cheap levels first: the same optimum as without them, a table of starts that says how far each came, and every way to stop on a level.

The threshold is lowered, so that 160 rows have the levels 40 and 80.
"""

import re
import time

import numpy as np
import pytest
import torch

import manifoldgp
from manifoldgp import GPRegressor, ManifoldGPRegressor, Single
from manifoldgp.averaging import Stack
from manifoldgp.errors import DisconnectedParameterError, InputError, TrainingFailedError
from manifoldgp.estimators.start_agreement import start_agreement
from manifoldgp.features import MLP, Module
from manifoldgp.inspection.page_tables import about_endings, ending
from manifoldgp.kernels import SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import LogNormal
from manifoldgp.training import coarse_to_fine as levels
from manifoldgp.training.lbfgs import minimize_lbfgs
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.optimizer import Curvature
from manifoldgp.training.progress import PhaseWatcher
from short_fits import manifold, train

N = 160
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=N)
PHASES = ["40 of 160 rows", "80 of 160 rows", "all 160 rows"]


@pytest.fixture(autouse=True)
def low_threshold(monkeypatch):
    monkeypatch.setattr(levels, "LEAST_ROWS", N)
    monkeypatch.setattr(levels, "FIRST_ROWS", 40)


@pytest.fixture
def sizes(monkeypatch):
    """Rows of every evaluation, with how many starts it was of."""
    seen = []
    call = TrainingObjective.__call__

    def counted(self, theta, rows):
        seen.append((self.data.y.shape[-1], len(theta)))
        return call(self, theta, rows)

    monkeypatch.setattr(TrainingObjective, "__call__", counted)
    return seen


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def data(**more):
    return Data(torch.from_numpy(X), torch.from_numpy(Y), **more)


class Stop(PhaseWatcher):
    """Writes down phases and values, and stops in one of them."""

    def __init__(self, phase="", after=1):
        self.phase, self.after, self.entered, self.seen = phase, after, [], []

    def begin(self, output, plan):
        pass

    def enter(self, phase):
        self.entered.append(phase)
        self.rounds = 0

    def __call__(self, iterations, values):
        self.rounds += 1
        self.seen.append((self.entered[-1], iterations.copy(), values.copy()))
        return self.entered[-1] == self.phase and self.rounds >= self.after


# ------------------------------------------------------------------------------------------------------------ the same optimum


def test_the_optimum_is_that_of_a_fit_without_levels_and_few_evaluations_are_of_all_rows(sizes):
    ours = GPRegressor(restarts=4).fit(X, Y)
    on_all_rows = sum(starts for rows, starts in sizes if rows == N)
    assert max(starts for rows, starts in sizes if rows == N) == 1  # memory: one start at a time
    sizes.clear()
    whole = GPRegressor(restarts=4, levels=False).fit(X, Y)
    assert on_all_rows < 0.3 * sum(starts for _, starts in sizes)
    assert {rows for rows, _ in sizes} == {N}
    assert ours.nlml_ == pytest.approx(whole.nlml_, abs=1e-4)
    np.testing.assert_allclose(ours.predict(X[:5]), whole.predict(X[:5]), atol=1e-4)


@pytest.mark.parametrize("optimizer", ["l-bfgs-b", "hessian-free"])
def test_other_optimizers_climb_too(optimizer):
    ours = GPRegressor(restarts=2, optimizer=optimizer).fit(X, Y)
    assert ours.nlml_ == pytest.approx(GPRegressor(restarts=2, levels=False).fit(X, Y).nlml_, abs=1e-3)
    assert sum(levels.on_a_level(ours.starts_["status"])) == 1


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ({"priors": {"kernel.lengthscale": LogNormal(0.0, 0.3)}}, {}),
        ({}, {"noise_std": np.linspace(0.1, 0.3, N)}),
        ({"target_warping": "tanh"}, {}),
    ],
    ids=["priors", "known noise", "warped"],
)
def test_models_of_every_kind(arguments, more):
    ours, whole = (GPRegressor(restarts=3, levels=on, **arguments).fit(X, Y, **more) for on in (True, False))
    best = [m.starts_["objective"].min() for m in (ours, whole)]
    assert best[0] == pytest.approx(best[1], abs=0.01 * N)
    assert ours.diagnose().numbers["NLML per row"] == pytest.approx(ours.nlml_ / N, abs=1e-6)


def test_shared_features_and_a_model_for_each_target():
    both = np.stack([Y, X[:, 0] * X[:, 1]], 1)
    settings = {"features": (3, 2), "restarts": 3, "max_iter": 15}
    shared = manifold(shared_features=True, **settings).fit(X, both)
    each = manifold(**settings).fit(X, both)
    for model in (shared, each):
        assert np.isfinite(model.nlml_)
        assert levels.on_a_level(model.starts_["status"]).sum() == 4


def test_masked_rows_are_never_sampled():
    mask = torch.ones(N + 40, dtype=torch.float64)
    mask[::5] = 0.0
    full = Data(torch.zeros(N + 40, 2, dtype=torch.float64), torch.full((N + 40,), 1e6, dtype=torch.float64), mask=mask)
    full.X[mask > 0], full.y[mask > 0] = torch.from_numpy(X), torch.from_numpy(Y)
    masked = train(Model(), full, restarts=2, generator=generator())
    plain = train(Model(), data(), restarts=2, generator=generator())
    assert masked.nlml.min() == pytest.approx(plain.nlml.min(), abs=1e-4)


def test_nothing_changes_below_the_threshold(monkeypatch):
    monkeypatch.setattr(levels, "LEAST_ROWS", N + 1)
    on, off = (GPRegressor(restarts=3, levels=levels_on, max_iter=10).fit(X, Y) for levels_on in (True, False))
    np.testing.assert_array_equal(on.starts_, off.starts_)


def test_the_same_seed_takes_the_same_rows():
    settings = {"features": (3, 1), "restarts": 3, "max_iter": 20}
    first, again, other = (manifold(random_state=seed, **settings).fit(X, Y) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.starts_["status"], again.starts_["status"])
    np.testing.assert_allclose(first.starts_["nlml"], again.starts_["nlml"], rtol=1e-8)
    assert first.nlml_ != other.nlml_


def test_a_batch_of_data_sets_has_no_levels(sizes):
    batch = Data(torch.from_numpy(X).repeat(2, 1, 1), torch.from_numpy(Y).repeat(2, 1), batched=True)
    train(Model(), batch, restarts=2, generator=generator(), max_iter=3)
    assert {rows for rows, _ in sizes} == {N}


# --------------------------------------------------------------------------------------------------------- an honest table


def test_the_table_of_starts_says_how_far_each_came():
    settings = {"features": (4, 2), "restarts": 8, "max_iter": 40}
    model = manifold(**settings).fit(X, Y)
    starts = model.starts_
    (best,) = np.flatnonzero(starts["chosen"])
    assert starts["status"][best] in ("converged", "iteration limit")
    lost = np.char.startswith(starts["status"], "lost on ")
    trained = starts["status"] == "trained on 80 rows"
    assert lost.sum() + trained.sum() == 7
    assert trained.sum() >= 1
    assert np.isposinf(starts["objective"][lost]).all()
    assert np.isposinf(starts["nlml"][lost]).all()
    assert np.isfinite(starts["nlml"][trained]).all()
    assert starts["nlml"][best] == starts["nlml"].min() == model.nlml_
    assert all(len(model.histories_[r]) == 0 for r in np.flatnonzero(lost))
    assert all(model.histories_[r].tolist() == [starts["objective"][r]] for r in np.flatnonzero(trained))
    assert starts["iterations"][best] > len(model.histories_[best]) - 1  # those on the levels count too
    remarks = model.diagnose().remarks
    assert any("7 of 8 starts were trained on a part of the 160 rows" in remark for remark in remarks)
    assert not any("Only one start" in remark for remark in remarks)
    assert "7 starts were left behind on a part of the rows" in about_endings(starts)
    assert ending("trained on 80 rows") == "trained on 80 rows: others did better on all rows"


def test_members_of_a_stack_are_not_called_left_behind():
    """A member that learnt from the rows of its fold and predicts with all of them had the status of starts that others had left behind."""
    inputs = np.random.default_rng(0).normal(size=(600, 2))
    settings = {"steps": (1,), "warm_iterations": 1, "gp_iterations": 5, "keep": 10.0}  # nobody adds so much
    model = ManifoldGPRegressor(averaging=Stack(**settings)).fit(inputs, np.sin(inputs[:, 0]))
    starts = model.starts_[model.starts_["chosen"]]
    assert all(status.startswith("learnt from ") for status in starts["status"])
    assert not any("left behind" in remark for remark in model.diagnose().remarks)
    assert "left behind" not in about_endings(starts)
    assert ending(starts["status"][0]) == starts["status"][0]


def test_one_start_that_was_left_behind_is_one():
    table = np.zeros(2, GPRegressor(restarts=1, max_iter=1).fit(X[:9], Y[:9]).starts_.dtype)
    table["status"] = "lost on 80 rows", "converged"
    remarks = start_agreement(table, 160, limit=True).remarks
    assert remarks[0].startswith("1 of 2 starts was trained on a part of the 160 rows and left behind there")


def test_a_saved_model_keeps_the_table(tmp_path):
    model = GPRegressor(restarts=3, max_iter=5).fit(X, Y)
    model.save(tmp_path / "model.mgp")
    loaded = manifoldgp.load(tmp_path / "model.mgp")
    np.testing.assert_array_equal(loaded.starts_, model.starts_)
    assert loaded.levels is True


def test_phases_come_as_planned_with_values_scaled_to_all_rows(monkeypatch):
    watcher, raw, call = Stop(), {}, TrainingObjective.__call__

    def remembered(self, theta, rows):
        value, gradient = call(self, theta, rows)
        raw.setdefault(self.data.y.shape[-1], []).extend(value)
        return value, gradient

    monkeypatch.setattr(TrainingObjective, "__call__", remembered)
    model = GPRegressor(restarts=3, callback=watcher).fit(X, Y)
    assert watcher.entered == PHASES == [phase.name for phase in Single(restarts=3).plan(N).phases]
    last = {phase: values.min() for phase, _, values in watcher.seen}
    for phase, rows in zip(PHASES, (40, 80, N), strict=True):
        assert last[phase] == pytest.approx(min(raw[rows]) * N / rows, abs=1e-5 * N)
    standardized = model.nlml_ - N * np.log(np.std(Y))
    assert last[PHASES[2]] == pytest.approx(standardized, abs=1e-6)


def test_the_progress_lines_name_their_level(capsys):
    GPRegressor(restarts=2, max_iter=5, verbose=True).fit(X, Y)
    text = capsys.readouterr().err
    assert all(f" {phase}, " in text for phase in PHASES)


# ------------------------------------------------------------------------------------------------------------------ stopping


@pytest.mark.parametrize("phase", PHASES)
def test_whoever_stops_on_a_level_gets_a_model_of_all_rows(phase, sizes):
    watcher = Stop(phase, after=2)
    model = ManifoldGPRegressor(features=(3, 1), callback=watcher, averaging=Single(restarts=4)).fit(X, Y)
    assert watcher.entered == PHASES[: PHASES.index(phase) + 1]
    assert watcher.rounds == 2  # nobody is asked again
    starts = model.starts_
    (best,) = np.flatnonzero(starts["chosen"])
    assert starts["status"][best] == "stopped by callback"
    assert model.nlml_ == starts["nlml"][best]
    assert model.diagnose().numbers["NLML per row"] == pytest.approx(model.nlml_ / N, abs=1e-6)
    assert any(re.search(r"stopped on (its|their) way", remark) for remark in model.diagnose().remarks)
    if phase != PHASES[-1]:
        assert [starts for rows, starts in sizes if rows == N] == [1]
        assert np.isfinite(starts["objective"]).sum() == 1
        assert "never begun" not in about_endings(starts)


@pytest.mark.parametrize("optimizer", ["l-bfgs", "l-bfgs-b"])
def test_a_budget_that_ends_on_a_level_leaves_a_usable_model(optimizer):
    begin = time.perf_counter()
    trained = train(Model(MLP((10, 2))), data(), restarts=4, generator=generator(), optimizer=optimizer, time_budget=1e-3)
    assert time.perf_counter() - begin < 5.0
    assert trained.result.status[trained.order[0]] == "time limit"
    values = trained.values(trained.order[:1])
    assert float(trained.model.nlml(values, data())[0]) == pytest.approx(trained.nlml[trained.order[0]], rel=1e-9)


def test_no_iterations_are_no_iterations(sizes):
    model = GPRegressor(restarts=3, max_iter=0).fit(X, Y)
    assert np.isfinite(model.starts_["nlml"]).all()
    assert sizes == [(N, 3)]


def test_max_iter_limits_each_level():
    watcher = Stop()
    ManifoldGPRegressor(features=(3, 1), callback=watcher, averaging=Single(restarts=3, max_iter=7)).fit(X, Y)
    assert {phase: max(i.max() for p, i, _ in watcher.seen if p == phase) for phase in PHASES} == dict.fromkeys(PHASES, 7)


# --------------------------------------------------------------------------------------------------------------- warm starts


def test_a_warm_start_enters_on_all_rows_and_wins_where_it_is_better():
    settings = {"features": (4, 2)}
    good = manifold(restarts=6, max_iter=200, levels=False, **settings).fit(X, Y)
    warm = manifold(restarts=3, max_iter=3, warm_start_from=good, **settings).fit(X, Y)
    assert warm.starts_["chosen"][0]
    assert warm.nlml_ <= good.nlml_ + 1e-6
    assert warm.starts_["iterations"][0] <= 3  # on all rows only


def test_a_bad_warm_start_is_compared_and_left():
    bad = GPRegressor(restarts=1, max_iter=0, random_state=3).fit(X[:5], 1e3 * RNG.normal(size=5))
    model = GPRegressor(restarts=3, warm_start_from=bad).fit(X, Y)
    assert model.starts_["status"][0] == "compared on all rows"
    assert not model.starts_["chosen"][0]
    assert np.isfinite(model.starts_["nlml"][0])


def test_a_warm_start_alone_has_no_levels(sizes):
    good = GPRegressor(restarts=1, levels=False).fit(X, Y)
    sizes.clear()
    GPRegressor(restarts=1, warm_start_from=good).fit(X, Y)
    assert {rows for rows, _ in sizes} == {N}


# ------------------------------------------------------------------------------------------------------------------ refusals


def test_starts_without_a_factor_are_refused_as_ever():
    same = Data(torch.zeros(N, 1, dtype=torch.float64), torch.from_numpy(Y))
    model = Model(kernel=SquaredExponential(amplitude=False), noise=GaussianNoise(False, 1e-100))
    with pytest.raises(TrainingFailedError, match=r"None of the 3 starts gave .* \(3 x invalid start\)"):
        train(model, same, restarts=3, generator=generator())


def test_what_has_no_factor_on_all_rows_begins_again_there(monkeypatch):
    call, together = TrainingObjective.__call__, []

    def without_factor(self, theta, rows):
        """On all rows those from the levels come one at a time, and have no factor here."""
        value, gradient = call(self, theta, rows)
        if self.data.y.shape[-1] == N:
            together.append(len(theta))
            if max(together) == 1:
                return np.full(1, np.inf), np.zeros_like(theta)
        return value, gradient

    monkeypatch.setattr(TrainingObjective, "__call__", without_factor)
    trained = train(Model(), data(), restarts=2, generator=generator(), max_iter=30)
    assert together[:3] == [1, 1, 2]
    assert np.isfinite(trained.result.value).all()
    assert not levels.on_a_level(trained.result.status).any()


def test_a_disconnected_parameter_is_refused_before_anything_is_trained():
    class Unused(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = torch.nn.Linear(2, 2).double(), torch.nn.Linear(1, 2).double()

        def forward(self, inputs):
            return self.used(inputs)

    with pytest.raises(DisconnectedParameterError, match=r"features\.idle\.weight"):
        train(Model(Module(Unused())), data(), restarts=2, generator=generator())


def test_levels_must_be_a_yes_or_a_no():
    with pytest.raises(InputError, match="levels must be True or False; got 3"):
        GPRegressor(levels=3).fit(X, Y)


# -------------------------------------------------------------------------------------------------------------------- pieces


def test_one_start_at_a_time_needs_three_matrices():
    def matrices(rows, **changed):
        return Single(restarts=8, **changed).plan(rows).matrices(1, torch.get_num_threads())

    assert matrices(N) == 3
    assert matrices(N, levels=False) == 3 * min(8, torch.get_num_threads()) == matrices(N - 1)


def test_known_curvature_saves_iterations():
    scale = 10.0 ** np.arange(6)
    target = np.linspace(-1, 1, 6)

    def objective(theta, rows, factor=1.0):
        return factor * 0.5 * (scale * (theta - target) ** 2).sum(-1), factor * scale * (theta - target)

    first = minimize_lbfgs(objective, np.zeros((1, 6)))
    assert first.curvature is not None
    again = np.full((1, 6), 0.3)
    cold = minimize_lbfgs(lambda theta, rows: objective(theta, rows, 4.0), again)
    warm = minimize_lbfgs(
        lambda theta, rows: objective(theta, rows, 4.0), again, curvature=first.curvature.of(np.array([0]), 4.0)
    )
    assert warm.iterations[0] <= 0.5 * cold.iterations[0]
    np.testing.assert_allclose(warm.theta, target[None], atol=1e-4)
    empty = Curvature(np.zeros((1, 10, 6)), np.zeros((1, 10, 6)))
    same = minimize_lbfgs(lambda theta, rows: objective(theta, rows, 4.0), again, curvature=empty)
    np.testing.assert_array_equal(same.theta, cold.theta)
