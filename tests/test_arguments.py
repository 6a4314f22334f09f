"""Arguments that cannot lie: in every combination each one changes what is trained, or is refused, or warned about, by name."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from manifoldgp import (
    NUTS,
    Exact,
    Fast,
    Forecaster,
    GaussianNoise,
    GPRegressor,
    Local,
    LogNormal,
    ManifoldGPRegressor,
    Restarts,
    Search,
    Single,
    Sparse,
    SquaredExponential,
    Stack,
)
from manifoldgp.averaging import AVERAGINGS
from manifoldgp.averaging.stacking import Follow
from manifoldgp.cli import _options as options
from manifoldgp.cli._fit_arguments import KERNELS, OBEYED_BY, PLAIN
from manifoldgp.dynamics import DynamicsModel, Trajectories
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.estimators.method import partly_obeyed, why_exact
from manifoldgp.kernels import Kernel, Matern32, NeuralNetwork
from manifoldgp.model import Model
from manifoldgp.registry import shorthands
from manifoldgp.training import coarse_to_fine
from manifoldgp.training.settings import METHODS, Options

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = 2.0 * (X[:, 0] > 0) + np.sin(2 * X[:, 1]) + 0.02 * RNG.normal(size=40)  # learned features help, and more training helps more
MANY = RNG.normal(size=(160, 1))
MANY_Y = np.sin(2 * MANY[:, 0]) + 0.1 * RNG.normal(size=160)

QUICK: dict[type[Options], Options] = {
    Stack: Stack(
        gp_starts=2, warm_members=2, cold_members=2, own_members=60, deals=1, steps=(5, 15, 40), warm_iterations=5, keep=-1.0
    ),  # keep: all groups are trained on all rows
    Fast: Fast(),
    Restarts: Restarts(restarts=2, max_iter=10),
    NUTS: NUTS(restarts=2, max_iter=10, chains=2, tune=8, draws=8, thin=2, depth=3),
    Single: Single(restarts=3, max_iter=10),
    Exact: Exact(),
    Local: Local(cell=5, near=12),
    Sparse: Sparse(inducing=8),
}
"""From where each argument is changed."""

OTHER: dict[tuple[type[Options], str], Any] = {
    (Stack, "gp_starts"): 3, (Stack, "warm_members"): 3, (Stack, "cold_members"): 1, (Stack, "own_members"): 21, (Stack, "deals"): 2, (Stack, "fold_members"): 1,
    (Stack, "hidden"): 3, (Stack, "q"): 1, (Stack, "gp_iterations"): 2, (Stack, "warm_iterations"): 2, (Stack, "steps"): (4,), (Stack, "polish"): 1,
    (Stack, "temperature"): 1000.0, (Stack, "variance_factors"): (1.0, 9.0), (Stack, "gp_prior"): 3.0, (Stack, "spread_prior"): 3.0, (Stack, "own_rows"): 5, (Stack, "learn_rows"): 12,
    (Stack, "keep"): 100.0, (Stack, "go_on"): 100.0, (Stack, "certainty"): 2.0, (Stack, "search"): Search(depth=1, beam=1, kernels=("linear",), max_iter=2),
    (Fast, "gp_starts"): 2, (Fast, "gp_iterations"): 2, (Fast, "warm_members"): 2, (Fast, "warm_iterations"): 2, (Fast, "cold_members"): 2,
    (Fast, "cold_iterations"): 2, (Fast, "hidden"): 3, (Fast, "q"): 1,
    (Restarts, "restarts"): 3, (Restarts, "max_iter"): 3, (Restarts, "temperature"): 1000.0,
    (NUTS, "restarts"): 3, (NUTS, "max_iter"): 3, (NUTS, "chains"): 3, (NUTS, "tune"): 9, (NUTS, "draws"): 10, (NUTS, "thin"): 4, (NUTS, "depth"): 1,
    (NUTS, "target_accept"): 0.95,
    (Single, "restarts"): 2, (Single, "optimizer"): "l-bfgs-b", (Single, "max_iter"): 3, (Single, "levels"): False, (Single, "shared_features"): True,
    (Single, "warm_start_from"): "a fitted estimator",
    (Local, "cell"): 10, (Local, "near"): 16,
    (Sparse, "inducing"): 5, (Sparse, "checkpoint"): "a file",
}  # fmt: skip
"""Another value of every argument."""

COMBINATIONS = [
    pytest.param(averaging, method, home, field.name, id=f"{averaging.__name__}-{method.__name__}-{home.__name__}.{field.name}")
    for averaging in AVERAGINGS.values()
    for method in METHODS.values()
    for home in (averaging, method)
    for field in fields(home)
]


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Members of a sparse stack begin with few iterations, so that many fits are quick."""
    monkeypatch.setattr("manifoldgp.averaging.sparse_training.FEW_ITERATIONS", 3)


