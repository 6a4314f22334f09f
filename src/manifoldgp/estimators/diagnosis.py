"""What a fitted model looks like, in words and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp._system.linalg import PIVOT_ERROR, pivot_error
from manifoldgp._system.plain_text import named_number, unit_of, verb, visible
from manifoldgp.averaging import as_averaging
from manifoldgp.averaging.kinds import SEARCHED_GP
from manifoldgp.averaging.stacking import HeldOutReport
from manifoldgp.averaging.verdict import (
    errors_in_words,
    held_out_numbers,
    held_out_remarks,
    sampling_numbers,
    sampling_remarks,
)
from manifoldgp.data.inputs import target_names
from manifoldgp.data.scaling import constant_columns
from manifoldgp.estimators.early_end import INTERRUPTED
from manifoldgp.estimators.input_std import input_names
from manifoldgp.estimators.kernel_choice import KernelChoice
from manifoldgp.estimators.noisy_inputs import InputNoise
from manifoldgp.estimators.pruning import left_of
from manifoldgp.features import Identity
from manifoldgp.inference.ensemble import Ensemble
from manifoldgp.inference.exact_posterior import Posterior
from manifoldgp.inference.local_posterior import LocalPosterior
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.inference.sparse_posterior import SparsePosterior
from manifoldgp.inference.sparse_sums import JITTER_LADDER
from manifoldgp.kernels import Kernel, Periodic
from manifoldgp.parameters import Tree, leaves
from manifoldgp.structure.expressions import text_of
from manifoldgp.training.coarse_to_fine import on_a_level
from manifoldgp.training.optimizer import CUT_SHORT
from manifoldgp.training.settings import Sparse, as_method

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

_AGREE = 0.01
_FAR = 1e3
_LEFT_OUT = 1000
_LISTED = 6
_NEAR = 1e-3
_UNFELT = 0.01
"""Changes of y below this, in its standard deviations, are no influence of an input."""

_OF_ONE_MEMBER = (
    "Trained parameters, NLML, leave-one-out density, jitter, length-scales and features are those of the member with the most weight; "
    "the noise is that of all members together."
)
"""What the numbers of an average are about."""


@dataclass(frozen=True)
class Diagnosis:
    """What a fitted model looks like; ``print(diagnosis)`` shows all of it.

    Attributes
    ----------
    numbers
        Plain values by name, for machines.
    remarks
        Sentences, for people.
    whose
        Of an average: which of the numbers are those of one member, in a sentence; else empty.
    """

    numbers: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    whose: str = ""

    @staticmethod
    def of_targets(parts: Sequence[Diagnosis]) -> Diagnosis:
        """One of all targets: that of the only one as it is, else every line with its target's number."""
        if len(parts) == 1:
            return parts[0]
        numbers = {f"output {o}: {name}": value for o, part in enumerate(parts) for name, value in part.numbers.items()}
        remarks = [f"output {o}: {remark}" for o, part in enumerate(parts) for remark in part.remarks]
        return Diagnosis(numbers, remarks, next((part.whose for part in parts if part.whose), ""))

    def __str__(self) -> str:
        width = max((len(name) for name in self.numbers), default=0)
        lines = [f"{name:<{width}}  {show_value(value, name)}" for name, value in self.numbers.items()]
        whose = ["", self.whose] if self.whose else []
        return "\n".join([*lines, *whose, "", *(f"- {remark}" for remark in self.remarks)]).strip()

    def _repr_html_(self) -> str:
        """For notebooks: the remarks, and the numbers under a fold."""
        remarks = "".join(f"<li>{escape(visible(remark))}</li>" for remark in self.remarks)
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(visible(name))}</th><td style="text-align:left">{escape(visible(show_value(value, name)))}</td></tr>'
            for name, value in self.numbers.items()
        )
        whose = f"<p>{escape(self.whose)}</p>" if self.whose else ""
        return f"<ul>{remarks}</ul><details><summary>All numbers of the diagnosis</summary>{whose}<table>{rows}</table></details>"


