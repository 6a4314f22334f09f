"""What every part must do, ours and a user's: it trains, its gradient is a slope, its program is the model, ONNX is its program, files hold it."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from torch import nn

import manifoldgp
import own_parts
from drawn_estimators import D, drawn_estimator, make_inputs, rounding
from manifoldgp import GPRegressor, ManifoldGPRegressor, Restarts, Single, features, kernels, means, register
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.estimators.descriptions import describe, rebuild
from manifoldgp.features import MLP, Features, Identity, as_features
from manifoldgp.kernels import Kernel, SquaredExponential
from manifoldgp.means import Mean, Zero, as_mean
from manifoldgp.model import Data, Model
from manifoldgp.parameters import first_of
from manifoldgp.predictor.operations import OPERATIONS
from manifoldgp.registry import name_of, part_named, registered, shorthands
from manifoldgp.training.objective import TrainingObjective
from short_fits import manifold


def _network(*sizes: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(sizes[0], 3), nn.Tanh(), nn.Linear(3, sizes[1]))


PARTS = {
    "kernels.Additive": kernels.Additive("matern32", orders=2),
    "kernels.ChangePoint": kernels.ChangePoint(SquaredExponential(), kernels.Linear(), on=1),
    "kernels.Constant": kernels.Constant() + SquaredExponential(),
    "kernels.Linear": kernels.Linear(),
    "kernels.Matern12": kernels.Matern12(),
    "kernels.Matern32": kernels.Matern32(),
    "kernels.Matern52": kernels.Matern52(dims=(1, 0)),
    "kernels.NeuralNetwork": kernels.NeuralNetwork(),
    "kernels.OrthogonalAdditive": kernels.OrthogonalAdditive(orders=2),
    "kernels.Periodic": kernels.Periodic(),
    "kernels.Product": kernels.Matern52() * kernels.Linear(),
    "kernels.RationalQuadratic": kernels.RationalQuadratic(),
    "kernels.SpectralMixture": kernels.SpectralMixture(2),
    "kernels.SquaredExponential": SquaredExponential(),
    "kernels.Sum": SquaredExponential(dims=(0,)) + kernels.Linear(),
    "kernels.Switch": SquaredExponential() * kernels.Switch(dims=(1,)),
    "features.AutoEncoder": features.AutoEncoder((3, 2), steps=20),
    "features.Chain": features.PCA(2) >> MLP((2,)),
    "features.Circle": features.Circle((1,)),
    "features.Concatenate": features.Concatenate(features.Identity(), MLP((2,))),
    "features.FixedLinear": features.FixedLinear(np.arange(2.0 * D).reshape(D, 2) - 2.0),
    "features.Guided": MLP((4, 2)).guided(0.5),
    "features.Identity": features.Identity(),
    "features.Kumaraswamy": features.Kumaraswamy(),
    "features.Linear": features.Linear(2, bias=True),
    "features.MLP": MLP((4, 2)),
    "features.Module": features.Module(_network(D, 2)),
    "features.Nested": features.Nested(3, 1),
    "features.PCA": features.PCA(2),
    "features.Pretrained": MLP((4, 2)).pretrained(steps=20),
    "features.RandomEmbedding": features.RandomEmbedding(2),
    "features.Residual": features.Residual(MLP((D,), "tanh")),
    "means.Constant": means.Constant(),
    "means.Linear": means.Linear(on="features"),
    "means.Module": means.Module(_network(D, 1)),
    "means.Zero": means.Zero(),
    "own_parts.Wiggle": own_parts.Wiggle(),
    "own_parts.Bumps": own_parts.Bumps(3),
    "own_parts.Bowl": own_parts.Bowl(),
}
"""An example of every registered part; own_parts are a user's."""

every_part = pytest.mark.parametrize("name", PARTS)
X = make_inputs(30)
Y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
NEW = make_inputs(6, seed=1)


def model_with(part) -> Model:
    kind = next(name for name, family in (("kernel", Kernel), ("features", Features), ("mean", Mean)) if isinstance(part, family))
    usual = Model(features=MLP((3, 2)), kernel=SquaredExponential())
    return replace(usual, **{kind: part})


