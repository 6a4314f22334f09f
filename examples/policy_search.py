"""Policies learnt from scratch in MuJoCo: a cart-pole swings up, and a paddle strikes a ball so that it goes on bouncing to half a metre.

    python examples/policy_search.py                             # cart-pole, plain GP, seed 0: a few minutes
    python examples/policy_search.py --task juggle --model learned  # a task with contacts, learned features
    python examples/policy_search.py --picture swing.png         # what it learnt, drawn

The loop is PILCO's: random actions first; then learn the dynamics from all that was recorded, improve a small policy through predicted rollouts, try it, and so on.
Needs MuJoCo: pip install 'manifoldgp[sim]'. `benchmarks/robots_policy.py` runs ten seeds of both tasks and both models.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from manifoldgp import Fast, GPRegressor, ManifoldGPRegressor
from manifoldgp.dynamics import Attempt, DynamicsModel, RadialPolicy, SaturatingCost, Trajectories, search
from manifoldgp.errors import MissingExtraError

Array = NDArray[np.float64]

CART_POLE = """
<mujoco>
  <option integrator="implicitfast" timestep="0.002"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body>
      <joint name="cart" type="slide" axis="1 0 0" damping="0.1"/>
      <geom type="box" size="0.1 0.05 0.05" mass="0.5"/>
      <body>
        <joint name="pole" type="hinge" axis="0 -1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.6" size="0.01" mass="0.5"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="cart"/></actuator>
</mujoco>"""

JUGGLE = """
<mujoco>
  <option integrator="implicitfast" timestep="0.001"/>
  <default><geom condim="1" solref="-100000 -45"/></default>
  <worldbody>
    <body gravcomp="1">
      <joint name="paddle" type="slide" axis="0 0 1" limited="true" range="-0.2 0.2"/>
      <geom type="box" size="0.1 0.1 0.01" pos="0 0 -0.01" mass="1"/>
    </body>
    <body pos="0 0 0.03">
      <joint name="ball" type="slide" axis="0 0 1"/>
      <geom type="sphere" size="0.03" mass="0.05"/>
    </body>
  </worldbody>
  <actuator><velocity joint="paddle" kv="300"/></actuator>