def diagnose(estimator: ManifoldGPRegressor) -> Diagnosis:
    """Jitter, noise floor, length-scales, features, leave-one-out density and agreement of the starts of a fitted estimator."""
    parts = [_diagnose_output(estimator, ensemble, o) for o, ensemble in enumerate(estimator.ensembles_)]
    choice: KernelChoice | None = getattr(estimator, "kernel_choice_", None)
    numbers, remarks = ({}, []) if choice is None else _of_choice(estimator, choice)
    if estimator.interrupted_:
        remarks.insert(0, INTERRUPTED)
    _input_noise(estimator, numbers, remarks)
    found = Diagnosis.of_targets(parts)
    both = found.numbers | numbers if len(parts) == 1 else numbers | found.numbers
    return Diagnosis(both, remarks + found.remarks, found.whose)


def _of_choice(estimator: ManifoldGPRegressor, choice: KernelChoice) -> tuple[dict[str, Any], list[str]]:
    """Which kernel held-out rows chose, and how large errors were there."""
    errors = [choice.error_remark(o, _unit(estimator, o)) for o in range(len(choice.errors))]
    named = [f"output {o}: {words}" if len(errors) > 1 else words for o, words in enumerate(errors)]
    return choice.numbers(), [choice.remark(), *named]


def _input_noise(estimator: ManifoldGPRegressor, numbers: dict, remarks: list) -> None:
    noise: InputNoise | None = getattr(estimator, "input_noise_", None)
    if noise is None:
        return
    names, shares = input_names(estimator), [f"{100 * share:.0f} %" for share in noise.share]
    numbers |= {f"input noise, standard deviation of {name}": float(std) for name, std in zip(names, noise.std, strict=True)}
    how, rounds = ("learned" if noise.learned else "given"), "1 round" if noise.rounds == 1 else f"{noise.rounds} rounds"
    words = ", ".join(f"{name} ± {std:.3g}" for name, std in zip(names, noise.std, strict=True) if std > 0)
    remarks.append(
        f"Noisy inputs ({how}): {words or 'none of them'}. On average over the training rows {' and '.join(shares)} of the noise variance comes from them, where the model is steep. "
        "Predictions take their inputs as exact; input_cov says otherwise."
    )
    if not noise.settled:
        remarks.append(
            f"The slopes that turn input noise into noise of the target had not settled after {rounds} of training (one more would change the noise by {100 * noise.change:.0f} %)."
        )


def _diagnose_output(estimator: ManifoldGPRegressor, ensemble: Ensemble, output: int) -> Diagnosis:
    starts, held_out = estimator.starts_[estimator.starts_["output"] == output], estimator.held_out_[output]
    block, member = ensemble.heaviest()
    posterior = block.only(torch.tensor([member]))
    N = posterior.rows
    numbers: dict[str, Any] = {"rows": N, **_input_numbers(estimator, posterior), "features": posterior.features}
    remarks: list[str] = []
    if np.ptp(posterior.data.y.cpu().numpy()) == 0.0:
        return Diagnosis(
            numbers,
            [f"The target has one value only{_sample(posterior)}: there is nothing to learn, and nothing is said about the fit."],
        )
    if held_out is not None:
        numbers |= held_out_numbers(held_out, ensemble.scale)
        remarks += errors_in_words(held_out, ensemble.scale, _unit(estimator, output)) + held_out_remarks(held_out)
        remarks += _searched(estimator, ensemble, starts)
    sampling = estimator.sampling_[output]
    if sampling is not None:
        numbers |= sampling_numbers(sampling)
        remarks += sampling_remarks(sampling)
    averaged = sum(b.members for b in ensemble.blocks) > 1
    _size(posterior, averaged or held_out is not None, N, numbers, remarks)
    if isinstance(posterior, SparsePosterior):
        _sparse(ensemble, posterior, estimator, numbers, remarks)
    elif isinstance(posterior, LocalPosterior):
        _local(ensemble, posterior, numbers, remarks)
    elif isinstance(posterior, Posterior):
        _evidence(ensemble, posterior, N, numbers, remarks)
    whose = " of the model with the most weight" if averaged else ""
    _numerics(posterior, ensemble, held_out, whose, numbers, remarks)
    _lengthscales(estimator, posterior, whose, numbers, remarks)
    _feature_space(estimator, posterior, numbers, remarks)
    _sparsity(estimator, posterior, averaged, numbers, remarks)
    _starts(starts, N, numbers, remarks, hasattr(as_averaging(estimator.averaging), "max_iter"))
    remarks += _uninformative(estimator, posterior)
    return Diagnosis(numbers, remarks or ["Nothing unusual."], _OF_ONE_MEMBER if averaged else "")


