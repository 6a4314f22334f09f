"""The experiments: one Config in, one Result out; plans, resumable runs, tables, checks."""

from __future__ import annotations

import csv
import io
import math
import os
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from manifoldgp import GPRegressor
from manifoldgp.averaging import as_averaging
from manifoldgp.data import Dataset, step_function, walker
from manifoldgp.errors import InputError
from paper import run as runner
from paper.checks import checks
from paper.experiment import METRICS, Config, Experiment
from paper.functions import POINTS, SIDE, STEP_GRID, as_fields, bandwidth, horizontal_spectrum, principal_features
from paper.outcome import gather
from paper.plan import EXPERIMENTS, experiment_of, make_plan
from paper.run import read_result, result_path, run, run_one, write_result
from paper.tables import make_tables, show, tables_as_csv, tables_as_markdown
from paper.walking import stride_phase
from synthetic_outcome import icub_file, made_up_outcome, made_up_result

TINY = {"restarts": 1, "max_iter": 5}


# ---- one method on one draw


def test_scores_are_those_of_the_fitted_model():
    result = run_one(Config("step", "gp-se", seed=3, **TINY))
    data = step_function(3)
    model = GPRegressor("se", random_state=3, **TINY).fit(data.X_train, data.y_train)
    mean, std = model.predict(data.X_test, return_std=True)
    density = -0.5 * ((data.y_test - mean) / std) ** 2 - np.log(std) - 0.5 * math.log(2 * math.pi)
    assert result.scores["nlpp"] == pytest.approx(-density.mean(), rel=1e-6)
    assert result.scores["test_rmse"] == pytest.approx(np.sqrt(np.mean((data.y_test - mean) ** 2)), rel=1e-6)
    assert result.scores["nlml"] == pytest.approx(model.nlml_ / 100, rel=1e-6)
    inside = np.abs(data.y_test - mean) <= 1.959964 * std
    assert result.scores["coverage"] == pytest.approx(inside.mean(), abs=0.003)
    assert result.seconds > 0
    assert "GPRegressor" in result.estimator


def test_walks_are_scored_in_units_of_the_training_targets():
    result = run_one(Config("walker", "pca", seed=0, **TINY))
    data = walker()
    model = experiment_of("walker").method("pca").build(Config("walker", "pca", seed=0, **TINY)).fit(data.X_train, data.y_train)
    unit = data.y_train.std()
    assert unit > 10  # degrees: the units matter
    assert result.scores["test_rmse"] == pytest.approx(
        np.sqrt(np.mean((data.y_test - model.predict(data.X_test)) ** 2)) / unit, rel=1e-5
    )
    expected = -model.log_predictive_density(data.X_test, data.y_test).mean() - math.log(unit)
    assert result.scores["nlpp"] == pytest.approx(expected, abs=1e-5)
    assert result.scores["nlml"] == pytest.approx(model.nlml_ / 400 - math.log(unit), abs=1e-5)


def test_an_average_has_no_marginal_likelihood():
    result = run_one(Config("step", "mgp-restarts", seed=0, restarts=2, max_iter=5))
    assert result.scores["nlml"] is None
    assert math.isfinite(result.scores["nlpp"])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("key", "method"), [("step", "mgp-sigmoid"), ("bumps", "mgp-identity"), ("smooth", "gp-se")])
def test_pictures_have_the_shape_that_figures_expect(key: str, method: str):
    config = Config(key, method, seed=0, restarts=1, max_iter=2)
    found, expected = run_one(config).picture, made_up_result(config).picture
    assert {name: np.shape(v) for name, v in found.items()} == {name: np.shape(v) for name, v in expected.items()}


def every_method(experiment: Experiment, seeds: int) -> dict[tuple[str, str], int]:
    """A plan in which every method has so many seeds."""
    return {(experiment.key, method.key): seeds for method in experiment.methods}


CITED = {
    "ica", "isomap", "lle", "linear", "autoencoder", "mgp-pretrained", "mgp-guided", "warped-inputs", "warped-outputs", "noisy-inputs", "periodic", "spectral-mixture",
    "kernel-search", "deep-gp",
}  # fmt: skip
NEED_SEVERAL_INPUTS = {"ica", "isomap", "lle", "linear"}


