"""Factors, inverses and solves in place, and the jitter ladder."""

import numpy as np
import pytest
import torch

from manifoldgp._system.lapack import Square, potrf, potri
from manifoldgp._system.linalg import JITTER_LADDER, _on_device, cholesky_with_jitter, factor_solve_invert
from manifoldgp.errors import NotPositiveDefiniteError


@pytest.fixture
def A():
    generator = torch.Generator().manual_seed(0)
    B = torch.randn(3, 8, 8, generator=generator, dtype=torch.float64)
    return B @ B.mT + torch.eye(8, dtype=torch.float64)


def test_factor_solve_and_inverse_in_place(A):
    work, r = A.clone(), torch.ones(3, 8, dtype=torch.float64)
    half_log_det, alpha, failed = factor_solve_invert(work, r, invert=True)
    assert not failed.any()
    torch.testing.assert_close(half_log_det, 0.5 * torch.logdet(A), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(alpha, torch.linalg.solve(A, r), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(torch.tril(work), torch.tril(torch.linalg.inv(A)), rtol=1e-10, atol=1e-12)


def test_without_inversion_the_factor_stays(A):
    work = A.clone()
    factor_solve_invert(work, torch.ones(3, 8, dtype=torch.float64), invert=False)
    L = torch.tril(work)
    torch.testing.assert_close(L @ L.mT, A, rtol=1e-12, atol=1e-12)


def test_the_routines_for_other_devices_agree(A):
    r = torch.ones(3, 8, dtype=torch.float64)
    A[1, 2, 2] = -1.0
    here, there = A.clone(), A.clone()
    ours, theirs = factor_solve_invert(here, r, invert=True), _on_device(there, r, invert=True)
    assert ours.failed.tolist() == theirs.failed.tolist() == [False, True, False]
    good = torch.tensor([0, 2])
    torch.testing.assert_close(ours.half_log_det[good], theirs.half_log_det[good])
    torch.testing.assert_close(ours.alpha[good], theirs.alpha[good])
    torch.testing.assert_close(torch.tril(here)[good], torch.tril(there)[good])


def test_jitter_is_added_only_where_needed_and_reported(A):
    singular = torch.ones(8, 8, dtype=torch.float64)
    singular[0, 1] = singular[1, 0] = 1.0 + 1e-9  # eigenvalues slightly below zero
    L, jitter = cholesky_with_jitter(torch.stack([A[0], singular]))
    assert jitter[0] == 0.0
    assert 1e-9 <= jitter[1] <= 1e-8
    jittered = singular + jitter[1] * torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(L[1] @ L[1].mT, jittered, rtol=1e-9, atol=1e-9)


def test_past_the_bound_the_matrix_is_refused():
    bad = torch.diag(torch.tensor([1.0, 1.0, -10 * JITTER_LADDER[-1]], dtype=torch.float64))[None]
    with pytest.raises(NotPositiveDefiniteError, match="not positive definite, even with a jitter of 1e-06"):
        cholesky_with_jitter(bad)
    with pytest.raises(NotPositiveDefiniteError, match="not finite"):
        cholesky_with_jitter(torch.full((1, 2, 2), torch.nan, dtype=torch.float64))


@pytest.mark.parametrize("size", [5, 200])
def test_nan_and_infinity_off_the_diagonal_have_no_factor(size):
    # OpenBLAS itself reports success on such a matrix.
    for bad in (torch.nan, torch.inf):
        A = torch.eye(size, dtype=torch.float64).repeat(2, 1, 1)
        A[1, 3, 1] = A[1, 1, 3] = bad
        r = torch.ones(2, size, dtype=torch.float64)
        assert factor_solve_invert(A.clone(), r, invert=True).failed.tolist() == [False, True]
        assert _on_device(A.clone(), r, invert=True).failed.tolist() == [False, True]
        with pytest.raises(NotPositiveDefiniteError, match="entries that are not finite"):
            cholesky_with_jitter(A)


def test_any_memory_layout_is_factored_and_left_as_it_is(A):
    for layout in (A, A.mT.contiguous().mT, A.expand(3, 8, 8), A[:1].expand(3, 8, 8), torch.stack([A] * 2, -1)[..., 0]):
        before = layout.clone()
        L, jitter = cholesky_with_jitter(layout)
        torch.testing.assert_close(L @ L.mT, before, rtol=1e-12, atol=1e-12)
        assert torch.equal(layout, before)
        assert torch.equal(L, torch.tril(L))
        assert not jitter.any()


def test_jitter_can_be_relative_to_what_a_difference_was_made_of():
    small = 1e-12 * torch.diag(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64))[None]
    with pytest.raises(NotPositiveDefiniteError, match="not positive definite"):
        cholesky_with_jitter(small)
    L, jitter = cholesky_with_jitter(small, scale=torch.tensor([3.0], dtype=torch.float64))
    assert float(jitter) == pytest.approx(3e-12)
    torch.testing.assert_close(L @ L.mT, small + jitter * torch.eye(3, dtype=torch.float64), rtol=1e-9, atol=0)


def test_lapack_refuses_what_it_would_misread():
    with pytest.raises(ValueError, match="C-contiguous"):
        Square(np.eye(4)[:, ::2][:2])


@pytest.mark.parametrize("N", [1, 2, 63, 64, 65, 100, 131, 257, 999, 1000])
def test_the_inverse_of_a_factor_is_right_at_every_size_where_the_way_changes(N):
    rng = np.random.default_rng(N)
    B = rng.normal(size=(N, N))
    A = B @ B.T / N + 0.1 * np.eye(N)
    L = A.copy()
    square = Square(L)
    assert potrf(square) == 0
    potri(square)
    expected = np.tril(np.linalg.inv(A))
    np.testing.assert_allclose(np.tril(L), expected, atol=1e-11 * np.abs(expected).max())
