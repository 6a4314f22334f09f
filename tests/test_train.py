"""Training: starts, refusals, limits, priors, and the minimisers against each other."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from torch import nn

from manifoldgp import means
from manifoldgp._system.threads import training_threads
from manifoldgp.data import step_function
from manifoldgp.errors import DisconnectedParameterError, InputError, TrainingFailedError
from manifoldgp.features import MLP, PCA, Module
from manifoldgp.inference.exact_posterior import condition
from manifoldgp.kernels import SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import LogNormal, Normal, first_of, leaves, map_leaves, nest
from manifoldgp.training import side_by_side
from manifoldgp.training.minimizers import MINIMIZERS
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.optimizer import Monitor
from manifoldgp.training.side_by_side import Lot
from manifoldgp.training.trained import warm_theta
from manifoldgp.training.trainer import Trainer, Training
from short_fits import train

NETWORK = Model(MLP((3, 2)), mean=means.Constant())


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def make_data(rows=25, columns=1, seed=1):
    X = normal(rows, columns, seed=seed)
    return Data(X, torch.sin(2 * X.sum(-1)) + 0.1 * normal(rows, seed=seed + 1))


def make_objective(model, data, count=3, seed=2):
    layout, drawn = model.draw(data, generator(seed), count)
    return TrainingObjective(model, layout, first_of(layout.constants(drawn)), data), layout.flatten(drawn).numpy()


# -------------------------------------------------------------------------------------------------------------------- starts


@pytest.mark.parametrize("optimizer", list(MINIMIZERS))
def test_every_start_is_in_the_result_and_redraws_network_and_kernel(optimizer):
    trained = train(NETWORK, make_data(), restarts=4, generator=generator(), optimizer=optimizer, max_iter=0)
    for name in trained.layout.names:  # without an iteration, theta is where each start began
        starts = trained.result.theta[:, trained.layout.slices[name]]
        assert len(np.unique(starts, axis=0)) == 4, name
    assert set(trained.result.status) == {"iteration limit"}
    further = train(NETWORK, make_data(), restarts=4, generator=generator(), optimizer=optimizer, max_iter=5)
    assert (further.result.value < trained.result.value).all()
    for before, history in zip(trained.result.value, further.result.history, strict=True):
        assert history[0] == pytest.approx(before, rel=1e-9)
    assert sorted(further.order) == [0, 1, 2, 3]
    assert (np.diff(further.result.value[further.order]) >= 0).all()
    assert further.nlml.shape == (4,)


def test_values_are_those_of_the_starts_asked_for():
    data = make_data(columns=3)
    model = Model(PCA(2) >> MLP((3, 1)))
    trained = train(model, data, restarts=3, generator=generator(), max_iter=10)
    values = trained.values(trained.order[:2])
    nlml = model.nlml(values, data).numpy()
    np.testing.assert_allclose(nlml, trained.nlml[trained.order[:2]], rtol=1e-9)
    assert {leaf.shape[0] for _, leaf in leaves(values)} == {2}
    posterior = condition(model, values, data)
    assert posterior.members == 2


def test_a_warm_start_takes_over_the_values_of_another_model():
    data = make_data()
    first = train(NETWORK, data, restarts=3, generator=generator(), max_iter=100)
    values = map_leaves(lambda leaf: leaf[0], first.values(first.order[:1]))
    again = train(NETWORK, data, restarts=2, generator=generator(7), max_iter=20, warm_values=values)
    best = first.result.value[first.order[0]]
    assert again.result.history[0][0] == pytest.approx(best, rel=1e-9)
    assert again.result.history[1][0] != pytest.approx(best, rel=1e-3)
    assert again.result.value.min() <= best + 1e-9


def test_a_warm_start_that_does_not_fit_is_refused_by_name():
    layout, drawn = NETWORK.draw(make_data(), generator(), 1)
    named = dict(leaves(first_of(drawn)))
    assert warm_theta(layout, first_of(drawn)).shape == (layout.size,)
    lacking = nest({name: leaf for name, leaf in named.items() if name != "kernel.lengthscale"})
    with pytest.raises(InputError, match=r"the other model has no parameter 'kernel.lengthscale'\. It has: features.0.weight"):
        warm_theta(layout, lacking)
    with pytest.raises(InputError, match=r"'mean.constant' has shape \(2,\) in the other model; here it is \(\)"):
        warm_theta(layout, nest({**named, "mean.constant": torch.zeros(2)}))


@pytest.mark.parametrize("optimizer", list(MINIMIZERS))
def test_invalid_starts_are_counted_and_never_win(optimizer):
    _, drawn = NETWORK.draw(make_data(), generator(), 1)
    broken = first_of(drawn)
    broken["kernel"]["lengthscale"] = torch.full_like(broken["kernel"]["lengthscale"], torch.nan)
    trained = train(NETWORK, make_data(), restarts=3, generator=generator(), optimizer=optimizer, max_iter=5, warm_values=broken)
    assert trained.result.status[0] == "invalid start"
    assert np.isinf(trained.result.value[0])
    assert np.isinf(trained.nlml[0])
    assert sorted(trained.order) == [1, 2]
    assert np.isinf(trained.result.history[0]).all()


def test_with_priors_invalid_starts_do_not_win_either():
    model = Model(MLP((2, 1)), priors={"kernel.lengthscale": LogNormal(0.0, 1.0)})
    _, drawn = model.draw(make_data(), generator(), 1)
    broken = map_leaves(lambda leaf: torch.full_like(leaf, torch.nan), first_of(drawn))
    trained = train(model, make_data(), restarts=2, generator=generator(), max_iter=5, warm_values=broken)
    assert trained.order.tolist() == [1]
    prior = trained.layout.negative_log_prior(torch.from_numpy(trained.result.theta[1]))
    assert trained.nlml[1] == pytest.approx(trained.result.value[1] - float(prior), rel=1e-9)
    assert not np.isfinite(trained.nlml[0])


def test_when_nothing_is_positive_definite_training_says_so():
    X = torch.zeros(6, 1, dtype=torch.float64)  # six times the same row, and next to no noise
    model = Model(kernel=SquaredExponential(amplitude=False), noise=GaussianNoise(False, 1e-100))
    for optimizer in MINIMIZERS:
        with pytest.raises(
            TrainingFailedError, match=r"None of the 3 starts gave a positive definite covariance \(3 x invalid start\)"
        ):
            train(model, Data(X, normal(6)), restarts=3, generator=generator(), optimizer=optimizer)


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(InputError, match="Unknown optimizer 'adam'; choose one of 'l-bfgs', 'l-bfgs-b', 'hessian-free'"):
        train(NETWORK, make_data(), restarts=1, generator=generator(), optimizer="adam")


@pytest.mark.parametrize("optimizer", list(MINIMIZERS))
def test_a_model_with_nothing_to_train_is_its_own_optimum(optimizer):
    data = make_data()
    model = Model(kernel=SquaredExponential(amplitude=False, scaled=False), noise=GaussianNoise(False, 0.1))
    trained = train(model, data, restarts=2, generator=generator(), optimizer=optimizer)
    np.testing.assert_allclose(trained.nlml, float(model.nlml({}, data)), rtol=1e-12)
    assert condition(model, trained.values(trained.order[:1]), data).members == 1


# ------------------------------------------------------------------------------------------------------------------ refusals


class Unused(nn.Module):
    """Two layers, one of which takes no part."""

    def __init__(self):
        super().__init__()
        self.used, self.idle = nn.Linear(1, 2).double(), nn.Linear(1, 2).double()

    def forward(self, X):
        return self.used(X)


class Detached(nn.Module):
    """A layer whose output is cut off from the gradient, and one behind it."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(1, 2).double(), nn.Linear(2, 2).double()

    def forward(self, X):
        return self.outer(torch.tanh(self.inner(X)).detach())


