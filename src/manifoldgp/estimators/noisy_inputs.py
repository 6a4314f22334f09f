"""Training with noisy inputs (NIGP, McHutchon and Rasmussen 2011): an error of an input is one of the output where the function is steep.

    y_i = f(x_i − e_i) + w_i ≈ f(x_i) − e_i · f'(x_i) + w_i,     noise variance of row i = σ² + Σ_d s_d² (∂f/∂x_d)²(x_i)

with s_d the standard deviation of input d's error, known or learned, and the slopes of the posterior mean; of an average, of its mean. The slopes are those of
the model, and the model depends on them: train, take the slopes, train with the noise they give, until they settle. To everything that is trained this is a
noise of the rows that is known, so that every kernel, feature map and average can do it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from manifoldgp.errors import FileFormatError, InputError
from manifoldgp.estimators.arguments import RunSettings
from manifoldgp.estimators.targets import FittedTarget
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.model import Data, Model
from manifoldgp.parameters import leaves, map_leaves, nest
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.training.optimizer import STOPPED

MOST_ROUNDS = 5
"""Trainings, at most: the first with exact inputs."""

SETTLED = 0.05
"""Slopes have settled when the noise variances that they give change by so much of all noise, on average over the rows."""

LEARN_ROWS = 1000
"""Rows that learned input noise is found from, at most: it is one number a column."""

_SMALLEST = 1e-6
"""The smallest learned input noise, relative to the spread of its column."""


@dataclass(frozen=True, eq=False)
class InputNoise:
    """The noise of the inputs that a model was trained with, ``model.input_noise_``.

    Parameters
    ----------
    std : (D,)
        Standard deviations of the inputs' errors, in the units of X; where they were given row by row, the root of their mean square.
    learned
        Whether they were learned.
    rounds
        How often the model was trained.
    change
        By how much the noise that the slopes give would have changed in one more round, relative to all noise of the rows.
    share : (O,)
        For each target, how much of the noise variance of the training rows comes from the inputs, on average.
    """

    std: np.ndarray
    learned: bool
    rounds: int
    change: float
    share: np.ndarray

    @property
    def settled(self) -> bool:
        """Whether the slopes had settled when training ended."""
        return self.change <= SETTLED

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**vars(self), "std": self.std.tolist(), "share": self.share.tolist()}

    @staticmethod
    def from_plain(plain: Any, D: int, targets: int) -> InputNoise:
        """What :meth:`to_plain` wrote, for D inputs and so many targets."""
        noise = InputNoise(
            np.array(plain["std"], dtype=np.float64),
            bool(plain["learned"]),
            int(plain["rounds"]),
            float(plain["change"]),
            np.array(plain["share"], dtype=np.float64),
        )
        sound = (
            noise.std.shape == (D,) and noise.share.shape == (targets,) and (noise.std >= 0).all() and (noise.share >= 0).all()
        )
        if not (sound and np.isfinite(noise.std).all() and np.isfinite(noise.share).all() and noise.change >= 0):
            raise FileFormatError("The file's input noise does not fit its model. The file is damaged or forged.")
        return noise


def fit_noisy(
    train: Callable[[list[Data], RunSettings], list[FittedTarget]],
    data: list[Data],
    known: Tensor | None,
    noisy: np.ndarray,
    run: RunSettings,
) -> tuple[list[FittedTarget], InputNoise]:
    """Train until the slopes settle. known: variances (N, D) of the inputs in the model's units; None learns those of the columns ``noisy`` (D,).

    Every round begins anew from the same starts: a poor first model does not hold the next ones. From the third on, half of the last round's noise is kept, so that
    two models that lead to each other meet in the middle. What the callback stops, and what the time budget leaves no room for, is not taken.
    """
    deadline = math.inf if run.time_budget is None else time.perf_counter() + run.time_budget
    fitted, taken, variances = train(data, _share(run, deadline, MOST_ROUNDS)), [torch.zeros_like(d.y) for d in data], known
    rounds = 1
    while True:
        ensembles = [f.ensemble for f in fitted]
        squares = [e.slopes(d.X) ** 2 for e, d in zip(ensembles, data, strict=True)]
        if known is None:
            variances = learned_variances(ensembles, data, squares, noisy, variances)
        assert variances is not None
        added = [(s * variances).sum(-1) for s in squares]
        change, share = _change(ensembles, data, taken, added), _share_of_inputs(ensembles, data, added)
        if change <= SETTLED or rounds == MOST_ROUNDS or _stopped(fitted) or time.perf_counter() > deadline:
            break
        taken = added if rounds == 1 else [0.5 * (a + t) for a, t in zip(added, taken, strict=True)]
        further = train(
            [_with_noise(d, t) for d, t in zip(data, taken, strict=True)], _share(run, deadline, MOST_ROUNDS - rounds)
        )
        if _stopped(further):
            break
        fitted, rounds = further, rounds + 1
    root = variances.expand(len(data[0].X), -1).mean(0).sqrt().cpu().numpy()
    return fitted, InputNoise(root, known is None, rounds, change, share)


def refuse_without_slopes(model: Model, data: Data) -> None:
    """Refuse features that have no derivatives before anything is trained."""
    few = Data(data.X[:2], data.y[:2])
    _, values = model.draw(few, torch.Generator().manual_seed(0), 1)
    try:
        model.features_at(values, few.X.clone().requires_grad_())
    except InputError as error:
        raise InputError(
            f"Noisy inputs need the slopes of the model, and its features have none: {error} Leave out input_std and input_noise, or use other features."
        ) from error


def slope_noise(ensemble: Ensemble, X: Tensor, variances: Tensor) -> Tensor:
    """Noise variances (n,) of rows X (n, D) whose inputs have these variances (n, D) or (D,), in the model's units."""
    return (ensemble.slopes(X) ** 2 * variances).sum(-1)


