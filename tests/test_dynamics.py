"""Recordings, one-step models, rollouts against Monte Carlo, scores, files and the command line."""

from __future__ import annotations

import json
import warnings
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import Ridge

import manifoldgp
from command_line import fails, mgp
from manifoldgp import DeepGPRegressor, GPRegressor, ManifoldGPRegressor, Single
from manifoldgp._system import tensor_file
from manifoldgp.dynamics import DynamicsModel, Trajectories, cross_validate
from manifoldgp.dynamics.state_space import Kinematics, StateSpace
from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.inference.gaussian_outputs import GaussianOutputs, gaussian_outputs
from manifoldgp.inference.gaussian_series import SeriesOutputs, series_outputs
from manifoldgp.inference.uncertain_inputs import UncertainInputs, normal_points
from manifoldgp.kernels import Matern32

GP = GPRegressor(restarts=1, max_iter=40)


def pendulum(steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Angle and rate of a driven pendulum, a tenth of a second a step, with a little noise."""
    x, u = np.zeros((steps, 2)), rng.uniform(-2, 2, (steps, 1))
    x[0] = rng.uniform(-2, 2, 2)
    for t in range(steps - 1):
        rate = x[t, 1] + 0.1 * (-5 * np.sin(x[t, 0]) - 0.2 * x[t, 1] + u[t, 0])
        x[t + 1] = x[t, 0] + 0.1 * rate, rate
    return x + 0.002 * rng.normal(size=x.shape), u


def recorded(runs: int, seed: int = 0) -> Trajectories:
    rng = np.random.default_rng(seed)
    states, actions = zip(*(pendulum(21, rng) for _ in range(runs)), strict=True)
    return Trajectories.from_arrays(list(states), list(actions), dt=0.1, state_names=["angle", "rate"], action_names=["torque"])


@pytest.fixture(scope="module")
def plain() -> DynamicsModel:
    return DynamicsModel(GP, angles=["angle"]).fit(recorded(4))


@pytest.fixture(scope="module")
def kinematic() -> DynamicsModel:
    return DynamicsModel(GP, angles=["angle"], rates={"angle": "rate"}).fit(recorded(4))


def test_runs_come_from_arrays_frames_and_files(tmp_path):
    runs = recorded(3)
    frame = pd.concat(
        pd.DataFrame(
            {"run": f"r{i}", "t": 0.1 * np.arange(21), "angle": r.states[:, 0], "rate": r.states[:, 1], "torque": r.actions[:, 0]}
        )
        for i, r in enumerate(runs.runs)
    )
    frame.to_csv(tmp_path / "runs.csv", index=False)
    for found in (
        Trajectories.from_frame(frame, ["angle", "rate"], ["torque"], run="run", time="t"),
        Trajectories.from_csv(tmp_path / "runs.csv", ["angle", "rate"], ["torque"], run="run", time="t"),
    ):
        assert found.labels == ["r0", "r1", "r2"]
        assert found.dt == pytest.approx(0.1)
        for name in ("states", "actions", "next_states", "runs"):
            np.testing.assert_allclose(getattr(found.transitions(), name), getattr(runs.transitions(), name))
    assert len(runs + runs.only([0])) == 4


BAD = {
    "even": ({"states": np.zeros((4, 1)), "time": [0.0, 0.1, 0.25, 0.35]}, "Steps of time must be even"),
    "backwards": ({"states": np.zeros((3, 1)), "time": [0.2, 0.1, 0.0]}, "must increase"),
    "one row": ({"states": np.zeros((3, 1)), "runs": ["a", "a", "b"]}, "has one row"),
    "NaN": ({"states": [[0.0], [np.nan], [1.0]]}, "missing or infinite in row 1"),
    "torn": ({"states": np.zeros((4, 1)), "runs": ["a", "a", "b", "a"]}, "not together"),
    "actions": ({"states": [np.zeros((3, 1))], "actions": [np.zeros((5, 1))]}, "3 states and 5 actions"),
    "names": ({"states": np.zeros((3, 2)), "state_names": ["a", "a"]}, "occurs twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_recordings_that_cannot_be_used_are_refused(case):
    given, message = BAD[case]
    with pytest.raises(InputError, match=message):
        Trajectories.from_arrays(**given)


def test_roles_that_cannot_be_are_refused():
    runs = recorded(1)
    for roles, message in (
        ({"angles": ["speed"]}, "angles names 'speed'"),
        ({"flags": ["rate"]}, "must be 0 or 1"),
        ({"rates": {"angle": ("rate", "angle")}}, "a position has one"),
        ({"rates": {"angle": "rate", "rate": "angle"}}, "two roles|nothing is left"),
    ):
        with pytest.raises(InputError, match=message):
            DynamicsModel(GP, **roles).fit(runs)


def test_the_closed_form_of_all_outputs_is_that_of_each(plain):
    ensembles = plain.regressor_.ensembles_
    outputs, one_by_one = gaussian_outputs(ensembles), UncertainInputs(ensembles)
    assert outputs is not None
    torch.manual_seed(0)
    mu = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    for size in (1e-3, 0.4):  # series and exponentials
        factor = size * torch.randn(3, 4, 4, dtype=torch.float64)
        Sigma = (factor @ factor.mT).requires_grad_()
        found, expected = outputs(mu, Sigma), one_by_one(mu, Sigma)
        torch.testing.assert_close(found.mean, expected.mean, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(found.covariance, expected.output_covariance, rtol=1e-5, atol=1e-9)
        torch.testing.assert_close(Sigma @ found.gradient, expected.input_covariance, rtol=1e-5, atol=1e-9)
        weight = torch.randn(3, 2, 2, dtype=torch.float64)
        slopes = [
            torch.autograd.grad((covariance * weight).sum() + mean.sum(), (mu, Sigma))
            for mean, covariance in ((found.mean, found.covariance), (expected.mean, expected.output_covariance))
        ]
        torch.testing.assert_close(slopes[0][0], slopes[1][0], rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(slopes[0][1] + slopes[0][1].mT, slopes[1][1] + slopes[1][1].mT, rtol=1e-5, atol=1e-6)


def test_sines_and_cosines_have_the_moments_of_draws():
    space = StateSpace(("x", "a", "b"), ("u",), angles=(1, 2))
    torch.manual_seed(1)
    factor = 0.7 * torch.randn(1, 3, 3, dtype=torch.float64)
    mean, cov, act = torch.tensor([[0.3, 2.0, -0.5]]).double(), factor @ factor.mT, torch.tensor([[1.5]]).double()
    mu, Sigma, cross = space.input_moments(mean, cov, act)
    x = mean + normal_points(2**15, 3) @ torch.linalg.cholesky(cov[0]).T
    z = space.inputs(x, act.expand(len(x), 1))
    joint = torch.cov(torch.cat([x, z], 1).T)
    torch.testing.assert_close(mu[0], z.mean(0), rtol=0, atol=2e-3)
    torch.testing.assert_close(Sigma[0], joint[3:, 3:], rtol=0, atol=4e-3)
    torch.testing.assert_close(cross[0], joint[:3, 3:], rtol=0, atol=4e-3)


def test_an_angle_that_is_not_known_at_all_is_anywhere_on_the_circle():
    space = StateSpace(("a", "b"), (), angles=(0, 1))
    cov = torch.tensor([[[1e4, 9e3], [9e3, 1e4]]]).double().requires_grad_()
    mu, Sigma, cross = space.input_moments(torch.tensor([[0.3, 2.0]]).double(), cov, torch.zeros(1, 0).double())
    torch.testing.assert_close(mu, torch.zeros_like(mu))
    torch.testing.assert_close(Sigma[0].diagonal(), torch.full((4,), 0.5).double())  # of a sine and a cosine of a uniform angle
    torch.testing.assert_close(cross, torch.zeros_like(cross))
    Sigma.sum().backward()
    assert torch.isfinite(cov.grad).all()


@pytest.mark.parametrize("kind", ["plain", "kinematic"])
@pytest.mark.parametrize("acts", ["action", "policy"])
def test_a_step_in_closed_form_has_the_moments_of_points(kind, acts, request):
    step = request.getfixturevalue(kind).moment_step(256)
    by_points = replace(step, closed=None, points=normal_points(4096, step.points.shape[1]))
    mean, cov = torch.tensor([[0.5, 1.0]]).double(), torch.tensor([[[0.04, 0.01], [0.01, 0.09]]]).double()
    act = torch.tensor([[0.3]]).double() if acts == "action" else lambda x: torch.tanh(x[..., :1] - x[..., 1:])
    (m, C), (n, D) = step(mean, cov, act), by_points(mean, cov, act)
    assert (step.method, by_points.method) == ("closed form", "samples")
    torch.testing.assert_close(m, n, rtol=0, atol=2e-3)
    torch.testing.assert_close(C, D, rtol=0.03, atol=1e-3)


def test_moments_of_a_rollout_are_those_of_particles(kinematic):
    x, u = pendulum(11, np.random.default_rng(5))
    start = {"state_cov": 0.01 * np.eye(2)}
    moments = kinematic.rollout(x[0], u[:10], method="moments", **start)
    drawn = kinematic.rollout(x[0], u[:10], method="particles", particles=400, **start)
    assert (moments.method, drawn.method) == ("closed form", "particles")
    np.testing.assert_allclose(moments.mean, drawn.mean, atol=0.03)
    np.testing.assert_allclose(moments.std, drawn.std, rtol=0.15, atol=2e-3)
    assert np.abs(moments.mean - x).max() < 0.05  # and of what happens
    assert np.abs(kinematic.rollout(x[0], u[:10], method="mean").mean - x).max() < 0.05
    lower, upper = drawn.interval(0.9)
    assert ((lower <= drawn.mean) & (drawn.mean <= upper)).all()


def test_a_rollout_beyond_all_numbers_is_refused():
    model = DynamicsModel(GP).fit(recorded(2))
    model.regressor_.ensembles_ = [
        replace(one, offset=1e308, scale=1e308) for one in model.regressor_.ensembles_
    ]  # as a forged file has it
    with pytest.raises(InputError, match="grows beyond all numbers"):
        model.rollout([0.5, 0.5], np.zeros((5, 1)), method="particles", particles=5)


def test_starts_are_rolled_out_side_by_side(plain):
    runs = recorded(3, 7)
    states, actions = np.stack([r.states[0] for r in runs.runs]), np.stack([r.actions[:5] for r in runs.runs])
    for method in ("moments", "mean"):
        together = plain.rollout(states, actions, method=method)
        for i in range(3):
            np.testing.assert_allclose(together.mean[i], plain.rollout(states[i], actions[i], method=method).mean, atol=1e-8)
    assert plain.rollout(states, actions, method="particles", particles=7).particles.shape == (7, 3, 6, 2)


def test_a_policy_has_gradients_through_every_way_of_rolling_out(plain):
    gain = torch.zeros(2, dtype=torch.float64, requires_grad=True)

    def policy(x):
        return (x * gain).sum(-1, keepdim=True)

    def cost(step, horizon=8):
        mean, cov = torch.tensor([[1.0, 0.0]]).double(), 1e-3 * torch.eye(2).double()[None]
        for _ in range(horizon):
            mean, cov = step(mean, cov, policy)
        return (mean**2).sum() + cov.diagonal(dim1=-2, dim2=-1).sum()

    step = plain.moment_step()
    (slope,) = torch.autograd.grad(cost(step), gain)
    for i in range(2):
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                gain[i] += sign * 1e-4
                ends.append(float(cost(step)))
                gain[i] -= sign * 1e-4
        assert float(slope[i]) == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-3, abs=1e-5)
    particles = torch.ones(5, 1, 2, dtype=torch.float64)
    assert torch.autograd.grad(plain.particle_step(5)(particles, policy).sum(), gain)[0].abs().sum() > 0
    assert torch.autograd.grad(plain.mean_step()(particles[0], policy).sum(), gain)[0].abs().sum() > 0


def test_kinematics_are_found_in_the_recordings(kinematic):
    (found,) = kinematic.space_.kinematics
    assert found.after == pytest.approx(0.1, abs=0.01)  # x' = x + dt v'
    assert found.before == pytest.approx(0.0, abs=0.01)
    assert kinematic.regressor_.n_outputs_ == 1


@pytest.mark.parametrize("world", [False, True])
def test_turns_are_integrated_and_stay_turns(world):
    rng = np.random.default_rng(0)
    k = Kinematics((0, 1, 2, 3), (4, 5, 6), 0.02, 0.05, world=world)
    x = torch.zeros(40, 7, dtype=torch.float64)
    x[0, 0], x[:, 4:] = 1.0, torch.as_tensor(np.cumsum(rng.normal(size=(40, 3)), 0))
    for t in range(39):
        x[t + 1, :4] = k(x[t], x[t + 1])
    x[::2, :4] *= -1  # the same orientations
    names = ["qw", "qx", "qy", "qz", "wx", "wy", "wz"]
    runs = Trajectories.from_arrays(x.numpy(), state_names=names)
    model = DynamicsModel(GP, rates={tuple(names[:4]): tuple(names[4:])}).fit(runs)
    (found,) = model.space_.kinematics
    assert found.world is world
    assert (found.before, found.after) == (pytest.approx(0.02, abs=1e-6), pytest.approx(0.05, abs=1e-6))
    for method in ("particles", "moments"):
        ahead = model.rollout(x[0].numpy(), horizon=3, method=method)
        np.testing.assert_allclose(np.linalg.norm(ahead.mean[:, :4], axis=1), 1.0, atol=1e-9)


def test_flags_stay_flags():
    rng = np.random.default_rng(0)
    height = np.abs(np.sin(0.3 * np.arange(60) + rng.uniform()))
    states = np.stack([height, (height < 0.3).astype(float)], 1)
    model = DynamicsModel(GP, flags=["contact"]).fit(Trajectories.from_arrays(states, state_names=["height", "contact"]))
    drawn = model.rollout(states[0], horizon=10, method="particles", particles=20).particles
    assert ((drawn[..., 1] >= 0) & (drawn[..., 1] <= 1)).all()


def test_scores_grow_with_the_horizon_and_hold_out_whole_runs(kinematic):
    found = kinematic.score(recorded(3, 9), 10, every=5)
    assert found.starts == 9
    assert found.rmse.shape == found.nlpp.shape == found.coverage.shape == (10, 2)
    assert found.relative_rmse[-1] > found.relative_rmse[0]
    assert found.coverage.mean() > 0.6
    assert "9 rollouts" in str(found)
    wrong = replace(kinematic.space_, dt=None)
    assert wrong.difference(np.array([3.1, 0.0]), np.array([-3.1, 0.0]))[0] == pytest.approx(6.2 - 2 * np.pi)
    with pytest.raises(InputError, match="the longest has 21"):
        kinematic.score(recorded(1), 21)
    crossed = cross_validate(DynamicsModel(GPRegressor(restarts=1, max_iter=10)), recorded(4), 5, folds=2, method="mean")
    assert crossed.starts == 4 * 4
    with pytest.raises(InputError, match="need as many runs"):
        cross_validate(kinematic, recorded(1), 5)


def test_files_and_clones_keep_what_was_learnt(kinematic, tmp_path):
    x, u = pendulum(6, np.random.default_rng(3))
    kinematic.save(tmp_path / "pendulum.mgp")
    loaded = DynamicsModel.load(tmp_path / "pendulum.mgp")
    assert loaded.get_params(deep=False).keys() == kinematic.get_params(deep=False).keys()
    assert (loaded.space_, loaded.rates, list(loaded.angles)) == (kinematic.space_, {"angle": "rate"}, ["angle"])
    for method in ("moments", "particles"):
        np.testing.assert_array_equal(
            loaded.rollout(x[0], u[:5], method=method).mean,
            kinematic.rollout(x[0], u[:5], method=method).mean,
        )
    assert isinstance(manifoldgp.load(tmp_path / "pendulum.mgp"), GPRegressor)
    kinematic.regressor_.save(tmp_path / "regression.mgp")
    with pytest.raises(FileFormatError, match="no dynamics"):
        DynamicsModel.load(tmp_path / "regression.mgp")
    header, tensors = tensor_file.read(tmp_path / "pendulum.mgp")
    header["dynamics"]["space"]["angles"] = [float("inf")]
    tensor_file.write(tmp_path / "forged.mgp", header, tensors)
    with pytest.raises(FileFormatError, match="inconsistent"):
        DynamicsModel.load(tmp_path / "forged.mgp")
    plain = kinematic.space_.to_plain()
    fast = [{**plain["kinematics"][0], "noise": -1e308}]
    for forged in ({"angles": [7]}, {"dt": float("nan")}, {"state_names": ["a", "a"]}, {"kinematics": fast}):
        with pytest.raises(FileFormatError):
            StateSpace.from_plain(plain | forged)
    assert not clone(kinematic).__sklearn_is_fitted__()


def test_networks_are_rolled_out_by_particles_and_by_points():
    network = ManifoldGPRegressor((3, 2), averaging=Single(restarts=1, max_iter=20))
    model = DynamicsModel(network, angles=["angle"], rates={"angle": "rate"}).fit(recorded(3))
    x, u = pendulum(6, np.random.default_rng(3))
    assert model.rollout(x[0], u[:3], particles=10).method == "particles"
    assert model.rollout(x[0], u[:3], method="moments").method == "samples"


def test_wrong_requests_say_what_was_expected(plain):
    start = np.zeros(2)
    for arguments, message in (
        ({"state": np.zeros(3), "horizon": 2}, r"\(n, 2\)"),
        ({"state": start, "horizon": 2}, "Give actions or a policy"),
        ({"state": start, "actions": np.zeros((2, 3))}, "actions must be"),
        ({"state": start, "actions": np.zeros((2, 1)), "horizon": 3}, "each of 3 steps"),
        ({"state": start, "policy": torch.tanh}, "needs a horizon"),
        ({"state": start, "actions": np.zeros((2, 1)), "method": "magic"}, "method must be"),
        ({"state": start, "actions": np.zeros((2, 1)), "state_cov": -np.eye(2)}, "state_cov must hold"),
    ):
        with pytest.raises(InputError, match=message):
            plain.rollout(**arguments)


def test_the_picture_shows_every_state(plain):
    plots = pytest.importorskip("manifoldgp.plots", reason="needs the extra plots")
    x, u = pendulum(6, np.random.default_rng(3))
    ahead = plain.rollout(x[0], u[:5], method="particles", particles=5)
    figure = plots.plot_rollout(ahead, x)
    assert [ax.get_ylabel() for ax in figure.axes] == ["angle", "rate"]
    assert len(plots.plot_rollout(ahead, states=["rate"]).axes) == 1
    with pytest.raises(InputError, match="no state 'speed'"):
        plots.plot_rollout(ahead, states=["speed"])


def test_the_command_line_fits_rolls_out_and_scores(tmp_path, monkeypatch):
    pytest.importorskip("typer", reason="needs the extra cli")
    monkeypatch.chdir(tmp_path)
    runs = recorded(3)
    frame = pd.concat(
        pd.DataFrame(
            {"run": r.label, "t": 0.1 * np.arange(21), "angle": r.states[:, 0], "rate": r.states[:, 1], "torque": r.actions[:, 0]}
        )
        for r in runs.runs
    )
    frame.to_csv("runs.csv", index=False)
    columns = ("--run", "run", "--time", "t")
    fitted = mgp(
        *("dynamics", "fit", "runs.csv", "--states", "angle,rate", "--actions", "torque", *columns, "--angles", "angle"),
        *("--rate", "angle=rate", "--averaging", "plain", "--out", "pendulum.mgp"),
    )
    assert "60 steps, --averaging plain: " in fitted.err
    assert "Learnt 1 state from 60 steps of 3 runs" in fitted.err
    mgp("dynamics", "rollout", "pendulum.mgp", "runs.csv", "--horizon", "4", "--out", "ahead.csv")
    ahead = pd.read_csv("ahead.csv")
    assert list(ahead.columns[:4]) == ["step", "time", "angle", "angle_lower"]
    assert len(ahead) == 5
    assert np.abs(ahead["angle"] - frame["angle"].to_numpy()[:5]).max() < 0.05
    scored = mgp("dynamics", "score", "pendulum.mgp", "runs.csv", *columns, "--horizon", "5")
    assert "coverage" in scored.out
    assert "POSITION=RATE" in mgp("dynamics", "fit", "runs.csv", "--states", "angle", "--rate", "x", "--out", "m.mgp", code=2).err


def test_names_of_states_and_actions_reach_the_regression(kinematic, plain, tmp_path):
    """mgp inspect said target y0, columns x0, x1, x2, and so did every picture and exported file."""
    pytest.importorskip("typer", reason="needs the extra cli")
    targets = ("change of angle", "change of rate")
    assert plain.regressor_.table_encoding_.targets == targets
    plain.save(tmp_path / "plain.mgp")
    header, tensors = tensor_file.read(tmp_path / "plain.mgp")
    del header["table"]
    tensor_file.write(tmp_path / "earlier.mgp", header | {"feature_names": []}, tensors)  # as version 0.2 wrote it
    for file in ("plain.mgp", "earlier.mgp"):
        shown = " ".join(mgp("inspect", tmp_path / file).out.split())
        assert (
            "dynamics one step of angle, rate, acted on by torque; a step is 0.1 s target change of angle, change of rate"
            in shown
        )
        assert "Columns rate number sin(angle) number" in shown
        told = json.loads(mgp("inspect", tmp_path / file, "--json").out)
        assert told["dynamics"] == {"state_names": ["angle", "rate"], "action_names": ["torque"], "dt": 0.1}
        assert told["targets"] == list(targets)
    kinematic.save(tmp_path / "kinematic.mgp")
    mgp("export", tmp_path / "kinematic.mgp", "--to", "c", "--out", tmp_path / "pendulum.c")
    exported = (tmp_path / "pendulum.h").read_text(encoding="utf-8")
    assert "   x: rate, sin(angle), cos(angle), torque\n   mean and std: change of rate\n" in exported
    states = Trajectories.from_arrays(recorded(1).runs[0].states, state_names=["a", "sin(a)"])
    with pytest.raises(InputError, match=r"the same name: sin\(a\)\. Rename one"):
        DynamicsModel(GP, angles=["a"]).fit(states)


@pytest.mark.parametrize("method", ["particles", "moments"])
def test_a_rollout_is_written_with_the_digits_of_its_table(plain, tmp_path, monkeypatch, method):
    """-0.4938000000000002 stood at the start, and 0.10000000000000009 among the times."""
    pytest.importorskip("typer", reason="needs the extra cli")
    monkeypatch.chdir(tmp_path)
    model = replace_dt(plain, 0.10000000000000009)
    model.save("pendulum.mgp")
    table = pd.DataFrame({"angle": [-0.4938] * 7, "rate": [1.0 / 3.0] * 7, "torque": [0.3] * 7})
    table.round(4).to_csv("runs.csv", index=False)
    mgp("dynamics", "rollout", "pendulum.mgp", "runs.csv", "--out", "ahead.csv", "--method", method)
    ahead = pd.read_csv("ahead.csv", dtype=str)
    assert ahead["time"].tolist() == ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"]
    assert ahead.iloc[0, 2:].tolist() == ["-0.4938"] * 3 + ["0.3333"] * 3
    found = model.rollout([-0.4938, 0.3333], np.full((7, 1), 0.3), method=method)
    np.testing.assert_allclose(ahead[["angle", "rate"]].astype(float), found.mean, rtol=1e-9)


def replace_dt(model: DynamicsModel, dt: float) -> DynamicsModel:
    changed = copy(model)
    changed.space_ = replace(model.space_, dt=dt)
    return changed


@pytest.mark.parametrize("command", ["predict", "score", "report", "suggest"])
def test_commands_about_rows_name_those_of_dynamics(plain, tmp_path, monkeypatch, command):
    """A page would judge by rows left out within runs, and a row of changes is no prediction of where a system goes."""
    pytest.importorskip("typer", reason="needs the extra cli")
    monkeypatch.chdir(tmp_path)
    plain.save("a pendulum.mgp")
    pd.DataFrame({"angle": [0.1], "rate": [0.2], "torque": [0.3]}).to_csv("new.csv", index=False)
    more = {"predict": ["new.csv"], "score": ["new.csv"], "report": [], "suggest": ["--learn"]}[command]
    told = fails(command, "a pendulum.mgp", *more)
    assert "holds a dynamics model" in told
    assert "mgp dynamics rollout 'a pendulum.mgp' TABLE" in told
    assert "mgp dynamics score 'a pendulum.mgp' TABLE --horizon N" in told


def test_the_series_has_the_moments_of_the_closed_form(plain):
    step = plain.moment_step(method="series")
    exact, series = step.closed, step.series
    assert exact is not None
    assert series is not None
    torch.manual_seed(0)
    mu = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    for size, tolerance in ((1e-3, 1e-5), (0.1, 2e-3)):  # covariances; what is left out falls with them
        factor = size * torch.randn(3, 4, 4, dtype=torch.float64)
        Sigma = factor @ factor.mT
        found, expected = series(mu, Sigma), exact(mu, Sigma)
        torch.testing.assert_close(found.mean, expected.mean, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(found.gradient, expected.gradient, rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(found.covariance, expected.covariance, rtol=tolerance, atol=tolerance * 1e-2)
        slopes = [
            torch.autograd.grad(moments.covariance.diagonal(dim1=-2, dim2=-1).log().sum(), mu)[0] for moments in (found, expected)
        ]
        torch.testing.assert_close(slopes[0], slopes[1], rtol=0.02, atol=0.02)
    assert found.last is not None
    assert 0 < float(found.last.max()) < 0.2


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("latent", [True, False])
def test_the_series_is_the_same_with_a_gradient_and_without(plain, n, latent):
    series = plain.moment_step(method="series").series
    torch.manual_seed(1)
    mu, factor = torch.randn(n, 4, dtype=torch.float64), 0.1 * torch.randn(n, 4, 4, dtype=torch.float64)
    Sigma = factor @ factor.mT
    with_gradient, without = series(mu.clone().requires_grad_(), Sigma, latent), series(mu, Sigma, latent)
    assert with_gradient.mean.requires_grad
    assert not without.mean.requires_grad
    for name in ("mean", "covariance", "gradient", "last"):
        torch.testing.assert_close(getattr(without, name), getattr(with_gradient, name).detach(), rtol=1e-7, atol=1e-8)


def test_a_series_that_runs_away_is_not_a_number_without_a_word(plain):
    series = plain.moment_step(method="series").series
    mu, Sigma = torch.zeros(1, 4, dtype=torch.float64), torch.eye(4, dtype=torch.float64)[None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        series(mu + 1e200, Sigma)
        for none in (Sigma * np.nan, -1e12 * Sigma):
            assert torch.isnan(series(mu, none).covariance).all()


def sines(D: int, N: int = 60, scale: float = 0.8, noise: float = 0.05) -> GaussianOutputs:
    """The plain GP of a sum of sines, with given length-scales, variance one, and N rows between -2 and 2."""
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.uniform(-2, 2, (N, D)))
    y = torch.sin(2 * X).sum(-1) + noise * torch.tensor(rng.normal(size=N))
    K = torch.exp(-0.5 * torch.cdist(X, X).square() / scale**2) + noise**2 * torch.eye(N)
    T = torch.linalg.inv(torch.linalg.cholesky(K))
    alpha, zero, one = T.mT @ T @ y, X.new_zeros(1), X.new_ones(1)
    matrix = torch.eye(D).double()[None] / scale
    counts = (torch.outer(alpha, alpha) - T.mT @ T)[None]
    return GaussianOutputs(
        X[None] / scale, matrix, zero.expand(1, D), zero.expand(1, D), zero, alpha[None], T[None], counts, one, noise**2 * one
    )


@pytest.mark.parametrize("D", [1, 3])
def test_the_series_is_as_wide_as_the_closed_form_wherever_its_last_terms_are_small(D):
    exact = sines(D)
    series, rng = series_outputs(exact), np.random.default_rng(1)
    for far, least in ((1.5, 60), (6.0, 60)):  # among the rows, and beyond them
        mu, factor = torch.tensor(rng.uniform(far / 2, far, (200, D))), torch.tensor(rng.normal(size=(200, D, D)) / D**0.5)
        factor = factor * torch.tensor(10 ** rng.uniform(-2, 0.5, (200, 1, 1)))
        Sigma = factor @ factor.mT
        found, expected = series(mu, Sigma), exact(mu, Sigma)
        assert found.last is not None
        small = found.last[:, 0] <= 0.05
        assert least <= int(small.sum()) <= 190
        ratio = (found.covariance / expected.covariance)[small].sqrt()
        assert 0.92 < float(ratio.min()) <= float(ratio.max()) < 1.08


def test_the_gradient_of_the_series_is_that_of_the_closed_form_where_the_input_is_known():
    exact, slopes = sines(2), []
    for outputs in (exact, SeriesOutputs(exact, exact.whitener)):  # with all directions of the whitener
        given = torch.full((1, 2), 0.3).double().requires_grad_(), torch.zeros(1, 2, 2).double().requires_grad_()
        slopes.append(torch.autograd.grad(outputs(*given).covariance.sum(), given))
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_far_from_the_data_auto_gives_way_to_the_closed_form(plain):
    mean, cov, act = (torch.tensor([given]).double() for given in ([0.5, 300.0], [[0.01, 0.0], [0.0, 1e4]], [0.3]))
    exact, series, auto = (plain.moment_step(method=method)(mean, cov, act) for method in ("moments", "series", "auto"))
    assert torch.equal(auto[1], exact[1])
    assert not torch.equal(series[1], exact[1])


def test_only_the_series_pays_for_a_series(plain, monkeypatch):
    model = DynamicsModel.__new__(DynamicsModel)
    vars(model).update(plain.__getstate__())  # without what it has made ready
    monkeypatch.setattr("manifoldgp.dynamics.dynamics_model.series_outputs", None)
    assert model.predict([[0.1, 0.2]], [[0.3]])[0].shape == (1, 2)
    assert model.rollout([0.1, 0.2], [[0.3]], method="moments").method == "closed form"
    with pytest.raises(TypeError):
        model.rollout([0.1, 0.2], [[0.3]])


def test_where_its_last_term_is_large_the_series_gives_way_to_the_closed_form(plain):
    mean, act = torch.tensor([[0.5, 1.0]]).double(), torch.tensor([[0.3]]).double()
    exact, series, cov = plain.moment_step(), plain.moment_step(method="series"), 0.04 * torch.eye(2).double()[None]
    expected = [step(mean, cov, act)[1] for step in (exact, series)]
    assert not torch.equal(*expected)
    for tolerance, same in ((1e-12, 0), (0.5, 1)):
        assert torch.equal(replace(series, tolerance=tolerance)(mean, cov, act)[1], expected[same])
    assert exact.tolerance == series.tolerance > plain.moment_step(method="auto").tolerance > 0
    x, u = pendulum(11, np.random.default_rng(5))
    assert plain.rollout(x[0], u[:10]).method == "series"
    with pytest.raises(InputError, match="A series takes plain GPs"):
        DynamicsModel(GPRegressor(Matern32(), restarts=1, max_iter=5)).fit(recorded(2, 9)).rollout(x[0], u[:3], method="series")


def test_a_model_that_cannot_go_on_from_its_predictions_is_refused():
    for regressor, words in (
        (GPRegressor(target_warping="tanh"), "target_warping"),
        (Ridge(), "Ridge"),
        (DeepGPRegressor(), "DeepGPRegressor"),
    ):
        with pytest.raises(InputError, match=words):
            DynamicsModel(regressor).fit(recorded(2, 9))


@pytest.mark.parametrize("spoil", [
    lambda A: np.ma.masked_array(A, mask=np.asarray(A) == np.asarray(A).flat[0]), lambda A: np.zeros(np.shape(A), "timedelta64[h]"), lambda A: np.asarray(A) + 1j,
])  # fmt: skip
def test_what_means_no_numbers_is_no_state_and_no_action(plain, spoil):
    x, u = pendulum(6, np.random.default_rng(3))
    words = "masked|durations|real numbers"
    with pytest.raises(InputError, match=words):
        Trajectories.from_arrays(spoil(x), u)
    with pytest.raises(InputError, match=words):
        Trajectories.from_arrays(x, spoil(u))
    for arguments in ({"state": spoil(x[0])}, {"actions": spoil(u)}, {"state_cov": spoil(np.eye(2))}):
        with pytest.raises(InputError, match=words):
            plain.rollout(**{"state": x[0], "actions": u, **arguments})


@pytest.mark.parametrize("method", ["moments", "series", "mean"])
def test_methods_that_draw_no_particles_refuse_a_number_of_them(plain, method):
    x, u = pendulum(6, np.random.default_rng(3))
    with pytest.raises(InputError, match="draws no particles"):
        plain.rollout(x[0], u[:5], method=method, particles=5)
    with pytest.raises(InputError, match="draws no particles"):
        plain.score(recorded(1), 3, method=method, particles=5)
