"""What an experiment is worth: how much it may improve on the best so far, or how much it tells about the region of the data."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from manifoldgp.suggestions.space import training_inputs

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
    from manifoldgp.inference.posterior import Conditioned

_CHUNK = 256
_REFERENCE, _NEIGHBOURS = 200, 5
"""Points that stand for the region of the data, and neighbours of a row between which and the row one lies."""

_SAMPLES = 128

_SMOOTH = 1e-6
"""Below no improvement at all, in units of the target's standard deviation, a smooth one goes on decreasing."""

_SAME, _NOTHING = 1e-9, math.log(np.finfo(np.float64).tiny)
"""How far apart the numbers of one experiment may be, relative to them; the log of no improvement, which JSON can hold."""


class Improvement:
    """log of what an experiment is expected to add to the improvement on ``best``, beyond the experiments that are already chosen: log E max(0, f(x) - max(best, f(chosen))).

    Greedily chosen in this way, a batch has nearly the largest expected improvement there is. The logarithm of the improvement of the batch as a whole (BoTorch's
    qLogEI) would not do: beside a good first experiment it no longer tells what others add. An experiment that is already chosen adds nothing, and comes last: others that
    are surely a little worse would otherwise come behind it, and a table with few values would get the same row several times. sign: 1 to maximise, -1 to minimise.
    """

    def __init__(self, model: ManifoldGPRegressor, output: int, sign: float, best: float, seed: int) -> None:
        from botorch.sampling.normal import SobolQMCNormalSampler

        from manifoldgp.integrations.botorch import ManifoldGPModel

        self._model, self._scale = ManifoldGPModel(model, output=output), model.ensembles_[output].scale
        self._sampler = SobolQMCNormalSampler(torch.Size([_SAMPLES]), seed=seed)
        self._sign, self._best = sign, sign * best

    def __call__(self, X: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """The worth (n,) of experiments X (n, D), given those that are chosen (k, D)."""
        with torch.no_grad():
            found = torch.cat([self._of(part, torch.tensor(chosen)) for part in torch.tensor(X).split(_CHUNK)]).cpu().numpy()
        again = (np.abs(X[:, None, :] - chosen) <= _SAME * np.abs(chosen)).all(-1).any(-1)
        return np.where(again, _NOTHING, found)

    def _of(self, X: Tensor, chosen: Tensor) -> Tensor:
        from botorch.utils.safe_math import log_fatplus, logmeanexp
        from linear_operator.utils.warnings import NumericalWarning

        together = torch.cat([X[:, None], chosen.expand(len(X), *chosen.shape)], 1)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", NumericalWarning
            )  # beside itself an experiment has a singular covariance, as it should
            f = self._sign * self._sampler(self._model.posterior(together))[..., 0]
        mark = f[..., 1:].amax(-1).clamp_min(self._best) if len(chosen) else self._best
        added = log_fatplus((f[..., 0] - mark) / self._scale, tau=_SMOOTH)  # tells what is nearly as good from what is not, too
        return logmeanexp(added, dim=0) + math.log(self._scale)


class Knowledge:
    """Expected reduction of the variance of f, averaged over the region of the data: Σ_s w_s mean_r C_s(r, x)² / (C_s(x, x) + σ_s²), in the units of y².

    C_s is the posterior covariance of member s, given the experiments that are already chosen; it does not depend on what they will give. Exact for given parameters.
    w_s is the member's weight, or its average share where weights differ from point to point: what is learned counts for the whole region.
    """

    def __init__(self, model: ManifoldGPRegressor, output: int, reference: np.ndarray) -> None:
        self._model, self._ensemble = model, model.ensembles_[output]
        self._reference = reference

    def __call__(self, X: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """The worth (n,) of experiments X (n, D), given those that are chosen (k, D)."""
        return np.concatenate([self._of(part, chosen) for part in np.array_split(X, max(1, -(-len(X) // _CHUNK)))])

    def _of(self, X: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        U = torch.as_tensor(self._model.x_scaler_.apply(np.concatenate([self._reference, chosen, X])))
        U = U.to(self._ensemble.device)
        total = torch.zeros(len(X), dtype=torch.float64, device=U.device)
        factors = torch.tensor(self._ensemble.variance_factors, dtype=torch.float64, device=U.device)
        with torch.no_grad():
            for block, log_weights in zip(self._ensemble.blocks, self._ensemble.log_weights, strict=True):
                weights = (log_weights.exp() * factors[:, None]).sum(0)
                for member in range(block.members):  # one at a time: joint covariances of all members would not fit
                    if float(weights[member]) > 1e-6:
                        total += weights[member] * _reduction(
                            block.only(torch.tensor([member])), U, len(self._reference), len(chosen)
                        )
        return (self._ensemble.scale**2 * total).cpu().numpy()


def _reduction(posterior: Conditioned, U: Tensor, references: int, chosen: int) -> Tensor:
    """mean_r C(r, x)² / (C(x, x) + σ²) of one member for the last points of U: first come the references, then those that are chosen."""
    C, noise = posterior.covariance(U)[1][0], posterior.noise_variance()[0]
    if chosen:
        taken = slice(references, references + chosen)
        L = torch.linalg.cholesky(
            C[taken, taken] + (noise + 1e-9 * C.diagonal().mean()) * torch.eye(chosen, dtype=C.dtype, device=C.device)
        )
        V = torch.linalg.solve_triangular(L, C[taken], upper=False)
        C = C - V.T @ V
    new = slice(references + chosen, None)
    return (C[:references, new] ** 2).mean(0) / (C.diagonal()[new].clamp_min(0.0) + noise).clamp_min(1e-300)


def region(model: ManifoldGPRegressor, inside: np.ndarray, seed: int) -> np.ndarray:
    """Points (n, D) that stand for the region of the data: each between a training row and one of its neighbours, at most 200.

    Not the rows themselves: where there is little noise they are known, and the gaps between them are what is to be learned. Columns with two values, such as those of
    categories, are those of the row. Rows outside the bounds are left out where enough others remain.
    """
    rng, X = np.random.default_rng(seed), training_inputs(model)
    X = X[inside] if inside.sum() >= 20 else X
    rows = rng.integers(len(X), size=_REFERENCE)
    U = model.x_scaler_.apply(X)
    count = min(_NEIGHBOURS + 1, len(X))
    near = NearestNeighbors(n_neighbors=count).fit(U).kneighbors(U[rows], return_distance=False)
    other = near[np.arange(_REFERENCE), rng.integers(count, size=_REFERENCE)]
    share = rng.uniform(size=(_REFERENCE, 1)) * (np.array([len(np.unique(column)) for column in X.T]) > 2)
    return X[rows] + share * (X[other] - X[rows])