@pytest.mark.parametrize(("module", "dead"), [(Unused, "idle"), (Detached, "inner")])
def test_a_parameter_without_a_path_to_the_evidence_is_refused_by_name(module, dead):
    message = rf"receive no gradient.*: features\.{dead}\.weight, features\.{dead}\.bias\. Use them"
    with pytest.raises(DisconnectedParameterError, match=message):
        train(Model(Module(module())), make_data(), restarts=2, generator=generator())
    frozen = module()
    for parameter in getattr(frozen, dead).parameters():
        parameter.requires_grad_(False)
    train(Model(Module(frozen)), make_data(), restarts=2, generator=generator(), max_iter=1)


def test_a_dead_mean_is_refused_too():
    class Zeros(nn.Module):
        def __init__(self):
            super().__init__()
            self.idle = nn.Parameter(torch.ones(1, dtype=torch.float64))

        def forward(self, H):
            return torch.zeros(len(H), dtype=H.dtype)

    with pytest.raises(DisconnectedParameterError, match=r"mean\.idle"):
        train(Model(mean=means.Module(Zeros())), make_data(), restarts=1, generator=generator())


# -------------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("optimizer", list(MINIMIZERS))
def test_the_iteration_limit_holds(optimizer):
    trained = train(NETWORK, make_data(), restarts=3, generator=generator(), optimizer=optimizer, max_iter=4)
    assert (trained.result.iterations <= 4).all()
    assert "iteration limit" in trained.result.status


