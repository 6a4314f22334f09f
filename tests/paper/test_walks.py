"""The data that only the paper needs: the smooth function, simulated walks, recordings, and errors that help."""

import importlib.util
import sys
from importlib import resources

import numpy as np
import pytest

from manifoldgp.data import walker
from manifoldgp.errors import InputError, MissingExtraError
from paper import walker_simulation
from paper.functions import smooth_function
from paper.recordings import icub_walking, read_columns, walking_robot
from paper.walker_simulation import WALKER_COLUMNS, simulate_walker, write_walker_csv

needs_mujoco = pytest.mark.skipif(
    importlib.util.find_spec("mujoco") is None, reason="simulating needs MuJoCo: pip install 'manifoldgp[sim]'"
)


def test_smooth_function_has_the_implied_noise():
    dataset = smooth_function(0)
    assert (dataset.X_train.shape, dataset.X_test.shape) == ((400, 1), (500, 1))
    np.testing.assert_array_equal(dataset.y_train, smooth_function(0).y_train)
    assert not np.array_equal(dataset.y_train, smooth_function(1).y_train)
    for X, y in [(dataset.X_train, dataset.y_train), (dataset.X_test, dataset.y_test)]:
        assert np.abs(X).max() <= np.pi
        assert (y - np.sin(X[:, 0])).std() == pytest.approx(0.003, rel=0.15)


@needs_mujoco
def test_the_shipped_recording_is_seed_0(tmp_path):
    shipped = resources.files("manifoldgp.data").joinpath("walker.csv").read_bytes()
    assert write_walker_csv(tmp_path / "walker.csv").read_bytes() == shipped
    recording = simulate_walker(0)
    dataset = walker()
    np.testing.assert_array_equal(np.concatenate([dataset.y_train, dataset.y_test]), recording[:, 3])
    np.testing.assert_array_equal(dataset.X_train[:, 4], recording[:400, 5])


@needs_mujoco
def test_the_robot_advances_steadily():
    mujoco = pytest.importorskip("mujoco")

    rng = np.random.default_rng(1)
    bumps = walker_simulation._draw_bumps(rng)
    model = mujoco.MjModel.from_xml_string(walker_simulation.walker_xml(bumps))
    sensors, hips = walker_simulation._walk(mujoco, model, rng)
    metres_each_second = np.diff(hips[240::80, 0])  # from the third second on
    assert metres_each_second.min() > 0.35
    assert metres_each_second.max() < 0.5
    assert hips[:, 2].min() > 0.34  # never sinks: legs are 0.38 m
    assert hips[-1, 0] < bumps[-1][0]  # still on the uneven ground
    assert np.degrees(sensors[400:, 2:4]).max() == pytest.approx(5.0, abs=0.7)  # the stop


@needs_mujoco
def test_other_seeds_walk_otherwise():
    assert not np.array_equal(simulate_walker(1), simulate_walker(2))


def test_simulating_without_mujoco_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"pip install 'manifoldgp\[sim\]'"):
        simulate_walker(0)


def write_recording(path, rows=900, header=WALKER_COLUMNS, change=None):
    table = np.random.default_rng(0).normal(size=(rows, len(header))).round(3).astype(object)
    for column, name in enumerate(header):
        if "contact" in name:
            table[:, column] = np.arange(rows) % 2
    if change is not None:
        row, column, value = change
        table[row, column] = value
    path.write_text("\n".join([",".join(header), *(",".join(map(str, row)) for row in table)]) + "\n")
    return path, table


def test_walking_robot_takes_any_column_order_and_more_rows(tmp_path):
    header = ("time", "left_knee", *[c for c in WALKER_COLUMNS if c != "left_knee"])
    path, table = write_recording(tmp_path / "my_robot.csv", rows=950, header=header)
    dataset = walking_robot(path)
    assert dataset.name == "my_robot"
    np.testing.assert_array_equal(dataset.y_train, table[:400, 1].astype(float))
    np.testing.assert_array_equal(dataset.y_test, table[400:900, 1].astype(float))
    right_hip = header.index("right_hip")
    np.testing.assert_array_equal(dataset.X_test[:, 0], table[400:900, right_hip].astype(float))


def test_the_shipped_recording_is_read_as_any_other():
    with resources.as_file(resources.files("manifoldgp.data") / "walker.csv") as path:
        read = walking_robot(path)
    shipped = walker()
    assert (read.name, read.input_names, read.target_name) == (shipped.name, shipped.input_names, shipped.target_name)
    for part in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(read, part), getattr(shipped, part))


def test_icub_walking_follows_its_protocol(tmp_path):
    header = ("time", "q_l_hip_pitch", "q_l_knee", "q_r_hip_pitch", "q_r_knee", "lf_contact_20N", "rf_contact_20N")
    path, table = write_recording(tmp_path / "icub.csv", rows=647, header=header)
    dataset = icub_walking(path)
    assert (len(dataset.y_train), len(dataset.y_test)) == (400, 247)
    assert dataset.input_names == ("q_r_hip_pitch", "q_l_hip_pitch", "q_r_knee", "rf_contact_20N", "lf_contact_20N")
    np.testing.assert_array_equal(dataset.y_test, table[400:, 2].astype(float))
    np.testing.assert_array_equal(dataset.X_train[:, 4], table[:400, 5].astype(float))


def test_a_recording_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"Expected a CSV file at .*nowhere.csv"):
        walking_robot(tmp_path / "nowhere.csv")
    short, _ = write_recording(tmp_path / "short.csv", rows=899)
    with pytest.raises(InputError, match=r"short.csv needs at least 900 rows.*it has 899"):
        walking_robot(short)
    with pytest.raises(InputError, match=r"lacks the columns q_r_hip_pitch.*its first line has: right_hip"):
        icub_walking(short)
    forces, _ = write_recording(tmp_path / "forces.csv", change=(7, 4, 23.5))
    with pytest.raises(InputError, match=r"expected 0 or 1 in the contact column right_contact, got 23.5"):
        walking_robot(forces)
    torn, _ = write_recording(tmp_path / "torn.csv", change=(7, 3, "n/a"))
    with pytest.raises(InputError, match=r"torn.csv, line 9: expected a finite number in column left_knee, got 'n/a'"):
        walking_robot(torn)


def test_read_columns_survives_spreadsheets(tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_bytes(b"\xef\xbb\xbfa, b\r\n1,2\r\n\r\n3,4\r\n")  # byte-order mark, blanks, an empty line
    np.testing.assert_array_equal(read_columns(path, ["b", "a"]), [[2, 1], [4, 3]])
    path.write_text("a,b\n1\n")
    with pytest.raises(InputError, match=r"line 2: .* column b, got ''"):
        read_columns(path, ["b"])
    path.write_text("")
    with pytest.raises(InputError, match="its first line has: nothing"):
        read_columns(path, ["b"])
