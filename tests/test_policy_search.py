"""Policies: their limits and their export, gradients of predicted costs, and a loop that learns a tiny system from scratch."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from manifoldgp import GPRegressor, ManifoldGPRegressor, Single
from manifoldgp.dynamics import (
    DynamicsModel,
    NetworkPolicy,
    PredictedCost,
    RadialPolicy,
    SaturatingCost,
    Trajectories,
    improve,
    search,
)
from manifoldgp.dynamics.policy_team import PolicyTeam
from manifoldgp.errors import InputError
from manifoldgp.predictor import Predictor

START = [1.0, 0.0]


def cart(act, steps: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A cart on rails under a force: position and speed (T + 1, 2), forces (T, 1)."""
    rng = np.random.default_rng(seed)
    states, forces = [np.array(START)], []
    for _ in range(steps):
        x, v = states[-1]
        forces.append(np.clip(np.reshape(act(states[-1]), 1), -2.0, 2.0))
        states.append(np.array([x + 0.2 * v, 0.95 * v + 0.2 * forces[-1][0]]) + 0.002 * rng.standard_normal(2))
    return np.array(states), np.array(forces)


@pytest.fixture(scope="module")
def recorded() -> Trajectories:
    rng = np.random.default_rng(0)
    runs = [cart(lambda x: rng.uniform(-2, 2), seed=seed) for seed in range(3)]
    return Trajectories.from_arrays(
        [x for x, _ in runs], [u for _, u in runs], dt=0.2, state_names=["x", "v"], action_names=["u"]
    )


@pytest.fixture(scope="module")
def plain(recorded) -> DynamicsModel:
    return DynamicsModel(GPRegressor(restarts=1, max_iter=50)).fit(recorded)


def policy(seed: int = 0) -> NetworkPolicy:
    return NetworkPolicy([-2.0], [2.0], [1.0, 1.0], hidden=4, random_state=seed)


COST = SaturatingCost([0.0, 0.0], 0.5)


KINDS = [NetworkPolicy, RadialPolicy]


@pytest.mark.parametrize(("kind", "outer", "far"), [(NetworkPolicy, "outer", 100), (RadialPolicy, "weights", 1)])
def test_actions_keep_to_their_limits_however_large_weights_and_states_are(kind, outer, far):
    given = kind([-1.0, 0.0], [3.0, 0.5], [1.0, 2.0, 1.0], angles=[2], random_state=1)
    with torch.no_grad():
        getattr(given, outer).mul_(1e3)
    actions = given.act(far * np.random.default_rng(0).standard_normal((500, 3)))
    assert actions.shape == (500, 2)
    assert (actions >= [-1.0, 0.0]).all()
    assert (actions <= [3.0, 0.5]).all()
    assert np.ptp(actions[:, 0]) > 3.9  # both ends are reached


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_turn_of_an_angle_changes_nothing(kind):
    given = kind([-1.0], [1.0], [1.0, 2.0], angles=[0])
    x = np.random.default_rng(0).standard_normal((20, 2))
    assert np.allclose(given.act(x), given.act(x + np.array([2 * np.pi, 0.0])), atol=1e-12)
    assert not np.allclose(given.act(x), given.act(x + np.array([0.0, 2 * np.pi])), atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("angles", [(), (1,), (0, 1)])
def test_the_predictor_of_a_policy_gives_its_actions_and_survives_a_file(tmp_path, angles, kind):
    given = kind([-1.0, 2.0], [3.0, 9.0], [0.5, 2.0], angles=angles)
    x = np.random.default_rng(0).standard_normal((7, 2))
    p = given.predictor(("a", "b"))
    p.save(tmp_path / "policy.npz")
    actions, spread = Predictor.load(tmp_path / "policy.npz")(x, return_std=True)
    assert np.allclose(actions, given.act(x), rtol=1e-12, atol=1e-12)
    assert (spread == 0).all()
    assert p.to_c(tmp_path / "policy.c")
    assert "policy_mean" in (tmp_path / "policy.h").read_text()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"low": [1.0]}, "low below its high"),
        ({"scale": [1.0, 0.0]}, "positive number for each state"),
        ({"angles": [2]}, "places from 0 to 1"),
        ({"hidden": 0}, "hidden"),
    ],
)
def test_a_policy_says_what_is_wrong_with_its_arguments(wrong, message):
    with pytest.raises(InputError, match=message):
        NetworkPolicy(**({"low": [-1.0], "high": [1.0], "scale": [1.0, 1.0]} | wrong))


@pytest.mark.parametrize(("learned", "method"), [(False, "particles"), (True, "particles"), (False, "moments")])
def test_the_gradient_of_a_predicted_cost_is_that_of_finite_differences(recorded, plain, learned, method):
    single = ManifoldGPRegressor((3, 2), averaging=Single(restarts=1, max_iter=20))
    model = DynamicsModel(single).fit(recorded) if learned else plain
    starts = [START, [0.01 + x for x in START]]
    particles = 5 if method == "particles" else None
    predicted, acting = PredictedCost(model, COST, starts, 6, method, particles=particles, random_state=3), policy()
    parameters = list(acting.parameters())
    theta = nn.utils.parameters_to_vector(parameters).detach()
    slope = torch.cat([g.reshape(-1) for g in torch.autograd.grad(predicted(acting), parameters)])
    direction = torch.randn(len(theta), generator=torch.Generator().manual_seed(0), dtype=theta.dtype)

    def at(step: float) -> float:
        nn.utils.vector_to_parameters(theta + step * direction, parameters)
        return float(predicted(acting).detach())

    h = 1e-4
    assert abs((at(h) - at(-h)) / (2 * h) - float(slope @ direction)) < 1e-6 * float(slope.norm() * direction.norm())


