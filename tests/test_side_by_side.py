"""Trainings side by side: the same results whoever minimises their starts, one who watches, and fits that end early and keep what was finished."""

from __future__ import annotations

import math
import signal
import threading
import time
from dataclasses import replace

import joblib
import numpy as np
import pytest
import torch

from manifoldgp import ManifoldGPRegressor, Stack
from manifoldgp._system.threads import Workers, training_threads
from manifoldgp.features import MLP
from manifoldgp.model import Data, Model
from manifoldgp.training.optimizer import STOPPED, TIME_LIMIT
from manifoldgp.training.progress import PhaseWatcher
from manifoldgp.training.side_by_side import Lot, joblib_workers
from manifoldgp.training.trainer import Trainer, Training

SHORT = Stack(
    deals=2, steps=(3, 6), warm_iterations=3, gp_starts=2, gp_iterations=20, warm_members=1, cold_members=1, own_members=1, fold_members=1
)  # fmt: skip


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def rows(N, batch=(), seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(*batch, N, 2, generator=generator, dtype=torch.float64)
    noise = 0.1 * torch.randn(*batch, N, generator=generator, dtype=torch.float64)
    return Data(X, torch.sin(2 * X[..., 0]) + X[..., 1] + noise, batched=bool(batch))


def trainings():
    """Two with as many rows as threads are worth, one of them with a data set for each start, and one with few rows."""
    return [
        Training("plain", Model(), rows(320, (2,)), 2, 6),
        Training("network", Model(MLP((3, 1))), rows(320, seed=1), 3, np.array([2, 4, 6])),
        Training("few", Model(MLP((3, 1))), rows(30, seed=2), 2, 5),
    ]


def trained(workers, watch=None, deadline=math.inf):
    more = {} if watch is None else {"watch": watch}
    trainer = Trainer(torch.Generator().manual_seed(3), workers, deadline, **more)
    return trainer, trainer.fit_together(trainings())


@pytest.fixture(scope="module")
def alone():
    return trained(Workers(1))[1]


def test_trainings_together_are_the_trainings_one_by_one(alone):
    trainer = Trainer(torch.Generator().manual_seed(3), Workers(1))
    for training, found in zip(trainings(), alone, strict=True):
        single = trainer.fit_together([training])[0]
        np.testing.assert_array_equal(single.result.theta, found.result.theta)


def test_two_threads_find_what_one_does(two_threads, alone):
    with training_threads() as workers:
        assert workers.count == 2
        _, together = trained(workers)
    for mine, theirs in zip(together, alone, strict=True):
        np.testing.assert_allclose(mine.result.theta, theirs.result.theta, rtol=1e-6, atol=1e-8)
        assert mine.result.iterations.tolist() == theirs.result.iterations.tolist()
        assert mine.result.status.tolist() == theirs.result.status.tolist()


@pytest.mark.parametrize("threads", [1, 2])
def test_whoever_watches_hears_of_one_training_after_another_in_the_thread_of_the_fit(two_threads, threads):
    heard, home = [], threading.current_thread()
    in_order = [("plain", 2), ("network", 3), ("few", 2)]

    def watch(phase, iterations, values):
        assert threading.current_thread() is home
        heard.append((phase, len(iterations)))
        return False

    with training_threads() as workers:
        trained(workers if threads == 2 else Workers(1), watch)
    told = list(dict.fromkeys(heard))
    if threads == 1:
        assert told == in_order
    assert told[0] == in_order[0]
    assert told == [
        each for each in in_order if each in told
    ]  # of two threads, one may end a training before its turn to be told of
    assert heard == sorted(heard, key=in_order.index)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_wish_to_stop_ends_all_trainings(two_threads, threads):
    with training_threads() as workers:
        trainer, found = trained(workers if threads == 2 else Workers(1), lambda *_: True)
    assert trainer.late
    assert {status for one in found for status in one.result.status} == {STOPPED}
    assert (found[0].result.iterations <= 1).all()
    assert np.isinf(found[2].objective).all()  # nobody came to it


def test_what_has_not_begun_when_the_time_is_up_is_left_out(two_threads):
    with training_threads() as workers:
        trainer, found = trained(workers, deadline=time.perf_counter())
    assert trainer.late
    assert {status for one in found for status in one.result.status} == {TIME_LIMIT}
    assert np.isfinite(found[0].objective[0])
    assert np.isinf(found[2].objective).all()


def test_rivals_stay_together_and_starts_of_many_rows_are_lots_by_themselves():
    def lots(N, R, hands, margin=math.inf):
        data = rows(N, (R,))
        layout, drawn = Model().draw(data, torch.Generator().manual_seed(0), R)
        lot = Lot(Model(), layout, {}, data, layout.flatten(drawn).numpy(), np.full(R, 5), margin=margin)
        return [len(part.theta) for part in lot.dealt(hands)]

    assert lots(50, 5, 2) == [3, 2]
    assert lots(50, 5, 1) == [5]
    assert lots(400, 3, 2) == [1, 1, 1]
    assert lots(400, 3, 2, margin=10.0) == [3]


class Interrupts(PhaseWatcher):
    """Ctrl-C, a real one, as soon as a phase begins."""

    def __init__(self, phase, deal=1):
        self.phase, self.left = phase, deal

    def begin(self, output, plan):
        pass

    def enter(self, phase):
        self.left -= phase == self.phase
        if phase == self.phase and self.left == 0:
            signal.raise_signal(signal.SIGINT)

    def __call__(self, iterations, values):
        return False


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60)


def groups_of(model):
    return set(model.held_out_[0].groups)


def test_ctrl_c_keeps_the_groups_that_were_finished(table):
    model = ManifoldGPRegressor(averaging=SHORT, callback=Interrupts("nested on folds"))
    with pytest.warns(UserWarning, match="interrupted; the best model so far is kept"):
        model.fit(*table)
    assert groups_of(model) == {"plain GP", "rough GP", "additive GP"}
    assert model.score(*table) > 0.5


def test_ctrl_c_before_any_group_is_finished_ends_the_fit(table):
    with pytest.raises(KeyboardInterrupt):
        ManifoldGPRegressor(averaging=SHORT, callback=Interrupts("plain GP on folds")).fit(*table)


def test_ctrl_c_in_a_later_deal_keeps_the_earlier_one(table):
    first = ManifoldGPRegressor(averaging=replace(SHORT, deals=1)).fit(*table)
    model = ManifoldGPRegressor(averaging=SHORT, callback=Interrupts("plain GP on folds", deal=2))
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(*table)
    np.testing.assert_allclose(model.predict(table[0]), first.predict(table[0]), rtol=1e-8)


def test_ctrl_c_while_members_learn_from_all_rows_leaves_those_of_the_folds(table):
    model = ManifoldGPRegressor(averaging=replace(SHORT, deals=1, keep=-1.0), callback=Interrupts("nested"))
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(*table)
    assert {"warm", "cold"} <= groups_of(model)
    assert model.score(*table) > 0.5


def test_one_who_stops_a_stack_is_not_asked_again(table):
    asked = []

    def stop(iterations, values):
        asked.append(1)
        return len(asked) >= 30

    ManifoldGPRegressor(averaging=SHORT, callback=stop).fit(*table)
    assert len(asked) <= 31


def test_joblib_is_asked_only_where_somebody_wants_it():
    assert joblib_workers() == 1
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert joblib_workers() == 1  # a fit has threads of its own
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert joblib_workers() == 2
        inside = joblib.Parallel(n_jobs=2, prefer="threads", require="sharedmem")(
            joblib.delayed(joblib_workers)() for _ in range(2)
        )
    assert inside == [1, 1]
