"""NLML + gradient of an mGP [D-10-3] against the LAPACK floor and GPyTorch: medians of interleaved runs, one library a process.

    python benchmarks/evaluation.py            # everything, single-threaded
    python benchmarks/evaluation.py --sizes 100 400

Each library runs in a process of its own with its threads capped; the floor (potrf + potri of the same N, the faster of SciPy's
OpenBLAS and PyTorch's) is measured inside every process, interleaved, and ratios are medians of ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np

LIBRARIES = ("manifoldgp", "manifoldgp-batch20", "gpytorch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 400, 1000, 2000])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--library", choices=LIBRARIES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.library:
        print(json.dumps([measure(arguments.library, N) for N in arguments.sizes]))
        return
    rows = {library: _run(library, arguments.sizes, arguments.threads) for library in LIBRARIES}
    print(
        f"NLML + gradient, mGP [3-10-3], SE-ARD, float64, {arguments.threads} thread(s); milliseconds, and ratio to potrf+potri\n"
    )
    print(f"{'N':>5} {'floor':>8} {'manifoldgp':>18} {'a member of 20':>18} {'GPyTorch':>18} {'GPyTorch/ours':>14}")
    for i, N in enumerate(arguments.sizes):
        ours, batch, peer = (rows[library][i] for library in LIBRARIES)
        cells = [f"{r['ms']:9.2f} ({r['ratio']:5.2f}x)" if r else f"{'-':>18}" for r in (ours, batch, peer)]
        speed = f"{peer['ms'] / ours['ms']:13.1f}x" if peer else f"{'-':>14}"
        print(f"{N:>5} {ours['floor']:8.2f} {cells[0]:>18} {cells[1]:>18} {cells[2]:>18} {speed}")


def _run(library: str, sizes: list[int], threads: int) -> list[dict]:
    capped = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, __file__, "--library", library, "--sizes", *map(str, sizes)]
    done = subprocess.run(command, env={**os.environ, **capped}, capture_output=True, text=True)
    if done.returncode:
        print(f"{library}: not measured ({done.stderr.strip().splitlines()[-1]})", file=sys.stderr)
        return [{}] * len(sizes)
    return json.loads(done.stdout)


def measure(library: str, N: int) -> dict:
    """Median milliseconds of one evaluation (of one member), of the floor, and the median of their ratios."""
    import torch

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 3)), rng.normal(size=N)
    members = 20 if library.endswith("batch20") else 1
    evaluate = gpytorch_evaluation(X, y) if library == "gpytorch" else our_evaluation(X, y, members)
    floor = floor_evaluation(torch.from_numpy(X))
    rounds = max(5, min(300, int(3e8 / N**2.5 / members**0.5)))
    ours, floors = [], []
    for _ in range(3):
        evaluate(), floor()
    for _ in range(rounds):
        floors.append(_seconds(floor))
        ours.append(_seconds(evaluate) / members)
    ratios = np.array(ours) / np.array(floors)
    return {"ms": 1e3 * float(np.median(ours)), "floor": 1e3 * float(np.median(floors)), "ratio": float(np.median(ratios))}


def _seconds(function) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def our_evaluation(X: np.ndarray, y: np.ndarray, members: int):
    import torch

    from manifoldgp.features import MLP
    from manifoldgp.model import Data, Model
    from manifoldgp.objective import TrainingObjective, first_of

    model, data = Model(features=MLP((10, 3))), Data(torch.from_numpy(X), torch.from_numpy(y))
    layout, drawn = model.draw(data, torch.Generator().manual_seed(0), members)
    objective = TrainingObjective(model, layout, first_of(layout.constants(drawn)), data)
    theta, rows = layout.flatten(drawn).numpy(), np.arange(members)
    return lambda: objective(theta, rows)


def gpytorch_evaluation(X: np.ndarray, y: np.ndarray):
    import gpytorch
    import torch

    torch.set_default_dtype(torch.float64)
    X_, y_ = torch.from_numpy(X), torch.from_numpy(y)

    class DeepKernelGP(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X_, y_, likelihood)
            layers = torch.nn.Linear(3, 10), torch.nn.Sigmoid(), torch.nn.Linear(10, 3), torch.nn.Sigmoid()
            self.net = torch.nn.Sequential(*layers)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=3))

        def forward(self, x):
            H = self.net(x)
            return gpytorch.distributions.MultivariateNormal(self.mean_module(H), self.covar_module(H))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = DeepKernelGP(likelihood)
    model.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def evaluate():
        model.zero_grad()
        with gpytorch.settings.max_cholesky_size(10**6):
            loss = -mll(model(X_), y_)
            loss.backward()

    return evaluate


def floor_evaluation(X):
    """potrf + potri in place, the faster of the two libraries at hand."""
    import torch
    from scipy.linalg import lapack

    K = torch.exp(-0.5 * torch.cdist(X, X) ** 2) + 0.1 * torch.eye(len(X), dtype=torch.float64)
    F = np.asfortranarray(K.numpy())
    work = np.empty_like(F, order="F")

    def openblas():
        work[:] = F
        lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1)
        lapack.dpotri(work, lower=1, overwrite_c=1)

    def torch_lapack():
        torch.cholesky_inverse(torch.linalg.cholesky_ex(K)[0])

    times = []
    for candidate in (openblas, torch_lapack):
        candidate()
        times.append(np.median([_seconds(candidate) for _ in range(5)]))
    return openblas if times[0] <= times[1] else torch_lapack


if __name__ == "__main__":
    main()
