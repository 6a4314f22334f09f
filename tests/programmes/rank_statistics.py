"""Rank statistics of NUTS, part of `make calibrate`: true parameters are drawn from their prior, data from a GP with them, and NUTS draws from the posterior of these data.

The rank of the true value among the draws is then uniform, for every parameter, if the sampler draws from the posterior.

    python -m programmes.rank_statistics --minutes 10
"""

from __future__ import annotations

import argparse
import math
import time
import warnings

import numpy as np
import torch
from scipy import stats

from manifoldgp import NUTS
from manifoldgp._system.threads import Workers
from manifoldgp.averaging.averages import FoldChoice
from manifoldgp.averaging.nuts import default_priors
from manifoldgp.features import MLP
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, first_of
from manifoldgp.training.trainer import Trainer

ROWS, INPUTS = 20, 2
SETTINGS = NUTS(restarts=4, max_iter=50, chains=2, tune=200, draws=240, thin=4)
MODELS: dict[str, Model] = {"gp": Model(), "network": Model(features=MLP((2, 1)))}

NLML = "NLML"
"""Ranked beside the parameters: it knows all of them together, and is the same for networks whose units changed places."""


def drawn_from_prior(layout: Layout, rng: np.random.Generator) -> np.ndarray:
    """theta (P,) from the priors that NUTS gives to parameters without one: all of them are normal in theta."""
    theta, priors = np.empty(layout.size), default_priors(layout)
    for name in layout.names:
        where = layout.slices[name]
        theta[where] = rng.normal(priors[name].mean, priors[name].sd, size=where.stop - where.start)
    return theta


def ranks_of(model: Model, number: int, seed: int, settings: NUTS = SETTINGS) -> dict[str, float]:
    """For each scalar quantity of one data set: the share of draws below the true value, ties and ends broken at random; uniform on [0, 1]."""
    rng = np.random.default_rng([seed, number, *map(ord, repr(model.features))])
    X = torch.from_numpy(rng.normal(size=(ROWS, INPUTS)))
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    layout, start = model.draw(Data(X, torch.zeros(ROWS, dtype=torch.float64)), generator, 1)
    theta, shared = drawn_from_prior(layout, rng), first_of(layout.constants(start))
    truth = layout.batch(torch.from_numpy(theta)[None], shared)
    K = model.covariance(truth, X)[0][0] + model.learned_noise(truth, X)[0] * torch.eye(ROWS, dtype=torch.float64)
    data = Data(X, torch.linalg.cholesky(K) @ torch.from_numpy(rng.normal(size=ROWS)))
    draws = settings.fit(model, data, Trainer(generator, Workers(1)), FoldChoice()).trained[0].result.theta
    every = torch.from_numpy(np.vstack([theta, draws]))
    quantities = {NLML: model.nlml(layout.batch(every, shared), data).numpy()}
    for name in layout.names:
        if not name.startswith("features."):  # units of a network can change places, so single weights say little
            columns = range(layout.slices[name].start, layout.slices[name].stop)
            quantities |= {f"{name} {i}" if len(columns) > 1 else name: every[:, c].numpy() for i, c in enumerate(columns)}
    below = {name: int((values[1:] < values[0]).sum()) for name, values in quantities.items()}
    return {name: (count + rng.random()) / (len(draws) + 1) for name, count in below.items()}


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """One line for each model and quantity: sets, how often the truth is in the central half and in the central 90 % of the draws, and the p-value of uniform ranks."""
    lines = ["| model | quantity | sets | 50 % | 90 % | uniform ranks, p |", "|---|---|---|---|---|---|"]
    for model, sets in found.items():
        for name in sets[0] if sets else ():
            ranks = np.array([ranks[name] for ranks in sets])
            shares = (f"{100 * np.mean(np.abs(ranks - 0.5) <= level / 2):.1f}" for level in (0.5, 0.9))
            p = stats.kstest(ranks, "uniform").pvalue
            lines.append(f"| {model} | {name} | {len(ranks)} | {' | '.join(shares)} | {p:.3f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=400, help="data sets of each model")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many")
    parser.add_argument("--model", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(f"programmes.rank_statistics: seed {options.seed}, {ROWS} rows, {SETTINGS}\n", flush=True)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in options.model}
    end = time.perf_counter() + 60.0 * options.minutes
    for number in range(options.sets):
        if time.perf_counter() > end:
            break
        for name in options.model:
            found[name].append(ranks_of(MODELS[name], number, options.seed))
    print(table(found))


if __name__ == "__main__":
    main()
