"""suggest(): what is possible, what experiments are worth against slow versions, and rows that can be pasted into the table."""

from __future__ import annotations

import io
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from command_line import fails, mgp
from manifoldgp import GPRegressor, ManifoldGPRegressor, TableEncoding, load, suggest
from manifoldgp.data.table_files import read_table, write_table
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.suggestions.constraints import Constraint
from manifoldgp.suggestions.domains import Range
from manifoldgp.suggestions.gains import Improvement, Knowledge
from manifoldgp.suggestions.space import space_of
from short_fits import few_starts

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def table():
    """A hill whose top lies at x = 6, higher on sand; whole numbers n that do not matter."""
    x, n = RNG.uniform(0, 10, 40), RNG.integers(1, 6, 40)
    floor = np.array(["ice", "sand"])[RNG.integers(2, size=40)]
    y = -0.1 * (x - 6) ** 2 + (floor == "sand") + 0.05 * RNG.normal(size=40)
    return pd.DataFrame({"x": x, "n": n, "floor": floor, "always": 3.5, "y [N]": y})


@pytest.fixture(scope="module")
def model(table):
    encoding = TableEncoding.learn(table, ["y [N]"])
    fitted = GPRegressor(restarts=2, max_iter=60).fit(encoding.inputs(table), encoding.target_values(table))
    fitted.table_encoding_ = encoding
    return fitted


def test_numbers_that_are_whole_where_they_are_known_stay_whole(table):
    """Gaps are filled in with means of other rows, which are not whole: ages of 20.468 were suggested."""
    gaps = table.drop(columns="y [N]").assign(n=table["n"].where(np.arange(40) > 3))
    fitted = GPRegressor(restarts=1, max_iter=20, missing="impute").fit(gaps, table["y [N]"])
    found = suggest(fitted, "learn", batch=3)
    assert set(found.columns["n"]) <= {1.0, 2.0, 3.0, 4.0, 5.0}


def test_a_column_that_repeats_another_follows_it():
    """An age of 10 days was suggested beside the date of the first."""
    day, x = np.arange(40) % 13, np.random.default_rng(2).uniform(0, 1, 40)
    date = pd.Timestamp("2025-03-14") + pd.to_timedelta(day, unit="D")
    frame = pd.DataFrame({"day": date.strftime("%Y-%m-%d"), "age [d]": day, "x": x, "again": x})
    fitted = GPRegressor(restarts=1, max_iter=20).fit(frame, day * x)
    ages = lambda found: (pd.to_datetime(found.columns["day"]) - pd.Timestamp("2025-03-14")).days.tolist()  # noqa: E731
    found = suggest(fitted, "learn", batch=4)
    assert found.columns["age [d]"].tolist() == ages(found)
    np.testing.assert_array_equal(found.columns["x"], found.columns["again"])
    fixed = suggest(fitted, "learn", batch=2, fixed={"age [d]": 3}, constraints=["again > 0.5"])
    assert ages(fixed) == [3, 3]
    assert (fixed.columns["x"] > 0.5).all()


@pytest.fixture
def nozzles(tmp_path, monkeypatch):
    """A model file of three nozzles, of 0.2, 0.4 and 0.8 mm, at any speed; the best would lie between two of them."""
    monkeypatch.chdir(tmp_path)
    bore, speed = np.repeat([0.2, 0.4, 0.8], 10), np.random.default_rng(1).uniform(0, 1, 30)
    frame = pd.DataFrame({"bore [mm]": bore, "speed": speed, "y": -((bore - 0.55) ** 2) + 0.01 * speed})
    GPRegressor(restarts=2, max_iter=60).fit(frame[["bore [mm]", "speed"]], frame["y"]).save("nozzles.mgp")
    return load("nozzles.mgp")