def modules_of(part):
    return [part.module] if hasattr(part, "module") else []


def test_every_registered_part_is_here():
    here = {name for family in (Kernel, Features, Mean) for name in registered(family) if name.split(".")[0] in PARTS_OF}
    assert here == set(PARTS)


PARTS_OF = {"kernels", "features", "means", "own_parts"}


@every_part
def test_the_name_belongs_to_a_part_of_its_class(name):
    part = part_named(name)
    assert part is not None
    assert name_of(part) == name
    assert any(type(candidate) is part for candidate in (PARTS[name], *getattr(PARTS[name], "parts", ())))


@every_part
def test_training_has_the_slope_of_the_objective(name):
    # noise of a third of sd(y): the covariance is well conditioned, and differences have digits
    data = Data(torch.from_numpy((X - X.mean(0)) / X.std(0)), torch.from_numpy((Y - Y.mean()) / Y.std()))
    model = model_with(PARTS[name]).bind(data.X)
    layout, drawn = model.draw(data, torch.Generator().manual_seed(0), 2)
    theta = layout.flatten(drawn).numpy()
    theta[:, layout.slices["noise.scale"]] = np.log(0.3)
    objective = TrainingObjective(model, layout, first_of(layout.constants(drawn)), data)
    row = np.array([0])
    gradient = objective(theta[:1], row)[1][0]
    slope = approx_fprime(theta[0], lambda point: objective(point[None], row)[0][0], 1e-6)
    np.testing.assert_allclose(gradient, slope, rtol=1e-3, atol=1e-4 * max(1.0, np.abs(slope).max()))
    np.testing.assert_allclose(
        gradient, objective.differentiate(theta[:1], row)[1][0], rtol=1e-6, atol=1e-8 * np.abs(slope).max()
    )


@every_part
@pytest.mark.parametrize("members", [1, 3])
def test_the_program_is_the_model_and_onnx_is_the_program(name, members, tmp_path):
    estimator = drawn_estimator([(model_with(PARTS[name]), members)])
    p = estimator.predictor()
    mean_atol, variance_atol = rounding(estimator, NEW)
    mean, std = estimator.predict(NEW, return_std=True)
    for rows in (slice(None), slice(0, 1)):
        found = p(NEW[rows], return_std=True)
        np.testing.assert_allclose(found[0], mean[rows], rtol=1e-10, atol=mean_atol)
        np.testing.assert_allclose(found[1] ** 2, std[rows] ** 2, rtol=1e-10, atol=variance_atol)
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from manifoldgp.predictor.onnx import export_onnx

    export_onnx(p, tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    in_onnx = session.run(["mean", "std"], {"X": NEW})
    np.testing.assert_allclose(in_onnx[0], mean, rtol=1e-9, atol=10 * mean_atol)
    np.testing.assert_allclose(in_onnx[1] ** 2, std**2, rtol=1e-9, atol=10 * variance_atol)


@every_part
def test_trains_and_comes_back_from_a_file_bit_by_bit(name, tmp_path):
    part = PARTS[name]
    model = model_with(part)
    estimator = manifold(model.features, kernel=model.kernel, mean=model.mean, restarts=2, max_iter=8).fit(X, Y)
    assert estimator.starts_["nlml"].min() <= min(history[0] for history in estimator.histories_)
    estimator.save(tmp_path / "model.mgp")
    loaded = manifoldgp.load(tmp_path / "model.mgp", modules=modules_of(part))
    for before, after in zip(estimator.predict(NEW, return_std=True), loaded.predict(NEW, return_std=True), strict=True):
        np.testing.assert_array_equal(after, before)


@every_part
def test_descriptions_are_plain_and_equal_after_pickling(name):
    part = PARTS[name]
    assert pickle.loads(pickle.dumps(part)) == part
    if not modules_of(part):
        assert rebuild(json.loads(json.dumps(describe(part))), {}) == part


# ------------------------------------------------------------------------------------------------------- a user's own


def test_own_parts_work_everywhere_together(tmp_path):
    kernel = own_parts.Wiggle(tilt=0.25) * kernels.Matern32() + SquaredExponential(dims=(0,))
    feature_map = features.Concatenate(own_parts.Bumps(2), features.PCA(1)) >> MLP((2,), "tanh")
    model = ManifoldGPRegressor(feature_map, kernel=kernel, mean="bowl", averaging=Restarts(2, max_iter=5)).fit(X, Y)
    model.save(tmp_path / "model.mgp")
    loaded = manifoldgp.load(tmp_path / "model.mgp")
    assert (loaded.kernel, loaded.features, loaded.mean) == (kernel, feature_map, "bowl")
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    np.testing.assert_allclose(model.predictor()(NEW), model.predict(NEW), rtol=1e-6)


def test_a_shorthand_of_ones_own():
    assert shorthands(Kernel)["wiggle"] is own_parts.Wiggle
    assert kernels.as_kernel("wiggle") == own_parts.Wiggle()
    assert means.as_mean("bowl") == own_parts.Bowl()
    assert GPRegressor("wiggle", restarts=1, max_iter=2).fit(X, Y).predict(NEW).shape == (6,)


def run(code: str, folder: Path) -> subprocess.CompletedProcess:
    sources = [str(Path(manifoldgp.__file__).parents[1]), str(Path(__file__).parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sources)}
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)


