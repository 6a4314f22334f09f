"""Rows that need not fit into memory: sources, surveys, slots, staged training, and the estimators on top of them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

import manifoldgp
from manifoldgp import MLP, GPRegressor, Sparse, Stack
from manifoldgp._system.threads import Workers
from manifoldgp.averaging.stacking import Candidates, Weighing
from manifoldgp.data import write_table
from manifoldgp.data.source_files import FileRows
from manifoldgp.data.sources import ArrayRows, survey
from manifoldgp.errors import FileFormatError, FitWarning, InputError
from manifoldgp.model import Data, Model
from manifoldgp.parameters import map_leaves
from manifoldgp.training.checkpoint import Checkpoint
from manifoldgp.training.model_rows import MemoryRows, StreamedRows
from manifoldgp.training.processes import ALONE, Ranks, slots_of, tree_sum
from manifoldgp.training.progress import nobody
from manifoldgp.training.sparse_objective import BoundObjective
from manifoldgp.training.sparse_schedule import Schedule, Stage
from manifoldgp.training.sparse_trainer import SparseTrainer, _Run
from short_fits import manifold, short_stack

N, D = 700, 3
pyarrow = pytest.importorskip("pyarrow", reason="files are read by pyarrow, which is not installed")


def table(rows=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, D)) * [1.0, 2.0, 30.0] + [0.0, 5.0, -7.0]
    y = np.sin(2 * X[:, 0]) + 0.2 * (X[:, 1] - 5) ** 2 + 0.1 * rng.normal(size=rows)
    return X, 40.0 * y + 3.0


def written(folder: Path, X, y, format="parquet", files=3, group=90):
    from pyarrow import csv, parquet

    for i, rows in enumerate(np.array_split(np.arange(len(X)), files)):
        part = pyarrow.table({**{f"x{d}": X[rows, d] for d in range(X.shape[1])}, "y": y[rows]})
        if format == "csv":
            csv.write_csv(part, folder / f"part{i}.csv")
        else:
            parquet.write_table(part, folder / f"part{i}.parquet", row_group_size=group)
    return str(folder / f"*.{format}")


def small(**more):
    """Arguments for a quick fit; inducing points where the method is sparse."""
    points = {"inducing": 30} if more.get("method", "sparse") == "sparse" else {}
    return {"method": "sparse", **points, "max_iter": 15, "restarts": 2, "averaging": "single", **more}


# ------------------------------------------------------------------------------------------------------------------ sources


def test_an_apostrophe_before_a_name_in_a_csv_is_no_part_of_it(tmp_path):
    """`write_table` puts it before what a spreadsheet would compute."""
    write_table(pd.DataFrame({"=x": [1.0, 2.0], "-y": [3.0, 4.0]}), tmp_path / "rows.csv")
    source = FileRows(tmp_path / "rows.csv", "-y")
    (block,) = source.blocks(0, 2, size=50)
    assert (source.names, block.X.tolist(), block.Y.tolist()) == (["=x"], [[1.0], [2.0]], [[3.0], [4.0]])


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("span", [(0, N), (100, 451), (233, 234), (N, N)])
def test_files_give_the_rows_of_any_span(tmp_path, format, span):
    X, y = table()
    source = FileRows(written(tmp_path, X, y, format), "y")
    assert (source.total, source.names) == (N, ["x0", "x1", "x2"])
    blocks = list(source.blocks(*span, size=50))
    assert all(len(block.number) <= 50 for block in blocks)
    numbers = np.concatenate([np.empty(0, dtype=int), *(block.number for block in blocks)])
    np.testing.assert_array_equal(numbers, np.arange(*span))
    for block in blocks:
        np.testing.assert_allclose(block.X, X[block.number], rtol=1e-12)
        np.testing.assert_allclose(block.Y[:, 0], y[block.number], rtol=1e-12)
    wanted = np.array([5, 120, 300, 699])
    taken = source.take(wanted, *span, 50)
    np.testing.assert_array_equal(taken.number, wanted[(wanted >= span[0]) & (wanted < span[1])])
    np.testing.assert_allclose(taken.X, X[taken.number], rtol=1e-12)


def test_what_is_wrong_with_files_is_told(tmp_path):
    X, y = table(40)
    pattern = written(tmp_path, X, y)
    with pytest.raises(InputError, match="no column z. It has: x0"):
        FileRows(pattern, "z")
    with pytest.raises(InputError, match="There is no file .*nothing"):
        FileRows(str(tmp_path / "nothing*.parquet"), "y")
    written(tmp_path, X, y, "csv")
    with pytest.raises(InputError, match="all CSV"):
        FileRows(tmp_path, "y")
    (tmp_path / "text.csv").write_text("x0,y\na,1\nb,2\n")
    with pytest.raises(InputError, match="not numbers: x0"):
        FileRows(tmp_path / "text.csv", "y")
    (tmp_path / "hole.csv").write_text("x0,y\n1,1\n,2\n")
    with pytest.raises(InputError, match="Row 1 "):
        list(FileRows(tmp_path / "hole.csv", "y").blocks(0, 2, 10))


def test_rows_without_a_target_are_left_out_and_counted():
    X, y = table(60)
    y[[3, 40]] = np.nan
    source = ArrayRows(X, y)
    seen = survey(source, 0, 60, size=7)
    assert (seen.rows, seen.left_out) == (58, 2)
    kept = np.delete(np.column_stack([X, y]), [3, 40], axis=0)
    np.testing.assert_allclose(seen.mean, kept.mean(0), rtol=1e-12)
    x_scaler, y_scaler = seen.standardizers(D)
    np.testing.assert_allclose([*x_scaler.scale, *y_scaler.scale], kept.std(0), rtol=1e-12)
    with pytest.warns(FitWarning, match="2 of 60 rows have a missing target"):
        model = GPRegressor(method=Sparse(inducing=30), max_iter=2, restarts=2).fit(source)
    assert model.ensembles_[0].blocks[0].rows == 58


def test_arrays_that_do_not_match_are_refused():
    with pytest.raises(InputError, match="got \\(5, 2\\) and \\(4,\\)"):
        ArrayRows(np.zeros((5, 2)), np.zeros(4))
    with pytest.raises(InputError, match="shaped like y"):
        ArrayRows(np.zeros((5, 2)), np.zeros(5), np.zeros(4))


# ---------------------------------------------------------------------------------------------------------- slots and sums


def streamed(X, y, ranks=ALONE, **more):
    source = ArrayRows(X, y)
    return StreamedRows(
        source, *survey(source, 0, len(X)).standardizers(D), rows=int(np.isfinite(y).sum()), ranks=ranks, size=64, **more
    )


def test_slots_belong_to_exactly_one_process():
    for count in (1, 499, 3000, 100_000):
        for processes in (1, 2, 3, 4, 5, 8, 32):
            mine = [slots_of(count, Ranks(rank, processes)) for rank in range(processes)]
            slots = {total for total, _ in mine}
            assert len(slots) == 1
            assert sorted(s for _, own in mine for s in own) == list(range(slots.pop()))
    assert slots_of(3000, Ranks(0, 1))[0] == slots_of(3000, Ranks(0, 4))[0]


def test_sums_over_processes_have_the_same_bits():
    parts = torch.randn(16, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    alone = tree_sum([part.clone() for part in parts])
    for processes in (2, 4, 8):
        each = [tree_sum([part.clone() for part in own]) for own in parts.chunk(processes)]
        assert torch.equal(tree_sum(each), alone)


def test_streamed_rows_are_the_rows_in_memory():
    X, y = table()
    y[10] = np.nan
    rows = streamed(X, y)
    kept = np.delete(np.arange(N), 10)
    U, t = rows.x_scaler.apply(X[kept]), rows.y_scaler.apply(y[kept][:, None])[:, 0]
    chunks = [chunk for slot in rows.slots for chunk in rows.chunks(slot)]
    np.testing.assert_allclose(torch.cat([c.X for c in chunks]), U, rtol=1e-12)
    np.testing.assert_allclose(torch.cat([c.y for c in chunks]), t, rtol=1e-12)
    held = np.array([4, 10, 500])
    assert rows.take(held).X.shape == (2, D)
    rest = rows.without(held)
    assert rest.count == N - 3
    assert sum(len(c.y) for slot in rest.slots for c in rest.chunks(slot)) == N - 3
    assert len(rest.sample(N, 0).y) == N - 3
    halves = [streamed(X, y, Ranks(rank, 2)) for rank in range(2)]
    assert sum(len(c.y) for half in halves for slot in half.slots for c in half.chunks(slot)) == N - 1


def test_worker_threads_change_no_bit():
    X, y = table(3000)
    data = Data(torch.from_numpy(X), torch.from_numpy(y / 40))
    model = Model(MLP((3, 2)))
    trainer = SparseTrainer(Sparse(inducing=20), torch.Generator().manual_seed(0), Workers(1))
    run = _Run(trainer, model, MemoryRows(data), 0, np.inf, nobody, None)
    trained = run.train("own", 1)
    values = map_leaves(lambda leaf: leaf[0], trained.posterior.values)
    layout, theta, _ = run.placement.best(values, run.rows, 20, first=False)
    workers = Workers(2)
    try:
        torch.set_num_threads(1)
        results = [BoundObjective(model, layout, {}, MemoryRows(data), workers=w).evaluate(theta) for w in (None, workers)]
    finally:
        workers.close()
    assert results[0][0] == results[1][0]
    np.testing.assert_array_equal(results[0][1], results[1][1])


# --------------------------------------------------------------------------------------------------------------- estimators


def test_files_memory_maps_and_arrays_give_the_same_model(tmp_path):
    X, y = table()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    settings = small(features=(3, 2), max_iter=2, restarts=1)  # more would let rounding grow
    from_files = manifold(**settings).fit(FileRows(written(tmp_path, X, y), "y"))
    mapped = manifold(**settings).fit(*(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy"))
    in_memory = manifold(**settings).fit(X, y)
    assert mapped.method_ == from_files.method_ == "sparse"
    for other in (mapped, in_memory):
        assert other.nlml_ == pytest.approx(from_files.nlml_, rel=1e-6)
    mean, std = in_memory.predict(X[:20], return_std=True)
    np.testing.assert_allclose(mapped.predict(X[:20]), mean, rtol=1e-4, atol=1e-3)
    assert list(from_files.feature_names_in_) == ["x0", "x1", "x2"]
    assert (std > 0).all()


def test_auto_is_exact_up_to_its_limit_and_says_when_it_is_not(monkeypatch):
    X, y = table(120)
    settings = small(method="auto", max_iter=2, restarts=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert manifold(**settings).fit(X, y).method_ == "exact"
    for average in ("Averaging", "Stack"):
        monkeypatch.setattr(f"manifoldgp.averaging.{average}.exact_up_to", 100)
        monkeypatch.setattr(f"manifoldgp.averaging.{average}.local_up_to", 0)
    with pytest.warns(
        FitWarning, match="120 rows: method='auto' trains the sparse model with up to 512 inducing points"
    ) as caught:
        model = manifold(**settings).fit(X, y)
    assert caught[0].filename == __file__
    assert model.method_ == "sparse"
    assert "method='auto'" in str(model.diagnose())
    assert manifold(**small(method="exact", max_iter=2, restarts=1)).fit(X, y).method_ == "exact"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"averaging": "restarts"}, "averaging='restarts' needs method='exact'"),
        ({"optimizer": "l-bfgs-b"}, "optimizer='l-bfgs-b' needs method='exact'"),
        ({"shared_features": True}, "shared_features=True needs method='exact'"),
        ({"averaging": Stack(own_members=3, gp_starts=1, polish=2)}, "gp_starts=1, polish=2 needs method='exact'"),
    ],
)
def test_auto_stays_exact_where_only_the_exact_method_can(more, said, monkeypatch, tmp_path):
    for average in ("Averaging", "Stack"):
        monkeypatch.setattr(f"manifoldgp.averaging.{average}.exact_up_to", 50)
        monkeypatch.setattr(f"manifoldgp.averaging.{average}.local_up_to", 0)
    X, y = table(60)
    y = np.column_stack([y, -y]) if "shared_features" in more else y
    model = manifold(
        **(more if isinstance(more.get("averaging"), Stack) else small(method="auto", max_iter=2, restarts=2, **more))
    )
    np.save(tmp_path / "X.npy", X)
    for inputs in (X, np.load(tmp_path / "X.npy", mmap_mode="r")):
        with pytest.warns(FitWarning, match=f"60 rows: method='auto' stays exact, .*{said}"):
            model.fit(inputs, y)
        assert model.method_ == "exact"


def test_a_sparse_stack_holds_out_whole_groups(tmp_path, monkeypatch):
    X, y = table(60)
    np.save(tmp_path / "X.npy", X)
    groups, held = np.arange(60) // 5, []
    taken = MemoryRows.take
    monkeypatch.setattr(MemoryRows, "take", lambda rows, numbers: (held.append(numbers), taken(rows, numbers))[1])
    model = short_stack()
    predicted = model.fit(X, y, groups=groups).predict(X)
    np.testing.assert_array_equal(np.unique(groups[held[0]], return_counts=True)[1], [5, 5])  # two whole groups of twelve
    assert len(model.held_out_[0].pit) == 10
    for rows in ((np.load(tmp_path / "X.npy", mmap_mode="r"), y), (ArrayRows(X, y),)):
        np.testing.assert_allclose(model.fit(*rows, groups=groups).predict(X), predicted, rtol=1e-6)
    with pytest.raises(InputError, match=r"groups must hold one label a row, shape \(60,\); got \(59,\)"):
        model.fit(ArrayRows(X, y), groups=groups[1:])
    with pytest.raises(InputError, match="groups holds one label only"):
        model.fit(X, y, groups=np.zeros(60))


def test_held_out_rows_without_targets_are_refused():
    X, y = table(60)
    y[48:] = np.nan  # rows to come, in order of time
    with (
        pytest.warns(FitWarning, match="12 of 60 rows have a missing target"),
        pytest.raises(InputError, match="None of the 12 rows that a stack holds out has a target"),
    ):
        short_stack().fit(ArrayRows(X, y), ordered=True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"inducing": 0}, "inducing must be a whole number"),
        ({"averaging": "nuts"}, "averaging='nuts' needs method='exact'"),
        ({"optimizer": "hessian-free"}, "a sparse single model obeys restarts, max_iter and warm_start_from alone"),
        ({"inducing": 10**7}, "inducing points need .* GiB"),
    ],
)
def test_what_the_sparse_method_cannot_do_is_told(more, said):
    with pytest.raises(InputError, match=said):
        manifold(**small(**more)).fit(*table(60))


def test_sources_and_exact_models_do_not_mix():
    X, y = table(60)
    with pytest.raises(InputError, match="read by the sparse method only"):
        manifold(**small(method="exact")).fit(ArrayRows(X, y))
    with pytest.raises(InputError, match="brings its own targets"):
        manifold(**small()).fit(ArrayRows(X, y), y)
    with pytest.raises(InputError, match="shared_features=True needs method='exact'"):
        manifold(**small(shared_features=True)).fit(X, np.column_stack([y, y]))


def test_a_sparse_model_is_saved_loaded_and_updated(tmp_path):
    X, y = table(300)
    model = manifold(**small(features=(3, 2), mean="constant")).fit(X[:250], y[:250])
    model.save(tmp_path / "model.mgp")
    loaded = manifoldgp.load(tmp_path / "model.mgp")
    assert (loaded.method_, loaded.method) == ("sparse", Sparse(inducing=30))
    for a, b in zip(loaded.predict(X, return_std=True), model.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)
    before = model.log_predictive_density(X[250:], y[250:]).mean()
    for m in (model, loaded):
        m.update(X[250:], y[250:])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert model.ensembles_[0].blocks[0].rows == 300
    assert model.log_predictive_density(X[250:], y[250:]).mean() > before
    again = clone(model).set_params(averaging__warm_start_from=model, averaging__restarts=1, averaging__max_iter=0).fit(X, y)
    assert np.isfinite(again.nlml_)
    assert "30 inducing points" in str(model.diagnose())


def test_several_targets_have_models_of_their_own():
    X, y = table(200)
    model = manifold(**small(features=(3, 2), max_iter=8)).fit(X, np.column_stack([y, -2 * y]))
    mean = model.predict(X)
    assert mean.shape == (200, 2)
    assert np.corrcoef(mean[:, 0], mean[:, 1])[0, 1] < -0.9


def test_known_noise_reaches_the_sparse_model():
    X, y = table(200)
    noise = np.where(np.arange(200) % 2, 100.0, 1.0)
    noisy = y + noise * np.random.default_rng(5).normal(size=200)
    model = GPRegressor(noise="known", method=Sparse(inducing=30), max_iter=15, restarts=2).fit(X, noisy, noise_std=noise)
    error = np.abs(model.predict(X) - y)
    exact = GPRegressor(noise="known", restarts=2, method="exact").fit(X, noisy, noise_std=noise)
    assert error.mean() < 1.3 * np.abs(exact.predict(X) - y).mean()


@pytest.mark.parametrize("averaging", ["single", "stack"])
def test_a_bound_is_in_units_of_y_for_the_rows_it_is_of(averaging, tmp_path):
    X, y = table(300)
    new = (lambda: short_stack()) if averaging == "stack" else (lambda: manifold(**small(features=(3, 2), max_iter=3)))
    plain, scaled = (new().fit(X, factor * y) for factor in (1, 64))  # a power of two changes no bit
    block = scaled.ensembles_[0].blocks[0]
    rows = 300 if averaging == "single" else 240  # a fifth is held out
    assert (block.rows, block.bound_rows) == (300, rows)
    assert scaled.nlml_ == pytest.approx(plain.nlml_ + rows * np.log(64), rel=1e-6)
    np.testing.assert_allclose(scaled.starts_["nlml"], plain.starts_["nlml"] + rows * np.log(64), rtol=1e-6)
    for one, other in zip(scaled.histories_, plain.histories_, strict=True):
        np.testing.assert_allclose(one, other + rows * np.log(64), rtol=1e-6)
    scaled.update(X[:7], 64 * y[:7]).save(tmp_path / "m.mgp")
    loaded = manifoldgp.load(tmp_path / "m.mgp").ensembles_[0].blocks[0]
    assert (loaded.rows, loaded.bound_rows) == (307, rows)


def test_starts_that_were_screened_have_the_units_of_few_rows():
    X, y = table(1500)
    settings = small(features=(3, 2), max_iter=1)
    plain, scaled = (manifold(**settings).fit(X, factor * y) for factor in (1, 64))  # a power of two changes no bit
    rows = np.where(scaled.starts_["chosen"], 1500, 1000)
    np.testing.assert_allclose(scaled.starts_["nlml"], plain.starts_["nlml"] + rows * np.log(64), rtol=1e-6)


def test_more_held_out_rows_that_like_the_features_leave_the_plain_gp_less():
    rng = np.random.default_rng(0)
    log_density = rng.normal(size=(1, 1, 400)) + np.array([0.0, 0.3])[:, None, None]
    cdf = np.full((2, 1, 400), 0.5)
    weights, report = Weighing((1.0,), gp_prior=0.05, spread_prior=0.001).weights(
        Candidates(["plain GP", "own"], log_density, cdf, np.zeros((2, 400)))
    )
    assert weights[0, 0] < 0.01  # the gain is beyond doubt: no pseudo-rows vote against it
    np.testing.assert_allclose(report.pit, 0.5)


def test_an_interruption_also_stops_the_targets_to_come():
    X, y = table(200)
    rounds = []

    def interrupt(iterations, values):
        rounds.append(int(iterations[0]))
        if len(rounds) == 3:
            raise KeyboardInterrupt

    model = manifold(**small(restarts=1, max_iter=50, callback=interrupt))
    with pytest.warns(FitWarning, match="interrupted"):
        model.fit(X, np.column_stack([y, -y]))
    assert len(rounds) == 4  # one round of the second target
    assert model.predict(X).shape == (200, 2)


# ------------------------------------------------------------------------------------------ training, interruption, checkpoints


class _Stop(Exception):
    pass


def run_of(X, y, tmp_path=None, watch=nobody, max_iter=12, memory=20):
    data = Data(torch.from_numpy((X - X.mean(0)) / X.std(0)), torch.from_numpy((y - y.mean()) / y.std()))
    checkpoint = None if tmp_path is None else Checkpoint(tmp_path / "fit.checkpoint", seconds=0.0)
    trainer = SparseTrainer(Sparse(inducing=25), torch.Generator().manual_seed(0), Workers(1))
    trainer.seed = 0
    schedule = Schedule(
        screen_rows=100, screen_inducing=10, screen_iterations=3, stages=(Stage(200, 0.5, 0.3), Stage(None, 1.0, 1.0)), rechoose=5,
        memory=memory,
    )  # fmt: skip
    trainer.generator.manual_seed(0)
    trainer.schedule = schedule
    return _Run(trainer, Model(MLP((3, 2))), MemoryRows(data), max_iter, np.inf, watch, checkpoint)


def test_an_interruption_keeps_the_best_model_so_far():
    X, y = table()
    phases = []

    def interrupt(phase, iterations, values):
        phases.append(phase)
        if phase.startswith(f"{N} rows") and iterations[0] >= 4:
            raise KeyboardInterrupt

    with pytest.warns(FitWarning, match="interrupted; the best model so far is kept"):
        trained = run_of(X, y, watch=interrupt).train("own", 2)
    assert phases[0] == "start 1 of 2"
    assert trained.posterior.rows == N
    assert np.isfinite(float(trained.posterior.bound[0]))


def killed_after(evaluations, X, y, tmp_path, **more):
    """Train with a checkpoint until so many bounds were computed, and leave in their midst."""
    asked = []

    def die(self, theta):
        asked.append(theta)
        if len(asked) > evaluations:
            raise _Stop
        return compute(self, theta)

    compute = BoundObjective._computed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BoundObjective, "_computed", die)
        with pytest.raises(_Stop):
            run_of(X, y, tmp_path, **more).train("own", 2)


def assert_same_training(one, other):
    """Two trainings that went the same way to the last bit."""
    for name in ("theta", "value", "iterations", "evaluations"):
        np.testing.assert_array_equal(getattr(one.result, name), getattr(other.result, name))
    assert one.result.history == other.result.history
    assert one.result.status.tolist() == other.result.status.tolist()
    for name in ("Z", "alpha", "L", "LB", "bound"):
        assert torch.equal(getattr(one.posterior, name), getattr(other.posterior, name))


@pytest.mark.parametrize("evaluations", [0, 3, 9, 20, 33])
def test_a_killed_fit_ends_like_one_that_was_not_killed_to_the_last_bit(tmp_path, evaluations, monkeypatch):
    X, y = table()
    whole = run_of(X, y).train("own", 2)
    killed_after(evaluations, X, y, tmp_path)
    computed, compute = [], BoundObjective._computed
    monkeypatch.setattr(BoundObjective, "_computed", lambda self, theta: (computed.append(1), compute(self, theta))[1])
    with pytest.warns(FitWarning, match="going on from the checkpoint"):
        resumed = run_of(X, y, tmp_path).train("own", 2)
    assert_same_training(resumed, whole)
    assert len(computed) == whole.result.evaluations.sum() - evaluations  # nothing is computed twice
    computed.clear()
    with pytest.warns(FitWarning, match="going on from the checkpoint"):
        again = run_of(X, y, tmp_path).train("own", 2)
    assert not computed  # a member that is done is not trained again
    assert_same_training(again, whole)


def test_a_fit_that_is_killed_twice_and_whose_file_ends_in_the_middle_of_a_record_ends_the_same(tmp_path):
    X, y = table()
    whole = run_of(X, y).train("own", 2)
    path = tmp_path / "fit.checkpoint"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        for _ in range(2):
            killed_after(11, X, y, tmp_path)
            path.write_bytes(path.read_bytes()[:-5])
        resumed = run_of(X, y, tmp_path).train("own", 2)
    assert_same_training(resumed, whole)


def test_every_damage_of_a_checkpoint_is_refused_or_computed_anew(tmp_path):
    X, y = table(300)
    whole = run_of(X, y).train("own", 2)
    killed_after(20, X, y, tmp_path)
    path = tmp_path / "fit.checkpoint"
    data, rng = path.read_bytes(), np.random.default_rng(0)

    def damage(position):
        damaged = bytearray(data)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))

    for position in (3, 25, 33, 40):
        damage(position)
        with pytest.raises(FileFormatError, match="is damaged"):
            run_of(X, y, tmp_path).train("own", 2)
    for position in rng.integers(60, len(data), size=5):
        damage(position)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            assert_same_training(run_of(X, y, tmp_path).train("own", 2), whole)


def test_answers_to_other_questions_are_left_out(tmp_path):
    """As from another version, whose minimiser takes other steps: from there on the points are not those that are asked for."""
    X, y = table(300)
    killed_after(20, X, y, tmp_path)
    with pytest.warns(FitWarning) as told:
        other = run_of(X, y, tmp_path, memory=1).train("own", 2)
    assert any("another way of training" in str(warning.message) for warning in told)
    with pytest.warns(FitWarning, match="going on from the checkpoint"):  # the file now tells of this way
        assert_same_training(run_of(X, y, tmp_path, memory=1).train("own", 2), other)


def test_a_full_disk_ends_the_checkpoint_and_not_the_training(tmp_path, monkeypatch):
    X, y = table(300)

    def full(self, records):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Checkpoint, "_append", full)
    with pytest.warns(FitWarning, match=r"can no longer be written \(No space left on device\); training goes on without it"):
        trained = run_of(X, y, tmp_path).train("own", 2)
    assert_same_training(trained, run_of(X, y).train("own", 2))


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path):
    X, y = table(300)
    path = tmp_path / "fit.checkpoint"
    for content in (b"", b"nothing", b"manifoldgp-checkpoint 2\n" + b"\xff" * 8, b"manifoldgp-checkpoint 2\n" + bytes(100)):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="not a checkpoint"):
            run_of(X, y, tmp_path).train("own", 1)
        assert path.read_bytes() == content


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    X, y = table(200)

    def die_late(iterations, values):
        if len(list(tmp_path.iterdir())) > 1:
            raise _Stop

    killed = small(checkpoint=str(tmp_path / "c"), max_iter=3)
    targets = np.column_stack([y, y[::-1]])
    with pytest.raises(_Stop):  # while the second target is trained
        manifold(**killed, callback=die_late).fit(X, targets)
    others = [
        ({}, X, targets[:, ::-1], "some rows of y"),
        ({}, X[::-1], targets, "some rows of X"),
        ({}, X[:150], targets[:150], "rows, some rows of X, some rows of y, scale of X"),
        ({"inducing": 20}, X, targets, "inducing"),
        ({"max_iter": 4}, X, targets, "max_iter"),
        ({"restarts": 3}, X, targets, "restarts"),
        ({"random_state": 1}, X, targets, "seed"),
        ({"kernel": "matern52"}, X, targets, "model"),
    ]
    for more, inputs, outputs, names in others:
        with pytest.raises(InputError, match=f"belongs to another fit: it differs in .*{names}.*Remove the file"):
            manifold(**{**killed, **more}).fit(inputs, outputs)
    with pytest.warns(FitWarning, match="going on from the checkpoint"):
        resumed = manifold(**killed).fit(X, targets)
    assert np.isfinite(resumed.nlml_)
    assert not list(tmp_path.iterdir())


def test_the_estimator_removes_its_checkpoints(tmp_path):
    X, y = table(200)
    manifold(**small(checkpoint=str(tmp_path / "c"), max_iter=3)).fit(X, y)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("how", "calls", "restarts"), [("Ctrl-C", 4, 1), ("callback", 3, 2), ("callback", 8, 1)])
def test_a_fit_that_is_stopped_keeps_what_it_needs_to_go_on_and_then_ends_like_one_that_was_not(tmp_path, how, calls, restarts):
    X, y = table(200)
    place, asked = str(tmp_path / "c"), []

    def stop(iterations, values):
        asked.append(iterations.max())
        if len(asked) < calls:
            return False
        if how == "Ctrl-C":
            raise KeyboardInterrupt
        return True

    whole = manifold(**small(max_iter=12, restarts=restarts)).fit(X, y)
    with pytest.warns(FitWarning) as said:
        stopped = manifold(**small(checkpoint=place, max_iter=12, restarts=restarts), callback=stop).fit(X, y)
    assert "goes on from the checkpoint" in str(said[-1].message)
    assert np.isfinite(stopped.predict(X)).all()
    assert list(tmp_path.iterdir())
    with pytest.warns(FitWarning, match="going on from the checkpoint") as told:
        resumed = manifold(**small(checkpoint=place, max_iter=12, restarts=restarts)).fit(X, y)
    assert not [w for w in told if "another way of training" in str(w.message)]
    np.testing.assert_array_equal(resumed.predict(X), whole.predict(X))
    assert not list(tmp_path.iterdir())


def test_a_time_budget_is_kept():
    import time

    X, y = table(2000)
    begin = time.perf_counter()
    model = manifold(**small(max_iter=100_000, time_budget=1.0, inducing=50)).fit(X, y)
    assert time.perf_counter() - begin < 8.0
    assert "time limit" in set(model.starts_["status"])


# ------------------------------------------------------------------------------------------------------------------- memory

_MEMORY = """
import json, resource, sys
import numpy as np, torch
torch.set_num_threads(1)
from manifoldgp.features import MLP
from manifoldgp.model import Model
from manifoldgp.parameters import Layout, Parameter, constant_law, map_leaves, nest
from manifoldgp.data import ArrayRows, survey
from manifoldgp.training.sparse_objective import BoundObjective
from manifoldgp.training.model_rows import StreamedRows

