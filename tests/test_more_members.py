"""fit_more: further members join a fitted model; budgets of time that are kept; and files that hold what prediction needs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import manifoldgp
from drawn_estimators import drawn_estimator
from manifoldgp import GPRegressor, ManifoldGPRegressor, Restarts, Single, Stack
from manifoldgp.averaging import stack as stack_module
from manifoldgp.averaging import stacking
from manifoldgp.averaging.stacking import Weighing, tempered_weights
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.estimators import model_file
from manifoldgp.estimators.ensemble_file import rounding_loss
from manifoldgp.estimators.more_members import _joined
from manifoldgp.features import MLP
from manifoldgp.inference.certainty import Certainty
from manifoldgp.model import Model
from short_fits import SHORT_STACK, few_starts, short_stack

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=60)

SMALL = Stack(
    deals=1, gp_starts=1, warm_members=1, cold_members=1, own_members=1, fold_members=1, steps=(3, 6), warm_iterations=3, polish=3
)


@pytest.fixture(scope="module")
def stack():
    return ManifoldGPRegressor((3, 2), averaging=SMALL).fit(X, Y)


@pytest.fixture
def fitted(stack, tmp_path):
    """A model of one's own, through a file."""
    stack.save(tmp_path / "model.mgp")
    return manifoldgp.load(tmp_path / "model.mgp")


def test_new_members_join_a_stack_and_the_old_ones_stay(stack, fitted):
    more = fitted.fit_more(X, Y)
    old, new = stack.ensembles_[0], more.ensembles_[0]
    assert len(new.blocks) > len(old.blocks)
    for before, after in zip(old.blocks, new.blocks, strict=False):
        np.testing.assert_array_equal(before.alpha, after.alpha)
    assert more.starts_["weight"].sum() == pytest.approx(1.0)
    assert len(more.histories_) == len(more.starts_) > len(stack.starts_)
    kept = more.starts_["weight"][: len(stack.starts_)]  # in the proportions that they had
    np.testing.assert_allclose(kept / kept.sum(), stack.starts_["weight"] / stack.starts_["weight"].sum(), atol=1e-12)
    assert not np.array_equal(more.predict(X), stack.predict(X))


def test_weights_that_follow_variances_do_so_in_both_fits_together():
    """With the power of the first fit, which the second one takes over, and the usual variances of both."""
    parts = [(Model(), 1), (Model(features=MLP((3, 2))), 2)]
    one, other = (drawn_estimator(parts, exponents=(1.0,)).ensembles_[0] for _ in range(2))
    both = _joined(one, other, (0.25, 0.75))
    assert both.certainty.exponent == 1.0
    assert all(map(torch.equal, both.certainty.usual, [*one.certainty.usual, *other.certainty.usual]))
    assert len(_joined(one, other, (0.0, 1.0)).certainty.usual) == len(other.blocks)
    assert both.certainty.share == one.certainty.share
    assert torch.isfinite(both.predict(one.blocks[0].data.X).moments()[0]).all()


@pytest.mark.parametrize("sizes", [(3, 1), (1, 3), (1, 1)])
def test_a_member_alone_joins_others_with_its_usual_variance(sizes):
    """Which nothing follows while it is alone."""
    one, other = (drawn_estimator([(Model(), size)], exponents=(1.0,), factors=(1.0, 4.0)).ensembles_[0] for size in sizes)
    U = one.blocks[0].data.X
    for weights in ((0.25, 0.75), (0.0, 1.0), (1.0, 0.0)):
        both = _joined(one, other, weights)
        assert [len(usual) for usual in both.certainty.usual] == [block.members for block in both.blocks]
        assert torch.isfinite(both.predict(U).moments()[0]).all()
    for alone in (ensemble for ensemble, size in zip((one, other), sizes, strict=True) if size == 1):
        assert alone.predict(U).log_weights.ndim == 1
        torch.testing.assert_close(alone.mean(U), replace(alone, certainty=None).mean(U), rtol=0, atol=0)


def follow_by_half(patched):
    """Whatever held-out rows say, weights follow variances in half of a stack."""
    patched.setattr(Weighing, "_share_of_following", lambda self, both, asked, units: 0.5)
    patched.setattr(Weighing, "_clearly_likelier", staticmethod(lambda *_: True))
    patched.setattr(stacking, "nearest_share", lambda report, mean: 0.5)


