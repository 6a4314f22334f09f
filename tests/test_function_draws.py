"""Functions drawn from a posterior: consistent, differentiable, with the posterior's moments, for every kernel, average and posterior."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fitted_models import fitted, table
from manifoldgp import MLP, GPRegressor, ManifoldGPRegressor, Single, Sparse
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.inference.function_draws import draw_functions
from manifoldgp.kernels import (
    Additive,
    Constant,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    NeuralNetwork,
    Periodic,
    RationalQuadratic,
    SpectralMixture,
    SquaredExponential,
)
from manifoldgp.kernels.random_features import Randomness, weighted_draws
from manifoldgp.model import Data, Model
from manifoldgp.predictor import FunctionPredictor, Predictor
from own_parts import Wiggle

KERNELS: dict[str, Kernel] = {
    "se": SquaredExponential(), "se without parameters": SquaredExponential(amplitude=False, scaled=False), "matern12": Matern12(ard=False),
    "matern32": Matern32(), "matern52": Matern52(), "rational quadratic": RationalQuadratic(), "periodic": Periodic(ard=False),
    "spectral mixture": SpectralMixture(3), "spectral mixture, equal": SpectralMixture(2, ard=False, amplitude=True), "linear": Linear(amplitude=True),
    "additive": Additive(), "additive, rough": Additive("matern32", 2), "constant": Constant(),
    "neural network": NeuralNetwork(), "sum": SquaredExponential(dims=(1,)) + Linear() + Constant(),
    "product": Matern32(dims=(0,)) * Periodic(amplitude=False), "product of sums": (Matern52() + Constant()) * (Linear(dims=(1,)) + Constant()),
}  # fmt: skip


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def values_of(kernel, H):
    from manifoldgp.parameters import Layout

    return Layout(kernel.parameters(H)).draw(torch.Generator().manual_seed(1), 1)


def excess(sample, mean, covariance):
    """Largest deviation of a sample's (k, n) mean and second moments around it, in standard errors that the sample itself gives."""
    away = sample - mean
    products = away[:, :, None] * away[:, None, :]
    size = len(sample) ** 0.5
    first = np.abs(away.mean(0)) / (away.std(0) / size + 1e-12)
    second = np.abs(products.mean(0) - covariance) / (products.std(0) / size + 1e-12)
    return max(first.max(), second.max())


def rounding(functions):
    """What summing in another order may change: the weights of nearly noise-free rows are large and cancel."""
    parts = [(target.scale, part) for target in functions.draws for part in target.parts]
    return max(
        1e-14 * scale * float((part.weights.abs().sum(-1) * part.model.prior_diagonal(part.values, part.points).max()).max())
        for scale, part in parts
    )


@pytest.mark.parametrize("name", KERNELS)
def test_random_functions_have_the_kernel_as_covariance(name):
    kernel, H = KERNELS[name], normal(1, 6, 2)
    values = values_of(kernel, H[0])
    random = Randomness(20_000, 8, torch.Generator().manual_seed(2), H)
    f = weighted_draws(kernel.random_functions(values, 2, random), random)(H)
    assert excess(f.numpy(), 0.0, kernel.matrix(values, H)[0].numpy()) < 5


@pytest.mark.parametrize("name", ["se", "matern12", "matern32", "rational quadratic", "neural network", "product of sums"])
def test_draws_of_a_posterior_have_its_moments(name):
    kernel, X = KERNELS[name], normal(12, 2, seed=3)
    data = Data(X, X[:, 0].sin() + X[:, 1], known_noise=torch.linspace(0.01, 0.2, 12, dtype=torch.float64))
    model = Model(kernel=kernel)
    _, values = model.draw(data, torch.Generator().manual_seed(4), 1)
    ensemble = Ensemble([condition(model, values, data)], [torch.zeros(1, 1, dtype=torch.float64)], (4.0,), 1.0, 3.0)
    new = torch.cat([X[:2] + 0.05, 2 * normal(4, 2, seed=5)])
    mean, covariance = ensemble.covariance(new, latent=True)
    draws = draw_functions(ensemble, 4000, 128, torch.Generator().manual_seed(6))(new)
    assert excess(draws.numpy(), mean.numpy(), covariance.numpy()) < 5


@pytest.mark.parametrize("kernel", [Matern32(), SquaredExponential()])
def test_draws_near_data_are_nearly_gaussian(kernel):
    """The slow waves of a draw are known from the data; plain frequencies would leave the few fast ones, with a kurtosis of 20 and more."""
    X = torch.linspace(-2, 2, 12, dtype=torch.float64)[:, None]
    scales = {
        "variance": torch.tensor([200.0], dtype=torch.float64),
        "lengthscale": torch.tensor([[10.0 if kernel == Matern32() else 2.5]], dtype=torch.float64),
    }
    values = {"kernel": scales, "noise": {"scale": torch.tensor([0.03], dtype=torch.float64)}}
    ensemble = Ensemble(
        [condition(Model(kernel=kernel), values, Data(X, X[:, 0].sin()))], [torch.zeros(1, 1, dtype=torch.float64)]
    )
    new = X[:-1] + 0.17
    f = draw_functions(ensemble, 2000, 512, torch.Generator().manual_seed(0))(new)
    z = (f - f.mean(0)) / f.std(0)
    assert float((z**4).mean(0).max()) < 4.0


@pytest.mark.parametrize("averaging", ["stack", "fast", "restarts", "single"])
def test_draws_of_every_average_have_its_moments(averaging):
    model = fitted(averaging)
    x = np.array([[-1.9], [-0.3], [0.0], [0.4], [3.0]])
    mean, covariance = model.predict(x, return_cov=True, latent=True)
    assert excess(model.sample_functions(3000, ridges=96)(x), mean, covariance) < 5


