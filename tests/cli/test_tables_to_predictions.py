"""fit, predict, score, inspect: what they make of tables as people have them, and what they say about them."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import manifoldgp
from command_line import fails, mgp
from manifoldgp import GPRegressor, ManifoldGPRegressor, Restarts, Single
from manifoldgp.cli._messages import Messages, in_options
from manifoldgp.cli.report import _test_rows
from manifoldgp.data.table_remarks import warn_of_copies
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.estimators.distillation import distilled
from manifoldgp.inspection.page import write_model_report

FAST = ("--averaging", "single", "--restarts", "1", "--max-iter", "5")
RNG = np.random.default_rng(0)


def messy(rows=30, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    return pd.DataFrame({
        "x": x,
        "floor": rng.choice(["ice", "sand", "mud"], rows),
        "wet": rng.random(rows) < 0.5,
        "site": "A",
        "sd": 0.1 + rng.random(rows),
        "y": np.sin(x) + 0.1 * rng.normal(size=rows),
        "z": 3 * x,
    })  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    messy().to_csv("data.csv", index=False)
    messy(12, 1).to_csv("new.csv", index=False)
    return tmp_path


def test_a_share_that_is_almost_all_is_not_rounded_to_all(tmp_path, monkeypatch):
    """The fit said 0.999998, and the page and `mgp score` said 1."""
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-1.0, 1.0, 40)
    pd.DataFrame({"x": x, "y": x + 1e-3 * np.random.default_rng(0).normal(size=40)}).to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "-t", "y", "--averaging", "plain", "--restarts", "1", "--out", "m.mgp")
    mgp("report", "m.mgp", "--out", "m.html")
    page = Path("m.html").read_text("utf-8")
    shown = re.search(r"explained \(R²\).*?training rows, left out(?:.*?<td>){6}(.*?)</td>", page, re.S)
    assert shown is not None
    found = re.search(r"R² +(\S+)", mgp("score", "m.mgp", "data.csv").out)
    assert found is not None
    for text in (shown[1], found[1]):
        assert text.startswith("0.99999")


def test_fit_says_what_it_does_with_every_column(here):
    table = messy()
    table.loc[[3, 7], "y"] = np.nan
    table.to_csv("data.csv", index=False)
    done = mgp("fit", "data.csv", "--target", "y", "--drop", "z", "--noise-column", "sd", "--out", "m.mgp", *FAST)
    assert done.out == ""
    for line in (
        "30 rows; inputs: x, floor, wet; target: y",
        "2 of 30 rows have no target and are left out.",
        "floor: text, one 0/1 column for each of 3 categories (ice, mud, sand)",
        "wet: true or false, becomes 1 or 0",
        "Left out, because they have one value at most: site",
        "Left out: z",
    ):
        assert line in done.err.splitlines()
    model = manifoldgp.load("m.mgp")
    assert list(model.feature_names_in_) == ["x", "floor=ice", "floor=mud", "floor=sand", "wet"]
    assert len(model.ensembles_[0].blocks[0].data.y) == 28
    np.testing.assert_allclose(
        model.ensembles_[0].blocks[0].data.known_noise.numpy() * model.y_scaler_.scale[0] ** 2,
        table["sd"].drop([3, 7]).to_numpy() ** 2,
    )


def test_rows_outside_the_training_rows_are_told(tmp_path, monkeypatch):
    """Of clay drier than any at the fit, 95 % intervals had held 72 % of the targets, and nobody had said why. All rows outside the range that is named are counted."""
    monkeypatch.chdir(tmp_path)
    n = np.arange(40)
    rows = pd.DataFrame(
        {"moisture": 8.2 + 7.7 * n / 39, "heat": 900.0 + n * 7 % 40, "when": pd.date_range("2026-01-01", periods=40)}
    )
    rows.assign(y=np.sin(n / 5)).to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "--target", "y", "--out", "m.mgp", *FAST)
    far = rows.assign(moisture=rows["moisture"] - 1.7, y=0.0)
    far.to_csv("far.csv", index=False)
    told = "warning: 9 of 40 rows lie outside the training rows in moisture (8.2 to 15.9): predictions there are extrapolations."
    assert told in mgp("predict", "m.mgp", "far.csv", "--out", "p.csv").err.splitlines()
    assert told in mgp("score", "m.mgp", "far.csv").err.splitlines()
    both = far[:8].assign(heat=[*[950.0] * 2, *[920.0] * 6])
    both.to_csv("both.csv", index=False)
    assert (
        "8 of 8 rows lie outside the training rows in moisture (8.2 to 15.9) and heat (900 to 939): "
        in mgp("predict", "m.mgp", "both.csv").err
    )
    near, single = rows.assign(moisture=rows["moisture"] + 0.3), rows.assign(heat=[5e3, *rows["heat"][1:]])
    for name, quiet in {"near": near, "single": single, "later": rows.assign(when=rows["when"] + pd.Timedelta("3D"))}.items():
        quiet.to_csv(f"{name}.csv", index=False)
        assert "outside" not in mgp("predict", "m.mgp", f"{name}.csv", "--out", "p.csv").err, name
    rows.assign(when=rows["when"] + pd.Timedelta("10D")).to_csv("much later.csv", index=False)
    told = "10 of 40 rows lie outside the training rows in when (2026-01-01 to 2026-02-09): predictions there are extrapolations."
    assert told in mgp("predict", "m.mgp", "much later.csv", "--out", "p.csv").err


def test_commands_read_the_sheet_that_has_their_columns(tmp_path, monkeypatch):
    """The lookup on the first sheet was read, and the table said to lack the column of the second one."""
    pytest.importorskip("openpyxl", reason="needs the extra excel")
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-1.0, 1.0, 24)
    readings = pd.DataFrame({"load": x, "Energy, kWh": np.sin(3.0 * x)})
    with pd.ExcelWriter("energy.xlsx") as book:
        pd.DataFrame({"plant": ["north", "south"], "built": [2001, 1984]}).to_excel(book, sheet_name="plants", index=False)
        readings.to_excel(book, sheet_name="readings", index=False)
    done = mgp("fit", "energy.xlsx", "--target", "Energy, kWh", "--out", "m.mgp", *[word for word in FAST if word != "--quiet"])
    assert "warning: energy.xlsx has 2 sheets: plants, readings. readings, which has 'Energy, kWh', is read." in done.err
    assert "readings, which has load, is read" in mgp("predict", "m.mgp", "energy.xlsx", "--out", "p.csv").err
    assert "24 rows" in mgp("score", "m.mgp", "energy.xlsx").out
    mgp("report", "m.mgp", "--test", "energy.xlsx", "--out", "r.html")
    told = fails("fit", "energy.xlsx", "--target", "energy", "--out", "n.mgp")
    assert "None of them has the column 'energy': plants has plant, built; readings has load, 'Energy, kWh'." in told


def test_inputs_beside_predictions_keep_their_units(tmp_path, monkeypatch):
    """50 m² had become 50.0 and €142,300 had become 142300, below names without a unit."""
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame({"area": [f"{50 + k} m²" for k in range(24)], "price": [f"€{142_300 + 10 * k:,}" for k in range(24)]})
    rows.assign(y=np.arange(24.0)).to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "--target", "y", "--out", "m.mgp", *FAST)
    rows.iloc[3, 0] = "?"
    rows.to_csv("new.csv", index=False)
    mgp("predict", "m.mgp", "new.csv", "--with-inputs", "--out", "p.csv")
    written = pd.read_csv("p.csv", keep_default_na=False)
    assert written[["area", "price"]].equals(rows)
    mgp("predict", "m.mgp", "p.csv", "--out", "again.csv")
    assert Path("again.csv").read_text(encoding="utf-8") == written.drop(columns=["area", "price"]).to_csv(index=False)
    Path("new.csv").write_text("area;price\n50,5 m²;142.300,5 €\n51 m²;143.000 €\n", encoding="utf-8")
    mgp("predict", "m.mgp", "new.csv", "--with-inputs", "--out", "p.csv")
    assert pd.read_csv("p.csv")["price"].tolist() == ["142300.5 €", "143000 €"]  # decimal points, as the predictions beside


def test_copies_of_rows_and_of_the_target_are_told(here):
    table = messy()[["x", "floor", "y"]].assign(**{"the answer": lambda t: t["y"]})
    pd.concat([table, table.head(4)]).to_csv("data.csv", index=False)
    told = mgp("fit", "data.csv", "--target", "y", "--out", "m.mgp", *FAST).err
    assert "warning: 4 of 34 rows are copies of others" in told
    assert (
        "warning: the answer: the same numbers as the target. If they are not known beforehand, leave them out: --drop 'the answer'"
        in told
    )
    messy().to_csv("data.csv", index=False)
    assert "copies" not in mgp("fit", "data.csv", "--target", "y", "--drop", "z", "--out", "m.mgp", *FAST).err


def test_rows_that_were_measured_again_are_told(here):
    """Three replicates of each experiment had a typical error of 0.13 g/L, and whole experiments that were held out one of 0.39."""
    table = pd.concat([messy(12)[["x", "floor"]]] * 3).assign(y=RNG.normal(size=36))
    table.to_csv("data.csv", index=False)
    fit = ("fit", "data.csv", "--target", "y", "--out", "m.mgp", *FAST)
    assert (
        "36 rows have 12 different inputs: errors that are told are those of rows whose inputs were measured before"
        in mgp(*fit).err
    )
    table.assign(flask=list(range(12)) * 3).to_csv("data.csv", index=False)
    assert "different inputs" not in mgp(*fit, "--group", "flask").err


def test_a_copy_of_a_target_of_whole_numbers_is_told():
    X = pd.DataFrame({"a copy": [0, 1, 1, 5], "wet": [True, False, True, True], "floor": list("abcd"), "x": [0.0, 1.0, 1.0, 4.0]})
    with pytest.warns(FitWarning) as told:
        warn_of_copies(X, pd.DataFrame({"y": [0.0, 1.0, 1.0, 5.0]}), grouped=False)
    assert [str(line.message).split(":")[0] for line in told] == ["a copy"]


def test_other_rows_of_a_target_with_few_values_are_not_taken_for_the_training_rows(here):
    marks = [0, 1] * 15
    for seed, name in enumerate(("data.csv", "new.csv")):
        messy(30, seed)[["x"]].assign(y=marks).to_csv(name, index=False)
    mgp("fit", "data.csv", "--target", "y", "--out", "m.mgp", *FAST)
    assert "fitted to these rows" not in mgp("score", "m.mgp", "new.csv").err


def test_the_day_first_is_said_and_kept(here):
    days = pd.date_range("2026-01-20", periods=30).strftime("%d.%m.%Y")
    messy().assign(when=days)[["x", "when", "y"]].to_csv("data.csv", index=False)
    done = mgp("fit", "data.csv", "--target", "y", "--out", "m.mgp", *FAST)
    assert "when: dates written with the day first, become when [days]" in done.err.splitlines()
    assert "date written with the day first, becomes days since 2026-01-20" in mgp("inspect", "m.mgp").out
    messy(2, 1).assign(when=["01.02.2026", "2026-02-01"])[["x", "when"]].to_csv("new.csv", index=False)
    mgp("predict", "m.mgp", "new.csv", "--out", "p.csv")
    assert manifoldgp.load("m.mgp").table_encoding_.inputs(pd.read_csv("new.csv"))["when [days]"].tolist() == [12, 12]


def test_fit_is_the_estimator_with_these_settings(here):
    mgp("fit", "data.csv", "-t", "y", "--features", "x,wet", "--seed", "3", "--out", "m.mgp", "--quiet", *FAST)
    model = manifoldgp.load("m.mgp")
    assert (model.averaging, model.random_state) == (Single(restarts=1, max_iter=5), 3)
    again = manifoldgp.ManifoldGPRegressor(averaging=Single(restarts=1, max_iter=5), random_state=3)
    X = messy()[["x", "wet"]].astype(float)
    again.fit(X, messy()["y"])
    np.testing.assert_allclose(model.predict(X), again.predict(X), rtol=1e-10)


@pytest.mark.parametrize("averaging", ["single", "stack"])
def test_fit_of_many_rows_is_sparse_and_says_so(averaging, here, monkeypatch):
    for average in ("Averaging", "Stack"):
        monkeypatch.setattr(f"manifoldgp.averaging.{average}.exact_up_to", 20)
        monkeypatch.setattr(f"manifoldgp.averaging.{average}.local_up_to", 0)
    fit = ("fit", "data.csv", "-t", "y", "--drop", "z,sd", "--averaging", averaging, "--out", "m.mgp")
    done = mgp(*fit, "--time-budget", "1")
    assert "30 rows: --method auto trains the sparse model with up to 512 inducing points" in " ".join(done.err.split())
    assert manifoldgp.load("m.mgp").method_ == "sparse"
    if averaging == "single":
        done = mgp(*fit, "--method", "sparse", "--restarts", "2", "--max-iter", "3", "--inducing", "8")
        assert "start 1 of 2" in done.err
        assert len(manifoldgp.load("m.mgp").starts_) == 2
    mgp(*fit, "--method", "exact", "--time-budget", "1")
    assert manifoldgp.load("m.mgp").method_ == "exact"


def test_fit_reports_to_programs(here):
    done = mgp("fit", "data.csv", "-t", "y", "--drop", "z,sd", "--out", "m.mgp", "--json", *FAST)
    report = json.loads(done.out)
    assert report["rows"] == 30
    assert report["inputs"] == ["x", "floor", "wet"]
    assert report["categories"] == {"floor": ["ice", "mud", "sand"]}
    assert report["constant"] == ["site"]
    assert report["members"] == {"y": 1}
    assert report["interrupted"] is False
    assert report["nlml"] == pytest.approx(manifoldgp.load("m.mgp").nlml_)


def test_groups_and_order_reach_the_folds(here, monkeypatch):
    asked = []
    real = manifoldgp.ManifoldGPRegressor.fit

    def spy(self, X, y, **named):
        asked.append(named)
        return real(self, X, y, **named)

    monkeypatch.setattr(manifoldgp.ManifoldGPRegressor, "fit", spy)
    done = mgp("fit", "data.csv", "-t", "y", "--group", "floor", "--out", "m.mgp", *FAST)
    assert "warning: --group says which rows are held out together, and --averaging single holds out none" in done.err
    mgp("fit", "data.csv", "-t", "y", "--ordered", "--out", "m.mgp", "--time-budget", "1")
    assert asked[0]["groups"].tolist() == messy()["floor"].tolist()
    assert asked[0]["ordered"] is False
    assert asked[1]["groups"] is None
    assert asked[1]["ordered"] is True


def test_several_files_and_several_targets(here):
    messy()[:10].to_csv("a1.csv", index=False)
    messy()[10:].to_parquet("a2.parquet")
    done = mgp("fit", "a*", "-t", "y", "-t", "z", "--drop", "sd", "--out", "m.mgp", *FAST)
    assert "30 rows; inputs: x, floor, wet; targets: y, z" in done.err
    mgp("predict", "m.mgp", "new.csv", "--out", "p.parquet")
    predictions = pd.read_parquet("p.parquet")
    assert list(predictions.columns) == [f"{t}_{c}" for t in ("y", "z") for c in ("mean", "std", "q05", "q50", "q95")]
    model = manifoldgp.load("m.mgp")
    X = model.table_encoding_.inputs(messy(12, 1))
    np.testing.assert_allclose(predictions[["y_mean", "z_mean"]], model.predict(X), rtol=1e-8)
    np.testing.assert_allclose(predictions["z_q95"], model.predict_quantiles(X, [0.95])[:, 0, 1], rtol=1e-8)
    scores = json.loads(mgp("score", "m.mgp", "new.csv", "--json").out)["scores"]
    assert list(scores) == ["y", "z"]
    total = sum(scores[t]["nlpp"] for t in scores)
    assert total == pytest.approx(-model.log_predictive_density(X, messy(12, 1)[["y", "z"]]).mean())
    assert "z: " in mgp("inspect", "m.mgp").out


def test_scores_are_the_formulas(here):
    mgp("fit", "data.csv", "-t", "y", "--drop", "z", "--noise-column", "sd", "--out", "m.mgp", *FAST)
    new = messy(12, 1)
    new.loc[2, "y"] = np.nan
    new.to_csv("new.csv", index=False)
    done = mgp("score", "m.mgp", "new.csv", "--json")
    assert "1 of 12 rows has no target and is left out." in done.err
    result = json.loads(done.out)
    assert (result["rows"], result["rows_without_target"]) == (11, 1)
    scores = result["scores"]["y"]
    kept = new.drop(index=2)
    model = manifoldgp.load("m.mgp")
    X, y, sd = model.table_encoding_.inputs(kept), kept["y"].to_numpy(), kept["sd"].to_numpy()
    mean = model.predict(X)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert scores["mae"] == pytest.approx(np.mean(np.abs(y - mean)))
    assert scores["r2"] == pytest.approx(1 - np.sum((y - mean) ** 2) / np.sum((y - y.mean()) ** 2))
    assert scores["nlpp"] == pytest.approx(-model.log_predictive_density(X, y, noise_std=sd).mean())
    scale = np.std(messy()["y"])
    assert scores["nlpp_standardised"] == pytest.approx(scores["nlpp"] - np.log(scale))
    assert scores["rmse_standardised"] == pytest.approx(scores["rmse"] / scale)
    for level in (50, 90, 95):
        low, high = model.predict_quantiles(X, [0.5 - level / 200, 0.5 + level / 200], noise_std=sd).T
        assert scores[f"coverage_{level}"] == pytest.approx(np.mean((low <= y) & (y <= high)))
    shown = mgp("score", "m.mgp", "new.csv").out
    assert "11 rows" in shown
    assert f"{scores['rmse']:.4g}" in shown


def test_scores_of_the_training_rows_are_called_so(folder):
    words = "The model was fitted to these rows: errors on new ones are larger."
    told = mgp("score", folder / "model.mgp", folder / "data.csv").err
    assert words in told
    assert "held-out" not in told  # this average holds no rows out
    assert words not in mgp("score", folder / "model.mgp", folder / "new.csv").err


@pytest.mark.parametrize("saved", ["by mgp fit", "from Python"])
def test_some_rows_of_the_fit_are_told_of_by_a_score_as_by_a_report(folder, tmp_path, saved):
    """A score told of them only where all were, by the spread of their targets."""
    model, table = folder / "model.mgp", tmp_path / "half.csv"
    if saved == "from Python":
        manifoldgp.load(model).save(model := tmp_path / "m.mgp")
    known, new = pd.read_csv(folder / "data.csv"), pd.read_csv(folder / "new.csv")
    pd.concat([known[:12], new]).to_csv(table, index=False)
    words = "warning: The model was fitted to 12 of these 37 rows (or to equal ones): errors on new ones are larger."
    assert words in mgp("score", model, table).err
    assert words in mgp("report", model, "--test", table, "--out", tmp_path / "page.html").err


@pytest.mark.parametrize("numbered", [False, True])
def test_rows_of_new_groups_are_none_of_the_fit(here, numbered):
    """Repeats of an experiment on another day may give the same numbers."""
    table = messy(40)[["x", "y"]].assign(day=np.repeat([1, 2, 3, 4] if numbered else ["Mo", "Tu", "We", "Th"], 10))
    table.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "--target", "y", "--group", "day", "--out", "m.mgp", *FAST)
    manifoldgp.load("m.mgp").save("python.mgp")
    repeats = table[:10].assign(day=7 if numbered else "Su")
    repeats.to_csv("new.csv", index=False)
    pd.concat([table[10:20], repeats, repeats.assign(day=None)[:3]]).to_csv("both.csv", index=False)
    for model in ("m.mgp", "python.mgp"):
        assert "fitted to" not in mgp("score", model, "new.csv").err
        assert "fitted to 13 of these 23 rows" in mgp("score", model, "both.csv").err
    assert "fitted to" not in mgp("report", "m.mgp", "--test", "new.csv", "--out", "page.html").err
    assert "was fitted to" not in (here / "page.html").read_text("utf-8")
    assert "fitted to these rows" in mgp("score", "m.mgp", "data.csv").err


def test_rows_of_the_fit_with_gaps_are_known_again(here):
    table = messy(40)
    table.loc[::4, "x"] = np.nan
    table[["x", "floor", "y"]].to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "--target", "y", "--missing", "impute", "--out", "m.mgp", *FAST)
    assert "The model was fitted to these rows" in mgp("score", "m.mgp", "data.csv").err
    assert "The model was fitted to these rows" in mgp("report", "m.mgp", "--test", "data.csv").err


def test_a_sparse_model_tells_of_the_rows_that_it_keeps(here, monkeypatch):
    monkeypatch.setattr("manifoldgp.training.sparse_trainer.KEPT_ROWS", 50)
    messy(200)[["x", "y"]].to_csv("data.csv", index=False)
    mgp(
        "fit",
        "data.csv",
        "--target",
        "y",
        "--averaging",
        "single",
        "--method",
        "sparse",
        "--inducing",
        "8",
        "--max-iter",
        "5",
        "--out",
        "m.mgp",
    )
    told = mgp("score", "m.mgp", "data.csv").err
    assert "The model was fitted to at least 50 of these 200 rows (or to equal ones)" in told


def test_scores_of_few_groups_say_how_little_they_tell(folder, tmp_path):
    """Of 60 rows of three runs it was a matter of chance, and intervals held without reserve."""
    mgp("example", tmp_path / "many.csv", "--rows", "150", "--seed", "4", "--quiet")
    new = pd.read_csv(tmp_path / "many.csv")
    few = new[new["run"].isin(sorted(new["run"].unique())[:3])]
    few.to_csv(tmp_path / "few.csv", index=False)
    few.drop(columns="run").to_csv(tmp_path / "unlabelled.csv", index=False)
    told = mgp("score", folder / "model.mgp", tmp_path / "few.csv").out.splitlines()[-1]
    assert told.endswith(f"of {len(few)} rows, as far as 3 groups by run can tell.")
    found = json.loads(mgp("score", folder / "model.mgp", tmp_path / "few.csv", "--json").out)
    assert found["groups"] == 3
    assert found["intervals"]["y"] == told[0].lower() + told[1:-1]
    mgp("report", folder / "model.mgp", "--test", tmp_path / "few.csv", "--out", tmp_path / "few.html")
    assert found["intervals"]["y"] in (tmp_path / "few.html").read_text(encoding="utf-8")
    assert "can tell" not in mgp("score", folder / "model.mgp", tmp_path / "many.csv").out
    done = mgp("score", folder / "model.mgp", tmp_path / "unlabelled.csv")
    assert "There is no column 'run', whose rows belong together: each row is judged for itself." in done.err
    assert "groups" not in done.out


def test_a_row_that_cannot_be_scored_is_counted_as_in_its_file(folder, tmp_path):
    """Rows without target, which are left out before, had shifted the number."""
    new = tmp_path / "new.csv"
    rows = pd.read_csv(folder / "new.csv")
    rows.loc[1, "y"] = np.nan
    rows.loc[4, "surface"] = "wet"
    rows.to_csv(new, index=False)
    told = mgp("score", folder / "model.mgp", new).err
    assert "1 of 25 rows has no target and is left out." in told
    assert "1 of 24 rows cannot be predicted (row 5)" in told
    assert "(row 5)" in mgp("report", folder / "model.mgp", "--test", new, "--out", tmp_path / "r.html").err


def test_all_names_that_are_not_there_are_told_at_once(here):
    pd.DataFrame({"temp., °C": RNG.normal(size=9), "y": RNG.normal(size=9)}).to_csv("comma.csv", index=False)
    told = fails("fit", "comma.csv", "-t", "CEC", "--group", "site", "--noise-column", "sd", "--drop", "Nr", "--out", "m.mgp")
    assert "The table has no columns 'CEC', 'sd', 'site', 'Nr'. It has: 'temp., °C', y." in told


def test_what_is_wrong_with_every_row_is_told_where_none_is_right(folder, tmp_path):
    """Only the first row's fault was."""
    rows = pd.read_csv(folder / "new.csv").head(3)
    rows["surface"] = rows["surface"].astype(object)
    rows.loc[0, "x1"] = np.nan
    rows.loc[1:2, "surface"] = ["wood", "Steel "]
    rows.to_csv(tmp_path / "bad.csv", index=False)
    told = fails("predict", folder / "model.mgp", tmp_path / "bad.csv")
    for words in ("No row can be predicted (row 1: ", "; row 2: ", "'wood'", "; row 3: "):
        assert words in told


