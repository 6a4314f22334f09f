"""Do intervals hold what comes after a short stretch of a recording? Fits with ``ordered=True`` to stretches of three recordings, scored on as many rows that follow.

python benchmarks/stretches.py                        # 25, 50, 100 and 200 rows, the stretches that reports are made of
python benchmarks/stretches.py --half choosing        # those on which choices are made
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from honesty import recorded

LEVELS = (0.5, 0.9, 0.95)
HALVES = ("choosing", "reporting")


def recordings() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Inputs and target of each, rows in order of time: a robot's knee from its other joints, a log of a well against depth, an impact of a cube from its state."""
    table = np.genfromtxt(recorded("icub_walking_only_100Hz.csv"), delimiter=",", names=True)
    inputs = ("q_r_hip_pitch", "q_l_hip_pitch", "q_r_knee", "rf_contact_20N", "lf_contact_20N")
    with Path(recorded("well_log.csv")).open() as file:
        log = np.array([float(row["nuclear_response"]) for row in csv.DictReader(file)])
    cube = np.load(recorded("cube_toss_onestep.npz"))
    return {
        "iCub": (np.stack([table[name] for name in inputs], axis=1), table["q_l_knee"]),
        "well log": (np.arange(float(len(log)))[:, None], log),
        "cube": (cube["X"].astype(float), cube["Y"][:, 2].astype(float)),
    }


def stretches(rows: int, total: int, count: int, half: str) -> list[int]:
    """Where stretches begin: evenly over the recording; every other one is for choosing."""
    return [int(first) for first in np.linspace(0, total - 2 * rows, 2 * count)][HALVES.index(half) :: 2]


def pit_after(X: np.ndarray, y: np.ndarray, first: int, rows: int, averaging: str) -> np.ndarray | None:
    """Probability integral transforms of the rows after a stretch; None where its target never changes."""
    from manifoldgp import GPRegressor, ManifoldGPRegressor

    seen, coming = slice(first, first + rows), slice(first + rows, first + 2 * rows)
    if y[seen].std() == 0.0:
        return None
    model = GPRegressor() if averaging == "plain" else ManifoldGPRegressor(averaging=averaging)
    model.fit(X[seen], y[seen], **({} if averaging == "plain" else {"ordered": True}))
    return model.predict_cdf(X[coming], y[coming])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[25, 50, 100, 200])
    parser.add_argument("--count", type=int, default=8, help="stretches of each recording")
    parser.add_argument("--half", choices=HALVES, default="reporting")
    parser.add_argument("--averaging", nargs="*", default=["stack", "plain"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(
        "| averaging | rows | recording | stretches | 50 % | 90 % | 95 % | 95 %, worst stretch | processor s a fit |\n|---|---|---|---|---|---|---|---|---|"
    )
    for averaging in options.averaging:
        for rows in options.rows:
            of_all = []
            for name, (X, y) in recordings().items():
                begin = time.process_time()
                found = [
                    pit_after(X, y, first, rows, averaging) for first in stretches(rows, len(y), options.count, options.half)
                ]
                pits = [pit for pit in found if pit is not None]
                of_all += pits
                print(line(averaging, rows, name, pits, (time.process_time() - begin) / max(len(pits), 1)), flush=True)
            print(line(averaging, rows, "all", of_all, float("nan")), flush=True)


def line(averaging: str, rows: int, name: str, pits: list[np.ndarray], seconds: float) -> str:
    """Coverage of central intervals over all rows that followed, and over those of the worst stretch."""
    inside = [[float((np.abs(pit - 0.5) <= level / 2).mean()) for pit in pits] for level in LEVELS]
    words = " | ".join(f"{100 * np.mean(shares):.0f}" for shares in inside)
    cost = "" if np.isnan(seconds) else f"{seconds:.1f}"
    return f"| {averaging} | {rows} | {name} | {len(pits)} | {words} | {100 * min(inside[-1]):.0f} | {cost} |"


if __name__ == "__main__":
    main()
