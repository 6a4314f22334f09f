"""diagnose(): the numbers are those of the model, the remarks come when they should and only then."""

from __future__ import annotations

import math
from dataclasses import replace
from html import escape
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from manifoldgp import MLP, PCA, GPRegressor, LogNormal, ManifoldGPRegressor, Restarts, Single, Stack
from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.cli.inspect import _in_words
from manifoldgp.estimators.diagnosis import Diagnosis
from manifoldgp.estimators.input_influence import _scaled_kernels
from manifoldgp.estimators.posterior_checks import _may_be_noise_free
from manifoldgp.inspection.page_tables import numbers_table
from manifoldgp.kernels import Matern32, Periodic, SquaredExponential
from manifoldgp.noise import DEFAULT_FLOOR, GaussianNoise
from short_fits import few_starts

RNG = np.random.default_rng(2)
X = RNG.normal(size=(30, 2))
Y = 5.0 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=30)
LOO = "leave-one-out negative log density per row"
AGREE = "starts that agree on the optimum (0.01 nats a row)"


def gp(**arguments):
    return GPRegressor(**{"restarts": 3, **arguments})


@pytest.fixture(scope="module")
def plain():
    return gp().fit(X, Y)


def test_numbers_of_an_ordinary_fit(plain):
    diagnosis = plain.diagnose()
    numbers = diagnosis.numbers
    assert (numbers["rows"], numbers["inputs"], numbers["features"], numbers["starts"]) == (30, 2, 2, 3)
    assert numbers["NLML per row"] == pytest.approx(plain.nlml_ / 30, rel=1e-9)
    assert numbers["jitter used (share of the target's variance)"] == 0
    assert numbers["noise floor (units of the target)"] == pytest.approx(DEFAULT_FLOOR * Y.std())
    scale = float(plain.ensembles_[0].blocks[0].values["noise"]["scale"]) * Y.std()
    assert numbers["noise standard deviation (units of the target)"] == pytest.approx(scale, rel=1e-6)
    assert 0.1 < scale < 0.6
    lengthscale = plain.ensembles_[0].blocks[0].values["kernel"]["lengthscale"][0].numpy()
    U = (X - X.mean(0)) / X.std(0)
    found = [numbers[f"kernel.lengthscale / spread of {d}"] for d in range(2)]
    np.testing.assert_allclose(found, (lengthscale / U.std(0, ddof=1))[plain.x_scaler_.place], rtol=1e-9)
    assert numbers["rank of the features"] == 2
    assert numbers["invalid starts"] == 0
    assert diagnosis.whose == ""
    assert 1 <= numbers[AGREE] <= 3


def test_leave_one_out_is_what_leaving_one_out_gives(plain):
    """Each row predicted by the model with the same parameters that has not seen it, in the units of y."""
    block, ensemble = plain.ensembles_[0].blocks[0], plain.ensembles_[0]
    A = (block.L[0] @ block.L[0].T).numpy()
    t, total = block.z[0].numpy(), 0.0
    for i in range(30):
        rest = np.arange(30) != i
        k = np.linalg.solve(A[np.ix_(rest, rest)], A[rest, i])
        mean, variance = k @ t[rest], A[i, i] - k @ A[rest, i]
        total += 0.5 * (math.log(2 * math.pi * variance) + (t[i] - mean) ** 2 / variance) + math.log(ensemble.scale)
    assert plain.diagnose().numbers[LOO] == pytest.approx(total / 30, rel=1e-8)


def test_units_shift_densities_by_their_logarithm(plain):
    scaled = gp().fit(X, Y * 2.0**10).diagnose().numbers
    numbers = plain.diagnose().numbers
    for name in ("NLML per row", LOO):
        assert scaled[name] == pytest.approx(numbers[name] + 10 * math.log(2), abs=1e-9)
    assert scaled["noise standard deviation (units of the target)"] == pytest.approx(
        numbers["noise standard deviation (units of the target)"] * 2**10
    )


