"""The stack of many rows: which kinds it tries, what held-out rows decide, and what becomes of a fit that is stopped."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from manifoldgp import ManifoldGPRegressor, Sparse
from manifoldgp.averaging.sparse_stack import held_out_numbers_of
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.kernels import SquaredExponential
from manifoldgp.model import Data
from manifoldgp.training.model_rows import MemoryRows
from manifoldgp.training.progress import PhaseWatcher
from short_fits import SHORT_STACK, short_stack

NAMES = ("plain GP", "rough GP", "warm", "cold", "large", "deep", "rough", "own")


def table(rows: int):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3)) * [1.0, 2.0, 30.0] + [0.0, 5.0, -7.0]
    y = np.sin(2 * X[:, 0]) + 0.2 * (X[:, 1] - 5) ** 2 + 0.1 * rng.normal(size=rows)
    return X, 40.0 * y + 3.0


@contextmanager
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Stop(Exception):
    pass


def test_the_stack_weighs_sparse_members_on_held_out_rows():
    X, y = table(600)
    model = short_stack(steps=(10,)).fit(X[:500], y[:500])
    report = model.held_out_[0]
    assert set(report.groups) == {"plain GP", "rough GP", "warm", "cold", "large", "deep", "rough", "own"}
    assert len(report.pit) == 100
    assert report.weights.sum() == pytest.approx(1.0)
    assert sum(float(w.exp().sum()) for w in model.ensembles_[0].log_weights) == pytest.approx(1.0)
    assert {block.rows for block in model.ensembles_[0].blocks} == {500}  # the held-out rows are not lost
    assert model.score(X[500:], y[500:]) > 0.8
    assert "weight" in str(model.diagnose())
    ordered = held_out_numbers_of(MemoryRows(Data(torch.zeros(30, 1), torch.zeros(30))), 0, ordered=True)
    np.testing.assert_array_equal(ordered, [24, 25, 26, 27, 28, 29])


def test_a_kernel_with_one_lengthscale_has_deep_members_too():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.sin(np.arange(60.0))
    model = ManifoldGPRegressor((2,), kernel=SquaredExponential(ard=False), averaging=SHORT_STACK, method=Sparse(8)).fit(X, y)
    assert "deep" in set(model.starts_["group"])
    assert np.isfinite(model.predict(X)).all()


def test_an_interrupted_stack_keeps_what_was_trained_and_trains_no_further_member():
    X, y = table(200)
    phases = []

    class Interrupting(PhaseWatcher):
        def begin(self, output, plan):
            pass

        def enter(self, phase):
            phases.append(phase)

        def __call__(self, iterations, values):
            if phases[-1] == "all groups, to 3":
                raise KeyboardInterrupt

    model = short_stack(callback=Interrupting())
    with pytest.warns(FitWarning, match="interrupted; the best model so far is kept"):
        model.fit(X, y)
    assert phases[-1] == "all groups, to 3"
    assert {"plain GP", "rough GP"} <= set(model.held_out_[0].groups) < set(NAMES)
    assert model.score(X, y) > 0.3


def test_callbacks_of_members_side_by_side_run_in_the_thread_of_the_fit():
    X, y = table(120)
    seen = []

    def callback(iterations, values):
        seen.append((threading.current_thread(), len(iterations)))

    with two_threads():
        model = short_stack(callback=callback).fit(X, y)
    assert {thread for thread, _ in seen} == {threading.current_thread()}
    assert max(count for _, count in seen) == 6  # members of six kinds together
    alone = short_stack().fit(X, y)
    np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-6)


def test_an_error_in_a_callback_ends_a_stack():
    X, y = table(120)

    def broken(iterations, values):
        raise ZeroDivisionError("mine")

    with two_threads(), pytest.raises(ZeroDivisionError, match="mine"):
        short_stack(callback=broken).fit(X, y)


def test_a_stack_that_is_stopped_at_once_is_the_plain_gp():
    X, y = table(200)
    targets = np.column_stack([y, -y])
    model = short_stack(callback=lambda *_: True).fit(X, targets)
    assert [report.groups for report in model.held_out_] == [("plain GP",)] * 2
    assert np.isfinite(model.predict(X)).all()
    assert "plain GP" in str(model.diagnose())


def test_kinds_are_compared_on_a_part_of_many_rows_and_go_on_with_all(monkeypatch):
    monkeypatch.setattr("manifoldgp.averaging.sparse_training.PART_ROWS", 150)
    X, y = table(600)
    phases = []

    class Noting(PhaseWatcher):
        def begin(self, output, plan):
            phases.extend(f"planned {phase.name}" for phase in plan.phases)

        def enter(self, phase):
            phases.append(phase)

        def __call__(self, iterations, values):
            pass

    model = short_stack(callback=Noting()).fit(X, y)
    assert {"on all rows", "planned on all rows"} <= set(phases)
    assert {block.bound_rows for block in model.ensembles_[0].blocks} == {480}
    assert {block.rows for block in model.ensembles_[0].blocks} == {600}
    assert model.score(X, y) > 0.5


def test_a_stack_grows_its_inducing_points_where_held_out_rows_want_them(monkeypatch):
    monkeypatch.setattr("manifoldgp.averaging.sparse_training.INDUCING", 4)
    monkeypatch.setattr("manifoldgp.averaging.sparse_course.MOST_INDUCING", 16)
    X, y = table(150)
    grown = short_stack(inducing=None, steps=(20,)).fit(X, y)
    points = [block.Z.shape[1] for block in grown.ensembles_[0].blocks]
    assert max(points) in (8, 16)  # four points say next to nothing of this function
    asked = short_stack(inducing=4).fit(X, y)
    assert {block.Z.shape[1] for block in asked.ensembles_[0].blocks} == {4}


def test_a_time_budget_is_kept_by_a_stack():
    X, y = table(3000)
    begin = time.process_time()
    model = short_stack(inducing=60, steps=(200, 400), time_budget=1.5).fit(X, y)
    assert time.process_time() - begin < 12.0
    assert np.isfinite(model.predict(X)).all()


def test_a_killed_stack_takes_finished_members_from_its_checkpoint(tmp_path):
    X, y = table(150)
    whole = short_stack().fit(X, y)
    calls = []

    def die_late(iterations, values):
        calls.append(1)
        if len(calls) == 200:
            raise _Stop

    with pytest.raises(_Stop):
        short_stack(checkpoint=str(tmp_path / "c"), callback=die_late).fit(X, y)
    assert {"c.plain-GPs-few-rows-plain-GP-0-120-rows-10-points-40-iterations.0"} <= {path.name for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match="belongs to another fit: it differs in .*some rows of y"):
        short_stack(checkpoint=str(tmp_path / "c")).fit(X, y[::-1])
    again = []
    with pytest.warns(FitWarning, match="going on from the checkpoint"):
        resumed = short_stack(checkpoint=str(tmp_path / "c"), callback=lambda *_: again.append(1)).fit(X, y)
    assert resumed.held_out_[0].groups == whole.held_out_[0].groups
    np.testing.assert_allclose(resumed.predict(X), whole.predict(X), rtol=1e-4)
    assert not list(tmp_path.iterdir())
