"""The benchmark command: what it measures is what it says, one real measurement of ours, and pages made from results."""

import ast
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import additive
import bars
import bench
import evaluation
import fits
import further_kinds
import growth
import levels
import memory
import page
import startup
import structure
import study
import study_many_rows
import ways
from libraries import LIBRARIES, OURS, Library
from manifoldgp import GPRegressor, ManifoldGPRegressor, Single
from manifoldgp.model import Data, Model
from problems import NETWORK, STEP_NETWORK, fixed_values, reference_nlml, smooth, starts, step
from processes import Crew, NotMeasured, Worker

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = [
    path for folder in ("benchmarks", "examples", "docs", "tests/programmes") for path in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_scripts_import_of_the_package_is_there(path):
    """Imports inside functions too, which nothing notices before the script has run for minutes."""
    imports = [
        node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom) and node.module
    ]
    for node in imports:
        if node.module.split(".")[0] in ("manifoldgp", "paper"):
            module = importlib.import_module(node.module)
            gone = [
                name.name
                for name in node.names
                if not hasattr(module, name.name) and not _is_module(f"{node.module}.{name.name}")
            ]
            assert not gone, f"{node.module} has no {', '.join(gone)}"


def _is_module(name):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True


@pytest.fixture(scope="module")
def crew():
    with Crew((OURS,)) as crew:
        yield crew


@pytest.mark.parametrize("network", [(), NETWORK], ids=["plain", "network"])
def test_a_worker_evaluates_the_same_nlml_as_numpy_and_times_it(crew, network):
    X, y = smooth(40)
    values = fixed_values(3, network)
    ready = crew.workers[OURS].ask("prepare", X=X.tolist(), y=y.tolist(), values=values)
    assert ready["nlml"] == pytest.approx(reference_nlml(X, y, values), abs=1e-6)
    timed = crew.workers[OURS].ask("evaluations", count=3)
    assert len(timed["seconds"]) == len(timed["floor"]) == 3
    assert min(timed["seconds"] + timed["floor"]) > 0


@pytest.mark.parametrize("network", [(), STEP_NETWORK], ids=["plain", "network"])
def test_peers_begin_where_our_estimators_begin(network):
    X, y = step()
    settings = {"restarts": 3, "max_iter": 0}
    model = ManifoldGPRegressor(network, averaging=Single(**settings)) if network else GPRegressor(**settings)
    with np.errstate(all="ignore"):
        drawn = model.fit(X, y).starts_["nlml"]
    given = [reference_nlml(X, y, values) for values in starts(X, y, 3, network)]
    np.testing.assert_allclose(drawn, given, rtol=1e-5)


def test_additive_kernels_are_timed_beside_the_squared_exponential():
    cells = additive.measure((40,), turns=1)
    assert [c["kernel"] for c in cells] == list(additive.KERNELS)
    assert min(min(c["ratio"], c["ms"], c["se_ms"]) for c in cells) > 0
    assert [bar.value for bar in additive.bars(cells)] == [cells[0]["ratio"]]


def test_a_fit_is_compared_by_the_nlml_of_its_final_parameters(crew):
    X, y = smooth(30)
    (cell,) = fits.compare(crew, (OURS,), "plain GP, N = 30", X, y, starts(X, y, 2), 1, reasons := {})
    assert not reasons
    assert cell["over_ours"] == 1.0
    assert cell["nlml"] == pytest.approx(cell["trace"][-1][1], abs=1e-3)
    assert cell["reached"] <= cell["seconds"]
    assert "| manifoldgp |" in fits.markdown({"cells": [cell]})


def test_time_to_quality_needs_a_fit_that_ends_there():
    cell = {"nlml": 1.0, "seconds": 9.0, "trace": [[1.0, 3.0], [2.0, 1.5], [5.0, 1.0]]}
    assert fits.reached(cell, 1.6) == 2.0
    assert fits.reached({**cell, "nlml": 2.0}, 1.6) is None
    assert fits.reached({**cell, "nlml": None}, 1.6) is None


def test_levels_are_timed_on_all_rows_only(crew):
    X, y = smooth(60)
    ask = {"X": X.tolist(), "y": y.tolist(), "network": [], "restarts": 2, "max_iter": 30}
    fit = crew.workers[OURS].ask("levelled", levels=True, **ask)
    assert fit["trace"][-1][1] == pytest.approx(fit["nlml"], abs=2e-3)  # smaller gains are no points
    summary = levels.summary(fit, 60, fit["nlml"] / 60 + levels.SLACK)
    assert summary["reached"] <= fit["seconds"]
    never = levels.summary(fit, 60, fit["nlml"] / 60 - 1.0)
    assert never["reached"] is None
    assert levels.share({"levels": never, "everyone": summary}) is None


