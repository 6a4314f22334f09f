"""What a fitted estimator predicts: moments, quantiles, densities, joint draws, derivatives and features, in the units of y."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp.averaging import as_averaging
from manifoldgp.data import inputs
from manifoldgp.errors import InputError
from manifoldgp.estimators.arguments import generator_of
from manifoldgp.estimators.units import Points, Predicting, as_columns, model_inputs, model_noise, model_points, on_device
from manifoldgp.inference.ensemble import Ensemble, prediction_threads
from manifoldgp.inference.mixtures import Predictive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import RandomState, Table
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


def moments(estimator: Predicting, X: Table, return_std: bool, latent: bool, noise_std: ArrayLike | None) -> Any:
    """Mean of y at X, alone or with standard deviations."""
    points = model_points(estimator, X)
    if not (return_std or latent or noise_std is not None) and points.every_row_is_known:
        with prediction_threads(estimator.ensembles_, _evaluated(points), False):
            return as_columns(estimator, [e.mean(points.known) for e in estimator.ensembles_])
    mean, std = distribution(estimator, points, latent, noise_std).moments()
    return (mean, std) if return_std else mean


def with_interval(
    estimator: Predicting, X: Table, interval: float, latent: bool, noise_std: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of y at X, and the central interval that holds it with the probability ``interval``."""
    level = float(inputs.quantile_levels(interval)[0])
    ends = quantiles(estimator, X, ((1 - level) / 2, (1 + level) / 2), latent, noise_std)
    return moments(estimator, X, False, latent, noise_std), ends


