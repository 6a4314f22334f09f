"""The data sets: shapes, determinism, the paper's protocols, the gait, and errors that help."""

import importlib.util
import math
import sys
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
from scipy import stats

from manifoldgp import datasets
from manifoldgp.datasets import Dataset
from manifoldgp.datasets._columns import read_columns
from manifoldgp.datasets.rotated_bumps import rotated_bumps_values
from manifoldgp.errors import InputError, MissingExtraError

SEEDED = [datasets.step_function, datasets.rotated_bumps, datasets.smooth_function]
needs_mujoco = pytest.mark.skipif(
    importlib.util.find_spec("mujoco") is None, reason="simulating needs MuJoCo: pip install 'manifoldgp[sim]'"
)


def arrays(dataset):
    return [dataset.X_train, dataset.y_train, dataset.X_test, dataset.y_test]


@pytest.mark.parametrize(
    ("make", "n_train", "n_test", "inputs"),
    [
        (datasets.step_function, 100, 500, 1),
        (datasets.rotated_bumps, 400, 2500, 2),
        (datasets.smooth_function, 400, 500, 1),
        (datasets.walker, 400, 500, 5),
    ],
)
def test_shapes_and_names(make, n_train, n_test, inputs):
    dataset = make()
    assert [a.shape for a in arrays(dataset)] == [(n_train, inputs), (n_train,), (n_test, inputs), (n_test,)]
    assert all(a.dtype == np.float64 for a in arrays(dataset))
    assert len(dataset.input_names) == inputs
    assert dataset.name in repr(dataset)
    assert len(repr(dataset)) < 400  # arrays are not printed


@pytest.mark.parametrize("make", SEEDED)
def test_a_seed_fixes_the_data(make):
    first, again, other = make(3), make(3), make(4)
    assert all(np.array_equal(a, b) for a, b in zip(arrays(first), arrays(again), strict=True))
    assert not np.array_equal(first.X_train, other.X_train)


def test_step_function_follows_the_paper():
    many = [datasets.step_function(seed) for seed in range(40)]
    x = np.concatenate([d.X_train[:, 0] for d in many])
    assert stats.kstest(x, "norm").pvalue > 0.01
    x_test = np.concatenate([d.X_test[:, 0] for d in many])
    assert stats.kstest(x_test, "uniform", args=(-5, 10)).pvalue > 0.01
    for X, y in [(d.X_train, d.y_train) for d in many] + [(d.X_test, d.y_test) for d in many]:
        noise = y - (X[:, 0] > 0)
        assert np.abs(noise).max() < 0.06
    noise = np.concatenate([d.y_test - (d.X_test[:, 0] > 0) for d in many])
    assert noise.std() == pytest.approx(0.01, rel=0.02)
    assert abs(noise.mean()) < 4 * 0.01 / math.sqrt(noise.size)


def test_smooth_function_has_the_implied_noise():
    dataset = datasets.smooth_function(0)
    for X, y in [(dataset.X_train, dataset.y_train), (dataset.X_test, dataset.y_test)]:
        assert np.abs(X).max() <= np.pi
        assert (y - np.sin(X[:, 0])).std() == pytest.approx(0.003, rel=0.15)


def test_rotated_bumps_follow_the_paper():
    dataset = datasets.rotated_bumps(0)
    for X in (dataset.X_train, dataset.X_test):
        assert X.min() >= 0
        assert X.max() <= 10
    assert len(np.unique(dataset.X_test, axis=0)) == 2500
    np.testing.assert_allclose(np.diff(np.unique(dataset.X_test[:, 0])), 10 / 49)
    grid = dataset.y_test.reshape(50, 50)
    assert grid[3, 7] == rotated_bumps_values(np.array([[30 / 49, 70 / 49]]))[0]


def test_rotated_bumps_are_the_papers_function_turned_anticlockwise():
    # Turn points u of the paper's frame anti-clockwise by 45 degrees; the value must travel with them.
    u = np.random.default_rng(5).uniform(-7, 7, (100, 2))
    angle = math.radians(45)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    valley = stats.norm.pdf(u[:, 1], 3, 0.5) + stats.norm.pdf(u[:, 1], -3, 0.5)
    np.testing.assert_allclose(rotated_bumps_values(u @ turn.T), 1 - valley + u[:, 0] / 100, rtol=1e-12)


def test_both_valleys_lie_inside_the_square():
    dataset = datasets.rotated_bumps(0)
    above = dataset.X_test[:, 1] > dataset.X_test[:, 0]
    for side in (above, ~above):
        assert dataset.y_test[side].min() < 0.35  # 1 - 0.798 + slope
        assert 0.1 < np.mean(dataset.y_test[side] < 0.9) < 0.6


def test_walker_reads_the_shipped_columns():
    text = resources.files("manifoldgp.datasets").joinpath("walker.csv").read_text(encoding="utf-8").splitlines()
    assert text[0] == ",".join(datasets.WALKER_COLUMNS)
    rows = np.array([[float(cell) for cell in line.split(",")] for line in text[1:]])
    dataset = datasets.walker()
    order = [datasets.WALKER_COLUMNS.index(name) for name in dataset.input_names]
    assert dataset.target_name == "left_knee"
    np.testing.assert_array_equal(np.vstack([dataset.X_train, dataset.X_test]), rows[:, order])
    np.testing.assert_array_equal(np.concatenate([dataset.y_train, dataset.y_test]), rows[:, 3])