def test_a_warped_model_is_diagnosed_in_the_units_of_y():
    model = gp(target_warping="tanh", max_iter=30).fit(X, np.exp(Y / 3))
    assert model.diagnose().numbers["NLML per row"] == pytest.approx(model.nlml_ / 30, rel=1e-8)


def test_after_an_update_the_numbers_are_those_of_all_rows(plain):
    model = gp(max_iter=30).fit(X[:20], Y[:20]).update(X[20:], Y[20:])
    numbers = model.diagnose().numbers
    assert numbers["rows"] == 30
    block = model.ensembles_[0].blocks[0]
    A, t = (block.L[0] @ block.L[0].T).numpy(), block.z[0].numpy()
    nlml = 0.5 * t @ np.linalg.solve(A, t) + 0.5 * np.linalg.slogdet(2 * math.pi * A)[1] + 30 * math.log(model.y_scaler_.scale[0])
    assert numbers["NLML per row"] == pytest.approx(nlml / 30, rel=1e-8)


@pytest.mark.parametrize("shared", [False, True])
def test_each_of_several_targets_has_its_own_numbers(shared):
    # A floor that keeps K from being nearly singular, for the second target has no noise: two ways to its NLML then agree to many digits.
    averaging, noise = Single(restarts=2, max_iter=30, shared_features=shared), GaussianNoise(floor=0.05)
    model = ManifoldGPRegressor((3, 2), averaging=averaging, noise=noise).fit(X, np.c_[Y, 100 * X[:, 1] ** 2])
    diagnosis = model.diagnose()
    total = sum(diagnosis.numbers[f"output {o}: NLML per row"] for o in range(2))
    assert total == pytest.approx(model.nlml_ / 30, rel=1e-8)
    assert all(remark.startswith("output ") for remark in diagnosis.remarks)


def remarks(model):
    return "\n".join(model.diagnose().remarks)


def test_noise_free_data_are_remarked():
    assert "The noise is at its floor: the data look noise-free." in remarks(gp().fit(X, X[:, 0]))
    assert "noise is at its floor" not in remarks(gp().fit(X, Y))


def test_a_floor_is_no_sign_of_data_without_noise_where_held_out_rows_are_missed():
    """Rows of a group were explained to the last digit, and other groups not at all."""
    fitted = gp().fit(X, X[:, 0])
    held_out = HeldOutReport(("plain GP",), (1.0,), np.ones((1, 1)), {}, np.full(30, 0.5), mean=np.zeros(30), observed=X[:, 0])
    assert not _may_be_noise_free(held_out)
    assert _may_be_noise_free(replace(held_out, mean=X[:, 0] + 0.05))
    assert _may_be_noise_free(None)
    assert "noise is at its floor" in remarks(fitted)
    fitted.held_out_[0] = replace(
        held_out,
        groups=("plain GP", "warm"),
        weights=np.ones((2, 1)),
        log_density={name: -np.ones(30) for name in ("plain GP", "warm", "control", "stack")},
    )
    assert "noise is at its floor" not in remarks(fitted)


