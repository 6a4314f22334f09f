"""Kernel search: expressions keep their numbers, what was planted is found, said in words and shown in parts; a search can be stopped and goes on."""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from command_line import fails, mgp
from drawn_estimators import rounding
from manifoldgp import PCA, KernelSearch, features, inspection, load, plots
from manifoldgp._system.threads import Workers
from manifoldgp.data.dates import TimeScale
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.estimators.structure_words import input_words, structure_of
from manifoldgp.kernels import ChangePoint, Constant, Linear, Periodic, RationalQuadratic, SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, leaves, map_leaves
from manifoldgp.structure import contest as contests
from manifoldgp.structure.base_kernels import BASE_KERNELS, DEFAULT, Growth, InputFacts, periods_in, without_aliases
from manifoldgp.structure.contest import Contest
from manifoldgp.structure.decomposition import Decomposition
from manifoldgp.structure.expansions import Grammar, collected, reduced
from manifoldgp.structure.expressions import Valued, change_point_of, degrees, inputs_of, product_of, renamed, sum_of, text_of
from manifoldgp.structure.normal_form import parts_in_normal_form
from manifoldgp.structure.record import Record
from manifoldgp.structure.search import Search
from manifoldgp.structure.words import InputWords, words_of
from manifoldgp.training.plan import cost
from manifoldgp.training.trainer import Trainer

RNG = np.random.default_rng(0)
T = np.linspace(2000, 2005, 60)
GROWING = 3 * (T - 2000) + (1 + T - 2000) * np.sin(2 * np.pi * T) + 0.2 * RNG.normal(size=60)
H = torch.from_numpy(RNG.normal(size=(9, 3)))


def start(name: str, d: int, **growth) -> Valued:
    fact = InputFacts(d, -2.0, 2.0, 1.0, 50)
    return BASE_KERNELS[name](fact, Growth(**{"variance": 0.7, "multiplies": False, "periods": (1.3,), **growth}))[0]


def matrix(valued: Valued) -> torch.Tensor:
    return valued.kernel.matrix(valued.values, H)


SE, PER, LIN, RQ, NN = (start(name, d) for name, d in (("se", 0), ("periodic", 0), ("linear", 1), ("rq", 2), ("nn", 1)))
ONE = Valued(Constant(), {"variance": torch.tensor(0.3, dtype=torch.float64)})
SWITCH = {"location": torch.tensor([0.2], dtype=torch.float64), "width": torch.tensor([0.5], dtype=torch.float64)}
NESTED = sum_of(
    [product_of([sum_of([SE, LIN, ONE]), sum_of([PER, RQ])]), change_point_of(product_of([SE, NN]), PER, 2, SWITCH), ONE]
)

# ------------------------------------------------------------------------------------------------------------ expressions


def test_sums_and_products_are_those_of_the_matrices():
    torch.testing.assert_close(matrix(sum_of([SE, PER, ONE, ONE])), matrix(SE) + matrix(PER) + 2 * matrix(ONE))
    for factors in ([SE, PER], [SE, LIN], [SE, SE], [ONE, SE], [sum_of([SE, LIN]), PER, ONE], [LIN, LIN], [ONE, ONE]):
        expected = torch.stack([matrix(factor) for factor in factors]).prod(0)
        torch.testing.assert_close(matrix(product_of(factors)), expected, rtol=1e-12, atol=1e-14)


def test_a_part_that_leaves_a_product_gets_a_variance_back():
    (factor, _) = [Valued(k, product_of([PER, SE]).values[str(i)]) for i, k in enumerate(product_of([PER, SE]).kernel.parts)]  # type: ignore[attr-defined]
    assert (
        "variance"
        in sum_of([factor, Valued(SquaredExponential(dims=(0,), amplitude=False), {"lengthscale": torch.ones(1)})]).values["1"]
    )


