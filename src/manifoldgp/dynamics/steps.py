"""One step of a fitted model, three ways: of states, of their means and covariances, of particles. All are functions of tensors, differentiable in what they are given.

A policy is a callable, states (..., S) to actions (..., A), of tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp.data.scaling import Standardizer
from manifoldgp.dynamics.state_space import StateSpace
from manifoldgp.estimators.function_draws import SampledFunctions
from manifoldgp.estimators.units import scaled_tensor
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.gaussian_draws import GaussianDraws
from manifoldgp.inference.gaussian_outputs import GaussianOutputs, OutputMoments
from manifoldgp.inference.gaussian_series import SeriesOutputs
from manifoldgp.inference.uncertain_inputs import root

Policy = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Regression:
    """The fitted targets as functions of z (..., D) in its own units. columns, scale (C,): of the inputs that the models see."""

    ensembles: Sequence[Ensemble]
    scaler: Standardizer
    columns: Tensor
    scale: Tensor

    def seen(self, z: Tensor) -> Tensor:
        """What the models see (..., C)."""
        return scaled_tensor(self.scaler, z, self.scale)

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (..., O) of y at z (..., D)."""
        U = self.seen(z).reshape(-1, len(self.columns))
        found = [ensemble.differentiable(U).moments() for ensemble in self.ensembles]
        mean, variance = (torch.stack([f[i] for f in found], -1).reshape(*z.shape[:-1], -1) for i in (0, 1))
        return mean, variance

    def mean(self, z: Tensor) -> Tensor:
        """The mean alone."""
        U = self.seen(z).reshape(-1, len(self.columns))
        found = [ensemble.differentiable(U).moments()[0] if U.requires_grad else ensemble.mean(U) for ensemble in self.ensembles]
        return torch.stack(found, -1).reshape(*z.shape[:-1], -1)


@dataclass(frozen=True)
class MeanStep:
    """The mean of the next state where the state is known."""

    space: StateSpace
    regression: Regression

    def __call__(self, states: Tensor, act: Tensor | Policy) -> Tensor:
        """Next states (n, S) of states (n, S) under actions (n, A) or a policy."""
        actions = act(states) if callable(act) else act
        return self.space.moved(states, self.regression.mean(self.space.inputs(states, actions)))


@dataclass(frozen=True)
class MomentStep:
    """Mean and covariance of the next state of x ~ N(mean, cov): in closed form where there is one, else averaged over points that stand for x.

    closed, series: all targets as functions of z, exactly and by a series; the series is used as long as its last terms are no larger share of a variance than the tolerance.
    points: (P, S + O), of a standard normal distribution; the last columns stand for what the regression does not know.
    """

    space: StateSpace
    regression: Regression
    closed: GaussianOutputs | None
    points: Tensor
    series: SeriesOutputs | None = None
    tolerance: float = math.inf

    def __call__(self, mean: Tensor, cov: Tensor, act: Tensor | Policy) -> tuple[Tensor, Tensor]:
        """Mean (n, S) and covariance (n, S, S) after the step, from mean (n, S), covariance (n, S, S), and actions (n, A) or a policy."""
        return self._by_points(mean, cov, act) if self.closed is None else self._in_closed_form(mean, cov, act, self.closed)

    @cached_property
    def _affine(self) -> tuple[Tensor, Tensor]:
        """x' = M (x, f) + noise: M (S, S + O), and the covariance (1, S, S) of the noise."""
        like = self.regression.scale
        noise = self.space.kinematic_noise(like.new_zeros(1, len(self.space.state_names)))
        return torch.cat(self.space.affine_step(like), -1), noise

    @property
    def method(self) -> str:
        """ "closed form", "series" or "samples"."""
        return "samples" if self.closed is None else "closed form" if self.series is None else "series"

    def _in_closed_form(self, mean: Tensor, cov: Tensor, act: Tensor | Policy, closed: GaussianOutputs) -> tuple[Tensor, Tensor]:
        mu, Sigma, cross = self._inputs(mean, cov, act)
        found = self._outputs(mu, Sigma, closed)
        known = (*self._affine, mean, cov, cross, found.mean, found.covariance, found.gradient)
        if mean.device.type != "cpu" or (torch.is_grad_enabled() and found.mean.requires_grad):
            return _moved(torch, *known)
        after, spread = _moved(np, *(part.detach().numpy() for part in known))  # whose calls take a third of the time
        return torch.from_numpy(after), torch.from_numpy(spread)

    def _outputs(self, mu: Tensor, Sigma: Tensor, closed: GaussianOutputs) -> OutputMoments:
        if self.series is None:
            return closed(mu, Sigma)
        found = self.series(mu, Sigma, judged=self.tolerance < math.inf)
        return found if found.last is None or float(found.last.amax()) <= self.tolerance else closed(mu, Sigma)

    def _inputs(self, mean: Tensor, cov: Tensor, act: Tensor | Policy) -> tuple[Tensor, Tensor, Tensor]:
        """Mean (n, D) and covariance (n, D, D) of z, and cov(x, z) (n, S, D)."""
        if not callable(act):
            return self.space.input_moments(mean, cov, act)
        x, away = self.spread(mean, cov)
        z = self.space.inputs(x, act(x))
        mu = z.mean(-2)
        deviation = z - mu.unsqueeze(-2)
        return mu, deviation.mT @ deviation / len(self.points), away.mT @ deviation / len(self.points)

    def _by_points(self, mean: Tensor, cov: Tensor, act: Tensor | Policy) -> tuple[Tensor, Tensor]:
        x, _ = self.spread(mean, cov)
        actions = act(x) if callable(act) else act.unsqueeze(-2).expand(*x.shape[:-1], -1)
        change, variance = self.regression(self.space.inputs(x, actions))
        after = self.space.moved(x, change + variance.sqrt() * self.points[:, mean.shape[-1] :].to(mean))
        mu = after.mean(-2)
        deviation = after - mu.unsqueeze(-2)
        return self.space.proper(mu), deviation.mT @ deviation / len(self.points) + self.space.kinematic_noise(mu)

    def spread(self, mean: Tensor, cov: Tensor) -> tuple[Tensor, Tensor]:
        """Points (n, P, S) that have this mean and covariance, and how far they are from the mean."""
        away = self.points[:, : mean.shape[-1]].to(mean) @ root(cov).mT
        return mean.unsqueeze(-2) + away, away


