"""Averages as users meet them, and the parts they are made of: honest folds, nested members, held-out predictions."""

import math
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.base import clone

from manifoldgp import NUTS, GPRegressor, ManifoldGPRegressor, Stack, load
from manifoldgp._system.threads import Workers, training_threads
from manifoldgp.averaging import final_members, stack
from manifoldgp.averaging import fold_training as on_folds
from manifoldgp.averaging.averages import FoldChoice
from manifoldgp.averaging.fast import widening
from manifoldgp.averaging.fold_contest import FoldContest
from manifoldgp.averaging.fold_groups import Group, Predicted
from manifoldgp.averaging.fold_predictions import make_batch, predict_held_out
from manifoldgp.averaging.fold_steps import first_rows
from manifoldgp.averaging.folds import held_out_in_turn
from manifoldgp.averaging.members import nested_gp, plain_gp, warm_and_cold
from manifoldgp.averaging.stack import fit_stack
from manifoldgp.averaging.stacking import Candidates, HeldOutReport
from manifoldgp.cli._summary import summary_of
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.features import MLP, PCA, Nested
from manifoldgp.inference.certainty import Certainty
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.kernels import Constant, Matern52, SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import LogNormal, map_leaves
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.progress import PhaseWatcher
from manifoldgp.training.trained import Earlier
from manifoldgp.training.trainer import Trainer, Training
from programmes import rank_statistics
from short_fits import few_starts

AVERAGINGS = ("stack", "fast", "restarts", "single")


def cliff(seed, rows):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(rows, 2))
    return X, np.sin(2 * X[:, 0]) + 2.0 * (X.sum(1) > 0.2) + 0.05 * rng.normal(size=rows)


@pytest.fixture(scope="module")
def fitted():
    X, y = cliff(0, 60)
    return {
        name: ManifoldGPRegressor(None if name == "fast" else (4, 2), averaging=few_starts(name, 3, 60)).fit(X, y)
        for name in AVERAGINGS
    }


def density_on_a_grid(model, x):
    """The predictive density at one point, on a grid that is finest around quantiles and reaches far, however narrow or wide a member came out."""
    _, std = model.predict(x, return_std=True)
    away = std * np.geomspace(1e-6, 1e3, 400)
    grid = np.unique(model.predict_quantiles(x, np.linspace(0.05, 0.95, 15))[0][:, None] + np.r_[-away, 0.0, away])
    return grid, np.exp(model.log_predictive_density(np.repeat(x, len(grid), 0), grid))


@pytest.mark.parametrize("name", AVERAGINGS)
def test_density_integrates_to_one_and_matches_the_moments(fitted, name):
    model, x = fitted[name], np.array([[0.1, 0.1]])
    mean, std = (moment[0] for moment in model.predict(x, return_std=True))
    grid, density = density_on_a_grid(model, x)
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)
    assert mean == pytest.approx(np.trapezoid(grid * density, grid), abs=2e-3 * std)
    assert std == pytest.approx(np.sqrt(np.trapezoid((grid - mean) ** 2 * density, grid)), rel=2e-2)
    quantiles = model.predict_quantiles(x, (0.05, 0.5, 0.95))[0]
    np.testing.assert_allclose(
        [np.trapezoid(density[grid <= q], grid[grid <= q]) for q in quantiles], (0.05, 0.5, 0.95), atol=2e-3
    )


@pytest.mark.parametrize("name", AVERAGINGS)
def test_everything_works_for_every_averaging(fitted, name, tmp_path):
    model = fitted[name]
    X, y = cliff(1, 20)
    step = 1e-5
    gradient, _ = model.predict_gradient(X[:3])
    shifted = [(model.predict(X[:3] + step * e) - model.predict(X[:3] - step * e)) / (2 * step) for e in np.eye(2)]
    np.testing.assert_allclose(gradient, np.stack(shifted, 1), rtol=1e-4, atol=1e-4)
    assert model.sample_y(X, 5).shape == (20, 5)
    assert model.transform(X).shape[0] == 20
    model.save(tmp_path / "model.mgp")
    again = load(tmp_path / "model.mgp")
    for mine, theirs in zip(model.predict(X, return_std=True), again.predict(X, return_std=True), strict=True):
        assert np.array_equal(mine, theirs)
    again.update(X, y)
    # Residuals of the new rows become σ² (C + σ²)⁻¹ r of each member: their squares add up to less, while a single one may grow.
    assert np.square(again.predict(X) - y).sum() < np.square(model.predict(X) - y).sum()
    assert str(again.diagnose())


def test_samples_follow_the_mixture(fitted):
    model, x = fitted["stack"], np.array([[0.1, 0.1], [0.5, -0.5]])
    mean, covariance = model.predict(x, return_cov=True)
    draws = model.sample_y(x, 20000)
    np.testing.assert_allclose(draws.mean(1), mean, atol=4 * np.sqrt(np.diag(covariance).max() / 20000))
    np.testing.assert_allclose(np.cov(draws), covariance, atol=0.08 * np.diag(covariance).max())


def test_weights_sum_to_one_and_are_reported(fitted):
    report = fitted["stack"].held_out_[0]
    assert report.weights.sum() == pytest.approx(1.0)
    assert report.groups == ("plain GP", "rough GP", "additive GP", "warm", "cold", "rough", "own")
    assert ((report.pit >= 0) & (report.pit <= 1)).all()
    assert "of the weight" in str(fitted["stack"].diagnose())
    weights = fitted["stack"].starts_["weight"]
    assert weights.sum() == pytest.approx(1.0, abs=1e-3)
    assert fitted["single"].held_out_ == [None]


def test_a_cliff_is_predicted_better_than_by_a_plain_gp():
    X, y = cliff(2, 150)
    X_test, y_test = cliff(3, 500)
    stack = ManifoldGPRegressor(averaging=Stack(own_members=6, deals=1)).fit(X, y)
    gp = GPRegressor().fit(X, y)
    gain = stack.log_predictive_density(X_test, y_test).mean() - gp.log_predictive_density(X_test, y_test).mean()
    assert gain > 0.3