def test_a_page_says_what_left_out_rows_are_no_test_of(here):
    """A group that the average cannot use: 0.028 V and intervals that hold stood above, and new cells had 0.101 V."""
    table = messy().assign(cell=[f"c{k % 5}" for k in range(30)])
    table.to_csv("data.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mgp("fit", "data.csv", "-t", "y", "--drop", "z", "--group", "cell", "--averaging", "fast", "--out", "m.mgp")
    mgp("report", "m.mgp", "--out", "m.html")
    assert "(rows left out one at a time, the others of the same cell known: a new one is harder, and not tried here)" in Path(
        "m.html"
    ).read_text("utf-8")
    mgp("fit", "data.csv", "-t", "y", "--drop", "z", "--drop", "cell", "--out", "s.mgp", *FAST)
    mgp("report", "s.mgp", "--out", "s.html")
    assert "(rows left out one at a time, by parameters that have seen them: new rows can be harder)" in Path("s.html").read_text(
        "utf-8"
    )


def test_the_page_counts_rows_as_their_tables_do(here):
    """Rows without a target or an input, which are left out before, had shifted the numbers: row 171 was row 220 of the file."""
    table, new = messy(), messy(12, 1)
    table.loc[[2, 5], "y"] = np.nan
    table.loc[9, "x"] = np.nan
    table.loc[20, "y"] = 50.0
    table.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "-t", "y", "--missing", "drop", "--drop", "z", "--out", "m.mgp", *FAST)
    mgp("report", "m.mgp", "--out", "own.html")
    assert _first_of_the_worst("own.html") == "21"
    assert manifoldgp.load("m.mgp").table_encoding_.rows_left_out == (2, 5, 9)
    new.loc[1, "y"] = np.nan
    new.loc[3, "x"] = np.nan
    new.loc[7, "y"] = -50.0
    new.to_csv("new.csv", index=False)
    mgp("report", "m.mgp", "--test", "new.csv", "--out", "new.html")
    assert _first_of_the_worst("new.html") == "8"
    with pytest.warns(UserWarning, match="rows? ha(ve|s)"):
        frame = GPRegressor(restarts=1, max_iter=5, missing="drop").fit(table[["x", "floor"]], table["y"])
    write_model_report(frame, "frame.html")
    assert _first_of_the_worst("frame.html") == "21"


