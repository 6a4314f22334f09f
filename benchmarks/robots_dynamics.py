"""Section dynamics of benchmarks/robots.py: tosses of a real cube predicted over 20 steps, and the time of a rollout by moment matching.

A one-step model learns from some tosses and is rolled out on others, from every 20th row on: the default and a plain GP, on the same rows, with the same states: height,
orientation, velocities. Height and orientation follow from their rates, changes of the velocities are learnt. Rows are the first 41 of a toss; later ones are at rest as a rule.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from bars import Bar, bar_table, number, table
from manifoldgp import GPRegressor, ManifoldGPRegressor
from manifoldgp.dynamics import DynamicsModel, HorizonScores, MomentStep, Trajectories

CUBE = Path(__file__).resolve().parents[2] / "shared" / "data" / "cube_toss_onestep.npz"
ROWS, HORIZON, TESTED = 41, 20, 60
RATES = {"z": "vz", ("qw", "qx", "qy", "qz"): ("wx", "wy", "wz")}


def show(given: argparse.Namespace) -> None:
    cube(given.tosses)
    speed()


def cube(tosses: int) -> None:
    """NLPP, RMSE and coverage of both models at every horizon, and the bars."""
    if not CUBE.is_file():
        print(f"Not measured: there is no {CUBE.name}.\n")
        return
    train, test = recordings(tosses)
    found = {}
    for name, regressor in (("plain GP", GPRegressor()), ("default", ManifoldGPRegressor())):
        begin = time.process_time()
        model = DynamicsModel(regressor, rates=RATES).fit(train)
        middle = time.process_time()
        found[name] = model.score(test, HORIZON, particles=100)
        seconds = middle - begin, time.process_time() - middle
        print(f"{name}: {seconds[0]:.0f} s of processor time to learn, {seconds[1]:.0f} s to roll out")
    steps = sum(map(len, train.runs)) - len(train)
    print(f"\nCube tosses: {len(train)} to learn from, {steps} steps; {found['default'].starts} rollouts of {len(test)} others\n")
    print(against_horizon(found))
    gp, ours = found["plain GP"], found["default"]
    print(
        bar_table(
            [
                Bar(
                    "RMSE of the default, of the plain GP's, after 10 steps",
                    ours.relative_rmse[9] / gp.relative_rmse[9],
                    0.85,
                    "x",
                )
            ]
        )
    )
    inside = ours.coverage.mean()
    print(
        f"Coverage of 95 % bands over all steps and states: {inside:.1%} (bar: 90 to 97 %, {'reached' if 0.9 <= inside <= 0.97 else '**not reached**'})\n"
    )


def recordings(tosses: int) -> tuple[Trajectories, Trajectories]:
    """Tosses to learn from, and others; which ones is drawn once and for all."""
    data = np.load(CUBE)
    X, run = data["X"].astype(float), data["run"]
    order = np.random.default_rng(0).permutation(run.max() + 1)
    names = [str(name) for name in data["x_cols"]]
    parts = (order[:tosses], order[-TESTED:])
    train, test = (Trajectories.from_arrays([X[run == k][:ROWS] for k in part], state_names=names) for part in parts)
    return train, test


def against_horizon(found: dict[str, HorizonScores]) -> str:
    header = ["steps", *(f"{what}, {name}" for what in ("RMSE", "NLPP", "coverage") for name in found)]
    rows = []
    for h in range(HORIZON):
        scores = [[s.relative_rmse[h], s.nlpp[h].mean(), s.coverage[h].mean()] for s in found.values()]
        rows.append([str(h + 1), *(number(float(s[i])) for i in range(3) for s in scores)])
    return table(header, rows)


def speed(steps: int = 40, states: int = 6) -> None:
    """Milliseconds of a rollout, exactly and by the series, by number of rows; processor time of one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    models = {N: DynamicsModel(GPRegressor(restarts=1, max_iter=15)).fit(oscillators(N, states)) for N in (25, 50, 100, 200, 400)}
    cells = [(method, N) for method in ("moments", "series") for N in models]
    measured = {(method, N): rollout_seconds(models[N].moment_step(method=method), steps, states) for method, N in cells}
    print(f"A rollout of {steps} steps of {states} states and one action by moment matching, plain GP\n")
    rows = [[m, str(N), *(f"{1e3 * s:.0f}" for s in both)] for (m, N), both in measured.items()]
    print(table(["method", "rows", "ms", "with its gradient"], rows))
    print(
        bar_table(
            [
                Bar(f"{steps} steps, {states} states, {m}, {N} rows", 1e3 * both[0], 20.0, "ms")
                for (m, N), both in measured.items()
            ]
        )
    )
    accuracy(models[400], steps, states)
    torch.set_num_threads(threads)


