"""Training of a deep GP by doubly stochastic variational inference: minibatches, draws through the layers, and two kinds of steps.

The last layer's values at its inducing points follow natural gradients, for which they are an easy problem; everything else follows Adam. Both keep their rates until the bound
rises no more, and then let them fall to nothing over half as many steps: what minibatches shake is averaged away, and there the training ends.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from manifoldgp.errors import TrainingFailedError
from manifoldgp.integrations._deep_gp_layers import Layers, NanError, NotPSDError, gpytorch
from manifoldgp.integrations.deep_gp import GROUP, DeepSettings
from manifoldgp.training.optimizer import CONVERGED, ITERATION_LIMIT, STOPPED, TIME_LIMIT
from manifoldgp.training.progress import Watch

_RATE, _NATURAL_RATE, _LOWEST = 0.03, 0.1, 0.01
"""Steps of Adam, of natural gradients, and the share of them that is left at the end."""

_FIRST_NOISE = 0.01
"""Variance of the noise of standardised y that training begins with."""

_FALL = 1 / 3
"""Share of the training in which the rates fall."""

_WINDOW, _RISE = 100, 0.005
"""The bound is averaged over so many steps, and rises when it gains so many nats a row against the best such average before."""

_PLACED_FROM = 10_000
"""Rows that inducing points are the means of, at most."""


@dataclass(frozen=True)
class DeepTrained:
    """A trained deep GP: its layers, the negative bound of each step (total over the rows, in the model's units), its value at the end, and why training ended."""

    layers: Layers
    history: np.ndarray
    value: float
    status: str


def train(X: Tensor, y: Tensor, settings: DeepSettings, generator: torch.Generator, deadline: float, watch: Watch) -> DeepTrained:
    """Train on rows X (N, D) and y (N,), both standardised."""
    layers = begun(X, settings, generator)
    bound = gpytorch.mlls.DeepApproximateMLL(gpytorch.mlls.VariationalELBO(layers.likelihood, layers, num_data=len(y)))
    natural = list(layers.layers[-1].variational_strategy._variational_distribution.parameters())
    others = [p for p in layers.parameters() if p.requires_grad and not any(p is n for n in natural)]
    steps = (gpytorch.optim.NGD(natural, num_data=len(y), lr=_NATURAL_RATE), torch.optim.Adam(others, lr=_RATE))
    course, history = _Course(settings.max_iter, deadline), []
    layers.train()
    while not course.ended:
        for step, rate in zip(steps, (_NATURAL_RATE, _RATE), strict=True):
            step.param_groups[0]["lr"] = rate * course.rate
            step.zero_grad()
        rows = torch.randperm(len(y), generator=generator)[: settings.batch].to(X.device)
        noise = [torch.randn(1, len(rows), w, generator=generator, dtype=X.dtype).to(X.device) for w in layers.widths]
        try:
            with torch.enable_grad():
                value: Any = bound(layers(X[rows], noise), y[rows])
                (-value).backward()
        except (NotPSDError, NanError) as error:
            raise TrainingFailedError(_failed(len(history))) from error
        for step in steps:
            step.step()
        history.append(-float(value.detach()) * len(y))
        if not math.isfinite(history[-1]):
            raise TrainingFailedError(_failed(len(history)))
        course.tell(-history[-1] / len(y))
        if watch(GROUP, np.array([len(history)]), np.array([history[-1]])):
            course.status = STOPPED
    return DeepTrained(layers.eval(), np.array(history), float(np.mean(history[-_WINDOW:])), course.status)


def _failed(steps: int) -> str:
    return (
        f"The bound of the deep GP is no finite number after {steps} steps. Standardise X and y (standardize=True), look for extreme values in them, "
        "or use fewer inducing points or layers."
    )


class _Course:
    """Where a training stands: the factor of its rates, whether it has ended, and why."""

    def __init__(self, most: int, deadline: float) -> None:
        self._most, self._deadline, self._begin = most, deadline, time.perf_counter()
        self._bounds: list[float] = []
        self._best = -np.inf
        self._fall: tuple[int, int] | None = None  # the steps between which the rates fall
        self.status = ""

    @property
    def rate(self) -> float:
        """The factor of both rates at the next step."""
        if self._fall is None:
            return 1.0
        first, last = self._fall
        return max(_LOWEST, (last - len(self._bounds)) / max(last - first, 1))

    @property
    def ended(self) -> bool:
        """Whether no step is to follow."""
        done = len(self._bounds)
        if done and self.status != STOPPED and time.perf_counter() >= self._deadline:
            self.status = TIME_LIMIT
            return True
        return self.status == STOPPED or (self._fall is not None and done >= self._fall[1])

    def tell(self, bound: float) -> None:
        """A step was taken, at a bound of so many nats a row."""
        self._bounds.append(bound)
        if self._fall is None and (why := self._why_fall()):
            done = len(self._bounds)
            self._fall, self.status = (done, min(self._most, done + max(1, round(done * _FALL / (1 - _FALL))))), why

    def _why_fall(self) -> str:
        """Why the rates are to fall from now on; nothing while they are not."""
        done, before = len(self._bounds), self._best
        if done % _WINDOW == 0:
            mean = float(np.mean(self._bounds[-_WINDOW:]))
            self._best = max(before, mean)
            if mean < before + _RISE:
                return CONVERGED
        if done >= (1 - _FALL) * self._most:
            return ITERATION_LIMIT
        spent = time.perf_counter() - self._begin
        return TIME_LIMIT if spent > (1 - _FALL) * (self._deadline - self._begin) else ""


def begun(X: Tensor, settings: DeepSettings, generator: torch.Generator) -> Layers:
    """The deep GP that training begins with: inner layers that hand on their inputs, or the widest directions of them, and inducing points in the middle of clusters."""
    Z, weights, H = _centres(X, settings.inducing, generator), [], X
    inducing = [Z]
    for _ in range(settings.layers - 1):
        weights.append(_handed_on(H, min(X.shape[1], 30) if settings.width is None else settings.width))
        H, Z = H @ weights[-1], Z @ weights[-1]
        inducing.append(Z)
    layers = Layers(inducing, weights).to(X.device)
    layers.likelihood.initialize(noise=_FIRST_NOISE)
    return layers


def _centres(X: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Means (count, D) of clusters of rows; all different rows where there are fewer of them."""
    rows = X[torch.randperm(len(X), generator=generator)[:_PLACED_FROM].to(X.device)].unique(dim=0)
    if len(rows) <= count:
        return rows
    seed = int(torch.randint(2**31 - 1, (), generator=generator))
    once: Any = {"n_init": 1}  # scikit-learn's annotations are narrower than what it takes
    centres = KMeans(count, random_state=seed, **once).fit(rows.cpu().numpy()).cluster_centers_
    return torch.as_tensor(centres, dtype=X.dtype, device=X.device)


def _handed_on(H: Tensor, width: int) -> Tensor:
    """The fixed linear map (D, width) of an inner layer: the identity, the first principal directions where it is narrower, or with zeros where it is wider."""
    D = H.shape[1]
    if width < D:
        centred = H - H.mean(0)
        return torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -width:].flip(1).contiguous()
    return torch.eye(D, width, dtype=H.dtype, device=H.device)