@pytest.mark.parametrize("certainty", [0.0, 4.0])
def test_stacks_of_a_later_fit_are_mixed_by_the_power_of_the_first(certainty, monkeypatch):
    """Which they follow, whatever the settings say by then."""
    asked, mixed = [], stack_module.mixed
    monkeypatch.setattr(stack_module, "mixed", lambda stacks, exponent: asked.append(exponent) or mixed(stacks, exponent))
    model = ManifoldGPRegressor((3, 2), averaging=replace(SMALL, deals=2, certainty=1.0))
    with monkeypatch.context() as patched:
        follow_by_half(patched)
        model.fit(X, Y)
    model.set_params(averaging=replace(SMALL, deals=2, certainty=certainty)).fit_more(X, Y)
    assert asked == [1.0, 1.0]
    assert model.ensembles_[0].certainty.exponent == 1.0


def test_a_stack_of_one_member_keeps_how_weights_follow_variances(monkeypatch):
    """Members of a later fit follow them too, and join it."""
    everything = Weighing.weights

    def plain_alone(self, candidates, among=None):
        weights, report = everything(self, candidates, among)
        return weights * 0.0 + np.eye(*weights.shape) * (np.arange(len(weights)) == 0)[:, None], report

    with monkeypatch.context() as patched:
        patched.setattr(Weighing, "weights", plain_alone)
        follow_by_half(patched)
        model = ManifoldGPRegressor((3, 2), averaging=SMALL).fit(X, Y)
    (alone,) = model.ensembles_
    assert sum(block.members for block in alone.blocks) == 1
    assert (alone.certainty.exponent, alone.certainty.share) == (1.0, 0.5)
    (both,) = model.fit_more(X, Y).ensembles_
    assert sum(block.members for block in both.blocks) > 1
    assert (both.certainty.exponent, both.certainty.share) == (1.0, 0.5)
    assert np.isfinite(model.predict(X)).all()


def test_held_out_rows_speak_of_both_fits_together(stack, fitted):
    before, after = stack.held_out_[0], fitted.fit_more(X, Y).held_out_[0]
    np.testing.assert_array_equal(before.observed, after.observed)
    assert after.weights.sum() == pytest.approx(1.0)
    assert set(after.groups) == set(after.log_density) - {"control", "stack"}
    # The weight of the two fits maximises this, up to its small prior: the old one alone is one of the choices.
    assert after.log_density["stack"].mean() >= before.log_density["stack"].mean() - 0.02
    for group, weights in zip(after.groups, after.weights, strict=True):
        chosen = fitted.starts_["group"] == group
        assert fitted.starts_["weight"][chosen].sum() == pytest.approx(weights.sum(), abs=0.01) or group in ("warm", "cold")


def test_a_model_from_a_file_goes_on_as_the_one_in_memory_would(fitted, tmp_path):
    fitted.fit_more(X, Y).save(tmp_path / "more.mgp")
    loaded = manifoldgp.load(tmp_path / "more.mgp")
    for model in (fitted, loaded):
        model.fit_more(X, Y)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    groups = fitted.starts_["group"]
    assert (groups == "plain GP").sum() == 3  # one of each fit


def test_members_of_the_folds_join_where_one_fold_is_held_out():
    inputs, target = wide(650)
    few = replace(SMALL, learn_rows=100, steps=(2,), warm_iterations=2)
    model = ManifoldGPRegressor((3, 2), averaging=few).fit(inputs, target)
    observed, before = model.held_out_[0].observed, len(model.ensembles_[0].blocks)
    model.fit_more(inputs, target)
    np.testing.assert_array_equal(model.held_out_[0].observed, observed)
    assert len(model.ensembles_[0].blocks) > before


def test_an_average_without_a_seed_keeps_its_folds():
    model = ManifoldGPRegressor((3, 2), averaging=SMALL, random_state=None).fit(X, Y)
    assert np.isfinite(model.fit_more(X, Y).predict(X)).all()


def test_a_stack_of_sparse_members_goes_on():
    more = np.random.default_rng(1).normal(size=(80, 2))
    target = np.sin(2 * more[:, 0]) * more[:, 1]
    model = short_stack(inducing=10, steps=(3,)).fit(more, target)
    rows, before = model.ensembles_[0].blocks[0].rows, len(model.ensembles_[0].blocks)
    model.fit_more(more, target, seconds=5.0)
    assert len(model.ensembles_[0].blocks) > before
    assert {block.rows for block in model.ensembles_[0].blocks} == {rows}
    assert model.starts_["weight"].sum() == pytest.approx(1.0)


def test_restarts_count_as_if_they_had_been_started_together():
    model = ManifoldGPRegressor((3, 2), averaging=Restarts(2, max_iter=10)).fit(X, Y).fit_more(X, Y)
    assert len(model.starts_) == 4
    np.testing.assert_allclose(model.starts_["weight"], tempered_weights(model.starts_["objective"]), atol=1e-9)


