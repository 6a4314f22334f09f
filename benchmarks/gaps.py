"""What do weights that follow how sure members are do where no rows are? In a hole in the middle of the data, and beyond them.

    python benchmarks/gaps.py                # the default stack against Stack(certainty=0), twelve draws of each problem
    python benchmarks/gaps.py --draws 4

Sixty rows in one dimension, noise 0.02: a smooth function, one with a step inside the hole, and random pieces of lines with jumps.
Scores are of the true function with its noise, for the draws in which held-out rows want weights to follow:
NLPP with them less NLPP without (negative: better with them), and the share of 90 % intervals that hold.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
import torch

from manifoldgp import ManifoldGPRegressor, Stack

NOISE, ROWS = 0.02, 60
Function = Callable[[np.ndarray], np.ndarray]


def smooth(rng: np.random.Generator) -> Function:
    frequency, phase, height = rng.normal(0.0, 1.4, 40), rng.uniform(0, 2 * np.pi, 40), rng.normal(0.0, 0.22, 40)
    return lambda x: (height * np.cos(np.multiply.outer(x, frequency) + phase)).sum(-1)


def step_in_the_hole(rng: np.random.Generator) -> Function:
    place, up = rng.uniform(-0.5, 0.5), rng.normal()
    return lambda x: np.where(x < place, 0.3 * np.sin(6 * x), up + 0.1 * x)


def pieces(rng: np.random.Generator) -> Function:
    knots, level, slope = np.sort(rng.uniform(-4, 4, 5)), rng.normal(size=6), 0.3 * rng.normal(size=6)
    return lambda x: level[np.searchsorted(knots, x)] + slope[np.searchsorted(knots, x)] * x


PROBLEMS = {"smooth": smooth, "step in the hole": step_in_the_hole, "pieces of lines": pieces}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=12)
    draws = parser.parse_args().draws
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(
        "| problem | draws that follow | where | mean difference of NLPP | worst | coverage with | without |\n|---|---|---|---|---|---|---|"
    )
    for name, law in PROBLEMS.items():
        scores = [found for draw in range(draws) if (found := compared(law, draw)) is not None]
        for where in ("among rows", "in the hole", "beyond"):
            if scores:
                d, follows, same = np.array([score[where] for score in scores]).T
                line = f"{d.mean():+.3f} | {d.max():+.3f} | {follows.mean():.2f} | {same.mean():.2f}"
                print(f"| {name} | {len(scores)} of {draws} | {where} | {line} |", flush=True)


def compared(law: Callable[[np.random.Generator], Function], draw: int) -> dict[str, tuple[float, float, float]] | None:
    """By region: the difference of NLPP and both coverages; None where weights are the same everywhere."""
    rng = np.random.default_rng([draw, 7])
    f = law(rng)
    x = np.concatenate([rng.uniform(-3, -0.8, ROWS // 2), rng.uniform(0.8, 3, ROWS // 2)])
    y, new = f(x) + NOISE * rng.normal(size=ROWS), np.linspace(-5, 5, 501)
    follows = ManifoldGPRegressor().fit(x[:, None], y)
    if follows.ensembles_[0].certainty is None:
        return None
    same = ManifoldGPRegressor(averaging=Stack(certainty=0.0)).fit(x[:, None], y)
    truth = f(new) + NOISE * rng.normal(size=len(new))
    said = [(m.log_predictive_density(new[:, None], truth), m.predict_cdf(new[:, None], truth)) for m in (follows, same)]
    size = np.abs(new)
    regions = {"among rows": (size > 0.8) & (size < 3), "in the hole": size <= 0.8, "beyond": size >= 3}
    return {
        where: (
            float((said[1][0] - said[0][0])[inside].mean()),
            *(float((np.abs(pit[inside] - 0.5) <= 0.45).mean()) for _, pit in said),
        )
        for where, inside in regions.items()
    }


if __name__ == "__main__":
    main()
