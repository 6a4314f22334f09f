"""Training with noisy inputs: exact inputs as a special case, slopes and gradients, fixed points, learned noise, units and names, files, updates, and what is refused."""

from __future__ import annotations

import itertools
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.preprocessing import PowerTransformer

import manifoldgp
from command_line import mgp
from manifoldgp import GPRegressor, KernelSearch, ManifoldGPRegressor, Restarts, Single, Sparse, Stack, data
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.estimators.noisy_inputs import MOST_ROUNDS, InputNoise, TargetEvidence, learned_variances

INPUT_STD, NOISE_STD = 0.3, 0.05


def rows(N=60, seed=0, input_std=INPUT_STD):
    """A sine whose inputs have errors."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-5, 5, N)
    y = np.sin(x) + NOISE_STD * rng.normal(size=N)
    return (x + input_std * rng.normal(size=N))[:, None], y


X, Y = rows()
X2 = np.column_stack([X, np.random.default_rng(5).uniform(0, 100, len(X))])
"""A second input, in other units."""
Y2 = Y + 0.02 * X2[:, 1]

TINY_STACK = Stack(
    deals=1,
    gp_starts=1,
    gp_iterations=15,
    warm_members=1,
    cold_members=1,
    own_members=1,
    fold_members=1,
    warm_iterations=2,
    steps=(2,),
    polish=2,
)

MODELS = {
    "plain": lambda **more: GPRegressor(restarts=2, max_iter=50, **more),
    "rough": lambda **more: GPRegressor("matern32", mean="linear", restarts=1, max_iter=30, **more),
    "network": lambda **more: ManifoldGPRegressor((3, 2), averaging=Single(restarts=2, max_iter=20), **more),
    "restarts": lambda **more: ManifoldGPRegressor((3, 1), averaging=Restarts(restarts=2, max_iter=15), **more),
    "fast": lambda **more: ManifoldGPRegressor(averaging="fast", **more),
    "stack": lambda **more: ManifoldGPRegressor((2, 1), averaging=TINY_STACK, **more),
    "sparse": lambda **more: GPRegressor(restarts=2, max_iter=40, method=Sparse(inducing=20), **more),
}


@cache
def known() -> GPRegressor:
    return MODELS["plain"]().fit(X2, Y2, input_std=[INPUT_STD, 0.0])


@cache
def learned() -> GPRegressor:
    return MODELS["plain"](input_noise="learned").fit(*rows(200))


@pytest.mark.parametrize("model", MODELS)
def test_without_input_noise_it_is_the_same_model(model):
    exact, zero = MODELS[model]().fit(X, Y), MODELS[model]().fit(X, Y, input_std=0.0)
    for one, other in zip(exact.predict(X, return_std=True), zero.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)
    assert zero.input_noise_.rounds == 1
    assert not hasattr(exact, "input_noise_")


@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_trained_with_the_noise_that_its_slopes_give(model):
    fitted = MODELS[model]().fit(X2, Y2, input_std=[INPUT_STD, 0.0])
    noise, block = fitted.input_noise_, fitted.ensembles_[0].blocks[0]
    assert 1 < noise.rounds <= MOST_ROUNDS
    assert 0 < noise.share[0] < 1
    slopes = fitted.predict_gradient(X2)[0][:, 0] / fitted.y_scaler_.scale
    taken = block.data.known_noise.numpy()
    assert (taken > 0).all()
    if noise.settled:  # then the noise that it was trained with is that of its own slopes
        assert len(taken) == len(X2)
        expected = (slopes * INPUT_STD) ** 2
        assert np.abs(taken - expected).mean() < 0.1 * (expected + float(block.noise_variance()[0])).mean()


def test_slopes_are_those_of_the_mean():
    for name in ("plain", "rough", "network", "restarts", "sparse"):
        fitted = MODELS[name]().fit(X2, Y2)
        ensemble, scale = fitted.ensembles_[0], fitted.x_scaler_.scale / fitted.y_scaler_.scale
        U = torch.as_tensor(fitted.x_scaler_.apply(X2[:7]))
        slopes, h = ensemble.slopes(U).numpy(), 1e-5
        np.testing.assert_allclose(slopes, fitted.predict_gradient(X2[:7])[0] * scale, rtol=1e-9, atol=1e-12)
        for d in range(2):
            step = h * torch.eye(2, dtype=torch.float64)[d]
            differences = (ensemble.mean(U + step) - ensemble.mean(U - step)) / (2 * h) / ensemble.scale
            np.testing.assert_allclose(slopes[:, d], differences, rtol=1e-5, atol=1e-6)


def test_the_evidence_that_input_noise_is_learned_from_has_the_right_gradient():
    fitted = known()
    ensemble = fitted.ensembles_[0]
    rows = ensemble.blocks[0].data
    evidence = TargetEvidence.of(ensemble, rows, ensemble.slopes(rows.X) ** 2)
    part = evidence.theta[evidence.free].clone().requires_grad_()
    variances = torch.tensor([0.01, 0.02], dtype=torch.float64, requires_grad=True)
    assert len(part) == 4  # two length-scales, variance and noise: a plain GP has no features to hold
    assert torch.autograd.gradcheck(evidence.value, (part, variances), nondet_tol=1e-9)


def test_features_stay_while_input_noise_is_learned():
    fitted = MODELS["network"]().fit(X, Y)
    ensemble = fitted.ensembles_[0]
    evidence = TargetEvidence.of(ensemble, ensemble.blocks[0].data, ensemble.slopes(ensemble.blocks[0].data.X) ** 2)
    layout = evidence.objective.layout
    held = sum(w.stop - w.start for name, w in layout.slices.items() if name.startswith("features."))
    assert held > 0
    assert len(evidence.free) == layout.size - held


def test_learned_input_noise_is_that_of_the_data():
    noise = learned().input_noise_
    assert noise.learned
    assert abs(noise.std[0] - INPUT_STD) < 0.1
    exact = MODELS["plain"](input_noise="learned").fit(*rows(200, input_std=0.0))
    assert exact.input_noise_.std[0] < 0.1


@pytest.mark.slow
def test_learned_input_noise_tells_columns_apart_and_is_shared_by_targets():
    rng = np.random.default_rng(1)
    x = rng.uniform(-3, 3, (120, 2))
    y = np.column_stack([np.sin(2 * x[:, 0]) + np.cos(2 * x[:, 1]), np.cos(2 * x[:, 0])]) + NOISE_STD * rng.normal(size=(120, 2))
    fitted = MODELS["plain"](input_noise="learned").fit(x + rng.normal(size=x.shape) * [0.0, 0.2], y)
    first, second = fitted.input_noise_.std
    assert first < 0.1
    assert abs(second - 0.2) < 0.1
    assert fitted.input_noise_.share.shape == (2,)


def test_columns_with_two_values_have_no_noise_to_learn():
    flags = np.column_stack([X, X[:, 0] > 0.3])
    fitted = MODELS["plain"](input_noise="learned").fit(flags, Y)
    assert fitted.input_noise_.std[1] == 0.0 < fitted.input_noise_.std[0]
    with pytest.raises(InputError, match="more than two values"):
        MODELS["plain"](input_noise="learned").fit(flags[:, 1:], Y)


def test_the_function_is_found_better_where_slopes_differ():
    def steep(x):
        return 0.2 * x**2 * np.tanh(np.cos(x))

    at, gain = np.linspace(-10, 10, 200), []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-10, 10, 60)
        y, noisy = steep(x) + NOISE_STD * rng.normal(size=60), (x + INPUT_STD * rng.normal(size=60))[:, None]
        density = []
        for std in (None, INPUT_STD):
            mean, sd = GPRegressor(restarts=3).fit(noisy, y, input_std=std).predict(at[:, None], return_std=True, latent=True)
            density.append(np.mean(-np.log(sd) - 0.5 * ((steep(at) - mean) / sd) ** 2))
        gain.append(density[1] - density[0])
    assert np.mean(gain) > 0.2


def test_other_units_change_nothing_but_the_units():
    units = np.array([1000.0, 0.01])
    scaled = MODELS["plain"]().fit(X2 * units, 50 * Y2 + 7, input_std=np.array([INPUT_STD, 0.0]) * units)
    np.testing.assert_allclose(scaled.predict(X2 * units), 50 * known().predict(X2) + 7, rtol=1e-3)
    np.testing.assert_allclose(scaled.input_noise_.std, [300.0, 0.0])
    one, other = (MODELS["plain"](input_noise="learned").fit(A, Y).input_noise_.std[0] for A in (X, 1000 * X))
    assert other == pytest.approx(1000 * one, rel=0.02)


def test_without_standardisation_it_is_in_the_same_units():
    fitted = MODELS["plain"](standardize=False).fit(X, Y, input_std=INPUT_STD)
    assert fitted.input_noise_.std[0] == pytest.approx(INPUT_STD)
    np.testing.assert_allclose(fitted.predict(X), MODELS["plain"]().fit(X, Y, input_std=INPUT_STD).predict(X), atol=0.1)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([INPUT_STD, 0.0], id="by column"),
        pytest.param(np.broadcast_to([INPUT_STD, 0.0], X2.shape), id="by row"),
        pytest.param({"a": INPUT_STD}, id="by name"),
        pytest.param({"a": np.full(len(X2), INPUT_STD), "b": 0.0}, id="by name and row"),
    ],
)
def test_all_forms_say_the_same(given):
    frame = pd.DataFrame(X2, columns=["a", "b"])
    np.testing.assert_array_equal(MODELS["plain"]().fit(frame, Y2, input_std=given).predict(frame), known().predict(X2))


def test_rows_that_are_left_out_take_their_input_noise_along():
    A, y, std = X.copy(), Y.copy(), np.linspace(0.1, 0.5, len(X))[:, None]
    A[3], y[7] = np.nan, np.nan
    kept = np.delete(np.arange(len(X)), [3, 7])
    with pytest.warns(UserWarning, match="left out"):
        fitted = MODELS["plain"](missing="drop").fit(A, y, input_std=std)
    expected = MODELS["plain"]().fit(X[kept], Y[kept], input_std=std[kept])
    np.testing.assert_allclose(fitted.predict(X[kept]), expected.predict(X[kept]), rtol=1e-6)
    assert fitted.input_noise_.std[0] == pytest.approx(np.sqrt(np.mean(std[kept] ** 2)))


def test_tables_with_text_say_it_by_name():
    frame = pd.DataFrame({"floor": np.where(np.arange(len(X)) % 2, "ice", "sand"), "x": X[:, 0]})
    fitted = MODELS["plain"]().fit(frame, Y, input_std={"x": INPUT_STD})
    assert dict(zip(fitted.feature_names_in_, fitted.input_noise_.std, strict=True)) == {
        "floor=ice": 0.0, "floor=sand": 0.0, "x": INPUT_STD
    }  # fmt: skip
    assert MODELS["plain"](input_noise="learned").fit(frame, Y).input_noise_.std[:2].tolist() == [0.0, 0.0]
    for given, words in (
        ({"floor": 0.1}, "no column of numbers"),
        ({"z": 0.1}, "no input. There are: floor, x"),
        (0.1, "by name"),
    ):
        with pytest.raises(InputError, match=words):
            MODELS["plain"]().fit(frame, Y, input_std=given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (-0.1, "not negative"),
        (np.nan, "finite"),
        ([0.1, 0.2, 0.3], r"one number or \(2,\) or \(60, 2\)"),
        (np.ones((59, 2)), r"got shape \(59, 2\)"),
        ("much", "must be numbers"),
        ({"x1": [0.1, 0.2]}, r"input_std\['x1'\] must be one number or \(60,\)"),
        ({"speed": 0.1}, "no input. There are: x0, x1"),
    ],
)
def test_input_std_that_makes_no_sense_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        MODELS["plain"]().fit(X2, Y2, input_std=given)


def test_what_does_not_go_together_is_refused(tmp_path):
    for model, given, words in (
        (MODELS["plain"](input_noise="learned"), 0.1, "Leave out one"),
        (MODELS["plain"](input_noise="known"), None, "None or 'learned'"),
        (MODELS["plain"](target_warping="tanh"), 0.1, "Leave out target_warping"),
        (GPRegressor(method=Sparse(checkpoint=str(tmp_path / "c"))), 0.1, "Leave out Sparse"),
        (ManifoldGPRegressor(PowerTransformer(), averaging="single"), 0.1, "need the slopes"),
    ):
        with pytest.raises(InputError, match=words):
            model.fit(X, Y, input_std=given)
    with pytest.raises(InputError, match="a source of rows cannot"):
        GPRegressor(method="sparse", input_noise="learned").fit(data.ArrayRows(X, Y))


def test_predictions_take_inputs_as_exact_unless_told_otherwise():
    model, at = learned(), np.array([[0.0], [np.pi / 2]])  # steep, and flat
    latent, observed = (model.predict(at, return_std=True, latent=latent)[1] for latent in (True, False))
    noise = next(row.value for row in model.parameters() if row.name == "noise.sd")
    np.testing.assert_allclose(observed**2 - latent**2, noise**2, rtol=1e-9)
    uncertain = model.predict(at, return_std=True, input_cov=np.diag(model.input_noise_.std**2))[1]
    added = np.sqrt(uncertain**2 - observed**2)
    assert added[0] == pytest.approx(abs(model.predict_gradient(at)[0][0, 0]) * model.input_noise_.std[0], rel=0.2)
    assert added[1] < 0.5 * added[0]


def test_updates_bring_the_noise_of_their_inputs():
    new, targets = rows(5, seed=3)
    slopes = learned().predict_gradient(new)[0][:, 0]
    for given in (None, 0.5):
        std = learned().input_noise_.std[0] if given is None else given
        one, other = (_copy(learned()) for _ in range(2))
        one.update(new, targets, input_std=given)
        other.update(new, targets, noise_std=np.abs(slopes) * std, input_std=0.0)
        np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-9)
    with pytest.raises(InputError, match="update\\(X, y, input_std=...\\), 0 where"):
        known().update(X2[:1], Y2[:1])
    late = _copy(MODELS["plain"]().fit(X, Y))
    assert late.update(new, targets, input_std=INPUT_STD).ensembles_[0].blocks[0].rows == len(X) + 5


def _copy(model):
    """The same fitted model, to be updated."""
    copy = clone(model)
    vars(copy).update(vars(model))
    return copy


def test_files_clones_and_predictors_know_it(tmp_path):
    model = learned()
    model.save(tmp_path / "m.mgp")
    loaded = manifoldgp.load(tmp_path / "m.mgp")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert vars(loaded.input_noise_).keys() == vars(model.input_noise_).keys()
    assert loaded.input_noise_.to_plain() == model.input_noise_.to_plain()
    assert loaded.get_params()["input_noise"] == "learned"
    assert clone(model).input_noise == "learned"
    assert not hasattr(clone(model), "input_noise_")
    for one, other in zip(model.predictor()(X, return_std=True), model.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    plain = model.input_noise_.to_plain()
    for forged in ({"std": [0.1, 0.2]}, {"std": [-1.0]}, {"share": []}, {"change": float("nan")}):
        with pytest.raises(FileFormatError):
            InputNoise.from_plain(plain | forged, 1, 1)


def test_it_is_told():
    diagnosis = learned().diagnose()
    std = learned().input_noise_.std[0]
    assert diagnosis.numbers["input noise, standard deviation of x0"] == std
    assert any(remark.startswith(f"Noisy inputs (learned): x0 ± {std:.3g}.") for remark in diagnosis.remarks)
    assert [(row.input, row.value) for row in learned().parameters() if row.name == "noise.input_sd"] == [("x0", std)]
    assert any("(given): x0 ± 0.3." in remark for remark in known().diagnose().remarks)


def test_a_later_fit_forgets_it():
    model = MODELS["plain"]().fit(X, Y, input_std=INPUT_STD)
    assert not hasattr(model.fit(X, Y), "input_noise_")


@pytest.mark.slow
def test_shared_features_and_chosen_kernels():
    both = np.stack([Y, np.cos(X[:, 0])], 1)
    shared = ManifoldGPRegressor((3, 2), averaging=Single(restarts=1, max_iter=20, shared_features=True), input_noise="learned")
    assert shared.fit(X, both).input_noise_.share.shape == (2,)
    chosen = GPRegressor("auto", restarts=1, max_iter=5).fit(X[:30], Y[:30], input_std=INPUT_STD)
    assert chosen.input_noise_.rounds > 1
    assert chosen.kernel_choice_.kernel
    searched = KernelSearch(depth=1, kernels=("se", "linear"), max_iter=15).fit(X[:30], Y[:30], input_std=INPUT_STD)
    assert searched.input_noise_.rounds > 1


def test_what_is_stopped_keeps_the_last_whole_round():
    rounds = []

    def stop_in_the_second(iterations, values):
        rounds.append(iterations.max())
        return sum(a > b for a, b in itertools.pairwise(rounds)) >= 1  # the count begins anew

    stopped = GPRegressor(restarts=1, max_iter=20, callback=stop_in_the_second).fit(X, Y, input_std=INPUT_STD)
    np.testing.assert_array_equal(stopped.predict(X), GPRegressor(restarts=1, max_iter=20).fit(X, Y).predict(X))
    assert stopped.input_noise_.rounds == 1
    assert not stopped.input_noise_.settled
    assert any("had not settled after 1 round" in remark for remark in stopped.diagnose().remarks)
    assert GPRegressor(time_budget=1e-6).fit(X, Y, input_std=INPUT_STD).input_noise_.rounds == 1


def test_scikit_learn_can_hand_input_std_on():
    with config_context(enable_metadata_routing=True):
        request = GPRegressor().set_fit_request(input_std=True).get_metadata_routing()
    assert request.fit.requests["input_std"] is True


def test_learning_all_columns_together_needs_no_start():
    fitted = known()
    ensemble = fitted.ensembles_[0]
    rows = [ensemble.blocks[0].data]
    plain = [type(rows[0])(rows[0].X, rows[0].y)]
    squares = [ensemble.slopes(rows[0].X) ** 2]
    noisy = np.array([True, True])
    first = learned_variances([ensemble], plain, squares, noisy, None)
    again = learned_variances([ensemble], plain, squares, noisy, first)
    np.testing.assert_allclose(again[0], first[0], rtol=0.05)


def test_the_command_line_takes_it_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a=b": X[:, 0], "y": Y}).to_csv("data.csv", index=False)
    fit = ("fit", "data.csv", "-t", "y", "-o", "m.mgp", "--averaging", "plain", "--restarts", "1")
    done = mgp(*fit, "--input-std", "a=b=0.3")
    assert "Noisy inputs (given): a=b ± 0.3" in done.err
    rounds = re.findall(r"round (\d) of up to 5, until slopes at noisy inputs settle: ", done.err)
    assert rounds == ["1", "2", "3", "4", "5"][: len(rounds)]  # each says how long it takes, and which one it is
    assert len(rounds) > 1
    assert manifoldgp.load("m.mgp").input_noise_.std[0] == INPUT_STD
    for wrong in ("0.3", "a=b", "=0.3"):
        assert "COLUMN=NUMBER" in mgp(*fit, "--input-std", wrong, code=2).err