@pytest.mark.parametrize(
    "model", [ManifoldGPRegressor((3, 2), averaging=Single(2, max_iter=5)), GPRegressor(restarts=1, max_iter=5)]
)
def test_of_single_models_the_better_one_stays(model):
    first = model.fit(X, np.c_[Y, -Y]).nlml_
    assert model.fit_more(X, np.c_[Y, -Y]).nlml_ <= first
    assert [sum(block.members for block in e.blocks) for e in model.ensembles_] == [1, 1]
    assert model.starts_["chosen"].sum() == 2


def test_members_of_a_fast_average_count_the_same():
    model = ManifoldGPRegressor(averaging="fast").fit(X, Y).fit_more(X, Y)
    warm = model.starts_["weight"][(model.starts_["group"] != "plain GP") & model.starts_["chosen"]]
    assert np.ptp(warm) < 1e-12


def test_rows_of_another_fit_are_refused_and_nothing_changes(stack, fitted):
    for other in (X + 1.0, X[::-1].copy(), X[:50]):
        with pytest.raises(InputError, match="goes on with the rows of the fit"):
            fitted.fit_more(other, Y[: len(other)], seconds=0.2)
    with pytest.raises(InputError, match="seconds must be a positive number"):
        fitted.fit_more(X, Y, seconds=0.0)
    np.testing.assert_array_equal(fitted.predict(X), stack.predict(X))


def test_what_cannot_go_on_says_why():
    noisy = GPRegressor(restarts=1, max_iter=5).fit(X, Y, input_std=0.1)
    with pytest.raises(InputError, match="noisy inputs"):
        noisy.fit_more(X, Y)
    chains = ManifoldGPRegressor(averaging=few_starts("single")).fit(X, Y).set_params(averaging="nuts")
    with pytest.raises(InputError, match="averaging='nuts' has no members that others could join"):
        chains.fit_more(X, Y)


IN_TIME = """
import time
import numpy as np
from manifoldgp import ManifoldGPRegressor
time.perf_counter = time.process_time
for rows, method in ((300, "auto"), (2000, "sparse")):
    drawn = np.random.default_rng(0)
    inputs = drawn.normal(size=(rows, 3))
    target = np.sin(2 * inputs[:, 0]) * inputs[:, 1] + 0.1 * drawn.normal(size=rows)
    begin = time.process_time()
    model = ManifoldGPRegressor(method=method, time_budget=1.0).fit(inputs, target)
    print(time.process_time() - begin, model.starts_["weight"].sum())
"""