def test_the_normal_form_has_the_same_matrix():
    parts = parts_in_normal_form(NESTED)
    assert len(parts) == 6 + 2 + 1
    torch.testing.assert_close(sum(matrix(part) for part in parts), matrix(NESTED), rtol=1e-12, atol=1e-14)
    assert all(" + " not in text_of(part.kernel) and "CP" not in text_of(part.kernel) for part in parts)


def test_equal_expressions_are_equal():
    assert sum_of([SE, product_of([PER, LIN])]).kernel == sum_of([product_of([LIN, PER]), SE]).kernel
    assert text_of(product_of([sum_of([SE, LIN]), PER]).kernel, ["t", "u"]) == "(Lin(u) + SE(t)) * Per(t)"
    assert text_of(product_of([SE, SE]).kernel) == "SE(x0)"


def test_numbers_are_counted_once():
    assert degrees(product_of([SE, PER, LIN])) == (1 + 2 + 1, 1)
    assert degrees(product_of([sum_of([SE, LIN]), sum_of([PER, ONE])])) == (1 + 1 + 2, 3)
    assert degrees(change_point_of(SE, ONE, 0, SWITCH)) == (1 + 2, 2)


def test_inputs_are_seen_and_renamed():
    assert inputs_of(NESTED.kernel) == (0, 1, 2)
    moved = renamed(NESTED.kernel, lambda d: {0: 2, 1: 0, 2: 1}[d])
    torch.testing.assert_close(moved.matrix(NESTED.values, H[:, [1, 2, 0]]), matrix(NESTED))
    assert inputs_of(SquaredExponential()) is None
    assert inputs_of(SquaredExponential(dims=(1,)) * ChangePoint(Constant(), Linear(dims=(2,)), on=0)) == (0, 1, 2)


# ---------------------------------------------------------------------------------------------------------------- growing


def grammar(names=DEFAULT, D: int = 2) -> Grammar:
    return Grammar(names, [InputFacts(d, -2.0, 2.0, 1.0, 50) for d in range(D)])


def test_an_expression_grows_by_sums_products_exchanges_and_changes():
    found = {
        text_of(kernel)
        for kernel in grammar(("se", "linear", "constant", "changepoint")).grown(product_of([SE, LIN]), {}, 0.1, [(), ()])
    }
    assert found >= {
        "Lin(x1) * SE(x0) + SE(x0)",  # the whole, plus
        "(Lin(x1) + SE(x0)) * SE(x0)",  # a factor, plus
        "Lin(x0) * Lin(x1) * SE(x0)",
        "Lin(x0) * Lin(x1)",  # exchanged
        "C + Lin(x1) * SE(x0)",
        "CP(x1; Lin(x1) * SE(x0), Lin(x1) * SE(x0))",
    }


def test_every_part_can_be_left_out():
    found = {text_of(kernel) for kernel in reduced(sum_of([product_of([SE, LIN]), PER]), {})}
    assert found == {"Per(x0)", "Lin(x1) * SE(x0)", "Lin(x1) + Per(x0)", "Per(x0) + SE(x0)"}
    assert {text_of(kernel) for kernel in reduced(change_point_of(SE, PER, 0, SWITCH), {})} == {"SE(x0)", "Per(x0)"}
    assert reduced(SE, {}) == {}


def test_what_grew_starts_with_what_was_learned():
    grown = grammar(("se",), 1).grown(PER, {"noise": {"std": torch.ones(())}}, 0.1, [()])
    (values,) = [starts[0] for kernel, starts in grown.items() if text_of(kernel) == "Per(x0) + SE(x0)"]
    assert torch.equal(values["kernel"]["0"]["period"], PER.values["period"])
    assert "noise" in values


def test_every_candidate_has_a_covariance():
    for kernel, starts in grammar(D=3).grown(NESTED, {}, 0.1, [(1.1,), (), (0.4,)]).items():
        values = starts[0]["kernel"]
        assert set(Layout(kernel.parameters(H)).parameters) == {name for name, _ in leaves(values)}, text_of(kernel)
        assert torch.linalg.eigvalsh(kernel.matrix(values, H)).min() > -1e-9


