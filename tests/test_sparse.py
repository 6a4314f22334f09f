"""The sparse model against the slow reference and the exact model: bound, gradient, posterior, inducing points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import reference
from manifoldgp import means
from manifoldgp.errors import DisconnectedParameterError, NotPositiveDefiniteError
from manifoldgp.features import MLP, Concatenate, Identity
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.inference.sparse_posterior import condition_sparse, split_rows
from manifoldgp.inference.sparse_sums import add_lower_product_, lower_times, place_inducing
from manifoldgp.kernels import Linear, Matern52, SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import Layout, Parameter, constant_law, leaves, map_leaves, nest
from manifoldgp.training.inducing_placement import greedy_inducing_points
from manifoldgp.training.model_rows import MemoryRows
from manifoldgp.training.sparse_objective import BoundObjective
from manifoldgp.warping import TanhWarping

N, D, M = 23, 2, 7

MODELS = {
    "plain": Model(),
    "network, linear mean": Model(MLP((3, 2)), Matern52(), means.Linear()),
    "network, linear mean on features": Model(MLP((3, 4)), Matern52(), means.Linear(on="features")),
    "x beside a network": Model(Concatenate(Identity(), MLP((3, 1))), SquaredExponential() + Linear(), means.Constant()),
    "warped": Model(MLP((3, 2)), warping=TanhWarping(2)),
    "known noise alone": Model(MLP((3, 2)), noise=GaussianNoise(False, 0.1)),
    "kernel without parameters": Model(kernel=SquaredExponential(amplitude=False, scaled=False)),
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@pytest.fixture(params=[False, True], ids=["learned noise", "known noise too"])
def data(request):
    X = normal(N, D, seed=1)
    known = 0.05 + 0.1 * normal(N, seed=3) ** 2 if request.param else None
    return Data(X, torch.sin(X.sum(-1)) + 0.1 * normal(N, seed=2), known)


def draw(model, data, Z=None, seed=4):
    """Layout with inducing points, and values without batch; Z = every third row's features unless given ("all": of all rows)."""
    layout, drawn = model.draw(data, generator(seed), 1)
    values = map_leaves(lambda leaf: leaf[0], drawn)
    if model.noise.learned:
        values["noise"]["scale"] = 0.2 + 0.1 * values["noise"]["scale"].clamp(max=1.0)
    H = model.features(values.get("features", {}), data.X)
    points = H if Z == "all" else H[::3] + 0.05 * normal(len(H[::3]), H.shape[1], seed=6)
    values["inducing"] = {"Z": points.detach().clone()}
    tree = nest(dict(layout.parameters))
    return Layout({**tree, "inducing": {"Z": Parameter(tuple(points.shape), constant_law(points))}}), values


def objective_of(model, layout, data, size=5, **more):
    return BoundObjective(model, layout, {}, MemoryRows(data, size=size), **more)


def as_numpy(values):
    return nest({name: leaf.numpy() for name, leaf in leaves(values)})


def batched(values):
    return map_leaves(lambda leaf: leaf[None], values)


def test_the_bound_is_the_references(model, data):
    layout, values = draw(model, data)
    known = None if data.known_noise is None else data.known_noise.numpy()
    slow = reference.collapsed_bound(model, as_numpy(values), data.X.numpy(), data.y.numpy(), known)
    theta = layout.flatten(values)
    fast, _ = objective_of(model, layout, data).evaluate(theta.numpy())
    assert fast - float(layout.negative_log_prior(theta)) == pytest.approx(slow, rel=1e-7)


def test_the_gradient_is_the_bounds_slope(model, data):
    layout, values = draw(model, data)
    objective, theta = objective_of(model, layout, data, size=12), layout.flatten(values).numpy()
    _, gradient = objective.evaluate(theta)
    step, slopes, rng = 1e-6, [], np.random.default_rng(0)
    one_of_each = [where.start + rng.integers(where.stop - where.start) for where in layout.slices.values()]
    directions = np.concatenate([np.eye(len(theta))[one_of_each], rng.normal(size=(2, len(theta)))])
    for e in directions:
        slopes.append((objective.evaluate(theta + step * e)[0] - objective.evaluate(theta - step * e)[0]) / (2 * step))
    np.testing.assert_allclose(directions @ gradient, slopes, rtol=2e-5, atol=2e-5 * np.abs(gradient).max())


def test_with_every_row_an_inducing_point_it_is_the_exact_model(model, data):
    layout, values = draw(model, data, Z="all")
    exact = {name: tree for name, tree in values.items() if name != "inducing"}
    theta = layout.flatten(values)
    value, gradient = objective_of(model, layout, data).evaluate(theta.numpy())
    nlml = float(model.nlml(exact, data)) + float(layout.negative_log_prior(theta))
    assert value == pytest.approx(nlml, abs=1e-8 * N)
    X = normal(6, D, seed=9)
    sparse, dense = condition_sparse(model, batched(values), data), condition(model, batched(exact), data)
    for fast, slow in zip(sparse.covariance(X), dense.covariance(X), strict=True):
        np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-8)
    assert np.isfinite(gradient).all()