def test_a_number_with_few_values_is_suggested_at_these(nozzles):
    """A bore of 0.5631 mm was suggested where there are three nozzles."""
    found = suggest(nozzles, "maximize", batch=3)
    assert set(found.columns["bore [mm]"]) <= {0.2, 0.4, 0.8}
    assert found.levels == {"bore [mm]": (0.2, 0.4, 0.8)}
    told = mgp("suggest", "nozzles.mgp", "--maximize", "--batch", 1, "-o", "next.csv").err
    assert "bore [mm]: only 0.2, 0.4 and 0.8, as in the training rows; --bounds 'bore [mm]=0.2:0.8' allows" in " ".join(
        told.split()
    )


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
def test_no_experiment_of_a_batch_is_suggested_twice(nozzles, goal):
    """The best of few experiments came up again: others are surely a little worse, and it is not. There are six here, and a seventh can only be one of them.

    Beside itself an experiment has a singular covariance, which BoTorch told as a matrix that is not p.d.
    """
    pytest.importorskip("botorch", reason="needs the extra botorch")
    few = {"bounds": {"bore [mm]": (0.2, 0.4, 0.8), "speed": (0.0, 1.0)}, "steps": {"speed": 1.0}}
    found = suggest(nozzles, goal, batch=7, **few)
    assert len(found.frame()[:6].drop_duplicates()) == 6
    assert np.isfinite(found.worth).all()


@pytest.mark.parametrize("given", [{"bounds": {"bore [mm]": (0.2, 0.8)}}, {"steps": {"bore [mm]": 0.05}}])
def test_a_range_or_a_step_allows_what_is_between(nozzles, given):
    found = suggest(nozzles, "maximize", batch=1, **given)
    assert found.columns["bore [mm]"][0] not in (0.2, 0.4, 0.8)
    assert found.levels == {}


def test_a_zero_is_suggested_as_zero():
    """Standardised and back it was 1.387778781e-17, which nobody can set."""
    found = Range.of(np.append(RNG.uniform(0, 0.2, 30), 1.387778781e-17))
    assert found.at(np.zeros(1)).tolist() == [0.0]


@pytest.mark.parametrize(
    ("x", "levels"),
    [
        (np.repeat([1.0, 3.0, 28.0], 3), (1.0, 3.0, 28.0)),
        (np.repeat([1.0, 2.0, 3.0], 3), ()),  # whole numbers without a gap: a range says the same
        (np.repeat([0.2, 0.4, 0.8], [3, 3, 2]), ()),
        (np.repeat(np.arange(11) / 2, 3), ()),
        (np.repeat([1.4e-17, 0.1, 0.2 + 3e-17], 3), (0.0, 0.1, 0.2)),  # standardising and back leaves a trace in the last digits
    ],
)
def test_which_values_are_settings(x, levels):
    assert Range.of(x).levels == levels


# ---------------------------------------------------------------------------------------------------------------- conditions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + 2 * b <= 5", [True, True, False]),
        ("0 < a < 3", [True, True, False]),
        ("-a ** 2 > -5", [True, True, False]),
        ("`c d` == 'ice'", [True, False, True]),
        ("`c d` != 'ice'", [False, True, False]),
        ("min(a, b) >= 1", [False, True, True]),
        ("sqrt(a - 2) >= 0", [False, True, True]),
        ("1 / (a - 1) > 0", [True, True, True]),
        ("log(abs(-a)) < 1", [True, True, False]),
        ("wet == true", [True, False, True]),
        ("wet != True", [False, True, False]),
        ("wet == 'False'", [False, True, False]),
        ("wet == 1", [True, False, True]),
        ("said == true", [True, False, False]),
        ("said != true", [False, True, True]),
        ("False == said", [False, True, False]),
        ("said == 'true'", [False, False, False]),
        ("wet != said", [False, False, True]),
        ("wet == dry", [False, False, True]),
        ("wet + dry <= 1", [True, True, False]),
        ("2 - wet == 1", [True, False, True]),
        ("-wet < 0", [True, False, True]),
        ("code != 5", [False, True, True]),
        ("code < 7", [True, False, False]),
        ("code == '5'", [True, False, False]),
        ("wet == 'yes'", [False, False, False]),
    ],
)
def test_conditions_are_computed(text, expected):
    columns = {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([0.0, 1.0, 2.0]), "c d": np.array(["ice", "sand", "ice"], object), "wet": np.array([True, False, True]),
               "dry": np.array([False, True, True]), "said": np.array(["True", "false", "unknown"], object), "code": np.array(["5", "07", "A"], object)}  # fmt: skip
    assert Constraint.parse(text, list(columns)).holds(columns).tolist() == expected


