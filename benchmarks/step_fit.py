"""The paper's step function with 20 restarts, seeds 0 to 9: NLML per row, seconds, evaluations; and the threads a fit may use.

    python benchmarks/step_fit.py                 # single model (averaging="single"), as in the paper
    python benchmarks/step_fit.py --threads       # the same fit with the machine's default threads and with every pool capped to one
    python benchmarks/step_fit.py --overhead      # the optimiser's own time beside that of the evaluations (bar: 20 %)

The second form runs each fit in a process of its own, alternating, and prints the median of the ratios: two thread pools that
fight would show as a ratio far above one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import numpy as np

POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--seconds-of", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.seconds_of is not None:
        print(fit(arguments.seconds_of)[1])
    elif arguments.threads:
        compare_threads(arguments.seeds)
    elif arguments.overhead:
        measure_overhead(arguments.seeds)
    else:
        rows = [fit(seed) for seed in range(arguments.seeds)]
        for seed, (nlml, seconds, evaluations) in enumerate(rows):
            print(f"seed {seed}: NLML {nlml:.3f} per row, {seconds:.1f} s, {evaluations} evaluations", flush=True)
        values = np.array([row[0] for row in rows])
        print(f"{np.sum(values <= -3.0)} of {len(values)} seeds at -3.0 or lower; median {np.median(values):.3f}; paper -2.84")


def fit(seed: int) -> tuple[float, float, int]:
    from manifoldgp import ManifoldGPRegressor, Single
    from manifoldgp.data import step_function

    data = step_function(seed)
    begin = time.perf_counter()
    model = ManifoldGPRegressor(features=(6, 2), averaging=Single(restarts=20)).fit(data.X_train, data.y_train)
    return model.nlml_ / len(data.y_train), time.perf_counter() - begin, int(model.starts_["evaluations"].sum())


def measure_overhead(seeds: int) -> None:
    """What L-BFGS takes beyond the evaluations it asks for, over whole fits: many starts at first, few at the end."""
    import manifoldgp.training.trainer as training
    from manifoldgp.training.objective import TrainingObjective

    taken = {"evaluations": 0.0, "minimiser": 0.0}

    def timed(name, function):
        def call(*given, **options):
            begin = time.perf_counter()
            try:
                return function(*given, **options)
            finally:
                taken[name] += time.perf_counter() - begin

        return call

    TrainingObjective.__call__ = timed("evaluations", TrainingObjective.__call__)
    training.MINIMIZERS["l-bfgs"] = timed("minimiser", training.MINIMIZERS["l-bfgs"])
    fit(0)  # the first fit of a process is slower
    shares = []
    for seed in range(seeds):
        taken.update(evaluations=0.0, minimiser=0.0)
        fit(seed)
        shares.append(taken["minimiser"] / taken["evaluations"] - 1.0)
        print(
            f"seed {seed}: evaluations {taken['evaluations']:.2f} s, the optimiser itself {100 * shares[-1]:.0f} % of that",
            flush=True,
        )
    print(f"median {100 * np.median(shares):.0f} % (bar: 20 %)")


def compare_threads(seeds: int) -> None:
    free = {name: value for name, value in os.environ.items() if name not in POOLS}
    capped = {**free, **dict.fromkeys(POOLS, "1")}
    ratios = []
    for seed in range(seeds):
        times = [float(_run(seed, environment)) for environment in (free, capped)]
        ratios.append(times[0] / times[1])
        print(
            f"seed {seed}: default threads {times[0]:.1f} s, all pools capped {times[1]:.1f} s, ratio {ratios[-1]:.2f}",
            flush=True,
        )
    print(f"median ratio {np.median(ratios):.2f} (at most 1: default threads are never slower)")


def _run(seed: int, environment: dict[str, str]) -> str:
    command = [sys.executable, __file__, "--seconds-of", str(seed)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
