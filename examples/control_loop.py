"""A fitted model in a control loop at 1 kHz, in Python: NumPy only, once the predictor is saved.

    python examples/control_loop.py                          # fits a small model of an arm first, then runs for five seconds
    python examples/control_loop.py --model arm.npz --ticks 20000

The task: an arm of one joint carries an unknown load and sticks a little. A model of the torque, learnt from a recorded motion, is the
feedforward term of the controller; its standard deviation lowers the gain where the model has seen no data.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy: a pool of threads takes longer to wake up than the prediction itself

import numpy as np  # noqa: E402

from manifoldgp.predictor import Predictor  # noqa: E402

PERIOD = 1e-3


def arm_torque(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Torque that holds the arm on its way at angle q and velocity v: gravity, viscous and dry friction."""
    return 9.81 * 0.4 * np.sin(q) + 0.3 * v + 0.5 * np.tanh(20.0 * v)


def fit_arm(path: Path, rows: int = 300) -> None:
    """Record a motion, fit it, and save the predictor. This is the only part that needs PyTorch."""
    from manifoldgp import ManifoldGPRegressor, Single

    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 30.0, rows)
    q, v = np.sin(t) + 0.4 * np.sin(2.3 * t), np.cos(t) + 0.92 * np.cos(2.3 * t)
    X = np.stack([q, v], 1)
    y = arm_torque(q, v) + 0.05 * rng.normal(size=rows)
    ManifoldGPRegressor(features=(10, 3), averaging=Single(restarts=4, max_iter=100)).fit(X, y).predictor().save(path)


def run(p: Predictor, ticks: int) -> dict[str, float]:
    """Predict at every tick of a millisecond; latencies in microseconds, and how many predictions ended after the next tick."""
    seconds, missed, commands = np.empty(ticks), 0, np.empty(ticks)
    x = np.empty((1, 2))
    for _ in range(100):  # caches and branch predictors warm up
        x[:] = 0.0
        p(x, return_std=True)
    gc.collect()
    gc.disable()  # a collection can take longer than a tick
    try:
        begin = tick = time.perf_counter()
        for i in range(ticks):
            tick += PERIOD
            while (rest := tick - time.perf_counter()) > 0:
                if rest > 2e-4:
                    time.sleep(rest - 2e-4)  # sleep is coarse: the last 0.2 ms are waited for
            now = time.perf_counter()
            x[0, 0], x[0, 1] = np.sin(now - begin), np.cos(now - begin)  # here: read the joint's sensors
            mean, std = p(x, return_std=True)
            commands[i] = mean[0] / (1.0 + std[0])  # here: send the torque
            end = time.perf_counter()
            seconds[i] = end - now
            if end > tick + PERIOD:
                missed += 1
                tick = end  # what was missed is not made up for
    finally:
        gc.enable()
    median, high, longest = 1e6 * np.quantile(seconds, [0.5, 0.99, 1.0])
    return {"median_us": median, "high_us": high, "longest_us": longest, "missed": missed, "ticks": ticks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", type=Path, default=Path("arm.npz"), help="a saved predictor with two inputs; fitted if it is missing"
    )
    parser.add_argument("--ticks", type=int, default=5000)
    arguments = parser.parse_args()
    if not arguments.model.exists():
        fit_arm(arguments.model)
    p = Predictor.load(arguments.model)
    found = run(p, arguments.ticks)
    print(
        f"{p}: median {found['median_us']:.0f} us, 99% {found['high_us']:.0f} us, longest {found['longest_us']:.0f} us; "
        f"{found['missed']:.0f} of {found['ticks']} deadlines missed"
    )


if __name__ == "__main__":
    main()
