"""Walking bipeds: predict one knee from the rest of the legs (paper, "Bipedal Robot Locomotion" and its table)."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from manifoldgp.datasets._columns import read_columns
from manifoldgp.datasets._dataset import Dataset
from manifoldgp.errors import InputError

_INPUTS = ("right_hip", "left_hip", "right_knee", "right_contact", "left_contact")
_TARGET = "left_knee"
_ICUB_INPUTS = ("q_r_hip_pitch", "q_l_hip_pitch", "q_r_knee", "rf_contact_20N", "lf_contact_20N")
_ICUB_TARGET = "q_l_knee"


def walker() -> Dataset:
    """The recording of a simulated biped that ships with the package: 400 rows to train, the next 500 to test.

    It is ``simulate_walker(0)``: angles in degrees at 80 Hz, knees as 180 + q with a stop at 185, contacts 0 or 1.
    It stands in for the robot Fox of the paper, whose recordings are not public.
    """
    with resources.as_file(resources.files("manifoldgp.datasets") / "walker.csv") as path:
        return _split(path, _INPUTS, _TARGET, 500, "walker", "A simulated planar biped at 80 Hz: degrees, and contacts 0 or 1.")


def walking_robot(path: str | Path) -> Dataset:
    """The same task on a recording of your robot: a CSV with the columns ``WALKER_COLUMNS`` and 900 rows or more, in time order.

    Columns right_hip, left_hip, right_knee, left_knee (angles, in degrees), right_contact, left_contact (0 or 1); others are
    ignored. The first 400 rows train, the next 500 test, as in the paper. The data set is named after the file.
    """
    name = Path(path).stem
    return _split(
        path, _INPUTS, _TARGET, 500, name, f"A walking robot's recording, {Path(path).name}: degrees, and contacts 0 or 1."
    )


def icub_walking(path: str | Path) -> Dataset:
    """The humanoid iCub walking, from ``icub_walking_only_100Hz.csv`` (ami-iit, base estimator of ICRA 2021; BSD-3).

    The columns of the paper's task under that file's names, angles in radians as recorded at 100 Hz; a foot is in contact
    above 20 N. 400 rows train, the next 247 test. The file does not ship with the package.
    """
    return _split(
        path, _ICUB_INPUTS, _ICUB_TARGET, 247, "icub walking", "The humanoid iCub walking, 100 Hz: radians, and contacts 0 or 1."
    )


def _split(
    path: str | Path, inputs: tuple[str, ...], target: str, n_test: int, name: str, description: str, n_train: int = 400
) -> Dataset:
    rows = read_columns(path, (*inputs, target))
    if len(rows) < n_train + n_test:
        raise InputError(
            f"{Path(path).name} needs at least {n_train + n_test} rows, {n_train} to train and the next {n_test} to test; "
            f"it has {len(rows)}. Give a longer recording."
        )
    X, y = rows[:, :-1], rows[:, -1]
    _check_contacts(Path(path).name, X, inputs)
    end = n_train + n_test
    return Dataset(
        name=name,
        X_train=X[:n_train],
        y_train=y[:n_train],
        X_test=X[n_train:end],
        y_test=y[n_train:end],
        input_names=inputs,
        target_name=target,
        description=description,
    )


def _check_contacts(file: str, X: NDArray[np.float64], inputs: tuple[str, ...]) -> None:
    for column, name in enumerate(inputs):
        values = np.unique(X[:, column])
        if "contact" in name and not np.isin(values, (0.0, 1.0)).all():
            odd = values[~np.isin(values, (0.0, 1.0))][0]
            raise InputError(f"{file}: expected 0 or 1 in the contact column {name}, got {odd:g}. Threshold the forces first.")
