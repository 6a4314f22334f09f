"""Kinds of members that a stack might have and has not: what each predicts on held-out rows and on test rows.

They are written here as simply as they can be, to be tried: a kind that pays is built into the package, and then leaves this file.
Every kind is trained on the folds of a stack that was fitted before (:class:`Tried`), and on all rows; it predicts means and variances, of which there are as many copies
as the stack has variance factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import logsumexp
from scipy.stats import gamma
from torch import Tensor

from manifoldgp import evidence
from manifoldgp.averaging.fold_steps import GP_FOLD_ITERATIONS
from manifoldgp.averaging.fold_training import OnFolds
from manifoldgp.averaging.kinds import ADDITIVE_GP, PLAIN, ROUGH_GP, plain_models
from manifoldgp.features import Kumaraswamy
from manifoldgp.inference.mixtures import Predictive, Warp
from manifoldgp.kernels import Linear, NeuralNetwork, SquaredExponential
from manifoldgp.model import Data, Model
from manifoldgp.noise import GaussianNoise
from manifoldgp.parameters import Normal, Parameter, Tree, map_leaves, normal_law
from manifoldgp.training.objective import TrainingObjective
from manifoldgp.warping import TanhWarping

FREEDOM = 4.0
"""Degrees of freedom of Student-t noise."""

DRAWS = 8
"""Hyperparameters that stand for their posterior."""


@dataclass(frozen=True)
class BoundedNoise(GaussianNoise):
    """log variance = log scale² + c tanh(P(x) w / c), P(x) = [x, x² − 1]: noise that follows the inputs, at most c either way."""

    bound: float = math.log(100.0)

    def parameters(self, X: Tensor) -> Tree:
        shape = (2 * X.shape[-1],)
        slope = Parameter(shape, normal_law(shape, 0.01, X), prior=Normal(0.0, 0.5))
        return {**super().parameters(X), "slope": slope}

    def of_rows(self, values: Tree, X: Tensor) -> Tensor:
        """Variances (*B, N)."""
        slope = (torch.cat([X, X * X - 1.0], -1) @ values["slope"][..., :, None])[..., 0]
        return values["scale"][..., None] ** 2 * (self.bound * torch.tanh(slope / self.bound)).exp() + self.floor**2


class NoisyModel(Model):
    """A model with :class:`BoundedNoise`."""

    def nlml(self, values: Tree, data: Data) -> Tensor:
        K, _ = self.covariance(values, data.X)
        noise = self.noise.of_rows(values["noise"], data.X)  # type: ignore[attr-defined]
        return evidence.nlml(K, noise.expand(K.shape[:-1]), data.y, data.mask)


@dataclass(frozen=True)
class Gaussian:
    """Predictions of one member: mean and variance of z (n,), noise included; ``certain``: the variance without noise."""

    mean: Tensor
    variance: Tensor
    certain: Tensor


@torch.no_grad()
def gaussian(model: Model, values: Tree, rows: Data, X: Tensor, known: Tensor | None = None) -> Gaussian:
    """A member (values leaves (1, ...)) conditioned on rows predicts X (n, D). known: noise variances of the rows (N,) that take the place of the model's."""
    K, H = model.covariance(values, rows.X)
    N = len(rows.y)
    follows = isinstance(model, NoisyModel)
    of_rows, of_new = (
        model.noise.of_rows(values["noise"], at)[0] if follows else model.learned_noise(values, rows.y).expand(len(at))  # type: ignore[attr-defined]
        for at in (rows.X, X)
    )
    A = K.reshape(N, N) + torch.diag((of_rows if known is None else known) + 1e-10)
    H_new = model.features_at(values, X)
    k = model.cross(values, H, H_new).reshape(N, -1)
    z = model.warp(values, rows.y)[0].reshape(-1, 1)
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(A), torch.cat([k, z], 1), upper=False)
    V, w = white[:, :-1], white[:, -1]
    certain = (model.prior_diagonal(values, H_new).reshape(-1) - (V * V).sum(0)).clamp_min(0.0)
    return Gaussian(V.T @ w, certain + of_new, certain)


