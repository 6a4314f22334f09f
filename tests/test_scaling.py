"""Standardisation: what it does to columns, constant ones included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifoldgp.data.scaling import Standardizer, constant_columns


def test_columns_get_mean_zero_and_unit_deviation():
    A = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 1e-6, 1e9] + [0.0, 5.0, -1e12]
    U = Standardizer.fit(A).apply(A)
    np.testing.assert_allclose(U.mean(0), 0.0, atol=1e-9)
    np.testing.assert_allclose(U.std(0), 1.0, rtol=1e-9)


def test_not_active_is_the_identity():
    A = np.random.default_rng(0).normal(size=(5, 2)) * 7 + 3
    scaler = Standardizer.fit(A, active=False)
    np.testing.assert_array_equal(scaler.apply(A), A)


def test_columns_are_given_back_to_people_without_a_trace_of_standardising():
    """The 0 of a 0/1 column had come back as 3.5e-18; numbers that have many digits keep them."""
    rng = np.random.default_rng(0)
    flag = (np.arange(34) == 3).astype(float)
    A = np.c_[flag, np.round(rng.normal(size=34), 2), 1.7e9 + rng.integers(0, 1_000_000, 34), np.full(34, 0.3)]
    scaler = Standardizer.fit(A)
    assert 0.0 < scaler.undo(scaler.apply(A))[:, 0].min() < 1e-15
    np.testing.assert_array_equal(scaler.as_given(scaler.apply(A)), A)
    B = rng.normal(size=(1000, 2))
    scaler = Standardizer.fit(B)
    np.testing.assert_allclose(scaler.as_given(scaler.apply(B)), B, rtol=0, atol=1e-14)
    same = Standardizer.fit(B, active=False)
    np.testing.assert_array_equal(same.as_given(B), B)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-200, -3e20, 1 / 3])
def test_a_constant_column_becomes_zero_and_is_not_blown_up(value):
    A = np.full((7, 1), value)
    scaler = Standardizer.fit(A)
    assert scaler.scale[0] == 1.0
    np.testing.assert_allclose(scaler.apply(A), 0.0, atol=1e-12 * abs(value))
    assert constant_columns(A).tolist() == [0]


def test_rounding_around_a_large_value_counts_as_constant():
    A = 1e6 + np.array([[0.0], [1e-10], [2e-10]])
    assert Standardizer.fit(A).scale[0] == 1.0
    assert constant_columns(A).tolist() == [0]
    B = 1e6 + np.array([[0.0], [1e-3], [2e-3]])
    assert Standardizer.fit(B).scale[0] == pytest.approx(np.std([0, 1e-3, 2e-3]), rel=1e-6)
    assert constant_columns(B).tolist() == []


def test_only_the_constant_columns_are_named():
    A = np.array([[1.0, 2.0, 0.0], [1.0, 3.0, 0.0]])
    assert constant_columns(A).tolist() == [0, 2]
    assert constant_columns(np.zeros((0, 2))).tolist() == [0, 1]


def test_large_columns_do_not_overflow():
    A = 1e300 * np.array([[1.0], [-1.0], [0.5]])
    scaler = Standardizer.fit(A)
    assert np.isfinite(scaler.scale).all()
    np.testing.assert_allclose(scaler.apply(A).std(0), 1.0)


@given(st.integers(-300, 300), st.integers(2, 6))
def test_powers_of_two_change_scale_and_nothing_else(exponent, N):
    A = np.random.default_rng(N).normal(size=(N, 2))
    small, large = Standardizer.fit(A), Standardizer.fit(A * 2.0**exponent)
    np.testing.assert_array_equal(large.scale, small.scale * 2.0**exponent)
    np.testing.assert_array_equal(large.apply(A * 2.0**exponent), small.apply(A))
