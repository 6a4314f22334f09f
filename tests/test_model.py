"""F = G ∘ M: the chain rule's product against finite differences, NLML and posterior against references and other packages."""

from __future__ import annotations

from dataclasses import replace

import gpytorch
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from torch import nn

import reference
from manifoldgp import GPRegressor, means
from manifoldgp.errors import InputError, NotPositiveDefiniteError
from manifoldgp.features import MLP, PCA, Concatenate, Identity, Module
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.kernels import Constant, Linear, Matern32, Matern52, NeuralNetwork, RationalQuadratic, SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import LogNormal, leaves, map_leaves, nest
from manifoldgp.warping import TanhWarping

N, D, R = 7, 2, 3


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def make_data(outputs=0, known=False, masked=False, batched=False):
    """R data sets (batched) or one, with what they can have: several targets, known noise, rows left out."""
    batch = (R,) if batched else ()
    targets = (*batch, outputs, N) if outputs else (*batch, N)
    mask = torch.ones(*batch, N, dtype=torch.float64)
    mask[..., 1] = 0.0
    if batched:
        mask[0, 4:6] = 0.0
    return Data(
        normal(*batch, N, D, seed=1),
        normal(*targets, seed=2),
        0.3 * normal(*targets, seed=3).square() if known else None,
        mask if masked else None,
        batched,
    )


def seeded(make):
    """A torch module with reproducible weights, in float64."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().double().eval()


def half_frozen():
    """A module with trained layers, a frozen bias and buffers."""
    network = seeded(lambda: nn.Sequential(nn.Linear(D, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 2)))
    network[3].bias.requires_grad_(False)
    return Module(network)


# name: (model, data)
CASES = {
    "plain": (Model(), make_data()),
    "network": (Model(MLP((3, 2))), make_data()),
    "tanh network, nn kernel, linear mean": (Model(MLP((3, 2), "tanh"), NeuralNetwork(), means.Linear()), make_data()),
    "mean on features": (Model(MLP((3, 4)), Matern52(), means.Linear(on="features")), make_data()),
    "x beside a network": (Model(Concatenate(Identity(), MLP((3, 1))), Matern52(), means.Constant()), make_data()),
    "sum of kernels": (Model(MLP((2, 2)), SquaredExponential(dims=(0,)) + Linear(dims=(1,)) * Constant()), make_data()),
    "rational quadratic": (Model(MLP((2, 1)), RationalQuadratic(ard=False), means.Constant()), make_data()),
    "warped": (Model(MLP((2, 1)), Matern32(), means.Linear(), warping=TanhWarping(2)), make_data()),
    "known noise": (Model(MLP((2, 1))), make_data(known=True)),
    "known noise alone": (Model(MLP((2, 1)), noise=GaussianNoise(False, 0.1)), make_data(known=True)),
    "floor alone": (Model(MLP((2, 1)), noise=GaussianNoise(False, 0.3)), make_data()),
    "mask": (Model(MLP((2, 1)), mean=means.Constant(), warping=TanhWarping(1)), make_data(masked=True, known=True)),
    "batched": (Model(MLP((2, 1)), mean=means.Linear(), warping=TanhWarping(2)), make_data(batched=True, known=True)),
    "batched, masked": (Model(MLP((2, 1)), warping=TanhWarping(1)), make_data(batched=True, masked=True)),
    "shared features": (Model(MLP((3, 2)), mean=means.Linear(), outputs=2), make_data(outputs=2)),
    "shared, known noise alone": (Model(MLP((2, 1)), noise=GaussianNoise(False, 0.1), outputs=2), make_data(2, known=True)),
    "shared, warped, masked": (Model(MLP((2, 1)), Matern52(), warping=TanhWarping(2), outputs=2), make_data(2, True, True)),
    "shared, mean on features": (Model(MLP((3, 4)), mean=means.Linear(on="features"), outputs=2), make_data(outputs=2)),
    "shared, batched, linear mean": (Model(MLP((2, 1)), mean=means.Linear(), outputs=2), make_data(2, True, True, True)),
    "shared, batched, masked": (Model(MLP((2, 1)), Matern32(), means.Constant(), outputs=2), make_data(2, True, True, True)),
    "as many targets as starts": (Model(MLP((2, 1)), warping=TanhWarping(1), outputs=R), make_data(R, True, True, True)),
    "kernel without parameters": (Model(kernel=SquaredExponential(amplitude=False, scaled=False)), make_data(known=True)),
    "kernel and noise without": (
        Model(kernel=SquaredExponential(amplitude=False, scaled=False), mean=means.Linear(), noise=GaussianNoise(False, 0.3)),
        make_data(known=True),
    ),
}

WITH_CONSTANTS = {
    "any module": (Model(half_frozen(), mean=means.Module(seeded(lambda: nn.Linear(2, 1)))), make_data()),
    "chain with constants": (Model(PCA(1) >> MLP((2, 2))), make_data()),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def draw(model, data, count=R, seed=5):
    """Layout and starting values, with enough noise for finite differences to have digits."""
    layout, values = model.draw(data, generator(seed), count)
    if model.noise.learned:
        values["noise"]["scale"] = 0.3 + 0.1 * values["noise"]["scale"].clamp(max=1.0)
    return layout, values


def one(values, start, output=None):
    """Values of one start (and one output) without batch dimensions, as NumPy arrays."""

    def pick(name, leaf):
        leaf = leaf[start]
        return (leaf if output is None or name.startswith("features") else leaf[output]).numpy()

    return nest({name: pick(name, leaf) for name, leaf in leaves(values)})


def slow_nlml(model, values, data, start):
    """The reference's NLML of one start, outputs added up."""
    own = data.rows(torch.tensor(start))
    X, mask = own.X.numpy(), None if own.mask is None else own.mask.numpy()
    total = 0.0
    for o in range(model.outputs) if model.outputs else [None]:
        y, known = (None if t is None else t.numpy() if o is None else t[o].numpy() for t in (own.y, own.known_noise))
        total += reference.model_nlml(model, one(values, start, o), X, y, known, mask)
    return total