def _first_of_the_worst(page: str) -> str:
    text = Path(page).read_text("utf-8").split("The rows with the largest errors")[1]
    return re.findall(r"<tr><t[dh][^>]*>(\d+)</t[dh]>", text)[0]


def test_models_are_counted_for_each_target(here):
    told = mgp("fit", "data.csv", "-t", "y", "-t", "z", "--out", "m.mgp", *FAST).err
    assert re.search(r"Fitted in [\d.]+ s; models in the averages: 1 for y, 1 for z\.", told)


def test_predictions_stand_beside_the_inputs_on_request(folder, tmp_path):
    out = tmp_path / "p.tsv"
    assert mgp("predict", folder / "model.mgp", folder / "new.csv", "--out", out, "--with-inputs").out == ""
    table = pd.read_csv(out, sep="\t")
    assert list(table.columns) == ["x1", "x2", "surface", "run", "y", "mean", "std", "q05", "q50", "q95"]
    pd.testing.assert_frame_equal(table[["x1", "x2", "surface", "run", "y"]], pd.read_csv(folder / "new.csv"))
    taken = tmp_path / "taken.csv"
    pd.read_csv(folder / "new.csv").assign(mean=1.0).to_csv(taken, index=False)
    assert "columns named like predictions: mean" in fails("predict", folder / "model.mgp", taken, "--with-inputs")
    assert "Ignored, because the model does not use them: mean" in mgp("predict", folder / "model.mgp", taken).err
    summary = json.loads(mgp("predict", folder / "model.mgp", folder / "new.csv", "--json", "--out", out).out)
    assert summary["rows"] == 25
    assert "Add --out" in fails("predict", folder / "model.mgp", folder / "new.csv", "--json", code=2)


