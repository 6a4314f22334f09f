"""The means that a stack predicts on rows it held out, beside their targets: what held-out errors are computed from."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from manifoldgp import ManifoldGPRegressor, Sparse, Stack, load
from manifoldgp.averaging.fold_contest import FoldContest
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.inference.mixtures import Predictive, Warp
from manifoldgp.model import Data
from manifoldgp.parameters import map_leaves

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (48, 2))
Y = 10.0 + 3.0 * np.sin(X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=48)
SMALL = Stack(own_members=2, gp_starts=2, gp_iterations=30, steps=(8, 16), warm_iterations=8, deals=1)


def member_mean(group, member, factor, data, rows, held_out):
    """The mean of one member that was trained on a fold, predicted by a posterior of its own."""
    values = map_leaves(lambda leaf: leaf[member : member + 1], group.values)
    train = Data(data.X[rows], data.y[rows])
    posterior = condition(group.batch.model, values, train)
    mean, variance = posterior.mean_and_variance(data.X[held_out])
    noisy = factor * (variance + posterior.noise_variance()[:, None])
    return Predictive(mean, noisy, torch.zeros(1, dtype=torch.float64), Warp([posterior.warping])).moments()[0].numpy()


def learnt(folds):
    """The rows in the order in which the fit learnt them: all of them were held out once."""
    columns = [folds.by_row(folds.X[..., d].numpy()) for d in range(folds.X.shape[-1])]
    return Data(torch.tensor(np.stack(columns, 1)), torch.tensor(folds.by_row(folds.y.numpy())))


@pytest.mark.parametrize("warping", [None, pytest.param("tanh", marks=pytest.mark.slow)])
def test_means_of_held_out_rows_are_the_weighted_means_of_members_that_have_not_seen_them(monkeypatch, warping):
    seen = {}
    real = FoldContest.weights

    def spy(contest, kept):
        seen.update(groups=contest.groups, folds=contest.folds)
        return real(contest, kept)

    monkeypatch.setattr(FoldContest, "weights", spy)
    model = ManifoldGPRegressor((3, 2), averaging=SMALL, target_warping=warping).fit(X, Y)
    report, groups, folds = model.held_out_[0], seen["groups"], seen["folds"]
    data = learnt(folds)
    np.testing.assert_allclose(report.observed, data.y.numpy(), rtol=1e-12)
    np.testing.assert_allclose(np.sort(report.observed), np.sort((Y - Y.mean()) / Y.std()), atol=1e-8)
    expected = np.zeros(len(Y))
    for k in range(folds.count):
        held_out = folds.where[k][folds.where[k] >= 0]
        rows = np.setdiff1d(np.arange(len(Y)), held_out)
        for g, group in enumerate(groups.values()):
            members = group.inner.shape[1]
            for f, factor in enumerate(report.variance_factors):
                for m in range(members):
                    if report.weights[g, f]:
                        part = member_mean(group, k * members + m, factor, data, rows, held_out)
                        expected[held_out] += report.weights[g, f] * group.inner[k, m] * part
    np.testing.assert_allclose(report.mean, expected, rtol=1e-6, atol=1e-6)
    assert np.mean((report.mean - report.observed) ** 2) < 0.2  # of the variance


def test_a_sparse_stack_has_them_too_and_a_file_keeps_them(tmp_path):
    model = ManifoldGPRegressor((3, 2), method=Sparse(inducing=12), averaging=Stack(steps=(10,), fold_members=1))
    model.fit(X, Y, ordered=True).save(tmp_path / "m.mgp")
    report, again = model.held_out_[0], load(tmp_path / "m.mgp").held_out_[0]
    np.testing.assert_allclose(report.observed * Y.std() + Y.mean(), Y[-len(report.observed) :], rtol=1e-9)
    assert report.mean.shape == report.observed.shape == report.pit.shape
    np.testing.assert_array_equal(again.mean, report.mean)
    np.testing.assert_array_equal(again.observed, report.observed)
    assert again.cut_short == report.cut_short == ()


def test_groups_that_were_stopped_on_the_folds_are_named():
    calls = []

    def stop(iterations, values):
        calls.append(1)
        return len(calls) > 40

    finished = ManifoldGPRegressor((3, 2), averaging=SMALL).fit(X, Y)
    stopped = ManifoldGPRegressor((3, 2), averaging=SMALL, callback=stop).fit(X, Y)
    assert finished.held_out_[0].cut_short == ()
    assert set(stopped.held_out_[0].cut_short) - {"plain GP"}  # which one depends on what is trained side by side
