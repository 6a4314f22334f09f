"""The collapsed bound as a function of J x J sums over the rows, with its closed-form derivatives.

With inducing points Z (J, Q) in feature space, K_ZZ = L Lᵀ, V = L⁻¹ K_ZH (J, N), noise variances ν_i, weights w_i = 1/ν_i,
residuals r = z − m and k_i = k(h_i, h_i), all that the rows contribute are the sums

    VV = Σ w_i V_i V_iᵀ,   a = Σ w_i r_i V_i,   s = Σ w_i k_i,   q = Σ w_i r_i²,   Σ log ν_i,   Σ log g'(y_i)

and with β = (I + VV)⁻¹ a the bound on the NLML (Titsias 2009, eq. 9) is

    F = ½ [log|I + VV| + Σ log ν + N log 2π + q − aᵀβ + s − tr VV] − Σ log g'(y_i)   >=  NLML

Its derivatives need no other sums: 2 dF/dVV = (I + VV)⁻¹ − I + ββᵀ, dF/da = −β, dF/ds = dF/dq = ½, and through V = L⁻¹ K_ZH

    dF/dK_ZZ = ½ L⁻ᵀ (VV + (I + VV)⁻¹ − I + ββᵀ) L⁻¹
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from manifoldgp._system.linalg import factor_in_place


@dataclass
class Statistics:
    """The sums over rows. VV: (J, J), of which the lower triangle counts. a: (J,). scalars: (s, q, Σ log ν, Σ log g', N) (5,)."""

    VV: Tensor
    a: Tensor
    scalars: Tensor

    @classmethod
    def zeros(cls, J: int, like: Tensor) -> Statistics:
        """Sums over no rows."""
        return cls(like.new_zeros(J, J), like.new_zeros(J), like.new_zeros(5))

    def add_(self, other: Statistics) -> Statistics:
        """Add the sums of other rows, in place."""
        self.VV.add_(other.VV)
        self.a.add_(other.a)
        self.scalars.add_(other.scalars)
        return self

    def symmetric(self) -> Tensor:
        """VV (J, J) with both triangles."""
        lower = self.VV.tril()
        return lower + lower.tril(-1).mT


@dataclass(frozen=True)
class Bound:
    """F (), and what its derivatives are made of.

    LB: lower factor of I + VV (J, J). beta: (I + VV)⁻¹ a (J,). of_sums: 2 dF/dVV = (I + VV)⁻¹ − I + ββᵀ (J, J). of_whitened: L⁻¹ (dF/dK_ZZ) L⁻ᵀ's core,
    VV + (I + VV)⁻¹ − I + ββᵀ (J, J).
    """

    value: Tensor
    LB: Tensor
    beta: Tensor
    of_sums: Tensor
    of_whitened: Tensor


def factor_of_sums(sums: Statistics) -> Tensor | None:
    """Lower Cholesky factor of I + VV (J, J); None where the sums are not finite."""
    LB = sums.symmetric()[None]
    LB.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return None if bool(factor_in_place(LB)) else LB[0].tril_()


def collapsed_bound(sums: Statistics) -> Bound | None:
    """F and its derivatives from the sums over all rows; None where they are not finite."""
    LB = factor_of_sums(sums)
    if LB is None:
        return None
    VV = sums.symmetric()
    beta = torch.cholesky_solve(sums.a[:, None], LB)[:, 0]
    s, q, log_noise, log_slope, rows = sums.scalars.unbind()
    log_det = 2.0 * LB.diagonal().log().sum()
    fit = q - sums.a @ beta
    trace = s - VV.diagonal().sum()  # what the inducing points do not explain of the prior variances, over the noise
    value = 0.5 * (log_det + log_noise + math.log(2 * math.pi) * rows + fit + trace) - log_slope
    of_sums = torch.cholesky_inverse(LB)
    of_sums.diagonal().sub_(1.0)
    of_sums.addr_(beta, beta)
    return Bound(value, LB, beta, of_sums, VV + of_sums)
