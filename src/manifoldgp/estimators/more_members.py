"""More members for a fitted model: another fit to the same rows and folds from other starts, whose members join those that are there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from manifoldgp.averaging import as_averaging
from manifoldgp.averaging.averages import Fitted
from manifoldgp.averaging.stacking import CONSTANT, HeldOutReport, log_mixture
from manifoldgp.data import inputs
from manifoldgp.data.sources import RowSource
from manifoldgp.errors import InputError
from manifoldgp.estimators import fitting
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.training.settings import Sparse
from manifoldgp.training.trained import Earlier

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manifoldgp.data.inputs import Table
    from manifoldgp.data.scaling import Standardizer
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor


def fit_more(
    estimator: ManifoldGPRegressor,
    X: Table | RowSource,
    y: ArrayLike | None,
    seconds: float | None,
    noise_std: ArrayLike | None,
    groups: ArrayLike | None,
    ordered: bool,
    unlabelled: Table | None = None,
) -> None:
    """Fit again from other starts, and keep both."""
    if seconds is not None:
        inputs.positive_number(seconds, "seconds")
    _refuse(estimator)
    later = _continuing(estimator, seconds)
    fitting.fit(later, X, y, noise_std, groups, ordered, unlabelled=unlabelled)
    _refuse_other_rows(estimator, later)
    _refuse_other_averaging(estimator, later)
    shares = [_share(estimator, later, o) for o in range(estimator.n_outputs_)]
    _join(estimator, later, shares)


def _refuse(estimator: ManifoldGPRegressor) -> None:
    """What cannot go on."""
    if not hasattr(estimator, "_draws"):
        raise InputError(
            "The file of this model does not say how its folds were drawn, so that no members can join. Fit it anew."
        )
    if hasattr(estimator, "switched_off_"):
        raise InputError("A pruned model has fewer inputs than the rows. Call fit_more first, and pruned() after it.")
    if hasattr(estimator, "input_noise_"):
        raise InputError(
            "A model with noisy inputs is trained in rounds that follow its slopes; more members cannot join. Fit it anew."
        )
    if hasattr(estimator, "search_") or hasattr(estimator, "kernel_choice_"):
        raise InputError(
            "The kernel of this model was searched for; more members cannot join. Fit one with that kernel, or search for longer."
        )
    starts = np.zeros(0, dtype=estimator.starts_.dtype)
    if type(as_averaging(estimator.averaging)).shorthand() == "nuts":
        as_averaging(estimator.averaging).share_of_earlier(Fitted(starts, None), Fitted(starts, None))  # says why not


def _continuing(estimator: ManifoldGPRegressor, seconds: float | None) -> ManifoldGPRegressor:
    """The estimator before its fit, with the method that it took, other starts and so many seconds."""
    method = estimator.method_ if isinstance(estimator.method, str) else estimator.method
    if isinstance(method, Sparse):
        method = replace(method, checkpoint=None)  # which is of the earlier fit
    later = type(estimator)(**estimator.get_params(deep=False) | {"time_budget": seconds, "method": method})
    fits = estimator._draws.earlier + 1
    of_targets = zip(estimator.ensembles_, estimator.held_out_, strict=True)
    later._continues = (
        replace(estimator._draws, earlier=fits),
        [_earlier(fits, ensemble, report) for ensemble, report in of_targets],
    )
    return later


def _earlier(fits: int, ensemble: Ensemble, report: HeldOutReport | None) -> Earlier:
    """What a fit of one target left."""
    certainty = ensemble.certainty
    follows = (0.0, 0.0) if certainty is None else (certainty.exponent, certainty.share)
    return Earlier(fits, ensemble.blocks, _idle(report), *follows)


def _idle(report: HeldOutReport | None) -> frozenset[str]:
    """The groups that were trained to their end and have no weight."""
    if report is None:
        return frozenset()
    weights = zip(report.groups, report.weights.sum(1), strict=True)
    return frozenset(name for name, weight in weights if not weight and name not in report.cut_short)


def _refuse_other_rows(estimator: ManifoldGPRegressor, later: ManifoldGPRegressor) -> None:
    """Rows with other means, scales, numbers or held-out targets are not those of the fit."""
    scales = [_numbers(e.x_scaler_) + _numbers(e.y_scaler_) for e in (estimator, later)]
    same = estimator.n_outputs_ == later.n_outputs_ and all(map(np.array_equal, *scales))
    same = same and all(_same_rows(a, b) for a, b in zip(estimator.ensembles_, later.ensembles_, strict=True))
    observed = [[r.observed for r in e.held_out_ if r is not None and r.observed is not None] for e in (estimator, later)]
    if not (same and all(map(np.array_equal, *observed))):
        raise InputError(
            "fit_more goes on with the rows of the fit, and these are others (or in another order, or held out in other groups). "
            "New rows are added with update(X, y); or fit anew on all of them."
        )


def _same_rows(earlier: Ensemble, later: Ensemble) -> bool:
    """Whether two ensembles of a target are of the same rows, with the same known noise; a sparse one knows some of them only."""
    a, b = earlier.blocks[0], later.blocks[0]
    if a.rows != b.rows or (a.data.known_noise is None) != (b.data.known_noise is None):
        return False
    if len(a.data.y) < a.rows:
        return True
    noise = a.data.known_noise is None or b.data.known_noise is None or torch.equal(a.data.known_noise, b.data.known_noise)
    return noise and torch.equal(a.data.X, b.data.X) and torch.equal(a.data.y, b.data.y)


def _refuse_other_averaging(estimator: ManifoldGPRegressor, later: ManifoldGPRegressor) -> None:
    """Members of another kind of average have other weights, and nothing by which both could be weighed."""
    kinds = [
        [(e.variance_factors, r is None) for e, r in zip(m.ensembles_, m.held_out_, strict=True)] for m in (estimator, later)
    ]
    if kinds[0] != kinds[1]:
        raise InputError("fit_more goes on with the averaging of the fit, and it was changed since. Set it back, or fit anew.")


def _numbers(scaler: Standardizer) -> list[np.ndarray]:
    return [scaler.offset, scaler.scale, scaler.place]


def _share(estimator: ManifoldGPRegressor, later: ManifoldGPRegressor, output: int) -> float:
    """The weight of the members that are there already."""
    both = [Fitted(e.starts_[e.starts_["output"] == output], e.held_out_[output]) for e in (estimator, later)]
    return as_averaging(estimator.averaging).share_of_earlier(*both)


def _join(estimator: ManifoldGPRegressor, later: ManifoldGPRegressor, shares: list[float]) -> None:
    """Put what both fits left into the estimator. shares: of the earlier one, by target."""
    weighed = [(share, 1.0 - share) for share in shares]
    pairs = zip(estimator.ensembles_, later.ensembles_, weighed, strict=True)
    ensembles = [_joined(earlier, new, weights) for earlier, new, weights in pairs]
    reports = [_reported(*both) for both in zip(estimator.held_out_, later.held_out_, weighed, strict=True)]
    starts = [_reweighed(e.starts_, [w[i] for w in weighed]) for i, e in enumerate((estimator, later))]
    heaviest = [_heaviest_nlml(np.concatenate(starts), o) for o in range(estimator.n_outputs_)]
    if getattr(as_averaging(estimator.averaging), "shared_features", False):  # every table has the total of all targets
        heaviest = heaviest[:1]
    estimator.ensembles_, estimator.held_out_, estimator.starts_ = ensembles, reports, np.concatenate(starts)
    estimator.histories_ = [*estimator.histories_, *later.histories_]
    estimator.sampling_ = [None] * estimator.n_outputs_
    estimator.nlml_, estimator._draws, estimator.interrupted_ = sum(heaviest), later._draws, later.interrupted_


def _joined(earlier: Ensemble, later: Ensemble, weights: tuple[float, float]) -> Ensemble:
    """The mixture of two ensembles; one without weight is left out."""
    blocks, log_weights, usual, data = [], [], [], earlier.blocks[0].data
    for ensemble, weight in zip((earlier, later), weights, strict=True):
        if weight > 0.0:
            blocks += [replace(block, data=data) for block in ensemble.blocks]  # type: ignore[type-var]  # all posteriors are dataclasses
            log_weights += [each + float(np.log(weight)) for each in ensemble.log_weights]
            usual += [] if ensemble.certainty is None else ensemble.certainty.usual
    total = torch.cat([each.flatten() for each in log_weights]).logsumexp(0)
    certainty = None if earlier.certainty is None else replace(earlier.certainty, usual=usual)
    return replace(earlier, blocks=blocks, log_weights=[each - total for each in log_weights], certainty=certainty)


def _reweighed(starts: np.ndarray, weights: list[float]) -> np.ndarray:
    """The table of starts of one fit, with its weights (by target) in the whole."""
    found = starts.copy()
    found["weight"] *= np.asarray(weights)[starts["output"]]
    found["chosen"] &= found["weight"] > 0.0
    return found


def _heaviest_nlml(starts: np.ndarray, output: int) -> float:
    of_target = starts[starts["output"] == output]
    return float(of_target["nlml"][np.argmax(of_target["weight"])])


def _reported(earlier: HeldOutReport | None, later: HeldOutReport | None, weights: tuple[float, float]) -> HeldOutReport | None:
    """What held-out rows say of the mixture of two fits, group by group."""
    if earlier is None or later is None:
        return None
    both, names = (earlier, later), _union(earlier.groups, later.groups)
    shares = {name: [w * _of_group(report, name) for report, w in zip(both, weights, strict=True)] for name in names}
    density = {name: _mixed(both, name, np.array([each.sum() for each in shares[name]])) for name in names}
    density |= {name: _mixed(both, name, np.array(weights)) for name in ("control", "stack")}
    if any(CONSTANT in report.log_density for report in both):
        density[CONSTANT] = log_mixture(np.stack([report.with_constant_weights() for report in both]), np.array(weights))
    mixed = {
        field: sum(w * getattr(report, field) for report, w in zip(both, weights, strict=True))
        for field in ("pit", "mean")
        if getattr(earlier, field) is not None
    }
    cut = tuple(name for name in names if all(name in r.cut_short for r in both if name in r.groups))
    left_out = tuple(name for name in _union(earlier.left_out, later.left_out) if name not in names)
    table = np.stack([sum(shares[name]) for name in names])
    return replace(earlier, groups=tuple(names), weights=table, log_density=density, cut_short=cut, left_out=left_out, **mixed)


def _union(*groups: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for each in groups for name in each))


def _of_group(report: HeldOutReport, name: str) -> np.ndarray:
    """The weights (F,) of a group; zeros where it is not there."""
    return report.weights[report.groups.index(name)] if name in report.groups else np.zeros(report.weights.shape[1])


def _mixed(both: tuple[HeldOutReport, HeldOutReport], name: str, weights: np.ndarray) -> np.ndarray:
    """Log densities (n,) of a group in both fits together; without any weight, as if both counted the same."""
    there = [i for i, report in enumerate(both) if name in report.log_density]
    weights = weights[there] if weights[there].any() else np.ones(len(there))
    return log_mixture(np.stack([both[i].log_density[name] for i in there]), weights / weights.sum())
