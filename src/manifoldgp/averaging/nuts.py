"""Full Bayes over network and hyperparameters: NUTS draws as members, all with the same weight (extra [bayes])."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from manifoldgp.averaging.averages import Averaged, Averaging, FoldChoice, SamplingReport, number_of
from manifoldgp.averaging.verdict import sampling_remarks
from manifoldgp.data.inputs import whole_number
from manifoldgp.errors import InputError, MissingExtraError, warn
from manifoldgp.model import Data, Model
from manifoldgp.parameters import Layout, LogNormal, Normal, nest, with_priors
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.optimizer import OptimizeResult
from manifoldgp.training.plan import Phase, Plan, cost, until_convergence
from manifoldgp.training.trained import Trained
from manifoldgp.training.trainer import Trainer


@dataclass(repr=False)
class NUTS(Averaging):
    """Full Bayes over network and hyperparameters: draws of the No-U-Turn Sampler, all with the same weight (extra ``[bayes]``).

    Parameters
    ----------
    restarts
        Starts of the search for the best points; the chains begin at the best of them.
    max_iter
        Iterations of each start, at most.
    chains
        Chains, at least two: whether they agree says whether they mixed.
    tune
        Draws of each chain, at its beginning, that only tune the sampler.
    draws
        Draws of each chain after these.
    thin
        Every so-many-th draw becomes a member.
    depth
        Largest depth of the sampler's trees: at most 2^depth gradients a draw.
    target_accept
        Acceptance that the step size is tuned to, between 0 and 1.
    """

    restarts: int = 20
    max_iter: int = 500
    chains: int = 2
    tune: int = 200
    draws: int = 200
    thin: int = 8
    depth: int = 7
    target_accept: float = 0.8

    in_words = "The prediction is an average over draws from the posterior of all parameters (full Bayes, by NUTS)."

    def check(self) -> None:
        for name in ("restarts", "tune", "draws", "thin", "depth"):
            whole_number(getattr(self, name), name)
        whole_number(self.chains, "chains", least=2)
        whole_number(self.max_iter, "max_iter", least=0)
        if not 0 < number_of(self.target_accept) < 1:
            raise InputError(f"target_accept must lie between 0 and 1; got {self.target_accept!r}.")

    def plan(self, N: int) -> Plan:
        iterations = until_convergence(self.max_iter)
        starts = Phase("MAP starts", iterations, self.restarts * iterations * cost(N), self.max_iter)
        return Plan((starts,), at_once=self.restarts, kept=(self.chains * -(-self.draws // self.thin),))

    def fit(self, model: Model, data: Data, trainer: Trainer, folds: FoldChoice) -> Averaged:
        """Draws from p(theta | D) as equally weighted members; a warning says when the chains did not mix.

        The deadline stops the starts. The chains take the time they need, and a warning says so.
        """
        sampler = _nutpie()
        if math.isfinite(trainer.deadline):
            warn("time_budget limits the starts of the chains, not the chains themselves.")
        maps = trainer.fit("MAP starts", model, data, self.restarts, self.max_iter, relaid=_with_default_priors)
        maps.best()  # refuses when no start could be trained
        ranked = maps.order
        starts = maps.result.theta[ranked[np.arange(self.chains) % len(ranked)]]
        objective = TrainingObjective(model, maps.layout, maps.constants, data)
        seed = int(torch.randint(2**31, (), generator=trainer.generator))
        trace = _sample(sampler, objective, starts, self, seed)
        theta = trace.posterior["theta"].to_numpy()[:, :: self.thin].reshape(-1, maps.layout.size)
        value, gradient = objective(theta, np.arange(len(theta)))
        status = np.where(np.isfinite(value), "posterior draw", "invalid start").astype(object)
        zeros = np.zeros(len(theta), dtype=int)
        result = OptimizeResult(theta, value, gradient, status, zeros, zeros, [[float(v)] for v in value])
        draws = Trained.on(data, "nuts", model, maps.layout, maps.constants, result)
        weights = np.isfinite(value) / np.isfinite(value).sum()
        return Averaged([draws], [weights[None]], sampling=_report(trace))


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


def _with_default_priors(layout: Layout) -> Layout:
    return Layout(with_priors(nest(layout.parameters), default_priors(layout)))


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

    with np.errstate(divide="ignore", invalid="ignore"):  # chains that never moved have an R-hat of infinity
        mixing: Any = arviz.rhat(trace), arviz.ess(trace)
    rhat, ess = float(np.nanmax(mixing[0]["theta"].to_numpy())), float(np.nanmin(mixing[1]["theta"].to_numpy()))
    divergent = float(trace.sample_stats["diverging"].to_numpy().mean())
    report = SamplingReport(rhat, ess, divergent, trace)
    for remark in sampling_remarks(report):
        warn(remark)
    return report