def test_periods_are_seen_among_others_and_not_where_there_are_none():
    x = np.sort(RNG.uniform(0, 30, 150))
    found = periods_in(x, [np.sin(2 * np.pi * x / 2.0) + 0.5 * np.cos(2 * np.pi * x / 7.0)])
    np.testing.assert_allclose(sorted(found), [2.0, 7.0], rtol=0.03)
    assert periods_in(np.array([0.0, 1.0] * 20), [np.ones(40)]) == ()


# ---------------------------------------------------------------------------------------------------------------- contest


def contest(X: np.ndarray, y: np.ndarray, tmp_path=None) -> Contest:
    data = Data(torch.from_numpy(X), torch.from_numpy(y))
    trainer = Trainer(torch.Generator().manual_seed(0), Workers(1))
    return Contest(Model(), data, data, None, trainer, Record(None, "one"), 30)


def test_candidates_that_differ_in_their_inputs_are_one_batch(monkeypatch):
    X = RNG.normal(size=(40, 3))
    y = np.sin(2 * X[:, 1]) + 0.1 * RNG.normal(size=40)
    batches = []
    group = Contest._group
    monkeypatch.setattr(Contest, "_group", lambda self, g, *more: batches.append(len(g.starts)) or group(self, g, *more))
    candidates = collected([start("se", d) for d in range(3)], {})
    together = contest(X, y).run("all", candidates, 3)
    assert batches == [3, 3]  # all are screened together, and trained together
    best = min(together, key=lambda entry: entry.score)
    assert best.kernel.dims == (1,)
    alone = contest(X, y).run("one", {best.kernel: candidates[best.kernel]}, 1)[0]
    assert alone.reached.nlml == pytest.approx(best.reached.nlml, abs=1e-3)
    values = map_leaves(lambda leaf: leaf[None], best.reached.values)
    data = Data(torch.from_numpy(X), torch.from_numpy(y))
    assert float(Model(kernel=best.kernel).nlml(values, data)) == pytest.approx(best.reached.nlml, rel=1e-8)
    assert best.score == pytest.approx(best.reached.nlml + 0.5 * 2 * np.log(40))


# ------------------------------------------------------------------------------------------------------------------ words

YEAR = InputWords("year", 2000.0, 2010.0, 2005.0, 3.0)
DEPTH = InputWords("depth", 0.0, 2.0, 1.0, 0.5)


def valued(kernel, **values) -> Valued:
    return Valued(kernel, {name: torch.tensor(v, dtype=torch.float64) for name, v in values.items()})


def se(d: int, length: float) -> Valued:
    return valued(SquaredExponential(dims=(d,)), variance=1.0, lengthscale=[length])


YEARLY = valued(Periodic(dims=(0,), centred=True), variance=1.0, period=[1 / 3], lengthscale=[1.0])


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (se(0, 3.0), "a slow, smooth trend over year"),
        (se(0, 0.5), "a smooth function of year that varies over about 1.5"),
        (valued(Linear(dims=(1,), origin=True), weights=[1.0], origin=[0.0]), "a linear trend in depth"),
        (YEARLY, "a yearly period"),
        (
            product_of([YEARLY, valued(Linear(dims=(0,), origin=True), weights=[1.0], origin=[-2.0])]),
            "a yearly period whose amplitude grows with year",
        ),
        (product_of([YEARLY, se(0, 2.0)]), "a yearly period whose shape changes slowly, over about 6"),
        (product_of([YEARLY, se(0, 0.2)]), "a yearly period whose shape changes over about 0.6, sooner than it comes round"),
        (product_of([se(0, 1.0), se(1, 1.0)]), "an interaction of year and depth: smooth in year and smooth in depth"),
        (valued(SquaredExponential(), variance=1.0, lengthscale=[1.0, 1.0]), "a smooth function of year and depth together"),
        (ONE, "a constant"),
    ],
)
def test_words(part, words):
    assert words_of(part, [YEAR, DEPTH]) == words