def test_whoever_loads_brings_the_classes(tmp_path):
    model = ManifoldGPRegressor(own_parts.Bumps(2), kernel="wiggle", averaging=Single(1, max_iter=2)).fit(X, Y)
    model.save(tmp_path / "model.mgp")
    model.predictor().save(tmp_path / "model.npz")
    np.save(tmp_path / "X.npy", NEW)
    ask = "import numpy as np, sys; np.save('y.npy', {}(np.load('X.npy')))"
    without_and_with = f"""
import manifoldgp
try:
    manifoldgp.load("model.mgp")
except manifoldgp.errors.FileFormatError as error:
    print(error)
import own_parts
{ask.format("manifoldgp.load('model.mgp').predict")}
"""
    found = run(without_and_with, tmp_path)
    assert found.returncode == 0, found.stderr
    assert "import or define it before loading, with @manifoldgp.register('own_parts." in found.stdout
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model.predict(NEW))
    # a predictor consists of the package's own operations: nobody needs the classes
    bare = ask.format("manifoldgp.Predictor.load('model.npz')") + "; assert 'torch' not in sys.modules"
    found = run("import manifoldgp; " + bare, tmp_path)
    assert found.returncode == 0, found.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model.predictor()(NEW))


def test_loading_imports_nothing_that_a_file_names(tmp_path):
    (tmp_path / "harm.py").write_text("raise SystemExit('imported')")
    code = """
from manifoldgp.errors import FileFormatError
from manifoldgp.estimators.descriptions import rebuild
for name in ("harm.Thing", "os.system", "builtins.exec", "", None, 3):
    try:
        rebuild({"class": name, "fields": {}}, {})
    except FileFormatError as error:
        assert "unknown part" in str(error)
    else:
        raise SystemExit(f"{name} was built")
"""
    assert run(code, tmp_path).returncode == 0


# ------------------------------------------------------------------------------------------------------- what is missing


