"""Which rows of a table a model was fitted to: their errors are no test of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldgp.data.scaling import Standardizer
from manifoldgp.errors import FileFormatError

if TYPE_CHECKING:
    from manifoldgp.data.encoding import TableEncoding


@dataclass(frozen=True)
class FitRows:
    """The rows that a fitted model keeps, as it sees them.

    X (N, C), Y (N, O): standardised; of targets with rows of their own, those of the first, O = 1. inputs, offset and scale (O,): how rows of a table become such.
    sample: whether the fit had more rows, as that of a sparse model has.
    """

    X: np.ndarray
    Y: np.ndarray
    inputs: Standardizer
    offset: np.ndarray
    scale: np.ndarray
    encoding: TableEncoding | None
    sample: bool

    @classmethod
    def of_targets(
        cls,
        kept: Sequence[tuple[np.ndarray, np.ndarray]],
        units: Sequence[tuple[float, float]],
        inputs: Standardizer,
        encoding: TableEncoding | None,
        rows: int,
    ) -> FitRows:
        """kept: standardised inputs and targets of each target's rows. units: offset and scale of each target. rows: of the fit."""
        alike = all(len(y) == len(kept[0][1]) for _, y in kept)
        used = range(len(kept) if alike else 1)
        offset, scale = np.array([units[o] for o in used]).T
        X, Y = kept[0][0], np.column_stack([kept[o][1] for o in used])
        return cls(X, Y, inputs, offset, scale, encoding, rows > len(Y))

    @classmethod
    def of_file(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], encoding: TableEncoding | None) -> FitRows:
        """Those of a model file, from its header and the tensors that :func:`is_kept` names; refuses what does not fit together."""
        told = header["ensembles"]
        kept = [(arrays[f"ensemble{o}.X"], arrays[f"ensemble{o}.y"]) for o in range(len(told))]
        inputs = Standardizer(arrays["x.offset"], arrays["x.scale"], arrays.get("x.place", np.empty(0, dtype=np.int64)))
        units = np.array([(one["offset"], one["scale"]) for one in told], dtype=np.float64)
        fits = len(inputs.offset) == len(inputs.scale) and inputs.place.ndim == 1 and inputs.place.dtype.kind == "i"
        fits = fits and all(X.shape == (len(y), len(inputs.columns)) and y.ndim == 1 for X, y in kept)
        if not (fits and np.isfinite(units).all() and (units[:, 1] > 0).all()):
            raise FileFormatError("The file's training rows do not fit its inputs and targets. It is damaged or forged.")
        rows = told[0]["rows"][0]
        return cls.of_targets(kept, units.tolist(), inputs, encoding, len(kept[0][1]) if rows is None else int(rows))

    def among(self, A: np.ndarray, Y: np.ndarray, labels: Iterable[object] | None = None) -> int:
        """How many of the rows A (n, D), Y (n,) or (n, O), are rows of the fit, or equal to such. NaN of A are filled in as at the fit; rows where that cannot be are not counted.

        labels (n,): of the groups that the rows are of. Those of a group that the fit had no row of are none of its rows, whatever they are equal to.

        Columns whose categories became effects on the target are left out of the comparison: training rows have effects of their own.
        """
        given = np.reshape(Y, (len(A), -1))[:, : len(self.offset)]
        if self.encoding is not None:
            old = ~self.encoding.in_new_groups(labels, len(A))
            A, given = A[old], given[old]
        gaps = np.isnan(A).any(1)
        if gaps.any() and self.encoding is not None and self.encoding.donors is not None:
            A = A.copy()
            A[gaps] = self.encoding.filled_in(A[gaps])[0][:, -1]
            gaps = np.isnan(A).any(1)
        same = self._not_of_levels()
        asked = np.column_stack([self.inputs.apply(A[~gaps])[:, same], (given[~gaps] - self.offset) / self.scale])
        looked_for = set(_each(asked))
        found = {row for row in _each(np.column_stack([self.X[:, same], self.Y])) if row in looked_for}
        return sum(row in found for row in _each(asked))

    def in_words(self, seen: int, of: int) -> str:
        """What is to be known where the model was fitted to so many of the rows that are to judge it."""
        which = f"{'at least ' * self.sample}{seen:,} of these {of:,} rows (or to equal ones)" if seen < of else "these rows"
        return f"The model was fitted to {which}: errors on new ones are larger."

    def _not_of_levels(self) -> np.ndarray:
        """Which columns (C,) that the model sees are not effects of categories."""
        seen = self.inputs.columns
        if self.encoding is None:
            return np.ones(len(seen), dtype=bool)
        of_levels = [np.full(len(column.names), column.kind == "levels") for column in self.encoding.columns]
        return ~np.concatenate(of_levels)[seen]


def is_kept(tensor: str) -> bool:
    """Whether `FitRows.of_file` looks at this tensor of a model file."""
    return tensor in ("x.offset", "x.scale", "x.place") or (tensor.startswith("ensemble") and tensor.endswith((".X", ".y")))


def _each(rows: np.ndarray) -> Iterator[bytes]:
    """Each row (n, C) as something to compare, up to rounding."""
    return (row.tobytes() for row in rows.astype(np.float32) + np.float32(0.0))  # −0 becomes 0