def normal_log_density(z: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return -0.5 * ((z - mean) ** 2 / variance + np.log(variance) + math.log(2 * math.pi))


@dataclass(frozen=True)
class Said:
    """What a kind says about some rows: log densities (F, n) and means (n,) of y."""

    log_density: np.ndarray
    mean: np.ndarray

    @staticmethod
    def mixed(said: list[Said]) -> Said:
        """Of several members with equal weights."""
        log_density = np.asarray(logsumexp([s.log_density for s in said], axis=0)) - math.log(len(said))
        return Said(log_density, np.mean([s.mean for s in said], axis=0))


def by_gaussian(model: Model, values: Tree, found: Gaussian, y: Tensor, factors: np.ndarray) -> Said:
    """Of a member whose z is Gaussian."""
    z, log_slope = (part.reshape(-1).numpy() for part in model.warp(values, y))
    mean, variance = found.mean.numpy(), found.variance.numpy()
    one = torch.zeros(1, dtype=torch.float64)
    warp = Warp([(model.warping, values.get("warping", {}), 1)])
    mean_of_y = Predictive(found.mean[None], found.variance[None], one, warp).component_means()[0].numpy()
    return Said(normal_log_density(z, mean, factors[:, None] * variance) + log_slope, mean_of_y)


Kind = Callable[["Tried", Data, "int | None", Tensor, Tensor], Said]
"""From a stack that was fitted, training rows and the fold they are of (None: all rows) to what a member says about other rows X, y."""


@dataclass(frozen=True)
class Tried:
    """A stack that was fitted, with the folds of its first deal."""

    course: OnFolds
    data: Data

    @property
    def factors(self) -> np.ndarray:
        return np.array(self.course.settings.variance_factors)

    def folds(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Every fold's number, training rows and held-out rows, by their number in ``data``."""
        everything = np.arange(len(self.data.y))
        for fold, where in enumerate(self.course.folds.where):
            held_out = where[where >= 0]
            yield fold, np.setdiff1d(everything, held_out), held_out

    def held_out(self, kind: Kind) -> Said:
        """What a kind says about held-out rows; NaN where nobody held them out."""
        log_density = np.full((len(self.factors), len(self.data.y)), np.nan)
        mean = np.full(len(self.data.y), np.nan)
        for fold, train, rows in self.folds():
            said = kind(self, self.rows(train), fold, self.data.X[rows], self.data.y[rows])
            log_density[:, rows], mean[rows] = said.log_density, said.mean
        return Said(log_density, mean)

    def rows(self, index: np.ndarray) -> Data:
        return Data(self.data.X[index], self.data.y[index])

    def trained(self, model: Model, rows: Data, fold: int | None, base: str):
        """The model on these rows, from the values of a plain GP of the stack where there is one."""
        group = self.course.groups.get(base)
        begun = (
            {}
            if group is None
            else {part: map_leaves(lambda leaf: leaf[fold or 0][None], own) for part, own in group.values.items()}
        )

        def start(drawn: Tree) -> Tree:
            noise = {**drawn["noise"], **begun.get("noise", {})}
            return {**drawn, **({"kernel": begun["kernel"]} if "kernel" in begun else {}), "noise": noise}

        return self.course.trainer.fit("tried", model, rows, 1, GP_FOLD_ITERATIONS, start)

    def plain(self, name: str) -> Model:
        models = plain_models(self.course.template, self.data.X.shape[1])
        return models.get(name, models[PLAIN])


AFRESH = "afresh"
"""Instead of a plain GP of the stack: a kernel of its own, whose values are drawn."""


def ordinary(change: Callable[[Model], Model], base: str) -> Kind:
    """A plain GP of the stack with something changed."""

    def kind(tried: Tried, rows: Data, fold: int | None, X: Tensor, y: Tensor) -> Said:
        model = change(tried.plain(base))
        values = tried.trained(model, rows, fold, base).values()
        return by_gaussian(model, values, gaussian(model, values, rows, X), y, tried.factors)

    return kind


def robust(tried: Tried, rows: Data, fold: int | None, X: Tensor, y: Tensor) -> Said:
    """Student-t noise by variational EM: every row has a precision of its own; kernel as the plain GP learnt it."""
    model = tried.plain(PLAIN)
    values = tried.trained(model, rows, fold, PLAIN).values()
    square, own = float(values["noise"]["scale"]) ** 2, torch.ones_like(rows.y)
    for _ in range(12):
        found = gaussian(model, values, rows, rows.X, square * own)
        error = (rows.y - found.mean) ** 2 + found.certain
        own = (FREEDOM + error / square) / (FREEDOM + 1.0)
        square = float((error / own).mean())
    found = gaussian(model, values, rows, X, square * own)
    precision = gamma.ppf((np.arange(9) + 0.5) / 9, FREEDOM / 2, scale=2 / FREEDOM)
    variance = found.certain.numpy() + square / precision[:, None]
    each = [
        logsumexp(normal_log_density(y.numpy(), found.mean.numpy(), f * variance), axis=0) - math.log(9) for f in tried.factors
    ]
    return Said(np.stack(each), found.mean.numpy())


def laplace(base: str) -> Kind:
    """A plain GP whose hyperparameters are drawn from the Laplace approximation of their posterior, deviations of at most one in their logarithms."""

    def kind(tried: Tried, rows: Data, fold: int | None, X: Tensor, y: Tensor) -> Said:
        model = tried.plain(base)
        batch = tried.trained(model, rows, fold, base)
        objective, best, step = TrainingObjective(model, batch.layout, {}, rows), batch.result.theta[0], 1e-3
        around = [best + sign * step * unit for sign in (1, -1) for unit in np.eye(len(best))]
        slopes = np.stack([objective(theta[None], np.zeros(1, dtype=int))[1][0] for theta in around])
        hessian = (slopes[: len(best)] - slopes[len(best) :]) / (2 * step)
        curvature, direction = np.linalg.eigh(0.5 * (hessian + hessian.T))
        noise = np.random.default_rng(0).standard_normal((DRAWS - 1, len(best)))
        drawn = np.concatenate([best[None], best + noise / np.sqrt(np.maximum(curvature, 1.0)) @ direction.T])
        said = []
        for theta in drawn:
            values = batch.layout.batch(torch.tensor(theta[None]), {})
            said.append(by_gaussian(model, values, gaussian(model, values, rows, X), y, tried.factors))
        return Said.mixed(said)

    return kind


def _noisy(model: Model) -> Model:
    return NoisyModel(features=model.features, kernel=model.kernel, noise=BoundedNoise())


KINDS: dict[str, Kind] = {
    "noise that follows inputs": ordinary(_noisy, PLAIN),
    "the same, additive": ordinary(_noisy, ADDITIVE_GP),
    "arcsine kernel": ordinary(lambda model: replace(model, kernel=NeuralNetwork()), AFRESH),
    "linear trend and smooth rest": ordinary(lambda model: replace(model, kernel=Linear() + SquaredExponential()), AFRESH),
    "Student-t noise": robust,
    "Laplace, plain GP": laplace(PLAIN),
    "Laplace, rough GP": laplace(ROUGH_GP),
    "warped inputs, smooth": ordinary(lambda model: replace(model, features=Kumaraswamy()), PLAIN),
    "warped inputs, rough": ordinary(lambda model: replace(model, features=Kumaraswamy()), ROUGH_GP),
    "warped inputs, additive": ordinary(lambda model: replace(model, features=Kumaraswamy()), ADDITIVE_GP),
    "warped targets, smooth": ordinary(lambda model: replace(model, warping=TanhWarping()), PLAIN),
    "warped targets, additive": ordinary(lambda model: replace(model, warping=TanhWarping()), ADDITIVE_GP),
}