def test_nlml_is_the_reference_for_every_start(case):
    model, data = case
    _, values = draw(model, data)
    fast = model.nlml(values, data)
    assert fast.shape == (R,)
    np.testing.assert_allclose(fast.numpy(), [slow_nlml(model, values, data, r) for r in range(R)], rtol=1e-9)


@pytest.mark.parametrize("name", [*CASES, *WITH_CONSTANTS])
def test_batched_starts_equal_single_ones(name):
    model, data = (CASES | WITH_CONSTANTS)[name]
    layout, values = draw(model, data)
    constants = map_leaves(lambda leaf: leaf[0], layout.constants(values))
    theta = layout.flatten(values).requires_grad_()
    together = model.nlml(layout.unflatten(theta, constants), data)
    (gradient,) = torch.autograd.grad(together.sum(), theta)
    for r in range(R):
        alone = theta[r].detach().requires_grad_()
        value = model.nlml(layout.unflatten(alone, constants), data.rows(torch.tensor(r)))
        assert value.shape == ()
        assert value.item() == pytest.approx(together[r].item(), rel=1e-11)
        torch.testing.assert_close(torch.autograd.grad(value, alone)[0], gradient[r], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", [*CASES, *WITH_CONSTANTS])
def test_gradient_of_every_parameter_against_finite_differences(name):
    model, data = (CASES | WITH_CONSTANTS)[name]
    layout, values = draw(model, data)
    constants = map_leaves(lambda leaf: leaf[0], layout.constants(values))
    theta = layout.flatten(values).requires_grad_()

    def value(theta):
        return model.nlml(layout.unflatten(theta, constants), data)

    assert torch.autograd.gradcheck(value, (theta,), eps=1e-5, atol=2e-6, rtol=1e-6, nondet_tol=1e-10)
    (gradient,) = torch.autograd.grad(value(theta).sum(), theta)
    silent = [n for n in layout.names if not (gradient[:, layout.slices[n]].abs() > 1e-12).any()]
    assert not silent


def test_second_derivatives_of_a_network_against_finite_differences():
    model, data = CASES["shared, warped, masked"]
    layout, values = draw(model, data, count=1)
    theta = layout.flatten(values)[0].requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda theta: model.nlml(layout.unflatten(theta, {}), data), (theta,), atol=1e-4, rtol=1e-4, nondet_tol=1e-9
    )


