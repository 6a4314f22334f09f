"""Bayesian optimisation of a function with a cliff: ManifoldGPModel beside BoTorch's SingleTaskGP.

    python examples/bayesian_optimisation.py                      # 10 seeds
    python examples/bayesian_optimisation.py --function smooth    # the same without a cliff
    python examples/bayesian_optimisation.py --quick              # one seed, a few steps

A machine gives more the harder it is driven (x1), until it fails: f falls off a cliff at x1 = c(x2), and the best settings are those just before it.
Both models get the same initial points, the same budget and the same acquisition function (qLogExpectedImprovement), optimised in the same way.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.exceptions.warnings import BotorchWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from manifoldgp import GPRegressor, Restarts, Single, Stack
from manifoldgp.integrations.botorch import ManifoldGPModel

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def edge(x2: Tensor) -> Tensor:
    """c(x2) = 0.65 + 0.1 sin(5 x2)."""
    return 0.65 + 0.1 * torch.sin(5 * x2)


def cliff(X: Tensor) -> Tensor:
    """f (n, 1) at X (n, 2): 2 x1 + ½ cos(6 (x2 − 0.3)) up to the edge x1 = c(x2), 3 less behind it."""
    x1, x2 = X[..., 0], X[..., 1]
    return (2 * x1 + 0.5 * torch.cos(6 * (x2 - 0.3)) - 3.0 * (x1 > edge(x2)))[..., None]


def smooth(X: Tensor) -> Tensor:
    """The same hills without a cliff: a parabola 2 c(x2) − 4 (x1 − c(x2))² in x1, with its top where the edge was."""
    x1, x2 = X[..., 0], X[..., 1]
    return (2 * edge(x2) - 4 * (x1 - edge(x2)) ** 2 + 0.5 * torch.cos(6 * (x2 - 0.3)))[..., None]


FUNCTIONS = {"cliff": cliff, "smooth": smooth}


def optimum() -> float:
    """The best value of both functions: the one at the edge, the best x2 found on a fine grid."""
    x2 = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    return float((2 * edge(x2) + 0.5 * torch.cos(6 * (x2 - 0.3))).max())


def single_task(X: Tensor, Y: Tensor) -> Model:
    model = SingleTaskGP(X, Y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def manifold(averaging: str, restarts: int, hidden: tuple[int, ...]) -> Callable[[Tensor, Tensor], Model]:
    """ManifoldGPRegressor with this averaging; "plain" is GPRegressor, the same without features."""
    if averaging == "plain":
        return lambda X, Y: ManifoldGPModel(GPRegressor(restarts=restarts).fit(X.numpy(), Y[:, 0].numpy()))
    if averaging == "fast":  # it has neither restarts nor a network of ours
        return lambda X, Y: ManifoldGPModel.fit(X, Y, averaging="fast")
    way = {"single": Single(restarts=restarts), "restarts": Restarts(restarts=restarts), "stack": Stack(own_members=restarts)}[
        averaging
    ]
    return lambda X, Y: ManifoldGPModel.fit(X, Y, features=hidden, averaging=way)


def optimise(
    function: Callable[[Tensor], Tensor], fit: Callable[[Tensor, Tensor], Model], seed: int, initial: int, steps: int
) -> float:
    """The best value found after ``initial`` Sobol points and ``steps`` steps of expected improvement."""
    torch.manual_seed(seed)
    X = draw_sobol_samples(BOUNDS, n=initial, q=1, seed=seed)[:, 0]
    Y = function(X)
    for step in range(steps):
        sampler = SobolQMCNormalSampler(torch.Size([128]), seed=seed * 1000 + step)
        acquisition = qLogExpectedImprovement(fit(X, Y), best_f=float(Y.max()), sampler=sampler)
        candidate, _ = optimize_acqf(acquisition, BOUNDS, q=1, num_restarts=4, raw_samples=128, options={"maxiter": 60})
        X, Y = torch.cat([X, candidate]), torch.cat([Y, function(candidate)])
    return float(Y.max())


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    """Print the regret of both models, seed by seed; returns it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--function", default="cliff", choices=list(FUNCTIONS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--initial", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--averaging", default="fast", choices=["single", "fast", "restarts", "stack", "plain"])
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--hidden", type=int, nargs="+", default=[6, 2])
    parser.add_argument("--quick", action="store_true", help="one seed, three steps")
    given = parser.parse_args(arguments)
    if given.quick:
        given.seeds, given.steps = 1, 3
    warnings.simplefilter("ignore", BotorchWarning)  # retried fits
    warnings.filterwarnings("ignore", "Optimization failed", RuntimeWarning)  # line searches at the limit of rounding
    models = {
        "SingleTaskGP": single_task,
        f"ManifoldGPModel({given.averaging})": manifold(given.averaging, given.restarts, tuple(given.hidden)),
    }
    best = optimum()
    print(
        f"{given.function}: regret after {given.initial} initial points and {given.steps} steps; the best value is {best:.4f}\n"
    )
    print("seed    " + "  ".join(f"{name:>24}" for name in models))
    regret: dict[str, list[float]] = {name: [] for name in models}
    seconds = dict.fromkeys(models, 0.0)
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for name, fit in models.items():
            start = time.perf_counter()
            regret[name].append(best - optimise(FUNCTIONS[given.function], fit, seed, given.initial, given.steps))
            seconds[name] += time.perf_counter() - start
        print(f"{seed:>4}    " + "  ".join(f"{values[-1]:>24.2e}" for values in regret.values()), flush=True)
    theirs, ours = (np.array(values) for values in regret.values())
    print("\nmedian  " + "  ".join(f"{np.median(values):>24.2e}" for values in (theirs, ours)))
    print("mean    " + "  ".join(f"{np.mean(values):>24.2e}" for values in (theirs, ours)))
    print("s a run " + "  ".join(f"{seconds[name] / given.seeds:>24.1f}" for name in models))
    better, count = int((ours < theirs).sum()), len(ours)
    p = sum(math.comb(count, k) for k in range(better, count + 1)) / 2**count
    print(f"\nManifoldGPModel is better on {better} of {count} seeds (one-sided sign test: p = {p:.3f})")
    return regret


if __name__ == "__main__":
    main()
