"""ONNX files, evaluated by onnxruntime: every feature map with every kernel, every averaging, in both floating-point types."""

import json
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest

from drawn_estimators import FEATURES, KERNELS, drawn_estimator, drawn_pair, make_inputs, rounding
from manifoldgp import GPRegressor, means
from manifoldgp.errors import InputError
from manifoldgp.features import MLP, Nested
from manifoldgp.kernels import Additive, NeuralNetwork, SquaredExponential
from manifoldgp.model import Model
from manifoldgp.warping import TanhWarping

onnx = pytest.importorskip("onnx", reason="needs the extra [onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")

from manifoldgp.predictor.onnx import export_onnx  # noqa: E402 - after the check that onnx is there

X = make_inputs(5, seed=1)


def session(model, path, **settings):
    export_onnx(model, path, **settings)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(model, path, X, **settings):
    return session(model, path, **settings).run(["mean", "std"], {"X": X.astype(settings.get("dtype", "float64"))})


def assert_agrees(estimator, path, X=X, rtol=1e-9, **settings):
    expected = estimator.predictor()(X, return_std=True, latent=settings.get("latent", False))  # compared with predict elsewhere
    mean_atol, variance_atol = rounding(estimator, X)
    mean, std = run(estimator, path, X, **settings)
    assert (mean.shape, std.shape) == (expected[0].shape, expected[1].shape)
    np.testing.assert_allclose(mean, expected[0], rtol=rtol, atol=10 * mean_atol)
    np.testing.assert_allclose(std**2, expected[1] ** 2, rtol=rtol, atol=10 * variance_atol)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_with_all_features(kernel, tmp_path):
    for i, name in enumerate(FEATURES):
        assert_agrees(drawn_pair(name, kernel, members=1 + i % 2), tmp_path / "model.onnx")


