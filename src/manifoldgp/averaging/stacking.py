"""Weights of members and groups: stacking of predictive densities, tempered evidence, and what held-out rows say."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp, ndtr


def stacking_weights(
    log_density: np.ndarray, prior_counts: np.ndarray | float = 0.0, iterations: int = 500, short: float = 0.0
) -> np.ndarray:
    """Weights w (S,) that maximise Σ_i log Σ_s w_s p_s(y_i) + Σ_s a_s log w_s, by EM (Yao et al. 2018, with a Dirichlet(1 + a) prior).

    log_density: (S, n), of held-out rows under each of S candidates. prior_counts: a (S,), pseudo-rows that each candidate is sure of.
    short: nats a row by which the maximum may be missed. The slope along w_s is (n + Σ a) times what EM multiplies w_s by, so the largest of these says how much is missed at most.

    >>> stacking_weights(np.log([[0.9, 0.9], [0.1, 0.1]])).round(3)
    array([1., 0.])
    """
    S, n = log_density.shape
    counts = np.broadcast_to(np.asarray(prior_counts, dtype=float), (S,))
    density = np.exp(np.maximum(log_density - log_density.max(0), -500.0))  # of the likeliest candidate's; 1e-217 at least
    weights = np.full(S, 1.0 / S)
    for _ in range(iterations):
        responsible = weights * (density @ (1.0 / (weights @ density)))  # rows that each candidate answers for
        updated = (responsible + counts) / (n + counts.sum())
        moved, enough = np.abs(updated - weights).max(), short > 0.0 and bool((updated <= (1.0 + short) * weights).all())
        weights = updated
        if moved < 1e-7 or enough:
            break
    return weights


def tempered_weights(objective: np.ndarray, temperature: float = 10.0) -> np.ndarray:
    """w_r ∝ exp(−(objective_r − min) / temperature) (R,); starts that are not finite get zero, unless none is finite.

    >>> tempered_weights(np.array([0.0, 10.0, np.inf])).round(3)
    array([0.731, 0.269, 0.   ])
    """
    finite = np.isfinite(objective)
    if not finite.any():
        return np.full(len(objective), 1.0 / len(objective))
    raw = np.where(finite, np.exp(-(np.where(finite, objective, np.inf) - objective[finite].min()) / temperature), 0.0)
    return raw / raw.sum()


def doubt(gain: np.ndarray) -> float:
    """How well gains (n,) of held-out log densities agree with no gain at all: min(1, 2 Φ(−mean / standard error)).

    One where there is none or a loss; near zero where the gain is many standard errors large.

    >>> doubt(np.zeros(10)), doubt(np.array([1.0, 1.1, 0.9, 1.0])) < 1e-6
    (1.0, True)
    """
    error = gain.std() / np.sqrt(len(gain))
    if error == 0.0:
        return 0.0 if gain.mean() > 0 else 1.0
    return float(min(1.0, 2.0 * ndtr(-gain.mean() / error)))


def log_mixture(log_density: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """log Σ_s w_s p_s (n,) for log p (S, n)."""
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(np.log(weights)[:, None] + log_density, axis=0))


def _equal_mixture(log_densities: Sequence[np.ndarray]) -> np.ndarray:
    return log_mixture(np.stack(log_densities), np.full(len(log_densities), 1.0 / len(log_densities)))


VALUED = 1e-4
"""Nats a row to which the held-out log density of a stack is found where it is compared with another."""

PLAIN_GPS = ("plain GP", "rough GP", "additive GP", "searched GP")
"""Groups without learned features: Gaussian processes on the inputs as they are. The best of them is what nobody should be worse than."""


@dataclass(frozen=True)
class HeldOutReport:
    """What the n held-out rows say: log densities (n,) of groups, of the control (plain GPs with variance-scaled copies) and of the stack; PIT (n,) of the stack.
    Rows of exact models are in the order in which the fit learnt them, which follows from their values.

    weights: (G, F) by group and variance factor. mean, observed: the stack's predictive means of the held-out rows and their targets (n,), standardised.
    cut_short: groups whose training on the folds was stopped on its way. ordered: whether rows are in order of time.
    together: (n,) numbers of groups, or of stretches of time, whose rows may err together; None: of rows that know nothing of each other.
    """

    groups: tuple[str, ...]
    variance_factors: tuple[float, ...]
    weights: np.ndarray
    log_density: dict[str, np.ndarray]
    pit: np.ndarray
    mean: np.ndarray | None = None
    observed: np.ndarray | None = None
    cut_short: tuple[str, ...] = ()
    ordered: bool = False
    together: np.ndarray | None = None

    @staticmethod
    def averaged(reports: Sequence[HeldOutReport]) -> HeldOutReport:
        """Of the equal mixture of several stacks, each of which held out the same rows in folds of its own; later ones may lack groups of the first."""
        first = reports[0]
        weights = np.zeros_like(first.weights)
        for report in reports:
            weights[[first.groups.index(name) for name in report.groups]] += report.weights / len(reports)
        log_density = {
            name: _equal_mixture([report.log_density[name] for report in reports if name in report.log_density])
            for name in first.log_density
        }
        pit = np.mean([report.pit for report in reports], axis=0)
        means = [report.mean for report in reports if report.mean is not None]
        return replace(first, weights=weights, pit=pit, log_density=log_density, mean=np.mean(means, axis=0) if means else None)


@dataclass(frozen=True)
class Candidates:
    """Groups, the plain GP first: mixture log densities (G, F, n) and CDFs (G, F, n) of held-out rows."""

    names: list[str]
    log_density: np.ndarray
    cdf: np.ndarray

    def better_than_gp(self, name: str) -> bool:
        """Whether a group alone predicts held-out rows better than any other plain GP alone."""
        mean = dict(zip(self.names, self.log_density[:, 0].mean(1), strict=True))
        return bool(mean[name] > max(value for other, value in mean.items() if other in PLAIN_GPS and other != name))

    def best_plain(self) -> int:
        """The plain GP, by number, that predicts held-out rows best."""
        mean = self.log_density[:, 0].mean(1)
        return max((g for g, name in enumerate(self.names) if name in PLAIN_GPS), key=mean.__getitem__)

    def which(self, names: Collection[str] | None) -> np.ndarray:
        """Which of the groups (G,) have these names; None: all."""
        return np.array([names is None or name in names for name in self.names])

    def only(self, chosen: np.ndarray) -> Candidates:
        """Some of the groups (G,)."""
        names = [name for name, is_chosen in zip(self.names, chosen, strict=True) if is_chosen]
        return Candidates(names, self.log_density[chosen], self.cdf[chosen])

    @staticmethod
    def of(predicted: dict[str, tuple[np.ndarray, np.ndarray]]) -> Candidates:
        """From log densities and CDFs (F, n) by group."""
        return Candidates(list(predicted), *(np.stack(kind) for kind in zip(*predicted.values(), strict=True)))


@dataclass(frozen=True)
class Weighing:
    """How groups are weighed. gp_prior, spread_prior: as in :class:`Stack`."""

    variance_factors: tuple[float, ...]
    gp_prior: float
    spread_prior: float

    def weights(self, candidates: Candidates, among: Collection[str] | None = None) -> tuple[np.ndarray, HeldOutReport]:
        """Stacking weights (G, F), and the report of held-out densities. among: the others' weights are zero."""
        held_out, cdf, N = candidates.log_density, candidates.cdf, candidates.log_density.shape[-1]
        takes_part = candidates.which(among)
        weights = np.zeros(held_out.shape[:2])
        weights[takes_part], stack = self._weighed(candidates.only(takes_part))
        plain = candidates.which(PLAIN_GPS)
        of_plain = held_out[plain].reshape(-1, N)
        control = stacking_weights(of_plain, self.spread_prior * N / len(of_plain))
        log_density = {name: held_out[g, 0] for g, name in enumerate(candidates.names)}
        log_density["control"] = log_mixture(of_plain, control)
        log_density["stack"] = stack
        pit = np.clip((weights[..., None] * cdf).sum((0, 1)), 0.0, 1.0)  # the weights sum to one up to rounding
        return weights, HeldOutReport(tuple(candidates.names), self.variance_factors, weights.copy(), log_density, pit)

    def _weighed(self, candidates: Candidates, short: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Weights (G, F) of all candidates, and log densities (n,) of the stack. short: as in :func:`stacking_weights`."""
        part = candidates.log_density
        G, F, N = part.shape
        table, prior = part.reshape(G * F, N), np.full((G, F), self.spread_prior * N / (G * F))
        unaided, floor = log_mixture(table, stacking_weights(table, prior.ravel(), short=short)), candidates.best_plain()
        prior[floor, 0] += self.gp_prior * N * doubt(unaided - part[floor, 0])
        weights = stacking_weights(table, prior.ravel(), short=short)
        return weights.reshape(G, F), log_mixture(table, weights)

    def value(self, candidates: Candidates, among: Collection[str] | None = None) -> float:
        """Held-out log density of the stack, nats a row, to VALUED."""
        return float(self._weighed(candidates.only(candidates.which(among)), VALUED)[1].mean())

    def needed(self, candidates: Candidates, optional: Collection[str], keep: float) -> list[str]:
        """The groups without those that add little: optional ones go, the one that is missed least first, while the stack loses less than ``keep`` nats a row by all that went."""
        kept, whole = list(candidates.names), self.value(candidates)
        while any(name in optional for name in kept):
            fewer, value = self.without_least_missed(candidates, kept, optional)
            if whole - value >= keep:
                break
            kept = fewer
        return kept

    def without_least_missed(
        self, candidates: Candidates, kept: Sequence[str], optional: Collection[str]
    ) -> tuple[list[str], float]:
        """These groups without the optional one that the stack loses least by, and the held-out log density that is left."""
        fewer = [[other for other in kept if other != name] for name in kept if name in optional]
        return max(((others, self.value(candidates, others)) for others in fewer), key=lambda pair: pair[1])