def test_a_smooth_function_is_predicted_as_well_as_by_a_plain_gp():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=500)
    stack = ManifoldGPRegressor(averaging=Stack(own_members=3, deals=1)).fit(X[:100], y[:100])
    gp = GPRegressor().fit(X[:100], y[:100])
    gain = stack.log_predictive_density(X[100:], y[100:]).mean() - gp.log_predictive_density(X[100:], y[100:]).mean()
    assert gain > -0.05


def test_fast_is_wider_where_few_rows_leave_the_parameters_uncertain():
    X, y = cliff(4, 20)
    model = ManifoldGPRegressor(averaging="fast").fit(X, y)
    assert model.ensembles_[0].variance_factors == (widening(4, 20),) == (1.5,)  # two length-scales, a variance, the noise
    narrow = replace(model.ensembles_[0], variance_factors=(1.0,)).predict(torch.as_tensor(X[:3]))
    wide = model.ensembles_[0].predict(torch.as_tensor(X[:3]))
    torch.testing.assert_close(wide.variances, 1.5 * narrow.variances)
    torch.testing.assert_close(wide.means, narrow.means)


def test_groups_and_order_choose_the_folds():
    X, y = cliff(4, 40)
    quick = {"features": (3, 1), "averaging": Stack(own_members=2, deals=1)}
    runs = [
        ManifoldGPRegressor(**quick).fit(X, y, **options) for options in ({}, {"ordered": True}, {"groups": np.arange(40) // 8})
    ]
    densities = [run.held_out_[0].log_density["plain GP"] for run in runs]
    assert not np.allclose(densities[0], densities[1])
    assert not np.allclose(densities[0], densities[2])
    with pytest.raises(InputError, match="one label a row"):
        ManifoldGPRegressor(**quick).fit(X, y, groups=[1, 2])


@pytest.mark.parametrize(("N", "count"), [(40, 2), (150, 3), (500, 3)])
def test_every_deal_of_rows_in_order_of_time_has_stretches_of_its_own(N, count):
    rng = np.random.default_rng(0)
    deals = [held_out_in_turn(np.zeros((N, 1)), rng, None, True) for _ in range(3)]
    for folds in deals:
        assert len(folds) == count
        np.testing.assert_array_equal(np.concatenate(folds), np.arange(N))  # stretches, and every row in one
    assert len({tuple(map(len, folds)) for folds in deals}) > 1


def test_a_short_stretch_of_time_may_be_widened_further_and_is_said_to_be_short(tmp_path):
    X, y = cliff(4, 40)
    model = ManifoldGPRegressor((3, 1), averaging=few_starts("stack", 1, 4)).fit(X, y, ordered=True)
    model.save(tmp_path / "m")
    for each in (model, load(tmp_path / "m")):
        assert each.held_out_[0].ordered
        assert max(each.held_out_[0].variance_factors) == 64.0
        assert "short stretch of time" in str(each.diagnose())
    assert any(remark.endswith("told apart by --group.") for remark in summary_of(model)["remarks"])
    other = clone(model).fit(X, y)
    assert max(other.held_out_[0].variance_factors) == 16.0
    assert "short stretch of time" not in str(other.diagnose())


def test_bad_choices_are_refused():
    X, y = cliff(5, 20)
    with pytest.raises(
        InputError, match="Unknown averaging 'bagging'; choose one of 'stack', 'fast', 'restarts', 'nuts', 'single'"
    ):
        ManifoldGPRegressor(averaging="bagging").fit(X, y)


def standardised(X, y):
    return Data(torch.from_numpy((X - X.mean(0)) / X.std(0)), torch.from_numpy((y - y.mean()) / y.std()))


def test_nested_features_contain_the_plain_gp():
    data = standardised(*cliff(6, 30))
    gp, nested = plain_gp(Model()), nested_gp(Model(), 4, 2)
    generator = torch.Generator().manual_seed(0)
    _, values = gp.draw(data, generator, 1)
    _, drawn = nested.draw(data, generator, 1)
    started = warm_and_cold(drawn, nested.features.width, values, np.array([True]))
    started["features"]["outer"].zero_()
    started["features"]["skip"].zero_()
    torch.testing.assert_close(nested.nlml(started, data), gp.nlml(values, data), rtol=1e-12, atol=1e-12)


def test_nested_features_against_the_formula():
    X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    nested = Nested(hidden=4, q=2)
    tree = nested.parameters(X)
    values = {k: p.initial(torch.Generator().manual_seed(1), 2) for k, p in tree.items()}
    H = nested(values, X)
    for r in range(2):
        v = {k: leaf[r].numpy() for k, leaf in values.items()}
        net = X.numpy() @ v["skip"] / 3**0.5 + np.tanh(X.numpy() @ v["inner"] / 3**0.5 + v["bias"]) @ v["outer"] / 2.0
        np.testing.assert_allclose(H[r].numpy(), np.hstack([X.numpy() / v["lengthscale"], net]), rtol=1e-12)


def test_held_out_predictions_equal_those_of_models_fitted_alone():
    data = standardised(*cliff(7, 23))
    folds = [np.arange(0, 8), np.arange(8, 15), np.arange(15, 23)]
    batch = make_batch(data, folds)
    assert batch.train.mask is not None  # folds of different sizes share a batch
    model = Model(kernel=SquaredExponential())
    _, values = model.draw(data, torch.Generator().manual_seed(0), 3)
    held_out = predict_held_out(model, values, batch, (1.0, 4.0))
    by_row = batch.by_row(held_out.log_density)
    for k, fold in enumerate(folds):
        rest = np.setdiff1d(np.arange(23), fold)
        mine = map_leaves(lambda leaf: leaf[k : k + 1], values)  # noqa: B023
        posterior = condition(model, mine, Data(data.X[rest], data.y[rest]))
        mean, variance = posterior.mean_and_variance(data.X[fold])
        for f, factor in enumerate((1.0, 4.0)):
            sd = torch.sqrt(factor * (variance + posterior.noise_variance()[:, None]))
            expected = torch.distributions.Normal(mean, sd).log_prob(data.y[fold])[0]
            np.testing.assert_allclose(by_row[f, fold], expected.numpy(), rtol=1e-9, atol=1e-9)


def test_folds_are_honest_what_is_held_out_changes_no_member_of_its_fold():
    X, y = cliff(8, 30)
    data = standardised(X, y)
    folds = [np.arange(0, 10), np.arange(10, 20), np.arange(20, 30)]
    changed = Data(data.X, data.y.clone())
    changed.y[:10] += 5.0
    trained = []
    for rows in (data, changed):
        batch = make_batch(rows, folds)
        with training_threads() as workers:
            trainer = Trainer(torch.Generator().manual_seed(0), workers)
            trained.append(trainer.fit("gp", plain_gp(Model()), batch.train, 3, 30).result.theta)
    np.testing.assert_allclose(trained[0][0], trained[1][0], rtol=1e-9)
    assert not np.allclose(trained[0][1], trained[1][1])


def test_a_broken_member_predicts_nothing_and_the_stack_goes_on():
    data = standardised(*cliff(9, 24))
    batch = make_batch(data, [np.arange(0, 12), np.arange(12, 24)])
    model = Model()
    _, values = model.draw(data, torch.Generator().manual_seed(0), 2)
    values["kernel"]["variance"][0] = torch.nan
    held_out = predict_held_out(model, values, batch, (1.0,))
    assert (held_out.log_density[0, 0] <= -1e6).all()
    assert (held_out.log_density[0, 1] > -1e6).all()


@pytest.mark.parametrize("options", [{"noise_std": 0.1}, {}])
def test_known_noise_and_warping_go_through_the_stack(options):
    X, y = cliff(10, 40)
    warping = None if options else "tanh"
    model = ManifoldGPRegressor(features=(3, 1), target_warping=warping, averaging=Stack(own_members=2, deals=1)).fit(
        X, np.exp(y), **options
    )
    grid, density = density_on_a_grid(model, X[:1])
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=5e-3)
    assert np.isfinite(model.held_out_[0].log_density["stack"]).all()


def averaged(X, y, features=MLP((4, 2)), **settings):  # noqa: B008
    """A stack of a small model with two folds and without groups of other kernels than its own, and the phases it went through."""
    phases, data = [], standardised(X, y)
    sizes = {"gp_starts": 1, "warm_members": 2, "cold_members": 3, "own_members": 5, "fold_members": 2, **settings}
    with training_threads() as workers:
        trainer = Trainer(torch.Generator().manual_seed(0), workers, watch=lambda phase, *_: bool(phases.append(phase)))
        halves = [np.arange(0, len(y), 2), np.arange(1, len(y), 2)]
        average = fit_stack(Model(features, Matern52()), data, [halves], Stack(**sizes), trainer, np.random.default_rng(0))
    assert sum(w.sum() for w in average.weights) == pytest.approx(1.0)
    return average, list(dict.fromkeys(phases))


@pytest.fixture(scope="module")
def dealt():
    """Rows that were dealt to folds three times, and what one of the deals alone gives."""
    X, y = cliff(3, 30)
    sizes = {"gp_starts": 1, "warm_members": 2, "cold_members": 2, "own_members": 2, "fold_members": 1, "keep": -1.0}
    return X, y, [ManifoldGPRegressor(features=(3, 1), averaging=Stack(deals=d, **sizes)).fit(X, y) for d in (1, 3)]


def test_an_average_of_several_deals_is_their_mixture(dealt):
    X, y, (once, thrice) = dealt
    groups = [start["group"] for start in thrice.starts_[thrice.starts_["chosen"]]]
    assert groups.count("plain GP") == 1  # trained on all rows once, for all deals
    assert groups.count("own") > [start["group"] for start in once.starts_].count("own")
    assert len(once.held_out_[0].pit) == len(thrice.held_out_[0].pit) == len(y)  # a row that was held out thrice is one row
    assert thrice.starts_["weight"].sum() == pytest.approx(1.0)
    grid, density = density_on_a_grid(thrice, X[:1])
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=5e-3)


def test_the_report_of_several_deals_is_that_of_their_mixture():
    rng = np.random.default_rng(0)

    def report(seed):
        densities = {name: np.random.default_rng([seed, k]).normal(size=5) for k, name in enumerate(("plain GP", "own", "stack"))}
        weights = rng.dirichlet(np.ones(4)).reshape(2, 2)
        return HeldOutReport(
            ("plain GP", "own"), (1.0, 4.0), weights, densities, rng.uniform(size=5), rng.normal(size=5), np.ones(5)
        )

    both = [report(0), report(1)]
    found = HeldOutReport.averaged(both)
    assert found.weights.sum() == pytest.approx(1.0)
    expected = np.mean([np.exp(r.log_density["stack"]) for r in both], axis=0)
    np.testing.assert_allclose(np.exp(found.log_density["stack"]), expected)
    np.testing.assert_allclose(found.mean, (both[0].mean + both[1].mean) / 2)
    np.testing.assert_allclose(found.pit, (both[0].pit + both[1].pit) / 2)


@pytest.mark.parametrize("order", [1, -1])
def test_a_deal_that_does_not_follow_leaves_the_others_their_exponent(order):
    follows = HeldOutReport(
        ("plain GP",), (1.0,), np.ones((1, 1)), {"stack": np.zeros(3)}, np.ones(3) / 2, exponent=2.0, following=0.4
    )
    found = HeldOutReport.averaged([follows, replace(follows, exponent=0.0, following=0.0)][::order])
    assert (found.exponent, found.following) == (2.0, 0.2)


@pytest.mark.parametrize("order", [1, -1])
def test_deals_that_do_not_follow_have_constant_weights_already(order):
    constant = HeldOutReport(("plain GP",), (1.0,), np.ones((1, 1)), {"stack": np.zeros(3)}, np.ones(3) / 2, mean=np.zeros(3))
    follows = constant.mixed_with(np.ones(3), constant.pit, np.zeros(3), 2.0, 0.4)
    found = HeldOutReport.averaged([follows, constant][::order])
    np.testing.assert_array_equal(found.with_constant_weights(), 0.0)
    np.testing.assert_array_equal(constant.with_constant_weights(), 0.0)
    assert (found.log_density["stack"] > 0.0).all()