def line(origin: float) -> Valued:
    return valued(Linear(dims=(0,), origin=True), weights=[1.0], origin=[origin])


MONTH = InputWords("month [days]", 0.0, 3650.0, 1825.0, 1000.0, " days", "month", TimeScale("days", "2000-01-01").date_in_words)


@pytest.mark.parametrize(("factors", "words"), [
    ([line(0.4), se(0, 0.5)], "a smooth function of month that varies over about 500 days and whose amplitude is smallest near 2006-02-03 and grows to both sides"),
    ([line(0.4), line(-2.0), se(0, 5.0)], "a slow, smooth trend over month whose amplitude is smallest near 2006-02-03 and grows to both sides, most towards late dates"),
    ([line(2.0), line(-2.0), se(0, 0.1)], "a quick, smooth function of month that varies over about 100 days and whose amplitude is largest in the middle of month"),
    ([line(2.0), valued(RationalQuadratic(dims=(0,)), variance=1.0, lengthscale=[0.5], shape=1.0)],
     "a smooth function of month that varies over about 500 days, on several scales at once, and whose amplitude shrinks with month"),
    ([valued(Periodic(dims=(0,), centred=True), variance=1.0, period=[0.5], lengthscale=[1.0])], "a period of 500 days in month"),
])  # fmt: skip
def test_dates_are_said_as_dates_and_lengths_with_their_unit(factors, words):
    """It was "near Monat [days] = 2388"; and a line times another kernel lets the amplitude vanish, not the function."""
    assert words_of(product_of(factors), [MONTH]) == words


def test_a_search_says_dates_of_its_table():
    table = pd.DataFrame({"when": pd.date_range("2015-01-01", periods=60, freq="MS"), "load [N]": np.sin(np.arange(60.0))})
    model = KernelSearch(1, beam=1, kernels=("se",), max_iter=10).fit(table, np.cumsum(np.sin(np.arange(60) / 9)))
    block, member = model.ensembles_[0].heaviest()
    when, load = input_words(model, Decomposition.of(block, member))
    assert (when.name, when.called, when.length(12.0), when.at(31.2)) == ("when [days]", "when", "12 days", "2015-02-01")
    assert (load.called, load.length(0.5), load.at(0.5)) == ("load [N]", "0.5 N", "load [N] = 0.5")


def test_a_change_is_said_with_its_place():
    before, beyond = parts_in_normal_form(change_point_of(se(0, 3.0), YEARLY, 0, {**SWITCH, "location": torch.zeros(1)}))
    assert words_of(before, [YEAR, DEPTH]) == "a slow, smooth trend over year, until about year = 2005"
    assert words_of(beyond, [YEAR, DEPTH]) == "a yearly period, from about year = 2005 on"


def test_a_period_between_two_rows_is_the_longer_one_that_they_show():
    """Yearly rows cannot tell 1.1 years from 11, and a search of sunspots once said the former."""
    years = torch.arange(1700.0, 1760.0, dtype=torch.float64)[:, None]
    short = sum_of(
        [product_of([valued(Periodic(dims=(0,), centred=True), variance=1.0, period=[1.1], lengthscale=[0.7]), se(0, 3.0)]), ONE]
    )
    long = without_aliases(short, years.numpy())
    periods = [leaf.item() for name, leaf in leaves(long.values) if name.endswith("period")]
    assert periods == pytest.approx([11.0])
    before, after = (found.kernel.matrix(found.values, years) for found in (short, long))
    torch.testing.assert_close(before, after, rtol=1e-9, atol=1e-9)
    uneven = years + 0.3 * torch.as_tensor(np.random.default_rng(0).uniform(size=(60, 1)))
    assert without_aliases(short, uneven.numpy()).values == short.values
    assert without_aliases(long, years.numpy()).values == long.values