def test_length_scales_bear_the_names_of_their_inputs():
    """The model orders its columns by their values; a list in that order was read in the table's."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    numbers = gp().fit(frame, np.sin(2 * frame["b"]) + 0.1 * frame["d"]).diagnose().numbers
    found = {name: numbers[f"kernel.lengthscale / spread of {name}"] for name in "abcd"}
    assert min(found, key=found.get) == "b"
    assert found["b"] < found["d"] < min(found["a"], found["c"])
    many = pd.DataFrame(rng.normal(size=(40, 8)), columns=list("abcdefgh"))
    numbers = gp(restarts=1).fit(many, many["g"]).diagnose().numbers
    assert numbers["kernel.lengthscale / spread of the input, in the order of the inputs"].argmin() == 6


def test_a_category_has_no_influence_where_none_of_its_columns_has():
    frame = pd.DataFrame({"x": X[:, 0], "kind": np.where(X[:, 1] > 0, "up", "down"), "other": np.tile(["p", "q", "r"], 10)})
    model = gp(restarts=1, max_iter=2, kernel=SquaredExponential()).fit(frame, Y)
    lengthscale, place = model.ensembles_[0].blocks[0].values["kernel"]["lengthscale"], model.x_scaler_.place
    lengthscale[0] = 1.0
    lengthscale[0, place[[1]]] = 1e6  # kind=down, which says the same as kind=up
    assert "no influence" not in remarks(model)
    lengthscale[0, place[[3, 4, 5]]] = 1e6
    assert "kernel.lengthscale: 1 input has no influence (length-scale above 1000 spreads): other." in remarks(model)


def test_a_line_is_an_influence_however_long_its_length_scale():
    """A squared exponential learns a line as a large variance at a large length-scale; an input that decided everything was said to have no influence."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sold": rng.uniform(100, 5000, 60), "snow": rng.normal(size=60)})
    model = gp(max_iter=20, kernel=SquaredExponential()).fit(frame, 38.5 * frame["sold"])
    kernel, place = model.ensembles_[0].blocks[0].values["kernel"], model.x_scaler_.place
    kernel["variance"][0], kernel["lengthscale"][0, place[[0, 1]]] = 1e8, torch.tensor([1e4, 1e9], dtype=torch.float64)
    assert "1 input has no influence (length-scale above 1000 spreads): snow." in remarks(model)


def test_what_one_of_many_members_does_is_said_of_it():
    model = ManifoldGPRegressor(averaging=Restarts(2, max_iter=5)).fit(X, Y)
    block, member = model.ensembles_[0].heaviest()
    block.values["kernel"]["lengthscale"][member] = 1e9
    assert "of the model with the most weight: " in remarks(model)


def test_inputs_without_influence_are_remarked():
    model = gp(priors={"kernel.lengthscale": LogNormal(math.log(1e5), 1e-3)}, max_iter=50).fit(X, Y)
    assert "kernel.lengthscale: 2 inputs have no influence (length-scale above 1000 spreads): 0, 1." in remarks(model)
    model = gp(priors={"kernel.lengthscale": LogNormal(math.log(1e-5), 1e-3)}, max_iter=50).fit(X, Y)
    assert (
        "kernel.lengthscale: 2 length-scales are below 0.001 spreads: nothing is shared between rows with other values of 0, 1."
        in remarks(model)
    )


def test_constant_inputs_are_remarked_by_name():
    A = np.c_[X, np.full(30, 0.1)]
    assert "Constant in the training data, so without information: input 2." in remarks(gp(max_iter=20).fit(A, Y))
    assert "input pressure." in remarks(gp(max_iter=20).fit(pd.DataFrame(A, columns=["a", "b", "pressure"]), Y))
    assert "Constant" not in remarks(gp(max_iter=20).fit(X, Y))


def test_more_parameters_than_rows_are_remarked():
    """On pure noise a network of this size fits what is not there, and neither NLML nor leave-one-out densities tell."""
    noise = np.random.default_rng(0).normal(size=30)
    model = ManifoldGPRegressor(features=(10, 2), averaging=Single(restarts=3, max_iter=100)).fit(X, noise)
    numbers = model.diagnose().numbers
    assert numbers["trained parameters"] == (2 * 10 + 10) + (10 * 2 + 2) + (1 + 2) + 1
    assert "more trained parameters (56) than rows (30): a single model is likely to overfit" in remarks(model)
    assert numbers[LOO] < 1.0  # although sd(y) = 1 cannot be predicted better than 1.4 nats a row
    assert "likely to overfit" not in remarks(gp().fit(X, Y))
    averaged = ManifoldGPRegressor(features=(10, 2), averaging=Restarts(restarts=4, max_iter=5)).fit(X, noise)
    assert "likely to overfit" not in remarks(averaged)
    fixed = ManifoldGPRegressor(PCA(2), averaging=Single(restarts=1, max_iter=5)).fit(X, noise)  # a PCA's matrix is not trained
    assert fixed.diagnose().numbers["trained parameters"] == 4


