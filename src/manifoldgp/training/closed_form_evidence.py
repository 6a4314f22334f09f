"""The evidence's factor: NLML and 2W = 2 dNLML/dK from A = K + diag(noise), member by member in place.

A = L Lᵀ,   alpha = A⁻¹ r,   NLML = ½ rᵀ alpha + Σ log L_ii + (N/2) log 2π          (eq. 7)
2W = A⁻¹ − alpha alphaᵀ
"""

from __future__ import annotations

import math

import numpy as np

from manifoldgp._system import lapack

_LOG_2PI = math.log(2 * math.pi)


class Evidence:
    """Room for what the factors of R members give.

    residual r and alpha (R, N), both zero for rows that do not take part: those are rows of the identity in A. pivots: L_ii (R, N).
    slopes: the diagonal of 2W (R, N). fit: rᵀ alpha (R,). failed (R,): no factor.
    """

    def __init__(self, R: int, N: int) -> None:
        self.residual, self.alpha, self.pivots, self.slopes = (np.empty((R, N)) for _ in range(4))
        self.fit, self.failed = np.empty(R), np.zeros(R, dtype=bool)
        self._vectors = [row.ctypes.data for row in self.alpha]

    def begin(self) -> None:
        """Forget the last evaluation; the residual is new."""
        np.copyto(self.alpha, self.residual)
        self.failed[...] = False

    def differentiate(self, A: np.ndarray, squares: list[lapack.Square], diagonal: np.ndarray, first: int) -> None:
        """Turn the lower triangles of the covariances A (m, N, N) into those of 2W; they are the members from ``first`` on.

        A member without a factor is marked, and its W is zero. diagonal: a view of A's diagonals (m, N). squares: where A's matrices are.
        """
        for i in range(len(A)):
            b, square = first + i, squares[i]
            info = lapack.potrf(square)
            self.pivots[b] = diagonal[i]
            if info or not math.isfinite(self.pivots[b, -1]):
                # OpenBLAS reports success on NaN; the last pivot sees all of them.
                self.failed[b] = True
                self.pivots[b], self.alpha[b], A[i] = 1.0, 0.0, 0.0
                continue
            lapack.potrs(square, self._vectors[b])
            lapack.potri(square)
            lapack.syr(square, self._vectors[b])
        self.slopes[first : first + len(A)] = diagonal

    def nlml(self, count: np.ndarray | float) -> np.ndarray:
        """NLML (R,), +inf where there is no factor. count: rows that take part."""
        np.vecdot(self.residual, self.alpha, out=self.fit)
        value = np.log(self.pivots, out=self.pivots).sum(-1)
        value += 0.5 * self.fit
        value += (0.5 * _LOG_2PI) * count
        if self.failed.any():
            value[self.failed] = np.inf
        return value