def test_a_deal_that_is_stopped_on_its_way_is_left_out(dealt):
    X, y, (once, _) = dealt
    seen = []

    def stop_in_the_second_deal(iterations, values):
        seen.append(len(values))
        return len(seen) > stop_after

    stop_after = math.inf
    clone(once).set_params(callback=stop_in_the_second_deal).fit(X, y)
    stop_after = len(seen) + 2
    seen.clear()
    thrice = clone(once).set_params(callback=stop_in_the_second_deal, averaging=replace(once.averaging, deals=3))
    stopped = thrice.fit(X, y)
    assert len(seen) > stop_after
    np.testing.assert_array_equal(stopped.predict(X), once.predict(X))


def test_a_deal_that_ctrl_c_ends_before_its_networks_is_left_out(dealt):
    X, y, (once, _) = dealt

    class Impatient(_Phases):
        """Ctrl-C when networks begin for the second time."""

        def enter(self, phase):
            super().enter(phase)
            if self.entered.count("nested on folds") == 2:
                raise KeyboardInterrupt

    thrice = clone(once).set_params(callback=Impatient([]), averaging=replace(once.averaging, deals=3))
    with pytest.warns(FitWarning, match="nterrupted"):
        stopped = thrice.fit(X, y)
    np.testing.assert_array_equal(stopped.predict(X), once.predict(X))


def test_where_features_do_not_pay_in_two_deals_the_others_have_plain_gps_only():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 1))
    entered, y = [], X[:, 0] + 0.1 * rng.normal(size=30)
    model = ManifoldGPRegressor(averaging=Stack(keep=100.0, own_members=2), callback=_Phases(entered)).fit(X, y)
    assert entered.count("plain GP on folds") == entered.count("rough GP on folds") == Stack().deals_for(30)
    assert entered.count("nested on folds") == entered.count("own on folds") == 2
    assert "own" in model.held_out_[0].groups  # held-out rows were asked about it, twice
    assert np.isfinite(model.held_out_[0].log_density["own"]).all()


def test_optima_of_the_plain_gp_count_by_their_evidence_and_once_each():
    X, y = cliff(3, 12)
    with training_threads() as workers:
        batch = Trainer(torch.Generator().manual_seed(0), workers).fit("plain GP", plain_gp(Model()), standardised(X, y), 5, 2)
    batch.result.value[:] = [-10.0, -11.0, -11.001, np.inf, 40.0]
    weights = final_members._of_optima(batch)
    np.testing.assert_allclose(weights, np.array([1.0, 0.0, np.exp(1.001), 0.0, 0.0]) / (1.0 + np.exp(1.001)), atol=1e-9)
    batch.result.value[:] = np.inf
    assert not final_members._of_optima(batch).any()


def test_further_plain_gps_of_all_rows_go_on_from_every_fold_in_every_deal():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * X[:, 2] + 0.05 * rng.normal(size=100)
    sizes = {"gp_starts": 2, "warm_members": 1, "cold_members": 1, "own_members": 1, "fold_members": 1, "steps": (3, 6)}
    model = ManifoldGPRegressor(features=(2,), averaging=Stack(deals=2, warm_iterations=3, **sizes)).fit(X, y)
    additive = model.starts_[model.starts_["group"] == "additive GP"]
    assert len(additive) == 2 * 3
    assert (additive["weight"] > 0).sum() > 1


class _Phases(PhaseWatcher):
    """Notes the phases that a training enters."""

    def __init__(self, entered):
        self.entered = entered

    def begin(self, output, plan):
        pass

    def enter(self, phase):
        self.entered.append(phase)

    def __call__(self, iterations, values):
        return False


def test_groups_that_add_little_go_no_further(monkeypatch):
    monkeypatch.setattr(on_folds, "PATIENT_BELOW", 0)
    monkeypatch.setattr(Candidates, "better_than_gp", lambda candidates, name: False)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1))
    average, phases = averaged(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=40), keep=100.0)
    assert [batch.group for batch in average.trained] == ["plain GP"]
    assert average.report.weights[1:].sum() == 0.0
    assert not any("cold on" in phase for phase in phases)  # not missed, and no better than the plain GP


@pytest.mark.parametrize("wanted", [False, True])
def test_other_kernels_are_tried_on_few_rows_before_they_are_trained_on_many(monkeypatch, wanted):
    monkeypatch.setattr("manifoldgp.averaging.fold_members.SCREEN_FROM", 20)
    monkeypatch.setattr(on_folds, "SCREEN_ROWS", 15)
    monkeypatch.setattr(FoldContest, "missed", lambda contest, among, optional: list(optional) if wanted else [])
    X, y = cliff(4, 40)
    sizes = {"gp_starts": 1, "warm_members": 2, "cold_members": 2, "own_members": 2, "fold_members": 1, "deals": 1}
    entered = []
    ManifoldGPRegressor(features=(3, 1), averaging=Stack(**sizes), callback=_Phases(entered)).fit(X, y)
    for name in ("rough GP", "additive GP"):
        assert f"{name} on few rows" in entered
        assert (f"{name} on folds" in entered) == wanted


@pytest.mark.parametrize("pay", [False, True])
def test_rough_members_begin_where_learned_features_or_the_rough_gp_are_worth_something(monkeypatch, pay):
    monkeypatch.setattr("manifoldgp.averaging.fold_members.SCREEN_FROM", 20)
    monkeypatch.setattr(on_folds, "SCREEN_ROWS", 15)
    monkeypatch.setattr(FoldContest, "missed", lambda *_: ["warm"] if pay else [])  # the rough GP loses its screen
    X, y = cliff(4, 40)
    sizes = {"gp_starts": 1, "warm_members": 2, "cold_members": 2, "own_members": 2, "fold_members": 1, "deals": 1}
    entered = []
    ManifoldGPRegressor(features=(3, 1), averaging=Stack(**sizes), callback=_Phases(entered)).fit(X, y)
    assert "nested on folds" in entered
    assert ("rough on folds" in entered) == pay