@pytest.mark.parametrize(
    "text",
    ["__import__('os').system('true') < 1", "a.real < 1", "a", "a <", "[a] < 1", "a if a else a < 1", "(lambda: a)() < 1", "a in b", "eval('a') < 1", "a @ a < 1",
     "f'{a}' == 'x'", "a := 1", "True < a", "min() < a", "(" * 500 + "a" + ")" * 500 + " < 1", "a < 1; b < 2", "open('x') == a", "abs(x=a) < 1", "a << 2 < 3", "1j < a"],
)  # fmt: skip
def test_nothing_but_arithmetic_is_understood(text):
    with pytest.raises(InputError, match="condition"):
        Constraint.parse(text, ["a", "b"])


@pytest.mark.parametrize("values", ["any", "fifths"])
def test_proportions_that_add_up_are_suggested(values):
    """Chance hit the equation where rounding agreed, so that one poor row was suggested three times, or nowhere."""
    rng = np.random.default_rng(0)
    few = np.repeat([(i, j, 5 - i - j) for j in range(6) for i in range(6 - j)], 2, 0)[:40] / 5
    X = pd.DataFrame(rng.dirichlet(np.ones(3), 42) if values == "any" else few, columns=list("abc"))
    fitted = GPRegressor(restarts=2, max_iter=60).fit(X, -((X["a"] - 0.2) ** 2) - (X["b"] - 0.6) ** 2)
    for goal in ("learn", "maximize"):
        found = suggest(fitted, goal, batch=3, constraints=["a + b + c == 1"])
        rows = found.frame()
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-9)
        assert ((rows >= 0) & (rows <= 1)).all(axis=None)
        assert not rows.duplicated().any()
    assert found.compared == "in the training rows"
    assert found.mean.max() > -0.02