def _unit(estimator: ManifoldGPRegressor, output: int) -> str:
    """The unit of a target that its name ends in, or that stood below it in the table."""
    encoding = getattr(estimator, "table_encoding_", None)
    name = target_names(estimator)[output]
    return unit_of(name if encoding is None else encoding.label(name))


def _searched(estimator: ManifoldGPRegressor, ensemble: Ensemble, starts: np.ndarray) -> list[str]:
    """Which kernels the searched GPs of a stack have."""
    of_members = starts["group"][starts["chosen"]]  # in the order of the ensemble
    first = np.cumsum([0, *(block.members for block in ensemble.blocks)])
    if SEARCHED_GP not in of_members or first[-1] != len(of_members):
        return []
    given = _column_names(estimator)
    seen = [given[d] if hasattr(estimator, "feature_names_in_") else f"x{d}" for d in estimator.x_scaler_.columns]
    blocks = [block for block, at in zip(ensemble.blocks, first, strict=False) if of_members[at] == SEARCHED_GP]
    found = dict.fromkeys(text_of(block.model.kernel, seen) for block in blocks)
    return [f"The searched GP has the kernel {', or '.join(found)}."]


def _sparsity(estimator: ManifoldGPRegressor, posterior: Conditioned, averaged: bool, numbers: dict, remarks: list) -> None:
    """Which inputs, units and features a sparse network has left."""
    left = left_of(posterior)
    if left is None:
        return
    names, scaler = _column_names(estimator), estimator.x_scaler_
    alive = left.inputs[0].cpu().numpy()
    kept, off = ([names[d] for d in sorted(scaler.columns[which])] for which in (alive, ~alive))
    off += [names[d] for d in getattr(estimator, "switched_off_", ())]
    units, sizes = [int(unit.sum()) for unit in left.units], [unit.shape[-1] for unit in left.units]
    numbers["inputs that remain"] = len(kept)
    numbers["units of each layer that remain"] = np.array(units)
    whose = "The sparse network with the most weight" if averaged else "The sparse network"
    less = f"; switched off: {', '.join(off)}" if off else ""
    some = f"Of its {'-'.join(map(str, sizes))} units {'-'.join(map(str, units))} remain"
    saved = " model.pruned() leaves out what is off." if units != sizes or not alive.all() else ""
    remarks.append(f"{whose} uses the {'input' if len(kept) == 1 else 'inputs'} {', '.join(kept)}{less}. {some}.{saved}")


def _column_names(estimator: ManifoldGPRegressor) -> list[str]:
    return list(map(str, getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))))


