"""Averages distilled into fewer members: what is kept, what it loses, and how that is said."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from drawn_estimators import drawn_estimator, make_inputs
from manifoldgp.errors import InputError
from manifoldgp.estimators.distillation import _halves, _Points, distilled
from manifoldgp.features import MLP
from manifoldgp.model import Model
from manifoldgp.predictor import Predictor
from manifoldgp.warping import TanhWarping

X = make_inputs(20, seed=3)


@pytest.fixture(scope="module")
def estimator():
    return drawn_estimator([(Model(), 2), (Model(features=MLP((4, 2))), 4)], factors=(1.0, 4.0))


@pytest.fixture(scope="module")
def followed():
    """The same, with weights that follow how sure members are."""
    return drawn_estimator([(Model(), 2), (Model(features=MLP((4, 2))), 4)], factors=(1.0, 4.0), exponents=(1.5,))


def told_by(ensemble):
    """The rows that a loss is told by: those that chose members and weights too where they are as few as here."""
    return _halves(np.arange(len(ensemble.blocks[0].data.y)))[1]


def kl_by_draws(whole, small, rows, count=300):
    """KL(whole || small) a row, of predictions with each row left out, by drawing."""
    p, q = whole.left_out(rows), small.left_out(rows)
    y = p.sample(count, torch.Generator().manual_seed(0))
    return float(torch.stack([p.log_density(row) - q.log_density(row) for row in y]).mean())


def kl_on_a_grid(whole, small, rows):
    """The same by the trapezoidal rule."""
    p, q = whole.left_out(rows), small.left_out(rows)
    y = torch.linspace(p.offset - 12 * p.scale, p.offset + 12 * p.scale, 1001, dtype=torch.float64)
    of_p, of_q = (torch.stack([each.log_density(at.expand(len(rows))) for at in y]) for each in (p, q))
    return float(torch.trapezoid((of_p.exp() * (of_p - of_q)).T, y).mean())


def test_fewer_members_lose_more_and_the_loss_is_that_of_draws(estimator):
    smaller = [distilled(estimator.ensembles_, most, None)[0] for most in (1, 2, 4)]
    nats = [found.loss.nats for found in smaller]
    assert nats[0] >= nats[1] >= nats[2] >= 0.0
    for found in smaller[:2]:
        small, loss = found.ensemble, found.loss
        assert loss.members == 6
        assert found.few is None
        rows = told_by(small)
        assert loss.nats == pytest.approx(kl_by_draws(estimator.ensembles_[0], small, rows), rel=0.1, abs=0.02)
        assert float(torch.cat([w.reshape(-1) for w in small.log_weights]).exp().sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 1.0])
def test_weights_that_follow_variances_do_so_in_fewer_members(followed, share):
    """And the loss is that of the mixture that is left: its weights follow in the same share."""
    (ensemble,) = followed.ensembles_
    ensemble = replace(ensemble, certainty=replace(ensemble.certainty, exponent=4.0, share=share))
    rows = told_by(ensemble)
    for most in (1, 2, 3):
        (found,) = distilled([ensemble], most, None)
        assert found.ensemble.certainty == ensemble.certainty
        assert found.loss.nats == pytest.approx(kl_on_a_grid(ensemble, found.ensemble, rows), rel=0.05, abs=4e-4)
        assert float(torch.cat([w.reshape(-1) for w in found.ensemble.log_weights]).exp().sum()) == pytest.approx(1.0)
    blind = replace(found.ensemble, certainty=None)
    assert kl_on_a_grid(ensemble, blind, rows) > 1.1 * found.loss.nats


def test_what_narrow_copies_bring_is_part_of_the_loss():
    """All copies of a member share their middle: at Gauss-Hermite nodes two members seemed to say what five did, and 0.02 nats a row were lost in silence."""
    (ensemble,) = drawn_estimator([(Model(), 1), (Model(features=MLP((4, 2))), 2)], factors=(1.0, 16.0, 1 / 16)).ensembles_
    rows = told_by(ensemble)
    (found,) = distilled([ensemble], 1, None)
    assert found.loss.nats == pytest.approx(kl_by_draws(ensemble, found.ensemble, rows), rel=0.1, abs=0.01)
    assert found.loss.nats > 0.01


def test_the_loss_is_told_at_other_rows_than_those_that_chose():
    """Members and weights suit the rows that they were chosen by: there too little would seem to be lost."""
    (ensemble,) = drawn_estimator([(Model(), 2), (Model(features=MLP((4, 2))), 4)], factors=(1.0, 4.0), rows=60).ensembles_
    chosen_by, told = _halves(np.arange(60))
    assert not set(chosen_by) & set(told)
    (found,) = distilled([ensemble], 2, None)
    at_others, at_chosen = (kl_on_a_grid(ensemble, found.ensemble, rows) for rows in (told, chosen_by))
    assert at_chosen < 0.85 * at_others
    assert found.loss.nats == pytest.approx(at_others, rel=0.05)


def test_the_predictor_of_fewer_members_is_their_ensemble(followed):
    (found,) = distilled(followed.ensembles_, 3, None)
    p, U = followed.predictor(max_members=3), torch.from_numpy(followed.x_scaler_.apply(X))
    mean, variance = (moment.numpy() for moment in found.ensemble.predict(U).moments())
    np.testing.assert_allclose(p(X), mean, rtol=1e-9)
    np.testing.assert_allclose(p(X, return_std=True)[1] ** 2, variance, rtol=1e-8)


def test_as_few_members_as_the_tolerance_allows(estimator):
    loose, tight = (distilled(estimator.ensembles_, None, nats)[0].loss for nats in (0.3, 0.003))
    assert loose.nats <= 0.3
    assert tight.nats <= 0.003
    assert loose.kept < tight.kept <= 6


def test_a_member_that_excludes_what_another_predicts_costs_much_but_a_number():
    (ensemble,) = drawn_estimator([(Model(), 1)]).ensembles_
    block = ensemble.blocks[0]
    elsewhere = replace(block, alpha=block.alpha + 1e6)
    halves = [torch.log(torch.tensor([[0.5]], dtype=torch.float64))] * 2
    (found,) = distilled([replace(ensemble, blocks=[block, elsewhere], log_weights=halves)], 1, None)
    assert 10.0 < found.loss.nats < np.inf
    assert sorted(float(w.exp()) for w in found.ensemble.log_weights) == [0.0, 1.0]


def test_members_that_say_the_same_are_one():
    estimator = drawn_estimator([(Model(), 1)])
    (ensemble,) = estimator.ensembles_
    block = ensemble.blocks[0]
    doubled = type(ensemble)(
        [block, block],
        [torch.log(torch.tensor([[0.3]])), torch.log(torch.tensor([[0.7]]))],
        (1.0,),
        ensemble.offset,
        ensemble.scale,
    )
    (found,) = distilled([doubled], None, 1e-6)
    assert (found.loss.kept, found.loss.members) == (1, 2)
    assert found.loss.nats < 1e-6


def test_the_predictor_is_smaller_and_says_what_was_lost(estimator, tmp_path):
    whole, few = estimator.predictor(), estimator.predictor(max_members=2)
    assert few.nbytes < 0.5 * whole.nbytes
    assert few.distilled.startswith("Distilled: 2 of 6 members; ")
    assert whole.distilled == ""
    few.save(tmp_path / "few.npz")
    again = Predictor.load(tmp_path / "few.npz")
    assert again.distilled == few.distilled
    np.testing.assert_array_equal(again(X), few(X))
    assert few.distilled in str(few.to_c(tmp_path / "few.c"))


def test_warped_targets_and_several_targets():
    estimator = drawn_estimator([(Model(warping=TanhWarping(2)), 3)], targets=2, factors=(0.5, 2.0))
    p = estimator.predictor(max_members=1)
    assert "2 of 6 members" in p.distilled
    assert np.isfinite(p(X, return_std=True)).all()


@pytest.mark.parametrize("arguments", [{"max_members": 0}, {"max_members": 1.5}, {"tolerance": 0.0}, {"tolerance": np.nan}])
def test_settings_that_mean_nothing(estimator, arguments):
    with pytest.raises(InputError, match=next(iter(arguments))):
        estimator.predictor(**arguments)


def test_weights_are_found_among_the_components_that_have_some(estimator, monkeypatch):
    """Members alone are compared by their own components: with all others in every step, a stack of 27 members took minutes."""
    looked_at = []
    pull = _Points.pull
    monkeypatch.setattr(_Points, "pull", lambda self, w: (looked_at.append(len(self.density)), pull(self, w))[1])
    (found,) = distilled(estimator.ensembles_, 1, None)
    assert found.loss.kept == 1
    assert set(looked_at) == {2}  # one member with two variance factors, of six members


def test_em_finds_the_least_kl_among_the_components_that_have_weight():
    rng = np.random.default_rng(0)
    points = _Points(rng.uniform(0.1, 2.0, (5, 400)), np.full(400, 1 / 400), np.arange(5))
    w = points.refined(np.array([0.5, 0.0, 0.3, 0.2, 0.0]))
    assert w.sum() == pytest.approx(1.0)
    assert (w[[1, 4]] == 0.0).all()
    inside = w > 1e-6
    np.testing.assert_allclose(points.pull(w)[inside], 1.0, atol=1e-3)
    assert (points.pull(w)[[0, 2, 3]] <= 1.0 + 1e-3).all()


@pytest.mark.parametrize("share", [0.3, 0.8, 1.0])
def test_steps_reach_the_least_kl_where_weights_follow_something(share):
    """Better weights than those found are not among many that were drawn, near them and far from them."""
    rng, n = np.random.default_rng(0), 40
    sure = np.exp(rng.normal(size=(4, n)))
    points = _Points(rng.uniform(0.1, 2.0, (4, 10 * n)), np.full(10 * n, 1 / (10 * n)), np.arange(4), sure, share)
    start = np.full(4, 0.25)
    w = points.refined(start, 3000)
    assert w.sum() == pytest.approx(1.0)
    each = [points.nats(points.refined(start, k)) for k in range(6)]
    assert all(later <= earlier for earlier, later in pairwise(each))
    for spread in (0.1, 1.0, 10.0):
        for other in rng.dirichlet(w / spread + 1e-3, size=200):
            assert points.nats(np.maximum(other, 1e-12)) >= points.nats(w) - 1e-9