def test_rows_that_cannot_be_predicted_are_left_empty_with_the_reason(folder, tmp_path):
    new = pd.read_csv(folder / "new.csv")
    new.loc[4, "surface"] = "lava"
    new.loc[[4, 8], "x1"] = np.nan
    new.to_csv(tmp_path / "new.csv", index=False)
    done = mgp("predict", folder / "model.mgp", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert "warning: 2 of 25 rows cannot be predicted (rows 5, 9); the first: x1 is missing; surface is 'lava'" in done.err
    assert f"Wrote 23 predictions to {tmp_path / 'p.csv'}" in done.err
    predicted = pd.read_csv(tmp_path / "p.csv")
    empty = predicted[["mean", "std", "q05", "q50", "q95"]].isna().all(axis=1)
    assert np.flatnonzero(empty).tolist() == [4, 8]
    assert predicted["reason"].notna().tolist() == empty.tolist()
    whole = mgp("predict", folder / "model.mgp", folder / "new.csv").out.splitlines()
    assert whole[0] == "mean,std,q05,q50,q95"
    np.testing.assert_allclose(predicted.loc[0, "mean"], float(whole[1].split(",")[0]))
    scores = mgp("score", folder / "model.mgp", tmp_path / "new.csv", "--json")
    assert json.loads(scores.out)["rows"] == 23
    assert "2 of 25 rows cannot be predicted" in scores.err


def test_cells_that_cannot_be_read_cost_their_rows_alone(here):
    rows = [f"{n / 8};2024-01-{n + 1:02};{'ja' if n % 3 else 'nein'};{n * n}" for n in range(20)]
    write = (here / "comma.csv").write_text
    write("\n".join(["a;day;ok;y", *rows]).replace(".", ","))
    mgp("fit", "comma.csv", "--target", "y", "--averaging", "single", "--features", "a,day", "--out", "comma.mgp")
    (here / "new.csv").write_text(
        "a;day\n1,5;2024-01-03\nn. b.;2024-01-04\n<2,5;2024-01-04\n0,25;2024-02-31\nn. b.;soon\n0,75;2024-01-08\n"
    )
    found = pd.read_csv(io.StringIO(mgp("predict", "comma.mgp", "new.csv").out), keep_default_na=False)
    assert found["reason"].tolist() == [
        "",
        "a is 'n. b.', no number",
        "a is '<2,5', no number",
        "day is '2024-02-31', no date",
        "a is 'n. b.', no number; day is 'soon', no date",
        "",
    ]
    assert (found["mean"] == "").tolist() == (found["reason"] != "").tolist()
    (here / "worse.csv").write_text("a;day\nn. b.;soon\n")
    message = fails("predict", "comma.mgp", "worse.csv")
    assert "'n. b.'" in message
    assert "'soon'" in message  # both columns in one run


ONE_ODD_CELL = {
    "percent": (lambda n: f"{n} %", ["12 %", "n.a.%", "13%", "7"], [12, None, 13, 7]),
    "thousands": (lambda n: f"{1000 + 37 * n:,}", ["1,250", "many", "1,050", "?"], [1250, None, 1050, None]),
    "currency": (lambda n: f"$ {1000 + n}", ["$1010", "$1020", "tbd", "€1010"], [1010, 1020, None, None]),
    "unit": (lambda n: f"{n} kg", ["6 lb", "5 kg", "7 lb", "3"], [None, 5, None, 3]),
    "few are left": (lambda n: f"{n} kg", ["6 kg", "x", "y", "z"], [6, None, None, None]),
}


@pytest.mark.filterwarnings("ignore:Texts in .* are read as numbers")
@pytest.mark.parametrize("case", ONE_ODD_CELL)
def test_an_odd_cell_among_numbers_with_signs_costs_its_row_alone(tmp_path, monkeypatch, case):
    """`n.a.%` in a new table made all percents beside it texts: no row was predicted, and the message named 12%."""
    monkeypatch.chdir(tmp_path)
    write, cells, numbers = ONE_ODD_CELL[case]
    fitted = pd.DataFrame({"share": [write(n) for n in range(24)], "y": np.sin(np.arange(24.0))})
    fitted.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "--target", "y", "--out", "m.mgp", *FAST)
    new = pd.DataFrame({"share": cells})
    new.to_csv("new.csv", index=False)
    told = mgp("predict", "m.mgp", "new.csv", "--out", "p.csv").err
    found = pd.read_csv("p.csv")
    known = np.array([number is not None for number in numbers])
    np.testing.assert_array_equal(found["mean"].notna(), known)
    reasons = found["reason"][~known]
    assert all(f"'{cell}'" in why or cell == "?" for cell, why in zip(new["share"][~known], reasons, strict=True))
    first = np.flatnonzero(~known)[0]
    assert f"the first: share is '{cells[first]}', {'in another unit' if case == 'unit' else 'no number'}" in told
    pd.DataFrame({"share": [number for number in numbers if number is not None]}).to_csv("plain.csv", index=False)
    mgp("predict", "m.mgp", "plain.csv", "--out", "again.csv")
    np.testing.assert_allclose(found["mean"][known], pd.read_csv("again.csv")["mean"])
    new.assign(y=0.5).to_csv("new.csv", index=False)
    assert json.loads(mgp("score", "m.mgp", "new.csv", "--json").out)["rows"] == known.sum()
    X, _, rows, _ = _test_rows(manifoldgp.load("m.mgp"), "new.csv", False, Messages(True))
    assert X["share"].tolist() == [number for number in numbers if number is not None]
    assert rows.tolist() == (1 + np.flatnonzero(known)).tolist()
    fitted.assign(share=[*fitted["share"][:-1], cells[first]]).to_csv("data.csv", index=False)
    refused = fails("fit", "data.csv", "-t", "y", "-o", "n.mgp")  # numbers with words beside them look like names there
    assert f"text in 1 of 24 rows: '{cells[first]}'" in refused or "kg" in write(1)


def test_thousands_of_the_fit_are_thousands_in_new_tables(tmp_path, monkeypatch):
    """`1.250` alone was 1.25 in a new table, with a warning that nothing told; the fit had read 1250."""
    monkeypatch.chdir(tmp_path)
    rows = [f"1.{100 + 30 * n};2.{100 + 7 * n}" for n in range(24)]
    Path("data.csv").write_text("\n".join(["km;price", "957;1.100", *rows]), "utf-8")
    mgp("fit", "data.csv", "--target", "price", "--out", "m.mgp", *FAST)
    for file, text in (
        ("one.csv", "km\n1.250\n"),
        ("plain.csv", "km\n1250\n"),
        ("new.csv", "km;price\n1.250;2.200\n1.260;2.300\n"),
    ):
        Path(file).write_text(text, "utf-8")
    done = mgp("predict", "m.mgp", "one.csv", "--out", "p.csv")
    assert "warning: Texts in one.csv are read as numbers, points and commas as at the fit: km ('1.250' is 1250)." in done.err
    mgp("predict", "m.mgp", "plain.csv", "--out", "q.csv")
    assert Path("p.csv").read_text("utf-8") == Path("q.csv").read_text("utf-8")
    score = json.loads(mgp("score", "m.mgp", "new.csv", "--json").out)["scores"]["price"]
    assert score["rmse"] < 500
    said = mgp("report", "m.mgp", "--test", "new.csv", "--out", "r.html").err
    assert "as at the fit: km ('1.250' is 1250), price ('2.200' is 2200)." in said


