"""The posterior against the slow reference: moments, chunks, online conditioning, joint draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import reference
from manifoldgp import means
from manifoldgp.errors import InputError, NotPositiveDefiniteError
from manifoldgp.features import MLP, Concatenate, Identity
from manifoldgp.inference import exact_posterior as posterior
from manifoldgp.inference import posterior as conditioned
from manifoldgp.inference.certainty import Certainty
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.kernels import Constant, Linear, Matern32, Matern52, SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import leaves, nest
from manifoldgp.warping import TanhWarping

N, D, R = 9, 2, 3

MODELS = {
    "plain": Model(),
    "network, linear mean": Model(MLP((3, 2)), Matern52(), means.Linear()),
    "network, linear mean on features": Model(MLP((3, 4)), Matern52(), means.Linear(on="features")),
    "x beside a network": Model(Concatenate(Identity(), MLP((2, 1))), SquaredExponential() + Linear(), means.Constant()),
    "warped": Model(MLP((3, 2)), Matern32(), means.Constant(), warping=TanhWarping(2)),
    "known noise alone": Model(MLP((3, 2)), noise=GaussianNoise(False, 0.1)),
    "kernel without parameters": Model(kernel=SquaredExponential(amplitude=False, scaled=False)),
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def make_data(rows=N, known=True, seed=1):
    X = normal(rows, D, seed=seed)
    return Data(
        X, torch.sin(X.sum(-1)) + 0.1 * normal(rows, seed=seed + 1), 0.1 * normal(rows, seed=seed + 2) ** 2 if known else None
    )


def draw(model, data, members=R, seed=4):
    _, values = model.draw(data, generator(seed), members)
    if model.noise.learned:
        values["noise"]["scale"] = 0.2 + 0.1 * values["noise"]["scale"].clamp(max=1.0)
    return values


def one(values, member):
    return nest({name: leaf[member].numpy() for name, leaf in leaves(values)})


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@pytest.mark.parametrize("known", [False, True])
def test_moments_and_covariance_are_the_references(model, known):
    data, X = make_data(known=known), normal(5, D, seed=7)
    values = draw(model, data)
    fitted = condition(model, values, data)
    mean, variance = fitted.mean_and_variance(X)
    joint_mean, C = fitted.covariance(X)
    assert fitted.members == R
    assert float(fitted.jitter.max()) == 0.0
    for r in range(R):
        noise = None if data.known_noise is None else data.known_noise.numpy()
        slow_mean, slow_C = reference.model_posterior(model, one(values, r), data.X.numpy(), data.y.numpy(), X.numpy(), noise)
        np.testing.assert_allclose(mean[r], slow_mean, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(joint_mean[r], slow_mean, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(C[r], slow_C, rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(variance[r], np.diag(slow_C), rtol=1e-8, atol=1e-11)


def test_leave_one_out_is_leaving_one_out(model):
    data = make_data()
    values = draw(model, data)
    loo = condition(model, values, data).leave_one_out()
    for r in range(R):
        mean, variance = reference.leave_one_out(model, one(values, r), data.X.numpy(), data.y.numpy(), data.known_noise.numpy())
        z, _ = reference.warped(model.warping, one(values, r).get("warping", {}), data.y.numpy())
        np.testing.assert_allclose(loo.mean[r], mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(loo.variance[r], variance, rtol=1e-8)
        np.testing.assert_allclose(
            loo.log_density[r], -0.5 * ((z - mean) ** 2 / variance + np.log(2 * np.pi * variance)), rtol=1e-7
        )


def same(a, b, tolerance=1e-9):
    for name in ("H", "L", "z", "alpha"):
        torch.testing.assert_close(getattr(a, name), getattr(b, name), rtol=tolerance, atol=tolerance)
    for name in ("X", "y", "known_noise"):
        left, right = getattr(a.data, name), getattr(b.data, name)
        assert (left is None and right is None) or torch.equal(left, right)


@pytest.mark.parametrize("known", [False, True])
def test_conditioning_on_more_rows_equals_conditioning_on_all(model, known):
    every = make_data(14, known)
    values = draw(model, every)
    rows = [slice(0, 6), slice(6, 7), slice(7, 12), slice(12, 14)]
    first = Data(every.X[rows[0]], every.y[rows[0]], every.known_noise[rows[0]] if known else None)
    online = condition(model, values, first)
    for part in rows[1:]:
        online = online.condition(every.X[part], every.y[part], every.known_noise[part] if known else None)
    at_once = condition(model, values, every)
    same(online, at_once)
    X = normal(4, D, seed=11)
    for a, b in zip(online.mean_and_variance(X), at_once.mean_and_variance(X), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_known_noise_may_come_later_or_stop_coming():
    every = make_data(10, known=False)
    model = MODELS["plain"]
    values = draw(model, every)
    noise = torch.tensor([0.5, 0.7], dtype=torch.float64)
    online = condition(model, values, Data(every.X[:6], every.y[:6]))
    online = online.condition(every.X[6:8], every.y[6:8], noise).condition(every.X[8:], every.y[8:])
    known = torch.cat([torch.zeros(6, dtype=torch.float64), noise, torch.zeros(2, dtype=torch.float64)])
    same(online, condition(model, values, replace(every, known_noise=known)))


def test_conditioning_on_no_rows_changes_nothing():
    data = make_data()
    fitted = condition(MODELS["plain"], draw(MODELS["plain"], data), data)
    assert fitted.condition(data.X[:0], data.y[:0]) is fitted


@pytest.mark.parametrize("floor", [6e-6, 1e-8])
def test_near_duplicates_can_be_added_to_noise_free_data(floor):
    x = torch.linspace(-2, 2, 40, dtype=torch.float64)[:, None]
    data = Data(x, torch.sin(x[:, 0]))
    values = {"kernel.variance": [10.0], "kernel.lengthscale": [[1.5]], "noise.scale": [1e-12]}
    values = nest({name: torch.tensor(leaf, dtype=torch.float64) for name, leaf in values.items()})
    # What is left of the new rows' covariance is rounding, relative to the prior variance.
    fitted = condition(Model(noise=GaussianNoise(floor=floor)), values, data)
    more = fitted.condition(x[:30] + 0.01, torch.sin(x[:30, 0] + 0.01))
    mean, _ = more.mean_and_variance(x)
    torch.testing.assert_close(mean[0], data.y, rtol=0, atol=1e-5)
    assert float(more.jitter) <= 1e-12 * 10.0


def smooth_rows(rows, noise=0.0, seed=1):
    X = normal(rows, D, seed=seed)
    return Data(X, torch.sin(2 * X[:, 0]) + X[:, 1] / 2 + noise * normal(rows, seed=seed + 1))


def at_noise(scale, members=(1.0, 100.0, 9000.0)):
    """Values of members with these signal variances."""
    named = {
        "kernel.variance": torch.tensor(members, dtype=torch.float64),
        "kernel.lengthscale": torch.tensor([[2.0, 9.0]] * len(members), dtype=torch.float64),
        "noise.scale": torch.full((len(members),), scale, dtype=torch.float64),
    }
    return nest(named)


def assert_conditioned_anew(online, X):
    anew = condition(online.model, online.values, online.data)
    (mean, variance), (expected, expected_variance) = online.mean_and_variance(X), anew.mean_and_variance(X)
    torch.testing.assert_close(mean, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(variance.sqrt(), expected_variance.sqrt(), rtol=0, atol=1e-6)
    assert torch.equal(online.jitter > 0, anew.jitter > 0)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("noise", [1e-9, 1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("kernel", [SquaredExponential(), Matern52()])
def test_many_updates_equal_conditioning_anew(noise, kernel):
    every, X = smooth_rows(180, noise), normal(50, D, seed=5)
    online = condition(Model(kernel=kernel), at_noise(noise), Data(every.X[:20], every.y[:20]))
    for i in range(20, 180):
        online = online.condition(every.X[i : i + 1], every.y[i : i + 1])
        if i % 20 == 19:
            assert_conditioned_anew(online, X)


@pytest.mark.usefixtures("one_thread")
def test_a_thousand_rows_at_the_noise_floor_in_blocks():
    every, X = smooth_rows(1020), normal(50, D, seed=5)
    online = condition(Model(), at_noise(1e-9, (9000.0,)), Data(every.X[:20], every.y[:20]))
    for part in torch.arange(20, 1020).split(50):
        online = online.condition(every.X[part], every.y[part])
        assert_conditioned_anew(online, X)
    assert 0.0 < float(online.jitter) <= 1e-12 * 9000.0
    mean, _ = online.mean_and_variance(every.X)
    torch.testing.assert_close(mean[0], every.y, rtol=0, atol=1e-2)


def test_noisy_rows_are_never_factored_anew(monkeypatch):
    every, X = smooth_rows(200, noise=0.1), normal(50, D, seed=5)
    online = condition(Model(), at_noise(0.1), Data(every.X[:20], every.y[:20]))
    with monkeypatch.context() as patched:
        patched.setattr(posterior, "condition", None)
        for i in range(20, 200):
            online = online.condition(every.X[i : i + 1], every.y[i : i + 1])
    assert_conditioned_anew(online, X)


def test_a_row_far_from_all_gets_the_jitter_of_the_others():
    every = smooth_rows(40)
    twice = Data(every.X.repeat(2, 1), every.y.repeat(2))
    fitted = condition(Model(noise=GaussianNoise(floor=1e-9)), at_noise(1e-12), twice)
    assert bool((fitted.jitter > 0).all())
    far = torch.full((1, D), 1e3, dtype=torch.float64)
    more = fitted.condition(far, torch.zeros(1, dtype=torch.float64))
    added = (more.L[:, -1] ** 2).sum(-1) - more.prior_variance(far)[:, 0] - more.noise_variance()
    assert bool((more.jitter > 0).all())
    torch.testing.assert_close(added, more.jitter, rtol=0.2, atol=0)


def test_one_row_to_learn_from_and_one_to_predict(model):
    data = make_data(1)
    fitted = condition(model, draw(model, data), data)
    mean, variance = fitted.mean_and_variance(normal(1, D, seed=5))
    assert mean.shape == variance.shape == (R, 1)
    assert fitted.leave_one_out().variance.shape == (R, 1)
    assert torch.isfinite(mean).all()
    assert bool((variance > 0).all())
    nothing, _ = fitted.mean_and_variance(normal(0, D))
    assert nothing.shape == (R, 0)


@pytest.mark.parametrize("few", [1, 512], ids=["members together", "members one by one"])
def test_chunks_change_nothing(model, few, monkeypatch):
    data, X = make_data(), normal(23, D, seed=6)
    fitted = condition(model, draw(model, data), data)
    whole = fitted.mean_and_variance(X)
    monkeypatch.setattr(conditioned, "CHUNK_BYTES", 8 * R * 256 * 5)  # five rows at a time
    monkeypatch.setattr(conditioned, "_FEW_ROWS", few)
    assert fitted._rows_at_once == 5
    for a, b in zip(whole, fitted.mean_and_variance(X), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_the_mean_alone_is_the_same_mean(model):
    data, X = make_data(), normal(5, D, seed=6)
    fitted = condition(model, draw(model, data), data)
    mean, zeros = fitted.mean_and_variance(X, variance=False)
    torch.testing.assert_close(mean, fitted.mean_and_variance(X)[0], rtol=1e-12, atol=1e-12)
    assert not zeros.any()


def test_only_some_members_in_the_order_asked_for(model):
    data, X = make_data(), normal(5, D, seed=6)
    fitted = condition(model, draw(model, data), data)
    picked = fitted.only(torch.tensor([2, 0]))
    for a, b in zip(fitted.mean_and_variance(X), picked.mean_and_variance(X), strict=True):
        torch.testing.assert_close(a[[2, 0]], b, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(picked.noise_variance(), fitted.noise_variance()[[2, 0]])
    z = normal(3, 5, seed=2)
    rows = torch.tensor([1, 1, 2])
    y = fitted.unwarped(z, rows)
    for i, r in enumerate(rows):
        back, _ = reference.warped(model.warping, one(fitted.values, int(r)).get("warping", {}), y[i].numpy())
        np.testing.assert_allclose(back, z[i], rtol=1e-10, atol=1e-12)


def test_masked_rows_are_dropped_and_what_cannot_be_conditioned_is_refused():
    data = make_data()
    model = MODELS["plain"]
    values = draw(model, data)
    mask = torch.ones(N, dtype=torch.float64)
    mask[[0, 4]] = 0.0
    kept = mask > 0
    same(
        condition(model, values, replace(data, mask=mask)),
        condition(model, values, Data(data.X[kept], data.y[kept], data.known_noise[kept])),
    )
    with pytest.raises(InputError, match="one target and data that all members share"):
        condition(replace(model, outputs=2), values, data)
    with pytest.raises(InputError, match="one target and data that all members share"):
        condition(model, values, Data(data.X[None], data.y[None], batched=True))


def test_a_covariance_without_a_factor_is_refused_by_name():
    data = Data(torch.tensor([[0.0], [torch.nan]], dtype=torch.float64), normal(2))
    values = draw(Model(), Data(normal(3, 1), normal(3)))
    with pytest.raises(NotPositiveDefiniteError, match="not finite"):
        condition(Model(), values, data)


# --------------------------------------------------------------------------------------------------------------- joint draws


def make_ensemble(models, data, factors=(1.0, 4.0), members=2, seed=0, exponent=0.0, share=0.8):
    blocks = [condition(m, draw(m, data, members, seed + i), data) for i, m in enumerate(models)]
    log_weights = torch.log_softmax(normal(len(blocks), len(factors), members, seed=seed + 9), 0)
    log_weights = log_weights - torch.logsumexp(log_weights.reshape(-1), 0)
    certainty = Certainty(exponent, share, list(normal(len(blocks), members, seed=seed + 8))) if exponent else None
    return Ensemble(blocks, list(log_weights), factors, offset=3.0, scale=2.0, certainty=certainty)


def test_weights_follow_how_sure_members_are():
    """(1 − a) w_s + a r_s with r_s ∝ w_s (u_s / v_s(x))^β, member by member; v_s is the variance of y, also where that of f is asked for."""
    data, X = make_data(6), normal(4, D, seed=6)
    ensemble = make_ensemble([MODELS["plain"], MODELS["network, linear mean"]], data, exponent=0.7)
    slow = []
    for block, log_weights, usual in zip(ensemble.blocks, ensemble.log_weights, ensemble.certainty.usual, strict=True):
        for f in range(2):
            for r in range(block.members):
                v = block.mean_and_variance(X)[1][r] + block.noise_variance()[r]
                slow.append(log_weights[f, r].exp() * (usual[r].exp() / v) ** 0.7)
    slow = torch.stack(slow)
    same = torch.cat([w.flatten() for w in ensemble.log_weights]).exp()[:, None]
    for found in (ensemble.predict(X), ensemble.predict(X, latent=True)):
        torch.testing.assert_close(found.log_weights.exp(), 0.2 * same + 0.8 * slow / slow.sum(0), rtol=1e-12, atol=0)
    whole = replace(ensemble, certainty=replace(ensemble.certainty, share=1.0)).predict(X)
    torch.testing.assert_close(whole.log_weights.exp(), slow / slow.sum(0), rtol=1e-12, atol=0)


def test_no_point_is_less_likely_than_by_the_share_that_follows_nothing():
    """However sure the surest member is, and however wrong."""
    data, X = make_data(6), normal(4, D, seed=6)
    ensemble = make_ensemble([MODELS["plain"], MODELS["network, linear mean"]], data)
    usual = [
        torch.tensor([600.0, -600.0], dtype=torch.float64),
        torch.zeros(2, dtype=torch.float64),
    ]  # one member counts wherever it may
    for y in (torch.zeros(4, dtype=torch.float64), torch.full((4,), 50.0, dtype=torch.float64)):
        follows = replace(ensemble, certainty=Certainty(2.0, 0.9, usual)).predict(X).log_density(y)
        assert (follows >= ensemble.predict(X).log_density(y) + np.log(0.1) - 1e-9).all()


@pytest.mark.parametrize("share", [0.8, 1.0])
def test_a_member_without_weight_leaves_the_slopes_of_others_numbers(share):
    """As one that was distilled away: the others' slopes are those without it."""
    data, X = make_data(6), normal(3, D, seed=6)
    ensemble = make_ensemble([MODELS["plain"], MODELS["network, linear mean"]], data, exponent=0.7, share=share)
    logs = [torch.full_like(ensemble.log_weights[0], -torch.inf), torch.log_softmax(ensemble.log_weights[1].flatten(), 0)]
    logs[1] = logs[1].reshape(ensemble.log_weights[1].shape)
    without = Ensemble(
        ensemble.blocks[1:],
        logs[1:],
        ensemble.variance_factors,
        3.0,
        2.0,
        replace(ensemble.certainty, usual=ensemble.certainty.usual[1:]),
    )
    for found, expected in zip(replace(ensemble, log_weights=logs).gradients(X), without.gradients(X), strict=True):
        torch.testing.assert_close(found, expected)