@pytest.mark.parametrize("optimizer", list(MINIMIZERS))
def test_the_time_budget_holds_and_leaves_a_usable_model(optimizer):
    data = make_data(200)
    begin = time.perf_counter()
    trained = train(
        Model(MLP((20, 10, 2))), data, restarts=6, generator=generator(), optimizer=optimizer, max_iter=10**6, time_budget=0.3
    )
    assert time.perf_counter() - begin < 5.0  # one evaluation of all starts takes about 0.05 s
    assert "time limit" in trained.result.status
    assert len(trained.order) >= 1


@pytest.mark.parametrize("optimizer", list(MINIMIZERS))
def test_an_expired_budget_still_gives_the_start(optimizer):
    trained = train(NETWORK, make_data(), restarts=3, generator=generator(), optimizer=optimizer, time_budget=0.0)
    assert len(trained.order) >= 1
    assert set(trained.result.status) == {"time limit"}


@pytest.mark.parametrize("optimizer", list(MINIMIZERS))
def test_a_callback_sees_finite_values_and_stops_everything_at_once(optimizer):
    calls = []

    def stop_once(iterations, values):
        calls.append((iterations.copy(), values.copy()))
        return len(calls) == 2

    trained = train(NETWORK, make_data(), restarts=3, generator=generator(), optimizer=optimizer, callback=stop_once)
    assert len(calls) == 2
    assert all(np.isfinite(values).any() for _, values in calls)
    assert set(trained.result.status) == {"stopped by callback"}
    assert len(trained.order) >= 1


def test_hessian_free_stops_between_two_products():
    class Slow:
        """A quadratic whose evaluations take long, and whose conjugate gradients take many."""

        def __init__(self):
            self.calls = 0

        def __call__(self, theta, rows):
            self.calls += 1
            time.sleep(0.05)
            scale = np.arange(1, theta.shape[1] + 1) ** 3.0
            return (scale * theta**2).sum(-1), 2 * scale * theta

    slow = Slow()
    result = MINIMIZERS["hessian-free"](slow, np.ones((1, 60)), Monitor(deadline=time.perf_counter() + 0.2))
    assert result.status[0] == "time limit"
    assert slow.calls <= 6


def test_a_start_whose_neighbourhood_is_not_finite_stalls_alone():
    class Island:
        """The first start is finite at one point only."""

        def __call__(self, theta, rows):
            lost = (rows == 0) & (theta != 1.0).any(-1)
            return np.where(lost, np.inf, (theta**2).sum(-1)), 2 * theta

    result = MINIMIZERS["hessian-free"](Island(), np.ones((2, 3)))
    assert result.status.tolist() == ["line search stalled", "converged"]
    assert result.value[0] == 3.0


def test_negative_curvature_is_left_behind():
    class Valley:
        """A saddle at the origin, (x² − 1)² + y²; starts lie where its Hessian is indefinite."""

        def __call__(self, theta, rows):
            x, y = theta.T
            return (x**2 - 1) ** 2 + y**2, np.stack([4 * x * (x**2 - 1), 2 * y], -1)

    result = MINIMIZERS["hessian-free"](Valley(), np.array([[0.1, 0.5], [-0.2, -1.0], [0.01, 0.0]]))
    assert result.status.tolist() == ["converged"] * 3
    np.testing.assert_allclose(np.abs(result.theta), [[1.0, 0.0]] * 3, atol=1e-4)


def test_hessian_free_treats_every_start_by_itself():
    data = make_data(20)
    objective, theta = make_objective(Model(MLP((3, 1))), data)
    together = MINIMIZERS["hessian-free"](objective, theta, Monitor(4))
    for r in range(len(theta)):
        alone = MINIMIZERS["hessian-free"](make_objective(Model(MLP((3, 1))), data)[0], theta[r : r + 1], Monitor(4))
        assert alone.iterations[0] == together.iterations[r]
        assert alone.value[0] == pytest.approx(together.value[r], rel=1e-4)