@pytest.mark.parametrize("thousands", [False, True])
@pytest.mark.parametrize("text", ["n. bestimmt", "<2,0", "siehe Protokoll"])
def test_a_text_among_numbers_with_decimal_commas_is_refused_as_among_others(here, text, thousands):
    """The column would be left out as one of names, and nobody would know."""
    cells = [("1." if thousands else "") + f"{100 + n / 8}".replace(".", ",") for n in range(40)]
    cells[7] = text
    (here / "comma.csv").write_text("\n".join(["a;b;y", *(f"{cell};{n % 5},5;{n}" for n, cell in enumerate(cells))]))
    message = fails("fit", "comma.csv", "--target", "y", "--out", "comma.mgp")
    assert f"Column 'a' holds numbers, and text in 1 of 40 rows: {text!r} (row 8)." in message


def test_categories_that_look_like_numbers_stay_what_they_are(here):
    """Whether a column holds numbers among texts must not depend on how many of them a file has."""
    kinds = ["low", "high", "5 %", "10 %", "none", "007", "7", "+", "-", "1,5"]
    rows = ["d;x;y", *(f"{kinds[n % 10]};{n % 7},5;{n * n % 11}" for n in range(60))]
    (here / "kinds.csv").write_text("\n".join(rows))
    told = mgp("fit", "kinds.csv", "--target", "y", "--averaging", "single", "--restarts", "1", "--out", "kinds.mgp").err
    assert "each of 10 categories" in told
    (here / "new.csv").write_text("d;x\n5 %;1,5\n10 %;1,5\n5 %;0,5\n007;1,5\n-;1,5\n1,5;2,5\nlow;2,5\n")
    found = pd.read_csv(io.StringIO(mgp("predict", "kinds.mgp", "new.csv").out))
    assert len(found) == 7
    assert found["mean"].notna().all()


def test_unknown_categories_are_predicted_with_wide_intervals_where_allowed(folder, tmp_path):
    new = pd.read_csv(folder / "new.csv").head(1)
    pd.concat([new.assign(surface=kind) for kind in ("hard", "soft", "lava")]).to_csv(tmp_path / "new.csv", index=False)
    done = mgp("predict", folder / "model.mgp", tmp_path / "new.csv", "--allow-unknown", "--out", tmp_path / "p.csv")
    assert "warning: Column 'surface' has values that the model has not seen: 'lava'" in done.err
    hard, soft, lava = pd.read_csv(tmp_path / "p.csv").to_dict("records")
    assert min(hard["mean"], soft["mean"]) <= lava["mean"] <= max(hard["mean"], soft["mean"])
    assert lava["std"] >= min(hard["std"], soft["std"])
    new.assign(surface="lava").to_csv(tmp_path / "new.csv", index=False)
    told = fails("predict", folder / "model.mgp", tmp_path / "new.csv", "--out", tmp_path / "p2.csv")
    assert told.startswith("mgp: Column 'surface' has values that the model has not seen: 'lava' (row 1); it knows hard, soft.")
    assert not (tmp_path / "p2.csv").exists()


def test_a_failed_prediction_leaves_the_old_file(folder, tmp_path):
    out = tmp_path / "p.csv"
    out.write_text("old")
    new = pd.read_csv(folder / "new.csv")
    new.assign(x1=np.nan).to_csv(tmp_path / "new.csv", index=False)
    told = fails("predict", folder / "model.mgp", tmp_path / "new.csv", "--out", out)
    assert told.startswith(
        "mgp: Values are missing or infinite in column 'x1' in 25 of 25 rows (rows 1, 2, 3 and 22 more). Fill them in"
    )
    assert out.read_text() == "old"
    lacking = new.drop(columns=["x1", "surface"])
    lacking.to_csv(tmp_path / "new.csv", index=False)
    assert "no columns 'x1', 'surface'" in fails("predict", folder / "model.mgp", tmp_path / "new.csv", "--out", out)
    assert out.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"p.csv", "new.csv"}


def test_faults_of_targets_and_of_inputs_are_told_together(tmp_path, monkeypatch):
    """Gaps came in a second run, after the target had been corrected."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"x": [1.0, None, *range(18)], "y": [*range(19), "rotary"]}).to_csv("data.csv", index=False)
    told = mgp("fit", "data.csv", "-t", "y", "-o", "m.mgp", code=1).err
    assert "Column 'y' must hold numbers; it has 'rotary' (row 20)" in told
    assert "Values are missing or infinite in column 'x' in 1 of 20 rows (row 2)" in told


def test_dates_gaps_and_many_categories_go_through_every_command(here):
    rng = np.random.default_rng(3)
    table = messy(80).assign(
        when=pd.date_range("2026-03-01", periods=80, freq="5h").strftime("%Y-%m-%d %H:%M"),
        city=[f"c{k}" for k in rng.integers(0, 14, 80)],
    )
    table.loc[3:9, "x"] = np.nan
    table.loc[8:12, "floor"] = None
    table.drop(columns=["z", "sd"]).to_csv("data.csv", index=False)
    fit = ("fit", "data.csv", "-t", "y", "--out", "m.mgp", *FAST)
    assert "Values are missing or infinite in column 'x' in 7 of 80 rows" in mgp(*fit, code=1).err
    done = mgp(*fit, "--missing", "drop")
    lines = done.err.splitlines()
    dropped = lines.index("10 of 80 rows have missing inputs and are left out (x in 7, floor in 5).")
    assert lines[0].startswith("80 rows; inputs:")
    assert dropped == 1  # after what the table has, before what becomes of its columns
    assert manifoldgp.load("m.mgp").ensembles_[0].blocks[0].rows == 70
    done = mgp(*fit, "--missing", "impute", "--cyclic", "day,week")
    for line in (
        "x, floor: missing values are taken from rows that are alike; a column says where",
        "city: text, becomes the effect of each of 14 categories (c0, c1, c10, c11, c12, c13, ...) on the target",
        "when: dates, become when [days], when: sine of day, when: cosine of day, when: sine of week, when: cosine of week",
    ):
        assert line in done.err.splitlines()
    shown = " ".join(mgp("inspect", "m.mgp").out.split())
    assert "when date, becomes days since 2026-03-01, and its place in the day, week" in shown
    assert "cyclic day, week missing impute" in shown  # as they were given, not as Python writes a tuple
    assert "city text with 14 levels" in shown
    mgp("predict", "m.mgp", "data.csv", "--out", "p.csv")
    predicted = pd.read_csv("p.csv")
    assert predicted.notna().all(axis=None)
    mean, std = manifoldgp.load("m.mgp").predict(pd.read_csv("data.csv"), return_std=True)
    np.testing.assert_allclose(predicted[["mean", "std"]], np.stack([mean, std], 1), rtol=1e-9)
    assert json.loads(mgp("score", "m.mgp", "data.csv", "--json").out)["rows"] == 80
    assert "There is no column of dates" in fails("fit", "new.csv", "-t", "y", "--cyclic", "day", "--out", "n.mgp")


def test_rows_that_one_column_costs_are_told_with_what_to_do(here):
    """Comments that few rows have took two thirds of a laboratory's rows."""
    rng = np.random.default_rng(0)
    remark = np.where(np.arange(40) % 3 == 0, np.array(["ok", "again"])[np.arange(40) % 2], "")
    pd.DataFrame({"a": rng.normal(size=40), "remark": remark, "y": rng.normal(size=40)}).to_csv("data.csv", index=False)
    done = mgp("fit", "data.csv", "-t", "y", "--missing", "drop", "--out", "m.mgp", *FAST)
    assert (
        "warning: 26 of 40 rows have missing inputs and are left out (remark in 26). More rows stay with --missing impute, or without a column: --drop remark"
        in done.err.splitlines()
    )


def test_dates_with_a_time_zone_are_told_to_be_taken_in_utc(here):
    """Else the place in the day, and the date that mgp inspect shows, seem to be an hour or two off."""
    when = pd.date_range("2026-03-28 06:00", periods=30, freq="3h", tz="Europe/Berlin")
    table = pd.DataFrame({"when": [time.isoformat() for time in when], "y": np.random.default_rng(0).normal(size=30)})
    table.to_csv("data.csv", index=False)
    fit = ("fit", "data.csv", "-t", "y", "--out", "m.mgp", *FAST)
    assert "when: dates, with a time zone, taken in UTC, become when [days]" in mgp(*fit).err.splitlines()
    table.assign(when=when.strftime("%Y-%m-%d %H:%M")).to_csv("data.csv", index=False)
    assert "when: dates, become when [days]" in mgp(*fit).err.splitlines()


def test_a_skewed_positive_target_is_told(here):
    """Of durations between 1 and 176 s the 5 % quantiles went down to -47 s, and nobody said so."""
    a = np.linspace(0, 1, 40)
    pd.DataFrame({"a": a, "seconds": np.exp(6 * a**3)}).to_csv("data.csv", index=False)
    fit = ("-t", "seconds", "--out", "m.mgp", *FAST)
    told = "warning: seconds: always above 0, with few very large values (median 2.12, largest 403): intervals may reach below 0."
    assert told in mgp("fit", "data.csv", *fit).err
    warped = mgp("fit", "data.csv", "--target-warping", "tanh", *fit)
    assert "intervals may reach" not in warped.err
    assert manifoldgp.load("m.mgp").target_warping == "tanh"
    assert "--target-warping must be tanh" in mgp("fit", "data.csv", "--target-warping", "log", *fit, code=2).err
    pd.DataFrame({"a": a, "seconds": 1 + a}).to_csv("data.csv", index=False)
    assert "intervals may reach" not in mgp("fit", "data.csv", *fit).err