def _with_noise(data: Data, added: Tensor) -> Data:
    return replace(data, known_noise=added if data.known_noise is None else data.known_noise + added)


def _share(run: RunSettings, deadline: float, rounds: int) -> RunSettings:
    """The circumstances of one of so many rounds that may follow: its part of the time that is left."""
    run = replace(run, part=f"round {MOST_ROUNDS - rounds + 1} of up to {MOST_ROUNDS}, until slopes at noisy inputs settle")
    if run.time_budget is None:
        return run
    return replace(run, time_budget=max(deadline - time.perf_counter(), 1e-9) / rounds)


def _stopped(fitted: Sequence[FittedTarget]) -> bool:
    """Whether the callback has ended a training."""
    return any((f.starts["status"] == STOPPED).any() for f in fitted)


def _all_noise(ensemble: Ensemble, data: Data, added: Tensor) -> Tensor:
    """All noise variances (N,) of the rows, in the model's units."""
    block, member = ensemble.heaviest()
    return block.noise_variance()[member] + (0.0 if data.known_noise is None else data.known_noise) + added


def _change(ensembles: Sequence[Ensemble], data: Sequence[Data], before: Sequence[Tensor], now: Sequence[Tensor]) -> float:
    """By how much the rows' noise changes, relative to all of it; of the target where it changes most."""
    changes = [
        float((b - a).abs().mean() / _all_noise(e, d, a).mean()) for e, d, b, a in zip(ensembles, data, before, now, strict=True)
    ]
    return max(changes)


def _share_of_inputs(ensembles: Sequence[Ensemble], data: Sequence[Data], added: Sequence[Tensor]) -> np.ndarray:
    return np.array([float((a / _all_noise(e, d, a)).mean()) for e, d, a in zip(ensembles, data, added, strict=True)])


