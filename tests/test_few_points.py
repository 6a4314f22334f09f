"""Few points in place of all rows: what is lost is what it is said to be, and members that need all rows keep them."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import c_programs
from drawn_estimators import drawn_estimator
from manifoldgp.estimators import few_points
from manifoldgp.estimators.distillation import after, distilled
from manifoldgp.estimators.few_points import probes, with_few_points
from manifoldgp.estimators.program_groups import grouped, program_bytes
from manifoldgp.estimators.program_targets import _predictor, small_predictor
from manifoldgp.features import MLP
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.kernels import Matern32
from manifoldgp.model import Data, Model
from manifoldgp.parameters import leaves, nest
from manifoldgp.predictor import Predictor
from manifoldgp.predictor.onnx import export_onnx
from manifoldgp.warping import TanhWarping

ROWS, TOLERANCE = 300, 1e-3
SMOOTH = {"kernel.lengthscale": 3.0, "noise.scale": 0.3}
ROUGH = {"kernel.lengthscale": 0.05, "noise.scale": 0.01}


def conditioned(models, values, **arguments):
    """An estimator of drawn members with some values given, conditioned on ROWS rows."""
    estimator = drawn_estimator(models, **arguments)
    rng = np.random.default_rng(5)
    X = torch.from_numpy(rng.normal(size=(ROWS, 3)))
    y = torch.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.3 * torch.from_numpy(rng.normal(size=ROWS))

    def again(block):
        named = {name: torch.full_like(v, values[name]) if name in values else v for name, v in leaves(block.values)}
        return condition(block.model, nest(named), Data(X, y))

    estimator.ensembles_ = [replace(e, blocks=[again(block) for block in e.blocks]) for e in estimator.ensembles_]
    return estimator


def new_rows(estimator, count=100):
    """Rows beside the training rows, in the units of the user; other ones than those that points are chosen by."""
    return estimator.x_scaler_.undo(
        probes(estimator.ensembles_[0].blocks[0].data.X, count, torch.Generator().manual_seed(9)).numpy()
    )


@pytest.fixture(scope="module")
def estimator():
    return conditioned([(Model(), 1), (Model(features=MLP((4, 2)), kernel=Matern32()), 2)], SMOOTH, factors=(1.0, 4.0))


@pytest.mark.parametrize("exponents", [(), (1.0,)])
def test_what_is_lost_at_other_rows_is_what_was_allowed(exponents):
    models = [(Model(), 1), (Model(features=MLP((4, 2)), kernel=Matern32()), 2)]
    estimator = conditioned(models, SMOOTH, factors=(1.0, 4.0), exponents=exponents)
    p, X = estimator.predictor(tolerance=TOLERANCE), new_rows(estimator)
    assert "few points" in p.distilled
    whole = estimator.ensembles_[0].predict(torch.from_numpy(estimator.x_scaler_.apply(X)))
    (few,) = p.mixtures(X)
    y = whole.sample(200, torch.Generator().manual_seed(0))
    lost = np.mean([whole.log_density(row).numpy() - few.log_density(row.numpy()) for row in y])
    assert lost < 2 * TOLERANCE  # that is the chance of 100 rows and 200 draws
    mean, std = estimator.predict(X, return_std=True)
    np.testing.assert_allclose(p(X), mean, atol=0.2 * std.min())
    np.testing.assert_allclose(p(X, return_std=True)[1], std, rtol=0.2)


def test_weights_that_move_are_part_of_the_loss():
    """Two members of the same law, of which the power makes one count where the other counted: each by itself loses little."""
    estimator = conditioned([(Model(), 2)], SMOOTH, exponents=(1.0,))
    (ensemble,) = estimator.ensembles_
    X = torch.from_numpy(np.random.default_rng(0).normal(size=(400, 3)))
    mean, variance = ensemble.blocks[0].mean_and_variance(X)
    few = SimpleNamespace(
        weight=0.5, few_variance=variance, losses=lambda: 0.0 * mean[0], moments=lambda: (mean[0], 1.2 * variance[0])
    )
    loss = few_points._loss(ensemble, [(mean, variance)], {(0, 0): few})
    w, q = (
        ensemble.predict(X).log_weights,
        ensemble.mixture([(mean, torch.stack([1.2 * variance[0], variance[1]]))]).log_weights,
    )
    assert loss.nats >= float((w.exp() * (w - q)).sum(0)[few_points._PROBES :].mean()) * (1.0 - 1e-9) > 0.0


def test_a_smaller_tolerance_takes_more_points_and_loses_less(estimator):
    sizes, losses = [], []
    for tolerance in (1e-2, 1e-4):
        few, loss = with_few_points(estimator.ensembles_[0], tolerance)
        assert loss.nats <= tolerance
        assert loss.compressed == 3
        losses.append(loss.nats)
        sizes.append([(len(f.points), len(f.whitener)) for block in few for f in block])
        assert all(J <= M <= ROWS for M, J in sizes[-1])
    assert losses[1] < losses[0]
    assert all(
        tight >= loose
        for loose_ones, tight_ones in zip(*sizes, strict=True)
        for loose, tight in zip(loose_ones, tight_ones, strict=True)
    )


def test_the_predictor_is_small_and_says_what_it_loses(estimator, tmp_path):
    p = estimator.predictor(tolerance=TOLERANCE)
    whole = estimator.predictor()
    assert p.nbytes < 0.5 * whole.nbytes
    assert whole.nbytes == pytest.approx(program_bytes(estimator.ensembles_), rel=0.1)
    assert "go through few points in place of all rows" in p.distilled
    p.save(tmp_path / "few.npz")
    again = Predictor.load(tmp_path / "few.npz")
    assert again.distilled == p.distilled
    X = new_rows(estimator, 20)
    for found, before in zip(again(X, return_std=True), p(X, return_std=True), strict=True):
        np.testing.assert_array_equal(found, before)
    one = np.array([p(x[None], return_std=True) for x in X])[..., 0]  # single rows have loops of their own
    np.testing.assert_allclose(one.T, p(X, return_std=True), rtol=1e-9)


def test_c_and_onnx_go_through_the_same_points(estimator, tmp_path):
    X, p = new_rows(estimator, 5), estimator.predictor(tolerance=TOLERANCE)
    mean, std = p(X, return_std=True)
    (found,) = c_programs.run([p], X, tmp_path, c_programs.compiler("cc"), ("-O1",), "float64", gradient=True)
    np.testing.assert_allclose(found.mean[:, 0], mean, rtol=1e-9)
    np.testing.assert_allclose(found.std[:, 0], std, rtol=1e-9)
    onnxruntime = pytest.importorskip("onnxruntime")
    export_onnx(p, tmp_path / "few.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "few.onnx", providers=["CPUExecutionProvider"])
    for ours, theirs in zip((mean, std), session.run(["mean", "std"], {"X": X}), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-9)


@pytest.mark.parametrize("rows", [64, 90, 178, 180, 300, 511, 700, 2500])
@pytest.mark.parametrize("wanted", [1, 40, 83, 89, 120])
def test_the_search_for_the_fewest_points_ends_for_any_number_of_rows(rows, wanted):
    member, tried = SimpleNamespace(posterior=SimpleNamespace(rows=rows), time_is_up=lambda: False), []

    def attempt(count, most):
        tried.append(count)
        assert len(tried) < 100
        return torch.full((2,), float(count < wanted)), count

    found = few_points._Member._fewest(member, attempt, lambda lost: lost, 0.5, 16)
    if found is not None:
        assert wanted <= found[1] < max(wanted, 16) + 16
    assert (found is None) == (wanted > rows // 2)


@pytest.mark.parametrize(("seconds", "tries"), [(0, 0), (1, 1), (3, 3), (99, 5)])
def test_the_search_for_the_fewest_points_keeps_what_it_has_when_time_is_up(seconds, tries):
    """A member with many rows takes seconds, and was asked once whether there is time."""
    tried = []
    member = SimpleNamespace(posterior=SimpleNamespace(rows=2500), time_is_up=lambda: len(tried) >= seconds)

    def attempt(count, most):
        tried.append(count)
        return torch.full((2,), float(count < 89)), count

    found = few_points._Member._fewest(member, attempt, lambda lost: lost, 0.5, 16)
    assert len(tried) == tries
    assert found is None if not tries else found[1] >= 89


def test_without_time_everything_stays_as_it_is(estimator):
    (d,) = distilled(estimator.ensembles_, None, TOLERANCE, 0.0)
    assert d.ensemble is estimator.ensembles_[0]
    assert d.loss.nats == 0.0
    assert all(few is None for block in d.few for few in block)


def test_time_that_others_take_does_not_count():
    time_is_up = after(0.05)
    time.sleep(0.1)
    assert not time_is_up()
    begin = time.thread_time()
    while time.thread_time() < begin + 0.05:
        pass
    assert time_is_up()
    assert not after(float("inf"))()


@pytest.mark.parametrize(
    ("values", "share", "kind"),
    [(ROUGH, 1.0, "whole"), (ROUGH, 0.5, None), (SMOOTH, 1.0, "whole"), (SMOOTH, 0.9, "distilled"), (SMOOTH, 0.01, None)],
)
def test_which_program_a_file_gets(values, share, kind):
    """Of the whole program up to what is small; else of few points, if these are a quarter of that; else none."""
    estimator, searches = conditioned([(Model(), 2)], values), []
    most = int(share * program_bytes(estimator.ensembles_))
    found = small_predictor(estimator, most, TOLERANCE, lambda: searches.append(1))
    assert len(searches) == (share < 1.0)
    assert kind == (None if found is None else "distilled" if found.distilled else "whole")


def test_members_that_need_all_rows_stay_exact():
    estimator = conditioned([(Model(), 2)], ROUGH)
    (found,) = distilled(estimator.ensembles_, None, TOLERANCE)
    assert found.few == [[None, None]]
    assert found.loss.points is None
    X = new_rows(estimator, 10)
    mean, std = estimator.predict(X, return_std=True)
    p = estimator.predictor(tolerance=TOLERANCE)
    if found.loss.kept == 2:
        np.testing.assert_allclose(p(X), mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(p(X, return_std=True)[1], std, rtol=1e-6)
    assert "few points" not in p.distilled


def test_a_mean_that_few_points_do_not_reach_goes_through_all_rows():
    rough = Model(kernel=Matern32())
    narrow = conditioned([(rough, 1)], SMOOTH, factors=(1e-7,))  # where a shift of the mean costs ten million times as much
    few, loss = with_few_points(narrow.ensembles_[0], TOLERANCE)
    (group,) = grouped(narrow.ensembles_, [few])
    assert loss.compressed == 1
    assert group.points.shape[1] == ROWS > group.whitener.shape[1]
    X = new_rows(narrow, 10)
    np.testing.assert_allclose(narrow.predictor(tolerance=TOLERANCE)(X), narrow.predict(X), rtol=1e-9)


def test_a_member_of_little_weight_may_lose_more():
    estimator = conditioned([(Model(), 2)], SMOOTH)
    (ensemble,) = estimator.ensembles_
    block = ensemble.blocks[0].only(torch.tensor([0, 0]))
    logs = [torch.log(torch.tensor([[0.999, 0.001]], dtype=torch.float64))]
    few, _ = with_few_points(replace(ensemble, blocks=[block], log_weights=logs), 1e-4)
    heavy, light = few[0]
    assert len(light.points) < len(heavy.points)


def test_several_targets_and_known_noise():
    estimator = conditioned([(Model(), 1)], SMOOTH, targets=2)
    p, X = estimator.predictor(tolerance=TOLERANCE), new_rows(estimator, 30)
    mean, std = estimator.predict(X, return_std=True)
    np.testing.assert_allclose(p(X), mean, atol=0.2 * std.min())
    assert "2 of these go through few points" in p.distilled
    block = estimator.ensembles_[0].blocks[0]
    noisy = condition(block.model, block.values, replace(block.data, known_noise=torch.full((ROWS,), 0.2, dtype=torch.float64)))
    _, loss = with_few_points(replace(estimator.ensembles_[0], blocks=[noisy]), TOLERANCE)
    assert loss.nats <= TOLERANCE
    assert loss.compressed == 1


def test_warped_targets():
    estimator = conditioned([(Model(warping=TanhWarping(2)), 1)], SMOOTH)
    few, _ = with_few_points(estimator.ensembles_[0], TOLERANCE)
    assert few[0][0] is not None
    X = new_rows(estimator, 10)
    mean, std = estimator.predict(X, return_std=True)
    p = _predictor(estimator, estimator.ensembles_, [few])
    np.testing.assert_allclose(p(X), mean, atol=0.2 * std.min())
    (mixture,) = p.mixtures(X)
    np.testing.assert_allclose(mixture.log_density(mean), estimator.log_predictive_density(X, mean), atol=0.1)
    np.testing.assert_allclose(mixture.quantile(0.05), estimator.predict_quantiles(X, (0.05,))[:, 0], atol=0.2 * std.min())


def test_probes_are_rows_of_the_data_crossed_and_half_of_them_moved_away():
    X = torch.from_numpy(np.random.default_rng(0).normal(size=(50, 4)))
    P = probes(X, 40, torch.Generator().manual_seed(0))
    inside = torch.stack([torch.isin(P[:, d], X[:, d]) for d in range(4)], 1)
    assert bool(inside[::2].all())
    assert not bool(inside[1::2].all(1).any())
    assert bool(((P - X.mean(0)).abs().amax(0) <= 2 * (X - X.mean(0)).abs().amax(0)).all())
