"""Who may use the cores: settings inside training and predictions, their restoration, also between threads, and results that do not depend on workers."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController

from drawn_estimators import drawn_estimator
from manifoldgp import GPRegressor
from manifoldgp._system.threads import SMALL_WORK, Workers, threads_for, training_threads
from manifoldgp.averaging.fold_predictions import make_batch, predict_held_out
from manifoldgp.estimators import targets
from manifoldgp.features import MLP, Identity
from manifoldgp.inference.ensemble import prediction_threads
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.model import Data, Model
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.warping import TanhWarping
from short_fits import train


def blas_threads():
    return [lib.get_num_threads() for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]


@pytest.fixture
def two_threads():
    """PyTorch and BLAS may use two threads during the test."""
    before, blas = torch.get_num_threads(), ThreadpoolController().limit(limits=2, user_api="blas")
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
    blas.restore_original_limits()


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_inside_torch_and_blas_keep_to_one_thread_and_outside_nothing_has_changed(two_threads):
    assert torch.get_num_threads() == 2
    before = blas_threads()
    with training_threads() as workers:
        assert workers.count == 2
        assert torch.get_num_threads() == 1
        assert set(blas_threads()) == {1}
        # the workers' own threads are capped as well
        assert workers.map(lambda _: torch.get_num_threads(), [0, 1, 2], large=False) == [1, 1, 1]
    assert torch.get_num_threads() == 2
    assert blas_threads() == before


def test_what_looks_at_few_rows_keeps_to_one_thread(two_threads):
    """A page of 29 rows took a minute beside another job, and 8 s so."""
    before = blas_threads()
    with threads_for(200):
        assert (torch.get_num_threads(), set(blas_threads())) == (1, {1})
    assert (torch.get_num_threads(), blas_threads()) == (2, before)
    with threads_for(2500):
        assert (torch.get_num_threads(), set(blas_threads())) == (1, {1})
    with threads_for(3000):
        assert (torch.get_num_threads(), blas_threads()) == (2, before)


@pytest.mark.parametrize("count", [2, 8, 1])
def test_members_that_predict_held_out_rows_are_dealt_to_all_workers(two_threads, count):
    """Folds of 600 rows were one lot, whose products two threads of BLAS shared: beside other jobs 3.5 s, for 0.1 s of work."""
    rows = 500
    data = Data(normal(rows, 2), normal(rows, seed=1))
    folds = make_batch(data, np.array_split(np.arange(40), count))
    model = Model(Identity())
    _, drawn = model.draw(folds.train, torch.Generator().manual_seed(2), count)
    watched = Watched(2)
    try:
        dealt = predict_held_out(model, drawn, folds, (1.0,), watched)
    finally:
        watched.close()
    assert [set(threads) for threads in watched.seen] == [{1}] * min(count, 2)
    alone = predict_held_out(model, drawn, folds, (1.0,))
    np.testing.assert_allclose(dealt.log_density, alone.log_density, rtol=1e-8)


class Watched(Workers):
    """Workers that note how many threads BLAS has where they work."""

    def __init__(self, count):
        super().__init__(count)
        self.seen = []

    def map(self, function, items, large):
        def noted(item):
            self.seen.append(blas_threads())
            return function(item)

        with training_threads():
            return super().map(noted, items, large)


def test_members_of_few_rows_are_conditioned_by_one_thread(two_threads, monkeypatch):
    seen, conditioned = [], targets._fitted

    def watched(*arguments):
        seen.append((torch.get_num_threads(), set(blas_threads())))
        return conditioned(*arguments)

    monkeypatch.setattr(targets, "_fitted", watched)
    X = normal(40, 2).numpy()
    GPRegressor(restarts=1, max_iter=3).fit(X, X[:, 0])
    assert seen == [(1, {1})]
    assert torch.get_num_threads() == 2


def test_an_exception_restores_everything(two_threads):
    before = blas_threads()

    def fail(item):
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 1"), training_threads() as workers:
        workers.map(fail, [1, 2], large=True)
    assert torch.get_num_threads() == 2
    assert blas_threads() == before


def test_an_interrupt_while_workers_end_restores_everything(two_threads, monkeypatch):
    before = blas_threads()

    def impatient(workers):
        raise KeyboardInterrupt("again")

    monkeypatch.setattr(Workers, "close", impatient)
    with pytest.raises(KeyboardInterrupt, match="again"), training_threads():
        pass
    assert torch.get_num_threads() == 2
    assert blas_threads() == before


def test_training_that_fails_restores_everything(two_threads):
    before = blas_threads()

    def interrupt(iterations, values):
        raise KeyboardInterrupt("enough")

    data = Data(normal(70, 1), normal(70, seed=1))
    with pytest.raises(KeyboardInterrupt, match="enough"):
        train(Model(), data, restarts=3, generator=torch.Generator().manual_seed(0), callback=interrupt)
    assert torch.get_num_threads() == 2
    assert blas_threads() == before


def test_nested_use_restores_the_outer_settings(two_threads):
    with training_threads():
        with training_threads() as inner:
            assert inner.count == 1
        assert torch.get_num_threads() == 1
        assert set(blas_threads()) == {1}
    assert torch.get_num_threads() == 2


def test_one_large_thing_gets_all_blas_threads_and_several_get_one_each(two_threads):
    with training_threads() as workers:
        seen = workers.map(lambda _: blas_threads(), [0], large=True)[0]
        assert set(seen) == {2}
        assert set(workers.map(lambda _: blas_threads(), [0], large=False)[0]) == {1}
        workers.map(lambda _: None, [0], large=True)
        assert all(set(threads) == {1} for threads in workers.map(lambda _: blas_threads(), [0, 1], large=True))


def test_results_come_in_order(two_threads):
    with training_threads() as workers:
        assert workers.map(lambda i: i * i, list(range(20)), large=False) == [i * i for i in range(20)]


@pytest.mark.parametrize(("rows", "starts"), [(30, 5), (80, 1), (80, 3), (410, 1)])
@pytest.mark.parametrize("batched", [False, True])
def test_workers_do_not_change_results(two_threads, rows, starts, batched):
    shape = (starts, rows) if batched else (rows,)
    data = Data(normal(*shape, 2), normal(*shape, seed=1), batched=batched)
    model = Model(MLP((4, 2)))
    layout, drawn = model.draw(data, torch.Generator().manual_seed(2), starts)
    theta, order = layout.flatten(drawn).numpy(), np.arange(starts)[::-1].copy()
    alone = TrainingObjective(model, layout, {}, data)(theta[order], order)
    with training_threads() as workers:
        together = TrainingObjective(model, layout, {}, data, workers)(theta[order], order)
    np.testing.assert_allclose(together[0], alone[0], rtol=1e-10)
    np.testing.assert_allclose(together[1], alone[1], rtol=1e-7, atol=1e-8 * np.abs(alone[1]).max())


def test_a_single_thread_needs_no_pool():
    workers = Workers(1)
    try:
        assert workers.map(lambda i: i + 1, [1, 2, 3], large=True) == [2, 3, 4]
    finally:
        workers.close()


class Number:
    """How many threads PyTorch has in each of some moments."""

    def __init__(self, monkeypatch, owner, name):
        self.seen, real = [], getattr(owner, name)

        def watched(*args, **kwargs):
            self.seen.append(torch.get_num_threads())
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, watched)


@pytest.fixture(scope="module")
def fitted():
    x = np.linspace(-1, 1, 40)[:, None]
    return GPRegressor(restarts=1, max_iter=5).fit(x, np.sin(3 * x[:, 0]))


X = np.linspace(-1, 1, 7)[:, None]
PREDICTIONS = {
    "predict": lambda model: model.predict(X),
    "std": lambda model: model.predict(X, return_std=True),
    "cov": lambda model: model.predict(X, return_cov=True),
    "quantiles": lambda model: model.predict_quantiles(X),
    "density": lambda model: model.log_predictive_density(X, X[:, 0]),
    "cdf": lambda model: model.predict_cdf(X, X[:, 0]),
    "sample": lambda model: model.sample_y(X),
    "gradient": lambda model: model.predict_gradient(X),
    "transform": lambda model: model.transform(X),
    "update": lambda model: copy.copy(model).update(X, X[:, 0]),
}


@pytest.mark.parametrize("name", PREDICTIONS)
def test_few_rows_are_predicted_by_one_thread_and_many_by_all(two_threads, monkeypatch, fitted, name):
    number = Number(monkeypatch, Posterior, "transform")
    PREDICTIONS[name](fitted)
    assert set(number.seen) == {1}
    assert torch.get_num_threads() == 2
    monkeypatch.setattr("manifoldgp.inference.ensemble._SMALL", 0)
    number.seen.clear()
    PREDICTIONS[name](fitted)
    assert set(number.seen) == {2}


def test_what_counts_as_many_rows(two_threads, fitted):
    """N = 40: 2**29 operations are 149,131 rows with variances (90 operations an entry) and 268,435 without (50)."""

    def threads(rows, **asked):
        with prediction_threads(fitted.ensembles_, rows, **asked):
            return torch.get_num_threads()

    assert threads(149_130) == 1
    assert threads(149_132) == 2
    assert threads(268_435, variance=False) == 1
    assert threads(268_436, variance=False) == 2
    assert threads(3_618, joint=True) == 1  # 40 n (90 + n)
    assert threads(3_619, joint=True) == 2


@pytest.mark.parametrize("exponents", [(), (1.0,)])
def test_means_that_need_variances_count_as_these_do(exponents):
    """By weights that follow them, or by a warped target; those of a member alone follow nothing."""

    def extra(*parts):
        (ensemble,) = drawn_estimator(list(parts), exponents=exponents).ensembles_
        return ensemble.operations(1000) - ensemble.operations(1000, variance=False)

    assert (extra((Model(), 2)) == 0.0) == bool(exponents)
    assert extra((Model(), 1)) > 0.0
    assert extra((Model(warping=TanhWarping(2)), 1)) == 0.0


def test_a_prediction_that_fails_restores_everything(two_threads, monkeypatch, fitted):
    def fail(self, X):
        raise ValueError("no features")

    monkeypatch.setattr(Posterior, "transform", fail)
    with pytest.raises(ValueError, match="no features"):
        fitted.predict(X)
    assert torch.get_num_threads() == 2


def in_a_new_thread(function):
    """What a function gives in a thread that has not used PyTorch yet."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(timeout=60)


