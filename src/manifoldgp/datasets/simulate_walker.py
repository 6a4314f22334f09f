"""A simulated biped walks over uneven ground: the stand-in for the recordings of the robot Fox, which are not public."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldgp._system.files import write_whole
from manifoldgp.datasets._walker_body import walker_xml
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
            "(The recording of seed 0 ships with the package: manifoldgp.datasets.walker() needs nothing.)"
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