def test_groups_that_gain_much_are_trained_for_longer_and_go_on_with_all_rows():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-1, 1, size=(60, 1)), axis=0)
    y = (X[:, 0] > 0) + 0.01 * rng.normal(size=60)
    average, phases = averaged(X, y, steps=(5, 20, 60), go_on=0.0, polish=3)
    assert "own on folds, to 20" in phases
    assert "own on folds, to 60" in phases
    own = next(batch for batch in average.trained if batch.group == "own")
    of_folds, afresh = own.result.iterations[:4], own.result.iterations[4:]  # two folds with two members each
    assert of_folds.max() <= 15 < afresh.max()  # a quarter of 60 for those that go on
    assert of_folds.max() > 0
    _, phases = averaged(X, y, steps=(5, 20, 60), go_on=np.inf)
    assert "own on folds, to 20" in phases
    assert "own on folds, to 60" not in phases


def test_features_with_constants_of_the_rows_start_afresh_on_all_rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 3))
    y = (X[:, 0] > 0) + 0.01 * rng.normal(size=60)
    average, phases = averaged(X, y, PCA(2) >> MLP((4, 2)), steps=(5, 20), keep=-1.0, polish=3)
    assert "own on folds, to 20" in phases
    own = next(batch for batch in average.trained if batch.group == "own")
    assert own.result.iterations.min() > 5  # a member that went on would have the 5 of a polish


def test_members_that_could_not_be_trained_have_no_weight(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-1, 1, size=(40, 1)), axis=0)
    trained = final_members._own

    def nobody(*arguments):
        batch = trained(*arguments)
        batch.result.value[:] = np.inf
        return batch

    monkeypatch.setattr(final_members, "_own", nobody)
    average, _ = averaged(X, (X[:, 0] > 0) + 0.01 * rng.normal(size=40), steps=(5, 20), keep=-1.0)
    failed = [~np.isfinite(batch.objective) for batch in average.trained]
    assert any(each.any() for each in failed)
    assert all(weights[:, each].sum() == 0.0 for weights, each in zip(average.weights, failed, strict=True))
    own = [weights.sum() for batch, weights in zip(average.trained, average.weights, strict=True) if batch.group == "own"]
    assert sum(own) > 0.0  # those of the folds stand in for them


def test_a_plain_gp_that_cannot_go_on_from_its_first_fold_starts_elsewhere():
    data = standardised(*cliff(4, 20))
    with training_threads() as workers:
        trainer = Trainer(torch.Generator().manual_seed(0), workers)
        batch = trainer.fit("plain GP", plain_gp(Model()), data, 3, 5)
        batch.result.theta[0] = np.nan
        group = Group(batch, np.arange(3), np.ones((3, 1)), 5, data)
        found = final_members._plain(data, group, 4, trainer)
    assert len(found.objective) == 2 + 4
    assert np.isfinite(found.objective).all()


def test_where_no_plain_gp_of_all_rows_can_be_trained_those_of_the_folds_predict(monkeypatch):
    monkeypatch.setattr(stack, "SCREEN_FROM", 20)
    trained = final_members._plain

    def nobody(*arguments):
        batch = trained(*arguments)
        batch.result.value[:] = np.inf
        return batch

    monkeypatch.setattr(final_members, "_plain", nobody)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1))
    average, _ = averaged(X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40))
    assert sum(weights.sum() for weights in average.weights) == pytest.approx(1.0)
    for batch, weights in zip(average.trained, average.weights, strict=True):
        assert np.isfinite(batch.objective[weights.sum(0) > 0]).all()


@pytest.mark.parametrize(
    "kernel", [SquaredExponential(ard=False), SquaredExponential(ard=False, amplitude=False), SquaredExponential(scaled=False)]
)
def test_rough_members_have_the_parameters_of_the_kernel_they_stand_beside(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    model = ManifoldGPRegressor((2,), kernel, averaging=Stack(own_members=1, deals=1)).fit(X, np.sin(2 * X[:, 0]))
    assert {"rough GP", "rough"} <= set(model.held_out_[0].groups)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("factors", [(4.0, 1.0), (0.25,), (2.0, 4.0)])
def test_variance_factors_begin_with_the_member_as_it_is(factors):
    with pytest.raises(InputError, match="begin with 1"):
        Stack(variance_factors=factors).check()


@pytest.mark.parametrize(
    ("groups", "ordered", "largest"), [(np.repeat(np.arange(5), [1200, 75, 75, 75, 75]), False, 300), (None, True, 300)]
)
def test_one_held_out_fold_is_of_the_usual_size_and_the_last_in_time(groups, ordered, largest):
    folds = held_out_in_turn(np.zeros((1500, 1)), np.random.default_rng(0), groups, ordered)
    assert len(folds) == 1
    assert len(folds[0]) <= largest
    if ordered:
        np.testing.assert_array_equal(folds[0], np.arange(1200, 1500))


@pytest.mark.parametrize("steps", [(), (80, 25), (0, 10)])
def test_steps_that_do_not_grow_are_refused(steps):
    with pytest.raises(InputError, match="steps must be iteration counts that grow"):
        Stack(steps=steps).check()


def test_a_step_that_makes_held_out_rows_less_likely_is_taken_back(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-1, 1, size=(40, 1)), axis=0)
    y = (X[:, 0] > 0) + 0.01 * rng.normal(size=40)
    honest = FoldContest.predict

    def worse_after_the_first_step(contest, group, folds):
        found = honest(contest, group, folds)
        worse = replace(found.each, log_density=found.each.log_density - 10.0 * (group.iterations == 20))
        return Predicted.of(worse, found.inner, found.architectures, found.by_row)

    monkeypatch.setattr(FoldContest, "predict", worse_after_the_first_step)
    average, phases = averaged(X, y, steps=(5, 20, 60))
    assert "own on folds, to 20" in phases
    own = next(batch for batch in average.trained if batch.group == "own")
    assert own.result.iterations.max() <= 5


