"""Sparse models through what users see: predictors, ONNX files, leave-one-out, the report page."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from manifoldgp.estimators.units import model_inputs
from manifoldgp.inference.sparse_posterior import condition_sparse
from manifoldgp.inspection.page import write_model_report
from manifoldgp.model import Data
from manifoldgp.predictor.onnx import export_onnx
from short_fits import manifold


def _fitted_sparse(averaging="single", rows=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * (X[:, 1] > 0) + 0.1 * rng.normal(size=rows)
    sizes = (
        {"restarts": 2, "max_iter": 15} if averaging == "single" else {"steps": (5, 10), "warm_iterations": 5, "cold_members": 2}
    )
    model = manifold(method="sparse", inducing=12, averaging=averaging, **sizes)
    return model.fit(X, y), X, y


@pytest.mark.parametrize("averaging", ["single", "stack"])
def test_a_sparse_model_goes_to_a_robot_as_an_exact_one_does(averaging, tmp_path):
    model, X, _ = _fitted_sparse(averaging)
    mean, std = model.predict(X, return_std=True)
    predictor = model.predictor()
    again, spread = predictor(X, return_std=True)
    np.testing.assert_allclose(again, mean, atol=1e-8)
    np.testing.assert_allclose(spread, std, atol=1e-7)
    onnxruntime = pytest.importorskip("onnxruntime")
    export_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    found_mean, found_std = session.run(["mean", "std"], {"X": X})
    np.testing.assert_allclose(np.ravel(found_mean), mean, atol=1e-6)
    np.testing.assert_allclose(np.ravel(found_std), std, atol=1e-6)


def test_leaving_a_row_out_equals_conditioning_on_the_others():
    model, _, _ = _fitted_sparse()
    block = model.ensembles_[0].blocks[0]
    values = {**block.values, "inducing": {"Z": block.Z}}
    mean, variance = block.left_out(torch.arange(len(block.data.y)))
    for i in (0, 7, 31):
        others = torch.tensor([j for j in range(len(block.data.y)) if j != i])
        without = condition_sparse(block.model, values, Data(block.data.X[others], block.data.y[others]))
        f, v = without.mean_and_variance(block.data.X[i : i + 1])
        torch.testing.assert_close(mean[:, i], f[:, 0], atol=1e-8, rtol=1e-8)
        torch.testing.assert_close(variance[:, i], v[:, 0] + block.noise_variance(), atol=1e-8, rtol=1e-8)


def test_the_whitener_gives_the_variance():
    model, X, _ = _fitted_sparse()
    block = model.ensembles_[0].blocks[0]
    U = model_inputs(model, X[:9])
    kernel = block.values.get("kernel", {})
    k = block.model.kernel.cross(kernel, block.points, block.transform(U))
    T = block.whitener()
    assert torch.equal(T, T.tril())
    explained = ((T @ k) ** 2).sum(-2)
    torch.testing.assert_close(block.prior_variance(U) - explained, block.mean_and_variance(U)[1], atol=1e-8, rtol=1e-6)


def test_the_page_of_a_sparse_model(tmp_path):
    model, X, y = _fitted_sparse("stack")
    page = write_model_report(model, tmp_path / "model.html", X=X[:20], y=y[:20])
    assert "sparse" in page.read_text()