@pytest.mark.parametrize("values", ["any", "thirds"])
def test_proportions_that_nobody_holds_to_their_sum_are_told(values):
    """Without a word a mixture of 145 % was suggested."""
    rng = np.random.default_rng(1)
    few = np.repeat([(i, j, 3 - i - j) for j in range(4) for i in range(4 - j)], 3, 0) / 3
    X = pd.DataFrame(rng.dirichlet(np.ones(3), 30) if values == "any" else few, columns=["a", "b", "c part"]).assign(
        heat=rng.normal(size=30)
    )
    fitted = GPRegressor(restarts=1, max_iter=20).fit(X, X["a"] + X["heat"])
    with pytest.warns(FitWarning, match=r"a, b, c part sum to 1 in every training row, .*'a \+ b \+ `c part` == 1'"):
        suggest(fitted, "learn", batch=1)
    for held in ({"constraints": ["a + b + `c part` == 1"]}, {"fixed": {"a": 0.0}}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            suggest(fitted, "learn", batch=1, **held)


@pytest.mark.parametrize("conditions", [["a + b + c == 1", "a == 2 * b"], ["a * b == c ** 2"], ["a + b == 1.2", "c >= 0.5"]])
def test_equations_of_all_kinds_are_solved(conditions):
    X = pd.DataFrame(RNG.uniform(size=(30, 3)), columns=list("abc"))
    fitted = GPRegressor(restarts=1, max_iter=20).fit(X, X.sum(axis=1))
    found = suggest(fitted, "learn", batch=3, bounds=dict.fromkeys("abc", (0.0, 1.0)), constraints=conditions).columns
    for condition in conditions:
        assert Constraint.parse(condition, list("abc")).holds(found).all()
    assert not pd.DataFrame(found).duplicated().any()


def test_conditions_name_the_inputs_that_there_are():
    with pytest.raises(InputError, match=r"names 'speed', which is no input. Inputs: a, b"):
        Constraint.parse("speed < 1", ["a", "b"])


# ------------------------------------------------------------------------------------------------------ what is suggested


def test_experiments_stay_within_what_is_possible(model):
    found = suggest(model, "learn", batch=3, bounds={"x": (2.0, 4.0)}, fixed={"floor": "ice"}, constraints=["x + n <= 6"])
    assert (found.columns["floor"] == "ice").all()
    assert ((found.columns["x"] >= 2) & (found.columns["x"] <= 4)).all()
    assert (found.columns["x"] + found.columns["n"] <= 6).all()
    assert set(found.columns["n"]) <= {1.0, 2.0, 3.0, 4.0}  # whole, as in the table
    np.testing.assert_array_equal(found.X, model.table_encoding_.inputs(found.frame()).to_numpy())


def test_values_and_steps(model):
    found = suggest(model, "learn", batch=4, bounds={"x": (1.0, 3.0, 5.0), "n": (2, 5), "floor": ["sand"]}, steps={"n": 3})
    assert set(found.columns["x"]) <= {1.0, 3.0, 5.0}
    assert set(found.columns["n"]) <= {2.0, 5.0}
    assert set(found.columns["floor"]) == {"sand"}


def test_the_top_of_the_hill_is_found(model):
    pytest.importorskip("botorch", reason="needs the extra botorch")
    high = suggest(model, "maximize", batch=2)
    assert (high.columns["floor"] == "sand").all()
    assert np.abs(high.columns["x"] - 6).max() < 1.5
    low = suggest(model, "minimize", batch=1)
    assert low.columns["floor"][0] == "ice"
    assert low.columns["x"][0] < 1.0
    assert low.best < high.best


def test_every_experiment_of_a_batch_may_improve_on_those_before_it(model):
    """The improvement of a whole batch says nothing of its later experiments once the first is good; rows far below the top were suggested."""
    pytest.importorskip("botorch", reason="needs the extra botorch")
    high = suggest(model, "maximize", batch=6)
    assert (high.columns["floor"] == "sand").all()
    assert high.mean.min() > high.mean.max() - 0.2
    assert high.worth.argmax() == 0


def test_what_an_experiment_adds_is_the_improvement_beyond_those_that_are_chosen(model):
    pytest.importorskip("botorch", reason="needs the extra botorch")
    names = list(model.feature_names_in_)
    chosen, X = np.array([[6.0, 2.0, 0.0, 1.0]]), np.array([[4.5, 3.0, 0.0, 1.0], [7.0, 5.0, 0.0, 1.0], [9.0, 5.0, 1.0, 0.0]])
    mean, cov = model.predict(pd.DataFrame(np.concatenate([chosen, X]), columns=names), return_cov=True, latent=True)
    for sign, best in ((1.0, mean[0] - 0.01), (-1.0, mean[3] + 0.01)):
        found = Improvement(model, 0, sign, best, 0)(X, chosen)
        f = sign * np.random.default_rng(0).multivariate_normal(mean, cov, 200_000)
        added = np.maximum(f[:, 1:] - np.maximum(sign * best, f[:, :1]), 0.0).mean(0)
        told = added > 1e-4
        np.testing.assert_allclose(np.exp(found[told]), added[told], rtol=0.25)
        assert (found[~told] < np.log(2e-4)).all()


def test_it_is_said_where_the_best_so_far_is(here):
    pytest.importorskip("botorch", reason="needs the extra botorch")
    asked = ["suggest", "model.mgp", "--maximize", "--batch", "1"]
    assert "that the model sees in the training rows is " in mgp(*asked).err
    some = mgp(*asked, "--bounds", "x=0:3").err
    assert re.search(r"that the model sees in the \d+ of 40 training rows that are possible is ", some)
    assert "among possible experiments, which no training row is, is " in mgp(*asked, "--fix", "x=20").err


def test_what_an_experiment_teaches_is_the_variance_that_it_takes_away(model):
    """Against conditioning on it: the variance of f does not depend on what will be observed."""
    X = model.table_encoding_.inputs(pd.DataFrame({"x": [5.0, 9.9], "n": [2, 5], "floor": ["ice", "sand"]}))
    reference = np.stack([[1.0, 2.0, 1.0, 0.0], [7.0, 3.0, 0.0, 1.0]])
    names = list(model.feature_names_in_)
    variance = lambda m: (m.predict(pd.DataFrame(reference, columns=names), return_std=True, latent=True)[1] ** 2).mean()  # noqa: E731
    from copy import deepcopy

    found = Knowledge(model, 0, reference)(X.to_numpy(), np.empty((0, 4)))
    for i in range(2):
        after = deepcopy(model).update(X.iloc[i : i + 1], [0.0])
        assert found[i] == pytest.approx(variance(model) - variance(after), rel=1e-5)
    first = deepcopy(model).update(X.iloc[:1], [0.0])
    second = deepcopy(first).update(X.iloc[1:], [0.0])
    given = Knowledge(model, 0, reference)(X.to_numpy()[1:], X.to_numpy()[:1])
    assert given[0] == pytest.approx(variance(first) - variance(second), rel=1e-4)


def test_rows_of_the_table_are_told_apart_by_what_is_possible(model, table):
    space = space_of(model, {"x": (2.0, 8.0)}, {"floor": "ice"}, {}, ["x + n <= 9"])
    X = model.table_encoding_.inputs(table).to_numpy()
    expected = table.x.between(2, 8) & (table.floor == "ice") & (table.x + table.n <= 9)
    assert space.holds_rows(X).tolist() == expected.tolist()
    one = space_of(model, {"n": (1, 2, 4)}, {}, {}, [])
    assert one.holds_rows(X).tolist() == table.n.isin([1, 2, 4]).tolist()


def test_learning_goes_where_the_data_say_least():
    x = np.concatenate([np.linspace(0, 3, 20), [8.0, 10.0]])[:, None]
    model = ManifoldGPRegressor((2,), averaging=few_starts("restarts")).fit(x, np.sin(x[:, 0]))
    found = suggest(model, "learn", batch=2)
    assert (found.columns["x"] > 3).all()
    assert found.columns["x"][0] != found.columns["x"][1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"goal": "best"}, "goal must be one of"),
        ({"batch": 0}, "batch"),
        ({"output": 1}, "output"),
        ({"bounds": {"z": (0, 1)}}, "bounds names 'z'"),
        ({"bounds": {"x": (2, 1)}}, "low below high"),
        ({"bounds": {"floor": ["mud"]}}, "'floor' can be ice, sand"),
        ({"bounds": {"x": (0, "a")}}, "'x' is a number"),
        ({"bounds": {"x": (0, 1)}, "fixed": {"x": 1}}, "fixed and has bounds"),
        ({"steps": {"floor": 1}}, "step has no effect"),
        ({"steps": {"x": 50}}, "must be positive and fit"),
        ({"constraints": ["x < 1", "x > 2"]}, "None of 131,072 experiments"),
    ],
)
def test_what_is_not_possible_is_refused(model, change, message):
    with pytest.raises(InputError, match=message):
        suggest(model, **({"goal": "learn", "batch": 1} | change))