def test_the_bound_is_never_above_the_evidence(model, data):
    for seed in range(5):
        layout, values = draw(model, data, seed=seed)
        theta = layout.flatten(values)
        value, _ = objective_of(model, layout, data).evaluate(theta.numpy())
        nlml = model.nlml({name: tree for name, tree in values.items() if name != "inducing"}, data)
        assert value - float(layout.negative_log_prior(theta)) >= float(nlml) - 1e-6


def test_chunks_and_what_is_kept_of_them_change_nothing(data):
    model = MODELS["x beside a network"]
    layout, values = draw(model, data)
    theta = layout.flatten(values).numpy()
    whole = objective_of(model, layout, data, size=N).evaluate(theta)
    for kept in (0, 4 * 8 * 8 * 12, 2**20):
        value, gradient = objective_of(model, layout, data, size=5, kept_bytes=kept).evaluate(theta)
        assert value == pytest.approx(whole[0], rel=1e-12)
        np.testing.assert_allclose(gradient, whole[1], rtol=1e-9, atol=1e-9)


def test_the_posterior_is_the_references(model, data):
    _, values = draw(model, data)
    X = normal(6, D, seed=9)
    known = None if data.known_noise is None else data.known_noise.numpy()
    slow_mean, slow_C = reference.sparse_posterior(model, as_numpy(values), data.X.numpy(), data.y.numpy(), X.numpy(), known)
    posterior = condition_sparse(model, batched(values), data)
    mean, C = posterior.covariance(X)
    np.testing.assert_allclose(mean[0], slow_mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(C[0], slow_C, rtol=0, atol=1e-6)
    mean, variance = posterior.mean_and_variance(X)
    np.testing.assert_allclose(mean[0], slow_mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(variance[0], slow_C.diagonal(), rtol=0, atol=1e-6)


def test_conditioning_on_more_rows_equals_conditioning_on_all(model, data):
    _, values = draw(model, data)
    first, second = split_rows(data, 15)
    X = normal(6, D, seed=9)
    updated = condition_sparse(model, batched(values), first).condition(second.X, second.y, second.known_noise)
    at_once = condition_sparse(model, batched(values), data)
    assert updated.rows == at_once.rows == N
    for a, b in zip(updated.covariance(X), at_once.covariance(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)


def test_a_thousand_updates_at_the_noise_floor_equal_conditioning_on_all():
    X = normal(1040, D, seed=1)
    every = Data(X, torch.sin(2 * X[:, 0]) + X[:, 1] / 2)
    named = {"kernel.variance": [1.0], "kernel.lengthscale": [[1.5, 4.5]], "noise.scale": [1e-9]}
    named = {name: torch.tensor(leaf, dtype=torch.float64) for name, leaf in named.items()}
    values = nest({**named, "inducing.Z": X[None, :20]})
    online = condition_sparse(Model(), values, Data(every.X[:40], every.y[:40]))
    for i in range(40, 1040):
        online = online.condition(every.X[i : i + 1], every.y[i : i + 1])
    at = normal(50, D, seed=9)
    (mean, variance), (expected, expected_variance) = (
        posterior.mean_and_variance(at) for posterior in (online, condition_sparse(Model(), values, every))
    )
    torch.testing.assert_close(mean, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(variance.sqrt(), expected_variance.sqrt(), rtol=0, atol=1e-6)


def test_members_predict_as_they_do_alone(data):
    model = MODELS["network, linear mean"]
    both = [draw(model, data, seed=seed)[1] for seed in (4, 5)]
    together = nest({name: torch.stack([dict(leaves(v))[name] for v in both]) for name, _ in leaves(both[0])})
    posterior, X = condition_sparse(model, together, data), normal(6, D, seed=9)
    for r, values in enumerate(both):
        alone = condition_sparse(model, batched(values), data)
        for a, b, c in zip(
            posterior.mean_and_variance(X),
            posterior.only(torch.tensor([r])).mean_and_variance(X),
            alone.mean_and_variance(X),
            strict=True,
        ):
            np.testing.assert_allclose(a[r], c[0], rtol=1e-10)
            np.testing.assert_allclose(b[0], c[0], rtol=1e-10)


def test_an_ensemble_of_sparse_members_samples_and_differentiates(data):
    model = MODELS["x beside a network"]
    ensemble = Ensemble([condition_sparse(model, batched(draw(model, data)[1]), data)], [torch.zeros(1, 1, dtype=torch.float64)])
    X = normal(4, D, seed=9)
    draws = ensemble.sample(X, 4000, generator(), latent=True)
    mean, C = ensemble.covariance(X, latent=True)
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.06)
    np.testing.assert_allclose(np.cov(draws.T.numpy()), C, atol=0.06)
    step = 1e-6
    slope = ensemble.gradients(X)
    for d in range(D):
        e = step * torch.eye(D, dtype=torch.float64)[d]
        up, down = (ensemble.predict(X + sign * e, latent=True).moments() for sign in (1, -1))
        for analytic, (a, b) in zip(slope, zip(up, down, strict=True), strict=True):
            np.testing.assert_allclose(analytic[:, d], (a - b) / (2 * step), rtol=1e-4, atol=1e-6)


def test_greedy_points_are_those_that_are_least_known():
    H = normal(30, 2, seed=8)
    kernel, values = (
        Matern52(),
        {"variance": torch.tensor(1.3, dtype=torch.float64), "lengthscale": torch.tensor([0.7, 1.1], dtype=torch.float64)},
    )
    chosen = greedy_inducing_points(Model(kernel=kernel), {"kernel": values}, H, 9)
    K = kernel.matrix(values, H).numpy()
    assert chosen.tolist() == reference.greedy_rows(K, 9)
    more = greedy_inducing_points(Model(kernel=kernel), {"kernel": values}, H, 9, given=H[chosen[:4]])
    assert more.tolist() == chosen[4:].tolist()


def test_repeated_rows_become_one_inducing_point():
    H = normal(5, 2, seed=8).repeat(4, 1)
    values = {"variance": torch.tensor(1.0, dtype=torch.float64), "lengthscale": torch.ones(2, dtype=torch.float64)}
    assert len(greedy_inducing_points(Model(), {"kernel": values}, H, 20)) == 5


def test_products_with_triangles():
    L, B = normal(9, 9).tril(), normal(9, 4, seed=1)
    np.testing.assert_allclose(lower_times(L, B), L @ B, rtol=1e-12)
    P = torch.zeros(9, 9, dtype=torch.float64)
    add_lower_product_(P, B, B)
    np.testing.assert_allclose(P.tril(), (B @ B.mT).tril(), rtol=1e-12)


def test_coincident_inducing_points_need_jitter_and_get_no_more(data):
    _, values = draw(MODELS["plain"], data)
    values["inducing"]["Z"] = values["inducing"]["Z"][:1].repeat(6, 1)
    placed = place_inducing(MODELS["plain"], values)
    assert placed is not None
    assert placed.rung == 0
    values["kernel"]["lengthscale"] = torch.full((2,), torch.nan, dtype=torch.float64)
    assert place_inducing(MODELS["plain"], values) is None
    with pytest.raises(NotPositiveDefiniteError, match="inducing points"):
        condition_sparse(MODELS["plain"], batched(values), data)


def test_a_value_without_a_factor_is_infinite(data):
    layout, values = draw(MODELS["plain"], data)
    values["kernel"]["lengthscale"] = torch.full((2,), torch.nan, dtype=torch.float64)
    value, gradient = objective_of(MODELS["plain"], layout, data).evaluate(layout.flatten(values).numpy())
    assert value == np.inf
    assert not gradient.any()


def test_a_parameter_without_a_gradient_is_refused(data):
    class Deaf(MLP):
        def __call__(self, values, X):
            return super().__call__(map_leaves(lambda leaf: leaf.detach(), values), X)

    model = Model(Deaf((3, 2)))
    layout, values = draw(model, data)
    objective = objective_of(model, layout, data)
    with pytest.raises(DisconnectedParameterError, match="features.0.weight"):
        objective.refuse_disconnected(layout.flatten(values).numpy())
    layout, values = draw(MODELS["warped"], data)
    objective_of(MODELS["warped"], layout, data).refuse_disconnected(layout.flatten(values).numpy())


def test_nothing_is_made_on_the_default_device(data):
    """Tensors that name no device would land on the default one; with that set to "meta", mixing them with real ones fails."""
    model = MODELS["x beside a network"]
    layout, values = draw(model, data)
    theta, X = layout.flatten(values).numpy(), normal(5, D, seed=9)
    with torch.device("meta"):
        value, gradient = objective_of(model, layout, data).evaluate(theta)
        posterior = condition_sparse(model, batched(values), data)
        mean, C = posterior.condition(data.X, data.y, data.known_noise).covariance(X)
        H = model.features(values["features"], data.X)
        chosen = greedy_inducing_points(model, values, H, 3)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    assert {mean.device.type, C.device.type, chosen.device.type} == {"cpu"}