def test_rows_that_the_others_contradict_are_remarked():
    """Two rows at one place, far apart for noise that is known to be small: each pays for the other when it is left out."""
    model = gp(noise="known").fit(np.r_[X, X[:2]], np.r_[Y, Y[:2] + 3.0], noise_std=0.1)
    assert model.diagnose().numbers[LOO] > model.diagnose().numbers["NLML per row"] + 0.5
    assert "a few rows are not what the others say. Look for outliers" in remarks(model)
    assert "Look for outliers" not in remarks(gp().fit(X, Y))


def test_features_that_collapse_are_remarked():
    model = ManifoldGPRegressor(
        torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Linear(1, 3)), averaging=Single(restarts=1, max_iter=5)
    ).fit(X, Y)
    assert model.diagnose().numbers["rank of the features"] == 1
    assert "The 3 features span only 1 dimension: fewer features would do." in remarks(model)


def test_starts_that_disagree_or_stop_early_are_remarked():
    model = ManifoldGPRegressor(features=(3, 2), averaging=Single(restarts=4, max_iter=3)).fit(X, Y)
    assert model.diagnose().numbers[AGREE] == 1
    assert "Only one start found the best optimum: more restarts may find a better one." in remarks(model)
    assert "4 of 4 starts stopped at the iteration limit: raise max_iter to see them converge." in remarks(model)
    single = gp(restarts=1).fit(X, Y)
    assert "Only one start" not in remarks(single)


def test_a_limit_that_nobody_can_raise_is_not_remarked():
    """A stack has no max_iter, also where one plain GP has all of its weight."""
    stack = Stack(gp_iterations=3)
    model = ManifoldGPRegressor(averaging=stack).fit(X, Y)
    model.starts_ = model.starts_[model.starts_["group"] == "plain GP"][:1]
    model.starts_["status"], model.starts_["weight"] = "iteration limit", 1.0
    assert "max_iter" not in remarks(model)


def test_jitter_is_remarked():
    model = gp(kernel="matern12", noise=GaussianNoise(learned=False, floor=1e-9), restarts=1).fit(X, Y, noise_std=0.0)
    assert "jitter" not in remarks(model)
    model.update(X, Y, noise_std=0.0)  # the same rows again
    assert model.diagnose().numbers["jitter used (share of the target's variance)"] > 0
    assert "The covariance needed a jitter of" in remarks(model)


def test_a_factor_without_digits_is_remarked():
    noisy, exact = gp().fit(X, Y), gp(noise="known").fit(X, np.sin(X[:, 0]), noise_std=0.0)
    name = "rounding error of the smallest pivot (relative)"
    assert 0 < noisy.diagnose().numbers[name] < 1e-7 < exact.diagnose().numbers[name]
    assert "factors the covariance anew" not in remarks(noisy)
    assert "every update() factors the covariance anew, in O(N³)" in remarks(exact)


@pytest.mark.parametrize("averaging", ["restarts", "fast", "stack"])
def test_averages_are_diagnosed_by_their_heaviest_member(averaging):
    model = ManifoldGPRegressor(None if averaging == "fast" else (3, 2), averaging=few_starts(averaging, 2, 10)).fit(X, Y)
    diagnosis = model.diagnose()
    starts = model.starts_
    assert diagnosis.numbers["NLML per row"] == pytest.approx(starts["nlml"][np.argmax(starts["weight"])] / 30, rel=1e-6)
    assert diagnosis.numbers["starts"] == len(starts)
    assert "are those of the member with the most weight; the noise is that of all members together" in str(diagnosis)
    assert diagnosis.whose in diagnosis._repr_html_()
    assert "iteration limit" not in str(diagnosis)  # some members stop early on purpose