def _uninformative(estimator: ManifoldGPRegressor, posterior: Conditioned) -> list[str]:
    """Inputs that never change, and those that repeat others."""
    scaler = estimator.x_scaler_
    names, remarks = _column_names(estimator), []
    without_place = np.flatnonzero(scaler.place < 0)
    unseen = np.setdiff1d(without_place, getattr(estimator, "switched_off_", ()))  # the others have been told about
    constant = np.setdiff1d(constant_columns(scaler.undo(posterior.data.X.cpu().numpy())), without_place)
    if len(constant):
        where = _sample(posterior)
        constant_where = f"Constant{where}, so nearly" if where else "Constant in the training data, so"
        remarks.append(f"{constant_where} without information: input {_some([names[d] for d in constant])}.")
    if len(unseen):
        remarks.append(
            f"Constant in the training data, so without information: input {_some([names[d] for d in unseen])}. "
            f"The model leaves {'it' if len(unseen) == 1 else 'them'} out, whatever value comes later."
        )
    repeated = [
        f"{names[d]} (that of {names[scaler.columns[scaler.place[d]]]})" for d in np.setdiff1d(scaler.dropped, without_place)
    ]
    if repeated:
        remarks.append(f"The same column again, and left out of the model: input {_some(repeated)}.")
    return remarks


