"""Recordings of walking bipeds, as CSV files: predict one knee from the rest of the legs."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from manifoldgp.data import Dataset
from manifoldgp.errors import InputError

_INPUTS = ("right_hip", "left_hip", "right_knee", "right_contact", "left_contact")
_TARGET = "left_knee"
_ICUB_INPUTS = ("q_r_hip_pitch", "q_l_hip_pitch", "q_r_knee", "rf_contact_20N", "lf_contact_20N")
_ICUB_TARGET = "q_l_knee"


def walking_robot(path: str | Path) -> Dataset:
    """A recording of your robot, the left knee to be predicted: a CSV with the columns ``WALKER_COLUMNS`` and 900 rows or more, in time order.

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


def read_columns(path: str | Path, columns: Sequence[str]) -> NDArray[np.float64]:
    """The named ``columns`` of a comma-separated file with a header line, (N, len(columns)), in the order asked for."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"Expected a CSV file at {str(path)!r}; there is none. Check the path.")
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name in columns if name not in header]
        if missing:
            raise InputError(
                f"{path.name} lacks the columns {', '.join(missing)}; its first line has: {', '.join(header) or 'nothing'}. "
                f"Name the columns in the first line, separated by commas."
            )
        where = [header.index(name) for name in columns]
        rows = [_numbers(path, reader.line_num, row, where, columns) for row in reader if row]
    return np.array(rows, dtype=np.float64).reshape(-1, len(columns))


def _numbers(path: Path, line: int, row: list[str], where: list[int], columns: Sequence[str]) -> list[float]:
    numbers = []
    for index, name in zip(where, columns, strict=True):
        text = row[index] if index < len(row) else ""
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(
                f"{path.name}, line {line}: expected a finite number in column {name}, got {text!r}. Correct or remove that line."
            )
        numbers.append(number)
    return numbers