def test_a_peer_that_cannot_run_is_named_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setattr("processes.PEERS_PYTHON", tmp_path / "python")
    assert "not installed: the peers' environment is missing" in Crew(("GPy",)).reasons["GPy"]
    monkeypatch.setattr("processes.PEERS_PYTHON", Path(sys.executable))
    monkeypatch.setitem(LIBRARIES, "GPy", Library("absent", "absent", peers=True))
    assert "not installed: ModuleNotFoundError" in Crew(("GPy",)).reasons["GPy"]


def test_a_worker_that_fails_or_takes_too_long_says_so():
    worker = Worker("scikit-learn")
    X, y = smooth(50)
    with pytest.raises(NotMeasured, match="KeyError: 'variance'"):
        worker.ask("prepare", X=X.tolist(), y=y.tolist(), values={})
    with pytest.raises(NotMeasured, match="stopped after 0 s"):
        worker.ask("fit", 0.0, X=X.tolist(), y=y.tolist(), starts=[fixed_values()], max_iter=500)
    with pytest.raises(NotMeasured, match="ended"):
        worker.ask("about")


def test_a_worker_that_dies_is_told_with_its_exit_code():
    worker = Worker("scikit-learn")
    worker._process.kill()
    with pytest.raises(NotMeasured, match="process ended with code -9"):
        worker.ask("about")
    worker.close()


def test_ratios_are_medians_of_ratios_within_a_turn():
    turn = {"floor": [1.0, 1.0], "seconds": [2.0, 2.0]}
    slow = {"floor": [10.0, 10.0], "seconds": [20.0, 20.0]}  # the machine was busy: both libraries, ten times slower
    peer = [{"floor": t["floor"], "seconds": [3 * s for s in t["seconds"]]} for t in (turn, slow, turn)]
    cell = evaluation._cell("GPyTorch", evaluation.PLAIN, 100, 1, {OURS: [turn, slow, turn], "GPyTorch": peer}, 0.0)
    assert cell["over_ours"] == pytest.approx(3.0)
    assert cell["floor_ratio"] == pytest.approx(6.0)
    assert cell["ms"] == pytest.approx(6000.0)


def test_bars_say_by_how_much():
    assert bars.Bar("a", 0.5, 1.0, "x").verdict == "reached, 50% below"
    assert bars.Bar("a", 1.5, 1.0, "x").verdict == "**not reached**, 50% above"
    assert bars.Bar("a", None, 1.0, "x").verdict == "not measured"
    assert "| a | – | 1.00 x | not measured |" in bars.bar_table([bars.Bar("a", None, 1.0, "x")])


def test_numbers_have_three_digits():
    assert [bars.number(v) for v in (0.012345, 1.0, 12.345, 1234.5, None, float("nan"))] == [
        "0.0123", "1.00", "12.3", "1234", "–", "–",
    ]  # fmt: skip


def test_exponent_of_a_power_law():
    assert growth.exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2.0)


def _cell(library, rows, **more):
    return {"library": library, "rows": rows, **more}


def _levelled() -> dict:
    kinds = {kind: {"seconds": 2 * s, "reached": s, "nlml": -1.0} for kind, s in (("levels", 2.0), ("everyone", 10.0))}
    return {"model": levels.PLAIN, "rows": 2000, "max_iter": 500, **kinds}