def test_everything_that_is_not_possible_is_told_at_once(model, tmp_path, monkeypatch):
    wrong = {"bounds": {"x": (2, 1), "z": (0, 1), "w": (0, 1)}, "fixed": {"floor": "mud"}, "constraints": ["x <", "q > 1"]}
    with pytest.raises(InputError) as caught:
        suggest(model, "learn", **wrong)
    told = str(caught.value).splitlines()
    assert [line.split(" ")[0] for line in told] == ["bounds", "Bounds", "'floor'", "The", "The"]
    assert "names 'z', 'w', which are no inputs" in told[0]
    monkeypatch.chdir(tmp_path)
    model.save("model.mgp")
    lines = mgp("suggest", "model.mgp", "--learn", "--bounds", "x=2:1", "--fix", "floor=mud", code=1).err.splitlines()
    assert [line.split(" ")[:2] for line in lines[-2:]] == [["mgp:", "Bounds"], ["'floor'", "can"]]
    said = mgp("suggest", "model.mgp", "--learn", "--fix", "x", "--step", "n=a", "--bounds", "z=1:2", "-t", "q", code=2).err
    for part in ("--fix expects COLUMN=VALUE; got 'x'", "--step n=... expects a number", "names 'z'", "--target says q"):
        assert part in said


@pytest.fixture(scope="module")
def harvests():
    """Dates of days and 15 sorts: more than become 0/1 columns."""
    day = pd.Timestamp("2026-03-01") + pd.to_timedelta(RNG.permutation(60), unit="D")
    sort = np.array([f"sort {i}" for i in range(15)])[np.arange(60) % 15]
    y = np.sin((day - day.min()).days / 10) + (np.arange(60) % 15) / 15 + 0.01 * RNG.normal(size=60)
    table = pd.DataFrame({"sown on": day.strftime("%Y-%m-%d"), "sort": sort})
    return GPRegressor(restarts=2, max_iter=40).fit(table, pd.Series(y, name="yield"))