# -------------------------------------------------------------------------------------------------------------------- priors


def test_priors_pull_their_parameters():
    data = make_data()
    flat = train(Model(MLP((3, 1))), data, restarts=2, generator=generator(), max_iter=100)
    priors = {"kernel.lengthscale": LogNormal(np.log(7.0), 1e-3), "features.*.weight": Normal(0.5, 1e-3)}
    pulled = train(Model(MLP((3, 1)), priors=priors), data, restarts=2, generator=generator(), max_iter=200)
    values = pulled.values(pulled.order[:1])
    torch.testing.assert_close(values["kernel"]["lengthscale"], torch.full((1, 1), 7.0, dtype=torch.float64), rtol=0.02, atol=0)
    for layer in ("0", "1"):
        weight = values["features"][layer]["weight"]
        torch.testing.assert_close(weight, torch.full_like(weight, 0.5), rtol=0.05, atol=0)
    assert pulled.nlml.min() > flat.nlml.min()
    # the objective is the evidence plus the negative log prior, and the best objective wins
    theta = torch.from_numpy(pulled.result.theta)
    np.testing.assert_allclose(pulled.result.value, pulled.nlml + pulled.layout.negative_log_prior(theta).numpy(), rtol=1e-9)
    assert pulled.order[0] == pulled.result.value.argmin()


def test_hessian_free_reaches_the_optimum_of_l_bfgs():
    data = make_data(20)
    values = {}
    for optimizer in MINIMIZERS:
        trained = train(Model(), data, restarts=3, generator=generator(4), optimizer=optimizer, max_iter=300)
        values[optimizer] = trained.result.value[trained.order[0]]
        assert np.abs(trained.result.gradient[trained.order[0]]).max() < 1e-2
    assert values["hessian-free"] == pytest.approx(values["l-bfgs"], abs=1e-5)
    assert values["l-bfgs-b"] == pytest.approx(values["l-bfgs"], abs=1e-5)


# ----------------------------------------------------------------------------------------------------------------- agreement


def test_the_same_seed_gives_the_same_result():
    first, again, other = (train(NETWORK, make_data(), restarts=3, generator=generator(seed), max_iter=60) for seed in (0, 0, 1))
    np.testing.assert_allclose(first.nlml, again.nlml, rtol=1e-9)
    assert not np.allclose(first.nlml, other.nlml, rtol=1e-3)


def test_the_objective_counts_what_it_evaluates_and_knows_its_rows():
    single = make_data(10)
    data = Data(torch.stack([single.X, 2 * single.X, -single.X]), torch.stack([single.y, single.y + 1, -single.y]), batched=True)
    objective, theta = make_objective(NETWORK, data)
    theta[:, objective.layout.slices["noise.scale"]] = np.log(0.2)  # well-conditioned: two ways to one number agree on every BLAS
    every, slopes = objective(theta, np.arange(3))
    some, some_slopes = objective(theta[[2, 0]], np.array([2, 0]))
    np.testing.assert_allclose(some, every[[2, 0]], rtol=1e-12)
    np.testing.assert_allclose(some_slopes, slopes[[2, 0]], rtol=1e-9, atol=1e-10)
    assert objective.evaluations == 5
    np.testing.assert_allclose(objective.nlml(theta), every, rtol=1e-12)
    alone, _ = make_objective(NETWORK, Data(data.X[1], data.y[1]))
    np.testing.assert_allclose(alone(theta[1:2], np.array([0]))[0], every[1:2], rtol=1e-12)


def test_batched_data_train_like_separate_data():
    one, two = make_data(15, seed=1), make_data(15, seed=5)
    both = Data(torch.stack([one.X, two.X]), torch.stack([one.y, two.y]), batched=True)
    trained = train(Model(), both, restarts=2, generator=generator(), max_iter=200)
    for r, data in enumerate((one, two)):
        start = map_leaves(lambda leaf, r=r: leaf[r], trained.values(np.array([0, 1])))
        alone = train(Model(), data, restarts=1, generator=generator(), max_iter=200, warm_values=start)
        assert alone.result.value[0] == pytest.approx(trained.result.value[r], abs=1e-4)


