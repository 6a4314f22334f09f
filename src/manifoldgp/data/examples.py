"""Small data sets to try the library on: a step, rotated bumps, a walking robot, and a table as people have them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldgp.errors import InputError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test rows of one task, float64, in the units of ``description``.

    X_train (N, D), y_train (N,), X_test (N*, D), y_test (N*,); ``input_names`` has one name per column of X.
    """

    name: str
    X_train: NDArray[np.float64] = field(repr=False)
    y_train: NDArray[np.float64] = field(repr=False)
    X_test: NDArray[np.float64] = field(repr=False)
    y_test: NDArray[np.float64] = field(repr=False)
    input_names: tuple[str, ...]
    target_name: str
    description: str

    def __post_init__(self) -> None:
        columns = len(self.input_names)
        for part in ("train", "test"):
            X = np.asarray(getattr(self, f"X_{part}"), dtype=np.float64)
            y = np.asarray(getattr(self, f"y_{part}"), dtype=np.float64)
            if X.ndim != 2 or X.shape[1] != columns or y.shape != X.shape[:1] or not len(y):
                raise InputError(
                    f"Data set {self.name!r} needs X_{part} of shape (N, {columns}), one column per input name, and y_{part} of "
                    f"shape (N,) with N > 0; got {X.shape} and {y.shape}. Reshape them or correct input_names."
                )
            if not (np.isfinite(X).all() and np.isfinite(y).all()):
                raise InputError(
                    f"Data set {self.name!r} needs finite numbers; X_{part} or y_{part} has NaN or infinity. Remove those rows."
                )
            object.__setattr__(self, f"X_{part}", X)
            object.__setattr__(self, f"y_{part}", y)


def step_values(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """F(x) = 0 where x <= 0 and 1 where x > 0 (eq. 18, without noise).

    >>> step_values(np.array([-1.0, 0.0, 1e-9]))
    array([0., 0., 1.])
    """
    return np.where(x > 0, 1.0, 0.0)


def step_function(seed: int = 0) -> Dataset:
    """y = F(x) + w, w ~ N(0, 0.01^2): 100 training inputs from N(0, 1), 500 test inputs uniform on [-5, 5], in ascending order.

    Test targets carry the same noise, so no model can score a mean NLPP below log(0.01 sqrt(2 pi e)) = -3.19 on average.

    Examples
    --------
    >>> step_function(0).X_train.shape
    (100, 1)
    """
    rng = np.random.default_rng(seed)
    x_train = rng.standard_normal(100)
    x_test = np.sort(rng.uniform(-5.0, 5.0, 500))
    return Dataset(
        name="step function",
        X_train=x_train[:, None],
        y_train=step_values(x_train) + 0.01 * rng.standard_normal(100),
        X_test=x_test[:, None],
        y_test=step_values(x_test) + 0.01 * rng.standard_normal(500),
        input_names=("x",),
        target_name="y",
        description="A unit step at x = 0 with noise of sd 0.01; trained near the step, tested on [-5, 5].",
    )


def rotated_bumps_values(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Eq. (19) turned anti-clockwise by 45 degrees, at X (N, 2) -> (N,).

    The paper's function is f(u) = 1 - N(u2 | 3, 0.5^2) - N(u2 | -3, 0.5^2) + u1 / 100. Turning its graph anti-clockwise
    by 45 degrees means looking f up at the point turned back, clockwise:

        u1 = ( x1 + x2) / sqrt(2)        u2 = (-x1 + x2) / sqrt(2)

    On [0, 10]^2 u1 runs over [0, 14.1] and u2 over [-7.1, 7.1]: both valleys, u2 = 3 and u2 = -3, cross the square as
    bands along its diagonal. (Turned the other way u2 >= 0 everywhere, and the second valley would be outside.)

    >>> bool(rotated_bumps_values(np.array([[5.0, 5.0 + 3 * 2**0.5]])) < 0.4)
    True
    """
    u1 = (X[:, 0] + X[:, 1]) / math.sqrt(2)
    u2 = (X[:, 1] - X[:, 0]) / math.sqrt(2)
    return 1.0 - _normal_density(u2, 3.0, 0.5) - _normal_density(u2, -3.0, 0.5) + u1 / 100


def rotated_bumps(seed: int = 0) -> Dataset:
    """Noise-free values at 400 points uniform on [0, 10]^2 to train, and on a regular grid of 50 x 50 points to test.

    Test rows run over x2 first: ``y_test.reshape(50, 50)[i, j]`` belongs to x1 = 10 i / 49, x2 = 10 j / 49.
    """
    rng = np.random.default_rng(seed)
    X_train = rng.uniform(0.0, 10.0, (400, 2))
    axis = np.linspace(0.0, 10.0, 50)
    X_test = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    return Dataset(
        name="rotated bumps",
        X_train=X_train,
        y_train=rotated_bumps_values(X_train),
        X_test=X_test,
        y_test=rotated_bumps_values(X_test),
        input_names=("x1", "x2"),
        target_name="y",
        description="Two valleys of width 0.5 and a slight slope, turned by 45 degrees; no noise.",
    )


def _normal_density(x: NDArray[np.float64], mean: float, sd: float) -> NDArray[np.float64]:
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))


def walker() -> Dataset:
    """One knee of a walking robot from the rest of its legs, at 80 Hz: 400 rows to train, the next 500 to test.

    Angles are in degrees, knees as 180 + q with a mechanical stop at 185; contacts of the feet are 0 or 1. The recording is of a
    simulated biped (``paper/walker_simulation.py``, seed 0); it stands in for the robot Fox of the paper, whose recordings are not public.
    """
    inputs = ("right_hip", "left_hip", "right_knee", "right_contact", "left_contact")
    with (resources.files("manifoldgp.data") / "walker.csv").open(encoding="utf-8") as file:
        table = np.genfromtxt(file, delimiter=",", names=True)
    X, y = np.stack([table[name] for name in inputs], axis=1), table["left_knee"]
    return Dataset(
        name="walker",
        X_train=X[:400],
        y_train=y[:400],
        X_test=X[400:],
        y_test=y[400:],
        input_names=inputs,
        target_name="left_knee",
        description="A simulated planar biped at 80 Hz: degrees, and contacts 0 or 1.",
    )


def example_table(rows: int = 120, seed: int = 0) -> dict[str, list[Any]]:
    """Columns x1, x2, surface, run and y, by name: the rotated bumps, 0.3 lower on soft ground, with noise of sd 0.02; ten rows a run.

    Examples
    --------
    >>> table = example_table(rows=2)
    >>> list(table), table["run"]
    (['x1', 'x2', 'surface', 'run', 'y'], ['run-01', 'run-01'])
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (rows, 2)).round(3)
    soft = rng.integers(2, size=rows)
    y = rotated_bumps_values(X) - 0.3 * soft + 0.02 * rng.standard_normal(rows)
    return {
        "x1": X[:, 0].tolist(),
        "x2": X[:, 1].tolist(),
        "surface": [("hard", "soft")[s] for s in soft],
        "run": [f"run-{1 + i // 10:02d}" for i in range(rows)],
        "y": y.round(4).tolist(),
    }