def test_every_experiment_has_its_methods_and_the_papers_rows():
    for experiment in EXPERIMENTS:
        keys = [m.key for m in experiment.methods]
        assert len(set(keys)) == len(keys)
        assert keys[-2:] == ["mgp-restarts", "stack"]
        cited = [m for m in experiment.methods if m.cites]
        assert set(experiment.paper) == set(keys[:-2]) - {m.key for m in cited}
        missing = NEED_SEVERAL_INPUTS if experiment.key in ("step", "smooth") else set()
        missing = missing | ({"deep-gp"} if find_spec("gpytorch") is None else set())
        assert {m.key for m in cited} == CITED - missing
        (table,) = make_tables([experiment], [], every_method(experiment, 1))
        assert all(f"{m.label} ({m.cites})" in table.note for m in cited)
        for method in experiment.methods:
            model = method.build(Config(experiment.key, method.key, 0, 3))
            if method.key == "kernel-search":
                assert (model.depth, model.random_state) == (3, 0)
                continue
            if method.key == "deep-gp":
                assert (model.layers, model.random_state) == (2, 0)
                continue
            expected = {"mgp-restarts": "restarts", "stack": "stack"}.get(method.key, "single")
            assert as_averaging(model.averaging).shorthand() == expected


def test_kernel_search_is_a_single_model_with_an_evidence_and_no_row_in_the_paper():
    config = Config("step", "kernel-search", seed=0, **TINY)
    result = run_one(config)
    assert result.scores["nlml"] is not None
    assert math.isfinite(result.scores["nlpp"])  # pyright: ignore[reportArgumentType]
    assert "KernelSearch" in result.estimator
    (table,) = make_tables([experiment_of("step")], [result], every_method(experiment_of("step"), 1))
    row = table.row("kernel-search")
    assert (row.restarts, row.ours, row.cells["nlpp"].paper) == (None, False, None)
    assert "not tabulated" in table.note


def test_a_deep_gp_has_a_bound_in_place_of_an_evidence_and_no_row_in_the_paper():
    pytest.importorskip("gpytorch", reason="needs the extra [gpytorch]")
    result = run_one(Config("step", "deep-gp", seed=0, restarts=1, max_iter=1))
    assert all(math.isfinite(result.scores[score]) for score in ("nlml", "nlpp"))  # pyright: ignore[reportArgumentType]
    (table,) = make_tables([experiment_of("step")], [result], every_method(experiment_of("step"), 1))
    row = table.row("deep-gp")
    assert (row.restarts, row.ours, row.cells["nlpp"].paper) == (None, False, None)
    assert "Deep GPs" in table.note


@pytest.mark.parametrize("method", sorted(CITED - {"kernel-search", "deep-gp"}))
def test_what_the_paper_cites_is_a_single_model_with_an_evidence_and_no_row_in_the_paper(method: str):
    experiment = "bumps" if method in NEED_SEVERAL_INPUTS else "step"
    result = run_one(Config(experiment, method, seed=0, **TINY))
    assert result.scores["nlml"] is not None
    assert math.isfinite(result.scores["nlpp"])  # pyright: ignore[reportArgumentType]
    (table,) = make_tables([experiment_of(experiment)], [result], every_method(experiment_of(experiment), 1))
    row = table.row(method)
    assert (row.restarts, row.ours, row.cells["nlpp"].paper) == (TINY["restarts"], False, None)


def test_the_papers_nlpp_of_the_step_is_read_as_a_mean_over_test_points():
    row = experiment_of("step").paper["mgp-sigmoid"]
    assert row.nlpp == -6.34e-3
    assert row.value("nlpp") == pytest.approx(-3.17)
    assert experiment_of("bumps").paper["mgp-sigmoid"].value("nlpp") == -7.37


def test_unknown_experiment():
    with pytest.raises(InputError, match=r"no experiment 'sine'; choose from step, bumps"):
        experiment_of("sine")


# ---- runs