def test_every_argument_has_another_value():
    assert set(OTHER) == {(way, field.name) for way in (*AVERAGINGS.values(), *METHODS.values()) for field in fields(way)}


def data_for(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows on which the argument can show: several targets to share features, and enough rows for levels."""
    if name == "levels":
        return MANY, MANY_Y
    return (X, np.stack([Y, X[:, 1] ** 2], 1)) if name == "shared_features" else (X, Y)


def trained(averaging: Options, method: Options, data: tuple[np.ndarray, np.ndarray]) -> dict[str, np.ndarray]:
    """What was trained, as arrays: the table of starts and the predictions."""
    features = {} if isinstance(averaging, Fast) else {"features": (3, 1)}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The NUTS chains mix badly")
        model = ManifoldGPRegressor(**features, averaging=averaging, method=method).fit(*data)  # type: ignore[arg-type]
    return {
        "starts": model.starts_,
        "mean": model.predict(data[0][:5]),
        "density": model.log_predictive_density(data[0][:5], data[1][:5]),
    }


@pytest.mark.parametrize(("averaging", "method", "home", "name"), COMBINATIONS)
def test_no_argument_is_passed_over_in_silence(averaging, method, home, name, tmp_path, monkeypatch):
    if averaging is NUTS and method is Exact:
        pytest.importorskip("nutpie", reason="needs the extra [bayes]")
    value = OTHER[home, name]
    if name == "warm_start_from":
        value = ManifoldGPRegressor((3, 1), averaging=Single(restarts=1, max_iter=50, levels=False), random_state=5).fit(X, Y)
    if name == "checkpoint":
        value = tmp_path / "nowhere" / "checkpoint"  # a place that cannot be written, which a fit that obeys must say
    ways = {way: start(way, method) for way in (averaging, method)}
    if name == "levels":  # as if these were many rows
        monkeypatch.setattr(coarse_to_fine, "LEAST_ROWS", len(MANY))
        monkeypatch.setattr(coarse_to_fine, "FIRST_ROWS", 40)
    if name == "certainty":  # as if held-out rows were clearly likelier by it
        monkeypatch.setattr(Follow, "as_before", lambda power, *_: Follow(power, 0.5, 0.0) if power else None)
    ways[home] = clone(ways[home]).set_params(**{name: value})
    data = data_for(name)
    try:
        after = trained(ways[averaging], ways[method], data)
    except (InputError, OSError) as error:
        said = str(error)
        assert (
            name in said
            or f"averaging='{averaging.shorthand()}' needs method='exact'" in said
            or (name == "checkpoint" and "nowhere" in said)
        )
        return
    assert name != "checkpoint"
    kind = name if name in ("levels", "shared_features", "certainty") else "any"
    unchanged = before_of(averaging, method, kind)
    assert any(not np.array_equal(after[part], unchanged[part]) for part in after), f"{name} changed nothing"


def start(way: type[Options], method: type[Options]) -> Options:
    """Where changes begin. A sparse stack begins with what its members obey."""
    if way is Stack and method is Sparse:
        return Stack(warm_members=1, cold_members=2, own_members=1, steps=(2, 4, 12), warm_iterations=3, keep=-1.0, go_on=-100.0)
    return QUICK[way]


@cache
def before_of(averaging: type[Options], method: type[Options], kind: str) -> dict[str, np.ndarray]:
    return trained(start(averaging, method), start(method, method), data_for(kind))


@pytest.mark.parametrize("arguments", [{"features": (3, 1)}, {"priors": {"kernel.lengthscale": LogNormal()}}])
def test_a_fast_average_refuses_what_none_of_its_members_has(arguments):
    (name,) = arguments
    with pytest.raises(InputError, match=f"averaging='fast' has .* would pass over {name}="):
        ManifoldGPRegressor(averaging="fast", **arguments).fit(X, Y)


@pytest.mark.parametrize(
    ("method", "groups"),
    [
        ("exact", "'plain GP', 'rough GP', 'additive GP', 'warm', 'cold', 'large' and 'rough'"),
        ("sparse", "'plain GP', 'rough GP', 'warm', 'cold', 'large', 'deep' and 'rough'"),
    ],
)
def test_a_stack_says_which_groups_have_no_priors_of_yours(method, groups):
    priors = {"kernel.lengthscale": LogNormal()}
    model = ManifoldGPRegressor(
        priors=priors, averaging=QUICK[Stack] if method == "exact" else start(Stack, Sparse), method=QUICK_METHOD[method]
    )
    with pytest.warns(FitWarning, match=f"priors apply .*group 'own'.* only, not to the groups {groups}\\."):
        model.fit(X, Y)


@pytest.mark.parametrize("kernel", [SquaredExponential(), SquaredExponential(dims=(0,)), Matern32(), NeuralNetwork()], ids=repr)
@pytest.mark.parametrize(
    ("averaging", "method"), [(Stack(), Exact()), (Stack(), Sparse()), (Fast(), Exact()), (Single(), Exact())]
)
def test_what_is_said_to_be_obeyed_in_part_follows_from_the_models_of_the_groups(kernel, averaging, method):
    model = Model(kernel=kernel, priors={"kernel.lengthscale": LogNormal()})
    groups = averaging.models(model, 3, method)
    words = " ".join(partly_obeyed(model, averaging, method, 3))
    for name, its in groups.items():
        obeyed = dict(its.priors) == dict(model.priors) and its.kernel == kernel
        assert obeyed or f"'{name}'" in words
    assert isinstance(averaging, Single) == (words == "")


QUICK_METHOD = {"exact": "exact", "sparse": QUICK[Sparse]}


@pytest.mark.parametrize("averaging", [QUICK[Stack], Fast()], ids=["stack", "fast"])
def test_averages_say_where_a_kernel_is_replaced(averaging):
    with pytest.warns(
        FitWarning,
        match="kernel=NeuralNetwork has no length-scales that the networks of the groups 'warm'.* could take over",
    ):
        ManifoldGPRegressor(kernel="nn", averaging=averaging).fit(X, Y)
    with pytest.warns(FitWarning, match=r"dims=\(0,\) of kernel=SquaredExponential"):
        ManifoldGPRegressor(kernel=SquaredExponential(dims=(0,)), averaging=averaging).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "name", "which"),
    [({"ordered": True}, "ordered", "later rows"), ({"groups": np.arange(40) // 4}, "groups", "rows of new groups")],
)
@pytest.mark.parametrize(
    ("estimator", "way", "instead"),
    [
        (ManifoldGPRegressor((3, 1), averaging=QUICK[Single]), "averaging='single'", "averaging='stack'"),
        (ManifoldGPRegressor(averaging=Fast()), "averaging='fast'", "averaging='stack'"),
        (GPRegressor(restarts=1, max_iter=5), "a plain GP", "kernel='auto'"),
    ],
    ids=["single", "fast", "plain"],
)
def test_a_fit_that_holds_out_no_rows_says_what_is_not_known_then(options, name, which, estimator, way, instead):
    """Of a plain GP it was said that averaging='single' holds out none, an argument that it has not."""
    told = f"{name} of fit says which rows are held out together, and {way} holds out none: nothing tells how large errors on {which} are. {instead} does."
    with pytest.warns(FitWarning, match=re.escape(told)):
        estimator.fit(X, Y, **options)


@pytest.mark.parametrize("method", ["exact", QUICK[Sparse]], ids=["exact", "sparse"])
def test_groups_and_ordered_together_are_refused(method):
    with pytest.raises(InputError, match="groups and ordered are two ways to hold rows out"):
        ManifoldGPRegressor(averaging="stack", method=method).fit(X, Y, groups=np.arange(40) // 4, ordered=True)


def test_a_sparse_stack_says_whose_features_dims_choose():
    with pytest.warns(
        FitWarning,
        match=r"dims=\(0,\) of kernel=SquaredExponential .*'plain GP', 'rough GP', 'warm', 'cold', 'large', 'deep' and 'rough' have others",
    ):
        ManifoldGPRegressor((3, 2), SquaredExponential(dims=(0,)), averaging=start(Stack, Sparse), method=QUICK[Sparse]).fit(X, Y)


def test_dims_beyond_the_inputs_choose_features():
    with pytest.warns(FitWarning, match=r"dims=\(4,\)"):
        ManifoldGPRegressor((3, 5), SquaredExponential(dims=(4,)), averaging=QUICK[Stack]).fit(X, Y)


@dataclass(repr=False)
class Mine(Single):
    """An average of a user's own, with a setting that its sparse members do not obey."""

    size: int = 3
    sparse_obeys = ()


def test_a_new_average_says_what_its_sparse_members_do_not_obey():
    assert (
        why_exact(Mine(size=4))
        == "size=4 needs method='exact': a sparse single model obeys restarts, max_iter and warm_start_from alone."
    )


def test_every_average_is_known_to_the_command_line_and_has_a_sentence_for_pages():
    assert [str(a) for a in options.Averaging] == [*AVERAGINGS, PLAIN]
    assert all(average.in_words.endswith(".") for average in AVERAGINGS.values())


def test_what_the_command_line_knows_without_pytorch_is_what_there_is():
    ours = [name for name, kernel in shorthands(Kernel).items() if kernel.__module__.startswith("manifoldgp.")]
    assert sorted(KERNELS) == sorted([*ours, "auto"])
    obeyed = {name: {field.name for field in fields(way)} for name, way in {**AVERAGINGS, **METHODS}.items()}
    obeyed[PLAIN] = set(GPRegressor().get_params())
    for argument, ways in OBEYED_BY.items():
        assert set(ways) == {way for way, arguments in obeyed.items() if argument in arguments}


def test_refused_parameters_change_nothing():
    model = ManifoldGPRegressor()
    with pytest.raises(ValueError, match="Invalid parameter 'nope'"):
        model.set_params(averaging__nope=1)
    assert model.averaging == "stack"
    with pytest.raises(InputError, match="Unknown averaging 'stak'"):
        ManifoldGPRegressor(averaging="stak").set_params(averaging__hidden=3)


def test_a_sparse_plain_gp_refuses_what_needs_all_rows():
    with pytest.raises(InputError, match="levels=False needs method='exact'"):
        GPRegressor(levels=False, method="sparse").fit(X, Y)


def test_nested_parameters_of_objects_and_of_shorthands():
    model = ManifoldGPRegressor()
    assert model.get_params()["averaging__own_members"] == 20
    model.set_params(averaging__warm_members=12)
    assert model.averaging == Stack(warm_members=12)
    model.set_params(averaging="single", averaging__restarts=3, method="sparse", method__inducing=9)
    assert (model.averaging, model.method) == (Single(restarts=3), Sparse(inducing=9))
    with pytest.raises(InputError, match="method='auto' has no settings of its own"):
        ManifoldGPRegressor().set_params(method__inducing=9)
    with pytest.raises(ValueError, match="Invalid parameter 'warmth'"):
        ManifoldGPRegressor().set_params(averaging__warmth=1)
    assert clone(model).averaging == model.averaging
    assert clone(model).averaging is not model.averaging
    assert repr(model) == "ManifoldGPRegressor(averaging=Single(restarts=3), method=Sparse(inducing=9))"


def test_a_grid_over_nested_parameters():
    search = GridSearchCV(
        ManifoldGPRegressor((3, 1), averaging="restarts"), {"averaging__restarts": [1, 2], "averaging__max_iter": [3]}, cv=2
    )
    search.fit(X, Y)
    assert [p["averaging__restarts"] for p in search.cv_results_["params"]] == [1, 2]
    assert len(search.best_estimator_.starts_) == search.best_params_["averaging__restarts"]


def test_a_clone_of_a_single_model_keeps_the_fitted_estimator_to_start_from():
    first = GPRegressor(restarts=1, max_iter=5).fit(X, Y)
    copy = clone(ManifoldGPRegressor(averaging=Single(warm_start_from=first)))
    assert copy.averaging.warm_start_from is first


@pytest.mark.parametrize("way", [*AVERAGINGS.values(), *METHODS.values()])
def test_fit_leaves_the_settings_as_they_are(way):
    settings = QUICK[way]
    if way is NUTS:
        pytest.importorskip("nutpie", reason="needs the extra [bayes]")
    as_given = settings.get_params()
    other = QUICK[Stack] if way is Local else "single"
    argument = {"averaging": settings} if way in AVERAGINGS.values() else {"averaging": other, "method": settings}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The NUTS chains mix badly")
        ManifoldGPRegressor(**argument).fit(X, Y)
    assert settings.get_params() == as_given


@pytest.mark.parametrize(
    ("standardize", "of_X", "of_y"), [(True, True, True), (False, False, False), ("X", True, False), ("y", False, True)]
)
def test_what_is_standardized(standardize, of_X, of_y):
    model = GPRegressor(standardize=standardize, restarts=1, max_iter=3).fit(5 * X + 1, 3 * Y)
    assert bool((model.x_scaler_.scale != 1).all()) == of_X
    assert bool((model.y_scaler_.scale != 1).all()) == of_y


def test_a_noise_floor_of_its_own():
    model = GPRegressor(noise=GaussianNoise(floor=0.5), restarts=1).fit(X, Y)
    assert model.ensembles_[0].blocks[0].noise_variance().min() >= 0.25
    for floor in (0, -1.0, np.nan, "low"):
        with pytest.raises(InputError, match="The noise floor must be a positive number"):
            GaussianNoise(floor=floor)


STEP = GPRegressor(restarts=1, max_iter=8)
DRIVEN = np.stack([np.sin(0.3 * np.arange(30)), 0.3 * np.cos(0.3 * np.arange(30)), np.arange(30) % 2], 1)
DYNAMICS = {"regressor": GPRegressor(restarts=1, max_iter=2), "angles": ["x0"], "flags": ["x2"], "rates": {"x0": "x1"}}
"""Another value of every argument of DynamicsModel."""

FORECASTS = {
    "regressor": GPRegressor(restarts=1, max_iter=2), "lags": 3, "period": 6.0, "difference": False, "random_state": 1
}  # fmt: skip
"""Another value of every argument of Forecaster."""


def test_every_argument_of_dynamics_and_forecasts_has_another_value():
    assert set(DYNAMICS) == set(DynamicsModel().get_params(deep=False))
    assert {*FORECASTS, "callback"} == set(Forecaster().get_params(deep=False))  # which test_forecaster.py tries


@cache
def ahead(name: str | None) -> np.ndarray:
    """A rollout, with one argument changed."""
    model = DynamicsModel(STEP) if name is None else DynamicsModel(STEP).set_params(**{name: DYNAMICS[name]})
    return model.fit(Trajectories.from_arrays(DRIVEN)).rollout(DRIVEN[0], horizon=3, method="moments").mean


@pytest.mark.parametrize("name", DYNAMICS)
def test_every_argument_of_a_dynamics_model_changes_its_rollouts(name):
    assert not np.array_equal(ahead(name), ahead(None))


@cache
def forecast(name: str | None) -> np.ndarray:
    """A forecast by draws, with one argument changed."""
    model = Forecaster(STEP, lags=2)
    return (model if name is None else model.set_params(**{name: FORECASTS[name]})).fit(DRIVEN[:, 0]).forecast(3, draws=5).mean


@pytest.mark.parametrize("name", FORECASTS)
def test_every_argument_of_a_forecaster_changes_its_forecasts(name):
    assert not np.array_equal(forecast(name), forecast(None))