# -------------------------------------------------------------------------------------------------------------- estimator

NAMES = ("periodic", "linear")


@pytest.fixture(scope="module")
def found() -> KernelSearch:
    """A search on a trend with a period that grows: the planted structure is three steps away."""
    return KernelSearch(3, beam=1, kernels=NAMES, max_iter=40).fit(pd.DataFrame({"year": T}), GROWING)


def test_the_time_of_a_search_is_told_as_it_is():
    """200 rows of a series took 72,000 times an iteration of the usual models on 200 rows, which a plan counts by; it had said a fifth of that."""
    assert 0.6 < Search().plan(200).work / cost(200) / 72_000 < 1.5
    assert Search().slower(200, 1) == 1.0 < Search().slower(200, 5)


def test_what_was_planted_is_found_and_said(found):
    structure = found.describe()
    words = [part.words for part in structure.parts]
    assert "a linear trend in year" in words
    assert any("a yearly period" in text for text in words)
    assert sum(part.share for part in structure.parts) + structure.noise_share == pytest.approx(1.0, abs=1e-6)
    assert 0.1 < structure.noise_std < 0.4
    assert found.diagnose().remarks[0] == structure.lines()[0]
    assert "year" in str(structure)
    assert len(found.kernels_) == 1


def test_the_best_of_all_that_were_tried_wins(found):
    report = found.search_[0]
    scores = [candidate.score for candidate in report.candidates]
    assert scores == sorted(scores)
    assert text_of(found.kernels_[0]) == report.candidates[0].expression
    depth_of = {c.expression: c.depth for c in report.candidates}
    assert {1, 2, 3} == set(depth_of.values())
    bests = [min(c.score for c in report.candidates if c.depth <= depth) for depth in (1, 2, 3)]
    assert bests[2] <= bests[1] < bests[0]


def test_it_is_an_ordinary_model(found, tmp_path):
    X = pd.DataFrame({"year": np.linspace(1999, 2008, 30)})
    mean, std = found.predict(X, return_std=True)
    found.save(tmp_path / "model.mgp")
    again = load(tmp_path / "model.mgp")
    assert isinstance(again, KernelSearch)
    np.testing.assert_array_equal(again.predict(X), mean)
    assert str(again.describe()) == str(found.describe())
    assert again.search_ == found.search_
    by_program, (mean_error, variance_error) = found.predictor()(X, return_std=True), rounding(found, X.to_numpy())
    np.testing.assert_allclose(by_program[0], mean, rtol=1e-9, atol=100 * mean_error)
    np.testing.assert_allclose(by_program[1] ** 2, std**2, rtol=1e-6, atol=100 * variance_error)
    assert clone(found).get_params() == found.get_params()


def test_kernels_are_searched_for_on_features_too(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 2))
    y = np.sin(6 * X @ [0.8, 0.6]) + 0.05 * rng.normal(size=60)
    model = KernelSearch(1, beam=1, kernels=("periodic", "linear"), max_iter=40, features=features.Linear(1)).fit(X, y)
    (part, *_) = model.describe().parts
    assert part.inputs == ("feature 1",)
    assert "a period of" in part.words
    assert part.share > 0.9
    H = model.transform(X)[:, 0]
    assert abs(np.corrcoef(H, X @ [0.8, 0.6])[0, 1]) > 0.99
    (drawn, *_) = inspection.components(model)
    assert drawn.names == ("feature 1",)
    assert (drawn.x1[0], drawn.known_to) == (pytest.approx(H.min()), pytest.approx(H.max()))
    assert plots.plot_components(model).axes[0].get_xlabel() == "feature 1"
    model.save(tmp_path / "model.mgp")
    again = load(tmp_path / "model.mgp")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert str(again.describe()) == str(model.describe())
    assert clone(model).features == features.Linear(1)