class TestRefusals:
    def test_a_part_that_is_not_registered_says_how(self, tmp_path):
        @dataclass(frozen=True)
        class Mine(own_parts.Bumps):
            pass

        model = ManifoldGPRegressor(Mine(), averaging=Single(1, max_iter=1)).fit(X, Y)
        with pytest.raises(InputError, match=r"Write @manifoldgp.register\('yourproject.Mine'\) above the @dataclass"):
            model.save(tmp_path / "model.mgp")
        assert not list(tmp_path.iterdir())
        assert np.isfinite(model.predictor()(NEW)).all()  # the program is inherited: nothing that it was written for has changed

    @pytest.mark.parametrize("name", ["", "  ", None, 3])
    def test_names_are_text(self, name):
        with pytest.raises(InputError, match="expects a name for files"):
            register(name)

    def test_a_name_or_shorthand_that_is_taken(self):
        @dataclass(frozen=True)
        class Mine(SquaredExponential):
            pass

        with pytest.raises(InputError, match=r"'kernels.Matern32' belongs to manifoldgp.kernels.stationary.Matern32 already"):
            register("kernels.Matern32")(Mine)
        with pytest.raises(InputError, match=r"shorthand 'matern32' belongs to manifoldgp.kernels.stationary.Matern32 already"):
            register("tests.Mine", shorthand="matern32")(Mine)
        assert part_named("tests.Mine") is None
        assert part_named("kernels.Matern32") is kernels.Matern32

    def test_a_cell_that_runs_twice_registers_again(self):
        def cell():
            @register("tests.Twice", shorthand="twice")
            @dataclass(frozen=True)
            class Twice(SquaredExponential):
                pass

            return Twice

        cell()
        second = cell()
        assert part_named("tests.Twice") is second
        assert kernels.as_kernel("twice") == second()

    def test_what_is_no_frozen_dataclass(self):
        class Plain(SquaredExponential):
            pass

        @dataclass
        class Loose(Mean):
            pass

        with pytest.raises(InputError, match="Write @register.* above @dataclass"):
            register("tests.Plain")(Plain)
        with pytest.raises(InputError, match="must be a frozen dataclass"):
            register("tests.Loose")(Loose)

    def test_parts_without_a_program(self):
        class Silent(kernels.Kernel):
            def _parameters(self, H):
                return SquaredExponential()._parameters(H)

            def _cross(self, values, H1, H2):
                return SquaredExponential()._cross(values, H1, H2)

            def _matrix(self, values, H):
                return SquaredExponential()._matrix(values, H)

            def _diagonal(self, values, H):
                return SquaredExponential()._diagonal(values, H)

        class Doubled(Features):
            def parameters(self, X):
                return {}

            def __call__(self, values, X):
                return 2 * X

        class Flat(Mean):
            def parameters(self, points):
                return {}

            def __call__(self, values, points):
                return points.new_ones(points.shape[:-1])

        for part, method in ((Silent(), "values, H, new"), (Doubled(), "values, X"), (Flat(), "values, points")):
            estimator = drawn_estimator([(model_with(part), 1)])
            assert np.isfinite(estimator.predict(NEW)).all()
            with pytest.raises(
                InputError, match=rf"cannot express .* no program. Write {type(part).__name__}._program\({method}\)"
            ):
                estimator.predictor()

    def test_a_program_that_was_written_for_other_numbers(self):
        class Steeper(SquaredExponential):
            def _cross(self, values, H1, H2):
                return super()._cross(values, H1, H2) ** 2

            def _matrix(self, values, H):
                return super()._matrix(values, H) ** 2

        class Shifted(MLP):
            def __call__(self, values, X):
                return super().__call__(values, X) + 1.0

        class Twice(means.Linear):
            def __call__(self, values, points):
                return 2 * super().__call__(values, points)

        for part, stale in ((Steeper(), "_cross"), (Shifted((2,)), "__call__"), (Twice(), "__call__")):
            estimator = drawn_estimator([(model_with(part), 1)])
            with pytest.raises(InputError, match=f"{type(part).__name__} has a {stale} of its own and inherits the program"):
                estimator.predictor()
        assert Steeper().radial_profile() is None
        assert SquaredExponential().radial_profile() is not None

    def test_a_closed_form_that_was_written_for_other_features(self):
        class Shifted(MLP):
            def __call__(self, values, X):
                return 2.0 * super().__call__(values, X)

        data = Data(torch.from_numpy((X - X.mean(0)) / X.std(0)), torch.from_numpy(Y))
        for part, has in ((MLP((2,)), True), (Shifted((2,)), False)):
            layout = model_with(part).draw(data, torch.Generator().manual_seed(0), 1)[0]
            assert (part.closed_form(layout, "features") is not None) == has

    def test_an_operation_that_does_not_exist(self):
        @dataclass(frozen=True)
        class Wrong(own_parts.Bumps):
            def _program(self, values, X):
                return X.through("exponent")

        with pytest.raises(InputError, match="no operation 'exponent'. There are: .*exponential"):
            drawn_estimator([(model_with(Wrong()), 1)]).predictor()