def _moved(
    xp: Any, step: Any, noise: Any, mean: Any, cov: Any, cross: Any, outputs: Any, covariance: Any, gradient: Any
) -> tuple[Any, Any]:
    """Mean and covariance of x' = M (x, f) + noise, with the functions of ``xp``, which is torch or numpy. cross: cov(x, z); gradient: such that cov(x, f) is their product."""
    mixed = cross @ gradient
    joint = xp.concat([xp.concat([cov, mixed], -1), xp.concat([mixed.mT, covariance], -1)], -2)
    after = noise + step @ joint @ step.mT
    return xp.concat([mean, outputs], -1) @ step.mT, 0.5 * (after + after.mT)


@dataclass(frozen=True)
class ParticleStep:
    """Next states of particles, each of which has a function of its own for the whole rollout; noise is drawn anew at each step.

    shared: whether the n states of a particle have the same noise, so that policies can be compared (common random numbers).
    """

    space: StateSpace
    functions: SampledFunctions | GaussianDraws
    noise: Tensor
    generator: torch.Generator
    shared: bool = False

    def __call__(self, states: Tensor, act: Tensor | Policy) -> Tensor:
        """Next states (P, n, S) of particles (P, n, S) under actions (n, A) or (P, n, A), or a policy."""
        actions = act(states) if callable(act) else act.expand(*states.shape[:-1], act.shape[-1])
        outputs = self.functions(self.space.inputs(states, actions))
        outputs = outputs.unsqueeze(-1) if outputs.ndim < states.ndim else outputs
        rows = (len(states), 1 if self.shared else states.shape[1])
        shock = torch.randn(*rows, outputs.shape[-1], generator=self.generator, dtype=states.dtype).to(states.device)
        after = self._moved(states, outputs + self.noise[:, None] * shock)
        return self.space.shaken(after, self.generator, rows)

    def _moved(self, states: Tensor, outputs: Tensor) -> Tensor:
        if not self.space.affine:
            return self.space.moved(states, outputs)
        A, B = self._affine
        return states @ A + outputs @ B

    @cached_property
    def _affine(self) -> tuple[Tensor, Tensor]:
        """Aᵀ and Bᵀ of x' = A x + B f."""
        A, B = self.space.affine_step(self.noise)
        return A.mT.contiguous(), B.mT.contiguous()