def _results() -> dict:
    def evaluated(name, model, rows, ms):
        times = {"ms": ms, "floor_ms": 1.0, "floor_ratio": ms, "over_ours": 2.0, "nlml_error": 1e-9}
        return _cell(name, rows, model=model, **times)

    cells = [evaluated(OURS, m, n, 1.2) for m in (evaluation.PLAIN, evaluation.NET, evaluation.BATCH) for n in (100, 400, 1000)]
    cells.append(evaluated("GPyTorch", evaluation.PLAIN, 400, 2.4))
    fitted = {"seconds": 1.0, "over_ours": 10.0, "nlml": -1.0, "reached": 0.5, "trace": [[0.5, -1.0]]}
    fit_cells = [_cell(n, 100, task=t, **fitted) for n in (OURS, "GPyTorch") for t in ("plain GP, N = 100", fits.STEP)]
    averaged = [
        {"threads": "one thread", "rows": 200, "averaging": a, "seconds": 1.0, "over_gp": r}
        for a, r in (("gp", 1.0), ("fast", 2.0), ("stack", 9.0))
    ]
    sweep = {"sizes": [1, 2], "ms": [1.0, 2.0], "exponent": 1.0, "upper": 1.0}
    results = {
        "evaluation": {"cells": cells, "versions": {OURS: "1.0"}, "reasons": {"GPy": "not installed: no such package"}},
        "fits": {"cells": fit_cells},
        "averages": {"cells": averaged},
        "levels": {"cells": [_levelled()], "largest": {"rows": 10_000, "peak_mb": 3000.0, "seconds": 200.0}},
        "startup": dict.fromkeys(("seconds", "over_torch"), dict.fromkeys(startup.COMMANDS, 0.4))
        | {"processor": dict.fromkeys(startup.SMALL, 1.1)},
        "growth": dict.fromkeys(growth.SWEEPS, sweep),
        "memory": {"cells": [_cell(OURS, 500, peak_mb=300.0, above_mb=10.0), _cell("GPy", 500, peak_mb=200.0, above_mb=30.0)]},
        "prediction": {"printed": "# Latency\nfast\n"},
    }
    return {name: {**bench.machine(), "load": 0.1, "took": 60.0, "result": result} for name, result in results.items()}


def test_the_page_has_every_section_bar_and_missing_peer(tmp_path):
    page.write(tmp_path, _results(), quick=False)
    text = (tmp_path / "index.md").read_text()
    for title, _ in page.TITLES.values():
        assert f"## {title}" in text
    assert "| GPy | not installed: no such package |" in text
    assert "N = 1000, against potrf + potri | 1.20 x | 1.25 x | reached, 4% below |" in text
    assert "share of GPyTorch's time | 0.100 x | 0.200 x | reached, 50% below |" in text
    assert 'averaging="stack" against a plain GP with 3 starts, N = 200, one thread | 9.00 x | 8.00 x | **not reached**' in text
    assert (
        "levels, plain GP, N = 2000: time to quality against every start on all rows | 0.200 x | 0.333 x | reached, 40% below"
        in text
    )
    assert "2.40 (2.40x; **2.0x ours**)" in text
    assert "busy" not in text
    for picture in tmp_path.glob("*.png"):
        assert picture.stat().st_size < 60_000
        assert f"]({picture.name})" in text
    assert json.loads((tmp_path / "results.json").read_text())["startup"]["result"]["seconds"]["mgp --help"] == 0.4
    assert "3.0x ours" in memory.markdown(_results()["memory"]["result"])


def test_a_busy_machine_is_confessed():
    results = _results()
    results["growth"]["load"] = 5.0
    assert "busy" in page.circumstances(results, quick=False)


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "_measure", lambda name, quick: {"measured": name})
    path = tmp_path / "deep" / "startup.json"
    assert bench._kept("startup", True, path) == {"measured": "startup"}
    monkeypatch.setattr(bench, "_measure", None)
    assert bench._kept("startup", True, path) == {"measured": "startup"}


def test_the_prediction_script_is_called_where_it_exists(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "PREDICTION", tmp_path / "prediction.py")
    assert "not there" in bench._prediction(quick=True)["reason"]
    (tmp_path / "prediction.py").write_text("import sys; print('|', *sys.argv[1:])")
    assert bench._prediction(quick=True) == {"printed": "| --turns 20 --no-stack\n"}
    (tmp_path / "prediction.py").write_text("raise SystemExit('no onnx')")
    assert bench._prediction(quick=False)["reason"] == "Not measured: no onnx\n"


def test_a_study_without_fits_says_so_instead_of_an_empty_header(tmp_path, capsys):
    scores = {"gp": {"nlpp": 1.0, "rmse": 2.0}, "ours": {"nlpp": 0.5, "rmse": 1.0}}
    (tmp_path / "one.json").write_text(json.dumps({"name": "boston", "rows": 50, "split": 0, "variant": "default", **scores}))
    study.print_tables(tmp_path)
    choosing, reporting = capsys.readouterr().out.split("\nReporting")
    assert "| rows | fits | default |\n|---|---|---|\n| 50 | 1 | -0.500 / -0.500 / 0.500 |" in choosing
    assert reporting.strip().splitlines()[1:] == ["", "No fits yet."]
    assert "|" not in reporting


