"""A fitted estimator as a BoTorch model: the same posterior, gradients, fantasies, and acquisition functions that work on it."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

from drawn_estimators import drawn_certainty
from manifoldgp import GPRegressor, ManifoldGPRegressor
from manifoldgp._system.linalg import pivot_error
from manifoldgp.errors import InputError
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.model import Data
from short_fits import few_starts

pytest.importorskip("botorch", reason="needs the extra [botorch]")

from botorch.acquisition import LogExpectedImprovement, qKnowledgeGradient, qUpperConfidenceBound
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import ModelList
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler

from manifoldgp.integrations._botorch_members import _factored
from manifoldgp.integrations.botorch import ManifoldGPModel, MixturePosterior

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(14, 2)) * [2.0, 30.0] + [1.0, -5.0]
Y = 100 + 7 * np.sin(3 * X[:, 0]) + 0.2 * X[:, 1] + 0.05 * RNG.normal(size=14)
NEW = torch.tensor(RNG.uniform(size=(5, 2)) * [2.0, 30.0] + [1.0, -5.0])
BOUNDS = torch.tensor([[1.0, -5.0], [3.0, 25.0]], dtype=torch.float64)


def mgp(averaging, **arguments):
    return ManifoldGPRegressor(None if averaging == "fast" else (3, 2), averaging=few_starts(averaging, 3, 25), **arguments)


@pytest.fixture(scope="module")
def estimators():
    kinds = {
        "single": mgp("single"),
        "restarts": mgp("restarts"),
        "fast": mgp("fast"),
        "stack": mgp("stack"),
        "mean": mgp("restarts", mean="linear", kernel="matern52"),
        "plain": GPRegressor(restarts=2),
    }
    fitted = {name: e.fit(X, Y) for name, e in kinds.items()}
    return fitted | {"followed": followed(fitted["stack"])}


def followed(estimator):
    """The same estimator with weights that follow how sure its members are."""
    other, (ensemble,) = clone(estimator), estimator.ensembles_
    vars(other).update(vars(estimator))
    other.ensembles_ = [replace(ensemble, certainty=drawn_certainty(ensemble.blocks, 1.2))]
    return other


@pytest.fixture(scope="module")
def warped():
    return mgp("restarts", target_warping="tanh").fit(X, Y)


@pytest.fixture(params=["single", "restarts", "fast", "stack", "mean", "plain", "followed"])
def estimator(request, estimators):
    return estimators[request.param]


def unequal(estimator):
    """More than one component, and not all of one weight."""
    weights = torch.cat([w.exp().reshape(-1) for w in estimator.ensembles_[0].log_weights])
    return len(weights) > 1 and float(weights.max() / weights.min()) > 1.01


# ------------------------------------------------------------------------------------------------------ the posterior


@pytest.mark.parametrize("kind", ["mixture", "gaussian"])
def test_mean_and_variance_are_those_of_the_estimator(estimator, kind):
    model = ManifoldGPModel(estimator, posterior=kind)
    for latent in (True, False):
        posterior = model.posterior(NEW, observation_noise=not latent)
        mean, std = estimator.predict(NEW.numpy(), return_std=True, latent=latent)
        assert posterior.mean.shape == posterior.variance.shape == (5, 1)
        np.testing.assert_allclose(posterior.mean[:, 0].numpy(), mean, rtol=1e-9)
        np.testing.assert_allclose(posterior.variance[:, 0].sqrt().numpy(), std, rtol=1e-6)


def test_the_joint_covariance_of_q_points_is_that_of_the_estimator(estimator):
    for kind in ("mixture", "gaussian"):
        posterior = ManifoldGPModel(estimator, posterior=kind).posterior(NEW)
        _, C = estimator.predict(NEW.numpy(), return_cov=True, latent=True)
        joint = (
            posterior.covariance_matrix if isinstance(posterior, MixturePosterior) else posterior.distribution.covariance_matrix
        )
        np.testing.assert_allclose(joint.numpy(), C, rtol=1e-6, atol=1e-9 * np.abs(C).max())


def test_a_t_batch_is_a_loop(estimator):
    model = ManifoldGPModel(estimator)
    batch = torch.stack([NEW[:2], NEW[2:4], NEW[1:3]]).reshape(3, 1, 2, 2)
    together = model.posterior(batch)
    assert together.mean.shape == (3, 1, 2, 1)
    for i in range(3):
        alone = model.posterior(batch[i, 0])
        torch.testing.assert_close(together.mean[i, 0], alone.mean, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(together.variance[i, 0], alone.variance, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("name", ["single", "restarts", "fast", "stack", "mean", "plain"])
def test_draws_have_the_mixture_mean_and_joint_covariance(estimators, name):
    estimator = estimators[name]
    posterior = ManifoldGPModel(estimator).posterior(NEW[:3])
    samples = SobolQMCNormalSampler(torch.Size([2**14]), seed=0)(posterior)[..., 0]
    mean, C = estimator.predict(NEW[:3].numpy(), return_cov=True, latent=True)
    sd = np.sqrt(np.diag(C))
    np.testing.assert_allclose(samples.mean(0).numpy(), mean, atol=0.02 * sd.max())
    np.testing.assert_allclose(np.cov(samples.numpy().T) / np.outer(sd, sd), C / np.outer(sd, sd), atol=0.03)


def test_each_draw_takes_one_component_for_all_points(estimators):
    posterior = ManifoldGPModel(estimators["stack"]).posterior(NEW.reshape(5, 1, 2))
    assert isinstance(posterior, MixturePosterior)
    assert unequal(estimators["stack"])
    base = torch.zeros(4000, 5, 2, dtype=torch.float64)
    base[..., 1] = torch.special.ndtri((torch.arange(4000, dtype=torch.float64) + 0.5) / 4000)[:, None]
    draws = posterior.rsample_from_base_samples(torch.Size([4000]), base)[..., 0, 0]
    shuffled = base.clone()
    shuffled[:, 1] = base[:, 1].flip(0)  # another component in another batch: the general way to draw
    general = posterior.rsample_from_base_samples(torch.Size([4000]), shuffled)[..., 0, 0]
    weights = posterior.log_weights.exp()
    expected = posterior.offset + posterior.scale * torch.tensordot(weights, posterior.means[posterior.member], 1)[:, 0]
    torch.testing.assert_close(draws.mean(0), expected, rtol=0, atol=2e-3 * posterior.scale)
    torch.testing.assert_close(general[:, [0, 2, 3, 4]], draws[:, [0, 2, 3, 4]], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(general[:, 1], draws[:, 1].flip(0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batch", [(5, 1), (1, 5)])
def test_draws_take_a_component_by_its_weights_at_their_own_points(estimators, batch):
    """At one point exactly by the weights there; of several points together by the average."""
    posterior = ManifoldGPModel(estimators["followed"]).posterior(NEW.reshape(*batch, 2))
    weights = posterior.log_weights.exp()
    assert weights.shape == (len(posterior.member), *batch)
    assert float((weights.amax((1, 2)) - weights.amin((1, 2))).max()) > 0.05
    torch.testing.assert_close(weights.sum(0), torch.ones(batch, dtype=torch.float64))
    u = torch.special.ndtri((torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000)[:, None].expand(-1, batch[0])
    chosen = posterior._chosen(u)
    for s in range(len(weights)):
        torch.testing.assert_close((chosen == s).double().mean(0), weights[s].mean(-1), rtol=0, atol=1e-4)
    samples = SobolQMCNormalSampler(torch.Size([2**13]), seed=0)(posterior)[..., 0]
    if batch == (5, 1):
        torch.testing.assert_close(
            samples.mean(0), posterior.mean[..., 0], rtol=0, atol=0.05 * float(posterior.variance.max()) ** 0.5
        )
        torch.testing.assert_close(samples.var(0), posterior.variance[..., 0], rtol=0.05, atol=0)


@pytest.mark.parametrize("name", ["fast", "followed"])
def test_quantiles_and_densities_are_those_of_the_estimator(estimators, name):
    posterior = ManifoldGPModel(estimators[name]).posterior(NEW, observation_noise=True)
    expected = estimators[name].predict_quantiles(NEW.numpy(), q=(0.1, 0.9))
    np.testing.assert_allclose(posterior.quantile(torch.tensor([0.1, 0.9]))[..., 0].numpy().T, expected, rtol=1e-8)
    at = posterior.mean + 0.5 * posterior.variance.sqrt()
    density = estimators[name].log_predictive_density(NEW.numpy(), at[:, 0].numpy())
    np.testing.assert_allclose(posterior.density(at).log()[:, 0].numpy(), density, atol=1e-5)


@pytest.mark.parametrize("what", ["mean", "variance", "samples"])
def test_gradients_agree_with_finite_differences(estimator, what):
    model = ManifoldGPModel(estimator)
    sampler = SobolQMCNormalSampler(torch.Size([8]), seed=1)

    def value(points):
        posterior = model.posterior(points)
        return sampler(posterior).sum() if what == "samples" else getattr(posterior, what).sum()

    points = NEW[:2].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(points), points)
    for i in range(2):
        for d in range(2):
            h = 1e-5 * float(BOUNDS[1, d] - BOUNDS[0, d])
            step = torch.zeros(2, 2, dtype=torch.float64)
            step[i, d] = h
            with torch.no_grad():
                slope = float(value(NEW[:2] + step) - value(NEW[:2] - step)) / (2 * h)
            assert float(gradient[i, d]) == pytest.approx(slope, rel=2e-3, abs=1e-3 * float(gradient.abs().max()))


# ------------------------------------------------------------------------------------------- conditioning and fantasies


def test_conditioning_is_an_update_of_the_estimator(estimator):
    updated = clone(estimator)
    vars(updated).update(vars(estimator))
    y = np.array([101.0, 96.0])
    updated.update(NEW[:2].numpy(), y)
    model = ManifoldGPModel(estimator).condition_on_observations(NEW[:2], torch.tensor(y)[:, None])
    mean, std = updated.predict(NEW.numpy(), return_std=True, latent=True)
    posterior = model.posterior(NEW)
    np.testing.assert_allclose(posterior.mean[:, 0].numpy(), mean, rtol=1e-8)
    np.testing.assert_allclose(posterior.variance[:, 0].sqrt().numpy(), std, rtol=1e-5)
    assert model.train_inputs[0].shape == (16, 2)
    np.testing.assert_allclose(model.train_targets.numpy(), [*Y, *y], rtol=1e-12)


def test_fantasies_are_conditioning_on_each_draw(estimator):
    model = ManifoldGPModel(estimator)
    sampler = SobolQMCNormalSampler(torch.Size([3]), seed=2)
    at = torch.stack([NEW[:2], NEW[2:4]])  # two t-batches of two points
    fantasies = model.fantasize(at, sampler)
    assert fantasies.batch_shape == (3, 2)
    drawn = sampler(model.posterior(at, observation_noise=True))
    assert drawn.shape == (3, 2, 2, 1)
    posterior = fantasies.posterior(NEW)
    assert posterior.mean.shape == (3, 2, 5, 1)
    for f in range(3):
        for t in range(2):
            alone = model.condition_on_observations(at[t], drawn[f, t]).posterior(NEW)
            torch.testing.assert_close(posterior.mean[f, t], alone.mean, rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(posterior.variance[f, t], alone.variance, rtol=1e-6, atol=1e-9)


def test_fantasies_of_fantasies(estimators):
    model = ManifoldGPModel(estimators["restarts"])
    once = model.fantasize(NEW[:1], SobolQMCNormalSampler(torch.Size([3]), seed=2))
    drawn = SobolQMCNormalSampler(torch.Size([4]), seed=3)
    twice = once.fantasize(NEW[1:2].expand(3, 1, 2), drawn)
    assert twice.batch_shape == (4, 3)
    values = drawn(once.posterior(NEW[1:2].expand(3, 1, 2), observation_noise=True))
    first = once.train_targets[..., -1]
    for a in range(4):
        for b in range(3):
            rows = torch.stack([first[b], values[a, b, 0, 0]])[:, None]
            alone = model.condition_on_observations(NEW[:2], rows).posterior(NEW)
            torch.testing.assert_close(twice.posterior(NEW).mean[a, b], alone.mean, rtol=1e-8, atol=1e-8)


def test_gradients_reach_the_points_of_fantasies(estimators):
    model = ManifoldGPModel(estimators["fast"])

    def value(points):
        fantasies = model.fantasize(points, SobolQMCNormalSampler(torch.Size([4]), seed=0))
        return fantasies.posterior(NEW[3:]).mean.max(-2).values.mean()

    points = NEW[:1].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(points), points)
    for d in range(2):
        h = torch.zeros(1, 2, dtype=torch.float64)
        h[0, d] = 1e-5 * float(BOUNDS[1, d] - BOUNDS[0, d])
        slope = float(value(NEW[:1] + h) - value(NEW[:1] - h)) / (2 * float(h.sum()))
        assert float(gradient[0, d]) == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_known_noise_follows_its_rows():
    yvar = torch.full((14, 1), 0.04, dtype=torch.float64)
    train_X, train_Y = torch.tensor(X), torch.tensor(Y)[:, None]
    model = ManifoldGPModel.fit(train_X, train_Y, yvar, features=(3, 2), averaging=few_starts("single", 3, 25))
    latent, noisy = model.posterior(NEW).variance, model.posterior(NEW, observation_noise=True).variance
    torch.testing.assert_close(noisy - latent, torch.full((5, 1), 0.04, dtype=torch.float64), rtol=1e-4, atol=1e-7)
    given = model.posterior(NEW, observation_noise=torch.full((5, 1), 0.25, dtype=torch.float64)).variance
    torch.testing.assert_close(given - latent, torch.full((5, 1), 0.25, dtype=torch.float64), rtol=1e-4, atol=1e-7)
    assert model.fantasize(NEW[:1], SobolQMCNormalSampler(torch.Size([2]), seed=0)).batch_shape == (2,)
    exact = model.condition_on_observations(NEW[:1], torch.tensor([[97.0]]), noise=torch.tensor([[1e-12]]))
    assert float(exact.posterior(NEW[:1]).mean) == pytest.approx(97.0, abs=1e-4)
    with pytest.raises(InputError, match="give the noise variances of the new rows too"):
        model.condition_on_observations(NEW[:1], torch.tensor([[97.0]]))


@pytest.fixture(scope="module")
def noise_free(one_thread):
    """A model of noise-free rows after a hundred observations, and its members conditioned on all rows anew."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(160, 2))
    y = np.sin(2 * rows[:, 0]) + rows[:, 1] / 2
    estimator = GPRegressor(restarts=2).fit(rows[:40], y[:40])
    model = ManifoldGPModel(estimator)
    for i in range(40, 160):
        model = model.condition_on_observations(torch.tensor(rows[i : i + 1]), torch.tensor(y[i : i + 1, None]))
    U = torch.from_numpy(estimator.x_scaler_.apply(rows))
    z = torch.from_numpy(estimator.y_scaler_.apply(y[:, None])[:, 0])
    block = estimator.ensembles_[0].blocks[0]
    estimator.ensembles_ = [replace(estimator.ensembles_[0], blocks=[condition(block.model, block.values, Data(U, z))])]
    return model, estimator