def test_dates_and_many_categories_are_suggested_too(harvests, tmp_path, monkeypatch):
    found = suggest(harvests, "learn", batch=2, constraints=['`sown on` >= "2026-04-01"']).frame()
    assert found["sown on"].between("2026-04-01", "2026-04-29").all()
    assert found["sown on"].str.fullmatch(r"2026-\d\d-\d\d").all()
    assert found["sort"].str.startswith("sort ").all()
    assert np.isfinite(harvests.predict(found)).all()
    listed = suggest(harvests, "learn", batch=1, bounds={"sown on": ["2026-03-05", "2026-03-10", "2026-03-20"]}).frame()
    assert listed["sown on"][0] in ("2026-03-05", "2026-03-10", "2026-03-20")
    with pytest.raises(InputError, match="'sown on' is a date, such as 2026-12-31; got 'soon'"):
        suggest(harvests, "learn", fixed={"sown on": "soon"})
    with pytest.raises(InputError, match="is a date, which comes in the steps of the training rows"):
        suggest(harvests, "learn", steps={"sown on": 2})
    monkeypatch.chdir(tmp_path)
    harvests.save("model.mgp")
    dates = ("--bounds", "sown on=2026-03-10:2026-03-12", "--fix", "sort=sort 3")
    done = pd.read_csv(io.StringIO(mgp("suggest", "model.mgp", "--learn", "--batch", "2", *dates).out))
    assert done["sown on"].between("2026-03-10", "2026-03-12").all()
    assert (done["sort"] == "sort 3").all()


def test_times_of_day_are_suggested_where_the_rows_have_them():
    hours = pd.date_range("2026-03-01 06:00", periods=30, freq="7h")
    model = GPRegressor(restarts=1, max_iter=20).fit(pd.DataFrame({"at": hours}), np.sin(np.arange(30.0)))
    found = suggest(model, "learn", batch=1).columns["at"][0]
    assert hours[0] <= pd.Timestamp(found) <= hours[-1]
    assert len(found) == len("2026-03-01 06:00:00")


# -------------------------------------------------------------------------------------------------------- the command line


@pytest.fixture
def here(tmp_path, monkeypatch, table, model):
    monkeypatch.chdir(tmp_path)
    table.to_csv("data.csv", index=False)
    model.save("model.mgp")
    return tmp_path


def test_suggestions_can_be_pasted_into_the_table(here, table):
    done = mgp(
        "suggest", "model.mgp", "--learn", "--batch", "2", "--bounds", "x=1:3", "--fix", "floor=ice", "--constraint", "n >= 2"
    )
    found = pd.read_csv(io.StringIO(done.out))
    assert list(found.columns) == ["x", "n", "floor", "y [N]"]
    assert found["y [N]"].isna().all()
    assert all(line.split(",")[1].isdigit() for line in done.out.split()[2:])  # 4 and not 4.0, as in the table
    assert ((found.x >= 1) & (found.x <= 3) & (found.floor == "ice") & (found.n >= 2)).all()
    assert "1: expected y [N]" in done.err
    mgp("suggest", "model.mgp", "--learn", "--batch", "1", "--like", "data.csv", "--out", "next.csv")
    both = pd.concat([pd.read_csv("data.csv"), pd.read_csv("next.csv")])
    assert list(both.columns) == list(table.columns)
    assert both["always"].tolist() == [3.5] * 41