def _some(names: Sequence[str]) -> str:
    """The first of many names, and how many more there are.

    >>> _some(["a", "b"]), _some(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _sample(posterior: Conditioned) -> str:
    """' in a sample of 1,000 rows', for remarks about rows where the posterior keeps only some of them; else empty."""
    kept = len(posterior.data.X)
    return f" in a sample of {kept:,} rows" if kept < posterior.rows else ""


def _evidence(ensemble: Ensemble, posterior: Posterior, N: int, numbers: dict, remarks: list) -> None:
    _, log_slope = posterior.model.warp(posterior.values, posterior.data.y)
    units = float(log_slope.mean()) - math.log(ensemble.scale)  # log dz/dy a row: from densities of z to densities of y
    density = float(posterior.leave_one_out().log_density.mean()) + units
    residual = posterior.z - posterior.model.mean_at(posterior.values, posterior.data.X, posterior.H)
    half_log_det = posterior.L.diagonal(dim1=-2, dim2=-1).log().sum()
    # From the factor, not from the table of starts: rows may have been added since (update).
    nlml = float(0.5 * (residual * posterior.alpha).sum() + half_log_det) / N + 0.5 * math.log(2 * math.pi) - units
    numbers["NLML per row"] = nlml
    numbers["leave-one-out negative log density per row"] = -density
    if -density > nlml + 0.5:
        remarks.append(
            f"The leave-one-out density ({-density:.2f} nats a row) is {-density - nlml:.2f} worse than the NLML ({nlml:.2f}): "
            "a few rows are not what the others say. Look for outliers, and check on held-out data."
        )


def _local(ensemble: Ensemble, posterior: LocalPosterior, numbers: dict, remarks: list) -> None:
    rows = torch.linspace(0, posterior.rows - 1, _LEFT_OUT, device=posterior.device).round().long().unique()
    mean, variance = posterior.left_out(rows)
    z, log_slope = posterior.model.warp(posterior.values, posterior.data.y[rows])
    density = -0.5 * ((z - mean) ** 2 / variance + variance.log() + math.log(2 * math.pi)) + log_slope
    numbers["rows near a point, that it is predicted from"] = posterior.nearness.near
    numbers[f"leave-one-out negative log density per row ({len(rows):,} rows)"] = math.log(ensemble.scale) - float(density.mean())
    remarks.append(
        f"Of the {posterior.rows:,} rows, each point is predicted from the {posterior.nearness.near:,} or so that are nearest in a member's feature space."
    )


def _sparse(ensemble: Ensemble, posterior: SparsePosterior, estimator: ManifoldGPRegressor, numbers: dict, remarks: list) -> None:
    J = posterior.Z.shape[1]
    unexplained = _unexplained_share(posterior)
    numbers["inducing points"] = J
    numbers["bound on the NLML per row"] = float(posterior.bound[0]) / posterior.bound_rows + math.log(ensemble.scale)
    numbers["prior variance that the inducing points leave unexplained"] = unexplained
    asked = " (method='auto')" if estimator.method == "auto" else ""
    remarks.append(f"The sparse model{asked} sees {posterior.rows:,} rows through {J} inducing points.")
    if unexplained > 0.01:
        remarks.append(
            f"The inducing points leave {100 * unexplained:.1f} % of the prior variance unexplained: more of them, Sparse(inducing=...), would tell more."
        )
    method = as_method(estimator.method) or Sparse()
    if isinstance(method, Sparse) and method.inducing is not None and method.inducing > J:
        remarks.append(f"{J} inducing points explain the features already; {method.inducing} were asked for.")


def _unexplained_share(posterior: SparsePosterior) -> float:
    """Mean of (k_i − |L⁻¹ k_Zi|²) / k_i over the rows that were kept."""
    with torch.no_grad():
        _, _, V = posterior.moments(posterior.data.X)
        prior = posterior.prior_variance(posterior.data.X)
        return float(((prior - (V * V).sum(-2)) / prior).clamp_min(0.0).mean())


def _size(posterior: Conditioned, compared: bool, N: int, numbers: dict, remarks: list) -> None:
    """compared: whether held-out rows or an average have kept a single network from overfitting."""
    # Neither the NLML nor leave-one-out densities show it when a single network overfits: both are computed at parameters that saw all rows.
    learnt = [p.shape for _, p in leaves(posterior.model.features.parameters(posterior.data.X)) if p.trainable]
    learnt += [leaf.shape[1:] for part, tree in posterior.values.items() if part != "features" for _, leaf in leaves(tree)]
    count = sum(math.prod(shape) for shape in learnt)
    numbers["trained parameters"] = count
    placed = sum(
        math.prod(leaf.shape[1:]) for _, leaf in leaves(posterior.values.get("inducing", {}))
    )  # of a bound: they fit nothing
    if count - placed > N and not compared:
        others = "" if isinstance(posterior.model.features, Identity) else " against GPRegressor, or use averaging='stack'"
        remarks.append(
            f"There are more trained parameters ({count}) than rows ({N}): a single model is likely to overfit, and its NLML does not show it. "
            f"Check on held-out data{others}."
        )


def _noise_of_all(ensemble: Ensemble) -> float:
    """The standard deviation of the noise that the members expect, by their weights: the root of the mean variance."""
    parts = zip(ensemble.blocks, ensemble.log_weights, strict=True)
    return float(sum((weights.exp().sum(0) * block.noise_variance()).sum() for block, weights in parts)) ** 0.5


def _numerics(
    posterior: Conditioned, ensemble: Ensemble, held_out: HeldOutReport | None, whose: str, numbers: dict, remarks: list
) -> None:
    jitter, floor = float(posterior.jitter[0]), posterior.model.noise.floor
    noise = float(posterior.noise_variance()[0]) ** 0.5
    given = ", beside what was given of each row" if posterior.data.known_noise is not None else ""
    numbers["jitter used (share of the target's variance)"] = jitter
    numbers[f"noise standard deviation (units of the target{given})"] = _noise_of_all(ensemble) * ensemble.scale
    numbers["noise floor (units of the target)"] = floor * ensemble.scale
    usual = (
        10 * JITTER_LADDER[0] * float(posterior.prior_variance(posterior.data.X).mean())
        if isinstance(posterior, SparsePosterior)
        else 0.0
    )
    if jitter > usual:
        remarks.append(
            f"The covariance needed a jitter of {jitter:.1e}: nearly duplicate rows, or length-scales far above the data."
        )
    if isinstance(posterior, Posterior):
        error = float(pivot_error(posterior.L)[0])
        numbers["rounding error of the smallest pivot (relative)"] = error
        if error > PIVOT_ERROR:
            remarks.append(
                f"Rounding reaches {error:.1e} of the covariance's smallest pivot: the smallest variances have few correct digits, "
                "and every update() factors the covariance anew, in O(N³)."
            )
    if posterior.model.noise.learned and noise < 1.5 * floor and _may_be_noise_free(held_out):
        remarks.append(
            f"The noise{whose} is at its floor: the data look noise-free. Lower its floor, noise=GaussianNoise(floor=...), if they are."
        )


def _may_be_noise_free(held_out: HeldOutReport | None) -> bool:
    """Whether held-out rows, if there are any, are predicted as well as data without noise are as a rule: to a tenth of their standard deviation."""
    if held_out is None or held_out.mean is None or held_out.observed is None:
        return True
    return float(np.mean((held_out.observed - held_out.mean) ** 2)) ** 0.5 < 0.1


def _lengthscales(estimator: ManifoldGPRegressor, posterior: Conditioned, whose: str, numbers: dict, remarks: list) -> None:
    names = _column_names(estimator)
    seen = estimator.x_scaler_.columns if isinstance(posterior.model.features, Identity) else np.empty(0, dtype=int)
    features, values = _training_features(posterior), posterior.values.get("kernel", {})
    for name, places, lengthscale in _scaled_kernels(
        posterior.model.kernel, values, torch.arange(features.shape[1], device=features.device), "kernel"
    ):
        H = features[:, places]
        relative = lengthscale / H.std(0).clamp_min(1e-300)
        alone = torch.tensor(
            [2 * len(torch.unique(column)) > len(column) for column in H.T], device=H.device
        )  # rows with the same value share all the same
        far, near = (relative > _FAR).cpu().numpy(), ((relative < _NEAR) & alone).cpu().numpy()
        far[far] = [_prior_change(posterior, features, int(d)) < _UNFELT for d in places[torch.from_numpy(far).to(places.device)]]
        what = "input" if len(seen) == len(relative) else "feature"
        numbers |= (
            _by_input(name, relative.cpu().numpy(), names, seen)
            if what == "input"
            else {f"{name} / spread of the feature": relative.cpu().numpy()}
        )
        which = _some([names[d] for d in sorted(seen[near])]) if what == "input" else ""
        useless = _without_influence(estimator, names, set(seen[far].tolist())) if what == "input" else [""] * int(far.sum())
        if useless:
            some, listed = (
                f"1 {what} has" if len(useless) == 1 else f"{len(useless)} {what}s have",
                f": {_some(useless)}" if useless[0] else "",
            )
            remarks.append(
                f"{name}{whose}: {some} no influence (length-scale above {_FAR:g} spreads{_sample(posterior)}){listed}."
            )
        if near.any():
            some, others = (
                "1 length-scale is" if near.sum() == 1 else f"{near.sum()} length-scales are",
                which and f" with other values of {which}",
            )
            remarks.append(
                f"{name}{whose}: {some} below {_NEAR:g} spreads{_sample(posterior)}: nothing is shared between rows{others}."
            )


def _by_input(name: str, relative: np.ndarray, names: Sequence[str], seen: np.ndarray) -> dict[str, Any]:
    """Length-scales relative to the spread of their inputs, in the order of the table: a line for each where they are few."""
    order = np.argsort(seen)
    if len(order) > _LISTED:
        return {f"{name} / spread of the input, in the order of the inputs": relative[order]}
    return {f"{name} / spread of {names[int(seen[place])]}": float(relative[place]) for place in order}


def _without_influence(estimator: ManifoldGPRegressor, names: Sequence[str], far: set[int]) -> list[str]:
    """Inputs all of whose columns are among these: of the columns of a category one says what the others leave open."""
    encoding = getattr(estimator, "table_encoding_", None)
    if encoding is None:
        return [names[d] for d in sorted(far)]
    columns, first = {}, 0
    for column in encoding.columns:
        columns[column.name] = set(range(first, first + len(column.names)))
        first += len(column.names)
    left_out = set(np.asarray(estimator.x_scaler_.dropped).tolist())
    return [name for name, own in columns.items() if own - left_out and own - left_out <= far]


def _scaled_kernels(kernel: Kernel, values: Tree, places: Tensor, name: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Name, places of the features (Q,) and length-scales (Q,) or (1,) of every part of a kernel whose length-scales are distances of features."""
    places = places if kernel.dims is None else places[list(kernel.dims)]
    for i, part in enumerate(getattr(kernel, "parts", ())):
        yield from _scaled_kernels(part, values.get(str(i), {}), places, f"{name}.{i}")
    if "lengthscale" in values and not isinstance(kernel, Periodic):  # the periodic one is relative to the period
        yield f"{name}.lengthscale", places, values["lengthscale"][0]


