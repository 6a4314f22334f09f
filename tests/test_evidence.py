"""The first factor of the chain rule alone: NLML and dNLML/dK against slow references, finite differences, SciPy."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from manifoldgp.evidence import leave_one_out, nlml

N = 7


def random_covariance(batch=(), seed=0):
    generator = torch.Generator().manual_seed(seed)
    B = torch.randn(*batch, N, N, generator=generator, dtype=torch.float64)
    r = torch.randn(*batch, N, generator=generator, dtype=torch.float64)
    return B @ B.mT / N, r


def test_value_is_the_gaussian_density():
    K, r = random_covariance()
    expected = -multivariate_normal(np.zeros(N), K.numpy() + 0.3 * np.eye(N)).logpdf(r.numpy())
    assert float(nlml(K, torch.tensor(0.3, dtype=torch.float64), r)) == pytest.approx(expected, rel=1e-12)


def test_batched_equals_looped_for_any_leading_dimensions():
    K, r = random_covariance((2, 3))
    noise = torch.rand(2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.1
    batched = nlml(K, noise, r)
    assert batched.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            assert float(batched[i, j]) == pytest.approx(float(nlml(K[i, j], noise[i, j], r[i, j])), rel=1e-13)


def test_gradient_is_the_closed_form():
    K, r = random_covariance()
    K.requires_grad_()
    noise = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    residual = r.clone().requires_grad_()
    dK, d_noise, d_residual = torch.autograd.grad(nlml(K, noise, residual), (K, noise, residual))
    inverse = torch.linalg.inv(K.detach() + 0.2 * torch.eye(N, dtype=torch.float64))
    alpha = inverse @ r
    W = 0.5 * (inverse - torch.outer(alpha, alpha))
    # The gradient comes as a lower triangle that counts each pair once.
    torch.testing.assert_close(0.5 * (dK + dK.T), W, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(d_noise, W.trace(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(d_residual, alpha, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_against_finite_differences_twice(rowwise, masked):
    generator = torch.Generator().manual_seed(3)
    B = torch.randn(2, N, N, generator=generator, dtype=torch.float64, requires_grad=True)
    r = torch.randn(2, N, generator=generator, dtype=torch.float64, requires_grad=True)
    noise = (torch.rand(2, *([N] if rowwise else []), generator=generator, dtype=torch.float64) + 0.3).requires_grad_()
    mask = torch.tensor([[1.0] * N, [1, 0, 1, 1, 0, 1, 1]], dtype=torch.float64) if masked else None

    def value(B, noise, r):
        return nlml(B @ B.mT, noise, r, mask)

    assert torch.autograd.gradcheck(value, (B, noise, r), nondet_tol=1e-9)
    assert torch.autograd.gradgradcheck(value, (B, noise, r), nondet_tol=1e-9)


def test_incoming_gradients_scale_members():
    K, r = random_covariance((2,))
    K.requires_grad_()
    noise = torch.full((2,), 0.5, dtype=torch.float64)
    (once,) = torch.autograd.grad(nlml(K, noise, r).sum(), K)
    (weighted,) = torch.autograd.grad((nlml(K, noise, r) * torch.tensor([2.0, -1.0])).sum(), K)
    torch.testing.assert_close(weighted, once * torch.tensor([2.0, -1.0], dtype=torch.float64)[:, None, None])


def test_masked_rows_are_exactly_absent():
    K, r = random_covariance((1,))
    keep = torch.tensor([0, 2, 3, 5])
    mask = torch.zeros(1, N, dtype=torch.float64)
    mask[:, keep] = 1.0
    noise = torch.tensor([0.3], dtype=torch.float64)
    assert float(nlml(K, noise, r, mask)) == pytest.approx(float(nlml(K[:, keep][:, :, keep], noise, r[:, keep])), rel=1e-13)


def test_not_positive_definite_gives_infinity_and_spares_the_others():
    K, r = random_covariance((2,))
    K[0, 0, 0] = -5.0
    K.requires_grad_()
    value = nlml(K, torch.full((2,), 0.1, dtype=torch.float64), r)
    assert torch.isinf(value[0])
    (gradient,) = torch.autograd.grad(value, K, torch.ones(2, dtype=torch.float64))
    assert torch.isfinite(gradient[1]).all()


def test_leave_one_out_equals_leaving_one_out():
    K, y = random_covariance()
    A = K + 0.2 * torch.eye(N, dtype=torch.float64)
    L = torch.linalg.cholesky(A)
    alpha = torch.linalg.solve(A, y)
    loo = leave_one_out(L[None], alpha[None], y[None])
    for i in range(N):
        rest = [j for j in range(N) if j != i]
        weights = torch.linalg.solve(A[rest][:, rest], A[rest, i])
        mean, variance = float(weights @ y[rest]), float(A[i, i] - weights @ A[rest, i])
        assert float(loo.mean[0, i]) == pytest.approx(mean, rel=1e-9, abs=1e-12)
        assert float(loo.variance[0, i]) == pytest.approx(variance, rel=1e-9)
        density = -0.5 * ((float(y[i]) - mean) ** 2 / variance + math.log(2 * math.pi * variance))
        assert float(loo.log_density[0, i]) == pytest.approx(density, rel=1e-9, abs=1e-12)
