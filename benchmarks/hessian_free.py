"""Hessian-free optimisation beside L-BFGS: the NLML that five starts have reached after the same processor time.

    python benchmarks/hessian_free.py
    python benchmarks/hessian_free.py --only step bumps --seconds 2

Both minimise the same function from the same starts, all in one batch, on one thread. Reached is the lowest value among all starts that was evaluated before the time was up, in nats for all rows.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from bars import table
from honesty import recorded
from manifoldgp import MLP
from manifoldgp.data.examples import rotated_bumps, step_function, walker
from manifoldgp.model import Data, Model
from manifoldgp.parameters import first_of
from manifoldgp.training.minimizers import MINIMIZERS
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.optimizer import Monitor
from problems import standardized

STARTS, KIN40K_ROWS = 5, 500
SECONDS = {"step": 2.0, "bumps": 4.0, "walker": 4.0, "kin40k": 4.0}
NETWORKS = {"step": (6, 2), "bumps": (6, 2), "walker": (10, 3), "kin40k": (20, 4)}
SHARES = (0.1, 0.3, 1.0)


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Training rows, standardised."""
    if name == "kin40k":
        stored = np.load(recorded("kin40k.npz"))
        X, y = stored["X"][:KIN40K_ROWS].astype(float), stored["y"][:KIN40K_ROWS].astype(float).ravel()
    else:
        data = {"step": step_function, "bumps": rotated_bumps, "walker": walker}[name]()
        X, y = data.X_train, data.y_train
    return standardized(X), standardized(y[:, None])[:, 0]


class Clocked:
    """An objective that notes the lowest value so far, and when."""

    def __init__(self, objective: TrainingObjective) -> None:
        self._objective, self._begin = objective, time.process_time()
        self.trace: list[tuple[float, float]] = []

    def __call__(self, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = self._objective(theta, rows)
        best = min(self.trace[-1][1] if self.trace else np.inf, float(value.min()))
        self.trace.append((self.seconds(), best))
        return value, gradient

    def seconds(self) -> float:
        return time.process_time() - self._begin

    def reached(self, seconds: float) -> float:
        return min((value for at, value in self.trace if at <= seconds), default=np.inf)


def traced(name: str, optimizer: str, seconds: float) -> Clocked:
    """One run within the time, or until every start has converged."""
    X, y = (torch.from_numpy(part) for part in rows_of(name))
    model, data = Model(MLP(NETWORKS[name])), Data(X, y)
    layout, drawn = model.draw(data, torch.Generator().manual_seed(0), STARTS)
    clocked = Clocked(TrainingObjective(model, layout, first_of(layout.constants(drawn)), data))
    MINIMIZERS[optimizer](
        clocked, layout.flatten(drawn).numpy(), Monitor(100_000, callback=lambda *_: clocked.seconds() > seconds)
    )
    return clocked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SECONDS), default=list(SECONDS))
    parser.add_argument("--seconds", type=float, default=None, help="of processor time for each problem and optimiser")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in given.only:
        seconds = given.seconds or SECONDS[name]
        traces = {optimizer: traced(name, optimizer, seconds) for optimizer in ("l-bfgs", "hessian-free")}
        for share in SHARES:
            ours, theirs = (traces[optimizer].reached(share * seconds) for optimizer in ("hessian-free", "l-bfgs"))
            lower = "same" if abs(ours - theirs) < 0.1 else "Hessian-free" if ours < theirs else "L-BFGS"
            rows.append([name, f"{share * seconds:.1f} s", f"{theirs:.1f}", f"{ours:.1f}", lower])
            print(rows[-1], flush=True)
    print(table(["problem", "processor time", "NLML, L-BFGS", "NLML, Hessian-free", "lower"], rows))


if __name__ == "__main__":
    main()