def test_a_dash_among_words_is_told(here):
    """Among numbers it means that nothing is known; among words nobody can say, and it is a category."""
    rng = np.random.default_rng(0)
    answers = np.array(["agree", "disagree", "-"])[np.arange(30) % 3]
    signs = np.array(["+", "-"])[np.arange(30) % 2]
    pd.DataFrame({"answer": answers, "sign": signs, "y": rng.normal(size=30)}).to_csv("data.csv", index=False)
    told = [
        line for line in mgp("fit", "data.csv", "-t", "y", "--out", "m.mgp", *FAST).err.splitlines() if "like any other" in line
    ]
    assert told == [
        "warning: answer: '-' counts as a category like any other. If it means that nothing is known, leave these cells empty."
    ]


def test_a_number_that_stands_for_nothing_is_told(here):
    rows = ["stars,weight,price", *(f"{-999 if n in (3, 9) else n % 5 + 1},{990 + 7 * n % 30},{n * n % 17}" for n in range(30))]
    (here / "stars.csv").write_text("\n".join(rows))
    told = mgp("fit", "stars.csv", "--target", "price", "--averaging", "single", "--restarts", "1", "--out", "stars.mgp").err
    assert (
        "warning: -999 (2 rows of stars) lies far from all other values there, or alone below 0. If it means that nothing is known, leave"
        in told
    )
    assert " 999 (" not in told  # 999 among 990 to 1019 is a number


def test_a_number_that_stands_for_nothing_is_told_of_all_columns_that_have_it(here):
    """-999 among pressures lies as far from these as they do from 0: it was told of temperatures alone, as if others had none."""
    rows = [
        f"{n % 9 - 4},{-999 if n in (3, 9, 12) else 1013 + n % 5},{-999 if n == 4 else n % 7 * 100},{n * n % 17}"
        for n in range(30)
    ]
    (here / "air.csv").write_text("\n".join(["T,p,sun,rain", "-999,1010,5,1", *rows]))
    told = mgp("fit", "air.csv", "--target", "rain", "--averaging", "single", "--restarts", "1", "--out", "air.mgp").err
    assert told.count("-999 (") == 1
    assert "warning: -999 (1 row of T, 3 rows of p, 1 row of sun) lies far from all other values there, or alone" in told


def test_a_target_that_stands_for_nothing_is_told(here):
    rows = ["x,level [m]", *(f"{n},{-999 if n in (3, 9) else n % 7 / 5}" for n in range(30))]
    (here / "tide.csv").write_text("\n".join(rows))
    told = mgp("fit", "tide.csv", "--target", "level [m]", "--averaging", "single", "--restarts", "1", "--out", "tide.mgp").err
    assert (
        "warning: -999 (2 rows of level [m]) lies far from all other values there, or alone below 0. If it means that nothing is known"
        in told
    )


def test_a_row_of_means_below_the_table_is_left_out(here):
    rows = ["core,age,cement,strength", *(f"K{n},{n % 9},{'AB'[n % 2]},{n % 9 + n % 2}" for n in range(30)), "K30,,,4.4"]
    (here / "cores.csv").write_text("\n".join(rows))
    told = mgp("fit", "cores.csv", "-t", "strength", "--missing", "impute", "--out", "cores.mgp", *FAST).err
    assert "warning: 1 of 31 rows has a target but no input and is left out (row 31): such a row holds a mean or a sum" in told
    assert "is missing" not in told
    assert json.loads(mgp("inspect", "cores.mgp", "--json").out)["rows"] == 30


def test_a_constant_target_is_told_before_the_training_and_on_the_page(here):
    (here / "same.csv").write_text("\n".join(["x,y [N]", *(f"{n},2.5" for n in range(20))]))
    told = mgp("fit", "same.csv", "--target", "y [N]", "--averaging", "plain", "--out", "same.mgp").err
    assert "warning: y [N] is 2.5 in every row: there is nothing to learn." in told
    assert told.index("nothing to learn") < told.index("20 rows, a plain GP, --method exact: a")
    mgp("report", "same.mgp", "--out", "same.html")
    page = (here / "same.html").read_text(encoding="utf-8")
    assert "y [N] is 2.5 N in every training row: there is nothing to learn" in page
    assert "intervals are too" not in page


def test_a_target_of_two_values_is_told(here):
    """Intervals of a yes or no reach below 0 and above 1, and nothing said so."""
    rng = np.random.default_rng(0)
    pd.DataFrame({"a": rng.normal(size=30), "bought": np.arange(30) % 2}).to_csv("data.csv", index=False)
    assert "bought has two values only, 0 and 1" in mgp("fit", "data.csv", "-t", "bought", "--out", "m.mgp", *FAST).err


def test_programs_keep_to_one_thread_of_blas(here, monkeypatch):
    """On a busy machine the threads of a product wait for each other: 900 predictions took 8 to 25 s of processor time in place of 1.5."""
    from threadpoolctl import threadpool_info

    from manifoldgp.predictor import Predictor

    seen, mixtures = [], Predictor.mixtures

    def watched(self, X, *more):
        seen.append((len(X), {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}))
        return mixtures(self, X, *more)

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=40), "y": rng.normal(size=40)})
    table.to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "-t", "y", "--out", "m.mgp", *FAST)
    monkeypatch.setattr(Predictor, "mixtures", watched)
    whole = json.loads(mgp("score", "m.mgp", "data.csv", "--json").out)["scores"]["y"]
    mgp("predict", "m.mgp", "data.csv", "--out", "p.csv")
    assert seen == [(40, {1})] * 2
    monkeypatch.setattr("manifoldgp.cli._answers._ROWS_AT_ONCE", 7)
    monkeypatch.setattr("manifoldgp.cli._answers._ROWS_OF_A_CORE", 1)
    in_pieces = json.loads(mgp("score", "m.mgp", "data.csv", "--json").out)["scores"]["y"]
    assert in_pieces == pytest.approx(whole, rel=1e-12)


def test_numbers_of_rows_are_told(here):
    """Tables that other software wrote begin with them, and a fit takes them for an input."""
    table = messy().assign(rownames=range(1, 31), run=1000 + np.arange(30))
    table.loc[2, "y"] = np.nan  # a row that is left out
    table[["rownames", "run", "x", "y"]].to_csv("data.csv", index=False)
    said = "rownames, run: seems to be the number of the row, and is an input here. If it says nothing about new rows, leave it out: --drop rownames --drop run"
    assert said in mgp("fit", "data.csv", "-t", "y", "--out", "m.mgp", *FAST).err
    table[["rownames", "x", "y"]].drop(index=range(3, 9)).to_csv("data.csv", index=False)  # some of a larger table
    assert "rownames: seems to be" in mgp("fit", "data.csv", "-t", "y", "--out", "m.mgp", *FAST).err
    assert "number of the row" not in mgp("fit", "data.csv", "-t", "y", "--drop", "rownames", "--out", "m.mgp", *FAST).err
    in_time = ("fit", "data.csv", "-t", "y", "--ordered", "--time-budget", "1", "--out", "m.mgp")
    assert "number of the row" not in mgp(*in_time).err  # which it may be
    table.assign(rpm=np.sort(RNG.integers(0, 900, 30)))[["rpm", "x", "y"]].to_csv("data.csv", index=False)
    assert "number of the row" not in mgp("fit", "data.csv", "-t", "y", "--out", "m.mgp", *FAST).err


def test_a_column_without_a_name_is_left_out_with_the_reason(here):
    messy()[["x", "y", "z"]].to_csv("data.csv")
    done = mgp("fit", "data.csv", "-t", "y", "--drop", "z", "--out", "m.mgp", *FAST)
    assert (
        "Left out, because a column without a name numbers or names the rows as a rule: column 1 (no name)"
        in done.err.splitlines()
    )
    assert "Left out: z" in done.err.splitlines()


@pytest.mark.parametrize(("header", "written"), [(",x", ",x"), ("# remarks\n#,x", ",x"), ("Unnamed: 0,x", "Unnamed: 0,x")])
def test_an_empty_name_is_told_in_words_and_written_as_it_was(here, header, written):
    """A name that the file lacks, Unnamed: 0, or nothing at all was told, and written into the table of predictions."""
    rows = "".join(f"{k},{k / 4},{k % 3}\n" for k in range(20))
    Path("data.csv").write_text(f"{header},y\n{rows}", "utf-8")
    done = mgp("fit", "data.csv", "-t", "y", "--out", "m.mgp", *FAST)
    assert "as a rule: column 1 (no name)" in done.err
    assert "It has: column 1 (no name), x, y" in fails("fit", "data.csv", "-t", "z", "--out", "n.mgp", *FAST)
    assert mgp("predict", "m.mgp", "data.csv", "--with-inputs").out.splitlines()[0] == f"{written},y,mean,std,q05,q50,q95"


def test_names_with_commas_are_quoted_where_gaps_are_told(here):
    table = pd.DataFrame({"seat, room": np.arange(20.0), "x": RNG.normal(size=20), "y": RNG.normal(size=20)})
    table.loc[3, "seat, room"] = np.nan
    table.to_csv("data.csv", index=False)
    done = mgp("fit", "data.csv", "-t", "y", "--missing", "impute", "--out", "m.mgp", *FAST)
    assert "'seat, room': missing values are taken" in done.err