def _prior_change(posterior: Conditioned, H: Tensor, d: int) -> float:
    """The standard deviation, in units of sd(y), by which functions of the prior change as feature d moves by its spread: a line is a large variance at a large length-scale."""
    some = H[:: max(1, len(H) // 20)]
    moved = some.clone()
    moved[:, d] += H[:, d].std()
    with torch.no_grad():
        K = posterior.model.kernel.matrix(posterior.values["kernel"], torch.cat([some, moved])[None])[0]
    n = len(some)
    change = K.diagonal()[:n] + K.diagonal()[n:] - 2.0 * K.diagonal(n)
    return float(change.mean().clamp_min(0.0)) ** 0.5


def _training_features(posterior: Conditioned) -> Tensor:
    """Features (n, Q) of the rows that the posterior holds."""
    with torch.no_grad():
        return posterior.transform(posterior.data.X)[0]


def _feature_space(estimator: ManifoldGPRegressor, posterior: Conditioned, numbers: dict, remarks: list) -> None:
    H, X = _training_features(posterior), posterior.data.X
    rank, Q, D = _rank(H), H.shape[1], X.shape[1]
    numbers["spread of the features"] = H.std(0).cpu().numpy()
    numbers["rank of the features"] = rank
    # Features that hold the inputs, as those of a plain GP do, lack what the inputs lack. 0/1 columns of one category always sum to one.
    lacking = D - _rank(X) if Q >= D else 0
    if Q - rank > lacking:
        remarks.append(f"The {Q} features span only {_dimensions(rank)}{_sample(posterior)}: fewer features would do.")
    elif lacking > _lacking_flags(X, _of_categories(estimator)):
        columns, superfluous = _table_inputs(estimator), lacking - _lacking_flags(X, _of_categories(estimator))
        given, lost = (D, lacking) if columns is None else (columns, superfluous)
        remarks.append(
            f"The {given} inputs span only {_dimensions(given - lost)}{_sample(posterior)}: some follow from the others."
        )


def _input_numbers(estimator: ManifoldGPRegressor, posterior: Conditioned) -> dict[str, int]:
    """How many inputs there are, as the table or array has them, and how many numbers the model sees for them where these are more."""
    encoding = getattr(estimator, "table_encoding_", None)
    inputs, seen = estimator.n_features_in_ if encoding is None else len(encoding.columns), posterior.data.X.shape[1]
    return {"inputs": inputs} | ({"numbers that the inputs become": seen} if seen > inputs else {})


def _table_inputs(estimator: ManifoldGPRegressor) -> int | None:
    """How many columns of the table are among the inputs of the model, which may see several numbers for one; None without a table."""
    encoding = getattr(estimator, "table_encoding_", None)
    if encoding is None:
        return None
    names, seen = _column_names(estimator), set(np.asarray(estimator.x_scaler_.columns).tolist())
    return sum(any(names[d] in column.names for d in seen) for column in encoding.columns)


def _dimensions(count: int) -> str:
    return "1 dimension" if count == 1 else f"{count} dimensions"


def _of_categories(estimator: ManifoldGPRegressor) -> set[int]:
    """Which inputs of the model belong to categories, or say where a value is missing; where values were filled in they have more values than 0 and 1."""
    encoding = getattr(estimator, "table_encoding_", None)
    categories = [column for column in encoding.columns if column.kind == "category"] if encoding is not None else []
    known = {name for column in categories for name in column.names}
    names = _column_names(estimator)
    return {place for place, d in enumerate(estimator.x_scaler_.columns) if names[d] in known}


def _lacking_flags(X: Tensor, categories: set[int]) -> int:
    """How many of the inputs with two values, or of categories, follow from the others."""
    flags = X[:, [d for d in range(X.shape[1]) if d in categories or len(torch.unique(X[:, d])) <= 2]]
    return flags.shape[1] - _rank(flags) if flags.shape[1] else 0


def _rank(H: Tensor) -> int:
    """How many directions points H (n, Q) vary in."""
    singular = torch.linalg.svdvals(H - H.mean(0))
    return int((singular > 1e-8 * singular.max().clamp_min(1e-300)).sum())


def _starts(starts: np.ndarray, N: int, numbers: dict, remarks: list, limit: bool) -> None:
    """limit: whether a user can say how many iterations a start has at most."""
    same_model = starts["group"] == starts["group"][np.argmax(starts["weight"])]
    compared = starts["status"] != "screened out"  # those saw few rows only
    usable = starts[np.isfinite(starts["objective"]) & same_model & compared]
    best = usable["objective"].min() if len(usable) else math.nan
    agree = int((usable["objective"] <= best + _AGREE * N).sum())
    numbers["starts"] = len(starts)
    numbers["starts that agree on the optimum (0.01 nats a row)"] = agree
    invalid = int((starts["status"] == "invalid start").sum())
    numbers["invalid starts"] = invalid
    if invalid:
        remarks.append(f"{_starts_in_words(invalid, starts)} not finite or not positive definite and left out.")
    cut = int(np.isin(starts["status"], CUT_SHORT).sum())
    if cut:
        remarks.append(
            f"{_starts_in_words(cut, starts)} stopped on {verb(cut, 'its', 'their')} way: a fit with more time may predict better."
        )
    idle = int((starts["status"] == "not reached").sum())
    if idle:
        remarks.append(
            f"{_starts_in_words(idle, starts)} never begun, because time was up: a fit with more time tries {verb(idle, 'it', 'them')} too."
        )
    if len(set(starts["group"])) > 1 or np.count_nonzero(starts["weight"]) > 1:
        return  # members of an average need not agree, and some stop early on purpose
    left = int(on_a_level(starts["status"]).sum())
    if left:
        remarks.append(
            f"{_starts_in_words(left, starts)} trained on a part of the {N:,} rows and left behind there; the best one went on to all of them "
            "(levels=False trains every start on all rows)."
        )
    elif len(usable) > 1 and agree == 1:
        remarks.append("Only one start found the best optimum: more restarts may find a better one.")
    limited = int((starts["status"] == "iteration limit").sum())
    if limited and limit:
        remarks.append(
            f"{limited} of {len(starts)} {'start' if len(starts) == 1 else 'starts'} stopped at the iteration limit: raise max_iter to see {'it' if limited == 1 else 'them'} converge."
        )


def _starts_in_words(count: int, starts: np.ndarray) -> str:
    """So many of the starts, before what was done with them.

    >>> _starts_in_words(1, np.zeros(2)), _starts_in_words(1, np.zeros(1)), _starts_in_words(2, np.zeros(20))
    ('1 of 2 starts was', '1 of 1 start was', '2 of 20 starts were')
    """
    return f"{count} of {len(starts)} {verb(len(starts), 'start', 'starts')} {verb(count, 'was', 'were')}"


def show_value(value: object, name: str = "") -> str:
    """A number, of this name, or an array as a person reads it."""
    if isinstance(value, np.ndarray):
        return "[" + ", ".join(f"{v:.3g}" for v in value.ravel()[:12]) + (", ..." if value.size > 12 else "") + "]"
    return named_number(name, value) if isinstance(value, float) else str(value)
