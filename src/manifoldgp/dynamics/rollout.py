"""What a rollout says: where the states go, and how far they may be from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from manifoldgp.data import inputs
from manifoldgp.errors import InputError


@dataclass(frozen=True)
class Rollout:
    """States after 0, 1, ..., H steps, of one start or of n; made by ``model.rollout``.

    Parameters
    ----------
    mean : (H + 1, S), or (n, H + 1, S)
        Mean of the states.
    covariance : (H + 1, S, S), or (n, H + 1, S, S)
        Their covariance at each step; zero by method "mean".
    particles : (P, H + 1, S), or (P, n, H + 1, S)
        The trajectories that were drawn; None by other methods.
    actions : (H, A), or (n, H, A)
        Actions, of a policy those at the means.
    state_names
        Names of the states.
    dt
        Seconds of a step, where they are known.
    method
        "closed form", "series", "samples", "particles" or "mean".
    """

    mean: np.ndarray
    covariance: np.ndarray
    particles: np.ndarray | None
    actions: np.ndarray
    state_names: tuple[str, ...]
    dt: float | None
    method: str

    @property
    def std(self) -> np.ndarray:
        """Standard deviations, shaped like the mean."""
        return np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1).clip(0.0))

    @property
    def horizon(self) -> int:
        """Steps H."""
        return self.mean.shape[-2] - 1

    @property
    def time(self) -> np.ndarray:
        """Seconds (H + 1,) since the start, or steps where seconds are not known."""
        return np.arange(self.horizon + 1) * (1.0 if self.dt is None else self.dt)

    def quantiles(self, q: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of each state, (len(q), ...) shaped like the mean: of the particles, or of a Gaussian."""
        levels = inputs.quantile_levels(q)
        if self.particles is not None:
            return np.quantile(self.particles, levels, axis=0)
        return self.mean + ndtri(levels).reshape(-1, *[1] * self.mean.ndim) * self.std

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of central intervals, each shaped like the mean."""
        if not 0 < level < 1:
            raise InputError(f"level must be between 0 and 1; got {level!r}.")
        lower, upper = self.quantiles([(1 - level) / 2, (1 + level) / 2])
        return lower, upper

    def __len__(self) -> int:
        return self.horizon + 1