def test_suggestions_are_written_as_the_table_is(here, table):
    german = table.rename(columns={"always": "ständig"})
    german.to_csv("data.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    mgp("suggest", "model.mgp", "--learn", "--batch", "1", "--bounds", "x=1.25,1.75", "--like", "data.csv", "--out", "next.csv")
    text = (here / "next.csv").read_text("cp1252")
    assert text.splitlines()[0] == ";".join(german.columns)
    assert re.search(r"\b1,[27]5;", text)
    with open("data.csv", "ab") as both:
        both.write(text.split("\n", 1)[1].encode("cp1252"))
    with pytest.warns(UserWarning, match="Windows-1252"):
        again = read_table("data.csv")
    assert (len(again), again["x"].dtype.kind) == (len(table) + 1, "f")


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d"])
def test_dates_are_written_as_the_table_has_them(tmp_path, monkeypatch, form):
    """With the year first they stood beside 12/31/2026, and the table with both was refused."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    when = pd.Series(pd.Timestamp("2026-01-03") + pd.to_timedelta(rng.integers(0, 300, 30), unit="D")).dt.strftime(form)
    pd.DataFrame({"when": when, "y": rng.normal(size=30)}).to_csv("data.csv", index=False)
    mgp("fit", "data.csv", "-t", "y", "--averaging", "plain", "--restarts", "1", "--max-iter", "10", "--out", "m.mgp")
    told = mgp("suggest", "m.mgp", "--learn", "--batch", "2").err
    assert ("--like TABLE writes when as that table does" in told) == (form != "%Y-%m-%d")
    mgp("suggest", "m.mgp", "--learn", "--batch", "2", "--like", "data.csv", "--out", "next.csv")
    pd.to_datetime(pd.read_csv("next.csv")["when"], format=form)
    pd.concat([pd.read_csv("data.csv"), pd.read_csv("next.csv").assign(y=0.0)]).to_csv("data.csv", index=False)
    assert (
        "32 rows"
        in mgp("fit", "data.csv", "-t", "y", "--averaging", "plain", "--restarts", "1", "--max-iter", "10", "--out", "m.mgp").err
    )


def test_a_category_that_the_tables_encoding_lacks_is_written_as_utf_8(here, table):
    table.rename(columns={"always": "ständig"}).to_csv("data.csv", index=False, encoding="cp1252")
    rows = pd.DataFrame({"Stadt": ["Łódź", "Köln"]})
    with pytest.warns(UserWarning, match="is not UTF-8"), pytest.warns(UserWarning, match="has no Ł: written as UTF-8"):
        write_table(rows, "next.csv", "data.csv")
    pd.testing.assert_frame_equal(read_table("next.csv"), rows)
    with pytest.warns(UserWarning, match="is not UTF-8"):
        write_table(rows[1:], "next.csv", "data.csv")
    assert (here / "next.csv").read_text("cp1252") == "Stadt\nKöln\n"


def test_suggestions_for_programs(here):
    arguments = (
        "--learn",
        "--batch",
        "1",
        "--bounds",
        "floor=ice,sand",
        "--bounds",
        "x=2,4",
        "--step",
        "n=2",
        "--json",
        "--out",
        "next.csv",
    )
    found = json.loads(mgp("suggest", "model.mgp", *arguments).out)
    assert found["goal"] == "learn"
    assert found["suggestions"][0]["x"] in (2.0, 4.0)
    assert found["suggestions"][0]["n"] % 2 == 0


@pytest.mark.parametrize("arguments", [(), ("--learn", "--maximize"), ("--learn", "--fix", "x"), ("--learn", "--bounds", "x=a:b"), ("--learn", "--json"),
                                       ("--learn", "--target", "z"), ("--learn", "--out", "model.mgp")])  # fmt: skip
def test_wrong_usage_is_told(here, arguments):
    mgp("suggest", "model.mgp", *arguments, code=2)


@pytest.mark.parametrize("given", ["bounds", "fixed"])
def test_none_is_no_value(model, given):
    name = next(iter(space_of(model, {}, {}, {}, ()).inputs))
    with pytest.raises(InputError, match="has None for its value"):
        suggest(model, "learn", **{given: {name: None}})


def test_conditions_on_the_command_line_execute_nothing(here):
    said = fails("suggest", "model.mgp", "--learn", "--constraint", "__import__('os').system('touch harm') < 1")
    assert "has a part that is not understood" in said
    assert not (here / "harm").exists()