def test_length_scales_are_relative_to_the_features_that_their_kernel_sees():
    H = torch.tensor([[0.0, 0.0, 0.0], [1.0, 10.0, 100.0]], dtype=torch.float64)
    kernel = SquaredExponential(dims=(2, 0)) + Periodic(dims=(1,)) * Matern32(ard=False)
    one = torch.ones(1, 1, dtype=torch.float64)
    values = {"0": {"lengthscale": torch.tensor([[5.0, 7.0]])}, "1": {"0": {"lengthscale": one}, "1": {"lengthscale": 3 * one}}}
    parts = _scaled_kernels(kernel, values, torch.arange(H.shape[1]), "kernel")
    found = {name: (H[1, places].tolist(), scales.tolist()) for name, places, scales in parts}
    assert found == {
        "kernel.0.lengthscale": ([100.0, 1.0], [5.0, 7.0]),
        "kernel.1.1.lengthscale": ([1.0, 10.0, 100.0], [3.0]),
    }


def test_printing_shows_numbers_and_remarks():
    shown = str(Diagnosis({"rows": 3, "a long name": 0.123456, "many": np.arange(20.0)}, ["Look here."])).splitlines()
    assert shown[0] == "rows         3"
    assert shown[1] == "a long name  0.1235"
    assert shown[2].endswith("11, ...]")
    assert shown[-1] == "- Look here."
    assert str(Diagnosis({}, ["Only words."])) == "- Only words."


def test_every_number_is_plain_or_an_array(plain):
    assert all(isinstance(v, (int, float, np.ndarray)) for v in plain.diagnose().numbers.values())
    assert "rows" in str(plain.diagnose())


def test_columns_of_one_category_do_not_make_features_superfluous():
    """0/1 columns of one category sum to one: the inputs lack a dimension, and so do features that hold the inputs; a network's own do not."""
    one_hot = np.eye(3)[RNG.integers(0, 3, 30)]
    table = np.c_[X[:, :1], one_hot]
    assert not [r for r in gp(restarts=1).fit(table, Y).diagnose().remarks if "span only" in r]
    twice = np.c_[X[:, :1], X[:, :1]]
    collapsed = ManifoldGPRegressor(PCA(1) >> MLP((3,), "identity"), averaging=Single(restarts=1, max_iter=3)).fit(twice, Y)
    assert [r for r in collapsed.diagnose().remarks if "The 3 features span only 1 dimension:" in r]


def test_columns_of_one_category_with_filled_gaps_do_not_follow_from_others():
    """Filled in from rows that are alike, they are shares between 0 and 1, and still sum to one."""
    sex = np.array(["f", "m", "x"])[RNG.integers(0, 3, 30)].astype(object)
    sex[[3, 7]] = None
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sex": sex})
    told = gp(restarts=1, missing="impute").fit(table, Y).diagnose().remarks
    assert not [remark for remark in told if "span only" in remark]


def test_inputs_that_follow_from_others_are_no_fault_of_the_features():
    told = gp(restarts=1).fit(np.c_[X, X.sum(1)], Y).diagnose().remarks
    assert "The 3 inputs span only 2 dimensions: some follow from the others." in told
    assert not [remark for remark in told if "fewer features" in remark]


def test_inputs_are_counted_as_the_table_has_them():
    """Nine columns of a category and its gaps were counted as inputs, and those that follow from each other as dimensions that are lacking."""
    rng = np.random.default_rng(2)
    floor = np.array(["a", "b", "c", "d", "e", "f"])[rng.integers(0, 6, 60)].astype(object)
    floor[[3, 7]] = None
    frame = pd.DataFrame({"x": rng.normal(size=60), "z": rng.normal(size=60), "floor": floor})
    frame["sum"] = frame["x"] + frame["z"]
    found = gp(restarts=1, missing="impute").fit(frame, frame["x"] ** 2).diagnose()
    assert "The 4 inputs span only 3 dimensions: some follow from the others." in found.remarks
    assert (found.numbers["inputs"], found.numbers["numbers that the inputs become"]) == (4, 10)