def test_every_averaging(fitted, data, tmp_path):
    new = data[0] + 0.1
    path = tmp_path / "model.onnx"
    for latent in (False, True):
        found = run(fitted, path, new, latent=latent)
        expected = fitted.predict(new, return_std=True, latent=latent)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    single = run(fitted, path, new, dtype="float32")
    assert single[0].dtype == np.float32
    for one, other in zip(single, fitted.predict(new, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("factors", [(1.0,), (0.5, 2.0)])
def test_mixtures_means_and_several_targets(factors, tmp_path):
    parts = [
        (Model(features=MLP((3, 4)), mean=means.Linear()), 1),
        (Model(features=Nested(4, 2), kernel=SquaredExponential(scaled=False), mean=means.Constant()), 3),
    ]
    for targets in (1, 3):
        assert_agrees(drawn_estimator(parts, targets, factors), tmp_path / "model.onnx")
        followed = drawn_estimator(parts, targets, factors, exponents=(0.7, 0.0, 2.0)[:targets])
        assert_agrees(followed, tmp_path / "model.onnx")
        assert_agrees(followed, tmp_path / "model.onnx", latent=True)
        mean, std = run(followed, tmp_path / "model.onnx", X, dtype="float32")
        expected = followed.predictor()(X.astype(np.float32), return_std=True)
        np.testing.assert_allclose(mean, expected[0], rtol=1e-3)
        np.testing.assert_allclose(std, expected[1], rtol=1e-2)
        assert_agrees(drawn_estimator(parts[:1], targets, factors, flat=False), tmp_path / "model.onnx")


@pytest.mark.parametrize("latent", [False, True])
def test_warped_targets(latent, tmp_path):
    model = Model(features=MLP((4, 2)), warping=TanhWarping(2))
    for members, targets in ((1, 1), (2, 2)):
        for exponents in ((), (0.7, 2.0)[:targets]):
            estimator = drawn_estimator([(model, members)], targets, (0.5, 2.0), exponents=exponents)
            assert_agrees(estimator, tmp_path / "model.onnx", latent=latent)


def test_arcsine_has_full_precision(tmp_path):
    # weights so large that the sines come close to one, where float32 alone would have four digits
    estimator = drawn_estimator([(Model(kernel=NeuralNetwork()), 1)])
    values = estimator.ensembles_[0].blocks[0].values["kernel"]
    values["weights"][:], values["bias"][:] = 1e4, 1e4
    near = make_inputs(5, seed=0) + 1e-6
    assert_agrees(estimator, tmp_path / "model.onnx", X=near)


def test_short_lengthscales_are_summed_from_differences(tmp_path):
    estimator = drawn_estimator([(Model(), 2)])
    estimator.ensembles_[0].blocks[0].values["kernel"]["lengthscale"][:] = 1e-3
    assert_agrees(estimator, tmp_path / "model.onnx", X=make_inputs(5, seed=0) + 1e-4)


def test_every_constant_is_used(tmp_path):
    """Runtimes warn of others at each load: an additive kernel is taken apart, and its arrays stayed behind as a whole."""
    X = np.random.default_rng(0).normal(size=(20, 3))
    export_onnx(GPRegressor(kernel=Additive(orders=2), restarts=1, max_iter=3).fit(X, X.sum(1)), tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert {constant.name for constant in graph.initializer} <= {name for node in graph.node for name in node.input}


def test_the_number_of_rows_is_free(tmp_path):
    estimator = drawn_pair("mlp", "se")
    inference = session(estimator, tmp_path / "model.onnx")
    for rows in (1, 3, 100):
        many = make_inputs(rows, seed=rows)
        np.testing.assert_allclose(inference.run(["mean"], {"X": many})[0], estimator.predict(many), rtol=1e-9)


def test_what_the_file_says_about_itself(data, tmp_path):
    model = GPRegressor(restarts=1, max_iter=5).fit(pd.DataFrame(data[0], columns=["speed", "load"]), data[1])
    path = tmp_path / "model.onnx"
    inference = session(model, path, latent=True)
    facts = inference.get_modelmeta().custom_metadata_map
    assert json.loads(facts["columns"]) == ["speed", "load"]
    assert (facts["targets"], facts["latent"], facts["manifoldgp"]) == ("1", "true", version("manifoldgp"))
    (given,) = inference.get_inputs()
    assert (given.name, given.type, given.shape) == ("X", "tensor(double)", ["n", 2])
    assert [(out.name, out.shape) for out in inference.get_outputs()] == [("mean", ["n"]), ("std", ["n"])]
    onnx.checker.check_model(onnx.load(path), full_check=True)


def test_a_predictor_can_be_exported_too(tmp_path):
    estimator = drawn_pair("mlp", "se")
    from_predictor = run(estimator.predictor(), tmp_path / "a.onnx", X)
    np.testing.assert_array_equal(from_predictor, run(estimator, tmp_path / "b.onnx", X))
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_single_precision_is_half_as_large(tmp_path):
    estimator = drawn_pair("mlp", "se")
    for dtype in ("float64", "float32"):
        export_onnx(estimator, tmp_path / dtype, dtype=dtype)
    sizes = [(tmp_path / dtype).stat().st_size for dtype in ("float32", "float64")]
    assert sizes[0] < 0.65 * sizes[1]


def test_other_types_are_refused(tmp_path):
    with pytest.raises(InputError, match="'float64' or 'float32'; got 'float16'"):
        export_onnx(drawn_pair("mlp", "se"), tmp_path / "model.onnx", dtype="float16")


def test_operators_that_older_runtimes_have_for_float32_alone_are_not_used(tmp_path):
    """Cos in float64 came with onnxruntime 1.29; a Sigmoid times its input is merged into one that has no float64 before 1.31."""
    used: set[str] = set()
    for number, (features, kernel) in enumerate((("module", "sm"), ("identity", "nn"))):
        export_onnx(drawn_pair(features, kernel), tmp_path / f"{number}.onnx")
        nodes = onnx.load(tmp_path / f"{number}.onnx").graph.node
        used |= {node.op_type for node in nodes}
        names = [
            node.name for node in nodes if node.op_type != "Identity"
        ]  # 1.19 refuses files where it merges nodes without names
        assert len(set(names) - {""}) == len(names)
    assert "Sin" in used
    assert not used & {"Cos", "Sigmoid"}
