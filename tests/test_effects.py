"""Effects along the data, and what a page says first: errors beside those of the mean, intervals, residuals, worst rows, test rows."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from command_line import mgp
from fitted_models import fitted, plain_gp, table
from manifoldgp import GPRegressor, TableEncoding, inspection
from manifoldgp.chance.interval_checks import IntervalCheck
from manifoldgp.errors import InputError
from manifoldgp.inspection.page import write_model_report
from manifoldgp.inspection.page_charts import map_chart, prediction_chart
from manifoldgp.inspection.page_errors import residuals_chart, worst_rows
from manifoldgp.inspection.page_relevance import relevance_chart
from manifoldgp.inspection.page_view import view_of


@pytest.fixture(scope="module")
def correlated():
    """Two inputs that nearly agree, and a target that is x0 + x1 along the data."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-2, 2, 80)
    X = np.stack([t, t + 0.05 * rng.normal(size=80)], 1)
    return GPRegressor("linear", restarts=1, max_iter=60).fit(X, X.sum(1) + 0.01 * rng.normal(size=80)), X


def test_the_effect_of_an_additive_model_is_its_own_part(correlated):
    model, X = correlated
    slopes = model.predict_gradient(X[:1])[0][0]
    for d in (0, 1):
        band = inspection.effect_band(model, d)
        np.testing.assert_allclose(np.diff(band.mean) / np.diff(band.x), slopes[d], rtol=1e-6)
        assert band.x[[0, -1]] == pytest.approx([X[:, d].min(), X[:, d].max()])


def test_rows_are_never_moved_far_from_the_data(correlated):
    """A slice with the other input at its median leaves the data, and says so by a wide band; the effect does not."""
    _, X = correlated
    model = GPRegressor(restarts=1, max_iter=60).fit(X, np.sin(X.sum(1)))
    along, off = inspection.effect_band(model, 0), inspection.slice_band(model, 0)
    assert np.max(along.upper - along.lower) < 0.5 * np.max(off.upper - off.lower)


def test_the_line_has_the_mean_of_the_predictions(correlated):
    model, X = correlated
    band = inspection.effect_band(model, 0)
    at_rows = np.interp(X[:, 0], band.x, band.mean)
    assert at_rows.mean() == pytest.approx(model.predict(X).mean(), abs=0.02)
    assert (band.lower < band.mean).all()
    assert (band.mean < band.upper).all()


def test_an_input_with_few_settings_is_drawn_at_these():
    """Quantiles between two ages of concrete asked for ages that no row has: a band of ±50 around an error of 2."""
    rng = np.random.default_rng(2)
    age = np.concatenate([np.repeat([1.0, 3.0, 7.0, 28.0], 12), np.full(24, 90.0)])
    rows = np.stack([age, rng.normal(size=72)], 1)
    model = GPRegressor(restarts=1, max_iter=60).fit(rows, np.sin(age) + rows[:, 1])
    band = inspection.effect_band(model, 0)
    assert band.x == pytest.approx([1.0, 3.0, 7.0, 28.0, 90.0])
    assert np.interp(age, band.x, band.mean).mean() == pytest.approx(
        model.predict(rows).mean()
    )  # rows stand at settings, not between


def test_an_input_with_two_values_has_two_means():
    rng = np.random.default_rng(1)
    X = np.stack([np.repeat([0.0, 1.0], 20), rng.normal(size=40)], 1)
    model = GPRegressor(restarts=1, max_iter=30).fit(X, 3 * X[:, 0] + 0.1 * rng.normal(size=40))
    band = inspection.effect_band(model, 0)
    assert band.x.tolist() == [0.0, 1.0]
    np.testing.assert_allclose(band.mean, [model.predict(X[:20]).mean(), model.predict(X[20:]).mean()])


@pytest.mark.parametrize(
    ("change", "message"), [({"level": 1.0}, "level"), ({"bins": 0}, "bin"), ({"column": "z"}, "no input 'z'")]
)
def test_wrong_arguments_are_refused(correlated, change, message):
    with pytest.raises(InputError, match=message):
        inspection.effect_band(correlated[0], **({"column": 0} | change))


# --------------------------------------------------------------------------------------------------------------- the page


def charts_of(html: str) -> dict:
    embedded = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', html, re.S)
    return {chart["id"]: chart for chart in json.loads(embedded.group(1))["charts"]}  # pyright: ignore