def learned_variances(
    ensembles: Sequence[Ensemble], data: Sequence[Data], squares: Sequence[Tensor], noisy: np.ndarray, before: Tensor | None
) -> Tensor:
    """Variances (D,) of the inputs' errors with the best evidence, all targets together, squared slopes (N, D) held.

    Kernel, mean and noise of the heaviest member of each target are trained along; its features stay. An input's error is at most as large as its column's spread.
    """
    targets = [TargetEvidence.of(*each) for each in zip(ensembles, data, squares, strict=True)]
    places = torch.as_tensor(np.flatnonzero(noisy), device=squares[0].device)
    spread = data[0].X.std(0, correction=0)[places].cpu().numpy()
    start = _first_guess(ensembles, squares, places) if before is None else before[places].sqrt().cpu().numpy()
    sizes = [len(t.free) for t in targets]

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        flat = torch.tensor(point, device=places.device, requires_grad=True)
        *each, log_std = flat.split([*sizes, len(places)])
        variances = torch.zeros(squares[0].shape[1], dtype=flat.dtype, device=flat.device).index_copy(
            0, places, (2 * log_std).exp()
        )
        value = torch.stack([t.value(part, variances) for t, part in zip(targets, each, strict=True)]).sum()
        if not bool(torch.isfinite(value)):
            return 1e10, np.zeros_like(point)
        (gradient,) = torch.autograd.grad(value, flat)
        return float(value.detach()), gradient.cpu().numpy()

    first = np.concatenate(
        [*(t.theta[t.free].cpu().numpy() for t in targets), np.log(np.clip(start, _SMALLEST * spread, spread))]
    )
    bounds = [(None, None)] * sum(sizes) + [(math.log(_SMALLEST * s), math.log(s)) for s in spread]
    with torch.enable_grad():
        found = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 100})
    variances = torch.zeros_like(squares[0][0])
    variances[places] = torch.as_tensor(np.exp(2 * found.x[sum(sizes) :]), device=places.device)
    return variances


@dataclass(frozen=True)
class TargetEvidence:
    """The evidence of one target's heaviest member as a function of its trained parameters but those of the features. squares: (n, D). theta: (P,). free: indices."""

    objective: TrainingObjective
    data: Data
    squares: Tensor
    theta: Tensor
    free: Tensor

    @staticmethod
    def of(ensemble: Ensemble, data: Data, squares: Tensor) -> TargetEvidence:
        block, member = ensemble.heaviest()
        values = map_leaves(lambda leaf: leaf[member], {k: v for k, v in block.values.items() if k != "inducing"})
        some = (
            torch.randperm(len(data.y), generator=torch.Generator().manual_seed(0))[:LEARN_ROWS].sort().values.to(data.y.device)
        )
        few = data.only(some)
        layout, _ = block.model.draw(few, torch.Generator().manual_seed(0), 1)
        constants = nest({name: leaf for name, leaf in leaves(values) if not layout.parameters[name].trainable})
        theta = layout.flatten(values) if layout.size else few.y.new_zeros(0)
        kept = [
            i for name, where in layout.slices.items() if not name.startswith("features.") for i in range(where.start, where.stop)
        ]
        free = torch.tensor(kept, dtype=torch.long, device=theta.device)
        return TargetEvidence(TrainingObjective(block.model, layout, constants, few), few, squares[some], theta, free)

    def value(self, part: Tensor, variances: Tensor) -> Tensor:
        """NLML, less the log prior where there is one, of the parameters ``part`` and these variances of the inputs (D,)."""
        theta = self.theta.index_copy(0, self.free, part)
        return self.objective.value(theta[None], _with_noise(self.data, self.squares @ variances))[0]


def _first_guess(ensembles: Sequence[Ensemble], squares: Sequence[Tensor], places: Tensor) -> np.ndarray:
    """Standard deviations (d,) that would explain half of the noise of the first target, an equal part each."""
    block, member = ensembles[0].heaviest()
    half = 0.5 * float(block.noise_variance()[member]) / max(len(places), 1)
    return np.sqrt(half / (squares[0][:, places].mean(0).cpu().numpy() + 1e-300))
