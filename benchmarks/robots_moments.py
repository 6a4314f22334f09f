"""Uncertain inputs: the closed form against 2²⁰ quasi-random draws, and its time beside that of its products and exponentials alone.

python benchmarks/robots_moments.py
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from manifoldgp import GPRegressor


def problem(N: int, D: int) -> tuple[GPRegressor, np.ndarray]:
    """A plain GP on N rows of D inputs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=N)
    return GPRegressor(restarts=1, max_iter=30).fit(X, y), X


def accuracy(draws: int = 2**20) -> tuple[float, float]:
    """Largest errors of mean and standard deviation, relative to the standard deviation, over five inputs; draws are quasi-random, and have errors below 1e-4."""
    model, X = problem(100, 3)
    normal = torch.special.ndtri(torch.quasirandom.SobolEngine(3, scramble=True, seed=0).draw(draws, dtype=torch.float64)).numpy()
    rng, errors = np.random.default_rng(1), []
    for x in X[:5]:
        factor = 0.5 * rng.normal(size=(3, 3))
        mean, std = model.predict(x + normal @ factor.T, return_std=True)
        moments = model.predict_moments(x[None], factor @ factor.T)
        total = np.sqrt(mean.var() + np.mean(std**2))
        errors.append((abs(mean.mean() - moments.mean[0]) / total, abs(np.sqrt(moments.variance[0]) / total - 1)))
    largest = np.max(errors, 0)
    return float(largest[0]), float(largest[1])


def speed(n: int = 1000, N: int = 400, D: int = 5, repeats: int = 9) -> np.ndarray:
    """Processor seconds (repeats, 3), by turns: of n points; of a GEMM with their products, N² / 2 entries of D + 2 multiplications and two sums; and of their exponentials."""
    model, _ = problem(N, D)
    rng = np.random.default_rng(2)
    mu, factor = rng.normal(size=(n, D)), 0.3 * rng.normal(size=(n, D, D))
    Sigma = factor @ factor.transpose(0, 2, 1)
    entries, side = n * N**2 / 2, 1024
    A, block = torch.randn(side, side, dtype=torch.float64), -torch.rand(2**17, dtype=torch.float64)
    out = torch.empty_like(block)
    model.predict_moments(mu[:10], Sigma[:10])
    turns = []
    for _ in range(repeats):
        gemm = _seconds(lambda: A @ A) / (2 * side**3) * entries * (2 * (D + 2) + 4)
        exponentials = _seconds(lambda: [torch.exp(block, out=out) for _ in range(50)]) / (50 * len(block)) * entries
        turns.append((_seconds(lambda: model.predict_moments(mu, Sigma)), gemm, exponentials))
    return np.array(turns)


def _seconds(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main(arguments: list[str] | None = None) -> None:
    """Print both sections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2**20)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    mean, std = accuracy(given.draws)
    print(f"closed form against {given.draws:,} draws: mean to {mean:.1e}, standard deviation to {std:.1e} of it (bar: 1e-3)")
    turns = speed()
    ours, gemm, exponentials = 1e3 * np.median(turns, 0)
    ratio = np.median(turns[:, 0] / turns[:, 1:].sum(1))
    print(
        f"1,000 uncertain inputs, N = 400, D = 5: {ours:.0f} ms; its products as a GEMM {gemm:.0f} ms, its exponentials as one call "
        f"{exponentials:.0f} ms: {ratio:.1f} times both, in the median of {len(turns)} turns (bar: 3)"
    )


if __name__ == "__main__":
    main()
