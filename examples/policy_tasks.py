"""Tasks in MuJoCo whose dynamics are to be learnt: a cart-pole that swings up, and contacts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """A system with joints q and one motor: state (q, dq/dt) joint by joint, as ``columns`` name it; the action is held for ``dt`` seconds."""

    name: str
    xml: str
    columns: tuple[str, ...]
    limit: float
    dt: float
    steps: int
    start: Array
    spread: Array
    substeps: int = 50
    _made: list = field(default_factory=list, repr=False, compare=False)

    def starts(self, count: int, rng: np.random.Generator) -> Array:
        """Start states (count, D): normal about ``start``."""
        return self.start + self.spread * rng.standard_normal((count, len(self.start)))

    def run(self, start: Array, act, steps: int | None = None) -> tuple[Array, Array]:
        """States (steps + 1, D) and actions (steps, 1) of one trial; act(state, step) gives the force."""
        mujoco, model, data = self._simulator()
        mujoco.mj_resetData(model, data)
        joints = len(self.columns) // 2
        data.qpos[:], data.qvel[:] = start[:joints], start[joints:]
        states, actions = [np.array(start, dtype=float)], []
        for t in range(self.steps if steps is None else steps):
            u = float(np.clip(act(states[-1], t), -self.limit, self.limit))
            data.ctrl[0] = u
            mujoco.mj_step(model, data, nstep=self.substeps)
            states.append(np.concatenate([data.qpos, data.qvel]))
            actions.append([u])
        return np.array(states), np.array(actions)

    def _simulator(self):
        if not self._made:
            import mujoco

            model = mujoco.MjModel.from_xml_string(self.xml)
            model.opt.timestep = self.dt / self.substeps
            self._made.append((mujoco, model, mujoco.MjData(model)))
        return self._made[0]


CART_POLE = Task(
    name="cart-pole",
    xml="""
<mujoco>
  <option integrator="implicitfast"/>
  <worldbody>
    <body>
      <joint name="cart" type="slide" axis="1 0 0" damping="0.1"/>
      <geom type="box" size="0.1 0.05 0.05" mass="0.5" contype="0" conaffinity="0"/>
      <body>
        <joint name="pole" type="hinge" axis="0 -1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.6" size="0.01" mass="0.5" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="cart" ctrlrange="-10 10"/></actuator>
</mujoco>""",
    columns=("x", "angle", "dx", "dangle"),
    limit=10.0,
    dt=0.1,
    steps=25,
    start=np.zeros(4),
    spread=np.array([0.05, 0.05, 0.05, 0.05]),
)

PADDLE = Task(
    name="paddle",
    xml="""
<mujoco>
  <option integrator="implicitfast"/>
  <default><geom solref="-8000 -4" solimp="0.99 0.99 0.001"/></default>
  <worldbody>
    <body>
      <joint name="paddle" type="slide" axis="0 0 1" damping="0.5"/>
      <geom type="box" size="0.1 0.1 0.01" mass="1.0"/>
    </body>
    <body pos="0 0 0.05">
      <joint name="ball" type="slide" axis="0 0 1"/>
      <geom type="sphere" size="0.04" mass="0.05"/>
    </body>
  </worldbody>
  <actuator><motor joint="paddle"/></actuator>
</mujoco>""",
    columns=("paddle", "ball", "dpaddle", "dball"),
    limit=20.0,
    dt=0.04,
    steps=40,
    start=np.array([0.0, 0.4, 0.0, 0.0]),
    spread=np.array([0.02, 0.05, 0.02, 0.02]),
    substeps=40,
)

PUSH = Task(
    name="push",
    xml="""
<mujoco>
  <option integrator="implicitfast" gravity="0 0 0"/>
  <default><geom solref="0.005 1" solimp="0.95 0.99 0.001" friction="0 0 0" condim="1"/></default>
  <worldbody>
    <body>
      <joint name="pusher" type="slide" axis="1 0 0" damping="1.0"/>
      <geom type="box" size="0.02 0.05 0.05" mass="0.5"/>
    </body>
    <body pos="0.06 0 0">
      <joint name="block" type="slide" axis="1 0 0" frictionloss="2.0"/>
      <geom type="box" size="0.04 0.04 0.04" mass="0.5"/>
    </body>
  </worldbody>
  <actuator><motor joint="pusher"/></actuator>
</mujoco>""",
    columns=("pusher", "block", "dpusher", "dblock"),
    limit=6.0,
    dt=0.1,
    steps=20,
    start=np.array([0.0, 0.2, 0.0, 0.0]),
    spread=np.array([0.02, 0.05, 0.0, 0.0]),
    substeps=100,
)