def test_where_all_are_as_sure_as_usual_weights_are_what_they_are():
    data, X = make_data(6), normal(1, D, seed=6)
    ensemble = make_ensemble([MODELS["plain"], MODELS["network, linear mean"]], data)
    usual = [(b.mean_and_variance(X)[1][:, 0] + b.noise_variance()).log() for b in ensemble.blocks]
    followed = replace(ensemble, certainty=Certainty(2.0, 0.7, usual)).predict(X)
    torch.testing.assert_close(followed.log_weights[:, 0], ensemble.predict(X).log_weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_the_mean_has_the_slopes_of_differences(exponent):
    data, X = make_data(6), normal(3, D, seed=6)
    ensemble = make_ensemble([MODELS["plain"], MODELS["network, linear mean"]], data, exponent=exponent)
    h = 1e-5
    steps = h * torch.eye(D, dtype=torch.float64)
    slow = torch.stack([(ensemble.mean(X + step) - ensemble.mean(X - step)) / (2 * h) for step in steps], 1)
    torch.testing.assert_close(ensemble.gradients(X)[0], slow, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(ensemble.scale * ensemble.slopes(X), slow, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("latent", [False, True])
def test_draws_whose_weights_differ_have_the_moments_of_the_mixture(latent):
    data, X = make_data(6), normal(4, D, seed=6)
    ensemble = make_ensemble([MODELS["plain"], MODELS["network, linear mean"]], data, exponent=1.0)
    mean, variance = ensemble.predict(X, latent).moments()
    joint_mean, C = ensemble.covariance(X, latent)
    torch.testing.assert_close(joint_mean, mean, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(C.diagonal(), variance, rtol=1e-9, atol=1e-12)
    assert float(torch.linalg.eigvalsh(C).min()) > 0.0
    draws, sd = ensemble.sample(X, 40_000, generator(5), latent), variance.sqrt()
    torch.testing.assert_close(draws.mean(0), mean, rtol=0, atol=float(5 * sd.max() / 40_000**0.5))
    torch.testing.assert_close(draws.var(0), variance, rtol=0.1, atol=0)
    one = X[:1].expand(3, D)
    same = ensemble.sample(torch.cat([one, X[1:2]]), 500, generator(6), latent=True)
    assert float((same[:, 0] - same[:, 2]).abs().max()) < 1e-3  # points on one spot take the same component


@pytest.mark.parametrize("latent", [False, True])
def test_joint_draws_have_the_moments_of_the_mixture(latent):
    data, X = make_data(6), normal(4, D, seed=6)
    ensemble = make_ensemble([MODELS["plain"], MODELS["network, linear mean"]], data)
    mean, C = ensemble.covariance(X, latent)
    draws = ensemble.sample(X, 60_000, generator(5), latent)
    sd = C.diagonal().sqrt()
    torch.testing.assert_close(draws.mean(0), mean, rtol=0, atol=float(5 * sd.max() / 60_000**0.5))
    scaled = (draws.T.cov() - C) / sd / sd[:, None]
    assert float(scaled.abs().max()) < 0.05  # standard error about 0.01, more for heavy tails
    # and the marginals agree with what predict says
    moments = ensemble.predict(X, latent).moments()
    torch.testing.assert_close(moments[0], mean, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(moments[1], C.diagonal(), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(ensemble.mean(X), mean, rtol=1e-10, atol=1e-12)


def test_joint_covariance_is_the_references():
    data, X = make_data(6), normal(4, D, seed=6)
    models = [MODELS["plain"], MODELS["network, linear mean"]]
    ensemble = make_ensemble(models, data)
    slow_mean, second = np.zeros(4), np.zeros((4, 4))
    for b, (block, log_weights) in enumerate(zip(ensemble.blocks, ensemble.log_weights, strict=True)):
        for f, factor in enumerate(ensemble.variance_factors):
            for r in range(block.members):
                own = one(block.values, r)
                m, C = reference.model_posterior(models[b], own, *(t.numpy() for t in (data.X, data.y, X, data.known_noise)))
                C = factor * (C + np.diag(reference.noise_variances(models[b], own, 4, None)))
                weight = np.exp(float(log_weights[f, r]))
                slow_mean += weight * m
                second += weight * (C + np.outer(m, m))
    mean, C = ensemble.covariance(X)
    np.testing.assert_allclose(mean, 3.0 + 2.0 * slow_mean, rtol=1e-9)
    np.testing.assert_allclose(C, 4.0 * (second - np.outer(slow_mean, slow_mean)), rtol=1e-8, atol=1e-10)


def test_warped_joint_draws_agree_with_the_warped_mixture():
    data, X = make_data(6), normal(3, D, seed=6)
    ensemble = make_ensemble([MODELS["warped"], MODELS["plain"]], data)
    with pytest.raises(InputError, match="no closed form"):
        ensemble.covariance(X)
    draws = ensemble.sample(X, 40_000, generator(2))
    predicted = ensemble.predict(X)
    for q in (0.05, 0.5, 0.9):
        below = (draws <= predicted.quantile(q)).double().mean(0)
        torch.testing.assert_close(below, torch.full((3,), q, dtype=torch.float64), rtol=0, atol=0.012)
    mean, variance = predicted.moments()
    torch.testing.assert_close(draws.mean(0), mean, rtol=0, atol=float(5 * (variance.max() / 40_000) ** 0.5))


def test_joint_draws_of_noise_free_data_do_not_fail():
    x = torch.linspace(-2, 2, 60, dtype=torch.float64)[:, None]
    data = Data(x, torch.sin(2 * x[:, 0]))
    values = {"kernel.variance": [13.0], "kernel.lengthscale": [[1.5]], "noise.scale": [1e-8]}
    values = nest({name: torch.tensor(leaf, dtype=torch.float64) for name, leaf in values.items()})
    ensemble = Ensemble([condition(Model(), values, data)], [torch.zeros(1, 1, dtype=torch.float64)])
    X = torch.linspace(-1.9, 1.9, 150, dtype=torch.float64)[:, None]
    draws = ensemble.sample(X, 3, generator(), latent=True)
    torch.testing.assert_close(draws, torch.sin(2 * X[:, 0]).expand(3, 150), rtol=0, atol=1e-3)


def test_conditioning_an_ensemble_conditions_every_block():
    every = make_data(12)
    models = [MODELS["plain"], MODELS["warped"]]
    ensemble = make_ensemble(models, Data(every.X[:9], every.y[:9], every.known_noise[:9]))
    more = ensemble.condition(every.X[9:], every.y[9:], every.known_noise[9:])
    for before, after in zip(ensemble.blocks, more.blocks, strict=True):
        same(after, condition(before.model, before.values, every))
    for before, after in zip(ensemble.log_weights, more.log_weights, strict=True):
        assert torch.equal(before, after)


def test_the_heaviest_member_shows_its_features():
    data, X = make_data(6), normal(3, D, seed=6)
    ensemble = make_ensemble([MODELS["plain"], MODELS["network, linear mean"]], data)
    ensemble.log_weights[1][0, 1] = 0.0
    block, member = ensemble.heaviest()
    assert block is ensemble.blocks[1]
    assert member == 1
    slow = reference.features_of(block.model.features, one(block.values, 1)["features"], X.numpy())
    np.testing.assert_allclose(ensemble.transform(X), slow, rtol=1e-12)


def test_a_kernel_that_ignores_its_inputs_has_flat_predictions():
    data, X = make_data(5), normal(4, D, seed=3)
    model = Model(kernel=Constant())
    slopes = Ensemble([condition(model, draw(model, data, 1), data)], [torch.zeros(1, 1, dtype=torch.float64)]).gradients(X)
    for slope in slopes:
        assert torch.equal(slope, torch.zeros_like(X))