def test_fits_in_several_threads_leave_the_limits_as_they_were(two_threads):
    """The second fit begins inside the first one and ends after it: it meets the limits of the first, and must not leave them behind."""
    before, during = blas_threads(), {}
    first_runs, second_runs, first_ended = threading.Event(), threading.Event(), threading.Event()
    x = np.linspace(-1, 1, 20)[:, None]

    def first(iterations, values):
        first_runs.set()
        assert second_runs.wait(60)

    def second(iterations, values):
        second_runs.set()
        assert first_ended.wait(60)
        during["threads"] = torch.get_num_threads(), in_a_new_thread(torch.get_num_threads), set(blas_threads())

    def fit(callback):
        GPRegressor(restarts=3, max_iter=4, callback=callback).fit(x, np.sin(3 * x[:, 0]))
        return torch.get_num_threads()

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(fit, first)
        assert first_runs.wait(60)
        two = pool.submit(fit, second)
        assert one.result(timeout=60) == 2
        first_ended.set()
        assert two.result(timeout=60) == 2
    assert during["threads"] == (1, 1, {1})  # the end of the first did not take the limits from the second
    assert torch.get_num_threads() == 2
    assert in_a_new_thread(torch.get_num_threads) == 2
    assert blas_threads() == before


def test_a_second_fit_has_as_many_workers_as_the_first(two_threads):
    """Or its result would depend on what else goes on."""

    def count():
        with training_threads() as workers:
            return workers.count

    with training_threads() as workers:
        assert in_a_new_thread(count) == workers.count == 2
        assert workers.map(lambda _: count(), [0, 1], large=False) == [1, 1]  # its own workers have nothing to hand out


