"""How a model of a series goes on: windows of its last values, iterated on its own predictions, by draws of functions or by matched moments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.utils import check_random_state

from manifoldgp.data import inputs
from manifoldgp.data.dates import pandas
from manifoldgp.errors import InputError
from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor
from manifoldgp.estimators.units import on_device
from manifoldgp.inference.uncertain_inputs import MATCHED, UncertainInputs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from pandas import DataFrame, Index

    from manifoldgp.data.inputs import RandomState


def model_that_goes_on(regressor: object, what: str) -> ManifoldGPRegressor:
    """A copy of a regressor, not yet fitted, that can go on from its own predictions; what: who asks, for the refusal of others."""
    if not isinstance(regressor, ManifoldGPRegressor):
        raise InputError(
            f"{what} draws functions of its model, which {type(regressor).__name__} cannot give. Use ManifoldGPRegressor, GPRegressor or KernelSearch."
        )
    if regressor.target_warping is not None:
        raise InputError(
            f"{what} adds noise to what it predicts, which target_warping bends. Leave it out; if values are positive, model log(y)."
        )
    copied: ManifoldGPRegressor = clone(regressor)  # pyright: ignore[reportAssignmentType]
    return copied


@dataclass(frozen=True)
class Windows:
    """What the model sees when it predicts the next value: earlier values, or their changes, and what is known beforehand.

    Parameters
    ----------
    lags
        Which earlier values, 1 for the last.
    differences
        Whether changes from one value to the next are seen instead of values, so that a trend goes on beyond all values seen so far.
    period
        Steps after which the sine and cosine that are seen too come round; None for none.
    clock
        Whether the number of the step is seen.
    """

    lags: tuple[int, ...]
    differences: bool
    period: float | None = None
    clock: bool = False

    @property
    def length(self) -> int:
        """How many values a window needs."""
        return max(self.lags) + self.differences

    def matrix(self, width: int) -> np.ndarray:
        """B (length O, lags O): inputs = window B, for a window of the last values, the newest first, with the O series side by side."""
        B = np.zeros((self.length, len(self.lags)))
        for column, lag in enumerate(self.lags):
            B[lag - 1, column] = 1.0
            if self.differences:
                B[lag, column] = -1.0
        return np.kron(B, np.eye(width))

    def known(self, steps: np.ndarray, X: np.ndarray | None) -> np.ndarray:
        """Inputs (n, ·) at the steps with these numbers that are known beforehand: time and the given inputs X (n, D)."""
        turn = [] if self.period is None else [2 * np.pi * steps / self.period]
        columns = [np.stack([np.cos(t), np.sin(t)], 1) for t in turn] + ([steps[:, None].astype(float)] if self.clock else [])
        return np.concatenate([np.zeros((len(steps), 0)), *columns, *([] if X is None else [X])], 1)

    def rows(self, values: np.ndarray, X: np.ndarray | None, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and changes to predict at every step from number ``first`` on that has a whole window, of values (N, O); rows with gaps are left out."""
        steps = np.arange(max(first, self.length), len(values))
        past = values[steps[:, None] - 1 - np.arange(self.length)].reshape(len(steps), self.length * values.shape[1])
        rows = np.concatenate([past @ self.matrix(values.shape[1]), self.known(steps, None if X is None else X[steps])], 1)
        change = values[steps] - values[steps - 1]
        whole = np.isfinite(past).all(1) & np.isfinite(rows).all(1) & np.isfinite(change).all(1)
        return rows[whole], change[whole]


@dataclass(frozen=True)
class Forecast:
    """What comes next, by ``forecaster.forecast``.

    Parameters
    ----------
    mean, std : (H,) or (H, O)
        Of the next H values.
    times : (H,)
        Their times, as the series had them.
    method
        "draws" or "moments".
    draws : (S, H) or (S, H, O)
        Whole futures, where the method was "draws"; otherwise None.
    covariance : (H, H) or (H O, H O)
        Of all values, where the method was "moments"; otherwise None.
    names
        Of the series, where they have names.

    Examples
    --------
    >>> f = Forecast(np.zeros(2), np.ones(2), np.array([5.0, 6.0]), "moments")
    >>> f.interval(0.95).round(2).tolist()
    [[-1.96, 1.96], [-1.96, 1.96]]
    """

    mean: np.ndarray
    std: np.ndarray
    times: Index | np.ndarray
    method: str
    draws: np.ndarray | None = None
    covariance: np.ndarray | None = None
    names: tuple[str, ...] | None = None

    def quantiles(self, q: ArrayLike = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles (H, len(q)) or (H, len(q), O) of each value: of the draws, or of Gaussians with these moments."""
        levels = inputs.quantile_levels(q)
        if self.draws is not None:
            return np.moveaxis(np.quantile(self.draws, levels, axis=0), 0, 1)
        return np.stack([self.mean + self.std * ndtri(level) for level in levels], 1)

    def interval(self, level: float = 0.95) -> np.ndarray:
        """Central intervals (H, 2) or (H, 2, O) that should hold a value with probability ``level``, each on its own."""
        share = float(inputs.quantile_levels(level)[0])
        return self.quantiles(((1 - share) / 2, (1 + share) / 2))

    def to_frame(self, level: float = 0.95) -> DataFrame:
        """A pandas table over the times: mean, std, lower and upper, of several series with the name in front."""
        several, bounds = self.mean.ndim == 2, self.interval(level)
        parts = {"mean": self.mean, "std": self.std, "lower": bounds[:, 0], "upper": bounds[:, 1]}
        if not several:
            return pandas().DataFrame(parts, index=self.times)
        names = self.names or tuple(f"y{o}" for o in range(self.mean.shape[1]))
        columns = {f"{name} {part}": A[:, o] for o, name in enumerate(names) for part, A in parts.items()}
        return pandas().DataFrame(columns, index=self.times)


def by_draws(
    model: ManifoldGPRegressor, windows: Windows, past: np.ndarray, known: np.ndarray, draws: int, random_state: RandomState
) -> np.ndarray:
    """Futures (S, H, O) after a window past (length, O), newest first: each is one function of the posterior, iterated on its own values with noise."""
    functions, width = model.sample_functions(draws, random_state), past.shape[1]
    noise = functions.noise_std().reshape(draws, width)
    generator = check_random_state(random_state)
    B, window, futures = windows.matrix(width), np.repeat(past.reshape(1, -1), draws, 0), np.empty((draws, len(known), width))
    with torch.no_grad():
        for h, row in enumerate(known):
            Z = np.concatenate([window @ B, np.broadcast_to(row, (draws, len(row)))], 1)
            change = functions(torch.as_tensor(Z[:, None, :])).cpu().numpy().reshape(draws, width)
            futures[:, h] = window[:, :width] + change + noise * generator.standard_normal((draws, width))
            window = np.concatenate([futures[:, h], window[:, :-width]], 1)
    return futures


def by_moments(
    model: ManifoldGPRegressor, windows: Windows, past: np.ndarray, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (H O,) and covariance (H O, H O) of the values after a window past (length, O), newest first: a Gaussian is handed on from step to step.

    With x the inputs of a step, f the change there and z all values before, cov(z, f) = cov(z, x) E[df/dx], and E[df/dx] = cov(x)⁺ cov(x, f).
    """
    H, width = len(known), past.shape[1]
    length, B, moments = windows.length, windows.matrix(width), _moments(model)
    # All values side by side, in order of time: the window, which is certain, and what follows.
    mean, C = np.concatenate([past[::-1].ravel(), np.zeros(H * width)]), np.zeros(((length + H) * width,) * 2)
    for h, row in enumerate(known):
        new = slice((length + h) * width, (length + h + 1) * width)
        last, window = slice(new.start - width, new.start), _newest_first(new.start, length, width)
        Sx, across = B.T @ C[np.ix_(window, window)] @ B, C[:, window] @ B  # cov(x), and cov(z, x)
        change, spread, covariance = moments(np.concatenate([mean[window] @ B, row]), Sx)
        moved = across @ (np.linalg.pinv(Sx, rcond=1e-12, hermitian=True) @ covariance)  # cov(z, f)
        mean[new] = mean[last] + change
        C[:, new] = C[:, last] + moved
        C[new, :] = C[:, new].T
        C[new, new] = C[last, last] + moved[last] + moved[last].T + spread
    return mean[length * width :], C[length * width :, length * width :]


def _moments(model: ManifoldGPRegressor) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """From inputs x (P,), the first of them with covariance Sx, to mean (O,) and covariance (O, O) of what follows, and the covariance of both (·, O).

    In closed form where there is one, also through circles (HajiGhassemi and Deisenroth 2014); by samples elsewhere.
    """
    ready, scaler = UncertainInputs(model.ensembles_, MATCHED), model.x_scaler_
    ready = ready if ready.by_hand else UncertainInputs(model.ensembles_)

    def at(x: np.ndarray, Sx: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scale = scaler.scale[: len(Sx)]
        Sigma = np.zeros((1, len(x), len(x)))
        Sigma[0, : len(Sx), : len(Sx)] = 0.5 * (Sx + Sx.T) / np.outer(scale, scale)
        with torch.no_grad():
            found = ready(on_device(model, scaler.apply(x[None])), on_device(model, Sigma))
        mean, across, spread = (A[0].cpu().numpy() for A in (found.mean, found.input_covariance, found.output_covariance))
        return mean, spread, across[: len(Sx)] * scale[:, None]

    return at


def _newest_first(end: int, length: int, width: int) -> np.ndarray:
    """Places of the last values before ``end``, the newest first, each with its O series in order."""
    return np.arange(end - length * width, end).reshape(length, width)[::-1].ravel()