def test_a_time_budget_is_kept_in_processor_time():
    """The clock that a fit plans by is the processor time of its process here, so that a busy machine does not matter."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", IN_TIME], env=environment, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        seconds, weight = map(float, line.split())
        assert seconds < 1.2
        assert weight == pytest.approx(1.0)


def test_members_of_the_folds_predict_where_there_was_no_time_for_others():
    """Whoever was weighed counts: where members on all rows are stopped, those of the folds stand in for them."""
    calls = []

    def after_the_folds(iterations, values):
        calls.append(len(iterations))
        return len(calls) > 40

    model = ManifoldGPRegressor((3, 2), averaging=SHORT_STACK, callback=after_the_folds).fit(X, Y)
    report = model.held_out_[0]
    plain = model.starts_["weight"][model.starts_["group"] == "plain GP"].sum()
    assert plain == pytest.approx(report.weights[report.groups.index("plain GP")].sum(), abs=1e-3)


def test_factors_in_single_precision_halve_a_file_and_leave_means_as_they_are(tmp_path):
    whole, half = tmp_path / "whole.mgp", tmp_path / "half.mgp"
    model = GPRegressor(restarts=1, max_iter=20).fit(*wide(400))
    model.save(whole)
    model.save(half, dtype="float32")
    factor = 8 * 400 * 401 // 2
    assert whole.stat().st_size - half.stat().st_size == pytest.approx(factor / 2, rel=0.01)
    loaded = manifoldgp.load(half)
    (mean, std), (same, near) = (m.predict(wide(50)[0], return_std=True) for m in (model, loaded))
    np.testing.assert_array_equal(same, mean)
    np.testing.assert_allclose(near, std, rtol=1e-3)
    assert not np.array_equal(near, std)


def test_single_precision_says_what_it_loses_and_other_precisions_are_refused(tmp_path):
    inputs = np.linspace(0.0, 1.0, 60)[:, None]
    exact = GPRegressor(restarts=1, max_iter=60).fit(inputs, np.sin(6 * inputs[:, 0]))
    with pytest.warns(FitWarning, match="standard deviations change by up to"):
        exact.save(tmp_path / "model.mgp", dtype="float32")
    with pytest.raises(InputError, match="dtype must be 'float64' or 'float32'; got 'float16'"):
        exact.save(tmp_path / "model.mgp", dtype="float16")


def test_single_precision_says_what_means_lose_that_depend_on_variances(tmp_path, monkeypatch):
    model = ManifoldGPRegressor(averaging="fast").fit(X, Y)
    (ensemble,) = model.ensembles_
    usual = [torch.zeros(block.members, dtype=torch.float64) for block in ensemble.blocks]
    same, following = (replace(ensemble, certainty=certainty) for certainty in (None, Certainty(2.0, 0.5, usual)))
    assert rounding_loss(same, torch.float32)[0] == 0.0
    model.ensembles_ = [following]
    monkeypatch.setattr(model_file, "_TOLD_LOSS", 0.0)
    with pytest.warns(FitWarning, match="standard deviations change by up to .* %, and means by up to .* % of these") as told:
        model.save(tmp_path / "model.mgp", dtype="float32")
    said = float(str(told[0].message).split("means by up to ")[1].split(" %")[0])
    mean, std = model.predict(X, return_std=True)
    shift = np.abs(manifoldgp.load(tmp_path / "model.mgp").predict(X) - mean) / std
    assert 100 * shift.max() == pytest.approx(said, rel=0.05)


def test_a_file_holds_one_factor_for_each_member_and_little_else(tmp_path):
    inputs, target = wide(400)
    model = ManifoldGPRegressor(averaging=Restarts(4, max_iter=3)).fit(inputs, target)
    model.save(tmp_path / "model.mgp")
    blocks, N = model.ensembles_[0].blocks, 400
    allowed = sum(block.members * (4 * N * (N + 1) + 8 * N * (block.points.shape[-1] + inputs.shape[1])) for block in blocks)
    assert (tmp_path / "model.mgp").stat().st_size < 1.02 * allowed + 100_000


def wide(rows):
    """Rows of five inputs with some noise."""
    drawn = np.random.default_rng(0)
    inputs = drawn.normal(size=(rows, 5))
    return inputs, np.sin(2 * inputs[:, 0]) * inputs[:, 1] + 0.2 * drawn.normal(size=rows)


@pytest.mark.parametrize(
    ("fitted", "asked"),
    [({"noise_std": 0.5}, {}), ({"noise_std": 0.5}, {"noise_std": 0.4})],
)
def test_other_noise_is_not_the_same_rows(fitted, asked):
    model = ManifoldGPRegressor(averaging=few_starts("single")).fit(X, Y, **fitted)
    with pytest.raises(InputError, match="rows"):
        model.fit_more(X, Y, **asked)


def test_rows_with_other_targets_are_refused_without_scales_too():
    model = ManifoldGPRegressor(averaging=few_starts("single"), standardize=False).fit(X, Y)
    swapped = X[[1, 0, *range(2, len(X))]]
    with pytest.raises(InputError, match="rows"):
        model.fit_more(swapped, Y)


def test_another_averaging_cannot_go_on():
    model = ManifoldGPRegressor((2, 1), averaging=few_starts("single")).fit(X, Y).set_params(averaging=SMALL)
    with pytest.raises(InputError, match="averaging of the fit"):
        model.fit_more(X, Y)


def test_sparse_models_have_no_factors_to_round(tmp_path):
    model = GPRegressor(restarts=1, max_iter=2, method="sparse").fit(X, Y)
    with pytest.raises(InputError, match="this model has none"):
        model.save(tmp_path / "model.mgp", dtype="float32")


def test_shared_features_have_one_evidence_after_more_members_too():
    both = np.stack([Y, X[:, 0]], 1)
    model = ManifoldGPRegressor((2, 1), averaging=Single(restarts=1, max_iter=20, shared_features=True)).fit(X, both)
    before = model.nlml_
    assert model.fit_more(X, both).nlml_ <= before + 1e-9


def test_the_evidence_of_a_stopped_stack_is_that_of_all_rows():
    rounds = []
    stopped = ManifoldGPRegressor((2, 1), averaging=SMALL, callback=lambda *_: rounds.append(0) or len(rounds) > 2).fit(
        X[:40], Y[:40]
    )
    heaviest = stopped.starts_[stopped.starts_["weight"].argmax()]
    log_scale = np.log(stopped.y_scaler_.scale[0])
    ensemble = stopped.ensembles_[0]
    totals = np.concatenate([block.nlml().numpy() for block in ensemble.blocks]) + 40 * log_scale
    assert np.abs(totals - heaviest["nlml"]).min() < 1e-6 * max(1.0, abs(heaviest["nlml"]))
