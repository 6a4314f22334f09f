"""Who may use the cores: settings inside training, their restoration, and results that do not depend on workers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController

from manifoldgp.features import MLP
from manifoldgp.model import Data, Model
from manifoldgp.objective import TrainingObjective
from manifoldgp.threads import Workers, training_threads
from manifoldgp.train import train


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


def test_an_exception_restores_everything(two_threads):
    before = blas_threads()

    def fail(item):
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 1"), training_threads() as workers:
        workers.map(fail, [1, 2], large=True)
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