X, y = (np.load(sys.argv[1] + name, mmap_mode="r") for name in ("/X.npy", "/y.npy"))
peaks = []
for N in (20_000, 200_000):
    source = ArrayRows(X[:N], y[:N])
    rows = StreamedRows(source, *survey(source, 0, N).standardizers(4), rows=N)
    model, few = Model(MLP((4, 2))), rows.sample(1000, 0)
    layout, drawn = model.draw(few, torch.Generator().manual_seed(0), 1)
    values = map_leaves(lambda leaf: leaf[0], drawn)
    Z = model.features(values["features"], few.X)[:64].clone()
    layout = Layout({**nest(dict(layout.parameters)), "inducing": {"Z": Parameter(tuple(Z.shape), constant_law(Z))}})
    theta = layout.flatten({**values, "inducing": {"Z": Z}}).numpy()
    BoundObjective(model, layout, {}, rows, kept_bytes=2**24).evaluate(theta)
    peaks.append(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(json.dumps(peaks))
"""


def test_memory_does_not_grow_with_the_rows(tmp_path):
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float64, (200_000, 4))
    X[:] = rng.normal(size=X.shape)
    X.flush()
    np.save(tmp_path / "y.npy", np.sin(X[:, 0]))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(tmp_path)], capture_output=True, text=True, timeout=200, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    few, many = json.loads(done.stdout)
    # Ten times the rows: the pages of the mapped files (8 MB) may stay in memory, K_ZH of all rows would take 100 MB.
    assert many - few < 40e6
