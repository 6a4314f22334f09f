"""A small table as people have them: numbers, a text column, labels of runs, and a target with noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldgp.datasets.rotated_bumps import rotated_bumps_values

NOISE_SD = 0.02
SURFACES = ("hard", "soft")


def example_table(rows: int = 120, seed: int = 0) -> dict[str, list[Any]]:
    """Columns x1, x2, surface, run and y, by name: the rotated bumps, 0.3 lower on soft ground, with noise of sd 0.02; ten rows a run.

    >>> table = example_table(rows=2)
    >>> list(table), table["run"]
    (['x1', 'x2', 'surface', 'run', 'y'], ['run-01', 'run-01'])
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (rows, 2)).round(3)
    soft = rng.integers(2, size=rows)
    y = rotated_bumps_values(X) - 0.3 * soft + NOISE_SD * rng.standard_normal(rows)
    return {
        "x1": X[:, 0].tolist(),
        "x2": X[:, 1].tolist(),
        "surface": [SURFACES[s] for s in soft],
        "run": [f"run-{1 + i // 10:02d}" for i in range(rows)],
        "y": y.round(4).tolist(),
    }