def test_fixed_features_are_not_trained_and_means_of_inputs_are_refused():
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = np.sin(X[:, 0])
    model = KernelSearch(1, beam=1, kernels=("se", "linear"), max_iter=10, features=PCA(2)).fit(X, y)
    assert {name for part in model.describe().parts for name in part.inputs} <= {"feature 1", "feature 2"}
    with pytest.raises(InputError, match="A search on features has no mean of the inputs"):
        KernelSearch(1, kernels=("se",), max_iter=2, features=PCA(2), mean="linear").fit(X, y)


def test_features_are_learnt_without_the_rows_that_are_held_out():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 8)), rng.normal(size=60)
    settings = {"depth": 1, "kernels": ("se",), "criterion": "held-out"}
    noise = KernelSearch(**settings, features=(20, 2), max_iter=100).fit(X, y)
    assert (
        noise.search_[0].candidates[0].score > 15.0
    )  # about 1.4 nats for each of 15 rows of noise; -30 by features that have seen them
    assert "feature 1" in noise.search_[0].candidates[0].expression + noise.search_[0].candidates[-1].expression


@pytest.mark.parametrize("features", [features.Identity(), torch.nn.Tanh()])
def test_an_input_that_never_changes_and_features_without_parameters(features):
    rng = np.random.default_rng(0)
    X = np.c_[np.ones(40), rng.normal(size=(40, 2))]
    model = KernelSearch(2, beam=1, kernels=("se", "linear"), max_iter=5, features=features).fit(X, X[:, 1] * X[:, 2])
    assert np.isfinite(model.predict(X)).all()


def test_parts_add_up_to_the_prediction(found):
    block = found.ensembles_[0].blocks[0]
    decomposed = Decomposition.of(block)
    X = block.data.X[::7]
    whole, variance, _ = block.moments(X)
    parts = [decomposed.component(part, X, centred=False) for part in decomposed.parts]
    torch.testing.assert_close(torch.stack([mean for mean, _ in parts]).sum(0), whole[0], rtol=1e-8, atol=1e-8)
    assert all(bool((v >= 0).all()) for _, v in parts)
    lonely = Decomposition(
        decomposed.posterior, (Valued(block.model.kernel, map_leaves(lambda leaf: leaf[0], block.values["kernel"])),)
    )
    torch.testing.assert_close(lonely.component(lonely.parts[0], X, centred=False)[1], variance[0], rtol=1e-6, atol=1e-9)
    mean, centred = lonely.component(lonely.parts[0], block.data.X)
    assert float(mean.mean()) == pytest.approx(0.0, abs=1e-8)
    assert float(lonely.component(lonely.parts[0], block.data.X, centred=False)[0].mean()) != pytest.approx(0.0, abs=1e-12)
    assert bool((centred >= 0).all())


def test_pictures_show_every_part_with_its_band(found):
    shown = inspection.components(found, upto=[2008.0])
    assert [part.share for part in shown] == sorted((part.share for part in shown), reverse=True)
    lower, upper = shown[0].bounds()
    assert bool((lower < upper).all())
    assert shown[0].x1[-1] == 2008.0
    figure = plots.plot_components(found, upto=[2008.0], least=0.0)
    assert len([ax for ax in figure.axes if ax.get_title(loc="left")]) == len(shown)
    with pytest.raises(InputError, match="one value for each of the 1 input"):
        inspection.components(found, upto=[1.0, 2.0])


def test_an_interaction_is_a_map():
    X = pd.DataFrame(RNG.uniform(-1, 1, size=(60, 3)), columns=["heat", "load", "colour"])
    y = 3 * X["heat"] * X["load"] + 0.05 * RNG.normal(size=60)
    model = KernelSearch(2, beam=3, kernels=("linear",)).fit(X, y)
    structure = structure_of(model, 0)
    assert any(set(part.inputs) == {"heat", "load"} for part in structure.parts)
    assert "Inputs that interact: heat and load." in structure.lines()
    assert "colour" in structure.unused
    part = next(part for part in inspection.components(model) if len(part.columns) == 2)
    assert part.mean.shape == (40, 40)
    assert len(plots.plot_components(model).axes) >= 2


