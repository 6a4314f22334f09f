"""Which inputs and features a fitted model makes use of: those that say something, that have influence, and that do not follow from others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manifoldgp.data.scaling import constant_columns
from manifoldgp.estimators.diagnosis import Diagnosis
from manifoldgp.estimators.pruning import left_of
from manifoldgp.features import Identity
from manifoldgp.inference.posterior import Conditioned
from manifoldgp.kernels import Kernel, Periodic
from manifoldgp.parameters import Tree

if TYPE_CHECKING:
    from manifoldgp.estimators.manifold_gp import ManifoldGPRegressor

_FAR = 1e3
_LISTED = 6
_NEAR = 1e-3
_UNFELT = 0.01
"""Changes of y below this, in its standard deviations, are no influence of an input."""


def input_counts(estimator: ManifoldGPRegressor, posterior: Conditioned) -> dict[str, int]:
    """How many inputs there are, as the table or array has them, and how many numbers the model sees for them where these are more."""
    encoding = getattr(estimator, "table_encoding_", None)
    inputs, seen = estimator.n_features_in_ if encoding is None else len(encoding.columns), posterior.data.X.shape[1]
    return {"inputs": inputs} | ({"numbers that the inputs become": seen} if seen > inputs else {})


def _column_names(estimator: ManifoldGPRegressor) -> list[str]:
    """Names of the inputs, and their numbers where they have none."""
    return list(map(str, getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))))


def uninformative(estimator: ManifoldGPRegressor, posterior: Conditioned) -> Diagnosis:
    """Inputs that never change, and those that repeat others."""
    scaler = estimator.x_scaler_
    names, remarks = _column_names(estimator), []
    without_place = np.flatnonzero(scaler.place < 0)
    unseen = np.setdiff1d(without_place, getattr(estimator, "switched_off_", ()))  # the others have been told about
    constant = np.setdiff1d(constant_columns(scaler.undo(posterior.data.X.cpu().numpy())), without_place)
    if len(constant):
        where = of_sample(posterior)
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
    return Diagnosis(remarks=remarks)


def _some(names: Sequence[str]) -> str:
    """The first of many names, and how many more there are.

    >>> _some(["a", "b"]), _some(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def of_sample(posterior: Conditioned) -> str:
    """' in a sample of 1,000 rows', for remarks about rows where the posterior keeps only some of them; else empty."""
    kept = len(posterior.data.X)
    return f" in a sample of {kept:,} rows" if kept < posterior.rows else ""


def sparsity(estimator: ManifoldGPRegressor, posterior: Conditioned, averaged: bool) -> Diagnosis:
    """Which inputs, units and features a sparse network has left."""
    left = left_of(posterior)
    if left is None:
        return Diagnosis()
    names, scaler = _column_names(estimator), estimator.x_scaler_
    alive = left.inputs[0].cpu().numpy()
    kept, off = ([names[d] for d in sorted(scaler.columns[which])] for which in (alive, ~alive))
    off += [names[d] for d in getattr(estimator, "switched_off_", ())]
    units, sizes = [int(unit.sum()) for unit in left.units], [unit.shape[-1] for unit in left.units]
    numbers = {"inputs that remain": len(kept), "units of each layer that remain": np.array(units)}
    whose = "The sparse network with the most weight" if averaged else "The sparse network"
    less = f"; switched off: {', '.join(off)}" if off else ""
    some = f"Of its {'-'.join(map(str, sizes))} units {'-'.join(map(str, units))} remain"
    saved = " model.pruned() leaves out what is off." if units != sizes or not alive.all() else ""
    words = f"{whose} uses the {'input' if len(kept) == 1 else 'inputs'} {', '.join(kept)}{less}. {some}.{saved}"
    return Diagnosis(numbers, [words])


def lengthscales(estimator: ManifoldGPRegressor, posterior: Conditioned, whose: str) -> Diagnosis:
    """Length-scales beside the spread of what they are of: far longer ones say that it has no influence, far shorter ones that rows share nothing.

    whose: the words for the member that it is about, where there are others.
    """
    numbers: dict[str, Any] = {}
    remarks: list[str] = []
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
                f"{name}{whose}: {some} no influence (length-scale above {_FAR:g} spreads{of_sample(posterior)}){listed}."
            )
        if near.any():
            some, others = (
                "1 length-scale is" if near.sum() == 1 else f"{near.sum()} length-scales are",
                which and f" with other values of {which}",
            )
            remarks.append(
                f"{name}{whose}: {some} below {_NEAR:g} spreads{of_sample(posterior)}: nothing is shared between rows{others}."
            )
    return Diagnosis(numbers, remarks)


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


def feature_span(estimator: ManifoldGPRegressor, posterior: Conditioned) -> Diagnosis:
    """How many directions the features of the rows vary in, and the inputs where it is they that lack some."""
    H, X = _training_features(posterior), posterior.data.X
    rank, Q, D = _rank(H), H.shape[1], X.shape[1]
    found = Diagnosis({"spread of the features": H.std(0).cpu().numpy(), "rank of the features": rank})
    # Features that hold the inputs, as those of a plain GP do, lack what the inputs lack. 0/1 columns of one category always sum to one.
    lacking = D - _rank(X) if Q >= D else 0
    if Q - rank > lacking:
        found.remarks.append(f"The {Q} features span only {_dimensions(rank)}{of_sample(posterior)}: fewer features would do.")
    elif lacking > _lacking_flags(X, _of_categories(estimator)):
        columns, superfluous = _table_inputs(estimator), lacking - _lacking_flags(X, _of_categories(estimator))
        given, lost = (D, lacking) if columns is None else (columns, superfluous)
        found.remarks.append(
            f"The {given} inputs span only {_dimensions(given - lost)}{of_sample(posterior)}: some follow from the others."
        )
    return found


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