</mujoco>"""


@dataclass(frozen=True)
class Task:
    """A system of two joints and one motor, and what is wanted of it.

    Parameters
    ----------
    xml
        The system, for MuJoCo.
    names, measured
        Of the states, and which they are of two positions and their rates.
    rates
        Positions that follow from their rates by name; across an impact they do not.
    limits, dt, steps
        The smallest and the largest action, a force or a speed; how long it is held; steps of a trial.
    put_back
        Whether each step begins with the first joint at its origin, at the speed that is the action: a paddle that strikes, and returns before the next step.
    start, spread, noise
        Mean and standard deviation of states where trials begin; standard deviation of what the sensors add.
    cost, solved
        What a state costs; whether the states (T + 1, S) of a trial are what was wanted.
    held
        Steps for which a random action is held.
    random_trials, trials
        Trials with random actions, then with the policy, at most.
    evaluations
        Rollouts with a gradient before each trial.
    in_a_row
        Solved trials in a row after which the loop ends.
    """

    xml: str
    names: tuple[str, ...]
    measured: tuple[int, ...]
    rates: dict[str, str]
    angles: tuple[int, ...]
    limits: tuple[float, float]
    dt: float
    steps: int
    put_back: bool
    start: Array
    spread: Array
    noise: Array
    scale: Array
    cost: Callable[[Tensor], Tensor]
    solved: Callable[[Array], bool]
    held: int
    random_trials: int
    trials: int
    evaluations: int
    in_a_row: int


def tip(states: Tensor) -> Tensor:
    """Where the tip of the pole is, in metres: (..., 2) of states (..., 4). The angle is 0 where it hangs."""
    x, angle = states[..., 0], states[..., 1]
    return torch.stack([x + 0.6 * angle.sin(), -0.6 * angle.cos()], -1)


def height(states: Tensor) -> Tensor:
    """How high the ball gets if nothing stops it, in metres: (..., 1) of states (..., 2)."""
    return (states[..., 0] + states[..., 1] ** 2 / (2 * 9.81)).unsqueeze(-1)


def stands(states: Array) -> bool:
    """Whether the tip was within 0.2 m of its place above the origin during the last half second."""
    away = tip(torch.as_tensor(states[-6:])) - torch.tensor([0.0, 0.6], dtype=torch.float64)
    return bool((away.norm(dim=-1) < 0.2).all())


def rises(states: Array) -> bool:
    """Whether the ball, at the end of the trial, is on its way to half a metre, give or take 7 cm."""
    return bool(((height(torch.as_tensor(states[-4:])) - 0.5).abs() < 0.07).all())


TASKS = {
    "swing-up": Task(
        xml=CART_POLE,
        names=("x", "angle", "dx", "dangle"),
        measured=(0, 1, 2, 3),
        rates={"x": "dx", "angle": "dangle"},
        angles=(1,),
        limits=(-10.0, 10.0),
        dt=0.1,
        steps=25,
        put_back=False,
        start=np.zeros(4),
        spread=np.full(4, 0.05),
        noise=np.array([0.003, 0.003, 0.01, 0.01]),
        scale=np.array([1.0, 1.0, 2.0, 5.0]),
        cost=SaturatingCost([0.0, 0.6], 0.5, tip),
        solved=stands,
        held=2,
        random_trials=1,
        trials=7,
        evaluations=160,
        in_a_row=2,
    ),
    "juggle": Task(
        xml=JUGGLE,
        names=("ball", "dball"),
        measured=(1, 3),
        rates={},
        angles=(),
        limits=(0.0, 1.0),
        dt=0.1,
        steps=14,
        put_back=True,
        start=np.array([0.5, 0.0]),
        spread=np.array([0.15, 0.3]),
        noise=np.array([0.002, 0.01]),
        scale=np.array([0.3, 2.0]),
        cost=SaturatingCost([0.5], 0.07, height),
        solved=rises,
        held=1,
        random_trials=10,
        trials=15,
        evaluations=96,
        in_a_row=4,
    ),
}

MODELS: dict[str, Callable[[], ManifoldGPRegressor]] = {
    "plain": lambda: GPRegressor(restarts=1, max_iter=60),
    "learned": lambda: ManifoldGPRegressor(averaging=Fast(gp_starts=2, warm_members=1, cold_members=2)),
}


class Simulator:
    """A task in MuJoCo: trials with measured states, whose starts and sensor noise are drawn from a generator."""

    def __init__(self, task: Task, seed: int) -> None:
        try:
            import mujoco
        except ImportError as error:
            raise MissingExtraError("This needs MuJoCo, which is not installed. Run: pip install 'manifoldgp[sim]'.") from error
        self.task, self.rng, self._mujoco = task, np.random.default_rng(seed), mujoco
        self._model = mujoco.MjModel.from_xml_string(task.xml)
        self._data = mujoco.MjData(self._model)
        self._substeps = round(task.dt / self._model.opt.timestep)

    def starts(self, count: int) -> Array:
        """States (count, S) where trials begin."""
        return self.task.start + self.task.spread * self.rng.standard_normal((count, len(self.task.start)))

    def run(self, act: Callable[[Array], float]) -> tuple[Array, Array, Array]:
        """One trial: true states (T + 1, S), measured ones, which act sees, and actions (T, 1)."""
        data, task = self._data, self.task
        self._mujoco.mj_resetData(self._model, data)
        start, all_states = self.starts(1)[0], np.zeros(4)
        all_states[list(task.measured)] = start
        data.qpos[:], data.qvel[:] = all_states[:2], all_states[2:]
        true, measured, actions = [start], [self._measured(start)], []
        for _ in range(task.steps):
            actions.append(float(np.clip(act(measured[-1]), *task.limits)))
            data.ctrl[0] = actions[-1]
            if task.put_back:
                data.qpos[0], data.qvel[0] = 0.0, actions[-1]
            self._mujoco.mj_step(self._model, data, nstep=self._substeps)
            true.append(np.concatenate([data.qpos, data.qvel])[list(task.measured)])
            measured.append(self._measured(true[-1]))
        return np.array(true), np.array(measured), np.array(actions)[:, None]

    def _measured(self, state: Array) -> Array:
        return state + self.task.noise * self.rng.standard_normal(len(state))

    def random_trial(self) -> tuple[Array, Array]:
        """Measured states and actions under random actions."""
        actions = iter(np.repeat(self.rng.uniform(*self.task.limits, self.task.steps), self.task.held))
        return self.run(lambda state: next(actions))[1:]

    def solved(self, policy: RadialPolicy, count: int) -> float:
        """The share of trials that the policy solves."""
        return float(np.mean([self.task.solved(self.run(lambda x: policy.act(x)[0])[0]) for _ in range(count)]))


def first_policy(task: Task, seed: int) -> RadialPolicy:
    """A policy that has learnt nothing yet."""
    low, high = task.limits
    return RadialPolicy([low], [high], task.scale, task.angles, random_state=seed)


def recordings(task: Task, trials: Sequence[tuple[Array, Array]]) -> Trajectories:
    """Measured states and actions of trials, by name."""
    states, actions = zip(*trials, strict=True)
    return Trajectories.from_arrays(states, actions, dt=task.dt, state_names=task.names, action_names=["action"])


def dynamics_of(task: Task, model: str) -> DynamicsModel:
    """A model that has learnt nothing yet."""
    return DynamicsModel(MODELS[model](), angles=[task.names[i] for i in task.angles], rates=task.rates or None)


def learn(task: Task, model: str, policy: RadialPolicy, seed: int) -> Iterator[tuple[Attempt, bool]]:
    """Each trial of the loop, and whether it was solved, until so many in a row are as the task says; the policy improves in place."""
    simulator, outcomes = Simulator(task, seed), []

    def trial(acting: nn.Module) -> tuple[Array, Array]:
        true, measured, actions = simulator.run(lambda state: policy.act(state)[0])
        outcomes.append(task.solved(true))
        return measured, actions

    recorded = recordings(task, [simulator.random_trial() for _ in range(task.random_trials)])
    turns = search(
        policy, trial, dynamics_of(task, model), task.cost, recorded, simulator.starts(24),
        trials=task.trials, rivals=lambda other: first_policy(task, other), evaluations=task.evaluations, random_state=1000 * seed,
    )  # fmt: skip
    for attempt in turns:
        yield attempt, outcomes[-1]
        if outcomes[-task.in_a_row :] == [True] * task.in_a_row:
            return


def picture(task: Task, states: Array, path: str) -> None:
    """Draw one trial: the cart-pole every 0.1 s, from light to dark; or where the ball is."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3), constrained_layout=True)
    if task.xml == CART_POLE:
        _draw_cart_pole(axes, states)
    else:
        _draw_juggle(axes, np.arange(len(states)) * task.dt, states)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_cart_pole(axes, states: Array) -> None:
    x, (tip_x, tip_z) = states[:, 0], tip(torch.as_tensor(states)).numpy().T
    for h in range(len(states)):
        shade = str(0.85 - 0.85 * h / (len(states) - 1))
        axes.plot([x[h], tip_x[h]], [0, tip_z[h]], color=shade, linewidth=1.5)
        axes.plot(x[h], 0, "s", color=shade, markersize=7)
    axes.plot(tip_x, tip_z, color="tab:blue", linewidth=1, label="way of the tip")
    axes.plot(0, 0.6, "x", color="tab:red", label="target")
    axes.set(xlabel="x, m", ylabel="z, m", aspect="equal")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _draw_juggle(axes, seconds: Array, states: Array) -> None:
    axes.axhspan(0.43, 0.57, color="0.9", label="target")
    axes.plot(
        seconds, height(torch.as_tensor(states)).squeeze(-1), "--", label="height that the ball will reach", color="tab:orange"
    )
    axes.plot(seconds, states[:, 0], ".-", label="ball", color="tab:blue", linewidth=0.8)
    axes.set(xlabel="s", ylabel="m")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def main(arguments: list[str] | None = None) -> float:
    """Learn one task, print every trial; returns the share of ten other trials that the policy solves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="swing-up", choices=list(TASKS))
    parser.add_argument("--model", default="plain", choices=list(MODELS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", help="a file for the last policy's picture")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    task = TASKS[given.task]
    policy = first_policy(task, given.seed)
    for number, (attempt, solved) in enumerate(learn(task, given.model, policy, given.seed), task.random_trials + 1):
        print(
            f"{number * task.steps * task.dt:5.1f} s of interaction: predicted cost {attempt.improvement.before:.2f} -> "
            f"{attempt.improvement.after:.2f}, found {attempt.cost:.2f}{', solved' if solved else ''}",
            flush=True,
        )
    tested = Simulator(task, 10_000 + given.seed)
    share = tested.solved(policy, 10)
    print(f"other starts: {share:.0%} of ten solved")
    if given.picture:
        picture(task, tested.run(lambda state: policy.act(state)[0])[0], given.picture)
    return share


if __name__ == "__main__":
    main()