# ------------------------------------------------------------------------------------------------------- operations


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_every_backend_and_says_what_it_does(name):
    import manifoldgp.predictor.c_source  # it brings the loops of every operation  # noqa: F401

    operation = OPERATIONS[name]
    assert operation.name == name
    assert "onnx" in operation.forms
    assert {"loops", "view"} & set(operation.forms)  # C and JavaScript
    assert operation.__doc__


def test_descriptions_hold_what_files_can_hold():
    for name, part in registered().items():
        assert vars(part)["__dataclass_params__"].frozen, name
        assert all(field.init for field in fields(part)), name


@register("test_parts.Shift", shorthand="shift")
@dataclass(frozen=True)
class Shift(Features):
    """H = X + shift, by a number, a dict or a torch module."""

    by: Any = 1.0

    def parameters(self, X):
        return {}

    def __call__(self, values, X):
        if isinstance(self.by, torch.nn.Module):
            return self.by(X)
        return X + (self.by.get(1, 0.0) if isinstance(self.by, dict) else self.by)


def _fitted_shift(by):
    X = np.random.default_rng(0).normal(size=(20, 2))
    return ManifoldGPRegressor(Shift(by), averaging=Single(restarts=1, max_iter=5)).fit(X, np.sin(X[:, 0]))


def test_a_shorthand_of_features_stands_for_them():
    assert as_features("shift") == Shift()


@pytest.mark.parametrize(("by", "words"), [({1: 2.0}, "the keys of a dict must be text"), (np.array([1j]), "cannot be written")])
def test_fields_that_would_come_back_as_something_else_are_refused(by, words):
    with pytest.raises(InputError, match=words):
        describe(Shift(by))


def test_a_dict_with_numbers_for_keys_is_refused_when_the_model_is_saved(tmp_path):
    with pytest.raises(InputError, match="the keys of a dict must be text"):
        _fitted_shift({1: 2.0}).save(tmp_path / "model.mgp")


def test_a_module_with_other_weights_than_those_of_the_fit_is_refused(tmp_path):
    network = torch.nn.Linear(2, 2).double()
    model = _fitted_shift(network)
    model.save(tmp_path / "model.mgp")
    X = np.zeros((1, 2))
    assert manifoldgp.load(tmp_path / "model.mgp", modules=[network]).predict(X) == model.predict(X)
    with pytest.raises(FileFormatError, match="gives other numbers here than where the model was fitted"):
        manifoldgp.load(tmp_path / "model.mgp", modules=[torch.nn.Linear(2, 2).double()])


def test_a_class_that_was_defined_again_says_so(tmp_path):
    def cell():
        @register("test_parts.Cell")
        @dataclass(frozen=True)
        class Cell(Identity):
            pass

        return Cell()

    X = np.random.default_rng(0).normal(size=(20, 2))
    model = ManifoldGPRegressor(cell(), averaging=Single(restarts=1, max_iter=2)).fit(X, X[:, 0])
    cell()
    with pytest.raises(InputError, match="Cell was defined again after this model was made"):
        model.save(tmp_path / "model.mgp")


@pytest.mark.parametrize(("name", "shorthand", "words"), [
    ("model.Model", None, "are taken by files themselves"), ("averaging.Mine", None, "are taken by files"), ("mine.Part", 5, "A shorthand is a word"),
])  # fmt: skip
def test_names_that_no_part_can_have(name, shorthand, words):
    with pytest.raises(InputError, match=words):
        register(name, shorthand=shorthand)


def test_a_mean_on_something_else_is_refused():
    @dataclass(frozen=True)
    class Odd(Zero):
        on: str = "feature"

    with pytest.raises(InputError, match="must be 'inputs' or 'features'; got 'feature'"):
        as_mean(Odd())