def test_many_noise_free_observations_equal_conditioning_anew(noise_free):
    model, anew = noise_free
    (members,), block = model._members, anew.ensembles_[0].blocks[0]
    U = torch.randn(50, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    # By the posterior's arithmetic: joint covariances have rounding errors of their own, relative to the prior variance.
    mean, variance = replace(block, L=members.L, alpha=members.alpha).mean_and_variance(U)
    expected, expected_variance = block.mean_and_variance(U)
    torch.testing.assert_close(mean, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(variance.sqrt(), expected_variance.sqrt(), rtol=0, atol=1e-6)
    assert torch.equal(members.jitter, block.jitter)


def test_fantasies_of_noise_free_observations_stay_what_they_were_drawn_from(noise_free):
    model, anew = noise_free
    at = torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    fantasies = model.fantasize(at, SobolQMCNormalSampler(torch.Size([4]), seed=2))
    assert fantasies.batch_shape == (4, 3)
    where = torch.tensor(np.random.default_rng(2).normal(size=(50, 2)))
    # What the data have told already, draws cannot change. Rounding moves predictions of this model by its pivot error.
    expected = anew.predict(where.numpy())
    error = float(pivot_error(anew.ensembles_[0].blocks[0].L))
    moved = (fantasies.posterior(where).mean[..., 0] - torch.from_numpy(expected)).abs().max()
    assert float(moved) < 0.01 * max(error, 1.0)


def test_a_factor_computed_anew_has_the_gradient_of_a_factor():
    A = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    A = (A @ A.mT + torch.eye(5, dtype=torch.float64)).requires_grad_()
    weight = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64).tril()
    L, jitter = _factored(A)
    torch.testing.assert_close(L, torch.linalg.cholesky(A), rtol=1e-12, atol=1e-12)
    assert jitter.shape == (2, 3)
    assert not jitter.any()
    (gradient,) = torch.autograd.grad((weight * L).sum(), A)
    (expected,) = torch.autograd.grad((weight * torch.linalg.cholesky(A)).sum(), A)
    torch.testing.assert_close(gradient + gradient.mT, expected + expected.mT, rtol=1e-9, atol=1e-10)


# --------------------------------------------------------------------------------------------------------- warped targets


def test_warped_targets_have_the_estimators_moments_and_draws(warped):
    posterior = ManifoldGPModel(warped).posterior(NEW)
    mean, std = warped.predict(NEW.numpy(), return_std=True, latent=True)
    np.testing.assert_allclose(posterior.mean[:, 0].numpy(), mean, rtol=1e-9)
    np.testing.assert_allclose(posterior.variance[:, 0].sqrt().numpy(), std, rtol=1e-6)
    samples = SobolQMCNormalSampler(torch.Size([4096]), seed=0)(posterior)[..., 0]
    np.testing.assert_allclose(samples.mean(0).numpy(), mean, atol=0.05 * std.max())
    np.testing.assert_allclose(samples.std(0).numpy(), std, rtol=0.1)
    points = NEW[:1].clone().requires_grad_()
    assert torch.autograd.grad(
        SobolQMCNormalSampler(torch.Size([16]), seed=0)(ManifoldGPModel(warped).posterior(points)).sum(), points
    )
    with pytest.raises(InputError, match="a warped target does not have"):
        ManifoldGPModel(warped, posterior="gaussian").posterior(NEW)


def test_warped_targets_are_conditioned_as_the_estimator_is(warped):
    updated = clone(warped)
    vars(updated).update(vars(warped))
    updated.update(NEW[:1].numpy(), [98.0])
    posterior = ManifoldGPModel(warped).condition_on_observations(NEW[:1], torch.tensor([[98.0]])).posterior(NEW)
    np.testing.assert_allclose(posterior.mean[:, 0].numpy(), updated.predict(NEW.numpy(), latent=True), rtol=1e-8)


# --------------------------------------------------------------------------------------------------- acquisition functions


def test_a_mixtures_acquisition_value_is_the_weighted_average_of_its_members(estimators):
    """log E[max(f − best, 0)] in closed form, member by member, against qLogExpectedImprovement of the mixture."""
    model = ManifoldGPModel(estimators["stack"])
    for point in NEW:
        posterior = model.posterior(point[None])
        best = float(posterior.mean + posterior.variance.sqrt())
        m = posterior.offset + posterior.scale * posterior.means[posterior.member][:, 0]
        s = posterior.scale * (posterior.factor * posterior.covariances[posterior.member][..., 0, 0]).sqrt()
        u = (m - best) / s
        improvement = s * (torch.exp(-0.5 * u**2) / math.sqrt(2 * math.pi) + u * torch.special.ndtr(u))
        expected = (posterior.log_weights.exp() * improvement).sum().log()
        sampler = SobolQMCNormalSampler(torch.Size([2**14]), seed=0)
        value = qLogExpectedImprovement(model, best_f=best, sampler=sampler)(point[None, None])[0]
        torch.testing.assert_close(value, expected, rtol=0, atol=0.05)


@pytest.mark.parametrize("q", [1, 3])
def test_optimize_acqf_finds_a_better_candidate_than_random_ones(estimator, q):
    torch.manual_seed(0)
    model = ManifoldGPModel(estimator)
    acquisition = qLogExpectedImprovement(model, best_f=float(Y.max()), sampler=SobolQMCNormalSampler(torch.Size([64]), seed=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the line search's complaints about an acquisition function that is flat somewhere
        candidates, value = optimize_acqf(acquisition, BOUNDS, q=q, num_restarts=4, raw_samples=256, options={"maxiter": 25})
    random = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * torch.rand(64, q, 2, dtype=torch.float64)
    assert candidates.shape == (q, 2)
    assert bool(((candidates >= BOUNDS[0]) & (candidates <= BOUNDS[1])).all())
    with torch.no_grad():
        assert float(value) >= float(acquisition(random).max()) - 1e-9


def test_other_acquisition_functions_work(estimators):
    torch.manual_seed(0)
    for name in ("single", "fast"):
        model = ManifoldGPModel(estimators[name])
        flat = NEW.reshape(5, 1, 2)
        assert torch.isfinite(LogExpectedImprovement(model, best_f=100.0)(flat)).all()
        assert torch.isfinite(qUpperConfidenceBound(model, beta=0.2)(flat)).all()
        noisy = qLogNoisyExpectedImprovement(model, torch.tensor(X), prune_baseline=True, cache_root=False)
        assert noisy(torch.stack([NEW[:2], NEW[2:4]])).shape == (2,)
        gradient_of_knowledge = qKnowledgeGradient(model, num_fantasies=4)
        points = torch.cat([NEW[:1], NEW[1:]]).clone().requires_grad_()
        value = gradient_of_knowledge(points)
        (slope,) = torch.autograd.grad(value.sum(), points)
        assert bool((slope[0].abs() > 0).any())
        pending = qLogExpectedImprovement(model, best_f=100.0, X_pending=NEW[:1])
        assert torch.isfinite(pending(flat)).all()


def test_a_negative_weight_minimises(estimators):
    minus = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.float64))
    for name in ("single", "stack"):
        model = ManifoldGPModel(estimators[name])
        plain, turned = model.posterior(NEW), model.posterior(NEW, posterior_transform=minus)
        torch.testing.assert_close(turned.mean, -plain.mean)
        torch.testing.assert_close(turned.variance, plain.variance)
        acquisition = qLogExpectedImprovement(model, best_f=-float(Y.min()), posterior_transform=minus)
        assert torch.isfinite(acquisition(NEW.reshape(5, 1, 2))).all()


def test_several_targets_are_a_list_of_models():
    two = mgp("restarts").fit(X, np.stack([Y, -3 * Y], 1))
    models = ModelList(*(ManifoldGPModel(two, output=o) for o in range(2)))
    posterior = models.posterior(NEW)
    np.testing.assert_allclose(posterior.mean.numpy(), two.predict(NEW.numpy()), rtol=1e-8)
    with pytest.raises(InputError, match="one of the 2 targets, counted from 0; got 2"):
        ManifoldGPModel(two, output=2)


@pytest.mark.parametrize("name", ["stack", "plain"])
def test_thompson_sampling_maximises_drawn_functions(name, estimators):
    from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
    from botorch.sampling.pathwise import draw_matheron_paths

    estimator = estimators[name]
    model = ManifoldGPModel(estimator)
    X = torch.as_tensor(estimator.x_scaler_.offset + estimator.x_scaler_.scale * np.linspace(-1, 1, 8)[:, None])
    paths = draw_matheron_paths(model, torch.Size([1500]))
    mean, std = estimator.predict(X.numpy(), return_std=True, latent=True)
    drawn = paths(X).detach().numpy()
    assert drawn.shape == (1500, 8)
    np.testing.assert_array_less(np.abs(drawn.mean(0) - mean), 5 * std / np.sqrt(1500))
    np.testing.assert_array_equal(paths(X[:, None]).shape, (1500, 8, 1))

    acquisition = PathwiseThompsonSampling(model)
    low, high = X.min(0).values, X.max(0).values
    candidates, _ = optimize_acqf(
        acquisition, torch.stack([low, high]), q=3, num_restarts=2, raw_samples=64, options={"maxiter": 20}
    )
    assert candidates.shape == (3, X.shape[-1])
    dense = torch.linspace(0, 1, 50, dtype=torch.float64)[:, None] * (high - low) + low
    with torch.no_grad():  # draw i sees point i of the q points
        reached = acquisition.samples(candidates[:, None])[:, 0, 0]
        best = acquisition.samples(dense.expand(3, *dense.shape))[..., 0].amax(-1)
    assert float((reached - best).sum()) > -0.05 * float(best.abs().sum())


def test_thompson_sampling_after_conditioning(estimators):
    from botorch.sampling.pathwise import draw_matheron_paths

    model = ManifoldGPModel(estimators["single"])
    x, y = model.train_inputs[0][:1] + 0.05, model.train_targets[:1, None] + 3.0
    torch.manual_seed(0)
    updated = model.condition_on_observations(x, y)
    drawn = draw_matheron_paths(updated, torch.Size([800]))(x).detach()
    posterior = updated.posterior(x)
    assert abs(float(drawn.mean() - posterior.mean)) < 5 * float(posterior.variance.sqrt()) / 800**0.5
    fantasies = model.fantasize(x, SobolQMCNormalSampler(torch.Size([2])))
    with pytest.raises(InputError, match="batch of them"):
        draw_matheron_paths(fantasies, torch.Size([2]))


def test_a_loop_of_optimisation_improves():
    """A few steps on a smooth hill: the best value found is better than any of the initial design."""
    torch.manual_seed(0)
    unit = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    points = torch.tensor([[0.05], [0.25], [0.45], [0.9]], dtype=torch.float64)

    def hill(x):
        return torch.exp(-30 * (x - 0.62) ** 2)

    values = hill(points)
    before = float(values.max())
    for _ in range(4):
        model = ManifoldGPModel.fit(points, values, averaging="fast")
        acquisition = qLogExpectedImprovement(model, best_f=float(values.max()))
        candidate, _ = optimize_acqf(acquisition, unit, q=1, num_restarts=2, raw_samples=32, options={"maxiter": 20})
        points, values = torch.cat([points, candidate]), torch.cat([values, hill(candidate)])
    assert before < 0.5
    assert float(values.max()) > 0.8


# --------------------------------------------------------------------------------------------------------------- refusals


def test_what_cannot_be_wrapped_is_refused(estimators):
    with pytest.raises(InputError, match="needs a fitted estimator of this package; got a str"):
        ManifoldGPModel("model")
    with pytest.raises(InputError, match="posterior must be one of 'mixture', 'gaussian'; got 'normal'"):
        ManifoldGPModel(estimators["single"], posterior="normal")
    with pytest.raises(InputError, match=r"X must be \(..., q, 2\); got \(5, 3\)"):
        ManifoldGPModel(estimators["single"]).posterior(torch.zeros(5, 3))
    with pytest.raises(InputError, match=r"train_X must be \(n, d\) and train_Y \(n, 1\); got \(14, 2\) and \(14,\)"):
        ManifoldGPModel.fit(torch.tensor(X), torch.tensor(Y))


def test_without_botorch_the_extra_is_named(monkeypatch):
    import importlib
    import sys

    from manifoldgp.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "botorch", None)
    monkeypatch.delitem(sys.modules, "manifoldgp.integrations.botorch")
    with pytest.raises(MissingExtraError, match=r"pip install 'manifoldgp\[botorch\]'"):
        importlib.import_module("manifoldgp.integrations.botorch")
