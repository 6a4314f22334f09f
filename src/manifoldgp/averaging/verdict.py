"""Did the features help? What held-out rows say about an average, in words and numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from manifoldgp.averaging.averages import SamplingReport
from manifoldgp.averaging.stacking import HeldOutReport

_LEVELS = (0.5, 0.9, 0.95)


def held_out_numbers(report: HeldOutReport, scale: float) -> dict[str, Any]:
    """Weights, held-out negative log densities (units of y, nats a row) and calibration, by name. scale: sd of y."""
    share = report.weights.sum(1)
    numbers: dict[str, Any] = {f"weight of {name}": float(w) for name, w in zip(report.groups, share, strict=True)}
    by_factor = report.weights.sum(0)
    numbers["weight of widened copies"] = float(by_factor[1:].sum())
    for name, log_density in report.log_density.items():
        numbers[f"held-out negative log density, {name}"] = float(-log_density.mean()) + math.log(scale)
    for level, share_inside in coverage(report.pit).items():
        numbers[f"held-out coverage of {100 * level:g} % intervals"] = share_inside
    numbers["held-out PIT histogram (10 bins)"] = np.histogram(report.pit, 10, (0.0, 1.0))[0] / max(len(report.pit), 1)
    return numbers


def held_out_remarks(report: HeldOutReport) -> list[str]:
    """Sentences: who carries the weight, what the features add beyond calibration, and whether intervals can be trusted."""
    share = dict(zip(report.groups, report.weights.sum(1), strict=True))
    density = {name: float(-value.mean()) for name, value in report.log_density.items()}
    plain, control, stack = density["plain GP"], density["control"], density["stack"]
    learned = [name for name in report.groups if name != "plain GP"]
    if learned:
        remarks = [_weights_in_words(share), _gain_in_words(plain, control, stack)]
    else:
        remarks = ["Training was stopped before any features were trained: the average holds the plain GP only."]
    best = min(learned, key=density.__getitem__, default="plain GP")
    if density[best] > plain + 0.02:
        remarks.append(
            f"Every group of mGPs alone predicts held-out rows worse than the plain GP (best: {best}, by {density[best] - plain:.2f} nats a "
            "row): a single mGP would overfit here; the mixture does not."
        )
    inside = coverage(report.pit)[0.95]
    if abs(inside - 0.95) > 0.03:
        word = "too narrow" if inside < 0.95 else "too wide"
        remarks.append(f"The 95 % intervals hold {100 * inside:.1f} % of held-out rows: they are {word}.")
    return remarks


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


def coverage(pit: np.ndarray) -> dict[float, float]:
    """Share of rows inside the central interval of each level, from PIT values (N,).

    >>> coverage(np.array([0.5, 0.01]))
    {0.5: 0.5, 0.9: 0.5, 0.95: 0.5}
    """
    return {level: float((np.abs(pit - 0.5) <= 0.5 * level).mean()) for level in _LEVELS}


def _weights_in_words(share: dict[str, float]) -> str:
    plain = share["plain GP"]
    features = 1.0 - plain
    if plain >= 0.7:
        return f"The plain GP carries {100 * plain:.0f} % of the weight: the features add little here."
    heaviest = max((name for name in share if name != "plain GP"), key=share.__getitem__)
    return (
        f"Learned features carry {100 * features:.0f} % of the weight (most of it: {heaviest}, {100 * share[heaviest]:.0f} %), "
        f"the plain GP {100 * plain:.0f} %."
    )


def _gain_in_words(plain: float, control: float, stack: float) -> str:
    if stack > plain - 0.02:
        return f"Held-out rows are predicted as well by the plain GP (difference {stack - plain:+.2f} nats a row)."
    from_width, from_features = plain - control, control - stack
    return (
        f"Held-out rows are predicted {plain - stack:.2f} nats a row better than by the plain GP: {max(from_width, 0.0):.2f} of that comes from "
        f"wider copies of the plain GP (calibration), {from_features:.2f} from the features."
    )
