"""Predictors of fitted models: every averaging, files, an interpreter without PyTorch, what is refused."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.manifold import Isomap
from sklearn.preprocessing import MinMaxScaler

import manifoldgp
from drawn_estimators import drawn_estimator
from manifoldgp import GPRegressor, ManifoldGPRegressor, Predictor, Single, Sparse, Stack
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.features import MLP, Module
from manifoldgp.kernels import SquaredExponential
from manifoldgp.model import Model
from manifoldgp.predictor.interpreter import function_of
from manifoldgp.predictor.trial import _most_numbers
from manifoldgp.warping import TanhWarping

QUICK = Single(restarts=1, max_iter=5)


@pytest.fixture(scope="module")
def model(data):
    return ManifoldGPRegressor(features=(4, 2), averaging=Single(restarts=2, max_iter=20)).fit(*data)


def assert_same(p, estimator, X, rtol=1e-10):
    for latent in (False, True):
        mean, std = estimator.predict(X, return_std=True, latent=latent)
        found = p(X, return_std=True, latent=latent)
        np.testing.assert_allclose(found[0], mean, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(found[1], std, rtol=rtol, atol=rtol * latent)
        np.testing.assert_allclose(p(X, latent=latent), mean, rtol=rtol, atol=rtol)


def test_every_averaging(fitted, data, tmp_path):
    X = data[0] + 0.1
    p = fitted.predictor()
    assert_same(p, fitted, X)
    p.save(tmp_path / "model.npz")
    again = Predictor.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again(X, return_std=True), p(X, return_std=True))
    assert (again.n_features, again.n_outputs, repr(again)) == (p.n_features, p.n_outputs, repr(p))


@pytest.mark.parametrize(
    ("estimator", "holds"),
    [
        (GPRegressor(restarts=1, max_iter=5), "Holds the inputs (standardised) of all 45 training rows, and weights from which their targets follow."),
        (ManifoldGPRegressor((4, 2), averaging=QUICK), "Holds the features of all 45 training rows, and weights from which their targets follow."),
        (GPRegressor(restarts=1, max_iter=5, method=Sparse(8)), "Holds the inputs (standardised) of 8 points that stand for the training rows, and may be some of them."),
    ],
    ids=["plain", "features", "sparse"],
)  # fmt: skip
def test_a_predictor_says_which_training_rows_it_holds(data, tmp_path, estimator, holds):
    p = estimator.fit(*data).predictor()
    assert p.holds == holds
    p.save(tmp_path / "m.npz")
    assert Predictor.load(tmp_path / "m.npz").holds == holds


def test_the_targets_of_a_plain_gp_follow_from_its_program(data):
    """What its sentence says: points, weights and noise give back the rows, up to rounding."""
    model = GPRegressor(restarts=1, max_iter=20).fit(*data)
    block, ensemble = model.ensembles_[0].blocks[0], model.ensembles_[0]
    X = model.x_scaler_.undo(block.points[0].numpy())
    np.testing.assert_allclose(np.sort(X, 0), np.sort(data[0], 0), atol=1e-9)
    noise = float(block.noise_variance()[0])
    y = model.predictor()(X) + ensemble.scale * noise * block.alpha[0].numpy()
    np.testing.assert_allclose(np.sort(y), np.sort(data[1]), atol=1e-6)


def test_few_points_are_said_to_be_rows(data):
    X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    model = GPRegressor(restarts=1, max_iter=20).fit(X, np.sin(2 * X[:, 0]) + 0.3 * np.random.default_rng(1).normal(size=200))
    assert re.fullmatch(r"Holds the inputs \(standardised\) of \d\d training rows\.", model.predictor(tolerance=0.01).holds)


def test_a_warped_stack_comes_back_from_its_file(data, tmp_path):
    """Many members with few rows: each asks 40 nodes for its moments, and is counted once."""
    stack = Stack(gp_starts=1, warm_members=12, cold_members=12, own_members=2, deals=1, fold_members=1, steps=(2, 4), gp_iterations=15, polish=1, keep=-1.0)  # fmt: skip
    model = ManifoldGPRegressor((3, 1), averaging=stack, target_warping="tanh").fit(data[0], np.exp(data[1] - 6.0))
    p = model.predictor()
    p.save(tmp_path / "model.npz")
    assert_same(Predictor.load(tmp_path / "model.npz"), model, data[0] + 0.1)


@pytest.mark.parametrize("members", [1, 29])
def test_what_operations_make_is_counted_for_any_number_of_members(members):
    """Neither fewer numbers than they make, nor so many more that a file that we write would be refused."""
    warped, plain = Model(features=MLP((4, 2)), warping=TanhWarping(3)), Model(features=MLP((4, 2)))
    for model, targets in ((warped, 1), (warped, 2), (plain, 1), (plain, 2)):
        drawn = drawn_estimator([(model, members)], targets, factors=(1.0, 4.0, 16.0, 0.25), exponents=(1.0,) * targets)
        program = drawn.predictor().program
        arrays = {0: np.tile(drawn.x_scaler_.offset, (2, 1)), **program.constants}
        for instruction in program.needed(tuple(program.outputs)):
            inputs = [arrays[slot] for slot in instruction.inputs]
            arrays[instruction.output] = result = np.asarray(function_of(instruction)(*inputs))
            counted = _most_numbers(instruction.operation, [array.shape for array in inputs])
            assert result.size <= counted <= 100 * (result.size + sum(array.size for array in inputs)), instruction.operation


def test_a_loaded_model_has_the_same_predictor(model, data, tmp_path):
    model.save(tmp_path / "model.mgp")
    p = manifoldgp.load(tmp_path / "model.mgp").predictor()
    np.testing.assert_array_equal(p(data[0], return_std=True), model.predictor()(data[0], return_std=True))


def test_new_rows_of_an_update_are_in_a_new_predictor(data):
    X, y = data
    model = GPRegressor(restarts=1, max_iter=20).fit(X[:30], y[:30])
    before = model.predictor()
    model.update(X[30:], y[30:])
    after = model.predictor()
    assert_same(after, model, X + 0.1)
    assert np.abs(after(X) - before(X)).max() > 1e-2


def test_shared_features_are_computed_once(data):
    X, y = data
    Y = np.stack([y, y**2, -y], 1)
    model = ManifoldGPRegressor((4, 2), averaging=Single(restarts=1, max_iter=5, shared_features=True)).fit(X, Y)
    p = model.predictor()
    assert_same(p, model, X + 0.1, rtol=1e-9)
    first = next(i for i in p.program.instructions if i.operation == "affine")
    assert p.program.constants[first.inputs[1]].ndim == 2  # one matrix for all targets


def test_known_noise_and_a_scikit_learn_transformer_that_is_affine(data):
    X, y = data
    model = ManifoldGPRegressor(MinMaxScaler() >> MLP((4, 2)), noise="known", averaging=QUICK).fit(X, y, noise_std=0.2)
    assert_same(model.predictor(), model, X + 0.1)


@pytest.mark.parametrize("target_warping", [None, "tanh"])
def test_settings_of_the_target(data, target_warping):
    X, y = data
    model = ManifoldGPRegressor(mean="constant", target_warping=target_warping, averaging="fast").fit(X, 5 * y - 100)
    assert_same(model.predictor(), model, X[:2] + 0.1)


def test_runs_where_torch_scipy_and_scikit_learn_cannot_be_imported(model, data, tmp_path):
    model.predictor().save(tmp_path / "model.npz")
    np.save(tmp_path / "X.npy", data[0])
    code = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "scipy", "sklearn", "threadpoolctl", "safetensors", "onnx"):
            raise ImportError(name + " is not here")

sys.meta_path.insert(0, Refuse())
try:
    import torch
except ImportError:
    pass
else:
    sys.exit("torch can still be imported")
import numpy as np
from manifoldgp.predictor import Predictor
import manifoldgp
assert manifoldgp.Predictor is Predictor
p = Predictor.load("model.npz")
np.save("moments.npy", p(np.load("X.npy"), return_std=True))
own = {name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(*sorted(name for name in own if not name.startswith("_")))
"""
    sources = {"PYTHONPATH": str(Path(manifoldgp.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | sources, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"torch", "scipy", "sklearn"}.isdisjoint(done.stdout.split())
    np.testing.assert_array_equal(np.load(tmp_path / "moments.npy"), model.predictor()(data[0], return_std=True))


def test_the_mean_alone_never_computes_variances(model):
    needed = {i.operation for i in model.predictor().program.needed(["mean"])}
    assert needed.isdisjoint({"explained", "variance", "square_root"})


class TestCalls:
    def test_tables_and_lists(self, data):
        frame = pd.DataFrame(data[0], columns=["a", "b"])
        model = GPRegressor(restarts=1, max_iter=5).fit(frame, data[1])
        p = model.predictor()
        assert p.feature_names == ("a", "b")
        np.testing.assert_array_equal(p(frame), p(data[0]))
        np.testing.assert_allclose(p(data[0][:2].tolist()), p(data[0])[:2], rtol=1e-13)
        with pytest.raises(InputError, match=r"in this order: a, b; got b, a"):
            p(frame[["b", "a"]])

    @pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros((3, 3)), np.zeros((0, 2)), np.zeros((1, 2, 2))])
    def test_shapes(self, model, wrong):
        with pytest.raises(InputError, match=r"shape \(n, 2\)"):
            model.predictor()(wrong)

    def test_text(self, model):
        with pytest.raises(InputError, match="must be numbers"):
            model.predictor()([["a", "b"]])

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite(self, model, value):
        with pytest.raises(InputError, match=r"X\[1, 0\] is"):
            model.predictor()(np.array([[0.0, 0.0], [value, 1.0]]))

    def test_far_away(self, model, data):
        p = model.predictor()
        far = np.array([[1e60, -1e60]])
        np.testing.assert_allclose(p(far, return_std=True), model.predict(far, return_std=True), rtol=1e-10)
        with pytest.raises(InputError, match="standard deviations from the training data"):
            p(np.array([[1e150, 0.0]]))

    def test_other_dtypes_and_orders(self, model, data):
        X, p = data[0], model.predictor()
        np.testing.assert_allclose(p(np.asfortranarray(X)), p(X), rtol=1e-13)
        np.testing.assert_allclose(p(X.astype(np.float32)), p(X), rtol=1e-4)
        kept = X.copy()
        p(X, return_std=True)
        np.testing.assert_array_equal(X, kept)


