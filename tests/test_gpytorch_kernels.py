"""GPyTorch's kernels as kernels of this package: the same numbers, gradients, batches, training, files."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.autograd import gradcheck, gradgradcheck

import manifoldgp
from manifoldgp import GPRegressor, ManifoldGPRegressor, Stack, kernels
from manifoldgp.errors import FitWarning, InputError
from manifoldgp.parameters import Layout, Normal, leaves, map_leaves, nest

pytest.importorskip("gpytorch", reason="needs the extra [gpytorch]")

import gpytorch
from gpytorch import kernels as theirs

from manifoldgp.integrations.gpytorch import GPyTorchKernel

H = torch.randn((9, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
G = torch.randn((5, 3), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
KERNELS = {
    "rbf": lambda: theirs.RBFKernel(),
    "rbf-ard": lambda: theirs.ScaleKernel(theirs.RBFKernel(ard_num_dims=3)),
    "matern": lambda: theirs.ScaleKernel(theirs.MaternKernel(nu=2.5, ard_num_dims=3)),
    "active": lambda: theirs.ScaleKernel(theirs.RBFKernel(ard_num_dims=2, active_dims=(0, 2))),
    "sum": lambda: theirs.ScaleKernel(theirs.RBFKernel()) + theirs.LinearKernel(),
    "product": lambda: theirs.PeriodicKernel(active_dims=(0,)) * theirs.RQKernel(),
    "polynomial": lambda: theirs.PolynomialKernel(power=2),
    "interval": lambda: theirs.RBFKernel(lengthscale_constraint=gpytorch.constraints.Interval(0.1, 3.0)),
    "spectral": lambda: theirs.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=3),
}
every_kernel = pytest.mark.parametrize("name", KERNELS)


def drawn(kernel, count=None, seed=1):
    values = Layout(kernel.parameters(H)).draw(torch.Generator().manual_seed(seed), count or 1)
    return values if count else map_leaves(lambda leaf: leaf[0], values)


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        (kernels.SquaredExponential(), lambda: theirs.ScaleKernel(theirs.RBFKernel(ard_num_dims=3))),
        (kernels.Matern12(), lambda: theirs.ScaleKernel(theirs.MaternKernel(nu=0.5, ard_num_dims=3))),
        (kernels.Matern32(), lambda: theirs.ScaleKernel(theirs.MaternKernel(nu=1.5, ard_num_dims=3))),
        (kernels.Matern52(), lambda: theirs.ScaleKernel(theirs.MaternKernel(nu=2.5, ard_num_dims=3))),
    ],
    ids=["se", "matern12", "matern32", "matern52"],
)
@pytest.mark.parametrize("follow", [False, True])
def test_agreement_with_native_kernels(ours, other, follow):
    module = other().double()
    scales = torch.tensor([0.5, 1.5, 2.5], dtype=torch.float64)
    variance = torch.tensor(1.7, dtype=torch.float64)
    module.outputscale, module.base_kernel.lengthscale = variance, scales
    kernel = GPyTorchKernel(module)
    native = {"variance": variance, "lengthscale": scales}
    values, rows = drawn(kernel), H.clone().requires_grad_(follow)
    torch.testing.assert_close(kernel.matrix(values, rows), ours.matrix(native, H), rtol=0, atol=1e-10)
    torch.testing.assert_close(kernel.cross(values, rows, G), ours.cross(native, H, G), rtol=0, atol=1e-10)
    torch.testing.assert_close(kernel.diagonal(values, rows), ours.diagonal(native, H), rtol=0, atol=1e-10)


@every_kernel
def test_the_first_start_is_the_kernel_as_it_comes(name):
    module = KERNELS[name]().double()
    kernel = GPyTorchKernel(module)
    values = drawn(kernel, 3)
    first = map_leaves(lambda leaf: leaf[0], values)
    torch.testing.assert_close(kernel.cross(first, H, G), module(H, G).to_dense(), rtol=1e-12, atol=1e-13)
    trained = [name for name, p in leaves(kernel.parameters(H)) if p.trainable]
    for parameter in trained:
        leaf = dict(leaves(values))[parameter]
        assert not torch.equal(leaf[1], leaf[0])
        assert not torch.equal(leaf[1], leaf[2])
    assert all(torch.isfinite(leaf).all() for n, leaf in leaves(values) if n in trained)


@every_kernel
@pytest.mark.parametrize("batched", ["both", "values", "features", "outputs"])
@pytest.mark.parametrize("way", ["auto", "loop"])
def test_a_batch_is_a_loop(name, batched, way):
    kernel = GPyTorchKernel(KERNELS[name](), batching=way)
    R, O = 3, 2  # noqa: E741
    rows = H if batched == "values" else torch.stack([H, 2 * H, H - 1])
    others = G if batched == "values" else torch.stack([G, G + 1, 0.5 * G])
    values = drawn(kernel, None if batched == "features" else R * O if batched == "outputs" else R)
    if batched == "outputs":
        values = map_leaves(lambda leaf: leaf.unflatten(0, (R, O)), values)
        rows, others = rows.unsqueeze(1), others.unsqueeze(1)
    K, C, d = kernel.matrix(values, rows), kernel.cross(values, rows, others), kernel.diagonal(values, rows)
    for index in [(r, o) for r in range(R) for o in range(O)] if batched == "outputs" else [(r,) for r in range(R)]:
        one = values if batched == "features" else map_leaves(lambda leaf, i=index: leaf[i], values)
        h, g = (rows, others) if batched == "values" else (rows[index[0]], others[index[0]])
        h, g = (h[0], g[0]) if batched == "outputs" else (h, g)
        torch.testing.assert_close(K[index], kernel.matrix(one, h), rtol=1e-10, atol=1e-11)
        torch.testing.assert_close(C[index], kernel.cross(one, h, g), rtol=1e-10, atol=1e-11)
        torch.testing.assert_close(d[index], kernel.diagonal(one, h), rtol=1e-10, atol=1e-11)


@every_kernel
def test_gradients(name):
    kernel = GPyTorchKernel(KERNELS[name]())
    values = drawn(kernel)
    trained = [n for n, p in leaves(kernel.parameters(H)) if p.trainable]
    named = dict(leaves(values))
    inputs = [named[n].clone().requires_grad_() for n in trained] + [H[:4].clone().requires_grad_()]

    def matrix(*tensors):
        return kernel.cross(nest(named | dict(zip(trained, tensors, strict=False))), tensors[-1], G[:3])

    assert gradcheck(matrix, inputs, atol=1e-6)
    if name in ("rbf", "rbf-ard", "polynomial"):
        assert gradgradcheck(matrix, inputs, atol=1e-5)
    K = kernel.matrix(nest(named | dict(zip(trained, inputs, strict=False))), inputs[-1])
    gradients = torch.autograd.grad((K * torch.arange(16.0).reshape(4, 4)).sum(), inputs)
    for n, gradient in zip([*trained, "H"], gradients, strict=True):
        assert torch.isfinite(gradient).all(), n
        assert bool((gradient != 0).any()), n


@pytest.mark.parametrize("name", ["Stubborn", "Mixing"])
def test_kernels_that_know_no_batches_are_looped(name):
    class Stubborn(theirs.Kernel):
        """Works for one matrix only."""

        has_lengthscale = True

        def forward(self, x1, x2, diag=False, **params):
            K = torch.exp(-torch.cdist(x1.reshape(-1, 3), x2.reshape(-1, 3)).square() / self.lengthscale.reshape(()) ** 2)
            return K.diagonal() if diag else K

    class Mixing(theirs.Kernel):
        """Takes batches, and mixes them."""

        has_lengthscale = True

        def forward(self, x1, x2, diag=False, **params):
            K = torch.exp(-torch.cdist(x1, x2).square() / self.lengthscale.mean() ** 2)
            return K.diagonal(dim1=-2, dim2=-1) if diag else K

    kernel = GPyTorchKernel({"Stubborn": Stubborn, "Mixing": Mixing}[name]())
    values = drawn(kernel, 3)
    K = kernel.matrix(values, H)
    assert kernel.batching == "loop"
    torch.testing.assert_close(K[1], kernel.matrix(map_leaves(lambda leaf: leaf[1], values), H))


# ------------------------------------------------------------------------------------------------------------- estimators

X = np.linspace(-2, 2, 30)[:, None] * [1.0, 0.5] + np.random.default_rng(1).normal(size=(30, 2)) * 0.1
Y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2


def test_a_plain_gp_reaches_the_evidence_of_the_native_kernel():
    kernel = GPyTorchKernel(theirs.ScaleKernel(theirs.RBFKernel(ard_num_dims=2)))
    other, ours = GPRegressor(kernel, restarts=3).fit(X, Y), GPRegressor(restarts=3).fit(X, Y)
    assert other.nlml_ == pytest.approx(ours.nlml_, abs=0.05)
    np.testing.assert_allclose(other.predict(X), ours.predict(X), atol=1e-2)


def test_it_trains_with_features_in_an_average_and_follows_the_estimators_contract(tmp_path):
    kernel = GPyTorchKernel(theirs.ScaleKernel(theirs.MaternKernel(nu=2.5, ard_num_dims=2))) + kernels.Linear()
    model = ManifoldGPRegressor(features=(3, 2), kernel=kernel, averaging=Stack(own_members=2, deals=1))
    assert clone(model).kernel == kernel
    with pytest.warns(FitWarning, match="kernel=Sum has no length-scales"):
        model.fit(X, Y)
    path = tmp_path / "model.mgp"
    model.save(path)
    with pytest.raises(InputError, match=r"uses your own torch modules: load\(path, modules=\[ScaleKernel\(...\)\]\)"):
        manifoldgp.load(path)
    again = manifoldgp.load(path, modules=[theirs.ScaleKernel(theirs.MaternKernel(nu=2.5, ard_num_dims=2))])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_priors_on_raw_parameters():
    kernel = GPyTorchKernel(theirs.RBFKernel())
    tight = GPRegressor(kernel, restarts=2, priors={"kernel.raw_lengthscale": Normal(3.0, 1e-3)}).fit(X, Y)
    block, member = tight.ensembles_[0].heaviest()
    assert float(block.values["kernel"]["raw_lengthscale"][member]) == pytest.approx(3.0, abs=0.01)


def test_constants_are_not_trained_and_the_users_kernel_is_left_alone():
    module = theirs.ScaleKernel(theirs.RBFKernel())
    module.base_kernel.raw_lengthscale.requires_grad_(False)
    before = copy.deepcopy(module.state_dict())
    model = GPRegressor(GPyTorchKernel(module), restarts=2, max_iter=10).fit(X, Y)
    block, _ = model.ensembles_[0].heaviest()
    assert bool((block.values["kernel"]["base_kernel"]["raw_lengthscale"] == 0).all())
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert next(module.parameters()).dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GPyTorchKernel("rbf"), "A gpytorch.kernels.Kernel is expected; got 'rbf'"),
        (lambda: GPyTorchKernel(theirs.RBFKernel(), batching="vmap"), "batching must be 'auto', 'native' or 'loop', got 'vmap'"),
        (lambda: GPyTorchKernel(theirs.RBFKernel(batch_shape=torch.Size([2]))), r"has the batch shape \(2,\)"),
        (
            lambda: GPyTorchKernel(theirs.RBFKernel(lengthscale_prior=gpytorch.priors.GammaPrior(3.0, 6.0))),
            r"has GPyTorch priors \(lengthscale_prior\), which training here would pass over",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_kernels_of_several_numbers_a_pair_are_refused():
    kernel = GPyTorchKernel(theirs.RBFKernelGrad())
    with pytest.raises(InputError, match="RBFKernelGrad gave a covariance of shape"):
        kernel.matrix(drawn(kernel), H)


def test_without_gpytorch_the_extra_is_named(monkeypatch):
    import importlib
    import sys

    from manifoldgp.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "gpytorch", None)
    monkeypatch.delitem(sys.modules, "manifoldgp.integrations.gpytorch")
    with pytest.raises(MissingExtraError, match=r"pip install 'manifoldgp\[gpytorch\]'"):
        importlib.import_module("manifoldgp.integrations.gpytorch")