def test_a_prediction_beside_a_fit_leaves_the_fit_its_limits(two_threads, fitted):
    def predict():
        fitted.predict(X)
        return torch.get_num_threads()

    with training_threads():
        assert in_a_new_thread(predict) == 2
        assert torch.get_num_threads() == 1
        assert in_a_new_thread(torch.get_num_threads) == 1
    assert in_a_new_thread(torch.get_num_threads) == 2


def test_a_thread_that_met_the_limit_first_gets_what_the_process_has(two_threads, fitted):
    """Its first use of PyTorch falls into another's prediction, its own prediction comes after that."""

    def number_before_and_after():
        met = torch.get_num_threads()
        limited.set()
        ended.wait(60)
        fitted.predict(X, return_std=True)
        return met, torch.get_num_threads()

    limited, ended = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with SMALL_WORK:
            numbers = pool.submit(number_before_and_after)
            assert limited.wait(60)
        ended.set()
        assert numbers.result() == (1, 2)
    assert in_a_new_thread(torch.get_num_threads) == 2


def test_many_threads_at_once_leave_the_limits_as_they_were(two_threads, fitted):
    before = blas_threads()
    x = np.linspace(-1, 1, 20)[:, None]

    def work(number):
        if number % 4 == 0:
            GPRegressor(restarts=2, max_iter=3).fit(x, x[:, 0] ** 2)
        else:
            fitted.predict(X, return_std=True)
        return torch.get_num_threads()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(40))) == {2}
    assert torch.get_num_threads() == in_a_new_thread(torch.get_num_threads) == 2
    assert blas_threads() == before
