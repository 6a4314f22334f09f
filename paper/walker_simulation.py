"""A simulated biped walks over uneven ground: the stand-in for the recordings of the robot Fox, which are not public.

The robot is planar, a MuJoCo model (MJCF). Its trunk slides along x and z and does not pitch. Each leg has a driven hip, a passive knee
with a mechanical stop at +5 degrees of overextension, and a spring along the shank that ends in a spherical foot. Only feet touch the
ground. Hinges turn about -y, so that a positive angle swings the leg forward (towards +x) and a bent knee is negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldgp.data import write_whole
from manifoldgp.errors import MissingExtraError

WALKER_COLUMNS = ("right_hip", "left_hip", "right_knee", "left_knee", "right_contact", "left_contact")
"""Columns of a recording of a walking biped: angles in degrees, contacts 0 or 1."""

SAMPLE_RATE = 80  # Hz, the paper's 0.0125 s
SAMPLES = 900
_SETTLING = 5 * SAMPLE_RATE  # samples dropped until the gait is regular
_STEPS_PER_SAMPLE = 25  # of 0.5 ms


def simulate_walker(seed: int = 0) -> NDArray[np.float64]:
    """900 samples (900, 6) at 80 Hz of a walking biped's joint angles and ground contacts, in the order of ``WALKER_COLUMNS``.

    Hip references are 10 + 17.5 sin(phase) degrees with the legs in antiphase at 1.23 Hz. Ornstein-Uhlenbeck processes
    disturb each reference (sd 0.3 degrees, 0.15 s) and the frequency (0.5 %, 1 s), and the ground has 120 bumps of up to
    4 mm, on which a swinging foot scuffs now and then. Knees are passive: 180 degrees is a straight leg, less is bent, and a
    mechanical stop ends the motion at 185.
    Angles carry noise N(0, 0.5^2) degrees and are rounded to 0.5 degrees; a contact is a force above 1 N.
    Needs the extra ``sim`` (MuJoCo). The same seed gives the same numbers.
    """
    mujoco = _mujoco()
    rng = np.random.default_rng(seed)
    model = mujoco.MjModel.from_xml_string(walker_xml(_draw_bumps(rng)))
    sensors, _ = _walk(mujoco, model, rng)
    return _measure(sensors[_SETTLING:], rng)


def write_walker_csv(path: str | Path, seed: int = 0) -> Path:
    """Simulate the walker and write its recording as CSV; seed 0 gives the file that ships with the package, byte for byte."""
    rows = simulate_walker(seed)
    lines = [",".join(WALKER_COLUMNS)]
    lines += [",".join([*(f"{angle:.1f}" for angle in row[:4]), *(f"{contact:.0f}" for contact in row[4:])]) for row in rows]
    path = Path(path)
    write_whole(path, "\n".join(lines) + "\n")
    return path


def _mujoco() -> Any:
    try:
        import mujoco  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError(
            "Simulating the walker needs MuJoCo, which is not installed. Run: pip install 'manifoldgp[sim]'. "
            "(The recording of seed 0 ships with the package: manifoldgp.data.walker() needs nothing.)"
        ) from error
    return mujoco


def _draw_bumps(rng: np.random.Generator, count: int = 120) -> list[tuple[float, float]]:
    """(place, height) of each bump in metres: gaps 0.13 U(0.4, 1.6) from 0.6 m on, heights U(0, 4 mm)."""
    places = 0.6 + np.cumsum(0.13 * rng.uniform(0.4, 1.6, count))
    heights = rng.uniform(0.0, 0.004, count)
    return list(zip(places.tolist(), heights.tolist(), strict=True))


def _walk(mujoco: Any, model: Any, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sensor readings (T, 6) in radians and newtons, and the position of the hips (T, 3), of the whole walk at 80 Hz."""
    data = mujoco.MjData(model)
    for side in ("right", "left"):
        data.joint(f"{side}_hip").qpos[0] = math.radians(10)
    dt = 1.0 / SAMPLE_RATE
    # Exact steps of Ornstein-Uhlenbeck processes: z <- a z + sqrt(1 - a^2) N(0, 1), a = exp(-dt / tau), keeps variance 1.
    keep = np.exp(-dt / np.array([0.15, 0.15, 1.0]))
    fresh = np.sqrt(1 - keep**2)
    disturbance = np.zeros(3)  # right hip, left hip, frequency, each in units of its sd
    phase = 0.0
    readings = []
    for sample in range(_SETTLING + SAMPLES):
        disturbance = keep * disturbance + fresh * rng.standard_normal(3)
        ramp = min(1.0, sample * dt / 1.5)
        phase += 2 * math.pi * 1.23 * (1 + 0.005 * disturbance[2]) * dt
        swing = 17.5 * ramp * math.sin(phase)
        data.ctrl[:] = np.radians([10 + swing + 0.3 * disturbance[0], 10 - swing + 0.3 * disturbance[1]])
        mujoco.mj_step(model, data, nstep=_STEPS_PER_SAMPLE)
        # mj_step leaves the sensors of the state before its last half millisecond; that delay is the sensor's own.
        readings.append(data.sensordata.copy())
    readings = np.array(readings)
    return readings[:, :6], readings[:, 6:]