def test_a_masked_row_is_as_good_as_absent():
    model, data = CASES["mask"]
    _, values = draw(model, data)
    kept = data.mask > 0
    rest = Data(data.X[kept], data.y[kept], data.known_noise[kept])
    torch.testing.assert_close(model.nlml(values, data), model.nlml(values, rest), rtol=1e-12, atol=1e-12)
    other = replace(data, X=data.X + 100 * (1 - data.mask)[:, None], y=data.y + 100 * (1 - data.mask))
    torch.testing.assert_close(model.nlml(values, other), model.nlml(values, rest), rtol=1e-12, atol=1e-12)


def test_starting_values_do_not_see_masked_rows():
    model = Model(MLP((4, 2)), mean=means.Linear())
    data = make_data(masked=True)
    kept = data.mask > 0
    _, with_mask = model.draw(data, generator(), 2)
    _, without = model.draw(Data(data.X[kept], data.y[kept]), generator(), 2)
    for (name, a), (_, b) in zip(leaves(with_mask), leaves(without), strict=True):
        assert torch.equal(a, b), name


def test_each_start_redraws_network_and_kernel_and_every_output_its_own_kernel():
    model, data = Model(MLP((3, 2)), mean=means.Linear(), warping=TanhWarping(2), outputs=2), make_data(2)
    layout, values = model.draw(data, generator(), 4)
    for name, leaf in leaves(values):
        assert leaf.shape == (4, *layout.parameters[name].shape)
        assert len(torch.unique(leaf.reshape(4, -1), dim=0)) == 4, name
        if not name.startswith("features"):
            assert layout.parameters[name].shape[0] == 2
            assert not torch.equal(leaf[:, 0], leaf[:, 1]), name


def test_the_kernel_starts_at_the_scale_of_its_features():
    data = Data(normal(50, 1), normal(50))
    small = Model(MLP((4, 2), ("tanh", "identity")))
    _, values = small.draw(data, generator(), 200)
    H = small.features(values["features"], data.X)
    ratio = values["kernel"]["lengthscale"] / H.std(-2, correction=0)
    assert float(ratio.log().mean().exp()) == pytest.approx(2**0.5, rel=0.15)  # sqrt(Q), scattered by exp(0.7 N)
    assert float(ratio.log().std()) == pytest.approx(0.7, rel=0.15)


def test_priors_go_by_pattern_and_unknown_patterns_are_refused():
    model = Model(MLP((3, 2)), priors={"kernel.*": LogNormal(0.0, 1.0)})
    layout, _ = model.draw(make_data(), generator(), 1)
    with_prior = {name for name, parameter in layout.parameters.items() if parameter.prior}
    assert with_prior == {"kernel.variance", "kernel.lengthscale"}
    with pytest.raises(InputError, match=r"No trainable parameter matches the prior's pattern 'kernel.typo'"):
        replace(model, priors={"kernel.typo": LogNormal()}).draw(make_data(), generator(), 1)


# ------------------------------------------------------------------------ Identity features are a plain GP, as others have it

PLAIN = {
    "se": (SquaredExponential(), RBF, {}),
    "matern32": (Matern32(), Matern, {"nu": 1.5}),
    "matern52": (Matern52(), Matern, {"nu": 2.5}),
}
FLOOR = GaussianNoise().floor