class TestRefusals:
    def test_a_module_that_is_code(self, data):
        class Wiggle(torch.nn.Module):
            def forward(self, X):
                return torch.sin(X)

        model = ManifoldGPRegressor(Wiggle(), averaging=QUICK).fit(*data)
        with pytest.raises(InputError, match="cannot express the torch module Wiggle.*build the features from these"):
            model.predictor()

    def test_a_layer_with_settings_of_its_own(self, data):
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Softplus(beta=2.0))
        with pytest.raises(InputError, match="beta=1"):
            ManifoldGPRegressor(Module(net), averaging=QUICK).fit(*data).predictor()

    def test_a_transformer_that_is_curved(self, data):
        model = ManifoldGPRegressor(Isomap(n_neighbors=8, n_components=2), averaging=QUICK).fit(*data)
        with pytest.raises(InputError, match="affine scikit-learn transformer"):
            model.predictor()

    def test_a_kernel_of_ones_own(self, data):
        class Own(SquaredExponential):
            def _cross(self, values, H1, H2):
                return super()._cross(values, H1, H2)

        with pytest.raises(InputError, match="cannot express the kernel.*Own has a _cross of its own"):
            GPRegressor(Own(), restarts=1, max_iter=5).fit(*data).predictor()

    def test_an_unfitted_model(self):
        with pytest.raises(ValueError, match="not fitted"):
            GPRegressor().predictor()