def test_draws_of_a_sparse_posterior_have_its_moments():
    X, y = table(120, 2)
    model = ManifoldGPRegressor(MLP((3, 2)), averaging=Single(restarts=1, max_iter=15), method=Sparse(inducing=10)).fit(X, y)
    x = np.concatenate([X[:3], [[3.0, -3.0], [0.0, 5.0]]])
    mean, covariance = model.predict(x, return_cov=True, latent=True)
    assert excess(model.sample_functions(3000, ridges=96)(x), mean, covariance) < 5


def test_draws_of_warped_targets_have_the_moments_of_joint_draws():
    X, y = table(30, 1)
    model = GPRegressor(target_warping="tanh", mean="linear", restarts=1, max_iter=20).fit(X, np.exp(0.4 * y))
    x = np.array([[-1.0], [0.2], [1.5]])
    mean, std = model.predict(x, return_std=True, latent=True)
    functions = model.sample_functions(4000, ridges=96)
    drawn = functions(x)
    assert (np.abs(drawn.mean(0) - mean) < 5 * std / np.sqrt(4000)).all()
    assert np.abs(drawn.std(0) / std - 1).max() < 0.08
    few = model.sample_functions(4, ridges=32)
    np.testing.assert_allclose(few.predictor()(x), few(x), rtol=1e-9, atol=1e-9)


def test_a_function_is_a_function():
    model = fitted("stack")
    functions = model.sample_functions(7, random_state=3, ridges=64)
    x = np.linspace(-2, 2, 11)[:, None]
    at_all, in_parts = functions(x), np.concatenate([functions(x[:4]), functions(x[4:])], 1)
    np.testing.assert_allclose(at_all, in_parts, atol=1e-10)
    np.testing.assert_allclose(np.stack([f(x) for f in functions]), at_all, atol=1e-10)
    np.testing.assert_array_equal(model.sample_functions(7, random_state=3, ridges=64)(x), at_all)
    assert np.abs(model.sample_functions(7, random_state=4, ridges=64)(x) - at_all).max() > 1e-3
    own = np.stack([x + i for i in range(7)])
    np.testing.assert_allclose(functions(own), np.stack([f(x + i) for i, f in enumerate(functions)]), atol=1e-10)
    model_copy = ManifoldGPRegressor((2, 1), averaging=Single(restarts=1, max_iter=5)).fit(*table(20, 1))
    kept = model_copy.sample_functions(2, ridges=16)
    before = kept(x)
    model_copy.fit(*table(25, 1, seed=1))
    np.testing.assert_array_equal(kept(x), before)


@pytest.mark.parametrize("averaging", ["stack", "single"])
def test_functions_are_differentiable_in_torch(averaging):
    functions = fitted(averaging, inputs=3).sample_functions(3, ridges=64)
    X = torch.as_tensor(table(2, 3, seed=5)[0])
    assert torch.autograd.gradcheck(
        functions, (X.requires_grad_(),), eps=1e-4, atol=1e-4
    )  # weights of nearly noise-free rows cancel
    np.testing.assert_allclose(functions(X).detach().numpy(), functions(X.detach().numpy()), atol=1e-12)


@pytest.mark.parametrize("averaging", ["stack", "single"])
def test_several_targets_and_numpy_alone(averaging, tmp_path):
    model = fitted(averaging, inputs=2, targets=2)
    x = table(9, 2, seed=7)[0]
    functions = model.sample_functions(6, ridges=48)
    assert functions(x).shape == (6, 9, 2)
    assert functions[2](x).shape == (9, 2)
    numpy_alone = functions.predictor()
    np.testing.assert_allclose(numpy_alone(x), functions(x), rtol=1e-9, atol=1e-9 + rounding(functions))
    numpy_alone.save(tmp_path / "functions.npz")
    loaded = FunctionPredictor.load(tmp_path / "functions.npz")
    np.testing.assert_array_equal(loaded(x), numpy_alone(x))
    assert len(loaded) == 6
    with pytest.raises(FileFormatError, match="FunctionPredictor.load"):
        Predictor.load(tmp_path / "functions.npz")
    model.predictor().save(tmp_path / "model.npz")
    with pytest.raises(FileFormatError, match="Predictor.load"):
        FunctionPredictor.load(tmp_path / "model.npz")


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "neural network"])
def test_every_kernel_draws_with_numpy_alone(name):
    X, y = table(15, 2)
    model = GPRegressor(KERNELS[name], mean="constant", restarts=1, max_iter=3).fit(X, y)
    one = model.sample_functions(1, ridges=32)
    np.testing.assert_allclose(one.predictor()(X), one(X), rtol=1e-9, atol=1e-9 + rounding(one))


def test_what_cannot_be_drawn_is_said():
    X, y = table(15, 2)
    network = GPRegressor("nn", restarts=1, max_iter=3).fit(X, y).sample_functions(2, ridges=8)
    with pytest.raises(InputError, match="error function"):
        network.predictor()
    with pytest.raises(InputError, match="gives inputs for 3 functions"):
        network(np.zeros((3, 4, 2)))
    with pytest.raises(InputError, match=r"\(n, 2\)"):
        network(torch.zeros(4, 3))
    with pytest.raises(IndexError):
        network[2]
    with pytest.raises(InputError, match="_random_functions"):
        GPRegressor(Wiggle(), restarts=1, max_iter=3).fit(X, y).sample_functions(2)
    with pytest.raises(InputError, match="n must be"):
        fitted("single").sample_functions(0)