def test_short_length_scales_of_flags_are_not_remarked():
    flags = np.c_[X[:, :1], X[:, 1:] > 0]
    model = gp(priors={"kernel.lengthscale": LogNormal(math.log(1e-5), 1e-3)}, max_iter=50).fit(flags, Y)
    assert "kernel.lengthscale: 1 length-scale is below 0.001 spreads: nothing is shared between rows" in remarks(model)


def test_short_length_scales_of_values_that_come_again_are_not_remarked():
    """Rows with the same number of days share all the same, and so do those of one category with filled gaps."""
    days = np.c_[X[:, :1], np.arange(30) % 5]
    model = gp(priors={"kernel.lengthscale": LogNormal(math.log(1e-5), 1e-3)}, max_iter=50).fit(days, Y)
    assert "1 length-scale is below 0.001 spreads: nothing is shared between rows with other values of 0." in remarks(model)


def test_a_constant_target_is_called_constant_and_nothing_else():
    remarks = gp(restarts=1).fit(X, np.full(30, 4.0)).diagnose().remarks
    assert remarks == ["The target has one value only: there is nothing to learn, and nothing is said about the fit."]


def test_one_of_a_kind_is_singular():
    model = gp(restarts=1, max_iter=2, kernel=SquaredExponential()).fit(X, Y)
    model.ensembles_[0].blocks[0].values["kernel"]["lengthscale"][0, 1] = 1e6
    text = " ".join(model.diagnose().remarks)
    assert "kernel.lengthscale: 1 input has no influence" in text
    assert "1 of 1 start stopped at the iteration limit" in text


def test_a_notebook_shows_what_a_fitted_model_looks_like():
    x = np.linspace(-1, 1, 20)[:, None]
    model = GPRegressor(restarts=1, max_iter=10)
    assert "All numbers of the diagnosis" not in model._repr_html_()
    model.fit(x, np.sin(x[:, 0]))
    remark = model.diagnose().remarks[0]
    for html in (model._repr_html_(), model._repr_mimebundle_()["text/html"], model.diagnose()._repr_html_()):
        assert escape(remark) in html
        assert "noise floor (units of the target)" in html
    assert "Members and their weights" not in model._repr_html_()  # one member has all of it


def test_a_notebook_shows_who_carries_the_weight():
    x = np.linspace(-1, 1, 20)[:, None]
    model = ManifoldGPRegressor(features=(2, 1), averaging=Restarts(restarts=3, max_iter=5)).fit(x, np.sign(x[:, 0]))
    model.starts_["group"], model.starts_["weight"] = ["<b>", "<b>", "other"], [0.25, 0.5, 0.25]
    html = model._repr_html_()
    assert "<td>&lt;b&gt;</td><td>2</td><td>75.0 %</td></tr><tr><td>other</td><td>1</td><td>25.0 %</td>" in html
    assert "<code>model.parameters()</code>" in html


def test_an_r2_near_one_is_told_from_one_in_tables_of_numbers():
    """The page's table said 1 where its sentences said 0.999996."""
    found = Diagnosis({"held-out R²": 0.999996, "output 1: held-out R²": 0.5})
    assert str(found).split() == ["held-out", "R²", "0.999996", "output", "1:", "held-out", "R²", "0.5"]
    assert "0.999996" in found._repr_html_()
    assert "0.999996" in numbers_table(found, SimpleNamespace(targets=[]))
    assert _in_words(0.999996, "held-out R²") == "0.999996"