def test_a_study_of_many_rows_holds_settings_against_the_default_on_the_same_rows(tmp_path, capsys):
    def kept(name, variant, seconds, nlpp, rmse):
        found = {"name": name, "rows": 500, "variant": variant, "seconds": seconds, "nlpp": nlpp, "rmse": rmse}
        (tmp_path / f"{name}-{variant}.json").write_text(json.dumps(found))

    kept("kin40k", "default", 2.0, 1.0, 0.4)
    kept("kin40k", "four members", 4.0, 0.9, 0.2)
    kept("wine", "four members", 4.0, 0.9, 0.2)  # no default to hold it against
    kept("pol", "default", 3.0, 0.5, 0.1)
    study_many_rows.print_tables(tmp_path)
    choosing, reporting = capsys.readouterr().out.split("\nReporting")
    assert "| four members | -0.100 / -0.100, 0.500, 2.00 (1) |" in choosing
    assert "No fits yet." in reporting
    assert "| 500 | 2.0 / 1.000 / 0.4000 | 3.0 / 0.500 / 0.1000 |" in reporting
    assert study_many_rows.variants("pol", 500, ["default", "one member"], ["one member"]) == ["default", "one member"]
    assert study_many_rows.variants("kin40k", 36_000, ["default", "one member"], []) == ["default"]


def test_structure_skips_what_is_not_there_and_prints_what_is(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    np.savez(tmp_path / "boston.npz", X=X, y=X[:, 0] + 0.1 * rng.normal(size=50))
    given = ["structure.py", "--data", tmp_path, "--out", tmp_path / "out", "--folds", 1, "--depth", 1, "--budget", 20]
    monkeypatch.setattr("sys.argv", [str(word) for word in given])
    structure.main()
    printed = capsys.readouterr().out
    assert "concrete: skipped, needs" in printed
    assert "housing, 1 of 10 folds" in printed
    assert "structure search (published)   0.059" in printed


def test_ways_are_kept_and_compared_with_the_plain_gp_on_the_same_rows(tmp_path, monkeypatch, capsys):
    x = np.linspace(-1, 1, 16)
    split = ways.Split(x[:, None], np.sin(3 * x), x[:, None] + 0.02, np.sin(3 * x + 0.06), {})
    monkeypatch.setattr(ways, "problem", lambda name, rows, seed: split)
    tried = {
        ways.PLAIN: GPRegressor(restarts=1, max_iter=5),
        "GP NN": GPRegressor("nn", restarts=1, max_iter=0),
        "GP additive": GPRegressor("no such kernel"),
        "left out": None,
    }
    rows = {name: ways.Method(name, name, lambda config, model=model: model) for name, model in tried.items()}
    monkeypatch.setattr(ways, "ways", lambda D: rows)
    arguments = ["--out", str(tmp_path / "ways.jsonl"), "--only", "step", "--seeds", "1", "--ways", "GP"]
    ways.main(arguments)
    finished = (tmp_path / "ways.jsonl").read_text()
    kept = {line["way"]: line for line in map(json.loads, finished.splitlines())}
    assert list(kept) == list(tried)[:3]
    assert kept[ways.PLAIN]["nlpp"] < kept["GP NN"]["nlpp"]  # which was not trained
    assert "no such kernel" in kept["GP additive"]["failed"]
    printed = capsys.readouterr().out
    assert "| GP SE-ARD | 1 of 1 | 0 % | 0 % | +0.00 | +0.00 | 1.00 | 1.0 |" in printed
    assert "| GP NN | 1 of 1 | 0 % | 100 % |" in printed
    assert "| GP additive | 0 of 1 |" in printed
    ways.main(arguments)
    assert (tmp_path / "ways.jsonl").read_text() == finished


def test_every_way_can_be_made_and_has_a_name_of_its_own():
    for inputs in (1, 5):
        found = ways.ways(inputs)
        assert len({way.key for way in found.values()}) == len(found)
        assert {ways.PLAIN, ways.AVERAGE} <= set(found)
        assert ("LLE + GP SE-ARD" in found) == (inputs > 1)
        for way in found.values():
            assert hasattr(way.build(ways.Config("", way.key, 0, 2)), "log_predictive_density"), way


def test_noise_that_follows_inputs_is_the_usual_one_without_slopes_and_stays_in_its_bounds():
    X, y = (torch.as_tensor(part) for part in smooth(20))
    data, usual = Data(X, y), Model()
    noisy = further_kinds.NoisyModel(noise=further_kinds.BoundedNoise())
    _, values = noisy.draw(data, torch.Generator().manual_seed(0), 2)
    values["noise"]["slope"] = torch.zeros_like(values["noise"]["slope"])
    torch.testing.assert_close(noisy.nlml(values, data), usual.nlml(values, data))
    values["noise"]["slope"] += 1e3
    ratio = noisy.noise.of_rows(values["noise"], 10 * X) / values["noise"]["scale"][:, None] ** 2
    assert 0.0099 < ratio.min() < ratio.max() < 101