def joint_moments(
    estimator: ManifoldGPRegressor, X: Table, return_std: bool, latent: bool, noise_std: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of y at X, and the joint covariance of all rows."""
    if return_std:
        raise InputError("Ask for return_std or for return_cov, not for both.")
    U = model_inputs(estimator, X)
    inputs.refuse_too_many_rows(len(U), 3)
    with prediction_threads(estimator.ensembles_, len(U), True, True):
        noise = model_noise(estimator, noise_std, len(U))
        known = [None if noise is None else noise[:, o] for o in range(len(estimator.ensembles_))]
        found = [e.covariance(U, latent, own) for e, own in zip(estimator.ensembles_, known, strict=True)]
        return as_columns(estimator, [m for m, _ in found]), as_columns(estimator, [C for _, C in found])


def quantiles(estimator: Predicting, X: Table, q: Sequence[float], latent: bool, noise_std: ArrayLike | None) -> np.ndarray:
    """Quantiles of y at X."""
    return distribution(estimator, model_points(estimator, X), latent, noise_std).quantiles(inputs.quantile_levels(q))


def log_density(estimator: Predicting, X: Table, y: ArrayLike, noise_std: ArrayLike | None) -> np.ndarray:
    """log p(y_i | x_i) (n,), summed over targets, which are independent."""
    return log_densities(estimator, X, y, noise_std).sum(1)


def log_densities(estimator: Predicting, X: Table, y: ArrayLike, noise_std: ArrayLike | None) -> np.ndarray:
    """log p(y_io | x_i) (n, O) of each target."""
    points = model_points(estimator, X)
    Y = inputs.target_table(estimator, y, points.rows)
    return distribution(estimator, points, False, noise_std).log_densities(Y)


def cdf(estimator: Predicting, X: Table, y: ArrayLike, noise_std: ArrayLike | None) -> np.ndarray:
    """P(Y_i <= y_i | x_i)."""
    points = model_points(estimator, X)
    Y = inputs.target_table(estimator, y, points.rows)
    return distribution(estimator, points, False, noise_std).cdf(Y)


def crps(estimator: Predicting, X: Table, y: ArrayLike, noise_std: ArrayLike | None) -> np.ndarray:
    """Continuous ranked probability score of every row and target."""
    points = model_points(estimator, X)
    Y = inputs.target_table(estimator, y, points.rows)
    return distribution(estimator, points, False, noise_std).crps(Y)


@dataclass(frozen=True)
class Distribution:
    """The distribution of y at n rows: what costs most, mean and variance of every member, is computed once, whatever it is asked for."""

    estimator: Predicting
    points: Points
    parts: list[tuple[np.ndarray, list[Predictive]]]

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (n,) or (n, O)."""
        both = self._by_row(lambda p, o, rows: torch.stack(p.moments(), -1))
        return both[:, 0], np.sqrt(both[:, 1])

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """(n, levels) or (n, levels, O)."""
        return self._by_row(lambda p, o, rows: p.quantiles([float(level) for level in levels]).mT)

    def log_densities(self, Y: np.ndarray) -> np.ndarray:
        """(n, O) at Y (n, O)."""
        at = on_device(self.estimator, Y)
        return self._by_row(lambda p, o, rows: p.log_density(at[rows, o])).reshape(self.points.rows, -1)

    def cdf(self, Y: np.ndarray) -> np.ndarray:
        """(n,) or (n, O) at Y (n, O)."""
        at = on_device(self.estimator, Y)
        return self._by_row(lambda p, o, rows: p.cdf(at[rows, o]))

    def crps(self, Y: np.ndarray) -> np.ndarray:
        """(n,) or (n, O) at Y (n, O)."""
        at = on_device(self.estimator, Y)
        return self._by_row(lambda p, o, rows: p.crps(at[rows, o].contiguous()))

    def _by_row(self, of: Callable[[Predictive, int, np.ndarray], Tensor]) -> np.ndarray:
        with prediction_threads(self.estimator.ensembles_, _evaluated(self.points)):
            return _by_row(self.estimator, self.points, self.parts, of)


def distribution(estimator: Predicting, points: Points, latent: bool, noise_std: ArrayLike | None) -> Distribution:
    """The distribution of y (or of f, latent) at some points."""
    with prediction_threads(estimator.ensembles_, _evaluated(points)):
        return Distribution(estimator, points, _parts(estimator, points, latent, noise_std))


def joint_draws(estimator: Predicting, X: Table, n_samples: int, random_state: RandomState, latent: bool) -> np.ndarray:
    """Joint draws of y at X."""
    U = model_inputs(estimator, X)
    n_samples = inputs.whole_number(n_samples, "n_samples")
    inputs.refuse_too_many_rows(len(U), 3)
    generator = generator_of(random_state)
    with prediction_threads(estimator.ensembles_, len(U), joint=True):
        draws = [e.sample(U, n_samples, generator, latent).T.cpu().numpy() for e in estimator.ensembles_]
    return draws[0] if estimator._flat else np.stack(draws, 1)


def gradients(estimator: ManifoldGPRegressor, X: Table) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of mean and variance of f with respect to X: the chain rule through its standardisation."""
    U = model_inputs(estimator, X)
    scaler = estimator.x_scaler_
    with prediction_threads(estimator.ensembles_, len(U)):
        pairs = [e.gradients(U) for e in estimator.ensembles_]
    mean, variance = (
        [scaler.of_columns(slopes.cpu().numpy() / scaler.scales) for slopes in each] for each in zip(*pairs, strict=True)
    )
    return (mean[0], variance[0]) if estimator._flat else (np.stack(mean, -1), np.stack(variance, -1))


def features(estimator: ManifoldGPRegressor, X: Table) -> np.ndarray:
    """H = M(X); of several targets with their own features side by side."""
    U, ensembles = model_inputs(estimator, X), featured(estimator)
    with torch.no_grad(), prediction_threads(ensembles, len(U), variance=False):
        return torch.cat([e.transform(U) for e in ensembles], -1).cpu().numpy()


def featured(estimator: ManifoldGPRegressor) -> list[Ensemble]:
    """The ensembles that have features of their own."""
    shared = getattr(as_averaging(estimator.averaging), "shared_features", False)
    return estimator.ensembles_[:1] if shared else estimator.ensembles_


def _predictives(estimator: Predicting, U: Tensor, latent: bool, noise: Tensor | None) -> list[Predictive]:
    """The mixture of every target at points (n, D). noise: known variances (n, O)."""
    return [e.predict(U, latent, None if noise is None else noise[:, o]) for o, e in enumerate(estimator.ensembles_)]


def _parts(
    estimator: Predicting, points: Points, latent: bool, noise_std: ArrayLike | None
) -> list[tuple[np.ndarray, list[Predictive]]]:
    """The mixtures of all targets at the rows whose values are known, and at those that several draws stand for, with the rows' numbers."""
    noise, parts = model_noise(estimator, noise_std, points.rows), []
    if len(points.known):
        own = None if noise is None else noise[points.known_rows]
        parts.append((points.known_rows, _predictives(estimator, points.known, latent, own)))
    if len(points.drawn):
        columns = points.drawn.shape[1]
        own = None if noise is None else noise[points.drawn_rows].repeat_interleave(columns, 0)
        each = _predictives(estimator, points.drawn.flatten(0, 1), latent, own)
        recentred = torch.as_tensor(points.recentred, device=points.drawn.device)
        parts.append((points.drawn_rows, [p.over_draws(columns - 1, recentred) for p in each]))
    return parts


def _by_row(
    estimator: Predicting,
    points: Points,
    parts: list[tuple[np.ndarray, list[Predictive]]],
    of: Callable[[Predictive, int, np.ndarray], Tensor],
) -> np.ndarray:
    """What ``of`` gives for each part and target, (a, ...), in the order of the rows: (n, ...), or (n, ..., O); NaN for rows without prediction."""
    blocks = [(rows, as_columns(estimator, [of(p, o, rows) for o, p in enumerate(each)])) for rows, each in parts]
    if len(blocks) == 1 and points.every_row_is_known:
        return blocks[0][1]
    if not blocks:
        raise InputError(
            "No row has all its inputs: there is nothing to predict. Fit with missing='impute' to predict such rows."
        )
    found = np.full((points.rows, *blocks[0][1].shape[1:]), np.nan)
    for rows, block in blocks:
        found[rows] = block
    return found


def _evaluated(points: Points) -> int:
    """At how many points the model is evaluated."""
    return len(points.known) + points.drawn.shape[0] * points.drawn.shape[1]