def test_predicted_costs_are_those_of_the_models_rollouts(plain):
    acting = policy()
    costs = float(PredictedCost(plain, COST, [START], 10, particles=300)(acting).detach())
    rolled = plain.rollout(START, policy=acting, horizon=10, method="particles", particles=300, random_state=7)
    assert rolled.particles is not None
    assert abs(costs - float(COST(torch.as_tensor(rolled.particles[:, 1:])).mean())) < 0.02
    assert abs(costs - float(PredictedCost(plain, COST, [START], 10, "moments")(acting).detach())) < 0.02
    with pytest.raises(InputError, match="'particles' or 'moments'"):
        PredictedCost(plain, COST, [START], 10, "means")
    with pytest.raises(InputError, match="particles=300 has no effect on method='moments'"):
        PredictedCost(plain, COST, [START], 10, "moments", particles=300)


@pytest.mark.parametrize("method", ["particles", "moments"])
def test_a_team_costs_what_its_policies_cost(plain, method):
    members = [RadialPolicy([-2.0], [2.0], [1.0, 1.0], hidden=4, random_state=seed) for seed in range(3)]
    predicted = PredictedCost(plain, COST, [START], 5, method, 3 if method == "particles" else None)
    each = [float(predicted(member).detach()) for member in members]
    assert predicted.of_team(PolicyTeam.of(members)).tolist() == pytest.approx(each, abs=1e-9)
    assert np.ptp(each) > 0.01


def test_rivals_win_where_a_start_is_poor_and_what_was_good_is_kept(plain):
    poor = RadialPolicy([-2.0], [2.0], [1.0, 1.0], hidden=4)
    with torch.no_grad():
        poor.bumps.add_(100.0)  # where no state comes: its actions are 0 and have no slopes
    alone = improve(poor, plain, COST, [START], 12, particles=6, evaluations=8)
    assert alone.after == pytest.approx(alone.before)
    found = improve(
        poor, plain, COST, [START], 12, particles=6, evaluations=32,
        rivals=lambda seed: RadialPolicy([-2.0], [2.0], [1.0, 1.0], hidden=4, random_state=seed),
    )  # fmt: skip
    assert found.after < found.before - 0.1
    again = improve(poor, plain, COST, [START], 12, particles=6, evaluations=1)
    assert again.after <= again.before == pytest.approx(found.after)


def test_improvement_lowers_the_cost_on_the_model_and_on_the_system(plain):
    acting = policy()
    before = cart(acting.act)[0]
    found = improve(acting, plain, COST, [START], 12, particles=8, evaluations=80)
    assert found.after == found.costs.min() < found.before - 0.1
    assert float(PredictedCost(plain, COST, [START], 12, particles=8)(acting).detach()) == pytest.approx(found.after, rel=1e-9)
    after = cart(acting.act)[0]
    assert float(COST(torch.as_tensor(after)).mean()) < float(COST(torch.as_tensor(before)).mean()) - 0.1


@pytest.mark.slow
def test_the_loop_learns_from_scratch_and_keeps_its_recordings(recorded):
    acting, first = policy(1), recorded.only([0])
    turns = list(search(
        acting, lambda acting: cart(acting.act), DynamicsModel(GPRegressor(restarts=1, max_iter=50)), COST, first, [START],
        trials=2, particles=8, evaluations=80,
    ))  # fmt: skip
    assert [len(turn.recorded) for turn in turns] == [2, 3]
    assert np.array_equal(turns[0].recorded.runs[-1].states, turns[0].states)
    random = float(COST(torch.as_tensor(first.runs[0].states[1:])).mean())
    assert turns[-1].cost < random - 0.1
    assert abs(turns[-1].states[-1, 0]) < 0.2


def test_starts_must_be_states(plain):
    with pytest.raises(InputError, match=r"states \(n, 2\)"):
        improve(policy(), plain, COST, START, 5)


def test_the_example_makes_its_trials():
    pytest.importorskip("mujoco", reason="needs the extra [sim]")
    path = Path(__file__).resolve().parents[1] / "examples" / "policy_search.py"
    spec = importlib.util.spec_from_file_location("policy_search_example", path)
    assert spec is not None
    assert spec.loader is not None
    example = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))  # where dataclasses look for it
    spec.loader.exec_module(example)
    simulator = example.Simulator(example.TASKS["juggle"], 0)
    states, _, actions = simulator.run(lambda state: 0.35)
    assert states.shape == (15, 2)
    heights = example.height(torch.as_tensor(states)).numpy()[:, 0]
    np.testing.assert_allclose(heights[:3], heights[0], atol=0.01)  # the ball falls freely
    assert heights[-1] > 0.3  # and is struck again and again
    assert example.rises(states) == (np.abs(heights[-4:] - 0.5) < 0.07).all()
    assert (actions == 0.35).all()
    still = example.height(torch.as_tensor(simulator.run(lambda state: -5.0)[0])).numpy()[:, 0]
    assert still[-1] < 0.7 * still[0]  # a paddle that stays where it is takes a third of its energy at every bounce
