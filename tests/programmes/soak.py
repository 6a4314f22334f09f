"""`make soak`: fit, update, predict, save, load and stream in one process, again and again. Memory, threads and file descriptors do not grow."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import torch

import manifoldgp
from manifoldgp import GPRegressor, Local, ManifoldGPRegressor, Predictor, Single, Sparse, Stack
from manifoldgp.data.sources import ArrayRows
from programmes.configurations import SMALL_STACK

MOST_GROWTH = 1.0
"""MiB of memory a minute, after the first fifth of the time."""

STREAMED_ROWS, MOST_STREAMED = 1_000_000, 2048.0
"""Rows of the stream, and MiB that the process may take while it trains on them."""


def resident() -> float:
    """MiB of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def one_round(rng: np.random.Generator, folder: Path) -> None:
    """Everything that a service would do with a model in its life."""
    X = rng.normal(size=(40, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40)
    for model in (
        GPRegressor(restarts=2, max_iter=10),
        ManifoldGPRegressor((3, 2), averaging=Single(restarts=2, max_iter=10)),
        ManifoldGPRegressor(averaging="fast"),
        ManifoldGPRegressor((2,), averaging=Stack(own_members=1, deals=1)),
        ManifoldGPRegressor(averaging=SMALL_STACK, method=Local(cell=8, near=16)),
        ManifoldGPRegressor((2,), averaging=Single(restarts=1, max_iter=10), method=Sparse(inducing=10, checkpoint=folder / "c")),
    ):
        model.fit(X, y)
        for row in range(5):
            model.update(X[row : row + 1] + 0.1, y[row : row + 1])
        model.predict(X, return_std=True)
        model.predict_quantiles(X)
        model.sample_y(X[:5], 3)
        model.save(folder / "m")
        loaded = manifoldgp.load(folder / "m")
        loaded.predictor().save(folder / "p")
        Predictor.load(folder / "p")(X, return_std=True)


def streamed(folder: Path, rows: int) -> float:
    """MiB of memory after training on a memory-mapped stream of rows."""
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float64, (rows, 3))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float64, (rows,))
    rng = np.random.default_rng(0)
    for first in range(0, rows, 100_000):
        part = rng.normal(size=(min(100_000, rows - first), 3))
        X[first : first + len(part)], y[first : first + len(part)] = part, np.sin(part[:, 0])
    source = ArrayRows(np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r"))
    ManifoldGPRegressor((2,), averaging=Single(restarts=1, max_iter=2), method=Sparse(inducing=32)).fit(source)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=STREAMED_ROWS, help="rows of the stream")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rng, seen = np.random.default_rng(options.seed), []
    print(f"programmes.soak: seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        begin = time.perf_counter()
        while (minutes := (time.perf_counter() - begin) / 60) < options.minutes:
            one_round(rng, Path(name))
            gc.collect()
            seen.append((minutes, resident(), threading.active_count(), descriptors()))
        peak = streamed(Path(name), options.rows)
    sys.exit(report(np.array(seen), peak, options.rows))


def report(seen: np.ndarray, peak: float, rows: int) -> bool:
    """Print what grew; whether it was too much."""
    minutes, memory, threads, files = seen[len(seen) // 5 :].T
    slope = float(np.polyfit(minutes, memory, 1)[0]) if len(minutes) > 2 else np.inf
    grown = int(threads[-1] - threads[0]), int(files[-1] - files[0])
    print(
        f"{len(seen)} rounds in {seen[-1, 0]:.1f} minutes: memory {memory[0]:.0f} to {memory[-1]:.0f} MiB ({slope:+.2f} MiB a minute),"
    )
    print(f"threads {grown[0]:+d}, file descriptors {grown[1]:+d}; {rows:,} streamed rows within {peak:.0f} MiB")
    return slope > MOST_GROWTH or max(grown) > 0 or peak > MOST_STREAMED


if __name__ == "__main__":
    main()