def test_outputs_share_their_features():
    X = normal(20, 2, seed=1)
    data = Data(X, torch.stack([torch.sin(X.sum(-1)), torch.cos(X.sum(-1))]))
    model = Model(MLP((3, 1)), outputs=2)
    trained = train(model, data, restarts=3, generator=generator(), max_iter=150)
    values = trained.values(trained.order[:1])
    assert values["features"]["0"]["weight"].shape == (1, 2, 3)
    assert values["kernel"]["lengthscale"].shape == (1, 2, 1)
    total = 0.0
    for o in range(2):
        own = {k: v if k == "features" else map_leaves(lambda leaf, o=o: leaf[:, o], v) for k, v in values.items()}
        total += float(Model(MLP((3, 1))).nlml(own, Data(X, data.y[o].contiguous())))
    assert total == pytest.approx(float(trained.nlml[trained.order[0]]), rel=1e-9)


def test_batched_l_bfgs_is_as_good_as_scipys_on_the_step():
    step = step_function(0)
    X = torch.from_numpy(step.X_train)
    y = torch.from_numpy((step.y_train - step.y_train.mean()) / step.y_train.std())
    best = {}
    for optimizer in ("l-bfgs", "l-bfgs-b"):
        trained = train(Model(MLP((6, 2))), Data(X, y), restarts=4, generator=generator(1), optimizer=optimizer, max_iter=150)
        best[optimizer] = trained.nlml.min() / len(y)
    assert best["l-bfgs"] < best["l-bfgs-b"] + 0.05
    assert best["l-bfgs"] + np.log(step.y_train.std()) < -2.5  # the paper reports -2.84 in the units of y


# ------------------------------------------------------------------------------------------------------- members that go on


def test_a_training_that_goes_on_with_its_curvature_is_one_that_was_never_interrupted():
    model, data = Model(MLP((3, 2))), make_data(rows=60, columns=2)
    with training_threads() as workers:
        trainer = Trainer(generator(), workers)
        whole = trainer.fit("own", model, data, 3, 24)
        first = Trainer(generator(), workers).fit("own", model, data, 3, 12, remembers=True)
        values, known = first.values(), first.result.curvature
        assert known is not None
        further = trainer.fit("own", model, data, 3, 12, lambda _: values, curvature=known)
        forgetful = trainer.fit("own", model, data, 3, 12, lambda _: values)
    assert further.result.curvature is None  # nobody asked for it
    np.testing.assert_allclose(further.objective, whole.objective, rtol=1e-6)
    assert not np.allclose(forgetful.objective, whole.objective, rtol=1e-6)


def test_every_lot_of_a_training_has_the_curvature_of_its_own_starts():
    model, data = Model(MLP((3, 2))), make_data(rows=60, columns=2)
    with training_threads() as workers:
        first = Trainer(generator(), workers).fit("own", model, data, 5, 12, remembers=True)
    values, known = first.values(), first.result.curvature
    lot = Training("own", model, data, 5, 6, lambda _: values, curvature=known, remembers=True).drawn(generator())
    whole, lots = lot.minimised(np.inf), [part.minimised(np.inf) for part in lot.dealt(2)]
    assert len(lots) == 2
    joined = lots[0].joined_by(lots[1])
    np.testing.assert_allclose(joined.value, whole.value, rtol=1e-8)
    np.testing.assert_allclose(joined.curvature.steps, whole.curvature.steps, rtol=1e-4, atol=1e-8)


def test_results_keep_their_curvature_between_processes():
    data = make_data()
    with training_threads() as workers:
        trained = Trainer(generator(), workers).fit("own", NETWORK, data, 3, 4, remembers=True)
    nobody_came = Lot(NETWORK, trained.layout, {}, data, trained.result.theta, np.full(3, 4)).not_minimised("time limit")
    sent = side_by_side._plain([trained.result, nobody_came, trained.result])
    first, second, third = side_by_side._results(*sent)
    assert second.curvature is None
    for result in (first, third):
        np.testing.assert_array_equal(result.curvature.steps, trained.result.curvature.steps)
        np.testing.assert_array_equal(result.curvature.changes, trained.result.curvature.changes)
        assert result.history == trained.result.history
    assert first.joined_by(third).curvature.steps.shape[0] == 6
    assert first.joined_by(second).curvature is None