def test_several_targets_have_kernels_of_their_own():
    y = np.stack([T, np.sin(2 * np.pi * T)], 1)
    model = KernelSearch(1, kernels=("linear", "periodic")).fit(T[:, None], y)
    assert [text_of(kernel) for kernel in model.kernels_] == ["Lin(x0)", "Per(x0)"]
    assert model.describe(1).target == "y1"
    assert model.diagnose().remarks[0].startswith("output 0: ")


# ------------------------------------------------------------------------------------------------- stopped and continued


def count_trained(monkeypatch) -> list[int]:
    batches: list[int] = []
    group = Contest._group
    monkeypatch.setattr(Contest, "_group", lambda self, g, *more: batches.append(len(g.starts)) or group(self, g, *more))
    return batches


def test_a_search_that_was_stopped_goes_on(tmp_path, monkeypatch):
    X, settings = T[:, None], {"depth": 2, "beam": 1, "kernels": ("se", "linear"), "max_iter": 15}
    batches = count_trained(monkeypatch)
    whole = KernelSearch(**settings).fit(X, GROWING)
    needed = len(batches)
    cache = tmp_path / "search.json"
    rounds = iter(range(10_000))
    stopped = KernelSearch(**settings, cache=cache, callback=lambda *_: next(rounds) > 40).fit(X, GROWING)
    assert stopped.search_[0].ended == "somebody stopped it"
    assert np.isfinite(stopped.predict(X)).all()
    before = len(batches)
    goes_on = KernelSearch(**settings, cache=cache).fit(X, GROWING)
    assert 0 < len(batches) - before < needed  # what was finished is not trained again
    assert goes_on.search_[0].candidates[0].expression == whole.search_[0].candidates[0].expression
    before = len(batches)
    KernelSearch(**settings, cache=cache).fit(X, GROWING)
    assert len(batches) == before
    KernelSearch(**settings, cache=cache).fit(X, GROWING + T)  # other rows share nothing with it
    assert len(batches) > before
    assert len(json.loads(cache.read_text())["searches"]) == 2


def test_an_interrupt_keeps_the_best_so_far(monkeypatch):
    run, calls = Contest.run, []

    def interrupted(self, phase, *more):
        calls.append(phase)
        if phase == "depth 2":
            raise KeyboardInterrupt
        return run(self, phase, *more)

    monkeypatch.setattr(Contest, "run", interrupted)
    with pytest.warns(FitWarning, match="interrupted"):
        model = KernelSearch(3, kernels=NAMES, max_iter=10).fit(T[:, None], GROWING)
    assert calls == ["depth 1", "depth 2"]
    assert model.search_[0].ended == "it was interrupted"
    assert np.isfinite(model.predict(T[:, None])).all()


def test_the_budget_is_kept(monkeypatch):
    X = RNG.normal(size=(120, 4))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2])
    clock = [0.0]
    monkeypatch.setattr(
        time, "perf_counter", lambda: clock.__setitem__(0, clock[0] + 0.01) or clock[0]
    )  # a hundredth for each look
    model = KernelSearch(8, budget=2.0).fit(X, y)
    assert model.search_[0].ended.startswith("time was up")
    assert clock[0] < 2.5
    assert np.isfinite(model.predict(X)).all()


# -------------------------------------------------------------------------------------------------------------- arguments


def test_rows_are_held_out_as_asked(monkeypatch):
    held = []
    score = contests.held_out_score
    monkeypatch.setattr(contests, "held_out_score", lambda *given: held.append(given[3].X[:, 0].numpy()) or score(*given))
    model = KernelSearch(1, criterion="held-out", kernels=("se", "linear"), max_iter=5).fit(T[:, None], GROWING, ordered=True)
    assert len(held[0]) == 15
    assert held[0].min() > np.sort(model.x_scaler_.apply(T[:, None])[:, 0])[44]
    assert model.search_[0].criterion == "held-out"
    assert model.search_[0].rows == 45
    with pytest.warns(FitWarning, match="criterion='bic' holds out none: .* criterion='held-out' does"):
        KernelSearch(1, kernels=("linear",), max_iter=2).fit(T[:, None], GROWING, ordered=True)


def test_candidates_are_compared_on_some_rows_and_the_winner_sees_all():
    model = KernelSearch(1, rows=30, kernels=("se",), max_iter=5).fit(T[:, None], GROWING)
    assert model.search_[0].rows == 30
    assert model.ensembles_[0].blocks[0].rows == 60


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"criterion": "aic"}, "criterion must be 'bic'"),
        ({"kernels": ("constant",)}, "at least one of one input"),
        ({"kernels": ("se", "splines")}, "There are: 'se'"),
        ({"kernels": "se"}, "kernels must list"),
        ({"depth": 0}, "depth"),
        ({"beam": 0}, "beam"),
        ({"rows": 3}, "rows"),
        ({"max_iter": -1}, "max_iter"),
        ({"budget": 0}, "time_budget"),
        ({"cache": 3}, "cache must be the name of a file"),
        ({"cache": "nowhere/search.json"}, "does not exist"),
    ],
)
def test_values_that_mean_nothing_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        KernelSearch(**{"kernels": ("linear",), **settings}).fit(T[:, None], GROWING)


def test_a_foreign_file_is_no_cache(tmp_path):
    (tmp_path / "notes.json").write_text("{}")
    with pytest.raises(InputError, match="is not the cache of a kernel search"):
        KernelSearch(1, kernels=("linear",), cache=tmp_path / "notes.json").fit(T[:, None], GROWING)


# ----------------------------------------------------------------------------------------------------------- command line


def test_the_command_line_says_it_in_words(tmp_path):
    pd.DataFrame({"year": T, "sales": GROWING}).to_csv(tmp_path / "sales.csv", index=False)
    common = ["search", tmp_path / "sales.csv", "-t", "sales", "--depth", "1", "--kernels", "linear,periodic", "--quiet"]
    done = mgp(*common, "--out", tmp_path / "m.mgp", "--picture", tmp_path / "parts.svg")
    assert done.out.startswith("sales is a ")
    assert "year" in done.out
    assert (tmp_path / "parts.svg").read_text(encoding="utf-8").count("<svg") == 1
    plain = json.loads(mgp(*common, "--json").out)
    assert plain["targets"]["sales"]["words"] == done.out.rstrip("\n")
    assert "sales is a" in mgp("inspect", tmp_path / "m.mgp").out
    assert (
        "--criterion bic holds out none: nothing tells how large errors on later rows are. --criterion held-out does."
        in mgp(*common[:-1], "--ordered").err
    )
    pattern = ["search", tmp_path / "sale*.csv", "-t", "sales"]
    assert "would destroy it" in fails(*pattern, "--cache", tmp_path / "sales.csv", code=2)
    assert "does not exist" in fails(*pattern, "--picture", tmp_path / "nowhere" / "parts.png")
    assert "positive number of seconds" in fails(*common, "--budget", "0", code=2)
    gaps = np.where(np.arange(len(T)) % 9 == 0, np.nan, T)
    pd.DataFrame({"year": gaps, "sales": GROWING}).to_csv(tmp_path / "sales.csv", index=False)
    assert "--missing impute or --missing drop" in fails(*common)
    assert json.loads(mgp(*common, "--missing", "drop", "--json").out)["rows"] == int(np.isfinite(gaps).sum())
