"""Weights of members and groups: stacking of predictive densities, tempered evidence, and what held-out rows say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import logsumexp, ndtr

from manifoldgp.averaging.sure_members import Followed
from manifoldgp.chance.differences import paired
from manifoldgp.chance.interval_checks import IntervalCheck
from manifoldgp.training.trained import Earlier

_LEAST_START = 1e-9
"""What a weight is at least where EM begins: one that is zero stays so."""

_LOOKED_EVERY = 4
"""Steps of EM after which it is asked how much of the maximum is missed: asking takes half as long as a step."""


def stacking_weights(
    log_density: np.ndarray,
    prior_counts: np.ndarray | float = 0.0,
    iterations: int = 500,
    short: float = 0.0,
    counts: np.ndarray | None = None,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Weights w (S,) that maximise Σ_i log Σ_s w_s p_s(y_i) + Σ_s a_s log w_s, by EM (Yao et al. 2018, with a Dirichlet(1 + a) prior).

    log_density: (S, n), of held-out rows under each of S candidates. prior_counts: a (S,), pseudo-rows that each candidate is sure of.
    short: nats a row by which the maximum may be missed. The slope along w_s is (n + Σ a) times what EM multiplies w_s by, so the largest of these says how much is missed at most.
    start: weights (S,) to begin at, none of them zero; equal ones by default.
    counts: log g (S, n), where candidate s counts w_s g_si at row i: then Σ_i log (Σ_s w_s g_si p_si / Σ_s w_s g_si) is maximised, with pseudo-rows at which candidates count what
    they do on average. EM's step sets the average share of a candidate instead of its weight, which is the same for equal g.

    >>> stacking_weights(np.log([[0.9, 0.9], [0.1, 0.1]])).round(3)
    array([1., 0.])
    """
    S, n = log_density.shape
    prior = np.broadcast_to(np.asarray(prior_counts, dtype=float), (S,))
    density = np.exp(np.maximum(log_density - log_density.max(0), -500.0))  # of the likeliest candidate's; 1e-217 at least
    if counts is not None:
        return _weights_by_counts(density, np.exp(np.maximum(counts - counts.max(0), -500.0)), prior, iterations)
    weights, rows = np.full(S, 1.0 / S) if start is None else start, n + prior.sum()
    for step in range(iterations):
        responsible = weights * (density @ (1.0 / (weights @ density)))  # rows that each candidate answers for
        updated = (responsible + prior) / rows
        if short:
            found = step % _LOOKED_EVERY == 0 and bool((updated <= (1.0 + short) * weights).all())
        else:
            found = np.abs(updated - weights).max() < 1e-7
        weights = updated
        if found:
            break
    return weights


def _weights_by_counts(density: np.ndarray, counts: np.ndarray, prior: np.ndarray, iterations: int) -> np.ndarray:
    """The same where candidates count g (S, n) at the rows: w_s such that the average of w_s g_si / Σ_t w_t g_ti is what EM finds."""
    (S, n), joint = density.shape, density * counts
    weights = np.full(S, 1.0 / S)
    for _ in range(iterations):
        responsible = weights * (joint @ (1.0 / (weights @ joint)))
        updated = (responsible + prior) / (n + prior.sum())
        times = np.maximum(counts @ (1.0 / (weights @ counts)) / n, 1e-300)  # a weight, and the average share that comes of it
        moved = np.abs(updated - weights * times).max()
        weights = updated / times
        weights /= weights.sum()
        if moved < 1e-7:
            break
    return weights


def weights_at(weights: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """w_s g_si / Σ_t w_t g_ti (S, n), for weights w (S,) and log g (S, n)."""
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)[:, None] + counts
    return np.exp(log_weights - logsumexp(log_weights, axis=0))


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
    """log Σ_s w_s p_s (n,) for log p (S, n) and weights (S,), or (S, n) of their own at every row."""
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(np.log(weights).reshape(len(weights), -1) + log_density, axis=0))


def _equal_mixture(log_densities: Sequence[np.ndarray]) -> np.ndarray:
    return log_mixture(np.stack(log_densities), np.full(len(log_densities), 1.0 / len(log_densities)))


VALUED = 1e-4
"""Nats a row to which the held-out log density of a stack is found where it is compared with another."""