def _measure(sensors: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """What the robot's electronics report: noisy angles in steps of 0.5 degrees (knees as 180 + q), contacts 0 or 1."""
    angles = np.degrees(sensors[:, :4]) + np.array([0.0, 0.0, 180.0, 180.0])
    angles = np.round((angles + 0.5 * rng.standard_normal(angles.shape)) / 0.5) * 0.5 + 0.0  # + 0.0: no negative zero
    return np.column_stack([angles, (sensors[:, 4:] > 1.0).astype(np.float64)])


BUMP_RADIUS = 0.02

_HEAD = """
<mujoco model="planar walker">
  <compiler angle="degree" autolimits="true"/>
  <option timestep="0.0005" integrator="implicitfast" cone="elliptic" impratio="5" iterations="50" tolerance="1e-10"/>
  <default>
    <geom contype="0" conaffinity="0" condim="3" friction="0.6 0.005 0.0001" solref="0.006 1" solimp="0.9 0.98 0.001"/>
    <default class="ground"><geom conaffinity="1"/></default>
    <default class="foot"><geom type="sphere" size="0.02" mass="0.07" contype="1"/></default>
    <default class="hip">
      <joint axis="0 -1 0" range="-60 60" damping="0.05" frictionloss="0.05" armature="0.01"/>
      <position kp="12" kv="0.7" forcerange="-4 4"/>
    </default>
    <default class="knee">
      <joint axis="0 -1 0" range="-110 5" stiffness="0.2" springref="-5" damping="0.003" frictionloss="0.005"
             armature="0.0002" solreflimit="0.006 0.55" solimplimit="0.95 0.99 0.001"/>
    </default>
    <default class="leg_spring"><joint type="slide" axis="0 0 1" stiffness="3500" damping="40" range="-0.001 0.03"/></default>
  </default>
"""

_LEG = """
      <body name="{side}_thigh" pos="0 {y} 0">
        <joint name="{side}_hip" class="hip"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.18" size="0.012" mass="0.22"/>
        <body name="{side}_shank" pos="0 0 -0.18">
          <joint name="{side}_knee" class="knee"/>
          <geom type="capsule" fromto="0 0 0 0 0 -0.108" size="0.009" mass="0.17"/>
          <body name="{side}_foot" pos="0 0 -0.18">
            <joint name="{side}_spring" class="leg_spring"/>
            <geom name="{side}_foot" class="foot"/>
            <site name="{side}_sole" type="sphere" size="0.026"/>
          </body>
        </body>
      </body>"""

_TAIL = """
  <actuator>
    <position name="right_hip" class="hip" joint="right_hip"/>
    <position name="left_hip" class="hip" joint="left_hip"/>
  </actuator>
  <sensor>
    <jointpos joint="right_hip"/>
    <jointpos joint="left_hip"/>
    <jointpos joint="right_knee"/>
    <jointpos joint="left_knee"/>
    <touch site="right_sole"/>
    <touch site="left_sole"/>
    <framepos objtype="xbody" objname="trunk"/>
  </sensor>
</mujoco>
"""


def walker_xml(bumps: Sequence[tuple[float, float]]) -> str:
    """The model as MJCF text; its sensors are the 6 channels of the data set (radians, newtons) and the hips' position (x, y, z).

    bumps: (place along x, height above the floor) of each bump, in metres; a bump is a cylinder lying across the path.
    """
    ground = ['    <geom class="ground" type="plane" size="0 0 1"/>']
    ground += [
        f'    <geom class="ground" type="capsule" size="{BUMP_RADIUS}" fromto="{x!r} -0.15 {height - BUMP_RADIUS!r} '
        f'{x!r} 0.15 {height - BUMP_RADIUS!r}"/>'
        for x, height in bumps
    ]
    trunk = (
        '    <body name="trunk" pos="0 0 0.385">\n'
        '      <joint name="x" type="slide" axis="1 0 0" damping="0.7"/>\n'
        '      <joint name="z" type="slide" axis="0 0 1" damping="10"/>\n'
        '      <geom type="box" size="0.03 0.06 0.06" pos="0 0 0.06" mass="1.4"/>'
    )
    legs = _LEG.format(side="right", y=-0.05) + _LEG.format(side="left", y=0.05)
    return _HEAD + "  <worldbody>\n" + "\n".join(ground) + "\n" + trunk + legs + "\n    </body>\n  </worldbody>" + _TAIL