class TestFiles:
    def test_is_called_what_it_was_called(self, model, tmp_path):
        model.predictor().save(tmp_path / "controller.bin")
        assert [path.name for path in tmp_path.iterdir()] == ["controller.bin"]

    def test_holds_arrays_and_json_only(self, model, tmp_path):
        path = tmp_path / "model.npz"
        model.predictor().save(path)
        with np.load(path, allow_pickle=False) as archive:
            header = json.loads(archive["header"].tobytes())
            assert all(archive[name].dtype.kind in "fiu" for name in archive.files)
        assert (header["format"], header["version"]) == ("manifoldgp-predictor", 2)

    def test_names_of_targets_are_texts(self, model, tmp_path):
        """As columns of frames have them they may be numbers, which files would not give back."""
        p = model.predictor()
        Predictor(p.program, p.x_offset, p.x_scale, target_names=(7,)).save(tmp_path / "model.npz")
        assert Predictor.load(tmp_path / "model.npz").target_names == ("7",)

    def test_missing(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no predictor file"):
            Predictor.load(tmp_path / "nothing.npz")

    def test_foreign_or_damaged(self, model, tmp_path):
        path = tmp_path / "model.npz"
        path.write_text("hello")
        with pytest.raises(FileFormatError, match="not a predictor file"):
            Predictor.load(path)
        np.savez(path, a=np.zeros(3))
        with pytest.raises(FileFormatError, match="not a predictor file"):
            Predictor.load(path)
        model.predictor().save(path)
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(FileFormatError, match="damaged"):
            Predictor.load(path)
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        path.write_bytes(bytes(flipped))
        with pytest.raises(FileFormatError, match="damaged"):
            Predictor.load(path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"version": 4}, "format version 4; this package reads versions 2 and 3"),
            ({"format": "other"}, "not a predictor of this package"),
            ({"instructions": [["system", [0], 99, {}]]}, "unknown operation 'system'"),
            ({"instructions": [["tanh", [500], 501, {}]]}, "inconsistent at slot 501"),
            ({"outputs": {"mean": 0}}, "lacks outputs"),
            ({"facts": {}}, "lacks feature_names"),
        ],
    )
    def test_inconsistent_headers(self, model, tmp_path, change, message):
        path, changed = tmp_path / "model.npz", tmp_path / "changed.npz"
        model.predictor().save(path)
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop("header").tobytes()) | change
        np.savez(changed, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)
        with pytest.raises(FileFormatError, match=message):
            Predictor.load(changed)

    def test_pickled_arrays_are_refused(self, tmp_path):
        path = tmp_path / "model.npz"
        np.savez(path, header=np.array([{"a": 1}], dtype=object))
        assert zipfile.is_zipfile(path)
        with pytest.raises(FileFormatError, match="allow_pickle"):
            Predictor.load(path)