MOST_FOLLOWING = 0.9
"""Share of a stack in which weights may follow how sure members are, at most: held-out rows lie among others, and say nothing of a gap between rows, where the surest may be wrong. So no point is ever
less likely than a tenth of what it is with weights that are the same everywhere."""

PLAIN_GPS = ("plain GP", "rough GP", "additive GP", "searched GP")
"""Groups without learned features: Gaussian processes on the inputs as they are. The best of them is what nobody should be worse than."""

CONSTANT = "constant weights"
"""What a stack whose weights follow certainty would be without: the log densities of a report have it under this name."""


@dataclass(frozen=True)
class HeldOutReport:
    """What the n held-out rows say: log densities (n,) of groups, of the control (plain GPs with variance-scaled copies), of the stack, and of one with CONSTANT weights; PIT (n,) of the stack.
    Rows of exact models are in the order in which the fit learnt them, which follows from their values.

    weights: (G, F) by group and variance factor. mean, observed: the stack's predictive means of the held-out rows and their targets (n,), standardised.
    cut_short: groups whose training on the folds was stopped on its way. left_out: groups beside these, which a part of the held-out rows did not miss. ordered: whether rows are in order of time.
    together: (n,) numbers of groups, or of stretches of time, whose rows may err together; None: of rows that know nothing of each other.
    following: the share of the stack in which weights follow how sure members are, and exponent: that of their variances by which they do.
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
    exponent: float = 0.0
    following: float = 0.0
    left_out: tuple[str, ...] = ()

    @cached_property
    def intervals(self) -> IntervalCheck:
        """Whether intervals hold on these rows."""
        return IntervalCheck.of(self.pit, self.mean, self.together, self.ordered)

    def mixed_with(
        self, log_density: np.ndarray, cdf: np.ndarray, mean: np.ndarray, exponent: float, share: float
    ) -> HeldOutReport:
        """Of a stack in a share of which weights follow variances; log densities, CDFs and means (n,) are those of this share. The report itself where the share is nothing."""
        if not share:
            return self
        assert self.mean is not None
        weights, constant = np.array([1.0 - share, share]), self.log_density["stack"]
        density = {**self.log_density, "stack": log_mixture(np.stack([constant, log_density]), weights), CONSTANT: constant}
        pit = np.clip(weights @ [self.pit, cdf], 0.0, 1.0)
        return replace(self, pit=pit, log_density=density, mean=weights @ [self.mean, mean], exponent=exponent, following=share)

    def with_constant_weights(self) -> np.ndarray:
        """Log densities (n,) of the stack if its weights followed nothing."""
        return self.log_density.get(CONSTANT, self.log_density["stack"])

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
        if any(CONSTANT in report.log_density for report in reports):
            log_density[CONSTANT] = _equal_mixture([report.with_constant_weights() for report in reports])
        pit = np.mean([report.pit for report in reports], axis=0)
        means = [report.mean for report in reports if report.mean is not None]
        mean, following = np.mean(means, axis=0) if means else None, float(np.mean([report.following for report in reports]))
        found = replace(first, weights=weights, pit=pit, log_density=log_density, mean=mean, following=following)
        return replace(found, exponent=max(report.exponent for report in reports))  # zero where a stack does not follow


@dataclass(frozen=True)
class Candidates:
    """Groups, the plain GP first: mixture log densities (G, F, n) and CDFs (G, F, n) of held-out rows.

    counts: (G, n) what each group counts at a row, as a logarithm.
    """

    names: list[str]
    log_density: np.ndarray
    cdf: np.ndarray
    counts: np.ndarray

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
        return Candidates(names, self.log_density[chosen], self.cdf[chosen], self.counts[chosen])

    @staticmethod
    def of(predicted: dict[str, Followed]) -> Candidates:
        """From the mixtures of groups."""
        each = [(one.log_density, one.cdf, one.counts) for one in predicted.values()]
        log_density, cdf, counts = (np.stack(part) for part in zip(*each, strict=True))
        return Candidates(list(predicted), log_density, cdf, counts)


@dataclass(frozen=True)
class Follow:
    """By which exponent of their variances members are to count, and in which share of a stack; None: held-out rows decide, which have to gain ``least`` nats each."""

    exponent: float
    share: float | None
    least: float

    @staticmethod
    def as_before(certainty: float, keep: float, earlier: Earlier | None) -> Follow | None:
        """As the settings of a stack say, or as an earlier fit did, whose members predict beside the new ones; None: not at all."""
        if earlier is not None:
            return Follow(earlier.exponent, earlier.following, 0.0) if earlier.following else None
        return Follow(certainty, None, 0.5 * keep) if certainty else None


@dataclass(frozen=True)
class FollowingWeights:
    """Log variances (G,) at which groups count as their weights say, and what held-out rows say of a stack in a share of which weights follow variances."""

    usual: np.ndarray
    report: HeldOutReport


Means = Callable[[np.ndarray, float], np.ndarray]
"""What a stack expects of held-out rows (n,) in which groups count so much there (G, F, n), and members inside them by this exponent of their variances."""


def nearest_share(report: HeldOutReport, mean: np.ndarray) -> float:
    """The share a of other means (n,) with which (1 − a) m + a m′ is nearest to the held-out targets in the square, for the report's means m.

    A density forgives a stack that is sure and wrong of a few rows; its mean forgives nothing.
    """
    assert report.mean is not None
    assert report.observed is not None
    towards = mean - report.mean
    size = float(towards @ towards)
    return min(max(float((report.observed - report.mean) @ towards) / size, 0.0), 1.0) if size else 1.0


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
        unaided, floor = stacking_weights(table, prior.ravel(), short=short), candidates.best_plain()
        prior[floor, 0] += self.gp_prior * N * doubt(log_mixture(table, unaided) - part[floor, 0])
        weights = stacking_weights(table, prior.ravel(), short=short, start=np.maximum(unaided, _LEAST_START) if short else None)
        return weights.reshape(G, F), log_mixture(table, weights)

    def following(
        self,
        candidates: Candidates,
        weights: np.ndarray,
        report: HeldOutReport,
        asked: Follow,
        units: np.ndarray,
        means: Means,
    ) -> FollowingWeights:
        """How a stack with these weights (G, F) and this report follows what groups count at a row. units (n,): rows that may err together."""
        part, some = candidates.log_density, np.flatnonzero(weights.sum(1) > 0.0)
        of_groups = weights[some].sum(1)
        split = weights[some] / of_groups[:, None]  # variance factors count in a group as they do without
        own, counts = (np.stack([log_mixture(part[g], w) for g, w in zip(some, split, strict=True)]), candidates.counts[some])
        raw = stacking_weights(own, self.spread_prior * part.shape[-1] / len(some), counts=counts)
        at_rows = weights_at(raw, counts)
        # The groups of a whole stack count one at a usual row, so that stacks of several deals do the same there.
        log_raw = np.log(np.maximum(raw, 1e-300))
        typical = float(np.asarray(logsumexp(log_raw[:, None] + counts, axis=0)).mean())
        usual, everywhere = np.zeros(len(part)), np.zeros(part.shape)
        usual[some] = (log_raw - np.log(of_groups) - typical) / asked.exponent
        everywhere[some] = split[..., None] * at_rows[:, None]
        both = np.stack([report.log_density["stack"], log_mixture(own, at_rows)])
        share = self._share_of_following(both, asked, units)
        if not share:
            return FollowingWeights(usual, report)
        mean = means(everywhere, asked.exponent)
        if asked.share is None:
            share = min(share, nearest_share(report, mean))
            share = share if self._clearly_likelier(both, share, asked, units) else 0.0
        return FollowingWeights(
            usual, report.mixed_with(both[1], (everywhere * candidates.cdf).sum((0, 1)), mean, asked.exponent, share)
        )

    def _share_of_following(self, both: np.ndarray, asked: Follow, units: np.ndarray) -> float:
        """What the second of two stacks (2, n), whose weights follow, counts beside the first; nothing where held-out rows are not clearly likelier by it."""
        if asked.share is not None:
            return asked.share
        share = min(MOST_FOLLOWING, float(stacking_weights(both, 0.5 * self.spread_prior * both.shape[1])[1]))
        return share if self._clearly_likelier(both, share, asked, units) else 0.0

    @staticmethod
    def _clearly_likelier(both: np.ndarray, share: float, asked: Follow, units: np.ndarray) -> bool:
        """Whether held-out rows are clearly likelier with this share of the second of two stacks (2, n)."""
        gain = paired(log_mixture(both, np.array([1.0 - share, share])) - both[0], units)
        return gain.clear and gain.value > asked.least

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
