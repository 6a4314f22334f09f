"""The evidence's factor: NLML and M = 2 dNLML/dK from A = K + diag(noise), member by member in place.

    A = L Lᵀ,   alpha = A⁻¹ r,   NLML = ½ rᵀ alpha + Σ log L_ii + (N/2) log 2π          (eq. 7)
    M = A⁻¹ − alpha alphaᵀ
"""

from __future__ import annotations

import math

import numpy as np

from manifoldgp import lapack

_LOG_2PI = math.log(2 * math.pi)


class Evidence:
    """What the factors of R members gave: pivots L_ii (R, N), alpha (R, N), the diagonal of M (R, N), and who failed (R,).

    residual: (R, N), zero for rows that do not take part; those are rows of the identity in A.
    """

    def __init__(self, residual: np.ndarray) -> None:
        self.residual = residual
        self.alpha = np.array(residual)
        self.pivots, self.slopes = np.ones_like(residual), np.zeros_like(residual)
        self.failed = np.zeros(len(residual), dtype=bool)

    def differentiate(self, A: np.ndarray, diagonal: np.ndarray, first: int) -> None:
        """Turn the lower triangles of the covariances A (m, N, N) into those of M; they are the members from ``first`` on.

        A member without a factor is marked, and its M is zero. diagonal: a view of A's diagonals (m, N).
        """
        for i, matrix in enumerate(A):
            b = first + i
            if lapack.potrf(matrix) or not math.isfinite(matrix[-1, -1]):
                # OpenBLAS reports success on NaN; the last pivot sees all of them.
                self.failed[b] = True
                self.alpha[b] = 0.0
                matrix[...] = 0.0
                continue
            self.pivots[b] = diagonal[i]
            lapack.potrs(matrix, self.alpha[b])
            lapack.potri(matrix)
            lapack.syr(matrix, self.alpha[b])
        self.slopes[first : first + len(A)] = diagonal

    def nlml(self, count: np.ndarray | float) -> np.ndarray:
        """NLML (R,), +inf where there is no factor. count: rows that take part."""
        fit = np.einsum("rn,rn->r", self.residual, self.alpha)
        value = 0.5 * fit + np.log(self.pivots).sum(-1) + (0.5 * _LOG_2PI) * count
        value[self.failed] = np.inf
        return value