def test_a_run_keeps_its_results_reports_failures_and_repeats_nothing(tmp_path):
    good = [Config("step", method, 0, **TINY) for method in ("gp-se", "gp-nn")]
    bad = Config("recording", "gp-se", 0, 1, recording=str(tmp_path / "missing.csv"))
    configs = [good[0], bad, good[1]]
    seen = []
    results, failures = run(
        configs, tmp_path, processes=1, done=lambda config, seconds: seen.append((config, seconds is not None))
    )
    assert [r.config for r in results] == good
    assert [f.config for f in failures] == [bad]
    assert failures[0].message.startswith("InputError: ")
    assert "missing.csv" in failures[0].message
    assert set(seen) == {(good[0], True), (good[1], True), (bad, False)}
    assert not list(tmp_path.rglob(".partial*"))
    stamps = [result_path(tmp_path, c).stat().st_mtime_ns for c in good]
    again, failures = run(good, tmp_path, processes=1, done=lambda config, seconds: seen.append((config, seconds is not None)))
    assert failures == []
    assert again == results
    assert seen[3:] == [(c, False) for c in good]  # read, not computed
    assert [result_path(tmp_path, c).stat().st_mtime_ns for c in good] == stamps


def test_results_count_for_the_same_settings_and_data_alone_wherever_a_recording_lies(tmp_path):
    config = Config("icub", "gp-se", 0, 1, recording="/here.csv", recording_sha256="aa")
    write_result(tmp_path, replace(made_up_result(Config("step", "gp-se", 0, 1)), config=config))
    assert read_result(tmp_path, replace(config, recording="/there.csv")) is not None
    assert read_result(tmp_path, replace(config, recording_sha256="bb")) is None
    assert read_result(tmp_path, replace(config, version="9")) is None
    assert read_result(tmp_path, replace(config, restarts=2)) is None
    assert read_result(tmp_path, replace(config, seed=1)) is None


def test_a_damaged_result_is_refused(tmp_path):
    config = Config("step", "gp-se", 0, 1)
    write_result(tmp_path, made_up_result(config))
    result_path(tmp_path, config).write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"seed-000.json is not a result of this program .* --fresh"):
        read_result(tmp_path, config)


