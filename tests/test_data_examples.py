"""The example data sets: shapes, determinism, the paper's protocols, the gait, and errors that help."""

import math
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
from scipy import stats

from manifoldgp.data import Dataset, rotated_bumps, step_function, walker
from manifoldgp.data.examples import rotated_bumps_values
from manifoldgp.errors import InputError


def arrays(dataset):
    return [dataset.X_train, dataset.y_train, dataset.X_test, dataset.y_test]


@pytest.mark.parametrize(
    ("make", "n_train", "n_test", "inputs"),
    [
        (step_function, 100, 500, 1),
        (rotated_bumps, 400, 2500, 2),
        (walker, 400, 500, 5),
    ],
)
def test_shapes_and_names(make, n_train, n_test, inputs):
    dataset = make()
    assert [a.shape for a in arrays(dataset)] == [(n_train, inputs), (n_train,), (n_test, inputs), (n_test,)]
    assert all(a.dtype == np.float64 for a in arrays(dataset))
    assert len(dataset.input_names) == inputs
    assert dataset.name in repr(dataset)
    assert len(repr(dataset)) < 400  # arrays are not printed


@pytest.mark.parametrize("make", [step_function, rotated_bumps])
def test_a_seed_fixes_the_data(make):
    first, again, other = make(3), make(3), make(4)
    assert all(np.array_equal(a, b) for a, b in zip(arrays(first), arrays(again), strict=True))
    assert not np.array_equal(first.X_train, other.X_train)


def test_step_function_follows_the_paper():
    many = [step_function(seed) for seed in range(40)]
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


def test_rotated_bumps_follow_the_paper():
    dataset = rotated_bumps(0)
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
    dataset = rotated_bumps(0)
    above = dataset.X_test[:, 1] > dataset.X_test[:, 0]
    for side in (above, ~above):
        assert dataset.y_test[side].min() < 0.35  # 1 - 0.798 + slope
        assert 0.1 < np.mean(dataset.y_test[side] < 0.9) < 0.6


def test_walker_reads_the_shipped_columns():
    text = resources.files("manifoldgp.data").joinpath("walker.csv").read_text(encoding="utf-8").splitlines()
    columns = text[0].split(",")
    rows = np.array([[float(cell) for cell in line.split(",")] for line in text[1:]])
    dataset = walker()
    order = [columns.index(name) for name in dataset.input_names]
    assert dataset.target_name == "left_knee"
    np.testing.assert_array_equal(np.vstack([dataset.X_train, dataset.X_test]), rows[:, order])
    np.testing.assert_array_equal(np.concatenate([dataset.y_train, dataset.y_test]), rows[:, columns.index("left_knee")])


def test_the_recorded_gait_is_a_walk():
    dataset = walker()
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


def test_dataset_refuses_rows_that_do_not_match():
    good = Dataset("toy", np.zeros((3, 1)), np.zeros(3), np.zeros((2, 1)), np.zeros(2), ("x",), "y", "")
    with pytest.raises(InputError, match=r"X_train of shape \(N, 1\).*got \(3,\) and \(3,\)"):
        replace(good, X_train=np.zeros(3))
    with pytest.raises(InputError, match=r"got \(2, 1\) and \(3,\)"):
        replace(good, y_test=np.zeros(3))
    with pytest.raises(InputError, match=r"needs finite numbers; X_test or y_test"):
        replace(good, y_test=np.array([0.0, np.nan]))