@pytest.fixture(params=PLAIN)
def plain(request):
    """A plain GP on 25 rows: name, model, layout, values of one start, data, new inputs."""
    X = normal(25, 3, seed=8)
    data = Data(X, torch.sin(X[:, 0]) + 0.1 * normal(25, seed=9))
    model = Model(kernel=PLAIN[request.param][0])
    layout, values = model.draw(data, generator(3), 1)
    values["noise"]["scale"][:] = 0.2
    return request.param, model, layout, values, data, normal(6, 3, seed=10)


def test_identity_features_equal_scikit_learn(plain):
    name, model, layout, values, data, X_new = plain
    _, kernel, options = PLAIN[name]
    lengthscale, variance = values["kernel"]["lengthscale"][0].numpy(), float(values["kernel"]["variance"])
    theirs = ConstantKernel(variance) * kernel(lengthscale, **options) + WhiteKernel(0.2**2)
    gp = GaussianProcessRegressor(theirs, alpha=FLOOR**2, optimizer=None).fit(data.X.numpy(), data.y.numpy())
    value, slope = gp.log_marginal_likelihood(gp.kernel_.theta, eval_gradient=True)

    theta = layout.flatten(values).requires_grad_()
    nlml = model.nlml(layout.unflatten(theta, {}), data)
    (gradient,) = torch.autograd.grad(nlml.sum(), theta)
    assert nlml.item() == pytest.approx(-value, rel=1e-10)
    of = {n: gradient[0, layout.slices[n]].numpy() for n in layout.names}
    np.testing.assert_allclose(of["kernel.variance"], -slope[:1], rtol=1e-8)
    np.testing.assert_allclose(of["kernel.lengthscale"], -slope[1:4], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(of["noise.scale"], -2 * slope[4:], rtol=1e-8)  # theirs is the log variance

    mean, covariance = gp.predict(X_new.numpy(), return_cov=True)
    ours, C = condition(model, values, data).covariance(X_new)
    np.testing.assert_allclose(ours[0], mean, rtol=1e-8)
    np.testing.assert_allclose(C[0], covariance - 0.2**2 * np.eye(6), rtol=1e-8, atol=1e-10)


def test_identity_features_equal_gpytorch(plain):
    name, model, _, values, data, X_new = plain

    class ExactGP(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(data.X, data.y, gpytorch.likelihoods.GaussianLikelihood().double())
            inner = {"se": gpytorch.kernels.RBFKernel(ard_num_dims=3)}.get(name)
            inner = inner or gpytorch.kernels.MaternKernel(PLAIN[name][2]["nu"], ard_num_dims=3)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(inner).double()

        def forward(self, X):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    theirs = ExactGP()
    theirs.covar_module.outputscale = values["kernel"]["variance"][0]
    theirs.covar_module.base_kernel.lengthscale = values["kernel"]["lengthscale"][0]
    theirs.likelihood.noise = 0.2**2 + FLOOR**2
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(theirs.likelihood, theirs)
    settings = gpytorch.settings.fast_computations(False, False, False)
    with settings, torch.no_grad():
        value = -25 * mll(theirs(data.X), data.y)
        theirs.eval()
        f = theirs(X_new)
        mean, C = f.mean, f.covariance_matrix
    assert float(model.nlml(values, data)) == pytest.approx(float(value), rel=1e-8)
    ours = condition(model, values, data).covariance(X_new)
    torch.testing.assert_close(ours[0][0], mean, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(ours[1][0], C, rtol=1e-8, atol=1e-9)


def test_leave_one_out_of_a_plain_gp(plain):
    _, model, _, values, data, _ = plain
    loo = condition(model, values, data).leave_one_out()
    mean, variance = reference.leave_one_out(model, one(values, 0), data.X.numpy(), data.y.numpy())
    np.testing.assert_allclose(loo.mean[0], mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(loo.variance[0], variance, rtol=1e-8)


# ------------------------------------------------------------------------------------------------------------ anything goes in


@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 4),
    starts=st.integers(1, 3),
    log_scale=st.floats(-6, 6),
    gap=st.sampled_from([0.0, 1e-15, 1e-12, 1e-9, 1e-6]),
    network=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_finite_or_a_clear_error_whatever_the_shapes_and_scales(rows, columns, starts, log_scale, gap, network, seed):
    X = normal(rows, columns, seed=seed)
    X[rows // 2 :] = X[: rows - rows // 2] + gap * X[rows // 2 :]  # near duplicates
    data = Data(X, 10**log_scale * normal(rows, seed=seed + 1))
    model = Model(MLP((3, 2)) if network else Identity())
    layout, values = model.draw(data, generator(seed), starts)
    values["noise"]["scale"] *= 10 ** torch.linspace(-9, 0, starts, dtype=torch.float64)
    theta = layout.flatten(values).requires_grad_()
    value = model.nlml(layout.unflatten(theta, {}), data)
    (gradient,) = torch.autograd.grad(value.sum(), theta)
    good = torch.isfinite(value)
    assert bool((good | (value == torch.inf)).all())
    assert torch.isfinite(gradient[good]).all()
    try:
        posterior = condition(model, values, data)
    except NotPositiveDefiniteError:
        assert not good.all()
        return
    assert not (posterior.jitter[good] > 0).any()
    mean, variance = posterior.mean_and_variance(normal(5, columns, seed=seed + 2))
    assert mean.shape == variance.shape == (starts, 5)
    assert torch.isfinite(mean).all()
    prior = values["kernel"]["variance"][:, None]
    assert bool(((variance >= 0) & (variance <= prior * (1 + 1e-9))).all())


def test_inputs_far_apart_in_scale_are_finite_or_infinite_never_nan():
    X = normal(6, 2) * torch.tensor([1e150, 1e-150])
    data = Data(X, normal(6))
    model = Model()
    values = {"kernel": {"variance": torch.ones(1), "lengthscale": torch.ones(1, 2)}, "noise": {"scale": torch.ones(1)}}
    values = map_leaves(lambda leaf: leaf.double(), values)
    assert not model.nlml(values, data).isnan().any()
    values["kernel"]["lengthscale"][:] = 1e-200  # distances overflow
    assert not model.nlml(values, data).isnan().any()


@pytest.mark.parametrize(("rows", "waves", "seed"), [(150, 60, 0), (150, 60, 1), (500, 120, 0)])
def test_a_signal_of_many_waves_is_not_taken_for_noise(rows, waves, seed):
    """No start was short enough: all of the signal, ten waves and more, was taken for noise."""
    rng = np.random.default_rng(seed)
    x, new = rng.uniform(0, 1, (rows, 1)), rng.uniform(0.02, 0.98, (200, 1))
    model = GPRegressor(random_state=seed).fit(x, np.sin(waves * x[:, 0]) + 0.05 * rng.normal(size=rows))
    assert np.sqrt(np.mean((model.predict(new) - np.sin(waves * new[:, 0])) ** 2)) < 0.1


@pytest.mark.parametrize(("rows", "inputs", "factor"), [(140, 1, 0.1), (400, 2, 0.7 / 2**0.5), (100, 4, 1.0)])
def test_the_last_start_is_as_short_as_rows_can_show(rows, inputs, factor, monkeypatch):
    generator = torch.Generator()
    data = Data(torch.randn(rows, inputs, generator=generator.manual_seed(1), dtype=torch.float64), torch.zeros(rows).double())

    def drawn():
        return Model().draw(data, generator.manual_seed(0), 3)[1]["kernel"]["lengthscale"]

    shortened = drawn()
    monkeypatch.setattr("manifoldgp.model._ROWS_OF_A_WAVE", 1e9)
    torch.testing.assert_close(shortened, drawn() * torch.tensor([1.0, 1.0, factor])[:, None].double())