def test_the_page_begins_with_the_error_beside_that_of_the_mean(tmp_path):
    X, y = table(30, 2, seed=5)
    model = plain_gp(2)
    html = write_model_report(model, tmp_path / "page.html", X=X, y=y, columns=["a", "b", "force [N]"]).read_text(
        encoding="utf-8"
    )
    head = html.split("</h1>")[1].split("</header>")[0]
    rmse = float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
    mean = float(np.sqrt(np.mean((y - table(40, 2)[1].mean()) ** 2)))
    assert f"<b>{rmse:.3g} N</b>; always predicting the mean <b>{mean:.3g} N</b>; R² <b>" in head
    assert "test rows" in head
    assert head.index("Typical error") < head.index("This model predicts")


@pytest.mark.parametrize(
    ("pit", "words"),
    [
        (np.linspace(0.001, 0.999, 200), "intervals hold"),
        (np.repeat([0.001, 0.5], 50), "intervals are too narrow: those of 95 % hold 50 %"),
        (np.full(200, 0.5), "intervals are too wide: those of 95 % hold 100 %"),
        (np.array([0.01, 0.5, 0.5, 0.5, 0.5]), "too few rows to say whether intervals hold"),  # four of five: chance explains it
        (np.linspace(0.01, 0.99, 59), "intervals hold, as far as 59 rows can tell"),
    ],
)
def test_intervals_are_judged_as_far_as_chance_allows(pit, words):
    assert str(IntervalCheck.of(pit).in_words()) == words


def test_test_rows_of_few_groups_do_not_say_that_intervals_hold(tmp_path):
    X, y = table(90, 2, seed=5)
    given: dict[str, Any] = {"X": X, "y": y}
    heads = []
    for name, groups in (("few", np.arange(90) % 3), ("many", np.arange(90) % 30), ("none", None)):
        html = write_model_report(plain_gp(2), tmp_path / f"{name}.html", **given, groups=groups).read_text(encoding="utf-8")
        heads.append(html.split("</h1>")[1].split("</header>")[0])
        assert ("if rows of one group err no more alike than others" in html) == (groups is not None)
    assert re.search(r"intervals of 95 % hold 9\d % of 90 rows, as far as 3 groups can tell", heads[0])
    assert "<b>intervals hold</b>" not in heads[0]
    assert "<b>intervals hold</b>" in heads[1]
    assert "<b>intervals hold</b>" in heads[2]


@pytest.mark.parametrize("y", [np.full(30, 3.0), np.linspace(0.0, 1.0, 30)[:19]])
def test_where_nothing_can_be_said_of_intervals_the_page_has_no_share_of_them(tmp_path, y):
    """Of a constant target, and of two rows, it had "95 % intervals hold: 100 %"."""
    model = GPRegressor(restarts=1, max_iter=5).fit(np.linspace(0.0, 1.0, len(y))[:, None] ** 2, y)
    html = write_model_report(model, tmp_path / "page.html").read_text(encoding="utf-8")
    head = html.split("</h1>")[1].split("<nav")[0]
    assert "95 % intervals" not in head
    assert ("typical error" in head) == (len(y) == 19)
    assert ("too few rows to say whether intervals hold" in head) == (len(y) == 19)


def test_a_plain_gp_with_few_rows_is_not_told_to_compare_with_itself():
    model = GPRegressor(restarts=1, max_iter=5).fit(np.eye(3), np.arange(3.0))
    (remark,) = [remark for remark in model.diagnose().remarks if "more trained parameters" in remark]
    assert remark.endswith("Check on held-out data.")


