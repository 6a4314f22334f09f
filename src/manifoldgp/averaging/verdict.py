"""Did the features help? What held-out rows say about an average, in words and numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldgp._system.plain_text import counted, digits, explained_share, verb
from manifoldgp.averaging.averages import SamplingReport
from manifoldgp.averaging.folds import SHORT_STRETCH
from manifoldgp.averaging.kinds import PLAIN
from manifoldgp.averaging.stacking import PLAIN_GPS, HeldOutReport
from manifoldgp.chance.differences import named_groups, paired, units_of
from manifoldgp.chance.interval_checks import FEWEST_ROWS, coverage

_LITTLE = 0.02
"""Nats a row: a smaller difference is called none."""

_NO_SHARE = 0.005
"""A smaller weight is none after rounding to percents."""


def held_out_numbers(report: HeldOutReport, scale: float) -> dict[str, Any]:
    """Weights, held-out negative log densities (units of y, nats a row), errors and calibration, by name. scale: sd of y."""
    share = report.weights.sum(1)
    numbers: dict[str, Any] = {f"weight of {name}": float(w) for name, w in zip(report.groups, share, strict=True)}
    wide = np.array(report.variance_factors) > 1.0
    numbers["weight of widened copies"] = float(report.weights[:, wide].sum())
    if report.following:
        numbers["share in which members count by how sure they are"] = report.following
    for name, log_density in report.log_density.items():
        numbers[f"held-out negative log density, {name}"] = float(-log_density.mean()) + math.log(scale)
    if report.mean is not None and report.observed is not None:
        numbers |= {f"held-out {name}": value for name, value in errors_of(report.observed, report.mean, scale).items()}
    for level, share_inside in coverage(report.pit).items():
        numbers[f"held-out coverage of {100 * level:g} % intervals"] = share_inside
    numbers["held-out PIT histogram (10 bins)"] = np.histogram(report.pit, 10, (0.0, 1.0))[0] / max(len(report.pit), 1)
    return numbers


def errors_of(observed: np.ndarray, mean: np.ndarray, scale: float = 1.0) -> dict[str, float]:
    """RMSE, MAE and R² of predictions; scale: the unit of y in which they are told.

    >>> errors_of(np.array([0.0, 2.0]), np.array([1.0, 2.0]))
    {'RMSE': 0.7071067811865476, 'MAE': 0.5, 'R²': 0.5}
    """
    error = observed - mean
    square, spread = float(np.mean(error**2)), float(observed.var())
    found = {"RMSE": scale * square**0.5, "MAE": scale * float(np.abs(error).mean())}
    return found | ({"R²": 1.0 - square / spread} if spread > 0 else {})


def held_out_remarks(report: HeldOutReport, column: str | None = None) -> list[str]:
    """Sentences: who carries the weight, what the features add beyond calibration, and whether intervals can be trusted.

    What was not trained to its end is not judged. column: the name of that with the labels of groups.
    """
    share = dict(zip(report.groups, report.weights.sum(1), strict=True))
    density = {name: float(-value.mean()) for name, value in report.log_density.items()}
    best_plain = min((name for name in report.groups if name in PLAIN_GPS), key=density.__getitem__)
    plain, control, stack = (density[name] for name in (best_plain, "control", "stack"))
    the_plain = "the plain GP" if best_plain == PLAIN else f"the best plain GP ({best_plain})"
    learned = [name for name in report.groups if name not in PLAIN_GPS]
    if not (learned or set(report.left_out) - set(PLAIN_GPS)):
        plain_ones = "the plain GP" if len(report.groups) == 1 else "plain GPs"
        return [f"Training was stopped before any features could be judged: the average holds {plain_ones} only."]
    stopped = [name for name in report.cut_short if name in learned]
    if stopped:
        return [_untried_in_words(stopped, sum(share[name] for name in report.groups if name in PLAIN_GPS))]
    certainty = report.intervals.remarks(column) + _short_stretch(report)
    if len(report.pit) < FEWEST_ROWS:
        return [_too_few_in_words(len(report.pit), sum(share[name] for name in report.groups if name in PLAIN_GPS)), *certainty]
    gains = _Gains(
        plain, min(control, plain), float(-report.with_constant_weights().mean()), stack,
        features=any(share[name] >= _NO_SHARE for name in learned), follows=report.following > 0.0,
    )  # fmt: skip
    remarks = [_weights_in_words(share, gains.by_features), _gain_in_words(the_plain, gains)]
    if report.following:
        power = "" if report.exponent == 1.0 else f" to the power of {report.exponent:g}"
        remarks.append(
            f"In {100 * report.following:.0f} % of the prediction members count more where they are surer (by their variances there{power})."
        )
    best = min(learned, key=density.__getitem__, default=best_plain)
    if density[best] > plain + _LITTLE and _clear(report.log_density[best_plain] - report.log_density[best], report.together):
        remarks.append(
            f"Every group of mGPs alone predicts held-out rows worse than {the_plain} (best: {best}, by {density[best] - plain:.2f} nats a "
            "row): a single mGP would overfit here; the mixture does not."
        )
    return remarks + certainty


def _clear(differences: np.ndarray, together: np.ndarray | None) -> bool:
    """Whether chance hardly explains the mean of differences (n,), some of whose rows belong together."""
    return paired(differences, units_of(len(differences), together, False)).clear


def _short_stretch(report: HeldOutReport) -> list[str]:
    """A warning where rows are a short stretch of time."""
    if not report.ordered or len(report.pit) >= SHORT_STRETCH:
        return []
    return [
        f"These {len(report.pit)} rows are a short stretch of time, and what comes after it may be unlike all of them: no held-out row can tell. Widened copies were "
        "weighed by predicting each half from the other, but intervals beyond the last row may hold fewer values than they say. More rows help, or more recordings, told apart by groups=."
    ]


def errors_in_words(report: HeldOutReport, scale: float, unit: str = "") -> list[str]:
    """The error on held-out rows, in the units of y; scale: sd of y. unit: what stands behind its numbers."""
    if report.mean is None or report.observed is None:
        return []
    together = None if report.together is None else named_groups(report.ordered)
    return [said_errors(errors_of(report.observed, report.mean, scale), len(report.mean), together, unit)]


def said_errors(found: Mapping[str, float], rows: int, together: str | None, unit: str, of: str = "") -> str:
    """Errors on held-out rows in a sentence. together: what was held out whole. of: whose errors they are."""
    explained = f", R² {explained_share(found['R²'])}" if "R²" in found else ""
    explained += ": no better than always predicting the mean" if found.get("R²", 1.0) <= 0.0 else ""
    whole = "" if together is None else f", whole {together} at a time,"
    return f"On {rows:,} held-out rows{whole} the typical error (RMSE){of} is {digits(found['RMSE'], 3)}{unit}, the mean error (MAE) {digits(found['MAE'], 3)}{unit}{explained}."


def sampling_numbers(report: SamplingReport) -> dict[str, Any]:
    """R-hat, effective draws and divergences of full Bayes."""
    return {
        "worst R-hat": report.worst_rhat,
        "smallest effective number of draws": report.smallest_ess,
        "divergent draws": report.divergent,
    }


def sampling_remarks(report: SamplingReport) -> list[str]:
    """A sentence if the chains mix badly, none if they mix well."""
    if report.worst_rhat <= 1.05 and report.smallest_ess >= 50 and report.divergent <= 0.05:
        return []
    return [
        f"The NUTS chains mix badly: R-hat {report.worst_rhat:.2f} (good: below 1.05), effective draws {report.smallest_ess:.0f} (good: above 50), "
        f"divergent {100 * report.divergent:.0f} % (good: below 5 %). Networks have many equivalent optima; compare with averaging='stack'."
    ]


def _untried_in_words(stopped: list[str], plain: float) -> str:
    """Of a stack whose groups were stopped on the folds."""
    return (
        f"Training was stopped on the folds, before {' and '.join(stopped)} members were trained to their end: whether features help here is not known. "
        f"The plain GP carries {100 * plain:.0f} % of the weight, whatever its kernel. Give it more time."
    )


def _too_few_in_words(rows: int, plain: float) -> str:
    """Of a stack that was weighed by next to nothing."""
    return f"{counted(rows, 'held-out row')} {verb(rows, 'is', 'are')} too few to tell what features add here, or whether intervals hold. Plain GPs carry {100 * plain:.0f} % of the weight."


@dataclass(frozen=True)
class _Gains:
    """Where a stack's gain over the best plain GP comes from, by negative log densities of held-out rows, nats a row.

    plain: of the best plain GP. control: of plain GPs mixed and widened. constant: of the stack with the same weights everywhere. stack: of the stack itself.
    features: whether learned features have any weight. follows: whether weights follow how sure members are.
    """

    plain: float
    control: float
    constant: float
    stack: float
    features: bool
    follows: bool

    @property
    def by_features(self) -> float:
        return self.control - self.constant if self.features else 0.0

    def in_words(self) -> str:
        """What each part comes from; parts add up to the whole after rounding."""
        mixed, constant, whole = (
            round(self.plain - each, 2) + 0.0 for each in (self.constant + self.by_features, self.constant, self.stack)
        )
        parts = [f"{mixed:.2f} of that comes from wider copies of plain GPs (calibration) or mixtures of plain GPs"]
        parts += [f"{_part(self.by_features, constant - mixed)} from the features"] if self.features else []
        parts += (
            [f"{_part(self.constant - self.stack, whole - constant)} from weights that follow how sure members are"]
            if self.follows
            else []
        )
        return ", ".join(parts)


def _part(nats: float, rounded: float) -> str:
    return f"{rounded:.2f}" if nats >= _LITTLE else f"less than {_LITTLE:g}"


def _weights_in_words(share: dict[str, float], from_features: float) -> str:
    """Who carries the weight; every Gaussian process on the inputs as they are counts as plain, whatever its kernel. from_features: nats a row that held-out rows gain by them."""
    of_plain = {name: weight for name, weight in share.items() if name in PLAIN_GPS}
    plain, first = sum(of_plain.values()), max(of_plain, key=of_plain.__getitem__)
    alone = share[first] > plain - _NO_SHARE
    if plain >= 0.7:
        who = f"The {first} carries" if alone else "Plain GPs carry"
        most = "" if alone else f" (most of it: {first}, {100 * share[first]:.0f} %)"
        if plain > 1.0 - _NO_SHARE:
            return f"{who} all of the weight{most}: learned features have none."
        little = ": the features add little here." if from_features < _LITTLE else ", learned features the rest."
        return f"{who} {100 * plain:.0f} % of the weight{most}{little}"
    heaviest = max((name for name in share if name not in PLAIN_GPS), key=share.__getitem__)
    whose = f"the {first}" if alone else f"plain GPs (most of it: {first})"
    return (
        f"Learned features carry {100 * (1.0 - plain):.0f} % of the weight (most of it: {heaviest}, {100 * share[heaviest]:.0f} %), "
        f"{whose} {100 * plain:.0f} %."
    )


def _gain_in_words(the_plain: str, gains: _Gains) -> str:
    """the_plain: what the plain GP is called that predicts held-out rows best of all."""
    gain = gains.plain - gains.stack
    if gain < _LITTLE:
        return f"Held-out rows are predicted as well by {the_plain} (difference {round(-gain, 2) + 0.0:+.2f} nats a row)."
    return f"Held-out rows are predicted {gain:.2f} nats a row better than by {the_plain}: {gains.in_words()}."