def test_the_recorded_gait_is_a_walk():
    dataset = datasets.walker()
    X, knee = np.vstack([dataset.X_train, dataset.X_test]), np.concatenate([dataset.y_train, dataset.y_test])
    for angle in (X[:, 2], knee):
        assert 130 < angle.min() < 150  # swing
        assert 185 <= angle.max() <= 187.5  # the stop at 185, and noise
        assert 0.4 < np.mean(angle > 183) < 0.7  # rests there in stance
    assert np.all(np.concatenate([X[:, :3].ravel(), knee]) % 0.5 == 0)
    right, left = X[:, 3], X[:, 4]
    assert np.mean(right + left == 1) > 0.9  # feet alternate
    assert 12 <= np.sum(np.diff(right) == 1) <= 18  # 11.25 s at 1.23 Hz, a few scuffs
    assert np.corrcoef(X[:, 0], X[:, 1])[0, 1] < -0.8  # hips in antiphase


@needs_mujoco
def test_the_shipped_recording_is_seed_0(tmp_path):
    shipped = resources.files("manifoldgp.datasets").joinpath("walker.csv").read_bytes()
    assert datasets.write_walker_csv(tmp_path / "walker.csv").read_bytes() == shipped
    recording = datasets.simulate_walker(0)
    dataset = datasets.walker()
    np.testing.assert_array_equal(np.concatenate([dataset.y_train, dataset.y_test]), recording[:, 3])
    np.testing.assert_array_equal(dataset.X_train[:, 4], recording[:400, 5])


@needs_mujoco
def test_the_robot_advances_steadily():
    mujoco = pytest.importorskip("mujoco")

    simulation = importlib.import_module("manifoldgp.datasets.simulate_walker")
    rng = np.random.default_rng(1)
    bumps = simulation._draw_bumps(rng)
    model = mujoco.MjModel.from_xml_string(simulation.walker_xml(bumps))
    sensors, hips = simulation._walk(mujoco, model, rng)
    metres_each_second = np.diff(hips[240::80, 0])  # from the third second on
    assert metres_each_second.min() > 0.35
    assert metres_each_second.max() < 0.5
    assert hips[:, 2].min() > 0.34  # never sinks: legs are 0.38 m
    assert hips[-1, 0] < bumps[-1][0]  # still on the uneven ground
    assert np.degrees(sensors[400:, 2:4]).max() == pytest.approx(5.0, abs=0.7)  # the stop


@needs_mujoco
def test_other_seeds_walk_otherwise():
    assert not np.array_equal(datasets.simulate_walker(1), datasets.simulate_walker(2))


def test_simulating_without_mujoco_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"pip install 'manifoldgp\[sim\]'"):
        datasets.simulate_walker(0)


def write_recording(path, rows=900, header=datasets.WALKER_COLUMNS, change=None):
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
    header = ("time", "left_knee", *[c for c in datasets.WALKER_COLUMNS if c != "left_knee"])
    path, table = write_recording(tmp_path / "my_robot.csv", rows=950, header=header)
    dataset = datasets.walking_robot(path)
    assert dataset.name == "my_robot"
    np.testing.assert_array_equal(dataset.y_train, table[:400, 1].astype(float))
    np.testing.assert_array_equal(dataset.y_test, table[400:900, 1].astype(float))
    right_hip = header.index("right_hip")
    np.testing.assert_array_equal(dataset.X_test[:, 0], table[400:900, right_hip].astype(float))


def test_icub_walking_follows_its_protocol(tmp_path):
    header = ("time", "q_l_hip_pitch", "q_l_knee", "q_r_hip_pitch", "q_r_knee", "lf_contact_20N", "rf_contact_20N")
    path, table = write_recording(tmp_path / "icub.csv", rows=647, header=header)
    dataset = datasets.icub_walking(path)
    assert (len(dataset.y_train), len(dataset.y_test)) == (400, 247)
    assert dataset.input_names == ("q_r_hip_pitch", "q_l_hip_pitch", "q_r_knee", "rf_contact_20N", "lf_contact_20N")
    np.testing.assert_array_equal(dataset.y_test, table[400:, 2].astype(float))
    np.testing.assert_array_equal(dataset.X_train[:, 4], table[:400, 5].astype(float))


def test_a_recording_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"Expected a CSV file at .*nowhere.csv"):
        datasets.walking_robot(tmp_path / "nowhere.csv")
    short, _ = write_recording(tmp_path / "short.csv", rows=899)
    with pytest.raises(InputError, match=r"short.csv needs at least 900 rows.*it has 899"):
        datasets.walking_robot(short)
    with pytest.raises(InputError, match=r"lacks the columns q_r_hip_pitch.*its first line has: right_hip"):
        datasets.icub_walking(short)
    forces, _ = write_recording(tmp_path / "forces.csv", change=(7, 4, 23.5))
    with pytest.raises(InputError, match=r"expected 0 or 1 in the contact column right_contact, got 23.5"):
        datasets.walking_robot(forces)
    torn, _ = write_recording(tmp_path / "torn.csv", change=(7, 3, "n/a"))
    with pytest.raises(InputError, match=r"torn.csv, line 9: expected a finite number in column left_knee, got 'n/a'"):
        datasets.walking_robot(torn)


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


def test_dataset_refuses_rows_that_do_not_match():
    good = Dataset("toy", np.zeros((3, 1)), np.zeros(3), np.zeros((2, 1)), np.zeros(2), ("x",), "y", "")
    with pytest.raises(InputError, match=r"X_train of shape \(N, 1\).*got \(3,\) and \(3,\)"):
        replace(good, X_train=np.zeros(3))
    with pytest.raises(InputError, match=r"got \(2, 1\) and \(3,\)"):
        replace(good, y_test=np.zeros(3))
    with pytest.raises(InputError, match=r"needs finite numbers; X_test or y_test"):
        replace(good, y_test=np.array([0.0, np.nan]))