def test_the_plain_gp_of_a_stack_is_that_of_the_plain_regressor():
    X, y = cliff(4, 40)
    plain = GPRegressor().fit(X, y).starts_
    stacked = ManifoldGPRegressor(features=(2, 1), averaging=Stack(gp_starts=5, own_members=1, deals=1)).fit(X, y).starts_
    np.testing.assert_array_equal(stacked["nlml"][stacked["group"] == "plain GP"], plain["nlml"])


def test_full_bayes_reports_its_chains():
    pytest.importorskip("nutpie", reason="needs the extra [bayes]")
    X, y = cliff(11, 15)
    with pytest.warns(FitWarning, match="The NUTS chains mix badly"):  # far too few draws, on purpose
        model = ManifoldGPRegressor(features=(2, 1), averaging=few_starts("nuts")).fit(X[:, :1], y)
    assert len(model.starts_) == 8
    np.testing.assert_allclose(model.starts_["weight"], 1 / 8)
    report = model.sampling_[0]
    assert report.draws.posterior["theta"].shape[:2] == (2, 16)
    assert report.worst_rhat > 0
    assert "worst R-hat" in model.diagnose().numbers
    assert "The NUTS chains mix badly" in str(model.diagnose())


def test_the_sampler_finds_a_known_posterior():
    pytest.importorskip("nutpie", reason="needs the extra [bayes]")
    # Noise known, mean zero, kernel constant: the only parameter is log variance, and its posterior can be integrated on a grid.
    rng = np.random.default_rng(0)
    y = 0.7 + 0.1 * rng.normal(size=8)
    data = Data(torch.zeros(8, 1, dtype=torch.float64), torch.from_numpy(y), torch.full((8,), 0.01, dtype=torch.float64))
    model = Model(kernel=Constant(), noise=GaussianNoise(learned=False), priors={"kernel.variance": LogNormal(0.0, 1.0)})
    settings = NUTS(restarts=2, max_iter=50, chains=2, tune=200, draws=400, thin=1, depth=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        average = settings.fit(model, data, Trainer(torch.Generator().manual_seed(0), Workers(1)), FoldChoice())
    grid = np.linspace(-6, 6, 4001)
    values = {"kernel": {"variance": torch.from_numpy(np.exp(grid))}}
    log_density = -model.nlml(values, data).numpy() - 0.5 * grid**2
    density = np.exp(log_density - log_density.max())
    density /= np.trapezoid(density, grid)
    mean = np.trapezoid(grid * density, grid)
    sd = np.sqrt(np.trapezoid((grid - mean) ** 2 * density, grid))
    draws = average.trained[0].result.theta[:, 0]
    assert draws.mean() == pytest.approx(mean, abs=0.25 * sd)
    assert draws.std() == pytest.approx(sd, rel=0.25)


@pytest.mark.parametrize("model", rank_statistics.MODELS)
def test_ranks_of_true_values_among_draws(model):
    """`make calibrate` collects many of these; here, that one data set gives a rank of everything."""
    pytest.importorskip("nutpie", reason="needs the extra [bayes]")
    few = NUTS(restarts=1, max_iter=5, chains=2, tune=20, draws=10, thin=1, depth=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        ranks = rank_statistics.ranks_of(rank_statistics.MODELS[model], 0, 0, few)
    assert {"NLML", "kernel.variance", "noise.scale"} < set(ranks)
    assert all(0 < rank < 1 for rank in ranks.values())
    assert rank_statistics.table({model: [ranks, ranks]}).count("| 2 |") == len(ranks)


def test_a_stack_of_other_sizes_is_fitted_and_kept_in_files(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 1))
    y = np.sin(3 * X[:, 0])
    settings = Stack(
        deals=1, gp_starts=1, warm_members=2, cold_members=2, own_members=2, fold_members=1, hidden=3, q=1, keep=-1.0
    )
    model = ManifoldGPRegressor(averaging=settings).fit(X, y)
    nested = next(block for block in model.ensembles_[0].blocks if isinstance(block.model.features, Nested))
    assert nested.model.features.hidden == 3
    model.save(tmp_path / "m.mgp")
    again = load(tmp_path / "m.mgp")
    assert again.averaging == settings
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(InputError, match="or give an object such as Stack"):
        ManifoldGPRegressor(averaging="average").fit(X, y)


def test_neighbourhoods_hold_all_rows_once_and_are_near_in_the_inputs_that_count():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    data = Data(torch.tensor(X), torch.tensor(np.arange(1200.0)))
    folds = make_batch(data, [np.arange(0, 1200, 4)])
    scale = np.array([[1.0, 50.0, 50.0]])
    near, parts = folds.neighbourhoods(2, 100, 4000, scale, np.random.default_rng(1))
    assert parts == 9
    assert near.X.shape == (18, 100, 3)
    kept = np.setdiff1d(np.arange(1200), np.arange(0, 1200, 4))
    for member in near.y.reshape(2, -1).numpy():
        np.testing.assert_array_equal(np.sort(member), kept)
    spread = near.X.numpy().std(1).mean(0)
    assert spread[0] < 0.2
    assert (spread[1:] > 0.8).all()
    assert not torch.equal(near.y[:9], near.y[9:])  # every member has borders of its own
    few, parts = folds.neighbourhoods(2, 100, 450, scale, np.random.default_rng(1))
    assert parts == 4  # 450 rows at most
    assert len(np.unique(few.y[:4].numpy())) == 400  # no row twice
    assert not np.array_equal(np.unique(few.y[:4].numpy()), np.unique(few.y[4:].numpy()))  # every member has other rows


@pytest.mark.parametrize("autograd", [False, True])
def test_the_objective_of_several_parts_is_their_sum_with_the_prior_once(autograd):
    model = nested_gp(Model(), 3, 1)
    rng = np.random.default_rng(0)
    X, y = torch.tensor(rng.normal(size=(4, 30, 2))), torch.tensor(rng.normal(size=(4, 30)))
    data = Data(X, y, batched=True)
    layout, drawn = model.draw(data, torch.Generator().manual_seed(0), 2)
    theta = layout.flatten(drawn).numpy()
    together = TrainingObjective(model, layout, {}, data, parts=2)
    one = TrainingObjective(model, layout, {}, data)
    if autograd:
        together._closed_form = one._closed_form = None
    value, gradient = together(theta, np.arange(2))
    each, slope = one(theta.repeat(2, 0), np.arange(4))
    point = torch.tensor(theta, requires_grad=True)
    prior = layout.negative_log_prior(point)
    (of_prior,) = torch.autograd.grad(prior.sum(), point)
    np.testing.assert_allclose(value, each.reshape(2, 2).sum(1) - prior.detach().numpy(), rtol=1e-10)
    np.testing.assert_allclose(gradient, slope.reshape(2, 2, -1).sum(1) - of_prior.numpy(), rtol=1e-8, atol=1e-8)


def test_many_rows_are_all_learnt_from_in_neighbourhoods():
    X, y = cliff(0, 700)
    settings = Stack(learn_rows=60, steps=(4, 8), warm_iterations=4, gp_iterations=10, gp_starts=1, fold_members=1)
    found = []

    class Watched(Trainer):
        def fit(self, *args, **kwargs):
            found.append(super().fit(*args, **kwargs))
            return found[-1]

    with training_threads() as workers:
        trainer = Watched(torch.Generator().manual_seed(0), workers)
        settings.fit(Model(), Data(torch.tensor(X), torch.tensor(y)), trainer, FoldChoice())
    assert max(trained.rows.max() for trained in found) > 8 * 60  # all 560 rows of a fold, in parts


def test_steps_on_many_rows_end_with_more_rows_at_once():
    X, y = cliff(0, 700)
    settings = Stack(learn_rows=150, steps=(4, 30), warm_iterations=4, gp_iterations=10, gp_starts=1, fold_members=1)
    told = []

    class Watched(Trainer):
        def fit(self, phase, model, data, count, max_iter, *args, **more):
            told.append((phase, data.y.shape[-1], more.get("parts", 1), max_iter))
            return super().fit(phase, model, data, count, max_iter, *args, **more)

    with training_threads() as workers:
        trainer = Watched(torch.Generator().manual_seed(0), workers)
        settings.fit(Model(), Data(torch.tensor(X), torch.tensor(y)), trainer, FoldChoice())
    steps = [(first, second) for first, second in pairwise(told) if second[0] == f"{first[0]}, more rows at once"]
    assert steps
    for (_, few, many_parts, begun), (_, rows, parts, ended) in steps:
        assert first_rows(560, 150) <= few < 150 <= rows
        assert many_parts > parts
        assert (begun, ended) in ((14, 12), (18, 12))  # of a step, and of those who only saw a sample
    planned = {phase.name for phase in settings.plan(700).phases}
    assert {phase for phase, *_ in told} <= planned


def test_small_and_large_networks_contend_where_rows_are_many():
    X, y = cliff(0, 700)
    settings = Stack(learn_rows=60, steps=(4, 8), warm_iterations=4, gp_iterations=10, gp_starts=1, fold_members=1)
    with training_threads() as workers:
        trainer = Trainer(torch.Generator().manual_seed(0), workers)
        found = settings.fit(Model(), Data(torch.tensor(X), torch.tensor(y)), trainer, FoldChoice())
    trained = {batch.group: batch for batch in found.trained}
    width = {name: batch.model.features.hidden for name, batch in trained.items() if isinstance(batch.model.features, Nested)}
    assert width["large"] == 4 * width["cold"]
    assert width["rough"] in (width["cold"], width["large"])


def test_a_group_hands_on_the_curvature_of_its_own_members():
    X, y = cliff(0, 40)
    data = Data(torch.tensor(X), torch.tensor(y))
    with training_threads() as workers:
        trainer = Trainer(torch.Generator().manual_seed(0), workers)
        batch = trainer.fit("nested", nested_gp(Model(), 3, 1), data, 4, 6, remembers=True)
    known, chosen = batch.result.curvature, np.array([3, 1])
    handed_on = Group(batch, chosen, np.full((1, 2), 0.5), 6, data).curvature(2 * 40)
    np.testing.assert_array_equal(handed_on.steps, known.steps[chosen])
    np.testing.assert_allclose(handed_on.changes, 2.0 * known.changes[chosen])  # twice the rows are twice the NLML


@pytest.mark.parametrize(("rows", "remember"), [(400, False), (620, True)])
def test_from_some_rows_on_members_of_a_stack_go_on_with_their_curvature(monkeypatch, rows, remember):
    X, y = cliff(0, rows)
    settings = Stack(
        learn_rows=100, steps=(3, 6, 9), warm_iterations=3, gp_iterations=6, gp_starts=1, fold_members=2, keep=-1.0, go_on=-100.0
    )
    ended, seen, drawn, together = {}, [], Training.drawn, Trainer.fit_together

    def checked(training, generator):
        lot = drawn(training, generator)
        seen.append((training.phase, lot.curvature is not None))
        for start, theta in enumerate(lot.theta if lot.curvature is not None else ()):
            steps, changes, of_rows = ended[theta.round(9).tobytes()]
            np.testing.assert_array_equal(lot.curvature.steps[start], steps)
            np.testing.assert_allclose(lot.curvature.changes[start], changes * lot.parts * lot.rows / of_rows)
        return lot

    def noted(trainer, trainings):
        found = together(trainer, trainings)
        for batch in found:
            known = batch.result.curvature
            for start, theta in enumerate(batch.result.theta if known is not None else ()):
                ended[theta.round(9).tobytes()] = known.steps[start], known.changes[start], batch.rows[start]
        return found

    monkeypatch.setattr(Training, "drawn", checked)
    monkeypatch.setattr(Trainer, "fit_together", noted)
    with training_threads() as workers:
        trainer = Trainer(torch.Generator().manual_seed(0), workers)
        settings.fit(Model(), Data(torch.tensor(X), torch.tensor(y)), trainer, FoldChoice())
    later = [known for phase, known in seen if " to 6" in phase or " to 9" in phase]
    assert later
    assert all(known == remember for known in later)


def test_narrow_copies_are_in_the_choice_from_a_hundred_rows_on():
    X, y = cliff(0, 120)
    factors = [
        ManifoldGPRegressor(averaging=few_starts("stack", 1, 4)).fit(X[:n], y[:n]).held_out_[0].variance_factors
        for n in (90, 120)
    ]
    assert factors == [(1.0, 4.0, 16.0), (1.0, 4.0, 16.0, 0.25)]


def followed_course(data, held, following):
    """A small stack of one fold and the members of that fold as an ensemble. following: the share in which weights follow how sure members are."""
    template, settings = Model(MLP((4, 2))), Stack(warm_members=1, cold_members=1, own_members=1, fold_members=2)
    with training_threads() as workers:
        earlier = Earlier(1, (), exponent=1.0, following=following)
        trainer = Trainer(torch.Generator().manual_seed(0), workers, earlier=earlier)
        gp = trainer.fit("plain GP", plain_gp(template), data, 1, 5)
        course = on_folds.OnFolds(template, make_batch(data, [held]), settings, trainer, np.random.default_rng(0))
        weights, usual, report = course.weigh(gp.values(np.array([0])))
    shares = [final_members.Share(own, at) for own, at in zip(weights, usual, strict=True)]
    found = final_members.conditioned(course.groups, dict(zip(course.groups, shares, strict=True)))
    kept = np.setdiff1d(np.arange(len(data.y)), held)
    seen = Data(data.X[kept], data.y[kept])
    blocks = [batch.conditioned(np.arange(len(batch.objective)), seen, None) for batch in found.batches]
    with np.errstate(divide="ignore"):
        logs = [torch.from_numpy(np.log(own)) for own in found.weights]
    certainty = Certainty(1.0, following, [torch.from_numpy(each) for each in found.usual])
    return Ensemble(blocks, logs, settings.variance_factors, certainty=certainty), report, found


def test_members_of_the_folds_predict_what_was_reported_of_held_out_rows():
    """Weights that follow how sure members are: the ensemble's at rows that a fold held out are those that were found there."""
    data, held = standardised(*cliff(3, 90)), np.arange(0, 90, 3)
    ensemble, report, _ = followed_course(data, held, 0.6)
    assert report.following == 0.6
    density = ensemble.predict(data.X[held]).log_density(data.y[held])
    np.testing.assert_allclose(density, report.log_density["stack"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ensemble.mean(data.X[held]), report.mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ensemble.predict(data.X[held]).cdf(data.y[held]), report.pit, rtol=1e-6, atol=1e-6)


def test_a_whole_stack_counts_one_at_a_usual_row():
    """So that the stacks of several deals count the same there: usual variances of one stack say nothing beside those of another by themselves."""
    data, held = standardised(*cliff(3, 90)), np.arange(0, 90, 3)
    ensemble, _, _ = followed_course(data, held, 0.6)
    found = [block.mean_and_variance(data.X[held])[1] for block in ensemble.blocks]
    observed = ensemble.observed(found)
    counts = [
        (log[:, :, None] + (usual[:, None] - variance.log())).flatten(0, 1)
        for log, usual, variance in zip(ensemble.log_weights, ensemble.certainty.usual, observed, strict=True)
    ]
    assert float(torch.cat(counts).logsumexp(0).mean()) == pytest.approx(0.0, abs=1e-6)


def test_stacks_that_share_a_batch_count_in_it_as_they_did():
    """u^β of a member that two stacks have is the mean of theirs, by their weights."""
    data = standardised(*cliff(3, 40))
    with training_threads() as workers:
        trainer = Trainer(torch.Generator().manual_seed(0), workers)
        gp = trainer.fit("plain GP", plain_gp(Model()), data, 2, 5)
    one = final_members.Weighted([gp], [np.array([[0.5, 0.5]])], [np.array([2.7, 0.0])])
    other = final_members.Weighted([gp], [np.array([[0.5, 0.5]])], [np.array([-4.5, 0.0])])
    both = final_members.mixed([one, other], 2.0)
    np.testing.assert_allclose(both.usual[0], [0.5 * np.log(0.5 * np.exp(5.4) + 0.5 * np.exp(-9.0)), 0.0], atol=1e-12)


def test_a_member_that_says_it_is_guessing_does_not_decide():
    """A smooth half and a flat one: who is surer of a row counts more, which held-out rows are likelier by."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(-1, 0, 100), rng.uniform(0, 1, 100)])[:, None]
    y = np.where(X[:, 0] < 0, np.sin(40 * X[:, 0]), 0.001 * rng.normal(size=200))
    follows, same = (
        ManifoldGPRegressor(averaging=Stack(deals=1, own_members=2, certainty=certainty)).fit(X, y) for certainty in (1.0, 0.0)
    )
    ours, theirs = follows.held_out_[0], same.held_out_[0]
    assert 0.0 < ours.following <= 0.9
    assert ours.log_density["stack"].mean() > theirs.log_density["stack"].mean()
    assert theirs.following == 0.0
    assert same.ensembles_[0].certainty is None
    assert follows.diagnose().numbers["share in which members count by how sure they are"] == ours.following
    assert "count more where they are surer" in str(follows.diagnose())


@pytest.mark.parametrize("certainty", [True, "1", math.nan, -1.0, 9.0, 1e-300, None, [1.0]])
def test_a_power_of_variances_is_a_number(certainty):
    with pytest.raises(InputError, match="certainty must be a power"):
        ManifoldGPRegressor(averaging=Stack(certainty=certainty)).fit(*cliff(0, 20))


def test_a_power_of_variances_may_be_any_kind_of_number(tmp_path):
    X, y = cliff(0, 60)
    model = ManifoldGPRegressor((4, 2), averaging=replace(few_starts("stack", 3, 60), certainty=np.float32(1.0))).fit(X, y)
    model.save(tmp_path / "model.mgp")
    assert np.array_equal(load(tmp_path / "model.mgp").predict(X), model.predict(X))