@pytest.mark.parametrize(("step", "period"), [("h", "day"), ("D", "week"), ("MS", "year")])
def test_a_series_of_dates_alone_is_told_what_suits_it(here, step, period):
    """Thirteen days of a tide gauge were advised to repeat with the seasons."""
    days = pd.date_range("2026-01-01", periods=len(messy()) * (2 if step == "h" else 1), freq=step)
    days = days[:: 2 if step == "h" else 1].strftime("%Y-%m-%d %H:%M")
    messy().assign(day=days)[["day", "y"]].to_csv("data.csv", index=False)
    fit = ("fit", "data.csv", "-t", "y", "--out", "m.mgp", "--ordered", "--time-budget", "1")
    assert f"Dates alone are the inputs: mgp fit --cyclic {period} lets" in mgp(*fit).err
    assert "Dates alone" not in mgp(*fit, "--cyclic", "week").err


def test_rows_in_order_of_dates_are_told_which_errors_are_the_easy_ones(here):
    """Sea temperatures had a typical error of 0.4 degrees on rows between known ones, and of 2.2 on whole stretches."""
    told = "The rows stand in order of day: errors that are told are those of rows between known ones"
    days = pd.date_range("2026-01-01", periods=30, freq="D").strftime("%Y-%m-%d").to_numpy()
    fit = ("fit", "data.csv", "-t", "y", "--out", "m.mgp", *FAST)
    messy().assign(day=days).to_csv("data.csv", index=False)
    assert told in mgp(*fit).err
    assert told in mgp(*fit, "--drop", "day").err
    assert told not in mgp(*fit, "--group", "site").err
    messy().assign(day=RNG.permutation(days)).to_csv("data.csv", index=False)
    assert "The rows stand in order" not in mgp(*fit).err


def test_a_text_with_one_category_and_gaps_is_told_as_one(here):
    table = messy().assign(fee=["$70/mo"] + [None] * 29)
    table[["x", "fee", "y"]].to_csv("data.csv", index=False)
    done = mgp("fit", "data.csv", "-t", "y", "--missing", "impute", "--out", "m.mgp", *FAST)
    assert "fee: text, with a single category ($70/mo)" in done.err


@pytest.mark.parametrize(("arguments", "code", "message"), [
    (["fit", "none.csv", "-t", "y", "-o", "m.mgp"], 1, "mgp: There is no file none.csv. Check its name."),
    (["fit", "data.csv", "-t", "why", "-o", "m.mgp"], 1, "mgp: The table has no column 'why'. It has: x, floor, wet, site, sd, y, z."),
    (["fit", "data.csv", "-t", "floor", "-o", "m.mgp"], 1, "mgp: Column 'floor' must hold numbers; it holds text, such as 'mud'"),
    (["fit", "data.csv", "-t", "y", "-o", "none/m.mgp"], 1, "mgp: The folder none does not exist. Create it first."),
    (["fit", "data.csv", "-t", "y", "-o", "."], 1, "mgp: . is a folder. Name a file in it."),
    (["fit", "data.csv", "-t", "y", "-o", "/dev/null"], 1, "mgp: /dev/null is neither a file nor a folder"),
    (["fit", "data.csv", "-t", "y", "-o", "m.mgp", "--group", "x", "--ordered"], 2, "Choose one. See: mgp fit --help"),
    (["fit", "data.csv", "-t", "y", "-o", "m.mgp", "--averaging", "mean"], 2, "'mean' is not one of 'stack', 'fast'"),
    (["fit", "data.csv", "-t", "y", "-o", "m.mgp", "--time-budget", "0"], 2, "must be a positive number of seconds"),
    (["fit", "data.csv", "-t", "y", "-o", "m.mgp", "--restarts", "0"], 2, "Invalid value for '--restarts': "),
    (["predict", "none.mgp", "data.csv"], 1, "mgp: There is no model file none.mgp."),
    (["predict", "data.csv", "data.csv", "--out", "p.doc"], 1, "mgp: p.doc: the ending says the format"),
    (["inspect", "data.csv"], 1, "mgp: data.csv is not a model file"),
    (["export", "m.mgp", "--to", "pickle", "--out", "m"], 2, "'pickle' is not one of 'onnx', 'numpy'"),
    (["guess"], 2, "mgp: No such command 'guess'"),
])  # fmt: skip
def test_mistakes_are_told_in_one_line(here, arguments, code, message):
    told = fails(*arguments, code=code)
    assert message in told
    assert {path.name for path in here.iterdir()} == {"data.csv", "new.csv"}


def test_a_damaged_model_is_refused_in_one_line(folder, tmp_path):
    (tmp_path / "m.mgp").write_bytes((folder / "model.mgp").read_bytes()[:-40])
    assert "is not a model file, or it is damaged" in fails("inspect", tmp_path / "m.mgp")


def test_debug_shows_the_place(here):
    with pytest.raises(InputError, match="no column 'why'"):
        mgp("fit", "data.csv", "-t", "why", "-o", "m.mgp", "--debug")


@pytest.mark.parametrize(("options", "message"), [
    (["--max-iter", "9"], "--max-iter has no effect on --averaging stack with --method auto. It needs --averaging plain, single, restarts or nuts."),
    (["--averaging", "fast", "--restarts", "2"], "--restarts has no effect on --averaging fast with --method auto."),
    (["--averaging", "fast", "--hidden", "4,2"], "--hidden has no effect on --averaging fast with --method auto, which has networks of its own."),
    (["--averaging", "fast", "--activation", "tanh"], "--activation has no effect on --averaging fast"),
    (["--inducing", "9"], "--inducing has no effect on --averaging stack with --method auto. It needs --method sparse."),
    (["--method", "exact", "--checkpoint", "c"], "--checkpoint has no effect on --averaging stack with --method exact. It needs --method sparse."),
    (["--method", "sparse", "--averaging", "fast"], "--averaging fast cannot be done by sparse models. Use --method exact, or --averaging stack or single."),
    (["--hidden", "4,two"], "--hidden must be layer sizes such as 64,32,4; got '4,two'."),
    (["--averaging", "none"], "'none' is not one of 'stack', 'fast', 'restarts', 'nuts', 'single'"),
])  # fmt: skip
def test_options_without_effect_are_refused_by_name(here, options, message):
    done = mgp("fit", "data.csv", "-t", "y", "--features", "x", "-o", "m.mgp", *options, code=2)
    assert message in done.err


@pytest.mark.parametrize(("options", "names"), [
    (["--averaging", "fast", "--hidden", "4", "--restarts", "2"], ["hidden", "restarts"]),
    (["--averaging", "plain", "--activation", "tanh", "--hidden", "4", "--inducing", "9"], ["activation", "hidden", "inducing"]),
])  # fmt: skip
def test_all_options_without_effect_are_told_at_once(here, options, names):
    told = mgp("fit", "data.csv", "-t", "y", "--features", "x", "-o", "m.mgp", *options, code=2).err
    assert all(f"--{name} has no effect on" in told for name in names)


@pytest.mark.parametrize(("option", "which"), [(["--ordered"], "later rows"), (["--group", "floor"], "rows of new groups")])
@pytest.mark.parametrize(
    ("way", "named", "instead"),
    [
        (["--averaging", "fast"], "--averaging fast", "--averaging stack"),
        (["--averaging", "plain", "--restarts", "1", "--max-iter", "5"], "a plain GP", "--kernel auto"),
    ],
    ids=["fast", "plain"],
)
def test_rows_that_nobody_holds_out_are_a_warning_for_order_and_groups_alike(here, option, which, way, named, instead):
    """--ordered was refused, and --group, which asks for the same, with --averaging fast only warned of."""
    told = mgp("fit", "data.csv", "-t", "y", "--drop", "z", "--out", "m.mgp", *way, *option).err
    words = f"warning: {option[0]} says which rows are held out together, and {named} holds out none: nothing tells how large errors on {which} are. {instead} does."
    assert words in told


def test_all_wrong_input_noises_are_told_at_once(here):
    given = ["--input-std", "x=a", "--input-std", "z"]
    assert "got 'x=a', 'z'." in mgp("fit", "data.csv", "-t", "y", "-o", "m.mgp", *given, code=2).err