def rollout_seconds(step: MomentStep, steps: int, states: int) -> tuple[float, float]:
    """The best of several, without and with a gradient in the actions."""
    actions = torch.zeros(steps, 1, dtype=torch.float64)

    def cost(actions: torch.Tensor) -> torch.Tensor:
        mean, cov = moments(step, actions, states)
        return mean.square().sum() + cov.diagonal(dim1=-2, dim2=-1).sum()

    with torch.no_grad():
        slowest = _seconds(lambda: cost(actions))
        alone = min(_seconds(lambda: cost(actions)) for _ in range(7 if slowest > 0.1 else 50))
    wanted = actions.clone().requires_grad_()
    return alone, min(_seconds(lambda: cost(wanted).backward()) for _ in range(3 if slowest > 0.1 else 10))


def moments(step: MomentStep, actions: torch.Tensor, states: int, std: float = 0.01) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean (1, S) and covariance (1, S, S) after the actions, from a start that is known up to a standard deviation."""
    mean, cov = torch.full((1, states), 0.5, dtype=torch.float64), std**2 * torch.eye(states, dtype=torch.float64)[None]
    for action in actions:
        mean, cov = step(mean, cov, action[None])
    return mean, cov


def accuracy(model: DynamicsModel, steps: int, states: int, draws: int = 100_000) -> None:
    """Both methods against particles that draw each step from the model's prediction at their place, from starts that are known well and badly."""
    torch.manual_seed(0)
    actions = torch.zeros(steps, 1, dtype=torch.float64)
    rows = []
    for std in (0.01, 0.3):
        with torch.no_grad():
            x = drawn(model.moment_step(method="series"), 0.5 + std * torch.randn(draws, states, dtype=torch.float64), steps)
            for method in ("moments", "series"):
                mean, cov = moments(model.moment_step(method=method), actions, states, std)
                away = float(((mean[0] - x.mean(0)) / x.std(0)).abs().max())
                ratio = cov[0].diagonal().sqrt() / x.std(0)
                rows.append([number(std), method, number(away), f"{float(ratio.min()):.3f} to {float(ratio.max()):.3f}"])
    print(f"After {steps} steps against {draws:,} particles, N = {len(model.regressor_.ensembles_[0].blocks[0].data.X)}\n")
    print(table(["std of the start", "method", "largest error of a mean, in stds", "std over that of the particles"], rows))


def drawn(step: MomentStep, x: torch.Tensor, steps: int, chunk: int = 250) -> torch.Tensor:
    """Particles (P, S) after the steps, whose changes are drawn from the model's Gaussian at each step, without actions."""
    assert step.closed is not None
    assert step.series is not None
    of, T = step.closed, step.series.whitener
    for _ in range(steps):
        changes = []
        for z in torch.cat([x, torch.zeros_like(x[:, :1])], 1).split(chunk):
            K = of.variance[:, None, None] * torch.exp(-0.5 * torch.cdist(z @ of.matrix + of.offset[:, None], of.points).square())
            variance = of.variance + of.noise - (K @ T.mT).square().sum(-1).T
            mean = of.constant + z @ of.slope.T + (K @ of.alpha.unsqueeze(-1)).squeeze(-1).T
            changes.append(mean + variance.sqrt() * torch.randn_like(mean))
        x = step.space.moved(x, torch.cat(changes))
    return x


def oscillators(N: int, states: int) -> Trajectories:
    """Steps of damped oscillators that push each other, from random states."""
    rng = np.random.default_rng(0)
    position, velocity = rng.normal(size=(2, N, states // 2))
    push = rng.normal(size=(N, 1))
    after = velocity - 0.1 * (np.sin(position) + 0.3 * velocity) + 0.05 * np.roll(position, 1, 1) + 0.1 * push
    x, y = np.hstack([position, velocity]), np.hstack([position + 0.1 * after, after])
    return Trajectories.from_arrays(
        list(np.stack([x, y + 0.005 * rng.normal(size=y.shape)], 1)), [np.repeat(u[None], 2, 0) for u in push]
    )


def _seconds(work) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin
