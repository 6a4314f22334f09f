"""Groups against each other: stacking weights from held-out rows, and the report of what those rows say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from manifoldgp.averaging.weights import doubt, log_mixture, stacking_weights


@dataclass(frozen=True)
class HeldOutReport:
    """What the n held-out rows say: log densities (n,) of groups, of the control (the plain GP with variance-scaled copies) and of the stack; PIT (n,) of the stack.

    weights: (G, F) by group and variance factor.
    """

    groups: tuple[str, ...]
    variance_factors: tuple[float, ...]
    weights: np.ndarray
    log_density: dict[str, np.ndarray]
    pit: np.ndarray


@dataclass(frozen=True)
class Candidates:
    """Groups, the plain GP first: mixture log densities (G, F, N) and CDFs (G, F, N) of held-out rows; NaN in rows that nobody held out."""

    names: list[str]
    log_density: np.ndarray
    cdf: np.ndarray

    def better_than_gp(self, name: str) -> bool:
        """Whether a group alone predicts held-out rows better than the plain GP alone."""
        mean = np.nanmean(self.log_density[:, 0], axis=1)
        return bool(mean[self.names.index(name)] > mean[0])

    @staticmethod
    def of(predicted: dict[str, tuple[np.ndarray, np.ndarray]]) -> Candidates:
        """From log densities and CDFs (F, N) by group."""
        return Candidates(list(predicted), *(np.stack(kind) for kind in zip(*predicted.values(), strict=True)))


@dataclass(frozen=True)
class Weighing:
    """How groups are weighed. gp_prior, spread_prior: as in :class:`StackSettings`."""

    variance_factors: tuple[float, ...]
    gp_prior: float
    spread_prior: float

    def weights(self, candidates: Candidates, among: Collection[str] | None = None) -> tuple[np.ndarray, HeldOutReport]:
        """Stacking weights (G, F), and the report of held-out densities. among: the others' weights are zero."""
        seen = np.isfinite(candidates.log_density).all((0, 1))  # rows that some fold held out
        held_out, cdf = candidates.log_density[..., seen], candidates.cdf[..., seen]
        takes_part = np.array([among is None or name in among for name in candidates.names])
        part = held_out[takes_part]
        G, F, N = part.shape
        prior = np.full((G, F), self.spread_prior * N / (G * F))
        table = part.reshape(G * F, N)
        unaided = log_mixture(table, stacking_weights(table, prior.ravel()))
        prior[0, 0] += self.gp_prior * N * doubt(unaided - part[0, 0])
        weights = np.zeros(held_out.shape[:2])
        weights[takes_part] = stacking_weights(table, prior.ravel()).reshape(G, F)
        control = stacking_weights(held_out[0], prior[0])
        log_density = {name: held_out[g, 0] for g, name in enumerate(candidates.names)}
        log_density["control"] = log_mixture(held_out[0], control)
        log_density["stack"] = log_mixture(table, weights[takes_part].ravel())
        pit = np.clip((weights[..., None] * cdf).sum((0, 1)), 0.0, 1.0)  # the weights sum to one up to rounding
        return weights, HeldOutReport(tuple(candidates.names), self.variance_factors, weights.copy(), log_density, pit)

    def value(self, candidates: Candidates, among: Collection[str] | None = None) -> float:
        """Held-out log density of the stack, nats a row."""
        return float(self.weights(candidates, among)[1].log_density["stack"].mean())

    def needed(self, candidates: Candidates, optional: Collection[str], keep: float) -> list[str]:
        """The groups without those that add little: optional ones go, the one that is missed least first, while the stack loses less than ``keep`` nats a row by all that went."""
        kept, whole = list(candidates.names), self.value(candidates)
        while left := [name for name in kept if name in optional]:
            without = {name: self.value(candidates, [other for other in kept if other != name]) for name in left}
            least_missed = max(left, key=without.__getitem__)
            if whole - without[least_missed] >= keep:
                break
            kept.remove(least_missed)
        return kept