@pytest.mark.parametrize(("options", "message"), [
    (["--averaging", "fast"], "--averaging fast cannot be done by sparse models. Under torchrun use --averaging stack or single."),
    (["--method", "exact"], "--method exact cannot be shared by the processes of torchrun."),
    (["--drop", "z"], "--drop cannot be used under torchrun. Name the inputs with --features."),
    (["--group", "floor"], "--group cannot be used under torchrun."),
])  # fmt: skip
def test_options_that_processes_cannot_share_are_refused_by_name(here, options, message, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert message in mgp("fit", "data.csv", "-t", "y", "-o", "m.mgp", *options, code=2).err


def test_the_network_of_a_fit(here):
    mgp(
        "fit",
        "data.csv",
        "-t",
        "y",
        "--features",
        "x,wet",
        "--hidden",
        "4,3",
        "--activation",
        "tanh,identity",
        "-o",
        "m.mgp",
        "--quiet",
        *FAST,
    )
    assert manifoldgp.load("m.mgp").features == manifoldgp.MLP((4, 3), ("tanh", "identity"))


def test_what_the_estimator_warns_of_is_said_unless_quiet(here):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = mgp("fit", "data.csv", "-t", "y", "--features", "x", "-o", "m.mgp", "--averaging", "fast", "--quiet")
    assert (quiet.out, quiet.err) == ("", "")


def test_a_time_budget_ends_a_stack_early_and_inspect_says_so(here):
    mgp("fit", "data.csv", "-t", "y", "--features", "x,floor", "-o", "m.mgp", "--time-budget", "0.001", "--quiet")
    said = " ".join(mgp("inspect", "m.mgp").out.split())
    assert "Training was stopped" in said
    assert "the features add little here" not in said


def test_more_members_of_a_model_in_a_file(here):
    fit = [
        "fit",
        "data.csv",
        "-t",
        "y",
        "--features",
        "x,floor",
        "--averaging",
        "restarts",
        "--restarts",
        "2",
        "--max-iter",
        "5",
        "--quiet",
    ]
    mgp(*fit, "--out", "m.mgp")
    mgp(*fit, "--more", "m.mgp", "--out", "more.mgp", "--time-budget", "60")
    assert [len(manifoldgp.load(name).starts_) for name in ("m.mgp", "more.mgp")] == [2, 4]
    assert "was fitted with other ones (averaging)" in fails(*fit, "--max-iter", "6", "--more", "m.mgp", "--out", "other.mgp")
    assert "m.mgp is one of the inputs" in fails(*fit, "--more", "m.mgp", "--out", "m.mgp", code=2)


def test_inspect_shows_columns_settings_and_remarks(folder):
    shown = mgp("inspect", folder / "model.mgp").out
    words = " ".join(shown.split())
    for part in (
        "Model", "target y", "rows 60", "averaging Single(max_iter=15, restarts=2)",
        "surface text: hard, soft", "run labels of rows that belong together; not an input",
        "What the fit looks like", "NLML per row",
    ):  # fmt: skip
        assert part in words
    about = json.loads(mgp("inspect", folder / "model.mgp", "--json").out)
    model = manifoldgp.load(folder / "model.mgp")
    assert about["rows"] == 60
    assert about["table"] == model.table_encoding_.to_plain() | {"donors": None, "rows_left_out": None, "group_labels": None}
    assert about["settings"]["averaging__max_iter"] == 15
    assert about["remarks"] == [in_options(remark) for remark in model.diagnose().remarks]
    assert about["numbers"]["NLML per row"] == pytest.approx(model.diagnose().numbers["NLML per row"])


def test_numbers_say_whose_they_are(tmp_path):
    """`trained parameters 8` stood there of an average of 84 members, and the noise was in units of y, whatever the target was called."""
    x = np.linspace(-1.0, 1.0, 20)
    model = ManifoldGPRegressor((3, 2), averaging=Restarts(restarts=2, max_iter=5))
    model.fit(pd.DataFrame({"speed": x}), pd.Series(np.sin(3.0 * x), name="force")).save(tmp_path / "m.mgp")
    words = " ".join(mgp("inspect", tmp_path / "m.mgp").out.split())
    told = "length-scales and features are those of the member with the most weight; the noise is that of all members together."
    assert told in words
    assert "noise standard deviation (units of the target)" in words
    mgp("report", tmp_path / "m.mgp", "--out", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert told in page
    assert "of y)" not in page


def test_colour_is_for_terminals_that_want_it(folder, monkeypatch):
    assert "\x1b[" not in mgp("inspect", folder / "model.mgp").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1;36m" in mgp("inspect", folder / "model.mgp").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;36m" not in mgp("inspect", folder / "model.mgp").out


@pytest.mark.parametrize("named", [True, False])
def test_models_saved_from_python_are_used_by_name_or_by_order(here, named):
    X = messy()[["x", "sd"]]
    model = GPRegressor(restarts=1, max_iter=5).fit(X if named else X.to_numpy(), messy()["y"])
    model.save("m.mgp")
    new = messy(12, 1)[["sd", "x"] if named else ["x", "sd"]]
    new.to_csv("new.csv", index=False)
    mgp("predict", "m.mgp", "new.csv", "--out", "p.csv")
    query = new[["x", "sd"]]
    np.testing.assert_allclose(pd.read_csv("p.csv")["mean"], model.predict(query if named else query.to_numpy()))
    new.assign(why=0.0).to_csv("new.csv", index=False)
    assert json.loads(mgp("score", "m.mgp", "new.csv", "--target", "why", "--json").out)["rows"] == 12
    assert json.loads(mgp("inspect", "m.mgp", "--json").out)["estimator"] == "GPRegressor"
    if not named:
        assert "has 3 inputs: x, sd, why" in fails("predict", "m.mgp", "new.csv")


def test_bench_measures_what_it_prints(monkeypatch, capsys):
    from manifoldgp.cli import bench

    monkeypatch.setattr(bench, "_TEST_ROWS", 50)
    results = json.loads(mgp("bench", "--rows", "20", "--json", "--quiet").out)["results"]
    assert [r["estimator"] for r in results] == ["scikit-learn GP", "GPRegressor", "mGP, fast", "mGP, stack"]
    assert all(r["fit_seconds"] > 0 and r["predict_seconds"] > 0 and 0 < r["rmse"] < 1 for r in results)
    bench._show(results)
    shown = capsys.readouterr().out
    assert shown.count("\n") == 5
    assert f"{results[0]['rmse']:.4f}" in shown


def test_quantiles_of_any_level(folder):
    table = mgp("predict", folder / "model.mgp", folder / "new.csv", "--quantiles", "0.025,0.5,0.9").out
    assert table.splitlines()[0] == "mean,std,q2.5,q50,q90"
    for wrong in ("", "0.1,high", "0,0.5", "5,95"):
        told = fails("predict", folder / "model.mgp", folder / "new.csv", "--quantiles", wrong, code=2)
        assert "--quantiles must be numbers between 0 and 1" in told


def test_a_signal_while_few_points_are_looked_for_ends_that_and_the_model_is_written(tmp_path, monkeypatch):
    """The search had taken ten seconds and more after "Fitted in": Ctrl-C lost the model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("manifoldgp.cli._fitted.SMALL_PROGRAM", 100_000)
    looked = []

    def interrupted(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        looked.append(distilled(*arguments))
        return looked[0]

    monkeypatch.setattr("manifoldgp.estimators.program_targets.distilled", interrupted)
    x = np.random.default_rng(0).normal(size=(300, 2))
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.sin(x[:, 0])}).to_csv("data.csv", index=False)
    told = mgp("fit", "data.csv", "--target", "y", "--out", "m.mgp", "--averaging", "plain", code=143).err
    assert "mgp: Interrupted after the fit: m.mgp is the finished model, without few points for faster predictions." in told
    assert "Wrote m.mgp" in told
    assert looked[0][0].few == [[None] * block.members for block in looked[0][0].ensemble.blocks]
    assert not manifoldgp.load("m.mgp").interrupted_


def test_a_large_model_predicts_by_a_quick_program_and_says_what_that_loses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("manifoldgp.cli._fitted.SMALL_PROGRAM", 100_000)  # bytes: 300 rows take four times as many
    rng = np.random.default_rng(0)
    x = rng.normal(size=(320, 2))
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.sin(x[:, 0]) + 0.3 * rng.normal(size=320)})
    table[:300].to_csv("data.csv", index=False)
    table[300:].to_csv("new.csv", index=False)
    done = mgp("fit", "data.csv", "--target", "y", "--out", "m.mgp", "--averaging", "plain")
    assert "looking for few points" in done.err  # up to ten seconds in which nothing else is said
    assert "then up to 10 s of processor time to look for few points, if the model is large" in done.err.split("Fitted in")[0]
    lost = (
        "Predicted by a quick approximation, usually within hundredths of a standard deviation; --exact takes the model itself."
    )
    quick, exact = mgp("predict", "m.mgp", "new.csv"), mgp("predict", "m.mgp", "new.csv", "--exact")
    assert lost in quick.err
    assert lost not in exact.err
    one, other = (pd.read_csv(io.StringIO(done.out)) for done in (quick, exact))
    mean, std = manifoldgp.load("m.mgp").predict(table[300:][["a", "b"]], return_std=True)
    np.testing.assert_allclose(other["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(other["std"], std, rtol=1e-9)
    assert 0.0 < np.abs(one["mean"] - mean).max() < 0.2 * std.min()
    assert lost in mgp("score", "m.mgp", "new.csv").err
    assert lost not in mgp("score", "m.mgp", "new.csv", "--exact").err
    monkeypatch.setattr("manifoldgp.cli._answers._ROWS_AT_ONCE", 3)
    in_pieces = pd.read_csv(io.StringIO(mgp("predict", "m.mgp", "new.csv").out))
    np.testing.assert_allclose(in_pieces, one, rtol=1e-9)
