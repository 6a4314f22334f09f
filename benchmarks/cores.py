"""How much sooner a fit of the default ends on two cores, and on how many of its members that depends.

    python benchmarks/cores.py                            # 100 to 8,600 rows of elevators
    python benchmarks/cores.py --sets kin40k --rows 1000 --repeats 3

Every fit has a process of its own. Columns: wall seconds with one thread; with two threads, the default on two cores; with two workers of joblib that were at work before
(``joblib.parallel_config(n_jobs=2)``); and how many times sooner the latter two end. "two fits": what two fits with one thread each, at the same time, do in the time of one: no
fit can gain more. Ratios are medians over the repeats; other work on the machine spoils them. Predictions may differ by rounding: the last column is the largest difference, in
standard deviations of y. The data sets are read from ../shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from sizes import DATA, split

HERE = Path(__file__).resolve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["elevators"])
    parser.add_argument("--rows", nargs="+", type=int, default=[100, 300, 1000, 3000, 8600])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--fit", nargs=3, metavar=("SET", "ROWS", "WAY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        name, rows, way = arguments.fit
        print(json.dumps(fitted(name, int(rows), way)))
        return
    if not DATA.is_dir():
        print(f"Skipped: the data sets are not there ({DATA}).")
        return
    print(
        "| data | rows | one thread | two threads | two workers | two threads gain | two workers gain | two fits | difference |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in arguments.sets:
        for rows in arguments.rows:
            print_row(name, rows, arguments.repeats)


def print_row(name: str, rows: int, repeats: int) -> None:
    seconds, gains, difference = [], [], 0.0
    for _ in range(repeats):
        one, threads, jobs = (found([begun(name, rows, way)])[0] for way in ("one", "threads", "jobs"))
        both = found([begun(name, rows, "one") for _ in range(2)])
        seconds.append([run["seconds"] for run in (one, threads, jobs)])
        longest = max(run["seconds"] for run in both)
        gains.append([one["seconds"] / run["seconds"] for run in (threads, jobs)] + [2.0 * one["seconds"] / longest])
        difference = max(difference, *(float(np.abs(np.subtract(run["mean"], one["mean"])).max()) for run in (threads, jobs)))
    walls = " | ".join(f"{wall:.1f} s" for wall in np.median(seconds, 0))
    ratios = " | ".join(f"{gain:.2f}" for gain in np.median(gains, 0))
    print(f"| {name} | {rows:,} | {walls} | {ratios} | {difference:.1e} |", flush=True)


def begun(name: str, rows: int, way: str) -> subprocess.Popen[str]:
    """A fit in a process of its own, under way."""
    threads = "2" if way == "threads" else "1"
    environment = os.environ | {
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "PYTHONPATH": str(HERE.parents[1] / "src"),
    }
    command = [sys.executable, str(HERE), "--fit", name, str(rows), way]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def found(processes: list[subprocess.Popen[str]]) -> list[dict]:
    """What they print at their end."""
    printed = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("A fit failed; its message is above.")
    return [json.loads(lines.splitlines()[-1]) for lines in printed]


def fitted(name: str, rows: int, way: str) -> dict[str, object]:
    """One fit: wall seconds, and means of test rows."""
    import joblib

    from manifoldgp import ManifoldGPRegressor, Stack

    warnings.simplefilter("ignore")
    X, y, X_test, _ = split(name, rows)
    with joblib.parallel_config(n_jobs=2 if way == "jobs" else 1):
        if way == "jobs":
            ManifoldGPRegressor(averaging=Stack(deals=1)).fit(X[:60], y[:60])  # workers take seconds to begin
        begin = time.perf_counter()
        model = ManifoldGPRegressor().fit(X, y)
        seconds = time.perf_counter() - begin
    return {"seconds": seconds, "mean": model.predict(X_test).tolist()}


if __name__ == "__main__":
    main()
