"""The floor of an exact evaluation: potrf + potri of an N x N matrix, in place, by the fastest LAPACK at hand."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack


def floor_of(X: np.ndarray) -> Callable[[], None]:
    """SciPy's OpenBLAS, or PyTorch's LAPACK where this process has PyTorch and it is faster."""
    square = (X**2).sum(1)
    square = np.maximum(square[:, None] + square - 2 * X @ X.T, 0)
    F = np.asfortranarray(np.exp(-0.5 * square) + 0.1 * np.eye(len(X)))
    work = np.empty_like(F, order="F")

    def openblas() -> None:
        work[:] = F
        lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1)
        lapack.dpotri(work, lower=1, overwrite_c=1)

    candidates = [openblas]
    if torch := sys.modules.get("torch"):
        K = torch.from_numpy(np.ascontiguousarray(F))
        candidates.append(lambda: torch.cholesky_inverse(torch.linalg.cholesky_ex(K)[0]))
    trials = 5 if len(X) <= 500 else 3  # the first one does not count
    return min(candidates, key=lambda candidate: np.median([seconds(candidate) for _ in range(trials)][1:]))


def seconds(function: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin
