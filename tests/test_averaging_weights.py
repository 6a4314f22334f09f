"""Stacking weights, tempered weights, folds, and the words about them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import ndtr

import manifoldgp
from manifoldgp import GPRegressor, ManifoldGPRegressor
from manifoldgp.averaging import Stack
from manifoldgp.averaging.folds import make_folds
from manifoldgp.averaging.stacking import (
    Candidates,
    Follow,
    HeldOutReport,
    Weighing,
    doubt,
    log_mixture,
    stacking_weights,
    tempered_weights,
    weights_at,
)
from manifoldgp.averaging.sure_members import Followed
from manifoldgp.averaging.verdict import (
    _weights_in_words,
    errors_in_words,
    held_out_numbers,
    held_out_remarks,
)
from manifoldgp.chance import interval_checks
from manifoldgp.chance.differences import paired
from manifoldgp.chance.interval_checks import IntervalCheck, Uneven, coverage, off_level, uneven_intervals
from manifoldgp.errors import InputError
from manifoldgp.training.trained import Earlier


def test_stacking_maximises_the_penalised_log_score():
    rng = np.random.default_rng(0)
    log_density = rng.normal(size=(3, 40))
    counts = np.array([2.0, 0.5, 1.0])

    def loss(free):
        w = np.exp(free) / np.exp(free).sum()
        return -(log_mixture(log_density, w).sum() + counts @ np.log(w))

    best = minimize(loss, np.zeros(3), tol=1e-12).x
    np.testing.assert_allclose(stacking_weights(log_density, counts), np.exp(best) / np.exp(best).sum(), atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_weights_that_are_found_early_miss_no_more_than_they_say(seed):
    log_density = 2.0 * np.random.default_rng(seed).normal(size=(12, 300))
    prior = np.full(12, 0.5)

    def value(weights):
        return (log_mixture(log_density, weights).sum() + prior @ np.log(weights)) / 300

    best = value(stacking_weights(log_density, prior, iterations=20_000))
    for short in (1e-2, 1e-3, 1e-4):
        assert best - value(stacking_weights(log_density, prior, short=short)) <= short * (1 + prior.sum() / 300)


def test_a_weight_that_has_become_zero_does_not_keep_others_from_being_found():
    table = 0.3 * np.random.default_rng(0).normal(size=(3, 200)) - np.array([0.0, 0.0, 60.0])[:, None]
    with np.errstate(all="raise", under="ignore"):
        early, best = (stacking_weights(table, short=short) for short in (1e-4, 0.0))
    assert early[2] < 1e-12
    assert log_mixture(table, best).mean() - log_mixture(table, early).mean() < 1e-4


def test_a_candidate_that_rules_out_what_happened_gets_no_weight():
    log_density = np.array([[-1.0, -1.0, -1.0], [0.0, 0.0, -1e6]])
    weights = stacking_weights(log_density)
    assert weights[1] < 0.75
    assert np.isfinite(log_mixture(log_density, weights)).all()
    only = stacking_weights(np.array([[-1.0] * 50, [-1e6] * 50]))
    assert only[1] < 1e-6


def test_weights_sum_to_one_and_the_prior_pulls():
    log_density = np.zeros((2, 10))
    assert stacking_weights(log_density, np.array([10.0, 0.0]))[0] > 0.6
    assert stacking_weights(log_density).sum() == pytest.approx(1.0)


def test_doubt_is_the_two_sided_p_value_of_no_gain():
    rng = np.random.default_rng(0)
    gain = rng.normal(size=400)
    gain = (gain - gain.mean()) / gain.std()
    assert doubt(gain + 1.96 / 20) == pytest.approx(0.05, abs=1e-3)
    assert doubt(gain - 1.0) == 1.0
    assert doubt(gain + 1.0) < 1e-12
    assert doubt(np.full(5, 0.3)) == 0.0
    assert doubt(np.full(5, -0.3)) == 1.0


def test_tempered_weights_ignore_failed_starts():
    weights = tempered_weights(np.array([5.0, np.inf, 15.0, np.nan]), 10.0)
    np.testing.assert_allclose(weights, np.array([1.0, 0.0, np.exp(-1.0), 0.0]) / (1 + np.exp(-1.0)))


@given(st.integers(2, 60), st.integers(2, 7), st.booleans())
def test_every_row_is_held_out_exactly_once(N, count, ordered):
    folds = make_folds(N, count, np.random.default_rng(0), ordered=ordered)
    assert sorted(np.concatenate(folds)) == list(range(N))
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    if ordered:
        assert all((np.diff(fold) == 1).all() for fold in folds)


@given(st.lists(st.integers(0, 6), min_size=4, max_size=60).filter(lambda labels: len(set(labels)) > 1))
def test_groups_stay_together(labels):
    labels = np.array(labels)
    folds = make_folds(len(labels), 3, np.random.default_rng(0), groups=labels)
    assert sorted(np.concatenate(folds)) == list(range(len(labels)))
    for label in set(labels.tolist()):
        assert sum(label in labels[fold] for fold in folds) == 1


def test_one_group_cannot_be_held_out():
    with pytest.raises(InputError, match="one label only"):
        make_folds(5, 3, np.random.default_rng(0), groups=np.zeros(5))


def report_with(weights, densities, pit=None):
    pit = np.linspace(0.001, 0.999, 200) if pit is None else pit
    log_density = {name: np.full(200, -value) for name, value in densities.items()}
    return HeldOutReport(("plain GP", "warm", "cold", "own"), (1.0, 4.0), np.array(weights), log_density, pit)


def test_words_for_features_that_add_little():
    densities = {"plain GP": 1.0, "warm": 1.01, "cold": 1.2, "own": 3.0, "control": 1.0, "stack": 0.99}
    remarks = held_out_remarks(report_with([[0.8, 0.05], [0.1, 0.0], [0.03, 0.0], [0.02, 0.0]], densities))
    assert "The plain GP carries 85 % of the weight: the features add little here." in remarks
    assert any("predicted as well by the plain GP" in remark for remark in remarks)


def report_of_plain_gps(stack):
    densities = {"plain GP": 1.0, "rough GP": 0.95, "warm": 0.97, "control": 0.94, "stack": stack}
    log_density = {name: np.full(200, -value) for name, value in densities.items()}
    weights = np.array([[0.43], [0.35], [0.22]])
    return HeldOutReport(("plain GP", "rough GP", "warm"), (1.0,), weights, log_density, np.linspace(0.001, 0.999, 200))


def test_words_for_several_plain_gps_agree_with_what_the_features_add():
    first, second = held_out_remarks(report_of_plain_gps(stack=0.8))[:2]
    assert second.startswith(
        "Held-out rows are predicted 0.15 nats a row better than by the best plain GP (rough GP): 0.01 of that"
    )
    assert first == "Plain GPs carry 78 % of the weight (most of it: plain GP, 43 %), learned features the rest."
    assert "0.14 from the features" in second
    first, second = held_out_remarks(report_of_plain_gps(stack=0.925))[:2]
    assert first == "Plain GPs carry 78 % of the weight (most of it: plain GP, 43 %): the features add little here."
    assert second.endswith("less than 0.02 from the features.")


def test_what_weights_that_follow_certainty_gain_is_not_told_of_the_features():
    """Of two plain GPs, all that was left in an average, 0.19 nats were said to come from the features, which carried the rest of 100 %."""
    several = replace(report_of_plain_gps(stack=0.9), mean=np.zeros(200), observed=np.zeros(200))
    follows = several.mixed_with(np.full(200, -0.5), several.pit, np.zeros(200), 2.0, 0.5)
    stack = -float(follows.log_density["stack"].mean())
    first, second = held_out_remarks(follows)[:2]
    assert first == "Plain GPs carry 78 % of the weight (most of it: plain GP, 43 %), learned features the rest."
    assert second.endswith(f", 0.04 from the features, {0.9 - stack:.2f} from weights that follow how sure members are.")
    without = replace(follows, weights=np.array([[0.07], [0.93], [0.0]]))
    first, second, third = held_out_remarks(without)[:3]
    assert first == "Plain GPs carry all of the weight (most of it: rough GP, 93 %): learned features have none."
    assert "0.05 of that comes from wider copies of plain GPs (calibration) or mixtures of plain GPs, 0." in second
    assert second.endswith(f" plain GPs, {0.95 - stack - 0.05:.2f} from weights that follow how sure members are.")
    assert "features" not in second
    assert third.startswith("In 50 % of the prediction members count more where they are surer")


def test_the_plain_gp_has_the_weight_of_no_other_plain_gp():
    """It had 40 % and the rough one 28 %, and "the plain GP 68 %" was said."""
    several = _weights_in_words({"plain GP": 0.4, "rough GP": 0.28, "cold": 0.32}, 0.1)
    assert several == "Learned features carry 32 % of the weight (most of it: cold, 32 %), plain GPs (most of it: plain GP) 68 %."
    alone = _weights_in_words({"plain GP": 0.0, "rough GP": 0.2, "cold": 0.8}, 0.1)
    assert alone == "Learned features carry 80 % of the weight (most of it: cold, 80 %), the rough GP 20 %."


def test_words_keep_calibration_and_features_apart():
    densities = {"plain GP": 1.0, "warm": 0.8, "cold": 0.5, "own": 0.9, "control": 0.9, "stack": 0.4}
    report = report_with([[0.1, 0.0], [0.2, 0.0], [0.6, 0.1], [0.0, 0.0]], densities)
    text = " ".join(held_out_remarks(report))
    assert "Learned features carry 90 % of the weight (most of it: cold, 70 %)" in text
    assert "0.10 of that comes from wider copies" in text
    assert "0.50 from the features" in text
    numbers = held_out_numbers(report, scale=np.e)
    assert numbers["held-out negative log density, stack"] == pytest.approx(1.4)
    assert numbers["weight of widened copies"] == pytest.approx(0.1)


def test_words_for_intervals_that_are_too_narrow():
    densities = {"plain GP": 1.0, "warm": 1.1, "cold": 1.1, "own": 1.1, "control": 1.0, "stack": 1.0}
    pit = np.r_[np.full(40, 0.001), np.full(160, 0.5)]
    remarks = held_out_remarks(report_with([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], densities, pit))
    assert any("The 95 % intervals hold 80.0 % of 200 held-out rows: they are too narrow." in remark for remark in remarks)
    assert any("a single mGP would overfit here" in remark for remark in remarks)
    assert coverage(pit)[0.95] == 0.8


def test_noise_that_grows_with_the_target_is_told():
    rng = np.random.default_rng(0)
    mean = rng.uniform(0.0, 1.0, 400)
    even, growing = rng.normal(size=400), rng.normal(size=400) * (0.3 + 1.4 * mean)  # one noise level is assumed of both
    assert uneven_intervals(ndtr(even), mean) is None
    found = uneven_intervals(ndtr(growing), mean)
    assert found.level == 0.95
    assert found.low > 0.98
    assert found.high < 0.9
    assert found.grows
    assert uneven_intervals(ndtr(growing), -mean) == Uneven(0.95, found.high, found.low)
    assert uneven_intervals(ndtr(growing[:50]), mean[:50]) is None  # too few rows to look at thirds of them
    densities = {"plain GP": 1.0, "warm": 0.9, "cold": 0.9, "own": 0.9, "control": 1.0, "stack": 0.9}
    report = report_with([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], densities, ndtr(growing))
    assert any("errors grow with the target" in remark for remark in held_out_remarks(replace(report, mean=mean)))


def test_two_groups_tell_nothing_of_thirds_of_the_predictions():
    """With three standard errors a quarter of all calibrated models of two patients would have been told of."""
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(200):
        shared = np.repeat(rng.normal(size=2), 60)
        pit = ndtr(np.sqrt(0.5) * shared + np.sqrt(0.5) * rng.normal(size=120))
        mean = np.repeat(rng.normal(size=2), 60) + 0.5 * rng.normal(size=120)
        told += uneven_intervals(pit, mean, np.repeat([0, 1], 60)) is not None
    assert told <= 2


def test_advice_against_uneven_errors_is_for_models_that_can_take_it():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(150, 1))
    y = 1.0 + X[:, 0] + (0.02 + 0.5 * X[:, 0]) * rng.normal(size=150)
    fitted = [
        ManifoldGPRegressor(averaging=Stack(deals=1), target_warping=warping, time_budget=20).fit(X, y)
        for warping in (None, "tanh")
    ]
    told = [" ".join(model.diagnose().remarks) for model in fitted]
    assert "errors grow with the target" in told[0]
    assert ["target_warping='tanh' learns" in words for words in told] == [True, False]


def test_uneven_intervals_are_found_once_for_the_remark_and_the_advice(monkeypatch):
    rng = np.random.default_rng(0)
    X, mean = rng.normal(size=(30, 1)), rng.uniform(0.0, 1.0, 400)
    densities = {"plain GP": 1.0, "warm": 0.9, "cold": 0.9, "own": 0.9, "control": 1.0, "stack": 0.9}
    pit = ndtr(rng.normal(size=400) * (0.3 + 1.4 * mean))
    model = GPRegressor(restarts=1, max_iter=5).fit(X, X[:, 0])
    model.held_out_[0] = replace(
        report_with([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], densities, pit), mean=mean, observed=mean
    )
    compared = []
    monkeypatch.setattr(interval_checks, "paired", lambda *given: compared.append(given) or paired(*given))
    told = " ".join(model.diagnose().remarks)
    assert "errors grow with the target" in told
    assert "target_warping='tanh' learns" in told
    assert len(compared) == 1


def test_noise_that_grows_is_seen_in_the_middle_where_wide_tails_hide_it():
    """A stack with widened copies held nearly all rows by its 95 % intervals, and 91 and 37 % by those of 50 %."""
    rng = np.random.default_rng(1)
    mean = rng.uniform(0.0, 1.0, 130)
    pit = ndtr(rng.normal(size=130) * (0.2 + 0.8 * mean))
    found = uneven_intervals(pit, mean)
    assert found.level == 0.5
    assert found.low > found.high + 0.2
    assert "The 50 % intervals hold" in IntervalCheck.of(pit, mean).remarks()[-1]


SPREAD = np.linspace(0.03, 0.97, 18)


def test_words_do_not_call_chance_too_narrow():
    outside = np.full(2, 0.001)
    assert IntervalCheck.of(np.r_[SPREAD, outside]).remarks() == []  # 18 of 20: one calibrated model in four does worse
    assert IntervalCheck.of(np.linspace(0.03, 0.97, 20)).remarks() == []
    assert "too narrow" in IntervalCheck.of(np.tile(np.r_[SPREAD, outside], 20)).remarks()[0]  # 360 of 400
    assert "too wide" in IntervalCheck.of(np.tile(SPREAD, 22)).remarks()[0]


def test_intervals_that_are_too_wide_in_the_middle_only_are_told():
    """Of a simulator without noise the 50 % intervals held 82 % of the rows and those of 95 % as many as they should: "intervals hold" was all that was said."""
    pit = np.r_[np.linspace(0.26, 0.74, 90), np.linspace(0.03, 0.24, 12), np.linspace(0.76, 0.97, 12), np.full(6, 0.001)]
    assert off_level(pit).level == 0.5
    assert IntervalCheck.of(pit).remarks() == ["The 50 % intervals hold 75.0 % of 120 held-out rows: they are too wide."]


def test_rows_of_a_group_that_err_together_count_for_fewer():
    """Of nine firms one was missed as a whole: 161 of 180 rows say less than as many independent ones do."""
    pit, firms = np.tile(SPREAD, 10), np.repeat(np.arange(9), 20)
    pit[:19] = 0.001
    assert IntervalCheck.of(pit, None, firms).off is None
    assert "hold 89.4 % of 180 held-out rows: they are too narrow" in IntervalCheck.of(pit).remarks()[0]
    missed = np.where(np.arange(180) % 6 == 0, 0.001, np.tile(SPREAD, 10))
    assert "too narrow" in IntervalCheck.of(missed, None, firms).remarks()[0]  # every firm is missed as often
    held = np.tile(SPREAD, 20)
    assert IntervalCheck.of(held, None, np.arange(360) // 36).remarks() == []  # ten stretches without a miss are no wonder
    assert "too wide" in IntervalCheck.of(held, None, np.arange(360)).remarks()[0]


def test_groups_of_held_out_rows_are_known_to_the_report_and_its_file(tmp_path):
    rng = np.random.default_rng(0)
    X, firms = rng.normal(size=(60, 1)), np.repeat(list("abcdef"), 10)
    model = ManifoldGPRegressor(time_budget=1.0).fit(X, np.sin(X[:, 0]), groups=firms)
    report = model.held_out_[0]
    assert np.bincount(report.together).tolist() == [10] * 6
    y, labels = report.observed, report.together
    given = {letter: np.sort(np.sin(X[firms == letter, 0])) for letter in "abcdef"}
    scale, offset = model.ensembles_[0].scale, model.ensembles_[0].offset
    for number, letter in enumerate("abcdef"):
        np.testing.assert_allclose(np.sort(offset + scale * y[labels == number]), given[letter])
    model.save(tmp_path / "m.mgp")
    np.testing.assert_array_equal(manifoldgp.load(tmp_path / "m.mgp").held_out_[0].together, labels)


STACKED = [[0.04, 0.01], [0.0, 0.0], [0.75, 0.05], [0.15, 0.0]]


def test_an_average_of_plain_gps_only_is_called_so():
    several = report_of_plain_gps(stack=0.9)
    plain = replace(several, groups=("plain GP", "rough GP"), weights=several.weights[:2])
    assert held_out_remarks(plain) == [
        "Training was stopped before any features could be judged: the average holds plain GPs only."
    ]
    alone = replace(several, groups=("plain GP",), weights=several.weights[:1])
    assert held_out_remarks(alone) == [
        "Training was stopped before any features could be judged: the average holds the plain GP only."
    ]


def test_networks_that_held_out_rows_do_not_miss_were_not_stopped():
    """Of more than 1,500 rows in a fold, groups that a part of the held-out rows does not miss are not in the report: "Training was stopped" was said of a fit that nobody stopped."""
    several = report_of_plain_gps(stack=0.935)
    plain = replace(several, groups=("plain GP", "rough GP"), weights=np.array([[0.6], [0.4]]), left_out=("own", "large"))
    text = " ".join(held_out_remarks(plain))
    assert "Plain GPs carry all of the weight (most of it: plain GP, 60 %): learned features have none." in text
    assert "stopped" not in text
    assert "mGP" not in text


def test_a_contest_by_few_rows_names_whom_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr("manifoldgp.averaging.fold_training.DECIDE_ABOVE", 100)
    monkeypatch.setattr("manifoldgp.averaging.fold_contest.DECIDE_ROWS", 50)
    X = np.random.default_rng(0).normal(size=(400, 2))
    model = ManifoldGPRegressor(averaging=Stack(keep=10.0, learn_rows=1000)).fit(X, np.sin(X[:, 0]))  # nobody adds so much
    report = model.held_out_[0]
    assert report.groups == ("plain GP",)
    assert "own" in report.left_out
    assert not report.cut_short
    assert not any("stopped" in remark for remark in held_out_remarks(report))
    model.save(tmp_path / "m.mgp")
    assert manifoldgp.load(tmp_path / "m.mgp").held_out_[0].left_out == report.left_out


def test_a_few_held_out_rows_judge_neither_features_nor_intervals():
    """Of two rows it was said that the features add little."""
    densities = {"plain GP": 1.0, "warm": 1.01, "cold": 1.2, "own": 3.0, "control": 1.0, "stack": 0.99}
    report = report_with([[0.8, 0.05], [0.1, 0.0], [0.03, 0.0], [0.02, 0.0]], densities)
    few = replace(
        report, log_density={name: value[:19] for name, value in report.log_density.items()}, pit=np.linspace(0.03, 0.97, 19)
    )
    told = "19 held-out rows are too few to tell what features add here, or whether intervals hold. Plain GPs carry 85 % of the weight."
    assert held_out_remarks(few) == [told]
    assert any("too narrow" in remark for remark in held_out_remarks(replace(few, pit=np.zeros(19))))


def test_words_follow_from_what_was_done():
    densities = {"plain GP": 1.0, "warm": 1.1, "cold": 0.3, "own": 0.9, "control": 0.95, "stack": 0.25}
    report = report_with(STACKED, densities)
    assert "Learned features carry 95 %" in held_out_remarks(report)[0]
    never = replace(report_with([[1.0, 0.0], *[[0.0, 0.0]] * 3], densities | {"stack": 1.0}), cut_short=("warm", "cold"))
    text = " ".join(held_out_remarks(never))
    assert "before warm and cold members were trained to their end: whether features help here is not known" in text
    assert "add little" not in text
    assert "overfit" not in text


def test_held_out_errors_are_in_the_units_of_y():
    rng = np.random.default_rng(0)
    observed = rng.normal(size=200)
    mean = observed + 0.1 * rng.normal(size=200)
    densities = {"plain GP": 1.0, "warm": 1.1, "cold": 0.3, "own": 0.9, "control": 0.95, "stack": 0.25}
    report = replace(report_with(STACKED, densities), mean=mean, observed=observed)
    numbers = held_out_numbers(report, 7.0)
    assert numbers["held-out RMSE"] == pytest.approx(7.0 * np.sqrt(np.mean((mean - observed) ** 2)))
    assert numbers["held-out MAE"] == pytest.approx(7.0 * np.abs(mean - observed).mean())
    assert numbers["held-out R²"] == pytest.approx(1 - np.mean((mean - observed) ** 2) / observed.var())


def test_errors_as_large_as_those_of_the_mean_are_called_so():
    observed = np.random.default_rng(0).normal(size=200)
    densities = {"plain GP": 1.0, "warm": 1.1, "cold": 0.3, "own": 0.9, "control": 0.95, "stack": 0.25}
    report = replace(report_with(STACKED, densities), mean=-0.1 * observed, observed=observed)
    assert errors_in_words(report, 1.0)[0].endswith("R² -0.21: no better than always predicting the mean.")
    assert "no better" not in errors_in_words(replace(report, mean=0.1 * observed), 1.0)[0]


def substitutes():
    """Two groups that predict the same, far better than the plain GP, and one that predicts as the plain GP does."""
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(1, 200))
    better = plain + 1.0
    return substitutes_of({"plain GP": plain, "warm": better, "cold": better - 1e-6, "own": plain})


def substitutes_of(groups):
    """Groups with these log densities (1, n), which count the same at every row."""
    return Candidates.of(
        {name: Followed(density, np.full_like(density, 0.5), np.zeros(density.shape[1])) for name, density in groups.items()}
    )


def test_of_two_groups_that_say_the_same_one_is_needed():
    weighing = Weighing((1.0,), gp_prior=0.05, spread_prior=0.02)
    candidates = substitutes()
    kept = weighing.needed(candidates, ("warm", "cold", "own"), 0.01)
    assert "own" not in kept
    assert ("warm" in kept) != ("cold" in kept)
    assert weighing.needed(candidates, ("own",), 0.01) == ["plain GP", "warm", "cold"]
    assert weighing.needed(candidates, ("warm", "cold", "own"), 10.0) == ["plain GP"]
    weights, report = weighing.weights(candidates, kept)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[candidates.names.index("own")].sum() == 0.0
    assert report.log_density["stack"].mean() == pytest.approx(weighing.value(candidates), abs=0.01)
    assert candidates.better_than_gp("cold")
    assert not candidates.better_than_gp("own")


def test_members_that_count_by_certainty_have_the_shares_that_rows_give_them():
    """At the optimum the average share of a candidate is that of the rows that it answers for, pseudo-rows included."""
    rng = np.random.default_rng(0)
    log_density, counts = rng.normal(size=(4, 200)), rng.normal(size=(4, 200))
    votes = np.array([0.0, 3.0, 1.0, 2.0])
    weights = stacking_weights(log_density, votes, counts=counts)
    at_rows = weights_at(weights, counts)
    np.testing.assert_allclose(at_rows.sum(0), 1.0)
    answered = at_rows * np.exp(log_density - log_mixture(log_density, at_rows))
    np.testing.assert_allclose(at_rows.mean(1), (answered.sum(1) + votes) / 206.0, atol=1e-5)
    value = log_mixture(log_density, weights_at(stacking_weights(log_density, counts=counts), counts)).sum()
    for _ in range(50):  # without votes it is the greatest likelihood there is
        other = weights_at(rng.dirichlet(np.ones(4)), counts)
        assert log_mixture(log_density, other).sum() <= value + 1e-3


def test_members_that_are_equally_sure_everywhere_have_constant_weights():
    log_density = np.random.default_rng(1).normal(size=(3, 100))
    np.testing.assert_allclose(
        stacking_weights(log_density, 2.0, counts=np.full((3, 100), -7.0)), stacking_weights(log_density, 2.0), atol=1e-6
    )


def test_shares_are_found_where_rows_say_clearly_who_answers_for_them():
    """Responsibilities stand still at once there, while weights are still on their way."""
    log_density = np.where(np.arange(100) < 50, np.array([[0.0], [-40.0]]), np.array([[-40.0], [0.0]]))
    counts = np.where(np.arange(100) < 50, np.array([[3.0], [0.0]]), np.array([[1.0], [0.0]]))
    weights = stacking_weights(log_density, counts=counts)
    np.testing.assert_allclose(weights_at(weights, counts).mean(1), 0.5, atol=1e-4)


def candidates_that_know_their_half(n=400, wrong=False):
    """Two groups of two members each; every member is surer of its half of the rows, rightly or wrongly."""
    rng = np.random.default_rng(2)
    first = np.arange(n) < n // 2
    y, said, plain = rng.normal(size=n), {}, {}
    for name, half in (("plain GP", first), ("cold", ~first)):
        variance = np.where(half, 0.01, 1.0) * np.array([[1.0], [1.5]])
        error = np.where(half != wrong, 0.1, 1.0) * rng.normal(size=(2, n))
        log_density = -0.5 * (error**2 / variance + np.log(variance)) + 0.0 * y
        given = log_density[None], np.full((1, 2, n), 0.5), variance, np.array([0.7, 0.3])
        said[name], plain[name] = Followed.of(*given, 1.0), Followed.of(*given, 0.0)
    return Candidates.of(said), Candidates.of(plain)


def test_a_group_counts_what_its_members_do():
    variance, inner = np.array([[0.1, 2.0], [0.4, 1.0]]), np.array([0.7, 0.3])
    log_density = np.array([[[-1.0, -2.0], [-0.5, -3.0]]])
    found = Followed.of(log_density, np.full((1, 2, 2), 0.5), variance, inner, 2.0)
    w = inner[:, None] / variance**2
    np.testing.assert_allclose(found.counts, np.log(w.sum(0)))
    np.testing.assert_allclose(found.log_density[0], np.log((w * np.exp(log_density[0])).sum(0) / w.sum(0)))
    np.testing.assert_allclose(found.cdf, 0.5)


def test_members_that_know_nothing_or_everything_are_no_accident():
    """A covariance without a factor, a variance of zero, a weight of zero."""
    variance = np.array([[np.nan, 0.0], [1.0, 1.0]])
    found = Followed.of(np.zeros((1, 2, 2)), np.full((1, 2, 2), 0.5), variance, np.array([0.5, 0.5]), 1.0)
    assert np.isfinite(found.counts).all()
    np.testing.assert_allclose(found.cdf, 0.5)
    assert np.isfinite(Followed.of(np.zeros((1, 2, 2)), np.full((1, 2, 2), 0.5), variance, np.zeros(2), 1.0).log_density).all()


def following(wrong=False, units=None, share=None, mean=0.0):
    """A stack whose weights may follow; held-out targets are one, its means are zero, and these with weights that follow."""
    followed, plain = candidates_that_know_their_half(wrong=wrong)
    weighing = Weighing((1.0,), 0.05, 0.02)
    weights, report = weighing.weights(plain)
    n = plain.log_density.shape[-1]
    report = replace(report, mean=np.zeros(n), observed=np.ones(n))
    asked, own = Follow(1.0, share, 0.0025), np.broadcast_to(mean, n)
    found = weighing.following(followed, weights, report, asked, np.arange(n) if units is None else units, lambda *_: own)
    return found, weights, report, followed


def test_held_out_rows_decide_how_much_follows_and_whether():
    found, weights, before, followed = following()
    assert found.report.following == pytest.approx(0.9)
    assert found.report.log_density["stack"].mean() > before.log_density["stack"].mean() + 0.1
    at_rows = weights_at(weights[:, 0], followed.counts + found.usual[:, None])
    other = log_mixture(followed.log_density[:, 0], at_rows)
    both = np.logaddexp(np.log(0.1) + before.log_density["stack"], np.log(0.9) + other)
    np.testing.assert_allclose(found.report.log_density["stack"], both, rtol=1e-6)
    np.testing.assert_allclose(found.report.pit, 0.5)
    wrongly = following(wrong=True)[0].report
    assert wrongly.following == 0.0
    assert wrongly.exponent == 0.0


@pytest.mark.parametrize(("mean", "share"), [(1.0, 0.9), (2.0, 0.5), (10.0, 0.1), (-1.0, 0.0)])
def test_weights_follow_no_further_than_the_mean_comes_nearer(mean, share):
    report = following(mean=mean)[0].report
    assert report.following == pytest.approx(share)
    np.testing.assert_allclose(report.mean, share * mean)


def test_rows_that_err_together_are_fewer_pieces_of_evidence():
    assert following(units=np.zeros(400, dtype=int))[0].report.following == 0.0


def test_a_later_fit_follows_as_an_earlier_one_does():
    assert following(wrong=True, share=0.3)[0].report.following == 0.3
    assert Follow.as_before(1.0, 0.005, Earlier(1, ())) is None
    assert Follow.as_before(1.0, 0.005, Earlier(1, (), exponent=2.0, following=0.4)) == Follow(2.0, 0.4, 0.0)
    assert Follow.as_before(0.0, 0.005, None) is None


@pytest.mark.parametrize("best", ["plain GP", "rough GP", "additive GP"])
def test_pseudo_rows_vote_for_the_best_of_the_plain_gps(best):
    """Another group is better by chance alone: the plain GP that predicts best keeps a share."""
    rng = np.random.default_rng(0)
    names = ("plain GP", "rough GP", "additive GP", "cold")
    density = {name: rng.normal(size=(1, 100)) + (0.5 if name == best else 0.0) for name in names}
    density["cold"] = density[best] + 0.3 * rng.normal(size=(1, 100))
    candidates = substitutes_of(density)
    assert candidates.names[candidates.best_plain()] == best
    without, with_votes = (Weighing((1.0,), votes, 0.02).weights(candidates)[0].sum(1) for votes in (0.0, 1.0))
    gained = dict(zip(names, with_votes - without, strict=True))
    assert max(gained, key=gained.__getitem__) == best
    assert gained[best] > 0.01


def test_held_out_probabilities_stay_below_one_whatever_the_weights_round_to():
    """All CDFs are one, as of a target far above all predictions: so are their averages, not 1 + 2e-16."""
    weighing = Weighing((1.0, 4.0), gp_prior=0.1, spread_prior=0.05)
    for seed in range(50):
        log_density = np.random.default_rng(seed).normal(size=(3, 2, 20))
        candidates = Candidates(["plain GP", "warm", "own"], log_density, np.ones_like(log_density), np.zeros((3, 20)))
        _, report = weighing.weights(candidates)
        assert report.pit.max() <= 1.0
        np.testing.assert_allclose(report.pit, 1.0, rtol=1e-12)
