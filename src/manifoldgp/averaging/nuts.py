"""Full Bayes over network and hyperparameters: NUTS draws as members, all with the same weight (extra [bayes])."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch

from manifoldgp._system.threads import training_threads
from manifoldgp.averaging.members import Batch, Watch
from manifoldgp.averaging.settings import NUTS
from manifoldgp.averaging.stack import Averaged, SamplingReport
from manifoldgp.averaging.verdict import sampling_remarks
from manifoldgp.errors import FitWarning, MissingExtraError
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, LogNormal, Normal, nest, with_priors
from manifoldgp.training.lbfgs import minimize_lbfgs
from manifoldgp.training.objective import TrainingObjective, first_of
from manifoldgp.training.optimizer import Monitor, OptimizeResult


def default_priors(layout: Layout) -> dict[str, Any]:
    """Weakly informative priors for every parameter without one: weights N(0, 3²), positive values log-normal around their usual size."""
    priors: dict[str, Any] = {}
    for name in layout.names:
        parameter = layout.parameters[name]
        if parameter.prior is not None:
            continue
        if not parameter.positive:
            priors[name] = Normal(0.0, 3.0)
        elif name == "noise.scale":
            priors[name] = LogNormal(float(np.log(0.1)), 2.0)
        elif name.endswith("lengthscale"):
            priors[name] = LogNormal(float(np.log(0.5)), 1.0)
        else:
            priors[name] = LogNormal(0.0, 1.0)
    return priors


def fit_nuts(
    model: Model,
    data: Data,
    settings: NUTS,
    *,
    generator: torch.Generator,
    deadline: float = math.inf,
    watch: Watch | None = None,
) -> Averaged:
    """Draws from p(theta | D) as equally weighted members; a warning says when the chains did not mix.

    deadline: when the MAP starts stop. The chains take the time they need, and a warning says so.
    """
    sampler = _nutpie()
    if math.isfinite(deadline):
        warnings.warn("time_budget limits the starts of the chains, not the chains themselves.", FitWarning, stacklevel=2)
    layout, drawn = model.draw(data, generator, settings.restarts)
    layout = Layout(with_priors(nest(layout.parameters), default_priors(layout)))
    constants = first_of(layout.constants(drawn))
    callback = None if watch is None else (lambda iterations, values: watch("MAP starts", iterations, values))
    with training_threads() as workers:
        objective = TrainingObjective(model, layout, constants, data, workers)
        maps = minimize_lbfgs(objective, layout.flatten(drawn).cpu().numpy(), Monitor(settings.max_iter, deadline, callback))
        Batch("nuts", model, layout, constants, maps).best()  # refuses when no start could be trained
        usable = np.flatnonzero(np.isfinite(maps.value))
        ranked = usable[np.argsort(maps.value[usable])]
        starts = maps.theta[ranked[np.arange(settings.chains) % len(ranked)]]
        single = TrainingObjective(model, layout, constants, data)
        seed = int(torch.randint(2**31, (), generator=generator))
        trace = _sample(sampler, single, starts, settings, seed)
    report = _report(trace)
    theta = trace.posterior["theta"].to_numpy()[:, :: settings.thin].reshape(-1, layout.size)
    value, gradient = single(theta, np.arange(len(theta)))
    status = np.where(np.isfinite(value), "posterior draw", "invalid start").astype(object)
    zeros = np.zeros(len(theta), dtype=int)
    result = OptimizeResult(theta, value, gradient, status, zeros, zeros, [[float(v)] for v in value])
    weights = np.isfinite(value) / np.isfinite(value).sum()
    return Averaged([Batch("nuts", model, layout, constants, result)], [weights[None]], (1.0,), None, report)


def _nutpie() -> Any:
    try:
        import nutpie
        from nutpie.compiled_pyfunc import from_pyfunc
    except ImportError as error:
        raise MissingExtraError("averaging='nuts' needs nutpie and ArviZ: pip install 'manifoldgp[bayes]'.") from error
    return nutpie, from_pyfunc


class _NoDensityError(ArithmeticError):
    """Tells the sampler that this point has no density, and to go on."""

    is_recoverable = True


def _sample(sampler: Any, objective: TrainingObjective, starts: np.ndarray, settings: NUTS, seed: int) -> Any:
    nutpie, from_pyfunc = sampler
    P = starts.shape[1]
    row = np.array([0])

    def make_logp():
        def logp(theta: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = objective(np.asarray(theta, dtype=float)[None], row)
            if not (np.isfinite(value[0]) and np.isfinite(gradient[0]).all()):
                raise _NoDensityError
            return -float(value[0]), -gradient[0]

        return logp

    def make_expand(*_: Any):
        return lambda theta, **_: {"theta": np.asarray(theta, dtype=np.float64)}

    chosen = iter(range(10**9))

    def make_initial_point(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return starts[next(chosen) % len(starts)] + 1e-3 * rng.normal(size=P)

    compiled = from_pyfunc(
        P, make_logp, make_expand, [np.dtype(np.float64)], [(P,)], ["theta"], make_initial_point_fn=make_initial_point
    )
    return nutpie.sample(
        compiled,
        draws=settings.draws,
        tune=settings.tune,
        chains=settings.chains,
        cores=1,
        seed=seed,
        progress_bar=False,
        maxdepth=settings.depth,
        target_accept=settings.target_accept,
    )


def _report(trace: Any) -> SamplingReport:
    import arviz

    mixing: Any = arviz.rhat(trace), arviz.ess(trace)
    rhat, ess = float(np.nanmax(mixing[0]["theta"].to_numpy())), float(np.nanmin(mixing[1]["theta"].to_numpy()))
    divergent = float(trace.sample_stats["diverging"].to_numpy().mean())
    report = SamplingReport(rhat, ess, divergent, trace)
    for remark in sampling_remarks(report):
        warnings.warn(remark, FitWarning, stacklevel=2)
    return report