def test_processes_keep_to_one_thread_and_the_environment_is_restored():
    before = os.environ.get("OMP_NUM_THREADS")
    with runner._one_thread_each(), runner._workers(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 1
        assert pool.submit(os.getenv, "OPENBLAS_NUM_THREADS").result() == "1"
    assert os.environ.get("OMP_NUM_THREADS") == before


# ---- plans


def test_quick_and_full_plans(tmp_path):
    icub_file(tmp_path)
    quick = make_plan(tmp_path, quick=True, data_dir=tmp_path)
    assert {e.key for e in quick.experiments} == {"step", "bumps", "walker", "icub", "smooth"}
    assert max(c.seed for c in quick.configs) <= 4
    assert {c.seed for c in quick.configs if c.method in ("linear", "autoencoder")} == {0}
    assert not {c.method for c in quick.configs} & {"deep-gp", "kernel-search"}
    (remark,) = quick.remarks
    assert "Kernel search" in remark
    assert "Linear projection" not in remark
    full = make_plan(tmp_path, only=("step", "bumps", "smooth", "icub"), data_dir=tmp_path)
    seeds = {e.key: len({c.seed for c in full.configs if c.experiment == e.key}) for e in full.experiments}
    assert seeds == {"step": 20, "bumps": 20, "smooth": 20, "icub": 5}
    assert {c.restarts for c in full.configs if c.experiment == "step"} == {20}
    assert {c.restarts for c in full.configs if c.experiment == "bumps"} == {5}


def test_a_table_has_the_methods_of_its_plan_and_counts_their_own_seeds(tmp_path):
    plan = make_plan(tmp_path, quick=True, only=("step",))
    table = gather(plan, [made_up_result(config) for config in plan.configs], [], 1.0).table("step")
    assert {row.method: row.seeds for row in table.rows}["autoencoder"] == 1
    assert {row.method: row.seeds for row in table.rows}["stack"] == 5
    assert not any(row.failed for row in table.rows)
    assert "deep-gp" not in {row.method for row in table.rows}
    assert "Deep GP" not in table.note


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    plan = make_plan(tmp_path, quick=True)
    assert any("iCub" in remark and "--data-dir" in remark for remark in plan.remarks)
    assert "icub" not in {e.key for e in plan.experiments}
    with pytest.raises(InputError, match="name its folder with --data-dir"):
        make_plan(tmp_path, only=("icub",))
    with pytest.raises(InputError, match="name it with --walk"):
        make_plan(tmp_path, only=("recording",))
    with pytest.raises(InputError, match="at least one seed, got 0"):
        make_plan(tmp_path, seeds=0)
    monkeypatch.setattr("paper.plan.util.find_spec", lambda name: None)
    plan = make_plan(tmp_path, seeds=3, only=("walker",))
    assert {c.seed for c in plan.configs} == {0}
    assert "manifoldgp[sim]" in plan.remarks[0]


def test_an_unusable_walk_is_refused_before_anything_runs(tmp_path):
    path = tmp_path / "walk.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"walk.csv lacks the columns"):
        make_plan(tmp_path, walk=path)


def test_further_walks_are_simulated_once(tmp_path):
    pytest.importorskip("mujoco", reason="needs the extra sim")
    plan = make_plan(tmp_path, seeds=2, only=("walker",))
    path = tmp_path / "walks" / "walker-seed-001.csv"
    assert {c.recording for c in plan.configs} == {None, str(path)}
    stamp = path.stat().st_mtime_ns
    again = make_plan(tmp_path, seeds=2, only=("walker",))
    assert again.configs == plan.configs
    assert path.stat().st_mtime_ns == stamp
    other = experiment_of("walker").dataset(plan.configs[-1])
    assert not np.array_equal(other.y_train, walker().y_train)


# ---- tables and checks


def test_tables_have_median_and_worst_beside_the_papers_value():
    outcome = made_up_outcome(seeds=3, keys=("step",))
    row = outcome.table("step").row("gp-nn")
    cell = row.cells["nlpp"]
    assert (cell.best, cell.median, cell.worst) == pytest.approx((-12.0, -11.9, -11.8))
    assert cell.printed == 0.02e-3
    assert cell.paper == pytest.approx(0.01)
    assert (row.seeds, row.failed, row.restarts, row.seconds) == (3, 0, 2, 1.5)
    assert outcome.table("step").row("stack").cells["nlml"].median is None
    assert outcome.table("step").row("stack").cells["nlpp"].paper is None


def test_seeds_without_a_result_count_as_failed():
    results = [made_up_result(Config("smooth", "gp-se", 0, 2))]
    (table,) = make_tables([experiment_of("smooth")], results, every_method(experiment_of("smooth"), 4))
    assert table.row("gp-se").failed == 3
    assert table.row("stack").cells["nlpp"].median is None
    assert "0 (4 failed)" in tables_as_markdown([table])


def test_csv_and_markdown_say_the_same():
    tables = made_up_outcome(seeds=3, keys=("step", "smooth")).tables
    lines = list(csv.DictReader(io.StringIO(tables_as_csv(tables))))
    assert len(lines) == sum(len(experiment_of(key).methods) for key in ("step", "smooth")) * len(METRICS)
    line = next(x for x in lines if (x["experiment"], x["method"], x["metric"]) == ("step", "mgp-sigmoid", "nlpp"))
    assert float(line["median"]) == pytest.approx(-19.9)
    assert float(line["paper"]) == pytest.approx(-3.17)
    assert float(line["paper_printed"]) == -6.34e-3
    assert "| mGP (log-sigmoid) | -2.84 | -19.90 (-19.80) |" in tables_as_markdown(tables)


@pytest.mark.parametrize(
    ("value", "metric", "text"),
    [(None, "nlpp", "–"), (12345.6, "nlpp", "1.2e4"), (0.5, "test_rmse", "0.500"), (1e-12, "train_rmse", "1.00e-12")],
)
def test_numbers_as_shown(value, metric, text):
    assert show(value, metric) == text


def test_bars_and_claims_follow_the_numbers():
    outcome = made_up_outcome()
    verdict = {c.text: c.held for c in outcome.checks}
    assert verdict["Step function: train NLML of mGP (log-sigmoid)"] is True
    assert verdict["Multiple length-scales: test RMSE of mGP (log-sigmoid)"] is True
    assert verdict["The mGP models the walk better than the other models (Walking robot, simulated)"] is True
    # Made-up scores put the identity network ahead of the neural network kernel, which Table I does not.
    assert verdict["Step function: the order of Table I in test NLPP"] is False
    assert verdict["Linear features (identity, random embedding) perform like the SE-ARD GP"] is False
    # ... and the neural network kernel ahead of the squared exponential, which Table II does not.
    assert verdict["Multiple length-scales: the order of Table II in train NLML"] is False
    assert verdict["Learned features have a more compact spectrum than the function"] is True
    assert [c.kind for c in outcome.checks] == sorted(c.kind for c in outcome.checks)


def test_a_missed_bar_and_a_missing_result():
    results = [
        replace(r, scores=r.scores | {"nlpp": -4.2 if r.config.method == "mgp-sigmoid" else -4.25})
        for r in made_up_outcome(keys=("smooth",)).results
    ]
    smooth = experiment_of("smooth")
    held = {c.text: c.held for c in checks(make_tables([smooth], results, every_method(smooth, 3)), results)}
    assert held == {
        "Smooth function: test NLPP of mGP (log-sigmoid)": False,
        "Smooth function: test NLPP of the mGP within 0.02 of the plain GP's": False,
        "No relevant difference between mGP and GP on a smooth function": False,
    }
    empty = checks(make_tables([smooth], [], every_method(smooth, 3)), [])
    assert {c.held for c in empty} == {None}
    assert {c.observed for c in empty} == {"no result"}


# ---- spectra and phases


def test_bandwidth_of_a_sinusoid_and_of_its_sum_with_a_faster_one():
    x1 = np.linspace(0, SIDE, POINTS)[:, None] + np.zeros(POINTS)
    slow, fast = np.sin(2 * np.pi * 0.5 * x1), np.sin(2 * np.pi * 1.5 * x1)
    frequency, power = horizontal_spectrum(slow[None])
    assert power.sum() == pytest.approx(1.0)
    assert bandwidth(frequency, power) == pytest.approx(0.6, abs=0.1)
    assert bandwidth(*horizontal_spectrum((slow + fast)[None])) == pytest.approx(1.5, abs=0.1)
    # Along x2 nothing is seen: the slices are horizontal.
    assert bandwidth(*horizontal_spectrum((slow + fast.T)[None])) == pytest.approx(0.6, abs=0.1)


def test_principal_features_keep_distances_and_put_the_widest_first():
    scaled = np.random.default_rng(0).standard_normal((40, 3)) * [0.1, 3.0, 1.0] + 7
    turned = principal_features(scaled)
    assert np.linalg.norm(turned[3] - turned[9]) == pytest.approx(np.linalg.norm(scaled[3] - scaled[9]))
    spread = turned.std(0)
    assert spread[0] > spread[1] > spread[2]
    assert (turned**3).sum(0).min() >= 0


def test_fields_follow_the_test_grid():
    X = experiment_of("bumps").dataset(Config("bumps", "gp-se", 0, 1)).X_test
    x1, x2 = as_fields(X)
    assert np.ptp(x1, axis=1).max() == 0
    assert np.ptp(x2, axis=0).max() == 0


def test_phase_of_the_stride_starts_at_each_landing_and_ignores_bounces():
    contact = np.zeros(200)
    for landing in range(10, 200, 40):
        contact[landing : landing + 20] = 1
    contact[52] = 0  # the foot bounces two rows after it has landed
    X = np.zeros((200, 5))
    X[:, -1] = contact
    data = Dataset("walk", X[:120], np.zeros(120), X[120:], np.zeros(80), tuple("abcde"), "y", "")
    phase = stride_phase(data)
    rows = np.arange(200)
    np.testing.assert_allclose(phase, ((rows - 10) / 40) % 1.0, atol=1e-12)
    standing = replace(data, X_train=np.ones((120, 5)), X_test=np.ones((80, 5)))
    assert not stride_phase(standing).any()


def test_the_grid_of_the_step_is_dense_in_the_gap():
    assert np.all(np.diff(STEP_GRID) > 0)
    near = STEP_GRID[np.abs(STEP_GRID) <= 0.1]
    assert np.diff(near).max() < 0.0026