def test_the_band_of_an_effect_is_not_said_to_hold_observations(tmp_path):
    """It is that of a row around its own prediction, drawn around the effect: of rows whose other inputs differ it holds fewer."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (60, 2))
    y = X[:, 0] + 3.0 * X[:, 1] + 0.05 * rng.normal(size=60)
    model = GPRegressor(restarts=1, max_iter=20).fit(X, y)
    band = inspection.effect_band(model, 0)
    low, high = (np.interp(X[:, 0], band.x, edge) for edge in (band.lower, band.upper))
    assert ((low < y) & (y < high)).mean() < 0.5
    html = write_model_report(model, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "should hold 95 %" not in html
    assert "how far the 95 % interval of a row near there reaches to either side of its own prediction, on average" in html


@pytest.fixture(scope="module")
def mixed():
    """A model of a table: a category that matters most, two numbers, the first ten times as much as the second, a flag that does nothing, a date."""
    rng = np.random.default_rng(3)
    n = 60
    frame = pd.DataFrame({
        "floor": np.array(["ice", "sand", "clay", "grass"])[np.arange(n) % 4], "x": rng.uniform(0, 1, n), "z": rng.uniform(0, 1, n),
        "wet": rng.uniform(size=n) < 0.5, "day": (pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 200, n), unit="D")).strftime("%Y-%m-%d"),
    })  # fmt: skip
    y = 3.0 * (frame["floor"] == "sand") + frame["x"] + 0.1 * frame["z"]
    return frame, GPRegressor(restarts=2, max_iter=80).fit(frame, y)


def test_a_dose_changes_the_prediction_by_no_more_than_there_is():
    """At the foot of doses that span powers of ten slopes have no end: of a percentage the typical change was 13,000."""
    dose = np.r_[np.linspace(0, 0.03, 40), np.linspace(0.05, 1, 20)]
    frame = pd.DataFrame({"dose": dose, "x": np.random.default_rng(0).uniform(size=len(dose))})
    y = 100 * np.tanh(dose / 0.01) + 20 * frame["x"]
    model = GPRegressor("matern32", restarts=2, max_iter=80).fit(frame, y)
    of_dose, of_x = view_of(model, None, None, None).targets[0].strength
    assert of_dose < 2 * np.std(y)
    assert of_x == pytest.approx(20 * frame["x"].std(ddof=0), rel=0.2)


def test_a_page_ranks_and_shows_the_columns_of_the_table(mixed):
    """Categories were ranked by the slopes of their 0/1 columns, and the map and the worst rows had these columns."""
    frame, model = mixed
    view = view_of(model, None, None, None)
    assert [column.label for column in view.columns] == ["floor", "x", "z", "wet", "day"]
    assert [column.label for column in view.strongest][:3] == ["floor", "x", "z"]
    strength = dict(zip((column.label for column in view.columns), view.targets[0].strength, strict=True))
    assert strength["floor"] == pytest.approx(3.0 * np.sqrt(3) / 4, rel=0.05)  # standard deviation of 3 in one of four rows
    assert strength["x"] == pytest.approx(frame["x"].std(ddof=0), rel=0.1)
    charts = [relevance_chart(view), map_chart(view)]
    assert charts[0]["specs"][0]["layers"][0]["label"][0] == "floor"
    assert charts[1]["choices"][0]["options"][0] == "x and z"
    slices = prediction_chart(view)
    assert slices["choices"][0]["options"][:2] == ["floor", "x"]
    assert [word for _, word in slices["specs"][0]["x"]["ticks"]] == ["clay", "grass", "ice", "sand"]
    means = [model.predict(frame[frame["floor"] == word]).mean() for word in ("clay", "grass", "ice", "sand")]
    np.testing.assert_allclose(slices["specs"][0]["layers"][0]["y"], means, rtol=1e-3)
    against = residuals_chart(view)
    assert against["choices"][0]["options"][1] == "floor"
    assert set(against["specs"][1]["layers"][1]["label"]) == set(frame["floor"])
    worst = worst_rows(view)
    assert "floor=" not in worst
    row = int(re.search(r'<th scope="row">(\d+)</th>', worst)[1]) - 1
    first = worst[worst.index("<tbody>") : worst.index("</tr>", worst.index("<tbody>"))]
    for cell in (frame["floor"][row], str(frame["wet"][row]).lower(), frame["day"][row]):
        assert f"<td>{cell}</td>" in first


def test_a_map_holds_the_other_inputs_where_a_row_is(mixed):
    """Medians of the 0/1 columns of a category are of none at all."""
    _, model = mixed
    view = view_of(model, None, None, None)
    others = view.X[view.central_row]
    assert others[:4].sum() == pytest.approx(1.0)
    found = inspection.surface(model, ("x", "z"), points=3, others=others)
    at = others.copy()
    at[4:6] = found.x1[1], found.x2[2]
    assert found.mean[1, 2] == pytest.approx(model.predict(pd.DataFrame([at], columns=model.feature_names_in_))[0])


def test_residuals_and_worst_rows_are_those_of_the_rows_that_judge_the_model(tmp_path):
    model, (X, y) = fitted("single", 3), table(30, 3, seed=7)
    html = write_model_report(model, tmp_path / "page.html", X=X, y=y).read_text(encoding="utf-8")
    error = y - model.predict(X)
    residuals = charts_of(html)["residuals"]
    assert residuals["choices"][0]["options"][0] == "order of rows"
    assert sorted(residuals["choices"][0]["options"][1:]) == ["x0", "x1", "x2"]
    for spec, x in zip(residuals["specs"][:2], (1 + np.arange(30), X[:, 0]), strict=True):
        np.testing.assert_allclose(spec["layers"][1]["y"], error, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(spec["layers"][1]["x"], x, rtol=1e-3, atol=1e-4)
    first = html.split("The rows with the largest errors")[1].split("<tbody>")[1]
    assert first.startswith(f'<tr><th scope="row">{np.abs(error).argmax() + 1}</th>')  # counted as messages about tables count


def test_the_report_takes_test_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(size=30), "kind": np.resize(["a", "b"], 30)}).assign(y=lambda t: t.x + (t.kind == "a"))
    encoding = TableEncoding.learn(data, ["y"])
    model = GPRegressor(restarts=1, max_iter=20).fit(encoding.inputs(data), encoding.target_values(data))
    model.table_encoding_ = encoding
    model.save("model.mgp")
    data.assign(y=data.y.where(data.index > 0)).to_csv("new.csv", index=False)
    done = mgp("report", "model.mgp", "--test", "new.csv", "--out", "page.html")
    assert "1 of 30 rows has no target and is left out." in done.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "From 29 test rows" in page
    data.assign(kind="c").to_csv("other.csv", index=False)
    assert (
        "has values that the model has not seen"
        in mgp("report", "model.mgp", "--test", "other.csv", "--out", "p.html", code=1).err
    )
    data.assign(kind=data.kind.where(data.index >= 10, "c")).to_csv("other.csv", index=False)
    done = mgp("report", "model.mgp", "--test", "other.csv", "--out", "p.html")
    assert "10 of 30 rows cannot be predicted" in done.err
    assert "From 20 test rows" in (tmp_path / "p.html").read_text(encoding="utf-8")
    done = mgp("report", "model.mgp", "--test", "other.csv", "--allow-unknown", "--out", "p.html")
    assert "'c'. They are predicted as any that it knows, with wide intervals." in done.err
    assert "From 30 test rows" in (tmp_path / "p.html").read_text(encoding="utf-8")
    mgp("report", "model.mgp", "--allow-unknown", "--out", "p.html", code=2)
    mgp("report", "model.mgp", "--test", "new.csv", "--out", "new.csv", code=2)


def test_test_rows_with_gaps_are_predicted_as_the_model_predicts_them(tmp_path, monkeypatch):
    """Rows with a gap that the model fills in judge it too; a row that cannot be predicted is left out of inputs and targets alike."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(size=40), "z": rng.normal(size=40), "kind": np.resize(["a", "b"], 40)})
    data = data.assign(y=data.x + (data.kind == "a"), x=data.x.where(data.index % 4 > 0))
    model = GPRegressor(restarts=1, max_iter=20, missing="impute").fit(data.drop(columns="y"), data.y)
    model.save("model.mgp")
    new = data.assign(kind=data.kind.where(data.index != 3, "c"), y=data.y.where(data.index != 5))
    new.to_csv("new.csv", index=False)
    done = mgp("report", "model.mgp", "--test", "new.csv", "--out", "page.html")
    assert "1 of 40 rows has no target" in done.err
    assert "1 of 39 rows cannot be predicted (row 4)" in done.err
    assert "From 38 test rows" in (tmp_path / "page.html").read_text(encoding="utf-8")
    rows = data.drop(index=[3, 5])
    mean, std = model.predict(rows, return_std=True)
    found = inspection.predictions(model, rows.drop(columns="y"), rows.y)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.lower, model.predict_quantiles(rows, q=(0.025,))[:, 0], rtol=1e-6, atol=1e-6)
    gap = rows.x.isna().to_numpy()
    assert std[gap].min() > std[~gap].max()
    assert np.isfinite(found.X).all()  # where to draw them
